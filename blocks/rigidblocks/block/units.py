"""Units in FMI's spelling: products of SI symbols with exponents, `N.m.s/rad` or `m/s2`."""

import re
from collections import Counter
from math import pi

# exponents of the SI base units and of rad, and the factor to them
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


def base_units(unit: str) -> dict[str, int]:
    """The exponents of the SI base units and of rad in `unit`: `N.m/rad` is kg 1, m 2, s -2, rad
    -1.

    One `/` at most; all behind it divides. Raises ValueError for a symbol that is not known.
    """
    total: Counter[str] = Counter()
    numerator, _, denominator = unit.partition("/")
    for part, sign in ((numerator, 1), (denominator, -1)):
        for factor in filter(None, part.split(".")):
            match = re.fullmatch(r"(1|[A-Za-z]+)(-?\d+)?", factor)
            if match is None or match[1] not in _SYMBOLS:
                raise ValueError(
                    f"unit '{unit}' has the unknown symbol '{factor}'; known are: "
                    f"{', '.join(_SYMBOLS)}"
                )
            for base, exponent in _SYMBOLS[match[1]].items():
                total[base] += sign * exponent * int(match[2] or 1)
    return {base: exponent for base, exponent in total.items() if exponent}


def display_unit(unit: str) -> tuple[str, float] | None:
    """The unit that people read angles and their rates in, and how many of it make one `unit`:
    deg/s of rad/s.

    None for other units, which are read as they are.
    """
    exponents = base_units(unit)
    if unit.startswith("rad") and exponents.pop("rad", 0) == 1 and set(exponents) <= {"s"}:
        return f"deg{unit.removeprefix('rad')}", 180 / pi
    return None
