"""A system made ready to run as often as one likes."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.block.adaptive import DEFAULT_METHOD, Method, method_of
from rigidblocks.block.record import offer
from rigidblocks.block.step import sample_spans
from rigidblocks.simulation.arguments import check_count, check_names, check_numbers
from rigidblocks.simulation.coupling import PLAIN, Coupling, check_returns
from rigidblocks.simulation.links import check_loops
from rigidblocks.simulation.plan import FORMS, Plan
from rigidblocks.simulation.recording import chosen
from rigidblocks.simulation.run import Run
from rigidblocks.simulation.stepping import stepped
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fused import GAUSS_SEIDEL, ORDERS
from rigidblocks.system.merged import closed, merged, synchronous
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring

LOG = logging.getLogger("rigidblocks")


def prepare(
    system: System,
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
    record: Sequence[str] = ("*",),
    every: int = 1,
) -> Run:
    """A system made ready to run: all that no number decides is done once, as tracing and compiling
    its blocks.

        run = prepare(system, 1e-3)
        for kp in (20.0, 40.0, 80.0):
            result = run.simulate(2.0, start={"pd.kp": kp})

    `run.simulate` gives whole results, `run.step` goes step by step (`Run`). The arguments are
    those of `simulate`; later changes of the system have no effect. Raises what `simulate` raises
    for them, but for what depends on the end of a run.
    """
    coupling = Coupling(extrapolate, iterate, step_tol, step_min, bonds)  # type: ignore[arg-type]
    options = rtol, atol, max_inner_steps, events, coupling
    plan = planned(system, dt, t_start, order, form, method, h, *options)
    check_names({"record": record})
    check_count("every", every)
    chosen(plan.wiring.outputs, record)  # raises for a pattern that names nothing
    plan.compile()
    return Run(plan, tuple(record), every)


def planned(
    system: System,
    dt: float,
    t_start: float,
    order: str,
    form: str,
    method: Method | str | None,
    h: float | None,
    rtol: float | None,
    atol: float | None,
    max_inner_steps: int | None,
    events: Sequence[str],
    coupling: Coupling = PLAIN,
    transparent: bool = False,
) -> Plan:
    """The arguments of a run, checked."""
    if not isinstance(system, System):
        raise TypeError(f"a run takes a System with its parts, not a {type(system).__name__}")
    check_numbers({"dt": dt, "t_start": t_start})
    check_names({"events": events})
    for what, value, known in (("form", form, FORMS), ("order", order, ORDERS)):
        if value not in known:
            raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    bounds: dict[str, Any] = {"rtol": rtol, "atol": atol, "max_inner_steps": max_inner_steps}
    method_of(method or DEFAULT_METHOD, **bounds)  # refuses what is none
    wiring = system.wiring()
    if transparent:
        wiring = _merged(wiring, form)
    if form == "fused":
        wiring = closed(wiring)
    wiring = synchronous(wiring)
    wiring = stepped(wiring, method, h, **bounds)
    _check_steps(wiring, t_start, dt)
    _ = wiring.open_inputs  # raises for an input left open
    if coupling.solves:
        check_loops(wiring)
    else:
        _ = wiring.stepping_order  # raises for an algebraic loop
    _check_events(wiring, events, form)
    coupling.check(wiring, form, events)
    plan = Plan(wiring, float(t_start), float(dt), order, form, tuple(events), coupling)
    if coupling.iterate:
        circles = [group for group in plan.links.groups if len(plan.links.interface(group))]
        check_returns(wiring, (name for group in circles for name in group), "iterate")
    return plan


def _merged(wiring: Wiring, form: str) -> Wiring:
    """The wiring with its continuous blocks coupled transparently, which the log is told."""
    if form == "fused":
        raise ValueError("a fused run is not transparent; take the form compiled or numpy")
    new, circles = merged(wiring)
    for circle in circles:
        LOG.info("coupled without a hold, as one block: %s", ", ".join(circle))
    return new


def _check_steps(wiring: Wiring, t_start: float, dt: float) -> None:
    if not (np.isfinite([t_start, dt]).all() and dt > 0):
        raise ValueError(f"a run needs a finite t_start and dt > 0, not {t_start} and {dt}")
    for name, part in wiring.parts.items():
        sample_time = getattr(part.component, "sample_time", None)
        try:
            sample_spans(sample_time, dt)
        except ValueError as error:
            raise ValueError(f"'{name}': {error}") from None
        if (
            sample_time is not None
            and abs(t_start / sample_time - np.rint(t_start / sample_time)) > 1e-6
        ):
            raise ValueError(
                f"'{name}': t_start = {t_start} s is not a multiple of its sample time "
                f"{sample_time} s"
            )


def _check_events(wiring: Wiring, events: Sequence[str], form: str) -> None:
    if not events:
        return
    if form == "fused":
        raise ValueError("a fused run cannot go back to an event; take the form compiled or numpy")
    for name, part in wiring.parts.items():
        if isinstance(part.component, Fmu) and not part.component.takes_any_step:
            raise ValueError(
                f"a step that ends at an event is shorter than dt, and '{name}' takes steps of one "
                "length alone (canHandleVariableCommunicationStepSize is false)"
            )
    known = [
        wiring.whole_name(name, element)
        for name, part in wiring.parts.items()
        for y in part.component.outputs
        for element in y.element_names
    ]
    if unknown := [event for event in events if event not in known]:
        raise ValueError(
            f"there is no output element '{unknown[0]}' to be an event; {offer(unknown[0], known)}"
        )
