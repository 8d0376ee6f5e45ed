"""Impacts, and time steps with contact impulses (RBDA 11.7).

An impulse iota changes the velocity of a body by I^-1 iota (Eq 11.55). Contact impulses lam change
the velocity of a system by H^-1 T lam (Eq 11.57). No impact in this module adds energy
(`passive_impulse`).

`contact_step` computes a time step whose impulses make the velocities satisfy the contact
constraints.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.contact.event_driven.complementarity import pyramid_forces
from rigidblocks.contact.event_driven.contact_dynamics import (
    contact_matrix,
    contact_unknowns,
    delassus_factors,
)
from rigidblocks.contact.event_driven.projected_gauss_seidel import (
    contact_residual,
    projected_sweeps,
)
from rigidblocks.contact.event_driven.unilateral_constraints import AnyContact, contact_gap
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.joint_kinematics import check_lengths
from rigidblocks.robot.model import Model
from rigidblocks.spatial.linear_algebra import positive_solution
from rigidblocks.spatial.scalar import less, maximum, minimum, select
from rigidblocks.spatial.spatial import Array, RigidInertia

TINY = 1e-200  # avoids a division by zero whose result is not used


def passive_impulse(M: Array, w: Array, base: Array, lam: Array) -> Array:
    """Reduce an impulse lam that would add energy, towards the plastic impulse `base`.

    The result is base + s (lam - base), with the largest s <= 1 that adds no kinetic energy.

    With friction, or with several contacts of different restitution, Newton's and Poisson's laws
    can require an impulse lam that adds energy. The result then lies between the plastic impulse
    `base` and lam, and it satisfies the friction limits. The change of the kinetic energy is the
    convex function a s^2 + b s + c. `base` adds no energy, so c <= 0, and no s between 0 and the
    positive root adds energy.

    Args:
        M: Matrix T^T H^-1 T (m, m).
        w: Contact velocities before the impulse (m,).
        base: Impulse that adds no energy (m,).
        lam: Required impulse (m,).
    """
    way = lam - base
    a, b, c = way @ M @ way / 2, way @ (w + M @ base), minimum(impulse_energy(M, w, base), 0.0)
    # s0 = (-b + sqrt(b^2 - 4 a c)) / (2 a); for b >= 0 the equivalent form -2 c / (b + sqrt(...))
    # avoids cancellation
    root = np.sqrt(maximum(b * b - 4.0 * a * c, 0.0))
    zero = select(
        less(b, 0.0), (root - b) / maximum(2.0 * a, TINY), -2.0 * c / maximum(b + root, TINY)
    )
    whole = less(a + b + c, 0.0)  # energy change at s = 1
    return np.asarray(base + select(whole, 1.0, minimum(zero, 1.0)) * way)


def workless_impulse(M: Array, w: Array, lam: Array) -> Array:
    """Scale the impulse lam by s <= 1 so that it does no positive work at the final velocities.

        lam . w+ <= 0

    w (m,) are the contact velocities before the impulse. M (m, m) maps impulses to velocity
    changes, so the contact velocities after the impulse are w+ = w + M lam. Every solution of a
    contact problem satisfies this condition, but an iterate that has not converged can violate it.
    The condition also implies that the kinetic energy does not increase.
    """
    # s lam . (w + s M lam) = 0 for s = -lam . w / (lam . M lam)
    mass, work = lam @ M @ lam, lam @ w
    part = minimum(maximum(-work, 0.0) / maximum(mass, TINY), 1.0)
    return np.asarray(select(less(0.0, mass + work), part, 1.0) * lam)


def impulse_energy(M: Array, w: Array, lam: Array) -> Any:
    """Return the change of kinetic energy lam . (w + M lam / 2) [J] by a contact impulse lam.

    M (m, m), w (m,) and lam (m,) are as in `workless_impulse`.
    """
    return lam @ (w + M @ lam / 2)


Solver = Callable[[Array, Array, Array, Any], Array]  # returns lam from M, d, mu and c
LAWS = ("newton", "poisson", "sequence")


class Collision(NamedTuple):
    """Velocity changes dv1 and dv2 (6,) of two bodies, and the impulse [N s].

    The impulse is a scalar for a collision without friction, otherwise (x, y, z).
    """

    dv1: Array
    dv2: Array
    impulse: Any


def collision(
    I1: RigidInertia | None, I2: RigidInertia | None, v1: Array, v2: Array, n: Array, e: Any = 0.0
) -> Collision:
    """Return the result of a frictionless collision at a point (RBDA Eq 11.60 to 11.65).

        lam = -(1 + e) n . (v2 - v1) / (n . (I1^-1 + I2^-1) n),
        dv1 = -I1^-1 n lam,  dv2 = I2^-1 n lam

    All arguments are in one coordinate system. The velocities of separating bodies do not change.

    Args:
        I1: Inertia of body 1; None for a body that does not move.
        I2: Inertia of body 2; None for a body that does not move.
        v1: Velocity of body 1 (6,).
        v2: Velocity of body 2 (6,).
        n: Unit force (6,) from body 1 to body 2 through the point.
        e: Coefficient of restitution, from 0 to 1.

    Raises:
        ValueError: An inertia is not positive definite, the normal does not have length 1, or e is
            outside 0 .. 1.
    """
    _check_restitution(e)
    M, columns = _mobility(I1, I2, np.asarray(n)[:, None])
    zeta = n @ (v2 - v1)
    lam = maximum(-(1.0 + e) * zeta / M[0, 0], 0.0)
    return Collision(-columns[0][:, 0] * lam, columns[1][:, 0] * lam, lam)


def collision_with_friction(
    I1: RigidInertia | None,
    I2: RigidInertia | None,
    v1: Array,
    v2: Array,
    N: Array,
    e: Any = 0.0,
    mu: Any = np.inf,
) -> Collision:
    """Return the result of a collision with friction at a point (RBDA Eq 11.66 to 11.72).

    The sticking impulse stops all sliding:

        lam = -(N^T (I1^-1 + I2^-1) N)^-1 (1 + E) N^T (v2 - v1),  E = diag(0, 0, e)

    The function returns the sticking impulse if it is inside the friction cone and adds no energy.
    Otherwise the function returns the impulse of `impact_impulse` for Newton's law of restitution
    and friction. If mu is infinite, the default, the result is a sticking impulse. Its coefficient
    of restitution is e, or the largest value below e for which the impulse adds no energy.

    Args:
        I1: Inertia of body 1; None for a body that does not move.
        I2: Inertia of body 2; None for a body that does not move.
        v1: Velocity of body 1 (6,).
        v2: Velocity of body 2 (6,).
        N: Unit forces (6, 3) along x, y and the normal z.
        e: Coefficient of restitution, from 0 to 1.
        mu: Coefficient of friction.

    Raises:
        ValueError: As in `collision`, or mu is negative.
    """
    _check_restitution(e)
    if isinstance(mu, float | int) and not mu >= 0:
        raise ValueError(f"mu of a collision must be at least 0, not {mu}")
    N = np.asarray(N)[:, [2, 0, 1]]
    # the package's order (z, x, y): M = N^T (I1^-1 + I2^-1) N, w = N^T (v2 - v1)
    M, columns = _mobility(I1, I2, N)
    w = N.T @ (v2 - v1)
    lam = _cone_impulse(M, w, e, mu)
    # no impulse if the bodies separate; a NaN velocity fails both comparisons and stays NaN
    none = select(less(-1.0, w[0]), np.zeros(3), lam)
    lam = select(less(w[0], 0.0), lam, none)
    return Collision(-(columns[0] @ lam), columns[1] @ lam, lam[[1, 2, 0]])


def _cone_impulse(M: Array, w: Array, e: Any, mu: Any) -> Array:
    """Return the impulse (z, x, y) of a collision with friction at one point.

    M (3, 3) maps impulses to velocity changes. e is the coefficient of restitution, and mu the
    coefficient of friction. w (3,) is the relative velocity of the bodies before the collision.
    """
    stick, arrest = (positive_solution(M, -w * np.array([1.0 + r, 1.0, 1.0])) for r in (e, 0.0))
    if isinstance(mu, float) and np.isinf(mu):
        return passive_impulse(M, w, arrest, stick)
    within = less(np.sqrt(stick[1] * stick[1] + stick[2] * stick[2]), mu * stick[0])
    solve = partial(projected_sweeps, sweeps=100)
    slide = impact_impulse(M, w, np.array([e]), np.array([mu]), solve=solve)
    return np.asarray(select(within & less(impulse_energy(M, w, stick), 0.0), stick, slide))


class Impact(NamedTuple):
    """Velocity change dqd (nv,) and contact impulses (n, 3) = (z, x, y) [N s] of an impact.

    `before` and `after` are the separation velocities (n,) [m/s] before and after the impact.
    `energy` is the change of the kinetic energy [J], which is never positive.
    """

    dqd: Array
    impulse: Array
    before: Array
    after: Array
    energy: Any


def impact(
    model: Model,
    q: Array,
    qd: Array,
    contacts: Sequence[AnyContact],
    e: Any = 0.0,
    law: str = "newton",
    solve: Solver = pyramid_forces,
) -> Impact:
    """Return the result of a simultaneous impact at all contacts of a system (RBDA Eq 11.57).

    The velocities change by dqd = H^-1 T lam. The function ignores the gaps and treats all contacts
    as touching.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity before the impact (nv,).
        contacts: The contacts.
        e: Coefficient of restitution, a scalar or (n,).
        law: Restitution law, as in `impact_impulse`.
        solve: Solver, as in `impact_impulse`. `projected_sweeps` supports traced values.

    Raises:
        ValueError: e is outside 0 .. 1 or has a wrong length, the law is unknown, or the law is
            "sequence" and a contact has friction.
    """
    check_lengths(model, q=q, qd=qd)
    _check_restitution(e)
    if np.ndim(e) and np.shape(e) != (len(contacts),):
        raise ValueError(
            f"e must be a scalar or have one value for each of {len(contacts)} contacts, not "
            f"shape {np.shape(e)}"
        )
    rows, T = contact_unknowns(contacts), contact_matrix(model, q, contacts)
    M, HinvT, _ = delassus_factors(model, q, T, np.zeros(model.nv))
    n, w = len(contacts), T.T @ qd
    lam = impact_impulse(
        M, w, np.broadcast_to(np.asarray(e), (n,))[list(rows.order)], rows.mu, law, solve
    )
    after, dqd = w + M @ lam, HinvT @ lam
    before = rows.contact_components(w)[:, 0]
    return Impact(
        dqd,
        rows.contact_components(lam),
        before,
        rows.contact_components(after)[:, 0],
        lam @ (w + after) / 2,
    )


def impact_impulse(
    M: Array, w: Array, e: Array, mu: Any = (), law: str = "newton", solve: Solver = pyramid_forces
) -> Array:
    """Return the contact impulses lam (n + 2k,) of a simultaneous impact.

    w_z is the normal velocity of a contact before the impact. The restitution law is one of

    - newton: an approaching contact separates at the velocity -e w_z if its impulse is positive. If
      its impulse is zero, -e w_z is the minimum separation velocity;
    - poisson: the compression is a plastic impact. The restitution then adds e times the normal
      impulse of the compression to each contact. It adds more if contacts would still approach;
    - sequence: repeated two-body collisions in contact order, until no contact approaches, as in
      Newton's cradle. A plastic impact stops contacts that still approach after 2 n rounds. This
      law does not support friction.

    The impulse never adds energy (`passive_impulse`). If Newton's law has no solution, the impact
    is plastic.

    Args:
        M: Matrix T^T H^-1 T (n + 2k, n + 2k).
        w: Velocities before the impact (n + 2k,): n normal velocities, then two tangential
            velocities of each of the first len(mu) contacts.
        e: Coefficients of restitution (n,).
        mu: Coefficients of friction (k,).
        law: Restitution law: "newton", "poisson" or "sequence".
        solve: Solver that returns lam from M, d, mu and c.

    Raises:
        ValueError: The law is unknown, or the law is "sequence" and a contact has friction.
    """
    if law not in LAWS:
        raise ValueError(f"unknown impact law '{law}'; expected {', '.join(LAWS)}")
    if law == "sequence":
        if len(mu):
            raise ValueError(
                "impact law 'sequence' does not support friction; use newton or poisson"
            )
        return _sequential_impacts(M, w, e, solve)
    plastic = passive_impulse(M, w, np.zeros(len(w)), solve(M, w, mu, 0.0))
    demanded = (_newton_impulse if law == "newton" else _poisson_impulse)(
        M, w, e, mu, plastic, solve
    )
    return passive_impulse(M, w, plastic, demanded)


def _newton_impulse(M: Array, w: Array, e: Array, mu: Any, plastic: Array, solve: Solver) -> Array:
    """Return the impulse of Newton's law of restitution: separation at -e w_z or faster.

    w are the contact velocities before the impact, w_z the normal ones, and M maps impulses to
    velocity changes. mu and e (n,) are the coefficients of friction and restitution. If this law
    has no solution, the result is the impulse `plastic`.
    """
    n = len(e)
    # lam and w+ + e w_z are complementary, so contacts separate at least at -e w_z
    rebound = np.concatenate([e * minimum(w[:n], 0.0), np.zeros(len(w) - n)])
    return _feasible_or_plastic(M, w, solve(M, w + rebound, mu, 0.0), plastic, n)


def _poisson_impulse(M: Array, w: Array, e: Array, mu: Any, plastic: Array, solve: Solver) -> Array:
    """Return the Poisson impulse: the plastic impulse plus e times its normal components.

    The function adds a further impulse if contacts would still approach. w are the contact
    velocities before the impact, and M maps impulses to velocity changes. mu and e (n,) are the
    coefficients of friction and restitution.
    """
    again = np.concatenate([e * plastic[: len(e)], np.zeros(len(w) - len(e))])
    both = plastic + again
    return np.asarray(both + solve(M, w + M @ both, mu, np.asarray(mu) * again[: len(mu)]))


def _feasible_or_plastic(M: Array, w: Array, lam: Array, plastic: Array, n: int) -> Array:
    """Return the impulse lam if no contact approaches after it, otherwise the impulse `plastic`.

    w are the contact velocities before the impulse, M maps impulses to velocity changes, and n is
    the number of contacts.

    The tolerance is 1e-3 of the velocities; it was found by trial.
    """
    after, size = reduce(minimum, (w + M @ lam)[:n], 0.0), reduce(maximum, np.abs(w[:n]), 0.0)
    return np.asarray(select(less(after, -1e-3 * size), plastic, lam))


def _sequential_impacts(M: Array, w: Array, e: Array, solve: Solver) -> Array:
    """Return the total impulses (n,) of successive single-contact collisions (RBDA Eq 11.65).

    M = T^T H^-1 T (n, n), w (n,) are the contact velocities before the impact, and e (n,) the
    coefficients of restitution. Each contact has one collision, in contact order; the sequence is
    repeated 2 n times. The last step is a plastic impact of all contacts.
    """
    n, lam = len(w), 0.0 * w
    for i in [*range(n)] * (2 * n):
        # lam_i = -(1 + e_i) w_i / M_ii of a two-body collision
        step = maximum(-(1.0 + e[i]) * w[i] / maximum(M[i, i], TINY), 0.0)
        w, lam[i] = w + M[:, i] * step, lam[i] + step
    return np.asarray(lam + solve(M, w, np.zeros(0), 0.0))


def _mobility(
    I1: RigidInertia | None, I2: RigidInertia | None, N: Array
) -> tuple[Array, list[Array]]:
    """Return N^T (I1^-1 + I2^-1) N (k, k), and the list of I1^-1 N and I2^-1 N (6, k).

    The first result is the inverse inertia of two bodies at their contact point. N (6, k) contains
    unit forces through this point.
    """
    _check_unit_forces(N)
    if I1 is None and I2 is None:
        raise ValueError(
            "a collision needs the inertia of one body or of both bodies; both are None"
        )
    columns = [_velocities(body, I, N) for body, I in ((1, I1), (2, I2))]
    M: Array = N.T @ (columns[0] + columns[1])
    return M, columns


def _velocities(body: int, inertia: RigidInertia | None, N: Array) -> Array:
    """Return the velocity changes I^-1 N (6, k) of a body due to the unit impulses N (6, k).

    The result is zero for a body that cannot move (`inertia` is None). `body` is the number of the
    body, 1 or 2, in the error message.
    """
    if inertia is None:
        return np.zeros_like(N)
    I = inertia.matrix()
    if I.dtype != object and not np.linalg.eigvalsh(I)[0] > 0:
        raise ValueError(
            f"the inertia of body {body} of a collision is not positive definite: {I.tolist()}"
        )
    return positive_solution(I, N)


def _check_unit_forces(N: Array) -> None:
    """Raise ValueError unless the linear component of each column of N (6, k) has the length 1."""
    if N.shape[0] != 6:
        raise ValueError(f"the unit forces of a collision need 6 rows, not shape {N.shape}")
    if N.dtype != object and (np.abs((N[3:] ** 2).sum(axis=0) - 1.0) > 1e-6).any():
        raise ValueError(
            "each unit force of a collision must have a linear part of length 1; the linear parts "
            f"are {N[3:].T.tolist()}"
        )


def _check_restitution(e: Any) -> None:
    """Raise ValueError if a coefficient of restitution e is not between 0 and 1."""
    values = np.asarray(e)
    if values.dtype != object and not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"a coefficient of restitution must be between 0 and 1, not {values.tolist()}"
        )


# returns lam (ordered as `ContactUnknowns`) from M, d, mu and an optional `start`
StepSolver = Callable[..., Array]


class ContactStep(NamedTuple):
    """Result of a contact step: final velocities qd (nv,), impulses (n, 3) and residual.

    The impulses [N s] are (z, x, y) of each contact. For a joint limit, z is a joint impulse and
    x = y = 0. `residual` [m/s] is the result of `contact_residual`.
    """

    qd: Array
    impulse: Array
    residual: Any


def contact_step(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    h: Any,
    e: Any = 0.0,
    correction: Any = 0.2,
    fastest: Any = 1.0,
    solve: StepSolver = projected_sweeps,
    cone: bool = True,
    start: Array | None = None,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> ContactStep:
    """Return the velocities after a time step h [s] with contact impulses.

        qd+ = qd + h H^-1 (tau - C) + H^-1 T lam,   w = T^T qd+,
        0 <= lam_z  perpendicular to  w_z >= u,  |lam_t| <= mu lam_z

    lam_t are the tangential impulses of a contact. On the friction limit, lam_t opposes the sliding
    velocity w_t. The lower bound u is

    - for an open contact, which may close: -gap / h;
    - for a penetrating contact: min(-correction gap / h, fastest);
    - for a contact that closes within the step and rebounds: -e w_z, with w_z before the step.

    The arguments may be floats or traced values. Contacts may be open. The configuration after the
    step is q (+) h qd+. If restitution or incomplete convergence would add kinetic energy, the
    function scales down all impulses. Only the penetration correction can therefore do positive
    work. If e is zero, the impulses also do no positive work at the final velocities qd+. If H and
    gravity are constant, no step adds energy.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        tau: Joint forces (nv,).
        contacts: The contacts.
        h: Step size [s].
        e: Coefficient of restitution.
        correction: Fraction of the penetration depth that a step removes.
        fastest: Maximum velocity of the penetration correction [m/s].
        solve: Solver that returns lam from (M, d, mu), with M = T^T H^-1 T and the contact
            velocities d for lam = 0.
        cone: Friction limit of the solver, for the residual: True for Coulomb's cone, False for the
            pyramid.
        start: Impulses (n, 3) of the contacts in the previous step, for a warm start. The function
            passes these impulses to `solve` as `start`.
        f_ext: External wrenches (nb, 6) in base coordinates.
        gravity: Gravity (3,) [m/s^2]; default: gravity of the model.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    rows, T = contact_unknowns(contacts), contact_matrix(model, q, contacts)
    M, HinvT, free = delassus_factors(model, q, T, tau - bias_force(model, q, qd, f_ext, gravity))
    n, before, moved = len(contacts), T.T @ qd, qd + h * free
    # d = T^T (qd + h H^-1 (tau - C)): contact velocities after the step without contact impulses
    d = T.T @ moved
    gap = np.array([contact_gap(model, q, contacts[i]) for i in rows.order])
    correction_speed = np.asarray(maximum(minimum(-correction * gap / h, fastest), 0.0))
    u = _minimum_velocity(gap, before[:n], d[:n], h, e, correction_speed)
    given = {} if start is None else {"start": rows.solver_unknowns(start)}
    demanded = _relative_velocity(d, u)
    lam = _limit_work(M, d, u, correction_speed, solve(M, demanded, rows.mu, **given))
    residual = contact_residual(M, demanded, lam, rows.mu, cone=cone)
    return ContactStep(moved + HinvT @ lam, rows.contact_components(lam), residual)


def _limit_work(M: Array, d: Array, u: Array, correction_speed: Array, lam: Array) -> Array:
    """Scale the impulse lam so that only the penetration correction does positive work.

    M maps impulses to changes of the contact velocities. d (n + 2k,) are the contact velocities for
    lam = 0, and u (n,) the lower bounds of the separation velocities. `correction_speed` (n,) are
    the separation velocities of the penetration correction.
    """
    lam = workless_impulse(M, _relative_velocity(d, maximum(u, 0.0)), lam)
    return passive_impulse(M, _relative_velocity(d, correction_speed), np.zeros(len(d)), lam)


def _relative_velocity(w: Array, normal: Array) -> Array:
    """Subtract `normal` (n,) from the normal components of the contact velocities w (n + 2k,)."""
    return np.asarray(w - np.concatenate([normal, np.zeros(len(w) - len(normal))]))


def _minimum_velocity(
    gap: Array, velocity_before: Array, free: Array, h: Any, e: Any, correction_speed: Array
) -> Array:
    """Return the lower bounds (n,) [m/s] of the separation velocities at the end of a step.

    Args:
        gap: Gaps (n,) [m] at the start of the step.
        velocity_before: Separation velocities (n,) at the start of the step.
        free: Separation velocities (n,) at the end of the step without contact impulses.
        h: Step size [s].
        e: Coefficient of restitution.
        correction_speed: Velocities (n,) of the penetration correction.
    """
    rebound = maximum(-e * velocity_before, 0.0)
    rate = select(
        less(gap + h * free, 0.0), select(less(0.0, rebound), rebound, -gap / h), -gap / h
    )
    return np.asarray(select(less(0.0, gap), rate, maximum(rebound, correction_speed)))
