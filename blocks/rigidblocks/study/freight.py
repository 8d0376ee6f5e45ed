"""A system with its FMUs as bytes, for another process or another machine."""

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from rigidblocks.system.fmu import Fmu
from rigidblocks.system.remote import RemoteFile
from rigidblocks.system.system import System


def packed(what: Any) -> bytes:
    """What `pickle.loads` makes the same of: by cloudpickle where it is installed, which also takes
    functions and classes of the program itself.

    Raises ValueError for what cannot be packed.
    """
    try:
        pack: Any = import_module("cloudpickle")
    except ImportError:
        pack = pickle
    try:
        data: bytes = pack.dumps(what)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(f"this system cannot be sent to another process: {error}") from None
    return data


def fmus_of(system: System) -> dict[str, tuple[str, Path]]:
    """The hash and the file of each part that is an FMU, by the name of the part; one that a server
    runs stays there.
    """
    found, known = {}, dict[Path, str]()
    for name, part in system.parts.items():
        if isinstance(part.component, Fmu) and not isinstance(part.component.path, RemoteFile):
            path = Path(part.component.path)
            if path not in known:
                known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = known[path], path
    return found


def with_fmus(
    system: System, hashes: Mapping[str, str], fmus: Mapping[str, bytes], folder: Path
) -> None:
    """Gives the parts of a system that are FMUs, by their hashes, files in a folder."""
    for name, sha in hashes.items():
        path = folder / f"{sha}.fmu"
        if not path.exists():
            path.write_bytes(fmus[sha])
        part = system.parts[name]
        assert isinstance(part.component, Fmu)
        system.parts[name] = replace(part, component=replace(part.component, path=path))
