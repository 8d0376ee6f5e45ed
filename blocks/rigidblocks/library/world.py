"""Worlds that are put together by names: robots, from files too, free bodies and things at rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, check_frame, identity, xlt
from rigidblocks.block.port import finite
from rigidblocks.contact.sensor_tables import ContactSensor
from rigidblocks.formats.description import Freedoms, RobotDescription
from rigidblocks.joint import Fixed, Joint, LoopJoint, SixDoF
from rigidblocks.library.ports import start_configuration
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.library.world_plant import Member, WorldPlant
from rigidblocks.model.model import STANDARD_GRAVITY, Model
from rigidblocks.model.shapes import Plane, Shape, Surface

_JOINED = ("joint", "Xtree", "inertia", "body_names", "joint_names", "massless", "unphysical")
NOTHING = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
Placement = Transform | ArrayLike


@dataclass(frozen=True, eq=False)
class _Part:
    """A member as it was given, with its base and its roots where they are in the world."""

    model: Model
    freedoms: Freedoms
    q0: Array
    qd0: Array
    single: bool


class World:
    """Robots, free bodies and things at rest, by names, that become one block.

        world = World("yard")
        world.add_robot("dog", "dog.urdf", floating=True, at=(0, 0, 0.4))
        world.add_robot("arm", gripper(), at=(1, 0, 0))
        world.add_body("ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)], at=(0, 1, 2))
        world.add_ground(Plane())
        plant = world.plant(mu=0.7)

    A body of a robot is called as robot.body in the model of the world, and so are joints; links of
    a file that are fixed to its base are the body robot.base. What is at rest is "ground".
    """

    def __init__(self, name: str, gravity: ArrayLike = STANDARD_GRAVITY):
        self.name = name
        self._gravity = np.array(gravity, dtype=float)
        self._parts: dict[str, _Part] = {}
        self._ground: list[Shape | Surface] = []
        self._apart: list[tuple[str, str]] = []

    def add_robot(
        self,
        name: str,
        robot: str | Path | RobotDescription | Model,
        at: Placement = (0.0, 0.0, 0.0),
        q0: Any = None,
        qd0: Any = None,
        *,
        floating: bool = False,
    ) -> None:
        """Adds a robot: its file (`load_model`), its description or its model.

        `at` is where the robot's base coordinates are, a position (3,) [m] or the transform from
        those of the world: a fixed base stands there, a floating one starts from there. Planes at
        rest of its file become ground, and pairs of its bodies that the file keeps apart are so
        here. q0 (nq,)
        and qd0 (nv,) are the start in the robot's own base coordinates. `floating` is for a file.
        Raises ValueError for a name that is taken or none, for joints that follow others and
        springs between points, and what `load_model` raises.
        """
        self._check_name(name)
        X = _placement(at, name)
        if isinstance(robot, str | Path):
            from rigidblocks.formats.load import load_model  # which reads files, as FMUs do not

            robot = load_model(robot, floating=floating)
        elif floating:
            raise ValueError(f"robot '{name}' is no file: its model says whether its base floats")
        if isinstance(robot, RobotDescription):
            if robot.couplings:
                joints = [robot.model.joint_names[one.joint] for one in robot.couplings]
                raise ValueError(
                    f"joint {', '.join(joints)} of robot '{name}' follows another, which rigid "
                    "contact does not know"
                )
            if robot.springs:
                raise ValueError(
                    f"robot '{name}' has springs between points, {robot.springs[0].name} the "
                    "first, which rigid contact does not know"
                )
            model, freedoms = _with_base(robot), robot.freedoms
        else:
            model, freedoms = robot, Freedoms.of(robot.nv)
        if not isinstance(model, Model):
            raise TypeError(f"robot '{name}' must be a spatial model, not {model!r}")
        q = start_configuration(model, q0)
        qd = finite(np.zeros(model.nv) if qd0 is None else qd0, (model.nv,), f"qd0 of '{name}'")
        placed, q = _moved(model, q, X)
        if isinstance(robot, RobotDescription):
            self._add_rest(name, robot, X)
        self._parts[name] = _Part(placed, freedoms, q, qd, single=False)

    def add_body(
        self,
        name: str,
        inertia: RigidInertia,
        contact: Sequence[Shape],
        at: Placement = (0.0, 0.0, 0.0),
        qd0: Any = None,
        *,
        appearance: Sequence[Shape] | None = None,
    ) -> None:
        """Adds a free body with the shapes `contact`, which are also drawn unless `appearance` is
        given.

        `at` is where it starts, as in `add_robot`; qd0 (6,) its velocity [w; v] in its own
        coordinates. Raises ValueError for a name that is taken or none.
        """
        self._check_name(name)
        seen = contact if appearance is None else appearance
        model = Model(
            name,
            (-1,),
            (SixDoF(),),
            (identity(),),
            (inertia,),
            appearance=(tuple(seen),),
            contact=(tuple(contact),),
            body_names=(name,),
        )
        q = SixDoF().nearest(_placement(at, name))
        qd = finite(np.zeros(6) if qd0 is None else qd0, (6,), f"qd0 of '{name}'")
        self._parts[name] = _Part(model, Freedoms.of(6), q, qd, single=True)

    def _add_rest(self, name: str, robot: RobotDescription, X: Transform) -> None:
        """The planes on which a robot's file has it stand, and which of its bodies do not touch."""
        planes = [shape for shape in robot.base_contact if isinstance(shape, Plane)]
        self.add_ground(*(plane.moved(X.inverse()) for plane in planes))
        base = [f"{name}.{_base_name(robot.model)}"] * (len(planes) < len(robot.base_contact))
        for one, other in robot.apart:
            first, second = (
                [f"{name}.{robot.model.body_names[i]}"] if i >= 0 else base for i in (one, other)
            )
            self._apart += [(a, b) for a in first for b in second]

    def add_ground(self, *shapes: Shape | Surface) -> None:
        """Adds things at rest, in the coordinates of the world."""
        self._ground += shapes

    def set_apart(self, one: str, other: str) -> None:
        """Lets two members or bodies (robot.body) pass through each other; "ground" is what is at
        rest.
        """
        self._apart.append((one, other))

    def model(self) -> Model:
        """All robots and bodies as one model."""
        if not self._parts:
            raise ValueError(f"world '{self.name}' has no robots and no bodies")
        models = [_named(name, part.model, part.single) for name, part in self._parts.items()]
        first = [0, *accumulate(model.nb for model in models)]

        def all_of(field: str) -> tuple[Any, ...]:
            return tuple(value for model in models for value in getattr(model, field))

        def shapes_of(field: str) -> tuple[tuple[Shape, ...], ...]:
            some = (getattr(model, field) or ((),) * model.nb for model in models)
            return tuple(shapes for of_one in some for shapes in of_one)

        return Model(
            name=self.name,
            parent=tuple(
                p if p < 0 else p + n
                for model, n in zip(models, first, strict=False)
                for p in model.parent
            ),
            gravity=self._gravity,
            appearance=shapes_of("appearance"),
            contact=shapes_of("contact"),
            loops=tuple(
                _shifted(loop, name, n)
                for model, n in zip(models, first, strict=False)
                for name, loop in zip(model.loop_names, model.loops, strict=False)
            ),
            **{field: all_of(field) for field in _JOINED},
        )

    def plant(self, *, sensors: Sequence[ContactSensor] = (), **options: Any) -> WorldPlant:
        """The block of the world; `options` are those of `RigidContactPlant` beyond the model,
        ground, q0, qd0, freedoms and apart. Sides of `sensors` may also be members. Raises what it
        raises.
        """
        model, parts = self.model(), self._parts.values()
        columns = zip(*(vars(part.freedoms).values() for part in parts), strict=True)
        plant = RigidContactPlant(
            model,
            tuple(self._ground),
            q0=np.concatenate([part.q0 for part in parts]),
            qd0=np.concatenate([part.qd0 for part in parts]),
            freedoms=Freedoms(*map(np.concatenate, columns)),
            apart=tuple(self._pairs_apart(model)),
            sensors=tuple(self._placed(sensor, model) for sensor in sensors),
            **options,
        )
        return WorldPlant(plant, tuple(self._members()))

    def _members(self) -> Iterator[Member]:
        at = [0, 0, 0]
        for name, part in self._parts.items():
            sizes = (part.model.nb, part.model.nq, part.model.nv)
            bodies, q, qd = (slice(k, k + n) for k, n in zip(at, sizes, strict=True))
            at = [k + n for k, n in zip(at, sizes, strict=True)]
            yield Member(name, bodies, q, qd, part.single)

    def _pairs_apart(self, model: Model) -> Iterator[tuple[str, str]]:
        """The pairs of bodies of what was named."""
        for pair in self._apart:
            one, other = (self._bodies(name, model) for name in pair)
            yield from ((a, b) for a in one for b in other if a != b)

    def _placed(self, sensor: ContactSensor, model: Model) -> ContactSensor:
        """The sensor with the bodies of members, those that have shapes, instead of their names."""
        one, other = (
            tuple(body for name in names for body in self._touching(name, model))
            for names in sensor.sides
        )
        return replace(sensor, one=one, other=other)

    def _touching(self, name: str, model: Model) -> list[str]:
        if name not in self._parts:
            return [name]
        bodies = self._bodies(name, model)
        return [one for one in bodies if model.contact[model.body_names.index(one)]] or [name]

    def _bodies(self, name: str, model: Model) -> list[str]:
        """The bodies of a member, or the body with this name."""
        if name == "ground" or (name not in self._parts and name in model.body_names):
            return [name]
        if name not in self._parts:
            raise ValueError(
                f"'{name}' is no member or body of world '{self.name}': take 'ground' or of "
                f"{', '.join(self._parts)}"
            )
        return list(_named(name, self._parts[name].model, self._parts[name].single).body_names)

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "ground":
            raise ValueError(
                f"'{name}' cannot name a member of world '{self.name}': take letters, digits and "
                "_, a letter first, and not 'ground'"
            )
        if name in self._parts:
            raise ValueError(f"world '{self.name}' has a member '{name}' already")


def _placement(at: Placement, name: str) -> Transform:
    X = at if isinstance(at, Transform) else xlt(np.asarray(at, dtype=float))
    check_frame(X, f"the place of '{name}'")
    return X


def _named(name: str, model: Model, single: bool) -> Model:
    """The model with the names that it has in a world."""
    if single:
        return replace(model, joint_names=(name,))

    def named(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{name}.{one}" for one in names)

    loops = [
        replace(loop, name=f"{name}.{one}")
        for one, loop in zip(model.loop_names, model.loops, strict=False)
    ]
    return replace(
        model,
        body_names=named(model.body_names),
        joint_names=named(model.joint_names),
        massless=named(model.massless),
        unphysical=named(model.unphysical),
        loops=tuple(loops),
    )


def _shifted(loop: LoopJoint, name: str, n: int) -> LoopJoint:
    """A loop joint between bodies that are numbered from n on."""
    ends = {
        role: body + n if (body := getattr(loop, role)) >= 0 else body
        for role in ("predecessor", "successor")
    }
    return replace(loop, name=name, **ends)


def _moved(model: Model, q: Array, X: Transform) -> tuple[Model, Array]:
    """The model with its base where X says, and where it starts from: floating bases move in q."""
    if model.strings:
        raise ValueError(f"model '{model.name}' has strings, which rigid contact does not know")
    Xtree, q = list(model.Xtree), q.copy()
    for i, (p, joint) in enumerate(zip(model.parent, model.joint, strict=True)):
        if p >= 0:
            continue
        if isinstance(joint, SixDoF) and not _is_placed(Xtree[i]):
            at = model.q_slices[i]
            q[at] = joint.nearest(joint.jcalc(q[at], np.zeros(6)).XJ @ X)
        else:
            Xtree[i] = Xtree[i] @ X
    loops = (
        replace(
            loop,
            Xp=loop.Xp @ X if loop.predecessor < 0 else loop.Xp,
            Xs=loop.Xs @ X if loop.successor < 0 else loop.Xs,
        )
        for loop in model.loops
    )
    return replace(model, Xtree=tuple(Xtree), loops=tuple(loops)), q


def _is_placed(X: Transform) -> bool:
    """Whether a frame is elsewhere than the origin."""
    return bool(np.any(X.r)) or not np.array_equal(X.E, np.eye(3))


def _base_name(model: Any) -> str:
    """The name of the body of what a file fixes to the base."""
    return "base" if "base" not in model.body_names else "fixed_base"


def _with_base(robot: RobotDescription) -> Any:
    """The model with the links that a file fixes to the base as a body, where they have shapes."""
    model = robot.model
    if not (robot.base_contact or robot.base_appearance) or not isinstance(model, Model):
        return model
    joints: tuple[Joint, ...] = (Fixed(), *model.joint)
    nothing = ((),) * model.nb
    name = _base_name(model)
    contact = tuple(shape for shape in robot.base_contact if isinstance(shape, Shape))
    return replace(
        model,
        parent=(
            -1,
            *(
                -1 if p < 0 and isinstance(joint, SixDoF) else p + 1
                for p, joint in zip(model.parent, model.joint, strict=True)
            ),
        ),
        joint=joints,
        Xtree=(identity(), *model.Xtree),
        inertia=(NOTHING, *model.inertia),
        body_names=(name, *model.body_names),
        joint_names=(f"{name}_joint", *model.joint_names),
        massless=(name, *model.massless),
        appearance=(tuple(robot.base_appearance), *(model.appearance or nothing)),
        contact=(contact, *(model.contact or nothing)),
        loops=tuple(_shifted(loop, loop.name, 1) for loop in model.loops),
    )
