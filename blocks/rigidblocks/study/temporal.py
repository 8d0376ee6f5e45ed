"""Signal temporal logic, by the package rtamt."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array

_BOUNDS = re.compile(r"\[\s*([\d.eE+-]+)\s*[a-z]*\s*[:,]\s*([\d.eE+-]+)\s*([a-z]*)\s*\]")
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def robustness(formula: str, t: Array, signals: Mapping[str, Array]) -> float:
    """By how much a formula of signal temporal logic holds at the first of the times t (n,) [s],
    negative where it does not (Maler and Nickovic 2004; Donze and Maler 2010):

        always[1:10](abs(y) <= 0.3),    not (y > 1) until[0:2] (r >= 0.5),    y < 0 implies r > 0

    for `signals` (n,) by name. Bounds are in seconds from where they stand. Raises ValueError for a
    formula that is none, or that looks beyond the last time, and ImportError without rtamt.
    """
    _check_bounds(formula, float(t[-1] - t[0]))
    try:
        rtamt: Any = import_module("rtamt")
    except ImportError as error:
        raise ImportError(
            f"formulas need the package rtamt (pip install rtamt): {error}"
        ) from error
    monitor = rtamt.StlDenseTimeSpecification()
    monitor.unit = "s"
    for name in signals:
        monitor.declare_var(name, "float")
    monitor.spec = formula
    rows = [[name, np.stack([t - t[0], y], axis=1).tolist()] for name, y in signals.items()]
    with _quiet():
        try:
            monitor.parse()
            found = monitor.evaluate(*rows)
        except KeyError as error:
            known = ", ".join(signals)
            raise ValueError(f"'{error.args[0]}' in '{formula}' is none of: {known}") from None
        except Exception as error:
            said = str(error).removeprefix("RTAMT Exception: ").strip()
            raise ValueError(f"'{formula}' is no formula: {said}") from None
    return float(found[0][1]) + 0.0


def _check_bounds(formula: str, span: float) -> None:
    """Raises ValueError for bounds of time in a wrong order, or behind the end of a run."""
    for first, last, unit in _BOUNDS.findall(formula):
        try:
            low, high = float(first), float(last)
        except ValueError:
            continue  # which the parser refuses
        if low > high:
            raise ValueError(f"the bounds {first} to {last} of '{formula}' are in a wrong order")
        if high * _UNITS.get(unit, 1.0) > span + 1e-9:
            raise ValueError(
                f"'{formula}' looks {last} {unit or 's'} ahead, and the run has {span:g} s"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """What rtamt says in the log of all programs is said in errors here."""
    before = logging.root.level
    logging.root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.root.setLevel(before)
