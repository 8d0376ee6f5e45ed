"""An arm of seven joints with complete drives as one native FMU: time of a step, and accuracy.

Each joint has a DC motor (L / R = 0.2 ms), a current loop, a position servo, and a harmonic drive
with nonlinear stiffness, kinematic error, backlash and friction. The reference positions are sine
waves with the amplitude 0.3 rad and the frequency 0.5 Hz, as parts of the FMU. The FMU has its
default method and tolerance. The script compares the states after 0.1 s with SciPy's Radau on the
same equations, and prints the mean CPU time of a step of 1 ms.

    python benchmarks/driven_arm.py
"""

import tempfile
from pathlib import Path
from time import process_time

import numpy as np
from fmpy.fmi2 import FMU2Slave
from hosting import Stepped, co_simulated
from scipy.integrate import solve_ivp

from rigidblocks import RobotPlant, Sine, System, export_fmu
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.dynamics.drives import Drive, Elasticity, Gearbox, PositionServo
from rigidblocks.dynamics.force_laws import Friction
from rigidblocks.dynamics.motors import DCMotor, bandwidth_gains
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.robot.robots import dh_chain
from rigidblocks.spatial.spatial import mcI

ROWS = (  # a, alpha, d, theta of an arm with the dimensions of an LBR iiwa 14
    (0, 0, 0.36, 0),
    (0, -np.pi / 2, 0, 0),
    (0, np.pi / 2, 0.42, 0),
    (0, np.pi / 2, 0, 0),
    (0, -np.pi / 2, 0.4, 0),
    (0, -np.pi / 2, 0, 0),
    (0, np.pi / 2, 0.126, 0),
)
MASS = (4.0, 4.0, 3.0, 2.7, 1.7, 1.8, 3.3)  # [kg] the last body holds a payload of 3 kg
ROTOR = (4e-5, 4e-5, 2e-5, 2e-5, 1e-5, 1e-5, 5e-6)  # [kg m^2]
STIFFNESS = (3e4, 3e4, 2e4, 2e4, 1e4, 1e4, 5e3)  # [N m/rad]
KP = (4000.0, 4000.0, 2000.0, 2000.0, 500.0, 500.0, 150.0)  # [N m/rad]
KD = (300.0, 300.0, 120.0, 120.0, 25.0, 25.0, 6.0)  # [N m s/rad]
COMPARED = 0.1  # [s]
SEGMENT, SEGMENTS = 100, 10  # steps of one measurement, number of measurements
LIMIT = 1e-6  # largest error of a state, relative to its value or 1


def arm() -> RobotPlant:
    """Return the arm with its drives."""
    inertia = [
        mcI(m, [0, 0.02 * (-1) ** k, 0.06 * (k % 2 == 0)], m * np.diag([0.01, 0.01, 0.004]))
        for k, m in enumerate(MASS)
    ]
    drives = []
    for k, (J, K, kp, kd) in enumerate(zip(ROTOR, STIFFNESS, KP, KD, strict=True)):
        motor = DCMotor(R=0.5, L=1e-4, k=0.05, inertia=J, voltage_max=48.0)
        drives.append(
            Drive(
                f"drive{k + 1}",
                k,
                motor,
                Gearbox(100.0, backlash=2e-4),
                bandwidth_gains(motor, 2000.0),
                PositionServo(kp, kd=kd),
                Elasticity(K, D=3e-4 * K, K3=1e3 * K, error=1e-4),
                motor_friction=Friction(0.01, 1e-5, 5.0),
            )
        )
    return RobotPlant(dh_chain(ROWS, inertia, name="arm"), elements=tuple(drives))


def moving_arm() -> ContinuousSystem:
    """Return the arm and its reference positions as one block."""
    system = System()
    system.add("arm", arm())
    for k in range(7):
        sign = (-1) ** k
        wave = Sine(0.3 * sign, 0.5, -np.pi / 2, 0.3 * sign)  # begins at rest
        system.add(f"wave{k + 1}", wave)
        system.connect(f"wave{k + 1}.y[1]", f"arm.drive{k + 1}_command")
    return ContinuousSystem(system)


def by_scipy(block: ContinuousSystem) -> np.ndarray:
    """Return the states after `COMPARED` seconds from Radau with a relative tolerance of 1e-9."""
    memory = Memory(block)
    evaluator, m = TracedEvaluator(memory), memory.start()

    def derivative(t: float, x: np.ndarray) -> np.ndarray:
        m[0], m[memory.x] = t, x
        return evaluator.derivative(m)

    start = m[memory.x].copy()
    found = solve_ivp(derivative, (0, COMPARED), start, "Radau", rtol=1e-9, atol=1e-11)
    last: np.ndarray = found.y[:, -1]
    return last


def main() -> None:
    """Print the error and the times."""
    block = moving_arm()
    count = Memory(block).x.stop - Memory(block).x.start
    with tempfile.TemporaryDirectory() as folder:
        path = export_fmu(block, Path(folder) / "arm.fmu")
        form: Stepped = co_simulated(FMU2Slave, path)
        times = []
        for segment in range(SEGMENTS):
            begin = process_time()
            form.run(SEGMENT)
            times.append((process_time() - begin) / SEGMENT)
            if (segment + 1) * SEGMENT * 1e-3 == COMPARED:
                reached = np.array(form.kept.getReal(range(1, count + 1)))
        expected = by_scipy(block)
        error = np.abs(reached - expected) / np.maximum(1.0, np.abs(expected))
        print(f"error of the states after {COMPARED} s: {error.max():.1e}")
        assert error.max() < LIMIT
        text = " ".join(f"{1e6 * time:.1f}" for time in times)
        print(f"time of a step in each 0.1 s: {text} us, mean {1e6 * np.mean(times):.1f} us")


if __name__ == "__main__":
    main()
