"""The command on files of robots. The energy of a robot that nothing resists stays what it is to
what steps of 1 ms with a method of fourth order leave: below 1e-8 of its size for these slow
swings.
"""

import numpy as np
import pytest
from fmpy import simulate_fmu
from fmpy.fmi1 import FMICallException

from broken_urdf import BROKEN
from published import published
from rigidblocks.cli import main
from urdf_text import ARM

ENERGY = 1e-8
ROBOTS = published(".urdf")
# its head is a point mass that yaw and roll of the neck move alike at q = 0: H is singular there
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
    """Of each folder of robots the smallest file, and those that are refused or singular: what is
    read of all of them is compared elsewhere, and each compiles for up to a minute.
    """
    by_size = sorted(ROBOTS, key=lambda name: ROBOTS[name].stat().st_size, reverse=True)
    smallest = {name.partition("/")[0]: name for name in by_size}
    return sorted({*smallest.values(), *REFUSED, *SINGLE, SINGULAR} & ROBOTS.keys())


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.replace('name="arm"', 'name="my arm"'))
    return path


def test_a_robot_becomes_an_fmu_in_one_command(arm, tmp_path, capsys):
    fmu = tmp_path / "arm.fmu"
    assert main(["fmu", str(arm), "-o", str(fmu)]) == 0
    assert str(fmu) in capsys.readouterr().out
    result = simulate_fmu(
        str(fmu), stop_time=1.0, output_interval=0.1, output=["q[1]", "q[2]", "energy"]
    )
    assert abs(result["q[1]"][-1]) > 0.1
    assert np.ptp(result["energy"]) < ENERGY * np.abs(result["energy"]).max()


@pytest.mark.slow
def test_a_base_floats_where_that_is_asked_for(arm, tmp_path):
    fmu = tmp_path / "arm.fmu"
    text = ARM.replace('<link name="base"/>', '<link name="base">INERTIA</link>')
    inertia = ARM[ARM.index("<inertial>") : ARM.index("</inertial>") + 11]
    arm.write_text(text.replace("INERTIA", inertia))
    assert main(["fmu", str(arm), "-o", str(fmu), "--floating"]) == 0
    result = simulate_fmu(str(fmu), stop_time=1.0, output_interval=0.1, output=["position[3]"])
    assert result["position[3]"][-1] < -1.0


@pytest.mark.slow
def test_what_a_file_says_of_resistance_takes_energy(arm, tmp_path, capsys):
    fmu = tmp_path / "arm.fmu"
    assert main(["fmu", str(arm), "-o", str(fmu)]) == 0
    assert "its springs, damping and dry friction are left out" in capsys.readouterr().err
    assert main(["fmu", str(arm), "-o", str(fmu), "--resistance"]) == 0
    outputs = ["energy", "shoulder_spring_force", "shoulder_friction_force", "qd[1]"]
    result = simulate_fmu(str(fmu), stop_time=1.0, output_interval=0.1, output=outputs)
    assert np.all(np.diff(result["energy"]) < 0.0)
    last = result[-1]
    assert last["shoulder_spring_force"] == pytest.approx(-0.5 * last["qd[1]"], rel=1e-9)
    assert last["shoulder_friction_force"] == pytest.approx(-0.25 * np.sign(last["qd[1]"]))


def test_info_shows_the_tree(arm, capsys):
    assert main(["info", str(arm)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("my arm: 2 bodies, 2 freedoms, 3.5 kg that move\n")
    assert "elbow" in out
    assert "upper -> lower" in out


@pytest.mark.parametrize("command", ["fmu", "info"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_robot_is_one_line_on_stderr_and_exit_code_2(
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
def test_what_is_no_file_of_a_robot_has_exit_code_2(name, tmp_path, capsys):
    (tmp_path / "robot.fmu").write_bytes(b"PK\3\4")
    assert main(["fmu", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_script_is_not_made_to_float(tmp_path, capsys):
    assert main(["fmu", str(tmp_path / "a.py"), "--floating"]) == 2
    assert "whose block says it all" in capsys.readouterr().err


@pytest.mark.interop
@pytest.mark.skipif(
    not ROBOTS, reason="example-robot-data is not installed (`pip install rigidblocks[interop]`)"
)
@pytest.mark.parametrize("name", one_of_each())
def test_published_robots_run_for_a_second_as_fmus(name, tmp_path, capsys):
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
