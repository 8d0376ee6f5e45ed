"""The meshes that a URDF file names for its links: found, read by the package trimesh, and made
coarse.
"""

import warnings
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.document import Element, numbers, parsed, placement
from rigidblocks.formats.load import content
from rigidblocks.formats.packages import found_file
from rigidblocks.view.solids import Solid

MOST, LEAST = 80_000, 400  # triangles of a robot, and at least of each mesh
OFFSET = 0.37  # of a cell: so that planes of symmetry, where rounding decides, do not divide cells
DARKEST = 0.14  # of a colour's parts: in black no shape is seen
LOOKS = ("bind_material", "library_effects", "library_materials", "library_images")
PLAIN = (0.80, 0.82, 0.84)


class Meshes(NamedTuple):
    """Meshes of a robot, and the bodies of which some could not be read."""

    solids: tuple[Solid, ...] = ()
    incomplete: frozenset[int] = frozenset()


NO_MESHES = Meshes()


def meshes(robot: RobotDescription, path: Path, packages: Sequence[str | Path] = ()) -> Meshes:
    """The meshes that a URDF file shows of a robot, on the bodies that have its links, with no more
    than some 80,000 triangles in all; none of another file. `packages` are folders to look for
    packages in (`formats.packages`).

    Warns of those that are not found or cannot be read, and where trimesh is not installed.
    """
    if path.suffix != ".urdf":
        return NO_MESHES
    named = list(_named(parsed(content(path), path), robot))
    try:
        import trimesh  # noqa: F401
    except ImportError:
        if named:
            warnings.warn("meshes are left out: `pip install rigidblocks[view]`", stacklevel=3)
        return Meshes(incomplete=frozenset(body for _, _, _, body, _ in named))
    limit = max(LEAST, MOST // max(len(named), 1))
    missing, found = dict[str, int](), list[Solid]()
    for name, scale, colour, body, X in named:
        file = found_file(name, path, packages)
        triangles = None if file is None else _triangles(file, limit)
        if triangles is None or not len(triangles):
            missing[name] = body
        else:
            points = triangles * scale
            found.append(Solid("mesh", body, (), colour, X, points=points.reshape(-1, 9)))
    if missing:
        first = next(iter(missing))
        text = f"{len(missing)} of {len(named)} meshes cannot be read, such as {first}"
        if first.startswith("package://"):
            text += "; --packages and ROS_PACKAGE_PATH name the folders that packages are in"
        warnings.warn(text, stacklevel=3)
    return Meshes(tuple(found), frozenset(missing.values()))


def coarse(triangles: Array, limit: int) -> Array:
    """Triangles (n, 3, 3) with corners near each other made one, on the finest of the grids tried
    that leaves no more than `limit` of them.
    """
    if len(triangles) <= limit:
        return triangles
    corners = triangles.reshape(-1, 3)
    low, size = corners.min(axis=0), float(np.ptp(corners, axis=0).max()) or 1.0
    cells = int(np.sqrt(limit)) + 2
    while cells > 2:
        cell = np.floor((corners - low) / size * cells + OFFSET).astype(np.int64) @ [
            1,
            2**20,
            2**40,
        ]
        _, which = np.unique(cell, return_inverse=True)
        counts = np.bincount(which)
        merged = np.stack([np.bincount(which, c) / counts for c in corners.T], axis=1)
        faces = which.reshape(-1, 3)
        kept = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
        faces = _once(faces[kept])
        if len(faces) <= limit:
            return np.asarray(merged[faces])
        cells = int(cells * 0.8)
    return triangles[:0]


def _once(faces: Array) -> Array:
    """Each face once, turned so that its smallest corner is the first."""
    first = np.argmin(faces, axis=1)
    rolled = np.take_along_axis(faces, (first[:, None] + np.arange(3)) % 3, axis=1)
    _, kept = np.unique(rolled @ [1, 2**21, 2**42], return_index=True)
    return np.asarray(rolled[kept])


def _named(
    root: Element, robot: RobotDescription
) -> Iterator[tuple[str, Array, tuple[float, float, float], int, Transform]]:
    """The name, scale, colour, body and placement of each mesh that is to be seen."""
    colours = {one.get("name"): _colour(one) for one in root.iterchildren("material")}
    for link in root.iterchildren("link"):
        place = robot.frames.get(link.get("name", ""))
        for visual in link.iterchildren("visual"):
            for mesh in visual.iterfind("geometry/mesh"):
                if place is None:
                    continue
                origin, material = visual.find("origin"), visual.find("material")
                X = place.placement
                if origin is not None:
                    r, rpy = (numbers(origin, k, 3, [0.0] * 3) for k in ("xyz", "rpy"))
                    X = placement(r, rpy) @ X
                colour = None
                if material is not None:
                    colour = _colour(material) or colours.get(material.get("name"))
                scale = np.array(numbers(mesh, "scale", 3, [1.0] * 3))
                yield mesh.get("filename", ""), scale, colour or PLAIN, place.body, X


def _colour(material: Element) -> tuple[float, float, float] | None:
    colour = material.find("color")
    if colour is None:
        return None
    r, g, b, _ = numbers(colour, "rgba", 4)
    return (max(r, DARKEST), max(g, DARKEST), max(b, DARKEST))


def _triangles(file: Path, limit: int) -> Array | None:
    """The triangles (n, 3, 3) of a mesh's file in its own unit; None where it cannot be read."""
    import trimesh

    try:
        if file.suffix.lower() == ".dae":
            scene: Any = trimesh.load(_collada(file), "dae", force="scene", process=False)
        else:
            scene = trimesh.load(file, force="scene", process=False)
        mesh = (
            scene.to_geometry() if hasattr(scene, "to_geometry") else scene.dump(concatenate=True)
        )
        triangles = np.asarray(mesh.triangles, dtype=float)
    except Exception:  # whatever is wrong in a file of others
        return None
    finite = np.isfinite(triangles).all(axis=(1, 2))
    return coarse(triangles[finite], limit)


def _collada(file: Path) -> BytesIO:
    """A COLLADA file without its materials: one that is not whole would take its mesh along."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    root = etree.fromstring(file.read_bytes(), parser)
    etree.strip_elements(root, *(f"{{*}}{name}" for name in LOOKS), with_tail=False)
    return BytesIO(etree.tostring(root))
