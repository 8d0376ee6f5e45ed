"""FMUs with adaptive inner steps give the same values as the block without an FMU, in every form.

The state of the step size control is part of the FMU state. The FMU and the block without an FMU
use the same C code, so their values are equal bit for bit. Two runs differ by rounding if NumPy
orders the operations differently, or if the importer computes the time differently.
"""

import re
import xml.etree.ElementTree as ET
import zipfile

import fmpy
import fmpy.validation
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import Instance
from rigidblocks import export_fmu
from rigidblocks.block.adaptive_methods import METHODS, memory_for, method_of
from rigidblocks.block.adaptive_step import AdaptiveStepper, CommunicationStep
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar

SAME = 1e-12
DT = 0.01

MECHANISM = five_bar()
PLANT = ClosedLoopPlant(MECHANISM.model, MECHANISM.q0)
NAMES = ["adaptive", "adaptive or stiff"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the unpacked FMU of the plant with a method."""
    folder = tmp_path_factory.mktemp("adaptive")

    def archive(name, fmi):
        path = folder / f"{name} {fmi}.fmu"
        if not path.exists():
            export_fmu(PLANT, path, fmi=fmi, name="five_bar", method=name)
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")

    return archive


@pytest.fixture
def host(built):
    made = []

    def instance(name, kind=FMU2Slave, **settings):
        made.append(Instance(built, name, kind, **settings))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


def without_fmu(method, steps, form=compiled_stepper):
    """Return the memory after each step, with the lower joint forces from `force`."""
    memory = memory_for(PLANT, method)
    stepper, m, rows = form(memory, method), memory.start(), []
    stepper.initialize(m, 0.0)
    for k in range(steps):
        m[memory.u] = force(k)
        stepper.step(m, k * DT, DT)
        rows.append(m.copy())
    return np.array(rows)


def force(k):
    return np.array([3.0, 0.0, -2.0, 0.0]) * (k % 7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FMU2Slave, FMU3Slave])
@pytest.mark.parametrize("name", NAMES)
def test_native_fmu_takes_the_same_inner_steps_as_its_block_in_python(host, name, kind):
    memory, fmu = memory_for(PLANT, METHODS[name]), host(name, kind)
    fmu.initialize()
    rows = without_fmu(METHODS[name], 80)
    for k in range(80):
        fmu.set(memory.u, force(k))
        fmu.advance(k * DT, DT)
        assert_array_equal(fmu.m, rows[k])
    assert rows[-1][memory.s][0] < DT  # there were inner steps
    plain = without_fmu(METHODS[name], 80, numpy_stepper)
    assert_array_equal(plain[:, memory.s.start], rows[:, memory.s.start])  # equal step sizes
    assert_allclose(plain[:, memory.x], rows[:, memory.x], rtol=SAME, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("adaptive", FMU2Slave), ("adaptive", FMU3Slave), ("radau", FMU3Slave)]
)
def test_adaptive_fmu_repeats_its_inner_steps_after_restore_and_reset(host, name, kind):
    memory, fmu, rows = memory_for(PLANT, METHODS[name]), host(name, kind), []
    fmu.initialize()
    for k in range(65):
        if k == 60:
            content = fmu.saved()
        fmu.set(memory.u, force(k))
        fmu.advance(k * DT, DT)
        rows.append(fmu.m)
    fmu.restore(content)
    for k in range(60, 65):
        fmu.set(memory.u, force(k))
        fmu.advance(k * DT, DT)
        assert_array_equal(fmu.m, rows[k])
    fmu.fmu.reset()
    fmu.initialize()
    for k in range(3):
        fmu.set(memory.u, force(k))
        fmu.advance(k * DT, DT)
        assert_array_equal(fmu.m, rows[k])
    assert_array_equal(np.array(rows), without_fmu(METHODS[name], len(rows)))


@pytest.mark.slow
def test_intermediate_update_reports_each_inner_step_and_permits_early_return(host):
    method = METHODS["adaptive"]
    memory, times = memory_for(PLANT, method), []

    def update(_environment, time, _wanted, _kept, _finished, may_return, requested, end):
        times.append(time)
        if may_return and len(times) == 3:
            requested[0], end[0] = True, time

    fmu = host("adaptive", FMU3Slave, intermediateUpdate=update, earlyReturnAllowed=True)
    fmu.initialize()
    _, _, early, at = fmu.fmu.doStep(0.0, 0.5)
    assert early
    assert at == times[2]
    fmu.fmu.doStep(at, 0.5 - at)
    assert len(times) > 5
    stepper, m, done = numpy_stepper(memory, method), memory.start(), 0.0
    stepper.initialize(m, 0.0)
    steps = AdaptiveStepper(TracedEvaluator(memory), method, np.inf)
    for _ in range(3):
        m, done = steps._step(CommunicationStep(0.0, 0.5, 0.5), m, done)
    assert done == at
    stepper.step(m, at, 0.5 - at)
    assert_allclose(fmu.m, m, rtol=SAME, atol=SAME)


@pytest.mark.slow
def test_event_mode_does_not_change_the_inner_steps_of_an_adaptive_fmu(tmp_path):
    """Samples of a controller end inner steps, with and without event mode."""
    block, method = BLOCKS["servo"], METHODS["adaptive or stiff"]
    memory, sample, dt = memory_for(block, method), block.sample_time, 0.02

    def archive(name, fmi):
        path = tmp_path / f"{name}.fmu"
        export_fmu(block, path, fmi=fmi, method=method)
        fmpy.extract(str(path), str(tmp_path / name))
        return path, tmp_path / name

    fmu = Instance(archive, "servo", FMU3Slave, eventModeUsed=True, earlyReturnAllowed=True)
    fmu.initialize()
    fmu.fmu.updateDiscreteStates()
    fmu.fmu.enterStepMode()
    stepper, m, events = compiled_stepper(memory, method), memory.start(), 0
    stepper.initialize(m, 0.0)
    for k in range(20):
        inputs = np.array([0.2, 0.8, 1.0, -2.0]) * (k % 3)
        t, m[memory.u] = k * dt, inputs
        fmu.set(memory.u, inputs)
        while t < (k + 1) * dt:
            event, _, _, t = fmu.fmu.doStep(t, (k + 1) * dt - t)
            events += event
            if event:
                fmu.fmu.enterEventMode()
                fmu.fmu.updateDiscreteStates()
                fmu.fmu.enterStepMode()
        stepper.step(m, k * dt, dt)
        assert_allclose(fmu.m, m, rtol=SAME, atol=SAME)
    assert events == round(20 * dt / sample)
    fmu.fmu.freeInstance()


def test_python_fmu_takes_the_same_inner_steps_as_its_block_in_python(tmp_path):
    path = export_fmu(PLANT, tmp_path / "five_bar.fmu", "python", method="adaptive")
    seen = fmpy.simulate_fmu(
        str(path), stop_time=0.5, step_size=DT, output_interval=DT, output=["energy", "q[1]"]
    )
    memory = memory_for(PLANT, METHODS["adaptive"])
    m, stepper, rows = memory.start(), compiled_stepper(memory, METHODS["adaptive"]), []
    stepper.initialize(m, 0.0)
    for k in range(50):
        stepper.step(m, k * DT, DT)
        rows.append(m.copy())
    rows = np.array(rows)
    assert_allclose(seen["q[1]"][1:], rows[:, memory.where["q"].start], rtol=0, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_adaptive_fmu_has_a_step_counter_and_declares_no_fixed_internal_step(built, fmi):
    path, _ = built("adaptive", fmi)
    assert not fmpy.validation.validate_fmu(str(path))
    description = fmpy.read_model_description(str(path))
    counted = [v for v in description.modelVariables if v.name == "steps.cut_short"]
    assert [v.causality for v in counted] == ["local"]
    with zipfile.ZipFile(path) as archive:
        text = archive.read("documentation/index.html").decode()
        root = ET.fromstring(archive.read("modelDescription.xml"))
    assert "integrates the states with error control" in text.replace("\n", " ")
    assert "fixedInternalStepSize" not in root.find("CoSimulation").attrib


@pytest.mark.slow
def test_fmu_counts_communication_steps_that_reach_max_inner_steps(tmp_path):
    method = method_of("adaptive", 1e-10, max_inner_steps=2)
    path = export_fmu(
        PLANT, tmp_path / "bounded.fmu", method="adaptive", rtol=1e-10, max_inner_steps=2
    )
    with zipfile.ZipFile(path) as archive:
        text = archive.read("documentation/index.html").decode()
    assert re.search(r"at most 2 inner steps, and one step .* at most [0-9.e+]+ arithmetic", text)
    seen = fmpy.simulate_fmu(
        str(path), stop_time=1.0, output_interval=DT, output=["steps.cut_short", "energy"]
    )
    memory = memory_for(PLANT, method)
    stepper, m = compiled_stepper(memory, method), memory.start()
    stepper.initialize(m, 0.0)
    for k in range(100):
        stepper.step(m, k * DT, DT)
    assert seen["steps.cut_short"][-1] == m[memory.where["steps.cut_short"]] > 0
    assert np.isfinite(seen["energy"]).all()
