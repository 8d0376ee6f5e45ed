"""Continuous systems: ideal control, the integrator's order, and values exchanged without delay."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar2ctrl import REFERENCE, parts, wired
from random_models import MODELS, random_state
from rigidblocks import (
    PDController,
    RepeatingSequence,
    RobotPlant,
    System,
    export_fmu,
    planar2,
    simulate,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.linearization import linearize
from rigidblocks.dynamics import aba
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper

RTOL = 1e-11  # exact derivatives; rounding with a well-conditioned H
# central differences with STEP: rounding eps / STEP and truncation STEP^2, with a margin for the
# size of higher derivatives
STEP = 1e-5
DIFFERENCES = 1e-6
IDEAL_LAW = 1e-6  # error of RK4 at 1 ms on the ideal law [rad, rad/s]
ORDER = 0.1  # tolerance of the fitted slope of log error over log step
DOWN = (0.0, -9.81, 0.0)


def close(actual, expected, tolerance):
    assert np.shape(actual) == np.shape(expected)
    assert_allclose(
        actual, expected, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


# continuous systems


def ideal_run(t_stop, h):
    """Return the memory of the demo after each second with RK4, and its layout.

    The command is a straight line between corners, as in the ideal law.
    """
    components = parts() | {"command": RepeatingSequence(t=[0.0, 1000.0], y=np.zeros((2, 2)))}
    block = ContinuousSystem(wired(components))
    stepper = compiled_stepper(Memory(block), h=h)
    where, m = stepper.memory.where, stepper.memory.start()
    corners = np.array([[0.0, 0.0], [1.0, 1.5], [1.0, 1.5], [0.0, 0.0]])
    rows = []
    for k in range(int(np.ceil(t_stop))):
        a, b = corners[k % 4], corners[(k + 1) % 4]
        m[where["command.table"]] = np.ravel([a - k * (b - a), a + (1000 - k) * (b - a)])
        stepper.initialize(m, float(k))
        steps = round(min(1.0, t_stop - k) / h)
        run = np.empty((steps, stepper.memory.size))
        stepper.run(m, float(k), h, run)
        m[:] = run[-1]
        rows.append(m.copy())
    return rows, where


@pytest.mark.slow
def test_continuous_system_with_rk4_matches_the_motion_under_continuous_control():
    for t, expected in REFERENCE.items():
        rows, where = ideal_run(t, 1e-3)
        actual = np.concatenate([rows[-1][where["robot.q"]], rows[-1][where["robot.qd"]]])
        assert_allclose(actual, expected, rtol=0, atol=IDEAL_LAW)


@pytest.mark.slow
def test_error_of_a_continuous_system_converges_at_the_order_of_the_integrator():
    steps = np.array([1 / 200, 1 / 400, 1 / 800, 1 / 1600])
    fine, where = ideal_run(0.5, 1 / 8000)
    errors = [np.abs(ideal_run(0.5, h)[0][-1] - fine[-1])[where["robot.q"]].max() for h in steps]
    assert abs(np.polyfit(np.log(steps), np.log(errors), 1)[0] - 4) < ORDER


def test_parts_of_a_continuous_system_exchange_values_without_delay():
    flat = Memory(ContinuousSystem(wired(parts())))
    m = flat.start()
    m[flat.where["robot.q"]], m[flat.where["robot.qd"]] = [0.1, 0.2], [0.3, -0.1]
    m[0] = 0.25
    m[flat.y] = NumpyEvaluator(flat).output(m)
    tau = 1000 * (np.array([0.25, 0.375]) - [0.1, 0.2]) + 15 * (np.array([1.0, 1.5]) - [0.3, -0.1])
    close(m[flat.where["pd.tau"]], tau, 1e-14)
    qdd = aba(planar2(), np.array([0.1, 0.2]), np.array([0.3, -0.1]), tau)
    close(NumpyEvaluator(flat).derivative(m), [0.3, -0.1, *qdd], 1e-13)


@pytest.mark.slow
def test_continuous_system_with_one_part_matches_the_results_of_this_part():
    model = MODELS["satellite"]()
    system = System()
    system.add("body", RobotPlant(model))
    whole, part = Memory(ContinuousSystem(system)), Memory(RobotPlant(model))
    s = random_state(np.random.default_rng(0), model)
    a, b = whole.start(), part.start()
    for name in ("q", "qd", "tau"):
        a[whole.where[f"body.{name}"]] = b[part.where[name]] = getattr(s, name)
    for memory, place in ((a, whole.where["body.q"]), (b, part.where["q"])):
        memory[place][:4] *= 1.01  # the initialization normalizes the quaternion
    numpy_stepper(whole).initialize(a, 0.0)
    numpy_stepper(part).initialize(b, 0.0)
    for k in range(3):
        numpy_stepper(whole).step(a, k * 1e-3, 1e-3)
        numpy_stepper(part).step(b, k * 1e-3, 1e-3)
    assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert abs(np.linalg.norm(a[whole.where["body.q"]][:4]) - 1) < 1e-15
    assert_array_equal(whole.position, part.position)


@pytest.mark.slow
def test_native_fmu_of_a_continuous_system_matches_the_results_of_the_system(tmp_path):
    block = ContinuousSystem(wired(parts()))
    path = export_fmu(block, tmp_path / "planar2ctrl.fmu")
    whole = System()
    whole.add("all", path)
    runs = [simulate(host, 0.1, 1e-3) for host in (whole, _alone(block))]
    for port in block.outputs:
        assert_allclose(
            runs[0][f"all.{port.name}"], runs[1][f"all.{port.name}"], rtol=1e-10, atol=1e-10
        )


def _alone(block):
    system = System()
    system.add("all", block)
    return system


def test_continuous_system_rejects_a_sampled_part():
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add(
        "pd", PDController(kp=[1.0, 1.0], kd=[1.0, 1.0], sample_time=2e-3), start={"q_ref": 0.0}
    )
    system.connect("robot.q", "pd.q")
    message = (
        r"cannot make the system continuous: 'pd' is sampled every 0.002 s; .* "
        r"FusedSystem\(system, dt\)"
    )
    with pytest.raises(ValueError, match=message):
        ContinuousSystem(system)
    with pytest.raises(ValueError, match=message):
        linearize(system)
