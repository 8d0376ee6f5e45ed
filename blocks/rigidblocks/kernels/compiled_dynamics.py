"""Compiled dynamics algorithms of a model and their derivatives.

The C code is either straight-line code, or loops over the bodies that call one function per body
type.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Literal, overload

import numpy as np

from rigidblocks.dynamics import aba, crba, regressor, rnea
from rigidblocks.dynamics.model_reduction import align_axes_with_z, equivalent
from rigidblocks.kernels.derivative_columns import MATRICES, TENSORS, is_deep, structure_header
from rigidblocks.kernels.loop_constraint_c import LoopRows, loop_rows
from rigidblocks.kernels.per_body_functions import (
    ALGORITHMS,
    ROWS_IN_PLANE,
    Algorithm,
    BodyType,
    body_numbers,
    body_types,
    traced_body,
)
from rigidblocks.robot.joints import Joint
from rigidblocks.robot.joints.base import subspace_rate
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.tree import Tree, check_moved_inertia
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import IN_LANES, SCALAR, Notation
from rigidblocks.tracing.ccode import WrittenFunction, c_number, c_text
from rigidblocks.tracing.compiled_functions import CompiledBatch, CompiledFunction, compiled_form
from rigidblocks.tracing.trace import Graph, Shapes, trace


def body_sweeps(
    model: Model,
    name: str,
    notation: Notation = SCALAR,
    loops: LoopRows | None = None,
    in_plane: bool = False,
) -> WrittenFunction:
    """Return the C code of a dynamics algorithm, with loops over the bodies of a model.

    Except for tables, the code size does not depend on the number of bodies. The code of `loops`
    grows with the number of constraint rows. If `in_plane` is true, "daba" and "drnea" use vectors
    of three elements.

    Args:
        model: The model.
        name: "aba", "rnea" or "crba"; "daba" or "drnea" for first derivatives; "ddaba" or "ddrnea"
            for second derivatives; "dclosed" for derivatives with loop constraints.
        notation: C notation of the values.
        loops: C code of the loop constraints, for "dclosed".
        in_plane: True if the model moves parallel to z = 0.
    """
    n, own, algorithm = model.nv, _largest_joint_nv(model), (ALGORITHMS | MATRICES | TENSORS)[name]
    if "own" in algorithm.columns:
        algorithm = replace(algorithm, columns={**algorithm.columns, "own": own})
    if in_plane:
        rows = {key: len(ROWS_IN_PLANE.get(key, ())) for key in algorithm.columns}
        algorithm = replace(algorithm, columns=rows, in_plane=True)
    place, types = body_types(model)
    bodies = [traced_body(model, i, pattern, algorithm, notation) for i, pattern in types]
    deep = name == "daba" and is_deep(model)
    text = [structure_header(model, own, in_plane, deep)] if algorithm.columns else []
    text += [loops.text] if loops else []
    text += map(c_text, algorithm.texts)
    prefix = f"RB_{name.upper()}_" if algorithm.has_gravity else ""  # unique names in a kernel
    text += _tables(model, place, [pattern for _, pattern in types], prefix)
    text += [leaf for k, body in enumerate(bodies) for leaf in _leaves(name, k, body)]
    cells = max(body.cells for body in bodies)  # known after the leaf functions are traced
    text += _body(model, algorithm, name, bodies, cells, notation, prefix)
    work = model.nb * cells + n * (sum(algorithm.columns.values()) + algorithm.scratch * n)
    shapes = _shapes(model, algorithm)
    work += loops.room if loops else 0
    wide = bool(algorithm.matrices)
    count = sum(bodies[k].operations for k in place)
    return WrittenFunction(name, *shapes, "\n".join([*text, "}\n"]), work, wide, count)


def _shapes(model: Model, algorithm: Algorithm) -> tuple[Shapes, Shapes]:
    """Return the shapes of the inputs of an algorithm by name, and the shapes of its outputs."""
    inputs = {key: (model.nq if key == "q" else model.nv,) for key in algorithm.inputs}
    if algorithm.has_gravity:
        inputs["gravity"] = (3,)
    outputs: dict[str, tuple[int, ...]] = {}
    if algorithm.output:
        outputs[algorithm.output] = (model.nv,)
    outputs |= dict.fromkeys(algorithm.matrices, (model.nv,) * 2)
    return inputs, outputs | dict.fromkeys(algorithm.tensors, (model.nv,) * 3)


def _largest_joint_nv(model: Model) -> int:
    """Return the largest number nv of velocity variables of a joint.

    The result is 0 if the motion subspaces S of all joints are constant.
    """
    return max(j.nv for j in model.joint) if any(map(_moves_subspace, model.joint)) else 0


def _moves_subspace(joint: Joint) -> bool:
    q = joint.neutral() + 0.5
    return any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv))


def _leaves(name: str, number: int, body: BodyType) -> Iterator[str]:
    """Yield the C functions of the body type with the index `number`, one for each pass.

    The names of the functions begin with `name`.
    """
    for k, step in enumerate(body.algorithm.passes):
        head = f"static void {name}_{k}_{number}({_parameters(body.algorithm, body.notation.real)})"
        yield f"{head}\n{{\n{body.leaf(step)}\n}}\n"


def _parameters(algorithm: Algorithm, real: str) -> str:
    inputs = "".join(f", const {real} *{name}" for name in algorithm.inputs)
    output = f", {real} *{algorithm.output}" if algorithm.output else ""
    columns = f", {real} *m" if algorithm.columns else ""
    gravity = f", const {real} *gravity" if algorithm.has_gravity else ""
    return f"const double *k, {real} *w, {real} *p{inputs}{output}{columns}{gravity}"


def _tables(
    model: Model, types: list[int], patterns: list[np.ndarray], prefix: str
) -> Iterator[str]:
    """Yield the C tables of body parameters, parents, body types and indices of variables.

    The names of the tables begin with `prefix`. `types` contains the type index of each body, and
    `patterns` the pattern of each type (`body_types`). The table of body parameters omits the
    parameters that are constant in the pattern.
    """
    open_numbers = [body_numbers(model, i)[np.isnan(patterns[k])] for i, k in enumerate(types)]
    starts = list(accumulate(map(len, open_numbers), initial=0))[:-1]
    yield _table("double", f"{prefix}K", map(c_number, np.concatenate([*open_numbers, [0.0]])))
    parents = [max(p, 0) for p in model.parent]  # bodies on the base read no values of a parent
    variables = [s.start for s in model.q_slices], [s.start for s in model.v_slices]
    for name, column in zip(
        ("PARENT", "TYPE", "K_AT", "Q_AT", "V_AT"),
        (parents, types, starts, *variables),
        strict=True,
    ):
        yield _table("int", prefix + name, map(str, column))


def _table(kind: str, name: str, values: Iterable[str]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(values)}}};"


def _body(
    model: Model,
    algorithm: Algorithm,
    name: str,
    types: list[BodyType],
    cells: int,
    notation: Notation,
    prefix: str,
) -> Iterator[str]:
    """Yield the C code of the function `name`, which loops over the bodies once per pass.

    `types` are the body types, whose functions the loops call. `cells` is the number of values that
    a body stores in the array `cells` of the C code. The names of the tables begin with `prefix`.
    """
    real, nb = notation.real, model.nb
    yield f"\nstatic void {name}(const {real} *in, {real} *cells, {real} *out)\n{{"
    yield from _pointers(model, algorithm, nb * cells, real)
    names = (*algorithm.inputs, algorithm.output, "m" if algorithm.columns else "")
    at = [f"{key} + {prefix}{'Q_AT' if key == 'q' else 'V_AT'}[i]" for key in names if key]
    values = f"{prefix}K + {prefix}K_AT[i]"
    of_body = values, f"cells + i * {cells}", f"cells + {prefix}PARENT[i] * {cells}"
    gravity = ["gravity"] if algorithm.has_gravity else []
    arguments = ", ".join((*of_body, *at, *gravity))
    for k, step in enumerate(algorithm.passes):
        sweep = f"i = 0; i < {nb}; i++" if step.outward else f"i = {nb - 1}; i >= 0; i--"
        yield f"    for (int {sweep})\n        switch ({prefix}TYPE[i]) {{"
        for number in range(len(types)):
            label = f"case {number}:" if number < len(types) - 1 else "default:"
            call = f"{name}_{k}_{number}({arguments});"
            yield f"        {label}\n            {call}\n            break;"
        yield "        }"
        if step.after:
            yield f"    {step.after.format(cells=cells, f=types[0].offsets.get('f'))}"


def _pointers(model: Model, algorithm: Algorithm, first_column: int, real: str) -> Iterator[str]:
    """Yield the C declarations of the pointers to inputs, output, result columns and workspace.

    `first_column` is the index in the C array `cells` at which the result columns begin. `real` is
    the C type of a value.
    """
    start = 0
    for key in algorithm.inputs:
        yield f"    const {real} *{key} = in + {start};"
        start += model.nq if key == "q" else model.nv
    if algorithm.has_gravity:
        yield f"    const {real} *gravity = in + {start};"
    if algorithm.output:
        yield f"    {real} *{algorithm.output} = out;"
    if algorithm.columns:
        yield f"    {real} *m = cells + {first_column};"
    if algorithm.scratch:
        yield f"    {real} *work = m + {sum(algorithm.columns.values()) * model.nv};"


# Up to this number of bodies, straight-line C code runs faster than loops: by a third at 5 bodies,
# by a tenth at 20 bodies. Straight-line code of larger models takes seconds to compile.
MOST_BODIES_IN_A_LINE = 20
MOST_BODIES_IN_LANES = 14  # the limit is lower, because operations in lanes take longer

_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "rnea": rnea,
    "crba": crba,
    "aba": aba,
    "regressor": regressor,
}
_INPUTS = {
    "rnea": ("q", "qd", "qdd"),
    "crba": ("q",),
    "aba": ("q", "qd", "tau"),
    "regressor": ("q", "qd", "qdd"),
}
_OUTPUT = {"rnea": "tau", "crba": "H", "aba": "qdd", "regressor": "Y"}


def straight_line(model: Tree, algorithm: str) -> Graph:
    """Return the graph of a dynamics algorithm with unrolled passes over the bodies.

    For a spatial model, the function traces the `equivalent` model, except for a regressor, whose
    parameters belong to the original model.
    """
    traced = model
    if isinstance(model, Model) and algorithm != "regressor":
        traced = equivalent(model)
    shapes = {name: (model.nq if name == "q" else model.nv,) for name in _INPUTS[algorithm]}
    return trace(
        algorithm, lambda *a: {_OUTPUT[algorithm]: _FUNCTIONS[algorithm](traced, *a)}, shapes
    )


@overload
def compiled_dynamics(model: Tree, algorithm: str) -> CompiledFunction: ...


@overload
def compiled_dynamics(
    model: Tree, algorithm: str, *, batch: Literal[True], lanes: int | None = None
) -> CompiledBatch: ...


@overload
def compiled_dynamics(
    model: Tree, algorithm: str, *, batch: bool, lanes: int | None = None
) -> CompiledFunction | CompiledBatch: ...


def compiled_dynamics(
    model: Tree, algorithm: str, *, batch: bool = False, lanes: int | None = None
) -> CompiledFunction | CompiledBatch:
    """Return the compiled function of a dynamics algorithm for a model.

    The compiled function uses the `equivalent` model. For up to `MOST_BODIES_IN_A_LINE` bodies, or
    `MOST_BODIES_IN_LANES` in a batch, the C code is straight-line code. For more bodies, the C code
    loops over the bodies. The compile time of the loops is about a second for any number of bodies.
    The code of the regressor is always straight-line code.

    Args:
        model: The model.
        algorithm: "rnea" (q, qd, qdd -> tau), "crba" (q -> H), "aba" (q, qd, tau -> qdd) or
            "regressor" (q, qd, qdd -> Y).
        batch: True to compile for arrays (n, nq), (n, nv), ... in SIMD lanes and threads
            (`CompiledBatch`).
        lanes: Number of SIMD lanes of a batch.

    Raises:
        ValueError: The algorithm is unknown.
        CompilerError: No C compiler is installed.
    """
    if algorithm not in _FUNCTIONS:
        raise ValueError(
            f"unknown compiled algorithm '{algorithm}'; expected one of {', '.join(_FUNCTIONS)}"
        )
    if algorithm == "aba":
        check_moved_inertia(model)
    most = MOST_BODIES_IN_LANES if batch else MOST_BODIES_IN_A_LINE
    if model.nb > most and isinstance(model, Model) and algorithm != "regressor":
        notation = IN_LANES if batch else SCALAR
        return compiled_form(body_sweeps(equivalent(model), algorithm, notation), batch, lanes)
    return compiled_form(straight_line(model, algorithm), batch, lanes)


@overload
def derivatives(model: Model | PlanarModel, algorithm: str) -> CompiledFunction: ...


@overload
def derivatives(
    model: Model | PlanarModel, algorithm: str, *, batch: Literal[True], lanes: int | None = None
) -> CompiledBatch: ...


def derivatives(
    model: Model | PlanarModel, algorithm: str, *, batch: bool = False, lanes: int | None = None
) -> CompiledFunction | CompiledBatch:
    """Return a compiled function for the exact derivatives of forward or inverse dynamics.

    "aba" takes (q, qd, tau) and returns qdd, dqdd_dq, dqdd_dqd and dqdd_dtau = H^-1. "rnea" takes
    (q, qd, qdd) and returns tau, dtau_dq, dtau_dqd and dtau_dqdd = H. qdd and tau have the shape
    (nv,), and each of the three matrices has the shape (nv, nv). The derivative with respect to q
    is the derivative with respect to dq (nv,) at dq = 0. A change dq of the velocity variables
    moves the joints from q to q (+) dq, also if q contains a quaternion. External wrenches are not
    supported.

    "closed_loop_dynamics" takes (q, qd, tau) and returns qdd, dqdd_dq, dqdd_dqd and dqdd_dtau for
    accelerations that satisfy the loop constraints, without stabilization. If the constraints are
    independent, the derivatives are valid for all changes of q and qd. The function omits dependent
    constraints; the derivatives are then valid only for changes that satisfy all constraints. In
    singular configurations, the exact derivatives do not exist, and the function returns the
    derivatives for the independent constraints.

    The compiled function uses the `equivalent` model and loops over the bodies. The compile time is
    one or two seconds for any number of bodies. Passes over the bodies compute the columns of the
    derivatives (Carpentier and Mansard 2018; Singh, Russell and Wensing 2022). The function then
    multiplies the columns along the paths of the tree and solves with H = L^T L (RBDA 6.5). For
    deep trees of at least 100 variables, it solves by passes of the articulated-body algorithm.

        dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = H^-1 (tau - C)

    H (nv, nv) is the joint-space inertia matrix, L its factor, and C (nv,) the bias force.

    For "closed_loop_dynamics", the function orthonormalizes the constraints in coordinates with
    unit inertia. It evaluates the derivatives of the constraints at the resulting qdd and
    constraint forces lam (c/algorithms/closed_loops.h).

    For a planar model, the function uses `PlanarModel.spatial_model`. Unless the model has loops,
    the C code omits the elements that are zero in the plane.

    Args:
        model: Spatial or planar model.
        algorithm: "aba", "rnea" or "closed_loop_dynamics".
        batch: True to compile for arrays (n, nq), (n, nv) and (n, nv), in SIMD lanes and threads.
        lanes: Number of SIMD lanes of a batch.

    Raises:
        ValueError: The algorithm is unknown, or "closed_loop_dynamics" is used without loop
            constraints. In forward dynamics, a joint moves no inertia.
    """
    if algorithm not in ("aba", "rnea", "closed_loop_dynamics"):
        raise ValueError(
            f"the derivatives of '{algorithm}' are not available; expected aba, rnea or "
            "closed_loop_dynamics; jacobian() differentiates other functions"
        )
    if algorithm != "rnea":
        check_moved_inertia(model)
    notation = IN_LANES if batch else SCALAR
    spatial = _spatial_model(model)
    if algorithm == "closed_loop_dynamics":
        loopless = equivalent(align_axes_with_z(spatial))
        rows = loop_rows(spatial, loopless, notation)
        return compiled_form(body_sweeps(loopless, "dclosed", notation, rows), batch, lanes)
    in_plane = spatial is not model
    tree: Model = spatial if in_plane else equivalent(align_axes_with_z(spatial))
    function = body_sweeps(tree, f"d{algorithm}", notation, in_plane=in_plane)
    return compiled_form(function, batch, lanes)


@overload
def second_derivatives(model: Model | PlanarModel, algorithm: str = "rnea") -> CompiledFunction: ...


@overload
def second_derivatives(
    model: Model | PlanarModel,
    algorithm: str = "rnea",
    *,
    batch: Literal[True],
    lanes: int | None = None,
) -> CompiledBatch: ...


def second_derivatives(
    model: Model | PlanarModel,
    algorithm: str = "rnea",
    *,
    batch: bool = False,
    lanes: int | None = None,
) -> CompiledFunction | CompiledBatch:
    """Return a compiled function for first and second derivatives of inverse or forward dynamics.

    "rnea" takes (q, qd, qdd). It returns tau, dtau_dq, dtau_dqd and dtau_dqdd, as `derivatives`,
    and then four tensors (nv, nv, nv). Element [i, j, k] is a second derivative of tau_i, where "by
    q_k" means "with respect to q_k":

        ddtau_dq_dq    dtau_dq[i, j] by q_k          ddtau_dq_dqd    dtau_dq[i, j] by qd_k
        ddtau_dq_dqdd  dtau_dq[i, j] by qdd_k, which is dH_ik/dq_j
        ddtau_dqd_dqd  dtau_dqd[i, j] by qd_k        all other second derivatives are zero

    "aba" takes (q, qd, tau) and returns the corresponding derivatives of qdd, with tau instead of
    qdd. ddqdd_dq_dtau is dH^-1_ik/dq_j.

    Derivatives with respect to q are taken along the velocity variables, q (+) dq at dq = 0. A
    second derivative is therefore the derivative of the first derivative along the motion of
    variable k. It is symmetric in j and k, except for variables of one joint whose motions do not
    commute. For a spherical joint, the difference [i, j, k] - [i, k, j] of ddtau_dq_dq is the
    derivative of tau_i along the motion S_k x S_j. The mean of these two elements is the Hessian
    along motions with a constant velocity (exponential coordinates).

    The method extends `derivatives`: it differentiates the columns of the force derivatives with
    respect to each variable. It uses passes over the bodies and products along the paths of the
    tree (Singh, Russell and Wensing 2022). The computing time is proportional to the cube of the
    tree depth. The code size does not depend on the number of bodies. The second derivatives of
    forward dynamics follow from these tensors and take nv^4 operations. For two variables x and y
    of q, qd or tau,

        H ddqdd/dxdy = -(ddtau/dxdy + ddtau/dxdqdd dqdd/dy + ddtau/dydqdd dqdd/dx)

    For a planar model the function uses `PlanarModel.spatial_model`.

    Args:
        model: Spatial or planar model.
        algorithm: "rnea" or "aba".
        batch: True to compile for arrays, as in `derivatives`.
        lanes: Number of SIMD lanes of a batch.

    Raises:
        ValueError: The algorithm is unknown, S of a joint depends on its position, or a joint
            depends on time. In forward dynamics, a joint moves no inertia.
    """
    if algorithm not in ("aba", "rnea"):
        raise ValueError(
            f"the second derivatives of '{algorithm}' are not available; expected aba or rnea"
        )
    _check_joints(model)
    if algorithm == "aba":
        check_moved_inertia(model)
    notation = IN_LANES if batch else SCALAR
    tree = equivalent(align_axes_with_z(_spatial_model(model)))
    return compiled_form(body_sweeps(tree, f"dd{algorithm}", notation), batch, lanes)


def _spatial_model(model: Model | PlanarModel) -> Model:
    return model.spatial_model() if isinstance(model, PlanarModel) else model


def _check_joints(model: Model | PlanarModel) -> None:
    """Raise ValueError if the motion subspace S of a joint varies, or a joint depends on time.

    The message contains the joint name. The formulas of the second derivatives do not apply to such
    joints.
    """
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        q = joint.neutral() + 0.5
        moves = any(np.any(subspace_rate(joint, q, unit)) for unit in np.eye(joint.nv))
        if moves or np.any(joint.jcalc(q, np.zeros(joint.nv)).vJ):
            what = "whose S depends on its position" if moves else "which depends on time"
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, {what}; second derivatives need "
                "joints with a constant S; jacobian() differentiates any function"
            )
