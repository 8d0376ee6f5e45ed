"""Products with large constant matrices in expression graphs and in C code.

A product y = W x is one call in the graph. The C code contains W as a table, and loops over its
rows and columns. The size of the remaining code grows only with the sizes of x and y.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import IN_LANES, Assignment, Notation, Number

BLOCK_ROWS = 16  # RB_BLOCK_ROWS in c/algorithms/matrix_product.h
_LINE = 8  # numbers per line of C code
_CALL = re.compile(r"((?:fwd1_|adj1_)*)(product_[0-9a-f]{16})")
_SCALAR_TEXT = """static void {name}(const double *x, double *y)
{{
    static const {kind} W[{size}] = {{
{numbers}
    }};
    {function}(W, {rows}, {columns}, x, y);
}}
"""
_IN_LANES_TEXT = """static void {name}(const real *x, real *y)
{{
    static const {kind} W[{size}] = {{
{numbers}
    }};
    for (int i = 0; i < {out}; i++) {{
        real sum = lanes(0.0);
        for (int j = 0; j < {into}; j++)
            sum = sum + lanes((double)W[{place}]) * x[j];
        y[i] = sum;
    }}
}}
"""


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """Product y = W x with a constant matrix W (m, n), or y = W^T x if `transposed` is True.

    Attributes:
        name: Name of the C function.
        W: Matrix (m, n).
        transposed: True for the product with the transposed matrix.
    """

    name: str
    W: Array
    transposed: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """Sizes of the result y and of the argument x."""
        m, n = self.W.shape
        return (n, m) if self.transposed else (m, n)

    def c_text(self, notation: Notation) -> str:
        """Return the C code of the function, with a guard against repeated definition."""
        with np.errstate(over="ignore"):
            exact = bool(np.all(self.W.astype(np.float32) == self.W))
        stored, name = _block_order(self.W), self.c_name(notation)
        (m, n), (out, into) = self.W.shape, self.sizes
        kind = "float" if exact else "double"
        texts = [f"{np.float32(value)!s}f" if exact else repr(float(value)) for value in stored]
        lines = (", ".join(texts[k : k + _LINE]) for k in range(0, len(texts), _LINE))
        row, column = ("j", "i") if self.transposed else ("i", "j")
        body = (_IN_LANES_TEXT if notation is IN_LANES else _SCALAR_TEXT).format(
            name=name,
            kind=kind,
            size=len(texts),
            numbers=",\n".join(f"        {line}" for line in lines),
            function=("transposed" if self.transposed else "matrix")
            + "_product"
            + "_float" * exact,
            rows=m,
            columns=n,
            out=out,
            into=into,
            place=f"({row} / {BLOCK_ROWS} * {n} + {column}) * {BLOCK_ROWS} + {row} % {BLOCK_ROWS}",
        )
        return f"#ifndef HAS_{name}\n#define HAS_{name}\n{body}#endif\n"

    def c_name(self, notation: Notation) -> str:
        """Return the name of the C function for scalars or for SIMD lanes."""
        return f"{self.name}_lanes" if notation is IN_LANES else self.name


def _block_order(W: Array) -> Array:
    """Return the elements of W in blocks of `BLOCK_ROWS` rows, each block column by column."""
    m, n = W.shape
    padded = np.zeros((-(-m // BLOCK_ROWS) * BLOCK_ROWS, n))
    padded[:m] = W
    blocks: Array = padded.reshape(-1, BLOCK_ROWS, n).transpose(0, 2, 1).ravel()
    return blocks


class _Product(NamedTuple):
    product: MatrixProduct
    function: ca.Function


_PRODUCTS: dict[str, _Product] = {}


def product_expression(W: Array, x: ca.SX) -> ca.SX:
    """Return the expression W x (m,) for a constant matrix W (m, n) and the expressions x (n,).

    The expression is one call of a CasADi function. Each of its derivatives is also one call.
    """
    return _product_of(W).function(x)


def _product_of(W: Array) -> _Product:
    flat = np.ascontiguousarray(W, dtype=float)
    digest = hashlib.sha256(repr(flat.shape).encode() + flat.tobytes()).hexdigest()[:16]
    name = f"product_{digest}"
    if name not in _PRODUCTS:
        x = ca.MX.sym("x", flat.shape[1])
        function = ca.Function(name, [x], [ca.mtimes(ca.DM(flat), x)], {"never_inline": True})
        _PRODUCTS[name] = _Product(MatrixProduct(name, flat), function)
    return _PRODUCTS[name]


class ProductCall(NamedTuple):
    """Call of a product or of one of its derivatives in a CasADi function.

    Attributes:
        name: Name of the called CasADi function.
        product: Product that the call computes; for an adjoint derivative, the product with W^T.
    """

    name: str
    product: MatrixProduct

    def assignment(
        self, targets: Mapping[int, str], operands: Sequence[str], notation: Notation
    ) -> Assignment:
        """Return the C statement that calls the product and assigns its results to new variables.

        CasADi passes the argument and the result of the product to the function of a derivative,
        and then the vector to be multiplied. The function depends only on this last vector.

        Args:
            targets: Names of the used results, by index of the result.
            operands: C expressions of the arguments of the CasADi function.
            notation: Notation of numbers and operations.

        Raises:
            NotImplementedError: The derivative has several results.
        """
        out, into = self.product.sizes
        if max(targets, default=0) >= out or len(operands) < into:
            raise NotImplementedError(
                f"the C code does not support the derivative {self.name} of a matrix product"
            )
        name = self.product.c_name(notation)
        return call_assignment(name, targets, operands[len(operands) - into :], out, notation)


def call_assignment(
    name: str,
    targets: Mapping[int, str],
    operands: Sequence[str],
    out: int,
    notation: Notation,
) -> Assignment:
    """Return the C statement that calls name(in, out) and assigns the results to new variables.

    Args:
        name: Name of the C function.
        targets: Names of the used results, by index of the result.
        operands: C expressions of the arguments.
        out: Number of results of the function.
        notation: Notation of numbers and operations.
    """
    texts = [notation.number("%s") if type(one) is Number else "%s" for one in operands]
    real, names = notation.real, tuple(targets.values())
    stores = " ".join(f"%s = call_out[{k}];" for k in targets)
    form = (
        f"{real} {', '.join(['%s'] * len(names))}; "
        f"{{ const {real} call_in[] = {{{', '.join(texts) or '0'}}}; "
        f"{real} call_out[{out}]; {name}(call_in, call_out); {stores} }}"
    )
    return Assignment(names, form, (*names, *operands, *names))


def product_call(name: str) -> ProductCall | None:
    """Return the product call of the CasADi function `name`, or None if it is no product."""
    found = _CALL.fullmatch(name)
    if found is None:
        return None
    product = _PRODUCTS[found[2]].product
    if found[1].count("adj1_") % 2:
        product = MatrixProduct(f"transposed_{product.name}", product.W, True)
    return ProductCall(name, product)


def product_texts(calls: Iterable[str], notation: Notation) -> Iterator[str]:
    """Yield the C code of each product among the called functions `calls`."""
    for name in dict.fromkeys(calls):
        if call := product_call(name):
            yield call.product.c_text(notation)
