"""A ball bounces on soft ground: co-simulation, continuous system and closed form.

The robot is a ball on a vertical slide. The ground is a separate block; its inputs are position and
velocity, and its output is the force. The master holds the force between two communication points.

The mean delay of half a step adds energy, so the ground can predict the force half a step ahead
(`lead`). The method `longest_step` returns the longest stable step.

In the continuous system no signal is held. The closed form consists of segments: free flight, and a
damped oscillation about the depth at rest. The script writes build/bouncing_ball/result.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import ContinuousSystem, Model, Prismatic, RobotPlant, System, simulate
from rigidblocks.contact import GroundContact, PointKinematics, Sphere
from rigidblocks.spatial.spatial import identity, mcI

BUILD = Path("build/bouncing_ball")
T_STOP, DT = 2.0, 4e-4
M, RADIUS, HEIGHT, G = 0.5, 0.05, 0.5, 9.81  # HEIGHT is the initial height of the lowest point
K, D = 5e3, 8.0


def ball():
    """Return the model of a ball on a vertical slide."""
    inertia = mcI(M, [0.0, 0.0, 0.0], 0.4 * M * RADIUS**2 * np.eye(3))
    return Model(
        "ball", (-1,), (Prismatic(),), (identity(),), (inertia,), contact=((Sphere(RADIUS),),)
    )


def bouncing(**ground):
    """Return a system of the ball, the position of its centre and the ground."""
    model, system = ball(), System()
    system.add("ball", RobotPlant(model, q0=[HEIGHT + RADIUS], external_wrenches=True))
    system.add("points", PointKinematics(model))
    system.add("ground", GroundContact(model, K, D, **ground))
    for port in ("q", "qd"):
        system.connect(f"ball.{port}", f"points.{port}")
    for port in ("p", "v", "w"):
        system.connect(f"points.{port}", f"ground.{port}")
    system.connect("ground.f_ext", "ball.f_ext")
    return system


def continuous():
    """Return the same system as one block, in which the ground force is not held."""
    whole = System()
    whole.add("all", ContinuousSystem(bouncing()), h=1e-4)
    return whole


def in_contact(v0):
    """Return the motion after touchdown with the velocity v0 < 0, and the time at which it ends.

    The motion is a function that returns height and velocity; its argument is the time since
    touchdown. The contact ends when its force is no longer positive.
    """
    sigma, rest = D / (2 * M), -M * G / K
    omega = np.sqrt(K / M - sigma**2)
    a, b = -rest, (v0 - sigma * rest) / omega

    def motion(t):
        swing, slope = (
            a * np.cos(omega * t) + b * np.sin(omega * t),
            omega * (b * np.cos(omega * t) - a * np.sin(omega * t)),
        )
        return rest + np.exp(-sigma * t) * swing, np.exp(-sigma * t) * (slope - sigma * swing)

    def force(t):
        p, v = motion(t)
        return -K * p - D * v

    t = np.linspace(0, 2 * np.pi / omega, 1000)
    if np.all(force(t) > 0):
        return motion, np.inf  # the ball stays on the ground
    low, high = 0.0, t[np.argmax(force(t) <= 0)]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if force(middle) > 0 else (low, middle)
    return motion, low


def closed_form(time):
    """Return the height of the ball's lowest point at each time."""
    z, t0, z0, v0 = np.empty_like(time), 0.0, HEIGHT, 0.0
    while t0 < time[-1]:
        falls = (v0 + np.sqrt(v0**2 + 2 * G * z0)) / G  # time until touchdown
        flies = time >= t0
        z[flies] = z0 + v0 * (time[flies] - t0) - G * (time[flies] - t0) ** 2 / 2
        t0, v0 = t0 + falls, v0 - G * falls
        motion, lasts = in_contact(v0)
        touches = time >= t0
        z[touches] = motion(time[touches] - t0)[0]
        if np.isfinite(lasts):
            (z0, v0), t0 = motion(lasts), t0 + lasts
        else:
            t0 = np.inf
    return z


def runs():
    """Yield the name of each coupling and the heights of the ball's lowest point, every DT."""
    for lead, name in ((False, "held"), (True, "held, with lead")):
        for halving in range(2):
            dt = DT / 2**halving
            result = simulate(bouncing(sample_time=dt, lead=lead), T_STOP, dt, progress=False)
            yield f"{name}, {dt * 1e3:g} ms", result["ball.q"][:: 2**halving, 0] - RADIUS
    yield (
        "continuous",
        simulate(continuous(), T_STOP, DT, progress=False)["all.ball.q"][:, 0] - RADIUS,
    )


def draw(time, heights, exact):
    """Draw the heights and their errors relative to the closed form."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    height, error = figure.subplots(2, sharex=True)
    for name, z in heights.items():
        height.plot(time, z, label=name)
        error.semilogy(time, np.maximum(np.abs(z - exact), 1e-7), label=name)
    height.plot(time, exact, "k--", label="closed form")
    height.set_ylabel("height [m]")
    error.set_ylabel("difference to the closed form [m]")
    error.set_xlabel("time [s]")
    for axis in (height, error):
        axis.grid(alpha=0.3)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Run all couplings, compare them with the closed form, and draw."""
    for lead in (False, True):
        longest = GroundContact(ball(), K, D, sample_time=DT, lead=lead).longest_step([RADIUS])
        print(
            f"{'with' if lead else 'without'} lead the held force is stable up to a step of "
            f"{longest * 1e3:.2f} ms"
        )
    time = DT * np.arange(round(T_STOP / DT) + 1)
    heights, exact = dict(runs()), closed_form(time)
    draw(time, heights, exact)
    print(f"\n{'':28}{'error [m]':>12}{'second top [m]':>18}")
    errors = {name: np.sqrt(np.mean((z - exact) ** 2)) for name, z in heights.items()}
    bounce = (time > 0.4) & (time < 0.8)
    for name, z in (*heights.items(), ("closed form", exact)):
        print(f"{name:28}{errors.get(name, 0.0):12.2e}{z[bounce].max():18.4f}")
    print(f"\nwrote {BUILD}/result.png")
    held, finer, lead, finer_lead, continuous_error = errors.values()
    if not (
        held > 1.7 * finer and finer > 5 * lead and lead > finer_lead and continuous_error < 1e-3
    ):
        sys.exit("not the closed form as closely as it must be")


if __name__ == "__main__":
    main()
