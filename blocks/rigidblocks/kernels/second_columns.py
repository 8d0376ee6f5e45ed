"""What the second derivatives of dynamics are made of: columns that belong to velocity variables,
by the passes of `columns`, for joints with a constant S.

A change of variable k gives the bodies that it supports the velocity dv and the acceleration
da + dv x v, whatever body is looked at, so that the subtree of d takes F = I^c da + 2 B^c dv. In
base coordinates a variable d behind k changes nothing of k, but I^c and B^c of what d supports
(Singh, Russell and Wensing 2022): by qd B^c changes by B(I, S), by q they are turned with it, and
B^c is linear in velocities,

    dI = S x* I - I S x,    dB = S x* B - B S x + B(I, dv)

so that d(F_k) = M_d X_k, and M has the form of [B I], to which X = [2 dw; da] is what it was. Of
R = [B^T S; I^c S], the covector of a force, a variable j before it changes

    dR = [w_j x B^T S + B(I, dv_j)^T S; S_j x* I^c S],    B(I, dv)^T S = Z dw + dvO x l

where I^c S = [n; l], and Z is that of the angular part. Forward dynamics are differentiated at the
qdd that they give, where H qdd + C = tau and its changes by x and y are zero:

    H ddqdd/dxdy = -(ddtau/dxdy + ddtau/dxdqdd dqdd/dy + ddtau/dydqdd dqdd/dx)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, cross, skew
from rigidblocks.kernels.columns import (
    MATRICES,
    Results,
    accelerated,
    changed,
    coriolis,
    driven,
    moving,
    supported,
)
from rigidblocks.kernels.leaves import Pass
from rigidblocks.model.model import Model


def driven_twice(
    model: Model, i: int, q: Array, qd: Array, qdd: Array, X0_p: Transform, v_p: Array, a_p: Array
) -> Results:
    """Outward: `driven`, and the linear part of dv by q."""
    dv = moving(model, i, q, qd, X0_p, v_p).swept
    return *driven(model, i, q, qd, qdd, X0_p, v_p, a_p), dv[3:]


def supported_twice(
    model: Model,
    i: int,
    S: Array,
    I: RigidInertia,
    B1: Array,
    P: Array,
    f: Array,
    X: Array,
    dS: Array,
    V: Array,
) -> Results:
    """Inward: `supported`, and what a variable makes of the forces that others take."""
    return *supported(model, i, S, I, B1, P, f, X, dS), *_made(S, I, B1, P, X, V)


def changed_twice(
    model: Model,
    i: int,
    S: Array,
    I: RigidInertia,
    B1: Array,
    P: Array,
    f: Array,
    X: Array,
    dS: Array,
    V: Array,
) -> Results:
    """Inward: `changed`, and what a variable makes of the forces that others take."""
    return *changed(model, i, S, I, B1, P, f, X, dS), *_made(S, I, B1, P, X, V)


def _made(S: Array, I: RigidInertia, B1: Array, P: Array, X: Array, V: Array) -> Results:
    """Z / 2, which works on 2 dw, M by q, and of M by qd what works on dw; matrices by rows."""
    dv = np.vstack([0.5 * X[:3], V])
    Z = [0.5 * _turning(I, s).ravel() for s in S.T]
    M = [_turned(I, B1, P, s, d).ravel() for s, d in zip(S.T, dv.T, strict=True)]
    N = [np.vstack([coriolis(I, s), -skew(_momentum(I, s))]).ravel() for s in S.T]
    return np.transpose(Z), np.transpose(M), np.transpose(N)


def _turning(I: RigidInertia, S: Array) -> Array:
    """Z (3, 3), of which B(I, dv)^T S = Z dw + dvO x l is what works on angular velocities."""
    w, sO = S[:3], S[3:]
    one = np.eye(3)
    Z: Array = (I.I - 0.5 * np.trace(I.I) * one) @ skew(w) - (I.h @ sO) * one + np.outer(I.h, sO)
    return Z


def _turned(I: RigidInertia, B1: Array, P: Array, S: Array, dv: Array) -> Array:
    """M (6, 9): the changes of [B I] of a subtree that is moved by S and made faster by dv."""
    w, sO = S[:3], S[3:]
    W, U, h = skew(w), skew(sO), skew(I.h)
    dh = skew(cross(w, I.h) + I.m * sO)
    dI = W @ I.I - I.I @ W - U @ h - h @ U
    dB = W @ B1 - B1 @ W + (sO @ P) * np.eye(3) - np.outer(P, sO) + coriolis(I, dv)
    dP = skew(cross(w, P) + _momentum(I, dv))
    return np.vstack([np.hstack([dB, dI, dh]), np.hstack([-dP, -dh, np.zeros((3, 3))])])


def _momentum(I: RigidInertia, v: Array) -> Array:
    """The linear momentum of a body with the velocity v."""
    p: Array = I.m * v[3:] - cross(I.h, v[:3])
    return p


_INVERSE, _FORWARD = MATRICES["drnea"], MATRICES["daba"]
_MADE = {"V": 3, "Z": 9, "M": 54, "N": 18}
_TEXT = "algorithms/second_derivatives.h"


def _inward(step: Callable[..., Results], first: Pass, after: str) -> Pass:
    """The last pass, with the columns that second derivatives need."""
    return Pass(step, (*first.results, "Z", "M", "N"), outward=False, after=after)


TENSORS = {
    "ddrnea": replace(
        _INVERSE,
        passes=(
            Pass(driven_twice, (*_INVERSE.passes[0].results, "V")),
            _inward(
                supported_twice, _INVERSE.passes[1], "second_force_derivatives(m, out + RB_N);"
            ),
        ),
        columns={**_INVERSE.columns, **_MADE},
        tensors=("ddtau_dq_dq", "ddtau_dq_dqd", "ddtau_dq_dqdd", "ddtau_dqd_dqd"),
        texts=(*_INVERSE.texts, _TEXT),
    ),
    "ddaba": replace(
        _FORWARD,
        passes=(
            *_FORWARD.passes[:2],
            Pass(accelerated, ("a", "f", "X", "dS", "V")),
            _inward(
                changed_twice,
                _FORWARD.passes[3],
                "second_motion_derivatives(m, tau, work, out);",
            ),
        ),
        columns={**_FORWARD.columns, **_MADE},
        tensors=("ddqdd_dq_dq", "ddqdd_dq_dqd", "ddqdd_dq_dtau", "ddqdd_dqd_dqd"),
        texts=(*_FORWARD.texts, _TEXT),
    ),
}
