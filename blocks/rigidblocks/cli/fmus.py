"""The command `fmu`."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rigidblocks.cli.application import APP, Floating, Json, parts, say, warn
from rigidblocks.cli.given import (
    LEFT_OUT,
    TUNABLE,
    check_tunable,
    inertias_of,
    is_system,
    parameters_of,
    plain,
    robot_of,
    stops_of,
    system_of,
    wired_robot,
)

if TYPE_CHECKING:
    from rigidblocks.formats.description import RobotDescription


class Target(StrEnum):
    """The kinds of FMUs."""

    NATIVE = "native"
    SOURCE = "source"
    PYTHON = "python"


class Controller(StrEnum):
    """The controllers that a robot can have inside its FMU."""

    PD = "pd"
    ACTUATORS = "actuators"


def _option(text: str) -> Any:
    return Option(help=text)


@APP.command("fmu")
def fmu(
    files: Annotated[list[Path], Argument(help="Robots, scripts of FMUs, or scripts of systems.")],
    output: Annotated[
        Path | None, Option("-o", "--output", help="The FMU; the file's name with .fmu.")
    ] = None,
    floating: Floating = False,
    resistance: Annotated[
        bool, Option("--resistance", help="With springs, damping and friction; by ros2.")
    ] = False,
    frames: Annotated[
        str | None, _option("Frames whose poses are outputs, with commas: tool0.")
    ] = None,
    forces: Annotated[
        str | None, _option("Frames at which a wrench [n; f] is an input, with commas.")
    ] = None,
    stops: Annotated[
        str | None, _option("Stops at the limits: stiffness and damping, as 1e4,50.")
    ] = None,
    controller: Annotated[
        Controller | None,
        _option("A controller inside: pd, then q_ref is the input; or the file's actuators."),
    ] = None,
    target: Annotated[Target, _option("What kind of FMU.")] = Target.NATIVE,
    fmi: Annotated[int, _option("The version of FMI, 2 or 3.")] = 2,
    platforms: Annotated[
        str | None, _option("all, or some with commas: x86_64-linux; default this machine's.")
    ] = None,
    name: Annotated[str | None, _option("The model identifier; the robot's or class's.")] = None,
    tunable: Annotated[
        str | None,
        _option("Parameters that can be set, with commas; payload, inertia, friction, gravity."),
    ] = None,
    bundle: Annotated[
        bool, Option("--bundle", help="Put rigidblocks itself into a Python FMU.")
    ] = False,
    method: Annotated[str | None, _option("The integrator: rk4, adaptive, ros2, ...")] = None,
    h: Annotated[float | None, _option("The longest inner step [s].")] = None,
    rtol: Annotated[float | None, _option("The relative tolerance of an adaptive method.")] = None,
    atol: Annotated[float | None, _option("The absolute tolerance of an adaptive method.")] = None,
    max_inner_steps: Annotated[int | None, _option("At most so many in a step.")] = None,
    dt: Annotated[float | None, _option("The step [s] of a system that becomes one FMU.")] = None,
    order: Annotated[str | None, _option("gauss-seidel or jacobi, of a system's parts.")] = None,
    deflate: Annotated[bool, Option("--deflate", help="Compress the archive.")] = False,
    page: Annotated[
        bool, Option("--page", help="Put a page into its documentation in which it runs.")
    ] = False,
    xcp: Annotated[
        str | None, _option("Port or address where the FMU listens for XCP (FMI-LS-XCP).")
    ] = None,
    author: Annotated[str | None, _option("The author in the model description.")] = None,
    version: Annotated[str | None, _option("The version in the model description.")] = None,
    copyright: Annotated[str | None, _option("The copyright there.")] = None,  # noqa: A002
    license: Annotated[str | None, _option("The license there.")] = None,  # noqa: A002
    description: Annotated[str | None, _option("The description there.")] = None,
    as_json: Json = False,
) -> None:
    """Build an FMU from each robot (URDF, xacro, SDF, MJCF, JSON), script or system."""
    asked: dict[str, Any] = {
        "target": target.value,
        "fmi": fmi,
        "name": name,
        "method": method,
        "h": h,
    }
    asked |= {"rtol": rtol, "atol": atol, "max_inner_steps": max_inner_steps}
    asked |= {"dt": dt, "order": order, "bundle": bundle, "deflate": deflate}
    asked |= {"page": page, "xcp": xcp}
    asked["platforms"] = "all" if platforms == "all" else parts(platforms)
    asked["metadata"] = _metadata(author, version, copyright, license, description)
    of_robot: dict[str, Any] = {
        "resistance": resistance,
        "frames": parts(frames),
        "controller": controller,
    }
    of_robot |= {"floating": floating, "forces": parts(forces), "stops": stops_of(stops)}
    if output and len(files) > 1:
        raise ValueError(f"{output} cannot be {len(files)} FMUs: --output is for one file")
    made = []
    for file in files:
        path = output or Path(f"{file.stem}.fmu")
        made.append(str(_export(file, path, asked, of_robot, parts(tunable))))
    say("\n".join(made), {"fmus": made}, as_json)


def _metadata(*texts: str | None) -> Any:
    from rigidblocks.fmi.metadata import Metadata

    return Metadata(*texts)


def _export(
    file: Path,
    path: Path,
    asked: Mapping[str, Any],
    of_robot: Mapping[str, Any],
    tunable: list[str] | None,
) -> Path:
    """The FMU of one file, written to `path`."""
    if file.suffix == ".py":
        if given := [key for key, value in of_robot.items() if value]:
            text = "is a script, whose block says it all: it takes no"
            raise ValueError(f"{file} {text} {' and '.join(f'--{key}' for key in given)}")
        from rigidblocks.fmi.export import export_fmu

        source = system_of(file).system if is_system(file) else file
        return export_fmu(source, path, tunable=tunable, **asked)
    return _robot_fmu(file, path, asked, of_robot, tunable)


def _unlike_asked(
    robot: "RobotDescription", resistance: bool, tuned: bool, stops: tuple[float, float] | None
) -> Iterator[str]:
    """What a file says and nobody asks for, and what is asked for and the file does not say."""
    from rigidblocks.library.described import described_elements, resists

    if resists(robot) and not resistance:
        yield f"{LEFT_OUT}; --resistance has them"
    if resistance and not resists(robot):
        asked = "that could be tuned" if tuned else "for --resistance to have"
        yield f"it has no springs, damping or dry friction {asked}"
    if stops and len(described_elements(robot, stops=stops)) == len(described_elements(robot)):
        yield "it has no limits for --stops to be at"


def _robot_fmu(
    file: Path,
    path: Path,
    asked: Mapping[str, Any],
    of_robot: Mapping[str, Any],
    tunable: list[str] | None,
) -> Path:
    robot = robot_of(file, of_robot["floating"])  # what is no robot is refused before the rest
    from rigidblocks.block.integrators import ROS2
    from rigidblocks.fmi.export import export_fmu
    from rigidblocks.formats.inspection import singular_start
    from rigidblocks.library.described import described_plant

    groups = set(tunable or ()) & TUNABLE
    resistance = of_robot["resistance"] or "friction" in groups
    stops, frames, forces = (of_robot[key] for key in ("stops", "frames", "forces"))
    warn(file, _unlike_asked(robot, resistance, "friction" in groups, stops))
    if singular := singular_start(robot):
        warn(file, [singular])
    held = inertias_of(robot, groups, frames or forces)
    plant: Any = described_plant(robot, resistance, held, stops)
    names = parameters_of(plant, tunable)
    if frames or forces or of_robot["controller"]:
        plant = wired_robot(robot, plant, frames or (), of_robot["controller"], forces or ())
        own = {port.name for port in plant.parameters}
        names = names and [name if name in own else f"robot.{name}" for name in names]
    check_tunable(plant, names)
    changes = {"name": asked["name"] or plain(robot.model.name), "tunable": names}
    changes["method"] = asked["method"] or (ROS2 if resistance and not stops else None)
    return export_fmu(plant, path, **{**asked, **changes})
