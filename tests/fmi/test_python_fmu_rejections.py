"""A rejected call of a Python FMU is logged with the variable and prevents the next step."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fmpy.fmi1 import FMICallException

from hosts import instantiated, references, start
from rigidblocks.block.block import Block, Port
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.export import python_fmu
from rigidblocks.fmi.slave import KERNEL, BlockSlave

FMUS = Path(__file__).parents[2] / "fmus"
DT = 1e-3
OK, WARNING, DISCARD, ERROR = 0, 1, 2, 3


def changed(fmu: Path, path: Path, name: str, data: bytes | None) -> Path:
    """Return a copy of the FMU in which `data` replaces the entry `name`; None removes it."""
    with zipfile.ZipFile(fmu) as archive:
        content = {entry: archive.read(entry) for entry in archive.namelist()}
    del content[name]
    return write_archive(path, content if data is None else content | {name: data})


class Fmu:
    """FMU under test: its slave, variables by name, and log."""

    def __init__(self, fmu: Path, folder: Path) -> None:
        self.log: list[tuple[int, str]] = []
        self.vr = references(fmu)
        self.slave = instantiated(fmu, folder, log=self.log)

    def set(self, **values: float) -> None:
        """Set variables; `q_1` is q[1]."""
        names = {re.sub(r"_(\d)$", r"[\1]", name): value for name, value in values.items()}
        self.slave.setReal([self.vr[name] for name in names], list(names.values()))

    def get(self, *names: str) -> list[float]:
        return self.slave.getReal([self.vr[name] for name in names])

    def memory(self) -> list[float]:
        return self.slave.getReal(list(self.vr.values()))

    def assert_step_is_discarded(self, message: str, t: float = 0.0, dt: float = DT) -> None:
        """Assert that a step is discarded with the message and changes no variable."""
        before = self.memory()
        with pytest.raises(FMICallException, match="discard"):
            self.slave.doStep(t, dt)
        assert self.log[-1][0] == DISCARD
        assert message in self.log[-1][1]
        assert self.memory() == before

    def assert_logged_error(self, message: str) -> None:
        assert any(status == ERROR and message in text for status, text in self.log), self.log


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """Return the FMUs by name, with and without their kernel."""
    folder = tmp_path_factory.mktemp("fmus")
    text = (FMUS / "planar2_robot_fmu.py").read_text()
    fixed = folder / "planar2_fixed_steps_fmu.py"
    fixed.write_text(text.replace("**kwargs)\n", 'method="rk4", **kwargs)\n'))
    fmus = {}
    for script in (FMUS / "planar2_robot_fmu.py", FMUS / "planar2_sampled_pd_fmu.py", fixed):
        name = script.stem.removesuffix("_fmu")
        fmus[name, "kernel"] = python_fmu(script, folder / f"{name}.fmu")
        path = folder / f"{name}_in_numpy.fmu"
        fmus[name, "numpy"] = changed(fmus[name, "kernel"], path, f"resources/{KERNEL}", None)
    return fmus


@pytest.fixture(params=["kernel", "numpy"])
def robot(request, built, tmp_path) -> Fmu:
    return Fmu(built["planar2_robot", request.param], tmp_path / "robot")


@pytest.fixture(params=["kernel", "numpy"])
def sampled_pd(request, built, tmp_path) -> Fmu:
    return Fmu(built["planar2_sampled_pd", request.param], tmp_path / "pd")


@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_error_for_a_nonfinite_input_identifies_the_input_and_the_finite_inputs_are_set(robot, bad):
    start(robot.slave)
    robot.set(tau_1=0.5)
    robot.set(tau_1=bad, tau_2=3.0)
    robot.assert_logged_error(f"tau[1] must be finite, not {bad}")
    assert robot.get("tau[1]", "tau[2]") == [0.5, 3.0]
    robot.assert_step_is_discarded("tau[1] must be finite")
    robot.set(tau_1=1.0)
    robot.slave.doStep(0.0, DT)
    assert robot.get("time") == [DT]


def test_python_fmu_accepts_finite_inputs_whose_sum_overflows(robot):
    robot.set(tau_1=1.5e308, tau_2=1.5e308)
    assert robot.get("tau[1]", "tau[2]") == [1.5e308, 1.5e308]


def test_outputs_become_finite_after_an_input_is_corrected_in_initialization_mode(robot):
    robot.slave.setupExperiment()
    robot.slave.enterInitializationMode()
    assert np.all(np.isfinite(robot.get("qdd[1]", "energy")))
    robot.set(tau_1=np.nan)
    assert np.all(np.isnan(robot.get("qdd[1]", "energy")))
    robot.set(tau_1=1.0)
    assert np.all(np.isfinite(robot.get("qdd[1]", "energy")))


def test_python_fmu_discards_steps_after_a_failed_initialization_until_reset(robot):
    robot.set(tau_1=np.nan)
    start(robot.slave)
    robot.set(tau_1=1.0)
    robot.log.clear()
    with pytest.raises(FMICallException, match="discard"):
        robot.slave.doStep(0.0, DT)
    assert "the initialization failed: no finite value of qdd[1]" in robot.log[-1][1]
    robot.slave.reset()
    start(robot.slave).doStep(0.0, DT)


@pytest.mark.parametrize("name", ["time", "qdd_1", "energy"])
def test_setting_the_time_or_a_derivative_or_an_output_of_an_fmu_is_rejected(robot, name):
    variable = re.sub(r"_(\d)$", r"[\1]", name)
    start(robot.slave)
    before = robot.get(variable)
    robot.set(**{name: 7.0})
    robot.assert_logged_error(f"{variable} cannot be set")
    assert robot.get(variable) == before
    robot.assert_step_is_discarded(f"{variable} cannot be set")


def test_setting_a_state_of_an_fmu_during_a_run_is_rejected(robot):
    robot.set(q_1=0.25)
    start(robot.slave)
    robot.set(q_1=0.5)
    robot.assert_logged_error("q[1] cannot be set after the start")
    assert robot.get("q[1]") == [0.25]
    robot.assert_step_is_discarded("q[1] cannot be set after the start")


def test_setting_a_sampled_state_that_initialization_computes_is_rejected(sampled_pd):
    sampled_pd.set(tau_1=1.0)
    sampled_pd.assert_logged_error("tau[1] cannot be set")


def test_fmu_parameter_set_during_a_run_takes_effect_in_the_next_step(robot):
    start(robot.slave)
    robot.set(gravity_2=-9.81)
    robot.slave.doStep(0.0, DT)
    assert robot.get("gravity[2]") == [-9.81]
    assert robot.get("qdd[1]")[0] < -1.0


def test_reading_unknown_value_references_gives_nan_and_setting_them_is_rejected(robot):
    start(robot.slave)
    for unknown in (len(robot.vr), 2**32 - 1):
        values = robot.slave.getReal([robot.vr["tau[1]"], unknown])
        assert values[0] == 0.0
        assert np.isnan(values[1])
        robot.assert_logged_error("has no variable with the value reference")
    robot.slave.setReal([len(robot.vr)], [1.0])
    robot.assert_step_is_discarded(f"the value reference {len(robot.vr)} cannot be set")


def test_setting_a_real_variable_of_an_fmu_as_integer_is_rejected(robot):
    start(robot.slave)
    robot.slave.setInteger([robot.vr["tau[1]"]], [1])
    robot.assert_logged_error("tau[1] does not accept int values: it is a real variable")
    robot.assert_step_is_discarded("tau[1] does not accept int values")


@pytest.mark.parametrize(
    ("t", "dt", "message"),
    [
        (0.5, DT, "the block is at t = 0.0 s"),
        (-DT, DT, "the block is at t = 0.0 s"),
        (np.nan, DT, "the block is at t = 0.0 s"),
        (0.0, 0.0, "a step must be positive"),
        (0.0, -DT, "a step must be positive"),
        (0.0, np.nan, "a step must be finite, not nan s"),
        (0.0, np.inf, "a step must be finite, not inf s"),
    ],
)
def test_fmu_step_with_an_invalid_time_or_length_is_discarded_with_the_reason(
    robot, t, dt, message
):
    start(robot.slave)
    robot.assert_step_is_discarded(message, t, dt)
    robot.slave.doStep(0.0, DT)


@pytest.mark.parametrize("form", ["kernel", "numpy"])
def test_fmu_step_with_too_many_inner_steps_is_discarded(built, form, tmp_path):
    robot = Fmu(built["planar2_fixed_steps", form], tmp_path / "robot")
    start(robot.slave)
    message = "the step 1e+300 s has too many inner steps of 0.001 s"
    robot.assert_step_is_discarded(message, 0.0, 1e300)
    robot.slave.doStep(0.0, DT)


def test_fmu_step_before_initialization_is_discarded(robot):
    robot.slave.setupExperiment()
    robot.assert_step_is_discarded("the instance is not initialized; call fmi2ExitInit")


def test_fmu_step_beyond_the_stop_time_is_discarded(robot):
    robot.slave.setupExperiment(startTime=1.0, stopTime=1.0 + 2 * DT)
    robot.slave.enterInitializationMode()
    robot.slave.exitInitializationMode()
    robot.slave.doStep(1.0, DT)
    robot.slave.doStep(1.0 + DT, DT)
    robot.assert_step_is_discarded("the run ends at t = 1.002 s", 1.0 + 2 * DT)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"startTime": np.nan}, "the start time must be finite, not nan s"),
        ({"startTime": 2.0, "stopTime": 1.0}, "the stop time 1.0 s is before the start time 2.0 s"),
    ],
)
def test_invalid_start_and_stop_times_of_an_fmu_are_rejected(robot, times, message):
    robot.slave.setupExperiment(**times)
    robot.assert_logged_error(message)
    robot.slave.setupExperiment()
    robot.slave.enterInitializationMode()
    robot.slave.exitInitializationMode()
    robot.slave.doStep(0.0, DT)


@pytest.mark.slow
def test_fmu_accepts_communication_times_with_accumulated_rounding_errors(robot):
    start(robot.slave)
    t = 0.0
    for _ in range(200):
        robot.slave.doStep(t, DT)
        t += DT
    assert robot.get("time") == [t]


def test_error_for_an_fmu_step_with_nonfinite_results_identifies_a_variable(robot):
    start(robot.slave)
    robot.set(tau_1=1e300)
    robot.assert_step_is_discarded("RobotPlant is not finite at t = 0.001 s: ")
    assert re.search(r"q\[1\]|qd\[1\]|energy", robot.log[-1][1])
    robot.set(tau_1=0.0)
    robot.slave.doStep(0.0, DT)
    assert np.all(np.isfinite(robot.memory()))


def test_steps_from_a_restored_state_with_a_nonfinite_input_are_discarded(robot):
    start(robot.slave)
    good = robot.slave.getFMUstate()
    robot.set(tau_1=np.nan)
    bad = robot.slave.getFMUstate()
    robot.slave.setFMUstate(good)
    robot.slave.doStep(0.0, DT)
    robot.slave.setFMUstate(bad)
    robot.assert_step_is_discarded("tau[1] must be finite")


def test_saved_fmu_state_of_another_block_is_rejected(robot, sampled_pd):
    start(robot.slave)
    start(sampled_pd.slave)
    for data in (
        sampled_pd.slave.serializeFMUstate(sampled_pd.slave.getFMUstate()),
        b"no state",
        b"[1]",
        b"{}",
    ):
        before = robot.memory()
        robot.slave.setFMUstate(robot.slave.deSerializeFMUstate(data))
        robot.assert_logged_error("the state to restore belongs to another block")
        assert robot.memory() == before
        robot.log.clear()


def test_fmu_whose_variables_differ_from_its_block_is_not_instantiated(built, tmp_path):
    fmu = built["planar2_robot", "kernel"]
    with zipfile.ZipFile(fmu) as archive:
        layout = json.loads(archive.read("resources/layout.json"))
    layout["variables"].insert(1, "another")
    path = changed(
        fmu, tmp_path / "other.fmu", "resources/layout.json", json.dumps(layout).encode()
    )
    log: list[tuple[int, str]] = []
    with pytest.raises(Exception, match="Failed to instantiate"):
        instantiated(path, tmp_path / "unpacked", log=log)
    assert "defines other variables for RobotPlant" in log[-1][1]


def test_fmu_built_with_another_version_logs_a_warning(built, tmp_path):
    fmu = built["planar2_robot", "kernel"]
    with zipfile.ZipFile(fmu) as archive:
        layout = json.loads(archive.read("resources/layout.json"))
    layout["made_with"] = "rigidblocks 0.0.1"
    other = Fmu(
        changed(fmu, tmp_path / "o.fmu", "resources/layout.json", json.dumps(layout).encode()),
        tmp_path / "unpacked",
    )
    start(other.slave)
    assert any(
        status == WARNING and "built with rigidblocks 0.0.1, running with" in text
        for status, text in other.log
    )


@pytest.mark.slow
def test_bundled_fmu_logs_that_another_copy_of_rigidblocks_runs(tmp_path):
    fmu = python_fmu(FMUS / "planar2_robot_fmu.py", tmp_path / "bundled.fmu", bundle=True)
    name = "resources/rigidblocks/block/units.py"
    for path, expected in (
        (fmu, False),
        (changed(fmu, tmp_path / "other.fmu", name, b"# another"), True),
    ):
        bundled = Fmu(path, tmp_path / path.stem)
        start(bundled.slave)
        assert (
            any("runs a previously loaded copy of rigidblocks" in text for _, text in bundled.log)
            == expected
        )


def test_python_fmu_whose_kernel_does_not_load_runs_in_numpy_and_logs_the_reason(built, tmp_path):
    name = f"resources/{KERNEL}"
    fmu = Fmu(
        changed(built["planar2_robot", "kernel"], tmp_path / "a.fmu", name, b"no library"),
        tmp_path / "unpacked",
    )
    start(fmu.slave).doStep(0.0, DT)
    assert any(
        status == OK and "steps in NumPy: no compiled kernel" in text for status, text in fmu.log
    )


class Failing(Block):
    """Block whose output function raises an exception."""

    @property
    def outputs(self):
        return (Port("y"),)

    def output(self, t):
        raise ZeroDivisionError(f"{t} divided by nothing, 100%s \udc80")


def test_exception_in_a_block_is_logged_and_discards_the_step():
    slave = BlockSlave(Failing(), instance_name="failing")
    slave.exit_initialization_mode()
    assert slave.do_step(0.0, DT) is False
    texts = [message.msg for message in slave.log_queue]
    # no format specifier for an importer's printf, and no characters outside UTF-8
    assert texts[0] == "Failing cannot start: 0.0 divided by nothing, 100_s ?"
    assert "the initialization failed: no finite value of y" in texts[-1]
    assert np.isnan(slave.get_real([1])[0])


class Interrupted(Block):
    """Sample counter that raises KeyboardInterrupt when its count is 2."""

    sample_time = DT
    outputs = sampled = (Port("n", start=0.0),)

    def update(self, x):
        if x.n == 2.0:
            raise KeyboardInterrupt
        return {"n": x.n + 1.0}


def test_fmu_step_interrupted_by_ctrl_c_is_discarded():
    slave = BlockSlave(Interrupted(), instance_name="interrupted")
    slave.exit_initialization_mode()
    assert slave.do_step(0.0, DT) is True
    assert slave.do_step(DT, DT) is False
    assert "KeyboardInterrupt" in slave.log_queue[-1].msg
    assert slave.get_real([0, 1]) == [DT, 2.0]
