"""The native FMU of every script: the validator has nothing to say, and it is its block in NumPy."""

from pathlib import Path

import pytest
from fmpy.validation import validate_fmu

from block_runs import assert_same, begun, go_on, memory, random_inputs, reference_run
from hosts import instantiated
from rigidblocks import library
from rigidblocks.block import Block
from rigidblocks.fmi.export import export_fmu
from rigidblocks.fmi.script import slave_of

SCRIPTS = sorted(Path(__file__).parents[1].glob("fmus/*_fmu.py"))


def test_every_block_of_the_library_has_a_script():
    blocks = {name for name in library.__all__ if issubclass(getattr(library, name), Block)}
    assert {type(slave_of(script).flat.block).__name__ for script in SCRIPTS} >= blocks


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_native_fmu_of_every_script_is_valid_and_its_block(script, tmp_path):
    fmu = export_fmu(script, tmp_path / f"{script.stem}.fmu")
    assert validate_fmu(str(fmu)) == []
    inputs = random_inputs(script, 40)
    expected = reference_run(script, inputs)
    slave = begun(instantiated(fmu, tmp_path / "unpacked"), script, inputs)
    assert_same(memory(slave, script), expected[0])
    assert_same(go_on(slave, script, inputs[1:]), expected[1:])
    slave.freeInstance()
