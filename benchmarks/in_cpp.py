"""Pinocchio called from C++, so that its times contain no overhead of Python.

Pinocchio's wheel has headers and a shared library. `in_cpp.cpp` calls the library for models that
its Python module has made. The first use compiles this program, which takes some minutes; the
kernel cache keeps the program. As a script, this module prints a row for each algorithm: rnea,
crba, aba, their derivatives, the second derivatives of rnea, and dynamics with loops.
"""

import ctypes
import shutil
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import loops
import numpy as np
import pinocchio
from models import chains, check_equal, in_pinocchio

from rigidblocks import Fixed, LoopJoint, Model, auto_tree, compiled_dynamics
from rigidblocks.common.compiler import CompilerError, shared_library
from rigidblocks.dynamics import body_poses
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.kernels.compiled_dynamics import derivatives, second_derivatives
from rigidblocks.robot.robots import four_bar, n_four_bar, spatial_mechanism
from rigidblocks.spatial.spatial import identity
from rigidblocks.tracing.compiled_functions import CompiledFunction

OF_TREES = ("rnea", "crba", "aba", "d rnea", "d aba", "dd rnea")
ALGORITHMS = (*OF_TREES, "constrained", "d constrained")
# flags of the wheel's own build; like its library, only vector instructions of every x86-64
FLAGS = (
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION",
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
    "-w",
)
OF_ORDER = {"": compiled_dynamics, "d": derivatives, "dd": second_derivatives}
SAME = 1e-9  # largest relative difference of two results whose times are compared
ROUNDS = 30
_NUMBERS = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")


@cache
def program() -> ctypes.PyDLL:
    """Return the compiled program.

    Raises:
        CompilerError: If the C++ compiler or the headers of the wheel are missing.
    """
    wheel = Path(pinocchio.__file__).parents[4]
    if not (wheel / "include/eigen3").is_dir():
        raise CompilerError(f"no headers of Eigen in {wheel}: `pip install pin cmeel-eigen`")
    if not (command := shutil.which("g++")):
        raise CompilerError("no g++, which Pinocchio's headers need here")
    headers = (wheel / "include", wheel / "include/eigen3", sysconfig.get_path("include"))
    python = "".join(sysconfig.get_python_version().split("."))
    link = ("-lpinocchio_default", f"-lboost_python{python}", f"-Wl,-rpath,{wheel}/lib")
    path = shared_library(
        {"in_cpp.cpp": Path(__file__).with_suffix(".cpp").read_text()},
        "in_cpp.cpp",
        (*FLAGS, *(f"-I{folder}" for folder in headers)),
        (command,),
        link=(f"-L{wheel}/lib", *link),
    )
    library = ctypes.PyDLL(str(path))
    library.make_peer.restype = ctypes.c_void_p
    library.make_peer.argtypes = [ctypes.py_object, ctypes.py_object, ctypes.c_double, ctypes.c_int]
    library.set_state.argtypes = [ctypes.c_void_p, *[_NUMBERS] * 3, ctypes.c_int]
    library.repeat_peer.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long]
    library.answer.argtypes = [ctypes.c_void_p, ctypes.c_int, _NUMBERS]
    library.free_peer.argtypes = [ctypes.c_void_p]
    return library


class Peer:
    """Pinocchio with a model of its Python module, optionally with rigid constraints.

    `in_world` selects the convention for crba and aba; each convention is faster for some models.
    `mu` and `iterations` are the parameters of Pinocchio's proximal solver.
    """

    def __init__(
        self,
        model: pinocchio.Model,
        q: np.ndarray,
        v: np.ndarray,
        w: np.ndarray,
        constraints: pinocchio.StdVec_RigidConstraintModel | None = None,
        in_world: bool = False,
        mu: float = 0.0,
        iterations: int = 1,
    ):
        self.nv = model.nv
        some = pinocchio.StdVec_RigidConstraintModel() if constraints is None else constraints
        self._library = program()
        self._peer = self._library.make_peer(model, some, mu, iterations)
        state = (np.ascontiguousarray(one, dtype=float) for one in (q, v, w))
        self._library.set_state(self._peer, *state, in_world)

    def __del__(self) -> None:
        if peer := getattr(self, "_peer", None):
            self._library.free_peer(peer)

    def loop(self, algorithm: str, calls: int) -> Callable[[], object]:
        """Return a function that calls an algorithm `calls` times with the state of the peer."""
        number = ALGORITHMS.index(algorithm)
        return partial(self._library.repeat_peer, self._peer, number, calls)

    def __call__(self, algorithm: str) -> tuple[np.ndarray, ...]:
        """Return the results of an algorithm.

        The results are (nv,), or (nv, nv) with a valid upper triangle, or (nv,) and three matrices
        (nv, nv). For second derivatives they are only the tensors (nv, nv, nv).
        """
        number, n = ALGORITHMS.index(algorithm), self.nv
        second = algorithm.startswith("dd ")
        self._library.repeat_peer(self._peer, number, 1)
        flat = np.zeros(4 * n**3 if second else n + 3 * n * n)
        self._library.answer(self._peer, number, flat)
        if second:
            return tuple(flat.reshape(4, n, n, n))
        if algorithm == "crba":
            return (flat[: n * n].reshape(n, n),)
        matrices = flat[n:].reshape(3, n, n) if algorithm.startswith("d ") else ()
        return (flat[:n], *matrices)


class Case(NamedTuple):
    """Comparison: a compiled function (called before), Pinocchio's functions, number of calls."""

    name: str
    algorithm: str
    ours: CompiledFunction
    peers: list[Peer]
    calls: int


def loop_of(function: CompiledFunction, calls: int) -> Callable[[], object]:
    """Return a C loop that calls a compiled function of the library `calls` times."""
    run = function._c_call
    return partial(program().repeat_ours, run.func, *run.args, ctypes.c_long(calls))


def check_answers(what: str, algorithm: str, function: CompiledFunction, peer: Peer) -> None:
    """Check that the results of a compiled function and of Pinocchio agree.

    The function must have been called before. If the last matrix is symmetric, Pinocchio may fill
    only its upper triangle. If the library returns more results than Pinocchio, the additional
    results come first.

    Raises:
        RuntimeError: If the results differ.
    """
    theirs = peer(algorithm)
    ours = tuple(function.outputs.values())[-len(theirs) :]
    for k, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        symmetric = mine.ndim == 2 and k == len(ours) - 1
        both = map(np.triu, (mine, other)) if symmetric else (mine, other)
        check_equal(f"{what}, {algorithm}", *both, SAME)


def least(
    algorithm: str, function: CompiledFunction, peers: list[Peer], calls: int
) -> tuple[float, float]:
    """Return the minimum CPU times of a call [us]: of the library and of Pinocchio.

    Both libraries take turns. The time of Pinocchio is the time of its faster convention.
    """
    loops_of = [loop_of(function, calls), *(peer.loop(algorithm, calls) for peer in peers)]
    ours, *theirs = least_of(loops_of, calls)
    return ours, min(theirs)


def least_of(loops_of: list[Callable[[], object]], calls: int) -> list[float]:
    """Return the least CPU time of a call [us] for loops with `calls` calls each, in turns."""
    times = np.empty((ROUNDS, len(loops_of)))
    for one in times:
        for k, loop in enumerate(loops_of):
            begin = time.process_time()
            loop()
            one[k] = time.process_time() - begin
    return (times.min(axis=0) / calls * 1e6).tolist()


def of_trees(models: Mapping[str, Model]) -> Iterator[Case]:
    """Yield the tree algorithms as cases, with both conventions of Pinocchio."""
    rng = np.random.default_rng(0)
    for name, model in models.items():
        q, v, w = rng.normal(size=(3, model.nv))
        peers = [Peer(in_pinocchio(model), q, v, w, in_world=one) for one in (False, True)]
        for algorithm in OF_TREES:
            prefix, _, plain = algorithm.rpartition(" ")
            kernel = OF_ORDER[prefix](model, plain)
            kernel(*(q, v, w)[: len(kernel.inputs)])
            calls = 5000 // (model.nv ** max(1, len(prefix)) * 10 ** bool(prefix)) + 1
            yield Case(f"{algorithm}, {name}", algorithm, kernel, peers, calls)


def of_loops(sizes: Iterable[int]) -> Iterator[Case]:
    """Yield the forward dynamics of planar and spatial four-bars, and of constraintDynamics."""
    plane = {f"{n} four-bars": n_four_bar(n) for n in sizes}
    for name, mechanism in {**plane, "four-bar in space": spatial_mechanism(four_bar())}.items():
        flat = four_bar() if "space" in name else mechanism
        other, pins = loops.with_pins(flat)
        state = flat.q0, flat.qd0, loops.forces(flat)
        peer = Peer(other, *state, constraints=pins, mu=1e-8, iterations=20)
        function = loops.evaluation(mechanism)
        calls = 2000 // flat.model.nv + 1
        yield Case(f"constrained, {name}", "constrained", function, [peer], calls)


def of_held_chains() -> Iterator[Case]:
    """Yield the derivatives with a loop, for chains whose last body is fixed to the base.

    For fixed frames, the results of both libraries agree for all directions. Pins between two
    moving bodies are not compared, because the derivatives of Pinocchio 4.1 do not agree with its
    own central differences in this case.
    """
    rng = np.random.default_rng(0)
    for n in (8, 18, 30, 38):
        tree = auto_tree(n, skew=0.7)
        q, v, w = rng.normal(size=(3, n))
        tip = body_poses(tree, q)[n - 1]
        model = replace(tree, loops=(LoopJoint(Fixed(), -1, n - 1, tip, identity()),))
        K = loop_constraints(model, q, v).K
        v = v - np.linalg.pinv(K) @ (K @ v)
        function = derivatives(model, "closed_loop_dynamics")
        function(q, v, w)
        other, constraints = loops.with_constraints(model, pinocchio.ContactType.CONTACT_6D)
        peer = Peer(other, q, v, w, constraints)
        name = f"{n} joints, held at both ends"
        yield Case(f"d constrained, {name}", "d constrained", function, [peer], 500 // n + 1)


def compared() -> Iterator[tuple[str, float, float]]:
    """Yield name, time of the library, and time of Pinocchio's faster convention [us].

    All results are compared before the measurement.
    """
    for case in chain(of_trees(chains()), of_loops((1, 10, 40)), of_held_chains()):
        for peer in case.peers:
            check_answers(case.name, case.algorithm, case.ours, peer)
        yield case.name, *least(case.algorithm, case.ours, case.peers, case.calls)


def main() -> None:
    """Print the rows."""
    print(f"{'CPU time of a call in C, C++':34} {'ours':>11} {'Pinocchio':>12} {'ratio':>6}")
    for what, ours, theirs in compared():
        print(f"{what:34} {ours:8.2f} us {theirs:9.2f} us {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
