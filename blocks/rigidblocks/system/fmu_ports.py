"""The variables of an FMU as ports: arrays, types, units, start values and bounds."""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.quantities import Quantity, quantity_of
from rigidblocks.block.signal_types import REAL, TEXTUAL, carried
from rigidblocks.system.fmu_file import FmuError

_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:, ?\d+)*)\]")
_BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")


class Elements(NamedTuple):
    """The variables that make a port, in C order: one for each element, or one of the shape."""

    shape: tuple[int, ...]
    variables: tuple[Any, ...]


def elements_of(variables: Sequence[Any]) -> dict[str, Elements]:
    """The elements of each port by its name.

    The variables `q[1]`, `q[2]`, ... of one causality and type that fill an array, in whatever
    order they come, are one port `q`; any others are ports of their own.
    """
    groups: dict[str, dict[tuple[int, ...], Any]] = {}
    found: dict[str, dict[str, Elements]] = {}  # by the name of the first that is like them
    for v in variables:
        if v.shape:
            found[v.name] = {v.name: Elements(tuple(v.shape), (v,))}
        else:
            port, index = _element(v.name)
            groups.setdefault(port, {})[index] = v
            found.setdefault(port, {})
    for name, elements in groups.items():
        found[name] |= _arrays(name, elements)
    return {name: array for some in found.values() for name, array in some.items()}


def _element(name: str) -> tuple[str, tuple[int, ...]]:
    """The array and the indices of an element: `q[2]` is (q, (2,)), and `q` (q, ())."""
    match = _ELEMENT.fullmatch(name)
    return (match["port"], tuple(map(int, match["index"].split(",")))) if match else (name, ())


def _arrays(name: str, elements: dict[tuple[int, ...], Any]) -> dict[str, Elements]:
    """One array where the indices, from 1 on, fill it and all is of one causality; else each
    variable by itself.
    """
    shape = tuple(map(max, zip(*elements, strict=False)))
    alike = len({(v.causality, v.type) for v in elements.values()}) == 1
    if alike and {len(i) for i in elements} == {len(shape)} and prod(shape) == len(elements):
        order = [tuple(k + 1 for k in index) for index in np.ndindex(*shape)]
        if set(order) == set(elements):
            return {name: Elements(shape, tuple(elements[index] for index in order))}
    return {v.name: Elements((), (v,)) for v in elements.values()}


def port_of(
    path: object, name: str, elements: Elements, meanings: Mapping[str, Quantity | None]
) -> Port:
    """The port of the elements. An FMU that names no unit leaves it open: ''."""
    shape, variables = elements
    try:
        start = _start(variables, shape)
        low, high = _bounds(variables, shape, start)
        units = tuple(_unit(v) for v in variables)
        return Port(
            name,
            shape,
            units[0] if len(units) != prod(shape) else units,
            variables[0].description or "",
            start,
            min=low,
            max=high,
            type=variables[0].type,
            meanings={unit: meanings.get(unit) for unit in units},
        )
    except (ValueError, TypeError) as error:
        raise FmuError(f"'{path}' cannot be used: its variable '{name}': {error}") from error


def unit_meanings(description: Any) -> dict[str, Quantity | None]:
    """What the units of a model description mean: by its own factors, or else as far as they are
    known.
    """
    units = {_unit(v) for v in description.modelVariables}
    meanings = {unit: quantity_of(unit) for unit in units}
    for unit in description.unitDefinitions:
        base = unit.baseUnit
        if base is not None and unit.name in units and np.isfinite(base.factor) and base.factor:
            powers = tuple(sorted((n, int(getattr(base, n))) for n in _BASE if getattr(base, n)))
            meanings[unit.name] = Quantity(powers, float(base.factor), float(base.offset))
    return meanings


def _unit(variable: Any) -> str:
    declared = variable.declaredType.unit if variable.declaredType else None
    return variable.unit or declared or ""


def _start(variables: Sequence[Any], shape: tuple[int, ...]) -> Array | None:
    """The start values; None where one is missing."""
    if any(v.start is None for v in variables):
        return None
    of_type = variables[0].type
    if len(variables) == 1 and shape and of_type not in TEXTUAL:
        values = [_value(text, of_type) for text in variables[0].start.split()]
        if len(values) not in (1, prod(shape)):
            raise ValueError(f"it has {len(values)} start values for the shape {shape}")
        values = values * (prod(shape) if len(values) == 1 else 1)
    elif len(variables) == 1:  # FMPy reads the first of several texts
        if prod(shape) > 1:
            return None
        values = [_value(variables[0].start, of_type)] * prod(shape)
    else:
        values = [_value(v.start, of_type) for v in variables]
    flat = carried(values, of_type, (len(values),), "its start value") if values else np.zeros(0)
    return np.reshape(flat, shape)


def _value(text: str, of_type: str) -> Any:
    if of_type in REAL:
        return float(text)
    if of_type in ("Boolean", "Clock"):
        if text not in ("true", "false", "1", "0"):
            raise ValueError(f"its start value '{text}' is neither true nor false")
        return float(text in ("true", "1"))
    if of_type == "String":
        return text
    return bytes.fromhex(text) if of_type == "Binary" else int(text)


def _bounds(variables: Sequence[Any], shape: tuple[int, ...], start: Any) -> tuple[Any, Any]:
    """The declared bounds, each as far as the FMU's own start values keep it."""
    low, high = (
        np.broadcast_to(
            np.reshape(
                [_bound(v, name, default) for v in variables], shape if len(variables) > 1 else ()
            ),
            shape,
        )
        for name, default in (("min", -np.inf), ("max", np.inf))
    )
    return (low, high) if start is None else (np.minimum(low, start), np.maximum(high, start))


def _bound(variable: Any, name: str, default: float) -> float:
    """A bound of a variable or of its type; array variables have one for all or for each."""
    declared = getattr(variable.declaredType, name) if variable.declaredType else None
    text = getattr(variable, name)
    text = declared if text is None else text
    if text is None or " " in text.strip() or variable.type in TEXTUAL:
        return default
    return float(text)
