"""Gauss-Seidel sweeps over many contacts as compiled C code.

The C code loops over the contacts and calls the traced equations of one contact. Therefore the code
size does not depend on the number of contacts.
"""

from functools import partial

import numpy as np

from rigidblocks.block.block import MOST_IN_C
from rigidblocks.contact.event_driven.projected_gauss_seidel import (
    conjugate_factor,
    contact_error,
    contact_forces,
    contact_rates,
)
from rigidblocks.tracing.ccode import WrittenFunction, c_function, c_text
from rigidblocks.tracing.compiled_functions import CompiledFunction
from rigidblocks.tracing.trace import trace


def compiled_sweeps(n: int, k: int, sweeps: int = 30, cone: bool = True) -> CompiledFunction:
    """Return the compiled `contact.projected_sweeps` for n contacts, the first k with friction.

    The compiled function has the arguments M (n + 2k, n + 2k), d (n + 2k,), mu (k,), c (k,) and
    start (n + 2k,) of `projected_sweeps`. It returns the forces lam (n + 2k,), the velocities
    w = M lam + d, and the residual of `contact.contact_residual`. Every call executes exactly
    `sweeps` sweeps. Open contacts take less time, because a sweep skips part of their computation.
    The friction limit is Coulomb's cone if `cone` is true, otherwise the pyramid.

    Raises:
        ValueError: k is not in the range 0 <= k <= n.
    """
    return CompiledFunction(contact_sweeps(n, k, sweeps, cone))


def contact_sweeps(n: int, k: int, sweeps: int, cone: bool) -> WrittenFunction:
    """Return the C function that makes `sweeps` Gauss-Seidel sweeps over n contacts.

    The arguments are as in `compiled_sweeps`.

    Raises:
        ValueError: `n`, `k` or `sweeps` is out of range.
    """
    if not (0 <= k <= n and n >= 1 and 0 <= sweeps <= MOST_IN_C):
        raise ValueError(
            f"Gauss-Seidel sweeps need n >= 1, 0 <= k <= n and sweeps >= 0, not n = {n}, k = {k}, "
            f"sweeps = {sweeps}"
        )
    size = n + 2 * k
    shapes = {"M": (size, size), "d": (size,), "mu": (k,), "c": (k,), "start": (size,)}
    text = contacts_header(n, k, sweeps, cone) + c_text("algorithms/gauss_seidel.h")
    return WrittenFunction(
        "sweeps", shapes, {"lam": (size,), "w": (size,), "residual": ()}, text, 20 * n + 6 * size
    )


def contacts_header(n: int, k: int, sweeps: int, cone: bool) -> str:
    """Return the C header for gauss_seidel.h: array sizes, and the equations of one contact.

    The arguments are as in `compiled_sweeps`.
    """
    factor = trace(
        "goes_on",
        lambda size, last: {"factor": np.asarray(conjugate_factor(size, last))},
        {"size": (), "last": ()},
    )
    names = f"RB_N = {n + 2 * k}, RB_COUNT = {n}, RB_FRICTION = {k}, RB_SWEEPS = {sweeps}"
    return "\n".join(
        [
            "#ifndef RB_CONTACTS_H\n#define RB_CONTACTS_H\n",
            "#include <math.h>\n",
            f"enum {{ {names} }};",
            _contact_functions(3, cone)
            + _contact_functions(1, cone)
            + c_function(factor, inline=True),
            "#endif\n",
        ]
    )


def _contact_functions(size: int, cone: bool) -> str:
    """Return the C functions for the forces, relaxation factors and residual of one contact.

    `size` is 3 for a contact with friction, else 1. `cone` is as in `compiled_sweeps`.
    """
    block, vector = (size, size), (size,)
    inputs = {"A": block, "rates": vector, "w": vector, "lam": vector, "mu": (), "c": ()}

    forces, error = partial(contact_forces, cone=cone), partial(contact_error, cone=cone)
    graphs = (
        trace(f"forces{size}", lambda *values: {"out": forces(*values)}, inputs),
        trace(f"rates{size}", lambda A: {"out": contact_rates(A, cone)}, {"A": block}),
        trace(f"error{size}", lambda *values: {"out": np.asarray(error(*values))}, inputs),
    )
    return "".join(c_function(graph, inline=True) for graph in graphs)
