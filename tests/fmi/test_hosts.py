"""Systems of FMUs in other masters have the trajectory of `simulate` in Jacobi order."""

import importlib
from functools import cache
from pathlib import Path

import fmpy
import numpy as np
import pytest

from host_systems import Hosted, container, fmpy_container, hosted
from hosts import run_as_s_functions, run_in_ecos, run_in_libcosim
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import System, export_fmu, simulate

pytestmark = pytest.mark.interop
SAME = 1e-12  # relative to the largest value of a signal; the masters sum the time differently
DT, STEPS = 1e-3, 1000
SCRIPTS = Path(__file__).parents[2] / "fmus"
HOSTS = {"libcosimpy": run_in_libcosim, "ecospy": run_in_ecos}
SYSTEMS = ("planar2ctrl", "five-bar", "mixed")


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Return a function that returns a system, its recorded signals, and its Jacobi run."""

    @cache
    def made(name: str):
        one = hosted(name, tmp_path_factory.mktemp("system"))
        return one, *ours(one)

    return made


def ours(one: Hosted):
    result = simulate(one.system(), STEPS * DT, DT, order="jacobi")
    observed = [column for column in result.columns if column.endswith("]")]
    expected = np.column_stack([result[name] for name in observed])
    assert np.abs(expected[-1] - expected[0]).max() > 0.3  # the robot moves
    return observed, expected


def differ(found, expected) -> float:
    """Return the largest difference of a signal relative to its largest value, or to 1."""
    assert found.shape == expected.shape
    return float((np.abs(found - expected) / np.maximum(1, np.abs(expected).max(0))).max())


def in_fmpy(path: Path, observed):
    """Return FMPy's simulation of an FMU with these outputs."""
    settings = {"stop_time": STEPS * DT, "step_size": DT, "output_interval": DT}
    # no validation: the tools describe outputs that are states against the schema
    rows = fmpy.simulate_fmu(str(path), validate=False, fmi_type="CoSimulation", **settings)
    return np.column_stack([rows[name.replace(".", "_")] for name in observed])


def in_our_master(path: Path, observed):
    system = System()
    system.add("all", path)
    result = simulate(system, STEPS * DT, DT)
    return np.column_stack([result[f"all.{name.replace('.', '_')}"] for name in observed])


def loaded(host: str):
    try:
        importlib.import_module(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")
    return HOSTS[host]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_fmu_trajectories_in_other_masters_match_the_jacobi_results_of_simulate(host, name, case):
    one, observed, expected = case(name)
    found = loaded(host)(one.fmus, list(one.wires()), STEPS, DT, observed)
    assert differ(found, expected[1:]) < SAME


def test_trajectories_of_scalar_fmi3_fmus_in_ecos_match_the_jacobi_results_of_simulate(tmp_path):
    one = hosted("planar2ctrl", tmp_path, fmi=3, arrays=False)
    observed, expected = ours(one)
    found = loaded("ecospy")(one.fmus, list(one.wires()), STEPS, DT, observed)
    assert differ(found, expected[1:]) < SAME


@pytest.mark.parametrize("name", SYSTEMS)
def test_trajectories_of_an_s_function_for_simulink_match_the_jacobi_results_of_simulate(
    name, case, tmp_path
):
    """The start values of the inputs are the initial values of their sources."""
    one, observed, expected = case(name)
    wires = list(one.wires())
    first = dict(zip(observed, expected[0], strict=True))
    start = {target: first[source] for source, target in wires}
    given = one.fmus, wires, STEPS, DT, observed
    found = run_as_s_functions(*given, tmp_path, start)
    assert differ(found, expected) < SAME


def test_s_function_uses_the_start_values_of_its_inputs_before_the_first_step(case, tmp_path):
    """Connections are read after the first step; otherwise the torques are 15 and 22.5 N.m."""
    one, observed, expected = case("planar2ctrl")
    given = one.fmus, list(one.wires()), 1, DT, observed
    first = run_as_s_functions(*given, tmp_path, {})[0]
    torques = [observed.index(f"pd.tau[{k}]") for k in (1, 2)]
    assert first[torques].tolist() == [0.0, 0.0]
    assert expected[0, torques].tolist() == pytest.approx([15.0, 22.5])


@pytest.mark.parametrize("host", HOSTS)
def test_python_fmu_trajectories_in_other_masters_match_the_jacobi_results_of_simulate(
    host, tmp_path
):
    fmus = {
        name: export_fmu(SCRIPTS / f"planar2_{name}_fmu.py", tmp_path / f"{name}.fmu", "python")
        for name in parts()
    }
    one = Hosted(fmus, CONNECTIONS)
    observed, expected = ours(one)
    found = loaded(host)(fmus, list(one.wires()), STEPS, DT, observed)
    assert differ(found, expected[1:]) < SAME


@pytest.mark.parametrize("name", SYSTEMS)
def test_toolbox_container_matches_the_jacobi_results_in_fmpy_and_in_simulate(name, case, tmp_path):
    one, observed, expected = case(name)
    for path in one.fmus.values():
        (tmp_path / path.name).symlink_to(path)
    made = container(one, tmp_path, DT, observed)
    found = in_fmpy(made, observed)
    # the tool initializes a loop of parts without the connected values
    assert differ(found[1:], expected[1:]) < SAME
    assert differ(in_our_master(made, observed), found) < SAME


def test_fmpy_container_has_equal_results_in_fmpy_and_in_simulate(case, tmp_path):
    """FMPy does not specify the coupling, so the test compares only the two masters."""
    one, observed, _ = case("planar2ctrl")
    made = fmpy_container(one, tmp_path, DT, observed)
    assert differ(in_our_master(made, observed), in_fmpy(made, observed)) < SAME
