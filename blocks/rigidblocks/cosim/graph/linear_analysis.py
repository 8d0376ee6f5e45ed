"""Analysis of linear systems: poles, zeros, frequency response, stability margins, step response.

The functions use the matrices A, B, C and D of a `Linearization`. The sample time dt [s] is None
for a continuous system.

References: Emami-Naeini and Van Dooren, Computation of zeros of linear multivariable systems,
Automatica 18 (1982); Astrom and Murray, Feedback Systems (2008), chapters 9 and 10.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rigidblocks.common.optional_imports import module_of
from rigidblocks.cosim.results.result import finish_figure, panels
from rigidblocks.spatial.spatial import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EPS = float(np.finfo(float).eps)
_RANK = 1e-12  # singular values below this share of the largest count as zero in `zeros`
_POINTS = 400  # number of frequencies of a default range
_NYQUIST_VIEW = 5.0  # largest real and imaginary part in a Nyquist plot; the point -1 stays visible
_DECADES = 14  # decades by which the search for crossovers extends the default range


class Margins(NamedTuple):
    """Stability margins of an open loop with the transfer function L and negative feedback.

    Without a crossover, the margin is infinite and its frequency is NaN. If there are several
    crossovers, `gain` is the factor with the smallest |log(gain)|. `phase` and `delay` are then the
    margins with the smallest magnitude.

    Attributes:
        gain: Gain margin, the factor on L at the stability limit.
        phase: Phase margin [deg], the additional phase lag at the stability limit.
        delay: Delay margin [s], the additional delay at the stability limit.
        omega_gain: Frequency [rad/s] of the phase crossover, where L is real and negative.
        omega_phase: Frequency [rad/s] of the gain crossover, where |L| = 1.
        modulus: Modulus margin, the minimum of |1 + L|.
    """

    gain: float
    phase: float
    delay: float
    omega_gain: float
    omega_phase: float
    modulus: float


@dataclass(frozen=True, eq=False)
class FrequencyResponse:
    """Complex response G (n,) from one input to one output at the frequencies omega (n,) [rad/s].

    `gain` is |G|, `decibel` is 20 log10 |G|, and `phase` [deg] is the unwrapped phase of G. `unit`
    is the unit of the gain, such as "rad per N.m".
    """

    omega: Array
    response: Array
    input: str
    output: str
    unit: str

    @property
    def gain(self) -> Array:
        """Gain |G| (n,)."""
        return np.abs(self.response)

    @property
    def decibel(self) -> Array:
        """Gain 20 log10 |G| (n,) [dB]."""
        with np.errstate(divide="ignore"):
            return 20.0 * np.log10(self.gain)

    @property
    def phase(self) -> Array:
        """Unwrapped phase (n,) [deg]."""
        return np.degrees(np.unwrap(np.angle(self.response)))

    def plot(self, path: Any = None, *, nyquist: bool = False) -> "Figure":
        """Plot the Bode diagram, or the Nyquist curve with the point -1, and return the figure.

        Args:
            path: Path of a file for the figure.
            nyquist: True for the Nyquist curve.

        Raises:
            ImportError: The package matplotlib is not installed.
        """
        title = f"{self.input} to {self.output}"
        if nyquist:
            figure, (axis,) = panels(1, title, 4.5)
            axis.plot(self.response.real, self.response.imag, label="0 to infinity")
            axis.plot(self.response.real, -self.response.imag, "--", label="mirrored")
            axis.plot([-1.0], [0.0], "r+")
            # clip large gains, which would hide the curve near the critical point -1
            view = min(1.1 * max(1.0, float(self.gain.max())), _NYQUIST_VIEW)
            axis.set(xlim=(-view, view), ylim=(-view, view), aspect="equal")
            axis.set_xlabel("real part")
            axis.set_ylabel("imaginary part")
            return finish_figure(figure, path)
        figure, (above, below) = panels(2, title)
        above.semilogx(self.omega, self.decibel)
        below.semilogx(self.omega, self.phase)
        above.set_ylabel(f"gain [dB re {self.unit}]")
        below.set_ylabel("phase [deg]")
        below.set_xlabel("frequency [rad/s]")
        return finish_figure(figure, path)


class StepResponse(NamedTuple):
    """Step response: outputs y (n, outputs) at the times t (n,) [s] after a unit input step."""

    t: Array
    y: Array


def zeros(A: Array, B: Array, C: Array, D: Array) -> Array:
    """Return the finite transmission zeros of a linear system.

    Two passes remove the infinite zeros (Emami-Naeini and Van Dooren). The first pass compresses
    the rows of [A, B; C, D], the second pass the columns. The remaining D is invertible, so the
    finite zeros are the eigenvalues of A - B D^-1 C.
    """
    scale = max(np.abs(M).max(initial=0.0) for M in (A, B, C, D)) or 1.0
    system = _remove_infinite_zeros(A, B, C, D, _RANK * scale)
    A, C, B, D = (M.T for M in system)
    A, B, C, D = _remove_infinite_zeros(A, B, C, D, _RANK * scale)
    if not len(A) or not D.size:
        return np.zeros(0, complex)
    found: Array = np.linalg.eigvals(A - B @ np.linalg.lstsq(D, C)[0]).astype(complex)
    return found


def _remove_infinite_zeros(
    A: Array, B: Array, C: Array, D: Array, tolerance: float
) -> tuple[Array, Array, Array, Array]:
    """Return a system (A, B, C, D) with unchanged finite zeros and a matrix D of full row rank.

    Singular values up to `tolerance` count as zero.
    """
    while True:
        U, s, _ = np.linalg.svd(D)
        rank = int(np.sum(s > tolerance))
        C, D = U.T @ C, U.T @ D
        upper, lower = C[:rank], C[rank:]
        if not len(lower):
            return A, B, C, D
        _, s, Vt = np.linalg.svd(lower)
        lost = int(np.sum(s > tolerance))
        if not lost:
            return A, B, upper, D[:rank]
        V = np.concatenate([Vt[lost:], Vt[:lost]]).T  # the last columns span the rows of `lower`
        A, B, upper, n = V.T @ A @ V, V.T @ B, upper @ V, len(A) - lost
        C, D = np.concatenate([A[n:, :n], upper[:, :n]]), np.concatenate([B[n:], D[:rank]])
        A, B = A[:n, :n], B[:n]


def response_at(A: Array, B: Array, C: Array, D: Array, dt: float | None, omega: Array) -> Array:
    """Return the frequency response G (n, outputs, inputs) at omega (n,) [rad/s].

    G = C (s I - A)^-1 B + D,   s = i omega, or s = exp(i omega dt) for a sampled system
    """
    s = 1j * omega if dt is None else np.exp(1j * omega * dt)
    if not len(A):
        return np.tile(D.astype(complex), (len(s), 1, 1))
    try:
        found: Array = C @ np.linalg.solve(s[:, None, None] * np.eye(len(A)) - A, B[None]) + D
    except np.linalg.LinAlgError:  # one of the frequencies is a pole
        if len(s) == 1:
            return np.full((1, *D.shape), np.inf, complex)
        found = np.concatenate(
            [response_at(A, B, C, D, dt, omega[k : k + 1]) for k in range(len(s))]
        )
    return found


def frequency_grid(roots: Array, dt: float | None) -> Array:
    """Return a frequency grid [rad/s] that covers the poles and zeros in `roots`.

    `roots` contains poles and zeros in the s-plane [1/s], or in the z-plane for a sampled system.
    The grid is fine near lightly damped poles and zeros.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        s = roots if dt is None else np.log(roots[np.abs(roots) > 0]) / dt
    size = np.abs(s)[np.isfinite(s)]
    size = size[size > 1e-9 * size.max(initial=0.0)]
    low, high = (size.min() / 100, size.max() * 100) if len(size) else (1e-2, 1e2)
    if dt is not None:
        high = np.pi / dt
        low = min(low, high / 1e4)
    near = np.abs(s.imag)[:, None] + np.abs(s.real)[:, None] * np.linspace(-5, 5, 41)
    omega = np.concatenate([np.geomspace(low, high, _POINTS), near[np.isfinite(near)]])
    return np.unique(omega[(omega >= low) & (omega <= high)])


def stability_margins(
    response: Callable[[Array], Array], omega: Array, dt: float | None
) -> Margins:
    """Return the stability margins of a loop with the frequency response L = response(omega).

    The function extends the grid omega (n,) [rad/s] as long as the gain at its ends approaches 1.
    Sign changes of |L| - 1 and Im L on the extended grid bracket the crossovers, and bisection
    locates them.
    """
    optimize = module_of("scipy.optimize", "the stability margins")

    def bisect(value: Callable[[float], float], low: float, high: float) -> float:
        # the smallest tolerances that SciPy accepts; 1,100 halvings suffice for any interval
        found = optimize.bisect(value, low, high, xtol=1e-300, rtol=4 * _EPS, maxiter=1100)
        return float(found)

    def evaluate(w: float) -> complex:
        return complex(response(np.array([w]))[0])

    omega = _extend_frequencies(response, omega, dt)
    L = response(omega)
    with np.errstate(divide="ignore", invalid="ignore"):
        gains, phases = _crossings(np.abs(L) - 1.0), _crossings(L.imag / np.abs(L))
    at_gain = [bisect(lambda w: abs(evaluate(w)) - 1.0, omega[i], omega[k]) for i, k in gains]
    at_phase = [bisect(lambda w: evaluate(w).imag, omega[i], omega[k]) for i, k in phases]
    # L is also real at zero frequency and at half the sampling rate
    at_phase += [0.0] if dt is None else [0.0, float(np.pi / dt)]
    values = response(np.array(at_phase))
    values[~np.isfinite(values)] = 0.0
    # Im L also changes its sign at a pole, which is not a phase crossover
    values.imag[np.abs(values.imag) > 1e-6 * np.abs(values)] = np.inf
    values[~np.isfinite(values.imag) | (np.abs(values) < 1e-300)] = 0.0
    limits = [(1 / abs(v), w) for v, w in zip(values, at_phase, strict=True) if v.real < 0]
    gain, omega_gain = min(limits, key=lambda one: abs(np.log(one[0])), default=(np.inf, np.nan))
    turned = np.degrees(np.angle(-response(np.array(at_gain)))) if at_gain else np.zeros(0)
    phase, omega_phase = min(
        zip(turned.tolist(), at_gain, strict=True),
        key=lambda one: abs(one[0]),
        default=(np.inf, np.nan),
    )
    lags = [np.radians(a % 360.0) / w for a, w in zip(turned, at_gain, strict=True)]
    k = int(np.argmin(np.abs(1.0 + L)))
    bounds = omega[max(k - 1, 0)], omega[min(k + 1, len(L) - 1)]
    inner = optimize.minimize_scalar(
        lambda w: abs(1.0 + evaluate(w)), bounds=bounds, options={"xatol": 1e-9 * bounds[1]}
    ).fun
    # the infimum may be the limit at zero frequency, at infinity or at half the sampling rate
    ends = response(np.array([0.0, omega[-1] / _EPS if dt is None else np.pi / dt]))
    modulus = min(inner, *np.abs(1.0 + ends))
    delay = float(min(lags, default=np.inf))
    return Margins(float(gain), phase, delay, omega_gain, omega_phase, float(modulus))


def _extend_frequencies(
    response: Callable[[Array], Array], omega: Array, dt: float | None
) -> Array:
    """Extend a frequency grid beyond each end as long as the gain there approaches 1.

    The number of added decades is limited. For a sampled system, the upper end is not extended.
    """

    def slope_towards_one(w: float, factor: float) -> bool:
        here, there = np.abs(response(np.array([w, w * factor])))
        if not (0 < here < np.inf and 0 < there < np.inf):
            return False
        here, there = np.log([here, there])
        return bool(here * there < 0 or abs(there) < abs(here) - 1e-6)

    for _ in range(_DECADES):
        if not slope_towards_one(omega[0], 0.1):
            break
        omega = np.concatenate([np.geomspace(omega[0] / 10, omega[0], 50)[:-1], omega])
    for _ in range(_DECADES if dt is None else 0):
        if not slope_towards_one(omega[-1], 10.0):
            break
        omega = np.concatenate([omega, np.geomspace(omega[-1], 10 * omega[-1], 50)[1:]])
    return omega


def _crossings(values: Array) -> list[tuple[int, int]]:
    """Return the sign changes of the values as pairs of indices (before, after the change).

    Values that are zero up to rounding errors are ignored.
    """
    known = np.flatnonzero(np.abs(values) > 1e-13)
    changes = np.flatnonzero(np.diff(np.sign(values[known])))
    return [(int(known[k]), int(known[k + 1])) for k in changes]


def step_response(
    A: Array, B: Array, C: Array, D: Array, dt: float | None, t: Array
) -> StepResponse:
    """Return the response (n, outputs) of a system with one input to a unit step.

    B (states, 1) and D (outputs, 1) have one column. The times t (n,) [s] are equally spaced; for a
    sampled system, they are multiples of dt. The matrix exponential gives the exact states of a
    continuous system at these times.
    """
    n, h = len(A), float(t[1] - t[0]) if len(t) > 1 else 0.0
    F, G = A, B[:, 0]
    if dt is None:
        both = np.zeros((n + 1, n + 1))
        both[:n, :n], both[:n, n] = A * h, B[:, 0] * h
        power = module_of("scipy.linalg", "the step response").expm(both)
        F, G = power[:n, :n], power[:n, n]
    x, y = np.zeros(n), np.zeros((len(t), len(C)))
    for k in range(len(t)):
        y[k] = C @ x + D[:, 0]
        x = F @ x + G
    return StepResponse(t, y)
