"""Saved SSP files follow the XML schemas of SSP 1.0 and 2.0.

FMPy contains the schemas of SSP 1.0, and `pyssp_standard` the schemas of SSP 2.0.
"""

import importlib.util
import zipfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import NamedTuple

import fmpy.ssp.ssd
import numpy as np
import pytest
from lxml import etree

from any_models import FEEDTHROUGH, RESIZABLE, AnyModel, Variable, any_fmu
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import PDController, System, export_fmu, save_system
from rigidblocks.block.units import Conversion
from rigidblocks.common.format_error import FormatError
from rigidblocks.fmi.ssp.schema import DICTIONARY, MAPPING, RULES, SPACES, STRUCTURE, VALUES, read
from ssp_archive import NS

ROOTS = {
    STRUCTURE: "Description",
    VALUES: "ParameterValues",
    MAPPING: "ParameterMapping",
    DICTIONARY: "SignalDictionary",
}
# the rules allow either the attribute `value` or elements <Value>, whose content may also be text;
# SSP 2.0 allows components without a source
OPTIONAL = {name: {"value"} for name in ("String", "Enumeration", "Binary", "Value")} | {
    "Component": {"source"}
}
VERSIONS = ["1.0", pytest.param("2.0", marks=pytest.mark.interop)]


def folder_of(version: str) -> Path:
    """Return the folder with the schemas of an SSP version."""
    if version == "1.0":
        return Path(fmpy.ssp.ssd.__file__).parent / "schema"
    pytest.importorskip("pyssp_standard")
    (folder,) = importlib.util.find_spec("pyssp_standard").submodule_search_locations
    return Path(folder, "resources", "ssp2")


@cache
def schema(root: str, version: str):
    return etree.XMLSchema(file=str(folder_of(version) / f"SystemStructure{ROOTS[root]}.xsd"))


def tag(root: str) -> str:
    space, local = root.split(":")
    return f"{{{SPACES.get(space, f'{NS}SignalDictionary')}}}{local}"


def planar2ctrl(folder):
    del folder
    system = System()
    for name, block in parts().items():
        system.add(name, block, start={"robot": {"q": [0.3, -0.2]}}.get(name))
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system


def all_types(folder, version=2):
    """Return two FMUs with variables of all types, connected with each kind of transformation."""
    fmu, system = any_fmu(folder, FEEDTHROUGH, version), System()
    start = {"Boolean_input": True, "String_input": "a & <b>", "Int32_input": -3}
    for name in ("a", "b"):
        system.add(name, fmu, start=start | {"Float64_input": 1e-300})
    one, zero = np.ones(1), np.zeros(1)
    changes = {
        "Boolean": Conversion(one, zero, ((0.0, 1.0), (1.0, 0.0))),
        "Int32": Conversion(one, zero, ((3.0, -2.0),)),
        "Float64": Conversion(1e-20 * one, 1e20 * one),
    }
    for kind, change in changes.items():
        system.connect(f"a.{kind}_output", f"b.{kind}_input", conversion=change)
    return system


def all_types_of_fmi_3(folder):
    system = all_types(folder, 3)
    starts = {"UInt64_input": 2**53, "Int64_input": -(2**53), "Binary_input": b"\0\xff"}
    system.add("c", system.parts["a"].component.file, start=starts)
    return system


def arrays(folder):
    fmu = export_fmu(PDController([1.0, 2.0], [0.0, 0.0]), folder / "pd.fmu", fmi=3)
    system = System()
    for name in ("a", "b"):
        system.add(name, fmu, start={"kp": [800.0, 900.0]})
    system.connect("a.tau", "b.q", conversion=Conversion(2 * np.ones(2), np.zeros(2)))
    return system


def resized(folder):
    system = System()
    start = {"m": 2, "n": 1, "r": 2, "A": [[-1.0]], "B": [[1.0, 0.0]], "C": [[1.0], [0.0]]}
    system.add("a", any_fmu(folder, RESIZABLE, 3), start=start | {"D": np.zeros((2, 2))})
    return system


TEXTS = AnyModel(
    "Texts",
    [
        Variable("s", 1, "input", "String", "discrete", shape=(2,)),
        Variable("b", 2, "input", "Binary", "discrete", shape=(3,)),
    ],
)


def texts(folder):
    system = System()
    start = {"s": ["", " a & <b> "], "b": [b"", b"\0\xff", b"c"]}
    system.add("a", any_fmu(folder, TEXTS, 3), start=start)
    return system


SYSTEMS = {
    planar2ctrl: "1.0",
    all_types: "1.0",
    all_types_of_fmi_3: "2.0",
    arrays: "2.0",
    resized: "2.0",
    texts: "2.0",
}


def description(path):
    with zipfile.ZipFile(path) as file:
        return etree.fromstring(file.read("SystemStructure.ssd"))


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("make", SYSTEMS)
@pytest.mark.parametrize("run", [{}, {"dt": 1e-5, "t_stop": 0.01, "order": "jacobi"}])
def test_saved_ssp_file_conforms_to_the_schemas_of_its_version(make, run, tmp_path):
    """The schema of SSP 2.0 accepts files of both versions."""
    root = description(save_system(make(tmp_path), tmp_path / "s.ssp", **run))
    assert root.get("version") == SYSTEMS[make]
    for version in {root.get("version"), "2.0"}:
        schema(STRUCTURE, version).assertValid(root)
        for one in root.iter(tag(VALUES)):
            schema(VALUES, max(one.get("version"), version)).assertValid(one)


def damaged(root):
    """Yield copies of a description, each without one attribute or one element of SSP."""

    def elements(copy):
        return [one for one in copy.iter() if one.tag.startswith(f"{{{NS}")]

    for k, element in enumerate(elements(root)):
        for name in element.attrib:
            copy = deepcopy(root)
            del elements(copy)[k].attrib[name]
            yield f"{element.tag} {name}", copy
        if k > 0:
            copy = deepcopy(root)
            one = elements(copy)[k]
            one.getparent().remove(one)
            yield element.tag, copy


@pytest.mark.slow
@pytest.mark.interop
@pytest.mark.parametrize("make", SYSTEMS)
def test_reader_rejects_ssp_files_without_the_attributes_and_elements_of_the_schema(make, tmp_path):
    root = description(save_system(make(tmp_path), tmp_path / "s.ssp", dt=0.01, t_stop=0.1))
    invalid = schema(STRUCTURE, root.get("version"))
    accepted, rejected = set(), 0
    for name, copy in damaged(root):
        if not invalid.validate(copy):
            rejected += 1
            try:
                read({"s.ssd": etree.tostring(copy)}, "s.ssd", STRUCTURE, tmp_path)
            except FormatError:
                continue
            accepted.add(name.replace(NS, ""))
    assert not accepted
    assert rejected > 10


XS = {"xs": "http://www.w3.org/2001/XMLSchema"}
FILES = {"ssc": "Common", **{root[:3]: name for root, name in ROOTS.items()}}


class Content(NamedTuple):
    """Attributes and children of an element in a schema, and the required attributes."""

    attributes: frozenset[str]
    required: frozenset[str]
    children: frozenset[str]

    def __or__(self, other):
        return Content(*map(frozenset.union, self, other))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("prefix", FILES)
def test_ssp_reader_has_a_rule_for_every_element_and_attribute_of_the_schema(prefix, version):
    """Each rule lists the attributes and children that the schema permits.

    It requires the attributes that the schema requires, except the attributes in `OPTIONAL`.
    """
    folder = folder_of(version)
    trees = {
        space: etree.parse(folder / f"SystemStructure{file}.xsd") for space, file in FILES.items()
    }

    def named(qualified):
        there, _, local = qualified.partition(":")
        return there, trees[there].xpath(f"/xs:schema/*[@name='{local}']", namespaces=XS)[0]

    def content(space, node):
        """Return the content of a schema node, including its references."""
        found = Content(frozenset(), frozenset(), frozenset())
        for one in node.iterchildren("{*}*"):
            kind, reference = etree.QName(one).localname, one.get("ref") or one.get("base")
            name, none = frozenset([one.get("name")]), frozenset()
            if kind == "attribute":
                found |= Content(name, name if one.get("use") == "required" else none, none)
            elif kind == "element":
                found |= Content(none, none, frozenset([f"{space}:{one.get('name')}"]))
            elif reference and reference.partition(":")[0] in trees:
                found |= content(*named(reference))
            if kind != "element":
                found |= content(space, one)
        return found

    # <Content> is a part of <MetaData> and <Signature>, which may have any content
    elements = trees[prefix].xpath("//xs:element[@name][@name != 'Content']", namespaces=XS)
    assert elements
    for element in elements:
        of_type = element.get("type") or ""
        there, node = named(of_type) if of_type.partition(":")[0] in trees else (prefix, element)
        schema_content, name = content(there, node), element.get("name")
        attributes, children = RULES[f"{prefix}:{name}"]
        listed = {text.partition(":")[0].rstrip("!"): "!" in text for text in attributes.split()}
        assert schema_content.attributes <= set(listed), name
        unchecked = {one for one in schema_content.required if not listed[one]}
        assert unchecked <= OPTIONAL.get(name, set()), name
        if "..." not in children:
            allowed = {one for group in children.split() for one in group.rstrip("!*").split("|")}
            assert schema_content.children <= allowed, name
