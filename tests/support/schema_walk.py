"""Variants of robot files that change one element or attribute, and the content of a robot."""

import copy
import dataclasses
from pathlib import Path

import numpy as np
from lxml import etree

from rigidblocks.robot_description.schema_coverage import ReadElement

_FLIPPED = {"true": "false", "false": "true", "enable": "disable", "disable": "enable"}


def tag(element):
    """Return the name of an element, with its namespace prefix."""
    local = str(element.tag).rpartition("}")[2]
    return f"{element.prefix}:{local}" if element.prefix else local


def read_places(element, table, inside):
    """Yield (key of the table, name, element) for each read child and attribute.

    The names of attributes begin with @, and `element` is then the owner of the attribute.
    """
    rules = table.get(inside, {})
    for key in element.attrib:
        if isinstance(rules.get(f"@{key}"), ReadElement):
            yield inside, f"@{key}", element
    for child in element.iterchildren("*"):
        rule = rules.get(tag(child))
        if isinstance(rule, ReadElement):
            yield inside, tag(child), child
            yield from read_places(child, table, rule.inside or tag(child))


def read_names(table, root):
    """Return the (key, name) pairs that a reader supports and that are reachable from the root."""
    found, waiting, seen = set(), [root], {root}
    while waiting:
        inside = waiting.pop()
        for name, rule in table.get(inside, {}).items():
            if isinstance(rule, ReadElement):
                below = rule.inside or name
                if _has_read_names(table, name, below):
                    found.add((inside, name))
                if not name.startswith("@") and below not in seen:
                    seen.add(below)
                    waiting.append(below)
    return found


def _has_read_names(table, name, below):
    """Return False for a container of which the reader supports no inner name."""
    rules = {} if name.startswith("@") else table.get(below, {})
    return not rules or any(
        isinstance(rule, ReadElement) and _has_read_names(table, one, rule.inside or one)
        for one, rule in rules.items()
        if (rule.inside or one if isinstance(rule, ReadElement) else one) != below
    )


def changed(value):
    """Return another value of the same kind: numbers, a truth value or a name."""
    if value.strip().lower() in _FLIPPED:
        return _FLIPPED[value.strip().lower()]
    try:
        numbers = [float(token) for token in value.split()]
    except ValueError:
        return f"{value.strip()}_x"
    return " ".join(f"{1.25 * v + 0.0625 * (k + 1)}" for k, v in enumerate(numbers))


def variants(root, name, element, values=()):
    """Yield (what changed, XML text) of files that differ in one element or attribute.

    The first text lacks it. Each other text has another value, by default `changed`.
    """
    tree = root.getroottree()
    path = tree.getpath(element)

    def edited():
        whole = copy.deepcopy(root)
        return whole, whole.getroottree().xpath(path, namespaces=_spaces(root))[0]

    whole, place = edited()
    if name.startswith("@"):
        key = name[1:]
        given = place.get(key)
        del place.attrib[key]
        yield "removed", etree.tostring(whole).decode()
        for value in values or (changed(given),):
            whole, place = edited()
            place.set(key, value)
            yield value, etree.tostring(whole).decode()
        return
    place.getparent().remove(place)
    yield "removed", etree.tostring(whole).decode()
    if (element.text or "").strip() and not len(element):
        for value in values or (changed(element.text),):
            whole, place = edited()
            place.text = value
            yield value, etree.tostring(whole).decode()


def with_part(element, name, value):
    """Return the XML text of the file with one more child or attribute of an element."""
    root = element.getroottree().getroot()
    path = element.getroottree().getpath(element)
    whole = copy.deepcopy(root)
    place = whole.getroottree().xpath(path, namespaces=_spaces(root))[0]
    if name.startswith("@"):
        place.set(name[1:], value)
    else:
        etree.SubElement(place, name).text = value
    return etree.tostring(whole).decode()


def _spaces(root):
    return {p: uri for one in root.iter("*") for p, uri in one.nsmap.items() if p}


def content(value):
    """Return the data of a robot description as nested tuples, without warnings and lines."""
    if isinstance(value, np.ndarray):
        return ("array", value.shape, tuple(content(v) for v in value.ravel().tolist()))
    if isinstance(value, float):
        return float(f"{value:.12g}") + 0.0
    if value is None or isinstance(value, (str, int, bool, Path, type)):
        return value
    if isinstance(value, dict) or hasattr(value, "items"):
        return tuple((key, content(one)) for key, one in value.items())
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value) if f.name not in ("warnings", "line")]
        return (type(value).__name__, *((n, content(getattr(value, n))) for n in names))
    if isinstance(value, (tuple, list)) or hasattr(value, "__len__"):
        return (type(value).__name__, *map(content, value))
    slots = [s for c in type(value).__mro__ for s in getattr(c, "__slots__", ())]
    data = {**{s: getattr(value, s) for s in slots}, **getattr(value, "__dict__", {})}
    return (type(value).__name__, content({k: v for k, v in data.items() if k[0] != "_"}))
