"""Random valid and invalid calls of the C runtime with sanitizers of the compiler.

The sanitizers detect invalid memory accesses and undefined behaviour. fuzz/fuzz.h checks that a
rejected call changes no state and logs the reason.
"""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from campaign import sized
from fmu_blocks import BLOCKS
from planar2ctrl import parts, wired
from random_models import random_tree
from rigidblocks import (
    BouncingBall,
    ContinuousSystem,
    ForceElement,
    FusedSystem,
    RobotPlant,
    System,
    auto_tree,
)
from rigidblocks.block.adaptive_methods import longest_step, memory_for, method_of
from rigidblocks.block.integrators import RK4
from rigidblocks.dynamics.force_laws import Stiction, Stop
from rigidblocks.fmi.native_fmu import fmu_sources
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import Delay
from rigidblocks.robot.joints import Spherical
from sample import soft_heap

CODE = Path(__file__).with_name("fuzz")
SANITIZE = ("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")


def plant_and_ball():
    """Hinge with a stop and dry friction, next to a bouncing ball."""
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
RESIZABLE = {"delay of a matrix": lambda: Delay(3, 2e-3, (2, 5))}
OTHER_METHODS = {"own steps": method_of("adaptive or stiff")}
SHORT, LONG = (
    sized(20_000, 10_000),
    sized(200_000, 60_000),
)  # number of calls per block; the long runs have a million for each version of FMI
RUNS = sized(1000, 100)  # runs of FMUs in the C loop
NEVER = {  # features that no block has, for each called function
    2: {
        "fmi2CancelStep",
        "fmi2GetStatus",
        "fmi2GetIntegerStatus",
        "fmi2GetStringStatus",
    },
    3: {
        "fmi3EnterConfigurationMode",
        "fmi3ExitConfigurationMode",
        "fmi3GetIntervalDecimal",
        "fmi3GetIntervalFraction",
        "fmi3GetShiftDecimal",
        "fmi3SetIntervalDecimal",
        "fmi3SetShiftFraction",
        "fmi3ActivateModelPartition",
        "fmi3EvaluateDiscreteStates",
    },
}

NOT_SCHEDULED = {  # functions of co-simulation and model exchange
    "fmi3DoStep",
    "fmi3EnterEventMode",
    "fmi3EnterStepMode",
    "fmi3EnterContinuousTimeMode",
    "fmi3UpdateDiscreteStates",
    "fmi3SetTime",
    "fmi3SetContinuousStates",
    "fmi3GetContinuousStates",
    "fmi3GetContinuousStateDerivatives",
    "fmi3CompletedIntegratorStep",
}
OUTPUT_DERIVATIVES = {"fmi2GetRealOutputDerivatives", "fmi3GetOutputDerivatives"}
HELD = {"sampled controller", "fused system"}  # blocks whose outputs change only at samples


@functools.cache
def sanitizing_compiler():
    """Return the name of a C compiler with the sanitizers, or None."""
    for name in ("gcc", "clang"):
        command = [name, *SANITIZE, "-x", "c", "-", "-o", "/dev/null"]
        if shutil.which(name):
            done = subprocess.run(
                command, input=b"int main(void) { return 0; }", capture_output=True, check=False
            )
            if done.returncode == 0:
                return name
    return None


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def fuzz(tmp_path):
    """Return a function that makes random calls of an FMU.

    The function returns the numbers of accepted and rejected calls of each FMI function.
    """
    compiler = sanitizing_compiler()
    if compiler is None:
        pytest.skip("no C compiler has the address and undefined-behaviour sanitizers")

    def counts(name, fmi, calls, seed, **options):
        method = OTHER_METHODS.get(name, RK4)
        evaluator = TracedEvaluator(memory_for((TESTED | RESIZABLE)[name](), method))
        binary, resizable = options.pop("binary", frozenset()), options.pop("resizable", False)
        variables = Variables(evaluator, binary=frozenset(binary), resizable=resizable)
        h = longest_step(method)
        texts = fmu_sources(variables, "model", method, h, fmi, **options)[1]
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
def test_random_fmi_calls_pass_the_sanitizers(fuzz, name, fmi):
    counts = fuzz(name, fmi, SHORT // (5 if name == "soft contact" else 1), 1)
    assert counts[f"fmi{fmi}DoStep"][0] > 5  # runs make progress: 60 to 500 steps at random


@pytest.mark.slow
@pytest.mark.parametrize("name", ["continuous and sampled", "own steps"])
def test_random_calls_of_an_fmu_for_scheduled_execution_pass_the_sanitizers(fuzz, name):
    counts = fuzz(name, 3, SHORT // 2, 3, interval=1e-3)
    assert all(times > 5 for times in counts["fmi3ActivateModelPartition"])
    assert not any(counts[function][0] for function in NOT_SCHEDULED)


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["periodic", "triggered"])
@pytest.mark.parametrize("name", ["continuous and sampled", "sampled controller", "own steps"])
def test_random_calls_of_an_fmu_with_a_clock_pass_the_sanitizers(fuzz, name, clock):
    counts = fuzz(name, 3, SHORT, 5, clock=clock)
    for function in ("SetClock", "GetClock", "UpdateDiscreteStates"):
        assert all(times > 5 for times in counts[f"fmi3{function}"])
    assert counts["fmi3DoStep"][0] > 5


@pytest.mark.slow
def test_random_calls_of_an_fmu_with_resizable_arrays_pass_the_sanitizers(fuzz):
    counts = fuzz("delay of a matrix", 3, SHORT, 6, resizable=True)
    for function in ("EnterConfigurationMode", "ExitConfigurationMode", "SetUInt64", "GetUInt64"):
        assert all(times > 5 for times in counts[f"fmi3{function}"])
    assert counts["fmi3DoStep"][0] > 5
    assert not counts["fmi3GetDirectionalDerivative"][0]


@pytest.mark.slow
def test_random_calls_of_an_fmu_with_combined_features_pass_the_sanitizers(fuzz):
    options = {"resizable": True, "binary": "u", "clock": "periodic"}
    counts = fuzz("delay of a matrix", 3, SHORT, 7, **options)
    for function in ("SetUInt64", "SetClock", "GetClock"):
        assert all(times > 5 for times in counts[f"fmi3{function}"]), function
    assert counts["fmi3DoStep"][0] > 5


@pytest.mark.slow
@pytest.mark.parametrize(("fmi", "order"), [(2, 1), (3, 0), (3, 1)])
def test_random_fmi_calls_pass_the_sanitizers_for_each_output_derivative_order(fuzz, fmi, order):
    counts = fuzz("continuous and sampled", fmi, SHORT, 5, output_derivatives=order)
    name = {2: "fmi2GetRealOutputDerivatives", 3: "fmi3GetOutputDerivatives"}[fmi]
    assert counts[name][1] > 5
    assert (counts[name][0] > 0) == (order > 0)


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("name", [name for name in TESTED if name != "soft contact"])
def test_million_random_fmi_calls_pass_the_sanitizers_and_reach_every_function(fuzz, name, fmi):
    counts = fuzz(name, fmi, LONG, 2)
    accepted = {function for function, (times, _) in counts.items() if times}
    refused = {function for function, (_, times) in counts.items() if times}
    called = {function for function in counts if function.startswith("fmi")}
    never = NEVER[fmi] | (OUTPUT_DERIVATIVES & called if name in HELD else set())
    assert called - accepted == never
    assert {f"fmi{fmi}FreeInstance", "nothing", "update", "early"} >= set(counts) - refused
    print(
        f"\n{name}, FMI {fmi}: {sum(a for a, _ in counts.values())} accepted, "
        f"{sum(r for _, r in counts.values())} refused"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are preloaded with LD_PRELOAD")
def test_random_runs_of_fmus_in_the_c_loop_pass_the_sanitizers(tmp_path):
    """All C of the runs has the sanitizers: the loop, its integrators and the FMUs."""
    if sanitizing_compiler() != "gcc":
        pytest.skip("gcc with the address and undefined-behaviour sanitizers is not on the PATH")
    libraries = (run("gcc", f"-print-file-name=lib{name}.so").strip() for name in ("asan", "ubsan"))
    environment = {
        "CC": " ".join(("gcc", *SANITIZE)),
        "PYTHONPATH": str(Path(__file__).parents[1] / "support"),
        "RIGIDBLOCKS_CACHE": str(tmp_path / "cache"),
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",  # the sanitizer checks the arrays of Python too
        "ASAN_OPTIONS": "detect_leaks=0",  # Python does not free all memory at its end
    }
    program = CODE / "fuzz_master.py"
    text = run(sys.executable, program, tmp_path, RUNS, 1, env={**os.environ, **environment})
    steps, failed = map(int, text.split())
    assert steps > 5 * RUNS
    assert 0 < failed < RUNS / 2
