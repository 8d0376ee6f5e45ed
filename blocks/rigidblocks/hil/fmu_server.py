"""FMU server: each authenticated client uses one FMU instance in a separate process."""

import contextlib
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from ipaddress import ip_address
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

from rigidblocks.cosim.fmu_import.remote_instance import Service
from rigidblocks.cosim.graph.ipc_messages import Channel
from rigidblocks.cosim.graph.remote_fmu import read_key, set_socket_options
from rigidblocks.cosim.signal_handling import exit_with_parent

MOST_CLIENTS = 64  # maximum number of authenticated clients at the same time
_MOST_UNAUTHENTICATED = 64  # maximum number of unauthenticated connections; the oldest is closed
_AUTHENTICATION_TIMEOUT = 5.0  # [s]
_ADMITTED, _REFUSED = b"1", b"0"  # decision of the server after the client has authenticated


def serve_fmus(
    folder: str | Path,
    listen: str = "127.0.0.1:5555",
    key_file: str | Path | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the FMUs below a folder to other processes and machines until the server is stopped.

    `system.add("robot", "tcp://host:5555/robot.fmu", key_file="key")` adds an FMU of the server to
    a system. Each client uses a separate process, so an FMU cannot affect other clients. Server and
    client authenticate each other with the key (HMAC of random numbers). The data are neither
    encrypted nor signed; use an encrypted tunnel, such as SSH, in untrusted networks.

    Args:
        folder: Folder of the FMUs.
        listen: Address and port of the server.
        key_file: File with the key.
        ready: Function that is called with the address as soon as clients can connect.

    Raises:
        ValueError: The address is invalid. The key is too short, or other users can read the key
            file. No key is given for an address other than loopback.
        FileNotFoundError: The folder does not exist.
        OSError: The platform does not support fork.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise FileNotFoundError(f"folder {folder} does not exist")
    if not hasattr(os, "fork"):
        raise OSError("the FMU server needs an operating system with fork, such as Linux")
    host, port = _address(listen)
    key = b"" if key_file is None else read_key(Path(key_file))
    if not key and not ip_address(host).is_loopback:
        raise ValueError(
            f"{listen} is not a loopback address; use --key-file, or listen at 127.0.0.1"
        )
    with socket.create_server((host, port)) as listener:
        if ready is not None:
            ready("{}:{}".format(*listener.getsockname()))
        _accept_clients(listener, root, key)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    try:
        ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 16:
        raise ValueError(f"invalid address '{listen}'; expected an address such as 127.0.0.1:5555")
    return host, number


def _accept_clients(listener: socket.socket, root: Path, key: bytes) -> None:
    """Start a process for each client; end the process if the authentication takes too long."""
    listener.setblocking(False)
    # process id and deadline by socket, oldest first
    unauthenticated: dict[socket.socket, tuple[int, float]] = {}
    clients, leaving = set[int](), set[int]()
    while True:
        now = time.monotonic()
        for control in [
            control for control, (_, deadline) in unauthenticated.items() if deadline <= now
        ]:
            _end(control, unauthenticated.pop(control)[0])
        wait = min((deadline - now for _, deadline in unauthenticated.values()), default=None)
        for ready in select.select([listener, *unauthenticated], [], [], wait)[0]:
            if ready is listener:
                if len(unauthenticated) >= _MOST_UNAUTHENTICATED:
                    control = next(iter(unauthenticated))
                    _end(control, unauthenticated.pop(control)[0])
                _accept_client(listener, unauthenticated, root, key)
                continue
            if ready not in unauthenticated:  # the process of this client has already been ended
                continue
            pid, _ = unauthenticated.pop(ready)
            for group in (clients, leaving):
                group -= {one for one in group if os.waitpid(one, os.WNOHANG)[0]}
            with ready, contextlib.suppress(OSError):
                if not ready.recv(1):  # the authentication has failed
                    leaving.add(pid)
                elif len(clients) < MOST_CLIENTS:
                    clients.add(pid)
                    ready.send(_ADMITTED)
                else:
                    leaving.add(pid)
                    ready.send(_REFUSED)


def _end(control: socket.socket, pid: int) -> None:
    """Close the control socket of an unauthenticated client, and kill its process `pid`."""
    control.close()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _accept_client(
    listener: socket.socket,
    unauthenticated: dict[socket.socket, tuple[int, float]],
    root: Path,
    key: bytes,
) -> None:
    """Accept a connection, and start the process of the client.

    The function adds the control socket of the process to `unauthenticated`, which maps control
    sockets to (process id, deadline of the authentication).
    """
    parent = os.getpid()
    try:
        link, _ = listener.accept()
        ours, theirs = socket.socketpair()
    except OSError:  # the client has disconnected, or the process has too many open files
        time.sleep(0.1)
        return
    with link, theirs:
        try:
            child = os.fork()
        except OSError:  # the operating system cannot create another process
            ours.close()
            return
        if child:
            unauthenticated[ours] = child, time.monotonic() + _AUTHENTICATION_TIMEOUT
            return
        code = 1
        try:
            for one in (listener, ours, *unauthenticated):
                one.close()
            _client(link, theirs, root, key, parent)
            code = 0
        finally:
            os._exit(code)


def _client(
    link: socket.socket, control: socket.socket, root: Path, key: bytes, parent: int
) -> None:
    """Authenticate and serve one client; this function runs in a separate process per client.

    `link` is the connection to the client. `control` is the socket to the server process, whose id
    is `parent`. The server process kills this process if the authentication takes too long.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core dump if an FMU crashes
    exit_with_parent(parent)
    set_socket_options(link)
    try:
        with Connection(os.dup(link.fileno())) as connection:
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
        with control:
            control.send(_ADMITTED)
            is_admitted = control.recv(1) == _ADMITTED
    except (AuthenticationError, EOFError, OSError):
        return
    channel = Channel(link)
    if is_admitted:
        Service(channel, lambda name: _file_below(root, name)).run()
    else:
        with contextlib.suppress(OSError):
            channel.send("error", text={"error": f"the server already has {MOST_CLIENTS} clients"})


def _file_below(root: Path, name: str) -> Path:
    """Return the path of the FMU `name` below `root`; raise ValueError for an invalid name."""
    try:
        path = (root / name).resolve()
        found = path.is_relative_to(root) and path.suffix == ".fmu" and path.is_file()
    except (OSError, ValueError):  # the name is too long or contains a zero byte
        found = False
    if not found:
        raise ValueError(f"FMU '{name}' does not exist in the served folder")
    return path
