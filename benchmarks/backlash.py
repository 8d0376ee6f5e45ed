"""Energy error of an undamped gearbox with backlash in a million tooth contacts.

A rotor and a disc turn freely, and the teeth of the gearbox between them collide. The teeth are
elastic without damping, so the relative motion is periodic. Each half period consists of the flight
through the backlash b at the relative speed v, and of half an oscillation of the teeth:

    T / 2 = b / v + pi / w,    w^2 = K (1 / I + 1 / (N^2 J))

The script prints the number of contacts, the largest relative error of the energy, and the error of
the phase, for each part of the run.

    python benchmarks/backlash.py [number of contacts]
"""

import sys
from time import process_time

import numpy as np

from rigidblocks import Model, RobotPlant
from rigidblocks.block.adaptive_methods import longest_step, memory_for, method_of
from rigidblocks.dynamics.drives import Drive, Elasticity, Gearbox
from rigidblocks.dynamics.motors import TorqueMotor
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.joints import Revolute
from rigidblocks.spatial.spatial import identity, mcI

I, J, N, K, PLAY = 0.3, 2e-5, 50.0, 2e4, 2e-3
SPEED = 50.0  # [rad/s] initial speed of the rotor
RTOL = 1e-13
PARTS = 100  # parts of the run, each with one line of output


def main() -> None:
    """Run the contacts and print the errors."""
    contacts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    model = Model("disc", (-1,), (Revolute(),), (identity(),), (mcI(1, [0, 0, 0], I * np.eye(3)),))
    teeth = Gearbox(N, backlash=PLAY)
    drive = Drive("gear", 0, TorqueMotor(J), teeth, elasticity=Elasticity(K))
    qd0 = -J * N * SPEED / I  # the total momentum I qd + N J w is zero
    plant, method = RobotPlant(model, qd0=qd0, elements=(drive,)), method_of("radau", RTOL)
    memory = memory_for(plant, method)
    stepper, where = compiled_stepper(memory, method, longest_step(method)), memory.where
    m = memory.start()
    m[where["gear_rotor_speed"]] = SPEED
    v, w = SPEED / N - qd0, np.sqrt(K * (1 / I + 1 / (N * N * J)))
    half = PLAY / v + np.pi / w
    E0 = J * SPEED**2 / 2 + I * qd0**2 / 2
    stepper.initialize(m, 0.0)
    # a whole number of periods ends in the middle of the backlash, where the motion began
    periods = contacts // (2 * PARTS)
    dt, start, worst = 2 * half, process_time(), 0.0
    for part in range(PARTS):
        rows = np.zeros((periods, memory.size))
        assert stepper.run(m, part * periods * dt, dt, rows) == periods
        worst = max(worst, float(np.abs(rows[:, where["energy"]] / E0 - 1).max()))
        m = rows[-1].copy()
        phase = float(m[where["gear_deflection"]][0]) / v
        text = f"{2 * periods * (part + 1):>9} contacts, energy error {worst:.2g}"
        print(f"{text}, phase {phase:.2g} s, {process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
