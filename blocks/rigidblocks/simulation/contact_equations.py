"""What a run in rigid contact asks of its model and its contacts, by NumPy or compiled."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.phase import (
    Contacts,
    Directions,
    PhaseEquation,
    Surfaces,
    directions,
    each_direction,
    phase_equation,
    surfaces,
)
from rigidblocks.contact.rigid import contact_matrix, through_inertia
from rigidblocks.dynamics.forward import aba
from rigidblocks.model.model import Model
from rigidblocks.tracing.function import CompiledFunction, compiled
from rigidblocks.tracing.trace import TraceError

FORMS = ("compiled", "numpy")


class ContactEquations(abc.ABC):
    """The contacts of a model at positions q (nq,) and velocities qd (nv,)."""

    @abc.abstractmethod
    def surfaces(self, q: Array, qd: Array) -> Surfaces:
        """Where all contacts are."""

    @abc.abstractmethod
    def equation(self, q: Array, qd: Array, tau: Array, closed: Sequence[int]) -> PhaseEquation:
        """The equation along the directions of the contacts `closed` under the joint forces tau
        (nv,).
        """

    @abc.abstractmethod
    def mobility(self, q: Array, qd: Array, closed: Sequence[int]) -> PhaseEquation:
        """The same of impulses: without d and `free`, which are zero."""


@dataclass(frozen=True, eq=False)
class NumpyEquations(ContactEquations):
    """They by the functions themselves."""

    model: Model
    contacts: Contacts

    def surfaces(self, q: Array, qd: Array) -> Surfaces:
        return surfaces(self.model, q, self.contacts(q, qd))

    def equation(self, q: Array, qd: Array, tau: Array, closed: Sequence[int]) -> PhaseEquation:
        if closed:
            return phase_equation(self.model, q, qd, tau, self.contacts(q, qd), closed)
        nothing, none = np.zeros((0, 0)), np.zeros(0)
        here, free = self.surfaces(q, qd), aba(self.model, q, qd, tau)
        HinvT = np.zeros((self.model.nv, 0))
        return PhaseEquation(here, Directions({}, {}), nothing, none, none, HinvT, free)

    def mobility(self, q: Array, qd: Array, closed: Sequence[int]) -> PhaseEquation:
        contacts = self.contacts(q, qd)
        each = each_direction([contacts[i] for i in closed])
        T = contact_matrix(self.model, q, each, friction=False)
        M, HinvT, free = through_inertia(self.model, q, T, np.zeros(self.model.nv))
        D = directions([c.has_friction for c in contacts], closed)
        here = surfaces(self.model, q, contacts)
        return PhaseEquation(here, D, M, np.zeros(len(each)), T.T @ qd, HinvT, free)


@dataclass(frozen=True, eq=False)
class CompiledEquations(ContactEquations):
    """They by one compiled function of all contacts, `directions` being those of all."""

    function: CompiledFunction
    directions: Directions

    def surfaces(self, q: Array, qd: Array) -> Surfaces:
        return self._whole(q, qd, np.zeros(len(qd))).surfaces

    def equation(self, q: Array, qd: Array, tau: Array, closed: Sequence[int]) -> PhaseEquation:
        return self._whole(q, qd, tau).along(closed)

    def mobility(self, q: Array, qd: Array, closed: Sequence[int]) -> PhaseEquation:
        found = self.equation(q, qd, np.zeros(len(qd)), closed)
        return found._replace(d=0.0 * found.d, free=0.0 * found.free)

    def _whole(self, q: Array, qd: Array, tau: Array) -> PhaseEquation:
        gap, tangents, mu, *of_equation = self.function(q, qd, tau)
        return PhaseEquation(Surfaces(gap, tangents, mu), self.directions, *of_equation)


def contact_equations(model: Model, contacts: Contacts, form: str, q: Array) -> ContactEquations:
    """Those of a form, of which the compiled one takes the contacts that there are at q as all.

    Raises ValueError for another form, TraceError where `contacts` branches on values, and
    CompilerError without a C compiler.
    """
    if form not in FORMS:
        raise ValueError(
            f"there is no form '{form}' of rigid contact; there are {', '.join(FORMS)}"
        )
    all_of = contacts(q, np.zeros(model.nv))
    if form == "numpy" or not all_of:
        return NumpyEquations(model, contacts)
    rubs = [c.has_friction for c in all_of]

    def whole(q: Array, qd: Array, tau: Array) -> dict[str, Array]:
        equation = phase_equation(model, q, qd, tau, contacts(q, qd), range(len(rubs)))
        here, _, *rest = equation
        names = ("M", "d", "w", "HinvT", "free")
        return here._asdict() | dict(zip(names, rest, strict=True))

    shapes = {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)}
    try:
        function = compiled("contacts", whole, shapes)
    except TraceError as error:
        raise TraceError(f"{error}; form='numpy' takes contacts as they are") from error
    return CompiledEquations(function, directions(rubs, range(len(rubs))))
