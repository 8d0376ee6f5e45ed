"""Time of a communication step of 1 ms in a C host: kernel, this library's FMUs, other FMUs.

All models use RK4; the library's FMU also runs with its default method. The percentiles include the
effects of other programs on the machine. As a reference, `integers as long` is a loop with the same
number of integer operations in each step. The variation of its step time is due to the machine.
"""

import contextlib
import ctypes
import tempfile
import timeit
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from time import process_time
from typing import Any

import casadi as ca
import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Model, FMU3Slave
from fmpy.template import create_fmu, generate_model_description
from models import check_equal, models

from rigidblocks import RobotPlant, export_fmu
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import PORTABLE_FLAGS, shared_library
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.trace import trace

HERE = Path(__file__).parent
DT = 1e-3
SCRIPT = """
from rigidblocks import RobotPlant, auto_tree, planar2
from rigidblocks.fmi.slave import BlockSlave

class Timed(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(RobotPlant({model}), method="rk4", h=1e-3, **kwargs)
"""
MODELS = {"planar2": "planar2()", "7 joints": "auto_tree(7, skew=0.7)"}


@dataclass(eq=False)
class Stepped:
    """Model that a C loop steps: the name of the loop, the function and its arguments.

    `kept` contains the objects that must not be deleted before the model.
    """

    loop: str
    function: Any
    instance: ctypes.c_void_p
    kept: Any = None
    k: int = 0

    def run(self, n: int, times: np.ndarray | None = None) -> None:
        """Take n more steps and write the time of each [ns] into `times`."""
        address = None if times is None else ctypes.c_void_p(times.ctypes.data)
        run = getattr(stepping(), self.loop)
        taken = run(
            ctypes.byref(self.function),
            self.instance,
            ctypes.c_double(self.k * DT),
            ctypes.c_double(DT),
            n,
            address,
        )
        if taken != n:
            raise RuntimeError(f"{self.loop} failed in step {self.k + taken}")
        self.k += n


@cache
def stepping() -> ctypes.CDLL:
    """Return the C loops; the library is loaded once, because its call is part of the times."""
    return ctypes.CDLL(
        str(shared_library({"stepping.c": (HERE / "stepping.c").read_text()}, "stepping.c"))
    )


def pointer(function: Any) -> ctypes.c_void_p:
    """Return the address of a C function."""
    return ctypes.cast(function, ctypes.c_void_p)


def kernel(block: RobotPlant) -> Stepped:
    """Return the compiled kernel of the block with constant parameters."""
    stepper = compiled_stepper(Memory(block, ()))
    m = stepper.memory.start()
    stepper.initialize(m, 0.0)
    return Stepped(
        "kernel",
        pointer(stepper.kernel.rb_block_step),
        ctypes.c_void_p(m.ctypes.data),
        (m, stepper),
    )


def integers(of: Stepped) -> Stepped:
    """Return a loop of integer operations that takes about as long as a step of `of`.

    The number of operations is the same in each step.
    """
    n = 10_000
    mean = min(timeit.repeat(lambda: of.run(n), number=1, repeat=3))
    trial = Stepped("integers", ctypes.c_int(1000), ctypes.c_void_p())
    rounds = 1000 * mean / timeit.timeit(lambda: trial.run(n), number=1)
    return Stepped("integers", ctypes.c_int(round(rounds)), ctypes.c_void_p())


def started(kind: Callable[..., Any], path: Path, folder: Path) -> Any:
    """Return an FMU instance that is ready for its first step."""
    description = fmpy.read_model_description(str(path), validate=False)
    described = description.modelExchange if kind is FMU3Model else description.coSimulation
    fmu = kind(
        guid=description.guid or description.instantiationToken,
        unzipDirectory=fmpy.extract(str(path), str(folder)),
        modelIdentifier=described.modelIdentifier,
        instanceName=path.stem,
    )
    fmu.instantiate()
    if kind is FMU2Slave:
        fmu.setupExperiment()
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    if kind is FMU3Model:
        fmu.updateDiscreteStates()
        fmu.enterContinuousTimeMode()
    return fmu


def co_simulated(kind: Callable[..., Any], path: Path) -> Stepped:
    """Return an FMU for co-simulation."""
    fmu = started(kind, path, path.with_suffix(""))
    loop = "fmi2" if kind is FMU2Slave else "fmi3"
    return Stepped(
        loop, pointer(getattr(fmu.dll, f"{loop}DoStep")), ctypes.c_void_p(fmu.component), fmu
    )


def exchanged(path: Path, nx: int) -> Stepped:
    """Return an FMU for model exchange in FMI 3.0, integrated by the host."""
    fmu = started(FMU3Model, path, path.with_suffix(".exchange"))
    names = (
        "SetTime",
        "SetContinuousStates",
        "GetContinuousStates",
        "GetContinuousStateDerivatives",
    )
    addresses = [pointer(getattr(fmu.dll, f"fmi3{name}")).value for name in names]
    return Stepped(
        "exchange", (ctypes.c_size_t * 5)(*addresses, nx), ctypes.c_void_p(fmu.component), fmu
    )


def from_template(block: RobotPlant, folder: Path) -> Path:
    """Export FMPy's FMU template, whose step calls the kernel; return the path of the FMU.

    Each element of an input, output or state is a separate variable.
    """
    flat = Memory(block, ())
    nu, n = flat.u.stop - flat.u.start, max(flat.x.stop - flat.x.start, flat.y.stop - flat.y.start)
    path = folder / "template.fmu"
    create_fmu(
        generate_model_description(n_parameters=0, n_inputs=nu, n_outputs=n, n_states=n), str(path)
    )
    content = dict(_members(path))
    c = files("rigidblocks") / "c/kernel"
    text = (
        f"enum {{ OUTPUTS = {n} }};\n"
        + (HERE / "template.c").read_text()
        + content["sources/model.c"].decode()
    )
    head, tail = text.split("fmi3Status fmi3DoStep(", 1)
    step = "*eventHandlingNeeded = *terminateSimulation = *earlyReturn = fmi3False;\n"
    step += "    *lastSuccessfulTime = currentCommunicationPoint + communicationStepSize;\n"
    step += (
        "    return template_step(instance, currentCommunicationPoint, "
        "communicationStepSize) ? fmi3Error : fmi3OK;"
    )
    sources = {
        "model.c": f"{head}fmi3Status fmi3DoStep({tail.replace('return fmi3OK;', step, 1)}",
        "model.h": model_header(TracedEvaluator(flat), RK4, DT),
        **{path.name: path.read_text() for path in c.iterdir() if path.name.endswith((".c", ".h"))},
        **{name: (files("fmpy") / "c-code" / name).read_text() for name in _HEADERS},
    }
    content[f"binaries/{fmpy.platform_tuple}/model.so"] = shared_library(
        sources, "model.c"
    ).read_bytes()
    return _packed(path, content)


_HEADERS = ("fmi3Functions.h", "fmi3FunctionTypes.h", "fmi3PlatformTypes.h")


def _members(path: Path) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def _packed(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def by_casadi(block: RobotPlant, folder: Path) -> Path:
    """Export the same traced equations with CasADi, for model exchange; return the path.

    Both exports use the same compiler flags.
    """
    flat = Memory(block, ())
    n, nu = block.model.nv, flat.u.stop - flat.u.start
    graph = trace(
        "qdd", lambda m: {"qdd": NumpyEvaluator(flat).derivative(m)[n:]}, {"memory": (flat.size,)}
    )
    dae = ca.DaeBuilder("by_casadi")
    # one variable for each element, because CasADi 3.8 cannot export arrays
    q, qd = ([dae.add(f"{name}{k}", {"start": 0.0}) for k in range(n)] for name in ("q", "qd"))
    tau = [dae.add(f"tau{k}", "input", {"start": 0.0}) for k in range(nu)]
    qdd = graph.function(ca.vertcat(0.0, *q, *qd, *tau, ca.MX.zeros(flat.size - flat.u.stop)))
    for k in range(n):
        dae.eq(dae.der(q[k]), qd[k])
        dae.eq(dae.der(qd[k]), qdd[k])
    content = _written(dae, folder)
    content[f"binaries/{fmpy.platform_tuple}/by_casadi.so"] = _compiled(content)
    return _packed(folder / "by_casadi.fmu", content)


def _written(dae: ca.DaeBuilder, folder: Path) -> dict[str, bytes]:
    """Return the files of CasADi's export by their names in the FMU."""
    with contextlib.chdir(folder):
        written = dae.export_fmu({"no_warning": True, "with_serialization": False})
        return {
            inside.removeprefix("./"): Path(name).read_bytes() for name, inside in written.items()
        }


def _compiled(content: dict[str, bytes]) -> bytes:
    """Return the library that is compiled from the C files of the export."""
    sources = {
        Path(name).name: data.decode()
        for name, data in content.items()
        if name.endswith((".c", ".h"))
    }
    main = "".join(f'#include "{name}"\n' for name in sources if name.endswith(".c"))
    sources |= {name: (files("fmpy") / "c-code" / name).read_text() for name in _HEADERS} | {
        "all.c": main
    }
    return shared_library(sources, "all.c", (*PORTABLE_FLAGS, "-I.")).read_bytes()


def all_forms(name: str, folder: Path) -> dict[str, Stepped]:
    """Return the reference loop, the kernel and all FMUs of the named model, by name."""
    block = RobotPlant(models()[name])
    fmus = {
        fmi: export_fmu(block, folder / f"native{fmi}.fmu", fmi=fmi, tunable=(), method="rk4", h=DT)
        for fmi in (2, 3)
    }
    default = export_fmu(block, folder / "default.fmu", fmi=3, tunable=())
    script = folder / "timed_fmu.py"
    script.write_text(SCRIPT.format(model=MODELS[name]))
    single = kernel(block)
    return {
        "integers as long": integers(single),
        "kernel": single,
        "native, FMI 2": co_simulated(FMU2Slave, fmus[2]),
        "native, FMI 3": co_simulated(FMU3Slave, fmus[3]),
        "native, FMI 3, default method": co_simulated(FMU3Slave, default),
        "FMPy's template": co_simulated(FMU3Slave, from_template(block, folder)),
        "Python FMU": co_simulated(FMU2Slave, export_fmu(script, folder / "python.fmu", "python")),
        "native, exchange": exchanged(fmus[3], 2 * block.model.nv),
        "CasADi, exchange": exchanged(by_casadi(block, folder), 2 * block.model.nv),
    }


def check_states(forms: dict[str, Stepped], block: RobotPlant) -> None:
    """Check that the states of each FMU equal the states of a kernel after 100 steps.

    A new kernel is the reference, because the measured kernel has already stepped. FMPy's template
    has no readable states; its step is the step of the kernel.

    Raises: RuntimeError: If the states of an FMU differ.
    """
    single, nx = kernel(block), 2 * block.model.nv
    single.run(100)
    expected = states(single, nx)
    for name, form in forms.items():
        if form.loop not in ("integers", "kernel") and name != "FMPy's template":
            form.run(100)
            tolerance = 1e-6 if "default" in name else 1e-9
            check_equal(name, states(form, nx), expected, tolerance)


def states(form: Stepped, nx: int) -> np.ndarray:
    """Return the continuous states q and qd of a kernel or an FMU."""
    values = (ctypes.c_double * nx)()
    match form.loop:
        case "kernel":
            return np.array(form.kept[0][1 : 1 + nx])
        case "fmi2":
            return np.array(form.kept.getReal(range(1, nx + 1)))
        case "fmi3":
            return np.array(form.kept.getFloat64([1, 1 + nx // 2], nx))
        case _:
            form.kept.getContinuousStates(values, nx)
            return np.array(values)


def means(forms: dict[str, Stepped], rounds: int = 60) -> dict[str, float]:
    """Return the minimum of the mean CPU time of a step [ns] of each model over several rounds."""
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, form in forms.items():
            n = 500 if name == "Python FMU" else 2000
            times[name].append(
                timeit.timeit(lambda form=form, n=n: form.run(n), number=1, timer=process_time)
                / n
                * 1e9
            )
    return {name: min(measured) for name, measured in times.items()}


def percentiles(form: Stepped, n: int) -> tuple[float, float]:
    """Return the median and the 99.9th percentile of n steps [ns].

    The median time of a clock reading is subtracted.
    """
    clock, times = np.zeros(10_000), np.zeros(n)
    Stepped("nothing", ctypes.c_int(), ctypes.c_void_p()).run(len(clock), clock)
    form.run(n, times)
    median, high = np.percentile(times - np.median(clock), (50, 99.9))
    return float(median), float(high)


def main() -> None:
    """Print a table for each model."""
    print(
        f"{'a step of 1 ms, C host':24} {'mean':>9} {'- kernel':>9} {'median':>9} {'p 99.9':>9} "
        f"{'ratio':>6}"
    )
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            forms = all_forms(name, Path(folder))
            check_states(forms, RobotPlant(models()[name]))
            mean = means(forms)
            for kind, form in forms.items():
                median, high = percentiles(form, 100_000 if kind == "Python FMU" else 1_000_000)
                over = mean[kind] - mean["kernel"]
                print(
                    f"{name + ', ' + kind:24} {mean[kind]:6.0f} ns {over:6.0f} ns {median:6.0f} ns "
                    f"{high:6.0f} ns "
                    f"{high / median:5.1f}x",
                    flush=True,
                )


if __name__ == "__main__":
    main()
