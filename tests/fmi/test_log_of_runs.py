"""What FMUs tell the log of a run that goes on: near what singular configurations loops came, and
inner steps that were used up.

The oracle is the run in memory: the recorded condition, and the count.
"""

import logging

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from fmpy.fmi3 import FMU3Slave

from fmu_instance import Instance
from rigidblocks import ContinuousSystem, FusedSystem, System, export_fmu, simulate
from rigidblocks.block.adaptive import memory_for, method_of
from rigidblocks.block.memory import Memory
from rigidblocks.fmi.watch import CLOSE, Watch
from rigidblocks.kernels.kernel import memory_names
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.mechanisms import five_bar

WARNING = 1
DT = 1e-3
STEPS = 2000  # it passes near singular poses at 0.65 s and 1.85 s, where three steps are too few
SETTINGS = {"method": "adaptive", "rtol": 1e-7, "max_inner_steps": 3}
USED_UP = "the inner steps are used up at t = "

MECHANISM = five_bar()
PLANT = ClosedLoopPlant(MECHANISM.model, MECHANISM.q0)
LAYOUT = memory_for(PLANT, method_of(**SETTINGS))


@pytest.fixture(scope="module")
def rows():
    """The memories (n, size) of the run."""
    method = method_of(**SETTINGS)
    m, stepper = LAYOUT.start(), compiled_stepper(LAYOUT, method)
    stepper.initialize(m, 0.0)
    rows = np.zeros((STEPS, LAYOUT.size))
    assert stepper.run(m, 0.0, DT, rows) == STEPS
    return rows


@pytest.fixture(scope="module")
def expected(rows):
    """The step of the largest condition with what is told of it, of the first that was cut short,
    and how many there were.
    """
    condition, counts = (rows[:, LAYOUT.where[n]][:, 0] for n in ("condition", "steps.cut_short"))
    k, cut = int(np.argmax(condition)), int(np.argmax(counts > 0))
    text = f"condition was {condition[k]:.3g} at t = {(k + 1) * DT:g} s: near a singular"
    return k, f"{text} configuration", cut, counts[-1]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The FMU of an FMI version, unpacked."""
    folder = tmp_path_factory.mktemp("logs")

    def made(name, fmi):
        path = folder / f"{name} {fmi}.fmu"
        if not path.exists():
            export_fmu(PLANT, path, fmi=fmi, name="five_bar", **SETTINGS)
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")

    return made


def warnings_of(fmu, first, last):
    """What is told at WARNING in these steps."""
    before = len(fmu.messages)
    for k in range(first, last):
        fmu.advance(k * DT, DT)
    return [one[-1] for one in fmu.messages[before:] if one[0] == WARNING]


def test_watch_tells_of_the_largest_condition_and_of_steps_that_were_used_up(rows, expected):
    k, text, cut, count = expected
    watch, told = Watch(LAYOUT, memory_names(LAYOUT)), {}
    assert rows[k, LAYOUT.where["condition"]] > CLOSE
    for i, m in enumerate(rows):
        told |= {i: said} if (said := [*watch.after_step(m)]) else {}
    assert [said for said in told.values() if text in said] == [[text]]
    assert [i for i, said in told.items() if said[0].startswith(USED_UP)] == [cut]
    assert len(told) == 2
    assert [one.partition(":")[0] for one in watch.at_end(rows[-1])] == [
        f"steps.cut_short is {count:g}"
    ]


def test_watch_tells_of_dependent_constraints_once_and_of_a_run_that_ends_there(rows):
    watch, m = Watch(LAYOUT, memory_names(LAYOUT)), rows[0].copy()
    assert not [*watch.after_step(m)]
    m[LAYOUT.where["rank"]] -= 1.0
    assert not [*watch.after_step(m)]
    (said,) = watch.at_end(m)
    assert said == f"rank fell at t = {m[0]:g} s: a singular configuration"
    assert not [*watch.at_end(m)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FMU2Slave, FMU3Slave])
def test_native_fmu_says_what_there_is_to_say(archive, expected, kind):
    k, text, cut, count = expected
    fmu = Instance(archive, "five_bar", kind)
    fmu.initialize()
    assert text not in warnings_of(fmu, 0, k + 1)  # in the middle of the passage
    content = fmu.saved()
    assert warnings_of(fmu, k + 1, k + 100) == [text]
    fmu.restore(content)
    assert warnings_of(fmu, k + 1, cut) == [text]  # what was taken back is told again
    (told,) = warnings_of(fmu, cut, STEPS)
    assert told.startswith(f"{USED_UP}{(cut + 1) * DT:g} s: ")
    before = len(fmu.messages)
    fmu.fmu.terminate()
    assert [one[-1] for one in fmu.messages[before:]] == [
        f"steps.cut_short is {count:g}: communication steps whose inner steps were used up; raise "
        "max_inner_steps"
    ]
    fmu.restore(content)
    fmu.fmu.terminate()
    assert fmu.messages[-1][-1] == text  # a run that ends there
    fmu.fmu.reset()
    fmu.initialize()
    assert not warnings_of(fmu, 0, 100)
    fmu.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["native", "python"])
def test_run_of_an_fmu_passes_its_warnings_on(tmp_path, expected, caplog, form):
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
def test_parts_of_a_block_made_of_a_system_are_told_of_by_their_names(form):
    system = System()
    system.add("bars", PLANT, **SETTINGS)
    memory = Memory(form(system))
    watch, m = Watch(memory, memory_names(memory)), memory.start()
    m[memory.where["bars.rank"]], m[memory.where["bars.condition"]] = 2.0, 1.0
    assert not [*watch.after_step(m)]
    m[memory.where["bars.condition"]] = 1e4
    assert not [*watch.after_step(m)]
    m[memory.where["bars.condition"]] = 1.0
    assert [*watch.after_step(m)] == [
        "bars.condition was 1e+04 at t = 0 s: near a singular configuration"
    ]
    if "bars.steps.cut_short" in memory.where:
        m[memory.where["bars.steps.cut_short"]] = 1.0
        (said,) = watch.after_step(m)
        assert said.endswith("here and where bars.steps.cut_short grows")
    assert bool(watch.steps) == isinstance(memory.block, FusedSystem)
