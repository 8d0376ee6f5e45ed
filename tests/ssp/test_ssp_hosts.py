"""Our files of SSP in other tools: the trajectory is that of `simulate` with all parts reading the
old time.
"""

import importlib
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hosts import run_ssp_in_ecos, run_ssp_in_libcosim
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


@pytest.mark.parametrize("make", [planar2ctrl, driven_five_bar])
@pytest.mark.parametrize("host", ["ecospy", "libcosimpy"])
def test_another_tool_runs_the_file(host, make, tmp_path):
    try:
        importlib.import_module(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")
    path = save_system(make(), tmp_path / "s.ssp", dt=DT, t_stop=STEPS * DT, order="jacobi")
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
