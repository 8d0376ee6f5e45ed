"""The model description of an FMI 2.0 FMU, written from a block's variables."""

import hashlib
from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element, SubElement

import rigidblocks
from rigidblocks.block.block import Block
from rigidblocks.block.units import base_units, display_unit
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.fmi.xcp import XcpAddress, describe_settings
from rigidblocks.fmi.xml import xml_boolean, xml_text

# of a host's solver in model exchange: a tool's own default was wrong in the third digit
TOLERANCE = "1e-08"
LOG_CATEGORIES = {
    "logStatusWarning": "Warnings.",
    "logStatusDiscard": "Steps that were not computed.",
    "logStatusError": "Errors.",
    "logStatusFatal": "Errors after which the FMU cannot be used.",
    "logAll": "All messages.",
}


def model_description(
    variables: Variables,
    identifier: str,
    content: Iterable[bytes],
    model_exchange: bool = False,
    metadata: Metadata = Metadata(),  # noqa: B008 - frozen
    xcp: XcpAddress | None = None,
    **capabilities: str,
) -> str:
    """The text of modelDescription.xml of an FMU for co-simulation and, if wanted, for model
    exchange.

    `capabilities` are attributes of CoSimulation. The guid is a digest of the description and of
    `content`, all else that makes the FMU: equal FMUs get equal guids.
    """
    root = Element("fmiModelDescription", fmiVersion="2.0", modelName=identifier, guid="")
    describe_tool(root, variables.memory.block, metadata)
    needed = needs_completed_step(variables) if model_exchange else None
    _describe_interfaces(root, identifier, needed, capabilities)
    if model_exchange and variables.events.count:
        root.set("numberOfEventIndicators", str(variables.events.count))
    all_variables = (*variables.all, *variables.rates) if model_exchange else variables.all
    describe_units(root, (variable.unit for variable in all_variables))
    describe_run(root, variables.memory.block)
    model_variables = SubElement(root, "ModelVariables")
    for variable in all_variables:
        _scalar_variable(model_variables, variable)
    if xcp:
        describe_settings(model_variables, variables.count, xcp, 2)
    _structure(root, variables, model_exchange)
    root.set("guid", content_digest(root, content))
    return xml_text(root)


def _describe_interfaces(
    root: Element, identifier: str, completed: bool | None, capabilities: Mapping[str, str]
) -> None:
    """Adds co-simulation and, unless `completed` is None, model exchange, which says whether the
    FMU is to be told of the steps of a host's solver.
    """
    states = {"canGetAndSetFMUstate": "true", "canSerializeFMUstate": "true"}
    if completed is not None:
        states["providesDirectionalDerivative"] = "true"
        needed = {"completedIntegratorStepNotNeeded": xml_boolean(not completed)}
        SubElement(root, "ModelExchange", modelIdentifier=identifier, attrib=needed | states)
    steps = {"canHandleVariableCommunicationStepSize": "true", **states, **capabilities}
    SubElement(root, "CoSimulation", modelIdentifier=identifier, attrib=steps)


def needs_completed_step(variables: Variables) -> bool:
    """Whether states or laws may have to be others after a step of a host's solver."""
    return variables.evaluator.projects or variables.events.count > 0


def describe_tool(root: Element, block: Block, metadata: Metadata) -> None:
    """Sets the attributes of an FMU of any version: what it is, who made it, and with what."""
    for name, value in ({"description": documentation(block)} | metadata.attributes()).items():
        root.set(name, value)
    root.set("generationTool", f"rigidblocks {rigidblocks.__version__}")
    root.set("variableNamingConvention", "structured")


def describe_run(root: Element, block: Block) -> None:
    """Adds the log categories and the default experiment, the same in all versions."""
    categories = SubElement(root, "LogCategories")
    for name, text in LOG_CATEGORIES.items():
        SubElement(categories, "Category", name=name, description=text)
    SubElement(
        root,
        "DefaultExperiment",
        startTime="0",
        stopTime="10",
        tolerance=TOLERANCE,
        stepSize=repr(block.sample_time or 1e-3),
    )


def documentation(block: Block) -> str:
    """The first line of the block's docstring, which says what it is."""
    return (type(block).__doc__ or type(block).__name__).strip().splitlines()[0]


def describe_units(root: Element, units: Iterable[str]) -> None:
    """Adds the definitions of the units, the same in all versions."""
    definitions = SubElement(root, "UnitDefinitions")
    for unit in sorted(filter(None, set(units))):
        exponents = {base: str(exponent) for base, exponent in base_units(unit).items()}
        element = SubElement(definitions, "Unit", name=unit)
        SubElement(element, "BaseUnit", exponents)
        if shown := display_unit(unit):
            SubElement(element, "DisplayUnit", name=shown[0], factor=repr(shown[1]))


def range_attributes(
    unit: str | None, low: float | None, high: float | None, nominal: float | None
) -> dict[str, str]:
    """The attributes displayUnit, min, max and nominal of a variable, those that there are; the
    same in all versions.
    """
    shown = display_unit(unit) if unit else None
    numbers = {"min": low, "max": high, "nominal": nominal}
    attributes = {name: repr(value) for name, value in numbers.items() if value is not None}
    return {"displayUnit": shown[0]} | attributes if shown else attributes


def _scalar_variable(parent: Element, variable: Variable) -> None:
    attributes = {
        "name": variable.name,
        "valueReference": str(variable.index),
        "description": variable.doc,
        "causality": variable.causality,
        "variability": variable.variability,
        "initial": variable.initial,
    }
    element = SubElement(
        parent, "ScalarVariable", {key: value for key, value in attributes.items() if value}
    )
    shown = range_attributes(variable.unit, variable.min, variable.max, variable.nominal)
    unit = {"unit": variable.unit} if variable.unit else {}  # '' is left open
    real = SubElement(element, "Real", unit | shown)
    if variable.start is not None:
        real.set("start", repr(variable.start))
    if variable.state is not None:
        real.set("derivative", str(variable.state + 1))


def _structure(root: Element, variables: Variables, model_exchange: bool) -> None:
    """The outputs, rates and initial unknowns with what they are computed from; FMI counts
    variables from 1.
    """
    structure = SubElement(root, "ModelStructure")
    rates = variables.rates if model_exchange else ()
    lists = (
        ("Outputs", variables.outputs, variables.flow if model_exchange else variables.direct),
        ("Derivatives", rates, variables.flow),
        ("InitialUnknowns", (*variables.initial_unknowns, *rates), variables.at_start),
    )
    for name, unknowns, knowns in lists:
        if unknowns:
            parent = SubElement(structure, name)
            for unknown in unknowns:
                dependencies = " ".join(str(known.index + 1) for known in knowns(unknown))
                SubElement(
                    parent, "Unknown", index=str(unknown.index + 1), dependencies=dependencies
                )


def content_digest(root: Element, content: Iterable[bytes]) -> str:
    """The guid of an FMU of this description and content."""
    digest = hashlib.sha256(xml_text(root).encode())
    for part in content:
        digest.update(part)
    return "{" + digest.hexdigest()[:32] + "}"
