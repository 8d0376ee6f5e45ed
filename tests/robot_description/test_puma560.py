"""PUMA 560 compared with published joint forces.

The Robotics Toolbox of Corke computes the forces from the same parameters with its own recursive
Newton-Euler algorithm and prints four decimals. The three motions at the configuration `qn` are
rest, 1 rad/s on all joints, and 1 rad/s with 1 rad/s^2 on all joints.
"""

from math import pi

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import rnea
from rigidblocks.block.block import Record
from rigidblocks.cli import main
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot.robots import DHRow, dh_chain, dh_frames
from rigidblocks.robot_description.load import PUMA560, puma560

PRINTED = 5.1e-5
QN = np.array([0.0, pi / 4, pi, 0.0, pi / 4, 0.0])
FORCES = {
    (0.0, 0.0): [0.0, 31.6399, 6.0351, 0.0, 0.0283, 0.0],
    (1.0, 0.0): [29.1421, 56.5044, 16.3528, 1.2645, 1.1239, 0.5196],
    (1.0, 1.0): [32.4952, 60.8670, 17.7436, 1.4545, 1.2991, 0.7138],
}
ROWS = [  # a, alpha, d, theta
    DHRow(0.0, pi / 2, 0.0, 0.0),
    DHRow(0.4318, 0.0, 0.0, 0.0),
    DHRow(0.0203, -pi / 2, 0.15005, 0.0),
    DHRow(0.0, pi / 2, 0.4318, 0.0),
    DHRow(0.0, -pi / 2, 0.0, 0.0),
    DHRow(0.0, 0.0, 0.0, 0.0),
]


@pytest.mark.parametrize("motion", FORCES)
def test_inverse_dynamics_of_the_puma_match_the_published_forces(motion):
    robot, (v, a) = puma560(), motion
    qd, qdd, f = np.full(6, v), np.full(6, a), robot.joint_properties
    motors = f.armature * qdd + f.damping * qd + f.friction * np.sign(qd)
    assert_allclose(rnea(robot.model, QN, qd, qdd) + motors, FORCES[motion], rtol=0, atol=PRINTED)


def test_accelerations_of_the_puma_plant_match_the_published_motion():
    """The published forces cause the published accelerations, including motors and friction."""
    plant = described_plant(puma560(), joint_friction=True)
    parameters = Record({port.name: port.start for port in plant.parameters})
    for (v, a), tau in FORCES.items():
        motion = Record({"q": QN, "qd": np.full(6, v)})
        qdd = plant.output(0.0, motion, Record({"tau": np.array(tau)}), parameters)["qdd"]
        assert_allclose(
            qdd, a, rtol=0, atol=2e-3
        )  # error of the printed digits divided by 0.19 kg m^2


@pytest.mark.slow
def test_accelerations_of_the_puma_fmu_match_the_published_motion(tmp_path):
    """The FMU has the published accelerations at the published states and forces."""
    path = tmp_path / "puma.fmu"
    assert main(["fmu", str(PUMA560), "--joint-friction", "-o", str(path)]) == 0
    names = [f"qdd[{k + 1}]" for k in range(6)]
    for (v, a), tau in FORCES.items():
        values = {"q": QN, "qd": np.full(6, v), "tau": np.array(tau)}
        start = {f"{name}[{k + 1}]": x[k] for name, x in values.items() for k in range(6)}
        rows = fmpy.simulate_fmu(
            str(path), start_values=start, stop_time=1e-3, step_size=1e-3, output=names
        )
        assert_allclose([rows[name][0] for name in names], a, rtol=0, atol=2e-3)  # as above


def test_dry_friction_of_the_puma_depends_on_the_direction_of_motion():
    f = puma560().joint_properties
    assert_allclose(f.friction[0], 62.6111 * 0.395, rtol=1e-12)
    assert_allclose(f.backward[0], 62.6111 * 0.435, rtol=1e-12)


def matrix(row, q):
    """Return Paul's homogeneous matrix (4, 4) of a standard Denavit-Hartenberg row."""
    a, alpha, d, theta = row
    ct, st, ca, sa = np.cos(theta + q), np.sin(theta + q), np.cos(alpha), np.sin(alpha)
    return np.array(
        [
            [ct, -st * ca, st * sa, a * ct],
            [st, ct * ca, -ct * sa, a * st],
            [0.0, sa, ca, d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def test_link_poses_of_the_puma_equal_products_of_denavit_hartenberg_matrices(rng):
    model, q = puma560().model, rng.normal(size=6)
    poses = body_poses(model, q)
    T = np.eye(4)
    for k, X in enumerate(dh_frames(ROWS)):
        T = T @ matrix(ROWS[k], q[k])
        frame = X @ poses[k]
        assert_allclose(frame.E.T, T[:3, :3], atol=1e-12)
        assert_allclose(frame.r, T[:3, 3], atol=1e-12)
        described = puma560().frames[f"link{k + 1}"]
        assert_allclose(described.placement.matrix(), X.matrix(), atol=1e-14)


def test_unknown_denavit_hartenberg_convention_is_rejected():
    with pytest.raises(ValueError, match="must be 'modified' or 'standard', not 'craig'"):
        dh_chain(ROWS, [None] * 6, convention="craig")
