"""C text to a shared library, kept in a cache by content: what was compiled once is not compiled
again.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rigidblocks.tracing.cache import OLD, cached_library, digest
from rigidblocks.tracing.units import in_units
from rigidblocks.tracing.waits import told

# contraction is off: a processor that can fuse a multiplication and an addition computes what the
# others compute
PORTABLE_FLAGS = ("-std=c99", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
SPEED = 5000.0  # statements that a compiler takes in a second, as gcc and clang do, for forecasts
_BUILD = "rigidblocks-build-"  # how the folders of compilations begin
_ZIG = (sys.executable, "-m", "ziglang", "cc")
SHARED_FLAGS = (
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-s",
)  # -s: the folder of the build is not left in it


class CompilerError(RuntimeError):
    """There is no C compiler, or it refused what it was given."""


@cache
def compiler() -> tuple[str, ...]:
    """The command of the C compiler: $CC, else a system cc, else the one of the `ziglang` package.

    Raises CompilerError when there is none.
    """
    if command := os.environ.get("CC"):
        return tuple(command.split())
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return (path,)
    if find_spec("ziglang"):
        return (*_ZIG, "-mcpu=baseline")  # else it is for the processor at hand alone
    raise CompilerError(
        "no C compiler: install one (cc on the PATH), or `pip install rigidblocks[zig]`, or set CC"
    )


def straight_line_compiler() -> tuple[str, ...]:
    """The command for straight-line code: $CC, else clang, which takes a half to a third of the
    time of gcc for it and leaves fewer instructions; else that of `compiler`.
    """
    clang = None if os.environ.get("CC") else shutil.which("clang")
    return (clang,) if clang else compiler()


def cross_compiler(target: str) -> tuple[str, ...]:
    """The command of the `ziglang` package's C compiler for a target like aarch64-linux-gnu.2.17.

    Raises CompilerError when the package is not installed.
    """
    if not find_spec("ziglang"):
        raise CompilerError(f"no C compiler for {target}: `pip install rigidblocks[zig]`")
    return (*_ZIG, "-target", target)


def time_limit() -> float:
    """The longest that one run of the compiler may take [s]: $RIGIDBLOCKS_COMPILE_TIME, else 1800.

    Raises CompilerError when that is no positive number.
    """
    text = os.environ.get("RIGIDBLOCKS_COMPILE_TIME") or "1800"
    with suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    raise CompilerError(f"RIGIDBLOCKS_COMPILE_TIME is a number of seconds, not '{text}'")


def shared_library(
    sources: Mapping[str, str],
    main: str,
    flags: tuple[str, ...] = PORTABLE_FLAGS,
    command: tuple[str, ...] | None = None,
    *,
    name: str = "library.so",
    link: tuple[str, ...] = ("-lm",),
) -> Path:
    """The path of the shared library made of the C file `main` among `sources` (text by file name),
    cached by content.

    `name` is what the library calls itself inside, where the platform wants that. Raises
    CompilerError with the compiler's own words when it refuses, and CacheError when there is no
    folder for the library.
    """
    command = command or compiler()
    options = (*flags, *SHARED_FLAGS, main, "-o", name, *link)
    texts = (part for item in sorted(sources.items()) for part in item)
    key = digest("\0".join((*command, version(command), *options, *texts)).encode())
    return cached_library(key, lambda: _built(sources, main, command, options))


def run_compiler(command: tuple[str, ...], folder: str | Path) -> str:
    """Runs a compiler command in a folder and returns what it says on its standard output.

    Raises CompilerError with its message when it fails, does not start, or takes longer than the
    time limit.
    """
    return _run([command], folder)[0]


def _run(commands: Sequence[tuple[str, ...]], folder: str | Path) -> list[str]:
    """What compiler commands say that run side by side; raises CompilerError as `run_compiler`
    does.
    """
    limit, started = time_limit(), list[subprocess.Popen[str]]()
    try:
        started.extend(_started(command, folder) for command in commands)
        return [
            _said(process, " ".join(command), limit)
            for process, command in zip(started, commands, strict=True)
        ]
    finally:
        for process in started:
            _end(process)


def _started(command: tuple[str, ...], folder: str | Path) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},  # its own temporary files go with the folder
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # so that all that it starts ends with it
        )
    except OSError as error:
        raise CompilerError(
            f"the C compiler `{command[0]}` does not run: {error}; set CC to one that does"
        ) from error


def _said(process: subprocess.Popen[str], line: str, limit: float) -> str:
    """What a compiler says on its standard output until it ends."""
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise CompilerError(
            f"`{line}` took longer than {limit:g} s and was ended; RIGIDBLOCKS_COMPILE_TIME sets "
            "the limit in seconds"
        ) from None
    if process.returncode:
        raise CompilerError(f"`{line}` failed:\n{errors.strip()[-2000:]}")
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process that still runs, with those that it has started, and closes its pipes."""
    with process:  # waits, and closes what was not read too
        if process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


def _built(
    sources: Mapping[str, str], main: str, command: tuple[str, ...], options: tuple[str, ...]
) -> bytes:
    """The content of the library that the command makes of the sources, in units where they are
    long.
    """
    _remove_leftovers()
    statements = sum(text.count(";\n") for text in sources.values())
    sources, units = in_units(sources)
    name = options[options.index("-o") + 1]
    with tempfile.TemporaryDirectory(prefix=_BUILD, ignore_cleanup_errors=True) as folder:
        for file, text in sources.items():
            Path(folder, file).write_text(text)
        compiling = f"compiling {statements} statements of C with {Path(command[0]).name}"
        with told(
            compiling, f"about {statements / SPEED:.0f} s on a machine with nothing else to do"
        ):
            if units:
                _run([_of_unit(file, main, command, options) for file in (main, *units)], folder)
                k = options.index(main)
                options = (*options[:k], *map(_object, (main, *units)), *options[k + 1 :])
            run_compiler((*command, *options), folder)
        return Path(folder, name).read_bytes()


def _object(file: str) -> str:
    return f"{file}.o"


def _of_unit(
    file: str, main: str, command: tuple[str, ...], options: tuple[str, ...]
) -> tuple[str, ...]:
    """The command for one unit of a library with these options."""
    flags = options[: options.index(main)]
    own = (one for one in flags if one not in ("-shared", "-s") and not one.startswith("-Wl,"))
    return (*command, *own, "-c", file, "-o", _object(file))


def _remove_leftovers() -> None:
    """Removes the folders of compilations that were killed: those too old for one that runs."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_BUILD}*"):
        with suppress(OSError):  # another process was faster
            if time.time() - folder.lstat().st_mtime > time_limit() + OLD:
                shutil.rmtree(folder)


@cache
def version(command: tuple[str, ...]) -> str:
    """What a compiler says about its version; raises CompilerError when it does not run."""
    with tempfile.TemporaryDirectory(prefix=_BUILD, ignore_cleanup_errors=True) as folder:
        return run_compiler((*command, "--version"), folder)
