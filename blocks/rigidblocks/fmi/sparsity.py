"""The generated C header `sparsity.h` of an FMI 3.0 FMU: which element of a variable is computed
from which.
"""

from collections.abc import Callable, Iterable

from rigidblocks.fmi.variables import Variable, Variables


def sparsity_header(variables: Variables) -> str:
    """The text of sparsity.h: the dependencies in the model description, element by element, and
    who may see what when.
    """
    unknowns = sorted(
        (*variables.outputs, *variables.rates, *variables.indicators), key=lambda v: v.index
    )
    started = sorted((*variables.initial_unknowns, *variables.rates), key=lambda v: v.index)
    every = (*variables.all, *variables.rates, *variables.indicators)
    seen = ", ".join(str(int(in_intermediate_updates(v))) for v in every)
    return "\n".join(
        [
            "#ifndef RB_SPARSITY_H\n#define RB_SPARSITY_H\n",
            "/* what elements of unknowns are computed from: sorted pairs, and a last one that "
            "counts for nothing */",
            *_table("RB_IN_THE_RUN", unknowns, variables.flow),
            *_table("RB_AT_START", started, variables.at_start),
            "/* which variables may be used in intermediate updates */",
            f"static const unsigned char RB_INTERMEDIATE_UPDATE[] = {{{seen}}};\n",
            "#endif\n",
        ]
    )


def in_intermediate_updates(variable: Variable) -> bool:
    """Whether a variable may be used in an intermediate update: the inputs, and the outputs that
    change between samples.
    """
    return variable.variability == "continuous" and variable.causality in ("input", "output")


def _table(
    name: str, unknowns: Iterable[Variable], knowns: Callable[[Variable], Iterable[Variable]]
) -> Iterable[str]:
    rows = [
        f"{{{unknown.index}, {known.index}}}" for unknown in unknowns for known in knowns(unknown)
    ]
    yield f"enum {{ {name}_ROWS = {len(rows)} }};"
    yield f"static const unsigned short {name}[][2] = {{{', '.join([*rows, '{0, 0}'])}}};"
