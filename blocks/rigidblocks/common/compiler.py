"""Compilation of C code to shared libraries, with a cache of compiled libraries.

Only the owner can write to the cache folders, and each library is checked before it is loaded. The
file name of a library is `<key>-<digest>.so`. The key identifies the sources of the library, and
the digest identifies its content. A complete file is renamed to this name, so several processes may
use a folder at the same time.

Long code is divided into translation units that are compiled in parallel. For this purpose, pieces
of long functions are moved to separate files. The results of the code do not change.
"""

import hashlib
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path

from rigidblocks.common.optional_imports import install_command
from rigidblocks.common.slow_operation_log import log_if_slow

_DIGITS = 32  # length of a key and of a digest
_SUFFIX, _UNFINISHED = ".so", ".part"
_TEXT = ".txt"  # suffix of cached strings
OLD = 3600.0  # age [s] from which an unfinished file counts as left by a killed process

logger = logging.getLogger("rigidblocks")


class CacheError(RuntimeError):
    """Error raised if no folder can store compiled libraries."""


def digest(content: bytes) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 hash of bytes."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def cache_folder() -> Path:
    """Return the folder of compiled libraries, $RIGIDBLOCKS_CACHE or the user's cache folder."""
    return Path(os.environ.get("RIGIDBLOCKS_CACHE") or user_cache_path("rigidblocks"))


def spare_folder() -> Path:
    """Return the temporary folder of the current user that replaces an unusable cache folder."""
    return Path(tempfile.gettempdir()) / f"rigidblocks-{_user()}"


def cached_library(key: str, build: Callable[[], bytes]) -> Path:
    """Return the path of a library in the cache; build the library if it is not in the cache.

    The function uses a cached library only if the content of the file is unchanged. If the
    temporary folder `spare_folder()` replaces the cache folder, the function issues one warning.

    Args:
        key: Key, which identifies the sources of the library.
        build: Function that returns the bytes of the library.

    Raises:
        CacheError: Neither the cache folder nor the spare folder can be used.
    """
    folders = (cache_folder(), spare_folder())
    reasons = {folder: reason for folder in folders if (reason := folder_refusal(folder))}
    for folder in folders:
        if folder not in reasons and (path := _find(folder, key)):
            _warn_of(reasons, folder)
            return path
    content = build()
    for folder in folders:
        if folder not in reasons:
            try:
                path = _store(folder, key, content)
            except OSError as error:
                reasons[folder] = error.strerror or str(error)
            else:
                _warn_of(reasons, folder)
                return path
    details = "; ".join(f"{folder}: {reason}" for folder, reason in reasons.items())
    raise CacheError(
        f"no folder can store compiled libraries ({details}); set RIGIDBLOCKS_CACHE to a usable "
        "folder"
    )


def known_text(key: str) -> str | None:
    """Return the string that is cached under a key, or None if the key is unknown."""
    for folder in (cache_folder(), spare_folder()):
        if not folder_refusal(folder) and (path := _find(folder, key, _TEXT)):
            return path.read_text()
    return None


def keep_text(key: str, text: str) -> None:
    """Store a string under a key in the first usable cache folder; ignore write errors."""
    for folder in (cache_folder(), spare_folder()):
        if not folder_refusal(folder):
            with suppress(OSError):
                _store(folder, key, text.encode(), _TEXT)
                return


def known_library(key: str) -> Path | None:
    """Return the path of the library that is cached under a key.

    The result is None if the key is unknown or the library is damaged.
    """
    for folder in (cache_folder(), spare_folder()):
        if not folder_refusal(folder) and (path := _find(folder, key)):
            return path
    return None


def key_of(library: Path) -> str:
    """Return the key in the file name of a cached library."""
    return library.stem.partition("-")[0]


def folder_refusal(folder: Path) -> str | None:
    """Return the reason why a folder cannot be used as a cache.

    The result is None if the folder can be used or does not exist.
    """
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    runs_no_code = hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC
    return _reason_to_distrust(found) or (
        "does not run code (mounted noexec)" if runs_no_code else None
    )


class Entry(NamedTuple):
    """Library file in the cache.

    Attributes:
        path: Path of the file.
        size: Size of the file [bytes].
        damage: Reason why the library cannot be used, or None.
    """

    path: Path
    size: int
    damage: str | None


def cache_entries(folder: Path) -> Iterator[Entry]:
    """Yield all libraries in a cache folder, including damaged libraries.

    The result does not include libraries of earlier versions, whose names have no digest;
    `clear_cache` removes them, too.
    """
    for path in sorted(folder.glob(f"*-*{_SUFFIX}")):
        with suppress(FileNotFoundError):  # another process is clearing the folder
            yield Entry(path, path.lstat().st_size, _damage(path))


def clear_cache(folder: Path) -> int:
    """Remove all libraries, text files and unfinished files in a cache folder; return their number.

    Processes that have loaded a library can continue to use the library.

    Raises:
        OSError: The folder cannot be changed.
    """
    files = [path for suffix in (_SUFFIX, _TEXT, _UNFINISHED) for path in folder.glob(f"*{suffix}")]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


_RESOLUTION = 100_000_000  # [ns] two changes within the resolution of a file system look the same
# files whose content was checked, with their status at that time, by folder, key and suffix
_checked: dict[tuple[Path, str, str], tuple[Path, tuple[int, ...]]] = {}


def _find(folder: Path, key: str, suffix: str = _SUFFIX) -> Path | None:
    """Return the file for a key in a cache folder, or None if it does not exist or is damaged.

    The function checks the content of a file again only if the status of the file has changed.
    """
    known = _checked.get((folder, key, suffix))
    if known is not None and _file_status(known[0]) == known[1]:
        return known[0]
    damaged = None
    for path in _files_of_key(folder, key, suffix):
        status = _file_status(path)
        damage = _damage(path)
        if damage is None:
            if status is not None and time.time_ns() - status[-1] > _RESOLUTION:
                _checked[folder, key, suffix] = path, status
            return path
        damaged = f"{path} {damage}"
    if damaged:
        logger.warning("recompiling a damaged library: %s", damaged)
    return None


def _file_status(path: Path) -> tuple[int, ...] | None:
    """Return the device, inode, mode, owner, size and times of a file, or None for a missing file.

    A change of the content, the owner or the mode changes this tuple.
    """
    try:
        found = path.lstat()
    except OSError:
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    return found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_size, *times


def _files_of_key(folder: Path, key: str, suffix: str) -> list[Path]:
    """Return the files for a key in a cache folder.

    A search with a glob pattern would take several times longer.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    begin = f"{key}-"
    return [folder / name for name in names if name.startswith(begin) and name.endswith(suffix)]


def _damage(path: Path) -> str | None:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            return "is not a regular file"
        if distrust := _reason_to_distrust(found):
            return distrust
        whole = digest(path.read_bytes()) == path.stem.rpartition("-")[2]
    except OSError as error:
        return error.strerror or str(error)
    return None if whole else "differs from the compiled library"


def _store(folder: Path, key: str, content: bytes, suffix: str = _SUFFIX) -> Path:
    """Store content under a key in a cache folder, and return the path of the file.

    The function writes a temporary file, and renames the file when it is complete.

    Raises:
        OSError: The folder cannot be used.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if reason := folder_refusal(folder):  # another process may have created the folder meanwhile
        raise PermissionError(f"{folder} {reason}")
    _remove_old(folder)
    path = folder / f"{key}-{digest(content)}{suffix}"
    # mkstemp creates a file that only the owner can read and write
    handle, unfinished = tempfile.mkstemp(dir=folder, suffix=_UNFINISHED)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return path


def _remove_old(folder: Path) -> None:
    for path in folder.glob(f"*{_UNFINISHED}"):
        with suppress(OSError):  # another process may have removed the file
            if time.time() - path.lstat().st_mtime > OLD:
                path.unlink()


def _reason_to_distrust(status: os.stat_result) -> str | None:
    """Return the reason why another user may have written a file, or None.

    `status` is the status of the file. On systems without file owners, the result is None.
    """
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "is writable by other users"
    return None


def _user() -> str:
    return str(os.geteuid()) if hasattr(os, "geteuid") else os.environ.get("USERNAME", "user")


def _warn_of(reasons: dict[Path, str], used: Path) -> None:
    for folder, reason in reasons.items():
        _warn_once(folder, reason, used)


@cache
def _warn_once(folder: Path, reason: str, used: Path) -> None:
    warnings.warn(
        f"the cache of compiled libraries {folder} is not used ({reason}); {used} is used "
        "instead; run `rigidblocks doctor` for details",
        RuntimeWarning,
        stacklevel=2,
    )


# prefix that marks a piece of a long function; such pieces may be moved to a separate unit
APART = "#if defined(__GNUC__)\n__attribute__((noinline))\n#endif\n"
UNIT = 4000  # smallest size of a unit, in statements
MOST = 4  # maximum number of units including the main file, equal on all machines
_STATEMENT, _END = ";\n", "\n}\n"
_HIDDEN = '#if defined(__GNUC__)\n__attribute__((visibility("hidden")))\n#endif\n'
# call of a static lookup table, matrix product or traced function
_STATIC_CALL = re.compile(r"(?:entry|reached|product|called)_[0-9a-f]{16}\(")
# pragmas that apply to a complete file, and therefore also to its pieces
_PUSHED, _POPPED = (
    re.compile(
        rf"^#if defined\(__clang__\)\n#pragma clang attribute {word}.*?^#endif\n", re.M | re.S
    )
    for word in ("push", "pop")
)


class _Piece(NamedTuple):
    """C function that may be moved to another translation unit.

    Attributes:
        head: Head of the function definition without `static`.
        body: Body of the function.
    """

    head: str
    body: str

    @property
    def size(self) -> int:
        return self.body.count(_STATEMENT)

    @property
    def declared(self) -> str:
        return f"{_HIDDEN}{self.head};\n"

    @property
    def defined(self) -> str:
        return f"{self.declared}{self.head}{self.body}"


def split_translation_units(sources: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Divide long C sources into translation units.

    `sources` maps file names to source text.

    Returns:
        Text of the changed and added files by file name, and names of the added files.
    """
    total = sum(text.count(_STATEMENT) for text in sources.values())
    if total < 2 * UNIT:
        return dict(sources), ()
    parts = {name: list(_parts(text)) for name, text in sources.items()}
    pieces = [one for own in parts.values() for one in _pieces(own)]
    number = min(MOST, total // UNIT, len(pieces) + 1)
    unit_of = _assign_units(pieces, total, number)
    texts = {
        name: "".join(
            one if isinstance(one, str) else _text_in_source_file(one, unit_of) for one in own
        )
        for name, own in parts.items()
    }
    units = {
        f"unit_{unit}.c": "#include <math.h>\n"
        + "".join(
            _unit(sources[name], [one for one in _pieces(own) if unit_of[one] == unit])
            for name, own in parts.items()
        )
        for unit in range(1, number)
    }
    return texts | units, tuple(units)


def _parts(text: str) -> Iterator[str | _Piece]:
    """Divide the text of a C source into movable functions (`_Piece`) and other code (`str`).

    A movable function may be compiled in another translation unit.
    """
    first, *others = text.split(APART)
    yield first
    for other in others:
        head, _, rest = other.partition("\n{\n")
        body, _, following = rest.partition(_END)
        if not head.startswith("static void ") or _STATIC_CALL.search(body) or "real" in head:
            yield APART + other
            continue
        yield _Piece(head.removeprefix("static "), f"\n{{\n{body}{_END}")
        yield following


def _pieces(parts: Iterable[str | _Piece]) -> list[_Piece]:
    return [one for one in parts if isinstance(one, _Piece)]


def _assign_units(pieces: Iterable[_Piece], total: int, number: int) -> dict[_Piece, int]:
    """Assign pieces to translation units of about equal size.

    The result is the unit index of each piece. Unit 0 is the main file, which also contains the
    code outside the pieces. `total` is the number of statements in all code, and `number` is the
    number of units.
    """
    ordered = sorted(pieces, key=lambda piece: -piece.size)
    filled = [total - sum(one.size for one in ordered), *[0] * (number - 1)]
    unit_of = {}
    for one in ordered:
        unit_of[one] = unit = filled.index(min(filled))
        filled[unit] += one.size
    return unit_of


def _text_in_source_file(piece: _Piece, unit_of: Mapping[_Piece, int]) -> str:
    """Return the code of a piece in its source file after the division into translation units.

    The code is the complete function for a piece in unit 0, and a declaration for any other piece.
    """
    if unit_of[piece] == 0:
        return f"{APART}static {piece.head}{piece.body}"
    return piece.declared


def _unit(text: str, pieces: Iterable[_Piece]) -> str:
    """Return the C code of a translation unit with the functions `pieces`.

    The code repeats the clang pragmas of the source `text`, because they apply to a whole file.
    """
    defined = "".join(dict.fromkeys(one.defined for one in pieces))
    pushed, popped = _PUSHED.search(text), _POPPED.search(text)
    if defined and pushed and popped:
        return pushed.group() + defined + popped.group()
    return defined


OPTIMIZATION = f"-O{os.environ.get('RIGIDBLOCKS_OPTIMIZE') or 2}"
# Floating-point contraction is disabled, so that processors with and without fused multiply-add
# compute the same values.
PORTABLE_FLAGS = (
    "-std=c99",
    OPTIMIZATION,
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
)
SPEED = 5000.0  # compile speed of gcc and clang [statements/s], for time estimates
_BUILD = "rigidblocks-build-"  # prefix of the build folders
_ZIG = (sys.executable, "-m", "ziglang", "cc")
SHARED_FLAGS = (
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-s",
)  # -s: the library does not contain the path of the build folder


class CompilerError(RuntimeError):
    """Error raised if the C compiler is missing or fails."""


@cache
def compiler() -> tuple[str, ...]:
    """Return the command of the C compiler.

    The command is $CC, else cc, gcc or clang on the PATH, else the compiler of the `ziglang`
    package.

    Raises:
        CompilerError: No C compiler is installed.
    """
    if command := os.environ.get("CC"):
        return tuple(command.split())
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return (path,)
    if find_spec("ziglang"):
        return (*_ZIG, "-mcpu=baseline")  # by default zig optimizes for this processor only
    raise CompilerError(
        f"no C compiler: install one (cc on the PATH), or `{install_command('ziglang')}`, or set CC"
    )


def kernel_compiler() -> tuple[str, ...]:
    """Return the C compiler command for generated code.

    The command is clang if clang is installed and $CC is not set, else the result of `compiler`.
    Code that clang compiles runs faster than code that gcc compiles, and the results are
    bit-identical. For code without loops, clang needs a half to a third of the compile time of gcc.
    """
    clang = None if os.environ.get("CC") else shutil.which("clang")
    return (clang,) if clang else compiler()


def cross_compiler(target: str) -> tuple[str, ...]:
    """Return the command of the `ziglang` C compiler for a target such as aarch64-linux-gnu.2.17.

    Raises:
        CompilerError: The package `ziglang` is not installed.
    """
    if not find_spec("ziglang"):
        raise CompilerError(f"no C compiler for {target}: `{install_command('ziglang')}`")
    return (*_ZIG, "-target", target)


def time_limit() -> float:
    """Return the time limit of a compiler run [s].

    The limit is $RIGIDBLOCKS_COMPILE_TIME, by default 1800 s.

    Raises:
        CompilerError: $RIGIDBLOCKS_COMPILE_TIME is not a positive number.
    """
    text = os.environ.get("RIGIDBLOCKS_COMPILE_TIME") or "1800"
    with suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    raise CompilerError(
        f"RIGIDBLOCKS_COMPILE_TIME must be a positive number of seconds, not '{text}'"
    )


def shared_library(
    sources: Mapping[str, str],
    main: str,
    flags: tuple[str, ...] = PORTABLE_FLAGS,
    command: tuple[str, ...] | None = None,
    *,
    name: str = "library.so",
    link: tuple[str, ...] = ("-lm",),
) -> Path:
    """Return the path of a shared library for a C file; compile it if it is not in the cache.

    Args:
        sources: Content of each file, by file name.
        main: Name of the C file to compile, a key of `sources`.
        flags: Compiler flags.
        command: Compiler command; by default the result of `compiler`.
        name: File name of the compiler output; on some platforms, the library contains this name.
        link: Linker flags.

    Raises:
        CompilerError: The compiler fails; the message contains the compiler output.
        CacheError: No folder can store the library.
    """
    command = command or compiler()
    options = (*flags, *SHARED_FLAGS, main, "-o", name, *link)
    texts = (part for item in sorted(sources.items()) for part in item)
    key = digest("\0".join((*command, version(command), *options, *texts)).encode())
    return cached_library(key, lambda: _build_library(sources, main, command, options))


def run_compiler(command: tuple[str, ...], folder: str | Path) -> str:
    """Run a compiler command in a folder and return its standard output.

    Raises:
        CompilerError: The command fails, does not start, or exceeds the time limit. The message
            contains the compiler output.
    """
    return _run([command], folder)[0]


def _run(commands: Sequence[tuple[str, ...]], folder: str | Path) -> list[str]:
    """Run compiler commands in a folder in parallel, and return their standard outputs.

    The function raises the exceptions of `run_compiler`.
    """
    limit, started = time_limit(), list[subprocess.Popen[str]]()
    try:
        started.extend(_start_compiler(command, folder) for command in commands)
        return [
            _wait_for_output(process, " ".join(command), limit)
            for process, command in zip(started, commands, strict=True)
        ]
    finally:
        for process in started:
            _end(process)


def _start_compiler(command: tuple[str, ...], folder: str | Path) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},  # removed with the folder
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that _end can also kill the child processes
        )
    except OSError as error:
        raise CompilerError(
            f"the C compiler `{command[0]}` does not run: {error}; set CC to a working compiler"
        ) from error


def _wait_for_output(process: subprocess.Popen[str], line: str, limit: float) -> str:
    """Wait for a compiler process, and return its standard output.

    `line` is the command for error messages, and `limit` is the time limit [s].

    Raises:
        CompilerError: The compiler fails or exceeds the time limit.
    """
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise CompilerError(
            f"`{line}` exceeded the time limit of {limit:g} s; RIGIDBLOCKS_COMPILE_TIME sets the "
            "limit in seconds"
        ) from None
    if process.returncode:
        raise CompilerError(f"`{line}` failed:\n{errors.strip()[-2000:]}")
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a running compiler process with its child processes, and close the pipes."""
    with process:  # leaving the context waits for the process and closes its pipes
        if process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


def _build_library(
    sources: Mapping[str, str], main: str, command: tuple[str, ...], options: tuple[str, ...]
) -> bytes:
    """Compile C sources to a shared library, and return its bytes.

    Long sources are divided into several translation units.
    """
    _remove_leftovers()
    statements = sum(text.count(";\n") for text in sources.values())
    sources, units = split_translation_units(sources)
    name = options[options.index("-o") + 1]
    with tempfile.TemporaryDirectory(prefix=_BUILD, ignore_cleanup_errors=True) as folder:
        for file, text in sources.items():
            Path(folder, file).write_text(text)
        compiling = f"compiling {statements} statements of C with {_compiler_name(command)}"
        expected = statements / SPEED
        with log_if_slow(compiling, f"about {expected:.0f} s" if expected > 2.0 else ""):
            if units:
                _run(
                    [_unit_command(file, main, command, options) for file in (main, *units)], folder
                )
                k = options.index(main)
                options = (*options[:k], *map(_object, (main, *units)), *options[k + 1 :])
            run_compiler((*command, *options), folder)
        return Path(folder, name).read_bytes()


def _compiler_name(command: tuple[str, ...]) -> str:
    """Return the name of a compiler for messages.

    For the compiler in the Python module `ziglang`, the name is zig.
    """
    return "zig" if command[: len(_ZIG)] == _ZIG else Path(command[0]).name


def _object(file: str) -> str:
    return f"{file}.o"


def _unit_command(
    file: str, main: str, command: tuple[str, ...], options: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that compiles one translation unit of a library to an object file.

    `command` and `options` are the compiler command and the options for the whole library.
    """
    flags = options[: options.index(main)]
    own = (one for one in flags if one not in ("-shared", "-s") and not one.startswith("-Wl,"))
    return (*command, *own, "-c", file, "-o", _object(file))


def _remove_leftovers() -> None:
    """Delete old build folders that killed processes left in the temporary folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_BUILD}*"):
        with suppress(OSError):  # another process may have removed the folder
            if time.time() - folder.lstat().st_mtime > time_limit() + OLD:
                shutil.rmtree(folder)


@cache
def version(command: tuple[str, ...]) -> str:
    """Return the version text of a compiler; raise CompilerError if the compiler does not run."""
    with tempfile.TemporaryDirectory(prefix=_BUILD, ignore_cleanup_errors=True) as folder:
        return run_compiler((*command, "--version"), folder)
