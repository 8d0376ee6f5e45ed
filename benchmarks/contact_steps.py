"""Errors of the default method with error control for contact problems with closed forms.

The quantities are loads, energy, rolling speed and stopping distance, for a range of stiffnesses
and communication steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from rigidblocks import Block, Model
from rigidblocks.block.adaptive_methods import longest_step, memory_for, method_of
from rigidblocks.contact import ContactPlant, PointSet, Sphere, plane_contacts
from rigidblocks.cosim.contact_events import simulate_contact
from rigidblocks.kernels.compiled_stepper import CompiledStepper, compiled_stepper
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import Joint, Prismatic, SixDoF
from rigidblocks.spatial.spatial import mcI, xlt

G, R = 9.81, 0.1
UPRIGHT = (1.0, 0.0, 0.0, 0.0)
LEGS = PointSet([[x * 0.4, y * 0.3, -0.5] for x in (-1, 1) for y in (-1, 1)])
SEED = 12
BOUNCING = ("adaptive", "stiff", "adaptive or stiff", "radau", "adaptive rodas3")
Values = Callable[[str], np.ndarray]


def body(joint: Joint, shape: object, m: float, com: tuple, principal: tuple) -> Model:
    """Return a model with one body on a joint."""
    inertia = mcI(m, np.array(com), np.diag(principal))
    return Model("body", (-1,), (joint,), (xlt(np.zeros(3)),), (inertia,), contact=((shape,),))


def ball() -> Model:
    """Return a solid ball of 1 kg."""
    return body(SixDoF(), Sphere(R), 1.0, (0, 0, 0), (0.4 * R * R,) * 3)


def table(height: float) -> Model:
    """Return a 10 kg board on four legs; its mass is `height` [m] above the centre of the legs."""
    return body(SixDoF(), LEGS, 10.0, (0, 0, height), (0.3, 8 / 15, 5 / 6))


def stepper_of(model: Model, *law: float) -> CompiledStepper:
    """Return the compiled plant with the default method."""
    return compiled(ContactPlant(RobotPlant(model), *law), "adaptive or stiff")


@cache
def compiled(plant: ContactPlant, name: str) -> CompiledStepper:
    """Return the compiled plant with the method `name`."""
    method = method_of(name)
    return compiled_stepper(memory_for(plant, method), method, longest_step(method))


def run(stepper: CompiledStepper, t_stop: float, dt: float, **start: object) -> Values:
    """Return a function from a port name to its values (n, size) at the communication points."""
    m = stepper.memory.start()
    for name, value in start.items():
        m[stepper.memory.where[name]] = value
    stepper.initialize(m, 0.0)
    rows = np.zeros((round(t_stop / dt), stepper.memory.size))
    for k, row in enumerate(rows):
        stepper.step(m, k * dt, dt)
        row[:] = m
    return lambda name: rows[:, stepper.memory.where[name]]


def loads(rng: np.random.Generator) -> float:
    """Return the largest relative error of the load on a table leg after 3 s."""
    stepper, worst = stepper_of(table(0.0), 1e6, 2e3, 0.5), 0.0
    for K in 10.0 ** np.arange(4, 9):
        for _ in range(3):
            q = np.array([1.0, *rng.normal(0, 0.02, 3), 0.0, 0.0, 0.52])
            q[:4] /= np.linalg.norm(q[:4])
            patch = {"K_t": 10 ** rng.uniform(4, 8), "D_t": 10 ** rng.uniform(2, 5)}
            force = run(stepper, 3.0, 0.01, q=q, K=K, D=2e3, **patch)("force")[-1]
            worst = max(worst, np.abs(force[2::3] / (10 * G / 4) - 1).max())
    return worst


def gain(rng: np.random.Generator) -> float:
    """Return the largest energy gain of a dropped ball per communication step.

    The gain is relative to the initial energy.
    """
    stepper, worst = stepper_of(ball(), 1e6, 1e3, 0.3), 0.0
    for K in 10.0 ** np.arange(4, 10):
        for D in (0.0, 1.0, 1e2, 1e4, 1e6):
            slip = [0, 0, 0, *rng.normal(size=2), 0]
            law = {"K": K, "D": D, "K_t": K, "D_t": max(D, 1e-3 * np.sqrt(K))}
            y = run(stepper, 1.5, 0.01, q=[*UPRIGHT, 0, 0, 0.5], qd=slip, **law)
            depth = np.maximum(y("depth"), 0.0)
            patch = np.sum(y("x") ** 2, axis=1) * (depth[:, 0] > 0)
            E = y("energy")[:, 0] + K / 2 * (np.sum(depth**2, axis=1) + patch) - G * R
            E0 = np.sum(np.square(slip)) / 2 + G * 0.4
            worst = max(worst, np.diff(E, prepend=E0).max() / E0)
    return worst


def rolling() -> float:
    """Return the error of a ball's final rolling speed, relative to 5/7 of its initial speed."""
    stepper, worst = stepper_of(ball(), 1e6, 1e3, 0.3), 0.0
    for dt in (0.001, 0.003, 0.01, 0.03, 0.1):
        for K in (1e4, 1e6, 1e8):
            law = {"K": K, "D": np.sqrt(K), "K_t": K, "D_t": np.sqrt(K)}
            start = {"q": [*UPRIGHT, 0, 0, R - G / K], "qd": [0, 0, 0, 1.0, 0, 0]}
            qd = run(stepper, 1.5, dt, **start, **law)("qd")[-1]
            worst = max(worst, abs(np.linalg.norm(qd[3:]) - 5 / 7))
    return worst


def stopping() -> Iterator[float]:
    """Yield the errors of a sliding table's stopping distance v^2 / (2 mu g) [m].

    Each error belongs to one compliance of the friction.
    """
    stepper, mu, v = stepper_of(table(-0.5), 1e7, 1e4, 0.4), 0.4, 0.8
    for K_t in (1e5, 1e6, 1e7):
        start = {"q": [*UPRIGHT, 0, 0, 0.5 - 10 * G / 4e7], "qd": [0, 0, 0, v, 0, 0]}
        q = run(stepper, 0.6, 0.02, **start, K_t=K_t, D_t=2 * np.sqrt(K_t))("q")[-1]
        yield abs(q[4] - v * v / (2 * mu * G))


def zeno() -> tuple[float, float]:
    """Return the errors of a bouncing ball with rigid contact, relative to its closed form.

    They are the relative error of the first ten bounce times, and the final height [m].
    """
    model = body(Prismatic(), PointSet([[0.0, 0.0, 0.0]]), 1.0, (0, 0, 0), (1, 1, 1))
    e, fall = 0.5, np.sqrt(2 / G)
    one = simulate_contact(model, partial(plane_contacts, model), [1.0], [0.0], 2.0, 0.05, e=e)
    exact = fall * np.cumsum([1.0, *(2 * e**k for k in range(1, 10))])
    return np.abs(one.times("impact")[:10] / exact - 1).max(), abs(one["q"][-1, 0])


@dataclass(frozen=True)
class WithoutMargins(ContactPlant):
    """Plant without switching functions, whose inner steps may end anywhere."""

    switching_functions = Block.switching_functions


def bounces() -> Iterator[list[str]]:
    """Yield a row for each method: energy errors of a ball that bounces without damping.

    The errors are the largest relative gain and loss of energy over a communication step. The last
    one is the largest gain if inner steps do not end at the contact.
    """
    plants = [of(RobotPlant(ball()), 1e6, 1.0, 0.0) for of in (ContactPlant, WithoutMargins)]
    for name in BOUNCING:
        with_margins, without = (
            np.concatenate([energy_changes(compiled(plant, name), K, dt) for K, dt in falls()])
            for plant in plants
        )
        yield [
            f'`"{name}"`',
            f"{max(with_margins.max(), 0.0):.0e}",
            f"{max(-with_margins.min(), 0.0):.0e}",
            f"{max(without.max(), 0.0):.0e}",
        ]


def energy_changes(stepper: CompiledStepper, K: float, dt: float) -> np.ndarray:
    """Return the energy change in each communication step of a ball that falls from 0.4 m.

    The changes are relative to the initial energy.
    """
    y = run(stepper, 20.0, dt, q=[*UPRIGHT, 0, 0, 0.5], K=K, D=0.0)
    depth = np.maximum(y("depth")[:, 0], 0.0)
    E = y("energy")[:, 0] + K / 2 * depth**2 - G * R
    return np.diff(E, prepend=G * 0.4) / (G * 0.4)


def falls() -> Iterator[tuple[float, float]]:
    """Yield stiffnesses [N/m] and communication steps [s]."""
    rng = np.random.default_rng(SEED)
    for K in 10.0 ** rng.uniform(4, 9, 20):
        yield from ((K, dt) for dt in (1e-3, 1e-2, 0.1, 1.0))


def measured() -> Iterator[list[str]]:
    """Yield a row for each check: its name, the range of parameters and the error."""
    rng = np.random.default_rng(SEED)
    ways = ", ".join(f"{error:.1e}" for error in stopping())
    times, height = zeno()
    yield [
        "each leg of a table carries a quarter of the weight",
        "K 1e4 to 1e8, any patch",
        f"{loads(rng):.1e}",
    ]
    yield [
        "energy gain of a dropped ball in a step of 10 ms",
        "K 1e4 to 1e9, D 0 to 1e6",
        f"{gain(rng):.1e}",
    ]
    yield [
        "a sliding ball finally rolls at 5/7 of its speed",
        "steps of 1 to 100 ms",
        f"{rolling():.1e}",
    ]
    yield ["a sliding table stops after v^2 / (2 mu g)", "K_t 1e5, 1e6, 1e7", f"{ways} m"]
    yield ["ball with rigid contact, times of ten bounces", "e = 0.5", f"{times:.1e}"]
    yield ["ball with rigid contact, final height", "e = 0.5", f"{height:.1e} m"]


if __name__ == "__main__":
    for row in measured():
        print(*(cell.ljust(52) for cell in row), flush=True)
