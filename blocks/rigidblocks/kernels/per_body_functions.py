"""Leaf functions: the passes of a recursive algorithm traced once for each type of body, not for
each body.

The C text of an algorithm then does not grow with the model: loops over the bodies call the leaves.
A type is a joint with the pattern of zeros and ones in the numbers of its body; the other numbers
are read from a table.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import reduce
from inspect import signature
from itertools import takewhile
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np

from rigidblocks.algebra.factored import Factor, Factors
from rigidblocks.algebra.spatial import (
    Array,
    ArticulatedInertia,
    RigidInertia,
    Transform,
    identity,
)
from rigidblocks.dynamics.forward import acceleration, behind_joint, body_alone
from rigidblocks.dynamics.inverse import net_force, transmitted
from rigidblocks.dynamics.sweeps import minus_gravity
from rigidblocks.model.model import Model
from rigidblocks.tracing.ccode import statements
from rigidblocks.tracing.notation import SCALAR, Notation
from rigidblocks.tracing.trace import Traced, operation_count


@dataclass(frozen=True)
class Pass:
    """A pass of an algorithm over the bodies: a function of (model, i, ...) and the names of its
    results.

    Its other arguments are named: q, qd, qdd and tau are the joint's variables, a name with `_p` is
    the parent's value, any other is the body's own. A result with `_p` is added to the parent's
    value, one without a name is not kept; qdd and tau are what the algorithm computes. `after` the
    pass comes a statement in C, in which {cells} is how many numbers a body has in `cells` and {f}
    where its force is among them.
    """

    step: Callable[..., tuple[Any, ...]]
    results: tuple[str, ...]
    outward: bool = True
    after: str = ""


@dataclass(frozen=True)
class Algorithm:
    """The passes of an algorithm, its inputs, its output, and what the bodies see of each other.

    Some results are `columns` (rows, nv) by the joint's velocity variables, with so many rows, of
    which the C in the files `texts` makes the `matrices` (nv, nv) behind the output and the
    `tensors` (nv, nv, nv) behind them, with room for `scratch` more matrices. `in_plane` all bodies
    move parallel to z = 0, and only what is not known of it is kept.
    """

    inputs: tuple[str, ...]
    shared: tuple[str, ...]
    passes: tuple[Pass, ...]
    output: str = ""
    columns: Mapping[str, int] = field(default_factory=dict)
    matrices: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    scratch: int = 0
    in_plane: bool = False


ALGORITHMS = {
    "aba": Algorithm(
        inputs=("q", "qd", "tau"),
        output="qdd",
        shared=("v", "a", "pA", "IA"),
        passes=(
            Pass(body_alone, ("Xup", "S", "v", "c", "IA", "pA")),
            Pass(behind_joint, ("UDinv", "qdd0", "IA_p", "pA_p"), outward=False),
            Pass(acceleration, ("qdd", "a")),
        ),
    ),
    "rnea": Algorithm(
        inputs=("q", "qd", "qdd"),
        output="tau",
        shared=("v", "a", "f"),
        passes=(
            Pass(net_force, ("Xup", "S", "v", "a", "f")),
            Pass(transmitted, ("tau", "f_p"), outward=False),
        ),
    ),
}

_TRIANGLE = np.array(
    [[0, 1, 3], [1, 2, 4], [3, 4, 5]]
)  # where a symmetric matrix keeps its elements
_SQUARE = np.arange(9).reshape(3, 3)


def _about_z(place: int) -> Array:
    """The places of a matrix (3, 3) of which all elements but the last are zero."""
    return np.array([[-1, -1, -1], [-1, -1, -1], [-1, -1, place]])


# the values that bodies share and that are not vectors (6,): what makes them, and the places of the
# elements of their parts, counted from the first
_Places = tuple[Callable[..., Any], list[Array]]
_SHARED: Mapping[str, _Places] = {
    "IA": (ArticulatedInertia, [_TRIANGLE, 6 + _SQUARE, 15 + _TRIANGLE]),
    "I": (
        lambda m, h, I: RigidInertia(m[0], h, I),
        [np.arange(1), 1 + np.arange(3), 4 + _TRIANGLE],
    ),
    "X0": (Factor, [_SQUARE, 9 + np.arange(3)]),
    "B1": (np.asarray, [_SQUARE]),
    "P": (np.asarray, [np.arange(3)]),
}
_VECTOR: _Places = (np.asarray, [np.arange(6)])
# the same of what moves parallel to z = 0, where _ZERO and _ONE are elements that are known
_ZERO, _ONE = -1, -2
_IN_PLANE: Mapping[str, _Places] = {
    "I": (_SHARED["I"][0], [np.arange(1), np.array([1, 2, _ZERO]), _about_z(3)]),
    "X0": (Factor, [np.array([[0, 1, -1], [2, 3, -1], [-1, -1, _ONE]]), np.array([4, 5, _ZERO])]),
    "B1": (np.asarray, [_about_z(0)]),
    "P": (np.asarray, [np.array([0, 1, _ZERO])]),
}
_VECTOR_IN_PLANE: _Places = (np.asarray, [np.array([-1, -1, 0, 1, 2, -1])])
# the rows of columns that are not zero there
ROWS_IN_PLANE = {
    "tau0": (0,),
    "S": (2, 3, 4),
    "R": (2, 5, 6, 7),
    "X": (2, 5, 6, 7, 11, 14, 15, 16),
    "G": (2, 3, 4, 8, 9, 10),
}


def _size(places: list[Array]) -> int:
    """How many doubles keep a value that bodies share."""
    return 1 + max(int(part.max()) for part in places)


@dataclass(eq=False)
class BodyType:
    """The leaves of an algorithm for the bodies of one type, while they are traced.

    `cells` is the number of doubles that a body keeps between the passes, `operations` that of the
    leaves' operations.
    """

    algorithm: Algorithm
    joint: Any
    inertia: RigidInertia
    Xtree: Transform
    names: dict[int, str]  # the C name of each symbol, by its node
    notation: Notation = SCALAR
    base: Mapping[str, Any] | None = None  # what the parent has, where it is the fixed base
    cells: int = 0
    operations: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    symbols: list[ca.SX] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Lays out what the bodies share, the same for all types."""
        self.offsets = {}
        for name in self.algorithm.shared:
            self.offsets[name] = self.cells
            self.cells += _size(self._places(name)[1])

    def _places(self, name: str) -> _Places:
        """What makes a value that bodies share, and where its elements are."""
        if self.algorithm.in_plane:
            return _IN_PLANE.get(name, _VECTOR_IN_PLANE)
        return _SHARED.get(name, _VECTOR)

    def symbol(self, name: str) -> Traced:
        """A new symbol that C knows by `name`."""
        sx = ca.SX.sym(name)
        self.symbols.append(sx)
        self.names[sx.element_hash()] = name
        return Traced(sx)

    def leaf(self, step: Pass) -> str:
        """The C statements of one pass at a body of this type."""
        model = SimpleNamespace(
            joint=(self.joint,), Xtree=(self.Xtree,), inertia=(self.inertia,), algebra=Model.algebra
        )
        parameters = list(signature(step.step).parameters.values())[2:]
        wanted = [one.name for one in parameters if one.default is one.empty]
        results = step.step(model, 0, *map(self._argument, wanted))
        assignments: dict[str, ca.SX] = {}
        for name, value in zip(step.results, results, strict=True):
            if name:
                assignments.update(self._keep(name, value))
        function, used = _function(assignments, self.symbols)
        self.operations += operation_count(function)
        places = [self.names[sx.element_hash()] for sx in used]
        return _assigned(function, places, list(assignments), self.notation)

    def _argument(self, name: str) -> Any:
        if name in ("q", "qd", "qdd", "tau"):
            size = self.joint.nq if name == "q" else self.joint.nv
            return _array([self.symbol(f"{name}[{k}]") for k in range(size)])
        if name.endswith("_p"):
            key = name.removesuffix("_p")
            return self.base[key] if self.base else self._cells_of(key, "p")
        return self._cells_of(name, "w") if name in self.offsets else self.values[name]

    def _cells_of(self, name: str, owner: str) -> Any:
        make, parts = self._places(name)
        first = self.offsets[name]
        cells = [self.symbol(f"{owner}[{first + k}]") for k in range(_size(parts))]
        elements = [*cells, 1.0, 0.0]  # _ONE and _ZERO are the last ones
        return make(
            *(_array([elements[k] for k in part.ravel()]).reshape(part.shape) for part in parts)
        )

    def _keep(self, name: str, value: Any) -> Iterator[tuple[str, ca.SX]]:
        """The assignments that keep a result of a pass where later passes, other bodies or the
        caller find it.
        """
        key = name.removesuffix("_p")
        if name.endswith("_p"):
            if not self.base:  # which feels no force
                yield from self._share(key, self._cells_of(key, "p") + value, "p")
        elif key == self.algorithm.output:
            yield from ((f"{key}[{k}]", _sx(element)) for k, element in enumerate(value))
        elif key in self.offsets:
            yield from self._share(key, value, "w")
        elif key in self.algorithm.columns:
            yield from self._column(key, np.atleast_2d(value))
        else:
            kept: dict[int, tuple[Traced, ca.SX]] = {}
            self.values[name] = _each(value, lambda element: self._cell(element, kept))
            yield from ((self.names[cell.sx.element_hash()], sx) for cell, sx in kept.values())

    def _share(self, key: str, value: Any, owner: str) -> Iterator[tuple[str, ca.SX]]:
        for places, part in zip(self._places(key)[1], _parts(value), strict=True):
            for place, element in zip(places.ravel(), part.ravel(), strict=True):
                if place >= 0:
                    yield f"{owner}[{self.offsets[key] + place}]", _sx(element)

    def _column(self, key: str, value: Array) -> Iterator[tuple[str, ca.SX]]:
        """Columns stay where the C after the passes has them, and later passes read them there."""
        columns = self.algorithm.columns
        first = sum(columns[name] for name in takewhile(lambda name: name != key, columns))
        here, symbols = value.copy(), {}
        rows = ROWS_IN_PLANE.get(key, ()) if self.algorithm.in_plane else range(len(value))
        for number, row in enumerate(rows[: columns[key]], first):
            for k, element in enumerate(value[row]):
                place = f"m[{number} * RB_N + {k}]"
                yield place, _sx(element)
                if isinstance(element, Traced):
                    symbols[row, k] = self.symbol(place)
        for at, symbol in symbols.items():
            here[at] = symbol
        self.values[key] = here

    def _cell(self, element: Any, kept: dict[int, tuple[Traced, ca.SX]]) -> Any:
        """A constant or a number of the body as it is; anything else as the symbol of the cell that
        keeps it.
        """
        if not isinstance(element, Traced) or self.names.get(
            element.sx.element_hash(), "w"
        ).startswith("k"):
            return element
        node = element.sx.element_hash()
        if node not in kept:
            kept[node] = self.symbol(f"w[{self.cells}]"), element.sx
            self.cells += 1
        return kept[node][0]


def _parts(value: Any) -> list[Array]:
    if isinstance(value, ArticulatedInertia):
        return [value.M, value.H, value.I]
    if isinstance(value, RigidInertia):
        return [np.array([value.m]), value.h, value.I]
    return [value.E, value.r] if isinstance(value, Transform) else [value]


def _array(elements: list[Any]) -> Array:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array


def _sx(element: Any) -> ca.SX:
    return element.sx if isinstance(element, Traced) else ca.SX(float(element))


def _each(value: Any, function: Callable[[Any], Any]) -> Any:
    """The same array or transform with `function` applied to its elements."""
    if isinstance(value, Factors):
        return Factors(*(_each(X, function) for X in value.factors))
    if isinstance(value, Transform):
        return Factor(_each(value.E, function), _each(value.r, function))
    if isinstance(value, RigidInertia):
        return RigidInertia(function(value.m), _each(value.h, function), _each(value.I, function))
    return _array([function(element) for element in value.ravel()]).reshape(value.shape)


def _function(
    assignments: Mapping[str, ca.SX], symbols: list[ca.SX]
) -> tuple[ca.Function, list[ca.SX]]:
    """The function that computes what is assigned, and the symbols that it reads."""
    results = ca.cse(ca.densify(ca.vertcat(*assignments.values())))
    used = [sx for sx in symbols if ca.depends_on(results, sx)]
    return ca.Function("leaf", [ca.vertcat(*used)], [results]), used


def _assigned(
    function: ca.Function, places: list[str], targets: list[str], notation: Notation
) -> str:
    """The C statements of the assignments; everything is read before anything is written."""
    values = [notation.number(one) if one.startswith("k") else one for one in places]
    lines = [f"const {notation.real} x{k} = {value};" for k, value in enumerate(values)]
    lines += statements(function, [f"x{k}" for k in range(len(places))], targets, notation)
    return "\n".join(f"    {line}" for line in lines)


# types of bodies


def body_numbers(model: Model, i: int) -> Array:
    """The numbers of body i that are not alike in all bodies: Xtree, inertia and the real
    parameters of the joint.
    """
    X, body = model.Xtree[i], model.inertia[i]
    moments = body.I[np.tril_indices(3)]
    return np.array(
        [*X.E.ravel(), *X.r, body.m, *body.h, *moments, *_parameters(model.joint[i]).values()],
        dtype=float,
    )


def _parameters(joint: Any) -> dict[str, float]:
    return {
        f.name: getattr(joint, f.name)
        for f in fields(joint)
        if isinstance(getattr(joint, f.name), float)
    }


def _kind(joint: Any) -> Any:
    """What joints of one kind have in common: everything but their real parameters."""
    return type(joint), tuple(
        getattr(joint, f.name) for f in fields(joint) if f.name not in _parameters(joint)
    )


def body_types(model: Model, most: int = 4) -> tuple[list[int], list[tuple[int, Array]]]:
    """The type of each body, and for each type a body of it and its pattern: a number that all
    have, or NaN.

    Bodies with one kind of joint are of one type each pattern of zeros and ones, or all of one type
    where there would be more than `most`. Those that hang on the fixed base are of other types than
    those that do not.
    """
    numbers = [body_numbers(model, i) for i in range(model.nb)]
    kinds = [(_kind(joint), p < 0) for joint, p in zip(model.joint, model.parent, strict=True)]
    patterns = [np.where((x == 0) | (np.abs(x) == 1), x, np.nan) for x in numbers]
    count = Counter(
        kind
        for kind, _ in {(kind, tuple(map(str, p))) for kind, p in zip(kinds, patterns, strict=True)}
    )
    keys = [
        (kind, None if count[kind] > most else tuple(map(str, pattern)))
        for kind, pattern in zip(kinds, patterns, strict=True)
    ]
    types = list(dict.fromkeys(keys))
    place = [types.index(key) for key in keys]
    alike = [[i for i, at in enumerate(place) if at == k] for k in range(len(types))]
    return place, [(bodies[0], _common([patterns[i] for i in bodies])) for bodies in alike]


def _common(patterns: list[Array]) -> Array:
    """The numbers that all patterns have, NaN for the others."""
    return reduce(lambda one, two: np.where(one == two, one, np.nan), patterns)


def traced_body(
    model: Model, i: int, pattern: Array, algorithm: Algorithm, notation: Notation
) -> BodyType:
    """The type of body i with the numbers of the pattern as they are, and the others as symbols
    k[0], k[1], ...
    """
    symbols = [ca.SX.sym(f"k[{k}]") for k in range(int(np.isnan(pattern).sum()))]
    names = {sx.element_hash(): f"k[{k}]" for k, sx in enumerate(symbols)}
    unknown = map(Traced, symbols)
    numbers = [next(unknown) if np.isnan(number) else float(number) for number in pattern]

    # as `body_numbers` has them
    E, r, m, h = numbers[:9], numbers[9:12], numbers[12], numbers[13:16]
    moments, parameters = numbers[16:22], numbers[22:]
    Xtree = Transform(_array(E).reshape(3, 3), _array(r))
    I = _array([moments[k] for k in _TRIANGLE.ravel()]).reshape(3, 3)
    joint = copy(model.joint[i])
    for name, parameter in zip(_parameters(joint), parameters, strict=True):
        object.__setattr__(joint, name, parameter)
    inertia = RigidInertia(m, _array(h), I)
    base = (
        None
        if model.parent[i] >= 0
        else {"X0": identity(), "v": np.zeros(6), "a": minus_gravity(model, None)}
    )
    return BodyType(algorithm, joint, inertia, Xtree, names, notation, base, symbols=symbols)
