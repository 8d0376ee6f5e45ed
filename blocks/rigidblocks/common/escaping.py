"""Escaping of strings in XML, HTML, CSV, CMake and Mermaid files.

`tracing/c_notation.py` escapes strings in C code, and `fmi/xcp.py` in A2L files.
"""

import csv
import html
import io
import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, indent, tostring

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_MERMAID = re.compile(r"[^A-Za-z0-9 _.,:()\[\]{}+*/=→-]|->")


def xml_text(root: Element) -> str:
    """Return an XML document as a string; U+FFFD replaces characters that XML does not allow.

    Raises:
        ValueError: A name contains a character that XML does not allow.
    """
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "name" and (bad := _NOT_IN_XML.search(value)):
                raise ValueError(
                    f"the name {value!r} contains the character {bad[0]!r}, which XML does not "
                    "allow; change the name"
                )
            element.set(key, xml_characters(value))
        element.text = element.text and xml_characters(element.text)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def xml_boolean(value: bool) -> str:
    """Return a boolean as XML text: true or false."""
    return str(value).lower()


def xml_characters(text: str) -> str:
    """Replace the characters that XML and HTML do not allow by U+FFFD."""
    return _NOT_IN_XML.sub("\ufffd", text)


def html_text(text: str) -> str:
    """Return a string escaped for HTML or SVG text, or for an attribute in quotes."""
    return html.escape(xml_characters(text))


def csv_line(cells: Iterable[object], in_quotes: bool = False) -> str:
    """Return a line of CSV that ends with a newline.

    Args:
        cells: The strings and numbers of the line.
        in_quotes: True to write all strings in quotes, even if CSV does not require quotes.
    """
    line, texts = io.StringIO(), list(cells)
    in_quotes |= any(isinstance(cell, str) and "\r" in cell for cell in texts)
    csv.writer(
        line,
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if in_quotes else csv.QUOTE_MINIMAL,
    ).writerow(texts)
    return line.getvalue()


def cmake_name(text: str) -> str:
    """Return a valid CMake target name for any string."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip(".-") or "_"


def cmake_text(text: str) -> str:
    """Return a string as a quoted argument of a CMake command."""
    return '"' + re.sub(r'[\\"$]', r"\\\g<0>", text) + '"'


def mermaid_text(text: str) -> str:
    """Return a string escaped for quoted text in a Mermaid diagram."""
    return _NOT_IN_MERMAID.sub(
        lambda found: "→" if found[0] == "->" else f"#{ord(found[0])};", xml_characters(text)
    )
