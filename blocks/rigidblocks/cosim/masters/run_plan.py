"""Run plans, which contain checked options, the stepping order and compiled code."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import floor, isfinite, log2
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import (
    DEFAULT_METHOD,
    Method,
    longest_step,
    memory_for,
    method_of,
)
from rigidblocks.block.block import Block
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import (
    CompiledStepper,
    Stepper,
    check_resolution,
    count_tolerance,
    fits_sample_time,
    initialize,
    sample_spans,
)
from rigidblocks.common.name_hints import suggestion
from rigidblocks.cosim.fmu_import.model_exchange import check_method
from rigidblocks.cosim.graph.block_merging import merge_blocks
from rigidblocks.cosim.graph.fmu_file import CO_SIMULATION, MODEL_EXCHANGE
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL, JACOBI, ORDERS, FusedSystem
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.masters.dependency_graph import Bond, Links, bonds_of
from rigidblocks.cosim.results.provenance import provenance, start_content, system_content
from rigidblocks.cosim.run_options import DEFAULTS, PrepareOptions, check_names, check_numbers
from rigidblocks.cosim.scenario import Scenario, Schedule
from rigidblocks.kernels.block_digest import content_digest
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper, traced_stepper
from rigidblocks.library.estimators import KalmanFilter
from rigidblocks.spatial.spatial import Array

NEWTON = "newton"


@dataclass(frozen=True)
class Coupling:
    """Coupling options of a run.

    The constructor checks the value of each option. The method `check` checks the options for a
    particular system.

    Attributes:
        extrapolate: Degree of the input polynomials.
        iterate: True to repeat steps once, "newton" to repeat them until convergence.
        step_tol: Tolerance of the step size control.
        step_min: Minimum step [s] of the step size control.
        bonds: Pairs of a force output and a velocity output, whose coupling energy is measured;
            True selects all pairs whose product is a power.
    """

    extrapolate: int = 0
    iterate: bool | str = False
    step_tol: float | None = None
    step_min: float | None = None
    bonds: bool | tuple[tuple[str, str], ...] = False

    def __post_init__(self) -> None:
        if isinstance(self.extrapolate, bool) or self.extrapolate not in (0, 1, 2):
            raise ValueError(f"extrapolate must be 0, 1 or 2, not {self.extrapolate!r}")
        if not isinstance(self.iterate, bool) and self.iterate != NEWTON:
            raise ValueError(f"iterate must be True, False or '{NEWTON}', not {self.iterate!r}")
        _check_positive("step_tol", self.step_tol)
        _check_positive("step_min", self.step_min)
        if self.step_min is not None and self.step_tol is None:
            raise ValueError("step_min needs step_tol, the tolerance of the step size control")
        if not isinstance(self.bonds, bool):
            object.__setattr__(self, "bonds", _pairs(self.bonds))

    @property
    def is_plain(self) -> bool:
        """True if all coupling options are the defaults: held inputs, steps of constant length."""
        return self == Coupling()

    @property
    def uses_polynomial_inputs(self) -> bool:
        """True if inputs may be polynomials within a step."""
        return bool(self.extrapolate or self.iterate)

    @property
    def solves(self) -> bool:
        """True if algebraic loops are solved."""
        return self.iterate == NEWTON

    @property
    def order(self) -> int:
        """Order p of the coupling error O(dt^p)."""
        return self.extrapolate + (2 if self.iterate else 1)

    def check(self, wiring: Wiring, form: str, events: Any) -> None:
        """Raise ValueError for coupling options that the run does not support.

        The options may conflict with each other, with the form or events of the run, or with a part
        of the system.
        """
        if self.is_plain:
            return
        given = ", ".join(name for name, value in vars(self).items() if value)
        for name, part in wiring.parts.items():
            if part.dt is not None:
                raise ValueError(
                    f"{given} cannot be combined with dt={part.dt:g} of '{name}'; remove one of "
                    "them"
                )
        if form == "fused":
            raise ValueError(
                f"the form 'fused' does not support {given}; use the form compiled or numpy"
            )
        if events:
            raise ValueError(f"events cannot be combined with {given}; remove one of them")
        if self.step_tol is not None:
            for name, part in wiring.parts.items():
                if isinstance(part.component, Fmu) and not part.component.takes_any_step:
                    raise ValueError(
                        f"step_tol needs variable communication step sizes, which '{name}' does "
                        "not support (canHandleVariableCommunicationStepSize is false)"
                    )
            check_state_restoration(wiring, wiring.parts, "step_tol")


def check_state_restoration(wiring: Wiring, names: Iterable[str], option: str) -> None:
    """Raise ValueError if one of the parts `names` cannot restore an earlier state.

    `option` is the option that repeats steps, for the error message.
    """
    for name in names:
        if not wiring.parts[name].can_restore_state:
            raise ValueError(
                f"{option} repeats steps, but '{name}' cannot restore an earlier state "
                "(canGetAndSetFMUstate is false)"
            )


def _check_positive(option: str, value: Any) -> None:
    if value is None:
        return
    check_numbers({option: value})
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{option} must be finite and positive, not {value}")


def _pairs(given: Any) -> tuple[tuple[str, str], ...]:
    text = (
        f"bonds must be True or pairs of outputs, such as ('motor.tau', 'load.qd'), not {given!r}"
    )
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(text)
    pairs = tuple(tuple(pair) if isinstance(pair, tuple | list) else (pair,) for pair in given)
    if any(len(pair) != 2 or not all(isinstance(name, str) for name in pair) for pair in pairs):
        raise TypeError(text)
    return pairs


_MOST_HALVINGS = 16  # the default minimum step is the longest step / 2^16
FORMS = ("compiled", "numpy", "fused", "traced")


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of a run: the wiring of a system, and the options.

    Plans that differ only in their start values and their scenarios share the compiled code.

    Attributes:
        wiring: Parts and connections of the system.
        t_start: Start time [s].
        dt: Communication step [s].
        order: Stepping order of the parts, "gauss-seidel" or "jacobi".
        form: Implementation of the blocks, as in `simulate`.
        events: Names of the outputs that are event indicators.
        coupling: Coupling options.
        schedule: Values that are set during the run, or None.
    """

    wiring: Wiring
    t_start: float
    dt: float
    order: str
    form: str
    events: tuple[str, ...] = ()
    coupling: Coupling = field(default_factory=Coupling)
    schedule: Schedule | None = None

    @property
    def is_simultaneous(self) -> bool:
        """True if all parts read the outputs at the beginning of the step (Jacobi)."""
        return self.order == JACOBI

    @property
    def stepping_order(self) -> tuple[str, ...]:
        """Names of the parts in stepping order.

        If algebraic loops are solved, each strongly connected component of the parts steps after
        the components that it reads.
        """
        if self.coupling.solves:
            return tuple(name for group in self.links.groups for name in group)
        return self.wiring.stepping_order

    @cached_property
    def slow_parts(self) -> dict[str, int]:
        """Ratio of the communication step of a part to that of the run, by part name.

        The result contains only the parts whose communication step is longer than that of the run.
        """
        counts = {
            name: round(part.dt / self.dt)
            for name, part in self.wiring.parts.items()
            if part.dt is not None
        }
        return {name: n for name, n in counts.items() if n > 1}

    @cached_property
    def links(self) -> Links:
        """Signal links between the parts."""
        return Links(self.wiring)

    @cached_property
    def bonds(self) -> tuple[Bond, ...]:
        """Power bonds whose coupling energy is measured."""
        return bonds_of(self.wiring, self.links, self.coupling.bonds)

    @cached_property
    def spans(self) -> int:
        """Number of equal spans into which the sample instants divide a step of dt.

        No step of the step size control is longer than a span.
        """
        return _spans_between_samples(self.wiring, self.dt)

    @cached_property
    def halvings(self) -> int:
        """Number of halvings that reduce a span to the minimum step of the step size control.

        Raises ValueError if the minimum step is longer than half a span.
        """
        if self.coupling.step_min is None:
            return _MOST_HALVINGS
        longest = self.dt / self.spans
        halvings = floor(log2(longest / self.coupling.step_min) + 1e-9)
        if halvings < 1:
            raise ValueError(
                f"step_min = {self.coupling.step_min} s is too large: it must be at most half "
                f"of the longest step, {longest:g} s"
            )
        return halvings

    @cached_property
    def steppers(self) -> Mapping[str, Stepper]:
        """Steppers of the blocks by part name."""
        return {
            name: make_for_part(name, partial(self._stepper, part))
            for name, part in self.wiring.parts.items()
            if isinstance(part.component, Block)
        }

    @cached_property
    def fused_block(self) -> FusedSystem:
        """Whole system as one sampled block; raises the exceptions of `FusedSystem`."""
        return FusedSystem(self.wiring, self.dt, self.order)

    @cached_property
    def fused_start(self) -> Array:
        """Memory vector of `fused_block` after the initialization at the start time."""
        memory = Memory(self.fused_block)
        return initialize(NumpyEvaluator(memory), memory.start(), self.t_start)

    @cached_property
    def fused(self) -> CompiledStepper:
        """Stepper of the whole system, which is compiled as one block."""
        return compiled_stepper(Memory(self.fused_block), h=self.dt)

    @property
    def meta(self) -> dict[str, str]:
        """Metadata of the run.

        Two runs have the same `digest` only if all data that affect the results are equal.
        """
        if self.schedule is None:
            return self._meta
        return self.schedule.scenario.metadata(self._meta)

    @cached_property
    def _meta(self) -> dict[str, str]:
        """Metadata of a run without a scenario."""
        content, fmus = self.content
        settings = self.order, self.dt, self.t_start, self.form, self.events, self.coupling
        return {
            "digest": content_digest(content, start_content(self.wiring), settings),
            "order": self.order,
            "dt": repr(self.dt),
            "form": self.form,
            **(
                {"transparent": "; ".join(sorted(self.wiring.merged))} if self.wiring.merged else {}
            ),
            **{key: str(value) for key, value in vars(self.coupling).items() if value},
            **provenance(self.wiring, fmus),
        }

    @cached_property
    def content(self) -> tuple[str, dict[str, str]]:
        """Digest of the system without start values, and digests of the FMU files."""
        return system_content(self.wiring)

    @cached_property
    def computed(self) -> dict[str, Any]:
        """Cache of computed values by name, such as "warnings".

        Plans with the same start values share this cache.
        """
        return {}

    def compile(self) -> None:
        """Compile the code of all blocks of the plan."""
        _ = self.fused if self.form == "fused" else self.steppers

    def replace_wiring(self, wiring: Wiring) -> "Plan":
        """Return a copy of this plan with a wiring that differs only in its start values."""
        return self._share_code(replace(self, wiring=wiring))

    def add_scenario(self, scenario: Scenario) -> "Plan":
        """Return a copy of this plan with a scenario and its values at the start time.

        Raises the exceptions of `Scenario.schedule`.
        """
        schedule = scenario.schedule(self.wiring, self.t_start)
        start = schedule.start
        wiring = self.wiring.replace_start_values(start) if start else self.wiring
        unchanged = () if start else ("_meta", "computed")
        return self._share_code(replace(self, wiring=wiring, schedule=schedule), *unchanged)

    def _share_code(self, plan: "Plan", *others: str) -> "Plan":
        """Copy the compiled code and other cached properties to another plan; return that plan.

        `others` are the names of further cached properties to copy.
        """
        for name in ("steppers", "fused", "links", "bonds", "spans", "content", *others):
            if name in vars(self):
                vars(plan)[name] = vars(self)[name]
        return plan

    def _stepper(self, part: Part) -> Stepper:
        assert isinstance(part.component, Block)
        method, h = part.stepping
        called_back = self.form == "numpy" or isinstance(part.component, PythonBlock)
        memory = memory_for(part.component, method)
        if called_back:
            return numpy_stepper(memory, method, h)
        if self.form == "traced":
            return traced_stepper(memory, method, h)
        return compiled_stepper(memory, method, h, follows=self.coupling.uses_polynomial_inputs)


def make_for_part(name: str, make: Callable[[], Any]) -> Any:
    """Return the result of `make` for a part; if it fails, add the part name to the error."""
    try:
        return make()
    except BaseException as error:
        if not isinstance(error, FmuError):  # the message of an FmuError contains the name already
            error.add_note(f"while preparing the part '{name}'")
        raise


LOG = logging.getLogger("rigidblocks")


def make_plan(
    system: System,
    dt: float,
    t_start: float = 0.0,
    form: str = "compiled",
    options: PrepareOptions = PrepareOptions(),  # noqa: B008 - not changed
    scenario: Scenario | None = None,
) -> Plan:
    """Check the arguments of a run and return its plan; recording options are ignored."""
    chosen = {**DEFAULTS, **options}
    order, events = chosen["order"], chosen["events"]
    method, h, transparent = chosen["method"], chosen["h"], chosen["transparent"]
    coupling = Coupling(**{field.name: chosen[field.name] for field in fields(Coupling)})
    if not isinstance(system, System):
        kind = type(system).__name__
        hint = (
            "; write system = System(); system.add('part', block)"
            if callable(getattr(system, "derivative", None))
            else ""
        )
        raise TypeError(f"a run needs a System, not a {kind}{hint}")
    check_numbers({"dt": dt, "t_start": t_start})
    check_names({"events": events})
    for what, value, known in (("form", form, FORMS), ("order", order, ORDERS)):
        if value not in known:
            raise ValueError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    bounds = {name: chosen[name] for name in ("rtol", "atol", "max_inner_steps")}
    method_of(method or DEFAULT_METHOD, **bounds)  # raises KeyError for an unknown method
    given = system.wiring()
    wiring = merge_blocks(given, form, transparent)
    if not (coupling.iterate or coupling.solves):
        _report_input_hold(given, order)
    wiring = set_default_method(wiring, method, h, **bounds)
    _ = wiring.open_inputs  # raises ValueError for an unconnected input without a start value
    _check_algebraic_loops(wiring, coupling)
    _check_events(wiring, events, form)
    coupling.check(wiring, form, events)
    _check_steps(wiring, t_start, dt)
    if not coupling.iterate:
        _report_undeclared(wiring, order)
    plan = Plan(wiring, float(t_start), float(dt), order, form, tuple(events), coupling)
    if coupling.iterate:
        circles = [group for group in plan.links.groups if len(plan.links.interface(group))]
        check_state_restoration(wiring, (name for group in circles for name in group), "iterate")
    _ = plan.bonds  # raises an error for unknown outputs, and for pairs that are not power bonds
    if coupling.step_tol is not None:
        _ = plan.halvings
        _ = plan.spans  # raises ValueError for sample times that do not fit dt
    plan = plan if scenario is None else plan.add_scenario(scenario)
    _check_clocks(wiring, plan.dt)
    return plan


def _report_input_hold(wiring: Wiring, order: str) -> None:
    """Log a warning for each Kalman filter whose `input_hold` differs from the stepping order.

    A filter is checked if it measures exactly one plant of the same class as its plant model. For
    each input that the plant and the filter read from the same part, the stepping order determines
    whether the plant holds the new or the previous value. The option `input_hold` of the filter
    must state the same.
    """
    filters = {
        name: part.component
        for name, part in wiring.parts.items()
        if isinstance(part.component, KalmanFilter) and part.component.plant.states
    }
    if not filters:
        return
    sources: dict[tuple[str, str], set[str]] = {}
    for connection in wiring.connections:
        sources.setdefault(connection.target, set()).add(connection.source[0])
    steps = wiring.stepping_order
    for name, observer in filters.items():
        measured = [sources.get((name, f"{one}_measured"), set()) for one in observer.measured]
        kind = type(observer.plant)
        plants = [
            one for one in set().union(*measured) if type(wiring.parts[one].component) is kind
        ]
        if len(plants) != 1:
            continue
        for port in observer.plant.inputs:
            drivers = sources.get((plants[0], port.name), set())
            if len(drivers) != 1 or drivers != sources.get((name, port.name)):
                continue
            (driver,) = drivers
            is_new = order == GAUSS_SEIDEL and steps.index(driver) < steps.index(plants[0])
            expected = "new" if is_new else "previous"
            if observer.input_hold != expected:
                LOG.warning(
                    "the estimator '%s' has input_hold='%s', but the plant '%s' holds the %s value "
                    "of its input '%s', because '%s' %s; use input_hold='%s'",
                    *(name, observer.input_hold, plants[0], expected, port.name, driver),
                    "steps before the plant" if is_new else "does not step before the plant",
                    expected,
                )


def _report_undeclared(wiring: Wiring, order: str) -> None:
    """Log a warning with the stepping order of FMUs whose undeclared dependencies form a loop."""
    late = "each FMU reads the outputs from the previous step"
    if order == GAUSS_SEIDEL:
        late = (
            "they step in this order, and each FMU reads the outputs of later FMUs from the "
            "previous step"
        )
    if names := wiring.undeclared_parts:
        LOG.warning(
            "%s: these FMUs form a loop and do not declare the dependencies of their outputs; %s",
            ", ".join(map(repr, names)),
            late,
        )


def _check_steps(wiring: Wiring, t_start: float, dt: float) -> None:
    if not (np.isfinite([t_start, dt]).all() and dt > 0):
        raise ValueError(f"a run needs a finite t_start and dt > 0, not {t_start} and {dt}")
    check_resolution(t_start, dt)
    for name, part in wiring.parts.items():
        step = dt if part.dt is None else part.dt
        count = step / dt
        if count < 0.5 or abs(count - np.rint(count)) > count_tolerance(count):
            raise ValueError(
                f"'{name}' has the communication step {step:g} s, which is not a multiple of the "
                f"step of the run, {dt:g} s"
            )
        sample_time = getattr(part.component, "sample_time", None)
        if sample_time is None:
            continue
        check_resolution(t_start, sample_time)
        samples = t_start / sample_time
        if abs(samples - np.rint(samples)) > count_tolerance(samples):
            raise ValueError(
                f"'{name}': t_start = {t_start} s is not a multiple of its sample time "
                f"{sample_time} s"
            )


def _check_clocks(wiring: Wiring, dt: float) -> None:
    """Raise ValueError if an FMU has clocks that do not fit its communication step.

    The communication step must be a multiple or a divisor of the clock interval.
    """
    for name, part in wiring.parts.items():
        if isinstance(part.component, Fmu):
            try:
                sample_spans(part.component.sample_time, dt if part.dt is None else part.dt)
            except ValueError as error:
                raise ValueError(f"'{name}': {error}") from None


def _check_algebraic_loops(wiring: Wiring, coupling: Coupling) -> None:
    """Raise ValueError for an algebraic loop that the coupling does not solve.

    No coupling solves a loop through a held output, which changes only at samples and events. Its
    new value exists only after the step, so the other parts cannot read the value during the step.
    """
    if not (coupling.solves and wiring.algebraic_loops):
        _ = wiring.evaluation_order  # raises ValueError for a loop, and for a system without parts
        return
    for loop in wiring.algebraic_loops:
        ports = {(name, port) for name, kind, port, _ in loop if kind == "output"}
        held = sorted(f"{a}.{y}" for a, y in ports if wiring.parts[a].is_held(y))
        if held:
            whole = sorted(f"{a}.{y}" for a, y in ports)
            raise ValueError(
                f"algebraic loop through the samples of {', '.join(whole)}: 'newton' cannot "
                f"solve it, because {', '.join(held)} changes only at samples and events; insert a "
                "UnitDelay into the loop"
            )


def _spans_between_samples(wiring: Wiring, dt: float) -> int:
    """Return the number of equal spans into which the sample instants divide a step of dt.

    Raises ValueError for a sample time that is neither a multiple nor a divisor of dt. Also raises
    ValueError for sample times below dt that are not multiples of the shortest sample time.
    """
    times = {
        name: float(part.component.sample_time)  # type: ignore[attr-defined]
        for name, part in wiring.parts.items()
        if getattr(part.component, "sample_time", None) is not None
    }
    for name, one in times.items():
        if not fits_sample_time(one, dt):
            raise ValueError(
                "with step_tol, dt must be a multiple or a divisor of each sample time; dt is "
                f"{dt:g} s, and the sample time of '{name}' is {one:g} s"
            )
    shortest = min(times.values(), default=dt)
    if shortest >= dt:
        return 1
    for name, one in times.items():
        if abs(one / shortest - round(one / shortest)) > 1e-6:
            raise ValueError(
                f"with step_tol, sample times must be multiples of the shortest one, {shortest:g} "
                f"s; the sample time of '{name}' is {one:g} s"
            )
    return round(dt / shortest)


def _check_events(wiring: Wiring, events: Sequence[str], form: str) -> None:
    if not events:
        return
    if form == "fused":
        raise ValueError("the form 'fused' does not support events; use the form compiled or numpy")
    for name, part in wiring.parts.items():
        if isinstance(part.component, Fmu) and not part.component.takes_any_step:
            raise ValueError(
                f"events need variable communication step sizes, which '{name}' does not support "
                "(canHandleVariableCommunicationStepSize is false)"
            )
    known = [
        wiring.whole_name(name, element)
        for name, part in wiring.parts.items()
        for y in part.component.outputs
        for element in y.element_names
    ]
    if unknown := [event for event in events if event not in known]:
        raise ValueError(
            f"unknown output element '{unknown[0]}' in events; {suggestion(unknown[0], known)}"
        )


def set_default_method(
    wiring: Wiring, method: Method | str | None, h: float | None, **adaptive_options: Any
) -> Wiring:
    """Set the integration method of all parts that were added without a method.

    The default method applies only to blocks. A `method` given by the caller also applies to FMUs
    for model exchange that support it. `adaptive_options` are the options rtol, atol and
    max_inner_steps of an adaptive method. rtol also applies to co-simulation FMUs that were added
    without rtol.

    Raises ValueError if all parts are FMUs that do not support a given option.
    """
    given = {"method": method, "h": h, **adaptive_options}
    options = {name: value for name, value in given.items() if value is not None}
    own = method_of(method or DEFAULT_METHOD, **adaptive_options)
    longest_step(own, h)  # raises ValueError for an invalid step size
    _check_use(wiring, own, options)
    exchanges = bool(options) and _supports_model_exchange(own)

    def set_options(part: Part) -> Part:
        if _is_co_simulation(part):
            return (
                replace(part, rtol=float(options["rtol"])) if _takes_rtol(part, options) else part
            )
        takes = isinstance(part.component, Block) or (exchanges and _is_exchanged(part))
        if part.method is not None or not takes:
            return part
        return replace(part, method=own, h=h if part.h is None else part.h)

    parts = {name: set_options(part) for name, part in wiring.parts.items()}
    return Wiring(parts, wiring.connections, wiring.merged)


def _check_use(wiring: Wiring, method: Method, options: Mapping[str, Any]) -> None:
    """Raise ValueError if no part uses one of the integration options `options`.

    `options` contains the options that the caller has set. Blocks use all options, so only systems
    of FMUs are checked.
    """
    parts = wiring.parts.values()
    if not all(isinstance(part.component, Fmu) for part in parts):
        return
    if any(_is_exchanged(part) and part.method is None for part in parts):
        if options:
            check_method(method)
        return
    if any(_takes_rtol(part, options) for part in parts):
        options = {name: value for name, value in options.items() if name != "rtol"}
    if options and parts:
        what = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ValueError(f"no part supports {what}: {_reason(wiring, options)}")


def _is_co_simulation(part: Part) -> bool:
    return isinstance(part.component, Fmu) and part.component.kind == CO_SIMULATION


def _takes_rtol(part: Part, options: Mapping[str, Any]) -> bool:
    return "rtol" in options and _is_co_simulation(part) and part.rtol is None


def _is_exchanged(part: Part) -> bool:
    return isinstance(part.component, Fmu) and part.component.kind == MODEL_EXCHANGE


def _supports_model_exchange(method: Method) -> bool:
    try:
        check_method(method)
    except ValueError:
        return False
    return True


def _reason(wiring: Wiring, unused: Iterable[str]) -> str:
    """Return, for an error message, the reason why no FMU supports the options `unused`."""
    name, part = next(iter(wiring.parts.items()))
    if part.method is not None:
        return f"'{name}' was added with its own method"
    if set(unused) == {"rtol"}:
        return f"'{name}' was added with its own rtol"
    both = isinstance(part.component, Fmu) and part.component.description.modelExchange
    mend = f", or add '{name}' with kind='model exchange'" if both else ""
    return f"'{name}' is a co-simulation FMU with its own integrator; leave out the option{mend}"
