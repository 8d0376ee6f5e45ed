"""What files list of a robot: links, joints and frames, before they are a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import Array, RigidInertia, Transform
from rigidblocks.formats.description import Actuator
from rigidblocks.formats.document import SAME
from rigidblocks.joint import Joint
from rigidblocks.model.model import STANDARD_GRAVITY
from rigidblocks.model.shapes import Plane, Shape

NOTHING = RigidInertia(0.0, read_only(np.zeros(3)), read_only(np.zeros((3, 3))))
WORLD = ""  # the name of what is no link: the fixed base


class Link(NamedTuple):
    """A link of a file: its inertia and its shapes in its own coordinates."""

    name: str
    line: int
    inertia: RigidInertia = NOTHING
    appearance: Sequence[Shape] = ()
    contact: Sequence[Shape] = ()


class Connection(NamedTuple):
    """A joint of a file, from link `parent` to link `child`; `Xp` takes the coordinates of the
    parent link to the joint's frame F_p, `Xs` those of the child link to F_s. `freedoms` are as in
    `Freedoms.of`.
    """

    name: str
    line: int
    parent: str
    child: str
    joint: Joint
    Xp: Transform
    Xs: Transform = SAME
    freedoms: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Stretched:
    """What a file says of a spring between two points (3,) [m], each in the coordinates of its
    link, as `PointSpring`.
    """

    name: str
    ends: tuple[tuple[str, Array], tuple[str, Array]]
    stiffness: float
    damping: float
    rest: float


@dataclass(frozen=True)
class Following:
    """What a file says of a joint that follows another: q = ratio q_source + offset."""

    line: int
    joint: str
    source: str
    ratio: float
    offset: float


class Assembly(NamedTuple):
    """What a file lists, in its order, and how it is to be read.

    `loops` says whether a link may be the child of several joints, `floating` whether the first
    link of all is to have the six freedoms of a floating base, `strict` whether an inertia that no
    rigid body has is refused. `apart` are the pairs of links that do not touch.
    """

    path: Path
    name: str
    links: Sequence[Link]
    connections: Sequence[Connection]
    followings: Sequence[Following] = ()
    frames: Sequence[tuple[str, str, Transform]] = ()  # name, link, placement in the link
    gravity: Sequence[float] = STANDARD_GRAVITY
    loops: bool = False
    floating: bool = False
    strict: bool = False
    warnings: Sequence[str] = ()
    actuators: Sequence[tuple[str, Actuator]] = ()  # each with the name of its joint
    springs: Sequence[Stretched] = ()
    apart: Sequence[tuple[str, str]] = ()
    planes: Sequence[tuple[str, Plane]] = ()  # at rest, each in the coordinates of its link
    sound_shapes: bool = False  # so that they can be made when they are first looked at
    origin: Transform | None = None  # where the link on the base is, if not at its origin
