"""Ports and units for blocks of a robot model, and checks of models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Port, finite
from rigidblocks.robot.configuration import neutral, normalize_quaternions, singular_joints
from rigidblocks.robot.joints import Joint
from rigidblocks.robot.tree import Tree, check_model
from rigidblocks.spatial.spatial import Array

Units = tuple[str, ...]


class JointUnits(NamedTuple):
    """Units of the joint variables q, qd, qdd and tau, with one unit for each element."""

    q: Units
    qd: Units
    qdd: Units
    tau: Units


def joint_units(joints: Sequence[Joint]) -> JointUnits:
    """Return the units of the joint variables q, qd, qdd and tau, in the order of the joints."""
    qd = tuple(unit for joint in joints for unit in joint.qd_units)
    return JointUnits(
        tuple(unit for joint in joints for unit in joint.q_units),
        qd,
        tuple(f"{unit}2" for unit in qd),
        tuple(unit for joint in joints for unit in joint.tau_units),
    )


def joint_ports(model: Tree, **docs: str) -> tuple[Port, ...]:
    """Return ports for joint variables of a model.

    Args:
        model: Model of the robot.
        **docs: Description of each port; the keyword is the variable name q, qd, qdd or tau.

    Raises:
        TypeError: `model` is not a model.
    """
    check_model(model)
    units = joint_units(model.joint)._asdict()
    return tuple(Port(name, (len(units[name]),), units[name], doc) for name, doc in docs.items())


def start_configuration(model: Tree, q0: Any) -> Array:
    """Return the initial configuration q0 (nq,) with unit quaternions.

    If q0 is None, the result is the neutral configuration.

    Raises:
        ValueError: q0 is not a configuration, or the coordinates of a joint are singular at q0.
    """
    q0 = neutral(model) if q0 is None else q0
    start = normalize_quaternions(model, finite(q0, (model.nq,), "the start value of port 'q'"))
    if singular := "; ".join(singular_joints(model, start)):
        raise ValueError(f"the motion cannot start at q0: {singular}")
    return start


def check_open(model: Tree, block: str) -> None:
    """Check that a model has no loops and, except for RobotPlant, does not depend on time.

    `block` is the name of the block type.

    Raises:
        ValueError: The model has loops, or it depends on time and the block is not RobotPlant.
        TypeError: `model` is not a model.
    """
    check_model(model)
    if model.rheonomic and block != "RobotPlant":
        raise ValueError(
            f"model '{model.name}' depends on time, which {block} does not support; use RobotPlant"
        )
    if model.has_constraints:
        raise ValueError(
            f"model '{model.name}' has the loop joints {', '.join(model.loop_names)}, which "
            f"{block} does not close; "
            "use ClosedLoopPlant, or model.spanning_tree to leave them open"
        )


def gravity_port(model: Tree) -> Port:
    """Return the parameter port gravity (3,) [m/s^2]; (2,) for a planar model."""
    return Port(
        "gravity",
        model.gravity.shape,
        "m/s2",
        "acceleration of gravity, base coordinates",
        model.gravity,
    )


def wrench_port(model: Tree, start: Any = 0.0) -> Port:
    """Return the port f_ext (nb, 6) of the external wrenches; (nb, 3) for a planar model.

    `start` is the start value, or None for an output.
    """
    size = len(model.algebra.zero())
    units = {6: ("N.m",) * 3 + ("N",) * 3, 3: ("N.m", "N", "N")}[size] * model.nb
    text = "wrench [n; f] on each body, base coordinates"
    return Port("f_ext", (model.nb, size), units, text, start)


def set_nominal_values(ports: Iterable[Port], nominal: Mapping[str, Any]) -> tuple[Port, ...]:
    """Return copies of ports with the nominal values in `nominal`.

    `nominal` maps port names to nominal values. Other ports do not change.
    """
    return tuple(
        replace(port, nominal=nominal[port.name]) if port.name in nominal else port
        for port in ports
    )


def force_port(joints: Sequence[Joint], name: str = "tau", doc: str = "joint forces") -> Port:
    """Return the input port of joint forces; without a connection, the forces are zero."""
    units = joint_units(joints).tau
    return Port(name, (len(units),), units, doc, 0.0)


def motion_states(joints: Sequence[Joint], q0: Any, qd0: Any) -> tuple[Port, ...]:
    """Return the state ports of joint positions q and velocities qd with start values."""
    units = joint_units(joints)
    # the elements of unit quaternions are bounded
    bound = np.array([1.0 if unit == "1" else np.inf for unit in units.q])
    q = Port("q", bound.shape, units.q, "joint positions", q0, "qd", min=-bound, max=bound)
    return q, Port("qd", (len(units.qd),), units.qd, "joint velocities", qd0)


def acceleration_port(joints: Sequence[Joint]) -> Port:
    """Return the output port of the joint accelerations qdd."""
    units = joint_units(joints).qdd
    return Port("qdd", (len(units),), units, "joint accelerations")


def energy_port() -> Port:
    """Return the output port of the mechanical energy [J]."""
    return Port("energy", (), "J", "kinetic and potential energy")


def closure_force_port(model: Tree, start: Any = None) -> Port:
    """Return the port of the constraint forces lam (nc,) of the loop joints.

    `start` is the start value, or None for an output.
    """
    text = "constraint forces of the loop joints"
    return Port("lam", (model.nc,), constraint_units(model), text, start)


def constraint_units(model: Tree) -> Units:
    """Return the unit of each constraint force of the loop joints.

    The unit is N.m for a pure moment, and N for all other constraint forces.
    """
    units: list[str] = []
    for loop in model.loops:
        joint, size = loop.joint.evaluate_at(0.0), len(model.algebra.zero())
        T = joint.constraint(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).XJ, np.zeros(size)).T
        units += [
            "N" if np.any(column[size // 2 if size > 3 else 1 :]) else "N.m" for column in T.T
        ]
    return (*units, *("N" for _ in model.strings))
