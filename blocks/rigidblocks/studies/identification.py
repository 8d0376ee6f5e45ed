"""Identification of inertial and friction parameters of robots from measured joint forces.

The joint forces are linear in the parameters: tau = Y(q, qd, qdd) phi (`dynamics.regressor`). Only
some linear combinations of the parameters affect tau, the base parameters (Gautier 1990). The base
parameters are estimated by weighted least squares. A convex problem then yields physically possible
inertias with base parameters near the estimates (Lee, Wensing and Park 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.dynamics import inertial_parameters, regressor, replace_inertial_parameters
from rigidblocks.dynamics.loops import AssemblyError, assemble, loop_constraints
from rigidblocks.dynamics.regressor import PLANAR_PARAMETERS, parameter_names
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.tree import Tree, check_model
from rigidblocks.studies.argument_checks import check_level, check_seed, name_list, real_array
from rigidblocks.tracing.compiled_functions import CompiledBatch, compile_function

JOINT_TERMS = ("viscous", "coulomb", "offset", "rotor")
"""Terms of a joint force that are not due to the inertias of the bodies.

The terms are b qd (viscous), c sign(qd) (coulomb), a constant (offset), and I_r qdd with the
reflected rotor inertia I_r (rotor).
"""

_RANK = 1e-8  # a column is dependent if its relative distance to the previous columns is smaller
_SMALLEST_FORCE = 1e-100  # [N m or N] squares of smaller joint forces underflow
_SAMPLES = 4  # number of rows of the stacked regressor per column
_CHUNK = 4096  # samples in one call of the compiled regressor
# Preference of the parameters of a body as names of base parameters. The last parameters are
# grouped with parameters of the previous bodies, as in the rules of Gautier and Khalil.
_PREFERENCE = ("Izz", "I", "Ixx", "Ixy", "Ixz", "Iyz", "hx", "hy", "hz", "Iyy", "m")
_TERM_UNITS = {  # units of the joint terms, by the unit of the joint force
    "N.m": dict(zip(JOINT_TERMS, ("N.m.s/rad", "N.m", "N.m", "kg.m2"), strict=True)),
    "N": dict(zip(JOINT_TERMS, ("N.s/m", "N", "N", "kg"), strict=True)),
}
_UNITS = {"m": "kg", "h": "kg.m", "I": "kg.m2"}


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """Base parameters of a robot: the identifiable combinations of its parameters.

        tau = Y phi = Y_b (B phi)

    tau are the joint forces. Y_b consists of the columns `independent` of the regressor Y.

    Attributes:
        parameters: Names of all parameters phi (n,), such as "m of link2".
        independent: Indices (r,) of the independent columns of Y, one for each base parameter.
        matrix: Matrix B (r, n); row i contains the coefficients of base parameter i.
        units: Units of the base parameters.
    """

    parameters: tuple[str, ...]
    independent: Array
    matrix: Array
    units: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number r of base parameters."""
        return len(self.independent)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Combinations as text, such as "Izz of link1 + 0.25 m of link2"."""
        return tuple(
            _combination(self.parameters, row, int(k))
            for row, k in zip(self.matrix, self.independent, strict=True)
        )

    @cached_property
    def unidentifiable(self) -> tuple[str, ...]:
        """Names of the parameters that do not affect the joint forces."""
        unused = ~np.any(self.matrix, axis=0)
        return tuple(name for name, one in zip(self.parameters, unused, strict=True) if one)


def _combination(parameters: Sequence[str], row: Array, own: int) -> str:
    text = parameters[own]
    for k in map(int, np.flatnonzero(row)):
        if k != own:
            size = abs(row[k])
            factor = "" if abs(size - 1.0) < 1e-9 else f"{size:.6g} "
            text += f" {'-' if row[k] < 0 else '+'} {factor}{parameters[k]}"
    return text


def check_terms(joint_terms: Iterable[str]) -> tuple[str, ...]:
    """Return the joint terms as a tuple; raise ValueError for an unknown or repeated term."""
    terms = tuple(name_list(joint_terms, "joint_terms"))
    for term in terms:
        if term not in JOINT_TERMS:
            raise ValueError(f"unknown joint term '{term}'; {suggestion(term, JOINT_TERMS)}")
        if terms.count(term) > 1:
            raise ValueError(f"the joint term '{term}' occurs twice in joint_terms")
    return terms


def base_for_terms(
    model: Tree, terms: Sequence[str], base: BaseParameters | None
) -> BaseParameters:
    """Return `base` after a check, or compute the base parameters if `base` is None.

    Raises:
        TypeError: `base` is not a result of `base_parameters`.
        ValueError: `base` belongs to another model or to other joint terms.
    """
    if base is None:
        return base_parameters(model, joint_terms=terms)
    if not isinstance(base, BaseParameters):
        raise TypeError(f"base must be a result of base_parameters, not {base!r}")
    if base.parameters != _all_names(model, terms):
        raise ValueError("the base parameters belong to another model or to other joint terms")
    return base


def _all_names(model: Tree, terms: Sequence[str]) -> tuple[str, ...]:
    names: Sequence[str] = model.body_names
    bodies = [f"{key} of {body}" for body in names for key in parameter_names(model)]
    joints: list[str] = [
        name if joint.nv == 1 else f"{name}[{k + 1}]"
        for name, joint in zip(model.joint_names, model.joint, strict=True)
        for k in range(joint.nv)
    ]
    return (*bodies, *(f"{term} of {joint}" for term in terms for joint in joints))


def _all_units(model: Tree, terms: Sequence[str]) -> tuple[str, ...]:
    """Return the units of all parameters, in the order of their names."""
    bodies = [_UNITS[key[0]] for _ in model.body_names for key in parameter_names(model)]
    pairs = [
        pair for joint in model.joint for pair in zip(joint.tau_units, joint.qd_units, strict=True)
    ]
    return (*bodies, *(_term_unit(term, *pair) for term in terms for pair in pairs))


def _term_unit(term: str, force: str, speed: str) -> str:
    """Return the unit of a joint parameter; `force` and `speed` are the units of tau and qd."""
    if force in _TERM_UNITS:
        return _TERM_UNITS[force][term]
    return {"viscous": f"{force}/({speed})", "rotor": f"{force}.s/({speed})"}.get(term, force)


def full_regressor(model: Tree, terms: Sequence[str], q: Array, qd: Array, qdd: Array) -> Array:
    """Return the regressor Y (nv, n) of the bodies, followed by the columns of the joint terms."""
    columns = {"viscous": qd, "coulomb": _signs(qd), "offset": 1.0 + 0.0 * qd, "rotor": qdd}
    diagonals = [np.diag(columns[term]) for term in terms]
    return np.concatenate([regressor(model, q, qd, qdd), *diagonals], axis=1)


def _signs(qd: Array) -> Array:
    if qd.dtype != object:
        return np.sign(qd)
    return np.array([1.0 * (one > 0.0) - 1.0 * (one < 0.0) for one in qd], dtype=object)


@explain_calls()
def base_parameters(
    model: Tree, *, joint_terms: Iterable[str] = (), seed: int = 0
) -> BaseParameters:
    """Return the base parameters of a robot.

    The function stacks the regressors of random motions. Column by column, it then finds the
    columns that are linear combinations of the previous columns. For a model with loops, the
    regressor is projected onto the motions that the loops allow.

    Args:
        model: Robot model.
        joint_terms: Additional parameters of each joint: "viscous", "coulomb", "offset" and "rotor"
            (`JOINT_TERMS`).
        seed: Seed of the random motions.

    Raises:
        ValueError: A joint term is unknown.
        AssemblyError: The loops do not close in random configurations.

    References:
        Gautier, Numerical calculation of the base inertial parameters of robots, 1990.
    """
    check_model(model, "the model of an identification")
    check_seed(seed)
    terms = check_terms(joint_terms)
    names = _all_names(model, terms)
    rng = np.random.default_rng(seed)
    rows: list[Array] = []
    while sum(map(len, rows)) < _SAMPLES * len(names):
        q, qd, qdd = _random_motion(model, rng)
        Y = full_regressor(model, terms, q, qd, qdd)
        rows.append(_allowed_motions(model, q).T @ Y)
    return _base_of(model, names, _all_units(model, terms), np.concatenate(rows))


def _random_motion(model: Tree, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return random q (nq,), qd (nv,) and qdd (nv,) that satisfy the loop constraints."""
    for attempt in range(50):
        q = random_configuration(model, rng)
        qd, qdd = rng.normal(size=model.nv), rng.normal(size=model.nv)
        if not model.has_constraints:
            return q, qd, qdd
        try:
            q = assemble(model, q)
        except AssemblyError:
            if attempt == 49:
                raise
            continue
        N = _allowed_motions(model, q)
        qd = N @ (N.T @ qd)
        c = loop_constraints(model, q, qd)
        particular = np.linalg.lstsq(c.K, c.k, rcond=1e-9)[0]
        return q, qd, particular + N @ (N.T @ qdd)
    raise AssertionError  # the last attempt returns or raises


def _allowed_motions(model: Tree, q: Array) -> Array:
    """Return an orthonormal basis N (nv, k) of the velocities that the loops allow."""
    if not model.has_constraints:
        return np.eye(model.nv)
    K = loop_constraints(model, q, np.zeros(model.nv)).K
    _, sizes, V = np.linalg.svd(K)
    rank = int(np.sum(sizes > 1e-8 * sizes.max(initial=0.0)))
    return np.asarray(V[rank:].T)


def _base_of(model: Tree, names: Sequence[str], units: Sequence[str], W: Array) -> BaseParameters:
    """Return the base parameters for a stacked regressor W (rows, n)."""
    n, order = len(parameter_names(model)), [_PREFERENCE.index(k) for k in parameter_names(model)]
    bodies = [n * i + int(k) for i in range(model.nb) for k in np.argsort(order)]
    chosen, matrix = independent_columns(W, (*bodies, *range(n * model.nb, len(names))), _RANK)
    chosen_units = tuple(units[k] for k in chosen)
    return BaseParameters(tuple(names), np.array(chosen), matrix, chosen_units)


def independent_columns(
    W: Array, order: Iterable[int], tolerance: float
) -> tuple[list[int], Array]:
    """Find independent columns of a matrix W (rows, n), and express all columns by these columns.

    The function scales the columns to unit length. A column is independent if its distance to the
    space of the previous independent columns exceeds `tolerance`. The Gram-Schmidt method with
    reorthogonalization computes this distance.

    Args:
        W: Matrix (rows, n).
        order: Indices of the columns, in the order of their orthogonalization.
        tolerance: Largest distance of a dependent column.

    Returns:
        Increasing indices (r,) of the independent columns, and the matrix B (r, n) with
        W = W[:, indices] B.
    """
    sizes = np.linalg.norm(W, axis=0)
    nonzero = sizes > 1e-12 * sizes.max(initial=0.0)
    scaled = W / np.where(nonzero, sizes, 1.0)
    basis = np.zeros((len(W), 0))
    chosen: list[int] = []
    for k in order:
        if not nonzero[k]:
            continue
        rest = scaled[:, k]
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        if (size := np.linalg.norm(rest)) > tolerance:
            chosen.append(int(k))
            basis = np.column_stack([basis, rest / size])
    chosen.sort()
    matrix = np.linalg.lstsq(scaled[:, chosen], scaled, rcond=None)[0]
    matrix[np.abs(matrix) < tolerance] = 0.0
    matrix = matrix * sizes / sizes[chosen][:, None]
    matrix[:, chosen] = np.eye(len(chosen))
    matrix[:, ~nonzero] = 0.0
    return chosen, matrix


# --- estimation ---


@dataclass(frozen=True, eq=False)
class Identification:
    """Result of an identification.

    Attributes:
        model: Robot model, with its original inertias.
        base: Base parameters.
        values: Estimates (r,) of the base parameters.
        deviations: Standard deviations (r,) of the estimates.
        intervals: Confidence intervals (r, 2).
        level: Confidence level of the intervals.
        covariance: Covariance matrix (r, r) of the estimates.
        noise: Standard deviation (nv,) of the noise of each joint force, estimated from the
            residuals. For a model with loops, it refers to the projected joint forces.
        condition: Condition number of the weighted stacked regressor with columns of unit length.
        terms: Names of the identified joint terms (`JOINT_TERMS`).
    """

    model: Tree
    base: BaseParameters
    values: Array
    deviations: Array
    intervals: Array
    level: float
    covariance: Array
    noise: Array
    condition: float
    terms: tuple[str, ...]

    def __repr__(self) -> str:
        width = max(map(len, self.base.names))
        lines = [
            f"  {name:{width}}  {value:12.6g} {unit:9}  from {low:.6g} to {high:.6g}"
            for name, value, unit, (low, high) in zip(
                self.base.names, self.values, self.base.units, self.intervals, strict=True
            )
        ]
        head = f"<Identification: {len(self.base)} base parameters, {self.level:.0%} intervals>"
        return "\n".join((head, *lines))

    @cached_property
    def _physical(self) -> Array:
        return physical_parameters(
            self.model, self.base, self.values, np.linalg.inv(self.covariance), self.terms
        )

    @property
    def physical_model(self) -> Any:
        """Model with physically possible inertias that have the estimated base parameters.

        Inertias that the data do not determine stay near the original inertias.
        """
        n = len(parameter_names(self.model)) * self.model.nb
        return replace_inertial_parameters(self.model, self._physical[:n])

    @property
    def joint_parameters(self) -> Mapping[str, float]:
        """Estimates of the joint terms by name; friction and rotor inertia are not negative."""
        n = len(parameter_names(self.model)) * self.model.nb
        names = self.base.parameters[n:]
        return dict(zip(names, self._physical[n:].tolist(), strict=True))


@explain_calls()
def identify(
    model: Tree,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    tau: ArrayLike,
    *,
    joint_terms: Iterable[str] = (),
    base: BaseParameters | None = None,
    level: float = 0.95,
) -> Identification:
    """Estimate the base parameters of a robot from a measured motion and its joint forces.

        min over beta of the sum of ((tau - Y_b beta) / sigma)^2

    beta are the base parameters, and Y_b is their regressor. The sum is over all samples and
    joints. The noise of the joint forces is white. Its standard deviation sigma is unknown and
    differs between joints; the function estimates it from the residuals. The
    motion is free of noise; filter measured positions before you differentiate them. For a model
    with loops, the function projects the equations onto the motions that the loops allow. tau then
    contains the forces of the actuators, and zero for other joints.

    Args:
        model: Robot model.
        q: Joint positions (n, nq) of n samples [rad or m].
        qd: Joint velocities (n, nv).
        qdd: Joint accelerations (n, nv).
        tau: Joint forces (n, nv) [N m or N].
        joint_terms: Additional parameters of each joint (`JOINT_TERMS`).
        base: Result of `base_parameters` for the same joint terms; None to compute it.
        level: Confidence level of the intervals.

    Returns:
        Base parameters with standard deviations, confidence intervals and covariance, and the
        standard deviation of the noise of each joint.

    Raises:
        TypeError: `base` is not a result of `base_parameters`.
        ValueError: An array has a wrong shape or values that are not finite. There are not enough
            samples, or `tau` is zero in all samples. `base` belongs to another model or to other
            joint terms. The motion does not excite all base parameters; the message lists these.

    References:
        Atkeson, An and Hollerbach 1986; Gautier, 1990.
    """
    check_model(model, "the model of an identification")
    check_level(level)
    terms = check_terms(joint_terms)
    motion = _motion_arrays(model, q=q, qd=qd, qdd=qdd, tau=tau)
    base = base_for_terms(model, terms, base)
    if len(motion["q"]) * model.nv <= len(base):
        raise ValueError(
            f"{len(motion['q'])} samples of {model.nv} joint forces are too few for {len(base)} "
            "base parameters; use a longer motion"
        )
    stacked = _StackedRegressor(model, base, terms, motion)
    G, g, squares, counts = stacked.normal_equations()
    if squares.max(initial=0.0) < _SMALLEST_FORCE**2:
        subject = (
            "tau, projected onto the motions of the loops," if model.has_constraints else "tau"
        )
        raise ValueError(
            f"{subject} is zero in all samples; an identification needs nonzero joint forces"
        )
    scale = np.sqrt(np.einsum("jkk->k", G))
    _check_excitation(base, scale, G)
    noise = np.ones(len(G))
    weights = np.ones(len(G))
    for _ in range(3):
        normal, right = np.tensordot(weights, G, 1), weights @ g
        beta = _solve(normal, right)
        rest = squares - 2 * g @ beta + np.einsum("i,kij,j->k", beta, G, beta)
        noise = _noise(rest, counts, len(beta), squares)
        weights = 1.0 / noise**2
    normal = np.tensordot(weights, G, 1)
    beta = _solve(normal, weights @ g)
    correction, rest = stacked.residual_equations(beta)  # one step of iterative refinement
    beta = beta + _solve(normal, weights @ correction)
    noise = _noise(rest, counts, len(beta), squares)
    covariance = _inverse(normal) * np.mean((noise**2 * weights)[counts > 0])
    deviations = np.sqrt(np.diag(covariance))
    stats = module_of("scipy.stats", "an identification")
    half = stats.t.ppf((1 + level) / 2, max(int(counts.sum()) - len(beta), 1)) * deviations
    size = np.sqrt(np.diag(normal))
    return Identification(
        model,
        base,
        beta,
        deviations,
        np.stack([beta - half, beta + half], axis=1),
        level,
        covariance,
        noise,
        float(np.sqrt(np.linalg.cond(normal / np.outer(size, size)))),
        terms,
    )


def _motion_arrays(model: Tree, **values: ArrayLike) -> dict[str, Array]:
    """Convert the measured q, qd, qdd and tau to checked float arrays, by name.

    Raises TypeError for a value that is no number, and ValueError for a wrong shape or a value that
    is not finite.
    """
    arrays = {name: real_array(value, f"{name} of the motion") for name, value in values.items()}
    n = len(arrays["q"]) if arrays["q"].ndim else 0
    for name, array in arrays.items():
        shape = (n, model.nq if name == "q" else model.nv)
        if array.shape != shape:
            raise ValueError(
                f"{name} of the motion of model '{model.name}' has the shape {array.shape}; "
                f"expected {shape}, one row for each sample"
            )
        if not np.isfinite(array).all():
            row = int(np.argmin(np.isfinite(array).all(axis=1)))
            raise ValueError(f"{name} of the motion has values that are not finite in row {row}")
    return arrays


def compiled_base_regressor(
    model: Tree, base: BaseParameters, terms: Sequence[str]
) -> CompiledBatch:
    """Return the compiled regressor Y_b of the base parameters, for batches of (q, qd, qdd)."""

    def columns(q: Array, qd: Array, qdd: Array) -> dict[str, Array]:
        return {"Y": full_regressor(model, terms, q, qd, qdd)[:, base.independent]}

    shapes = {"q": (model.nq,), "qd": (model.nv,), "qdd": (model.nv,)}
    return compile_function("base_regressor", columns, shapes, batch=True)


@dataclass(eq=False)
class _StackedRegressor:
    """Stacked regressor of a motion; the normal equations are summed over chunks of samples."""

    model: Tree
    base: BaseParameters
    terms: tuple[str, ...]
    motion: Mapping[str, Array]

    @cached_property
    def _compiled(self) -> CompiledBatch:
        return compiled_base_regressor(self.model, self.base, self.terms)

    def _chunks(self) -> Iterator[tuple[Array, Array]]:
        """Yield regressors (c, nv, r) and joint forces (c, nv) for chunks of c samples.

        For a model with loops, the rows are projections onto the motions that the loops allow.
        """
        n = len(self.motion["q"])
        for start in range(0, n, _CHUNK):
            q, qd, qdd, tau = (
                self.motion[key][start : start + _CHUNK] for key in ("q", "qd", "qdd", "tau")
            )
            Y = self._compiled(q, qd, qdd)
            if self.model.has_constraints:
                bases = [_allowed_motions(self.model, one) for one in q]
                k = max(N.shape[1] for N in bases)
                N = np.array([np.pad(one, ((0, 0), (0, k - one.shape[1]))) for one in bases])
                # rows beyond the degrees of freedom stay zero
                full = np.zeros((len(q), self.model.nv, self.model.nv))
                full[:, :, :k] = N
                Y, tau = np.einsum("cik,cir->ckr", full, Y), np.einsum("cik,ci->ck", full, tau)
            yield Y, tau

    def normal_equations(self) -> tuple[Array, Array, Array, Array]:
        """Return the normal equations of each joint.

        For each joint, Y (n, r) contains its rows of the regressor for all n samples, and tau (n,)
        its forces.

        Returns:
            Y^T Y (nv, r, r), Y^T tau (nv, r), tau^T tau (nv,), and the number of nonzero equations
            (nv,).
        """
        nv, r = self.model.nv, len(self.base)
        G, g, squares, counts = np.zeros((nv, r, r)), np.zeros((nv, r)), np.zeros(nv), np.zeros(nv)
        for Y, tau in self._chunks():
            squares += np.einsum("cj,cj->j", tau, tau)
            for j in range(nv):
                used = np.flatnonzero(Y[:, j].any(axis=0))
                own = np.ascontiguousarray(Y[:, j, used])
                G[j][np.ix_(used, used)] += own.T @ own
                g[j, used] += own.T @ tau[:, j]
                counts[j] += len(own) if len(used) else 0
        return G, g, squares, counts

    def residual_equations(self, beta: Array) -> tuple[Array, Array]:
        """Return Y^T e (nv, r) and e^T e (nv,) of each joint; e = tau - Y beta is the residual."""
        nv, r = self.model.nv, len(self.base)
        g, squares = np.zeros((nv, r)), np.zeros(nv)
        for Y, tau in self._chunks():
            rest = tau - Y @ beta
            squares += np.einsum("cj,cj->j", rest, rest)
            g += np.einsum("cjr,cj->jr", Y, rest, optimize=True)
        return g, squares


def _solve(normal: Array, right: Array) -> Array:
    scale = np.sqrt(np.diag(normal))
    solution: Array = np.linalg.solve(normal / np.outer(scale, scale), right / scale) / scale
    return solution


def _inverse(normal: Array) -> Array:
    scale = np.sqrt(np.diag(normal))
    inverse: Array = np.linalg.inv(normal / np.outer(scale, scale)) / np.outer(scale, scale)
    return inverse


def _noise(
    squared_residuals: Array, counts: Array, parameters: int, squared_forces: Array
) -> Array:
    """Return the standard deviation (nv,) of the noise of each joint force.

    Args:
        squared_residuals: Sum of squared residuals of each joint (nv,).
        counts: Number of equations of each joint (nv,).
        parameters: Number of estimated parameters.
        squared_forces: Sum of squared forces of each joint (nv,), for the lower limit of the noise.
    """
    share = parameters * counts / max(counts.sum(), 1.0)
    variance = np.maximum(squared_residuals, 0.0) / np.maximum(counts - share, 1.0)
    floor = np.sqrt(squared_forces.max(initial=0.0) / max(counts.max(initial=1.0), 1.0))
    return np.asarray(np.maximum(np.sqrt(variance), 1e-12 * floor + np.finfo(float).tiny))


def _check_excitation(base: BaseParameters, scale: Array, G: Array) -> None:
    """Raise ValueError if the motion does not determine all base parameters.

    G (nv, r, r) contains the matrix Y^T Y of each joint. `scale` (r,) contains the square
    roots of the diagonal elements of the sum of these matrices.
    """
    silent = scale <= 1e-9 * scale.max(initial=0.0)
    problems = [f"{base.names[k]} does not affect the joint forces" for k in np.flatnonzero(silent)]
    if not problems:
        values, vectors = np.linalg.eigh(G.sum(axis=0) / np.outer(scale, scale))
        weak = vectors[:, values < 1e-13 * values[-1]]
        share = np.sum(weak**2, axis=1)
        if weak.shape[1]:
            names = [base.names[k] for k in np.flatnonzero(share > 1e-3)]
            count = len(names) - weak.shape[1]
            which = ", ".join(names[:6])
            problems = [f"the number of identifiable combinations of {which} is only {count}"]
    if problems:
        raise ValueError(
            f"the motion does not determine all {len(base)} base parameters: "
            f"{'; '.join(problems[:3])}; move all joints, for example along an `exciting_motion`"
        )


# --- physically possible inertias ---

_STAGES = 12  # number of increasing weights of the data in the optimization
_NEWTON = 30  # largest number of Newton steps of one stage; about four are necessary
_LOAD = 1e-3  # smallest relative eigenvalue of the pseudo-inertia of the prior


def physical_parameters(
    model: Any, base: BaseParameters, values: Array, information: Array, terms: Sequence[str]
) -> Array:
    """Return physically possible parameters phi (n,) with base parameters near the estimates.

        min over phi of (B phi - values)^T information (B phi - values) / 2 + d(phi, phi_0)

    phi_0 contains the original inertial parameters and first estimates of the joint parameters. d
    is the sum of tr(J_0^-1 J) - log det J over all bodies. J and J_0 are the pseudo-inertias of a
    body for phi and phi_0 (`pseudo_inertia`). d is finite only for physically possible inertias, so
    every result is physically possible. Viscous friction, Coulomb friction and rotor inertia must
    be positive. For each such parameter x with the first estimate x_0, d also contains
    x / x_0 - log x. The problem is convex. Newton's method solves it several times; each time, the
    weight of the first term increases.

    Args:
        model: Model with the original inertias.
        base: Base parameters.
        values: Estimates (r,) of the base parameters.
        information: Inverse covariance matrix (r, r) of the estimates.
        terms: Names of the joint terms (`JOINT_TERMS`).

    References:
        Lee, Wensing and Park, Geometric Robot Dynamic Identification: A Convex Programming
        Approach, 2020.
    """
    n = len(parameter_names(model)) * model.nb
    bodies = np.concatenate(list(_possible_bodies(model)))
    positive = np.array([term != "offset" for term in terms for _ in range(model.nv)], dtype=bool)
    joint = np.linalg.lstsq(base.matrix[:, n:], values - base.matrix[:, :n] @ bodies, rcond=None)[0]
    joint = np.where(positive, np.maximum(joint, 1e-3 * np.abs(joint).max(initial=1e-3)), joint)
    prior = _Divergence(model, np.concatenate([bodies, joint]), positive)
    factor = np.linalg.cholesky(information).T
    A, b = factor @ base.matrix, factor @ values
    phi = prior.center
    strongest = max(float(np.sum((A @ phi - b) ** 2)), 1.0)
    for weight in np.geomspace(1.0 / strongest, 1.0, _STAGES):
        phi = _minimize(prior, A, b, float(weight), phi)
    return phi


def _minimize(prior: _Divergence, A: Array, b: Array, weight: float, phi: Array) -> Array:
    """Minimize weight |A phi - b|^2 / 2 + d(phi, phi_0) over phi by Newton's method.

    A (r, n) and b (r,) are the weighted matrix B and the weighted estimates. `phi` is the start
    value, and `prior` computes d.
    """

    def cost(x: Array) -> float:
        rest = A @ x - b
        return float(weight * (rest @ rest) / 2 + prior.value(x))

    now = cost(phi)
    for _ in range(_NEWTON):
        gradient, H = prior.derivatives(phi)
        gradient = gradient + weight * A.T @ (A @ phi - b)
        H = H + weight * A.T @ A
        scale = np.sqrt(np.diag(H))
        step = -np.linalg.solve(H / np.outer(scale, scale), gradient / scale) / scale
        slope = float(gradient @ step)
        length = 1.0
        while not (later := cost(phi + length * step)) <= now + 0.1 * length * slope:
            length /= 2
            if length < 1e-10:
                return phi
        phi, now = phi + length * step, later
        if -slope < 1e-10 * max(1.0, abs(now)):
            break
    return phi


@dataclass(eq=False)
class _Divergence:
    """Distance d(phi, phi_0) of physically possible parameters phi from phi_0 (field `center`).

    `physical_parameters` defines d. `positive` is True for each joint parameter that must be
    positive. For each joint parameter x that may be negative, d contains 1e-6 (x - x_0)^2 / 2.
    """

    model: Any
    center: Array
    positive: Array

    @cached_property
    def _basis(self) -> Array:
        n = len(parameter_names(self.model))
        return np.array([pseudo_inertia(unit) for unit in np.eye(n)])

    @cached_property
    def _inverses(self) -> Array:
        """Inverses of the pseudo-inertias of the original parameters phi_0 (field `center`).

        The shape is (nb, 4, 4) for spatial models and (nb, 3, 3) for planar models.
        """
        return np.asarray(np.linalg.inv(self._matrices(self.center)))

    @property
    def _bodies(self) -> int:
        return int(self.model.nb * len(self._basis))

    def _matrices(self, phi: Array) -> Array:
        """Return the pseudo-inertias of all bodies for the parameters phi.

        The shape is (nb, 4, 4) for spatial models and (nb, 3, 3) for planar models.
        """
        J: Array = np.einsum(
            "ia,akl->ikl", phi[: self._bodies].reshape(self.model.nb, -1), self._basis
        )
        return J

    def _split(self, phi: Array) -> tuple[Array, Array, Array]:
        x, x0 = phi[self._bodies :], self.center[self._bodies :]
        return x[self.positive], x0[self.positive], (x - x0)[~self.positive]

    def value(self, phi: Array) -> float:
        """Return d, or infinity for parameters that are physically impossible."""
        J = self._matrices(phi)
        x, x0, free = self._split(phi)
        try:
            factors = np.linalg.cholesky(J)
        except np.linalg.LinAlgError:
            return float("inf")
        if np.any(x <= 0):
            return float("inf")
        logarithm = 2 * np.log(np.einsum("ikk->ik", factors)).sum()
        own = np.sum(x / x0 - np.log(x)) + 5e-7 * np.sum(free**2)
        return float(np.einsum("ikl,ikl->", self._inverses, J) - logarithm + own)

    def derivatives(self, phi: Array) -> tuple[Array, Array]:
        """Return the gradient (n,) and the Hessian (n, n) of d."""
        inverses = np.linalg.inv(self._matrices(phi))
        n, k = len(phi), len(self._basis)
        gradient, H = np.zeros(n), np.zeros((n, n))
        gradient[: self._bodies] = np.einsum(
            "ikl,akl->ia", self._inverses - inverses, self._basis
        ).ravel()
        products = np.einsum("ikl,alm->iakm", inverses, self._basis)
        blocks = np.einsum("iakm,ibmk->iab", products, products)
        for i, block in enumerate(blocks):
            H[k * i : k * i + k, k * i : k * i + k] = block
        x, x0, free = self._split(phi)
        marked = self._bodies + np.flatnonzero(self.positive)
        gradient[marked], H[marked, marked] = 1 / x0 - 1 / x, 1 / x**2
        other = self._bodies + np.flatnonzero(~self.positive)
        gradient[other], H[other, other] = 1e-6 * free, 1e-6
        return gradient, H


def pseudo_inertia(phi: ArrayLike) -> Array:
    """Return the pseudo-inertia (4, 4) of a body.

        [[Sigma, h], [h^T, m]],   Sigma = (tr(I) / 2) 1 - I

    m is the mass, h = m c the first moment of mass, I the rotational inertia about the body origin,
    and 1 the identity matrix. A body is physically possible if and only if its pseudo-inertia is
    positive semidefinite. `phi` contains the inertial parameters (10,) of the body. For a planar
    body (4,), the matrix is [[I, h^T], [h, m 1]] (3, 3).

    References:
        Wensing, Kim and Slotine, Linear Matrix Inequalities for Physically Consistent Inertial
        Parameter Identification, 2018.
    """
    values = np.asarray(phi, dtype=float)
    if len(values) == len(PLANAR_PARAMETERS):
        m, hx, hy, I = values
        return np.array([[I, hx, hy], [hx, m, 0.0], [hy, 0.0, m]])
    m, hx, hy, hz, xx, yy, zz, xy, xz, yz = values
    half = (xx + yy + zz) / 2
    return np.array(
        [
            [half - xx, -xy, -xz, hx],
            [-xy, half - yy, -yz, hy],
            [-xz, -yz, half - zz, hz],
            [hx, hy, hz, m],
        ]
    )


def _parameters_of(J: Array) -> Array:
    """Return the inertial parameters of the pseudo-inertia J (inverse of `pseudo_inertia`)."""
    if len(J) == 3:
        return np.array([J[1, 1], J[0, 1], J[0, 2], J[0, 0]])
    trace = J[0, 0] + J[1, 1] + J[2, 2]
    diagonal = [trace - J[k, k] for k in range(3)]
    return np.array([J[3, 3], *J[:3, 3], *diagonal, -J[0, 1], -J[0, 2], -J[1, 2]])


def _possible_bodies(model: Any) -> Iterator[Array]:
    """Yield physically possible inertial parameters of each body: its own or nearby ones.

    The nearby parameters replace the parameters of point masses, massless bodies and physically
    impossible inertias.
    """
    n = len(parameter_names(model))
    phi = inertial_parameters(model).reshape(-1, n)
    mass = max(float(phi[:, 0].sum()), 1e-9)
    moment = max(
        float(phi[:, 3 if n == len(PLANAR_PARAMETERS) else slice(4, 7)].sum()), 1e-9 * mass
    )
    planar = n == len(PLANAR_PARAMETERS)
    scale = np.sqrt([moment, mass, mass] if planar else [moment] * 3 + [mass])
    for body in phi:
        sizes, V = np.linalg.eigh(pseudo_inertia(body) / np.outer(scale, scale))
        if sizes[0] > _LOAD:
            yield body
            continue
        lifted = (V * np.maximum(sizes, _LOAD)) @ V.T * np.outer(scale, scale)
        if planar:  # the two masses on the diagonal stay equal
            lifted[1, 1] = lifted[2, 2] = max(lifted[1, 1], lifted[2, 2])
            lifted[1, 2] = lifted[2, 1] = 0.0
        yield _parameters_of(lifted)
