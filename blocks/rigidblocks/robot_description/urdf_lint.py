"""What is wrong with a robot's file, all of it at once, in plain words with the lines."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import RigidInertia
from rigidblocks.dynamics.joint_space import crba
from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.document import Element, children, nearest, parsed
from rigidblocks.formats.load import content, load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.formats.units import doubted_units
from rigidblocks.formats.urdf import read_connection, read_link
from rigidblocks.model.checks import unphysical
from rigidblocks.model.configuration import neutral


class Problem(NamedTuple):
    """What is wrong in a line of a file; line 0 where it has none."""

    line: int
    text: str


def problems(path: str | Path) -> tuple[Problem, ...]:
    """What is wrong or doubtful in the file of a robot, in the order of its lines.

    Of a URDF all of it at once: what is refused, inertias that no rigid body has, limits upside
    down, numbers that look like millimetres, degrees or grams, moving links without mass, links
    that hang on nothing, and names that are used twice or cannot be those of ports. Of other
    formats what reading them tells. Raises FormatError for what is no robot's file at all.
    """
    path = Path(path)
    data = content(path)
    found: dict[Problem, None] = {}
    if not data.lstrip().startswith(b"{"):
        root = parsed(data, path)
        if root.tag == "robot" and path.suffix != ".xacro":
            found |= dict.fromkeys(_in_urdf(root, path))
    found |= dict.fromkeys(_in_reading(path, {problem.line for problem in found}))
    return tuple(sorted(found, key=lambda problem: problem.line))


def _in_reading(path: Path, told: set[int]) -> Iterator[Problem]:
    """What reading the whole tells of lines of which nothing is told yet."""
    try:
        robot = load_model(path)
    except FormatError as error:
        problem = _of_error(error, path)
        if not told or (problem.line and problem.line not in told):
            yield problem
        return
    except ValueError as error:
        yield Problem(0, str(error))
        return
    for warning in robot.warnings:
        problem = _of_text(warning, r"line (\d+): ")
        if not problem.line or problem.line not in told:
            yield problem
    if singular := singular_start(robot):
        yield Problem(0, singular)
    f = robot.freedoms
    for k in np.flatnonzero(f.lower > f.upper):
        if not told:
            text = f"the limits of freedom {k} are upside down: lower {f.lower[k]:g}"
            yield Problem(0, f"{text}, upper {f.upper[k]:g}")


def singular_start(robot: RobotDescription) -> str:
    """Why no force has one acceleration in the neutral configuration of a robot, in words; nothing
    where the joint-space inertia H, with its rotors, is regular there.

    Two joints whose axes coincide there, with a point mass on them behind, are an example.
    """
    model = robot.model
    H = crba(model, neutral(model)) + np.diag(robot.freedoms.armature)
    size = np.sqrt(np.abs(np.diag(H)))
    idle = size <= 1e-7 * size.max()
    values, vectors = np.linalg.eigh(H / np.outer(*(np.where(idle, 1.0, size),) * 2))
    if values[0] > 1e-12:
        return ""
    of_variable = np.repeat(model.joint_names, [joint.nv for joint in model.joint])
    moving = of_variable[np.abs(vectors[:, 0]) > 0.1 * np.abs(vectors[:, 0]).max()]
    names = ", ".join(dict.fromkeys(moving.tolist()))
    return (
        f"in the neutral configuration the joints {names} can move together without moving any "
        "inertia: H is singular there, and a plant that starts there has no acceleration; give it "
        "another start, or a joint armature"
    )


def _of_error(error: FormatError, path: Path) -> Problem:
    return _of_text(str(error).removeprefix(str(path)), r"(?::(\d+))?: ")


def _of_text(text: str, where: str) -> Problem:
    match = re.match(where, text)
    return Problem(int(match[1] or 0), text[match.end() :]) if match else Problem(0, text)


def _in_urdf(root: Element, path: Path) -> Iterator[Problem]:
    links, joints = list(children(root, "link")), list(children(root, "joint"))
    for element in links:
        yield from _refusals(element, path, read_link)
        yield from _name(element)
    for element in joints:
        warnings: list[str] = []
        yield from _refusals(element, path, partial(read_connection, warnings=warnings))
        yield from (_of_text(warning, r"line (\d+): ") for warning in warnings)
        yield from _name(element)
        yield from _limit(element)
    yield from _twice(links)
    yield from _twice(joints)
    yield from _ends(links, joints)
    yield from _tree(links, joints)
    yield from _masses(links, joints)
    yield from (Problem(element.sourceline, text) for element, text in doubted_units(root))


def _refusals(element: Element, path: Path, read: Callable[[Element], object]) -> Iterator[Problem]:
    """Why an element is refused, and what inertia of it no rigid body has."""
    try:
        part = read(element)
    except FormatError as error:
        yield _of_error(error, path)
        return
    inertia = getattr(part, "inertia", None)
    if isinstance(inertia, RigidInertia) and inertia.m > 0 and (why := unphysical(inertia)):
        name = element.get("name")
        yield Problem(element.sourceline, f"the inertia of link '{name}' is not physical: {why}")


def _name(element: Element) -> Iterator[Problem]:
    name = (element.get("name") or "").strip()
    if name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
        text = f"the name '{name}' of this {element.tag} has other than letters, digits, _, . and -"
        yield Problem(element.sourceline, f"{text}; tools differ in what they make of it")


def _limit(joint: Element) -> Iterator[Problem]:
    limit = joint.find("limit")
    if joint.get("type") == "fixed":
        return
    for key in ("effort", "velocity"):
        value = _number(None if limit is None else limit.get(key))
        if value is not None and value <= 0:
            text = f"the {key} of joint '{joint.get('name')}' is {value:g}: it cannot move"
            yield Problem(limit.sourceline, text)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _twice(elements: list[Element]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for element in elements:
        name = element.get("name")
        if name in first:
            text = f"a second {element.tag} is called '{name}'; the first is in line {first[name]}"
            yield Problem(element.sourceline, text)
        first.setdefault(name, element.sourceline)


def _end(joint: Element, role: str) -> str | None:
    part = joint.find(role)
    return None if part is None else part.get("link")


def _ends(links: list[Element], joints: list[Element]) -> Iterator[Problem]:
    names = [link.get("name") for link in links]
    known = [joint.get("name") for joint in joints]
    for joint in joints:
        for role in ("parent", "child"):
            name = _end(joint, role)
            if name is not None and name not in names:
                text = f"{role} '{name}' of joint '{joint.get('name')}' is no link"
                yield Problem(joint.sourceline, text + nearest(name, [n for n in names if n]))
        mimic = joint.find("mimic")
        if mimic is not None and mimic.get("joint") not in known:
            text = f"joint '{joint.get('name')}' follows '{mimic.get('joint')}', which is no joint"
            yield Problem(mimic.sourceline, text)


def _tree(links: list[Element], joints: list[Element]) -> Iterator[Problem]:
    """Links with two parents, and links that nothing connects with the first one of all."""
    inward: dict[str | None, Element] = {}
    for joint in joints:
        child = _end(joint, "child")
        if child in inward:
            text = f"link '{child}' is the child of two joints, '{inward[child].get('name')}' and "
            yield Problem(joint.sourceline, f"{text}'{joint.get('name')}'")
        inward.setdefault(child, joint)
    roots = [link for link in links if link.get("name") not in inward]
    if not roots and links:
        yield Problem(links[0].sourceline, "every link is the child of a joint: there is no base")
    for link in roots[1:]:
        text = f"link '{link.get('name')}' hangs on no joint, nor does '{roots[0].get('name')}'"
        yield Problem(link.sourceline, text)


def _masses(links: list[Element], joints: list[Element]) -> Iterator[Problem]:
    """Links that are moved and have no mass, alone or with what is fixed to them."""
    outward: dict[str | None, list[Element]] = {}
    for joint in joints:
        outward.setdefault(_end(joint, "parent"), []).append(joint)
    weights = {link.get("name"): _mass(link) for link in links}
    lines = {link.get("name"): link.sourceline for link in links}
    for joint in joints:
        child = _end(joint, "child")
        if joint.get("type") == "fixed" or child not in weights:
            continue
        rigid, waiting = list[str | None](), [child]
        while waiting and len(rigid) <= len(links):
            rigid.append(waiting.pop())
            fixed = (j for j in outward.get(rigid[-1], []) if j.get("type") == "fixed")
            waiting += [_end(j, "child") for j in fixed]
        if not any(weights.get(name, 0.0) for name in rigid):
            text = f"link '{child}' moves on joint '{joint.get('name')}' and has no mass"
            yield Problem(lines[child], text)


def _mass(link: Element) -> float:
    mass = link.find("inertial/mass")
    value = _number(None if mass is None else mass.get("value"))
    return 0.0 if value is None else value
