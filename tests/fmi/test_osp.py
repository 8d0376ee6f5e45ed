"""System structures of the Open Simulation Platform (OSP) give the trajectories of libcosim."""

import logging
import re
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hosts import run_osp_in_libcosim
from rigidblocks import Block, Port, export_fmu, simulate
from rigidblocks.cli import main
from rigidblocks.common.format_error import FormatError
from rigidblocks.fmi.ssp.osp import load_osp

DT, STEPS = 1e-3, 400
SAME = 1e-12


@dataclass(frozen=True)
class Mass(Block):
    """m a = f - d v."""

    inputs = (Port("f", (2,), "N", "force", 0.0),)
    outputs = (Port("v", (2,), "m/s", "velocity"), Port("x", (2,), "m", "place"))
    states = (
        Port("x", (2,), "m", "place", 0.0, rate="v"),
        Port("v", (2,), "m/s", "velocity", 0.0),
    )
    parameters = (Port("m", (), "kg", "mass", 1.0), Port("d", (), "N.s/m", "damping", 0.1))

    def derivative(self, x, u, p):
        return {"x": x.v, "v": (u.f - p.d * x.v) / p.m}


@dataclass(frozen=True)
class Spring(Block):
    """f = k x."""

    inputs = (Port("x", (2,), "m", "shift", 0.0),)
    outputs = (Port("f", (2,), "N", "force"),)
    parameters = (Port("k", (), "N/m", "stiffness", 1.0),)

    def output(self, u, p):
        return {"f": p.k * u.x}


def structure(connections="", values='<Real value="2.5"/>', step="", algorithm="fixedStep"):
    """Return an OSP file with variable connections and two linear transformations."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<OspSystemStructure xmlns="http://opensimulationplatform.com/MSMI/OSPSystemStructure" version="0.1">
  <StartTime>0.0</StartTime>
  <BaseStepSize>{DT}</BaseStepSize>
  <Algorithm>{algorithm}</Algorithm>
  <Simulators>
    <Simulator name="mass" source="fmus/mass.fmu"{step}>
      <InitialValues>
        <InitialValue variable="m">{values}</InitialValue>
        <InitialValue variable="x[1]"><Real value="0.3"/></InitialValue>
      </InitialValues>
    </Simulator>
    <Simulator name="spring" source="fmus/spring.fmu">
      <InitialValues><InitialValue variable="k"><Real value="40"/></InitialValue></InitialValues>
    </Simulator>
  </Simulators>
  <Functions>
    <LinearTransformation name="pull" factor="-1.0" offset="0.5"/>
    <LinearTransformation name="turn" factor="-0.25"/>
  </Functions>
  <Connections>
    <VariableConnection>
      <Variable simulator="spring" name="x[1]"/>
      <Variable simulator="mass" name="x[1]"/>
    </VariableConnection>
    <VariableConnection>
      <Variable simulator="mass" name="x[2]"/><Variable simulator="spring" name="x[2]"/>
    </VariableConnection>
    <SignalConnection>
      <Signal function="pull" name="out"/><Variable simulator="mass" name="f[1]"/>
    </SignalConnection>
    <SignalConnection>
      <Variable simulator="spring" name="f[1]"/><Signal function="pull" name="in"/>
    </SignalConnection>
    <SignalConnection>
      <Variable simulator="mass" name="x[1]"/><Signal function="turn" name="in"/>
    </SignalConnection>
    <SignalConnection>
      <Variable simulator="mass" name="f[2]"/><Signal function="turn" name="out"/>
    </SignalConnection>
    {connections}
  </Connections>
</OspSystemStructure>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("osp")
    (where / "fmus").mkdir()
    for block in (Mass(), Spring()):
        export_fmu(block, where / "fmus" / f"{type(block).__name__.lower()}.fmu")
    return where


def file(folder, text):
    path = folder / "OspSystemStructure.xml"
    path.write_text(text)
    return path


@pytest.mark.interop
def test_simulated_osp_system_matches_the_results_of_libcosim(folder):
    path = file(folder, structure())
    system, run = load_osp(folder)
    assert run == {"order": "jacobi", "t_start": 0.0, "dt": DT}
    ours = simulate(system, STEPS * DT, **run, progress=False)
    observed = list(ours.columns)
    theirs = run_osp_in_libcosim(path, STEPS, observed)
    assert_allclose(theirs, ours.values[1:], rtol=0.0, atol=SAME)
    moved = np.ptp(ours["mass.x"], axis=0)
    assert moved.min() > 1e-3


@pytest.mark.slow
def test_run_command_runs_an_osp_file_and_logs_unsupported_features(folder, caplog, capsys):
    path = file(folder, structure(step=' stepSize="2e-3"', algorithm="ecco"))
    with caplog.at_level(logging.WARNING):
        load_osp(path)
    assert "their own steps of 0.002 s" in caplog.text
    assert "requests the algorithm 'ecco'" in caplog.text
    assert main(["run", str(path), "--stop", "0.01", "-o", str(folder / "run.csv")]) == 0
    capsys.readouterr()


WRONG = {
    "a sum": ("<LinearTransformation name=", "<Sum name=", "function type Sum is not supported"),
    "groups": ("<VariableConnection>", "<VariableGroupConnection>", "groups of variables are not"),
    "a part": (
        'simulator="spring" name="x[1]"',
        'simulator="sprig" name="x[1]"',
        "unknown simulator",
    ),
    "a variable": ('simulator="spring" name="x[1]"', 'simulator="spring" name="z"', "output 'z'"),
    "a start": ('variable="k"', 'variable="kk"', "no start value 'kk'"),
    "a value": ('<Real value="40"/>', '<Real value="4o"/>', "invalid Real '4o'"),
    "a file": ("fmus/spring.fmu", "fmus/sprig.fmu", "simulator 'spring'"),
    "a server": ("fmus/spring.fmu", "proxyfmu://x?file=a.fmu", "is not a file; only FMU files"),
    "two outputs": ('simulator="spring" name="x[1]"', 'simulator="spring" name="f[1]"', "an input"),
    "a function": (
        'function="pull" name="in"',
        'function="pul" name="in"',
        "unknown function 'pul'",
    ),
    "one end": ('<Signal function="pull" name="in"/>', "", "a connection needs two ends"),
    "two inputs": ('function="pull" name="in"', 'function="turn" name="in"', "has two connections"),
    "an open one": (
        "</Functions>\n  <Connections>",
        '<LinearTransformation name="spare"/></Functions><Connections><SignalConnection>'
        '<Variable simulator="mass" name="f[1]"/><Signal function="spare" name="out"/>'
        "</SignalConnection>",
        "input of function 'spare'",
    ),
    "a signal": ('function="pull" name="in"', 'function="pull" name="inn"', "has no signal 'inn'"),
    "an element": ("<Simulators>", "<Simulators><Model/>", "<Model> of the namespace"),
    "no name": ('variable="k"', 'variabel="k"', "needs the attribute variable"),
    "an empty number": (f"<BaseStepSize>{DT}", "<BaseStepSize>", "invalid number ''"),
    "two values": (
        '<Real value="40"/>',
        '<Real value="4"/><Real value="40"/>',
        "<Real> is not allowed here",
    ),
    "two starts": ('variable="x[1]"', 'variable="m"', "'m' has two initial values"),
    "no element": ('variable="x[1]"', 'variable="x[3]"', "must be from 1 to 2"),
    "a text": ('<Real value="40"/>', '<String value="40"/>', "does not accept String"),
    "a number": (f"<BaseStepSize>{DT}", "<BaseStepSize>fast", "invalid number 'fast'"),
    "names": ('<Simulator name="spring"', '<Simulator name="mass"', "have the same name"),
    "another root": ("OspSystemStructure ", "OspModelDescription ", "must be an OspSystem"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_unsupported_osp_elements_are_rejected_with_their_line_number(folder, name):
    old, new, said = WRONG[name]
    text = structure().replace(old, new)
    for tag in ("VariableGroupConnection", "OspModelDescription"):
        if f"<{tag}" in text:
            text = text.replace(f"</{tag.replace('Group', '')}>", f"</{tag}>")
            text = text.replace("</OspSystemStructure>", f"</{tag}>") if "Osp" in tag else text
    with pytest.raises(FormatError, match=rf"OspSystemStructure\.xml:\d+: .*{re.escape(said)}"):
        load_osp(file(folder, text))
