"""Formulas of docstrings keep their content as MathML, and all formulas of blocks are rendered."""

import ast
import inspect
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import rigidblocks
import rigidblocks.library
from rigidblocks.block.block import Block
from rigidblocks.fmi.docstring_html import SYMBOLS, NotFormulaError, formulas

PACKAGE = Path(rigidblocks.__file__).parent
LETTERS = {sign: name for name, sign in SYMBOLS.items() if name != "th"}
SIGNS = {"±": "+-", "∓": "-+", "≤": "<=", "≥": ">=", "←": "<-", "⋅": ".", "…": "...", "∑": "sum"}
SIGNS |= {"\N{MINUS SIGN}": "-", "\N{MULTIPLICATION SIGN}": "x", "\N{PRIME}": "'"}


def displayed(docstring):
    """Return the indented paragraphs of a docstring."""
    for part in re.split(r"\n\s*\n", docstring or ""):
        if part and all(line.startswith("    ") for line in part.strip("\n").splitlines()):
            yield part


def docstrings():
    """Yield each docstring of the package with the name of its module and object."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield f"{path.stem}.{getattr(node, 'name', '')}", ast.get_docstring(node)


def is_program(text):
    """Return whether a paragraph is Python, C, a table or a memory layout."""
    return re.search(r"\w\.\w+\(|\"|\bself\b|@|\*\w|\{|\[0:2\]|  \w+ \w+ +\w+ \w+| \| \w", text)


def read(element):
    """Return the plain text of a MathML element, without redundant brackets of fractions."""
    inner, text = [read(child) for child in element], (element.text or "").strip()
    match element.tag:
        case "mfrac":
            return "/".join(inner)
        case "mover":
            return inner[0] + {"˙": "d", "¨": "dd"}[element[1].text]
        case "msup":
            return inner[0] + ("" if inner[1] in "'+-x*" else "^") + inner[1]
        case "msubsup":
            return inner[0] + inner[1] + ("" if inner[2] in "'+-*" else "^") + inner[2]
        case "mo":
            crossed = text[:-1] if text.endswith("*") else text
            return SIGNS.get(crossed, crossed) + text[len(crossed) :]
    parts = (one + (child.tail or "") for one, child in zip(inner, element, strict=True))
    return LETTERS.get(text, text) + "".join(parts)


def plain(text):
    """Return a formula without spaces, brackets and commas, with one spelling of derivatives."""
    text = re.sub(r"(?<=[A-Z])d(d?)ot", r"d\1", text)
    text = re.sub(r"dt\^2", "dt2", re.sub(r"d\^2(?=[a-z])", "d2", text)).replace("theta", "th")
    text = re.sub(r"\^(?=[-+*'](\W|$))", "", text)
    return re.sub(r"[\s()\[\]_`,;\u2003]", "", text)


def set_in(text, names=()):
    """Return the plain text of the MathML of a formula."""
    html = formulas(text, names).replace("&emsp;", "\u2003").replace("&nbsp;", " ")
    return plain("".join(read(line) for line in ET.fromstring(html)))


@pytest.mark.slow
def test_mathml_of_docstring_formulas_contains_every_symbol():
    """The plain text of the MathML equals the formula: letters, indices, signs, and exponents."""
    reported = [(place, part) for place, text in docstrings() for part in displayed(text)]
    found = 0
    for place, part in reported:
        try:
            said = set_in(part)
        except NotFormulaError:
            assert is_program(part) or place.startswith("step."), place
            continue
        assert said == plain(part), place
        found += 1
    assert found > 120


@pytest.mark.parametrize("name", rigidblocks.library.__all__)
def test_every_formula_of_a_block_docstring_converts_to_mathml(name):
    block = getattr(rigidblocks.library, name)
    if isinstance(block, type) and issubclass(block, Block):
        for part in displayed(inspect.cleandoc(block.__doc__)):
            formulas(part)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("qdd = a", '<mover accent="true"><mi>q</mi><mo>¨</mo></mover><mo>=</mo><mi>a</mi>'),
        ("tau_ref = 1", "<msub><mi>τ</mi><mi>ref</mi></msub><mo>=</mo><mn>1</mn>"),
        ("a/2 x = b", "<mfrac><mrow><mi>a</mi></mrow><mrow><mn>2</mn></mrow></mfrac>"),
        ("-(u + x) / T = b", "<mfrac><mrow><mrow><mi>u</mi><mo>+</mo><mi>x</mi></mrow></mrow>"),
        ("H^2 = b", "<msup><mi>H</mi><mrow><mrow><mn>2</mn></mrow></mrow></msup>"),
        ("[a; b] = c", "<mtable><mtr><mtd><mi>a</mi></mtd></mtr><mtr><mtd><mi>b</mi></mtd></mtr>"),
        ("a < 1 & b", None),
        ("a = (b", None),
        ("a = b)", None),
        ("a = b / ", None),
        ("a = ^2", None),
        ("a = b.c", None),
        ('a = "b"', None),
        ("only words, and more", None),
        ("", None),
    ],
)
def test_valid_formulas_convert_to_mathml_and_invalid_ones_are_rejected(text, html):
    if html is None:
        with pytest.raises(NotFormulaError):
            formulas(text)
    else:
        assert html in formulas(text)


def test_mathml_formula_marks_declared_variable_names():
    assert '<mi class="name">gain</mi>' in formulas("y = gain u", {"gain"})
    assert "<mi>gain</mi>" in formulas("y = gain u")
