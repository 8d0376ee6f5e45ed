"""Functions that call the public `show` and `animate`, for methods of models and results.

The subpackage `view` defines both functions. The import rule of the package (docs/architecture.md)
does not allow `common` to import `view`. This module therefore imports both functions by name from
the top level of the package.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from rigidblocks.common.escaping import html_text

FACE = "rigidblocks"


class Picture(Protocol):
    """Web page that shows a robot or a run, in a browser or in a notebook."""

    @property
    def html(self) -> str:
        """HTML code of the page."""

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return the path of the file."""

    def open(self) -> Path:
        """Write the page to a new file, open it in the browser, and return its path."""


class Diagram(str):
    """String with a Mermaid flowchart, which notebooks display as a diagram."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self}\n```"


def html_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table for notebooks: title, column headings `heads` and rows of strings."""
    head = "".join(f"<th>{html_text(text)}</th>" for text in heads)
    cells = ("".join(f"<td>{html_text(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<p>{html_text(title)}</p><table><tr>{head}</tr>{body}</table>"


def picture(robot: Any, q: Any, path: str | Path | None) -> Picture:
    """Return the web page that the function `show` creates for a robot at the configuration q.

    If `path` is not None, the page is saved to this file.
    """
    made: Picture = import_module(FACE).show(robot, q, path)
    return made


def moving_picture(
    result: Any, robot: Any, path: str | Path | None, signals: Sequence[str], paths: Sequence[str]
) -> Picture:
    """Return the web page that the function `animate` creates for the result of a run.

    If `path` is not None, the page is saved to this file. `signals` are the names of the signals to
    plot. `paths` are the names of the frames or bodies whose paths are drawn.
    """
    made: Picture = import_module(FACE).animate(result, robot, path, signals, paths)
    return made
