"""Hosts of FMUs for the tests. Each host runs connected FMUs with a fixed step.

All hosts take the same step: each FMU steps from t_k with the inputs of t_k (Jacobi). Then the
outputs are copied to the inputs. In initialization mode the outputs are copied to the inputs once
for each FMU, so that a chain of dependencies settles.

    fmus         path by instance name
    connections  (output, input), each as "instance.variable"
    observed     the variables "instance.variable" to return
    returns      (steps, len(observed)), a row after each step
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from fmpy import calloc, extract, free, read_model_description
from fmpy.fmi2 import (
    FMU2Slave,
    fmi2CallbackAllocateMemoryTYPE,
    fmi2CallbackFreeMemoryTYPE,
    fmi2CallbackFunctions,
    fmi2CallbackLoggerTYPE,
)

Fmus = Mapping[str, Path]
Connections = Sequence[tuple[str, str]]


def split(variable: str) -> tuple[str, str]:
    """Return the instance name and the variable name of "instance.variable"."""
    instance, name = variable.split(".", 1)
    return instance, name


def references(fmu: Path) -> dict[str, int]:
    """Return the value reference of each variable by name."""
    return {v.name: v.valueReference for v in read_model_description(str(fmu)).modelVariables}


def instantiated(
    fmu: Path, folder: Path, name: str = "instance", log: list[tuple[int, str]] | None = None
) -> FMU2Slave:
    """Return an FMU2Slave of FMPy, unpacked into `folder` by the first of its instances.

    Its messages are appended to `log`.
    """
    if not folder.exists() or not any(folder.iterdir()):
        extract(str(fmu), str(folder))
    description = read_model_description(str(folder))
    slave = FMU2Slave(
        guid=description.guid,
        modelIdentifier=description.coSimulation.modelIdentifier,
        unzipDirectory=str(folder),
        instanceName=name,
    )
    messages = [] if log is None else log
    callbacks = fmi2CallbackFunctions()
    callbacks.logger = fmi2CallbackLoggerTYPE(
        lambda _environment, _instance, status, _category, text: messages.append(
            (status, text.decode())
        )
    )
    callbacks.allocateMemory = fmi2CallbackAllocateMemoryTYPE(calloc)
    callbacks.freeMemory = fmi2CallbackFreeMemoryTYPE(free)
    slave.instantiate(callbacks=callbacks, loggingOn=True)
    return slave


def start(slave: FMU2Slave, t: float = 0.0) -> FMU2Slave:
    """Initialize the slave with the values set so far, and return it."""
    slave.setupExperiment(startTime=t)
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    return slave


def run_in_fmpy(
    fmus: Fmus,
    connections: Connections,
    steps: int,
    dt: float,
    observed: Sequence[str],
    folder: Path,
):
    """Run an explicit Jacobi loop over FMPy's slaves."""
    slaves = {name: instantiated(fmu, folder / name, name) for name, fmu in fmus.items()}
    vr = {f"{name}.{v}": r for name, fmu in fmus.items() for v, r in references(fmu).items()}

    def read(variable: str) -> float:
        return slaves[split(variable)[0]].getReal([vr[variable]])[0]

    def transfer() -> None:
        for target, value in [(target, read(source)) for source, target in connections]:
            slaves[split(target)[0]].setReal([vr[target]], [value])

    for slave in slaves.values():
        slave.setupExperiment()
        slave.enterInitializationMode()
    for _ in slaves:
        transfer()
    for slave in slaves.values():
        slave.exitInitializationMode()
    rows = []
    for k in range(steps):
        for slave in slaves.values():
            slave.doStep(k * dt, dt)
        transfer()
        rows.append([read(v) for v in observed])
    for slave in slaves.values():
        slave.terminate()
        slave.freeInstance()
    return np.array(rows)


def _initialize(slave: FMU2Slave, stop: float) -> None:
    slave.setupExperiment(tolerance=1e-6, startTime=0.0, stopTime=stop)
    slave.enterInitializationMode()
    slave.exitInitializationMode()


def run_as_s_functions(
    fmus: Fmus,
    connections: Connections,
    steps: int,
    dt: float,
    observed: Sequence[str],
    folder: Path,
    start: Mapping[str, float],
):
    """Run each FMU like the S-function of FMIKit in Simulink, following its source.

    All blocks are enabled. They get their start values, which the dialog may change, before
    SetupExperiment, which sets a tolerance and a stop time. No inputs are set before initialization
    ends. At t_k all blocks compute their outputs, after a step from the time reached so far. Then
    all are updated: their inputs are set, one at a time. There is a row before the first step, too.
    """
    slaves = {name: instantiated(fmu, folder / name, name) for name, fmu in fmus.items()}
    variables = {
        name: [v for v in read_model_description(str(fmu)).modelVariables if v.type == "Real"]
        for name, fmu in fmus.items()
    }
    for name, slave in slaves.items():
        for v in variables[name]:
            value = start.get(f"{name}.{v.name}", v.start)
            if value is not None and v.initial != "calculated":
                slave.setReal([v.valueReference], [float(value)])
        _initialize(slave, steps * dt)
    rows, reached = list[list[float]](), dict.fromkeys(slaves, 0.0)
    for k in range(steps + 1):
        signals = {}
        for name, slave in slaves.items():
            if (h := k * dt - reached[name]) > 0:
                slave.doStep(reached[name], h, noSetFMUStatePriorToCurrentPoint=False)
                reached[name] += h
            for v in variables[name]:
                if v.causality == "output":
                    signals[f"{name}.{v.name}"] = slave.getReal([v.valueReference])[0]
        for source, target in connections:
            name, port = split(target)
            (vr,) = (v.valueReference for v in variables[name] if v.name == port)
            slaves[name].setReal([vr], [signals[source]])
        rows.append([signals[v] for v in observed])
    for slave in slaves.values():
        slave.terminate()
        slave.freeInstance()
    return np.array(rows)


def run_in_libcosim(
    fmus: Fmus, connections: Connections, steps: int, dt: float, observed: Sequence[str]
):
    """Run libcosim's fixed-step algorithm, whose time is in nanoseconds."""
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimLogging import CosimLogLevel, log_output_level
    from libcosimpy.CosimSlave import CosimLocalSlave

    log_output_level(CosimLogLevel.WARNING)
    execution = CosimExecution.from_step_size(round(dt * 1e9))
    index = {
        name: execution.add_local_slave(CosimLocalSlave(str(fmu), name))
        for name, fmu in fmus.items()
    }
    vr = {f"{name}.{v}": r for name, fmu in fmus.items() for v, r in references(fmu).items()}
    for source, target in connections:
        execution.connect_real_variables(
            index[split(source)[0]], vr[source], index[split(target)[0]], vr[target]
        )
    return _steps_of_libcosim(execution, index, vr, steps, observed)


def run_ssp_in_libcosim(folder: Path, steps: int, dt: float, observed: Sequence[str]):
    """Run libcosim with the system description of an SSP file that is unpacked into a folder."""
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimLogging import CosimLogLevel, log_output_level

    log_output_level(CosimLogLevel.ERROR)
    execution = CosimExecution.from_ssp_file(str(folder), round(dt * 1e9))
    names = {split(variable)[0] for variable in observed}
    index = {name: execution.slave_index_from_instance_name(name) for name in names}
    described = (folder / "SystemStructure.ssd").read_text()
    sources = dict(re.findall(r'<ssd:Component name="([^"]*)"[^>]* source="([^"]*)"', described))
    vr = {f"{n}.{v}": r for n in names for v, r in references(folder / sources[n]).items()}
    return _steps_of_libcosim(execution, index, vr, steps, observed)


def run_osp_in_libcosim(path: Path, steps: int, observed: Sequence[str]):
    """Run libcosim with an OSP system structure, which defines the step size."""
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimLogging import CosimLogLevel, log_output_level

    log_output_level(CosimLogLevel.ERROR)
    execution = CosimExecution.from_osp_config_file(str(path))
    names = {split(variable)[0] for variable in observed}
    index = {name: execution.slave_index_from_instance_name(name) for name in names}
    sources = dict(re.findall(r'<Simulator name="([^"]*)" source="([^"]*)"', path.read_text()))
    vr = {f"{n}.{v}": r for n in names for v, r in references(path.parent / sources[n]).items()}
    return _steps_of_libcosim(execution, index, vr, steps, observed)


def _steps_of_libcosim(execution, index, vr, steps, observed):
    from libcosimpy.CosimObserver import CosimObserver

    observer = CosimObserver.create_last_value()
    execution.add_observer(observer)
    rows = []
    for k in range(steps):
        if not execution.step():
            raise RuntimeError(f"libcosim stopped in step {k}: {execution.status()}")
        rows.append([observer.last_real_values(index[split(v)[0]], [vr[v]])[0] for v in observed])
    return np.array(rows)


def run_in_ecos(
    fmus: Fmus, connections: Connections, steps: int, dt: float, observed: Sequence[str]
):
    """Run ecos's fixed-step algorithm."""
    from ecospy import EcosSimulation, EcosSimulationStructure

    with EcosSimulationStructure() as structure:
        for name, fmu in fmus.items():
            structure.add_model(name, str(fmu))
        for source, target in connections:
            structure.make_real_connection(
                source.replace(".", "::", 1), target.replace(".", "::", 1)
            )
        with EcosSimulation(structure=structure, step_size=dt) as simulation:
            return _steps_of_ecos(simulation, steps, observed)


def run_ssp_in_ecos(
    path: Path, steps: int, dt: float, observed: Sequence[str], parameter_set: str | None = None
):
    """Run Ecos with an SSP file and the parameter sets of the name `parameter_set`."""
    from ecospy import EcosSimulation

    with EcosSimulation(ssp_path=str(path), step_size=dt) as simulation:
        return _steps_of_ecos(simulation, steps, observed, parameter_set)


def _steps_of_ecos(simulation, steps, observed, parameter_set=None):
    simulation.init(parameter_set=parameter_set)
    rows = []
    for _ in range(steps):
        simulation.step()
        rows.append([simulation.get_real(v.replace(".", "::", 1)) for v in observed])
    simulation.terminate()
    return np.array(rows)
