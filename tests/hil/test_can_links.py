"""CAN links of runs and generated programs: DBC frames, counted faults and safe values."""

import csv
import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from can_partner import DBC, PASSED, Partner, bus, crc8, interfaces
from planar2ctrl import parts
from rigidblocks import SimulationError, System, build_runner, simulate
from rigidblocks.hil.can_link import CanLink

pytestmark = [pytest.mark.interop, pytest.mark.slow]
DT = 1e-3
WIRES = (
    *((f"robot.q[{k}]", f"link.Motion.q{k}") for k in (1, 2)),
    *((f"robot.qd[{k}]", f"link.Motion.qd{k}") for k in (1, 2)),
    ("robot.qdd[1]", "link.Health.load"),
    *((f"link.Command.tau{k}", f"robot.tau[{k}]") for k in (1, 2)),
)
FREEDOMS = ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "robot.qdd[2]")


@pytest.fixture(scope="module")
def dbc(tmp_path_factory):
    path = tmp_path_factory.mktemp("can") / "arm.dbc"
    path.write_text(DBC)
    return path


def link_to(interface, dbc, **options):
    checks = {"counter": "alive", "checksum": "crc"}
    return CanLink(interface, dbc, ["Motion", "Health"], ["Command"], **checks, **options)


def linked(interface, dbc, **options):
    """Return the robot with its controller on the bus."""
    system, link = System(), link_to(interface, dbc, **options)
    system.add("robot", parts()["robot"])
    system.add("link", link)
    for source, target in WIRES:
        if source != "robot.qdd[1]":
            system.connect(source, target)
    system.parts["link"].start["Health.load"] = 1.5
    return system, link


def pd(values):
    """Return PD torques for the reference angles 1 rad and 1.5 rad."""
    pairs = zip((1.0, 1.5), (1, 2), strict=True)
    return [1000 * (r - values[f"q{k}"]) - 15 * math.radians(values[f"qd{k}"]) for r, k in pairs]


def run(program, *options):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=True, **PASSED)
    return json.loads(done.stdout.removeprefix("ready\n"))["links"]["link"]


@pytest.mark.parametrize("kind", interfaces())
def test_program_with_a_lock_step_can_bus_link_matches_the_results_of_simulate(kind, dbc, tmp_path):
    record, steps = tmp_path / "run.csv", 500
    with bus(kind) as (interface, other):
        system, link = linked(interface, dbc, lock_step=True, timeout=5.0)
        program = build_runner(system, tmp_path / "plant", DT)
        partner = Partner(dbc, other, pd)
        with partner.answer_in_thread():
            counts = run(program, "--stop", "0.5", "--rate", "0", "--record", record)
        assert counts["received"] == len(partner.came["Motion"]) == steps
        assert counts["steps with safe values"] == counts["unsent"] == counts["beyond bounds"] == 0
        assert_health(partner.came["Health"], steps * DT)
        partner = Partner(dbc, other, pd)
        with partner.answer_in_thread():
            result = simulate(system, steps * DT, DT, progress=False)
        link.close()
    assert link.counts["received"] == steps + 1
    with open(record) as file:
        head, *rows = csv.reader(file)
    values = np.array(rows, float)
    for name in FREEDOMS:
        expected = result.values[:, list(result.columns).index(name)]
        assert_array_equal(values[:, head.index(name)], expected)
    assert_allclose(result["robot.q"][-1], [1.0, 1.5], atol=0.05)


def assert_health(came, seconds):
    """Check the message Health: a CAN FD frame every 20 ms with counter, checksum, start values."""
    assert len(came) == round(seconds / 0.02)
    for k, (values, data, frame) in enumerate(came):
        assert frame.is_fd
        assert frame.bitrate_switch
        assert (values["load"], values["mode"], values["alive"]) == (1.5, 5, k)
        assert (len(data), values["crc"]) == (12, crc8(data[:11]))


class Mischievous:
    """Partner whose answers to steps 10 to 19 have faults."""

    def __call__(self, k, message):
        data, other = message.data, type(message)
        if k == 11:  # changed first byte
            return [_changed(message, bytes([data[0] ^ 1]) + data[1:])]
        if k == 12:
            return [_changed(message, data[:5])]
        if k == 14:  # torque above 4000 N.m
            wild = bytearray(data)
            wild[0] = 0x7F
            wild[6] = crc8(wild[:6])
            return [_changed(message, wild)]
        if k == 16:
            return [message, message]
        if k == 18:
            return [other(arbitration_id=0x123, is_extended_id=False, data=b"abc"), message]
        return [message]


def _changed(message, data):
    return type(message)(
        arbitration_id=message.arbitration_id, is_extended_id=message.is_extended_id, data=data
    )


EXPECTED = {
    "of wrong checksum": 1,
    "of wrong size": 1,
    "beyond bounds": 1,
    "doubled": 1,
    "foreign": 1,
    "lost": 3,
    "watchdog events": 0,
}


@pytest.mark.parametrize("side", ["program", "simulate"])
def test_faulty_can_bus_frames_are_counted_and_ignored(side, dbc, tmp_path):
    """The link takes single steps; the partner answers each step before the next one."""
    with bus("pair") as (interface, other):
        partner = Partner(dbc, other, lambda values: [values["q1"], 1.0], Mischievous())
        if side == "program":
            system, _ = linked(interface, dbc, timeout=5.0)
            program = build_runner(system, tmp_path / "plant", DT)
            with partner.answer_in_thread():
                counts = run(program, "--stop", "0.03", "--rate", "0.02")
        else:
            link = link_to(interface, dbc, timeout=5.0)
            for k in range(30):
                stepped(link, k * DT)
                while partner.answer():
                    pass
            stepped(link, 30 * DT)
            link.close()
            counts = link.counts
            assert counts["steps with safe values"] == 1
    assert {name: counts[name] for name in EXPECTED} == EXPECTED
    assert counts["steps with safe values"] <= 1  # the first answer arrives after the first step


def stepped(link, t, **values):
    given = dict.fromkeys((port.name for port in link.inputs), 0.0) | values
    return list(link.function(t=t, **given).values())


def test_can_bus_link_outputs_safe_values_while_its_partner_is_silent(dbc):
    safe = {"Command.tau1": 0.25}
    with bus("pair") as (interface, other):
        link, partner = link_to(interface, dbc, timeout=0.1, safe=safe), Partner(dbc, other, pd)
        assert stepped(link, 0.0) == [0.25, 0.0]
        other.send(partner.command([100.0, -7.25], 3))
        assert stepped(link, 1.0) == [100.0, -7.25]
        time.sleep(0.11)
        assert stepped(link, 2.0) == [0.25, 0.0]
        assert stepped(link, 3.0) == [0.25, 0.0]
        other.send(partner.command([1.0, 2.0], 3))  # with the previous counter value
        assert stepped(link, 4.0) == [1.0, 2.0]
        link.close()
    assert link.counts["watchdog events"] == 1
    assert link.counts["steps with safe values"] == 3
    assert link.counts["lost"] == link.counts["doubled"] == 0


def test_generated_program_continues_with_safe_values_without_a_can_bus_partner(dbc, tmp_path):
    with bus("pair") as (interface, _):
        system, _ = linked(interface, dbc, timeout=0.02, safe={"Command.tau2": -0.5})
        program = build_runner(system, tmp_path / "plant", DT)
        record = tmp_path / "run.csv"
        counts = run(program, "--stop", "0.1", "--record", record)
    assert counts["received"] == 0
    assert (counts["watchdog events"], counts["steps with safe values"]) == (1, 100)
    separate = System()
    separate.add("robot", parts()["robot"], start={"tau": [0.0, -0.5]})
    expected = simulate(separate, 0.1, DT, progress=False)
    with open(record) as file:
        head, *rows = csv.reader(file)
    column = head.index("robot.q[2]")
    assert_array_equal([float(row[column]) for row in rows], expected["robot.q"][:, 1])


def test_can_bus_signals_outside_their_bounds_are_clamped_before_sending(dbc):
    with bus("pair") as (interface, other):
        link, partner = link_to(interface, dbc), Partner(dbc, other, lambda _: [0.0, 0.0])
        wild = {"Motion.q1": 7.0, "Motion.q2": -1e300, "Motion.qd1": math.radians(30.0)}
        stepped(link, 0.0, **wild)
        while partner.answer():
            pass
        link.close()
    values = partner.came["Motion"][0][0]
    assert (values["q1"], values["q2"]) == (6.0, -6.0)
    assert_allclose(values["qd1"], 30.0, rtol=1e-12)
    assert link.counts["beyond bounds"] == 2


def test_signals_of_a_can_database_become_ports_in_si_units(dbc):
    link = link_to("can0", dbc)
    ports = {port.name: port for port in (*link.inputs, *link.outputs)}
    units = {name: port.unit for name, port in ports.items()}
    assert units == {
        **dict.fromkeys(("Motion.q1", "Motion.q2"), "rad"),
        **dict.fromkeys(("Motion.qd1", "Motion.qd2"), "rad/s"),
        **dict.fromkeys(("Health.load", "Command.tau1", "Command.tau2"), "N.m"),
        "Health.mode": "",
    }
    assert_allclose(ports["Motion.qd1"].max, math.radians(6000.0), rtol=1e-12)
    assert (ports["Health.mode"].start, ports["Health.mode"].doc) == (5.0, "what it does")
    assert float(ports["Command.tau1"].min) == -4000.0
    assert link.timeout == 0.01


def test_invalid_can_bus_links_are_rejected(dbc, monkeypatch):
    with pytest.raises(ValueError, match="message 'Mixed' is multiplexed"):
        CanLink("can0", dbc, [], ["Mixed"])
    with pytest.raises(ValueError, match=r"unknown message 'Comand' .* \(did you mean Command\?\)"):
        CanLink("can0", dbc, [], ["Comand"])
    with pytest.raises(ValueError, match="'Command' occurs twice"):
        CanLink("can0", dbc, ["Command"], ["Command"])
    with pytest.raises(ValueError, match="expected a name such as can0"):
        CanLink("can 0", dbc, [], ["Command"])
    with pytest.raises(
        ValueError, match=r"Motion\.q1 is the counter and must be an unsigned integer"
    ):
        CanLink("can0", dbc, ["Motion"], ["Command"], counter="q1")
    with pytest.raises(
        ValueError, match=r"alive is the checksum .* and must occupy exactly one byte"
    ):
        CanLink("can0", dbc, [], ["Command"], checksum="alive")
    with pytest.raises(ValueError, match="must receive one or more signals"):
        CanLink("can0", dbc, ["Motion"], [])
    system, _ = linked("nocan7", dbc)
    with pytest.raises(SimulationError, match="cannot open the CAN interface nocan7"):
        simulate(system, DT, DT, progress=False)
    monkeypatch.setitem(sys.modules, "cantools", None)
    with pytest.raises(ImportError, match=r"reading a DBC needs cantools: pip install cantools$"):
        CanLink("can0", dbc, [], ["Command"])


def test_generated_program_reports_a_missing_can_bus_interface(dbc, tmp_path):
    system, _ = linked("nocan7", dbc)
    program = build_runner(system, tmp_path / "plant", DT)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "link 'link' cannot open the CAN interface nocan7" in done.stderr
