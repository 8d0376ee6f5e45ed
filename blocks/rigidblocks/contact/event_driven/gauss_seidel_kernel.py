"""Sweeps over many contacts as C that does not grow with their number: sweeps over the traced laws
of one contact.
"""

from functools import partial

import numpy as np

from rigidblocks.contact.sweeps import contact_error, contact_forces, contact_rates, goes_on
from rigidblocks.tracing.ccode import c_function, c_text
from rigidblocks.tracing.function import CompiledFunction
from rigidblocks.tracing.trace import trace
from rigidblocks.tracing.written import WrittenFunction


def compiled_sweeps(n: int, k: int, sweeps: int = 30, cone: bool = True) -> CompiledFunction:
    """The compiled `contact.projected_sweeps` for n contacts, the first k with friction.

    It takes (M, d, mu, c, start) to lam, w and the residual: M (n + 2k, n + 2k), d and start (n +
    2k,), mu and c (k,); w = M lam + d, and the residual is that of `contact.contact_residual`. The
    time of a call depends on the values only in that a contact that stays open costs little. Raises
    ValueError where not 0 <= k <= n.
    """
    return CompiledFunction(contact_sweeps(n, k, sweeps, cone))


def contact_sweeps(n: int, k: int, sweeps: int, cone: bool) -> WrittenFunction:
    """The C text of the sweeps."""
    if not 0 <= k <= n or n < 1 or sweeps < 0:
        raise ValueError(
            f"sweeps need 0 <= k <= n contacts, at least one, not n = {n}, k = {k}, sweeps = "
            f"{sweeps}"
        )
    size = n + 2 * k
    shapes = {"M": (size, size), "d": (size,), "mu": (k,), "c": (k,), "start": (size,)}
    text = contacts_header(n, k, sweeps, cone) + c_text("algorithms/sweeps.h")
    return WrittenFunction(
        "sweeps", shapes, {"lam": (size,), "w": (size,), "residual": ()}, text, 20 * n + 6 * size
    )


def contacts_header(n: int, k: int, sweeps: int, cone: bool) -> str:
    """The C text that c/algorithms/sweeps.h needs before it: the laws of one contact."""
    factor = trace(
        "goes_on",
        lambda size, last: {"factor": np.asarray(goes_on(size, last))},
        {"size": (), "last": ()},
    )
    names = f"RB_N = {n + 2 * k}, RB_COUNT = {n}, RB_FRICTION = {k}, RB_SWEEPS = {sweeps}"
    return "\n".join(
        [
            "#ifndef RB_CONTACTS_H\n#define RB_CONTACTS_H\n",
            "#include <math.h>\n",
            f"enum {{ {names} }};",
            _laws(3, cone) + _laws(1, cone) + c_function(factor, inline=True),
            "#endif\n",
        ]
    )


def _laws(size: int, cone: bool) -> str:
    """The C functions of a contact with `size` unknowns."""
    block, vector = (size, size), (size,)
    inputs = {"A": block, "rates": vector, "w": vector, "lam": vector, "mu": (), "c": ()}

    forces, error = partial(contact_forces, cone=cone), partial(contact_error, cone=cone)
    graphs = (
        trace(f"forces{size}", lambda *values: {"out": forces(*values)}, inputs),
        trace(f"rates{size}", lambda A: {"out": contact_rates(A, cone)}, {"A": block}),
        trace(f"error{size}", lambda *values: {"out": np.asarray(error(*values))}, inputs),
    )
    return "".join(c_function(graph, inline=True) for graph in graphs)
