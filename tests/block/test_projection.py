"""States that are moved back to where they belong after every inner step, and plants with
quaternions among them.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from block_runs import assert_same, begun, go_on, memory, random_inputs, reference_run
from hosts import instantiated
from maximal import jacobians, poses
from random_models import MODELS, random_state, random_tree
from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.block.block import Block, Port
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4, SEMI_IMPLICIT_EULER
from rigidblocks.block.memory import Memory
from rigidblocks.block.step import initialize
from rigidblocks.block.stepper import StepError
from rigidblocks.fmi.python import python_fmu
from rigidblocks.joint import Reversed, Revolute, SixDoF, Spherical
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import model_header
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import RobotPlant
from rigidblocks.model.configuration import neutral, normalized, random_configuration, rate
from rigidblocks.model.model import Model
from rigidblocks.robots import planar2
from rigidblocks.system.fused import FusedSystem
from rigidblocks.system.system import System

STEPPERS = pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
SAME = 1e-10  # NumPy and C: a rounding or two a step, times what some 40 steps of a robot amplify
UNIT = 4e-16  # a sum of four squares, a root and a division
KEPT = (
    1e-9  # RK4 at h = 1 ms over 10 s: h^4 times the fifth power of the spin, some radians a second
)


@dataclass(frozen=True, eq=False)
class Turntable(Block):
    """A point on a circle that grows with time and turns at u; a counter beside it that is not
    moved back.
    """

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


# the hook


@STEPPERS
@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_states_are_where_they_belong_after_the_start_and_after_each_step(stepper, method):
    flat = Memory(Turntable())
    m, run = flat.start(), stepper(flat, method, 0.05)
    run.initialize(m, 2.0)
    assert_allclose(m[1:3], [1.2, 1.6], rtol=1e-15)  # (3, 4) on a circle of radius 2
    for k in range(4):
        run.step(m, 2.0 + k * 0.12, 0.12)
        assert_allclose(np.hypot(*m[1:3]), 1.0 + 0.5 * (2.0 + (k + 1) * 0.12), rtol=1e-14)
    assert_allclose(m[3], 0.48, rtol=1e-14)


def test_compiled_projection_is_that_of_numpy_at_every_inner_step():
    flat, rows = Memory(Turntable()), []
    for stepper in (numpy_stepper, compiled_stepper):
        m, run = flat.start(), stepper(flat, SEMI_IMPLICIT_EULER, 0.07)
        run.initialize(m, 0.3)
        for k in range(5):
            run.step(m, 0.3 + k * 0.2, 0.2)
        rows.append(m)
    assert_allclose(*rows, rtol=1e-14)


def test_block_without_a_projection_pays_nothing():
    for block, projects in ((RobotPlant(planar2()), False), (Turntable(), True)):
        flat = Memory(block)
        assert NumpyEvaluator(flat).projects is projects
        text = model_header(TracedEvaluator(flat), RK4, 1e-3)
        assert f"#define RB_PROJECTS {int(projects)}" in text
        assert ("void project(" in text) is projects


@dataclass(frozen=True, eq=False)
class Wrong(Turntable):
    """Its projection names a state that there is not."""

    def project(self, x):
        return {"angle": x.r}


def test_projection_of_an_unknown_state_is_named():
    flat = Memory(Wrong())
    with pytest.raises(
        ValueError,
        match=r"Wrong.project returned the unknown angle; it must return .* with some of: r, s",
    ):
        initialize(NumpyEvaluator(flat), flat.start(), 0.0)


@pytest.mark.slow
def test_part_of_a_fused_system_is_moved_back_too():
    system = System()
    system.add("table", Turntable(), method="rk4")
    flat = Memory(FusedSystem(system, 0.1))
    m, run = flat.start(), compiled_stepper(flat, RK4, 0.1)
    run.initialize(m, 0.0)
    run.step(m, 0.0, 0.1)
    assert_allclose(np.hypot(*m[flat.where["table.r"]]), 1.05, rtol=1e-14)


# plants


def bodies(rng):
    """A free body with a ball joint and a hinge on it, and a reversed ball joint on the base."""
    return random_tree(
        rng, (-1, 0, 1, -1), (SixDoF(), Spherical(), Revolute(), Reversed(Spherical()))
    )


def lengths(model, q):
    """The lengths of all quaternions."""
    starts = [
        k.start for joint, k in zip(model.joint, model.q_slices, strict=True) if joint.nq > joint.nv
    ]
    return np.array([np.linalg.norm(q[..., k : k + 4], axis=-1) for k in starts])


def test_plant_starts_in_the_neutral_configuration_at_rest(model):
    flat = Memory(RobotPlant(model))
    m = flat.start()
    assert_array_equal(m[flat.where["q"]], neutral(model))
    assert not m[flat.where["qd"]].any()


def test_start_of_a_plant_is_normalized(rng):
    model = bodies(rng)
    q = random_configuration(model, rng)
    stretched = q * np.where(np.arange(model.nq) < 4, 3.0, 1.0)
    assert_allclose(RobotPlant(model, q0=stretched).q0, q, rtol=1e-15)


@pytest.mark.parametrize("q0", [0.0, [0, 0, 0, 0, 1, 2, 3, 1, 0, 0, 0, 0.5, 1, 0, 0, 0]])
def test_plant_refuses_a_zero_quaternion(q0, rng):
    with pytest.raises(
        ValueError, match="the quaternion of joint1 of model 'random tree' must not be zero"
    ):
        RobotPlant(bodies(rng), q0=q0)


@STEPPERS
def test_zero_quaternion_that_is_set_later_is_named_at_the_start(stepper, rng):
    flat = Memory(RobotPlant(bodies(rng)))
    m, run = flat.start(), stepper(flat, RK4, 1e-3)
    m[flat.where["q"]] = 0.0
    with pytest.raises(StepError, match=r"RobotPlant is not finite at t = 0 s: q\[1\]"):
        run.initialize(m, 0.0)


def test_positions_change_at_the_rate_of_the_configuration(model, rng):
    flat, s = Memory(RobotPlant(model)), random_state(rng, model)
    m = flat.start()
    m[flat.where["q"]], m[flat.where["qd"]] = s.q, s.qd
    assert_array_equal(NumpyEvaluator(flat).derivative(m)[: model.nq], rate(model, s.q, s.qd))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"), [("all joints", RK4), ("satellite", SEMI_IMPLICIT_EULER)]
)
def test_compiled_plant_equals_numpy(name, method, rng):
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
from rigidblocks.joint import Revolute, SixDoF, Spherical
from rigidblocks.library import RobotPlant
from rigidblocks.model.model import Model
from rigidblocks.algebra.spatial import mcI, xlt


class FreeBodies(BlockSlave):
    """A free body with a ball joint and a hinge."""

    def __init__(self, **kwargs):
        body = mcI(1.0, [0.1, 0.2, 0.3], np.diag([0.1, 0.2, 0.25]))
        steps = (xlt([0.0, 0.0, 0.0]), xlt([1.0, 0.0, 0.0]), xlt([0.0, 1.0, 0.0]))
        model = Model("bodies", (-1, 0, 1), (SixDoF(), Spherical(), Revolute()), steps, (body,) * 3)
        super().__init__(RobotPlant(model, qd0=np.linspace(-1, 1, 10)), **kwargs)
'''


@pytest.mark.slow
def test_python_fmu_of_a_plant_with_quaternions_is_its_block_in_numpy(tmp_path):
    script = tmp_path / "free_bodies_fmu.py"
    script.write_text(SCRIPT.lstrip())
    inputs = random_inputs(script, 20)
    expected = reference_run(script, inputs)
    slave = begun(
        instantiated(python_fmu(script, tmp_path / "free_bodies.fmu"), tmp_path / "unpacked"),
        script,
        inputs,
    )
    assert_same(memory(slave, script), expected[0])
    assert_same(go_on(slave, script, inputs[1:]), expected[1:])
    slave.freeInstance()


def run(model, q, qd, seconds, dt=1e-2):
    """Time histories of q and qd of a plant left alone, compiled, RK4 at h = 1 ms."""
    flat = Memory(RobotPlant(model, q0=q, qd0=qd))
    m, stepper = flat.start(), compiled_stepper(flat, RK4, 1e-3)
    stepper.initialize(m, 0.0)
    rows = np.empty((round(seconds / dt), flat.size))
    assert stepper.run(m, 0.0, dt, rows) == len(rows)
    return rows[:, flat.where["q"]], rows[:, flat.where["qd"]], rows[:, flat.where["energy"]]


@pytest.mark.slow
def test_quaternions_keep_their_length_over_a_long_run(rng):
    model = bodies(rng)
    s = random_state(rng, model)
    q, _, _ = run(model, s.q, s.qd, 100.0)
    assert np.ptp(q) > 1
    assert_allclose(lengths(model, q), 1.0, rtol=0, atol=UNIT)


@pytest.mark.slow
def test_quaternions_of_euler_steps_keep_their_length_too(rng):
    model = bodies(rng)
    s = random_state(rng, model)
    flat = Memory(RobotPlant(model, q0=s.q, qd0=s.qd))
    m, stepper = flat.start(), compiled_stepper(flat, SEMI_IMPLICIT_EULER, 1e-2)
    stepper.initialize(m, 0.0)
    for k in range(20):
        stepper.step(m, k * 1e-2, 1e-2)
        q = m[flat.where["q"]]
        assert_allclose(lengths(model, q), 1.0, rtol=0, atol=UNIT)
        assert_allclose(q, normalized(model, q), rtol=0, atol=UNIT * np.abs(q).max())


@pytest.mark.parametrize("joint", [SixDoF(), Spherical(), Reversed(SixDoF())], ids=str)
def test_body_without_torque_keeps_its_energy_and_its_angular_momentum_in_the_world(joint, rng):
    body = mcI(
        2.0, [0.0, 0.0, 0.0], np.diag([0.3, 0.2, 0.12])
    )  # spun about its middle axis it tumbles
    free = Model("body", (-1,), (joint,), (identity(),), (body,)).with_gravity(np.zeros(3))
    qd0 = np.concatenate([[0.1, 3.0, 0.05], rng.uniform(-1, 1, 3)])[: joint.nv]
    q, qd, energies = run(free, joint.random(rng), qd0, 10.0)
    momenta = np.array([momentum(free, *x) for x in zip(q[::50], qd[::50], strict=True)])
    if isinstance(joint, Spherical):
        momenta = momenta[:, :3]  # the joint holds the body where it is
    assert np.ptp(qd, axis=0).max() > 3
    assert np.ptp(energies) < KEPT * energies[0]
    assert np.ptp(momenta, axis=0).max() < KEPT * np.abs(momenta).max()


@pytest.mark.slow
def test_satellite_keeps_its_momentum_and_energy_while_its_arms_swing(rng):
    model = MODELS["satellite"]()
    s = random_state(rng, model)
    q, qd, energies = run(model, s.q, s.qd / 2, 5.0)
    momenta = np.array([momentum(model, *x) for x in zip(q[::50], qd[::50], strict=True)])
    assert np.ptp(qd, axis=0).max() > 1
    assert np.ptp(energies) < 100 * KEPT * energies[0]  # the arms turn faster than the body
    assert np.ptp(momenta, axis=0).max() < 100 * KEPT * np.abs(momenta).max()


def momentum(model, q, qd):
    """The spatial momentum (6,) in base coordinates."""
    parts = zip(poses(model, q), model.inertia, jacobians(model, q), strict=True)
    return sum(x.T @ body.matrix() @ x @ J @ qd for x, body, J in parts)


def test_plant_of_a_model_with_a_massless_body_moves(rng):
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
def test_inner_steps_and_projections_are_at_their_times(stepper):
    """RK4 integrates a polynomial of order 3 exactly, from wherever an inner step starts."""
    own = stepper(Memory(Timed()), RK4, 0.1)
    m = own.memory.start()
    own.initialize(m, 0.0)
    own.step(m, 0.0, 0.4)
    own.step(m, 0.4, 0.2)
    assert_allclose(m[own.memory.x], 0.6**3 + 0.1 + 0.2 + 0.3 + 0.4 + 0.5 + 0.6, rtol=1e-13)
