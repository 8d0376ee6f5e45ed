"""The co-simulation of a system at a fixed communication step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from rigidblocks.block.adaptive import Method
from rigidblocks.simulation.arguments import check_count, check_names, check_numbers, check_path
from rigidblocks.simulation.coupling import Coupling
from rigidblocks.simulation.course import course
from rigidblocks.simulation.ending import Interrupted, SimulationError
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.pace import CATCH_UP, Pace
from rigidblocks.simulation.prepare import planned
from rigidblocks.simulation.recording import Wanted
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.scenario import Scenario, in_scenario
from rigidblocks.simulation.watch import Watcher, check_watcher
from rigidblocks.system.fused import GAUSS_SEIDEL
from rigidblocks.system.system import System

__all__ = ["Interrupted", "SimulationError", "simulate"]


def simulate(
    system: System,
    t_stop: float,
    dt: float,
    *,
    t_start: float = 0.0,
    order: str = GAUSS_SEIDEL,
    form: str = "compiled",
    method: Method | str | None = None,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_inner_steps: int | None = None,
    events: Sequence[str] = (),
    extrapolate: int = 0,
    iterate: bool | str = False,
    step_tol: float | None = None,
    step_min: float | None = None,
    bonds: bool | Sequence[tuple[str, str]] = False,
    transparent: bool = False,
    record: Sequence[str] = ("*",),
    every: int = 1,
    save: str | Path | None = None,
    progress: bool = True,
    scenario: Scenario | Mapping[str, ArrayLike] | str | Path | None = None,
    real_time: float | None = None,
    overrun: str = CATCH_UP,
    view: Watcher | None = None,
) -> Result:
    """All outputs of the system at t_start, t_start + dt, ... t_stop: a run of what `prepare` makes
    ready, for one run alone.

    In each step every part goes from t to t + dt with its inputs held. With `order` "gauss-seidel"
    a part whose outputs read its inputs at once steps behind the parts that it reads from, and
    reads their new outputs; with "jacobi" all read the outputs of time t. `form` says how blocks
    run: "compiled" to C, in plain "numpy", "fused", the whole system as one C loop, or "traced", in
    NumPy with their functions as graphs, which needs no C compiler; FMUs bring their own form.
    `method`, `h`, `rtol`, `atol` and `max_inner_steps` are those of `System.add`, for all blocks
    that were added without a method, and for such FMUs in model exchange where it is explicit.

    `events` names outputs, such as "ball.gap" or "robot.q[1]", whose fall through zero is an event.
    A step in which one falls is taken back, by the saved states of all parts, and repeated until it
    ends where the first of them has just come to zero or below: located to 1e-12 of dt, as exactly
    as the parts integrate. There all exchange their outputs, the result gets a row of its own, and
    a shorter step leads on to the next multiple of dt; blocks sample where they would without it.
    The `events` of the result have the time and, as their kind, the output. What goes below zero
    and comes back within one step is not seen.

    Better steps than those with held inputs, each an option, are in docs/masters.md. With
    `extrapolate` 1 or 2, for "jacobi", inputs follow polynomials of that degree through the last
    outputs. With `iterate` the parts that read each other in circles take each step a second time
    from saved states, their inputs now through the outputs that they came to; with "newton" until
    these agree to 1e-12, which solves algebraic loops too. With `step_tol` steps are dt or a part
    of it, dt / 2, dt / 4 and so on, as their error asks for: less than step_tol in a second of each
    output's size; no step is shorter than `step_min`. `bonds` are pairs of outputs, a force and the
    speed that it acts on, such as ("motor.tau", "load.qd"), or True for all pairs whose product is
    a power: the energy that the coupling makes at each is logged. With `transparent` all continuous
    blocks that are connected are integrated as one (`ContinuousSystem`), by the method of the run,
    without any hold between them, their algebraic loops solved, as those of a fused run are; the
    log and `meta` say which.

    `record` names the outputs to keep by patterns, such as ["robot.*", "pd.tau"], and with `every`
    only each such communication point is kept, beside the events. `save` names an .arrow, .csv,
    .parquet or .mf4 file for the result, and is checked before the first step. Where pyarrow is
    installed, the run is recorded while it goes on, in chunks of no more than 1 MB or 1 s, to that
    .arrow file, or for another ending to a log beside it, as `run.csv.arrow`, from which the file
    is made at the end. Of a run that is killed the log has every whole chunk: `Result.load` opens
    it, and `rigidblocks convert` makes the file of it.

    A `scenario` sets inputs that nothing is connected to, and parameters, while the run goes on: a
    table by columns, {"time": [0.5, 1.0], "pd.kp[1]": [20.0, 40.0]}, or a .csv, .yaml or .json file
    (`Scenario.of`). What it sets at a time holds from the first step that begins there or later.

    With `real_time` the run keeps the pace of the clock, as many seconds of simulation in one
    second; `overrun` says what becomes of a step that ends after the next is due: "catch-up",
    "skip", in which the simulation stands still meanwhile, or "stop". How it was kept is in
    `meta["real_time"]` of the result, as JSON; `build_runner` makes a program that keeps it better.
    `view` looks on, as `LiveView(system)` does, a page in the browser which shows the run as it
    goes: some ten times a second, and the run never waits for it.

    A run that fails raises SimulationError, and Ctrl-C or SIGTERM raises Interrupted; both carry
    the result up to then, which is saved too. A second one ends the making of a file from its log,
    which is kept. Raises ValueError for an algebraic loop, an open input without a start value, and
    a dt that does not divide the run or fit the sample times, TypeError for an argument of a wrong
    type, and what `Result.save` raises for `save`. Warns where a block among the parts knows
    (`Block.longest_hold`) that dt holds its outputs so long that the wiring is unstable, or
    (`Block.modes`) that it is integrated in steps that are too long for its springs. What
    blocks have to say of the run (`Block.remarks`) goes to the log `rigidblocks`.
    """
    check_numbers({"t_stop": t_stop, "dt": dt, "t_start": t_start})
    check_names({"record": record})
    check_count("every", every)
    check_path("save", save)
    check_watcher(view)
    if real_time is not None:
        check_numbers({"real_time": real_time})
    elif overrun != CATCH_UP:
        raise ValueError(f"overrun={overrun!r} is for runs at the clock's pace; give real_time")
    grid = communication_points(t_start, t_stop, dt)
    if transparent and scenario is not None:
        raise ValueError(
            "a scenario sets values of parts, and transparent parts are one: leave one"
        )
    coupling = Coupling(extrapolate, iterate, step_tol, step_min, bonds)  # type: ignore[arg-type]
    options = rtol, atol, max_inner_steps, events, coupling
    plan = planned(system, dt, t_start, order, form, method, h, *options, transparent)
    told = None if scenario is None else Scenario.of(scenario)
    if told is not None:
        plan = in_scenario(plan, told)
    wanted = Wanted(tuple(record), every, None if save is None else Path(save))
    wanted.check(plan.wiring, grid)
    pace = None if real_time is None else Pace(real_time, dt, overrun)
    return course(plan, grid, wanted, progress, 1, pace=pace, view=view, scenario=told)
