"""HELICS federate that simulates a subset of the parts of a system."""

import json
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.port import Port
from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.cosim.graph.fused_system import JACOBI
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.masters.network import Network
from rigidblocks.cosim.masters.real_time_pacing import StepTiming
from rigidblocks.cosim.masters.run_plan import Plan, make_plan
from rigidblocks.cosim.prepare import Run
from rigidblocks.cosim.results.recording import RecordOptions
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import check_numbers, check_path, communication_points
from rigidblocks.cosim.simulate import execute_run

BROKER = "127.0.0.1:23404"
# HELICS considers a federate dead after these timeouts, which are longer than the pauses of a busy
# machine. The broker needs the same options.
LIMITS = "--timeout=10s --tick=2s"
JOIN_ATTEMPTS = 3  # the connection to a broker can exceed its time limit on a busy computer
_CONNECTION_TIMEOUT = 3.0  # timeout for connecting to a broker [s]
_POLL_INTERVAL = 0.01  # interval of the checks whether all federates have joined [s]
_MAX_ITERATIONS = 100  # maximum number of initialization iterations


class FederationError(RuntimeError):
    """Error of a HELICS federation, at the start or during a run."""


def federate(
    system: System,
    parts: Iterable[str],
    t_stop: float,
    dt: float,
    *,
    broker: str = BROKER,
    core: str = "zmq",
    name: str | None = None,
    save: str | Path | None = None,
) -> Result:
    """Run some parts of a system as one HELICS federate, and return the result of these parts.

    Other federates simulate the other parts. Each output `part.port` of the parts is a HELICS
    publication with the same name and unit. Scalars have the type double, and all other outputs the
    type vector. After each time grant t, the federate steps from t - dt to t with the values
    published at t - dt. Therefore the results of all federates equal `simulate(order="jacobi")` to
    the last bit. The initialization iterates in HELICS until the values of all federates agree.

    Args:
        system: System with all parts.
        parts: Names of the parts of this federate.
        t_stop: End of the run [s].
        dt: Communication step [s].
        broker: Address host:port of the broker.
        core: HELICS core type of the federation.
        name: Name of the federate. The default consists of the names of its parts.
        save: Path of the result file.

    Returns:
        The result of the parts of this federate.

    Raises:
        FederationError: No broker is reachable (detected within a few seconds).
        KeyError: A part does not exist.
        SimulationError: The federation has failed; the error contains the result up to the failure.
            A killed federate is detected after about ten seconds if the broker was started with
            `--timeout=10s --tick=2s`.
    """
    check_numbers({"t_stop": t_stop, "dt": dt})
    check_path("save", save)
    names = tuple(parts)
    wiring = system.wiring()
    own = _system_of_parts(wiring, names)
    plan = make_plan(own, dt, options={"order": JACOBI})
    grid = communication_points(0.0, t_stop, dt)
    wanted = RecordOptions(("*",), 1, None if save is None else Path(save))
    wanted.check(plan.wiring, grid)
    exchanged = ExchangedSignals(wiring, names)
    with Federate(name or "_".join(names), broker, core, dt, exchanged) as joined:
        start = joined.agree_on_start_values(plan)
        return execute_run(
            plan.replace_wiring(plan.wiring.replace_start_values(start)),
            grid,
            wanted,
            False,
            1,
            pace=joined,
        )


def federate_config(
    system: System, parts: Iterable[str], dt: float, *, broker: str = BROKER, core: str = "zmq"
) -> dict[str, Any]:
    """Return the HELICS configuration for another program that simulates parts of a system.

    Pass the configuration to `helicsCreateValueFederateFromConfig`.

    Args:
        system: System with all parts.
        parts: Names of the parts that the other program simulates.
        dt: Communication step [s].
        broker: Address host:port of the broker.
        core: HELICS core type of the federation.

    Returns:
        Configuration with publications and subscriptions, for JSON.

    Raises:
        KeyError: A part does not exist.
        ValueError: `parts` is empty, or the address is invalid.
    """
    names = tuple(parts)
    wiring = system.wiring()
    _check(wiring, names)
    host, port = _address(broker)
    exchanged = ExchangedSignals(wiring, names)
    return {
        "name": "_".join(names),
        "coreType": core,
        "coreInitString": f"--federates=1 {LIMITS} --broker_address={host} --brokerport={port}",
        "period": dt,
        "uninterruptible": True,
        "publications": [
            {"key": key, "type": _kind(port), "unit": _unit(port), "global": True}
            for key, port in exchanged.published.items()
        ],
        "subscriptions": [{"key": key, "required": True} for key in exchanged.subscribed],
    }


class ExchangedSignals:
    """Signals that a federate exchanges with other federates.

    `published` and `subscribed` map names `part.port` to ports. `published` contains all outputs of
    the parts of this federate. `subscribed` contains the outputs that the federate reads from parts
    of other federates.
    """

    def __init__(self, wiring: Wiring, names: tuple[str, ...]):
        self.published = {
            f"{name}.{port.name}": port
            for name in names
            for port in wiring.parts[name].component.outputs
        }
        self._wires = [
            (wire, wiring.conversion(wire))
            for wire in wiring.wires
            if wire.target[0] in names and wire.source[0] not in names
        ]
        self.subscribed = {
            ".".join(wire.source): wiring.parts[wire.source[0]].output(wire.source[1])
            for wire, _ in self._wires
        }

    def set_inputs(self, network: Network, values: Mapping[str, Array]) -> None:
        """Set the inputs from other federates to `values`, after unit conversion."""
        for wire, conversion in self._wires:
            view = network.view(".".join(wire.target))
            assert view is not None
            target = view[wire.to : wire.to + wire.length]
            target[:] = values[".".join(wire.source)][wire.start : wire.start + wire.length]
            if conversion is not None:
                target[:] = conversion.apply(target)

    def starts(self, plan: Plan, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the start values of the inputs from other federates, by input name."""
        found: dict[str, Array] = {}
        for wire, conversion in self._wires:
            part, port = plan.wiring.parts[wire.target[0]], ".".join(wire.target)
            shape = part.input(wire.target[1]).shape
            flat = np.ravel(found.get(port, part.start[wire.target[1]])).astype(float)
            got = values[".".join(wire.source)][wire.start : wire.start + wire.length]
            if conversion is not None:
                got = conversion.apply(got)
            flat[wire.to : wire.to + wire.length] = got
            found[port] = flat.reshape(shape)
        return found


class Federate(StepTiming):
    """HELICS federate, which waits for a time grant before each step and publishes its outputs."""

    def __init__(self, name: str, broker: str, core: str, dt: float, exchanged: ExchangedSignals):
        self._h, self._dt, self._k, self._exchanged = _helics(), dt, 0, exchanged
        host, port = _address(broker)
        _check_broker(host, port)
        self._values = {key: np.zeros(one.size) for key, one in exchanged.subscribed.items()}
        h = self._h
        info = h.helicsCreateFederateInfo()
        try:
            h.helicsFederateInfoSetCoreTypeFromString(info, core)
            h.helicsFederateInfoSetCoreInitString(
                info,
                f"--federates=1 {LIMITS} --loglevel=no_print --broker_address={host} "
                f"--brokerport={port}",
            )
            h.helicsFederateInfoSetTimeProperty(info, h.HELICS_PROPERTY_TIME_PERIOD, dt)
            h.helicsFederateInfoSetFlagOption(info, h.HELICS_FLAG_UNINTERRUPTIBLE, True)
            self._federate = self._join(name, info)
            self._register()
        except h.HelicsException as error:
            raise FederationError(f"cannot join a federation at {broker}: {error}") from None

    def _join(self, name: str, info: Any) -> Any:
        """Return a new HELICS federate; retry if the connection to the broker fails."""
        h = self._h
        for _ in range(JOIN_ATTEMPTS - 1):
            try:
                return h.helicsCreateValueFederate(name, info)
            except h.HelicsException as error:
                if "connect to broker" not in str(error):
                    raise
        return h.helicsCreateValueFederate(name, info)

    def __enter__(self) -> "Federate":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(self._h.HelicsException):
            self._h.helicsFederateDisconnect(self._federate)
        self._h.helicsFederateFree(self._federate)

    def _register(self) -> None:
        h = self._h
        self._sends = {
            key: h.helicsFederateRegisterGlobalTypePublication(
                self._federate, key, _kind(port), _unit(port)
            )
            for key, port in self._exchanged.published.items()
        }
        self._reads = {
            key: h.helicsFederateRegisterSubscription(self._federate, key, "")
            for key in self._exchanged.subscribed
        }

    def agree_on_start_values(self, plan: Plan) -> dict[str, Array]:
        """Iterate the initialization until the exchanged outputs of all federates agree.

        Returns the start values of the inputs. The federation is then in executing mode.

        Raises:
            FederationError: The start values did not converge, or the federation has failed.
        """
        h = self._h
        run, start, sent = Run(plan, ("*",), 1), dict[str, Array](), dict[str, Array]()
        try:
            self._wait_for_federates()
            for _ in range(_MAX_ITERATIONS):
                run.reset(start)
                now = {key: np.ravel(run[key]) for key in self._sends}
                self._publish({k: v for k, v in now.items() if not _are_equal(v, sent.get(k))})
                sent = now
                ending = h.helicsFederateEnterExecutingModeIterative(
                    self._federate, h.HELICS_ITERATION_REQUEST_ITERATE_IF_NEEDED
                )
                self._receive()
                start = self._exchanged.starts(plan, self._values)
                if ending == h.HELICS_ITERATION_RESULT_NEXT_STEP:
                    return start
        except h.HelicsException as error:
            raise FederationError(f"the federation failed at its start: {error}") from None
        finally:
            run.close()
        raise FederationError(f"the start values did not converge in {_MAX_ITERATIONS} iterations")

    def _wait_for_federates(self) -> None:
        """Wait until all federates have joined; Ctrl-C ends the wait."""
        h = self._h
        h.helicsFederateEnterInitializingModeAsync(self._federate)
        with log_if_slow("waiting for the other federates"):
            while not h.helicsFederateIsAsyncOperationCompleted(self._federate):
                time.sleep(_POLL_INTERVAL)
        h.helicsFederateEnterInitializingModeComplete(self._federate)

    def begin(self, network: Network) -> None:
        self._network = network

    def wait(self) -> None:
        h, self._k = self._h, self._k + 1
        due = self._k * self._dt
        try:
            granted = h.helicsFederateRequestTime(self._federate, due)
        except h.HelicsException as error:
            raise FederationError(f"the federation failed: {error}") from None
        if abs(granted - due) > 1e-6 * self._dt + 1e-9:
            raise FederationError(
                f"the federation has ended: it granted {granted:g} s instead of {due:g} s"
            )
        self._receive()
        self._exchanged.set_inputs(self._network, self._values)

    def end_step(self, t: float) -> None:
        del t  # t equals the granted time
        if np.isfinite(self._network.row()).all():
            self._publish({key: self._network.outputs[key] for key in self._sends})

    def metadata(self) -> dict[str, str]:
        return {"federation": json.dumps({"steps": self._k, "subscribed": list(self._reads)})}

    def _publish(self, values: Mapping[str, Array]) -> None:
        h = self._h
        for key, one in values.items():
            if self._exchanged.published[key].shape:
                h.helicsPublicationPublishVector(self._sends[key], one.tolist())
            else:
                h.helicsPublicationPublishDouble(self._sends[key], float(one[0]))

    def _receive(self) -> None:
        h = self._h
        for key, one in self._reads.items():
            if not h.helicsInputIsUpdated(one):
                continue
            vector = bool(self._exchanged.subscribed[key].shape)
            got = h.helicsInputGetVector(one) if vector else [h.helicsInputGetDouble(one)]
            if len(got) != self._values[key].size or not np.isfinite(got).all():
                raise FederationError(
                    f"'{key}' of the federation is {got}; expected {self._values[key].size} finite "
                    "numbers"
                )
            self._values[key][:] = got


def _system_of_parts(wiring: Wiring, names: tuple[str, ...]) -> System:
    """Return a system with only the parts `names`, without connections from other parts."""
    _check(wiring, names)
    fed = {wire.target for wire in wiring.wires if wire.source[0] not in names}
    system = System()
    for name in names:
        part = wiring.parts[name]
        ports = (p for p in part.component.inputs if (name, p.name) in fed and p.start is None)
        system.parts[name] = replace(
            part,
            start={
                **{u: np.zeros(part.input(u).shape) for b, u in fed if b == name},
                **{port.name: port.clip(0.0) for port in ports},
                **part.start,
            },
        )
    system.connections += [
        one for one in wiring.connections if {one.source[0], one.target[0]} <= set(names)
    ]
    return system


def _check(wiring: Wiring, names: tuple[str, ...]) -> None:
    if not names:
        raise ValueError("`parts` is empty; a federate needs one or more parts")
    for name in names:
        if name not in wiring.parts:
            raise KeyError(f"unknown part '{name}'; {suggestion(name, wiring.parts)}")


def _are_equal(values: Array, sent: Array | None) -> bool:
    return sent is not None and np.array_equal(values, sent)


def _kind(port: Port) -> str:
    return "vector" if port.shape else "double"


def _unit(port: Port) -> str:
    """Return the common unit of the elements of a port, or "" if their units differ."""
    units = set(port.units)
    return units.pop() if len(units) == 1 else ""


def _address(broker: str) -> tuple[str, int]:
    host, _, port = broker.rpartition(":")
    if not (host and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"invalid broker address '{broker}'; expected an address such as {BROKER}")
    return host, int(port)


def _check_broker(host: str, port: int) -> None:
    """Raise FederationError if the broker is not reachable within 3 s; HELICS would wait 30 s."""
    end = time.monotonic() + _CONNECTION_TIMEOUT
    while True:
        try:
            socket.create_connection((host, port), _CONNECTION_TIMEOUT).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise FederationError(
                    f"no broker answers at {host}:{port} ({error}); start one: helics_broker "
                    f"-f 2 --port={port} {LIMITS}"
                ) from None
            time.sleep(0.1)


def _helics() -> Any:
    return module_of("helics", "a federation")
