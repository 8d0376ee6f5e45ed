"""Values of parameters: sets (SSV), mappings (SSM), and what they are bound to."""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.quantities import Quantity
from rigidblocks.formats.document import refused
from rigidblocks.ssp.schema import MAPPING, VALUES, Element, found, read, tag
from rigidblocks.ssp.structure import Scale, Value

_SET, _MAP = "application/x-ssp-parameter-set", "application/x-ssp-parameter-mapping"
Values = dict[str, Value]


def bound_values(element: Element, files: Mapping[str, bytes], path: Path) -> Values:
    """The values that the parameter bindings of a component or system give, by the names that they
    have there; later bindings win.
    """
    values: Values = {}
    for binding in found(element, "ssd:ParameterBindings/ssd:ParameterBinding"):
        prefix = binding.get("prefix", "")
        given = {prefix + name: value for name, value in _set_of(binding, files, path)}
        mappings = list(found(binding, "ssd:ParameterMapping"))
        values |= _mapped(given, mappings[0], files, path) if mappings else given
    return values


def parameter_set(root: Element) -> Iterator[tuple[str, Value]]:
    """The values of a parameter set by name; an array of SSP 2.0 is flat, in C order.

    Raises FormatError for a value that is none of its type, an array of another size than its
    dimensions', and for an enumeration by its name.
    """
    known = dict(units_in(root, "ssv:Units"))
    for parameter in found(root, "ssv:Parameters/ssv:Parameter"):
        for of_type in parameter:
            if of_type.tag in _READERS and of_type.get("value") is not None:
                kind, _ = _READERS[of_type.tag]
                try:
                    value = _value(parameter, of_type)
                except ValueError as error:
                    text = f"parameter '{parameter.get('name')}': {error}"
                    raise refused(of_type, text) from None
                unit = of_type.get("unit")
                yield parameter.get("name"), Value(value, kind, unit, known.get(unit))


_BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")


def units_in(root: Element, path: str) -> Iterator[tuple[str, Quantity]]:
    """The units that a file defines on a path, by their names."""
    for unit in found(root, f"{path}/ssc:Unit"):
        for base in found(unit, "ssc:BaseUnit"):
            powers = ((n, int(base.get(n, 0))) for n in _BASE)
            exponents = tuple(sorted((n, power) for n, power in powers if power))
            factor, offset = float(base.get("factor", 1.0)), float(base.get("offset", 0.0))
            yield unit.get("name"), Quantity(exponents, factor, offset)


def _value(parameter: Element, of_type: Element) -> Any:
    """The value of a parameter, or the array of its values.

    Raises ValueError for what is none.
    """
    kind, reader = _READERS[of_type.tag]
    text, sizes = of_type.get("value"), [one.get("size") for one in parameter.iter(*_DIMENSION)]
    values = []
    for one in text.split() if sizes else [text]:
        try:
            values.append(reader(one))
        except ValueError:
            raise ValueError(f"'{one}' is no {kind}") from None
    if not sizes:
        return values[0]
    if all(one and one.isdigit() for one in sizes) and len(values) != prod(map(int, sizes)):
        raise ValueError(f"there are {len(values)} values for an array of {' by '.join(sizes)}")
    return np.array(values)


def _boolean(text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text in ("true", "1")


_DIMENSION = tag("ssv:Dimension"), tag("ssc:Dimension")
_WHOLE = tuple(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
_READERS: dict[str, tuple[str, Any]] = {
    **{tag(f"ssv:{name}"): ("Real", float) for name in ("Real", "Float64", "Float32")},
    **{tag(f"ssv:{name}"): ("Integer", int) for name in ("Integer", *_WHOLE)},
    tag("ssv:Boolean"): ("Boolean", _boolean),
    tag("ssv:String"): ("String", str),
    tag("ssv:Enumeration"): ("Enumeration", int),
    tag("ssv:Binary"): ("Binary", bytes.fromhex),
}


def _set_of(
    binding: Element, files: Mapping[str, bytes], path: Path
) -> Iterator[tuple[str, Value]]:
    _check_kind(binding, _SET)
    for inline in found(binding, "ssd:ParameterValues/ssv:ParameterSet"):
        yield from parameter_set(inline)
    if source := binding.get("source"):
        yield from parameter_set(read(files, source, VALUES, path))


def _mapped(given: Values, mapping: Element, files: Mapping[str, bytes], path: Path) -> Values:
    """What a mapping makes of values: those that it names by the names that it gives them, and the
    others as they are.
    """
    _check_kind(mapping, _MAP)
    source = mapping.get("source")
    root = read(files, source, MAPPING, path) if source else mapping
    path_to = "ssm:MappingEntry" if source else "ssm:ParameterMapping/ssm:MappingEntry"
    entries = list(found(root, path_to))
    mapped = {
        entry.get("target"): _changed(value, scale_of(entry), entry)
        for entry in entries
        if (value := given.get(entry.get("source"))) is not None
    }
    sources = {entry.get("source") for entry in entries}
    return {name: value for name, value in given.items() if name not in sources} | mapped


def scale_of(element: Element) -> Scale:
    """The transformation of a connection or a mapping.

    Raises FormatError for one that is not linear.
    """
    raw = element.get("suppressUnitConversion") in ("true", "1")
    for one in element:
        name = str(one.tag).rpartition("}")[2]
        if name == "LinearTransformation":
            return Scale(float(one.get("factor", 1.0)), float(one.get("offset", 0.0)), raw)
        if name.endswith("MappingTransformation"):
            text = "is not applied; a linear one is, and a block can do any other"
            raise refused(one, f"a {name} {text}")
    return Scale(raw=raw)


def _changed(value: Value, scale: Scale, entry: Element) -> Value:
    if scale[:2] == (1.0, 0.0):
        return value
    if value.type not in ("Real", "Integer"):
        raise refused(entry, f"a {value.type} has no linear transformation")
    return value._replace(value=scale.factor * value.value + scale.offset)


def _check_kind(element: Element, kind: str) -> None:
    """Raises FormatError for a source of another kind or place."""
    if element.get("type", kind) != kind:
        raise refused(element, f"'{element.get('type')}' cannot be read; '{kind}' can")
    if element.get("sourceBase", "SSD") != "SSD":
        raise refused(element, "a source inside a component cannot be read; put it beside the SSD")
