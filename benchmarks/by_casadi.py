"""C code that CasADi generates from Pinocchio's algorithms, compared with the library's C code.

Both codes use the same compiler flags and are called from C. Pinocchio's wheel contains the headers
for CasADi but no module `pinocchio.casadi`; `by_casadi.cpp` provides the required part. Its first
compilation takes some minutes and 5 GB of memory; the kernel cache keeps the program.
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
from rigidblocks.common.compiler import CompilerError, shared_library

ALGORITHMS = ("rnea", "crba", "aba")
ROBOTS = ("7 joints", "18 joints", "4 legs, 17")
# C loops that call each function `calls` times; CasADi's functions take arrays of pointers
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
    """Return the compiled program that writes the C code.

    Raises:
        CompilerError: If g++ or the headers are missing.
    """
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
    """Return the compiled C code of a model, with the arguments set to a state."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        program().write_code(model, b"code.c")
        text = Path("code.c").read_text()
    return Generated(ctypes.CDLL(str(shared_library({"code.c": text + _LOOPS}, "code.c"))), state)


class Generated:
    """Functions of a model in generated C, with their input and output arrays."""

    def __init__(self, library: ctypes.CDLL, state: tuple[np.ndarray, ...]):
        self.library, self.state = library, [np.array(one, dtype=float) for one in state]
        self.n = n = len(state[0])
        self.result, self.work = np.zeros(n * n), np.zeros(200_000)
        self.integers = np.zeros(10_000, dtype=np.int64)

    def loop(self, algorithm: str, calls: int) -> Callable[[], object]:
        """Return a function that calls an algorithm `calls` times."""
        rows = [one.ctypes.data for one in self.state] + [0] * 20
        inputs = (ctypes.c_void_p * len(rows))(*rows)
        outputs = (ctypes.c_void_p * 20)(self.result.ctypes.data)
        own = [ctypes.c_void_p(one.ctypes.data) for one in (self.integers, self.work)]
        repeat = getattr(self.library, f"repeat_{algorithm}")
        return lambda: repeat(inputs, outputs, *own, ctypes.c_long(calls))

    def __call__(self, algorithm: str) -> np.ndarray:
        """Return the result of an algorithm: (n,), or the upper triangle of the inertia (n, n)."""
        self.loop(algorithm, 1)()
        n = self.n
        return self.result.reshape(n, n).T.copy() if algorithm == "crba" else self.result[:n].copy()


def compared() -> Iterator[tuple[str, float, float]]:
    """Yield name, library time and generated-code time [us], after comparing the results."""
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
    """Print the rows."""
    for what, ours, theirs in compared():
        print(f"{what:34} {ours:8.2f} us {theirs:9.2f} us {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
