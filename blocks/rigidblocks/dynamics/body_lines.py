"""Lines between frames of several bodies: tendon paths, site transmissions and slider-cranks."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.dynamics.force_elements import (
    NEAR,
    Length,
    Line,
    Loads,
    Motion,
    check_spatial,
    point_wrench,
    zero_loads,
)
from rigidblocks.dynamics.force_laws import ROTATION, TRANSLATION
from rigidblocks.dynamics.joint_kinematics import body_number
from rigidblocks.dynamics.loops.constraints import nearest_common_ancestor
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.rigid_motion import quaternion_from_rotation, vector_from_quaternion
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Transform, cross

Wrenches = list[tuple[int, Any]]
"""Pairs of a body index and a wrench on this body per unit force, in base coordinates."""


class BodyLine(Line):
    """Base class of the lines whose force acts on several bodies.

        sd = sum of w_i . v_i

    sd is the time derivative of the length. w_i is the wrench on body i for a unit force along the
    line, and v_i is the velocity of body i, both in base coordinates.
    """

    @abc.abstractmethod
    def geometry(self, model: Tree, motion: Motion) -> tuple[Any, Wrenches]:
        """Return the length, and the wrenches on the bodies for a unit force along the line."""

    def length(self, model: Tree, motion: Motion) -> Length:
        s, wrenches = self.geometry(model, motion)
        units: dict[int, Any] = {}
        for body, wrench in wrenches:
            if body >= 0:
                units[body] = units[body] + wrench if body in units else wrench
        sd: Any = 0.0
        for body, wrench in units.items():
            sd = sd + wrench @ (motion.X0[body].inverse() @ motion.v[body])

        def loads(force: Any) -> Loads:
            none = zero_loads(model)
            f_ext = list(none.f_ext)
            for body, wrench in units.items():
                f_ext[body] = force * wrench
            return none._replace(f_ext=np.array(f_ext))

        return Length(s, sd, loads)


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class TendonPath(BodyLine):
    """Path of a tendon through points of bodies, also over pulleys.

        s = sum of weights[k] |p_k+1 - p_k|

    s is the length [m], and p_k is the position of point k in base coordinates.

    Each element of `points` contains the name or the index of a body, -1 for the base, and a point
    on this body in body coordinates [m]. `weights` contains one value for each pair of successive
    points: 1 for a straight segment, 1 / n after a pulley with the divisor n, and 0 if the points
    belong to different branches. If the points of a segment coincide, its force is zero.
    """

    points: tuple[tuple[str | int, Any], ...]
    weights: tuple[float, ...]

    def units(self, model: Tree) -> dict[str, str]:
        if len(self.points) < 2 or len(self.weights) != len(self.points) - 1:
            raise ValueError(
                "a TendonPath needs at least two points and one weight for each segment, but has "
                f"{len(self.points)} points and {len(self.weights)} weights"
            )
        if not np.all(np.isfinite(self.weights)):
            raise ValueError(f"a TendonPath needs finite weights, not {[*self.weights]}")
        for body, point in self.points:
            _body_index(model, body)
            _check_point(model, point)
        return TRANSLATION

    def geometry(self, model: Tree, motion: Motion) -> tuple[Any, Wrenches]:
        bodies = [_body_index(model, body) for body, _ in self.points]
        places = [
            (model.algebra.xlt(np.asarray(point, dtype=float)) @ motion.X0[body]).r
            for body, (_, point) in zip(bodies, self.points, strict=True)
        ]
        s, wrenches = 0.0, Wrenches()
        for k, weight in enumerate(self.weights):
            one, two = bodies[k], bodies[k + 1]
            if not weight:
                continue
            if one == two:  # a constant length
                points = (np.asarray(self.points[j][1], dtype=float) for j in (k, k + 1))
                s = s + weight * float(np.linalg.norm(np.subtract(*points)))
                continue
            r = places[k] - places[k + 1]
            squared = r @ r
            is_positive = less(NEAR * NEAR, squared)
            distance = np.sqrt(select(is_positive, squared, 1.0))
            n = r * select(is_positive, weight / distance, 0.0)
            s = s + weight * select(is_positive, distance, 0.0)
            wrenches.append((one, point_wrench(model, n, places[k])))
            wrenches.append((two, point_wrench(model, -n, places[k + 1])))
        return s, wrenches


@dataclass(frozen=True, eq=False)
class AlongSite(BodyLine):
    """Line of action of a wrench at a frame of a body, such as the thrust of a propeller.

    A unit force along the line is the wrench `gear` (6,) [n; f] at the frame, in frame coordinates.
    `placement` is the transform from body to frame coordinates. Without a reference frame, the
    length s is undefined, and `length` returns s = 0.

    With a reference frame, `gear` is in reference coordinates, and the opposite wrench acts on the
    body of the reference frame. The length is gear . [phi; p], where p is the position and phi the
    rotation vector of the frame in reference coordinates. As in MuJoCo, the wrench does not act on
    joints that move both frames.
    """

    body: str | int
    placement: Any
    gear: tuple[float, ...]
    reference: str | int | None = None
    reference_placement: Any = None

    def units(self, model: Tree) -> dict[str, str]:
        _body_index(model, self.body)
        check_spatial(model, "an AlongSite")
        if len(self.gear) != 6 or not any(self.gear) or not np.all(np.isfinite(self.gear)):
            raise ValueError(
                "an AlongSite needs a gear of 6 finite elements that are not all zero, not "
                f"{list(self.gear)}"
            )
        _check_placement("AlongSite", "placement", self.placement)
        if self.reference is not None:
            _body_index(model, self.reference)
            _check_placement("AlongSite", "reference_placement", self.reference_placement)
        elif self.reference_placement is not None:
            raise ValueError("an AlongSite with a reference_placement also needs a reference")
        return TRANSLATION if any(self.gear[3:]) else ROTATION

    def geometry(self, model: Tree, motion: Motion) -> tuple[Any, Wrenches]:
        gear, i = np.array(self.gear, dtype=float), _body_index(model, self.body)
        X = self.placement @ motion.X0[i]
        if self.reference is None:
            return 0.0, [(i, X.T @ gear)]
        j = _body_index(model, self.reference)
        R = self.reference_placement @ motion.X0[j]
        torque, force = R.E.T @ gear[:3], R.E.T @ gear[3:]
        s: Any = 0.0
        if any(self.gear[:3]):
            s = s + gear[:3] @ vector_from_quaternion(quaternion_from_rotation(X.E @ R.E.T))
        if any(self.gear[3:]):
            s = s + force @ (X.r - R.r)
        one, two = (point_wrench(model, force, r, torque) for r in (X.r, R.r))
        wrenches = [(i, one), (j, -two)]
        root = nearest_common_ancestor(model, i, j)
        return s, [*wrenches, (root, two - one)]


@dataclass(frozen=True, eq=False)
class SliderCrank(BodyLine):
    """Slider of a slider-crank mechanism with a massless rod.

        s = v . a - sqrt((v . a)^2 + rod^2 - v . v)

    s [m] is the position of the slider along its axis, and `rod` is the length of the rod [m]. v is
    the vector from the origin of the slider frame to the crank pin, and a is the z axis of the
    slider frame. The pin is the `point` on `body`, in body coordinates [m]. `slider` is the body of
    the slider frame, and `placement` the transform from this body to the slider frame. If the rod
    is too short to reach the slider axis, the square root is replaced by zero.
    """

    body: str | int
    point: Any
    slider: str | int
    placement: Any
    rod: float

    def units(self, model: Tree) -> dict[str, str]:
        _body_index(model, self.body)
        _body_index(model, self.slider)
        check_spatial(model, "a SliderCrank")
        if not 0.0 < self.rod < np.inf:
            raise ValueError(
                f"a SliderCrank needs a rod of positive finite length, not {self.rod} m"
            )
        _check_point(model, self.point)
        _check_placement("SliderCrank", "placement", self.placement)
        return TRANSLATION

    def geometry(self, model: Tree, motion: Motion) -> tuple[Any, Wrenches]:
        i, j = _body_index(model, self.body), _body_index(model, self.slider)
        X = self.placement @ motion.X0[j]
        pin = (model.algebra.xlt(np.asarray(self.point, dtype=float)) @ motion.X0[i]).r
        v, a = pin - X.r, X.E[2]
        along = v @ a
        square = along * along + self.rod * self.rod - v @ v
        is_within_reach = less(0.0, square)
        root = np.sqrt(select(is_within_reach, square, 1.0))
        inverse = select(is_within_reach, 1.0 / root, 0.0)
        by_axis = v * (1.0 - along * inverse)  # derivative of s by a
        by_vector = a * (1.0 - along * inverse) + v * inverse  # derivative of s by v
        s = along - select(is_within_reach, root, 0.0)
        one = point_wrench(model, by_vector, pin)
        two = point_wrench(model, -by_vector, X.r, cross(a, by_axis))
        return s, [(i, one), (j, two)]


def _body_index(model: Tree, body: str | int) -> int:
    """Return the index of a body; -1 is the base."""
    return -1 if body == -1 else body_number(model, body)


def _check_point(model: Tree, point: Any) -> None:
    """Raise a ValueError if `point` is not a finite point in the coordinates of a body."""
    if np.shape(point) != model.gravity.shape or not np.all(np.isfinite(point)):
        raise ValueError(
            f"a point of model '{model.name}' needs {len(model.gravity)} finite coordinates, not "
            f"{np.asarray(point).tolist()}"
        )


def _check_placement(line: str, argument: str, placement: Any) -> None:
    """Raise a ValueError if a placement is not a finite Transform."""
    if not isinstance(placement, Transform):
        raise ValueError(f"the {argument} of the {line} must be a Transform, not {placement!r}")
    if not (np.all(np.isfinite(placement.E)) and np.all(np.isfinite(placement.r))):
        raise ValueError(f"the {argument} of the {line} must be finite, not {placement!r}")


def line_of(
    kind: str, frames: Sequence[tuple[int, Any]], coefficients: Sequence[float]
) -> BodyLine:
    """Create a tendon path, a line at a site, or a slider-crank.

    Args:
        kind: `path` for a TendonPath, `site` for an AlongSite, or `crank` for a SliderCrank.
        frames: Pairs of a body index, -1 for the base, and a transform from body to frame
            coordinates.
        coefficients: Weights of a TendonPath, gear of an AlongSite, or rod length of a SliderCrank.
    """
    match kind:
        case "path":
            return TendonPath(tuple((body, X.r) for body, X in frames), tuple(coefficients))
        case "site":
            (body, X), *reference = frames
            return AlongSite(body, X, tuple(coefficients), *(reference[0] if reference else ()))
        case "crank":
            (body, X), (slider, placement) = frames
            return SliderCrank(body, X.r, slider, placement, coefficients[0])
    raise ValueError(f"unknown kind of line '{kind}'; it must be path, site or crank")
