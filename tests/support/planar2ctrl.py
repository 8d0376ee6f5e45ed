"""The demo system of the tests: a planar robot, its PD controller and its command.

The reference is the ideal continuous law, integrated to 1e-12 and restarted at each corner of the
command.
"""

from rigidblocks import PDController, RepeatingSequence, RobotPlant, System, planar2

REFERENCE = {
    0.5: (0.499692959558, 0.748530017789, 1.396994841362, 1.618217736216),
    1.0: (0.999290049471, 1.498785904589, 0.956347780321, 1.486885488488),
    3.0: (0.001857788522, 0.000565924693, -0.980903671385, -1.491980926165),
    10.0: (0.999242611994, 1.499813042381, -0.007601118699, -0.001865238895),
}
CONNECTIONS = {
    "pd.q_ref": "command.y",
    "pd.qd_ref": "command.slope",
    "pd.q": "robot.q",
    "pd.qd": "robot.qd",
    "robot.tau": "pd.tau",
}


def parts(gravity=(0.0, 0.0, -9.81)):
    """Return the three blocks by name."""
    return {
        "robot": RobotPlant(planar2().with_gravity(gravity)),
        "pd": PDController(kp=[1000.0, 1000.0], kd=[15.0, 15.0]),
        "command": RepeatingSequence(
            t=[0.0, 1.0, 2.0, 3.0, 4.0],
            y=[[0.0, 0.0], [1.0, 1.5], [1.0, 1.5], [0.0, 0.0], [0.0, 0.0]],
        ),
    }


def wired(components, method=None) -> System:
    """Return the system of these parts, added with a method."""
    system = System()
    for name, component in components.items():
        system.add(name, component, method=method)
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system
