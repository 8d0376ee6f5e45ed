"""Terminals and icon of an FMI 3.0 FMU: which variables are plugged together as one."""

from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element, SubElement

from rigidblocks.fmi.icon import icon
from rigidblocks.fmi.xml import xml_text

FOLDER = "terminalsAndIcons"
# for each kind of terminal its members, and the ports that may be a member
KINDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "joints": {"q": ("q",), "qd": ("qd",), "tau": ("tau",)},
    "reference": {
        "position": ("q_ref", "y"),
        "velocity": ("qd_ref", "slope"),
        "acceleration": ("qdd_ref", "curvature"),
    },
    "points": {"p": ("p",), "v": ("v",), "w": ("w",)},
    "contact": {"f_ext": ("f_ext",), "force": ("force",), "in_contact": ("in_contact",)},
    "loops": {name: (name,) for name in ("A", "b", "delta", "rate", "lam")},
}
_DESCRIPTIONS = {
    "joints": "positions, velocities and forces of the joints",
    "reference": "the motion that is to be followed",
    "points": "positions and velocities of points",
    "contact": "forces of contacts, as wrenches on the bodies and by point",
    "loops": "what closes the loops: constraint equations and forces",
}


def terminals_content(ports: Iterable[str]) -> dict[str, bytes]:
    """The files of the folder terminalsAndIcons of an FMU with these variables, by path."""
    return {
        f"{FOLDER}/terminalsAndIcons.xml": terminals(ports).encode(),
        f"{FOLDER}/icon.png": icon(),
    }


def terminals(ports: Iterable[str]) -> str:
    """The text of terminalsAndIcons.xml.

    A terminal has at least two members. Terminals of one kind match member by member (`plug`): the
    joints of a robot and of its controller are connected at once. The parts of a system have
    terminals of their own.
    """
    root = Element("fmiTerminalsAndIcons", fmiVersion="3.0")
    picture = SubElement(root, "GraphicalRepresentation")
    corners = {"x1": "-100", "y1": "-100", "x2": "100", "y2": "100"}
    SubElement(picture, "CoordinateSystem", corners, suggestedScalingFactorTo_mm="0.1")
    SubElement(picture, "Icon", corners)
    if found := list(_terminals(ports)):
        parent = SubElement(root, "Terminals")
        for name, kind, members in found:
            terminal = SubElement(
                parent,
                "Terminal",
                name=name,
                matchingRule="plug",
                terminalKind=f"rigidblocks.{kind}",
                description=_DESCRIPTIONS[kind],
            )
            for member, port in members.items():
                SubElement(
                    terminal,
                    "TerminalMemberVariable",
                    variableName=port,
                    memberName=member,
                    variableKind="signal",
                )
    return xml_text(root)


def _terminals(ports: Iterable[str]) -> Iterable[tuple[str, str, dict[str, str]]]:
    """The name, the kind and the ports by member of each terminal."""
    known = list(ports)
    for part in dict.fromkeys(name.rpartition(".")[0] for name in known):
        prefix = f"{part}." if part else ""
        for kind, members in KINDS.items():
            there = {
                member: prefix + port
                for member, candidates in members.items()
                for port in candidates
                if prefix + port in known
            }
            if len(there) > 1:
                yield prefix + kind, kind, there
