"""FMUs with XCP (layered standard FMI-LS-XCP).

XCP does not change the results, and tools measure and calibrate during a run. FMU parameters set
the address of XCP and disable it.
"""

import contextlib
import shutil
import socket
import zipfile
from xml.etree import ElementTree

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.validation import validate_fmu
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import export_fmu, simulate
from udp_partner import free_ports
from xcp_master import RefusalError, XcpMaster, addresses_in, connected

pytestmark = pytest.mark.slow
DT, LONG = 1e-3, 400
EXTRA = "extra/org.fmi-standard.fmi-ls-xcp"
PREFIX = "org.fmi_standard.fmi_ls_xcp"
FOLDERS = {2: "linux64", 3: "x86_64-linux"}
NAMES = ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "pd.tau[2]", "pd.kp[1]")


@pytest.fixture(scope="module", params=[2, 3])
def made(request, tmp_path_factory):
    """Return an FMU with XCP, the FMU without XCP, the default address, and variable addresses."""
    fmi, folder = request.param, tmp_path_factory.mktemp("xcp")
    (address,) = free_ports(1)
    port = address.partition(":")[2]
    options = {"fmi": fmi, "dt": DT, "name": "arm"}
    path = export_fmu(wired(parts()), folder / "arm.fmu", xcp=port, **options)
    without = export_fmu(wired(parts()), folder / "without.fmu", **options)
    with zipfile.ZipFile(path) as archive:
        (a2l,) = [name for name in archive.namelist() if name.endswith(".a2l")]
        text = archive.read(a2l).decode()
    return path, without, address, addresses_in(text)


@contextlib.contextmanager
def instance(path, initialize=True, **settings):
    """Yield a co-simulation instance with these XCP settings, and its value references."""
    folder = fmpy.extract(str(path))
    description = fmpy.read_model_description(folder)
    references = {v.name: v.valueReference for v in description.modelVariables}
    fmu = fmpy.instantiate_fmu(folder, description, "CoSimulation")
    try:
        for name, value in settings.items():
            _set(fmu, references[f"{PREFIX}.{name}"], value)
        if initialize:
            begin(fmu)
        yield fmu, references
    finally:
        with contextlib.suppress(FMICallException):
            fmu.terminate()
        fmu.freeInstance()
        shutil.rmtree(folder, ignore_errors=True)


def begin(fmu):
    if hasattr(fmu, "setupExperiment"):
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
    else:
        fmu.enterInitializationMode(startTime=0.0)
    fmu.exitInitializationMode()


def _set(fmu, reference, value):
    kinds = {bool: "setBoolean", str: "setString"}
    integer = "setInt32" if hasattr(fmu, "setInt32") else "setInteger"
    getattr(fmu, kinds.get(type(value), integer))([reference], [value])


def step(fmu, k):
    fmu.doStep(currentCommunicationPoint=k * DT, communicationStepSize=DT)


def listens(address):
    """Return whether the port is in use."""
    host, port = address.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        try:
            own.bind((host, int(port)))
        except OSError:
            return True
    return False


def test_xcp_fmu_follows_the_fmi_ls_xcp_layered_standard(made):
    path, without, address, places = made
    assert validate_fmu(str(path)) == []
    description = fmpy.read_model_description(str(path))
    settings = {
        v.name.removeprefix(f"{PREFIX}."): (v.type, v.start, v.causality, v.variability)
        for v in description.modelVariables
        if v.name.startswith(PREFIX)
    }
    integer = "Integer" if description.fmiVersion == "2.0" else "Int32"
    assert settings == {
        "EnableXcpService": ("Boolean", "true", "parameter", "fixed"),
        "UdpListenPortNumber": (integer, address.split(":")[1], "parameter", "fixed"),
        "UdpListenIpAddress": ("String", "127.0.0.1", "parameter", "fixed"),
    }
    with zipfile.ZipFile(path) as archive:
        root = ElementTree.fromstring(archive.read(f"{EXTRA}/fmi-ls-manifest.xml"))
        binaries = {n.split("/")[1] for n in archive.namelist() if n.startswith("binaries/")}
        described = {n for n in archive.namelist() if n.endswith("arm.a2l")}
    own = "{http://fmi-standard.org/fmi-ls-manifest}fmi-ls-"
    assert root.tag == "fmiLayeredStandardManifest"
    assert root.get(f"{own}name") == "org.fmi-standard.fmi-ls-xcp"
    assert root.get(f"{own}version") == "1.0.0"
    assert (root.get("containsXcpService"), root.get("supportsDirectMemoryAccessViaA2L")) == (
        "true",
        "false",
    )
    assert described == {f"{EXTRA}/{folder}/arm.a2l" for folder in binaries}
    assert set(NAMES) <= set(places)
    with zipfile.ZipFile(without) as archive:
        assert not [name for name in archive.namelist() if "xcp" in name]


def test_xcp_does_not_change_the_results_of_an_fmu(made):
    path, without, _, _ = made
    runs = [
        fmpy.simulate_fmu(str(one), stop_time=0.5, output_interval=DT) for one in (path, without)
    ]
    assert runs[0].tobytes() == runs[1].tobytes()


def test_xcp_measures_every_step_and_a_written_gain_takes_effect_in_the_next_step(made):
    path, _, address, places = made
    with instance(path) as (fmu, _), connected(address) as master:
        master.measure([places[name] for name in NAMES])
        for k in range(LONG):
            if k == LONG // 2:
                assert master.read(places["pd.kp[1]"]) == (1000.0,)
                master.write(places["pd.kp[1]"], 2500.0)
            step(fmu, k)
            while len(master.samples) <= k:
                master.receive()
    rows = np.array(master.rows())
    assert_array_equal(np.rint(rows[:, 0] / DT), np.arange(1, LONG + 1))
    scenario = {"time": [0.0, LONG // 2 * DT], "pd.kp[1]": [1000.0, 2500.0]}
    result = simulate(wired(parts()), LONG * DT, DT, scenario=scenario, progress=False)
    for k, name in enumerate(NAMES[:-1], 1):
        expected = result.values[1:, list(result.columns).index(name)]
        assert_array_equal(rows[:, k], expected)
    assert_array_equal(rows[:, -1], np.where(np.arange(LONG) < LONG // 2, 1000.0, 2500.0))


def test_fmu_parameters_set_the_xcp_address_and_disable_xcp(made):
    path, _, address, _ = made
    (other,) = free_ports(1)
    with instance(path, EnableXcpService=False):
        assert not listens(address)
    with instance(path, UdpListenPortNumber=-1):
        assert not listens(address)
    with instance(path, UdpListenPortNumber=int(other.split(":")[1])) as (fmu, _):
        assert not listens(address)
        with connected(other):
            step(fmu, 0)
        fmu.terminate()
        assert not listens(other)
        fmu.reset()
        begin(fmu)
        assert listens(address)
    assert not listens(address)


def test_invalid_xcp_settings_are_rejected(made):
    path, _, address, _ = made
    with instance(path, initialize=False) as (fmu, references):
        for name, value in (
            ("UdpListenPortNumber", 70000),
            ("UdpListenIpAddress", "localhost"),
            ("UdpListenIpAddress", "1.2.3.4.5.6.7.8.9"),
        ):
            with pytest.raises(FMICallException):
                _set(fmu, references[f"{PREFIX}.{name}"], value)
        with pytest.raises(FMICallException):
            _set(fmu, references["time"], True)
        begin(fmu)
        with pytest.raises(FMICallException):
            _set(fmu, references[f"{PREFIX}.UdpListenPortNumber"], 1234)
        assert listens(address)
        assert fmu.getString([references[f"{PREFIX}.UdpListenIpAddress"]])[0] in (
            "127.0.0.1",
            b"127.0.0.1",
        )


def test_fmu_runs_without_xcp_if_its_xcp_port_is_occupied(made):
    path, _, address, _ = made
    with instance(path) as (first, _), instance(path) as (second, _), connected(address):
        for k in range(10):
            step(first, k)
            step(second, k)


def test_xcp_rejects_invalid_writes_and_ignores_random_packets(made):
    path, _, address, places = made
    rng = np.random.default_rng(19)
    with instance(path) as (fmu, _), connected(address) as master:
        for name, value in (("pd.kp[1]", np.nan), ("pd.kp[1]", -1.0), ("robot.q[1]", 1.0)):
            with pytest.raises(RefusalError):
                master.write(places[name], value)
        with contextlib.closing(XcpMaster(address).socket) as noise:
            for k in range(LONG):
                for _ in range(25):
                    noise.send(rng.bytes(int(rng.integers(0, 300))))
                step(fmu, k)
        master.connect()  # commands may be lost, or another master may be connected
        last = master.read(places["robot.q[1]"], 2)
    result = simulate(wired(parts()), LONG * DT, DT, progress=False)
    assert last == tuple(result["robot.q"][-1])


def test_xcp_export_rejects_unsupported_targets_and_addresses(tmp_path):
    system, path = wired(parts()), tmp_path / "never.fmu"
    for options, text in (
        (
            {"platforms": ["x86_64-windows"]},
            "supports only Linux, not x86_64-windows",
        ),
        ({"target": "source"}, "needs an FMU with binaries"),
        ({"target": "python"}, "does not support xcp"),
    ):
        with pytest.raises(ValueError, match=text):
            export_fmu(system, path, dt=DT, xcp="5555", **options)
    for wrong in ("", "x", "70000", "localhost:5555", "1.2.3:5"):
        with pytest.raises(ValueError, match="xcp must be a port or an address"):
            export_fmu(system, path, dt=DT, xcp=wrong)
