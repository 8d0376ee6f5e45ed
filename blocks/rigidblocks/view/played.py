"""Runs that are over, as pages that play them: one, or several on one another."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.record import offer
from rigidblocks.simulation.result import Result
from rigidblocks.view.encoding import encoded
from rigidblocks.view.forces import forces_on
from rigidblocks.view.page import Page
from rigidblocks.view.show import (
    Drawable,
    Drawn,
    described_run,
    drawn_robots,
    motion_of,
    page_of,
    plotted,
    signal_of,
)
from rigidblocks.view.solids import PALETTE

THROUGH = 0.5  # how little of a shadow one sees through
MOST = 60_001  # points of time that all runs are taken at


def animate(
    result: Result | Mapping[str, Result],
    robot: Drawable,
    path: str | Path | None = None,
    signals: Sequence[str] = (),
    paths: Sequence[str] = (),
) -> Page:
    """The page of a run, which plays it above plots of its `signals`, all of them unless named,
    with the paths of frames or bodies by name.

    Several results, by names for them, are played on one another: the robot of the first in its
    colours, those of the others as shadows.

    `robot` is the system that ran, or the robot in it as `show` takes it, whose motion is then the
    one result that can be its. The page is saved to `path` when given. Raises ValueError where the
    result has no rows or not the motion of the robot, and KeyError for a signal or a frame that
    there is not.
    """
    pairs = list(drawn_robots(robot, None))
    more = {"paths": list(_known(paths, pairs))}
    if isinstance(result, Mapping):
        made = played_together(result, pairs, robot, signals, more)
    else:
        made = played(result, pairs, robot, signals, more)
    if path is not None:
        made.save(path)
    return made


def _known(paths: Sequence[str], pairs: Sequence[Drawn]) -> Sequence[str]:
    """The names of frames; raises KeyError where no robot has one."""
    names = [name for robot, _ in pairs for name in (*robot.model.body_names, *robot.frames)]
    for path in paths:
        if path not in names:
            raise KeyError(f"there is no frame '{path}'; {offer(path, dict.fromkeys(names))}")
    return paths


def played(
    result: Result,
    pairs: Sequence[Drawn],
    robot: Drawable,
    signals: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Page:
    """The page of a run of robots that are drawn already, with more for its script to read."""
    if not len(result.time):
        raise ValueError("a result without rows has nothing to show")
    drawn = [one for one, _ in pairs]
    forces = [forces_on(result, one) for one in drawn]
    run = described_run(result, motion_of(result, pairs), forces, signals)
    return page_of(drawn, robot, {"run": run, **(more or {})})


def played_together(
    results: Mapping[str, Result],
    pairs: Sequence[Drawn],
    robot: Any,
    signals: Sequence[str],
    more: Mapping[str, Any],
) -> Page:
    """The page of runs by their names, from the first beginning to the last end; one that begins
    later or ends earlier stands still meanwhile. Its plots have the signals of all.

    Raises ValueError without a run, and what `animate` raises.
    """
    if not results or not all(len(one.time) for one in results.values()):
        raise ValueError("there is nothing to show: no result, or one without rows")
    names = list(results)
    runs = _at_the_same_times(list(results.values()))
    drawn = [one for one, _ in pairs]
    q = np.concatenate([motion_of(run, pairs) for run in runs], axis=1)
    forces = [forces_on(run, one) for run in runs for one, _ in pairs]
    first = described_run(runs[0], q, forces, signals)
    wanted = [one["name"] for one in first["signals"]]
    rows = plotted(runs[0], wanted, len(runs))
    first["plotTime"] = encoded(runs[0].time[rows], "<f8")
    first["signals"] = [one | _of_all(runs, names, one["name"], rows) for one in first["signals"]]
    own = [one.described(k) for k, one in enumerate(drawn)]
    shadows = [
        _shadow(one, name, PALETTE[k % len(PALETTE)])
        for k, name in enumerate(names[1:], 3)
        for one in own
    ]
    note = f"in its colours {names[0]}; shadows: {', '.join(names[1:])}"
    data = {"robots": own + shadows, "run": first, "note": note, **more}
    return page_of(drawn, robot, data)


def _at_the_same_times(results: Sequence[Result]) -> list[Result]:
    """The results, each between its rows, at times that all of them have."""
    first, last = (f(r.time[k] for r in results) for f, k in ((min, 0), (max, -1)))
    n = int(np.clip(max(len(one.time) for one in results), 2, MOST))
    time = np.linspace(first, last, n)

    def between(values: Array, at: Array) -> Array:
        columns = [np.interp(time, at, column) for column in values.T]
        return np.column_stack(columns) if columns else np.zeros((n, 0))

    return [
        replace(one, time=time, values=between(np.asarray(one.values), one.time)) for one in results
    ]


def _of_all(
    runs: Sequence[Result], names: Sequence[str], signal: str, rows: Array
) -> dict[str, Any]:
    """The elements and columns of a signal at these rows, in all runs that have it."""
    found: dict[str, Any] = {"elements": [], "columns": []}
    for run, name in zip(runs, names, strict=True):
        try:
            one = signal_of(run, signal, rows)
        except KeyError:
            continue
        found["elements"] += [f"{element} {name}".strip() for element in one["elements"]]
        found["columns"] += one["columns"]
    return found


def _shadow(robot: dict[str, Any], name: str, colour: tuple[float, float, float]) -> dict[str, Any]:
    """The same robot in one colour that lets light through, with nothing drawn over it."""
    moving = (one for one in robot["solids"] if max(one["body"], one.get("other", -1)) >= 0)
    links = [one for one in moving if one["layer"] == "links"]
    solids = [{**one, "colour": list(colour), "opacity": THROUGH} for one in links]
    return {**robot, "name": f"{robot['name']}, {name}", "solids": solids, "sliders": []}
