"""Systems of FMUs in other co-simulation tools: the trajectory is that of `simulate` with all parts
reading the old time.
"""

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
SAME = 1e-12  # of the largest value of a signal: the same FMUs, and other sums of time
DT, STEPS = 1e-3, 1000
SCRIPTS = Path(__file__).parents[2] / "fmus"
HOSTS = {"libcosimpy": run_in_libcosim, "ecospy": run_in_ecos}
SYSTEMS = ("planar2ctrl", "five-bar", "mixed")


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A system, what is observed of it, and our run."""

    @cache
    def made(name: str):
        one = hosted(name, tmp_path_factory.mktemp("system"))
        return one, *ours(one)

    return made


def ours(one: Hosted):
    result = simulate(one.system(), STEPS * DT, DT, order="jacobi")
    observed = [column for column in result.columns if column.endswith("]")]
    expected = np.column_stack([result[name] for name in observed])
    assert np.abs(expected[-1] - expected[0]).max() > 0.3  # it did move
    return observed, expected


def differ(found, expected) -> float:
    """The largest difference of a signal by its largest value, or by 1 where that is less."""
    assert found.shape == expected.shape
    return float((np.abs(found - expected) / np.maximum(1, np.abs(expected).max(0))).max())


def in_fmpy(path: Path, observed):
    """What FMPy's own simulation of an FMU with these outputs gives."""
    settings = {"stop_time": STEPS * DT, "step_size": DT, "output_interval": DT}
    # not validated: the tools describe outputs that are states as no schema allows
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
def test_another_tool_gives_the_same_trajectory(host, name, case):
    one, observed, expected = case(name)
    found = loaded(host)(one.fmus, list(one.wires()), STEPS, DT, observed)
    assert differ(found, expected[1:]) < SAME


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_calls_of_an_s_function_in_simulink_give_the_same_trajectory(name, case, tmp_path):
    """Where the start values of inputs are what they read at the start."""
    one, observed, expected = case(name)
    wires = list(one.wires())
    first = dict(zip(observed, expected[0], strict=True))
    start = {target: first[source] for source, target in wires}
    given = one.fmus, wires, STEPS, DT, observed
    found = run_as_s_functions(*given, tmp_path, start)
    assert differ(found, expected) < SAME


def test_an_s_function_begins_with_the_start_values_of_its_inputs(case, tmp_path):
    """No wire is read before the first step: kd (slope - qd) is 15 and 22.5 N.m when it is."""
    one, observed, expected = case("planar2ctrl")
    given = one.fmus, list(one.wires()), 1, DT, observed
    first = run_as_s_functions(*given, tmp_path, {})[0]
    torques = [observed.index(f"pd.tau[{k}]") for k in (1, 2)]
    assert first[torques].tolist() == [0.0, 0.0]
    assert expected[0, torques].tolist() == pytest.approx([15.0, 22.5])


@pytest.mark.parametrize("host", HOSTS)
def test_python_fmus_move_in_other_tools_as_here(host, tmp_path):
    fmus = {
        name: export_fmu(SCRIPTS / f"planar2_{name}_fmu.py", tmp_path / f"{name}.fmu", "python")
        for name in parts()
    }
    one = Hosted(fmus, CONNECTIONS)
    observed, expected = ours(one)
    found = loaded(host)(fmus, list(one.wires()), STEPS, DT, observed)
    assert differ(found, expected[1:]) < SAME


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_container_gives_the_same_trajectory_in_fmpy_and_in_our_master(name, case, tmp_path):
    one, observed, expected = case(name)
    for path in one.fmus.values():
        (tmp_path / path.name).symlink_to(path)
    made = container(one, tmp_path, DT, observed)
    found = in_fmpy(made, observed)
    # the tool starts a loop of parts without the values that go round in it
    assert differ(found[1:], expected[1:]) < SAME
    assert differ(in_our_master(made, observed), found) < SAME


def test_the_container_that_fmpy_brings_runs_in_our_master_as_in_fmpy(case, tmp_path):
    """How it couples its parts is its own affair."""
    one, observed, _ = case("planar2ctrl")
    made = fmpy_container(one, tmp_path, DT, observed)
    assert differ(in_our_master(made, observed), in_fmpy(made, observed)) < SAME
