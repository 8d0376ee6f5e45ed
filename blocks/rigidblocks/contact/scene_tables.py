"""Free bodies and things at rest as the C text of tables, which the C of rigid contact reads
(`c/contact/scene.h`).
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform
from rigidblocks.contact.ground_rows import FIELD, MESH
from rigidblocks.contact.shape_rows import CYLINDER, HALF_SPACE, HULL, SEGMENT, shape_rows
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Shape, Surface


def scene_tables(model: Model, ground: Sequence[Shape | Surface]) -> str:
    """The tables of the bodies of a model, with the shapes in its field `contact`, and of the
    shapes of what is at rest, `ground`, in base coordinates.
    """
    centres = [body_centre(body) for body in model.inertia]
    rows = list(placed_rows(model, ground, centres))
    inertias = [_about_centre(body) for body in model.inertia]
    isotropic = [np.ptp(np.linalg.eigvalsh(I)) <= 1e-12 * np.trace(I) for I in inertias]
    return "\n".join(
        [
            table("double", "RB_MASS", [body.m for body in model.inertia]),
            table("double", "RB_CENTRE", centres),
            table("double", "RB_INERTIA", [I.ravel() for I in inertias]),
            table("int", "RB_ISOTROPIC", map(int, isotropic)),
            shape_tables(rows),
            table("double", "RB_SHAPE_REACH", [_reach(row, X) for _, row, X in rows]),
        ]
    )


def shape_tables(rows: Sequence[tuple[int, Array, Transform]]) -> str:
    """The tables of shapes, of `placed_rows`."""
    starts = np.cumsum([0, *(len(row) for _, row, _ in rows)])[:-1]
    return "\n".join(
        [
            table("double", "RB_SHAPE_TABLE", np.concatenate([row for _, row, _ in rows])),
            table("int", "RB_SHAPE_AT", map(int, starts)),
            table("int", "RB_SHAPE_BODY", [body for body, _, _ in rows]),
            table("double", "RB_SHAPE_POSE", [np.array([*X.E.T.ravel(), *X.r]) for *_, X in rows]),
        ]
    )


def shape_count(model: Model, ground: Sequence[Shape | Surface]) -> int:
    """The number of rows of all shapes."""
    return len(list(placed_rows(model, ground, [np.zeros(3)] * model.nb)))


def placed_rows(
    model: Model, ground: Sequence[Shape | Surface], centres: Sequence[Array]
) -> Iterator[tuple[int, Array, Transform]]:
    """The body of each row, `nb` for what is at rest, the row, and the frame of the shape about the
    body's centre (3,), in its coordinates.
    """
    for i, shapes in enumerate(model.contact):
        for shape in shapes:
            for row, X in shape_rows(shape):
                yield i, row, Transform(X.E, X.r - centres[i])
    for surface in ground:
        for row, X in shape_rows(surface):
            yield model.nb, row, X


def body_centre(body: RigidInertia) -> Array:
    """The centre of mass; the origin of a massless body."""
    return np.asarray(body.h / body.m if body.m > 0 else np.zeros(3))


def _about_centre(body: RigidInertia) -> Array:
    c = body_centre(body)
    return np.asarray(body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c)))


def _reach(row: Array, X: Transform) -> float:
    """The radius about the centre of mass of all of a shape."""
    kind, half, radius = int(row[0]), row[1:4], row[4]
    if kind in (HALF_SPACE, FIELD, MESH):
        return 0.0
    if kind == HULL:
        far = float(np.linalg.norm(row[8:].reshape(-1, 3), axis=1).max())
    elif kind == CYLINDER:
        far = float(np.hypot(half[0], half[2]))
    else:
        far = float(half[2] if kind == SEGMENT else np.linalg.norm(half))
    return float(np.linalg.norm(X.r)) + far + float(radius)


def table(kind: str, name: str, rows: Iterable[object]) -> str:
    """A C array with a row for each; a finite number stands for one without bound."""
    values = [np.asarray(row) for row in rows]
    width = f"[{values[0].size}]" if values[0].ndim else ""
    texts = (
        "{" + ", ".join(map(_number, value)) + "}" if value.ndim else _number(value[()])
        for value in values
    )
    return f"static const {kind} {name}[{len(values)}]{width} = {{{', '.join(texts)}}};"


def _number(value: object) -> str:
    if isinstance(value, int | np.integer):
        return str(int(value))
    number = float(value)  # type: ignore[arg-type]
    return repr(number) if np.isfinite(number) else ("1e300" if number > 0 else "-1e300")
