"""Interface types of FMUs as parts: runs with supported variables, errors for unsupported types."""

import random
import re
import zipfile
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal
from pythonfmu import FmuBuilder

from any_models import CLOCKS, DAHLQUIST, FEEDTHROUGH, STATE_SPACE, any_fmu
from rigidblocks import PDController, System, export_fmu, simulate
from rigidblocks.common.compiler import CompilerError
from rigidblocks.cosim.graph.fmu_part import FmuError

EVERY = """
from pythonfmu import Boolean, Fmi2Causality, Fmi2Slave, Fmi2Variability, Integer, Real, String

KINDS = (Real, Integer, Boolean, String)


class Every(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gain, self.more, self.inverts, self.greeting = 2.0, 3, True, "hello "
        self.u, self.n, self.b, self.s = 0.0, 0, False, ""
        self.y, self.m, self.c, self.t = 0.0, 0, False, ""
        for kind, name in zip(KINDS, ("gain", "more", "inverts", "greeting")):
            how = {"causality": Fmi2Causality.parameter, "variability": Fmi2Variability.tunable}
            self.register_variable(kind(name, **how))
        for names, causality in (("unbs", Fmi2Causality.input), ("ymct", Fmi2Causality.output)):
            for kind, name in zip(KINDS, names):
                self.register_variable(kind(name, causality=causality))

    def do_step(self, current_time, step_size):
        self.y, self.m = self.gain * self.u, self.n + self.more
        self.c, self.t = self.b != self.inverts, self.greeting + self.s
        return True
"""


def test_fmu_of_the_pythonfmu_tool_transfers_values_of_every_type(tmp_path):
    """The FMU declares that it needs its execution tool, Python, which is this process."""
    (tmp_path / "every.py").write_text(EVERY)
    path = FmuBuilder.build_FMU(tmp_path / "every.py", dest=tmp_path)
    system = System()
    system.add("a", path, start={"u": 1.5, "n": 4, "b": True, "s": "wörld", "more": -5})
    system.add("b", path, start={"greeting": "bye, "})
    for output, into in ("yu", "mn", "cb", "ts"):
        system.connect(f"a.{output}", f"b.{into}")
    result = simulate(system, 0.02, 0.01)
    last = [result[f"b.{name}"][-1] for name in "ymct"]
    assert last == [6.0, 2, True, "bye, hello wörld"]
    assert_array_equal(result["a.m"], [0, -1, -1])


def changed(path: Path, new: Path, old: str, text: str) -> Path:
    """Copy an FMU with a replaced part of its model description."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    description = content["modelDescription.xml"].decode()
    assert re.search(old, description)
    content["modelDescription.xml"] = re.sub(old, text, description).encode()
    with zipfile.ZipFile(new, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return new


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return any_fmu(tmp_path_factory.mktemp("plain"), DAHLQUIST, 3)


@pytest.mark.parametrize(
    ("old", "text", "kind", "message"),
    [
        (
            'fmiVersion="3.0"',
            'fmiVersion="4.0"',
            None,
            "is an FMI 4.0 FMU; only FMI 1.0, 2.0 and 3.0 are",
        ),
        (
            r"<ModelExchange[^>]*/>",
            "",
            "model exchange",
            "does not support model exchange; it supports: co-sim",
        ),
        (
            r"<ModelExchange[^>]*/>\s*<CoSimulation[^>]*/>",
            "",
            None,
            "has no interface type; expected co-simulation or model exchange or scheduled",
        ),
        ('Identifier="any"', 'Identifier="../any"', None, "invalid modelIdentifier '../any'"),
        (' modelIdentifier="any"', "", None, "invalid modelIdentifier None"),
        ('name="k"', 'name="x"', None, r"its variables 1 and 3 \(value references\) .* name 'x'"),
        (
            '<Output valueReference="1"',
            '<Output dependencies="77" valueReference="1"',
            None,
            "its model structure refers to the unknown variable 77",
        ),
    ],
)
def test_error_for_an_unsupported_fmu_suggests_a_remedy(plain, tmp_path, old, text, kind, message):
    path = changed(plain, tmp_path / "other.fmu", old, text)
    with pytest.raises(FmuError, match=message):
        System().add("part", path, kind=kind)


def test_unknown_interface_type_is_rejected(plain):
    with pytest.raises(
        ValueError, match="one of co-simulation, model exchange, scheduled execution, not 'ME'"
    ):
        System().add("part", plain, kind="ME")


def test_error_for_a_connection_to_an_unsupported_variable_states_the_reason(plain):
    system = System()
    system.add("part", plain)
    with pytest.raises(KeyError, match=r"'der_x' of '.*' is a variable of causality local"):
        system.connect("part.der_x", "part.x")
    with pytest.raises(KeyError, match=r"has no output 'xx'; it has: x \(did you mean x\?\)"):
        system.connect("part.xx", "part.x")


@pytest.mark.slow
@pytest.mark.parametrize("model", [FEEDTHROUGH, STATE_SPACE, CLOCKS], ids=lambda m: m.name)
def test_malformed_model_description_is_rejected_with_the_file_name(tmp_path, model):
    path, rng = any_fmu(tmp_path, model, 3), random.Random(1)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    text = content["modelDescription.xml"].decode()
    refused = 0
    for _ in range(60):
        wrong = _spoiled(text, rng)
        with zipfile.ZipFile(tmp_path / "bad.fmu", "w") as archive:
            for name, data in content.items():
                archive.writestr(name, wrong if name.endswith(".xml") else data)
        system = System()
        try:
            system.add("part", tmp_path / "bad.fmu")
            _ = system.parts["part"].component.outputs
        except FmuError as error:
            refused += "bad.fmu" in str(error)
    assert refused > 10


def _spoiled(text: str, rng: random.Random) -> str:
    """Return the description with one random defect.

    The defects are a missing or invalid attribute, a missing or repeated element, and a cut.
    """
    how = rng.randrange(5)
    attribute = rng.choice(list(re.finditer(r'\w+="([^"]*)"', text)))
    element = rng.choice(list(re.finditer(r"<[^>]*/>", text)))
    if how == 0:
        return text[: attribute.start()] + text[attribute.end() :]
    if how == 1:
        wrong = rng.choice(["", "-1", "nan", "1e400", "abc", "9" * 30, "0x1", "1 2 3", "inf"])
        return text[: attribute.start(1)] + wrong + text[attribute.end(1) :]
    if how == 2:
        return text[: element.start()] + text[element.end() :]
    if how == 3:
        return text[: element.end()] + element.group() + text[element.end() :]
    k = rng.randrange(len(text))
    return text[:k] + text[k + rng.randint(1, 30) :]


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_compiled_source_fmu_matches_the_results_of_its_block(tmp_path, fmi, monkeypatch):
    block = PDController(kp=[1.0, 2.0], kd=[0.1, 0.2])
    path = export_fmu(block, tmp_path / "sources.fmu", "source", fmi=fmi)
    start = {"q": [1.0, 1.0], "qd": [0.3, -0.2], "q_ref": [0.0, 0.0], "qd_ref": [0.0, 0.0]}
    results = []
    for component in (block, path):
        system = System()
        system.add("pd", component, start=start)
        results.append(simulate(system, 0.02, 0.01)["pd.tau"])
    assert_array_equal(*results)

    def none():
        raise CompilerError("no C compiler: install one")

    other = path.rename(tmp_path / "other.fmu")  # a known file would not be read again
    monkeypatch.setattr("rigidblocks.cosim.graph.fmu_file.compiler", none)
    with pytest.raises(
        FmuError,
        match="has no binary for this platform, and its sources cannot be compiled: no C comp",
    ):
        System().add("pd", other)


@pytest.mark.slow
def test_compiler_errors_of_a_source_fmu_are_reported(tmp_path):
    path = export_fmu(PDController(kp=[1.0], kd=[0.1]), tmp_path / "sources.fmu", "source")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, b"int x = ;" if name.endswith(".c") else data)
    system = System()
    system.add("pd", path)
    with pytest.raises(FmuError, match=r"'pd' .* the sources of .* do not compile: (?s:.*)error"):
        simulate(system, 0.02, 0.01)
