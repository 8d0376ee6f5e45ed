"""The text of a docstring as HTML."""

import re
import textwrap
from collections.abc import Iterator
from html import escape


def as_html(text: str) -> Iterator[str]:
    """The paragraphs of a text: what is indented is an equation and keeps its lines, lines that
    begin with a dash are items of a list, and what is between backticks is code.
    """
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield f"<pre>{escape(textwrap.dedent(part))}</pre>"
        elif lines[0].startswith("- "):
            items = re.split(r"^- ", part, flags=re.MULTILINE)[1:]
            yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
        else:
            yield f"<p>{_inline(part)}</p>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split())))
