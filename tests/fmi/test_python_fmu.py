"""A Python FMU is its block: the same numbers alone, in company, in every host, and after every
kind of restart.
"""

import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose

from block_runs import DT, assert_same, begun, go_on, memory, random_inputs, reference_run
from hosts import instantiated, references, run_in_ecos, run_in_fmpy, run_in_libcosim, start
from rigidblocks.block.adaptive import memory_for, method_of
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.python import python_fmu
from rigidblocks.fmi.script import slave_of
from rigidblocks.fmi.slave import KERNEL, BlockSlave
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.evaluator import TracedEvaluator

SCRIPTS = sorted(Path(__file__).parents[2].glob("fmus/*_fmu.py"))
ROBOT = SCRIPTS[0].with_name("planar2_robot_fmu.py")
# hosts count time in their own ways; the loop's gain of 1000 acts on the command's rounding
HOSTS_AGREE = 1e-10

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


class Fmus(dict):
    """The FMU of every script by the script's stem, made when it is first asked for."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __missing__(self, stem: str) -> Path:
        self[stem] = python_fmu(SCRIPTS[0].with_name(f"{stem}.py"), self.folder / f"{stem}.fmu")
        return self[stem]


@pytest.fixture(scope="module")
def fmus(tmp_path_factory) -> Fmus:
    return Fmus(tmp_path_factory.mktemp("fmus"))


def without_kernel(fmu: Path, path: Path) -> Path:
    """A copy of the FMU that has lost its kernel."""
    with zipfile.ZipFile(fmu) as archive:
        content = {
            name: archive.read(name) for name in archive.namelist() if name != f"resources/{KERNEL}"
        }
        assert len(content) == len(archive.namelist()) - 1
    return write_archive(path, content)


@each_script
def test_every_fmu_passes_the_validator_with_no_message(fmus, script):
    assert validate_fmu(str(fmus[script.stem])) == []


@each_script
def test_value_references_are_the_indices_of_the_memory(fmus, script):
    variables = Variables(TracedEvaluator(slave_of(script).memory))
    assert references(fmus[script.stem]) == {v.name: v.index for v in variables.all}


@each_script
@pytest.mark.parametrize("t", [0.0, 2.5])
def test_an_fmu_is_its_block_in_numpy(fmus, script, t, tmp_path):
    inputs = random_inputs(script, 60)
    expected = reference_run(script, inputs, t)
    slave = begun(instantiated(fmus[script.stem], tmp_path), script, inputs, t)
    assert_same(memory(slave, script), expected[0])
    ports = [where for where in slave_of(script).memory.where.values() if isinstance(where, slice)]
    assert_same(go_on(slave, script, inputs[1:], t=t), expected[1:], ports=ports)
    slave.freeInstance()


@each_script
def test_without_its_kernel_an_fmu_does_the_same_in_numpy_and_says_so(fmus, script, tmp_path):
    inputs = random_inputs(script, 10)
    expected = reference_run(script, inputs)
    paths = {"steps by its compiled kernel": fmus[script.stem]}
    paths["steps in NumPy: no compiled kernel"] = without_kernel(
        fmus[script.stem], tmp_path / "without.fmu"
    )
    for message, path in paths.items():
        log: list[tuple[int, str]] = []
        slave = begun(instantiated(path, tmp_path / path.stem, log=log), script, inputs)
        assert_same(go_on(slave, script, inputs[1:]), expected[1:])
        slave.freeInstance()
        assert [status for status, text in log if message in text] == [0]


@each_script
def test_three_instances_of_one_fmu_do_not_know_each_other(fmus, script, tmp_path):
    inputs = [random_inputs(script, 10, seed) for seed in range(3)]
    slaves = [
        begun(
            instantiated(fmus[script.stem], tmp_path / "one folder", f"number {i}"),
            script,
            inputs[i],
        )
        for i in range(3)
    ]
    rows = [
        [go_on(slaves[i], script, inputs[i][k + 1 : k + 2], k)[0] for i in range(3)]
        for k in range(10)
    ]
    for i, slave in enumerate(slaves):
        assert_same(np.array(rows)[:, i], reference_run(script, inputs[i])[1:])
        slave.freeInstance()


@pytest.mark.slow
def test_all_fmus_run_together_in_one_process(fmus, tmp_path):
    inputs = {script: random_inputs(script, 5) for script in SCRIPTS}
    slaves = {
        s: begun(instantiated(fmus[s.stem], tmp_path / s.stem), s, inputs[s]) for s in SCRIPTS
    }
    rows = {s: [] for s in SCRIPTS}
    for k, script in itertools.product(range(5), SCRIPTS):
        rows[script].append(go_on(slaves[script], script, inputs[script][k + 1 : k + 2], k)[0])
    for script, slave in slaves.items():
        assert_same(rows[script], reference_run(script, inputs[script])[1:])
        slave.freeInstance()


@each_script
def test_two_builds_are_the_same_bytes(fmus, script, tmp_path, monkeypatch):
    first = fmus[script.stem].read_bytes()
    monkeypatch.setenv("RIGIDBLOCKS_CACHE", str(tmp_path / "compiled again"))
    again = python_fmu(script, tmp_path / "again.fmu")
    assert again.read_bytes() == first


@each_script
def test_a_saved_state_continues_exactly(fmus, script, tmp_path):
    inputs = random_inputs(script, 12)
    slave = begun(instantiated(fmus[script.stem], tmp_path), script, inputs)
    go_on(slave, script, inputs[1:6])
    saved = slave.getFMUstate()
    data = slave.serializeFMUstate(saved)
    first = go_on(slave, script, inputs[6:], 5)
    slave.setFMUstate(saved)
    assert np.array_equal(go_on(slave, script, inputs[6:], 5), first)
    slave.freeFMUstate(saved)
    # the bytes continue in another instance that has not even been started
    other = instantiated(fmus[script.stem], tmp_path, "other")
    state = other.deSerializeFMUstate(data)
    other.setFMUstate(state)
    assert np.array_equal(go_on(other, script, inputs[6:], 5), first)
    other.freeFMUstate(state)
    for each in (slave, other):
        each.freeInstance()


@each_script
def test_a_state_saved_before_the_start_starts_again(fmus, script, tmp_path):
    inputs = random_inputs(script, 3)
    slave = instantiated(fmus[script.stem], tmp_path)
    new = slave.getFMUstate()
    for _ in range(2):
        begun(slave, script, inputs)
        assert_same(go_on(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
        slave.setFMUstate(new)
    slave.freeInstance()


@each_script
def test_a_reset_fmu_starts_again(fmus, script, tmp_path):
    inputs = random_inputs(script, 3)
    slave = begun(instantiated(fmus[script.stem], tmp_path), script, inputs)
    first = go_on(slave, script, inputs[1:])
    slave.reset()
    assert np.array_equal(go_on(begun(slave, script, inputs), script, inputs[1:]), first)
    slave.freeInstance()


def test_outputs_in_initialization_mode_follow_the_inputs_and_start_the_samples_once(
    fmus, tmp_path
):
    fmu = fmus["planar2_sampled_pd_fmu"]
    vr = references(fmu)
    slave = instantiated(fmu, tmp_path)
    slave.setupExperiment()
    slave.enterInitializationMode()
    for q_ref in (1.0, 2.0, -0.5):
        slave.setReal([vr["q_ref[1]"]], [q_ref])
        # no difference of errors: there is no sample before the start
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


def test_start_values_of_states_and_parameters_can_be_set(fmus, tmp_path):
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
    """What the slave of the FMU does in a Python that has NumPy and, where `installed`,
    rigidblocks.
    """
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


@each_script
@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "numpy"])
def test_at_run_time_there_is_need_of_numpy_and_rigidblocks_alone(fmus, script, kernel, tmp_path):
    inputs = random_inputs(script, 5)
    fmu = (
        fmus[script.stem] if kernel else without_kernel(fmus[script.stem], tmp_path / "without.fmu")
    )
    seen = driven_without_packages(fmu, tmp_path / "unpacked", inputs, installed=True)
    assert_same(seen["memory"], reference_run(script, inputs)[-1])
    assert seen["blocked"] == []
    assert any(("compiled kernel for" if kernel else "in NumPy") in text for text in seen["log"])


@pytest.mark.slow
def test_a_bundling_fmu_brings_its_own_rigidblocks(tmp_path):
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
def test_every_host_gives_the_same_loop(fmus, host, pd, tmp_path):
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
    assert np.abs(expected[:, 0]).max() > 0.9  # the robot did move


@pytest.mark.parametrize("method", ["rk4", "adaptive or stiff"])
def test_what_pythonfmu_knows_of_a_slave_is_what_the_model_description_says(method):
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
