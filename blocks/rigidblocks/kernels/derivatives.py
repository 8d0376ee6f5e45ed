"""Exact derivatives of forward and inverse dynamics, compiled."""

from typing import Literal, overload

import numpy as np

from rigidblocks.dynamics.equivalence import about_z, equivalent
from rigidblocks.joint.subspace import subspace_rate
from rigidblocks.kernels.body_sweeps import body_sweeps
from rigidblocks.kernels.loop_rows import loop_rows
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel
from rigidblocks.model.resistance import check_resistance
from rigidblocks.tracing.batch import CompiledBatch
from rigidblocks.tracing.function import CompiledFunction, compiled_form
from rigidblocks.tracing.notation import IN_LANES, SCALAR


@overload
def derivatives(model: Model | PlanarModel, algorithm: str) -> CompiledFunction: ...


@overload
def derivatives(
    model: Model | PlanarModel, algorithm: str, *, batch: Literal[True], lanes: int | None = None
) -> CompiledBatch: ...


def derivatives(
    model: Model | PlanarModel, algorithm: str, *, batch: bool = False, lanes: int | None = None
) -> CompiledFunction | CompiledBatch:
    """The compiled exact derivatives of forward dynamics, "aba", of inverse dynamics, "rnea", or
    of "closed_loop_dynamics".

    Of (q, qd, tau) the first gives qdd and dqdd_dq, dqdd_dqd and dqdd_dtau = H^-1; of (q, qd, qdd)
    the second gives tau and dtau_dq, dtau_dqd and dtau_dqdd = H: the value (nv,) and three matrices
    (nv, nv). The derivative by q is by the velocity variables that move it, q (+) dq at dq = 0, so
    with a quaternion in q too. There are no external wrenches.

    With loops (q, qd, tau) give the same of accelerations that keep them closed, without
    stabilization. Where constraints depend on others some are left out, and the derivatives are
    those along states that keep the loops closed, q and qd together; where none does, along all. In
    singular poses there are none, and the numbers are those of the constraints that are kept.

    It computes with the `equivalent` model, in loops over the bodies that compile in a second or
    two, whatever their number: passes make the columns of which the derivatives are made
    (Carpentier and Mansard 2018; Singh, Russell and Wensing 2022), then come products of them along
    the paths of the tree and the solution with H = L^T L (RBDA 6.5).

        dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = H^-1 (tau - C)

    Constraints are brought to orthonormal directions in coordinates in which the inertia is 1, at
    whose qdd and lam their changes are taken (c/algorithms/closed_loops.h).

    Of a planar model the passes and the products are those of `PlanarModel.in_space` without what
    is zero in the plane; of one with loops all of them.

    A `batch` is of arrays (n, nq), (n, nv) and (n, nv), in `lanes` and threads. Raises ValueError
    for another algorithm, for loops that there are not, and of forward dynamics for a joint that
    moves no inertia.
    """
    if algorithm not in ("aba", "rnea", "closed_loop_dynamics"):
        raise ValueError(
            f"derivatives are those of aba, rnea or closed_loop_dynamics, not of '{algorithm}'; "
            "others are made with jacobian()"
        )
    if algorithm != "rnea":
        check_resistance(model)
    notation = IN_LANES if batch else SCALAR
    spatial = _in_space(model)
    if algorithm == "closed_loop_dynamics":
        loopless = equivalent(about_z(spatial))
        rows = loop_rows(spatial, loopless, notation)
        return compiled_form(body_sweeps(loopless, "dclosed", notation, rows), batch, lanes)
    in_plane = spatial is not model
    tree: Model = spatial if in_plane else equivalent(about_z(spatial))
    function = body_sweeps(tree, f"d{algorithm}", notation, in_plane=in_plane)
    return compiled_form(function, batch, lanes)


@overload
def second_derivatives(model: Model | PlanarModel, algorithm: str = "rnea") -> CompiledFunction: ...


@overload
def second_derivatives(
    model: Model | PlanarModel,
    algorithm: str = "rnea",
    *,
    batch: Literal[True],
    lanes: int | None = None,
) -> CompiledBatch: ...


def second_derivatives(
    model: Model | PlanarModel,
    algorithm: str = "rnea",
    *,
    batch: bool = False,
    lanes: int | None = None,
) -> CompiledFunction | CompiledBatch:
    """The compiled exact first and second derivatives of inverse dynamics, "rnea", or of forward
    dynamics, "aba".

    Of (q, qd, qdd) the first gives what `derivatives` does, tau, dtau_dq, dtau_dqd and dtau_dqdd,
    and then four tensors (nv, nv, nv); element [i, j, k] is how a derivative of tau_i changes:

        ddtau_dq_dq    dtau_dq[i, j] by q_k          ddtau_dq_dqd    dtau_dq[i, j] by qd_k
        ddtau_dq_dqdd  dtau_dq[i, j] by qdd_k, which is dH_ik/dq_j
        ddtau_dqd_dqd  dtau_dqd[i, j] by qd_k        all others are zero

    Of (q, qd, tau) the second gives those of qdd, ddqdd_dq_dtau being dH^-1_ik/dq_j.

    A derivative by q is by the velocity variables that move it, q (+) dq at dq = 0, so the second
    one is how the first changes while variable k moves q. Variables of different joints may change
    places. Those of one joint may where their motions commute; of one that turns freely
    [i, j, k] - [i, k, j] of ddtau_dq_dq is the derivative of tau_i by q along S_k x S_j, and half
    their sum is the Hessian along motions with a constant velocity (exponential coordinates).

    Where `derivatives` has columns of the change of a force, it has what a variable makes of these,
    in passes over the bodies and products along the paths of the tree (Singh, Russell and Wensing
    2022): the time grows with the cube of the depth, and the text does not grow. Those of forward
    dynamics are made of them and take nv^4 operations:

        H ddqdd/dxdy = -(ddtau/dxdy + ddtau/dxdqdd dqdd/dy + ddtau/dydqdd dqdd/dx)

    A planar model is taken as `PlanarModel.in_space`. A `batch` is as there. Raises ValueError for
    another algorithm, for a joint whose S changes with its position or which time moves, and of
    forward dynamics for a joint that moves no inertia.
    """
    if algorithm not in ("aba", "rnea"):
        raise ValueError(f"second derivatives are those of aba or rnea, not of '{algorithm}'")
    _check_joints(model)
    if algorithm == "aba":
        check_resistance(model)
    notation = IN_LANES if batch else SCALAR
    tree = equivalent(about_z(_in_space(model)))
    return compiled_form(body_sweeps(tree, f"dd{algorithm}", notation), batch, lanes)


def _in_space(model: Model | PlanarModel) -> Model:
    return model.in_space() if isinstance(model, PlanarModel) else model


def _check_joints(model: Model | PlanarModel) -> None:
    """Raises ValueError, naming the joint, for one whose second changes are more than those of its
    body's place.
    """
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        q = joint.neutral() + 0.5
        moves = any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv))
        if moves or np.any(joint.jcalc(q, np.zeros(joint.nv)).vJ):
            what = "whose S changes with its position" if moves else "which time moves"
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, {what}; second derivatives are for "
                "joints with a constant S, and jacobian() has those of any function"
            )
