"""Commands that inspect, display or convert files, and the command `doctor`."""

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Exit, Option

from rigidblocks.cli.app import APP, Floating, Json, print_text_or_json
from rigidblocks.cli.input_files import robot_of
from rigidblocks.cli.run import load_required, report_requirements

if TYPE_CHECKING:
    from rigidblocks.block.port import Port
    from rigidblocks.cosim.results.result import Result
from typing import TYPE_CHECKING

from rigidblocks.cli.app import (
    Key,
    Step,
    check_ending,
    print_warnings,
    split_commas,
)
from rigidblocks.cli.input_files import is_structure, system_of

if TYPE_CHECKING:
    from rigidblocks.cosim.graph.system import System
    from rigidblocks.view.robot_page import Page


@APP.command("info")
def info(
    file: Annotated[Path, Argument(help="Robot file, FMU, or result file of a run.")],
    floating: Floating = False,
    as_json: Json = False,
) -> None:
    """Print the contents of a robot file, an FMU or a result file."""
    from rigidblocks.cosim.results.result_files import FORMATS

    if file.suffix in FORMATS:
        values = _result_summary(file)
        lines = [
            f"{file}: {values['samples']} samples{_span(values)}, {values['events']} events",
        ]
        lines += [_signal(signal) for signal in values["signals"]]
    elif file.suffix == ".fmu":
        values = _fmu_summary(file)
        lines = [f"{values['name']}: FMI {values['fmi']}, {values['bytes']} bytes"]
        lines += [_port(kind, port) for kind in _KINDS for port in values[kind]]
    else:
        values = _robot_summary(file, floating)
        lines = [
            f"{values['name']}: {len(values['bodies'])} bodies, {values['freedoms']} degrees of "
            f"freedom, moving mass {values['mass']:.6g} kg"
        ]
        lines += [_body(i, body) for i, body in enumerate(values["bodies"])]
    print_text_or_json("\n".join(lines), values, as_json)


def _result_summary(file: Path) -> dict[str, Any]:
    """Summarize a result file for printing: samples, start time, end time, events, signals."""
    result = _result(file)
    span = [float(t) for t in result.time[[0, -1]]] if len(result.time) else [None, None]
    return {
        "samples": len(result.time),
        "start": span[0],
        "stop": span[1],
        "events": len(result.events),
        "signals": [
            {"name": port.name, "shape": list(port.shape), "unit": _unit(port)}
            for port in result.ports
        ],
    }


def _unit(port: "Port") -> str:
    """Return the unit of a port, or a comma-separated list if the elements have different units."""
    return ", ".join(port.units if len(set(port.units)) > 1 else port.units[:1])


def _span(values: dict[str, Any]) -> str:
    if not values["samples"]:
        return ""
    return f" from {values['start']:g} to {values['stop']:g} s"


def _signal(signal: dict[str, Any]) -> str:
    shape = f"({', '.join(map(str, signal['shape']))})" if signal["shape"] else ""
    return f"  {signal['name']:32} {shape:8} {signal['unit']}".rstrip()


_KINDS = ("input", "output", "parameter", "local")


def _robot_summary(file: Path, floating: bool) -> dict[str, Any]:
    """Summarize a robot for printing: name, mass, bodies with joints, loops and frames."""
    robot = robot_of(file, floating)
    model = robot.model
    parent = [model.body_names[p] if p >= 0 else "base" for p in model.parent]
    kinds = [type(joint).__name__ for joint in model.joint]
    rows = zip(
        model.body_names, parent, model.joint_names, kinds, map(_mass, model.inertia), strict=True
    )
    bodies = [dict(zip(("name", "parent", "joint", "type", "mass"), r, strict=True)) for r in rows]
    return {
        "name": model.name,
        "freedoms": model.nv,
        "mass": sum(map(_mass, model.inertia)),
        "bodies": bodies,
        "loops": list(model.loop_names),
        "frames": list(robot.frames),
    }


def _mass(body: Any) -> float:
    return float(body.m)


def _body(i: int, body: dict[str, Any]) -> str:
    link = f"{body['parent']} -> {body['name']}, {body['mass']:.6g} kg"
    return f"{i:4}  {body['joint']:28} {body['type']:10} {link}"


def _fmu_summary(file: Path) -> dict[str, Any]:
    """Return the variables by causality, the platforms and the file size of an FMU."""
    import zipfile

    from fmpy import read_model_description

    _check_there(file)
    try:
        read = read_model_description(str(file), validate=False)
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except Exception as error:
        raise ValueError(f"{file}: cannot read this FMU: {error}") from None
    values: dict[str, Any] = {
        "name": read.modelName,
        "fmi": read.fmiVersion,
        "bytes": file.stat().st_size,
        "platforms": sorted({name.split("/")[1] for name in names if name.startswith("binaries/")}),
    }
    for kind in _KINDS:
        these = [v for v in read.modelVariables if v.causality == kind]
        values[kind] = [{"name": v.name, "unit": v.unit, "start": v.start} for v in these]
    return values


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise FileNotFoundError(f"FMU {file} does not exist")


def _port(kind: str, port: dict[str, Any]) -> str:
    start = "" if port["start"] is None else f" = {port['start']}"
    return f"  {kind:10} {port['name']}{start} {port['unit'] or ''}".rstrip()


@APP.command("check")
def check(
    file: Annotated[Path, Argument(help="Robot file, FMU, or result file of a run.")],
    require: Annotated[
        Path | None, Option(help="Requirements file for a result file, .yaml or .json.")
    ] = None,
    report: Annotated[
        list[Path] | None,
        Option(help="Report of the requirements: .txt, .html or .xml (JUnit); repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a robot file, an FMU, or the requirements on the signals in a result file.

    For an FMU, the command prints the acceptance report and the feature profiles. The exit code is
    1 if the file has problems, or if the signals violate a requirement of --require.
    """
    from rigidblocks.cosim.results.result_files import FORMATS

    if file.suffix in FORMATS:
        if require is None:
            raise ValueError(
                f"'{file}' is a result file and needs requirements, such as --require keep.yaml"
            )
        well = _check_result_file(file, require, report, as_json)
    elif require is not None or report:
        raise ValueError(
            f"--require and --report need a result file, whose name ends in {', '.join(FORMATS)}; "
            f"'{file}' is not a result file"
        )
    elif file.suffix == ".fmu":
        well = _check_fmu(file, as_json)
    else:
        from rigidblocks.library.plant_from_file import sensor_warnings
        from rigidblocks.robot_description.urdf_lint import problems

        found = problems(file, [sensor_warnings])
        lines = [f"{file}:{p.line}: {p.text}" if p.line else f"{file}: {p.text}" for p in found]
        text = "\n".join(lines) if lines else f"{file}: no problems found"
        print_text_or_json(text, {"problems": [p._asdict() for p in found]}, as_json)
        well = not found
    if not well:
        raise Exit(1)


def _check_result_file(file: Path, require: Path, report: list[Path] | None, as_json: bool) -> bool:
    """Evaluate and print requirements on a result file; return True if all are satisfied."""
    asked_for = load_required(require, report)
    result = _result(file)
    kept = report_requirements(result, asked_for, report or [], file.stem, as_json)
    if as_json:
        from rigidblocks.studies.requirements import check_requirements

        checked = check_requirements(result, asked_for)
        found = [{"name": one.name, **one.found._asdict()} for one in checked]
        print_text_or_json("", {"requirements": found}, as_json)
    return kept


def _check_fmu(file: Path, as_json: bool) -> bool:
    """Print the acceptance report and profiles of an FMU; return True if the FMU passes."""
    from rigidblocks.fmi.fmu_checks import acceptance, matrix_lines, profile_matrix

    _check_there(file)
    sheet = acceptance(file)
    lines = [f"{'ok' if one.well else 'NOT OK':8}{one.subject:15}{one.text}" for one in sheet]
    values: dict[str, Any] = {"sheet": [one._asdict() for one in sheet], "profiles": None}
    try:
        matrix = profile_matrix(file)
    except ValueError as error:  # FMI 1.0
        lines += ["", str(error)]
    else:
        lines += ["", *matrix_lines(matrix)]
        values["profiles"] = matrix._asdict()
    print_text_or_json("\n".join(lines), values, as_json)
    return all(one.well for one in sheet)


@APP.command("convert")
def convert(
    file: Annotated[
        Path, Argument(help="Result file, such as run.csv.arrow of a killed run, or robot file.")
    ],
    out: Annotated[
        Path, Argument(help="File to write: .arrow, .csv, .mf4 or .parquet; .json for a robot.")
    ],
    as_json: Json = False,
) -> None:
    """Convert the samples in a result file to another format, or a robot file to JSON."""
    if out.suffix == ".json":
        from rigidblocks.robot_description.json_file import save_model

        save_model(robot_of(file), out)
        made = str(out)
    else:
        from rigidblocks.cosim.results.result_files import FORMATS

        if out.suffix not in FORMATS:
            known = ", ".join(FORMATS)
            raise ValueError(
                f"unknown format of '{out}'; the name must end in .json for a robot, or in "
                f"{known} for a result file"
            )
        made = str(_result(file).save(out))
    print_text_or_json(made, {"file": made}, as_json)


@APP.command("plot")
def plot(
    results: Annotated[list[Path], Argument(help="Result files to plot.")],
    signals: Annotated[
        str | None, Option(help="Signals to draw, comma-separated; default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Plot the signals in each result file over time, as a .png file next to the file."""
    from rigidblocks.cli.app import split_commas

    made = []
    for path in results:
        figure = path.with_suffix(".png")
        _result(path).plot(*(split_commas(signals) or ()), path=figure)
        made.append(str(figure))
    print_text_or_json("\n".join(made), {"files": made}, as_json)


def _result(path: Path) -> "Result":
    """Load a result file, and print its warnings to stderr."""
    from rigidblocks.cosim.results.result import Result

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Result.load(path)
    for warning in caught:
        print(f"rigidblocks: {warning.message}", file=sys.stderr)
    return result


@APP.command("doctor")
def doctor(
    clear: Annotated[bool, Option("--clear", help="First remove all compiled libraries.")] = False,
    as_json: Json = False,
) -> None:
    """Check the compiler, the compile cache and the packages; exit code 1 for problems."""
    from rigidblocks.common import compiler

    folders = (compiler.cache_folder(), compiler.spare_folder()) if clear else ()
    lines = [f"removed {compiler.clear_cache(folder)} files from {folder}" for folder in folders]
    found = list(findings())
    lines += [f"{'ok' if one.well else 'NOT OK':8}{one.subject:12}{one.text}" for one in found]
    values = [{"subject": one.subject, "text": one.text, "well": one.well} for one in found]
    print_text_or_json("\n".join(lines), {"findings": values}, as_json)
    if not all(one.well for one in found):
        raise Exit(1)


# packages that compiled functions and FMUs use; zig is an optional compiler
PACKAGES = ("numpy", "casadi", "fmpy", "pythonfmu", "ziglang")
OPTIONAL = {"ziglang"}
LISTED = 8  # maximum number of damaged libraries in the description of a finding
_TRIAL = """#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int answer(void);
int answer(void) { return 42; }
"""


class Finding(NamedTuple):
    """Result of one check: the subject, the description, and True if the check passed."""

    subject: str
    text: str
    well: bool


def findings() -> Iterator[Finding]:
    """Yield the results of all checks of the installation."""
    from rigidblocks.common.compiler import cache_folder, spare_folder

    yield Finding("Python", f"{sys.version.split()[0]} on {sys.platform}", True)
    yield from map(_package, PACKAGES)
    yield _compiler()
    yield _folder("cache", cache_folder())
    if spare_folder().exists():
        yield _folder("spare cache", spare_folder())


def _package(name: str) -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding(name, version(name), True)
    except PackageNotFoundError:
        return Finding(name, "not installed", name in OPTIONAL)


def _compiler() -> Finding:
    """Check that the compiler can build a library that can be loaded and run."""
    import ctypes

    from rigidblocks.common import compiler

    try:
        command = compiler.kernel_compiler()
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
    """Check that a cache folder is usable and writable, and contains no damaged libraries.

    `subject` is the name of the folder in the result.
    """
    from rigidblocks.common.compiler import cache_entries, folder_refusal

    if not folder.exists():
        return Finding(subject, f"{folder}: does not exist yet", True)
    if reason := folder_refusal(folder):
        return Finding(subject, f"{folder}: not used, because it {reason}", False)
    libraries = list(cache_entries(folder))
    damaged = [f"  {one.path.name} {one.damage}" for one in libraries if one.damage]
    size = sum(one.size for one in libraries) / 1e6
    free = shutil.disk_usage(folder).free / 1e6
    writable = os.access(folder, os.W_OK)
    text = f"{folder}: {len(libraries)} libraries, {size:.1f} MB; {free:.0f} MB free"
    text += "" if writable else "; the folder is not writable"
    if damaged:
        head = f"{text}; {len(damaged)} damaged, to be recompiled at the next use:"
        text = "\n".join([head, *damaged[:LISTED], *["  ..."] * (len(damaged) > LISTED)])
    return Finding(subject, text, writable and not damaged)


Out = Annotated[
    Path | None,
    Option("-o", "--output", help="Output: .html, or for one run also .gif or .mp4."),
]
_PAGES = (".html", ".htm")
_CHARSET = '<meta charset="utf-8">'  # in the head of each page, before the generator element
_HEAD = 4096  # number of characters at the start of a page that are searched for the generator
Open = Annotated[bool, Option("--open", help="Open the page in the browser.")]


@APP.command("view")
def view(
    robot: Annotated[Path, Argument(help="Robot file, or a script that defines `system`.")],
    results: Annotated[
        list[Path] | None, Argument(help="Result files of runs: .arrow, .csv or .parquet.")
    ] = None,
    output: Out = None,
    floating: Floating = False,
    key: Key = None,
    packages: Annotated[
        str | None, Option(help="Package folders of the meshes, comma-separated.")
    ] = None,
    paths: Annotated[
        str | None, Option(help="Frames or bodies whose path is drawn, comma-separated.")
    ] = None,
    open_it: Open = False,
    as_json: Json = False,
) -> None:
    """Make a web page of a robot: with sliders for its joints, or with playback of its runs."""
    from rigidblocks.cosim.results.result import Result
    from rigidblocks.view.robot_page import RobotFile, robot_file, show
    from rigidblocks.view.run_page import animate

    if robot.suffix == ".py" or is_structure(robot):
        seen: System | RobotFile = system_of(robot).system
    else:
        seen = robot_file(robot, floating, tuple(split_commas(packages) or ()), key)
        print_warnings(robot, seen.robot.warnings)
    files = results or []
    is_short = len({path.stem for path in files}) == len(files)
    runs = {path.stem if is_short else str(path): Result.load(path) for path in files}
    played = runs if len(runs) > 1 else next(iter(runs.values()), None)
    if output and output.suffix not in ("", *_PAGES):
        _save_film(played, seen, output, as_json)
        return
    path = output or _free_name(f"{robot.stem}.html", "view")
    named = split_commas(paths) or ()
    page = show(seen) if played is None else animate(played, seen, paths=named)
    _save_page(page, path, "view", open_it, as_json)


@APP.command("page")
def page(
    system: Annotated[Path, Argument(help="Script that defines `system`, or a robot file.")],
    output: Out = None,
    dt: Step = 1e-3,
    sensors: Annotated[
        bool, Option("--sensors", help="Show the sensors of a robot file as outputs.")
    ] = False,
    open_it: Open = False,
    as_json: Json = False,
) -> None:
    """Make a web page that simulates a system, with sliders for inputs and parameters."""
    from rigidblocks.view.simulation_page import simulation_page

    check_ending(output, *_PAGES)
    path = output or _free_name(f"{system.stem}_page.html", "page")
    made = simulation_page(system_of(system, sensors).system, dt)
    _save_page(made, path, "page", open_it, as_json)


def _save_film(result: Any, robot: Any, path: Path, as_json: bool) -> None:
    """Write a video of one run, and print its path."""
    from rigidblocks.cosim.results.result import Result
    from rigidblocks.view.video_export import film

    if not isinstance(result, Result):
        raise ValueError(
            f"the video {path} shows exactly one run; give one result file after the robot file"
        )
    size = film(result, robot, path).stat().st_size
    print_text_or_json(
        f"wrote {path}, {size / 1e3:.0f} kB", {"file": str(path), "bytes": size}, as_json
    )


def _generator(command: str) -> str:
    return f'<meta name="generator" content="rigidblocks {command}">'


def _free_name(name: str, command: str) -> Path:
    """Return the output path `name`; reject an existing file that `command` has not written."""
    path = Path(name)
    if path.exists():
        with open(path, encoding="utf-8", errors="replace") as file:
            if _generator(command) not in file.read(_HEAD):
                raise ValueError(
                    f"cannot overwrite {path}, which `rigidblocks {command}` did not write; choose "
                    "a name with --output"
                )
    return path


def _save_page(page: "Page", path: Path, command: str, open_it: bool, as_json: bool) -> None:
    """Write a web page, print its path, and open the page in the browser if requested."""
    import webbrowser
    from dataclasses import replace

    marked = f"{_CHARSET}\n{_generator(command)}"
    replace(page, html=page.html.replace(_CHARSET, marked, 1)).save(path)
    size = path.stat().st_size
    print_text_or_json(
        f"wrote {path}, {size / 1e3:.0f} kB", {"file": str(path), "bytes": size}, as_json
    )
    if open_it:
        webbrowser.open(path.resolve().as_uri())
