"""Which velocity variables are on one path, as C knows it."""

from collections.abc import Iterable

from rigidblocks.model.model import Model


def structure_header(model: Model, own: int, in_plane: bool = False) -> str:
    """The C text that c/algorithms/inertia.h needs before it: the variables of a model; `own` is
    the most variables of a joint whose S changes with its position, or 0; `in_plane` its vectors
    have the three elements of planar ones.
    """
    joint = [i for i, s in enumerate(model.v_slices) for _ in range(s.start, s.stop)]
    last = [model.v_slices[i].stop for i in joint]
    before = _variables_before(model)
    run = list(range(model.nv))
    for k in range(1, model.nv):
        if before[k] == k - 1:
            run[k] = run[k - 1]
    end = [k + 1 for k in range(model.nv)]
    for k in reversed(range(model.nv)):
        if before[k] >= 0:
            end[before[k]] = max(end[before[k]], end[k])
    return "\n".join(
        [
            "#ifndef RB_STRUCTURE_H\n#define RB_STRUCTURE_H\n",
            *(["#define RB_IN_PLANE 1"] if in_plane else []),
            f"enum {{ RB_N = {model.nv}, RB_OWN = {own} }};",
            _table("FIRST", (model.v_slices[i].start for i in joint)),
            _table("LAST", last),
            _table("BEFORE", before),
            _table("RUN", run),
            _table("END", end),
            "\n#endif\n",
        ]
    )


def _variables_before(model: Model) -> list[int]:
    """The variable before each on the path from the base, or -1."""
    last = last_variables(model)
    return [
        last[p] if k == s.start else k - 1
        for p, s in zip(model.parent, model.v_slices, strict=True)
        for k in range(s.start, s.stop)
    ]


def last_variables(model: Model) -> dict[int, int]:
    """The last variable on the path to each body, or -1; -1 is the base, too."""
    last = {-1: -1}
    for i, p in enumerate(model.parent):
        s = model.v_slices[i]
        last[i] = s.stop - 1 if s.stop > s.start else last[p]
    return last


def _table(name: str, numbers: Iterable[int]) -> str:
    return f"static const int RB_{name}[RB_N] = {{{', '.join(map(str, numbers))}}};"
