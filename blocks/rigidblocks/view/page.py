"""Web pages of one file each, which need nothing but a browser: our scripts, and the data."""

import json
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import mkdtemp
from typing import Any

from rigidblocks.view.robot import DrawnRobot, Outlook

SCRIPTS = (
    "vectors",
    "solids",
    "scene",
    "overlays",
    "closure",
    "plots",
    "sliders",
    "kernel",
    "pull",
    "simulation",
    "player",
    "main",
)
LIVE = ("live", *SCRIPTS)  # of a page that is served: no other asks for anything


@dataclass(frozen=True, eq=False)
class Page:
    """A web page, `html`, that shows something in a browser or in a notebook."""

    title: str
    html: str

    def save(self, path: str | Path) -> Path:
        """Writes the page to a file, and returns its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html, encoding="utf-8")
        return path

    def open(self) -> Path:
        """Opens the page in the browser, from a new file in the folder for temporary ones, whose
        path it returns.
        """
        path = self.save(Path(mkdtemp(prefix="rigidblocks-"), "page.html"))
        webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        return f"<Page '{self.title}', {len(self.html) / 1e3:.0f} kB>"

    def _repr_html_(self) -> str:
        """What notebooks show: the page itself."""
        style = "width: 100%; height: 640px; border: 1px solid #d5dde3"
        return f'<iframe style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def page(
    title: str,
    robots: Sequence[DrawnRobot],
    outlook: Outlook,
    more: Mapping[str, Any] | None = None,
) -> Page:
    """The page that shows these robots, with more for its script to read: a run, or a kernel."""
    data = {
        "robots": [robot.described(k) for k, robot in enumerate(robots)],
        "up": outlook.up,
        "eye": outlook.eye,
        "turn": outlook.any_side,
        **(more or {}),
    }
    functions = "".join(robot.functions(k) for k, robot in enumerate(robots))
    parts = {
        "title": escape(title),
        "style": part("page.css"),
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "functions": f"const functions = {{\n{functions}}};",
        "script": "\n".join(part(f"{name}.js") for name in (LIVE if "live" in data else SCRIPTS)),
    }
    return Page(title, Template(part("page.html")).substitute(parts))


def part(name: str) -> str:
    """The text of a file that pages are made of."""
    return files("rigidblocks").joinpath("view", "page", name).read_text(encoding="utf-8")
