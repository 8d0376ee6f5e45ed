"""Wrenches on the bodies of a robot, and those that its joints have to bear."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics.inverse import joint_wrenches
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.library.kinematics import Frame
from rigidblocks.library.ports import check_open, gravity_port, joint_ports, wrench_port
from rigidblocks.model.model import Model
from rigidblocks.model.tree import Tree

_WRENCH = ("N.m",) * 3 + ("N",) * 3


@dataclass(frozen=True, eq=False)
class JointWrenches(Block):
    """The wrenches [n; f] that the joints of a robot transmit, and the one of its base: what a
    force sensor in each joint would read, and what its bearings have to bear.

        f_i = I_i a_i + v_i x* I_i v_i - f_ext_i + sum of f_j of the children j   (RBDA Table 5.1)

    Outputs are `f` (nb, 6), the wrench from the parent on each body in the body's coordinates, and
    `f_base` (6,), from the base on the robot in base coordinates; of a planar model they have three
    components [n; fx; fy]. S^T f_i is the force at joint i. The wrenches on the bodies, `f_ext`,
    are zero unless they are connected.
    """

    model: Tree

    def __post_init__(self) -> None:
        check_open(self.model, "JointWrenches")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,), qd (nv,), qdd (nv,) and f_ext (nb, 6)."""
        texts = {"q": "joint positions", "qd": "joint velocities", "qdd": "joint accelerations"}
        return (*joint_ports(self.model, **texts), wrench_port(self.model))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """f (nb, 6) and f_base (6,)."""
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
        """gravity."""
        return (gravity_port(self.model),)

    def output(self, u: Record, p: Record) -> Values:
        f, f_base = joint_wrenches(self.model, u.q, u.qd, u.qdd, u.f_ext, p.gravity)
        return {"f": f, "f_base": f_base}


@dataclass(frozen=True, eq=False)
class FrameWrenches(Block):
    """Wrenches [n; f] that act at named frames, in the coordinates of each, as the `f_ext` (nb, 6)
    of a plant: about the base origin in base coordinates.

    For a frame named `tool` the input is `wrench_tool` (6,): its moment about the frame's origin
    and its force, along the frame's axes. It is zero unless it is connected.
    """

    model: Model
    frames: tuple[Frame, ...]

    def __post_init__(self) -> None:
        names = [frame.name for frame in self.frames]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"frame wrenches need at least one frame and each name once, not {names}"
            )
        for frame in self.frames:
            frame.body_of(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,), and wrench_<name> (6,) for each frame."""
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
        """f_ext (nb, 6)."""
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
    """The sum of `n` sets of wrenches on the bodies of a robot, such as two contacts and a force at
    the tool.
    """

    model: Tree
    n: int = 2

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a sum of wrenches needs one set at least, not {self.n}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """f_ext1, f_ext2, ..., each (nb, 6), zero unless it is connected."""
        port = wrench_port(self.model)
        return tuple(
            Port(f"f_ext{k}", port.shape, port.units, port.doc, 0.0) for k in range(1, self.n + 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """f_ext (nb, 6)."""
        return (wrench_port(self.model, None),)

    def output(self, u: Record) -> Values:
        first, *rest = vars(u).values()
        total = first
        for f_ext in rest:
            total = total + f_ext
        return {"f_ext": total}
