"""Export of a script as a Python FMU, with a compiled kernel and the pythonfmu binaries."""

import json
from importlib.metadata import files
from pathlib import Path

import pythonfmu

from rigidblocks.common.package_info import FOLDER, __version__
from rigidblocks.fmi.archive import LICENSE, digest, own_license, package_sources, write_archive
from rigidblocks.fmi.documentation import documentation_content
from rigidblocks.fmi.model_description import Metadata, model_description
from rigidblocks.fmi.script import Script, slave_of
from rigidblocks.fmi.slave import KERNEL, LAYOUT
from rigidblocks.fmi.terminals_and_icons import ICON, icon
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.compiled_stepper import kernel_library
from rigidblocks.kernels.traced_evaluator import TracedEvaluator

_PYTHONFMU = Path(pythonfmu.__file__).parent
_SCRIPT = "script"  # folder of the script within the resources
_STUB = '''"""What pythonfmu imports: it runs {script} with the modules in its folder."""

from pathlib import Path

try:
    from rigidblocks.fmi.script import slave_class
except ImportError as error:
    raise ImportError(
        "this FMU runs on rigidblocks, which is not there ("
        + str(error)
        + "): install rigidblocks {version} from its source, or build the FMU with --bundle"
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
    """Build the Python FMU of a script.

    The importer of the FMU must be a Python program with NumPy and rigidblocks. The FMU contains
    the local modules that the script imports at its top level. Repeated exports of a script with
    the same rigidblocks version create identical files.

    Args:
        script: Path of the script, or a loaded script.
        path: Path of the FMU; by default `<stem>.fmu` in the working directory.
        bundle: True to include rigidblocks in the FMU.
        metadata: Author, version and other attributes.
        deflate: True to compress the archive.

    Returns:
        Path of the FMU.

    Raises:
        FileNotFoundError, ValueError: The script is missing or invalid (see `slave_of`).
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
    """Return the text of the rigidblocks and pythonfmu licenses.

    `bundle` is True if the FMU contains rigidblocks.
    """
    (theirs,) = (f for f in files("pythonfmu") or [] if f.name.startswith("LICENSE"))
    ours = "rigidblocks, which is in resources/rigidblocks" if bundle else "the kernel"
    return f"{ours}:\n\n{own_license()}\n\npythonfmu:\n\n{theirs.read_text().rstrip()}\n"


def _resources(script: Script, variables: Variables, bundle: bool) -> dict[str, bytes]:
    """Return the contents (bytes) of the resources folder of a Python FMU, by path.

    The folder contains the script, a module that runs the script, and all files that the script
    needs. The name of the module is unique. If `bundle` is True, the folder contains rigidblocks.
    """
    resources = {
        KERNEL: kernel_library(script.memory, script.method, script.h).read_bytes(),
        LAYOUT: _layout(variables),
        f"{_SCRIPT}/{script.path.name}": script.path.read_bytes(),
    }
    resources |= {f"{_SCRIPT}/{name}": data for name, data in script.extra_files.items()}
    resources |= {
        f"pythonfmu/{name}": data
        for name, data in package_sources(_PYTHONFMU).items()
        if _is_run_time(name)
    }
    if bundle:
        folder = FOLDER
        resources |= {f"rigidblocks/{name}": data for name, data in package_sources(folder).items()}
    module = script.module_name(digest(resources))
    names = {"script": script.path.name, "folder": _SCRIPT, "name": script.name}
    stub = _STUB.format(**names, version=__version__)
    return resources | {f"{module}.py": stub.encode(), "slavemodule.txt": module.encode()}


def _is_run_time(name: str) -> bool:
    return name.endswith(".py") and "/" not in name


def _layout(variables: Variables) -> bytes:
    """Return the rigidblocks version, variable names and settable variables as JSON.

    The slave checks these data when it loads them from the FMU.
    """
    layout = {
        "made_with": f"rigidblocks {__version__}",
        "variables": [v.name for v in variables.all],
        "settable": [
            v.index
            for v in variables.all
            if v.initial in ("exact", "approx") or v.causality == "input"
        ],
    }
    return json.dumps(layout, indent=1).encode()


def _binaries(name: str) -> dict[str, bytes]:
    """Return the pythonfmu libraries (bytes) for all platforms, by path in the FMU.

    `name` is the model identifier, which replaces the file name of each library.
    """
    folder = _PYTHONFMU / "resources" / "binaries"
    libraries = [
        path for path in sorted(folder.glob("*/*")) if path.suffix in (".so", ".dll", ".dylib")
    ]
    return {
        f"binaries/{path.parent.name}/{name}{path.suffix}": path.read_bytes() for path in libraries
    }
