"""Errors of robot files and system files that cannot be read."""

import re
from pathlib import Path

from rigidblocks.common.doc_links import with_doc_link


class FormatError(ValueError):
    """Error: a file is not a readable robot or system.

    The message is one line with the file and, if known, the line number.
    """


def file_error(path: str | Path, line: int | None, text: str) -> FormatError:
    """Return the error with the message `text` at a line; line breaks become spaces."""
    where = f"{path}:{line}" if line else str(path)
    error = FormatError(" ".join(f"{where}: {text}".split()))
    is_system = _SYSTEM_FILE.search(str(path))
    return with_doc_link(error, "system files" if is_system else "robot files")


_SYSTEM_FILE = re.compile(r"\.(ssp|ssd|ssv|ssm|ssb)$|OspSystemStructure", re.IGNORECASE)
