"""Spanning tree of the links of a file: selection of tree joints and loop joints.

A loop joint has no force, no limit and no motor. If a file gives such properties to every joint of
a loop, `split_bodies` cuts a body of the loop instead of a joint.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np

from rigidblocks.common.format_error import FormatError, file_error
from rigidblocks.robot.joints import Fixed, Joint, SixDoF
from rigidblocks.robot.robot_description import unused_name
from rigidblocks.robot_description.parsed_links import WORLD, Assembly, Connection, Link
from rigidblocks.spatial.rigid_motion import SAME
from rigidblocks.spatial.spatial import RigidInertia, Transform


def root_name(joints: Iterable[str]) -> str:
    """Return a name, not in `joints`, for the joint between the base and the root link."""
    return unused_name("root_joint", set(joints))


def spanning_tree(assembly: Assembly) -> tuple[list[Connection], list[Connection]]:
    """Return the tree joints, depth first in file order, and the loop joints."""
    inward: dict[str, Connection] = {}
    for c in assembly.connections:
        if c.child != WORLD and c.child not in inward and not c.closes:
            inward[c.child] = c
        elif not assembly.loops:
            first = inward[c.child]
            text = (
                f"link '{c.child}' is the child of two joints, '{first.name}' in line "
                f"{first.line} and '{c.name}'; a tree needs exactly one parent joint per link"
            )
            raise file_error(assembly.path, c.line, text)
    roots = [link for link in assembly.links if link.name not in inward]
    root = [_base_connection(assembly, roots, inward)] if roots else []
    inward |= {c.child: c for c in root}
    connections, first_inward = [*root, *assembly.connections], inward
    if assembly.loops:
        inward = _inward_joints(connections)
        _prefer_loaded_joints(inward, connections, {f.joint for f in assembly.mimic_joints})
    tree = _depth_first(c for c in connections if inward.get(c.child) is c)
    rest = [c for c in connections if inward.get(c.child) is not c]
    if len(tree) < len(assembly.links):
        raise _cycle_error(assembly, first_inward, {c.child for c in tree})
    return tree, rest


def _depth_first(connections: Iterable[Connection]) -> list[Connection]:
    """Return the joints that are connected to the base, in depth-first order."""
    outward: dict[str, list[Connection]] = {}
    for c in connections:
        outward.setdefault(c.parent, []).append(c)
    tree, waiting = list[Connection](), list(reversed(outward.get(WORLD, [])))
    while waiting:
        tree.append(waiting.pop())
        waiting += reversed(outward.get(tree[-1].child, []))
    return tree


def _inward_joints(connections: Sequence[Connection]) -> dict[str, Connection]:
    """Return the parent joint of each link by name, in a tree of minimum depth (RBDA 10.2)."""
    outward: dict[str, list[Connection]] = {}
    for c in connections:
        if not c.closes:
            outward.setdefault(c.parent, []).append(c)
    inward: dict[str, Connection] = {}
    front = [WORLD]
    while front:
        reached = []
        for c in (c for link in front for c in outward.get(link, [])):
            if c.child != WORLD and c.child not in inward:
                inward[c.child] = c
                reached.append(c.child)
        front = reached
    return inward


def _prefer_loaded_joints(
    inward: dict[str, Connection], connections: Sequence[Connection], followers: Container[str]
) -> None:
    """Select joints with springs, damping, friction or limits as tree joints if possible.

    Loop joints do not support these properties. A mimic joint (in `followers`), or a joint with
    springs, damping or friction, has priority over a joint that has only limits. `inward`
    contains the parent joint of each link; the function modifies it.
    """
    swapped = True
    while swapped:
        swapped = False
        for c in connections:
            current = inward.get(c.child)
            if c.closes or current is None or c is current:
                continue
            gain = _load(c, followers) - _load(current, followers)
            if gain > 0 and c.child not in _path_to_base(inward, c.parent):
                inward[c.child], swapped = c, True


def _load(c: Connection, followers: Container[str]) -> int:
    found = joint_properties(c)
    return 2 * (c.name in followers or bool({*found} - {"limits"})) + ("limits" in found)


def split_bodies(assembly: Assembly) -> Assembly:
    """Return an equivalent assembly in which every joint with properties is a tree joint.

    If a loop joint has properties, a coupling or an actuator, the function splits the child link of
    the joint into two halves. Each half has half of the inertia. The loop joint becomes the tree
    joint of the new half, and a fixed loop joint connects the halves. The motion of the mechanism
    does not change.

    Raises:
        FormatError: The child has no mass, so its halves would have no inertia.
    """
    tree, rest = spanning_tree(assembly)
    needed = {name for f in assembly.mimic_joints for name in (f.joint, f.source)}
    needed |= {name for names, one in assembly.actuators if one.line is None for name in names}
    loaded = [c for c in rest if c.joint.nv and (c.name in needed or joint_properties(c))]
    if not loaded:
        return assembly
    links = {link.name: link for link in assembly.links}
    connections = {c.name: c for c in assembly.connections}
    if tree[0].name not in connections:  # the base joint, because a half may be joined to the world
        connections = {tree[0].name: tree[0], **connections}
    for c in loaded:
        half = unused_name(f"{c.child or 'base'}_{c.name}", links)
        inertia = _split_inertia(assembly, links, tree, c)
        links[half] = Link(half, c.line, inertia)
        connections[c.name] = c._replace(child=half, closes=False)
        name = unused_name(f"{c.name}_loop", connections)
        connections[name] = Connection(
            name, c.line, half, c.child, Fixed(), SAME, SAME, closes=True
        )
    return assembly._replace(links=[*links.values()], connections=[*connections.values()])


def _split_inertia(
    assembly: Assembly, links: dict[str, Link], tree: Sequence[Connection], c: Connection
) -> RigidInertia:
    """Return half of an inertia of the body that contains the child link of joint c.

    The function selects the heaviest of the child and the links that are fixed to it. It halves the
    inertia of this link in `links`, and returns the other half in child coordinates. If the child
    is fixed to the base, it returns the inertia of the heaviest link of the robot and does not
    change `links`. This inertia has no effect, because the new link does not move.
    """
    places = _links_fixed_to(c.child, tree)
    name = max(places.keys() & links.keys(), key=lambda one: links[one].inertia.m, default=WORLD)
    if WORLD in places:
        return max((link.inertia for link in links.values()), key=lambda inertia: inertia.m)
    whole = links[name].inertia
    if not whole.m > 0.0:
        text = (
            f"joint '{c.name}' closes a loop, and its child '{c.child}' has no mass; therefore the "
            f"joint cannot have {', '.join(joint_properties(c)) or 'a coupling or an actuator'}"
        )
        raise file_error(assembly.path, c.line, text)
    half = RigidInertia(whole.m / 2, whole.h / 2, whole.I / 2)
    links[name] = links[name]._replace(inertia=half)
    return half.transform_to_parent(places[name])


def _links_fixed_to(link: str, tree: Sequence[Connection]) -> dict[str, Transform]:
    """Return the links that are fixed to `link`, with the transforms from `link` coordinates."""
    places, waiting = {link: SAME}, [link]
    while waiting:
        here = waiting.pop()
        for c in tree:
            if isinstance(c.joint, Fixed) and here in (c.parent, c.child):
                X = c.Xs.inverse() @ c.Xp
                other, X = (c.child, X) if here == c.parent else (c.parent, X.inverse())
                if other not in places:
                    places[other] = X @ places[here]
                    waiting.append(other)
    return places


def _path_to_base(inward: Mapping[str, Connection], link: str) -> list[str]:
    path = [link]
    while path[-1] in inward:
        path.append(inward[path[-1]].parent)
    return path


def joint_properties(c: Connection) -> list[str]:
    """Return the names of the joint properties of a connection that affect the motion."""
    f = {name: np.ravel(value) for name, value in c.joint_properties.items()}
    found = [
        word
        for word, names in _PROPERTIES.items()
        if any(np.any(f[name]) for name in names if name in f)
    ]
    if any(np.isfinite(f[name]).any() for name in ("lower", "upper") if name in f):
        found.append("limits")
    return found


_PROPERTIES = {
    "spring": ("stiffness",),
    "damping": ("damping",),
    "dry friction": ("friction", "backward"),
    "rotor inertia": ("armature",),
}


def _base_connection(
    assembly: Assembly, roots: list[Link], inward: dict[str, Connection]
) -> Connection:
    """Return the joint between the fixed base and the only link without a parent joint.

    `roots` are the links without a parent joint, and `inward` contains the parent joint of each
    other link.
    """
    first, *others = roots
    if others or any(c.parent == WORLD for c in inward.values()):
        link, what = (
            (others[0], f"and neither has '{first.name}'")
            if others
            else (first, "although other links are joined to the world")
        )
        text = f"link '{link.name}' has no parent joint, {what}; only the base has no parent joint"
        raise file_error(assembly.path, link.line, text)
    joint: Joint = SixDoF() if assembly.floating else Fixed()
    X = assembly.origin if assembly.origin and not assembly.floating else SAME
    name = root_name(c.name for c in assembly.connections)
    return Connection(name, first.line, WORLD, first.name, joint, X)


def _cycle_error(
    assembly: Assembly, inward: dict[str, Connection], reached: set[str]
) -> FormatError:
    """Return an error that names the joints of a cycle of links.

    `inward` contains the parent joint of each link, and `reached` the links connected to the base.
    """
    name = next(link.name for link in assembly.links if link.name not in reached)
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        name = inward[name].parent
    loop = [inward[link] for link in seen[seen.index(name) :]][::-1]
    first = min(range(len(loop)), key=lambda k: loop[k].line)
    loop = loop[first:] + loop[:first]
    joints = ", ".join(f"'{c.name}'" for c in loop)
    return file_error(
        assembly.path,
        loop[0].line,
        f"the joints {joints} form a cycle that is not connected to the base",
    )
