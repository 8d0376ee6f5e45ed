"""Unstable rotation of a body about its intermediate axis in weightless space.

This is demo 4 of spatial_v2. One floating body conserves its kinetic energy and momentum, and its
centre of mass moves on a straight line. The body is a box with three different moments of inertia.
Rotation about the intermediate axis is unstable, so the box flips over and back.

The script runs the body with inner steps of 2, 1 and 0.5 ms. The integration error is proportional
to the fourth power of the step size. The script writes build/floating_body/result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import Model, System, simulate
from rigidblocks.library import FloatingBasePlant
from rigidblocks.robot.joints import SixDoF
from rigidblocks.spatial.spatial import identity, mcI

BUILD = Path("build/floating_body")
T_STOP, STEPS = 12.0, (2e-3, 1e-3, 0.5e-3)
MASS, SIDES, CENTRE = 2.0, (0.1, 0.3, 0.6), (0.05, 0.02, -0.1)
VELOCITY = (0.01, 6.0, 0.02, 0.3, 0.0, 0.2)  # [w; v], almost a rotation about the intermediate axis


def box():
    """Return a free homogeneous box whose centre of mass is not at the origin of its frame."""
    a, b, c = np.square(SIDES)
    inertia = mcI(MASS, CENTRE, MASS / 12 * np.diag([b + c, a + c, a + b]))
    return Model("box", (-1,), (SixDoF(),), (identity(),), (inertia,), gravity=(0.0, 0.0, 0.0))


def run(h):
    """Return the result of a run with inner steps of h [s]."""
    system = System()
    system.add("box", FloatingBasePlant(box(), velocity0=VELOCITY), method="rk4", h=h)
    return simulate(system, T_STOP, STEPS[0], progress=False)


def changes(result):
    """Return the relative drifts of the conserved quantities.

    The quantities are the energy, the momentum, the straight path of the centre of mass and the
    norm of the quaternion.
    """
    h, com = result["box.momentum"], result["box.com"]
    path = com[0] + np.outer(result.time, h[0, 3:] / MASS)
    quaternion = np.linalg.norm(result["box.quaternion"], axis=1)
    return {
        "energy": np.abs(result["box.energy"] / result["box.energy"][0] - 1).max(),
        "momentum": np.abs(h - h[0]).max() / np.abs(h[0]).max(),
        "centre of mass": np.abs(com - path).max() / np.abs(path).max(),
        "unit quaternion": np.abs(quaternion - 1).max(),
    }


def main():
    """Run with each step size, print the drifts, check the order of convergence, and draw."""
    results = {h: run(h) for h in STEPS}
    lost = {h: changes(result) for h, result in results.items()}
    print(
        f"{'largest relative change of':28}"
        + "".join(f"{f'h = {h * 1e3:g} ms':>14}" for h in STEPS)
    )
    for name in lost[STEPS[0]]:
        print(f"{name:28}" + "".join(f"{lost[h][name]:14.1e}" for h in STEPS))
    finest = results[STEPS[-1]]
    about_middle = finest["box.velocity"][:, 1]
    flips = int(np.count_nonzero(np.diff(np.sign(about_middle))))
    print(f"\nthe body flips over {flips} times in {T_STOP:g} s")
    finest.plot("box.velocity", "box.quaternion", "box.momentum", path=BUILD / "result.png")
    print(f"wrote {BUILD}/result.png")
    falls = [lost[2 * h]["energy"] / lost[h]["energy"] for h in STEPS[1:]]
    if not (min(falls) > 2**4 * 0.8 and max(lost[STEPS[-1]].values()) < 1e-8 and flips > 1):
        sys.exit(f"not conserved as RK4 must: errors fall by {falls}")


if __name__ == "__main__":
    main()
