"""The master whose steps know more than the outputs of their start: inputs that follow polynomials,
steps that are repeated, and steps of a length that is chosen.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from json import dumps

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.course import inputs_at, mean_inputs
from rigidblocks.simulation.coupling import returns
from rigidblocks.simulation.interface_slopes import InterfaceSlopes
from rigidblocks.simulation.links import Links
from rigidblocks.simulation.looped import equations_of
from rigidblocks.simulation.masters import Master, in_python
from rigidblocks.simulation.network import Instances
from rigidblocks.simulation.pace import Turns
from rigidblocks.simulation.past import Past, outlook
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.power_bonds import PowerBonds
from rigidblocks.simulation.recording import Hold, Recording
from rigidblocks.simulation.step_choice import Scheme, StepChoice

_STEP = -2  # the number of the moment that a step goes back to


class CoupledSimulation(Master):
    """Steps one instance for each part by a coupling, in Python; the parts' own steps are in C."""

    def __init__(self, plan: Plan, network: Instances):
        self.network, self._points = network, (plan.t_start, plan.dt)
        coupling = plan.coupling
        step = PolynomialStep(plan, network) if coupling.follows else HeldStep(plan, network)
        self._step: Scheme = step
        self._bonds = None
        if coupling.bonds:
            self._bonds = PowerBonds(plan, network)
            self._step = self._bonds.watching(self._step)
        self._choice = None
        if coupling.step_tol is not None:
            self._choice = StepChoice(plan, network, self._step)
            self._step = self._choice
        self._taken = step

    def go(self, recording: Recording, hold: Hold, pace: Turns | None) -> Iterator[int]:
        del hold  # a step in Python may be interrupted
        return in_python(self._step, self.network, self._points, recording, pace)

    def step(self, t: float, dt: float) -> None:
        self._step(t, dt)

    def report(self) -> Mapping[str, str]:
        told = [self._taken.report()]
        told += [one.report() for one in (self._choice, self._bonds) if one is not None]
        return {"coupling": dumps({key: value for one in told for key, value in one.items()})}

    def remarks(self) -> Iterator[tuple[int, str]]:
        for one in (self._taken, self._choice, self._bonds):
            if one is not None:
                yield from one.remarks()


class HeldStep(Scheme):
    """The plain step: all inputs held, in the order of the plan."""

    def __init__(self, plan: Plan, network: Instances):
        self._parts, self._simultaneous = network, plan.is_simultaneous

    def __call__(self, t: float, dt: float) -> None:
        for number in self._parts.in_turn(self._simultaneous):
            self._parts.step(number, t, dt)


class PolynomialStep(Scheme):
    """The step in which inputs follow polynomials: through the last outputs of their sources, and
    through the new ones where those are known, as in the order of Gauss and Seidel.

    With `iterate`, parts that read each other in circles take their step again, with the outputs
    that they came to before, or until these agree; the others, each behind those that it reads,
    know all of theirs. An output that changes at samples alone is held.
    """

    def __init__(self, plan: Plan, network: Instances):
        self._parts, self._coupling, self._links = network, plan.coupling, plan.links
        self._simultaneous, n = plan.is_simultaneous, len(plan.links.owner)
        self._past = Past(self._coupling.extrapolate + 1)
        self._new, self._known = np.zeros(n), np.zeros(n, dtype=bool)
        self._groups = [plan.links.in_order(group) for group in plan.links.groups]
        self._starts_well = all(
            returns(plan.wiring, name)
            for group in self._groups
            if len(plan.links.interface(group))
            for name in group
        )
        self._columns = {
            group: columns for group in self._groups if len(columns := plan.links.interface(group))
        }
        self._equations = {
            group: equations_of(plan.links, group, columns)
            for group, columns in self._columns.items()
        }
        self._slopes = {
            group: InterfaceSlopes(plan.links, group, columns, network.by_name)
            for group, columns in self._columns.items()
        }
        self._outputs = {
            name: np.flatnonzero(plan.links.owner == name) for name in plan.wiring.parts
        }
        self._repeats = 0

    def __call__(self, t: float, dt: float) -> None:
        self._past.begin(t, self._parts.row(), dt)
        self._ahead, self._known[:] = outlook(self._past, dt), False
        is_start = len(self._past.times) == 1 and self._starts_well
        if self._coupling.iterate or is_start:
            for group in self._groups:
                self._step_group(group, t, dt)
        else:
            self._sweep(self._parts.order, t, dt, self._simultaneous)
        self._past.end(t + dt, self._parts.row())

    def copy(self) -> Past:
        return self._past.copy()

    def go_back(self, kept: Past) -> None:
        self._past = kept.copy()

    def report(self) -> Mapping[str, object]:
        evaluations = sum(one.evaluations for one in self._equations.values())
        return {"repeated steps": self._repeats + evaluations}

    def remarks(self) -> Iterator[tuple[int, str]]:
        return follow_remarks(self._parts, self._links)

    def _step_group(self, group: tuple[str, ...], t: float, dt: float) -> None:
        """The step of parts that read each other in circles, or of one that does not."""
        if group not in self._equations:
            self._sweep(group, t, dt, simultaneous=False)
            return
        for name in group:
            self._parts.by_name[name].keep(_STEP)
        if self._coupling.solves:
            self._solve(group, t, dt)
            return
        simultaneous = self._simultaneous and bool(self._coupling.iterate)
        self._sweep(group, t, dt, simultaneous)
        for _ in range(1 + self._links.depth(group) * simultaneous):
            self._repeats += 1
            self._again(group, t, dt, simultaneous)

    def _solve(self, group: tuple[str, ...], t: float, dt: float) -> None:
        """The step whose new outputs are those that it was taken with."""
        columns = self._columns[group]

        def outputs(values: Array) -> Array:
            self._new[columns], self._known[columns] = values, True
            self._again(group, t, dt, simultaneous=True)
            found: Array = self._new[columns]
            return found

        guess = self._ahead.end[columns]
        scale = np.maximum(self._links.nominal[columns], np.abs(guess))
        try:
            self._equations[group].solve(outputs, guess, scale, lambda: self._told(group))
        except ArithmeticError as error:
            raise ArithmeticError(f"in the step from t = {t:g} s, {error}") from error

    def _told(self, group: tuple[str, ...]) -> Array:
        """What the parts tell of how their new outputs follow those that they read."""
        mean = float(mean_inputs(self._ahead.zero[:, None], self._ahead.dt)[0])

        def share(name: str, inputs: Array) -> Array:
            at_end = self._parts.by_name[name].follows or np.isin(inputs, self._links.looped[name])
            return np.where(at_end, 1.0, mean)

        return self._slopes[group](share)

    def _again(self, group: tuple[str, ...], t: float, dt: float, simultaneous: bool) -> None:
        """Takes the step of a group once more."""
        for name in group:
            self._parts.by_name[name].go_back(_STEP)
        self._sweep(group, t, dt, simultaneous)

    def _sweep(self, names: Sequence[str], t: float, dt: float, simultaneous: bool) -> None:
        """Steps parts, which know what those before them came to unless it is `simultaneous`."""
        for name in names:
            self._parts.guarded(name, partial(self._follow, name, t, dt))
            if not simultaneous:
                self._learn(name)
        if simultaneous:
            for name in names:
                self._learn(name)

    def _follow(self, name: str, t: float, dt: float) -> None:
        """The step of one part. One that does not follow gets the mean of its inputs, and of those
        in an algebraic loop what they come to, which the others agree with.
        """
        part, course = self._parts.by_name[name], self._course(name)
        looped = self._links.looped[name]
        if part.follows or not len(looped):
            part.follow(course, t, dt)
            return
        end, held = inputs_at(course, dt), np.zeros_like(course)
        held[0] = mean_inputs(course, dt)
        held[0, looped] = end[looped]
        part.follow(held, t, dt)
        part.inputs[:] = end

    def _learn(self, name: str) -> None:
        """The new outputs of a part are known from now on."""
        columns = self._outputs[name]
        self._new[columns], self._known[columns] = self._parts.by_name[name].outputs(), True

    def _course(self, name: str) -> Array:
        """The course of the inputs of a part in the step."""
        link, inputs = self._links.by_part[name], self._parts.by_name[name].inputs
        c = self._ahead.through(self._new, link.of, self._known[link.of])
        held = self._links.held[link.of]
        c[1:, held] = 0.0
        if name in self._links.stateless:  # whose outputs, or samples, are those of the end
            new = held & self._known[link.of]
            c[0, new] = self._new[link.of[new]]
        course = np.zeros((len(c), len(inputs)))
        course[0] = inputs
        course[:, link.to] = link.factor * c
        course[0, link.to] += link.offset
        return course


def follow_remarks(parts: Instances, links: Links) -> Iterator[tuple[int, str]]:
    """What is lost where parts do not take polynomials for their inputs."""
    for name, link in links.by_part.items():
        if not parts.by_name[name].follows and not links.held[link.of].all():
            yield (
                logging.WARNING,
                f"'{name}' takes no polynomials for its inputs: it gets their mean over each step, "
                "which is of second order, and of first where its outputs read them at once; of "
                "those in an algebraic loop it gets what they come to",
            )
