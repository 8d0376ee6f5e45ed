"""Exception for invalid robot files and system files."""

import re
from pathlib import Path

from rigidblocks.common.doc_links import add_doc_link


class FormatError(ValueError):
    """Invalid robot file or system file.

    The message is a single line. It begins with the file name and, if known, the line number.
    """


def file_error(path: str | Path, line: int | None, text: str) -> FormatError:
    """Return an error whose message contains the file, the line number and `text`.

    Line breaks in the text become spaces. `line` is None if the line number is unknown.
    """
    where = f"{path}:{line}" if line else str(path)
    error = FormatError(" ".join(f"{where}: {text}".split()))
    is_system = _SYSTEM_FILE.search(str(path))
    return add_doc_link(error, "system files" if is_system else "robot files")


_SYSTEM_FILE = re.compile(r"\.(ssp|ssd|ssv|ssm|ssb)$|OspSystemStructure", re.IGNORECASE)
