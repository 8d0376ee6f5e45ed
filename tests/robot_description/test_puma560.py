"""The PUMA 560 as published. The forces are those that the Robotics Toolbox of Corke computes from
the same parameters, printed to four decimals, by its own recursive Newton-Euler algorithm in the
frames of the links: at its configuration `qn` at rest, at 1 rad/s on all joints, and with 1 rad/s^2
besides.
"""

from math import pi

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import puma560, rnea
from rigidblocks.block.block import Record
from rigidblocks.cli import main
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.formats.published import PUMA560
from rigidblocks.library.described import described_plant
from rigidblocks.robots import DHRow, dh_chain, dh_frames

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
def test_inverse_dynamics_are_the_published_ones(motion):
    robot, (v, a) = puma560(), motion
    qd, qdd, f = np.full(6, v), np.full(6, a), robot.freedoms
    motors = f.armature * qdd + f.damping * qd + f.friction * np.sign(qd)
    assert_allclose(rnea(robot.model, QN, qd, qdd) + motors, FORCES[motion], rtol=0, atol=PRINTED)


def test_the_plant_has_motors_gears_and_friction():
    """Its acceleration under the published forces is what they were computed for."""
    plant = described_plant(puma560(), resistance=True)
    parameters = Record({port.name: port.start for port in plant.parameters})
    for (v, a), tau in FORCES.items():
        motion = Record({"q": QN, "qd": np.full(6, v)})
        qdd = plant.output(0.0, motion, Record({"tau": np.array(tau)}), parameters)["qdd"]
        assert_allclose(qdd, a, rtol=0, atol=2e-3)  # of the printed digits over 0.19 kg m^2


@pytest.mark.slow
def test_its_file_becomes_an_fmu_in_one_command(tmp_path):
    """Which starts from the published motions with the published accelerations."""
    path = tmp_path / "puma.fmu"
    assert main(["fmu", str(PUMA560), "--resistance", "-o", str(path)]) == 0
    names = [f"qdd[{k + 1}]" for k in range(6)]
    for (v, a), tau in FORCES.items():
        values = {"q": QN, "qd": np.full(6, v), "tau": np.array(tau)}
        start = {f"{name}[{k + 1}]": x[k] for name, x in values.items() for k in range(6)}
        rows = fmpy.simulate_fmu(
            str(path), start_values=start, stop_time=1e-3, step_size=1e-3, output=names
        )
        assert_allclose([rows[name][0] for name in names], a, rtol=0, atol=2e-3)  # as above


def test_friction_is_not_the_same_both_ways():
    f = puma560().freedoms
    assert_allclose(f.friction[0], 62.6111 * 0.395, rtol=1e-12)
    assert_allclose(f.backward[0], 62.6111 * 0.435, rtol=1e-12)


def matrix(row, q):
    """The 4 x 4 matrix of a standard Denavit-Hartenberg row, as Paul writes it."""
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


def test_standard_parameters_place_the_frames_as_their_matrices_do(rng):
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


def test_a_convention_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="must be 'modified' or 'standard', not 'craig'"):
        dh_chain(ROWS, [None] * 6, convention="craig")
