"""Coordinates of robots from files in MuJoCo and Pinocchio."""

import numpy as np

from rigidblocks.robot.joints import Revolute, SixDoF
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import cross


def mujoco_joint(there, name):
    """Return the index of a joint in MuJoCo.

    The reader names the unnamed joint k `joint<k>`, or `joint<k>_2` if another joint has this name.
    """
    try:
        return there.joint(name).id
    except KeyError:
        return int(name.removeprefix("joint").partition("_")[0])


def mujoco_velocity_order(model, there):
    """Return the indices (nv,) of the velocity variables of `model` in MuJoCo."""
    return np.concatenate(
        [
            there.jnt_dofadr[mujoco_joint(there, name)] + np.arange(joint.nv)
            for name, joint in zip(model.joint_names, model.joint, strict=True)
        ]
    )


def mujoco_state(model, there, q, qd):
    """Convert q and qd to MuJoCo's qpos and qvel."""
    qpos, qvel = there.qpos0.copy(), np.zeros(there.nv)
    for i, joint in enumerate(model.joint):
        j = mujoco_joint(there, model.joint_names[i])
        at, dof = there.jnt_qposadr[j], there.jnt_dofadr[j]
        mine, mine_d = q[model.q_slices[i]], qd[model.v_slices[i]]
        if isinstance(joint, SixDoF):
            E = quaternion_rotation(mine[:4])
            qpos[at : at + 7] = [*mine[4:], *mine[:4]]
            qvel[dof : dof + 6] = [*(E.T @ mine_d[3:]), *mine_d[:3]]
        elif joint.nq == 4:
            qpos[at : at + 4], qvel[dof : dof + 3] = mine, mine_d
        else:
            qpos[at] += mine[0]
            qvel[dof] = mine_d[0]
    return qpos, qvel


def acceleration_from_mujoco(model, there, q, qd, qacc):
    """Convert MuJoCo's qacc; accelerations of a free joint change to body coordinates."""
    ours = qacc[mujoco_velocity_order(model, there)]
    for joint, at, of in zip(model.joint, model.q_slices, model.v_slices, strict=True):
        if isinstance(joint, SixDoF):
            E, (w, v) = quaternion_rotation(q[at][:4]), qd[of].reshape(2, 3)
            linear, angular = ours[of].reshape(2, 3)
            ours[of] = [*angular, *(E @ linear - cross(w, v))]
    return ours


def pinocchio_state(ours, theirs, q):
    """Return Pinocchio's configuration and the indices (nv,) of our velocities in Pinocchio."""
    there, order = np.zeros(theirs.nq), np.zeros(ours.nv, dtype=int)
    for i, (name, joint) in enumerate(zip(ours.joint_names, ours.joint, strict=True)):
        k = theirs.getJointId(name)
        at, mine = theirs.idx_qs[k], q[ours.q_slices[i]]
        order[ours.v_slices[i]] = theirs.idx_vs[k] + np.arange(joint.nv)
        match joint:
            case SixDoF():
                there[at : at + 7] = [*mine[4:], *mine[1:4], mine[0]]
                order[ours.v_slices[i]] = theirs.idx_vs[k] + np.array([3, 4, 5, 0, 1, 2])
            case Revolute() if theirs.nqs[k] == 2:
                there[at : at + 2] = [np.cos(mine[0]), np.sin(mine[0])]
            case _:
                there[at : at + theirs.nqs[k]] = mine
    return there, order
