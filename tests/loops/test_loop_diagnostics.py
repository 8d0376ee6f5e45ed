"""Loop clusters, mobility and loop diagnostics (RBDA 8.9, 8.10; Spencer 2004, 3.1)."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from integration import states
from loop_models import DEPENDENT, INDEPENDENT, LOOP_MODELS, four_bar, loop_model
from random_models import random_inertia, random_transform
from rigidblocks.dynamics.loops import closed_loop_dynamics, loop_constraints
from rigidblocks.dynamics.loops.diagnostics import (
    Cluster,
    constraint_names,
    constraint_rank,
    constraint_structure,
    loop_clusters,
    loop_diagnostics,
    mobility,
    null_space_by_clusters,
    path_signs,
    redundant_constraints,
    singular_passages,
)
from rigidblocks.robot.joints import (
    Cylindrical,
    LoopJoint,
    PlanarRevolute,
    Reversed,
    Revolute,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.spatial.linear_algebra import null_space
from rigidblocks.spatial.planar import mcI, xlt
from rigidblocks.tracing.trace import trace

RTOL = 1e-11


def equal(actual, expected, rtol=RTOL):
    assert_allclose(
        np.asarray(actual, float),
        expected,
        rtol=0,
        atol=rtol * max(1.0, np.max(np.abs(expected), initial=0)),
    )


@pytest.fixture(params=LOOP_MODELS)
def name(request):
    return request.param


# clusters


def book_topology(rng):
    """Return a model with the graph of RBDA Figure 8.1: 20 bodies and 4 loops, numbered from 0."""
    parent = (0, 1, 2, 3, 4, 2, 6, 7, 8, 9, 10, 9, 1, 13, 13, 2, 16, 14, 18, 18)
    loops = [(4, 6), (5, 7), (11, 12), (19, 20)]
    return Model(
        "Figure 8.1",
        tuple(p - 1 for p in parent),
        (Spherical(),) * 20,
        tuple(random_transform(rng) for _ in parent),
        tuple(random_inertia(rng) for _ in parent),
        loops=tuple(
            LoopJoint(Revolute(), p - 1, s - 1, random_transform(rng), random_transform(rng))
            for p, s in loops
        ),
    )


def test_loop_clusters_match_the_example_of_rbda(rng):
    found = loop_clusters(book_topology(rng))
    book = [((1, 2), range(3, 8)), ((3,), range(10, 13)), ((4,), (19, 20))]
    assert found == tuple(
        Cluster(tuple(l - 1 for l in loops), tuple(j - 1 for j in joints)) for loops, joints in book
    )


def test_constraint_jacobian_has_one_block_per_loop_cluster(rng):
    model = book_topology(rng)
    q = np.concatenate([joint.random(rng) for joint in model.joint])
    K = loop_constraints(model, q, np.zeros(model.nv)).K
    structure = constraint_structure(model)
    assert not np.any(K[~structure])
    allowed = np.zeros_like(structure)
    for loops, joints in loop_clusters(model):
        for l in loops:
            for j in joints:
                allowed[model.constraint_slices[l], model.v_slices[j]] = True
    assert not np.any(structure & ~allowed)


def test_signs_of_bodies_in_a_loop_are_the_difference_of_the_two_paths_from_the_base(name):
    # eps_lj = eps_sj - eps_pj (RBDA Eq 8.20)
    model, _ = loop_model(name)

    def way(i):
        row = np.zeros(model.nb, dtype=int)
        while i >= 0:
            row[i], i = 1, model.parent[i]
        return row

    expected = [way(loop.successor) - way(loop.predecessor) for loop in model.loops]
    assert np.array_equal(path_signs(model), expected)


def test_null_space_computed_by_loop_clusters_satisfies_all_constraints(rng):
    model = book_topology(rng)
    q, qd = (
        np.concatenate([joint.random(rng) for joint in model.joint]),
        rng.uniform(-1, 1, model.nv),
    )
    K, k, _ = loop_constraints(model, q, qd)
    whole, parts = null_space(K, k), null_space_by_clusters(model, K, k)
    equal(K @ parts.G, np.zeros((model.nc, parts.G.shape[1])))
    equal(K @ parts.g, k)
    assert parts.G.shape == whole.G.shape
    equal(parts.G[list(parts.independent)], np.eye(parts.G.shape[1]))
    idle = [
        j
        for j in range(model.nb)
        if j not in {j for cluster in loop_clusters(model) for j in cluster.joints}
    ]
    assert {3 * j + k for j in idle for k in range(3)} <= set(parts.independent)


# mobility


def variable_mobility():
    """Return the mechanism of RBDA Figure 8.2a.

    A crank, a base and two arms, each with a coupler and a rocker, form two rhombi with sides of
    1 m. If the crank is on the base line, the arms rotate freely.
    """
    link = mcI(1.0, [0.5, 0.0], 0.1)
    end, base = xlt([1.0, 0.0]), xlt([0.0, 0.0])
    loops = tuple(LoopJoint(PlanarRevolute(), coupler, coupler + 2, end, end) for coupler in (1, 2))
    joints, Xtree = (PlanarRevolute(),) * 5, (base, end, end, end, end)
    return PlanarModel(
        "variable mobility", (-1, 0, 0, -1, -1), joints, Xtree, (link,) * 5, loops=loops
    )


def rhombs(theta, first, second):
    """Return the configuration for a crank angle.

    Both arms follow the crank, unless the crank is on the base line; then `first` and `second` are
    the angles of the arms.
    """
    if theta:
        return np.array([theta, -theta, -theta, theta, theta])
    return np.array([0.0, first, second, first, second])


@pytest.mark.parametrize(
    ("q", "rank"),
    [(rhombs(0.7, 0, 0), 4), (rhombs(0.0, 0.5, 2.0), 3), (rhombs(0.0, 0.0, np.pi), 2)],
)
def test_mobility_of_a_mechanism_with_variable_mobility_matches_rbda(q, rank):
    model = variable_mobility()
    equal(loop_constraints(model, q, np.zeros(5)).delta, np.zeros(4))
    assert constraint_rank(model, q) == rank
    assert mobility(model, q) == 5 - rank


def test_spatial_four_bar_has_three_redundant_constraints():
    # RBDA 8.10: n = 3, nc = 5, r = 2, mobility 1
    model, s = loop_model("spatial four-bar")
    assert (model.nv, model.nc, constraint_rank(model, s.q), mobility(model, s.q)) == (3, 5, 2, 1)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_mobility_of_loops_without_redundant_constraints_equals_the_mobility_formula(name):
    # n_tot - 6 N_L in space and n_tot - 3 N_L in the plane (RBDA Eq 8.53, 8.54)
    model, s = loop_model(name)
    freedoms = model.nv + sum(loop.joint.nv for loop in model.loops)
    assert mobility(model, s.q) == freedoms - len(model.algebra.zero()) * len(model.loops)


# diagnostics


def test_loop_diagnostics_report_errors_rank_and_singular_values_of_the_constraints(name, rng):
    model, s = loop_model(name)
    qd = s.qd + rng.uniform(-1, 1, model.nv)
    K, k, delta = loop_constraints(model, s.q, qd)
    d = loop_diagnostics(model, s.q, qd)
    sizes = np.linalg.svd(K)[1]
    equal(d.position_error, np.linalg.norm(delta))
    equal(d.velocity_error, np.linalg.norm(K @ qd))
    equal(d.singular_values, sizes)
    assert d.rank == constraint_rank(model, s.q)
    assert d.mobility == mobility(model, s.q)
    r = constraint_rank(model, s.q)
    equal(d.effective_condition, sizes[0] / sizes[r - 1])
    assert d.indicator == pytest.approx(abs(np.linalg.svd(K)[0][:, r - 1] @ k), abs=1e-10)
    if r == len(sizes):
        equal(d.condition, np.linalg.cond(K))
    else:
        assert d.condition > 1e12


def test_traced_and_numpy_values_of_loop_diagnostics_agree():
    model, s = loop_model("spatial four-bar")

    def diagnostics(q, qd):
        return {
            key: np.asarray(value)
            for key, value in loop_diagnostics(model, q, qd)._asdict().items()
        }

    graph = trace("diagnostics", diagnostics, {"q": (3,), "qd": (3,)})
    outputs = dict(
        zip(graph.outputs, np.split(graph(np.concatenate([s.q, s.qd])), ends(graph)), strict=True)
    )
    for key, expected in diagnostics(s.q, s.qd).items():
        if key != "condition":  # its value consists of rounding errors
            equal(outputs[key], np.ravel(expected), 1e-10)
    assert outputs["condition"][0] > 1e12


def ends(graph):
    return np.cumsum([int(np.prod(shape)) for shape in graph.outputs.values()])[:-1]


def test_constraint_names_contain_the_joint_and_the_blocked_motion():
    names = constraint_names(four_bar(), np.array([1.2, -0.4, -1.9]))
    assert names == (
        "support: rotation about x",
        "support: rotation about y",
        "support: translation along x",
        "support: translation along y",
        "support: translation along z",
    )
    planar = variable_mobility()
    assert constraint_names(planar, rhombs(0.7, 0, 0)) == tuple(
        f"loop{l}: translation along {axis}" for l in (1, 2) for axis in "xy"
    )
    ball = four_bar(Universal())
    assert constraint_names(ball, np.array([1.2, -0.4, -1.9]))[0].startswith(
        "support: rotation about "
    )


def test_redundant_constraints_of_a_planar_loop_are_the_out_of_plane_constraints():
    model, s = loop_model("spatial four-bar")
    redundant = redundant_constraints(model, s.q)
    assert [r.name for r in redundant] == [
        "support: rotation about x", "support: rotation about y", "support: translation along z"
    ]  # fmt: skip
    assert all(r.implied_by == () for r in redundant)
    assert str(redundant[0]) == "support: rotation about x: always satisfied by the spanning tree"


def test_redundant_constraint_report_identifies_the_loop_that_implies_the_constraint():
    model, s = loop_model("doubled")
    redundant = redundant_constraints(model, s.q)
    assert len(redundant) == 3
    twins = {"loop1", "again"}
    for r in redundant:
        assert {r.name.split(":")[0], *(other.split(":")[0] for other in r.implied_by)} == twins
        assert r.name in str(r)
        assert "implied by" in str(r)


@pytest.mark.parametrize("name", DEPENDENT)
def test_removing_redundant_constraints_does_not_change_the_rank(name):
    model, s = loop_model(name)
    rows = [r.row for r in redundant_constraints(model, s.q)]
    kept = np.setdiff1d(np.arange(model.nc), rows)
    K = loop_constraints(model, s.q, s.qd).K
    assert len(kept) == np.linalg.matrix_rank(K[kept]) == np.linalg.matrix_rank(K, tol=1e-9)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_loops_without_dependent_constraints_have_no_redundant_constraints(name):
    model, s = loop_model(name)
    assert redundant_constraints(model, s.q) == ()


def test_cylindrical_loop_joint_removes_a_redundant_constraint():
    # RBDA 8.10 replaces the revolute joint by a sphere in a cylinder; the test uses a cylindrical
    # joint
    model, s = loop_model("spatial four-bar")
    slack = replace(model, loops=(replace(model.loops[0], joint=Reversed(Cylindrical())),))
    assert len(redundant_constraints(slack, s.q)) == 2
    one, two = (closed_loop_dynamics(m, s.q, s.qd, s.tau).qdd for m in (model, slack))
    equal(one, two, 1e-10)


# singular configurations


def parallelogram():
    link = [mcI(l, [l / 2, 0.0], l**3 / 12) for l in (1.0, 2.0, 1.0)]
    loop = LoopJoint(PlanarRevolute(), -1, 2, xlt([2.0, 0.0]), xlt([1.0, 0.0]))
    Xtree = (xlt([0.0, 0.0]), xlt([1.0, 0.0]), xlt([2.0, 0.0]))
    return PlanarModel(
        "parallelogram", (-1, 0, 1), (PlanarRevolute(),) * 3, Xtree, link, loops=(loop,)
    )


def test_flat_configurations_of_a_parallelogram_are_counted_as_singular_passages():
    # the crank starts at -1 rad and rotates with 1 rad/s: flat at t = 1 s and t = 1 s + pi s
    times = np.arange(0.0, 6.0, 0.05)
    theta = times - 1.0
    q = np.array([theta, -theta, theta + np.pi]).T
    model = parallelogram()
    assert (
        np.max([np.abs(loop_constraints(model, qi, np.zeros(3)).delta).max() for qi in q]) < 1e-12
    )
    passages = singular_passages(model, times, q, np.tile([1.0, -1.0, 1.0], (len(q), 1)))
    assert [passage.crossed for passage in passages] == [True, True]
    assert_allclose([passage.t for passage in passages], [1.0, 1.0 + np.pi], atol=2e-3)
    assert str(passages[0]).startswith("passed through a singular configuration at t = 1")
    assert (
        max(passage.indicator for passage in passages) < 1e-2
    )  # the accelerations stay small at the passages


def test_sample_exactly_at_a_singular_configuration_is_counted_as_one_passage():
    times = np.linspace(0.0, 2.0, 21)
    theta = times - 1.0
    theta[10] = 0.0
    passages = singular_passages(parallelogram(), times, np.array([theta, -theta, theta + np.pi]).T)
    assert len(passages) == 1
    assert passages[0].crossed
    assert passages[0].t == pytest.approx(1.0, abs=1e-6)
    assert passages[0].ratio < 1e-12
    assert np.isnan(passages[0].indicator)


def test_singular_configuration_at_the_start_of_a_motion_is_not_counted_as_a_passage():
    times = np.linspace(0.0, 1.0, 11)
    passages = singular_passages(parallelogram(), times, np.array([times, -times, times + np.pi]).T)
    assert [(passage.t, passage.crossed) for passage in passages] == [(0.0, False)]
    assert str(passages[0]) == "approached a singular configuration at t = 0 s"


def test_reversal_near_a_singular_configuration_is_not_counted_as_a_passage():
    times = np.linspace(0.0, 2.0, 41)
    theta = 0.02 + (times - 1.0) ** 2
    assert (
        singular_passages(parallelogram(), times, np.array([theta, -theta, theta + np.pi]).T) == ()
    )


def test_detection_of_singular_passages_rejects_unequal_numbers_of_times_and_samples():
    with pytest.raises(
        ValueError,
        match="needs one time for each configuration; it has 2 times and 3 configurations",
    ):
        singular_passages(parallelogram(), [0.0, 1.0], np.zeros((3, 3)))


def test_loop_diagnostics_of_a_model_without_loops_are_rejected():
    tree = replace(parallelogram(), loops=())
    for ask in (
        lambda: loop_diagnostics(tree, np.zeros(3), np.zeros(3)),
        lambda: singular_passages(tree, [], []),
    ):
        with pytest.raises(ValueError, match="'parallelogram' has no loop constraints"):
            ask()
    assert redundant_constraints(tree, np.zeros(3)) == ()
    assert mobility(tree, np.zeros(3)) == 3


def five_bar():
    """Return the five-bar of Spencer 2004, 3.2.

    The link lengths are 1, 1.5, 1.5 and 1 m, the masses 2, 3, 3 and 2 kg, and the supports are 1 m
    apart.
    """
    lengths, masses, inertias = (1.0, 1.5, 1.5, 1.0), (2.0, 3.0, 3.0, 2.0), (1.0, 2.0, 2.0, 1.0)
    link = [mcI(m, [l / 2, 0.0], I) for l, m, I in zip(lengths, masses, inertias, strict=True)]
    loop = LoopJoint(PlanarRevolute(), -1, 3, xlt([1.0, 0.0]), xlt([1.0, 0.0]))
    Xtree = [xlt([l, 0.0]) for l in (0.0, *lengths[:3])]
    joints, gravity = (PlanarRevolute(),) * 4, np.array([0.0, -9.81])
    return PlanarModel("five-bar", (-1, 0, 1, 2), joints, Xtree, link, gravity, loops=(loop,))


@pytest.mark.slow
def test_five_bar_passes_through_singular_configurations_at_the_times_of_spencer_2004():
    # run 2: at 0.651 s and 1.854 s
    model, h = five_bar(), 1e-3
    theta = np.array([2 * np.pi / 3, np.arccos(2 / 3), -np.arccos(2 / 3), -2 * np.pi / 3])
    x = np.concatenate([np.diff(theta, prepend=0.0), np.zeros(4)])

    def motion(q, qd):
        return {"xd": np.concatenate([qd, closed_loop_dynamics(model, q, qd, np.zeros(4)).qdd])}

    derivative = trace("five_bar", motion, {"q": (4,), "qd": (4,)})
    q, qd = np.split(states(derivative, x, h, 2000)[::4], 2, axis=1)
    passages = singular_passages(model, 4 * h * np.arange(len(q)), q, qd)
    assert [passage.crossed for passage in passages] == [True, True]
    assert_allclose([passage.t for passage in passages], [0.651, 1.854], atol=1e-3)
