"""The demo's FMUs in other co-simulation tools: the trajectory is that of `simulate` with all parts
reading the old time.
"""

import importlib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hosts import run_in_ecos, run_in_libcosim
from planar2ctrl import CONNECTIONS, parts, wired
from rigidblocks import export_fmu, simulate

pytestmark = pytest.mark.interop
HOSTS_AGREE = 1e-10  # the hosts sum their time, so their steps differ from ours by its rounding
DT, STEPS = 1e-3, 1000
SCRIPTS = Path(__file__).parents[2] / "fmus"
HOSTS = {"libcosimpy": run_in_libcosim, "ecospy": run_in_ecos}


@pytest.mark.parametrize("target", ["python", "native"])
@pytest.mark.parametrize("host", HOSTS)
def test_another_tool_gives_the_same_trajectory(host, target, tmp_path):
    try:
        importlib.import_module(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")
    fmus = {
        name: export_fmu(SCRIPTS / f"planar2_{name}_fmu.py", tmp_path / f"{name}.fmu", target)
        for name in parts()
    }
    ours = simulate(wired(fmus), STEPS * DT, DT, order="jacobi")
    observed = [column for column in ours.columns if "energy" not in column]
    wires = [
        (f"{source}[{k}]", f"{target}[{k}]")
        for target, source in CONNECTIONS.items()
        for k in (1, 2)
    ]
    theirs = HOSTS[host](fmus, wires, STEPS, DT, observed)
    expected = np.column_stack([ours[name] for name in observed])
    assert_allclose(theirs, expected[1:], rtol=HOSTS_AGREE, atol=HOSTS_AGREE)
    assert np.abs(expected).max() > 1.0  # the robot did move
