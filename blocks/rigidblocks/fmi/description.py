"""The model description of an FMI 2.0 co-simulation FMU, written from a block's variables."""

import hashlib
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import rigidblocks
from rigidblocks.block import Block
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.units import base_units

LOG_CATEGORIES = {
    "logStatusWarning": "Warnings.",
    "logStatusDiscard": "Steps that were not computed.",
    "logStatusError": "Errors.",
    "logStatusFatal": "Errors after which the FMU cannot be used.",
    "logAll": "All messages.",
}


def model_description(variables: Variables, identifier: str, content: Iterable[bytes], **capabilities: str) -> str:
    """The text of modelDescription.xml; `capabilities` are attributes of CoSimulation.

    The guid is a digest of the description and of `content`, all else that makes the FMU: equal FMUs get equal guids.
    """
    root = Element("fmiModelDescription", fmiVersion="2.0", modelName=identifier, guid="")
    root.set("description", documentation(variables.flat.block))
    root.set("generationTool", f"rigidblocks {rigidblocks.__version__}")
    root.set("variableNamingConvention", "structured")
    SubElement(
        root,
        "CoSimulation",
        modelIdentifier=identifier,
        canHandleVariableCommunicationStepSize="true",
        canGetAndSetFMUstate="true",
        canSerializeFMUstate="true",
        attrib=capabilities,
    )
    _units(root, variables.all)
    categories = SubElement(root, "LogCategories")
    for name, text in LOG_CATEGORIES.items():
        SubElement(categories, "Category", name=name, description=text)
    step = variables.flat.block.sample_time or 1e-3
    SubElement(root, "DefaultExperiment", startTime="0", stopTime="10", stepSize=repr(step))
    model_variables = SubElement(root, "ModelVariables")
    for variable in variables.all:
        _scalar_variable(model_variables, variable)
    _structure(root, variables)
    root.set("guid", _guid(root, content))
    return _text(root)


def documentation(block: Block) -> str:
    """The first line of the block's docstring, which says what it is."""
    return (type(block).__doc__ or type(block).__name__).strip().splitlines()[0]


def _units(root: Element, variables: Iterable[Variable]) -> None:
    definitions = SubElement(root, "UnitDefinitions")
    for unit in sorted({variable.unit for variable in variables}):
        exponents = {base: str(exponent) for base, exponent in base_units(unit).items()}
        SubElement(SubElement(definitions, "Unit", name=unit), "BaseUnit", exponents)


def _scalar_variable(parent: Element, variable: Variable) -> None:
    attributes = {
        "name": variable.name,
        "valueReference": str(variable.index),
        "description": variable.doc,
        "causality": variable.causality,
        "variability": variable.variability,
        "initial": variable.initial,
    }
    element = SubElement(parent, "ScalarVariable", {key: value for key, value in attributes.items() if value})
    real = SubElement(element, "Real", unit=variable.unit)
    if variable.start is not None:
        real.set("start", repr(variable.start))


def _structure(root: Element, variables: Variables) -> None:
    """The outputs and initial unknowns with what they are computed from; FMI counts variables from 1."""
    structure = SubElement(root, "ModelStructure")
    lists = (
        ("Outputs", variables.outputs, variables.direct),
        ("InitialUnknowns", variables.initial_unknowns, variables.at_start),
    )
    for name, unknowns, knowns in lists:
        if unknowns:
            parent = SubElement(structure, name)
            for unknown in unknowns:
                dependencies = " ".join(str(known.index + 1) for known in knowns(unknown))
                SubElement(parent, "Unknown", index=str(unknown.index + 1), dependencies=dependencies)


def _guid(root: Element, content: Iterable[bytes]) -> str:
    digest = hashlib.sha256(_text(root).encode())
    for part in content:
        digest.update(part)
    return "{" + digest.hexdigest()[:32] + "}"


def _text(root: Element) -> str:
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"
