"""Parameter sets, parameter mappings, transformations, units and enumerations of SSP."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.units import Quantity, Table
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.xml_reader import format_error
from rigidblocks.fmi.ssp.package import Package, read_archive
from rigidblocks.fmi.ssp.schema import (
    MAPPING,
    VALUES,
    Element,
    file_name,
    find_all,
    local_name,
    place_of,
    read,
    tag,
)

_LOG = logging.getLogger("rigidblocks")
_SET, _MAP = "application/x-ssp-parameter-set", "application/x-ssp-parameter-mapping"
Items = Mapping[str, int]  # integer values of the items of an enumeration by name


class Value(NamedTuple):
    """Parameter value in an SSP file.

    Attributes:
        value: Value, or flat array of values. Values of an enumeration are item names.
        type: SSP type, such as Real.
        unit: Name of the unit, or None.
        meaning: Physical quantity of the unit, if the parameter file defines the unit, else None.
        items: Enumeration items from the parameter file.
        element: XML element of the value.
    """

    value: Any
    type: str = "Real"
    unit: str | None = None
    meaning: Quantity | None = None
    items: Mapping[str, int] = {}
    element: Any = None


class Transformation(NamedTuple):
    """Transformation of values along a connection or a mapping entry, from source to target.

    A linear transformation returns factor * value + offset, in the unit of the target. A mapping
    transformation replaces values by means of a table.

    Attributes:
        factor: Factor of the linear transformation.
        offset: Offset of the linear transformation.
        raw: True if no unit conversion precedes the transformation.
        kind: XML name of the mapping transformation, or "".
        entries: Pairs of a value and its replacement.
    """

    factor: float = 1.0
    offset: float = 0.0
    raw: bool = False
    kind: str = ""
    entries: tuple[tuple[str, str], ...] = ()

    @property
    def is_linear(self) -> bool:
        """True if the factor is not 1 or the offset is not 0."""
        return self[:2] != (1.0, 0.0)

    def table(self, items: Items, target_items: Items) -> Table:
        """Return the mapping entries as pairs of numbers.

        Args:
            items: Enumeration items of the source.
            target_items: Enumeration items of the target.

        Returns:
            Pairs of a value and its replacement.

        Raises:
            ValueError: An entry contains the name of an unknown enumeration item.
        """
        parse = _ENTRIES[self.kind]
        if parse is not str:
            return tuple((float(parse(a)), float(parse(b))) for a, b in self.entries)
        return tuple(
            (float(item_number(a, items)), float(item_number(b, target_items)))
            for a, b in self.entries
        )


@dataclass(frozen=True)
class Location:
    """Base location of the URIs in an SSP element.

    Attributes:
        files: Files of the description.
        path: Path of the archive or folder with the files, for messages.
        component: Attribute `source` of the component that contains the element, or None.
    """

    files: Package
    path: Path
    component: str | None = None

    def source_location(self, element: Element) -> "Location":
        """Return the base location of the URI in the attribute `source` of an XML element.

        The attribute sourceBase of the element selects the files of the description or the archive
        of the component.

        Raises:
            FormatError: sourceBase is `component`, but the component has no file in the system, or
                its file is not an archive.
        """
        if element.get("sourceBase", "SSD") == "SSD":
            return self
        if self.component is None:
            text = "sourceBase is component, but the element is not in a component with a source"
            raise format_error(element, text)
        name = file_name(self.component, self.files)
        if name not in self.files:
            raise format_error(element, f"component '{name}' is missing in {self.path}")
        return Location(read_archive(self.path / name, self.files[name]), self.path / name)


class BindingValue(NamedTuple):
    """Value of a parameter binding, with the transformation and element of its mapping entry."""

    value: Value
    transformation: Transformation = Transformation()
    entry: Element = None


def bound_values(element: Element, location: Location) -> dict[str, BindingValue]:
    """Return the parameter values in the bindings of a component or system.

    If two bindings contain the same name, the later binding takes precedence.

    Args:
        element: XML element of the component or system.
        location: Files to which the bindings may refer.

    Returns:
        Values by target name. Without a parameter mapping, the target name is the parameter name
        with the prefix of the binding.
    """
    values: dict[str, BindingValue] = {}
    for binding in find_all(element, "ssd:ParameterBindings/ssd:ParameterBinding"):
        prefix = binding.get("prefix", "")
        given = {prefix + name: value for name, value in _set_of(binding, location).items()}
        mappings = list(find_all(binding, "ssd:ParameterMapping"))
        if mappings:
            values |= _apply_mapping(given, mappings[0], location)
        else:
            values |= {name: BindingValue(value) for name, value in given.items()}
    return values


def parameter_set(root: Element) -> dict[str, Value]:
    """Return the values of a parameter set by name; SSP 2.0 arrays are flat in C order.

    `root` is the XML element `ParameterSet`.

    Raises:
        FormatError: A value does not have the declared type, the size of an array differs from its
            dimensions, or two parameters have the same name.
    """
    units, enumerations = units_in(root, "ssv:Units"), enumerations_in(root, "ssv:Enumerations")
    values: dict[str, Value] = {}
    for parameter in find_all(root, "ssv:Parameters/ssv:Parameter"):
        name, of_type = parameter.get("name"), next(p for p in parameter if p.tag in _READERS)
        if name in values:
            raise format_error(parameter, f"two parameters of the set have the name '{name}'")
        try:
            value = _value(parameter, of_type)
        except ValueError as error:
            raise format_error(of_type, f"parameter '{name}': {error}") from None
        unit, items = of_type.get("unit"), enumerations.get(of_type.get("name"), {})
        kind, _ = _READERS[of_type.tag]
        if root.get("version") == "1.0" and local_name(of_type) not in _TYPES_OF_1:
            text = "%s: the parameter set has the version 1.0, but %s is a type of SSP 2.0"
            _LOG.warning(text, place_of(of_type), local_name(of_type))
        values[name] = Value(value, kind, unit, units.get(unit), items, of_type)
    return values


_TYPES_OF_1 = ("Real", "Integer", "Boolean", "String", "Enumeration", "Binary")
_BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")


def units_in(root: Element, path: str) -> dict[str, Quantity]:
    """Read the unit definitions at an XML path; return the physical quantities by unit name.

    Raises:
        FormatError: A unit has the factor 0, or two different definitions.
    """
    units: dict[str, Quantity] = {}
    for unit in find_all(root, f"{path}/ssc:Unit"):
        for base in find_all(unit, "ssc:BaseUnit"):
            powers = ((n, int(base.get(n, 0))) for n in _BASE)
            exponents = tuple(sorted((n, power) for n, power in powers if power))
            factor, offset = float(base.get("factor", 1.0)), float(base.get("offset", 0.0))
            quantity, name = Quantity(exponents, factor, offset), unit.get("name")
            if factor == 0.0:
                raise format_error(base, f"the unit '{name}' has the factor 0")
            if units.setdefault(name, quantity) != quantity:
                raise format_error(unit, f"the unit '{name}' has two different definitions")
    return units


def enumerations_in(root: Element, path: str) -> dict[str, Items]:
    """Read the enumerations at an XML path; return the items of each enumeration by its name.

    Raises:
        FormatError: Two enumerations, or two items of an enumeration, have the same name.
    """
    enumerations: dict[str, Items] = {}
    for one in find_all(root, f"{path}/ssc:Enumeration"):
        name, items = one.get("name"), dict[str, int]()
        if name in enumerations:
            raise format_error(one, f"two enumerations have the name '{name}'")
        for item in find_all(one, "ssc:Item"):
            if item.get("name") in items:
                text = f"two items of '{name}' have the name '{item.get('name')}'"
                raise format_error(item, text)
            items[item.get("name")] = int(item.get("value"))
        enumerations[name] = items
    return enumerations


def _value(parameter: Element, of_type: Element) -> Any:
    """Return the value of a parameter, or for an array parameter, the flat array of values.

    Raises:
        ValueError: A value does not have the declared type, or the number of values is wrong.
    """
    kind, reader = _READERS[of_type.tag]
    text, sizes = of_type.get("value"), [int(one.get("size")) for one in _dimensions(parameter)]
    texts = [one.get("value", one.text or "") for one in find_all(of_type, "ssv:Value")]
    if (text is None) == (not texts):
        raise ValueError(f"a {kind} needs either the attribute value or elements <Value>")
    if text is not None:
        texts = text.split() if sizes and prod(sizes) != 1 and kind != "String" else [text]
    values = []
    for one in texts:
        try:
            values.append(reader(one))
        except ValueError:
            raise ValueError(f"invalid {kind} '{one}'") from None
    if len(values) != prod(sizes):
        shape = f"an array of {' by '.join(map(str, sizes))}" if sizes else "one variable"
        raise ValueError(f"{len(values)} values given for {shape}; expected {prod(sizes)}")
    if not sizes:
        return values[0]
    array = np.empty(len(values), object if kind in _NAMES else None)
    array[:] = values
    return array


def _dimensions(parameter: Element) -> Iterator[Element]:
    for one in parameter.iter(tag("ssv:Dimension"), tag("ssc:Dimension")):
        if not one.get("size"):
            raise format_error(one, "a <Dimension> of a parameter needs the attribute size")
        yield one


def _real(text: str) -> float:
    value = float(text)
    if not (isfinite(value) and text.isascii()) or "_" in text:
        raise ValueError(text)
    return value


def _whole(text: str) -> int:
    if not text.isascii() or "_" in text or len(text) > _DIGITS:
        raise ValueError(text)
    return int(text)


_DIGITS = 32  # maximum length of an integer string; a 64-bit integer has at most 20 digits


def _boolean(text: str) -> bool:
    text = text.strip()
    if text not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text in ("true", "1")


_NAMES = ("String", "Binary", "Enumeration")
_FLOATS = ("Real", "Float64", "Float32")
_INTEGERS = ("Integer", *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)))
READERS: dict[str, tuple[str, Any]] = {  # type name and parser, by the type element in a file
    **dict.fromkeys(_FLOATS, ("Real", _real)),
    **dict.fromkeys(_INTEGERS, ("Integer", _whole)),
    "Boolean": ("Boolean", _boolean),
    "String": ("String", str),
    "Enumeration": ("Enumeration", str),
    "Binary": ("Binary", bytes.fromhex),
}
_READERS = {tag(f"ssv:{name}"): reader for name, reader in READERS.items()}


def _set_of(binding: Element, location: Location) -> dict[str, Value]:
    """Read the parameter set of a binding, and return the values by parameter name.

    The parameter set is inline or in a separate file.
    """
    _check_kind(binding, _SET)
    sets = list(find_all(binding, "ssd:ParameterValues/ssv:ParameterSet"))
    source = binding.get("source")
    if source and sets:
        raise format_error(
            binding, f"a parameter binding has both the source '{source}' and inline values"
        )
    if source:
        location = location.source_location(binding)
        return parameter_set(read(location.files, source, VALUES, location.path, binding))
    if not sets:
        _LOG.warning("%s: a parameter binding has no values", place_of(binding))
    return parameter_set(sets[0]) if sets else {}


def _apply_mapping(
    given: Mapping[str, Value], mapping: Element, location: Location
) -> dict[str, BindingValue]:
    """Apply a parameter mapping to the values `given`, and return the values by target name."""
    _check_kind(mapping, _MAP)
    source, inline = mapping.get("source"), list(find_all(mapping, "ssm:ParameterMapping"))
    if source and inline:
        raise format_error(
            mapping, f"a parameter mapping has both the source '{source}' and inline entries"
        )
    if source:
        location = location.source_location(mapping)
        roots = [read(location.files, source, MAPPING, location.path, mapping)]
    else:
        roots = inline
    entries = [entry for root in roots for entry in find_all(root, "ssm:MappingEntry")]
    mapped: dict[str, BindingValue] = {}
    for entry in entries:
        name, target = entry.get("source"), entry.get("target")
        if name not in given:
            _LOG.warning("%s: unknown parameter '%s' in a mapping", place_of(entry), name)
            continue
        if target in mapped:
            raise format_error(entry, f"two parameters are mapped to '{target}'")
        transformation, value = transformation_of(entry), given[name]
        if transformation.is_linear and value.type not in ("Real", "Integer"):
            raise format_error(
                entry, f"a parameter of type {value.type} does not support a linear transformation"
            )
        mapped[target] = BindingValue(value, transformation, entry)
    if unmapped := sorted(given.keys() - {entry.get("source") for entry in entries}):
        few = ", ".join(unmapped[:_FEW]) + (", ..." if len(unmapped) > _FEW else "")
        _LOG.warning(
            "%s: the mapping does not contain %d parameters, which are therefore not applied: %s",
            place_of(roots[0] if roots else mapping),
            len(unmapped),
            few,
        )
    return mapped


_FEW = 8  # maximum number of names that a message lists


def transformation_of(element: Element) -> Transformation:
    """Return the transformation in the XML element of a connection or a mapping entry.

    Raises:
        FormatError: An entry of a mapping does not have the declared type, or two entries have the
            same source.
    """
    raw = element.get("suppressUnitConversion") in ("true", "1")
    for one in element:
        name = local_name(one)
        if name == "LinearTransformation":
            factor, offset = float(one.get("factor", 1.0)), float(one.get("offset", 0.0))
            return Transformation(factor, offset, raw)
        if name in _ENTRIES:
            return Transformation(raw=raw, kind=name, entries=tuple(_entries_of(one, name)))
    return Transformation(raw=raw)


_ENTRIES: Mapping[str, Any] = {
    "BooleanMappingTransformation": _boolean,
    "IntegerMappingTransformation": _whole,
    "EnumerationMappingTransformation": str,
}


def _entries_of(element: Element, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the source and target of each entry of a mapping transformation.

    `kind` is the XML name of the transformation.
    """
    sources = set()
    for entry in find_all(element, "ssc:MapEntry"):
        source, target = entry.get("source"), entry.get("target")
        for text in (source, target):
            try:
                value = _ENTRIES[kind](text)
            except ValueError:
                raise format_error(entry, f"invalid value '{text}' in <{kind}>") from None
            if text is source and value in sources:
                raise format_error(entry, f"<{kind}> has two entries for '{source}'")
            sources |= {value} if text is source else set()
        yield source, target


def replace_value(value: Value, transformation: Transformation) -> Value:
    """Return a parameter value after a mapping transformation.

    Raises:
        ValueError: The type of the parameter does not support the transformation.
    """
    kind, of_type = transformation.kind, value.type
    if of_type not in MAPPED_TYPES[kind]:
        raise ValueError(f"a parameter of type {of_type} does not support <{kind}>")
    parse, given = _ENTRIES[kind], np.array(value.value, dtype=object)
    if of_type == "Enumeration" and parse is not str:  # integers replace item names
        numbers = [item_number(name, value.items) for name in np.ravel(given)]
        given = np.array(numbers, dtype=object).reshape(given.shape)
        of_type = "Integer"
    table = {parse(a): parse(b) for a, b in transformation.entries}
    replaced = np.array([table.get(one, one) for one in np.ravel(given)], dtype=object)
    result = replaced[0] if not given.shape else replaced
    if given.shape and of_type != "Enumeration":
        result = replaced.astype(type(replaced[0]))
    return value._replace(value=result, type=of_type)


MAPPED_TYPES: Mapping[str, tuple[str, ...]] = {  # types that a mapping transformation supports
    "BooleanMappingTransformation": ("Boolean",),
    "IntegerMappingTransformation": (*_INTEGERS, "Enumeration"),
    "EnumerationMappingTransformation": ("Enumeration",),
}


def item_number(name: str, items: Items) -> int:
    """Return the integer value of an enumeration item.

    `name` is an item name or an integer as text.

    Raises:
        ValueError: `name` is neither an item name nor an integer.
    """
    if name in items:
        return items[name]
    try:
        return _whole(name)
    except ValueError:
        text = f"'{name}' is not an item of the enumeration; {suggestion(name, items)}"
        raise ValueError(text) from None


def _check_kind(element: Element, kind: str) -> None:
    """Raise FormatError if the source of an element has a MIME type other than `kind`."""
    if element.get("type", kind) != kind:
        raise format_error(
            element, f"unsupported source type '{element.get('type')}'; expected '{kind}'"
        )
