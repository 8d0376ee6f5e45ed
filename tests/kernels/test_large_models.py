import numpy as np
import pytest
from numpy.testing import assert_allclose

from pinocchio_trees import in_pinocchio
from random_models import joints_of_all_types, random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.dynamics.model_reduction import equivalent
from rigidblocks.kernels.compiled_dynamics import (
    MOST_BODIES_IN_A_LINE,
    body_sweeps,
    compiled_dynamics,
    straight_line,
)
from rigidblocks.robot.joints import Helical, Revolute
from rigidblocks.robot.robots import auto_tree
from rigidblocks.tracing.ccode import WrittenFunction
from rigidblocks.tracing.compiled_functions import CompiledFunction

# relative to the largest element, times the condition number of H for solutions with H
RTOL = 1e-10
FUNCTIONS = {"aba": aba, "rnea": rnea, "crba": crba}


def close(actual, expected, condition=1.0):
    assert_allclose(
        actual, expected, rtol=0, atol=RTOL * condition * max(1.0, np.max(np.abs(expected)))
    )


def motion(state, algorithm):
    if algorithm == "crba":
        return (state.q,)
    return state.q, state.qd, state.tau if algorithm == "aba" else state.qdd


def all_joints(seed):
    """Return a tree with a third of all joint types; three consecutive seeds have all types."""
    joints = list(joints_of_all_types(np.random.default_rng(1)).values())[seed % 3 :: 3]
    rng = np.random.default_rng(seed)
    rng.shuffle(joints)
    model = random_tree(rng, random_parents(rng, len(joints)), tuple(joints))
    return model, random_state(rng, model)


def code(model, algorithm):
    """Return the lines of C code without the tables, which contain the model data."""
    return [
        line
        for line in body_sweeps(equivalent(model), algorithm).text.splitlines()
        if not line.startswith("static const")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FUNCTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_c_code_with_loops_over_bodies_matches_numpy_for_all_joint_types(algorithm, seed):
    model, state = all_joints(seed)
    arguments = motion(state, algorithm)
    condition = np.linalg.cond(crba(model, state.q)) if algorithm == "aba" else 1.0
    expected = FUNCTIONS[algorithm](model, *arguments)
    close(
        CompiledFunction(body_sweeps(equivalent(model), algorithm))(*arguments), expected, condition
    )


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FUNCTIONS)
def test_c_code_with_loops_over_bodies_matches_the_results_of_straight_line_code(algorithm, rng):
    model = random_tree(rng, random_parents(rng, 12), (Revolute(), Helical(0.3), Revolute()) * 4)
    state = random_state(rng, model)
    arguments = motion(state, algorithm)
    condition = np.linalg.cond(crba(model, state.q)) if algorithm == "aba" else 1.0
    line = CompiledFunction(straight_line(model, algorithm))
    close(
        CompiledFunction(body_sweeps(equivalent(model), algorithm))(*arguments),
        line(*arguments),
        condition,
    )


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FUNCTIONS)
def test_results_of_compiled_dynamics_do_not_depend_on_previous_calls(algorithm, rng):
    model = auto_tree(25, 2.0, 0.7)
    function = compiled_dynamics(model, algorithm)
    first, other = (motion(random_state(rng, model), algorithm) for _ in range(2))
    result = function(*first)
    function(*other)
    assert np.array_equal(function(*first), result)


@pytest.mark.parametrize(
    ("algorithm", "most"), [*((name, 2500) for name in FUNCTIONS), ("daba", 4500), ("drnea", 4500)]
)
@pytest.mark.parametrize("bf", [1.0, 2.0])
def test_size_of_c_code_with_loops_over_bodies_does_not_depend_on_the_number_of_bodies(
    algorithm, most, bf
):
    small, large = (code(auto_tree(nb, bf, 0.7), algorithm) for nb in (100, 200))
    assert len(small) == len(large)
    general = random_tree(np.random.default_rng(1), (-1, *range(29)), (Revolute(),) * 30)
    assert len(code(general, algorithm)) < most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nb", "looping"), [(MOST_BODIES_IN_A_LINE, False), (MOST_BODIES_IN_A_LINE + 1, True)]
)
def test_number_of_bodies_selects_straight_line_code_or_loops_over_bodies(nb, looping):
    graph = compiled_dynamics(auto_tree(nb), "rnea").graph
    assert isinstance(graph, WrittenFunction) == looping


@pytest.mark.slow
def test_inertia_matrix_of_a_large_tree_is_exactly_zero_between_different_branches(rng):
    # two arms of 11 joints: H has no entry between them (RBDA 6.4)
    model = random_tree(rng, (-1, -1, *range(20)), (Revolute(),) * 22)
    H = compiled_dynamics(model, "crba")(random_state(rng, model).q)
    same = np.arange(22) % 2
    assert np.array_equal(H != 0, same[:, None] == same)
    assert np.array_equal(H, H.T)


def test_unknown_name_of_a_compiled_dynamics_algorithm_is_rejected():
    with pytest.raises(
        ValueError, match="unknown compiled algorithm 'abba'; expected one of rnea, crba, aba"
    ):
        compiled_dynamics(auto_tree(2), "abba")


@pytest.mark.slow
def test_compiled_and_numpy_inverse_dynamics_of_1000_bodies_agree(rng):
    model = auto_tree(1000, 1.0, 0.7)
    state = random_state(rng, model)
    close(
        compiled_dynamics(model, "rnea")(state.q, state.qd, state.qdd),
        rnea(model, state.q, state.qd, state.qdd),
    )


@pytest.mark.slow
@pytest.mark.parametrize("bf", [1.0, 2.0])
def test_forward_dynamics_of_1000_bodies_satisfies_the_equation_of_motion(bf, rng):
    model = auto_tree(1000, bf)
    state = random_state(rng, model)
    qdd = compiled_dynamics(model, "aba")(state.q, state.qd, state.tau)
    tau = compiled_dynamics(model, "rnea")(state.q, state.qd, qdd)
    # H is largest in the stretched tree: torques there for accelerations of this magnitude
    still = np.zeros(1000)
    scale = np.max(rnea(model.with_gravity([0.0, 0.0, 0.0]), still, still, np.abs(qdd)))
    assert_allclose(tau, state.tau, rtol=0, atol=RTOL * scale)


# comparison with Pinocchio


def depth_first_parents(rng, nb):
    """Return random parents of a tree that is numbered depth first."""
    parents = [-1]
    for i in range(1, nb):
        p = i - 1
        while p >= 0 and rng.random() < 0.3:
            p = parents[p]
        parents.append(p)
    return tuple(parents)


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(4))
def test_dynamics_of_60_bodies_match_pinocchio(seed):
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
    rng = np.random.default_rng(seed)
    model = random_tree(rng, depth_first_parents(rng, 60), (Revolute(),) * 60)
    state = random_state(rng, model)
    other, data = in_pinocchio(pin, model)
    close(
        compiled_dynamics(model, "rnea")(state.q, state.qd, state.qdd),
        pin.rnea(other, data, state.q, state.qd, state.qdd),
    )
    condition = np.linalg.cond(crba(model, state.q))
    expected = pin.aba(other, data, state.q, state.qd, state.tau)
    close(compiled_dynamics(model, "aba")(state.q, state.qd, state.tau), expected, condition)
