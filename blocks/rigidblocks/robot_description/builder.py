"""Robot builder: assemble a robot from named bodies, joints and frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.name_hints import AttributeHints
from rigidblocks.common.xml_reader import nearest
from rigidblocks.robot.joints import Fixed, Joint, Reversed
from rigidblocks.robot.model import STANDARD_GRAVITY, Model
from rigidblocks.robot.robot_description import JointProperties, RobotDescription
from rigidblocks.robot.shapes import Shape
from rigidblocks.robot_description.model_from_links import describe_robot
from rigidblocks.robot_description.parsed_links import (
    NOTHING,
    WORLD,
    Assembly,
    Connection,
    Link,
    ParsedMimicJoint,
)
from rigidblocks.spatial.spatial import RigidInertia, Transform, check_frame, xlt

BASE = "base"


class RobotBuilder(AttributeHints):
    """Builder of robots from named bodies and joints, which computes the spanning tree.

        robot = RobotBuilder("arm")
        robot.add_body("link1", joint=Revolute(), inertia=box_inertia((1, 0.1, 0.1), mass=1))
        robot.add_body("link2", parent="link1", joint=Revolute(), at=(1, 0, 0), inertia=...)
        robot.add_frame("tool", "link2", at=(1, 0, 0))
        model = robot.model()

    The base is called "base". Bodies and joints may be added in any order. Each joint that the
    spanning tree does not need closes a loop. The spanning tree has minimum depth (RBDA 10.2), and
    the bodies are numbered depth first (RBDA 4.1). The joints outside the tree are the `loops` of
    the model. A body on a `Fixed` joint is merged with its parent and becomes a frame of its
    parent.
    """

    CALLS: ClassVar = {
        "link body add_link": "robot.add_body(name, parent, joint, at, inertia)",
        "joint connect": "robot.add_body(...) for a body with its joint, or robot.add_joint(...)",
        "frame add_site add_sensor": "robot.add_frame(name, body, at=...)",
        "build finalize to_model get_model": "robot.model()",
    }

    def __init__(self, name: str, gravity: ArrayLike = STANDARD_GRAVITY):
        self.name = name
        self._gravity = np.array(gravity, dtype=float)
        self._links: dict[str, Link] = {}
        self._joints: dict[str, Connection] = {}
        self._frames: dict[str, tuple[str, str, Transform]] = {}
        self._mimic_joints: list[ParsedMimicJoint] = []

    def __repr__(self) -> str:
        return f"<RobotBuilder '{self.name}': {len(self._links)} links, {len(self._joints)} joints>"

    def add_body(
        self,
        name: str,
        parent: str | None = BASE,
        joint: Joint | None = None,
        at: Transform | ArrayLike = (0.0, 0.0, 0.0),
        inertia: RigidInertia | Sequence[RigidInertia] | None = None,
        *,
        joint_name: str | None = None,
        appearance: Sequence[Shape] = (),
        contact: Sequence[Shape] = (),
        **properties: Any,
    ) -> None:
        """Add a body, and the joint between the body and its parent unless `parent` is None.

        Args:
            name: The name of the body.
            parent: The name of the parent, or None.
            joint: The joint, fixed by default.
            at: The placement of the joint on the parent: a position (3,) [m], or the transform from
                parent to joint coordinates. The body coordinates are the joint coordinates.
            inertia: The inertia in body coordinates; several inertias are added.
            joint_name: The name of the joint, by default the name of the body followed by _joint.
            appearance: The visual shapes.
            contact: The collision shapes.
            **properties: The joint properties: fields of `JointProperties`, such as damping.

        Raises:
            ValueError: The name is taken.
            TypeError: The inertia is not a `RigidInertia`.
        """
        if name == BASE or name in self._links or name in self._frames:
            raise ValueError(f"robot '{self.name}' already has a body or frame '{name}'")
        parts = _inertias(name, inertia)
        total = sum(parts[1:], parts[0]) if parts else NOTHING
        self._links[name] = Link(name, 0, total, tuple(appearance), tuple(contact))
        if parent is not None:
            joint_name = joint_name or f"{name}_joint"
            self.add_joint(joint_name, parent, name, joint or Fixed(), at, **properties)
        elif joint is not None or joint_name is not None:
            raise ValueError(
                f"body '{name}' has a joint but no parent; specify a parent or use add_joint"
            )

    def add_joint(
        self,
        name: str,
        parent: str,
        child: str,
        joint: Joint,
        at: Transform | ArrayLike = (0.0, 0.0, 0.0),
        at_child: Transform | ArrayLike = (0.0, 0.0, 0.0),
        **properties: Any,
    ) -> None:
        """Add a joint between two bodies.

        If joints already connect the two bodies, the new joint closes a loop.

        Args:
            name: The name of the joint.
            parent: The name of the parent body.
            child: The name of the child body.
            joint: The joint.
            at: The placement of the joint on the parent, as in `add_body`.
            at_child: The placement of the joint on the child, as in `add_body`.
            **properties: The joint properties: fields of `JointProperties`, such as damping.

        Raises:
            ValueError: The name is taken, or a lower limit is above the upper limit.
        """
        if name in self._joints:
            raise ValueError(f"robot '{self.name}' already has a joint '{name}'")
        Xp, Xs = (
            _placement(at, f"`at` of joint '{name}'"),
            _placement(at_child, f"`at_child` of joint '{name}'"),
        )
        said = JointProperties.from_values(
            joint.nv, **_check_property_names(properties)
        )  # rejects values with a wrong shape
        if np.any(said.lower > said.upper):
            raise ValueError(
                f"the limits of joint '{name}' are reversed: lower = {said.lower.tolist()} must "
                f"not be above upper = {said.upper.tolist()}"
            )
        ends = [WORLD if end == BASE else end for end in (parent, child)]
        self._joints[name] = Connection(name, 0, ends[0], ends[1], joint, Xp, Xs, properties)

    def add_frame(self, name: str, body: str, at: Transform | ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Add a named frame on a body.

        Args:
            name: The name of the frame.
            body: The name of the body.
            at: The placement of the frame on the body: a position (3,) [m], or the transform from
                body to frame coordinates.

        Raises:
            ValueError: The name is taken.
        """
        if name == BASE or name in self._links or name in self._frames:
            raise ValueError(f"robot '{self.name}' already has a body or frame '{name}'")
        place = _placement(at, f"frame '{name}'")
        self._frames[name] = (name, WORLD if body == BASE else body, place)

    def add_coupling(self, joint: str, source: str, ratio: float, offset: float = 0.0) -> None:
        """Couple the position of a joint to another joint: q_joint = ratio q_source + offset.

        Args:
            joint: The name of the coupled joint.
            source: The name of the joint that determines the position.
            ratio: The ratio of the joint velocities, qd_joint / qd_source.
            offset: The position of the coupled joint at q_source = 0 [rad or m].
        """
        self._mimic_joints.append(ParsedMimicJoint(0, joint, source, ratio, offset))

    def merge(self, body: str, q: ArrayLike | None = None) -> None:
        """Fix the joint of a body and merge the body with its parent.

        Args:
            body: The name of the body.
            q: The position variables of the joint, by default the neutral position.
        """
        name = self._parent_joint_name(body)
        old = self._joints[name]
        position = old.joint.neutral() if q is None else np.atleast_1d(np.asarray(q, dtype=float))
        XJ = old.joint.jcalc(position, np.zeros(old.joint.nv)).XJ
        self._joints[name] = old._replace(joint=Fixed(), Xp=XJ @ old.Xp, joint_properties={})

    def cut(self, body: str) -> None:
        """Remove a body, and all bodies that are then not connected to the base.

        The function also removes the joints and frames of these bodies.
        """
        del self._links[self._joints[self._parent_joint_name(body)].child]
        self._joints = {n: c for n, c in self._joints.items() if body not in (c.parent, c.child)}
        reached = self._joint_counts_to_base()
        gone = {body, *(name for name in self._links if name not in reached)}
        self._links = {name: link for name, link in self._links.items() if name not in gone}
        self._joints = {n: c for n, c in self._joints.items() if c.child not in gone}
        self._frames = {n: f for n, f in self._frames.items() if f[1] not in gone}
        kept = self._joints.keys()
        self._mimic_joints = [f for f in self._mimic_joints if {f.joint, f.source} <= kept]

    def description(self) -> RobotDescription:
        """Return the description of the robot: model, frames, limits and couplings.

        Raises:
            ValueError: A body does not exist or is not connected to the base, or `Model` rejects
                the robot.
        """
        self._check_ends()
        reached = self._joint_counts_to_base()
        if loose := [name for name in self._links if name not in reached]:
            raise ValueError(
                f"no joints connect {', '.join(loose)} of robot '{self.name}' to the base"
            )
        return describe_robot(
            Assembly(
                Path(f"robot '{self.name}'"),
                self.name,
                list(self._links.values()),
                [_orient_outward(c, reached) for c in self._joints.values()],
                self._mimic_joints,
                list(self._frames.values()),
                gravity=self._gravity.tolist(),
                loops=True,
                strict=True,
            )
        )

    def model(self) -> Model:
        """Return the robot model; raise the same exceptions as `description`."""
        model = self.description().model
        assert isinstance(model, Model)
        return model

    def _parent_joint_name(self, body: str) -> str:
        """Return the name of the joint that connects a body to its parent."""
        names = [name for name, c in self._joints.items() if c.child == body]
        if not names:
            there = list(self._links)
            raise ValueError(f"body '{body}' has no joint to a parent{nearest(body, there)}")
        return names[0]

    def _check_ends(self) -> None:
        there = [BASE, *self._links]
        used = [
            (f"joint '{c.name}'", e) for c in self._joints.values() for e in (c.parent, c.child)
        ]
        used += [(f"frame '{name}'", body) for name, body, _ in self._frames.values()]
        for what, end in used:
            if end != WORLD and end not in self._links:
                text = f"{what} of robot '{self.name}' is on unknown body '{end}'"
                raise ValueError(text + nearest(end, there))

    def _joint_counts_to_base(self) -> dict[str, int]:
        """Return the smallest number of joints between the base and each body, by body name.

        Bodies that are not connected to the base are omitted.
        """
        depth, front = {WORLD: 0}, [WORLD]
        while front:
            reached = []
            for c in self._joints.values():
                for one, other in ((c.parent, c.child), (c.child, c.parent)):
                    if one in front and other not in depth:
                        depth[other] = depth[one] + 1
                        reached.append(other)
            front = reached
        return depth


def _orient_outward(c: Connection, depth: dict[str, int]) -> Connection:
    """Return the joint c, reversed if the child is nearer to the base than the parent.

    `depth` maps each body name to the number of joints between the base and the body.
    """
    if depth[c.parent] <= depth[c.child]:
        return c
    joint = c.joint.joint if isinstance(c.joint, Reversed) else Reversed(c.joint)
    turned = joint if c.joint.nv else c.joint
    return c._replace(parent=c.child, child=c.parent, joint=turned, Xp=c.Xs, Xs=c.Xp)


def _inertias(name: str, inertia: Any) -> list[RigidInertia]:
    single = [] if inertia is None else [inertia]
    parts = list(inertia) if isinstance(inertia, Sequence) else single
    for one in parts:
        if not isinstance(one, RigidInertia):
            raise TypeError(
                f"the inertia of body '{name}' must be a RigidInertia, such as box_inertia(...) or "
                f"mcI(mass, com, moments), or a sequence of them, not {one!r:.60}"
            )
    return parts


def _placement(at: Transform | ArrayLike, subject: str) -> Transform:
    X = at if isinstance(at, Transform) else xlt(np.asarray(at, dtype=float))
    check_frame(X, subject)
    return X


def _check_property_names(properties: dict[str, Any]) -> dict[str, Any]:
    names = list(JointProperties.__dataclass_fields__)
    if unknown := [name for name in properties if name not in names]:
        is_inertia = unknown[0] in ("mass", "com", "center_of_mass", "moments", "I")
        advice = "; for mass and centre of mass write inertia=mcI(mass, com, moments)"
        advice = advice if is_inertia else ""
        raise ValueError(
            f"unknown joint property '{unknown[0]}'; expected one of {', '.join(names)}{advice}"
        )
    return properties
