"""Steps of robots that stand on springs in their joints, from the same MJCF, beside MuJoCo's
mj_step as it comes (pyramidal cone, Newton's method): processor time, and how well the ground bears
them.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import NamedTuple

import gymnasium
import mujoco
import numpy as np

from rigidblocks import RigidContactPlant
from rigidblocks.block.memory import Memory
from rigidblocks.formats.load import load_model
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.model.shapes import Plane

H, T, G = 1e-3, 2.0, 9.81

LEG = """<body name="hip{k}" pos="{x} {y} 0">
  <inertial pos="0 0 0" mass="0.5" diaginertia="1e-3 1e-3 1e-3"/>
  <joint axis="1 0 0" stiffness="2000" damping="10"/>
  <body name="thigh{k}" pos="0 {side} 0">
    <inertial pos="0 0 -0.1" mass="0.8" diaginertia="3e-3 3e-3 3e-4"/>
    <joint axis="0 1 0" stiffness="60" damping="2" springref="40"/>
    <body name="shank{k}" pos="0 0 -0.2">
      <inertial pos="0 0 -0.1" mass="0.4" diaginertia="1.5e-3 1.5e-3 1e-4"/>
      <joint axis="0 1 0" stiffness="60" damping="2" springref="-80"/>
      <geom type="capsule" fromto="0 -0.03 -0.2 0 0.03 -0.2" size="0.02" mass="0"/>
    </body></body></body>"""


def quadruped() -> str:
    """Four legs of three joints; feet are capsules across, with two points of contact each."""
    places = [(x, y) for x in (0.2, -0.2) for y in (0.1, -0.1)]
    legs = "".join(LEG.format(k=k, x=x, y=y, side=0.8 * y) for k, (x, y) in enumerate(places))
    return f"""<mujoco><compiler angle="degree"/><option timestep="{H}"/>
        <default><geom friction="0.6 0 0" condim="3"/></default>
        <worldbody><geom type="plane" size="0 0 1"/>
        <body name="trunk" pos="0 0 0.36"><freejoint/>
        <inertial pos="0 0 0" mass="6" diaginertia="0.03 0.11 0.12"/>{legs}</body>
        </worldbody></mujoco>"""


def humanoid() -> str:
    """That of gymnasium, its joints stiffer, on feet of two boxes each: heel and toe, with four
    points of contact each.
    """
    path = Path(gymnasium.__file__).parent / "envs/mujoco/assets/humanoid.xml"
    text = re.sub(r"<(option|actuator|tendon)\b.*?</\1>|<asset>.*?</asset>", "", path.read_text(),
                  flags=re.DOTALL)  # fmt: skip
    text = re.sub(r' (material|stiffness|damping|limited)="[^"]*"', "", text)
    text = text.replace('<joint armature="1"', '<joint stiffness="800" damping="20"')
    text = text.replace('name="root"', 'name="root" stiffness="0" damping="0"')
    text = text.replace('condim="1" contype="1"', 'condim="3" contype="1" friction="0.6 0 0"')
    for side in ("right", "left"):
        toe = "".join(
            f'<geom type="box" size="0.05 0.05 0.02" pos="{x} 0 0.06"/>' for x in (-0.05, 0.1)
        )
        text = re.sub(rf'<geom name="{side}_foot"[^>]*/>', toe, text)
    head, end, rest = text.partition("<worldbody>")
    return f'{head}<option timestep="{H}"/>{end}{rest}'


class Standing(NamedTuple):
    """Microseconds a step, contacts at the end, and by how much what the ground bears differs from
    the weight, relative to it.
    """

    time: float
    contacts: int
    off: float


def side_by_side(text: str, slices: int = 10) -> tuple[Standing, Standing]:
    """Both from the same file, in turn."""
    path = Path(tempfile.mkdtemp(), "robot.xml")
    path.write_text(text)
    robot = load_model(path)
    other = mujoco.MjModel.from_xml_path(str(path))
    data, steps = mujoco.MjData(other), round(T / H) // slices
    place, turn, joints = np.split(data.qpos, [3, 7])
    q0 = np.concatenate([turn, place, joints])
    plant = RigidContactPlant(robot.model, (Plane(),), q0=q0, mu=0.6, apart=robot.apart,
                              freedoms=robot.freedoms, sample_time=H)  # fmt: skip
    memory = Memory(plant)
    m, step, rows = memory.start(), compiled_stepper(memory), np.empty((steps, memory.size))
    step.initialize(m, 0.0)
    spent = [0.0, 0.0]
    for k in range(slices):
        start = process_time()
        step.run(m, k * steps * H, H, rows)
        middle = process_time()
        mujoco.mj_step(other, data, nstep=steps)
        spent[0] += middle - start
        spent[1] += process_time() - middle
    weight = G * sum(body.m for body in robot.model.inertia)
    borne = m[memory.where["f_contact"]].reshape(-1, 6)[:, 5].sum()
    theirs = data.qfrc_constraint[2]
    us = [1e6 * one / (slices * steps) for one in spent]
    return (
        Standing(us[0], int(m[memory.where["contacts"]][0]), abs(borne / weight - 1)),
        Standing(us[1], data.ncon, abs(theirs / weight - 1)),
    )


ROBOTS = {
    "quadruped of 18 freedoms stands": quadruped,
    "humanoid of 23 freedoms stands": humanoid,
}


def measured() -> Iterator[list[str]]:
    """The processor time of a step of both on the mean, and contacts at the end."""
    for name, text in ROBOTS.items():
        here, theirs = side_by_side(text())
        if max(here.off, theirs.off) > 1e-2:
            raise RuntimeError(f"{name}: the ground bears {here.off}, {theirs.off} too little")
        cells = [f"{one.time:.3g} us, {one.contacts} contacts" for one in (here, theirs)]
        yield [name, *cells, f"{here.time / theirs.time:.2f} x"]


if __name__ == "__main__":
    for row in measured():
        print(" | ".join(row), flush=True)
