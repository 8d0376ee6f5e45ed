"""Log messages about operations that take more than one second.

The logger `rigidblocks.waits` writes the messages at the level INFO. If the program does not
configure logging, the messages appear on stderr. To suppress the messages, call
`logging.getLogger("rigidblocks.waits").setLevel("WARNING")`.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # [s] duration of an operation before the first message

logger = logging.getLogger("rigidblocks.waits")


class _LastResort(logging.Handler):
    """Log handler that writes to stderr if the program has no log handler."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger("rigidblocks").hasHandlers():
            print(f"rigidblocks: {record.getMessage()}", file=sys.stderr, flush=True)


logger.addHandler(_LastResort())
if logger.level == logging.NOTSET:
    logger.setLevel(logging.INFO)


@contextmanager
def log_if_slow(operation: str, forecast: str = "") -> Iterator[None]:
    """Log a message if the operation in the context takes more than one second.

    At the end of the operation, a second message reports its duration.

    Args:
        operation: Description of the operation.
        forecast: Expected duration for the first message.
    """
    start = time.perf_counter()
    timer = threading.Timer(
        PATIENCE, logger.info, (f"{operation}{forecast and f', {forecast}'} ...",)
    )
    timer.daemon = True  # the timer does not keep the program alive
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if (seconds := time.perf_counter() - start) > PATIENCE:
            logger.info("%s took %.0f s", operation, seconds)
