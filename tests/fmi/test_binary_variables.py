"""Ports of a block as binary variables in FMI 3.0 FMUs."""

from shutil import copy

import numpy as np
import pytest
from fmpy import extract, read_model_description, simulate_fmu
from fmpy.fmi1 import FMICallException
from fmpy.fmi3 import FMU3ScheduledExecution, FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_array_equal

from fmu_blocks import SampledMean
from rigidblocks import System, export_fmu, prepare, simulate
from rigidblocks.fmi.fmu_checks import profile_matrix

pytestmark = pytest.mark.slow
DT = 0.01
NAMES = ("u", "y", "gain")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return export_fmu(
        SampledMean(), tmp_path_factory.mktemp("mix") / "mix.fmu", fmi=3, binary=NAMES
    )


def packed(values) -> bytes:
    return np.asarray(values, dtype="<f8").tobytes()


def numbers(value: bytes):
    return np.frombuffer(value, "<f8")


class InFmpy:
    """Instance of the FMU in FMPy, in initialization mode."""

    def __init__(self, path, kind=FMU3Slave):
        self.log, description = [], read_model_description(str(path))
        self.vr = {v.name: v.valueReference for v in description.modelVariables}
        interface = description.coSimulation or description.scheduledExecution
        self.fmu = kind(
            guid=description.guid,
            modelIdentifier=interface.modelIdentifier,
            unzipDirectory=extract(str(path)),
            instanceName="mix",
        )
        self.fmu.instantiate(logMessage=lambda *message: self.log.append(message[-1].decode()))
        self.fmu.enterInitializationMode(startTime=0.0)

    def set(self, name: str, value: bytes) -> None:
        self.fmu.setBinary([self.vr[name]], [value])

    def get(self, name: str) -> bytes:
        return self.fmu.getBinary([self.vr[name]])[0]

    def refused(self, call, *arguments) -> str:
        with pytest.raises(FMICallException):
            call(*arguments)
        return self.log[-1]


def inputs(k: int):
    return np.random.default_rng(k).normal(size=3)


def run_as_block(gain, steps):
    with prepare(_alone(SampledMean(), {"gain": gain, "u": inputs(0)}), DT) as run:
        rows = [run["mix.y"].copy()]
        for k in range(steps):
            run["mix.u"] = inputs(k)
            run.step()
            rows.append(run["mix.y"].copy())
    return np.array(rows)


def _alone(component, start) -> System:
    system = System()
    system.add("mix", component, start=start)
    return system


def test_fmu_with_binary_variables_passes_the_validator(path):
    assert validate_fmu(str(path)) == []
    found = {v.name: v for v in read_model_description(str(path)).modelVariables}
    assert {name: v.type for name, v in found.items() if v.type != "Float64"} == dict.fromkeys(
        NAMES, "Binary"
    )
    assert found["u"].start == packed([1, 2, 3]).hex()
    support = profile_matrix(path).support
    assert {support["binary signals"], support["binary parameters"]} == {"yes"}


def test_binary_values_in_fmpy_equal_the_values_of_the_block(path):
    gain = [1.0, -2.0, 0.25]
    host = InFmpy(path)
    host.set("gain", packed(gain))
    host.set("u", packed(inputs(0)))
    host.fmu.exitInitializationMode()
    rows = [numbers(host.get("y"))]
    for k in range(5):
        host.set("u", packed(inputs(k)))
        host.fmu.doStep(k * DT, DT)
        rows.append(numbers(host.get("y")))
    assert_array_equal(rows, run_as_block(gain, 5))
    assert_array_equal(numbers(host.get("gain")), gain)


def test_binary_values_of_connected_fmus_equal_those_of_connected_blocks(path):
    results = []
    for component in (SampledMean(), path):
        system = System()
        for name in ("a", "b"):
            system.add(name, component)
        system.connect("a.y", "b.u")
        results.append(simulate(system, 0.1, DT))
    found = np.array([numbers(value) for value in results[1]["b.y"]])
    assert_array_equal(found, results[0]["b.y"])
    assert_array_equal(results[1]["b.s"], results[0]["b.s"])


def test_empty_binary_value_does_not_change_the_fmu_variable(path):
    host = InFmpy(path)
    host.set("u", packed([7, 8, 9]))
    host.set("u", b"")
    assert_array_equal(numbers(host.get("u")), [7, 8, 9])


def test_invalid_binary_values_are_rejected_and_change_nothing(path):
    host = InFmpy(path)
    before = host.get("gain")
    assert "u[1] has 24 bytes, not 23" in host.refused(host.set, "u", packed([1, 2, 3])[:-1])
    assert "gain[2] must be finite" in host.refused(host.set, "gain", packed([1, np.nan, 3]))
    assert "gain[3] must be at most 10" in host.refused(host.set, "gain", packed([1, 2, 11]))
    assert "y[1] is computed" in host.refused(host.set, "y", packed([1, 2, 3]))
    assert "s is not a binary variable" in host.refused(host.get, "s")
    assert "u[1] is a binary variable" in host.refused(
        host.fmu.setFloat64, [host.vr["u"]], [1.0, 2.0, 3.0]
    )
    assert "y[1] is a binary variable" in host.refused(host.fmu.getFloat64, [host.vr["y"]], 3)
    assert host.get("gain") == before


def test_saved_fmu_state_contains_the_binary_values(path):
    host = InFmpy(path)
    host.fmu.exitInitializationMode()
    host.set("u", packed([4, 5, 6]))
    host.fmu.doStep(0.0, DT)
    state, y = host.fmu.getFMUState(), host.get("y")
    host.set("u", packed([-1, 0, 1]))
    host.fmu.doStep(DT, DT)
    assert host.get("y") != y
    host.fmu.setFMUState(state)
    assert host.get("y") == y
    assert numbers(host.get("u")).tolist() == [4, 5, 6]


def test_two_fmu_instances_keep_their_own_binary_values(path):
    first, second = InFmpy(path), InFmpy(path)
    first.set("u", packed([1, 1, 1]))
    second.set("u", packed([2, 2, 2]))
    assert [numbers(one.get("u"))[0] for one in (first, second)] == [1.0, 2.0]


def test_binary_variables_are_clocked_in_scheduled_execution(tmp_path):
    path = export_fmu(SampledMean(), tmp_path / "mix.fmu", fmi=3, binary=("u", "y"), interval=DT)
    assert validate_fmu(str(path)) == []
    clocked = [v.name for v in read_model_description(str(path)).modelVariables if v.clocks]
    assert {"u", "y"} <= set(clocked)
    host = InFmpy(path, FMU3ScheduledExecution)
    host.set("u", packed(inputs(0)))
    host.fmu.exitInitializationMode()
    rows = [numbers(host.get("y"))]
    for k in range(3):
        host.set("u", packed(inputs(k)))
        host.fmu.activateModelPartition(host.vr["activation_clock"], (k + 1) * DT)
        rows.append(numbers(host.get("y")))
    assert_array_equal(rows, run_as_block([2.0, 3.0, 4.0], 3))


@pytest.mark.interop
def test_binary_values_pass_between_the_fmus_of_a_container_of_another_tool(path, tmp_path):
    container = pytest.importorskip("fmu_manipulation_toolbox.container")
    system = System()
    made = container.FMUContainer("both", tmp_path, fmi_version=3)
    for name in ("a", "b"):
        system.add(name, copy(path, tmp_path / f"{name}.fmu"))
        made.get_fmu(f"{name}.fmu")
    system.connect("a.y", "b.u")
    made.add_link("a.fmu", "y", "b.fmu", "u")
    made.add_output("b.fmu", "s", "s")
    made.make_fmu(tmp_path / "both.fmu", step_size=DT, sequential=False)
    rows = simulate_fmu(
        str(tmp_path / "both.fmu"), validate=False, stop_time=0.1, output_interval=DT
    )
    assert_array_equal(rows["s"], simulate(system, 0.1, DT, order="jacobi")["b.s"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fmi": 2, "binary": "u"}, "binary variables need FMI 3.0: u"),
        ({"fmi": 3, "binary": ("u", "last")}, "'last' cannot be a binary variable; .*: u, v, "),
        ({"fmi": 3, "binary": "w"}, "'w' cannot be a binary variable"),
        ({"fmi": 3, "binary": "u", "arrays": False}, "binary variables need arrays=True"),
        ({"fmi": 3, "binary": "gain", "tunable": []}, "'gain' cannot be a binary variable"),
        ({"target": "python", "binary": "u"}, "a Python FMU .* does not support binary"),
    ],
)
def test_export_rejects_binary_variables_that_fmi_does_not_allow(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        export_fmu(SampledMean(), tmp_path / "mix.fmu", **options)
