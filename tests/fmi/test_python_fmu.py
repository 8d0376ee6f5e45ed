"""A Python FMU equals its block in every importer.

The cases are one or several instances and every type of restart.
"""

import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fmpy import read_model_description
from fmpy.fmi1 import FMICallException
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose

from block_runs import (
    DT,
    assert_same,
    continue_steps,
    initialized_slave,
    memory,
    random_inputs,
    reference_run,
)
from hosts import instantiated, references, run_in_ecos, run_in_fmpy, run_in_libcosim, start
from rigidblocks.block.adaptive_methods import memory_for, method_of
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.export import python_fmu
from rigidblocks.fmi.script import slave_of
from rigidblocks.fmi.slave import KERNEL, BlockSlave
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.traced_evaluator import TracedEvaluator

SCRIPTS = sorted(Path(__file__).parents[2].glob("fmus/*_fmu.py"))
ROBOT = SCRIPTS[0].with_name("planar2_robot_fmu.py")
# importers compute the time differently; the loop gain of 1000 amplifies the command's rounding
HOSTS_AGREE = 1e-10

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


class Fmus(dict):
    """FMUs by the stem of their script, built on request."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __missing__(self, stem: str) -> Path:
        self[stem] = python_fmu(SCRIPTS[0].with_name(f"{stem}.py"), self.folder / f"{stem}.fmu")
        return self[stem]


@pytest.fixture(scope="module")
def fmus(tmp_path_factory) -> Fmus:
    return Fmus(tmp_path_factory.mktemp("fmus"))


def without_kernel(fmu: Path, path: Path) -> Path:
    """Return a copy of the FMU without its kernel."""
    with zipfile.ZipFile(fmu) as archive:
        content = {
            name: archive.read(name) for name in archive.namelist() if name != f"resources/{KERNEL}"
        }
        assert len(content) == len(archive.namelist()) - 1
    return write_archive(path, content)


@pytest.mark.slow
@each_script
def test_python_fmu_passes_the_validator_without_messages(fmus, script):
    assert validate_fmu(str(fmus[script.stem])) == []


@each_script
def test_value_references_of_a_python_fmu_are_memory_indices(fmus, script):
    variables = Variables(TracedEvaluator(slave_of(script).memory))
    assert references(fmus[script.stem]) == {v.name: v.index for v in variables.all}


def test_library_of_pythonfmu_rejects_output_derivatives(fmus, tmp_path):
    """The Python FMU declares no output derivatives, because the library rejects the call."""
    fmu = fmus[ROBOT.stem]
    assert not read_model_description(str(fmu)).coSimulation.maxOutputDerivativeOrder
    slave = start(instantiated(fmu, tmp_path))
    with pytest.raises(FMICallException, match="fmi2GetRealOutputDerivatives"):
        slave.getRealOutputDerivatives([references(fmu)["q[1]"]], [1])


@each_script
def test_python_fmu_with_a_nonzero_start_time_matches_the_numpy_results_of_the_block(
    fmus, script, tmp_path
):
    inputs, t = random_inputs(script, 60), 2.5
    expected = reference_run(script, inputs, t)
    slave = initialized_slave(instantiated(fmus[script.stem], tmp_path), script, inputs, t)
    assert_same(memory(slave, script), expected[0])
    ports = [where for where in slave_of(script).memory.where.values() if isinstance(where, slice)]
    assert_same(continue_steps(slave, script, inputs[1:], t=t), expected[1:], ports=ports)
    slave.freeInstance()


@pytest.mark.slow
@each_script
def test_python_fmu_without_a_kernel_runs_in_numpy_and_logs_a_message(fmus, script, tmp_path):
    inputs = random_inputs(script, 10)
    expected = reference_run(script, inputs)
    paths = {"steps by its compiled kernel": fmus[script.stem]}
    paths["steps in NumPy: no compiled kernel"] = without_kernel(
        fmus[script.stem], tmp_path / "without.fmu"
    )
    for message, path in paths.items():
        log: list[tuple[int, str]] = []
        slave = initialized_slave(instantiated(path, tmp_path / path.stem, log=log), script, inputs)
        assert_same(continue_steps(slave, script, inputs[1:]), expected[1:])
        slave.freeInstance()
        assert [status for status, text in log if message in text] == [0]


@pytest.mark.slow
@each_script
def test_three_instances_of_a_python_fmu_are_independent(fmus, script, tmp_path):
    inputs = [random_inputs(script, 10, seed) for seed in range(3)]
    slaves = [
        initialized_slave(
            instantiated(fmus[script.stem], tmp_path / "one folder", f"number {i}"),
            script,
            inputs[i],
        )
        for i in range(3)
    ]
    rows = [
        [continue_steps(slaves[i], script, inputs[i][k + 1 : k + 2], k)[0] for i in range(3)]
        for k in range(10)
    ]
    for i, slave in enumerate(slaves):
        assert_same(np.array(rows)[:, i], reference_run(script, inputs[i])[1:])
        slave.freeInstance()


@pytest.mark.slow
def test_python_fmus_of_all_scripts_run_in_one_process(fmus, tmp_path):
    inputs = {script: random_inputs(script, 5) for script in SCRIPTS}
    slaves = {
        s: initialized_slave(instantiated(fmus[s.stem], tmp_path / s.stem), s, inputs[s])
        for s in SCRIPTS
    }
    rows = {s: [] for s in SCRIPTS}
    for k, script in itertools.product(range(5), SCRIPTS):
        rows[script].append(
            continue_steps(slaves[script], script, inputs[script][k + 1 : k + 2], k)[0]
        )
    for script, slave in slaves.items():
        assert_same(rows[script], reference_run(script, inputs[script])[1:])
        slave.freeInstance()


@pytest.mark.slow
@each_script
def test_two_builds_of_a_python_fmu_are_byte_identical(fmus, script, tmp_path, monkeypatch):
    first = fmus[script.stem].read_bytes()
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "compiled again"))
    again = python_fmu(script, tmp_path / "again.fmu")
    assert again.read_bytes() == first


@pytest.mark.slow
@each_script
def test_run_from_a_restored_python_fmu_state_repeats_the_original_results_bit_for_bit(
    fmus, script, tmp_path
):
    inputs = random_inputs(script, 12)
    slave = initialized_slave(instantiated(fmus[script.stem], tmp_path), script, inputs)
    continue_steps(slave, script, inputs[1:6])
    saved = slave.getFMUstate()
    data = slave.serializeFMUstate(saved)
    first = continue_steps(slave, script, inputs[6:], 5)
    slave.setFMUstate(saved)
    assert np.array_equal(continue_steps(slave, script, inputs[6:], 5), first)
    slave.freeFMUstate(saved)
    # a new instance, which is not initialized, continues from the bytes
    other = instantiated(fmus[script.stem], tmp_path, "other")
    state = other.deSerializeFMUstate(data)
    other.setFMUstate(state)
    assert np.array_equal(continue_steps(other, script, inputs[6:], 5), first)
    other.freeFMUstate(state)
    for each in (slave, other):
        each.freeInstance()


@each_script
def test_restoring_a_python_fmu_state_saved_before_initialization_restarts_the_run(
    fmus, script, tmp_path
):
    inputs = random_inputs(script, 3)
    slave = instantiated(fmus[script.stem], tmp_path)
    new = slave.getFMUstate()
    for _ in range(2):
        initialized_slave(slave, script, inputs)
        assert_same(continue_steps(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
        slave.setFMUstate(new)
    slave.freeInstance()


@each_script
def test_reset_python_fmu_repeats_its_run_bit_for_bit(fmus, script, tmp_path):
    inputs = random_inputs(script, 3)
    slave = initialized_slave(instantiated(fmus[script.stem], tmp_path), script, inputs)
    first = continue_steps(slave, script, inputs[1:])
    slave.reset()
    assert np.array_equal(
        continue_steps(initialized_slave(slave, script, inputs), script, inputs[1:]), first
    )
    slave.freeInstance()


def test_repeated_reads_in_initialization_mode_execute_the_first_sample_once(fmus, tmp_path):
    fmu = fmus["planar2_sampled_pd_fmu"]
    vr = references(fmu)
    slave = instantiated(fmu, tmp_path)
    slave.setupExperiment()
    slave.enterInitializationMode()
    for q_ref in (1.0, 2.0, -0.5):
        slave.setReal([vr["q_ref[1]"]], [q_ref])
        # the first sample has no previous error, so its difference quotient is zero
        assert slave.getReal([vr["tau[1]"], vr["e_last[1]"], vr["primed"]]) == [
            1000 * q_ref,
            q_ref,
            1.0,
        ]
    slave.exitInitializationMode()
    assert slave.getReal([vr["tau[1]"], vr["e_last[1]"], vr["primed"]]) == [-500.0, -0.5, 1.0]
    slave.doStep(0.0, DT)
    assert slave.getReal([vr["tau[1]"]]) == [-500.0]
    slave.freeInstance()


def test_python_fmu_uses_the_start_values_set_by_the_importer(fmus, tmp_path):
    fmu = fmus["planar2_robot_fmu"]
    vr = references(fmu)
    slave = instantiated(fmu, tmp_path)
    slave.setReal([vr["q[1]"], vr["qd[2]"], vr["gravity[2]"]], [0.3, -2.0, -9.81])
    flat = slave_of(ROBOT).memory
    m = flat.start()
    m[[vr["q[1]"], vr["qd[2]"], vr["gravity[2]"]]] = 0.3, -2.0, -9.81
    stepper = NumpyStepper(flat, slave_of(ROBOT).method, slave_of(ROBOT).h)
    stepper.initialize(m, 0.0)
    start(slave)
    assert_same(memory(slave, ROBOT), m)
    stepper.step(m, 0.0, DT)
    slave.doStep(0.0, DT)
    assert_same(memory(slave, ROBOT), m)
    slave.freeInstance()


def driven_without_packages(
    fmu: Path, folder: Path, inputs: np.ndarray, *, installed: bool
) -> dict:
    """Return the results of the slave in a Python with NumPy and, if `installed`, rigidblocks."""
    with zipfile.ZipFile(fmu) as archive:
        archive.extractall(folder)
    numpy_only = folder / "numpy only"
    numpy_only.mkdir()
    for part in (Path(np.__file__).parent, Path(np.__file__).parents[1] / "numpy.libs"):
        if part.exists():
            (numpy_only / part.name).symlink_to(part)
    arguments = [
        str(folder / "resources"),
        json.dumps(inputs.tolist()),
        json.dumps(installed),
        str(numpy_only),
    ]
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "support/drive_slave.py"),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@each_script
@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "numpy"])
def test_python_fmu_imports_only_numpy_and_rigidblocks(fmus, script, kernel, tmp_path):
    inputs = random_inputs(script, 5)
    fmu = (
        fmus[script.stem] if kernel else without_kernel(fmus[script.stem], tmp_path / "without.fmu")
    )
    seen = driven_without_packages(fmu, tmp_path / "unpacked", inputs, installed=True)
    assert_same(seen["memory"], reference_run(script, inputs)[-1])
    assert seen["blocked"] == []
    assert any(("compiled kernel for" if kernel else "in NumPy") in text for text in seen["log"])


@pytest.mark.slow
def test_bundled_python_fmu_uses_its_own_copy_of_rigidblocks(tmp_path):
    script = ROBOT
    inputs = random_inputs(script, 5)
    fmu = python_fmu(script, tmp_path / "bundled.fmu", bundle=True)
    seen = driven_without_packages(fmu, tmp_path / "unpacked", inputs, installed=False)
    assert_same(seen["memory"], reference_run(script, inputs)[-1])
    assert Path(seen["rigidblocks"]).is_relative_to(tmp_path / "unpacked" / "resources")
    assert validate_fmu(str(fmu)) == []


CONNECTIONS = [
    (f"{source}[{k}]", f"{target}[{k}]")
    for source, target in (
        ("command.y", "pd.q_ref"),
        ("command.slope", "pd.qd_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "robot.tau"),
    )
    for k in (1, 2)
]
OBSERVED = [
    f"{name}[{k}]"
    for name in ("robot.q", "robot.qd", "robot.qdd", "pd.tau", "command.y")
    for k in (1, 2)
]
HOSTS = {"libcosimpy": run_in_libcosim, "ecospy": run_in_ecos}


@pytest.mark.interop
@pytest.mark.parametrize("pd", ["planar2_pd_fmu", "planar2_sampled_pd_fmu"])
@pytest.mark.parametrize("host", HOSTS)
def test_control_loop_of_python_fmus_has_equal_trajectories_in_other_masters(
    fmus, host, pd, tmp_path
):
    try:
        __import__(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")
    loop = {
        "robot": fmus["planar2_robot_fmu"],
        "pd": fmus[pd],
        "command": fmus["planar2_command_fmu"],
    }
    inputs = references(fmus[pd])
    connections = [
        (source, target)
        for source, target in CONNECTIONS
        if not target.startswith("pd.") or target[3:] in inputs
    ]
    expected = run_in_fmpy(loop, connections, 1000, DT, OBSERVED, tmp_path)
    actual = HOSTS[host](loop, connections, 1000, DT, OBSERVED)
    assert_allclose(actual, expected, rtol=HOSTS_AGREE, atol=HOSTS_AGREE)
    assert np.abs(expected[:, 0]).max() > 0.9  # the robot moves


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rk4", "adaptive or stiff"])
def test_python_and_native_fmus_have_equal_variables_and_value_references(method):
    for script in SCRIPTS:
        read = slave_of(script).memory
        flat = memory_for(read.block, method_of(method), read.tunable)

        class Plain(BlockSlave):
            def __init__(self, flat=flat, **kwargs):
                super().__init__(flat.block, tunable=flat.tunable, method=method, **kwargs)

        slave = Plain(instance_name="plain")
        for variable, described in zip(
            slave.vars.values(), Variables(TracedEvaluator(flat)).all, strict=True
        ):
            assert (variable.name, variable.value_reference) == (described.name, described.index)
            if described.index:  # pythonfmu has no independent variables
                assert variable.causality.name == described.causality
                assert variable.variability.name == described.variability
        assert len(slave.to_xml().findall("ModelVariables/ScalarVariable")) == flat.size
