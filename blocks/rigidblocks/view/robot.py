"""What a page knows of a robot: its solids, where its bodies are at q, and what may be moved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.points import BodyPoints, body_points
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.loops import position_constraints
from rigidblocks.model.configuration import checked, neutral
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel
from rigidblocks.model.tree import Tree
from rigidblocks.tracing.trace import Graph, trace
from rigidblocks.view.encoding import encoded
from rigidblocks.view.javascript import javascript_function
from rigidblocks.view.overlays import overlays, tips
from rigidblocks.view.solids import Solid, axis_of, in_space, solids

TURN, SLIDE = np.pi, 0.5  # the ends of a slider without limits [rad], and in links' lengths
LAST = 10.0  # s, the end of the slider of time


class Part(NamedTuple):
    """Of outputs (n, wide), one below the other, the columns from `first` to before `last`."""

    ports: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class DrawnRobot:
    """A model to be drawn under a name, at the configuration `q` (nq,), neutral unless given.

    `more` are solids beyond its own, `bare` the bodies of which some of them are missing, `limits`
    (lower, upper) the positions (nq,) that sliders end at, infinite where they have no limit.
    `forces` are the outputs with the forces at its points, or on its bodies and then where these
    act; `frames` have the body and the place on it of points whose paths can be drawn, by name.
    What functions of time move has the time [s] behind its q, as one more variable.
    """

    model: Tree
    name: str = ""
    q: Any = None
    more: tuple[Solid, ...] = ()
    bare: frozenset[int] = frozenset()
    limits: tuple[Any, Any] | None = None
    forces: tuple[Part, ...] = ()
    frames: Mapping[str, tuple[int, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        q = neutral(self.model) if self.q is None else checked(self.model, self.q)
        object.__setattr__(self, "q", q)

    @cached_property
    def solids(self) -> tuple[Solid, ...]:
        """All that is drawn of it."""
        model = self.model.at(0.0)
        return (*solids(model, self._bare), *self.more, *overlays(model))

    @property
    def variables(self) -> int:
        """How many numbers say where it is: its q, and the time where this moves it."""
        return self.model.nq + self.model.rheonomic

    def _at(self, variables: Array) -> tuple[Tree, Array]:
        """The model at the time, and q."""
        nq = self.model.nq
        timed = self.model.rheonomic
        return (self.model.at(variables[nq]) if timed else self.model), variables[:nq]

    @property
    def _bare(self) -> frozenset[int] | None:
        """The bodies that are to be drawn as rods; None where it is any that has no shapes."""
        shown = {one.body for one in self.more if one.kind == "mesh" and one.body >= 0}
        return self.bare - shown if shown else None

    @cached_property
    def touching(self) -> BodyPoints | None:
        """The points with which its bodies touch, if it has some and forces are at these."""
        model = self.model
        if len(self.forces) > 1:
            return None
        return body_points(model) if isinstance(model, Model) and any(model.contact) else None

    @property
    def weight(self) -> float:
        """Its weight on the earth [N]; of many bodies that touch each other, the heaviest's."""
        masses = [float(body.m) for body in self.model.inertia]
        return 9.81 * (max(masses) if len(self.forces) > 1 else sum(masses))

    @cached_property
    def poses(self) -> Graph:
        """The poses of all bodies at its `variables`, 12 numbers each: the rotation to the base by
        rows, then the position [m].
        """

        def poses(q: Array) -> Mapping[str, Array]:
            bodies = [twelve_numbers(X) for X in body_poses(*self._at(q))]
            return {"poses": np.concatenate(bodies)}

        return trace("poses", poses, {"q": (self.variables,)})

    @cached_property
    def open(self) -> Graph:
        """What the loops leave open (nc,) [rad, m] at its `variables` (n,), and then its
        derivatives by these (nc, n), by the time 0, which no loop can change.
        """
        model, given = self.model, {"q": (self.variables,)}
        if not model.loops:
            return trace("open", lambda q: {"open": q[:0]}, given)
        error = trace("delta", lambda q: {"d": position_constraints(*self._at(q)).delta}, given)
        q = ca.SX.sym("q", self.variables)
        d = error.function(q)
        slopes = ca.jacobian(d, q)
        slopes[:, model.nq :] = 0
        both = ca.vertcat(d, ca.vec(slopes.T))
        shapes = {"open": (model.nc,), "slopes": (model.nc, self.variables)}
        return Graph("open", given, shapes, ca.Function("open", [q], [ca.densify(both)]))

    @cached_property
    def quaternions(self) -> list[int]:
        """Where in q each quaternion starts."""
        pairs = zip(self.model.joint, self.model.q_slices, strict=True)
        return [k.start for joint, k in pairs if joint.nq > joint.nv]

    def sliders(self) -> Iterable[dict[str, Any]]:
        """A slider for each variable of joints whose variables are coordinates, and for time."""
        model, reach = self.model, SLIDE * span(self)
        for name, joint, where in zip(model.joint_names, model.joint, model.q_slices, strict=True):
            for j, k in enumerate(range(where.start, where.stop)):
                if joint.nq > joint.nv:
                    continue
                unit = joint.q_units[j]
                label = name if joint.nq == 1 else f"{name}[{j + 1}]"
                ends = (
                    self._ends(k, TURN, 0.0) if unit == "rad" else self._ends(k, reach, self.q[k])
                )
                yield {"name": label, "unit": unit, "q": k, **ends}
        if model.rheonomic:
            yield {"name": "time", "unit": "s", "q": model.nq, "low": 0.0, "high": LAST}

    def _ends(self, k: int, reach: float, middle: float) -> dict[str, float]:
        """The ends of the slider of a variable: its limits, where it has none as far from the
        middle as it reaches.
        """
        low, high = middle - reach, middle + reach
        if self.limits is not None:
            low = self.limits[0][k] if np.isfinite(self.limits[0][k]) else low
            high = self.limits[1][k] if np.isfinite(self.limits[1][k]) else high
        return {"low": float(min(low, self.q[k])), "high": float(max(high, self.q[k]))}

    def described(self, number: int) -> dict[str, Any]:
        """What the script of the page reads; `number` is its place among the robots there."""
        return {
            "name": self.name or self.model.name,
            "bodies": list(self.model.body_names),
            "q": [*self.q.tolist(), *[0.0] * self.model.rheonomic],
            "quaternions": self.quaternions,
            "constraints": self.model.nc if self.model.loops else 0,
            "poses": f"poses{number}",
            "open": f"open{number}",
            "solids": [_solid(one) for one in self.solids],
            "sliders": list(self.sliders()),
            "tips": [[body, *_rounded(p).tolist()] for body, p in tips(self.model)],
            "touching": self._touching(),
            "pressed": self.model.nb if len(self.forces) > 1 else 0,
            "frames": [[name, *place] for name, place in self._frames()],
            "weight": self.weight,
        }

    def _touching(self) -> list[list[float]]:
        """The body and the place on it of each point that touches."""
        if self.touching is None:
            return []
        pairs = zip(self.touching.body, self.touching.position, strict=True)
        return [[body, *_rounded(p).tolist()] for body, p in pairs]

    def _frames(self) -> Iterable[tuple[str, list[float]]]:
        """The body and the place on it of each frame and body, by name."""
        bodies = {name: (i, np.zeros(3)) for i, name in enumerate(self.model.body_names)}
        for name, (body, r) in {**bodies, **self.frames}.items():
            if body >= 0:
                yield name, [body, *_rounded(np.append(r, np.zeros(3 - len(r)))).tolist()]

    def functions(self, number: int) -> str:
        """The functions that `described` names, as properties of an object of JavaScript."""
        graphs = {"poses": self.poses, "open": self.open}
        return "".join(f"{k}{number}: {javascript_function(g)},\n" for k, g in graphs.items())


@dataclass(frozen=True)
class Outlook:
    """Which way is up, and from where one looks, both (3,); whether one may as well look from any
    side, as high up.
    """

    up: tuple[float, ...]
    eye: tuple[float, ...]
    any_side: bool


def outlook(model: Tree) -> Outlook:
    """Up is against gravity; one looks at a plane mechanism in its plane from before it, at others
    from an angle.
    """
    g = np.append(model.gravity, np.zeros(3 - len(model.gravity))).astype(float)
    size = float(np.linalg.norm(g))
    up = -g / size if size else np.array([0.0, 0.0, 1.0])
    normal = _normal(model)
    side = np.cross(np.array([0.0, 1.0, 0.0]) if abs(up[1]) < 0.7 else np.array([0, 0, 1.0]), up)
    side = side / np.linalg.norm(side)
    ahead = np.cross(up, side)
    if normal is not None and abs(normal @ up) > 0.9:
        eye = 1.1 * up - ahead + 0.25 * side
    elif normal is not None:
        flat = normal - (normal @ up) * up
        eye = flat + 0.28 * np.cross(up, flat) + 0.22 * up
    else:
        eye = side - 1.2 * ahead + 0.7 * up
    any_side = normal is None or bool(abs(normal @ up) > 0.9)
    return Outlook(tuple(up.tolist()), tuple(eye.tolist()), any_side)


def _normal(model: Tree) -> Array | None:
    """The normal of the plane in which a mechanism moves, if it moves in one."""
    if isinstance(model, PlanarModel):
        return np.array([0.0, 0.0, 1.0])
    model = model.at(0.0)
    poses = body_poses(model, neutral(model))
    axes = [axis_of(joint) for joint in model.joint]
    known = [X.E.T @ axis for X, axis in zip(poses, axes, strict=True) if axis is not None]
    if len(known) < len(axes) or not known:
        return None
    parallel = all(abs(axis @ known[0]) > 1 - 1e-9 for axis in known)
    return known[0] if parallel else None


def twelve_numbers(X: Any) -> Array:
    """The 12 numbers of a transform from base coordinates: E^T by rows, and r."""
    E, r = X.E, X.r
    if len(r) == 2:
        rotation = np.zeros((3, 3), dtype=object)
        rotation[:2, :2], rotation[2, 2] = np.asarray(E).T, 1.0
        r = np.append(np.asarray(r, dtype=object), 0.0)
    else:
        rotation = np.asarray(E).T
    return np.concatenate([np.ravel(rotation), np.asarray(r)])


def span(robot: DrawnRobot) -> float:
    """How far apart the bodies' origins are, about the length of the robot [m]."""
    places = [in_space(X).r for X in body_poses(robot.model.at(0.0), robot.q)]
    return float(np.max(np.ptp([np.zeros(3), *places], axis=0))) or 1.0


def _solid(one: Solid) -> dict[str, Any]:
    pose = np.concatenate([_rounded(one.placement.E.T), _rounded(one.placement.r)])
    values = {
        "kind": one.kind,
        "body": one.body,
        "size": list(one.size),
        "colour": list(one.colour),
        "pose": pose.tolist(),
        "layer": one.layer,
    }
    if one.opacity < 1:
        values["opacity"] = one.opacity
    if one.aside:
        values["aside"] = True
    if one.kind == "mesh":
        values["points"] = encoded(one.points)
    if one.kind == "rod":
        ends = {"from": _rounded(one.start).tolist(), "to": _rounded(one.end).tolist()}
        values |= {"other": one.other, **ends}
    return values


def _rounded(values: Any) -> Array:
    return np.round(np.ravel(np.asarray(values, dtype=float)), 9)
