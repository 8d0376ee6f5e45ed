"""Instances whose outputs at the start may have algebraic loops."""

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.interface_equations import InterfaceEquations
from rigidblocks.simulation.interface_slopes import InterfaceSlopes
from rigidblocks.simulation.links import Links
from rigidblocks.simulation.network import Instances
from rigidblocks.simulation.plan import Plan


class LoopedInstances(Instances):
    """Instances for each part of a plan, whose outputs at the start are those with which all agree,
    also where parts read each other's at once.
    """

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self._links = plan.links

    def _initialize(self, t: float) -> None:
        for group in self._links.groups:
            for name in group:  # once for what does not wait for others
                self._initialize_part(name, t)
            columns = self._links.interface(group)
            if len(columns):
                self._solve(group, columns, t)

    def _initialize_part(self, name: str, t: float) -> None:
        self.read_inputs(name)
        self.guarded(name, lambda: self.by_name[name].initialize(t))

    def _solve(self, group: tuple[str, ...], columns: Array, t: float) -> None:
        def outputs(values: Array) -> Array:
            given = self.row()
            given[columns] = values
            for name in group:
                self._put_inputs(name, given)
                self.guarded(name, lambda name=name: self.by_name[name].initialize(t))  # type: ignore[misc]
            return self.row()[columns]

        guess = self.row()[columns]
        scale = np.maximum(self._links.nominal[columns], np.abs(guess))
        slopes = InterfaceSlopes(self._links, group, columns, self.by_name)
        equations_of(self._links, group, columns).solve(
            outputs, guess, scale, lambda: slopes(lambda _, inputs: np.ones(len(inputs)))
        )

    def _put_inputs(self, name: str, row: Array) -> None:
        link = self._links.by_part[name]
        self.by_name[name].inputs[link.to] = link.factor * row[link.of] + link.offset


def equations_of(links: Links, group: tuple[str, ...], columns: Array) -> InterfaceEquations:
    """The equations of the values that the parts of a group exchange."""
    readers = [links.readers(k) & set(group) for k in columns]
    return InterfaceEquations(list(links.owner[columns]), readers, " and ".join(map(repr, group)))
