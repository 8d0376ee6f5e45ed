"""FMUs that a server of another machine or process runs: tcp://host:port/robot.fmu."""

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

from rigidblocks.system.fmu_file import FmuError, Intervals, description_in
from rigidblocks.system.messages import Channel, MessageError, TextError, limit

SCHEME = "tcp://"
KEY_FILE = "RIGIDBLOCKS_KEY_FILE"  # the environment's name for the file with the key
_FEWEST = 16  # bytes of a key
_REACHED = 5.0  # s in which a server is reached and has accepted the key


@dataclass(frozen=True)
class RemoteFile:
    """An FMU file below the folder of a server."""

    host: str
    port: int
    file: str
    key: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}{self.host}:{self.port}/{self.file}"

    @property
    def name(self) -> str:
        """The name of the file."""
        return PurePosixPath(self.file).name

    def channel(self) -> Channel:
        """A channel to the server, on which each side has shown the other that it has the key.

        Raises FmuError where that cannot be had.
        """
        try:
            link = socket.create_connection((self.host, self.port), _REACHED)
        except OSError as error:
            raise FmuError(f"'{self}': the server cannot be reached: {error}") from None
        link.settimeout(None)
        vigilant(link)
        limit(link, _REACHED)
        try:
            with Connection(os.dup(link.fileno())) as connection:
                answer_challenge(connection, self.key)
                deliver_challenge(connection, self.key)
        except (AuthenticationError, EOFError, OSError) as error:
            link.close()
            why = "the key differs" if isinstance(error, AuthenticationError) else _why(error)
            raise FmuError(f"'{self}': the server refuses: {why}") from None
        return Channel(link)

    def described(self) -> tuple[Any, Intervals, str]:
        """The model description, the intervals of its clocks, and the digest of the file."""
        with contextlib.closing(self.channel()) as channel:
            channel.limit(4 * _REACHED)
            try:
                channel.send("describe", text={"file": self.file})
                answer = channel.receive()
            except (EOFError, OSError, MessageError, TextError) as error:
                raise FmuError(f"'{self}': the server refuses: {_why(error)}") from None
        if answer.call == "error":
            raise FmuError(f"'{self}': the server refuses: {answer.text.get('error')}")
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as made:
            xml = str(answer.text.get("description", "")).encode("latin-1", "replace")
            made.writestr("modelDescription.xml", xml)
        description, _, intervals = description_in(archive, str(self))
        return description, intervals, str(answer.text.get("sha256"))


def remote_file(address: str, key_file: str | Path | None = None) -> RemoteFile:
    """The FMU at an address tcp://host:port/robot.fmu, with the key in a file, or in the one that
    the environment names by RIGIDBLOCKS_KEY_FILE; without either there is none.

    Raises ValueError for an address that is none.
    """
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    file = unquote(parts.path).removeprefix("/")
    if not (host and port and file) or parts.query or parts.fragment:
        raise ValueError(f"a remote FMU is tcp://host:5555/robot.fmu, not '{address}'")
    given = key_file or os.environ.get(KEY_FILE)
    return RemoteFile(host, port, file, b"" if given is None else key_in(Path(given)))


def key_in(path: Path) -> bytes:
    """The key in a file, which nobody else may read.

    Raises ValueError for a file that others can read, or with a key that is too short.
    """
    if not path.is_file():
        raise ValueError(
            f"there is no key in {path}; make one: (umask 077; openssl rand -hex 32 > {path})"
        )
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ValueError(f"others can read the key in {path}; chmod 600 {path}")
    key = path.read_bytes().strip()
    if len(key) < _FEWEST:
        raise ValueError(f"the key in {path} has {len(key)} bytes; it needs {_FEWEST} or more")
    return key


def vigilant(link: socket.socket) -> None:
    """Sends small messages at once, and finds out in some ten seconds that the other machine is
    gone.
    """
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _why(error: BaseException) -> str:
    if isinstance(error, BlockingIOError):
        return "it does not answer"
    if isinstance(error, EOFError | ConnectionError):
        return "it closed the connection"
    return str(error)
