"""Time per FMU and step of co-simulation masters, for pairs of native robot and controller FMUs.

The communication step is 1 ms. All masters use the same FMU files, so all results include the same
step time of the FMUs. The bare loop is `bare.c`. The bare loop and `simulate` record all outputs of
all steps; ecospy and libcosimpy do not record outputs.

Each time is the minimum CPU time over several rounds, in which all masters take turns.
"""

import contextlib
import ctypes
import tempfile
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_double, c_size_t, c_void_p
from pathlib import Path
from time import process_time
from typing import Any
from unittest import mock

import numpy as np

from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, prepare
from rigidblocks.common.compiler import shared_library
from rigidblocks.cosim.masters.c_loop_tables import Entry, Loop, Wire
from rigidblocks.cosim.masters.masters import CoSimulation, master_of
from rigidblocks.cosim.masters.network import Instances
from rigidblocks.cosim.prepare import Run
from rigidblocks.cosim.results.recording import Recording, RecordOptions
from rigidblocks.cosim.run_options import Grid

HERE = Path(__file__).parent
DT = 1e-3
START = [0.3, -0.2]
WIRES = (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau"))
Walk = Callable[[int], None]  # advances a master by the given number of steps


class _Fmu(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("fmu", "set", "step", "get", "inputs", "outputs")),
        *((name, c_size_t) for name in ("nu", "ny")),
        *((name, c_void_p) for name in ("u", "y")),
        ("sources", POINTER(c_void_p)),
    )


def files(folder: Path) -> dict[str, Path]:
    """Build the FMU of each kind of part."""
    blocks = {"robot": RobotPlant(planar2()), "pd": PDController((60.0, 30.0), (8.0, 4.0))}
    return {name: export_fmu(block, folder / f"{name}.fmu") for name, block in blocks.items()}


def system_of(fmus: dict[str, Path], pairs: int) -> System:
    """Return a system of robot-controller pairs."""
    system = System()
    for k in range(pairs):
        system.add(f"robot{k}", fmus["robot"])
        system.add(f"pd{k}", fmus["pd"], start={"q_ref": START})
        for source, target in WIRES:
            system.connect(source.replace(".", f"{k}."), target.replace(".", f"{k}."))
    return system


def bare(system: System, found: list[np.ndarray]) -> tuple[Walk, Callable[[], None]]:
    """Return the bare loop over the parts of a system, and a function that closes it.

    The loop writes its last sample to `found`.
    """
    network = Instances(prepare(system, DT)._plan)
    network.start(0.0)
    entries = network.table()
    rows = [_bare_row(entry, wires) for entry, wires, _ in entries]
    table = (_Fmu * len(rows))(*rows)
    text = {"bare.c": (HERE / "bare.c").read_text()}
    loop = ctypes.CDLL(str(shared_library(text, "bare.c"))).bare
    width, at = sum(row.ny for row in rows), [0]

    def walk(steps: int) -> None:
        record = np.empty((steps, width))
        t = c_double(at[0] * DT)
        where = c_void_p(record.ctypes.data)
        if loop(table, len(rows), t, c_double(DT), steps, where):
            raise RuntimeError("an FMU failed in the bare loop")
        at[0] += steps
        found[:] = [network.outputs["robot0.q"].copy(), entries, rows]

    return walk, network.close


def _bare_row(entry: Entry, wires: Sequence[Wire]) -> _Fmu:
    """Return an FMU's entry in the table of the bare loop, with the addresses of its sources."""
    sources = (c_void_p * len(entry.set.values))()
    for source, target in wires:
        first = (target.ctypes.data - entry.set.values.ctypes.data) // 8
        for k in range(len(source)):
            sources[first + k] = source.ctypes.data + 8 * k
    u, y = entry.set, entry.get
    addresses = (entry.instance, u.function, entry.step, y.function)
    references = (u.references.ctypes.data, y.references.ctypes.data)
    sizes = (len(u.references), len(y.references))
    values = (u.values.ctypes.data, y.values.ctypes.data)
    return _Fmu(*addresses, *references, *sizes, *values, sources)


def ours(system: System, found: list[np.ndarray], in_c: bool) -> tuple[Walk, Callable[[], None]]:
    """Return the loop of `simulate` with all outputs recorded, and a function that closes it."""
    run = prepare(system, DT)
    plan = run._plan
    master = master_of(plan) if in_c else CoSimulation(plan, Instances(plan))
    master.network.start(0.0)
    at = [0]

    def walk(steps: int) -> None:
        grid = Grid(0.0, DT, at[0] + steps)
        record = Recording(plan.wiring, grid, {}, RecordOptions(every=1))
        record.k = at[0]
        for _ in master.go(record, contextlib.nullcontext, None):
            pass
        result, _ = record.finish()
        assert result.values.shape[0] == steps
        at[0] += steps
        found[:] = [result["robot0.q"][-1]]

    return walk, master.network.close


def by_ecos(fmus: dict[str, Path], pairs: int, found: list[np.ndarray]) -> Walk:
    """Return the loop of ecospy, which records nothing."""
    from ecospy import EcosSimulation, EcosSimulationStructure

    structure = EcosSimulationStructure()
    for k in range(pairs):
        for name in fmus:
            structure.add_model(f"{name}{k}", str(fmus[name]))
        for source, target in WIRES:
            for i in (1, 2):
                a, b = (f"{end.replace('.', f'{k}::')}[{i}]" for end in (source, target))
                structure.make_real_connection(a, b)
    starts = {f"pd{k}::q_ref[{i}]": START[i - 1] for k in range(pairs) for i in (1, 2)}
    structure.add_parameter_set("start", starts)
    simulation = EcosSimulation(structure=structure, step_size=DT)
    simulation.init(parameter_set="start")

    def walk(steps: int) -> None:
        simulation.step(steps)
        found[:] = [np.array([simulation.get_real(f"robot0::q[{i}]") for i in (1, 2)]), structure]

    return walk


def add_pair(
    execution: Any, fmus: dict[str, Path], k: int, references: dict[str, int]
) -> dict[str, int]:
    """Add pair k to the execution, connected and with start values.

    Returns the indices of the two instances by the names of their files. `references` contains the
    value references.
    """
    from libcosimpy.CosimSlave import CosimLocalSlave

    index = {
        name: execution.add_local_slave(CosimLocalSlave(str(path), f"{name}{k}"))
        for name, path in fmus.items()
    }
    for source, target in WIRES:
        (a, _), (b, _) = source.split("."), target.split(".")
        for i in (1, 2):
            reads, writes = references[f"{source}[{i}]"], references[f"{target}[{i}]"]
            execution.connect_real_variables(index[a], reads, index[b], writes)
    for i in (1, 2):
        execution.real_initial_value(index["pd"], references[f"pd.q_ref[{i}]"], START[i - 1])
    return index


def by_libcosim(fmus: dict[str, Path], pairs: int, found: list[np.ndarray]) -> Walk:
    """Return the loop of libcosimpy, which records nothing."""
    import fmpy
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimLogging import CosimLogLevel, log_output_level
    from libcosimpy.CosimManipulator import CosimManipulator
    from libcosimpy.CosimObserver import CosimObserver

    log_output_level(CosimLogLevel.FATAL)
    execution = CosimExecution.from_step_size(round(DT * 1e9))
    vr = {
        f"{name}.{v.name}": v.valueReference
        for name, path in fmus.items()
        for v in fmpy.read_model_description(str(path)).modelVariables
    }
    manipulator, observer = CosimManipulator.create_override(), CosimObserver.create_last_value()
    execution.add_manipulator(manipulator=manipulator)
    execution.add_observer(observer)
    first, *_ = [add_pair(execution, fmus, k, vr)["robot"] for k in range(pairs)]

    def walk(steps: int) -> None:
        execution.step(steps)
        references = [vr[f"robot.q[{i}]"] for i in (1, 2)]
        found[:] = [np.array(observer.last_real_values(first, references)), manipulator]

    return walk


def table(fmus: dict[str, Path], instances: int, steps: int, rounds: int) -> dict[str, float]:
    """Return the time per FMU and step [us] of each master."""
    pairs = instances // 2
    system = system_of(fmus, pairs)
    found: dict[str, list[np.ndarray]] = {}
    walks: dict[str, Walk] = {}
    closes = []
    for name, made in (
        ("bare loop in C", lambda own: bare(system, own)),
        ("simulate", lambda own: ours(system, own, True)),
        ("simulate, loop in Python", lambda own: ours(system, own, False)),
    ):
        walks[name], close = made(found.setdefault(name, []))
        closes.append(close)
    for name, by in (("ecospy", by_ecos), ("libcosimpy", by_libcosim)):
        with contextlib.suppress(ImportError):
            walks[name] = by(fmus, pairs, found.setdefault(name, []))
    check(walks, found)
    times: dict[str, list[float]] = {name: [] for name in walks}
    for _ in range(rounds):
        for name, walk in walks.items():
            n = max(1, steps // 20) if name == "simulate, loop in Python" else steps
            begin = process_time()
            walk(n)
            times[name].append((process_time() - begin) / n / instances * 1e6)
    for close in closes:
        close()
    return {name: min(measured) for name, measured in times.items()}


def check(walks: dict[str, Walk], found: dict[str, list[np.ndarray]]) -> None:
    """Compare the positions of all masters after one second of simulated time.

    The results of the sequential masters must be bit-identical. The other masters exchange the
    values of the previous step, so their results may differ.

    Raises:
        RuntimeError: If the positions of a master differ.
    """
    for walk in walks.values():
        walk(1000)
    expected = found["bare loop in C"][0]
    for name, (q, *_) in found.items():
        exact = name in ("simulate", "simulate, loop in Python")
        if not np.allclose(q, expected, rtol=0, atol=0.0 if exact else 5e-3):
            raise RuntimeError(f"{name} comes to {q}, not to {expected}")


def closed_loop() -> System:
    """Return a robot and its controller as blocks."""
    system = System()
    system.add("robot", RobotPlant(planar2()))
    system.add("pd", PDController((60.0, 30.0), (8.0, 4.0)), start={"q_ref": START})
    for source, target in WIRES:
        system.connect(source, target)
    return system


def kernel_time(run: Run, steps: int) -> float:
    """Return the CPU time [s] of `steps` steps of the kernel of a fused run, without other code."""
    stepper = run._plan.fused
    m = stepper.memory.start()
    stepper.initialize(m, 0.0)
    rows = np.empty((1000, len(m)))
    begin = process_time()
    for k in range(0, steps, len(rows)):
        stepper.run(m, 0.0, DT, rows, k)
    return process_time() - begin


def whole_run(run: Run, steps: int) -> float:
    """Return the CPU time [s] of a whole run."""
    begin = process_time()
    run.simulate(steps * DT, progress=False)
    return process_time() - begin


def loop_share(run: Run, steps: int) -> float:
    """Return the ratio of the CPU time of a whole run to the time of its loop."""
    spent, walk = [], Loop.run

    def timed(*arguments: Any) -> Any:
        begin = process_time()
        done = walk(*arguments)
        spent.append(process_time() - begin)
        return done

    with mock.patch.object(Loop, "run", timed):
        whole = whole_run(run, steps)
    return whole / sum(spent)


def stepped(run: Run, steps: int) -> float:
    """Return the CPU time [s] of `steps` single steps."""
    run.reset()
    begin = process_time()
    for _ in range(steps):
        run.step()
    return process_time() - begin


def commanded(run: Run, steps: int) -> float:
    """Return the CPU time [s] of `steps` steps that each read one output and set one input."""
    run.reset()
    begin = process_time()
    for _ in range(steps):
        run["pd.q_ref"] = run["robot.q"]
        run.step()
    return process_time() - begin


def prepared_runs() -> None:
    """Print the overhead of prepared runs relative to their kernel."""
    run = prepare(closed_loop(), DT, form="fused")
    whole_run(run, 1000)
    pairs = [(whole_run(run, 10**6), kernel_time(run, 10**6)) for _ in range(5)]
    whole, separate = (min(times) for times in zip(*pairs, strict=True))
    print(
        f"1,000,000 fused steps: {whole:.3f} s, the kernel separate {separate:.3f} s: "
        f"{whole / separate:.2f} x"
    )
    shares = sorted(loop_share(run, 10**4) for _ in range(25))
    print(f"another run of 10,000 steps: {shares[len(shares) // 2]:.2f} x its loop")
    for name, walk in (("a step", stepped), ("a step, a read and a set", commanded)):
        time = min(walk(run, 10**5) for _ in range(3)) - separate / 10
        print(f"{name} from Python: {time / 10**5 * 1e6:.2f} us above the kernel")


def main() -> None:
    """Print a table with a row for each number of instances, and the cost of prepared runs."""
    prepared_runs()
    with tempfile.TemporaryDirectory() as folder:
        fmus = files(Path(folder))
        for instances, steps in ((2, 50_000), (20, 5_000), (200, 500)):
            times = table(fmus, instances, steps, 9)
            bare_time = times["bare loop in C"]
            print(f"{instances} instances, us for an FMU and a step:")
            for name, time in times.items():
                print(f"    {name:26} {time:8.3f}  {time / bare_time:6.2f} x", flush=True)


if __name__ == "__main__":
    main()
