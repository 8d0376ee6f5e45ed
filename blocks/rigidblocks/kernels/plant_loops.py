"""C loops over the bodies for plants with many bodies.

The kernel of such a plant computes the derivatives and outputs in three stages:

1. a traced function computes the arguments of the forward dynamics from the memory vector m
2. C loops over the bodies compute the joint accelerations and the energy of the bodies
3. a traced function computes the derivatives or outputs from m and these results

The graphs of stages 1 and 3 come from the NumPy functions of the plant. The size of the C code does
not depend on the number of bodies, except for tables and for operations on vectors.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics import aba, energy
from rigidblocks.kernels.compiled_dynamics import body_sweeps
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.ccode import WrittenFunction
from rigidblocks.tracing.trace import Graph, Traced, trace

# Smallest number of bodies for loops. Straight-line code of smaller plants compiles in about a
# second, and its steps take less time.
LEAST_BODIES = 51
LOOPED = ("derivative", "output")  # functions of a plant that call the loops


class _Arguments(NamedTuple):
    """Arguments of the forward dynamics: q (nq,), qd (nv,), tau (nv,) and gravity (3,)."""

    q: Array
    qd: Array
    tau: Array
    gravity: Array


class _WrenchesError(Exception):
    """Error for a plant with external wrenches on its bodies, which the loops do not support."""


class _ForwardDynamicsRecorder(RobotPlant):
    """Plant variant that records the arguments of the forward dynamics for the C loops.

    It returns zero joint accelerations and zero energy, because the C loops compute these values.
    """

    arguments: _Arguments | None

    def tree_accelerations(
        self, model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None, gravity: Array
    ) -> Array:
        if f_ext is not None and any(_is_nonzero(element) for element in f_ext.ravel()):
            raise _WrenchesError
        vars(self)["arguments"] = _Arguments(q, qd, tau, gravity)
        return np.zeros(model.nv)

    def tree_energy(self, model: Model, q: Array, qd: Array, gravity: Array) -> Any:
        del model, q, qd, gravity
        return 0.0


class _ForwardDynamicsReader(RobotPlant):
    """Plant variant that reads the results of the C loops: joint accelerations and energy."""

    results: Array  # (nv + 1,) joint accelerations and energy

    def tree_accelerations(
        self, model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None, gravity: Array
    ) -> Array:
        del q, qd, tau, f_ext, gravity
        return self.results[: model.nv]

    def tree_energy(self, model: Model, q: Array, qd: Array, gravity: Array) -> Any:
        del q, qd, gravity
        return self.results[model.nv]


class _Structure(_ForwardDynamicsReader):
    """Variant of a plant for dependency analysis.

    In this variant, each joint acceleration depends on all arguments of the forward dynamics.
    """

    def tree_accelerations(
        self, model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None, gravity: Array
    ) -> Array:
        del f_ext
        return np.full(model.nv, np.sum(np.concatenate([q, qd, tau, gravity])))

    def tree_energy(self, model: Model, q: Array, qd: Array, gravity: Array) -> Any:
        del model
        return np.sum(np.concatenate([q, qd, gravity]))


_Variant = TypeVar("_Variant", bound=RobotPlant)


def _variant(plant: RobotPlant, cls: type[_Variant], **attributes: Any) -> _Variant:
    """Return an object of the class `cls` with the attributes of the plant and `attributes`."""
    made = object.__new__(cls)
    vars(made).update(vars(plant) | attributes)
    return made


def _is_nonzero(element: Any) -> bool:
    return isinstance(element, Traced) or element != 0.0


def structure(block: Block) -> Block | None:
    """Return the variant of a plant for dependency analysis (`_Structure`).

    The result is None for blocks whose dynamics do not use C loops over the bodies.
    """
    return _variant(block, _Structure) if isinstance(block, RobotPlant) and _fits(block) else None


def _fits(block: Block) -> bool:
    """Return True if C loops over the bodies can compute the forward dynamics of a block."""
    return (
        type(block) is RobotPlant
        and type(block.model) is Model
        and block.model.nb >= LEAST_BODIES
        and not (block.external_wrenches or block.inertias or block.model.rheonomic)
        and block.force_elements.start_transmissions is None
        and block.rotor_inertia is None
        and all(joint.nv for joint in block.model.joint)
    )


@dataclass(frozen=True, eq=False)
class PlantLoops:
    """C loops over the bodies of a plant, and the traced stages before and after the loops.

    Attributes:
        memory: Memory layout of the plant.
        arguments: Graph from the memory vector to the arguments of the forward dynamics.
    """

    memory: Memory
    arguments: Graph

    @property
    def plant(self) -> RobotPlant:
        """Plant whose dynamics the loops compute."""
        assert isinstance(self.memory.block, RobotPlant)
        return self.memory.block

    @cached_property
    def _dynamics_code(self) -> tuple[WrittenFunction, WrittenFunction]:
        """C functions that compute the joint accelerations and the energies of the bodies."""
        return (
            body_sweeps(self.plant.equivalent_model, "tree_aba"),
            body_sweeps(self.plant.aligned_model, "tree_energy"),
        )

    @property
    def work(self) -> int:
        """Number of doubles of the workspace."""
        return max(sweep.work for sweep in self._dynamics_code)

    def last_stage(self, name: str) -> Graph:
        """Return the graph of the last stage of the plant function `name`.

        The inputs are the memory vector and the results of the loops.
        """
        memory = self.memory

        def function(m: Array, results: Array) -> dict[str, Array]:
            after = _variant(self.plant, _ForwardDynamicsReader, results=results)
            return {"out": getattr(NumpyEvaluator(replace(memory, block=after)), name)(m)}

        inputs = {"memory": (memory.size,), "results": (self.plant.model.nv + 1,)}
        return trace(f"{name}_after", function, inputs)

    def function(self, after: Graph) -> Callable[[Array], Array]:
        """Return a plant function that computes the three stages without C code.

        `after` is the graph of the last stage. NumPy functions replace the C loops. The caller
        compares the result with the original plant function.
        """
        plant, nv = self.plant, self.plant.model.nv

        def evaluate(m: Array) -> Array:
            values = self.arguments(m)
            q, qd, tau, gravity = np.split(values, np.cumsum([plant.model.nq, nv, nv]))
            qdd = aba(plant.equivalent_model, q, qd, tau, None, gravity)
            E = energy(plant.aligned_model, q, qd, gravity)
            return after(np.concatenate([m, qdd, [E]]))

        return evaluate

    def text(self) -> Iterator[str]:
        """Yield the C functions `derivative` and `output`, which call the three stages."""
        yield from (sweep.text for sweep in self._dynamics_code)
        nv, size = self.plant.model.nv, self.arguments.function.nnz_out()
        for name in LOOPED:
            calls = ["tree_aba(arguments, cells, results);"]
            if name == "output":
                calls += [
                    f"RB_WORKSPACE(RB_LARGE, double, energies, {nv});",
                    "tree_energy(arguments, cells, energies);",
                    f"results[{nv}] = 0.0;",
                    f"for (int k = 0; k < {nv}; k++)",
                    f"    results[{nv}] += energies[k];",
                ]
            yield "\n".join(
                [
                    f"static inline void {name}(const double *in, double *out)\n{{",
                    f"    RB_WORKSPACE(RB_LARGE, double, whole, RB_SIZE + {nv + 1});",
                    f"    RB_WORKSPACE(RB_LARGE, double, arguments, {size});",
                    f"    RB_WORKSPACE(RB_LARGE, double, cells, {self.work});",
                    "    memcpy(whole, in, RB_SIZE * sizeof *in);",
                    "    double *const results = whole + RB_SIZE;",
                    "    tree_arguments(in, arguments);",
                    *(f"    {call}" for call in calls),
                    f"    {name}_after(whole, out);\n}}\n",
                ]
            )


def plant_loops(memory: Memory) -> PlantLoops | None:
    """Return the C loops of a plant with many bodies; None for all other blocks.

    The block must be a `RobotPlant` whose spatial model has at least `LEAST_BODIES` bodies. Plants
    with external wrenches, rotors, gears, tunable inertias or time-dependent joints have no loops.
    """
    block = memory.block
    if not (isinstance(block, RobotPlant) and _fits(block)):
        return None

    def arguments(m: Array) -> dict[str, Array]:
        recorder = _variant(block, _ForwardDynamicsRecorder)
        NumpyEvaluator(replace(memory, block=recorder)).derivative(m)
        assert recorder.arguments is not None
        return {"out": np.concatenate(recorder.arguments)}

    try:
        return PlantLoops(memory, trace("tree_arguments", arguments, {"memory": (memory.size,)}))
    except _WrenchesError:
        return None
