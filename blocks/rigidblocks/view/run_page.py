"""Web pages of runs: playback of one run or several overlaid runs, and the live view of a run.

The live view consists of a page and the HTTP server that updates the page. The server sends
server-sent events (`text/event-stream` of the HTML standard) to clients with a valid token. A slow
browser receives only the latest event.
"""

import threading
import time
import webbrowser
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_urlsafe
from struct import pack
from typing import Any, Self

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import TEXTUAL
from rigidblocks.block.units import unit_text
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.simulate import Watcher
from rigidblocks.spatial.spatial import Array
from rigidblocks.view.drawn_robot import encode_base64, force_indices, forces_on
from rigidblocks.view.robot_page import (
    Drawable,
    Drawn,
    Page,
    drawn_robots,
    motion_of,
    page_of,
    plot_rows,
    run_json,
    running_robots,
    signal_of,
    sort_signals,
)
from rigidblocks.view.visual_geometry import PALETTE

THROUGH = 0.5  # opacity of the robots in all runs except the first run
MOST = 60_001  # maximum number of samples after several runs are resampled to common times


@explain_calls()
def animate(
    result: Result | Mapping[str, Result],
    robot: Drawable,
    path: str | Path | None = None,
    signals: Sequence[str] = (),
    paths: Sequence[str] = (),
) -> Page:
    """Return a web page that plays back a run and plots signals of the run.

    If several results are given, the page overlays the runs. The robot of the first result has its
    own colours, and the robots of the other results are translucent.

    Args:
        result: Result of a run, or several results by name.
        robot: The simulated system, or any robot that `show` accepts. The result must contain the
            motion of exactly one such robot.
        path: Path to save the page, if given.
        signals: Names of the signals to plot, by default all signals.
        paths: Names of frames or bodies whose paths are drawn.

    Raises:
        ValueError: The result has no samples, or does not contain the motion of the robot.
        KeyError: A signal or frame does not exist.
    """
    pairs = list(drawn_robots(robot, None))
    more = {"paths": list(_check_frames(paths, pairs))}
    if isinstance(result, Mapping):
        made = overlay_page(result, pairs, robot, signals, more)
    else:
        made = playback_page(result, pairs, robot, signals, more)
    if path is not None:
        made.save(path)
    return made


def _check_frames(paths: Sequence[str], pairs: Sequence[Drawn]) -> Sequence[str]:
    """Return the frame names `paths`; raise KeyError for a name that is no frame of any robot."""
    names = [name for robot, _ in pairs for name in (*robot.model.body_names, *robot.frames)]
    for path in paths:
        if path not in names:
            raise KeyError(f"unknown frame '{path}'; {suggestion(path, dict.fromkeys(names))}")
    return paths


def playback_page(
    result: Result,
    pairs: Sequence[Drawn],
    robot: Drawable,
    signals: Sequence[str] = (),
    page_data: Mapping[str, Any] | None = None,
) -> Page:
    """Return a page that plays back one run.

    `pairs` contains each robot with the names of the ports that contain q. `page_data` contains
    additional data for the page script.
    """
    if not len(result.time):
        raise ValueError("the result has no samples to show")
    drawn = [one for one, _ in pairs]
    forces = [forces_on(result, one) for one in drawn]
    run = run_json(result, motion_of(result, pairs), forces, signals)
    return page_of(drawn, robot, {"run": run, **(page_data or {})})


def overlay_page(
    results: Mapping[str, Result],
    pairs: Sequence[Drawn],
    robot: Any,
    signals: Sequence[str],
    page_data: Mapping[str, Any],
) -> Page:
    """Return a page that plays back several runs, from the earliest start to the latest end.

    Each robot moves only during its run. The plots show the signals of all runs.

    Raises:
        ValueError: `results` is empty, a result has no samples, or a result does not contain the
            motion of the robot.
    """
    if not results or not all(len(one.time) for one in results.values()):
        raise ValueError("nothing to show: the result is missing or has no samples")
    names = list(results)
    runs = _resample_results(list(results.values()))
    drawn = [one for one, _ in pairs]
    q = np.concatenate([motion_of(run, pairs) for run in runs], axis=1)
    forces = [forces_on(run, one) for run in runs for one, _ in pairs]
    first = run_json(runs[0], q, forces, signals)
    wanted = [one["name"] for one in first["signals"]]
    rows = plot_rows(runs[0], wanted, len(runs))
    first["plotTime"] = encode_base64(runs[0].time[rows], "<f8")
    first["signals"] = [
        one | _merge_signals(runs, names, one["name"], rows) for one in first["signals"]
    ]
    own = [one.page_data(k) for k, one in enumerate(drawn)]
    shadows = [
        _translucent_copy(one, name, PALETTE[k % len(PALETTE)])
        for k, name in enumerate(names[1:], 3)
        for one in own
    ]
    note = f"in the colours of the robot: {names[0]}; translucent: {', '.join(names[1:])}"
    data = {"robots": own + shadows, "run": first, "note": note, **page_data}
    return page_of(drawn, robot, data)


def _resample_results(results: Sequence[Result]) -> list[Result]:
    """Return results whose signals are interpolated at common times."""
    first, last = (f(r.time[k] for r in results) for f, k in ((min, 0), (max, -1)))
    n = int(np.clip(max(len(one.time) for one in results), 2, MOST))
    time = np.linspace(first, last, n)

    def interpolate(values: Array, at: Array) -> Array:
        columns = [np.interp(time, at, column) for column in values.T]
        return np.column_stack(columns) if columns else np.zeros((n, 0))

    return [
        replace(one, time=time, values=interpolate(np.asarray(one.values), one.time))
        for one in results
    ]


def _merge_signals(
    runs: Sequence[Result], names: Sequence[str], signal: str, rows: Array
) -> dict[str, Any]:
    """Return the page data of a signal at the samples `rows`, for all runs with the signal."""
    found: dict[str, Any] = {"elements": [], "columns": []}
    for run, name in zip(runs, names, strict=True):
        try:
            one = signal_of(run, signal, rows)
        except KeyError:
            continue
        found["elements"] += [f"{element} {name}".strip() for element in one["elements"]]
        found["columns"] += one["columns"]
    return found


def _translucent_copy(
    robot: dict[str, Any], name: str, colour: tuple[float, float, float]
) -> dict[str, Any]:
    """Return the page data of a robot with its moving links in one translucent colour."""
    moving = (one for one in robot["solids"] if max(one["body"], one.get("other", -1)) >= 0)
    links = [one for one in moving if one["layer"] == "links"]
    solids = [{**one, "colour": list(colour), "opacity": THROUGH} for one in links]
    return {**robot, "name": f"{robot['name']}, {name}", "solids": solids, "sliders": []}


LOOPBACK = "127.0.0.1"
# values found by trial
OFTEN, SELDOM = 0.08, 0.35  # shortest and longest interval between two events [s]
REST = 300.0  # ratio of the program's CPU time to the CPU time for events
IDLE, STUCK = 2.0, 10.0  # interval of keep-alive messages, and timeout of browser connections [s]


class LatestEvent:
    """Latest event of a live view, shared by a sender and several reading threads.

    The sender never waits for the readers.
    """

    def __init__(self) -> None:
        self.newest: tuple[int, str, Callable[[], bytes]] | None = None
        self.is_over = False
        self._count = self._seen = 0
        self._followers = set[object]()

    @property
    def is_seen(self) -> bool:
        """True if a reader has received the latest event, or if no event exists."""
        return self._seen == self._count

    def send(self, kind: str, text: Callable[[], bytes]) -> None:
        """Replace the latest event; `kind` is the new type, and `text` returns the new content."""
        self._count += 1
        self.newest = (self._count, kind, text)

    def follow(self, write: Callable[[bytes], Any]) -> None:
        """Pass each new event to `write` until `is_over` is true.

        The method pauses between two events (`CpuThrottle`); more readers cause longer pauses.
        """
        seen, heard, rest = 0, time.monotonic(), CpuThrottle()
        self._followers.add(rest)
        try:
            while not self.is_over:
                event = self.newest
                if event is not None and event[0] != seen:
                    self._seen, kind, text = event
                    seen, heard = self._seen, time.monotonic()
                    write(b"event: %b\ndata: %b\n\n" % (kind.encode(), text()))
                elif time.monotonic() - heard > IDLE:
                    write(b": still here\n\n")
                    heard = time.monotonic()
                rest.pause(len(self._followers))
        finally:
            self._followers.discard(rest)


class CpuThrottle:
    """Limiter of the CPU time of sending threads to about 1/300 of the CPU time of the program.

    A pause takes at most 0.35 s per sending thread.
    """

    def __init__(self) -> None:
        self._clocks = _clocks()

    def pause(self, threads: int = 1) -> None:
        """Pause the calling thread.

        Args:
            threads: Number of sending threads. The pause is proportional to this number, so that
                all threads together use about 1/300 of the CPU time.
        """
        before, self._clocks = self._clocks, _clocks()
        wall, program, own = (b - a for a, b in zip(before, self._clocks, strict=True))
        part = program / wall if wall > 0 else 1.0
        wanted = threads * REST * own / max(part, 1e-3)
        time.sleep(min(max(wanted, OFTEN), threads * SELDOM))


def _clocks() -> tuple[float, float, float]:
    """Return the wall time, the CPU time of the process and the CPU time of this thread [s]."""
    return time.monotonic(), time.process_time(), time.thread_time()


class Server:
    """HTTP server of a live view, which serves the page `html` and the events `events`.

    Raises:
        OSError: The host or port is not available.
    """

    def __init__(self, html: Callable[[], str], events: LatestEvent, host: str, port: int):
        self._token, self._events = token_urlsafe(24), events
        self._http = _Http((host, port), _Answer)
        self._http.path = f"/{self._token}/"
        self._http.html, self._http.events = html, events
        self._http.hosts = (
            None if host not in (LOOPBACK, "localhost") else _accepted_hosts(self._port)
        )
        self._host = host
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def _port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def address(self) -> str:
        """URL of the page."""
        return f"http://{self._host}:{self._port}/{self._token}/"

    def close(self) -> None:
        """Stop the server."""
        self._events.is_over = True
        self._http.shutdown()
        self._http.server_close()


def _accepted_hosts(port: int) -> set[str]:
    """Return the accepted values of the HTTP header Host, to reject requests of other websites."""
    return {f"{LOOPBACK}:{port}", f"localhost:{port}"}


class _Http(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    path: str
    html: Callable[[], str]
    events: LatestEvent
    hosts: set[str] | None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connection errors, because browsers close connections at any time."""


class _Answer(BaseHTTPRequestHandler):
    server: _Http
    timeout = STUCK

    def do_GET(self) -> None:
        begin = self.server.path.encode()
        page, name = self.path[: len(begin)], self.path[len(begin) :]
        known = self.server.hosts is None or self.headers.get("Host") in self.server.hosts
        if not (known and compare_digest(page.encode("latin-1", "replace"), begin)):
            self.send_error(HTTPStatus.NOT_FOUND)
        elif not name:
            self._head("text/html; charset=utf-8")
            self.wfile.write(self.server.html().encode())
        elif name == "events":
            self._head("text/event-stream")
            with suppress(OSError):  # the browser has closed the connection
                self.server.events.follow(self.wfile.write)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Suppress the request log of the HTTP server."""

    def log_error(self, *args: Any) -> None:
        """Suppress the error log of the HTTP server."""

    def _head(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()


RUNNING, OVER = "row", "over"


class LiveView(Watcher):
    """Web page that shows the running simulation of a system, and plays back finished runs.

        view = LiveView(system)
        view.open()
        simulate(system, 60, 1e-3, real_time=1, view=view)

    A thread of this process serves the page at `address` until `close` or the end of the program.
    The server listens only on this machine unless `host` is another address. It uses `port`, or a
    free port by default. Clients need the token in the address, and can read only the page and the
    events. The run never waits for a browser. A slow browser misses samples, and a closed browser
    does not delay the run.

    Raises:
        ValueError: The system has no robot, or a model depends on time.
        OSError: The port is in use.
    """

    def __init__(self, system: System, host: str = LOOPBACK, port: int = 0):
        self._system, self._ports = system, system.wiring().outputs
        self._pairs = running_robots(system)
        self._followed = self._page().html
        self._news = LatestEvent()
        self._run = 0
        self._result: Result | None = None
        self._server = Server(self._html, self._news, host, port)

    @property
    def address(self) -> str:
        """URL of the page, including the token."""
        return self._server.address

    def open(self) -> str:
        """Open the page in the browser, and return its address."""
        webbrowser.open(self.address)
        return self.address

    def close(self) -> None:
        """Stop the server."""
        self._server.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(port.name for port in self._ports)

    def begin(self) -> None:
        self._run, self._result = self._run + 1, None

    @property
    def is_waiting(self) -> bool:
        return self._news.is_seen

    def see(self, t: float, row: Array) -> None:
        self._news.send(RUNNING, partial(_row_text, self._run, t, row))

    def end(self, result: Result) -> None:
        self._result = result
        self._news.send(OVER, f"{self._run} ".encode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LiveView at {self.address}>"

    def _html(self) -> str:
        """Return the HTML of the live page, or of the playback page if the run has ended."""
        result, number = self._result, self._run
        if result is None:
            return self._followed
        try:
            return playback_page(
                result, self._pairs, self._system, page_data={"live": {"run": number}}
            ).html
        except (ValueError, KeyError):  # the result has no samples, or no motion of the robot
            return self._followed

    def _page(self) -> Page:
        """Return the live page, which shows a run in progress."""
        places = _places(self._ports)
        shapes = {port.name: port.shape for port in self._ports}
        drawn = [robot for robot, _ in self._pairs]
        live = {
            "places": [k for _, ports in self._pairs for name in ports for k in places[name]],
            "forces": [force_indices(robot, places, shapes) for robot in drawn],
            "signals": list(_signals(self._ports, places)),
        }
        return page_of(drawn, self._system, {"live": live})


def _row_text(run: int, t: float, row: Array) -> bytes:
    """Return the event text of a sample `row` at the time `t` [s] of the run number `run`.

    The function must be fast, because it holds the GIL and blocks the simulation.
    """
    numbers = pack("<d", t) + np.asarray(row, "<f8").tobytes()
    return b"%d %b" % (run, b2a_base64(numbers, newline=False))


def _places(ports: Sequence[Port]) -> dict[str, range]:
    """Return the index range of each port in a sample, by port name.

    Element 0 of the sample is the time.
    """
    ends = np.cumsum([1, *(port.size for port in ports)]).tolist()
    return {port.name: range(a, b) for port, a, b in zip(ports, ends, ends[1:], strict=False)}


def _signals(ports: Sequence[Port], places: Mapping[str, range]) -> Any:
    """Yield the names, units and index ranges of the signals that the page plots."""
    known = {port.name: port for port in ports if port.type not in TEXTUAL}
    for name in sort_signals(list(known)):
        port = known[name]
        ends = [one[len(name) :] or name.rpartition(".")[2] for one in port.element_names]
        unit = unit_text(port.units)
        yield {"name": name, "unit": unit, "elements": ends, "places": list(places[name])}
