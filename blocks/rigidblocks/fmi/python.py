"""Python FMUs: a script, the kernel of its block and pythonfmu's binaries in one archive."""

import json
from pathlib import Path

import pythonfmu

import rigidblocks
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.description import model_description
from rigidblocks.fmi.package import digest, package_sources
from rigidblocks.fmi.script import Script, slave_of
from rigidblocks.fmi.slave import KERNEL, LAYOUT
from rigidblocks.fmi.variables import Variables
from rigidblocks.stepper import kernel_library

_PYTHONFMU = Path(pythonfmu.__file__).parent


def python_fmu(script: str | Path, path: str | Path | None = None, *, bundle: bool = False) -> Path:
    """Builds the Python FMU of a script at `path`, `<stem>.fmu` in the working folder unless given; returns its path.

    It runs in hosts that are Python programs and have NumPy and rigidblocks; with `bundle` it brings its own rigidblocks.
    The same script and rigidblocks give the same bytes. Raises what `slave_of` raises.
    """
    read = slave_of(script)
    variables = Variables(read.flat)
    resources = _resources(read, variables, bundle)
    content = {f"resources/{name}": data for name, data in resources.items()} | _binaries(read.name)
    description = model_description(
        variables,
        read.name,
        [digest(content).encode()],
        canNotUseMemoryManagementFunctions="true",
        needsExecutionTool="false",
    )
    content["modelDescription.xml"] = description.encode()
    return write_archive(path or f"{read.path.stem}.fmu", content)


def _resources(script: Script, variables: Variables, bundle: bool) -> dict[str, bytes]:
    """The files by their path in the resources: the script as a module of its own name, and all that it runs on."""
    resources = {
        KERNEL: kernel_library(script.flat, script.method, script.h).read_bytes(),
        LAYOUT: _layout(variables),
        **{f"pythonfmu/{name}": data for name, data in package_sources(_PYTHONFMU).items() if _is_run_time(name)},
    }
    if bundle:
        folder = Path(rigidblocks.__file__).parent
        resources |= {f"rigidblocks/{name}": data for name, data in package_sources(folder).items()}
    module = script.module_name(digest(resources))
    return resources | {f"{module}.py": script.path.read_bytes(), "slavemodule.txt": module.encode()}


def _is_run_time(name: str) -> bool:
    return name.endswith(".py") and "/" not in name


def _layout(variables: Variables) -> bytes:
    """The variables that the kernel and the model description are made for; a slave compares them with its own."""
    layout = {
        "made_with": f"rigidblocks {rigidblocks.__version__}",
        "variables": [v.name for v in variables.all],
        "settable": [v.index for v in variables.all if v.initial == "exact" or v.causality == "input"],
    }
    return json.dumps(layout, indent=1).encode()


def _binaries(name: str) -> dict[str, bytes]:
    """pythonfmu's library for each platform that it has, under the FMU's name."""
    folder = _PYTHONFMU / "resources" / "binaries"
    libraries = [path for path in sorted(folder.glob("*/*")) if path.suffix in (".so", ".dll", ".dylib")]
    return {f"binaries/{path.parent.name}/{name}{path.suffix}": path.read_bytes() for path in libraries}
