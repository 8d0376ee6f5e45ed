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
    return json.loads(done.stdout.removeprefix("ready\n"))


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
    report = json.loads(running.communicate(timeout=60)[0].removeprefix("ready\n"))
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
    report = json.loads(running.communicate(timeout=30)[0].removeprefix("ready\n"))
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


def test_direct_feedthrough_from_an_output_to_an_input_of_a_communication_link_is_rejected():
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


def stepped(link, t):
    """Call the link at time t and return the torque."""
    return link.function(t=t, q=np.zeros(2), qd=np.zeros(2))["tau"]


@pytest.mark.parametrize("lost", ["hold", "safe"])
def test_received_values_are_held_or_replaced_after_a_missed_answer_in_lock_step(lost):
    peer, listen = free_ports(2)
    safe = {"tau": [0.25, -0.5]}
    options = {"lock_step": True, "timeout": 0.01, "lost": lost, "safe": safe}
    link = UdpLink([Q, QD], [TAU], peer=peer, listen=listen, **options)
    assert_array_equal(stepped(link, 0.0), safe["tau"])  # before the first answer
    reply = pack_packet(Packet(1, 2, 0.1, (1.0, 2.0)))  # the answer to the next packet
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.sendto(reply, link.addresses.parse("listen"))
    assert_array_equal(stepped(link, 0.1), [1.0, 2.0])
    assert_array_equal(stepped(link, 0.2), [1.0, 2.0] if lost == "hold" else safe["tau"])
    link.close()
    assert link.counts["watchdog events"] == 2


def test_answer_to_an_earlier_packet_counts_as_late_in_lock_step():
    peer, listen = free_ports(2)
    options = {"lock_step": True, "timeout": 0.01, "lost": "hold"}
    link = UdpLink([Q, QD], [TAU], peer=peer, listen=listen, **options)
    stepped(link, 0.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        for number, echo in ((1, 1), (2, 2)):
            reply = pack_packet(Packet(number, echo, 0.0, (float(echo), 0.0)))
            own.sendto(reply, link.addresses.parse("listen"))
    assert_array_equal(stepped(link, 0.1), [2.0, 0.0])
    link.close()
    assert (link.counts["late"], link.counts["received"]) == (1, 2)


def test_missed_answer_in_lock_step_ends_a_run(capsys):
    """The partner receives packets but does not answer."""
    peer, listen = free_ports(2)
    system, link = linked((peer, listen), lock_step=True, start_timeout=1.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(link.addresses.parse("peer"))
        with pytest.raises(SimulationError, match=f"no answer from {peer} within 1.1 s at t = 0 s"):
            simulate(system, 1.0, DT, progress=False)
    link.close()
    assert f"UdpLink is waiting for {peer}\n" in capsys.readouterr().err


@pytest.fixture(scope="module")
def strict_program(tmp_path_factory):
    """Build a program in lock-step that waits 1.1 s for an answer."""
    addresses = free_ports(2)
    system, _ = linked(addresses, lock_step=True, timeout=1.1, start_timeout=60.0)
    return build_runner(system, tmp_path_factory.mktemp("strict") / "plant", DT), addresses


@pytest.mark.slow
def test_missed_answer_in_lock_step_ends_a_program_with_exit_code_1(strict_program):
    """The partner answers three packets and then is silent."""
    program, (peer, _) = strict_program
    with partner(peer, 4, pd, lambda packet, data: [data] if packet.sequence < 4 else []):
        done = subprocess.run([program, "--rate", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    ready, _, report = done.stdout.partition("\n")
    assert ready == "ready"
    counts = json.loads(report)
    assert counts["ended"] == "a partner has not answered"
    assert counts["steps"] <= 3
    assert f"link 'link' is waiting for {peer}\n" in done.stderr
    assert f"received no answer from {peer} within 1.1 s at t = " in done.stderr


@pytest.mark.slow
def test_program_in_lock_step_waits_for_a_partner_that_starts_later(programs):
    """A network rejects packets to a closed port; the program sends them again."""
    program, (peer, _) = programs["lock"]
    command = [program, "--stop", "0.05", "--rate", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with partner(peer, 4, pd) as came:
            report = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    assert report["links"]["link"]["sent"] == 50
    assert sorted({packet.sequence for packet in came}) == list(range(1, 51))


@pytest.mark.slow
def test_program_in_lock_step_ends_on_a_termination_signal_while_it_waits_for_a_partner(programs):
    program, _ = programs["lock"]
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        report = json.loads(process.communicate(timeout=60)[0])
    assert (process.returncode, report["ended"], report["steps"]) == (0, "by a signal", 0)


def test_build_writes_the_packet_module_next_to_the_program(programs, tmp_path):
    program, _ = programs["free"]
    text = program.with_name("packet.py").read_text()
    names = {}
    exec(text, names)
    assert names["HEADER_SIZE"] == len(pack_packet(Packet(1, 0, 0.0, ())))
    (tmp_path / "packet.py").write_text("mine = 1\n")
    system, _ = linked(free_ports(2))
    with pytest.raises(FileExistsError, match="build the program in another folder"):
        build_runner(system, tmp_path / "plant", DT)
    assert (tmp_path / "packet.py").read_text() == "mine = 1\n"


def test_invalid_link_option_for_missed_answers_is_rejected():
    with pytest.raises(ValueError, match="lost must be 'end', 'hold' or 'safe', not 'wait'"):
        UdpLink([Q], [TAU], lock_step=True, lost="wait")
    with pytest.raises(ValueError, match="lost='hold' needs lock_step=True"):
        UdpLink([Q], [TAU], lost="hold")
    with pytest.raises(ValueError, match="start_timeout of a link must be positive, not 0 s"):
        UdpLink([Q], [TAU], lock_step=True, start_timeout=0)
