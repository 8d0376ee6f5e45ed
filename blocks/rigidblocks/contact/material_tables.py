"""Materials of shapes as the C text of tables, which the C of rigid contact reads
(`c/contact/plant.h`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.scene_tables import table
from rigidblocks.contact.shape_rows import shape_rows
from rigidblocks.model.material import Material, sticking
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Shape, Surface

PairOfMaterials = tuple[str, str, Material]
COEFFICIENTS = ("mu", "mu_static", "e", "torsional", "rolling")


@dataclass(frozen=True, eq=False)
class MaterialTables:
    """The materials of shapes: first those of each body and of what is at rest, for shapes that
    have none, then those of shapes, each once, then those of `pairs`, by the names of two.
    """

    model: Model
    ground: tuple[Shape | Surface, ...]
    pairs: tuple[PairOfMaterials, ...]

    @cached_property
    def shapes(self) -> tuple[tuple[int, Shape | Surface], ...]:
        """All shapes, each with its body, nb for what is at rest."""
        own = [(i, shape) for i, shapes in enumerate(self.model.contact) for shape in shapes]
        return (*own, *((self.model.nb, surface) for surface in self.ground))

    @cached_property
    def own(self) -> tuple[Material, ...]:
        """The materials of shapes, in the order in which they come."""
        return tuple(dict.fromkeys(s.material for _, s in self.shapes if s.material is not None))

    @property
    def bodies(self) -> int:
        """The number of those of bodies and of what is at rest."""
        return self.model.nb + 1

    @cached_property
    def of_pairs(self) -> tuple[tuple[int, int, Material], ...]:
        """The numbers of two materials, and what is said of the pair."""
        places: dict[str, list[int]] = {}
        for k, material in enumerate(self.own):
            places.setdefault(material.name, []).append(self.bodies + k)
        found: dict[tuple[int, int], Material] = {}
        for a, b, material in self.pairs:
            for name in (a, b):
                if not name or name not in places:
                    raise ValueError(
                        f"'{name}' in `pairs` is no material of a shape of model "
                        f"'{self.model.name}' or of `ground`: take two of "
                        f"{', '.join(filter(None, places)) or '(none has a name)'}"
                    )
            for i in places[a]:
                for j in places[b]:
                    if (key := (min(i, j), max(i, j))) in found:
                        raise ValueError(f"`pairs` has '{a}' and '{b}' twice")
                    found[key] = material
        return tuple((i, j, material) for (i, j), material in found.items())

    def joined(self, name: str, of_bodies: Any) -> Array:
        """A coefficient of all: of bodies as given, a number or (nb + 1,), and of the others as
        their materials say.
        """
        first = np.broadcast_to(np.asarray(of_bodies, dtype=float), (self.bodies,))
        others = [*self.own, *(material for *_, material in self.of_pairs)]
        rest = [sticking(m) if name == "mu_static" else getattr(m, name) for m in others]
        return np.array([*first, *rest])

    def text(self) -> str:
        """The number of materials, that of each row of a shape, and the pairs with one of their
        own.
        """
        n, pairs = self.bodies + len(self.own), self.of_pairs
        keys = [float(i * n + j) for i, j, _ in pairs]
        return "\n".join(
            [
                f"enum {{ RB_MATERIALS = {n}, RB_NAMED_PAIRS = {len(keys)} }};",
                table("int", "RB_SHAPE_MATERIAL", list(self._of_rows())),
                table("double", "RB_NAMED_PAIR", [*keys, 0.0]),
            ]
        )

    def _of_rows(self) -> Iterator[int]:
        for body, shape in self.shapes:
            at = body if shape.material is None else self.bodies + self.own.index(shape.material)
            yield from (at for _ in shape_rows(shape))


def checked_pairs(pairs: Sequence[PairOfMaterials]) -> tuple[PairOfMaterials, ...]:
    """The pairs as a tuple; raises TypeError for one that is not of two names and a material."""
    for pair in pairs:
        if len(pair) != 3 or not isinstance(pair[2], Material):
            raise TypeError(
                "a pair of materials is two names and the Material of the pair, such as "
                f"('rubber', 'ice', Material(mu=0.1)), not {pair!r}"
            )
    return tuple((str(a), str(b), material) for a, b, material in pairs)
