"""Gradients of runs by the adjoint method: one reverse run for any number of parameters."""

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Port
from rigidblocks.block.external_functions import address
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.arrays import Array
from rigidblocks.common.compiler import PORTABLE_FLAGS, kernel_compiler, shared_library
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL, FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.masters.run_plan import set_default_method
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library.estimators import number_of
from rigidblocks.studies.argument_checks import check_system, name_list, real_array
from rigidblocks.tracing.ccode import c_functions
from rigidblocks.tracing.trace import adjoint

_LOOPS = """
#include <string.h>

#if defined(_WIN32)
#define RB_OUTSIDE __declspec(dllexport)
#else
#define RB_OUTSIDE __attribute__((visibility("default")))
#endif
enum {{ SIZE = {size}, Z = {z}, NZ = {nz}, U = {u}, NU = {nu} }};

static void set_step(double *m, const double *inputs, const double *rows, double t0, double dt,
                     long k)
{{
    m[0] = t0 + (double)(k + 1) * dt;
    memcpy(m + Z, rows + k * NZ, NZ * sizeof *m);
    memcpy(m + U, inputs + k * NU, NU * sizeof *m);
}}

/* Write the states of all communication points to `rows`, and return the number of finite rows. */
RB_OUTSIDE long run_forward(double *m, const double *inputs, long n, double t0, double dt,
                            double *rows);
RB_OUTSIDE long run_forward(double *m, const double *inputs, long n, double t0, double dt,
                            double *rows)
{{
    m[0] = t0;
    memcpy(m + U, inputs, NU * sizeof *m);
    initial(m, rows);
    for (long k = 0; k < n; k++) {{
        double sum = 0.0;
        set_step(m, inputs, rows, t0, dt, k);
        update(m, rows + (k + 1) * NZ);
        for (int i = 0; i < NZ; i++)
            sum += 0.0 * rows[(k + 1) * NZ + i];
        if (sum != 0.0)
            return k + 1;
    }}
    return n + 1;
}}

/* Add the derivatives to `slopes` (start values) and to `input_slopes` (inputs of each step). The
   vector `work` is the memory vector, and then the multipliers of the states. `start` contains the
   states before the initialization. */
RB_OUTSIDE void run_backward(double *work, const double *inputs, long n, double t0, double dt,
                             const double *rows, const double *start, const double *weights,
                             double *slopes, double *input_slopes);
RB_OUTSIDE void run_backward(double *work, const double *inputs, long n, double t0, double dt,
                             const double *rows, const double *start, const double *weights,
                             double *slopes, double *input_slopes)
{{
    double *const multipliers = work + SIZE, *const step_slopes = work + SIZE + NZ;
    memcpy(multipliers, weights + n * NZ, NZ * sizeof *work);
    for (long k = n - 1; k >= -1; k--) {{
        if (k >= 0) {{
            set_step(work, inputs, rows, t0, dt, k);
            update_adjoint(work, step_slopes);
        }} else {{
            work[0] = t0;
            memcpy(work + Z, start, NZ * sizeof *work);
            memcpy(work + U, inputs, NU * sizeof *work);
            initial_adjoint(work, step_slopes);
        }}
        const long step = k >= 0 ? k : 0;
        for (int i = 0; i < NU; i++)
            input_slopes[step * NU + i] += step_slopes[U + i];
        memset(step_slopes + U, 0, NU * sizeof *work);
        if (k >= 0) {{
            for (int i = 0; i < NZ; i++)
                multipliers[i] = step_slopes[Z + i] + weights[k * NZ + i];
            memset(step_slopes + Z, 0, NZ * sizeof *work);
        }}
        for (int i = 0; i < SIZE; i++)
            slopes[i] += step_slopes[i];
    }}
}}
"""


class Gradient(NamedTuple):
    """Derivatives of a scalar function of the outputs of a run.

    Attributes:
        parameters: Derivatives (n,) with respect to the parameters.
        inputs: Derivatives (steps, nu) with respect to the inputs in each step.
    """

    parameters: Array
    inputs: Array


@dataclass(eq=False)
class AdjointRun:
    """Run of a system with exact gradients by the adjoint method (`prepare_adjoint`).

        z_0 = g(p),   z_k+1 = F(t_k+1, z_k, u_k, p)
        l_N = dJ/dz_N,   l_k = dJ/dz_k + (dF/dz)^T l_k+1
        dJ/dp = (dg/dp)^T l_0 + sum (dF/dp)^T l_k+1

    z_k are the states and outputs of all parts after k of N steps, u_k the inputs and p the
    parameters. J is the scalar function, and l_k are the adjoint variables. g is the
    initialization, and F is one communication step with all its inner steps. The gradient is
    therefore the exact derivative of the numerical solution. Do not use one object in several
    threads at the same time.

    Args:
        memory: Memory layout of the `FusedSystem`.
        steps: Number N of communication steps.
        t_start: Start time [s].
        dt: Communication step [s].
        places: Indices of the parameters in the memory vector (n,).
        input_places: Indices of the inputs that change, in the memory vector (nu,).
        columns: Indices of the outputs, the columns of the results, in the memory vector (m,).
        names: Names of the parameters (n,).
        output_names: Names of the outputs (m,).
    """

    memory: Memory
    steps: int
    t_start: float
    dt: float
    places: Array
    input_places: Array
    columns: Array
    names: tuple[str, ...]
    output_names: tuple[str, ...]

    def __post_init__(self) -> None:
        self._start = self.memory.start()
        self._rows: Array | None = None
        self._inputs = np.zeros((self.steps, 0))

    @property
    def time(self) -> Array:
        """Times (steps + 1,) of the communication points [s]."""
        return self.t_start + self.dt * np.arange(self.steps + 1)

    @cached_property
    def values(self) -> Array:
        """Start values (n,) of the parameters in the system."""
        return self.memory.start()[self.places]

    @cached_property
    def _library(self) -> Any:
        """Compiled C library: initialization, step, their adjoints, and loops over the steps."""
        memory, evaluator = self.memory, TracedEvaluator(self.memory)
        graphs = [evaluator.graph(name) for name in ("initial", "update")]
        graphs += [adjoint(graph) for graph in graphs]
        loops = _LOOPS.format(
            size=memory.size,
            z=memory.z.start,
            nz=memory.z.stop - memory.z.start,
            u=memory.u.start,
            nu=memory.u.stop - memory.u.start,
        )
        text = "#include <math.h>\n" + c_functions(graphs, [{}] * len(graphs)) + loops
        command = kernel_compiler()
        path = shared_library({"adjoint.c": text}, "adjoint.c", PORTABLE_FLAGS, command)
        library = ctypes.CDLL(str(path))
        pointer, number = ctypes.c_void_p, ctypes.c_double
        library.run_forward.argtypes = [pointer, pointer, ctypes.c_long, number, number, pointer]
        library.run_forward.restype = ctypes.c_long
        library.run_backward.argtypes = [*library.run_forward.argtypes, *[pointer] * 4]
        library.run_backward.restype = None
        return library

    def run(self, values: ArrayLike | None = None, inputs: ArrayLike | None = None) -> Array:
        """Simulate the system and return the outputs (steps + 1, m).

        Args:
            values: Parameters (n,); None: the start values of the system.
            inputs: Inputs (steps, nu) in each step; None: the start values in all steps.

        Raises:
            ValueError: A shape is wrong, or a value is not finite.
            TypeError: An argument is a dict.
            ArithmeticError: A state is not finite; the message contains the time.
        """
        m, memory = self.memory.start(), self.memory
        self._rows = None  # a run with an error leaves no results
        if values is not None:
            m[self.places] = _check_array(values, self.values.shape, "the parameters")
        self._inputs = np.tile(m[memory.u], (self.steps, 1))
        if inputs is not None:
            shape = (self.steps, len(self.input_places))
            columns = self.input_places - memory.u.start
            self._inputs[:, columns] = _check_array(inputs, shape, "the inputs")
        self._start = m.copy()
        rows = np.zeros((self.steps + 1, memory.z.stop - memory.z.start))
        arguments = (self.steps, self.t_start, self.dt, address(rows))
        done = self._library.run_forward(address(m), address(self._inputs), *arguments)
        if not np.isfinite(rows[:done]).all() or done <= self.steps:
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ArithmeticError(
                f"the states of the run are not finite at t = {self.time[bad]:.9g} s; check the "
                "parameters and the step sizes"
            )
        self._rows = rows
        outputs: Array = rows[:, self.columns - memory.z.start]
        return outputs

    def gradient(self, weights: ArrayLike) -> Gradient:
        """Return the gradient of a scalar function J of the outputs of the last run.

        Args:
            weights: Derivatives dJ/dy (steps + 1, m) of J with respect to the outputs.

        Raises:
            ValueError: The shape of `weights` is wrong, or a value is not finite.
            RuntimeError: `run` has not been called.
        """
        if self._rows is None:
            raise RuntimeError("call the method run before the method gradient")
        memory, z = self.memory, self.memory.z
        shape = (self.steps + 1, len(self.columns))
        whole = np.zeros_like(self._rows)
        np.add.at(whole.T, self.columns - z.start, _check_array(weights, shape, "the weights").T)
        slopes, input_slopes = np.zeros(memory.size), np.zeros_like(self._inputs)
        work = np.concatenate([self._start, np.zeros(z.stop - z.start + memory.size)])
        start = self._start[z].copy()
        arrays = (self._rows, start, whole, slopes, input_slopes)
        self._library.run_backward(
            address(work),
            address(self._inputs),
            self.steps,
            self.t_start,
            self.dt,
            *map(address, arrays),
        )
        changing = self.input_places - memory.u.start
        held = np.ones(input_slopes.shape[1], dtype=bool)
        held[changing] = False
        slopes[memory.u] = np.where(held, input_slopes.sum(axis=0), 0.0)
        return Gradient(slopes[self.places], input_slopes[:, changing])


def _check_array(values: ArrayLike, shape: tuple[int, ...], quantity: str) -> Array:
    if isinstance(values, Mapping):
        raise TypeError(
            f"{quantity} must be an array {shape} in the order of their names, not a dict"
        )
    array = real_array(values, quantity)
    if array.shape != shape:
        raise ValueError(f"{quantity} have the shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        element = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(f"{quantity} must be finite, but element {element} is not")
    return array


@explain_calls()
def prepare_adjoint(
    system: System,
    t_stop: float,
    dt: float,
    *,
    parameters: Iterable[str],
    outputs: Iterable[str],
    inputs: Iterable[str] = (),
    t_start: float = 0.0,
    method: str = "rk4",
    h: float | None = None,
    order: str = GAUSS_SEIDEL,
) -> AdjointRun:
    """Prepare runs of a system whose gradients are computed by the adjoint method.

    The time for a gradient does not depend on the number of parameters. To fit few parameters to
    many measurements, `fit` is faster: it solves the variational equations and needs fewer runs. A
    run has the same steps as a run of `simulate` with the same dt and order. The system must be
    traceable and must have fixed inner steps.

    Args:
        system: System of blocks.
        t_stop: End time [s].
        dt: Communication step [s].
        parameters: Names `part.port` or `part.port[1]` of parameters, of states (for their start
            values), and of unconnected inputs that are constant.
        outputs: Names of the outputs and states in the results.
        inputs: Names of unconnected inputs that change from step to step.
        t_start: Start time [s].
        method: Fixed-step method of the blocks that were added without a method.
        h: Largest inner step [s] of these blocks.
        order: Stepping order of the parts, "gauss-seidel" or "jacobi".

    Raises:
        ValueError: The time span is not a multiple of dt, or a name occurs twice. A part has an
            adaptive method or C code. `FusedSystem` does not support the system.
        KeyError: A name is unknown.
    """
    check_system(system, "the adjoint method")
    for label, value in (("t_start", t_start), ("t_stop", t_stop), ("dt", dt)):
        number_of(label, value)
    valid = np.isfinite([t_start, t_stop, dt]).all() and dt > 0.0
    steps = round((t_stop - t_start) / dt) if valid else 0
    if steps < 1 or abs(steps * dt - (t_stop - t_start)) > 1e-9 * (t_stop - t_start):
        raise ValueError(
            f"the run from {t_start:g} s to {t_stop:g} s must consist of one or more communication "
            f"steps of dt = {dt:g} s"
        )
    block = FusedSystem(set_default_method(system.wiring(), method, h), dt, order)
    memory = Memory(block)
    if names := [one.name for one in block.inner_blocks(memory) if block.has_own_step(one.name)]:
        raise ValueError(
            f"the adjoint method needs fixed steps and traceable blocks; '{names[0]}' has an "
            "adaptive method, C code, or a sample time that does not fit dt; choose a method such "
            "as method='rk4'"
        )
    states, opened = list(block.sampled), list(block.inputs)
    start = [port for port in states if port.name not in block.computed]
    changing = _elements("input", inputs, opened, memory)
    own = _elements("parameter", parameters, [*start, *block.parameters, *opened], memory)
    if twice := set(own) & set(changing):
        raise ValueError(f"{min(twice)} is both a parameter and an input that changes")
    results = _elements("output", outputs, states, memory)
    if not results:
        raise ValueError("the adjoint method needs the name of at least one output")
    return AdjointRun(
        memory,
        steps,
        t_start,
        dt,
        np.array([*own.values()], dtype=int),
        np.array([*changing.values()], dtype=int),
        np.array([*results.values()], dtype=int),
        tuple(own),
        tuple(results),
    )


def _elements(
    kind: str, names: Iterable[str], ports: Iterable[Port], memory: Memory
) -> dict[str, int]:
    """Map the elements of the ports in `names` to their indices in the memory vector.

    A name is a port name or an element name. The keys of the result are element names. `kind` names
    the ports in error messages, for example "input".
    """
    known: dict[str, Mapping[str, int]] = {}
    for port in ports:
        first = memory.where[port.name].start
        own = {name: first + k for k, name in enumerate(port.element_names)}
        known |= {name: {name: place} for name, place in own.items()} | {port.name: own}
    found: dict[str, int] = {}
    for name in name_list(names, f"{kind}s"):
        if name not in known:
            raise KeyError(f"the system has no {kind} '{name}'; {suggestion(name, known)}")
        if twice := known[name].keys() & found.keys():
            raise ValueError(f"the {kind} {min(twice)} occurs twice")
        found |= known[name]
    return found
