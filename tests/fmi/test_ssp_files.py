"""SSP files: saved files are valid and give equal runs; foreign files load by the SSP rules."""

import logging
import re
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foreign_fmu import foreign_fmu
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import (
    PDController,
    Port,
    PythonBlock,
    System,
    export_fmu,
    load_system,
    save_system,
    simulate,
)
from rigidblocks.block.units import Conversion
from rigidblocks.cli import main
from rigidblocks.common.format_error import FormatError
from rigidblocks.fmi.ssp.schema import STRUCTURE, read
from ssp_archive import NS, archive

STARTS = {"robot": {"q": [0.3, -0.2], "gravity": [0.0, 0.0, -5.0]}, "pd": {"kp": [800.0, 900.0]}}


def planar2ctrl():
    system = System()
    for name, block in parts().items():
        system.add(name, block, start=STARTS.get(name))
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system


def component(name, fmu="twice", inside="", connectors=True):
    listed = (
        '<ssd:Connectors><ssd:Connector name="u" kind="input"><ssc:Real/></ssd:Connector>'
        '<ssd:Connector name="y" kind="output"><ssc:Real/></ssd:Connector></ssd:Connectors>'
    )
    return (
        f'<ssd:Component name="{name}" source="resources/{fmu}.fmu">'
        f"{listed if connectors else ''}{inside}</ssd:Component>"
    )


def described(elements, connections="", before="", after=""):
    connections = f"<ssd:Connections>{connections}</ssd:Connections>" if connections else ""
    return (
        '<ssd:SystemStructureDescription SPACES version="1.0" name="s"><ssd:System name="s">'
        f"{before}<ssd:Elements>{elements}</ssd:Elements>"
        f"{connections}</ssd:System>{after}"
        "</ssd:SystemStructureDescription>"
    )


def wire(start, end, inside="", attributes=""):
    ends = ""
    for side, name in (("start", start), ("end", end)):
        element, _, connector = name.rpartition(".")
        ends += f' {side}Connector="{connector}"'
        ends += f' {side}Element="{element}"' if element else ""
    return f"<ssd:Connection{ends} {attributes}>{inside}</ssd:Connection>"


def bound(values, more=""):
    rows = "".join(
        f'<ssv:Parameter name="{name}"><ssv:Real value="{value}"/></ssv:Parameter>'
        for name, value in values.items()
    )
    return (
        "<ssd:ParameterBindings><ssd:ParameterBinding><ssd:ParameterValues>"
        f'<ssv:ParameterSet version="1.0" name="v"><ssv:Parameters>{rows}</ssv:Parameters>'
        f"</ssv:ParameterSet></ssd:ParameterValues>{more}</ssd:ParameterBinding>"
        "</ssd:ParameterBindings>"
    )


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """Return FMUs: "twice" doubles its input without units, "hot" passes a temperature in K."""
    folder = tmp_path_factory.mktemp("fmus")
    same = "i->r[1] = i->r[0];"
    return {
        "twice": foreign_fmu(folder / "twice.fmu"),
        "hot": foreign_fmu(folder / "hot.fmu", step=same, u='unit="K"', y='unit="K"'),
    }


def last(path, t_stop=0.05, **options):
    system, run = load_system(path, **options)
    result = simulate(system, **({"t_stop": t_stop, "dt": 0.01, "progress": False} | run))
    return {name: float(result[name][-1]) for name in result.columns}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "arm.ssp"
    return save_system(planar2ctrl(), path, dt=1e-3, t_stop=0.2, order="jacobi")


def test_saved_ssp_file_is_loaded_without_a_warning(saved, caplog):
    load_system(saved)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_saved_ssp_file_follows_the_schema_and_gives_the_results_of_the_system(saved):
    with zipfile.ZipFile(saved) as file:
        read({"s.ssd": file.read("SystemStructure.ssd")}, "s.ssd", STRUCTURE, saved)
    system, run = load_system(saved)
    assert run == {"t_start": 0.0, "t_stop": 0.2, "dt": 1e-3, "order": "jacobi"}
    ours, theirs = simulate(planar2ctrl(), **run), simulate(system, **run)
    assert set(theirs.columns) == set(ours.columns)
    for name in ours.columns:
        assert_array_equal(theirs[name], ours[name])
    assert [port.units for port in theirs.ports] == [port.units for port in ours.ports]
    assert_allclose(ours["robot.q"][0], [0.3, -0.2])


@pytest.mark.parametrize(("dt", "step"), [(1e-3, 1e-3), (0.02, 0.02), (None, 1e-3)])
def test_saved_ssp_file_has_the_fixed_step_master_of_omsimulator(tmp_path, dt, step):
    system = System()
    system.add("pd", PDController([1.0], [0.1]))
    with zipfile.ZipFile(save_system(system, tmp_path / "pd.ssp", dt=dt)) as file:
        root = ElementTree.fromstring(file.read("SystemStructure.ssd"))
    spaces = {"ssd": f"{NS}Description", "ssc": f"{NS}Common"}
    spaces["oms"] = (
        "https://raw.githubusercontent.com/OpenModelica/OMSimulator/master/schema/oms.xsd"
    )
    path = "ssd:System/ssd:Annotations/ssc:Annotation[@type='org.openmodelica']/oms:Annotations"
    (master,) = root.findall(f"{path}/oms:SimulationInformation/oms:FixedStepMaster", spaces)
    assert master.get("description") == "oms-ma"
    assert float(master.get("stepSize")) == step


@pytest.mark.slow
def test_repeated_saves_of_a_system_are_byte_identical(saved, tmp_path):
    again = save_system(planar2ctrl(), tmp_path / "arm.ssp", dt=1e-3, t_stop=0.2, order="jacobi")
    assert again.read_bytes() == saved.read_bytes()
    system, run = load_system(saved)
    third = save_system(system, tmp_path / "again.ssp", name="arm", **run)
    assert load_system(third).run == run
    assert_array_equal(
        simulate(load_system(third).system, **run)["robot.q"], simulate(system, **run)["robot.q"]
    )


@pytest.mark.slow
def test_ssp_connections_pass_through_nested_systems(fmus, tmp_path):
    inner = (
        '<ssd:System name="inner"><ssd:Connectors>'
        '<ssd:Connector name="in" kind="input"/><ssd:Connector name="out" kind="output"/>'
        f"</ssd:Connectors><ssd:Elements>{component('a')}{component('b.c')}</ssd:Elements>"
        f"<ssd:Connections>{wire('in', 'a.u')}{wire('a.y', 'b.c.u')}{wire('out', 'b.c.y')}"
        "</ssd:Connections></ssd:System>"
    )
    wires = wire("first.y", "inner.in") + wire("inner.out", "last.u")
    text = described(component("first") + inner + component("last"), wires, bound({"first.u": 1.0}))
    end = last(archive(tmp_path / "n.ssp", text, {"twice": fmus["twice"]}))
    assert end == {"first.y": 2.0, "inner/a.y": 4.0, "inner/b_c.y": 8.0, "last.y": 16.0}


def test_outer_ssp_parameter_bindings_override_inner_bindings(fmus, tmp_path):
    inner = (
        '<ssd:System name="inner"><ssd:Connectors><ssd:Connector name="in" kind="input"/>'
        f"</ssd:Connectors>{bound({'in': 2.0, 'b.u': 30.0})}<ssd:Elements>"
        f"{component('a', inside=bound({'u': 1.0}))}{component('b', inside=bound({'u': 10.0}))}"
        f"</ssd:Elements><ssd:Connections>{wire('in', 'a.u')}</ssd:Connections></ssd:System>"
    )
    path = archive(tmp_path / "p.ssp", described(inner), {"twice": fmus["twice"]})
    assert last(path) == {"inner/a.y": 4.0, "inner/b.y": 60.0}
    outer = described(inner, before=bound({"inner.in": 3.0, "inner.b.u": 40.0}))
    path = archive(tmp_path / "o.ssp", outer, {"twice": fmus["twice"]})
    assert last(path) == {"inner/a.y": 6.0, "inner/b.y": 80.0}
    values = tmp_path / "more.ssv"
    values.write_text(
        f'<ssv:ParameterSet xmlns:ssv="{NS}ParameterValues" version="1.0" name="m">'
        '<ssv:Parameters><ssv:Parameter name="inner.in"><ssv:Real value="5"/></ssv:Parameter>'
        "</ssv:Parameters></ssv:ParameterSet>"
    )
    assert last(path, parameters=[values])["inner/a.y"] == 10.0
    values.write_text(values.read_text().replace("inner.in", "inner.im"))
    with pytest.raises(KeyError, match=r"the system 's' of .* has no 'inner\.im'"):
        load_system(path, parameters=[values])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "values", "said"),
    [
        ((2,), "800 900", ""),
        ((1, 2), "800 900", ""),
        ((3,), "800 900", "'kp': 2 values given for an array of 3; expected 3"),
        ((3,), "1 2 3", "'pd.kp' has 2 elements, but 3 values are given"),
        ((2,), "1 x", "'kp': invalid Real 'x'"),
    ],
)
def test_ssp_2_parameter_arrays_set_the_start_values_of_array_variables(
    tmp_path, sizes, values, said
):
    pd = export_fmu(PDController([1.0, 1.0], [0.0, 0.0]), tmp_path / "pd.fmu", fmi=3)
    given = {"kp": (sizes, values), "q": ((2,), "-1 -2"), "q_ref": ((2,), "0 0")}
    rows = "".join(
        f'<ssv:Parameter name="{name}"><ssv:Float64 value="{text}"/>'
        + "".join(f'<ssv:Dimension size="{n}"/>' for n in size)
        + "</ssv:Parameter>"
        for name, (size, text) in given.items()
    )
    inside = bound({}).replace("<ssv:Parameters>", f"<ssv:Parameters>{rows}")
    text = described(component("pd", "pd", inside=inside, connectors=False))
    text = text.replace('version="1.0"', 'version="2.0"')
    path = archive(tmp_path / "a.ssp", text, {"pd": pd})
    if said:
        with pytest.raises(ValueError, match=re.escape(said)):
            load_system(path)
    else:
        assert last(path) == {"pd.tau[1]": 800.0, "pd.tau[2]": 1800.0}


def test_ssp_parameter_mapping_applies_only_the_parameters_that_it_lists(fmus, tmp_path, caplog):
    mapping = (
        '<ssd:ParameterMapping><ssm:ParameterMapping version="1.0">'
        '<ssm:MappingEntry source="temperature" target="a.u">'
        '<ssc:LinearTransformation factor="2" offset="1"/></ssm:MappingEntry>'
        "</ssm:ParameterMapping></ssd:ParameterMapping>"
    )
    given = bound({"temperature": 3.0, "b.u": 5.0, "elsewhere.u": 1.0}, mapping)
    text = described(component("a") + component("b"), before=given)
    path = archive(tmp_path / "m.ssp", text, {"twice": fmus["twice"]})
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        assert last(path) == {"a.y": 14.0, "b.y": 0.0}
    assert (
        "does not contain 2 parameters, which are therefore not applied: b.u, elsewhere.u"
        in caplog.text
    )


def test_ssp_connection_converts_units_before_its_linear_transformation(fmus, tmp_path, caplog):
    celsius = (
        '<ssd:Connectors><ssd:Connector name="y" kind="output"><ssc:Real unit="degC"/>'
        "</ssd:Connector></ssd:Connectors>"
    )
    elements = (
        '<ssd:Component name="a" source="resources/twice.fmu">'
        f"{celsius}{bound({'u': 50.0})}</ssd:Component>"
    )
    elements += component("b", "hot") + component("c", "hot") + component("d", "hot")
    double = '<ssc:LinearTransformation factor="2.0" offset="-1.0"/>'
    wires = wire("a.y", "b.u") + wire("a.y", "c.u", double)
    wires += wire("d.u", "a.y", double, 'suppressUnitConversion="true"')
    units = (
        '<ssd:Units><ssc:Unit name="degC"><ssc:BaseUnit K="1" offset="273.15"/></ssc:Unit>'
        "</ssd:Units>"
    )
    path = archive(tmp_path / "u.ssp", described(elements, wires, after=units), fmus)
    end = last(path)
    assert_allclose(end["b.y"], 373.15, rtol=1e-15)
    assert_allclose(end["c.y"], 2 * 373.15 - 1, rtol=1e-15)
    assert_allclose(end["d.y"], 2 * 100 - 1, rtol=1e-15)
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        again = save_system(load_system(path).system, tmp_path / "v.ssp")
    assert_allclose(last(again)["d.y"], end["d.y"], rtol=1e-15)


def test_ssp_connector_with_a_unit_incompatible_with_its_fmu_variable_is_rejected(fmus, tmp_path):
    for unit in ("kg", "K"):
        real = f'<ssd:Connector name="y" kind="output"><ssc:Real unit="{unit}"/></ssd:Connector>'
        inside = f"<ssd:Connectors>{real}</ssd:Connectors>"
        text = f'<ssd:Component name="a" source="resources/hot.fmu">{inside}</ssd:Component>'
        path = archive(tmp_path / f"{unit}.ssp", described(text), {"hot": fmus["hot"]})
        if unit == "K":
            load_system(path)
        else:
            said = (
                r"connector 'a\.y' has the unit kg, but its FMU variable has the unit K, "
                r"which has another"
            )
            with pytest.raises(FormatError, match=said):
                load_system(path)


def test_incompatible_units_and_damaged_fmus_in_ssp_files_are_reported_with_the_line(
    fmus, tmp_path
):
    real = '<ssd:Connector name="y" kind="output"><ssc:Real unit="kg"/></ssd:Connector>'
    a = component("a", inside=f"<ssd:Connectors>{real}</ssd:Connectors>", connectors=False)
    path = archive(
        tmp_path / "u.ssp", described(a + component("b", "hot"), wire("a.y", "b.u")), fmus
    )
    said = (
        r"u\.ssp/.*\.ssd:1: the connection from a\.y to b\.u: the units kg and K have "
        r"different dimensions"
    )
    with pytest.raises(FormatError, match=said):
        load_system(path)
    damaged = tmp_path / "damaged.fmu"
    damaged.write_text("no archive")
    path = archive(tmp_path / "d.ssp", described(component("a", "bad")), {"bad": damaged})
    with pytest.raises(
        FormatError, match=r"d\.ssp/.*:1: component 'a': .*'resources/bad\.fmu' is dam"
    ):
        load_system(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", r"n\.ssp/SystemStructure\.ssd:1: this is not well-formed XML"),
        ("<ssd:System SPACES/>", "expected <SystemStructureDescription> of SSP"),
        (described("<ssd:Elephant/>"), r"ssd:\d+: Element .*Elephant"),
        (described(component("a", "missing")), "FMU 'resources/missing.fmu' is missing"),
        (described(component("a") * 2), "two elements have the path 'a'"),
        (described(component("a"), wire("a.y", "b.u")), "unknown element 'b' in the system"),
        (described(component("a"), wire("a.y", "a.y")), "both provide a value"),
        (
            described(component("a") + component("b"), wire("a.y", "b.u") + wire("b.y", "b.u")),
            r"b\.u is connected twice",
        ),
        (
            described('<ssd:Component name="a" type="application/x-ssp" source="a.ssp"/>'),
            "component 'a' has the type 'application/x-ssp'",
        ),
        (
            described('<ssd:Component name="a" source="http://nowhere/a.fmu"/>'),
            "is not in the archive; other sources are not supported",
        ),
        (
            described(
                component("a") + component("b"),
                wire(
                    "a.y",
                    "b.u",
                    "<ssc:IntegerMappingTransformation><ssc:MapEntry source='1' target='2'/>"
                    "</ssc:IntegerMappingTransformation>",
                ),
            ),
            "<IntegerMappingTransformation> does not support the type Real",
        ),
        (
            described(component("a"), before=bound({"a.u": "many"})),
            "ssd:1: .*many",
        ),
    ],
)
def test_invalid_ssp_system_description_is_rejected_with_its_line(text, said, fmus, tmp_path):
    path = archive(tmp_path / "n.ssp", text, {"twice": fmus["twice"]})
    with pytest.raises(FormatError, match=said):
        load_system(path)


def test_invalid_ssp_archive_is_rejected(tmp_path, capsys):
    path = tmp_path / "x.ssp"
    with pytest.raises(FileNotFoundError, match=r"SSP file '.*x\.ssp' does not exist"):
        load_system(path)
    path.write_text("no archive")
    with pytest.raises(FormatError, match=r"x\.ssp: this is not an SSP archive"):
        load_system(path)
    assert main(["run", str(path)]) == 2
    assert "this is not an SSP archive" in capsys.readouterr().err
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../out.fmu", "x")
    with pytest.raises(FormatError, match="whose path leads outside the archive"):
        load_system(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other.ssd", "x")
    with pytest.raises(FormatError, match=r"file 'SystemStructure\.ssd' is missing"):
        load_system(path)


def test_saving_an_unsupported_system_as_ssp_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="no parts"):
        save_system(System(), tmp_path / "n.ssp")
    system = System()
    system.add("net", PythonBlock(lambda u: u, [Port("u")], [Port("y")]))
    with pytest.raises(ValueError, match="'net' is a Python part"):
        save_system(system, tmp_path / "n.ssp")
    with pytest.raises(ValueError, match="order must be one of"):
        save_system(planar2ctrl(), tmp_path / "n.ssp", order="random")
    assert not (tmp_path / "n.ssp").exists()
    system, same = planar2ctrl(), Conversion(np.ones(1), np.zeros(1))
    system.connections.clear()
    with pytest.raises(ValueError, match="insert a Gain block"):
        system.connect("robot.energy", "pd.qd_ref[1]", conversion=same)


@pytest.mark.slow
def test_ssp_command_writes_a_file_that_the_run_command_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "wave.py"
    script.write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        'system.add("wave", Sine(amplitude=2.0, frequency=0.25))\n'
    )
    assert main(["ssp", str(script), "--stop", "1", "--dt", "0.01"]) == 0
    assert capsys.readouterr().out == "wave.ssp\n"
    assert main(["run", "wave.ssp"]) == 0
    assert "t = 1 s" in capsys.readouterr().out
