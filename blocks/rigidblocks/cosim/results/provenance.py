"""Provenance of a run for its metadata: parts, connections, digests and software versions."""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive
from rigidblocks.block.block import Block
from rigidblocks.common.package_info import __version__
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.kernels.block_digest import content_digest, package_digest

# fields of a part that do not affect the results, or that are in a separate digest
_NO_CONTENT = "component", "start", "isolated", "has_own_library", "time_limit"
_LARGE = 1000  # number of elements above which only the digest of a parameter is recorded


def system_content(wiring: Wiring) -> tuple[str, dict[str, str]]:
    """Return the digest of a system, and the digests of its FMU files by part name.

    The digest of the system covers all data that affect the results of a run, except the start
    values.
    """
    fmus = {
        name: _fmu_digest(part.component)
        for name, part in wiring.parts.items()
        if isinstance(part.component, Fmu)
    }
    parts = [
        (
            name,
            (fmus[name], part.component.kind)
            if isinstance(part.component, Fmu)
            else part.component,
            {one.name: getattr(part, one.name) for one in fields(part)}
            | dict.fromkeys(_NO_CONTENT)
            | {"stepping": part.stepping},
        )
        for name, part in wiring.parts.items()
    ]
    wires = [(c.source, c.target, c.start, c.to, c.conversion) for c in wiring.connections]
    return content_digest(package_digest(), parts, wires), fmus


def start_content(wiring: Wiring) -> str:
    """Return a digest of the start values of all parts of a system."""
    return content_digest([(name, dict(part.start)) for name, part in wiring.parts.items()])


def _fmu_digest(fmu: Fmu) -> str:
    if fmu.digest:
        return fmu.digest
    with open(fmu.file, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def provenance(wiring: Wiring, fmus: Mapping[str, str]) -> dict[str, str]:
    """Return the provenance of a run: a mapping of names to JSON strings.

    The provenance consists of the parts with their parameters, methods and FMU digests, the
    connections, and the software versions.
    """
    wires = {target: source for source, target in (one.names for one in wiring.connections)}
    versions = {
        "rigidblocks": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    parts = {name: _part(part, fmus.get(name, "")) for name, part in wiring.parts.items()}
    return {
        "parts": json.dumps(parts),
        "connections": json.dumps(wires),
        "versions": json.dumps(versions),
    }


def _part(part: Part, fmu_digest: str) -> dict[str, Any]:
    component = part.component
    about: dict[str, Any] = {"start": {name: _json(value) for name, value in part.start.items()}}
    if isinstance(component, Fmu):
        about["tolerance"] = part.tolerance
        return {"fmu": str(component.path), "sha256": fmu_digest, **about}
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
