"""Figures of runs and linear systems: tracking, phase plane, energy, contact, frequency response.

Each function returns a matplotlib figure with a title and units. If `path` is given, the function
also saves the figure. Notebooks display the figure.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.units import unit_text
from rigidblocks.cosim.results.result import Result, curves_of, finish_figure, names_of, panels
from rigidblocks.spatial.spatial import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Target = str | Path | None
LENGTH, ERROR = ".steps.length", ".steps.error"  # suffixes of the signals of inner steps


def plot_tracking(result: Result, command: str, actual: str, path: Target = None) -> "Figure":
    """Plot the command, the actual signal and the tracking error `command` - `actual`.

    Args:
        result: Result of the run.
        command: Name of the commanded signal.
        actual: Name of the signal that follows the command.
        path: Path to save the figure, if given.

    Raises:
        ValueError: The signals have different shapes or units.
        KeyError: A signal does not exist.
    """
    wanted, got = curves_of(result, command), curves_of(result, actual)
    units = [_unit(result, name) for name in (command, actual)]
    if wanted.shape != got.shape or units[0] != units[1]:
        raise ValueError(
            f"{command} has the shape {wanted.shape[1:]} and the unit {units[0]}, but {actual} "
            f"has {got.shape[1:]} and {units[1]}; both must have the same shape and unit"
        )
    figure, (above, below) = panels(2, f"{actual} follows {command}")
    above.plot(result.time, wanted, "--", lw=1.2, label=names_of(result, command))
    above.set_prop_cycle(None)  # command and actual value of an element have the same colour
    above.plot(result.time, got, label=names_of(result, actual))
    below.plot(result.time, wanted - got, label=[f"error {one}" for one in _ends(result, actual)])
    above.set_ylabel(units[0])
    below.set_ylabel(f"error [{units[0]}]")
    _mark(result, (above, below))
    return finish_figure(figure, path)


def plot_phase(result: Result, q: str, qd: str, path: Target = None) -> "Figure":
    """Plot the phase plane of a run: qd over q, with a circle at the initial point.

    Args:
        result: Result of the run.
        q: Name of the signal on the horizontal axis. Each element has one curve.
        qd: Name of the signal on the vertical axis, with an equal number of elements.
        path: Path to save the figure, if given.

    Raises:
        ValueError: The signals have different numbers of elements.
        KeyError: A signal does not exist.
    """
    x, y = curves_of(result, q), curves_of(result, qd)
    if x.shape != y.shape:
        raise ValueError(
            f"{q} has {x.shape[1]} elements, but {qd} has {y.shape[1]}; both must have the same "
            "number of elements"
        )
    figure, (axis,) = panels(1, f"{qd} over {q}", height=4.5)
    for a, b, name in zip(x.T, y.T, names_of(result, q), strict=True):
        (line,) = axis.plot(a, b, label=name)
        axis.plot(a[:1], b[:1], "o", mfc="none", color=line.get_color())
    axis.set_xlabel(f"{q} [{_unit(result, q)}]")
    axis.set_ylabel(f"{qd} [{_unit(result, qd)}]")
    return finish_figure(figure, path)


def plot_energy(
    result: Result, energy: str, works: Sequence[tuple[str, str]] = (), path: Target = None
) -> "Figure":
    """Plot the energy change of a run, the work of forces, and their difference.

    The work is exact if the forces are constant between two samples. The forces of a controller are
    constant between two samples if the run records every step.

    Args:
        result: Result of the run.
        energy: Name of the energy signal.
        works: Pairs of names: a force and the conjugate position, such as ("pd.tau", "robot.q").
        path: Path to save the figure, if given.
    """
    gained = np.ravel(result[energy]) - float(np.ravel(result[energy])[0])
    figure, (above, below) = panels(2, f"balance of {energy}")
    above.plot(result.time, gained, "k", label=f"{energy} since the start")
    rest = gained
    for force, position in works:
        done = work(result, force, position)
        above.plot(result.time, done, "--", label=f"work of {force}")
        rest = rest - done
    below.plot(result.time, rest, label="not explained")
    for axis in (above, below):
        axis.set_ylabel(_unit(result, energy))
    _mark(result, (above, below))
    return finish_figure(figure, path)


def work(result: Result, force: str, position: str) -> Array:
    """Return the work (n,) [J] of a force from the start of the run to each of the n samples.

    W[i] = sum_k<i f[k]^T (q[k+1] - q[k])

    The force f[k] is constant between the samples k and k + 1. `force` and `position` are the names
    of the signals f and q, which have the same number of elements.
    """
    f, q = curves_of(result, force), curves_of(result, position)
    return np.append(0.0, np.cumsum(np.sum(f[:-1] * np.diff(q, axis=0), axis=1)))


def plot_contact(
    result: Result, force: str, normal: ArrayLike = (0.0, 0.0, 1.0), path: Target = None
) -> "Figure":
    """Plot the normal and friction force of each contact point, and the sum of all contact forces.

    Args:
        result: Result of the run.
        force: Name of the signal with the forces at the n points, (n, 3) per sample [N].
        normal: Normal of the contact surface (3,), of any length.
        path: Path to save the figure, if given.

    Raises:
        ValueError: A sample of the signal does not have the shape (n, 3).
    """
    f, n = result[force], np.asarray(normal, dtype=float) / np.linalg.norm(normal)
    if f.ndim != 3 or f.shape[2] != 3:
        raise ValueError(
            f"each sample of a contact force must have shape (n, 3); {force} has shape "
            f"{f.shape[1:]}"
        )
    pressing = f @ n  # normal forces (rows, points)
    across = np.linalg.norm(f - pressing[..., None] * n, axis=2)
    names = [f"point {k + 1}" for k in range(f.shape[1])]
    figure, (top, middle, low) = panels(3, f"contact, {force}")
    top.plot(result.time, pressing, label=names)
    middle.plot(result.time, across)
    low.plot(result.time, f.sum(axis=1), label=["x", "y", "z"])
    for axis, what in ((top, "normal"), (middle, "friction"), (low, "sum")):
        axis.set_ylabel(f"{what} [{_unit(result, force)}]")
    _mark(result, (top, middle, low))
    return finish_figure(figure, path)


def plot_steps(result: Result, path: Target = None) -> "Figure":
    """Plot the time between the samples of a run, and the events of the run by type.

    For a result of `inner_steps`, the figure also shows the step size control of each part. It
    plots the size of the next inner step, and the error of the last inner step relative to the
    tolerance.

    Args:
        result: Result of the run.
        path: Path to save the figure, if given.
    """
    kinds = list(dict.fromkeys(event.kind for event in result.events))
    names = [port.name for port in result.ports]
    inner = [name.removesuffix(LENGTH) for name in names if name.endswith(LENGTH)]
    title = f"{len(result.time)} rows, {len(result.events)} events"
    figure, axes = panels(1 + bool(kinds) + bool(inner), title)
    steps = np.round(np.diff(result.time), 12)  # smaller differences are rounding errors
    axes[0].semilogy(result.time[1:], steps, ".", ms=3, label="from row to row")
    shown = [steps, *(np.ravel(result[name + LENGTH]) for name in inner)]
    if inner:
        _draw_inner_steps(axes, result, inner)
    known = np.concatenate([one[(one > 0) & np.isfinite(one)] for one in shown])
    if len(known):
        axes[0].set_ylim(0.5 * float(known.min()), 2.0 * float(known.max()))
    axes[0].set_ylabel("step [s]")
    _draw_events(axes[-1], result, kinds)
    return finish_figure(figure, path)


def _draw_inner_steps(axes: Sequence["Axes"], result: Result, names: Sequence[str]) -> None:
    """Plot the next inner step size [s] and the error estimate of each part over time.

    The error estimate refers to the last inner step, and is divided by the tolerance.
    """
    for name in names:
        length, error = (np.ravel(result[name + what]) for what in (LENGTH, ERROR))
        axes[0].semilogy(result.time, length, lw=0.8, label=f"next inner step of {name}")
        axes[1].plot(result.time, error, lw=0.8, label=f"error of {name}")
    axes[1].set_ylabel("error [tolerances]")


def _draw_events(axis: "Axes", result: Result, kinds: Sequence[str]) -> None:
    """Draw one row of marks for each event type, with a mark at the time of each event."""
    for k, kind in enumerate(kinds):
        times = result.times(kind)
        axis.plot(times, np.full(len(times), k), "|", ms=12, label=f"{kind}: {len(times)}")
    if kinds:
        axis.set_yticks(range(len(kinds)), kinds)
        axis.set_ylim(len(kinds) - 0.5, -0.5)


def _unit(result: Result, name: str) -> str:
    units = result.unit(name)
    return units if isinstance(units, str) else unit_text(units)


def _ends(result: Result, name: str) -> list[str]:
    return [one[len(name) :] or name for one in names_of(result, name)]


def _mark(result: Result, axes: Sequence["Axes"]) -> None:
    """Draw a thin vertical line at the time of each event on all axes."""
    for axis in axes:
        for event in result.events:
            axis.axvline(event.t, color="k", lw=0.4, alpha=0.4)
