"""What a block is, as a digest: what has the same one is traced to the same C.

It takes the types and the fields of objects, and the sources of this package, whose functions they
run. For what runs other code there is none.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import rigidblocks
from rigidblocks.block.block import FUNCTIONS, Block

_PACKAGE = Path(rigidblocks.__file__).parent
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class _UnknownError(Exception):
    """There is something whose code is not known."""


def fingerprint(*things: Any) -> str | None:
    """The digest of things; None where it is not known what all of their code is."""
    sources = _sources()
    if sources is None:
        return None
    try:
        return _Digest().of((sources, *things)).hex()
    except _UnknownError:
        return None


class _Digest:
    """Digests of objects, each made once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, bytes]] = {}  # with the object, so that its id stays its

    def of(self, thing: Any) -> bytes:
        """The digest of a thing."""
        known = self._made.get(id(thing))
        if known is not None:
            if not known[1]:
                raise _UnknownError  # it has itself in it
            return known[1]
        self._made[id(thing)] = thing, b""
        made = hashlib.sha256(b"\0".join(self._pieces(thing))).digest()
        self._made[id(thing)] = thing, made
        return made

    def _pieces(self, thing: Any) -> Iterator[bytes]:
        yield f"{type(thing).__module__}.{type(thing).__qualname__}".encode()
        if type(thing) in _PLAIN:
            yield repr(thing).encode()
        elif isinstance(thing, np.generic | np.ndarray):
            yield from self._numbers(np.asarray(thing))
        elif isinstance(thing, tuple | list):
            yield from map(self.of, thing)
        elif isinstance(thing, Mapping):
            yield from map(self.of, (one for item in thing.items() for one in item))
        elif isinstance(thing, set | frozenset):
            yield from sorted(map(self.of, thing))
        elif isinstance(thing, FunctionType | type | ModuleType):
            yield _name(thing).encode()
        else:
            yield from self._fields(thing)

    def _numbers(self, array: Any) -> Iterator[bytes]:
        yield f"{array.dtype.str} {array.shape}".encode()
        if array.dtype.hasobject:
            yield from map(self.of, array.ravel().tolist())
        else:
            yield array.tobytes()

    def _fields(self, thing: Any) -> Iterator[bytes]:
        """What an object of a class of this package is made of."""
        cls = type(thing)
        yield _name(cls).encode()
        if isinstance(thing, Block):
            _check_functions(cls)
        if is_dataclass(thing):
            names = [field.name for field in fields(thing)]
        elif hasattr(thing, "__dict__"):
            kept = (name for name in vars(thing) if not _is_cached(cls, name))
            names = sorted(kept)
        else:
            raise _UnknownError
        for name in names:
            yield name.encode()
            yield self.of(getattr(thing, name))


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)


def _name(thing: Any) -> str:
    """The name of a class, function or module of this package, under which it is found."""
    if isinstance(thing, ModuleType):
        if thing.__name__.partition(".")[0] != "rigidblocks":
            raise _UnknownError
        return thing.__name__
    found: Any = sys.modules.get(thing.__module__)
    if thing.__module__.partition(".")[0] != "rigidblocks":
        raise _UnknownError
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not thing:
        raise _UnknownError
    return f"{thing.__module__}.{thing.__qualname__}"


def _check_functions(cls: type) -> None:
    """Raises _UnknownError where a function of a block has been replaced by one from elsewhere."""
    for name in (*FUNCTIONS, "inputs", "outputs", "states", "sampled", "parameters"):
        function = getattr(cls, name)
        code = getattr(getattr(function, "fget", function), "__code__", None)
        if code is not None and not Path(code.co_filename).is_relative_to(_PACKAGE):
            raise _UnknownError


_digests: dict[float, bytes] = {}  # of the sources, by the time of the last change


def _sources() -> bytes | None:
    """The digest of the sources of this package and of the versions of what it uses; None where a
    source has changed since it was loaded.
    """
    files = (os.path.join(folder, name) for folder, _, names in os.walk(_PACKAGE) for name in names)
    paths = [path for path in files if path.endswith((".py", ".h", ".c"))]
    changed = max(os.stat(path).st_mtime for path in paths)
    if changed > rigidblocks.__loaded__:
        return None
    if changed not in _digests:
        versions = (platform.python_version(), np.__version__, version("casadi"))
        digest = hashlib.sha256("\0".join((*versions, sys.platform, platform.machine())).encode())
        for path in map(Path, sorted(paths)):
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
        _digests[changed] = digest.digest()
    return _digests[changed]
