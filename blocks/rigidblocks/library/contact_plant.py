"""A robot plant that touches soft ground, with the contact inside its own step."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values
from rigidblocks.contact.geometry import Plane, Surface
from rigidblocks.contact.points import BodyPoints, body_points, point_motion
from rigidblocks.dynamics import floating_body
from rigidblocks.joint import SixDoF
from rigidblocks.library.closed_loop_plant import ClosedLoopPlant
from rigidblocks.library.floating_plant import FloatingBasePlant
from rigidblocks.library.ground_contact import GroundContact
from rigidblocks.library.plant import RobotPlant
from rigidblocks.model import Model
from rigidblocks.spatial import identity


@dataclass(frozen=True, eq=False)
class ContactPlant(Block):
    """The forward dynamics of a robot on soft ground: joint forces in, motion and ground forces out.

        H(q) qdd + C(q, qd) = tau + sum J_i^T f_i        f_i by the law of `GroundContact` (RBDA 11.8)

    `robot` is a `RobotPlant`, `FloatingBasePlant` or `ClosedLoopPlant`, which gets the continuous form of a `GroundContact`
    with these numbers inside. The forces are those of every stage of the integrator: nothing is held, so that there is no
    limit of stability but the integrator's. An explicit one needs steps below some 2.5 sqrt(m_eff / K) and 2.5 m_eff / D,
    and below 2.5 D_t / K_t; where that is too small choose a linearly implicit one ("linearly implicit euler", "ros2"),
    which has the exact derivatives of the forces. The contact points are those of the model's field `contact`.

    Raises TypeError for another block as the robot.
    """

    robot: RobotPlant | FloatingBasePlant | ClosedLoopPlant
    K: float
    D: float
    mu: float = 0.0
    ground: Surface = field(default_factory=Plane)
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.robot, RobotPlant | FloatingBasePlant | ClosedLoopPlant):
            raise TypeError(
                f"the robot of a contact plant is a RobotPlant, FloatingBasePlant or ClosedLoopPlant, not {self.robot!r}"
            )
        if not isinstance(self.robot.model, Model):
            raise TypeError(f"contact is between spatial bodies; model '{self.robot.model.name}' is a planar one")
        _ = self._contact  # it checks what it is given

    @cached_property
    def _robot(self) -> Block:
        return replace(self.robot, external_wrenches=True)

    @cached_property
    def _contact(self) -> GroundContact:
        law = (self.K, self.D, self.mu, self.ground, self.K_t, self.D_t, self.depth_ref)
        assert isinstance(self.robot.model, Model)
        return GroundContact(self.robot.model, *law)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Those of the robot, f_ext only if it had it."""
        return self.robot.inputs

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Those of the robot, and x (n, 3): how far the ground is displaced along itself under each contact point."""
        return (*self._robot.states, *self._contact.states)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the robot; and of the n contact points force (n, 3), depth (n,) and in_contact (n,)."""
        return (*self._robot.outputs, *(port for port in self._contact.outputs if port.name != "f_ext"))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity, and K, D, mu, K_t and D_t."""
        return (*self._robot.parameters, *self._contact.parameters)

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        touching = self._motion_of_points(x)
        f_ext = self._contact.output(t, x, touching, p)["f_ext"]
        robot = self._robot.derivative(t, x, self._with_wrenches(u, f_ext), p)
        return {**robot, **self._contact.derivative(t, x, touching, p)}

    def project(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        return self._robot.project(t, x, u, p)

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        ground = dict(self._contact.output(t, x, self._motion_of_points(x), p))
        robot = self._robot.output(t, x, self._with_wrenches(u, ground.pop("f_ext")), p)
        return {**robot, **ground}

    def _with_wrenches(self, u: SimpleNamespace, f_ext: Any) -> SimpleNamespace:
        given = vars(u)
        return SimpleNamespace(**given | {"f_ext": given["f_ext"] + f_ext if "f_ext" in given else f_ext})

    def _motion_of_points(self, x: SimpleNamespace) -> SimpleNamespace:
        """What the ground sees of the robot: p, v and w (n, 3) of its points."""
        q, qd = x.q if hasattr(x, "q") else np.zeros(0), x.qd if hasattr(x, "qd") else np.zeros(0)
        if isinstance(self.robot, FloatingBasePlant):
            q, qd = np.concatenate([x.quaternion, x.position, q]), np.concatenate([x.velocity, qd])
        model, points = self._moving
        return SimpleNamespace(**dict(zip("pvw", point_motion(model, q, qd, points), strict=True)))

    @cached_property
    def _moving(self) -> tuple[Model, BodyPoints]:
        """The robot's model and its points, a floating base as the body of a joint of six freedoms."""
        model = self.robot.model
        assert isinstance(model, Model)
        points = body_points(model)
        if not isinstance(self.robot, FloatingBasePlant):
            return model, points
        base = floating_body(model)
        behind = slice(base + 1, None)
        rooted = Model(
            model.name,
            (-1, *(p - base for p in model.parent[behind])),
            (SixDoF(), *model.joint[behind]),
            (identity(), *model.Xtree[behind]),
            model.inertia[base:],
        )
        return rooted, replace(points, body=tuple(body - base for body in points.body))
