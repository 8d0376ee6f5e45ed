"""Frames of a robot: kinematics, and wrenches on its bodies and in its joints."""

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
    """Named frame fixed to a body, which is given by name or index.

    `placement` transforms body coordinates to frame coordinates. For example, `Frame("tool",
    "body2", xlt([1.0, 0.0, 0.0]))` is parallel to body2 with its origin 1 m along the x axis of
    body2.
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
        """Return the body index of the frame in a model; raise ValueError for an unknown body."""
        if self.body in model.body_names:
            return model.body_names.index(str(self.body))
        if isinstance(self.body, int) and 0 <= self.body < model.nb:
            return self.body
        raise ValueError(
            f"unknown body {self.body!r} of frame '{self.name}' in model '{model.name}'; expected "
            f"one of {', '.join(model.body_names)}, or an index from 0 to {model.nb - 1}"
        )


def check_frames(subject: str, model: Model, frames: Sequence[Frame]) -> None:
    """Check that the frames have unique names and are on bodies of the model.

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
    """Pose and velocity of frames of a robot, in base coordinates.

    For a frame named `tool`, the outputs are:

    - `p_tool` (3,), the position of its origin [m];
    - `R_tool` (3, 3), its rotation matrix, whose columns are its axes;
    - `v_tool` (3,), the velocity of its origin [m/s];
    - `w_tool` (3,), its angular velocity [rad/s].

    `accelerations` adds the input qdd and two outputs. `a_tool` (3,) is the acceleration of the
    origin [m/s^2], the second time derivative of p_tool; it does not include gravity. `alpha_tool`
    (3,) is the angular acceleration [rad/s^2].
    """

    model: Model
    frames: tuple[Frame, ...]
    accelerations: bool = False

    def __post_init__(self) -> None:
        check_frames("frame kinematics", self.model, self.frames)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: q (nq,), qd (nv,); if `accelerations` is set, also qdd (nv,)."""
        docs = {"q": "joint positions", "qd": "joint velocities", "qdd": "joint accelerations"}
        names = ("q", "qd", "qdd") if self.accelerations else ("q", "qd")
        return joint_ports(self.model, **{name: docs[name] for name in names})

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs p_<name> (3,), R_<name> (3, 3), v_<name> (3,) and w_<name> (3,) for each frame.

        If `accelerations` is set, also a_<name> and alpha_<name> (3,).
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
    """Wrenches [n; f] that the joints and the base of a robot transmit.

        f_i = I_i a_i + v_i x* I_i v_i - f_ext_i + sum of f_j of the children j   (RBDA Table 5.1)

    I_i is the inertia of body i, v_i its velocity, and a_i its acceleration minus gravity.
    These wrenches are the bearing loads; a force-torque sensor in each joint would measure them.
    The output `f` (nb, 6) is the wrench from the parent on each body in body coordinates. `f_base`
    (6,) is the wrench from the base on the robot in base coordinates. For a planar model each
    wrench has three components [n; fx; fy]. S^T f_i, with the motion subspace S, is the force at
    joint i. The input `f_ext`, the external wrenches on the bodies, is zero if not connected.
    """

    model: Tree

    def __post_init__(self) -> None:
        check_open(self.model, "JointWrenches")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: motion q (nq,), qd (nv,), qdd (nv,), and external wrenches f_ext (nb, 6)."""
        texts = {"q": "joint positions", "qd": "joint velocities", "qdd": "joint accelerations"}
        return (*joint_ports(self.model, **texts), wrench_port(self.model))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: wrenches f (nb, 6) of the joints, and wrench f_base (6,) of the base."""
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
        """Parameter gravity."""
        return (gravity_port(self.model),)

    def output(self, u: Record, p: Record) -> Values:
        f, f_base = joint_wrenches(self.model, u.q, u.qd, u.qdd, u.f_ext, p.gravity)
        return {"f": f, "f_base": f_base}


@dataclass(frozen=True, eq=False)
class FrameWrenches(Block):
    """Wrenches [n; f] at named frames, as the input `f_ext` (nb, 6) of a plant.

    For a frame named `tool`, the input is `wrench_tool` (6,): the moment about the frame origin and
    the force, in frame coordinates. It is zero if not connected. `f_ext` is about the base origin
    in base coordinates.
    """

    model: Model
    frames: tuple[Frame, ...]

    def __post_init__(self) -> None:
        check_frames("a block of frame wrenches", self.model, self.frames)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: q (nq,), and a wrench wrench_<name> (6,) for each frame."""
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
        """Output: body wrenches f_ext (nb, 6)."""
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
    """Sum of `n` arrays of body wrenches, such as the wrenches of two contacts and a tool force."""

    model: Tree
    n: int = 2

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a sum of wrenches needs one or more inputs, not n = {self.n}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: body wrenches f_ext1, f_ext2, ..., each (nb, 6); unconnected inputs are zero."""
        port = wrench_port(self.model)
        return tuple(
            Port(f"f_ext{k}", port.shape, port.units, port.doc, 0.0) for k in range(1, self.n + 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output: sum f_ext (nb, 6) of the body wrenches."""
        return (wrench_port(self.model, None),)

    def output(self, u: Record) -> Values:
        first, *rest = vars(u).values()
        total = first
        for f_ext in rest:
            total = total + f_ext
        return {"f_ext": total}
