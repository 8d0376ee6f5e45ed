"""The short programs of Featherstone's "A Beginner's Guide to 6-D Vectors", each with a check.

The programs use 6x6 matrices, so that each line reads like its formula. They compute the inverse
dynamics (Part 2, Eqs 9 to 13) and the joint-space inertia matrix (Eqs 44 and 45). They also compute
the forward dynamics and the inverse kinematics (Eqs 15 and 16).

Part 4 of the slides adds constrained motion, by the motion subspace S and by the constraint force
subspace T. The references are the closed-form equation of motion of a two-link arm, and the
library's algorithms for a general arm.
"""

import sys

import numpy as np

from rigidblocks import aba, auto_tree, crba, planar2, rnea
from rigidblocks.spatial.rigid_motion import displacement
from rigidblocks.spatial.spatial import crf, crm, identity, mcI

TOLERANCE = 1e-9  # relative tolerance for dense 6x6 products and equations with six unknowns
G = 9.81


def joint(model, i, q):
    """Return the transform from the parent to body i and the axis s of its joint (6,)."""
    XJ, S, _, _ = model.joint[i].jcalc(q[i : i + 1], np.zeros(1))
    return XJ @ model.Xtree[i], S[:, 0]


def inverse_dynamics(model, q, qd, qdd):
    """Return the joint forces (n,) of the recursive Newton-Euler algorithm."""
    n = model.nb
    X, s, v, a, f = ([None] * n for _ in range(5))
    for i, p in enumerate(model.parent):
        Xup, s[i] = joint(model, i, q)
        X[i], I = Xup.matrix(), model.inertia[i].matrix()
        v_parent, a_parent = (
            (v[p], a[p]) if p >= 0 else (np.zeros(6), np.array([0, 0, 0, *-model.gravity]))
        )
        v[i] = X[i] @ v_parent + s[i] * qd[i]
        a[i] = X[i] @ a_parent + s[i] * qdd[i] + crm(v[i]) @ s[i] * qd[i]
        f[i] = I @ a[i] + crf(v[i]) @ I @ v[i]
    tau = np.zeros(n)
    for i in reversed(range(n)):
        tau[i] = s[i] @ f[i]
        if (p := model.parent[i]) >= 0:
            f[p] = f[p] + X[i].T @ f[i]
    return tau


def inertia_matrix(model, q):
    """Return the joint-space inertia matrix (n, n), H_ij = s_i . I_c s_j, in base coordinates."""
    n = model.nb
    to_base, s, I = [identity()] * (n + 1), [None] * n, [None] * n
    for i, p in enumerate(model.parent):
        Xup, axis = joint(model, i, q)
        to_base[i] = to_base[p] @ Xup.inverse()
        s[i] = to_base[i] @ axis
        X = to_base[i].inverse().matrix()
        I[i] = X.T @ model.inertia[i].matrix() @ X
    for i in reversed(range(n)):
        if (p := model.parent[i]) >= 0:
            I[p] = I[p] + I[i]
    H = np.zeros((n, n))
    for i in range(n):
        j = i
        while j >= 0:
            H[i, j] = H[j, i] = s[i] @ I[i] @ s[j]
            j = model.parent[j]
    return H


def body_position(model, body, q):
    """Return the transform from base to body and the Jacobian (6, n) in body coordinates."""
    X, J = identity(), np.zeros((6, model.nb))
    while body >= 0:
        Xup, s = joint(model, body, q)
        J[:, body] = X @ s
        X = X @ Xup
        body = model.parent[body]
    return X, J


def inverse_kinematics(model, body, X_goal, q):
    """Return joint positions (n,) with the body at X_goal, and the step sizes of all iterations."""
    steps = []
    while len(steps) < 50 and (not steps or steps[-1] > 1e-10):
        X, J = body_position(model, body, q)
        dp = displacement(X_goal @ X.inverse())
        q = q + np.linalg.pinv(J) @ dp
        steps.append(np.linalg.norm(dp))
    return q, steps


def constrained_acceleration(I, S, T, f):
    """Return two values of the acceleration (6,) of a body at rest under the force f.

    The first value is computed from the motion subspace S, the second from the constraint force
    subspace T.
    """
    by_motion = S @ np.linalg.solve(S.T @ I @ S, S.T @ f)
    lam = -np.linalg.solve(T.T @ np.linalg.solve(I, T), T.T @ np.linalg.solve(I, f))
    return by_motion, np.linalg.solve(I, f + T @ lam)


def two_link_arm(q, qd):
    """Return H (2, 2) and C (2,) of a vertical arm of two rods of 1 m and 1 kg, in closed form."""
    s2, c2, c1, c12 = np.sin(q[1]), np.cos(q[1]), np.cos(q[0]), np.cos(q[0] + q[1])
    H = np.array([[5 / 3 + c2, 1 / 3 + c2 / 2], [1 / 3 + c2 / 2, 1 / 3]])
    C1 = -s2 / 2 * (2 * qd[0] + qd[1]) * qd[1] + G * (1.5 * c1 + 0.5 * c12)
    return H, np.array([C1, s2 / 2 * qd[0] ** 2 + G * 0.5 * c12])


def distance(a, b):
    """Return the largest difference of two arrays, relative to the largest element of b."""
    return np.abs(a - b).max() / np.abs(b).max()


def arm_checks():
    """Yield the name of each check and the error relative to the closed form of a two-link arm."""
    arm = planar2().with_gravity([0.0, -G, 0.0])
    q, qd, qdd = np.array([0.4, -1.1]), np.array([1.5, -0.7]), np.array([2.0, 3.0])
    H, C = two_link_arm(q, qd)
    print("two-link arm:   H =", inertia_matrix(arm, q).round(4).tolist())
    print("              tau =", inverse_dynamics(arm, q, qd, qdd).round(4).tolist())
    yield "inverse dynamics, closed form", distance(inverse_dynamics(arm, q, qd, qdd), H @ qdd + C)
    yield "inertia matrix, closed form", distance(inertia_matrix(arm, q), H)


def tree_checks():
    """Yield the name of each check and the error relative to the library, for six skew axes."""
    model, rng = auto_tree(6, 1, 1.0, 0.9), np.random.default_rng(6)
    q, qd, qdd, tau = rng.uniform(-1, 1, (4, 6))
    yield (
        "inverse dynamics, rnea",
        distance(inverse_dynamics(model, q, qd, qdd), rnea(model, q, qd, qdd)),
    )
    yield "inertia matrix, crba", distance(inertia_matrix(model, q), crba(model, q))
    C = inverse_dynamics(model, q, qd, np.zeros(6))
    yield (
        "forward dynamics, aba",
        distance(np.linalg.solve(inertia_matrix(model, q), tau - C), aba(model, q, qd, tau)),
    )


def kinematics_check():
    """Return the remaining pose error of the inverse kinematics of a six-axis arm."""
    model, rng = auto_tree(6, 1, 1.0, 0.9), np.random.default_rng(7)
    goal = rng.uniform(-1, 1, 6)
    X_goal, _ = body_position(model, 5, goal)
    q, steps = inverse_kinematics(model, 5, X_goal, goal + rng.uniform(-0.3, 0.3, 6))
    print("inverse kinematics: the distances to go were", " ".join(f"{step:.0e}" for step in steps))
    yield (
        "inverse kinematics, pose of the goal",
        distance(body_position(model, 5, q)[0].matrix(), X_goal.matrix()),
    )


def constraint_check():
    """Return the difference of the two solutions for a rod hinged at its end.

    The force acts at the other end of the rod.
    """
    m, l, f = 2.0, 0.5, 3.0
    I = mcI(m, [l / 2, 0.0, 0.0], np.diag([1e-3, m * l**2 / 12, m * l**2 / 12])).matrix()
    unit = np.eye(6)
    force = np.array([0, 0, l * f, 0, f, 0])
    by_motion, by_force = constrained_acceleration(
        I, unit[:, [2]], np.delete(unit, 2, axis=1), force
    )
    print(
        "hinged rod: it turns by", by_motion[2].round(6), "rad/s^2; 3 f / (m l) =", 3 * f / (m * l)
    )
    known = unit[2] * 3 * f / (m * l)
    yield "constrained motion by S, closed form", distance(by_motion, known)
    yield "constrained motion by T, closed form", distance(by_force, known)


def main():
    checks = [*arm_checks(), *tree_checks(), *kinematics_check(), *constraint_check()]
    for name, apart in checks:
        print(f"  {name:40}{apart:8.1e}")
    if wrong := [name for name, apart in checks if not apart < TOLERANCE]:
        sys.exit(f"differs by more than {TOLERANCE}: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
