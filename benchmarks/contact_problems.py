"""Contact problems with known solutions.

The problems are towers and pyramids of boxes, logs and balls, and tables with redundant legs. Other
problems have heavy bodies on light bodies, or friction close to its limit. Most bodies stay at
rest. For the other problems, the centres of mass have a closed-form motion, or their motion follows
from an equation with one degree of freedom.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from rigidblocks import (
    Model,
    RigidContactPlant,
    SixDoF,
    box_inertia,
    sphere_inertia,
)
from rigidblocks.robot.model import capsule_inertia
from rigidblocks.robot.shapes import Box, Capsule, Plane, Shape, Sphere
from rigidblocks.spatial.spatial import RigidInertia, identity

G = 9.81
UPRIGHT = (1.0, 0.0, 0.0, 0.0)
LYING = (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)  # a quarter turn about x: the z axis points to -y
DOWN, ALONG = (0.0, 0.0, -G), np.array([1.0, 0.0, 0.0])
WALLS = ((1, 0), (-1, 0), (0, 1), (0, -1))


class Body(NamedTuple):
    """Free body: its shape, its mass [kg], its centre of mass [m] and its orientation."""

    shape: Shape
    m: float
    x: tuple[float, float, float]
    turn: tuple[float, float, float, float] = UPRIGHT


class Problem(NamedTuple):
    """Bodies that start at rest on planes, with friction `mu` between all of them.

    `exact` returns the centres of mass (n, 3) at a time up to `T`. `capacity` is the maximum
    number of contacts, if the default is too small.
    """

    bodies: tuple[Body, ...]
    mu: float
    exact: Callable[[float], np.ndarray]
    T: float = 1.0
    gravity: tuple[float, float, float] = DOWN
    ground: tuple[Plane, ...] = (Plane(),)
    capacity: int | None = None


def inertia_of(shape: Shape, m: float = 1.0) -> RigidInertia:
    """Return the inertia of a solid ball, capsule or box."""
    if isinstance(shape, Sphere):
        return sphere_inertia(shape.radius, mass=m)
    if isinstance(shape, Capsule):
        return capsule_inertia(shape.radius, shape.height, mass=m)
    return box_inertia(shape.sides, mass=m)


def plant_of(problem: Problem, h: float) -> RigidContactPlant:
    n, (shapes, masses, *_) = len(problem.bodies), zip(*problem.bodies, strict=True)
    model = Model("problem", (-1,) * n, (SixDoF(),) * n, (identity(),) * n,
                  tuple(map(inertia_of, shapes, masses)), gravity=np.array(problem.gravity),
                  contact=tuple((shape,) for shape in shapes))  # fmt: skip
    q0 = np.concatenate([[*body.turn, *body.x] for body in problem.bodies])
    return RigidContactPlant(
        model, problem.ground, mu=problem.mu, q0=q0, sample_time=h, max_contacts=problem.capacity
    )


def deviation(problem: Problem, t: float, q: np.ndarray) -> float:
    """Return the largest distance of a centre of mass from its exact position [m]."""
    away = q.reshape(-1, 7)[:, 4:] - problem.exact(t)
    return float(np.linalg.norm(away, axis=1).max())


def at_rest(bodies: tuple[Body, ...], mu: float = 0.5) -> Problem:
    x = np.array([body.x for body in bodies])
    return Problem(bodies, mu, lambda _: x)


def sloping(angle: float) -> tuple[float, float, float]:
    """Return the gravity vector of a slope that descends along x."""
    return G * np.sin(angle), 0.0, -G * np.cos(angle)


def tower(n: int, top: float = 1.0, bottom: float = 1.0) -> Problem:
    """Return a tower of 1 kg boxes; `top` and `bottom` are the masses of the outer boxes [kg]."""
    masses = [bottom, *[1.0] * (n - 2), top]
    shape = Box((0.3, 0.3, 0.2))
    return at_rest(tuple(Body(shape, m, (0, 0, 0.1 + 0.2 * k)) for k, m in enumerate(masses)))


def overhanging(n: int, part: float) -> Problem:
    """Return bricks of 0.2 m, each protruding over the next brick below.

    The brick at the top protrudes by `part` times a half of its length, the next bricks by `part`
    times a fourth, a sixth, ... If `part` exceeds 1, the bricks above an edge fall over it.
    """
    beyond = 0.2 * part / 2 / np.arange(1, n)
    x = np.append(0.0, np.cumsum(beyond[::-1]))
    shape = Box((0.2, 0.1, 0.06))
    return at_rest(tuple(Body(shape, 1.0, (x[k], 0, 0.03 + 0.06 * k)) for k in range(n)))


def pyramid(rows: int) -> Problem:
    """Return a wall of boxes 1 cm apart, one less in each row; each box stands on two boxes."""
    places = [(0.21 * (i + k / 2), 0, 0.05 + 0.1 * k) for k in range(rows) for i in range(rows - k)]
    return at_rest(tuple(Body(Box((0.2, 0.2, 0.1)), 1.0, x) for x in places))


def logs(rows: int) -> Problem:
    """Return capsules along y between two walls, with one capsule less in each row."""
    r, half = 0.1, 0.1 * rows
    places = [
        (r * (2 * i + k + 1) - half, 0, r + np.sqrt(3) * r * k)
        for k in range(rows)
        for i in range(rows - k)
    ]
    problem = at_rest(tuple(Body(Capsule(r, 0.8), 1.0, x, LYING) for x in places))
    return problem._replace(ground=pit(half, WALLS[:2]))


def cannonballs(side: int) -> Problem:
    """Return balls in square layers; a pit holds the lowest layer; each ball rests on four balls.

    A ball touches at most twelve balls, and each contact belongs to two balls. The capacity is
    therefore six contacts per ball.
    """
    r, places = 0.1, []
    for k in range(side):
        x = r * (2 * np.arange(side - k) + k + 1 - side)
        places += [(a, b, r + np.sqrt(2) * r * k) for a in x for b in x]
    problem = at_rest(tuple(Body(Sphere(r), 1.0, x) for x in places))
    return problem._replace(ground=pit(r * side, WALLS), capacity=6 * len(places))


def pit(half: float, walls: tuple[tuple[int, int], ...]) -> tuple[Plane, ...]:
    """Return the floor and the walls of a pit, with wall normals (x, y), `half` from the centre."""
    return Plane(), *(Plane((x, y, 0), (-half * x, -half * y, 0)) for x, y in walls)


def table(m: float, side: int, leg: float) -> Problem:
    """Return a plate of mass m on side^2 free legs of mass `leg`; three legs would suffice."""
    x = np.linspace(-0.9, 0.9, side)
    legs = [Body(Box((0.05, 0.05, 0.5)), leg, (a, b, 0.25)) for a in x for b in x]
    return at_rest((*legs, Body(Box((2.0, 2.0, 0.1)), m, (0, 0, 0.55))))


def pushed_row(n: int, m: float) -> Problem:
    """Return a row of 1 kg boxes on a slope; a box of mass m leans on the row from uphill.

    A wall holds the lowest box; without the wall the boxes would slide.
    """
    shape, masses = Box((0.2, 0.2, 0.2)), [*[1.0] * n, m]
    row = tuple(Body(shape, m, (-0.1 - 0.2 * k, 0, 0.1)) for k, m in enumerate(masses))
    ground = (Plane(), Plane((-1, 0, 0)))
    return at_rest(row, mu=0.3)._replace(gravity=sloping(np.pi / 6), ground=ground)


def on_a_slope(part: float, mu: float = 0.5) -> Problem:
    """Return a box on a slope; the tangent of the slope's angle is `part` times mu.

    The box stays, or it slides by g (sin - mu cos) t^2 / 2.
    """
    angle = np.arctan(part * mu)
    rate, x = max(G * (np.sin(angle) - mu * np.cos(angle)), 0.0), np.array([[0.0, 0.0, 0.05]])
    box = Body(Box((0.4, 0.4, 0.1)), 1.0, tuple(x[0]))
    return at_rest((box,), mu)._replace(
        exact=lambda t: x + rate * t**2 / 2 * ALONG, T=2.0, gravity=sloping(angle)
    )


def on_rollers(m: float, roller: float, angle: float = 0.05) -> Problem:
    """Return a plank of mass m on two capsules, which roll down a slope at half the plank's speed.

    (m + 2 (roller / 4 + I / (2 r)^2)) a = (m + 2 roller / 2) g sin(angle)
    """
    r, log = 0.05, Capsule(0.05, 0.4)
    I = inertia_of(log, roller).I[2, 2]
    rate = (m + roller) * G * np.sin(angle) / (m + 2 * (roller / 4 + I / (2 * r) ** 2))
    logs = [Body(log, roller, (x, 0, r), LYING) for x in (-0.3, 0.3)]
    bodies = (*logs, Body(Box((1.2, 0.6, 0.1)), m, (0, 0, 2 * r + 0.05)))
    x, part = np.array([body.x for body in bodies]), np.array([[0.5], [0.5], [1.0]])
    return at_rest(bodies)._replace(
        exact=lambda t: x + rate * t**2 / 2 * part * ALONG, gravity=sloping(angle)
    )


def ladder(part: float, mu: float = 0.3, L: float = 1.0, t: float = 0.05) -> Problem:
    """Return a board of length L and thickness t that leans against a wall.

    The angle of the board from the vertical is `part` times the largest angle that friction
    permits. The tangent of the largest angle is (2 mu L + (1 + mu^2) t) / ((1 - mu^2) L).
    """
    angle, T = part * np.arctan2(2 * mu * L + (1 + mu**2) * t, (1 - mu**2) * L), 0.4
    fall = solve_ivp(
        lambda _, y: (y[1], ladder_acceleration(y[0], y[1], L, t, mu)),
        (0, T),
        (angle, 0.0),
        rtol=1e-11,
        atol=1e-12,
        dense_output=True,
    ).sol
    turn = (np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0)
    board = Body(Box((t, 0.3, L)), 1.0, tuple(ladder_centre(angle, L, t)), turn)
    return at_rest((board,), mu)._replace(
        exact=lambda time: ladder_centre(fall(time)[0] if part > 1.0 else angle, L, t)[None],
        T=T,
        ground=pit(0.0, ((-1, 0),)),
    )


def ladder_centre(angle: float, L: float, t: float) -> np.ndarray:
    """Return the centre of mass of a ladder with its foot on z = 0 and its top on x = 0."""
    c, s = np.cos(angle) / 2, np.sin(angle) / 2
    return np.array([-t * c - L * s, 0.0, t * s + L * c])


def ladder_acceleration(angle: float, w: float, L: float, t: float, mu: float) -> float:
    """Return the angular acceleration of a ladder that slides on the floor and down the wall.

    The Newton-Euler equations include the specific forces N of the floor and F of the wall.
    """
    c, s = np.cos(angle) / 2, np.sin(angle) / 2
    x, z, foot, top = t * c + L * s, t * s + L * c, t * c - L * s, L * c - t * s
    A = [[-top, -mu, 1.0], [foot, -1.0, -mu], [(L**2 + t**2) / 12, foot + mu * z, top + mu * x]]
    return float(np.linalg.solve(A, [-x * w**2, z * w**2 - G, 0.0])[0])


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "tower of 10 equal boxes": lambda: tower(10),
    "the same, the topmost 100 times as heavy": lambda: tower(10, top=1e2),
    "the same, the topmost 10,000 times as heavy": lambda: tower(10, top=1e4),
    "the same, the lowest 10,000 times as heavy": lambda: tower(10, bottom=1e4),
    "6 bricks with 0.99 of the maximum overhang": lambda: overhanging(6, 0.99),
    "pyramid of 55 boxes": lambda: pyramid(10),
    "15 logs between walls": lambda: logs(5),
    "55 cannonballs in a pit": lambda: cannonballs(5),
    "plate of 1,000 kg on 36 legs of 0.1 kg": lambda: table(1e3, 6, 0.1),
    "1,000 kg on a slope against 10 boxes of 1 kg": lambda: pushed_row(10, 1e3),
    "box on a slope, 0.99 of the friction angle": lambda: on_a_slope(0.99),
    "box on a slope, 1.01 of the friction angle": lambda: on_a_slope(1.01),
    "plank of 1,000 kg on rollers of 0.1 kg": lambda: on_rollers(1e3, 0.1),
    "board against a wall, 0.98 of the largest stable angle": lambda: ladder(0.98),
    "board against a wall, 1.02 of the largest stable angle": lambda: ladder(1.02),
}
