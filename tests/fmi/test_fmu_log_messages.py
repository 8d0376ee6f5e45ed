"""Log messages of FMUs about singular configurations and about too many inner steps in a run.

The expected condition number and step count come from the run of the block without an FMU.
"""

import logging

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave

from fmu_instance import Instance
from rigidblocks import ContinuousSystem, FusedSystem, System, export_fmu, simulate
from rigidblocks.block.adaptive_methods import memory_for, method_of
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.run_diagnostics import CLOSE, Diagnostics
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.model_header import memory_names
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar

WARNING = 1
DT = 1e-3
STEPS = 2000  # near singular configurations at 0.65 s and 1.85 s, where three inner steps fail
SETTINGS = {"method": "adaptive", "rtol": 1e-7, "max_inner_steps": 3}
USED_UP = "max_inner_steps is reached at t = "

MECHANISM = five_bar()
PLANT = ClosedLoopPlant(MECHANISM.model, MECHANISM.q0)
LAYOUT = memory_for(PLANT, method_of(**SETTINGS))


@pytest.fixture(scope="module")
def rows():
    """Return the memories (n, size) of the run."""
    method = method_of(**SETTINGS)
    m, stepper = LAYOUT.start(), compiled_stepper(LAYOUT, method)
    stepper.initialize(m, 0.0)
    rows = np.zeros((STEPS, LAYOUT.size))
    assert stepper.run(m, 0.0, DT, rows) == STEPS
    return rows


@pytest.fixture(scope="module")
def expected(rows):
    """Return step and message of the largest condition, and first and number of cut steps."""
    condition, counts = (rows[:, LAYOUT.where[n]][:, 0] for n in ("condition", "steps.cut_short"))
    k, cut = int(np.argmax(condition)), int(np.argmax(counts > 0))
    text = f"condition was {condition[k]:.3g} at t = {(k + 1) * DT:g} s: near a singular"
    return k, f"{text} configuration", cut, counts[-1]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Return the unpacked FMU of an FMI version."""
    folder = tmp_path_factory.mktemp("logs")

    def made(name, fmi):
        path = folder / f"{name} {fmi}.fmu"
        if not path.exists():
            export_fmu(PLANT, path, fmi=fmi, name="five_bar", **SETTINGS)
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")

    return made


def warnings_of(fmu, first, last):
    """Return the warnings of the steps `first` to `last`."""
    before = len(fmu.messages)
    for k in range(first, last):
        fmu.advance(k * DT, DT)
    return [one[-1] for one in fmu.messages[before:] if one[0] == WARNING]


@pytest.mark.slow
def test_fmu_log_reports_the_largest_condition_number_and_the_first_step_at_max_inner_steps(
    rows, expected
):
    k, text, cut, count = expected
    watch, reported = Diagnostics(LAYOUT, memory_names(LAYOUT)), {}
    assert rows[k, LAYOUT.where["condition"]] > CLOSE
    for i, m in enumerate(rows):
        reported |= {i: said} if (said := [*watch.step_messages(m)]) else {}
    assert [said for said in reported.values() if text in said] == [[text]]
    assert [i for i, said in reported.items() if said[0].startswith(USED_UP)] == [cut]
    assert len(reported) == 2
    assert [one.partition(":")[0] for one in watch.summary(rows[-1])] == [
        f"steps.cut_short is {count:g}"
    ]


def test_fmu_log_reports_a_constraint_rank_drop_once_at_the_end_of_the_run(rows):
    watch, m = Diagnostics(LAYOUT, memory_names(LAYOUT)), rows[0].copy()
    assert not [*watch.step_messages(m)]
    m[LAYOUT.where["rank"]] -= 1.0
    assert not [*watch.step_messages(m)]
    (said,) = watch.summary(m)
    assert said == f"rank decreased at t = {m[0]:g} s: a singular configuration"
    assert not [*watch.summary(m)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FMU2Slave, FMU3Slave])
def test_native_fmu_logs_each_diagnostic_message_once(archive, expected, kind):
    k, text, cut, count = expected
    fmu = Instance(archive, "five_bar", kind)
    fmu.initialize()
    assert text not in warnings_of(fmu, 0, k + 1)  # still near the singular configuration
    content = fmu.saved()
    assert warnings_of(fmu, k + 1, k + 100) == [text]
    fmu.restore(content)
    assert warnings_of(fmu, k + 1, cut) == [text]  # repeated after a rollback
    (reported,) = warnings_of(fmu, cut, STEPS)
    assert reported.startswith(f"{USED_UP}{(cut + 1) * DT:g} s: ")
    before = len(fmu.messages)
    fmu.fmu.terminate()
    assert [one[-1] for one in fmu.messages[before:]] == [
        f"steps.cut_short is {count:g}: communication steps that reached the limit of inner "
        "steps; raise "
        "max_inner_steps"
    ]
    fmu.restore(content)
    fmu.fmu.terminate()
    assert fmu.messages[-1][-1] == text  # at the end of the run
    fmu.fmu.reset()
    fmu.initialize()
    assert not warnings_of(fmu, 0, 100)
    fmu.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["native", "python"])
def test_simulate_logs_the_warnings_of_an_fmu(tmp_path, expected, caplog, form):
    path = export_fmu(PLANT, tmp_path / "five_bar.fmu", form, name="five_bar", **SETTINGS)
    system = System()
    system.add("bars", path)
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        simulate(system, STEPS * DT, DT)
    said = [record.getMessage() for record in caplog.records]
    assert sum(expected[1] in one for one in said) == 1
    assert sum(USED_UP in one for one in said) == 1
    assert f"steps.cut_short is {expected[3]:g}: " in said[-1]


@pytest.mark.parametrize("form", [lambda system: FusedSystem(system, DT), ContinuousSystem])
def test_log_messages_of_a_system_fmu_contain_the_part_names(form):
    system = System()
    system.add("bars", PLANT, **SETTINGS)
    memory = Memory(form(system))
    watch, m = Diagnostics(memory, memory_names(memory)), memory.start()
    m[memory.where["bars.rank"]], m[memory.where["bars.condition"]] = 2.0, 1.0
    assert not [*watch.step_messages(m)]
    m[memory.where["bars.condition"]] = 1e4
    assert not [*watch.step_messages(m)]
    m[memory.where["bars.condition"]] = 1.0
    assert [*watch.step_messages(m)] == [
        "bars.condition was 1e+04 at t = 0 s: near a singular configuration"
    ]
    if "bars.steps.cut_short" in memory.where:
        m[memory.where["bars.steps.cut_short"]] = 1.0
        (said,) = watch.step_messages(m)
        assert said.endswith("here and whenever bars.steps.cut_short grows")
    assert bool(watch.steps) == isinstance(memory.block, FusedSystem)
