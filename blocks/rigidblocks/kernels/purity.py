"""Whether a block's function gives the same values whenever and however it is computed.

A random number, a counter or a clock in it would be frozen in C, and run on in NumPy: every form of
the block would take another way without a word.
"""

from collections.abc import Callable, Iterable

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.port import Port

# of a traced function and of NumPy, which differ by rounding, as it grows where a block starts near
# a singularity; relative to the largest element of the port
AGREEMENT = 1e-6


class ImpureBlockError(ValueError):
    """A function of a block gave different values for the same memory."""


def check_purity(
    function: Callable[[Array], Array],
    graph: Callable[[Array], Array],
    m: Array,
    ports: Iterable[Port],
    name: str,
) -> None:
    """Raises ImpureBlockError when `function` gives other values in a second call on the memory m,
    or others than its graph.

    The values are those of `ports`, and `name` says whose they are. Where the function cannot be
    computed at m in NumPy nothing is checked.
    """
    try:
        with np.errstate(all="ignore"):
            first, second = function(m), function(m)
    except (ArithmeticError, ValueError):  # inputs without a start value are zero, quaternions too
        return
    traced, k = graph(m), 0
    for port in ports:
        part = slice(k, k := k + port.size)
        _compare(port, first[part], second[part], 0.0, f"{name}, called twice,")
        _compare(port, traced[part], second[part], AGREEMENT, f"{name}, traced and in NumPy,")


def _compare(port: Port, a: Array, b: Array, tolerance: float, what: str) -> None:
    """Raises ImpureBlockError for the first element that differs by more than the tolerance; those
    that are not finite are not compared.
    """
    a, b = a.astype(float), b.astype(float)
    with np.errstate(invalid="ignore"):
        differences = np.where(np.isfinite(a) & np.isfinite(b), a - b, 0.0)
    allowed = tolerance * float(np.max(np.abs(b[np.isfinite(b)]), initial=1.0))
    for name, value, other, difference in zip(port.element_names, a, b, differences, strict=True):
        if abs(difference) > allowed:
            raise ImpureBlockError(
                f"{what} gives {name} = {value:.17g} and {other:.17g} for the same memory: a "
                "block's functions must be pure, so keep random numbers, counters and clocks "
                "outside of it, or make them a state or an input"
            )
