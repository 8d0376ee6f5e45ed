"""Clauses of the SSP standard. The table of clauses in docs/ssp.md names each test."""

import logging
import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import fmpy
import numpy as np
import pytest
from lxml import etree
from numpy.testing import assert_allclose, assert_array_equal

from foreign_fmu import foreign_fmu
from rigidblocks import System, load_system, save_system, simulate
from rigidblocks.block.units import Conversion
from rigidblocks.common.format_error import FormatError
from rigidblocks.fmi.ssp.schema import SPACES, STRUCTURE, read
from ssp_archive import (
    MM,
    SSD_SPACES,
    UNITS,
    archive,
    bindings,
    connector,
    dictionaries,
    entry,
    inner,
    part,
    real,
    ssd,
    ssm,
    ssv,
    table,
    value,
    wire,
)

VARIABLES = (
    ("u", "input", 0, "Real"),
    ("y", "output", 1, "Real"),
    ("k", "parameter", 2, "Real"),
    ("n", "input", 3, "Integer"),
    ("ny", "output", 4, "Integer"),
    ("b", "input", 5, "Boolean"),
    ("by", "output", 6, "Boolean"),
    ("e", "input", 7, "Enumeration"),
    ("ey", "output", 8, "Enumeration"),
    ("x", "local", 3, "Real"),
)
STEP = (
    "i->r[1] = i->r[0] + i->r[2] + i->r[3]; i->n[4] = i->n[3]; i->n[6] = i->n[5];i->n[8] = i->n[7];"
)
ITEMS = '<Item name="off" value="{}"/><Item name="on" value="{}"/>'


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """Return FMUs that pass values of each type; y = u + k + x in m.

    The items of the enumeration are off (1) and on (2), in the FMU "tens" off (10) and on (20).
    """
    folder = tmp_path_factory.mktemp("fmus")
    meter, declared = 'unit="m"', 'declaredType="E"'
    options = {"u": meter, "y": meter, "k": meter, "e": declared, "ey": declared}
    path = foreign_fmu(folder / "any.fmu", step=STEP, variables=VARIABLES, **options)
    with zipfile.ZipFile(path) as file:
        content = {one.filename: file.read(one) for one in file.infolist()}
    text = content["modelDescription.xml"].decode()
    text = text.replace(
        '<ScalarVariable name="x" valueReference="3" causality="local"><Real',
        '<ScalarVariable name="x" valueReference="3" causality="local" initial="exact">'
        '<Real start="0"',
    )
    text = text.replace('<Enumeration start="0"', '<Enumeration start="LOW"')
    listed = (
        f'<TypeDefinitions><SimpleType name="E"><Enumeration>{ITEMS}</Enumeration></SimpleType>'
        "</TypeDefinitions><ModelVariables>"
    )
    found = {}
    for name, low, high in (("any", 1, 2), ("tens", 10, 20)):
        own = text.replace("<ModelVariables>", listed.format(low, high)).replace("LOW", str(low))
        found[name] = folder / f"{name}.fmu"
        more = {"resources/in.ssv": ssv(real("k", 5.0)), "resources/in.ssm": ssm(entry("k", "u"))}
        with zipfile.ZipFile(found[name], "w") as file:
            for one, data in (content | {"modelDescription.xml": own} | more).items():
                file.writestr(one, data)
    return found


@pytest.fixture
def made(fmus, tmp_path):
    """Return a function that writes an SSP file, and functions that load and run it."""
    path = tmp_path / "t.ssp"

    def write(text, **files):
        return archive(path, text, fmus, **files)

    def end(text, name="a.y", form="numpy", **files):
        system, _ = load_system(write(text, **files))
        return simulate(system, 0.05, 0.01, progress=False, form=form, order="jacobi")[name][-1]

    def log(caplog, text, **files):
        caplog.clear()
        with caplog.at_level(logging.INFO, "rigidblocks"):
            load_system(write(text, **files))
        return caplog.text

    def refused(text, message, **files):
        with pytest.raises(FormatError, match=message):
            load_system(write(text, **files))

    return SimpleNamespace(path=path, write=write, end=end, log=log, refused=refused)


def test_every_test_in_the_table_of_ssp_clauses_exists():
    page = (Path(__file__).parents[2] / "docs" / "ssp.md").read_text()
    rows = page[page.index("## Supported clauses of SSP") :].splitlines()
    named = [
        name for row in rows if row.startswith("|") for name in re.findall(r"`(test_\w+)`", row)
    ]
    code = "".join(file.read_text() for file in Path(__file__).parent.glob("test_ssp_*.py"))
    missing = [name for name in named if f"\ndef {name}(" not in code]
    assert not missing
    here = re.findall(r"^def (test_\w+)\(", Path(__file__).read_text(), re.MULTILINE)
    assert set(here[1:]) <= set(named)


# --- 3: packages ---


def test_ssp_system_variant_is_selected_by_its_file_name(made):
    other = ssd(part(inside=bindings(ssv(real("u", 2.0)))), name="other")
    path = made.write(ssd(part(inside=bindings(ssv(real("u", 1.0))))), B_dot_ssd=other)
    ends = []
    for variant in ({}, {"variant": "B.ssd"}):
        system, _ = load_system(path, **variant)
        ends.append(simulate(system, 0.02, 0.01, progress=False)["a.y"][-1])
    assert ends == [1.0, 2.0]


def test_saved_ssp_archive_follows_the_packaging_rules(fmus, tmp_path):
    """Entries are stored or deflated, not encrypted, with ASCII names and version 2.0 at most."""
    system = System()
    system.add("größe", fmus["any"])
    with zipfile.ZipFile(save_system(system, tmp_path / "t.ssp")) as file:
        entries = file.infolist()
    assert {one.compress_type for one in entries} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    assert all(one.extract_version <= 20 and one.flag_bits == 0 for one in entries)
    names = [one.filename for one in entries]
    assert "SystemStructure.ssd" in names
    assert all(name.isascii() for name in names)
    assert all(name.startswith("resources/") for name in names if name != "SystemStructure.ssd")


def test_encrypted_ssp_archive_is_rejected(made):
    data = bytearray(made.write(ssd(part())).read_bytes())
    data[data.rfind(b"PK\x01\x02") + 8] |= 1  # the flag for encryption of the last file
    made.path.write_bytes(data)
    with pytest.raises(FormatError, match=r"t\.ssp: this is not an SSP archive: .*encrypted"):
        load_system(made.path)


def test_additional_files_of_an_ssp_archive_are_ignored(made):
    path = made.write(ssd(part(inside=bindings(ssv(real("u", 1.0))))))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("extra/org.example/data.bin", b"\0")
        file.writestr("documentation/index.html", "<html/>")
    system, _ = load_system(path)
    assert simulate(system, 0.02, 0.01, progress=False)["a.y"][-1] == 1.0


# --- 2, 5: sources ---


@pytest.mark.parametrize(
    ("source", "entry_name"),
    [
        ("fmus/deep/a.fmu", "fmus/deep/a.fmu"),
        ("./resources/../a.fmu", "a.fmu"),
        ("gr%C3%B6%C3%9Fe.fmu", "größe.fmu"),
        ("my%20arm%23.fmu", "my arm#.fmu"),
    ],
)
def test_ssp_component_source_is_a_relative_uri(made, fmus, source, entry_name):
    path = made.write(ssd(part(source=source, inside=bindings(ssv(real("u", 1.0))))))
    with zipfile.ZipFile(path, "a") as file:
        file.write(fmus["tens"], entry_name)
    system, _ = load_system(path)
    assert simulate(system, 0.02, 0.01, progress=False)["a.y"][-1] == 1.0


def test_ssp_sources_may_be_file_uris(made, fmus, tmp_path):
    values = tmp_path / "my values.ssv"
    values.write_text(ssv(real("u", 1.5)))
    bound = bindings("", attributes=f'source="{values.as_uri()}"')
    assert made.end(ssd(part(source=fmus["any"].as_uri(), inside=bound))) == 1.5


def test_remote_and_missing_ssp_sources_are_rejected_with_file_and_line(made):
    where = r"t\.ssp/SystemStructure\.ssd:1: "
    made.refused(ssd(part(source="http://x/a.fmu")), f"{where}.*is not in the archive")
    made.refused(ssd(part(source="b.fmu")), f"{where}FMU 'b.fmu' is missing")
    for uri, said in (("http://x/p.ssv", "expected a relative URI"), ("p.ssv", "it is missing")):
        text = ssd(part(inside=bindings("", attributes=f'source="{uri}"')))
        made.refused(text, f"{where}cannot read the file '{uri}': {said}")


# --- 4: common content ---

NOTE = '<ssc:Annotation type="org.example"><x xmlns="urn:x"/></ssc:Annotation>'


def test_ssp_annotations_are_allowed_on_every_element_and_logged(made, caplog):
    notes = f"<ssd:Annotations>{NOTE}</ssd:Annotations>"
    listed = connector("u", "input", f"<ssc:Real/>{notes}") + connector("y", "output")
    rows = '<ssv:Parameter name="u" id="i" description="d"><ssv:Real value="1"/>'
    rows += f"<ssv:Annotations>{NOTE}</ssv:Annotations></ssv:Parameter>"
    bound = bindings(ssv(rows, f"<ssv:Annotations>{NOTE}</ssv:Annotations>"))
    more = part("b", notes, listed=listed)
    wires = wire("a.y", "b.u", notes)
    experiment = f'<ssd:DefaultExperiment stopTime="1">{notes}</ssd:DefaultExperiment>{notes}'
    text = ssd(part(inside=bound) + more, wires, after=experiment, more=notes)
    assert made.end(text, "b.y") == 1.0
    assert "ssd:1: annotations of the type 'org.example' are ignored (8 in the file)" in made.log(
        caplog, text
    )


def test_ssp_attributes_that_describe_a_file_have_no_effect(made):
    meta = (
        'id="i" description="d" author="a" fileversion="1" copyright="c" license="l" '
        'generationTool="t" generationDateAndTime="2020-01-01T00:00:00Z" name="s">'
    )
    text = ssd(part(inside=bindings(ssv(real("u", 1.0)))))
    assert made.end(text.replace('name="s">', meta, 1)) == 1.0


def test_ssp_metadata_and_signatures_are_ignored_and_logged(made, caplog):
    data = '<ssc:MetaData kind="general" type="text/plain"><ssc:Content/></ssc:MetaData>'
    data += '<ssc:Signature role="authenticity" type="text/plain" source="s.txt"/>'
    text = ssd(part(inside=data + bindings(ssv(real("u", 1.0)))), version="2.0")
    assert made.end(text) == 1.0
    assert "no effect on a run: MetaData (1), Signature (1)" in made.log(caplog, text)


ITEM = '<ssc:Item name="{}" value="1"/>'


@pytest.mark.parametrize("prefix", ["ssd", "ssv", "ssb"])
def test_ssp_enumerations_with_ambiguous_names_are_rejected(made, prefix):
    def text(rows):
        rows = f"<{prefix}:Enumerations>{rows}</{prefix}:Enumerations>"
        if prefix == "ssd":
            return ssd(part(), after=rows)
        if prefix == "ssv":
            return ssd(part(inside=bindings(ssv("", rows))))
        words = '<ssb:SignalDictionary version="1.0"><ssb:DictionaryEntry name="x"><ssc:Real/>'
        words += f"</ssb:DictionaryEntry>{rows}</ssb:SignalDictionary>"
        bus = '<ssd:SignalDictionaryReference name="bus" dictionary="d"/>'
        return ssd(part() + bus, more=dictionaries(d=words))

    one = f'<ssc:Enumeration name="E">{ITEM.format("a")}</ssc:Enumeration>'
    made.refused(text(one + one), r"ssd:1: two enumerations have the name 'E'")
    same = f'<ssc:Enumeration name="E">{ITEM.format("a") * 2}</ssc:Enumeration>'
    made.refused(text(same), r"ssd:1: two items of 'E' have the name 'a'")


@pytest.mark.parametrize(
    ("unit", "expected"), [('m="1" factor="0.3048"', 3.048), ('m="1" factor="2" offset="-1"', 19.0)]
)
def test_ssp_unit_is_converted_by_the_factor_and_offset_of_its_file(made, unit, expected):
    """value in SI = factor value + offset, as in FMI 2.0; the unit names differ in each file."""
    own = f'<ssv:Units><ssc:Unit name="m"><ssc:BaseUnit {unit}/></ssc:Unit></ssv:Units>'
    text = ssd(part(inside=bindings(ssv(real("u", 10, "m"), own))), after=UNITS)
    assert_allclose(made.end(text), expected, rtol=1e-14)


# --- 4: transformations ---

CONNECTED = [  # input, output, start value, transformation, expected value
    ("b", "by", ("Boolean", "true"), table("Boolean", true="false", false="true"), 0),
    ("b", "by", ("Boolean", "false"), table("Boolean", _1="false", _0="1"), 1),
    ("b", "by", ("Boolean", "true"), table("Boolean", false="true"), 1),  # not in the table
    ("n", "ny", ("Integer", "3"), table("Integer", _3="-7", _4="8"), -7),
    ("n", "ny", ("Integer", "5"), table("Integer", _3="-7", _4="8"), 5),
    ("n", "ny", ("Integer", "3"), table("Integer", _3="4", _4="8"), 4),  # entries do not chain
    ("e", "ey", ("Enumeration", "on"), table("Enumeration", on="off", off="on"), 10),
    ("e", "ey", ("Enumeration", "off"), table("Enumeration", on="off", off="on"), 20),
    ("e", "ey", ("Enumeration", "on"), table("Integer", _2="10", _1="20"), 10),
]


@pytest.mark.parametrize("form", ["numpy", "compiled"])
@pytest.mark.parametrize(("u", "y", "given", "change", "expected"), CONNECTED)
def test_ssp_mapping_transformation_replaces_the_values_of_a_connection(
    made, u, y, given, change, expected, form
):
    first = part("first", bindings(ssv(value(u, *given))))
    text = ssd(first + part("b", source="resources/tens.fmu"), wire(f"first.{y}", f"b.{u}", change))
    assert made.end(text, f"b.{y}", form) == expected


@pytest.mark.parametrize(("u", "y", "given", "change", "expected"), CONNECTED)
def test_ssp_mapping_transformation_replaces_the_value_of_a_parameter(
    made, u, y, given, change, expected
):
    items = f"<ssv:Enumerations><ssc:Enumeration name='E'>{ITEMS.format(1, 2)}</ssc:Enumeration>"
    items = items.replace("<Item", "<ssc:Item") + "</ssv:Enumerations>"
    row = value("K", *given, 'name="E"' if u == "e" else "")
    mapping = f"<ssd:ParameterMapping>{ssm(entry('K', u, change))}</ssd:ParameterMapping>"
    bound = bindings(ssv(row, items), mapping=mapping)
    assert made.end(ssd(part(inside=bound, source="resources/tens.fmu")), f"a.{y}") == expected


def test_ssp_mapping_transformations_of_nested_systems_apply_one_after_another(made):
    """3 becomes 4 in the inner system and 5 in the outer system; 4 becomes 5."""
    within = inner(
        "in",
        part("a"),
        wire("a.ny", "out", table("Integer", _3="4")),
        connector("out", "output", "<ssc:Integer/>"),
    )
    for start, expected in ((3, 5), (4, 5), (6, 6)):
        bound = bindings(ssv(value("in.a.n", "Integer", start)))
        step = table("Integer", _4="5")
        text = ssd(within + part("b"), wire("in.out", "b.n", step), before=bound)
        assert made.end(text, "b.ny") == expected


LINEAR = '<ssc:LinearTransformation factor="4" offset="1"/>'


@pytest.mark.parametrize("is_reversed", [False, True])
def test_ssp_transformation_applies_in_the_direction_of_the_data_flow(made, is_reversed):
    """target = factor source + offset, also for a connection that starts at the input."""
    listed = connector("u", "input") + connector("y", "output")
    elements = part("a", bindings(ssv(real("u", 2.0))), listed=listed) + part("b", listed=listed)
    ends = ("b.u", "a.y") if is_reversed else ("a.y", "b.u")
    assert made.end(ssd(elements, wire(*ends, LINEAR)), "b.y") == 9.0


@pytest.mark.parametrize(
    ("u", "y", "change", "said"),
    [
        ("u", "y", table("Boolean", true="false"), "<BooleanMapping.* does not .* type Real"),
        ("b", "by", table("Integer", _1="2"), "<IntegerMapping.* does not .* type Boolean"),
        ("n", "ny", table("Enumeration", on="off"), "<EnumerationMap.* does not .* type Integer"),
        ("b", "by", LINEAR, "<LinearTransformation> does not support the type Boolean"),
        ("e", "ey", LINEAR, "<LinearTransformation> does not support the type Enumeration"),
        ("e", "ey", table("Enumeration", on="red"), "'red' is not an item of the enumeration"),
        ("e", "ey", table("Enumeration", red="on"), "'red' is not an item of the enumeration"),
        ("n", "ny", table("Integer", _1="2", _01="3"), "two entries for '01'"),
        ("b", "by", table("Boolean", true="on"), "on"),
        ("n", "ny", table("Integer", _1="1.5"), "1.5"),
    ],
)
def test_ssp_transformation_of_unsupported_types_or_values_is_rejected(made, u, y, change, said):
    elements = part("a") + part("b")
    made.refused(ssd(elements, wire(f"a.{y}", f"b.{u}", change)), rf"ssd:1: .*{said}")


# --- 5: connectors and connections ---


def test_ssp_connector_kind_and_type_must_match_the_variable(made, caplog):
    listed = connector("u", "output") + connector("y", "output", "<ssc:Boolean/>")
    listed += connector("x", "local", "<ssc:Real/>") + connector("k", "unspecified")
    log = made.log(caplog, ssd(part(listed=listed), version="2.0"))
    assert "'a.u' is of kind output, but its FMU variable has the causality input" in log
    assert "the type of connector 'a.y' differs from the type Real of its FMU variable" in log
    assert log.count("ssd:1: ") == 2


def test_ssp_connections_with_unsupported_source_or_target_kinds_are_rejected(made):
    for ends, said in ((("a.x", "b.u"), "causality local"), (("a.y", "b.k"), "causality param")):
        kinds = {"x": "local", "u": "input", "y": "output", "k": "parameter"}
        listed = "".join(connector(*one) for one in kinds.items())
        elements = part("a", listed=listed) + part("b", listed=listed)
        text = ssd(elements, wire(*ends), version="2.0")
        made.refused(text, rf"ssd:1: the connection from {ends[0]} to {ends[1]}: .*{said}")


ROLES = ("structuralParameter", "parameter", "input", "constant", "calculatedParameter", "output")


@pytest.mark.parametrize(
    ("is_inner", "source", "target", "is_allowed"),
    [
        (True, "parameter", "parameter", True),
        (True, "parameter", "input", True),
        (True, "structuralParameter", "parameter", True),
        (True, "input", "input", True),
        (True, "input", "parameter", False),
        (True, "parameter", "structuralParameter", False),
        (False, "output", "output", True),
        (False, "calculatedParameter", "calculatedParameter", True),
        (False, "constant", "constant", True),
        (False, "output", "calculatedParameter", False),
        (False, "output", "constant", False),
    ],
)
def test_ssp_connection_outside_of_the_allowed_combinations_is_logged(
    made, caplog, is_inner, source, target, is_allowed
):
    """The cases connect a system to its element, or an element to its system."""
    port, of_system = ("u", source) if is_inner else ("y", target)
    element = part("a", listed=connector(port, target if is_inner else source))
    ends = ("top", f"a.{port}") if is_inner else (f"a.{port}", "top")
    text = ssd(inner("s", element, wire(*ends), connector("top", of_system)), version="2.0")
    found = "SSP does not allow a connection from" in made.log(caplog, text)
    assert found is not is_allowed


WORDS = (
    '<ssb:SignalDictionary version="1.0"><ssb:DictionaryEntry name="x"><ssc:Real unit="{}"/>'
    '</ssb:DictionaryEntry><ssb:Units><ssc:Unit name="m"><ssc:BaseUnit m="1"/></ssc:Unit>'
    f"{MM}</ssb:Units></ssb:SignalDictionary>"
)


@pytest.mark.parametrize("ends", [("one.x", "two.x"), ("two.x", "one.x")])
@pytest.mark.parametrize("has_kinds", [False, True])
def test_ssp_signal_dictionaries_are_connected_in_the_direction_of_their_signals(
    made, ends, has_kinds
):
    """The signal passes from one dictionary in m to another in mm, where 500 mm are added."""

    def bus(name, kind):
        listed = f"<ssd:Connectors>{connector('x', kind)}</ssd:Connectors>" if has_kinds else ""
        return (
            f'<ssd:SignalDictionaryReference name="{name}" dictionary="{name}">{listed}'
            "</ssd:SignalDictionaryReference>"
        )

    listed = connector("u", "input") + connector("y", "output")
    elements = part("a", bindings(ssv(real("u", 2.0))), listed=listed) + part("b", listed=listed)
    elements += bus("one", "inout") + bus("two", "inout")
    shift = '<ssc:LinearTransformation offset="500"/>'
    wires = wire(*ends, shift) + wire("b.u", "two.x") + wire("a.y", "one.x")
    text = ssd(elements, wires, more=dictionaries(one=WORDS.format("m"), two=WORDS.format("mm")))
    assert_allclose(made.end(text, "b.y"), 2.5, rtol=1e-15)


def test_connector_kind_of_an_ssp_dictionary_reference_determines_its_direction(made):
    def bus(name, kind):
        return (
            f'<ssd:SignalDictionaryReference name="{name}" dictionary="d"><ssd:Connectors>'
            f"{connector('x', kind)}</ssd:Connectors></ssd:SignalDictionaryReference>"
        )

    elements = part("a", bindings(ssv(real("u", 2.0)))) + part("b")
    elements += bus("into", "input") + bus("out", "output")
    wires = wire("into.x", "a.y") + wire("b.u", "out.x")  # the attributes give no direction
    text = ssd(elements, wires, more=dictionaries(d=WORDS.format("m")))
    assert made.end(text, "b.y") == 2.0


def test_external_ssp_signal_dictionary_is_read_from_its_file(made):
    words = WORDS.replace(' version="1.0"', f' {SSD_SPACES} version="1.0"', 1).format("mm")
    bus = '<ssd:SignalDictionaryReference name="bus" dictionary="d"/>'
    elements = part("a", bindings(ssv(real("u", 2.0)))) + part("b") + bus
    more = '<ssd:SignalDictionaries><ssd:SignalDictionary name="d" source="{}"{}/>'
    more += "</ssd:SignalDictionaries>"
    text = ssd(elements, wire("a.y", "bus.x", LINEAR) + wire("bus.x", "b.u"), more=more)
    assert_allclose(made.end(text.format("./d.ssb", ""), "b.y", d_dot_ssb=words), 8.001, rtol=1e-15)
    made.refused(text.format("d.ssb", ' type="text/x"'), "unsupported type 'text/x'")
    made.refused(text.format("none.ssb", ""), r"ssd:1: cannot read the file 'none\.ssb'")


def test_ambiguous_names_of_ssp_signal_dictionaries_and_entries_are_rejected(made):
    words = WORDS.format("m")
    double = '</ssb:DictionaryEntry><ssb:DictionaryEntry name="x"><ssc:Real/></ssb:DictionaryEntry>'
    twice = words.replace("</ssb:DictionaryEntry>", double, 1)
    bus = '<ssd:SignalDictionaryReference name="bus" dictionary="d"/>'
    text = ssd(part() + bus, more=dictionaries(d=twice))
    made.refused(text, "ssd:1: two entries have the name 'x'")
    both = dictionaries(d=words).replace("</ssd:SignalDictionaries>", "")
    both += dictionaries(d=words).replace("<ssd:SignalDictionaries>", "")
    made.refused(ssd(part() + bus, more=both), "ssd:1: two signal dictionaries have the name 'd'")


def test_ssp_default_experiment_sets_the_times_of_the_run(made):
    path = made.write(ssd(part(), after='<ssd:DefaultExperiment startTime="1" stopTime="2.5"/>'))
    assert load_system(path).run == {"t_start": 1.0, "t_stop": 2.5}
    assert load_system(made.write(ssd(part()))).run == {}
    made.refused(
        ssd(part(), after='<ssd:DefaultExperiment startTime="3" stopTime="2.5"/>'),
        "ssd:1: the stop time 2.5 s is before the start time 3.0 s",
    )


# --- 5: parameter bindings ---


def test_later_ssp_parameter_binding_of_an_element_overrides_earlier_bindings(made):
    text = ssd(part(inside=bindings(ssv(real("u", 1) + real("k", 10)), ssv(real("u", 2)))))
    assert made.end(text) == 12.0


def test_ssp_binding_prefix_is_added_before_parameter_names_are_mapped(made):
    rows = ssv(real("u", 1.0) + real("k", 2.0))
    assert made.end(ssd(part(), before=bindings(rows, attributes='prefix="a."'))) == 3.0
    mapping = f"<ssd:ParameterMapping>{ssm(entry('q.u', 'a.u'))}</ssd:ParameterMapping>"
    bound = bindings(rows, attributes='prefix="q."', mapping=mapping)
    assert made.end(ssd(part(), before=bound)) == 1.0


def test_ssp_parameter_may_be_mapped_to_several_names(made):
    entries = entry("K", "u") + entry("K", "k", LINEAR)
    mapping = f"<ssd:ParameterMapping>{ssm(entries)}</ssd:ParameterMapping>"
    assert made.end(ssd(part(inside=bindings(ssv(real("K", 2.0)), mapping=mapping)))) == 11.0


def test_ssp_value_is_set_in_all_variables_with_its_hierarchical_name(made):
    """`b.c.u` is the input of the component `c` of the system `b` and of the component `b.c`."""
    text = ssd(
        inner("b", part("c")) + part("b.c") + part("b/c.d"), before=bindings(ssv(real("b.c.u", 3)))
    )
    system, _ = load_system(made.write(text))
    result = simulate(system, 0.02, 0.01, progress=False)
    assert (result["b/c.y"][-1], result["b_c.y"][-1], result["b/c_d.y"][-1]) == (3.0, 3.0, 0.0)


def test_ssp_binding_sets_variables_without_connectors_and_local_variables(made):
    assert made.end(ssd(part(inside=bindings(ssv(real("k", 1.0) + real("x", 2.0)))))) == 3.0


@pytest.mark.parametrize("has_mapping", [False, True])
def test_ssp_parameter_source_inside_a_component_archive_is_read(made, has_mapping):
    """The FMU contains a parameter set k = 5 and a mapping of k to u."""
    mapping = '<ssd:ParameterMapping sourceBase="component" source="resources/in.ssm"/>'
    binding = 'sourceBase="component" source="./resources/in.ssv"'
    bound = bindings("", attributes=binding, mapping=mapping if has_mapping else "")
    assert made.end(ssd(part(inside=bound))) == 5.0
    made.refused(ssd(part(), before=bound), "ssd:1: sourceBase is component, but")
    bad = bound.replace("in.ssv", "none.ssv")
    made.refused(ssd(part(inside=bad)), r"ssd:1: cannot read the file './resources/none\.ssv'")


def test_ssp_bindings_of_unknown_formats_are_rejected(made):
    bound = bindings("", attributes='type="text/csv" source="p.csv"')
    made.refused(ssd(part(inside=bound)), "ssd:1: unsupported source type 'text/csv'")


def test_boolean_and_integer_ssp_values_follow_xml_schema(made):
    rows = value("b", "Boolean", " 1 ") + value("n", "Integer", " +3 ")
    text = ssd(part(inside=bindings(ssv(rows))))
    assert (made.end(text, "a.by"), made.end(text, "a.ny")) == (1, 3)


# --- 5: components ---

SUB = ssd(
    part("c", inside=bindings(ssv(real("u", 1.0))), source="fmus/c.fmu")
    + part("d", source="fmus/c.fmu"),
    wire("in", "c.u") + wire("c.y", "out") + wire("c.y", "d.u", LINEAR),
    before="<ssd:Connectors>"
    + connector("in", "input", '<ssc:Real unit="mm"/>')
    + connector("out", "output")
    + "</ssd:Connectors>"
    + bindings(ssv(real("in", 2000.0))),
    after=UNITS,
    name="sub",
)


@pytest.mark.parametrize("kind", ["ssp", "ssd", "variant"])
def test_ssp_component_may_be_another_ssp_or_ssd_file(made, fmus, tmp_path, kind):
    """The inner system sets its input to 2000 mm; a binding of the component replaces the value."""
    with zipfile.ZipFile(tmp_path / "sub.ssp", "w") as file:
        file.writestr("B.ssd" if kind == "variant" else "SystemStructure.ssd", SUB)
        file.write(fmus["any"], "fmus/c.fmu")
    source, type_of = {
        "ssp": ("resources/sub.ssp", "package"),
        "variant": ("resources/sub.ssp#B.ssd", "package"),
        "ssd": ("resources/sub/My%20System.ssd", "definition"),
    }[kind]
    attributes = f'type="application/x-ssp-{type_of}"'
    for bound, expected in (("", 2.0), (bindings(ssv(real("in", 3000.0))), 3.0)):
        first = part("sub", bound, source, attributes)
        path = made.write(ssd(first + part("b"), wire("sub.out", "b.u")))
        with zipfile.ZipFile(path, "a") as file:
            file.write(tmp_path / "sub.ssp", "resources/sub.ssp")
            file.writestr("resources/sub/My System.ssd", SUB)
            file.write(fmus["any"], "resources/sub/fmus/c.fmu")
        folder = tmp_path / f"unpacked{expected}"
        with zipfile.ZipFile(path) as file:
            file.extractall(folder)
        for one in (path, folder):
            result = simulate(load_system(one).system, 0.05, 0.01, progress=False)
            assert_array_equal(result["b.y"][-1], expected)
            assert_array_equal(result["sub/d.y"][-1], 4 * expected + 1)


def test_ssp_component_may_repeat_a_system_of_its_file(made):
    system = inner("one", part("c"), attributes='id="first"')
    again = part("two", bindings(ssv(real("c.u", 3.0))), "#first")
    text = ssd(system + again, before=bindings(ssv(real("one.c.u", 1.0))))
    assert (made.end(text, "one/c.y"), made.end(text, "two/c.y")) == (1.0, 3.0)
    made.refused(text.replace("#first", "#other"), "ssd:1: the file has 0 systems with the id")


def test_ssp_component_that_contains_itself_is_rejected(made):
    loop = inner("one", part("two", source="#first"), attributes='id="first"')
    made.refused(ssd(loop), "ssd:1: component 'two' contains itself")
    attributes = 'type="application/x-ssp-definition"'
    again = ssd(part("two", source="SystemStructure.ssd", attributes=attributes))
    made.refused(again, "ssd:1: component 'two' contains itself")
    other = ssd(part("three", source="../SystemStructure.ssd", attributes=attributes))
    path = made.write(ssd(part("two", source="sub/B.ssd", attributes=attributes)))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("sub/B.ssd", other)
    with pytest.raises(FormatError, match=r"sub/B\.ssd:1: component 'three' contains itself"):
        load_system(path)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ('type="text/x-modelica; path=A.B"', "has the type 'text/x-modelica; path=A.B'; expected"),
        ('implementation="ModelExchange"', "component 'a': .*model exchange"),
        (
            'implementation="ScheduledExecution"',
            "component 'a' has the implementation ScheduledExecution",
        ),
    ],
)
def test_unsupported_ssp_component_is_rejected_with_its_name(made, attributes, said):
    text = ssd(part(attributes=attributes), version="2.0")
    made.refused(text, rf"ssd:1: .*{said}")


FMI3 = """<fmiModelDescription fmiVersion="3.0" modelName="m" instantiationToken="m">
<CoSimulation modelIdentifier="m"/><ModelVariables>
<Float64 name="u" valueReference="1" causality="input" start="0"><Alias name="u2"/></Float64>
<Float64 name="y" valueReference="2" causality="output"><Alias name="y2"/></Float64>
<UInt32 name="size" valueReference="3" causality="structuralParameter" variability="fixed"
start="1" max="4"/><Clock name="tick" valueReference="4" causality="output"
intervalVariability="triggered"/>
<Clock name="tock" valueReference="5" causality="input" intervalVariability="constant"
intervalDecimal="1"/></ModelVariables><ModelStructure><Output valueReference="2"/>
</ModelStructure></fmiModelDescription>"""


def described_fmu(path, text):
    """Write an FMI 3.0 FMU that can be described, but not run."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("modelDescription.xml", text)
        file.writestr(f"binaries/{fmpy.platform_tuple}/m{fmpy.sharedLibraryExtension}", b"")
    return path


@pytest.fixture
def fmi3(tmp_path):
    """Return an FMU with alias names, a structural parameter and clocks."""
    return described_fmu(tmp_path / "three.fmu", FMI3)


def test_ssp_connector_may_have_the_alias_name_of_an_fmi_3_variable(fmi3, tmp_path):
    listed = connector("u2", "input") + connector("y2", "output")
    bound = bindings(ssv(real("u2", 4.0)))
    first = part("a", bound, "resources/three.fmu", listed=listed)
    second = part("b", "", "resources/three.fmu", listed=listed)
    text = ssd(first + second, wire("a.y2", "b.u2"), version="2.0")
    system, _ = load_system(archive(tmp_path / "t.ssp", text, {"three": fmi3}))
    assert [one.names for one in system.connections] == [("a.y", "b.u")]
    assert_array_equal(system.parts["a"].start["u"], 4.0)


def test_ssp_value_of_a_structural_parameter_configures_the_fmu(fmi3, tmp_path):
    def loaded(size):
        bound = bindings(ssv(value("size", "UInt32", size), version="2.0"))
        text = ssd(part("a", bound, "resources/three.fmu"), version="2.0")
        return load_system(archive(tmp_path / "t.ssp", text, {"three": fmi3})).system.parts["a"]

    assert loaded("2").component.configuration == (("size", (2.0,)),)
    assert loaded("1").component.configuration == ()  # the declared value
    with pytest.raises(FormatError, match=r"ssd:1: component 'a': .* a\.size is 9; .*at most 4"):
        loaded("9")


def test_ssp_connection_to_a_clock_with_an_interval_is_rejected(fmi3, tmp_path):
    elements = part("a", source="resources/three.fmu") + part("b", source="resources/three.fmu")
    text = ssd(elements, wire("a.tick", "b.tock"), version="2.0")
    path = archive(tmp_path / "t.ssp", text, {"three": fmi3})
    with pytest.raises(
        FormatError, match=r"ssd:1: the connection from a\.tick to b\.tock: .*clock"
    ):
        load_system(path)


# --- writing ---


def saved_root(path):
    with zipfile.ZipFile(path) as file:
        data = file.read("SystemStructure.ssd")
    read({"s.ssd": data}, "s.ssd", STRUCTURE, path)  # valid by the XML schema
    return etree.fromstring(data)


def test_saved_ssp_file_copies_the_unit_definitions_of_the_fmu_or_omits_the_unit(fmus, tmp_path):
    own = '<UnitDefinitions><Unit name="cubit"><BaseUnit m="1" factor="0.4572"/></Unit>'
    own += "</UnitDefinitions><ModelVariables>"
    with zipfile.ZipFile(fmus["any"]) as file:
        content = {one.filename: file.read(one) for one in file.infolist()}
    text = content["modelDescription.xml"].decode()
    system = System()
    for name, unit in (("known", "cubit"), ("odd", "widget"), ("plain", "m")):
        changed = text.replace('unit="m"', f'unit="{unit}"')
        if name == "known":
            changed = changed.replace("<TypeDefinitions>", f"{own[:-16]}<TypeDefinitions>")
        with zipfile.ZipFile(tmp_path / f"{name}.fmu", "w") as file:
            for one, data in (content | {"modelDescription.xml": changed}).items():
                file.writestr(one, data)
        system.add(name, tmp_path / f"{name}.fmu", start={"u": 1.0})
    system.connect("known.y", "plain.u")
    path = save_system(system, tmp_path / "t.ssp")
    root = saved_root(path)
    used = {one.get("unit") for one in root.iter(f"{{{SPACES['ssc']}}}Real")} - {None}
    defined = {one.get("name") for one in root.iter(f"{{{SPACES['ssc']}}}Unit")}
    assert used == defined == {"cubit", "m"}
    result = simulate(load_system(path).system, 0.05, 0.01, progress=False)
    assert_allclose(result["plain.y"][-1], 0.4572, rtol=1e-15)


@pytest.mark.parametrize(("big", "version"), [(None, "1.0"), (2**40, "2.0")])
def test_saved_ssp_file_uses_only_types_of_its_ssp_version(tmp_path, big, version):
    """SSP 1.0 has one integer type of 32 bits; the other types of FMI 3.0 need SSP 2.0."""
    types = ("Int8", "UInt16", "Int32", "Int64", "Float32")
    rows = "".join(
        f'<{kind} name="{kind}" valueReference="{k}" causality="input" start="0" '
        f'variability="discrete"/>'
        for k, kind in enumerate(types)
    )
    system, start = System(), dict.fromkeys(types, 5) | ({"Int64": big} if big else {})
    if not big:
        del start["Int64"]
    text = re.sub("<ModelVariables>.*</ModelStructure>", "", FMI3, flags=re.DOTALL)
    text = text.replace(
        "</fmiModelDescription>",
        f"<ModelVariables>{rows}</ModelVariables><ModelStructure/></fmiModelDescription>",
    )
    system.add("a", described_fmu(tmp_path / "types.fmu", text), start=start)
    path = save_system(system, tmp_path / "t.ssp")
    root = saved_root(path)
    (given,) = root.iter(f"{{{SPACES['ssv']}}}ParameterSet")
    assert root.get("version") == given.get("version") == version
    kinds = {one[0].getparent().get("name"): etree.QName(one[0]).localname for one in given[0]}
    expected = dict.fromkeys(("Int8", "UInt16", "Int32"), "Integer") | {"Float32": "Real"}
    assert kinds == expected | ({"Int64": "Int64"} if big else {})
    folder = Path(fmpy.__file__).parent / "ssp" / "schema"
    schema = etree.XMLSchema(file=str(folder / "SystemStructureParameterValues.xsd"))
    assert schema.validate(given) is (not big)
    again, _ = load_system(path)
    assert {name: float(v) for name, v in again.parts["a"].start.items()} == start


def test_ssp_2_type_in_a_parameter_set_of_version_1_is_logged(made, caplog):
    text = ssd(part(inside=bindings(ssv(value("u", "Float64", 3.0)))), version="2.0")
    assert made.end(text) == 3.0
    assert "ssd:1: the parameter set has the version 1.0, but Float64" in made.log(caplog, text)


def test_saved_ssp_file_has_the_transformation_of_each_connection(fmus, tmp_path):
    system, one, zero = System(), np.ones(1), np.zeros(1)
    for name in "abc":
        system.add(name, fmus["any"], start={"n": 3, "b": 1, "u": 1.0})
    swap = ((0.0, 1.0), (1.0, 0.0))
    system.connect("a.by", "b.b", conversion=Conversion(one, zero, swap))
    system.connect("a.ny", "b.n", conversion=Conversion(one, zero, ((3.0, -2.0),)))
    system.connect("a.y", "b.u", conversion=Conversion(2 * one, one))
    system.connect("b.ny", "c.n", conversion=Conversion(one, zero))
    path = save_system(system, tmp_path / "t.ssp")
    kinds = [
        [etree.QName(change).localname for change in connection]
        for connection in saved_root(path).iter(f"{{{SPACES['ssd']}}}Connection")
    ]
    assert kinds == [
        ["BooleanMappingTransformation"],
        ["IntegerMappingTransformation"],
        ["LinearTransformation"],
        [],
    ]
    again, _ = load_system(path)
    for form in ("numpy", "compiled"):
        runs = [simulate(which, 0.05, 0.01, progress=False, form=form) for which in (system, again)]
        assert_array_equal(runs[0].values, runs[1].values)
        assert [runs[1][name][-1] for name in ("b.by", "b.ny", "b.y", "c.ny")] == [0, -2, 3, -2]


DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")  # xs:decimal has no exponent


@pytest.mark.parametrize("dt", [1e-5, 1e-3, 0.02, 123456.0])
def test_step_size_in_the_omsimulator_annotation_is_an_xml_schema_decimal(fmus, tmp_path, dt):
    system = System()
    system.add("a", fmus["any"])
    root = saved_root(save_system(system, tmp_path / "t.ssp", dt=dt))
    (master,) = root.iter("{*}FixedStepMaster")
    numbers = [master.get(n) for n in ("stepSize", "absoluteTolerance", "relativeTolerance")]
    assert all(DECIMAL.fullmatch(text) for text in numbers)
    assert float(numbers[0]) == dt
    (parent,) = master.iterancestors(f"{{{SPACES['ssc']}}}Annotation")
    assert parent.get("type") == "org.openmodelica"
