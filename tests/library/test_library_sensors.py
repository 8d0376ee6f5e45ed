"""Frame kinematics, encoders and inertial measurement units match independent computations."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_blocks import FLOATING, FLOATING_BODY
from library_runs import outputs, run
from random_models import MODELS, random_state, random_transform
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import initialize
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.library import IMU, Encoder, Frame, FrameKinematics, RobotPlant
from rigidblocks.robot.configuration import integrate, random_configuration
from rigidblocks.robot.robots import planar2, planar_n
from rigidblocks.spatial.spatial import Transform, rotx, rz, skew, xlt

RTOL = 1e-12  # rounding of a few rotation products
STEP = 1e-6  # step of central differences: their error is STEP^2 plus rounding / STEP
DIFFERENCE = 1e-8

MODEL = MODELS["mixed"]()


def four_by_four(X):
    """Return the homogeneous matrix of a 3D pose, which maps frame to base coordinates."""
    return np.block([[X.E.T, np.asarray(X.r)[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


def pose(model, q, body, placement):
    """Return the homogeneous matrix of a frame as the product over the chain from the base."""
    chain = []
    while body >= 0:
        XJ = model.joint[body].jcalc(q[model.q_slices[body]], np.zeros(model.joint[body].nv)).XJ
        chain = [four_by_four(model.Xtree[body]), four_by_four(XJ), *chain]
        body = model.parent[body]
    return np.linalg.multi_dot([*chain, four_by_four(placement), np.eye(4)])


@pytest.mark.parametrize("body", range(MODEL.nb))
def test_frame_pose_equals_the_product_of_homogeneous_matrices(body, rng):
    frame, s = Frame("tool", body, random_transform(rng)), random_state(rng, MODEL)
    y = outputs(FrameKinematics(MODEL, (frame,)), q=s.q, qd=s.qd)
    expected = pose(MODEL, s.q, body, frame.placement)
    assert_allclose(y["p_tool"], expected[:3, 3], rtol=0, atol=RTOL * 10)
    assert_allclose(y["R_tool"], expected[:3, :3], rtol=0, atol=RTOL)


@pytest.mark.parametrize("model", [MODEL, FLOATING], ids=["mixed", "with quaternions"])
def test_frame_velocity_is_the_derivative_of_the_frame_pose(model, rng):
    frames = tuple(Frame(f"f{i}", i, random_transform(rng)) for i in range(model.nb))
    block, q, qd = (
        FrameKinematics(model, frames),
        random_configuration(model, rng),
        rng.uniform(-2, 2, model.nv),
    )
    y = outputs(block, q=q, qd=qd)
    after, before = (
        outputs(block, q=integrate(model, q, sign * STEP * qd), qd=qd) for sign in (1, -1)
    )
    for frame in frames:
        n = frame.name
        assert_allclose(
            y[f"v_{n}"], (after[f"p_{n}"] - before[f"p_{n}"]) / (2 * STEP), atol=DIFFERENCE
        )
        Rdot = (after[f"R_{n}"] - before[f"R_{n}"]) / (2 * STEP)
        assert_allclose(skew(y[f"w_{n}"]), Rdot @ y[f"R_{n}"].T, atol=DIFFERENCE)  # dR/dt = w x R


def test_tip_position_of_a_planar_robot_matches_the_analytic_formula(rng):
    q1, q2 = rng.uniform(-np.pi, np.pi, 2)
    y = outputs(
        FrameKinematics(planar2(), (Frame("tip", "body2", xlt([1.0, 0.0, 0.0])),)),
        q=[q1, q2],
        qd=[2.0, -0.5],
    )
    assert_allclose(
        y["p_tip"], [np.cos(q1) + np.cos(q1 + q2), np.sin(q1) + np.sin(q1 + q2), 0.0], atol=RTOL
    )
    assert_allclose(y["w_tip"], [0.0, 0.0, 1.5], atol=RTOL)


# encoder


def test_encoder_error_is_at_most_half_the_encoder_resolution(rng):
    resolution = np.array([0.01, 0.3])
    for q in rng.normal(size=(100, 2)):
        flat, m = Memory(Encoder(resolution, 1e-3)), Memory(Encoder(resolution, 1e-3)).start()
        m[flat.where["q"]] = q
        m = initialize(NumpyEvaluator(flat), m, 0.0)
        read = m[flat.where["q_meas"]]
        assert np.all(np.abs(read - q) <= resolution / 2 * (1 + 1e-12))
        assert_allclose(read / resolution, np.round(read / resolution), atol=1e-12)


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
def test_encoder_velocity_is_the_difference_of_sampled_positions(stepper):
    Ts, dt, step = 4e-3, 1e-3, 0.01
    flat = Memory(Encoder((step,), Ts))
    m, stepping = flat.start(), stepper(flat)
    positions = 0.5 + np.cumsum(np.linspace(0.002, 0.03, 40))
    m[flat.where["q"]] = positions[0]
    stepping.initialize(m, 0.0)
    read, velocity = step * np.floor(positions[0] / step + 0.5), 0.0
    for k, q in enumerate(positions):
        m[flat.where["q"]] = q
        stepping.step(m, k * dt, dt)
        if (k + 1) % 4 == 0:
            new = step * np.floor(q / step + 0.5)
            read, velocity = new, (new - read) / Ts
        assert_allclose(m[flat.where["q_meas"]], read, rtol=RTOL)
        assert_allclose(m[flat.where["qd_meas"]], velocity, rtol=1e-9)
    assert velocity > 0


# inertial measurement unit


@pytest.mark.parametrize("body", range(MODEL.nb))
def test_accelerometer_at_rest_measures_minus_gravity(body, rng):
    frame, q = Frame("imu", body, random_transform(rng)), random_state(rng, MODEL).q
    y = outputs(IMU(MODEL, frame), q=q)
    R = pose(MODEL, q, body, frame.placement)[:3, :3]
    assert_allclose(y["accelerometer"], -R.T @ MODEL.gravity, atol=RTOL * 10)
    assert_array_equal(y["gyro"], [0.0, 0.0, 0.0])


def test_imu_on_a_uniformly_rotating_body_measures_centripetal_acceleration():
    # the IMU is 0.7 m from the axis, with rotated axes: w^2 r inward, along -x of the body; gravity
    # is parallel to the axis
    w, r = 3.0, 0.7
    frame = Frame("imu", 0, rotx(0.4) @ xlt([r, 0.0, 0.0]))
    for q in (0.0, 1.2, -2.5):
        y = outputs(IMU(planar_n(1), frame), q=[q], qd=[w], qdd=[0.0])
        c, s = np.cos(0.4), np.sin(0.4)
        assert_allclose(y["accelerometer"], [-(w**2) * r, 9.81 * s, 9.81 * c], atol=RTOL * 10)
        assert_allclose(y["gyro"], [0.0, w * s, w * c], atol=RTOL)


def test_imu_at_the_centre_of_mass_measures_zero_in_free_fall():
    # a body on a six-dof joint is thrown and tumbles: its centre of mass falls freely
    model = FLOATING_BODY
    plant = RobotPlant(model, qd0=[1.0, -2.0, 0.5, 0.3, 0.2, 0.1])
    com = model.inertia[0].h / model.inertia[0].m
    result = run(plant, 1e-3, 50)
    imu = IMU(model, Frame("imu", 0, xlt(com)))
    for k in (0, 20, 50):
        y = outputs(imu, q=result["q"][k], qd=result["qd"][k], qdd=result["qdd"][k])
        assert_allclose(y["accelerometer"], 0.0, atol=1e-10)
        assert_allclose(y["gyro"], result["qd"][k][:3], rtol=RTOL)


@pytest.mark.parametrize("model", [MODEL, FLOATING], ids=["mixed", "with quaternions"])
def test_accelerometer_measures_acceleration_minus_gravity(model, rng):
    q, qd, qdd = (
        random_configuration(model, rng),
        rng.uniform(-1, 1, model.nv),
        rng.uniform(-1, 1, model.nv),
    )
    for body in range(model.nb):
        frame = Frame("imu", body, random_transform(rng))
        kinematics = FrameKinematics(model, (frame,))

        def velocity(t, kinematics=kinematics):
            # the midpoint velocity gives the configuration after t to second order
            return outputs(
                kinematics, q=integrate(model, q, t * (qd + t / 2 * qdd)), qd=qd + t * qdd
            )["v_imu"]

        acceleration = (velocity(STEP) - velocity(-STEP)) / (2 * STEP)
        R = outputs(kinematics, q=q, qd=qd)["R_imu"]
        y = outputs(IMU(model, frame), q=q, qd=qd, qdd=qdd)
        assert_allclose(y["accelerometer"], R.T @ (acceleration - model.gravity), atol=1e-7)
        assert_allclose(y["gyro"], R.T @ outputs(kinematics, q=q, qd=qd)["w_imu"], atol=RTOL)


BAD = [
    (
        lambda: Frame("my tool", 0),
        "must consist of letters, digits and _ and must not begin with a digit, not 'my tool'",
    ),
    (
        lambda: Frame("t", 0, Transform(2 * np.eye(3), np.zeros(3))),
        "the placement of frame 't' needs a rotation E",
    ),
    (
        lambda: Frame("t", 0, Transform(rz(0.1), np.full(3, np.nan))),
        "the placement of frame 't' needs a rotation E",
    ),
    (
        lambda: IMU(planar2(), Frame("t", "hand")),
        "unknown body 'hand' of frame 't' in model 'planar2'; expected one of body1, body2, "
        "or an index from 0 to 1",
    ),
    (
        lambda: IMU(planar2(), Frame("t", 2)),
        "unknown body 2 of frame 't' in model 'planar2'",
    ),
    (
        lambda: IMU(planar2(), Frame("t", -1)),
        "unknown body -1 of frame 't' in model 'planar2'",
    ),
    (
        lambda: FrameKinematics(planar2(), ()),
        "frame kinematics needs one or more frames with unique names, not []",
    ),
    (
        lambda: FrameKinematics(planar2(), (Frame("t", 0), Frame("t", 1))),
        "with unique names, not ['t', 't']",
    ),
    (lambda: FrameKinematics(planar2(), (Frame("t", 7),)), "unknown body 7 of frame 't'"),
    (lambda: Encoder(0.1, 1e-3), "the resolution of an encoder needs shape (n,), not ()"),
    (
        lambda: Encoder((0.1, 0.0), 1e-3),
        "the start value of resolution[2] is 0 rad; it must be positive",
    ),
    (
        lambda: Encoder((np.nan,), 1e-3),
        "the start value of port 'resolution' must be finite, not [nan]",
    ),
    (lambda: Encoder((0.1,), 0.0), "the sample_time must be positive, not 0.0 s"),
    (
        lambda: Encoder((0.1, 0.2), 1e-3, prismatic=(True,)),
        "port 'q' of shape (2,) has 1 units; it needs one unit or 2 units",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_sensor_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
