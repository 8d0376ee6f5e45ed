"""Figures of runs and of linear systems: what one asks of a robot that follows a command.

Each is a figure of matplotlib (the extra `plot`), which notebooks show, with a title and units; it
is saved to `path` when given.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.result import Result, curves_of, finished_figure, names_of, panels
from rigidblocks.system.linearization import Linearization

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Target = str | Path | None
LENGTH, ERROR = ".steps.length", ".steps.error"  # of the inner steps of a part


def plot_tracking(result: Result, command: str, actual: str, path: Target = None) -> "Figure":
    """A signal over its command, and below the error, command - actual.

    Raises ValueError for two signals of different shapes or units, KeyError for one that there is
    not.
    """
    wanted, got = curves_of(result, command), curves_of(result, actual)
    units = [_unit(result, name) for name in (command, actual)]
    if wanted.shape != got.shape or units[0] != units[1]:
        raise ValueError(
            f"{command} {wanted.shape[1:]} in {units[0]} is no command of {actual} "
            f"{got.shape[1:]} in {units[1]}"
        )
    figure, (above, below) = panels(2, f"{actual} follows {command}")
    above.plot(result.time, wanted, "--", lw=1.2, label=names_of(result, command))
    above.set_prop_cycle(None)  # command and actual of a joint have one colour
    above.plot(result.time, got, label=names_of(result, actual))
    below.plot(result.time, wanted - got, label=[f"error {one}" for one in _ends(result, actual)])
    above.set_ylabel(units[0])
    below.set_ylabel(f"error [{units[0]}]")
    _mark(result, (above, below))
    return finished_figure(figure, path)


def plot_phase(result: Result, q: str, qd: str, path: Target = None) -> "Figure":
    """The phase plot of a signal and its rate, a curve for each element, from its ring on."""
    x, y = curves_of(result, q), curves_of(result, qd)
    if x.shape != y.shape:
        raise ValueError(f"{q} has {x.shape[1]} elements and {qd} has {y.shape[1]}")
    figure, (axis,) = panels(1, f"{qd} over {q}", height=4.5)
    for a, b, name in zip(x.T, y.T, names_of(result, q), strict=True):
        (line,) = axis.plot(a, b, label=name)
        axis.plot(a[:1], b[:1], "o", mfc="none", color=line.get_color())
    axis.set_xlabel(f"{q} [{_unit(result, q)}]")
    axis.set_ylabel(f"{qd} [{_unit(result, qd)}]")
    return finished_figure(figure, path)


def plot_energy(
    result: Result, energy: str, works: Sequence[tuple[str, str]] = (), path: Target = None
) -> "Figure":
    """The energy of a run since its start, the work of each pair of a force and the position that
    it acts on, such as ("pd.tau", "robot.q"), and what of the energy no work explains.

    Forces are held from row to row, as a controller's are in a run of which every step is recorded:
    then their work is exact.
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
    return finished_figure(figure, path)


def work(result: Result, force: str, position: str) -> Array:
    """The work (n,) [J] since the start of a run of a force that is held from row to row, on a
    position: the sum of f_k (q_k+1 - q_k).
    """
    f, q = curves_of(result, force), curves_of(result, position)
    return np.append(0.0, np.cumsum(np.sum(f[:-1] * np.diff(q, axis=0), axis=1)))


def plot_contact(
    result: Result, force: str, normal: ArrayLike = (0.0, 0.0, 1.0), path: Target = None
) -> "Figure":
    """The forces (n, 3) of contact: along the normal and across it, of each point, and of all
    together along the axes.
    """
    f, n = result[force], np.asarray(normal, dtype=float) / np.linalg.norm(normal)
    if f.ndim != 3 or f.shape[2] != 3:
        raise ValueError(f"forces of contact are (n, 3); {force} has the shape {f.shape[1:]}")
    pressing = f @ n  # (rows, points)
    across = np.linalg.norm(f - pressing[..., None] * n, axis=2)
    names = [f"point {k + 1}" for k in range(f.shape[1])]
    figure, (top, middle, low) = panels(3, f"contact, {force}")
    top.plot(result.time, pressing, label=names)
    middle.plot(result.time, across)
    low.plot(result.time, f.sum(axis=1), label=["x", "y", "z"])
    for axis, what in ((top, "normal"), (middle, "friction"), (low, "sum")):
        axis.set_ylabel(f"{what} [{_unit(result, force)}]")
    _mark(result, (top, middle, low))
    return finished_figure(figure, path)


def plot_frequency_response(
    linear: Linearization, u: str, y: str, frequencies: ArrayLike | None = None, path: Target = None
) -> "Figure":
    """The gain and the phase of an output to an input, by their names, over the frequency [Hz].

    Unless given, the frequencies go from a tenth of the lowest pole's to ten times the highest's,
    or half the rate of samples.
    """
    f = usual_frequencies(linear) if frequencies is None else np.asarray(frequencies, dtype=float)
    G = frequency_response(linear, u, y, f)
    figure, (above, below) = panels(2, f"{y} to {u}")
    above.loglog(f, np.abs(G))
    below.semilogx(f, np.degrees(np.unwrap(np.angle(G))))
    units = (
        dict(zip(linear.output_names, linear.output_units, strict=True)),
        dict(zip(linear.input_names, linear.input_units, strict=True)),
    )
    above.set_ylabel(f"gain [{units[0][y]} per {units[1][u]}]")
    below.set_ylabel("phase [deg]")
    below.set_xlabel("frequency [Hz]")
    return finished_figure(figure, path)


def frequency_response(linear: Linearization, u: str, y: str, frequencies: Array) -> Array:
    """G (n,), complex, of an input and an output at frequencies (n,) [Hz]: C (s 1 - A)^-1 B + D,
    with s = 2 pi i f, or z = exp(s dt) in the place of s where the system is sampled.

    Raises KeyError for a name that there is not.
    """
    for name, known in ((u, linear.input_names), (y, linear.output_names)):
        if name not in known:
            raise KeyError(f"there is no {name} in the linearization; it has: {', '.join(known)}")
    k, i = linear.input_names.index(u), linear.output_names.index(y)
    s = 2j * np.pi * np.asarray(frequencies)
    at = s if linear.dt is None else np.exp(s * linear.dt)
    one = np.eye(len(linear.A))
    states = np.linalg.solve(at[:, None, None] * one - linear.A, linear.B[:, [k]])
    return np.asarray((linear.C[i] @ states)[:, 0] + linear.D[i, k])


def usual_frequencies(linear: Linearization, n: int = 400) -> Array:
    """Frequencies (n,) [Hz] around those of the poles."""
    poles = np.linalg.eigvals(linear.A).astype(complex)
    if linear.dt is not None:
        poles = np.log(poles[np.abs(poles) > 1e-12]) / linear.dt
    sizes = np.abs(poles) / (2 * np.pi)
    sizes = sizes[sizes > 1e-6]
    low, high = (sizes.min() / 10, sizes.max() * 10) if len(sizes) else (0.01, 100.0)
    most = high if linear.dt is None else 0.5 / linear.dt
    return np.geomspace(min(low, most / 10), min(high, most), n)


def plot_steps(result: Result, path: Target = None) -> "Figure":
    """The steps between the rows of a run, and its events, if there are any: a line for each kind,
    a mark for each event. Of a result of `inner_steps` the inner steps too: the length of the next
    one of each part, and the error of the last in tolerances.
    """
    kinds = list(dict.fromkeys(event.kind for event in result.events))
    names = [port.name for port in result.ports]
    inner = [name.removesuffix(LENGTH) for name in names if name.endswith(LENGTH)]
    title = f"{len(result.time)} rows, {len(result.events)} events"
    figure, axes = panels(1 + bool(kinds) + bool(inner), title)
    steps = np.round(np.diff(result.time), 12)  # what differs by less is rounding of the time
    axes[0].semilogy(result.time[1:], steps, ".", ms=3, label="from row to row")
    shown = [steps, *(np.ravel(result[name + LENGTH]) for name in inner)]
    if inner:
        _draw_inner_steps(axes, result, inner)
    known = np.concatenate([one[(one > 0) & np.isfinite(one)] for one in shown])
    if len(known):
        axes[0].set_ylim(0.5 * float(known.min()), 2.0 * float(known.max()))
    axes[0].set_ylabel("step [s]")
    _draw_events(axes[-1], result, kinds)
    return finished_figure(figure, path)


def _draw_inner_steps(axes: Sequence["Axes"], result: Result, names: Sequence[str]) -> None:
    """The length of the next inner step of each of these parts, and the error of the last."""
    for name in names:
        length, error = (np.ravel(result[name + what]) for what in (LENGTH, ERROR))
        axes[0].semilogy(result.time, length, lw=0.8, label=f"next inner step of {name}")
        axes[1].plot(result.time, error, lw=0.8, label=f"error of {name}")
    axes[1].set_ylabel("error [tolerances]")


def _draw_events(axis: "Axes", result: Result, kinds: Sequence[str]) -> None:
    """A line for each kind of events, if there are any."""
    for k, kind in enumerate(kinds):
        times = result.times(kind)
        axis.plot(times, np.full(len(times), k), "|", ms=12, label=f"{kind}: {len(times)}")
    if kinds:
        axis.set_yticks(range(len(kinds)), kinds)
        axis.set_ylim(len(kinds) - 0.5, -0.5)


def _unit(result: Result, name: str) -> str:
    units = result.unit(name)
    return units if isinstance(units, str) else " ".join(dict.fromkeys(units))


def _ends(result: Result, name: str) -> list[str]:
    return [one[len(name) :] or name for one in names_of(result, name)]


def _mark(result: Result, axes: Sequence["Axes"]) -> None:
    """Puts a thin line at each event."""
    for axis in axes:
        for event in result.events:
            axis.axvline(event.t, color="k", lw=0.4, alpha=0.4)
