"""The model description of an FMI 3.0 FMU, in which each port of a block is one variable of the
port's shape.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from rigidblocks.fmi.description import (
    content_digest,
    describe_run,
    describe_tool,
    describe_units,
    needs_completed_step,
    range_attributes,
)
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.sparsity import in_intermediate_updates
from rigidblocks.fmi.variables import INDICATORS, Variable, Variables
from rigidblocks.fmi.xcp import XcpAddress, describe_settings
from rigidblocks.fmi.xml import xml_boolean, xml_text

_CAPABILITIES = {
    "canGetAndSetFMUState": "true",
    "canSerializeFMUState": "true",
    "providesDirectionalDerivatives": "true",
    "providesAdjointDerivatives": "true",
    "providesPerElementDependencies": "true",
}
_STEPS = {
    "canHandleVariableCommunicationStepSize": "true",
    "mightReturnEarlyFromDoStep": "true",
    "hasEventMode": "true",
}
_INTERMEDIATE_UPDATE = {
    "providesIntermediateUpdate": "true",
    "canReturnEarlyAfterIntermediateUpdate": "true",
}


@dataclass(frozen=True)
class ArrayVariable:
    """The variable of a port: its elements in C order, the first of which has the value
    reference.
    """

    name: str
    shape: tuple[int, ...]
    doc: str
    elements: tuple[Variable, ...]

    @property
    def reference(self) -> int:
        """The value reference."""
        return self.elements[0].index

    @property
    def unit(self) -> str | None:
        """The unit of all elements; None when they have different ones, which FMI 3.0 has no way to
        say.
        """
        units = {element.unit for element in self.elements}
        return units.pop() if len(units) == 1 else None

    def common(self, name: str) -> Any:
        """An attribute of all elements; None when they differ, for FMI 3.0 has one bound for a
        whole array.
        """
        values = {getattr(element, name) for element in self.elements}
        return values.pop() if len(values) == 1 else None

    @property
    def description(self) -> str:
        """What it is, with the units if there are several."""
        return (
            self.doc
            if self.unit is not None
            else f"{self.doc} [{', '.join(element.unit for element in self.elements)}]"
        )


def array_variables(variables: Variables) -> tuple[ArrayVariable, ...]:
    """The time, the ports of a block, the rates of its continuous states, and its event
    indicators.
    """
    memory = variables.memory
    time = ArrayVariable("time", (), "time", variables.all[:1])
    ports = [
        ArrayVariable(p.name, p.shape, p.doc, variables.all[memory.where[p.name]])
        for p in memory.ports
        if p.size
    ]
    rates, start = [], memory.x.start
    for p in memory.block.states:
        where = memory.where[p.name]
        elements = variables.rates[where.start - start : where.stop - start]
        if elements:
            rates.append(ArrayVariable(f"der({p.name})", p.shape, f"rate of {p.name}", elements))
    found = variables.indicators
    indicators = [ArrayVariable(INDICATORS, (len(found),), found[0].doc, found)] if found else []
    return (time, *ports, *rates, *indicators)


def model_description3(
    variables: Variables,
    identifier: str,
    content: Iterable[bytes],
    metadata: Metadata = Metadata(),  # noqa: B008 - frozen
    inner_step: float | None = None,
    xcp: XcpAddress | None = None,
) -> str:
    """The text of modelDescription.xml; the instantiation token is a digest of it and of `content`,
    as a guid is. `inner_step` [s] is that of the integrator where it is fixed.
    """
    root = Element(
        "fmiModelDescription", fmiVersion="3.0", modelName=identifier, instantiationToken=""
    )
    describe_tool(root, variables.memory.block, metadata)
    _describe_interfaces(root, variables, identifier, inner_step)
    arrays = array_variables(variables)
    describe_units(root, (array.unit for array in arrays if array.unit))
    describe_run(root, variables.memory.block)
    model_variables = SubElement(root, "ModelVariables")
    for array in arrays:
        _float64(model_variables, array, arrays)
    if xcp:
        describe_settings(model_variables, variables.count, xcp, 3)
    _structure(root, variables, arrays)
    root.set("instantiationToken", content_digest(root, content))
    return xml_text(root)


def _describe_interfaces(
    root: Element, variables: Variables, identifier: str, inner_step: float | None
) -> None:
    """Adds model exchange and co-simulation."""
    needed = {"needsCompletedIntegratorStep": xml_boolean(needs_completed_step(variables))}
    SubElement(root, "ModelExchange", modelIdentifier=identifier, attrib=needed | _CAPABILITIES)
    shown = any(in_intermediate_updates(variable) for variable in variables.all)
    steps = _STEPS | (_INTERMEDIATE_UPDATE if shown else {})
    steps |= {} if inner_step is None else {"fixedInternalStepSize": repr(inner_step)}
    SubElement(root, "CoSimulation", modelIdentifier=identifier, attrib=steps | _CAPABILITIES)


def _float64(parent: Element, array: ArrayVariable, arrays: Iterable[ArrayVariable]) -> None:
    first = array.elements[0]
    attributes = {
        "name": array.name,
        "valueReference": str(array.reference),
        "description": array.description,
        "causality": first.causality,
        "variability": first.variability,
        "intermediateUpdate": "true" if in_intermediate_updates(first) else None,
        "initial": first.initial,
        "unit": array.unit,
        **range_attributes(array.unit, *(array.common(name) for name in ("min", "max", "nominal"))),
        "derivative": None if first.state is None else str(_owners(arrays)[first.state].reference),
        "start": None
        if first.start is None
        else " ".join(repr(element.start) for element in array.elements),
    }
    element = SubElement(
        parent, "Float64", {key: value for key, value in attributes.items() if value}
    )
    for length in array.shape:
        SubElement(element, "Dimension", start=str(length))


def _structure(root: Element, variables: Variables, arrays: tuple[ArrayVariable, ...]) -> None:
    """The outputs, rates and initial unknowns with what they are computed from, by value
    reference.
    """
    structure, owners = SubElement(root, "ModelStructure"), _owners(arrays)
    lists = (
        ("Output", variables.outputs, variables.flow),
        ("ContinuousStateDerivative", variables.rates, variables.flow),
        ("InitialUnknown", (*variables.initial_unknowns, *variables.rates), variables.at_start),
        ("EventIndicator", variables.indicators, variables.flow),
    )
    for name, unknowns, knowns in lists:
        for unknown in dict.fromkeys(owners[v.index] for v in unknowns):
            references = sorted(
                {owners[known.index].reference for v in unknown.elements for known in knowns(v)}
            )
            attributes = {
                "valueReference": str(unknown.reference),
                "dependencies": " ".join(map(str, references)),
            }
            SubElement(structure, name, attributes)


def _owners(arrays: Iterable[ArrayVariable]) -> dict[int, ArrayVariable]:
    """The array that each index belongs to."""
    return {element.index: array for array in arrays for element in array.elements}
