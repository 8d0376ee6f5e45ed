"""Assembly of closed loops: closure, assembly branches and rejected inputs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from loop_models import LOOP_MODELS, four_bar, loop_model
from random_models import random_tree
from rigidblocks.dynamics import kinetic_energy
from rigidblocks.dynamics.loops import (
    AssemblyError,
    assemble,
    closure_errors,
    consistent_velocity,
    loop_constraints,
    position_constraints,
)
from rigidblocks.dynamics.loops.assembly import cut_tree
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import (
    Fixed,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Revolute,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import PlanarModel
from rigidblocks.spatial import spatial
from rigidblocks.spatial.planar import mcI, xlt, xpln

CLOSED = 1e-13  # rounding errors of transforms over a few bodies with lengths of about 1 m
LINKS = (0.8, 1.6, 1.1, 1.5)  # crank, coupler, rocker and base of `four_bar`


def crank_angles(theta, elbow):
    """Return the three relative angles of the four-bar at the crank angle theta.

    The triangle of coupler and rocker determines the angles.
    """
    a, b, c, d = LINKS
    x, y = d - a * np.cos(theta), -a * np.sin(theta)
    distance, direction = np.hypot(x, y), np.arctan2(y, x)
    beta = elbow * np.arccos((b * b + distance**2 - c * c) / (2 * b * distance))
    gamma = elbow * np.arccos((c * c + distance**2 - b * b) / (2 * c * distance))
    return np.array([theta, direction + beta - theta, -gamma - beta])


@pytest.mark.parametrize("name", LOOP_MODELS)
@pytest.mark.parametrize("distance", [0.1, 1.0])
def test_assembly_of_loops_converges_from_a_rough_initial_guess(name, distance):
    model, state = loop_model(name)
    guess = integrate(
        model, state.q, np.random.default_rng(3).uniform(-distance, distance, model.nv)
    )
    q = assemble(model, guess)
    assert max(map(max, closure_errors(model, q).values())) < CLOSED
    assert_allclose(position_constraints(model, q).delta, 0, atol=CLOSED)


def test_loop_assembly_keeps_a_configuration_that_satisfies_the_constraints():
    model, state = loop_model("three loops")
    assert_allclose(assemble(model, state.q), state.q, atol=CLOSED)


@pytest.mark.parametrize("theta", [-2.0, 0.4, 1.2, 3.0])
@pytest.mark.parametrize("elbow", [1, -1])
def test_loop_assembly_selects_the_branch_of_the_initial_guess(theta, elbow):
    exact = crank_angles(theta, elbow)
    rough = exact + np.array([0.0, 0.3, -0.3])
    assert_allclose(assemble(four_bar(), rough, fixed=["joint1"]), exact, atol=1e-12)


def test_loop_assembly_does_not_move_fixed_joints():
    guess = np.array([1.2, -0.4, -1.9])
    for fixed in (["joint1"], [0], ["joint1", 0]):
        assert assemble(four_bar(), guess, fixed)[0] == guess[0]
    # the variables of a loop joint depend on the tree variables and cannot be fixed
    with pytest.raises(
        ValueError,
        match=(
            r"unknown fixed joint 'support' in model '.*'; expected one of "
            r"joint1, joint2, joint3"
        ),
    ):
        assemble(four_bar(), guess, ["support"])


def test_error_of_a_failed_assembly_contains_the_nearest_configuration_and_open_loops():
    model = four_bar()
    far = LoopJoint(
        Revolute(), -1, 2, spatial.xlt([4.0, 0.0, 0.0]), spatial.xlt([1.1, 0.0, 0.0]), "support"
    )
    with pytest.raises(
        AssemblyError, match=r"do not close from this guess.*support by 0\.5 m and 0 rad"
    ) as caught:
        assemble(replace(model, loops=(far,)), np.array([0.1, 0.1, -0.1]))
    # the total length of the links is 3.5 m, but the support is at 4 m
    assert_allclose(caught.value.q, 0, atol=1e-5)
    angle, distance = caught.value.errors["support"]
    assert_allclose((angle, distance), (0, 0.5), atol=1e-9)


def test_error_of_a_failed_assembly_suggests_fixing_fewer_joints():
    with pytest.raises(AssemblyError, match=r"fix fewer joints \(now 3 degrees of freedom\)"):
        assemble(four_bar(), np.array([1.2, 0.4, -1.9]), ["joint1", "joint2", "joint3"])


def test_fixed_loop_joint_rotated_by_half_a_turn_is_reported_as_open():
    """A loop welds a bar on a revolute joint to the base.

    After half a turn the constraint error delta is 0 (RBDA Table 8.1).
    """
    model = random_tree(np.random.default_rng(2), (-1,), (Revolute(),))
    model = replace(
        model, loops=(LoopJoint(Fixed(), -1, 0, model.Xtree[0], spatial.identity(), "weld"),)
    )
    assert_allclose(position_constraints(model, np.array([np.pi])).delta, 0, atol=1e-15)
    assert_allclose(closure_errors(model, np.array([np.pi]))["weld"], (np.pi, 0), atol=1e-7)
    with pytest.raises(AssemblyError, match=r"weld by 0 m and 3\.14 rad"):
        assemble(model, np.array([np.pi]))
    assert_allclose(assemble(model, np.array([3.0])), 0, atol=CLOSED)


def test_loop_assembly_returns_unit_quaternions_and_closes_planar_loops():
    model, state = loop_model("floating loops")
    q = assemble(model, integrate(model, state.q, np.full(model.nv, 0.2)))
    for joint, place in zip(model.joint, model.q_slices, strict=True):
        assert_allclose(joint.normalize(q[place]), q[place], atol=1e-15)
    slider = slider_crank()
    q = assemble(slider, np.array([0.5, -0.7, 1.0]), fixed=["joint1"])
    # crank a = 0.3 m and rod b = 1 m: x = a cos + sqrt(b^2 - a^2 sin^2)
    assert_allclose(q[2], 0.3 * np.cos(0.5) + np.sqrt(1 - 0.09 * np.sin(0.5) ** 2), atol=1e-13)


def test_spanning_tree_with_cut_loops_has_the_degrees_of_freedom_of_all_joints():
    model, _ = loop_model("three loops")
    tree = cut_tree(model)
    assert tree.loops == ()
    assert tree.nb == model.nb + 3
    assert tree.nv == model.nv + Spherical().nv * 2 + Universal().nv


def test_loop_assembly_does_not_change_configurations_of_trees():
    tree, q = four_bar().spanning_tree, np.array([0.1, 0.2, 0.3])
    assert_array_equal(assemble(tree, q), q)
    assert_array_equal(consistent_velocity(tree, q, q, strict=True), q)
    assert closure_errors(tree, q) == {}


def test_loop_assembly_with_all_joints_fixed_only_checks_the_loop_closure():
    model = random_tree(np.random.default_rng(2), (-1,), (Revolute(),))
    model = replace(
        model, loops=(LoopJoint(Fixed(), -1, 0, model.Xtree[0], spatial.identity(), "weld"),)
    )
    assert_array_equal(assemble(model, np.zeros(1), [0]), 0)
    with pytest.raises(
        AssemblyError,
        match=r"weld by 0 m and 0\.2 rad; .* fix fewer joints \(now 1 degrees",
    ):
        assemble(model, np.array([0.2]), [0])


def test_loop_assembly_rejects_invalid_initial_guesses():
    with pytest.raises(
        ValueError, match="the configuration of joint2 of model 'four-bar' must be finite"
    ):
        assemble(four_bar(), [0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=r"q of model 'four-bar' needs shape \(3,\), not \(2,\)"):
        assemble(four_bar(), [0.0, 0.0])


# velocities


@pytest.mark.parametrize("name", LOOP_MODELS)
def test_velocities_that_open_a_loop_are_projected_with_a_warning(name):
    model, state = loop_model(name)
    wrong = state.qd + np.random.default_rng(1).uniform(-0.1, 0.1, model.nv)
    with pytest.warns(
        UserWarning, match="open its loops.*changed to the nearest consistent velocities"
    ):
        qd = consistent_velocity(model, state.q, wrong)
    K = position_constraints(model, state.q).K
    assert_allclose(K @ qd, 0, atol=1e-12)
    # in the inertia metric the velocity change is orthogonal to all motions that satisfy the
    # constraints
    for other in (state.qd, qd):
        two = kinetic_energy(model, state.q, qd - wrong + other)
        one = kinetic_energy(model, state.q, qd - wrong) + kinetic_energy(model, state.q, other)
        assert_allclose(two, one, rtol=1e-10)


def test_velocities_consistent_with_the_loop_constraints_give_no_warning():
    model, state = loop_model("planar loops")
    assert_allclose(
        consistent_velocity(model, state.q, state.qd, strict=True), state.qd, atol=1e-12
    )


def test_velocities_that_open_a_loop_are_rejected_in_strict_mode():
    model = four_bar()
    q = crank_angles(1.2, 1)
    with pytest.raises(
        ValueError,
        match=r"model 'four-bar' open its loops: support opens at .* \(rad/s, m/s\)",
    ):
        consistent_velocity(model, q, np.array([1.0, 0.0, 0.0]), strict=True)
    assert_array_equal(loop_constraints(model, q, np.zeros(3)).k, 0)


def slider_crank():
    """Return a crank of 0.3 m, a rod of 1 m and a slider along x.

    The loop joint connects the end of the rod to the slider.
    """
    link = tuple(mcI(m, [c, 0.0], 0.1) for m, c in ((1.0, 0.15), (1.0, 0.5), (2.0, 0.0)))
    joints = (PlanarRevolute(), PlanarRevolute(), PlanarPrismatic("x"))
    Xtree = (xpln(0.0, [0.0, 0.0]), xlt([0.3, 0.0]), xpln(0.0, [0.0, 0.0]))
    loop = LoopJoint(PlanarRevolute(), 2, 1, xlt([0.0, 0.0]), xlt([1.0, 0.0]), "pin")
    return PlanarModel(
        "slider-crank", (-1, 0, -1), joints, Xtree, link, np.array([0.0, -9.81]), loops=(loop,)
    )
