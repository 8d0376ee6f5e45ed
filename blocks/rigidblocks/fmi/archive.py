"""Reproducible FMU archives: the same content gives the same bytes."""

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold


def write_archive(path: str | Path, content: Mapping[str, bytes], *, deflate: bool = False) -> Path:
    """Writes a zip archive of `content`, bytes by path, sorted and without times; replaces the file
    whole or not at all.

    Nothing is compressed unless asked for by `deflate`: what compression makes of the same content
    depends on the version of the library that does it.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError as error:
        why = f"no file can be made in the folder '{path.parent}'"
        raise type(error)(f"cannot write '{path}': {why}: {error.strerror}") from None
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w") as archive,
        ):
            for name in sorted(content):
                entry = zipfile.ZipInfo(name, _EARLIEST)
                entry.create_system = 3  # Unix, whatever made it
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
                archive.writestr(entry, content[name])
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
