"""Functions of robot models and blocks for CasADi, acados, JAX and PyTorch.

For JAX and PyTorch, a compiled function computes the values. A second compiled function, its
adjoint, computes the derivative in reverse mode. The adjoint has an adjoint itself, so derivatives
of any order exist.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, reduce
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.external_functions import BlockInC
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.dynamics import aba, crba, rnea
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.dynamics.model_reduction import equivalent
from rigidblocks.library.closed_loops import ClosedLoopPlant
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree, check_moved_inertia
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.compiled_functions import CompiledBatch
from rigidblocks.tracing.trace import Graph, Shapes, adjoint, trace

_MODEL_FUNCTIONS: dict[str, tuple[Callable[..., Array], tuple[str, ...], str]] = {
    "aba": (aba, ("q", "qd", "tau"), "qdd"),
    "rnea": (rnea, ("q", "qd", "qdd"), "tau"),
    "crba": (crba, ("q",), "H"),
    "closed_loop_dynamics": (
        lambda *values: closed_loop_dynamics(*values).qdd,
        ("q", "qd", "tau"),
        "qdd",
    ),
}
_BLOCK_FUNCTIONS = {"derivative": "xdot", "update": "x_next", "output": "y"}


@explain_calls()
def casadi_function(target: Tree | Block, function: str) -> ca.Function:
    """Return a CasADi function of a robot model or a block.

    CasADi differentiates the function exactly, and CasADi optimizers call it with symbols of the
    types SX and MX. The function consists only of expressions, so it needs neither this package nor
    Python at run time.

    The functions of a model have the names and the arguments of `rigidblocks.dynamics`. "aba" and
    "closed_loop_dynamics" map (q, qd, tau) to qdd, "rnea" maps (q, qd, qdd) to tau, and "crba" maps
    q to H (nv, nv). "closed_loop_dynamics" does not stabilize the loops.

    The functions of a block map (t, x, u, p) to one vector. x contains the states, u the inputs and
    p the parameters, in the order of the ports and in C order within a port. "derivative" returns
    the derivatives xdot of the continuous states, "update" the sampled states x_next after a
    sample, and "output" all outputs y.

    Args:
        target: Robot model, or block. `ContinuousSystem(system)` and `FusedSystem(system, dt)` are
            blocks of a system.
        function: Name of the function.

    Returns:
        CasADi function, whose inputs and outputs have these names.

    Raises:
        ValueError: The function is unknown, or the block has no such function or runs C code. In
            forward dynamics, a joint moves no inertia. "closed_loop_dynamics" is used for a model
            without loops.
        TypeError: `target` is neither a model nor a block.
        TraceError: A function of the block branches on a traced value.
    """
    graph = function_graph(target, function).differentiable
    symbols = [_symbol(name, shape) for name, shape in graph.inputs.items()]
    result = graph.function(ca.vertcat(*(ca.vec(symbol.T) for symbol in symbols)))
    outputs = list(_split(result, graph.outputs))
    return ca.Function(graph.name, symbols, outputs, list(graph.inputs), list(graph.outputs))


def _casadi_name(text: str) -> str:
    """Convert `text` to a valid name of a CasADi function.

    The name begins with a letter and does not contain two consecutive underscores.
    """
    name = re.sub(r"[\W_]+", "_", text, flags=re.ASCII).strip("_")
    return name if re.match(r"[A-Za-z]", name) else f"block_{name}".rstrip("_")


def _symbol(name: str, shape: tuple[int, ...]) -> ca.SX:
    rows, columns = (*shape, 1, 1)[:2]
    return ca.SX.sym(name, rows, columns)


def _split(flat: ca.SX, shapes: Shapes) -> Iterator[ca.SX]:
    """Yield the parts of a flat vector in C order as CasADi matrices of the given shapes."""
    k = 0
    for shape in shapes.values():
        rows, columns = (*shape, 1, 1)[:2]
        yield ca.reshape(flat[k : k + rows * columns, 0], columns, rows).T
        k += rows * columns


def function_graph(target: Any, function: str) -> Graph:
    """Return the graph of a function of a model or a block, as in `casadi_function`."""
    if not isinstance(function, str):
        shown = getattr(function, "__name__", function)
        raise TypeError(f"the function must be a name, such as 'aba', not {shown!r:.60}")
    if isinstance(target, str | PathLike):
        raise TypeError(
            f"a CasADi function needs a robot model or a block, not a {type(target).__name__}; use "
            f"load_model('{target}').model"
        )
    if isinstance(target, Tree):
        return _model_graph(target, function)
    if isinstance(target, Block):
        return _block_graph(target, function)
    if isinstance(getattr(target, "model", None), Tree):
        raise TypeError(
            f"a CasADi function needs a robot model or a block, not a {type(target).__name__}; "
            "pass its attribute `model`"
        )
    raise TypeError(
        f"a CasADi function needs a robot model or a block, not a {type(target).__name__}; the "
        "block of a System is ContinuousSystem(system) or FusedSystem(system, dt)"
    )


def _model_graph(model: Any, name: str) -> Graph:
    if name not in _MODEL_FUNCTIONS:
        raise ValueError(
            f"unknown function '{name}' of model '{model.name}'; "
            f"{suggestion(name, _MODEL_FUNCTIONS)}"
        )
    function, inputs, output = _MODEL_FUNCTIONS[name]
    if name == "closed_loop_dynamics" and not model.has_constraints:
        raise ValueError(f"model '{model.name}' has no loop joints; use 'aba' for a tree")
    if name in ("aba", "closed_loop_dynamics"):
        check_moved_inertia(model)
    tree = equivalent(model) if isinstance(model, Model) and not model.has_constraints else model
    shapes = {key: (model.nq if key == "q" else model.nv,) for key in inputs}
    return trace(name, lambda *values: {output: function(tree, *values)}, shapes)


def _block_graph(block: Block, name: str) -> Graph:
    kind = type(block).__name__
    if name not in _BLOCK_FUNCTIONS:
        raise ValueError(
            f"unknown function '{name}' of block '{kind}'; {suggestion(name, _BLOCK_FUNCTIONS)}"
        )
    if isinstance(block, BlockInC):
        raise ValueError(
            f"block '{kind}' runs C code, which has no CasADi expressions; blocks of compliant or "
            "point contact, such as ContactPlant, have expressions"
        )
    ports = {"derivative": block.states, "update": block.sampled, "output": block.outputs}[name]
    if not ports:
        kinds = {"derivative": "continuous states", "update": "sampled states", "output": "outputs"}
        raise ValueError(f"block '{kind}' has no {kinds[name]}, so it has no function '{name}'")
    memory = Memory(block)
    evaluator = NumpyEvaluator(memory)
    n, m, k = memory.z.stop - memory.x.start, memory.u, memory.p

    def values(t: Array, x: Array, u: Array, p: Array) -> dict[str, Array]:
        rest = np.zeros(memory.size - memory.p.stop)
        vector = np.concatenate([np.atleast_1d(t), x, u, p, rest])
        if name != "output":
            return {_BLOCK_FUNCTIONS[name]: getattr(evaluator, name)(vector)}
        vector[memory.y] = evaluator.output(vector)
        return {"y": np.concatenate([vector[memory.where[port.name]] for port in ports])}

    shapes = {"t": (), "x": (n,), "u": (m.stop - m.start,), "p": (k.stop - k.start,)}
    return trace(_casadi_name(f"{kind}_{name}"), values, shapes)


# --- acados ---

_HEADER = """/* {title} of the model {name} for acados: {about} */
#ifndef {guard}
#define {guard}

#ifndef casadi_real
#define casadi_real double
#endif
#ifndef casadi_int
#define casadi_int int
#endif
{prototypes}
#endif
"""
_PROTOTYPES = """
int {name}(const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, int mem);
int {name}_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w);
const casadi_int *{name}_sparsity_in(casadi_int i);
const casadi_int *{name}_sparsity_out(casadi_int i);
casadi_int {name}_n_in(void);
casadi_int {name}_n_out(void);
"""
_FUNCTION = """#include <math.h>

#include "{header}"

{body}
static const casadi_int in_shapes[][3] = {{{in_shapes}}};
static const casadi_int out_shapes[][3] = {{{out_shapes}}};

/* A null pointer in `arg` stands for zeros, and a null pointer in `res` for an unused output. */
int {name}(const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, int mem)
{{
    casadi_real *in = w, *out = w + {numbers_in};
    casadi_int k = 0;
    (void)iw;
    (void)mem;
    for (int i = 0; i < {n_in}; i++)
        for (casadi_int j = 0; j < in_shapes[i][0] * in_shapes[i][1]; j++)
            in[k++] = arg[i] ? arg[i][j] : 0.0;
    {traced}(in, out);
    k = 0;
    for (int i = 0; i < {n_out}; i++)
        for (casadi_int j = 0; j < out_shapes[i][0] * out_shapes[i][1]; j++, k++)
            if (res[i])
                res[i][j] = out[k];
    return 0;
}}

int {name}_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w)
{{
    if (sz_arg)
        *sz_arg = {n_in};
    if (sz_res)
        *sz_res = {n_out};
    if (sz_iw)
        *sz_iw = 0;
    if (sz_w)
        *sz_w = {numbers};
    return 0;
}}

const casadi_int *{name}_sparsity_in(casadi_int i)
{{
    return i >= 0 && i < {n_in} ? in_shapes[i] : 0;
}}

const casadi_int *{name}_sparsity_out(casadi_int i)
{{
    return i >= 0 && i < {n_out} ? out_shapes[i] : 0;
}}

casadi_int {name}_n_in(void)
{{
    return {n_in};
}}

casadi_int {name}_n_out(void)
{{
    return {n_out};
}}
"""


@explain_calls()
def export_acados(
    target: Tree | Block, folder: str | Path, *, name: str | None = None, hessian: bool = False
) -> list[Path]:
    """Write the C code of an external model for acados, and return the paths of the files.

    The files contain the functions that acados generates from an `AcadosModel`. The name of each
    function begins with the name of the model. In the arguments, x are the states, u the inputs, p
    the parameters, and lam the multipliers. For a continuous block with the state derivatives
    f(x, u, p), the explicit functions compute

        expl_ode_fun     f
        expl_vde_forw    f,  A Sx,  A Su + B        with A = df/dx, B = df/du
        expl_vde_adj     [A B]^T lam
        expl_ode_hess    [A B]^T lam,  lower triangle of S^T W S

    Sx and Su are the forward seeds, the sensitivities of x to the initial state and to u. W is the
    Hessian of lam^T f with respect to (x, u), and S = [Sx Su; 0 1]. The functions `impl_dae_fun`
    and `impl_dae_fun_jac_x_xdot_z` to `impl_dae_jac_x_xdot_u_z` compute the residual xdot - f(x, u,
    p) and its Jacobians. `impl_dae_hess` computes the Hessian of lam^T (xdot - f(x, u, p)) with
    respect to (x, xdot, u). The model has no algebraic variables z.

    For a sampled block, phi(x, u, p) are the states after a sample. `dyn_disc_phi_fun` computes
    phi. `dyn_disc_phi_fun_jac` adds the transposed Jacobian with respect to (u, x), and
    `dyn_disc_phi_fun_jac_hess` also adds the Hessian of lam^T phi.

    Each function has the CasADi C interface (`_work`, `_n_in`, `_sparsity_in` and so on) with dense
    matrices in column-major order, which `external_function_casadi` of acados reads. The code is
    C99. A header declares all functions.

    Args:
        target: Block, or robot model. The block of a model is `RobotPlant(model)`, or
            `ClosedLoopPlant(model)` for a model with loops.
        folder: Folder of the files, which the function creates.
        name: Name of the acados model, a C identifier. By default the name of the model or of the
            class of the block.
        hessian: True to write the functions with Hessians, which acados needs for
            `hessian_approx = "EXACT"`.

    Raises:
        ValueError: `name` is not a C identifier. The block depends on the time, has no states, or
            has both continuous and sampled states. `casadi_function` rejects the block.
        TypeError: `target` is neither a model nor a block, or `folder` is not a path.
        NotADirectoryError: `folder` is a file.
    """
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"the folder of an acados model must be a path, not {folder!r:.60}")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise NotADirectoryError(f"the folder '{folder}' of an acados model is a file")
    if not isinstance(name, str | None):
        raise TypeError(f"the name of an acados model must be a string or None, not {name!r}")
    own = str(target.name) if isinstance(target, Tree) else type(target).__name__
    chosen = _casadi_name(own) if name is None else name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", chosen):
        raise ValueError(f"the name of an acados model must be a C identifier, not '{chosen}'")
    block: Any = target
    if isinstance(target, Tree):
        plant: Any = ClosedLoopPlant if target.has_constraints else RobotPlant
        block = plant(target)
    functions = dict(_acados_functions(block, hessian))
    into, header = Path(folder), f"{chosen}_model.h"
    into.mkdir(parents=True, exist_ok=True)
    prototypes = "".join(_PROTOTYPES.format(name=f"{chosen}_{key}") for key in functions)
    about = _port_summary(block)
    texts = {
        f"{chosen}_{key}.c": _c_text(f"{chosen}_{key}", header, function)
        for key, function in functions.items()
    }
    texts[header] = _HEADER.format(
        title="Functions",
        name=chosen,
        about=about,
        guard=f"{chosen.upper()}_MODEL_H",
        prototypes=prototypes,
    )
    for file, text in texts.items():
        (into / file).write_text(text, encoding="utf-8")
    return [into / file for file in texts]


def _port_summary(block: Block) -> str:
    kinds = {
        "x": (*block.states, *block.sampled),
        "u": block.inputs,
        "p": block.parameters,
    }
    return "; ".join(
        f"{key} = ({', '.join(f'{port.name} {port.size}' for port in ports) or 'empty'})"
        for key, ports in kinds.items()
    )


def _acados_functions(block: Block, hessian: bool) -> Iterator[tuple[str, ca.Function]]:
    """Yield the name suffix and the CasADi function of each acados function.

    If `hessian` is True, the result includes the functions with Hessians.
    """
    kind = type(block).__name__ if isinstance(block, Block) else ""
    if isinstance(block, Block) and block.states and block.sampled:
        raise ValueError(
            f"block '{kind}' has continuous and sampled states; export FusedSystem(system, dt) of "
            "a system that contains it"
        )
    sampled = isinstance(block, Block) and bool(block.sampled)
    function = casadi_function(block, "update" if sampled else "derivative")
    sizes = {key: function.size1_in(key) for key in ("x", "u", "p")}
    x, u, p = (ca.SX.sym(key, n) for key, n in sizes.items())
    t, lam = ca.SX.sym("t"), ca.SX.sym("lam", x.numel())
    f = function(t, x, u, p)
    if ca.depends_on(f, t):
        raise ValueError(
            f"block '{kind}' depends on the time t, which explicit acados models do not have; "
            "make the time a state with the derivative 1, or an input"
        )
    yield from (_discrete if sampled else _continuous)(f, x, u, p, lam, hessian)


def _discrete(
    phi: ca.SX, x: ca.SX, u: ca.SX, p: ca.SX, lam: ca.SX, hessian: bool
) -> Iterator[tuple[str, ca.Function]]:
    ux = ca.vertcat(u, x)
    J = ca.jacobian(phi, ux).T
    yield "dyn_disc_phi_fun", ca.Function("f", [x, u, p], [phi])
    yield "dyn_disc_phi_fun_jac", ca.Function("f", [x, u, p], [phi, J])
    if hessian:
        H = ca.jacobian(ca.jtimes(phi, ux, lam, True), ux)
        yield "dyn_disc_phi_fun_jac_hess", ca.Function("f", [x, u, lam, p], [phi, J, H])


def _continuous(
    f: ca.SX, x: ca.SX, u: ca.SX, p: ca.SX, lam: ca.SX, hessian: bool
) -> Iterator[tuple[str, ca.Function]]:
    n, m = x.numel(), u.numel()
    Sx, Su, xu = ca.SX.sym("Sx", n, n), ca.SX.sym("Su", n, m), ca.vertcat(x, u)
    A, B = ca.jacobian(f, x), ca.jacobian(f, u)
    adjoint = ca.jtimes(f, xu, lam, True)
    forward = [f, A @ Sx, A @ Su + B]
    yield "expl_ode_fun", ca.Function("f", [x, u, p], [f])
    yield "expl_vde_forw", ca.Function("f", [x, Sx, Su, u, p], forward)
    yield "expl_vde_adj", ca.Function("f", [x, lam, u, p], [adjoint])
    if hessian:
        S = ca.vertcat(ca.horzcat(Sx, Su), ca.horzcat(ca.SX(m, n), ca.SX.eye(m)))
        H = S.T @ ca.jacobian(adjoint, xu) @ S
        lower = ca.vertcat(*(H[i, j] for j in range(n + m) for i in range(j, n + m)))
        yield "expl_ode_hess", ca.Function("f", [x, Sx, Su, lam, u, p], [adjoint, lower])
    xdot, z, t = ca.SX.sym("xdot", n), ca.SX.sym("z", 0, 0), ca.SX.sym("t")
    r, one, none = xdot - f, ca.SX.eye(n), ca.SX(n, 0)
    arguments = [x, xdot, u, z, t, p]
    for suffix, results in (
        ("impl_dae_fun", [r]),
        ("impl_dae_fun_jac_x_xdot_z", [r, -A, one, none]),
        ("impl_dae_fun_jac_x_xdot_u", [r, -A, one, -B]),
        ("impl_dae_fun_jac_x_xdot_u_z", [r, -A, one, -B, none]),
        ("impl_dae_jac_x_xdot_u_z", [-A, one, -B, none]),
    ):
        yield suffix, ca.Function("f", arguments, results)
    if hessian:
        xxu = ca.vertcat(x, xdot, u)  # z is empty
        H = ca.jacobian(ca.jtimes(r, xxu, lam, True), xxu)
        yield "impl_dae_hess", ca.Function("f", [x, xdot, u, z, lam, t, p], [H])


def _c_text(name: str, header: str, function: ca.Function) -> str:
    """Return the C code of a CasADi function, with the CasADi C interface."""
    sizes_in = [function.size_in(k) for k in range(function.n_in())]
    sizes_out = [function.size_out(k) for k in range(function.n_out())]
    symbols = [ca.SX.sym("x", rows, columns) for rows, columns in sizes_in]
    results = function.call(symbols)
    flat_in = ca.vertcat(*map(ca.vec, symbols))
    flat_out = ca.cse(ca.vertcat(*(ca.vec(ca.densify(one)) for one in results)))
    numbers = flat_in.numel(), flat_out.numel()
    traced = ca.Function("values", [flat_in], [flat_out])
    graph = Graph("values", {"in": numbers[:1]}, {"out": numbers[1:]}, traced)
    return _FUNCTION.format(
        header=header,
        body=c_function(graph),
        name=name,
        in_shapes=", ".join(f"{{{rows}, {columns}, 1}}" for rows, columns in sizes_in),
        out_shapes=", ".join(f"{{{rows}, {columns}, 1}}" for rows, columns in sizes_out),
        n_in=len(sizes_in),
        n_out=len(sizes_out),
        numbers_in=numbers[0],
        numbers=sum(numbers),
        traced=graph.name,
    )


class _Rows:
    """Compiled function that maps each row (n,) of an array (..., n) to a row (m,).

    Args:
        graph: Graph of the function.
    """

    def __init__(self, graph: Graph):
        function = graph.differentiable.function
        self.sizes = function.size1_in(0), function.size1_out(0)
        n, m = self.sizes
        self.graph = replace(graph, inputs={"x": (n,)}, outputs={"y": (m,)})

    @cached_property
    def _batch(self) -> CompiledBatch:
        return CompiledBatch(self.graph)

    @cached_property
    def adjoint(self) -> "_Rows":
        """Compiled function that maps x (n,) and the multipliers l (m,) to J(x)^T l (n,).

        J is the Jacobian.
        """
        return _Rows(adjoint(self.graph))

    def __call__(self, x: Array) -> Array:
        rows = np.ascontiguousarray(np.reshape(x, (-1, self.sizes[0])), dtype=float)
        values: Array = np.reshape(self._batch(rows), (*np.shape(x)[:-1], self.sizes[1]))
        return values.astype(np.asarray(x).dtype)


@explain_calls()
def jax_function(target: Tree | Block, function: str) -> Callable[..., Any]:
    """Return a JAX function of a robot model or a block, with exact derivatives in reverse mode.

        f = jax_function(model, "aba")
        jax.jit(jax.grad(lambda q: f(q, qd, tau).sum()))(q)

    `function` and the arguments are as in `casadi_function`. The function supports `jax.jit`,
    `jax.vmap`, `jax.grad` and `jax.vjp`, also nested, and arguments with leading axes (..., nq). It
    does not support derivatives in forward mode (`jax.jvp`). JAX calls the compiled function on the
    CPU, by `jax.pure_callback`. The function computes in doubles and returns the type of its
    arguments, with at least 32 bits. Integers have the default type of JAX.

    Args:
        target: Robot model, or block.
        function: Name of the function, such as "aba" or "derivative".

    Raises:
        ImportError: JAX is not installed.
        ValueError: As for `casadi_function`.
        TypeError: `target` is neither a model nor a block.
    """
    jax = module_of("jax", "jax_function")
    graph = function_graph(target, function)
    return _name_arguments(graph, jax.numpy, _jax_rows(jax, _Rows(graph)), "axis")


def _jax_rows(jax: Any, rows: _Rows) -> Callable[[Any], Any]:
    """Return the JAX function (..., n) -> (..., m) of a compiled function."""
    followed: list[Callable[[Any], Any]] = []  # the function of the adjoint, made at its first use

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def evaluate(x: Any) -> Any:
        result = jax.ShapeDtypeStruct((*x.shape[:-1], rows.sizes[1]), x.dtype)
        return jax.pure_callback(
            lambda values: rows(np.asarray(values)), result, x, vmap_method="broadcast_all"
        )

    def backward(x: Any, multipliers: Any) -> tuple[Any]:
        if not followed:
            followed.append(_jax_rows(jax, rows.adjoint))
        return (followed[0](jax.numpy.concatenate([x, multipliers], -1)),)

    evaluate.defvjp(lambda x: (evaluate(x), x), backward)
    return evaluate  # type: ignore[no-any-return]


@explain_calls()
def torch_function(target: Tree | Block, function: str) -> Callable[..., Any]:
    """Return a PyTorch function of a robot model or a block, with exact derivatives.

        f = torch_function(model, "aba")
        f(q, qd, tau).sum().backward()

    `function` and the arguments are as in `casadi_function`. The arguments may have leading axes
    (..., nq), which are broadcast. The function computes in doubles on the CPU and returns the type
    of its arguments, with at least 32 bits. Its derivatives are differentiable
    (`create_graph=True`). It does not support `torch.func` and `torch.vmap`.

    Args:
        target: Robot model, or block.
        function: Name of the function, such as "aba" or "derivative".

    Raises:
        ImportError: PyTorch is not installed.
        ValueError: As for `casadi_function`.
        TypeError: `target` is neither a model nor a block.
    """
    torch = module_of("torch", "torch_function")
    graph = function_graph(target, function)
    return _name_arguments(graph, torch, _torch_rows(torch, _Rows(graph)), "dim")


def _torch_rows(torch: Any, rows: _Rows) -> Callable[[Any], Any]:
    """Return the PyTorch function (..., n) -> (..., m) of a compiled function."""
    followed: list[Callable[[Any], Any]] = []  # the function of the adjoint, made at its first use

    class Rows(torch.autograd.Function):
        """Compiled function with its adjoint."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            """Return the values, and save the arguments for the adjoint."""
            ctx.save_for_backward(x)
            values = rows(x.detach().cpu().numpy())
            return torch.from_numpy(values).to(x.device)

        @staticmethod
        def backward(ctx: Any, multipliers: Any) -> Any:
            """Return J^T l for the multipliers l, with the Jacobian J at the saved arguments."""
            (x,) = ctx.saved_tensors
            if not followed:
                followed.append(_torch_rows(torch, rows.adjoint))
            return followed[0](torch.cat([x, multipliers], dim=-1))

    return Rows.apply  # type: ignore[no-any-return]


def _name_arguments(
    graph: Graph, numpy: Any, evaluate: Callable[[Any], Any], axis: str
) -> Callable[..., Any]:
    """Return a function whose arguments are the inputs of a graph.

    The function concatenates its arguments to a vector (..., n), and calls `evaluate`.

    Args:
        graph: Graph with one output.
        numpy: Module with the array functions: jax.numpy or torch.
        evaluate: Function (..., n) -> (..., m) that evaluates the graph.
        axis: Keyword of the axis argument of `concatenate`, such as "axis" or "dim".
    """
    shapes = dict(graph.inputs)
    (shape_out,) = graph.outputs.values()

    def call(*values: Any, **named: Any) -> Any:
        if named:
            values = _in_order(graph.name, tuple(shapes), values, named)
        if len(values) != len(shapes):
            raise TypeError(
                f"{graph.name} takes {len(shapes)} arguments ({', '.join(shapes)}), not "
                f"{len(values)}"
            )
        leading, flat = [], []
        for (name, shape), value in zip(shapes.items(), values, strict=True):
            array = value
            if not hasattr(value, "requires_grad"):
                try:
                    array = numpy.asarray(None if isinstance(value, str | bytes) else value)
                except (TypeError, ValueError, RuntimeError):
                    raise TypeError(
                        f"the argument {name} of {graph.name} must be an array of real numbers, "
                        f"not {value!r:.60}"
                    ) from None
            cut = len(array.shape) - len(shape)
            if cut < 0 or tuple(array.shape[cut:]) != shape:
                raise ValueError(
                    f"the argument {name} of {graph.name} has the shape {tuple(array.shape)}; "
                    f"expected (..., {', '.join(map(str, shape))})"
                )
            leading.append(tuple(array.shape[:cut]))
            flat.append(array.reshape((*leading[-1], prod(shape))))
        try:
            common = np.broadcast_shapes(*leading)
        except ValueError:
            axes = ", ".join(f"{n} {one}" for n, one in zip(shapes, leading, strict=True))
            raise ValueError(
                f"the leading axes of the arguments of {graph.name} differ: {axes}; expected equal "
                "axes, or axes of the length 1"
            ) from None
        flat = [numpy.broadcast_to(one, (*common, one.shape[-1])) for one in flat]
        if not_real := [
            n for n, one in zip(shapes, flat, strict=True) if "complex" in str(one.dtype)
        ]:
            raise ValueError(
                f"the argument {not_real[0]} of {graph.name} is complex; expected real numbers"
            )
        kind = _common_type(numpy, flat)
        joined = numpy.concatenate([_cast(one, kind) for one in flat], **{axis: -1})
        return evaluate(joined).reshape((*common, *shape_out))

    call.__name__ = call.__qualname__ = graph.name
    return call


def _in_order(
    function: str, names: tuple[str, ...], values: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of a function in the order of `names`.

    Args:
        function: Name of the function for messages.
        names: Names of all arguments.
        values: Positional arguments.
        named: Keyword arguments.
    """
    rest = names[len(values) :]
    for name in named:
        if name not in names:
            raise TypeError(f"{function} has no argument '{name}'; {suggestion(name, names)}")
        if name not in rest:
            raise TypeError(f"{function} has two values for the argument {name}")
    if missing := [name for name in rest if name not in named]:
        raise TypeError(f"{function} needs the arguments {', '.join(missing)}")
    return (*values, *(named[name] for name in rest))


def _common_type(numpy: Any, arrays: list[Any]) -> Any:
    """Return the common floating-point type of arrays, with at least 32 bits.

    Only floating-point arrays count. If there are none, the result is the default type of `numpy`.
    """
    kinds = [one.dtype for one in arrays if "float" in str(one.dtype)]
    return reduce(numpy.promote_types, kinds, numpy.float32) if kinds else numpy.zeros(()).dtype


def _cast(array: Any, kind: Any) -> Any:
    return array.astype(kind) if hasattr(array, "astype") else array.to(kind)
