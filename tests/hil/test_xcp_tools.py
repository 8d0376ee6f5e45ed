"""Foreign tools measure and calibrate a program: pyxcp by XCP, and pya2ldb by its A2L file."""

import logging
import struct
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import build_runner, simulate
from udp_partner import free_ports
from xcp_master import addresses_in, enlarge_receive_buffer

pytestmark = [pytest.mark.interop, pytest.mark.slow]
DT = 1e-3
SECONDS = 10


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    (address,) = free_ports(1)
    path = tmp_path_factory.mktemp("xcp") / "arm"
    build_runner(wired(parts()), path, DT, xcp=address)
    return path, address


@pytest.fixture(scope="module")
def by_pyxcp(program):
    """Return the signals that pyxcp records while kp changes, and their names."""
    config = pytest.importorskip("pyxcp.config")
    path, address = program
    places = addresses_in(path.with_suffix(".a2l").read_text())
    names = [name for name in places if not name.startswith(("command.table", "robot.gravity"))]
    app = _application(config, address)
    signals = [(name, places[name], 0, "F64") for name in names]
    with pytest.MonkeyPatch.context() as patch, _started(path):
        patch.setattr(sys, "argv", ["pyxcp"])  # pyxcp reads the command line of this process
        patch.setattr(config, "application", app)
        return _recording(app, signals, places["pd.kp[1]"])


@contextmanager
def _started(path):
    with subprocess.Popen([path], stdout=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        yield
        process.terminate()


def _application(config, address):
    host, port = address.split(":")
    given = {"Transport": {"Eth": {"host": host, "port": int(port), "protocol": "UDP"}}}
    app = config.create_application_from_config(given, logging.WARNING)
    app.transport.layer = "ETH"
    return app


def _recording(app, signals, kp):
    """Return a row per step and the names in packet order; kp changes halfway."""
    from pyxcp.daq_stim import DaqList, DaqOnlinePolicy
    from pyxcp.master import Master

    class Kept(DaqOnlinePolicy):
        def initialize(self):
            self.rows = []

        def on_daq_list(self, daq_list, t, stamp, payload):  # noqa: ARG002
            self.rows.append((stamp, *payload))

    kept = Kept([DaqList("all", 0, False, True, signals, 0, 1)])
    with Master("ETH", config=app, policy=kept) as master:
        enlarge_receive_buffer(master.transport.sock)
        master.connect()
        assert master.identifier(1) == "arm"
        kept.setup()
        kept.start()
        time.sleep(SECONDS / 2)
        master.setMta(kp)
        master.download(struct.pack("<d", 2500.0))
        while len(kept.rows) < SECONDS / DT:
            time.sleep(0.1)
        kept.stop()
        master.disconnect()
    return np.array(kept.rows), [head[0] for head in kept.daq_lists[0].headers]


def test_pyxcp_measures_every_step_of_a_program_for_ten_seconds(by_pyxcp):
    rows, _ = by_pyxcp
    assert len(rows) >= SECONDS / DT
    assert_array_equal(np.diff(rows[:, 0]), 1e9 * DT)


def test_values_written_by_pyxcp_take_effect_in_the_next_step(by_pyxcp):
    rows, names = by_pyxcp
    signal = {name: rows[:, k] for k, name in enumerate(names, 1)}
    assert_array_equal(np.unique(signal["pd.kp[1]"]), [1000.0, 2500.0])
    first = int(np.argmax(signal["pd.kp[1]"] == 2500.0))
    origin = _step_of(signal, first)
    scenario = {"time": [0.0, (origin - 1) * DT], "pd.kp[1]": [1000.0, 2500.0]}
    last = origin + len(rows) - first - 1
    result = simulate(wired(parts()), last * DT, DT, scenario=scenario, progress=False)
    for name in ("robot.q[1]", "robot.qd[2]", "pd.tau[1]"):
        expected = result.values[:, list(result.columns).index(name)]
        assert_array_equal(signal[name], expected[last + 1 - len(rows) :])


def _step_of(signal, k):
    """Return the step index of row k from a known run, because pyxcp does not report the time."""
    before = simulate(wired(parts()), 30.0, DT, progress=False)
    expected = before.values[:, list(before.columns).index("robot.q[1]")]
    (found,) = np.flatnonzero(expected == signal["robot.q[1]"][0])
    return int(found) + k


def test_pya2ldb_reads_units_and_addresses_from_the_a2l_of_a_program(program, tmp_path):
    pya2l = pytest.importorskip("pya2l")
    from pya2l.api.inspect import Project

    path, address = program
    copy = tmp_path / "arm.a2l"
    copy.write_text(path.with_suffix(".a2l").read_text())
    session = pya2l.import_a2l(str(copy), loglevel="WARNING", progress_bar=False)
    module = Project(session).module[0]
    found = {m.name: (m.compuMethod.unit, m.ecuAddress) for m in module.measurement.query()}
    result = simulate(wired(parts()), DT, DT, progress=False)
    assert set(found) == set(result.columns)
    places = addresses_in(copy.read_text())
    assert found["robot.q[2]"] == ("rad", places["robot.q[2]"])
    assert found["pd.tau[1]"][0] == "N.m"
    tuned = {c.name: (c.compuMethod.unit, c.lowerLimit) for c in module.characteristic.query()}
    assert tuned["pd.kp[1]"] == ("N.m/rad", 0.0)
    assert tuned["robot.gravity[3]"][0] == "m/s2"
    assert f"XCP_ON_UDP_IP 0x0100 {address.split(':')[1]}" in str(module.if_data)
