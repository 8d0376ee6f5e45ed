"""A biped climbs six stairs, foot over foot, along a planned motion with feedback for balance.

The plan uses the linear inverted pendulum (Kajita et al. 2003). The centre of pressure moves from
foot to foot. The corresponding motion of the centre of mass solves a tridiagonal system of
equations.

Inverse kinematics gives the joint angles, and inverse dynamics the joint forces. The controller
adds PD control. The ankles shift the centre of pressure in proportion to the error of the capture
point; the hips keep the trunk upright.

The plant has rigid contact, with boxes as feet and stairs. The script checks that the trunk arrives
upright, the positions of the feet and the contact forces. It also checks that the native FMU has
the same results. The script writes build/biped/result.html, which animates the climb.
"""

import sys
import time
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np

from rigidblocks import (
    Block,
    FusedSystem,
    Port,
    Revolute,
    RigidContactPlant,
    RobotBuilder,
    SixDoF,
    System,
    animate,
    box_inertia,
    export_fmu,
    inverse_kinematics,
    rnea,
    simulate,
)
from rigidblocks.dynamics import body_jacobian, centre_of_mass, momentum
from rigidblocks.dynamics.kinematics import Target, body_poses
from rigidblocks.library import Playback
from rigidblocks.robot.configuration import difference
from rigidblocks.robot.model import capsule_inertia
from rigidblocks.robot.shapes import Box, Capsule, Plane
from rigidblocks.spatial.scalar import clip
from rigidblocks.spatial.spatial import xlt

BUILD = Path("build/biped")
T_STOP, DT, G, MU = 10.0, 1e-3, 9.81, 0.7
THIGH, SHANK, ANKLE, WIDTH = 0.36, 0.36, 0.06, 0.09  # [m]
FOOT = (0.19, 0.10, 0.03)
STAIRS, RISE, TREAD = 6, 0.08, 0.28
BEGIN, BOTH, SINGLE = 1.1, 0.42, 0.76  # [s] first lift-off, double support, single support
LEG, LIFT = 0.58, 0.05  # [m] hip to ankle of a standing leg, foot clearance over the stair
UP = np.array([0.0, 0.0, 1.0])
EVERY = 0.05  # [s] time step of the plan
KP = np.array([900.0, 900.0, 900.0, 500.0, 500.0] * 2)
KD = np.array([18.0, 18.0, 18.0, 6.0, 6.0] * 2)


def biped():
    """Return a builder of the biped: a trunk on two legs of five joints, 31 kg, boxes as feet."""
    robot = RobotBuilder("biped")
    trunk = xlt((0.0, 0.0, 0.22))
    robot.add_body(
        "trunk",
        joint=SixDoF(),
        inertia=box_inertia((0.16, 0.26, 0.44), mass=16.0, at=trunk),
        contact=[Box((0.16, 0.26, 0.28), xlt((0.0, 0.0, 0.28)))],  # above the thighs
        appearance=[Box((0.16, 0.26, 0.42), trunk)],
    )
    for leg, side in (("left", 1), ("right", -1)):
        parent, place = "trunk", (0.0, side * WIDTH, 0.0)
        for part, called, axis, below, inertia, contact in leg_bodies():
            robot.add_body(f"{leg}_{part}", parent, Revolute(axis), place, inertia,
                           joint_name=f"{leg}_{called}", contact=contact,
                           armature=0.05, damping=1.0)  # fmt: skip
            parent, place = f"{leg}_{part}", (0.0, 0.0, -below)
    return robot


def leg_bodies():
    """Yield the bodies of a leg, from the hip down.

    Each entry has the names of body and joint and the axis of the joint. It also has the distance
    down to the next joint [m], the inertia and the contact shapes.
    """
    x, y = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    thigh = Capsule(0.045, THIGH - 0.12, xlt((0, 0, -THIGH / 2)))
    shank = Capsule(0.04, SHANK - 0.12, xlt((0, 0, -SHANK / 2)))
    sole = xlt((0, 0, FOOT[2] / 2 - ANKLE))
    small, foot = box_inertia((0.08, 0.08, 0.08), mass=0.6), box_inertia(FOOT, mass=0.9, at=sole)
    thick, thin = (
        capsule_inertia(limb.radius, limb.height, mass=m, at=limb.placement)
        for limb, m in ((thigh, 3.4), (shank, 2.2))
    )
    yield "hip", "hip_roll", x, 0.0, small, []
    yield "thigh", "hip_pitch", y, THIGH, thick, [thigh]
    yield "shank", "knee", y, SHANK, thin, [shank]
    yield "ankle", "ankle_pitch", y, 0.0, small, []
    yield "foot", "ankle_roll", x, 0.0, foot, [Box(FOOT, sole)]


def stairs():
    """Yield the floor and the stairs on it; the last stair is a landing."""
    yield Plane()
    for k in range(1, STAIRS + 1):
        long = TREAD if k < STAIRS else 3 * TREAD
        x = (k - 0.5) * TREAD + long / 2
        yield Box((long, 1.0, k * RISE), xlt((x, 0.0, k * RISE / 2)))


def blend(s):
    """Return a quintic polynomial from 0 to 1 with zero velocity and acceleration at both ends."""
    s = np.clip(s, 0.0, 1.0)
    return s**3 * (10 - 15 * s + 6 * s**2)


def place_of(k, side):
    """Return the foothold on stair k (0 is the floor): the point below the ankle."""
    k = min(k, STAIRS)
    return np.array([k * TREAD, side * WIDTH, k * RISE])


def footsteps():
    """Yield start time [s], swing foot (0 left), initial and final stair of each step."""
    at, stair = BEGIN, [0, 0]
    for k in range(1, STAIRS + 2):
        foot = k % 2
        yield at, foot, stair[foot], min(k, STAIRS)
        stair[foot] = min(k, STAIRS)
        at += SINGLE + BOTH


def planned_feet(t):
    """Return the foot positions (n, 2, 3) at the times t (n,), and the left foot's load share."""
    feet = np.tile([place_of(0, 1), place_of(0, -1)], (len(t), 1, 1))
    share, last = np.full(len(t), 0.5), BEGIN - 2 * BOTH
    for begin, foot, start, end in footsteps():
        now, a, b = t >= begin, place_of(start, 1 - 2 * foot), place_of(end, 1 - 2 * foot)
        s = (t[now] - begin) / SINGLE
        top = max(a[2], b[2]) + LIFT
        feet[now, foot] = a + (b - a) * blend((s - 0.25) / 0.6)[:, None]
        up, down = blend(s / 0.5), blend((s - 0.7) / 0.3)
        feet[now, foot, 2] = a[2] + (top - a[2]) * up + (b[2] - top) * down
        shift = blend((t - last) / (begin - last))
        share = share + (foot - share) * np.where(t >= last, shift, 0.0)
        last = begin + SINGLE
    shift = blend((t - last) / BOTH)
    return feet, share + (0.5 - share) * np.where(t >= last, shift, 0.0)


def planned_middle(t, pressure, height):
    """Return the centre of mass (n, 2) [m] for a centre of pressure p (n, 2), at rest at the end.

    x - (z / g) x'' = p
    """
    n, c = len(t), height / G / (t[1] - t[0]) ** 2
    A = np.eye(n)
    for k in range(1, n - 1):
        A[k, k - 1 : k + 2] += np.array([-c, 2 * c, -c])
    return np.linalg.solve(A, pressure)


def posture(model, middle, feet, q):
    """Return q with an upright trunk, flat feet and the centre of mass above `middle` (2,).

    The trunk keeps its height from the argument q.
    """
    trunk = q[4:7].copy()
    for _ in range(2):
        targets = [Target("trunk", xlt(trunk))]
        targets += [Target(f"{leg}_foot", xlt(place + UP * ANKLE))
                    for leg, place in zip(("left", "right"), feet, strict=True)]  # fmt: skip
        found = inverse_kinematics(model, targets, q, tolerance=1e-8)
        if not found.reached:
            raise ValueError(f"no posture has the feet at {feet.tolist()}: {found.error}")
        q = found.q
        trunk[:2] += middle - centre_of_mass(model, q)[:2]
    return q


def forces(model, q, qd, qdd, share, feet):
    """Return the joint forces (10,) of a motion if `share` of the weight is on the left foot."""
    tau = rnea(model, q, qd, qdd)
    X = body_poses(model, q)[0]
    n, f = X.E.T @ tau[:3], X.E.T @ tau[3:6]  # about the trunk's origin, in base coordinates
    shares = (share, 1.0 - share)
    middle = sum(s * place for s, place in zip(shares, feet, strict=True))
    moment = n - np.cross(
        middle - X.r, f
    )  # moment that remains if each foot carries its load share
    for leg, s, place in zip(("left", "right"), shares, feet, strict=True):
        Y = body_poses(model, q)[model.body_names.index(f"{leg}_foot")]
        push = s * np.concatenate([Y.E @ (moment + np.cross(place - Y.r, f)), Y.E @ f])
        tau = tau - body_jacobian(model, q, f"{leg}_foot").T @ push
    return tau[6:]


@cache
def plan():
    """Return times (n,), q (n, nq), joint forces (n, 10) and the left foot's load share (n,)."""
    model, t = biped().model(), np.arange(0.0, T_STOP + EVERY / 2, EVERY)
    feet, share = planned_feet(t)
    pressure = share[:, None] * feet[:, 0] + (1 - share)[:, None] * feet[:, 1]
    middle = planned_middle(t, pressure[:, :2], LEG + ANKLE + 0.03)
    q = np.zeros(model.nq)
    q[0], q[7:] = 1.0, [0.0, -0.6, 1.2, -0.6, 0.0] * 2
    rows = []
    for k in range(len(t)):
        q[6] = pressure[k, 2] + ANKLE + LEG
        rows.append(q := posture(model, middle[k], feet[k], q))
    q = np.array(rows)
    qd = np.array([difference(model, a, b) for a, b in zip(q[:-2], q[2:], strict=True)])
    qd = np.pad(qd / (2 * EVERY), ((1, 1), (0, 0)))
    qdd = np.gradient(qd, EVERY, axis=0)
    tau = [forces(model, *of) for of in zip(q, qd, qdd, share, feet, strict=True)]
    return t, q, np.array(tau), share


@dataclass(frozen=True)
class Balance(Block):
    """Joint forces for a plan: feedforward, PD control and balance control.

    The hips keep the trunk upright. The error of the capture point shifts the centre of pressure
    under the feet. Each leg contributes its load share to the hip and ankle terms. The weight
    scales the shift.
    """

    weight: float
    upright: float = 300.0  # [N m/rad] stiffness of the trunk's tilt
    turning: float = 30.0  # [N m s/rad] damping of the trunk's tilt
    gain: float = 0.5
    most: float = 0.03  # [m] largest shift of the centre of pressure

    inputs = (
        Port("q", (17,), ("1",) * 4 + ("m",) * 3 + ("rad",) * 10),
        Port("qd", (16,), ("rad/s",) * 3 + ("m/s",) * 3 + ("rad/s",) * 10),
        Port("q_ref", (10,), "rad"),
        Port("qd_ref", (10,), "rad/s"),
        Port("trunk_ref", (2,), "m"),
        Port("v_ref", (2,), "m/s"),
        Port("share", (1,), "1"),
        Port("tau_ref", (10,), "N.m"),
    )
    outputs = (Port("tau", (10,), "N.m"),)

    def output(self, u):
        time_constant = np.sqrt((LEG + ANKLE) / G)
        ahead = (u.q[4:6] - u.trunk_ref) + time_constant * (u.qd[3:5] - u.v_ref)
        shift = clip(self.gain * ahead, -self.most, self.most) * self.weight
        roll, pitch = 2 * self.upright * u.q[1:3] + self.turning * u.qd[:2]
        zero = 0.0 * roll
        stance = np.array([roll, pitch, zero, shift[0], -shift[1]])
        shares = np.concatenate([u.share[0] * stance, (1.0 - u.share[0]) * stance])
        follow = KP * (u.q_ref - u.q[7:]) + KD * (u.qd_ref - u.qd[6:])
        return {"tau": u.tau_ref + follow + shares}


def climbing(robot):
    """Return the system of the robot, its plan and its controller."""
    t, q, tau, share = plan()
    model = biped().model()
    weight, joints = G * sum(body.m for body in model.inertia), model.joint_names[1:]
    columns = (*joints, "x", "y", "share", *(f"force of {joint}" for joint in joints))
    table = StringIO()
    np.savetxt(table, np.column_stack([t, q[:, 7:], q[:, 4:6], share, tau]), "%.17g", ",",
               header=",".join(("time", *columns)), comments="")  # fmt: skip
    table.seek(0)
    system = System()
    system.add("robot", robot)
    system.add("balance", Balance(weight))
    system.add("plan", Playback(table, columns, ("rad",) * 10 + ("m", "m", "1") + ("N.m",) * 10))
    for source, target in (
        ("robot.q", "balance.q"),
        ("robot.qd", "balance.qd"),
        ("plan.y[1:10]", "balance.q_ref"),
        ("plan.slope[1:10]", "balance.qd_ref"),
        ("plan.y[11:12]", "balance.trunk_ref"),
        ("plan.slope[11:12]", "balance.v_ref"),
        ("plan.y[13:13]", "balance.share"),
        ("plan.y[14:23]", "balance.tau_ref"),
        ("balance.tau", "robot.tau[7:16]"),
    ):
        system.connect(source, target)
    return system


def plant(**options):
    """Return the robot on its feet in front of the stairs."""
    found = biped().description()
    return RigidContactPlant(
        found.model,
        tuple(stairs()),
        q0=plan()[1][0],
        joint_properties=found.joint_properties,
        mu=MU,
        **options,
    )


def footholds(result):
    """Yield the position error [m] of each stance foot at lift-off of the other, and at the end."""
    model, now = biped().model(), dict(enumerate(place_of(0, side) for side in (1, -1)))
    moments = [(at, 1 - foot, end) for at, foot, _, end in footsteps()]
    for k, (at, foot, _) in enumerate(moments):
        X = body_poses(model, result["robot.q"][round(at / DT)])
        yield now[foot] - X[model.body_names.index(("left_foot", "right_foot")[foot])].r
        now[1 - foot] = place_of(moments[k][2], 2 * foot - 1)
    for foot, name in enumerate(("left_foot", "right_foot")):
        yield now[foot] - body_poses(model, result["robot.q"][-1])[model.body_names.index(name)].r


def checks(result, model):
    """Yield the name of each check, the computed value, its lower and its upper bound."""
    q, f = result["robot.q"], result["robot.f_contact"][:, :, 3:]
    lean = 2 * np.linalg.norm(q[:, 1:3], axis=1)
    yield "it leans by [rad]", lean.max(), 0.0, 0.1
    yield "it has climbed [m]", q[-1, 6] - q[0, 6], STAIRS * RISE - 0.01, STAIRS * RISE + 0.01
    off = np.array([np.linalg.norm(gap[:2]) for gap in footholds(result)])
    yield "feet off their places [m]", off.max(), 0.0, 0.04
    yield "speed at the end [rad/s, m/s]", np.abs(result["robot.qd"][-1]).max(), 0.0, 0.05
    feet = [model.body_names.index(f"{leg}_foot") for leg in ("left", "right")]
    touching = result["robot.in_contact"].astype(bool)
    yield "parts but feet that touched", np.delete(touching, feet, axis=1).sum(), 0, 0
    yield "the stairs pull [N]", max(0.0, -f[:, feet, 2].min()), 0.0, 1e-9
    yield "momentum from nowhere [N s]", unexplained_momentum(result, model), 0.0, 0.3
    yield "deepest contact [m]", result["robot.depth"].max(), 0.0, 1e-4


def unexplained_momentum(result, model):
    """Return the largest error [N s] of the momentum balance with contact forces and weight."""
    rows = zip(result["robot.q"], result["robot.qd"], strict=True)
    p = np.array([momentum(model, q, qd)[3:] for q, qd in rows])
    weight = sum(body.m for body in model.inertia) * model.gravity
    f = result["robot.f_contact"][:, :, 3:].sum(axis=1)
    given = np.cumsum((f + weight) * DT, axis=0)
    return np.abs((p - p[0]) - (given - given[0])).max()


def main():
    """Run the blocks and the native FMU of plant and controller, check, and write the page."""
    robot = plant()
    system = climbing(robot)
    result = simulate(system, T_STOP, DT, progress=False)
    fmu, both = export_fmu(FusedSystem(system, DT), BUILD / "biped.fmu"), System()
    both.add("all", fmu)
    begin = time.process_time()
    run = simulate(both, T_STOP, DT, progress=False)
    faster = T_STOP / (time.process_time() - begin)
    apart = np.abs(run["all.robot.q"] - result["robot.q"]).max()
    print(f"native FMU: {faster:.0f} x real time at 1 kHz with its controller,", end=" ")
    print(f"{apart:.1e} from the blocks without an FMU\n")
    climbs = apart < 1e-12
    for name, found, least, most in checks(result, robot.model):
        climbs = climbs and bool(least <= found <= most)
        print(f"{name:32} {found:10.2e}  within {least:g} .. {most:g}")
    animate(result, system, BUILD / "result.html", signals=["robot.contacts", "balance.tau"])
    print(f"\nopen {BUILD}/result.html to see it climb")
    if not climbs:
        sys.exit("it does not climb as it must")


if __name__ == "__main__":
    main()
