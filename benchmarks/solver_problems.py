"""Rigid contact problems for solvers, from two successive steps of `RigidContactPlant` scenes.

In coordinates of unit inertia, z = L qd with H = L^T L, the velocities at the contacts are

    u = Y z - least,  z = z_free + Y^T p,  Y = J L^-1.

The velocities u and the impulses p (one normal and two tangential components per contact) must
satisfy Coulomb's law and Signorini's condition.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from piles import MU, WALLS, H, Pile, dropped, stacked, upright
from scipy.linalg import block_diag
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from rigidblocks import Model, RigidContactPlant, SixDoF, box_inertia, sphere_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact.shape_distance import contact_points
from rigidblocks.dynamics import bias_force, body_jacobian, body_poses, crba
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.robots import quadruped
from rigidblocks.robot.shapes import Box, Plane, Shape, Sphere, Surface
from rigidblocks.spatial.spatial import Transform, cross, identity

HEAVY, SLOPE, NEAR = 1e4, np.pi / 6, 1e-4
STANCE = np.tile([0.0, 0.7, -1.4], 4)
Key = tuple[int, int, int]


class Scene(NamedTuple):
    """Moving model, fixed surfaces, friction, initial q, and joint forces as a function of q, qd.

    `steps` is the number of plant steps before the problem, or zero for bodies at rest. `sticks` is
    True if all loaded contacts stick, so that the velocities are unique.
    """

    model: Model
    ground: tuple[Surface, ...]
    mu: float
    q0: np.ndarray
    tau: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    steps: int = 0
    sticks: bool = True


class Point(NamedTuple):
    """Contact: its key, bodies (-1 for fixed surfaces), frame (3, 3), place (3,) [m] and gap [m].

    The first row of the frame is the normal towards the first body. `size` is the size of the
    smaller shape [m].
    """

    key: Key
    bodies: tuple[int, int]
    frame: np.ndarray
    place: np.ndarray
    gap: float
    size: float


class Problem(NamedTuple):
    """Contact problem: Y (3n, nv) sparse, z_free (nv,), least (3n,) [m/s], mu, contact keys.

    `tree` is True for trees, and `sticks` if the velocities are unique. `fastest` is the largest
    free velocity at a contact [m/s]. `moving` is the largest velocity of a free body before the
    step [m/s].
    """

    Y: csr_array
    z_free: np.ndarray
    least: np.ndarray
    mu: float
    keys: list[Key]
    tree: bool
    sticks: bool
    fastest: float
    moving: float

    @property
    def n(self) -> int:
        """Number of contacts."""
        return len(self.keys)

    @property
    def unit(self) -> int:
        """Multiply-adds of a sweep: each row counts once for its velocity, once for its impulse."""
        return 2 * self.Y.nnz

    def blocks(self) -> np.ndarray:
        """Return the velocity changes (n, 3, 3) that unit impulses cause at their own contact."""
        rows = [self.Y[3 * k : 3 * k + 3] for k in range(self.n)]
        return np.array([(row @ row.T).toarray() for row in rows])

    def velocities(self, z: np.ndarray) -> np.ndarray:
        """Return the contact velocities u (n, 3) for z."""
        return (self.Y @ z - self.least).reshape(-1, 3)


def free_bodies(
    shapes: list[tuple[Shape, ...]], inertias: list, gravity: tuple[float, ...] = (0.0, 0.0, -9.81)
) -> Model:
    n = len(shapes)
    return Model("bodies", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, tuple(inertias),
                 gravity=np.array(gravity), contact=tuple(shapes))  # fmt: skip


def piled(pile: Pile, mu: float = MU, masses: dict[int, float] | None = None, **more) -> Scene:
    """Return bodies of 1 kg, except bodies in `masses`, in the pit of the pile if it has one."""
    n, shape, inertias = len(pile.x), pile.shape, []
    for k in range(n):
        mass = (masses or {}).get(k, 1.0)
        ball = isinstance(shape, Sphere)
        inertias.append(
            sphere_inertia(shape.radius, mass=mass) if ball else box_inertia(shape.sides, mass=mass)
        )
    walls = WALLS if np.isfinite(pile.wall) else ()
    ground = (Plane(), *(Plane((x, y, 0), (-pile.wall * x, -pile.wall * y, 0)) for x, y in walls))
    q0 = np.hstack([pile.turn, pile.x]).ravel()
    return Scene(free_bodies([(shape,)] * n, inertias), ground, mu, q0, **more)


def brick_wall(length: int) -> Pile:
    """Return a running bond of bricks: each stands on two, each layer is one brick shorter."""
    rows = [
        (place + 0.5 * layer, layer) for layer in range(length) for place in range(length - layer)
    ]
    x = np.array([(0.42 * along, 0.0, 0.1 + 0.2 * layer) for along, layer in rows])
    return Pile(Box((0.4, 0.2, 0.2)), x, upright(len(x)), np.inf, 0.0)


def on_slope(mu: float) -> Scene:
    """Return a box on a slope, as a plane with tilted gravity."""
    sides, down = (0.4, 0.4, 0.1), (9.81 * np.sin(SLOPE), 0.0, -9.81 * np.cos(SLOPE))
    model = free_bodies([(Box(sides),)], [box_inertia(sides, mass=1.0)], down)
    q0 = np.array([1.0, 0, 0, 0, 0, 0, 0.05])
    return Scene(model, (Plane(),), mu, q0, sticks=mu > np.tan(SLOPE))


def on_points(side: int) -> Scene:
    """Return a box that stands on a grid of small balls."""
    line = np.linspace(-0.2, 0.2, side)
    balls = tuple(Sphere(0.01, (x, y, -0.05)) for x in line for y in line)
    model = free_bodies([balls], [box_inertia((0.4, 0.4, 0.1), mass=1.0)])
    return Scene(model, (Plane(),), MU, np.array([1.0, 0, 0, 0, 0, 0, 0.06]))


def standing() -> Scene:
    """Return a quadruped under PD control in its stance, shortly after it touched the ground."""

    def tau(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros(6), 150 * (STANCE - q[7:]) - 3 * qd[6:]])

    q0 = np.concatenate([[1.0, 0, 0, 0, 0, 0, 0.326], STANCE])
    return Scene(quadruped(), (Plane(),), 0.8, q0, tau, steps=60)


def scenes() -> dict[str, Scene]:
    """Return the scenes by name."""
    return {
        "10 boxes stacked": piled(stacked(10)),
        "the same, the topmost 1e4 times as heavy": piled(stacked(10), masses={9: HEAVY}),
        "the same, the lowest 1e4 times as heavy": piled(stacked(10), masses={0: HEAVY}),
        "wall of 120 bricks": piled(brick_wall(15)),
        "heap of 300 balls": piled(dropped(300, False), steps=1200, sticks=False),
        "60 boxes that fall in a pit, mu = 1": piled(
            dropped(60, True), mu=1.0, steps=1200, sticks=False
        ),
        "box on a slope, sticks": on_slope(0.7),
        "box on a slope, slides": on_slope(0.3),
        "box on 64 points": on_points(8),
        "standing quadruped, 18 degrees of freedom": standing(),
    }


def states(scene: Scene) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return q and qd at the start of two successive steps of the plant."""
    plant = RigidContactPlant(scene.model, scene.ground, mu=scene.mu, q0=scene.q0, sample_time=H)
    memory, found = Memory(plant), []
    m, step, where = memory.start(), compiled_stepper(memory), memory.where
    step.initialize(m, 0.0)
    for k in range(scene.steps + 2):
        if k >= scene.steps:
            found.append((m[where["q"]].copy(), m[where["qd"]].copy()))
        if scene.tau:
            m[where["tau"]] = scene.tau(*(m[where[name]] for name in ("q", "qd")))
        step.step(m, k * H, H)
    return found


def placed_shapes(scene: Scene) -> list[tuple[int, Shape]]:
    """Return all shapes of bodies, each with the index of its body."""
    return [(k, shape) for k, some in enumerate(scene.model.contact) for shape in some]


def radius(shape: Shape) -> float:
    """Return the radius of a bounding ball about the shape's centre."""
    points = np.asarray(shape.points)
    return float(np.linalg.norm(points - points.mean(axis=0), axis=1).max() + shape.reach)


def near_pairs(
    shapes: list[tuple[int, Shape]], poses: list[Transform]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of shapes of different bodies whose bounding balls overlap."""
    middle = [poses[k].r + poses[k].E.T @ np.mean(shape.points, axis=0) for k, shape in shapes]
    reach = 1.02 * max(radius(shape) for _, shape in shapes)
    for a, b in sorted(cKDTree(np.array(middle)).query_pairs(2 * reach)):
        if shapes[a][0] != shapes[b][0]:
            yield a, b


def points(scene: Scene, q: np.ndarray, margin: float) -> Iterator[Point]:
    """Yield all contacts with a gap below `margin` [m]; for trees only contacts with the ground."""
    poses, shapes = body_poses(scene.model, q), placed_shapes(scene)
    pairs = near_pairs(shapes, poses) if is_free(scene.model) else ()
    for a, b in pairs:
        (i, one), (j, other) = shapes[a], shapes[b]
        found = contact_points(one, poses[i], other, poses[j], margin)
        size = 2 * min(radius(one), radius(other))
        yield from named(found, (a, b), (i, j), size)
    for a, (i, one) in enumerate(shapes):
        for k, surface in enumerate(scene.ground):
            found = contact_points(one, poses[i], surface, identity(), margin)
            yield from named(found, (a, -1 - k), (i, -1), 2 * radius(one))


def named(found, pair: tuple[int, int], bodies: tuple[int, int], size: float) -> Iterator[Point]:
    for k, (place, gap) in enumerate(zip(found.point, found.gap, strict=True)):
        yield Point((*pair, k), bodies, frame_of(found.normal), place, float(gap), size)


def frame_of(n: np.ndarray) -> np.ndarray:
    """Return the normal and two tangents as rows."""
    u = cross(n, np.eye(3)[np.argmin(np.abs(n))])
    u = u / np.linalg.norm(u)
    return np.array([n, u, cross(n, u)])


def is_free(model: Model) -> bool:
    return all(isinstance(joint, SixDoF) for joint in model.joint)


def inverse_root(model: Model, q: np.ndarray) -> csr_array:
    """Return L^-1 with H = L^T L, which keeps the sparsity of the trees (RBDA 6.5)."""
    if is_free(model):
        inertias = [np.array(crba(free_bodies([()], [one]), np.eye(7)[0])) for one in model.inertia]
    else:
        inertias = [crba(model, q)]
    roots = [np.linalg.cholesky(one[::-1, ::-1])[::-1, ::-1].T for one in inertias]
    inverse = block_diag(*(np.linalg.inv(root) for root in roots))
    return csr_array(np.where(np.abs(inverse) > 1e-14 * np.abs(inverse).max(), inverse, 0.0))


def columns(model: Model, q: np.ndarray, body: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the degrees of freedom that move a body, and its Jacobian (6, m) for them."""
    if is_free(model):
        return np.arange(6 * body, 6 * body + 6), np.eye(6)
    J = body_jacobian(model, q, body)
    moved = np.flatnonzero(np.abs(J).max(axis=0))
    return moved, J[:, moved]


def jacobian(scene: Scene, q: np.ndarray, found: list[Point]) -> csr_array:
    """Return J (3n, nv) in the frames of the contacts."""
    poses, model, entries = body_poses(scene.model, q), scene.model, []
    for k, point in enumerate(found):
        for sign, body in zip((1.0, -1.0), point.bodies, strict=True):
            if body < 0:
                continue
            at, J = columns(model, q, body)
            E = poses[body].E
            arm = E @ (point.place - poses[body].r)
            rows = sign * point.frame @ E.T @ (J[3:] - np.cross(arm, J[:3], axisb=0).T)
            places = np.meshgrid(3 * k + np.arange(3), at, indexing="ij")
            entries.append((rows.ravel(), *(one.ravel() for one in places)))
    values, i, j = (np.concatenate(one) for one in zip(*entries, strict=True))
    return csr_array((values, (i, j)), shape=(3 * len(found), model.nv))


def problem(scene: Scene, q: np.ndarray, qd: np.ndarray, h: float = H) -> Problem:
    """Return the contact problem of a step of H, with forces that act over the time h.

    It contains the contacts whose gaps can close in the step.
    """
    model, root = scene.model, inverse_root(scene.model, q)
    tau = scene.tau(q, qd) if scene.tau else np.zeros(model.nv)
    free = qd + h * (root @ (root.T @ (tau - bias_force(model, q, qd))))
    found = list(points(scene, q, 2 * H * np.abs(free).max() + NEAR))
    Y, z_free = csr_array(jacobian(scene, q, found) @ root), np.linalg.solve(root.toarray(), free)
    least = np.zeros((len(found), 3))
    least[:, 0] = [-max(0.0, one.gap - 1e-7 * one.size) / H for one in found]
    fastest = np.linalg.norm((Y @ z_free).reshape(-1, 3), axis=1).max()
    tree = not is_free(model)
    moving = 0.0 if tree else np.linalg.norm(qd.reshape(-1, 6)[:, 3:], axis=1).max()
    return Problem(Y, z_free, least.ravel(), scene.mu, [one.key for one in found], tree,
                   scene.sticks, float(fastest), float(moving))  # fmt: skip


def problems(scene: Scene) -> tuple[Problem, Problem]:
    """Return the contact problems of two successive steps.

    If the bodies are at rest, an additional force of 1 % of the weight acts in the second step.
    """
    if scene.steps:
        before, now = (problem(scene, *state) for state in states(scene))
        return before, now
    weight = scene.model.gravity
    push = 0.01 * np.linalg.norm(weight) * frame_of(weight / np.linalg.norm(weight))[1]
    pushed = scene._replace(model=replace(scene.model, gravity=weight + push))
    before, now = (problem(one, scene.q0, np.zeros(scene.model.nv)) for one in (scene, pushed))
    return before, now
