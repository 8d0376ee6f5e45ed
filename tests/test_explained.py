"""Errors name the page of the documentation that explains them."""

import re
from pathlib import Path

import numpy as np
import pytest

from rigidblocks import RobotPlant, SimulationError, System, planar2, simulate
from rigidblocks.explained import PAGES
from rigidblocks.library import Gain
from rigidblocks.loops.assembly import AssemblyError, assemble
from rigidblocks.mechanisms import four_bar
from rigidblocks.tracing.trace import TraceError, trace

DOCS = Path(__file__).parents[1] / "docs"


def algebraic_loop():
    system = System()
    for name in ("one", "other"):
        system.add(name, Gain(0.5))
    system.connect("one.y", "other.u")
    system.connect("other.y", "one.u")
    _ = system.wiring().evaluation_order


def open_loop():
    stretched = four_bar().q0 + np.array([0.0, 40.0, 0.0])
    assemble(four_bar().model, stretched, fixed=range(3))


def question_of_a_traced_value():
    trace("f", lambda q: {"y": q if q[0] > 0 else -q}, {"q": (1,)})


def run_that_blows_up():
    system = System()
    system.add("arm", RobotPlant(planar2(), qd0=[3e7, -9e8]), start={"tau": [0, 0]})
    simulate(system, 10.0, 0.1, form="numpy", method="rk4", progress=False)


WRONG = {
    "algebraic loops": (algebraic_loop, ValueError),
    "loops that do not close": (open_loop, AssemblyError),
    "what a traced function may do": (question_of_a_traced_value, TraceError),
    "numbers that are not finite": (run_that_blows_up, SimulationError),
}


@pytest.mark.parametrize("topic", PAGES)
def test_an_error_names_its_page(topic):
    mistake, kind = WRONG[topic]
    with pytest.raises(kind) as error:
        mistake()
    assert error.value.__notes__ == [f"docs/{PAGES[topic]} is about {topic}"]


@pytest.mark.parametrize("topic", PAGES)
def test_the_page_is_there(topic):
    name, _, anchor = PAGES[topic].partition("#")
    heads = re.findall(r"^#+ (.*)$", (DOCS / name).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"\W+", "-", head.lower()).strip("-") for head in heads}
