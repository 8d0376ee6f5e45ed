"""A planar robot follows a command into a wall: co-simulation of five FMUs.

The five FMUs are the two-link robot, its PD controller, its command, the positions of elbow and
tip, and the wall. They are built from the scripts in fmus/. The commanded path of the tip leads
through the wall at y = 1.2 m. The robot presses on the wall, slides along it and leaves it on the
way back.

Before the contact, the results equal the results of a run without the wall. The script checks that
the wall never pulls and that friction stays within its cone. It also checks that the joint torques
balance the wall force and that the wall takes energy. It writes build/planar2_wall/result.png.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rigidblocks import System, export_fmu, planar2, simulate
from rigidblocks.dynamics import point_jacobian, rnea

BUILD = Path("build/planar2_wall")
SCRIPTS = Path(__file__).parent.parent / "fmus"
T_STOP, DT = 4.0, 1e-3
WALL, MU = 1.2, 0.3
FMUS = {"robot": "pushed", "pd": "pd", "command": "command", "points": "points", "wall": "wall"}
WIRES = {
    "pd.q_ref": "command.y",
    "pd.qd_ref": "command.slope",
    "pd.q": "robot.q",
    "pd.qd": "robot.qd",
    "robot.tau": "pd.tau",
    "points.q": "robot.q",
    "points.qd": "robot.qd",
    "wall.p": "points.p",
    "wall.v": "points.v",
    "wall.w": "points.w",
    "robot.f_ext": "wall.f_ext",
}


def fmus():
    """Build the FMUs and return their files by the names of the parts."""
    return {
        part: export_fmu(SCRIPTS / f"planar2_{script}_fmu.py", BUILD / f"{part}.fmu")
        for part, script in FMUS.items()
    }


def wired(files, mu=MU):
    """Connect the five FMUs, or four if `files` has no wall."""
    system = System()
    for part, file in files.items():
        start = {"wall": {"mu": mu}, "robot": {"f_ext": np.zeros((2, 6))}}.get(part)
        system.add(part, file, start=start)
    for target, source in WIRES.items():
        if {target.split(".")[0], source.split(".")[0]} <= set(files):
            system.connect(source, target)
    return system


def laws(result):
    """Yield the name of each check of the wall force, the computed value and its bound."""
    f = result["wall.force"]
    push, slide = -f[..., 1], np.hypot(f[..., 0], f[..., 2])
    inside = result["wall.depth"][:, 1] > 0
    yield "the wall pulls [N]", -push.min(), 0.0
    yield "friction beyond its cone [N]", (slide - MU * push).max(), 1e-9
    yield "the tip goes through by [m]", result["wall.depth"][:, 1].max(), 0.05
    yield "steps in which it does not touch", np.mean(~inside), 0.9
    yield "work that the wall does [J]", work(result), 0.0
    yield "moment that does not balance [N m]", unbalanced(result), 1e-2


def work(result):
    """Return the work of the wall on the robot [J]: the held force times the displacement."""
    f, p = result["wall.force"], result["points.p"]
    return float(np.sum(f[:-1] * np.diff(p, axis=0)))


def unbalanced(result):
    """Return the largest torque imbalance while the robot presses on the wall at t = 1.9 s.

    tau + J^T f = rnea(q, qd, qdd)
    """
    k, model = round(1.9 / DT), planar2()
    q, f = result["robot.q"][k], result["wall.force"][k]
    ends = ((0, np.array([1.0, 0.0, 0.0])), (1, np.array([1.0, 0.0, 0.0])))
    pressed = sum(point_jacobian(model, q, i, r).T @ f[i] for i, r in ends)
    inverse = rnea(model, q, result["robot.qd"][k], result["robot.qdd"][k])
    return float(np.abs(result["pd.tau"][k] + pressed - inverse).max())


def draw(result, free):
    """Draw the path and penetration depth of the tip, the joint positions and the wall force."""
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    way, force, joints, depth = figure.subplots(2, 2).flat
    way.axhspan(WALL, 1.7, color="0.85", label="wall")
    for one, name, style in ((free, "without the wall", "--"), (result, "with the wall", "-")):
        way.plot(one["points.p"][:, 1, 0], one["points.p"][:, 1, 1], style, label=name)
        for k in range(2):
            joints.plot(
                one.time, one["robot.q"][:, k], style, color=f"C{k}", label=f"q[{k + 1}] {name}"
            )
    way.set(xlabel="x of the tip [m]", ylabel="y of the tip [m]", ylim=(-0.1, 1.7))
    force.plot(result.time, -result["wall.force"][:, 1, 1], label="push")
    force.plot(result.time, result["wall.force"][:, 1, 0], label="friction")
    force.set(xlabel="time [s]", ylabel="force on the tip [N]")
    joints.set(xlabel="time [s]", ylabel="joint position [rad]")
    depth.plot(result.time, 1e3 * np.maximum(result["wall.depth"][:, 1], 0))
    depth.set(xlabel="time [s]", ylabel="depth in the wall [mm]")
    for axis in (way, force, joints):
        axis.legend(fontsize="small")
    for axis in (way, force, joints, depth):
        axis.grid(alpha=0.3)
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Build the FMUs, run with and without the wall, check and draw."""
    files = fmus()
    result = simulate(wired(files), T_STOP, DT, progress=False)
    free = simulate(
        wired({name: file for name, file in files.items() if name != "wall"}),
        T_STOP,
        DT,
        progress=False,
    )
    draw(result, free)
    touched = np.argmax(result["wall.in_contact"][:, 1] > 0)
    before = np.abs(result["robot.q"][:touched] - free["robot.q"][:touched]).max()
    print(
        f"the tip touches the wall at t = {result.time[touched]:.3f} s; until then the wall "
        f"changes q by {before:.1e} rad"
    )
    print(f"largest push {-result['wall.force'][:, 1, 1].min():.0f} N\n")
    kept = before == 0
    for name, found, most in laws(result):
        kept = kept and found <= most
        print(f"{name:36} {found:10.2e}  at most {most:g}")
    print(f"\nwrote {BUILD}/result.png")
    if not kept:
        sys.exit("the wall does not keep its laws")


if __name__ == "__main__":
    main()
