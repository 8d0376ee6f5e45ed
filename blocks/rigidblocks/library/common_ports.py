"""The ports and units that all blocks of a model share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port, finite
from rigidblocks.joint import Joint
from rigidblocks.model.configuration import neutral, normalized, singular_joints
from rigidblocks.model.tree import Tree

Units = tuple[str, ...]


class JointUnits(NamedTuple):
    """The units of the variables of some joints, one for each."""

    q: Units
    qd: Units
    qdd: Units
    tau: Units


def joint_units(joints: Sequence[Joint]) -> JointUnits:
    """The units of the variables of these joints, in order."""
    qd = tuple(unit for joint in joints for unit in joint.qd_units)
    return JointUnits(
        tuple(unit for joint in joints for unit in joint.q_units),
        qd,
        tuple(f"{unit}2" for unit in qd),
        tuple(unit for joint in joints for unit in joint.tau_units),
    )


def joint_ports(model: Tree, **docs: str) -> tuple[Port, ...]:
    """A port for each of the variables q, qd, qdd and tau that has a text; raises TypeError for
    what is no model.
    """
    check_model(model)
    units = joint_units(model.joint)._asdict()
    return tuple(Port(name, (len(units[name]),), units[name], doc) for name, doc in docs.items())


def start_configuration(model: Tree, q0: Any) -> Array:
    """q0 (nq,) with unit quaternions, or the neutral configuration; raises ValueError for what is
    no configuration, and where a joint's coordinates are singular.
    """
    q0 = neutral(model) if q0 is None else q0
    start = normalized(model, finite(q0, (model.nq,), "the start value of port 'q'"))
    if singular := "; ".join(singular_joints(model, start)):
        raise ValueError(f"no motion starts at q0: {singular}")
    return start


def check_open(model: Tree, block: str) -> None:
    """Raises ValueError for a model with loops, in the block of this type, which knows nothing of
    them; and for one that depends on time, in any but RobotPlant. Raises TypeError for what is no
    model.
    """
    check_model(model)
    if model.rheonomic and block != "RobotPlant":
        raise ValueError(
            f"model '{model.name}' depends on time, which {block} knows nothing of; use RobotPlant"
        )
    if model.constrained:
        raise ValueError(
            f"model '{model.name}' has the loop joints {', '.join(model.loop_names)}, which "
            f"{block} leaves open; "
            "use ClosedLoopPlant, or model.spanning_tree to leave them open"
        )


def check_model(model: Any) -> None:
    """Raises TypeError for what is no model, such as the path of its file."""
    if isinstance(model, Tree):
        return
    mend = ""
    if isinstance(model, str | Path):
        mend = f"; that of a file is load_model('{model}').model"
    elif isinstance(getattr(model, "model", None), Tree):
        mend = "; its .model is one"
    raise TypeError(f"the model of a block is a Model, not of type {type(model).__name__}{mend}")


def gravity_port(model: Tree) -> Port:
    """The parameter gravity, (3,), or (2,) of a planar model."""
    return Port(
        "gravity",
        model.gravity.shape,
        "m/s2",
        "acceleration of gravity, base coordinates",
        model.gravity,
    )


def wrench_port(model: Tree, start: Any = 0.0) -> Port:
    """f_ext, (nb, 6), or (nb, 3) of a planar model: as an input zero unless it is connected."""
    size = len(model.algebra.zero())
    units = {6: ("N.m",) * 3 + ("N",) * 3, 3: ("N.m", "N", "N")}[size] * model.nb
    text = "wrench [n; f] on each body, base coordinates"
    return Port("f_ext", (model.nb, size), units, text, start)


def scaled(ports: Iterable[Port], nominal: Mapping[str, Any]) -> tuple[Port, ...]:
    """The ports, with the `nominal` values of those that are named there."""
    return tuple(
        replace(port, nominal=nominal[port.name]) if port.name in nominal else port
        for port in ports
    )


def force_port(joints: Sequence[Joint], name: str = "tau", doc: str = "joint forces") -> Port:
    """The forces of these joints, an input that is zero unless it is connected."""
    units = joint_units(joints).tau
    return Port(name, (len(units),), units, doc, 0.0)


def motion_states(joints: Sequence[Joint], q0: Any, qd0: Any) -> tuple[Port, ...]:
    """The states q and qd of these joints, with their start values."""
    units = joint_units(joints)
    # the elements of unit quaternions are bounded
    bound = np.array([1.0 if unit == "1" else np.inf for unit in units.q])
    q = Port("q", bound.shape, units.q, "joint positions", q0, "qd", min=-bound, max=bound)
    return q, Port("qd", (len(units.qd),), units.qd, "joint velocities", qd0)


def acceleration_port(joints: Sequence[Joint]) -> Port:
    """The output qdd of these joints."""
    units = joint_units(joints).qdd
    return Port("qdd", (len(units),), units, "joint accelerations")


def energy_port() -> Port:
    """The output energy."""
    return Port("energy", (), "J", "kinetic and potential energy")


def closure_force_port(model: Tree, start: Any = None) -> Port:
    """lam (nc,), the constraint forces of the loop joints."""
    text = "constraint forces of the loop joints"
    return Port("lam", (model.nc,), constraint_units(model), text, start)


def constraint_units(model: Tree) -> Units:
    """The units of the constraint forces of the loop joints: N.m of a constraint of rotation alone,
    N of the others.
    """
    units: list[str] = []
    for loop in model.loops:
        joint, size = loop.joint.at(0.0), len(model.algebra.zero())
        T = joint.constraint(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).XJ, np.zeros(size)).T
        units += [
            "N" if np.any(column[size // 2 if size > 3 else 1 :]) else "N.m" for column in T.T
        ]
    return (*units, *("N" for _ in model.strings))
