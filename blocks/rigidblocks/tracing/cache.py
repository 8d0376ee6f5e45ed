"""The cache of compiled libraries: folders that only their owner writes, in which each library is
checked before it is loaded.

A library is in one file `<key>-<digest>.so`: the key says what it was made of, the digest what is
in it. It gets this name when it is complete, so processes may work on one folder at the same time.
"""

import hashlib
import logging
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path

_DIGITS = 32  # of a key and of a digest
_SUFFIX, _UNFINISHED = ".so", ".part"
_TEXT = ".txt"  # what was found out about something, by the key of that
OLD = 3600.0  # seconds after which an unfinished file was left by a process that was killed

logger = logging.getLogger("rigidblocks")


class CacheError(RuntimeError):
    """No folder can keep compiled libraries."""


def digest(content: bytes) -> str:
    """The digits by which contents are told apart."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def cache_folder() -> Path:
    """Where compiled libraries are kept: $RIGIDBLOCKS_CACHE, else the user's cache folder."""
    return Path(os.environ.get("RIGIDBLOCKS_CACHE") or user_cache_path("rigidblocks"))


def spare_folder() -> Path:
    """The user's own folder among the temporary files, where the cache folder cannot be used."""
    return Path(tempfile.gettempdir()) / f"rigidblocks-{_user()}"


def cached_library(key: str, build: Callable[[], bytes]) -> Path:
    """The path of the library `key`: the cached one when it is as it was made, else one that is
    made by `build`.

    Warns once when the cache folder cannot be used and the spare folder is. Raises CacheError when
    neither can.
    """
    folders = (cache_folder(), spare_folder())
    reasons = {folder: reason for folder in folders if (reason := refusal(folder))}
    for folder in folders:
        if folder not in reasons and (path := _find(folder, key)):
            _warn_of(reasons, folder)
            return path
    content = build()
    for folder in folders:
        if folder not in reasons:
            try:
                path = _store(folder, key, content)
            except OSError as error:
                reasons[folder] = error.strerror or str(error)
            else:
                _warn_of(reasons, folder)
                return path
    told = "; ".join(f"{folder}: {reason}" for folder, reason in reasons.items())
    raise CacheError(
        f"no folder can keep compiled libraries ({told}); set RIGIDBLOCKS_CACHE to one that can"
    )


def known_text(key: str) -> str | None:
    """A text that was kept under a key; None where there is none."""
    for folder in (cache_folder(), spare_folder()):
        if not refusal(folder) and (path := _find(folder, key, _TEXT)):
            return path.read_text()
    return None


def keep_text(key: str, text: str) -> None:
    """Keeps a text under a key, where a folder can keep it."""
    for folder in (cache_folder(), spare_folder()):
        if not refusal(folder):
            with suppress(OSError):
                _store(folder, key, text.encode(), _TEXT)
                return


def known_library(key: str) -> Path | None:
    """The library under a key, as it was made; None where there is none."""
    for folder in (cache_folder(), spare_folder()):
        if not refusal(folder) and (path := _find(folder, key)):
            return path
    return None


def key_of(library: Path) -> str:
    """The key of a library in the cache."""
    return library.stem.partition("-")[0]


def refusal(folder: Path) -> str | None:
    """Why libraries in this folder are not loaded, None when they are or when it does not exist."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    runs_no_code = hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC
    return _distrust(found) or ("runs no code (mounted noexec)" if runs_no_code else None)


class Entry(NamedTuple):
    """A library in the cache, and why it is not loaded."""

    path: Path
    size: int
    damage: str | None


def entries(folder: Path) -> Iterator[Entry]:
    """All libraries in a folder, also those that are damaged. Those of earlier versions, which had
    no digest, are not among them; `clear` removes them too.
    """
    for path in sorted(folder.glob(f"*-*{_SUFFIX}")):
        with suppress(FileNotFoundError):  # another process is clearing it
            yield Entry(path, path.lstat().st_size, _damage(path))


def clear(folder: Path) -> int:
    """Removes the libraries and unfinished files of a folder, and returns how many.

    Processes that have loaded one keep it. Raises OSError where the folder cannot be changed.
    """
    files = [path for suffix in (_SUFFIX, _TEXT, _UNFINISHED) for path in folder.glob(f"*{suffix}")]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


def _find(folder: Path, key: str, suffix: str = _SUFFIX) -> Path | None:
    """The library, or the text, as it was made; one that has changed is as good as none."""
    damaged = None
    for path in _kept(folder, key, suffix):
        damage = _damage(path)
        if damage is None:
            return path
        damaged = f"{path} {damage}"
    if damaged:
        logger.warning("a compiled library is made anew: %s", damaged)
    return None


def _kept(folder: Path, key: str, suffix: str) -> list[Path]:
    """The files under a key, found several times as fast as by a pattern."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    begin = f"{key}-"
    return [folder / name for name in names if name.startswith(begin) and name.endswith(suffix)]


def _damage(path: Path) -> str | None:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            return "is no file"
        if distrust := _distrust(found):
            return distrust
        whole = digest(path.read_bytes()) == path.stem.rpartition("-")[2]
    except OSError as error:
        return error.strerror or str(error)
    return None if whole else "is not what was compiled"


def _store(folder: Path, key: str, content: bytes, suffix: str = _SUFFIX) -> Path:
    """Writes the library, or the text, aside and renames it: a file with this name is complete.

    Raises OSError when that is not possible.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if reason := refusal(folder):  # of a folder that came into being meanwhile
        raise PermissionError(f"{folder} {reason}")
    _remove_old(folder)
    path = folder / f"{key}-{digest(content)}{suffix}"
    # mkstemp's file can be read and written by its owner alone
    handle, unfinished = tempfile.mkstemp(dir=folder, suffix=_UNFINISHED)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    return path


def _remove_old(folder: Path) -> None:
    for path in folder.glob(f"*{_UNFINISHED}"):
        with suppress(OSError):  # another process was faster
            if time.time() - path.lstat().st_mtime > OLD:
                path.unlink()


def _distrust(found: os.stat_result) -> str | None:
    """Why something on disk may hold the code of others, where the system has owners and modes."""
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others"
    return None


def _user() -> str:
    return str(os.geteuid()) if hasattr(os, "geteuid") else os.environ.get("USERNAME", "user")


def _warn_of(reasons: dict[Path, str], used: Path) -> None:
    for folder, reason in reasons.items():
        _warn_once(folder, reason, used)


@cache
def _warn_once(folder: Path, reason: str, used: Path) -> None:
    warnings.warn(
        f"the cache of compiled libraries {folder} is not used ({reason}), but {used}; "
        "`rigidblocks doctor` looks into it",
        RuntimeWarning,
        stacklevel=2,
    )
