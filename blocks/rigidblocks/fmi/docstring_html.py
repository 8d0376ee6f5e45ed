"""The formulas of docstrings as MathML, which browsers set without a script.

A docstring has its formulas on indented lines, in a notation that a terminal can show:

- `qd` and `qdd` are the first and the second derivative of q by time, `Gdot` and `Gddot` those of
  G, and `dq` is a change of q,
- `K_s`, `T_stab`, `b0` and `kp` have an index, `H^-1`, `K^T` and `a_s^vp` an exponent,
- `a b` is a product, `a . b` an inner one and `v x f` a cross product (`v x* f` that with a force),
- ` / ` divides the product before it by the factor behind it, `a/b` a factor by a factor,
- `[a, b; c, d]` and `[[a, b], [c, d]]` are matrices, `x[k]` is a sample of x,
- two spaces separate formulas and text on one line.

Letters are symbols, and so are names of Greek letters. Longer names stay as they are; in those that
are not names of ports and parameters one sees words.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby

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
    """A text that is none in the notation of formulas."""


@dataclass(frozen=True)
class _Token:
    text: str
    tight: bool  # nothing is between it and the token before it
    spaced: bool  # a space is behind it, or the end


@dataclass(frozen=True)
class _Piece:
    """A part of a row: its `kind` is factor or what brackets make of it, word, product or
    operator, and `inner` what is between brackets, by rows and columns.
    """

    html: str
    kind: str
    inner: tuple[tuple[str, ...], ...] = ()


def formulas(text: str, names: Collection[str] = ()) -> str:
    """The lines of a docstring's formulas as HTML, `names` those of its ports and parameters.

    Raises ValueError where the text is not in this notation, as a program is.
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
    """The parts of a line between two spaces or more outside brackets, sources apart."""
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
        return f"<small>{escape(text)}</small>"
    reader = _Reader([*_tokens(text)], names)
    pieces = reader.row("")
    if all(piece.kind == "word" for piece in pieces):
        return escape(text.replace("`", ""))
    return f'<math displaystyle="true"><mrow>{_joined(pieces)}</mrow></math>'


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
    """Reads tokens from the left to the right."""

    def __init__(self, tokens: list[_Token], names: Collection[str]) -> None:
        self.tokens, self.names, self.place = tokens, names, 0

    def next(self, ahead: int = 0) -> _Token:
        """The next token, one without text behind the last."""
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else _Token("", False, True)

    def take(self) -> _Token:
        self.place += 1
        return self.next(-1)

    def row(self, closing: str) -> list[_Piece]:
        """The pieces up to a bracket that closes, a comma or a semicolon within brackets."""
        pieces = list[_Piece]()
        ends = {"", closing, ",", ";"} if closing else {""}
        while self.next().text not in ends:
            pieces = self.with_next(pieces)
        if self.next().text != closing and (not closing or self.next().text == ""):
            raise NotFormulaError("a bracket is open")
        return pieces

    def with_next(self, pieces: list[_Piece]) -> list[_Piece]:
        """A row and what comes behind it."""
        token, after = self.next(), bool(pieces) and pieces[-1].kind in _FACTORS
        if token.text == "/":
            return self.divided(pieces)
        if token.text in ("x", "x*") and after and self.is_cross():
            return [*pieces, _operator(self.take().text, False)]
        if token.text == "sum" and self.next(1).text != "of":
            self.take()
            return [*pieces, _Piece("<mo>∑</mo>", "operator")]
        if token.text == "a" and pieces and pieces[-1].kind == "word":
            return [*pieces, _Piece(self.take().text, "word")]
        if token.text == "|" or re.match(r"[\w`([]", token.text):
            return [*pieces, self.factor()]
        if token.text == "." and (token.tight or not token.spaced):
            raise NotFormulaError("a point within a name")
        if token.text in ")]'^!*":
            raise NotFormulaError(token.text)
        self.take()
        return [*pieces, _operator(token.text, not token.spaced and not (after and token.tight))]

    def is_cross(self) -> bool:
        """Whether the next token, an x, stands for a cross product."""
        return self.next().text == "x*" or (
            self.next().spaced and bool(re.match(r"[\w(\[]", self.next(1).text))
        )

    def divided(self, pieces: list[_Piece]) -> list[_Piece]:
        """A row with a fraction at its end: of the last factor where the stroke is tight, else of
        the product before it.
        """
        tight = self.take().tight
        begin = len(pieces)
        while begin and pieces[begin - 1].kind in (_FACTORS if tight else {*_FACTORS, "product"}):
            begin -= 1
            if tight:
                break
        if begin == len(pieces) and not (begin and pieces[-1].kind == "word"):
            raise NotFormulaError("nothing is above a stroke")
        begin -= begin == len(pieces)
        above, below = pieces[begin:], self.factor()
        html = f"<mfrac>{_alone(above)}{_alone([below])}</mfrac>"
        return [*pieces[:begin], _Piece(html, "factor")]

    def factor(self) -> _Piece:
        """A symbol, a number, a word or brackets, with the exponents, primes and indices at it."""
        piece = self.atom()
        while piece.kind != "word" and self.next().tight:
            token = self.next()
            sign = token.text in ("+", "-", "*") and token.spaced and piece.kind == "factor"
            if token.text in ("^", "'") or sign:
                piece = self.raised(piece)
            elif token.text == "!":
                self.take()
                piece = _Piece(f"<mrow>{piece.html}<mo>!</mo></mrow>", "factor")
            elif token.text in ("(", "["):
                group = self.atom()
                piece = _Piece(f"<mrow>{piece.html}{group.html}</mrow>", "factor")
            else:
                break
        return piece

    def raised(self, piece: _Piece) -> _Piece:
        """A piece with an exponent, a prime or a sign above it."""
        sign = self.take().text
        above = f"<mo>{_OPERATORS.get(sign, sign)}</mo>"
        if sign == "^":
            minus = self.take().text if self.next().text in "+-*" else ""
            digits = self.next().text.isdigit() or not minus or minus == "-"
            factor = _alone([self.atom()]) if digits else ""
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
            return self.bracketed(token.text)
        if token.text[:1].isdigit():
            return _Piece(f"<mn>{token.text}</mn>", "factor")
        if not re.match(r"[\w`]", token.text):
            raise NotFormulaError(token.text or "it ends in an operator")
        called = self.next().tight and self.next().text in ("(", "^")
        return _named(token.text, self.names, called)

    def bracketed(self, opening: str) -> _Piece:
        """What is between brackets, a matrix where there are several rows."""
        closing = _CLOSED_BY[opening]
        rows, cells = list[tuple[_Piece, ...]](), list[_Piece]()
        while True:
            row = self.row(closing)
            cells.append(row[0] if len(row) == 1 else _Piece(_alone(row), "factor"))
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
        html = _fenced(opening, closing, inner)
        return _Piece(html, _KINDS[opening], inner)


def _fenced(opening: str, closing: str, inner: tuple[tuple[str, ...], ...]) -> str:
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


def _named(name: str, names: Collection[str], called: bool) -> _Piece:
    """A name: a function, a symbol with what its letters say, a port or parameter, or a word."""
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
        return _Piece(f'<mi class="name">{escape(plain)}</mi>', "factor")
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
    return f"<mi>{escape(text)}</mi>"


def _operator(text: str, prefix: bool) -> _Piece:
    form = ' form="prefix"' if prefix and text in "+-+-+" else ""
    kind = "product" if text in (".", "x", "x*") else "operator"
    return _Piece(f"<mo{form}>{escape(_OPERATORS.get(text, text))}</mo>", kind)


def _alone(pieces: list[_Piece]) -> str:
    """A row as one element, without the parentheses around the whole of it."""
    if len(pieces) == 1 and pieces[0].kind == "group" and len(pieces[0].inner) == 1:
        return f"<mrow>{'<mo>,</mo>'.join(pieces[0].inner[0])}</mrow>"
    return f"<mrow>{_joined(pieces)}</mrow>"


def _room(left: _Piece, right: _Piece) -> str:
    """What is between two pieces where they have no room of their own."""
    kinds = {left.kind, right.kind}
    if kinds == {"factor"}:
        return _THIN
    signed = right.html.startswith('<mo form="prefix"') or left.html == "<mo>,</mo>"
    return _WIDE if "word" in kinds and ("operator" not in kinds or signed) else ""


def _joined(pieces: list[_Piece]) -> str:
    """Pieces beside each other: factors with a little room, words with more."""
    html, before = list[str](), _Piece("", "operator")
    for of_words, group in groupby(pieces, lambda piece: piece.kind == "word"):
        if of_words:
            html.append(_room(before, _Piece("", "word")))
            html.append(f"<mi>{escape(' '.join(piece.html for piece in group))}</mi>")
            before = _Piece("", "word")
            continue
        for piece in group:
            html.append(_room(before, piece) + piece.html)
            before = piece
    return "".join(html)
