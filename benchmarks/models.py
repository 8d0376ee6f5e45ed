"""Benchmark models, conversions to the other libraries, and comparison of results."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import mujoco
import numpy as np
import pinocchio

from rigidblocks import Model, auto_tree, planar2


def models() -> dict[str, Model]:
    """Return a planar robot, and chains of revolute joints with skew axes."""
    return {
        "planar2": planar2(),
        "7 joints": auto_tree(7, skew=0.7),
        "30 joints": auto_tree(30, skew=0.7),
    }


def chains() -> dict[str, Model]:
    """Return chains of revolute joints with skew axes, and a body with four legs."""
    legs = (-1, *(p for leg in range(4) for p in (0, *range(4 * leg + 1, 4 * leg + 4))))
    tree = auto_tree(len(legs), skew=0.7)
    return {
        **{f"{n} joints": auto_tree(n, skew=0.7) for n in (7, 18, 30, 38)},
        "4 legs, 17": replace(tree, parent=legs),
    }


def check_equal(what: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-12) -> None:
    """Check that two results agree to `tolerance`, relative to the largest element.

    The benchmarks compare results before they measure times, so they never time a wrong result.

    Raises:
        RuntimeError: If the results differ.
    """
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    difference, largest = np.abs(ours - theirs).max(), np.abs(theirs).max()
    if not difference <= tolerance * largest:
        raise RuntimeError(f"{what}: two answers of {largest:.1e} differ by {difference:.1e}")


def in_pinocchio(model: Model) -> pinocchio.Model:
    """Return a tree of revolute joints as a Pinocchio model."""
    other = pinocchio.Model()
    other.gravity.linear = model.gravity
    joints: list[int] = []
    for i, p in enumerate(model.parent):
        X, body = model.Xtree[i], model.inertia[i]
        placement = pinocchio.SE3(X.E.T, np.asarray(X.r, dtype=float))
        joints.append(
            other.addJoint(
                joints[p] if p >= 0 else 0, pinocchio.JointModelRZ(), placement, f"joint{i}"
            )
        )
        c = body.h / body.m
        I_C = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
        other.appendBodyToJoint(
            joints[i], pinocchio.Inertia(float(body.m), c, I_C), pinocchio.SE3.Identity()
        )
    return other


def in_urdf(model: Model) -> str:
    """Return a tree of revolute joints as URDF."""
    held = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'  # required by some readers
    lines = [
        f'<robot name="{model.name}">',
        f'<link name="base"><inertial><origin xyz="0 0 0" rpy="0 0 0"/><mass value="1"/>{held}'
        "</inertial></link>",
    ]
    for i, p in enumerate(model.parent):
        X, body = model.Xtree[i], model.inertia[i]
        R = X.E.T  # R = R_z(yaw) R_y(pitch) R_x(roll)
        roll, pitch = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(-R[2, 0], np.hypot(*R[:2, 0]))
        yaw = np.arctan2(R[1, 0], R[0, 0])
        c = body.h / body.m
        I = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
        parts = ["xx", "xy", "xz", "yy", "yz", "zz"]
        inertia = " ".join(
            f'i{name}="{value!r}"'
            for name, value in zip(parts, map(float, I[np.triu_indices(3)]), strict=True)
        )
        parent = f"link{p}" if p >= 0 else "base"
        lines += [
            f'<link name="link{i}"><inertial><origin xyz="{_text(c)}" rpy="0 0 0"/>',
            f'<mass value="{float(body.m)!r}"/><inertia {inertia}/></inertial></link>',
            f'<joint name="joint{i}" type="revolute"><parent link="{parent}"/>',
            f'<child link="link{i}"/><axis xyz="0 0 1"/>',
            f'<origin xyz="{_text(X.r)}" rpy="{_text((roll, pitch, yaw))}"/>',
            '<limit lower="-1e9" upper="1e9" effort="1e9" velocity="1e9"/></joint>',
        ]
    return "\n".join([*lines, "</robot>\n"])


def _text(numbers: Iterable[float]) -> str:
    return " ".join(repr(float(x)) for x in numbers)


def in_mujoco(model: Model) -> mujoco.MjModel:
    """Return a tree of revolute joints as a MuJoCo model."""
    spec, bodies = mujoco.MjSpec(), []
    spec.option.gravity = model.gravity
    for i, p in enumerate(model.parent):
        X, inertia = model.Xtree[i], model.inertia[i]
        body = (bodies[p] if p >= 0 else spec.worldbody).add_body()
        body.pos = np.asarray(X.r, dtype=float)
        mujoco.mju_mat2Quat(body.quat, np.ascontiguousarray(X.E.T, dtype=float).ravel())
        c = inertia.h / inertia.m
        I = inertia.I - inertia.m * (c @ c * np.eye(3) - np.outer(c, c))
        body.mass, body.ipos, body.explicitinertial = float(inertia.m), c, True
        body.fullinertia = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
        body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1])
        bodies.append(body)
    return spec.compile()


def in_drake(
    model: Model, q: np.ndarray, qd: np.ndarray, w: np.ndarray
) -> dict[str, Callable[[], np.ndarray]]:
    """Return calls of Drake's algorithms for the same tree."""
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import MultibodyForces

    plant = MultibodyPlant(0.0)
    Parser(plant).AddModelsFromString(in_urdf(model), "urdf")
    plant.WeldFrames(plant.world_frame(), plant.GetFrameByName("base"))
    plant.mutable_gravity_field().set_gravity_vector(model.gravity)
    plant.Finalize()
    context, forces, n = plant.CreateDefaultContext(), MultibodyForces(plant), model.nv
    plant.get_applied_generalized_force_input_port().FixValue(context, w)
    rates, state = plant.AllocateTimeDerivatives(), np.concatenate([q, qd])

    def rnea() -> np.ndarray:
        plant.SetPositionsAndVelocities(context, state)
        plant.CalcForceElementsContribution(context, forces)
        return plant.CalcInverseDynamics(context, w, forces)

    def crba() -> np.ndarray:
        plant.SetPositions(context, q)
        return plant.CalcMassMatrix(context)

    def aba() -> np.ndarray:
        plant.SetPositionsAndVelocities(context, state)
        plant.CalcTimeDerivatives(context, rates)
        return rates.get_vector().CopyToVector()[n:]

    return {"rnea": rnea, "crba": crba, "aba": aba}
