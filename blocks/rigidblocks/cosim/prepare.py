"""Preparation of systems for repeated runs, single steps, saved states and recorded inner steps."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Concatenate, NamedTuple, Never, ParamSpec, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.adaptive_methods import STEP_PORTS
from rigidblocks.block.block import Port, check_count
from rigidblocks.block.port import TEXTUAL, TRUTH_TYPES, decode_value, encode_value, numbers_of
from rigidblocks.common.name_hints import AttributeHints, explain_calls, suggestion
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.cosim.graph.part import element_port
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.masters.masters import Master, master_of
from rigidblocks.cosim.masters.network import Network, error_text
from rigidblocks.cosim.masters.run_plan import Plan, make_plan
from rigidblocks.cosim.results.recording import RecordOptions, check_finite, select_ports
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import (
    PrepareOptions,
    add_defaults,
    check_names,
    check_numbers,
    check_path,
    communication_points,
)
from rigidblocks.cosim.scenario import Scenario
from rigidblocks.cosim.simulate import (
    Watcher,
    check_watcher,
    execute_run,
)
from rigidblocks.kernels.block_digest import content_digest
from rigidblocks.spatial.spatial import Array

_numbers = itertools.count()  # identifiers of saved states

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _serialize_calls(
    method: Callable[Concatenate[Run, _P], _R],
) -> Callable[Concatenate[Run, _P], _R]:
    """Wrap a method of a run in a lock, so that only one thread uses the run at a time."""

    @wraps(method)
    def wait_and_call(run: Run, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with run._turn:
            return method(run, *args, **kwargs)

    return wait_and_call


@dataclass(frozen=True, eq=False)
class State:
    """Saved state of a run at the time `t` [s], for `Run.restore`.

    `k` is the number of steps since the start time. `number` is the key of the state in `network`.
    """

    t: float
    k: int = field(repr=False)
    number: int = field(repr=False)
    network: Network = field(repr=False)

    def __reduce__(self) -> Never:
        raise TypeError(
            "a saved state belongs to its run, and cannot be pickled or copied; read the values "
            'that you need, such as run["robot.q"]'
        )


class Run(AttributeHints):
    """System that `prepare` has compiled for repeated runs.

    `simulate` returns the result of a whole run. To step a run, use

        run.reset(); run.step(); run["robot.q"]; run["pd.q_ref"] = [0.3, -0.2]
        state = run.save(); run.restore(state)

    `run["part.port"]` is the value of a port, as a number or a new array. Unconnected inputs and
    parameters can be set during the run and take effect in the next step. `simulate` does not
    change the state of the single steps. Prepared runs are independent of each other, also in
    different threads. Several threads may step one run: each call waits until the previous call
    returns. The run keeps FMU instances for the next run; `close`, or a `with` statement, frees
    them.
    """

    CALLS: ClassVar = {
        "run sim": "run.simulate(t_stop)",
        "set set_input set_parameter write put": "run['part.port'] = value",
        "get read output outputs state states": "run['part.port']",
        "time now": "run.t",
        "advance do_step": "run.step(n)",
        "load load_state set_state": "run.restore(state)",
        "get_state save_state snapshot checkpoint": "run.save()",
    }

    def __init__(self, plan: Plan, record: tuple[str, ...], every: int):
        self._plan, self._record, self._every = plan, record, every
        self._master: Master | None = None
        self._idle: list[Master] = []  # masters of finished whole runs
        weakref.finalize(self, _close_masters, self._idle)
        self._k, self._failed = 0, False
        self._cause: BaseException | None = None  # error of the last step
        self._turn = threading.RLock()
        self._targets: dict[str, tuple[Port, Any]] = {}
        self._may_be_set = set[str]()
        self._outputs = plan.wiring.outputs

    def __reduce__(self) -> Never:
        raise TypeError(
            "a prepared run cannot be pickled or copied: its compiled code and FMUs belong to this "
            "process; send the System, and call prepare there"
        )

    def __repr__(self) -> str:
        parts = ", ".join(self._plan.wiring.parts)
        return f"<Run of {parts}, dt = {self._plan.dt:g} s>"

    @cached_property
    def _readable_values(self) -> dict[str, _Value]:
        """Mapping of names to the ports and port elements that can be read."""
        return dict(_values(self._plan.wiring))

    @property
    def plan(self) -> Plan:
        """Plan of the run, with its options and compiled code."""
        return self._plan

    @property
    def dt(self) -> float:
        """Communication step [s]."""
        return self._plan.dt

    @property
    def t(self) -> float:
        """Current time [s] of the single steps."""
        return self._plan.t_start + self._k * self._plan.dt

    @explain_calls()
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
        """Simulate from the start time to t_stop [s] and return the result.

        Args:
            t_stop: End time [s].
            start: Start values of inputs, states and parameters by `part.port`, for this run only.
            scenario: Values that are set during the run, as in `rigidblocks.simulate`.
            save: Path of the file for the result.
            progress: Show a progress bar.
            view: Live view of the run.

        Returns:
            Recorded outputs and events.

        The method raises the exceptions of `rigidblocks.simulate`.
        """
        check_numbers({"t_stop": t_stop})
        check_path("save", save)
        check_watcher(view)
        plan = self._plan_with_start(start)
        if scenario is not None:
            plan = plan.add_scenario(Scenario.parse(scenario))
        grid = communication_points(plan.t_start, t_stop, plan.dt)
        wanted = RecordOptions(self._record, self._every, None if save is None else Path(save))
        wanted.check(plan.wiring, grid)
        return execute_run(plan, grid, wanted, progress, 2, self._idle, view=view)

    @_serialize_calls
    def reset(self, start: Mapping[str, Any] | None = None) -> None:
        """Reset the stepped run to the start time and the start values.

        `start` contains start values for this run, as in `simulate`. Values that were set during
        the previous run are discarded.

        Raises:
            ValueError: The run has events, which single steps do not support.
        """
        if self._plan.events:
            raise ValueError(
                "single steps do not support events; use `simulate`, or prepare without events"
            )
        plan = self._plan_with_start(start)
        if self._master is None or not self._master.network.restart(plan):
            self._close_stepped_run()
            self._master = master_of(plan)
            # frees an unclosed run, also at the end of the program
            self._end = weakref.finalize(self, self._master.network.close)
        self._k, self._failed, self._cause = 0, True, None
        self._master.network.start(plan.t_start)
        check_finite(self._outputs, self._master.network.row())
        self._failed = False

    @_serialize_calls
    def step(self, n: int = 1) -> None:
        """Take n steps of dt; the first step calls `reset` if it has not been called.

        Raises PartError, FmuError or ArithmeticError if a step fails, with the names of the part
        and the variables. After a failure, call `reset` or `restore` before the next step.
        """
        if n != 1:
            check_count("n", n)
        master = self._master
        if master is None or self._failed:
            master = self._running_master()
        t_start, dt = self._plan.t_start, self._plan.dt
        self._failed, self._cause = True, None
        try:
            for k in range(self._k, self._k + n):
                master.step(t_start + k * dt, dt)
                if not master.steps_in_c:
                    check_finite(self._outputs, master.network.row())
                self._k = k + 1
        except BaseException as error:
            self._cause = error
            raise
        self._failed = False

    @_serialize_calls
    def __getitem__(self, name: str) -> Any:
        """Return the value of a port or of one element, as a number or a new array."""
        port, view = self._targets.get(name) or self._target(name)
        values = self._read(name) if view is None else view
        if port.type != "Real":
            some = decode_value(values.copy(), port.type)
            return some.reshape(port.shape) if port.shape else some.tolist()[0]
        return values.reshape(port.shape).copy() if port.shape else float(values[0])

    @_serialize_calls
    def __setitem__(self, name: str, value: Any) -> None:
        """Set an unconnected input or a tunable parameter.

        Raises KeyError for an unknown name. Raises ValueError for a computed or connected port, and
        for values that have a wrong shape, are not finite or are out of bounds.
        """
        port, view = self._targets.get(name) or self._target(name)
        self._check_settable(name)
        if port.type != "Real":
            value = encode_value(value, port.type, port.shape, name)
        given = _numbers_of(value, name, port)
        if given.shape != port.shape or not _passes_quick_check(port, given):
            given = _check_value(replace(port, name=name, rate=None), value)
        if view is None:
            self._change(name, given.ravel())
        else:
            view[:] = given.ravel()

    @_serialize_calls
    def save(self, path: str | Path | None = None) -> State:
        """Return the current state, for repeated use by `restore`.

        Args:
            path: Path of a file for the state, if given. `restore(path)` restores this state, also
                in another process. The system and the options must be the same.

        Raises:
            ValueError: A part cannot write its state to a file, or the coupling options of the run
                use outputs of earlier steps.
        """
        network = self._running_master().network
        state = State(self.t, self._k, next(_numbers), network)
        network.save_state(state.number)
        weakref.finalize(state, _free_state, self._turn, network, state.number)
        if path is not None:
            self._check_state_file()
            _write_state(
                Path(path), self._state_digest, self._k, network.saved_arrays(state.number)
            )
        return state

    @_serialize_calls
    def restore(self, state: State | str | Path) -> None:
        """Restore a state that was saved in this run, or a state from a file of `save(path)`.

        Raises:
            ValueError: The state belongs to another run. After `save`, a call of `reset` has
                replaced the FMU instances. A state file belongs to another system or to other
                options.
            TypeError: `state` is neither a state nor a path.
        """
        if isinstance(state, str | Path):
            self._check_state_file()
            k, arrays = _read_state(Path(state), self._state_digest)
            network, number = self._network, next(_numbers)
            network.load_arrays(number, arrays)
            network.restore_state(number)
            network.free_state(number)
            self._k, self._failed = k, False
            return
        if not isinstance(state, State):
            raise TypeError(f"restore needs a state that `save` returned, not {state!r:.60}")
        if self._master is None or state.network is not self._master.network:
            raise ValueError(
                f"the state at t = {state.t:g} s does not belong to this run: it was saved in "
                "another run, or before a `reset` that replaced the FMUs"
            )
        state.network.restore_state(state.number)
        self._k, self._failed = state.k, False

    @cached_property
    def _state_digest(self) -> str:
        """Digest of the system and the options, without start values, for state files."""
        plan = self._plan
        settings = plan.order, plan.dt, plan.t_start, plan.form
        return content_digest(plan.content[0], settings)

    def _check_state_file(self) -> None:
        """Raise ValueError if the complete state of the run cannot be written to a file."""
        if used := [name for name, value in vars(self._plan.coupling).items() if value]:
            raise ValueError(
                f"a state file does not support the options {', '.join(used)}, which use the "
                "history of earlier steps; prepare the run without them"
            )
        for name, part in self._plan.wiring.parts.items():
            one: Any = part.component
            ports = (*one.inputs, *one.outputs, *one.parameters)
            if text := next((port.name for port in ports if port.type in TEXTUAL), None):
                raise ValueError(
                    f"a state file does not support '{name}', because {text} is a string or binary"
                )

    @property
    @_serialize_calls
    def steps(self) -> dict[str, Array]:
        """Current data of the step size control of each adaptive method, by part name.

        `rigidblocks.block.adaptive_methods.STEP_PORTS` lists the elements of each array.
        """
        return {name: np.array(steps) for name, steps in self._network.steps()}

    @_serialize_calls
    def close(self) -> None:
        """Free the FMU instances; the next `reset` or `simulate` creates new ones."""
        self._close_stepped_run()
        _close_masters(self._idle)

    def _close_stepped_run(self) -> None:
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

    def _running_master(self) -> Master:
        if self._master is None:
            self.reset()
        if self._failed:
            why = f" ({error_text(self._cause)})" if self._cause is not None else ""
            raise RuntimeError(
                f"the run failed in the step after t = {self.t:g} s{why}: call `reset`, or "
                "`restore` an earlier state"
            ) from self._cause
        assert self._master is not None
        return self._master

    def _plan_with_start(self, start: Mapping[str, Any] | None) -> Plan:
        return (
            self._plan.replace_wiring(self._plan.wiring.replace_start_values(start))
            if start
            else self._plan
        )

    def _target(self, name: str) -> tuple[Port, Any]:
        """Return the port or element `name`, and a view of its values (None without a view)."""
        if name not in self._readable_values:
            known = [name for name in self._readable_values if not name.endswith("]")]
            raise KeyError(f"the run has no port '{name}'; {suggestion(name, known)}")
        one = self._readable_values[name]
        view = self._network.view(name)
        if view is None and one.place is not None:
            whole = self._network.view(one.whole)
            view = None if whole is None else whole[one.place : one.place + 1]
        self._targets[name] = one.port, view
        return one.port, view

    def _read(self, name: str) -> Array:
        """Return the values of a port or port element that has no array view."""
        one = self._readable_values[name]
        values = self._network.read(one.whole)
        return values if one.place is None else values[one.place : one.place + 1]

    def _change(self, name: str, values: Array) -> None:
        """Set a parameter or a parameter element that has no array view."""
        one = self._readable_values[name]
        if one.place is not None:
            all_values = self._network.read(one.whole)
            all_values[one.place] = values[0]
            values = all_values
        self._network.change(one.whole, values, self.t)

    def _check_settable(self, name: str) -> None:
        """Raise ValueError for a connected or computed port, which cannot be set during the run."""
        if name in self._may_be_set:
            return
        one = self._readable_values[name]
        for connection in self._plan.wiring.connections:
            given, port = connection.names[0], ".".join(connection.target)
            if port == one.whole and (one.place is None or one.place in connection.to):
                raise ValueError(f"cannot set {name}: it is connected to {given}")
        if one.kind not in ("input", "parameter"):
            wired = {".".join(connection.target) for connection in self._plan.wiring.connections}
            can = [
                key
                for key, o in self._readable_values.items()
                if o.is_settable and key not in wired
            ]
            raise ValueError(
                f"cannot set {name}, which is computed; these inputs and parameters can be set: "
                f"{', '.join(can) or 'none'}; set states by `reset(start=...)`"
            )
        self._may_be_set.add(name)


def _close_masters(idle: list[Master]) -> None:
    """Free the part instances of the idle masters, which have finished their runs."""
    while idle:
        with contextlib.suppress(IndexError):  # another thread has just taken the last master
            idle.pop().network.close()


def _free_state(lock: AbstractContextManager[bool], network: Network, number: int) -> None:
    """Free the saved state `number` of a network while holding the lock of the run."""
    with lock:
        network.free_state(number)


_STATE_HEADER = "rigidblocks_state"  # entry with the digest; the entries of parts contain a dot


def _write_state(path: Path, digest: str, k: int, arrays: Mapping[str, Array]) -> None:
    """Write a state atomically to a NumPy archive (.npz) with the arrays of all parts.

    Args:
        path: Path of the file.
        digest: Digest of the system and the options of the run.
        k: Number of steps since the start time.
        arrays: Arrays of the parts by name.
    """
    entries: dict[str, Any] = {
        _STATE_HEADER: np.array(json.dumps({"digest": digest, "k": k})),
        **arrays,
    }
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "wb") as file:
            np.savez(file, **entries)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read_state(path: Path, digest: str) -> tuple[int, dict[str, Array]]:
    """Read a state file; return the number of steps since the start time, and the arrays.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged, or its state belongs to another system.
    """
    check_regular_file(path)
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop(_STATE_HEADER)))
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, TypeError) as error:
        raise ValueError(f"'{path}' is damaged, or `run.save(path)` did not write it") from error
    if header["digest"] != digest:
        raise ValueError(
            f"the state '{path}' belongs to another system, to another rigidblocks version, or "
            "to a run with another dt, order, form or start time"
        )
    return int(header["k"]), arrays


class _Value(NamedTuple):
    """Readable value of a run: a whole port, or one element of the port.

    Attributes:
        kind: "state", "parameter", "input" or "output".
        whole_port: Port that contains the value.
        whole: Name of the port, `part.port`.
        place: Index of the element in C order, or None for the whole port.
    """

    kind: str
    whole_port: Port
    whole: str
    place: int | None = None

    @property
    def port(self) -> Port:
        """The whole port, or a scalar port for the element."""
        if self.place is None:
            return self.whole_port
        return element_port(self.whole_port, self.place, self.whole_port.start)

    @property
    def is_settable(self) -> bool:
        return self.kind in ("input", "parameter") and self.place is None


def _values(wiring: Wiring) -> Iterator[tuple[str, _Value]]:
    """Yield all readable values of a run with their names, `part.port` and `part.port[1]`."""
    for name, part in wiring.parts.items():
        one: Any = part.component
        kinds = {"state": (*one.states, *getattr(one, "sampled", ())), "parameter": one.parameters}
        for kind, ports in {**kinds, "input": one.inputs, "output": one.outputs}.items():
            for port in ports:
                whole = wiring.whole_name(name, port.name)
                yield whole, _Value(kind, port, whole)
                if port.shape:
                    for k, element in enumerate(port.element_names):
                        yield wiring.whole_name(name, element), _Value(kind, port, whole, k)


def _numbers_of(value: Any, name: str, port: Port) -> Array:
    try:
        return numbers_of(value, name, allow_booleans=port.type in TRUTH_TYPES)
    except (TypeError, ValueError):
        shape = f"numbers of shape {port.shape}" if port.shape else "a number"
        raise TypeError(f"{name} needs {shape}, not {value!r}") from None


def _passes_quick_check(port: Port, values: Array) -> bool:
    """Return True if values are within the bounds of a port and their sum of squares is finite.

    If the result is False, `_check_value` checks each value, because the sum may have overflowed.
    """
    within = not port.is_bounded or bool(((port.lowest <= values) & (values <= port.max)).all())
    return within and isfinite(np.vdot(values, values))


def _check_value(port: Port, value: Any) -> Array:
    given = port.numbers(value, port.shape, port.name)
    checked: Array = replace(port, start=given).start
    return checked


@explain_calls(PrepareOptions)
def prepare(
    system: System,
    dt: float,
    *,
    t_start: float = 0.0,
    form: str = "compiled",
    **options: Unpack[PrepareOptions],
) -> Run:
    """Prepare a system for repeated runs: trace and compile its blocks once.

        run = prepare(system, 1e-3)
        for kp in (20.0, 40.0, 80.0):
            result = run.simulate(2.0, start={"pd.kp": kp})

    `run.simulate` simulates and returns a result, and `run.step` takes single steps (see `Run`).
    Later changes of the system do not affect the run.

    Args:
        system: System to prepare.
        dt: Communication step [s].
        t_start: Start time of the runs [s].
        form: Implementation of the blocks, as in `simulate`.
        **options: Options of `simulate` for integration, coupling and recording (`PrepareOptions`).

    Returns:
        Prepared run, before its first step.

    The function raises the same exceptions as `simulate`, except exceptions for the end time.
    """
    chosen = add_defaults(prepare, options, PrepareOptions)
    record, every = chosen["record"], chosen["every"]
    plan = make_plan(system, dt, t_start, form, options)
    check_names({"record": record})
    check_count("every", every)
    select_ports(plan.wiring.outputs, record)  # raises KeyError if a pattern has no match
    plan.compile()
    return Run(plan, tuple(record), every)


def inner_steps(run: Run, t_stop: float) -> Result:
    """Simulate to `t_stop` [s] and return the sizes and error estimates of the inner steps.

    `part.steps.length` is the size of the next inner step [s]. `part.steps.error` is the error
    estimate of the last inner step, relative to the tolerance. `STEP_PORTS` lists the other
    signals, such as `part.steps.is_stiff`. `plot_steps` plots the result.

    Args:
        run: Prepared run, which this function resets.
        t_stop: End time [s].

    Returns:
        Signals for each part with an adaptive method, at all communication points after the start.

    Raises:
        ValueError: No part has an adaptive method.

    The function also raises the exceptions of `Run.step`.
    """
    run.reset()
    rows, names = [], tuple(run.steps)
    if not names:
        raise ValueError(
            f"no part of {run!r} has an adaptive method, so no inner steps are recorded"
        )
    n = round((t_stop - run.t) / run.dt)
    time = run.t + run.dt * np.arange(1, n + 1)
    for _ in range(n):
        run.step()
        rows.append(np.concatenate(list(run.steps.values())))
    values = np.reshape(rows, (n, len(names), len(STEP_PORTS)))
    signals = [
        (replace(port, name=f"{name}.{port.name}"), values[:, i, k])
        for i, name in enumerate(names)
        for k, port in enumerate(STEP_PORTS)
    ]
    return Result.from_signals(time, signals, {})
