"""Contact with adaptive steps: energy, loads and rolling at every stiffness.

The references are the energy, the weight, and the final speed of a rolling ball. An undamped bounce
conserves the energy, and damping never increases it.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Block, Port
from rigidblocks.block.adaptive_methods import longest_step, memory_for, method_of
from rigidblocks.contact import Box, ContactPlant, PointSet, Sphere
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.dynamics.force_elements import ForceElement
from rigidblocks.dynamics.force_laws import Stop
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import Prismatic, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.scalar import maximum, minimum
from rigidblocks.spatial.spatial import mcI, xlt

G = 9.81
METHODS = ["adaptive", "stiff", "radau", "adaptive or stiff"]
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def on_rail(radius=0.1):
    inertia = mcI(1.0, np.zeros(3), 1e-3 * np.eye(3))
    return Model("mass", (-1,), (Prismatic(),), (xlt(np.zeros(3)),), (inertia,),
                 contact=((Sphere(radius),),))  # fmt: skip


def ball(m=1.0, r=0.1):
    inertia = mcI(m, np.zeros(3), 0.4 * m * r * r * np.eye(3))
    return Model("ball", (-1,), (SixDoF(),), (xlt(np.zeros(3)),), (inertia,),
                 contact=((Sphere(r),),))  # fmt: skip


def table(m=10.0, sides=(0.8, 0.6, 0.5), com=(0.0, 0.0, 0.0)):
    """Return a table top on four legs, with its centre of mass at `com`."""
    a, b, c = sides
    legs = PointSet([[x * a / 2, y * b / 2, -c] for x in (-1, 1) for y in (-1, 1)])
    inertia = mcI(m, com, m / 12 * np.diag([b * b, a * a, a * a + b * b]))
    return Model("table", (-1,), (SixDoF(),), (xlt(np.zeros(3)),), (inertia,), contact=((legs,),))


PLANTS = {
    "rail": lambda: ContactPlant(RobotPlant(on_rail()), 1e6, 0.0, D_t=1.0),
    "ball": lambda: ContactPlant(RobotPlant(ball()), 1e6, 1e3, 0.3),
    "table": lambda: ContactPlant(RobotPlant(table()), 1e6, 2e3, 0.5),
}


@cache
def stepper_of(plant, method, form=compiled_stepper):
    chosen = method_of(method)
    return form(memory_for(PLANTS[plant](), chosen), chosen, longest_step(chosen))


def run(stepper, t_stop, dt, **start):
    """Return the recorded memories (n, size) of a run, as a function of the port name.

    The keyword arguments are start values and parameters.
    """
    memory = stepper.memory
    m = memory.start()
    for name, value in start.items():
        m[memory.where[name]] = value
    stepper.initialize(m, 0.0)
    rows = np.zeros((round(t_stop / dt), memory.size))
    for k, row in enumerate(rows):
        stepper.step(m, k * dt, dt)
        row[:] = m
    return lambda name: rows[:, memory.where[name]]


def whole_energy(y, K, K_t=0.0):
    """Return the total energy, including the energy of the contact springs."""
    depth = np.maximum(y("depth"), 0.0)
    patch = np.sum(y("x") ** 2, axis=1) * (y("depth")[:, 0] > 0) if K_t else 0.0
    return y("energy")[:, 0] + K / 2 * np.sum(depth**2, axis=1) + K_t / 2 * patch


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.01, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_bouncing_ball_without_damping_conserves_energy_at_every_stiffness(method, dt, rng):
    # the local error of the speed is 1e-7, of the energy twice as large; a bounce has some 12 steps
    stepper = stepper_of("rail", method)
    for _ in range(12):
        K, z = 10 ** rng.uniform(4, 9), rng.uniform(0.15, 2.0)
        y = run(stepper, 10.0, dt, K=K, D=0.0, q=[z])
        E = whole_energy(y, K) - G * 0.1
        bounces = 10.0 / np.sqrt(8 * (z - 0.1) / G) + 1
        assert_allclose(E, G * (z - 0.1), rtol=0, atol=1e-6 * bounces * G * (z - 0.1) + 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_energy_of_a_ball_on_damped_ground_never_increases(method, rng):
    stepper = stepper_of("ball", method)
    for K in (1e4, 1e6, 1e9):
        # the friction patch relaxes at the rate K_t / D_t, fast for an explicit method
        least = np.sqrt(K) if method == "adaptive" else 1e-3 * np.sqrt(K)
        for D in (0.0, 1.0, 1e2, 1e4, *[1e6] * (method != "adaptive")):  # 1e6 is too stiff for it
            slip = [0, 0, 0, *rng.normal(size=2), 0]
            start = {"q": [*UPRIGHT, 0, 0, 0.5], "qd": slip, "K": K, "D": D}
            y = run(stepper, 1.5, 0.01, **start, K_t=K, D_t=max(D, least))
            E = whole_energy(y, K, K) - G * 0.1
            E0 = np.sum(np.square(slip)) / 2 + G * 0.4
            assert E.max() < E0 * (1 + 1e-9)
            assert np.diff(E).max() < 1e-6 * E0


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("method", METHODS)
def test_slipping_ball_eventually_rolls_with_five_sevenths_of_its_initial_speed(method, dt):
    stepper = stepper_of("ball", method)
    for K in (1e4, 1e6, 1e8):
        D = np.sqrt(K)
        start = {"q": [*UPRIGHT, 0, 0, 0.1 - G / K], "qd": [0, 0, 0, 1.0, 0, 0]}
        y = run(stepper, 1.5, dt, **start, K=K, D=D, K_t=K, D_t=D)
        speed = np.linalg.norm(y("qd")[-1, 3:])
        assert abs(speed - 5 / 7) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_sum_of_forces_on_table_legs_equals_the_weight_at_every_stiffness(method, rng):
    stepper = stepper_of("table", method)
    for K in (1e4, 1e5, 1e6, 1e7, 1e8):
        tilt = rng.normal(0, 0.02, 3)
        q = np.array([1.0, *tilt, 0.0, 0.0, 0.52])
        q[:4] /= np.linalg.norm(q[:4])
        D_t = 10 ** rng.uniform(2, 5)
        y = run(stepper, 3.0, 0.01, q=q, K=K, D=2e3, K_t=10 ** rng.uniform(4, 8), D_t=D_t)
        loads = y("force")[-1].reshape(4, 3)
        assert_allclose(loads[:, 2], 10.0 * G / 4, rtol=1e-3)
        assert_allclose(loads.sum(axis=0), [0, 0, 10.0 * G], atol=1e-3 * 10 * G)


@pytest.mark.slow
def test_stopping_distance_error_is_of_first_order_in_the_contact_compliance():
    # a table with its centre of mass at its feet does not pitch
    plant = ContactPlant(RobotPlant(table(com=(0.0, 0.0, -0.5))), 1e7, 1e4, 0.4)
    chosen = method_of("adaptive or stiff")
    stepper, v0 = compiled_stepper(memory_for(plant, chosen), chosen, np.inf), 0.8
    errors = []
    for K_t in (1e5, 1e6, 1e7):
        start = {"q": [*UPRIGHT, 0, 0, 0.5 - 10 * G / 4e7], "qd": [0, 0, 0, v0, 0, 0]}
        y = run(stepper, 0.6, 0.02, **start, K_t=K_t, D_t=2.0 * np.sqrt(K_t))
        assert np.abs(y("qd")[-1]).max() < 1e-4
        errors.append(abs(y("q")[-1, 4] - v0**2 / (2 * 0.4 * G)))
    slope = np.polyfit(np.log([1e5, 1e6, 1e7]), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_contact_runs_have_equal_results_in_numpy_and_in_c(method):
    start = {"K": 1e5, "D": 20.0, "q": [0.3]}
    compiled, plain = (
        run(stepper_of("rail", method, form), 0.6, 0.05, **start)
        for form in (compiled_stepper, numpy_stepper)
    )
    assert compiled("in_contact").any() or compiled("qd").max() > 1.0
    assert_allclose(compiled("q"), plain("q"), rtol=0, atol=1e-11)
    assert_allclose(compiled("qd"), plain("qd"), rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "adaptive or stiff"])
def test_fast_ball_does_not_pass_through_a_thin_wall_between_two_steps(method):
    # the ball crosses the wall of 2 cm in 0.2 ms, and no other event occurs in 0.1 s
    wall = Box((1.0, 1.0, 0.02))
    plant = ContactPlant(RobotPlant(on_rail(0.01)), 1e8, 0.0, ground=wall, D_t=1.0)
    chosen = method_of(method)
    stepper = compiled_stepper(memory_for(plant, chosen), chosen, longest_step(chosen))
    for z in np.linspace(0.5, 5.0, 7):
        y = run(stepper, 0.1, 0.1, q=[z], qd=[-100.0], gravity=np.zeros(3))
        assert_allclose(y("qd")[-1], 100.0, rtol=1e-6)


@pytest.mark.slow
def test_joint_stop_without_damping_conserves_energy_at_every_stiffness():
    stop = ForceElement("stop", 0, Stop(K=1e4, D=0.0, lower=-0.2, upper=0.3))
    plant = RobotPlant(on_rail(), elements=(stop,))
    chosen = method_of("adaptive")
    stepper = compiled_stepper(memory_for(plant, chosen), chosen, longest_step(chosen))
    for K in (1e3, 1e6, 1e9):
        y = run(stepper, 5.0, 0.1, qd=[2.0], stop_K=K, gravity=np.zeros(3))
        E = y("energy")[:, 0]
        assert_allclose(E, 2.0, rtol=0, atol=1e-5)


def test_switching_function_of_a_joint_stop_is_positive_exactly_if_the_stop_force_acts():
    for K, D in ((0.0, 3.0), (1e9, 0.0), (1e4, 3.0)):
        stop = Stop(K=K, D=D, lower=-0.2, upper=0.3)
        for s, sd in ((0.4, 1.0), (0.4, -1.0), (0.2, 1.0), (-0.3, -1.0), (-0.3, 1.0)):
            assert any(m > 0 for m in stop.margins(s, sd)) == (stop.force(s, sd) != 0.0)


@dataclass(frozen=True)
class Trampoline(Block):
    """A mass of 1 kg on a spring of 1e9 N/m, whose margin has a different scale out of contact."""

    states = (Port("x", (), start=0.0), Port("v", (), start=0.0))
    outputs = states

    def derivative(self, x):
        return {"x": x.v, "v": maximum(0.0, -1e9 * x.x)}

    def switching_functions(self, x):
        return np.array([minimum(-x.x, -1e9 * x.x)])


@pytest.mark.slow
@pytest.mark.parametrize("form", [numpy_stepper, compiled_stepper])
def test_contact_within_one_step_is_detected_despite_a_badly_scaled_switching_function(form, rng):
    # the cubic interpolation of a margin with two scales has its zero far before the real crossing
    chosen = method_of("adaptive")
    stepper = form(memory_for(Trampoline(), chosen), chosen, longest_step(chosen))
    for depth in 10 ** rng.uniform(-9, -6, 20):
        y = run(stepper, 0.01, 0.01, x=[-depth], v=[2.0])
        assert_allclose(y("v")[-1] ** 2, 4.0 + 1e9 * depth**2, rtol=2e-6)


@pytest.mark.slow
def test_contact_runs_of_fused_and_separate_parts_have_equal_results():
    plant = ContactPlant(RobotPlant(on_rail(), [0.5]), 1e6, 20.0)
    results = []
    for form in ("compiled", "fused"):
        system = System()
        system.add("ball", plant, method="adaptive")
        results.append(simulate(system, 1.0, 0.01, form=form))
    single, fused = results
    assert np.ptp(np.sign(np.diff(single["ball.q"][:, 0]))) == 2.0  # it bounces
    assert_allclose(fused["ball.q"], single["ball.q"], rtol=0, atol=1e-12)


def test_acceleration_jump_at_contact_does_not_increase_the_stiffness_estimate():
    # the rates jump at the crossing within a tiny distance. In contact they change by K / m with
    # the position, in units of tolerances that are up to twice the tolerances of the speed
    stepper = stepper_of("rail", "adaptive")
    y = run(stepper, 5.0, 0.01, q=[0.7], K=1e4, D=10.0)
    assert y("steps.eigenvalue").max() < 2e4
