"""Where the files are that a robot's file names, such as meshes: beside it, or in packages."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit


def found_file(name: str, robot: Path, search: Iterable[str | Path] = ()) -> Path | None:
    """The file that the file of a robot means by `name`; None where there is none.

    A path is one from the folder of the robot's file, or absolute, as after file://. package:// and
    model:// name a package and a path in it. A package is a folder: one of those that the robot's
    file is in or beside one of them, or one of or in the folders `search`, in those of
    ROS_PACKAGE_PATH, or in share/ of those of AMENT_PREFIX_PATH, in this order. A path that leaves
    its package by .. is not followed; links are, of which installed packages are made. A third
    slash, as in package:///arm/meshes/a.stl, says no more than two.
    """
    scheme, _, rest = name.partition("://")
    if scheme not in ("package", "model"):
        path = Path(unquote(urlsplit(name).path) if scheme == "file" else name)
        path = path if path.is_absolute() else robot.parent / path
        return path if path.is_file() else None
    package, _, inside = rest.lstrip("/").partition("/")
    inside = os.path.normpath(inside.lstrip("/"))
    if package in ("", ".", "..") or inside.split(os.sep)[0] in (os.curdir, os.pardir):
        return None
    for folder in _folders(package, robot, search):
        if (path := folder / inside).is_file():
            return path
    return None


def _folders(package: str, robot: Path, search: Iterable[str | Path]) -> Iterator[Path]:
    """The folders that can be a package, the nearest first."""
    shares = (Path(prefix) / "share" for prefix in _listed("AMENT_PREFIX_PATH"))
    places = (*robot.resolve().parents, *map(Path, search), *_listed("ROS_PACKAGE_PATH"), *shares)
    for place in places:
        if place.name == package:
            yield place
        yield place / package


def _listed(variable: str) -> list[Path]:
    """The folders that a variable of the environment lists."""
    return [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
