"""RBDL called from C++, compared with the library's compiled functions called from C.

The package `pyrbdl` on PyPI contains the source of RBDL 2.6 and its copy of Eigen. The first use
downloads it and compiles it as one unit with `by_rbdl.cpp`, with the flags of Pinocchio's wheel;
the kernel cache keeps both. As a script, this module prints a row for each algorithm: rnea, crba,
aba, and dynamics with loops. RBDL has three methods for loops; the table contains the fastest.
"""

import ctypes
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path

import in_cpp
import loops
import numpy as np
from models import chains, check_equal

from rigidblocks import Model, compiled_dynamics
from rigidblocks.common.compiler import CompilerError, cache_folder, shared_library
from rigidblocks.robot.robots import n_four_bar, spatial_mechanism

RELEASE = "pyrbdl-0.0.2"
ALGORITHMS = ("rnea", "crba", "aba", "direct", "range space", "null space")
OF_LOOPS = ALGORITHMS[3:]
_NUMBERS = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")


def source() -> Path:
    """Return the folder of RBDL's source, downloaded from PyPI if it is not in the cache."""
    kept = cache_folder() / RELEASE
    if not kept.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            fetch = (
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary=:all:",
            )
            subprocess.run((*fetch, "-d", folder, RELEASE.replace("-", "==")), check=True)
            with tarfile.open(Path(folder) / f"{RELEASE}.tar.gz") as archive:
                archive.extractall(cache_folder(), filter="data")
    return kept


@cache
def program() -> ctypes.CDLL:
    """Return the compiled program.

    Raises:
        CompilerError: If g++ is missing.
    """
    if not (command := shutil.which("g++")):
        raise CompilerError("no g++, which RBDL is compiled with here")
    folders = ("src", "include", "include/Linux", "third_party/eigen3/include")
    path = shared_library(
        {"by_rbdl.cpp": Path(__file__).with_suffix(".cpp").read_text()},
        "by_rbdl.cpp",
        ("-std=c++17", "-O3", "-DNDEBUG", "-w", *(f"-I{source() / one}" for one in folders)),
        (command,),
    )
    library = ctypes.CDLL(str(path))
    library.make_peer.restype = ctypes.c_void_p
    library.make_peer.argtypes = [_NUMBERS]
    library.add_body.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint, _NUMBERS, _NUMBERS, ctypes.c_double, _NUMBERS, _NUMBERS)
    ]
    library.add_pin.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 2, *[_NUMBERS] * 2]
    library.set_state.argtypes = [ctypes.c_void_p, *[_NUMBERS] * 3]
    library.repeat_peer.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long]
    library.answer.argtypes = [ctypes.c_void_p, ctypes.c_int, _NUMBERS]
    library.free_peer.argtypes = [ctypes.c_void_p]
    return library


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=float)


class Peer:
    """RBDL model of a tree of revolute joints; its loops, if any, are pins in the xy plane."""

    def __init__(self, model: Model, q: np.ndarray, v: np.ndarray, w: np.ndarray):
        self.nv, self._library = model.nv, program()
        self._peer = self._library.make_peer(_numbers(model.gravity))
        for p, X, body in zip(model.parent, model.Xtree, model.inertia, strict=True):
            c = body.h / body.m
            I_C = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
            placed = p + 1, _numbers(X.E), _numbers(X.r)
            self._library.add_body(self._peer, *placed, float(body.m), _numbers(c), _numbers(I_C))
        for loop in model.loops:
            ends = _numbers(loop.Xp.r), _numbers(loop.Xs.r)
            self._library.add_pin(self._peer, loop.predecessor + 1, loop.successor + 1, *ends)
        self._library.set_state(self._peer, *map(_numbers, (q, v, w)))

    def __del__(self) -> None:
        if peer := getattr(self, "_peer", None):
            self._library.free_peer(peer)

    def loop(self, algorithm: str, calls: int) -> Callable[[], object]:
        """Return a function that calls an algorithm `calls` times with the state of the peer."""
        number = ALGORITHMS.index(algorithm)
        return partial(self._library.repeat_peer, self._peer, number, calls)

    def __call__(self, algorithm: str) -> np.ndarray:
        """Return the result of an algorithm: (nv,), or the inertia (nv, nv)."""
        number, n = ALGORITHMS.index(algorithm), self.nv
        self._library.repeat_peer(self._peer, number, 1)
        shape = (n, n) if algorithm == "crba" else (n,)
        result = np.zeros(shape)
        self._library.answer(self._peer, number, result)
        return result


def of_trees() -> Iterator[tuple[str, float, float]]:
    """Yield the rows of the tree algorithms."""
    rng = np.random.default_rng(0)
    for name, model in chains().items():
        q, v, w = rng.normal(size=(3, model.nv))
        peer = Peer(model, q, v, w)
        for algorithm in ALGORITHMS[:3]:
            kernel = compiled_dynamics(model, algorithm)
            ours = kernel(*(q, v, w)[: len(kernel.inputs)])
            check_equal(f"{algorithm}, {name}", ours, peer(algorithm), in_cpp.SAME)
            calls = 5000 // model.nv + 1
            both = in_cpp.loop_of(kernel, calls), peer.loop(algorithm, calls)
            yield f"{algorithm}, {name}", *in_cpp.least_of(list(both), calls)


def of_loops() -> Iterator[tuple[str, float, float]]:
    """Yield the rows of the forward dynamics of chains of four-bars."""
    for n in (1, 10, 40):
        mechanism = n_four_bar(n)
        function, forces = loops.evaluation(mechanism), loops.forces(mechanism)
        state = mechanism.q0, mechanism.qd0, forces
        ours, peer = function(*state), Peer(spatial_mechanism(mechanism).model, *state)
        for way in OF_LOOPS:
            check_equal(f"{n} four-bars, {way}", ours, peer(way), in_cpp.SAME)
        calls = 2000 // mechanism.model.nv + 1
        of_peer = (peer.loop(way, calls) for way in OF_LOOPS)
        one, *others = in_cpp.least_of([in_cpp.loop_of(function, calls), *of_peer], calls)
        yield f"constrained, {n} four-bars", one, min(others)


def compared() -> Iterator[tuple[str, float, float]]:
    """Yield name, time of the library and time of RBDL [us], after comparing the results."""
    return chain(of_trees(), of_loops())


def main() -> None:
    """Print the rows."""
    for what, ours, theirs in compared():
        print(f"{what:34} {ours:8.2f} us {theirs:9.2f} us {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
