"""Export of blocks, systems and scripts as native, source or Python FMUs.

A Python FMU contains the script, a compiled kernel and the pythonfmu binaries.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pythonfmu

from rigidblocks.block.adaptive_methods import DEFAULT_METHOD, Method, method_of
from rigidblocks.block.block import Block
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.common.package_info import FOLDER, __version__
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL, FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.run_options import DEFAULTS, IntegrationOptions, add_defaults, check_numbers
from rigidblocks.fmi.archive import LICENSE, digest, own_license, package_sources, write_archive
from rigidblocks.fmi.documentation import documentation_content
from rigidblocks.fmi.model_description import Metadata, model_description
from rigidblocks.fmi.native_fmu import model_identifier, native_fmu
from rigidblocks.fmi.script import Script, object_script, slave_of
from rigidblocks.fmi.slave import KERNEL, LAYOUT
from rigidblocks.fmi.terminals_and_icons import ICON, icon
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.compiled_stepper import kernel_library
from rigidblocks.kernels.traced_evaluator import TracedEvaluator

TARGETS = ("native", "source", "python")
INDEX, PAGE = "documentation/index.html", "documentation/page.html"
PAGE_LINK = '<p><a href="page.html">Run the model in the browser.</a></p>\n'
PAGE_STEP = 1e-3  # default communication step of the simulation page [s]


class ExportOptions(IntegrationOptions, total=False):
    """Options of `export_fmu` for the integration of a block and the content of the FMU.

    Attributes:
        bundle: True to include rigidblocks in a Python FMU.
        metadata: Author, version, copyright, license and description.
        deflate: True to compress the archive; its bytes then depend on the version of zlib.
        page: True to add an interactive page to the documentation, which simulates the robot;
            requires ziglang.
        xcp: Port or address, such as 127.0.0.1:5555, for measurement and calibration tools
            (FMI-LS-XCP); None for no XCP server.
        arrays: True for array variables in FMI 3.0. False for scalar variables such as q[1], for
            importers without support of arrays.
        output_derivatives: Highest order of the time derivatives of the outputs, 0 to 2, that a
            native FMU provides in co-simulation. None for the default of `native_fmu`.
        interval: Clock interval [s] of an FMI 3.0 FMU for scheduled execution. None: the FMU
            supports co-simulation and model exchange.
        clock: "periodic" or "triggered" for an FMI 3.0 input clock that triggers the samples of a
            sampled block in event mode. None: the FMU itself triggers its samples.
        binary: Names of the inputs, outputs and parameters that become binary variables of an
            FMI 3.0 FMU. A binary variable contains the elements of a port as little-endian doubles.
        resizable: True for FMI 3.0 arrays with a resizable last dimension. A structural parameter
            sets the size of this dimension. The size in the block is the upper limit.
    """

    bundle: bool
    metadata: Metadata
    deflate: bool
    page: bool
    xcp: str | None
    arrays: bool
    output_derivatives: int | None
    interval: float | None
    clock: str | None
    binary: str | Iterable[str]
    resizable: bool


_DEFAULTS: Mapping[str, Any] = {
    **DEFAULTS,
    "bundle": False,
    "metadata": Metadata(),
    "deflate": False,
    "page": False,
    "xcp": None,
    "arrays": True,
    "output_derivatives": None,
    "interval": None,
    "clock": None,
    "binary": (),
    "resizable": False,
}


@explain_calls()
def export_fmu(
    source: Block | System | str | Path,
    path: str | Path,
    target: str = "native",
    *,
    fmi: int = 2,
    platforms: str | Iterable[str] | None = None,
    tunable: str | Iterable[str] | None = None,
    name: str | None = None,
    dt: float | None = None,
    order: str | None = None,
    **options: Unpack[ExportOptions],
) -> Path:
    """Export a block, a system or an FMU script as an FMU.

    A system becomes one FMU, which contains its blocks as one `FusedSystem`.

    Args:
        source: Block, system, or path of an FMU script.
        path: Path of the FMU.
        target: "native" for binaries that do not need Python. "source" for C code, with binaries
            only for the given `platforms`. "python" for importers that are Python programs.
        fmi: FMI version, 2 or 3.
        platforms: "all", or platform names as in FMI 3.0, such as x86_64-linux. ziglang builds the
            binaries for these platforms. Default: only the platform of this machine.
        tunable: Names of the tunable parameters of the FMU; by default all. The other parameters
            are constants.
        name: Model identifier. Default: the class name of the script or block; for a system, the
            file name.
        dt: Communication step of a system [s].
        order: Stepping order of the parts of a system, "gauss-seidel" or "jacobi".
        **options: Integration of a block (`method`, `h`, `rtol`, `atol`, `max_inner_steps`, by
            default from the script) and content of the archive (`bundle`, `metadata`, `deflate`,
            `page`, `xcp`, `arrays`, `output_derivatives`, `interval`, `clock`, `binary`,
            `resizable`); see `ExportOptions`.

    Returns:
        Path of the FMU.

    Raises:
        ValueError: A value is unknown, or the source or target does not support an option.
        TypeError: `source` is not a block, a system or a path, or an option is unknown.
        IsADirectoryError: `path` is a folder.

    `native_fmu`, `python_fmu` and `FusedSystem` may raise further exceptions.
    """
    chosen = add_defaults(export_fmu, options, ExportOptions, _DEFAULTS)
    method, h, rtol, atol, max_inner_steps = (chosen[o] for o in IntegrationOptions.__annotations__)
    bundle, metadata, deflate = chosen["bundle"], chosen["metadata"], chosen["deflate"]
    page, xcp, arrays = chosen["page"], chosen["xcp"], chosen["arrays"]
    output_derivatives, interval = chosen["output_derivatives"], chosen["interval"]
    clock, binary = chosen["clock"], chosen["binary"]
    binary = (binary,) if isinstance(binary, str) else tuple(binary)
    if not arrays and fmi != 3:
        raise ValueError("arrays=False is for FMI 3.0; FMI 2.0 has scalar variables only")
    _check(source, path, target)
    tunable = (tunable,) if isinstance(tunable, str) else tunable
    _refuse(
        None if isinstance(source, System) else {"dt": dt, "order": order},
        "only a System supports",
    )
    if isinstance(source, System) and name is None:
        name = _identifier_of(path)
    stepping = {one: chosen[one] for one in IntegrationOptions.__annotations__}
    if isinstance(source, System):
        _refuse(stepping, "each part of a System has its own")
    if target == "python":
        unsupported = {"fmi": None if fmi == 2 else fmi, "platforms": platforms, "xcp": xcp}
        unsupported |= {"output_derivatives": output_derivatives, "interval": interval}
        unsupported |= {"clock": clock, "binary": binary or None}
        unsupported |= {"resizable": chosen["resizable"] or None}
        _refuse(unsupported, "a Python FMU is FMI 2.0 for all platforms: it does not support")
        changes = {"tunable": tunable, "name": name} | stepping
        packaging = {"bundle": bundle, "metadata": metadata, "deflate": deflate}
        fmu = _python_fmu(source, path, (dt, order), changes, packaging)
        return _add_page_of(fmu, source, dt, deflate) if page else fmu
    _refuse({"bundle": bundle or None}, "only a Python FMU supports")
    defaults = _block_of(source, dt, order)
    fmu = native_fmu(
        defaults.block,
        path,
        name=defaults.name if name is None else name,
        method=method_of(method or defaults.method, rtol, atol, max_inner_steps),
        h=defaults.h if h is None and method is None else h,
        tunable=defaults.tunable if tunable is None else tuple(tunable),
        fmi=fmi,
        platforms=() if target == "source" and platforms is None else platforms,
        sources=target == "source",
        metadata=metadata,
        deflate=deflate,
        xcp=xcp,
        arrays=arrays,
        output_derivatives=output_derivatives,
        interval=interval,
        clock=clock,
        binary=binary,
        resizable=chosen["resizable"],
    )
    return _add_page_of(fmu, source, dt, deflate) if page else fmu


def _identifier_of(path: str | Path) -> str:
    """Return the name of a file as a C identifier, such as `arm_2` for arm-2.fmu."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", Path(path).stem)
    return f"_{name}" if name[:1].isdigit() else name


def _python_fmu(
    source: Block | System | str | Path,
    path: str | Path,
    stepping: tuple[float | None, str | None],
    script_options: dict[str, Any],
    archive_options: dict[str, Any],
) -> Path:
    """Build the Python FMU of a script, a block or a system; return the path of the FMU.

    For a block or a system, a generated script loads the pickled object. `stepping` contains the
    communication step [s] and the stepping order of a system. `script_options` contains the
    integration options, the model identifier and the tunable parameters. `archive_options`
    contains the options of `python_fmu`.
    """
    if isinstance(source, str | Path):
        _refuse(script_options, "a script defines its FMU: it does not support")
        return python_fmu(source, path, **archive_options)
    with tempfile.TemporaryDirectory() as folder:
        script = _object_script(_block_of(source, *stepping), Path(folder), script_options)
        return python_fmu(script, path, **archive_options)


def _add_page_of(
    fmu: Path, source: Block | System | str | Path, dt: float | None, deflate: bool
) -> Path:
    """Add a simulation page to an FMU's documentation and return the path of the FMU."""
    shown = source if isinstance(source, System) else _block_of(source, None, None).block
    add_page(fmu, shown, dt, deflate)
    return fmu


def add_page(fmu: Path, source: Block | System, dt: float | None, deflate: bool) -> None:
    """Add an interactive simulation page to the documentation of an FMU.

    The page simulates `source` with the communication step `dt` [s], by default 1 ms. The file
    index.html links to the page. If `deflate` is True, the function compresses the archive.

    Raises:
        ValueError: `simulation_page` does not support the block. For example, the block is not a
            robot.
    """
    from rigidblocks.view.simulation_page import simulation_page  # needs an optional package

    system = source if isinstance(source, System) else _system_of(source)
    html = simulation_page(system, PAGE_STEP if dt is None else dt).html
    with zipfile.ZipFile(fmu) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    index = content[INDEX].decode()
    content[INDEX] = index.replace("</h1>\n", f"</h1>\n{PAGE_LINK}", 1).encode()
    write_archive(fmu, {**content, PAGE: html.encode()}, deflate=deflate)


def _system_of(block: Block) -> System:
    """Return a system that contains one block; inputs without a start value start at zero."""
    system = System()
    start = {port.name: np.zeros(port.shape) for port in block.inputs if port.start is None}
    system.add("robot", block, start=start)
    return system


@dataclass(frozen=True, eq=False)
class _BlockDefaults:
    """Block to export, with the default values of the export options.

    Attributes:
        block: Block.
        name: Model identifier, or None for the name of the class.
        method: Integration method.
        h: Maximum inner step [s], or None.
        tunable: Names of the tunable parameters, or None for all parameters.
    """

    block: Block
    name: str | None = None
    method: Method = DEFAULT_METHOD
    h: float | None = None
    tunable: tuple[str, ...] | None = None


def _block_of(
    source: Block | System | str | Path, dt: float | None, order: str | None
) -> _BlockDefaults:
    if isinstance(source, Block):
        return _BlockDefaults(source)
    if isinstance(source, System):
        if dt is None:
            raise ValueError("to export a System as an FMU, specify the communication step dt [s]")
        check_numbers({"dt": dt})
        return _BlockDefaults(FusedSystem(source, dt, GAUSS_SEIDEL if order is None else order))
    script = slave_of(source)
    return _BlockDefaults(
        script.memory.block, script.name, script.method, script.h, script.memory.tunable
    )


def _object_script(defaults: _BlockDefaults, folder: Path, changes: Mapping[str, Any]) -> Script:
    """Write an FMU script for a block to `folder`, and return its content.

    `changes` contains the export options that replace `defaults`.
    """
    given = {key: value for key, value in changes.items() if value is not None}
    name = model_identifier(given.pop("name", type(defaults.block).__name__))
    options = {"method": defaults.method, "h": defaults.h, "tunable": None} | given
    return object_script(folder, name, defaults.block, options)


def _check(source: object, path: str | Path, target: str) -> None:
    """Raise an exception for an unknown target, a wrong type of source, or a folder as path."""
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not '{target}'")
    if not isinstance(source, Block | System | str | Path):
        raise TypeError(
            f"source must be a block, a System or a script, not {type(source).__name__}; "
            "RobotPlant(model) is the block of a model"
        )
    if Path(path).is_dir():
        raise IsADirectoryError(f"cannot write the FMU '{path}': it is a folder")


def _refuse(options: Mapping[str, object] | None, reason: str) -> None:
    """Raise ValueError if an option is not None; the message is `reason` and the option names."""
    if given := [name for name, value in (options or {}).items() if value is not None]:
        raise ValueError(f"{reason} {' and '.join(given)}")


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

    `name` is the model identifier. In the FMU, the libraries have this name.
    """
    folder = _PYTHONFMU / "resources" / "binaries"
    libraries = [
        path for path in sorted(folder.glob("*/*")) if path.suffix in (".so", ".dll", ".dylib")
    ]
    return {
        f"binaries/{path.parent.name}/{name}{path.suffix}": path.read_bytes() for path in libraries
    }
