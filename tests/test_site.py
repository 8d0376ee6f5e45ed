"""The documentation is true and whole: the code on its pages runs, it builds without a warning, and
every public name is on a page that is a few clicks from the first.
"""

import re
import subprocess
import sys
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import matplotlib
import pytest

import rigidblocks.library
from browser import browser, needs_browser
from drawn_curves import curves_in, plots_of

ROOT = Path(__file__).parents[1]
CLICKS = 3
# what the reader of a page has already
NAMES = "from rigidblocks import *\nfrom rigidblocks.library import *\n"
SYSTEM = f"""{NAMES}
system = System()
system.add("robot", RobotPlant(planar2()))
system.add("pd", PDController(kp=[60.0, 30.0], kd=[8.0, 4.0]), start={{"q_ref": [0.5, -0.3]}})
for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
    system.connect(source, target)
"""
GRANTED = {
    "docs/batches.md": SYSTEM,
    "docs/closed_loops.md": "import logging\n",
    "docs/fmu.md": SYSTEM,
    "docs/integrators.md": f"{NAMES}system, plant = System(), RobotPlant(planar2())\n",
    "docs/real_time.md": """from pathlib import Path
from can_partner import DBC
Path("arm.dbc").write_text(DBC)
""",
    "docs/signal_blocks.md": NAMES,
    "docs/ssp.md": f"""{SYSTEM}
from pathlib import Path
Path("case").mkdir()
export_fmu(PDController([1.0], [1.0]), "case/pd.fmu")
Path("case/OspSystemStructure.xml").write_text(
    '<OspSystemStructure xmlns="http://opensimulationplatform.com/MSMI/OSPSystemStructure"'
    ' version="0.1"><BaseStepSize>0.01</BaseStepSize><Simulators>'
    '<Simulator name="pd" source="pd.fmu"/></Simulators></OspSystemStructure>'
)
""",
    "docs/sweeps.md": f"""{NAMES}
from rigidblocks.library.inertias import TunableInertia
elbow = ForceElement("elbow", 1, Friction(0.0, viscous=0.2))
inertias = TunableInertia(links=True, moments=True)
robot = RobotPlant(planar2(), elements=(elbow,), inertias=inertias)
{SYSTEM.replace(NAMES, "").replace("RobotPlant(planar2())", "robot")}
simulate(system, 1.0, 1e-3, every=10).save("motion.csv")
""",
    "README.md": f"""{NAMES}
from dataclasses import dataclass
import numpy as np
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.mechanisms import n_four_bar
q = qd = tau = np.full(7, 0.1)
guess, robot = n_four_bar(40).q0, planar2()
""",
}
# their code has tests of its own
WAITING = {"federate", "serve_fmus"}  # for others: pages say how they are called
ELSEWHERE = {"docs/writing_a_block.md", "docs/spatial_v1.md", "docs/viewing.md"}


def pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {path.relative_to(ROOT).as_posix(): path for path in found}
    return {
        name: path
        for name, path in named.items()
        if "```python" in path.read_text() and name not in ELSEWHERE
    }


@pytest.mark.interop
@pytest.mark.parametrize("name", pages())
def test_the_code_on_a_page_runs(name, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(GRANTED.get(name, ""), names)
    for example in re.findall(r"```python\n(.*?)```", pages()[name].read_text(), re.DOTALL):
        exec(compile(example, name, "exec"), names)


def test_every_public_name_has_an_example_that_runs():
    """On a page of the docs, or in one of the examples."""
    examples = (ROOT / "examples").glob("*.py")
    texts = [path.read_text() for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md")]
    code = [one for text in texts for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    words = set(re.findall(r"\w+", "\n".join([*code, *(path.read_text() for path in examples)])))
    assert {*rigidblocks.__all__, *rigidblocks.library.__all__} - words == WAITING


def test_the_start_pages_are_read_in_the_minutes_that_they_say():
    """200 words a minute; the first one is within the two minutes that a newcomer gives us."""
    start = ROOT / "docs/start"
    said = re.findall(
        r"^\| (.*?)\| (\d+) min \|", (start / "planar2ctrl.md").read_text(), re.MULTILINE
    )
    assert len(said) == 4
    for path, minutes in said:
        (name,) = re.findall(r"\((\w+\.md)\)", path) or ["planar2ctrl.md"]
        assert len((start / name).read_text().split()) <= 200 * int(minutes)
    assert int(said[0][1]) <= 2


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if "id" in named:
            self.anchors.add(named["id"])
        if tag == "a" and named.get("href"):
            parts = urlsplit(named["href"])
            if not parts.scheme and parts.path.endswith(".html"):
                self.links.add(unquote(parts.path))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, which is built as strictly as mkdocs can."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def clicks_to(site):
    """How many clicks from the first page each page is."""
    first = site / "index.html"
    found, waiting = {first: 0}, deque([first])
    while waiting:
        here = waiting.popleft()
        for link in Page(here).links:
            there = (here.parent / link).resolve()
            if there not in found and there.exists():
                found[there] = found[here] + 1
                waiting.append(there)
    return found


@pytest.mark.interop
def test_every_page_is_reached_from_the_first_and_every_public_name_is_on_one(site):
    sys.path.insert(0, str(ROOT / "docs"))
    from reference_pages import public_names

    reached = clicks_to(site)
    written = {page for page in site.rglob("*.html") if page.parent.name != "live"}
    all_pages = {page for page in written if page.name != "404.html"}
    assert all_pages - set(reached) == set()
    assert max(reached.values()) <= CLICKS
    anchors = set().union(*(Page(page).anchors for page in all_pages))
    names = {f"{module}.{name}" for of in public_names().values() for name, module in of.items()}
    assert len(names) > 400
    assert names - anchors == set()


# what one types into the search box
SEARCH = """
const box = document.querySelector("input.md-search__input");
box.focus();
box.value = arguments[0];
for (const kind of ["keyup", "input"]) box.dispatchEvent(new Event(kind, { bubbles: true }));
"""
FOUND = "return document.querySelectorAll('.md-search-result__item a').length > 0"


@needs_browser
@pytest.mark.interop
def test_the_site_searches_from_disk_and_asks_nobody_for_anything(site):
    named = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)="(https?:[^"]*)')
    pages = [page for page in site.rglob("*.html") if page.parent.name != "live"]
    assert {name for page in pages for name in named.findall(page.read_text())} == set()
    with browser() as tab:
        for page in ("index.html", "start/planar2ctrl.html"):
            tab.open(site / page)
            tab.wait("return document.querySelector('input.md-search__input') !== null")
            tab.run(SEARCH, "friction")
            tab.wait(FOUND)
            asked = "return performance.getEntriesByType('resource').map((one) => one.name)"
            assert [name for name in tab.run(asked) if not name.startswith("file:")] == []
        assert tab.errors() == []


@pytest.mark.interop
def test_the_live_page_shows_the_pages_that_there_are(site):
    shown = re.findall(r'<iframe src="([^"]*)"', (site / "live.html").read_text())
    assert {site / name for name in shown} == set((site / "live").glob("*.html"))
    assert all((site / name).stat().st_size < 1e6 for name in shown)


@pytest.mark.interop
def test_every_block_of_the_library_has_a_page(site):
    blocks = {
        name
        for name, thing in vars(rigidblocks.library).items()
        if isinstance(thing, type) and issubclass(thing, rigidblocks.Block)
    }
    assert {page.stem for page in (site / "reference/blocks").glob("*.html")} == blocks


@pytest.mark.interop
def test_the_page_of_a_block_has_its_ports_and_its_run(site):
    text = (site / "reference/blocks/PDController.html").read_text()
    for port in ("q_ref", "qd_ref", "tau", "kp", "kd"):
        assert f"<td><code>{port}</code></td>" in text
    assert len(curves_in(*plots_of(text))) == 2  # of tau
