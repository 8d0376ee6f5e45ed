"""Exact derivatives of forward and inverse dynamics, compiled."""

from typing import Literal, overload

from rigidblocks.dynamics.equivalence import about_z, equivalent
from rigidblocks.kernels.body_sweeps import body_sweeps
from rigidblocks.kernels.loop_rows import loop_rows
from rigidblocks.model.model import Model
from rigidblocks.model.resistance import check_resistance
from rigidblocks.tracing.batch import CompiledBatch
from rigidblocks.tracing.function import CompiledFunction, compiled_form
from rigidblocks.tracing.notation import IN_LANES, SCALAR


@overload
def derivatives(model: Model, algorithm: str) -> CompiledFunction: ...


@overload
def derivatives(
    model: Model, algorithm: str, *, batch: Literal[True], lanes: int | None = None
) -> CompiledBatch: ...


def derivatives(
    model: Model, algorithm: str, *, batch: bool = False, lanes: int | None = None
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

    A `batch` is of arrays (n, nq), (n, nv) and (n, nv), in `lanes` and threads. Raises ValueError
    for another algorithm, for a planar model, for loops that there are not, and of forward dynamics
    for a joint that moves no inertia.
    """
    if algorithm not in ("aba", "rnea", "closed_loop_dynamics"):
        raise ValueError(
            f"derivatives are those of aba, rnea or closed_loop_dynamics, not of '{algorithm}'; "
            "others are made with jacobian()"
        )
    if not isinstance(model, Model):
        raise ValueError(
            f"derivatives need a spatial model, not the planar '{model.name}'; use jacobian()"
        )
    if algorithm != "rnea":
        check_resistance(model)
    notation = IN_LANES if batch else SCALAR
    tree = equivalent(about_z(model))
    if algorithm != "closed_loop_dynamics":
        return compiled_form(body_sweeps(tree, f"d{algorithm}", notation), batch, lanes)
    rows = loop_rows(model, tree, notation)
    return compiled_form(body_sweeps(tree, "dclosed", notation, rows), batch, lanes)
