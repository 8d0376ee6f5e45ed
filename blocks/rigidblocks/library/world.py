"""Worlds that are put together by names: robots, from files too, free bodies and things at rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import RigidInertia, Transform, identity
from rigidblocks.block.port import finite
from rigidblocks.contact.sensor_tables import ContactSensor
from rigidblocks.formats.description import Freedoms, RobotDescription
from rigidblocks.joint import SixDoF
from rigidblocks.library.closed_loop_plant import ClosedLoopPlant
from rigidblocks.library.contact_checks import checked_ground
from rigidblocks.library.described import described_elements, described_scales
from rigidblocks.library.plant import RobotPlant
from rigidblocks.library.ports import start_configuration
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.library.soft_contact_plant import SoftContactPlant
from rigidblocks.library.soft_world_plant import SoftWorldPlant
from rigidblocks.library.world_members import (
    Placement,
    WorldPart,
    base_name,
    check_rigid,
    joined_description,
    links_beyond,
    moved_model,
    named_model,
    placement,
    shifted_loop,
    with_base,
)
from rigidblocks.library.world_plant import Member, WorldPlant
from rigidblocks.model.model import STANDARD_GRAVITY, Model
from rigidblocks.model.shapes import Plane, Shape, Surface

_JOINED = ("joint", "Xtree", "inertia", "body_names", "joint_names", "massless", "unphysical")


class World:
    """Robots, free bodies and things at rest, by names, that become one block: in rigid contact
    (`plant`) or in soft contact (`soft_plant`).

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
        self._parts: dict[str, WorldPart] = {}
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
        Raises ValueError for a name that is taken or none, and what `load_model` raises.
        """
        self._check_name(name)
        if isinstance(robot, str | Path):
            from rigidblocks.formats.load import load_model  # which reads files, as FMUs do not

            robot = load_model(robot, floating=floating)
        elif floating:
            raise ValueError(f"robot '{name}' is no file: its model says whether its base floats")
        X = placement(at, name)
        told = robot if isinstance(robot, RobotDescription) else None
        model: Any = robot if told is None else with_base(told)
        if not isinstance(model, Model):
            raise TypeError(f"robot '{name}' must be a spatial model, not {model!r}")
        q = start_configuration(model, q0)
        qd = finite(np.zeros(model.nv) if qd0 is None else qd0, (model.nv,), f"qd0 of '{name}'")
        placed, q = moved_model(model, q, X)
        if told is None:
            self._parts[name] = WorldPart(placed, Freedoms.of(model.nv), q, qd, single=False)
        else:
            self._add_rest(name, told, X)
            self._parts[name] = WorldPart(
                placed, told.freedoms, q, qd, False, *links_beyond(told, model, X)
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
        q = SixDoF().nearest(placement(at, name))
        qd = finite(np.zeros(6) if qd0 is None else qd0, (6,), f"qd0 of '{name}'")
        self._parts[name] = WorldPart(model, Freedoms.of(6), q, qd, single=True)

    def _add_rest(self, name: str, robot: RobotDescription, X: Transform) -> None:
        """The planes on which a robot's file has it stand, and which of its bodies do not touch."""
        planes = [shape for shape in robot.base_contact if isinstance(shape, Plane)]
        self.add_ground(*(plane.moved(X.inverse()) for plane in planes))
        base = [f"{name}.{base_name(robot.model)}"] * (len(planes) < len(robot.base_contact))
        for one, other in robot.apart:
            first, second = (
                [f"{name}.{robot.model.body_names[i]}"] if i >= 0 else base for i in (one, other)
            )
            self._apart += [(a, b) for a in first for b in second]

    def add_ground(self, *shapes: Shape | Surface) -> None:
        """Adds things at rest, in the coordinates of the world."""
        self._ground += checked_ground(shapes)

    def set_apart(self, one: str, other: str) -> None:
        """Lets two members or bodies (robot.body) pass through each other; "ground" is what is at
        rest.
        """
        self._apart.append((one, other))

    def model(self) -> Model:
        """All robots and bodies as one model."""
        if not self._parts:
            raise ValueError(f"world '{self.name}' has no robots and no bodies")
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
            gravity=self._gravity,
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
        """The block of the world in rigid contact; `options` are those of `RigidContactPlant`
        beyond the model, ground, q0, qd0, freedoms and apart. Sides of `sensors` may also be
        members.

        Raises ValueError for joints that follow others and springs between points, and what
        `RigidContactPlant` raises.
        """
        model = self.model()
        robot = joined_description(model, self._parts)
        check_rigid(robot)
        plant = RigidContactPlant(
            model,
            tuple(self._ground),
            **self._start(),
            freedoms=robot.freedoms,
            apart=tuple(self._pairs_apart(model)),
            sensors=self._placed(sensors, model),
            **options,
        )
        return WorldPlant(plant, tuple(self._members()))

    def soft_plant(
        self,
        K: float,
        *,
        sensors: Sequence[ContactSensor] = (),
        stops: tuple[float, float] | None = None,
        **options: Any,
    ) -> SoftWorldPlant:
        """The block of the world in soft contact of stiffness K [N/m]; `options` are those of
        `SoftContactPlant` beyond the robot, ground and apart.

        What files say of rotors, springs, dampers and dry friction of joints, of joints that follow
        others and of springs between points are elements of the plant; with `stops`, a stiffness
        [N.m/rad or N/m] and a damping, the limits of joints are too. Raises what `RobotPlant`,
        `ClosedLoopPlant` and `SoftContactPlant` raise.
        """
        model = self.model()
        robot = joined_description(model, self._parts)
        elements, scales = described_elements(robot, True, stops), described_scales(robot)
        kind: Any = ClosedLoopPlant if model.constrained else RobotPlant
        plant = SoftContactPlant(
            kind(model, **self._start(), elements=elements, nominal=scales, external_wrenches=True),
            K,
            ground=tuple(self._ground),
            apart=tuple(pair for pair in self._pairs_apart(model) if _touch(model, *pair)),
            sensors=self._placed(sensors, model),
            **options,
        )
        return SoftWorldPlant(plant, tuple(self._members()))

    def _start(self) -> dict[str, Any]:
        """q0 and qd0 of all."""
        parts = self._parts.values()
        return {
            "q0": np.concatenate([part.q0 for part in parts]),
            "qd0": np.concatenate([part.qd0 for part in parts]),
        }

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

    def _placed(self, sensors: Sequence[ContactSensor], model: Model) -> tuple[ContactSensor, ...]:
        """The sensors with the bodies of members, those that have shapes, instead of their
        names.
        """
        placed = []
        for sensor in sensors:
            one, other = (
                tuple(body for name in names for body in self._touching(name, model))
                for names in sensor.sides
            )
            placed.append(replace(sensor, one=one, other=other))
        return tuple(placed)

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
        return list(named_model(name, self._parts[name].model, self._parts[name].single).body_names)

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "ground":
            raise ValueError(
                f"'{name}' cannot name a member of world '{self.name}': take letters, digits and "
                "_, a letter first, and not 'ground'"
            )
        if name in self._parts:
            raise ValueError(f"world '{self.name}' has a member '{name}' already")


def _touch(model: Model, *names: str) -> bool:
    """Whether all of these have shapes."""
    bodies = (model.body_names.index(name) for name in names if name != "ground")
    return all(model.contact[i] for i in bodies)
