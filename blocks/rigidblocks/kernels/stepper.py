"""The steppers of a block with what they need from the tracer: a compiled kernel, or the exact
Jacobian.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rigidblocks.block.adaptive import Method, longest_step
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.stepper import CompiledStepper, NumpyStepper
from rigidblocks.block.written import BlockInC
from rigidblocks.kernels.evaluator import QuickEvaluator, TracedEvaluator
from rigidblocks.kernels.fingerprint import fingerprint
from rigidblocks.kernels.kernel import KERNEL, model_header
from rigidblocks.tracing.cache import keep_text, key_of, known_library, known_text
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.compiler import (
    compiler,
    shared_library,
    straight_line_compiler,
    version,
)


def compiled_stepper(
    memory: Memory, method: Method = RK4, h: float | None = None, *, follows: bool = False
) -> CompiledStepper:
    """The stepper of a block by its kernel, compiled here; with `follows` one that takes inputs on
    a course too. Needs a C compiler.
    """
    h = longest_step(method, h)
    path = kernel_library(memory, method, h)
    beside = kernel_library(memory, method, h, "follow.c") if follows else None
    return CompiledStepper(memory, method, h, path=path, follow_path=beside)


def numpy_stepper(memory: Memory, method: Method = RK4, h: float | None = None) -> NumpyStepper:
    """The stepper of a block in NumPy by any method; the Jacobian of a linearly implicit one is
    traced when it is first needed.
    """
    return NumpyStepper(memory, method, longest_step(method, h), TracedEvaluator(memory).slopes)


@dataclass(frozen=True, eq=False)
class TracedStepper(NumpyStepper):
    """Steps in NumPy with the block's functions as graphs, which takes a twentieth of the time of
    the functions themselves and no C compiler.
    """

    @cached_property
    def evaluator(self) -> Evaluator:
        return QuickEvaluator(self.memory)


def traced_stepper(
    memory: Memory, method: Method = RK4, h: float | None = None
) -> TracedStepper | NumpyStepper:
    """The stepper of a block by its graphs; that in NumPy for one which cannot be traced."""
    if isinstance(memory.block, PythonBlock | BlockInC):
        return numpy_stepper(memory, method, h)
    return TracedStepper(memory, method, longest_step(method, h))


def kernel_library(memory: Memory, method: Method, h: float, main: str = "kernel.c") -> Path:
    """The compiled kernel of a block, from the cache when it is there; `main` is its C file with
    what it exports. Needs a C compiler.

    One of a block of this package is found by what the block is, and nothing is traced then.
    """
    written = isinstance(memory.block, BlockInC)
    command = compiler() if written else straight_line_compiler()
    key = fingerprint(main.removesuffix(".c"), memory, method, h, command, version(command))
    if key and (known := known_text(key)) and (path := known_library(known)):
        return path
    sources = {"model.h": model_header(TracedEvaluator(memory), method, h)}
    for name in (*KERNEL, main):
        sources[name] = c_text(f"kernel/{name}")
    path = shared_library(sources, main, command=command)
    if key:
        keep_text(key, key_of(path))
    return path
