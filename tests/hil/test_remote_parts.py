"""FMUs on a server: results equal local FMUs bit for bit, and errors name part, server and time."""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from foreign_fmu import foreign_fmu
from linear_networks import FMUS, KINDS, random_network
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import SimulationError, System, export_fmu, simulate
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.cosim.graph.ipc_messages import CALLS, MAGIC, VERSION, Channel, pack_message
from rigidblocks.hil.fmu_server import MOST_CLIENTS, serve_fmus

KEY = b"0123456789abcdef"
GAIN = "i->r[1] = 2.0 * i->r[0] + t;"


def key_file(path, key=KEY):
    path.write_bytes(key)
    path.chmod(0o600)
    return path


@contextlib.contextmanager
def served(folder, key):
    """Start a server of the folder and yield its process and address."""
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
    """Yield a folder with FMUs in C, the key file, the server process and its address."""
    folder = tmp_path_factory.mktemp("served")
    key = key_file(folder / "key")
    foreign_fmu(folder / "gain.fmu", step=GAIN)
    (folder.parent / "outside.fmu").write_text("not for clients")
    with served(folder, key) as (process, address):
        yield folder, key, process, address
        assert process.poll() is None  # no client ended the server


def remote(server, file, **options):
    """Return a system with one remote part."""
    _, key, _, address = server
    system = System()
    system.add("part", f"tcp://{address}/{file}", key_file=key, **options)
    return system


def host_of(address):
    host, port = address.split(":")
    return host, int(port)


@contextlib.contextmanager
def client(server, key=KEY):
    """Yield a socket to the server after the handshake."""
    with socket.create_connection(host_of(server[3])) as link:
        link.settimeout(None)
        with Connection(os.dup(link.fileno())) as connection:
            answer_challenge(connection, key)
            deliver_challenge(connection, key)
        yield link


def lives(server):
    simulate(remote(server, "gain.fmu"), 0.02, 0.01)


@pytest.mark.slow
def test_results_of_a_remote_and_of_a_local_fmu_are_bitwise_equal(server):
    local = System()
    local.add("part", server[0] / "gain.fmu")
    assert_array_equal(
        simulate(remote(server, "gain.fmu"), 0.1, 0.01).values, simulate(local, 0.1, 0.01).values
    )


@pytest.fixture(scope="module")
def planar(tmp_path_factory):
    """Yield a server of the FMUs of the demo's robot and controller."""
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
def test_results_of_runs_with_remote_isolated_and_local_fmus_are_equal(planar, where, options):
    here, there = (
        simulate(system_of(planar, one), 0.2, 2e-3, progress=False, **options)
        for one in ("local", where)
    )
    assert_array_equal(there.time, here.time)
    assert_array_equal(there.values, here.values)
    assert ("events" not in options) or len(here.events)


def test_jacobi_master_sends_step_requests_to_all_remote_parts_before_it_waits_for_answers(
    server, monkeypatch
):
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
def test_run_that_loses_its_fmu_server_ends_and_returns_the_partial_result(tmp_path, moment):
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
def test_hanging_or_crashing_remote_fmu_is_reported(server):
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
def test_fmu_server_rejects_files_outside_its_folder(server, file):
    with pytest.raises(
        FmuError, match=r"rejected the request: FMU '.*' does not exist in the served folder"
    ):
        remote(server, file)


def test_fmu_server_rejects_symbolic_links_out_of_its_folder(server):
    link = server[0] / "link.fmu"
    link.symlink_to(server[0].parent / "outside.fmu")
    with pytest.raises(FmuError, match=r"FMU 'link.fmu' does not exist"):
        remote(server, "link.fmu")


def test_fmu_server_rejects_a_client_with_a_different_key(server, tmp_path, monkeypatch):
    other = key_file(tmp_path / "other", b"another key of 16 bytes")
    system = System()
    address = f"tcp://{server[3]}/gain.fmu"
    for options in ({"key_file": other}, {}):
        with pytest.raises(
            FmuError, match=r"gain.fmu': the connection to the server failed: the key differs"
        ):
            system.add("part", address, **options)
    monkeypatch.setenv("RIGIDBLOCKS_KEY_FILE", str(server[1]))
    system.add("part", address)
    simulate(system, 0.02, 0.01)


@pytest.mark.parametrize(
    ("key", "mode", "message"),
    [
        (None, 0o600, "key file .* does not exist; create it"),
        (KEY, 0o644, "other users can read the key in .*chmod 600"),
        (b"short", 0o600, "has 5 bytes; at least 16 are needed"),
    ],
)
def test_missing_short_or_publicly_readable_key_files_of_an_fmu_server_are_rejected(
    tmp_path, key, mode, message
):
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
        ({"listen": "0.0.0.0:0"}, ValueError, "is not a loopback address; use --key-file"),
        ({"listen": "127.0.0.1"}, ValueError, "invalid address"),
        ({"listen": "robot:5555"}, ValueError, "invalid address"),
        ({"folder": "nowhere"}, FileNotFoundError, "folder nowhere does not exist"),
    ],
)
def test_invalid_fmu_server_options_are_rejected(tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        serve_fmus(**{"folder": tmp_path, **given})


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1/a.fmu", "invalid address .* expected tcp://host:5555/robot.fmu"),
        ("tcp://127.0.0.1:99999/a.fmu", "invalid address"),
        ("tcp://127.0.0.1:5555", "invalid address"),
        ("tcp://127.0.0.1:1/a.fmu", "a.fmu': the server cannot be reached"),
    ],
)
def test_invalid_or_unreachable_address_of_an_fmu_server_is_reported(address, message):
    with pytest.raises((ValueError, FmuError), match=message):
        System().add("part", address)


def test_options_that_do_not_apply_to_remote_or_local_fmus_are_rejected(server):
    with pytest.raises(ValueError, match="is a remote FMU, which runs in a process of its"):
        remote(server, "gain.fmu", isolated=True)
    with pytest.raises(ValueError, match="key_file is only for FMUs on a server"):
        System().add("part", server[0] / "gain.fmu", key_file=server[1])


@pytest.mark.slow
def test_run_rejects_a_remote_fmu_file_that_changed_after_it_was_added(server):
    foreign_fmu(server[0] / "changes.fmu", step=GAIN)
    system = remote(server, "changes.fmu")
    foreign_fmu(server[0] / "changes.fmu", step="i->r[1] = 0;")
    with pytest.raises(
        FmuError, match=r"'instantiate' .*the FMU file has changed since the part was"
    ):
        simulate(system, 0.02, 0.01)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            struct.pack("<4sHHII", MAGIC, VERSION + 1, 2, 0, 0),
            "version 2 is not supported; this side has version 1",
        ),
        (struct.pack("<4sHHII", MAGIC, VERSION, 2, 1 << 28, 0), r"2,147,483,648 bytes is too long"),
        (struct.pack("<4sHHII", MAGIC, VERSION, 999, 0, 0), "unknown call number 999"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a rigidblocks message"),
        (pack_message("step", (np.zeros(3),)), "'step' needs an instance"),
        (pack_message("describe", ()), "contains no file name"),
        (pack_message("start", (), {"x": 1})[:-1] + b"?", "not a JSON object"),
    ],
)
def test_fmu_server_answers_an_invalid_message_with_an_error(server, data, message):
    with client(server) as link:
        link.sendall(data)
        answer = Channel(link).receive()
    assert answer.call == "error"
    assert message in answer.text["error"]


@pytest.mark.parametrize("n", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_fmu_server_continues_after_it_receives_random_bytes(server, n):
    """Send random bytes before and after the handshake, and in valid messages."""
    rng = random.Random(n)
    good = [
        pack_message(call, (np.array([0.0, rng.random()]),), {"file": "gain.fmu"}) for call in CALLS
    ]
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


@contextlib.contextmanager
def strangers(server, n):
    """Open connections without a key that send an answer byte by byte, and yield them."""
    ended = threading.Event()
    with contextlib.ExitStack() as stack:
        links = [
            stack.enter_context(socket.create_connection(host_of(server[3]))) for _ in range(n)
        ]

        def drip():
            data = struct.pack("!i", 200) + b"A" * 200
            for k in range(len(data)):
                for link in links:
                    with contextlib.suppress(OSError):
                        link.send(data[k : k + 1])
                if ended.wait(0.2):
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            yield links
        finally:
            ended.set()
            thread.join()


def is_closed(link):
    """Return whether the server closes a connection whose challenge is read."""
    link.settimeout(60.0)
    try:
        while link.recv(1 << 12):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.slow
def test_fmu_server_clients_without_the_key_do_not_block_a_client_with_the_key(server):
    with strangers(server, 80):
        lives(server)


@pytest.mark.slow
def test_fmu_server_closes_connections_with_a_slow_handshake(server):
    with strangers(server, 3) as links:
        assert all(map(is_closed, links))
        lives(server)


@pytest.mark.slow
def test_fmu_server_limits_the_number_of_clients(server):
    folder, key = server[:2]
    with served(folder, key) as (process, address), contextlib.ExitStack() as stack:
        own = folder, key, process, address
        links = [stack.enter_context(client(own)) for _ in range(MOST_CLIENTS)]
        for link in links:  # the server serves each client
            link.sendall(pack_message("start", ()))
            assert Channel(link).receive().call == "answer"
        with pytest.raises(
            FmuError, match=f"rejected the request: the server already has {MOST_CLIENTS} clients"
        ):
            remote(own, "gain.fmu")
        links[0].shutdown(socket.SHUT_RDWR)
        for _ in range(100):  # until the process of the closed client ends
            with contextlib.suppress(FmuError):
                remote(own, "gain.fmu")
                return
            time.sleep(0.1)
        pytest.fail("the server accepts no client after another client left")


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "n", "kinds"),
    [
        (5, 4, tuple(FMUS)),
        *(
            pytest.param(seed, n, KINDS, marks=pytest.mark.slow)
            for n in (5, 12, 20)
            for seed in (1, 2)
        ),
    ],
)
def test_initial_values_of_remote_fmu_networks_equal_the_dense_linear_solution(
    seed, n, kinds, tmp_path
):
    key = key_file(tmp_path / "key")
    with served(tmp_path, key) as (_, address):
        network = random_network(1000 * n + seed, n, kinds, key_file=key)
        system = network.system(tmp_path, f"tcp://{address}/{{.name}}")
        result = simulate(system, network.dt, network.dt, form="numpy", progress=False)
    assert network.error(result) < 1e-12 * np.abs(network.outputs).max()
