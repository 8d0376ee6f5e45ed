"""The spanning tree of the links of a file: which joints are in it, and which close loops."""

from collections.abc import Iterable, Sequence

from rigidblocks.formats.document import SAME
from rigidblocks.formats.listed import WORLD, Assembly, Connection, Link
from rigidblocks.formats.refusal import FormatError, wrong
from rigidblocks.joint import Fixed, Joint, SixDoF


def spanning_tree(listed: Assembly) -> tuple[list[Connection], list[Connection]]:
    """The joints of the tree, depth first in the order of the file, and the others."""
    inward: dict[str, Connection] = {}
    for c in listed.connections:
        if c.child != WORLD and c.child not in inward:
            inward[c.child] = c
        elif not listed.loops:
            first = inward[c.child]
            text = (
                f"link '{c.child}' is the child of two joints, '{first.name}' in line "
                f"{first.line} and '{c.name}'; a tree has one for each link"
            )
            raise wrong(listed.path, c.line, text)
    roots = [link for link in listed.links if link.name not in inward]
    root = [_base(listed, roots, inward)] if roots else []
    inward |= {c.child: c for c in root}
    connections = [*root, *listed.connections]
    if listed.loops:
        inward = _nearest_to_the_base(connections)
    tree = _depth_first(c for c in connections if inward.get(c.child) is c)
    rest = [c for c in connections if inward.get(c.child) is not c]
    if len(tree) < len(listed.links):
        raise _circle(listed, inward, {c.child for c in tree})
    return tree, rest


def _depth_first(connections: Iterable[Connection]) -> list[Connection]:
    """Those that hang on the world, each with all that hangs on it behind it."""
    outward: dict[str, list[Connection]] = {}
    for c in connections:
        outward.setdefault(c.parent, []).append(c)
    tree, waiting = list[Connection](), list(reversed(outward.get(WORLD, [])))
    while waiting:
        tree.append(waiting.pop())
        waiting += reversed(outward.get(tree[-1].child, []))
    return tree


def _nearest_to_the_base(connections: Sequence[Connection]) -> dict[str, Connection]:
    """For each link the joint that it hangs on in a spanning tree of minimum depth (RBDA 10.2)."""
    outward: dict[str, list[Connection]] = {}
    for c in connections:
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


def _base(listed: Assembly, roots: list[Link], inward: dict[str, Connection]) -> Connection:
    """The joint between the fixed base and the one link that hangs on no joint of the file."""
    first, *others = roots
    if others or any(c.parent == WORLD for c in inward.values()):
        link, what = (others[0], f"nor does '{first.name}'") if others else (first, "others do")
        text = (
            f"link '{link.name}' hangs on no joint, {what}; a robot has one link that hangs on none"
        )
        raise wrong(listed.path, link.line, text)
    joint: Joint = SixDoF() if listed.floating else Fixed()
    X = listed.origin if listed.origin and not listed.floating else SAME
    return Connection("root_joint", first.line, WORLD, first.name, joint, X)


def _circle(listed: Assembly, inward: dict[str, Connection], reached: set[str]) -> FormatError:
    """The complaint about links that hang on each other."""
    name = next(link.name for link in listed.links if link.name not in reached)
    seen: list[str] = []
    while name not in seen:
        seen.append(name)
        name = inward[name].parent
    loop = [inward[link] for link in seen[seen.index(name) :]][::-1]
    first = min(range(len(loop)), key=lambda k: loop[k].line)
    loop = loop[first:] + loop[:first]
    joints = ", ".join(f"'{c.name}'" for c in loop)
    return wrong(
        listed.path, loop[0].line, f"the joints {joints} make a loop that hangs on no other link"
    )
