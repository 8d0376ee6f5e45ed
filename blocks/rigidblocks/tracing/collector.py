"""Python's search for garbage in circles, which waits while much is made that is kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_waits() -> Iterator[None]:
    """No search for garbage inside: of a hundred thousand statements none is garbage, and looking
    through them again and again takes a third of the time of making them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
