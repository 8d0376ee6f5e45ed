"""Icon and terminals of an FMU, which are the content of its folder terminalsAndIcons."""

import struct
import zlib
from collections.abc import Iterable, Mapping
from itertools import pairwise
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from rigidblocks.common.arrays import Array
from rigidblocks.common.escaping import xml_text

ICON = "model.png"  # path of the icon in an FMI 2.0 FMU
SIZE = 64  # width and height of the icon [pixels]
_COLORS = ((255, 255, 255), (31, 58, 95), (226, 125, 44), (120, 140, 160))  # RGB by colour index
# joints from the base to the tip, and half line widths [pixels]
_JOINTS = ((18.0, 50.0), (26.0, 22.0), (50.0, 16.0))
_LINK, _JOINT, _BASE = 3.5, 5.5, (8, 28, 54, 58)


def icon() -> bytes:
    """Return the icon of FMUs as a PNG file of 64 x 64 pixels, identical on all machines."""
    header = struct.pack(">2I5B", SIZE, SIZE, 2, 3, 0, 0, 0)
    palette = bytes(value for color in _COLORS for value in color)
    pixels = _drawing().reshape(SIZE, -1, 4)
    rows = (pixels << np.array([6, 4, 2, 0])).sum(2).astype(np.uint8)
    # stored without compression, because compressed bytes depend on the version of zlib
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 0)
    chunks = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _drawing() -> Array:
    """Return the colour index (64, 64) of each pixel of the icon."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    colors = np.zeros((SIZE, SIZE), dtype=int)
    left, right, top, bottom = _BASE
    colors[(x > left) & (x < right) & (y > top) & (y < bottom)] = 3
    for a, b in pairwise(_JOINTS):
        colors[_distance(x, y, np.array(a), np.array(b)) < _LINK] = 1
    for joint in _JOINTS:
        colors[np.hypot(x - joint[0], y - joint[1]) < _JOINT] = 2
    return colors


def _distance(x: Array, y: Array, a: Array, b: Array) -> Array:
    """Return the distances of points (x, y) from the line segment between a and b [pixels].

    The distances have the shape of x and y. a and b have the shape (2,).
    """
    along = np.clip(
        ((x - a[0]) * (b - a)[0] + (y - a[1]) * (b - a)[1]) / np.sum((b - a) ** 2), 0, 1
    )
    distance: Array = np.hypot(x - a[0] - along * (b - a)[0], y - a[1] - along * (b - a)[1])
    return distance


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


FOLDER = "terminalsAndIcons"
# members of each terminal type, and the port names that each member may have
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
    "reference": "reference motion",
    "points": "positions and velocities of points",
    "contact": "forces of contacts, as wrenches on the bodies and by point",
    "loops": "loop closure: constraint equations and constraint forces",
}


def terminals_content(ports: Iterable[str]) -> dict[str, bytes]:
    """Return the icon file and the terminals file (bytes), by path in the FMU."""
    return {
        f"{FOLDER}/terminalsAndIcons.xml": terminals(ports).encode(),
        f"{FOLDER}/icon.png": icon(),
    }


def terminals(ports: Iterable[str]) -> str:
    """Return the text of terminalsAndIcons.xml for the ports of an FMU.

    A terminal groups at least two ports, which are its members. With the matching rule `plug`, the
    connection of two terminals connects all members with equal names. For example, a tool can
    connect all signals between a robot and a controller at once. Each part of a system has its own
    terminals.
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
    """Yield (name, type, members) of each terminal; `members` maps member names to ports."""
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
