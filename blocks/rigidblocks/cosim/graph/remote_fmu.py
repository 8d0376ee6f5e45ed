"""FMUs that a server runs, at addresses such as tcp://host:port/robot.fmu."""

import contextlib
import io
import os
import socket
import stat
import zipfile
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from rigidblocks.cosim.graph.fmu_file import FmuError, Intervals, description_in
from rigidblocks.cosim.graph.ipc_messages import Channel, MessageError, TextError, limit

SCHEME = "tcp://"
KEY_FILE = "RIGIDBLOCKS_KEY_FILE"  # environment variable with the path of the key file
_MIN_KEY_BYTES = 16  # minimum length of a key [bytes]
_CONNECTION_TIMEOUT = 5.0  # [s]
_AUTHENTICATION_TIMEOUT = 30.0  # [s]; includes the start of a process on a busy server


@dataclass(frozen=True)
class RemoteFile:
    """FMU file on a server, at the path `file` relative to the served folder."""

    host: str
    port: int
    file: str
    key: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}{self.host}:{self.port}/{self.file}"

    @property
    def name(self) -> str:
        """Name of the file."""
        return PurePosixPath(self.file).name

    def channel(self) -> Channel:
        """Connect to the server, authenticate both sides with the key, and return the channel.

        Raises:
            FmuError: The server is not reachable or rejects the connection.
        """
        try:
            link = socket.create_connection((self.host, self.port), _CONNECTION_TIMEOUT)
        except OSError as error:
            raise FmuError(f"'{self}': the server cannot be reached: {error}") from None
        link.settimeout(None)
        set_socket_options(link)
        limit(link, _AUTHENTICATION_TIMEOUT)
        try:
            with Connection(os.dup(link.fileno())) as connection:
                answer_challenge(connection, self.key)
                deliver_challenge(connection, self.key)
        except (AuthenticationError, EOFError, OSError) as error:
            link.close()
            why = (
                "the key differs"
                if isinstance(error, AuthenticationError)
                else _error_reason(error)
            )
            raise FmuError(f"'{self}': the connection to the server failed: {why}") from None
        return Channel(link)

    def request_description(self) -> tuple[Any, Intervals, str]:
        """Request the model description, the clock intervals [s] and the digest from the server."""
        with contextlib.closing(self.channel()) as channel:
            channel.limit(4 * _CONNECTION_TIMEOUT)
            try:
                channel.send("describe", text={"file": self.file})
                answer = channel.receive()
            except (EOFError, OSError, MessageError, TextError) as error:
                raise FmuError(
                    f"'{self}': the connection to the server failed: {_error_reason(error)}"
                ) from None
        if answer.call == "error":
            raise FmuError(f"'{self}': the server rejected the request: {answer.text.get('error')}")
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as made:
            xml = str(answer.text.get("description", "")).encode("latin-1", "replace")
            made.writestr("modelDescription.xml", xml)
        description, _, intervals = description_in(archive, str(self))
        return description, intervals, str(answer.text.get("sha256"))


def remote_file(address: str, key_file: str | Path | None = None) -> RemoteFile:
    """Return the FMU at an address tcp://host:port/robot.fmu.

    Args:
        address: Address of the FMU.
        key_file: File with the key. The default is the file in the environment variable
            RIGIDBLOCKS_KEY_FILE. If neither is set, the key is empty.

    Raises:
        ValueError: The address is malformed, or the key file is invalid (see `read_key`).
    """
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    file = unquote(parts.path).removeprefix("/")
    if not (host and port and file) or parts.query or parts.fragment:
        raise ValueError(
            f"invalid address '{address}' of a remote FMU; expected tcp://host:5555/robot.fmu"
        )
    given = key_file or os.environ.get(KEY_FILE)
    return RemoteFile(host, port, file, b"" if given is None else read_key(Path(given)))


def read_key(path: Path) -> bytes:
    """Read the key from a file that only its owner may read.

    Raises:
        ValueError: The file is missing, other users can read the file, or the key is too short.
    """
    if not path.is_file():
        raise ValueError(
            f"key file {path} does not exist; create it: (umask 077; openssl rand -hex 32 > {path})"
        )
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ValueError(f"other users can read the key in {path}; run chmod 600 {path}")
    key = path.read_bytes().strip()
    if len(key) < _MIN_KEY_BYTES:
        raise ValueError(
            f"the key in {path} has {len(key)} bytes; at least {_MIN_KEY_BYTES} are needed"
        )
    return key


def set_socket_options(link: socket.socket) -> None:
    """Set a socket to send small messages without delay and to detect a lost peer in about 10 s."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _error_reason(error: BaseException) -> str:
    if isinstance(error, BlockingIOError):
        return "the server does not answer"
    if isinstance(error, EOFError | ConnectionError):
        return "the server closed the connection"
    return str(error)
