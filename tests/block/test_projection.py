"""Projection of states after every inner step, and plants with quaternions in the state."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from block_runs import (
    assert_same,
    continue_steps,
    initialized_slave,
    memory,
    random_inputs,
    reference_run,
)
from hosts import instantiated
from maximal import jacobians, poses
from random_models import MODELS, random_state, random_tree
from rigidblocks.block.block import Block, Port
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4, SEMI_IMPLICIT_EULER
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import StepError, initialize
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.fmi.export import python_fmu
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import RobotPlant
from rigidblocks.robot.configuration import (
    neutral,
    normalize_quaternions,
    random_configuration,
    rate,
)
from rigidblocks.robot.joints import Reversed, Revolute, SixDoF, Spherical
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import identity, mcI

STEPPERS = pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
SAME = 1e-10  # NumPy and C differ by one or two roundings per step, amplified in 40 robot steps
UNIT = 4e-16  # rounding of four squares, their sum, a root and a division
KEPT = 1e-9  # RK4 error with h = 1 ms over 10 s: h^4 times the fifth power of some rad/s


@dataclass(frozen=True, eq=False)
class Turntable(Block):
    """Point on a rotating circle whose radius grows with time, and a state without projection."""

    u: float = 2.0
    sample_time: float | None = None
    states = (Port("r", (2,), "m", "", [3.0, 4.0]), Port("s", (), "1", "", 0.0))
    inputs = (Port("w", (), "rad/s", "", 2.0),)
    parameters = (Port("growth", (), "m/s", "", 0.5),)
    outputs = states

    def derivative(self, x, u):
        return {"r": u.w * np.array([-x.r[1], x.r[0]]), "s": 1.0}

    def project(self, t, x, p):
        return {"r": x.r * ((1.0 + p.growth * t) / np.sqrt(x.r @ x.r))}


# projection of blocks


@STEPPERS
@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_states_are_projected_at_initialization_and_after_each_inner_step(stepper, method):
    flat = Memory(Turntable())
    m, run = flat.start(), stepper(flat, method, 0.05)
    run.initialize(m, 2.0)
    assert_allclose(m[1:3], [1.2, 1.6], rtol=1e-15)  # projection of (3, 4) to radius 2
    for k in range(4):
        run.step(m, 2.0 + k * 0.12, 0.12)
        assert_allclose(np.hypot(*m[1:3]), 1.0 + 0.5 * (2.0 + (k + 1) * 0.12), rtol=1e-14)
    assert_allclose(m[3], 0.48, rtol=1e-14)


def test_projected_states_in_numpy_and_in_c_agree_at_every_inner_step():
    flat, rows = Memory(Turntable()), []
    for stepper in (numpy_stepper, compiled_stepper):
        m, run = flat.start(), stepper(flat, SEMI_IMPLICIT_EULER, 0.07)
        run.initialize(m, 0.3)
        for k in range(5):
            run.step(m, 0.3 + k * 0.2, 0.2)
        rows.append(m)
    assert_allclose(*rows, rtol=1e-14)


def test_block_without_projection_has_no_projection_code():
    for block, projects in ((RobotPlant(planar2()), False), (Turntable(), True)):
        flat = Memory(block)
        assert NumpyEvaluator(flat).has_projection is projects
        text = model_header(TracedEvaluator(flat), RK4, 1e-3)
        assert f"#define RB_PROJECTS {int(projects)}" in text
        assert ("void project(" in text) is projects


@dataclass(frozen=True, eq=False)
class Wrong(Turntable):
    """A block whose projection returns an unknown state."""

    def project(self, x):
        return {"angle": x.r}


def test_projection_of_an_unknown_state_is_rejected():
    flat = Memory(Wrong())
    with pytest.raises(
        ValueError,
        match=r"Wrong.project returned the unknown angle; it must return .* with any of: r, s",
    ):
        initialize(NumpyEvaluator(flat), flat.start(), 0.0)


@pytest.mark.slow
def test_fused_system_projects_the_states_of_its_parts():
    system = System()
    system.add("table", Turntable(), method="rk4")
    flat = Memory(FusedSystem(system, 0.1))
    m, run = flat.start(), compiled_stepper(flat, RK4, 0.1)
    run.initialize(m, 0.0)
    run.step(m, 0.0, 0.1)
    assert_allclose(np.hypot(*m[flat.where["table.r"]]), 1.05, rtol=1e-14)


# plants


def bodies(rng):
    """Return a free body with a ball joint and a hinge, and a reversed ball joint on the base."""
    return random_tree(
        rng, (-1, 0, 1, -1), (SixDoF(), Spherical(), Revolute(), Reversed(Spherical()))
    )


def lengths(model, q):
    """Return the norms of all quaternions."""
    starts = [
        k.start for joint, k in zip(model.joint, model.q_slices, strict=True) if joint.nq > joint.nv
    ]
    return np.array([np.linalg.norm(q[..., k : k + 4], axis=-1) for k in starts])


def test_plant_is_initially_at_rest_in_the_neutral_configuration_by_default(model):
    flat = Memory(RobotPlant(model))
    m = flat.start()
    assert_array_equal(m[flat.where["q"]], neutral(model))
    assert not m[flat.where["qd"]].any()


def test_initial_quaternions_of_a_plant_are_normalized(rng):
    model = bodies(rng)
    q = random_configuration(model, rng)
    stretched = q * np.where(np.arange(model.nq) < 4, 3.0, 1.0)
    assert_allclose(RobotPlant(model, q0=stretched).q0, q, rtol=1e-15)


@pytest.mark.parametrize("q0", [0.0, [0, 0, 0, 0, 1, 2, 3, 1, 0, 0, 0, 0.5, 1, 0, 0, 0]])
def test_plant_rejects_a_zero_quaternion(q0, rng):
    with pytest.raises(
        ValueError, match="the quaternion of joint1 of model 'random tree' must not be zero"
    ):
        RobotPlant(bodies(rng), q0=q0)


@STEPPERS
def test_zero_quaternion_state_is_rejected_at_initialization(stepper, rng):
    flat = Memory(RobotPlant(bodies(rng)))
    m, run = flat.start(), stepper(flat, RK4, 1e-3)
    m[flat.where["q"]] = 0.0
    with pytest.raises(StepError, match=r"RobotPlant is not finite at t = 0 s: q\[1\]"):
        run.initialize(m, 0.0)


def test_position_derivative_of_a_plant_equals_the_configuration_derivative(model, rng):
    flat, s = Memory(RobotPlant(model)), random_state(rng, model)
    m = flat.start()
    m[flat.where["q"]], m[flat.where["qd"]] = s.q, s.qd
    assert_array_equal(NumpyEvaluator(flat).derivative(m)[: model.nq], rate(model, s.q, s.qd))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"), [("all joints", RK4), ("satellite", SEMI_IMPLICIT_EULER)]
)
def test_plants_with_quaternions_have_equal_results_in_numpy_and_in_c(name, method, rng):
    model = MODELS[name]()
    s = random_state(rng, model)
    flat, rows = Memory(RobotPlant(model, q0=s.q, qd0=s.qd / 4, external_wrenches=True)), []
    for stepper in (numpy_stepper, compiled_stepper):
        m, run = flat.start(), stepper(flat, method, 1e-3)
        m[flat.where["tau"]], m[flat.where["f_ext"]] = s.tau / 10, np.ravel(s.f_ext) / 10
        run.initialize(m, 0.0)
        for k in range(5):
            run.step(m, k * 3e-3, 3e-3)
        rows.append(m)
    scale = np.maximum(1.0, np.abs(rows[0]))
    assert_allclose(rows[1] / scale, rows[0] / scale, rtol=0, atol=SAME)


SCRIPT = '''
"""Free and jointed bodies."""

import numpy as np

from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.robot.joints import Revolute, SixDoF, Spherical
from rigidblocks.library import RobotPlant
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import mcI, xlt


class FreeBodies(BlockSlave):
    """A free body with a ball joint and a hinge."""

    def __init__(self, **kwargs):
        body = mcI(1.0, [0.1, 0.2, 0.3], np.diag([0.1, 0.2, 0.25]))
        steps = (xlt([0.0, 0.0, 0.0]), xlt([1.0, 0.0, 0.0]), xlt([0.0, 1.0, 0.0]))
        model = Model("bodies", (-1, 0, 1), (SixDoF(), Spherical(), Revolute()), steps, (body,) * 3)
        super().__init__(RobotPlant(model, qd0=np.linspace(-1, 1, 10)), **kwargs)
'''


@pytest.mark.slow
def test_python_fmu_of_a_plant_with_quaternions_matches_the_results_of_its_block(tmp_path):
    script = tmp_path / "free_bodies_fmu.py"
    script.write_text(SCRIPT.lstrip())
    inputs = random_inputs(script, 20)
    expected = reference_run(script, inputs)
    slave = initialized_slave(
        instantiated(python_fmu(script, tmp_path / "free_bodies.fmu"), tmp_path / "unpacked"),
        script,
        inputs,
    )
    assert_same(memory(slave, script), expected[0])
    assert_same(continue_steps(slave, script, inputs[1:]), expected[1:])
    slave.freeInstance()


def run(model, q, qd, seconds, dt=1e-2):
    """Return time histories of q and qd of a plant without inputs, compiled, RK4 at h = 1 ms."""
    flat = Memory(RobotPlant(model, q0=q, qd0=qd))
    m, stepper = flat.start(), compiled_stepper(flat, RK4, 1e-3)
    stepper.initialize(m, 0.0)
    rows = np.empty((round(seconds / dt), flat.size))
    assert stepper.run(m, 0.0, dt, rows) == len(rows)
    return rows[:, flat.where["q"]], rows[:, flat.where["qd"]], rows[:, flat.where["energy"]]


@pytest.mark.slow
def test_quaternions_have_unit_norm_in_a_run_of_100_s(rng):
    model = bodies(rng)
    s = random_state(rng, model)
    q, _, _ = run(model, s.q, s.qd, 100.0)
    assert np.ptp(q) > 1
    assert_allclose(lengths(model, q), 1.0, rtol=0, atol=UNIT)


@pytest.mark.slow
def test_quaternions_have_unit_norm_after_semi_implicit_euler_steps(rng):
    model = bodies(rng)
    s = random_state(rng, model)
    flat = Memory(RobotPlant(model, q0=s.q, qd0=s.qd))
    m, stepper = flat.start(), compiled_stepper(flat, SEMI_IMPLICIT_EULER, 1e-2)
    stepper.initialize(m, 0.0)
    for k in range(20):
        stepper.step(m, k * 1e-2, 1e-2)
        q = m[flat.where["q"]]
        assert_allclose(lengths(model, q), 1.0, rtol=0, atol=UNIT)
        assert_allclose(q, normalize_quaternions(model, q), rtol=0, atol=UNIT * np.abs(q).max())


@pytest.mark.slow
@pytest.mark.parametrize("joint", [SixDoF(), Spherical(), Reversed(SixDoF())], ids=str)
def test_torque_free_body_conserves_energy_and_momentum(joint, rng):
    body = mcI(
        2.0, [0.0, 0.0, 0.0], np.diag([0.3, 0.2, 0.12])
    )  # it spins about its axis of intermediate inertia, so that it tumbles
    free = Model("body", (-1,), (joint,), (identity(),), (body,)).with_gravity(np.zeros(3))
    qd0 = np.concatenate([[0.1, 3.0, 0.05], rng.uniform(-1, 1, 3)])[: joint.nv]
    q, qd, energies = run(free, joint.random(rng), qd0, 10.0)
    momenta = np.array([momentum(free, *x) for x in zip(q[::50], qd[::50], strict=True)])
    if isinstance(joint, Spherical):
        momenta = momenta[:, :3]  # the joint fixes the position of the body
    assert np.ptp(qd, axis=0).max() > 3
    assert np.ptp(energies) < KEPT * energies[0]
    assert np.ptp(momenta, axis=0).max() < KEPT * np.abs(momenta).max()


@pytest.mark.slow
def test_satellite_with_moving_arms_conserves_momentum_and_energy(rng):
    model = MODELS["satellite"]()
    s = random_state(rng, model)
    q, qd, energies = run(model, s.q, s.qd / 2, 5.0)
    momenta = np.array([momentum(model, *x) for x in zip(q[::50], qd[::50], strict=True)])
    assert np.ptp(qd, axis=0).max() > 1
    assert np.ptp(energies) < 100 * KEPT * energies[0]  # the arms rotate faster than the body
    assert np.ptp(momenta, axis=0).max() < 100 * KEPT * np.abs(momenta).max()


def momentum(model, q, qd):
    """Return the spatial momentum (6,) in base coordinates."""
    parts = zip(poses(model, q), model.inertia, jacobians(model, q), strict=True)
    return sum(x.T @ body.matrix() @ x @ J @ qd for x, body, J in parts)


def test_plant_with_a_massless_body_conserves_energy(rng):
    pair = random_tree(rng, (-1, 0), (Revolute(), Revolute((1.0, 0.0, 0.0))))
    empty = replace(pair.inertia[0], m=0.0, h=np.zeros(3), I=np.zeros((3, 3)))
    model = replace(pair, inertia=(empty, pair.inertia[1]), massless=("body1",))
    _, _, energies = run(model, np.array([0.3, 0.4]), np.zeros(2), 0.5)
    assert np.ptp(energies) < 1e-6 * np.abs(energies).max()


@dataclass(frozen=True)
class Timed(Block):
    """dx/dt = 3 t^2, and t is added to x at the end of each inner step."""

    states = outputs = (Port("x", start=0.0),)

    def derivative(self, t):
        return {"x": 3.0 * t * t}

    def project(self, t, x):
        return {"x": x.x + t}


@STEPPERS
def test_projection_is_evaluated_at_the_end_time_of_each_inner_step(stepper):
    """RK4 integrates a cubic polynomial exactly from the start of any inner step."""
    own = stepper(Memory(Timed()), RK4, 0.1)
    m = own.memory.start()
    own.initialize(m, 0.0)
    own.step(m, 0.0, 0.4)
    own.step(m, 0.4, 0.2)
    assert_allclose(m[own.memory.x], 0.6**3 + 0.1 + 0.2 + 0.3 + 0.4 + 0.5 + 0.6, rtol=1e-13)
