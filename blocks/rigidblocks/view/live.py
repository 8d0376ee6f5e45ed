"""A run under way, to be seen in the browser while it goes on."""

import webbrowser
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from functools import partial
from struct import pack
from typing import Any, Self

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.signal_types import TEXTUAL
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.watch import Watcher
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring
from rigidblocks.view.forces import force_places
from rigidblocks.view.page import Page
from rigidblocks.view.played import played
from rigidblocks.view.server import LOOPBACK, News, Server
from rigidblocks.view.show import in_order, page_of, running_robots

RUNNING, OVER = "row", "over"


class LiveView(Watcher):
    """A page that follows runs of a system as they go on, and plays each when it is over.

        view = LiveView(system)
        view.open()
        simulate(system, 60, 1e-3, real_time=1, view=view)

    The page is served at `address` by a thread of this process, until `close` or the end of the
    program: on this machine alone unless another `host` is given, at `port` or a free one, to who
    knows the token in the address, and nothing else is. A run leaves its newest row there, and
    goes on: a browser that is slow misses some, and one that is closed is not waited for.

    Raises ValueError for a system without a robot, or with one that a function of time moves,
    OSError for a port that is taken.
    """

    def __init__(self, system: System, host: str = LOOPBACK, port: int = 0):
        self._system, self._ports = system, system.wiring().outputs
        self._pairs = running_robots(system)
        self._followed = self._page().html
        self._news = News()
        self._run = 0
        self._result: Result | None = None
        self._server = Server(self._html, self._news, host, port)

    @property
    def address(self) -> str:
        """Where the page is, with its token."""
        return self._server.address

    def open(self) -> str:
        """Opens the page in the browser; returns its address."""
        webbrowser.open(self.address)
        return self.address

    def close(self) -> None:
        """Serves it no more."""
        self._server.close()

    def begin(self, wiring: Wiring) -> None:
        names, own = ([port.name for port in ports] for ports in (wiring.outputs, self._ports))
        if names != own:
            raise ValueError(
                "the view is of another system than the run: make it when the system is whole, "
                f"with the outputs {', '.join(names)}"
            )
        self._run, self._result = self._run + 1, None

    @property
    def is_waiting(self) -> bool:
        return self._news.is_seen

    def see(self, t: float, row: Array) -> None:
        self._news.send(RUNNING, partial(_told, self._run, t, row))

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
        """The page as it is to be now: the run that is over, or one to follow."""
        result, number = self._result, self._run
        if result is None:
            return self._followed
        try:
            return played(result, self._pairs, self._system, more={"live": {"run": number}}).html
        except (ValueError, KeyError):  # a record without the motion, or without a row
            return self._followed

    def _page(self) -> Page:
        """The page that follows a run."""
        places = _places(self._ports)
        shapes = {port.name: port.shape for port in self._ports}
        drawn = [robot for robot, _ in self._pairs]
        live = {
            "places": [k for _, ports in self._pairs for name in ports for k in places[name]],
            "forces": [force_places(robot, places, shapes) for robot in drawn],
            "signals": list(_signals(self._ports, places)),
        }
        return page_of(drawn, self._system, {"live": live})


def _told(run: int, t: float, row: Array) -> bytes:
    """The number of a run and where it is; a simulation waits for this, so it is plain."""
    numbers = pack("<d", t) + np.asarray(row, "<f8").tobytes()
    return b"%d %b" % (run, b2a_base64(numbers, newline=False))


def _places(ports: Sequence[Port]) -> dict[str, range]:
    """Where in a row behind its time the elements of each port are."""
    ends = np.cumsum([1, *(port.size for port in ports)]).tolist()
    return {port.name: range(a, b) for port, a, b in zip(ports, ends, ends[1:], strict=False)}


def _signals(ports: Sequence[Port], places: Mapping[str, range]) -> Any:
    """The signals of a row, as the scope shows them."""
    known = {port.name: port for port in ports if port.type not in TEXTUAL}
    for name in in_order(list(known)):
        port = known[name]
        ends = [one[len(name) :] or name.rpartition(".")[2] for one in port.element_names]
        unit = " ".join(dict.fromkeys(port.units))
        yield {"name": name, "unit": unit, "elements": ends, "places": list(places[name])}
