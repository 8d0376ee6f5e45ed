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


def sample_text(blocks: Sequence[InnerBlock], sample_time: float, simultaneous: bool) -> str:
    """The text of `update`: the steps of the inner blocks, one after the other."""
    lines: list[str] = []
    for k, block in enumerate(blocks):
        lines.append(f"/* {block.name} */")
        lines.append(f"double m{k}[RB_B{k}_SIZE];")
        lines.append(f"memcpy(m{k}, RB_B{k}_CONSTANTS, sizeof m{k});")
        lines += _copied(f"m{k}", "in", block.reads)
    wired = [list(_wired(k, block)) for k, block in enumerate(blocks)]
    if simultaneous:
        lines += [line for group in wired for line in group]
    for k, group in enumerate(wired):
        lines += [] if simultaneous else group
        time, dt = f"in[RB_T] - {c_number(sample_time)}", c_number(sample_time)
        lines.append(f"b{k}_step(m{k}, {time}, {dt}, NULL);")
    for k, block in enumerate(blocks):
        lines += _copied("out", f"m{k}", block.leaves)
    body = "\n".join(f"    {line}" for line in lines)
    constants = "\n".join(
        f"static const double RB_B{k}_CONSTANTS[] = "
        f"{{{', '.join(c_number(value) for value in block.constants)}}};"
        for k, block in enumerate(blocks)
    )
    head = "static inline void update(const double *in, double *out)"
    return f"{constants}\n{head}\n{{\n{body}\n}}\n"


def _wired(number: int, block: InnerBlock) -> Iterator[str]:
    for other, copy in block.wires:
        yield from _copied(f"m{number}", f"m{other}", [copy])


def _copied(to: str, start: str, runs: Iterable[Copy]) -> Iterator[str]:
    for run in runs:
        size = f"{run.length} * sizeof(double)"
        yield f"memcpy({to} + {run.to}, {start} + {run.start}, {size});"
