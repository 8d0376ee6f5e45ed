"""Parts whose sample is written in C, in a system that is one block."""

import re
from io import StringIO

import numpy as np
import pytest

from rigidblocks import System, simulate
from rigidblocks.algebra.spatial import mcI, xlt
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.joint import Prismatic
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import model_header
from rigidblocks.library import Playback, RigidContactPlant, StateSpace
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Sphere
from rigidblocks.system.fused import FusedSystem


def hammer(q0):
    """A ball on a slide above the ground."""
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
    """One that falls, and is pushed at the ground by a force that goes to -12 N."""
    system = System()
    system.add("hammer", hammer(0.02))
    rest = StateSpace(A=[[-50.0]], B=[[1.0]], C=[[-300.0]], D=[[-6.0]])
    system.add("push", rest, start={"u": [1.0]})
    system.connect("push.y[1]", "hammer.tau[1]")
    return system


@pytest.mark.slow
def test_a_system_with_one_is_a_block_that_runs_as_its_parts():
    apart, fused = (
        simulate(hammered(), 0.4, 2e-3, form=form, progress=False) for form in ("compiled", "fused")
    )
    for name in (port.name for port in apart.ports):
        np.testing.assert_array_equal(fused[name], apart[name], err_msg=name)
    assert fused["hammer.f_contact"][-1, 0, 5] == pytest.approx(9.81 + 12.0, rel=1e-3)


@pytest.mark.slow
def test_one_beside_parts_with_the_same_table_is_a_block_too():
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


def test_two_of_them_have_names_of_their_own_in_c():
    text = model_header(hammers(), RK4, 2e-3)
    kinds = r"^(?:static inline [\w ]+ \*?|struct )(\w+)(?:\(.*\)$| \{)"
    names = set(re.findall(kinds, text, re.MULTILINE))
    first, second = ({one[3:] for one in names if one.startswith(f"b{k}_")} for k in (0, 1))
    assert len(first) > 100
    assert first == second
    others = {one for one in names if one[:3] not in ("b0_", "b1_")}
    assert others <= {"derivative", "initial", "output", "update"}


def test_that_one_of_them_is_in_it_is_told_where_it_is_to_be_traced():
    with pytest.raises(TypeError, match="is written in C and cannot be traced"):
        hammers().graph("update")
