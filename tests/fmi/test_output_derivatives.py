"""Time derivatives of outputs are exact in native FMUs of both versions."""

import ctypes
from dataclasses import dataclass
from functools import cache

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Model, FMU3Slave
from numpy.testing import assert_allclose

import library_blocks
from fmu_blocks import BLOCKS, FREE_BODIES
from fmu_instance import Host, Instance
from random_models import MODELS
from rigidblocks import (
    Block,
    ClosedLoopPlant,
    FusedSystem,
    PDController,
    Port,
    RobotPlant,
    Sine,
    System,
    export_fmu,
    planar2,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.kernels.event_indicators import Events, Tangents
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.robot.robots import four_bar, n_four_bar

SLAVES = {2: FMU2Slave, 3: FMU3Slave}
ROUNDING = 1e-12
DIFFERENCES = 1e-7  # error of differences of eighth order with the step STEP, relative
STEP = 1e-2
# weights of the central differences of eighth order at -4, ..., 4 steps
FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
SECOND = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])


def first_derivative(f):
    """Return the derivative of f(s) at s = 0, by central differences."""
    return sum(w * f(k * STEP) for k, w in enumerate(FIRST, -4) if w) / STEP


def second_derivative(f):
    """Return the second derivative of f(s) at s = 0, by central differences."""
    return sum(w * f(k * STEP) for k, w in enumerate(SECOND, -4)) / STEP**2


def time_derivatives(block, m):
    """Return the first and second time derivatives of the memory by differences; inputs are held.

    The path is the Taylor polynomial of second order of the solution.
    """
    memory = Memory(block)
    evaluator = NumpyEvaluator(memory)

    def path(s, x1, x2):
        moved = m.copy()
        moved[0] += s
        moved[memory.x] += s * x1 + s * s / 2 * x2
        return moved

    x1 = evaluator.derivative(m)
    x2 = first_derivative(lambda s: evaluator.derivative(path(s, x1, 0.0)))
    first, second = np.zeros(memory.size), np.zeros(memory.size)
    first[memory.x], second[memory.x] = x1, x2
    first[memory.y] = first_derivative(lambda s: evaluator.output(path(s, x1, x2)))
    second[memory.y] = second_derivative(lambda s: evaluator.output(path(s, x1, x2)))
    return first, second


@cache
def tangents(block):
    return Tangents(Events(TracedEvaluator(Memory(block))))


def output_derivatives(instance, place, order):
    """Return the derivatives of an output, which is a slice of the memory, of an FMU instance."""
    if instance.fmi == 2:
        references = list(range(place.start, place.stop))
        return np.array(
            instance.fmu.getRealOutputDerivatives(references, [order] * len(references))
        )
    values = (ctypes.c_double * (place.stop - place.start))()
    reference, orders = (ctypes.c_uint32 * 1)(place.start), (ctypes.c_int32 * 1)(order)
    instance.fmu.fmi3GetOutputDerivatives(
        instance.fmu.component, reference, 1, orders, values, len(values)
    )
    return np.array(values)


# ---- second derivatives along any direction ----

SINGULAR = {  # block and configuration of its continuous states
    "straight arm": (RobotPlant(planar2()), np.zeros(4)),
    "free and spherical joints at rest": (RobotPlant(FREE_BODIES), None),
    "mixed joints at zero": (RobotPlant(MODELS["mixed"]()), None),
    "four-bar": (ClosedLoopPlant(*four_bar()), None),
    "three bars in a row": (ClosedLoopPlant(*n_four_bar(2, 0.3, 1.0)), None),
    "kinematics at zero": (library_blocks.BLOCKS["kinematics"][0], None),
    "computed torque at zero": (library_blocks.BLOCKS["computed torque"][0], None),
    "sine": (Sine(1.0, 3.0), None),
}


def smooth_outputs(memory):
    """Return the indices of the computed outputs without the loop error, which has a kink at 0."""
    kinks = [memory.where[n] for n in ("loop_error",) if n in memory.where]
    left_out = {k for where in kinks for k in range(where.start, where.stop)}
    places = range(memory.y.start, memory.y.stop)
    return [k - memory.y.start for k in places if k not in left_out]


@pytest.mark.parametrize("name", SINGULAR)
def test_second_derivatives_of_outputs_match_finite_differences_at_regular_and_singular_poses(
    name, rng
):
    block, x = SINGULAR[name]
    memory = Memory(block)
    evaluator, graph = NumpyEvaluator(memory), tangents(block).second
    sides = np.ones(tangents(block).events.count)
    for pose in range(2):
        m, v = memory.start(), np.zeros(memory.size)
        if x is not None:
            m[memory.x] = x
        if pose:
            m[memory.x] += 0.3 * rng.normal(size=memory.x.stop - memory.x.start)
        for place in (memory.x, memory.u):
            v[place] = rng.normal(size=place.stop - place.start)
        v[0] = 1.0
        smooth = smooth_outputs(memory)
        exact = graph(np.concatenate([m, v, sides]))[smooth]
        quotient = second_derivative(lambda s: evaluator.output(m + s * v)[smooth])  # noqa: B023
        assert_allclose(exact, quotient, atol=DIFFERENCES * max(1.0, np.abs(quotient).max()))


# ---- FMUs ----


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_output_derivatives_of_a_plant_are_exact_at_the_start_and_after_steps(tmp_path, fmi):
    block, flat = BLOCKS["planar2"], Memory(BLOCKS["planar2"])
    path = native_fmu(block, tmp_path / "arm.fmu", method=RK4, fmi=fmi, output_derivatives=2)
    fmpy.extract(str(path), str(tmp_path / "arm"))
    host = Instance(lambda _name, _fmi: (path, tmp_path / "arm"), "arm", SLAVES[fmi])
    assert host.description.coSimulation.maxOutputDerivativeOrder == 2
    host.enter_initialization()
    host.set(flat.where["tau"], (0.4, -0.7))
    host.fmu.exitInitializationMode()
    for k in range(4):
        m = host.m
        expected = time_derivatives(block, m)
        for name in ("q", "qd", "qdd", "energy"):
            where = flat.where[name]
            for order in (1, 2):
                wanted = expected[order - 1][where]
                tolerance = DIFFERENCES * max(1.0, np.abs(wanted).max())
                assert_allclose(output_derivatives(host, where, order), wanted, atol=tolerance)
        # laws of mechanics, to rounding: dq/dt = qd, dqd/dt = qdd, dE/dt = tau . qd
        q, qd, qdd, tau, energy = (flat.where[one] for one in ("q", "qd", "qdd", "tau", "energy"))
        assert_allclose(output_derivatives(host, q, 1), m[qd], rtol=ROUNDING)
        assert_allclose(output_derivatives(host, q, 2), m[qdd], rtol=1e-10)
        assert_allclose(output_derivatives(host, energy, 1), m[tau] @ m[qd], rtol=1e-10)
        assert_allclose(output_derivatives(host, energy, 2), m[tau] @ m[qdd], rtol=1e-9)
        host.advance(0.05 * k, 0.05)
    host.fmu.terminate()
    assert np.isfinite(output_derivatives(host, flat.where["energy"], 1)).all()
    host.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_output_derivatives_match_finite_differences_of_the_outputs_of_later_steps(archive, fmi):
    # forward differences of two short steps of the same FMU
    flat, h = Memory(BLOCKS["servo"]), 1e-5
    host = Instance(archive, "servo", SLAVES[fmi])
    host.initialize()
    host.advance(0.0, 2.5e-3)  # between two samples of the controller
    force, q = flat.where["force"], flat.where["q"]
    first, second = (output_derivatives(host, force, order) for order in (1, 2))
    speed = output_derivatives(host, q, 1)
    rows = [host.m]
    for k in range(2):
        host.advance(2.5e-3 + k * h, h)
        rows.append(host.m)
    y = [row[force] for row in rows]
    assert_allclose(first, (-3 * y[0] + 4 * y[1] - y[2]) / (2 * h), rtol=1e-6)
    assert_allclose(second, (y[0] - 2 * y[1] + y[2]) / h**2, rtol=1e-3, atol=1e-3)
    assert_allclose(speed, rows[0][flat.where["qd"]], rtol=ROUNDING)
    host.fmu.freeInstance()


@dataclass(frozen=True)
class Product(Block):
    """Product of the input and the time, next to the integral of the input and its held value."""

    sample_time: float | None = 0.5
    inputs = (Port("u", (), "m", "input", 0.0),)
    outputs = (
        Port("y", (), "m.s", "product"),
        Port("x", (), "m.s", "integral"),
        Port("z", (), "m", "held value"),
        Port("root", (), "1", "root of the integral"),
    )
    states = (Port("x", (), "m.s", "integral", 0.0),)
    sampled = (Port("z", (), "m", "held value", 0.0),)

    def derivative(self, u):
        return {"x": u.u}

    def update(self, u):
        return {"z": u.u}

    def output(self, t, x, u):
        return {"y": t * u.u, "root": np.sqrt(x.x)}


@pytest.mark.slow
def test_output_derivatives_depend_on_the_input_derivatives_of_the_last_and_next_step(tmp_path):
    block = Product()
    path = native_fmu(block, tmp_path / "product.fmu")
    flat, host = Memory(block), Host(path, tmp_path)
    y, x, z, root, u = (flat.where[name] for name in ("y", "x", "z", "root", "u"))
    cubic = np.polynomial.Polynomial([0.5, -1.0, 2.0, 4.0])
    host.initialize(0.2)
    integral, product = cubic.integ() - cubic.integ()(0.2), cubic * np.polynomial.Polynomial([0, 1])
    t = 0.2
    for _ in range(3):
        host.set(u, cubic(t))
        for order in (1, 2, 3):
            host.fmu.setRealInputDerivatives([u.start], [order], [cubic.deriv(order)(t)])
        for when in ("before the step", "after the step"):
            for order in (1, 2):
                for place, curve in ((y, product), (x, integral)):
                    value = output_derivatives(host, place, order)
                    assert_allclose(value, curve.deriv(order)(t), rtol=1e-11, err_msg=when)
                assert output_derivatives(host, z, order) == 0.0
            if when == "before the step":
                host.advance(t, 0.1)
                t += 0.1
    host.advance(t, 0.1)  # the input is held, so its derivatives are zero
    assert output_derivatives(host, y, 1) == host.m[u]
    assert output_derivatives(host, y, 2) == output_derivatives(host, x, 2) == 0.0
    # the order of each variable is its own, and infinite derivatives are rejected
    both = host.fmu.getRealOutputDerivatives([y.start, x.start, y.start], [2, 1, 1])
    assert both == [0.0, host.m[u][0], host.m[u][0]]
    host.fmu.reset()
    host.initialize()  # the integral is zero
    with pytest.raises(FMICallException):
        output_derivatives(host, root, 1)
    assert host.messages[-1][-1].endswith("the derivative of root is not finite")
    host.fmu.freeInstance()


@pytest.mark.slow
def test_model_exchange_and_blocks_with_held_outputs_reject_output_derivatives(archive):
    host = Instance(archive, "sampled pd", FMU2Slave)
    assert not host.description.coSimulation.maxOutputDerivativeOrder
    host.initialize()
    with pytest.raises(FMICallException):
        host.fmu.getRealOutputDerivatives([Memory(BLOCKS["sampled pd"]).z.start], [1])
    assert host.messages[-1][-1] == "fmi2GetRealOutputDerivatives is not provided by this FMU"
    host.fmu.freeInstance()
    exchange, flat = Instance(archive, "planar2", FMU3Model), Memory(BLOCKS["planar2"])
    exchange.initialize()
    with pytest.raises(FMICallException):
        output_derivatives(exchange, flat.where["energy"], 1)
    assert exchange.messages[-1][-1] == "fmi3GetOutputDerivatives is not allowed in model exchange"
    exchange.fmu.freeInstance()


# ---- order that an FMU declares ----


def held_system():
    system = System()
    system.add("source", Sine(1.0, 1.0))
    return FusedSystem(system, 1e-2)


@pytest.mark.parametrize(
    ("block", "fmi2", "fmi3"),
    [
        (Sine(1.0, 2.0), 2, 2),
        (RobotPlant(planar2()), 1, 1),  # second derivatives would be much code
        (PDController((60.0,), (8.0,)), 2, 0),  # changes only with its inputs
        (BLOCKS["sampled pd"], 0, 0),
        (BLOCKS["bounded"], 2, 2),  # its outputs are states
        (held_system(), 0, 0),
        (library_blocks.BLOCKS["computed torque"][0], 1, 0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_default_output_derivative_order_is_2_for_small_fmus_and_0_for_held_outputs(
    block, fmi2, fmi3
):
    assert tangents(block).output_order(None, has_input_rates=True) == fmi2
    assert tangents(block).output_order(None, has_input_rates=False) == fmi3


def test_block_that_calls_c_functions_has_output_derivatives_up_to_first_order():
    """The stage is not traced, so only central differences are available."""
    block = library_blocks.BLOCKS["soft contact plant"][0]
    assert tangents(block).output_order(None, has_input_rates=True) == 1


def test_requested_output_derivative_order_is_used_or_rejected():
    arm, held = tangents(library_blocks.BLOCKS["kinematics"][0]), tangents(BLOCKS["sampled pd"])
    assert [arm.output_order(order, has_input_rates=True) for order in (0, 1, 2)] == [0, 1, 2]
    with pytest.raises(ValueError, match="must be from 0 to 2, not 3"):
        arm.output_order(3, has_input_rates=True)
    with pytest.raises(ValueError, match="up to order 0, not 1: no output changes between samples"):
        held.output_order(1, has_input_rates=True)


def test_python_fmu_rejects_output_derivatives(tmp_path):
    with pytest.raises(ValueError, match="does not support output_derivatives"):
        export_fmu(Sine(1.0, 1.0), tmp_path / "a.fmu", "python", output_derivatives=1)
