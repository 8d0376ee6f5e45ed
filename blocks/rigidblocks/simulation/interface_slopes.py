"""How the values that parts exchange follow each other, as far as the parts say so themselves."""

from collections.abc import Callable, Mapping

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.instance import Instance
from rigidblocks.simulation.links import Links


class InterfaceSlopes:
    """The slopes of the outputs `columns` of a group of parts in each other (n, n): a row for each
    output, NaN where the part that gives it does not tell its directional derivatives.

    They are those of the outputs in the inputs at one moment: of what a step makes of its inputs
    they leave out what comes about through the states.
    """

    def __init__(
        self, links: Links, group: tuple[str, ...], columns: Array, parts: Mapping[str, Instance]
    ):
        self._parts, self._size = parts, len(columns)
        place = {int(k): i for i, k in enumerate(columns)}
        self._links = []
        for name in group:
            own = np.flatnonzero(links.owner == name)
            rows = [place[k] for k in own.tolist() if k in place]
            link = links.by_part[name]
            read = [i for i, k in enumerate(link.of.tolist()) if k in place]
            outputs = np.flatnonzero(np.isin(own, columns))
            inside = [place[k] for k in link.of[read].tolist()]
            self._links.append((name, rows, outputs, inside, link.to[read], link.factor[read]))

    def __call__(self, share: Callable[[str, Array], Array]) -> Array:
        """The slopes at this moment, where inputs of a part, by their places, get a `share` of a
        change of their sources.
        """
        slopes = np.zeros((self._size, self._size))
        for name, rows, outputs, inside, inputs, factor in self._links:
            if not rows or not inside:
                continue
            told, weight = self._parts[name].slopes(inputs), factor * share(name, inputs)
            for k, column in enumerate(inside):
                slopes[rows, column] += np.nan if told is None else weight[k] * told[outputs, k]
        return slopes
