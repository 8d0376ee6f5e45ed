"""Collision exclusions and tendon springs of MJCF files compared with MuJoCo.

All bodies of a scene overlap, so MuJoCo finds contacts for exactly the pairs that are not
excluded.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.block.block import Record
from rigidblocks.contact.world import World
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.material import Material
from rigidblocks.robot.shapes import Box, Plane
from rigidblocks.robot_description.json_file import save_model
from rigidblocks.robot_description.load import load_model

mujoco = pytest.importorskip("mujoco", reason="MuJoCo is not installed (`pip install mujoco`)")
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
    """Return overlapping balls with random masks, exclusions and pairs, and two static geoms."""
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
    """Return the pairs of bodies that have contacts in MuJoCo; body 0 is the world."""
    m = mujoco.MjModel.from_xml_string(text)
    mujoco.mj_forward(m, d := mujoco.MjData(m))
    bodies = m.geom_bodyid[d.contact.geom]
    return {tuple(sorted(map(int, pair))) for pair in bodies}


@pytest.mark.parametrize("seed", range(12))
def test_collision_exclusions_of_mjcf_files_match_mujoco(seed, tmp_path):
    path, text = tmp_path / "scene.xml", scene(np.random.default_rng(seed))
    path.write_text(text)
    robot = load_model(path)
    there = [-1] * bool(robot.base_contact) + [k for k, s in enumerate(robot.model.contact) if s]
    apart = {tuple(sorted(pair)) for pair in robot.collision_exclusions}
    left = {(i + 1, j + 1) for i in there for j in there if i < j} - {
        (i + 1, j + 1) for i, j in apart
    }
    assert left == touching(text)


def test_static_mjcf_bodies_become_shapes_of_the_base(tmp_path):
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
    assert len(robot.base_appearance) == 2  # planes have no visual shape
    save_model(robot, tmp_path / "scene.json")
    again = load_model(tmp_path / "scene.json")
    assert_allclose(again.base_contact[1].normal, plane.normal, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_world_uses_the_static_geoms_and_collision_exclusions_of_the_mjcf_file(tmp_path):
    """Two balls start at the same position and do not collide with each other.

    One ball stops on the ground, because its mask excludes the box. The other ball stops on the
    box, 0.7 m higher.
    """
    path = tmp_path / "scene.xml"
    path.write_text("""<mujoco><worldbody><geom type="box" size="1 1 0.1" pos="0 0 0.6"/>
        <body name="one"><freejoint/><geom size="0.5" contype="2" conaffinity="2"/></body>
        <body name="two"><freejoint/><geom size="0.5"/></body>
        </worldbody></mujoco>""")
    robot, start = load_model(path), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.3]
    assert robot.collision_exclusions == ((-1, 0), (0, 1))
    world = World("yard")
    world.add_robot("balls", robot, at=(0, 0, 3.0), q0=start * 2)
    world.add_ground(Plane((0.0, 0.0, 1.0), (0.0, 0.0, 3.0)))
    system = System()
    system.add("world", world.plant())
    q = simulate(system, 1.0, dt=1e-2)["world.balls_q"][-1]
    assert_allclose(q[[6, 13]], [3.5, 4.2], atol=2e-3)


def test_tendons_between_two_sites_have_the_spring_forces_of_mujoco(tmp_path, rng):
    path, text = tmp_path / "sprung.xml", SPRUNG.format(TENDONS)
    path.write_text(text)
    robot = load_model(path)
    assert not robot.warnings
    plant = described_plant(robot, joint_friction=True)
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
    with pytest.raises(ValueError, match=r"springs between points .arm_1st of world 'yard'"):
        world.plant()
