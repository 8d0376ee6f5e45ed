"""Functions of scalars and arrays, which may be traced, and dual numbers.

The algorithms accept floats and traced scalars (object arrays). They use `select` instead of a
data-dependent `if`, because `select` supports both types. Arithmetic, `np.sin`, `np.sqrt` and
similar NumPy functions support traced scalars directly.

A dual number a + b e with e^2 = 0 has the value a and the exact first derivative b (RBDA 3.5).
"""

import math
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isinf
from numbers import Real
from typing import Any

import numpy as np

Number = Any  # a float, a traced scalar, or an array of either


def _select_one(condition: Any, a: Any, b: Any) -> Any:
    return condition.select(a, b) if hasattr(condition, "select") else (a if condition else b)


_select_each = np.frompyfunc(_select_one, 3, 1)


def select(condition: Number, a: Number, b: Number) -> Number:
    """Return `a` for elements that satisfy the condition, and `b` for other elements.

    The function replaces `if` in traced functions. It evaluates `a` and `b`, and broadcasts their
    shapes.
    """
    if is_traced(condition, a, b):
        return _select_each(condition, a, b)
    return np.where(condition, a, b)


def piecewise(margin: Number, above: Number, below: Number, whole: Number = None) -> Number:
    """Return `above` for a positive margin and `below` otherwise, element by element.

    In model exchange the margin is an event indicator, and the active branch does not change
    between two events. The integrator therefore evaluates the active branch slightly beyond the
    sign change, where the branch must be finite and differentiable. Outside model exchange, the
    result is `select(less(0, margin), above, below)`.

    Args:
        margin: The margin, whose typical magnitude should be about 1.
        above: The value for a positive margin.
        below: The value for any other margin.
        whole: The result outside model exchange, with the values of the piecewise function; None:
            `select(less(0, margin), above, below)`.
    """
    if whole is None:
        whole = select(less(0.0, margin), above, below)
    if not is_traced(margin):
        return whole
    return _choice_each(margin, above, below, whole)


def _choice_one(margin: Any, above: Any, below: Any, whole: Any) -> Any:
    return margin.choice(above, below, whole) if hasattr(margin, "choice") else whole


_choice_each = np.frompyfunc(_choice_one, 4, 1)


def is_number(value: Any, number: float) -> bool:
    """Return True if a value is not traced and equals `number`.

    Use this check only to omit operations. The result must not depend on the check, because an
    untraced value may equal the number by chance.
    """
    # float comes first, because isinstance is much faster for float than for Real
    return isinstance(value, (float, Real)) and value == number


def less(a: Number, b: Number) -> Number:
    """Return a < b, element by element.

    The operator `<` supports floats and traced scalars, but not traced arrays.
    """
    return np.less(a, b, dtype=object) if is_traced(a, b) else np.less(a, b)


def minimum(a: Number, b: Number) -> Number:
    """Return the smaller of `a` and `b`, element by element; NaN if `a` or `b` is NaN."""
    return _minimum_each(a, b) if is_traced(a, b) else np.minimum(a, b)


def maximum(a: Number, b: Number) -> Number:
    """Return the larger of `a` and `b`, element by element; NaN if `a` or `b` is NaN."""
    return _maximum_each(a, b) if is_traced(a, b) else np.maximum(a, b)


# A comparison with NaN is false, so a false comparison selects the operand that may be NaN. If both
# operands may be NaN, the traced scalars implement the operation.


def _minimum_one(a: Any, b: Any) -> Any:
    if hasattr(a, "minimum") and hasattr(b, "minimum"):
        return a.minimum(b)
    return _select_one(b < a, b, a) if isinstance(b, Real) else _select_one(a < b, a, b)


def _maximum_one(a: Any, b: Any) -> Any:
    if hasattr(a, "maximum") and hasattr(b, "maximum"):
        return a.maximum(b)
    return _select_one(a < b, b, a) if isinstance(b, Real) else _select_one(b < a, a, b)


_minimum_each = np.frompyfunc(_minimum_one, 2, 1)
_maximum_each = np.frompyfunc(_maximum_one, 2, 1)


def erf(a: Number) -> Number:
    """Return the error function, element by element."""
    values = _erf_each(a)
    return values if is_traced(a) else np.asarray(values, dtype=float)[()]


_erf_each = np.frompyfunc(lambda a: a.erf() if hasattr(a, "erf") else math.erf(a), 1, 1)
LEAST_PRODUCT = 256  # smallest matrix for a loop in C; smaller products are straight-line code


def matrix_product(W: Any, x: Number) -> Number:
    """Return W x for a constant matrix W (m, n) and a vector x (n,), which may be traced.

    In the C code of a traced function, the product of a matrix with `LEAST_PRODUCT` or more
    elements is a loop over a table. The expression `W @ x` would generate one multiplication for
    each element of W.
    """
    if W.size >= LEAST_PRODUCT and is_traced(x):
        for element in x:
            if hasattr(element, "matrix_product"):
                return element.matrix_product(W, x)
    return W @ x


def square_root(a: Any) -> Any:
    """Return the square root, element by element; the elements may be traced."""
    return _sqrt_each(a) if np.asarray(a).dtype == object else np.sqrt(a)


_sqrt_each = np.frompyfunc(np.sqrt, 1, 1)


def clip(value: Number, low: Number, high: Number) -> Number:
    """Return `value` limited to [low, high], element by element."""
    return minimum(maximum(value, low), high)


def clip_with_events(value: Number, low: Number, high: Number) -> Number:
    """Return `value` limited to [low, high], with events at finite limits in model exchange."""
    return minimum_with_event(maximum_with_event(value, low), high)


def maximum_with_event(value: Number, low: Number) -> Number:
    """Return the larger of `value` and `low`, with an event at value = low in model exchange."""
    limited = maximum(value, low)
    return piecewise(excess(value, low), value, low, limited) if is_traced(limited) else limited


def minimum_with_event(value: Number, high: Number) -> Number:
    """Return the smaller of `value` and `high`, with an event at value = high in model exchange."""
    limited = minimum(value, high)
    return piecewise(excess(high, value), value, high, limited) if is_traced(limited) else limited


def excess(a: Number, b: Number) -> Number:
    """Return a margin between -1 and 1 that is positive for finite a > b.

        (a - b) / (1 + |a| + |b|)

    If a or b is infinite, the result is 1, because an infinite limit is never reached.
    """
    margin = _excess_each(a, b)
    return margin if is_traced(a, b) else np.asarray(margin, dtype=float)


def _excess_one(a: Any, b: Any) -> Any:
    if any(isinstance(one, Real) and isinf(one) for one in (a, b)):
        return 1.0
    return (a - b) / (1.0 + np.abs(a) + np.abs(b))


_excess_each = np.frompyfunc(_excess_one, 2, 1)


class DerivativeForm:
    """Request for the form of traced functions, with or without terms for derivatives.

    `wanted` is True for the form that includes the terms for derivatives. `exists` becomes True
    when a function with two forms is traced, that is, calls `is_traced_for_derivatives`.
    """

    def __init__(self, wanted: bool):
        self.wanted = wanted
        self.exists = False  # True if the function has a separate form for derivatives


_forms = threading.local()


@contextmanager
def derivative_form(wanted: bool) -> Iterator[DerivativeForm]:
    """Trace functions with their terms for derivatives if `wanted` is True, else without them.

    Within the context, `is_traced_for_derivatives` returns `wanted` for traced values. The context
    manager yields a `DerivativeForm`, which shows if such a call has occurred.
    """
    outer: DerivativeForm | None = getattr(_forms, "form", None)
    _forms.form = form = DerivativeForm(wanted)
    try:
        yield form
    finally:
        _forms.form = outer


def is_traced_for_derivatives(*values: Number) -> bool:
    """Return True if a function of these traced values must include its terms for derivatives.

    A function may omit terms whose current value is zero. It then also omits their derivatives. If
    the result is True, the trace will be differentiated, and the function must include these terms.
    """
    form: DerivativeForm | None = getattr(_forms, "form", None)
    if form is None or not is_traced(*values):
        return False
    form.exists = True
    return form.wanted


def is_traced(*values: Number) -> bool:
    """Return True if one of the numbers or arrays may have traced elements."""
    return any(np.asarray(value).dtype == object for value in values)


def _elementwise(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Convert an operation on two dual numbers to a method of `Dual`.

    NumPy applies the method to each element of an array operand.
    """

    def apply(first: Any, second: Any) -> Any:
        if isinstance(second, np.ndarray):
            return NotImplemented
        return operation(first, second if isinstance(second, Dual) else Dual(second, 0.0))

    return apply


def _comparison(name: str) -> Callable[[Any, Any], Any]:
    def compare(first: Any, second: Any) -> Any:
        if isinstance(second, np.ndarray):
            return NotImplemented
        return Choice(
            getattr(operator, name)(
                first.value, second.value if isinstance(second, Dual) else second
            )
        )

    return compare


class Choice:
    """Result of a comparison of dual numbers; a valid condition of `select`."""

    __slots__ = ("condition",)

    def __init__(self, condition: Any):
        self.condition = condition

    def __bool__(self) -> bool:
        return bool(self.condition)

    def select(self, a: Any, b: Any) -> "Dual":
        """Return `a` if the condition is true, else `b`.

        `rigidblocks.spatial.scalar.select` calls this method.
        """
        a, b = (x if isinstance(x, Dual) else Dual(x, 0.0) for x in (a, b))
        if not hasattr(self.condition, "select"):
            chosen: Dual = a if self.condition else b
            return chosen
        return Dual(
            select(self.condition, a.value, b.value), select(self.condition, a.slope, b.slope)
        )


class Dual:
    """Dual number value + slope e with e^2 = 0.

    The class supports the arithmetic and the functions that joints and loop-closure functions use.
    For second derivatives, value and slope are also dual numbers.
    """

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any):
        self.value = value
        self.slope = slope

    def __neg__(self) -> "Dual":
        return Dual(-self.value, -self.slope)

    __add__ = __radd__ = _elementwise(lambda a, b: Dual(a.value + b.value, a.slope + b.slope))
    __sub__ = _elementwise(lambda a, b: Dual(a.value - b.value, a.slope - b.slope))
    __rsub__ = _elementwise(lambda a, b: b - a)
    __mul__ = __rmul__ = _elementwise(
        lambda a, b: Dual(a.value * b.value, a.slope * b.value + a.value * b.slope)
    )
    __truediv__ = _elementwise(
        lambda a, b: Dual(a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value)
    )
    __rtruediv__ = _elementwise(lambda a, b: b / a)

    __lt__, __le__, __gt__, __ge__ = (_comparison(name) for name in ("lt", "le", "gt", "ge"))

    def __pow__(self, power: float) -> "Dual":
        return Dual(self.value**power, power * self.value ** (power - 1) * self.slope)

    def __abs__(self) -> "Dual":
        magnitude: Dual = (self < 0.0).select(-self, self)
        return magnitude

    def __floor__(self) -> "Dual":
        return Dual(np.floor(self.value), 0.0)

    def sin(self) -> "Dual":
        """Return the sine of the dual number; `np.sin` calls this method."""
        return Dual(np.sin(self.value), np.cos(self.value) * self.slope)

    def cos(self) -> "Dual":
        """Return the cosine of the dual number; `np.cos` calls this method."""
        return Dual(np.cos(self.value), -(np.sin(self.value) * self.slope))

    def sqrt(self) -> "Dual":
        """Return the square root of the dual number; `np.sqrt` calls this method."""
        root = np.sqrt(self.value)
        return Dual(root, self.slope / (root + root))

    def tan(self) -> "Dual":
        """Return the tangent of the dual number; `np.tan` calls this method."""
        value = np.tan(self.value)
        return Dual(value, (1.0 + value * value) * self.slope)

    def arcsin(self) -> "Dual":
        """Return the arc sine of the dual number; `np.arcsin` calls this method."""
        return Dual(np.arcsin(self.value), self.slope / np.sqrt(1.0 - self.value * self.value))

    def arccos(self) -> "Dual":
        """Return the arc cosine of the dual number; `np.arccos` calls this method."""
        return Dual(np.arccos(self.value), -(self.slope / np.sqrt(1.0 - self.value * self.value)))

    def arctan(self) -> "Dual":
        """Return the arc tangent of the dual number; `np.arctan` calls this method."""
        return Dual(np.arctan(self.value), self.slope / (1.0 + self.value * self.value))

    def arctan2(self, other: Any) -> "Dual":
        """Return the angle of the point (other, self); `np.arctan2` calls this method."""
        x = other if isinstance(other, Dual) else Dual(other, 0.0)
        slope = (self.slope * x.value - self.value * x.slope) / (
            self.value * self.value + x.value * x.value
        )
        return Dual(np.arctan2(self.value, x.value), slope)

    def exp(self) -> "Dual":
        """Return the exponential of the dual number; `np.exp` calls this method."""
        value = np.exp(self.value)
        return Dual(value, value * self.slope)

    def log(self) -> "Dual":
        """Return the natural logarithm of the dual number; `np.log` calls this method."""
        return Dual(np.log(self.value), self.slope / self.value)
