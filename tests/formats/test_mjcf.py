"""Models that MuJoCo compiles move as MuJoCo says: accelerations without contacts and limits agree
to 1e-9 of their size, to which both round sums over a few bodies.
"""

import os
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.algebra.rotation import quaternion_rotation
from rigidblocks.algebra.spatial import cross
from rigidblocks.block.block import Record
from rigidblocks.dynamics import aba_with_rotors, crba, rnea
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.joint import SixDoF
from rigidblocks.library.described import described_motors, described_plant
from rigidblocks.model.configuration import random_configuration

mujoco = pytest.importorskip(
    "mujoco", reason="MuJoCo is not installed (`pip install rigidblocks[mujoco]`)"
)
pytestmark = pytest.mark.interop

RTOL = 1e-9

GEOM = '<geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0.2" euler="10 20 30"/>'
BALL = '<geom type="sphere" size="0.1" pos="0 0.1 0"/>'
ROBOTS = {
    "hinges": f"""<body name="a" pos="1 2 3" euler="10 20 30">
        <joint name="j" axis="1 2 0" pos="0 0 0.1" armature="0.1" ref="20"/>{GEOM}
        <body name="b" pos="0 0 1"><joint name="k" axis="0 1 0"/>{BALL}</body></body>""",
    "two free bodies": f"""<body name="a" pos="0 0 1"><freejoint/>{GEOM}
        <body name="b" pos="0 0 1"><joint name="k" axis="0 1 0"/>{BALL}</body></body>
        <body name="c" pos="2 0 1" euler="10 20 30"><freejoint/>{GEOM}</body>""",
    "several joints a body": f"""<body name="a"><joint name="x" type="slide" axis="1 0 0"/>
        <joint name="y" type="slide" axis="0 1 0" pos="1 1 1"/>
        <joint name="r" axis="0 0 1" pos="0.2 0 0" armature="0.2"/>{GEOM}</body>""",
    "ball": f"""<body pos="0 0 1"><joint type="ball" pos="0 0.1 0.2"/>{GEOM}
        <body pos="1 0 0">{BALL}<body pos="0 1 0" euler="0 0 50"><joint axis="1 0 0"/>{GEOM}
        </body></body></body>""",
    "free": f"""<body name="base" pos="0 0 1" euler="1 2 3"><freejoint name="root"/>{GEOM}
        <body pos="0 0.3 0"><joint axis="0 1 1"/>{BALL}</body>
        <body pos="0 -0.3 0"><joint type="slide" axis="0 1 0"/>{GEOM}</body></body>""",
}


def mjcf(bodies, more=""):
    return f"<mujoco><worldbody>{bodies}</worldbody>{more}</mujoco>"


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "robot.xml"
        path.write_text(text)
        return load_model(path)

    return read_text


def their_motion(model, there, q, qd):
    """qpos, qvel of MuJoCo, and the accelerations of ours in theirs as a function."""
    qpos, qvel = there.qpos0.copy(), np.zeros(there.nv)
    for i, joint in enumerate(model.joint):
        j = mujoco.mj_name2id(there, mujoco.mjtObj.mjOBJ_JOINT, model.joint_names[i])
        j = int(model.joint_names[i].removeprefix("joint")) if j < 0 else j
        at, dof = there.jnt_qposadr[j], there.jnt_dofadr[j]
        mine, mine_d = q[model.q_slices[i]], qd[model.v_slices[i]]
        if isinstance(joint, SixDoF):
            E = quaternion_rotation(mine[:4])
            qpos[at : at + 7] = [*mine[4:], *mine[:4]]
            qvel[dof : dof + 6] = [*(E.T @ mine_d[3:]), *mine_d[:3]]
        elif joint.nq == 4:
            qpos[at : at + 4], qvel[dof : dof + 3] = mine, mine_d
        else:
            qpos[at] += mine[0]
            qvel[dof] = mine_d[0]
    return qpos, qvel


def our_acceleration(model, q, qd, qacc):
    """MuJoCo's accelerations as ours: those of the body frame of a free joint in its own axes."""
    ours = qacc.copy()
    for joint, at, of in zip(model.joint, model.q_slices, model.v_slices, strict=True):
        if isinstance(joint, SixDoF):
            E, (w, v) = quaternion_rotation(q[at][:4]), qd[of].reshape(2, 3)
            linear, angular = qacc[of].reshape(2, 3)
            ours[of] = [*angular, *(E @ linear - cross(w, v))]
    return ours


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_move_as_mujoco_says(name, read, tmp_path, rng):
    robot = read(mjcf(ROBOTS[name]))
    model = robot.model
    there = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    there.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(there)
    for _ in range(5):
        q, qd = random_configuration(model, rng), rng.normal(size=model.nv)
        data.qpos[:], data.qvel[:] = their_motion(model, there, q, qd)
        mujoco.mj_forward(there, data)
        ours = aba_with_rotors(model, q, qd, np.zeros(model.nv), robot.freedoms.armature)
        theirs = our_acceleration(model, q, qd, data.qacc)
        assert_allclose(ours, theirs, rtol=0, atol=RTOL * np.abs(theirs).max())
        back = rnea(model, q, qd, theirs) + robot.freedoms.armature * theirs
        assert_allclose(back, 0.0, atol=RTOL * np.abs(crba(model, q)).max() * np.abs(theirs).max())


def test_springs_limits_and_dampers_are_those_of_the_freedoms(read):
    freedoms = read(
        mjcf(
            f"""<body><joint type="slide" range="-1 2" limited="true" damping="3" frictionloss="4"
            armature="5" stiffness="6" springref="0.5" ref="0.25"/>{GEOM}</body>"""
        )
    ).freedoms
    given = {"lower": -1.25, "upper": 1.75, "damping": 3, "friction": 4, "armature": 5}
    for name, value in (given | {"stiffness": 6, "rest": 0.25, "effort": np.inf}).items():
        assert_array_equal(getattr(freedoms, name), [value])


def test_equalities_are_loop_joints_and_couplings(read):
    two = f"""<body name="a"><joint name="j"/>{GEOM}</body>
        <body name="b"><joint name="k"/>{GEOM}</body>"""
    more = """<equality><connect body1="a" body2="b" anchor="0 0 1"/><weld body1="a"/>
        <joint joint1="k" joint2="j" polycoef="0.5 2 0 0 0"/></equality>"""
    robot = read(mjcf(two, more))
    assert [type(loop.joint).__name__ for loop in robot.model.loops] == ["Spherical", "Fixed"]
    assert [tuple(c) for c in robot.couplings] == [(1, 0, 2.0, 0.5)]


BROKEN = {
    "no XML": ("<mujoco>\n<worldbody>", "robot.xml:2: this is no well-formed XML"),
    "an unknown element": ("<mujoco>\n<wheel/></mujoco>", "robot.xml:2: MuJoCo cannot compile it"),
    "nothing that moves": (mjcf("<geom size='1'/>"), "has no link"),
    "a fluid": (
        mjcf(f"<body><joint/>{GEOM}</body>", "<option density='1000'/>"),
        "the file has a fluid, which change the motion and are not read",
    ),
    "a quadratic equality": (
        mjcf(
            f"<body><joint name='j'/>{GEOM}</body><body><joint name='k'/>{GEOM}</body>",
            "<equality><joint joint1='k' joint2='j' polycoef='0 1 1 0 0'/></equality>",
        ),
        "an equality of joints must be linear",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_not_known_is_refused(kind, read):
    text, said = BROKEN[kind]
    with pytest.raises(FormatError, match=re.escape(said)) as refusal:
        read(text)
    assert "\n" not in str(refusal.value)


def test_mjcf_without_its_package_is_refused_with_that_word(read, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mujoco", None)
    with pytest.raises(FormatError, match="this is MJCF, which the package mujoco compiles"):
        read(mjcf(""))


@pytest.mark.parametrize(
    ("program", "said"),
    [("os.abort()", "ended with -6"), ("sys.exit(3)", "ended with 3")],
)
def test_a_crash_of_the_parser_is_one_line(tmp_path, monkeypatch, program, said):
    """A stand-in for the package, found before it, that ends its process."""
    (tmp_path / "mujoco.py").write_text(f"import os, sys\n{program}\n")
    robot = tmp_path / "robot.xml"
    robot.write_text("<mujoco/>")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(FormatError, match=said) as refusal:
        load_model(robot)
    assert "\n" not in str(refusal.value)


SERVOS = """<actuator><motor name="drive" joint="j" gear="5" ctrlrange="-1 1"/>
    <position name="hold" joint="k" kp="10" kv="2" gear="2"/><velocity joint="j" kv="3"/>
    <general name="any" joint="k" gainprm="4" biastype="affine" biasprm="1 -2 -3"/>
    <general name="own" joint="j" gaintype="affine" gainprm="1 2 3"/>
    <position name="weak" joint="k" kp="10" dampratio="1" forcerange="-0.3 0.3"/></actuator>"""


def test_actuators_drive_their_joints_as_mujoco_says(read, rng):
    bodies = ROBOTS["hinges"].replace('name="k"', 'name="k" actuatorfrcrange="-9 9"')
    robot = read(mjcf(bodies, SERVOS))
    assert [a.name for a in robot.actuators] == ["drive", "hold", "actuator2", "any", "own", "weak"]
    motors = described_motors(robot, described_plant(robot))
    there = mujoco.MjModel.from_xml_string(mjcf(bodies, SERVOS))
    data = mujoco.MjData(there)
    p = Record({port.name: port.start for port in motors.parameters})
    for _ in range(20):
        q, qd, u = rng.normal(size=2), rng.normal(size=2), 2 * rng.normal(size=6)
        data.qpos[:], data.qvel[:] = q + there.qpos0, qd
        data.ctrl[:] = u
        mujoco.mj_forward(there, data)
        given = dict(zip((port.name for port in motors.inputs), u, strict=False))
        tau = motors.output(0.0, Record({**given, "q": q, "qd": qd}), p)["tau"]
        assert_allclose(tau, data.qfrc_actuator, rtol=1e-12, atol=1e-12)


def test_actuators_are_those_of_the_joints_behind_a_floating_base(read):
    more = '<actuator><motor name="m" joint="lift" gear="3"/></actuator>'
    robot = read(mjcf(ROBOTS["free"].replace('type="slide"', 'name="lift" type="slide"'), more))
    motors = described_motors(robot, described_plant(robot))
    given = Record({"m": 2.0, "q": np.zeros(2), "qd": np.zeros(2)})
    p = Record({port.name: port.start for port in motors.parameters})
    assert_array_equal(motors.output(0.0, given, p)["tau"], [0.0, 6.0])


def test_an_actuator_with_a_state_is_named_and_left_out(read):
    more = '<actuator><general name="slow" joint="j" dyntype="filter" dynprm="0.1"/></actuator>'
    robot = read(mjcf(ROBOTS["hinges"], more))
    assert robot.actuators == ()
    assert any("actuator 'slow' is no servo without a state" in said for said in robot.warnings)
    with pytest.raises(ValueError, match="has no actuators that are read"):
        described_motors(robot, described_plant(robot))
