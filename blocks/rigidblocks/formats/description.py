"""What a file says of a robot: its model, and what it says beyond that."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.frozen import floats_of_shape, is_frozen, read_only
from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel
from rigidblocks.model.shapes import Plane, Shape
from rigidblocks.pictures import Picture, picture


class Place(NamedTuple):
    """Where a named frame is: on body number `body`, -1 the base; `placement` takes the body's
    coordinates to the frame's.
    """

    body: int
    placement: Transform


class Coupling(NamedTuple):
    """Joint number `joint` follows joint number `source`, both of one freedom (a mimic joint):

    q_joint = ratio q_source + offset
    """

    joint: int
    source: int
    ratio: float
    offset: float


class Actuator(NamedTuple):
    """What drives joint number `joint`, of one freedom, by a control u (`library.JointMotors`):

        force = (gain . s) u + bias . s,  s = (1, gear q, gear qd)        tau = gear force

    u is limited to `control`, the force to `force`, both (lower, upper).
    """

    name: str
    joint: int
    gear: float = 1.0
    gain: tuple[float, float, float] = (1.0, 0.0, 0.0)
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    control: tuple[float, float] = (-np.inf, np.inf)
    force: tuple[float, float] = (-np.inf, np.inf)


class PointSpring(NamedTuple):
    """A spring with a damper beside it between `point` (3,) [m] of body number `body` and
    `other_point` of body number `other`, -1 the base, each in the coordinates of its body:

        tension = stiffness (s - rest) + damping ds/dt,  s their distance
    """

    name: str
    body: int
    point: tuple[float, ...]
    other: int
    other_point: tuple[float, ...]
    stiffness: float
    damping: float = 0.0
    rest: float = 0.0


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Freedoms:
    """What a file says of the joints' freedoms: arrays (nv,), in the order of qd.

    `lower` and `upper` [rad or m] are the limits of the positions, `velocity` and `effort` those of
    the sizes of speeds and forces; infinite where there are none. `damping` is force over velocity,
    `friction` the force of dry friction, and `backward` that where the position shrinks, the same
    unless it is said; `armature` is the inertia of the rotor as felt at the joint, `stiffness` that
    of a spring which rests at `rest`; zero where there are none.
    """

    lower: Array
    upper: Array
    velocity: Array
    effort: Array
    damping: Array
    friction: Array
    armature: Array
    stiffness: Array
    rest: Array
    backward: Array

    def __post_init__(self) -> None:
        for name in _NONE:
            values = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, values if is_frozen(values) else read_only(values))

    @classmethod
    def of(cls, nv: int, **values: Any) -> "Freedoms":
        """Those of `nv` freedoms of which a file says `values`, each a number or (nv,)."""
        return cls.joined([(nv, values)])

    @classmethod
    def joined(cls, parts: Iterable[tuple[int, Mapping[str, Any]]]) -> "Freedoms":
        """Those of several joints, one after the other, each as in `of`."""
        rows: list[Sequence[float]] = []
        for nv, said in parts:
            values = list(_NONE.values())
            for name, value in said.items():
                values[_PLACE[name]] = value
            if "friction" in said and "backward" not in said:
                values[_PLACE["backward"]] = said["friction"]
            if nv == 1 and set(map(type, said.values())) <= {float}:
                rows.append(values)
            else:
                rows += np.array([np.full(nv, value) for value in values]).T.tolist()
        flat = [value for column in zip(*rows, strict=True) for value in column]
        columns = floats_of_shape((len(_NONE), len(rows)), flat)
        made = object.__new__(cls)  # of what needs no look at each
        vars(made).update(zip(_NONE, columns, strict=True))
        return made


_NONE = {"lower": -np.inf, "upper": np.inf, "velocity": np.inf, "effort": np.inf} | dict.fromkeys(
    ("damping", "friction", "armature", "stiffness", "rest", "backward"), 0.0
)
_PLACE = {name: k for k, name in enumerate(_NONE)}


@dataclass(frozen=True, eq=False)
class RobotDescription:
    """What a file says of a robot.

    `model` is its dynamics: links that are fixed to each other are one body. `frames` has every
    link of the file by name, and every frame; `freedoms` are the limits, springs, damping, friction
    and rotors of the joints, `couplings` the joints that follow others, `actuators` what drives
    them, `springs` those between two points. Shapes of links that are fixed to the base are in
    `base_appearance` and `base_contact`, planes at rest among the latter. `apart` are the pairs of
    bodies by number, -1 the base, that do not touch though no joint connects them. `warnings` say
    in one line each what the file leaves out or has wrong, with its line.
    """

    model: Model | PlanarModel
    freedoms: Freedoms
    frames: Mapping[str, Place] = field(default_factory=dict)
    couplings: tuple[Coupling, ...] = ()
    base_appearance: Sequence[Shape] = ()
    base_contact: Sequence[Shape | Plane] = ()
    warnings: Sequence[str] = ()
    actuators: tuple[Actuator, ...] = ()
    springs: tuple[PointSpring, ...] = ()
    apart: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        lists = (self.frames, self.couplings, self.actuators, self.springs, self.warnings)
        kinds = ("frames", "couplings", "actuators", "springs", "warnings")
        more = (f"{len(some)} {kind}" for some, kind in zip(lists, kinds, strict=True) if some)
        return f"<RobotDescription: {', '.join([repr(self.model), *more])}>"

    def _repr_html_(self) -> str:
        """What notebooks show: the bodies, and what is wrong with the file."""
        told = "".join(f"<li>{escape(text)}</li>" for text in self.warnings)
        return f"{self.model._repr_html_()}<ul>{told}</ul>" if told else self.model._repr_html_()

    def show(self, q: Any = None, path: str | Path | None = None) -> Picture:
        """The page of the robot at q (nq,), with a slider for each joint, as of `show`."""
        return picture(self, q, path)
