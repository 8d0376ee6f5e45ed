"""The XML of SSP: namespaces, and what keeps to the schemas of the standard."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import fmpy.ssp.ssd
from lxml import etree

from rigidblocks.formats.document import parsed, refused
from rigidblocks.formats.refusal import wrong

Element = Any  # of lxml, which has no types

_NAME = "http://ssp-standard.org/SSP1/SystemStructure"
SPACES = {
    "ssc": f"{_NAME}Common",
    "ssd": f"{_NAME}Description",
    "ssm": f"{_NAME}ParameterMapping",
    "ssv": f"{_NAME}ParameterValues",
}
STRUCTURE, VALUES, MAPPING = (
    "ssd:SystemStructureDescription",
    "ssv:ParameterSet",
    "ssm:ParameterMapping",
)
_SCHEMAS = {
    STRUCTURE: "SystemStructureDescription.xsd",
    VALUES: "SystemStructureParameterValues.xsd",
    MAPPING: "SystemStructureParameterMapping.xsd",
}
OURS = "org.rigidblocks.simulation"  # the type of our annotation
OUR_SPACE = "urn:rigidblocks:ssp"


def tag(name: str) -> str:
    """The tag that lxml gives an element such as `ssd:System`."""
    space, _, local = name.partition(":")
    return f"{{{SPACES[space]}}}{local}"


def found(element: Element, path: str) -> Iterator[Element]:
    """The elements on a path such as `ssd:Elements/ssd:System` below an element."""
    return iter(element.findall(path, namespaces=SPACES))


def read(files: Mapping[str, bytes], name: str, root_tag: str, path: Path) -> Element:
    """The root element of one of the files of an archive at `path`, which keeps to the schema of
    its version where that is 1.0.

    Raises FormatError for a file that there is not, that is no XML or other than the standard says.
    """
    if name not in files:
        raise wrong(path, None, f"there is no '{name}' in it")
    root = parsed(files[name], path / name)
    if root.tag != tag(root_tag):
        raise refused(root, f"this is a <{root.tag}>; it must be a {root_tag} of SSP 1.0 or 2.0")
    if root.get("version") == "1.0" and not (schema := _schema(root_tag)).validate(root):
        first = schema.error_log[0]
        raise wrong(path / name, first.line, re.sub(r"\{[^}]*\}", "", str(first.message)))
    return root


@cache
def _schema(root_tag: str) -> Any:
    """The schema of SSP 1.0, as FMPy brings it along."""
    folder = Path(fmpy.ssp.ssd.__file__).parent / "schema"
    return etree.XMLSchema(file=str(folder / _SCHEMAS[root_tag]))
