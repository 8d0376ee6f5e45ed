"""Propagation of NaN: an algorithm rejects a NaN or returns NaN in all dependent elements.

A result element that stays finite while an input element is NaN must not depend on that input:
other values of the input give the same result element up to rounding.
"""

import inspect
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import loop_model
from random_models import MODELS, random_inertia, random_state, random_transform
from rigidblocks.contact import (
    JointLimit,
    collision,
    collision_with_friction,
    complementarity,
    contact_residual,
    contact_step,
    frictional_complementarity,
    impact,
    impact_impulse,
    passive_impulse,
    projected_sweeps,
    pyramid_forces,
)
from rigidblocks.contact.event_driven.gauss_seidel_kernel import compiled_sweeps
from rigidblocks.dynamics import (
    aba,
    aba_floating,
    aba_with_rotors,
    articulated_inertias,
    bias_force,
    bias_force_floating,
    body_accelerations,
    body_jacobian,
    body_jacobian_floating,
    body_jacobian_rate,
    body_poses,
    body_velocities,
    centre_of_mass,
    centre_of_mass_jacobian,
    centre_of_mass_velocity,
    centroidal_momentum,
    coulomb_friction,
    crba,
    crba_floating,
    energy,
    forward_dynamics_crba,
    forward_dynamics_crba_floating,
    geared_forward_dynamics,
    geared_inverse_dynamics,
    gears,
    hybrid_dynamics,
    inertia_times,
    jacobian_derivatives,
    joint_space_floating,
    kinetic_energy,
    momentum,
    momentum_matrix,
    point_acceleration,
    point_jacobian,
    point_position,
    point_velocity,
    potential_energy,
    projected_dynamics,
    rnea,
    rnea_derivatives,
    rnea_floating,
    specific_force,
)
from rigidblocks.dynamics.loops import (
    closed_loop_dynamics,
    closed_loop_inverse_dynamics,
    closure_errors,
    loop_constraints,
    project,
    project_velocity,
)
from rigidblocks.kernels.compiled_dynamics import compiled_dynamics, derivatives
from rigidblocks.robot.configuration import (
    difference,
    integrate,
    neutral,
    normalize_quaternions,
    rate,
)
from rigidblocks.spatial.scalar import clip, maximum, minimum
from rigidblocks.spatial.spatial import Transform
from rigidblocks.tracing.compiled_functions import compile_function

SAME = 1e-9  # relative to the largest element; includes the condition number of an inertia
POINT = np.array([0.1, 0.2, -0.3])


def numbers(part):
    """Return all values of a result as one array."""
    if hasattr(part, "matrix"):
        return np.ravel(part.matrix())
    if isinstance(part, dict):
        part = tuple(part.values())
    if isinstance(part, list | tuple):
        return np.concatenate([np.zeros(0), *map(numbers, part)])
    return np.ravel(np.asarray(part, dtype=float)) if part is not None else np.zeros(0)


def keeps_nan(function, inputs, rng):
    """Check that `function` propagates a NaN in each element of its inputs."""
    for name, values in inputs.items():
        for k in range(np.size(values)):
            found = [given_element(function, inputs, name, k, x) for x in (np.nan, *rng.random(2))]
            if any(one is None for one in found):
                continue  # the input was rejected, or another value has no result
            finite = np.isfinite(found[0])
            size = max(np.abs(found[1]).max(initial=0.0), 1.0)
            for other in found[1:]:
                what = f"{name}[{k}] = NaN leaves what depends on it finite"
                assert_allclose(
                    found[0][finite], other[finite], rtol=0, atol=SAME * size, err_msg=what
                )


def given_element(function, inputs, name, k, value):
    """Return the result for another value of element k of an input, or None after an error."""
    changed = {key: np.array(one, dtype=float) for key, one in inputs.items()}
    changed[name].ravel()[k] = value
    try:
        with np.errstate(all="ignore"):
            return numbers(function(**changed))
    except (ValueError, ArithmeticError):
        return None


TREE = {
    "aba": aba,
    "articulated_inertias": articulated_inertias,
    "bias_force": bias_force,
    "body_accelerations": body_accelerations,
    "body_jacobian": partial(body_jacobian, body=-1),
    "body_jacobian_rate": partial(body_jacobian_rate, body=-1),
    "body_poses": body_poses,
    "body_velocities": body_velocities,
    "centre_of_mass": centre_of_mass,
    "centre_of_mass_jacobian": centre_of_mass_jacobian,
    "centre_of_mass_velocity": centre_of_mass_velocity,
    "centroidal_momentum": centroidal_momentum,
    "crba": crba,
    "difference": lambda model, q: difference(model, neutral(model), q),
    "energy": energy,
    "forward_dynamics_crba": forward_dynamics_crba,
    "hybrid_dynamics": lambda model, q, qd, qdd, tau: hybrid_dynamics(
        model, [i % 2 == 0 for i in range(model.nb)], q, qd, qdd, tau
    ),
    "inertia_times": inertia_times,
    "integrate": lambda model, q, qd: integrate(model, q, qd),
    "kinetic_energy": kinetic_energy,
    "momentum": momentum,
    "momentum_matrix": momentum_matrix,
    "normalized": normalize_quaternions,
    "point_acceleration": partial(point_acceleration, body=-1, point=POINT),
    "point_jacobian": partial(point_jacobian, body=-1, point=POINT),
    "point_position": partial(point_position, body=-1, point=POINT),
    "point_velocity": partial(point_velocity, body=-1, point=POINT),
    "potential_energy": potential_energy,
    "rate": rate,
    "rnea": rnea,
    "specific_force": partial(specific_force, body=-1, point=POINT),
}
LOOPS = {
    # without rank and condition number, which count the values above a threshold
    "closed_loop_dynamics": lambda model, q, qd, tau: closed_loop_dynamics(model, q, qd, tau)[:2],
    "closed_loop_inverse_dynamics": lambda model, q, qd, qdd: closed_loop_inverse_dynamics(
        model, q, qd, qdd
    )[:2],
    "closure_errors": closure_errors,
    "loop_constraints": loop_constraints,
    "project": project,
    "project_velocity": project_velocity,
}


def inputs_of(function, state):
    """Return the state vectors that are parameters of a function."""
    names = inspect.signature(function).parameters
    return {name: getattr(state, name) for name in ("q", "qd", "qdd", "tau") if name in names}


@pytest.mark.parametrize("name", TREE)
@pytest.mark.parametrize("model", ["branched", "all joints"])
def test_tree_algorithms_propagate_nan(name, model, rng):
    tree = MODELS[model]()
    function = partial(TREE[name], tree)
    if "body" in function.keywords:
        function = partial(function, body=tree.nb - 1)
    inputs = inputs_of(TREE[name], random_state(rng, tree))
    assert inputs
    keeps_nan(function, inputs, rng)


GEARS = {
    "aba_with_rotors": aba_with_rotors,
    "geared_forward_dynamics": lambda model, y, yd, tau: geared_forward_dynamics(
        model, gears(model, {1: {0: 20.0}}), y, yd, tau
    ),
    "geared_inverse_dynamics": lambda model, y, yd, ydd: geared_inverse_dynamics(
        model, gears(model, {1: {0: 20.0}}), y, yd, ydd
    ),
    "projected_dynamics": lambda model, q, qd, G: projected_dynamics(
        crba(model, q), bias_force(model, q, qd), G
    ),
}
FLOATING = {
    "aba_floating": aba_floating,
    "bias_force_floating": bias_force_floating,
    "body_jacobian_floating": partial(body_jacobian_floating, body=3),
    "crba_floating": crba_floating,
    "forward_dynamics_crba_floating": forward_dynamics_crba_floating,
    "joint_space_floating": joint_space_floating,
    "rnea_floating": rnea_floating,
}
DERIVATIVES = {"jacobian_derivatives": jacobian_derivatives, "rnea_derivatives": rnea_derivatives}


@pytest.mark.slow
@pytest.mark.parametrize("name", GEARS)
def test_gear_and_rotor_algorithms_propagate_nan(name, rng):
    model = MODELS["mixed"]()
    state, n = random_state(rng, model), model.nv
    given = {**state._asdict(), "rotor_inertia": rng.random(n), "G": rng.normal(size=(n, n - 1))}
    given |= {"y": state.q[1:], "yd": state.qd[1:], "ydd": state.qdd[1:]}
    names = [name for name in inspect.signature(GEARS[name]).parameters if name in given]
    keeps_nan(
        partial(GEARS[name], model), {one: given[one] for one in names if one != "f_ext"}, rng
    )


@pytest.mark.parametrize("name", FLOATING)
def test_floating_base_algorithms_propagate_nan(name, rng):
    model = MODELS["satellite"]()
    state, X = random_state(rng, model), random_transform(rng)
    function, names = FLOATING[name], inspect.signature(FLOATING[name]).parameters
    inputs = {"q": state.q[7:], "qd": state.qd[6:], "qdd": state.qdd[6:], "tau": state.tau[6:]}
    inputs = {one: value for one, value in inputs.items() if one in names}

    def at(v, E, r, **joints):
        return function(model, Transform(E, r), v, **joints)

    if "X" in names:
        keeps_nan(at, {"v": rng.normal(size=6), "E": X.E, "r": X.r, **inputs}, rng)
    else:
        keeps_nan(partial(function, model), inputs, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVATIVES)
def test_recursive_derivatives_propagate_nan(name, rng):
    model = MODELS["mixed"]()
    inputs = inputs_of(DERIVATIVES[name], random_state(rng, model))
    keeps_nan(partial(DERIVATIVES[name], model), inputs, rng)


COMPILED = {
    "aba": ("q", "qd", "tau"),
    "crba": ("q",),
    "rnea": ("q", "qd", "qdd"),
    "derivatives of aba": ("q", "qd", "tau"),
    "derivatives of rnea": ("q", "qd", "qdd"),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_algorithms_propagate_nan(name, rng):
    model = MODELS["branched"]()
    state, names = random_state(rng, model), COMPILED[name]
    make = derivatives if name.startswith("derivatives") else compiled_dynamics
    function = make(model, name.split()[-1])
    inputs = {one: getattr(state, one) for one in names}
    keeps_nan(lambda **given: function(*(given[one] for one in names)), inputs, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("model", ["planar loops", "floating loops"])
def test_loop_algorithms_propagate_nan(name, model, rng):
    tree, state = loop_model(model)
    inputs = inputs_of(LOOPS[name], state)
    assert inputs
    keeps_nan(partial(LOOPS[name], tree), inputs, rng)


def contact_problem(rng):
    """Return M and d of two contacts with friction and one frictionless contact."""
    T = rng.normal(size=(9, 7))
    return {"M": T.T @ T, "d": rng.normal(size=7)}


def limits(rng):
    """Return mu and c of the contacts with friction, and the initial forces of the sweeps."""
    return {"mu": rng.random(2), "c": rng.random(2), "start": rng.random(7)}


def restitution(rng):
    return {"e": rng.random(3), "mu": rng.random(2)}


CONTACT = {
    "complementarity": (lambda M, d: complementarity(M, d)[:2], None),
    "contact_residual": (lambda M, d, mu, c, start: contact_residual(M, d, start, mu, c), limits),
    "contact_residual within pyramids": (
        lambda M, d, mu, c, start: contact_residual(M, d, start, mu, c, cone=False),
        limits,
    ),
    "frictional_complementarity": (
        lambda M, d, mu, c, start: frictional_complementarity(M, d + start, mu, c)[:2],
        limits,
    ),
    "impact by newton's law": (
        lambda M, d, e, mu: impact_impulse(M, d, e, mu, "newton", pyramid_forces),
        restitution,
    ),
    "impact by poisson's law": (
        lambda M, d, e, mu: impact_impulse(M, d, e, mu, "poisson", projected_sweeps),
        restitution,
    ),
    "impact in a sequence": (
        lambda M, d: impact_impulse(
            M[:3, :3], d[:3], np.full(3, 0.5), (), "sequence", projected_sweeps
        ),
        None,
    ),
    "passive_impulse": (lambda M, d: passive_impulse(M, d, np.zeros(7), -d), None),
    "projected_sweeps": (
        lambda M, d, mu, c, start: projected_sweeps(M, d, mu, c, start=start),
        limits,
    ),
    "projected_sweeps within pyramids": (
        lambda M, d, mu, c, start: projected_sweeps(M, d, mu, c, cone=False, start=start),
        limits,
    ),
}


@pytest.mark.parametrize("name", CONTACT)
def test_contact_algorithms_propagate_nan(name, rng):
    function, more = CONTACT[name]
    keeps_nan(function, {**contact_problem(rng), **(more(rng) if more else {})}, rng)


@pytest.mark.slow
@pytest.mark.parametrize("cone", [True, False])
def test_compiled_gauss_seidel_sweeps_propagate_nan(cone, rng):
    function = compiled_sweeps(3, 2, cone=cone)
    inputs = {**contact_problem(rng), **limits(rng)}
    keeps_nan(lambda M, d, mu, c, start: function(M, d, mu, c, start), inputs, rng)


@pytest.mark.slow
def test_collision_functions_propagate_nan(rng):
    I1, I2 = random_inertia(rng), random_inertia(rng)
    point, axes = rng.normal(size=3), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    N = np.vstack([np.cross(point, axes.T).T, axes])
    v1, v2 = rng.normal(size=(2, 6))
    if N[:, 2] @ (v2 - v1) > 0:
        v1, v2 = v2, v1

    def smooth(v1, v2, n):
        return tuple(collision(I1, I2, v1, v2, n, 0.5))

    def rough(v1, v2, N, e, mu):
        return tuple(collision_with_friction(I1, I2, v1, v2, N, float(e), float(mu)))

    keeps_nan(smooth, {"v1": v1, "v2": v2, "n": N[:, 2]}, rng)
    for mu in (0.2, 5.0):
        keeps_nan(rough, {"v1": v1, "v2": v2, "N": N, "e": 0.5, "mu": mu}, rng)


def test_impact_functions_propagate_nan(rng):
    model = MODELS["branched"]()
    state = random_state(rng, model)
    contacts = [JointLimit(0, state.q[0] + 0.1), JointLimit(3, state.q[3] - 0.1)]

    def impulsive(q, qd):
        return tuple(impact(model, q, qd, contacts, 0.5))

    keeps_nan(impulsive, {"q": state.q, "qd": state.qd}, rng)


@pytest.mark.slow
def test_contact_step_propagates_nan(rng):
    model = MODELS["branched"]()
    state = random_state(rng, model)
    limits = [JointLimit(0, state.q[0] + 0.1), JointLimit(3, state.q[3] - 0.1)]

    def step(q, qd, tau):
        return contact_step(model, q, qd, tau, limits, 1e-3).qd

    keeps_nan(step, inputs_of(step, state), rng)


LIMITS = {
    "clip": lambda x: clip(x, -1.0, 1.0),
    "maximum": lambda x: maximum(x, 0.0),
    "maximum of a number and": lambda x: maximum(0.0, x),
    "minimum": lambda x: minimum(x, 0.0),
    "minimum of a number and": lambda x: minimum(0.0, x),
    "coulomb_friction": lambda x: coulomb_friction(x, 1.0, 0.1),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("form", ["numpy", "compiled"])
def test_saturation_functions_propagate_nan(name, form):
    function = LIMITS[name]
    if form == "compiled":
        function = compile_function("limited", lambda x: {"y": LIMITS[name](x)}, {"x": (2,)})
    assert np.isnan(function(np.array([np.nan, 0.5]))).tolist() == [True, False]
