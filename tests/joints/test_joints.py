"""Joint models compared with finite differences of their transforms and with each other."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import joints_of_all_types
from rigidblocks.robot.joints import (
    Cylindrical,
    EulerSpherical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    RackAndPinion,
    Reversed,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
    joint_from_pitch,
)
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import Transform, crm, rotx, roty, rotz, rz, xlt
from rigidblocks.tracing.trace import trace

RTOL = 1e-13  # rounding errors of a few dozen products and sums, relative to the largest element
# fourth-order differences with step 1e-3: truncation 3e-14 times a fifth derivative of up to (sum
# of speeds)^5, and the rounding error of values of about 10 divided by the step
DIFFERENCE = 1e-9
JOINTS = joints_of_all_types(np.random.default_rng(4))


@pytest.fixture(params=JOINTS)
def joint(request):
    return JOINTS[request.param]


def close(actual, expected, rtol=RTOL):
    actual, expected = (np.asarray(value, dtype=float) for value in (actual, expected))
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


def slope(f, h=1e-3):
    """Return the derivative of f at 0, by fourth-order central differences."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def random_motion(joint, rng):
    return joint.random(rng), rng.uniform(-2, 2, joint.nv)


def still(joint, q):
    return joint.jcalc(q, np.zeros(joint.nv))


# laws of each joint


def test_joint_functions_return_arrays_of_the_declared_sizes(joint, rng):
    q, qd = random_motion(joint, rng)
    motion = joint.jcalc(q, qd)
    assert motion.S.shape == (6, joint.nv)
    assert motion.vJ.shape == motion.cJ.shape == (6,)
    assert (
        len(q) == len(joint.neutral()) == len(joint.rate(q, qd)) == len(joint.q_units) == joint.nq
    )
    assert len(joint.qd_units) == len(joint.tau_units) == len(joint.difference(q, q)) == joint.nv
    assert np.linalg.matrix_rank(motion.S) == joint.nv


def test_joint_frames_coincide_in_the_neutral_configuration(joint):
    close(still(joint, joint.neutral()).XJ.matrix(), np.eye(6))


def test_joint_transform_contains_a_proper_rotation(joint, rng):
    E = still(joint, joint.random(rng)).XJ.E
    close(E @ E.T, np.eye(3))
    close(np.linalg.det(E), 1.0)


def test_joint_velocity_matches_the_time_derivative_of_the_transform_at_integrated_positions(
    joint, rng
):
    # d(XJ)/dt = -vJ x XJ (RBDA Eq 2.45)
    q, qd = random_motion(joint, rng)
    XJ, _, vJ, _ = joint.jcalc(q, qd)
    Xdot = slope(lambda t: still(joint, joint.integrate(q, t * qd)).XJ.matrix())
    close(-Xdot @ np.linalg.inv(XJ.matrix()), crm(vJ), DIFFERENCE)


def test_joint_velocity_matches_the_transform_derivative_along_the_position_derivative(joint, rng):
    q, qd = random_motion(joint, rng)
    XJ, _, vJ, _ = joint.jcalc(q, qd)
    Xdot = slope(lambda t: still(joint, q + t * joint.rate(q, qd)).XJ.matrix())
    close(-Xdot @ np.linalg.inv(XJ.matrix()), crm(vJ), DIFFERENCE)


def test_position_derivative_matches_the_derivative_of_integrate(joint, rng):
    q, qd = random_motion(joint, rng)
    close(joint.rate(q, qd), slope(lambda t: joint.integrate(q, t * qd)), DIFFERENCE)


def test_joint_velocity_is_the_motion_subspace_times_the_velocity_variables(joint, rng):
    q, qd = random_motion(joint, rng)
    motion = joint.jcalc(q, qd)
    close(motion.vJ, motion.S @ qd)


def test_joint_bias_is_the_derivative_of_the_joint_velocity_at_constant_qd(joint, rng):
    q, qd = random_motion(joint, rng)
    cJ = slope(lambda t: still(joint, joint.integrate(q, t * qd)).S @ qd)
    close(joint.jcalc(q, qd).cJ, cJ, DIFFERENCE)


def test_difference_inverts_integrate(joint, rng):
    q, dq = joint.random(rng), rng.uniform(-1, 1, joint.nv)
    close(joint.difference(q, joint.integrate(q, dq)), dq, 1e-12)


def test_integrate_inverts_difference(joint, rng):
    a, b = joint.random(rng), joint.random(rng)
    arrived = joint.integrate(a, joint.difference(a, b))
    close(still(joint, arrived).XJ.matrix(), still(joint, b).XJ.matrix(), 1e-12)


def test_two_half_displacements_give_the_same_configuration_as_the_full_displacement(joint, rng):
    q, dq = joint.random(rng), rng.uniform(-1, 1, joint.nv)
    close(joint.integrate(joint.integrate(q, dq / 2), dq / 2), joint.integrate(q, dq), 1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-7, 0.99e-4, 1.01e-4, 1e-3])
def test_integrate_and_difference_are_accurate_for_small_steps(joint, size, rng):
    q, dq = joint.random(rng), size * rng.uniform(0.5, 1, joint.nv)
    step = joint.integrate(q, dq)
    close(
        joint.difference(q, step) / max(size, 1e-300),
        dq / max(size, 1e-300),
        1e-15 / size + 1e-11 if size else 1e-15,
    )
    close(joint.integrate(joint.integrate(q, dq / 2), dq / 2), step)


def test_normalization_does_not_change_configurations_with_unit_quaternions(joint, rng):
    q = joint.random(rng)
    close(joint.normalize(q), q)


def test_traced_and_numpy_values_of_joint_functions_agree(joint, rng):
    q, qd = random_motion(joint, rng)

    def f(q, qd):
        XJ, S, vJ, cJ = joint.jcalc(q, qd)
        there = joint.integrate(q, qd)
        ways = (
            joint.rate(q, qd),
            there,
            joint.normalize(q),
            joint.difference(q, joint.integrate(q, 0.5 * qd)),
        )
        return np.concatenate([np.ravel(part) for part in (XJ.matrix(), S, vJ, cJ, *ways)])

    graph = trace("f", lambda q, qd: {"out": f(q, qd)}, {"q": (joint.nq,), "qd": (joint.nv,)})
    close(graph(np.concatenate([q, qd])), f(q, qd), 1e-12)


# polarity (RBDA Table 4.2)


def test_joint_that_is_reversed_twice_has_the_transform_of_the_original_joint(joint, rng):
    q, qd = random_motion(joint, rng)
    once, twice = joint.jcalc(q, qd), Reversed(Reversed(joint)).jcalc(q, qd)
    close(twice.XJ.matrix(), once.XJ.matrix())
    for there, here in zip(twice[1:], once[1:], strict=True):
        close(there, here)


def test_reversed_joint_has_the_inverse_transform(joint, rng):
    q = joint.random(rng)
    close((still(Reversed(joint), q).XJ @ still(joint, q).XJ).matrix(), np.eye(6))


@pytest.mark.parametrize("name", ["revolute", "prismatic", "helical", "cylindrical"])
def test_reversed_symmetric_joint_has_the_motion_of_the_joint_with_negated_variables(name, rng):
    forward, (q, qd) = JOINTS[name], random_motion(JOINTS[name], rng)
    back, mirror = Reversed(forward).jcalc(q, qd), forward.jcalc(-q, -qd)
    close(back.XJ.matrix(), mirror.XJ.matrix())
    close(back.S, -mirror.S)
    close(back.vJ, mirror.vJ)


def test_reversed_rack_and_pinion_does_not_move_like_the_joint_with_negated_variables(rng):
    joint = RackAndPinion(0.3)
    q, qd = random_motion(joint, rng)
    assert np.abs(Reversed(joint).jcalc(q, qd).vJ - joint.jcalc(-q, -qd).vJ).max() > 0.01


# special cases and equivalent joints


def same_motion(first, second, q, qd):
    for a, b in zip(first.jcalc(q, qd), second.jcalc(q, qd), strict=True):
        close(*(part.matrix() if isinstance(part, Transform) else part for part in (a, b)))


def test_helical_joint_with_zero_pitch_moves_like_a_revolute_joint(rng):
    axis = (0.3, -0.2, 0.8)
    same_motion(Helical(0.0, axis), Revolute(axis), *random_motion(Revolute(), rng))


def test_rack_and_pinion_with_zero_radius_moves_like_a_revolute_joint(rng):
    same_motion(RackAndPinion(0.0), Revolute(), *random_motion(Revolute(), rng))


def test_helical_joint_moves_like_a_cylindrical_joint_with_coupled_variables(rng):
    q, qd = random_motion(Revolute(), rng)
    axis, bound = (0.3, -0.2, 0.8), np.array([1.0, 0.3])
    close(Helical(0.3, axis).jcalc(q, qd).vJ, Cylindrical(axis).jcalc(q * bound, qd * bound).vJ)
    close(
        Helical(0.3, axis).jcalc(q, qd).XJ.matrix(),
        Cylindrical(axis).jcalc(q * bound, qd * bound).XJ.matrix(),
    )


def test_right_handed_screw_advances_by_pitch_times_angle():
    close(still(Helical(0.3), np.array([2.0])).XJ.r, [0, 0, 0.6])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("k", range(3))
def test_rotation_about_a_coordinate_axis_matches_rbda(k, sign, rng):
    theta = rng.uniform(-3, 3)
    joint = Revolute(tuple(sign * np.eye(3)[k]))
    assert_array_equal(still(joint, np.array([theta])).XJ.E, (rotx, roty, rotz)[k](sign * theta).E)


def test_revolute_joint_about_any_axis_is_a_rotation_about_z_in_rotated_frames(rng):
    # E = R^T rz(theta) R, with a constant rotation R that maps the axis to z
    axis, theta = rng.normal(size=3), rng.uniform(-3, 3)
    u = axis / np.linalg.norm(axis)
    x = np.cross(u, [0.3, 0.1, -0.8])
    x /= np.linalg.norm(x)
    R = np.array([x, np.cross(u, x), u])
    close(still(Revolute(tuple(axis)), np.array([theta])).XJ.E, R.T @ rz(theta) @ R)


def test_quaternion_and_yaw_pitch_roll_joints_give_the_same_motion(rng):
    angles, quaternion = EulerSpherical(), Spherical()
    q, qd = random_motion(angles, rng)
    p = np.array([1.0, 0.0, 0.0, 0.0])
    for axis, angle in zip((2, 1, 0), q, strict=True):
        p = quaternion.integrate(p, angle * np.eye(3)[axis])
    one, other = angles.jcalc(q, qd), quaternion.jcalc(p, angles.jcalc(q, qd).vJ[:3])
    close(one.XJ.matrix(), other.XJ.matrix())
    close(one.vJ, other.vJ)


def test_quaternions_of_opposite_sign_give_the_same_rotation(rng):
    p = Spherical().random(rng)
    assert_array_equal(quaternion_rotation(p), quaternion_rotation(-p))


def test_quaternion_rotation_about_z_matches_the_rotation_matrix():
    close(quaternion_rotation(np.array([np.cos(0.4), 0, 0, np.sin(0.4)])), rz(0.8))


def test_time_derivative_of_a_quaternion_is_orthogonal_to_the_quaternion(rng):
    joint = Spherical()
    p, w = random_motion(joint, rng)
    close(p @ joint.rate(p, w), 0.0)


def test_quaternion_of_any_norm_is_normalized(rng):
    q = SixDoF().random(rng)
    stretched = q * ([3.7] * 4 + [1.0] * 3)
    close(SixDoF().normalize(stretched), q)
    close(Spherical().normalize(stretched[:4]), q[:4])


def test_difference_of_rotations_is_the_rotation_with_the_smaller_angle(rng):
    joint = Spherical()
    p = joint.random(rng)
    assert np.linalg.norm(joint.difference(p, joint.random(rng))) <= np.pi
    close(joint.difference(p, -p), np.zeros(3))
    close(
        joint.difference(p, joint.integrate(p, np.array([0.0, 0.0, 1.5 * np.pi]))),
        [0.0, 0.0, -0.5 * np.pi],
    )
    turn = Planar().difference(np.zeros(3), np.array([1.5 * np.pi, 1.0, 0.0]))
    close(turn[0], -0.5 * np.pi)


def test_planar_joint_moves_like_a_six_dof_joint_restricted_to_the_plane(rng):
    planar, free = Planar(), SixDoF()
    q, qd = random_motion(planar, rng)
    p = np.array([np.cos(q[0] / 2), 0.0, 0.0, np.sin(q[0] / 2), q[1], q[2], 0.0])
    v = np.array([0.0, 0.0, *qd, 0.0])
    close(planar.jcalc(q, qd).XJ.matrix(), free.jcalc(p, v).XJ.matrix())
    close(planar.jcalc(q, qd).vJ, free.jcalc(p, v).vJ)
    close(planar.rate(q, qd)[1:], free.rate(p, v)[4:6])
    close(planar.integrate(q, qd)[1:], free.integrate(p, v)[4:6])


def test_rotating_joint_far_from_the_origin_has_zero_translation_derivative():
    # the translation is in predecessor coordinates, so a rotation does not change it (RBDA
    # Example 4.5)
    assert_array_equal(
        Planar().rate(np.array([0.3, 1e6, -1e6]), np.array([2.0, 0.0, 0.0])), [2.0, 0.0, 0.0]
    )
    far = np.array([1.0, 0.0, 0.0, 0.0, 1e6, -1e6, 1e6])
    assert_array_equal(
        SixDoF().rate(far, np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]))[4:], np.zeros(3)
    )


def test_universal_joint_rotates_about_x_and_then_the_rotated_y_axis(rng):
    q = rng.uniform(-3, 3, 2)
    close(still(Universal(), q).XJ.E, roty(q[1]).E @ rotx(q[0]).E)


def test_rack_and_pinion_and_euler_joint_match_the_formulas_of_rbda(rng):
    (q,), (qd,) = random_motion(Revolute(), rng)
    r, c, s = 0.3, np.cos(q), np.sin(q)
    motion = RackAndPinion(r).jcalc(np.array([q]), np.array([qd]))
    close(motion.S.ravel(), [0, 0, 1, r * c, -r * s, 0])  # RBDA Example 4.6
    close(motion.cJ, [0, 0, 0, -r * s * qd**2, -r * c * qd**2, 0])
    q1, q2, q3 = angles = EulerSpherical().random(rng)
    (c1, c2, c3), (s1, s2, s3) = np.cos(angles), np.sin(angles)
    E = [  # RBDA Eq 4.7
        [c1 * c2, s1 * c2, -s2],
        [c1 * s2 * s3 - s1 * c3, s1 * s2 * s3 + c1 * c3, c2 * s3],
        [c1 * s2 * c3 + s1 * s3, s1 * s2 * c3 - c1 * s3, c2 * c3],
    ]
    close(still(EulerSpherical(), np.array([q1, q2, q3])).XJ.E, E)


def test_pitch_of_a_screw_selects_a_revolute_prismatic_or_helical_joint():
    assert [joint_from_pitch(p) for p in (0, np.inf, 0.25)] == [
        Revolute(),
        Prismatic(),
        Helical(0.25),
    ]


# cost of a trace: constants are folded


@pytest.mark.parametrize("axis", np.eye(3).tolist())
def test_traced_rotation_about_a_coordinate_axis_needs_one_sine_and_one_cosine(axis):
    def f(q):
        motion = Revolute(tuple(axis)).jcalc(q, np.zeros(1))
        return {"out": np.concatenate([np.ravel(motion.XJ.E), motion.XJ.r])}

    graph = trace("f", f, {"q": (1,)})
    assert graph.operations["sin"] == graph.operations["cos"] == 1
    assert graph.operation_count <= 1  # the minus sign of one of the sines


# rejected parameters


@pytest.mark.parametrize("axis", [(0, 0, 0), (np.nan, 0, 1), (np.inf, 0, 0), (1, 0)])
@pytest.mark.parametrize(
    "make", [Revolute, Prismatic, Cylindrical, lambda a: Helical(0.1, a), lambda a: Universal(a)]
)
def test_zero_axis_vector_of_a_joint_is_rejected(make, axis):
    with pytest.raises(
        ValueError,
        match=re.escape(f"must be a finite nonzero vector with 3 components, not {axis}"),
    ):
        make(axis)


def test_joint_axis_is_normalized_to_unit_length():
    assert Revolute((0, 0, -5)).axis == (0.0, 0.0, -1.0)
    close(np.linalg.norm(Prismatic((1e200, 2e200, 3e200)).axis), 1.0)
    assert Revolute((0.0, 0.0, 2.0)) == Revolute()


def test_universal_joint_with_parallel_axes_is_rejected():
    with pytest.raises(ValueError, match="of a universal joint are parallel; they must"):
        Universal((1, 2, 3), (-2, -4, -6))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_infinite_pitch_and_radius_of_joints_are_rejected(bad):
    with pytest.raises(ValueError, match="finite pitch in m/rad, not"):
        Helical(bad)
    with pytest.raises(ValueError, match="finite radius in m, not"):
        RackAndPinion(bad)


def test_fixed_joint_has_no_variables_and_an_identity_transform():
    assert Fixed().nq == Fixed().nv == 0
    assert xlt([0, 0, 0]).matrix().tolist() == still(Fixed(), np.zeros(0)).XJ.matrix().tolist()
