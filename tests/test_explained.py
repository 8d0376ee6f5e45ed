"""Links from errors to the documentation pages that explain them."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from foreign_fmu import foreign_fmu
from rigidblocks import (
    RobotPlant,
    SimulationError,
    System,
    load_model,
    load_system,
    planar2,
    simulate,
)
from rigidblocks.common.doc_links import PAGES
from rigidblocks.common.format_error import FormatError
from rigidblocks.cosim.graph.fmu_file import FmuError
from rigidblocks.dynamics.loops.assembly import AssemblyError, assemble
from rigidblocks.library import Gain
from rigidblocks.robot.robots import four_bar
from rigidblocks.tracing.trace import TraceError, trace

DOCS = Path(__file__).parents[1] / "docs"


def algebraic_loop(_):
    system = System()
    for name in ("one", "other"):
        system.add(name, Gain(0.5))
    system.connect("one.y", "other.u")
    system.connect("other.y", "one.u")
    _ = system.wiring().evaluation_order


def open_loop(_):
    stretched = four_bar().q0 + np.array([0.0, 40.0, 0.0])
    assemble(four_bar().model, stretched, fixed=range(3))


def question_of_a_traced_value(_):
    trace("f", lambda q: {"y": q if q[0] > 0 else -q}, {"q": (1,)})


def run_that_blows_up(_):
    system = System()
    system.add("arm", RobotPlant(planar2(), qd0=[3e7, -9e8]), start={"tau": [0, 0]})
    simulate(system, 10.0, 0.1, form="numpy", method="rk4", progress=False)


def fmu_that_fails(folder):
    system = System()
    fmu = foreign_fmu(folder / "bad.fmu", step="status = fmi2Error;")
    system.add("part", fmu, start={"u": 0.0})
    simulate(system, 0.1, 0.01, progress=False)


def file_that_is_no_robot(folder):
    (folder / "arm.urdf").write_text("<robot name='arm'><link/></robot>")
    load_model(folder / "arm.urdf")


def fmu_that_is_not_there(folder):
    System().add("part", folder / "no.fmu")


def file_that_is_no_system(folder):
    file = folder / "system.ssp"
    file.write_text("no archive")
    load_system(file)


WRONG = {
    "robot files": (file_that_is_no_robot, FormatError),
    "system files": (file_that_is_no_system, FormatError),
    "FMUs that fail": (fmu_that_fails, SimulationError),
    "algebraic loops": (algebraic_loop, ValueError),
    "loops that do not close": (open_loop, AssemblyError),
    "traced functions": (question_of_a_traced_value, TraceError),
    "numbers that are not finite": (run_that_blows_up, SimulationError),
}


@pytest.mark.parametrize("topic", PAGES)
def test_error_has_a_note_with_the_address_of_its_documentation_page(topic, tmp_path):
    mistake, kind = WRONG[topic]
    with pytest.raises(kind) as error:
        mistake(tmp_path)
    assert error.value.__notes__ == [f"docs/{PAGES[topic]} is about {topic}"]


def test_fmu_error_has_one_note_with_the_address_of_its_documentation_page(tmp_path):
    with pytest.raises(FmuError) as error:
        fmu_that_is_not_there(tmp_path)
    again = pickle.loads(pickle.dumps(error.value))  # errors from another process are pickled
    for one in (error.value, again):
        assert one.__notes__ == [f"docs/{PAGES['FMUs that fail']} is about FMUs that fail"]


@pytest.mark.parametrize("topic", PAGES)
def test_documentation_page_of_each_error_topic_exists(topic):
    name, _, anchor = PAGES[topic].partition("#")
    heads = re.findall(r"^#+ (.*)$", (DOCS / name).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"\W+", "-", head.lower()).strip("-") for head in heads}
