"""Numbers as text for the script of a page."""

import base64

import numpy as np
from numpy.typing import ArrayLike


def encoded(values: ArrayLike, kind: str = "<f4") -> str:
    """The bytes of numbers in base 64, of single precision unless asked for."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
