"""Time of a step: the fused loop, a native FMU in a C host, and Python FMUs in FMPy."""

import ctypes
import subprocess
import sys
import tempfile
import timeit
from importlib.resources import files
from pathlib import Path

import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Slave
from models import check_equal

from rigidblocks import (
    FusedSystem,
    PDController,
    RepeatingSequence,
    RobotPlant,
    System,
    export_fmu,
    planar2,
)
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import compiler, shared_library
from rigidblocks.dynamics import aba
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.trace import trace

ROOT = Path(__file__).parent.parent
EMPTY = """
from pythonfmu import Fmi2Slave

class Empty(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def do_step(self, current_time, step_size):
        return True
"""


def planar2ctrl() -> System:
    """Return the planar robot with its controller and command."""
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add("pd", PDController(kp=[1000, 1000], kd=[15, 15]))
    system.add(
        "command",
        RepeatingSequence(t=[0, 1, 2, 3, 4], y=[[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]),
    )
    wires = (
        ("command.y", "pd.q_ref"),
        ("command.slope", "pd.qd_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
    )
    for source, target in (*wires, ("pd.tau", "robot.tau")):
        system.connect(source, target)
    return system


def bare_aba() -> float:
    """Return the time of a call of planar2's compiled aba in a C loop [ns]."""
    model = planar2()
    graph = trace(
        "function", lambda *a: {"qdd": aba(model, *a)}, {"q": (2,), "qd": (2,), "tau": (2,)}
    )
    sources = {
        "function.h": c_function(graph),
        "loop.c": (Path(__file__).parent / "loop.c").read_text(),
    }
    loop = ctypes.CDLL(str(shared_library(sources, "loop.c"))).nanoseconds_per_call
    loop.restype = ctypes.c_double
    memory = np.random.default_rng(0).normal(size=6), np.zeros(2)
    return min(
        loop(*(ctypes.c_void_p(part.ctypes.data) for part in memory), 1_000_000) for _ in range(5)
    )


def fused_rate() -> float:
    """Return the steps per second of planar2ctrl in the fused loop, with all states recorded."""
    stepper = compiled_stepper(Memory(FusedSystem(planar2ctrl(), 1e-3)), h=1e-3)
    memory, rows = stepper.memory.start(), np.empty((10_000, stepper.memory.size))
    stepper.initialize(memory, 0.0)
    return len(rows) / min(
        timeit.repeat(lambda: stepper.run(memory, 0.0, 1e-3, rows), number=1, repeat=10)
    )


def native_step(folder: Path) -> float:
    """Return the time of fmi2DoStep of the robot's native FMU in a C host [ns]."""
    path = export_fmu(ROOT / "fmus/planar2_robot_fmu.py", folder / "native.fmu")
    description = fmpy.read_model_description(str(path))
    unzipped = fmpy.extract(str(path), str(folder / "native"))
    library = Path(
        unzipped,
        f"binaries/{fmpy.platform}",
        f"{description.modelName}{fmpy.sharedLibraryExtension}",
    )
    headers = files("fmpy") / "c-code"
    source, host = ROOT / "tests/fmi/c_host/host.c", folder / "host"
    subprocess.run(
        [*compiler(), "-O2", "-I", str(headers), str(source), "-o", str(host), "-ldl", "-lm"],
        check=True,
    )
    inputs = [v.valueReference for v in description.modelVariables if v.causality == "input"]
    command = [
        str(host),
        str(library),
        description.guid,
        "0.001",
        "200000",
        str(inputs[0]),
        str(len(inputs)),
        "1",
    ]
    return min(float(subprocess.check_output(command, text=True).split()[-3]) for _ in range(5))


def python_steps(folder: Path) -> dict[str, float]:
    """Return the times of fmi2DoStep in FMPy [us].

    The FMUs are an empty FMU by pythonfmu, and the robot as a Python FMU and as a native FMU.
    """
    (folder / "rigidblocks_empty_slave.py").write_text(EMPTY)
    command = [sys.executable, "-m", "pythonfmu", "build", "-f", "rigidblocks_empty_slave.py"]
    subprocess.run(command, cwd=folder, check=True)
    paths = {"empty pythonfmu": folder / "Empty.fmu"}
    for target in ("python", "native"):
        paths[f"robot, {target}"] = export_fmu(
            ROOT / "fmus/planar2_robot_fmu.py", folder / f"{target}.fmu", target
        )
    slaves = {name: started(path, folder / f"{path.stem}_unpacked") for name, path in paths.items()}
    times = {name: [] for name in slaves}
    done = dict.fromkeys(slaves, 0)
    for _ in range(15):  # in turns, so that the load of the machine is the same for all
        for name, slave in slaves.items():
            begin = timeit.default_timer()
            for k in range(done[name], done[name] + 5000):
                slave.doStep(k * 1e-3, 1e-3)
            times[name].append((timeit.default_timer() - begin) / 5000 * 1e6)
            done[name] += 5000
    references = range(Memory(RobotPlant(planar2())).size)
    ours = [slaves[f"robot, {target}"].getReal(references) for target in ("python", "native")]
    check_equal("planar2 robot", *ours, 1e-9)
    return {name: min(measured) for name, measured in times.items()}


def started(path: Path, folder: Path) -> FMU2Slave:
    """Return an FMU that is ready to step."""
    description = fmpy.read_model_description(str(path), validate=False)
    slave = FMU2Slave(
        guid=description.guid,
        unzipDirectory=fmpy.extract(str(path), str(folder)),
        modelIdentifier=description.coSimulation.modelIdentifier,
        instanceName=path.stem,
    )
    slave.instantiate()
    slave.setupExperiment()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    return slave


def main() -> None:
    """Print the times."""
    print(f"planar2 aba in a C loop          {bare_aba() / 1e3:8.3f} us")
    print(f"planar2ctrl, fused loop          {fused_rate():8,.0f} steps/s (RK4, one inner step)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"planar2 robot, native, C host    {native_step(folder) / 1e3:8.3f} us a doStep")
        times = python_steps(folder)
        for kind, time in times.items():
            print(
                f"{kind + ', FMPy':32} {time:8.3f} us a doStep, "
                f"{time / times['empty pythonfmu']:.2f} x empty"
            )


if __name__ == "__main__":
    main()
