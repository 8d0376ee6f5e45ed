"""A robot plant that touches soft ground, with the contact inside its own step."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values, call
from rigidblocks.contact.points import BodyPoints, body_points, point_motion
from rigidblocks.dynamics.elements import Compliance
from rigidblocks.dynamics.jacobian import point_jacobian
from rigidblocks.library.ground_contact import GroundContact
from rigidblocks.library.plant import Plant
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Surface, contact


@dataclass(frozen=True, eq=False)
class ContactPlant(Block):
    """The forward dynamics of a robot on soft ground: joint forces in, motion and ground forces
    out.

        H(q) qdd + C(q, qd) = tau + sum J_i^T f_i      f_i by the law of `GroundContact` (RBDA 11.8)

    `robot` is a `RobotPlant`, `FloatingBasePlant` or `ClosedLoopPlant`, which gets the continuous
    form of a `GroundContact` with these numbers inside. The forces are those of every stage of the
    integrator: nothing is held, so that there is no limit of stability but the integrator's. Take
    "adaptive or stiff": its steps end where a contact opens or closes, so that no bounce gains
    energy at any stiffness, and no K_t / D_t of the patches is too fast for it; "adaptive" will do
    where the contact is not stiff. An explicit method of fixed steps needs them below some 2.5
    sqrt(m_eff / K), 2.5 m_eff / D and 2.5 D_t / K_t, of which `simulate` warns, and makes or takes
    some energy at each bounce; a linearly implicit one of fixed steps takes or makes a lot. The
    contact points are those of the model's field `contact`.

    Raises TypeError for another block as the robot.
    """

    robot: Plant
    K: float
    D: float
    mu: float = 0.0
    ground: Surface = field(default_factory=Plane)
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.robot, Plant):
            raise TypeError(
                "the robot of a contact plant is a RobotPlant, FloatingBasePlant or "
                f"ClosedLoopPlant, not {self.robot!r}"
            )
        if not isinstance(self.robot.model, Model):
            raise TypeError(
                f"contact is between spatial bodies; model '{self.robot.model.name}' is a planar "
                "one"
            )

    @cached_property
    def _robot(self) -> Block:
        return self.robot.with_wrenches()

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
        """Those of the robot, and x (n, 3): how far the ground is displaced along itself under each
        contact point.
        """
        return (*self._robot.states, *self._contact.states)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Those of the robot; and of the n contact points force (n, 3), depth (n,) and in_contact
        (n,).
        """
        return (
            *self._robot.outputs,
            *(port for port in self._contact.outputs if port.name != "f_ext"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity, and K, D, mu, K_t and D_t."""
        return (*self._robot.parameters, *self._contact.parameters)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        touching = self._motion_of_points(x)
        f_ext = self._contact.output(x=x, u=touching, p=p)["f_ext"]
        robot = call(self._robot, "derivative", t, x, _with_wrenches(u, f_ext), p)
        return {**robot, **self._contact.derivative(x=x, u=touching, p=p)}

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return call(self._robot, "project", t, x, u, p)

    def margins(self, x: Record, p: Record) -> Array:
        """Those of the robot, and by how much the ground pushes at each point (n,) [m]."""
        ground = self._contact.margins(u=self._motion_of_points(x), p=p)
        return np.concatenate([self.robot.margins(x, p), ground])

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        ground = dict(self._contact.output(x=x, u=self._motion_of_points(x), p=p))
        robot = call(self._robot, "output", t, x, _with_wrenches(u, ground.pop("f_ext")), p)
        return {**robot, **ground}

    def modes(self, x: Record, p: Record) -> Array:
        """Those of the robot with all points in contact and sticking, and of the patches."""
        model, points = self._moving
        q = self.robot.configuration(x)[0]
        at = contact(
            self.ground, point_motion(model, q, np.zeros(model.nv), points)[0], points.reach
        )
        rows, sizes = [], []
        for body, r, n in zip(points.body, points.position, at.normal, strict=True):
            J = point_jacobian(model, q, body, r)
            rows += [(n @ J)[None, :], J - np.outer(n, n @ J)]
            sizes += [(p.K, p.D)] + 3 * [(p.K_t, p.D_t) if p.mu else (0.0, 0.0)]
        touching = Compliance(np.vstack(rows), *np.array(sizes).T)
        patches = [-p.K_t / p.D_t] if p.mu else []
        return np.concatenate([self.robot.modes_with(x, p, touching), patches])

    def _motion_of_points(self, x: Record) -> Record:
        """What the ground sees of the robot: p, v and w (n, 3) of its points."""
        model, points = self._moving
        motion = point_motion(model, *self.robot.configuration(x), points)
        return Record(dict(zip("pvw", motion, strict=True)))

    @cached_property
    def _moving(self) -> tuple[Model, BodyPoints]:
        model = self.robot.configuration_model
        assert isinstance(model, Model)
        return model, body_points(model)


def _with_wrenches(u: Record, f_ext: Any) -> Record:
    """The inputs with f_ext on top of what is there."""
    given = vars(u)
    return Record({**given, "f_ext": given["f_ext"] + f_ext if "f_ext" in given else f_ext})
