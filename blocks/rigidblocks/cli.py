"""The command `rigidblocks`."""

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import rigidblocks
from rigidblocks.block.adaptive import METHODS
from rigidblocks.block.block import Block
from rigidblocks.block.integrators import ROS2
from rigidblocks.fmi.export import TARGETS, export_fmu
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.platforms import ALL, PLATFORMS
from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.library.described import described_plant, resists
from rigidblocks.simulation.result import Result
from rigidblocks.tracing.cache import cache_folder, clear, spare_folder
from rigidblocks.tracing.doctor import findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 1 with the error on stderr or with what is not well, or 2
    where what was given is no robot.
    """
    parser = argparse.ArgumentParser(
        prog="rigidblocks", description="robot-dynamics blocks for co-simulation"
    )
    parser.add_argument(
        "--version", action="version", version=f"rigidblocks {rigidblocks.__version__}"
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_fmu(commands.add_parser("fmu", help="build an FMU from a robot or a script"))
    _add_info(commands.add_parser("info", help="say what is in a robot's file"))
    _add_doctor(commands.add_parser("doctor", help="look at the compiler and the compile cache"))
    _add_convert(commands.add_parser("convert", help="make another file of a run's record"))
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except FormatError as error:
        print(f"rigidblocks: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        # what a user can mend is said in one line, with the notes that say where
        print(f"rigidblocks: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1


def _add_fmu(fmu: argparse.ArgumentParser) -> None:
    fmu.set_defaults(run=_export)
    fmu.add_argument(
        "file",
        type=Path,
        help="a robot (URDF, SDF, MJCF, JSON), or a script as in fmus/: a class that names a block",
    )
    fmu.add_argument(
        "-o",
        "--output",
        type=Path,
        help="the FMU to write; the file's name with .fmu unless given",
    )
    fmu.add_argument("--floating", action="store_true", help="let the base of a robot float")
    fmu.add_argument(
        "--resistance",
        action="store_true",
        help="with the springs, damping and dry friction of a robot's file, by ROS2 unless told",
    )
    fmu.add_argument(
        "--target", choices=TARGETS, default="native", help="native (C), source (C code) or python"
    )
    fmu.add_argument("--fmi", type=int, default=2, help="the version of FMI; default 2")
    platforms = f"{ALL}, or some of {','.join(PLATFORMS)}, with commas; default this machine's"
    fmu.add_argument("--platforms", help=platforms)
    fmu.add_argument(
        "--name",
        help="the model identifier; the robot's name or that of the script's class unless given",
    )
    fmu.add_argument(
        "--tunable",
        help="the parameters that can be set in the FMU, with commas; as the script says by "
        "default",
    )
    fmu.add_argument(
        "--bundle", action="store_true", help="put rigidblocks itself into a Python FMU"
    )
    fmu.add_argument("--method", help=f"how it is integrated: {', '.join(METHODS)}")
    fmu.add_argument("--rtol", type=float, help="the relative tolerance of an adaptive method")
    fmu.add_argument(
        "--max-inner-steps", type=int, help="how many of them an adaptive method takes in a step"
    )
    fmu.add_argument("--deflate", action="store_true", help="compress the archive")
    for field in fields(Metadata):
        fmu.add_argument(f"--{field.name}", help=f"the {field.name} in the model description")


def _export(options: argparse.Namespace) -> int:
    is_robot = options.file.suffix != ".py"
    if (options.floating or options.resistance) and not is_robot:
        text = "is a script, whose block says it all: it takes no --floating and no --resistance"
        raise ValueError(f"{options.file} {text}")
    source: Block | Path = options.file
    if is_robot:
        robot = _robot(options)
        source = described_plant(robot, options.resistance)
        if resists(robot) and not options.resistance:
            text = "its springs, damping and dry friction are left out; --resistance has them"
            print(f"rigidblocks: {options.file}: {text}", file=sys.stderr)
    path = export_fmu(
        source,
        options.output or Path(f"{options.file.stem}.fmu"),
        options.target,
        fmi=options.fmi,
        platforms=ALL if options.platforms == ALL else _split(options.platforms),
        tunable=_split(options.tunable),
        name=_identifier(robot.model.name) if is_robot and not options.name else options.name,
        method=options.method or (ROS2 if options.resistance else None),
        rtol=options.rtol,
        max_inner_steps=options.max_inner_steps,
        bundle=options.bundle,
        metadata=Metadata(**{f.name: getattr(options, f.name) for f in fields(Metadata)}),
        deflate=options.deflate,
    )
    print(path)
    return 0


def _robot(options: argparse.Namespace) -> RobotDescription:
    """The robot in the file, with its warnings on stderr."""
    robot = load_model(options.file, floating=options.floating)
    for warning in robot.warnings:
        print(f"rigidblocks: {options.file}: {warning}", file=sys.stderr)
    return robot


def _identifier(name: str) -> str:
    """The name with all that a model identifier cannot have as _."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if re.match("[A-Za-z_]", plain) else f"_{plain}"


def _add_info(info: argparse.ArgumentParser) -> None:
    info.set_defaults(run=_inform)
    info.add_argument("file", type=Path, help="a robot (URDF, SDF, MJCF, JSON)")
    info.add_argument("--floating", action="store_true", help="let its base float")


def _inform(options: argparse.Namespace) -> int:
    """Prints the tree of a robot."""
    model = _robot(options).model
    mass = sum(body.m for body in model.inertia)
    print(f"{model.name}: {model.nb} bodies, {model.nv} freedoms, {mass:.6g} kg that move")
    for i in range(model.nb):
        parent = model.body_names[model.parent[i]] if model.parent[i] >= 0 else "base"
        joint = type(model.joint[i]).__name__
        print(
            f"{i:4}  {model.joint_names[i]:28} {joint:10} {parent} -> {model.body_names[i]}, "
            f"{model.inertia[i].m:.6g} kg"
        )
    return 0


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.set_defaults(run=_examine)
    doctor.add_argument("--clear", action="store_true", help="remove all compiled libraries first")


def _examine(options: argparse.Namespace) -> int:
    """Prints what is found; returns 1 when something is not as it should be."""
    if options.clear:
        for folder in (cache_folder(), spare_folder()):
            print(f"removed {clear(folder)} files from {folder}")
    well = True
    for finding in findings():
        print(f"{'ok' if finding.well else 'NOT OK':8}{finding.subject:12}{finding.text}")
        well = well and finding.well
    return 0 if well else 1


def _add_convert(convert: argparse.ArgumentParser) -> None:
    convert.set_defaults(run=_convert)
    convert.add_argument("log", type=Path, help="a record, such as run.csv.arrow of a killed run")
    convert.add_argument("out", type=Path, help="the .arrow, .csv, .mf4 or .parquet file to write")


def _convert(options: argparse.Namespace) -> int:
    """Writes what is whole in a record; a note on stderr tells where it ends early."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Result.load(options.log)
    for warning in caught:
        print(f"rigidblocks: {warning.message}", file=sys.stderr)
    print(result.save(options.out))
    return 0


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part for part in text.split(",") if part]


if __name__ == "__main__":
    sys.exit(main())
