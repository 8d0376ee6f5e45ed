"""What compiled functions need from a machine, looked at: a compiler, a cache, packages."""

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from rigidblocks.tracing import compiler
from rigidblocks.tracing.cache import cache_folder, entries, refusal, spare_folder

PACKAGES = ("numpy", "casadi", "fmpy", "pythonfmu", "ziglang")
OPTIONAL = {"ziglang"}
LISTED = 8  # damaged libraries are named, at most
_TRIAL = """#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int answer(void);
int answer(void) { return 42; }
"""


class Finding(NamedTuple):
    """One thing that was looked at, what was found, and whether it is as it should be."""

    subject: str
    text: str
    well: bool


def findings() -> Iterator[Finding]:
    """The findings, one by one."""
    yield Finding("Python", f"{sys.version.split()[0]} on {sys.platform}", True)
    yield from map(_package, PACKAGES)
    yield _compiler()
    yield _folder("cache", cache_folder())
    if spare_folder().exists():
        yield _folder("spare cache", spare_folder())


def _package(name: str) -> Finding:
    try:
        return Finding(name, version(name), True)
    except PackageNotFoundError:
        return Finding(name, "not installed", name in OPTIONAL)


def _compiler() -> Finding:
    """The compiler, which has to make a library that runs."""
    try:
        command = compiler.straight_line_compiler()
        first_line = compiler.version(command).partition("\n")[0]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            Path(folder, "trial.c").write_text(_TRIAL)
            options = (*compiler.PORTABLE_FLAGS, *compiler.SHARED_FLAGS)
            compiler.run_compiler((*command, *options, "trial.c", "-o", "trial.so"), folder)
            runs = ctypes.CDLL(str(Path(folder, "trial.so"))).answer() == 42
    except (compiler.CompilerError, OSError) as error:
        return Finding("compiler", str(error), False)
    return Finding("compiler", f"{' '.join(command)}: {first_line}", runs)


def _folder(subject: str, folder: Path) -> Finding:
    """A folder of compiled libraries: whether it is used, how much is in it, what is damaged."""
    if not folder.exists():
        return Finding(subject, f"{folder}: not made yet", True)
    if reason := refusal(folder):
        return Finding(subject, f"{folder}: not used, it {reason}", False)
    libraries = list(entries(folder))
    damaged = [f"  {one.path.name} {one.damage}" for one in libraries if one.damage]
    size = sum(one.size for one in libraries) / 1e6
    free = shutil.disk_usage(folder).free / 1e6
    writable = os.access(folder, os.W_OK)
    text = f"{folder}: {len(libraries)} libraries, {size:.1f} MB; {free:.0f} MB free"
    text += "" if writable else "; it cannot be written"
    if damaged:
        head = f"{text}; {len(damaged)} damaged, made anew when they are used:"
        text = "\n".join([head, *damaged[:LISTED], *["  ..."] * (len(damaged) > LISTED)])
    return Finding(subject, text, writable and not damaged)
