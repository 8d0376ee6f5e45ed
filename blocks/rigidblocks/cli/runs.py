"""The commands that run something: run, demo."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from rigidblocks.cli.application import APP, Json, parts, say
from rigidblocks.cli.given import asked_of
from rigidblocks.cli.varied import designed

if TYPE_CHECKING:
    from rigidblocks.simulation.result import Result
    from rigidblocks.study.requirements import Requirement
    from rigidblocks.study.sweep import Sweep
    from rigidblocks.system.system import System
    from rigidblocks.view.live import LiveView

Stop = Annotated[float, Option("--stop", help="How long [s].")]
Step = Annotated[float, Option("--dt", help="The communication step [s].")]
MaybeStop = Annotated[float | None, Option("--stop", help="How long [s]; 1, or as the file says.")]
MaybeStep = Annotated[
    float | None, Option("--dt", help="The communication step [s]; 0.001, or as the file says.")
]
Script = Annotated[Path, Argument(help="A script that makes a `system`.")]
Out = Annotated[
    Path | None, Option("-o", "--output", help="The .arrow, .csv, .mf4 or .parquet file to write.")
]

Method = Annotated[str | None, Option(help="The integrator: rk4, adaptive, ros2, ...")]
MaybeScenario = Annotated[
    Path | None, Option(help="A .csv or .yaml of times and values of inputs and parameters.")
]
RUN: dict[str, Any] = {"t_stop": 1.0, "dt": 1e-3}  # where neither the file nor the command says
_TOLD = 20  # failures that are printed, of many


@APP.command("run")
def run(
    system: Annotated[
        Path, Argument(help="A script that makes a `system`; an .ssp; or one robot or FMU.")
    ],
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Out = None,
    method: Method = None,
    view: Annotated[
        bool, Option("--view", help="Watch it in the browser, at the pace of the clock.")
    ] = False,
    scenario: MaybeScenario = None,
    require: Annotated[
        Path | None, Option(help="A .yaml of what the run has to keep; 1 where it does not.")
    ] = None,
    report: Annotated[
        list[Path] | None, Option(help="Of what it keeps: .txt, .html or .xml (JUnit); again.")
    ] = None,
    order: Annotated[
        str | None, Option(help="In a step: gauss-seidel, one after the other, or jacobi.")
    ] = None,
    extrapolate: Annotated[
        int | None, Option(help="1 or 2: inputs follow lines or parabolas through the past.")
    ] = None,
    iterate: Annotated[bool, Option("--iterate", help="Take each step a second time.")] = False,
    newton: Annotated[
        bool, Option("--newton", help="Repeat each until the parts agree; algebraic loops.")
    ] = False,
    step_tol: Annotated[
        float | None, Option(help="Choose steps: the error in a second, of each output's size.")
    ] = None,
    step_min: Annotated[float | None, Option(help="The shortest of chosen steps [s].")] = None,
    bonds: Annotated[bool, Option("--bonds", help="Say what energy the coupling makes.")] = False,
    transparent: Annotated[
        bool, Option("--transparent", help="Integrate wired continuous blocks as one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a system, and say where its outputs end; 1 when the run fails."""
    from contextlib import ExitStack

    from rigidblocks.simulation.simulate import simulate

    asked = {"t_stop": stop, "dt": dt, "order": order, "extrapolate": extrapolate}
    asked |= {"iterate": "newton" if newton else iterate or None, "step_tol": step_tol}
    asked |= {"step_min": step_min, "bonds": bonds or None, "transparent": transparent or None}
    wired, told = asked_of(system, **asked)
    asked_for = _required(require, report)
    how = RUN | dict(told)
    with ExitStack() as open_while_it_runs:
        if view:
            live = open_while_it_runs.enter_context(_live(wired))
            how |= {"view": live, "real_time": 1.0}
        how |= {"method": method, "save": output, "scenario": scenario}
        result = simulate(wired, **how, progress=False)
        told_end(result, as_json)
        if view and sys.stdin.isatty():
            input("the page plays the run now; Enter ends it ")
    if asked_for and not _kept(result, asked_for, report or [], system.stem, as_json):
        raise Exit(1)


def _required(require: Path | None, report: list[Path] | None) -> "tuple[Requirement, ...]":
    """What a run has to keep, read before it begins."""
    from rigidblocks.study.requirements import load_requirements

    for path in report or []:
        if require is None or path.suffix not in (".txt", ".html", ".xml"):
            raise ValueError(f"'{path}': a report is a .txt, .html or .xml of what --require has")
    return () if require is None else load_requirements(require)


def _kept(
    result: "Result",
    requirements: "tuple[Requirement, ...]",
    reports: list[Path],
    name: str,
    as_json: bool,
) -> bool:
    """Whether a run keeps what it has to, which is said and written."""
    from rigidblocks.study.report import save_report, text_report
    from rigidblocks.study.requirements import check_requirements

    checked = check_requirements(result, requirements)
    for path in reports:
        save_report(path, checked, result, name)
    print(text_report(checked), file=sys.stderr if as_json else sys.stdout)
    return all(one.found.kept for one in checked)


def _live(system: "System") -> "LiveView":
    """A page that follows runs of a system, in the browser."""
    from rigidblocks.view.live import LiveView

    view = LiveView(system)
    print(f"the run is at {view.open()}", file=sys.stderr)
    return view


@APP.command("ssp")
def ssp(
    system: Script,
    output: Annotated[Path | None, Option("-o", "--output", help="The .ssp to write.")] = None,
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    platforms: Annotated[
        str | None, Option(help="Of its FMUs: all, or some with commas; default this machine's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a system as a file of the standard SSP, with its blocks as native FMUs."""
    from rigidblocks.ssp.save import save_system

    wired, how = asked_of(system, t_stop=stop, dt=dt)
    chosen = "all" if platforms == "all" else parts(platforms)
    path = save_system(wired, output or Path(f"{system.stem}.ssp"), platforms=chosen, **how)
    say(str(path), {"ssp": str(path)}, as_json)


@APP.command("runner")
def runner(
    system: Annotated[Path, Argument(help="A script that makes a `system`; or one robot.")],
    output: Annotated[Path | None, Option("-o", "--output", help="The program to write.")] = None,
    dt: MaybeStep = None,
    order: Annotated[str | None, Option(help="gauss-seidel or jacobi, of the parts.")] = None,
    platform: Annotated[
        str | None, Option(help="x86_64-linux, aarch64-linux or source; default this machine's.")
    ] = None,
    xcp: Annotated[
        str | None,
        Option(help="A port, or 127.0.0.1:5555, for measurement and calibration; with an A2L."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build a program that steps a system at the pace of the clock, without Python."""
    from rigidblocks.bench.program import build_runner

    wired, told = asked_of(system, dt=dt, order=order, platform=platform, xcp=xcp)
    given = {name: told[name] for name in ("order", "platform", "xcp") if name in told}
    path = output or Path(system.stem)
    build_runner(wired, path, told.get("dt", RUN["dt"]), **given)
    say(str(path), {"runner": str(path)}, as_json)


@APP.command("sweep")
def sweep(
    system: Annotated[
        Path, Argument(help="A script that makes a `system`; an .ssp; or one robot.")
    ],
    vary: Annotated[
        list[str], Option("--vary", help="pd.kp[1]=20,40 or =20:80:5, from to and how many; again.")
    ],
    measure: Annotated[
        list[str],
        Option("--measure", help="last, max, peak, rms ... of a signal: 'max robot.q[1]'; again."),
    ],
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="The .csv, .nc or .zarr of all runs; if begun, it goes on."),
    ] = None,
    threads: Annotated[int | None, Option(help="Runs at once; the processors.")] = None,
    method: Method = None,
    scenario: MaybeScenario = None,
    sample: Annotated[
        str | None, Option(help="latin, sobol or uniform: of ranges, as pd.kp[1]=20:80.")
    ] = None,
    runs: Annotated[int | None, Option(help="How many runs --sample takes.")] = None,
    seed: Annotated[int, Option(help="Of the random numbers of --sample.")] = 0,
    scheduler: Annotated[
        str | None, Option(help="The address of a Dask cluster, as tcp://bench:8786.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a system for every combination of values, and measure each run."""
    from rigidblocks.study.sweep import sweep as all_runs

    if twice := {one for one in measure if measure.count(one) > 1}:
        raise ValueError(f"--measure {twice.pop()} is given twice")
    design = designed(vary, sample, runs, seed)
    wired, told = asked_of(system, t_stop=stop, dt=dt)
    end, step = ((RUN | dict(told))[name] for name in ("t_stop", "dt"))
    how = {"save": output, "threads": threads, "scheduler": scheduler, "scenario": scenario}
    how |= {"method": method}
    done = all_runs(wired, design, end, step, {one: one for one in measure}, **how)  # type: ignore[arg-type]
    columns = {**done.varied, **done.measured}
    table = {name: column.tolist() for name, column in columns.items()}
    say(_summary(done), {"columns": table, "failures": dict(done.failures)}, as_json)


def _summary(done: "Sweep") -> str:
    """What came of a sweep, in lines."""
    lines = [f"{len(done)} runs, {len(done.failures)} failed"]
    failures = list(done.failures.items())
    lines += [f"run {k}: {said}" for k, said in failures[:_TOLD]]
    if len(failures) > _TOLD:
        lines.append(f"... and {len(failures) - _TOLD} more")
    for name, values in done.measured.items():
        good = values[values == values]
        text = f"from {good.min():.6g} to {good.max():.6g}" if len(good) else "no number in any run"
        lines.append(f"  {name}: {text}")
    return "\n".join(lines)


def _end(result: "Result") -> dict[str, Any]:
    """The last value of each element, of a text the text, of bytes their hexadecimal digits."""
    from rigidblocks.block.signal_types import TEXTUAL, text

    kinds = (port.type for port in result.ports for _ in port.element_names)
    end = dict[str, Any]()
    for name, kind, value in zip(result.columns, kinds, result.values[-1].tolist(), strict=True):
        known = text(value, kind) if kind in TEXTUAL else value
        end[name] = known.hex() if isinstance(known, bytes) else known
    return end


def told_end(result: "Result", as_json: bool) -> None:
    """Prints where the signals of a run end."""
    end = _end(result)
    values: dict[str, Any] = {"time": float(result.time[-1]), "end": end}
    lines = [f"t = {values['time']:g} s"]
    width = max([32, *map(len, end)])
    lines += [
        f"  {name:{width}} {value if isinstance(value, str) else f'{value:14.6g}'} {unit}"
        for (name, value), unit in zip(end.items(), result.units, strict=True)
    ]
    if (coupling := result.meta.get("coupling")) is not None:
        values["coupling"] = json.loads(coupling)
        lines += [f"  {name}: {value}" for name, value in values["coupling"].items()]
    say("\n".join(lines), values, as_json)


@APP.command("demo")
def demo(stop: Stop = 10.0, dt: Step = 1e-3, output: Out = None, as_json: Json = False) -> None:
    """Run a planar robot of two links that follows a command under a PD controller."""
    from rigidblocks.simulation.simulate import simulate

    told_end(simulate(_planar2ctrl(), stop, dt, save=output, progress=False), as_json)


def _planar2ctrl() -> "System":
    """The demo planar2ctrl of spatial_v1."""
    from rigidblocks.library import PDController, RepeatingSequence, RobotPlant
    from rigidblocks.robots import planar2
    from rigidblocks.system.system import System

    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add("pd", PDController(kp=[1000, 1000], kd=[15, 15]))
    corners = [[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]
    system.add("command", RepeatingSequence(t=[0, 1, 2, 3, 4], y=corners))
    system.connect("command.y", "pd.q_ref")
    system.connect("command.slope", "pd.qd_ref")
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    return system
