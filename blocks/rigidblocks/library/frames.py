"""Frames of a robot, and blocks for their kinematics and for wrenches on bodies and joints."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics.inverse import joint_wrenches
from rigidblocks.dynamics.kinematics import (
    body_accelerations,
    body_poses,
    body_velocities,
    classical_acceleration,
)
from rigidblocks.library.common_ports import check_open, gravity_port, joint_ports, wrench_port
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Transform, identity


@dataclass(frozen=True, eq=False)
class Frame:
    """Named frame that is fixed to a body of a robot.

    For example, `Frame("tool", "body2", xlt([1.0, 0.0, 0.0]))` is parallel to body2, and its origin
    is at (1, 0, 0) m in body2 coordinates.

    Attributes:
        name: Name.
        body: Name or index of the body.
        placement: Transform from body coordinates to frame coordinates.

    Raises:
        ValueError: The name is not an identifier, or the placement is not a rigid transform.
    """

    name: str
    body: str | int
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                "a frame name must consist of letters, digits and _ and must not begin with a "
                f"digit, not '{self.name}'"
            )
        E, r = np.asarray(self.placement.E, dtype=float), np.asarray(self.placement.r, dtype=float)
        if not (
            np.all(np.isfinite(r))
            and np.abs(E @ E.T - np.eye(3)).max() < 1e-9
            and np.linalg.det(E) > 0
        ):
            raise ValueError(
                f"the placement of frame '{self.name}' needs a rotation E and a finite position r: "
                f"E = {E.tolist()}, "
                f"r = {r.tolist()}"
            )

    def body_of(self, model: Model) -> int:
        """Return the index of the frame's body in a model; raise ValueError for an unknown body."""
        if self.body in model.body_names:
            return model.body_names.index(str(self.body))
        if isinstance(self.body, int) and 0 <= self.body < model.nb:
            return self.body
        raise ValueError(
            f"unknown body {self.body!r} of frame '{self.name}' in model '{model.name}'; expected "
            f"one of {', '.join(model.body_names)}, or an index from 0 to {model.nb - 1}"
        )


def check_frames(subject: str, model: Model, frames: Sequence[Frame]) -> None:
    """Check that frames have unique names and that their bodies exist in a model.

    Raises:
        ValueError: `frames` is empty, two frames have the same name, or a body does not exist. The
            message uses `subject` as the name of the block.
    """
    names = [frame.name for frame in frames]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{subject} needs one or more frames with unique names, not {names}")
    for frame in frames:
        frame.body_of(model)


@dataclass(frozen=True, eq=False)
class FrameKinematics(Block):
    """Kinematics of frames of a robot, with poses and velocities in base coordinates.

    For a frame named `tool`, the outputs are:

    - `p_tool` (3,), the position of the frame origin [m];
    - `R_tool` (3, 3), the rotation matrix, whose columns are the axes of the frame;
    - `v_tool` (3,), the velocity of the frame origin [m/s];
    - `w_tool` (3,), the angular velocity of the frame [rad/s].

    `accelerations` adds the input qdd and two outputs. `a_tool` (3,) is the second time derivative
    of p_tool [m/s^2], not the specific force that an accelerometer measures. `alpha_tool` (3,) is
    the angular acceleration of the frame [rad/s^2].
    """

    model: Model
    frames: tuple[Frame, ...]
    accelerations: bool = False

    def __post_init__(self) -> None:
        check_frames("frame kinematics", self.model, self.frames)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports q (nq,) and qd (nv,); if `accelerations` is True, also qdd (nv,)."""
        docs = {"q": "joint positions", "qd": "joint velocities", "qdd": "joint accelerations"}
        names = ("q", "qd", "qdd") if self.accelerations else ("q", "qd")
        return joint_ports(self.model, **{name: docs[name] for name in names})

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of the outputs p_<name>, R_<name>, v_<name> and w_<name> of each frame.

        If `accelerations` is True, the block also has the outputs a_<name> and alpha_<name>. The
        shape of R_<name> is (3, 3), and all other shapes are (3,).
        """
        return tuple(
            port
            for frame in self.frames
            for port in (
                *_frame_ports(frame.name),
                *(_acceleration_ports(frame.name) if self.accelerations else ()),
            )
        )

    def output(self, u: Record) -> Values:
        X0, v = body_poses(self.model, u.q), body_velocities(self.model, u.q, u.qd)
        values: dict[str, Any] = {}
        for frame in self.frames:
            i = frame.body_of(self.model)
            X, vF = frame.placement @ X0[i], frame.placement @ v[i]
            poses = {"p": X.r, "R": X.E.T, "v": X.E.T @ vF[3:], "w": X.E.T @ vF[:3]}
            values |= {f"{letter}_{frame.name}": value for letter, value in poses.items()}
        return {**values, **(self._accelerations(u, X0, v) if self.accelerations else {})}

    def _accelerations(self, u: Record, X0: Any, v: Any) -> Values:
        a = body_accelerations(self.model, u.q, u.qd, u.qdd)
        values: dict[str, Any] = {}
        for frame in self.frames:
            i = frame.body_of(self.model)
            E = frame.placement.E @ X0[i].E
            aF = classical_acceleration(frame.placement @ a[i], frame.placement @ v[i])
            values |= {f"a_{frame.name}": E.T @ aF[3:], f"alpha_{frame.name}": E.T @ aF[:3]}
        return values


def _frame_ports(name: str) -> tuple[Port, ...]:
    return (
        Port(f"p_{name}", (3,), "m", f"position of the origin of {name}, base coordinates"),
        Port(
            f"R_{name}",
            (3, 3),
            "1",
            f"rotation of {name}; its columns are the axes in base coordinates",
        ),
        Port(f"v_{name}", (3,), "m/s", f"velocity of the origin of {name}, base coordinates"),
        Port(f"w_{name}", (3,), "rad/s", f"angular velocity of {name}, base coordinates"),
    )


def _acceleration_ports(name: str) -> tuple[Port, ...]:
    text = "base coordinates, without gravity"
    return (
        Port(f"a_{name}", (3,), "m/s2", f"acceleration of the origin of {name}, {text}"),
        Port(f"alpha_{name}", (3,), "rad/s2", f"angular acceleration of {name}, base coordinates"),
    )


_WRENCH = ("N.m",) * 3 + ("N",) * 3


@dataclass(frozen=True, eq=False)
class JointWrenches(Block):
    """Wrenches [n; f] that the joints and the base of a robot transmit (bearing loads).

        f_i = I_i a_i + v_i x* I_i v_i - f_ext_i + sum of f_j of the children j   (RBDA Table 5.1)

    I_i is the inertia of body i, v_i is its velocity, and a_i is its acceleration minus gravity. A
    force-torque sensor in each joint would measure these wrenches. The output `f` (nb, 6) contains
    the wrench from the parent on each body, in body coordinates. The output `f_base` (6,) is the
    wrench from the base on the robot, in base coordinates. For a planar model, each wrench has
    three components [n; fx; fy].

    With the motion subspace S, S^T f_i is the force of joint i. The input `f_ext` contains the
    external wrenches on the bodies, which are zero if `f_ext` is not connected.
    """

    model: Tree

    def __post_init__(self) -> None:
        check_open(self.model, "JointWrenches")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for q (nq,), qd (nv,), qdd (nv,) and external wrenches f_ext (nb, 6)."""
        texts = {"q": "joint positions", "qd": "joint velocities", "qdd": "joint accelerations"}
        return (*joint_ports(self.model, **texts), wrench_port(self.model))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports f (nb, 6) for the joint wrenches and f_base (6,) for the base wrench."""
        on_bodies = wrench_port(self.model)
        size = on_bodies.shape[1]
        units = on_bodies.units
        text = "wrench [n; f] from the base on the robot, base coordinates"
        return (
            Port("f", on_bodies.shape, units, "wrench from the parent, body coordinates"),
            Port("f_base", (size,), units[:size], text),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter gravity (3,), or (2,) for a planar model."""
        return (gravity_port(self.model),)

    def output(self, u: Record, p: Record) -> Values:
        f, f_base = joint_wrenches(self.model, u.q, u.qd, u.qdd, u.f_ext, p.gravity)
        return {"f": f, "f_base": f_base}


@dataclass(frozen=True, eq=False)
class FrameWrenches(Block):
    """Conversion of wrenches at robot frames to the body wrenches `f_ext` of a plant.

    For a frame named `tool`, the input is `wrench_tool` (6,), which contains the moment about the
    frame origin and the force, in frame coordinates. An input that is not connected is zero. The
    output `f_ext` (nb, 6) contains wrenches [n; f] about the base origin, in base coordinates.
    """

    model: Model
    frames: tuple[Frame, ...]

    def __post_init__(self) -> None:
        check_frames("a block of frame wrenches", self.model, self.frames)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports q (nq,), and wrench_<name> (6,) for each frame."""
        return (
            *joint_ports(self.model, q="joint positions"),
            *(
                Port(
                    f"wrench_{frame.name}",
                    (6,),
                    _WRENCH,
                    f"wrench [n; f] at {frame.name}, its coordinates",
                    0.0,
                )
                for frame in self.frames
            ),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the body wrenches f_ext (nb, 6)."""
        return (wrench_port(self.model, None),)

    def output(self, u: Record) -> Values:
        X0 = body_poses(self.model, u.q)
        f_ext: list[Any] = [np.zeros(6)] * self.model.nb
        for frame in self.frames:
            i, wrench = frame.body_of(self.model), getattr(u, f"wrench_{frame.name}")
            f_ext[i] = f_ext[i] + X0[i].T @ (frame.placement.T @ wrench)
        return {"f_ext": np.array(f_ext)}


@dataclass(frozen=True, eq=False)
class WrenchSum(Block):
    """Sum of `n` arrays of body wrenches, for example of contacts and of a tool.

    Raises:
        ValueError: `n` is below 1.
    """

    model: Tree
    n: int = 2

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a sum of wrenches needs one or more inputs, not n = {self.n}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the body wrenches f_ext1, f_ext2, ..., each (nb, 6).

        Inputs that are not connected are zero.
        """
        port = wrench_port(self.model)
        return tuple(
            Port(f"f_ext{k}", port.shape, port.units, port.doc, 0.0) for k in range(1, self.n + 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the sum f_ext (nb, 6) of the body wrenches."""
        return (wrench_port(self.model, None),)

    def output(self, u: Record) -> Values:
        first, *rest = vars(u).values()
        total = first
        for f_ext in rest:
            total = total + f_ext
        return {"f_ext": total}
