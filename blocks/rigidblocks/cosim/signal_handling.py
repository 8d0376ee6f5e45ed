"""Interrupts of a run: Ctrl-C, SIGTERM, and the end of the parent process."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

# signals with other handlers, which the program has installed, keep these handlers
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupts:
    """Signal handlers that raise KeyboardInterrupt for Ctrl-C and SIGTERM.

    The first signal ends the run. Later signals are delayed until `release`, so that the result can
    be saved. Python handles signals only in the main thread, so this class has no effect in other
    threads.
    """

    def __init__(self) -> None:
        self.name = "Ctrl-C"  # name of the most recent signal
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

    def delay_interrupts(self) -> None:
        """Delay all interrupts until `release`."""
        self._holds += 1

    def release(self) -> None:
        """Stop delaying interrupts, and discard the delayed interrupts."""
        self._holds, self._waiting = 0, False

    @property
    def is_pending(self) -> bool:
        """True if an interrupt has been delayed."""
        return self._waiting

    @contextlib.contextmanager
    def delayed_interrupts(self) -> Iterator[None]:
        """Delay interrupts within this context, and raise them at its end."""
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


def exit_with_parent(parent: int) -> None:
    """End this process when the parent process ends, even during a call of an FMI function.

    `parent` is the process identifier of the parent process.
    """
    threading.Thread(target=_wait_for_parent, args=(parent,), daemon=True).start()


def _wait_for_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
