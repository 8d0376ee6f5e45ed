"""Step times for many bodies in rigid contact, compared with MuJoCo's mj_step and with Drake.

    python benchmarks/piles.py [mj_step] [Drake]

The table lists the CPU times for the same scenes and the same step of 1 ms; the simulations take
turns in one run. MuJoCo has its default settings (pyramidal cone, Newton's method). Drake (from
PyPI) uses its discrete plant, SAP and point contact, and takes minutes. Each body has a mass of
1 kg.
"""

import sys
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any, NamedTuple

import mujoco
import numpy as np
from contact_problems import WALLS, inertia_of, pit
from numpy.typing import ArrayLike

from rigidblocks import Model, RigidContactPlant, SixDoF
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, Capsule, Plane, Shape, Sphere
from rigidblocks.spatial.spatial import identity

H, MU = 1e-3, 0.5


class Pile(NamedTuple):
    """Equal free bodies: shape, initial positions (n, 3) and orientations (n, 4).

    `wall` is half the width of a pit, or inf for a floor without walls. `T` is the duration.
    """

    shape: Shape
    x: np.ndarray
    turn: np.ndarray
    wall: float
    T: float


def upright(n: int) -> np.ndarray:
    return np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))


def stacked(n: int) -> Pile:
    """Return a stack of boxes."""
    x = np.array([[0.0, 0.0, 0.1 + 0.2 * k] for k in range(n)])
    return Pile(Box((0.3, 0.3, 0.2)), x, upright(n), np.inf, 1.0)


def dropped(n: int, boxes: bool) -> Pile:
    """Return bodies in layers above a pit; boxes have random orientations."""
    rng, side = np.random.default_rng(0), max(2, round((n / 2) ** (1 / 3)))
    k = np.arange(n)
    x = 0.3 * np.stack([k % side, k // side % side, k // side**2], axis=1)
    x = x - [0.15 * (side - 1), 0.15 * (side - 1), -0.3] + rng.uniform(-0.02, 0.02, (n, 3))
    turn = rng.normal(size=(n, 4)) if boxes else upright(n)
    turn = turn / np.linalg.norm(turn, axis=1)[:, None]
    shape = Box((0.2, 0.15, 0.1)) if boxes else Sphere(0.1)
    return Pile(shape, x, turn, 0.15 * side + 0.1, 1.5)


class Steps(NamedTuple):
    """Simulation: functions to take steps, to count the contacts and to compute the mean height."""

    advance: Callable[[int], object]
    contacts: Callable[[], int]
    height: Callable[[], float]


def ours(pile: Pile) -> Steps:
    n, shape = len(pile.x), pile.shape
    inertia = (inertia_of(shape),) * n
    model = Model("pile", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, inertia,
                  contact=((shape,),) * n)  # fmt: skip
    ground = pit(pile.wall, WALLS) if np.isfinite(pile.wall) else (Plane(),)
    q0 = np.hstack([pile.turn, pile.x]).ravel()
    memory = Memory(RigidContactPlant(model, ground, mu=MU, q0=q0, sample_time=H))
    m, step = memory.start(), compiled_stepper(memory)
    step.initialize(m, 0.0)

    def advance(steps: int) -> None:
        for _ in range(steps):
            step.step(m, 0.0, H)

    at_q = memory.where["q"]
    return Steps(
        advance,
        lambda: int(m[memory.where["contacts"]][0]),
        lambda: float(m[at_q].reshape(n, 7)[:, 6].mean()),
    )


def text(numbers: ArrayLike) -> str:
    """Format numbers for MJCF without loss of precision."""
    return " ".join(repr(float(x)) for x in np.asarray(numbers))


def geom(shape: Shape, m: float = 1.0) -> str:
    """Return the MJCF geom of a ball, a capsule or a box."""
    if isinstance(shape, Sphere):
        kind, size = "sphere", [shape.radius]
    elif isinstance(shape, Capsule):
        kind, size = "capsule", [shape.radius, shape.height / 2]
    else:
        kind, size = "box", np.asarray(shape.sides) / 2
    return f'<geom type="{kind}" size="{text(size)}" mass="{m}"/>'


def in_mjcf(pile: Pile) -> str:
    """Return the scene for MuJoCo."""
    bodies = "".join(
        f'<body pos="{text(x)}" quat="{text(turn)}"><freejoint/>{geom(pile.shape)}</body>'
        for x, turn in zip(pile.x, pile.turn, strict=True)
    )
    walls = "".join(
        f'<geom type="plane" size="0 0 1" pos="{-pile.wall * x} {-pile.wall * y} 0" '
        f'zaxis="{x} {y} 0"/>'
        for x, y in (WALLS if np.isfinite(pile.wall) else ())
    )
    return f"""<mujoco><option timestep="{H}"/><size memory="400M"/>
        <default><geom friction="{MU} 0 0" condim="3"/></default>
        <worldbody><geom type="plane" size="0 0 1"/>{walls}{bodies}</worldbody></mujoco>"""


def by_mujoco(pile: Pile) -> Steps:
    model = mujoco.MjModel.from_xml_string(in_mjcf(pile))
    data, n = mujoco.MjData(model), len(pile.x)
    return Steps(
        lambda steps: mujoco.mj_step(model, data, nstep=steps),
        lambda: data.ncon,
        lambda: float(data.qpos.reshape(n, 7)[:, 2].mean()),
    )


def add_walls(drake: Any, plant: Any, wall: float, friction: Any) -> None:
    """Add the ground, and walls at the distance `wall` from the centre."""
    planes = [((0, 0, 1), (0, 0, 0))]
    if np.isfinite(wall):
        planes += [((x, y, 0), (-wall * x, -wall * y, 0)) for x, y in WALLS]
    for k, (normal, point) in enumerate(planes):
        pose = drake.HalfSpace.MakePose(np.array(normal, float), np.array(point, float))
        plant.RegisterCollisionGeometry(
            plant.world_body(), pose, drake.HalfSpace(), f"plane{k}", friction
        )


def add_bodies(drake: Any, plant: Any, pile: Pile, friction: Any) -> list[Any]:
    """Add the bodies of a pile; each body has a mass of 1 kg."""
    if isinstance(pile.shape, Sphere):
        shape = drake.Sphere(pile.shape.radius)
        inertia = drake.SpatialInertia.SolidSphereWithMass(1.0, pile.shape.radius)
    else:
        shape = drake.Box(*pile.shape.sides)
        inertia = drake.SpatialInertia.SolidBoxWithMass(1.0, *pile.shape.sides)
    bodies = [plant.AddRigidBody(f"body{k}", inertia) for k in range(len(pile.x))]
    for body in bodies:
        plant.RegisterCollisionGeometry(body, drake.RigidTransform(), shape, body.name(), friction)
    return bodies


def by_drake(pile: Pile) -> Steps:
    from pydrake import all as drake

    builder = drake.DiagramBuilder()
    plant, _ = drake.AddMultibodyPlantSceneGraph(builder, H)
    plant.set_discrete_contact_approximation(drake.DiscreteContactApproximation.kSap)
    friction = drake.CoulombFriction(MU, MU)
    add_walls(drake, plant, pile.wall, friction)
    bodies = add_bodies(drake, plant, pile, friction)
    plant.Finalize()
    simulator = drake.Simulator(builder.Build())
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    for body, x, turn in zip(bodies, pile.x, pile.turn, strict=True):
        pose = drake.RigidTransform(drake.Quaternion(turn), x)
        plant.SetFreeBodyPose(context, body, pose)
    simulator.Initialize()
    done = [0]

    def advance(steps: int) -> None:
        done[0] += steps
        simulator.AdvanceTo(done[0] * H)

    def contacts() -> int:
        return plant.get_contact_results_output_port().Eval(context).num_point_pair_contacts()

    def height() -> float:
        return float(np.mean([plant.EvalBodyPoseInWorld(context, b).translation()[2]
                              for b in bodies]))  # fmt: skip

    return Steps(advance, contacts, height)


PILES: dict[str, Callable[[], Pile]] = {
    "4 boxes stacked": lambda: stacked(4),
    "20 balls dropped in a pit": lambda: dropped(20, boxes=False),
    "100 boxes dropped in a pit": lambda: dropped(100, boxes=True),
    "666 balls dropped in a pit": lambda: dropped(666, boxes=False)._replace(T=0.5),
}
RIVALS: dict[str, Callable[[Pile], Steps]] = {
    "here": ours, "mj_step": by_mujoco, "Drake": by_drake
}  # fmt: skip


def times(pile: Pile, rivals: dict[str, Callable[[Pile], Steps]], slices: int = 10) -> Any:
    """Return the CPU time per step [us] of each simulation, and its final contacts and height."""
    runs = {name: make(pile) for name, make in rivals.items()}
    spent = dict.fromkeys(runs, 0.0)
    steps = round(pile.T / H) // slices
    for _ in range(slices):
        for name, run in runs.items():
            start = process_time()
            run.advance(steps)
            spent[name] += process_time() - start
    return {
        name: (1e6 * spent[name] / (slices * steps), run.contacts(), run.height())
        for name, run in runs.items()
    }


def measured(rival: str = "mj_step") -> Iterator[list[str]]:
    """Yield the mean CPU time of a step in both simulators, and the final number of contacts.

    Raises:
        RuntimeError: If the mean heights differ by more than a quarter of a body. Smaller
            differences are normal, because heaps settle differently.
    """
    for name, make in PILES.items():
        pile = make()
        size = 2 * pile.shape.radius if isinstance(pile.shape, Sphere) else min(pile.shape.sides)
        found = times(pile, {who: RIVALS[who] for who in ("here", rival)})
        (_, _, here), (_, _, there) = found.values()
        if abs(here - there) > 0.25 * size:
            raise RuntimeError(f"{name}: bodies end {here} m and {there} m high on the mean")
        cells = [f"{us:,.3g} us, {n} contacts" for us, n, _ in found.values()]
        yield [name, *cells, f"{found['here'][0] / found[rival][0]:.2f} x"]


if __name__ == "__main__":
    for rival in sys.argv[1:] or ["mj_step"]:
        for row in measured(rival):
            print(rival, " | ".join(row), flush=True)
