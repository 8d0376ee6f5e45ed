"""Illegal calls of the co-simulation FMU of planar2, with the expected error messages.

Some calls exist in both versions of FMI, the others in one. A message for both versions is a format
with the version and the name of its real variables.
"""

import ctypes

import numpy as np

from fmu_blocks import BLOCKS
from rigidblocks.block.memory_layout import Memory

WHERE = Memory(BLOCKS["planar2"]).where
Q, TAU, GRAVITY, QDD, ENERGY = (
    WHERE[name].start for name in ("q", "tau", "gravity", "qdd", "energy")
)


def dependency_arrays(n):
    """Return arrays for the results of fmi3GetVariableDependencies.

    They are elements, variables, their elements, and kinds.
    """
    return (
        (ctypes.c_size_t * n)(),
        (ctypes.c_uint32 * n)(),
        (ctypes.c_size_t * n)(),
        (ctypes.c_int * n)(),
    )


BEFORE = {
    "step": ("fmi{}DoStep is not allowed before initialization", lambda fmu: fmu.doStep(0.0, 1e-3)),
    "exit": (
        "fmi{}ExitInitializationMode is not allowed before initialization",
        lambda fmu: fmu.exitInitializationMode(),
    ),
    "category": ("unknown log category 'all'", lambda fmu: fmu.setDebugLogging(True, ["all"])),
}
BEFORE_2 = {
    "get": ("fmi2GetReal is not allowed before initialization", lambda fmu: fmu.getReal([0])),
    "terminate": (
        "fmi2Terminate is not allowed before initialization",
        lambda fmu: fmu.terminate(),
    ),
    "start time": (
        "the start time must be finite, not nan s",
        lambda fmu: fmu.setupExperiment(startTime=np.nan),
    ),
    "stop time": (
        "the stop time 1 s is before the start time 2 s",
        lambda fmu: fmu.setupExperiment(startTime=2.0, stopTime=1.0),
    ),
}
BEFORE_3 = {
    "get": ("fmi3GetFloat64 is not allowed before initialization", lambda fmu: fmu.getFloat64([0])),
    "start time": (
        "the start time must be finite, not nan s",
        lambda fmu: fmu.enterInitializationMode(startTime=np.nan),
    ),
    "stop time": (
        "the stop time 1 s is before the start time 2 s",
        lambda fmu: fmu.enterInitializationMode(startTime=2.0, stopTime=1.0),
    ),
    "configuration": (
        "fmi3EnterConfigurationMode is not provided by this FMU",
        lambda fmu: fmu.enterConfigurationMode(),
    ),
}
RUNNING = {
    "wrong time": (
        "the communication point 0.002 s is not the time 0.001 s of the FMU",
        lambda fmu: fmu.doStep(0.002, 1e-3),
    ),
    "no time": (
        "the communication point nan s is not the time 0.001 s of the FMU",
        lambda fmu: fmu.doStep(np.nan, 1e-3),
    ),
    "backward": ("the step must be positive, not -0.001 s", lambda fmu: fmu.doStep(0.001, -1e-3)),
    "no step": ("the step must be positive, not 0 s", lambda fmu: fmu.doStep(0.001, 0.0)),
    "endless step": (
        "the step of 1e+300 s has too many inner steps of 0.001 s: at most 1e+09 are allowed",
        lambda fmu: fmu.doStep(0.001, 1e300),
    ),
    "step of seventeen days": (
        "the step of 1.5e+06 s has too many inner steps of 0.001 s: at most 1e+09 are allowed",
        lambda fmu: fmu.doStep(0.001, 1.5e6),
    ),
    "infinite step": ("the step must be finite, not inf s", lambda fmu: fmu.doStep(0.001, np.inf)),
    "past the stop": (
        "the step to 1.001 s is beyond the stop time 1 s",
        lambda fmu: fmu.doStep(0.001, 1.0),
    ),
    "boolean": (
        "fmi{}SetBoolean: all variables of this FMU are of type {}",
        lambda fmu: fmu.setBoolean([1], [True]),
    ),
}
RUNNING_2 = {
    "nan": ("tau[1] must be finite, not nan", lambda fmu: fmu.setReal([6, 5], [1.0, np.nan])),
    "infinity": (
        "gravity[3] must be finite, not -inf",
        lambda fmu: fmu.setReal([5, 9], [1.0, -np.inf]),
    ),
    "time": ("time is computed and cannot be set", lambda fmu: fmu.setReal([5, 0], [1.0, 1.0])),
    "output": (
        "energy is computed and cannot be set",
        lambda fmu: fmu.setReal([5, 12], [1.0, 1.0]),
    ),
    "set unknown": (
        "fmi2SetReal: unknown variable 17; the last is 16",
        lambda fmu: fmu.setReal([5, 17], [1.0, 1.0]),
    ),
    "get unknown": (
        "fmi2GetReal: unknown variable 4294967295; the last is 16",
        lambda fmu: fmu.getReal([2**32 - 1]),
    ),
    "initialize again": (
        "fmi2EnterInitializationMode is not allowed during a run",
        lambda fmu: fmu.enterInitializationMode(),
    ),
    "integer": (
        "fmi2GetInteger: all variables of this FMU are of type Real",
        lambda fmu: fmu.getInteger([1]),
    ),
    "string": (
        "fmi2SetString: all variables of this FMU are of type Real",
        lambda fmu: fmu.setString([1], ["a"]),
    ),
    "cancel": ("fmi2CancelStep is not provided by this FMU", lambda fmu: fmu.cancelStep()),
    "third output derivative": (
        "fmi2GetRealOutputDerivatives: the order of a derivative of q[1] must be at least 1 "
        "and at most 1, not 3",
        lambda fmu: fmu.getRealOutputDerivatives([10, 1], [1, 3]),
    ),
    "output derivative of order zero": (
        "fmi2GetRealOutputDerivatives: the order of a derivative of energy must be at least 1 "
        "and at most 1, not 0",
        lambda fmu: fmu.getRealOutputDerivatives([12], [0]),
    ),
    "output derivative of an input": (
        "fmi2GetRealOutputDerivatives: tau[2] is not an output",
        lambda fmu: fmu.getRealOutputDerivatives([10, 6], [1, 1]),
    ),
    "output derivative of an unknown variable": (
        "fmi2GetRealOutputDerivatives: unknown variable 17; the last is 16",
        lambda fmu: fmu.getRealOutputDerivatives([17], [1]),
    ),
    "derivative by an output": (
        "fmi2GetDirectionalDerivative: energy is not an input, continuous state or parameter",
        lambda fmu: fmu.getDirectionalDerivative([10], [5, 12], [1.0, 1.0]),
    ),
    "derivative of an input": (
        "fmi2GetDirectionalDerivative: tau[2] is neither an output nor a state derivative",
        lambda fmu: fmu.getDirectionalDerivative([10, 6], [5], [1.0]),
    ),
}
SET = "fmi3SetFloat64: the {} variables from {} on have {} elements, not {}"
RUNNING_3 = {
    "too few": (SET.format(1, "tau[1]", 2, 1), lambda fmu: fmu.setFloat64([TAU], [1.0])),
    "too many": (
        SET.format(2, "tau[1]", 5, 6),
        lambda fmu: fmu.setFloat64([TAU, GRAVITY], [1.0] * 6),
    ),
    "get too few": (
        "fmi3GetFloat64: the 1 variables from q[1] on have 2 elements, not 1",
        lambda fmu: fmu.getFloat64([Q], 1),
    ),
    "an element": (
        f"fmi3GetFloat64: unknown variable {Q + 1}; the last is 15",
        lambda fmu: fmu.getFloat64([Q, Q + 1], 3),
    ),
    "get unknown": (
        "fmi3GetFloat64: unknown variable 4294967295; the last is 15",
        lambda fmu: fmu.getFloat64([2**32 - 1]),
    ),
    "nan": ("tau[2] must be finite, not nan", lambda fmu: fmu.setFloat64([TAU], [1.0, np.nan])),
    "output": (
        "energy is computed and cannot be set",
        lambda fmu: fmu.setFloat64([TAU, ENERGY], [1.0, 1.0, 1.0]),
    ),
    "state": (
        "q[1] has a start value, which cannot be set during a run",
        lambda fmu: fmu.setFloat64([Q], [1.0, 1.0]),
    ),
    "event mode": (
        "fmi3EnterEventMode is not allowed during a run",
        lambda fmu: fmu.enterEventMode(),
    ),
    "step mode": ("fmi3EnterStepMode is not allowed during a run", lambda fmu: fmu.enterStepMode()),
    "integer": (
        "fmi3GetInt32: all variables of this FMU are of type Float64",
        lambda fmu: fmu.getInt32([1]),
    ),
    "dependencies of nothing": (
        f"fmi3GetNumberOfVariableDependencies: unknown variable {Q + 1}; the last is 15",
        lambda fmu: fmu.fmi3GetNumberOfVariableDependencies(
            fmu.component, Q + 1, ctypes.byref(ctypes.c_size_t())
        ),
    ),
    "too few dependencies": (
        "fmi3GetVariableDependencies: q[1] has 2 dependencies, not 1",
        lambda fmu: fmu.fmi3GetVariableDependencies(fmu.component, Q, *dependency_arrays(1), 1),
    ),
    "clock": (
        "fmi3GetClock: all variables of this FMU are of type Float64",
        lambda fmu: fmu.getClock([1]),
    ),
    "third output derivative": (
        "fmi3GetOutputDerivatives: the order of a derivative of energy must be at least 1 and at "
        "most 1, not 3",
        lambda fmu: fmu.getOutputDerivatives([ENERGY], [3]),
    ),
    "output derivative of the time": (
        "fmi3GetOutputDerivatives: time is not an output",
        lambda fmu: fmu.getOutputDerivatives([ENERGY, 0], [1, 1]),
    ),
    "output derivatives of another size": (
        "fmi3GetOutputDerivatives: the 1 variables from qdd[1] on have 2 elements, not 1",
        lambda fmu: fmu.getOutputDerivatives([QDD], [1]),
    ),
    "sensitivity of another size": (
        "fmi3GetDirectionalDerivative: the 1 variables from qdd[1] on have 2 elements, not 1",
        lambda fmu: fmu.getDirectionalDerivative([QDD], [TAU], [1.0, 0.0], 1),
    ),
    "adjoint by an output": (
        "fmi3GetAdjointDerivative: energy is not an input, continuous state or parameter",
        lambda fmu: fmu.getAdjointDerivative([QDD], [ENERGY], [1.0, 0.0], 1),
    ),
}


def refusals(both, fmi2, fmi3):
    """Return a mapping from (version, error) to (message, call) for both FMI versions."""
    return {
        (fmi, wrong): (message.format(fmi, real) if wrong in both else message, call)
        for fmi, real, own in ((2, "Real", fmi2), (3, "Float64", fmi3))
        for wrong, (message, call) in (both | own).items()
    }


ILLEGAL_BEFORE = refusals(BEFORE, BEFORE_2, BEFORE_3)
ILLEGAL_IN_A_RUN = refusals(RUNNING, RUNNING_2, RUNNING_3)
