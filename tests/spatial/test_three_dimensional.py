"""Inverse dynamics compared with equations in three-dimensional vectors.

The reference is the original algorithm of Luh, Walker and Paul (RBDA Table 5.2).
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS
from rigidblocks import Model, rnea

RTOL = 1e-11  # rounding errors of two recursions over six bodies
Z = np.array([0.0, 0.0, 1.0])


def luh_walker_paul(model: Model, q, qd, qdd):
    """Return the joint forces (n,) of a chain of revolute joints about z.

    The recursion uses classical accelerations and separate forces and moments.
    """
    E = [
        joint.jcalc(q[[i]], qd[[i]]).XJ.E @ X.E
        for i, (joint, X) in enumerate(zip(model.joint, model.Xtree, strict=True))
    ]
    r = [X.r for X in model.Xtree]
    c = [body.h / body.m for body in model.inertia]
    F, N = forces_and_moments(model, E, c, qd, qdd)
    f, n, tau = np.zeros(3), np.zeros(3), np.zeros(model.nv)
    for i in reversed(range(model.nb)):
        f, n = F[i] + f, N[i] + np.cross(c[i], F[i]) + n
        tau[i] = n @ Z
        f, n = E[i].T @ f, E[i].T @ n + np.cross(r[i], E[i].T @ f)
    return tau


def forces_and_moments(model: Model, E, c, qd, qdd):
    """Return the net force F and moment N of each body about its centre of mass c.

    E contains the rotation matrices.
    """
    r, F, N = [X.r for X in model.Xtree], [], []
    w, wd, vd = np.zeros(3), np.zeros(3), -model.gravity
    for i, body in enumerate(model.inertia):
        vd = E[i] @ (vd + np.cross(wd, r[i]) + np.cross(w, np.cross(w, r[i])))
        wd = E[i] @ wd + Z * qdd[i] + np.cross(E[i] @ w, Z * qd[i])
        w = E[i] @ w + Z * qd[i]
        I_C = body.I - body.m * (c[i] @ c[i] * np.eye(3) - np.outer(c[i], c[i]))
        F.append(body.m * (vd + np.cross(wd, c[i]) + np.cross(w, np.cross(w, c[i]))))
        N.append(I_C @ wd + np.cross(w, I_C @ w))
    return F, N


@pytest.mark.parametrize("name", ["pendulum", "planar2", "six-axis"])
def test_joint_forces_of_rnea_match_the_luh_walker_paul_algorithm(name, rng):
    model = MODELS[name]().with_gravity((1.0, -2.0, 9.81))
    for _ in range(20):
        q, qd, qdd = rng.normal(size=(3, model.nv))
        expected = luh_walker_paul(model, q, qd, qdd)
        assert_allclose(
            rnea(model, q, qd, qdd), expected, rtol=0, atol=RTOL * np.abs(expected).max()
        )
