"""Robots built body by body, by name: numbers and the spanning tree are the library's business."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.frames import check_frame
from rigidblocks.algebra.spatial import RigidInertia, Transform, xlt
from rigidblocks.formats.description import Freedoms, RobotDescription
from rigidblocks.formats.document import nearest
from rigidblocks.formats.links import described
from rigidblocks.formats.listed import NOTHING, WORLD, Assembly, Connection, Following, Link
from rigidblocks.joint import Fixed, Joint, Reversed
from rigidblocks.model.model import STANDARD_GRAVITY, Model
from rigidblocks.model.shapes import Shape

BASE = "base"


class RobotBuilder:
    """A robot that is put together by name.

        robot = RobotBuilder("arm")
        robot.add_body("link1", joint=Revolute(), inertia=box_inertia((1, 0.1, 0.1), mass=1))
        robot.add_body("link2", parent="link1", joint=Revolute(), at=(1, 0, 0), inertia=...)
        robot.add_frame("tool", "link2", at=(1, 0, 0))
        model = robot.model()

    The base is called "base". Bodies and joints may come in any order. Joints beyond those that
    hang a body on another close loops: the spanning tree is one of minimum depth (RBDA 10.2), its
    bodies are numbered depth first (RBDA 4.1), and the other joints are the `loops` of the model. A
    body on a `Fixed` joint is merged with the one that it hangs on, and is a frame of it.
    """

    def __init__(self, name: str, gravity: ArrayLike = STANDARD_GRAVITY):
        self.name = name
        self._gravity = np.array(gravity, dtype=float)
        self._links: dict[str, Link] = {}
        self._joints: dict[str, Connection] = {}
        self._frames: dict[str, tuple[str, str, Transform]] = {}
        self._followings: list[Following] = []

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
        **freedoms: Any,
    ) -> None:
        """Adds a body and, unless `parent` is None, the joint that hangs it on its parent.

        `at` is where the joint is on the parent: a position (3,) [m], or the transform from the
        parent's coordinates to the joint's, which are the body's own. `inertia` is in the body's
        coordinates; of several the sum. The joint is called as the body with _joint unless
        `joint_name` is given. `freedoms` are what `Freedoms` has of it: lower, upper, damping, ...
        Raises ValueError for a name that is taken, and TypeError for an inertia that is none.
        """
        if name == BASE or name in self._links or name in self._frames:
            raise ValueError(f"robot '{self.name}' has a body or frame '{name}' already")
        parts = _inertias(name, inertia)
        total = sum(parts[1:], parts[0]) if parts else NOTHING
        self._links[name] = Link(name, 0, total, tuple(appearance), tuple(contact))
        if parent is not None:
            joint_name = joint_name or f"{name}_joint"
            self.add_joint(joint_name, parent, name, joint or Fixed(), at, **freedoms)
        elif joint is not None or joint_name is not None:
            raise ValueError(f"body '{name}' has no parent for a joint; give one, or use add_joint")

    def add_joint(
        self,
        name: str,
        parent: str,
        child: str,
        joint: Joint,
        at: Transform | ArrayLike = (0.0, 0.0, 0.0),
        at_child: Transform | ArrayLike = (0.0, 0.0, 0.0),
        **freedoms: Any,
    ) -> None:
        """Adds a joint between two bodies, which closes a loop where they are connected already.

        `at` and `at_child` are where it is on the one and on the other, as in `add_body`. Raises
        ValueError for a name that is taken and for limits upside down.
        """
        if name in self._joints:
            raise ValueError(f"robot '{self.name}' has a joint '{name}' already")
        Xp, Xs = _placement(at, f"at of joint '{name}'"), _placement(at_child, f"joint '{name}'")
        said = Freedoms.of(joint.nv, **_known(freedoms))  # refuses what does not fit
        if np.any(said.lower > said.upper):
            raise ValueError(
                f"the limits of joint '{name}' are upside down: lower = {said.lower.tolist()} must "
                f"not be above upper = {said.upper.tolist()}"
            )
        ends = [WORLD if end == BASE else end for end in (parent, child)]
        self._joints[name] = Connection(name, 0, ends[0], ends[1], joint, Xp, Xs, freedoms)

    def add_frame(self, name: str, body: str, at: Transform | ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Adds a named frame on a body, `at` as in `add_body`; raises ValueError for a name that is
        taken.
        """
        if name == BASE or name in self._links or name in self._frames:
            raise ValueError(f"robot '{self.name}' has a body or frame '{name}' already")
        place = _placement(at, f"frame '{name}'")
        self._frames[name] = (name, WORLD if body == BASE else body, place)

    def add_coupling(self, joint: str, source: str, ratio: float, offset: float = 0.0) -> None:
        """Makes a joint follow another: q = ratio q_source + offset."""
        self._followings.append(Following(0, joint, source, ratio, offset))

    def merge(self, body: str, q: ArrayLike | None = None) -> None:
        """Makes the joint that hangs a body on its parent rigid, at the position `q`, that of the
        neutral configuration unless given: the body is merged with its parent.
        """
        name = self._hanging(body)
        old = self._joints[name]
        position = old.joint.neutral() if q is None else np.atleast_1d(np.asarray(q, dtype=float))
        XJ = old.joint.jcalc(position, np.zeros(old.joint.nv)).XJ
        self._joints[name] = old._replace(joint=Fixed(), Xp=XJ @ old.Xp, freedoms={})

    def cut(self, body: str) -> None:
        """Removes a body and all that hangs on nothing but it, their joints and frames."""
        del self._links[self._joints[self._hanging(body)].child]
        self._joints = {n: c for n, c in self._joints.items() if body not in (c.parent, c.child)}
        reached = self._reached()
        gone = {body, *(name for name in self._links if name not in reached)}
        self._links = {name: link for name, link in self._links.items() if name not in gone}
        self._joints = {n: c for n, c in self._joints.items() if c.child not in gone}
        self._frames = {n: f for n, f in self._frames.items() if f[1] not in gone}
        kept = self._joints.keys()
        self._followings = [f for f in self._followings if {f.joint, f.source} <= kept]

    def description(self) -> RobotDescription:
        """The robot with its frames, limits and couplings, as one from a file.

        Raises ValueError for a body that is not there or that nothing connects with the base, and
        for what `Model` refuses.
        """
        self._check_ends()
        reached = self._reached()
        if loose := [name for name in self._links if name not in reached]:
            raise ValueError(
                f"nothing connects {', '.join(loose)} of robot '{self.name}' with the base"
            )
        return described(
            Assembly(
                Path(f"robot '{self.name}'"),
                self.name,
                list(self._links.values()),
                [_outward(c, reached) for c in self._joints.values()],
                self._followings,
                list(self._frames.values()),
                gravity=self._gravity.tolist(),
                loops=True,
                strict=True,
            )
        )

    def model(self) -> Model:
        """The model alone; raises what `description` raises."""
        model = self.description().model
        assert isinstance(model, Model)
        return model

    def _hanging(self, body: str) -> str:
        """The joint that hangs a body on the others."""
        names = [name for name, c in self._joints.items() if c.child == body]
        if not names:
            there = list(self._links)
            raise ValueError(f"no joint hangs body '{body}' on another{nearest(body, there)}")
        return names[0]

    def _check_ends(self) -> None:
        there = [BASE, *self._links]
        used = [
            (f"joint '{c.name}'", e) for c in self._joints.values() for e in (c.parent, c.child)
        ]
        used += [(f"frame '{name}'", body) for name, body, _ in self._frames.values()]
        for what, end in used:
            if end != WORLD and end not in self._links:
                text = f"{what} of robot '{self.name}' is on '{end}', which is no body of it"
                raise ValueError(text + nearest(end, there))

    def _reached(self) -> dict[str, int]:
        """The bodies that joints connect with the base, and over how few of them."""
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


def _outward(c: Connection, depth: dict[str, int]) -> Connection:
    """The joint from the body that is nearer to the base, turned round where it was given from the
    other.
    """
    if depth[c.parent] <= depth[c.child]:
        return c
    joint = c.joint.joint if isinstance(c.joint, Reversed) else Reversed(c.joint)
    turned = joint if c.joint.nv else c.joint
    return c._replace(parent=c.child, child=c.parent, joint=turned, Xp=c.Xs, Xs=c.Xp)


def _inertias(name: str, given: Any) -> list[RigidInertia]:
    alone = [] if given is None else [given]
    parts = list(given) if isinstance(given, Sequence) else alone
    for one in parts:
        if not isinstance(one, RigidInertia):
            raise TypeError(
                f"the inertia of body '{name}' is a RigidInertia, as of box_inertia(...) or "
                f"mcI(mass, com, moments), or several, not {one!r:.60}"
            )
    return parts


def _placement(at: Transform | ArrayLike, where: str) -> Transform:
    X = at if isinstance(at, Transform) else xlt(np.asarray(at, dtype=float))
    check_frame(X, where)
    return X


def _known(freedoms: dict[str, Any]) -> dict[str, Any]:
    names = list(Freedoms.__dataclass_fields__)
    if unknown := [name for name in freedoms if name not in names]:
        raise ValueError(f"a joint has no {unknown[0]}; it has: {', '.join(names)}")
    return freedoms
