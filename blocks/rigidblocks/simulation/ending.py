"""How runs end: with a result, saved where that is asked for, or with an error that carries it."""

import contextlib

from rigidblocks.explained import explained
from rigidblocks.simulation.interrupts import Interrupts
from rigidblocks.simulation.network import said
from rigidblocks.simulation.recording import Wanted
from rigidblocks.simulation.result import Result


class SimulationError(RuntimeError):
    """A run that could not go on; `result` has what there is up to then."""

    def __init__(self, message: str, result: Result):
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """A run that Ctrl-C ended; `result` has what there is up to then."""

    def __init__(self, message: str, result: Result):
        super().__init__(message)
        self.result = result


def saved(
    result: Result, wanted: Wanted, unwritten: Exception | None, interrupts: Interrupts
) -> BaseException | None:
    """Makes the file of a result, where that is not the log; returns why it is not there or not
    whole.
    """
    if wanted.save is None:
        return None
    if wanted.save == wanted.log:
        return unwritten
    try:
        if wanted.log is not None:  # which keeps the record when this is interrupted
            interrupts.release()
        try:
            result.save(wanted.save)
        finally:
            interrupts.hold_back()
    except (Exception, KeyboardInterrupt) as error:
        return error
    if wanted.log is not None:
        with contextlib.suppress(OSError):  # Windows removes no file that is mapped
            wanted.log.unlink()
    return None


def ending(
    failure: BaseException | None,
    unsaved: BaseException | None,
    wanted: Wanted,
    signal: str,
    t: float,
    result: Result,
) -> SimulationError | Interrupted:
    """The exception for a run that failed or could not be saved whole."""
    by_signal = isinstance(failure, KeyboardInterrupt)
    ended = f"{signal} ended the run" if by_signal else "the run stopped"
    text = f"{ended} at t = {t:g} s" if failure else f"the run came to its end at t = {t:g} s"
    if failure is not None and not by_signal:
        text += f": {said(failure)}"
    if unsaved is not None and not (failure and said(failure) == said(unsaved)):
        why = signal if isinstance(unsaved, KeyboardInterrupt) else said(unsaved)
        text += f"; it could not be saved to '{wanted.save}' ({why})"
    if unsaved is not None and wanted.log is not None and wanted.log.exists():
        text += f"; its record is in '{wanted.log}'"
    interrupted = by_signal or isinstance(unsaved, KeyboardInterrupt)
    if interrupted:
        return Interrupted(text, result)
    error = SimulationError(text, result)
    for note in getattr(failure, "__notes__", ()):
        error.add_note(note)
    is_lost = failure is not None and "finite" in said(failure)
    return explained(error, "numbers that are not finite") if is_lost else error
