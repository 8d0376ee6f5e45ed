"""The elements of plants: their numbers as parameters, their forces as outputs, what they do."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, Record, finite
from rigidblocks.dynamics.elements import (
    Acting,
    Compliance,
    ForceElement,
    acting,
    compliance,
    margins,
    modes,
)
from rigidblocks.dynamics.joint_space import crba
from rigidblocks.dynamics.transmissions import (
    Gear,
    Rotor,
    Transmissions,
    on_gears,
    transmissions,
)
from rigidblocks.model.tree import Tree

Element = ForceElement | Rotor | Gear
OFF = 1e-9  # rad, m: what a start may be off its gears


@dataclass(frozen=True, eq=False)
class Elements:
    """The elements of a plant of this model, in their order.

    Raises TypeError for what is no element, and ValueError for one that does not fit the model or
    has the name of another.
    """

    model: Tree
    given: tuple[Element, ...]

    def __post_init__(self) -> None:
        if isinstance(self.given, Element) or not isinstance(self.given, Iterable):
            raise TypeError(f"elements must be a tuple of elements, not {self.given!r}")
        object.__setattr__(self, "given", tuple(self.given))
        names: set[str] = set()
        for element in self.given:
            if not isinstance(element, Element):
                raise TypeError(f"elements are ForceElement, Rotor and Gear, not {element!r}")
            if element.name in names:
                raise ValueError(f"two elements have the name '{element.name}'")
            names.add(element.name)
            try:
                element.units(self.model)
            except ValueError as error:
                raise ValueError(f"element '{element.name}': {error}") from error
        _ = self.of_start  # raises for gears that make no sense together

    @cached_property
    def forces(self) -> tuple[ForceElement, ...]:
        """Those that act by forces."""
        return tuple(element for element in self.given if isinstance(element, ForceElement))

    @cached_property
    def geared(self) -> bool:
        """Whether there is a gear."""
        return any(isinstance(element, Gear) for element in self.given)

    @cached_property
    def of_start(self) -> Transmissions | None:
        """The rotors and gears with the numbers that they were made with; None without any."""
        return self._transmissions(self.given)

    @property
    def rotor_inertia(self) -> Array | None:
        """The inertia (nv,) of rotors at the start; None without any."""
        return None if self.of_start is None else self.of_start.rotor_inertia

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The numbers of each element, as `knee_K`."""
        return tuple(
            Port(
                f"{element.name}_{name}",
                (),
                element.units(self.model)[about.kind],
                f"{about.doc} of {element.name}",
                value,
                min=about.min,
                positive=about.positive,
            )
            for element in self.given
            for name, (value, about) in element.numbers().items()
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """What the elements remember, as `rub_bend`."""
        return tuple(
            Port(
                f"{element.name}_{name}",
                (),
                element.units(self.model)[about.kind],
                f"{about.doc} of {element.name}",
                0.0,
            )
            for element in self.forces
            for name, about in element.law.remembers.items()
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The force of each element that has one, as `knee_force`, positive where it makes its
        length grow.
        """
        return tuple(
            Port(
                f"{element.name}_force",
                (),
                element.units(self.model)["force"],
                f"force of {element.name} towards greater length",
            )
            for element in self.forces
        )

    def start(self, q0: Array, qd0: Any, given: bool) -> Array:
        """The start q0 on the gears; raises ValueError for one that is `given` and is not on them,
        and for such a qd0.
        """
        if not self.geared or self.of_start is None:
            return q0
        driven, qd0 = self.of_start.driven, finite(qd0, (self.model.nv,), "qd0")
        moved, speeds = on_gears(self.model, driven, q0, qd0)
        for name, now, wanted in (("q0", q0, moved if given else q0), ("qd0", qd0, speeds)):
            if np.abs(now - wanted).max() > OFF:
                raise ValueError(
                    f"{name} of model '{self.model.name}' is not where its gears are: "
                    f"{now.tolist()} must be {wanted.tolist()}"
                )
        return moved

    def acting(self, q: Array, qd: Array, x: Record, p: Record) -> Acting | None:
        """What the elements with forces do at q, qd with the numbers of the parameters and what
        they remember among the states; None without any.
        """
        if not self.forces:
            return None
        return acting(self.model, _with_states(_with_parameters(self.forces, p), x), q, qd)

    def margins(self, q: Array, qd: Array, x: Record, p: Record) -> Array:
        """The numbers by whose signs their laws become others."""
        if not self.forces:
            return np.zeros(0)
        return margins(self.model, _with_states(_with_parameters(self.forces, p), x), q, qd)

    def transmissions(self, p: Record) -> Transmissions | None:
        """The rotors and gears with the numbers of the parameters; None without any."""
        return self._transmissions(_with_parameters(self.given, p)) if self.of_start else None

    def moving(self, q: Array, qd: Array, p: Record) -> tuple[Array, Array]:
        """q and qd with what gears drive where they have it."""
        given = self.transmissions(p) if self.geared else None
        return on_gears(self.model, given.driven, q, qd) if given else (q, qd)

    def values(self, done: Acting | None) -> dict[str, Any]:
        """The outputs."""
        ports = zip(self.outputs, done.force if done else (), strict=True)
        return {port.name: force for port, force in ports}

    def rates(self, done: Acting | None) -> dict[str, Any]:
        """The rates of the states."""
        return done.rates if done else {}

    def energy(self, done: Acting | None, qd: Array, p: Record) -> Any:
        """The potential energy of springs and the kinetic one of rotors [J]."""
        given, E = self.transmissions(p), 0.0 if done is None else done.energy
        return E if given is None else E + given.rotor_inertia @ (qd * qd) / 2

    def modes(self, q: Array, p: Record, more: Compliance | None = None, K: Any = None) -> Array:
        """The eigenvalues [1/s] that the elements give the plant at q where they are stiffest, with
        those of `more`, in the motions that gears and loop constraints K (nc, nv) leave.
        """
        model, given = self.model, self.transmissions(p)
        parts = [compliance(model, _with_parameters(self.forces, p), q), *([more] if more else [])]
        H = crba(model, q)
        free = np.eye(model.nv)
        if given is not None:
            H, free = H + np.diag(given.rotor_inertia), given.matrix
        if K is not None:
            _, sizes, V = np.linalg.svd(K @ free)
            free = free @ V[int(np.sum(sizes > 1e-9 * sizes.max(initial=0.0))) :].T
        motion = modes(H, Compliance(*map(np.concatenate, zip(*parts, strict=True))), free)
        laws = (element.law for element in _with_parameters(self.forces, p))
        return np.concatenate([motion, [-rate for law in laws for rate in law.decays()]])

    def _transmissions(self, elements: Iterable[Element]) -> Transmissions | None:
        parts = [element for element in elements if isinstance(element, Rotor | Gear)]
        return transmissions(self.model, parts) if parts else None


def _with_parameters(elements: Iterable[Any], p: Record) -> list[Any]:
    """The elements with the numbers of the parameters."""
    return [
        element.tuned(**{name: getattr(p, f"{element.name}_{name}") for name in element.numbers()})
        for element in elements
    ]


def _with_states(elements: Iterable[ForceElement], x: Record) -> list[ForceElement]:
    """The elements with what they remember."""
    return [
        element.tuned(
            **{name: getattr(x, f"{element.name}_{name}") for name in element.law.remembers}
        )
        for element in elements
    ]


def with_loads(
    done: Acting | None, tau: Array, f_ext: Array | None, joints: int = 0, bodies: int = 0
) -> tuple[Array, Array | None]:
    """The joint forces and external wrenches with those of the elements.

    The elements' model may have `joints` variables before those of tau, and the other one `bodies`
    bodies before its own.
    """
    if done is None:
        return tau, f_ext
    wrenches = np.vstack([np.zeros((bodies, done.loads.f_ext.shape[1])), done.loads.f_ext])
    return tau + done.loads.tau[joints:], wrenches if f_ext is None else f_ext + wrenches
