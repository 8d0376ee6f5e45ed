"""Entry point of the command `rigidblocks`, and its error messages."""

import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from rigidblocks.cli import fmu, inspect, run
from rigidblocks.cli.app import APP
from rigidblocks.common.format_error import FormatError

__all__ = ["fmu", "inspect", "main", "run"]

_INPUT = (
    ValueError,
    TypeError,
    KeyError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ImportError,  # an optional package is not installed
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; print errors to stderr.

    The exit code is 0 for success, 1 for a failed run or a failed check, and 2 for invalid input.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            APP(args=None if arguments is None else list(arguments), prog_name="rigidblocks")
    except SystemExit as end:
        _print_interrupt(end)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:
        # one line, with the notes of the error; the message of a FormatError contains the location
        text = _error_text(error)
        notes = () if isinstance(error, FormatError) else getattr(error, "__notes__", ())
        print(f"rigidblocks: {text}", *notes, sep="\n", file=sys.stderr)
        return 2 if isinstance(error, _INPUT) else 1
    return 0


def _print_interrupt(exit_error: SystemExit) -> None:
    """Print the message of the KeyboardInterrupt that caused `exit_error`; typer does not print it.

    If no KeyboardInterrupt caused `exit_error`, the function prints nothing.
    """
    cause: BaseException | None = exit_error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    if cause is not None and str(cause):
        print(f"rigidblocks: {cause}", file=sys.stderr)


def _error_text(error: Exception) -> str:
    """Return the message of an error, without the quotes of KeyError and the errno of OSError."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on one line, in the format of error messages."""
    del category, filename, lineno, line
    print(f"rigidblocks: {message}", file=sys.stderr if file is None else file)
