"""Loops that separate blocks close by constraint forces or by springs.

The motion equals that of the closed-loop plant, except for the error of forces that are constant
during a step.
"""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import System, simulate
from rigidblocks.block.block import record
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import initialize
from rigidblocks.dynamics import aba
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints
from rigidblocks.kernels.traced_evaluator import feedthrough
from rigidblocks.library import (
    ClosedLoopPlant,
    CompliantLoopClosure,
    CutLoopPlant,
    LoopClosure,
    RobotPlant,
)
from rigidblocks.robot.joints import LoopJoint, PlanarPrismatic
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import (
    Mechanism,
    actuator_triangle,
    bennett,
    five_bar,
    four_bar,
    n_four_bar,
    planar2,
    sarrus,
    spatial_mechanism,
    stewart_platform,
)
from rigidblocks.spatial.planar import identity, mcI

SAME = 1e-10  # relative: A has the squared condition number of the constraints, at most 10
MECHANISMS = {
    "four-bar": four_bar(),
    "five-bar": five_bar(),
    "actuator triangle": actuator_triangle(),
    "windows": n_four_bar(3, 0.5),
    "four-bar in space": spatial_mechanism(four_bar()),
    "bennett": bennett(),
    "sarrus": sarrus(),
    "stewart platform": stewart_platform(position=(0.1, 0.0)),
}
EVERY = pytest.mark.parametrize("name", MECHANISMS)


def outputs(block, **values):
    """Return the outputs of a block at t = 0, with the given inputs or states."""
    flat = Memory(block)
    m = flat.start()
    for name, value in values.items():
        m[flat.where[name]] = np.ravel(value)
    return record(flat.ports, initialize(NumpyEvaluator(flat), m, 0.0)[1:])


def moving(name):
    """Return a mechanism with random joint torques, and velocities that keep its loops closed."""
    (model, q, _), rng = MECHANISMS[name], np.random.default_rng(8)
    K, qd = loop_constraints(model, q, np.zeros(model.nv)).K, rng.uniform(-1, 1, model.nv)
    return model, q, qd - np.linalg.lstsq(K, K @ qd, 1e-9)[0], rng.uniform(-5, 5, model.nv)


def closed_by_forces(mechanism, T_stab):
    """Return the cut plant with its loop closure block."""
    system = System()
    system.add("plant", CutLoopPlant(*mechanism))
    system.add("loops", LoopClosure(mechanism.model, T_stab))
    for port in ("A", "b", "delta", "rate"):
        system.connect(f"plant.{port}", f"loops.{port}")
    system.connect("loops.lam", "plant.lam")
    return system


def closed_by_springs(mechanism, stiffness, damping):
    """Return the spanning-tree plant with its compliant loop closure."""
    system, (model, q0, qd0) = System(), mechanism
    system.add("plant", RobotPlant(model.spanning_tree, q0, qd0, external_wrenches=True))
    system.add("loops", CompliantLoopClosure(model, stiffness, damping))
    for port in ("q", "qd"):
        system.connect(f"plant.{port}", f"loops.{port}")
    system.connect("loops.f_ext", "plant.f_ext")
    return system


def guided_mass(x):
    """Return a mass of 2 kg on a slide along x that a second slide along y locks.

    The constraints are the direction x and a redundant rotation.
    """
    loop = LoopJoint(PlanarPrismatic("y"), -1, 0, identity(), identity())
    model = PlanarModel(
        "guided",
        (-1,),
        (PlanarPrismatic("x"),),
        (identity(),),
        (mcI(2.0, [0.0, 0.0], 0.1),),
        loops=(loop,),
    )
    return Mechanism(model, np.array([x]), np.zeros(1))


# closure by constraint forces


@EVERY
def test_forces_of_the_loop_closure_block_equal_the_closed_loop_constraint_forces(name):
    model, q, qd, tau = moving(name)
    cut = outputs(CutLoopPlant(model, q, qd), tau=tau)
    closure = outputs(LoopClosure(model, 0.1), A=cut.A, b=cut.b)
    expected = closed_loop_dynamics(model, q, qd, tau)
    closed = outputs(CutLoopPlant(model, q, qd), tau=tau, lam=closure.lam)
    assert_allclose(closed.qdd, expected.qdd, atol=SAME * np.abs(expected.qdd).max())
    K = loop_constraints(model, q, qd).K
    assert_allclose(
        K.T @ closure.lam, K.T @ expected.lam, atol=SAME * np.abs(K.T @ expected.lam).max()
    )
    assert closure.rank == expected.rank


@pytest.mark.parametrize(
    "name", [*list(MECHANISMS)[:-1], pytest.param("stewart platform", marks=pytest.mark.slow)]
)
def test_constraint_force_inputs_of_a_cut_loop_plant_affect_only_its_accelerations_directly(name):
    pairs = feedthrough(NumpyEvaluator(Memory(CutLoopPlant(*MECHANISMS[name]))))
    assert {y for u, y in pairs if u == "lam"} == {"qdd"}
    order = closed_by_forces(MECHANISMS[name], 0.1).wiring().evaluation_order
    assert order.index("plant") < order.index("loops")


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (4, 4), (4, 2), (6, 3), (6, 0)])
def test_loop_closure_block_solves_rank_deficient_constraint_equations(n, rank):
    rng = np.random.default_rng([n, rank])
    Y = rng.normal(size=(rank, n))
    A, x = Y.T @ Y, rng.normal(size=n)
    model = stewart_platform().model
    padded = np.zeros((model.nc, model.nc))
    padded[:n, :n] = A
    b = np.zeros(model.nc)
    b[:n] = A @ x
    y = outputs(LoopClosure(model, 0.1), A=padded, b=b)
    assert y.rank == rank
    assert_allclose(padded @ y.lam, b, atol=1e-12 * (1 + np.abs(A).max()))
    assert np.count_nonzero(y.lam) <= rank


def test_constraint_error_of_the_loop_closure_block_is_critically_damped():
    mechanism = guided_mass(0.3)
    y = outputs(
        LoopClosure(mechanism.model, 0.05),
        A=np.diag([0.0, 0.5]),
        delta=[0.0, 0.3],
        rate=[0.0, -0.2],
    )
    assert_allclose(y.lam, [0.0, -2.0 * (2 / 0.05 * -0.2 + 0.3 / 0.05**2)], rtol=1e-13)
    assert_allclose([y.rank, y.loop_error], [1, 0.3])


@pytest.mark.slow
def test_motion_error_of_sampled_loop_closure_forces_is_of_first_order():
    # held constraint forces have a first-order error: half the step, half the motion error
    mechanism, steps = four_bar(), (2e-3, 1e-3, 5e-4)
    ends = [
        simulate(closed_by_forces(mechanism, 0.02), 0.4, dt, progress=False)["plant.q"][-1]
        for dt in steps
    ]
    whole = System()
    whole.add("plant", ClosedLoopPlant(*mechanism))
    exact = simulate(whole, 0.4, 1e-3, progress=False)["plant.q"][-1]
    errors = [np.abs(end - exact).max() for end in ends]
    assert_allclose(np.array(errors[:-1]) / errors[1:], 2.0, rtol=0.2)


def held_too_long():
    """Return a context that expects the warning about a too large step."""
    return pytest.warns(RuntimeWarning, match="'loops' holds its outputs")


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "stable"), [(0.1, True), (0.95, True), (1.05, False)])
def test_loop_closure_block_is_stable_if_its_time_constant_exceeds_the_communication_step(
    ratio, stable
):
    # with held forces on an exact plant, the double pole at 1/T_stab is stable for dt < T_stab
    dt = 1e-3
    with nullcontext() if stable else held_too_long():
        result = simulate(closed_by_forces(guided_mass(1e-3), dt / ratio), 0.4, dt, progress=False)
    x = result["plant.q"][:, 0]
    assert (np.abs(x[-1]) < 1e-4) == stable
    assert stable or np.abs(x[-1]) > 1.0


# closure by springs


@EVERY
def test_joint_torques_of_compliant_loop_wrenches_equal_the_torques_of_the_spring_forces(name):
    model, q, qd, tau = moving(name)
    qd = qd + 0.3  # velocities that open the loops
    springs = CompliantLoopClosure(model, 100.0, np.linspace(1.0, 2.0, model.nc))
    y = outputs(springs, q=q, qd=qd)
    constraints = loop_constraints(model, q, qd)
    assert_allclose(y.delta, constraints.delta, atol=1e-14)
    assert_allclose(
        y.lam,
        -100.0 * y.delta - np.linspace(1.0, 2.0, model.nc) * (constraints.K @ qd),
        rtol=1e-11,
        atol=1e-11,
    )
    expected = aba(model.spanning_tree, q, qd, tau + constraints.K.T @ y.lam)
    assert_allclose(
        aba(model.spanning_tree, q, qd, tau, y.f_ext), expected, atol=SAME * np.abs(expected).max()
    )


@pytest.mark.slow
def test_gap_of_a_loaded_compliant_loop_is_load_divided_by_stiffness():
    mechanism = guided_mass(0.0)
    system = closed_by_springs(mechanism, 500.0, 30.0)
    system.parts["plant"].start["tau"] = np.array([5.0])
    result = simulate(system, 4.0, 1e-3, progress=False)
    assert_allclose(result["plant.q"][-1], 5.0 / 500.0, rtol=1e-6)
    assert_allclose(result["loops.lam"][-1], [0.0, -5.0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("zeta", [0.1, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("stable", [True, False])
def test_compliant_loops_are_stable_up_to_the_step_size_limit(zeta, stable):
    # stability limit: w dt < min(4 zeta, 1/zeta) on an exact plant
    dt, mass = 1e-3, 2.0
    w = min(4 * zeta, 1 / zeta) * (0.9 if stable else 1.1) / dt
    system = closed_by_springs(guided_mass(1e-3), mass * w**2, 2 * zeta * mass * w)
    with nullcontext() if stable else held_too_long():
        x = simulate(system, 1.0, dt, progress=False)["plant.q"][:, 0]
    late = np.abs(x[-100:]).max()
    assert late < 1e-3 if stable else late > 1e-2


@pytest.mark.slow
def test_energy_of_a_slow_mechanism_with_compliant_loops_never_increases():
    mechanism = five_bar()
    result = simulate(closed_by_springs(mechanism, 1e5, 1e3), 0.6, 1e-4, progress=False)
    energy = result["plant.energy"] + 1e5 / 2 * np.sum(result["loops.delta"] ** 2, axis=1)
    assert np.diff(energy).max() < 1e-3
    assert np.abs(result["loops.delta"]).max() < 1e-2


# invalid arguments


def test_loop_closure_blocks_reject_models_without_loops():
    for make in (
        CutLoopPlant,
        lambda m: LoopClosure(m, 0.1),
        lambda m: CompliantLoopClosure(m, 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match="model 'planar2' has no loop joints to close"):
            make(planar2())
    model = four_bar().model
    with pytest.raises(ValueError, match="the start value of T_stab is 0 s; it must be positive"):
        LoopClosure(model, 0.0)
    with pytest.raises(ValueError, match=r"stiffness\[1\] is -1 N/m; it must be at least 0"):
        CompliantLoopClosure(model, -1.0, 1.0)
