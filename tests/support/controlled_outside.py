"""A robot whose controller is on the remote side of a link, and the control law."""

from planar2ctrl import parts
from rigidblocks import Port, System

Q, QD = Port("q", (2,), "rad"), Port("qd", (2,), "rad/s")
TAU = Port("tau", (2,), "N.m")


def pd(packet):
    """Return the PD torques towards the angles 1 and 1.5 rad."""
    q, qd = packet.values[:2], packet.values[2:]
    return tuple(1000 * (r - a) - 15 * v for r, a, v in zip((1.0, 1.5), q, qd, strict=True))


def controlled_by(link):
    """Return the robot, controlled through a link with these ports."""
    system = System()
    system.add("robot", parts()["robot"])
    system.add("link", link)
    for source, target in (
        ("robot.q", "link.q"),
        ("robot.qd", "link.qd"),
        ("link.tau", "robot.tau"),
    ):
        system.connect(source, target)
    return system
