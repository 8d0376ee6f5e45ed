"""Files with the state of a run: a restart in another process is bit-identical."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, prepare
from rigidblocks.library import Constant, LowPass, Noise, UnitDelay

SCRIPT = """
import pathlib, sys
import numpy as np
sys.path[:0] = {paths!r}
from test_state_files import robot_system
from rigidblocks import prepare
run = prepare(robot_system({fmu!r}), 1e-3, **{options!r})
run.restore("state.npz")
run.step(200)
np.save("there.npy", np.concatenate([run["robot.q"], run["robot.qd"], [run.t]]))
"""
METHOD = {"method": "adaptive", "rtol": 1e-7}


def robot_system(fmu=None, **start):
    """Return an arm with a controller, a filter, noise and a delay; the plant may be an FMU."""
    system = System()
    options = {} if fmu is None or fmu[1] == "co-simulation" else {"kind": fmu[1], **METHOD}
    plant = RobotPlant(planar2()) if fmu is None else fmu[0]
    system.add("robot", plant, **(METHOD if fmu is None else options))
    system.add("pd", PDController([60.0, 30.0], [8.0, 4.0]), start={"q_ref": [0.5, -0.3], **start})
    system.add("filter", LowPass(0.02, shape=2, unit="N.m"))
    system.add("noise", Noise(2e-3, seed=3, shape=2))
    system.add("delay", UnitDelay(2e-3, shape=2, unit="N.m"))
    for source, target in (
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "filter.u"),
        ("filter.y", "delay.u"),
        ("delay.y", "robot.tau"),
    ):
        system.connect(source, target)
    return system


def continued(fmu, options, folder):
    """Return the values of an uninterrupted run, and of a run that another process continues."""
    run = prepare(robot_system(fmu), 1e-3, **options)
    run.step(101)
    run["pd.q_ref"] = [0.2, 0.1]  # a value that is set during the run belongs to its state
    run.save(folder / "state.npz")
    run.step(200)
    here = np.concatenate([run["robot.q"], run["robot.qd"], [run.t]])
    run.close()
    paths = [path for path in sys.path if path]
    script = SCRIPT.format(paths=paths, fmu=fmu, options=options)
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)
    return here, np.load(folder / "there.npy")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused", "traced"])
def test_run_continues_bit_identically_in_another_process(form, tmp_path):
    here, there = continued(None, {"form": form}, tmp_path)
    assert_array_equal(there, here)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["co-simulation", "model exchange"])
@pytest.mark.parametrize("fmi", [2, 3])
def test_run_with_an_fmu_continues_bit_identically_in_another_process(fmi, kind, tmp_path):
    path = export_fmu(RobotPlant(planar2()), tmp_path / "arm.fmu", fmi=fmi)
    here, there = continued((str(path), kind), {}, tmp_path)
    assert_array_equal(there, here)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = prepare(robot_system(), 1e-3, form="numpy")
    run.step(5)
    return run


def test_state_file_restores_a_run_any_number_of_times(run):
    state = run.save("state.npz")
    q, t = run["robot.q"], run.t
    for _ in range(2):
        run.step(5)
        assert run.t > t
        run.restore("state.npz")
        assert_array_equal(run["robot.q"], q)
        assert run.t == t
    run.step(5)
    later = run["robot.q"]
    run.restore(state)
    run.step(5)
    assert_array_equal(run["robot.q"], later)


def test_state_file_of_another_system_or_other_options_is_rejected(run):
    run.save("state.npz")
    other = System()
    other.add("c", Constant(1.0))
    for there in (
        prepare(other, 1e-3, form="numpy"),
        prepare(robot_system(), 2e-3, form="numpy"),
        prepare(robot_system(), 1e-3, form="numpy", order="jacobi"),
    ):
        with pytest.raises(ValueError, match=r"the state 'state.npz' belongs to another system"):
            there.restore("state.npz")
    # start values are part of the state, so a system with other start values continues
    same = prepare(robot_system(qd_ref=[0.1, 0.0]), 1e-3, form="numpy")
    same.restore("state.npz")
    assert_array_equal(same["pd.qd_ref"], [0.0, 0.0])


def test_damaged_and_missing_state_files_are_rejected(run, tmp_path):
    run.save("state.npz")
    data = (tmp_path / "state.npz").read_bytes()
    for wrong in (b"", b"PK", data[: len(data) // 2], b"a,b\n1,2\n"):
        (tmp_path / "wrong.npz").write_bytes(wrong)
        with pytest.raises(ValueError, match=r"'wrong.npz' is damaged, or .* did not write it"):
            run.restore("wrong.npz")
    with pytest.raises(FileNotFoundError):
        run.restore("nothing.npz")
    assert not list(tmp_path.glob("*.part"))


def test_state_file_of_a_run_with_a_coupling_history_is_rejected(tmp_path):
    run = prepare(robot_system(), 1e-3, form="numpy", order="jacobi", extrapolate=1)
    run.step()
    with pytest.raises(ValueError, match="a state file does not support the options extrapolate"):
        run.save(tmp_path / "state.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_error_for_an_isolated_fmu_that_cannot_save_its_state_identifies_the_fmu(tmp_path):
    path = export_fmu(RobotPlant(planar2()), tmp_path / "arm.fmu")
    system = System()
    system.add("arm", path, isolated=True)
    with prepare(system, 1e-3) as run:
        run.step()
        with pytest.raises(ValueError, match="cannot save the state of 'arm': "):
            run.save(tmp_path / "state.npz")
