"""End of a run: FMUs receive it, and no call has a later time.

The models reject a time after the stop time that the importer has defined.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from any_models import DAHLQUIST, Variable, any_fmu
from fmi1_fmus import Model, fmi1_fmu
from fmi1_fmus import Variable as Variable1
from rigidblocks import System, export_fmu, prepare, simulate
from rigidblocks.cosim.run_options import communication_points
from rigidblocks.library import Integrator

ME, CS = "model exchange", "co-simulation"
UNDEFINED = -1.0
LIMITED = replace(
    DAHLQUIST,
    name="Limited",
    strict_end=True,
    variables=[*DAHLQUIST.variables, Variable("stop", 31, "output", start=(0.0,))],
    motion=f"{DAHLQUIST.motion} m->v[31][0] = isfinite(m->stop) ? m->stop : {UNDEFINED};",
)
RUNS = [(0.0, 1.0, 0.1), (0.3, 0.9, 0.1), (1e6, 1e6 + 3.0, 0.3), (-0.7, 0.0, 0.07)]


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limited")
    return lambda fmi: any_fmu(folder, LIMITED, fmi)


def system_of(path, **options):
    system = System()
    system.add("fmu", path, **options)
    return system


def test_last_communication_point_is_not_after_the_stop_time():
    for t_start, t_stop, dt in RUNS:
        grid = communication_points(t_start, t_stop, dt)
        ends = t_start + dt * np.arange(grid.n) + dt
        assert ends.max() <= grid.t_stop
        assert grid.times[-1] <= grid.t_stop
        assert_allclose(grid.t_stop, t_stop, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("kind", [CS, ME])
@pytest.mark.parametrize("fmi", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_fmu_is_not_evaluated_after_the_stop_time(fmi, kind, fmu):
    for t_start, t_stop, dt in RUNS:
        end = communication_points(t_start, t_stop, dt).t_stop
        result = simulate(
            system_of(fmu(fmi), kind=kind), t_stop, dt, t_start=t_start, progress=False
        )
        assert np.all(result["fmu.stop"] == end)
        exact = np.exp(-(result.time - t_start))
        assert_allclose(result["fmu.x"], exact, atol=1e-6 if kind == ME else 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "stiff", "radau", "rk4", "rodas3"])
def test_no_integration_method_evaluates_the_fmu_after_the_stop_time(method, fmu):
    for t_start, t_stop, dt in RUNS:
        options = {"kind": ME, "method": method, "h": 0.01}
        system = system_of(fmu(3), **options)
        result = simulate(system, t_stop, dt, t_start=t_start, progress=False)
        assert np.all(result["fmu.stop"] >= t_stop)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CS, ME])
def test_isolated_fmu_receives_the_stop_time(kind, fmu):
    system = system_of(fmu(2), kind=kind, isolated=True)
    result = simulate(system, 1.0, 0.1, progress=False)
    assert np.all(result["fmu.stop"] == 1.0)


@pytest.mark.parametrize("kind", [CS, ME])
def test_each_run_of_a_prepared_system_has_its_own_stop_time(kind, fmu):
    run = prepare(system_of(fmu(2), kind=kind), 0.1)
    for t_stop in (1.0, 3.0, 0.5):
        result = run.simulate(t_stop, progress=False)
        assert np.all(result["fmu.stop"] == communication_points(0.0, t_stop, 0.1).t_stop)
    run.step(50)  # single steps have no end
    assert run["fmu.stop"] == UNDEFINED
    assert_allclose(run["fmu.x"], np.exp(-5.0), atol=1e-2)


def test_fmi_1_co_simulation_fmu_receives_the_stop_time(tmp_path):
    model = Model(
        "Slave1", [Variable1("y", 0, "output")], step="m->r[0] = m->stop; return 0;", is_slave=True
    )
    result = simulate(system_of(fmi1_fmu(tmp_path, model)), 1.0, 0.25, progress=False)
    assert np.all(result["fmu.y"][1:] == 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("target", ["native", "source"])
def test_exported_fmu_runs_to_its_stop_time(fmi, target, tmp_path):
    path = export_fmu(Integrator(y0=1.0), tmp_path / "one.fmu", target, fmi=fmi)
    for kind in (CS, ME):
        for t_start, t_stop, dt in RUNS:
            system = system_of(path, kind=kind, start={"u": 1.0})
            result = simulate(system, t_stop, dt, t_start=t_start, progress=False)
            assert_allclose(result["fmu.y"], 1.0 + result.time - t_start, atol=1e-8)
