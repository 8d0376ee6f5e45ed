"""Gears: joint variables that are fixed combinations of others, and the rotors behind them (RBDA
9.6).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.hybrid import hybrid_dynamics
from rigidblocks.dynamics.inverse import bias_force, rnea
from rigidblocks.dynamics.joint_space import crba
from rigidblocks.model.model import Model


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Gears:
    """The joint variables as a function of the independent ones: q = G y, G (nv, ny) with a one for
    every independent.
    """

    G: Array
    independent: tuple[int, ...]


class ProjectedDynamics(NamedTuple):
    """H_G ydd + C_G = G^T tau: H_G = G^T H G (ny, ny) and C_G = G^T (C + H g) (ny,) (RBDA Eq
    9.26).
    """

    H: Array
    C: Array


def gears(model: Model, driven: Mapping[int, Mapping[int, float]]) -> Gears:
    """The gears by which independent variables drive others: `driven[k]` has the ratios that make
    q[k] of them.

    A gear pair with q[1] = 100 q[0] is {1: {0: 100}}; a differential that makes q[2] the mean of
    two is {2: {0: 0.5, 1: 0.5}}. Raises ValueError for a variable that the model has not, one that
    is driven by a driven one, and a joint whose positions are not coordinates.
    """
    if model.nq != model.nv:
        raise ValueError(
            f"model '{model.name}' has {model.nq} positions and {model.nv} velocities; gears need "
            "as many"
        )
    independent = tuple(k for k in range(model.nv) if k not in driven)
    G = np.zeros((model.nv, len(independent)))
    G[list(independent), range(len(independent))] = 1.0
    for k, ratios in driven.items():
        if not 0 <= k < model.nv or set(ratios) - set(independent):
            known = f"the independent variables of model '{model.name}' are {independent}"
            raise ValueError(
                f"a gear drives variable {k} by the variables {sorted(ratios)}, but {known}"
            )
        for j, ratio in ratios.items():
            G[k, independent.index(j)] = ratio
    return Gears(G, independent)


def projected_dynamics(H: Array, C: Array, G: Array, g: Array | None = None) -> ProjectedDynamics:
    """The equation of motion in independent variables (RBDA Eq 9.26), for qdd = G ydd + g.

    Traced, the zeros of G and H fold away, which leaves what Eq 9.27 says. g (nv,) is there for
    nonlinear gears alone.
    """
    bias = C if g is None else C + H @ g
    product = G.T @ (H @ G)
    return ProjectedDynamics(np.tril(product) + np.tril(product, -1).T, G.T @ bias)


def geared_forward_dynamics(
    model: Model,
    coupling: Gears,
    y: Array,
    yd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """The accelerations ydd (ny,) of the independent variables from the forces tau (nv,) at all
    joints, driven or not.
    """
    q, qd = coupling.G @ y, coupling.G @ yd
    H, C = projected_dynamics(crba(model, q), bias_force(model, q, qd, f_ext, gravity), coupling.G)
    return positive_solution(H, coupling.G.T @ tau - C)


def geared_inverse_dynamics(
    model: Model,
    coupling: Gears,
    y: Array,
    yd: Array,
    ydd: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """u (ny,) = G^T tau: what joint forces tau must amount to at the independent variables for ydd
    (RBDA Eq 8.62).

    Any tau with this product does: a motor behind a ratio rho in the place of an independent
    variable needs u / rho.
    """
    G = coupling.G
    u: Array = G.T @ rnea(model, G @ y, G @ yd, G @ ydd, f_ext, gravity)
    return u


def aba_with_rotors(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    rotor_inertia: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> Array:
    """The joint accelerations qdd (nv,) with rotors that turn fast behind their gears: D_i = S^T U
    + I_rot (RBDA Eq 9.28).

    `rotor_inertia` (nv,) is what is felt at the joint, rho^2 times the rotor's own. It leaves out
    what is small: the rotors' masses, and their gyroscopic forces. Raises ValueError for a rotor at
    a joint with several freedoms.
    """
    rotor_inertia = np.asarray(rotor_inertia)
    for i, vi in enumerate(model.v_slices):
        if model.joint[i].nv > 1 and any(
            isinstance(r, float) and r != 0 for r in rotor_inertia[vi].tolist()
        ):
            raise ValueError(
                f"joint {i} ({model.joint_names[i]}) has {model.joint[i].nv} freedoms; a rotor "
                "drives only one"
            )
    return hybrid_dynamics(
        model, (True,) * model.nb, q, qd, np.zeros(model.nv), tau, f_ext, gravity, rotor_inertia
    ).qdd
