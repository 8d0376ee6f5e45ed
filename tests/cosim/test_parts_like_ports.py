"""Blocks that take the units and the shape of a port (`System.add(..., like="arm.q")`)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Model, Prismatic, Revolute, RobotPlant, System, box_inertia, simulate
from rigidblocks.library import (
    Constant,
    Gain,
    Hysteresis,
    Pulse,
    Sine,
    Step,
    Sum,
    UnitDelay,
    Waypoints,
)
from rigidblocks.spatial.spatial import xlt

UNITS = ("rad", "m")


@pytest.fixture
def system():
    """Return a system with a robot of a revolute and a prismatic joint."""
    whole = System()
    inertia = box_inertia((0.1, 0.1, 0.1), mass=1.0)
    model = Model(
        "arm", (-1, 0), (Revolute(), Prismatic()), (xlt(np.zeros(3)),) * 2, (inertia,) * 2
    )
    whole.add("arm", RobotPlant(model))
    return whole


@pytest.mark.parametrize(
    "block",
    [
        Sine(1.0, 0.5),
        Step(0.5),
        Pulse(0.1),
        Waypoints([0.0, 1.0], [[0.0, 0.0], [1.0, 0.2]]),
        Constant(0.3),
        Constant([0.3, 0.1]),
    ],
)
def test_like_option_copies_units_and_number_of_elements_of_a_port(system, block):
    system.add("source", block, like="arm.q")
    port = system.parts["source"].component.outputs[0]
    assert (port.units, port.shape) == (UNITS, (2,))
    slopes = [p for p in system.parts["source"].component.outputs if p.name == "slope"]
    assert all(p.units == ("rad/s", "m/s") for p in slopes)


@pytest.mark.slow
def test_scalar_values_of_a_source_apply_to_all_elements_of_the_port(system):
    system.add("source", Sine(0.4, 0.5), like="arm.q")
    system.add("error", Sum("+-"), like="arm.q")
    system.connect("source.y", "error.u1")
    system.connect("arm.q", "error.u2")
    result = simulate(system, 0.1, 0.01)
    expected = 0.4 * np.sin(np.pi * result.time)
    assert_allclose(result["source.y"], np.column_stack([expected] * 2), atol=1e-14)
    assert_allclose(result["error.y"], result["source.y"] - result["arm.q"], atol=1e-14)


@pytest.mark.parametrize(
    ("like", "unit", "shape"),
    [("arm.q[2]", "m", ()), ("arm.q[1:1]", ("rad",), (1,)), ("arm.tau", ("N.m", "N"), (2,))],
)
def test_like_option_accepts_port_elements_and_input_ports(system, like, unit, shape):
    system.add("delay", UnitDelay(0.01), like=like)
    port = system.parts["delay"].component.outputs[0]
    assert (port.unit, port.shape) == (unit, shape)


@pytest.mark.parametrize(
    ("block", "like", "message"),
    [
        (Sine(), "arm.tua", r"did you mean tau\?"),
        (Sine(), "leg.q", "unknown part 'leg'"),
        (Sine((1.0, 2.0, 3.0)), "arm.q", r"cannot have the signals of arm.q \(2, rad, m\)"),
        (Gain(np.eye(3), matrix=True), "arm.q", r"cannot have the signals of arm.q \(2, rad, m\)"),
        (Hysteresis(0.0, 1.0, 0.1), "arm.q", r"cannot have the signals of arm.q \(2, rad, m\)"),
        (Sine((1.0, 2.0)), "arm.q[2]", r"'y' of Sine has the shape \(2,\), not \(\)"),
        (Constant((1.0, 2.0)), "arm.q[2]", r"'y' of Constant has the shape \(2,\), not \(\)"),
        (RobotPlant, "arm.q", "requires a block with the parameter unit"),
    ],
)
def test_like_option_rejects_a_block_that_cannot_have_the_units_of_the_port(
    system, block, like, message
):
    if block is RobotPlant:
        block = system.parts["arm"].component
    with pytest.raises((KeyError, ValueError), match=message):
        system.add("new", block, like=like)
    assert list(system.parts) == ["arm"]


def test_like_option_that_is_not_a_port_name_is_rejected(system):
    port = system.parts["arm"].component.outputs[0]
    with pytest.raises(TypeError, match=r"must be a port name such as 'arm\.q'"):
        system.add("new", Sine(), like=port)


def test_error_messages_separate_units_by_commas(system):
    system.add("slow", Sine((1.0, 1.0, 1.0), unit="rad"))
    with pytest.raises(ValueError, match=r"slow.y \(3, rad\) to arm.tau \(2, N\.m, N\)"):
        system.connect("slow.y", "arm.tau")
    assert "rad, m" in system.draw()
    assert "rad, m" in repr(simulate(system, 0.02, 0.01))
