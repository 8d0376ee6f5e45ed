"""Random calls of the C runtime, valid and invalid, under the address and undefined-behaviour
sanitizers of the compiler.

The laws are in fuzz/fuzz.h: nothing is found, and a call that is refused has changed nothing and
says why.
"""

import functools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fmu_blocks import BLOCKS
from planar2ctrl import parts, wired
from random_models import random_tree
from rigidblocks import (
    BouncingBall,
    ContinuousSystem,
    ForceElement,
    FusedSystem,
    RobotPlant,
    Stiction,
    Stop,
    System,
    auto_tree,
)
from rigidblocks.block.adaptive import longest_step, memory_for, method_of
from rigidblocks.block.integrators import RK4
from rigidblocks.fmi.native import fmu_sources
from rigidblocks.fmi.variables import Variables
from rigidblocks.joint import Spherical
from rigidblocks.kernels.evaluator import TracedEvaluator
from sample import soft_heap

CODE = Path(__file__).with_name("fuzz")
SANITIZE = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")


def plant_and_ball():
    """A hinge with a stop and friction that sticks, beside a ball that bounces."""
    rub = ForceElement("rub", 0, Stiction(1.0, 300.0, 5.0))
    stop = ForceElement("stop", 0, Stop(100.0, 1.0, -0.5, 0.5))
    system = System()
    hinge = RobotPlant(auto_tree(1), elements=(rub, stop))
    system.add("hinge", hinge, start={"tau": 0.0})
    system.add("ball", BouncingBall())
    return ContinuousSystem(system)


TESTED = {
    "plant with laws and impacts": plant_and_ball,
    "sampled controller": lambda: BLOCKS["sampled pd"],
    "continuous and sampled": lambda: BLOCKS["servo"],
    "projected": lambda: RobotPlant(random_tree(np.random.default_rng(5), (-1,), (Spherical(),))),
    "fused system": lambda: FusedSystem(wired(parts()), 1e-3),
    "own steps": lambda: BLOCKS["servo"],
    "soft contact": soft_heap,
}
OTHER_METHODS = {"own steps": method_of("adaptive or stiff")}
SHORT, LONG = (
    20_000,
    200_000,
)  # a block; of five blocks, the long ones are a million of each version of FMI
NEVER = {  # what no block provides, for each function that is called
    2: {
        "fmi2CancelStep",
        "fmi2GetRealOutputDerivatives",
        "fmi2GetStatus",
        "fmi2GetIntegerStatus",
        "fmi2GetStringStatus",
    },
    3: {
        "fmi3EnterConfigurationMode",
        "fmi3ExitConfigurationMode",
        "fmi3GetIntervalDecimal",
        "fmi3SetShiftFraction",
        "fmi3ActivateModelPartition",
        "fmi3GetOutputDerivatives",
        "fmi3EvaluateDiscreteStates",
    },
}


@functools.cache
def sanitizing_compiler():
    """The name of a C compiler that has the sanitizers, None when there is none."""
    for name in ("gcc", "clang"):
        command = [name, *SANITIZE, "-x", "c", "-", "-o", "/dev/null"]
        if shutil.which(name):
            done = subprocess.run(
                command, input=b"int main(void) { return 0; }", capture_output=True, check=False
            )
            if done.returncode == 0:
                return name
    return None


def run(*command):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def fuzz(tmp_path):
    """A function that returns how often each function was accepted and refused in so many random
    calls of an FMU.
    """
    compiler = sanitizing_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler with the address and undefined-behaviour sanitizers")

    def counts(name, fmi, calls, seed):
        method = OTHER_METHODS.get(name, RK4)
        evaluator = TracedEvaluator(memory_for(TESTED[name](), method))
        texts = fmu_sources(Variables(evaluator), "model", method, longest_step(method), fmi)[1]
        for file, text in texts.items():
            (tmp_path / file).write_text(text)
        flags = ("-std=c99", "-g", "-O1", *SANITIZE, "-I", tmp_path)
        run(compiler, *flags, CODE / f"fuzz{fmi}.c", "-o", tmp_path / "fuzz", "-lm")
        lines = map(str.split, run(tmp_path / "fuzz", calls, seed).splitlines())
        return {function: (int(accepted), int(refused)) for function, accepted, refused in lines}

    return counts


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("name", TESTED)
def test_random_calls_find_nothing_and_one_that_is_refused_changes_nothing(fuzz, name, fmi):
    counts = fuzz(name, fmi, SHORT, 1)
    assert counts[f"fmi{fmi}DoStep"][0] > 50  # runs do get somewhere, by luck 60 to 500 times


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("name", [name for name in TESTED if name != "soft contact"])
def test_a_million_random_calls_of_all_blocks_find_nothing_and_reach_every_function(
    fuzz, name, fmi
):
    counts = fuzz(name, fmi, LONG, 2)
    accepted = {function for function, (times, _) in counts.items() if times}
    refused = {function for function, (_, times) in counts.items() if times}
    assert {function for function in counts if function.startswith("fmi")} - accepted == NEVER[fmi]
    assert {f"fmi{fmi}FreeInstance", "nothing", "update", "early"} >= set(counts) - refused
    print(
        f"\n{name}, FMI {fmi}: {sum(a for a, _ in counts.values())} accepted, "
        f"{sum(r for _, r in counts.values())} refused"
    )
