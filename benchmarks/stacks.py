"""The problems of `contact_problems` compared with MuJoCo: error against time.

Both engines start from the same bodies and use the same steps. They take turns, with 4 ms of motion
each. The error is the largest deviation of a centre of mass from its exact position. MuJoCo's
collision detection computes the largest penetration depth for both engines.

The time is the CPU time per simulated second. MuJoCo runs with the settings of `simbenchmark` and
with its default settings.
"""

import argparse
from collections.abc import Callable, Iterator
from time import process_time
from typing import NamedTuple

import mujoco
import numpy as np
from contact_problems import PROBLEMS, Problem, deviation, inertia_of, plant_of
from piles import geom, text
from simbenchmark import STEPS, stiff

from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper

SLICE = max(STEPS)
STILL = 1e-7  # [m] largest displacement of a body at rest in 4 ms
LONG = ("55 cannonballs in a pit",)  # with steps of 0.25 ms MuJoCo takes minutes


class Steps(NamedTuple):
    """Simulation: functions for steps, for q (7 n,) as in `SixDoF`, and ground force [N] (3,)."""

    advance: Callable[[int], object]
    q: Callable[[], np.ndarray]
    borne: Callable[[], np.ndarray]


class Answer(NamedTuple):
    """State at t: q, largest deviation [m], penetration depth [m], CPU seconds per second.

    `stands` is True if all bodies were at rest in the last 4 ms.
    """

    t: float
    q: np.ndarray
    error: float
    depth: float
    time: float
    stands: bool


def ours(problem: Problem, h: float) -> Steps:
    memory = Memory(plant_of(problem, h))
    m, step, at = memory.start(), compiled_stepper(memory), memory.where
    step.initialize(m, 0.0)

    def advance(steps: int) -> None:
        for _ in range(steps):
            step.step(m, 0.0, h)

    return Steps(
        advance,
        lambda: m[at["q"]].copy(),
        lambda: m[at["f_contact"]].reshape(-1, 6)[:, 3:].sum(axis=0),
    )


def in_mjcf(problem: Problem, h: float, as_it_comes: bool = False) -> mujoco.MjModel:
    """Return the scene for MuJoCo.

    Raises:
        RuntimeError: If masses or inertias differ from the values in the library.
    """
    planes = "".join(
        f'<geom type="plane" size="0 0 1" pos="{text(one.point)}" zaxis="{text(one.normal)}"/>'
        for one in problem.ground
    )
    bodies = "".join(
        f'<body pos="{text(body.x)}" quat="{text(body.turn)}"><freejoint/>'
        f"{geom(body.shape, body.m)}</body>"
        for body in problem.bodies
    )
    how = ("", "") if as_it_comes else stiff(h)
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><size memory="200M"/>
        <option timestep="{h}" {how[0]} gravity="{text(problem.gravity)}"/>
        <compiler inertiagrouprange="0 0"/>
        <default><geom friction="{problem.mu} 0 0" condim="3" {how[1]}/></default>
        <worldbody>{planes}{bodies}</worldbody></mujoco>""")
    for k, body in enumerate(problem.bodies):
        inertia = inertia_of(body.shape, body.m)
        here = [inertia.m, *np.linalg.eigvalsh(inertia.I)]
        there = [model.body_mass[k + 1], *np.sort(model.body_inertia[k + 1])]
        if not np.allclose(here, there, rtol=1e-6):
            raise RuntimeError(f"masses and inertias differ: {here}, {there}")
    return model


def of_six_freedoms(qpos: np.ndarray) -> np.ndarray:
    """Convert q of MuJoCo's free joints to q of `SixDoF`, whose quaternion comes first."""
    return np.roll(qpos.reshape(-1, 7), 4, axis=1).ravel()


def theirs(problem: Problem, h: float, as_it_comes: bool = False) -> Steps:
    model = in_mjcf(problem, h, as_it_comes)
    data = mujoco.MjData(model)
    return Steps(
        lambda steps: mujoco.mj_step(model, data, nstep=steps),
        lambda: of_six_freedoms(data.qpos),
        lambda: data.qfrc_constraint.reshape(-1, 6)[:, :3].sum(axis=0),
    )


def gauge(problem: Problem) -> Callable[[np.ndarray], float]:
    """Return a function from q to the largest penetration depth."""
    model = in_mjcf(problem, 1e-3)
    data = mujoco.MjData(model)

    def deepest(q: np.ndarray) -> float:
        data.qpos[:] = np.roll(q.reshape(-1, 7), 3, axis=1).ravel()
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        return max(-data.contact.dist.min(initial=0.0), 0.0)

    return deepest


RIVALS: dict[str, Callable[[Problem, float], Steps]] = {
    "here": ours,
    "MuJoCo, stiff": theirs,
    "MuJoCo, defaults": lambda problem, h: theirs(problem, h, as_it_comes=True),
}  # fmt: skip
HEADS = ["problem; error [m], depth [m], CPU time per second", "step", *RIVALS]


def check_weight(problem: Problem, borne: np.ndarray) -> None:
    """Check that the ground force equals the weight.

    Raises:
        RuntimeError: If they differ by more than 1 %.
    """
    weight = sum(body.m for body in problem.bodies) * np.array(problem.gravity)
    if np.linalg.norm(borne + weight) > 1e-2 * np.linalg.norm(weight):
        raise RuntimeError(f"the ground bears {borne} N of {-weight} N")


def next_state(
    problem: Problem, h: float, run: Steps, deepest: Callable[[np.ndarray], float], one: Answer
) -> Answer:
    """Return the state after another 4 ms of motion."""
    begin = process_time()
    run.advance(round(SLICE / h))
    time, q, t = one.time + (process_time() - begin) / problem.T, run.q(), one.t + SLICE
    error, depth = max(one.error, deviation(problem, t, q)), max(one.depth, deepest(q))
    return Answer(t, q, error, depth, time, bool(np.abs(q - one.q).max() < STILL))


def final_states(problem: Problem, h: float) -> dict[str, Answer]:
    """Return the final state of each simulation; they run in turns.

    Raises:
        RuntimeError: If the ground does not carry the weight of standing bodies.
    """
    runs, deepest = {name: make(problem, h) for name, make in RIVALS.items()}, gauge(problem)
    found = {name: Answer(0.0, run.q(), 0.0, 0.0, 0.0, True) for name, run in runs.items()}
    for _ in range(round(problem.T / SLICE)):
        found = {
            name: next_state(problem, h, run, deepest, found[name]) for name, run in runs.items()
        }
    for name in (name for name in runs if found[name].stands):
        check_weight(problem, runs[name].borne())
    return found


def measured() -> Iterator[list[str]]:
    """Yield problem, step, and the results of each simulation."""
    for name, make in PROBLEMS.items():
        for h in STEPS[: 2 if name in LONG else 3]:
            cells = (
                f"{one.error:.0e}, {one.depth:.0e}, {float(f'{1e3 * one.time:.2g}'):,g} ms"
                for one in final_states(make(), h).values()
            )
            yield [name if h == STEPS[0] else "", f"{1e3 * h:g} ms", *cells]


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(" | ".join(HEADS))
    for row in measured():
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    main()
