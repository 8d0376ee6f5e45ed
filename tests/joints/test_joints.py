"""Joint models: every type against finite differences of its own transform, and the laws that join
the types.
"""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from random_models import joints_of_all_types
from rigidblocks.algebra.rotation import quaternion_rotation
from rigidblocks.algebra.spatial import Transform, crm, rotx, roty, rotz, rz, xlt
from rigidblocks.joint import (
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
from rigidblocks.tracing.trace import trace

RTOL = 1e-13  # a few dozen products and sums, relative to the largest element
# fourth-order differences with step 1e-3: truncation 3e-14 times a fifth derivative of up to (sum
# of speeds)^5; the rounding of values about 10 divided by the step
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
    """The derivative of f at 0, by fourth-order central differences."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def random_motion(joint, rng):
    return joint.random(rng), rng.uniform(-2, 2, joint.nv)


def still(joint, q):
    return joint.jcalc(q, np.zeros(joint.nv))


# each joint on its own


def test_sizes_agree(joint, rng):
    q, qd = random_motion(joint, rng)
    motion = joint.jcalc(q, qd)
    assert motion.S.shape == (6, joint.nv)
    assert motion.vJ.shape == motion.cJ.shape == (6,)
    assert (
        len(q) == len(joint.neutral()) == len(joint.rate(q, qd)) == len(joint.q_units) == joint.nq
    )
    assert len(joint.qd_units) == len(joint.tau_units) == len(joint.difference(q, q)) == joint.nv
    assert np.linalg.matrix_rank(motion.S) == joint.nv


def test_frames_coincide_in_the_neutral_configuration(joint):
    close(still(joint, joint.neutral()).XJ.matrix(), np.eye(6))


def test_transform_has_a_rotation(joint, rng):
    E = still(joint, joint.random(rng)).XJ.E
    close(E @ E.T, np.eye(3))
    close(np.linalg.det(E), 1.0)


def test_velocity_is_the_rate_of_the_transform_on_the_way_of_integrate(joint, rng):
    # d(XJ)/dt = -vJ x XJ (RBDA Eq 2.45)
    q, qd = random_motion(joint, rng)
    XJ, _, vJ, _ = joint.jcalc(q, qd)
    Xdot = slope(lambda t: still(joint, joint.integrate(q, t * qd)).XJ.matrix())
    close(-Xdot @ np.linalg.inv(XJ.matrix()), crm(vJ), DIFFERENCE)


def test_velocity_is_the_rate_of_the_transform_at_the_rate_of_the_positions(joint, rng):
    q, qd = random_motion(joint, rng)
    XJ, _, vJ, _ = joint.jcalc(q, qd)
    Xdot = slope(lambda t: still(joint, q + t * joint.rate(q, qd)).XJ.matrix())
    close(-Xdot @ np.linalg.inv(XJ.matrix()), crm(vJ), DIFFERENCE)


def test_rate_of_the_positions_is_that_of_integrate(joint, rng):
    q, qd = random_motion(joint, rng)
    close(joint.rate(q, qd), slope(lambda t: joint.integrate(q, t * qd)), DIFFERENCE)


def test_velocity_is_the_motion_subspace_times_the_velocity_variables(joint, rng):
    q, qd = random_motion(joint, rng)
    motion = joint.jcalc(q, qd)
    close(motion.vJ, motion.S @ qd)


def test_bias_is_the_rate_of_the_velocity_at_constant_velocity_variables(joint, rng):
    q, qd = random_motion(joint, rng)
    cJ = slope(lambda t: still(joint, joint.integrate(q, t * qd)).S @ qd)
    close(joint.jcalc(q, qd).cJ, cJ, DIFFERENCE)


def test_difference_undoes_integrate(joint, rng):
    q, dq = joint.random(rng), rng.uniform(-1, 1, joint.nv)
    close(joint.difference(q, joint.integrate(q, dq)), dq, 1e-12)


def test_integrate_of_the_difference_comes_to_the_same_place(joint, rng):
    a, b = joint.random(rng), joint.random(rng)
    arrived = joint.integrate(a, joint.difference(a, b))
    close(still(joint, arrived).XJ.matrix(), still(joint, b).XJ.matrix(), 1e-12)


def test_half_the_way_twice_is_the_whole_way(joint, rng):
    q, dq = joint.random(rng), rng.uniform(-1, 1, joint.nv)
    close(joint.integrate(joint.integrate(q, dq / 2), dq / 2), joint.integrate(q, dq), 1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-7, 0.99e-4, 1.01e-4, 1e-3])
def test_small_steps_are_as_exact_as_large_ones(joint, size, rng):
    q, dq = joint.random(rng), size * rng.uniform(0.5, 1, joint.nv)
    step = joint.integrate(q, dq)
    close(
        joint.difference(q, step) / max(size, 1e-300),
        dq / max(size, 1e-300),
        1e-15 / size + 1e-11 if size else 1e-15,
    )
    close(joint.integrate(joint.integrate(q, dq / 2), dq / 2), step)


def test_unit_configurations_stay_where_they_are(joint, rng):
    q = joint.random(rng)
    close(joint.normalized(q), q)


def test_traced_joint_equals_the_joint(joint, rng):
    q, qd = random_motion(joint, rng)

    def f(q, qd):
        XJ, S, vJ, cJ = joint.jcalc(q, qd)
        there = joint.integrate(q, qd)
        ways = (
            joint.rate(q, qd),
            there,
            joint.normalized(q),
            joint.difference(q, joint.integrate(q, 0.5 * qd)),
        )
        return np.concatenate([np.ravel(part) for part in (XJ.matrix(), S, vJ, cJ, *ways)])

    graph = trace("f", lambda q, qd: {"out": f(q, qd)}, {"q": (joint.nq,), "qd": (joint.nv,)})
    close(graph(np.concatenate([q, qd])), f(q, qd), 1e-12)


# polarity (RBDA Table 4.2)


def test_reversed_twice_is_the_joint_itself(joint, rng):
    q, qd = random_motion(joint, rng)
    once, twice = joint.jcalc(q, qd), Reversed(Reversed(joint)).jcalc(q, qd)
    close(twice.XJ.matrix(), once.XJ.matrix())
    for there, here in zip(twice[1:], once[1:], strict=True):
        close(there, here)


def test_reversed_joint_goes_back_to_the_predecessor(joint, rng):
    q = joint.random(rng)
    close((still(Reversed(joint), q).XJ @ still(joint, q).XJ).matrix(), np.eye(6))


@pytest.mark.parametrize("name", ["revolute", "prismatic", "helical", "cylindrical"])
def test_reversed_symmetric_joint_is_the_joint_with_variables_of_the_other_sign(name, rng):
    forward, (q, qd) = JOINTS[name], random_motion(JOINTS[name], rng)
    back, mirror = Reversed(forward).jcalc(q, qd), forward.jcalc(-q, -qd)
    close(back.XJ.matrix(), mirror.XJ.matrix())
    close(back.S, -mirror.S)
    close(back.vJ, mirror.vJ)


def test_rack_and_pinion_is_not_symmetric(rng):
    joint = RackAndPinion(0.3)
    q, qd = random_motion(joint, rng)
    assert np.abs(Reversed(joint).jcalc(q, qd).vJ - joint.jcalc(-q, -qd).vJ).max() > 0.01


# special cases and equivalent joints


def same_motion(one, other, q, qd):
    for a, b in zip(one.jcalc(q, qd), other.jcalc(q, qd), strict=True):
        close(*(part.matrix() if isinstance(part, Transform) else part for part in (a, b)))


def test_helical_joint_of_no_pitch_is_revolute(rng):
    axis = (0.3, -0.2, 0.8)
    same_motion(Helical(0.0, axis), Revolute(axis), *random_motion(Revolute(), rng))


def test_rack_and_pinion_of_no_radius_is_revolute(rng):
    same_motion(RackAndPinion(0.0), Revolute(), *random_motion(Revolute(), rng))


def test_helical_joint_is_a_cylindrical_joint_with_one_freedom_bound_to_the_other(rng):
    q, qd = random_motion(Revolute(), rng)
    axis, bound = (0.3, -0.2, 0.8), np.array([1.0, 0.3])
    close(Helical(0.3, axis).jcalc(q, qd).vJ, Cylindrical(axis).jcalc(q * bound, qd * bound).vJ)
    close(
        Helical(0.3, axis).jcalc(q, qd).XJ.matrix(),
        Cylindrical(axis).jcalc(q * bound, qd * bound).XJ.matrix(),
    )


def test_right_handed_screw_advances_as_it_turns():
    close(still(Helical(0.3), np.array([2.0])).XJ.r, [0, 0, 0.6])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("k", range(3))
def test_rotation_about_a_coordinate_axis_is_that_of_the_book(k, sign, rng):
    theta = rng.uniform(-3, 3)
    joint = Revolute(tuple(sign * np.eye(3)[k]))
    assert_array_equal(still(joint, np.array([theta])).XJ.E, (rotx, roty, rotz)[k](sign * theta).E)


def test_rotation_about_any_axis_is_one_about_z_in_turned_frames(rng):
    # with a constant rotation R that takes the axis to z: R^T rz(theta) R
    axis, theta = rng.normal(size=3), rng.uniform(-3, 3)
    u = axis / np.linalg.norm(axis)
    x = np.cross(u, [0.3, 0.1, -0.8])
    x /= np.linalg.norm(x)
    R = np.array([x, np.cross(u, x), u])
    close(still(Revolute(tuple(axis)), np.array([theta])).XJ.E, R.T @ rz(theta) @ R)


def test_quaternion_and_yaw_pitch_roll_are_the_same_rotation(rng):
    angles, quaternion = EulerSpherical(), Spherical()
    q, qd = random_motion(angles, rng)
    p = np.array([1.0, 0.0, 0.0, 0.0])
    for axis, angle in zip((2, 1, 0), q, strict=True):
        p = quaternion.integrate(p, angle * np.eye(3)[axis])
    one, other = angles.jcalc(q, qd), quaternion.jcalc(p, angles.jcalc(q, qd).vJ[:3])
    close(one.XJ.matrix(), other.XJ.matrix())
    close(one.vJ, other.vJ)


def test_both_signs_of_a_quaternion_are_one_rotation(rng):
    p = Spherical().random(rng)
    assert_array_equal(quaternion_rotation(p), quaternion_rotation(-p))


def test_quaternion_of_a_turn_about_z():
    close(quaternion_rotation(np.array([np.cos(0.4), 0, 0, np.sin(0.4)])), rz(0.8))


def test_rate_of_a_quaternion_keeps_its_length(rng):
    joint = Spherical()
    p, w = random_motion(joint, rng)
    close(p @ joint.rate(p, w), 0.0)


def test_quaternion_of_any_length_is_made_a_unit_one(rng):
    q = SixDoF().random(rng)
    stretched = q * ([3.7] * 4 + [1.0] * 3)
    close(SixDoF().normalized(stretched), q)
    close(Spherical().normalized(stretched[:4]), q[:4])


def test_difference_of_rotations_is_the_shorter_way(rng):
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


def test_planar_joint_is_a_six_dof_joint_that_keeps_to_the_plane(rng):
    planar, free = Planar(), SixDoF()
    q, qd = random_motion(planar, rng)
    p = np.array([np.cos(q[0] / 2), 0.0, 0.0, np.sin(q[0] / 2), q[1], q[2], 0.0])
    v = np.array([0.0, 0.0, *qd, 0.0])
    close(planar.jcalc(q, qd).XJ.matrix(), free.jcalc(p, v).XJ.matrix())
    close(planar.jcalc(q, qd).vJ, free.jcalc(p, v).vJ)
    close(planar.rate(q, qd)[1:], free.rate(p, v)[4:6])
    close(planar.integrate(q, qd)[1:], free.integrate(p, v)[4:6])


def test_planar_joint_far_away_turns_on_the_spot():
    # the translation is in the coordinates of the predecessor: a spin moves it not at all (RBDA
    # Example 4.5)
    assert_array_equal(
        Planar().rate(np.array([0.3, 1e6, -1e6]), np.array([2.0, 0.0, 0.0])), [2.0, 0.0, 0.0]
    )
    far = np.array([1.0, 0.0, 0.0, 0.0, 1e6, -1e6, 1e6])
    assert_array_equal(
        SixDoF().rate(far, np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]))[4:], np.zeros(3)
    )


def test_universal_joint_turns_about_the_first_axis_and_then_the_turned_second(rng):
    q = rng.uniform(-3, 3, 2)
    close(still(Universal(), q).XJ.E, roty(q[1]).E @ rotx(q[0]).E)


def test_closed_forms_of_the_book(rng):
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


def test_pitch_codes_name_the_joints():
    assert [joint_from_pitch(p) for p in (0, np.inf, 0.25)] == [
        Revolute(),
        Prismatic(),
        Helical(0.25),
    ]


# cost of a trace: constants fold away


@pytest.mark.parametrize("axis", np.eye(3).tolist())
def test_rotation_about_a_coordinate_axis_costs_a_sine_and_a_cosine(axis):
    def f(q):
        motion = Revolute(tuple(axis)).jcalc(q, np.zeros(1))
        return {"out": np.concatenate([np.ravel(motion.XJ.E), motion.XJ.r])}

    graph = trace("f", f, {"q": (1,)})
    assert graph.operations["sin"] == graph.operations["cos"] == 1
    assert graph.operation_count <= 1  # the minus sign of one of the sines


# refusals


@pytest.mark.parametrize("axis", [(0, 0, 0), (np.nan, 0, 1), (np.inf, 0, 0), (1, 0)])
@pytest.mark.parametrize(
    "make", [Revolute, Prismatic, Cylindrical, lambda a: Helical(0.1, a), lambda a: Universal(a)]
)
def test_axis_has_a_direction(make, axis):
    with pytest.raises(
        ValueError, match=re.escape(f"needs 3 finite components, not all zero; it was {axis}")
    ):
        make(axis)


def test_axis_is_made_a_unit_vector():
    assert Revolute((0, 0, -5)).axis == (0.0, 0.0, -1.0)
    close(np.linalg.norm(Prismatic((1e200, 2e200, 3e200)).axis), 1.0)
    assert Revolute((0.0, 0.0, 2.0)) == Revolute()


def test_universal_joint_has_two_axes():
    with pytest.raises(ValueError, match="of a universal joint are parallel; it needs two"):
        Universal((1, 2, 3), (-2, -4, -6))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_parameters_are_finite(bad):
    with pytest.raises(ValueError, match="finite pitch in m/rad, not"):
        Helical(bad)
    with pytest.raises(ValueError, match="finite radius in m, not"):
        RackAndPinion(bad)


def test_fixed_joint_has_no_variables():
    assert Fixed().nq == Fixed().nv == 0
    assert xlt([0, 0, 0]).matrix().tolist() == still(Fixed(), np.zeros(0)).XJ.matrix().tolist()
