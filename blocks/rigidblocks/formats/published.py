"""Robots as they were published, from files in this package."""

from pathlib import Path

from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.load import load_model

PUMA560 = Path(__file__).with_name("puma560.json")


def puma560() -> RobotDescription:
    """The PUMA 560 as it was published, with its motors: from `puma560.json`, in SI units.

    Masses, centres of mass and moments are those of Armstrong, Khatib and Burdick, The explicit
    dynamic model and inertial parameters of the PUMA 560 arm, IEEE Conference on Robotics and
    Automation, 1986; kinematics by standard Denavit-Hartenberg parameters, gear ratios, and the
    motors' inertia, viscous and Coulomb friction those that Corke and Armstrong-Helouvry chose: A
    search for consensus among model parameters reported for the PUMA 560 robot, same conference,
    1994. `armature`, `damping`, `friction` and `backward` of the freedoms are felt at the joints:
    the motor's inertia and viscous friction by the square of the gear ratio, dry friction by its
    size. Link 1 has a moment and no mass, and link 3 moments that no rigid body has: both are as
    published, and named in `warnings`. The frames `flange` and link1 to link6 are those of the
    Denavit-Hartenberg rows.
    """
    return load_model(PUMA560)
