"""FMUs whose inner steps know their error: the same numbers as in memory, in every form, for what
the integrator remembers is part of the memory and so of the state of an FMU.

The same C gives the same bytes. NumPy differs by the rounding of reordered operations, and so do
runs whose host counts time in another way.
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
from rigidblocks.block.adaptive import METHODS, memory_for, method_of
from rigidblocks.block.control import Span, Steps
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.mechanisms import five_bar

SAME = 1e-12
DT = 0.01

MECHANISM = five_bar()
PLANT = ClosedLoopPlant(MECHANISM.model, MECHANISM.q0)
NAMES = ["adaptive", "adaptive or stiff"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The FMU of the plant by a method, unpacked."""
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


def in_memory(method, steps, form=compiled_stepper):
    """The memory after each step, the forces of the lower links as in `force`."""
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
def test_fmu_takes_the_same_steps_as_in_memory(host, name, kind):
    memory, fmu = memory_for(PLANT, METHODS[name]), host(name, kind)
    fmu.initialize()
    rows = in_memory(METHODS[name], 80)
    for k in range(80):
        fmu.set(memory.u, force(k))
        fmu.advance(k * DT, DT)
        assert_array_equal(fmu.m, rows[k])
    assert rows[-1][memory.s][0] < DT  # there have been inner steps
    plain = in_memory(METHODS[name], 80, numpy_stepper)
    assert_array_equal(plain[:, memory.s.start], rows[:, memory.s.start])  # the same lengths
    assert_allclose(plain[:, memory.x], rows[:, memory.x], rtol=SAME, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("adaptive", FMU2Slave), ("adaptive", FMU3Slave), ("radau", FMU3Slave)]
)
def test_a_saved_state_and_a_reset_go_on_with_the_same_steps(host, name, kind):
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
    assert_array_equal(np.array(rows), in_memory(METHODS[name], len(rows)))


@pytest.mark.slow
def test_a_host_is_shown_each_inner_step_and_may_end_the_step_there(host):
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
    steps = Steps(TracedEvaluator(memory), method, np.inf)
    for _ in range(3):
        m, done = steps.step(Span(0.0, 0.5, 0.5), m, done)
    assert done == at
    stepper.step(m, at, 0.5 - at)
    assert_allclose(fmu.m, m, rtol=SAME, atol=SAME)


@pytest.mark.slow
def test_samples_that_are_events_leave_the_same_steps(tmp_path):
    """A controller's samples end inner steps, whether the host takes them as events or not."""
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


def test_python_fmu_takes_the_same_steps(tmp_path):
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
def test_the_description_has_what_is_remembered_and_no_fixed_step(built, fmi):
    path, _ = built("adaptive", fmi)
    assert not fmpy.validation.validate_fmu(str(path))
    description = fmpy.read_model_description(str(path))
    counted = [v for v in description.modelVariables if v.name == "steps.cut_short"]
    assert [v.causality for v in counted] == ["local"]
    with zipfile.ZipFile(path) as archive:
        text = archive.read("documentation/index.html").decode()
        root = ET.fromstring(archive.read("modelDescription.xml"))
    assert "whose inner steps know their error" in text.replace("\n", " ")
    assert "fixedInternalStepSize" not in root.find("CoSimulation").attrib


@pytest.mark.slow
def test_inner_steps_are_bounded_and_counted_where_asked_for(tmp_path):
    method = method_of("adaptive", 1e-10, max_inner_steps=2)
    path = export_fmu(
        PLANT, tmp_path / "bounded.fmu", method="adaptive", rtol=1e-10, max_inner_steps=2
    )
    with zipfile.ZipFile(path) as archive:
        text = archive.read("documentation/index.html").decode()
    assert re.search(r"at most 2, and one more, .* at most [0-9.e+]+ operations of", text)
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
