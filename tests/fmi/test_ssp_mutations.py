"""Mutated SSP and OSP files load, or raise a FormatError that names the file."""

import copy
import random
import zipfile
from collections import Counter

import pytest
from lxml import etree

from campaign import sized
from foreign_fmu import foreign_fmu
from rigidblocks import load_system
from rigidblocks.common.format_error import FormatError
from rigidblocks.fmi.ssp.osp import load_osp
from ssp_archive import archive

VALUES = (
    *("", " ", "0", "-1", "1e308", "1e999", "nan", "INF", "1_0", "\u0661", "9" * 30, "9" * 5000),
    *(
        "true",
        "a",
        "a.u",
        "u",
        "q[1]",
        "q[9]",
        "q[",
        "in",
        "inner",
        "./x",
        "../x",
        "/",
        "\\",
        "%00",
    ),
    *("%2e%2e/x", "#id", "http://x/y", "resources/", "resources/fmu.fmu", "p.ssv", "2.0", "1.0"),
    *("m", "mm", "[m]", "kg", "N.m/s2", "1/0", "2**9", "input", "output", "inout", "component"),
    *("#first", "application/x-ssp-definition", "application/x-ssp-package", "file:///tmp"),
    *("SystemStructure.ssd", "SystemStructure.ssd#first", "file:p.ssv"),
)
SSD = """<ssd:SystemStructureDescription SPACES version="VERSION" name="t">
<ssd:System name="s"><ssd:Connectors><ssd:Connector name="top" kind="input"><ssc:Real unit="mm"/>
</ssd:Connector></ssd:Connectors>
<ssd:ParameterBindings><ssd:ParameterBinding source="p.ssv" prefix="">
<ssd:ParameterMapping source="p.ssm"/></ssd:ParameterBinding>
<ssd:ParameterBinding><ssd:ParameterValues><ssv:ParameterSet version="VERSION" name="v">
<ssv:Parameters><ssv:Parameter name="inner.a.s"><ssv:String value="text"/></ssv:Parameter>
<ssv:Parameter name="inner.a.n"><ssv:Integer value="3"/></ssv:Parameter>
<ssv:Parameter name="inner.a.q[1]"><ssv:Real value="3.5" unit="mm"/></ssv:Parameter>
<ssv:Parameter name="inner.a.e"><ssv:Enumeration value="1" name="E"/></ssv:Parameter>
</ssv:Parameters><ssv:Enumerations><ssc:Enumeration name="E"><ssc:Item name="one" value="1"/>
</ssc:Enumeration></ssv:Enumerations></ssv:ParameterSet></ssd:ParameterValues>
<ssd:ParameterMapping><ssm:ParameterMapping version="VERSION">
<ssm:MappingEntry source="inner.a.s" target="inner.a.s"/>
<ssm:MappingEntry source="inner.a.q[1]" target="inner.a.q[1]" suppressUnitConversion="true"/>
<ssm:MappingEntry source="inner.a.n" target="inner.a.n"><ssc:IntegerMappingTransformation>
<ssc:MapEntry source="3" target="4"/></ssc:IntegerMappingTransformation></ssm:MappingEntry>
</ssm:ParameterMapping></ssd:ParameterMapping></ssd:ParameterBinding>
</ssd:ParameterBindings>
<ssd:Elements><ssd:System name="inner"><ssd:Connectors>
<ssd:Connector name="in" kind="input"><ssc:Real unit="m"/></ssd:Connector>
<ssd:Connector name="out" kind="output"/></ssd:Connectors><ssd:Elements>
<ssd:Component name="a" source="resources/fmu.fmu" implementation="CoSimulation">
<ssd:Connectors><ssd:Connector name="u" kind="input"><ssc:Real unit="m"/></ssd:Connector>
<ssd:Connector name="y" kind="output"><ssc:Real unit="m"/></ssd:Connector></ssd:Connectors>
</ssd:Component><ssd:SignalDictionaryReference name="bus" dictionary="d"><ssd:Connectors>
<ssd:Connector name="x" kind="inout"><ssc:Real unit="m"/></ssd:Connector></ssd:Connectors>
</ssd:SignalDictionaryReference></ssd:Elements><ssd:Connections>
<ssd:Connection startConnector="in" endElement="a" endConnector="u"/>
<ssd:Connection startElement="a" startConnector="y" endConnector="out"/>
<ssd:Connection startElement="a" startConnector="y" endElement="bus" endConnector="x"/>
</ssd:Connections></ssd:System>
<ssd:System name="one" id="first"><ssd:Elements>
<ssd:Component name="a" source="resources/fmu.fmu"/></ssd:Elements></ssd:System>
<ssd:Component name="again" source="#first"/>
<ssd:Component name="b" source="resources/fmu.fmu"><ssd:Connectors>
<ssd:Connector name="u" kind="input"/></ssd:Connectors></ssd:Component>
<ssd:SignalDictionaryReference name="bus" dictionary="d"/></ssd:Elements><ssd:Connections>
<ssd:Connection startConnector="top" endElement="inner" endConnector="in">
<ssc:LinearTransformation factor="2" offset="1"/></ssd:Connection>
<ssd:Connection startElement="b" startConnector="u" endElement="bus" endConnector="x"/>
</ssd:Connections><ssd:SignalDictionaries><ssd:SignalDictionary name="d">
<ssb:SignalDictionary xmlns:ssb="http://ssp-standard.org/SSP1/SystemStructureSignalDictionary"
version="VERSION"><ssb:DictionaryEntry name="x"><ssc:Real unit="m"/></ssb:DictionaryEntry>
<ssb:Units><ssc:Unit name="m"><ssc:BaseUnit m="1"/></ssc:Unit></ssb:Units></ssb:SignalDictionary>
</ssd:SignalDictionary></ssd:SignalDictionaries><ssd:Annotations>
<ssc:Annotation type="org.rigidblocks.cosim"><run dt="0.001" order="jacobi"/>
</ssc:Annotation></ssd:Annotations></ssd:System>
<ssd:Units><ssc:Unit name="m"><ssc:BaseUnit m="1"/></ssc:Unit>
<ssc:Unit name="mm"><ssc:BaseUnit m="1" factor="0.001" offset="0.0"/></ssc:Unit></ssd:Units>
<ssd:DefaultExperiment startTime="0.0" stopTime="1.0"/></ssd:SystemStructureDescription>"""
SSV = """<ssv:ParameterSet SPACES version="VERSION" name="p"><ssv:Parameters>
<ssv:Parameter name="K"><ssv:Real value="1500" unit="mm"/></ssv:Parameter>
<ssv:Parameter name="L"><ssv:Real value="1.0"/></ssv:Parameter></ssv:Parameters><ssv:Units>
<ssc:Unit name="mm"><ssc:BaseUnit m="1" factor="0.001"/></ssc:Unit></ssv:Units>
</ssv:ParameterSet>"""
SSM = """<ssm:ParameterMapping SPACES version="VERSION">
<ssm:MappingEntry source="K" target="top"><ssc:LinearTransformation factor="2" offset="1"/>
</ssm:MappingEntry><ssm:MappingEntry source="L" target="inner.a.q[2]"/></ssm:ParameterMapping>"""
OSP = """<OspSystemStructure version="0.1"
xmlns="http://opensimulationplatform.com/MSMI/OSPSystemStructure"><StartTime>0.0</StartTime>
<EndTime>1.0</EndTime><BaseStepSize>0.01</BaseStepSize><Algorithm>fixedStep</Algorithm>
<Simulators><Simulator name="a" source="resources/fmu.fmu" stepSize="0.01"><InitialValues>
<InitialValue variable="u"><Real value="1.0"/></InitialValue>
<InitialValue variable="n"><Integer value="2"/></InitialValue>
<InitialValue variable="s"><String value="x"/></InitialValue></InitialValues></Simulator>
<Simulator name="b" source="resources/fmu.fmu"/></Simulators><Functions>
<LinearTransformation name="f" factor="2.0" offset="1.0"/></Functions><Connections>
<VariableConnection><Variable simulator="a" name="y"/><Variable simulator="b" name="u"/>
</VariableConnection><SignalConnection><Variable simulator="b" name="y"/>
<Signal function="f" name="in"/></SignalConnection><SignalConnection>
<Variable simulator="a" name="u"/><Signal function="f" name="out"/></SignalConnection>
</Connections></OspSystemStructure>"""


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return an FMU with inputs of each type."""
    variables = (
        ("u", "input", 0, "Real"),
        ("y", "output", 1, "Real"),
        ("q[1]", "input", 2, "Real"),
        ("q[2]", "input", 3, "Real"),
        ("n", "input", 4, "Integer"),
        ("s", "input", 5, "String"),
        ("e", "input", 6, "Integer"),
    )
    path = tmp_path_factory.mktemp("mutations") / "fmu.fmu"
    return foreign_fmu(path, variables=variables, u='unit="m"', y='unit="m"')


def mutated(data, random):
    """Return the XML with one to three changes of bytes, elements, attributes or strings."""
    if random.random() < 0.15:
        data = bytearray(data)
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        return bytes(data)
    root = etree.fromstring(data)
    for _ in range(random.randrange(1, 4)):
        elements = list(root.iter())
        one, other = random.choice(elements), random.choice(elements)
        change = random.randrange(7)
        if change == 0 and one is not root:
            one.getparent().remove(one)
        elif change == 1 and one is not root:
            one.getparent().append(copy.deepcopy(one))
        elif change == 2 and one is not root and one not in other.iterancestors():
            other.append(copy.deepcopy(one))
        elif change == 3:
            one.tag = random.choice([other.tag, f"{{http://other}}{etree.QName(one).localname}"])
        elif change == 4 and one.attrib:
            del one.attrib[random.choice(list(one.attrib))]
        elif change == 5:
            names = list(one.attrib) or list(other.attrib) or ["name"]
            one.set(random.choice(names), random.choice(VALUES))
        elif change == 6:
            one.text = random.choice(VALUES)
    return etree.tostring(root)


def outcome(load, path, change=b""):
    """Return whether a file loads or is rejected; other errors get the mutated text as a note."""
    try:
        load(path)
    except FormatError as error:
        return "refused" if path.name in str(error) else f"no file is named: {error}"
    except Exception as error:
        error.add_note(change.decode("utf-8", "replace"))
        raise
    return "loaded"


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, pytest.param(sized(1500, 500), marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_mutated_ssp_file_loads_or_raises_a_format_error(fmu, tmp_path, version, n):
    chance, path = random.Random(n), tmp_path / "t.ssp"
    texts = [text.replace("VERSION", version) for text in (SSD, SSV, SSM)]
    archive(path, texts[0], {"fmu": fmu}, p_dot_ssv=texts[1], p_dot_ssm=texts[2])
    load_system(path)
    with zipfile.ZipFile(path) as file:
        files = {one.filename: file.read(one) for one in file.infolist()}
    folder = tmp_path / "unpacked"
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    count = Counter()
    for _ in range(n):
        name = chance.choice(["SystemStructure.ssd"] * 3 + ["p.ssv", "p.ssm"])
        change = mutated(files[name], chance)
        (folder / name).write_bytes(change)
        count[outcome(load_system, folder, change)] += 1
        (folder / name).write_bytes(files[name])
    assert set(count) == {"loaded", "refused"}, count
    assert min(count.values()) >= n / 30, count


@pytest.mark.parametrize("n", [30, pytest.param(sized(1500, 500), marks=pytest.mark.slow)])
def test_mutated_osp_file_loads_or_raises_a_format_error(fmu, tmp_path, n):
    chance, path = random.Random(n), tmp_path / "OspSystemStructure.xml"
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "fmu.fmu").write_bytes(fmu.read_bytes())
    path.write_text(OSP)
    load_osp(path)
    count = Counter()
    for _ in range(n):
        change = mutated(OSP.encode(), chance)
        path.write_bytes(change)
        count[outcome(load_osp, path, change)] += 1
    assert set(count) == {"loaded", "refused"}, count
    assert min(count.values()) >= n / 30, count


@pytest.mark.parametrize("n", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_damaged_ssp_archive_loads_or_raises_a_format_error(fmu, tmp_path, n):
    chance, path = random.Random(n), tmp_path / "t.ssp"
    texts = [text.replace("VERSION", "1.0") for text in (SSD, SSV, SSM)]
    with zipfile.ZipFile(fmu) as file:
        description = {"modelDescription.xml": file.read("modelDescription.xml")}
    small = tmp_path / "small.fmu"  # without a binary, so that mutations hit the archive itself
    with zipfile.ZipFile(small, "w") as file:
        for name, data in description.items():
            file.writestr(name, data)
    archive(path, texts[0], {"fmu": small}, p_dot_ssv=texts[1], p_dot_ssm=texts[2])
    with zipfile.ZipFile(path) as file:
        content = {one.filename: file.read(one) for one in file.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(name, data)
    whole = path.read_bytes()
    for _ in range(n):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.1 else data)
        assert outcome(load_system, path) in ("loaded", "refused")
