"""The C that CasADi generates of Pinocchio's algorithms on its symbols, compiled with our flags and
called from C, against ours.

Pinocchio's wheel has the headers for it, and no module `pinocchio.casadi`: `by_casadi.cpp` is that
much of it. Its first use compiles for some minutes and takes 5 GB; the cache of kernels keeps it.
"""

import contextlib
import ctypes
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import casadi
import in_cpp
import numpy as np
import pinocchio
from models import chains, check_equal, in_pinocchio

from rigidblocks import compiled_dynamics
from rigidblocks.tracing.compiler import CompilerError, shared_library

ALGORITHMS = ("rnea", "crba", "aba")
ROBOTS = ("7 joints", "18 joints", "4 legs, 17")
# CasADi's functions take rows of pointers; each is called so often
_LOOPS = "".join(
    f"""
__attribute__((visibility("default"))) void repeat_{name}(
    const casadi_real **arg, casadi_real **res, casadi_int *iw, casadi_real *w, long calls)
{{
    for (long k = 0; k < calls; k++)
        {name}(arg, res, iw, w, 0);
}}
"""
    for name in ALGORITHMS
)


@cache
def program() -> ctypes.PyDLL:
    """What writes the C; raises CompilerError where there is no g++ or no headers."""
    wheel, folder = Path(pinocchio.__file__).parents[4], Path(casadi.__file__).parent
    if not (command := shutil.which("g++")) or not (wheel / "include/eigen3").is_dir():
        raise CompilerError("no g++, or no headers of Eigen: `pip install pin cmeel-eigen`")
    headers = (wheel / "include", wheel / "include/eigen3", folder / "include")
    python = "".join(sysconfig.get_python_version().split("."))
    flags = [flag for flag in in_cpp.FLAGS if "INSTANTIATION" not in flag and flag != "-O3"]
    path = shared_library(
        {"by_casadi.cpp": Path(__file__).with_suffix(".cpp").read_text()},
        "by_casadi.cpp",
        (*flags, "-O0", *(f"-I{one}" for one in (*headers, sysconfig.get_path("include")))),
        (command,),
        link=(
            f"-L{folder}",
            "-lcasadi",
            f"-L{wheel}/lib",
            f"-lboost_python{python}",
            f"-Wl,-rpath,{folder}:{wheel}/lib",
        ),
    )
    library = ctypes.PyDLL(str(path))
    library.write_code.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return library


def generated(model: pinocchio.Model, state: tuple[np.ndarray, ...]) -> "Generated":
    """The compiled C of a model, ready on a state."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        program().write_code(model, b"code.c")
        text = Path("code.c").read_text()
    return Generated(ctypes.CDLL(str(shared_library({"code.c": text + _LOOPS}, "code.c"))), state)


class Generated:
    """The functions of a model in generated C, and the arrays that they read and write."""

    def __init__(self, library: ctypes.CDLL, state: tuple[np.ndarray, ...]):
        self.library, self.state = library, [np.array(one, dtype=float) for one in state]
        self.n = n = len(state[0])
        self.result, self.work = np.zeros(n * n), np.zeros(200_000)
        self.integers = np.zeros(10_000, dtype=np.int64)

    def loop(self, algorithm: str, calls: int) -> Callable[[], object]:
        """What calls an algorithm that many times."""
        rows = [one.ctypes.data for one in self.state] + [0] * 20
        inputs = (ctypes.c_void_p * len(rows))(*rows)
        outputs = (ctypes.c_void_p * 20)(self.result.ctypes.data)
        own = [ctypes.c_void_p(one.ctypes.data) for one in (self.integers, self.work)]
        repeat = getattr(self.library, f"repeat_{algorithm}")
        return lambda: repeat(inputs, outputs, *own, ctypes.c_long(calls))

    def __call__(self, algorithm: str) -> np.ndarray:
        """The answer: (n,), or the upper triangle of the inertia (n, n)."""
        self.loop(algorithm, 1)()
        n = self.n
        return self.result.reshape(n, n).T.copy() if algorithm == "crba" else self.result[:n].copy()


def compared() -> Iterator[tuple[str, float, float]]:
    """What is called, and the times [us] of ours and of the generated C, answers compared first."""
    robots = {name: model for name, model in chains().items() if name in ROBOTS}
    rng = np.random.default_rng(0)
    for name, model in robots.items():
        state = tuple(rng.normal(size=(3, model.nv)))
        peer = generated(in_pinocchio(model), state)
        for algorithm in ALGORITHMS:
            kernel = compiled_dynamics(model, algorithm)
            ours = kernel(*state[: len(kernel.inputs)])
            both = map(np.triu, np.atleast_2d(ours, peer(algorithm)))
            check_equal(f"{algorithm}, {name}", *both, in_cpp.SAME)
            calls = 5000 // model.nv
            loops = [in_cpp.loop_of(kernel, calls), peer.loop(algorithm, calls)]
            one, other = in_cpp.least_of(loops, calls)
            yield f"{algorithm}, {name}", one, other


def main() -> None:
    """Prints the rows."""
    for what, ours, theirs in compared():
        print(f"{what:34} {ours:8.2f} us {theirs:9.2f} us {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
