"""Long C texts in units that are compiled side by side.

What is written stays one unit for everybody else: only here some of its functions, the pieces of
long ones, go to files of their own. They compute the same there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

# before a piece of a long function, which may stand in a unit of its own
APART = "#if defined(__GNUC__)\n__attribute__((noinline))\n#endif\n"
UNIT = 4000  # statements that are worth a unit
MOST = 4  # units, the main file among them, the same on every machine
_STATEMENT, _END = ";\n", "\n}\n"
_HIDDEN = '#if defined(__GNUC__)\n__attribute__((visibility("hidden")))\n#endif\n'
_TABLE = re.compile(r"\b(?:entry|reached)_[0-9a-f]{16}\(")  # which a file has for itself
# how all of a file is compiled, and so its pieces
_PUSHED, _POPPED = (
    re.compile(
        rf"^#if defined\(__clang__\)\n#pragma clang attribute {word}.*?^#endif\n", re.M | re.S
    )
    for word in ("push", "pop")
)


class _Piece(NamedTuple):
    """The head of a function, without `static`, and its body in braces."""

    head: str
    body: str

    @property
    def size(self) -> int:
        return self.body.count(_STATEMENT)

    @property
    def declared(self) -> str:
        return f"{_HIDDEN}{self.head};\n"

    @property
    def defined(self) -> str:
        return f"{self.declared}{self.head}{self.body}"


def in_units(sources: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The sources, and the names of those among them that are units beside the main file; there
    are none where there is little to compile.
    """
    total = sum(text.count(_STATEMENT) for text in sources.values())
    if total < 2 * UNIT:
        return dict(sources), ()
    parts = {name: list(_parts(text)) for name, text in sources.items()}
    pieces = [one for own in parts.values() for one in _pieces(own)]
    number = min(MOST, total // UNIT, len(pieces) + 1)
    unit_of = _shared_out(pieces, total, number)
    texts = {
        name: "".join(one if isinstance(one, str) else _left(one, unit_of) for one in own)
        for name, own in parts.items()
    }
    units = {
        f"unit_{unit}.c": "#include <math.h>\n"
        + "".join(
            _unit(sources[name], [one for one in _pieces(own) if unit_of[one] == unit])
            for name, own in parts.items()
        )
        for unit in range(1, number)
    }
    return texts | units, tuple(units)


def _parts(text: str) -> Iterator[str | _Piece]:
    """A text as what may stand in another unit, and what is between."""
    first, *others = text.split(APART)
    yield first
    for other in others:
        head, _, rest = other.partition("\n{\n")
        body, _, behind = rest.partition(_END)
        if not head.startswith("static void ") or _TABLE.search(body) or "real" in head:
            yield APART + other
            continue
        yield _Piece(head.removeprefix("static "), f"\n{{\n{body}{_END}")
        yield behind


def _pieces(parts: Iterable[str | _Piece]) -> list[_Piece]:
    return [one for one in parts if isinstance(one, _Piece)]


def _shared_out(pieces: Iterable[_Piece], total: int, number: int) -> dict[_Piece, int]:
    """The unit of each piece, so that all have about the same size; 0 is the main file, which has
    what is in no piece.
    """
    ordered = sorted(pieces, key=lambda piece: -piece.size)
    filled = [total - sum(one.size for one in ordered), *[0] * (number - 1)]
    unit_of = {}
    for one in ordered:
        unit_of[one] = unit = filled.index(min(filled))
        filled[unit] += one.size
    return unit_of


def _left(piece: _Piece, unit_of: Mapping[_Piece, int]) -> str:
    """What is left of a piece in its file: all of it, or its declaration."""
    if unit_of[piece] == 0:
        return f"{APART}static {piece.head}{piece.body}"
    return piece.declared


def _unit(text: str, pieces: Iterable[_Piece]) -> str:
    """What a unit has of one text."""
    defined = "".join(one.defined for one in pieces)
    pushed, popped = _PUSHED.search(text), _POPPED.search(text)
    if defined and pushed and popped:
        return pushed.group() + defined + popped.group()
    return defined
