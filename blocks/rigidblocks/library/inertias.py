"""Masses that can be tuned: those of the links, and a payload."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import RigidInertia
from rigidblocks.algebra.symmetric import symmetric
from rigidblocks.block.block import Port, Record
from rigidblocks.library.kinematics import Frame
from rigidblocks.model.model import Model

_ORDER = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # of the moments in a matrix


@dataclass(frozen=True, eq=False)
class TunableInertia:
    """Which inertias of a robot are parameters of its plant.

    With `links` the masses of the bodies, link_mass (nb,) [kg]: the moments of a body grow with its
    mass, unless they are parameters too: with `moments` the first moments m c, link_moment (nb, 3)
    [kg m], and the second ones, link_inertia (nb, 6) [kg m^2], xx, yy, zz, xy, xz, yz, of each body
    about the origin of its frame, in its coordinates. These are what the equation of motion is
    linear in, and `fit` finds from recorded motion.

    With a `payload` what is held in that frame: payload_mass [kg], payload_com (3,) [m] and
    payload_inertia (6,) [kg m^2], the moments about its centre of mass in the same order, all zero
    at the start, in the coordinates of the frame.
    """

    links: bool = False
    payload: Frame | None = None
    moments: bool = False

    def parameters(self, model: Model) -> tuple[Port, ...]:
        """The ports of the parameters; raises ValueError for a planar model."""
        if not isinstance(model, Model):
            raise ValueError(f"the inertias of '{model.name}' are planar; those in space are tuned")
        ports = []
        if self.links:
            masses = [body.m for body in model.inertia]
            ports.append(Port("link_mass", (model.nb,), "kg", "masses of the bodies", masses))
        if self.moments:
            h = [body.h for body in model.inertia]
            I = [[body.I[k] for k in _ORDER] for body in model.inertia]
            text = "of the bodies about the origins of their frames"
            ports.append(Port("link_moment", (model.nb, 3), "kg.m", f"first moments {text}", h))
            ports.append(
                Port("link_inertia", (model.nb, 6), "kg.m2", f"xx yy zz xy xz yz {text}", I)
            )
        if self.payload is not None:
            self.payload.body_of(model)
            text = f"in the frame {self.payload.name}"
            ports += [
                Port("payload_mass", (), "kg", f"payload {text}", 0.0, min=0.0),
                Port("payload_com", (3,), "m", f"its centre of mass, {text}", 0.0),
                Port("payload_inertia", (6,), "kg.m2", f"xx yy zz xy xz yz of it, {text}", 0.0),
            ]
        return tuple(ports)

    def tuned(self, model: Model, p: Record) -> Model:
        """The model with the inertias that the parameters say, floats or traced, not checked."""
        inertia = list(model.inertia)
        if self.moments:
            masses = p.link_mass if self.links else [body.m for body in inertia]
            given = zip(masses, p.link_moment, p.link_inertia, strict=True)
            inertia = [RigidInertia(m, h, symmetric(_matrix(I))) for m, h, I in given]
        elif self.links:
            inertia = [_scaled(body, m) for body, m in zip(inertia, p.link_mass, strict=True)]
        if self.payload is not None:
            body = self.payload.body_of(model)
            inertia[body] = inertia[body] + _payload(p).to_parent(self.payload.placement)
        other = object.__new__(type(model))
        vars(other).update({**vars(model), "inertia": tuple(inertia)})
        return other


def _matrix(moments: Any) -> Any:
    """The symmetric matrix of the moments xx, yy, zz, xy, xz, yz."""
    xx, yy, zz, xy, xz, yz = moments
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _scaled(body: RigidInertia, m: Any) -> RigidInertia:
    """The body with another mass; one without any keeps what it has."""
    if not body.m:
        return body
    factor = m / body.m
    return RigidInertia(m, body.h * factor, body.I * factor)


def _payload(p: Record) -> RigidInertia:
    """The inertia of the payload in its frame."""
    m, c = p.payload_mass, p.payload_com
    I_C = _matrix(p.payload_inertia)
    square = reduce(lambda a, b: a + b, c * c)
    I = I_C + m * (square * np.eye(3) - np.outer(c, c))
    return RigidInertia(m, m * c, symmetric(I))
