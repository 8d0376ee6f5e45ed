"""Base parameters, identification, physically possible inertias and excitation trajectories."""

import os
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from campaign import sized
from identification_runs import noisy_fits
from loop_models import four_bar
from planar_models import random_planar_tree
from published import published
from random_models import MODELS, random_inertia, random_state, random_tree
from rigidblocks import Model, Prismatic, Revolute, compiled_dynamics
from rigidblocks.dynamics import (
    crba,
    inertial_parameters,
    regressor,
    replace_inertial_parameters,
    rnea,
)
from rigidblocks.dynamics.loops import assemble, loop_constraints
from rigidblocks.robot_description.load import load_model, puma560
from rigidblocks.studies.exciting_motion import ExcitingMotion, LimitedSeries, exciting_motion
from rigidblocks.studies.identification import (
    JOINT_TERMS,
    BaseParameters,
    base_parameters,
    compiled_base_regressor,
    identify,
    pseudo_inertia,
)

ROBOTS = published(".urdf")
FULL = "FULL_TESTS" in os.environ


def random_arm(rng, n=3):
    """Return an arm with n skew revolute joints and random inertias."""
    return random_tree(rng, tuple(range(-1, n - 1)), (Revolute(),) * n)


def motion_of(model, rng, n=400):
    return tuple(rng.normal(size=(n, model.nv)) for _ in range(3))


def forces(model, motion):
    return compiled_dynamics(model, "rnea", batch=True)(*motion)


# --- base parameters ---


def count_of_gautier_and_khalil(model):
    """Return the number of base parameters of a serial arm by the rules of Gautier and Khalil.

    The first joint is parallel to gravity, so that only Izz of link 1 has an effect. No other joint
    is always parallel to it. Each of these joints has the seven parameters Ixx - Iyy, Ixy, Ixz,
    Iyz, Izz, hx and hy.
    """
    assert all(type(joint) is Revolute for joint in model.joint)
    return 1 + 7 * (model.nb - 1)


def test_puma_560_has_36_base_parameters():
    model = puma560().model
    base = base_parameters(model)
    assert len(base) == count_of_gautier_and_khalil(model) == 36
    # the groups of Khalil and Dombre, Modeling, Identification and Control of Robots, 9.4: the
    # mass, hz and Iyy of a link join the parameters of the previous link
    names = "; ".join(base.names)
    assert "Ixx of link6 - Iyy of link6" in base.names
    assert "Izz of link5 + Iyy of link6" in base.names
    assert "hx of link2 + 0.4318 m of link3" in names
    assert {"m of link1", "hz of link1", "m of link2"} <= set(base.unidentifiable)


@pytest.mark.interop
@pytest.mark.skipif(
    not ROBOTS,
    reason="example-robot-data is not installed (`pip install example-robot-data`)",
)
def test_panda_has_43_base_parameters():
    """Gaz et al. (2019) report 43 dynamic coefficients of the Panda with a locked gripper."""
    path = ROBOTS["panda_description/urdf/panda.urdf"]
    model = load_model(path).model
    arm = Model(
        "panda", model.parent[:7], model.joint[:7], model.Xtree[:7], model.inertia[:7],
        body_names=model.body_names[:7], joint_names=model.joint_names[:7],
    )  # fmt: skip
    assert len(base_parameters(arm)) == count_of_gautier_and_khalil(arm) == 43


def test_number_of_base_parameters_is_the_rank_of_the_stacked_regressor():
    """NumPy computes the rank from the singular values, a second method."""
    rng = np.random.default_rng(21)
    for model in (random_arm(rng), MODELS["branched"](), MODELS["mixed"]()):
        rows = [
            regressor(model, *(rng.normal(size=model.nv) for _ in range(3))) for _ in range(150)
        ]
        W = np.concatenate(rows)
        W = W[:, np.any(W, axis=0)]
        rank = np.linalg.matrix_rank(W / np.linalg.norm(W, axis=0), tol=1e-9 * len(W) ** 0.5)
        assert len(base_parameters(model)) == rank


@pytest.mark.parametrize("name", ["planar2", "mixed", "satellite"])
def test_base_parameters_determine_the_joint_forces(name):
    """Parameters with the same base parameters result in the same joint forces."""
    model, rng = MODELS[name](), np.random.default_rng(22)
    base = base_parameters(model)
    phi = inertial_parameters(model)
    null = np.linalg.svd(base.matrix)[2][len(base) :]
    other = phi + 1e-3 * null.T @ rng.normal(size=len(null))
    for _ in range(5):
        s = random_state(rng, model)
        Y = regressor(model, s.q, s.qd, s.qdd)
        size = np.abs(Y @ phi).max()
        assert_allclose(Y @ other, Y @ phi, rtol=0, atol=1e-10 * size)
        assert_allclose(Y[:, base.independent] @ base.matrix, Y, rtol=0, atol=1e-9)


def test_pendulum_has_the_base_parameters_of_its_equation():
    """The equation (Izz) qdd + g (hx cos q - hy sin q) = tau has three parameters."""
    model = MODELS["pendulum"]()
    base = base_parameters(model, joint_terms=("viscous", "rotor"))
    (body,), (joint,) = model.body_names, model.joint_names
    assert base.names == (
        f"hx of {body}",
        f"hy of {body}",
        f"Izz of {body} + rotor of {joint}",
        f"viscous of {joint}",
    )
    assert base.units == ("kg.m", "kg.m", "kg.m2", "N.m.s/rad")


def test_base_parameters_do_not_depend_on_the_size_of_the_robot():
    rng = np.random.default_rng(23)
    model = random_arm(rng)
    counts = []
    for factor in (1e-3, 1.0, 1e3):
        places = tuple(replace(X, r=factor * np.asarray(X.r)) for X in model.Xtree)
        counts.append(len(base_parameters(replace(model, Xtree=places))))
    assert len(set(counts)) == 1


# --- estimation ---


@pytest.mark.slow
def test_identification_from_exact_data_returns_the_true_base_parameters():
    rng = np.random.default_rng(24)
    model = random_arm(rng)
    motion = motion_of(model, rng)
    viscous, coulomb, offset, rotor = rng.uniform(0.1, 1.0, (4, model.nv))
    tau = forces(model, motion) + viscous * motion[1] + coulomb * np.sign(motion[1]) + offset
    tau += rotor * motion[2]
    terms = ("viscous", "coulomb", "offset", "rotor")
    found = identify(model, *motion, tau, joint_terms=terms)
    true = np.concatenate([inertial_parameters(model), viscous, coulomb, offset, rotor])
    expected = found.base.matrix @ true
    assert_allclose(found.values, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_parameters_of_a_planar_arm_are_identified_from_exact_data():
    rng = np.random.default_rng(25)
    model = random_planar_tree(rng, (-1, 0, 1)).with_gravity((0.0, -9.81))
    motion = motion_of(model, rng, 200)
    tau = np.array([rnea(model, *one) for one in zip(*motion, strict=True)])
    found = identify(model, *motion, tau)
    expected = found.base.matrix @ inertial_parameters(model)
    assert_allclose(found.values, expected, rtol=0, atol=1e-10)
    wrong = replace_inertial_parameters(model, 1.3 * inertial_parameters(model))
    noisy = identify(wrong, *motion, tau + 0.01 * rng.normal(size=tau.shape))
    fitted = found.base.matrix @ inertial_parameters(noisy.physical_model)
    assert_allclose(fitted, noisy.values, rtol=0, atol=np.max(noisy.deviations))


@pytest.mark.slow
def test_parameters_of_a_mechanism_are_identified_from_its_actuator_torque():
    """The oracle is d'Alembert's principle for the motion of one coordinate.

    The actuator force of joint 1 is N^T (H qdd + C) / N_1, with the only allowed motion N.
    """
    model, rng = four_bar(), np.random.default_rng(26)
    q0 = assemble(model, np.array([1.0, -0.5, 1.2]))
    motions = []
    for _ in range(120):
        q = assemble(model, q0 + 0.4 * rng.normal(size=3))
        K = loop_constraints(model, q, np.zeros(3)).K
        N = np.linalg.svd(K)[2][-1]
        qd = rng.normal() * N
        c = loop_constraints(model, q, qd)
        qdd = np.linalg.pinv(c.K, rcond=1e-9) @ c.k + rng.normal() * N
        power = N @ (crba(model, q) @ qdd + rnea(model, q, qd, np.zeros(3)))
        motions.append((q, qd, qdd, np.array([power / N[0], 0.0, 0.0])))
    q, qd, qdd, tau = map(np.array, zip(*motions, strict=True))
    found = identify(model, q, qd, qdd, tau)
    expected = found.base.matrix @ inertial_parameters(model)
    assert len(found.base) < len(base_parameters(replace(model, loops=())))
    assert_allclose(found.values, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


@pytest.mark.slow
def test_confidence_intervals_contain_the_true_values_in_95_percent_of_all_cases():
    """Each of 250 fits (4,000 with FULL_TESTS) has 22 base parameters and another noise."""
    rng = np.random.default_rng(27)
    model = random_arm(rng, 3)
    base = base_parameters(model)
    true = base.matrix @ inertial_parameters(model)
    motion = motion_of(model, rng, 60)
    exact, sigma = forces(model, motion), np.array([0.5, 0.1, 0.03])
    inside = []
    for _ in range(4_000 if FULL else 250):
        found = identify(model, *motion, exact + sigma * rng.normal(size=exact.shape), base=base)
        low, high = found.intervals.T
        inside.append((low < true) & (true < high))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_identified_inertias_are_physically_possible_for_any_noise():
    """The noise is up to ten times as large as the joint forces, and another for each joint."""
    found = noisy_fits(random_arm(np.random.default_rng(28)), sized(10_000, 60), seed=30)
    assert found.impossible == 0
    assert found.smallest > 0.0
    assert found.coverage == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
def test_physical_inertias_have_the_estimated_base_parameters():
    """The original model is wrong; the identified model has the joint forces of the true robot."""
    rng = np.random.default_rng(29)
    true = random_arm(rng, 3)
    guess = replace(true, inertia=tuple(random_inertia(rng) for _ in range(3)))
    motion = motion_of(true, rng, 2000)
    exact = forces(true, motion)
    tau = exact + 0.2 * motion[1] + 0.01 * rng.normal(size=exact.shape)
    found = identify(guess, *motion, tau, joint_terms=["viscous"])
    again = forces(found.physical_model, motion)
    assert np.std(again - exact) <= 0.005
    assert list(found.joint_parameters) == [f"viscous of {name}" for name in true.joint_names]
    assert_allclose(list(found.joint_parameters.values()), 0.2, atol=0.01)


def test_pseudo_inertia_of_point_masses_is_the_sum_of_their_outer_products():
    rng = np.random.default_rng(30)
    masses, points = rng.uniform(0.1, 1.0, 7), rng.normal(size=(7, 3))
    outer = sum(m * np.outer([*p, 1.0], [*p, 1.0]) for m, p in zip(masses, points, strict=True))
    I = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True))
    h = masses @ points
    phi = [masses.sum(), *h, I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
    assert_allclose(pseudo_inertia(phi), outer, rtol=1e-12, atol=1e-12)


# --- excitation trajectories ---

LIMITS = {"lower": -2.0, "upper": 2.5, "velocity": 2.0, "acceleration": 6.0}


@pytest.mark.slow
def test_excitation_trajectory_has_half_the_condition_number_of_the_best_random_trajectory():
    model = puma560().model
    base = base_parameters(model)
    found = exciting_motion(model, 10.0, base=base, iterations=150, seed=1, **LIMITS)
    series = LimitedSeries(model, 10.0, 5, *LIMITS.values())
    compiled = compiled_base_regressor(model, base, ())
    rng = np.random.default_rng(31)
    best = min(
        np.linalg.cond(compiled(*series.motion(x)).reshape(-1, len(base)))
        for x in rng.normal(size=(1000, series.size))
    )
    assert found.condition <= best / 2
    # the condition number of 2,000 samples, from singular values
    t = np.linspace(0, 10.0, 2000, endpoint=False)
    W = compiled(*found(t)).reshape(-1, len(base))
    assert np.linalg.cond(W) == pytest.approx(found.condition, rel=0.02)


@pytest.mark.slow
def test_excitation_trajectory_satisfies_the_limits_and_is_periodic():
    model = random_arm(np.random.default_rng(32), 2)
    found = exciting_motion(model, 4.0, iterations=3, **LIMITS)
    t = np.linspace(0, 4.0, 777)
    q, qd, qdd = found(t)
    assert np.all(q >= LIMITS["lower"])
    assert np.all(q <= LIMITS["upper"])
    assert np.all(np.abs(qd) <= LIMITS["velocity"])
    assert np.all(np.abs(qdd) <= LIMITS["acceleration"])
    assert_allclose(q[0], q[-1], atol=1e-12)
    assert_allclose(np.gradient(q, t, axis=0)[5:-5], qd[5:-5], atol=2e-3)
    assert_allclose(np.gradient(qd, t, axis=0)[5:-5], qdd[5:-5], atol=1e-2)


# --- wrong input ---


@pytest.mark.slow
def test_motion_that_does_not_excite_all_parameters_is_rejected():
    model, rng = random_arm(np.random.default_rng(33)), np.random.default_rng(34)
    q, qd, qdd = (x.copy() for x in motion_of(model, rng))
    qd[:, 1:], qdd[:, 1:], q[:, 1:] = 0.0, 0.0, 0.3
    with pytest.raises(ValueError, match=r"motion does not determine all .* base parameters"):
        identify(model, q, qd, qdd, forces(model, (q, qd, qdd)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"tau": np.zeros((400, 2))},
            r"tau of the motion .* shape \(400, 2\); expected \(400, 3\)",
        ),
        (
            {"qd": np.full((400, 3), np.nan)},
            "qd of the motion has values that are not finite in row",
        ),
        ({"joint_terms": ["friction"]}, "unknown joint term 'friction'; available: viscous"),
        ({"level": 1.5}, "confidence level must be between 0 and 1, not 1.5"),
        ({"base": "pendulum"}, "belong to another model or to other joint terms"),
        ({"tau": np.zeros((400, 3))}, "tau is zero in all samples; .* nonzero joint forces"),
        ({"tau": np.full((400, 3), 1e-170)}, "tau is zero in all samples"),
    ],
    ids=["shape", "nan", "term", "level", "base", "zero forces", "underflow"],
)
def test_invalid_identification_input_is_rejected(change, message):
    rng = np.random.default_rng(35)
    model = random_arm(rng)
    names = ("q", "qd", "qdd", "tau")
    given = dict(zip(names, (*motion_of(model, rng), rng.normal(size=(400, 3))), strict=True))
    if change.get("base") == "pendulum":
        change = {"base": base_parameters(MODELS["pendulum"]())}
        assert isinstance(change["base"], BaseParameters)
    with pytest.raises(ValueError, match=message):
        identify(model, **{**given, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": -np.inf}, "position limits must be finite"),
        ({"lower": 3.0}, "lower below upper"),
        ({"velocity": 0.0}, "velocity must be positive"),
        ({"acceleration": [1.0, 2.0, 3.0]}, r"acceleration has the shape \(3,\); expected \(2,\)"),
        ({"harmonics": 0}, "harmonics must be at least 1"),
        ({"period": -1.0}, "period must be positive, not -1.0 s"),
    ],
)
def test_invalid_limits_of_an_excitation_trajectory_are_rejected(change, message):
    model = random_arm(np.random.default_rng(36), 2)
    with pytest.raises(ValueError, match=message):
        exciting_motion(model, **{"period": 4.0, **LIMITS, **change})


def test_identification_rejects_too_few_samples():
    model = MODELS["planar2"]()
    one = np.zeros((1, 2))
    with pytest.raises(ValueError, match=r"1 samples of 2 joint forces are too few for \d+ base"):
        identify(model, one, one, one, one)


def test_excitation_trajectory_of_a_closed_loop_or_free_body_is_rejected():
    for model, reason in ((four_bar(), "loops"), (MODELS["satellite"](), "quaternions")):
        with pytest.raises(ValueError, match=reason):
            exciting_motion(model, 4.0, **LIMITS)


def test_friction_terms_of_prismatic_joints_have_units_of_force():
    model = random_tree(np.random.default_rng(37), (-1,), (Prismatic(),))
    base = base_parameters(model, joint_terms=("viscous", "coulomb"))
    assert base.units[-2:] == ("N.s/m", "N")


def test_identified_joint_terms_have_the_unit_of_their_degree_of_freedom():
    """The terms of the translations of a floating joint have units of force."""
    base = base_parameters(MODELS["satellite"](), joint_terms=JOINT_TERMS)
    units = dict(zip((base.parameters[k] for k in base.independent), base.units, strict=True))
    names = MODELS["satellite"]().joint_names
    turning = {"viscous": "N.m.s/rad", "coulomb": "N.m", "offset": "N.m", "rotor": "kg.m2"}
    sliding = {"viscous": "N.s/m", "coulomb": "N", "offset": "N", "rotor": "kg"}
    for term in ("viscous", "coulomb"):
        for k in range(6):
            expected = (turning if k < 3 else sliding)[term]
            assert units[f"{term} of {names[0]}[{k + 1}]"] == expected
    rotors = [(name, unit) for name, unit in units.items() if name.startswith("rotor")]
    for name, unit in rotors:
        assert unit == ("kg" if name[-2] in "456" else "kg.m2")


def test_excitation_trajectory_rejects_base_parameters_computed_for_other_joint_terms():
    model = random_arm(np.random.default_rng(38), 2)
    base = base_parameters(model, joint_terms=["viscous"])
    with pytest.raises(ValueError, match="another model or to other joint terms"):
        exciting_motion(model, 4.0, base=base, iterations=1, **LIMITS)
    with pytest.raises(TypeError, match="base must be a result of base_parameters, not 'x'"):
        exciting_motion(model, 4.0, base="x", iterations=1, **LIMITS)


@pytest.mark.parametrize("harmonics", [1, 5, pytest.param(60, marks=pytest.mark.slow)])
def test_excitation_trajectory_with_many_harmonics_satisfies_its_limits_between_samples(harmonics):
    model = random_arm(np.random.default_rng(39), 2)
    rng = np.random.default_rng(40)
    series = LimitedSeries(model, 1.0, harmonics, *LIMITS.values())
    for _ in range(5):
        center, sine, cosine = series.coefficients(rng.normal(size=series.size))
        motion = ExcitingMotion(1.0, center, sine, cosine, 1.0)
        q, qd, qdd = motion(np.linspace(0, 1.0, 60_000))
        assert np.all(q >= LIMITS["lower"])
        assert np.all(q <= LIMITS["upper"])
        assert np.all(np.abs(qd) <= LIMITS["velocity"])
        assert np.all(np.abs(qdd) <= LIMITS["acceleration"])
