"""XML files as text."""

from xml.etree.ElementTree import Element, indent, tostring


def xml_text(root: Element) -> str:
    """The text of an XML file."""
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def xml_boolean(value: bool) -> str:
    """How XML writes it."""
    return str(value).lower()
