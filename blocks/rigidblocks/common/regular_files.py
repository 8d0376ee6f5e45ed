"""Check of input files: reading a FIFO, a socket or a device may block forever."""

import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular_file(path: str | Path) -> None:
    """Check that a path is not a FIFO, socket or device.

    Folders and missing files are accepted.

    Raises:
        ValueError: The path is a FIFO, a socket or a device.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # the reader of the file reports the error
        return
    if kind := irregular_kind(mode):
        raise ValueError(f"'{path}' is {kind}; it must be a regular file")


def irregular_kind(mode: int) -> str:
    """Return the type of a file from its `mode`, for example "a FIFO".

    The result is "" for regular files and folders.
    """
    return _KINDS.get(stat.S_IFMT(mode), "")
