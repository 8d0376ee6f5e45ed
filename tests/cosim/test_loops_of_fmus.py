"""Algebraic loops through FMUs, solved by repeated steps, and their directional derivatives."""

import json

import pytest

from algebraic_laws import LOOPS, Law, circle_of, disagreement
from rigidblocks import simulate
from rigidblocks.cosim.fmu_import.fmu_instance import RunningFmu
from rigidblocks.fmi.native_fmu import native_fmu

SAME = 1e-12
TOLD = RunningFmu.output_jacobian
ANSWERS = {  # directional derivatives of the FMU: correct, missing, and wrong
    "told": TOLD,
    "silent": lambda _fmu, _inputs: None,
    "wrong": lambda fmu, inputs: -3.0 * TOLD(fmu, inputs),
}


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("name", ["cubic", "gain 40 around three"])
def test_algebraic_loops_of_fmus_are_solved_even_with_wrong_or_missing_derivatives(
    name, fmi, tmp_path, monkeypatch
):
    laws, repeated = LOOPS[name], {}
    parts = [native_fmu(Law(law), tmp_path / f"law{k}.fmu", fmi=fmi) for k, law in enumerate(laws)]
    for kind, slopes in ANSWERS.items():
        monkeypatch.setattr(RunningFmu, "output_jacobian", slopes)
        result = simulate(circle_of(parts), 1.0, 0.1, iterate="newton", progress=False)
        assert disagreement(result, laws) < SAME
        repeated[kind] = json.loads(result.meta["coupling"])["repeated steps"]
    assert repeated["told"] < repeated["silent"] <= repeated["wrong"]
