"""Tunable parameters of FMUs that change during a run; the references are closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from any_models import CLOCKS, DAHLQUIST, AnyModel, Variable, any_fmu
from rigidblocks import System, prepare, simulate

EVENT_MODE = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'
# FMI permits new parameter values only in event mode, and this FMU rejects all others
STRICT = replace(DAHLQUIST, name="Strict", attributes=EVENT_MODE, strict_parameters=True)
# the output is computed only at events
SAMPLED = AnyModel(
    "SampledParameter",
    [
        Variable("p", 1, "parameter", variability="tunable", start=(1.0,)),
        Variable("y", 2, "output", variability="discrete", start=(0.0,)),
    ],
    update="m->v[2][0] = 2 * m->v[1][0];",
    attributes=EVENT_MODE,
    strict_parameters=True,
)
KINDS = [
    (2, "model exchange"),
    pytest.param(3, "model exchange", marks=pytest.mark.slow),
    pytest.param(3, "co-simulation", marks=pytest.mark.slow),
]
ERRORS = {"model exchange": 1e-6, "co-simulation": 3e-2}  # the FMU itself takes Euler steps


def system_of(path, **options):
    system = System()
    system.add("part", path, **options)
    return system


@pytest.mark.parametrize(("version", "kind"), KINDS)
@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_fmu_parameter_is_changed_in_event_mode(tmp_path, version, kind, isolated):
    """x(1.5) = exp(-1 - 3 0.5) if k = 3 from t = 1 s on."""
    path = any_fmu(tmp_path, STRICT, version)
    with prepare(system_of(path, kind=kind, isolated=isolated), 0.01) as run:
        run.step(100)
        run["part.k"] = 3.0
        assert float(run["part.k"]) == 3.0
        run.step(50)
        assert float(run["part.x"]) == pytest.approx(np.exp(-2.5), rel=ERRORS[kind])


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), KINDS)
@pytest.mark.parametrize("form", ["compiled", "numpy"])
def test_scenario_changes_an_fmu_parameter_in_event_mode(tmp_path, version, kind, form):
    """x(1.5) = exp(-0.5 - 0.5) if k = 0 between t = 0.5 s and t = 1 s."""
    system = system_of(any_fmu(tmp_path, STRICT, version), kind=kind)
    inputs = {"time": [0.0, 0.5, 1.0], "part.k": [1.0, 0.0, 1.0]}
    x = simulate(system, 1.5, 0.01, scenario=inputs, form=form)["part.x"]
    assert np.ptp(x[50:101]) == 0.0
    assert x[-1] == pytest.approx(np.exp(-1.0), rel=ERRORS[kind])


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_changed_fmu_parameter_updates_the_discrete_states(tmp_path, version, kind):
    system = system_of(any_fmu(tmp_path, SAMPLED, version), kind=kind)
    inputs = {"time": [0.0, 0.5], "part.p": [1.0, 4.0]}
    y = simulate(system, 1.0, 0.1, scenario=inputs)["part.y"]
    assert_array_equal(y, [2.0] * 6 + [8.0] * 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model exchange", "co-simulation"])
def test_changed_fmu_parameter_starts_a_countdown_clock(tmp_path, kind):
    """The clock ticks 0.05 s after the change at t = 0.35 s; other ticks start none."""
    variables = [
        *CLOCKS.variables,
        Variable("p", 10, "parameter", variability="tunable", start=(0,)),
    ]
    model = replace(
        CLOCKS,
        name="CountdownOfParameter",
        variables=variables,
        update=CLOCKS.update.replace("(int)m->v[6][0] % 3 == 0", "false")
        + "if (m->v[10][0] > 0) m->v[9][0] = 1, m->v[10][0] = 0;",
    )
    system = system_of(any_fmu(tmp_path, model, 3), kind=kind, start={"u": 0.0})
    inputs = {"time": [0.0, 0.35], "part.p": [0.0, 1.0]}
    result = simulate(system, 0.6, 0.05, scenario=inputs)
    assert_array_equal(result["part.rings"], result.time > 0.375)
    assert_array_equal(result["part.ticks"], 1 + np.floor(result.time / 0.1 + 1e-9))
