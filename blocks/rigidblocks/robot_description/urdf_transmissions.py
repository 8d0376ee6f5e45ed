"""Transmissions of URDF files as actuators: the elements of ros_control and of ros2_control.

The position a of an actuator is a weighted sum of joint positions q. The weights are products of
the reductions n_a of the actuators and n_j of the joints. For a simple transmission with the
reduction n, a = n q. For a differential transmission with two actuators and two joints:

    a1 = n_a1 (n_j1 q1 + n_j2 q2),    a2 = n_a2 (n_j1 q1 - n_j2 q2)

For a four-bar linkage:

    a1 = n_a1 n_j1 q1,    a2 = n_a2 (q1 + n_j2 q2)

The joint forces follow from the principle of virtual work: tau_j is the sum of da/dq_j times torque
over the actuators. For the four-bar linkage, ros_control computes other joint efforts, whose power
is not equal to the power of the actuators.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from rigidblocks.common.format_error import FormatError
from rigidblocks.common.xml_reader import Element, floats, required_attribute
from rigidblocks.robot.robot_description import Actuator
from rigidblocks.robot_description.parsed_links import Connection

SIMPLE, DIFFERENTIAL, FOUR_BAR = (
    "SimpleTransmission",
    "DifferentialTransmission",
    "FourBarLinkageTransmission",
)
_REDUCTIONS = ("mechanicalReduction", "mechanical_reduction")

ParsedActuator = tuple[Sequence[str], Actuator]
"""Names of the joints, the first one and the others, and the actuator."""


def transmission_kind(text: str) -> str:
    """Return the kind of a transmission from its type, such as "transmission_interface/..."."""
    kind = text.strip().rpartition("/")[2].rpartition("::")[2]
    return kind or SIMPLE


def transmission_actuators(
    root: Element, connections: Sequence[Connection], warnings: list[str]
) -> Iterator[ParsedActuator]:
    """Yield the actuators of all transmissions of a URDF; append warnings.

    The command of an actuator is the torque of its motor [N m]. The function ignores a transmission
    with a warning in the following cases. The kind is not supported, or an actuator or joint has
    another transmission. A joint does not exist, or does not have exactly one degree of freedom. A
    reduction is not a number or is zero, or a product of reductions is too large or too small.
    """
    joints = {c.name: c for c in connections}
    driven: dict[str, int] = {}
    names: set[str] = set()
    for element in (
        *root.iterchildren("transmission"),
        *root.iterfind("ros2_control/transmission"),
    ):
        parts = [_sort_by_role(element, tag) for tag in ("actuator", "joint")]
        reason = _reason_to_ignore(element, parts, joints, driven, names)
        if reason is not None:
            warnings.append(f"line {element.sourceline}: the transmission is ignored: {reason}")
            continue
        driven |= {_name(joint): element.sourceline or 0 for joint in parts[1]}
        names |= {_name(actuator) for actuator in parts[0]}
        yield from _actuators(element, *parts)


def _reason_to_ignore(
    element: Element,
    parts: Sequence[Sequence[Element]],
    joints: Mapping[str, Connection],
    driven: Mapping[str, int],
    names: set[str],
) -> str | None:
    """Return the reason why the reader ignores a transmission, or None.

    `parts` contains the actuator elements and the joint elements of the transmission. `driven` maps
    each joint with a transmission to the line of this transmission. `names` contains the names of
    the actuators of all previous transmissions.
    """
    kind, (actuators, of) = _kind(element), parts
    count = {SIMPLE: 1, DIFFERENTIAL: 2, FOUR_BAR: 2}.get(kind)
    if count is None:
        return f"its type is '{kind}', not {SIMPLE}, {DIFFERENTIAL} or {FOUR_BAR}"
    if (len(actuators), len(of)) != (count, count):
        needed = f"a {kind} needs {count}"
        return f"it has {len(actuators)} actuators and {len(of)} joints; {needed} of each"
    for joint in map(_name, of):
        if joint not in joints or joints[joint].joint.nv != 1:
            return f"joint '{joint}' is missing, or has more or fewer than one degree of freedom"
        if joint in driven:
            return f"the transmission in line {driven[joint]} already drives joint '{joint}'"
    if len({_name(joint) for joint in of}) < count:
        return "its joints are equal"
    for part in (*actuators, *of, element):
        for child in part.iterchildren(*_REDUCTIONS):
            if not _is_reduction(child):
                needed, text = "must be a finite number other than 0", (child.text or "").strip()
                return f"its <{child.tag}> {needed}, not '{text[:40]}'"
    for _, one in _actuators(element, actuators, of):
        ratios = [one.gear, *(one.gear * weight for _, weight in one.others)]
        if not all(isfinite(ratio) and ratio != 0.0 for ratio in ratios):
            needed = "must be finite and other than 0"
            return f"the gear ratios {ratios} of its actuator '{one.name}' {needed}"
    if taken := [name for name in map(_name, actuators) if name in names]:
        return f"another transmission has the actuator '{taken[0]}'"
    return None


def _actuators(
    element: Element, actuators: Sequence[Element], joints: Sequence[Element]
) -> Iterator[ParsedActuator]:
    names = [_name(joint) for joint in joints]
    if _kind(element) == SIMPLE:
        in_ros2 = element.getparent().tag == "ros2_control"
        order = (*joints, *actuators) if in_ros2 else (*actuators, *joints)
        given = (_reduction(part) for part in (*order, element))
        gear = next((value for value in given if value is not None), 1.0)
        yield names, _motor(actuators[0], gear)
        return
    a1, a2, j1, j2 = (
        1.0 if (value := _reduction(part)) is None else value for part in (*actuators, *joints)
    )
    if _kind(element) == DIFFERENTIAL:
        yield names, _motor(actuators[0], a1 * j1, j2 / j1)
        yield names, _motor(actuators[1], a2 * j1, -j2 / j1)
    else:
        yield names[:1], _motor(actuators[0], a1 * j1)
        yield names, _motor(actuators[1], a2, j2)


def _is_reduction(child: Element) -> bool:
    """Return True if the text of an element is a finite number other than 0."""
    try:
        return floats(child, child.text or "", 1, f"<{child.tag}>")[0] != 0.0
    except FormatError:
        return False


def _motor(element: Element, gear: float, *weights: float) -> Actuator:
    """Return the actuator of an element, with a position a that is linear in joint positions.

        a = gear (q_1 + sum_k weights[k] q_(k + 2))

    q_1, q_2, ... are the positions of the joints of the transmission.
    """
    others = tuple((-1, weight) for weight in weights)
    return Actuator(_name(element), -1, gear, others=others, motor="torque")


def _kind(element: Element) -> str:
    text = element.findtext("type") or element.findtext("plugin") or element.get("type") or ""
    return transmission_kind(text)


def _name(element: Element) -> str:
    return required_attribute(element, "name")


def _sort_by_role(element: Element, tag: str) -> list[Element]:
    """Return the children with a tag, in the order of their roles, such as actuator1, actuator2.

    Children without a role keep their order.
    """
    found = list(element.iterchildren(tag))
    roles = [(part.findtext("role") or part.get("role") or "").strip() for part in found]
    wanted = [f"{tag}{k + 1}" for k in range(len(found))]
    return [found[roles.index(role)] for role in wanted] if sorted(roles) == wanted else found


def _reduction(element: Element) -> float | None:
    """Return the reduction in a child of the element, or None."""
    for tag in _REDUCTIONS:
        child = element.find(tag)
        if child is not None:
            return float(child.text)
    return None
