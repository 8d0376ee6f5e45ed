"""Linearly implicit integrators: stability on linear problems, and stiff plants."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from rigidblocks.block.block import Block, Port
from rigidblocks.block.integrators import (
    INTEGRATORS,
    LINEARLY_IMPLICIT_EULER,
    RK4,
    LinearlyImplicit,
    integrate_implicitly,
)
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import StepError
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import PDController, RobotPlant
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.linear_algebra import linear_solver
from rigidblocks.spatial.scalar import select
from rigidblocks.tracing.trace import trace

ORDER = 0.1  # tolerance of the fitted slope of log error over log step
EXACT = 1e-12  # rounding of some ten operations on values of magnitude 1
IMPLICIT = [method for method in INTEGRATORS.values() if method.implicit is not None]
METHODS = pytest.mark.parametrize("method", IMPLICIT, ids=lambda method: method.name)
STEPPERS = pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
ROOT = 1 - 1 / np.sqrt(2)
# For order p and s stages with one gamma, the numerator is the Taylor series of (1 - gamma z)^s e^z
# up to z^p
STABILITY = {
    "linearly implicit euler": lambda z: 1 / (1 - z),
    "ros2": lambda z: (1 + (1 - 2 * ROOT) * z) / (1 - ROOT * z) ** 2,
    "rodas3": lambda z: (1 - z + z**3 / 6) / (1 - z / 2) ** 4,
    # six stages, and the series up to one power more
    "rodas4p": lambda z: (
        (1 - z / 2 - z**2 / 16 + z**3 / 24 + 5 * z**4 / 768 - 7 * z**5 / 3072) / (1 - z / 4) ** 6
    ),
}


def linear_step(method, A, x, h=1.0):
    """Return the state after one step of dx/dt = A x."""
    A = np.asarray(A, dtype=float)
    return integrate_implicitly(
        method, lambda _, x: A @ x, lambda *_: (A, np.zeros(len(A))), 0.0, np.array(x), h
    )


# linear problems


@METHODS
@pytest.mark.parametrize(
    "z", [-1e-3, -0.5, -2.0, -50.0, -1e6, 0.3, 0.5j, 3j, 1e3j, -1 + 4j, -200 + 10j]
)
def test_step_of_a_linear_problem_is_multiplication_by_the_stability_function(method, z):
    # multiplication by a + b i is the matrix [[a, -b], [b, a]]
    a, b = np.real(z), np.imag(z)
    expected = STABILITY[method.name](complex(z))
    actual = complex(*linear_step(method, [[a, -b], [b, a]], [1.0, 0.0]))
    assert abs(actual - expected) < EXACT * max(1.0, abs(expected))


@pytest.mark.slow
@METHODS
def test_implicit_methods_damp_decaying_modes_at_any_step_size(method):
    for angle in np.linspace(np.pi / 2, np.pi, 40):  # upper left half-plane and its boundary
        for size in np.logspace(-3, 8, 60):
            z = size * np.exp(1j * angle)
            a, b = min(z.real, 0.0), z.imag
            assert np.hypot(*linear_step(method, [[a, -b], [b, a]], [1.0, 0.0])) < 1 + EXACT


@METHODS
def test_fast_modes_decay_in_one_step_without_oscillation(method):
    x, sizes = np.array([1.0]), []
    for _ in range(4):
        x = linear_step(method, [[-1e6]], x)
        sizes.append(abs(x[0]))
    assert sizes[0] < 1e-5
    assert np.all(np.array(sizes[1:]) < 1e-5 * np.array(sizes[:-1]))
    # an explicit method grows by (1e6)^4 / 24 per step, and the trapezoidal rule oscillates


@METHODS
def test_prothero_robinson_error_does_not_depend_on_the_stiffness(method):
    # Prothero and Robinson: the solution of dx/dt = l (x - sin t) + cos t is sin t
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
    assert max(errors) < h**2  # a first-order error would be h, and an explicit step diverges


# stiff plants


@dataclass(frozen=True, eq=False)
class Cushion(Block):
    """Mass of 1 kg above a unilateral stiff spring-damper, with a force that may depend on time.

    In contact its decay rates are about k / d and d / m.
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


FAST = 5e3 + np.sqrt(25e6 - 1e6)  # fast decay rate in contact, a root of s^2 - 1e4 s + 1e6
LIMIT = 2.785 / FAST  # stability limit of the RK4 step


def run(stepper, flat, method, h, t_stop, **values):
    m, stepping = flat.start(), stepper(flat, method, h)
    for name, value in values.items():
        m[flat.where[name]] = value
    stepping.initialize(m, 0.0)
    for k in range(round(t_stop / h)):
        stepping.step(m, k * h, h)
    return m


class Pressed(Cushion):
    """A cushion whose spring-damper acts in both directions."""

    def _push(self, x, p):
        return -p.k * x.z - p.d * x.v


@pytest.mark.slow
@METHODS
def test_stiff_plant_settles_with_steps_100_times_above_the_explicit_stability_limit(method):
    flat, h = Memory(Pressed()), 100 * LIMIT
    m = run(compiled_stepper, flat, method, h, 60 * h, z=1e-3, v=-0.1)
    assert_allclose(m[flat.where["z"]], -9.81e-6, rtol=1e-6)
    assert abs(m[flat.where["v"]]) < 1e-9
    with pytest.raises(StepError, match="Pressed is not finite"):
        run(compiled_stepper, flat, RK4, h, 60 * h, z=1e-3, v=-0.1)


@pytest.mark.slow
@METHODS
def test_stiff_plant_error_has_the_declared_order_above_the_explicit_stability_limit(method):
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


@pytest.mark.slow
def test_stiff_unilateral_contact_comes_to_rest_with_linearly_implicit_euler():
    # its only stage evaluates one contact force per step, in contact or out of contact
    flat = Memory(Cushion())
    for h in (100 * LIMIT, 10 * LIMIT):
        m = run(compiled_stepper, flat, LINEARLY_IMPLICIT_EULER, h, 0.5, z=1e-2, v=-0.1)
        assert_allclose(m[flat.where["z"]], -9.81e-6, rtol=1e-6)
        assert_allclose(m[flat.where["push"]], 9.81, rtol=1e-6)
    thrown = run(compiled_stepper, flat, RK4, 100 * LIMIT, 0.5, z=1e-2, v=-0.1)
    assert thrown[flat.where["z"]] > 1.0


def held_robot(kd=2e5):
    """Return a robot with a controller of very stiff damping as one continuous block.

    An explicit method needs steps of 10 us.
    """
    system = System()
    system.add("robot", RobotPlant(planar2(), q0=(0.3, -0.5)))
    system.add("pd", PDController(kp=(4e5, 2e5), kd=(kd, kd)), start={"q_ref": (0.4, -0.6)})
    system.connect("robot.q", "pd.q")
    system.connect("robot.qd", "pd.qd")
    system.connect("pd.tau", "robot.tau")
    return Memory(ContinuousSystem(system))


@pytest.mark.slow
@METHODS
def test_robot_with_a_stiff_controller_reaches_its_reference_position_with_long_steps(method):
    flat, h = held_robot(), 20e-3
    m = run(compiled_stepper, flat, method, h, 15.0)
    assert_allclose(m[flat.where["robot.q"]], (0.4, -0.6), atol=1e-3)
    assert np.abs(m[flat.where["robot.qd"]]).max() < 1e-3
    with pytest.raises(StepError, match="not finite"):
        run(compiled_stepper, flat, RK4, h, 1.0)


# parts of an implicit step


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_linear_solver_matches_the_solution_of_numpy(rng, n):
    W, b = rng.normal(size=(n, n)), rng.normal(size=n)
    W[rng.random((n, n)) < 0.3] = 0.0
    W += np.roll(3.0 * np.eye(n), 1, axis=0)  # the largest elements are off the diagonal
    assert_allclose(linear_solver(W)(b), np.linalg.solve(W, b), rtol=1e-13 * np.linalg.cond(W))


def test_traced_linear_solver_chooses_pivots_by_the_values_at_run_time():
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
def test_singular_equations_of_an_implicit_step_raise_an_error(stepper):
    # dx/dt = x with h gamma = 1 makes the matrix I - h gamma J zero
    flat = Memory(Growth())
    with pytest.raises(StepError, match="Growth is not finite at t = 1 s: x"):
        run(stepper, flat, INTEGRATORS["linearly implicit euler"], 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Growth(Block):
    """Exponential growth, dx/dt = x."""

    states = (Port("x", (), "1", "", 1.0),)

    def derivative(self, x):
        return {"x": x.x}


@METHODS
def test_linearly_implicit_tableau_is_consistent(method):
    # alpha = a gamma-matrix. The row sums of alpha are c. The row sums of the gamma-matrix are the
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
