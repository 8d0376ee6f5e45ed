"""A server of FMUs: each client that has the key gets a process for one instance."""

import contextlib
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from ipaddress import ip_address
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

from rigidblocks.simulation.interrupts import end_with
from rigidblocks.simulation.service import Service
from rigidblocks.system.messages import Channel, limit
from rigidblocks.system.remote import key_in, vigilant

MOST_CLIENTS = 64  # at the same time
_PATIENCE = 5.0  # s in which a client shows that it has the key


def serve_fmus(
    folder: str | Path,
    listen: str = "127.0.0.1:5555",
    key_file: str | Path | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Runs the FMUs below a folder for other processes and machines, until it is ended:
    `system.add("robot", "tcp://host:5555/robot.fmu", key_file="key")` adds one of them.

    Each client gets a process of its own, in which its FMU cannot disturb others. Server and client
    show each other that they have the key of `key_file` (an HMAC of random numbers); what is sent
    after that is neither secret nor signed, so other networks than your own need a tunnel. `ready`
    is told the address once clients can come. Raises ValueError for an address that is none, for
    one beyond loopback without a key, and for a key that others can read or that is too short, and
    FileNotFoundError for a folder that there is not.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to serve")
    if not hasattr(os, "fork"):
        raise OSError("this platform has no server of FMUs; it takes one with fork")
    host, port = _address(listen)
    key = b"" if key_file is None else key_in(Path(key_file))
    if not key and not ip_address(host).is_loopback:
        raise ValueError(f"{listen} is beyond loopback: give --key-file, or listen at 127.0.0.1")
    with socket.create_server((host, port)) as listener:
        if ready is not None:
            ready("{}:{}".format(*listener.getsockname()))
        _accept(listener, root, key)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    try:
        ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 16:
        raise ValueError(f"a server listens at an address such as 127.0.0.1:5555, not '{listen}'")
    return host, number


def _accept(listener: socket.socket, root: Path, key: bytes) -> None:
    """Gives each client a process."""
    clients: set[int] = set()
    parent = os.getpid()
    while True:
        try:
            link, _ = listener.accept()
        except OSError:  # it was gone before it was accepted, or there are too many files
            time.sleep(0.1)
            continue
        with link, contextlib.suppress(OSError):
            clients -= {pid for pid in clients if os.waitpid(pid, os.WNOHANG)[0]}
            if len(clients) >= MOST_CLIENTS:
                continue
            if child := os.fork():
                clients.add(child)
                continue
            code = 1
            try:
                listener.close()
                _client(link, root, key, parent)
                code = 0
            finally:
                os._exit(code)


def _client(link: socket.socket, root: Path, key: bytes, parent: int) -> None:
    """Serves one client, in a process of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # an FMU may crash
    end_with(parent)
    vigilant(link)
    limit(link, _PATIENCE)
    try:
        with Connection(os.dup(link.fileno())) as connection:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
    except (AuthenticationError, EOFError, OSError):
        return
    limit(link, 0.0)
    Service(Channel(link), lambda name: _below(root, name)).run()


def _below(root: Path, name: str) -> Path:
    """The FMU file of that name below a folder; raises ValueError for any other."""
    try:
        path = (root / name).resolve()
        found = path.is_relative_to(root) and path.suffix == ".fmu" and path.is_file()
    except (OSError, ValueError):  # too long, or with a zero byte
        found = False
    if not found:
        raise ValueError(f"there is no FMU '{name}' below the folder that is served")
    return path
