"""Frames of an SDF model: what a pose is relative to, and where that makes everything."""

from dataclasses import dataclass, field

import numpy as np

from rigidblocks.algebra.rotation import quaternion_rotation
from rigidblocks.algebra.spatial import Transform, identity
from rigidblocks.formats.document import Element, floats, nearest, placement, refused

MODEL = "__model__"


def pose(element: Element) -> Transform:
    """The <pose> of an element, the identity where there is none or it is empty."""
    given = element.find("pose")
    if given is None or not (given.text or "").strip():
        return identity()
    if given.get("rotation_format") == "quat_xyzw":
        *r, x, y, z, w = floats(given, given.text, 7, "a <pose> with a quaternion")
        q = np.array([w, x, y, z])
        if not np.any(q):
            raise refused(given, "the quaternion of a <pose> is zero")
        return Transform(quaternion_rotation(q / np.linalg.norm(q)), np.array(r))
    x, y, z, *rpy = floats(given, given.text, 6, "a <pose>")
    turn = np.radians(rpy).tolist() if given.get("degrees") == "true" else rpy
    return placement([x, y, z], turn)


def base_of(element: Element) -> str:
    """The name of what the <pose> of an element is relative to, if it says."""
    given = element.find("pose")
    return "" if given is None else (given.get("relative_to") or given.get("frame") or "").strip()


@dataclass(frozen=True)
class Poses:
    """Where the links, joints and frames of a model are, in the coordinates of the model.

    `attached` has by name the element and the name of what its pose is relative to by default.
    """

    attached: dict[str, tuple[Element, str]]
    found: dict[str, Transform] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Transform:
        return self._place(name, ())

    def _place(self, name: str, waiting: tuple[str, ...]) -> Transform:
        if name in ("", MODEL, "world"):
            return identity()
        if name not in self.found:
            element, default = self.attached[name]
            base = base_of(element) or default
            if base not in self.attached and base not in ("", MODEL, "world"):
                hint = nearest(base, list(self.attached))
                raise refused(
                    element,
                    f"the pose of '{name}' is relative to '{base}', which there is not{hint}",
                )
            if base in (*waiting, name) or len(waiting) > DEEPEST:
                raise refused(element, f"the pose of '{name}' is relative to itself")
            self.found[name] = pose(element) @ self._place(base, (*waiting, name))
        return self.found[name]


DEEPEST = 500
