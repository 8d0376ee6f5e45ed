"""The linearly implicit integrators: their stability on linear problems, and stiff plants."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.scalar import select
from rigidblocks.block.block import Block, Port
from rigidblocks.block.implicit import integrate_implicitly
from rigidblocks.block.integrators import (
    INTEGRATORS,
    LINEARLY_IMPLICIT_EULER,
    RK4,
    LinearlyImplicit,
)
from rigidblocks.block.memory import Memory
from rigidblocks.block.stepper import StepError
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import PDController, RobotPlant
from rigidblocks.robots import planar2
from rigidblocks.system.continuous import ContinuousSystem
from rigidblocks.system.system import System
from rigidblocks.tracing.trace import trace

ORDER = 0.1  # how far the fitted slope of log error over log step may be from the order
EXACT = 1e-12  # some ten operations on numbers of size one
IMPLICIT = [method for method in INTEGRATORS.values() if method.implicit is not None]
METHODS = pytest.mark.parametrize("method", IMPLICIT, ids=lambda method: method.name)
STEPPERS = pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
ROOT = 1 - 1 / np.sqrt(2)
# of a method of order p and s stages with one gamma: the numerator is (1 - gamma z)^s e^z up to
# z^p, where it ends
STABILITY = {
    "linearly implicit euler": lambda z: 1 / (1 - z),
    "ros2": lambda z: (1 + (1 - 2 * ROOT) * z) / (1 - ROOT * z) ** 2,
    "rodas3": lambda z: (1 - z + z**3 / 6) / (1 - z / 2) ** 4,
    # six stages, and one power more
    "rodas4p": lambda z: (
        (1 - z / 2 - z**2 / 16 + z**3 / 24 + 5 * z**4 / 768 - 7 * z**5 / 3072) / (1 - z / 4) ** 6
    ),
}


def linear_step(method, A, x, h=1.0):
    """One step on dx/dt = A x."""
    A = np.asarray(A, dtype=float)
    return integrate_implicitly(
        method, lambda _, x: A @ x, lambda *_: (A, np.zeros(len(A))), 0.0, np.array(x), h
    )


# linear problems


@METHODS
@pytest.mark.parametrize(
    "z", [-1e-3, -0.5, -2.0, -50.0, -1e6, 0.3, 0.5j, 3j, 1e3j, -1 + 4j, -200 + 10j]
)
def test_step_on_a_linear_problem_is_the_stability_function(method, z):
    # the plane of complex numbers is turned and stretched by a + b i as by [[a, -b], [b, a]]
    a, b = np.real(z), np.imag(z)
    expected = STABILITY[method.name](complex(z))
    actual = complex(*linear_step(method, [[a, -b], [b, a]], [1.0, 0.0]))
    assert abs(actual - expected) < EXACT * max(1.0, abs(expected))


@METHODS
def test_nothing_that_decays_grows_at_any_step(method):
    for angle in np.linspace(np.pi / 2, np.pi, 40):  # the left half plane with its border
        for size in np.logspace(-3, 8, 60):
            z = size * np.exp(1j * angle)
            a, b = min(z.real, 0.0), z.imag
            assert np.hypot(*linear_step(method, [[a, -b], [b, a]], [1.0, 0.0])) < 1 + EXACT


@METHODS
def test_what_decays_fast_is_at_rest_after_one_step_and_does_not_ring(method):
    x, sizes = np.array([1.0]), []
    for _ in range(4):
        x = linear_step(method, [[-1e6]], x)
        sizes.append(abs(x[0]))
    assert sizes[0] < 1e-5
    assert np.all(np.array(sizes[1:]) < 1e-5 * np.array(sizes[:-1]))
    # an explicit method would be at (1e6)^4 / 24, the trapezoidal rule at -1 for ever


@METHODS
def test_solution_that_a_stiff_force_holds_is_followed_at_steps_of_any_stiffness(method):
    # Prothero and Robinson: dx/dt = l (x - sin t) + cos t stays on sin t
    errors = []
    for stiffness in (-1e3, -1e5, -1e7):
        x, h = np.array([0.0]), 0.05
        for k in range(40):
            x = integrate_implicitly(
                method,
                lambda t, x, s=stiffness: s * (x - np.sin(t)) + np.cos(t),
                lambda t, _, s=stiffness: (np.array([[s]]), np.array([-s * np.cos(t) - np.sin(t)])),
                k * h,
                x,
                h,
            )
        errors.append(abs(x[0] - np.sin(40 * h)))
    assert max(errors) < h**2  # of first order would be h, and an explicit step not finite


# stiff plants


@dataclass(frozen=True, eq=False)
class Cushion(Block):
    """A mass of 1 kg above a stiff spring-damper that only pushes, under a force that may depend on
    time.

    Where it is in contact the rates of decay are about k / d and d / m.
    """

    start: float = 0.0
    states = (Port("z", (), "m", "", 0.0, rate="v"), Port("v", (), "m/s", "", 0.0))
    inputs = (Port("f", (), "N", "", 0.0),)
    parameters = (Port("k", (), "N/m", "", 1e6), Port("d", (), "N.s/m", "", 1e4))
    outputs = (*states, Port("push", (), "N"))

    def derivative(self, t, x, u, p):
        return {"z": x.v, "v": -9.81 + u.f * np.cos(30.0 * t) + self._push(x, p)}

    def output(self, x, p):
        return {"push": self._push(x, p)}

    def _push(self, x, p):
        return select(x.z < 0.0, -p.k * x.z - p.d * x.v, 0.0)


FAST = 5e3 + np.sqrt(25e6 - 1e6)  # the fast decay of the cushion: of s^2 + 1e4 s + 1e6
LIMIT = 2.785 / FAST  # the longest step of RK4 there


def run(stepper, flat, method, h, t_stop, **values):
    m, stepping = flat.start(), stepper(flat, method, h)
    for name, value in values.items():
        m[flat.where[name]] = value
    stepping.initialize(m, 0.0)
    for k in range(round(t_stop / h)):
        stepping.step(m, k * h, h)
    return m


class Pressed(Cushion):
    """A cushion that pulls too."""

    def _push(self, x, p):
        return -p.k * x.z - p.d * x.v


@METHODS
def test_stiff_plant_comes_to_rest_at_steps_far_beyond_the_explicit_limit(method):
    flat, h = Memory(Pressed()), 100 * LIMIT
    m = run(compiled_stepper, flat, method, h, 60 * h, z=1e-3, v=-0.1)
    assert_allclose(m[flat.where["z"]], -9.81e-6, rtol=1e-6)
    assert abs(m[flat.where["v"]]) < 1e-9
    with pytest.raises(StepError, match="Pressed is not finite"):
        run(compiled_stepper, flat, RK4, h, 60 * h, z=1e-3, v=-0.1)


@pytest.mark.slow
@METHODS
def test_error_on_a_stiff_plant_falls_at_the_order_beyond_the_explicit_limit(method):
    # dx/dt = A x + (0, w): x = c + exp(A t) (x0 - c), A c = -(0, w)
    A, x0, c = (
        np.array([[0.0, 1.0], [-1e6, -1e4]]),
        np.array([-1e-3, 0.0]),
        np.array([-9.81e-6, 0.0]),
    )
    t_stop, flat, counts = 100 * LIMIT, Memory(Pressed()), np.array([16, 32, 64])
    exact = c + expm(A * t_stop) @ (x0 - c)
    ends = [
        run(compiled_stepper, flat, method, t_stop / n, t_stop, z=-1e-3)[flat.x] for n in counts
    ]
    slope = -np.polyfit(np.log(counts), np.log([abs(end[0] - exact[0]) for end in ends]), 1)[0]
    assert abs(slope - method.order) < ORDER


def test_contact_that_opens_and_closes_comes_to_rest_by_the_method_of_one_stage():
    # its one stage sees one law of force in a step, in the contact or out of it
    flat = Memory(Cushion())
    for h in (100 * LIMIT, 10 * LIMIT):
        m = run(compiled_stepper, flat, LINEARLY_IMPLICIT_EULER, h, 0.5, z=1e-2, v=-0.1)
        assert_allclose(m[flat.where["z"]], -9.81e-6, rtol=1e-6)
        assert_allclose(m[flat.where["push"]], 9.81, rtol=1e-6)
    thrown = run(compiled_stepper, flat, RK4, 100 * LIMIT, 0.5, z=1e-2, v=-0.1)
    assert thrown[flat.where["z"]] > 1.0


def held_robot(kd=2e5):
    """A robot in a continuous loop with a controller of very stiff damping, which takes an explicit
    step of 10 us.
    """
    system = System()
    system.add("robot", RobotPlant(planar2(), q0=(0.3, -0.5)))
    system.add("pd", PDController(kp=(4e5, 2e5), kd=(kd, kd)), start={"q_ref": (0.4, -0.6)})
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    return Memory(ContinuousSystem(system))


@METHODS
def test_robot_under_stiff_control_creeps_to_its_place_at_long_steps(method):
    flat, h = held_robot(), 20e-3
    m = run(compiled_stepper, flat, method, h, 15.0)
    assert_allclose(m[flat.where["robot.q"]], (0.4, -0.6), atol=1e-3)
    assert np.abs(m[flat.where["robot.qd"]]).max() < 1e-3
    with pytest.raises(StepError, match="not finite"):
        run(compiled_stepper, flat, RK4, h, 1.0)


# what a step is made of


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_solution_by_elimination_solves(rng, n):
    W, b = rng.normal(size=(n, n)), rng.normal(size=n)
    W[rng.random((n, n)) < 0.3] = 0.0
    W += np.roll(3.0 * np.eye(n), 1, axis=0)  # the large elements are off the diagonal
    assert_allclose(linear_solver(W)(b), np.linalg.solve(W, b), rtol=1e-13 * np.linalg.cond(W))


def test_traced_elimination_exchanges_rows_as_the_values_ask():
    shape = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    graph = trace(
        "solved",
        lambda W, b: {"x": linear_solver(np.where(shape, W, 0.0))(b)},
        {"W": (3, 3), "b": (3,)},
    )
    for W in (
        [[0, 2, 0], [3, 0, 1], [0, 1, 5]],
        [[4, 2, 0], [3, 7, 1], [0, 1, 5]],
        [[1, 2, 0], [3, 6, 1], [0, 9, 0]],
    ):
        b = np.array([1.0, -2.0, 0.5])
        assert_allclose(
            graph(np.concatenate([np.ravel(W), b]).astype(float)), np.linalg.solve(W, b), rtol=1e-13
        )


@STEPPERS
def test_singular_equations_give_an_error_not_numbers(stepper):
    # dx/dt = x with h gamma = 1
    flat = Memory(Growth())
    with pytest.raises(StepError, match="Growth is not finite at t = 1 s: x"):
        run(stepper, flat, INTEGRATORS["linearly implicit euler"], 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Growth(Block):
    """dx/dt = x."""

    states = (Port("x", (), "1", "", 1.0),)

    def derivative(self, x):
        return {"x": x.x}


@METHODS
def test_tableau_is_that_of_a_linearly_implicit_method(method):
    # alpha = a gamma-matrix and the sums of its rows are c, those of the gamma-matrix are the
    # weights of df/dt
    implicit, s = method.implicit, method.stages
    a, coupling = np.zeros((s, s)), np.zeros((s, s))
    for i in range(s):
        a[i, :i], coupling[i, :i] = method.a[i], implicit.coupling[i]
    gamma = np.linalg.inv(np.eye(s) / implicit.gamma - coupling)
    assert isinstance(implicit, LinearlyImplicit)
    assert_allclose(np.array(method.b) @ gamma @ np.ones(s), 1.0, rtol=1e-14)
    assert_allclose(a @ gamma @ np.ones(s), method.c, atol=1e-14)
    assert_allclose(gamma @ np.ones(s), implicit.time, atol=1e-14)
