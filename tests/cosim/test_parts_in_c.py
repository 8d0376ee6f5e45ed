"""Parts whose sampled update is written in C, in a system that is one block."""

import re
from io import StringIO

import numpy as np
import pytest

from rigidblocks import System, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import RigidContactPlant
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import Playback, StateSpace
from rigidblocks.robot.joints import Prismatic
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Plane, Sphere
from rigidblocks.spatial.spatial import mcI, xlt
from rigidblocks.tracing.ccode import c_text


def hammer(q0):
    """Return a ball on a vertical slide above the ground."""
    ball = mcI(1.0, np.zeros(3), 0.004 * np.eye(3))
    model = Model(
        "hammer",
        (-1,),
        (Prismatic((0, 0, 1)),),
        (xlt((0, 0, 0.1)),),
        (ball,),
        contact=((Sphere(0.1),),),
    )
    return RigidContactPlant(model, (Plane(),), q0=[q0])


def hammered():
    """Return a falling ball with a downward force that converges to -12 N."""
    system = System()
    system.add("hammer", hammer(0.02))
    rest = StateSpace(A=[[-50.0]], B=[[1.0]], C=[[-300.0]], D=[[-6.0]])
    system.add("push", rest, start={"u": [1.0]})
    system.connect("push.y[1]", "hammer.tau[1]")
    return system


@pytest.mark.slow
def test_fused_system_with_a_part_in_c_matches_the_results_of_separate_parts():
    apart, fused = (
        simulate(hammered(), 0.4, 2e-3, form=form, progress=False) for form in ("compiled", "fused")
    )
    for name in (port.name for port in apart.ports):
        np.testing.assert_array_equal(fused[name], apart[name], err_msg=name)
    assert fused["hammer.f_contact"][-1, 0, 5] == pytest.approx(9.81 + 12.0, rel=1e-3)


@pytest.mark.slow
def test_fused_system_with_two_parts_in_c_matches_the_results_of_separate_parts():
    system = System()
    for name in ("one", "other"):
        system.add(name, hammer(0.02))
        file = StringIO("time,force\n0,0\n0.1,-20\n0.2,-10\n")
        system.add(f"push_{name}", Playback(file, ("force",), "N"))
        system.connect(f"push_{name}.y", f"{name}.tau")
    apart, fused = (
        simulate(system, 0.3, 2e-3, form=form, progress=False) for form in ("compiled", "fused")
    )
    assert fused["other.f_contact"][-1, 0, 5] == pytest.approx(9.81 + 10.0, rel=1e-3)
    np.testing.assert_array_equal(fused["other.q"], apart["other.q"])


def hammers():
    system = System()
    for name in ("one", "other"):
        system.add(name, hammer(0.05))
    return TracedEvaluator(Memory(FusedSystem(system, 2e-3)))


@pytest.mark.slow
def test_generated_c_names_of_two_parts_are_distinct():
    text = model_header(hammers(), RK4, 2e-3)
    kinds = r"^(?:static inline [\w ]+ \*?|struct )(\w+)(?:\(.*\)$| \{)"
    names = set(re.findall(kinds, text, re.MULTILINE))
    first, second = ({one[3:] for one in names if one.startswith(f"b{k}_")} for k in (0, 1))
    assert len(first) > 100
    assert first == second
    others = {one for one in names if one[:3] not in ("b0_", "b1_")}
    shared = set(re.findall(kinds, c_text("kernel/workspace.h"), re.MULTILINE))
    assert "take_workspace" in shared
    assert others <= {"derivative", "initial", "output", "update"} | shared


def test_tracing_of_a_part_that_is_written_in_c_is_rejected():
    with pytest.raises(TypeError, match="is a C function and cannot be traced"):
        hammers().graph("update")
