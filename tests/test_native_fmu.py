"""Native FMUs: the same numbers as the block in NumPy; a state that is restored goes on; what is illegal is refused."""

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi2 import fmi2LastSuccessfulTime, fmi2Terminated
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from native_host import BLOCKS, Host
from rigidblocks.flat import FlatBlock
from rigidblocks.fmi.native import native_fmu
from rigidblocks.integrate import INTEGRATORS
from rigidblocks.stepper import NumpyStepper

SAME = 1e-12  # a short run differs from NumPy's by the rounding of reordered operations

DISCARD, ERROR = 2, 3


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The FMU of each of BLOCKS, by name, made when it is asked for."""
    folder, done = tmp_path_factory.mktemp("native"), {}

    def build(name):
        if name not in done:
            done[name] = native_fmu(BLOCKS[name], folder / f"{name}.fmu")
        return done[name]

    return build


@pytest.fixture
def host(built, tmp_path):
    """Instances of the FMU of a block by name, freed at the end."""
    made = []

    def instance(block, **settings):
        made.append(Host(built(block), tmp_path, **settings))
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
    assert instance.messages[-1] == (status, {DISCARD: "logStatusDiscard", ERROR: "logStatusError"}[status], message)
    assert instance.saved() == before


def stepped(instance, dt, steps, inputs, first=0):
    """All variables after each step with the inputs (rows), from step `first`."""
    u = FlatBlock(BLOCKS["planar2"]).u
    rows = []
    for k in range(first, first + steps):
        instance.set(u, inputs[k])
        instance.fmu.doStep(k * dt, dt)
        rows.append(instance.m)
    return np.array(rows)


# ---- the same numbers ----


@pytest.mark.parametrize("name", BLOCKS)
def test_validates_without_a_message(built, name):
    assert validate_fmu(str(built(name))) == []


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
        instance.fmu.doStep(k * dt, dt)
        assert_allclose(instance.m, m, rtol=SAME, atol=SAME * np.abs(m).max())


@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=INTEGRATORS)
def test_every_integrator_equals_its_numpy_form(tmp_path, method):
    block = BLOCKS["gravity"]
    instance = Host(native_fmu(block, tmp_path / "a.fmu", method=method, h=0.5e-3), tmp_path)
    numpy, m = NumpyStepper(FlatBlock(block), method, 0.5e-3), FlatBlock(block).start()
    numpy.initialize(m, 0.0)
    instance.initialize()
    for k in range(10):
        numpy.step(m, k * 1e-3, 1e-3)
        instance.fmu.doStep(k * 1e-3, 1e-3)
    assert_allclose(instance.m, m, rtol=SAME, atol=SAME)
    instance.fmu.freeInstance()


def test_a_parameter_that_is_not_tunable_is_a_constant(tmp_path):
    instance = Host(native_fmu(BLOCKS["pd"], tmp_path / "pd.fmu", tunable=("kd",)), tmp_path)
    names = [v.name for v in instance.description.modelVariables if v.causality == "parameter"]
    assert names == ["kd[1]", "kd[2]"]
    flat = FlatBlock(BLOCKS["pd"], ("kd",))
    instance.set(flat.where["q_ref"], (1.0, 2.0))
    instance.initialize()
    assert_allclose(instance.m[flat.where["tau"]], (60.0, 60.0), rtol=SAME)
    instance.fmu.freeInstance()


def test_fmpy_simulates_it_to_the_stop_time(built):
    result = fmpy.simulate_fmu(str(built("sequence")), stop_time=0.02, output_interval=1e-3, output=["y[1]"])
    expected = np.interp(result["time"], BLOCKS["sequence"].t, np.array(BLOCKS["sequence"].y)[:, 0])
    assert_allclose(result["y[1]"], expected, atol=SAME)


# ---- initialization ----


def test_outputs_in_initialization_mode_follow_the_inputs_set_so_far(host):
    flat = FlatBlock(BLOCKS["sampled pd"])
    instance, m = host("sampled pd"), flat.start()
    instance.fmu.setupExperiment(startTime=0.5)
    instance.fmu.enterInitializationMode()
    for q_ref in ((1.0, 2.0), (0.1, -0.2), (0.1, -0.2)):
        m[flat.where["q_ref"]] = q_ref
        instance.set(flat.where["q_ref"], q_ref)
        expected = flat.initialized(m, 0.5)  # of the start values: the last error and the first-sample mark do not build up
        assert_allclose(instance.m, expected, rtol=SAME)
        assert_allclose(instance.m, expected, rtol=SAME)
    instance.fmu.exitInitializationMode()
    assert_allclose(instance.m, expected, rtol=SAME)


def test_start_values_can_be_set_until_the_run_starts(host):
    flat = FlatBlock(BLOCKS["planar2"])
    instance = host("planar2")
    instance.set(flat.where["q"], (0.7, 0.8))
    instance.fmu.enterInitializationMode()
    instance.set(flat.where["qd"], (-1.0, 0.5))
    assert_array_equal(instance.m[flat.x], (0.7, 0.8, -1.0, 0.5))
    instance.fmu.exitInitializationMode()
    assert_array_equal(instance.m[flat.x], (0.7, 0.8, -1.0, 0.5))
    refused(instance, ERROR, "q[2] has a start value, which cannot be set during a run", lambda fmu: fmu.setReal([2], [0.0]))


def test_a_start_that_is_not_finite_is_refused_and_can_be_mended(host):
    flat = FlatBlock(BLOCKS["planar2"])
    instance = host("planar2")
    instance.fmu.enterInitializationMode()
    instance.set(flat.where["qd"], (1e200, 0.0))
    message = "{} is not finite at the start, t = 0 s"
    refused(instance, ERROR, message.format("qdd[1]"), lambda fmu: fmu.exitInitializationMode())
    refused(instance, ERROR, message.format("energy"), lambda fmu: fmu.getReal([flat.where["energy"].start]))
    instance.set(flat.where["qd"], (1.0, 0.0))
    instance.fmu.exitInitializationMode()
    assert np.all(np.isfinite(instance.m))


# ---- saved states, reset, several instances ----


def test_a_restored_state_continues_exactly(host, rng):
    inputs = rng.normal(size=(40, 2))
    instance, other = host("planar2"), host("planar2", name="other")
    instance.initialize()
    stepped(instance, 1e-3, 20, inputs)
    state, content = instance.fmu.getFMUstate(), instance.saved()
    expected = stepped(instance, 1e-3, 20, inputs, 20)
    instance.fmu.setFMUstate(state)
    assert_array_equal(stepped(instance, 1e-3, 20, inputs, 20), expected)
    other.restore(content)
    assert_array_equal(stepped(other, 1e-3, 20, inputs, 20), expected)
    instance.fmu.freeFMUstate(state)


def test_bytes_that_are_no_state_are_refused(host):
    instance, stranger = host("planar2"), host("pd")
    content = instance.saved()
    strange = stranger.saved()
    not_finite = content[:40] + b"\xff" * 80 + content[120:]
    no_mode = content[:-4] + b"\x03" + content[-3:]
    message = "these {} bytes are not a serialized state of this FMU"
    refused(instance, ERROR, message.format(len(strange)), lambda fmu: fmu.deSerializeFMUstate(strange))
    refused(instance, ERROR, message.format(10), lambda fmu: fmu.deSerializeFMUstate(content[:10]))
    refused(instance, ERROR, "the serialized state is damaged", lambda fmu: fmu.deSerializeFMUstate(not_finite))
    refused(instance, ERROR, "the serialized state is damaged", lambda fmu: fmu.deSerializeFMUstate(no_mode))
    refused(instance, ERROR, "fmi2SetFMUstate: there is no state", lambda fmu: fmu.setFMUstate(None))


def test_a_state_of_another_instance_is_refused(host):
    instance, other = host("planar2"), host("planar2", name="other")
    state = other.fmu.getFMUstate()
    message = "{}: this is no state that the instance has saved"
    refused(instance, ERROR, message.format("fmi2SetFMUstate"), lambda fmu: fmu.setFMUstate(state))
    refused(instance, ERROR, message.format("fmi2SerializeFMUstate"), lambda fmu: fmu.serializeFMUstate(state))
    refused(instance, ERROR, message.format("fmi2FreeFMUstate"), lambda fmu: fmu.freeFMUstate(state))
    other.fmu.setFMUstate(state)
    other.fmu.freeFMUstate(state)


def test_reset_starts_the_same_run_again(host, rng):
    inputs = rng.normal(size=(20, 2))
    instance = host("planar2")
    untouched = instance.saved()
    instance.initialize(stop=1.0)
    expected = stepped(instance, 1e-3, 20, inputs)
    instance.fmu.reset()
    assert instance.saved() == untouched
    instance.initialize()
    assert_array_equal(stepped(instance, 1e-3, 20, inputs), expected)


def test_instances_do_not_know_of_each_other(host, rng):
    inputs = rng.normal(size=(3, 20, 2))
    alone = []
    for u in inputs:
        instance = host("planar2")
        instance.initialize()
        alone.append(stepped(instance, 1e-3, 20, u))
    together = [host("planar2", name=f"number {i}") for i in range(3)]
    for instance in together:
        instance.initialize()
    runs = [[stepped(one, 1e-3, 1, u, k)[0] for one, u in zip(together, inputs, strict=True)] for k in range(20)]
    assert_array_equal(np.swapaxes(runs, 0, 1), alone)


# ---- what is refused ----

BEFORE = {
    "step": ("fmi2DoStep is not allowed before initialization", lambda fmu: fmu.doStep(0.0, 1e-3)),
    "get": ("fmi2GetReal is not allowed before initialization", lambda fmu: fmu.getReal([0])),
    "exit": ("fmi2ExitInitializationMode is not allowed before initialization", lambda fmu: fmu.exitInitializationMode()),
    "terminate": ("fmi2Terminate is not allowed before initialization", lambda fmu: fmu.terminate()),
    "start time": ("the start time must be finite, not nan s", lambda fmu: fmu.setupExperiment(startTime=np.nan)),
    "stop time": (
        "the stop time 1 s is before the start time 2 s",
        lambda fmu: fmu.setupExperiment(startTime=2.0, stopTime=1.0),
    ),
    "category": ("there is no log category 'all'", lambda fmu: fmu.setDebugLogging(True, ["all"])),
}
RUNNING = {
    "nan": ("tau[1] must be finite, not nan", lambda fmu: fmu.setReal([6, 5], [1.0, np.nan])),
    "infinity": ("gravity[3] must be finite, not -inf", lambda fmu: fmu.setReal([5, 9], [1.0, -np.inf])),
    "time": ("time is computed and cannot be set", lambda fmu: fmu.setReal([5, 0], [1.0, 1.0])),
    "output": ("energy is computed and cannot be set", lambda fmu: fmu.setReal([5, 12], [1.0, 1.0])),
    "set unknown": ("fmi2SetReal: there is no variable 17; the last is 16", lambda fmu: fmu.setReal([5, 17], [1.0, 1.0])),
    "get unknown": ("fmi2GetReal: there is no variable 4294967295; the last is 16", lambda fmu: fmu.getReal([2**32 - 1])),
    "wrong time": (
        "the communication point 0.002 s is not the time 0.001 s of the FMU",
        lambda fmu: fmu.doStep(0.002, 1e-3),
    ),
    "no time": ("the communication point nan s is not the time 0.001 s of the FMU", lambda fmu: fmu.doStep(np.nan, 1e-3)),
    "backward": ("the step must be positive, not -0.001 s", lambda fmu: fmu.doStep(0.001, -1e-3)),
    "no step": ("the step must be positive, not 0 s", lambda fmu: fmu.doStep(0.001, 0.0)),
    "endless step": ("the step of 1e+300 s has too many inner steps of 0.001 s", lambda fmu: fmu.doStep(0.001, 1e300)),
    "past the stop": ("the step to 1.001 s is beyond the stop time 1 s", lambda fmu: fmu.doStep(0.001, 1.0)),
    "initialize again": (
        "fmi2EnterInitializationMode is not allowed during a run",
        lambda fmu: fmu.enterInitializationMode(),
    ),
    "integer": ("fmi2GetInteger: all variables of this FMU are of type Real", lambda fmu: fmu.getInteger([1])),
    "boolean": ("fmi2SetBoolean: all variables of this FMU are of type Real", lambda fmu: fmu.setBoolean([1], [True])),
    "string": ("fmi2SetString: all variables of this FMU are of type Real", lambda fmu: fmu.setString([1], ["a"])),
    "cancel": ("fmi2CancelStep is not provided by this FMU", lambda fmu: fmu.cancelStep()),
    "output slope": (
        "fmi2GetRealOutputDerivatives is not provided by this FMU",
        lambda fmu: fmu.getRealOutputDerivatives([1], [1]),
    ),
    "derivative by an output": (
        "fmi2GetDirectionalDerivative: energy is no input, continuous state or parameter",
        lambda fmu: fmu.getDirectionalDerivative([10], [5, 12], [1.0, 1.0]),
    ),
    "derivative of an input": (
        "fmi2GetDirectionalDerivative: tau[2] is neither an output nor a rate",
        lambda fmu: fmu.getDirectionalDerivative([10, 6], [5], [1.0]),
    ),
}


@pytest.mark.parametrize("case", BEFORE)
def test_a_call_that_is_illegal_before_initialization_is_refused_and_changes_nothing(host, case):
    refused(host("planar2"), ERROR, *BEFORE[case])


@pytest.mark.parametrize("case", RUNNING)
def test_a_call_that_is_illegal_in_a_run_is_refused_and_changes_nothing(host, case):
    instance = host("planar2")
    instance.initialize(stop=1.0)
    instance.fmu.doStep(0.0, 1e-3)
    refused(instance, ERROR, *RUNNING[case])
    instance.fmu.doStep(0.001, 1e-3)  # and the run goes on


def test_a_step_that_does_not_fit_the_sample_time_is_refused(host):
    instance = host("sampled pd")
    instance.initialize()
    message = "the step 0.003 s does not fit the sample time 0.002 s: one must be a multiple of the other"
    refused(instance, ERROR, message, lambda fmu: fmu.doStep(0.0, 3e-3))


def test_a_step_that_is_not_finite_is_undone_and_the_run_ends_there(host):
    flat = FlatBlock(BLOCKS["planar2"])
    instance = host("planar2")
    instance.initialize()
    instance.fmu.doStep(0.0, 1e-3)
    instance.set(flat.u, (1e307, -1e307))
    good, content = instance.m, instance.saved()
    with pytest.raises(FMICallException, match="fmi2DoStep failed with status 2"):
        instance.fmu.doStep(1e-3, 1e-3)
    assert instance.messages[-1][1:] == (
        "logStatusDiscard",
        "q[1] is not finite at t = 0.002 s: the step of 0.001 s is undone",
    )
    assert_array_equal(instance.m, good)
    assert instance.fmu.getRealStatus(fmi2LastSuccessfulTime) == 1e-3
    assert instance.fmu.getBooleanStatus(fmi2Terminated) is False
    refused(instance, ERROR, "fmi2DoStep is not allowed after a step that failed", lambda fmu: fmu.doStep(1e-3, 1e-3))
    instance.restore(content)
    instance.set(flat.u, (1.0, -1.0))
    instance.fmu.doStep(1e-3, 1e-3)


def test_nothing_is_pending(host):
    instance = host("planar2")
    instance.initialize()
    refused(instance, DISCARD, "fmi2GetStatus: there is no status of kind 0", lambda fmu: fmu.getStatus(0))
    refused(instance, DISCARD, "fmi2GetStringStatus: there is no status of kind 1", lambda fmu: fmu.getStringStatus(1))
    instance.fmu.terminate()
    refused(instance, ERROR, "fmi2DoStep is not allowed after termination", lambda fmu: fmu.doStep(0.0, 1e-3))


def test_an_instance_of_another_fmu_is_refused(built, tmp_path):
    with pytest.raises(Exception, match="Failed to instantiate"):
        Host(built("planar2"), tmp_path, guid="{0}")
