"""Inputs of FMI 2.0 change within a step according to the input derivatives of the importer."""

from dataclasses import dataclass

import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from fmu_blocks import BLOCKS
from fmu_instance import Host
from rigidblocks import Block, Port, RobotPlant, planar2
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import EULER, HEUN, RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.native_fmu import native_fmu

SAME = 1e-12  # rounding of some tens of steps
ORDER = 0.15  # tolerance of the order fitted to the errors of three step sizes
ERROR = 3


@dataclass(frozen=True)
class Integral(Block):
    """Integral of the input, and twice the input."""

    inputs = (Port("u", (2,), "m/s", "input", 0.0),)
    outputs = (Port("x", (2,), "m", "integral"), Port("y", (2,), "m/s", "twice the input"))
    states = (Port("x", (2,), "m", "integral", 0.0),)

    def derivative(self, u):
        return {"x": u.u}

    def output(self, u):
        return {"y": 2.0 * u.u}


@dataclass(frozen=True)
class Hold(Block):
    """Sample-and-hold of the input."""

    sample_time: float | None = 1e-2
    inputs = (Port("u", (), "m", "input", 0.0),)
    outputs = (Port("z", (), "m", "held"),)
    sampled = (Port("z", (), "m", "held", 0.0),)

    def update(self, u):
        return {"z": u.u}


@pytest.fixture
def host(tmp_path):
    """Return a function that instantiates the FMU of a block, by default with RK4.

    The fixture frees the instances.
    """
    made = []

    def instance(block, **options):
        path = native_fmu(block, tmp_path / f"{len(made)}.fmu", **{"method": RK4} | options)
        made.append(Host(path, tmp_path))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


def give(instance, where, order, values):
    """Set the derivatives of this order for a slice of inputs."""
    references = list(range(where.start, where.stop))
    instance.fmu.setRealInputDerivatives(references, [order] * len(references), list(values))


@pytest.mark.slow
def test_co_simulation_fmu_declares_input_interpolation(host):
    assert host(Integral()).description.coSimulation.canInterpolateInputs


@pytest.mark.slow
@pytest.mark.parametrize("dt", [1e-3, 1e-1])
def test_integral_of_a_ramp_input_is_exact_with_one_input_derivative(host, dt):
    flat, slope = Memory(Integral()), np.array([3.0, -1.5])
    follows, holds = host(Integral(), h=0.02), host(Integral(), h=0.02)
    for instance in (follows, holds):
        instance.initialize()
    for k in range(20):
        follows.set(flat.u, slope * k * dt)
        holds.set(flat.u, slope * k * dt)
        give(follows, flat.u, 1, slope)
        for instance in (follows, holds):
            instance.fmu.doStep(k * dt, dt)
        t = (k + 1) * dt
        assert_allclose(follows.m[flat.where["x"]], slope * t**2 / 2, rtol=SAME)
        assert_allclose(
            follows.m[flat.where["y"]], 2 * slope * t, rtol=SAME
        )  # output values at the end of the step
        assert_allclose(
            holds.m[flat.where["x"]], slope * dt**2 * k * (k + 1) / 2, rtol=SAME, atol=SAME
        )
        assert_allclose(holds.m[flat.where["y"]], 2 * slope * k * dt, rtol=SAME)


@pytest.mark.slow
def test_integral_of_a_cubic_input_is_exact_with_three_input_derivatives(host):
    flat, instance = Memory(Integral()), host(Integral(), h=0.03)
    cubic = np.polynomial.Polynomial([0.5, -1.0, 2.0, 4.0])
    instance.initialize(0.2)
    for k in range(5):
        t = 0.2 + 0.1 * k
        instance.set(flat.u, [cubic(t)] * 2)
        for order in (3, 1, 2):
            give(instance, flat.u, order, [cubic.deriv(order)(t)] * 2)
        instance.fmu.doStep(t, 0.1)
    integral = cubic.integ()(0.7) - cubic.integ()(0.2)
    assert_allclose(instance.m[flat.where["x"]], integral, rtol=SAME)


@pytest.mark.slow
def test_input_is_constant_after_the_step_for_which_its_derivatives_were_set(host):
    flat, instance = Memory(Integral()), host(Integral())
    instance.initialize()
    give(instance, flat.u, 1, (2.0, 4.0))
    instance.fmu.doStep(0.0, 0.1)
    assert_allclose(instance.m[flat.u], (0.2, 0.4), rtol=SAME)
    instance.fmu.doStep(0.1, 0.1)
    assert_allclose(instance.m[flat.u], (0.2, 0.4), rtol=SAME)
    assert_allclose(instance.m[flat.where["x"]], (0.01 + 0.02, 0.02 + 0.04), rtol=SAME)


@pytest.mark.slow
def test_sampled_block_reads_the_extrapolated_input_at_the_sample_instant(host):
    flat, instance = Memory(Hold()), host(Hold())
    instance.initialize()
    give(instance, flat.u, 1, (3.0,))
    instance.fmu.doStep(0.0, 4e-2)  # the last of four samples is at the end
    assert_allclose(instance.m[flat.where["z"]], 0.12, rtol=SAME)


@pytest.mark.slow
def test_zero_input_derivatives_and_constant_inputs_give_bitwise_equal_results(host, rng):
    block = BLOCKS["planar2"]
    flat, follows, holds = Memory(block), host(block), host(block)
    for instance in (follows, holds):
        instance.initialize()
    for k in range(5):
        u = rng.normal(size=2)
        for instance in (follows, holds):
            instance.set(flat.u, u)
        give(follows, flat.u, 1, (0.0, 0.0))
        for instance in (follows, holds):
            instance.fmu.doStep(k * 4e-3, 4e-3)
    assert_array_equal(follows.m, holds.m)


@pytest.mark.slow
def test_saved_fmu_state_contains_the_input_derivatives(host):
    flat, instance = Memory(Integral()), host(Integral())
    instance.initialize()
    give(instance, flat.u, 1, (2.0, 4.0))
    content = instance.saved()
    instance.fmu.doStep(0.0, 0.1)
    expected = instance.m
    instance.restore(content)
    instance.fmu.doStep(0.0, 0.1)
    assert_array_equal(instance.m, expected)


# ---- a loop whose master provides the slope of the force ----

KP, KD, Q_REF, END = 40.0, 6.0, np.array([0.5, -0.3]), 0.2
ROBOT = Memory(RobotPlant(planar2(), q0=(0.3, -0.5), qd0=(1.0, 2.0)))
Q, QD, QDD, TAU = (ROBOT.where[name] for name in ("q", "qd", "qdd", "tau"))


def position_after_loop(plant, dt, with_slopes):
    """Return the position at END of a robot under PD control, with communication steps dt.

    The force is constant in each step, or extrapolated with its slope.
    """
    plant.fmu.reset()
    plant.initialize()
    for k in range(round(END / dt)):
        m = plant.m
        m[TAU] = KP * (Q_REF - m[Q]) - KD * m[QD]
        plant.set(TAU, m[TAU])
        if with_slopes:
            give(
                plant, TAU, 1, -KP * m[QD] - KD * NumpyEvaluator(ROBOT).output(m)[:2]
            )  # the block has qdd as its first output
        plant.fmu.doStep(k * dt, dt)
    return plant.m[Q]


def position_without_steps():
    """Return the position at END of the continuous closed loop, by a method of high order."""
    m = ROBOT.start()

    def rate(t, x):
        m[0], m[ROBOT.x] = t, x
        m[TAU] = KP * (Q_REF - x[:2]) - KD * x[2:]
        return NumpyEvaluator(ROBOT).derivative(m)

    return solve_ivp(
        rate, (0.0, END), m[ROBOT.x].copy(), method="DOP853", rtol=1e-13, atol=1e-13
    ).y[:2, -1]


@pytest.mark.slow
def test_input_derivatives_increase_the_coupling_order_from_one_to_two(host):
    plant, steps, exact = host(ROBOT.block), np.array([4e-3, 2e-3, 1e-3]), position_without_steps()
    assert QDD.start == ROBOT.y.start
    for with_slopes, order in ((False, 1), (True, 2)):
        errors = [np.abs(position_after_loop(plant, dt, with_slopes) - exact).max() for dt in steps]
        assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(order, abs=ORDER)


@pytest.mark.slow
@pytest.mark.parametrize("method", [EULER, HEUN, RK4], ids=lambda method: method.name)
def test_integration_error_with_input_derivatives_has_the_order_of_the_integrator(host, method):
    flat, steps, errors = Memory(Integral()), np.array([0.1, 0.05, 0.025]), []
    for h in steps:
        instance = host(Integral(), method=method, h=h)
        instance.initialize()
        give(
            instance, flat.u, 3, (6.0, 6.0)
        )  # u = t^3: only methods of at least fourth order integrate it exactly
        instance.fmu.doStep(0.0, 1.0)
        errors.append(abs(instance.m[flat.where["x"]][0] - 0.25))
    if method.order >= 4:
        assert max(errors) < SAME
    else:
        assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(
            method.order, abs=ORDER
        )


# ---- rejected calls ----

U = Memory(Integral()).u.start
SET = "fmi2SetRealInputDerivatives: "
REFUSED = {
    "of a state": (SET + "x[1] is not an input", ([U - 2], [1], [1.0])),
    "of nothing": (SET + "unknown variable 99; the last is 8", ([99], [1], [1.0])),
    "order 0": (
        SET + "the order of a derivative of u[1] must be from 1 to 3, not 0",
        ([U, U + 1], [0, 1], [1.0, 1.0]),
    ),
    "order 4": (
        SET + "the order of a derivative of u[2] must be from 1 to 3, not 4",
        ([U, U + 1], [1, 4], [1.0, 1.0]),
    ),
    "nan": (
        SET + "a derivative of u[2] must be finite, not nan",
        ([U, U + 1], [1, 1], [1.0, np.nan]),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_derivatives_are_rejected_and_change_no_state(host, case):
    instance = host(Integral())
    instance.initialize()
    before = instance.saved()
    message, arguments = REFUSED[case]
    with pytest.raises(FMICallException) as error:
        instance.fmu.setRealInputDerivatives(*arguments)
    assert error.value.status == ERROR
    assert instance.messages[-1][-1] == message
    assert instance.saved() == before


def test_fmu_rolls_back_a_step_with_an_infinite_extrapolated_input(host):
    instance, flat = host(Integral()), Memory(Integral())
    instance.initialize()
    give(instance, flat.u, 3, (1e308, 0.0))
    good = instance.m
    with pytest.raises(FMICallException, match="fmi2DoStep failed with status 2"):
        instance.fmu.doStep(0.0, 1e3)
    assert_array_equal(instance.m, good)
