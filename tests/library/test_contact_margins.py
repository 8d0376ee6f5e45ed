"""Contact inside steps that know their error: energy, loads, rolling, at every stiffness.

The oracles are the energy, which a bounce without damping keeps and no damping gives back, the
weight, and the speed of a ball that has come to roll.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Block, Port
from rigidblocks.algebra.scalar import maximum, minimum
from rigidblocks.algebra.spatial import mcI, xlt
from rigidblocks.block.adaptive import longest_step, memory_for, method_of
from rigidblocks.contact import Box, PointSet, Sphere
from rigidblocks.dynamics.elements import ForceElement
from rigidblocks.dynamics.laws import Stop
from rigidblocks.joint import Prismatic, SixDoF
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import ContactPlant, RobotPlant
from rigidblocks.model.model import Model
from rigidblocks.simulation.simulate import simulate
from rigidblocks.system.system import System

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
    """A board on four legs, whose mass is at `com`."""
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
    """The memories (n, size) of a run with these start values and parameters, as a function of the
    name of a port.
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
    """The energy with that of the springs of the ground."""
    depth = np.maximum(y("depth"), 0.0)
    patch = np.sum(y("x") ** 2, axis=1) * (y("depth")[:, 0] > 0) if K_t else 0.0
    return y("energy")[:, 0] + K / 2 * np.sum(depth**2, axis=1) + K_t / 2 * patch


@pytest.mark.parametrize("dt", [0.01, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_bounces_keep_the_energy_at_every_stiffness(method, dt, rng):
    # the local error of the speed is 1e-7, of the energy twice that, in some dozen steps a bounce
    stepper = stepper_of("rail", method)
    for _ in range(12):
        K, z = 10 ** rng.uniform(4, 9), rng.uniform(0.15, 2.0)
        y = run(stepper, 10.0, dt, K=K, D=0.0, q=[z])
        E = whole_energy(y, K) - G * 0.1
        bounces = 10.0 / np.sqrt(8 * (z - 0.1) / G) + 1
        assert_allclose(E, G * (z - 0.1), rtol=0, atol=1e-6 * bounces * G * (z - 0.1) + 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_damped_ball_never_gains_energy_and_ends_at_rest_or_slow(method, rng):
    stepper = stepper_of("ball", method)
    for K in (1e4, 1e6, 1e9):
        # the friction patch comes to rest with K_t / D_t, fast for an explicit method
        least = np.sqrt(K) if method == "adaptive" else 1e-3 * np.sqrt(K)
        for D in (0.0, 1.0, 1e2, 1e4, *[1e6] * (method != "adaptive")):  # it is too stiff for it
            slip = [0, 0, 0, *rng.normal(size=2), 0]
            start = {"q": [*UPRIGHT, 0, 0, 0.5], "qd": slip, "K": K, "D": D}
            y = run(stepper, 1.5, 0.01, **start, K_t=K, D_t=max(D, least))
            E = whole_energy(y, K, K) - G * 0.1
            E0 = np.sum(np.square(slip)) / 2 + G * 0.4
            assert E.max() < E0 * (1 + 1e-9)
            assert np.diff(E).max() < 1e-6 * E0


@pytest.mark.parametrize("dt", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("method", METHODS)
def test_ball_that_slips_comes_to_roll_with_five_sevenths_of_its_speed(method, dt):
    stepper = stepper_of("ball", method)
    for K in (1e4, 1e6, 1e8):
        D = np.sqrt(K)
        start = {"q": [*UPRIGHT, 0, 0, 0.1 - G / K], "qd": [0, 0, 0, 1.0, 0, 0]}
        y = run(stepper, 1.5, dt, **start, K=K, D=D, K_t=K, D_t=D)
        speed = np.linalg.norm(y("qd")[-1, 3:])
        assert abs(speed - 5 / 7) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_legs_of_a_table_bear_the_weight_at_every_stiffness(method, rng):
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
def test_stopping_distance_is_that_of_coulomb_to_the_first_order_in_the_compliance():
    # a table whose mass is at its feet does not pitch
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
def test_numpy_and_c_go_through_a_contact_alike(method):
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
def test_fast_ball_does_not_pass_a_thin_wall_between_two_steps(method):
    # it would be beyond the wall of 2 cm after 0.2 ms, and nothing else happens in 0.1 s
    wall = Box((1.0, 1.0, 0.02))
    plant = ContactPlant(RobotPlant(on_rail(0.01)), 1e8, 0.0, ground=wall, D_t=1.0)
    chosen = method_of(method)
    stepper = compiled_stepper(memory_for(plant, chosen), chosen, longest_step(chosen))
    for z in np.linspace(0.5, 5.0, 7):
        y = run(stepper, 0.1, 0.1, q=[z], qd=[-100.0], gravity=np.zeros(3))
        assert_allclose(y("qd")[-1], 100.0, rtol=1e-6)


@pytest.mark.slow
def test_stop_gives_the_speed_back_whatever_its_stiffness():
    stop = ForceElement("stop", 0, Stop(K=1e4, D=0.0, lower=-0.2, upper=0.3))
    plant = RobotPlant(on_rail(), elements=(stop,))
    chosen = method_of("adaptive")
    stepper = compiled_stepper(memory_for(plant, chosen), chosen, longest_step(chosen))
    for K in (1e3, 1e6, 1e9):
        y = run(stepper, 5.0, 0.1, qd=[2.0], stop_K=K, gravity=np.zeros(3))
        E = y("energy")[:, 0]
        assert_allclose(E, 2.0, rtol=0, atol=1e-5)


def test_margin_of_a_stop_has_the_sign_of_its_force_without_stiffness_too():
    for K, D in ((0.0, 3.0), (1e9, 0.0), (1e4, 3.0)):
        stop = Stop(K=K, D=D, lower=-0.2, upper=0.3)
        for s, sd in ((0.4, 1.0), (0.4, -1.0), (0.2, 1.0), (-0.3, -1.0), (-0.3, 1.0)):
            assert any(m > 0 for m in stop.margins(s, sd)) == (stop.force(s, sd) != 0.0)


@dataclass(frozen=True)
class Trampoline(Block):
    """A mass of 1 kg over a spring of 1e9 N/m, whose margin has another scale above it."""

    states = (Port("x", (), start=0.0), Port("v", (), start=0.0))
    outputs = states

    def derivative(self, x):
        return {"x": x.v, "v": maximum(0.0, -1e9 * x.x)}

    def margins(self, x):
        return np.array([minimum(-x.x, -1e9 * x.x)])


@pytest.mark.parametrize("form", [numpy_stepper, compiled_stepper])
def test_no_step_leaves_a_contact_as_a_whole_by_a_margin_that_misleads(form, rng):
    # the cubic through a margin of two scales has its zero far before the change
    chosen = method_of("adaptive")
    stepper = form(memory_for(Trampoline(), chosen), chosen, longest_step(chosen))
    for depth in 10 ** rng.uniform(-9, -6, 20):
        y = run(stepper, 0.01, 0.01, x=[-depth], v=[2.0])
        assert_allclose(y("v")[-1] ** 2, 4.0 + 1e9 * depth**2, rtol=2e-6)


@pytest.mark.slow
def test_fused_run_and_that_of_parts_end_their_steps_alike():
    plant = ContactPlant(RobotPlant(on_rail(), [0.5]), 1e6, 20.0)
    results = []
    for form in ("compiled", "fused"):
        system = System()
        system.add("ball", plant, method="adaptive")
        results.append(simulate(system, 1.0, 0.01, form=form))
    alone, fused = results
    assert np.ptp(np.sign(np.diff(alone["ball.q"][:, 0]))) == 2.0  # it bounces
    assert_allclose(fused["ball.q"], alone["ball.q"], rtol=0, atol=1e-12)


def test_a_crossing_is_no_sign_of_stiffness():
    # the rates jump there over next to no distance; in contact they change by K / m with the place,
    # which counts in tolerances that are up to twice those of the speed
    stepper = stepper_of("rail", "adaptive")
    y = run(stepper, 5.0, 0.01, q=[0.7], K=1e4, D=10.0)
    assert y("steps.eigenvalue").max() < 2e4
