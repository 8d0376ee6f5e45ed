"""Published foreign SSP files, with FMUs of this package instead of the original FMUs.

The system is the DC motor of the SSP traceability examples
(modelica/ssp-ls-traceability-examples, DC-Motor). It has several names for one unit, parameter sets
with their own units, connections written from end to start, outputs of the system itself, an inner
system, and FMUs for model exchange.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Block, Port, export_fmu, load_system, simulate
from ssp_archive import archive

M, J, D = 1.0, 0.002, 0.001  # N.m, kg.m2, N.m.s/rad: the final speed is 1000 rad/s


@dataclass(frozen=True)
class Stimuli(Block):
    """Constant torque."""

    outputs = (Port("M_load", (), "N.m", "torque"),)
    parameters = (Port("k", (), "N.m", "torque", 0.0),)

    def output(self, p):
        return {"M_load": p.k}


@dataclass(frozen=True)
class Mass(Block):
    """J w' = M_A - d w."""

    inputs = (Port("M_A", (), "N.m", "torque", 0.0),)
    outputs = (Port("wB", (), "rad/s", "speed"),)
    states = (Port("wB", (), "rad/s", "speed", 0.0),)
    parameters = (
        Port("J", (), "kg.m2", "inertia", 1.0),
        Port("d", (), "N.m.s/rad", "damping", 1.0),
    )

    def derivative(self, x, u, p):
        return {"wB": (u.M_A - p.d * x.wB) / p.J}


UNITS = {  # unit names of the SSP files; this package does not know all of them
    "Nm": 'kg="1" m="2" s="-2"',
    "N.m": 'kg="1" m="2" s="-2"',
    "rad/s": 's="-1" rad="1"',
    "gcm2": 'kg="1" m="2" factor="1e-7"',
}


def units(prefix, *names):
    rows = "".join(
        f'<ssc:Unit name="{name}"><ssc:BaseUnit {UNITS[name]}/></ssc:Unit>' for name in names
    )
    return f"<{prefix}:Units>{rows}</{prefix}:Units>"


def connectors(**listed):
    rows = "".join(
        f'<ssd:Connector name="{name}" kind="{kind}"><ssc:Real unit="{unit}"/></ssd:Connector>'
        for name, (kind, unit) in listed.items()
    )
    return f"<ssd:Connectors>{rows}</ssd:Connectors>"


def given(version, defined="", **values):
    rows = "".join(
        f'<ssv:Parameter name="{name}"><ssv:Real value="{value}" unit="{unit}"/></ssv:Parameter>'
        for name, (value, unit) in values.items()
    )
    return (
        '<ssd:ParameterBindings><ssd:ParameterBinding prefix=""><ssd:ParameterValues>'
        f'<ssv:ParameterSet version="{version}" name="Parameter-Set"><ssv:Parameters>{rows}'
        f"</ssv:Parameters>{defined}</ssv:ParameterSet></ssd:ParameterValues>"
        "</ssd:ParameterBinding></ssd:ParameterBindings>"
    )


def motor(version, inertia, defined=""):
    """Return the system description, with the mass in an inner system."""
    fmu = 'type="application/x-fmu-sharedlibrary" implementation="ModelExchange"'
    mass = (
        f'<ssd:Component name="edrive_mass" source="resources/mass.fmu" {fmu}>'
        + connectors(M_A=("input", "N.m"), wB=("output", "rad/s"))
        + given(version, defined, J=inertia, d=(D, "N.m.s/rad"))
        + "</ssd:Component>"
    )
    inner = (
        '<ssd:System name="SuT">'
        + connectors(M_load=("input", "Nm"), wB=("output", "rad/s"))
        + f"<ssd:Elements>{mass}</ssd:Elements><ssd:Connections>"
        '<ssd:Connection startConnector="wB" endElement="edrive_mass" endConnector="wB"/>'
        '<ssd:Connection startConnector="M_load" endElement="edrive_mass" endConnector="M_A"/>'
        "</ssd:Connections></ssd:System>"
    )
    stimuli = (
        f'<ssd:Component name="stimuli_model" source="resources/stimuli.fmu" {fmu}>'
        + connectors(M_load=("output", "N.m"))
        + given(version, k=(M, "N.m"))
        + "</ssd:Component>"
    )
    return (
        f'<ssd:SystemStructureDescription SPACES version="{version}" name="DC-Motor">'
        '<ssd:System name="DC-Motor">'
        + connectors(M=("output", "Nm"), wB=("output", "rad/s"))
        + given(version)
        + f"<ssd:Elements>{inner}{stimuli}</ssd:Elements><ssd:Connections>"
        '<ssd:Connection startElement="stimuli_model" startConnector="M_load" endConnector="M"/>'
        '<ssd:Connection startElement="SuT" startConnector="wB" endConnector="wB"/>'
        '<ssd:Connection startElement="stimuli_model" startConnector="M_load" endElement="SuT"'
        ' endConnector="M_load" suppressUnitConversion="false"/></ssd:Connections></ssd:System>'
        + units("ssd", "Nm", "N.m", "rad/s")
        + "</ssd:SystemStructureDescription>"
    )


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("motor")
    blocks = {"mass": Mass(), "stimuli": Stimuli()}
    return {name: export_fmu(block, folder / f"{name}.fmu") for name, block in blocks.items()}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    ("inertia", "defined"),
    [
        ((J, "kg.m2"), ""),
        ((J * 1e7, "gcm2"), units("ssv", "gcm2")),  # a unit that the set defines
    ],
)
def test_dc_motor_of_a_published_ssp_file_matches_its_closed_form(
    fmus, tmp_path, version, inertia, defined
):
    path = archive(tmp_path / "motor.ssp", motor(version, inertia, defined), fmus)
    system, run = load_system(path)
    assert system.parts["SuT/edrive_mass"].component.kind == "model exchange"
    result = simulate(system, 10.0, 0.1, progress=False, **run)
    speed = M / D * (1.0 - np.exp(-D / J * result.time))
    assert_allclose(result["SuT/edrive_mass.wB"], speed, rtol=1e-5, atol=1e-6)
