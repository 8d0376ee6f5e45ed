"""Rotors, which add inertia to joints, and gears, which couple joints (RBDA 9.6)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics.force_elements import AlongJoint, joint_line
from rigidblocks.dynamics.forward import JointDynamics, crba, hybrid_dynamics
from rigidblocks.dynamics.inverse import bias_force, rnea
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.linear_algebra import positive_solution
from rigidblocks.spatial.scalar import is_number, is_traced
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Gears:
    """Linear relation q = G y of joint variables q and independent variables y.

    G is (nv, ny). `independent` contains the indices of the independent variables. The row of each
    independent variable has a single 1.
    """

    G: Array
    independent: tuple[int, ...]


class ProjectedDynamics(NamedTuple):
    """Equation of motion H_G ydd + C_G = G^T tau in independent variables (RBDA Eq 9.26).

    H_G = G^T H G (ny, ny) and C_G = G^T (C + H g) (ny,), with qdd = G ydd + g.
    """

    H: Array
    C: Array


def gears(model: Model, driven: Mapping[int, Mapping[int, float]]) -> Gears:
    """Create the gear matrix from the ratios of driven variables to independent variables.

    A gear pair with q[1] = 100 q[0] is {1: {0: 100}}. A differential with q[2] as the mean of two
    variables is {2: {0: 0.5, 1: 0.5}}.

    Args:
        model: Model with equal numbers of positions and velocities.
        driven: `driven[k]` maps the index j of each independent variable that drives variable k to
            the ratio of q[k] to q[j].

    Returns:
        The matrix G and the indices of the independent variables.

    Raises:
        ValueError: A variable does not exist, a driven variable drives another variable, or a joint
            has more positions than velocities.
    """
    if model.nq != model.nv:
        raise ValueError(
            f"model '{model.name}' has {model.nq} positions and {model.nv} velocities; gears need "
            "as many velocities as positions"
        )
    independent = tuple(k for k in range(model.nv) if k not in driven)
    G = np.zeros((model.nv, len(independent)))
    G[list(independent), range(len(independent))] = 1.0
    for k, ratios in driven.items():
        if not 0 <= k < model.nv or set(ratios) - set(independent):
            known = f"the independent variables of model '{model.name}' are {independent}"
            raise ValueError(
                f"the gear of variable {k} refers to the variables {sorted(ratios)}, but {known}"
            )
        for j, ratio in ratios.items():
            G[k, independent.index(j)] = ratio
    return Gears(G, independent)


def projected_dynamics(H: Array, C: Array, G: Array, g: Array | None = None) -> ProjectedDynamics:
    """Return the equation of motion in independent variables y (RBDA Eq 9.26), for qdd = G ydd + g.

    The tracer omits the zeros of G and H, so that only the terms of Eq 9.27 remain. Only nonlinear
    gears need g (nv,).

    Args:
        H: Inertia matrix (nv, nv).
        C: Bias force (nv,).
        G: Matrix (nv, ny) from ydd to qdd.
        g: Accelerations (nv,) at ydd = 0; by default zero.
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
    """Return the accelerations ydd (ny,) of the independent variables.

    The forces `tau` (nv,) act at all joints, including driven joints.

    Args:
        model: Model without loops.
        coupling: Gears of the model.
        y: Independent positions (ny,).
        yd: Independent velocities (ny,).
        tau: Joint forces (nv,) [N m or N].
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
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
    """Return the forces u (ny,) at the independent variables that cause ydd (RBDA Eq 8.62).

    All joint forces tau with G^T tau = u cause the same accelerations ydd (ny,). A motor with the
    gear ratio rho at an independent variable needs the torque u / rho.

    Args:
        model: Model without loops.
        coupling: Gears of the model.
        y: Independent positions (ny,).
        yd: Independent velocities (ny,).
        ydd: Independent accelerations (ny,).
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
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
    """Return the joint accelerations qdd (nv,) of a model with geared rotors at its joints.

    This is the articulated-body algorithm, with the rotor inertias on the diagonal of the inertia
    matrix (RBDA Eq 9.28). It neglects the rotor masses and the gyroscopic forces. `rotor_bias`
    returns the bias forces of rotors at a SixDoF joint.

    Args:
        model: Model without loops.
        q: Joint positions (nq,) [rad or m].
        qd: Joint velocities (nv,).
        tau: Joint forces (nv,) [N m or N].
        rotor_inertia: Rotor inertias (nv,) at the joints [kg m^2 or kg], the squared gear ratios
            times the inertias of the rotors.
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.
    """
    rotor_inertia = np.asarray(rotor_inertia)
    return hybrid_dynamics(
        model, (True,) * model.nb, q, qd, np.zeros(model.nv), tau, f_ext, gravity, rotor_inertia
    ).qdd


class ReflectedRotor(NamedTuple):
    """Rotor that a gear connects rigidly to a joint (RBDA Eq 9.28).

    The rotor adds ratio^2 inertia to the inertia of the joint.

    `inertia` [kg m^2] is the rotor inertia about its own axis. `ratio` is the rotor speed divided
    by the joint speed, in rad/m at a prismatic joint. The model neglects the rotor mass and the
    gyroscopic forces. If `joint` is an `AlongVelocity` of a SixDoF joint, gravity does not act on
    the added inertia.
    """

    joint: str | int | AlongJoint
    inertia: Any
    ratio: Any = 1.0


class GearPair(NamedTuple):
    """Coupling of two joints: q_driven = ratio y + offset + sum of curve[k] y^(k + 2).

    y is the position of the joint `driving`.
    """

    driven: str | int | AlongJoint
    driving: str | int | AlongJoint
    ratio: Any = 1.0
    offset: Any = 0.0
    curve: tuple[float, ...] = ()


class GearRelation(NamedTuple):
    """Gear relation q = ratio y + offset + sum of curve[k] y^(k + 2).

    y is the independent variable with the index `driving`. `bias` is the part of the driven
    acceleration that does not depend on the accelerations: qdd = ratio ydd + bias. The bias is
    zero unless `linearize` has set it.
    """

    driving: int
    ratio: Any
    offset: Any
    curve: tuple[Any, ...] = ()
    bias: Any = 0.0

    @property
    def coefficients(self) -> tuple[Any, ...]:
        """Coefficients of the polynomial in y, by increasing power."""
        return (self.offset, self.ratio, *self.curve)

    def linearize(self, y: Any, yd: Any) -> "GearRelation":
        """Return the tangent of the relation q = f(y) at y, with the bias f''(y) yd^2."""
        if not self.curve:
            return self
        value, slope, bend = 0.0, 0.0, 0.0
        for c in reversed(self.coefficients):  # Horner's method for f, f' and f'' / 2
            value, slope, bend = c + y * value, value + y * slope, slope + y * bend
        return GearRelation(self.driving, slope, value - slope * y, (), 2.0 * bend * yd * yd)


class Transmissions(NamedTuple):
    """Rotors and gears of a model.

    `rotor_inertia` (nv,) [kg m^2, kg] is added to the diagonal of the joint-space inertia matrix.
    `driven` maps each driven variable to its gear relation. The keys are indices in qd.
    """

    rotor_inertia: Array
    driven: Mapping[int, GearRelation]

    @property
    def is_linear(self) -> bool:
        """True if the relations of all gears are linear."""
        return not any(drive.curve for drive in self.driven.values())

    def linearize(self, model: Tree, q: Array, qd: Array) -> "Transmissions":
        """Return the tangents of all gears at q (nq,) and qd (nv,), with their biases."""
        return self._replace(driven=linearize_gears(model, self.driven, q, qd))

    @property
    def bias(self) -> Array | None:
        """Accelerations g (nv,) in qdd = G ydd + g, for gears from `linearize`; None if g = 0."""
        biases = {k: drive.bias for k, drive in self.driven.items()}
        if all(is_number(bias, 0.0) for bias in biases.values()):
            return None
        return np.array([biases.get(k, 0.0) for k in range(len(self.rotor_inertia))])

    @property
    def matrix(self) -> Array:
        """Matrix G (nv, ny) of qd = G yd; yd are the independent variables in the order of qd."""
        count = len(self.rotor_inertia)
        assert self.is_linear, "linearize nonlinear gears first"
        independent = [k for k in range(count) if k not in self.driven]
        G = np.zeros((count, len(independent)), dtype=object)
        G[independent, range(len(independent))] = 1.0
        for k, drive in self.driven.items():
            G[k, independent.index(drive.driving)] = drive.ratio
        return _convert_to_floats(G)


def transmissions(
    model: Tree, rotors: Iterable[ReflectedRotor] = (), pairs: Iterable[GearPair] = ()
) -> Transmissions:
    """Combine rotors and gear pairs: rotor inertias at the joints, and gear relations.

    Raises:
        ValueError: Two gears drive the same joint, or a joint drives itself through other joints.
    """
    inertia: Array = np.zeros(model.nv, dtype=object)
    given: dict[int, GearRelation] = {}
    for rotor in rotors:
        k = joint_line(rotor.joint).variables(model)[1]
        inertia[k] = inertia[k] + rotor.ratio * rotor.ratio * rotor.inertia
    for pair in pairs:
        k, driving = (
            joint_line(joint).variables(model)[1] for joint in (pair.driven, pair.driving)
        )
        if k in given:
            raise ValueError(
                f"{_joint_of(model, k)} is driven by two gears; at most one gear can drive a joint"
            )
        given[k] = GearRelation(driving, pair.ratio, pair.offset, pair.curve)
    return Transmissions(
        _convert_to_floats(inertia), {k: _relation_to_independent(model, given, k) for k in given}
    )


def project_onto_gears(
    model: Tree, driven: Mapping[int, GearRelation], q: Array, qd: Array
) -> tuple[Array, Array]:
    """Compute the driven variables from the independent variables; return q and qd."""
    positions, moved, speeds = position_indices(model), list(q), list(qd)
    for k, (driving, ratio, offset, *_) in linearize_gears(model, driven, q, qd).items():
        moved[positions[k]] = ratio * q[positions[driving]] + offset
        speeds[k] = ratio * qd[driving]
    return np.array(moved), np.array(speeds)


def linearize_gears(
    model: Tree, driven: Mapping[int, GearRelation], q: Array, qd: Array
) -> Mapping[int, GearRelation]:
    """Return the tangents of gears at q (nq,) and qd (nv,); linear gears do not change."""
    if not any(drive.curve for drive in driven.values()):
        return driven
    positions = position_indices(model)
    return {
        k: gear.linearize(q[positions[gear.driving]], qd[gear.driving])
        for k, gear in driven.items()
    }


def gear_constraints(
    model: Tree, driven: Mapping[int, GearRelation], q: Array
) -> tuple[Array, Array]:
    """Return the linear gear constraints K qd = 0 and their position errors.

    Returns:
        K (n, nv) and delta (n,), with one row per driven variable.
    """
    positions = position_indices(model)
    K: Array = np.zeros((len(driven), model.nv), dtype=object)
    delta = []
    for row, (k, (driving, ratio, offset, *_)) in zip(K, driven.items(), strict=True):
        row[k], row[driving] = 1.0, -ratio
        delta.append(q[positions[k]] - (ratio * q[positions[driving]] + offset))
    return _convert_to_floats(K), np.array(delta)


def geared_accelerations(
    model: Tree,
    transmissions: Transmissions,
    q: Array,
    qd: Array,
    qdd: Array,
    tau: Array,
    prescribed: tuple[int, ...] = (),
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> JointDynamics:
    """Return the accelerations of all variables and the forces of prescribed variables.

        G1^T H G1 ydd1 = G1^T (tau - C - H (G2 ydd2 + g))      (RBDA Eq 9.26 and 9.2)

    H includes the rotor inertia on its diagonal, and C is the bias force. G1 and G2 are the columns
    of the gear matrix for the free and for the prescribed independent variables. ydd1 and ydd2 are
    the accelerations of these variables, and g is the bias of nonlinear gears.

    Args:
        model: Model without loops.
        transmissions: Gears and rotors of the model.
        q: Positions (nq,).
        qd: Velocities (nv,).
        qdd: Accelerations (nv,), used at the prescribed variables.
        tau: Forces (nv,) [N m or N].
        prescribed: Indices of the independent variables with prescribed accelerations.
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates [N m, N].
        gravity: Gravity (3,) [m/s^2] in base coordinates; by default model.gravity.

    Returns:
        The accelerations (nv,) and the forces (nv,). The forces are zero at variables that are not
        prescribed.
    """
    transmissions = transmissions.linearize(model, q, qd)
    G = transmissions.matrix
    independent = [k for k in range(model.nv) if k not in transmissions.driven]
    free = [j for j, k in enumerate(independent) if k not in prescribed]
    ydd2 = np.array([qdd[k] if k in prescribed else 0.0 for k in independent])
    known = G @ ydd2
    if transmissions.bias is not None:
        known = known + transmissions.bias
    H = crba(model, q) + np.diag(transmissions.rotor_inertia)
    bias = rnea(model, q, qd, known, f_ext, gravity) + transmissions.rotor_inertia * known
    H1, u1 = projected_dynamics(H, tau - bias, G[:, free])
    found = G[:, free] @ positive_solution(H1, u1)
    left = G.T @ (bias + H @ found - tau)
    forces = np.zeros(model.nv, dtype=left.dtype)
    for j, k in enumerate(independent):
        if k in prescribed:
            forces[k] = left[j]
    return JointDynamics(known + found, forces)


def _relation_to_independent(
    model: Tree, drives: Mapping[int, GearRelation], k: int
) -> GearRelation:
    """Combine a chain of gears: return the relation of variable k to its independent variable."""
    drive, seen = drives[k], {k}
    while drive.driving in drives:
        if drive.driving in seen:
            raise ValueError(
                f"{_joint_of(model, k)} is driven by itself; a chain of gears must not be closed"
            )
        seen.add(drive.driving)
        drive = _compose(drive, drives[drive.driving])
    if drive.driving in seen:
        raise ValueError(
            f"{_joint_of(model, k)} is driven by itself; a chain of gears must not be closed"
        )
    return drive


def _compose(outer: GearRelation, inner: GearRelation) -> GearRelation:
    """Return the relation of two gears in series.

    The variable that `inner` drives is the driving variable of `outer`.
    """
    if not outer.curve and not inner.curve:
        offset = outer.ratio * inner.offset + outer.offset
        return GearRelation(inner.driving, outer.ratio * inner.ratio, offset)
    result: list[Any] = [0.0]
    for c in reversed(outer.coefficients):  # Horner's method with polynomials
        product = [0.0] * (len(result) + len(inner.coefficients) - 1)
        for i, a in enumerate(result):
            for j, b in enumerate(inner.coefficients):
                product[i + j] = product[i + j] + a * b
        result = [product[0] + c, *product[1:]]
    degree = (len(outer.coefficients) - 1) * (len(inner.coefficients) - 1)
    offset, ratio, *curve = result[: degree + 1]
    return GearRelation(inner.driving, ratio, offset, tuple(curve))


def position_indices(model: Tree) -> dict[int, int]:
    """Return the index in q of each joint variable, by the index of the variable in qd.

    The result omits joints with more position variables than velocity variables.
    """
    joints = zip(model.joint, model.q_slices, model.v_slices, strict=True)
    return {
        v.start + j: q.start + j
        for joint, q, v in joints
        if joint.nq == joint.nv
        for j in range(joint.nv)
    }


def _joint_of(model: Tree, k: int) -> str:
    return next(
        name for name, v in zip(model.joint_names, model.v_slices, strict=True) if k < v.stop
    )


def _convert_to_floats(array: Array) -> Array:
    """Return the array as floats if it has no traced elements, otherwise unchanged."""
    return array if any(is_traced(x) for x in array.flat) else array.astype(float)
