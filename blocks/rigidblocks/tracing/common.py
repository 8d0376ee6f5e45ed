"""What long functions have in common: statements with the same operation on the same operands.

They get the same names in all functions and stand in the same order, those of most functions
first. So a stretch of them is one text, which compilers read once.
"""

from collections.abc import Iterator, Mapping, Sequence

from rigidblocks.tracing.notation import Assignment

Owners = tuple[int, ...]


class Names:
    """The names of values in functions that share them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], Assignment] = {}

    def renamed(self, work: Sequence[Assignment], name: dict[str, str]) -> Iterator[Assignment]:
        """The statements of a function: those that another has are the same objects. What they
        rename is put into `name`.
        """
        own: set[str] = set()
        for one in work:
            targets, form, operands = one
            # numbers are no names, and so stay
            read = tuple([name.get(x, x) for x in operands if x not in targets])
            known = self._known.get((form, read))
            if known is None:
                known = self._known[form, read] = self._fresh(one, name)
            first = name[targets[0]] = known.targets[0]
            if len(targets) > 1:
                name |= zip(targets, known.targets, strict=True)
            if first not in own:  # a function may have a statement twice
                own.add(first)
                yield known

    def _fresh(self, one: Assignment, name: Mapping[str, str]) -> Assignment:
        """A statement with names that no other has."""
        number = len(self._known)
        given = {x: f"{x[0]}{number}{'_' * k}" for k, x in enumerate(one.targets)}
        operands = tuple([given.get(x) or name.get(x, x) for x in one.operands])
        return Assignment(tuple(given.values()), one.form, operands)


def shares(works: Sequence[Sequence[Assignment]]) -> dict[Owners, list[Assignment]]:
    """The statements by the functions that have them, those of most functions first: what a
    statement reads is in all functions that have it, so it stands before it.
    """
    owners: dict[int, int] = {}  # a bit for each function
    for k, work in enumerate(works):
        for one in work:
            owners[id(one)] = owners.get(id(one), 0) | 1 << k
    found: dict[int, list[Assignment]] = {}
    for k, work in enumerate(works):
        for one in work:
            own = owners[id(one)]
            if own & ((1 << k) - 1) == 0:
                found.setdefault(own, []).append(one)
    named = {tuple(k for k in range(len(works)) if own >> k & 1): found[own] for own in found}
    return dict(sorted(named.items(), key=lambda item: (-len(item[0]), item[0])))
