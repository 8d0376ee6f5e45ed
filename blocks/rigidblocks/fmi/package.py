"""The source files of Python packages, as they go into an FMU."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import rigidblocks


def package_sources(folder: str | Path) -> dict[str, bytes]:
    """The files of a package by their path in it, without what is compiled from them."""
    files = (
        path
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def digest(content: Mapping[str, bytes]) -> str:
    """A name for content, bytes by path, that no other content has: 16 hexadecimal digits."""
    sha = hashlib.sha256()
    for name, data in sorted(content.items()):
        sha.update(f"{name}\0{len(data)}\0".encode() + data)
    return sha.hexdigest()[:16]


def sources_digest(folder: str | Path = Path(rigidblocks.__file__).parent) -> str:
    """The digest of a package's files, by default of the running rigidblocks."""
    return digest(package_sources(folder))
