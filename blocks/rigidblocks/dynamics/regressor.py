"""Regressor of the inverse dynamics, which is linear in the inertial parameters of the bodies."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.dynamics.inverse import net_forces
from rigidblocks.dynamics.joint_kinematics import check_lengths, fixed_base, minus_gravity
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import Array, RigidInertia, skew, spin

SPATIAL_PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
PLANAR_PARAMETERS = ("m", "hx", "hy", "I")


def parameter_names(model: Tree) -> tuple[str, ...]:
    """Return the names of the inertial parameters of one body, in the order of the regressor."""
    return SPATIAL_PARAMETERS if isinstance(model, Model) else PLANAR_PARAMETERS


def regressor(model: Tree, q: Array, qd: Array, qdd: Array, gravity: Array | None = None) -> Array:
    """Return the regressor Y (nv, 10 nb) of the inverse dynamics: tau = Y(q, qd, qdd) phi.

    phi contains the inertial parameters of all bodies (`inertial_parameters`). Y does not depend on
    the inertial parameters of the model. For a planar model, the shape of Y is (nv, 4 nb). The loop
    joints of a model add constraint forces to tau, which Y phi does not contain.

    Args:
        model: Tree of bodies.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        qdd: Joint accelerations (nv,).
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.

    Raises:
        ValueError: A vector has the wrong length.

    References:
        Atkeson, An and Hollerbach, Estimation of Inertial Parameters of Manipulator Loads and
        Links, 1986.
    """
    check_lengths(model, q=q, qd=qd, qdd=qdd)
    unit, n = _unit_bodies(model), len(parameter_names(model))
    motion = minus_gravity(model, gravity)
    Xup, S, f = net_forces(unit, fixed_base(unit), motion, q, qd, qdd)
    dtype = object if any(np.asarray(x).dtype == object for x in (q, qd, qdd, motion)) else float
    Y = np.zeros((model.nv, n * model.nb), dtype)
    columns: list[list[int]] = [list(range(n * i, n * i + n)) for i in range(model.nb)]
    for i in reversed(range(model.nb)):
        Y[model.v_slices[i], columns[i]] = S[i].T @ f[i]
        if (p := model.parent[i]) >= 0:
            f[p] = np.concatenate([f[p], Xup[i].T @ f[i]], axis=1)
            columns[p] = columns[p] + columns[i]
    return Y


class _UnitBody:
    """Substitute for the inertia of a spatial body in the recursion of `net_forces`."""

    def force(self, v: Array, a: Array) -> Array:
        """Return F (6, 10), which maps the parameters phi of a spatial body to the force F phi.

            [0, -a x, L(wd) + w x L(w)]
            [a,  W,   0               ]

        a is the acceleration of the origin, w the angular velocity and wd its derivative. W =
        `spin(w, wd)`. L(w) (3, 6) maps the moments of inertia to the angular momentum: I w = L(w)
        (xx, yy, zz, xy, xz, yz).
        """
        (x, y, z), (dx, dy, dz), a_lin = v[:3], a[:3], a[3:]
        F = np.zeros((6, 10), np.result_type(v, a))
        F[:3, 1:4] = -skew(a_lin)
        F[:3, 4:] = [
            [dx, -y * z, y * z, dy - x * z, dz + x * y, y * y - z * z],
            [x * z, dy, -x * z, dx + y * z, z * z - x * x, dz - x * y],
            [-x * y, x * y, dz, x * x - y * y, dx - y * z, dy + x * z],
        ]
        F[3:, 0] = a_lin
        F[3:, 1:4] = spin(v[:3], a[:3])
        return F


class _UnitPlanarBody:
    """Substitute for the inertia of a planar body in the recursion of `net_forces`."""

    def force(self, v: Array, a: Array) -> Array:
        """Return F (3, 4), which maps the parameters phi of a planar body to the force F phi.

        v and a are the planar velocity and acceleration of the body.
        """
        F = np.zeros((3, 4), np.result_type(v, a))
        F[0, 1:3] = [a[2], -a[1]]  # h x a
        F[0, 3] = a[0]
        F[1:, 0] = a[1:]
        F[1:, 1:3] = planar.spin(v[:1], a[:1])
        return F


def _unit_bodies(model: Tree) -> Any:
    """Return a copy of a model in which unit bodies replace the inertias.

    For this copy, `net_forces` returns the matrices F of the bodies instead of forces.
    """
    other: Any = object.__new__(type(model))
    body = _UnitBody() if isinstance(model, Model) else _UnitPlanarBody()
    vars(other).update({**vars(model), "inertia": (body,) * model.nb})
    return other


def inertial_parameters(model: Tree) -> Array:
    """Return the inertial parameters phi (10 nb,) of all bodies, or (4 nb,) of a planar model.

    The parameters of a body are m, hx, hy, hz, Ixx, Iyy, Izz, Ixy, Ixz and Iyz: the mass [kg], the
    first moments m c [kg m], and the rotational inertia about the origin of the body frame
    [kg m^2]. The parameters of a planar body are m, hx, hy and I.
    """
    return np.concatenate([_parameters_of(body) for body in model.inertia])


def _parameters_of(body: Any) -> Array:
    if not isinstance(body, RigidInertia):
        return np.array([body.m, *body.h, body.I], dtype=float)
    I = body.I
    moments = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]
    return np.array([body.m, *body.h, *moments], dtype=float)


def replace_inertial_parameters(model: Any, phi: ArrayLike) -> Any:
    """Return a copy of a model with the inertial parameters phi (`inertial_parameters`).

    Raises:
        ValueError: phi has the wrong length, or an inertia is physically impossible.
    """
    n = len(parameter_names(model))
    values = np.asarray(phi, dtype=float)
    if values.shape != (n * model.nb,):
        raise ValueError(
            f"the inertial parameters of model '{model.name}' have the shape {values.shape}; "
            f"expected ({n * model.nb},), {n} for each body"
        )
    return replace(model, inertia=tuple(map(_body, values.reshape(-1, n))))


def _body(phi: Array) -> Any:
    if len(phi) == len(PLANAR_PARAMETERS):
        return planar.RigidInertia(float(phi[0]), phi[1:3], float(phi[3]))
    xx, yy, zz, xy, xz, yz = phi[4:]
    return RigidInertia(
        float(phi[0]), phi[1:4], np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    )
