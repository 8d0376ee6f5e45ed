"""A prepared system: whole runs of it, or one step after the other."""

import itertools
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, finite
from rigidblocks.block.record import offer
from rigidblocks.block.signal_types import carried, shown
from rigidblocks.simulation.arguments import check_count, check_numbers, check_path
from rigidblocks.simulation.choice import master_of
from rigidblocks.simulation.course import course
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.masters import Master
from rigidblocks.simulation.network import Network
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.recording import Wanted, check_finite
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.scenario import Scenario, in_scenario
from rigidblocks.simulation.watch import Watcher, check_watcher
from rigidblocks.system.selection import element_port
from rigidblocks.system.wiring import Wiring

_numbers = itertools.count()  # of saved states


@dataclass(frozen=True, eq=False)
class State:
    """A moment of a run that it can be taken back to, at the time `t` [s]."""

    t: float
    k: int = field(repr=False)
    number: int = field(repr=False)
    network: Network = field(repr=False)


class Run:
    """A system that `prepare` has made ready.

    `simulate` gives the result of a whole run. For a run step by step there are

        run.reset(); run.step(); run["robot.q"]; run["pd.q_ref"] = [0.3, -0.2]
        moment = run.save(); run.restore(moment)

    `run["part.port"]` is the value of a port, a number or an array of its own; inputs that nothing
    is connected to, and parameters, can be set while the run goes on, and hold from the next step
    on. Whole runs and steps do not disturb each other, and neither do other prepared runs, also of
    other threads. `close`, or a `with` statement, frees what the FMUs of a run step by step hold.
    """

    def __init__(self, plan: Plan, record: tuple[str, ...], every: int):
        self._plan, self._record, self._every = plan, record, every
        self._master: Master | None = None
        self._idle: list[Master] = []  # of whole runs that are over
        self._k, self._failed = 0, False
        self._targets: dict[str, tuple[Port, Any]] = {}
        self._kinds = dict(_values(plan.wiring))
        self._may_be_set = set[str]()
        self._outputs = plan.wiring.outputs

    def __repr__(self) -> str:
        parts = ", ".join(self._plan.wiring.parts)
        return f"<Run of {parts}, dt = {self._plan.dt:g} s>"

    @property
    def plan(self) -> Plan:
        """What was prepared."""
        return self._plan

    @property
    def dt(self) -> float:
        """The length of a step [s]."""
        return self._plan.dt

    @property
    def t(self) -> float:
        """The time that the run step by step is at [s]."""
        return self._plan.t_start + self._k * self._plan.dt

    def simulate(
        self,
        t_stop: float,
        *,
        start: Mapping[str, Any] | None = None,
        scenario: Scenario | Mapping[str, ArrayLike] | str | Path | None = None,
        save: str | Path | None = None,
        progress: bool = True,
        view: Watcher | None = None,
    ) -> Result:
        """The result of a run from the start to t_stop [s], as `rigidblocks.simulate` gives it.

        `start` has start values of inputs, states and parameters by `part.port`, for this run
        alone; a `scenario` is that of `simulate`. `view` looks on.
        """
        check_numbers({"t_stop": t_stop})
        check_path("save", save)
        check_watcher(view)
        plan = self._started(start)
        told = None if scenario is None else Scenario.of(scenario)
        if told is not None:
            plan = in_scenario(plan, told)
        grid = communication_points(plan.t_start, t_stop, plan.dt)
        wanted = Wanted(self._record, self._every, None if save is None else Path(save))
        wanted.check(plan.wiring, grid)
        return course(plan, grid, wanted, progress, 1, self._idle, view=view, scenario=told)

    def reset(self, start: Mapping[str, Any] | None = None) -> None:
        """Goes to the start of a run, with other start values where they are given as in
        `simulate`. What was set while the run went on is forgotten.
        """
        if self._plan.events:
            raise ValueError("events end the steps of `simulate`; prepare without them to step")
        plan = self._started(start)
        if self._master is None or not self._master.network.restart(plan):
            self.close()
            self._master = master_of(plan)
            # also where nobody closes the run, and where the program ends
            self._end = weakref.finalize(self, self._master.network.close)
        self._k, self._failed = 0, True
        self._master.network.start(plan.t_start)
        check_finite(self._outputs, self._master.network.row())
        self._failed = False

    def step(self, n: int = 1) -> None:
        """Takes n steps of dt. The first one comes after a `reset`, made here where there was none.

        Raises PartError, FmuError or ArithmeticError, with the names of the part and of the
        variables, when a step fails; the run then goes on from a `reset` or a `restore` alone.
        """
        if n != 1:
            check_count("n", n)
        master = self._master
        if master is None or self._failed:
            master = self._running()
        t_start, dt = self._plan.t_start, self._plan.dt
        self._failed = True
        for k in range(self._k, self._k + n):
            master.step(t_start + k * dt, dt)
            if not master.steps_in_c:
                check_finite(self._outputs, master.network.row())
            self._k = k + 1
        self._failed = False

    def __getitem__(self, name: str) -> Any:
        """The value of a port, or of one of its elements: a number, or an array of its own."""
        port, view = self._targets.get(name) or self._target(name)
        values = self._read(name) if view is None else view
        if port.type != "Real":
            some = shown(values.copy(), port.type)
            return some.reshape(port.shape) if port.shape else some.tolist()[0]
        return values.reshape(port.shape).copy() if port.shape else float(values[0])

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets an input that nothing is connected to, or a tunable parameter.

        Raises KeyError for a name that there is not, and ValueError for what is computed or
        connected, and for values of another shape, not finite or out of bounds.
        """
        port, view = self._targets.get(name) or self._target(name)
        self._check_settable(name)
        if port.type != "Real":
            value = carried(value, port.type, port.shape, name)
        given = _numbers_of(value, name, port)
        if given.shape != port.shape or not _is_plain(port, given):
            given = _checked(replace(port, name=name, rate=None), value)
        if view is None:
            self._change(name, given.ravel())
        else:
            view[:] = given.ravel()

    def save(self) -> State:
        """The state at this moment, which `restore` goes back to as often as one likes."""
        network = self._running().network
        state = State(self.t, self._k, next(_numbers), network)
        network.keep(state.number)
        weakref.finalize(state, network.forget, state.number)
        return state

    def restore(self, state: State) -> None:
        """Goes back to a moment that was saved in this run.

        Raises ValueError for one of another run, or of FMUs that a `reset` has replaced, and
        TypeError for what is none.
        """
        if not isinstance(state, State):
            raise TypeError(f"restore takes what save gave, not {state!r:.60}")
        if self._master is None or state.network is not self._master.network:
            raise ValueError(
                f"the state at t = {state.t:g} s is not one of this run: it was saved in another "
                "one, or before a `reset` that made its FMUs anew"
            )
        state.network.go_back(state.number)
        self._k, self._failed = state.k, False

    @property
    def steps(self) -> dict[str, Array]:
        """What the methods that choose their inner steps remember at this moment, by the names of
        the parts: numbers in the order of `rigidblocks.block.adaptive.STEP_PORTS`.
        """
        return {name: np.array(steps) for name, steps in self._network.steps()}

    def close(self) -> None:
        """Ends the run step by step; the next `reset` begins another."""
        if self._master is not None:
            self._end()
        self._master = None
        self._targets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _network(self) -> Network:
        if self._master is None:
            self.reset()
        assert self._master is not None
        return self._master.network

    def _running(self) -> Master:
        if self._master is None:
            self.reset()
        if self._failed:
            raise RuntimeError(
                f"the run has failed in the step after t = {self.t:g} s: `reset` it, or `restore` "
                "an earlier state"
            )
        assert self._master is not None
        return self._master

    def _started(self, start: Mapping[str, Any] | None) -> Plan:
        return self._plan.started(self._plan.wiring.started(start)) if start else self._plan

    def _target(self, name: str) -> tuple[Port, Any]:
        """The port or element of a name, and a view of its values where there is one; kept for the
        next time.
        """
        if name not in self._kinds:
            known = [name for name in self._kinds if not name.endswith("]")]
            raise KeyError(f"the run has no port '{name}'; {offer(name, known)}")
        one = self._kinds[name]
        view = self._network.view(name)
        if view is None and one.place is not None:
            whole = self._network.view(one.whole)
            view = None if whole is None else whole[one.place : one.place + 1]
        self._targets[name] = one.port, view
        return one.port, view

    def _read(self, name: str) -> Array:
        """The flat values of what has no view."""
        one = self._kinds[name]
        values = self._network.read(one.whole)
        return values if one.place is None else values[one.place : one.place + 1]

    def _change(self, name: str, values: Array) -> None:
        """Sets a parameter that has no view."""
        one = self._kinds[name]
        if one.place is not None:
            all_values = self._network.read(one.whole)
            all_values[one.place] = values[0]
            values = all_values
        self._network.change(one.whole, values)

    def _check_settable(self, name: str) -> None:
        """Raises ValueError for what cannot be set while the run goes on."""
        if name in self._may_be_set:
            return
        one = self._kinds[name]
        for connection in self._plan.wiring.connections:
            given, port = connection.names[0], ".".join(connection.target)
            if port == one.whole and (one.place is None or one.place in connection.to):
                raise ValueError(f"cannot set {name}: it is connected to {given}")
        if one.kind not in ("input", "parameter"):
            wired = {".".join(connection.target) for connection in self._plan.wiring.connections}
            can = [key for key, o in self._kinds.items() if o.is_settable and key not in wired]
            raise ValueError(
                f"cannot set {name}, which is computed; inputs and parameters can be set: "
                f"{', '.join(can) or 'there are none'}; `reset(start=...)` takes states"
            )
        self._may_be_set.add(name)


class _Value(NamedTuple):
    """What can be read by a name: a port of some kind, or the element number `place` of one."""

    kind: str
    port: Port
    whole: str
    place: int | None = None

    @property
    def is_settable(self) -> bool:
        return self.kind in ("input", "parameter") and self.place is None


def _values(wiring: Wiring) -> Iterator[tuple[str, _Value]]:
    """All that can be read in a run, by `part.port` and `part.port[1]`."""
    for name, part in wiring.parts.items():
        one: Any = part.component
        kinds = {"state": (*one.states, *getattr(one, "sampled", ())), "parameter": one.parameters}
        for kind, ports in {**kinds, "input": one.inputs, "output": one.outputs}.items():
            for port in ports:
                whole = wiring.whole_name(name, port.name)
                yield whole, _Value(kind, port, whole)
                if port.shape:
                    for k, element in enumerate(port.element_names):
                        at = element_port(port, k, port.start)
                        yield wiring.whole_name(name, element), _Value(kind, at, whole, k)


def _numbers_of(value: Any, name: str, port: Port) -> Array:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        shape = f"numbers of shape {port.shape}" if port.shape else "a number"
        raise TypeError(f"{name} takes {shape}, not {value!r}") from None


def _is_plain(port: Port, given: Array) -> bool:
    """Whether the values of a port are finite and in its bounds; False where they are huge."""
    within = not port.is_bounded or bool(((port.lowest <= given) & (given <= port.max)).all())
    return within and isfinite(np.vdot(given, given))


def _checked(port: Port, value: Any) -> Array:
    given = finite(value, port.shape, port.name)
    checked: Array = replace(port, start=given).start
    return checked
