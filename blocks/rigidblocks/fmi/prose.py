"""The text of a docstring as HTML."""

import re
import textwrap
from collections.abc import Collection, Iterator
from html import escape

from rigidblocks.fmi.formulas import NotFormulaError, formulas


def as_html(text: str, names: Collection[str] = ()) -> Iterator[str]:
    """The paragraphs of a text: what is indented are formulas in `names`, or a program that keeps
    its lines, lines that begin with a dash are items of a list, and between backticks is code.
    """
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield _displayed(textwrap.dedent(part), names)
        elif lines[0].startswith("- "):
            items = re.split(r"^- ", part, flags=re.MULTILINE)[1:]
            yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
        else:
            yield f"<p>{_inline(part)}</p>"


def _displayed(text: str, names: Collection[str]) -> str:
    try:
        return formulas(text, names)
    except NotFormulaError:
        return f"<pre>{escape(text)}</pre>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split())))
