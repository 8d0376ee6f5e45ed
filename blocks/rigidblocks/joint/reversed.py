"""The polarity of a joint (RBDA 4.4, Table 4.2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.joint.interface import DerivedJoint, Joint, JointMotion


@dataclass(frozen=True)
class Reversed(DerivedJoint):
    """`joint` the other way round: its predecessor frame is on the child, its successor frame on
    the parent.

    The variables are those of `joint`, and so are their units (RBDA Table 4.2).
    """

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        XJ, S, vJ, cJ = self.joint.jcalc(q, qd)
        back = XJ.inverse()
        return JointMotion(back, -(back @ S), -(back @ vJ), -(back @ cJ))

    def at(self, t: Any) -> Joint:
        joint = self.joint.at(t)
        return self if joint is self.joint else Reversed(joint)

    def bias_velocity(self, X: Transform) -> Array:
        sigma: Array = -(X @ self.joint.bias_velocity(X.inverse()))
        return sigma

    def nearest(self, X: Transform) -> Array:
        return self.joint.nearest(X.inverse())

    def closest(self, X: Transform) -> Transform:
        return self.joint.closest(X.inverse()).inverse()

    def velocity(self, q: Array, vJ: Array) -> Array:
        XJ = self.joint.jcalc(q, np.zeros(self.nv)).XJ
        return self.joint.velocity(q, -(XJ @ vJ))

    def constraint_forces(self, q: Array) -> Array:
        XJ = self.joint.jcalc(q, np.zeros(self.nv)).XJ
        return XJ.T @ self.joint.constraint_forces(q)

    def aligned(self) -> tuple[Joint, Array]:
        joint, E = self.joint.aligned()
        return Reversed(joint), E
