"""Base units, physical dimensions and conversions of the units of ports."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from math import pi
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.spatial.spatial import Array

# exponents of the SI base units and of rad
_SYMBOLS: dict[str, dict[str, int]] = {
    "1": {},
    "kg": {"kg": 1},
    "m": {"m": 1},
    "s": {"s": 1},
    "A": {"A": 1},
    "K": {"K": 1},
    "rad": {"rad": 1},
    "N": {"kg": 1, "m": 1, "s": -2},
    "J": {"kg": 1, "m": 2, "s": -2},
    "W": {"kg": 1, "m": 2, "s": -3},
    "Hz": {"s": -1},
    "V": {"kg": 1, "m": 2, "s": -3, "A": -1},
}


def unit_text(units: Iterable[str]) -> str:
    """Return the distinct units of a signal for messages and labels, such as "rad, m"."""
    return ", ".join(dict.fromkeys(units))


def base_units(unit: str) -> dict[str, int]:
    """Return the exponents of SI base units and rad in a unit, by the name of the base unit.

    For `N.m/rad`, the exponents are kg 1, m 2, s -2 and rad -1. A unit contains at most one `/`;
    all symbols after the `/` are in the denominator.

    Raises:
        ValueError: A symbol is unknown.
    """
    total: Counter[str] = Counter()
    numerator, _, denominator = unit.partition("/")
    for part, sign in ((numerator, 1), (denominator, -1)):
        for factor in filter(None, part.split(".")):
            match = re.fullmatch(r"(1|[A-Za-z]+)(-?\d+)?", factor)
            if match is None or match[1] not in _SYMBOLS:
                raise ValueError(
                    f"unit '{unit}' has the unknown symbol '{factor}'; known symbols: "
                    f"{', '.join(_SYMBOLS)}"
                )
            for base, exponent in _SYMBOLS[match[1]].items():
                total[base] += sign * exponent * int(match[2] or 1)
    return {base: exponent for base, exponent in total.items() if exponent}


def display_unit(unit: str) -> tuple[str, float] | None:
    """Return the display unit of an angle unit, and the factor from the unit to the display unit.

    For rad/s, the result is deg/s and 180/pi. Angle units are rad and its time derivatives. For all
    other units, the result is None: their values are displayed unchanged.
    """
    exponents = base_units(unit)
    if unit.startswith("rad") and exponents.pop("rad", 0) == 1 and set(exponents) <= {"s"}:
        return f"deg{unit.removeprefix('rad')}", 180 / pi
    return None


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
# test value of a conversion; with a large value, rounding of the offset does not affect the factor
_TEST_VALUE = 2.0**20


class Quantity(NamedTuple):
    """Physical quantity of a unit: its dimension and its conversion to SI base units.

    A value x in this unit equals `factor` * x + `offset` in SI base units.

    Attributes:
        exponents: Nonzero exponents of the base units and of rad, sorted by name.
        factor: Factor of the conversion.
        offset: Offset of the conversion.
    """

    exponents: tuple[tuple[str, int | float], ...]
    factor: float = 1.0
    offset: float = 0.0


Table = tuple[tuple[float, float], ...]
"""Pairs (value, replacement); other values do not change."""


class Conversion(NamedTuple):
    """Elementwise conversion from the values of one port to the values of another port.

    The converted values are `factor` value + `offset`.

    Attributes:
        factor: Factors (n,).
        offset: Offsets (n,).
        table: Pairs of a value and its replacement, applied before the linear conversion.
    """

    factor: Array
    offset: Array
    table: Table = ()

    def apply(self, values: Array) -> Array:
        """Return the values (n,) after the conversion."""
        converted: Array = self.factor * replace_values(values, self.table) + self.offset
        return converted


def replace_values(values: Array, table: Table) -> Array:
    """Return an array with replaced values; `table` contains pairs (value, replacement)."""
    if not table:
        return values
    replaced = np.array(values)
    for value, replacement in table:
        replaced[values == value] = replacement
    return replaced


@cache
def quantity_of(unit: str) -> Quantity | None:
    """Return the physical quantity of a unit, or None if the unit is unknown.

    The unit has the FMI syntax or, if pint is installed, the pint syntax.
    """
    try:
        return Quantity(tuple(sorted(base_units(unit).items())))
    except ValueError:
        return _pint_quantity(unit) if find_spec("pint") else None


def _pint_quantity(unit: str) -> Quantity | None:
    import pint

    registry = _registry()
    for text in (unit, _python_expression(unit)):
        if _is_costly(text):
            continue
        try:
            zero, much = (registry.Quantity(k, text).to_base_units() for k in (0.0, _TEST_VALUE))
        except (pint.PintError, ValueError, TypeError, AttributeError, KeyError, ArithmeticError):
            continue
        except Exception as error:  # pint's parser raises other types, too
            del error
            continue
        powers = ((_SI.get(name, name), power) for name, power in much.unit_items())
        exponents = tuple(sorted((name, _whole(power)) for name, power in powers))
        offset = float(zero.magnitude)
        return Quantity(exponents, (float(much.magnitude) - offset) / _TEST_VALUE, offset)
    return None


def _is_costly(unit: str) -> bool:
    """Return True if pint may take very long to parse a unit, such as 9**9**9."""
    if len(unit) > _LONGEST or re.search(r"\d\s*(\*\*|\^)|(\*\*|\^)[\s(+-]*\d{3}", unit):
        return True
    return len(re.findall(r"\)\s*(\*\*|\^)", unit)) > 1


_LONGEST = 100  # maximum number of characters of a unit


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True)


def _python_expression(unit: str) -> str:
    """Convert a unit from FMI or UDUNITS syntax (`N.m/s2`, `m s-1`) to a Python expression."""
    over, _, under = (re.sub(r"([A-Za-z%])\^?(-?\d+)", r"\1**\2", unit)).partition("/")
    over, under = (re.sub(r"(?<!\d)\.|\.(?!\d)|\s+", "*", part.strip()) for part in (over, under))
    return f"({over or 1})/({under})" if under else over


def _whole(power: Any) -> int | float:
    return int(power) if power == int(power) else float(power)


def conversion(
    units: Sequence[str],
    targets: Sequence[str],
    quantities: Sequence[Quantity | None],
    target_quantities: Sequence[Quantity | None],
) -> Conversion | None:
    """Return the conversion from units to target units, or None if values do not change.

    An empty unit is compatible with every other unit.

    Args:
        units: Unit of each element before the conversion.
        targets: Unit of each element after the conversion.
        quantities: Physical quantity of each unit in `units`; None if unknown.
        target_quantities: Physical quantity of each unit in `targets`; None if unknown.

    Raises:
        ValueError: The dimensions differ, or the units differ and one of them is unknown.
    """
    factor, offset = np.ones(len(units)), np.zeros(len(units))
    for k, (v, w, a, b) in enumerate(
        zip(units, targets, quantities, target_quantities, strict=True)
    ):
        if not v or not w or (v == w and (a is None or b is None)):
            continue
        for unit, quantity in ((v, a), (w, b)):
            if quantity is None:
                raise ValueError(f"unknown unit '{unit}' cannot be converted to another unit")
        assert a is not None
        assert b is not None
        if a.exponents != b.exponents:
            raise ValueError(f"the units {v} and {w} have different dimensions")
        factor[k], offset[k] = a.factor / b.factor, (a.offset - b.offset) / b.factor
    return Conversion(factor, offset) if np.any(factor != 1.0) or np.any(offset) else None
