"""Array variables of FMI 3.0 in files of SSP 2.0: written with dimensions, and read back equal."""

import zipfile

import numpy as np
import pytest
from lxml import etree
from numpy.testing import assert_array_equal

from rigidblocks import PDController, System, export_fmu, load_system, save_system, simulate
from rigidblocks.block.quantities import Conversion
from rigidblocks.ssp.schema import found


@pytest.fixture(scope="module")
def pd(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrays") / "pd.fmu"
    return export_fmu(PDController([1.0, 1.0], [0.0, 0.0]), path, fmi=3)


def chain(pd, factors):
    """Two controllers, of which the second gets the torques of the first for angles."""
    system = System()
    system.add("a", pd, start={"kp": [800.0, 900.0], "q": [-1.0, -2.0], "q_ref": [0.0, 0.0]})
    system.add("b", pd, start={"kp": [3.0, 4.0], "q_ref": [0.0, 0.0]})
    system.connect("a.tau", "b.q", conversion=Conversion(np.array(factors), np.zeros(2)))
    return system


@pytest.mark.slow
def test_arrays_are_written_and_read_back_equal(pd, tmp_path):
    path = save_system(chain(pd, [2.0, 2.0]), tmp_path / "a.ssp", dt=0.01, t_stop=0.05)
    with zipfile.ZipFile(path) as file:
        root = etree.fromstring(file.read("SystemStructure.ssd"))
    assert root.get("version") == "2.0"
    at = "ssd:System/ssd:Elements/ssd:Component"
    sizes = [one.get("size") for one in found(root, f"{at}/ssd:Connectors/*/ssc:Dimension")]
    assert sizes == ["2"] * 14  # seven variables of each part
    system, run = load_system(path)
    result = simulate(system, **run, progress=False)
    assert_array_equal(result["a.tau"][-1], [800.0, 1800.0])
    assert_array_equal(result["b.tau"][-1], [-3.0 * 1600.0, -4.0 * 3600.0])
    plain = simulate(chain(pd, [2.0, 2.0]), 0.05, 0.01, progress=False)
    assert_array_equal(result.values, plain.values)


@pytest.mark.slow
def test_factors_that_differ_within_an_array_are_refused(pd, tmp_path):
    with pytest.raises(ValueError, match="one factor and one offset for all of their elements"):
        save_system(chain(pd, [2.0, 3.0]), tmp_path / "a.ssp")
    assert not (tmp_path / "a.ssp").exists()
