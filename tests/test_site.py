"""Documentation site: code examples, warning-free build and completeness.

Each public name is on a page that is a few clicks away from the first page.
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

import rigidblocks.contact
import rigidblocks.library
from accessibility import accessibility
from browser import browser, needs_browser
from drawn_curves import curves_in, plots_of

ROOT = Path(__file__).parents[1]
CLICKS = 3
BLOCKS = {
    name
    for package in (rigidblocks.library, rigidblocks.contact)
    for name, value in vars(package).items()
    if isinstance(value, type) and issubclass(value, rigidblocks.Block)
}
# names without runnable examples, and pages with separate code tests
WAITING = {
    "federate",
    "serve_fmus",
}  # these functions wait for other programs; pages show their calls
ELSEWHERE = {"docs/writing_a_block.md", "docs/spatial_v1.md", "docs/viewing.md"}
AUTODIFF = "docs/jax_and_pytorch.md"


def pages():
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {path.relative_to(ROOT).as_posix(): path for path in found}
    return {
        name: path
        for name, path in named.items()
        if "```python" in path.read_text() and name not in ELSEWHERE
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.autodiff if name == AUTODIFF else pytest.mark.interop)
        for name in pages()
    ],
)
def test_python_blocks_of_each_page_run_in_order_as_copied(name, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for example in re.findall(r"```python\n(.*?)```", pages()[name].read_text(), re.DOTALL):
        exec(compile(example, name, "exec"), names)


def test_each_public_name_is_used_in_a_runnable_documentation_example():
    """The example is on a documentation page or in an example script."""
    examples = (ROOT / "examples").glob("*.py")
    texts = [path.read_text() for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md")]
    code = [one for text in texts for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    words = set(re.findall(r"\w+", "\n".join([*code, *(path.read_text() for path in examples)])))
    sys.path.insert(0, str(ROOT / "docs"))
    from reference_pages import NAMES as NAMES_OF_MODULES

    names = {*rigidblocks.__all__, *rigidblocks.library.__all__, *BLOCKS}
    names |= {name for listed in NAMES_OF_MODULES.values() for name in listed.split()}
    assert names - words == WAITING


def test_introductory_pages_have_at_most_200_words_per_minute_of_reading_time():
    """The assumed reading speed is 200 words per minute; the first page takes at most 2 minutes."""
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
    """Parser that collects the links and anchors of a page."""

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
    """Build the site in strict mode and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "docs/build_site.py", folder]
    build = subprocess.run(command, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    return folder / "site"


def clicks_to(site):
    """Return the number of clicks from the first page to each page."""
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
def test_each_documentation_page_is_reachable_and_each_public_name_is_on_a_page(site):
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


# the search dialog of the theme is in a shadow tree
DIALOG = """
const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector("dialog"));
const dialog = host?.shadowRoot.querySelector("dialog");
"""
SEARCH = f"""{DIALOG}
const box = dialog.querySelector("input");
Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, arguments[0]);
box.dispatchEvent(new Event("input", {{ bubbles: true, composed: true }}));
"""
OPEN = "document.querySelector('.md-search__button').click()"


@needs_browser
@pytest.mark.interop
def test_documentation_search_works_from_disk_and_pages_load_nothing_from_the_network(site):
    named = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)="?(https?:[^" >]*)')
    pages = [page for page in site.rglob("*.html") if page.parent.name != "live"]
    loaded = {name for page in pages for name in named.findall(page.read_text())}
    assert loaded == set()
    with browser() as tab:
        for page in ("index.html", "start/planar2ctrl.html"):
            tab.open(site / page)
            tab.wait(f"{OPEN}; {DIALOG} return !!dialog?.querySelector('input')")
            tab.run(SEARCH, "friction")
            tab.wait(f"{DIALOG} return dialog.querySelectorAll('a').length > 0")
            resources = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
            assert [name for name in tab.run(resources) if not name.startswith("file:")] == []
        assert tab.errors() == []


@needs_browser
@pytest.mark.interop
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "telephone"])
def test_documentation_pages_violate_no_rule_of_axe_core(size, site):
    pytest.importorskip("axe_core_python")
    pages = ["index", "start/planar2ctrl", "contact", "live", "reference/blocks/PDController"]
    with browser() as tab:
        tab.call("POST", "/window/rect", {"width": size[0], "height": size[1]})
        for page in pages:
            tab.open(site / f"{page}.html")
            tab.wait(
                "return document.querySelectorAll('pre').length === "
                "document.querySelectorAll('.md-code__nav').length"
            )
            violations, passes = accessibility(tab)
            assert violations == [], page
            assert {"color-contrast", "link-name"} <= set(passes)
        assert tab.errors() == []


@pytest.mark.interop
def test_documentation_page_of_live_views_embeds_all_live_pages(site):
    shown = re.findall(r'<iframe src="([^"]*)"', (site / "live.html").read_text())
    assert {site / name for name in shown} == set((site / "live").glob("*.html"))
    assert all((site / name).stat().st_size < 1e6 for name in shown)


@pytest.mark.interop
def test_each_library_block_has_a_page(site):
    assert {page.stem for page in (site / "reference/blocks").glob("*.html")} == BLOCKS


@pytest.mark.interop
def test_block_page_lists_ports_and_plots_a_run(site):
    text = (site / "reference/blocks/PDController.html").read_text()
    for port in ("q_ref", "qd_ref", "tau", "kp", "kd"):
        assert f"<td><code>{port}</code></td>" in text
    assert len(curves_in(*plots_of(text))) == 2  # curves of tau
