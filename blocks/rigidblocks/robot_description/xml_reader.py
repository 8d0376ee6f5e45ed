"""Reading XML that others wrote: nothing is fetched, no entity is expanded, and every complaint
has a line.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from math import copysign, cos, isfinite, sin
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree

from rigidblocks.algebra.frozen import floats_of_shape, read_only
from rigidblocks.algebra.spatial import STRAIGHT, Array, Transform
from rigidblocks.formats.refusal import FormatError, wrong

Element = Any  # of lxml, which has no types
Children = dict[str, Element]  # the first of each name
Triple = tuple[float, float, float]
Origin = tuple[Triple, Triple]  # the position [m], and roll, pitch and yaw [rad]


def parsed(data: bytes, path: Path) -> Element:
    """The root element of the XML in `data`, which came from `path`.

    A declaration that is not that of XML 1 or not at the start, as robots are published with, is
    passed over. Raises FormatError for what is not well-formed, and for a document that declares
    entities.
    """
    if (start := data.find(b"<!ENTITY")) >= 0:
        raise wrong(path, data.count(b"\n", 0, start) + 1, _ENTITIES)
    try:
        root = etree.fromstring(data, _PARSER, base_url=str(path))
    except etree.XMLSyntaxError as error:
        if error.code in _DECLARATION and (rest := _DECLARED.sub(_lines, data)) != data:
            return parsed(rest, path)
        said = str(error.msg or "there is nothing in it").partition(", line ")[0]
        raise wrong(path, error.lineno, f"this is no well-formed XML: {said}") from None
    if b"\0" in data:  # UTF-16
        dtd = root.getroottree().docinfo.internalDTD
        if dtd is not None and next(dtd.iterentities(), None) is not None:
            raise wrong(path, 1, _ENTITIES)
    return root


_DECLARED = re.compile(rb"<\?xml\s[^<>]*\?>")
_DECLARATION = (etree.ErrorTypes.ERR_UNKNOWN_VERSION, etree.ErrorTypes.ERR_RESERVED_XML_NAME)
_SAFE = {"resolve_entities": False, "no_network": True, "huge_tree": False, "load_dtd": False}
_IDLE = {"remove_blank_text": True, "remove_comments": True, "remove_pis": True}
_PARSER = etree.XMLParser(collect_ids=False, **_SAFE, **_IDLE)
_ENTITIES = "the document declares entities, which are not read; write out what they stand for"


def _lines(found: re.Match[bytes]) -> bytes:
    """The lines that something took, empty."""
    return b"\n" * found[0].count(b"\n")


def refused(element: Element, text: str) -> FormatError:
    """The error that says `text` of an element."""
    return wrong(element.getroottree().docinfo.URL, element.sourceline, text)


def first_of_each(element: Element) -> Children:
    """The first child element of each name."""
    found = {part.tag: part for part in element}
    if len(found) < len(element):
        found = {part.tag: part for part in reversed(element)}
    return found


def children(element: Element, name: str) -> Iterator[Element]:
    """The child elements with a name."""
    return element.iterchildren(name)  # type: ignore[no-any-return]


def required(element: Element, name: str) -> str:
    """The attribute `name`; raises FormatError where it is missing or blank."""
    value = (element.get(name) or "").strip()
    if not value:
        raise refused(element, f"<{element.tag}> needs the attribute {name}")
    return value


def number(element: Element, name: str, default: float | None = None) -> float:
    """The attribute `name` as one finite number; `default` where it is missing."""
    text = element.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text)
        if isfinite(value) and text.isascii() and "_" not in text:
            return value
    except (TypeError, ValueError):
        pass
    return floats(element, required(element, name), 1, f"{name} of <{element.tag}>")[0]


def table(
    elements: Sequence[Element], names: Sequence[str], default: float | None = None
) -> list[tuple[float, ...]]:
    """The attributes `names` of each element as finite numbers, `default` where one is missing."""
    if not elements:
        return []
    texts = [element.get(name) for element in elements for name in names]
    given = [text for text in texts if text is not None] if None in texts else texts
    values = _sound(given)
    if not values or (default is None and given is not texts):
        values = [number(element, name, default) for element in elements for name in names]
    elif default is not None and given is not texts:
        known = iter(values)
        values = [default if text is None else next(known) for text in texts]
    return list(zip(*[iter(values)] * len(names), strict=True))


def origins(elements: Sequence[Element]) -> list[Origin]:
    """What each <origin> says in its attributes xyz and rpy; 0 where they are missing."""
    r, rpy = ([element.get(name) for element in elements] for name in ("xyz", "rpy"))
    known = {None: _ZERO, **_FREQUENT}
    if new := list({*r, *rpy}.difference(known)):
        tokens = [text.split() for text in new]
        if all(len(some) == 3 for some in tokens):
            values = iter(_sound([token for some in tokens for token in some]))
            known |= zip(new, zip(values, values, values, strict=False), strict=False)
    try:
        return [(known[position], known[turn]) for position, turn in zip(r, rpy, strict=True)]
    except KeyError:  # there is something to be said of one
        return [(_triple(element, "xyz"), _triple(element, "rpy")) for element in elements]


def _triple(element: Element, name: str) -> Triple:
    x, y, z = numbers(element, name, 3, _ZERO)
    return x, y, z


def _sound(texts: Sequence[str]) -> list[float]:
    """The number in each text; none where there is anything to be said of one."""
    try:
        values = list(map(float, texts))
    except ValueError:
        return []
    text = "".join(texts)
    return values if text.isascii() and "_" not in text and isfinite(sum(values)) else []


def place(element: Element) -> tuple[Sequence[float], Sequence[float]]:
    """The position [m] in the attribute xyz, and roll, pitch and yaw [rad] in rpy; 0 where they are
    missing.
    """
    xyz, rpy = element.get("xyz"), element.get("rpy")
    if xyz and rpy:
        r, turn = _FREQUENT.get(xyz) or _quick(xyz), _FREQUENT.get(rpy) or _quick(rpy)
        if len(r) == len(turn) == 3:
            return r, turn
    return numbers(element, "xyz", 3, _ZERO), numbers(element, "rpy", 3, _ZERO)


def numbers(
    element: Element, name: str, count: int, default: Sequence[float] | None = None
) -> Sequence[float]:
    """The attribute `name` as `count` finite numbers; `default` where it is missing."""
    text = element.get(name)
    if text is None and default is not None:
        return default
    if text and len(values := _FREQUENT.get(text) or _quick(text)) == count:
        return values
    return floats(element, required(element, name), count, f"{name} of <{element.tag}>")


def floats(element: Element, text: str, count: int, what: str) -> list[float]:
    """`count` finite numbers in a text of an element."""
    if len(values := _quick(text)) == count:
        return values
    try:
        values = [_float(token) for token in text.split()]
    except ValueError as error:
        raise refused(
            element, f"{what} must be {_count(count)}; {error} in '{text[:80]}'"
        ) from None
    if len(values) != count or not all(map(isfinite, values)):
        raise refused(element, f"{what} must be {_count(count)}, not '{text[:80]}'")
    return values


def _quick(text: str) -> list[float]:
    """The numbers in a text; none where there is anything to be said of it."""
    return _sound(text.split())


HERE = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))  # the origin of what is where its link is
_ZERO, _X, _Y, _Z = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_FREQUENT: dict[str | None, Triple]
_FREQUENT = {"0 0 0": _ZERO, "0.0 0.0 0.0": _ZERO, "1 0 0": _X, "0 1 0": _Y, "0 0 1": _Z}


def _count(count: int) -> str:
    return "a finite number" if count == 1 else f"{count} finite numbers"


def _float(token: str) -> float:
    """A number as C reads it: Python's own readings of _ and of other digits are none."""
    if not token.isascii() or "_" in token:
        raise ValueError(f"'{token[:40]}' is none")
    try:
        return float(token)
    except ValueError:
        raise ValueError(f"'{token[:40]}' is none") from None


def placement(r: Sequence[float], rpy: Sequence[float]) -> Transform:
    """The transform to a frame at `r` [m] that is turned by roll, pitch and yaw [rad] about fixed
    axes.
    """
    return Transform(rotation(rpy) if any(rpy) else STRAIGHT, read_only(r))


def placements(origins: Sequence[Origin]) -> list[Transform]:
    """The `placement` at each origin; SAME for one that is where its link is."""
    if not origins:
        return []
    E = {rpy: rotation(rpy) if any(rpy) else STRAIGHT for _, rpy in origins}
    r = floats_of_shape((len(origins), 3), [x for position, _ in origins for x in position])
    return [
        Transform(E[rpy], r) if E[rpy] is not STRAIGHT or any(position) else SAME
        for (position, rpy), r in zip(origins, r, strict=True)
    ]


def rotation(rpy: Sequence[float]) -> Array:
    """The rotation (3, 3) to coordinates turned by roll, pitch and yaw [rad] about fixed axes, E =
    rx(roll) ry(pitch) rz(yaw), read-only.

    What the rounding of quarter turns leaves is cleared: zeros are what makes a traced model small.
    """
    roll, pitch, yaw = rpy
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    E = [cp * cy, cp * sy, -sp]
    E += [sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, sr * cp]
    E += [cr * sp * cy + sr * sy, cr * sp * sy - sr * cy, cr * cp]
    return floats_of_shape((3, 3), [x if _DUST < abs(x) < _ONE else _dusted(x) for x in E])


SAME = Transform(STRAIGHT, read_only(np.zeros(3)))  # what is this very one costs nothing to apply


def _dusted(x: float) -> float:
    """x, or the 0, 1 or -1 that it is next to."""
    if abs(x) < _DUST:
        return 0.0
    return copysign(1.0, x) if abs(abs(x) - 1.0) < _DUST else x


_DUST = 4e-16
_ONE = 1.0 - _DUST


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint at the name that was meant, if there is one that is close."""
    close = get_close_matches(name, names, 1)
    return f"; did you mean '{close[0]}'?" if close else ""
