"""The C of a block whose sample is the steps of other blocks: their own C, once for each."""

import re
from collections.abc import Iterable, Iterator, Sequence

from rigidblocks.block.composite import Copy, InnerBlock
from rigidblocks.tracing.ccode import c_number

_DEFINED = re.compile(
    r"^static (?:inline )?(?:const )?(?:struct )?\w+ \*?(\w+)\(|^\} (\w+);|^struct (\w+) \{",
    re.MULTILINE,
)


def of_its_own(text: str, number: int) -> str:
    """C text with a prefix before all names that it defines, so that it can be there once for each
    inner block.
    """
    names = {name for found in _DEFINED.findall(text) for name in found if name}
    text = re.sub(r'^#include ".*"\n', "", text, flags=re.MULTILINE)
    text = re.sub(r"\bRB_", f"RB_B{number}_", text)
    return re.sub(rf"\b({'|'.join(sorted(names))})\b", rf"b{number}_\1", text)


def constants_text(blocks: Sequence[InnerBlock]) -> str:
    """What the memories of the inner blocks start as."""
    return "\n".join(
        f"static const double RB_B{k}_CONSTANTS[] = "
        f"{{{', '.join(c_number(value) for value in block.constants)}}};"
        for k, block in enumerate(blocks)
    )


def start_text(blocks: Sequence[InnerBlock], order: Sequence[int]) -> str:
    """The text of `initial`: the inner blocks start in this order, each with what it reads."""
    lines = list(_memories(blocks))
    for k in order:
        lines += _wired(k, blocks[k])
        lines.append(f"b{k}_initialize(m{k}, in[RB_T]);")
    return _function("initial", [*lines, *_left(blocks)])


def sample_text(blocks: Sequence[InnerBlock], sample_time: float, simultaneous: bool) -> str:
    """The text of `update`: the steps of the inner blocks, one after the other."""
    lines = list(_memories(blocks))
    wired = [list(_wired(k, block)) for k, block in enumerate(blocks)]
    if simultaneous:
        lines += [line for group in wired for line in group]
    for k, group in enumerate(wired):
        lines += [] if simultaneous else group
        time, dt = f"in[RB_T] - {c_number(sample_time)}", c_number(sample_time)
        lines.append(f"b{k}_step(m{k}, {time}, {dt}, NULL);")
    return _function("update", [*lines, *_left(blocks)])


def _memories(blocks: Sequence[InnerBlock]) -> Iterator[str]:
    """The memories of the inner blocks, with what is known from the outer one."""
    for k, block in enumerate(blocks):
        yield f"/* {block.name} */"
        yield f"double m{k}[RB_B{k}_SIZE];"
        yield f"memcpy(m{k}, RB_B{k}_CONSTANTS, sizeof m{k});"
        yield from _copied(f"m{k}", "in", block.reads)


def _left(blocks: Sequence[InnerBlock]) -> Iterator[str]:
    for k, block in enumerate(blocks):
        yield from _copied("out", f"m{k}", block.leaves)


def _function(name: str, lines: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"static inline void {name}(const double *in, double *out)\n{{\n{body}\n}}\n"


def _wired(number: int, block: InnerBlock) -> Iterator[str]:
    for other, copy in block.wires:
        yield from _copied(f"m{number}", f"m{other}", [copy])


def _copied(to: str, start: str, runs: Iterable[Copy]) -> Iterator[str]:
    for run in runs:
        size = f"{run.length} * sizeof(double)"
        yield f"memcpy({to} + {run.to}, {start} + {run.start}, {size});"
