"""What is said where a file cannot be read as a robot."""

from pathlib import Path

from rigidblocks.explained import explained


class FormatError(ValueError):
    """A file is no robot, or not one that can be read: one line, with the file and, where there is
    one, the line of it.
    """


def wrong(path: str | Path, line: int | None, text: str) -> FormatError:
    """The error that says `text` of a line of a file; line breaks in it become blanks."""
    where = f"{path}:{line}" if line else str(path)
    error = FormatError(" ".join(f"{where}: {text}".split()))
    return explained(error, "what is read of files")
