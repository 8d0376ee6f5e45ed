"""Acceleration of two hinged bodies at rest, with a force on the first body.

This is the worked problem of Featherstone's "A Beginner's Guide to 6-D Vectors", Part 1. The script
solves it with 3-D vectors at the two centres of mass (Eqs S28 to S32) and with spatial vectors (Eq
S39). The third method is the articulated-body algorithm.

The first case is two equal rods that are hinged end to end; its solution is known in closed form.
The second case is two random bodies.
"""

import sys
from dataclasses import dataclass

import numpy as np

from rigidblocks import Model, Revolute, aba
from rigidblocks.robot.joints import SixDoF
from rigidblocks.spatial.spatial import Transform, identity, mcI, outer, skew

RTOL = 1e-12  # relative tolerance for linear equations with six unknowns


@dataclass(frozen=True)
class Problem:
    """Parameters of the two-body problem.

    The masses are in kg, and the rotational inertias about the centres of mass C1 and C2 in
    kg m^2. The hinge axis s passes through P, with r1 = C1 P and r2 = C2 P [m]. The couple n [N m]
    and the force f [N] through C1 act on the first body.
    """

    m1: float
    I1: np.ndarray
    m2: float
    I2: np.ndarray
    r1: np.ndarray
    r2: np.ndarray
    s: np.ndarray
    n: np.ndarray
    f: np.ndarray


def with_3d_vectors(p):
    """Return the acceleration of the first body (6,) at C1, from Eqs S20, S24 and S28 to S32."""
    r1, r2, s = skew(p.r1), skew(p.r2), p.s[:, None]
    J = p.I2 - p.m2 * r2 @ r2
    K = J + p.m2 * r1 @ r2
    sJs = s.T @ J @ s
    A = (p.m1 + p.m2) * np.eye(3) + p.m2**2 * r2 @ s @ s.T @ r2 / sJs
    B = p.m2 * (r2 - r1) - p.m2 * r2 @ s @ s.T @ K.T / sJs
    C = p.m2 * (r1 - r2) + p.m2 * K @ s @ s.T @ r2 / sJs
    D = p.I1 + p.I2 - p.m2 * (r1 - r2) @ (r1 - r2) - K @ s @ s.T @ K.T / sJs
    solution = np.linalg.solve(np.block([[A, B], [C, D]]), np.concatenate([p.f, p.n]))
    return np.concatenate([solution[3:], solution[:3]])


def with_spatial_vectors(p):
    """Return the acceleration of the first body (6,) in coordinates at C1, from Eq S39.

    a1 = (I1 + I2 - I2 s s^T I2 / (s^T I2 s))^-1 f
    """
    I1, I2 = mcI(p.m1, np.zeros(3), p.I1), mcI(p.m2, p.r1 - p.r2, p.I2)
    s = np.concatenate([p.s, np.cross(p.r1, p.s)])[:, None]
    U = I2 @ s
    IA = I1.articulated_inertia() + (I2.articulated_inertia() - outer(U / (s.T @ U), U))
    return np.linalg.solve(IA.matrix(), np.concatenate([p.n, p.f]))


def hinged(p):
    """Return the model of the two bodies: a free body, and a second body hinged to it."""
    to_hinge = Transform(rotation_to_z(p.s), p.r1)
    second = mcI(p.m2, p.r1 - p.r2, p.I2).transform_to_parent(to_hinge.inverse())
    return Model(
        name="two bodies",
        parent=(-1, 0),
        joint=(SixDoF(), Revolute()),
        Xtree=(identity(), to_hinge),
        inertia=(mcI(p.m1, np.zeros(3), p.I1), second),
        gravity=np.zeros(3),
    )


def with_the_algorithm(p):
    """Return the acceleration of the first body (6,) from the articulated-body algorithm."""
    model = hinged(p)
    q = np.concatenate([joint.neutral() for joint in model.joint])
    f_ext = np.array([[*p.n, *p.f], np.zeros(6)])
    return aba(model, q, np.zeros(model.nv), np.zeros(model.nv), f_ext)[:6]


def rotation_to_z(s):
    """Return a rotation E for which E s is along z."""
    z = s / np.linalg.norm(s)
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x = x / np.linalg.norm(x)
    return np.array([x, np.cross(z, x), z])


def rods(m=2.0, l=0.5, force=3.0):
    """Return two rods along x, hinged end to end, with a force along y at the first rod's centre.

    The hinge transmits an eighth of the force. The centre of the first rod accelerates by
    7 f / (8 m). The angular acceleration of the rod is -3 f / (4 m l).
    """
    I = np.diag([1e-3, m * l**2 / 12, m * l**2 / 12])
    half = np.array([l / 2, 0.0, 0.0])
    z, f = np.array([0.0, 0.0, 1.0]), np.array([0.0, force, 0.0])
    return Problem(m, I, m, I, half, -half, z, np.zeros(3), f), np.array(
        [0, 0, -3 * force / (4 * m * l), 0, 7 * force / (8 * m), 0]
    )


def random_bodies(seed=1):
    """Return two bodies, each with a few point masses, in general position."""
    rng = np.random.default_rng(seed)
    moments = []
    for _ in range(2):
        points = rng.uniform(-1, 1, (6, 3))
        moments.append(sum((x @ x) * np.eye(3) - np.outer(x, x) for x in points))
    s = rng.normal(size=3)
    r1, r2, n, f = rng.uniform(-1, 1, (4, 3))
    return Problem(1.5, moments[0], 0.8, moments[1], r1, r2, s / np.linalg.norm(s), n, f)


def show(title, problem, known=None):
    """Print the solutions and return their largest difference relative to the largest component."""
    print(title)
    ways = {
        "3-D vectors": with_3d_vectors,
        "spatial vectors": with_spatial_vectors,
        "articulated bodies": with_the_algorithm,
    }
    solutions = {name: way(problem) for name, way in ways.items()}
    if known is not None:
        solutions["by hand"] = known
    for name, a in solutions.items():
        print(f"  {name:20}" + " ".join(f"{x:10.6f}" for x in np.round(a, 9) + 0.0))
    reference = known if known is not None else solutions["3-D vectors"]
    return max(np.abs(a - reference).max() for a in solutions.values()) / np.abs(reference).max()


def main():
    print("acceleration of the first body [rad/s^2 and m/s^2]")
    apart = max(
        show("two rods, the first pushed sideways", *rods()),
        show("two bodies at random", random_bodies()),
    )
    print(f"largest relative difference: {apart:.1e}")
    if not apart < RTOL:
        sys.exit(f"the solutions differ by more than {RTOL}")


if __name__ == "__main__":
    main()
