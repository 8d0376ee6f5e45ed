"""Commands that write FMUs and SSP files: new, fmu, ssp."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option
from typer.core import TyperCommand

from rigidblocks.cli.app import (
    APP,
    Floating,
    Json,
    MaybeStep,
    MaybeStop,
    Script,
    check_ending,
    print_text_or_json,
    print_warnings,
    split_commas,
)
from rigidblocks.cli.input_files import (
    LEFT_OUT,
    TUNABLE,
    check_tunable,
    inertias_of,
    is_system,
    load_run_options,
    make_identifier,
    parameters_of,
    robot_of,
    stops_of,
    system_of,
    wire_robot,
)

if TYPE_CHECKING:
    from rigidblocks.robot.robot_description import RobotDescription


class Target(StrEnum):
    """Type of the exported FMU: native, C sources without a binary, or Python (`export_fmu`)."""

    NATIVE = "native"
    SOURCE = "source"
    PYTHON = "python"


class Controller(StrEnum):
    """Controller that the FMU of a robot contains (option `--controller`)."""

    PD = "pd"
    ACTUATORS = "actuators"


class GroupedCommand(TyperCommand):
    """Command whose `--help` groups the options by their `rich_help_panel`.

    Typer itself groups options only with the package rich, which this application does not use.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help text: the arguments, then the options of each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_option = parameter.param_type_name == "option"
                panel = getattr(parameter, "rich_help_panel", None)
                group = panel or ("Options" if is_option else "Arguments")
                groups.setdefault(group, []).append(record)
        for group in sorted(groups, key=_GROUPS.index):
            with formatter.section(group):
                formatter.write_dl(groups[group])


_ROBOT, _POLICY, _STEPS = "Robot", "Policy", "Integration"
_ARCHIVE, _METADATA = "Archive", "Metadata"
_GROUPS = ("Arguments", "Options", _ROBOT, _POLICY, _STEPS, _ARCHIVE, _METADATA)


def _option(text: str, group: str | None = None, *names: str) -> Any:
    return Option(*names, help=text, rich_help_panel=group)


@APP.command("fmu", cls=GroupedCommand)
def fmu(
    files: Annotated[
        list[Path],
        Argument(help="Robot files, FMU scripts, system scripts, or ONNX files of policies."),
    ],
    output: Annotated[
        Path | None,
        _option("FMU to write; default: the name of the input file.", None, "-o", "--output"),
    ] = None,
    floating: Floating = False,
    key: Annotated[
        str | None, _option("Keyframe that defines the start configuration.", _ROBOT)
    ] = None,
    joint_friction: Annotated[
        bool,
        _option(
            "Include joint springs, damping and friction; the integrator is then ros2.",
            _ROBOT,
            "--joint-friction",
        ),
    ] = False,
    frames: Annotated[
        str | None,
        _option("Frames whose poses are outputs, comma-separated, such as tool0.", _ROBOT),
    ] = None,
    forces: Annotated[
        str | None,
        _option("Frames with a wrench [n; f] as input, comma-separated.", _ROBOT),
    ] = None,
    stops: Annotated[
        str | None,
        _option("Compliant stops at the joint limits: stiffness,damping such as 1e4,50.", _ROBOT),
    ] = None,
    sensors: Annotated[
        bool, _option("Sensors of the robot file as outputs.", _ROBOT, "--sensors")
    ] = False,
    controller: Annotated[
        Controller | None,
        _option("Built-in controller: pd (input q_ref), or actuators (from the file)."),
    ] = None,
    sample_time: Annotated[
        float | None,
        _option("Sample time [s] of the policy of an ONNX file.", _POLICY, "--sample-time"),
    ] = None,
    keep_state: Annotated[
        bool,
        _option(
            "Keep the states of recurrent operators between the samples.", _POLICY, "--keep-state"
        ),
    ] = False,
    target: Annotated[Target, _option("Kind of FMU.")] = Target.NATIVE,
    fmi: Annotated[int, _option("FMI version: 2 or 3.")] = 2,
    platforms: Annotated[
        str | None,
        _option(
            "Platforms: all, or a list such as x86_64-linux,x86_64-windows; default: this machine."
        ),
    ] = None,
    name: Annotated[
        str | None, _option("Model identifier; default: name of the robot or class.")
    ] = None,
    tunable: Annotated[
        str | None,
        _option(
            "Tunable parameters, comma-separated: names, payload, inertia, friction or gravity."
        ),
    ] = None,
    bundle: Annotated[
        bool, _option("Include rigidblocks in a Python FMU.", _ARCHIVE, "--bundle")
    ] = False,
    method: Annotated[str | None, _option("Integrator: rk4, adaptive, ros2, ...", _STEPS)] = None,
    h: Annotated[float | None, _option("Maximum inner step [s].", _STEPS)] = None,
    rtol: Annotated[
        float | None, _option("Relative tolerance of an adaptive method.", _STEPS)
    ] = None,
    atol: Annotated[
        float | None, _option("Absolute tolerance of an adaptive method.", _STEPS)
    ] = None,
    max_inner_steps: Annotated[
        int | None, _option("Maximum number of inner steps in a communication step.", _STEPS)
    ] = None,
    dt: Annotated[
        float | None,
        _option(
            "Communication step [s] of the parts of a system that is exported as one FMU.", _STEPS
        ),
    ] = None,
    order: Annotated[
        str | None, _option("Order of the parts of a system: gauss-seidel or jacobi.", _STEPS)
    ] = None,
    deflate: Annotated[bool, _option("Compress the archive.", _ARCHIVE, "--deflate")] = False,
    page: Annotated[
        bool,
        _option(
            "Add a web page that simulates the FMU to the documentation of the FMU.",
            _ARCHIVE,
            "--page",
        ),
    ] = False,
    xcp: Annotated[
        str | None,
        _option("Port or address of an XCP server in the FMU (FMI-LS-XCP).", _ARCHIVE),
    ] = None,
    arrays: Annotated[
        bool,
        _option(
            "Array variables in FMI 3.0, or scalar variables such as q[1].",
            _ARCHIVE,
            "--arrays/--no-arrays",
        ),
    ] = True,
    output_derivatives: Annotated[
        int | None,
        _option(
            "Highest order of output derivatives, 0 to 2; default: the order that adds little "
            "code.",
            _ARCHIVE,
        ),
    ] = None,
    interval: Annotated[
        float | None,
        _option("Clock interval [s] of an FMI 3.0 FMU for scheduled execution.", _STEPS),
    ] = None,
    clock: Annotated[
        str | None,
        _option("FMI 3.0 clock that activates the sampling: periodic or triggered.", _STEPS),
    ] = None,
    binary: Annotated[
        str | None,
        _option("Ports that become FMI 3.0 binary variables, separated by commas.", _ARCHIVE),
    ] = None,
    resizable: Annotated[
        bool, _option("Define the array sizes by an FMI 3.0 structural parameter.", _ARCHIVE)
    ] = False,
    author: Annotated[str | None, _option("Author.", _METADATA)] = None,
    version: Annotated[str | None, _option("Version of the model.", _METADATA)] = None,
    copyright: Annotated[str | None, _option("Copyright.", _METADATA)] = None,  # noqa: A002
    license: Annotated[str | None, _option("License.", _METADATA)] = None,  # noqa: A002
    description: Annotated[str | None, _option("Description.", _METADATA)] = None,
    as_json: Json = False,
) -> None:
    """Build an FMU from each robot file (URDF, xacro, SDF, MJCF, JSON), script or ONNX file."""
    options: dict[str, Any] = {
        "target": target.value,
        "fmi": fmi,
        "name": name,
        "method": method,
        "h": h,
    }
    options |= {"rtol": rtol, "atol": atol, "max_inner_steps": max_inner_steps}
    options |= {"dt": dt, "order": order, "bundle": bundle, "deflate": deflate}
    options |= {"page": page, "xcp": xcp, "arrays": arrays}
    options |= {"output_derivatives": output_derivatives, "interval": interval}
    options |= {"clock": clock, "resizable": resizable}
    options["binary"] = split_commas(binary) or ()
    options["platforms"] = "all" if platforms == "all" else split_commas(platforms)
    options["metadata"] = _metadata(author, version, copyright, license, description)
    robot_options: dict[str, Any] = {
        "joint_friction": joint_friction,
        "frames": split_commas(frames),
        "controller": controller,
    }
    robot_options |= {
        "floating": floating,
        "key": key,
        "forces": split_commas(forces),
        "stops": stops_of(stops),
        "sensors": sensors,
    }
    check_ending(output, ".fmu")
    if output and len(files) > 1:
        raise ValueError(f"--output needs exactly one input file, not {len(files)}")
    made = []
    for file in files:
        path = output or Path(f"{file.stem}.fmu")
        if file.suffix == ".onnx":
            _check_only_robots(file, "an ONNX file", {**robot_options, "tunable": tunable})
            made.append(str(_policy_fmu(file, path, options, sample_time, keep_state)))
            continue
        _check_only_policies(file, sample_time, keep_state)
        made.append(str(_export(file, path, options, robot_options, split_commas(tunable))))
    print_text_or_json("\n".join(made), {"fmus": made}, as_json)


def _metadata(*texts: str | None) -> Any:
    from rigidblocks.fmi.model_description import Metadata

    return Metadata(*texts)


def _export(
    file: Path,
    path: Path,
    options: Mapping[str, Any],
    robot_options: Mapping[str, Any],
    tunable: list[str] | None,
) -> Path:
    """Export one input file as the FMU `path`, and return this path.

    `options` are arguments of `export_fmu`, and `robot_options` the options of robot files.
    """
    if file.suffix == ".py":
        _check_only_robots(file, "a script", robot_options)
        from rigidblocks.fmi.export import export_fmu

        if is_system(file) and options["dt"] is None:
            raise ValueError(f"the system in {file} needs --dt, its communication step [s]")
        source = system_of(file).system if is_system(file) else file
        return export_fmu(source, path, tunable=tunable, **options)
    return _robot_fmu(file, path, options, robot_options, tunable)


def _check_only_robots(file: Path, kind: str, robot_options: Mapping[str, Any]) -> None:
    """Reject robot options for `file`, which is not a robot file.

    Args:
        file: Input file.
        kind: Kind of the file for the error message, such as "a script".
        robot_options: Values of the robot options by name.

    Raises:
        ValueError: A robot option is set.
    """
    if given := [key for key, value in robot_options.items() if value]:
        names = " and ".join(f"--{key.replace('_', '-')}" for key in given)
        raise ValueError(f"{file} is {kind}; leave out {names}, which only robot files support")


def _check_only_policies(file: Path, sample_time: float | None, keep_state: bool) -> None:
    """Reject the options of ONNX policies for `file`, which is not an ONNX file.

    Raises:
        ValueError: `sample_time` or `keep_state` is set.
    """
    given = {"--sample-time": sample_time is not None, "--keep-state": keep_state}
    if names := " and ".join(name for name, is_given in given.items() if is_given):
        raise ValueError(f"{file} is not an ONNX file; leave out {names}, which need an ONNX file")


def _policy_fmu(
    file: Path, path: Path, options: Mapping[str, Any], sample_time: float | None, keep_state: bool
) -> Path:
    """Export the policy of an ONNX file as the FMU `path`, and return this path.

    `options` are further arguments of `export_fmu`.
    """
    from rigidblocks.fmi.export import export_fmu
    from rigidblocks.library.policies import load_policy

    policy = load_policy(file, sample_time=sample_time, keep_state=keep_state)
    return export_fmu(
        policy, path, **{**options, "name": options["name"] or make_identifier(file.stem)}
    )


def _option_warnings(
    robot: "RobotDescription", joint_friction: bool, tuned: bool, stops: tuple[float, float] | None
) -> Iterator[str]:
    """Yield warnings about joint properties that the FMU ignores or the robot does not define.

    `tuned` is True if the option --tunable contains "friction".
    """
    from rigidblocks.library.plant_from_file import described_elements, has_joint_friction

    if has_joint_friction(robot) and not joint_friction:
        yield f"{LEFT_OUT}; --joint-friction includes them"
    if joint_friction and not has_joint_friction(robot):
        option = "--tunable friction" if tuned else "--joint-friction"
        yield f"the robot has no joint springs, damping or dry friction for {option}"
    if stops and len(described_elements(robot, stops=stops)) == len(described_elements(robot)):
        yield "the robot has no joint limits for --stops"


def _robot_fmu(
    file: Path,
    path: Path,
    options: Mapping[str, Any],
    robot_options: Mapping[str, Any],
    tunable: list[str] | None,
) -> Path:
    # reject a file that contains no robot before the slow imports
    robot = robot_of(file, robot_options["floating"], robot_options["key"])
    from rigidblocks.block.integrators import ROS2
    from rigidblocks.fmi.export import export_fmu
    from rigidblocks.library.plant_from_file import described_plant
    from rigidblocks.robot_description.urdf_lint import singular_start

    groups = set(tunable or ()) & TUNABLE
    joint_friction = robot_options["joint_friction"] or "friction" in groups
    stops, frames, forces = (robot_options[key] for key in ("stops", "frames", "forces"))
    print_warnings(file, _option_warnings(robot, joint_friction, "friction" in groups, stops))
    if singular := singular_start(robot):
        print_warnings(file, [singular])
    held = inertias_of(robot, groups, frames or forces)
    plant: Any = described_plant(robot, joint_friction, held, stops, robot_options["sensors"])
    print_warnings(file, getattr(plant, "renamed_sensors", ()))
    names = parameters_of(plant, tunable)
    if frames or forces or robot_options["controller"]:
        plant = wire_robot(robot, plant, frames or (), robot_options["controller"], forces or ())
        own = {port.name for port in plant.parameters}
        names = names and [name if name in own else f"robot.{name}" for name in names]
    check_tunable(plant, names)
    changes = {"name": options["name"] or make_identifier(robot.model.name), "tunable": names}
    changes["method"] = options["method"] or (ROS2 if joint_friction and not stops else None)
    return export_fmu(plant, path, **{**options, **changes})


@APP.command("ssp")
def ssp(
    system: Script,
    output: Annotated[Path | None, Option("-o", "--output", help=".ssp file to write.")] = None,
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    platforms: Annotated[
        str | None,
        Option(
            help="Platforms of the FMUs: all, or a comma-separated list; default: this machine."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a system as an SSP file, with its blocks as native FMUs."""
    from rigidblocks.fmi.ssp.save import save_system

    check_ending(output, ".ssp")
    wired, how = load_run_options(system, t_stop=stop, dt=dt)
    chosen = "all" if platforms == "all" else split_commas(platforms)
    path = save_system(wired, output or Path(f"{system.stem}.ssp"), platforms=chosen, **how)
    print_text_or_json(str(path), {"ssp": str(path)}, as_json)


BLOCK = '''"""{title}: template of an FMU script.

Build it with `rigidblocks fmu {name}_fmu.py`.
"""

from dataclasses import dataclass

from rigidblocks import Block, Port
from rigidblocks.spatial.scalar import clip
from rigidblocks.fmi.slave import BlockSlave


@dataclass(frozen=True)
class {title}(Block):
    """First-order lag with a limited input: T dy/dt = clip(u) - y."""

    T: float = 0.1
    limit: float = 2.0
    inputs = (Port("u", unit="1", start=0.0),)
    outputs = states = (Port("y", unit="1", start=0.0),)

    @property
    def parameters(self):
        time_constant = Port("T", unit="s", start=self.T, positive=True)
        return time_constant, Port("limit", unit="1", start=self.limit, min=0.0)

    def derivative(self, x, u, p):
        return {{"y": (clip(u.u, -p.limit, p.limit) - x.y) / p.T}}


class {title}Slave(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__({title}(), **kwargs)
'''
SYSTEM = '''"""Template of a system with {title}: `rigidblocks run {name}_system.py`."""

from {name}_fmu import {title}

from rigidblocks import System

system = System()
system.add("{name}", {title}(), start={{"u": 1.0}})
'''


@APP.command("new")
def new(
    name: Annotated[str, Argument(help="Name of the block: letters, digits and _.")],
    as_json: Json = False,
) -> None:
    """Create a new block: a script that defines its FMU, and a system that runs the block."""
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"invalid block name '{name}'; use letters, digits and _")
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    texts = {Path(f"{name}_fmu.py"): BLOCK, Path(f"{name}_system.py"): SYSTEM}
    if there := [str(path) for path in texts if path.exists()]:
        raise ValueError(
            f"cannot overwrite {', '.join(there)}; delete the existing files or choose another name"
        )
    for path, text in texts.items():
        path.write_text(text.format(name=name, title=title))
    made = [str(path) for path in texts]
    print_text_or_json("\n".join(made), {"files": made}, as_json)
