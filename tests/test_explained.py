"""Errors name the page of the documentation that explains them."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from foreign_fmu import foreign_fmu
from rigidblocks import RobotPlant, SimulationError, System, load_model, planar2, simulate
from rigidblocks.explained import PAGES
from rigidblocks.formats.refusal import FormatError
from rigidblocks.library import Gain
from rigidblocks.loops.assembly import AssemblyError, assemble
from rigidblocks.mechanisms import four_bar
from rigidblocks.system.fmu_file import FmuError
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


WRONG = {
    "what is read of files": (file_that_is_no_robot, FormatError),
    "FMUs that fail": (fmu_that_fails, SimulationError),
    "algebraic loops": (algebraic_loop, ValueError),
    "loops that do not close": (open_loop, AssemblyError),
    "what a traced function may do": (question_of_a_traced_value, TraceError),
    "numbers that are not finite": (run_that_blows_up, SimulationError),
}


@pytest.mark.parametrize("topic", PAGES)
def test_an_error_names_its_page(topic, tmp_path):
    mistake, kind = WRONG[topic]
    with pytest.raises(kind) as error:
        mistake(tmp_path)
    assert error.value.__notes__ == [f"docs/{PAGES[topic]} is about {topic}"]


def test_an_fmu_that_cannot_be_used_names_its_page_once(tmp_path):
    with pytest.raises(FmuError) as error:
        fmu_that_is_not_there(tmp_path)
    again = pickle.loads(pickle.dumps(error.value))  # as it comes from another process
    for one in (error.value, again):
        assert one.__notes__ == [f"docs/{PAGES['FMUs that fail']} is about FMUs that fail"]


@pytest.mark.parametrize("topic", PAGES)
def test_the_page_is_there(topic):
    name, _, anchor = PAGES[topic].partition("#")
    heads = re.findall(r"^#+ (.*)$", (DOCS / name).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"\W+", "-", head.lower()).strip("-") for head in heads}
