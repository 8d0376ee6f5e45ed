"""Accessibility of all pages by axe-core, with keys only, and on the display of a telephone."""

import zipfile

import pytest

from accessibility import accessibility, focused_elements, text_contrasts
from browser import browser, needs_browser
from planar2ctrl import parts, wired
from rigidblocks import RobotPlant, animate, export_fmu, planar2, show, simulate, simulation_page
from rigidblocks.robot.robots import four_bar
from rigidblocks.studies.requirements import Always, check_requirements, save_report

pytest.importorskip("axe_core_python")
pytestmark = [needs_browser, pytest.mark.interop]

SIZES = {"desktop": (1280, 800), "telephone": (390, 844)}
PAGES = ["robot", "run", "simulation", "report", "fmu"]
IS_READY = (
    "return document.readyState === 'complete' && !document.querySelector('#trouble:not([hidden])')"
)
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """
return [...document.querySelectorAll("button, select, input")]
  .map((one) => [one.ariaLabel ?? one.textContent, one.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([name]) => name);
"""


@pytest.fixture(scope="module")
def tab():
    with browser() as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    system = wired(parts())
    result = simulate(system, 2.0, 1e-3, progress=False)
    checked = check_requirements(
        result, [Always("robot.q[1]", upper=5.0), Always("robot.qd", upper=0.5)]
    )
    save_report(folder / "report.html", checked, result)
    export_fmu(RobotPlant(planar2()), folder / "arm.fmu")
    with zipfile.ZipFile(folder / "arm.fmu") as fmu:
        fmu.extractall(folder / "arm")
    return {
        "robot": show(four_bar()).save(folder / "robot.html"),
        "run": animate(result, system, paths=["body1"]).save(folder / "run.html"),
        "simulation": simulation_page(system).save(folder / "simulation.html"),
        "report": folder / "report.html",
        "fmu": folder / "arm/documentation/index.html",
    }


@pytest.fixture(params=SIZES)
def opened(request, tab, pages):
    """Return a function that opens a page in a window of one size."""
    width, height = SIZES[request.param]

    def open_page(name):
        tab.call("POST", "/window/rect", {"width": width, "height": height})
        tab.open(pages[name])
        tab.wait(IS_READY)
        tab.run(
            "const page = window.rigidblocks?.page ?? {};"
            "page.player?.play(false); page.simulation?.run(false);"
        )
        return tab

    yield open_page
    tab.call("POST", "/window/rect", {"width": 900, "height": 700})


@pytest.mark.parametrize("name", PAGES)
def test_page_violates_no_rule_of_axe_core(name, opened):
    tab = opened(name)
    violations, passes = accessibility(tab)
    assert violations == []
    assert {"color-contrast", "document-title", "html-has-lang"} <= set(passes)
    if name in ("robot", "simulation"):
        assert "label" in passes
    assert tab.run(OVERFLOW) <= 0
    assert tab.errors() == []


@pytest.mark.parametrize("name", ["run", "simulation", "report", "fmu"])
def test_texts_of_plots_have_a_contrast_of_at_least_4_5(name, opened):
    contrasts = text_contrasts(opened(name))
    assert len(contrasts) >= 10
    assert [one for one in contrasts if one[1] < 4.5] == []


@pytest.mark.parametrize("name", ["robot", "run", "simulation"])
def test_tab_key_visits_each_control_in_document_order_with_a_visible_outline(name, opened):
    tab = opened(name)
    elements = focused_elements(tab)
    controls = tab.run(
        "const shown = (one) => one.getClientRects().length && !one.disabled;"
        "const all = [...document.querySelectorAll('canvas, button, select, input')];"
        "return all.filter(shown).length;"
    )
    assert len(elements) == controls > 5
    places = [one["place"] for one in elements]
    assert places == sorted(places)
    assert [one for one in elements if not (one["outline"] and one["seen"])] == []
    assert tab.run(SMALL) == []


def test_arrow_keys_turn_the_view_and_plus_and_minus_zoom(tab, pages):
    tab.open(pages["robot"])
    tab.wait(IS_READY)
    tab.run("document.getElementById('scene').focus()")
    camera = "const { scene } = window.rigidblocks; return [[...scene.eye], scene.distance]"
    press = (
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0] }))"
    )
    eye, distance = tab.run(camera)
    for key in ("ArrowLeft", "ArrowUp"):
        tab.run(press, key)
        assert tab.run(camera)[0] != eye
    for key in ("ArrowRight", "ArrowDown"):
        tab.run(press, key)
    assert tab.run(camera) == [pytest.approx(eye, abs=1e-12), distance]
    tab.run(press, "+")
    assert tab.run(camera)[1] < distance
    tab.run(press, "-")
    assert tab.run(camera)[1] == pytest.approx(distance, rel=1e-12)
