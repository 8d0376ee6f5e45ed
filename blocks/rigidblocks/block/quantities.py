"""What units mean in SI, and how values go from one unit to another of the same dimension."""

import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.units import base_units

_SI = {
    "kilogram": "kg",
    "meter": "m",
    "second": "s",
    "ampere": "A",
    "kelvin": "K",
    "mole": "mol",
    "candela": "cd",
    "radian": "rad",
}
_MANY = 2.0**20  # of a unit: beside them an offset loses no digits of the factor


class Quantity(NamedTuple):
    """A unit in base units of SI: `factor` value + `offset`, with the exponents of the base units
    and of rad that are not 0, in order of their names.
    """

    exponents: tuple[tuple[str, int | float], ...]
    factor: float = 1.0
    offset: float = 0.0


class Conversion(NamedTuple):
    """From the values of one port to those of another: `factor` value + `offset`, elementwise."""

    factor: Array
    offset: Array


@cache
def quantity_of(unit: str) -> Quantity | None:
    """What a unit means: one in FMI's spelling, or with pint installed any that pint knows.

    None for a text that is not known.
    """
    try:
        return Quantity(tuple(sorted(base_units(unit).items())))
    except ValueError:
        return _by_pint(unit) if find_spec("pint") else None


def _by_pint(unit: str) -> Quantity | None:
    import pint

    registry = _registry()
    for text in (unit, _spelled_out(unit)):
        try:
            zero, much = (registry.Quantity(k, text).to_base_units() for k in (0.0, _MANY))
        except (pint.PintError, ValueError, TypeError, AttributeError, KeyError, ArithmeticError):
            continue
        except Exception as error:  # of its parser's, which has more kinds of them
            del error
            continue
        powers = ((_SI.get(name, name), power) for name, power in much.unit_items())
        exponents = tuple(sorted((name, _whole(power)) for name, power in powers))
        offset = float(zero.magnitude)
        return Quantity(exponents, (float(much.magnitude) - offset) / _MANY, offset)
    return None


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True)


def _spelled_out(unit: str) -> str:
    """A unit in FMI's or UDUNITS' spelling as a Python expression: `N.m/s2` or `m s-1`."""
    over, _, under = (re.sub(r"([A-Za-z%])\^?(-?\d+)", r"\1**\2", unit)).partition("/")
    over, under = (re.sub(r"(?<!\d)\.|\.(?!\d)|\s+", "*", part.strip()) for part in (over, under))
    return f"({over or 1})/({under})" if under else over


def _whole(power: Any) -> int | float:
    return int(power) if power == int(power) else float(power)


def conversion(
    units: Sequence[str],
    targets: Sequence[str],
    meant: Sequence[Quantity | None],
    wanted: Sequence[Quantity | None],
) -> Conversion | None:
    """How values in some units, which mean what `meant` says, become values in others, element by
    element; None where they stay as they are. An empty unit is left open and fits any.

    Raises ValueError for units of different dimensions, and for different texts one of which is not
    known.
    """
    factor, offset = np.ones(len(units)), np.zeros(len(units))
    for k, (v, w, a, b) in enumerate(zip(units, targets, meant, wanted, strict=True)):
        if not v or not w or (v == w and (a is None or b is None)):
            continue
        for unit, quantity in ((v, a), (w, b)):
            if quantity is None:
                raise ValueError(f"the unit '{unit}' is not known, and so fits itself alone")
        assert a is not None
        assert b is not None
        if a.exponents != b.exponents:
            raise ValueError(f"{v} and {w} have different dimensions")
        factor[k], offset[k] = a.factor / b.factor, (a.offset - b.offset) / b.factor
    return Conversion(factor, offset) if np.any(factor != 1.0) or np.any(offset) else None
