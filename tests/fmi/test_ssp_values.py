"""Parameter values in SSP files: units, mappings, enumerations, and reports of invalid content."""

import logging
import re
import zipfile

import pytest
from numpy.testing import assert_allclose

from foreign_fmu import foreign_fmu
from rigidblocks import System, load_system, save_system, simulate
from rigidblocks.block.port import decode_value
from rigidblocks.cli import main
from rigidblocks.common.format_error import FormatError
from ssp_archive import archive

MM = '<ssc:Unit name="mm"><ssc:BaseUnit m="1" factor="0.001"/></ssc:Unit>'
LINEAR = '<ssc:LinearTransformation factor="2" offset="1"/>'


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return an FMU that outputs its input in m."""
    path = tmp_path_factory.mktemp("values") / "same.fmu"
    return foreign_fmu(path, step="i->r[1] = i->r[0];", u='unit="m"', y='unit="m"')


@pytest.fixture(scope="module")
def switch(tmp_path_factory):
    """Return an FMU that outputs an enumeration with the items off (1) and on (2)."""
    path = tmp_path_factory.mktemp("values") / "switch.fmu"
    variables = (("u", "input", 0, "Enumeration"), ("y", "output", 1, "Enumeration"))
    declared = 'declaredType="E"'
    foreign_fmu(path, step="i->n[1] = i->n[0];", variables=variables, u=declared, y=declared)
    types = (
        '<TypeDefinitions><SimpleType name="E"><Enumeration><Item name="off" value="1"/>'
        '<Item name="on" value="2"/></Enumeration></SimpleType></TypeDefinitions>'
    )
    with zipfile.ZipFile(path) as file:
        content = {one.filename: file.read(one) for one in file.infolist()}
    text = content["modelDescription.xml"].decode()
    text = text.replace("<ModelVariables>", f"{types}<ModelVariables>")
    text = text.replace('<Enumeration start="0"', '<Enumeration start="1"')
    with zipfile.ZipFile(path, "w") as file:
        for name, data in (content | {"modelDescription.xml": text.encode()}).items():
            file.writestr(name, data)
    return path


def parameters(rows, units=MM, version="1.0", more=""):
    units = f"<ssv:Units>{units}</ssv:Units>" if units else ""
    return (
        f'<ssv:ParameterSet SPACES version="{version}" name="p"><ssv:Parameters>{rows}'
        f"</ssv:Parameters>{more}{units}</ssv:ParameterSet>"
    )


def real(name, value, unit=""):
    unit = f' unit="{unit}"' if unit else ""
    return f'<ssv:Parameter name="{name}"><ssv:Real value="{value}"{unit}/></ssv:Parameter>'


def mapped(inside="", attributes=""):
    return (
        '<ssm:ParameterMapping SPACES version="1.0"><ssm:MappingEntry source="K" target="u" '
        f"{attributes}>{inside}</ssm:MappingEntry></ssm:ParameterMapping>"
    )


BINDING = '<ssd:ParameterBinding source="p.ssv">{}</ssd:ParameterBinding>'
MAPPED = '<ssd:ParameterMapping source="p.ssm"/>'


def structure(
    bindings=f'<ssd:ParameterBinding source="p.ssv">{MAPPED}</ssd:ParameterBinding>',
    unit="m",
    version="1.0",
    root="",
    more="",
):
    """Return a system description with one component and its parameter bindings."""
    unit = f' unit="{unit}"' if unit else ""
    return (
        f'<ssd:SystemStructureDescription SPACES version="{version}" name="t">'
        '<ssd:System name="s"><ssd:Elements><ssd:Component name="a" source="resources/fmu.fmu">'
        f'<ssd:Connectors><ssd:Connector name="u" kind="input"><ssc:Real{unit}/>{more}'
        "</ssd:Connector></ssd:Connectors>"
        f"<ssd:ParameterBindings>{bindings}</ssd:ParameterBindings></ssd:Component>"
        f'</ssd:Elements></ssd:System><ssd:Units><ssc:Unit name="m"><ssc:BaseUnit m="1"/>'
        f"</ssc:Unit>{MM}</ssd:Units>{root}</ssd:SystemStructureDescription>"
    )


def end(path):
    system, _ = load_system(path)
    result = simulate(system, 0.02, 0.01, progress=False)
    return result[result.ports[0].name][-1]


@pytest.mark.parametrize(
    ("unit", "connector", "entry", "attributes", "expected"),
    [
        ("mm", "m", LINEAR, "", 2 * 1.5 + 1),
        ("mm", "mm", LINEAR, "", 2 * 1.5 + 1),  # the variable is in m
        ("mm", "m", "", "", 1.5),
        ("mm", "m", LINEAR, 'suppressUnitConversion="true"', 2 * 1500 + 1),
        ("mm", "m", "", 'suppressUnitConversion="1"', 1500),
        ("mm", "m", LINEAR, 'suppressUnitConversion="false"', 2 * 1.5 + 1),
        ("", "mm", LINEAR, "", 2 * 1.5 + 1),  # the value has the unit of the connector
        ("", "", LINEAR, "", 2 * 1500 + 1),
    ],
)
def test_ssp_parameter_mapping_applies_after_the_unit_conversion(
    fmu, tmp_path, unit, connector, entry, attributes, expected
):
    text = structure(unit=connector)
    rows = parameters(real("K", 1500, unit))
    files = {"p_dot_ssv": rows, "p_dot_ssm": mapped(entry, attributes)}
    path = archive(tmp_path / "t.ssp", text, {"fmu": fmu}, **files)
    assert_allclose(end(path), expected, rtol=1e-15)


def test_ssp_parameter_value_is_converted_at_each_connector_of_nested_systems(fmu, tmp_path):
    """A mapping multiplies 1500 mm by 2 and adds 1000 mm, at a connector in mm of the inner system.

    The connection to the component converts 4000 mm to 4 m and subtracts 0.5 m.
    """
    inner = (
        '<ssd:System name="inner"><ssd:Connectors><ssd:Connector name="in" kind="input">'
        '<ssc:Real unit="mm"/></ssd:Connector></ssd:Connectors><ssd:Elements>'
        '<ssd:Component name="a" source="resources/fmu.fmu"/></ssd:Elements><ssd:Connections>'
        '<ssd:Connection startConnector="in" endElement="a" endConnector="u">'
        '<ssc:LinearTransformation offset="-0.5"/></ssd:Connection></ssd:Connections></ssd:System>'
    )
    entry = mapped('<ssc:LinearTransformation factor="2" offset="1000"/>')
    text = (
        '<ssd:SystemStructureDescription SPACES version="1.0" name="t"><ssd:System name="s">'
        f"<ssd:ParameterBindings>{BINDING.format(MAPPED)}</ssd:ParameterBindings>"
        f"<ssd:Elements>{inner}</ssd:Elements></ssd:System><ssd:Units>{MM}</ssd:Units>"
        "</ssd:SystemStructureDescription>"
    )
    entry = entry.replace('target="u"', 'target="inner.in"')
    files = {"p_dot_ssv": parameters(real("K", 1.5, "m"), ""), "p_dot_ssm": entry}
    path = archive(tmp_path / "t.ssp", text, {"fmu": fmu}, **files)
    assert_allclose(end(path), (2 * 1500 + 1000) * 1e-3 - 0.5, rtol=1e-15)


def test_outer_ssp_parameter_binding_overrides_the_connector_value_of_an_inner_system(
    fmu, tmp_path
):
    def bound(name, value):
        rows = f'<ssv:ParameterSet version="1.0" name="p"><ssv:Parameters>{real(name, value)}'
        return (
            "<ssd:ParameterBindings><ssd:ParameterBinding><ssd:ParameterValues>"
            f"{rows}</ssv:Parameters></ssv:ParameterSet></ssd:ParameterValues>"
            "</ssd:ParameterBinding></ssd:ParameterBindings>"
        )

    text = (
        '<ssd:SystemStructureDescription SPACES version="1.0" name="t"><ssd:System name="s">'
        f"{bound('inner.a.u', 3.0)}<ssd:Elements>"
        '<ssd:System name="inner"><ssd:Connectors><ssd:Connector name="in" kind="input"/>'
        f"</ssd:Connectors>{bound('in', 7.0)}<ssd:Elements>"
        '<ssd:Component name="a" source="resources/fmu.fmu"/></ssd:Elements><ssd:Connections>'
        '<ssd:Connection startConnector="in" endElement="a" endConnector="u"/></ssd:Connections>'
        "</ssd:System></ssd:Elements></ssd:System></ssd:SystemStructureDescription>"
    )
    assert end(archive(tmp_path / "t.ssp", text, {"fmu": fmu})) == 3.0


@pytest.mark.parametrize(
    ("unit", "expected", "is_known"),
    [("[m]", 1.5, True), ("None", 1.5, False), ("mm", 1.5e-3, True), ("widget", 1.5, False)],
)
def test_ssp_parameter_in_an_undefined_unit_is_logged_and_not_converted(
    fmu, tmp_path, caplog, unit, expected, is_known
):
    files = {"p_dot_ssv": parameters(real("K", 1.5, unit), ""), "p_dot_ssm": mapped()}
    path = archive(tmp_path / "t.ssp", structure(), {"fmu": fmu}, **files)
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        assert_allclose(end(path), expected, rtol=1e-15)
    said = rf"p\.ssv:1: parameter 'K' for 'a\.u': no file defines the unit '{re.escape(unit)}'"
    assert bool(re.search(said, caplog.text)) is not is_known


def test_ssp_connection_in_an_undefined_unit_is_logged_and_not_converted(fmu, tmp_path, caplog):
    text = structure("<ssd:ParameterBinding source='p.ssv'/>", "").replace(
        "</ssd:Elements>",
        '<ssd:Component name="b" source="resources/odd.fmu"/></ssd:Elements><ssd:Connections>'
        '<ssd:Connection startElement="b" startConnector="y" endElement="a" endConnector="u"/>'
        "</ssd:Connections>",
    )
    text = text.replace("<ssd:ParameterBindings><ssd:ParameterBinding source='p.ssv'/>", "")
    text = text.replace("</ssd:ParameterBindings>", "")
    odd = foreign_fmu(tmp_path / "odd.fmu", step="i->r[1] = 3.0;", y='unit="widget"')
    path = archive(tmp_path / "t.ssp", text, {"fmu": fmu, "odd": odd})
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        system, _ = load_system(path)
    assert simulate(system, 0.02, 0.01, progress=False)["a.y"][-1] == 3.0
    assert "ssd:1: the connection from b.y to a.u: no file defines the unit 'widget'" in caplog.text


def test_ssp_parameter_of_another_physical_dimension_is_rejected(fmu, tmp_path):
    files = {"p_dot_ssv": parameters(real("K", 1.5, "kg"), ""), "p_dot_ssm": mapped()}
    path = archive(tmp_path / "t.ssp", structure(), {"fmu": fmu}, **files)
    with pytest.raises(
        FormatError, match=r"p\.ssv:1: parameter 'K' for 'a\.u': the units kg and m have"
    ):
        load_system(path)


ENUMERATION = '<ssv:Parameter name="u"><ssv:Enumeration value="{}"{}/></ssv:Parameter>'


@pytest.mark.parametrize(("text", "expected"), [("on", 2), ("off", 1), ("2", 2)])
def test_ssp_enumeration_parameter_is_set_by_item_name(switch, tmp_path, text, expected):
    items = (
        '<ssv:Enumerations><ssc:Enumeration name="E"><ssc:Item name="off" value="7"/>'
        '<ssc:Item name="on" value="8"/></ssc:Enumeration></ssv:Enumerations>'
    )  # the item numbers of the FMU apply, not the numbers of the file
    rows = parameters(ENUMERATION.format(text, ' name="E"'), "", more=items)
    path = archive(
        tmp_path / "t.ssp",
        structure(BINDING.format(""), "").replace("<ssc:Real/>", ""),
        {"fmu": switch},
        p_dot_ssv=rows,
    )
    assert end(path) == expected


def test_error_for_an_unknown_ssp_enumeration_item_suggests_a_similar_name(switch, tmp_path):
    text = structure(BINDING.format(""), "").replace("<ssc:Real/>", "")
    rows = parameters(ENUMERATION.format("onn", ""), "")
    path = archive(tmp_path / "t.ssp", text, {"fmu": switch}, p_dot_ssv=rows)
    said = (
        r"p\.ssv:1: parameter 'u' for 'a\.u': 'onn' is not an item .*off, on \(did you mean on\?\)"
    )
    with pytest.raises(FormatError, match=said):
        load_system(path)


def test_enumeration_parameters_are_saved_to_ssp_by_item_name(switch, tmp_path):
    system = System()
    system.add("e", switch, start={"u": 2})
    path = save_system(system, tmp_path / "out.ssp")
    with zipfile.ZipFile(path) as file:
        assert b'Enumeration value="on"' in file.read("SystemStructure.ssd")
    assert end(path) == 2


def test_unpacked_ssp_folder_runs_like_its_archive(fmu, tmp_path, capsys, monkeypatch):
    files = {"p_dot_ssv": parameters(real("K", 1500, "mm")), "p_dot_ssm": mapped(LINEAR)}
    path = archive(tmp_path / "t.ssp", structure(), {"fmu": fmu}, **files)
    folder = tmp_path / "case" / "description"
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
    assert end(folder) == end(folder / "SystemStructure.ssd") == end(path) == 4.0
    monkeypatch.chdir(folder)
    assert end("SystemStructure.ssd") == end(".") == 4.0
    for given in (".", "SystemStructure.ssd", str(folder)):
        assert main(["run", given, "--stop", "0.01"]) == 0
        assert "a.y" in capsys.readouterr().out
    outside = folder.parent / "my fmus"
    outside.mkdir()
    (folder / "resources" / "fmu.fmu").rename(outside / "fmu.fmu")
    for source in ("../my fmus/fmu.fmu", "./../my%20fmus/fmu.fmu"):
        text = (folder / "SystemStructure.ssd").read_text()
        text = re.sub(r'source="[^"]*\.fmu"', f'source="{source}"', text)
        (folder / "SystemStructure.ssd").write_text(text)
        assert end(folder) == 4.0
    with pytest.raises(FileNotFoundError, match=r"SSP file '.*none\.ssd' does not exist"):
        load_system(folder / "none.ssd")


@pytest.mark.parametrize("source", ["./resources/fmu.fmu", "resources/f%6Du.fmu"])
def test_ssp_sources_are_read_as_uris(fmu, tmp_path, source):
    text = structure().replace('"resources/fmu.fmu"', f'"{source}"')
    text = text.replace('"p.ssv"', '"./p.ssv"').replace('"p.ssm"', '"%70.ssm"')
    files = {"p_dot_ssv": parameters(real("K", 1500, "mm")), "p_dot_ssm": mapped(LINEAR)}
    assert end(archive(tmp_path / "t.ssp", text, {"fmu": fmu}, **files)) == 4.0


def loaded_log(caplog, path):
    """Return the log of loading a file, with messages of level INFO."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "rigidblocks"):
        load_system(path)
    return caplog.text


INLINE = (
    "<ssd:ParameterBinding><ssd:ParameterValues>"
    '<ssv:ParameterSet version="1.0" name="p"><ssv:Parameters>'
    f"{real('u', 3.0)}</ssv:Parameters></ssv:ParameterSet></ssd:ParameterValues>"
    "</ssd:ParameterBinding>"
)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("part", ["Description", "Common", "ParameterValues"])
@pytest.mark.parametrize("other", ["https://ssp-standard.org/SSP1", "http://ssp-standard.org/SSP2"])
def test_unknown_xml_namespace_of_an_ssp_file_is_rejected(fmu, tmp_path, version, part, other):
    path = archive(tmp_path / "t.ssp", structure(INLINE, version=version), {"fmu": fmu})
    assert end(path) == 3.0
    text = structure(INLINE, version=version)
    with zipfile.ZipFile(path) as file:
        text = file.read("SystemStructure.ssd").decode()
    text = text.replace(
        f"http://ssp-standard.org/SSP1/SystemStructure{part}", f"{other}/SystemStructure{part}"
    )
    archive(path, text, {"fmu": fmu})
    with pytest.raises(FormatError, match=rf"ssd:\d+: .*({other}/SystemStructure{part}|expected)"):
        load_system(path)


REFUSED = {  # text, its replacement, and the message
    "a value of another namespace": (
        "<ssv:Real",
        "<ssc:Real",
        "<Real> of the namespace '.*Common'",
    ),
    "a text": ("<ssv:Parameters>", "<ssv:Parameters>3.0", "has the text '3.0'"),
    "two values": (
        "</ssv:Parameter>",
        '<ssv:Real value="1"/></ssv:Parameter>',
        "<Real> is not allowed here",
    ),
    "no value": ('<ssv:Real value="3.0"/>', "", "<Parameter> needs"),
    "no name": ('<ssv:Parameter name="u">', "<ssv:Parameter>", "needs the attribute name"),
    "a misspelt child": ("<ssv:Parameters>", "<ssv:Parameters><ssv:Params/>", "<Params> of"),
    "two parameters": (
        "</ssv:Parameters>",
        '<ssv:Parameter name="u"><ssv:Real value="1"/></ssv:Parameter></ssv:Parameters>',
        "two parameters of the set have the name 'u'",
    ),
    "two bindings in one": (
        "<ssd:ParameterBinding>",
        '<ssd:ParameterBinding source="p.ssv">',
        "has both the source 'p.ssv' and inline values",
    ),
    "another version": (' version="{}" name="t"', ' version="3.0" name="t"', "SSP version '3.0'"),
    "no version": (' version="{}" name="t"', ' name="t"', "version"),
    "text for a number": (
        '<ssv:Real value="3.0"/>',
        '<ssv:String value="x"/>',
        "does not accept String",
    ),
    "no finite number": ('value="3.0"', 'value="INF"', "invalid Real 'INF'"),
    "a number of Python": ('value="3.0"', 'value="1_0"', "invalid Real '1_0'"),
    "a factor 0": ('m="1" factor="0.001"', 'm="1" factor="0.0"', "'mm' has the factor 0"),
    "two meanings": ('name="mm"><ssc', 'name="m"><ssc', "'m' has two different definitions"),
    "no source": (' source="resources/fmu.fmu"', "", "source"),
    "a kind": ('kind="input"', 'kind="inwards"', "kind|inwards"),
}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("name", REFUSED)
def test_violations_of_the_ssp_standard_are_rejected_with_file_and_line(
    fmu, tmp_path, version, name
):
    old, new, said = (text.replace("{}", version) for text in REFUSED[name])
    text = structure(INLINE, version=version)
    assert old in text
    path = archive(tmp_path / "t.ssp", text.replace(old, new), {"fmu": fmu})
    with pytest.raises(FormatError, match=rf"t\.ssp/SystemStructure\.ssd:\d+: .*({said})"):
        load_system(path)


REFUSED_IN_2 = {
    "two types": ("<ssc:Real/>", "<ssc:Real/><ssc:Integer/>", "<Integer> is not allowed here"),
    "some elements of an array": ('endConnector="u"', 'endConnector="u" endIndices="1"', "endInd"),
    "a scheduled FMU": (
        'source="resources/fmu.fmu"',
        'source="resources/fmu.fmu" implementation="ScheduledExecution"',
        "has the implementation ScheduledExecution",
    ),
    "no flag": (
        'endConnector="u"',
        'endConnector="u" suppressUnitConversion="yes"',
        "true or false, not 'yes'",
    ),
    "an unknown dictionary": (
        "</ssd:Elements>",
        '<ssd:SignalDictionaryReference name="bus" dictionary="d"/></ssd:Elements>',
        "unknown signal dictionary 'd'",
    ),
}


@pytest.mark.parametrize("name", REFUSED_IN_2)
def test_unsupported_features_of_ssp_2_are_rejected_with_file_and_line(fmu, tmp_path, name):
    old, new, said = REFUSED_IN_2[name]
    wires = (
        '<ssd:Connections><ssd:Connection startElement="a" startConnector="y" endElement="a" '
        'endConnector="u"/></ssd:Connections></ssd:System>'
    )
    text = structure(INLINE, unit="", version="2.0").replace("</ssd:System>", wires)
    assert old in text
    path = archive(tmp_path / "t.ssp", text.replace(old, new), {"fmu": fmu})
    with pytest.raises(FormatError, match=rf"ssd:1: .*{said}"):
        load_system(path)


GEOMETRY = '<ssd:ConnectorGeometry x="0" y="0"/>'
NOTE = '<ssd:Annotations><ssc:Annotation type="org.example"><x/></ssc:Annotation></ssd:Annotations>'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</ssd:Connector>", f"{GEOMETRY}</ssd:Connector>", r"have no effect .*ConnectorGeometry"),
        ("</ssd:Component>", f"{NOTE}</ssd:Component>", r"of the type 'org\.example' are ignored"),
        ('name="u"><ssv', 'name="v"><ssv', "'a' has no variable 'v' with a start value"),
        ('<ssd:Connector name="u"', '<ssd:Connector name="w"', "has no variable of this name"),
        ('<ssv:Real value="3.0"', '<ssv:Real value="3.0" Unit="mm"', "the attribute Unit, which"),
        (
            "<ssd:ParameterBinding>",
            "<ssd:ParameterBinding/><ssd:ParameterBinding>",
            "has no values",
        ),
    ],
)
def test_ignored_ssp_elements_are_logged_with_file_and_line(fmu, tmp_path, caplog, old, new, said):
    text = structure(INLINE)
    assert old in text
    path = archive(tmp_path / "t.ssp", text.replace(old, new), {"fmu": fmu})
    assert re.search(rf"SystemStructure\.ssd(:1)?: .*{said}", loaded_log(caplog, path))


def test_ssp_parameter_value_without_a_receiving_component_is_logged(fmu, tmp_path, caplog):
    text = structure(INLINE).replace(
        '<ssd:System name="s">',
        '<ssd:System name="s"><ssd:Connectors><ssd:Connector name="top" kind="input"/>'
        "</ssd:Connectors><ssd:ParameterBindings>"
        + INLINE.replace('name="u"', 'name="top"')
        + "</ssd:ParameterBindings>",
    )
    path = archive(tmp_path / "t.ssp", text, {"fmu": fmu})
    assert "ssd:1: no component receives the value of 'top'" in loaded_log(caplog, path)


def test_ssp_mapping_of_an_unknown_parameter_is_logged_and_a_conflicting_mapping_is_rejected(
    fmu, tmp_path, caplog
):
    files = {"p_dot_ssv": parameters(real("k", 1.5)), "p_dot_ssm": mapped()}
    path = archive(tmp_path / "t.ssp", structure(), {"fmu": fmu}, **files)
    assert "p.ssm:1: unknown parameter 'K' in a mapping" in loaded_log(caplog, path)
    twice = mapped() + mapped()
    entry = twice[twice.index("<ssm:MappingEntry") : twice.index("</ssm:MappingEntry>")]
    files["p_dot_ssm"] = mapped().replace(entry, f"{entry}</ssm:MappingEntry>{entry}")
    files["p_dot_ssv"] = parameters(real("K", 1.5))
    path = archive(tmp_path / "t.ssp", structure(), {"fmu": fmu}, **files)
    with pytest.raises(FormatError, match=r"p\.ssm:1: two parameters are mapped to 'u'"):
        load_system(path)


@pytest.mark.parametrize("prefix", ["ssv", "ssc"])
def test_undeclared_standard_namespace_prefix_of_an_ssp_file_is_accepted_and_logged(
    fmu, tmp_path, caplog, prefix
):
    path = archive(tmp_path / "t.ssp", structure(INLINE), {"fmu": fmu})
    with zipfile.ZipFile(path) as file:
        text = file.read("SystemStructure.ssd").decode()
    archive(path, re.sub(rf'xmlns:{prefix}="[^"]*"', "", text), {"fmu": fmu})
    assert end(path) == 3.0
    assert "ssd:1: the file does not declare a namespace prefix" in loaded_log(caplog, path)
    archive(path, text.replace("ssv:", "sv:").replace("xmlns:sv:", "xmlns:"), {"fmu": fmu})
    with pytest.raises(FormatError, match=r"ssd:1: <sv:ParameterSet> of no namespace is unknown"):
        load_system(path)


def dictionary(name, unit):
    """Return a signal dictionary with an entry x."""
    return (
        f'<ssd:SignalDictionaries><ssd:SignalDictionary name="{name}"><ssb:SignalDictionary '
        'xmlns:ssb="http://ssp-standard.org/SSP1/SystemStructureSignalDictionary" version="1.0">'
        f'<ssb:DictionaryEntry name="x"><ssc:Real unit="{unit}"/></ssb:DictionaryEntry><ssb:Units>'
        f'<ssc:Unit name="m"><ssc:BaseUnit m="1"/></ssc:Unit>{MM}</ssb:Units>'
        "</ssb:SignalDictionary></ssd:SignalDictionary></ssd:SignalDictionaries>"
    )


def test_inner_ssp_signal_dictionary_hides_an_outer_dictionary_of_the_same_name(fmu, tmp_path):
    """Both systems have a dictionary d: m in the outer system, mm in the inner system.

    The inner connection transmits 3 m as 3000 mm and adds 500 mm.
    """

    def wire(start, end, inside=""):
        (a, y), (b, u) = (name.split(".") for name in (start, end))
        ends = f'startElement="{a}" startConnector="{y}" endElement="{b}" endConnector="{u}"'
        return f"<ssd:Connection {ends}>{inside}</ssd:Connection>"

    def part(name, value=0.0):
        bound = INLINE.replace("3.0", str(value))
        return (
            f'<ssd:Component name="{name}" source="resources/fmu.fmu"><ssd:Connectors>'
            '<ssd:Connector name="u" kind="input"/><ssd:Connector name="y" kind="output"/>'
            f"</ssd:Connectors><ssd:ParameterBindings>{bound}</ssd:ParameterBindings>"
            "</ssd:Component>"
        )

    bus = '<ssd:SignalDictionaryReference name="bus" dictionary="d"/>'
    shift = '<ssc:LinearTransformation offset="500"/>'
    inner = (
        f'<ssd:System name="inner"><ssd:Elements>{part("a", 3.0)}{part("b")}{bus}</ssd:Elements>'
        f"<ssd:Connections>{wire('a.y', 'bus.x', shift)}{wire('bus.x', 'b.u')}</ssd:Connections>"
        f"{dictionary('d', 'mm')}</ssd:System>"
    )
    text = (
        '<ssd:SystemStructureDescription SPACES version="1.0" name="t"><ssd:System name="s">'
        f"<ssd:Elements>{inner}{part('a', 7.0)}{part('b')}{bus}</ssd:Elements>"
        f"<ssd:Connections>{wire('a.y', 'bus.x')}{wire('b.u', 'bus.x')}</ssd:Connections>"
        f"{dictionary('d', 'm')}</ssd:System></ssd:SystemStructureDescription>"
    )
    system, _ = load_system(archive(tmp_path / "t.ssp", text, {"fmu": fmu}))
    result = simulate(system, 0.05, 0.01, progress=False)
    assert_allclose([result["inner/b.y"][-1], result["b.y"][-1]], [3.5, 7.0], rtol=1e-15)
    text = text.replace('dictionary="d"', 'dictionary="e"')
    with pytest.raises(FormatError, match="unknown signal dictionary 'e'"):
        load_system(archive(tmp_path / "t.ssp", text, {"fmu": fmu}))


def test_ssp_parameter_set_sets_single_elements_of_string_arrays(tmp_path):
    """The parameter sets `s[2]` to a string of two words; `s[1]` keeps the string of the FMU."""
    variables = (("s[1]", "input", 0, "String"), ("s[2]", "input", 1, "String"))
    path = foreign_fmu(tmp_path / "texts.fmu", variables=variables, step="")
    row = '<ssv:Parameter name="s[2]"><ssv:String value="two words"/></ssv:Parameter>'
    text = structure(BINDING.format(""), "").replace("<ssc:Real/>", "")
    system, _ = load_system(
        archive(tmp_path / "t.ssp", text, {"fmu": path}, p_dot_ssv=parameters(row, ""))
    )
    part = system.parts["a"]
    (port,) = part.component.inputs
    assert decode_value(part.start["s"], port.type).tolist() == ["", "two words"]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<ssv:Enumeration><ssv:Value>on</ssv:Value></ssv:Enumeration>", 2),
        ('<ssv:Enumeration value="off"/><ssc:Dimension size="1"/>', 1),
        ('<ssv:Enumeration value="on"><ssv:Value>on</ssv:Value></ssv:Enumeration>', None),
        ("<ssv:Enumeration/>", None),
    ],
)
def test_ssp_2_parameter_has_a_value_attribute_or_value_elements_but_not_both(
    switch, tmp_path, inside, expected
):
    rows = parameters(f'<ssv:Parameter name="u">{inside}</ssv:Parameter>', "", "2.0")
    text = structure(BINDING.format(""), "", "2.0").replace("<ssc:Real/>", "")
    path = archive(tmp_path / "t.ssp", text, {"fmu": switch}, p_dot_ssv=rows)
    if expected is None:
        with pytest.raises(FormatError, match="needs either the attribute value or elements"):
            load_system(path)
    else:
        assert end(path) == expected
