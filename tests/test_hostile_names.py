"""Port and part names that contain code of another language.

The structure of generated files is the same for hostile and plain names.
"""

import csv
import io
import re
import zipfile
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from rigidblocks import Block, Port, Result, System, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.escaping import cmake_name, csv_line, mermaid_text, xml_text
from rigidblocks.fmi.documentation import ReferenceRun, page
from rigidblocks.fmi.model_description import Metadata
from rigidblocks.fmi.native_fmu import fmu_sources
from rigidblocks.fmi.ssp.load import load_system
from rigidblocks.fmi.ssp.save import save_system
from rigidblocks.fmi.variables import Variables
from rigidblocks.fmi.xcp import XcpAddress, a2l_text, elements_of
from rigidblocks.hil.build_runner import runner_sources
from rigidblocks.hil.links import UdpLink
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.studies.requirements import Always, check_requirements, html_report, junit_report
from rigidblocks.tracing.c_notation import c_comment, c_string

FRAGMENTS = (
    "*/", "/*", "//", "\\", "\n", "\r\n", "\r", "\t", '"', "'", "`", "%s%n", "%%", ";", "#", "??/",
    "\\\n", "*\\\n/", "*??/\n/", "#include <EVIL>", "#define x EVIL", "{", "}", "{0}", "{{", "}}",
    "$(EVIL)", "${EVIL}", "`EVIL`", "$x", "&& EVIL", "| EVIL", "> EVIL", "; EVIL",
    "-EVIL", "--EVIL",
    "<EVIL>", "</EVIL>", "<script>EVIL()</script>", "</script>", "<!--", "-->", "]]>", "<![CDATA[",
    "&", "&lt;", "&#0;", "<br>", "->", "|", '" onload="EVIL()', "' onload='EVIL()", "</title>",
    "</style>", "</text></svg>", "javascript:EVIL()", '"] EVIL --> x["', "#quot;", "%%{init: {}}%%",
    "../../EVIL", "/EVIL", "..\\EVIL", "C:\\EVIL", "nul", "=EVIL()", "@EVIL", "+EVIL", ",", "  ",
    "/begin EVIL", "/end MODULE", "[1]", "[EVIL]", "(", ")", "[", "]", "der(x)", "int", "main",
    "RB_T",
    "out[0]", "*out = 0;", "é", "日本", "\u2028", "\u202e", "\U0001f600", "a b", "1a", "0", "?",
    "*", "^",
    "~", "a" * 300, "*/ EVIL(); /*", "*/\nEVIL();\n/*", '"; EVIL(); "', "\\\"; EVIL(); //",
)  # fmt: skip
NOT_IN_XML = ("\x00", "\x07", "\x1b[31m", "\ud800", "\ufffe")


def hostile_names(n=200):
    rng, names = np.random.default_rng(3), dict.fromkeys(FRAGMENTS)
    while len(names) < n:
        names["".join(rng.choice(FRAGMENTS, rng.integers(2, 5)))] = None
    return list(names)[:n]


HOSTILE = hostile_names()
DESCRIPTION = " ".join("".join(one for one in HOSTILE if one.isprintable()).split())
PLAIN = [f"n{k:03d}" for k in range(len(HOSTILE))]


@dataclass(frozen=True)
class Copy(Block):
    """Block with outputs and states that have the input names with a suffix."""

    names: tuple[str, ...] = ("u",)
    docs: tuple[str, ...] = ()
    ending: str = " "

    def ports(self, kind, **values):
        return tuple(
            Port(f"{name}{kind and self.ending}{kind}", doc=doc, **values)
            for name, doc in zip(self.names, self.docs or self.names, strict=True)
        )

    @cached_property
    def inputs(self):
        return self.ports("", start=0.0)

    @cached_property
    def outputs(self):
        return self.ports("y")

    @cached_property
    def states(self):
        return self.ports("x", start=0.0)

    @cached_property
    def parameters(self):
        return self.ports("p", start=1.0)

    def derivative(self, x, u):
        return dict(zip(vars(x), vars(u).values(), strict=True))

    def output(self, x, p):
        values = zip(vars(x).values(), vars(p).values(), strict=True)
        return {
            f"{name}{self.ending}y": x * p for name, (x, p) in zip(self.names, values, strict=True)
        }


def code(text):
    """Return C code without comments and with empty string literals.

    The function first replaces trigraphs and joins spliced lines, as in the C standard.
    """
    text = text.replace("??/", "\\").replace("\\\n", "")
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
    return token.sub(lambda one: " " if one[0][0] == "/" else '""', text)


def words(text):
    """Return the set of words in C code without digits; names affect their order and numbers."""
    return set(re.findall(r"[A-Za-z_]+", re.sub(r"\d+", "", code(text))))


class Structure(HTMLParser):
    """List of HTML tags with attribute names in document order."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag):
        self.tags.append(f"/{tag}")

    def handle_comment(self, _):
        self.tags.append("comment")


def tags(text):
    return Structure(text).tags


def xml_structure(text):
    return [(one.tag, *one.attrib) for one in ElementTree.fromstring(text).iter()]


def variables(docs):
    """Return the variables of a block with plain names and the given descriptions."""
    return Variables(TracedEvaluator(Memory(Copy(tuple(PLAIN), docs=tuple(docs), ending="_"))))


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_descriptions_with_code_fragments_do_not_change_the_code_of_an_fmu(fmi):
    xcp, title = XcpAddress("5555"), Metadata(description=DESCRIPTION, author='"<EVIL>"')
    hostile, plain = (
        fmu_sources(variables(docs), "Copy", RK4, 1e-3, fmi, metadata, xcp)
        for docs, metadata in ((HOSTILE, title), (PLAIN, Metadata(description="a", author="b")))
    )
    assert xml_structure(hostile[0]) == xml_structure(plain[0])
    for file, text in hostile[1].items():
        assert code(text) == code(plain[1][file]), file


@pytest.mark.parametrize("name", [*HOSTILE[::20], *NOT_IN_XML])
def test_fmu_names_that_are_not_identifiers_are_rejected(name):
    with pytest.raises(ValueError, match="names of parts and ports must consist"):
        Variables(TracedEvaluator(Memory(Copy((name,)))))


@pytest.mark.parametrize("character", NOT_IN_XML)
def test_fmu_names_with_characters_that_xml_forbids_are_rejected(character):
    root = ElementTree.Element("part", name=f"a{character}b")
    with pytest.raises(ValueError, match="which XML does not allow"):
        xml_text(root)
    root = ElementTree.Element("part", description=f"a{character}b")
    assert ElementTree.fromstring(xml_text(root)).get("description").startswith("a\ufffd")


@pytest.mark.slow
def test_block_with_code_fragments_in_port_names_compiles_and_runs():
    stepper = compiled_stepper(Memory(Copy((*HOSTILE, *NOT_IN_XML))))
    m = stepper.memory.start()
    m[stepper.memory.u] = 1.0
    stepper.initialize(m, 0.0)
    stepper.step(m, 0.0, 0.5)
    np.testing.assert_allclose(m[stepper.memory.x], 0.5, rtol=1e-12)


def wired(names, method=None):
    """Return a system with a chain of parts with the given names."""
    system = System()
    for before, name in zip([None, *names], names, strict=False):
        start = {"u": 1.0} if before is None else {}
        system.add(name, Copy(("u",), ending="_"), start=start, method=method)
        if before is not None:
            system.connect(f"{before}.u_y", f"{name}.u")
    return system


def part_names(names, n=200):
    """Return hostile part names without dots, which part names must not contain."""
    return list(dict.fromkeys(name.replace(".", "_") for name in names if name))[:n]


PARTS = part_names(HOSTILE)[::5]
PLAIN_PARTS = PLAIN[: len(PARTS)]
FEW = [one for one in part_names(FRAGMENTS) if "*/" in one or "\\" in one or "\n" in one]


@pytest.mark.slow
def test_part_names_cannot_inject_code_into_a_program():
    hostile, plain = (
        runner_sources(wired(names, "rk4"), "plant", 1e-2, "gauss-seidel", "127.0.0.1:5555")
        for names in (PARTS, PLAIN_PARTS)
    )
    for file, text in hostile.items():
        if file.endswith((".h", ".c")):
            assert words(text) == words(plain[file]), file


@pytest.mark.slow
def test_part_names_with_code_fragments_do_not_change_the_code_of_a_program():
    system = wired(FEW)
    simulate(system, 0.1, 1e-2, form="fused")
    hostile, plain = (
        runner_sources(wired(names), "plant", 1e-2, "gauss-seidel")["model.h"]
        for names in (FEW, PLAIN[: len(FEW)])
    )
    assert words(hostile) == words(plain)


@pytest.mark.slow
def test_link_signal_names_with_code_fragments_do_not_change_the_code_of_a_program():
    sources = []
    for names in (HOSTILE, PLAIN):
        system = System()
        system.add("plant", Copy(tuple(names)))
        link = UdpLink(
            [Port(f"{name} y") for name in names], [Port(name) for name in names], lock_step=True
        )
        system.add("link", link)
        for name in names:
            system.connect(f"link.{name}", f"plant.{name}")
            system.connect(f"plant.{name} y", f"link.{name} y")
        sources.append(runner_sources(system, "plant", 1e-2, "gauss-seidel"))
    for file in ("links.h", "system.h", "xcp_plan.h", "model.h"):
        assert code(sources[0][file]) == code(sources[1][file]), file


def test_names_with_special_characters_become_valid_a2l_identifiers_and_strings():
    memory = Memory(Copy(tuple(HOSTILE)))
    signals = list(elements_of(memory.block.outputs, memory.where))
    tunables = list(elements_of(memory.block.parameters, memory.where))
    hostile = a2l_text('*/ "x" /end', signals, tunables, 1e-2, "127.0.0.1:5555")
    token = r'"[^"\\\x00-\x1f]*"|/begin \w+|/end \w+|[A-Za-z_][\w.\[\]]*|[-+.\w]+|\S'
    blocks, identifiers = [], []
    tokens = re.findall(token, hostile.split("/end A2ML")[1])
    for k, one in enumerate(tokens):
        if one.startswith("/begin "):
            blocks.append(one.removeprefix("/begin "))
            if blocks[-1] in ("MEASUREMENT", "CHARACTERISTIC"):
                identifiers.append(tokens[k + 1])
        elif one.startswith("/end "):
            # the start tags of MODULE and PROJECT are before the interface description
            assert one.removeprefix("/end ") == (blocks.pop() if blocks else one[5:])
    assert len(identifiers) == len(set(identifiers)) == 2 * len(HOSTILE)
    for one in identifiers:
        assert re.fullmatch(r"[A-Za-z_]\w*(\[\d+\])*(\.[A-Za-z_]\w*(\[\d+\])*)*", one, re.ASCII), (
            one
        )


@pytest.mark.slow
def test_names_with_markup_do_not_change_the_structure_of_pages_and_reports():
    hostile, plain = [], []
    for names, made in ((PARTS, hostile), (PLAIN_PARTS, plain)):
        result = simulate(wired(names, "rk4"), 0.1, 1e-2)
        kept = [Always(f"{name}.u_y", lower=0.5, upper=2.0) for name in names]
        checked = check_requirements(result, kept)
        made += [html_report(checked, result, names[0]), junit_report(checked, names[0])]
        made.append(wired(names, "rk4").draw())
    assert set(tags(hostile[0])) == set(tags(plain[0]))  # long titles have more lines
    assert xml_structure(hostile[1]) == xml_structure(plain[1])
    lines = [sorted(re.sub(r'"[^"\n]*"|\d+', "", one[2]).split("\n")) for one in (hostile, plain)]
    assert lines[0] == lines[1]
    assert "%%{" not in hostile[2]


@pytest.mark.slow
def test_names_with_markup_do_not_change_the_structure_of_fmu_documentation():
    runs = (
        ReferenceRun(TracedEvaluator(Memory(Copy(tuple(names)))), RK4, 1e-3)
        for names in (HOSTILE, PLAIN)
    )
    hostile, plain = ((page(run, "Copy"), run.csv(run.output_columns)) for run in runs)
    assert set(tags(hostile[0])) == set(tags(plain[0]))
    read, expected = (list(csv.reader(io.StringIO(one[1], newline=""))) for one in (hostile, plain))
    assert read[0][1:] == [f"{name} y" for name in HOSTILE][: len(read[0]) - 1]
    assert read[1:] == expected[1:]


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["csv", "parquet", pytest.param("arrow", marks=pytest.mark.slow)]
)
def test_names_with_special_characters_do_not_change_in_saved_results(ending, tmp_path):
    result = simulate(wired(PARTS, "rk4"), 0.05, 1e-2)
    read = Result.load(result.save(tmp_path / f"result.{ending}"))
    assert [port.name for port in read.ports] == [port.name for port in result.ports]
    np.testing.assert_array_equal(read.values, result.values)


@pytest.mark.slow
def test_part_names_with_special_characters_do_not_change_in_a_saved_system(tmp_path):
    names = PARTS[::10]
    path = save_system(wired(names, "rk4"), tmp_path / "system.ssp")
    with zipfile.ZipFile(path) as archive:
        for file in archive.namelist():
            assert re.fullmatch(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*\.\w+", file), file
    assert list(load_system(path).system.parts) == names


def test_any_string_is_escaped_in_each_output_language():
    for text in (*HOSTILE, *NOT_IN_XML):
        assert code(f"/* {c_comment(text)} */x") == " x"
        assert code(f"{c_string(text)}x") == '""x'
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", cmake_name(text))
        assert not re.search(r'["\n<>%`]', mermaid_text(text))
        if "\ud800" not in text:
            assert next(csv.reader(io.StringIO(csv_line([text, "b"]), newline=""))) == [text, "b"]
