"""Stacks, heavy bodies on light bodies and friction close to its limit match analytic motion."""

from dataclasses import replace

import numpy as np
import pytest

import rigid_scenes
from scripts import script

pytestmark = pytest.mark.slow
H = 1e-3


@pytest.fixture(scope="module")
def problems():
    return script("benchmarks/contact_problems.py")


def run(problems, problem, **options):
    """Return the outputs, and the largest centre-of-mass deviation over bodies and time."""
    y = rigid_scenes.run(replace(problems.plant_of(problem, H), **options), problem.T)
    off = max(problems.deviation(problem, (k + 1) * H, q) for k, q in enumerate(y.q))
    assert y.left_out.max() == 0
    return y, off


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("tower of 10 equal boxes", 1e-9),
        ("the same, the topmost 100 times as heavy", 1e-7),
        ("the same, the topmost 10,000 times as heavy", 1e-6),
        ("the same, the lowest 10,000 times as heavy", 1e-9),
        ("6 bricks with 0.99 of the maximum overhang", 1e-9),
        ("pyramid of 55 boxes", 1e-6),
        ("15 logs between walls", 1e-7),
        ("55 cannonballs in a pit", 1e-8),
        ("plate of 1,000 kg on 36 legs of 0.1 kg", 1e-7),
        ("1,000 kg on a slope against 10 boxes of 1 kg", 1e-6),
        ("box on a slope, 0.99 of the friction angle", 1e-8),
        ("box on a slope, 1.01 of the friction angle", 1e-7),
        ("plank of 1,000 kg on rollers of 0.1 kg", 1e-4),
        ("board against a wall, 0.98 of the largest stable angle", 1e-9),
        ("board against a wall, 1.02 of the largest stable angle", 1e-6),
    ],
)
def test_motions_of_benchmark_bodies_match_the_analytic_solution(problems, name, limit):
    y, off = run(problems, problems.PROBLEMS[name]())
    assert off < limit
    assert y.depth.max() < limit


@pytest.mark.parametrize("h", [1e-2, 4e-3, 2.5e-4])
@pytest.mark.parametrize("heavy", [1e4, 1e6])
def test_heavy_box_stays_on_a_tower_of_light_boxes_for_any_step_size(problems, heavy, h):
    problem = problems.tower(10, top=heavy)._replace(T=0.5)
    y = rigid_scenes.run(problems.plant_of(problem, h), problem.T)
    assert max(problems.deviation(problem, h, q) for q in y.q) < 1e-6
    weight = 9.81 * sum(body.m for body in problem.bodies)
    assert y.f_contact[-1].reshape(-1, 6)[:, 5].sum() == pytest.approx(weight, rel=1e-3)


@pytest.mark.parametrize("n", [3, 20, 40])
def test_towers_of_3_to_40_boxes_stay_at_rest_under_a_heavy_box(problems, n):
    assert run(problems, problems.tower(n, top=1e4)._replace(T=0.5))[1] < 1e-6


def test_leg_forces_of_a_ten_legged_table_add_up_to_the_weight(problems):
    problem = problems.table(1e3, 10, 0.1)._replace(T=0.3)
    y, off = run(problems, problem)
    weight = 9.81 * sum(body.m for body in problem.bodies)
    assert off < 1e-8
    assert y.f_contact[-1].reshape(-1, 6)[:, 5].sum() == pytest.approx(weight, rel=1e-4)


@pytest.mark.parametrize("roller", [1.0, 10.0])
def test_heavy_plank_on_rollers_has_the_analytic_acceleration(problems, roller):
    assert run(problems, problems.on_rollers(1e3, roller))[1] < 1e-5


def test_bricks_beyond_the_maximum_overhang_fall(problems):
    y, _ = run(problems, problems.overhanging(6, 1.01))
    assert np.any(y.q[-1].reshape(-1, 7)[:, 6] < 0.06 * np.arange(6) - 0.03)
