"""A robot arm of six joints with its controller and command."""

from random_models import MODELS
from rigidblocks import PDController, RobotPlant, Sine, System


def six_axis() -> System:
    """Return an arm of six joints that follows a sine."""
    system = System()
    system.add("robot", RobotPlant(MODELS["six-axis"]()))
    system.add("pd", PDController(kp=[400.0] * 6, kd=[40.0] * 6))
    system.add("command", Sine(amplitude=[0.5] * 6))
    for source, target in (
        ("command.y", "pd.q_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "robot.tau"),
    ):
        system.connect(source, target)
    return system
