"""Worlds: named robots, free bodies and ground, combined in one model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.port import finite
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.contact.contact_checks import check_ground
from rigidblocks.contact.contact_sensors import ContactSensor
from rigidblocks.contact.rigid_contact_plant import RigidContactPlant
from rigidblocks.contact.soft_contact_blocks import SoftContactPlant
from rigidblocks.contact.world_plant import Member, SoftWorldPlant, WorldPlant
from rigidblocks.library.closed_loops import ClosedLoopPlant
from rigidblocks.library.common_ports import start_configuration
from rigidblocks.library.plant_from_file import described_elements, described_scales
from rigidblocks.library.plant_ports import Element
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.joints import Fixed, Joint, LoopJoint, SixDoF
from rigidblocks.robot.model import STANDARD_GRAVITY, Model
from rigidblocks.robot.robot_description import (
    BodyDrag,
    Coupling,
    JointProperties,
    Place,
    PointSpring,
    RobotDescription,
    Tendon,
    Weightless,
    unused_name,
)
from rigidblocks.robot.shapes import Plane, Shape, Surface
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, check_frame, identity, xlt

NOTHING = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
Placement = Transform | ArrayLike


@dataclass(frozen=True, eq=False)
class WorldPart:
    """Robot or free body of a world: model, joint properties, initial state and force elements.

    The base coordinates of `model` are world coordinates. `single` is True for a free body.
    """

    model: Model
    joint_properties: JointProperties
    q0: Array
    qd0: Array
    single: bool
    couplings: tuple[Coupling, ...] = ()
    springs: tuple[PointSpring, ...] = ()
    weightless: tuple[Weightless, ...] = ()
    tendons: tuple[Tendon, ...] = ()
    drags: tuple[BodyDrag, ...] = ()

    @property
    def gravity(self) -> Array | None:
        """Gravity from the file or model of the robot, or None for a free body."""
        return None if self.single else self.model.gravity


def common_gravity(parts: Mapping[str, WorldPart]) -> Array:
    """Return the common gravity (3,) [m/s^2] of all robots, or standard gravity without robots.

    Raises:
        ValueError: Two robots have different gravity.
    """
    robots = {name: g for name, part in parts.items() if (g := part.gravity) is not None}
    (first, gravity), *others = robots.items() or [("", np.array(STANDARD_GRAVITY))]
    for name, other in others:
        if not np.array_equal(gravity, other):
            raise ValueError(
                f"robot '{first}' has the gravity {gravity.tolist()} m/s2, but robot '{name}' "
                f"has {other.tolist()} m/s2; choose the gravity of the world: World(name, "
                "gravity=...)"
            )
    return gravity


def joined_description(model: Model, parts: Mapping[str, WorldPart]) -> RobotDescription:
    """Return one robot description that contains the joints and force elements of all members.

    `parts` contains the members by name. `model` is the model of the world, with bodies and joints
    in the order of the members.
    """
    first = [0, *accumulate(part.model.nb for part in parts.values())]
    columns = zip(*(vars(part.joint_properties).values() for part in parts.values()), strict=True)
    couplings, springs = list[Coupling](), list[PointSpring]()
    weightless, tendons, drags = list[Weightless](), list[Tendon](), list[BodyDrag]()
    for n, (name, part) in zip(first, parts.items(), strict=False):
        couplings += [
            one._replace(joint=one.joint + n, source=one.source + n) for one in part.couplings
        ]
        springs += [
            one._replace(
                name=f"{name}_{one.name}", body=one.body + n, other=_shift_body(one.other, n)
            )
            for one in part.springs
        ]
        weightless += [
            one._replace(name=f"{name}_{one.name}", body=one.body + n) for one in part.weightless
        ]
        tendons += [
            _shift_tendon(one, n)._replace(name=f"{name}_{one.name}") for one in part.tendons
        ]
        drags += [one._replace(name=f"{name}_{one.name}", body=one.body + n) for one in part.drags]
    return RobotDescription(
        model,
        JointProperties(*map(np.concatenate, columns)),
        couplings=tuple(couplings),
        springs=tuple(springs),
        weightless=tuple(weightless),
        tendons=tuple(tendons),
        drags=tuple(drags),
    )


def shifted_elements(
    robot: RobotDescription, model: Model, X: Transform
) -> dict[str, tuple[Any, ...]]:
    """Return the force elements of a robot with the joint and body indices of `model`.

    `model` may have an additional first body for the robot base. The function converts points on
    the base to world coordinates. X is the transform from world to base coordinates. The keys of
    the result are fields of `WorldPart`.
    """
    n, springs = model.nb - robot.model.nb, list[PointSpring]()
    for one in robot.springs:
        point = np.asarray(one.other_point)
        at = point if one.other >= 0 else X.r + X.E.T @ point
        moved = one._replace(body=_shift_body(one.body, n), other=_shift_body(one.other, n))
        springs.append(moved._replace(other_point=tuple(map(float, at))))
    couplings = (c._replace(joint=c.joint + n, source=c.source + n) for c in robot.couplings)
    tendons = (_shift_tendon(one, n, X) for one in robot.tendons)
    return {
        "couplings": tuple(couplings),
        "springs": tuple(springs),
        "weightless": tuple(one._replace(body=one.body + n) for one in robot.weightless),
        "tendons": tuple(tendons),
        "drags": tuple(one._replace(body=one.body + n) for one in robot.drags),
    }


def _shift_tendon(tendon: Tendon, n: int, X: Transform | None = None) -> Tendon:
    """Return a copy of a tendon, with n added to its joint and body indices.

    If the transform X from world to base coordinates is given, the function converts the frames on
    the base to world coordinates.
    """
    line = tendon.line
    if line is not None:
        frames = tuple(
            Place(
                _shift_body(frame.body, n),
                frame.placement if frame.body >= 0 or X is None else frame.placement @ X,
            )
            for frame in line.frames
        )
        line = line._replace(frames=frames)
    return tendon._replace(joints=tuple(j + n for j in tendon.joints), line=line)


def check_rigid(robot: RobotDescription) -> None:
    """Check that rigid contact supports the force elements of a robot.

    Raises:
        ValueError: A robot has coupled joints, springs between points, tendons, masses on which
            gravity does not act, or fluid drag.
    """
    if robot.couplings:
        joints = [robot.model.joint_names[one.joint] for one in robot.couplings]
        raise ValueError(
            f"rigid contact does not support coupled joints ({', '.join(joints)} of "
            f"world '{robot.model.name}'); use compliant contact (`soft_plant`)"
        )
    if robot.springs:
        raise ValueError(
            f"rigid contact does not support springs between points ({robot.springs[0].name} of "
            f"world '{robot.model.name}'); use compliant contact (`soft_plant`)"
        )
    for kind in ("weightless", "tendons", "drags"):
        if found := getattr(robot, kind):
            raise ValueError(
                f"rigid contact does not support {_KINDS[kind]} ({found[0].name} of world "
                f"'{robot.model.name}'); use compliant contact (`soft_plant`)"
            )


_KINDS = {
    "weightless": "masses without weight",
    "tendons": "tendons",
    "drags": "fluid drag",
}


def _shift_body(body: int, n: int) -> int:
    """Return the body index plus n, or -1 for the base."""
    return body + n if body >= 0 else body


def placement(at: Placement, name: str) -> Transform:
    """Return the placement of a member as the transform from world to member coordinates.

    `at` is a position (3,) [m] or a transform. `name` is the member name for error messages.

    Raises:
        ValueError: The position or transform is invalid.
    """
    X = at if isinstance(at, Transform) else xlt(np.asarray(at, dtype=float))
    check_frame(X, f"the position `at` of '{name}'")
    return X


def named_model(name: str, model: Model, single: bool) -> Model:
    """Add the prefix `<name>.` to the names of the bodies, joints and loops of a model.

    If `single` is True, the model is a free body, and the name of its joint becomes `name`.
    """
    if single:
        return replace(model, joint_names=(name,))

    def add_prefix(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{name}.{one}" for one in names)

    loops = [
        replace(loop, name=f"{name}.{one}")
        for one, loop in zip(model.loop_names, model.loops, strict=False)
    ]
    return replace(
        model,
        body_names=add_prefix(model.body_names),
        joint_names=add_prefix(model.joint_names),
        massless=add_prefix(model.massless),
        unphysical=add_prefix(model.unphysical),
        loops=tuple(loops),
    )


def shifted_loop(loop: LoopJoint, name: str, n: int) -> LoopJoint:
    """Return a copy of the loop joint with a new name and with n added to its body indices."""
    ends = {
        role: body + n if (body := getattr(loop, role)) >= 0 else body
        for role in ("predecessor", "successor")
    }
    return replace(loop, name=name, **ends)


def moved_model(model: Model, q: Array, X: Transform) -> tuple[Model, Array]:
    """Move the base of a model to the pose X; return the model and its configuration q (nq,).

    X is the transform from world to base coordinates. The function changes the positions of
    floating bases in q.

    Raises:
        ValueError: The model has cable constraints.
    """
    if model.strings:
        raise ValueError(
            f"model '{model.name}' has cable constraints, which a world does not support"
        )
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
    """Return True if the placement X is not the identity."""
    return bool(np.any(X.r)) or not np.array_equal(X.E, np.eye(3))


def base_name(model: Any) -> str:
    """Return an unused body name for the links that are fixed to the base of the model."""
    taken = {*model.body_names, *(name.removesuffix("_joint") for name in model.joint_names)}
    return "base" if "base" not in taken else unused_name("fixed_base", taken)


def add_base_body(robot: RobotDescription) -> Any:
    """Return the model of the robot, with an additional fixed body for the shapes of its base.

    If the base has no shapes, the function returns the model without changes.
    """
    model = robot.model
    if not (robot.base_contact or robot.base_appearance) or not isinstance(model, Model):
        return model
    joints: tuple[Joint, ...] = (Fixed(), *model.joint)
    nothing = ((),) * model.nb
    name = base_name(model)
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
        loops=tuple(shifted_loop(loop, loop.name, 1) for loop in model.loops),
    )


_JOINED = ("joint", "Xtree", "inertia", "body_names", "joint_names", "massless", "unphysical")


class World:
    """Builder of a world: named robots, free bodies and ground, combined in one block.

    The block has rigid contact (`plant`) or compliant contact (`soft_plant`).

        world = World("yard")
        world.add_robot("dog", "dog.urdf", floating=True, at=(0, 0, 0.4))
        world.add_robot("arm", gripper(), at=(1, 0, 0))
        world.add_body("ball", sphere_inertia(0.1, mass=1), [Sphere(0.1)], at=(0, 1, 2))
        world.add_ground(Plane())
        plant = world.plant(mu=0.7)

    The name of all fixed shapes is "ground". In the model of the world, a body or joint of a robot
    has the name robot.body or robot.joint. Links that are fixed to the base in a file form the body
    robot.base. `gravity` (3,) [m/s^2] defaults to the gravity of the robots' files and models.
    """

    def __init__(self, name: str, gravity: ArrayLike | None = None):
        self.name = name
        what = f"the gravity of world '{name}'"
        self._gravity = None if gravity is None else finite(gravity, (3,), what)
        self._parts: dict[str, WorldPart] = {}
        self._ground: list[Shape | Surface] = []
        self._exclusions: list[tuple[str, str]] = []

    @explain_calls()
    def add_robot(
        self,
        name: str,
        robot: str | Path | RobotDescription | Model,
        at: Placement = (0.0, 0.0, 0.0),
        q0: Any = None,
        qd0: Any = None,
        *,
        floating: bool = False,
        key: str | None = None,
    ) -> None:
        """Add a robot from a file (`load_model`), a description or a model.

        Fixed planes in the file become ground. The world includes the file's collision exclusions.

        Args:
            name: Name of the member.
            robot: Path of a file, description or model.
            at: Position (3,) [m] or transform of the robot's base coordinates in world coordinates.
                This is the pose of a fixed base, or the initial pose of a floating base.
            q0: Initial configuration (nq,) in base coordinates; default: from the file.
            qd0: Initial velocity (nv,) in base coordinates; default: from the file.
            floating: True to load the robot from the file with a floating base.
            key: Name of the keyframe of the file that defines the defaults of q0 and qd0.

        Raises:
            ValueError: The name is invalid or a duplicate, `floating` is given without a file,
                `key` is given for a model, or `load_model` raises ValueError.
            TypeError: The robot is not a spatial model.
        """
        self._check_name(name)
        if isinstance(robot, str | Path):
            from rigidblocks.robot_description.load import (
                load_model,  # imported here because FMUs do not read robot files
            )

            robot = load_model(robot, floating=floating, key=key)
        elif floating:
            raise ValueError(
                f"`floating` requires a file, but robot '{name}' is a model or a robot description"
            )
        elif key is not None:
            if not isinstance(robot, RobotDescription):
                raise ValueError(
                    f"`key` requires a file or a robot description, but robot '{name}' is a model"
                )
            robot = robot.select_keyframe(key)
        X = placement(at, name)
        description = robot if isinstance(robot, RobotDescription) else None
        model: Any = robot if description is None else add_base_body(description)
        if not isinstance(model, Model):
            raise TypeError(f"robot '{name}' must be a spatial model, not {model!r}")
        if description is not None:
            q0 = description.q0 if q0 is None else q0
            qd0 = description.qd0 if qd0 is None else qd0
        q = np.array(start_configuration(model, q0))
        elements = {} if description is None else shifted_elements(description, model, X)
        if q0 is None:  # the neutral positions of coupled joints may contradict each other
            for c in elements.get("couplings", ()):
                source = q[model.q_slices[c.source].start]
                q[model.q_slices[c.joint]] = c.polynomial(source)
        qd = finite(np.zeros(model.nv) if qd0 is None else qd0, (model.nv,), f"qd0 of '{name}'")
        placed, q = moved_model(model, q, X)
        if description is None:
            self._parts[name] = WorldPart(
                placed, JointProperties.from_values(model.nv), q, qd, single=False
            )
        else:
            self._add_base_shapes(name, description, X)
            self._parts[name] = WorldPart(
                placed,
                description.joint_properties,
                q,
                qd,
                False,
                **elements,
            )

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
        """Add a free body.

        Args:
            name: Name of the member.
            inertia: Spatial inertia of the body.
            contact: Contact shapes; if `appearance` is None, also the visual shapes.
            at: Initial position (3,) [m] or transform, as in `add_robot`.
            qd0: Initial velocity (6,) [w; v] in body coordinates.
            appearance: Visual shapes.

        Raises:
            ValueError: The name is a duplicate or invalid.
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
        q = SixDoF().nearest(placement(at, name))
        qd = finite(np.zeros(6) if qd0 is None else qd0, (6,), f"qd0 of '{name}'")
        self._parts[name] = WorldPart(model, JointProperties.from_values(6), q, qd, single=True)

    def _add_base_shapes(self, name: str, robot: RobotDescription, X: Transform) -> None:
        """Add the ground planes and the collision exclusions of a robot file to the world.

        X is the transform from world coordinates to base coordinates of the robot.
        """
        planes = [shape for shape in robot.base_contact if isinstance(shape, Plane)]
        self.add_ground(*(plane.transform(X.inverse()) for plane in planes))
        base = [f"{name}.{base_name(robot.model)}"] * (len(planes) < len(robot.base_contact))
        for one, other in robot.collision_exclusions:
            first, second = (
                [f"{name}.{robot.model.body_names[i]}"] if i >= 0 else base for i in (one, other)
            )
            self._exclusions += [(a, b) for a in first for b in second]

    def add_ground(self, *shapes: Shape | Surface) -> None:
        """Add static shapes in world coordinates."""
        self._ground += check_ground(shapes)

    def exclude_collision(self, first: str, second: str) -> None:
        """Exclude collisions between two members or bodies (robot.body).

        The name "ground" means all fixed shapes.
        """
        self._exclusions.append((first, second))

    def model(self) -> Model:
        """Return one model that contains all robots and bodies of the world.

        Raises:
            ValueError: The world has no robots and no bodies.
        """
        if not self._parts:
            raise ValueError(
                f"world '{self.name}' has no robots and no bodies; add one before you create the "
                "plant"
            )
        models = [named_model(name, part.model, part.single) for name, part in self._parts.items()]
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
            gravity=common_gravity(self._parts) if self._gravity is None else self._gravity,
            appearance=shapes_of("appearance"),
            contact=shapes_of("contact"),
            loops=tuple(
                shifted_loop(loop, name, n)
                for model, n in zip(models, first, strict=False)
                for name, loop in zip(model.loop_names, model.loops, strict=False)
            ),
            **{field: all_of(field) for field in _JOINED},
        )

    def plant(self, *, sensors: Sequence[ContactSensor] = (), **options: Any) -> WorldPlant:
        """Return a block that simulates the world with rigid contact.

        Args:
            sensors: Contact sensors, in which the name of a member means all bodies of the member.
            options: Options of `RigidContactPlant` except the model, ground, q0, qd0,
                joint_properties and collision_exclusions.

        Raises:
            ValueError: A robot has coupled joints, springs between points, tendons, masses on which
                gravity does not act, or fluid drag. An option of `RigidContactPlant` is invalid.
        """
        model = self.model()
        robot = joined_description(model, self._parts)
        check_rigid(robot)
        plant = RigidContactPlant(
            model,
            tuple(self._ground),
            **self._start(),
            joint_properties=robot.joint_properties,
            collision_exclusions=tuple(self._excluded_pairs(model)),
            sensors=self._resolve_sensors(sensors, model),
            **options,
        )
        return WorldPlant(plant, tuple(self._members()))

    def soft_plant(
        self,
        K: float,
        *,
        sensors: Sequence[ContactSensor] = (),
        stops: tuple[float, float] | None = None,
        elements: Sequence[Element] = (),
        **options: Any,
    ) -> SoftWorldPlant:
        """Return a block that simulates the world with compliant contact.

        The plant has force elements for the rotor inertias, joint springs, dampers, dry friction,
        joint couplings and springs between points that the files define.

        Args:
            K: Stiffness of the contacts [N/m].
            sensors: Contact sensors, in which the name of a member means all bodies of the member.
            stops: Stiffness [N.m/rad or N/m] and damping of stops at the joint limits. If it is
                None, the plant has no stops.
            elements: Additional elements, such as drives. Joints and bodies have the names in
                `model()`, for example arm.joint1.
            options: Options of `SoftContactPlant` except the robot, ground and
                collision_exclusions.

        Raises:
            ValueError: An option of `RobotPlant`, `ClosedLoopPlant` or `SoftContactPlant` is
                invalid.
        """
        model = self.model()
        robot = joined_description(model, self._parts)
        every = (*described_elements(robot, True, stops), *elements)
        scales = described_scales(robot)
        kind: Any = ClosedLoopPlant if model.has_constraints else RobotPlant
        plant = SoftContactPlant(
            kind(model, **self._start(), elements=every, nominal=scales, external_wrenches=True),
            K,
            ground=tuple(self._ground),
            collision_exclusions=tuple(
                pair for pair in self._excluded_pairs(model) if _have_shapes(model, *pair)
            ),
            sensors=self._resolve_sensors(sensors, model),
            **options,
        )
        return SoftWorldPlant(plant, tuple(self._members()))

    def _start(self) -> dict[str, Any]:
        """Return the initial configuration q0 and velocity qd0 of all members, by name."""
        parts = self._parts.values()
        return {
            "q0": np.concatenate([part.q0 for part in parts]),
            "qd0": np.concatenate([part.qd0 for part in parts]),
        }

    def _members(self) -> Iterator[Member]:
        """Yield each member with the slices of its bodies, q and qd in the arrays of the world."""
        at = [0, 0, 0]
        for name, part in self._parts.items():
            sizes = (part.model.nb, part.model.nq, part.model.nv)
            bodies, q, qd = (slice(k, k + n) for k, n in zip(at, sizes, strict=True))
            at = [k + n for k, n in zip(at, sizes, strict=True)]
            yield Member(name, bodies, q, qd, part.single)

    def _excluded_pairs(self, model: Model) -> Iterator[tuple[str, str]]:
        """Yield the collision exclusions as pairs of body names."""
        for pair in self._exclusions:
            one, other = (self._bodies(name, model) for name in pair)
            yield from ((a, b) for a in one for b in other if a != b)

    def _resolve_sensors(
        self, sensors: Sequence[ContactSensor], model: Model
    ) -> tuple[ContactSensor, ...]:
        """Replace each member name in the sensors by the names of the member's bodies."""
        placed = []
        for sensor in sensors:
            one, other = (
                tuple(body for name in names for body in self._bodies_with_shapes(name, model))
                for names in sensor.sides
            )
            placed.append(replace(sensor, one=one, other=other))
        return tuple(placed)

    def _bodies_with_shapes(self, name: str, model: Model) -> list[str]:
        """Return the names of the bodies of a member that have contact shapes.

        The result contains only `name` if no body has shapes or `name` is not a member.
        """
        if name not in self._parts:
            return [name]
        bodies = self._bodies(name, model)
        return [one for one in bodies if model.contact[model.body_names.index(one)]] or [name]

    def _bodies(self, name: str, model: Model) -> list[str]:
        """Return the names of the bodies of a member, or only `name` for a body or the ground."""
        if name == "ground" or (name not in self._parts and name in model.body_names):
            return [name]
        if name not in self._parts:
            raise ValueError(
                f"unknown robot or body '{name}' of world '{self.name}'; expected 'ground' or "
                f"one of {', '.join(self._parts)}"
            )
        return list(named_model(name, self._parts[name].model, self._parts[name].single).body_names)

    def _check_name(self, name: str) -> None:
        """Raise ValueError if the name of a new member is invalid or already used."""
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "ground":
            raise ValueError(
                f"invalid name '{name}' of a robot or body in world '{self.name}'; a name "
                "consists of letters, digits and _, begins with a letter, and is not 'ground'"
            )
        if name in self._parts:
            raise ValueError(
                f"world '{self.name}' has two robots or bodies with the name '{name}'; use "
                "unique names"
            )


def _have_shapes(model: Model, *names: str) -> bool:
    """Return True if each of the named bodies has contact shapes."""
    bodies = (model.body_names.index(name) for name in names if name != "ground")
    return all(model.contact[i] for i in bodies)
