"""Shapes in soft contact as the C text of tables (`c/soft/soft.h`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform
from rigidblocks.contact.material_tables import MaterialTables, PairOfMaterials
from rigidblocks.contact.polytopes import polytope_row
from rigidblocks.contact.scene_tables import placed_rows, shape_tables, table
from rigidblocks.contact.shape_rows import shape_rows
from rigidblocks.contact.tree_tables import neighbours
from rigidblocks.model.material import Material
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Shape, Surface

COLUMNS = {"K": "stiffness", "D": "damping", "mu": "mu"}


@dataclass(frozen=True, eq=False)
class SoftTables:
    """The shapes of a model and of what is at rest, `ground`, which of them may touch, and their
    materials: first that of the block, `own`, then those of shapes, then those of `pairs`.
    """

    model: Model
    ground: tuple[Shape | Surface, ...]
    own: Material
    apart: tuple[tuple[str, str], ...] = ()
    pairs: tuple[PairOfMaterials, ...] = ()

    @cached_property
    def bodies(self) -> tuple[int, ...]:
        """The numbers of the bodies that have shapes."""
        return tuple(i for i, shapes in enumerate(self.model.contact) if shapes)

    @cached_property
    def rows(self) -> tuple[tuple[int, Array, Transform], ...]:
        """The rows of all shapes, each with the place of its body in `bodies`, or their number for
        what is at rest, and its frame in the body's coordinates.
        """
        origins, nb = [np.zeros(3)] * self.model.nb, self.model.nb
        at = {**{i: k for k, i in enumerate(self.bodies)}, nb: len(self.bodies)}
        rows = placed_rows(self.model, self.ground, origins)
        return tuple((at[i], row, X) for i, row, X in rows)

    @cached_property
    def touching(self) -> tuple[tuple[int, int], ...]:
        """The pairs of rows that may touch."""
        names = (*(self.model.body_names[i] for i in self.bodies), "ground")
        apart = {frozenset(pair) for pair in self.apart}
        for i, j in neighbours(self.model):
            apart.add(frozenset((self.model.body_names[i], self.model.body_names[j])))
        body = [names[k] for k, *_ in self.rows]
        return tuple(
            (i, j)
            for i, j in combinations(range(len(self.rows)), 2)
            if body[i] != body[j] and frozenset((body[i], body[j])) not in apart
        )

    @cached_property
    def _materials(self) -> MaterialTables:
        return MaterialTables(self.model, self.ground, self.pairs)

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        """That of the block, and those of shapes, each once."""
        return (self.own, *self._materials.own)

    @property
    def of_pairs(self) -> tuple[Material, ...]:
        """Those of pairs."""
        return tuple(material for *_, material in self._materials.of_pairs)

    def column(self, name: str) -> Array:
        """K, D or mu of all materials; of one that does not say it that of the block."""
        given = [getattr(one, COLUMNS[name]) for one in (*self.materials, *self.of_pairs)]
        usual = getattr(self.own, COLUMNS[name])
        return np.array([usual if value is None else value for value in given], dtype=float)

    def text(self) -> str:
        """The tables of shapes, pairs and materials."""
        counts = {
            "RB_SOFT_BODIES": len(self.bodies),
            "RB_SHAPES": len(self.rows),
            "RB_SOFT_PAIRS": len(self.touching),
            "RB_MATERIALS": len(self.materials),
            "RB_NAMED_PAIRS": len(self._keys_of_pairs),
        }
        tables = (
            f"enum {{ {', '.join(f'{name} = {n}' for name, n in counts.items())} }};",
            table("double", "RB_SOFT_MASS", [*self._masses, np.inf]),
            shape_tables(self.rows),
            self._polytopes(),
            table("int", "RB_SHAPE_MATERIAL", list(self._of_rows())),
            table("int", "RB_SOFT_PAIR", [np.array(pair) for pair in self.touching]),
            table("int", "RB_SAYS_K", self._says("stiffness")),
            table("int", "RB_SAYS_D", self._says("damping")),
            table("double", "RB_NAMED_PAIR", [*self._keys_of_pairs, 0.0]),
        )
        return "\n".join(tables)

    @property
    def _masses(self) -> list[float]:
        """Those of bodies with shapes; of one without a mass that of all."""
        whole = sum(body.m for body in self.model.inertia)
        masses = [self.model.inertia[i].m for i in self.bodies]
        return [m if m > 0 else whole for m in masses]

    @property
    def _keys_of_pairs(self) -> list[float]:
        """The numbers of pairs of materials that have one of their own."""
        first, n = self._materials.bodies, len(self.materials)
        return [float((i - first + 1) * n + j - first + 1) for i, j, _ in self._materials.of_pairs]

    def _polytopes(self) -> str:
        """Where the polytope of each shape starts, -1 where it has none, and all of them."""
        polytopes = [polytope_row(row) for _, row, _ in self.rows]
        sizes = [0 if row is None else len(row) for row in polytopes]
        starts = np.cumsum([0, *sizes])[:-1]
        flat = [row for row in polytopes if row is not None]
        places = [int(k) if size else -1 for k, size in zip(starts, sizes, strict=True)]
        return "\n".join(
            [
                table("int", "RB_SHAPE_POLY", places),
                table("double", "RB_POLY_TABLE", np.concatenate([*flat, [0.0]])),
            ]
        )

    def _says(self, name: str) -> list[int]:
        """Whether the materials of shapes have a number; that of the block counts as none."""
        return [0, *(int(getattr(one, name) is not None) for one in self.materials[1:])]

    def _of_rows(self) -> Iterator[int]:
        own = self._materials.own
        for _, shape in self._materials.shapes:
            at = 0 if shape.material is None else 1 + own.index(shape.material)
            yield from (at for _ in shape_rows(shape))
