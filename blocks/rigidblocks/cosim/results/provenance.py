"""What a run was made of, for whoever reads its record."""

import hashlib
import json
import platform
from math import isfinite
from typing import Any

import numpy as np

import rigidblocks
from rigidblocks.block.adaptive import Adaptive
from rigidblocks.block.block import Block
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Wiring

_LARGE = 1000  # elements of a parameter: what has more is told by its digest


def provenance(wiring: Wiring) -> dict[str, str]:
    """The parts of a system with their parameters, methods and the digests of FMUs, the
    connections, and the versions of the software, as JSON by name.
    """
    wires = {target: source for source, target in (one.names for one in wiring.connections)}
    versions = {
        "rigidblocks": rigidblocks.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    parts = {name: _part(part) for name, part in wiring.parts.items()}
    return {
        "parts": json.dumps(parts),
        "connections": json.dumps(wires),
        "versions": json.dumps(versions),
    }


def _part(part: Part) -> dict[str, Any]:
    component = part.component
    about: dict[str, Any] = {"start": {name: _json(value) for name, value in part.start.items()}}
    if isinstance(component, Fmu):
        digest = component.digest
        if not digest:
            with open(component.file, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"fmu": str(component.path), "sha256": digest, **about}
    if isinstance(component, Block):
        parameters = {p.name: _json(part.start.get(p.name, p.start)) for p in component.parameters}
        method, h = part.stepping
        about |= {"method": method.name, "h": h if isfinite(h) else None, "parameters": parameters}
        if isinstance(method, Adaptive):
            about |= {"rtol": method.rtol, "atol": method.atol}
    return {"block": type(component).__name__, **about}


def _json(value: Any) -> Any:
    array = np.asarray(value, dtype=float)
    if array.size <= _LARGE:
        return array.tolist()
    return {"shape": array.shape, "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
