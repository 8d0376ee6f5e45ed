"""Access to the files of a system in an SSP archive, in an FMU, or in a folder."""

import abc
import atexit
import lzma
import posixpath
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from rigidblocks.common.format_error import file_error
from rigidblocks.cosim.graph.fmu_file import check_archive

DESCRIPTION = "SystemStructure.ssd"


class Package(abc.ABC):
    """Files of a system, as a mapping from file names to contents (bytes).

    A file name is absolute, or relative to the folder with the description.
    """

    @abc.abstractmethod
    def __contains__(self, name: object) -> bool: ...

    @abc.abstractmethod
    def __getitem__(self, name: str) -> bytes: ...

    @abc.abstractmethod
    def path(self, name: str) -> Path:
        """Return the path of an unpacked file; unpack the file first if necessary."""


class Folder(Package):
    """Unpacked files of a system in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def __contains__(self, name: object) -> bool:
        try:
            return (self._folder / str(name)).is_file()
        except (OSError, ValueError):  # the name is too long, or contains a null character
            return False

    def __getitem__(self, name: str) -> bytes:
        return self.path(name).read_bytes()

    def path(self, name: str) -> Path:
        return self._folder / name


class Archive(Package):
    """Archive with the files of a system; a file is unpacked when its path is requested.

    The folder of the unpacked files is removed when Python exits.
    """

    def __init__(self, content: Mapping[str, bytes]):
        self._content = content
        self._outside = Folder(Path("/"))
        self._unpacked: Path | None = None

    def __contains__(self, name: object) -> bool:
        if str(name).startswith("/"):
            return name in self._outside
        return name in self._content and not str(name).endswith("/")

    def __getitem__(self, name: str) -> bytes:
        return self._outside[name] if name.startswith("/") else self._content[name]

    def path(self, name: str) -> Path:
        if name.startswith("/"):
            return Path(name)
        if self._unpacked is None:
            self._unpacked = Path(tempfile.mkdtemp(prefix="rigidblocks-ssp-"))
            atexit.register(shutil.rmtree, self._unpacked, ignore_errors=True)
        file = self._unpacked / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._content[name])
        return file


class Subfolder(Package):
    """View of a package in which file names are relative to one of its folders."""

    def __init__(self, package: Package, folder: str):
        self._package, self._folder = package, folder

    def _whole(self, name: object) -> str:
        return posixpath.normpath(posixpath.join(self._folder, str(name)))

    def __contains__(self, name: object) -> bool:
        return self._whole(name) in self._package

    def __getitem__(self, name: str) -> bytes:
        return self._package[self._whole(name)]

    def path(self, name: str) -> Path:
        return self._package.path(self._whole(name))


def read_archive(path: Path, data: bytes | None = None) -> Archive:
    """Read all files of the archive at `path`, or of an archive with the content `data`.

    If `data` is None, the function reads the file at `path`. Error messages contain `path`.

    Raises:
        FormatError: The archive is damaged or unsafe to unpack.
    """
    try:
        with zipfile.ZipFile(path if data is None else BytesIO(data)) as archive:
            check_archive(path, archive.infolist())
            return Archive({one.filename: archive.read(one) for one in archive.infolist()})
    except _DAMAGED as error:
        raise file_error(path, None, f"this is not an SSP archive: {error}") from None


_DAMAGED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    RuntimeError,  # encrypted file; NotImplementedError (a subclass): unknown compression method
    EOFError,
    ValueError,
    OSError,
)
