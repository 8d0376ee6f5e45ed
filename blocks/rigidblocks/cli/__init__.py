"""The command `rigidblocks`."""

import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from rigidblocks.cli import beginnings, benches, files, fits, fmus, machine, pages, runs
from rigidblocks.cli.application import APP
from rigidblocks.formats.refusal import FormatError

__all__ = ["beginnings", "benches", "files", "fits", "fmus", "machine", "main", "pages", "runs"]

_INPUT = (
    ValueError,
    TypeError,
    KeyError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ImportError,  # of what is in an extra
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 1 where the run failed or what was looked at is not well, or
    2 where what was given cannot be used; errors are on stderr.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _shown
            APP(args=None if arguments is None else list(arguments), prog_name="rigidblocks")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        # what a user can mend is said in one line, with the notes that say where; of a file its own
        # line says that
        text = _told(error)
        notes = () if isinstance(error, FormatError) else getattr(error, "__notes__", ())
        print(f"rigidblocks: {text}", *notes, sep="\n", file=sys.stderr)
        return 2 if isinstance(error, _INPUT) else 1
    return 0


def _told(error: Exception) -> str:
    """What an error says, without the quotes of a KeyError and the number of an OSError."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)


def _shown(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints a warning as errors are printed, without the line of the program that gave it."""
    del category, filename, lineno, line
    print(f"rigidblocks: {message}", file=sys.stderr if file is None else file)
