"""A standing quadruped: time of a 1 ms step compared with MuJoCo, and real-time factor.

In the comparison with MuJoCo, the robot has two balls at each foot, so it has eight contacts. Both
engines use the same bodies, balls, plane and friction. The same PD law holds the stance. It is a
block next to the plant in this library, and actuators with kp and kv in MuJoCo.

MuJoCo has its default settings: Newton's method with at most 100 iterations to 1e-8, and soft
contacts with `solref` at 0.02 s. The time step is 1 ms. The table lists the integrator.
"""

import tempfile
import timeit
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import process_time

import mujoco
import numpy as np
from fmpy.fmi2 import FMU2Slave
from hosting import co_simulated

from rigidblocks import Model, PDController, System, export_fmu
from rigidblocks.block.integrators import INTEGRATORS
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import ContactPlant, Sphere
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import FloatingBasePlant, Step
from rigidblocks.robot.robots import quadruped

DT, N = 1e-3, 1000
STANCE = np.tile([0.0, 0.7, -1.4], 4)
HEIGHT = 0.33  # [m] initial height of the trunk
KP, KD, MU = 150.0, 2.0, 0.8
K, D = 5e3, 60.0  # [N/m], [N s/m] stiffness and damping of the ground in this library
SINKS = 0.01  # [m] allowed difference of the heights; the contact laws are different
PAIR = (Sphere(0.02, (0.0, 0.03, -0.2)), Sphere(0.02, (0.0, -0.03, -0.2)))


def on_pairs() -> Model:
    """Return the quadruped with two balls side by side at each foot."""
    model = quadruped()
    return replace(model, contact=tuple(PAIR if shapes else () for shapes in model.contact))


def standing(model: Model) -> ContinuousSystem:
    """Return the robot on the ground with its PD controller as one block."""
    system = System()
    plant = FloatingBasePlant(model, position0=(0.0, 0.0, HEIGHT), q0=STANCE)
    system.add("plant", ContactPlant(plant, K, D, MU))
    system.add("pd", PDController([KP] * 12, [KD] * 12))
    system.add("stance", Step(0.0, before=tuple(STANCE), after=tuple(STANCE)))
    wires = (
        ("plant.q", "pd.q"),
        ("plant.qd", "pd.qd"),
        ("stance.y", "pd.q_ref"),
        ("pd.tau", "plant.tau"),
    )
    for source, target in wires:
        system.connect(source, target)
    return ContinuousSystem(system)


def stepped(
    model: Model, method: str
) -> tuple[Callable[[], object], Callable[[], tuple[int, float]]]:
    """Return a function for N steps of the compiled block, and a function for its stance.

    Before that, the block stands for two seconds. The stance is the number of contacts and the
    height of the trunk [m].
    """
    stepper = compiled_stepper(Memory(standing(model), ()), INTEGRATORS[method], DT)
    m, rows = stepper.memory.start(), np.empty((N, stepper.memory.size))
    stepper.initialize(m, 0.0)
    touching = stepper.memory.where["plant.in_contact"]

    def run() -> None:
        if stepper.run(m, 0.0, DT, rows) != N:
            raise RuntimeError("the quadruped does not stand")

    run()
    run()
    height = stepper.memory.where["plant.position"].start + 2
    return run, lambda: (int(m[touching].sum()), float(m[height]))


def in_mujoco(model: Model, cone: str, integrator: str) -> str:
    """Return the scene for MuJoCo."""
    bodies: dict[int, list[int]] = {}
    for i, p in enumerate(model.parent):
        bodies.setdefault(p, []).append(i)
    motors = "".join(
        f'<position joint="{name}" kp="{KP}" kv="{KD}"/>' for name in model.joint_names[1:]
    )
    return f"""<mujoco><option timestep="{DT}" cone="{cone}" integrator="{integrator}"/>
      <worldbody><geom type="plane" size="5 5 1" friction="{MU} 0 0"/>
        {_bodies(model, bodies, -1)}</worldbody>
      <actuator>{motors}</actuator></mujoco>"""


def _bodies(model: Model, children: dict[int, list[int]], parent: int) -> str:
    return "".join(_body(model, children, i) for i in children.get(parent, ()))


def _body(model: Model, children: dict[int, list[int]], i: int) -> str:
    inertia = model.inertia[i]
    c = inertia.h / inertia.m
    I_C = inertia.I - inertia.m * (c @ c * np.eye(3) - np.outer(c, c))
    place = model.Xtree[i].r if i else (0.0, 0.0, HEIGHT)
    axis = (
        ""
        if i == 0
        else f'<joint name="{model.joint_names[i]}" axis="{_text(model.joint[i].axis)}"/>'
    )
    balls = "".join(
        f'<geom type="sphere" size="{ball.radius}" pos="{_text(ball.centre)}" friction="{MU} 0 0" '
        'contype="1" '
        'conaffinity="0"/>'
        for ball in model.contact[i]
    )
    return f"""<body pos="{_text(place)}">{axis or "<freejoint/>"}
      <inertial pos="{_text(c)}" mass="{inertia.m}" diaginertia="{_text(np.diag(I_C))}"/>{balls}
      {_bodies(model, children, i)}</body>"""


def _text(numbers: object) -> str:
    return " ".join(repr(float(x)) for x in np.asarray(numbers))


def stepped_by_mujoco(
    model: Model, cone: str, integrator: str
) -> tuple[Callable[[], object], Callable[[], tuple[int, float]], str]:
    """Return the functions of `stepped` for MuJoCo, and the name of its solver."""
    other = mujoco.MjModel.from_xml_string(in_mujoco(model, cone, integrator))
    data = mujoco.MjData(other)
    data.qpos[7:] = data.ctrl[:] = STANCE
    mujoco.mj_step(other, data, nstep=2 * N)
    if not 0.25 < data.qpos[2] < HEIGHT + 0.05:
        raise RuntimeError("the quadruped of MuJoCo does not stand")
    solver = mujoco.mjtSolver(other.opt.solver).name.removeprefix("mjSOL_").lower()
    settings = (
        f"{solver}, at most {other.opt.iterations} iterations, tolerance {other.opt.tolerance:g}"
    )
    return lambda: mujoco.mj_step(other, data, nstep=N), lambda: (data.ncon, data.qpos[2]), settings


def least(runs: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Return the least CPU time of a step [us] of each run over several rounds, in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(timeit.timeit(run, number=1, timer=process_time) / N * 1e6)
    return {name: min(measured) for name, measured in times.items()}


def check_stances(stances: dict[str, tuple[int, float]]) -> None:
    """Check that all robots stand on eight contacts at the same height.

    The heights may differ due to the different compliance of the contact laws.

    Raises:
        RuntimeError: If a stance differs.
    """
    heights = [height for _, height in stances.values()]
    if {n for n, _ in stances.values()} != {8} or np.ptp(heights) > SINKS:
        raise RuntimeError(f"the quadrupeds do not stand in the same way: {stances}")


def against_mujoco() -> None:
    """Print the time of a step with eight contacts for each engine."""
    model, runs, touching, settings = on_pairs(), {}, {}, ""
    for method in ("rk4", "semi-implicit euler"):
        runs[method], touching[method] = stepped(model, method)
    others = [
        (cone, integrator)
        for cone in ("pyramidal", "elliptic")
        for integrator in ("Euler", "implicitfast")
    ]
    for cone, integrator in others:
        name = f"MuJoCo, {cone}, {integrator}"
        runs[name], touching[name], settings = stepped_by_mujoco(model, cone, integrator)
    check_stances({name: state() for name, state in touching.items()})
    times = least(runs)
    quickest = min(time for name, time in times.items() if name.startswith("MuJoCo"))
    print(f"quadruped on two balls a foot, a step of 1 ms; MuJoCo {mujoco.__version__}: {settings}")
    for name, time in times.items():
        contacts, _ = touching[name]()
        print(
            f"{name:36} {time:8.2f} us, {contacts} contacts, {time / quickest:.2f} x the quickest "
            "MuJoCo"
        )


def real_time_factor() -> None:
    """Print the real-time factors of the kernel and the native FMU in C, with a ball per foot."""
    run, touching = stepped(quadruped(), "rk4")
    with tempfile.TemporaryDirectory() as folder:
        fmu = co_simulated(
            FMU2Slave, export_fmu(standing(quadruped()), Path(folder, "standing.fmu"), tunable=())
        )
        times = least({"kernel": run, "native FMU": lambda: fmu.run(N)})
    for name, time in times.items():
        print(
            f"{name + ', quadruped standing, rk4':36} {time:8.2f} us, {touching()[0]} contacts, "
            f"{1e3 / time:.0f} x real time"
        )


def main() -> None:
    """Print both comparisons."""
    against_mujoco()
    real_time_factor()


if __name__ == "__main__":
    main()
