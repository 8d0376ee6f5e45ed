"""Data of a robot on a page: solids, overlay layers, body poses, joint sliders, contact forces.

The body poses are JavaScript functions of q. `force_outputs` selects the outputs with contact
forces, and `forces_on` returns the recorded values of these outputs.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.contact.contact_points import BodyPoints, body_points
from rigidblocks.contact.point_contact_blocks import ContactPlant, GroundContact
from rigidblocks.contact.rigid_contact_plant import RigidContactPlant
from rigidblocks.contact.soft_contact_blocks import SoftContactPlant
from rigidblocks.contact.world_plant import PlantOfMembers
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.results.result import Result
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.loops import position_constraints
from rigidblocks.robot.configuration import configuration_array, neutral
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.shapes import Cylinder
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array, Transform, xlt
from rigidblocks.tracing.ccode import statements
from rigidblocks.tracing.trace import Graph, trace
from rigidblocks.view.visual_geometry import (
    DARK,
    THIN,
    Solid,
    axis_of,
    centre_of_mass,
    places_on,
    solids,
    spatial_transform,
    usual_length,
)

_CONSTANT = "const double "  # start of a C statement that defines an intermediate value


def javascript_function(graph: Graph) -> str:
    """Return the source text of a JavaScript function (inputs, out) for an expression graph.

    The arguments of the JavaScript function are flat arrays. The function executes the statements
    of the graph's C code in the original order.
    """
    inputs = [f"x[{k}]" for k in range(graph.function.nnz_in())]
    outputs = [f"out[{k}]" for k in range(graph.function.nnz_out())]
    lines = (
        line.replace(_CONSTANT, "const ", 1).replace("INFINITY", "Infinity")
        for line in statements(graph.function, inputs, outputs)
    )
    body = "\n".join(lines)
    return (
        "(x, out) => {\n"
        "const { sin, cos, tan, asin, acos, atan, atan2, sqrt, exp, log, pow, tanh, floor, ceil, "
        "abs: fabs } = Math;\n"
        f"{body}\n}}"
    )


def encode_base64(values: ArrayLike, kind: str = "<f4") -> str:
    """Return an array as base64 text; `kind` is its NumPy dtype, by default single precision."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()


RED, GREEN, BLUE, YELLOW = (0.82, 0.2, 0.2), (0.2, 0.6, 0.25), (0.15, 0.35, 0.8), (1.0, 0.8, 0.1)
SPECK = 1e-9  # minimum drawn mass relative to the total mass; smaller masses are placeholders
LONG = 0.3  # length of drawn frame axes, relative to a typical link


def overlays(model: Tree) -> tuple[Solid, ...]:
    """Return the solids of the overlay layers of a model.

    The layers are joint axes, frames, centres of mass, inertias and loops.
    """
    length = usual_length(model)
    radius = THIN * length
    bodies = range(model.nb)
    return tuple(
        chain(
            chain.from_iterable(_axis(model, i, radius) for i in bodies),
            chain.from_iterable(_frame(i, LONG * length, 0.3 * radius) for i in (-1, *bodies)),
            _masses(model, radius),
            _closures(model, radius),
        )
    )


def _axis(model: Tree, body: int, radius: float) -> Iterator[Solid]:
    """Yield a cylinder along the axis of a body's joint, if the joint has exactly one axis."""
    axis = axis_of(model.joint[body])
    if axis is not None:
        X = spatial_transform(model.Xtree[body])
        a = X.r + 3.0 * radius * (X.E.T @ axis)
        long = Cylinder.from_ends(2 * X.r - a, a, radius)
        size = (0.55 * radius, 2.0 * float(long.height))
        yield Solid("cylinder", model.parent[body], size, DARK, long.placement, "joint axes")


def _frame(body: int, length: float, radius: float) -> Iterator[Solid]:
    """Yield the x, y and z axes of a body in red, green and blue."""
    for end, colour in zip(length * np.eye(3), (RED, GREEN, BLUE), strict=True):
        X = Cylinder.from_ends(np.zeros(3), end, radius).placement
        yield Solid("cylinder", body, (radius, length), colour, X, "frames")


def _masses(model: Tree, radius: float) -> Iterator[Solid]:
    """Yield a ball at the centre of mass and the inertia ellipsoid of each body.

    The ellipsoid has uniform density, and the mass and inertia of the body.
    """
    least = SPECK * sum(float(body.m) for body in model.inertia)
    for i, name in enumerate(model.body_names):
        inertia = model.inertia[i]
        if name in model.massless or not inertia.m > least:
            continue
        c = centre_of_mass(model, i)
        yield Solid("sphere", i, (1.2 * radius,), YELLOW, xlt(c), "centres of mass")
        axes, E = semi_axes(inertia.m, rotational_inertia(inertia, c))
        size = tuple(np.maximum(axes, 0.02 * float(axes.max())).tolist())
        if axes.max() > 0:
            X = Transform(E, c)
            yield Solid("ellipsoid", i, size, YELLOW, X, "inertias", opacity=0.45)


def rotational_inertia(inertia: Any, c: Array) -> Array:
    """Return the inertia (3, 3) [kg m^2] of a body about its centre of mass c (3,).

    A planar body is treated as a disc.
    """
    I = np.asarray(inertia.I, dtype=float)
    if I.ndim < 2:
        about = float(I) - inertia.m * float(c @ c)
        return np.diag([about / 2, about / 2, about])
    return np.asarray(I - inertia.m * (float(c @ c) * np.eye(3) - np.outer(c, c)))


def semi_axes(m: float, I: Array) -> tuple[Array, Array]:
    """Return the semi-axes (a, b, c) [m] of a solid ellipsoid, and the rotation to its frame.

        I_x = m (b^2 + c^2) / 5

    The equations for I_y and I_z are analogous. m is the mass of the ellipsoid, and I (3, 3) the
    inertia about the centre. The rotation (3, 3) transforms body to ellipsoid coordinates.
    """
    principal, axes = np.linalg.eigh(I)
    squares = 2.5 / m * (float(np.sum(principal)) - 2.0 * principal)
    E = axes.T
    E[2] *= np.sign(np.linalg.det(E))
    return np.sqrt(np.maximum(squares, 0.0)), E


def _closures(model: Tree, radius: float) -> Iterator[Solid]:
    """Yield the two frames of each loop joint as balls, connected by a rod.

    The rod has zero length if the loop is closed.
    """
    for loop in model.loops:
        ends = [
            (loop.predecessor, spatial_transform(loop.Xp).r),
            (loop.successor, spatial_transform(loop.Xs).r),
        ]
        for (body, r), size, colour in zip(ends, (2.3, 2.6), (RED, DARK), strict=True):
            yield Solid("sphere", body, (size * radius,), colour, xlt(r), "loops", opacity=0.6)
        (p, start), (s, end) = ends
        yield Solid("rod", p, (0.5 * radius,), RED, layer="loops", other=s, start=start, end=end)


def tips(model: Tree) -> Iterator[tuple[int, Array]]:
    """Yield pairs (body index, tip (3,) [m] in body coordinates) for the bodies without children.

    The tip is the candidate farthest from the body origin. Candidates are the joints on the body,
    the point at twice the position of the centre of mass, and the far ends of the shapes.
    """
    for i in range(model.nb):
        if i not in model.parent:
            at = [*places_on(model, i), 2.0 * centre_of_mass(model, i), np.zeros(3)]
            at += [p for shape in _visible_shapes(model, i) for p in _far_end(shape)]
            yield i, max(at, key=lambda p: float(np.linalg.norm(p)))


def _visible_shapes(model: Tree, body: int) -> tuple[Any, ...]:
    shown = getattr(model, "appearance", ())
    return tuple(shown[body]) if shown else ()


def _far_end(shape: Any) -> list[Array]:
    """Return the mean of the shape points farthest from the body origin, as a list."""
    far = np.linalg.norm(shape.points, axis=1)
    return [shape.points[far > far.max() - 1e-6 * float(far.max()) - 1e-12].mean(axis=0)]


TURN, SLIDE = np.pi, 0.5  # default range of sliders: angle [rad], and length / robot length
LAST = 10.0  # default end time of the time slider [s]


class ForceOutputs(NamedTuple):
    """Selection of contact forces or centres of pressure from the outputs of a plant.

    The values of the outputs `ports` are stacked in one array with a row per contact point or body.
    Its columns `first` to `last` - 1 contain the forces or the centres of pressure.
    """

    ports: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class DrawnRobot:
    """Model that a page draws at the configuration `q` (nq,), by default neutral.

    - `more` are additional solids, which the model does not contain.
    - `bare` are the indices of the bodies whose meshes cannot be read. If `more` contains meshes of
      bodies, only the bodies `bare` may have contact shapes or rods in the layer "links".
    - `limits` (lower, upper) are the positions (nq,) at the ends of the sliders; a variable without
      a limit has an infinite value.
    - `forces` are the outputs with the force at each contact point, or with the force and centre of
      pressure of each body.
    - `frames` contains the points whose paths can be drawn, by name. A point is a pair of a body
      index and the position (3,) [m] on this body.

    For a time-dependent model, the variables of the page are q and the time [s].
    """

    model: Tree
    name: str = ""
    q: Any = None
    more: tuple[Solid, ...] = ()
    bare: frozenset[int] = frozenset()
    limits: tuple[Any, Any] | None = None
    forces: tuple[ForceOutputs, ...] = ()
    frames: Mapping[str, tuple[int, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        q = neutral(self.model) if self.q is None else configuration_array(self.model, self.q)
        object.__setattr__(self, "q", q)

    @cached_property
    def solids(self) -> tuple[Solid, ...]:
        """All drawn solids, including the solids of the overlay layers."""
        model = self.model.evaluate_at(0.0)
        return (*solids(model, self._bare), *self.more, *overlays(model))

    @property
    def variables(self) -> int:
        """Number of variables: nq, plus one for the time of a time-dependent model."""
        return self.model.nq + self.model.rheonomic

    def _model_at_time(self, variables: Array) -> tuple[Tree, Array]:
        """Return the model at the time in `variables`, and the configuration q (nq,)."""
        nq = self.model.nq
        timed = self.model.rheonomic
        return (self.model.evaluate_at(variables[nq]) if timed else self.model), variables[:nq]

    @property
    def _bare(self) -> frozenset[int] | None:
        """Argument `bare` of `solids`: bodies without a readable mesh; None if no mesh is drawn."""
        shown = {one.body for one in self.more if one.kind == "mesh" and one.body >= 0}
        return self.bare - shown if shown else None

    @cached_property
    def contact_points(self) -> BodyPoints | None:
        """Contact points of the bodies; None if no body has any, or if each body has one force."""
        model = self.model
        if len(self.forces) > 1:
            return None
        return body_points(model) if isinstance(model, Model) and any(model.contact) else None

    @property
    def weight(self) -> float:
        """Reference force [N] for the length of force arrows.

        If the forces act at contact points, this is the weight of the robot. If each body has one
        force, it is the weight of the heaviest body.
        """
        masses = [float(body.m) for body in self.model.inertia]
        return 9.81 * (max(masses) if len(self.forces) > 1 else sum(masses))

    @cached_property
    def poses(self) -> Graph:
        """Expression graph of the poses of all bodies over `variables`, 12 values per body.

        The values are the row-major rotation matrix from body to base coordinates, then the
        position of the body [m].
        """

        def poses(q: Array) -> Mapping[str, Array]:
            bodies = [pose_numbers(X) for X in body_poses(*self._model_at_time(q))]
            return {"poses": np.concatenate(bodies)}

        return trace("poses", poses, {"q": (self.variables,)})

    @cached_property
    def closure_errors(self) -> Graph:
        """Expression graph of the loop closure errors (nc,) [rad, m] and their Jacobian (nc, n).

        The errors are functions of `variables` (n,). The column of the time in the Jacobian is
        zero, because the time is constant while the page closes the loops.
        """
        model, given = self.model, {"q": (self.variables,)}
        if not model.loops:
            return trace("open", lambda q: {"open": q[:0]}, given)
        error = trace(
            "delta", lambda q: {"d": position_constraints(*self._model_at_time(q)).delta}, given
        )
        q = ca.SX.sym("q", self.variables)
        d = error.function(q)
        slopes = ca.jacobian(d, q)
        slopes[:, model.nq :] = 0
        both = ca.vertcat(d, ca.vec(slopes.T))
        shapes = {"open": (model.nc,), "slopes": (model.nc, self.variables)}
        return Graph("open", given, shapes, ca.Function("open", [q], [ca.densify(both)]))

    @cached_property
    def quaternions(self) -> list[int]:
        """Index of the first element of each quaternion in q."""
        pairs = zip(self.model.joint, self.model.q_slices, strict=True)
        return [k.start for joint, k in pairs if joint.nq > joint.nv]

    def sliders(self) -> Iterable[dict[str, Any]]:
        """Yield a slider for each element of q except quaternions, and for the time if needed."""
        model, reach = self.model, SLIDE * span(self)
        for name, joint, where in zip(model.joint_names, model.joint, model.q_slices, strict=True):
            for j, k in enumerate(range(where.start, where.stop)):
                if joint.nq > joint.nv:
                    continue
                unit = joint.q_units[j]
                label = name if joint.nq == 1 else f"{name}[{j + 1}]"
                ends = (
                    self._slider_range(k, TURN, 0.0)
                    if unit == "rad"
                    else self._slider_range(k, reach, self.q[k])
                )
                yield {"name": label, "unit": unit, "q": k, **ends}
        if model.rheonomic:
            yield {"name": "time", "unit": "s", "q": model.nq, "low": 0.0, "high": LAST}

    def _slider_range(self, k: int, reach: float, middle: float) -> dict[str, float]:
        """Return the range of the slider of variable k.

        The range ends at the joint limits. Without a limit, it ends at `middle` - `reach` or at
        `middle` + `reach`. The range always contains the initial value.
        """
        low, high = middle - reach, middle + reach
        if self.limits is not None:
            low = self.limits[0][k] if np.isfinite(self.limits[0][k]) else low
            high = self.limits[1][k] if np.isfinite(self.limits[1][k]) else high
        return {"low": float(min(low, self.q[k])), "high": float(max(high, self.q[k]))}

    def page_data(self, number: int) -> dict[str, Any]:
        """Return the data of the robot for the page script; `number` is its index on the page."""
        return {
            "name": self.name or self.model.name,
            "bodies": list(self.model.body_names),
            "q": [*self.q.tolist(), *[0.0] * self.model.rheonomic],
            "quaternions": self.quaternions,
            "constraints": self.model.nc if self.model.loops else 0,
            "poses": f"poses{number}",
            "open": f"open{number}",
            "solids": [_solid_json(one) for one in self.solids],
            "sliders": list(self.sliders()),
            "tips": [[body, *_round_coordinates(p).tolist()] for body, p in tips(self.model)],
            "touching": self._contact_places(),
            "pressed": self.model.nb if len(self.forces) > 1 else 0,
            "frames": [[name, *place] for name, place in self._frames()],
            "weight": self.weight,
        }

    def _contact_places(self) -> list[list[float]]:
        """Return the body index and the position [m] on the body of each contact point."""
        if self.contact_points is None:
            return []
        pairs = zip(self.contact_points.body, self.contact_points.position, strict=True)
        return [[body, *_round_coordinates(p).tolist()] for body, p in pairs]

    def _frames(self) -> Iterable[tuple[str, list[float]]]:
        """Yield pairs (name, [body index, x, y, z]) of all frames and bodies; x, y, z are in m."""
        bodies = {name: (i, np.zeros(3)) for i, name in enumerate(self.model.body_names)}
        for name, (body, r) in {**bodies, **self.frames}.items():
            if body >= 0:
                yield name, [body, *_round_coordinates(np.append(r, np.zeros(3 - len(r)))).tolist()]

    def functions(self, number: int) -> str:
        """Return the JavaScript functions that belong to `page_data`, as source text."""
        graphs = {"poses": self.poses, "open": self.closure_errors}
        return "".join(f"{k}{number}: {javascript_function(g)},\n" for k, g in graphs.items())


@dataclass(frozen=True)
class CameraSetup:
    """Camera setup of a page.

    Attributes:
        up: Upward direction (3,).
        eye: Direction (3,) to the camera.
        any_side: True if the camera may circle the robot at its initial height.
    """

    up: tuple[float, ...]
    eye: tuple[float, ...]
    any_side: bool


def camera_setup(model: Tree) -> CameraSetup:
    """Return the camera setup for a model.

    The upward direction is opposite to gravity. The camera views a planar mechanism along its
    normal, and other models from an oblique direction.
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
    return CameraSetup(tuple(up.tolist()), tuple(eye.tolist()), any_side)


def _normal(model: Tree) -> Array | None:
    """Return the normal of the plane of motion of a planar mechanism; None for other models."""
    if isinstance(model, PlanarModel):
        return np.array([0.0, 0.0, 1.0])
    model = model.evaluate_at(0.0)
    poses = body_poses(model, neutral(model))
    axes = [axis_of(joint) for joint in model.joint]
    known = [X.E.T @ axis for X, axis in zip(poses, axes, strict=True) if axis is not None]
    if len(known) < len(axes) or not known:
        return None
    parallel = all(abs(axis @ known[0]) > 1 - 1e-9 for axis in known)
    return known[0] if parallel else None


def pose_numbers(X: Any) -> Array:
    """Return the 12 numbers of a pose: the row-major rotation matrix, then the position [m].

    The rotation matrix transforms body to base coordinates, and the position is that of the body
    origin in base coordinates. X is the transform from base to body coordinates.
    """
    E, r = X.E, X.r
    if len(r) == 2:
        rotation = np.zeros((3, 3), dtype=object)
        rotation[:2, :2], rotation[2, 2] = np.asarray(E).T, 1.0
        r = np.append(np.asarray(r, dtype=object), 0.0)
    else:
        rotation = np.asarray(E).T
    return np.concatenate([np.ravel(rotation), np.asarray(r)])


def span(robot: DrawnRobot) -> float:
    """Return the largest extent [m] of all body origins along a base axis, or 1 m if it is zero."""
    places = [spatial_transform(X).r for X in body_poses(robot.model.evaluate_at(0.0), robot.q)]
    return float(np.max(np.ptp([np.zeros(3), *places], axis=0))) or 1.0


def _solid_json(solid: Solid) -> dict[str, Any]:
    pose = np.concatenate(
        [_round_coordinates(solid.placement.E.T), _round_coordinates(solid.placement.r)]
    )
    values = {
        "kind": solid.kind,
        "body": solid.body,
        "size": list(solid.size),
        "colour": list(solid.colour),
        "pose": pose.tolist(),
        "layer": solid.layer,
    }
    if solid.opacity < 1:
        values["opacity"] = solid.opacity
    if solid.aside:
        values["aside"] = True
    if solid.kind == "mesh":
        values["points"] = encode_base64(solid.points)
    if solid.kind == "rod":
        ends = {
            "from": _round_coordinates(solid.start).tolist(),
            "to": _round_coordinates(solid.end).tolist(),
        }
        values |= {"other": solid.other, **ends}
    return values


def _round_coordinates(values: Any) -> Array:
    return np.round(np.ravel(np.asarray(values, dtype=float)), 9)


FORCE = (ForceOutputs(("force",), 0, 3),)
WRENCH, PRESSURE = ("f_contact", 3, 6), ("centre_of_pressure", 0, 3)
WIDE = {WRENCH[0]: 6}  # number of columns of outputs with wrenches; other outputs have 3 columns


def force_outputs(
    block: Any, name: str = "", system: System | None = None
) -> tuple[ForceOutputs, ...]:
    """Return the outputs that contain the contact forces of a plant.

    The outputs contain the force at each contact point, or the force and the centre of pressure of
    each body. `name` is the name of the plant in the `system`. If a `GroundContact` of the system
    computes the forces, the function returns the outputs of the `GroundContact`.
    """
    parts: tuple[ForceOutputs, ...] = ()
    if isinstance(block, ContactPlant):
        parts = FORCE
    elif isinstance(block, RigidContactPlant | SoftContactPlant):
        parts = tuple(ForceOutputs((port,), a, b) for port, a, b in (WRENCH, PRESSURE))
    elif isinstance(block, PlantOfMembers):
        parts = tuple(
            ForceOutputs(_member_outputs(block, port), a, b) for port, a, b in (WRENCH, PRESSURE)
        )
    elif system is not None and (ground := _ground_contact_name(system, name)):
        parts, name = FORCE, ground
    return tuple(
        part._replace(ports=tuple(f"{name}.{port}".lstrip(".") for port in part.ports))
        for part in parts
    )


def _member_outputs(block: PlantOfMembers, port: str) -> tuple[str, ...]:
    """Return the names of the outputs of `block` for the output `port` of each member."""
    known = {one.name for one in block.outputs}
    names = (f"{member.name}_{port}" for member in block.members)
    return tuple(name for name in names if name in known)


def recorded_force_outputs(
    robot: DrawnRobot, shapes: Mapping[str, tuple[int, ...]]
) -> Sequence[ForceOutputs] | None:
    """Return the outputs with the contact forces on a robot, or None if some are not recorded.

    `shapes` contains the shapes of the recorded outputs by name. The function also returns None if
    the robot has no such outputs, or if the recorded number of contact points or bodies
    differs from the robot.
    """
    n = robot.model.nb if robot.contact_points is None else len(robot.contact_points.body)
    for part in robot.forces:
        known = [shapes.get(port, ()) for port in part.ports]
        if any(
            shape[-1:] != (_component_count(port),)
            for port, shape in zip(part.ports, known, strict=True)
        ):
            return None
        if sum(shape[0] if len(shape) > 1 else 1 for shape in known) != n:
            return None
    return robot.forces or None


def _component_count(port: str) -> int:
    """Return the number of components per point or body of the force output `port`: 3 or 6."""
    return next((wide for name, wide in WIDE.items() if port.endswith(name)), 3)


def force_indices(
    robot: DrawnRobot, places: Mapping[str, range], shapes: Mapping[str, tuple[int, ...]]
) -> list[int] | None:
    """Return the indices of a robot's contact forces in a sample, or None if forces are missing.

    `places` contains the index range of each port in the sample, and `shapes` contains the
    shape of each port.
    """
    if (parts := recorded_force_outputs(robot, shapes)) is None:
        return None
    found = [
        np.concatenate([np.reshape(places[port], (-1, _component_count(port))) for port in ports])[
            :, a:b
        ]
        for ports, a, b in parts
    ]
    return [int(k) for k in np.ravel(np.concatenate(found, axis=1))]


def forces_on(result: Result, robot: DrawnRobot) -> Array | None:
    """Return the recorded contact forces on a robot, or None for a result without these forces.

    For n samples and k contact points, the array is (n, 3 k) [N]. For k bodies, it is (n, 6 k): the
    force [N] and the centre of pressure [m] of each body.
    """
    parts = recorded_force_outputs(robot, {port.name: port.shape for port in result.ports})
    if parts is None:
        return None
    n = len(result.time)

    def rows(port: str) -> Array:
        return np.reshape(np.asarray(result[port], dtype=float), (n, -1, _component_count(port)))

    found = [
        np.concatenate([rows(port) for port in ports], axis=1)[..., a:b] for ports, a, b in parts
    ]
    return np.reshape(np.concatenate(found, axis=2), (n, -1))


def _ground_contact_name(system: System, plant: str) -> str | None:
    """Return the name of the `GroundContact` that is connected to a plant, or None."""
    for one in system.connections:
        (source, output), (target, _) = one.source, one.target
        is_ground = isinstance(system.parts[source].component, GroundContact)
        if target == plant and is_ground and output == "f_ext":
            return source
    return None
