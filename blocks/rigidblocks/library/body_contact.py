"""Contact between the bodies of a robot as a block of its own."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.contact.between import (
    ContactPair,
    PairMotion,
    PairPoints,
    pair_motions,
    pair_points,
)
from rigidblocks.contact.soft import SoftLaw, wrench
from rigidblocks.dynamics.jacobian import point_jacobian
from rigidblocks.library.compliance import (
    check_depth,
    law_of,
    law_ports,
    patch_port,
    pushes,
    stable_hold,
    whole_force,
)
from rigidblocks.library.ports import joint_ports, wrench_port
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Contact, contact


@dataclass(frozen=True, eq=False)
class BodyContact(Block):
    """The forces of soft contact between bodies of a robot, or between them and things at rest
    (RBDA 11.8).

        f_n = max(0, -K p - D dp/dt) in contact,  |f_t| <= mu f_n

    Each of the `pairs` is of the points of one body against a surface that another one carries. The
    law is the continuous one of `GroundContact`, in the coordinates of the body with the surface,
    so that what sticks goes with it. What touches gets a force, what is touched gets its negative
    at the same point: the momentum of the whole is left alone.

    `f_ext` (nb, 6) are the sums of the wrenches on the bodies, for the input of that name of a
    plant. Of the n points, pair by pair, `force` (n, 3) [N] is on the touching body, in base
    coordinates; `depth` (n,) [m] is negative where they are apart; `in_contact` (n,) is 1 where
    there is a force. The state x (n, 3) needs steps below D_t / K_t. Together with the plant in a
    `ContinuousSystem` the forces are those of every stage; wired up part by part they are held,
    which is stable up to `longest_step`.

    K_t and D_t are K and D unless given; `depth_ref` [m] makes the normal ones stiffer with depth
    (`contact.SoftLaw`). Raises ValueError for numbers that must be positive, and what
    `contact.pair_points` raises.
    """

    model: Model
    pairs: tuple[ContactPair, ...]
    K: float
    D: float
    mu: float = 0.0
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(self.pairs))
        object.__setattr__(self, "K_t", self.K if self.K_t is None else self.K_t)
        object.__setattr__(self, "D_t", self.D if self.D_t is None else self.D_t)
        check_depth(self.depth_ref)
        if not self.pairs:
            raise ValueError(
                f"the contact of the bodies of model '{self.model.name}' needs at least one pair "
                "of them"
            )

    @cached_property
    def _points(self) -> tuple[PairPoints, ...]:
        return pair_points(self.model, self.pairs)

    @property
    def _n(self) -> int:
        return sum(len(some.position) for some in self._points)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """f_ext (nb, 6), force (n, 3), depth (n,) and in_contact (n,)."""
        return (
            wrench_port(self.model, None),
            Port(
                "force",
                (self._n, 3),
                "N",
                "force on the touching body at each point, base coordinates",
            ),
            Port("depth", (self._n,), "m", "how far each point is inside the other body"),
            Port("in_contact", (self._n,), "1", "1 where there is a force", min=0.0, max=1.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """x (n, 3), in the coordinates of the touched bodies."""
        return (patch_port(self._n),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """K, D, mu, K_t and D_t."""
        return law_ports(self.K, self.D, self.mu, self.K_t, self.D_t, damped=True)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        law = law_of(p, self.depth_ref)
        rates = [law.rate(touching, v, x_k) for _, touching, v, x_k in self._contacts(x, u)]
        return {"x": np.concatenate(rates)}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        law, f_ext = law_of(p, self.depth_ref), [np.zeros(6)] * self.model.nb
        forces, depths, there = [], [], []
        for (motion, touching, v, x_k), pair in zip(self._contacts(x, u), self.pairs, strict=True):
            force = law.force(touching, v, x_k)
            f = whole_force(force, touching)
            f_pair = motion.X.T @ wrench(f, touching.point).sum(axis=0)
            f_ext[pair.touching] = f_ext[pair.touching] + f_pair
            if pair.touched >= 0:
                f_ext[pair.touched] = f_ext[pair.touched] - f_pair
            forces.append(f @ motion.X.E)
            depths.append(touching.depth)
            there.append(pushes(force))
        f_all, depth, touches = (np.concatenate(parts) for parts in (forces, depths, there))
        return {"f_ext": np.array(f_ext), "force": f_all, "depth": depth, "in_contact": touches}

    def margins(self, x: Record, u: Record, p: Record) -> Array:
        """By how much each point (n,) is pushed [m]."""
        law = law_of(p, self.depth_ref)
        return np.concatenate(
            [law.margin(touching, v) for _, touching, v, _ in self._contacts(x, u)]
        )

    def longest_step(self, q: Any) -> float:
        """The longest step [s] over which the forces may be held at the configuration q, as in
        `GroundContact`.

        J is of how the points move against what they touch. Raises ValueError where depth_ref is
        given.
        """
        return self._longest_step(q, SoftLaw(self.K, self.D, self.mu, self.K_t, self.D_t))

    def longest_hold(self, u: Record, p: Record) -> float:
        """`longest_step`, where the springs are linear."""
        return (
            self._longest_step(u.q, law_of(p, None))
            if self.depth_ref is None and min(p.K, p.K_t) > 0
            else float("inf")
        )

    def _longest_step(self, q: Any, law: SoftLaw) -> float:
        if self.depth_ref is not None:
            raise ValueError(
                "the longest step is known for linear springs, not where depth_ref makes them "
                "stiffer with depth"
            )
        q, rows = finite(q, (self.model.nq,), "q"), []
        motions = pair_motions(self.model, q, np.zeros(self.model.nv), self._points)
        for motion, some in zip(motions, self._points, strict=True):
            i, j = some.pair.touching, some.pair.touched
            for own, other in zip(some.position, motion.p, strict=True):
                J = point_jacobian(self.model, q, i, own)
                rows.append(J - point_jacobian(self.model, q, j, other) if j >= 0 else J)
        return stable_hold(self.model, q, np.vstack(rows), law)

    def _contacts(self, x: Record, u: Record) -> list[tuple[PairMotion, Contact, Array, Array]]:
        """Of each pair its motion, where it touches, the velocities (n, 3) of what touches, and the
        surface's x (n, 3).
        """
        motions, found, k = pair_motions(self.model, u.q, u.qd, self._points), [], 0
        for motion, some in zip(motions, self._points, strict=True):
            touching = contact(some.pair.surface, motion.p, some.reach)
            v = motion.v + np.array([cross(motion.w, r) for r in touching.point - motion.p])
            found.append((motion, touching, v, x.x[k : k + len(v)]))
            k += len(v)
        return found
