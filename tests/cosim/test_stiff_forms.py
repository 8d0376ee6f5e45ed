"""A linearly implicit step gives equal results in all forms: NumPy, C, a fused trace and FMUs."""

import subprocess
import sys
from dataclasses import dataclass, replace

import fmpy
import numpy as np
import pytest
from fmpy.fmi3 import FMU3Slave
from numpy.testing import assert_allclose

from block_runs import assert_same, continue_steps, initialized_slave, random_inputs, reference_run
from fmu_instance import Host, Instance
from hosts import instantiated
from rigidblocks.block.block import Block, Port
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4, ROS2
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import PORTABLE_FLAGS, shared_library
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.fmi.export import python_fmu
from rigidblocks.fmi.native_fmu import RUNTIMES, fmu_sources, native_fmu
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import PDController

SAME = 1e-12  # NumPy, C and a trace differ by rounding
IMPLICIT = [method for method in INTEGRATORS.values() if method.implicit is not None]
METHODS = pytest.mark.parametrize("method", IMPLICIT, ids=lambda method: method.name)


@dataclass(frozen=True, eq=False)
class Tangle(Block):
    """Block with coupled nonlinear states, samples, a projection and a force in time.

    The LU factorization of its Jacobian needs row exchanges.
    """

    sample_time: float | None = 4e-3
    states = (
        Port("a", (3,), "1", "", [1.0, -0.5, 0.25]),
        Port("b", (2,), "1", "", [0.6, 0.8]),
        Port("q", (), "m", "", 0.1, rate="v"),
        Port("v", (), "m/s", "", 0.0),
    )
    sampled = (Port("s", (), "1", "", 0.0),)
    inputs = (Port("u", (3,), "1", "", 0.0),)
    parameters = (Port("k", (), "1/s", "", 2e4),)
    outputs = (Port("y", (), "1"),)

    def derivative(self, t, x, u, p):
        turn = p.k * np.array([x.a[1] - x.a[2], x.a[2] - x.a[0], x.a[0] - 2.0 * x.a[1]])
        return {
            "a": turn - x.a**3 + u.u + np.sin(40.0 * t),
            "b": (3.0 + x.a[0]) * np.array([-x.b[1], x.b[0]]),
            "q": x.v,
            "v": -1e5 * x.q - 300.0 * x.v + x.s + x.b[0] * x.a[1],
        }

    def project(self, x):
        return {"b": x.b / np.sqrt(x.b @ x.b)}

    def update(self, x, u):
        return {"s": 0.5 * x.s + u.u[0] + x.v}

    def output(self, t, x, p):
        return {"y": x.a[0] * x.v + p.k * np.cos(t) + x.s}


def trajectory(stepper, dt=2e-3, steps=12):
    """Return the memory after each step, under random inputs."""
    rng, flat = np.random.default_rng(3), stepper.memory
    m, rows = flat.start(), []
    stepper.initialize(m, 0.5)
    for k in range(steps):
        m[flat.u] = rng.normal(size=m[flat.u].shape)
        stepper.step(m, 0.5 + k * dt, dt)
        rows.append(m.copy())
    return np.array(rows)


def agree(actual, expected, tolerance=SAME):
    """Assert that each variable agrees, relative to its largest value in the run."""
    scale = np.maximum(np.abs(expected).max(axis=0), 1e-3)
    assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance)


@pytest.mark.slow
@METHODS
def test_implicit_steps_in_c_match_the_results_of_numpy(method):
    flat = Memory(Tangle())
    agree(
        *(
            trajectory(stepper(flat, method, 0.7e-3))
            for stepper in (compiled_stepper, numpy_stepper)
        )
    )


@pytest.mark.slow
@METHODS
def test_results_of_a_stateless_block_do_not_depend_on_an_implicit_method(method):
    flat = Memory(PDController((60.0, 30.0), (8.0, 4.0)))
    agree(*(trajectory(stepper(flat, method)) for stepper in (compiled_stepper, numpy_stepper)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fmi", "method"),
    [*((2, method) for method in IMPLICIT), (3, ROS2)],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_native_fmu_with_an_implicit_method_matches_the_numpy_results_of_its_block(
    tmp_path, method, fmi
):
    path = native_fmu(Tangle(), tmp_path / "tangle.fmu", method=method, h=0.7e-3, fmi=fmi)
    instance = (
        Host(path, tmp_path)
        if fmi == 2
        else Instance(
            lambda *_: (path, fmpy.extract(str(path), str(tmp_path / "unpacked"))),
            "tangle",
            FMU3Slave,
        )
    )
    flat = Memory(Tangle())
    instance.initialize(0.5)
    rng, rows = np.random.default_rng(3), []
    for k in range(12):
        instance.set(flat.u, rng.normal(size=3))
        instance.fmu.doStep(0.5 + k * 2e-3, 2e-3)
        rows.append(instance.m)
    instance.fmu.freeInstance()
    agree(np.array(rows), trajectory(numpy_stepper(flat, method, 0.7e-3)))


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize(
    "block",
    [Tangle(), PDController((60.0, 30.0), (8.0, 4.0))],
    ids=lambda block: type(block).__name__,
)
def test_generated_c_of_implicit_methods_compiles_as_strict_c99_without_warnings(fmi, block):
    sources = fmu_sources(Variables(TracedEvaluator(Memory(block))), "model", ROS2, 1e-3, fmi)[1]
    shared_library(
        sources, RUNTIMES[fmi].main, (*PORTABLE_FLAGS, "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    )


SCRIPT = """
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.block.integrators import ROS2
from rigidblocks.library import RobotPlant
from rigidblocks.robot.robots import planar2
class Stiff(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(RobotPlant(planar2()), method=ROS2, h=3e-4, **kwargs)
"""


@pytest.mark.slow
def test_python_fmu_with_an_implicit_method_matches_the_numpy_results_of_its_block(tmp_path):
    script = tmp_path / "stiff_fmu.py"
    script.write_text(SCRIPT)
    inputs = random_inputs(script, 10)
    slave = initialized_slave(
        instantiated(python_fmu(script, tmp_path / "stiff.fmu"), tmp_path / "unpacked"),
        script,
        inputs,
    )
    assert_same(continue_steps(slave, script, inputs[1:]), reference_run(script, inputs)[1:])
    slave.freeInstance()


@pytest.mark.slow
@METHODS
def test_implicit_steps_of_a_part_in_a_fused_system_match_the_results_of_its_block(method):
    # the whole step is traced, including the row exchanges
    system = System()
    system.add("tangle", replace(Tangle(), sample_time=2e-3), method=method, h=2e-3)
    fused = compiled_stepper(Memory(FusedSystem(system, 2e-3)))
    single = numpy_stepper(Memory(replace(Tangle(), sample_time=2e-3)), method, 2e-3)
    m, own = fused.memory.start(), single.memory.start()
    rows = []
    for stepper, memory in ((fused, m), (single, own)):
        stepper.initialize(memory, 0.0)
    for k in range(12):
        fused.step(m, k * 2e-3, 2e-3)
        single.step(own, k * 2e-3, 2e-3)
        rows.append(
            [
                np.concatenate([m[fused.memory.where[f"tangle.{n}"]], own[single.memory.where[n]]])
                for n in ("a", "b", "v")
            ]
        )
    for name in range(3):
        both = np.array([row[name] for row in rows])
        agree(*np.split(both, 2, axis=1))


@pytest.mark.slow
def test_implicit_method_without_casadi_is_rejected():
    program = (
        "import sys; sys.modules['casadi'] = None\n"
        "from rigidblocks.block.integrators import ROS2, RK4\n"
        "from rigidblocks.block.memory_layout import Memory\n"
        "from rigidblocks.block.stepper import NumpyStepper\n"
        "from rigidblocks.library import RobotPlant\n"
        "from rigidblocks.robot.robots import planar2\n"
        "flat = Memory(RobotPlant(planar2()))\n"
        "m = flat.start()\n"
        "NumpyStepper(flat, RK4).step(m, 0.0, 1e-3)\n"
        "try:\n    NumpyStepper(flat, ROS2).step(m, 0.0, 1e-3)\n"
        "except ValueError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        "linearly implicit methods need the exact Jacobian of RobotPlant; if no compiled "
        "kernel is used"
    )


def test_generated_code_of_an_explicit_method_contains_no_jacobian():
    flat = Memory(Tangle())
    explicit, implicit = (
        model_header(TracedEvaluator(flat), method, 1e-3) for method in (RK4, ROS2)
    )
    for mark in ("#define RB_LINEARLY_IMPLICIT 1", "rate_slopes"):
        assert mark not in explicit
        assert mark in implicit


def test_traced_jacobian_equals_central_differences_of_the_state_derivatives(rng):
    flat, small = Memory(Tangle()), 1e-5
    m = rng.normal(size=flat.size)
    J, f_t = TracedEvaluator(flat).jacobian(m)
    assert J.shape == (7, 7)
    for column, index in [(f_t, 0), *((J[:, j], 1 + j) for j in range(7))]:
        step = small * np.eye(flat.size)[index]
        difference = (
            NumpyEvaluator(flat).derivative(m + step) - NumpyEvaluator(flat).derivative(m - step)
        ) / (2 * small)
        # central differences have the errors rounding / small and small^2 f''', with f''' up to
        # 40^3
        assert_allclose(difference, column, rtol=1e-7, atol=1e-4)
