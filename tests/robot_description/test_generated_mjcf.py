"""Generated MJCF files compared with MuJoCo, without contacts and limits.

Each file is a random tree of all joint types with springs, damping, armature, gravity compensation,
a fluid, fixed tendons and disabled flags. The relative tolerance of accelerations is 1e-9, a bound
on the rounding errors of both libraries; the largest difference in 599 files was 2e-12.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_mjcf import mjcf, mujoco

from rigidblocks.block.block import Record
from rigidblocks.library.plant_from_file import described_elements
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot_description.load import load_model
from robots_of_peers import acceleration_from_mujoco, mujoco_state

pytestmark = pytest.mark.interop
RTOL = 1e-9


class Generator:
    """Generator of MJCF texts from a random number generator."""

    def __init__(self, rng):
        self.rng, self.joints, self.bodies = rng, [], 0

    def number(self, a, b):
        return round(float(self.rng.uniform(a, b)), 3)

    def vector(self, size):
        return " ".join(str(self.number(-size, size)) for _ in range(3))

    def attributes(self, chance, **ranges):
        """Return each attribute with the probability `chance` and a value in its range."""
        some = {key: bounds for key, bounds in ranges.items() if self.rng.random() < chance}
        return "".join(f' {key}="{self.number(*bounds)}"' for key, bounds in some.items())

    def joint(self, kind):
        law = self.attributes(0.4, damping=(0, 2), stiffness=(0, 20), armature=(0, 1))
        place = "" if kind == "free" else f' pos="{self.vector(0.3)}"'
        if kind in ("free", "ball"):
            return f'<joint type="{kind}"{place}{law}/>'
        self.joints.append(f"j{len(self.joints)}")
        ref = self.attributes(0.4, ref=(-0.5, 0.5), springref=(-0.5, 0.5))
        axis = f'axis="{self.vector(1)}"'
        return f'<joint name="{self.joints[-1]}" type="{kind}" {axis}{place}{law}{ref}/>'

    def body(self, depth):
        kinds = ["free"] * (depth == 0) + ["ball", "hinge", "hinge", "slide", "fixed"]
        kind = str(self.rng.choice(kinds))
        joints = "" if kind == "fixed" else self.joint(kind)
        if kind in ("hinge", "slide") and self.rng.random() < 0.5:
            joints += self.joint("hinge")
        size = " ".join(str(self.number(0.1, 0.3)) for _ in range(3))
        shape = self.rng.choice(["box", "ellipsoid", "capsule"])
        geom = f'<geom type="{shape}" size="{size}" pos="{self.vector(0.2)}"/>'
        self.bodies += 1
        name = f'name="body{self.bodies}"'
        place = f'pos="{self.vector(1)}" euler="{self.vector(180)}"'
        count = self.rng.integers(0, 3) if depth < 3 else 0
        inside = "".join(self.body(depth + 1) for _ in range(count))
        weight = self.attributes(0.3, gravcomp=(0, 1.5))
        return f"<body {name} {place}{weight}>{joints}{geom}{inside}</body>"

    def tendon(self):
        count = self.rng.integers(1, min(4, len(self.joints)) + 1)
        rest = self.rng.choice(["-1 -1", "0.2 0.2", "-0.5 0.3"])
        law = self.attributes(0.8, stiffness=(0, 20), damping=(0, 3))
        parts = "".join(
            f'<joint joint="{name}" coef="{self.number(-2, 2)}"/>'
            for name in self.rng.choice(self.joints, size=count, replace=False)
        )
        return f'<tendon><fixed springlength="{rest}"{law}>{parts}</fixed></tendon>'

    def text(self):
        bodies = "".join(self.body(0) for _ in range(self.rng.integers(1, 3)))
        fluid = self.attributes(0.4, density=(0, 1500), viscosity=(0, 2))
        flags = [f for f in ("spring", "damper", "gravity") if self.rng.random() < 0.1]
        flag = "<flag " + " ".join(f'{name}="disable"' for name in flags) + "/>"
        more = f'<option gravity="{self.vector(10)}"{fluid}>{flag}</option>'
        if self.joints and self.rng.random() < 0.7:
            more += self.tendon()
        return mjcf(bodies, more)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_accelerations_of_generated_mjcf_files_match_mujoco(seed, tmp_path):
    rng = np.random.default_rng(seed)
    path = tmp_path / "robot.xml"
    text = Generator(rng).text()
    while "<joint" not in text:
        text = Generator(rng).text()
    path.write_text(text)
    robot = load_model(path)
    model = robot.model
    plant = RobotPlant(model, elements=described_elements(robot, joint_friction=True))
    there = mujoco.MjModel.from_xml_path(str(path))
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in plant.parameters})
    u = Record({"tau": np.zeros(model.nv)})
    assert there.nv == model.nv
    for scale in (0.0, 1.0, 3.0):
        q, qd = random_configuration(model, rng), scale * rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = mujoco_state(model, there, q, qd)
        mujoco.mj_forward(there, data)
        theirs = acceleration_from_mujoco(model, there, q, qd, data.qacc)
        ours = plant.derivative(0.0, Record({"q": q, "qd": qd}), u, p)["qd"]
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs([*theirs, 1.0]).max())
