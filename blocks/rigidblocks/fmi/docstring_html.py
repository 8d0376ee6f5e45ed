"""Conversion of docstrings to HTML, with formulas as MathML.

Formulas are the indented lines of a docstring. Their notation is also readable in a terminal:

- `qd` and `qdd` are the first and second time derivatives of q,
- `Gdot` and `Gddot` are the first and second time derivatives of G, and `dq` is a change of q,
- `K_s`, `T_stab`, `b0` and `kp` have an index, `H^-1`, `K^T` and `a_s^vp` an exponent,
- `a b` is a product, `a . b` an inner product and `v x f` a cross product (`v x* f` with a force),
- ` / ` with spaces divides the whole preceding product by the next factor, `a/b` without spaces
  divides one factor by another,
- `[a, b; c, d]` and `[[a, b], [c, d]]` are matrices, `x[k]` is a sample of x,
- two spaces separate formulas from text on the same line.

Single letters and names of Greek letters are displayed as symbols, longer names unchanged. A longer
name is displayed as a variable if it is the name of a port, a parameter or a function. All other
names are displayed as words.
"""

import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from rigidblocks.common.escaping import html_text

# No library reads this notation. In AsciiMath, which is similar, `H^-1` has the exponent "-" only,
# `W_nn` has an intersection sign as its index, and `[a, b; c, d]` is invalid. LaTeX is hard to read
# in a terminal, and its converter would be one more core dependency.
_FROM_ALPHA = """alpha beta gamma delta epsilon zeta eta theta iota kappa lam mu nu xi omicron pi
    rho varsigma sigma tau upsilon phi chi psi omega"""
SYMBOLS = {name: chr(0x3B1 + k) for k, name in enumerate(_FROM_ALPHA.split())}
SYMBOLS |= {"Phi": "Φ", "Delta": "Δ", "Omega": "Ω", "th": "θ"}
_CALLED = """sin cos tan atan2 sqrt floor tanh max min mid exp log diag tr ad rnea ID scrx scrz
    table function derivative project update output"""
_FUNCTIONS = frozenset(_CALLED.split())
_MINUS, _TIMES, _PRIME = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{PRIME}"
_OPERATORS = {
    "-": _MINUS,
    "+-": "±",
    "-+": "∓",
    "<=": "≤",
    ">=": "≥",
    "<-": "←",
    ".": "⋅",
    "...": "…",
    "x": _TIMES,
    "'": _PRIME,
    "x*": f"{_TIMES}*",
}
_CROSSED = {f"{letter}x": f"<mrow><mi>{letter}</mi><mo>{_TIMES}</mo></mrow>" for letter in "chr"}
_NUMBER, _WORD = r"\d+(?:\.\d+)?(?:e-?\d+)?", r"[A-Za-z]{4,}-[a-z]{4,}|[A-Za-z_]\w*(?:'s\b)?"
_SIGN = r"\.\.\.|<=|>=|<-|-\+|\+-|[-+*/^=<>|,;()[\].'!]"
_TOKEN = re.compile(rf"{_NUMBER}|`[^`]+`|{_WORD}|{_SIGN}")
_SYMBOL = re.compile(
    rf"(?P<change>d2?(?=[a-zA-Z]))?(?P<letter>{'|'.join(SYMBOLS)}|[A-Za-z])"
    r"(?P<dots>(?<!k)d{1,2}|dd?ot)?(?P<index>\d\w{0,2}|(?<=v)[JO]|(?<=w)J|(?<=k)[pid]|(?<=T)[a-z])?"
    r"(?:_(?P<below>\w+))?"
)
_SOURCE = re.compile(r"\((?:RBDA|Spencer)[^()]*\)")
_KINDS = {"(": "group", "[": "matrix", "|": "size"}
_FACTORS = {"factor", *_KINDS.values()}
_CLOSED_BY = {"(": ")", "[": "]", "|": "|"}
_THIN, _WIDE = (f'<mspace width="{width}em"></mspace>' for width in (0.17, 0.3))


class NotFormulaError(ValueError):
    """Error for a text that does not follow the formula notation."""


@dataclass(frozen=True)
class _Token:
    text: str
    tight: bool  # no space before the token
    spaced: bool  # a space, or the end of the text, after the token


@dataclass(frozen=True)
class _Piece:
    """Element of a formula row as MathML.

    `kind` is factor, word, product or operator, or the type of a bracket: "(" for a group, "[" for
    a matrix, "|" for an absolute value. `inner` contains the MathML of each cell of a bracket, row
    by row.
    """

    html: str
    kind: str
    inner: tuple[tuple[str, ...], ...] = ()


def formulas(text: str, names: Collection[str] = ()) -> str:
    """Convert the formula lines of a docstring to HTML.

    Args:
        text: Lines of formulas.
        names: Names of ports and parameters.

    Returns:
        HTML with MathML.

    Raises:
        ValueError: The text does not follow the notation, for example because it is code.
    """
    lines = text.splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    texts = [_line(line[margin:], names) for line in lines]
    if not any(re.search(r"[=<>+^;]|\w\(", line) for line in lines):
        raise NotFormulaError(text)
    return f'<div class="formulas">{"".join(texts)}</div>'


def _line(line: str, names: Collection[str]) -> str:
    indent = (len(line) - len(line.lstrip())) / 2
    style = f' style="margin-left:{indent:g}em"' if indent else ""
    html = (_segment(segment, names) for segment in _segments(line.strip()))
    return f"<div{style}>{' &emsp; '.join(html)}</div>"


def _segments(line: str) -> Iterator[str]:
    """Split a formula line at two or more spaces outside brackets, and yield the segments.

    A reference to a source, such as (RBDA Eq 2.1), is also a segment.
    """
    depth, begin = 0, 0
    for match in re.finditer(r"(?=\((?:RBDA|Spencer))|[([]|[)\]]|  +", line):
        if match.group() in ("(", "["):
            depth += 1
        elif match.group() in (")", "]"):
            depth -= 1
        elif depth == 0 and (segment := line[begin : match.start()].strip()):
            yield segment
            begin = match.start()
    yield line[begin:].strip()


def _segment(text: str, names: Collection[str]) -> str:
    if _SOURCE.fullmatch(text):
        return f"<small>{html_text(text)}</small>"
    reader = _Reader([*_tokens(text)], names)
    pieces = reader.row("")
    if all(piece.kind == "word" for piece in pieces):
        return html_text(text.replace("`", ""))
    return f'<math displaystyle="true"><mrow>{_join(pieces)}</mrow></math>'


def _tokens(text: str) -> Iterator[_Token]:
    end = 0
    while end < len(text):
        begin = end + len(text[end:]) - len(text[end:].lstrip())
        match = _TOKEN.match(text, begin)
        if not match:
            raise NotFormulaError(text)
        if match.group() == "x" and text[match.end() :].startswith("* "):
            match = re.compile(r"x\*").match(text, begin) or match
        spaced = text[match.end() : match.end() + 1] in ("", *" ,;)]|")
        yield _Token(match.group(), begin == end and begin > 0, spaced)
        end = match.end()


class _Reader:
    """Parser of one formula, with the position of the next token as its state."""

    def __init__(self, tokens: list[_Token], names: Collection[str]) -> None:
        self.tokens, self.names, self.place = tokens, names, 0

    def peek(self, ahead: int = 0) -> _Token:
        """Return the token `ahead` positions after the next token without reading it.

        After the last token, the result is an empty token.
        """
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else _Token("", False, True)

    def take(self) -> _Token:
        self.place += 1
        return self.peek(-1)

    def row(self, closing: str) -> list[_Piece]:
        """Parse the symbols and operators up to the closing bracket or a separator (, or ;).

        If `closing` is "", the row extends to the end of the formula.
        """
        pieces = list[_Piece]()
        ends = {"", closing, ",", ";"} if closing else {""}
        while self.peek().text not in ends:
            pieces = self.append_next(pieces)
        if self.peek().text != closing and (not closing or self.peek().text == ""):
            raise NotFormulaError("a bracket is not closed")
        return pieces

    def append_next(self, pieces: list[_Piece]) -> list[_Piece]:
        """Parse the next symbol or operator; return the row `pieces` extended by this element."""
        token, after = self.peek(), bool(pieces) and pieces[-1].kind in _FACTORS
        if token.text == "/":
            return self.append_fraction(pieces)
        if token.text in ("x", "x*") and after and self.is_cross():
            return [*pieces, _operator(self.take().text, False)]
        if token.text == "sum" and self.peek(1).text != "of":
            self.take()
            return [*pieces, _Piece("<mo>∑</mo>", "operator")]
        if token.text == "a" and pieces and pieces[-1].kind == "word":
            return [*pieces, _Piece(self.take().text, "word")]
        if token.text == "|" or re.match(r"[\w`([]", token.text):
            return [*pieces, self.factor()]
        if token.text == "." and (token.tight or not token.spaced):
            raise NotFormulaError("a name contains a dot")
        if token.text in ")]'^!*":
            raise NotFormulaError(token.text)
        self.take()
        return [*pieces, _operator(token.text, not token.spaced and not (after and token.tight))]

    def is_cross(self) -> bool:
        """Return True if the next token, which is x or x*, denotes a cross product."""
        return self.peek().text == "x*" or (
            self.peek().spaced and bool(re.match(r"[\w(\[]", self.peek(1).text))
        )

    def append_fraction(self, pieces: list[_Piece]) -> list[_Piece]:
        """Parse a slash and a denominator into a fraction.

        Returns the row in which the fraction replaces its numerator. If the slash has no spaces
        around it, the numerator is the last factor of the row. Otherwise, it is the last product.
        """
        tight = self.take().tight
        begin = len(pieces)
        while begin and pieces[begin - 1].kind in (_FACTORS if tight else {*_FACTORS, "product"}):
            begin -= 1
            if tight:
                break
        if begin == len(pieces) and not (begin and pieces[-1].kind == "word"):
            raise NotFormulaError("a fraction has no numerator")
        begin -= begin == len(pieces)
        above, below = pieces[begin:], self.factor()
        html = f"<mfrac>{_single_element(above)}{_single_element([below])}</mfrac>"
        return [*pieces[:begin], _Piece(html, "factor")]

    def factor(self) -> _Piece:
        """Parse a symbol, number, word or bracket with its superscripts and arguments."""
        piece = self.atom()
        while piece.kind != "word" and self.peek().tight:
            token = self.peek()
            sign = token.text in ("+", "-", "*") and token.spaced and piece.kind == "factor"
            if token.text in ("^", "'") or sign:
                piece = self.superscript(piece)
            elif token.text == "!":
                self.take()
                piece = _Piece(f"<mrow>{piece.html}<mo>!</mo></mrow>", "factor")
            elif token.text in ("(", "["):
                group = self.atom()
                piece = _Piece(f"<mrow>{piece.html}{group.html}</mrow>", "factor")
            else:
                break
        return piece

    def superscript(self, piece: _Piece) -> _Piece:
        """Parse an exponent, prime or sign; return `piece` with this superscript."""
        sign = self.take().text
        above = f"<mo>{_OPERATORS.get(sign, sign)}</mo>"
        if sign == "^":
            minus = self.take().text if self.peek().text in "+-*" else ""
            digits = self.peek().text.isdigit() or not minus or minus == "-"
            factor = _single_element([self.atom()]) if digits else ""
            factor = factor.replace("<mi>T</mi>", '<mi mathvariant="normal">T</mi>')
            above = f"<mrow>{_operator(minus, True).html if minus else ''}{factor}</mrow>"
        base = piece.html
        if base.startswith("<msub>") and base.endswith("</msub>"):
            inside = base.removeprefix("<msub>").removesuffix("</msub>")
            return _Piece(f"<msubsup>{inside}{above}</msubsup>", "factor")
        return _Piece(f"<msup>{base}{above}</msup>", "factor")

    def atom(self) -> _Piece:
        token = self.take()
        if token.text in _CLOSED_BY:
            return self.read_brackets(token.text)
        if token.text[:1].isdigit():
            return _Piece(f"<mn>{token.text}</mn>", "factor")
        if not re.match(r"[\w`]", token.text):
            raise NotFormulaError(token.text or "the formula ends with an operator")
        called = self.peek().tight and self.peek().text in ("(", "^")
        return _name_piece(token.text, self.names, called)

    def read_brackets(self, opening: str) -> _Piece:
        """Parse a bracketed expression up to its closing bracket; return its MathML element.

        Several rows become a matrix.
        """
        closing = _CLOSED_BY[opening]
        rows, cells = list[tuple[_Piece, ...]](), list[_Piece]()
        while True:
            row = self.row(closing)
            cells.append(row[0] if len(row) == 1 else _Piece(_single_element(row), "factor"))
            end = self.take().text
            if end == ",":
                continue
            rows.append(tuple(cells))
            cells = []
            if end == closing:
                break
        inner = tuple(tuple(cell.html for cell in row) for row in rows)
        if opening == "[" and all(cell.kind == "matrix" for row in rows for cell in row):
            inner = tuple(cell.inner[0] for cell in rows[0])
        html = _fence(opening, closing, inner)
        return _Piece(html, _KINDS[opening], inner)


def _fence(opening: str, closing: str, inner: tuple[tuple[str, ...], ...]) -> str:
    if len(inner) > 1:
        rows = ("".join(f"<mtd>{cell}</mtd>" for cell in row) for row in inner)
        body = f"<mtable>{''.join(f'<mtr>{row}</mtr>' for row in rows)}</mtable>"
    else:
        body = "<mo>,</mo>".join(inner[0])
    high = "true" if re.search("<mfrac|<mtable", body) else "false"
    fence = f'fence="true" stretchy="{high}"'
    return (
        f'<mrow><mo form="prefix" {fence}>{opening}</mo>{body}'
        f'<mo form="postfix" {fence}>{closing}</mo></mrow>'
    )


def _name_piece(name: str, names: Collection[str], called: bool) -> _Piece:
    """Convert a name to the MathML of a function, symbol, variable or word.

    `names` contains port and parameter names. `called` is True if an argument or an exponent
    follows the name, as in sin(x) or sin^2(x).
    """
    plain = name.strip("`")
    if called and plain in _FUNCTIONS:
        return _Piece(f"<mi>{plain}</mi>", "factor")
    if plain in _CROSSED:
        return _Piece(_CROSSED[plain], "factor")
    match = _SYMBOL.fullmatch(plain)
    if match:
        return _Piece(_symbol(match), "factor")
    if indexed := re.fullmatch(r"([a-z]+)_(\w{1,2})", plain):
        html = f'<msub><mi class="name">{indexed[1]}</mi>{_index(indexed[2])}</msub>'
        return _Piece(html, "factor")
    if called or plain in names or "_" in plain or name != plain:
        return _Piece(f'<mi class="name">{html_text(plain)}</mi>', "factor")
    return _Piece(plain, "word")


def _symbol(match: re.Match[str]) -> str:
    letter = match["letter"]
    html = f"<mi>{SYMBOLS.get(letter, letter)}</mi>"
    if dots := match["dots"]:
        count = 2 if dots.startswith("dd") else 1
        html = f'<mover accent="true">{html}<mo>{"˙¨"[count - 1]}</mo></mover>'
    power = match["index"] if match["change"] and letter == "t" else None
    if power:
        html = f"<msup>{html}<mn>{power}</mn></msup>"
    elif index := ",".join(filter(None, (match["index"], match["below"]))):
        html = f"<msub>{html}{_index(index)}</msub>"
    change = "<msup><mi>d</mi><mn>2</mn></msup>" if match["change"] == "d2" else "<mi>d</mi>"
    return f"<mrow>{change}{html}</mrow>" if match["change"] else html


def _index(text: str) -> str:
    if text.isdigit():
        return f"<mn>{text}</mn>"
    return f"<mi>{html_text(text)}</mi>"


def _operator(text: str, prefix: bool) -> _Piece:
    form = ' form="prefix"' if prefix and text in "+-+-+" else ""
    kind = "product" if text in (".", "x", "x*") else "operator"
    return _Piece(f"<mo{form}>{html_text(_OPERATORS.get(text, text))}</mo>", kind)


def _single_element(pieces: list[_Piece]) -> str:
    """Return the MathML element `mrow` for a formula row, without enclosing parentheses."""
    if len(pieces) == 1 and pieces[0].kind == "group" and len(pieces[0].inner) == 1:
        return f"<mrow>{'<mo>,</mo>'.join(pieces[0].inner[0])}</mrow>"
    return f"<mrow>{_join(pieces)}</mrow>"


def _space_between(left: _Piece, right: _Piece) -> str:
    """Return the MathML of the space between two adjacent formula elements."""
    kinds = {left.kind, right.kind}
    if kinds == {"factor"}:
        return _THIN
    signed = right.html.startswith('<mo form="prefix"') or left.html == "<mo>,</mo>"
    return _WIDE if "word" in kinds and ("operator" not in kinds or signed) else ""


def _join(pieces: list[_Piece]) -> str:
    """Return the MathML of a row, with thin spaces between factors and wide spaces around words."""
    html, before = list[str](), _Piece("", "operator")
    for of_words, group in groupby(pieces, lambda piece: piece.kind == "word"):
        if of_words:
            html.append(_space_between(before, _Piece("", "word")))
            html.append(f"<mi>{html_text(' '.join(piece.html for piece in group))}</mi>")
            before = _Piece("", "word")
            continue
        for piece in group:
            html.append(_space_between(before, piece) + piece.html)
            before = piece
    return "".join(html)


def html_paragraphs(text: str, names: Collection[str] = ()) -> Iterator[str]:
    """Convert a docstring to HTML and yield its paragraphs.

    Indented lines are formulas with the port names `names`, or code. Lines that begin with a dash
    are list items. Text between backticks is code.
    """
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield _display_html(textwrap.dedent(part), names)
        elif lines[0].startswith("- "):
            items = re.split(r"^- ", part, flags=re.MULTILINE)[1:]
            yield f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"
        else:
            yield f"<p>{_inline(part)}</p>"


def _display_html(text: str, names: Collection[str]) -> str:
    try:
        return formulas(text, names)
    except NotFormulaError:
        return f"<pre>{html_text(text)}</pre>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html_text(" ".join(text.split())))
