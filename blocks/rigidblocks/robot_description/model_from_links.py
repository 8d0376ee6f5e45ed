"""Assembly of parsed links and joints into a robot (RBDA 4.1).

The assembly corrects loops: it makes nearly parallel axes parallel and infinitesimal mechanisms
rigid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import combinations, product
from pathlib import Path

import numpy as np
from numpy.polynomial import Polynomial

from rigidblocks.common.arrays import LazyTuple, read_only
from rigidblocks.common.format_error import file_error
from rigidblocks.common.xml_reader import nearest
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import Fixed, LoopJoint, Prismatic, Revolute
from rigidblocks.robot.model import STANDARD_GRAVITY, Model
from rigidblocks.robot.ray_casting import Obstacle, obstacle_of
from rigidblocks.robot.robot_description import (
    Actuator,
    BodyDrag,
    Coupling,
    JointProperties,
    Keyframe,
    LineDescription,
    Place,
    PointSpring,
    RobotDescription,
    Sensor,
    Tendon,
    Weightless,
)
from rigidblocks.robot.shapes import Shape
from rigidblocks.robot.validation import ImmobileError, inertia_defect
from rigidblocks.robot_description.parsed_links import (
    NOTHING,
    WORLD,
    Assembly,
    Connection,
    JointValues,
    Link,
    ParsedMimicJoint,
    ParsedSensor,
    ParsedSpring,
)
from rigidblocks.robot_description.spanning_tree import spanning_tree, split_bodies
from rigidblocks.spatial.rigid_motion import SAME
from rigidblocks.spatial.spatial import STRAIGHT, Array, RigidInertia, Transform, xlt

Places = Mapping[str, Place]


def link_springs(assembly: Assembly, places: Places) -> tuple[PointSpring, ...]:
    """Return the springs between points of two bodies, with the points in body coordinates."""
    return tuple(_spring(one, places) for one in assembly.springs if not _is_rigid(one, places))


def _is_rigid(spring: ParsedSpring, places: Places) -> bool:
    """Return True if both ends of a spring are on the same body, so that its length is constant."""
    (one, _), (two, _) = spring.ends
    return places[one].body == places[two].body


def _rigid_springs(assembly: Assembly, places: Places) -> Iterator[Tendon]:
    """Yield the springs of constant length as tendons, which exert no force but store energy."""
    for spring in assembly.springs:
        if _is_rigid(spring, places):
            frames = tuple(_move_place(places[link], xlt(p)) for link, p in spring.ends)
            line = LineDescription("path", frames, (1.0,))
            rest = (spring.rest, spring.rest)
            law = spring.stiffness, spring.damping, rest
            yield Tendon(spring.name, (), (), *law, line=line)


def _spring(spring: ParsedSpring, places: Places) -> PointSpring:
    ends = [(places[link].body, _point_on_body(places[link], p)) for link, p in spring.ends]
    ends.sort(key=lambda end: end[0] < 0)  # the base comes last
    (body, point), (other, other_point) = ends
    law = spring.stiffness, spring.damping, spring.rest
    return PointSpring(spring.name, body, point, other, other_point, *law)


def _point_on_body(place: Place, p: Array) -> tuple[float, float, float]:
    """Transform a point p from link to body coordinates; `place` is the pose of the link."""
    X = place.placement
    x, y, z = (X.r + X.E.T @ p).tolist()
    return x, y, z


def _weightless(assembly: Assembly, places: Places) -> tuple[Weightless, ...]:
    """Return the masses on which gravity does not act, in the coordinates of their bodies.

    The function omits masses on the base, because the base does not move. The result does not
    depend on the gravity in the file, which a world or a parameter can change.
    """
    return tuple(
        one._replace(
            body=places[link].body,
            centre=_point_on_body(places[link], np.array(one.centre)),
        )
        for link, one in assembly.weightless
        if places[link].body >= 0 and one.mass
    )


def _tendons(assembly: Assembly, numbers: Mapping[str, int], places: Places) -> tuple[Tendon, ...]:
    """Return the tendons with joint and body indices; reject a tendon along a fixed joint.

    `numbers` maps joint names to joint indices.
    """
    found = [*_rigid_springs(assembly, places)]
    for names, one in assembly.tendons:
        if one.line is not None:
            found.append(one._replace(line=_body_line(one.line, names, places)))
            continue
        for joint in names:
            if joint not in numbers:
                text = f"tendon '{one.name}' acts on joint '{joint}', which is fixed"
                raise file_error(assembly.path, None, text)
        found.append(one._replace(joints=tuple(numbers[joint] for joint in names)))
    return tuple(found)


def _body_line(line: LineDescription, links: Sequence[str], places: Places) -> LineDescription:
    """Return a line with frames that are placed on bodies.

    The frames of the argument `line` are placed on the links `links`.
    """
    each = zip(links, line.frames, strict=True)
    frames = tuple(_move_place(places[link], frame.placement) for link, frame in each)
    return line._replace(frames=frames)


def _drags(assembly: Assembly, places: Places) -> tuple[BodyDrag, ...]:
    """Return the fluid drag on the bodies of the model."""
    return tuple(
        one._replace(
            body=places[link].body, placement=_compose(one.placement, places[link].placement)
        )
        for link, one in assembly.drags
        if places[link].body >= 0
    )


def _sensors(
    assembly: Assembly,
    tree: Sequence[Connection],
    rest: Sequence[Connection],
    places: dict[str, Place],
    numbers: dict[str, int],
) -> tuple[tuple[Sensor, ...], list[str]]:
    """Return the sensors on the bodies of the model, and warnings about omitted sensors.

    `tree` and `rest` are the tree joints and the loop joints, and `numbers` maps joint names to
    joint indices. A sensor is omitted if one of its joints does not move. In a robot with loops, a
    sensor is also omitted if its value depends on the bodies outboard of the sensor.
    """
    found, omitted = list[Sensor](), list[str]()
    for one in assembly.sensors:
        if missing := [joint for joint in one.joints if joint not in numbers]:
            text = f"its joint '{missing[0]}' does not move"
        elif rest and (one.outboard or one.joint):
            text = "it depends on the bodies outboard of it, and the robot has loops"
        else:
            found.append(_sensor(assembly, tree, places, numbers, one))
            continue
        omitted.append(f"sensor '{one.sensor.name}' is not read: {text}")
    return tuple(found), omitted


def _sensor(
    assembly: Assembly,
    tree: Sequence[Connection],
    places: dict[str, Place],
    numbers: dict[str, int],
    one: ParsedSensor,
) -> Sensor:
    body, placement = _move_place(places[one.link], one.sensor.placement)
    outboard = _outboard(tree, one.joint) if one.joint else set(one.outboard)
    bodies: dict[int, list[Link]] = {}
    for link in assembly.links:
        if link.name in outboard:
            bodies.setdefault(places[link.name].body, []).append(link)
    parts = ((b, _inertia(links, places)) for b, links in sorted(bodies.items()))
    obstacles = one.obstacles
    if one.sensor.directions is not None:
        obstacles = [
            *((name, obstacle_of(plane)) for name, plane in assembly.planes),
            *(
                (link.name, obstacle_of(shape))
                for link in assembly.links
                for shape in link.contact
                if link.name != one.link
            ),
        ]
    return replace(
        one.sensor,
        body=body,
        placement=placement,
        reference=one.reference and _move_place(places[one.reference[0]], one.reference[1]),
        joints=tuple(numbers[joint] for joint in one.joints),
        parts=tuple(part for part in parts if part[1] is not NOTHING),
        path=one.sensor.path and _body_line(one.sensor.path, one.path_links, places),
        obstacles=tuple(_obstacle(places[link], shape) for link, shape in obstacles),
    )


def _obstacle(place: Place, shape: Obstacle) -> Obstacle:
    body, placement = _move_place(place, shape.placement)
    return replace(shape, body=body, placement=placement)


def _outboard(tree: Sequence[Connection], joint: str) -> set[str]:
    """Return the links outboard of a tree joint."""
    found: set[str] = set()
    for c in tree:  # depth first: a link comes after its parent
        if c.name == joint or c.parent in found:
            found.add(c.child)
    return found


def excluded_link_pairs(assembly: Assembly, places: Places) -> tuple[tuple[int, int], ...]:
    """Return the collision exclusions as pairs of body indices, -1 for the base.

    A pair of bodies is excluded if all pairs of their links are excluded.
    """
    if not assembly.collision_exclusions:
        return ()
    pairs = {frozenset(pair) for pair in assembly.collision_exclusions}
    touching = [link.name for link in assembly.links if len(link.contact)]
    bodies: dict[int, list[str]] = {}
    for name in dict.fromkeys((*touching, *(name for name, _ in assembly.planes))):
        bodies.setdefault(places[name].body, []).append(name)
    return tuple(
        (i, j)
        for i, j in combinations(sorted(bodies), 2)
        if all(frozenset(pair) in pairs for pair in product(bodies[i], bodies[j]))
    )


def describe_robot(assembly: Assembly) -> RobotDescription:
    """Assemble a robot from the parsed links and joints; number the bodies depth first.

    Raises:
        FormatError: Two links or joints have the same name, or a link does not exist. A joint moves
            no inertia, several links have no parent, or links form a cycle. The message contains
            the line number.
    """
    _check(assembly)
    assembly = split_bodies(assembly) if assembly.loops else assembly
    tree, rest = spanning_tree(assembly)
    places = _places(tree)
    if assembly.strict:
        _check_inertias(assembly)
    model = _model(assembly, tree, rest, places)
    numbers = {name: i for i, name in enumerate(model.joint_names)}
    frames = {link.name: places[link.name] for link in assembly.links}
    frames |= {name: _move_place(places[link], X) for name, link, X in assembly.frames}
    couplings, more = _couplings(assembly, numbers, model)
    sensors, unread = _sensors(assembly, tree, rest, places, numbers)
    return RobotDescription(
        model,
        JointProperties.concatenate((c.joint.nv, c.joint_properties) for c in tree if c.joint.nv),
        frames,
        couplings,
        *_shapes_of_base(assembly, places),
        LazyTuple(
            lambda: (
                *assembly.warnings,
                *assembly.report(),
                *_inertia_warnings(assembly, model),
                *(warning() for warning in more),
                *unread,
            )
        ),
        tuple(_number_joints(one, names, numbers, places) for names, one in assembly.actuators),
        link_springs(assembly, places),
        excluded_link_pairs(assembly, places),
        _keyframe(model, couplings, assembly.start, {}).q if assembly.start else None,
        keyframes={
            name: _keyframe(model, couplings, q, qd) for name, (q, qd) in assembly.keyframes.items()
        },
        weightless=_weightless(assembly, places),
        tendons=_tendons(assembly, numbers, places),
        drags=_drags(assembly, places),
        sensors=sensors,
    )


def _number_joints(
    actuator: Actuator, names: Sequence[str], numbers: Mapping[str, int], places: Places
) -> Actuator:
    """Return an actuator with joint indices, or with a line whose frames are placed on bodies.

    `names` are the joints of the actuator. If the actuator has a line, `names` are the links of the
    line. `numbers` maps joint names to joint indices.
    """
    if actuator.line is not None:
        return actuator._replace(line=_body_line(actuator.line, names, places))
    first, *more = (numbers[name] for name in names)
    weights = (weight for _, weight in actuator.others)
    return actuator._replace(joint=first, others=tuple(zip(more, weights, strict=True)))


def _keyframe(
    model: Model, couplings: Iterable[Coupling], q: JointValues, qd: JointValues
) -> Keyframe:
    """Return the model state for values q and qd of some joints, by joint name.

    Joints without a value have the neutral position and zero velocity. The couplings determine the
    positions and velocities of mimic joints.
    """
    position, velocity = neutral(model), np.zeros(model.nv)
    for name, at, of in zip(model.joint_names, model.q_slices, model.v_slices, strict=True):
        position[at], velocity[of] = q.get(name, position[at]), qd.get(name, velocity[of])
    for c in couplings:
        at, of = (slices[c.source].start for slices in (model.q_slices, model.v_slices))
        slope = c.polynomial.deriv()(position[at])
        position[model.q_slices[c.joint]] = c.polynomial(position[at])
        velocity[model.v_slices[c.joint]] = slope * velocity[of]
    return Keyframe(read_only(position), read_only(velocity))


def _shapes_of_base(assembly: Assembly, places: dict[str, Place]) -> tuple[LazyTuple, LazyTuple]:
    """Return the visual and the collision shapes of the base as lists built at first use."""
    base = [link for link in assembly.links if places[link.name].body < 0]
    return (
        LazyTuple(lambda: _shapes((link.appearance, places[link.name]) for link in base)),
        LazyTuple(
            lambda: (
                *_shapes((link.contact, places[link.name]) for link in base),
                *(plane.transform(places[a].placement.inverse()) for a, plane in assembly.planes),
            )
        ),
    )


def _add_line(line: int, text: str) -> str:
    """Add the line number to the text of a warning, unless `line` is 0 (unknown)."""
    return f"line {line}: {text}" if line else text


def _check(assembly: Assembly) -> None:
    if not assembly.links:
        raise file_error(assembly.path, None, f"robot '{assembly.name}' has no link")
    _check_names(assembly.path, "link", assembly.links)
    _check_names(assembly.path, "joint", assembly.connections)
    _check_ends(assembly)


def _check_names(path: Path, kind: str, parts: Sequence[Link | Connection]) -> None:
    if len({part.name for part in parts}) == len(parts):
        return
    first: dict[str, int] = {}
    for part in parts:
        if part.name in first:
            where = f"; the first is in line {first[part.name]}" if first[part.name] else ""
            raise file_error(path, part.line, f"the {kind} name '{part.name}' is not unique{where}")
        first[part.name] = part.line


def _check_ends(assembly: Assembly) -> None:
    names = [link.name for link in assembly.links]
    known = {WORLD, *names}
    for c in assembly.connections:
        if c.parent == c.child != WORLD:
            text = f"joint '{c.name}' connects link '{c.child}' to itself; it needs two links"
            raise file_error(assembly.path, c.line, text)
    if known.issuperset(end for c in assembly.connections for end in (c.parent, c.child)):
        return
    for c in assembly.connections:
        for role, name in (("parent", c.parent), ("child", c.child)):
            if name not in known:
                text = f"{role} '{name}' of joint '{c.name}' is not a link{nearest(name, names)}"
                raise file_error(assembly.path, c.line, text)


def _places(tree: Sequence[Connection]) -> dict[str, Place]:
    """Return the body that contains each link, and the placement of the link on this body."""
    places, bodies = {WORLD: Place(-1, SAME)}, 0
    for c in tree:
        body, X = places[c.parent]
        if type(c.joint) is Fixed:
            places[c.child] = Place(body, _compose(_inverse(c.Xs), _compose(c.Xp, X)))
        else:
            places[c.child] = Place(bodies, _inverse(c.Xs))
            bodies += 1
    return places


def _compose(X: Transform, first: Transform) -> Transform:
    """Return X @ first, the transform `first` followed by X; skip identity rotations."""
    if first is SAME or X is SAME:
        return X if first is SAME else first
    if first.E is STRAIGHT:
        return Transform(X.E, read_only(first.r + X.r))
    if X.E is STRAIGHT:
        return Transform(first.E, read_only(first.r + first.E.T @ X.r))
    both: Transform = X @ first
    return both


def _inverse(X: Transform) -> Transform:
    return X if X is SAME else X.inverse()


def _move_place(place: Place, X: Transform) -> Place:
    return Place(place.body, X @ place.placement)


def _shapes_on_body(shapes: Sequence[Shape], place: Place) -> Sequence[Shape]:
    """Return the shapes of a link in the coordinates of the body that contains the link."""
    if not shapes or place.placement is SAME:
        return shapes
    X = place.placement.inverse()
    return tuple(shape.transform(X) for shape in shapes)


def _inertia_warnings(assembly: Assembly, model: Model) -> list[str]:
    """Return warnings about the inertias and about joints that move no inertia."""
    with np.errstate(all="ignore"):  # the messages report an overflow
        return [*_check_inertias(assembly), *_immobile_joint_warnings(assembly, model)]


def _check_inertias(assembly: Assembly) -> list[str]:
    """Return warnings about impossible inertias of the links; in strict mode raise FormatError."""
    found = []
    for link in assembly.links:
        body, problem = link.inertia, ""
        if body.m > 0:
            problem = inertia_defect(body)
        elif np.any(body.I):
            problem = f"it has no mass and the moments {np.diag(body.I).tolist()} kg m^2"
        if problem:
            text = f"the inertia of link '{link.name}' is not physical: {problem}"
            if assembly.strict:
                raise file_error(assembly.path, link.line, text)
            found.append(_add_line(link.line, text))
    return found


def _model(
    assembly: Assembly,
    tree: Sequence[Connection],
    rest: Sequence[Connection],
    places: dict[str, Place],
) -> Model:
    moving = [c for c in tree if type(c.joint) is not Fixed]
    if not moving:
        how = "for a floating base, use floating=True or the option --floating of the command line"
        text = f"robot '{assembly.name}' has no movable joint; {how}"
        raise file_error(assembly.path, None, text)
    names = tuple(c.child for c in moving)
    merged = _links_of_bodies(assembly.links, places, len(names))
    inertia = tuple(_inertia(links, places) for links in merged)
    drawn, touching = _shapes_of_bodies(merged, places)
    model = partial(
        Model,
        assembly.name,
        tuple(places[c.parent].body for c in moving),
        tuple(c.joint for c in moving),
        tuple(_compose(c.Xp, places[c.parent].placement) for c in moving),
        inertia,
        _FALLING if assembly.gravity is STANDARD_GRAVITY else read_only(assembly.gravity),
        names,
        tuple(c.name for c in moving),
        drawn if assembly.sound_shapes else tuple(drawn),
        tuple(n for n, body in zip(names, inertia, strict=True) if not _is_nonzero(body)),
        tuple(_loop(c, places) for c in rest),
        touching if assembly.sound_shapes else tuple(touching),
    )
    try:
        return _make_model(model, names, inertia)
    except ImmobileError as error:
        raise file_error(assembly.path, moving[error.joint].line, f"joint {error}") from None
    except ValueError as error:
        raise file_error(assembly.path, None, str(error)) from None


_FALLING = read_only(STANDARD_GRAVITY)


def _make_model(
    model: Callable[..., Model], names: Sequence[str], inertia: Sequence[RigidInertia]
) -> Model:
    """Create a model by the constructor `model`; `names` are the body names.

    The function lists bodies with a physically impossible inertia in the field `unphysical`.
    """
    try:
        return model()
    except ImmobileError:
        raise
    except ValueError:
        bodies = zip(names, inertia, strict=True)
        return model(unphysical=tuple(name for name, body in bodies if _is_unphysical(body)))


def _links_of_bodies(links: Iterable[Link], places: dict[str, Place], nb: int) -> list[list[Link]]:
    """Return the links of each of the nb bodies."""
    merged: list[list[Link]] = [[] for _ in range(nb)]
    for link in links:
        if places[link.name].body >= 0:
            merged[places[link.name].body].append(link)
    return merged


def _immobile_joint_warnings(assembly: Assembly, model: Model) -> list[str]:
    """Return a list with the warning about a joint that moves no inertia; empty if none exists.

    Forward dynamics has no solution for such a joint.
    """
    if (idle := model.idle_joint) is None:
        return []
    line = next((c.line for c in assembly.connections if c.name == idle), 0)
    return [_add_line(line, f"joint '{idle}' can move without moving any inertia")]


def _inertia(links: Iterable[Link], places: dict[str, Place]) -> RigidInertia:
    parts = [
        _inertia_in_parent(a.inertia, places[a.name].placement)
        for a in links
        if _is_nonzero(a.inertia)
    ]
    return reduce(RigidInertia.__add__, parts) if parts else NOTHING


def _inertia_in_parent(body: RigidInertia, X: Transform) -> RigidInertia:
    return body if X is SAME else body.transform_to_parent(X)


def _is_nonzero(body: RigidInertia) -> bool:
    return body is not NOTHING and bool(body.m or any(map(any, body.I.tolist())))


def _is_unphysical(body: RigidInertia) -> bool:
    return bool(inertia_defect(body)) if body.m else _is_nonzero(body)


def _shapes_of_bodies(
    merged: Sequence[Sequence[Link]], places: dict[str, Place]
) -> tuple[LazyTuple, LazyTuple]:
    """Return the visual and the collision shapes of all bodies as lists built at first use."""

    def link_shapes(links: Sequence[Link], attribute: str) -> tuple[Shape, ...]:
        return _shapes((getattr(a, attribute), places[a.name]) for a in links)

    return (
        LazyTuple(lambda: tuple(link_shapes(links, "appearance") for links in merged)),
        LazyTuple(lambda: tuple(link_shapes(links, "contact") for links in merged)),
    )


def _shapes(links: Iterable[tuple[Sequence[Shape], Place]]) -> tuple[Shape, ...]:
    """Return the shapes of several links, each in the coordinates of the link's body."""
    return tuple(shape for shapes, place in links for shape in _shapes_on_body(shapes, place))


def _loop(c: Connection, places: dict[str, Place]) -> LoopJoint:
    p, s = places[c.parent], places[c.child]
    return LoopJoint(c.joint, p.body, s.body, c.Xp @ p.placement, c.Xs @ s.placement, c.name)


def _couplings(
    assembly: Assembly, numbers: dict[str, int], model: Model
) -> tuple[tuple[Coupling, ...], list[Callable[[], str]]]:
    """Return the couplings of the mimic joints, and warnings about the ignored couplings.

    `numbers` maps joint names to joint indices. A mimic joint may follow another mimic joint. The
    coupling then refers to the last source of the chain, which is not a mimic joint.
    """
    if not assembly.mimic_joints:
        return (), []
    by_name = {mimic.joint: mimic for mimic in assembly.mimic_joints}
    fixed = {c.name for c in assembly.connections} - set(numbers)
    couplings, left_out = list[Coupling](), list[Callable[[], str]]()
    for mimic in assembly.mimic_joints:
        if mimic.joint in fixed:
            text = f"joint '{mimic.joint}' is fixed; its mimic constraint is ignored"
            left_out.append(partial(_add_line, mimic.line, text))
            continue
        source, (offset, ratio, *curve) = _chain(assembly, by_name, mimic)
        if source not in numbers:
            left_out.append(partial(_free_joint_warning, mimic, source, list(numbers)))
            continue
        if any(model.joint[numbers[name]].nv != 1 for name in (mimic.joint, source)):
            text = f"joint '{mimic.joint}' follows '{source}'; both need one degree of freedom"
            raise file_error(assembly.path, mimic.line, text)
        indices = numbers[mimic.joint], numbers[source]
        couplings.append(Coupling(*indices, ratio, offset, tuple(curve)))
    return tuple(couplings), left_out


def _free_joint_warning(mimic: ParsedMimicJoint, source: str, joints: Sequence[str]) -> str:
    """Return the warning about a mimic joint whose source is not a movable joint.

    The warning suggests a joint of a similar name. The search for this name takes time, so the
    caller calls this function only when it displays the warning.
    """
    text = f"joint '{mimic.joint}' follows '{source}', which is not a movable joint"
    return _add_line(
        mimic.line, f"{text}{nearest(source, joints)}; its mimic constraint is ignored"
    )


def _chain(
    assembly: Assembly, by_name: dict[str, ParsedMimicJoint], mimic: ParsedMimicJoint
) -> tuple[str, list[float]]:
    """Return the last source in the chain of mimic joints that begins with `mimic`.

    `by_name` contains all mimic joints.

    Returns:
        The name of the last source, which is not a mimic joint, and the coefficients of a
        polynomial by increasing power. The polynomial is the position of `mimic` as a function of
        the position of this source.
    """
    source, coefficients, seen = (
        mimic.source,
        [mimic.offset, mimic.ratio, *mimic.curve],
        {mimic.joint},
    )
    while source in by_name:
        if source in seen:
            raise file_error(
                assembly.path,
                mimic.line,
                f"joint '{mimic.joint}' mimics itself; it must mimic another joint",
            )
        seen.add(source)
        inner = by_name[source]
        source = inner.source
        if len(coefficients) == 2 and not inner.curve:
            offset, ratio = coefficients
            coefficients = [ratio * inner.offset + offset, ratio * inner.ratio]
        else:
            coefficients = Polynomial(coefficients)(inner.polynomial).coef.tolist()
    return source, coefficients


PARALLEL = 2e-5  # [rad] accumulated rounding error of angles with five digits


def align_parallel_axes(
    connections: Sequence[Connection], rotations: Mapping[str, Array]
) -> list[Connection]:
    """Make joint axes that differ by less than 2e-5 rad exactly parallel; return the joints.

    A planar loop is mobile only if its axes are parallel. Rounding errors in a file make the axes
    nonparallel. The loop closure error then increases with the motion.

    Args:
        connections: The joints.
        rotations: The rotation from model to joint coordinates in the zero configuration, by joint
            name.
    """
    directions: list[Array] = []
    found = []
    for c in connections:
        if isinstance(c.joint, Revolute | Prismatic):
            E = rotations[c.name]
            u = E.T @ np.array(c.joint.axis)
            same = next((d for d in directions if np.linalg.norm(np.cross(d, u)) < PARALLEL), None)
            if same is None:
                directions.append(u)
            else:
                x, y, z = (np.copysign(1.0, same @ u) * (E @ same)).tolist()
                c = c._replace(joint=replace(c.joint, axis=(x, y, z)))
        found.append(c)
    return found


def describe_robot_with_loops(assembly: Assembly) -> RobotDescription:
    """Return the robot of `describe_robot`, with the joints of infinitesimal mechanisms fixed.

    The description has a warning for each loop with fixed joints.
    """
    _check(assembly)
    assembly = split_bodies(assembly)
    robot = describe_robot(assembly)
    model = robot.model
    if not model.loops:
        return robot
    from rigidblocks.dynamics.loops.diagnostics import (
        infinitesimal_mechanisms,  # imported here: the import is slower than reading a robot
    )

    robot = _assemble_loops(robot)
    q0 = neutral(model) if robot.q0 is None else robot.q0
    loops = {
        model.loop_names[l]: [model.joint_names[i] for i in joints]
        for l, joints in infinitesimal_mechanisms(model, q0).items()
    }
    return _assemble_loops(describe_robot(_fix_loops(assembly, loops))) if loops else robot


OPEN = 1e-4  # [m or rad] plants accept smaller loop errors as rounding errors of a file


def _assemble_loops(robot: RobotDescription) -> RobotDescription:
    """Return the robot with an initial configuration that closes its loops.

    Some files define only the constraints, and the simulator closes the loops. If the function
    finds no such configuration near the configuration of the file, it only adds a warning.
    """
    model = robot.model
    if not model.loops:
        return robot
    from rigidblocks.dynamics.loops.assembly import AssemblyError, assemble, closure_errors

    q0 = neutral(model) if robot.q0 is None else robot.q0
    errors = {name: max(error) for name, error in closure_errors(model, q0).items()}
    if max(errors.values()) <= OPEN:
        return robot
    worst = max(errors, key=lambda name: errors[name])
    start = f"the loop of '{worst}' is open by {errors[worst]:.3g} rad or m in the file"
    coupled = {joint for c in robot.couplings for joint in (c.joint, c.source)}
    try:
        q0 = assemble(model, q0, sorted(coupled))
        more = "the initial configuration is the nearest one that closes"
    except AssemblyError:
        more = "no nearby configuration closes it"
    warnings = robot.warnings
    text = f"{start}; {more}"
    return replace(robot, q0=read_only(q0), warnings=LazyTuple(lambda: (*warnings, text)))


def _fix_loops(assembly: Assembly, loops: Mapping[str, Sequence[str]]) -> Assembly:
    """Return an assembly in which the joints of immobile loops are fixed.

    The keys of `loops` are the loop joints, which the function removes. The values are the other
    joints of each loop, which become fixed joints. The function adds a warning for each loop.
    """
    fixed = {name for joints in loops.values() for name in joints}
    line = {c.name: c.line for c in assembly.connections}
    warnings = [
        f"line {line[loop]}: the loop of '{loop}' is an infinitesimal mechanism; its joints "
        f"{', '.join(joints)} are fixed"
        for loop, joints in loops.items()
    ]
    connections = [
        c._replace(joint=Fixed(), joint_properties={}) if c.name in fixed else c
        for c in assembly.connections
        if c.name not in loops
    ]
    return assembly._replace(connections=connections, warnings=[*assembly.warnings, *warnings])
