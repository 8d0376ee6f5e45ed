"""Random runs of FMUs in the C loop:  fuzz_master.py FOLDER RUNS SEED.

A run has one FMU for model exchange or for co-simulation, random step sizes and inputs. It saves
and restores its state at random times. Laws: the outputs are finite, and a restored run repeats bit
for bit. A run may also end with an error of the FMU or of the simulation. The program prints the
numbers of steps and failed runs.
"""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from any_models import (
    BOUNCING_BALL,
    DAHLQUIST,
    FEEDTHROUGH,
    STAIR,
    STATE_SPACE,
    VAN_DER_POL,
    any_fmu,
)
from rigidblocks import SimulationError, System, prepare
from rigidblocks.cosim.graph.fmu_file import FmuError
from rigidblocks.cosim.masters.network import PartError

EVENT_MODE = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'
MODELS = (
    *(BOUNCING_BALL, DAHLQUIST, STAIR, STATE_SPACE, VAN_DER_POL),
    replace(DAHLQUIST, name="Explosive", motion="dx[0] = m->v[2][0] = exp(exp(9 * m->t));"),
    replace(BOUNCING_BALL, name="Failing", refuses="return m->v[1][0] < 0.5;"),
    replace(STAIR, name="Iterating", updates=7),
)
IN_CO_SIMULATION = (
    FEEDTHROUGH,
    *(
        replace(model, name=f"{model.name}Events", attributes=EVENT_MODE)
        for model in (BOUNCING_BALL, FEEDTHROUGH, STAIR)
    ),
)
LARGEST = {"Float64": 1e3, "Int8": 100, "Int32": 1000, "Boolean": 1}  # values of inputs


def read(run, names):
    return [np.array(run[name], copy=True) for name in names]


def set_inputs(run, inputs, draw):
    """Set some inputs to random values of their types."""
    for v in inputs:
        name, limit = f"part.{v.name}", LARGEST[v.type]
        if draw.random() < 0.3:
            value = draw.uniform(0.0, limit, np.shape(run[name]))
            run[name] = value if v.type == "Float64" else np.rint(value)


def one_run(path, model, options, draw):
    """Do one run; return the number of its steps."""
    system = System()
    system.add("part", path, **options)
    numbers = [v for v in model.variables if v.type in LARGEST]
    inputs = [v for v in numbers if v.causality == "input"]
    outputs = [f"part.{v.name}" for v in numbers if v.causality == "output"]
    steps = 0
    with prepare(system, 10.0 ** draw.uniform(-3.5, 0.5), form="compiled") as run:
        for _ in range(int(draw.integers(1, 5))):
            set_inputs(run, inputs, draw)
            can_restore = draw.random() < 0.5
            moment, n = run.save() if can_restore else None, int(draw.integers(1, 12))
            run.step(n)
            steps += n
            first = read(run, outputs)
            assert all(np.all(np.isfinite(value)) for value in first), "an output is not finite"
            if can_restore:
                run.restore(moment)
                run.step(n)
                for name, a, b in zip(outputs, first, read(run, outputs), strict=True):
                    assert np.array_equal(a, b), f"the restored run has another {name}"
    return steps


def main(folder, runs, seed):
    draw = np.random.default_rng(seed)
    fmu = cache(lambda model, version: any_fmu(Path(folder), model, version))
    steps = failed = 0
    for _ in range(runs):
        exchange = draw.random() < 0.75
        models = MODELS if exchange else IN_CO_SIMULATION
        model = models[int(draw.integers(len(models)))]
        needs_3 = not exchange or model is STATE_SPACE  # arrays and event mode are of FMI 3.0
        options = {"kind": "model exchange"} if exchange else {}
        if exchange and draw.random() < 0.5:
            options["rtol"] = 10.0 ** draw.uniform(-12, -2)
        version = 3 if needs_3 else int(draw.integers(2, 4))
        try:
            steps += one_run(fmu(model, version), model, options, draw)
        except (FmuError, PartError, SimulationError):
            failed += 1
    print(steps, failed)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
