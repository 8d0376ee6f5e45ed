"""FMI 2.0 and 3.0 co-simulation FMUs compared with the block in NumPy.

Runs from saved states equal the original run bit for bit, and illegal calls are rejected. Tests of
a single FMI version are in test_native_fmu and test_fmi3.
"""

import re

import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi2 import FMU2Slave, fmi2LastSuccessfulTime, fmi2Terminated
from fmpy.fmi3 import FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import DISCARD, ERROR, Instance, refused
from illegal_calls import ILLEGAL_BEFORE, ILLEGAL_IN_A_RUN
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper, initialize

SAME = 1e-12  # rounding of reordered operations in a short run

PLANAR2 = Memory(BLOCKS["planar2"])
SLAVES = {2: FMU2Slave, 3: FMU3Slave}


@pytest.fixture
def host(archive):
    """Return a function that instantiates the FMU of a block; the fixture frees the instances."""
    made = []

    def instance(name, fmi):
        made.append(Instance(archive, name, SLAVES[fmi]))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


@pytest.fixture(params=SLAVES, ids="fmi{}".format)
def fmi(request):
    return request.param


def stepped(instance, inputs, first=0):
    """Return all variables of planar2 after each step with the inputs (rows), from step `first`."""
    rows = []
    for k, u in enumerate(inputs, first):
        instance.set(PLANAR2.u, u)
        instance.advance(k * 1e-3, 1e-3)
        rows.append(instance.m)
    return np.array(rows)


# ---- equal values in C and NumPy ----


@pytest.mark.parametrize("name", BLOCKS)
def test_co_simulation_fmu_passes_the_validator_without_messages(archive, name, fmi):
    assert validate_fmu(str(archive(name, fmi)[0])) == []


@pytest.mark.parametrize("dt", [1e-3, 4e-3])
@pytest.mark.parametrize("name", BLOCKS)
def test_co_simulation_fmu_matches_its_block_for_random_inputs_and_parameters(
    host, rng, name, dt, fmi
):
    flat = Memory(BLOCKS[name])
    instance, numpy, m = host(name, fmi), NumpyStepper(flat), flat.start()
    numpy.initialize(m, 0.0)
    instance.initialize()
    assert_allclose(instance.m, m, rtol=SAME, atol=SAME)
    for k in range(12):
        m[flat.u] = rng.normal(0.0, 3.0, m[flat.u].shape)
        m[flat.p] *= rng.uniform(0.9, 1.1, m[flat.p].shape)
        instance.set(flat.u, m[flat.u])
        instance.set(flat.p, m[flat.p])
        numpy.step(m, k * dt, dt)
        instance.advance(k * dt, dt)
        assert_allclose(instance.m, m, rtol=SAME, atol=SAME * np.abs(m).max())


# ---- initialization ----


def test_fmu_outputs_in_initialization_mode_depend_on_the_latest_inputs(host, fmi):
    flat = Memory(BLOCKS["sampled pd"])
    instance, m = host("sampled pd", fmi), flat.start()
    instance.enter_initialization(0.5)
    for q_ref in ((1.0, 2.0), (0.1, -0.2), (0.1, -0.2)):
        m[flat.where["q_ref"]] = q_ref
        instance.set(flat.where["q_ref"], q_ref)
        # repeated reads do not accumulate samples: the expected values begin with the start values
        expected = initialize(NumpyEvaluator(flat), m, 0.5)
        assert_allclose(instance.m, expected, rtol=SAME)
        assert_allclose(instance.m, expected, rtol=SAME)
    instance.fmu.exitInitializationMode()
    assert_allclose(instance.m, expected, rtol=SAME)


def test_fmu_rejects_nonfinite_initial_outputs_until_start_values_are_corrected(host, fmi):
    instance = host("planar2", fmi)
    instance.enter_initialization()
    instance.set(PLANAR2.where["qd"], (1e200, 0.0))
    message = "{} is not finite at the start, t = 0 s"
    refused(instance, ERROR, message.format("qdd[1]"), lambda fmu: fmu.exitInitializationMode())
    energy = [PLANAR2.where["energy"].start]
    refused(
        instance,
        ERROR,
        message.format("energy"),
        lambda fmu: (fmu.getReal if fmi == 2 else fmu.getFloat64)(energy),
    )
    get = instance.fmu.getReal if fmi == 2 else instance.fmu.getFloat64
    before = next(where for where in PLANAR2.where.values() if where.stop == PLANAR2.y.start)
    last = [before.stop - 1] if fmi == 2 else [before.start]
    assert np.all(
        np.isfinite(get(last, nValues=before.stop - before.start) if fmi == 3 else get(last))
    )
    instance.set(PLANAR2.where["qd"], (1.0, 0.0))
    instance.fmu.exitInitializationMode()
    assert np.all(np.isfinite(instance.m))


# ---- saved states, reset, instances ----


def test_run_from_a_restored_fmu_state_repeats_the_original_results_bit_for_bit(host, rng, fmi):
    inputs = rng.normal(size=(40, 2))
    instance, other = host("planar2", fmi), host("planar2", fmi)
    instance.initialize()
    stepped(instance, inputs[:20])
    state, content = instance.for_states("get")(), instance.saved()
    expected = stepped(instance, inputs[20:], 20)
    instance.for_states("set")(state)
    assert_array_equal(stepped(instance, inputs[20:], 20), expected)
    other.restore(content)
    assert_array_equal(stepped(other, inputs[20:], 20), expected)
    instance.for_states("free")(state)


def test_reset_fmu_repeats_its_run_bit_for_bit(host, rng, fmi):
    inputs = rng.normal(size=(20, 2))
    instance = host("planar2", fmi)
    untouched = instance.saved()
    instance.initialize(stop=1.0)
    expected = stepped(instance, inputs)
    instance.fmu.reset()
    assert instance.saved() == untouched
    instance.initialize()
    assert_array_equal(stepped(instance, inputs), expected)


def test_interleaved_fmu_instances_match_the_results_of_separate_runs(host, rng, fmi):
    inputs = rng.normal(size=(3, 20, 2))
    separate = []
    for u in inputs:
        instance = host("planar2", fmi)
        instance.initialize()
        separate.append(stepped(instance, u))
    together = [host("planar2", fmi) for _ in inputs]
    for instance in together:
        instance.initialize()
    runs = [
        [stepped(one, u[k : k + 1], k)[0] for one, u in zip(together, inputs, strict=True)]
        for k in range(20)
    ]
    assert_array_equal(np.swapaxes(runs, 0, 1), separate)


# ---- rejected calls ----


@pytest.mark.parametrize(("fmi", "wrong"), ILLEGAL_BEFORE)
def test_illegal_call_before_initialization_is_rejected_and_changes_no_state(host, fmi, wrong):
    instance = host("planar2", fmi)
    refused(instance, ERROR, *ILLEGAL_BEFORE[fmi, wrong])
    instance.initialize()  # the run can still start


@pytest.mark.parametrize(("fmi", "wrong"), ILLEGAL_IN_A_RUN)
def test_illegal_call_during_a_run_is_rejected_and_changes_no_state(host, fmi, wrong):
    instance = host("planar2", fmi)
    instance.initialize(stop=1.0)
    instance.fmu.doStep(0.0, 1e-3)
    refused(instance, ERROR, *ILLEGAL_IN_A_RUN[fmi, wrong])
    instance.fmu.doStep(0.001, 1e-3)  # the run continues


def test_fmu_rolls_back_a_step_with_nonfinite_results_and_rejects_further_steps(host, fmi):
    instance = host("planar2", fmi)
    instance.initialize()
    instance.advance(0.0, 1e-3)
    instance.set(PLANAR2.u, (1e307, -1e307))
    good, content = instance.m, instance.saved()
    with pytest.raises(FMICallException, match=f"fmi{fmi}DoStep failed with status {DISCARD}"):
        instance.fmu.doStep(1e-3, 1e-3)
    assert instance.messages[-1][-1] == (
        "q[1] is not finite at t = 0.002 s: the step of 0.001 s is undone"
    )
    assert_array_equal(instance.m, good)
    if fmi == 2:
        assert instance.fmu.getRealStatus(fmi2LastSuccessfulTime) == 1e-3
        assert instance.fmu.getBooleanStatus(fmi2Terminated) is False
    message = f"fmi{fmi}DoStep is not allowed after a failed step"
    refused(instance, ERROR, message, lambda fmu: fmu.doStep(1e-3, 1e-3))
    instance.restore(content)
    instance.set(PLANAR2.u, (1.0, -1.0))
    instance.advance(1e-3, 1e-3)


@pytest.mark.slow
def test_instantiation_with_the_guid_of_another_fmu_is_rejected(archive, fmi):
    messages = []
    with pytest.raises(Exception, match="Failed to instantiate"):
        Instance(archive, "pd", SLAVES[fmi], guid="{0}", messages=messages)
    assert re.fullmatch(r"the \w+( token)? is not the one of this FMU, \{.+\}", messages[-1][-1])
