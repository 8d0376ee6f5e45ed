"""Feature profiles of the FMI project, and their comparison with the features of an FMU.

Source:
    FMI project, FMI 2.0/3.0 Profiles, https://modelica.github.io/fmi-guides/main/fmi-profiles.
"""

import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree

CS, ME, SE = "CoSimulation", "ModelExchange", "ScheduledExecution"  # elements of the interfaces
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)
_ELEMENTS = {  # types of variables
    *("Float32", "Float64", "Boolean", "String", "Binary", "Enumeration", "Clock"),
    *(f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)),
}


class Support(StrEnum):
    """Support of a feature by an FMU: yes, no or not applicable."""

    YES = "yes"
    NO = "no"
    NOT_APPLICABLE = "-"


class Need(StrEnum):
    """Requirement level of a feature in a feature profile: required or recommended."""

    REQUIRED = "X"
    RECOMMENDED = "*"


@dataclass(frozen=True)
class Description:
    """Model description of an FMU, and names of the files in the FMU.

    Attributes:
        root: Root element of modelDescription.xml.
        names: Names of the files in the archive.
    """

    root: Any
    names: tuple[str, ...]

    @property
    def fmi(self) -> int:
        """Major FMI version that the FMU declares, such as 2."""
        return int(self.root.get("fmiVersion", "0").split(".")[0])

    @cached_property
    def interfaces(self) -> dict[str, Any]:
        """XML elements of the FMU's interface types, by interface name."""
        found = {name: self.root.find(name) for name in (CS, ME, SE)}
        return {name: element for name, element in found.items() if element is not None}

    @cached_property
    def variables(self) -> tuple[Any, ...]:
        """XML elements of all variables; in FMI 2.0, the elements `ScalarVariable`."""
        parent = self.root.find("ModelVariables")
        wanted = _ELEMENTS if self.fmi == 3 else {"ScalarVariable"}
        return tuple(one for one in (() if parent is None else parent) if one.tag in wanted)

    def select(self, causalities: Iterable[str]) -> tuple[Any, ...]:
        """Return the XML elements of all variables that have one of the given causalities."""
        return tuple(v for v in self.variables if v.get("causality", "local") in set(causalities))

    def has(self, attribute: str, interfaces: Iterable[str] = (CS, ME, SE)) -> bool:
        """Return True if an interface type sets `attribute` to a value other than false or 0."""
        values = (self.interfaces[name].get(attribute) for name in interfaces if name in self)
        return any(value not in (None, "false", "0") for value in values)

    def __contains__(self, interface: str) -> bool:
        return interface in self.interfaces

    @cached_property
    def structural(self) -> Counter[str]:
        """Number of array dimensions that each structural parameter sets, by value reference."""
        counts = Counter[str]()
        for v in self.variables:
            counts.update({d.get("valueReference") for d in v.findall("Dimension")} - {None})
        return counts


SIGNALS, PARAMETERS = ("input", "output"), ("parameter", "calculatedParameter")
Test = Callable[[Description], bool]


def _has_type(tag: str, causalities: Iterable[str]) -> Test:
    return lambda fmu: any(v.tag == tag for v in fmu.select(causalities))


def _has_arrays(causalities: Iterable[str], sized_by: Callable[[Any, Description], bool]) -> Test:
    """Return a predicate that is True for an FMU with an array dimension that satisfies `sized_by`.

    The predicate considers only arrays with one of the given causalities.
    """
    return lambda fmu: any(
        sized_by(dimension, fmu)
        for v in fmu.select(causalities)
        for dimension in v.findall("Dimension")
    )


def _is_fixed(dimension: Any, fmu: Description) -> bool:
    del fmu
    return dimension.get("valueReference") is None


def _is_resizable(dimension: Any, fmu: Description) -> bool:
    return not _is_fixed(dimension, fmu)


def _is_shared(dimension: Any, fmu: Description) -> bool:
    return fmu.structural[dimension.get("valueReference")] > 1


def _has_dependencies(fmu: Description) -> bool:
    """Return True if an FMU declares the dependencies of all outputs and state derivatives."""
    paths = (
        ("Outputs/Unknown", "Derivatives/Unknown")
        if fmu.fmi == 2
        else ("Output", "ContinuousStateDerivative")
    )
    unknowns = [one for path in paths for one in fmu.root.findall(f"ModelStructure/{path}")]
    return bool(unknowns) and all(one.get("dependencies") is not None for one in unknowns)


def _has_sources(fmu: Description) -> bool:
    listed = fmu.root.find(".//SourceFiles/File") is not None
    return listed if fmu.fmi == 2 else "sources/buildDescription.xml" in fmu.names


def _has_clocks(fmu: Description) -> bool:
    return any(v.tag == "Clock" for v in fmu.variables)


def _returns_early(fmu: Description) -> bool:
    flags = ("mightReturnEarlyFromDoStep", "canReturnEarlyAfterIntermediateUpdate")
    return any(fmu.has(flag, (CS,)) for flag in flags)


def _has_layered_standard(name: str) -> Test:
    folder = f"extra/org.fmi-standard.{name}/"
    return lambda fmu: any(file.startswith(folder) for file in fmu.names)


def _has_attribute(*names: str, interface_types: Iterable[str] = (CS, ME, SE)) -> Test:
    return lambda fmu: any(fmu.has(name, interface_types) for name in names)


class Feature(NamedTuple):
    """Optional feature of FMUs, such as binary variables.

    Attributes:
        text: Name of the feature.
        test: Predicate that is True if an FMU has the feature.
        fmi: First major FMI version that defines the feature.
        interface_type: Interface type that has the feature, or None for all interface types.
    """

    text: str
    test: Test
    fmi: int = 2
    interface_type: str | None = None


FEATURES: Mapping[str, Feature] = {
    "tunable": Feature(
        "tunable parameters",
        lambda fmu: any(v.get("variability") == "tunable" for v in fmu.select(PARAMETERS)),
    ),
    "store": Feature(
        "saved FMU state", _has_attribute("canGetAndSetFMUState", "canGetAndSetFMUstate")
    ),
    "serialize": Feature(
        "serialized FMU state", _has_attribute("canSerializeFMUState", "canSerializeFMUstate")
    ),
    "binary signals": Feature("binary inputs or outputs", _has_type("Binary", SIGNALS), 3),
    "binary parameters": Feature("binary parameters", _has_type("Binary", PARAMETERS), 3),
    "arrays": Feature("arrays of fixed size", _has_arrays(SIGNALS, _is_fixed), 3),
    "resizable arrays": Feature("resizable arrays", _has_arrays(SIGNALS, _is_resizable), 3),
    "parameter arrays": Feature(
        "parameter arrays of fixed size", _has_arrays(PARAMETERS, _is_fixed), 3
    ),
    "resizable parameters": Feature(
        "resizable parameter arrays", _has_arrays(PARAMETERS, _is_resizable), 3
    ),
    "shared sizes": Feature(
        "parameter arrays with a common size", _has_arrays(PARAMETERS, _is_shared), 3
    ),
    "steps": Feature(
        "communication steps of any size",
        _has_attribute("canHandleVariableCommunicationStepSize", interface_types=(CS,)),
        interface_type=CS,
    ),
    "dependencies": Feature("dependencies of outputs and derivatives", _has_dependencies),
    "output derivatives": Feature(
        "output derivatives",
        _has_attribute("maxOutputDerivativeOrder", interface_types=(CS,)),
        interface_type=CS,
    ),
    "directional": Feature(
        "directional derivatives",
        _has_attribute("providesDirectionalDerivative", "providesDirectionalDerivatives"),
    ),
    "adjoint": Feature("adjoint derivatives", _has_attribute("providesAdjointDerivatives"), 3),
    "early return": Feature("early return", _returns_early, 3, CS),
    "restart": Feature(
        "early return with event mode",
        lambda fmu: _returns_early(fmu) and fmu.has("hasEventMode", (CS,)),
        3,
        CS,
    ),
    "intermediate": Feature(
        "intermediate updates",
        _has_attribute("providesIntermediateUpdate", interface_types=(CS,)),
        3,
        CS,
    ),
    "clocks": Feature("clocks in co-simulation", _has_clocks, 3, CS),
    "scheduled": Feature("scheduled execution", lambda fmu: SE in fmu, 3),
    "clocked exchange": Feature("clocks in model exchange", _has_clocks, 3, ME),
    "bus": Feature("network communication (FMI-LS-BUS)", _has_layered_standard("fmi-ls-bus"), 3),
    "xcp": Feature("calibration (FMI-LS-XCP)", _has_layered_standard("fmi-ls-xcp"), 2),
    "sources": Feature("source code", _has_sources),
}


class Profile(NamedTuple):
    """Feature profile with its required and recommended features (keys of `FEATURES`)."""

    name: str
    required: tuple[str, ...]
    recommended: tuple[str, ...]
    required_of: Mapping[str, str] = {}  # interface to which a requirement is restricted

    def need(self, key: str) -> Need | None:
        """Return the requirement level of a feature; None if the profile omits the feature."""
        if key in self.required:
            return Need.REQUIRED
        return Need.RECOMMENDED if key in self.recommended else None


_XIL = Profile(
    "XiL",
    (
        *("tunable", "binary signals", "binary parameters", "arrays", "parameter arrays"),
        *("resizable parameters", "clocks"),
    ),
    ("sources", "steps", "store", "scheduled"),
)
_DYNAMICS = Profile(
    "Dynamics",
    ("tunable", "arrays", "parameter arrays", "dependencies", "directional"),
    (
        *("binary signals", "resizable parameters", "shared sizes", "steps", "early return"),
        *("output derivatives", "intermediate", "store"),
    ),
    {"directional": ME},
)
_CONTROLLER = ("clocked exchange", "steps", "restart", "intermediate", "clocks")
PROFILES = (
    Profile(
        "Basic CS", ("arrays", "parameter arrays"), ("tunable", "sources", "resizable parameters")
    ),
    Profile("Sensor", ("tunable", "binary signals", "binary parameters", "steps"), ("sources",)),
    _XIL,
    Profile("ECU", (*_XIL.required, "bus"), (*_XIL.recommended, "xcp")),
    _DYNAMICS,
    Profile(
        "Dynamics Controller",
        (*_DYNAMICS.required, *_CONTROLLER),
        tuple(key for key in _DYNAMICS.recommended if key not in _CONTROLLER),
        _DYNAMICS.required_of,
    ),
    Profile(
        "Optimization",
        (
            *("tunable", "arrays", "parameter arrays", "dependencies", "directional", "adjoint"),
            *("store", "serialize", "steps", "output derivatives", "intermediate"),
        ),
        ("resizable parameters",),
        {"store": CS, "serialize": CS},
    ),
)


class Matrix(NamedTuple):
    """Comparison of the features of an FMU with the feature profiles.

    Attributes:
        support: Support of each feature by the FMU, by key of `FEATURES`.
        missing: Missing required features of the FMU, by profile name.
    """

    support: Mapping[str, Support]
    missing: Mapping[str, tuple[str, ...]]


def profile_matrix(path: str | Path) -> Matrix:
    """Compare the features of an FMU with the feature profiles of the FMI project.

    If an FMU does not have an interface type, the features of this interface type are not
    applicable, and no profile counts them as missing. FMI 3.0 features are missing in all FMI 2.0
    FMUs.

    Args:
        path: FMI 2.0 or 3.0 FMU file.

    Returns:
        Features of the FMU, and missing required features of each profile.

    Raises:
        ValueError: The file is not an FMI 2.0 or 3.0 FMU.
    """
    fmu = _read(path)
    support = {key: _support(feature, fmu) for key, feature in FEATURES.items()}

    def is_missing(profile: Profile, key: str) -> bool:
        needed = profile.required_of.get(key)
        return support[key] is Support.NO and (needed is None or needed in fmu)

    missing = {
        profile.name: tuple(key for key in profile.required if is_missing(profile, key))
        for profile in PROFILES
    }
    return Matrix(support, missing)


def _support(feature: Feature, fmu: Description) -> Support:
    if feature.interface_type is not None and feature.interface_type not in fmu:
        return Support.NOT_APPLICABLE
    return Support.YES if fmu.fmi >= feature.fmi and feature.test(fmu) else Support.NO


def _read(path: str | Path) -> Description:
    try:
        with zipfile.ZipFile(path) as archive:
            root = etree.fromstring(archive.read("modelDescription.xml"), _PARSER)
            names = tuple(name.replace("\\", "/") for name in archive.namelist())
        fmu = Description(root, names)
        known = fmu.fmi in (2, 3)
    except Exception as error:
        raise ValueError(f"{path}: this FMU cannot be read: {error}") from None
    if not known:
        raise ValueError(
            f"{path}: the profiles are for FMI 2.0 and 3.0, not {root.get('fmiVersion')}"
        )
    return fmu


def matrix_lines(matrix: Matrix) -> Iterator[str]:
    """Yield the lines of a text table with one row per feature and one column per profile.

    The lines after the table list the missing features of each profile.
    """
    heads = ("FMU", *(profile.name for profile in PROFILES))
    width = max(len(feature.text) for feature in FEATURES.values())
    rows = [
        (feature.text, matrix.support[key], *(profile.need(key) or "" for profile in PROFILES))
        for key, feature in FEATURES.items()
    ]
    for text, *cells in (("feature", *heads), *rows):
        columns = (f"{cell:<{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        yield f"{text:<{width}}  {'  '.join(columns)}".rstrip()
    yield "X required, * recommended, - not applicable to the interface types of this FMU"
    for name, keys in matrix.missing.items():
        absent = ", ".join(FEATURES[key].text for key in keys)
        yield f"{name}: {f'without {absent}' if absent else 'complete'}"
