"""Parts of a system as a federate of HELICS: the other parts are other people's federates."""

import json
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.port import Port
from rigidblocks.block.record import offer
from rigidblocks.simulation.arguments import check_numbers, check_path
from rigidblocks.simulation.course import course
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.network import Network
from rigidblocks.simulation.pace import Turns
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.prepare import planned
from rigidblocks.simulation.recording import Wanted
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.run import Run
from rigidblocks.system.fused import JACOBI
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring

BROKER = "127.0.0.1:23404"
LIMITS = "--timeout=2s --tick=500ms"  # in which a dead partner is found, for brokers too
_REACHED = 3.0  # s that a broker gets to be there
_ROUNDS = 100  # of values at the start: those that do not agree by then never do


class FederationError(RuntimeError):
    """A federation that cannot be joined, or that has broken."""


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
    """The result of some parts of a system, run as one federate of HELICS; what the others send is
    other people's, each output `part.port` a publication of that name.

    All outputs of the parts are published, in their units, scalars as double and others as vector.
    The federate steps by dt after each grant, from t - dt to t with the values published at t - dt,
    so that federates of all parts of a system are `simulate(order="jacobi")` to the last bit. At
    the start it takes part in HELICS's iterations until the values agree. `broker` is host:port,
    `core` the kind of the federation, `name` what the federate is called, by default its parts.

    Raises FederationError, in one line and within some seconds, where there is no broker, KeyError
    for a part that there is not, and SimulationError with the result up to then where the
    federation breaks: a partner that is killed is found after some two seconds, if the broker has
    the limits `--timeout=2s --tick=500ms`.
    """
    check_numbers({"t_stop": t_stop, "dt": dt})
    check_path("save", save)
    names = tuple(parts)
    wiring = system.wiring()
    own = _own(wiring, names)
    plan = planned(own, dt, 0.0, JACOBI, "compiled", None, None, None, None, None, ())
    grid = communication_points(0.0, t_stop, dt)
    wanted = Wanted(("*",), 1, None if save is None else Path(save))
    wanted.check(plan.wiring, grid)
    with Federate(name or "_".join(names), broker, core, dt, Crossing(wiring, names)) as joined:
        start = joined.agreed(plan)
        return course(plan.started(plan.wiring.started(start)), grid, wanted, False, 1, pace=joined)


def federate_config(
    system: System, parts: Iterable[str], dt: float, *, broker: str = BROKER, core: str = "zmq"
) -> dict[str, Any]:
    """The configuration of HELICS, for `helicsCreateValueFederateFromConfig`, of a federate of
    other people that is these parts of a system.
    """
    names = tuple(parts)
    wiring = system.wiring()
    _check(wiring, names)
    host, port = _address(broker)
    crossing = Crossing(wiring, names)
    return {
        "name": "_".join(names),
        "coreType": core,
        "coreInitString": f"--federates=1 {LIMITS} --broker_address={host} --brokerport={port}",
        "period": dt,
        "uninterruptible": True,
        "publications": [
            {"key": key, "type": _kind(port), "unit": _unit(port), "global": True}
            for key, port in crossing.published.items()
        ],
        "subscriptions": [{"key": key, "required": True} for key in crossing.subscribed],
    }


class Crossing:
    """What goes in and out of some parts of a system: `published` are all their outputs and
    `subscribed` the outputs of others that they read, as ports by `part.port`.
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

    def put(self, network: Network, values: Mapping[str, Array]) -> None:
        """Sets the inputs that read values of others, converted to their units."""
        for wire, conversion in self._wires:
            view = network.view(".".join(wire.target))
            assert view is not None
            target = view[wire.to : wire.to + wire.length]
            target[:] = values[".".join(wire.source)][wire.start : wire.start + wire.length]
            if conversion is not None:
                target[:] = conversion.factor * target + conversion.offset

    def starts(self, plan: Plan, values: Mapping[str, Array]) -> dict[str, Array]:
        """The start values of the inputs that read values of others."""
        found: dict[str, Array] = {}
        for wire, conversion in self._wires:
            part, port = plan.wiring.parts[wire.target[0]], ".".join(wire.target)
            shape = part.input(wire.target[1]).shape
            flat = np.ravel(found.get(port, part.start[wire.target[1]])).astype(float)
            got = values[".".join(wire.source)][wire.start : wire.start + wire.length]
            if conversion is not None:
                got = conversion.factor * got + conversion.offset
            flat[wire.to : wire.to + wire.length] = got
            found[port] = flat.reshape(shape)
        return found


class Federate(Turns):
    """A federate in a federation: its steps wait for grants, and their outputs are published."""

    def __init__(self, name: str, broker: str, core: str, dt: float, crossing: Crossing):
        self._h, self._dt, self._k, self._crossing = _helics(), dt, 0, crossing
        host, port = _address(broker)
        _reach(host, port)
        self._values = {key: np.zeros(one.size) for key, one in crossing.subscribed.items()}
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
            self._federate = h.helicsCreateValueFederate(name, info)
            self._register()
        except h.HelicsException as error:
            raise FederationError(f"no federation at {broker}: {error}") from None

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
            for key, port in self._crossing.published.items()
        }
        self._reads = {
            key: h.helicsFederateRegisterSubscription(self._federate, key, "")
            for key in self._crossing.subscribed
        }

    def agreed(self, plan: Plan) -> dict[str, Array]:
        """The start values of the inputs, with which all federates have the outputs that the
        others read; the federation is executed from then on.
        """
        h = self._h
        run, start, sent = Run(plan, ("*",), 1), dict[str, Array](), dict[str, Array]()
        try:
            h.helicsFederateEnterInitializingMode(self._federate)
            for _ in range(_ROUNDS):
                run.reset(start)
                now = {key: np.ravel(run[key]) for key in self._sends}
                self._publish({k: v for k, v in now.items() if not _same(v, sent.get(k))})
                sent = now
                ending = h.helicsFederateEnterExecutingModeIterative(
                    self._federate, h.HELICS_ITERATION_REQUEST_ITERATE_IF_NEEDED
                )
                self._receive()
                start = self._crossing.starts(plan, self._values)
                if ending == h.HELICS_ITERATION_RESULT_NEXT_STEP:
                    return start
        except h.HelicsException as error:
            raise FederationError(f"the federation broke at its start: {error}") from None
        finally:
            run.close()
        raise FederationError(f"the values at the start do not agree after {_ROUNDS} rounds")

    def begin(self, network: Network) -> None:
        self._network = network

    def wait(self) -> None:
        h, self._k = self._h, self._k + 1
        due = self._k * self._dt
        try:
            granted = h.helicsFederateRequestTime(self._federate, due)
        except h.HelicsException as error:
            raise FederationError(f"the federation broke: {error}") from None
        if abs(granted - due) > 1e-6 * self._dt + 1e-9:
            raise FederationError(
                f"the federation has ended: it granted {granted:g} s, not {due:g}"
            )
        self._receive()
        self._crossing.put(self._network, self._values)

    def ended(self, t: float) -> None:
        del t  # it was granted
        if np.isfinite(self._network.row()).all():
            self._publish({key: self._network.outputs[key] for key in self._sends})

    def told(self) -> dict[str, str]:
        return {"federation": json.dumps({"steps": self._k, "subscribed": list(self._reads)})}

    def _publish(self, values: Mapping[str, Array]) -> None:
        h = self._h
        for key, one in values.items():
            if self._crossing.published[key].shape:
                h.helicsPublicationPublishVector(self._sends[key], one.tolist())
            else:
                h.helicsPublicationPublishDouble(self._sends[key], float(one[0]))

    def _receive(self) -> None:
        h = self._h
        for key, one in self._reads.items():
            if not h.helicsInputIsUpdated(one):
                continue
            vector = bool(self._crossing.subscribed[key].shape)
            got = h.helicsInputGetVector(one) if vector else [h.helicsInputGetDouble(one)]
            if len(got) != self._values[key].size or not np.isfinite(got).all():
                raise FederationError(
                    f"'{key}' of the federation is {got}; it has {self._values[key].size} finite "
                    "numbers"
                )
            self._values[key][:] = got


def _own(wiring: Wiring, names: tuple[str, ...]) -> System:
    """A system of some parts, in which what comes from the others is open."""
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
                **{port.name: port.within(0.0) for port in ports},
                **part.start,
            },
        )
    system.connections += [
        one for one in wiring.connections if {one.source[0], one.target[0]} <= set(names)
    ]
    return system


def _check(wiring: Wiring, names: tuple[str, ...]) -> None:
    if not names:
        raise ValueError("a federate needs a part")
    for name in names:
        if name not in wiring.parts:
            raise KeyError(f"there is no part '{name}'; {offer(name, wiring.parts)}")


def _same(values: Array, sent: Array | None) -> bool:
    return sent is not None and np.array_equal(values, sent)


def _kind(port: Port) -> str:
    return "vector" if port.shape else "double"


def _unit(port: Port) -> str:
    """The unit of all elements of a port; none where they differ."""
    units = set(port.units)
    return units.pop() if len(units) == 1 else ""


def _address(broker: str) -> tuple[str, int]:
    host, _, port = broker.rpartition(":")
    if not (host and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"a broker is at an address such as {BROKER}, not '{broker}'")
    return host, int(port)


def _reach(host: str, port: int) -> None:
    """Waits a moment for a broker; HELICS itself would for half a minute."""
    end = time.monotonic() + _REACHED
    while True:
        try:
            socket.create_connection((host, port), _REACHED).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise FederationError(
                    f"there is no broker at {host}:{port} ({error}); start one: helics_broker "
                    f"-f 2 --port={port} {LIMITS}"
                ) from None
            time.sleep(0.1)


def _helics() -> Any:
    try:
        import helics
    except ImportError:
        raise ModuleNotFoundError(
            "federations need helics: pip install 'rigidblocks[helics]'"
        ) from None
    return helics
