"""Library blocks give the same values in Python and as FMUs.

The FMUs are Python FMUs and native FMUs of both FMI versions, in co-simulation and in model
exchange.
"""

from pathlib import Path

import fmpy
import numpy as np
import pytest
from fmpy.fmi3 import FMU3Slave
from fmpy.validation import validate_fmu

from block_runs import DT, assert_same, random_inputs
from campaign import sized
from fmu_instance import Host, Instance
from held_laws import HeldLaws
from library_blocks import BLOCKS
from model_exchange_host import FixedStepHost
from rigidblocks import library
from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.export import export_fmu, python_fmu
from rigidblocks.fmi.script import slave_of
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from signal_blocks import SIGNALS

STEPS = 20
SCRIPTS = {path.stem: path for path in sorted(Path(__file__).parents[2].glob("fmus/*_fmu.py"))}
LONG = {"gripper_contact_fmu", "quadruped_fmu"}  # slow to compile
SCRIPT = """
from library_blocks import BLOCKS
from rigidblocks.fmi.slave import BlockSlave

class OfTheLibrary(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(BLOCKS[{name!r}][0], **kwargs)
"""
SIGNALS_SCRIPT = """
from rigidblocks.fmi.slave import BlockSlave
from signal_blocks import combine_blocks

class OfTheSignals(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(combine_blocks({kind!r}), **kwargs)
"""


class InMemory:
    """Block without an FMU with the interface of the FMU importers."""

    def __init__(self, stepper):
        self.stepper, self.m = stepper, stepper.memory.start()

    def set(self, where, values):
        self.m[where] = values

    def initialize(self):
        self.stepper.initialize(self.m, 0.0)

    def step(self, t, dt):
        self.stepper.step(self.m, t, dt)


class Archive:
    """FMUs of a script, built and unpacked on request: Python, and native for both FMI versions."""

    def __init__(self, script, folder):
        self.script, self.folder = script, folder

    def __call__(self, name, fmi):
        """Return the path of a native FMU and its unpacked folder."""
        path = self.folder / f"{name} {fmi}.fmu"
        if not path.exists():
            export_fmu(self.script, path, fmi=fmi)
            assert validate_fmu(str(path)) == []
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")

    def python(self):
        """Return the path of the Python FMU."""
        return python_fmu(self.script, self.folder / "python.fmu")


class ExactHost(FixedStepHost):
    """Importer with a tolerance so small that every step requests an event.

    The FMU then projects its states after every step, like the block without an FMU.
    """

    tolerance = 1e-20


def factors(flat):
    """Return a factor per parameter: 0.9, but 1 for gears, because the start satisfies them."""
    gears = ("_ratio", "_offset")
    return np.repeat(
        [1.0 if port.name.endswith(gears) else 0.9 for port in flat.parameters],
        [port.size for port in flat.parameters],
    )


def rows(form, flat, inputs):
    """Return the memory at the start and after each step, with changed parameters."""
    form.set(flat.u, inputs[0])
    form.set(flat.p, factors(flat) * flat.start()[flat.p])
    form.initialize()
    found = [form.m.copy()]
    for k, u in enumerate(inputs[1:]):
        form.set(flat.u, u)
        (form.step if hasattr(form, "step") else form.fmu.doStep)(k * DT, DT)
        found.append(form.m.copy())
    return np.array(found)


def assert_all_forms_are_the_same(script, folder):
    read, archive, inputs = slave_of(script), Archive(script, folder), random_inputs(script, STEPS)
    flat, kept = read.memory, (read.method, read.h)
    expected = rows(InMemory(numpy_stepper(flat, *kept)), flat, inputs)
    compiled = rows(InMemory(compiled_stepper(flat, *kept)), flat, inputs)
    assert_same(compiled[:, : flat.s.start], expected[:, : flat.s.start], "compiled")
    # in model exchange the importer integrates, and no force law changes within a step
    plain = Memory(flat.block, flat.tunable)
    exchanged = rows(HeldLaws(plain, DT), plain, inputs)
    forms = (
        ("Python FMU", lambda: Host(archive.python(), folder / "python"), expected),
        (
            "FMI 2, co-simulation",
            lambda: Host(archive("native", 2)[0], folder / "native"),
            expected,
        ),
        ("FMI 3, co-simulation", lambda: Instance(archive, "native", FMU3Slave), expected),
        ("FMI 2, model exchange", lambda: ExactHost(archive, "native", 2), exchanged),
        ("FMI 3, model exchange", lambda: ExactHost(archive, "native", 3), exchanged),
    )
    for name, made, wanted in forms:
        form = made()
        assert_same(rows(form, flat, inputs)[:, : plain.size], wanted[:, : plain.size], name)
        form.fmu.freeInstance()


def test_every_library_block_has_an_fmu_script():
    named = {name: getattr(library, name) for name in library.__all__}
    blocks = {
        n for n, value in named.items() if isinstance(value, type) and issubclass(value, Block)
    }
    scripts = {type(slave_of(script).memory.block).__name__ for script in SCRIPTS.values()}
    assert (
        scripts | {type(block).__name__ for block, _ in (*SIGNALS.values(), *BLOCKS.values())}
        >= blocks
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in SCRIPTS]
)
def test_fmus_of_each_script_match_the_numpy_results_of_their_block(name, tmp_path):
    assert_all_forms_are_the_same(SCRIPTS[name], tmp_path)


@pytest.mark.slow  # robots of many joints, which take long to compile
@pytest.mark.parametrize("name", list(BLOCKS)[:: sized(1, 3)])
def test_fmus_of_each_library_block_match_the_numpy_results_of_the_block(name, tmp_path):
    script = tmp_path / f"{name.replace(' ', '_')}_fmu.py"
    script.write_text(SCRIPT.format(name=name))
    assert_all_forms_are_the_same(script, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sampled", "continuous"])
def test_fmus_of_the_signal_blocks_match_the_numpy_results_of_the_blocks(kind, tmp_path):
    script = tmp_path / f"{kind}_signals_fmu.py"
    script.write_text(SIGNALS_SCRIPT.format(kind=kind))
    assert_all_forms_are_the_same(script, tmp_path)
