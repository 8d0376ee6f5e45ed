"""Python FMUs: a script, the kernel of its block and pythonfmu's binaries in one archive."""

import json
from importlib.metadata import files
from pathlib import Path

import pythonfmu

import rigidblocks
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.description import model_description
from rigidblocks.fmi.documentation import documentation_content
from rigidblocks.fmi.icon import ICON, icon
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.package import digest, package_sources
from rigidblocks.fmi.script import Script, slave_of
from rigidblocks.fmi.slave import KERNEL, LAYOUT
from rigidblocks.fmi.source import LICENSE, own_license
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.stepper import kernel_library

_PYTHONFMU = Path(pythonfmu.__file__).parent
_SCRIPT = "script"  # the folder of the script in the resources
_STUB = '''"""What pythonfmu imports: it runs {script} with the modules that lie beside it."""

from pathlib import Path

try:
    from rigidblocks.fmi.beside import slave_class
except ImportError as error:
    raise ImportError(
        "this FMU runs on rigidblocks, which is not there ("
        + str(error)
        + "): install rigidblocks {version}, or build the FMU with --bundle"
    ) from error

{name} = slave_class("{name}", Path(__file__).parent / "{folder}" / "{script}", globals())
'''


def python_fmu(
    script: str | Path | Script,
    path: str | Path | None = None,
    *,
    bundle: bool = False,
    metadata: Metadata = Metadata(),  # noqa: B008 - frozen
    deflate: bool = False,
) -> Path:
    """Builds the Python FMU of a script at `path`, `<stem>.fmu` in the working folder unless given;
    returns its path.

    It runs in hosts that are Python programs and have NumPy and rigidblocks; with `bundle` it
    brings its own rigidblocks. Modules that lie beside the script and that it imports on its top
    level come along. The same script and rigidblocks give the same bytes. Raises what `slave_of`
    raises.
    """
    read = script if isinstance(script, Script) else slave_of(script)
    evaluator = TracedEvaluator(read.memory)
    variables = Variables(evaluator)
    resources = _resources(read, variables, bundle)
    content = {f"resources/{name}": data for name, data in resources.items()} | _binaries(read.name)
    content |= documentation_content(evaluator, read.name, read.method, read.h)
    content |= {LICENSE: _licenses(bundle).encode(), ICON: icon()}
    description = model_description(
        variables,
        read.name,
        [digest(content).encode()],
        metadata=metadata,
        canNotUseMemoryManagementFunctions="true",
        needsExecutionTool="false",
    )
    content["modelDescription.xml"] = description.encode()
    return write_archive(path or f"{read.path.stem}.fmu", content, deflate=deflate)


def _licenses(bundle: bool) -> str:
    """The licenses of what an FMU brings along that others have made, and of our own."""
    (theirs,) = (f for f in files("pythonfmu") or [] if f.name.startswith("LICENSE"))
    ours = "rigidblocks, which is in resources/rigidblocks" if bundle else "the kernel"
    return f"{ours}:\n\n{own_license()}\n\npythonfmu:\n\n{theirs.read_text().rstrip()}\n"


def _resources(script: Script, variables: Variables, bundle: bool) -> dict[str, bytes]:
    """The files by their path in the resources: the script, a module of its own name that runs it,
    and all that it runs on.
    """
    resources = {
        KERNEL: kernel_library(script.memory, script.method, script.h).read_bytes(),
        LAYOUT: _layout(variables),
        f"{_SCRIPT}/{script.path.name}": script.path.read_bytes(),
    }
    resources |= {f"{_SCRIPT}/{name}": data for name, data in script.beside.items()}
    resources |= {
        f"pythonfmu/{name}": data
        for name, data in package_sources(_PYTHONFMU).items()
        if _is_run_time(name)
    }
    if bundle:
        folder = Path(rigidblocks.__file__).parent
        resources |= {f"rigidblocks/{name}": data for name, data in package_sources(folder).items()}
    module = script.module_name(digest(resources))
    names = {"script": script.path.name, "folder": _SCRIPT, "name": script.name}
    stub = _STUB.format(**names, version=rigidblocks.__version__)
    return resources | {f"{module}.py": stub.encode(), "slavemodule.txt": module.encode()}


def _is_run_time(name: str) -> bool:
    return name.endswith(".py") and "/" not in name


def _layout(variables: Variables) -> bytes:
    """The variables that the kernel and the model description are made for; a slave compares them
    with its own.
    """
    layout = {
        "made_with": f"rigidblocks {rigidblocks.__version__}",
        "variables": [v.name for v in variables.all],
        "settable": [
            v.index for v in variables.all if v.initial == "exact" or v.causality == "input"
        ],
    }
    return json.dumps(layout, indent=1).encode()


def _binaries(name: str) -> dict[str, bytes]:
    """pythonfmu's library for each platform that it has, under the FMU's name."""
    folder = _PYTHONFMU / "resources" / "binaries"
    libraries = [
        path for path in sorted(folder.glob("*/*")) if path.suffix in (".so", ".dll", ".dylib")
    ]
    return {
        f"binaries/{path.parent.name}/{name}{path.suffix}": path.read_bytes() for path in libraries
    }
