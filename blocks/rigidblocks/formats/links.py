"""From links and joints, as files list them, to the tree of a model: spanning tree, links that are
fixed to each other as one body, joints beyond the tree as loop joints (RBDA 4.1).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from pathlib import Path

import numpy as np

from rigidblocks.algebra.frozen import read_only
from rigidblocks.algebra.spatial import STRAIGHT, RigidInertia, Transform
from rigidblocks.formats.between import apart, springs
from rigidblocks.formats.description import Coupling, Freedoms, Place, RobotDescription
from rigidblocks.formats.document import SAME, nearest
from rigidblocks.formats.listed import (
    NOTHING,
    WORLD,
    Assembly,
    Connection,
    Following,
    Link,
)
from rigidblocks.formats.refusal import wrong
from rigidblocks.formats.spanning import spanning_tree
from rigidblocks.joint import Fixed, LoopJoint
from rigidblocks.model.checks import ImmobileError, unphysical
from rigidblocks.model.later import Later
from rigidblocks.model.model import STANDARD_GRAVITY, Model
from rigidblocks.model.shapes import Shape


def described(listed: Assembly) -> RobotDescription:
    """The robot that the links and joints make; links and joints are numbered depth first.

    Raises FormatError, with the line, for two links or joints of one name, a link that is not
    there, links that hang on nothing or on each other, and a joint that moves no inertia.
    """
    _check(listed)
    tree, rest = spanning_tree(listed)
    places = _places(tree)
    if listed.strict:
        _judged(listed)
    model = _model(listed, tree, rest, places)
    numbers = {name: i for i, name in enumerate(model.joint_names)}
    frames = {link.name: places[link.name] for link in listed.links}
    frames |= {name: _beyond(places[link], X) for name, link, X in listed.frames}
    couplings, more = _couplings(listed, numbers, model)
    return RobotDescription(
        model,
        Freedoms.joined((c.joint.nv, c.freedoms) for c in tree if c.joint.nv),
        frames,
        couplings,
        *_shapes_of_base(listed, places),
        Later(lambda: (*listed.warnings, *_found(listed, model), *(tell() for tell in more))),
        tuple(actuator._replace(joint=numbers[joint]) for joint, actuator in listed.actuators),
        springs(listed, places),
        apart(listed, places),
    )


def _shapes_of_base(listed: Assembly, places: dict[str, Place]) -> tuple[Later, Later]:
    """What is drawn of the base, and what touches, planes at rest too, both once they are asked
    for.
    """
    base = [link for link in listed.links if places[link.name].body < 0]
    return (
        Later(lambda: _shapes((link.appearance, places[link.name]) for link in base)),
        Later(
            lambda: (
                *_shapes((link.contact, places[link.name]) for link in base),
                *(plane.moved(places[a].placement.inverse()) for a, plane in listed.planes),
            )
        ),
    )


def _at(line: int, text: str) -> str:
    """A warning, with its line where there is one."""
    return f"line {line}: {text}" if line else text


def _check(listed: Assembly) -> None:
    if not listed.links:
        raise wrong(listed.path, None, f"robot '{listed.name}' has no link")
    _check_names(listed.path, "link", listed.links)
    _check_names(listed.path, "joint", listed.connections)
    _check_ends(listed)


def _check_names(path: Path, what: str, parts: Sequence[Link | Connection]) -> None:
    if len({part.name for part in parts}) == len(parts):
        return
    first: dict[str, int] = {}
    for part in parts:
        if part.name in first:
            raise wrong(
                path,
                part.line,
                f"a second {what} is called '{part.name}'; the first is in line {first[part.name]}",
            )
        first[part.name] = part.line


def _check_ends(listed: Assembly) -> None:
    names = [link.name for link in listed.links]
    known = {WORLD, *names}
    if known.issuperset(end for c in listed.connections for end in (c.parent, c.child)):
        return
    for c in listed.connections:
        for role, name in (("parent", c.parent), ("child", c.child)):
            if name not in known:
                text = f"{role} '{name}' of joint '{c.name}' is no link{nearest(name, names)}"
                raise wrong(listed.path, c.line, text)


def _places(tree: Sequence[Connection]) -> dict[str, Place]:
    """Where each link is: on the body of its joint, or on that of the link it is fixed to."""
    places, bodies = {WORLD: Place(-1, SAME)}, 0
    for c in tree:
        body, X = places[c.parent]
        if type(c.joint) is Fixed:
            places[c.child] = Place(body, _after(_back(c.Xs), _after(c.Xp, X)))
        else:
            places[c.child] = Place(bodies, _back(c.Xs))
            bodies += 1
    return places


def _after(X: Transform, first: Transform) -> Transform:
    """X @ first, where one of them does not turn without products of zeros."""
    if first is SAME or X is SAME:
        return X if first is SAME else first
    if first.E is STRAIGHT:
        return Transform(X.E, read_only(first.r + X.r))
    if X.E is STRAIGHT:
        return Transform(first.E, read_only(first.r + first.E.T @ X.r))
    both: Transform = X @ first
    return both


def _back(X: Transform) -> Transform:
    return X if X is SAME else X.inverse()


def _beyond(place: Place, X: Transform) -> Place:
    return Place(place.body, X @ place.placement)


def _placed(shapes: Sequence[Shape], place: Place) -> Sequence[Shape]:
    """Shapes of a link in the coordinates of its body."""
    if not shapes or place.placement is SAME:
        return shapes
    X = place.placement.inverse()
    return tuple(shape.moved(X) for shape in shapes)


def _found(listed: Assembly, model: Model) -> list[str]:
    """What is wrong with the inertias and the joints that move them."""
    with np.errstate(all="ignore"):  # of numbers that are too large, the words tell
        return [*_judged(listed), *_idle(listed, model)]


def _judged(listed: Assembly) -> list[str]:
    """What is wrong with the links' inertias; raises FormatError for it where that is asked for."""
    found = []
    for link in listed.links:
        body, problem = link.inertia, ""
        if body.m > 0:
            problem = unphysical(body)
        elif np.any(body.I):
            problem = f"it has no mass and the moments {np.diag(body.I).tolist()} kg m^2"
        if problem:
            text = f"the inertia of link '{link.name}' is not physical: {problem}"
            if listed.strict:
                raise wrong(listed.path, link.line, text)
            found.append(_at(link.line, text))
    return found


def _model(
    listed: Assembly,
    tree: Sequence[Connection],
    rest: Sequence[Connection],
    places: dict[str, Place],
) -> Model:
    moving = [c for c in tree if type(c.joint) is not Fixed]
    if not moving:
        how = "on a floating base: floating=True, --floating of the command"
        text = f"robot '{listed.name}' has no joint that moves; its base can, {how}"
        raise wrong(listed.path, None, text)
    names = tuple(c.child for c in moving)
    merged = _merged(listed.links, places, len(names))
    inertia = tuple(_inertia(links, places) for links in merged)
    drawn, touching = _shapes_of_bodies(merged, places)
    model = partial(
        Model,
        listed.name,
        tuple(places[c.parent].body for c in moving),
        tuple(c.joint for c in moving),
        tuple(_after(c.Xp, places[c.parent].placement) for c in moving),
        inertia,
        _FALLING if listed.gravity is STANDARD_GRAVITY else read_only(listed.gravity),
        names,
        tuple(c.name for c in moving),
        drawn if listed.sound_shapes else tuple(drawn),
        tuple(n for n, body in zip(names, inertia, strict=True) if not _any(body)),
        tuple(_loop(c, places) for c in rest),
        touching if listed.sound_shapes else tuple(touching),
    )
    try:
        return _made(model, names, inertia)
    except ImmobileError as error:
        raise wrong(listed.path, moving[error.joint].line, f"joint {error}") from None
    except ValueError as error:
        raise wrong(listed.path, None, str(error)) from None


_FALLING = read_only(STANDARD_GRAVITY)


def _made(
    model: Callable[..., Model], names: Sequence[str], inertia: Sequence[RigidInertia]
) -> Model:
    """The model; only where it is refused is it asked which bodies have an inertia that no rigid
    body has.
    """
    try:
        return model()
    except ImmobileError:
        raise
    except ValueError:
        bodies = zip(names, inertia, strict=True)
        return model(unphysical=tuple(name for name, body in bodies if _is_unphysical(body)))


def _merged(links: Iterable[Link], places: dict[str, Place], nb: int) -> list[list[Link]]:
    """The links that each of the nb bodies has."""
    merged: list[list[Link]] = [[] for _ in range(nb)]
    for link in links:
        if places[link.name].body >= 0:
            merged[places[link.name].body].append(link)
    return merged


def _idle(listed: Assembly, model: Model) -> list[str]:
    """The warning of a joint for which forward dynamics have no answer."""
    if (idle := model.idle_joint) is None:
        return []
    line = next((c.line for c in listed.connections if c.name == idle), 0)
    return [_at(line, f"joint '{idle}' can move without moving any inertia")]


def _inertia(links: Iterable[Link], places: dict[str, Place]) -> RigidInertia:
    parts = [_taken(a.inertia, places[a.name].placement) for a in links if _any(a.inertia)]
    return reduce(RigidInertia.__add__, parts) if parts else NOTHING


def _taken(body: RigidInertia, X: Transform) -> RigidInertia:
    return body if X is SAME else body.to_parent(X)


def _any(body: RigidInertia) -> bool:
    return body is not NOTHING and bool(body.m or any(map(any, body.I.tolist())))


def _is_unphysical(body: RigidInertia) -> bool:
    return bool(unphysical(body)) if body.m else _any(body)


def _shapes_of_bodies(
    merged: Sequence[Sequence[Link]], places: dict[str, Place]
) -> tuple[Later, Later]:
    """What is drawn of each body, and what touches, both once they are asked for."""

    def of_links(links: Sequence[Link], what: str) -> tuple[Shape, ...]:
        return _shapes((getattr(a, what), places[a.name]) for a in links)

    return (
        Later(lambda: tuple(of_links(links, "appearance") for links in merged)),
        Later(lambda: tuple(of_links(links, "contact") for links in merged)),
    )


def _shapes(links: Iterable[tuple[Sequence[Shape], Place]]) -> tuple[Shape, ...]:
    """The shapes of several links, each in the coordinates of its body."""
    return tuple(shape for shapes, place in links for shape in _placed(shapes, place))


def _loop(c: Connection, places: dict[str, Place]) -> LoopJoint:
    p, s = places[c.parent], places[c.child]
    return LoopJoint(c.joint, p.body, s.body, c.Xp @ p.placement, c.Xs @ s.placement, c.name)


def _couplings(
    listed: Assembly, numbers: dict[str, int], model: Model
) -> tuple[tuple[Coupling, ...], list[Callable[[], str]]]:
    """The joints that follow others, each with the joint at the end of its chain, and what tells of
    those that are left out.
    """
    if not listed.followings:
        return (), []
    by_name = {f.joint: f for f in listed.followings}
    fixed = {c.name for c in listed.connections} - set(numbers)
    couplings, left_out = list[Coupling](), list[Callable[[], str]]()
    for f in listed.followings:
        if f.joint in fixed:
            text = f"joint '{f.joint}' is fixed and follows no other"
            left_out.append(partial(_at, f.line, text))
            continue
        source, ratio, offset = _chain(listed, by_name, f)
        if source not in numbers:
            left_out.append(partial(_left_free, f, source, list(numbers)))
            continue
        if any(model.joint[numbers[name]].nv != 1 for name in (f.joint, source)):
            text = f"joint '{f.joint}' follows '{source}'; both need one freedom"
            raise wrong(listed.path, f.line, text)
        couplings.append(Coupling(numbers[f.joint], numbers[source], ratio, offset))
    return tuple(couplings), left_out


def _left_free(f: Following, source: str, joints: Sequence[str]) -> str:
    """The warning of a joint that follows none that moves; to look for the one that was meant takes
    time.
    """
    text = f"joint '{f.joint}' follows '{source}', which is no joint that moves"
    return _at(f.line, f"{text}{nearest(source, joints)}; it is left free")


def _chain(
    listed: Assembly, by_name: dict[str, Following], f: Following
) -> tuple[str, float, float]:
    """The joint at the end of a chain of joints that follow each other, with ratio and offset."""
    source, ratio, offset, seen = f.source, f.ratio, f.offset, {f.joint}
    while source in by_name:
        if source in seen:
            raise wrong(listed.path, f.line, f"joint '{f.joint}' follows itself")
        seen.add(source)
        beyond = by_name[source]
        source, ratio, offset = beyond.source, ratio * beyond.ratio, ratio * beyond.offset + offset
    return source, ratio, offset
