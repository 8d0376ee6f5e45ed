"""FMI 2.0 and FMI 3.0 model descriptions, generated from the variables of a block.

The base class `_Writer` writes the elements that both FMI versions have, and defines the order of
all elements. Each subclass writes the elements of one version. In FMI 2.0, each element of a port
is a scalar variable; in FMI 3.0, each port is an array variable.
"""

import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar
from xml.etree.ElementTree import Element, SubElement

from rigidblocks.block.block import Block
from rigidblocks.block.units import base_units, display_unit
from rigidblocks.common.escaping import xml_boolean, xml_text
from rigidblocks.common.package_info import __version__
from rigidblocks.fmi.variables import INDICATORS, Variable, Variables, is_in_intermediate_updates
from rigidblocks.fmi.xcp import XcpAddress, describe_settings

# Tolerance of the default experiment. Importers use it for their solver in model exchange; with
# their own default tolerances, results had errors in the third digit.
TOLERANCE = "1e-08"
LOG_CATEGORIES = {
    "logStatusWarning": "Warnings.",
    "logStatusDiscard": "Steps that were not computed.",
    "logStatusError": "Errors.",
    "logStatusFatal": "Errors after which the FMU cannot be used.",
    "logAll": "All messages.",
}
_CAPABILITIES3 = {
    "canGetAndSetFMUState": "true",
    "canSerializeFMUState": "true",
    "providesDirectionalDerivatives": "true",
    "providesAdjointDerivatives": "true",
    "providesPerElementDependencies": "true",
}
_STEPS3 = {
    "canHandleVariableCommunicationStepSize": "true",
    "mightReturnEarlyFromDoStep": "true",
    "hasEventMode": "true",
}
_INTERMEDIATE_UPDATE = {
    "providesIntermediateUpdate": "true",
    "canReturnEarlyAfterIntermediateUpdate": "true",
}
Unknowns = tuple[str, Iterable[Variable], Callable[[Variable], Iterable[Variable]]]
"""Name of a list in ModelStructure, its unknowns, and the variables that an unknown depends on."""


@dataclass(frozen=True)
class Metadata:
    """User-defined attributes of a model description, such as the author and the version.

    The model description omits attributes that are None. By default, `description` is the first
    line of the block's docstring.
    """

    author: str | None = None
    version: str | None = None
    copyright: str | None = None
    license: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.attributes().items():
            if not (isinstance(value, str) and value.isprintable()):
                raise ValueError(f"the {name} of an FMU must be one line of text, not {value!r}")

    def attributes(self) -> dict[str, str]:
        """Return the attributes that are not None as a dictionary."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def model_description(
    variables: Variables,
    identifier: str,
    content: Iterable[bytes],
    model_exchange: bool = False,
    metadata: Metadata = Metadata(),
    xcp: XcpAddress | None = None,
    **capabilities: str,
) -> str:
    """Return the text of an FMI 2.0 modelDescription.xml file.

    The guid is a digest of the description and of `content`, so equal FMUs have equal guids.

    Args:
        variables: Variables of the block.
        identifier: Model name and model identifier.
        content: All other files of the FMU, for the guid.
        model_exchange: True to describe also model exchange, with the state derivatives and event
            indicators.
        metadata: Author, version and other attributes.
        xcp: Address of the XCP server of the FMU.
        **capabilities: Additional attributes of CoSimulation.

    Returns:
        XML text.
    """
    return _Writer2(variables, identifier, metadata, xcp, model_exchange, capabilities).description(
        content
    )


def model_description3(
    variables: Variables,
    identifier: str,
    content: Iterable[bytes],
    metadata: Metadata = Metadata(),
    inner_step: float | None = None,
    xcp: XcpAddress | None = None,
    output_order: int = 0,
    interval: float | None = None,
    clock: str | None = None,
) -> str:
    """Return the text of an FMI 3.0 modelDescription.xml file.

    The instantiation token is a digest of the description and of `content`.

    Args:
        variables: Variables of the block.
        identifier: Model name and model identifier.
        content: All other files of the FMU, for the instantiation token.
        metadata: Author, version and other attributes.
        inner_step: Step size of the integrator [s], if it is fixed.
        xcp: Address of the XCP server of the FMU.
        output_order: Highest order of output derivatives.
        interval: Clock interval [s] for scheduled execution; None for other interface types.
        clock: Type of the sampling clock, "periodic" or "triggered", or None.

    Returns:
        XML text.
    """
    options = inner_step, output_order
    if interval is not None:
        return _ScheduledWriter(
            variables, identifier, metadata, xcp, *options, interval=interval
        ).description(content)
    return _Writer3(variables, identifier, metadata, xcp, *options, clock).description(content)


def output_order_attribute(order: int) -> dict[str, str]:
    """Return the XML attribute for the highest order of output derivatives, or {} for order 0."""
    return {"maxOutputDerivativeOrder": str(order)} if order else {}


@dataclass(frozen=True, eq=False)
class _Writer(ABC):
    """Base class of the FMI 2.0 and FMI 3.0 model description writers."""

    variables: Variables
    identifier: str
    metadata: Metadata
    xcp: XcpAddress | None

    fmi: ClassVar[int]
    token: ClassVar[str]  # name of the attribute with the digest of the FMU

    def description(self, content: Iterable[bytes]) -> str:
        """Return the model description as XML text, with a digest that identifies the FMU.

        The digest covers the model description and `content`, which contains all other files.
        """
        token = {self.token: ""}
        root = Element(
            "fmiModelDescription",
            {"fmiVersion": f"{self.fmi}.0", "modelName": self.identifier} | token,
        )
        block = self.variables.memory.block
        _describe_tool(root, block, self.metadata)
        self.add_interfaces(root)
        _describe_units(root, self.units())
        _describe_run(root, block)
        parent = SubElement(root, "ModelVariables")
        self.add_variables(parent)
        if self.xcp:
            describe_settings(parent, self.variables.count, self.xcp, self.fmi)
        structure = SubElement(root, "ModelStructure")
        for name, unknowns, knowns in self.unknowns():
            self.add_unknowns(structure, name, [*unknowns], knowns)
        root.set(self.token, _content_digest(root, content))
        return xml_text(root)

    @property
    def needs_completed_step(self) -> bool:
        """Return True if the importer must call completedIntegratorStep after each step."""
        return self.variables.evaluator.has_projection or self.variables.events.count > 0

    @abstractmethod
    def add_interfaces(self, root: Element) -> None:
        """Add the elements ModelExchange and CoSimulation with their attributes."""

    @abstractmethod
    def units(self) -> Iterable[str]:
        """Return the units of all variables, with repetitions."""

    @abstractmethod
    def add_variables(self, parent: Element) -> None:
        """Add an XML element for each variable."""

    @abstractmethod
    def unknowns(self) -> tuple[Unknowns, ...]:
        """Return the lists of unknowns in the element ModelStructure, such as Outputs."""

    @abstractmethod
    def add_unknowns(
        self,
        structure: Element,
        name: str,
        unknowns: Sequence[Variable],
        knowns: Callable[[Variable], Iterable[Variable]],
    ) -> None:
        """Add a list of unknowns with their dependencies to the element ModelStructure.

        Args:
            structure: Element ModelStructure.
            name: Name of the list or of its elements, such as Outputs.
            unknowns: Variables of the list.
            knowns: Function that returns the variables on which an unknown depends.
        """


@dataclass(frozen=True, eq=False)
class _Writer2(_Writer):
    """Writer of FMI 2.0 model descriptions, with one scalar variable for each port element."""

    model_exchange: bool = False
    capabilities: Mapping[str, str] = field(default_factory=dict)

    fmi = 2
    token = "guid"

    @property
    def scalars(self) -> tuple[Variable, ...]:
        """Return all scalar variables; for model exchange, these include the state derivatives."""
        return (*self.variables.all, *self.rates)

    @property
    def rates(self) -> tuple[Variable, ...]:
        """Return the derivatives of the continuous states, or () without model exchange."""
        return self.variables.rates if self.model_exchange else ()

    def add_interfaces(self, root: Element) -> None:
        states = {"canGetAndSetFMUstate": "true", "canSerializeFMUstate": "true"}
        if self.model_exchange:
            states["providesDirectionalDerivative"] = "true"
            unused = xml_boolean(not self.needs_completed_step)
            attributes = {"completedIntegratorStepNotNeeded": unused} | states
            SubElement(root, "ModelExchange", modelIdentifier=self.identifier, attrib=attributes)
        steps = {"canHandleVariableCommunicationStepSize": "true", **states, **self.capabilities}
        SubElement(root, "CoSimulation", modelIdentifier=self.identifier, attrib=steps)
        if self.model_exchange and self.variables.events.count:
            root.set("numberOfEventIndicators", str(self.variables.events.count))

    def units(self) -> Iterable[str]:
        return (variable.unit for variable in self.scalars)

    def add_variables(self, parent: Element) -> None:
        for variable in self.scalars:
            _add_scalar(parent, variable)

    def unknowns(self) -> tuple[Unknowns, ...]:
        variables = self.variables
        knowns = variables.dependencies if self.model_exchange else variables.feedthrough_inputs
        initial = (*variables.initial_unknowns, *self.rates)
        return (
            ("Outputs", variables.outputs, knowns),
            ("Derivatives", self.rates, variables.dependencies),
            ("InitialUnknowns", initial, variables.start_dependencies),
        )

    def add_unknowns(
        self,
        structure: Element,
        name: str,
        unknowns: Sequence[Variable],
        knowns: Callable[[Variable], Iterable[Variable]],
    ) -> None:
        """Add a list of unknowns, identified by their FMI 2.0 indices, which begin at 1."""
        if not unknowns:
            return
        parent = SubElement(structure, name)
        for unknown in unknowns:
            dependencies = " ".join(str(known.index + 1) for known in knowns(unknown))
            SubElement(parent, "Unknown", index=str(unknown.index + 1), dependencies=dependencies)


@dataclass(frozen=True, eq=False)
class _Writer3(_Writer):
    """Writer of FMI 3.0 model descriptions, with one array variable for each port.

    A structural parameter sets the last dimension of resizable arrays. If `clock` is given, a clock
    of this type triggers the samples of the block. The clocked variables are the sampled states and
    the discrete inputs and outputs (`Variables.sampled_elements`).
    """

    inner_step: float | None = None
    output_order: int = 0
    clock: str | None = None

    fmi = 3
    token = "instantiationToken"

    @cached_property
    def arrays(self) -> tuple["ArrayVariable", ...]:
        """Return the array variables of the block."""
        return array_variables(self.variables)

    @cached_property
    def owners(self) -> dict[int, "ArrayVariable"]:
        """Return the array variable that contains each scalar variable, by index of the scalar."""
        return {element.index: array for array in self.arrays for element in array.elements}

    def add_interfaces(self, root: Element) -> None:
        needed = {"needsCompletedIntegratorStep": xml_boolean(self.needs_completed_step)}
        name = {"modelIdentifier": self.identifier}
        is_binary, is_resizable = bool(self.variables.binary), self.variables.resizable
        if not is_binary and not is_resizable:
            SubElement(root, "ModelExchange", needed | _CAPABILITIES3 | name)
        updates = any(map(is_in_intermediate_updates, self.variables.all))
        steps = _STEPS3 | (_INTERMEDIATE_UPDATE if updates else {})
        if self.inner_step is not None:
            steps |= {"fixedInternalStepSize": repr(self.inner_step)}
        steps = steps | output_order_attribute(self.output_order) | _CAPABILITIES3 | name
        if is_binary and self.clock is None:  # binary variables change only at communication points
            steps = {key: value for key, value in steps.items() if key not in _EVENT_MODE3}
        if is_resizable:
            steps = {key: value for key, value in steps.items() if not _excludes_resizable(key)}
        SubElement(root, "CoSimulation", steps)

    def units(self) -> Iterable[str]:
        return (array.unit for array in self.arrays if array.unit)

    def add_variables(self, parent: Element) -> None:
        for array in self.arrays:
            if array.name in self.variables.binary:
                self._add_binary(parent, array)
            else:
                self._add_float64(parent, array)
        if self.clock is not None:
            self._add_clock(parent, self.clock)
        if self.variables.resizable:
            self._add_array_size(parent)

    def _add_clock(self, parent: Element, clock: str) -> None:
        """Add the clock that triggers the samples."""
        sample_time = self.variables.memory.block.sample_time
        kind = (
            {"intervalVariability": "triggered"}
            if clock == "triggered"
            else {"intervalVariability": "constant", "intervalDecimal": repr(sample_time)}
        )
        attributes = {
            "name": SAMPLE_CLOCK,
            "valueReference": str(self.variables.count),
            "description": "tick of the samples",
            "causality": "input",
            "variability": "discrete",
        }
        SubElement(parent, "Clock", attributes | kind)

    def _add_array_size(self, parent: Element) -> None:
        """Add the structural parameter that sets the size of the resizable arrays."""
        size = str(self.variables.resizable_size)
        attributes = {
            "name": ARRAY_SIZE,
            "valueReference": self._size_reference,
            "description": "size of the last dimension of the arrays",
            "causality": "structuralParameter",
            "variability": "fixed",
            "start": size,
            "min": "1",
            "max": size,
        }
        SubElement(parent, "UInt64", attributes)

    @property
    def _size_reference(self) -> str:
        return str(array_size_reference(self.variables, self.clock is not None))

    def _add_binary(self, parent: Element, array: "ArrayVariable") -> None:
        """Add the Binary element of an array variable, which contains little-endian doubles."""
        first = array.elements[0]
        size = 8 * len(array.elements)
        shape = " x ".join(map(str, array.shape)) or "1"
        attributes = {
            "name": array.name,
            "valueReference": str(array.reference),
            "description": f"{array.description} ({shape} little-endian doubles)".strip(),
            "causality": first.causality,
            "variability": first.variability,
            **self.clock_attributes(first),
            "initial": first.initial,
            "mimeType": BINARY_TYPE,
            "maxSize": str(size),
        }
        present = {key: value for key, value in attributes.items() if value}
        element = SubElement(parent, "Binary", present)
        if first.start is not None:
            starts = struct.pack(f"<{len(array.elements)}d", *(e.start for e in array.elements))
            SubElement(element, "Start", value=starts.hex())

    def _add_float64(self, parent: Element, array: "ArrayVariable") -> None:
        """Add the Float64 element of an array variable."""
        first = array.elements[0]
        state = None if first.state is None else str(self.owners[first.state].reference)
        starts = [repr(element.start) for element in array.elements]
        bounds = (array.common(name) for name in ("min", "max", "nominal"))
        attributes = {
            "name": array.name,
            "valueReference": str(array.reference),
            "description": array.description,
            "causality": first.causality,
            "variability": first.variability,
            "intermediateUpdate": "true" if is_in_intermediate_updates(first) else None,
            **self.clock_attributes(first),
            "initial": first.initial,
            "unit": array.unit,
            **_range_attributes(array.unit, *bounds),
            "derivative": state,
            "start": None if first.start is None else " ".join(starts),
        }
        present = {key: value for key, value in attributes.items() if value}
        element = SubElement(parent, "Float64", present)
        for dimension in self.dimensions(array):
            SubElement(element, "Dimension", dimension)

    def dimensions(self, array: "ArrayVariable") -> list[dict[str, str]]:
        """Return the XML attributes of each dimension of an array variable."""
        dimensions = [{"start": str(length)} for length in array.shape]
        if self.variables.resizable and array.name in self.variables.resizable_ports:
            dimensions[-1] = {"valueReference": self._size_reference}
        return dimensions

    def clock_attributes(self, variable: Variable) -> dict[str, str | None]:
        """Return the XML attributes that a clock requires for a variable, or {} without a clock."""
        if self.clock is None or variable.index not in self.variables.sampled_elements:
            return {}
        return {
            "variability": "discrete",
            "intermediateUpdate": None,
            "clocks": str(self.variables.count),
        }

    def unknowns(self) -> tuple[Unknowns, ...]:
        """Return the lists of unknowns; clocked variables are not initial unknowns (FMI 3.0)."""
        variables = self.variables
        clocked = frozenset[int]() if self.clock is None else variables.sampled_elements
        initial = [
            v for v in (*variables.initial_unknowns, *variables.rates) if v.index not in clocked
        ]
        return (
            ("Output", variables.outputs, variables.dependencies),
            ("ContinuousStateDerivative", variables.rates, variables.dependencies),
            ("InitialUnknown", initial, variables.start_dependencies),
            ("EventIndicator", variables.indicators, variables.dependencies),
        )

    def add_unknowns(
        self,
        structure: Element,
        name: str,
        unknowns: Sequence[Variable],
        knowns: Callable[[Variable], Iterable[Variable]],
    ) -> None:
        """Add a list of unknowns, identified by their FMI 3.0 value references."""
        owners = self.owners
        for unknown in dict.fromkeys(owners[variable.index] for variable in unknowns):
            references = {owners[k.index].reference for v in unknown.elements for k in knowns(v)}
            attributes = {
                "valueReference": str(unknown.reference),
                "dependencies": " ".join(map(str, sorted(references))),
            }
            SubElement(structure, name, attributes)


def _excludes_resizable(capability: str) -> bool:
    """Return True for an FMI 3.0 capability that FMUs with resizable arrays do not have.

    Such capabilities provide derivatives or element dependencies.
    """
    return capability.startswith("provides") and capability != "providesIntermediateUpdate"


def array_size_reference(variables: Variables, is_clocked: bool) -> int:
    """Return the value reference of the structural parameter of resizable arrays.

    Without a clock, this is the first value reference after the variables. If `is_clocked` is True,
    the sample clock has this value reference, and the structural parameter has the next one.
    """
    return variables.count + is_clocked


_EVENT_MODE3 = ("mightReturnEarlyFromDoStep", "hasEventMode")
BINARY_TYPE = "application/octet-stream"
CLOCK = "activation_clock"  # name of the clock of an FMU for scheduled execution
SAMPLE_CLOCK = "sample_clock"  # name of the clock of the samples of a clocked FMU
CLOCK_KINDS = ("periodic", "triggered")
ARRAY_SIZE = "array_size"  # name of the structural parameter of resizable arrays


@dataclass(frozen=True, eq=False)
class _ScheduledWriter(_Writer3):
    """Writer of FMI 3.0 model descriptions for scheduled execution, with one periodic clock.

    Variables change only when the clock ticks. The description contains no state derivatives and no
    event indicators.
    """

    interval: float = field(kw_only=True)

    @cached_property
    def arrays(self) -> tuple["ArrayVariable", ...]:
        arrays = array_variables(self.variables)
        return tuple(array for array in arrays if array.reference < self.variables.memory.size)

    def add_interfaces(self, root: Element) -> None:
        name = {"modelIdentifier": self.identifier}
        SubElement(root, "ScheduledExecution", _CAPABILITIES3 | name)

    def add_variables(self, parent: Element) -> None:
        super().add_variables(parent)
        attributes = {
            "name": CLOCK,
            "valueReference": str(self.variables.count),
            "description": "tick of the model partition",
            "causality": "input",
            "variability": "discrete",
            "intervalVariability": "constant",
            "priority": "0",
            "intervalDecimal": repr(self.interval),
        }
        SubElement(parent, "Clock", attributes)

    def clock_attributes(self, variable: Variable) -> dict[str, str | None]:
        is_value = variable.variability == "continuous" or variable.name in self._binary_names
        if not is_value or variable.causality == "independent":
            return {}
        attributes: dict[str, str | None] = {"variability": "discrete", "intermediateUpdate": None}
        if variable.causality in ("input", "output"):
            attributes["clocks"] = str(self.variables.count)
        return attributes

    @cached_property
    def _binary_names(self) -> frozenset[str]:
        """Names of the scalar variables that the binary inputs and outputs contain."""
        arrays = (array for array in self.arrays if array.name in self.variables.binary)
        elements = (element for array in arrays for element in array.elements)
        return frozenset(one.name for one in elements if one.variability == "discrete")

    def unknowns(self) -> tuple[Unknowns, ...]:
        return (("Output", self.variables.outputs, self.variables.dependencies),)


@dataclass(frozen=True)
class ArrayVariable:
    """FMI 3.0 array variable for a port, with its elements in C order."""

    name: str
    shape: tuple[int, ...]
    doc: str
    elements: tuple[Variable, ...]

    @property
    def reference(self) -> int:
        """Value reference, which is the memory index of the first element."""
        return self.elements[0].index

    @property
    def unit(self) -> str | None:
        """Unit of the array, or None if the elements have different units.

        FMI 3.0 allows only one unit per array.
        """
        units = {element.unit for element in self.elements}
        return units.pop() if len(units) == 1 else None

    def common(self, name: str) -> Any:
        """Return the value of an attribute if it is equal for all elements, else None.

        FMI 3.0 allows only one value of an attribute, such as `min`, per array.
        """
        values = {getattr(element, name) for element in self.elements}
        return values.pop() if len(values) == 1 else None

    @property
    def description(self) -> str:
        """Description of the port, with a list of units if the elements have different units."""
        return (
            self.doc
            if self.unit is not None
            else f"{self.doc} [{', '.join(element.unit for element in self.elements)}]"
        )


def array_variables(variables: Variables) -> tuple[ArrayVariable, ...]:
    """Return the FMI 3.0 variables of a block in the order of their value references.

    The variables are the time, the ports, the state derivatives and the event indicators. If
    `variables.arrays` is False, each element is a separate variable.
    """
    if not variables.arrays:
        scalars = (*variables.all, *variables.rates, *variables.indicators)
        return tuple(ArrayVariable(v.name, (), v.doc, (v,)) for v in scalars)
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


def first_docstring_line(block: Block) -> str:
    """Return the first line of the block's docstring."""
    return (type(block).__doc__ or type(block).__name__).strip().splitlines()[0]


def _describe_tool(root: Element, block: Block, metadata: Metadata) -> None:
    """Set the attributes of fmiModelDescription for the description, author and tool of the FMU."""
    described = {"description": first_docstring_line(block)} | metadata.attributes()
    for name, value in described.items():
        root.set(name, value)
    root.set("generationTool", f"rigidblocks {__version__}")
    root.set("variableNamingConvention", "structured")


def _describe_run(root: Element, block: Block) -> None:
    """Add the elements LogCategories and DefaultExperiment to a model description."""
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


def _describe_units(root: Element, units: Iterable[str]) -> None:
    """Add the element UnitDefinitions to a model description."""
    definitions = SubElement(root, "UnitDefinitions")
    for unit in sorted(filter(None, set(units))):
        exponents = {base: str(exponent) for base, exponent in base_units(unit).items()}
        element = SubElement(definitions, "Unit", name=unit)
        SubElement(element, "BaseUnit", exponents)
        if shown := display_unit(unit):
            SubElement(element, "DisplayUnit", name=shown[0], factor=repr(shown[1]))


def _range_attributes(
    unit: str | None, low: float | None, high: float | None, nominal: float | None
) -> dict[str, str]:
    """Return the XML attributes displayUnit, min, max and nominal of a variable.

    Attributes with the value None are omitted.
    """
    shown = display_unit(unit) if unit else None
    numbers = {"min": low, "max": high, "nominal": nominal}
    attributes = {name: repr(value) for name, value in numbers.items() if value is not None}
    return {"displayUnit": shown[0]} | attributes if shown else attributes


def _add_scalar(parent: Element, variable: Variable) -> None:
    """Add the FMI 2.0 element ScalarVariable for a variable."""
    attributes = {
        "name": variable.name,
        "valueReference": str(variable.index),
        "description": variable.doc,
        "causality": variable.causality,
        "variability": variable.variability,
        "initial": variable.initial,
    }
    present = {key: value for key, value in attributes.items() if value}
    element = SubElement(parent, "ScalarVariable", present)
    shown = _range_attributes(variable.unit, variable.min, variable.max, variable.nominal)
    unit = {"unit": variable.unit} if variable.unit else {}  # omit an empty unit
    real = SubElement(element, "Real", unit | shown)
    if variable.start is not None:
        real.set("start", repr(variable.start))
    if variable.state is not None:
        real.set("derivative", str(variable.state + 1))


def _content_digest(root: Element, content: Iterable[bytes]) -> str:
    """Return a digest of a model description and of all other files, in the format of a guid."""
    digest = hashlib.sha256(xml_text(root).encode())
    for part in content:
        digest.update(part)
    return "{" + digest.hexdigest()[:32] + "}"
