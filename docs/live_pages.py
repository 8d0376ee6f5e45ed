"""Systems that run in the browser on the page `live.md`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rigidblocks import (
    ClosedLoopPlant,
    ContactPlant,
    FloatingBasePlant,
    PDController,
    RepeatingSequence,
    RobotPlant,
    System,
    planar2,
    simulation_page,
)
from rigidblocks.library import Constant
from rigidblocks.robot.robots import five_bar, four_bar, quadruped

STANCE = (0.0, 0.7, -1.4) * 4
CORNERS = [[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]


def write_live_pages(folder: Path) -> None:
    """Write the page of each system into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, system in systems():
        simulation_page(system, 1e-3, folder / f"{name}.html")


def systems() -> Iterator[tuple[str, System]]:
    """Yield each system with the name of its page."""
    yield "planar2ctrl", controlled(RobotPlant(planar2()), [1000.0] * 2, [15.0] * 2, command())
    for name, mechanism in (("four_bar", four_bar()), ("five_bar", five_bar())):
        system = System()
        plant = ClosedLoopPlant(*mechanism)
        system.add("linkage", plant, start={"tau": 0.0}, method="adaptive")
        yield name, system
    robot = FloatingBasePlant(quadruped(), position0=(0.0, 0.0, 0.36), q0=STANCE)
    standing = ContactPlant(robot, K=5e3, D=60.0, mu=0.8)
    yield "quadruped", controlled(standing, [150.0] * 12, [3.0] * 12, Constant(STANCE, "rad"))


def command() -> RepeatingSequence:
    """Return the reference motion of planar2ctrl."""
    return RepeatingSequence(t=[0, 1, 2, 3, 4], y=CORNERS)


def controlled(plant: Any, kp: list[float], kd: list[float], command: Any) -> System:
    """Return a plant under a PD controller that follows a reference."""
    system = System()
    system.add("robot", plant)
    system.add("pd", PDController(kp=kp, kd=kd))
    system.add("command", command)
    wires = [("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")]
    wires.append(("command.y", "pd.q_ref"))
    if any(port.name == "slope" for port in command.outputs):
        wires.append(("command.slope", "pd.qd_ref"))
    for source, target in wires:
        system.connect(source, target)
    return system
