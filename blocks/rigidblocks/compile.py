"""C text to a shared library, kept in a cache by content: what was compiled once is not compiled again."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

# contraction is off: a processor that can fuse a multiplication and an addition computes what the others compute
PORTABLE_FLAGS = ("-std=c99", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
_ZIG = (sys.executable, "-m", "ziglang", "cc")
SHARED_FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-s")  # -s: the folder of the build is not left in it


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
    raise CompilerError("no C compiler: install one (cc on the PATH), or `pip install rigidblocks[zig]`, or set CC")


def cross_compiler(target: str) -> tuple[str, ...]:
    """The command of the `ziglang` package's C compiler for a target like aarch64-linux-gnu.2.17.

    Raises CompilerError when the package is not installed.
    """
    if not find_spec("ziglang"):
        raise CompilerError(f"no C compiler for {target}: `pip install rigidblocks[zig]`")
    return (*_ZIG, "-target", target)


def cache_folder() -> Path:
    """Where compiled libraries are kept: $RIGIDBLOCKS_CACHE, else the user's cache folder."""
    return Path(os.environ.get("RIGIDBLOCKS_CACHE") or user_cache_path("rigidblocks"))


def shared_library(
    sources: Mapping[str, str],
    main: str,
    flags: tuple[str, ...] = PORTABLE_FLAGS,
    command: tuple[str, ...] | None = None,
    *,
    name: str = "library.so",
    link: tuple[str, ...] = ("-lm",),
) -> Path:
    """The path of the shared library made of the C file `main` among `sources` (text by file name), cached by content.

    `name` is what the library calls itself inside, where the platform wants that. Raises CompilerError with the
    compiler's own words when it refuses.
    """
    command = command or compiler()
    options = (*flags, *SHARED_FLAGS, main, "-o", name, *link)
    content = (*command, _version(command), *options, *(part for item in sorted(sources.items()) for part in item))
    library = cache_folder() / f"{hashlib.sha256(chr(0).join(content).encode()).hexdigest()[:32]}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            for file, text in sources.items():
                Path(folder, file).write_text(text)
            run_compiler((*command, *options), folder)
            os.replace(Path(folder, name), library)  # atomic: two processes may compile the same thing
    return library


def run_compiler(command: tuple[str, ...], folder: str | Path) -> None:
    """Runs a compiler command in a folder; raises CompilerError with its message when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(f"`{' '.join(command)}` failed:\n{done.stderr.strip()[-2000:]}")


@cache
def _version(command: tuple[str, ...]) -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:  # for what ziglang leaves behind even so
            return subprocess.run((*command, "--version"), capture_output=True, text=True, check=False, cwd=folder).stdout
    except OSError as error:
        raise CompilerError(
            f"the C compiler `{' '.join(command)}` does not run: {error}; set CC to one that does"
        ) from error
