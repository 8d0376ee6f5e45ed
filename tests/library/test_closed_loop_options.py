"""Options of the closed-loop plant: independent coordinates and conserved energy."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import loop_model
from moved_models import winch
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.independent_motion import move_independently
from rigidblocks.dynamics import energy
from rigidblocks.dynamics.drives import Drive, Follower
from rigidblocks.dynamics.loops import (
    check_independent,
    dependent_motion,
    joint_coordinates,
    loop_constraints,
    mobility,
    position_constraints,
)
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.configuration import integrate_unchecked
from rigidblocks.robot.robots import five_bar, four_bar

FIVE_BAR, Q0, QD0 = five_bar()
CRANKS = (0, 3)


def run(plant, t_stop, h=1e-3, **inputs):
    """Return the outputs of a compiled run with constant inputs, by name."""
    flat = Memory(plant)
    stepper, m = compiled_stepper(flat, h=h), flat.start()
    for name, value in inputs.items():
        m[flat.where[name]] = value
    stepper.initialize(m, 0.0)
    rows = [m.copy()]
    for k in range(round(t_stop / h)):
        stepper.step(m, k * h, h)
        rows.append(m.copy())
    return {port.name: np.array(rows)[:, flat.where[port.name]] for port in plant.outputs}


@pytest.mark.parametrize("name", ["spatial four-bar", "three loops", "doubled"])
def test_dependent_velocities_close_the_loops_and_independent_velocities_do_not_change(name, rng):
    model, (q, qd, _, _) = loop_model(name)
    K = position_constraints(model, q).K
    free = mobility(model, q)

    def smallest(chosen):
        both = np.vstack([np.eye(model.nv)[list(chosen)], K])
        return np.linalg.svd(both, compute_uv=False)[model.nv - 1]

    chosen = list(max(combinations(range(model.nv), free), key=smallest))
    moved = integrate_unchecked(model, q, rng.uniform(-1e-4, 1e-4, model.nv))
    there, velocity, condition = dependent_motion(model, moved, qd, chosen)
    assert_allclose(loop_constraints(model, there, velocity).delta, 0, atol=1e-12)
    assert_allclose(loop_constraints(model, there, velocity).K @ velocity, 0, atol=1e-11)
    assert_allclose(velocity[chosen], qd[chosen], atol=1e-13)
    if model.nq == model.nv:
        assert_allclose(there[chosen], moved[chosen], atol=1e-14)
    assert 1.0 <= condition < 1e3


@pytest.mark.slow
def test_stabilization_by_independent_joints_matches_motion_in_independent_coordinates():
    # both use the same method in the same coordinates; Newton's iteration differs by rounding
    plant = ClosedLoopPlant(FIVE_BAR, Q0, QD0, stabilization="independent", independent=CRANKS)
    y = run(plant, 0.05, h=5e-3)
    coordinates = joint_coordinates(FIVE_BAR, Q0, CRANKS)
    expected = move_independently(
        FIVE_BAR, Q0, QD0, lambda *_: np.zeros(4), 0.05, 5e-3, coordinates,
        choose=lambda model, q: joint_coordinates(model, q, CRANKS),
    )  # fmt: skip
    assert_allclose(y["q"], expected["q"], rtol=0, atol=1e-11)
    assert_allclose(y["qd"], expected["qd"], rtol=0, atol=1e-10)
    assert y["loop_error"].max() < 1e-14
    assert y["coordinate_condition"].max() < 100


@pytest.mark.slow
def test_condition_number_grows_if_independent_joints_become_dependent():
    # the cranks of the five-bar are no valid coordinates if its coupler links are collinear
    plant = ClosedLoopPlant(FIVE_BAR, Q0, QD0, stabilization="independent", independent=CRANKS)
    condition = run(plant, 0.7)["coordinate_condition"]
    assert condition.max() > 20 * condition[0]


@pytest.mark.slow
def test_motion_with_the_keep_energy_option_satisfies_the_energy_balance():
    force = np.array([3.0, -2.0, 1.0, 0.5])
    free, pushed = (
        run(ClosedLoopPlant(FIVE_BAR, Q0, QD0, keep_energy=True), 1.5, h=4e-3, tau=tau)
        for tau in (np.zeros(4), force)
    )
    start = energy(FIVE_BAR, Q0, QD0)
    assert_allclose(free["energy"], start, rtol=1e-13)
    # the work by Simpson's rule over the recorded powers
    assert_allclose(pushed["energy"][:, 0], pushed["energy_due"][:, 0], rtol=1e-13)
    power = pushed["qd"] @ force
    work = 4e-3 / 3 * (power[:-2:2] + 4 * power[1:-1:2] + power[2::2]).cumsum()
    assert_allclose(pushed["energy"][2::2, 0] - start, work, atol=2e-4)
    assert np.abs(work).max() > 1.0
    # without `keep_energy` the coarse steps change the energy
    loose = run(ClosedLoopPlant(FIVE_BAR, Q0, QD0), 1.5, h=4e-3)["energy"]
    assert np.abs(loose - start).max() > 1e-6


@pytest.mark.slow
def test_energy_balance_of_the_keep_energy_option_includes_wrenches_and_loop_forces(rng):
    model, q0, qd0 = four_bar()
    plant = ClosedLoopPlant(
        model, q0, qd0, external_wrenches=True, loop_forces=True, keep_energy=True
    )
    f_ext = rng.normal(size=(3, 3))
    given = {"f_ext": f_ext.ravel(), "loop_tau": [2.0], "tau": [1.0, 0.5, -1.0]}
    kept, free = run(plant, 0.1, **given), run(replace(plant, keep_energy=False), 0.1, **given)
    assert_allclose(kept["q"], free["q"], atol=1e-9)
    assert_allclose(kept["energy"], free["energy"], atol=1e-9)
    assert abs(free["energy"][-1] - free["energy"][0]).max() > 1e-2


BAD = [
    ({"independent": (0, 3)}, "`independent` must be given if and only if"),
    ({"stabilization": "independent"}, "`independent` must be given if and only if"),
    (
        {"stabilization": "independent", "independent": (0,)},
        "has the mobility 2 in this configuration and needs as many independent variables, not 1",
    ),
    (
        {"stabilization": "independent", "independent": ("elbow",)},
        "unknown independent joint 'elbow'",
    ),
    (
        {
            "stabilization": "independent",
            "independent": (0, 3),
            "elements": (Drive("gear", 3, follower=Follower(0, 2.0)),),
        },
        "`independent` does not support a model with gears",
    ),
    (
        {"keep_energy": True, "elements": (Drive("gear", 3, follower=Follower(0, 2.0)),)},
        "keep_energy does not support model",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[m[:30] for _, m in BAD])
def test_conflicting_loop_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ClosedLoopPlant(FIVE_BAR, Q0, QD0, **options)


def test_keep_energy_option_is_rejected_for_driven_models_and_dependent_coordinates():
    with pytest.raises(ValueError, match="time-dependent joints exchange energy"):
        ClosedLoopPlant(winch(), [0.0, 0.0], keep_energy=True)
    model, (q, _, _, _) = loop_model("spatial four-bar")
    with pytest.raises(ValueError, match="not 2"):
        check_independent(model, q, [0, 1])
    # if crank and coupler are collinear, the rocker reverses and is no valid coordinate
    flat = four_bar(0.5, 1.5, 1.0, 2.0, np.arccos(7 / 8))
    check_independent(flat.model, flat.q0, [0])
    with pytest.raises(ValueError, match="are dependent"):
        check_independent(flat.model, flat.q0, [2])
