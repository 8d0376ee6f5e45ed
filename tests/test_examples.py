"""Examples run, print their results and reproduce the values of worked problems."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scripts import script

EXAMPLES = Path(__file__).parents[1] / "examples"
RTOL = 1e-12  # linear systems with six unknowns and condition numbers up to 1000

# arguments, patterns of the output, created files; other examples must only succeed
EXPECTED = {
    "01_planar2ctrl": (
        ["--t-stop", "0.2"],
        [
            r"NumPy blocks +0\.2 s",
            r"native FMUs +0\.2 s",
            r"Python FMUs +0\.2 s",
            r"fused +0\.2 s",
            r"wrote build/planar2ctrl/result\.csv",
            r"open build/planar2ctrl/result\.html to see it move\n$",
        ],
        [f"build/planar2ctrl/result.{kind}" for kind in ("csv", "png", "html")],
    ),
    "02_two_body_problem": (
        [],
        [r"by hand +0\.0+ +0\.0+ +-2\.250000 +0\.0+ +1\.312500 +0\.0+", r"difference: \d\.\de-1\d"],
        [],
    ),
    "03_six_d_vectors": (
        [],
        [
            r"hinged rod: it turns by 9\.0 rad/s\^2",
            r"aba +\d\.\de-1\d",
            r"pose of the goal +\d\.\de-1\d",
        ],
        [],
    ),
    "22_arm_bench": (
        [],
        [
            r"its stop at -0\.4 rad holds it at -0\.40\d",
            r"the base bears 19\.62 N; the arm weighs 19\.62 N",
        ],
        ["build/arm_bench/result.png"],
    ),
    "24_cut_in_three": (
        [],
        [r"each part: \[2, 7, 7\]", r"that of the whole, relative", r"left alone: \d\.\de-1\d"],
        [],
    ),
    "28_trot": (
        [],
        [r"native FMU: \d+ x real time", r"way in ten seconds \[m\] +[4-5]\.\d"],
        ["build/trot/quadruped.fmu", "build/trot/result.html"],
    ),
    "29_biped_on_stairs": (
        [],
        [r"native FMU: \d+ x real time", r"it has climbed \[m\] +4\.[78]\d*e-01"],
        ["build/biped/biped.fmu", "build/biped/result.html"],
    ),
    "30_cart_poles": (
        [],
        [r"CartPole-v1: \d\.\de-1\d", r"keeps (9\d|100)% of 256 new poles up for 10 s"],
        ["build/cart_poles/result.png"],
    ),
    "31_time_optimal_swing": (
        [],
        [
            r"the swing takes 1\.15[78]\d s",
            r"a motor has its largest torque in (9\d|100) % of the intervals",
            r"ends \d\.\de-0[4-9] rad from the goal",
        ],
        ["build/time_optimal_swing/five_bar.json", "build/time_optimal_swing/result.png"],
    ),
    "32_moving_horizon": (
        [],
        [
            r"0\.1 to 0\.4 s: payload 0\.[67]\d\d kg",
            r"1[012] of 12 intervals of windows without the drop contain the true mass",
            r"RMS error of the velocities: \d\.\de-0[3-9] rad/s",
        ],
        ["build/moving_horizon/result.png"],
    ),
    "21_sprung_arm": (
        [],
        [r"off the balance of power by \d\.\de-0[1-9] J of 227 J"],
        ["build/sprung_arm/arm.fmu", "build/sprung_arm/result.png"],
    ),
}
# examples that build FMUs or have long compile times
LONG = {
    "01_planar2ctrl",
    "10_five_bar",
    "11_four_bar",
    "14_stewart_platform",
    "15_five_bar_fmus",
    "18_quadruped",
    "19_gripper",
    "20_planar2_wall",
    "21_sprung_arm",
    "22_arm_bench",
    "28_trot",
    "29_biped_on_stairs",
    "30_cart_poles",
    "31_time_optimal_swing",
    "32_moving_horizon",
}
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in NAMES]
)
def test_example_runs_as_a_script_with_the_expected_output(name, tmp_path):
    arguments, patterns, files = EXPECTED.get(name, ([], [r"\S"], []))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for pattern in patterns:
        assert re.search(pattern, done.stdout), f"{pattern} is not in the output:\n{done.stdout}"
    for file in files:
        assert (tmp_path / file).stat().st_size > 0


def test_examples_have_unique_numbers_and_docstrings():
    for name in NAMES:
        assert re.fullmatch(r"\d\d_[a-z0-9_]+", name)
        assert (EXAMPLES / f"{name}.py").read_text().startswith('"""')
    numbers = [name[:2] for name in NAMES]
    assert len(set(numbers)) == len(numbers)


@pytest.fixture(scope="module")
def two_bodies():
    return script("examples/02_two_body_problem.py")


@pytest.fixture(scope="module")
def six_d():
    return script("examples/03_six_d_vectors.py")


# worked two-body problem of Part 1 of the guide


def test_hinge_force_between_two_rods_is_one_eighth_of_the_applied_force(two_bodies):
    # Newton-Euler equations by hand with the hinge force R = f / 8:
    # a1 = (f - R) / m, wd1 = -R (l / 2) / (m l^2 / 12)
    m, l, f = 2.0, 0.5, 3.0
    problem, known = two_bodies.rods(m, l, f)
    R = f / 8
    by_hand = np.array([0, 0, -R * (l / 2) / (m * l**2 / 12), 0, (f - R) / m, 0])
    assert_allclose(known, by_hand, rtol=RTOL)
    for way in (
        two_bodies.with_3d_vectors,
        two_bodies.with_spatial_vectors,
        two_bodies.with_the_algorithm,
    ):
        assert_allclose(way(problem), by_hand, rtol=0, atol=RTOL * f)


@pytest.mark.parametrize("seed", range(10))
def test_accelerations_from_3d_vectors_spatial_vectors_and_aba_agree_for_two_bodies(
    two_bodies, seed
):
    problem = two_bodies.random_bodies(seed)
    a = two_bodies.with_3d_vectors(problem)
    for way in (two_bodies.with_spatial_vectors, two_bodies.with_the_algorithm):
        assert_allclose(way(problem), a, rtol=0, atol=RTOL * np.abs(a).max())


def test_joint_force_of_the_two_body_problem_does_no_work_on_the_hinge(two_bodies):
    # f_J = I2 a2 with a2 = a1 + s alpha; s . f_J = 0 and f - f_J = I1 a1 (Eqs S33 to S36)
    p = two_bodies.random_bodies(3)
    I1, I2 = two_bodies.mcI(p.m1, np.zeros(3), p.I1), two_bodies.mcI(p.m2, p.r1 - p.r2, p.I2)
    s = np.concatenate([p.s, np.cross(p.r1, p.s)])
    a1 = two_bodies.with_the_algorithm(p)
    f_J = np.concatenate([p.n, p.f]) - I1 @ a1
    a2 = np.linalg.solve(I2.matrix(), f_J)
    alpha = (a2 - a1)[:3] @ p.s
    assert_allclose(s @ f_J, 0, atol=1e-10)
    assert_allclose(a2 - a1, s * alpha, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_duration_of_a_swing_without_gravity_doubles_with_a_quarter_of_the_torque(
    tmp_path, monkeypatch
):
    """Accelerations scale with 1 / T^2, and torques without gravity scale with accelerations."""
    monkeypatch.chdir(tmp_path)
    example = script("examples/31_time_optimal_swing.py")
    plant = example.plant_of_file()
    fast, slow = (
        example.optimal_swing(plant, gravity=(0.0, 0.0), torque=torque, n=20)
        for torque in (60.0, 15.0)
    )
    assert_allclose(slow.T, 2.0 * fast.T, rtol=1e-5)
    assert_allclose(slow.states[:, :4], fast.states[:, :4], rtol=0, atol=1e-3)
    work = np.sum(fast.torques * np.diff(fast.states[:, example.MOTORS], axis=0))
    largest = np.max(np.abs(np.cumsum(fast.torques * np.diff(
        fast.states[:, example.MOTORS], axis=0), axis=0)))  # fmt: skip
    assert abs(work) < 1e-3 * largest  # from rest to rest


# programs of Part 2 of the guide and of the slides


def test_programs_of_featherstones_guide_agree_with_closed_forms_and_the_library(six_d):
    checks = [
        *six_d.arm_checks(),
        *six_d.tree_checks(),
        *six_d.kinematics_check(),
        *six_d.constraint_check(),
    ]
    assert len(checks) == 8
    for name, apart in checks:
        assert apart < six_d.TOLERANCE, name


def test_inverse_kinematics_of_featherstones_guide_converges_quadratically(six_d):
    model = six_d.auto_tree(6, 1, 1.0, 0.9)
    rng = np.random.default_rng(11)
    goal = rng.uniform(-1, 1, 6)
    X_goal, _ = six_d.body_position(model, 5, goal)
    _, steps = six_d.inverse_kinematics(model, 5, X_goal, goal + 0.05 * rng.uniform(-1, 1, 6))
    assert steps[-1] < 1e-10
    # the displacement error is quadratic in the angle, so the error of the next step is quadratic
    close = [(a, b) for a, b in pairwise(steps) if 1e-7 < a < 0.1]
    assert close
    assert all(b < 50 * a**2 + 1e-13 for a, b in close)


def test_jacobian_of_featherstones_guide_maps_joint_velocities_to_the_body_velocity(six_d):
    # dX/dt = -v x X (RBDA Eq 2.45) with v = J qd, by central differences
    model, step = six_d.auto_tree(7, 2, 0.6, 0.9), 1e-6
    rng = np.random.default_rng(5)
    q, qd = rng.uniform(-1, 1, (2, 7))
    for body in range(7):
        X, J = six_d.body_position(model, body, q)
        ahead, behind = (
            six_d.body_position(model, body, q + sign * step * qd)[0].matrix() for sign in (1, -1)
        )
        assert_allclose((ahead - behind) / (2 * step), -six_d.crm(J @ qd) @ X.matrix(), atol=1e-7)


def test_accelerations_from_motion_subspace_and_from_force_subspace_agree(six_d):
    rng = np.random.default_rng(4)
    for freedoms in (1, 2, 4):
        S = rng.normal(size=(6, freedoms))
        T = np.linalg.svd(S.T)[2][freedoms:].T  # forces that do no work along S
        L = rng.normal(size=(6, 6))
        by_motion, by_force = six_d.constrained_acceleration(
            L @ L.T + np.eye(6), S, T, rng.normal(size=6)
        )
        assert_allclose(by_motion, by_force, rtol=0, atol=1e-10 * np.abs(by_force).max())


@pytest.mark.slow
def test_picture_in_the_readme_is_the_picture_that_its_example_draws():
    """Coordinates and angles differ by at most one unit of the last printed digit."""
    drawn = script("examples/27_moving_picture.py").picture()
    kept = (EXAMPLES.parent / "docs/planar2ctrl.svg").read_text()
    number = r"-?\d+\.?\d*"
    assert re.sub(number, "0", kept) == re.sub(number, "0", drawn)
    values = [[float(x) for x in re.findall(number, text)] for text in (kept, drawn)]
    assert_allclose(*values, atol=0.11)
    assert len(kept) < 500_000
