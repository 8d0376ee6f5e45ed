"""Native FMI 2.0 FMUs in co-simulation, with their integrators and parameters.

Tests of the features that FMI 3.0 has too are in test_co_simulation.
"""

import struct
import zlib

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import DISCARD, ERROR, Host, Instance, refused
from rigidblocks.block.integrators import INTEGRATORS
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.kernels.compiled_stepper import numpy_stepper

SAME = 1e-12  # rounding of reordered operations in a short run


@pytest.fixture
def host(archive):
    """Return a function that instantiates the FMU of a block; the fixture frees the instances."""
    made = []

    def instance(name):
        made.append(Instance(archive, name, FMU2Slave))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


# ---- equal values in C and NumPy ----


@pytest.mark.slow
@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=INTEGRATORS)
def test_every_integrator_has_equal_results_in_c_and_in_numpy(tmp_path, method):
    block = BLOCKS["gravity"]
    instance = Host(native_fmu(block, tmp_path / "a.fmu", method=method, h=0.5e-3), tmp_path)
    numpy, m = numpy_stepper(Memory(block), method, 0.5e-3), Memory(block).start()
    numpy.initialize(m, 0.0)
    instance.initialize()
    for k in range(10):
        numpy.step(m, k * 1e-3, 1e-3)
        instance.fmu.doStep(k * 1e-3, 1e-3)
    assert_allclose(instance.m, m, rtol=SAME, atol=SAME)
    instance.fmu.freeInstance()


@pytest.mark.slow
def test_fmu_parameter_that_is_not_declared_tunable_is_a_constant(tmp_path):
    instance = Host(native_fmu(BLOCKS["pd"], tmp_path / "pd.fmu", tunable=("kd",)), tmp_path)
    names = [v.name for v in instance.description.modelVariables if v.causality == "parameter"]
    assert names == ["kd[1]", "kd[2]"]
    flat = Memory(BLOCKS["pd"], ("kd",))
    instance.set(flat.where["q_ref"], (1.0, 2.0))
    instance.initialize()
    assert_allclose(instance.m[flat.where["tau"]], (60.0, 60.0), rtol=SAME)
    instance.fmu.freeInstance()


@pytest.mark.slow
def test_fmu_of_the_repeating_sequence_block_runs_to_the_stop_time_in_fmpy(archive):
    result = fmpy.simulate_fmu(
        str(archive("sequence", 2)[0]), stop_time=0.02, output_interval=1e-3, output=["y[1]"]
    )
    expected = np.interp(result["time"], BLOCKS["sequence"].t, np.array(BLOCKS["sequence"].y)[:, 0])
    assert_allclose(result["y[1]"], expected, atol=SAME)


# ---- initialization ----


def test_start_values_of_states_are_settable_until_initialization_ends(host):
    flat = Memory(BLOCKS["planar2"])
    instance = host("planar2")
    instance.set(flat.where["q"], (0.7, 0.8))
    instance.fmu.enterInitializationMode()
    instance.set(flat.where["qd"], (-1.0, 0.5))
    assert_array_equal(instance.m[flat.x], (0.7, 0.8, -1.0, 0.5))
    instance.fmu.exitInitializationMode()
    assert_array_equal(instance.m[flat.x], (0.7, 0.8, -1.0, 0.5))
    refused(
        instance,
        ERROR,
        "q[2] has a start value, which cannot be set during a run",
        lambda fmu: fmu.setReal([2], [0.0]),
    )


# ---- saved states ----


@pytest.mark.slow
def test_invalid_serialized_fmu_states_are_rejected(host):
    instance, stranger = host("planar2"), host("pd")
    content = instance.saved()
    strange = stranger.saved()
    not_finite = content[:40] + b"\xff" * 80 + content[120:]
    no_mode = content[:-4] + b"\x03" + content[-3:]
    message = "these {} bytes are not a serialized state of this FMU"
    refused(
        instance, ERROR, message.format(len(strange)), lambda fmu: fmu.deSerializeFMUstate(strange)
    )
    refused(instance, ERROR, message.format(10), lambda fmu: fmu.deSerializeFMUstate(content[:10]))
    refused(
        instance,
        ERROR,
        "the serialized state is damaged",
        lambda fmu: fmu.deSerializeFMUstate(not_finite),
    )
    refused(
        instance,
        ERROR,
        "the serialized state is damaged",
        lambda fmu: fmu.deSerializeFMUstate(no_mode),
    )
    refused(
        instance, ERROR, "fmi2SetFMUstate: the FMU state is null", lambda fmu: fmu.setFMUstate(None)
    )


def test_serialized_fmu_state_whose_stop_time_is_not_a_number_is_rejected(host):
    instance = host("planar2")
    stop_time = 12345.6789
    instance.fmu.setupExperiment(stopTime=stop_time)
    content = instance.saved()
    encoded, nan = struct.pack("d", stop_time), struct.pack("d", np.nan)
    assert content.count(encoded) == 1
    changed = content.replace(encoded, nan)[:-4]
    sealed = changed + struct.pack("I", zlib.crc32(changed))
    refused(
        instance,
        ERROR,
        "the serialized state is damaged",
        lambda fmu: fmu.deSerializeFMUstate(sealed),
    )


def test_fmu_state_of_another_instance_is_rejected(host):
    instance, other = host("planar2"), host("planar2")
    state = other.fmu.getFMUstate()
    message = "{}: the instance has not saved this state"
    refused(instance, ERROR, message.format("fmi2SetFMUstate"), lambda fmu: fmu.setFMUstate(state))
    refused(
        instance,
        ERROR,
        message.format("fmi2SerializeFMUstate"),
        lambda fmu: fmu.serializeFMUstate(state),
    )
    refused(
        instance, ERROR, message.format("fmi2FreeFMUstate"), lambda fmu: fmu.freeFMUstate(state)
    )
    other.fmu.setFMUstate(state)
    other.fmu.freeFMUstate(state)


# ---- rejected calls ----


def test_fmu_discards_status_requests_because_its_steps_are_never_pending(host):
    instance = host("planar2")
    instance.initialize()
    refused(
        instance,
        DISCARD,
        "fmi2GetStatus: unknown status kind 0",
        lambda fmu: fmu.getStatus(0),
    )
    refused(
        instance,
        DISCARD,
        "fmi2GetStringStatus: unknown status kind 1",
        lambda fmu: fmu.getStringStatus(1),
    )
    instance.fmu.terminate()
    refused(
        instance,
        ERROR,
        "fmi2DoStep is not allowed after termination",
        lambda fmu: fmu.doStep(0.0, 1e-3),
    )
