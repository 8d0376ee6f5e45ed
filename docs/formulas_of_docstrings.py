"""Extension of griffe: formulas of docstrings as MathML."""

import re
import textwrap
from typing import Any

import griffe

from rigidblocks.fmi.docstring_html import NotFormulaError, formulas

INDENTED = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)


class Formulas(griffe.Extension):
    """Replace indented formulas in docstrings by MathML."""

    def on_object(self, *, obj: griffe.Object, **other: Any) -> None:
        """Replace the formulas in the docstring of an object."""
        del other
        if not obj.docstring:
            return
        parameters = obj.parameters if isinstance(obj, griffe.Function) else ()
        names = {*(one.name for one in parameters), *obj.members}
        value = obj.docstring.value
        obj.docstring.value = INDENTED.sub(lambda found: _set(found.group(), names), value)


def _set(text: str, names: set[str]) -> str:
    try:
        html = formulas(textwrap.dedent(text.rstrip("\n")), names)
    except NotFormulaError:
        return text
    return f"{html}\n"
