"""Foreign tools on both sides of an FMU with XCP.

pyxcp measures and calibrates an FMU that FMPy steps, and pya2ldb reads its A2L file.
"""

import logging
import struct
import sys
import threading
import time
import zipfile

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import export_fmu, simulate
from udp_partner import free_ports
from xcp_master import addresses_in, enlarge_receive_buffer

pytestmark = [pytest.mark.interop, pytest.mark.slow]
DT, STEPS = 1e-3, 1500
NAMES = ("robot.q[1]", "robot.q[2]", "robot.qd[2]", "pd.tau[1]", "pd.kp[1]")


@pytest.fixture(scope="module", params=[2, 3])
def made(request, tmp_path_factory):
    """Return an FMU with XCP, the text of its A2L file, and its address."""
    (address,) = free_ports(1)
    path = tmp_path_factory.mktemp("xcp") / "arm.fmu"
    port = address.partition(":")[2]
    export_fmu(wired(parts()), path, fmi=request.param, dt=DT, name="arm", xcp=port)
    with zipfile.ZipFile(path) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".a2l")]
        return path, archive.read(name).decode(), address


def test_pya2ldb_reads_units_and_addresses_from_the_a2l_of_an_fmu(made, tmp_path):
    pya2l = pytest.importorskip("pya2l")
    from pya2l.api.inspect import Project

    _, text, address = made
    copy = tmp_path / "arm.a2l"
    copy.write_text(text)
    module = Project(pya2l.import_a2l(str(copy), loglevel="WARNING", progress_bar=False)).module[0]
    found = {m.name: (m.compuMethod.unit, m.ecuAddress) for m in module.measurement.query()}
    result = simulate(wired(parts()), DT, DT, progress=False)
    assert set(result.columns) <= set(found)
    assert found["robot.q[2]"] == ("rad", addresses_in(text)["robot.q[2]"])
    tuned = {c.name: (c.compuMethod.unit, c.lowerLimit) for c in module.characteristic.query()}
    assert tuned["pd.kp[1]"] == ("N.m/rad", 0.0)
    assert f"XCP_ON_UDP_IP 0x0100 {address.split(':')[1]}" in str(module.if_data)


def test_pyxcp_measures_and_calibrates_an_fmu_while_fmpy_steps_it(made, monkeypatch):
    """All rows equal a run of `simulate` in which the gain changes at the same step."""
    path, text, address = made
    steps = threading.Thread(target=_stepped, args=(path,))
    rows = _recorded(address, addresses_in(text), steps, monkeypatch)
    assert_array_equal(np.diff(rows[:, 0]), 1e9 * DT)
    assert set(rows[:, -1]) == {1000.0, 2500.0}
    first = _step_of(rows[0, 1])
    began = (first + int(np.argmax(rows[:, -1] == 2500.0)) - 1) * DT
    scenario = {"time": [0.0, began], "pd.kp[1]": [1000.0, 2500.0]}
    last = first + len(rows) - 1
    result = simulate(wired(parts()), last * DT, DT, scenario=scenario, progress=False)
    for k, name in enumerate(NAMES[:-1], 1):
        expected = result.values[first:, list(result.columns).index(name)]
        assert_allclose(rows[:, k], expected, rtol=1e-9, atol=1e-9)  # FMPy sums the time


def _step_of(q):
    """Return the index of the step that ends at joint angle `q`; pyxcp hides the clock."""
    before = simulate(wired(parts()), STEPS * DT, DT, progress=False)
    return int(np.argmin(np.abs(before["robot.q"][:, 0] - q)))


def _stepped(path):
    """Run FMPy at a tenth of real time or slower."""

    def finished(time_now, recorder):  # noqa: ARG001
        time.sleep(1e-3)
        return True

    fmpy.simulate_fmu(str(path), stop_time=STEPS * DT, output_interval=DT, step_finished=finished)


def _configured(address, monkeypatch):
    """Return the connection settings of pyxcp."""
    config = pytest.importorskip("pyxcp.config")
    host, port = address.split(":")
    given = {"Transport": {"Eth": {"host": host, "port": int(port), "protocol": "UDP"}}}
    app = config.create_application_from_config(given, logging.WARNING)
    app.transport.layer = "ETH"
    monkeypatch.setattr(sys, "argv", ["pyxcp"])  # pyxcp reads the command line
    monkeypatch.setattr(config, "application", app)
    return app


def _recorded(address, places, steps, monkeypatch):
    """Record time [ns] and signals with pyxcp, and write the gain half-way."""
    app = _configured(address, monkeypatch)
    from pyxcp.daq_stim import DaqList, DaqOnlinePolicy
    from pyxcp.master import Master

    class Kept(DaqOnlinePolicy):
        def initialize(self):
            self.rows = []

        def on_daq_list(self, daq_list, t, stamp, payload):  # noqa: ARG002
            self.rows.append((stamp, *payload))

    signals = [(name, places[name], 0, "F64") for name in NAMES]
    kept = Kept([DaqList("all", 0, False, True, signals, 0, 1)])
    steps.start()
    time.sleep(0.3)  # until it listens
    with Master("ETH", config=app, policy=kept) as master:
        enlarge_receive_buffer(master.transport.sock)
        master.connect()
        assert master.identifier(1) == "arm"
        kept.setup()
        kept.start()
        while len(kept.rows) < STEPS // 4:
            time.sleep(0.01)
        master.setMta(places["pd.kp[1]"])
        master.download(struct.pack("<d", 2500.0))
        while len(kept.rows) < STEPS // 2:
            time.sleep(0.01)
        kept.stop()
        master.disconnect()
    steps.join()
    names = [head[0] for head in kept.daq_lists[0].headers]
    order = [0, *(1 + names.index(name) for name in NAMES)]
    return np.array(kept.rows)[:, order]
