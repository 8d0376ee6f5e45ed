"""Which geoms of an MJCF touch which: what MuJoCo's collision finds between bodies that overlap is
what the pairs apart leave. Springs between two sites pull as MuJoCo's tendons do.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.block.block import Record
from rigidblocks.formats.json_file import save_model
from rigidblocks.formats.load import load_model
from rigidblocks.library.described import described_plant
from rigidblocks.library.world import World
from rigidblocks.model.configuration import random_configuration
from rigidblocks.model.material import Material
from rigidblocks.model.shapes import Box, Plane
from rigidblocks.simulation.simulate import simulate
from rigidblocks.system.system import System

mujoco = pytest.importorskip(
    "mujoco", reason="MuJoCo is not installed (`pip install rigidblocks[mujoco]`)"
)
pytestmark = pytest.mark.interop

NAMES = ("a", "b", "c", "d")
MASKS = [(1, 1), (2, 1), (1, 2), (4, 4), (0, 2), (6, 0)]
REST = """<geom type="plane" size="1 1 1" pos="0 0 0.1" euler="10 20 0" friction="0.3 0 0"/>
<geom type="box" size="1 2 3" pos="0 0 -2" contype="2" conaffinity="4"/>
<geom type="box" size="1 1 1" contype="0" conaffinity="0"/>"""
SPRUNG = """<mujoco><option gravity="1 2 -9"/><worldbody><site name="s" pos="0.3 0 1"/>
<body name="a" pos="0.1 0.2 0.3" euler="10 20 30"><joint name="i" axis="1 2 0"/>
<geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0.2"/><site name="p" pos="0.1 0.3 0"/>
<body name="m" pos="0 0 1" euler="30 0 20"><geom size="0.1"/><site name="r" pos="0.1 0.1 0"/>
<body name="b" pos="0 0 1"><joint name="j" axis="0 1 0"/><geom size="0.1" pos="0 0 0.2"/>
<site name="q" pos="0.1 0.4 0.5"/></body></body></body></worldbody><tendon>{}</tendon></mujoco>"""
TENDONS = """<spatial name="1st" stiffness="200" damping="3" springlength="0.4"><site site="s"/>
<site site="q"/></spatial><spatial stiffness="100"><site site="q"/><site site="p"/></spatial>
<spatial damping="7"><site site="s"/><site site="r"/></spatial>"""


def scene(rng):
    """Overlapping balls with random masks, exclusions and pairs, over two things at rest."""
    masks = [MASKS[k] for k in rng.integers(len(MASKS), size=len(NAMES))]
    balls = "".join(
        f'<body name="{name}" pos="0 0 {0.1 * k}"><freejoint/><geom name="{name}" size="1" '
        f'contype="{contype}" conaffinity="{conaffinity}"/></body>'
        for k, (name, (contype, conaffinity)) in enumerate(zip(NAMES, masks, strict=True))
    )
    one, two, three, four = rng.permutation(NAMES)
    contact = f'<exclude body1="{one}" body2="{two}"/><exclude body1="world" body2="{three}"/>'
    contact += f'<pair geom1="{three}" geom2="{four}"/>' * (rng.random() < 0.5)
    worldbody = f"<worldbody>{REST}{balls}</worldbody>"
    return f"<mujoco>{worldbody}<contact>{contact}</contact></mujoco>"


def touching(text):
    """The pairs of bodies between which MuJoCo finds contacts, 0 what is at rest."""
    m = mujoco.MjModel.from_xml_string(text)
    mujoco.mj_forward(m, d := mujoco.MjData(m))
    bodies = m.geom_bodyid[d.contact.geom]
    return {tuple(sorted(map(int, pair))) for pair in bodies}


@pytest.mark.parametrize("seed", range(12))
def test_the_pairs_apart_are_those_that_mujoco_does_not_try(seed, tmp_path):
    path, text = tmp_path / "scene.xml", scene(np.random.default_rng(seed))
    path.write_text(text)
    robot = load_model(path)
    there = [-1] * bool(robot.base_contact) + [k for k, s in enumerate(robot.model.contact) if s]
    apart = {tuple(sorted(pair)) for pair in robot.apart}
    left = {(i + 1, j + 1) for i in there for j in there if i < j} - {
        (i + 1, j + 1) for i, j in apart
    }
    assert left == touching(text)


def test_what_is_at_rest_is_the_base(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text(f"<mujoco><worldbody>{REST}<body><freejoint/><geom size='1'/></body>"
                    "</worldbody></mujoco>")  # fmt: skip
    robot = load_model(path)
    box, plane = robot.base_contact
    assert isinstance(box, Box)
    assert_allclose(box.sides, [2, 4, 6])
    assert isinstance(plane, Plane)
    assert plane.material == Material(mu=0.3)
    m = mujoco.MjModel.from_xml_path(str(path))
    mujoco.mj_forward(m, d := mujoco.MjData(m))
    assert_allclose(plane.normal, d.geom_xmat[0].reshape(3, 3)[:, 2], atol=1e-12)
    assert_allclose(plane.point, d.geom_xpos[0], atol=1e-15)
    assert len(robot.base_appearance) == 2  # of planes there is nothing to draw
    save_model(robot, tmp_path / "scene.json")
    again = load_model(tmp_path / "scene.json")
    assert_allclose(again.base_contact[1].normal, plane.normal, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_a_world_has_the_planes_and_the_pairs_of_a_file(tmp_path):
    """Two balls in one place, which the file keeps apart, come to rest on its plane, at 0.5, and
    on its box, 0.7 higher; the one on the plane is in the box, which masks keep from it.
    """
    path = tmp_path / "scene.xml"
    path.write_text("""<mujoco><worldbody><geom type="box" size="1 1 0.1" pos="0 0 0.6"/>
        <body name="one"><freejoint/><geom size="0.5" contype="2" conaffinity="2"/></body>
        <body name="two"><freejoint/><geom size="0.5"/></body>
        </worldbody></mujoco>""")
    robot, start = load_model(path), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.3]
    assert robot.apart == ((-1, 0), (0, 1))
    world = World("yard")
    world.add_robot("balls", robot, at=(0, 0, 3.0), q0=start * 2)
    world.add_ground(Plane((0.0, 0.0, 1.0), (0.0, 0.0, 3.0)))
    system = System()
    system.add("world", world.plant())
    q = simulate(system, 1.0, dt=1e-2)["world.balls_q"][-1]
    assert_allclose(q[[6, 13]], [3.5, 4.2], atol=2e-3)


def test_tendons_between_two_sites_are_springs(tmp_path, rng):
    path, text = tmp_path / "sprung.xml", SPRUNG.format(TENDONS)
    path.write_text(text)
    robot = load_model(path)
    assert not robot.warnings
    plant = described_plant(robot, resistance=True)
    parameters = Record({port.name: port.start for port in plant.parameters})
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    for _ in range(10):
        q, qd = random_configuration(robot.model, rng), rng.normal(size=2)
        d.qpos, d.qvel = q, qd
        mujoco.mj_forward(m, d)
        motion, none = Record({"q": q, "qd": qd}), Record({"tau": np.zeros(2)})
        qdd = plant.output(0.0, motion, none, parameters)["qdd"]
        assert_allclose(qdd, d.qacc, rtol=1e-9, atol=1e-9 * np.abs(d.qacc).max())
    assert [spring.name for spring in robot.springs] == ["1st", "tendon1", "tendon2"]
    world = World("yard")
    world.add_robot("arm", robot)
    with pytest.raises(ValueError, match="'yard' has springs between points, arm_1st the first"):
        world.plant()
