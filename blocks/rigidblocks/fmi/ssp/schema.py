"""Reader and validator of SSP XML files, and the rules for their elements and attributes."""

import logging
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import fmpy.ssp.ssd
from lxml import etree

from rigidblocks.common.format_error import file_error
from rigidblocks.common.xml_reader import format_error, parse_xml

Element = Any  # element of lxml, which has no type annotations

_LOG = logging.getLogger("rigidblocks")
_NAME = "http://ssp-standard.org/SSP1/SystemStructure"
SPACES = {
    "ssc": f"{_NAME}Common",
    "ssd": f"{_NAME}Description",
    "ssm": f"{_NAME}ParameterMapping",
    "ssv": f"{_NAME}ParameterValues",
}
_ALL_SPACES = {**SPACES, "ssb": f"{_NAME}SignalDictionary"}
STRUCTURE, VALUES, MAPPING, DICTIONARY = (
    "ssd:SystemStructureDescription",
    "ssv:ParameterSet",
    "ssm:ParameterMapping",
    "ssb:SignalDictionary",
)
_SCHEMAS = {
    STRUCTURE: "SystemStructureDescription.xsd",
    VALUES: "SystemStructureParameterValues.xsd",
    MAPPING: "SystemStructureParameterMapping.xsd",
    DICTIONARY: "SystemStructureSignalDictionary.xsd",
}
OURS = "org.rigidblocks.cosim"  # type of the rigidblocks annotation
OMSIMULATOR = "org.openmodelica"  # type of the OMSimulator annotation
TOOL = "rigidblocks"  # start of the attribute generationTool in rigidblocks files
OUR_SPACE = "urn:rigidblocks:ssp"


class Files(Protocol):
    """Contents (bytes) by file name; file names are relative to the description."""

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> bytes: ...


def tag(name: str) -> str:
    """Return the lxml tag of an XML element from its prefixed name, such as `ssd:System`."""
    space, _, local = name.partition(":")
    return f"{{{_ALL_SPACES[space]}}}{local}"


def find_all(element: Element, path: str) -> Iterator[Element]:
    """Yield the XML elements at a path below an element, such as `ssd:Elements/ssd:System`."""
    return iter(element.findall(path, namespaces=_ALL_SPACES))


def file_name(uri: str, files: Files) -> str:
    """Return the file name for a relative URI, such as `./my%20arm.fmu`, or a file URI.

    If `files` contains a file with the name `uri`, the function returns `uri` without decoding it.
    """
    if not uri or uri in files:
        return uri
    local = url2pathname(urlsplit(uri).path) if uri.startswith("file:") else unquote(uri)
    return posixpath.normpath(local)


def read(
    files: Files, name: str, root_tag: str, path: Path, reference: Element | None = None
) -> Element:
    """Read and validate an XML file of a system, and return its root element.

    The function logs elements and attributes that have no effect on a run.

    Args:
        files: Files of the system.
        name: File name or URI.
        root_tag: Prefixed name of the expected root element.
        path: Path of the archive or folder, for error messages.
        reference: XML element that refers to the file, for error messages.

    Returns:
        Root element.

    Raises:
        FormatError: The file is missing, is not XML, or violates the standard.
    """
    uri, name = name, file_name(name, files)
    if name not in files:
        is_remote = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", uri) and not uri.startswith("file:")
        text = "expected a relative URI or a file URI" if is_remote else f"it is missing in {path}"
        if reference is not None:
            raise format_error(reference, f"cannot read the file '{uri}': {text}")
        raise file_error(path, None, f"file '{name}' is missing")
    root = parse_xml(files[name], path / name)
    declare_prefixes(root, _ALL_SPACES)
    if root.tag != tag(root_tag):
        space, local = _ALL_SPACES[root_tag[:3]], root_tag[4:]
        raise format_error(
            root,
            f"the root element is {_full_name(root)}; expected <{local}> of SSP in '{space}'",
        )
    version = root.get("version", "")
    if not re.fullmatch(r"[12]\.\d+(-.*)?", version):
        raise format_error(root, f"SSP version '{version}' is not supported; expected 1.0 or 2.0")
    if version == "1.0" and not (schema := _schema(root_tag)).validate(root):
        first = schema.error_log[0]
        raise file_error(path / name, first.line, re.sub(r"\{[^}]*\}", "", str(first.message)))
    check_content(root, RULES, _ALL_SPACES)
    _log_unused(root)
    return root


@cache
def _schema(root_tag: str) -> Any:
    """Load the XML schema of an SSP 1.0 root element from the FMPy files."""
    folder = Path(fmpy.ssp.ssd.__file__).parent / "schema"
    return etree.XMLSchema(file=str(folder / _SCHEMAS[root_tag]))


class Rule(NamedTuple):
    """Allowed content of an XML element, parsed from `Rules`.

    Attributes:
        attributes: Pairs (value type, is required) by attribute name.
        children: Triples (group, is required, is repeatable) by child name. A group contains the
            names of alternative children, such as `a|b`.
        has_text: True if the element may contain text.
    """

    attributes: Mapping[str, tuple[str, bool]]  # value type; True if required
    children: Mapping[str, tuple[str, bool, bool]]  # group; True if required; True if repeatable
    has_text: bool


Rules = Mapping[str, tuple[str, str]]
"""Attributes and children of each element.

The keys are element names. The values are pairs of strings: the attributes, written `name:kind`,
and the children, written `name`. A final `!` marks a required item, a final `*` an item that may be
repeated, and a final `*!` an item that occurs at least once. Children with a `|` between them are
alternatives: at most one of them occurs, unless they may be repeated. The child `#` is text, and
`...` is any content.
"""

INWARD = "input", "parameter", "structuralParameter"  # causalities of connectors that read a value
OUTWARD = "output", "calculatedParameter", "constant", "local"
_OPEN = "inout", "unspecified"
_REAL = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?\d{1,18}\s*", re.ASCII)
_VALUES: Mapping[str, tuple[str, Any]] = {
    "real": ("a finite number", lambda text: _REAL.fullmatch(text) and isfinite(float(text))),
    "whole": ("an integer", _WHOLE.fullmatch),
    "size": ("an integer of at least 0", re.compile(r"\d{1,18}", re.ASCII).fullmatch),
    "flag": ("true or false", lambda text: text in ("true", "false", "1", "0")),
    "name": ("a name", bool),
    "kind": (f"one of {', '.join((*INWARD, *OUTWARD, *_OPEN))}", (*INWARD, *OUTWARD, *_OPEN).count),
    "base": ("SSD or component", lambda text: text in ("SSD", "component")),
}
_XSI = "{http://www.w3.org/2001/XMLSchema-instance}"


def check_content(root: Element, rules: Rules, spaces: Mapping[str, str]) -> None:
    """Check that an element and all its descendants conform to the rules.

    The function logs a warning for each attribute without a rule.

    Args:
        root: XML element.
        rules: Allowed attributes and children of each element.
        spaces: Namespaces by prefix.

    Raises:
        FormatError: An element has no rule, has another namespace, is missing or occurs too often.
            A required attribute is missing. A value does not have the type of its rule.
    """
    prefixes = {space: prefix for prefix, space in spaces.items()}
    pending = [root]
    while pending:
        element = pending.pop()
        rule, local = _rule(_prefixed_name(element, prefixes), rules), local_name(element)
        _check_attributes(element, rule)
        if "..." in rule.children:
            continue
        texts = [element.text, *(child.tail for child in element)]
        if not rule.has_text and (text := "".join(filter(None, texts)).strip()):
            raise format_error(
                element, f"<{local}> has the text '{text[:40]}'; text is not allowed there"
            )
        groups = Counter[str]()
        for child in element:
            kind = rule.children.get(_prefixed_name(child, prefixes))
            if kind is None:
                raise format_error(
                    child,
                    f"{_full_name(child)} is unknown in <{local}>; {_expected_children(rule)}",
                )
            group, _, is_repeated = kind
            if groups[group] and not is_repeated:
                raise format_error(
                    child,
                    f"<{local_name(child)}> is not allowed here: <{local}> may contain only one "
                    f"element of the group {group}",
                )
            groups[group] += 1
            pending.append(child)
        for group, is_required, _ in rule.children.values():
            if is_required and not groups[group]:
                raise format_error(element, f"<{local}> needs {group.replace('|', ' or ')}")


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _prefixed_name(element: Element, prefixes: Mapping[str, str]) -> str:
    """Return the name of an XML element with the prefix of its namespace, such as `ssd:System`."""
    namespace, _, local = str(element.tag).removeprefix("{").rpartition("}")
    return f"{prefixes.get(namespace)}:{local}"


def declare_prefixes(root: Element, spaces: Mapping[str, str]) -> None:
    """Assign a namespace to each XML element with an undeclared namespace prefix.

    `spaces` contains the namespaces by prefix. If a prefix is undeclared, the function logs a
    warning.
    """
    undeclared = [one for one in root.iter() if str(one.tag).partition(":")[0] in spaces]
    for one in undeclared:
        prefix, _, local = str(one.tag).partition(":")
        one.tag = f"{{{spaces[prefix]}}}{local}"
    if undeclared:
        text = "%s: the file does not declare a namespace prefix; the namespace '%s' is assumed"
        _LOG.warning(text, place_of(undeclared[0]), spaces[prefix])


def _check_attributes(element: Element, rule: Rule) -> None:
    local = local_name(element)
    for name, (kind, is_required) in rule.attributes.items():
        text = element.get(name)
        if text is None and is_required:
            raise format_error(element, f"<{local}> needs the attribute {name}")
        if text is not None and kind and not _VALUES[kind][1](text):
            raise format_error(
                element, f"{name} of <{local}> must be {_VALUES[kind][0]}, not '{text[:80]}'"
            )
    if unknown := [n for n in element.attrib if n not in rule.attributes and _XSI not in n]:
        _LOG.warning(
            "%s: <%s> has the attribute %s, which is ignored",
            place_of(element),
            local,
            ", ".join(unknown),
        )


@cache
def _rule_of(attributes: str, children: str) -> Rule:
    read = {}
    for text in attributes.split():
        name, _, kind = text.rstrip("!").partition(":")
        read[name] = kind, text.endswith("!")
    listed = {}
    for group in children.split():
        names = group.rstrip("!*")
        for name in names.split("|"):
            listed[name] = names, group.endswith("!"), "*" in group
    return Rule(read, listed, "#" in listed)


def _rule(name: str, rules: Rules) -> Rule:
    return _rule_of(*rules.get(name, ("", "")))


def _full_name(element: Element) -> str:
    """Return the name of an XML element with its namespace, for error messages."""
    namespace, _, local = str(element.tag).removeprefix("{").rpartition("}")
    return f"<{local}> of {f'the namespace {namespace!r}' if namespace else 'no namespace'}"


def _expected_children(rule: Rule) -> str:
    return f"expected there: {', '.join(rule.children) or 'nothing'}"


def place_of(element: Element) -> str:
    """Return the file name and line of an XML element, such as `system.ssd:12`."""
    return f"{element.getroottree().docinfo.URL}:{element.sourceline}"


_ELEMENT = "name:name! id description"
_META = "id description author fileversion copyright license generationTool generationDateAndTime"
_MORE = "ssc:MetaData* ssc:Signature* ssc:Annotations"
_FLOATS = "Real", "Float64", "Float32"
_TYPE_NAMES = (
    *_FLOATS,
    "Integer",
    *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    "Boolean",
    "String",
    "Enumeration",
    "Binary",
)
_TYPES = "|".join(f"ssc:{name}" for name in _TYPE_NAMES)
_VALUE_TYPES = "|".join(f"ssv:{name}" for name in _TYPE_NAMES)
_MAPS = "|".join(
    f"ssc:{name}Transformation"
    for name in ("Linear", "BooleanMapping", "IntegerMapping", "EnumerationMapping")
)
_TABLE = ("", "ssc:MapEntry*!")
_BOX = "x1:real! y1:real! x2:real! y2:real!"
_OF_ELEMENT = f"ssd:Connectors ssd:ElementGeometry ssd:ParameterBindings {_MORE} ssd:Annotations"
_SOURCE = "id description type source sourceBase:base"
_META_SOURCE = "id description type! source sourceBase"
RULES: Rules = {
    "ssd:SystemStructureDescription": (
        f"version! name! {_META}",
        "ssd:System! ssd:Enumerations ssd:Units ssd:DefaultExperiment ssd:SSDVariant "
        f"{_MORE} ssd:Annotations",
    ),
    "ssd:SSDVariant": ("name baseSSD kind id description", ""),
    "ssd:DefaultExperiment": ("startTime:real stopTime:real", "ssd:Annotations"),
    "ssd:System": (
        _ELEMENT,
        f"{_OF_ELEMENT} ssd:Elements ssd:Connections ssd:SignalDictionaries ssd:SystemGeometry "
        "ssd:GraphicalElements",
    ),
    "ssd:Elements": ("", "ssd:Component|ssd:SignalDictionaryReference|ssd:System*!"),
    "ssd:Component": (f"{_ELEMENT} type source implementation", _OF_ELEMENT),
    "ssd:SignalDictionaryReference": (f"{_ELEMENT} dictionary!", _OF_ELEMENT),
    "ssd:Connectors": ("", "ssd:Connector*!"),
    "ssd:Connector": (
        f"{_ELEMENT} kind:kind!",
        f"{_TYPES}|ssc:Clock ssc:Dimension* ssd:Clock* ssd:ConnectorGeometry {_MORE} "
        "ssd:Annotations",
    ),
    "ssd:Clock": ("name! id description", "ssd:Annotations"),
    "ssd:Connections": ("", "ssd:Connection*!"),
    "ssd:Connection": (
        "id description startElement startConnector! startIndices endElement endConnector! "
        "endIndices suppressUnitConversion:flag",
        f"{_MAPS} ssd:ConnectionGeometry {_MORE} ssd:Annotations",
    ),
    "ssd:ParameterBindings": ("", "ssd:ParameterBinding*!"),
    "ssd:ParameterBinding": (
        f"{_SOURCE} prefix",
        f"ssd:ParameterValues ssd:ParameterMapping {_MORE} ssd:Annotations",
    ),
    "ssd:ParameterValues": ("", "ssv:ParameterSet"),
    "ssd:ParameterMapping": (_SOURCE, f"ssm:ParameterMapping {_MORE}"),
    "ssd:SignalDictionaries": ("", "ssd:SignalDictionary*!"),
    "ssd:SignalDictionary": (
        "id description name:name! type source",
        f"ssb:SignalDictionary {_MORE} ssd:Annotations",
    ),
    "ssd:ElementGeometry": (
        f"{_BOX} rotation:real iconSource iconRotation:real iconFlip iconFixedAspectRatio",
        "",
    ),
    "ssd:SystemGeometry": (_BOX, ""),
    "ssd:ConnectorGeometry": ("x:real! y:real! systemInnerX:real systemInnerY:real", ""),
    "ssd:ConnectionGeometry": ("pointsX! pointsY!", ""),
    "ssd:GraphicalElements": ("", "ssd:Note*!"),
    "ssd:Note": (f"{_BOX} text!", ""),
    "ssb:SignalDictionary": (
        f"version! {_META}",
        f"ssb:DictionaryEntry* ssb:Enumerations ssb:Units {_MORE} ssb:Annotations",
    ),
    "ssb:DictionaryEntry": (_ELEMENT, f"{_TYPES}|ssc:Clock ssc:Dimension* {_MORE} ssb:Annotations"),
    "ssv:ParameterSet": (
        f"version! name! {_META}",
        f"ssv:Parameters! ssv:Enumerations ssv:Units {_MORE} ssv:Annotations",
    ),
    "ssv:Parameters": ("", "ssv:Parameter*"),
    "ssv:Parameter": (
        _ELEMENT,
        f"{_VALUE_TYPES}! ssc:Dimension* ssv:Dimension* {_MORE} ssv:Annotations",
    ),
    **{f"ssv:{name}": ("value! unit" if name in _FLOATS else "value!", "") for name in _TYPE_NAMES},
    "ssv:String": ("value", "ssv:Value*"),
    "ssv:Enumeration": ("value name", "ssv:Value*"),
    "ssv:Binary": ("value mime-type", "ssv:Value*"),
    "ssv:Value": ("value", "#"),
    "ssv:Dimension": ("size:size!", ""),
    "ssm:ParameterMapping": (f"version! {_META}", f"ssm:MappingEntry* {_MORE} ssm:Annotations"),
    "ssm:MappingEntry": (
        "id description source! target! suppressUnitConversion:flag",
        f"{_MAPS} ssm:Annotations",
    ),
    **{f"ssc:{name}": ("unit" if name in _FLOATS else "", "") for name in _TYPE_NAMES},
    "ssc:Enumeration": ("name:name! id description", "ssc:Item*! ssc:Annotations"),
    "ssc:Item": ("name! value:whole!", ""),
    "ssc:Binary": ("mime-type", ""),
    "ssc:Clock": (
        "intervalVariability intervalDecimal shiftDecimal supportsFraction resolution "
        "intervalCounter shiftCounter priority",
        "",
    ),
    "ssc:Dimension": ("size:size sizeConnector", ""),
    "ssc:LinearTransformation": ("factor:real offset:real", ""),
    "ssc:BooleanMappingTransformation": _TABLE,
    "ssc:IntegerMappingTransformation": _TABLE,
    "ssc:EnumerationMappingTransformation": _TABLE,
    "ssc:MapEntry": ("source! target!", ""),
    "ssc:Unit": ("name:name! id description", "ssc:BaseUnit! ssc:Annotations"),
    "ssc:BaseUnit": (
        "kg:whole m:whole s:whole A:whole K:whole mol:whole cd:whole rad:whole "
        "factor:real offset:real",
        "",
    ),
    "ssc:MetaData": (f"kind! {_META_SOURCE}", "..."),
    "ssc:Signature": (f"role! {_META_SOURCE}", "..."),
    **{f"{space}:Annotations": ("", "ssc:Annotation*!") for space in _ALL_SPACES},
    "ssc:Annotation": ("type!", "..."),
    **{f"{space}:Units": ("", "ssc:Unit*!") for space in ("ssd", "ssb", "ssv")},
    **{f"{space}:Enumerations": ("", "ssc:Enumeration*!") for space in ("ssd", "ssb", "ssv")},
}
_UNUSED = {
    tag(name)
    for name in (
        "ssd:ElementGeometry",
        "ssd:SystemGeometry",
        "ssd:ConnectorGeometry",
        "ssd:ConnectionGeometry",
        "ssd:GraphicalElements",
        "ssd:SSDVariant",
        "ssd:Clock",
        "ssc:Clock",
        "ssc:MetaData",
        "ssc:Signature",
    )
}


def _log_unused(root: Element) -> None:
    """Log the elements of a file that have no effect on a run.

    Annotations of other tools cause a warning.
    """
    unused = Counter(local_name(one) for one in root.iter(*_UNUSED))
    if unused:
        listed = ", ".join(f"{name} ({n})" for name, n in unused.items())
        _LOG.info(
            "%s: these elements have no effect on a run: %s", root.getroottree().docinfo.URL, listed
        )
    others: dict[str, list[Element]] = {}
    for one in root.iter(tag("ssc:Annotation")):
        others.setdefault(one.get("type"), []).append(one)
    others.pop(OURS, None)
    if root.get("generationTool", "").startswith(TOOL):
        others.pop(OMSIMULATOR, None)  # written by `save_system`
    for kind, elements in others.items():
        _LOG.warning(
            "%s: annotations of the type '%s' are ignored (%d in the file)",
            place_of(elements[0]),
            kind,
            len(elements),
        )
