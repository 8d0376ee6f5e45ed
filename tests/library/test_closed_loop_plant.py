"""Plant with closed loops: equations of motion of all loop joints, and rejected initial states."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.block.block import Record, record
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import initialize
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.dynamics import body_jacobian, kinetic_energy
from rigidblocks.dynamics.loops import SOLVERS, loop_constraints, loop_joint_motion
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant, FloatingBasePlant, HybridPlant, RobotPlant
from rigidblocks.robot.joints import LoopJoint, PlanarPrismatic, PlanarRevolute
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.robots import five_bar, four_bar, planar2, spatial_mechanism
from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import rotx, rotz

TILT = 5e-7  # rad: error of an angle rounded to six digits
CLOSED = 1e-12  # rad, m: rounding of a projection onto the loop constraints
ENERGY = 1e-9  # J: integration error over 1 s with 1 ms steps


def parallelogram(loop=PlanarRevolute(), end=(1.0, 0.0)):  # noqa: B008 - frozen
    """Return a parallelogram: two cranks of 1 m, 2 m apart, and a coupler of 2 m.

    The coupler is a child of the first crank. The loop joint connects it to the second crank.
    """
    crank, coupler = planar.mcI(1.0, [0.5, 0.0], 1 / 12), planar.mcI(2.0, [1.0, 0.0], 2 / 3)
    return PlanarModel(
        "parallelogram",
        (-1, 0, -1),
        (PlanarRevolute(),) * 3,
        (planar.xlt([0.0, 0.0]), planar.xlt([1.0, 0.0]), planar.xlt([2.0, 0.0])),
        (crank, coupler, crank),
        gravity=(0.0, -9.81),
        loops=(LoopJoint(loop, 1, 2, planar.xlt([2.0, 0.0]), planar.xlt(end), "pin"),),
    )


Q0, QD0 = np.array([1.0, -1.0, 1.0]), np.array([0.7, -0.7, 0.7])


def run(plant, t_stop, dt=1e-3, **inputs):
    """Return the outputs of a compiled run with constant inputs, as records."""
    flat = Memory(plant)
    stepper, m = compiled_stepper(flat, h=dt), flat.start()
    for name, value in inputs.items():
        m[flat.where[name]] = value
    stepper.initialize(m, 0.0)
    for k in range(round(t_stop / dt)):
        stepper.step(m, k * dt, dt)
        yield record(flat.ports, m[1:].copy())


@pytest.mark.slow
def test_parallelogram_motion_satisfies_the_pendulum_equation():
    # every point of the coupler moves on a circle of 1 m: (2/3 + 2) thdd = -g (1 + 2) cos th, with
    # one crank on each side. The position error is some roundings of the loop length, 7 m. The bars
    # are collinear once in the run. There the velocity error is this rounding times the square of
    # the condition number, and the acceleration error is the rounding times its cube
    plant = ClosedLoopPlant(parallelogram(), Q0, QD0)
    inertia, moment, rounding = 2 / 3 + 2.0, 9.81 * 3.0, 10 * np.finfo(float).eps * 7.0
    for y in run(plant, 1.0):
        qdd = np.array([1.0, -1.0, 1.0]) * (-moment * np.cos(y.q[0]) / inertia)
        assert_allclose(y.qdd, qdd, atol=1e-9 + rounding * y.condition**3)


def test_parallelogram_conserves_energy_and_its_loop_stays_closed():
    runs = list(run(ClosedLoopPlant(parallelogram(), Q0, QD0), 1.0))
    assert max(y.loop_error for y in runs) < CLOSED
    assert np.ptp([y.energy for y in runs]) < ENERGY
    model = parallelogram()
    for y in runs[::50]:
        K = loop_constraints(model, y.q, y.qd).K
        assert abs(y.lam @ (K @ y.qd)) < CLOSED * np.abs(y.lam).max()


@pytest.mark.slow
def test_constraint_rank_drops_if_the_bars_of_a_parallelogram_are_collinear():
    plant = ClosedLoopPlant(parallelogram(), np.array([0.05, -0.05, 0.05]), -QD0)
    runs = list(run(plant, 0.2))
    conditions = [y.condition for y in runs]
    assert 0 < np.argmax(conditions) < len(runs) - 1
    assert max(conditions) > 1e3
    in_line = ClosedLoopPlant(parallelogram(), np.zeros(3))
    assert [y.rank for y in run(in_line, 1e-3)] == [2.0]
    assert next(run(plant, 1e-3)).rank == 2.0
    flat = Memory(in_line)
    m = initialize(NumpyEvaluator(flat), flat.start(), 0.0)
    assert m[flat.where["rank"]] == 1.0


@pytest.mark.slow
def test_work_of_joint_torques_equals_the_energy_change_of_a_closed_loop():
    tau, power = np.array([2.0, 0.0, -1.0]), 0.0
    runs = list(run(ClosedLoopPlant(parallelogram(), Q0, QD0), 0.5, 1e-4, tau=tau))
    power = np.trapezoid([tau @ y.qd for y in runs], dx=1e-4)
    assert_allclose(runs[-1].energy - runs[0].energy, power, rtol=1e-6)


@pytest.mark.slow
def test_torque_in_a_loop_joint_is_equivalent_to_opposite_wrenches_on_both_bodies():
    model, q = parallelogram(), Q0
    torque = ClosedLoopPlant(model, q, QD0, loop_forces=True)
    y = next(run(torque, 1e-3, 1e-3, loop_tau=3.0))
    pushed = ClosedLoopPlant(model, q, QD0, external_wrenches=True)
    wrench = np.zeros((3, 3))
    wrench[2, 0], wrench[1, 0] = 3.0, -3.0  # on the successor, and opposite on the predecessor
    z = next(run(pushed, 1e-3, 1e-3, f_ext=wrench.ravel()))
    assert_allclose(y.qd, z.qd, rtol=1e-13)
    (_,), (velocity,) = loop_joint_motion(model, y.q, y.qd)
    assert_allclose(
        velocity, (body_jacobian(model, y.q, 2) - body_jacobian(model, y.q, 1))[0] @ y.qd
    )


@pytest.mark.slow
def test_mechanism_with_a_prismatic_loop_joint_moves_and_conserves_energy():
    model = parallelogram(PlanarPrismatic("x"), (1.0, np.sin(1.0)))
    runs = list(run(ClosedLoopPlant(model, [1.0, -1.0, 0.0]), 0.5))
    assert np.ptp([y.energy for y in runs]) < 1e-7
    assert max(y.loop_error for y in runs) < CLOSED
    assert np.ptp([loop_joint_motion(model, y.q, y.qd)[0][0] for y in runs]) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(SOLVERS) - {"elimination"}))
def test_all_loop_solvers_give_the_same_motion(method):
    plant, other = (
        ClosedLoopPlant(parallelogram(), Q0, QD0, method=name) for name in ("elimination", method)
    )
    for y, z in zip(run(plant, 0.1), run(other, 0.1), strict=True):
        assert_allclose(z.q, y.q, rtol=0, atol=1e-12)
        assert_allclose(z.lam, y.lam, rtol=1e-9)


@pytest.mark.slow
def test_baumgarte_error_decays_as_a_critically_damped_oscillator():
    T_stab, opened = (
        0.05,
        np.array([-1.0, 1.0, -1.0]) * np.pi / 2 + [0.0, 4e-5, 0.0],
    )  # hanging at rest
    plant = ClosedLoopPlant(parallelogram(), opened, 0.0, stabilization="baumgarte", T_stab=T_stab)
    errors = np.array([y.loop_error for y in run(plant, 0.5)])
    s = np.arange(1, len(errors) + 1) * 1e-3 / T_stab
    start = errors[0] / ((1 + s[0]) * np.exp(-s[0]))
    assert_allclose(errors[:200], start * (1 + s[:200]) * np.exp(-s[:200]), rtol=2e-3)


@pytest.mark.slow
def test_loops_that_drift_without_stabilization_stay_closed_with_projection():
    model, q0, _ = four_bar()  # a parallelogram only translates, which every method does exactly
    drift = [y.loop_error for y in run(ClosedLoopPlant(model, q0, stabilization="none"), 2.0, 0.01)]
    kept = [y.loop_error for y in run(ClosedLoopPlant(model, q0), 2.0, 0.01)]
    assert drift[-1] > 100 * CLOSED
    assert max(kept) < CLOSED


def test_initial_velocity_that_opens_a_loop_is_projected_with_a_warning():
    with pytest.warns(
        UserWarning,
        match=r"qd0 opens the loops of model 'parallelogram' at .* the plant changes qd0 by up to",
    ):
        plant = ClosedLoopPlant(parallelogram(), Q0, [1.0, 0.0, 0.0])
    assert_allclose(
        loop_constraints(plant.model, plant.q0, plant.qd0).K @ plant.qd0, 0.0, atol=1e-15
    )
    nearest = kinetic_energy(plant.model, Q0, plant.qd0 - [1.0, 0.0, 0.0])
    for scale in (0.99, 1.01):  # it is the nearest velocity that keeps the loop closed
        assert kinetic_energy(plant.model, Q0, scale * plant.qd0 - [1.0, 0.0, 0.0]) > nearest


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_log_of_a_run_reports_singular_configurations(caplog, form):
    # the upper links of the five-bar are collinear at 0.651 s and 1.854 s
    system = System()
    system.add("robot", ClosedLoopPlant(*five_bar()))
    with caplog.at_level("INFO", "rigidblocks"):
        simulate(system, 2.0, 1e-3, form=form)
    said = [record.message for record in caplog.records if record.name == "rigidblocks"]
    times = [float(message.split("t = ")[1].split(" s")[0]) for message in said]
    assert_allclose(times, [0.651, 1.854], atol=2e-3)
    assert all(
        message.startswith("'robot' passed through or came near a singular configuration at t = ")
        for message in said
    )


def test_invalid_initial_states_and_options_are_rejected():
    model = parallelogram()
    refused = [
        (
            ValueError,
            "q0 leaves pin of model 'parallelogram' open by 2",
            {"q0": [0.0, np.pi / 2, 0.0]},
        ),
        (
            ValueError,
            "qd0 opens the loops .* the nearest velocity",
            {"q0": Q0, "qd0": [1.0, 0, 0], "strict": True},
        ),
        (
            ValueError,
            "one of projection, baumgarte, independent, none, not 'newton'",
            {"q0": Q0, "stabilization": "newton"},
        ),
        (
            ValueError,
            "unknown solver 'lu' for loops; expected one of elimination, kkt",
            {"q0": Q0, "method": "lu"},
        ),
        (
            ValueError,
            "T_stab must be given if and only if stabilization='baumgarte'",
            {"q0": Q0, "T_stab": 0.1},
        ),
        (
            ValueError,
            "T_stab must be given if and only if stabilization='baumgarte'",
            {"q0": Q0, "stabilization": "baumgarte"},
        ),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for error, message, fields in refused:
            with pytest.raises(error, match=message):
                ClosedLoopPlant(model, **fields)
    with pytest.raises(ValueError, match="has no loop joints; use RobotPlant for a tree"):
        ClosedLoopPlant(planar2())


def test_plants_for_kinematic_trees_reject_models_with_loops():
    model = parallelogram()
    for make in (RobotPlant, lambda m: HybridPlant(m, (0,)), FloatingBasePlant):
        with pytest.raises(
            ValueError,
            match=r"has the loop joints pin, which \w+ does not close; use ClosedLoopPlant",
        ):
            make(model)
    assert RobotPlant(model.spanning_tree).model.loops == ()


def test_mechanism_with_rounded_joint_axes_moves_if_the_rank_tolerance_is_1e_6():
    """A spatial four-bar moves although rounding in a file tilts the axis of its rocker.

    Without a tolerance the mechanism is locked. With the tolerance it moves like the exact one.
    """
    planar_one = four_bar()
    exact = spatial_mechanism(planar_one).model
    (loop,), q = exact.loops, planar_one.q0[-1]
    assert loop.successor == 2
    back = loop.Xs @ rotz(q) @ rotx(-TILT) @ rotz(-q)
    Xtree = (*exact.Xtree[:-1], rotx(TILT) @ exact.Xtree[-1])
    written = replace(exact, Xtree=Xtree, loops=(replace(loop, Xs=back),))
    qdd = {}
    for name, model, fields in (
        ("exact", exact, {}),
        ("locked", written, {}),
        ("moves", written, {"tolerance": 1e-6}),
    ):
        plant = ClosedLoopPlant(model, planar_one.q0, **fields)
        ports = (plant.states, plant.inputs, plant.parameters)
        y = plant.output(0.0, *(Record({p.name: p.start for p in some}) for some in ports))
        qdd[name] = y["qdd"]
        assert y["rank"] == (3 if name == "locked" else 2)
    assert_allclose(qdd["moves"], qdd["exact"], rtol=1e-5)
    assert np.abs(qdd["locked"]).max() < 1e-3 * np.abs(qdd["exact"]).max()
