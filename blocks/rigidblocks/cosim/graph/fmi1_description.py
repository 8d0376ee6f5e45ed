"""Reader of the FMI 1.0 model description attributes that FMPy ignores."""

from typing import Any

from fmpy.model_description import Unknown

_TRUE = ("true", "1")
_CAPABILITIES = (
    "canHandleVariableCommunicationStepSize",
    "canInterpolateInputs",
    "canBeInstantiatedOnlyOncePerProcess",
    "canNotUseMemoryManagementFunctions",
)


def complete_description(root: Any, description: Any) -> None:
    """Add the missing attributes to FMPy's model description of an FMI 1.0 FMU.

    The added attributes use the FMI 2.0 terms:

    - Capabilities that a co-simulation FMU does not declare are false.
    - A parameter without a start value is a calculated parameter.
    - Variables of other types than Real are discrete unless they are constant or fixed.
    - The attribute `fixed` defines whether a start value is exact.
    - `DirectDependency` defines the dependencies of an output.

    Args:
        root: Root element of the model description.
        description: Model description that FMPy has read; the function changes this object.
    """
    if description.coSimulation is not None:
        _set_capabilities(root, description.coSimulation)
    described = [v for v in root.find("ModelVariables") if v.get("name") is not None]
    for element, variable in zip(described, description.modelVariables, strict=True):
        if variable.causality == "parameter" and variable.start is None:
            variable.causality = "calculatedParameter"
        if variable.type != "Real" and variable.variability == "continuous":
            variable.variability = "discrete"
        if variable.causality in ("output", "local") and variable.start is not None:
            value = next(child for child in element if child.tag == variable.type)
            variable.initial = "exact" if value.get("fixed", "true") in _TRUE else "approx"
    inputs = {v.name: v for v in description.modelVariables if v.causality == "input"}
    for element, variable in zip(described, description.modelVariables, strict=True):
        if variable.causality == "output":
            description.outputs.append(
                Unknown(variable=variable, dependencies=_dependencies(element, inputs))
            )


def _set_capabilities(root: Any, interface: Any) -> None:
    interface.needsExecutionTool = root.find("Implementation/CoSimulation_Tool") is not None
    for capabilities in root.iterfind("Implementation/*/Capabilities"):
        for name in _CAPABILITIES:
            setattr(interface, name, capabilities.get(name) in _TRUE)


def _dependencies(output: Any, inputs: dict[str, Any]) -> list[Any] | None:
    """Return the inputs on which an output depends, or None if they are not declared."""
    declared = output.find("DirectDependency")
    if declared is None:
        return None
    names = ("".join(name.itertext()).strip() for name in declared.iterfind("Name"))
    return [inputs[name] for name in names if name in inputs]


def negated_aliases(root: Any) -> frozenset[str]:
    """Return the names of the negated aliases, whose values the FMU stores negated."""
    return frozenset(
        v.get("name")
        for v in root.iterfind("ModelVariables/ScalarVariable[@alias='negatedAlias']")
        if v.get("name") is not None
    )


def mime_type(root: Any) -> str:
    """Return the MIME type argument for the instantiation of a co-simulation FMU."""
    model = root.find("Implementation/CoSimulation_Tool/Model")
    found = None if model is None else model.get("type")
    return found or "application/x-fmu-sharedlibrary"
