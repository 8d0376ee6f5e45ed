"""Steps that are not taken: the C function and its form in Python say the same, for every step."""

import numpy as np
import pytest

from fmu_blocks import BLOCKS
from rigidblocks.block.memory import Memory
from rigidblocks.block.refusal import Refusal
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.kernels.stepper import compiled_stepper

TIMES = (0.0, 0.4, -3.0, 1e9, 0.4 + 1e-10, 0.4 + 1e-8, np.nan, np.inf)
STEPS = (1e-3, 2e-3, 3e-3, 1e-4, 2e-3 + 1e-11, 0.7, 1e5, 1.5e6, 2.5e6, 1e300)
NO_STEPS = (0.0, -1e-3, np.nan, np.inf, -np.inf, 5e-324)
ENDS = (np.inf, 0.4, 0.402, 0.0)


def steppers(name):
    memory = Memory(BLOCKS[name])
    return NumpyStepper(memory), compiled_stepper(memory)


@pytest.mark.parametrize("name", ["planar2", "pd", "sampled pd", "servo"])
def test_compiled_and_numpy_steps_are_refused_for_the_same_reason(name):
    numpy, compiled = steppers(name)
    m, reasons = numpy.memory.start(), set()
    for m[0] in (0.0, 0.4, 1e9):
        for t in TIMES:
            for dt in STEPS + NO_STEPS:
                for end in ENDS:
                    reason = numpy.refusal(m, t, dt, end)
                    assert compiled.refusal(m, t, dt, end) == reason, (m[0], t, dt, end)
                    reasons.add(reason)
    sampled = numpy.memory.block.sample_time is not None
    assert reasons == {None, *Refusal} - (set() if sampled else {Refusal.OFF_SAMPLES})


@pytest.mark.parametrize("k", [0, 1])
def test_a_step_of_a_block_without_samples_that_is_too_long_has_too_many_inner_steps(k):
    stepper = steppers("pd")[k]
    message = r"the step 1500000\.0 s has too many inner steps of 0\.001 s; at most 1e9"
    with pytest.raises(ValueError, match=message):
        stepper.step(stepper.memory.start(), 0.0, 1.5e6)
