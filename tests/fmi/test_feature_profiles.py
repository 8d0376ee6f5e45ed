"""Feature profiles of FMI: features of FMUs, and the features that a profile requires."""

import zipfile

import pytest

from fmu_blocks import BLOCKS
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.fmu_checks import (
    FEATURES,
    PROFILES,
    matrix_lines,
    profile_matrix,
)
from rigidblocks.fmi.native_fmu import fmu_sources
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.traced_evaluator import TracedEvaluator

HEAD = '<?xml version="1.0"?><fmiModelDescription fmiVersion="{}" modelName="m">'
PLAIN = '<Float64 name="x" valueReference="1" causality="output"/>'
FLAGS = {  # attributes of interface types, by feature: the element and its attribute
    "store": ("ModelExchange", "canGetAndSetFMUState"),
    "serialize": ("ModelExchange", "canSerializeFMUState"),
    "steps": ("CoSimulation", "canHandleVariableCommunicationStepSize"),
    "directional": ("ModelExchange", "providesDirectionalDerivatives"),
    "adjoint": ("CoSimulation", "providesAdjointDerivatives"),
    "intermediate": ("CoSimulation", "providesIntermediateUpdate"),
    "early return": ("CoSimulation", "mightReturnEarlyFromDoStep"),
}
VARIABLES = {  # variables of FMI 3.0, by the feature that they need
    "tunable": '<Float64 name="p" valueReference="2" causality="parameter" variability="tunable"/>',
    "binary signals": '<Binary name="b" valueReference="2" causality="input"/>',
    "binary parameters": '<Binary name="b" valueReference="2" causality="parameter"/>',
    "arrays": '<Int8 name="a" valueReference="2" causality="input"><Dimension start="3"/></Int8>',
    "resizable arrays": '<UInt64 name="n" valueReference="3" causality="structuralParameter"/>'
    '<Float32 name="a" valueReference="2" causality="output"><Dimension valueReference="3"/>'
    "</Float32>",
    "parameter arrays": '<Float64 name="a" valueReference="2" causality="parameter">'
    '<Dimension start="3"/></Float64>',
    "resizable parameters": '<Float64 name="a" valueReference="2" causality="parameter">'
    '<Dimension valueReference="3"/></Float64>',
}


def fmu(path, variables=PLAIN, interfaces=None, fmi="3.0", more="", files=()):
    """Write an FMU without binaries; `interfaces` are texts of elements by name."""
    interfaces = {"CoSimulation": ""} if interfaces is None else interfaces
    elements = "".join(f'<{name} modelIdentifier="m" {text}/>' for name, text in interfaces.items())
    text = f"{HEAD.format(fmi)}{elements}<ModelVariables><!-- -->{variables}</ModelVariables>{more}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", f"{text}</fmiModelDescription>")
        for name in files:
            archive.writestr(name, "")
    return path


def features(path):
    """Return the features of an FMU."""
    return {key for key, value in profile_matrix(path).support.items() if value == "yes"}


def described(path, name, fmi):
    """Write an FMU without binaries with the model description of a block."""
    variables = Variables(TracedEvaluator(Memory(BLOCKS[name])))
    description, _ = fmu_sources(variables, name, RK4, 1e-3, fmi)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", description)
    return path


def test_feature_profiles_list_only_known_features_and_each_feature_once():
    assert [profile.name for profile in PROFILES] == [
        *("Basic CS", "Sensor", "XiL", "ECU", "Dynamics", "Dynamics Controller", "Optimization")
    ]
    for profile in PROFILES:
        keys = (*profile.required, *profile.recommended)
        assert len(set(keys)) == len(keys)
        assert FEATURES.keys() >= {*keys, *profile.required_of}


def test_fmu_without_optional_capabilities_supports_no_optional_feature(tmp_path):
    assert features(fmu(tmp_path / "a.fmu")) == set()


@pytest.mark.parametrize("value", ["true", "1"])
@pytest.mark.parametrize("key", FLAGS)
def test_feature_support_is_read_from_the_capability_flag_of_its_interface_type(
    tmp_path, key, value
):
    interface, attribute = FLAGS[key]
    assert features(fmu(tmp_path / "a.fmu", interfaces={interface: f'{attribute}="{value}"'})) == {
        key
    }
    for off in ("false", "0"):
        interfaces = {interface: f'{attribute}="{off}"'}
        assert features(fmu(tmp_path / "b.fmu", interfaces=interfaces)) == set()


@pytest.mark.parametrize("key", VARIABLES)
def test_feature_support_is_read_from_the_variables_of_the_fmu(tmp_path, key):
    assert features(fmu(tmp_path / "a.fmu", PLAIN + VARIABLES[key])) == {key}


def test_shared_array_sizes_are_supported_if_two_arrays_use_one_structural_parameter(tmp_path):
    array = VARIABLES["resizable parameters"]
    one = fmu(tmp_path / "one.fmu", array)
    two = fmu(tmp_path / "two.fmu", array + array.replace('"a"', '"b"'))
    assert features(two) - features(one) == {"shared sizes"}


def test_clock_features_apply_only_to_model_exchange_and_co_simulation(tmp_path):
    clock = '<Clock name="c" valueReference="2" causality="input" intervalVariability="constant"/>'
    both = fmu(tmp_path / "a.fmu", clock, {"CoSimulation": "", "ModelExchange": ""})
    assert features(both) == {"clocks", "clocked exchange"}
    scheduled = profile_matrix(fmu(tmp_path / "b.fmu", clock, {"ScheduledExecution": ""}))
    assert scheduled.support["clocks"] == scheduled.support["clocked exchange"] == "-"
    assert scheduled.support["scheduled"] == "yes"


def test_restart_after_early_return_is_supported_if_the_fmu_has_event_mode(tmp_path):
    early = 'canReturnEarlyAfterIntermediateUpdate="true"'
    assert features(fmu(tmp_path / "a.fmu", interfaces={"CoSimulation": early})) == {"early return"}
    both = f'{early} hasEventMode="true" maxOutputDerivativeOrder="1"'
    expected = {"early return", "restart", "output derivatives"}
    assert features(fmu(tmp_path / "b.fmu", interfaces={"CoSimulation": both})) == expected


def test_dependency_feature_is_supported_only_if_all_unknowns_list_their_dependencies(tmp_path):
    structure = '<ModelStructure><Output valueReference="1" {}/><Output valueReference="2" {}/>'
    ends = ('dependencies=""', 'dependencies="1"'), ('dependencies=""', "")
    for given, expected in zip(ends, ({"dependencies"}, set()), strict=True):
        more = structure.format(*given) + "</ModelStructure>"
        assert features(fmu(tmp_path / "a.fmu", more=more)) == expected


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("sources/buildDescription.xml", "sources"),
        ("sources\\buildDescription.xml", "sources"),
        ("extra/org.fmi-standard.fmi-ls-bus/fmi-ls-manifest.xml", "bus"),
        ("extra/org.fmi-standard.fmi-ls-xcp/fmi-ls-manifest.xml", "xcp"),
    ],
)
def test_feature_support_is_read_from_the_files_of_the_fmu_archive(tmp_path, file, key):
    assert features(fmu(tmp_path / "a.fmu", files=[file])) == {key}


def test_fmu_of_fmi_2_supports_no_features_that_only_fmi_3_defines(tmp_path):
    more = (
        '<ModelStructure><Outputs><Unknown index="1" dependencies=""/></Outputs></ModelStructure>'
    )
    variable = (
        '<ScalarVariable name="p" valueReference="1" causality="parameter" variability="tunable">'
        '<Real start="1"/></ScalarVariable>'
    )
    flags = 'canGetAndSetFMUstate="true" providesAdjointDerivatives="true" hasEventMode="true"'
    one = fmu(tmp_path / "a.fmu", variable, {"CoSimulation": flags}, "2.0", more)
    assert features(one) == {"tunable", "store", "dependencies"}
    sources = '<CoSimulation modelIdentifier="m"><SourceFiles><File name="a.c"/></SourceFiles>'
    two = fmu(tmp_path / "b.fmu", "", {}, "2.0", f"{sources}</CoSimulation>")
    assert features(two) == {"sources"}


def test_features_of_missing_interface_types_are_not_reported_as_missing(tmp_path):
    exchange = profile_matrix(fmu(tmp_path / "a.fmu", interfaces={"ModelExchange": ""}))
    assert "steps" not in exchange.missing["Sensor"]
    assert "store" not in exchange.missing["Optimization"]
    assert "directional" in exchange.missing["Dynamics"]
    stepped = profile_matrix(fmu(tmp_path / "b.fmu"))
    assert "steps" in stepped.missing["Sensor"]
    assert "directional" not in stepped.missing["Dynamics"]  # required only in model exchange


def test_exported_fmi_3_fmu_of_a_plant_has_all_features_of_the_optimization_profile(tmp_path):
    matrix = profile_matrix(described(tmp_path / "a.fmu", "planar2", 3))
    complete = {name for name, keys in matrix.missing.items() if not keys}
    assert complete == {"Basic CS", "Dynamics", "Optimization"}
    lines = list(matrix_lines(matrix))
    assert "Optimization: complete" in lines
    assert "Sensor: without binary inputs or outputs, binary parameters" in lines
    row = next(line for line in lines if line.startswith("adjoint derivatives")).split()
    assert row == ["adjoint", "derivatives", "yes", "X"]


@pytest.mark.parametrize(
    ("fmi", "reason"), [("1.0", "not 1.0"), ("", "cannot be read"), ("x", "cannot be read")]
)
def test_feature_profiles_reject_unsupported_fmi_versions(tmp_path, fmi, reason):
    with pytest.raises(ValueError, match=reason):
        profile_matrix(fmu(tmp_path / "a.fmu", fmi=fmi))


def test_feature_profiles_reject_a_file_that_is_not_an_fmu(tmp_path):
    (tmp_path / "a.fmu").write_text("no archive")
    with pytest.raises(ValueError, match=r"a\.fmu: this FMU cannot be read"):
        profile_matrix(tmp_path / "a.fmu")
