"""A page and what happens in it, served over HTTP to who knows a token: a stream of events as the
HTML standard has them (`text/event-stream`), the newest alone to a browser that is slow.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any

LOOPBACK = "127.0.0.1"
OFTEN, SELDOM = 0.08, 0.35  # s between two events, at least and at most
REST = 300.0  # times the work for an event, until when the program computes before the next
IDLE, STUCK = 2.0, 10.0  # s between signs of life, s that a browser may leave what it is sent


class News:
    """The newest event, for all who look for it; who sends one waits for no one, takes no lock and
    wakes nobody up.
    """

    def __init__(self) -> None:
        self.newest: tuple[int, str, Callable[[], bytes]] | None = None
        self.is_over = False
        self._count = self._seen = 0
        self._followers = set[object]()

    @property
    def is_seen(self) -> bool:
        """Whether someone has got the newest event, or there is none."""
        return self._seen == self._count

    def send(self, kind: str, text: Callable[[], bytes]) -> None:
        """Takes the place of the event before; its text is made for who gets it."""
        self._count += 1
        self.newest = (self._count, kind, text)

    def follow(self, write: Callable[[bytes], Any]) -> None:
        """Writes the newest event again and again, as soon as there is another, but rests in
        between (`Rest`), the longer the more there are who follow. Ends when all is over.
        """
        seen, heard, rest = 0, time.monotonic(), Rest()
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
                rest.take(len(self._followers))
        finally:
            self._followers.discard(rest)


class Rest:
    """The rests of a thread from its work, so long that the program computes 300 times as much
    meanwhile, whatever part of a processor it gets; but no longer than 0.35 s.
    """

    def __init__(self) -> None:
        self._clocks = _clocks()

    def take(self, many: int = 1) -> None:
        """Rests; `many` threads do."""
        before, self._clocks = self._clocks, _clocks()
        wall, program, own = (b - a for a, b in zip(before, self._clocks, strict=True))
        part = program / wall if wall > 0 else 1.0
        wanted = many * REST * own / max(part, 1e-3)
        time.sleep(min(max(wanted, OFTEN), many * SELDOM))


def _clocks() -> tuple[float, float, float]:
    """What has passed since some moment, of this thread and of all of the program [s]."""
    return time.monotonic(), time.process_time(), time.thread_time()


class Server:
    """Serves the text that `html` gives at `address`, and beside it, as `events`, what is sent.

    Raises OSError for a host or a port that cannot be had.
    """

    def __init__(self, html: Callable[[], str], events: News, host: str, port: int):
        self._token, self._events = token_urlsafe(24), events
        self._http = _Http((host, port), _Answer)
        self._http.path = f"/{self._token}/"
        self._http.html, self._http.events = html, events
        self._http.hosts = None if host not in (LOOPBACK, "localhost") else _names(self._port)
        self._host = host
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    @property
    def _port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self._host}:{self._port}/{self._token}/"

    def close(self) -> None:
        """Answers no more."""
        self._events.is_over = True
        self._http.shutdown()
        self._http.server_close()


def _names(port: int) -> set[str]:
    """What browsers call a server on this machine: another name leads here from elsewhere."""
    return {f"{LOOPBACK}:{port}", f"localhost:{port}"}


class _Http(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    path: str
    html: Callable[[], str]
    events: News
    hosts: set[str] | None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: browsers come and go."""


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
            with suppress(OSError):  # the browser has gone
                self.server.events.follow(self.wfile.write)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing of it."""

    def log_error(self, *what: Any) -> None:
        """Says nothing of it."""

    def _head(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
