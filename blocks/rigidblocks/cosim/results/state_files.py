"""State files: the saved state of a prepared run, for a restart in another process.

A file is a NumPy archive (.npz) with the arrays of all parts, and a digest of the system.
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.spatial.spatial import Array

_HEADER = "rigidblocks_state"  # entry with the digest; the entries of parts contain a dot


def write_state(path: Path, digest: str, k: int, arrays: Mapping[str, Array]) -> None:
    """Write a state atomically.

    Args:
        path: Path of the file.
        digest: Digest of the system and the options of the run.
        k: Number of steps since the start time.
        arrays: Arrays of the parts by name.
    """
    entries: dict[str, Any] = {_HEADER: np.array(json.dumps({"digest": digest, "k": k})), **arrays}
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "wb") as file:
            np.savez(file, **entries)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_state(path: Path, digest: str) -> tuple[int, dict[str, Array]]:
    """Read a state file; return the number of steps since the start time, and the arrays.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged, or its state belongs to another system.
    """
    check_regular_file(path)
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop(_HEADER)))
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, TypeError) as error:
        raise ValueError(f"'{path}' is damaged, or is not a state of `run.save(path)`") from error
    if header["digest"] != digest:
        raise ValueError(
            f"the state '{path}' belongs to another system, to another version of rigidblocks, or "
            "to a run with another dt, order, form or start time"
        )
    return int(header["k"]), arrays
