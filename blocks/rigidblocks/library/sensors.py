"""Sensors: what is measured of a robot's motion."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics.kinematics import body_velocities, specific_force
from rigidblocks.library.kinematics import Frame
from rigidblocks.library.ports import gravity_port, joint_ports
from rigidblocks.model.model import Model


@dataclass(frozen=True, eq=False)
class Encoder(Block):
    """An incremental encoder for each joint: sampled positions in whole steps, and their
    differences as velocities.

        q_meas = resolution floor(q / resolution + 1/2)
        qd_meas = (q_meas - the one before) / sample_time

    Both are held between the samples, which come every `sample_time` [s]; the error of q_meas is at
    most half a step. The velocity is zero at the first sample and comes in steps of resolution /
    sample_time. `resolution` (n,) [rad, or m for the joints that `prismatic` marks] fixes the
    number of joints.
    """

    resolution: Any
    sample_time: float
    prismatic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if np.ndim(self.resolution) != 1 or np.size(self.resolution) == 0:
            raise ValueError(
                f"an encoder needs one resolution a joint, not shape {np.shape(self.resolution)}"
            )

    @property
    def _n(self) -> int:
        return len(self.resolution)

    @cached_property
    def _units(self) -> tuple[str, ...]:
        return tuple("m" if slides else "rad" for slides in self.prismatic or (False,) * self._n)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (n,)."""
        return (Port("q", (self._n,), self._units, "joint positions"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q_meas (n,) and qd_meas (n,)."""
        return (
            Port("q_meas", (self._n,), self._units, "measured positions", 0.0),
            Port(
                "qd_meas",
                (self._n,),
                tuple(f"{unit}/s" for unit in self._units),
                "velocities by difference",
                0.0,
            ),
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """q_meas and qd_meas, and whether there has been a sample."""
        return (*self.outputs, Port("primed", (), "1", "1 once there is a last sample", 0.0))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """resolution (n,)."""
        return (
            Port(
                "resolution",
                (self._n,),
                self._units,
                "size of a step",
                self.resolution,
                positive=True,
            ),
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        q = p.resolution * np.floor(u.q / p.resolution + 0.5)
        return {
            "q_meas": q,
            "qd_meas": select(x.primed, (q - x.q_meas) / self.sample_time, 0.0),
            "primed": 1.0,
        }


@dataclass(frozen=True, eq=False)
class IMU(Block):
    """A gyroscope and an accelerometer on a body of a robot, at the origin and along the axes of
    `frame`.

        gyro = w,  accelerometer = a' - a_g        both in the frame's coordinates

    a' is the classical acceleration of the frame's origin, dv/dt of a point, which is not the
    linear part of the spatial acceleration: a' = a + w x v (RBDA Eq 2.50). At rest the
    accelerometer reads the acceleration of gravity, upward.
    """

    model: Model
    frame: Frame

    def __post_init__(self) -> None:
        self.frame.body_of(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,), qd (nv,) and qdd (nv,)."""
        return joint_ports(
            self.model, q="joint positions", qd="joint velocities", qdd="joint accelerations"
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """gyro (3,) and accelerometer (3,)."""
        return (
            Port("gyro", (3,), "rad/s", f"angular velocity, coordinates of {self.frame.name}"),
            Port(
                "accelerometer",
                (3,),
                "m/s2",
                f"acceleration less gravity, coordinates of {self.frame.name}",
            ),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (gravity_port(self.model),)

    def output(self, u: Record, p: Record) -> Values:
        body, E, r = self.frame.body_of(self.model), self.frame.placement.E, self.frame.placement.r
        w = body_velocities(self.model, u.q, u.qd)[body][:3]
        f = specific_force(self.model, u.q, u.qd, u.qdd, body, r, p.gravity)
        return {"gyro": E @ w, "accelerometer": E @ f}
