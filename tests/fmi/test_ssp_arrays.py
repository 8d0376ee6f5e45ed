"""Array variables of FMI 3.0 are written to SSP 2.0 with their dimensions and load unchanged."""

import zipfile

import numpy as np
import pytest
from lxml import etree
from numpy.testing import assert_array_equal

from rigidblocks import PDController, System, export_fmu, load_system, save_system, simulate
from rigidblocks.block.units import Conversion
from rigidblocks.fmi.ssp.schema import find_all


@pytest.fixture(scope="module")
def pd(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrays") / "pd.fmu"
    return export_fmu(PDController([1.0, 1.0], [0.0, 0.0]), path, fmi=3)


def chain(pd, factors):
    """Return two controllers; the torque of the first is the angle input of the second."""
    system = System()
    system.add("a", pd, start={"kp": [800.0, 900.0], "q": [-1.0, -2.0], "q_ref": [0.0, 0.0]})
    system.add("b", pd, start={"kp": [3.0, 4.0], "q_ref": [0.0, 0.0]})
    system.connect("a.tau", "b.q", conversion=Conversion(np.array(factors), np.zeros(2)))
    return system


@pytest.mark.slow
def test_saved_ssp_arrays_load_with_equal_values(pd, tmp_path):
    path = save_system(chain(pd, [2.0, 2.0]), tmp_path / "a.ssp", dt=0.01, t_stop=0.05)
    with zipfile.ZipFile(path) as file:
        root = etree.fromstring(file.read("SystemStructure.ssd"))
    assert root.get("version") == "2.0"
    at = "ssd:System/ssd:Elements/ssd:Component"
    sizes = [one.get("size") for one in find_all(root, f"{at}/ssd:Connectors/*/ssc:Dimension")]
    assert sizes == ["2"] * 14  # seven variables of each part
    system, run = load_system(path)
    result = simulate(system, **run, progress=False)
    assert_array_equal(result["a.tau"][-1], [800.0, 1800.0])
    assert_array_equal(result["b.tau"][-1], [-3.0 * 1600.0, -4.0 * 3600.0])
    plain = simulate(chain(pd, [2.0, 2.0]), 0.05, 0.01, progress=False)
    assert_array_equal(result.values, plain.values)


@pytest.mark.slow
def test_ssp_export_rejects_unequal_conversion_factors_within_an_array(pd, tmp_path):
    with pytest.raises(ValueError, match="one factor and one offset for all elements"):
        save_system(chain(pd, [2.0, 3.0]), tmp_path / "a.ssp")
    assert not (tmp_path / "a.ssp").exists()
