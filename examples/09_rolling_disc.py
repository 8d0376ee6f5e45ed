"""A disc with sixteen sides is thrown on the ground, rolls, falls over and comes to rest.

This is demo 7 of spatial_v2. A free body touches the ground with the corners of its two rims. The
contact has K = 1e6 and D = 2000 (the force is proportional to depth^1.5), and the friction
coefficient is 0.1. Ground and body form one continuous system, so no force is held.

The script checks energy, friction and the final state. The energy, including the energy of the
ground's springs, never grows. The friction forces stay in their cones. At the end, the disc lies
flat, with its weight on one rim.

The script writes build/rolling_disc/result.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import ContinuousSystem, Model, RobotPlant, SixDoF, System, simulate
from rigidblocks.contact import Cylinder, GroundContact, PointKinematics
from rigidblocks.spatial.spatial import identity, mcI, rotx

BUILD = Path("build/rolling_disc")
T_STOP, DT, H = 3.0, 2e-3, 1e-4
MASS, RADIUS, THICKNESS, SIDES, G = 0.5, 0.15, 0.03, 16, 9.81
K, D, MU = 1e6, 2e3, 0.1
K_T, D_T = 3e4, 60.0  # tangential stiffness and damping: about the normal values at a depth of 1 mm
SPEED, LEAN = 1.5, 0.1


def disc():
    """Return a homogeneous disc with its axis along y."""
    across = MASS / 12 * (3 * RADIUS**2 + THICKNESS**2)
    inertia = mcI(MASS, [0.0, 0.0, 0.0], np.diag([across, MASS * RADIUS**2 / 2, across]))
    shape = Cylinder(RADIUS, THICKNESS, SIDES, rotx(-np.pi / 2))
    return Model("disc", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((shape,),))


def thrown():
    """Return disc and ground as one part; the disc rolls along x and leans slightly sideways."""
    model, system = disc(), System()
    quaternion = [np.cos(LEAN / 2), np.sin(LEAN / 2), 0.0, 0.0]
    height = RADIUS * np.cos(LEAN) + THICKNESS / 2 * np.sin(LEAN)
    spin = [0.0, SPEED / RADIUS, 0.0, SPEED, 0.0, 0.0]  # [w; v] in the body's coordinates
    system.add(
        "disc",
        RobotPlant(model, [*quaternion, 0.0, 0.0, height + 1e-3], spin, external_wrenches=True),
    )
    system.add("points", PointKinematics(model))
    system.add("ground", GroundContact(model, K, D, MU, K_t=K_T, D_t=D_T, depth_ref=1.0))
    for port in ("q", "qd"):
        system.connect(f"disc.{port}", f"points.{port}")
    for port in ("p", "v"):
        system.connect(f"points.{port}", f"ground.{port}")
    system.connect("ground.f_ext", "disc.f_ext")
    whole = System()
    whole.add("all", ContinuousSystem(system), h=H)
    return whole


def tilt(quaternion):
    """Return the angle between the disc's axis and the ground [rad]: 0 upright, pi/2 flat."""
    w, x, y, z = quaternion.T
    return np.arcsin(np.clip(np.abs(2 * (y * z + w * x)), 0, 1))


def draw(result, energy):
    """Draw the paths of disc and contact points from above, the tilt, the height and the energy."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    above, angle, joules = figure.subplots(3, height_ratios=[2, 1, 1])
    q, p, touches = (
        result["all.disc.q"],
        result["all.points.p"],
        result["all.ground.in_contact"] > 0,
    )
    marks = above.scatter(
        *p[touches][:, :2].T,
        s=4,
        c=np.repeat(result.time, touches.sum(axis=1)),
        label="points that touch",
    )
    above.plot(q[:, 4], q[:, 5], "k", lw=1, label="centre of the disc")
    figure.colorbar(marks, ax=above, label="time [s]")
    above.set_aspect("equal", adjustable="datalim")
    above.set_xlabel("x [m]")
    above.set_ylabel("y [m]")
    above.legend(fontsize="small")
    angle.plot(result.time, np.degrees(tilt(q[:, :4])))
    angle.set_ylabel("lean of the disc [deg]")
    joules.plot(result.time, energy, label="of the disc and the springs")
    joules.plot(result.time, result["all.disc.energy"], "--", label="of the disc")
    joules.set_ylabel("energy [J]")
    joules.set_xlabel("time [s]")
    joules.legend(fontsize="small")
    for axis in (above, angle, joules):
        axis.grid(alpha=0.3)
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)
    print(f"wrote {BUILD}/result.png")


def main():
    """Throw the disc, check energy, friction and final state, and draw."""
    result = simulate(thrown(), T_STOP, DT, progress=False)
    f, depth = result["all.ground.force"], np.maximum(result["all.ground.depth"], 0)
    springs = (0.4 * K * depth**2.5).sum(axis=1)  # integral of K d^1.5
    energy = result["all.disc.energy"] + springs
    grows = np.diff(energy).max()
    tangential, normal = np.linalg.norm(f[..., :2], axis=-1), f[..., 2]
    in_cone = bool(np.all(tangential <= MU * normal * (1 + 1e-9)))
    q, speed = result["all.disc.q"][-1], np.abs(result["all.disc.qd"][-1]).max()
    print(
        f"it rolled {np.hypot(*q[4:6]):.2f} m far and ends with its centre {q[6] * 1e3:.2f} mm "
        "above the ground"
    )
    print(
        f"deepest contact {depth.max() * 1e3:.2f} mm, hardest {normal.max():.0f} N; weight at "
        ""
        "the end "
        f"{normal[-1].sum() / MASS / G:.6f} of its own, speed {speed:.1e}"
    )
    print(
        f"friction in its cone: {in_cone}; energy {energy[0]:.3f} J, then {energy[-1]:.3f} J; it "
        f"grows by {grows:.0e} J"
    )
    draw(result, energy)
    flat = abs(q[6] - THICKNESS / 2) < 1e-3
    if not (
        in_cone
        and flat
        and grows < 1e-6 * energy[0]
        and abs(normal[-1].sum() / (MASS * G) - 1) < 1e-3
    ):
        sys.exit("the disc does not do what it must")


if __name__ == "__main__":
    main()
