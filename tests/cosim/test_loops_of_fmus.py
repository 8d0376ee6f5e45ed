"""Algebraic loops through FMUs: solved by repeated steps, and the derivatives that FMUs tell."""

import json

import pytest

from algebraic_laws import LOOPS, Law, circle_of, disagreement
from rigidblocks import simulate
from rigidblocks.fmi.native import native_fmu
from rigidblocks.simulation.fmu_instance import RunningFmu

SAME = 1e-12
TOLD = RunningFmu.slopes
ANSWERS = {  # of what FMUs tell: the truth, nothing, and what is wrong
    "told": TOLD,
    "silent": lambda _fmu, _inputs: None,
    "wrong": lambda fmu, inputs: -3.0 * TOLD(fmu, inputs),
}


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("name", ["cubic", "gain 40 around three"])
def test_loops_of_fmus_are_solved_whatever_they_tell_of_their_derivatives(
    name, fmi, tmp_path, monkeypatch
):
    laws, repeated = LOOPS[name], {}
    parts = [native_fmu(Law(law), tmp_path / f"law{k}.fmu", fmi=fmi) for k, law in enumerate(laws)]
    for kind, slopes in ANSWERS.items():
        monkeypatch.setattr(RunningFmu, "slopes", slopes)
        result = simulate(circle_of(parts), 1.0, 0.1, iterate="newton", progress=False)
        assert disagreement(result, laws) < SAME
        repeated[kind] = json.loads(result.meta["coupling"])["repeated steps"]
    assert repeated["told"] < repeated["silent"] <= repeated["wrong"]
