"""The C of a block whose sample is the steps of other blocks: their own C, once for each."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rigidblocks.block.composite import Copy, InnerBlock
from rigidblocks.tracing.ccode import c_number

_DEFINED = re.compile(
    r"^static (?:inline )?(?:const )?(?:struct )?\w+ \*?(\w+)\(|^\} (\w+);|^struct (\w+) \{",
    re.MULTILINE,
)


class Numbers(NamedTuple):
    """How C has the memory of inner block k: the type of its numbers, its start from constants, and
    its step of dt [s] to the time in[0].
    """

    real: str
    begin: str
    step: str


ALONE = Numbers(
    "double",
    "memcpy(m{k}, RB_B{k}_CONSTANTS, sizeof m{k});",
    "b{k}_step(m{k}, in[RB_T] - {dt}, {dt}, NULL);",
)
ABREAST = Numbers(  # in lanes
    "real",
    "for (int i = 0; i < RB_B{k}_SIZE; i++)\n        m{k}[i] = lanes(RB_B{k}_CONSTANTS[i]);",
    "m{k}[0] = in[0] - lanes({dt});\n    b{k}_advance(m{k}, next{k});\n"
    "    memcpy(m{k}, next{k}, sizeof m{k});",
)


def of_its_own(text: str, number: int) -> str:
    """C text with a prefix before all names that it defines, so that it can be there once for each
    inner block.
    """
    names = {name for found in _DEFINED.findall(text) for name in found if name}
    text = re.sub(r"\b(RB|HAS)_(?!LANES\b)", rf"\1_B{number}_", without_includes(text))
    return re.sub(rf"\b({'|'.join(sorted(names))})\b", rf"b{number}_\1", text)


def without_includes(text: str) -> str:
    """C text without the lines that include files of the library, which are in it."""
    return re.sub(r'^#include ".*"\n', "", text, flags=re.MULTILINE)


def constants_text(blocks: Sequence[InnerBlock]) -> str:
    """What the memories of the inner blocks start as."""
    return "\n".join(
        f"static const double RB_B{k}_CONSTANTS[] = "
        f"{{{', '.join(c_number(value) for value in block.constants)}}};"
        for k, block in enumerate(blocks)
    )


def start_text(blocks: Sequence[InnerBlock], order: Sequence[int]) -> str:
    """The text of `initial`: the inner blocks start in this order, each with what it reads."""
    lines = list(_memories(blocks, ALONE))
    for k in order:
        lines += _wired(k, blocks[k], ALONE)
        lines.append(f"b{k}_initialize(m{k}, in[RB_T]);")
    return _function("initial", [*lines, *_left(blocks, ALONE)], ALONE)


def sample_text(
    blocks: Sequence[InnerBlock],
    sample_time: float,
    simultaneous: bool,
    name: str = "update",
    numbers: Numbers = ALONE,
) -> str:
    """The text of `update`: the steps of the inner blocks, one after the other."""
    lines = list(_memories(blocks, numbers))
    wired = [list(_wired(k, block, numbers)) for k, block in enumerate(blocks)]
    if simultaneous:
        lines += [line for group in wired for line in group]
    for k, group in enumerate(wired):
        lines += [] if simultaneous else group
        lines.append(numbers.step.format(k=k, dt=c_number(sample_time)))
    return _function(name, [*lines, *_left(blocks, numbers)], numbers)


def _memories(blocks: Sequence[InnerBlock], numbers: Numbers) -> Iterator[str]:
    """The memories of the inner blocks, with what is known from the outer one."""
    for k, block in enumerate(blocks):
        after = f", next{k}[RB_B{k}_SIZE]" if numbers is ABREAST else ""
        yield f"/* {block.name} */"
        yield f"{numbers.real} m{k}[RB_B{k}_SIZE]{after};"
        yield numbers.begin.format(k=k)
        yield from _copied(f"m{k}", "in", block.reads, numbers)


def _left(blocks: Sequence[InnerBlock], numbers: Numbers) -> Iterator[str]:
    for k, block in enumerate(blocks):
        yield from _copied("out", f"m{k}", block.leaves, numbers)


def _function(name: str, lines: Sequence[str], numbers: Numbers) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    real = numbers.real
    return f"static inline void {name}(const {real} *in, {real} *out)\n{{\n{body}\n}}\n"


def _wired(number: int, block: InnerBlock, numbers: Numbers) -> Iterator[str]:
    for other, copy in block.wires:
        yield from _copied(f"m{number}", f"m{other}", [copy], numbers)


def _copied(to: str, start: str, runs: Iterable[Copy], numbers: Numbers) -> Iterator[str]:
    for run in runs:
        size = f"{run.length} * sizeof({numbers.real})"
        yield f"memcpy({to} + {run.to}, {start} + {run.start}, {size});"
