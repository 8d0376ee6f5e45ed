"""Whether a transform is one between frames: finite, with a rotation."""

from math import isfinite
from typing import Any

import numpy as np


def check_frame(X: Any, where: str) -> None:
    """Raises ValueError where a transform of numbers, spatial or planar, is not finite or its E is
    no rotation.
    """
    if len(X.E) == 3 and is_frame(X.E.tolist(), X.r.tolist()):
        return  # what follows takes ten times as long
    if not (np.all(np.isfinite(X.E)) and np.all(np.isfinite(X.r))):
        raise ValueError(f"{where} is not finite: E = {X.E.tolist()}, r = {X.r.tolist()}")
    if np.abs(X.E @ X.E.T - np.eye(len(X.E))).max() > 1e-9 or np.linalg.det(X.E) < 0:
        raise ValueError(
            f"{where} has no rotation in E = {X.E.tolist()}; E E^T must be 1 and det E = 1"
        )


def is_frame(E: list[list[float]], r: list[float]) -> bool:
    """Whether E (3, 3) turns without mirroring, to half of what rounding is let do, and r is
    finite.
    """
    (a, b, c), (d, e, f), (g, h, i) = E
    apart = (
        abs(a * a + b * b + c * c - 1.0),
        abs(d * d + e * e + f * f - 1.0),
        abs(g * g + h * h + i * i - 1.0),
        abs(a * d + b * e + c * f),
        abs(a * g + b * h + c * i),
        abs(d * g + e * h + f * i),
    )
    volume = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)
    return max(apart) < 5e-10 and volume > 0.5 and all(map(isfinite, r))
