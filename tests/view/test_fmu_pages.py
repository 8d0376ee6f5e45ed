"""Simulation page in the documentation of an FMU."""

import zipfile

import pytest
from test_pages import data

from planar2ctrl import parts, wired
from rigidblocks import PDController, RobotPlant, export_fmu, planar2
from rigidblocks.common.compiler import CompilerError


def content(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_fmu_contains_a_simulation_page_if_the_page_option_is_set(tmp_path):
    pytest.importorskip("ziglang")
    block = RobotPlant(planar2())
    plain = content(export_fmu(block, tmp_path / "plain.fmu"))
    paged = content(export_fmu(block, tmp_path / "paged.fmu", page=True))
    page = data(type("Page", (), {"html": paged["documentation/page.html"].decode()}))
    assert page["kernel"]["dt"] == 1e-3
    assert 'href="page.html"' in paged["documentation/index.html"].decode()
    changed = {"documentation/page.html", "documentation/index.html"}
    assert plain.keys() == paged.keys() - {"documentation/page.html"}
    assert all(plain[name] == paged[name] for name in plain.keys() - changed)
    system = content(export_fmu(wired(parts()), tmp_path / "s.fmu", dt=2e-3, page=True))
    page = data(type("Page", (), {"html": system["documentation/page.html"].decode()}))
    assert page["kernel"]["dt"] == 2e-3


@pytest.mark.slow
def test_fmu_export_with_a_page_rejects_a_block_without_robot(tmp_path):
    with pytest.raises((ValueError, CompilerError), match="no robot to draw"):
        export_fmu(PDController(kp=[1.0], kd=[1.0]), tmp_path / "pd.fmu", page=True)
