"""UDP links of runs and generated programs: equal results, counted faults and safe values."""

import csv
import json
import socket
import subprocess
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from controlled_outside import QD, TAU, Q, controlled_by, pd
from planar2ctrl import parts
from rigidblocks import Port, SimulationError, System, build_runner, simulate
from rigidblocks.hil.links import UdpLink
from rigidblocks.hil.udp_packet import Packet, pack_packet
from udp_partner import free_ports, partner

DT = 1e-3


def linked(addresses, **options):
    """Return the robot with an external controller."""
    peer, listen = addresses
    link = UdpLink([Q, QD], [TAU], peer=peer, listen=listen, **options)
    return controlled_by(link), link


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Build programs in lock step and in real time, and return them with their addresses."""
    folder, made = tmp_path_factory.mktemp("runners"), {}
    for name, options in (
        ("lock", {"lock_step": True, "timeout": 20.0}),
        ("patient", {"timeout": 5.0}),
        ("free", {"timeout": 0.02, "safe": {"tau": [0.25, -0.5]}}),
    ):
        addresses = free_ports(2)
        system, _ = linked(addresses, **options)
        made[name] = build_runner(system, folder / name, DT), addresses
    return made


def run(program, *options):
    done = subprocess.run([program, *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def columns(path, *names):
    with open(path) as file:
        head, *rows = csv.reader(file)
    values = np.array(rows, float)
    return [values[:, head.index(name)] for name in names]


@pytest.mark.slow
def test_program_with_a_lock_step_udp_link_matches_the_results_of_simulate(programs, tmp_path):
    program, addresses = programs["lock"]
    record = tmp_path / "run.csv"
    with partner(addresses[0], 4, pd) as came:
        report = run(program, "--stop", "0.5", "--rate", "0", "--record", record)
    assert report["links"]["link"]["received"] == report["links"]["link"]["sent"] == 500
    assert [packet.sequence for packet in came] == list(range(1, 501))
    assert_allclose([packet.time for packet in came], np.arange(500) * DT, atol=1e-12)
    system, link = linked(free_ports(2), lock_step=True, timeout=20.0)
    with partner(link.addresses.peer, 4, pd):
        result = simulate(system, 0.5, DT, progress=False)
    link.close()
    assert link.counts["received"] == 501
    for name in ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "robot.qdd[2]"):
        (ours,) = columns(record, name)
        assert_array_equal(ours, result.values[:, list(result.columns).index(name)])
    assert_allclose(result["robot.q"][-1], [1.0, 1.5], atol=0.05)


def test_external_controller_in_lock_step_matches_simulate():
    """Both controllers have the same law."""
    system, link = linked(free_ports(2), lock_step=True, timeout=20.0)
    with partner(link.addresses.peer, 4, pd):
        outside = simulate(system, 0.2, DT, progress=False)
    link.close()
    inside = System()
    for name in ("robot", "pd"):
        inside.add(name, parts()[name], start={"q_ref": [1.0, 1.5]} if name == "pd" else None)
    wires = (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau"))
    for source, target in wires:
        inside.connect(source, target)
    expected = simulate(inside, 0.2, DT, progress=False)
    assert_allclose(outside["robot.q"], expected["robot.q"], atol=1e-12)


@pytest.mark.slow
def test_udp_link_without_a_partner_outputs_safe_values(programs, tmp_path):
    program, _ = programs["free"]
    record = tmp_path / "run.csv"
    report = run(program, "--stop", "0.1", "--record", record)
    link = report["links"]["link"]
    assert link["received"] == 0
    assert link["watchdog events"] == 1
    assert link["steps with safe values"] == 100
    assert report["ended"] == "at its end"
    system = System()
    system.add("robot", parts()["robot"], start={"tau": [0.25, -0.5]})
    expected = simulate(system, 0.1, DT, progress=False)
    assert_array_equal(columns(record, "robot.q[1]")[0], expected["robot.q"][:, 0])


@pytest.mark.slow
def test_udp_link_outputs_received_values_after_a_restart_of_the_controller(programs):
    program, (peer, _) = programs["free"]
    running = subprocess.Popen([program, "--stop", "3"], stdout=subprocess.PIPE, text=True)
    for _ in range(2):
        with partner(peer, 4, pd):
            time.sleep(0.8)
        time.sleep(0.4)
    report = json.loads(running.communicate(timeout=60)[0])
    link = report["links"]["link"]
    assert report["steps"] == 3000
    assert link["restarts of the partner"] == 1
    assert link["watchdog events"] >= 2
    assert 100 < link["steps with safe values"] < 2900
    assert link["received"] > 100


class Mischievous:
    """Partner that loses every 20th packet, repeats every 7th, and delays every 31st.

    The delay is three packets. The partner also sends invalid packets.
    """

    def __init__(self):
        self.lost = self.doubled = self.late = 0
        self.kept = []

    def __call__(self, packet, data):
        k = packet.sequence
        if k > 180:  # these packets reveal which packets were lost
            return [data]
        if k % 20 == 0:
            self.lost += 1
            return []
        if k % 31 == 0:
            self.kept.append((k + 3, data))
            self.late += 1
            return []
        due = [one for when, one in self.kept if when <= k]
        self.kept = [(when, one) for when, one in self.kept if when > k]
        if k % 7 == 0:
            self.doubled += 1
            return [data, data, *due]
        nan = data[:24] + np.array([np.nan, 0.0]).tobytes()
        other = data[:4] + b"\x02\x00" + data[6:]
        wrong = {50: [b"hello"], 51: [data[:-1]], 52: [nan], 53: [other], 54: [b""]}
        return [*wrong.get(k, []), data, *due]


@pytest.mark.slow
@pytest.mark.parametrize("side", ["program", "simulate"])
def test_lost_late_and_invalid_udp_packets_are_counted(side, programs):
    mischief = Mischievous()
    if side == "program":
        program, (peer, _) = programs["patient"]
        with partner(peer, 4, pd, mischief):
            counts = run(program, "--stop", "0.2", "--rate", "0.2")["links"]["link"]
    else:
        _, link = linked(free_ports(2), timeout=5.0)
        with partner(link.addresses.peer, 4, pd, mischief):
            for _ in range(200):  # one packet per step, as in real time
                link.function(t=time.monotonic(), q=np.zeros(2), qd=np.zeros(2))
                time.sleep(2e-3)
        link.close()
        counts = link.counts
    assert mischief.late > 0
    assert counts["lost"] == mischief.lost + mischief.late
    assert counts["late"] == mischief.late
    assert counts["doubled"] == mischief.doubled
    assert counts["foreign"] == 2
    assert counts["of another version"] == counts["of wrong size"] == counts["not finite"] == 1


@pytest.mark.slow
def test_random_udp_packets_do_not_change_the_link_outputs(programs):
    """Packets of random length and content, some with a valid header, arrive during the run."""
    program, (_, listen) = programs["free"]
    host, port = listen.split(":")
    running = subprocess.Popen([program, "--stop", "1"], stdout=subprocess.PIPE, text=True)
    rng, over = np.random.default_rng(1), threading.Event()

    def shout():
        good = pack_packet(Packet(7, 0, 0.0, (1.0, 2.0)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            while not over.is_set():
                data = bytearray(rng.bytes(int(rng.integers(0, 64))))
                kept = int(rng.integers(0, 8))
                data[:kept] = good[:kept]
                data[7:8] = b"\1" * len(data[7:8])  # upper byte of n: a valid n is rare
                own.sendto(bytes(data), (host, int(port)))

    thread = threading.Thread(target=shout)
    thread.start()
    report = json.loads(running.communicate(timeout=30)[0])
    over.set()
    thread.join()
    link = report["links"]["link"]
    assert report["steps"] == 1000
    assert link["received"] == 0
    assert link["foreign"] > 100
    assert link["steps with safe values"] == 1000


def test_invalid_udp_links_are_rejected():
    with pytest.raises(ValueError, match="peer must be an address such as"):
        UdpLink([Q], [TAU], peer="localhost")
    with pytest.raises(ValueError, match="timeout of a link must be positive"):
        UdpLink([Q], [TAU], timeout=0.0)
    with pytest.raises(
        ValueError,
        match=(
            "a safe value is given for the unknown port 'torque'; expected one of the "
            "received ports: tau"
        ),
    ):
        UdpLink([Q], [TAU], safe={"torque": 1.0})
    system, _ = linked(free_ports(2))
    with pytest.raises(ValueError, match="order='jacobi' delays link outputs"):
        build_runner(system, "never", DT, order="jacobi")
    system.connections.pop(0)
    with pytest.raises(ValueError, match=r"link\.q\[1\] is not connected"):
        build_runner(system, "never", DT)


def test_occupied_udp_port_is_reported_at_the_start_of_a_run():
    peer, listen = free_ports(2)
    system, link = linked((peer, listen))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(link.addresses.parse("listen"))
        with pytest.raises(SimulationError, match=f"cannot listen at {listen}: .*in use"):
            simulate(system, 1.0, DT)
    simulate(system, DT, DT)
    link.close()


def test_block_with_direct_feedthrough_from_a_link_output_to_a_link_input_is_rejected():
    system = System()
    system.add("robot", parts()["robot"])
    system.add("pd", parts()["pd"])
    peer, listen = free_ports(2)
    system.add("link", UdpLink([Q], [Port("q_ref", (2,), "rad")], peer=peer, listen=listen))
    for wire in (
        ("robot.q", "link.q"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("link.q_ref", "pd.q_ref"),
        ("pd.tau", "robot.tau"),
    ):
        system.connect(*wire)
    with pytest.raises(ValueError, match=r"pd\.q_ref reads link\.q_ref without delay"):
        build_runner(system, "never", DT)
