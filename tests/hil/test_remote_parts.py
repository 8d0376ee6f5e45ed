"""FMUs that a server runs: the numbers of a local run to the last bit; what goes wrong ends the run
with the part, the server and the time, and nothing that a client sends ends the server.
"""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from foreign_fmu import foreign_fmu
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import SimulationError, System, export_fmu, simulate
from rigidblocks.bench.server import serve_fmus
from rigidblocks.system.fmu import FmuError
from rigidblocks.system.messages import CALLS, MAGIC, VERSION, Channel, packed

KEY = b"0123456789abcdef"
GAIN = "i->r[1] = 2.0 * i->r[0] + t;"


def key_file(path, key=KEY):
    path.write_bytes(key)
    path.chmod(0o600)
    return path


@contextlib.contextmanager
def served(folder, key):
    """A server of the folder, with its address."""
    command = [sys.executable, "-m", "rigidblocks", "serve", folder, "--key-file", key]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A folder with FMUs of C, the file of the key, the process and its address."""
    folder = tmp_path_factory.mktemp("served")
    key = key_file(folder / "key")
    foreign_fmu(folder / "gain.fmu", step=GAIN)
    (folder.parent / "outside.fmu").write_text("not for clients")
    with served(folder, key) as (process, address):
        yield folder, key, process, address
        assert process.poll() is None  # whatever its clients did


def remote(server, file, **options):
    """A system of one remote part."""
    _, key, _, address = server
    system = System()
    system.add("part", f"tcp://{address}/{file}", key_file=key, **options)
    return system


def host_of(address):
    host, port = address.split(":")
    return host, int(port)


@contextlib.contextmanager
def client(server, key=KEY):
    """A socket to the server on which the handshake is done."""
    with socket.create_connection(host_of(server[3])) as link:
        link.settimeout(None)
        with Connection(os.dup(link.fileno())) as connection:
            answer_challenge(connection, key)
            deliver_challenge(connection, key)
        yield link


def lives(server):
    simulate(remote(server, "gain.fmu"), 0.02, 0.01)


def test_a_remote_part_gives_the_numbers_of_a_local_one(server):
    local = System()
    local.add("part", server[0] / "gain.fmu")
    assert_array_equal(
        simulate(remote(server, "gain.fmu"), 0.1, 0.01).values, simulate(local, 0.1, 0.01).values
    )


@pytest.fixture(scope="module")
def planar(tmp_path_factory):
    """The demo's robot and controller as FMUs below a server."""
    folder = tmp_path_factory.mktemp("planar")
    for name in ("robot", "pd"):
        export_fmu(parts()[name], folder / f"{name}.fmu")
    key = key_file(folder / "key")
    with served(folder, key) as (process, address):
        yield folder, key, process, address


def system_of(planar, where):
    folder, key, _, address = planar
    system, components = System(), parts()
    for name, block in components.items():
        is_fmu = name != "command"
        given = {"remote": f"tcp://{address}/{name}.fmu"}.get(where, folder / f"{name}.fmu")
        options = {"remote": {"key_file": key}, "isolated": {"isolated": True}}.get(where, {})
        system.add(name, given if is_fmu else block, **(options if is_fmu else {}))
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "options"),
    [
        ("remote", {"order": "jacobi"}),
        ("remote", {"events": ["pd.tau[1]"]}),
        ("remote", {"iterate": True}),
        ("remote", {"step_tol": 0.1}),
        ("isolated", {"events": ["robot.qdd[2]"], "order": "jacobi"}),
    ],
)
def test_orders_events_and_repeated_steps_are_those_at_home(planar, where, options):
    here, there = (
        simulate(system_of(planar, one), 0.2, 2e-3, progress=False, **options)
        for one in ("local", where)
    )
    assert_array_equal(there.time, here.time)
    assert_array_equal(there.values, here.values)
    assert ("events" not in options) or len(here.events)


def test_steps_of_jacobi_go_out_before_the_first_answer_is_awaited(server, monkeypatch):
    said, repeat, receive = [], Channel.repeat, Channel.receive

    def noted(self, message):
        said.append(message.message.call)
        repeat(self, message)

    def awaited(self, *expected):
        said.append("await")
        return receive(self, *expected)

    monkeypatch.setattr(Channel, "repeat", noted)
    monkeypatch.setattr(Channel, "receive", awaited)
    system = remote(server, "gain.fmu")
    system.add("other", f"tcp://{server[3]}/gain.fmu", key_file=server[1])
    simulate(system, 0.02, 0.01, order="jacobi")
    turns = [said[k : k + 4] for k, call in enumerate(said) if call == "step"]
    assert turns[::2] == [["step", "step", "await", "await"]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.013, 0.2])
def test_a_server_that_is_killed_ends_the_run_with_its_result(tmp_path, moment):
    key = key_file(tmp_path / "key")
    foreign_fmu(tmp_path / "slow.fmu", step="usleep(1000);")
    with served(tmp_path, key) as (process, address):
        system = System()
        system.add("robot", f"tcp://{address}/slow.fmu", key_file=key)
        begun = threading.Timer(0.1 + moment, process.send_signal, [signal.SIGKILL])
        begun.start()
        where = rf"'robot' \(tcp://{address}/slow.fmu\): '\w+' at t = [\d.]+ s lost its server"
        with pytest.raises((SimulationError, FmuError), match=where) as caught:
            simulate(system, 600.0, 0.01)
        begun.join()
    if isinstance(caught.value, SimulationError):
        time = caught.value.result.time
        assert_array_equal(time, np.arange(len(time)) * 0.01)


@pytest.mark.slow
def test_what_an_fmu_does_to_its_process_is_told(server):
    foreign_fmu(server[0] / "hangs.fmu", step="if (i->steps == 5) for (;;) sleep(1);")
    foreign_fmu(server[0] / "crashes.fmu", step="if (i->steps == 5) abort();")
    with pytest.raises(SimulationError, match=r"'part' \(tcp:.*'step' at t = 0.04 s took longer"):
        simulate(remote(server, "hangs.fmu", time_limit=0.5), 0.1, 0.01)
    with pytest.raises(SimulationError, match=r"'step' at t = 0.04 s lost its server") as caught:
        simulate(remote(server, "crashes.fmu"), 0.1, 0.01)
    assert len(caught.value.result.time) == 5
    lives(server)


@pytest.mark.parametrize(
    "file",
    [
        "../outside.fmu",
        "%2e%2e/outside.fmu",
        "/etc/passwd",
        "key",
        "a%00.fmu",
        "no.fmu",
        "x" * 5000,
    ],
)
def test_files_beyond_the_folder_are_refused(server, file):
    with pytest.raises(FmuError, match=r"refuses: there is no FMU '.*' below the folder that is"):
        remote(server, file)


def test_a_link_out_of_the_folder_is_no_way_out(server):
    link = server[0] / "link.fmu"
    link.symlink_to(server[0].parent / "outside.fmu")
    with pytest.raises(FmuError, match=r"there is no FMU 'link.fmu' below"):
        remote(server, "link.fmu")


def test_the_keys_must_be_the_same(server, tmp_path, monkeypatch):
    other = key_file(tmp_path / "other", b"another key of 16 bytes")
    system = System()
    address = f"tcp://{server[3]}/gain.fmu"
    for options in ({"key_file": other}, {}):
        with pytest.raises(FmuError, match=r"gain.fmu': the server refuses: the key differs"):
            system.add("part", address, **options)
    monkeypatch.setenv("RIGIDBLOCKS_KEY_FILE", str(server[1]))
    system.add("part", address)
    simulate(system, 0.02, 0.01)


@pytest.mark.parametrize(
    ("key", "mode", "message"),
    [
        (None, 0o600, "there is no key in .*make one"),
        (KEY, 0o644, "others can read the key in .*chmod 600"),
        (b"short", 0o600, "has 5 bytes; it needs 16 or more"),
    ],
)
def test_a_key_is_long_and_its_own(tmp_path, key, mode, message):
    path = tmp_path / "key"
    if key is not None:
        path.write_bytes(key)
        path.chmod(mode)
    with pytest.raises(ValueError, match=message):
        System().add("part", "tcp://127.0.0.1:5555/a.fmu", key_file=path)
    with pytest.raises(ValueError, match=message):
        serve_fmus(tmp_path, key_file=path)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"listen": "0.0.0.0:0"}, ValueError, "beyond loopback: give --key-file"),
        ({"listen": "127.0.0.1"}, ValueError, "listens at an address such as"),
        ({"listen": "robot:5555"}, ValueError, "listens at an address such as"),
        ({"folder": "nowhere"}, FileNotFoundError, "there is no folder nowhere"),
    ],
)
def test_a_server_that_cannot_be_says_why(tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        serve_fmus(**{"folder": tmp_path, **given})


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1/a.fmu", "a remote FMU is tcp://host:5555/robot.fmu, not"),
        ("tcp://127.0.0.1:99999/a.fmu", "a remote FMU is"),
        ("tcp://127.0.0.1:5555", "a remote FMU is"),
        ("tcp://127.0.0.1:1/a.fmu", "a.fmu': the server cannot be reached"),
    ],
)
def test_an_address_without_a_server_is_told(address, message):
    with pytest.raises((ValueError, FmuError), match=message):
        System().add("part", address)


def test_remote_parts_are_not_isolated_nor_files_remote(server):
    with pytest.raises(ValueError, match="runs in a process of its server; leave isolated out"):
        remote(server, "gain.fmu", isolated=True)
    with pytest.raises(ValueError, match="a key is for the server of a remote FMU"):
        System().add("part", server[0] / "gain.fmu", key_file=server[1])


@pytest.mark.slow
def test_an_fmu_that_has_changed_meanwhile_is_refused(server):
    foreign_fmu(server[0] / "changes.fmu", step=GAIN)
    system = remote(server, "changes.fmu")
    foreign_fmu(server[0] / "changes.fmu", step="i->r[1] = 0;")
    with pytest.raises(FmuError, match=r"'instantiate' .*the file has changed since the part was"):
        simulate(system, 0.02, 0.01)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<4sHHII", MAGIC, VERSION + 1, 2, 0, 0), "is of version 2; this side has 1"),
        (struct.pack("<4sHHII", MAGIC, VERSION, 2, 1 << 28, 0), r"2,147,483,648 bytes is too long"),
        (struct.pack("<4sHHII", MAGIC, VERSION, 999, 0, 0), "there is no call 999"),
        (b"GET / HTTP/1.1\r\n\r\n", "this is no message of rigidblocks"),
        (packed("step", (np.zeros(3),)), "'step' needs an instance"),
        (packed("describe", ()), "names no file"),
        (packed("start", (), {"x": 1})[:-1] + b"?", "no object of JSON"),
    ],
)
def test_a_message_that_is_wrong_is_answered_in_words(server, data, message):
    with client(server) as link:
        link.sendall(data)
        answer = Channel(link).receive()
    assert answer.call == "error"
    assert message in answer.text["error"]


@pytest.mark.parametrize("n", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_noise_ends_no_server(server, n):
    """Before and after the handshake: random bytes, and good messages with random bytes in them."""
    rng = random.Random(n)
    good = [packed(call, (np.array([0.0, rng.random()]),), {"file": "gain.fmu"}) for call in CALLS]
    for k in range(n // 10):
        with contextlib.suppress(OSError), socket.create_connection(host_of(server[3])) as link:
            link.sendall(rng.randbytes(rng.randrange(200)))
        with contextlib.suppress(OSError), client(server) as link:
            for _ in range(10):
                noise = bytearray(rng.choice(good))
                for _ in range(k % 4):
                    noise[rng.randrange(len(noise))] = rng.randrange(256)
                link.sendall(noise)
    lives(server)
