"""Connections of a system: errors for invalid parts and connections name a remedy."""

import itertools
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import (
    Block,
    PDController,
    Port,
    RobotPlant,
    Sine,
    System,
    library,
    planar2,
    simulate,
)
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.robot.robots import planar3


@dataclass(frozen=True)
class Gain(Block):
    """y = k u."""

    k: float = 2.0

    @property
    def inputs(self):
        return (Port("u"),)

    @property
    def outputs(self):
        return (Port("y"),)

    def output(self, u):
        return {"y": self.k * u.u}


def refused(error, message, call, *arguments, **keywords):
    """Check that the call raises with exactly this message."""
    with pytest.raises(error) as caught:
        call(*arguments, **keywords)
    assert caught.value.args[0] == message


def test_error_for_an_unknown_part_or_port_lists_the_known_names():
    system = wired(parts())
    refused(
        KeyError,
        "'robot' has no output 'qq'; it has: energy, q, qd, qdd (did you mean q?)",
        system.connect,
        "robot.qq",
        "pd.q",
    )
    refused(
        KeyError,
        "'pd' has no input 'tau', which is an output; it has: q, q_ref, qd, qd_ref",
        system.connect,
        "robot.q",
        "pd.tau",
    )
    refused(
        KeyError,
        "'robot' needs a port name; write one of: robot.energy, robot.q, robot.qd, robot.qdd, "
        "robot.tau",
        system.connect, "robot", "pd.q",
    )  # fmt: skip
    refused(
        KeyError,
        "unknown part 'arm' in 'arm.q'; write part.port with one of the parts: command, pd, robot",
        system.connect, "arm.q", "pd.q",
    )  # fmt: skip


def test_connection_of_ports_with_different_shapes_or_units_is_rejected():
    system = System()
    system.add("arm", RobotPlant(planar3()))
    system.add("pd", PDController(kp=[1.0, 1.0], kd=[1.0, 1.0]))
    refused(
        ValueError,
        "cannot connect arm.q (3, rad) to pd.q (2, rad)",
        system.connect,
        "arm.q",
        "pd.q",
    )
    system.add("robot", RobotPlant(planar2()))
    refused(
        ValueError,
        "cannot connect robot.q (2, rad) to pd.qd (2, rad/s): the units rad and rad/s have "
        "different dimensions",
        system.connect,
        "robot.q",
        "pd.qd",
    )
    refused(
        ValueError,
        "cannot connect robot.energy (J) to pd.qd (2, rad/s)",
        system.connect,
        "robot.energy",
        "pd.qd",
    )


def test_second_connection_of_an_input_is_rejected():
    system = wired(parts())
    message = (
        "cannot connect robot.q to pd.q: pd.q is already connected to robot.q; to add several "
        "sources, use a block such as Sum"
    )
    refused(ValueError, message, system.connect, "robot.q", "pd.q")


class Fork(Block):
    """Block with a scalar input u and a vector y."""

    inputs = (Port("u"),)
    outputs = (Port("y", (2,)),)

    def output(self, u):
        return {"y": np.array([u.u, u.u])}


def test_input_stays_connected_after_failed_and_successful_insertions_of_a_part():
    system = System()
    for name in ("a", "b"):
        system.add(name, Gain())
    system.connect("a.y", "b.u")
    taken = "cannot connect a.y to b.u: b.u is already connected to "
    with pytest.raises(ValueError, match=r"cannot connect fork\.y"):
        system.insert("fork", Fork(), "a.y", "b.u")
    with pytest.raises(ValueError, match=f"{taken}a.y"):
        system.connect("a.y", "b.u")
    system.insert("middle", Gain(), "a.y", "b.u")
    with pytest.raises(ValueError, match=f"{taken}middle.y"):
        system.connect("a.y", "b.u")
    with pytest.raises(ValueError, match=f"{taken}middle.y"):
        deepcopy(system).connect("a.y", "b.u")
    system.connections = []
    system.connect("a.y", "b.u")


def test_unconnected_input_without_a_start_value_is_rejected():
    system = System()
    system.add("pd", PDController(kp=[1.0], kd=[1.0]), start={"q": [0.0]})
    refused(
        ValueError,
        "the input pd.q_ref is open: connect it or give it a start value",
        lambda: system.wiring().open_inputs,
    )


def test_error_for_an_algebraic_loop_lists_its_ports():
    system = System()
    system.add("a", Gain())
    system.add("b", Gain())
    system.connect("a.y", "b.u")
    system.connect("b.y", "a.u")
    with pytest.raises(ValueError, match=r"algebraic loop") as caught:
        _ = system.wiring().evaluation_order
    loop = caught.value.args[0].partition(": ")[2].split(" -> ")
    assert loop[0] == loop[-1]
    assert set(loop) == {"a.y", "a.u", "b.y", "b.u"}
    for source, target in itertools.pairwise(loop):
        assert (source, target) in {("a.y", "b.u"), ("b.u", "b.y"), ("b.y", "a.u"), ("a.u", "a.y")}


def test_invalid_or_duplicate_part_name_is_rejected():
    system = wired(parts())
    must = "a part name must be new, not empty and without dots; used names: command, pd, robot"
    message = f"cannot add '{{}}': {must}"
    refused(ValueError, message.format("pd"), system.add, "pd", Gain())
    refused(ValueError, message.format("a.b"), system.add, "a.b", Gain())
    refused(ValueError, message.format(""), system.add, "", Gain())


def test_invalid_start_values_of_a_part_are_rejected():
    system, robot = System(), RobotPlant(planar2())
    message = "'robot' has no start value x; it has: gravity, q, qd, tau"
    refused(KeyError, message, system.add, "robot", robot, start={"x": 1.0})
    message = "the start value of robot.q has shape (3,); it needs shape (2,)"
    refused(ValueError, message, system.add, "robot", robot, start={"q": [1.0, 2.0, 3.0]})
    message = "the start value of robot.q must be finite, not [nan, 0.0]"
    refused(ValueError, message, system.add, "robot", robot, start={"q": [np.nan, 0.0]})
    message = "the start value of robot.q takes real numbers, not strings: 'far'"
    refused(ValueError, message, system.add, "robot", robot, start={"q": "far"})
    assert not system.parts  # a rejected part is not added


def test_parts_with_direct_feedthrough_step_after_their_sources():
    order = wired(parts()).wiring().stepping_order
    assert order.index("pd") > order.index("robot")
    assert order.index("pd") > order.index("command")


def test_stepping_order_does_not_depend_on_the_order_of_adding_parts():
    blocks = parts()
    a = wired(blocks)
    b = wired(dict(reversed(blocks.items())))
    assert a.wiring().stepping_order == b.wiring().stepping_order


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a", "z"])
def test_part_that_reads_signals_of_a_control_loop_steps_after_the_loop(name):
    system = wired(parts())
    system.add(name, library.Gain((2.0, -1.0), unit="rad", unit_in="rad"))
    system.add(f"{name}{name}", library.Gain(3.0, unit="rad", unit_in="rad"))
    system.connect("robot.q", f"{name}.u")
    system.connect(f"{name}.y[2]", f"{name}{name}.u")
    order = system.wiring().stepping_order
    assert order.index("robot") < order.index(name) < order.index(name * 2)
    result = simulate(system, 0.05, 1e-3)
    assert_array_equal(result[f"{name}.y"], result["robot.q"] * (2.0, -1.0))
    assert_array_equal(result[f"{name}{name}.y"], 3.0 * result[f"{name}.y"][:, 1])


def test_chain_of_gains_is_evaluated_in_the_order_of_its_connections():
    system = System()
    for name in "cab":
        system.add(name, Gain())
    system.connect("c.y", "a.u")
    system.connect("a.y", "b.u")
    wiring = system.wiring()
    assert wiring.evaluation_order == wiring.stepping_order == ("c", "a", "b")


def test_object_that_is_neither_block_nor_fmu_is_rejected_as_a_part():
    refused(
        TypeError,
        "a part is a block or the path of an FMU file, not a Model; use its plant, the "
        "block RobotPlant(model)",
        System().add,
        "robot",
        planar2(),
    )
    refused(
        TypeError,
        "a part is a block or the path of an FMU file, not the class Gain; create a block by "
        "Gain(...)",
        System().add,
        "gain",
        Gain,
    )
    with pytest.raises(FmuError, match=r"not an FMU; use described_plant\(load_model\('arm.urdf'"):
        System().add("arm", "arm.urdf")
    refused(
        ValueError,
        "the system has no parts: add blocks or FMU files",
        lambda: System().wiring().evaluation_order,
    )


def test_error_for_an_unknown_part_or_port_suggests_a_similar_name():
    system = wired(parts())
    for call, message in (
        (lambda: system.connect("robto.q", "pd.q"), r"robot.*\(did you mean robot\?\)"),
        (lambda: system.connect("robot.qddd", "pd.q"), r"\(did you mean qdd\?\)"),
        (lambda: system.add("x", Sine(), start={"amplitud": 1}), r"\(did you mean amplitude\?\)"),
    ):
        with pytest.raises(KeyError, match=message):
            call()


def test_invalid_part_options_are_rejected():
    for arguments, message in (
        (
            {"method": 4},
            r"method must be an integrator, such as RK4, or the name of a method, not 4",
        ),
        ({"h": "1"}, r"h of 'x' must be a number, not '1'"),
        ({"time_limit": "1"}, r"time_limit of 'x' must be a number, not '1'"),
        ({"start": [1.0]}, r"start values of 'x' must be a mapping by name, .* not \[1.0\]"),
    ):
        with pytest.raises(TypeError, match=message):
            System().add("x", Sine(), **arguments)
    with pytest.raises(TypeError, match=r"connect needs port names, such as 'robot.q', not 3"):
        wired(parts()).connect("robot.q", 3)
