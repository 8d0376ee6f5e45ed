"""What robots and runs are shown by: public functions of the package, which methods are named
after. They stand in a later room, so these ask the package's face for them, by name.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

FACE = "rigidblocks"


class Picture(Protocol):
    """A web page that shows something; notebooks show it too."""

    @property
    def html(self) -> str:
        """Its text."""

    def save(self, path: str | Path) -> Path:
        """Writes it to a file, and returns its path."""

    def open(self) -> Path:
        """Opens it in the browser, from a new file whose path it returns."""


def described(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts with a title, in HTML, as notebooks show it."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    cells = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<p>{escape(title)}</p><table><tr>{head}</tr>{body}</table>"


def picture(robot: Any, q: Any, path: str | Path | None) -> Picture:
    """The page of `show`."""
    made: Picture = import_module(FACE).show(robot, q, path)
    return made


def moving_picture(
    result: Any, robot: Any, path: str | Path | None, signals: Sequence[str], paths: Sequence[str]
) -> Picture:
    """The page of `animate`."""
    made: Picture = import_module(FACE).animate(result, robot, path, signals, paths)
    return made
