"""The commands that look at a file or make another one of it: info, check, convert, plot."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from rigidblocks.cli.application import APP, Floating, Json, say
from rigidblocks.cli.given import robot_of

if TYPE_CHECKING:
    from rigidblocks.simulation.result import Result


@APP.command("info")
def info(
    file: Annotated[Path, Argument(help="A robot, or an FMU.")],
    floating: Floating = False,
    as_json: Json = False,
) -> None:
    """Say what is in a robot's file or in an FMU."""
    if file.suffix == ".fmu":
        values = _fmu(file)
        lines = [f"{values['name']}: FMI {values['fmi']}, {values['bytes']} bytes"]
        lines += [_port(kind, port) for kind in _KINDS for port in values[kind]]
    else:
        values = _robot(file, floating)
        lines = [
            f"{values['name']}: {len(values['bodies'])} bodies, {values['freedoms']} freedoms, "
            f"{values['mass']:.6g} kg that move"
        ]
        lines += [_body(i, body) for i, body in enumerate(values["bodies"])]
    say("\n".join(lines), values, as_json)


_KINDS = ("input", "output", "parameter", "local")


def _robot(file: Path, floating: bool) -> dict[str, Any]:
    """The tree of a robot."""
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


def _fmu(file: Path) -> dict[str, Any]:
    """The variables of an FMU by causality, its platforms and its size."""
    import zipfile

    from fmpy import read_model_description

    _check_there(file)
    try:
        read = read_model_description(str(file), validate=False)
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except Exception as error:
        raise ValueError(f"{file}: this FMU cannot be read: {error}") from None
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
        raise FileNotFoundError(f"there is no FMU {file}")


def _port(kind: str, port: dict[str, Any]) -> str:
    start = "" if port["start"] is None else f" = {port['start']}"
    return f"  {kind:10} {port['name']}{start} {port['unit'] or ''}".rstrip()


@APP.command("check")
def check(
    file: Annotated[Path, Argument(help="A robot, or an FMU.")], as_json: Json = False
) -> None:
    """Say what is wrong with a robot, or what a bench wants to know of an FMU; 1 for problems."""
    if file.suffix == ".fmu":
        well = _sheet(file, as_json)
    else:
        from rigidblocks.formats.inspection import problems

        found = problems(file)
        lines = [f"{file}:{p.line}: {p.text}" if p.line else f"{file}: {p.text}" for p in found]
        text = "\n".join(lines) if lines else f"{file}: nothing is wrong with it"
        say(text, {"problems": [p._asdict() for p in found]}, as_json)
        well = not found
    if not well:
        raise Exit(1)


def _sheet(file: Path, as_json: bool) -> bool:
    """Prints the acceptance sheet of an FMU; whether it is accepted."""
    from rigidblocks.fmi.acceptance import acceptance

    _check_there(file)
    sheet = acceptance(file)
    lines = [f"{'ok' if one.well else 'NOT OK':8}{one.subject:15}{one.text}" for one in sheet]
    say("\n".join(lines), {"sheet": [one._asdict() for one in sheet]}, as_json)
    return all(one.well for one in sheet)


@APP.command("convert")
def convert(
    file: Annotated[
        Path, Argument(help="A record, such as run.csv.arrow of a killed run; or a robot's file.")
    ],
    out: Annotated[
        Path, Argument(help="The .arrow, .csv, .mf4 or .parquet file to write; a robot's .json.")
    ],
    as_json: Json = False,
) -> None:
    """Make another file of a run's record, of what is whole in it; or JSON of a robot's file."""
    if out.suffix == ".json":
        from rigidblocks.formats.json_file import save_model

        save_model(robot_of(file), out)
        made = str(out)
    else:
        from rigidblocks.simulation.files import FORMATS

        if out.suffix not in FORMATS:
            known = ", ".join(FORMATS)
            raise ValueError(f"'{out}' must end in .json for a robot, for a record in {known}")
        made = str(_result(file).save(out))
    say(made, {"file": made}, as_json)


@APP.command("plot")
def plot(
    results: Annotated[list[Path], Argument(help="Records of runs.")],
    signals: Annotated[
        str | None, Option(help="Those to draw, with commas; all unless given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the signals of each record over time, to a .png beside it."""
    from rigidblocks.cli.application import parts

    made = []
    for path in results:
        figure = path.with_suffix(".png")
        _result(path).plot(*(parts(signals) or ()), path=figure)
        made.append(str(figure))
    say("\n".join(made), {"files": made}, as_json)


def _result(path: Path) -> "Result":
    """The result in a file; a note on stderr tells where it ends early."""
    from rigidblocks.simulation.result import Result

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Result.load(path)
    for warning in caught:
        print(f"rigidblocks: {warning.message}", file=sys.stderr)
    return result
