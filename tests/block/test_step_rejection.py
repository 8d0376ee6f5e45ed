"""Compiled and NumPy steppers reject the same invalid steps."""

import re

import numpy as np
import pytest

from fmu_blocks import BLOCKS
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper, Refusal
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.tracing.ccode import c_text

TIMES = (0.0, 0.4, -3.0, 1e9, 0.4 + 1e-10, 0.4 + 1e-8, np.nan, np.inf)
STEPS = (1e-3, 2e-3, 3e-3, 1e-4, 2e-3 + 1e-11, 0.7, 1e5, 1.5e6, 2.5e6, 1e300)
NO_STEPS = (0.0, -1e-3, np.nan, np.inf, -np.inf, 5e-324)
ENDS = (np.inf, 0.4, 0.402, 0.0)


def steppers(name):
    memory = Memory(BLOCKS[name])
    return NumpyStepper(memory), compiled_stepper(memory)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planar2", "pd", "sampled pd", "servo"])
def test_steppers_in_numpy_and_in_c_reject_the_same_steps_for_the_same_reasons(name):
    numpy, compiled = steppers(name)
    m, reasons = numpy.memory.start(), set()
    for m[0] in (0.0, 0.4, 1e9):
        for t in TIMES:
            for dt in STEPS + NO_STEPS:
                for end in ENDS:
                    reason = numpy.refusal(m, t, dt, end)
                    assert compiled.refusal(m, t, dt, end) == reason, (m[0], t, dt, end)
                    reasons.add(reason)
    assert reasons == {None, *Refusal}


@pytest.mark.parametrize("k", [0, 1])
def test_step_with_more_than_1e9_inner_steps_is_rejected(k):
    stepper = steppers("pd")[k]
    message = r"the step 1500000\.0 s has too many inner steps of 0\.001 s; at most 1e9"
    with pytest.raises(ValueError, match=message):
        stepper.step(stepper.memory.start(), 0.0, 1.5e6)


def test_step_rejection_codes_in_python_equal_the_codes_in_the_c_source():
    codes = re.findall(r"RB_STEP_(\w+) = (\d+)", c_text("kernel/block_step.h"))
    reasons = {name: int(code) for name, code in codes if name not in ("OK", "FAILED")}
    assert reasons == {reason.name: reason.value for reason in Refusal}
