"""Command line with robot files.

The energy error of a frictionless robot is that of a fourth-order method with steps of 1 ms. It is
below 1e-8 of the energy for these slow motions.
"""

import numpy as np
import pytest
from fmpy import simulate_fmu
from fmpy.fmi1 import FMICallException

from broken_urdf import BROKEN
from campaign import sized
from published import published
from rigidblocks.cli import main
from urdf_text import ARM

ENERGY = 1e-8
ROBOTS = published(".urdf")
# the head is a point mass, and neck yaw and roll move it equally at q = 0, so H is singular
SINGULAR = "icub_description/robots/icub.urdf"
SINGLE = {
    "hector_description/robots/quadrotor_base.urdf",
    "iris_description/robots/iris_simple.urdf",
}
REFUSED = {
    "romeo_description/urdf/romeo.urdf": "moves no mass",
    "romeo_description/urdf/romeo_laas_small.urdf": "moves no mass",
    "ur_description/urdf/ur3.urdf": "has no link",
}


def one_of_each():
    """Return the smallest file of each robot folder, and the rejected and singular files.

    Other tests compare all files. The compile time of a file is up to one minute.
    """
    by_size = sorted(ROBOTS, key=lambda name: ROBOTS[name].stat().st_size, reverse=True)
    smallest = {name.partition("/")[0]: name for name in by_size}
    return sorted({*smallest.values(), *REFUSED, *SINGLE, SINGULAR} & ROBOTS.keys())


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.replace('name="arm"', 'name="my arm"'))
    return path


def test_fmu_command_exports_a_urdf_that_conserves_energy(arm, tmp_path, capsys):
    fmu = tmp_path / "arm.fmu"
    assert main(["fmu", str(arm), "-o", str(fmu)]) == 0
    assert str(fmu) in capsys.readouterr().out
    result = simulate_fmu(
        str(fmu), stop_time=1.0, output_interval=0.1, output=["q[1]", "q[2]", "energy"]
    )
    assert abs(result["q[1]"][-1]) > 0.1
    assert np.ptp(result["energy"]) < ENERGY * np.abs(result["energy"]).max()


@pytest.mark.slow
def test_floating_option_exports_a_floating_base(arm, tmp_path):
    fmu = tmp_path / "arm.fmu"
    text = ARM.replace('<link name="base"/>', '<link name="base">INERTIA</link>')
    inertia = ARM[ARM.index("<inertial>") : ARM.index("</inertial>") + 11]
    arm.write_text(text.replace("INERTIA", inertia))
    assert main(["fmu", str(arm), "-o", str(fmu), "--floating"]) == 0
    result = simulate_fmu(str(fmu), stop_time=1.0, output_interval=0.1, output=["position[3]"])
    assert result["position[3]"][-1] < -1.0


@pytest.mark.slow
def test_joint_friction_option_exports_damping_and_dry_friction(arm, tmp_path, capsys):
    fmu = tmp_path / "arm.fmu"
    assert main(["fmu", str(arm), "-o", str(fmu)]) == 0
    said = capsys.readouterr().err
    assert "its springs, damping, dry friction and fluid drag are omitted" in said
    assert main(["fmu", str(arm), "-o", str(fmu), "--joint-friction"]) == 0
    outputs = ["energy", "shoulder_spring_force", "shoulder_friction_force", "qd[1]"]
    result = simulate_fmu(str(fmu), stop_time=1.0, output_interval=0.1, output=outputs)
    assert np.all(np.diff(result["energy"]) < 0.0)
    last = result[-1]
    assert last["shoulder_spring_force"] == pytest.approx(-0.5 * last["qd[1]"], rel=1e-9)
    assert last["shoulder_friction_force"] == pytest.approx(-0.25 * np.sign(last["qd[1]"]))


def test_info_command_prints_the_kinematic_tree(arm, capsys):
    assert main(["info", str(arm)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("my arm: 2 bodies, 2 degrees of freedom, moving mass 3.5 kg\n")
    assert "elbow" in out
    assert "upper -> lower" in out


@pytest.mark.parametrize("command", ["fmu", "info"])
@pytest.mark.parametrize("kind", BROKEN)
def test_invalid_urdf_gives_one_line_on_stderr_and_exit_code_2(
    command, kind, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "robot.urdf"
    path.write_text(BROKEN[kind][0])
    assert main([command, str(path)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"rigidblocks: {path}:")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "no.urdf", "robot.fmu"])
def test_missing_or_invalid_robot_file_gives_exit_code_2(name, tmp_path, capsys):
    (tmp_path / "robot.fmu").write_bytes(b"PK\3\4")
    assert main(["fmu", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_floating_option_with_a_script_is_rejected(tmp_path, capsys):
    assert main(["fmu", str(tmp_path / "a.py"), "--floating"]) == 2
    assert "is a script; leave out --floating" in capsys.readouterr().err


@pytest.mark.interop
@pytest.mark.skipif(
    not ROBOTS, reason="example-robot-data is not installed (`pip install example-robot-data`)"
)
@pytest.mark.parametrize("name", list(one_of_each())[:: sized(1, 2)])
def test_fmus_of_published_robot_files_run_for_one_second(name, tmp_path, capsys):
    fmu, floating = tmp_path / "robot.fmu", ["--floating"] * (name in SINGLE)
    code = main(["fmu", str(ROBOTS[name]), "-o", str(fmu), *floating])
    if name in REFUSED:
        assert code
        assert REFUSED[name] in capsys.readouterr().err
        return
    assert code == 0
    if name == SINGULAR:
        with pytest.raises(FMICallException):
            simulate_fmu(str(fmu), stop_time=1.0, output_interval=0.1)
        return
    result = simulate_fmu(str(fmu), stop_time=1.0, output_interval=0.1)
    assert result["time"][-1] == 1.0
    assert all(np.all(np.isfinite(result[column])) for column in result.dtype.names)
