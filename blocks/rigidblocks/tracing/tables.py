"""Tables in expression graphs: calls of functions that C has as data and a search."""

import hashlib
from dataclasses import dataclass

import casadi as ca
import numpy as np

from rigidblocks.algebra.spatial import Array

_LINE = 5  # numbers in a line of C
_ENTRY = """static double {name}(double index)
{{
    static const double table[{n}] = {{
{numbers}
    }};
    if (!(index > 0.0))
        return table[0];
    return table[index < {last}.0 ? (long)index : {last}];
}}
"""
_REACHED = """static double {name}(double x)
{{
    static const double grid[{n}] = {{
{numbers}
    }};
    long low = 0, high = {n};
    while (low < high) {{
        const long middle = low + (high - low) / 2;
        if (grid[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }}
    return (double)low;
}}
"""


@dataclass(frozen=True, eq=False)
class Table:
    """A table as a function of one number: the entry at an index, or how many of it x has
    reached.
    """

    name: str
    values: Array
    searched: bool
    function: ca.Function

    def c_text(self) -> str:
        """The C function, which may stand in a text several times."""
        texts = [repr(float(value)) for value in self.values]
        lines = (", ".join(texts[k : k + _LINE]) for k in range(0, len(texts), _LINE))
        body = (_REACHED if self.searched else _ENTRY).format(
            name=self.name,
            n=len(texts),
            last=len(texts) - 1,
            numbers=",\n".join(f"        {line}" for line in lines),
        )
        return f"#ifndef HAS_{self.name}\n#define HAS_{self.name}\n{body}#endif\n"


_TABLES: dict[str, Table] = {}


def table(values: Array, searched: bool) -> Table:
    """The table of these finite numbers, the same one for the same numbers."""
    flat = np.ascontiguousarray(values, dtype=float)
    digest = hashlib.sha256(flat.tobytes()).hexdigest()[:16]
    name = f"{'reached' if searched else 'entry'}_{digest}"
    if name not in _TABLES:
        _TABLES[name] = Table(name, flat, searched, _function(name, flat, searched))
    return _TABLES[name]


def table_named(name: str) -> Table | None:
    """The table whose function has this name; None for a derivative of one, which is zero."""
    return _TABLES.get(name)


def lookup(values: Array, x: ca.SX, searched: bool) -> ca.SX:
    """The call of a table. What decides whether x is a number makes the result depend on x, which
    CasADi does not see in a table.
    """
    return ca.if_else(x >= -np.inf, table(values, searched).function(x), 0.0)


def _function(name: str, values: Array, searched: bool) -> ca.Function:
    x = ca.MX.sym("x")
    if searched:
        padded = ca.DM([-np.inf, *values, np.inf])
        result = ca.low(ca.MX(padded), x, {"lookup_mode": "binary"})
    else:
        result = ca.MX(ca.DM(values))[ca.fmin(ca.fmax(x, 0.0), float(len(values) - 1))]
    return ca.Function(name, [x], [result], {"never_inline": True})
