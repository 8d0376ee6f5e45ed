"""Properties of FMUs of other tools that the importer supports.

The properties are names of functions, libraries and files, infinite start values, strings in
scenarios, and one instance per process. An FMU may declare event mode but refuse it.
"""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from any_models import CLOCKS, FEEDTHROUGH, STAIR, TOLERANCE, Variable, any_fmu
from foreign_fmu import foreign_fmu
from rigidblocks import System, prepare, simulate
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError

HEADERS = ("fmi2Functions.h", "fmi2FunctionTypes.h", "fmi2TypesPlatform.h")
CS, ME = "co-simulation", "model exchange"


def system_of(fmu, **options):
    system = System()
    system.add("part", fmu, **options)
    return system


def rewritten(source, target, rename):
    """Copy an FMU with renamed files."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            entry = zipfile.ZipInfo("")
            entry.filename = rename(name)
            new.writestr(entry, old.read(name))
    return target


# ---- function names with the prefix of the model ----

PREFIX = {
    "pasted": "#define FMI2_FUNCTION_PREFIX gain_\n",  # as FMI requires for sources
    "written out": "#define FMI2_OVERRIDE_FUNCTION_PREFIX\n",
}


def source_fmu(path, prefix, own_headers):
    """Write a source FMU, y = 2 u; its own headers are older than FMI 2.0.4."""
    code = Path(foreign_fmu.__code__.co_filename).with_name("foreign.c").read_text()
    code = code.replace("    STEP\n", "    i->r[1] = 2.0 * i->r[0];\n")
    for name in ("START", "END"):
        code = code.replace(f"    {name}\n", "\n")
    code = code.replace("TRACE", '"/dev/null"')
    code = prefix + code
    binary = foreign_fmu(path.with_name("binary.fmu"))
    with zipfile.ZipFile(binary) as archive:
        xml = archive.read("modelDescription.xml").decode()
    sources = '<SourceFiles><File name="gain.c"/></SourceFiles>'
    xml = xml.replace('modelIdentifier="foreign"', 'modelIdentifier="gain"')
    start, end = xml.split("<CoSimulation", 1)
    attributes, rest = end.split("/>", 1)
    xml = f"{start}<CoSimulation{attributes}>{sources}</CoSimulation>{rest}"
    headers = fmpy.__path__[0] + "/c-code/"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", xml)
        archive.writestr("sources/gain.c", code)
        for name in HEADERS if own_headers else ():
            with open(headers + name) as file:
                text = file.read().replace("FMI2_OVERRIDE_FUNCTION_PREFIX", "UNKNOWN_BEFORE_2_0_4")
            archive.writestr(f"sources/{name}", text)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("own_headers", [False, True])
@pytest.mark.parametrize("prefix", PREFIX)
def test_source_fmu_with_prefixed_function_names_is_compiled_and_runs(
    tmp_path, prefix, own_headers
):
    fmu = source_fmu(tmp_path / "gain.fmu", PREFIX[prefix], own_headers)
    result = simulate(system_of(fmu, start={"u": 1.5}), 0.02, 0.01)
    assert result["part.y"][-1] == 3.0


# ---- file names ----


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_backslashes_in_archive_paths_are_read_as_slashes(tmp_path, version, isolated):
    plain = any_fmu(tmp_path, TOLERANCE, version)
    fmu = rewritten(plain, tmp_path / "back.fmu", lambda name: name.replace("/", "\\"))
    with zipfile.ZipFile(fmu) as archive:
        assert any("\\" in entry.orig_filename for entry in archive.infolist())
    assert simulate(system_of(fmu, isolated=isolated), 0.02, 0.01)["part.y"][-1] == -1


@pytest.mark.parametrize("name", ["..\\..\\evil.txt", "C:\\evil.txt", "\\evil.txt", "a\\..\\..\\b"])
def test_archive_path_with_backslashes_outside_the_folder_is_rejected(tmp_path, name):
    plain = any_fmu(tmp_path, TOLERANCE, 2)
    fmu = rewritten(plain, tmp_path / "evil.fmu", lambda one: one)
    with zipfile.ZipFile(fmu, "a") as archive:
        entry = zipfile.ZipInfo("")
        entry.filename = name
        archive.writestr(entry, "evil")
    with pytest.raises(FmuError, match="whose path leads outside the archive"):
        Fmu(fmu)


@pytest.mark.parametrize("version", [2, 3])
def test_single_library_of_an_fmu_may_have_any_name(tmp_path, version):
    plain = any_fmu(tmp_path, TOLERANCE, version)
    fmu = rewritten(plain, tmp_path / "other.fmu", lambda name: name.replace("any.", "AnyModel."))
    assert simulate(system_of(fmu), 0.02, 0.01)["part.y"][-1] == -1


def test_fmu_with_two_libraries_without_its_model_identifier_is_rejected(tmp_path):
    plain = any_fmu(tmp_path, TOLERANCE, 2)
    fmu = rewritten(plain, tmp_path / "two.fmu", lambda name: name.replace("any.", "first."))
    with zipfile.ZipFile(fmu, "a") as archive:
        archive.writestr(f"binaries/{fmpy.platform}/second{fmpy.sharedLibraryExtension}", b"")
    with pytest.raises(FmuError, match="has no binary for"):
        Fmu(fmu)


# ---- infinite and missing values ----

LIMIT = [
    Variable("limit", 1, "parameter", start=("INF",), variability="tunable"),
    Variable("low", 2, "input", start=("-INF",)),
    Variable("y", 3, "output"),
    Variable("z", 4, "output"),
]
LIMITED = replace(
    FEEDTHROUGH,
    name="Limited",
    variables=LIMIT,
    motion="m->v[3][0] = m->v[1][0] > 1e300L; m->v[4][0] = m->v[2][0] < -1e300L;",
    start="m->v[1][0] = INFINITY; m->v[2][0] = -INFINITY;",
)


@pytest.fixture
def limited(tmp_path, monkeypatch):
    """Return a function that builds an FMU whose C code sets infinite start values."""
    monkeypatch.setattr("any_models._started", lambda _: "")
    return lambda version: any_fmu(tmp_path, LIMITED, version)


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_infinite_start_values_of_an_fmu_are_not_changed(limited, version, isolated):
    result = simulate(system_of(limited(version), isolated=isolated), 0.02, 0.01)
    assert_array_equal([result["part.y"][-1], result["part.z"][-1]], [1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_infinite_values_are_accepted_for_inputs_and_parameters(limited, isolated):
    fmu = limited(2)
    finite = system_of(fmu, isolated=isolated, start={"limit": 1.0, "low": 0.0})
    result = simulate(finite, 0.02, 0.01)
    assert_array_equal([result["part.y"][-1], result["part.z"][-1]], [0, 0])
    scenario = {"time": [0.0, 0.02], "part.limit": [np.inf, 1.0], "part.low": [-np.inf, 0.0]}
    result = simulate(finite, 0.04, 0.01, scenario=scenario)
    assert_array_equal(result["part.y"], [1, 1, 1, 0, 0])
    run = prepare(finite, 0.01)
    run["part.low"] = -np.inf
    run.step()
    assert run["part.z"] == 1
    with pytest.raises(ValueError, match="must be finite, not nan"):
        run["part.low"] = np.nan


# ---- strings in scenarios ----


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_scenario_sets_string_inputs_of_an_fmu(tmp_path, version, isolated):
    system = system_of(any_fmu(tmp_path, FEEDTHROUGH, version), isolated=isolated)
    scenario = {
        "time": [0.0, 0.03, 0.06],
        "part.String_input": ["start", "wörld", ""],
        "part.Boolean_input": [True, False, True],
    }
    for given in (scenario, _file(tmp_path / "scenario.json", scenario)):
        result = simulate(system, 0.1, 0.01, scenario=given)
        found = list(result["part.String_output"][[0, 3, 5, 8]])
        assert found == ["start", "start", "wörld", ""]
        assert_array_equal(result["part.Boolean_output"][[2, 5, 8]], [True, False, True])


def test_scenario_sets_binary_inputs_of_an_fmu(tmp_path):
    system = system_of(any_fmu(tmp_path, FEEDTHROUGH, 3))
    scenario = {"time": [0.03], "part.Binary_input": [b"\x00\xff"]}
    result = simulate(system, 0.1, 0.01, scenario=scenario)
    assert result["part.Binary_output"][-1] == b"\x00\xff"


@pytest.mark.parametrize("value", [1.0, b"bytes", ["two", "texts"]])
def test_scenario_value_that_is_not_a_string_is_rejected_for_a_string_input(tmp_path, value):
    system = system_of(any_fmu(tmp_path, FEEDTHROUGH, 2))
    scenario = {"time": [0.03], "part.String_input": [value]}
    with pytest.raises((TypeError, ValueError), match=r"part\.String_input at t = 0.03 s"):
        simulate(system, 0.1, 0.01, scenario=scenario)


def _file(path, scenario):
    path.write_text(json.dumps(scenario))
    return path


# ---- one instance per process ----


@pytest.mark.slow
def test_fmu_that_allows_one_instance_runs_again_after_this_instance_is_freed(tmp_path):
    once = 'canBeInstantiatedOnlyOncePerProcess="true"'
    fmu = foreign_fmu(tmp_path / "once.fmu", attributes=once)
    for _ in range(3):
        assert simulate(system_of(fmu, start={"u": 2.0}), 0.02, 0.01)["part.y"][-1] == 4.0
    two = system_of(fmu)
    two.add("second", fmu)
    with pytest.raises(FmuError, match="allows only one instance in a process"):
        simulate(two, 0.02, 0.01)
    assert simulate(system_of(fmu, start={"u": 2.0}), 0.02, 0.01)["part.y"][-1] == 4.0


# ---- event mode that is declared and refused ----

EVENTS = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("refused", ["instantiate", "enter"])
def test_fmu_that_declares_but_refuses_event_mode_runs_without_event_mode(
    tmp_path, caplog, refused, isolated
):
    fmu = any_fmu(tmp_path, replace(STAIR, attributes=EVENTS, without_events=refused), 3)
    result = simulate(system_of(fmu, isolated=isolated), 3.5, 0.5)
    plain = any_fmu(tmp_path, replace(STAIR, name="Plain"), 3)
    assert_array_equal(result["part.counter"], simulate(system_of(plain), 3.5, 0.5)["part.counter"])
    (line,) = [record.message for record in caplog.records if "event mode" in record.message]
    assert "'part': it declares hasEventMode but rejects event mode, so it runs without" in line


@pytest.mark.slow
def test_discrete_inputs_are_set_in_an_fmu_that_refuses_event_mode(tmp_path):
    held = replace(
        CLOCKS,
        name="Held",
        variables=[
            Variable("u", 1, "input", start=(0.0,), variability="discrete"),
            Variable("y", 2, "output"),
        ],
        update="",
        motion="m->v[2][0] = m->v[1][0];",
        attributes=EVENTS,
        without_events="enter",
    )
    system = system_of(any_fmu(tmp_path, held, 3))
    result = simulate(system, 0.1, 0.01, scenario={"time": [0.05], "part.u": [7.0]})
    assert_array_equal(result["part.y"], [0] * 6 + [7] * 5)
