"""FMUs with binary variables, strings, output derivatives and clocks in other tools."""

import importlib
from pathlib import Path
from shutil import copy

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3ScheduledExecution, FMU3Slave
from numpy.testing import assert_allclose

from any_models import FEEDTHROUGH, any_fmu
from fmu_blocks import SampledMean
from hosts import references
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import System, export_fmu, prepare, simulate

pytestmark = pytest.mark.interop
DT, STEPS = 0.01, 5
TEXT = "link 1: grün"


def loaded(host: str):
    """Return the module of a host, or skip the test."""
    try:
        return importlib.import_module(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")


@pytest.fixture(scope="module")
def feedthrough(tmp_path_factory):
    """Return FMI 2.0 and 3.0 FMUs that copy each input to an output of the same type."""
    folder = tmp_path_factory.mktemp("feedthrough")
    return {fmi: any_fmu(folder, FEEDTHROUGH, fmi) for fmi in (2, 3)}


def connected_strings(path: Path) -> str:
    """Return the string that passes through two connected FMUs in `simulate`."""
    system = System()
    for name in ("a", "b"):
        start = {"String_input": TEXT} if name == "a" else {}
        system.add(name, path, start=start)
    system.connect("a.String_output", "b.String_input")
    return simulate(system, STEPS * DT, DT, order="jacobi")["b.String_output"][-1]


def string_in_ecos(path: Path) -> str:
    ecospy = loaded("ecospy")
    with ecospy.EcosSimulationStructure() as structure:
        for name in ("a", "b"):
            structure.add_model(name, str(path))
        structure.make_string_connection("a::String_output", "b::String_input")
        with ecospy.EcosSimulation(structure=structure, step_size=DT) as run:
            run.init()
            run.set_string("a::String_input", TEXT)
            for _ in range(STEPS):
                run.step()
            return run.get_string("b::String_output")


def string_in_libcosim(path: Path) -> str:
    loaded("libcosimpy")
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimObserver import CosimObserver
    from libcosimpy.CosimSlave import CosimLocalSlave

    run = CosimExecution.from_step_size(round(DT * 1e9))
    a, b = (run.add_local_slave(CosimLocalSlave(str(path), name)) for name in ("a", "b"))
    vr = references(path)
    run.string_initial_value(a, vr["String_input"], TEXT)
    run.connect_string_variables(a, vr["String_output"], b, vr["String_input"])
    observer = CosimObserver.create_last_value()
    run.add_observer(observer)
    for _ in range(STEPS):
        assert run.step()
    (found,) = observer.last_string_values(b, [vr["String_output"]])
    return found.decode() if isinstance(found, bytes) else found


def string_in_container(path: Path, folder: Path, fmi: int) -> str:
    """Return the string that passes through a container of fmu-manipulation-toolbox in FMPy."""
    made = loaded("fmu_manipulation_toolbox.container").FMUContainer
    made = made("both", folder, fmi_version=fmi)
    for name in ("a", "b"):
        copy(path, folder / f"{name}.fmu")
        made.get_fmu(f"{name}.fmu")
    made.add_link("a.fmu", "String_output", "b.fmu", "String_input")
    made.add_input("text", "a.fmu", "String_input")
    made.add_output("b.fmu", "String_output", "copy")
    made.make_fmu(folder / "both.fmu", step_size=DT, sequential=False)
    described = fmpy.read_model_description(str(folder / "both.fmu"), validate=False)
    vr = {v.name: v.valueReference for v in described.modelVariables}
    fmu = {2: FMU2Slave, 3: FMU3Slave}[fmi](
        guid=described.guid,
        modelIdentifier=described.coSimulation.modelIdentifier,
        unzipDirectory=fmpy.extract(str(folder / "both.fmu"), str(folder / "unpacked")),
        instanceName="both",
    )
    fmu.instantiate()
    if fmi == 2:
        fmu.setupExperiment(startTime=0.0)
    fmu.enterInitializationMode()
    fmu.setString([vr["text"]], [TEXT])
    fmu.exitInitializationMode()
    for k in range(STEPS):
        fmu.doStep(k * DT, DT)
    found = fmu.getString([vr["copy"]])[0]
    fmu.terminate()
    fmu.freeInstance()
    return found.decode() if isinstance(found, bytes) else found


@pytest.mark.parametrize(("host", "fmi"), [("ecos", 2), ("libcosim", 2), ("box", 2), ("box", 3)])
def test_string_passes_through_connected_fmus_of_another_tool(host, fmi, feedthrough, tmp_path):
    """Ecos returns an empty string for FMI 3.0, and libcosim does not support FMI 3.0."""
    path = feedthrough[fmi]
    found = {
        "ecos": lambda: string_in_ecos(path),
        "libcosim": lambda: string_in_libcosim(path),
        "box": lambda: string_in_container(path, tmp_path, fmi),
    }[host]()
    assert found == connected_strings(path) == TEXT


def test_binary_input_of_an_fmu_has_the_same_effect_in_ecos_and_in_its_block(tmp_path):
    ecospy = loaded("ecospy")
    path = export_fmu(SampledMean(), tmp_path / "mean.fmu", fmi=3, binary="u")
    inputs = np.random.default_rng(3).normal(size=(STEPS, 3))
    system = System()
    system.add("mean", SampledMean())
    found, expected = [], []
    with prepare(system, DT) as run:
        for u in inputs:
            run["mean.u"] = u
            run.step()
            expected.append(float(run["mean.s"]))
    with ecospy.EcosSimulationStructure() as structure:
        structure.add_model("mean", str(path))
        with ecospy.EcosSimulation(structure=structure, step_size=DT) as run:
            run.init()
            for u in inputs:
                run.set_binary("mean::u", u.astype("<f8").tobytes())
                run.step()
                found.append(run.get_real("mean::s"))
    assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("fmi", [2, 3])
def test_fmus_of_the_host_tests_provide_output_derivatives(fmi, tmp_path):
    """Ecos, libcosim, PathSim and containers run these FMUs; see test_hosts.py."""
    for name, block in parts().items():
        path = export_fmu(block, tmp_path / f"{name}.fmu", fmi=fmi)
        interface = fmpy.read_model_description(str(path)).coSimulation
        assert (interface.maxOutputDerivativeOrder > 0) == (name != "pd" or fmi == 2)


class Partition:
    """FMU for scheduled execution in FMPy, with one partition and scalar or array variables."""

    def __init__(self, path: Path, folder: Path):
        description = fmpy.read_model_description(str(path))
        self.vr = {v.name: v.valueReference for v in description.modelVariables}
        self.size = {v.name: v.shape or (1,) for v in description.modelVariables}
        (clock,) = [v for v in description.modelVariables if v.type == "Clock"]
        self.clock = clock.valueReference
        self.fmu = FMU3ScheduledExecution(
            guid=description.instantiationToken,
            unzipDirectory=fmpy.extract(str(path), str(folder)),
            modelIdentifier=description.scheduledExecution.modelIdentifier,
            instanceName=path.stem,
        )
        self.fmu.instantiate()
        self.fmu.enterInitializationMode(startTime=0.0)

    def get(self, name: str) -> list[float]:
        return self.fmu.getFloat64([self.vr[name]], int(np.prod(self.size[name])))

    def set(self, name: str, values: list[float]) -> None:
        self.fmu.setFloat64([self.vr[name]], values)


PERIODS = {"robot": 1e-3, "pd": 2e-3, "command": 2e-3}  # intervals of the clocks [s]


def scheduled_in_fmpy(paths, folder, dt: float, n: int):
    """Run the partitions of connected FMUs in FMPy and return the positions after each step.

    In each step, all FMUs run their partitions up to the end of the step with the inputs from its
    beginning, as in Jacobi order.
    """
    parts = {name: Partition(path, folder / name) for name, path in paths.items()}

    def transfer():
        values = [
            (target, parts[(one := source.split("."))[0]].get(one[1]))
            for target, source in CONNECTIONS.items()
        ]
        for target, value in values:
            name, port = target.split(".")
            parts[name].set(port, value)

    for _ in parts:
        transfer()
    for one in parts.values():
        one.fmu.exitInitializationMode()
        one.fmu.activateModelPartition(one.clock, 0.0)
    ticks, rows = dict.fromkeys(parts, 1), [parts["robot"].get("q")]
    for k in range(1, n + 1):
        transfer()
        for name, one in parts.items():
            while ticks[name] * PERIODS[name] <= k * dt * (1 + 1e-12):
                one.fmu.activateModelPartition(one.clock, ticks[name] * PERIODS[name])
                ticks[name] += 1
        rows.append(parts["robot"].get("q"))
    for one in parts.values():
        one.fmu.terminate()
        one.fmu.freeInstance()
    return np.array(rows)


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory):
    """Return FMUs for scheduled execution by name."""
    folder = tmp_path_factory.mktemp("scheduled")
    return {
        name: export_fmu(block, folder / f"{name}.fmu", fmi=3, interval=PERIODS[name])
        for name, block in parts().items()
    }


@pytest.mark.parametrize("dt", [4e-3, 2e-3, 1e-3])
def test_results_of_connected_model_partitions_match_a_scheduler_in_fmpy(dt, scheduled, tmp_path):
    """The clocks of the FMUs have different intervals."""
    system = System()
    for name, path in scheduled.items():
        system.add(name, path)
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    n = round(0.5 / dt)
    ours = simulate(system, n * dt, dt, order="jacobi")["robot.q"]
    assert_allclose(ours, scheduled_in_fmpy(scheduled, tmp_path, dt, n), rtol=1e-11, atol=1e-12)
    assert np.ptp(ours, axis=0).min() > 0.1  # the robot moves
