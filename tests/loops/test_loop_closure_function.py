"""Loop-closure functions: configurations as functions of independent variables (RBDA 8.11)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import four_bar
from rigidblocks.dynamics import bias_force, crba
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.dynamics.loops.constraint_solvers import SOLVERS, loop_function
from rigidblocks.dynamics.loops.constraints import loop_closure
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import LoopJoint, Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.model import Model
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Transform, identity, mcI, rx, xlt
from rigidblocks.tracing.trace import trace

# linear systems: the rounding error grows with the condition number of H (about 100) and with the
# square of the condition number of K (about 10)
RTOL = 1e-11
TRACED = 1e-10  # same operations in a different order


def equal(actual, expected, rtol=RTOL):
    assert_allclose(
        np.asarray(actual, float),
        expected,
        rtol=0,
        atol=rtol * max(1.0, np.max(np.abs(expected), initial=0)),
    )


@pytest.fixture(params=SOLVERS)
def method(request):
    return request.param


def triangle(l1=0.8, l2=0.5):
    """Return the two-link arm with a linear actuator of RBDA Figure 8.3.

    The bodies are the first link, the two actuator parts and the forearm.
    """

    def link(l):
        return mcI(1.0, [l / 2, 0.0, 0.0], np.diag([0.01, 0.03, 0.03]))

    # prismatic joint along the actuator: z of the joint is x of the cylinder
    along = Transform(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), np.zeros(3))
    rod = link(0.2).transform_to_parent(along.inverse())
    loop = LoopJoint(Revolute(), 0, 2, xlt([l2, 0.0, 0.0]), along.inverse())
    return Model(
        "actuator triangle",
        (-1, -1, 1, 0),
        (Revolute(), Revolute(), Prismatic(), Revolute()),
        (identity(), xlt([l1, 0.0, 0.0]), along, xlt([0.9, 0.0, 0.0])),
        (link(0.9), link(0.3), rod, link(0.7)),
        np.array([0.0, -9.81, 0.0]),
        loops=(loop,),
    )


def triangle_gamma(l1=0.8, l2=0.5):
    def gamma(y):
        d = np.sqrt(l1**2 + l2**2 - 2 * l1 * l2 * np.cos(y[0]))
        return np.array([y[0], np.arctan2(l2 * np.sin(y[0]), l2 * np.cos(y[0]) - l1), d, y[1]])

    return gamma


def test_derivatives_of_loop_closure_functions_match_the_example_of_rbda():
    # RBDA Eq 8.59 and 8.60, with a sample of these equations
    l1, l2 = 0.8, 0.5
    y, yd = np.array([0.5, 1.1]), np.array([0.7, -0.4])
    closure = loop_closure(triangle(), triangle_gamma(), y, yd)
    d, c, s = closure.q[2], np.cos(y[0]), np.sin(y[0])
    u1, u2 = (l2**2 - l1 * l2 * c) / d**2, l1 * l2 * s / d
    u3 = (l1**2 - l2**2) * l1 * l2 * s / d**4 * yd[0] ** 2
    u4 = (l1 * l2 * c - u2**2) / d * yd[0] ** 2
    assert_allclose(closure.q[1:3], [2.55568795, 0.43351350], atol=5e-9)
    equal(closure.G, np.array([[1, 0], [u1, 0], [u2, 0], [0, 1]]))
    equal(closure.g, [0, u3, u4, 0])
    equal(closure.qd, closure.G @ yd)


def test_accelerations_from_a_loop_closure_function_agree_with_the_loop_solvers(method):
    model = triangle()
    y, yd, tau = np.array([0.5, 1.1]), np.array([0.7, -0.4]), np.array([1.0, -2.0, 30.0, 0.5])
    closure = loop_closure(model, triangle_gamma(), y, yd)
    K, k, delta = loop_constraints(model, closure.q, closure.qd)
    equal(delta, np.zeros(5))
    equal(K @ closure.qd, np.zeros(5))
    equal(K @ closure.G, np.zeros((5, 2)))
    equal(K @ closure.g, k)
    H, f = crba(model, closure.q), tau - bias_force(model, closure.q, closure.qd)
    one, two = loop_function(H, f, K, k, closure), SOLVERS[method](H, f, K, k)
    equal(one.qdd, two.qdd, 1e-10)
    equal(K.T @ one.lam, K.T @ two.lam, 1e-10)


def test_derivatives_of_a_loop_closure_with_quaternions_match_finite_differences(rng):
    # gamma(y) prescribes position and orientation of a free body
    body = mcI(1.0, np.zeros(3), np.eye(3))
    model = Model(
        "led", (-1, 0), (SixDoF(), Spherical()), (identity(), xlt([1.0, 0, 0])), (body, body)
    )

    def half(a):
        return [np.cos(a / 2), np.sin(a / 2)]

    def gamma(y):
        c, s = half(y[0])
        e, r = half(y[1] * y[1])
        return np.array(
            [
                c,
                0.6 * s,
                0.8 * s,
                0.0 * s,
                np.sin(y[0]),
                y[0] * y[1],
                np.exp(y[1]),
                e,
                0.0 * r,
                r,
                0.0 * r,
            ]
        )

    y, yd, ydd = rng.uniform(0.2, 1, (3, 2))
    closure = loop_closure(model, gamma, y, yd)

    def motion_at(t):
        return loop_closure(model, gamma, y + t * yd + t * t / 2 * ydd, yd + t * ydd)

    h = 1e-4
    qdd = (motion_at(h).qd - motion_at(-h).qd) / (2 * h)
    equal(closure.G @ ydd + closure.g, qdd, 1e-7)
    led = integrate(model, closure.q, h * closure.qd)
    assert_allclose(led, motion_at(h).q, rtol=0, atol=h * h * 10)


def test_derivatives_of_closures_with_elementary_functions_match_finite_differences(rng):
    # finite differences of all functions of a dual number, on both branches of a selection
    body = mcI(1.0, np.zeros(3), np.eye(3))
    joints = (Revolute(),) * 4
    model = Model("arm", (-1, 0, 1, 2), joints, (Transform(rx(0.5), np.ones(3)),) * 4, (body,) * 4)

    def gamma(y):
        a, b = y
        one = select(
            less(a, b), np.arcsin(0.5 * a) + np.arccos(0.3 * b), np.arctan(a) / np.log(2.0 + b)
        )
        return np.array(
            [one, abs(b - 2.0) ** 3, np.tan(0.3 * a) - np.floor(b), np.arctan2(a, b * b)]
        )

    for y in (np.array([0.3, 0.9]), np.array([0.9, 0.3])):
        yd = rng.uniform(-1, 1, 2)
        closure = loop_closure(model, gamma, y, yd)
        h = 1e-5
        G = np.array([(gamma(y + h * e) - gamma(y - h * e)) / (2 * h) for e in np.eye(2)]).T
        equal(closure.G, G, 1e-8)
        rate = (
            loop_closure(model, gamma, y + h * yd, yd).qd
            - loop_closure(model, gamma, y - h * yd, yd).qd
        ) / (2 * h)
        equal(closure.g, rate, 1e-8)


def test_traced_and_numpy_values_of_loop_closure_functions_agree():
    model = triangle()

    def motion(y, yd):
        return loop_closure(model, triangle_gamma(), y, yd)._asdict()

    graph = trace("closure", motion, {"y": (2,), "yd": (2,)})
    y, yd = np.array([0.5, 1.1]), np.array([0.7, -0.4])
    expected = np.concatenate([value.ravel() for value in motion(y, yd).values()])
    equal(graph(np.concatenate([y, yd])), expected)


def test_loop_closure_function_of_another_model_is_rejected():
    with pytest.raises(
        ValueError, match=r"of model 'four-bar' must return q \(3,\), not shape \(4,\)"
    ):
        loop_closure(four_bar(), triangle_gamma(), np.ones(2), np.ones(2))
    with pytest.raises(
        ValueError, match="yd must have the length of y: y has 2 elements, yd has 1"
    ):
        loop_closure(triangle(), triangle_gamma(), np.ones(2), np.ones(1))
