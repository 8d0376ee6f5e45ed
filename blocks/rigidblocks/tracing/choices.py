"""Laws of a traced function that become others where a margin changes its sign.

While a function is traced, each such choice is a symbol. It becomes the whole law in the graph of
the function, and one side of the law where the side is held from one event to the next.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import casadi as ca


class Choice(NamedTuple):
    """What stands for a choice in a trace, the margin, and the law: on either side, and whole."""

    symbol: ca.SX
    margin: ca.SX
    above: ca.SX
    below: ca.SX
    whole: ca.SX


_LAW = len(Choice._fields) - 1  # expressions of a choice beside its symbol
_tracing = threading.local()


@contextmanager
def choices_of_trace() -> Iterator[list[Choice]]:
    """Collects the choices that are made inside, those behind that read others."""
    before: list[Choice] | None = getattr(_tracing, "found", None)
    _tracing.found = found = list[Choice]()
    try:
        yield found
    finally:
        _tracing.found = before


def choose(choice: Choice) -> ca.SX:
    """What stands for the law of a choice: its symbol, and where nothing is being traced the whole
    law.
    """
    if not is_tracing():
        return choice.whole
    _tracing.found.append(choice)
    return choice.symbol


def is_tracing() -> bool:
    """Whether there is somebody who wants to know of choices."""
    return getattr(_tracing, "found", None) is not None


def with_whole_laws(choices: Sequence[Choice], elements: ca.SX) -> ca.SX:
    """The expressions with the whole laws in the places of their symbols."""
    return with_laws(choices, [choice.whole for choice in choices], elements)


def with_laws(choices: Sequence[Choice], laws: Sequence[ca.SX], elements: ca.SX) -> ca.SX:
    """The expressions with these laws in the places of the symbols, which they may read."""
    symbols = ca.vertcat(ca.SX(0, 1), *(choice.symbol for choice in choices))
    while ca.depends_on(elements, symbols):  # once for each law that reads another
        elements = ca.substitute(elements, symbols, ca.vertcat(*laws))
    return elements


def choosing_function(
    name: str, x: ca.SX, choices: Sequence[Choice], elements: ca.SX
) -> ca.Function:
    """The function from x and the symbols to the elements and, behind them, the laws."""
    laws = [expression for choice in choices for expression in choice[1:]]
    symbols = ca.vertcat(*(choice.symbol for choice in choices))
    return ca.Function(name, [x, symbols], [ca.cse(ca.vertcat(elements, *laws))])


def called(function: ca.Function, x: ca.SX) -> ca.SX:
    """The elements that a `choosing_function` gives in another trace, which gets its choices."""
    symbols = ca.SX.sym("choice", function.size1_in(1))
    flat = function(x, symbols)
    size = flat.numel() - _LAW * symbols.numel()
    for k in range(symbols.numel()):
        law = range(size + _LAW * k, size + _LAW * (k + 1))
        choose(Choice(symbols[k], *(flat[place] for place in law)))
    return flat[:size, 0]
