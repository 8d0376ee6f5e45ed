"""Digests of blocks and other objects, for use as cache keys: fingerprints and content digests.

A fingerprint (`fingerprint`) covers the types and fields of objects, and all sources of this
package. Blocks with equal fingerprints have the same C code. Objects that run code outside this
package have no fingerprint.

A content digest (`content_digest`) also covers code outside this package. Objects that compute
different values have different content digests.
"""

import _thread
import dis
import hashlib
import json
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from rigidblocks.block.block import FUNCTIONS, Block
from rigidblocks.block.integrators import INTEGRATORS, RADAU
from rigidblocks.common import package_info
from rigidblocks.common.arrays import LazyTuple
from rigidblocks.common.compiler import keep_text, known_text
from rigidblocks.common.package_info import FOLDER

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class _UnknownError(Exception):
    """Error for an object without fingerprint.

    The object has a reference cycle, or runs code outside this package.
    """


def fingerprint(*objects: Any) -> str | None:
    """Return the fingerprint of objects as a hex string.

    The result is None if an object runs code outside this package, or if a source file of the
    package has changed since the package was loaded.
    """
    sources = _sources()
    if sources is None:
        return None
    try:
        return _Digest(_integrator_digests()).digest((sources, *objects)).hex()
    except _UnknownError:
        return None


def cached_texts(generate: Callable[[], dict[str, str]], *objects: Any) -> dict[str, str]:
    """Return generated texts by name, from the cache if possible.

    The cache key is the fingerprint of `objects`. If they have no fingerprint, the texts are
    generated in each call.

    Args:
        generate: Function that returns the texts by name.
        objects: Objects that determine the texts.
    """
    key = fingerprint(*objects)
    if key and (known := known_text(key)) is not None:
        texts: dict[str, str] = json.loads(known)
        return texts
    texts = generate()
    if key:
        keep_text(key, json.dumps(texts))
    return texts


@cache
def _integrator_digests() -> Mapping[int, tuple[Any, bytes]]:
    """Return the pair (integrator, digest) of each integrator of this package, by object id.

    Pass the result to `_Digest` to avoid repeated computation. The tables of the integrators are
    constant, and they make up most of the data of a block.
    """
    return {id(one): (one, _Digest().digest(one)) for one in (*INTEGRATORS.values(), RADAU)}


def content_digest(*objects: Any) -> str:
    """Return the content digest of objects as a hex string.

    The digest covers the code and the constants that determine the values of the objects. It
    identifies the code of installed libraries by the library versions. For functions and classes of
    the user, it covers the instructions, constants, defaults, closures and globals. It does not
    cover the sources of this package; `package_digest` covers them. If an object such as a socket
    has unreadable data, the digest is valid only in this process.
    """
    return _ContentDigest().digest(objects).hex()


def package_digest() -> str:
    """Return the digest of this package and of the versions of its dependencies.

    If a source file has changed since the package was loaded, the digest is valid only in this
    process.
    """
    return (_sources() or _HERE).hex()


class _Digest:
    """Computation of object fingerprints, with a cache of the digest of each object."""

    def __init__(self, known: Mapping[int, tuple[Any, bytes]] | None = None) -> None:
        # object and digest by id; the cache keeps the objects alive, so their ids stay unique
        self._made: dict[int, tuple[Any, bytes]] = dict(known or {})

    def digest(self, value: Any) -> bytes:
        """Return the digest of an object.

        Raises:
            _UnknownError: The object has a reference cycle, or runs code outside this package.
        """
        known = self._made.get(id(value))
        if known is not None:
            if not known[1]:
                raise _UnknownError  # the object contains itself
            return known[1]
        self._made[id(value)] = value, b""
        made = hashlib.sha256(b"\0".join(self._pieces(value))).digest()
        self._made[id(value)] = value, made
        return made

    def _pieces(self, value: Any) -> Iterator[bytes]:
        yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
        if type(value) in _PLAIN:
            yield repr(value).encode()
        elif isinstance(value, np.generic | np.ndarray):
            yield from self._numbers(np.asarray(value))
        elif isinstance(value, tuple | list | LazyTuple):
            yield from map(self.digest, value)
        elif isinstance(value, Mapping):
            yield from map(self.digest, (one for item in value.items() for one in item))
        elif isinstance(value, set | frozenset):
            yield from sorted(map(self.digest, value))
        elif isinstance(value, FunctionType | type | ModuleType):
            yield _name(value).encode()
        else:
            yield from self._fields(value)

    def _numbers(self, array: Any) -> Iterator[bytes]:
        yield f"{array.dtype.str} {array.shape}".encode()
        if array.dtype.hasobject:
            yield from map(self.digest, array.ravel().tolist())
        else:
            yield array.tobytes()

    def _fields(self, value: Any) -> Iterator[bytes]:
        """Yield the class name of an object, and the name and digest of each field."""
        cls = type(value)
        yield _name(cls).encode()
        if isinstance(value, Block):
            _check_functions(cls)
        if not _has_fields(value):
            raise _UnknownError
        for name in _field_names(value):
            yield name.encode()
            yield self.digest(getattr(value, name))


class _ContentDigest(_Digest):
    """Computation of content digests of objects, including code outside this package."""

    def __init__(self) -> None:
        super().__init__()
        self._entered = list[ModuleType]()  # modules in progress; modules may import each other

    def digest(self, value: Any) -> bytes:
        known = self._made.get(id(value))
        if known is not None and not known[1]:
            return b"contains itself"
        return super().digest(value)

    def _pieces(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, MethodType):
            yield from map(self.digest, (value.__func__, value.__self__))
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from self._class(value)
        elif isinstance(value, ModuleType):
            yield _library_name(value.__name__) or _source(value.__name__)
        elif isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, BuiltinFunctionType | MethodWrapperType):
            yield value.__qualname__.encode()
            owner = value.__self__
            yield from () if isinstance(owner, ModuleType) else [self.digest(owner)]
        elif isinstance(value, property):
            yield from map(self.digest, (value.fget, value.fset))
        elif isinstance(value, staticmethod | classmethod | cached_property):
            yield self.digest(value.func if isinstance(value, cached_property) else value.__func__)
        else:
            yield from super()._pieces(value)

    def _function(self, function: FunctionType) -> Iterator[bytes]:
        """Yield the digests of a function's code and of all values that the function reads."""
        yield from map(self.digest, (function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                yield self.digest(cell.cell_contents)
            except ValueError:  # the variable has no value yet
                yield b"empty"
        if library := _library_code(function):
            yield library
            return
        yield self.digest(function.__code__)
        names = sorted(set(_names(function.__code__)))
        for name in sorted(set(_globals_read_by(function.__code__)) & function.__globals__.keys()):
            if not name.startswith("__"):
                yield name.encode()
                yield self._global(function.__globals__[name], names)
        for name in sorted(set(_modules_imported_by(function.__code__))):
            yield _library_name(name) or _source(name)

    def _global(self, value: Any, names: list[str]) -> bytes:
        """Return the digest of a global value.

        For a module of the user, the digest covers only the attributes with a name in `names`.
        """
        if not isinstance(value, ModuleType) or _library_name(value.__name__):
            return self.digest(value)
        if value in self._entered:
            return value.__name__.encode()
        self._entered.append(value)
        found = [name for name in names if name in vars(value) and not name.startswith("__")]
        digests = [(name, self._global(vars(value)[name], names)) for name in found]
        self._entered.remove(value)
        return self.digest(digests)

    def _code(self, code: CodeType) -> Iterator[bytes]:
        yield code.co_code
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)).encode()
        yield from map(self.digest, code.co_consts)

    def _class(self, cls: type) -> Iterator[bytes]:
        if library := _library_name(cls.__module__):
            yield library + cls.__qualname__.encode()
            return
        yield cls.__qualname__.encode()
        yield from map(self.digest, cls.__bases__)
        for name, value in sorted(vars(cls).items()):
            if name not in _NO_CONTENT and not hasattr(type(value), "__objclass__"):
                yield name.encode()
                yield self.digest(value)

    def _fields(self, value: Any) -> Iterator[bytes]:
        cls = type(value)
        yield self.digest(cls)
        if isinstance(value, Block):
            functions = (getattr(cls, name) for name in FUNCTIONS)
            yield from (self.digest(one) for one in functions if not _is_own(one))
        if hasattr(value, "__wrapped__"):  # for example by functools.lru_cache
            yield self.digest(value.__wrapped__)
        elif cls.__module__.partition(".")[0] == "rigidblocks" and _has_fields(value):
            for name in _field_names(value):
                yield name.encode()
                yield self.digest(getattr(value, name, None))
        elif not isinstance(value, _LOCKS):
            yield from self._pickle_content(value)

    def _pickle_content(self, value: Any) -> Iterator[bytes]:
        """Yield the digests of the data that pickle stores for an object."""
        try:
            reduced = value.__reduce_ex__(2)
        except Exception:  # classes raise various errors if pickle fails
            yield _HERE + str(id(value)).encode()
            return
        if isinstance(reduced, str):
            yield reduced.encode()
            return
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if isinstance(state, dict):
            state = {k: v for k, v in state.items() if not _is_cached(type(value), k)}
        for one in (make, arguments, state, list(items or ()), list(pairs or ())):
            yield self.digest(one)


_NO_CONTENT = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__match_args__"),
    *("__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "_abc_impl"),
    *("__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__"),
    *(
        "__replace__",
        "__signature__",
        "__parameters__",
        "__orig_bases__",
        "__hash__",
        "__slotnames__",
    ),
}  # class attributes that do not affect values
_LOCKS = (_thread.LockType, _thread.RLock)
_HERE = os.urandom(16)  # identifies this process
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})


def _library_name(module: str | None) -> bytes:
    """Return the name and version of a library module; for other modules, empty bytes."""
    top = (module or "").partition(".")[0]
    if top in ("builtins", *sys.stdlib_module_names):
        return b"" if top == "__main__" else (module or "").encode()
    if top == "rigidblocks":
        return (module or "").encode()
    loaded = sys.modules.get(top)
    file = getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", ())), "")
    if not str(file).startswith((*_LIBRARIES, *_INSTALLED)):
        return b""
    return f"{module} {getattr(loaded, '__version__', '')}".encode()


def _library_code(function: FunctionType) -> bytes:
    """Return library, version and name of a library function; empty bytes for other functions."""
    file = function.__code__.co_filename
    if file.startswith((str(FOLDER) + os.sep, *_LIBRARIES, *_INSTALLED)):
        return _library_name(function.__module__) + function.__qualname__.encode()
    return b""


def _is_own(function: Any) -> bool:
    """Return True if a function is part of this package or has no Python code."""
    code = getattr(function, "__code__", None)
    return code is None or Path(code.co_filename).is_relative_to(FOLDER)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and, recursively, the code objects of all nested functions."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a code object."""
    return (name for one in _codes(code) for name in one.co_names)


def _globals_read_by(code: CodeType) -> Iterator[str]:
    """Yield the names of the globals that the code reads."""
    for one in _codes(code):
        for step in dis.get_instructions(one):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield step.argval


def _modules_imported_by(code: CodeType) -> Iterator[str]:
    """Yield the names of the modules that the code imports when it runs."""
    for one in _codes(code):
        for step in dis.get_instructions(one):
            if step.opname == "IMPORT_NAME" and step.argval:
                yield step.argval


def _source(module: str) -> bytes:
    """Return the source code of a module, or its name if the source file cannot be read."""
    try:
        spec = find_spec(module)
        return Path((spec and spec.origin) or "").read_bytes()
    except (ImportError, ValueError, AttributeError, OSError):
        return module.encode()


def _has_fields(value: Any) -> bool:
    return is_dataclass(value) or hasattr(value, "__dict__")


def _field_names(value: Any) -> list[str]:
    """Return the field names of an object of this package."""
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    return sorted(name for name in vars(value) if not _is_cached(type(value), name))


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)


def _name(value: Any) -> str:
    """Return the full name of a class, function or module of this package.

    Raises:
        _UnknownError: The object belongs to another package, or its name refers to another object.
    """
    if isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] != "rigidblocks":
            raise _UnknownError
        return value.__name__
    found: Any = sys.modules.get(value.__module__)
    if value.__module__.partition(".")[0] != "rigidblocks":
        raise _UnknownError
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not value:
        raise _UnknownError
    return f"{value.__module__}.{value.__qualname__}"


def _check_functions(cls: type) -> None:
    """Raise _UnknownError if a block class has a function from outside this package."""
    for name in (*FUNCTIONS, "inputs", "outputs", "states", "sampled", "parameters"):
        function = getattr(cls, name)
        code = getattr(getattr(function, "fget", function), "__code__", None)
        if code is not None and not _is_in_package(code.co_filename):
            raise _UnknownError


@cache
def _is_in_package(file: str) -> bool:
    return Path(file).is_relative_to(FOLDER)


INTERVAL = 0.1  # time [s] between two searches for changed source files; a search takes 8 ms
_digests: dict[float, bytes] = {}  # digest of the sources by the time of their last change
_last: list[tuple[float, bytes | None]] = []  # time and result of the last search


def _sources() -> bytes | None:
    """Return the digest of this package's sources and of the versions of its dependencies.

    The result is None if a source file has changed since the package was loaded.
    """
    now = time.monotonic()
    if not (_last and now - _last[0][0] < INTERVAL):
        _last[:] = [(now, _search_sources())]
    return _last[0][1]


def _search_sources() -> bytes | None:
    files = (os.path.join(folder, name) for folder, _, names in os.walk(FOLDER) for name in names)
    paths = [path for path in files if path.endswith((".py", ".h", ".c"))]
    changed = max(os.stat(path).st_mtime for path in paths)
    if changed > package_info.IMPORT_TIME:
        return None
    if changed not in _digests:
        versions = (platform.python_version(), np.__version__, version("casadi"))
        digest = hashlib.sha256("\0".join((*versions, sys.platform, platform.machine())).encode())
        for path in map(Path, sorted(paths)):
            digest.update(str(path.relative_to(FOLDER)).encode() + b"\0" + path.read_bytes())
        _digests[changed] = digest.digest()
    return _digests[changed]
