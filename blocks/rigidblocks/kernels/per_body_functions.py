"""Leaf functions: the passes of a recursive algorithm, traced once for each body type.

C loops over the bodies call the leaf functions, so code size does not depend on the number of
bodies. A body type consists of a joint type and a pattern of zeros and ones in the body parameters.
A C table contains the parameters that are neither 0 nor 1.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from inspect import signature
from itertools import takewhile
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np

from rigidblocks.dynamics.energy_momentum import body_energy
from rigidblocks.dynamics.forward import acceleration, articulated_step, outward_step
from rigidblocks.dynamics.inverse import net_force, transmitted_force
from rigidblocks.dynamics.joint_kinematics import minus_gravity
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import (
    Array,
    ArticulatedInertia,
    Factor,
    Factors,
    RigidInertia,
    Transform,
    identity,
)
from rigidblocks.tracing.c_notation import SCALAR, Notation
from rigidblocks.tracing.ccode import statements
from rigidblocks.tracing.trace import Traced, operation_count


@dataclass(frozen=True)
class Pass:
    """Pass of an algorithm over the bodies: a step function and the names of the results.

    The step function has the arguments (model, i, ...). The names of the further arguments
    determine their values:

    - q, qd, qdd and tau are the variables of joint i.
    - `gravity` is an input, with the same value for all bodies.
    - A name with the suffix `_p` is a value of the parent.
    - Any other name is a value of body i.

    The pass adds a result with the suffix `_p` to the value of the parent, and discards a result
    with an empty name. The results qdd and tau are the output of the algorithm.

    Attributes:
        step: Step function for one body.
        results: Names of the results of `step`.
        outward: True for a pass from the base outward, False for an inward pass.
        after: C statement after the pass. {cells} stands for the number of values per body in the
            array `cells`. {f} stands for the index of the body force among these values.
    """

    step: Callable[..., tuple[Any, ...]]
    results: tuple[str, ...]
    outward: bool = True
    after: str = ""


@dataclass(frozen=True)
class Algorithm:
    """Recursive algorithm: its passes, inputs and output, and the values that bodies share.

    Attributes:
        inputs: Names of the inputs.
        shared: Names of the values of a body that its parent or its children use.
        passes: Passes over the bodies.
        output: Name of the output.
        columns: Results with one column per velocity variable: number of rows, by result name.
        matrices: Names of the results (nv, nv) that the C files in `texts` compute from `columns`.
        tensors: Names of the results (nv, nv, nv) that these C files compute from `columns`.
        texts: C files that compute the matrices and tensors.
        scratch: Number of additional matrices (nv, nv) in the workspace.
        in_plane: True if all bodies move parallel to z = 0; constant elements are then not stored.
        has_gravity: True if gravity (3,) is an input, False if it is a constant.
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
    has_gravity: bool = False


ALGORITHMS = {
    "aba": Algorithm(
        inputs=("q", "qd", "tau"),
        output="qdd",
        shared=("v", "a", "pA", "IA"),
        passes=(
            Pass(outward_step, ("Xup", "S", "v", "c", "IA", "pA")),
            Pass(articulated_step, ("UDinv", "qdd0", "IA_p", "pA_p"), outward=False),
            Pass(acceleration, ("qdd", "a")),
        ),
    ),
    "rnea": Algorithm(
        inputs=("q", "qd", "qdd"),
        output="tau",
        shared=("v", "a", "f"),
        passes=(
            Pass(net_force, ("Xup", "S", "v", "a", "f")),
            Pass(transmitted_force, ("tau", "f_p"), outward=False),
        ),
    ),
}


def _energy_of_joint(
    model: Model, i: int, q: Array, qd: Array, v_p: Array, X0_p: Any, gravity: Array
) -> tuple[Any, Array, Array]:
    """Return the velocity v, the pose X0 and the energy E of body i, as in `body_energy`.

    The output E of the algorithm has nv elements: one element per joint variable. The elements of
    joint i are therefore the energy of body i, followed by zeros.
    """
    v, X0, E = body_energy(model, i, q, qd, v_p, X0_p, gravity)
    return v, X0, np.array([E, *[0.0] * (model.joint[i].nv - 1)], dtype=object)


ALGORITHMS |= {
    "tree_aba": replace(ALGORITHMS["aba"], has_gravity=True),
    "tree_energy": Algorithm(
        inputs=("q", "qd", "tau"),
        output="E",
        shared=("v", "X0"),
        passes=(Pass(_energy_of_joint, ("v", "X0", "E")),),
        has_gravity=True,
    ),
}

_TRIANGLE = np.array(
    [[0, 1, 3], [1, 2, 4], [3, 4, 5]]
)  # indices at which a symmetric matrix stores its elements
_SQUARE = np.arange(9).reshape(3, 3)


def _zz_indices(place: int) -> Array:
    """Return the storage indices (3, 3) of a matrix whose only stored element is (2, 2).

    The element (2, 2) has the index `place`. The other elements are zero and have the index -1.
    """
    return np.array([[-1, -1, -1], [-1, -1, -1], [-1, -1, place]])


# shared values: constructor, and the storage indices of the elements of each constructor
# argument, relative to the first index of the value
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
# shared values for motion parallel to z = 0; _ZERO and _ONE mark elements with constant values
_ZERO, _ONE = -1, -2
_IN_PLANE: Mapping[str, _Places] = {
    "I": (_SHARED["I"][0], [np.arange(1), np.array([1, 2, _ZERO]), _zz_indices(3)]),
    "X0": (Factor, [np.array([[0, 1, -1], [2, 3, -1], [-1, -1, _ONE]]), np.array([4, 5, _ZERO])]),
    "B1": (np.asarray, [_zz_indices(0)]),
    "P": (np.asarray, [np.array([0, 1, _ZERO])]),
}
_VECTOR_IN_PLANE: _Places = (np.asarray, [np.array([-1, -1, 0, 1, 2, -1])])
# nonzero rows of columns for motion parallel to z = 0
ROWS_IN_PLANE = {
    "tau0": (0,),
    "S": (2, 3, 4),
    "R": (2, 5, 6, 7),
    "X": (2, 5, 6, 7, 11, 14, 15, 16),
    "G": (2, 3, 4, 8, 9, 10),
}


def _size(places: list[Array]) -> int:
    """Return the number of doubles that a value with the storage indices `places` occupies."""
    return 1 + max(int(part.max()) for part in places)


@dataclass(eq=False)
class BodyType:
    """Body type of an algorithm, with its traced leaf functions.

    `cells` is the number of doubles that a body stores between the passes. `operations` is the
    number of arithmetic operations of the leaf functions. Both increase with each call of `leaf`.
    """

    algorithm: Algorithm
    joint: Any
    inertia: RigidInertia
    Xtree: Transform
    names: dict[int, str]  # C name of each symbol, by its node
    notation: Notation = SCALAR
    base: Mapping[str, Any] | None = None  # values of the parent if it is the fixed base
    cells: int = 0
    operations: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    symbols: list[ca.SX] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Assign a storage index to each shared value; the indices are equal for all body types."""
        self.offsets = {}
        for name in self.algorithm.shared:
            self.offsets[name] = self.cells
            self.cells += _size(self._storage(name)[1])

    def _storage(self, name: str) -> _Places:
        """Return the constructor of a shared value, and the storage index of each element."""
        if self.algorithm.in_plane:
            return _IN_PLANE.get(name, _VECTOR_IN_PLANE)
        return _SHARED.get(name, _VECTOR)

    def symbol(self, name: str) -> Traced:
        """Create a symbol with the C name `name`, and register it in this body type."""
        sx = ca.SX.sym(name)
        self.symbols.append(sx)
        self.names[sx.element_hash()] = name
        return Traced(sx)

    @property
    def gravity(self) -> Array:
        """New symbols (3,) for gravity."""
        return _array([self.symbol(f"gravity[{k}]") for k in range(3)])

    def leaf(self, step: Pass) -> str:
        """Return the C statements of one pass of the algorithm for bodies of this type."""
        model = SimpleNamespace(
            joint=(self.joint,), Xtree=(self.Xtree,), inertia=(self.inertia,), algebra=Model.algebra
        )
        parameters = list(signature(step.step).parameters.values())[2:]
        wanted = [one.name for one in parameters if one.default is one.empty]
        results = step.step(model, 0, *map(self._argument, wanted))
        assignments: dict[str, ca.SX] = {}
        for name, value in zip(step.results, results, strict=True):
            if name:
                assignments.update(self._store_result(name, value))
        function, used = _function(assignments, self.symbols)
        self.operations += operation_count(function)
        places = [self.names[sx.element_hash()] for sx in used]
        return _assignment_statements(function, places, list(assignments), self.notation)

    def _argument(self, name: str) -> Any:
        if name == "gravity":
            return self.gravity
        if name in ("q", "qd", "qdd", "tau"):
            size = self.joint.nq if name == "q" else self.joint.nv
            return _array([self.symbol(f"{name}[{k}]") for k in range(size)])
        if name.endswith("_p"):
            key = name.removesuffix("_p")
            return self.base[key] if self.base else self._cells_of(key, "p")
        return self._cells_of(name, "w") if name in self.offsets else self.values[name]

    def _cells_of(self, name: str, owner: str) -> Any:
        make, parts = self._storage(name)
        first = self.offsets[name]
        cells = [self.symbol(f"{owner}[{first + k}]") for k in range(_size(parts))]
        elements = [*cells, 1.0, 0.0]  # _ONE and _ZERO are the indices of the last two elements
        return make(
            *(_array([elements[k] for k in part.ravel()]).reshape(part.shape) for part in parts)
        )

    def _store_result(self, name: str, value: Any) -> Iterator[tuple[str, ca.SX]]:
        """Yield the C assignments (target, value) that store a result of a pass.

        Other passes, other bodies or the caller of the algorithm read the stored values.
        """
        key = name.removesuffix("_p")
        if name.endswith("_p"):
            if not self.base:  # no force is stored for the base
                yield from self._share(key, self._cells_of(key, "p") + value, "p")
        elif key == self.algorithm.output:
            yield from ((f"{key}[{k}]", _sx(element)) for k, element in enumerate(value))
        elif key in self.offsets:
            yield from self._share(key, value, "w")
        elif key in self.algorithm.columns:
            yield from self._column(key, np.atleast_2d(value))
        else:
            stored: dict[int, tuple[Traced, ca.SX]] = {}
            self.values[name] = _map_elements(value, lambda element: self._cell(element, stored))
            yield from ((self.names[cell.sx.element_hash()], sx) for cell, sx in stored.values())

    def _share(self, key: str, value: Any, owner: str) -> Iterator[tuple[str, ca.SX]]:
        for places, part in zip(self._storage(key)[1], _parts(value), strict=True):
            for place, element in zip(places.ravel(), part.ravel(), strict=True):
                if place >= 0:
                    yield f"{owner}[{self.offsets[key] + place}]", _sx(element)

    def _column(self, key: str, value: Array) -> Iterator[tuple[str, ca.SX]]:
        """Yield the C assignments that store the result `key`, with a column per velocity variable.

        The C code after the passes, and later passes, read the columns from the same memory.
        """
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

    def _cell(self, element: Any, stored: dict[int, tuple[Traced, ca.SX]]) -> Any:
        """Return the symbol of the memory cell that stores an element between the passes.

        A constant or a body parameter needs no memory cell; the function returns it unchanged.
        `stored` maps hashes of elements to pairs (symbol, element). The function adds each new cell
        to `stored`.
        """
        if not isinstance(element, Traced) or self.names.get(
            element.sx.element_hash(), "w"
        ).startswith("k"):
            return element
        node = element.sx.element_hash()
        if node not in stored:
            stored[node] = self.symbol(f"w[{self.cells}]"), element.sx
            self.cells += 1
        return stored[node][0]


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


def _map_elements(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to each element of an array, transform or inertia."""
    if isinstance(value, Factors):
        return Factors(*(_map_elements(X, function) for X in value.factors))
    if isinstance(value, Transform):
        return Factor(_map_elements(value.E, function), _map_elements(value.r, function))
    if isinstance(value, RigidInertia):
        return RigidInertia(
            function(value.m), _map_elements(value.h, function), _map_elements(value.I, function)
        )
    return _array([function(element) for element in value.ravel()]).reshape(value.shape)


def _function(
    assignments: Mapping[str, ca.SX], symbols: list[ca.SX]
) -> tuple[ca.Function, list[ca.SX]]:
    """Return a CasADi function of the assigned expressions, and its input symbols."""
    results = ca.cse(ca.densify(ca.vertcat(*assignments.values())))
    used = [sx for sx in symbols if ca.depends_on(results, sx)]
    return ca.Function("leaf", [ca.vertcat(*used)], [results]), used


def _assignment_statements(
    function: ca.Function, places: list[str], targets: list[str], notation: Notation
) -> str:
    """Return C statements that compute `function` and assign its outputs to `targets`.

    `places` are the C expressions of the inputs. The statements read all inputs before the first
    assignment.
    """
    values = [notation.number(one) if one.startswith("k") else one for one in places]
    lines = [f"const {notation.real} x{k} = {value};" for k, value in enumerate(values)]
    lines += statements(function, [f"x{k}" for k in range(len(places))], targets, notation)
    return "\n".join(f"    {line}" for line in lines)


# body types


def body_numbers(model: Model, i: int) -> Array:
    """Return the parameters of body i as a flat array.

    The parameters are Xtree, the inertia and the real parameters of the joint.
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
    """Return the type of a joint, and its fields that are not real parameters."""
    return type(joint), tuple(
        getattr(joint, f.name) for f in fields(joint) if f.name not in _parameters(joint)
    )


def body_types(model: Model, most: int = 4) -> tuple[list[int], list[tuple[int, Array]]]:
    """Return the type index of each body, and an example body and a pattern for each type.

    The pattern contains the parameters that are equal for all bodies of the type, and NaN for all
    other parameters. Each combination of a joint type and a pattern of zeros and ones is a body
    type. If a joint type has more than `most` patterns, all its bodies have a single type. Bodies
    on the fixed base have separate types.
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
    return place, [
        (bodies[0], _common_parameters([patterns[i] for i in bodies])) for bodies in alike
    ]


def _common_parameters(patterns: list[Array]) -> Array:
    """Merge patterns: keep the parameters that are equal in all patterns, and set others to NaN."""
    return reduce(lambda one, two: np.where(one == two, one, np.nan), patterns)


def traced_body(
    model: Model, i: int, pattern: Array, algorithm: Algorithm, notation: Notation
) -> BodyType:
    """Return the body type of body i, with a symbol k[j] for each NaN in `pattern`."""
    symbols = [ca.SX.sym(f"k[{k}]") for k in range(int(np.isnan(pattern).sum()))]
    names = {sx.element_hash(): f"k[{k}]" for k, sx in enumerate(symbols)}
    unknown = map(Traced, symbols)
    numbers = [next(unknown) if np.isnan(number) else float(number) for number in pattern]

    # in the order of `body_numbers`
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
    body = BodyType(algorithm, joint, inertia, Xtree, names, notation, base, symbols=symbols)
    if base and algorithm.has_gravity:
        body.base = base | {"a": minus_gravity(model, body.gravity)}
    return body
