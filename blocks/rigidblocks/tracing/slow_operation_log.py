"""What a long wait is for, told while it lasts.

The logger `rigidblocks.waits` tells it at the level INFO, on stderr unless the program has set up
logging of its own; `logging.getLogger("rigidblocks.waits").setLevel("WARNING")` silences it.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before anything is said

logger = logging.getLogger("rigidblocks.waits")


class _LastResort(logging.Handler):
    """Writes to the stderr of the moment what no handler of the program hears."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger("rigidblocks").hasHandlers():
            print(f"rigidblocks: {record.getMessage()}", file=sys.stderr, flush=True)


logger.addHandler(_LastResort())
if logger.level == logging.NOTSET:
    logger.setLevel(logging.INFO)


@contextmanager
def told(what: str, forecast: str = "") -> Iterator[None]:
    """Says what is done and how long that should take when it takes longer than a second, and how
    long it took in the end.
    """
    start = time.perf_counter()
    timer = threading.Timer(PATIENCE, logger.info, (f"{what}{forecast and f', {forecast}'} ...",))
    timer.daemon = True  # it keeps no program alive
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if (seconds := time.perf_counter() - start) > PATIENCE:
            logger.info("%s took %.0f s", what, seconds)
