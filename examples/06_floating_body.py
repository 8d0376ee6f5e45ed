"""A body thrown into weightless space turns about its middle axis, and cannot keep to it.

Demo 4 of spatial_v2: one floating body, whose kinetic energy, momentum and centre of mass know what
they must do. The body is a box with three different moments of inertia; a turn about the middle one
is unstable, so it flips over and back. Run with inner steps of 2, 1 and 0.5 ms: the error of the
integrator falls with their fourth power. Writes build/floating_body/result.png.
"""

import sys
from pathlib import Path

import numpy as np

from rigidblocks import Model, System, simulate
from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.joint import SixDoF
from rigidblocks.library import FloatingBasePlant

BUILD = Path("build/floating_body")
T_STOP, STEPS = 12.0, (2e-3, 1e-3, 0.5e-3)
MASS, SIDES, CENTRE = 2.0, (0.1, 0.3, 0.6), (0.05, 0.02, -0.1)
VELOCITY = (0.01, 6.0, 0.02, 0.3, 0.0, 0.2)  # [w; v], nearly about the middle axis


def box():
    """A homogeneous box, its centre beside the origin of its frame, free in weightless space."""
    a, b, c = np.square(SIDES)
    inertia = mcI(MASS, CENTRE, MASS / 12 * np.diag([b + c, a + c, a + b]))
    return Model("box", (-1,), (SixDoF(),), (identity(),), (inertia,), gravity=(0.0, 0.0, 0.0))


def run(h):
    """The motion with inner steps of h."""
    system = System()
    system.add("box", FloatingBasePlant(box(), velocity0=VELOCITY), method="rk4", h=h)
    return simulate(system, T_STOP, STEPS[0], progress=False)


def changes(result):
    """How far energy, momentum, the straight path of the centre of mass and the unit quaternion are
    lost, relative.
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
    """Runs with each step, prints what is lost, checks the order, and draws."""
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
