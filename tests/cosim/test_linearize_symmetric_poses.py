"""Derivatives at symmetric, aligned and zero configurations.

In these configurations terms of a block vanish, but their derivatives do not. The references are
published eigenvalues and difference quotients.
"""

import numpy as np
import pytest

from bicycle import bicycle, published_eigenvalues
from campaign import sized
from derivative_checks import Derivatives, loop_derivative_error, wrong_entries
from library_blocks import BLOCKS
from random_models import MODELS
from rigidblocks import linearize
from rigidblocks.block.external_functions import BlockInC
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.contact import ContactPlant
from rigidblocks.dynamics.loops import project
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import ClosedLoopPlant, RobotPlant, TrapezoidalProfile
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.robots import (
    actuator_triangle,
    bennett,
    five_bar,
    four_bar,
    n_four_bar,
    sarrus,
    slider_crank,
    spatial_mechanism,
    stewart_platform,
)
from signal_blocks import SIGNALS

PUBLISHED = 1e-10  # [1/s] 14 digits are published, and the eigenvalues amplify their rounding
QUOTIENTS = 1e-7  # relative error of central differences with steps of 1e-5
STEWART_QUOTIENTS = 1e-6  # 24 variables; larger matrices have larger rounding errors

# poses of each mechanism, some of them symmetric, aligned or at zero angles
MECHANISMS = {
    "four-bar": [four_bar(angle=a) for a in (1.0, 0.0, np.pi, np.pi / 2, -np.pi / 2, 0.3)],
    "square four-bar": [four_bar(1, 1, 1, 1, angle=a) for a in (np.pi / 2, 1.0, np.pi / 4)],
    "windows": [n_four_bar(3, a, 1.0) for a in (0.0, 0.3, -0.3, np.pi / 4)],
    "still windows": [n_four_bar(3, a, 0.0) for a in (0.0, 0.3)],
    "five-bar": [
        five_bar(),
        five_bar(np.pi / 2, np.pi / 2),
        five_bar(apex_up=False),
        five_bar(2.0, 0.7),
    ],
    "slider-crank": [slider_crank(angle=a) for a in (1.0, 0.0, np.pi, np.pi / 2, -np.pi / 2)],
    "actuator": [
        actuator_triangle(y1=a, y2=b)
        for a, b in ((0.5, 0.3), (np.pi / 2, 0.0), (0.0, 0.0), (np.pi, np.pi / 2))
    ],
    "Bennett": [bennett(angle=a) for a in (1.0, np.pi / 2, -np.pi / 2, -1.0)],
    "Sarrus": [sarrus(angle=a) for a in (0.6, np.pi / 4, np.pi / 2 - 0.01)],
    "Stewart": [
        stewart_platform(),
        stewart_platform(position=(0.1, 0.0)),
        stewart_platform(position=(0.0, -0.1)),
        stewart_platform(1.2, (0.1, -0.2)),
    ],
    "bicycle": [bicycle(v) for v in (0.0, 1.0, 5.0, 10.0)],
}
for _name in ("four-bar", "windows", "five-bar", "slider-crank", "actuator"):
    MECHANISMS[f"{_name} in space"] = [spatial_mechanism(one) for one in MECHANISMS[_name]]
METHODS = ("kkt", "multipliers", "null_space", "svd")


def states(poses, count, rng):
    """Return states (q, qd, tau) that satisfy the loop constraints.

    The first states are the poses with their own velocities and zero forces. Then come the poses
    with random velocities and forces, and random states near the poses.
    """
    found = [(one.q0, one.qd0, np.zeros(one.model.nv)) for one in poses]
    for k in range(count - len(poses)):
        model, q, qd = poses[k % len(poses)]
        n, away = model.nv, 0.0 if k < len(poses) else 0.2
        q = integrate(model, q, rng.uniform(-away, away, n))
        for _ in range(10):
            q, qd = project(model, q, qd)
        _, qd = project(model, q, qd + rng.uniform(-1.0, 1.0, n))
        found.append((q, qd, rng.uniform(-5.0, 5.0, n)))
    return found


def check_mechanism(name, count, rng, bound=QUOTIENTS, **options):
    poses = MECHANISMS[name]
    derivatives = Derivatives(ClosedLoopPlant(poses[0].model, poses[0].q0, **options))
    for state in states(poses, count, rng):
        assert loop_derivative_error(derivatives, *state) < bound


# the bicycle


@pytest.mark.slow
def test_bicycle_jacobian_in_stiff_integrators_has_the_published_eigenvalues():
    memory = Memory(ClosedLoopPlant(*bicycle()))
    slopes, m = TracedEvaluator(memory).jacobian, memory.start()
    for v in range(11):
        m[memory.where["qd"]] = bicycle(v).qd0
        values = np.linalg.eigvals(slopes(m)[0])
        for published in published_eigenvalues(v):
            assert np.min(np.abs(values - published)) < PUBLISHED


@pytest.mark.parametrize(
    "v", [5.0, *(pytest.param(float(v), marks=pytest.mark.slow) for v in (0, 1, 2, 3, 4, 6, 8, 10))]
)
def test_linearized_bicycle_has_the_published_eigenvalues(v):
    values = np.linalg.eigvals(linearize(ClosedLoopPlant(*bicycle(v))).A)
    for published in published_eigenvalues(v):
        assert np.min(np.abs(values - published)) < PUBLISHED


# mechanisms


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["square four-bar", "windows", "slider-crank", "slider-crank in space"]
)
def test_derivatives_of_closed_loops_are_exact_at_symmetric_poses(name, rng):
    check_mechanism(name, 2 * len(MECHANISMS[name]), rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_derivatives_of_closed_loops_are_exact_at_twenty_random_poses(name, rng):
    check_mechanism(
        name,
        sized(20, 6) if name == "Stewart" else 20,
        rng,
        STEWART_QUOTIENTS if name == "Stewart" else QUOTIENTS,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["four-bar", "windows", "slider-crank", "slider-crank in space"])
def test_acceleration_derivatives_of_every_loop_solver_are_exact_at_symmetric_poses(
    name, method, rng
):
    check_mechanism(name, 2 * len(MECHANISMS[name]), rng, method=method)


# other blocks


def test_derivatives_of_a_contact_plant_are_exact_if_no_contact_is_closed():
    # without contact the normal and the friction force are zero and have no sign
    robot = ContactPlant(RobotPlant(BLOCKS["contact plant"][0].robot.model), 1e3, 20.0, 0.5)
    derivatives = Derivatives(robot)
    m = derivatives.memory.start()
    m[derivatives.memory.where["q"]] = np.pi / 2, 0.0
    assert wrong_entries(derivatives, m) == []


def test_derivatives_of_a_motion_profile_with_an_axis_of_zero_distance_are_exact():
    profile = TrapezoidalProfile((0.0, 0.2), (1.0, 0.2), 30.0, 1e3, begin=0.005)
    derivatives = Derivatives(profile)
    for t in (0.0, 0.02, 0.1):
        m = derivatives.memory.start()
        m[0] = t
        assert wrong_entries(derivatives, m) == []


def symmetric_memories(block, memory, rng):
    """Yield the start values of a block, then memories with equal, alternating and random values.

    In a configuration q, the value is the angle of all joints.
    """
    start = memory.start()
    start[~np.isfinite(start)] = 0.0
    places = np.arange(memory.size)
    free = np.concatenate([places[memory.x], places[memory.z], places[memory.u]])
    model = getattr(block, "model", None)
    ports = [*block.states, *block.inputs] if model is not None else []
    configurations = [port.name for port in ports if port.name == "q" and port.size == model.nq]

    def memory_at(values, angles):
        m = start.copy()
        m[free] = values
        for name in configurations:
            neutral = np.concatenate([joint.neutral() for joint in model.joint])
            m[memory.where[name]] = integrate(model, neutral, angles)
        if "quaternion" in memory.where:
            quaternion = m[memory.where["quaternion"]]
            length = np.linalg.norm(quaternion)
            quaternion[:] = quaternion / length if length > 1e-6 else (1.0, 0.0, 0.0, 0.0)
        if "covariance" in memory.where:  # covariances are positive definite
            covariance = m[memory.where["covariance"]]
            A = covariance.reshape(2 * (int(np.sqrt(len(covariance))),))
            A[:] = A @ A.T + 1e-2 * np.eye(len(A))
        return m

    yield start
    n, nv = len(free), model.nv if configurations else 0
    turn = lambda k: (-1.0) ** np.arange(k)  # noqa: E731
    for a in (0.0, np.pi / 2, np.pi, -np.pi / 2, 1e-9):
        yield memory_at(np.full(n, a), np.full(nv, a))
        yield memory_at(np.zeros(n), np.full(nv, a))
        yield memory_at(a * turn(n), a * turn(nv))
    for _ in range(4):
        yield memory_at(rng.uniform(-1, 1, n), rng.uniform(-2, 2, nv))


# at these configurations the loops are open or their constraints are dependent, so blocks that
# solve for loop forces have no derivatives
OPEN_LOOPS = ("feed-forward of a loop", "loop closure")
# an encoder rounds, and random numbers jump with their counter: they jump several times within the
# step of a difference quotient
ROUNDED = ("encoder", "fault", "noise", "uniform noise")
# the contact points start at a fold of the height field, where the normal and the force jump
FOLDED = ("hard ground",)
# bisection locates the switching times, so the derivatives omit their sensitivity
BISECTED = ("jerk_limited",)


def walked_blocks():
    """Yield the traceable library blocks, except plants with their own loops."""
    for name, (block, _) in {**SIGNALS, **BLOCKS}.items():
        loops = getattr(getattr(block, "model", None), "constrained", False)
        composite = isinstance(block, Composite | BlockInC)
        if (
            not composite
            and name not in (*OPEN_LOOPS, *ROUNDED, *FOLDED, *BISECTED)
            and not (loops and block.states)
        ):
            yield name, block
    for name, model in MODELS.items():
        yield f"robot {name}", RobotPlant(model())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "block"), list(walked_blocks()))
def test_block_derivatives_equal_difference_quotients_at_symmetric_states(name, block, rng):
    del name
    derivatives = Derivatives(block)
    for m in symmetric_memories(block, derivatives.memory, rng):
        if np.all(np.isfinite(derivatives.values(m))):
            assert wrong_entries(derivatives, m) == []
