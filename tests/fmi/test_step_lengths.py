"""Sampled blocks sample at multiples of their sample time, for any communication step.

The tests cover FMUs of every type and blocks without an FMU.
"""

from dataclasses import replace
from fractions import Fraction
from math import floor

import fmpy
import numpy as np
import pytest
from fmpy.simulation import instantiate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from rigid_scenes import free_bodies
from rigidblocks import FusedSystem, PDController, RobotPlant, Sine, System, export_fmu, planar2
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import Plane, Sphere
from rigidblocks.cosim.simulate import simulate
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper

T = 1e-2  # sample time [s]
SAME = 1e-11  # relative; NumPy and C differ by the rounding of reordered operations


def controlled_robot(method=None, sample_time=T):
    system = System()
    system.add("robot", RobotPlant(planar2()), start={"q": [0.3, -0.5]}, method=method)
    pd = PDController([60.0, 30.0], [8.0, 4.0], sample_time=sample_time)
    system.add("pd", pd, start={"q_ref": [0.1, 0.2]})
    system.connect("robot.q", "pd.q")
    system.connect("pd.tau", "robot.tau")
    return system


def falling_balls():
    balls = free_bodies(
        [Sphere(0.1)] * 2, [(0, 0, 0.11), (0, 0.05, 0.32)], ground=(Plane(),), e=0.5
    )
    return replace(balls, sample_time=T)


BLOCKS = {  # constructor, name of the varying input, and whether the block is slow to compile
    "controller": (lambda: PDController([60.0, 30.0], [8.0, 4.0], sample_time=T), "q", False),
    "system": (lambda: FusedSystem(controlled_robot(), T), "pd.q_ref", True),
    "system of fixed steps": (lambda: FusedSystem(controlled_robot("rk4"), T), "pd.q_ref", True),
    "contact": (falling_balls, None, True),
}
RNG = np.random.default_rng(7)
LENGTHS = {  # lengths of the communication steps of a run [s]
    "shorter": [0.004] * 75,
    "longer": [0.0125] * 24,
    "much longer": [1 / 3, 0.1, 1 / 30],
    "random": [*10 ** RNG.uniform(-5, -1.3, 60)],
    "mixed": [T, 0.0037, T, T, 0.5 * T, 0.0063, 3 * T, 0.5 * T, 1e-6, T - 1e-6, 2 * T],
}


class InMemory:
    """Block without an FMU whose `step` returns the outputs."""

    def __init__(self, stepper):
        self.step_from, self.memory = stepper.step, stepper.memory
        self.m = self.memory.start()
        stepper.initialize(self.m, 0.0)

    def step(self, inputs, t, dt):
        for name, values in inputs.items():
            self.m[self.memory.where[name]] = values
        self.step_from(self.m, t, dt)
        where = self.memory.where
        return np.concatenate([self.m[where[y.name]] for y in self.memory.block.outputs])


class InFmpy:
    """FMU in FMPy whose `step` returns the outputs."""

    def __init__(self, path, folder, block):
        description = fmpy.read_model_description(fmpy.extract(str(path), str(folder)))
        self.references = {v.name: v.valueReference for v in description.modelVariables}
        assert description.coSimulation.canHandleVariableCommunicationStepSize
        self.is_fmi2 = description.fmiVersion == "2.0"
        self.block = block
        self.fmu = instantiate_fmu(str(folder), description, "CoSimulation")
        if self.is_fmi2:
            self.fmu.setupExperiment(startTime=0.0)
            self.fmu.enterInitializationMode()
        else:
            self.fmu.enterInitializationMode(startTime=0.0)
        self.fmu.exitInitializationMode()

    def close(self):
        self.fmu.terminate()
        self.fmu.freeInstance()

    def names(self, port):
        return port.element_names if self.is_fmi2 else (port.name,)

    def step(self, inputs, t, dt):
        fmu = self.fmu
        put, get = (fmu.setReal, fmu.getReal) if self.is_fmi2 else (fmu.setFloat64, fmu.getFloat64)
        for port in self.block.inputs:
            if port.name in inputs:
                put([self.references[one] for one in self.names(port)], list(inputs[port.name]))
        fmu.doStep(currentCommunicationPoint=t, communicationStepSize=dt)
        rows = []
        for port in self.block.outputs:
            references = [self.references[one] for one in self.names(port)]
            rows += get(references) if self.is_fmi2 else get(references, port.size)
        return np.array(rows)


def input_at(k):
    """Return the input during step k."""
    return [0.3 * np.sin(k), 0.2 * np.cos(2 * k)]


def run(host, lengths, name):
    """Return the outputs after each step of a run."""
    t, rows = 0.0, []
    for k, dt in enumerate(lengths):
        rows.append(host.step({name: input_at(k)} if name else {}, t, dt))
        t += dt
    return np.array(rows)


def sampled_run(host, lengths, name):
    """Return the outputs after each communication step, computed by steps of the sample time.

    Each sample reads the input of its communication step. Before the first sample, rows are NaN.
    """
    done, t, rows = 0, 0.0, []
    row = np.full(sum(port.size for port in host.memory.block.outputs), np.nan)
    for k, dt in enumerate(lengths):
        t += dt
        while done < floor(Fraction(t) / Fraction(T) + Fraction(2, 10**6)):
            row = host.step({name: input_at(k)} if name else {}, done * T, T)
            done += 1
        rows.append(row)
    assert done > 10
    return np.array(rows)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a function that builds the FMU of a block for each FMU type once."""
    folder, fmus = tmp_path_factory.mktemp("fmus"), {}

    def build(name, kind):
        if (name, kind) not in fmus:
            target, fmi = {"FMI 2": ("native", 2), "FMI 3": ("native", 3), "Python": ("python", 2)}[
                kind
            ]
            path = folder / f"{name} {kind}.fmu"
            fmus[name, kind] = export_fmu(BLOCKS[name][0](), path, target, fmi=fmi)
        return fmus[name, kind]

    return build


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if slow else ())
        for name, (_, _, slow) in BLOCKS.items()
    ],
)
def test_sample_instants_of_a_block_do_not_depend_on_the_communication_step(name, built, tmp_path):
    make, put, _ = BLOCKS[name]
    block = make()
    memory = Memory(block)
    fmus = [built(name, kind) for kind in ("FMI 2", "FMI 3", "Python")]
    for case, lengths in LENGTHS.items():
        rows = run(InMemory(compiled_stepper(memory, h=1e-3)), lengths, put)
        expected = sampled_run(InMemory(compiled_stepper(memory, h=1e-3)), lengths, put)
        sampled = np.isfinite(expected[:, 0])
        assert_allclose(rows[sampled], expected[sampled], rtol=1e-9, atol=1e-12, err_msg=case)
        in_numpy = run(InMemory(numpy_stepper(memory, h=1e-3)), lengths, put)
        assert_allclose(in_numpy, rows, rtol=SAME, atol=SAME, err_msg=case)
        for k, fmu in enumerate(fmus):
            host = InFmpy(fmu, tmp_path / f"{case} {k}", block)
            assert_array_equal(run(host, lengths, put), rows, err_msg=f"{case}, {fmu.name}")
            host.close()


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("method", [None, pytest.param("rk4", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "dt", [0.0077, *(pytest.param(dt, marks=pytest.mark.slow) for dt in (0.004, 0.0125))]
)
def test_samples_within_communication_steps_are_executed_in_numpy_in_c_and_in_fused_systems(
    method, dt
):
    forms = {
        form: simulate(controlled_robot(method), 40 * dt, dt, form=form)
        for form in ("numpy", "compiled", "fused")
    }
    samples = floor(40 * dt / T + 1e-6)
    for form, result in forms.items():
        assert_allclose(result.values, forms["compiled"].values, rtol=1e-9, atol=1e-9, err_msg=form)
        changes = np.any(np.diff(result["pd.tau"], axis=0), axis=1).sum()
        assert changes == min(samples, 40)  # the torque changes in each step with a sample


def test_fused_run_of_continuous_parts_supports_any_start_time():
    # the steps are samples of the fused block, and t_start + k dt is not a multiple of dt
    system = System()
    system.add("robot", RobotPlant(planar2()), start={"q": [0.3, -0.5]}, method="rk4")
    system.add("pd", PDController([60.0, 30.0], [8.0, 4.0]))
    system.add("sine", Sine([1.0, 0.5], [2.0, 3.0], unit="rad"))
    system.connect("sine.y", "pd.q_ref")
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    compiled, fused = (
        simulate(system, 0.7037, 0.01, t_start=0.0037, form=form) for form in ("compiled", "fused")
    )
    assert_allclose(fused.values, compiled.values, rtol=SAME, atol=SAME)
