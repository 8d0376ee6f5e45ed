"""FMI 3.0 FMUs in co-simulation: the same numbers as the block in NumPy, ports as arrays, and what is illegal is refused."""

import ctypes
import shutil
import sys

import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi3 import FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from fmi3_host import Archive, Instance
from native_host import BLOCKS
from rigidblocks.compile import PORTABLE_FLAGS, shared_library
from rigidblocks.flat import FlatBlock
from rigidblocks.fmi.native import fmu_sources
from rigidblocks.fmi.variables import Variables
from rigidblocks.integrate import RK4
from rigidblocks.stepper import NumpyStepper

SAME = 1e-12  # a short run differs from NumPy's by the rounding of reordered operations

DISCARD, ERROR = 2, 3
PLANAR2 = FlatBlock(BLOCKS["planar2"])
Q, QD, TAU, GRAVITY, QDD, ENERGY = (PLANAR2.where[name].start for name in ("q", "qd", "tau", "gravity", "qdd", "energy"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return Archive(tmp_path_factory.mktemp("fmi3"))


@pytest.fixture
def host(archive):
    """Instances of the FMU of a block by name, freed at the end."""
    made = []

    def instance(name):
        made.append(Instance(archive, name, FMU3Slave))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


def refused(instance, status, message, call):
    """Asserts that the call is refused with that message and that it changes nothing."""
    before = instance.saved()
    with pytest.raises(FMICallException) as error:
        call(instance.fmu)
    assert error.value.status == status
    assert instance.messages[-1] == (status, message)
    assert instance.saved() == before


# ---- the same numbers ----


@pytest.mark.parametrize("name", BLOCKS)
def test_validates_without_a_message(archive, name):
    assert validate_fmu(str(archive(name, 3)[0])) == []


@pytest.mark.parametrize("dt", [1e-3, 4e-3])
@pytest.mark.parametrize("name", BLOCKS)
def test_equals_the_block_in_numpy_under_random_inputs_and_parameters(host, rng, name, dt):
    flat = FlatBlock(BLOCKS[name])
    instance, numpy, m = host(name), NumpyStepper(flat), flat.start()
    numpy.initialize(m, 0.0)
    instance.initialize()
    assert_allclose(instance.m, m, rtol=SAME, atol=SAME)
    for k in range(12):
        m[flat.u] = rng.normal(0.0, 3.0, m[flat.u].shape)
        m[flat.p] *= rng.uniform(0.9, 1.1, m[flat.p].shape)
        instance.set(flat.u, m[flat.u])
        instance.set(flat.p, m[flat.p])
        numpy.step(m, k * dt, dt)
        event, stop, early, time = instance.fmu.doStep(k * dt, dt)
        assert (event, stop, early) == (False, False, False)
        assert time == m[0]
        assert_allclose(instance.m, m, rtol=SAME, atol=SAME * np.abs(m).max())


@pytest.mark.parametrize("name", BLOCKS)
def test_each_port_is_one_variable_of_its_shape_with_its_start_and_unit(host, name):
    flat, described = FlatBlock(BLOCKS[name]), host(name).description.modelVariables
    variables = {v.name: v for v in described if v.derivative is None and v.name != "time"}
    ports = {port.name: port for port in flat.ports if port.size}
    assert list(variables) == list(ports)
    for port, variable in zip(ports.values(), variables.values(), strict=True):
        assert tuple(int(d.start) for d in variable.dimensions) == port.shape
        assert variable.valueReference == flat.where[port.name].start
        assert variable.unit == (port.units[0] if len(set(port.units)) == 1 else None)
        if variable.start is not None:
            start = np.array(variable.start.split() if isinstance(variable.start, str) else variable.start, dtype=float)
            assert_array_equal(np.ravel(start), flat.start()[flat.where[port.name]])


def test_the_model_structure_names_what_the_traced_equations_read(host):
    description = host("planar2").description
    outputs = {u.variable.name: {v.name for v in u.dependencies} for u in description.outputs}
    assert outputs == {"q": {"q"}, "qd": {"qd"}, "qdd": {"q", "qd", "tau"}, "energy": {"q", "qd"}}
    rates = {u.variable.name: {v.name for v in u.dependencies} for u in description.derivatives}
    assert rates == {"der(q)": {"qd"}, "der(qd)": {"q", "qd", "tau"}}
    initial = {u.variable.name: {v.name for v in u.dependencies} for u in description.initialUnknowns}
    assert initial["qdd"] == {"q", "qd", "tau", "gravity"}
    assert set(initial) == {"qdd", "energy", "der(q)", "der(qd)"}


def dependency_arrays(n):
    """Where fmi3GetVariableDependencies writes to: elements, variables, their elements, and kinds."""
    return (ctypes.c_size_t * n)(), (ctypes.c_uint32 * n)(), (ctypes.c_size_t * n)(), (ctypes.c_int * n)()


def dependencies(fmu, reference):
    """The pairs of elements, by index in the memory, that an FMU tells for a variable."""
    size = ctypes.c_size_t()
    fmu.fmi3GetNumberOfVariableDependencies(fmu.component, reference, ctypes.byref(size))
    arrays = dependency_arrays(size.value)
    fmu.fmi3GetVariableDependencies(fmu.component, reference, *arrays, size.value)
    elements, variables, of, kinds = map(list, arrays)
    assert set(kinds) <= {5}  # dependent, in no way that is known
    return {(reference + i - 1, v + k - 1) for i, v, k in zip(elements, variables, of, strict=True)}


def described(unknowns):
    """The pairs of value references (unknown, known) in a part of the model structure."""
    return {(u.variable.valueReference, v.valueReference) for u in unknowns for v in u.dependencies}


@pytest.mark.parametrize("name", ["planar2", "servo", "sampled pd", "free bodies"])
def test_the_dependencies_of_elements_are_those_of_their_variables_in_the_description(host, name):
    instance, variables = host(name), Variables(FlatBlock(BLOCKS[name]))
    structure = instance.description
    starts = sorted(v.valueReference for v in structure.modelVariables)

    def owner(k):
        return max(start for start in starts if start <= k)

    def of_variables(pairs):
        return {(owner(a), owner(b)) for a, b in pairs}

    instance.enter_initialization()
    told = set().union(*(dependencies(instance.fmu, u.variable.valueReference) for u in structure.initialUnknowns))
    assert of_variables(told) == described(structure.initialUnknowns)
    instance.fmu.exitInitializationMode()
    unknowns = (*structure.outputs, *structure.derivatives)
    told = set().union(*(dependencies(instance.fmu, u.variable.valueReference) for u in unknowns))
    assert of_variables(told) == described(unknowns)
    assert told == {(u.index, v.index) for u in (*variables.outputs, *variables.rates) for v in variables.flow(u)}


def test_an_element_that_is_no_dependency_has_no_effect(host):
    instance = host("servo")
    servo = FlatBlock(BLOCKS["servo"])
    instance.initialize()
    force, load = servo.where["force"].start, servo.where["load"].start
    assert {(a - force, b - load) for a, b in dependencies(instance.fmu, force) if b in (load, load + 1)} == {(0, 0), (1, 1)}
    assert instance.fmu.getDirectionalDerivative([force], [load], [1.0, 0.0], 2) == [1.0, 0.0]


def test_the_rates_can_be_read_in_a_run(host):
    instance = host("planar2")
    instance.initialize()
    instance.set(PLANAR2.u, (3.0, -1.0))
    m = instance.m
    rates = [v.valueReference for v in instance.description.modelVariables if v.derivative is not None]
    assert_allclose(instance.fmu.getFloat64(rates, 4), PLANAR2.derivative(m), rtol=SAME)


# ---- initialization, saved states, reset ----


def test_outputs_in_initialization_mode_follow_the_inputs_set_so_far(host):
    flat = FlatBlock(BLOCKS["sampled pd"])
    instance, m = host("sampled pd"), flat.start()
    instance.enter_initialization(0.5)
    for q_ref in ((1.0, 2.0), (0.1, -0.2), (0.1, -0.2)):
        m[flat.where["q_ref"]] = q_ref
        instance.set(flat.where["q_ref"], q_ref)
        expected = flat.initialized(m, 0.5)
        assert_allclose(instance.m, expected, rtol=SAME)
        assert_allclose(instance.m, expected, rtol=SAME)
    instance.fmu.exitInitializationMode()
    assert_allclose(instance.m, expected, rtol=SAME)


def test_a_start_that_is_not_finite_is_refused_and_can_be_mended(host):
    instance = host("planar2")
    instance.enter_initialization()
    instance.set(PLANAR2.where["qd"], (1e200, 0.0))
    message = "{} is not finite at the start, t = 0 s"
    refused(instance, ERROR, message.format("qdd[1]"), lambda fmu: fmu.exitInitializationMode())
    refused(instance, ERROR, message.format("energy"), lambda fmu: fmu.getFloat64([ENERGY]))
    instance.set(PLANAR2.where["qd"], (1.0, 0.0))
    instance.fmu.exitInitializationMode()


def run(instance, inputs, first=0):
    rows = []
    for k, u in enumerate(inputs, first):
        instance.set(PLANAR2.u, u)
        instance.fmu.doStep(k * 1e-3, 1e-3)
        rows.append(instance.m)
    return np.array(rows)


def test_a_restored_state_continues_exactly(host, rng):
    inputs = rng.normal(size=(20, 2))
    instance, other = host("planar2"), host("planar2")
    instance.initialize()
    run(instance, inputs)
    state, content = instance.fmu.getFMUState(), instance.saved()
    expected = run(instance, inputs, 20)
    instance.fmu.setFMUState(state)
    assert_array_equal(run(instance, inputs, 20), expected)
    instance.fmu.freeFMUState(state)
    copy = other.fmu.deserializeFMUState(content)
    other.fmu.setFMUState(copy)
    assert_array_equal(run(other, inputs, 20), expected)
    other.fmu.freeFMUState(copy)


def test_reset_starts_the_same_run_again(host, rng):
    inputs = rng.normal(size=(20, 2))
    instance = host("planar2")
    untouched = instance.saved()
    instance.initialize(stop=1.0)
    expected = run(instance, inputs)
    instance.fmu.reset()
    assert instance.saved() == untouched
    instance.initialize()
    assert_array_equal(run(instance, inputs), expected)


# ---- what is refused ----

SET = "fmi3SetFloat64: the {} variables from {} on have {} elements, not {}"
BEFORE = {
    "step": ("fmi3DoStep is not allowed before initialization", lambda fmu: fmu.doStep(0.0, 1e-3)),
    "get": ("fmi3GetFloat64 is not allowed before initialization", lambda fmu: fmu.getFloat64([0])),
    "exit": ("fmi3ExitInitializationMode is not allowed before initialization", lambda fmu: fmu.exitInitializationMode()),
    "start time": ("the start time must be finite, not nan s", lambda fmu: fmu.enterInitializationMode(startTime=np.nan)),
    "stop time": (
        "the stop time 1 s is before the start time 2 s",
        lambda fmu: fmu.enterInitializationMode(startTime=2.0, stopTime=1.0),
    ),
    "configuration": ("fmi3EnterConfigurationMode is not provided by this FMU", lambda fmu: fmu.enterConfigurationMode()),
    "category": ("there is no log category 'all'", lambda fmu: fmu.setDebugLogging(True, ["all"])),
}
RUNNING = {
    "too few": (SET.format(1, "tau[1]", 2, 1), lambda fmu: fmu.setFloat64([TAU], [1.0])),
    "too many": (SET.format(2, "tau[1]", 5, 6), lambda fmu: fmu.setFloat64([TAU, GRAVITY], [1.0] * 6)),
    "get too few": (
        "fmi3GetFloat64: the 1 variables from q[1] on have 2 elements, not 1",
        lambda fmu: fmu.getFloat64([Q], 1),
    ),
    "an element": (
        f"fmi3GetFloat64: there is no variable {Q + 1}; the last is 15",
        lambda fmu: fmu.getFloat64([Q, Q + 1], 3),
    ),
    "get unknown": (
        "fmi3GetFloat64: there is no variable 4294967295; the last is 15",
        lambda fmu: fmu.getFloat64([2**32 - 1]),
    ),
    "nan": ("tau[2] must be finite, not nan", lambda fmu: fmu.setFloat64([TAU], [1.0, np.nan])),
    "output": ("energy is computed and cannot be set", lambda fmu: fmu.setFloat64([TAU, ENERGY], [1.0, 1.0, 1.0])),
    "state": ("q[1] has a start value, which cannot be set during a run", lambda fmu: fmu.setFloat64([Q], [1.0, 1.0])),
    "wrong time": (
        "the communication point 0.002 s is not the time 0.001 s of the FMU",
        lambda fmu: fmu.doStep(0.002, 1e-3),
    ),
    "backward": ("the step must be positive, not -0.001 s", lambda fmu: fmu.doStep(0.001, -1e-3)),
    "past the stop": ("the step to 1.001 s is beyond the stop time 1 s", lambda fmu: fmu.doStep(0.001, 1.0)),
    "event mode": ("fmi3EnterEventMode is not allowed during a run", lambda fmu: fmu.enterEventMode()),
    "step mode": ("fmi3EnterStepMode is not allowed during a run", lambda fmu: fmu.enterStepMode()),
    "integer": ("fmi3GetInt32: all variables of this FMU are of type Float64", lambda fmu: fmu.getInt32([1])),
    "boolean": ("fmi3SetBoolean: all variables of this FMU are of type Float64", lambda fmu: fmu.setBoolean([1], [True])),
    "dependencies of nothing": (
        f"fmi3GetNumberOfVariableDependencies: there is no variable {Q + 1}; the last is 15",
        lambda fmu: fmu.fmi3GetNumberOfVariableDependencies(fmu.component, Q + 1, ctypes.byref(ctypes.c_size_t())),
    ),
    "too few dependencies": (
        "fmi3GetVariableDependencies: q[1] has 2 dependencies, not 1",
        lambda fmu: fmu.fmi3GetVariableDependencies(fmu.component, Q, *dependency_arrays(1), 1),
    ),
    "clock": ("fmi3GetClock: all variables of this FMU are of type Float64", lambda fmu: fmu.getClock([1])),
    "output derivatives": (
        "fmi3GetOutputDerivatives is not provided by this FMU",
        lambda fmu: fmu.getOutputDerivatives([QDD], [1]),
    ),
    "sensitivity of another size": (
        "fmi3GetDirectionalDerivative: the 1 variables from qdd[1] on have 2 elements, not 1",
        lambda fmu: fmu.getDirectionalDerivative([QDD], [TAU], [1.0, 0.0], 1),
    ),
    "adjoint by an output": (
        "fmi3GetAdjointDerivative: energy is no input, continuous state or parameter",
        lambda fmu: fmu.getAdjointDerivative([QDD], [ENERGY], [1.0, 0.0], 1),
    ),
}


@pytest.mark.parametrize("case", BEFORE)
def test_a_call_that_is_illegal_before_the_run_is_refused_and_changes_nothing(host, case):
    instance = host("planar2")
    refused(instance, ERROR, *BEFORE[case])
    instance.initialize()  # and the run can start


@pytest.mark.parametrize("case", RUNNING)
def test_a_call_that_is_illegal_in_a_run_is_refused_and_changes_nothing(host, case):
    instance = host("planar2")
    instance.initialize(stop=1.0)
    instance.fmu.doStep(0.0, 1e-3)
    refused(instance, ERROR, *RUNNING[case])
    instance.fmu.doStep(0.001, 1e-3)  # and the run goes on


def test_a_step_that_is_not_finite_is_undone_and_the_run_ends_there(host):
    instance = host("planar2")
    instance.initialize()
    instance.fmu.doStep(0.0, 1e-3)
    instance.set(PLANAR2.u, (1e307, -1e307))
    good = instance.m
    with pytest.raises(FMICallException, match="fmi3DoStep failed with status 2"):
        instance.fmu.doStep(1e-3, 1e-3)
    assert instance.messages[-1] == (DISCARD, "q[1] is not finite at t = 0.002 s: the step of 0.001 s is undone")
    assert_array_equal(instance.m, good)
    refused(instance, ERROR, "fmi3DoStep is not allowed after a step that failed", lambda fmu: fmu.doStep(1e-3, 1e-3))


def test_an_instance_with_another_token_is_refused(host):
    fmu, messages = host("pd").fmu, []
    other = FMU3Slave(guid="{0}", unzipDirectory=fmu.unzipDirectory, modelIdentifier="PDController", instanceName="other")
    with pytest.raises(Exception, match="Failed to instantiate"):
        other.instantiate(logMessage=lambda *message: messages.append(message[-1].decode()))
    assert messages == [f"the instantiation token is not the one of this FMU, {fmu.guid}"]


# ---- the C ----

ZIG = (sys.executable, "-m", "ziglang", "cc")
STRICT = (*PORTABLE_FLAGS, "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def sources_of(name):
    return fmu_sources(Variables(FlatBlock(BLOCKS[name])), "model", RK4, 1e-3, 3)[1]


@pytest.mark.parametrize("name", ["planar2", "free bodies", "sampled pd", "sequence"])
@pytest.mark.parametrize("command", [("gcc",), ZIG], ids=["gcc", "ziglang"])
def test_the_sources_are_strict_c99_without_a_warning(command, name):
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]} on the PATH")
    shared_library(sources_of(name), "fmi3.c", STRICT, command)


def test_the_library_shows_every_function_of_fmi_and_nothing_else():
    library = ctypes.CDLL(str(shared_library(sources_of("sampled pd"), "fmi3.c")))
    kinds = [kind for kind in vars(sys.modules["fmpy.fmi3"]).values() if isinstance(kind, type)]
    names = {name for kind in kinds for name in dir(kind) if name.startswith("fmi3") and callable(getattr(kind, name))}
    assert len(names) > 70
    for name in names:
        assert hasattr(library, name)
    for name in ("step", "initialize", "derivative", "integrate", "report", "get", "set"):
        assert not hasattr(library, name)
