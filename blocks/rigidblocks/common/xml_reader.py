"""XML reader that opens no external files, rejects entities, and reports the line of an error."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

from lxml import etree

from rigidblocks.common.format_error import FormatError, file_error

Element = Any  # element of lxml, which has no type annotations
Children = dict[str, Element]  # the first child element of each name
Triple = tuple[float, float, float]
Origin = tuple[Triple, Triple]  # the position [m], and roll, pitch and yaw [rad]


def parse_xml(data: bytes, path: Path) -> Element:
    """Parse XML from `path` and return the root element.

    Some published robot files contain an XML declaration with a version other than 1, or a
    declaration that is not at the start of the file. The parser ignores such declarations. It also
    ignores the default namespace of a robot file and undeclared prefixes (`namespace_warnings`).

    Raises:
        FormatError: The XML is not well-formed, or declares entities.
    """
    if (start := data.find(b"<!ENTITY")) >= 0:
        raise file_error(path, data.count(b"\n", 0, start) + 1, _ENTITIES)
    try:
        root = _strip_namespace(etree.fromstring(data, _PARSER, base_url=str(path)))
    except etree.XMLSyntaxError as error:
        root = _parse_undeclared_prefixes(data, path)
        if root is not None:
            return root
        if error.code in _DECLARATION and (rest := _DECLARED.sub(_lines, data)) != data:
            return parse_xml(rest, path)
        said = str(error.msg or "it is empty").partition(", line ")[0]
        raise file_error(path, error.lineno, f"this is not well-formed XML: {said}") from None
    if b"\0" in data:  # UTF-16
        dtd = root.getroottree().docinfo.internalDTD
        if dtd is not None and next(dtd.iterentities(), None) is not None:
            raise file_error(path, 1, _ENTITIES)
    return root


def _parse_undeclared_prefixes(data: bytes, path: Path) -> Element | None:
    """Parse XML and ignore undeclared namespace prefixes; return None if it has other errors."""
    parser = etree.XMLParser(collect_ids=False, recover=True, **_SAFE, **_IDLE)
    root = etree.fromstring(data, parser, base_url=str(path))
    if any(error.type != etree.ErrorTypes.NS_ERR_UNDEFINED_NAMESPACE for error in parser.error_log):
        return None
    return root


def _strip_namespace(root: Element) -> Element:
    """Remove the default namespace from the tags of a robot file; return the root element."""
    space, _, name = root.tag.rpartition("}")
    if space and name in _ROBOTS:
        for element in root.iter(f"{space}}}*"):
            element.tag = element.tag.rpartition("}")[2]
    return root


_ROBOTS = ("robot", "sdf", "mujoco")


def namespace_warnings(root: Element) -> Iterator[str]:
    """Yield a warning if a robot file has a default namespace, which the reader ignores."""
    if root.nsmap.get(None):
        where = f"line {root.sourceline}: <{root.tag}>"
        yield f"{where} has the default namespace '{root.nsmap[None]}', which is ignored"


_DECLARED = re.compile(rb"<\?xml\s[^<>]*\?>")
_DECLARATION = (etree.ErrorTypes.ERR_UNKNOWN_VERSION, etree.ErrorTypes.ERR_RESERVED_XML_NAME)
_SAFE = {"resolve_entities": False, "no_network": True, "huge_tree": False, "load_dtd": False}
_IDLE = {"remove_blank_text": True, "remove_comments": True, "remove_pis": True}
_PARSER = etree.XMLParser(collect_ids=False, **_SAFE, **_IDLE)
_ENTITIES = "the document declares entities, which are not read; replace them by their text"


def _lines(match: re.Match[bytes]) -> bytes:
    """Return only the line breaks of an XML declaration, so that line numbers do not change."""
    return b"\n" * match[0].count(b"\n")


def format_error(element: Element, text: str) -> FormatError:
    """Return an error whose message contains the file and line of an element, and `text`."""
    return file_error(element.getroottree().docinfo.URL, element.sourceline, text)


def first_of_each(element: Element) -> Children:
    """Map each tag among the children of an element to the first child with this tag."""
    found = {part.tag: part for part in element}
    if len(found) < len(element):
        found = {part.tag: part for part in reversed(element)}
    return found


def children(element: Element, name: str) -> Iterator[Element]:
    """Return the children of an element with the tag `name`."""
    return element.iterchildren(name)  # type: ignore[no-any-return]


def required_attribute(element: Element, name: str) -> str:
    """Return the attribute `name` of an element.

    Raises:
        FormatError: The attribute is missing or blank.
    """
    value = (element.get(name) or "").strip()
    if not value:
        raise format_error(element, f"<{element.tag}> needs the attribute {name}")
    return value


def number(element: Element, name: str, default: float | None = None) -> float:
    """Return the attribute `name` of an element as a finite number, by default `default`."""
    text = element.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text)
        if isfinite(value) and text.isascii() and "_" not in text:
            return value
    except (TypeError, ValueError):
        pass
    return floats(element, required_attribute(element, name), 1, f"{name} of <{element.tag}>")[0]


def table(
    elements: Sequence[Element], names: Sequence[str], default: float | None = None
) -> list[tuple[float, ...]]:
    """Return the attributes `names` of each element as finite numbers.

    `default` replaces missing attributes; if it is None, a missing attribute is an error.
    """
    if not elements:
        return []
    texts = [element.get(name) for element in elements for name in names]
    given = [text for text in texts if text is not None] if None in texts else texts
    values = _parse_finite_numbers(given)
    if not values or (default is None and given is not texts):
        values = [number(element, name, default) for element in elements for name in names]
    elif default is not None and given is not texts:
        known = iter(values)
        values = [default if text is None else next(known) for text in texts]
    return list(zip(*[iter(values)] * len(names), strict=True))


def origins(elements: Sequence[Element]) -> list[Origin]:
    """Return the attributes xyz [m] and rpy [rad] of each <origin>; missing attributes are zero."""
    r, rpy = ([element.get(name) for element in elements] for name in ("xyz", "rpy"))
    known = {None: _ZERO, **_FREQUENT}
    if new := list({*r, *rpy}.difference(known)):
        tokens = [text.split() for text in new]
        if all(len(some) == 3 for some in tokens):
            values = iter(_parse_finite_numbers([token for some in tokens for token in some]))
            known |= zip(new, zip(values, values, values, strict=False), strict=False)
    try:
        return [(known[position], known[turn]) for position, turn in zip(r, rpy, strict=True)]
    except KeyError:  # an attribute may be invalid; parse each one and report the error
        return [(_triple(element, "xyz"), _triple(element, "rpy")) for element in elements]


def _triple(element: Element, name: str) -> Triple:
    x, y, z = numbers(element, name, 3, _ZERO)
    return x, y, z


def _parse_finite_numbers(texts: Sequence[str]) -> list[float]:
    """Parse strings as finite numbers, without a check of each number.

    The result is an empty list if a string is invalid or the sum of the numbers is not finite.
    """
    try:
        values = list(map(float, texts))
    except ValueError:
        return []
    text = "".join(texts)
    return values if text.isascii() and "_" not in text and isfinite(sum(values)) else []


def place(element: Element) -> tuple[Sequence[float], Sequence[float]]:
    """Return the position xyz [m] and the angles rpy [rad] of an element, zero by default."""
    xyz, rpy = element.get("xyz"), element.get("rpy")
    if xyz and rpy:
        r, turn = (
            _FREQUENT.get(xyz) or _parse_numbers_quickly(xyz),
            _FREQUENT.get(rpy) or _parse_numbers_quickly(rpy),
        )
        if len(r) == len(turn) == 3:
            return r, turn
    return numbers(element, "xyz", 3, _ZERO), numbers(element, "rpy", 3, _ZERO)


def numbers(
    element: Element, name: str, count: int, default: Sequence[float] | None = None
) -> Sequence[float]:
    """Return the `count` finite numbers in the attribute `name`, by default `default`."""
    text = element.get(name)
    if text is None and default is not None:
        return default
    if text and len(values := _FREQUENT.get(text) or _parse_numbers_quickly(text)) == count:
        return values
    return floats(element, required_attribute(element, name), count, f"{name} of <{element.tag}>")


def floats(element: Element, text: str, count: int, subject: str) -> list[float]:
    """Return the `count` finite numbers in `text`; errors contain the element and `subject`."""
    if len(values := _parse_numbers_quickly(text)) == count:
        return values
    try:
        values = [_float(token) for token in text.split()]
    except ValueError as error:
        raise format_error(
            element, f"{subject} must be {_count(count)}; {error} in '{text[:80]}'"
        ) from None
    if len(values) != count or not all(map(isfinite, values)):
        raise format_error(element, f"{subject} must be {_count(count)}, not '{text[:80]}'")
    return values


def _parse_numbers_quickly(text: str) -> list[float]:
    """Parse the finite numbers of a string, separated by spaces (`_parse_finite_numbers`)."""
    return _parse_finite_numbers(text.split())


HERE = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))  # the default origin, equal to the link origin
_ZERO, _X, _Y, _Z = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_FREQUENT: dict[str | None, Triple]
_FREQUENT = {"0 0 0": _ZERO, "0.0 0.0 0.0": _ZERO, "1 0 0": _X, "0 1 0": _Y, "0 0 1": _Z}


def _count(count: int) -> str:
    return "a finite number" if count == 1 else f"{count} finite numbers"


def _float(token: str) -> float:
    """Parse a number in C syntax; unlike Python, reject underscores and non-ASCII digits."""
    if not token.isascii() or "_" in token:
        raise ValueError(f"'{token[:40]}' is not a number")
    try:
        return float(token)
    except ValueError:
        raise ValueError(f"'{token[:40]}' is not a number") from None


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a hint with the most similar name, or "" if no name is similar."""
    close = get_close_matches(name, names, 1)
    return f"; did you mean '{close[0]}'?" if close else ""
