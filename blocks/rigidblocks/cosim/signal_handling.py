"""What ends a run from outside: Ctrl-C, SIGTERM, and the end of the process that started it."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

# what the program has made of one of them itself is left as it is
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupts:
    """Makes SIGTERM a KeyboardInterrupt like Ctrl-C, and holds both back where they would do harm.

    The first one ends the run; later ones wait until `release`, so that they take nothing of what
    is there. Outside of the main thread Python has no signals, and nothing changes.
    """

    def __init__(self) -> None:
        self.name = "Ctrl-C"  # of the last signal
        self._before: dict[signal.Signals, Any] = {}
        self._holds, self._waiting = 0, False

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number, default in _DEFAULTS.items():
                if signal.getsignal(number) == default:
                    self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hold_back(self) -> None:
        """From now on none interrupts."""
        self._holds += 1

    def release(self) -> None:
        """From now on they interrupt again; those that came before are done with."""
        self._holds, self._waiting = 0, False

    @property
    def came(self) -> bool:
        """Whether one has been held back."""
        return self._waiting

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """None interrupts what is done in this context; one that comes interrupts after it."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        if self._waiting and not self._holds:
            self._waiting, self._holds = False, 1
            raise KeyboardInterrupt

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        if self._holds:
            self._waiting = True
            return
        self._holds += 1
        raise KeyboardInterrupt


def end_with(parent: int) -> None:
    """From now on this process ends, also in the midst of a call, once the one that started it is
    gone.
    """
    threading.Thread(target=_wait_for_the_end_of, args=(parent,), daemon=True).start()


def _wait_for_the_end_of(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
