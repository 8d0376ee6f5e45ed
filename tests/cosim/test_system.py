"""Wiring: every mistake is refused where it is made, with a message that says what would be
right.
"""

import itertools
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
    planar3,
    simulate,
)
from rigidblocks.system.fmu import FmuError


@dataclass(frozen=True)
class Gain(Block):
    """An output that is k times the input."""

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
    """That the call raises with exactly this message."""
    with pytest.raises(error) as caught:
        call(*arguments, **keywords)
    assert caught.value.args[0] == message


def test_a_missing_part_or_port_is_refused_with_those_there_are():
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
        "'robot' is a part and no port of one; write 'robot.' and a port",
        system.connect, "robot", "pd.q",
    )  # fmt: skip
    refused(
        KeyError,
        "no part 'arm' for 'arm.q'; write part.port with one of the parts: command, pd, robot",
        system.connect, "arm.q", "pd.q",
    )  # fmt: skip


def test_different_shapes_or_units_are_refused():
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
        "cannot connect robot.q (2, rad) to pd.qd (2, rad/s): rad and rad/s have different "
        "dimensions",
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


def test_an_input_takes_one_connection():
    system = wired(parts())
    message = (
        "cannot connect robot.q to pd.q: pd.q is connected to robot.q already; what adds several "
        "sources is a block, such as Sum"
    )
    refused(ValueError, message, system.connect, "robot.q", "pd.q")


def test_an_input_left_open_without_a_start_value_is_refused():
    system = System()
    system.add("pd", PDController(kp=[1.0], kd=[1.0]), start={"q": [0.0]})
    refused(
        ValueError,
        "the input pd.q_ref is open: connect it or give it a start value",
        lambda: system.wiring().open_inputs,
    )


def test_an_algebraic_loop_is_named_port_by_port():
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


def test_a_name_is_taken_once_and_has_no_dot():
    system = wired(parts())
    must = "a name must be new, not empty and without dots; taken are: command, pd, robot"
    message = f"cannot add '{{}}': {must}"
    refused(ValueError, message.format("pd"), system.add, "pd", Gain())
    refused(ValueError, message.format("a.b"), system.add, "a.b", Gain())
    refused(ValueError, message.format(""), system.add, "", Gain())


def test_start_values_must_belong_to_a_port_be_of_its_shape_and_finite():
    system, robot = System(), RobotPlant(planar2())
    message = "'robot' has nothing to start with a value called x; it has: gravity, q, qd, tau"
    refused(KeyError, message, system.add, "robot", robot, start={"x": 1.0})
    message = "the start value of robot.q has shape (3,); it needs shape (2,)"
    refused(ValueError, message, system.add, "robot", robot, start={"q": [1.0, 2.0, 3.0]})
    message = "the start value of robot.q must be finite, not [nan, 0.0]"
    refused(ValueError, message, system.add, "robot", robot, start={"q": [np.nan, 0.0]})
    message = "the start value of robot.q takes numbers of shape (2,), not 'far'"
    refused(ValueError, message, system.add, "robot", robot, start={"q": "far"})
    assert not system.parts  # nothing half done


def test_each_part_steps_behind_those_whose_new_outputs_it_reads_at_once():
    order = wired(parts()).wiring().stepping_order
    assert order.index("pd") > order.index("robot")
    assert order.index("pd") > order.index("command")


def test_the_orders_do_not_depend_on_the_order_of_adding():
    blocks = parts()
    a = wired(blocks)
    b = wired(dict(reversed(blocks.items())))
    assert a.wiring().stepping_order == b.wiring().stepping_order


@pytest.mark.parametrize("name", ["a", "z"])
def test_who_watches_a_loop_of_parts_steps_behind_it_whatever_its_name(name):
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


def test_a_chain_of_gains_is_evaluated_from_its_source():
    system = System()
    for name in "cab":
        system.add(name, Gain())
    system.connect("c.y", "a.u")
    system.connect("a.y", "b.u")
    wiring = system.wiring()
    assert wiring.evaluation_order == wiring.stepping_order == ("c", "a", "b")


def test_what_is_no_part_is_refused():
    refused(
        TypeError,
        "a part is a block or the path of an FMU file, not a Model; its plant is a block: "
        "RobotPlant(model)",
        System().add,
        "robot",
        planar2(),
    )
    refused(
        TypeError,
        "a part is a block or the path of an FMU file, not the class Gain; a block of it is "
        "Gain(...)",
        System().add,
        "gain",
        Gain,
    )
    with pytest.raises(
        FmuError, match=r"no FMU; the plant .* described_plant\(load_model\('arm.urdf'"
    ):
        System().add("arm", "arm.urdf")
    refused(
        ValueError,
        "the system has no parts: add blocks or FMU files",
        lambda: System().wiring().evaluation_order,
    )


def test_near_names_are_suggested():
    system = wired(parts())
    for call, message in (
        (lambda: system.connect("robto.q", "pd.q"), r"robot.*\(did you mean robot\?\)"),
        (lambda: system.connect("robot.qddd", "pd.q"), r"\(did you mean qdd\?\)"),
        (lambda: system.add("x", Sine(), start={"amplitud": 1}), r"\(did you mean amplitude\?\)"),
    ):
        with pytest.raises(KeyError, match=message):
            call()


def test_a_part_takes_a_method_and_numbers():
    for arguments, message in (
        ({"method": 4}, r"a method is the name of one or an integrator, such as RK4, not 4"),
        ({"h": "1"}, r"h of 'x' must be a number, not '1'"),
        ({"time_limit": None}, r"time_limit of 'x' must be a number, not None"),
        ({"start": [1.0]}, r"start values of 'x' are given by name, .* not \[1.0\]"),
    ):
        with pytest.raises(TypeError, match=message):
            System().add("x", Sine(), **arguments)
    with pytest.raises(TypeError, match=r"connect takes names, such as 'robot.q', not 3"):
        wired(parts()).connect("robot.q", 3)
