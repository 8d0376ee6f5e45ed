"""Our files of SSP in other tools: the trajectory is that of `simulate` with all parts reading the
old time.
"""

import importlib
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hosts import run_ssp_in_ecos, run_ssp_in_libcosim
from nested_ssp import nested
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import ClosedLoopPlant, Sine, System, load_system, save_system, simulate
from rigidblocks.mechanisms import five_bar

pytestmark = pytest.mark.interop
DT, STEPS = 1e-3, 500


def planar2ctrl():
    system = System()
    starts = {"robot": {"q": [0.3, -0.2]}, "pd": {"kp": [800.0, 900.0]}}
    for name, block in parts().items():
        system.add(name, block, start=starts.get(name))
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system


def driven_five_bar():
    system = System()
    model, q0, qd0 = five_bar()
    system.add("linkage", ClosedLoopPlant(model, q0=q0, qd0=qd0))
    system.add("drive", Sine(amplitude=2.0, frequency=1.5, unit="N.m"))
    system.connect("drive.y", "linkage.tau[1]")
    return system


def saved(make, folder):
    return save_system(make(), folder / "s.ssp", dt=DT, t_stop=STEPS * DT, order="jacobi")


def nested_planar2ctrl(folder):
    """With the robot and its controller in a system of their own."""
    return nested(saved(planar2ctrl, folder), folder / "n.ssp", ("robot", "pd"), "arm")


@pytest.mark.parametrize("make", [planar2ctrl, driven_five_bar, nested_planar2ctrl])
@pytest.mark.parametrize("host", ["ecospy", "libcosimpy"])
def test_another_tool_runs_the_file(host, make, tmp_path):
    try:
        importlib.import_module(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")
    if make is nested_planar2ctrl:  # neither reads systems in systems: what we make of it is flat
        system, run = load_system(make(tmp_path))
        path = save_system(system, tmp_path / "flat.ssp", **run)
    else:
        path = saved(make, tmp_path)
    system, run = load_system(path)
    ours = simulate(system, **run, progress=False)
    observed = list(ours.columns)
    if host == "ecospy":
        theirs = run_ssp_in_ecos(path, STEPS, DT, observed)
    else:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "unpacked")
        theirs = run_ssp_in_libcosim(tmp_path / "unpacked", STEPS, DT, observed)
    size = np.maximum(1.0, np.abs(ours.values).max(0))  # the loop error is one of rounding alone
    assert_allclose((theirs - ours.values[1:]) / size, 0.0, atol=1e-12)
    assert np.abs(np.ptp(ours.values, axis=0)).max() > 1.0  # it did move


@pytest.mark.slow
def test_a_nested_system_moves_as_the_flat_one_does(tmp_path):
    flat, run = load_system(saved(planar2ctrl, tmp_path))
    system, told = load_system(nested_planar2ctrl(tmp_path))
    again, _ = load_system(save_system(system, tmp_path / "again.ssp", **told))
    assert told == run
    expected = simulate(flat, **run, progress=False)
    for one in (system, again):
        result = simulate(one, **run, progress=False)
        assert set(result.columns) == {
            name if name.startswith("command") else f"arm/{name}" for name in expected.columns
        }
        for name in result.columns:
            assert_array_equal(result[name], expected[name.removeprefix("arm/")])
