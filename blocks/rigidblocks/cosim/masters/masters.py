"""Master algorithms that execute the communication steps of a run in Python or in C."""

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from json import dumps

from rigidblocks.cosim.masters.c_loop_tables import DONE, FAILED, HOSTED, STEP, Loop
from rigidblocks.cosim.masters.communication_steps import (
    EventStep,
    HeldStep,
    PolynomialStep,
    PowerBonds,
    Scheme,
    StepSizeControl,
)
from rigidblocks.cosim.masters.network import Instances, Network, OneMemory
from rigidblocks.cosim.masters.real_time_pacing import StepTiming
from rigidblocks.cosim.masters.run_plan import Plan
from rigidblocks.cosim.results.recording import Hold, Recording, check_finite
from rigidblocks.tracing.compiler import CacheError, CompilerError

LOOK = 0.05  # time between two checks of the progress bar and of Ctrl-C [s]


class Master(abc.ABC):
    """Base class of masters, which step all parts from one communication point to the next."""

    network: Network

    @abc.abstractmethod
    def go(self, recording: Recording, hold: Hold, pace: StepTiming | None) -> Iterator[int]:
        """Simulate to the end of the recording; yield the number of steps since the last yield.

        The context manager `hold` delays interrupts. If `pace` is given, each step starts at its
        due time.
        """

    @abc.abstractmethod
    def step(self, t: float, dt: float) -> None:
        """Step all parts from t to t + dt [s]; the outputs are not recorded."""

    @property
    def steps_in_c(self) -> bool:
        """True if the loop over the parts runs in C."""
        return False

    def report(self) -> Mapping[str, str]:
        """Return statistics of the steps for the metadata of the result."""
        return {}

    def remarks(self) -> Iterator[tuple[int, str]]:
        """Yield log messages on a run, each with its log level."""
        yield from ()


class CoSimulation(Master):
    """Master in Python, with one instance for each part.

    The coupling options in the plan select the scheme for communication steps
    (`communication_steps`). For runs without coupling options, this master is the reference
    implementation for the C loop. Steps of compiled parts run in C.
    """

    def __init__(self, plan: Plan, network: Instances):
        self.network, self._points = network, (plan.t_start, plan.dt)
        coupling, self._is_plain = plan.coupling, plan.coupling.is_plain
        held = HeldStep(plan, network)
        self._events = EventStep(plan, network, held) if plan.events else None
        scheme: Scheme = PolynomialStep(plan, network) if coupling.follows else held
        bonds = PowerBonds(plan, network) if coupling.bonds else None
        self._step = scheme if bonds is None else bonds.measure(scheme)
        control = None
        if coupling.step_tol is not None:
            self._step = control = StepSizeControl(plan, network, self._step)
        self._reporters = [one for one in (scheme, control, bonds) if one is not None]

    def go(self, recording: Recording, hold: Hold, pace: StepTiming | None) -> Iterator[int]:
        del hold  # unused, because an interrupt may stop the Python loop within a step
        step = self._step if self._events is None else partial(self._events, recording)
        return run_python_loop(step, self.network, self._points, recording, pace)

    def step(self, t: float, dt: float) -> None:
        self._step(t, dt)

    def report(self) -> Mapping[str, str]:
        if self._is_plain:
            return {}
        reports = [one.report() for one in self._reporters]
        return {"coupling": dumps({key: value for one in reports for key, value in one.items()})}

    def remarks(self) -> Iterator[tuple[int, str]]:
        for one in self._reporters:
            yield from one.remarks()


def run_python_loop(
    step: Callable[[float, float], None],
    network: Network,
    points: tuple[float, float],
    recording: Recording,
    pace: StepTiming | None,
) -> Iterator[int]:
    """Step from each communication point to the next, and record the outputs.

    `points` is (t_start, dt) [s]. The function yields 1 after each step, as `Master.go`.
    """
    t_start, dt = points
    for k in range(recording.k, recording.grid.n):
        if pace is not None:
            pace.wait()
        step(t_start + k * dt, dt)
        recording.add(network.row())
        if pace is not None:
            pace.end_step(t_start + (k + 1) * dt)
        yield 1


class CompiledLoop(Master):
    """Master in C, which returns to Python at regular intervals and after a failure."""

    def __init__(self, plan: Plan, network: Network):
        self.network, self._points = network, (plan.t_start, plan.dt)
        self._ports, table = plan.wiring.outputs, network.table()
        self._hosts = any(row.entry.kind == HOSTED for row in table)
        self._errors: list[BaseException] = []
        self._kept: tuple[str, ...] | None = None
        self._loop = Loop(
            table,
            network.unchecked_outputs,
            plan.is_simultaneous,
            collect_errors(network.judge, self._errors),
            collect_errors(network.step, self._errors),
        )

    @property
    def steps_in_c(self) -> bool:
        return True

    def go(self, recording: Recording, hold: Hold, pace: StepTiming | None) -> Iterator[int]:
        names = tuple(port.name for port in recording.chosen)
        if names != self._kept:  # the previous run recorded other outputs
            self._loop.set_recorded_outputs(self.network.outputs[name] for name in names)
            self._kept = names
        last = recording.grid.n
        # without Python parts, interrupts are delayed until the C loop returns
        held = contextlib.nullcontext if self._hosts else hold
        while recording.k < last:
            if pace is not None:
                pace.wait()
            with held():
                begin = recording.k
                end = last if pace is None else begin + 1
                steps, every, room = (begin, end), recording.every, recording.next_buffer()
                ending, k, rows = self._loop.run(self._points, steps, every, room, LOOK)
                recording.commit(k - begin, rows)
            if pace is not None:
                pace.end_step(self._points[0] + k * self._points[1])
            if ending != DONE:
                self._fail(ending, self._points[0] + k * self._points[1], self._points[1])
            yield k - begin

    def step(self, t: float, dt: float) -> None:
        if ending := self._loop.step(t, dt):
            self._fail(ending, t, dt)

    def _fail(self, ending: int, t: float, dt: float) -> None:
        """Raise the exception for the result `ending` of the C loop, in the step to t + dt."""
        if self._errors:
            error = self._errors.pop()
            self._errors.clear()
            raise error
        if ending == FAILED:
            self.network.judge(self._loop.part, STEP, self._loop.status, t, dt)
        check_finite(self._ports, self.network.row())


def collect_errors(
    function: Callable[..., None], errors: list[BaseException]
) -> Callable[..., bool]:
    """Return a callback for C that calls `function`; it returns True after an exception.

    The callback stores the exception in `errors`.
    """

    def call(*arguments: float) -> bool:
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)
            return True
        return False

    return call


def master_of(plan: Plan) -> Master:
    """Return the fastest available master for a plan.

    The function selects the Python master for events, coupling options and blocks in NumPy, and if
    no C compiler is available.
    """
    if plan.form == "fused":
        return CompiledLoop(plan, OneMemory(plan))
    network = Instances(plan)
    if plan.form == "compiled" and plan.coupling.is_plain and not plan.events:
        with contextlib.suppress(CompilerError, CacheError):
            return CompiledLoop(plan, network)
    return CoSimulation(plan, network)
