"""Dry friction with sticking: a body at rest does not creep, a sliding body obeys Coulomb's law."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from element_models import PLANTS
from rigidblocks.block.adaptive_methods import longest_step, memory_for, method_of
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.force_elements import ForceElement
from rigidblocks.dynamics.force_laws import Stiction
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import RobotPlant
from rigidblocks.robot.joints import Prismatic
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI

G, M = 9.81, 2.0
K, D = 1e6, 2e3
TOLERANCE = 1e-7  # tolerance of the adaptive steps
METHODS = ["adaptive", "stiff", "adaptive or stiff"]


@cache
def stepper_of(method):
    """Return a stepper of a block of 2 kg on a slide along x with sticking friction."""
    model = Model("block", (-1,), (Prismatic((1.0, 0.0, 0.0)),), (identity(),),
                  (mcI(M, np.zeros(3), np.eye(3)),))  # fmt: skip
    rub = ForceElement("rub", 0, Stiction(1.0, K, D, backward=1.0))
    plant, chosen = RobotPlant(model, elements=(rub,)), method_of(method)
    return compiled_stepper(memory_for(plant, chosen), chosen, longest_step(chosen))


def slid(method, t_stop, dt, angle=0.0, coulomb=1.0, backward=None, qd0=0.0, bristles=(K, D)):
    """Return q, qd and the energy after each step on an incline that descends along x."""
    stepper = stepper_of(method)
    memory = stepper.memory
    m, where = memory.start(), memory.where
    m[where["gravity"]] = G * np.array([np.sin(angle), 0.0, -np.cos(angle)])
    m[where["rub_coulomb"]] = coulomb
    m[where["rub_backward"]] = coulomb if backward is None else backward
    m[where["rub_K"]], m[where["rub_D"]] = bristles
    m[where["qd"]] = qd0
    stepper.initialize(m, 0.0)
    rows = np.zeros((round(t_stop / dt), memory.size))
    assert stepper.run(m, 0.0, dt, rows) == len(rows)
    return tuple(rows[:, where[name]][:, 0] for name in ("q", "qd", "energy"))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_block_below_the_friction_angle_does_not_creep_in_1000_s(method):
    mu = 0.4
    for share in (0.1, 0.5, 0.9, 0.999):
        angle = np.arctan(share * mu)
        friction = mu * M * G * np.cos(angle)
        q, qd, _ = slid(method, 1000.0, 0.1, angle, friction, bristles=(K, 4 * np.sqrt(K * M)))
        load = M * G * np.sin(angle)
        # the bristles carry the load; a large load applied suddenly makes them slip at first
        assert load / K * (1 - 1e-6) < q[-1] < (load / K * (1 + 1e-6) if share < 0.8 else 1e-3)
        assert abs(q[-1] - q[100]) < 1e-11
        assert abs(qd[-1]) < TOLERANCE


@pytest.mark.parametrize("method", METHODS)
def test_block_above_the_friction_angle_accelerates_by_the_net_force(method, rng):
    for mu, more in zip(rng.uniform(0.1, 1.0, 5), rng.uniform(0.01, 0.3, 5), strict=True):
        angle = np.arctan(mu) + more
        q, qd, _ = slid(method, 2.0, 0.01, angle, mu * M * G * np.cos(angle))
        a = G * (np.sin(angle) - mu * np.cos(angle))
        assert_allclose(qd[-1] - qd[49], a * 1.5, rtol=1e-6)
        assert_allclose(q[-1] - q[49], 1.5 * (qd[-1] + qd[49]) / 2, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_pushed_block_stops_after_the_analytic_distance(method):
    # distance m v^2 / (2 f), up to the small bristle deflection; then the block is at rest
    for v, f, back in ((1.0, 3.0, 3.0), (0.5, 8.0, 2.0), (-0.7, 2.0, 5.0)):
        q, qd, E = slid(method, 3.0, 0.01, 0.0, f, back, v)
        size = f if v > 0 else back
        assert_allclose(q[-1], np.sign(v) * M * v * v / (2 * size), rtol=0, atol=3 * size / K)
        assert abs(qd[-1]) < TOLERANCE
        assert np.diff(E).max() < TOLERANCE


@pytest.mark.parametrize("method", ["stiff", "adaptive or stiff"])
def test_motion_with_stiction_gains_no_energy_for_random_bristle_parameters(method, rng):
    for _ in range(10):
        bristles = 10 ** rng.uniform(2, 9), 10 ** rng.uniform(-1, 6)
        _, qd, E = slid(method, 1.0, 0.01, 0.0, 3.0, qd0=1.0, bristles=bristles)
        assert np.diff(E).max() < 1e-6
        assert abs(qd).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("name", PLANTS)
def test_stiction_dissipates_energy_in_every_plant(name, rng):
    # d(energy)/dt = f sd + K bend d(bend)/dt: the bristles store the rest of f sd
    rub = ForceElement("rub", "slide", Stiction(2.0, 300.0, 5.0, 0.5, 1.0))
    flat = Memory(PLANTS[name]((rub,)))
    run, m = NumpyEvaluator(flat), flat.start()
    m[flat.where["rub_bend"]] = bend = 0.004 * rng.normal()
    rates = run.derivative(m)
    rate = rates[flat.where["rub_bend"].start - flat.x.start]
    h, energies = 1e-6, []
    for step in (-h, h):
        there = m.copy()
        there[flat.x] += step * rates
        there[flat.y] = run.output(there)
        energies.append(there[flat.where["energy"]][0])
    m[flat.y] = run.output(m)
    sd = m[flat.where["qd"]][1]
    force = m[flat.where["rub_force"]][0]
    assert_allclose(force, np.clip(-(300.0 * bend + 5.0 * sd), -2.0, 1.0) - 0.5 * sd)
    assert_allclose(rate, -(300.0 * bend + force + 0.5 * sd) / 5.0)
    power = force * sd + 300.0 * bend * rate
    if name == "hybrid":  # and the power of the prescribed joint
        power += m[flat.where["tau_prescribed"]][0] * m[flat.where["qd"]][-1]
    assert power <= 0.0
    assert_allclose((energies[1] - energies[0]) / (2 * h), power, atol=1e-6)
