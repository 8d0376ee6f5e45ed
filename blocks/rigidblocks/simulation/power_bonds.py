"""The energy that a coupling makes where a force and the speed that it acts on are exchanged."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.record import offer
from rigidblocks.simulation.fmu_values import places
from rigidblocks.simulation.links import Links
from rigidblocks.simulation.network import Instances
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.step_choice import Scheme
from rigidblocks.system.wiring import Wiring

_MUCH = 0.01  # of the energy that goes through a bond


@dataclass(frozen=True, eq=False)
class Bond:
    """The force of one part on another, which gives it its speed: the `parts`, where they are among
    all outputs, and where each is read among the inputs of the other part.
    """

    name: str
    parts: tuple[str, str]
    given: tuple[Array, Array]
    read: tuple[Array, Array]


class PowerBonds:
    """The bonds of a run and what goes through them.

    The part that moves takes the power (force it got) (its speed), the other gives (its force)
    (speed it got); the difference is made by the coupling (Sadjina et al., Engineering with
    Computers 33, 2017), and is zero where both got what the other gave. Over a step it is taken
    from both ends, by the order in which it grows from there.
    """

    def __init__(self, plan: Plan, network: Instances):
        self._parts, self._weight = network, 1.0 / (plan.coupling.extrapolate + 2.0)
        self._sees_new = not plan.is_simultaneous
        self.bonds = bonds_of(plan.wiring, plan.links, plan.coupling.bonds)
        self.made, self.through = np.zeros(len(self.bonds)), np.zeros(len(self.bonds))

    def watching(self, scheme: Scheme) -> Scheme:
        """The scheme, whose steps are watched."""
        return _Watched(self, scheme)

    def before(self) -> Array:
        """The outputs that a step starts from."""
        return self._parts.row()

    def after(self, before: Array, dt: float) -> None:
        """Counts what a step has made."""
        now = self._parts.row()
        for k, bond in enumerate(self.bonds):
            force_got, speed_got = self._got(bond)
            f, v = (now[one] for one in bond.given)
            made = self._weight * float(force_got @ v - f @ speed_got)
            if self._sees_new:
                f_0, v_0 = (before[one] for one in bond.given)
                made += 0.5 * float(force_got @ v_0 - f_0 @ speed_got)
            self.made[k] += dt * made
            self.through[k] += dt * abs(float(f @ v))

    def report(self) -> Mapping[str, object]:
        """The energy made [J], and that which went through, by bond."""
        return {
            "energy made [J]": {
                bond.name: [float(made), float(through)]
                for bond, made, through in zip(self.bonds, self.made, self.through, strict=True)
            }
        }

    def remarks(self) -> Iterator[tuple[int, str]]:
        """The worst bond, a warning where it is bad."""
        if not len(self.bonds):
            return
        worst = int(np.argmax(np.abs(self.made)))
        made, through = self.made[worst], self.through[worst]
        is_much = abs(made) > _MUCH * through
        yield (
            logging.WARNING if is_much else logging.INFO,
            f"the coupling has made {made:.3g} J at {self.bonds[worst].name}, through which "
            f"{through:.3g} J have gone"
            + ("; dt is too long for it, or the order of the coupling too low" if is_much else ""),
        )

    def _got(self, bond: Bond) -> tuple[Array, Array]:
        """The force and the speed that the other parts had at the end of a step."""
        giver, mover = bond.parts
        to_mover, to_giver = bond.read
        return self._parts.by_name[mover].inputs[to_mover], self._parts.by_name[giver].inputs[
            to_giver
        ]


class _Watched(Scheme):
    """A scheme whose steps are watched."""

    def __init__(self, bonds: PowerBonds, scheme: Scheme):
        self._bonds, self._scheme = bonds, scheme

    def __call__(self, t: float, dt: float) -> None:
        before = self._bonds.before()
        self._scheme(t, dt)
        self._bonds.after(before, dt)

    def copy(self) -> Any:
        return self._bonds.made.copy(), self._bonds.through.copy(), self._scheme.copy()

    def go_back(self, kept: Any) -> None:
        self._bonds.made[:], self._bonds.through[:], inner = kept
        self._scheme.go_back(inner)


def bonds_of(wiring: Wiring, links: Links, given: Any) -> list[Bond]:
    """The bonds that are named, or all that the units show.

    Raises KeyError for an output that there is not, and ValueError for two that are not exchanged.
    """
    exchanged = {(a, b) for a, b in _exchanged(wiring)}
    if given is True:
        pairs = [pair for pair in sorted(exchanged) if _is_power(wiring, *pair)]
        return [_bond(wiring, links, *pair) for pair in pairs]
    known = [port.name for port in wiring.outputs]
    for pair in given:
        for name in pair:
            if name not in known:
                raise KeyError(f"there is no output '{name}' for a bond; {offer(name, known)}")
        if pair not in exchanged:
            raise ValueError(
                f"{pair[0]} and {pair[1]} are no bond: each must be connected, as a whole, to the "
                "part that gives the other, and have as many elements"
            )
    return [_bond(wiring, links, *pair) for pair in given]


def _exchanged(wiring: Wiring) -> Iterator[tuple[str, str]]:
    """The pairs of outputs of two parts that each goes as a whole to the part of the other."""
    whole = {
        (one.source, one.target[0])
        for one in wiring.connections
        if len(one.start) == wiring.parts[one.source[0]].output(one.source[1]).size
    }
    for (a, y), b in whole:
        for (other, z), to in whole:
            if (other, to) != (b, a) or a == b:
                continue
            if wiring.parts[a].output(y).size == wiring.parts[b].output(z).size:
                yield wiring.whole_name(a, y), wiring.whole_name(b, z)


_FORCES = {"N": "m/s", "N.m": "rad/s"}


def _is_power(wiring: Wiring, force: str, speed: str) -> bool:
    """Whether the units are those of forces and speeds, element by element."""
    units = {port.name: port.units for port in wiring.outputs}
    return all(
        _FORCES.get(one) == other for one, other in zip(units[force], units[speed], strict=True)
    )


def _bond(wiring: Wiring, links: Links, force: str, speed: str) -> Bond:
    where = places(wiring.outputs)
    columns = [np.arange(where[name].start, where[name].stop) for name in (force, speed)]
    giver, mover = (str(links.owner[some[0]]) for some in columns)
    read = []
    for some, reader in zip(columns, (mover, giver), strict=True):
        link = links.by_part[reader]
        read.append(np.array([link.to[np.flatnonzero(link.of == k)[0]] for k in some]))
    given = columns[0], columns[1]
    return Bond(f"{force} and {speed}", (giver, mover), given, (read[0], read[1]))
