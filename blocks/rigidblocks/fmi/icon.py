"""The icon of an FMU: a two-link arm on its base, drawn by its outlines."""

import struct
import zlib
from itertools import pairwise

import numpy as np

from rigidblocks.algebra.spatial import Array

ICON = "model.png"  # where it lies in an FMU of FMI 2.0
SIZE = 64  # pixels
_COLORS = ((255, 255, 255), (31, 58, 95), (226, 125, 44), (120, 140, 160))  # ground, links, joints
# the joints from the base to the tip, and the half width of what is drawn, in pixels
_JOINTS = ((18.0, 50.0), (26.0, 22.0), (50.0, 16.0))
_LINK, _JOINT, _BASE = 3.5, 5.5, (8, 28, 54, 58)


def icon() -> bytes:
    """A PNG file of 64 x 64 pixels in four colors, the same bytes everywhere."""
    header = struct.pack(">2I5B", SIZE, SIZE, 2, 3, 0, 0, 0)
    palette = bytes(value for color in _COLORS for value in color)
    pixels = _drawing().reshape(SIZE, -1, 4)
    rows = (pixels << np.array([6, 4, 2, 0])).sum(2).astype(np.uint8)
    # stored, not deflated: what compression makes of it depends on the library's version
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 0)
    chunks = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*one) for one in chunks)


def _drawing() -> Array:
    """The color of each pixel (64, 64)."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    colors = np.zeros((SIZE, SIZE), dtype=int)
    left, right, top, bottom = _BASE
    colors[(x > left) & (x < right) & (y > top) & (y < bottom)] = 3
    for a, b in pairwise(_JOINTS):
        colors[_distance(x, y, np.array(a), np.array(b)) < _LINK] = 1
    for joint in _JOINTS:
        colors[np.hypot(x - joint[0], y - joint[1]) < _JOINT] = 2
    return colors


def _distance(x: Array, y: Array, a: Array, b: Array) -> Array:
    """How far the points (x, y) are from the line from a to b."""
    along = np.clip(
        ((x - a[0]) * (b - a)[0] + (y - a[1]) * (b - a)[1]) / np.sum((b - a) ** 2), 0, 1
    )
    distance: Array = np.hypot(x - a[0] - along * (b - a)[0], y - a[1] - along * (b - a)[1])
    return distance


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
