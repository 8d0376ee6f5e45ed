"""Options of runs, their checks, and the communication points.

`simulate`, `prepare`, sweeps, fits and FMU export share the option classes of this module.
"""

import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, get_type_hints

import numpy as np

from rigidblocks.block.adaptive_methods import Method
from rigidblocks.block.stepper import check_resolution, count_tolerance
from rigidblocks.common.name_hints import argument_hint
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL
from rigidblocks.spatial.spatial import Array

CATCH_UP, SKIP, STOP = "catch-up", "skip", "stop"  # values of the option `overrun`


class IntegrationOptions(TypedDict, total=False):
    """Integration options of the blocks that `System.add` has added without a method.

    Attributes:
        method: Integration method, or its name.
        h: Longest inner step [s].
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        max_inner_steps: Maximum number of inner steps in a communication step.
    """

    method: Method | str | None
    h: float | None
    rtol: float | None
    atol: float | None
    max_inner_steps: int | None


class CouplingOptions(TypedDict, total=False):
    """Options for the exchange of signals between the parts (docs/masters.md).

    Attributes:
        order: Stepping order of the parts, "gauss-seidel" or "jacobi".
        extrapolate: Degree of the input polynomials: 0, 1 or 2.
        iterate: True takes each step of the parts in a connection loop twice. "newton" repeats the
            step until convergence.
        step_tol: Tolerance of the step size control.
        step_min: Minimum communication step [s].
        bonds: Pairs of a force output and a velocity output; True selects all pairs.
        events: Names of the outputs that are event indicators.
    """

    order: str
    extrapolate: int
    iterate: bool | str
    step_tol: float | None
    step_min: float | None
    bonds: bool | Sequence[tuple[str, str]]
    events: Sequence[str]


class PrepareOptions(IntegrationOptions, CouplingOptions, total=False):
    """Options of `prepare`.

    Attributes:
        record: Name patterns of the recorded outputs.
        every: Number of communication steps between two samples of the result.
    """

    record: Sequence[str]
    every: int


class RunOptions(PrepareOptions, total=False):
    """Options of `simulate`.

    Attributes:
        transparent: True integrates all connected continuous blocks as one block.
        save: Path of the file for the result.
        real_time: Ratio of simulated time to wall-clock time; None runs as fast as possible.
        overrun: Response to a late step, "catch-up", "skip" or "stop".
    """

    transparent: bool
    save: str | Path | None
    real_time: float | None
    overrun: str


DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "method": None,
        "h": None,
        "rtol": None,
        "atol": None,
        "max_inner_steps": None,
        "order": GAUSS_SEIDEL,
        "extrapolate": 0,
        "iterate": False,
        "step_tol": None,
        "step_min": None,
        "bonds": False,
        "events": (),
        "record": ("*",),
        "every": 1,
        "transparent": False,
        "save": None,
        "real_time": None,
        "overrun": CATCH_UP,
    }
)


def add_defaults(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    allowed: type,
    defaults: Mapping[str, Any] = DEFAULTS,
) -> dict[str, Any]:
    """Check the options of a function call, and add default values for missing options.

    Args:
        function: Called function, for the error messages.
        options: Options of the call.
        allowed: Typed dictionary of the allowed options.
        defaults: Default values of the options.

    Returns:
        One value for each allowed option.

    Raises:
        TypeError: An option is unknown, or a value of a Boolean option is not True or False.
    """
    types = get_type_hints(allowed)
    for name, value in options.items():
        if name not in types:
            known = (*inspect.signature(function).parameters, *types)
            known = tuple(one for one in known if one != "options")
            raise TypeError(
                f"{function.__name__}() has no option '{name}'; {argument_hint(name, known)}"
            )
        if types[name] is bool and not isinstance(value, bool | np.bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
    return {name: defaults[name] for name in types} | dict(options)


def check_numbers(arguments: Mapping[str, Any]) -> None:
    """Raise TypeError for a value that is not a real number; the message names the argument."""
    for option, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{option} must be a number, not {_describe(value)}")


def check_names(arguments: Mapping[str, Any]) -> None:
    """Raise TypeError for a value that is not a list of names; the message names the argument."""
    for option, value in arguments.items():
        if isinstance(value, str):
            raise TypeError(f"{option} must be a list of names; write {option}=[{value!r}]")
        if not isinstance(value, Iterable) or not all(isinstance(name, str) for name in value):
            raise TypeError(f"{option} must be a list of names, not {_describe(value)}")


def check_path(option: str, value: Any) -> None:
    """Check that an option is a path or None.

    Raises TypeError for any other type, and ValueError for an empty path.
    """
    if value is not None and not isinstance(value, str | Path):
        raise TypeError(f"{option} must be the path of a file, not {_describe(value)}")
    if value is not None and not Path(value).name:
        raise ValueError(f"{option} must be the path of a file, not '{value}'")


def _describe(value: Any) -> str:
    return "None" if value is None else f"{value!r} of type {type(value).__name__}"


@dataclass(frozen=True)
class Grid:
    """Communication points t_start + k dt, k = 0 .. n, without accumulated rounding errors."""

    t_start: float
    dt: float
    n: int

    @property
    def t_stop(self) -> float:
        """End time t_start + n dt [s].

        If rounding would make the last step shorter than dt, the end time is communication point n
        - 1 plus dt.
        """
        last = self.t_start + (self.n - 1) * self.dt
        return max(self.t_start + self.n * self.dt, last + self.dt)

    @property
    def times(self) -> Array:
        """Times [s] of all communication points (n + 1,)."""
        return self.t_start + self.dt * np.arange(self.n + 1)


def communication_points(t_start: float, t_stop: float, dt: float) -> Grid:
    """Return the communication points; raise ValueError if dt does not divide the duration."""
    if not (all(map(isfinite, (t_start, t_stop, dt))) and dt > 0 and t_stop > t_start):
        raise ValueError(
            f"a run needs finite t_stop > t_start and dt > 0, not t_start = {t_start}, t_stop = "
            f"{t_stop}, dt = {dt}"
        )
    check_resolution(max(t_start, t_stop, key=abs), dt)
    steps = (t_stop - t_start) / dt
    n = int(np.rint(steps))
    if n < 1 or abs(steps - n) > count_tolerance(max(abs(t_start), abs(t_stop)) / dt):
        fitting = (t_stop - t_start) / max(1, n)
        raise ValueError(
            f"dt = {dt} s does not divide the duration of the run, {t_stop - t_start} s; use for "
            f"example dt = {fitting:.9g} s"
        )
    return Grid(t_start, dt, n)
