from itertools import groupby

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.dynamics import crba
from rigidblocks.robot.joints import Revolute
from rigidblocks.robot.robots import auto_tree, planar2, planar3, planar_n

RTOL = 1e-12  # a few rounding errors


def test_planar_robots_have_equal_links_along_x():
    robot = planar_n(4)
    assert robot.parent == (-1, 0, 1, 2)
    assert robot.joint == (Revolute(),) * 4
    assert robot.gravity.tolist() == [0, 0, -9.81]
    assert [X.r.tolist() for X in robot.Xtree] == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]
    for link in robot.inertia:
        assert link.m == 1.0
        assert_allclose(link.h, [0.5, 0, 0])
        assert_allclose(link.I, np.diag([0.01, 1 / 3, 1 / 3]), rtol=RTOL)


def test_planar2_and_planar3_match_planar_n_with_two_and_three_links():
    assert (planar2().nb, planar3().nb) == (2, 3)
    q = np.array([0.3, -0.7, 1.1])
    assert_allclose(crba(planar3(), q), crba(planar_n(3), q))


def test_planar_robot_without_links_is_rejected():
    with pytest.raises(ValueError, match="a planar robot needs at least 1 link, not 0"):
        planar_n(0)


# autoTree of the spatial_v1 documentation; its bodies start at 1 with base 0,
# rigidblocks bodies start at 0 with base -1


def children(parent):
    return [len(list(group)) for _, group in groupby(parent[1:])]


@pytest.mark.parametrize(
    ("bf", "parent"),
    [
        (1, (-1, 0, 1, 2, 3, 4, 5, 6)),
        (2, (-1, 0, 0, 1, 1, 2, 2, 3)),
        (3, (-1, 0, 0, 0, 1, 1, 1, 2)),
        (1.5, (-1, 0, 1, 1, 2, 3, 3, 4)),
    ],
)
def test_auto_tree_numbers_bodies_in_breadth_first_order(bf, parent):
    assert auto_tree(8, bf).parent == parent


@pytest.mark.parametrize("bf", [1, 1.25, 1.5, 2, 2.5, 3.75, 4])
def test_average_number_of_children_in_auto_tree_is_the_branching_factor(bf):
    nb = 101
    full = children(auto_tree(nb, bf).parent)[:-1]  # the last parent may have fewer children
    assert set(full) <= {int(np.floor(bf)), int(np.ceil(bf))}
    assert abs(np.mean(full) - bf) <= 1 / len(full)


def test_base_of_auto_tree_has_exactly_one_child():
    for bf in (1, 1.5, 2, 7):
        assert auto_tree(20, bf).parent.count(-1) == 1


def test_auto_tree_bodies_are_thin_walled_cylinders_on_the_x_axis():
    # about the centre: m r^2 along the axis, m (r^2 / 2 + l^2 / 12) across the axis, r = l / 20
    taper = 0.8
    tree = auto_tree(5, 2, 0.3, taper)
    for i, body in enumerate(tree.inertia):
        l, m = taper**i, taper ** (3 * i)
        across = m * ((l / 20) ** 2 / 2 + l**2 / 12) + m * (l / 2) ** 2
        assert_allclose(body.m, m, rtol=RTOL)
        assert_allclose(body.h, [m * l / 2, 0, 0], rtol=RTOL)
        assert_allclose(body.I, np.diag([m * (l / 20) ** 2, across, across]), rtol=RTOL, atol=1e-16)


def test_auto_tree_child_axis_is_at_the_parent_end_and_rotated_by_the_skew_angle():
    skew, taper = 0.4, 0.9
    tree = auto_tree(6, 2, skew, taper)
    assert_allclose(tree.Xtree[0].matrix(), np.eye(6))
    for i in range(1, 6):
        X = tree.Xtree[i]
        assert_allclose(X.r, [taper ** tree.parent[i], 0, 0], rtol=RTOL)
        # z axis of the child in parent coordinates
        assert_allclose(X.E.T @ [0, 0, 1], [0, -np.sin(skew), np.cos(skew)], rtol=RTOL)


def test_auto_tree_skew_of_90_degrees_gives_a_child_axis_of_exactly_minus_y():
    assert (auto_tree(2, 1, np.pi / 2).Xtree[1].E.T @ [0, 0, 1]).tolist() == [0, -1, 0]


def test_auto_tree_without_skew_is_a_planar_mechanism():
    q = np.linspace(-1, 1, 7)
    tree = auto_tree(7, 2)
    for i in range(7):
        assert_allclose(tree.Xtree[i].E, np.eye(3))
    assert np.all(np.isfinite(np.linalg.cholesky(crba(tree, q))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nb": 0}, "the number of bodies must be an integer of at least 1, not nb = 0"),
        (
            {"nb": 3, "bf": 0.5},
            "auto_tree needs bf >= 1, taper > 0 and a finite skew, not bf = 0.5, taper = 1.0, "
            "skew = "
            "0.0",
        ),
        (
            {"nb": 3, "taper": 0},
            "auto_tree needs bf >= 1, taper > 0 and a finite skew, not bf = 1.0, taper = 0, skew = "
            "0.0",
        ),
        (
            {"nb": 3, "skew": np.nan},
            "auto_tree needs bf >= 1, taper > 0 and a finite skew, not bf = 1.0, taper = 1.0, "
            "skew = "
            "nan",
        ),
    ],
)
def test_invalid_auto_tree_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        auto_tree(**arguments)
