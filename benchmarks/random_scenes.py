"""Random scenes of bodies of all shapes in a pit: dropped, thrown, and initially overlapping.

    python benchmarks/random_scenes.py [scenes] [first world] [law]    # 2,500 scenes a world

A world has six bodies (ball, box, capsule, cylinder, ellipsoid, hull) of random sizes and masses.
It is compiled once for many scenes with random positions, velocities, friction and restitution. In
each scene, all numbers must be finite and each centre of mass must stay in the pit.

The script reports the largest penetration depth, the energy gain since the start, and the energy
gain since any earlier time. Separating initial overlaps lifts bodies. The work of these
displacements against gravity does not change velocities and is counted separately.
"""

import sys
from collections import Counter
from time import process_time
from typing import NamedTuple

import numpy as np

from rigidblocks import Model, RigidContactPlant, SixDoF, box_inertia
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import CompiledStepper, compiled_stepper
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
)
from rigidblocks.spatial.spatial import identity

G, H, T, HALF, BODIES = 9.81, 1e-3, 0.6, 0.4, 6
SCENES_OF_A_WORLD = 2500
KINDS = ("dropped", "thrown", "overlapping")
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))
PIT = (Plane(), *(Plane((x, y, 0), (-HALF * x, -HALF * y, 0)) for x, y in SIDES))
APART = 0.1  # [s] time within which initial overlaps separate
LIMITS = {"depth": 1e-2, "gained": 1e-9, "risen": 1e-9}


class World(NamedTuple):
    """Bodies with their plant, their radii about the centres of mass, and the smallest length."""

    plant: RigidContactPlant
    memory: Memory
    stepper: CompiledStepper
    reach: np.ndarray
    smallest: float


class Start(NamedTuple):
    """Initial q (nb, 7) and qd (nb, 6), friction and restitution (nb + 1,) of a scene."""

    q: np.ndarray
    qd: np.ndarray
    mu: np.ndarray
    e: np.ndarray


class Found(NamedTuple):
    """Result of a scene: finite, inside the pit, and largest depth over the smallest length.

    `gained` is the energy gain since the start, `risen` the energy gain since the previous minimum.
    Both are relative to the largest energy.
    """

    finite: bool
    inside: bool
    depth: float
    gained: float
    risen: float


def shapes(rng: np.random.Generator) -> list[tuple[Shape, tuple[float, float, float], float]]:
    """Return the shapes, each with the sides of its bounding box and its smallest length [m]."""
    r, (a, b, c) = rng.uniform(0.03, 0.1), rng.uniform(0.05, 0.2, 3)
    k, l = rng.uniform(0.03, 0.07), rng.uniform(0.03, 0.2)
    R, h = rng.uniform(0.04, 0.1), rng.uniform(0.05, 0.2)
    x, y, z = rng.uniform(0.03, 0.12, 3)
    hull = rng.normal(size=(rng.integers(6, 16), 3))
    hull *= rng.uniform(0.06, 0.12) / np.linalg.norm(hull, axis=1)[:, None]
    hull -= hull.mean(axis=0)
    return [
        (Sphere(r), (2 * r,) * 3, 2 * r),
        (Box((a, b, c)), (a, b, c), min(a, b, c)),
        (Capsule(k, l), (2 * k, 2 * k, l + 2 * k), 2 * k),
        (Cylinder(R, h), (2 * R, 2 * R, h), min(2 * R, h)),
        (Ellipsoid((x, y, z)), (2 * x, 2 * y, 2 * z), 2 * min(x, y, z)),
        (ConvexHull(hull), tuple(np.ptp(hull, axis=0)), np.ptp(hull, axis=0).min()),
    ]


def world(seed: int, law: str = "newton") -> World:
    """Return the bodies of a world and their compiled step with the restitution law `law`."""
    rng = np.random.default_rng([16, seed])
    found = shapes(rng)
    model = Model(
        "world",
        (-1,) * BODIES,
        (SixDoF(),) * BODIES,
        (identity(),) * BODIES,
        tuple(box_inertia(sides, mass=np.exp(rng.uniform(-1, 1))) for _, sides, _ in found),
        contact=tuple((shape,) for shape, _, _ in found),
    )
    plant = RigidContactPlant(model, PIT, mu=0.5, e=0.5, max_contacts=96, restitution=law)
    memory = Memory(plant)
    reach = np.array([np.linalg.norm(sides) / 2 for _, sides, _ in found])
    reach[5] = np.linalg.norm(found[5][0].points, axis=1).max()  # type: ignore[attr-defined]
    return World(plant, memory, compiled_stepper(memory), reach, min(s for _, _, s in found))


def start(one: World, rng: np.random.Generator, kind: str) -> Start:
    """Return the initial state of a scene.

    Bodies without initial overlap form a column in random order and orientation.
    """
    q, qd = rng.normal(size=(BODIES, 7)), np.zeros((BODIES, 6))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1)[:, None]
    if kind == "overlapping":
        q[:, 4:6] = rng.uniform(-0.15, 0.15, (BODIES, 2))
        q[:, 6] = rng.uniform(0.02, 0.4, BODIES)
    else:
        room = HALF - one.reach - 0.01
        q[:, 4:6] = room[:, None] * rng.uniform(-1, 1, (BODIES, 2))
        height = 0.01
        for k in rng.permutation(BODIES):
            q[k, 6] = height + one.reach[k]
            height += 2 * one.reach[k] + 0.005
    if kind != "dropped":
        fast = 1.0 if kind == "thrown" else rng.choice([0.0, 0.3])
        qd = fast * np.array([20, 20, 20, 10, 10, 10]) * rng.normal(size=(BODIES, 6))
    mu = np.full(BODIES + 1, rng.choice([0.0, 1.0]) if rng.random() < 0.2 else rng.uniform(0, 1))
    e = np.full(BODIES + 1, rng.choice([0.0, rng.uniform(0, 1)]))
    return Start(q, qd, mu, e)


def run(one: World, begin: Start) -> np.ndarray:
    """Return the memory after each successful step (n, size)."""
    m, at, rows = one.memory.start(), one.memory.where, np.empty((round(T / H), one.memory.size))
    for name, value in begin._asdict().items():
        m[at[name]] = value.ravel()
    one.stepper.initialize(m, 0.0)
    return rows[: one.stepper.run(m, 0.0, H, rows)]


def rotations(q: np.ndarray) -> np.ndarray:
    """Return the rotations of unit quaternions (..., 4) from body to base coordinates."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    rows = (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))  # fmt: skip
    return np.stack(rows, axis=-1).reshape(*w.shape, 3, 3)


def energies(one: World, q: np.ndarray, qd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the energy in the middle of each step and the lifting work during the step.

    The arguments are q (n + 1, nb, 7) and qd (n, nb, 6); the origins are the centres of mass.
    """
    m = np.array([body.m for body in one.plant.model.inertia])
    I = np.array([body.I for body in one.plant.model.inertia])
    v = (rotations(q[1:, :, :4]) @ qd[:, :, 3:, None])[:, :, :, 0]
    kinetic = (v * v).sum(-1) @ m / 2 + np.einsum("tbi,bij,tbj->t", qd[..., :3], I, qd[..., :3]) / 2
    middle, z = q[:-1, :, 6] + H / 2 * v[..., 2], q[:, :, 6]
    return kinetic + G * middle @ m, G * (z[1:] - z[:-1] - H * v[..., 2]) @ m


def energy_at_start(one: World, begin: Start) -> float:
    m = np.array([body.m for body in one.plant.model.inertia])
    I = np.array([body.I for body in one.plant.model.inertia])
    w, v = begin.qd[:, :3], begin.qd[:, 3:]
    kinetic = (v * v).sum(-1) @ m / 2 + np.einsum("bi,bij,bj", w, I, w) / 2
    return float(kinetic + G * m @ begin.q[:, 6])


def evaluate_scene(one: World, begin: Start, rows: np.ndarray, kind: str) -> Found:
    """Return the result of a scene."""
    at = one.memory.where
    finite = len(rows) == round(T / H) and bool(np.isfinite(rows).all())
    if not finite:
        return Found(False, False, np.inf, np.inf, np.inf)
    q = np.concatenate([begin.q[None], rows[:, at["q"]].reshape(-1, BODIES, 7)])
    energy, lifted = energies(one, q, rows[:, at["qd"]].reshape(-1, BODIES, 6))
    first = energy_at_start(one, begin)
    net = np.concatenate([[first], energy - np.concatenate([[0.0], np.cumsum(lifted)[:-1]])])
    places = q[:, :, 4:]
    inside = (places[..., 2] > 0).all() and (np.abs(places[..., :2]) < HALF).all()
    depth = rows[round(APART / H) if kind == "overlapping" else 0 :, at["depth"]].max()
    most = max(first, energy.max())
    return Found(
        True,
        bool(inside),
        depth / one.smallest,
        (net.max() - first) / most,
        (net - np.minimum.accumulate(net)).max() / most,
    )


def campaign(
    scenes: int, first: int = 0, law: str = "newton"
) -> dict[str, list[tuple[Found, int, int]]]:
    """Return the results of `scenes` scenes by kind, each with its world and its number."""
    found: dict[str, list[tuple[Found, int, int]]] = {kind: [] for kind in KINDS}
    for k in range(scenes):
        seed, number = first + k // SCENES_OF_A_WORLD, k % SCENES_OF_A_WORLD
        if number == 0:
            one = world(seed, law)
        kind = KINDS[number % len(KINDS)]
        begin = start(one, np.random.default_rng([seed, number]), kind)
        found[kind].append((evaluate_scene(one, begin, run(one, begin), kind), seed, number))
    return found


def exceeded_limits(one: Found) -> list[str]:
    """Return the names of the limits that a scene exceeds."""
    if not one.finite:
        return ["finite"]
    return [name for name in LIMITS if getattr(one, name) > LIMITS[name]] + (
        [] if one.inside else ["inside"]
    )


def print_kind(kind: str, all_of: list[tuple[Found, int, int]]) -> None:
    """Print the worst scenes of a kind, and the scenes beyond a limit except `risen`."""
    worst = {name: max(all_of, key=lambda o, n=name: getattr(o[0], n)) for name in LIMITS}
    print(f"{kind:12} {len(all_of):7}", end="")
    print("".join(f"{getattr(one[0], name):10.1e}" for name, one in worst.items()), end="  at ")
    print(" ".join(f"{one[1]}:{one[2]}" for one in worst.values()))
    for one, *where in all_of:
        if beyond := [name for name in exceeded_limits(one) if name != "risen"]:
            print(f"    {where[0]}:{where[1]} beyond {', '.join(beyond)}: {one}")


def main() -> None:
    """Print the worst results of each kind, scenes (world:number) beyond a limit, and a summary."""
    numbers = [int(text) for text in sys.argv[1:3]] or [1000]
    begin = process_time()
    found = campaign(*numbers, *sys.argv[3:])
    print(f"{'':12} {'scenes':>7}" + "".join(f"{name:>10}" for name in LIMITS))
    for kind, all_of in found.items():
        if all_of:
            print_kind(kind, all_of)
    every = [one for all_of in found.values() for one, *_ in all_of]
    over = Counter(name for one in every for name in exceeded_limits(one))
    counts = ", ".join(f"{name} {over[name]}" for name in ("finite", "inside", *LIMITS))
    print(
        f"in all: worlds from {(*numbers, 0)[1]}, {len(every)} scenes, beyond {counts}; deepest "
        f"{max(one.depth for one in every):.1e}, gained {max(one.gained for one in every):.1e}, "
        f"risen {max(one.risen for one in every):.1e}; {process_time() - begin:.0f} s"
    )


if __name__ == "__main__":
    main()
