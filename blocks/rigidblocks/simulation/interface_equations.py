"""The equations of parts that read each other in circles: what each gives, the others got."""

from collections.abc import Callable, Sequence

import numpy as np

from rigidblocks.algebra.spatial import Array

ENOUGH = 1e-13  # of the size of a value: so closely parts agree
ROUNDED = 1e-12  # and so closely where rounding lets them come no closer
MOST = 50  # steps of one solution


class InterfaceEquations:
    """w = y(w) for values w (n,) that parts exchange, by Newton's method.

    The slopes dy/dw are those that the parts tell, as long as these lead to the solution, and else
    found by differences, where one evaluation serves all values that no part reads together; then
    they follow by Broyden's update, from one solution to the next too, and are found anew where
    that does not converge. `readers` are the parts that read each value, `owners` those that give
    it.
    """

    def __init__(self, owners: Sequence[str], readers: Sequence[set[str]], name: str):
        self._owners, self._readers, self._name = list(owners), list(readers), name
        self._colors = _colors(self._readers)
        reads = [[owner in some for some in self._readers] for owner in self._owners]
        self._untold = np.where(np.array(reads, dtype=bool), np.nan, 0.0)
        self._slopes: Array | None = None
        self._trusts = True  # in what the parts tell
        self.evaluations = 0

    def solve(
        self,
        outputs: Callable[[Array], Array],
        w: Array,
        scale: Array,
        told: Callable[[], Array] | None = None,
    ) -> Array:
        """The solution, near to w, for values of the sizes `scale`; `outputs` is y, and was last
        called with the solution. `told` are the slopes dy/dw (n, n) where `outputs` was last
        called, as far as the parts tell them, else NaN; they may be rough.

        Raises ArithmeticError where none is found.
        """

        def residual(values: Array) -> Array:
            self.evaluations += 1
            return np.asarray((outputs(values) - values) / scale)

        r, is_fresh = residual(w), False
        for _ in range(MOST):
            size = _size(r)
            if size <= ENOUGH:
                return w
            if self._slopes is None:
                known = told() if told is not None and self._trusts else self._untold
                self._slopes, is_fresh = self._found(known, residual, w, r, scale), True
            step = self._step(r)
            new = residual(w + scale * step)
            if is_fresh:
                step, new = self._shortened(residual, w, scale, step, new, size)
            if _size(new) < size:
                self._update(step, new - r, slow=_size(new) > 0.5 * size)
                w, r, is_fresh = w + scale * step, new, False
            elif size <= ROUNDED:
                residual(w)  # to be there again
                return w
            elif is_fresh and (told is None or not self._trusts):
                break
            else:
                self._slopes, self._trusts = None, False
        self._slopes = None
        raise ArithmeticError(
            f"what {self._name} exchange does not come to agree: it is off by {_size(r):.3g} of "
            "its size; there may be no solution near: take a shorter step"
        )

    def _update(self, step: Array, change: Array, slow: bool) -> None:
        """Broyden's update of the slopes; they are forgotten where they have done badly."""
        assert self._slopes is not None
        self._trusts = self._trusts and not slow
        off = change - self._slopes @ step
        self._slopes = None if slow else self._slopes + np.outer(off, step) / (step @ step)

    def _step(self, r: Array) -> Array:
        assert self._slopes is not None
        try:
            return np.asarray(np.linalg.solve(self._slopes, -r))
        except np.linalg.LinAlgError:
            raise ArithmeticError(
                f"what {self._name} exchange has no unique solution: the gain around their loop "
                "is 1"
            ) from None

    def _shortened(
        self,
        residual: Callable[[Array], Array],
        w: Array,
        scale: Array,
        step: Array,
        new: Array,
        size: float,
    ) -> tuple[Array, Array]:
        """The step, or as much of it as makes the residual smaller."""
        for _ in range(8):
            if _size(new) < size:
                break
            step = 0.5 * step
            new = residual(w + scale * step)
        return step, new

    def _found(
        self,
        known: Array,
        residual: Callable[[Array], Array],
        w: Array,
        r: Array,
        scale: Array,
    ) -> Array:
        """The slopes of the residual in the scaled values; what is not `known` by differences."""
        slopes = known * scale / scale[:, None]
        for color in self._colors:
            change = np.zeros(len(w))
            change[color] = _DIFFERENCE
            if not np.isnan(slopes[:, color]).any():
                continue
            y = residual(w + scale * change) + change  # of the outputs alone
            for k in color:
                rows = np.isnan(slopes[:, k])
                slopes[rows, k] = (y[rows] - r[rows]) / _DIFFERENCE
        return np.asarray(slopes - np.eye(len(w)))


_DIFFERENCE = 1e-7  # of the size of a value


def _size(r: Array) -> float:
    size = float(np.abs(r).max(initial=0.0))
    return size if np.isfinite(size) else np.inf


def _colors(readers: Sequence[set[str]]) -> list[list[int]]:
    """The values in as few lists as it easily gets, no two of a list read by one part."""
    colors: list[tuple[set[str], list[int]]] = []
    for k, some in enumerate(readers):
        for taken, color in colors:
            if not taken & some:
                taken |= some
                color.append(k)
                break
        else:
            colors.append((set(some), [k]))
    return [color for _, color in colors]
