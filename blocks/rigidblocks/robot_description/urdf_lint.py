"""Inspection of robot files: all errors and suspicious values with their lines."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rigidblocks.common.format_error import FormatError
from rigidblocks.common.xml_reader import Element, children, nearest, parse_xml
from rigidblocks.dynamics.forward import crba
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.robot_description import RobotDescription
from rigidblocks.robot.validation import inertia_defect
from rigidblocks.robot_description.load import load_model, read_file
from rigidblocks.robot_description.unit_heuristics import suspicious_units
from rigidblocks.robot_description.urdf import read_connection, read_link, read_quaternions
from rigidblocks.spatial.spatial import RigidInertia


class Problem(NamedTuple):
    """Problem in a line of a file; `line` is 0 if the line is unknown."""

    line: int
    text: str


Check = Callable[[RobotDescription], Iterable[str]]  # yields warnings about a robot


def problems(path: str | Path, checks: Sequence[Check] = ()) -> tuple[Problem, ...]:
    """Return the errors and suspicious values in a robot file, in line order.

    For a URDF, the function reports all problems at once:

    - rejected elements, physically impossible inertias, and reversed limits
    - values that appear to be in millimetres, degrees or grams
    - moving links without mass, and several links without a parent
    - duplicate names, and names that are not valid port names

    For all formats, the result contains the warnings of `load_model`, for example ignored elements.

    Args:
        path: The robot file.
        checks: Additional functions, which yield warnings about the loaded robot.

    Raises:
        FormatError: The file is not a robot file.
    """
    path = Path(path)
    data = read_file(path)
    found: dict[Problem, None] = {}
    if not data.lstrip().startswith(b"{"):
        root = parse_xml(data, path)
        if root.tag == "robot" and path.suffix != ".xacro":
            found |= dict.fromkeys(_urdf_problems(root, path))
    found |= dict.fromkeys(_import_warnings(path, {problem.line for problem in found}, checks))
    return tuple(sorted(found, key=lambda problem: problem.line))


def _import_warnings(
    path: Path, reported_lines: set[int], checks: Sequence[Check]
) -> Iterator[Problem]:
    """Yield the problems that `load_model` and `checks` find.

    The function omits an error of `load_model` if `reported_lines` contains the line of the error.
    It also omits an error without a line if `reported_lines` is not empty.
    """
    try:
        robot = load_model(path)
    except FormatError as error:
        problem = _problem_from_error(error, path)
        if not reported_lines or (problem.line and problem.line not in reported_lines):
            yield problem
        return
    except ValueError as error:
        yield Problem(0, str(error))
        return
    for warning in (*robot.warnings, *(text for check in checks for text in check(robot))):
        yield _problem_from_text(warning, r"line (\d+): ")
    if singular := singular_start(robot):
        yield Problem(0, singular)
    f = robot.joint_properties
    for k in np.flatnonzero(f.lower > f.upper):
        if not reported_lines:
            text = f"the limits of degree of freedom {k} are reversed: lower {f.lower[k]:g}"
            yield Problem(0, f"{text}, upper {f.upper[k]:g}")


def singular_start(robot: RobotDescription) -> str:
    """Return the reason why the accelerations in the initial configuration are not unique, or "".

    The accelerations are not unique if the joint-space inertia H, including rotor inertias, is
    singular. An example is a pair of joints with a common axis that move only a point mass on
    this axis.
    """
    model = robot.model
    q0 = neutral(model) if robot.q0 is None else robot.q0
    H = crba(model, q0) + np.diag(robot.joint_properties.armature)
    size = np.sqrt(np.abs(np.diag(H)))
    idle = size <= 1e-7 * size.max()
    values, vectors = np.linalg.eigh(H / np.outer(*(np.where(idle, 1.0, size),) * 2))
    if values[0] > 1e-12:
        return ""
    of_variable = np.repeat(model.joint_names, [joint.nv for joint in model.joint])
    moving = of_variable[np.abs(vectors[:, 0]) > 0.1 * np.abs(vectors[:, 0]).max()]
    names = ", ".join(dict.fromkeys(moving.tolist()))
    return (
        f"in the initial configuration the joints {names} can move together without moving any "
        "inertia: H is singular and the acceleration is undefined; use another initial "
        "configuration or a joint armature"
    )


def _problem_from_error(error: FormatError, path: Path) -> Problem:
    return _problem_from_text(str(error).removeprefix(str(path)), r"(?::(\d+))?: ")


def _problem_from_text(text: str, pattern: str) -> Problem:
    match = re.match(pattern, text)
    return Problem(int(match[1] or 0), text[match.end() :]) if match else Problem(0, text)


def _urdf_problems(root: Element, path: Path) -> Iterator[Problem]:
    try:
        read_quaternions(root)
    except FormatError as error:
        yield _problem_from_error(error, path)
        return
    links, joints = list(children(root, "link")), list(children(root, "joint"))
    for element in links:
        yield from _rejections(element, path, read_link)
        yield from _name(element)
    for element in joints:
        warnings: list[str] = []
        yield from _rejections(element, path, partial(read_connection, warnings=warnings))
        yield from (_problem_from_text(warning, r"line (\d+): ") for warning in warnings)
        yield from _name(element)
    yield from _duplicate_names(links)
    yield from _duplicate_names(joints)
    yield from _ends(links, joints)
    yield from _tree(links, joints)
    yield from _massless_links(links, joints)
    yield from (Problem(element.sourceline, text) for element, text in suspicious_units(root))


def _rejections(
    element: Element, path: Path, read: Callable[[Element], object]
) -> Iterator[Problem]:
    """Yield a problem if `read` rejects an element, or if a link has an impossible inertia."""
    try:
        part = read(element)
    except FormatError as error:
        yield _problem_from_error(error, path)
        return
    inertia = getattr(part, "inertia", None)
    if isinstance(inertia, RigidInertia) and inertia.m > 0 and (why := inertia_defect(inertia)):
        name = element.get("name")
        yield Problem(element.sourceline, f"the inertia of link '{name}' is not physical: {why}")


def _name(element: Element) -> Iterator[Problem]:
    name = (element.get("name") or "").strip()
    if name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
        text = f"the name '{name}' of this {element.tag} must have only letters, digits, _, . and -"
        yield Problem(element.sourceline, f"{text}; tools interpret such names differently")


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _duplicate_names(elements: list[Element]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for element in elements:
        name = element.get("name")
        if name in first:
            text = (
                f"the {element.tag} name '{name}' is not unique; the first is in line {first[name]}"
            )
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
                text = f"{role} '{name}' of joint '{joint.get('name')}' is not a link"
                yield Problem(joint.sourceline, text + nearest(name, [n for n in names if n]))
        mimic = joint.find("mimic")
        if mimic is not None and mimic.get("joint") not in known:
            text = (
                f"joint '{joint.get('name')}' follows '{mimic.get('joint')}', which is not a joint"
            )
            yield Problem(mimic.sourceline, text)


def _tree(links: list[Element], joints: list[Element]) -> Iterator[Problem]:
    """Yield a problem for each further parent joint or root link, and for a missing root link."""
    inward: dict[str | None, Element] = {}
    for joint in joints:
        child = _end(joint, "child")
        if child in inward:
            text = f"link '{child}' is the child of two joints, '{inward[child].get('name')}' and "
            yield Problem(joint.sourceline, f"{text}'{joint.get('name')}'")
        inward.setdefault(child, joint)
    roots = [link for link in links if link.get("name") not in inward]
    if not roots and links:
        yield Problem(links[0].sourceline, "every link is the child of a joint; a base is missing")
    for link in roots[1:]:
        base = roots[0].get("name")
        text = f"link '{link.get('name')}' has no parent joint, and neither has '{base}'"
        yield Problem(link.sourceline, text)


def _massless_links(links: list[Element], joints: list[Element]) -> Iterator[Problem]:
    """Yield a problem for each moving link without mass.

    The function treats rigidly connected links as a single body.
    """
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
