"""The folders that FMUs are unpacked to, which never stay behind."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import fmpy

try:
    import fcntl
except ImportError:  # Windows, where the folder of a run that was killed stays behind
    fcntl = None  # type: ignore[assignment]

_PREFIX = "rigidblocks_fmu_"
_LOCK = "in_use.lock"


class Unpacked:
    """An FMU unpacked in a temporary folder, until it is removed.

    The folder is locked as long as this process lives. Folders that nobody locks, those of runs
    that were killed, are removed when the next one is made.
    """

    def __init__(self, fmu: Path):
        _remove_unused()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            fmpy.extract(str(fmu), str(self.folder))
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Removes the folder; may be repeated."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        shutil.rmtree(self.folder, ignore_errors=True)


def _remove_unused() -> None:
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # of another user, or being removed by another process
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
