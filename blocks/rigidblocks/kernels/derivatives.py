"""Exact derivatives of forward and inverse dynamics, compiled."""

from typing import Literal, overload

from rigidblocks.dynamics.equivalence import equivalent
from rigidblocks.kernels.body_sweeps import body_sweeps
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
    """The compiled exact derivatives of forward dynamics, "aba", or of inverse dynamics, "rnea".

    Of (q, qd, tau) the first gives qdd and dqdd_dq, dqdd_dqd and dqdd_dtau = H^-1; of (q, qd, qdd)
    the second gives tau and dtau_dq, dtau_dqd and dtau_dqdd = H: the value (nv,) and three matrices
    (nv, nv). The derivative by q is by the velocity variables that move it, q (+) dq at dq = 0, so
    with a quaternion in q too. There are no external wrenches.

    It computes with the `equivalent` model, in loops over the bodies that compile in a second or
    two, whatever their number: passes make the columns of which the derivatives are made
    (Carpentier and Mansard 2018; Singh, Russell and Wensing 2022), then come products of them along
    the paths of the tree and the solution with H = L^T L (RBDA 6.5).

        dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = H^-1 (tau - C)

    A `batch` is of arrays (n, nq), (n, nv) and (n, nv), in `lanes` and threads. Raises ValueError
    for another algorithm, for a planar model, and of aba for a joint that moves no inertia.
    """
    if algorithm not in ("aba", "rnea"):
        raise ValueError(
            f"derivatives are those of aba or rnea, not of '{algorithm}'; others are made with "
            "jacobian()"
        )
    if not isinstance(model, Model):
        raise ValueError(
            f"derivatives need a spatial model, not the planar '{model.name}'; use jacobian()"
        )
    if algorithm == "aba":
        check_resistance(model)
    notation = IN_LANES if batch else SCALAR
    return compiled_form(body_sweeps(equivalent(model), f"d{algorithm}", notation), batch, lanes)
