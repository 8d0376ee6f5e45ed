"""FMUs with tuned masses, payload, friction and gravity equal FMUs of robots with these values."""

from dataclasses import replace

import numpy as np
import pytest
from fmpy import read_model_description, simulate_fmu
from numpy.testing import assert_allclose

from rigidblocks import load_model, save_model
from rigidblocks.cli import main
from rigidblocks.spatial.spatial import RigidInertia, mcI
from urdf_text import ARM

MASS, COM, MOMENTS = 1.5, np.array([0.1, -0.2, 0.05]), np.array([0.02, 0.03, 0.04])
GRAVITY = np.array([0.3, -1.0, -5.0])
FRICTION = 0.7  # [N.m] dry friction of the shoulder
BASE = ARM[ARM.index("<inertial>") : ARM.index("</inertial>") + 11]


def heavier(robot, factor):
    """Return the robot with scaled link inertias, a payload, another gravity and more friction."""
    model, place = robot.model, robot.frames["tool"]
    held = [
        RigidInertia(k * b.m, k * b.h, k * b.I) for k, b in zip(factor, model.inertia, strict=True)
    ]
    held[place.body] = held[place.body] + mcI(MASS, COM, np.diag(MOMENTS)).transform_to_parent(
        place.placement
    )
    f = robot.joint_properties
    more = np.where(f.friction > 0, FRICTION, f.friction)
    return replace(
        robot,
        model=replace(model, inertia=tuple(held), gravity=GRAVITY),
        joint_properties=replace(f, friction=more, backward=more),
    )


def motion(fmu, start):
    """Return the joint positions over half a second."""
    names = [v.name for v in read_model_description(str(fmu)).modelVariables]
    q = [name for name in names if name.startswith("robot.q[")]
    run = simulate_fmu(str(fmu), stop_time=0.5, output_interval=1e-3, start_values=start, output=q)
    return np.array([run[name] for name in q])


def elements(name, values):
    return {f"robot.{name}[{k + 1}]": value for k, value in enumerate(values)}


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True])
def test_fmu_with_tuned_parameters_matches_the_results_of_a_robot_with_these_parameters(
    floating, tmp_path, rng
):
    urdf, saved = tmp_path / "arm.urdf", tmp_path / "other.json"
    urdf.write_text(ARM.replace('<link name="base"/>', f'<link name="base">{BASE}</link>'))
    words = ["--tunable", "payload,inertia,friction,gravity", "--frames", "tool"]
    words += ["--floating"] * floating
    assert main(["fmu", str(urdf), "-o", str(tmp_path / "tuned.fmu"), *words]) == 0

    robot = load_model(urdf, floating=floating)
    factor = rng.uniform(0.5, 2.0, robot.model.nb)
    save_model(heavier(robot, factor), saved)
    words = ["--joint-friction", "--frames", "tool"]
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
        (
            "payload,inertias",
            "unknown parameter 'inertias' of --tunable; did you mean 'inertia'?; expected",
        ),
        ("payload_mas", "did you mean 'payload_mass'?; expected friction, gravity, inertia"),
        (
            "nothing --controller pd",
            "unknown parameter 'nothing' of --tunable; expected friction, gravity, inertia",
        ),
    ],
)
def test_unknown_tunable_parameter_is_rejected_with_suggestions(word, said, tmp_path, capsys):
    (path := tmp_path / "arm.urdf").write_text(ARM)
    out = tmp_path / "arm.fmu"
    words = ["--tunable", *f"payload,{word}".split()]
    assert main(["fmu", str(path), "-o", str(out), *words]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
