"""Commands that simulate a system: run, demo, sweep, fit, runner, serve, federate."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from rigidblocks.cli.app import (
    APP,
    RUN,
    Json,
    MaybeScenario,
    MaybeStep,
    MaybeStop,
    Method,
    Out,
    Step,
    Stop,
    print_final_values,
    print_text_or_json,
)
from rigidblocks.cli.input_files import load_run_options
from rigidblocks.common.optional_imports import module_of

if TYPE_CHECKING:
    from rigidblocks.cosim.graph.system import System
    from rigidblocks.cosim.results.result import Result
    from rigidblocks.studies.experiment_design import Design
    from rigidblocks.studies.fit import Fit
    from rigidblocks.studies.requirements import Requirement
    from rigidblocks.studies.sweep import Sweep
    from rigidblocks.view.run_page import LiveView
import json

from rigidblocks.cli.app import (
    Script,
)


@APP.command("run")
def run(
    system: Annotated[
        Path,
        Argument(help="Script that defines `system`, .ssp file or folder, robot file, or FMU."),
    ],
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Out = None,
    method: Method = None,
    view: Annotated[
        bool, Option("--view", help="Show the run in the browser, in real time.")
    ] = False,
    sensors: Annotated[
        bool, Option("--sensors", help="Record the sensors of a robot file as outputs.")
    ] = False,
    scenario: MaybeScenario = None,
    require: Annotated[
        Path | None,
        Option(help="Requirements file, .yaml; exit code 1 if the run violates a requirement."),
    ] = None,
    report: Annotated[
        list[Path] | None,
        Option(help="Report of the requirements: .txt, .html or .xml (JUnit); repeatable."),
    ] = None,
    order: Annotated[
        str | None, Option(help="Order of the parts: gauss-seidel (sequential) or jacobi.")
    ] = None,
    extrapolate: Annotated[
        int | None, Option(help="Degree of the polynomials that extrapolate inputs: 1 or 2.")
    ] = None,
    iterate: Annotated[
        bool, Option("--iterate", help="Repeat each step once with updated inputs.")
    ] = False,
    newton: Annotated[
        bool,
        Option("--newton", help="Iterate each step until the parts agree; for algebraic loops."),
    ] = False,
    step_tol: Annotated[
        float | None,
        Option(help="Step size control: allowed relative error of each output per second."),
    ] = None,
    step_min: Annotated[
        float | None, Option(help="Minimum step size of the step size control [s].")
    ] = None,
    bonds: Annotated[
        bool, Option("--bonds", help="Report the energy error of the coupling.")
    ] = False,
    transparent: Annotated[
        bool, Option("--transparent", help="Integrate connected continuous blocks as one block.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a system and print the final values of its outputs; exit code 1 for a failed run."""
    from contextlib import ExitStack

    from rigidblocks.cosim.simulate import simulate

    asked = {"t_stop": stop, "dt": dt, "order": order, "extrapolate": extrapolate}
    asked |= {"iterate": "newton" if newton else iterate or None, "step_tol": step_tol}
    asked |= {"step_min": step_min, "bonds": bonds or None, "transparent": transparent or None}
    asked_for = load_required(require, report)
    wired, run_options = load_run_options(system, sensors, **asked)
    how = RUN | dict(run_options)
    with ExitStack() as open_while_it_runs:
        if view:
            live = open_while_it_runs.enter_context(_live(wired))
            how |= {"view": live, "real_time": 1.0}
        how |= {"method": method, "save": output, "scenario": scenario}
        result = simulate(wired, **how, progress=False)
        print_final_values(result, as_json)
        if view and sys.stdin.isatty():
            input("the page plays the run; press Enter to end ")
    if asked_for and not report_requirements(result, asked_for, report or [], system.stem, as_json):
        raise Exit(1)


def load_required(require: Path | None, report: list[Path] | None) -> "tuple[Requirement, ...]":
    """Load the requirements file `require`, and check the file names `report` of the reports.

    The command calls this function before the run, so that a wrong option is reported at once.
    """
    from rigidblocks.studies.requirements import load_requirements

    for path in report or []:
        if require is None or path.suffix not in (".txt", ".html", ".xml"):
            raise ValueError(
                f"'{path}': a report needs the option --require, and a name that ends in .txt, "
                ".html or .xml"
            )
        if path.suffix == ".html":
            module_of("pygal", f"'{path}'")
    return () if require is None else load_requirements(require)


def report_requirements(
    result: "Result",
    requirements: "tuple[Requirement, ...]",
    reports: list[Path],
    name: str,
    as_json: bool,
) -> bool:
    """Evaluate requirements and write reports; return True if all requirements are satisfied."""
    from rigidblocks.studies.requirements import check_requirements, save_report, text_report

    checked = check_requirements(result, requirements)
    for path in reports:
        save_report(path, checked, result, name)
    print(text_report(checked), file=sys.stderr if as_json else sys.stdout)
    return all(one.found.kept for one in checked)


def _live(system: "System") -> "LiveView":
    """Open a web page that displays the motion of the system during the run."""
    from rigidblocks.view.run_page import LiveView

    view = LiveView(system)
    print(f"the run is shown at {view.open()}", file=sys.stderr)
    return view


@APP.command("demo")
def demo(stop: Stop = 10.0, dt: Step = 1e-3, output: Out = None, as_json: Json = False) -> None:
    """Simulate a planar two-link robot that follows a reference under PD control."""
    from rigidblocks.cosim.simulate import simulate

    print_final_values(simulate(_planar2ctrl(), stop, dt, save=output, progress=False), as_json)


def _planar2ctrl() -> "System":
    """Return the system `planar2ctrl` of spatial_v1: a two-link robot under PD control."""
    from rigidblocks.cosim.graph.system import System
    from rigidblocks.library import PDController, RepeatingSequence, RobotPlant
    from rigidblocks.robot.robots import planar2

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


_MAX_FAILURES = 20  # maximum number of failed runs to print


@APP.command("sweep")
def sweep(
    system: Annotated[
        Path, Argument(help="Script that defines `system`, an .ssp, or a robot file.")
    ],
    measure: Annotated[
        list[str],
        Option(
            "--measure", help="Statistic of a signal: 'max robot.q[1]', last, rms, ...; repeatable."
        ),
    ],
    vary: Annotated[
        list[str] | None,
        Option("--vary", help="Values: pd.kp[1]=20,40 or pd.kp[1]=start:end:count; repeatable."),
    ] = None,
    design: Annotated[
        Path | None,
        Option(help="Table with one run per row instead of --vary, .csv; the header has names."),
    ] = None,
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="Output: .csv, .nc or .zarr; resumes an incomplete sweep."),
    ] = None,
    threads: Annotated[
        int | None, Option(help="Number of parallel runs; default: the number of processors.")
    ] = None,
    method: Method = None,
    scenario: MaybeScenario = None,
    sample: Annotated[
        str | None,
        Option(help="Sampling of ranges such as pd.kp[1]=20:80: latin, sobol or uniform."),
    ] = None,
    runs: Annotated[int | None, Option(help="Number of runs of --sample.")] = None,
    seed: Annotated[int, Option(help="Random seed of --sample.")] = 0,
    scheduler: Annotated[
        str | None, Option(help="Address of a Dask scheduler, such as tcp://bench:8786.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a system for each combination of values and compute measures of each run."""
    from rigidblocks.studies.sweep import sweep as all_runs

    if twice := {one for one in measure if measure.count(one) > 1}:
        raise ValueError(f"--measure {twice.pop()} occurs twice; specify each measure once")
    rows = _design(vary or [], design, sample, runs, seed)
    wired, run_options = load_run_options(system, t_stop=stop, dt=dt)
    end, step = ((RUN | dict(run_options))[name] for name in ("t_stop", "dt"))
    how = {"save": output, "threads": threads, "scheduler": scheduler, "scenario": scenario}
    how |= {"method": method}
    with warnings.catch_warnings():  # the printed summary lists the failed runs
        warnings.filterwarnings("ignore", ".* runs failed", RuntimeWarning)
        done = all_runs(wired, rows, end, step, {one: one for one in measure}, **how)  # type: ignore[arg-type]
    columns = {**done.varied, **done.measured}
    table = {name: column.tolist() for name, column in columns.items()}
    print_text_or_json(
        _sweep_summary(done), {"columns": table, "failures": dict(done.failures)}, as_json
    )


def _sweep_summary(sweep: "Sweep") -> str:
    """Return a summary text: failed runs, and minimum and maximum of each measure."""
    lines = [f"{len(sweep)} runs, {len(sweep.failures)} failed"]
    failures = list(sweep.failures.items())
    lines += [f"run {k}: {said}" for k, said in failures[:_MAX_FAILURES]]
    if len(failures) > _MAX_FAILURES:
        lines.append(f"... and {len(failures) - _MAX_FAILURES} more")
    for name, values in sweep.measured.items():
        good = values[values == values]
        text = f"from {good.min():.6g} to {good.max():.6g}" if len(good) else "no value in any run"
        lines.append(f"  {name}: {text}")
    return "\n".join(lines)


def _design(
    vary: Sequence[str], table: Path | None, sample: str | None, runs: int | None, seed: int
) -> "Design":
    """Return the experiment design that the option --design or --vary specifies."""
    from rigidblocks.studies.experiment_design import table_design

    if bool(vary) == (table is not None):
        raise ValueError("a sweep needs one of --vary pd.kp[1]=20,40 and --design params.csv")
    if table is None:
        return parse_design(vary, sample, runs, seed)
    if sample is not None or runs is not None:
        raise ValueError("--sample and --runs need --vary; --design has its own runs")
    return table_design(table)


SAMPLES = {"latin": "latin_hypercube", "sobol": "sobol", "uniform": "uniform"}


def parse_design(vary: Sequence[str], sample: str | None, runs: int | None, seed: int) -> "Design":
    """Parse the design of a sweep.

    `vary` contains value lists such as `pd.kp[1]=20,40`, and the design is the grid of these
    values. If `sample` names a sampling method, `vary` contains ranges such as `pd.kp[1]=20:80`,
    and the design is a random sample of `runs` runs.

    Raises ValueError if a string contains no values, a name occurs twice, or options conflict.
    """
    from rigidblocks.studies import experiment_design as design

    names = [text.partition("=")[0] for text in vary]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(
            f"--vary {twice.pop()} occurs twice; write all values of a parameter in one option, "
            "with commas"
        )
    if sample is None:
        if runs is not None:
            raise ValueError(
                "--runs needs --sample; without --sample, the sweep runs each combination of "
                "the values once"
            )
        return design.grid(dict(map(_vary_values, vary)))
    if sample not in SAMPLES:
        raise ValueError(f"unknown --sample '{sample}'; expected one of {', '.join(SAMPLES)}")
    if runs is None:
        raise ValueError(f"--sample {sample} needs --runs, the number of runs")
    make = getattr(design, SAMPLES[sample])
    found: Design = make(dict(map(_vary_range, vary)), runs, seed)
    return found


def _vary_values(text: str) -> tuple[str, list[float]]:
    """Parse a string such as `pd.kp=1,2` or `pd.kp=1:4:7` into the name and the values.

    The string `pd.kp=1:4:7` stands for 7 values from 1 to 4.
    """
    import numpy as np

    name, equals, given = text.partition("=")
    values: list[float] = []
    try:
        for part in given.split(","):
            numbers = part.split(":")
            many = (float(numbers[0]), float(numbers[1]), int(numbers[2])) if numbers[1:] else ()
            values += np.linspace(*many).tolist() if many else [float(part)]
    except (ValueError, IndexError):
        equals = ""
    if not equals or not values:
        raise ValueError(f"'{text}' has no values; write it as {name}=1,2 or {name}=1:4:7")
    return name, values


def _vary_range(text: str) -> tuple[str, tuple[float, float]]:
    """Parse a string such as `pd.kp=1:4` into the name and the bounds."""
    name, _, given = text.partition("=")
    try:
        low, high = map(float, given.split(":"))
    except ValueError:
        raise ValueError(f"invalid range '{text}'; write it as {name}=1:4") from None
    return name, (low, high)


@APP.command("fit")
def fit(
    system: Annotated[
        Path, Argument(help="Script that defines `system`, an .ssp, or a robot file.")
    ],
    data: Annotated[
        Path, Argument(help="Recorded motion, .csv with the columns time, part.port, ...")
    ],
    find: Annotated[
        list[str],
        Option(
            "--find",
            help=(
                "Parameter to estimate: robot.payload_mass, or payload_mass=0.5 with its initial "
                "estimate; repeatable."
            ),
        ),
    ],
    noise: Annotated[
        list[str] | None,
        Option("--noise", help="Noise standard deviation of an output: robot.q=1e-3; repeatable."),
    ] = None,
    dt: MaybeStep = None,
    level: Annotated[float, Option(help="Confidence level of the intervals.")] = 0.95,
    method: Method = None,
    as_json: Json = False,
) -> None:
    """Estimate the parameters of a system from recorded motion."""
    from rigidblocks.studies.fit import fit as fitted

    wanted = dict(_parse_numbers(text, "--find") for text in _check_unique(find, "--find"))
    sigma = dict(_parse_numbers(text, "--noise") for text in _check_unique(noise or [], "--noise"))
    if missing := [name for name, value in sigma.items() if value is None]:
        raise ValueError(f"--noise {missing[0]} needs a number; write it as {missing[0]}=1e-3")
    if not data.is_file():
        raise FileNotFoundError(f"data file '{data}' does not exist")
    wired, run_options = load_run_options(system, dt=dt)
    how: dict[str, Any] = {"dt": run_options.get("dt"), "level": level, "method": method}
    found = fitted(wired, wanted, data, noise=sigma or None, **how)
    print_text_or_json(_fit_summary(found), _fit_values(found), as_json)


def _check_unique(texts: Sequence[str], option: str) -> Sequence[str]:
    names = [text.partition("=")[0] for text in texts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{option} {twice.pop()} occurs twice; specify each name once")
    return texts


def _parse_numbers(text: str, option: str) -> tuple[str, Any]:
    """Parse a string such as `robot.q=1,2` into the name and the list of values.

    The values are None if the string has no "=". `option` is the name of the command line option in
    the error message.
    """
    name, equals, numbers = text.partition("=")
    try:
        values = [float(one) for one in numbers.split(",")] if equals else None
    except ValueError:
        raise ValueError(
            f"invalid numbers in {option} '{text}'; write it as {name}=1 or {name}=1,2"
        ) from None
    return name, values


def _fit_summary(found: "Fit") -> str:
    how = "exact derivatives" if found.exact else "difference quotients"
    lines = [f"{found.runs} runs, {how}; intervals of {found.level:.0%}"]
    for name, value in found.values.items():
        low, high = found.intervals[name]
        bound = ", at its bound" if name in found.at_bound else ""
        lines.append(f"  {name:32} {value:14.6g}  from {low:.6g} to {high:.6g}{bound}")
    lines += [f"  noise of {name:23} {value:14.6g}" for name, value in found.noise.items()]
    return "\n".join(lines)


def _fit_values(result: "Fit") -> dict[str, Any]:
    """Return the estimates of a fit and the accuracy of the estimates as values for JSON."""
    return {
        "values": dict(result.values),
        "deviations": dict(result.deviations),
        "intervals": dict(result.intervals),
        "level": result.level,
        "noise": dict(result.noise),
        "at_bound": list(result.at_bound),
        "correlation": result.correlation.tolist(),
        "exact": result.exact,
        "runs": result.runs,
    }


@APP.command("runner")
def runner(
    system: Annotated[Path, Argument(help="Script that defines `system`, or a robot file.")],
    output: Annotated[Path | None, Option("-o", "--output", help="Program to write.")] = None,
    dt: MaybeStep = None,
    order: Annotated[str | None, Option(help="Order of the parts: gauss-seidel or jacobi.")] = None,
    platform: Annotated[
        str | None,
        Option(help="Platform: x86_64-linux, aarch64-linux or source; default: this machine."),
    ] = None,
    xcp: Annotated[
        str | None,
        Option(
            help="Port or address of the XCP server, such as 127.0.0.1:5555; also writes an A2L."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build a real-time program that runs a system without Python."""
    from rigidblocks.hil.build_runner import build_runner

    wired, run_options = load_run_options(system, dt=dt, order=order, platform=platform, xcp=xcp)
    given = {
        name: run_options[name] for name in ("order", "platform", "xcp") if name in run_options
    }
    path = output or Path(system.stem)
    build_runner(wired, path, run_options.get("dt", RUN["dt"]), **given)
    print_text_or_json(str(path), {"runner": str(path)}, as_json)


@APP.command("serve")
def serve(
    folder: Annotated[Path, Argument(help="Folder of the FMUs.")] = Path(),
    listen: Annotated[
        str, Option(help="Address on which to listen; default: loopback.")
    ] = "127.0.0.1:5555",
    key_file: Annotated[
        Path | None,
        Option(help="File with the key of the clients; required unless the address is loopback."),
    ] = None,
) -> None:
    """Serve the FMUs of a folder to other processes and machines."""
    from rigidblocks.hil.fmu_server import serve_fmus

    serve_fmus(folder, listen, key_file, ready=lambda at: print(f"serving at {at}", flush=True))


@APP.command("federate")
def federate(
    system: Script,
    part: Annotated[list[str], Option("--part", help="Part to simulate here; repeatable.")],
    broker: Annotated[str, Option(help="Address of the broker.")] = "127.0.0.1:23404",
    core: Annotated[str, Option(help="Core type of the federation: zmq or tcp.")] = "zmq",
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Out = None,
    write_config: Annotated[
        Path | None,
        Option(
            help="Write the .json configuration of the federate instead of running the federate."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate parts of a system as a HELICS federate."""
    from rigidblocks.hil.helics_federate import federate as join
    from rigidblocks.hil.helics_federate import federate_config

    wired, run_options = load_run_options(system, t_stop=stop, dt=dt)
    end, step = ((RUN | dict(run_options))[name] for name in ("t_stop", "dt"))
    if write_config is not None:
        config = federate_config(wired, part, step, broker=broker, core=core)
        write_config.write_text(json.dumps(config, indent=2))
        print_text_or_json(str(write_config), {"config": str(write_config)}, as_json)
        return
    print_final_values(join(wired, part, end, step, broker=broker, core=core, save=output), as_json)
