"""How the parts of a run exchange their values: the options of `simulate` for better steps."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rigidblocks.simulation.arguments import check_numbers
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.wiring import Wiring

NEWTON = "newton"


@dataclass(frozen=True)
class Coupling:
    """The options, checked for what they are; `check` holds them against a wiring.

    `extrapolate` is the degree of the polynomials that inputs follow in a step, `iterate` whether
    steps are repeated once (True) or until the parts agree ("newton"). With `step_tol` the step is
    chosen, at least `step_min` long. `bonds` are pairs of outputs, force and speed, whose power is
    watched, all those that are found by their units with True.
    """

    extrapolate: int = 0
    iterate: bool | str = False
    step_tol: float | None = None
    step_min: float | None = None
    bonds: bool | tuple[tuple[str, str], ...] = False

    def __post_init__(self) -> None:
        if isinstance(self.extrapolate, bool) or self.extrapolate not in (0, 1, 2):
            raise ValueError(f"extrapolate must be 0, 1 or 2, not {self.extrapolate!r}")
        if not isinstance(self.iterate, bool) and self.iterate != NEWTON:
            raise ValueError(f"iterate must be True, False or '{NEWTON}', not {self.iterate!r}")
        _check_positive("step_tol", self.step_tol)
        _check_positive("step_min", self.step_min)
        if self.step_min is not None and self.step_tol is None:
            raise ValueError("step_min is the shortest of steps that step_tol chooses; give that")
        if not isinstance(self.bonds, bool):
            object.__setattr__(self, "bonds", _pairs(self.bonds))

    @property
    def is_plain(self) -> bool:
        """Whether inputs are held over the steps of a fixed length, and nothing else is done."""
        return self == Coupling()

    @property
    def follows(self) -> bool:
        """Whether inputs may change within a step."""
        return bool(self.extrapolate or self.iterate)

    @property
    def solves(self) -> bool:
        """Whether algebraic loops are solved."""
        return self.iterate == NEWTON

    @property
    def order(self) -> int:
        """The order of its error in the step."""
        return self.extrapolate + (2 if self.iterate else 1)

    def check(self, wiring: Wiring, form: str, events: Any) -> None:
        """Raises ValueError for what does not go together."""
        if self.is_plain:
            return
        given = ", ".join(name for name, value in vars(self).items() if value)
        if form == "fused":
            raise ValueError(f"a fused run has no {given}; take the form compiled or numpy")
        if events:
            raise ValueError(f"events end the steps of plain runs; leave out {given} or events")
        if self.step_tol is not None:
            for name, part in wiring.parts.items():
                if isinstance(part.component, Fmu) and not part.component.takes_any_step:
                    raise ValueError(
                        f"step_tol changes the steps, and '{name}' takes steps of one length "
                        "alone (canHandleVariableCommunicationStepSize is false)"
                    )
            check_returns(wiring, wiring.parts, "step_tol")


def check_returns(wiring: Wiring, names: Iterable[str], what: str) -> None:
    """Raises ValueError for a part that cannot go back to the start of a step."""
    for name in names:
        if not returns(wiring, name):
            raise ValueError(
                f"{what} takes steps again, and '{name}' cannot go back to an earlier state "
                "(canGetAndSetFMUstate is false)"
            )


def returns(wiring: Wiring, name: str) -> bool:
    """Whether a part can go back to the start of a step."""
    component = wiring.parts[name].component
    return not isinstance(component, Fmu) or bool(component.interface.canGetAndSetFMUstate)


def _check_positive(what: str, value: Any) -> None:
    if value is None:
        return
    check_numbers({what: value})
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{what} must be finite and positive, not {value}")


def _pairs(given: Any) -> tuple[tuple[str, str], ...]:
    text = (
        f"bonds must be True or pairs of outputs, such as ('motor.tau', 'load.qd'), not {given!r}"
    )
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(text)
    pairs = tuple(tuple(pair) if isinstance(pair, tuple | list) else (pair,) for pair in given)
    if any(len(pair) != 2 or not all(isinstance(name, str) for name in pair) for pair in pairs):
        raise TypeError(text)
    return pairs


PLAIN = Coupling()
