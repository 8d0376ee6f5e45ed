"""FMUs that bring their C sources and no library for this platform: compiled here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fmpy

from rigidblocks.system.fmu_file import FmuError
from rigidblocks.tracing.cache import cached_library, digest
from rigidblocks.tracing.compiler import CompilerError, compiler, run_compiler, version

_HEADERS = Path(fmpy.__file__).parent / "c-code"  # of the standard, which an FMU need not bring
_FLAGS = ("-O2", "-ffp-contract=off", "-fPIC", "-shared", "-w")
# functions have the names of the standard, without the prefix of statically linked ones
_NAMES = ("-DFMI2_OVERRIDE_FUNCTION_PREFIX", "-DFMI3_OVERRIDE_FUNCTION_PREFIX")


def source_sets(description: Any, identifier: str, names: Sequence[str]) -> list[Any]:
    """The sets of C sources of an FMU with these files; none where it has no sources."""
    sets = [
        one
        for build in description.buildConfigurations
        if build.modelIdentifier == identifier
        for one in build.sourceFileSets
        if (one.language or "C99").startswith("C") and "+" not in (one.language or "")
    ]
    files = [f"sources/{file}" for one in sets for file in one.sourceFiles]
    return sets if files and set(files) <= set(names) else []


def check_compiler(path: Path) -> None:
    """Raises FmuError where there is no compiler for the sources of an FMU."""
    try:
        compiler()
    except CompilerError as error:
        raise FmuError(f"'{path}' has sources, and no binary for this platform: {error}") from error


def compiled(path: Path, folder: Path, sets: Sequence[Any], name: str) -> bytes:
    """The library of that name, made of the sources of the FMU at a path that is unpacked in a
    folder; compiled once for a machine.

    Raises FmuError with the compiler's own words where it refuses them.
    """
    command = compiler()
    sources, options = folder / "sources", list[str]()
    for one in sets:
        options += [f"-I{sources / include}" for include in one.includeDirectories]
        options += [
            f"-D{d.name}={d.value}" if d.value else f"-D{d.name}"
            for d in one.preprocessorDefinitions
        ]
    files = [file for one in sets for file in one.sourceFiles]
    line = (*command, *_FLAGS, *_NAMES, f"-I{sources}", *options, f"-I{_HEADERS}", *files)

    def build() -> bytes:
        library = folder / name
        run_compiler((*line, "-o", str(library), "-lm"), sources)
        return library.read_bytes()

    told = "\0".join((*command, version(command), *_FLAGS, *_NAMES, *files))
    try:
        return cached_library(digest(told.encode() + path.read_bytes()), build).read_bytes()
    except CompilerError as error:
        raise FmuError(f"the sources of '{path}' do not compile: {error}") from error
