"""Robots of PyPI's example-robot-data."""

import sys
from pathlib import Path

FOLDER = next(
    (
        folder
        for path in sys.path
        if (folder := Path(path) / "cmeel.prefix/share/example-robot-data/robots").is_dir()
    ),
    None,
)


def published(suffix):
    """Return the files with this suffix, in alphabetical order, by their path in the package."""
    if FOLDER is None:
        return {}
    return {p.relative_to(FOLDER).as_posix(): p for p in sorted(FOLDER.rglob(f"*{suffix}"))}
