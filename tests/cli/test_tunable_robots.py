"""An FMU whose parameters were set to other masses, a payload, friction and gravity moves as that
of the robot which has these numbers.
"""

from dataclasses import replace

import numpy as np
import pytest
from fmpy import read_model_description, simulate_fmu
from numpy.testing import assert_allclose

from rigidblocks import load_model, save_model
from rigidblocks.algebra.spatial import RigidInertia, mcI
from rigidblocks.cli import main
from urdf_text import ARM

MASS, COM, MOMENTS = 1.5, np.array([0.1, -0.2, 0.05]), np.array([0.02, 0.03, 0.04])
GRAVITY = np.array([0.3, -1.0, -5.0])
FRICTION = 0.7  # N m at the shoulder
BASE = ARM[ARM.index("<inertial>") : ARM.index("</inertial>") + 11]


def heavier(robot, factor):
    """The robot with links that are heavier by a factor each, a payload in its frame `tool`,
    another gravity and more friction.
    """
    model, place = robot.model, robot.frames["tool"]
    held = [
        RigidInertia(k * b.m, k * b.h, k * b.I) for k, b in zip(factor, model.inertia, strict=True)
    ]
    held[place.body] = held[place.body] + mcI(MASS, COM, np.diag(MOMENTS)).to_parent(
        place.placement
    )
    f = robot.freedoms
    more = np.where(f.friction > 0, FRICTION, f.friction)
    return replace(
        robot,
        model=replace(model, inertia=tuple(held), gravity=GRAVITY),
        freedoms=replace(f, friction=more, backward=more),
    )


def motion(fmu, start):
    """The positions over half a second."""
    names = [v.name for v in read_model_description(str(fmu)).modelVariables]
    q = [name for name in names if name.startswith("robot.q[")]
    run = simulate_fmu(str(fmu), stop_time=0.5, output_interval=1e-3, start_values=start, output=q)
    return np.array([run[name] for name in q])


def elements(name, values):
    return {f"robot.{name}[{k + 1}]": value for k, value in enumerate(values)}


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True])
def test_a_tuned_fmu_moves_as_the_robot_that_has_these_numbers(floating, tmp_path, rng):
    urdf, saved = tmp_path / "arm.urdf", tmp_path / "other.json"
    urdf.write_text(ARM.replace('<link name="base"/>', f'<link name="base">{BASE}</link>'))
    words = ["--tunable", "payload,inertia,friction,gravity", "--frames", "tool"]
    words += ["--floating"] * floating
    assert main(["fmu", str(urdf), "-o", str(tmp_path / "tuned.fmu"), *words]) == 0

    robot = load_model(urdf, floating=floating)
    factor = rng.uniform(0.5, 2.0, robot.model.nb)
    save_model(heavier(robot, factor), saved)
    words = ["--resistance", "--frames", "tool"]
    assert main(["fmu", str(saved), "-o", str(tmp_path / "other.fmu"), *words]) == 0

    start = {"robot.payload_mass": MASS, "robot.shoulder_friction_coulomb": FRICTION}
    start |= elements("payload_com", COM) | elements("payload_inertia", MOMENTS)
    start |= elements("link_mass", factor * [body.m for body in robot.model.inertia])
    start |= elements("gravity", GRAVITY)
    tuned, other = motion(tmp_path / "tuned.fmu", start), motion(tmp_path / "other.fmu", {})
    assert np.ptp(other, axis=1).max() > 0.1
    assert_allclose(tuned, other, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("payload,inertias", "--tunable knows no 'inertias'; did you mean 'inertia'?; it takes"),
        ("payload_mas", "did you mean 'payload_mass'?; it takes friction, gravity, inertia"),
        ("nothing --controller pd", "knows no 'nothing'; it takes friction, gravity, inertia"),
    ],
)
def test_a_word_that_is_no_parameter_is_refused_with_those_that_are(word, said, tmp_path, capsys):
    (path := tmp_path / "arm.urdf").write_text(ARM)
    out = tmp_path / "arm.fmu"
    words = ["--tunable", *f"payload,{word}".split()]
    assert main(["fmu", str(path), "-o", str(out), *words]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
