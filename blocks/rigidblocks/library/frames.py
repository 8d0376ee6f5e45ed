"""Where frames of a robot are and how they move."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Transform, identity
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics.kinematics import (
    body_accelerations,
    body_poses,
    body_velocities,
    classical_acceleration,
)
from rigidblocks.library.ports import joint_ports
from rigidblocks.model.model import Model


@dataclass(frozen=True, eq=False)
class Frame:
    """A named frame fixed to a body, given by name or number; `placement` takes the body's
    coordinates to the frame's.

    `Frame("tool", "body2", xlt([1.0, 0.0, 0.0]))` is parallel to body2 with its origin 1 m along
    its x axis.
    """

    name: str
    body: str | int
    placement: Transform = field(default_factory=identity)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                "a frame's name must be letters, digits and _, with no digit first, not "
                f"'{self.name}'"
            )
        E, r = np.asarray(self.placement.E, dtype=float), np.asarray(self.placement.r, dtype=float)
        if not (
            np.all(np.isfinite(r))
            and np.abs(E @ E.T - np.eye(3)).max() < 1e-9
            and np.linalg.det(E) > 0
        ):
            raise ValueError(
                f"the placement of frame '{self.name}' is no rotation E with a finite position r: "
                f"E = {E.tolist()}, "
                f"r = {r.tolist()}"
            )

    def body_of(self, model: Model) -> int:
        """The number of the body in the model; raises ValueError when there is none."""
        if self.body in model.body_names:
            return model.body_names.index(str(self.body))
        if isinstance(self.body, int) and 0 <= self.body < model.nb:
            return self.body
        raise ValueError(
            f"frame '{self.name}' is on body {self.body!r}, which model '{model.name}' does not "
            "have; it has: "
            f"{', '.join(model.body_names)}, or 0 to {model.nb - 1}"
        )


@dataclass(frozen=True, eq=False)
class FrameKinematics(Block):
    """The pose and velocity of frames of a robot, in base coordinates.

    For a frame named `tool` the outputs are `p_tool` (3,), the position of its origin [m]; `R_tool`
    (3, 3), its rotation, whose columns are its axes; `v_tool` (3,), the velocity of its origin
    [m/s]; and `w_tool` (3,), its angular velocity [rad/s]. With `accelerations` there is an input
    qdd, and the outputs `a_tool` (3,), the acceleration of its origin [m/s^2], the second
    derivative of p_tool without gravity, and `alpha_tool` (3,), its angular acceleration [rad/s^2].
    """

    model: Model
    frames: tuple[Frame, ...]
    accelerations: bool = False

    def __post_init__(self) -> None:
        names = [frame.name for frame in self.frames]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"frame kinematics needs at least one frame and each name once, not {names}"
            )
        for frame in self.frames:
            frame.body_of(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,), and for accelerations qdd (nv,)."""
        docs = {"q": "joint positions", "qd": "joint velocities", "qdd": "joint accelerations"}
        names = ("q", "qd", "qdd") if self.accelerations else ("q", "qd")
        return joint_ports(self.model, **{name: docs[name] for name in names})

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """p_<name> (3,), R_<name> (3, 3), v_<name> (3,) and w_<name> (3,) for each frame, and with
        accelerations a_<name> and alpha_<name> (3,).
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
        Port(f"R_{name}", (3, 3), "1", f"rotation of {name}, columns its axes in base coordinates"),
        Port(f"v_{name}", (3,), "m/s", f"velocity of the origin of {name}, base coordinates"),
        Port(f"w_{name}", (3,), "rad/s", f"angular velocity of {name}, base coordinates"),
    )


def _acceleration_ports(name: str) -> tuple[Port, ...]:
    text = "base coordinates, without gravity"
    return (
        Port(f"a_{name}", (3,), "m/s2", f"acceleration of the origin of {name}, {text}"),
        Port(f"alpha_{name}", (3,), "rad/s2", f"angular acceleration of {name}, base coordinates"),
    )
