"""Example notebooks, and display of rigidblocks objects in notebooks."""

import base64

import pytest

from scripts import ROOT, script

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
CELLS = """# %%
from rigidblocks import RobotPlant, System, planar2, simulate, simulation_page
system = System()
system.add("robot", RobotPlant(planar2(), qd0=[1.0, -2.0]), start={"tau": [0.0, 0.0]})
planar2().show([0.3, 0.5])

# %%
result = simulate(system, 1.0, 1e-3)
result.animate(system)

# %%
result.plot()

# %%
simulation_page(system)
"""

pytestmark = pytest.mark.interop  # the extra `notebook` runs notebooks


@pytest.fixture(scope="module")
def notebooks():
    return script("docs/notebooks.py")


def test_notebook_of_each_example_contains_the_example_code_and_ends_with_a_picture(
    notebooks, tmp_path
):
    jupytext = pytest.importorskip("jupytext")
    for example in EXAMPLES:
        cells = jupytext.read(notebooks.write_notebook(example, tmp_path)).cells
        assert cells[0].cell_type == "markdown"
        assert [cell.source for cell in cells].count("main()") == 1
        assert any(what in cells[-1].source for what in ("Image(", "Page(", "SVG(", ".show("))
        kept = "\n".join(cell.source for cell in cells[2:-1]).split()
        lines = example.read_text().split('"""', 2)[2].partition('if __name__ == "__main__":')[0]
        assert kept[:-1] == lines.split()


@pytest.mark.parametrize(("name", "kind"), [("02", "text/html"), ("06", "image/png")])
def test_executed_example_notebook_shows_its_picture(notebooks, name, kind, tmp_path):
    pytest.importorskip("nbclient")
    (example,) = [one for one in EXAMPLES if one.name.startswith(name)]
    done = notebooks.execute_notebook(notebooks.write_notebook(example, tmp_path))
    (shown,) = done.cells[-1].outputs
    assert len(shown.data[kind]) > 10_000


def test_notebook_displays_robots_results_and_systems(notebooks, tmp_path):
    jupytext = pytest.importorskip("jupytext")
    pytest.importorskip("ziglang")
    jupytext.write(jupytext.reads(CELLS, fmt="py:percent"), tmp_path / "seen.ipynb")
    robot, run, figure, page = (
        next(one for one in cell.outputs if one.output_type == "execute_result").data
        for cell in notebooks.execute_notebook(tmp_path / "seen.ipynb").cells
    )
    assert base64.b64decode(figure["image/png"]).startswith(b"\x89PNG")
    for one, mark in ((robot, "sliders"), (run, "plotTime"), (page, "wasm")):
        assert one["text/html"].startswith("<iframe")
        assert f"&quot;{mark}&quot;:" in one["text/html"]
