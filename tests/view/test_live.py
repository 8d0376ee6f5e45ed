"""Live view of a run: events, access, and independence of the run from its clients."""

import base64
import http.client
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest
from test_pages import data

from rigidblocks import LiveView, RobotPlant, SimulationError, System, planar2, prepare, simulate
from rigidblocks.robot.robots import auto_tree
from rigidblocks.view import run_page


def pendulum(qd0=(1.0, -2.0)):
    system = System()
    system.add("robot", RobotPlant(planar2(), qd0=qd0), start={"tau": [0.0, 0.0]})
    return system


def ran(system, t_stop=0.1, **options):
    return simulate(system, t_stop, 0.01, form="numpy", progress=False, **options)


def request(address, path=None, **headers):
    """Return the status and the body of the server's response."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", parts.path if path is None else path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@contextmanager
def listener(view):
    """Yield a socket that has requested the events and read the header."""
    parts = urlsplit(view.address)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as one:
        text = f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
        one.sendall(text.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += one.recv(1)
        yield one


def events_of(one, last="over"):
    """Yield type, run and row of each event up to the event `last`."""
    text = b""
    while f"event: {last}\n".encode() not in text:
        text += one.recv(65536)
    for event in text.decode().split("\n\n"):
        if event.startswith("event: "):
            kind, rest = event.removeprefix("event: ").split("\ndata: ")
            run, row = rest.split(" ")
            yield kind, int(run), np.frombuffer(base64.b64decode(row))


@pytest.mark.slow
def test_samples_sent_to_a_live_view_equal_the_results_of_the_run():
    system = pendulum()
    with LiveView(system) as view, listener(view) as one:
        result = ran(system, 2.0, view=view)
        kinds, runs, rows = zip(*events_of(one), strict=True)
    assert kinds == ("row",) * (len(kinds) - 1) + ("over",)
    assert set(runs) == {1}
    assert len(rows) > 1
    for row in rows[:-1]:
        k = int(np.argmin(abs(result.time - row[0])))
        np.testing.assert_array_equal(row[1:], result.values[k])


@pytest.mark.slow
def test_live_view_does_not_change_the_results_of_a_run():
    system = pendulum()
    with LiveView(system) as view:
        seen, unseen = ran(system, view=view), ran(system)
        np.testing.assert_array_equal(seen.values, unseen.values)
        prepared = prepare(system, 0.01, form="numpy").simulate(0.1, progress=False, view=view)
        np.testing.assert_array_equal(prepared.values, unseen.values)


@pytest.mark.slow
def test_live_server_serves_only_its_page_and_only_with_the_token():
    with LiveView(pendulum()) as view:
        parts = urlsplit(view.address)
        assert parts.hostname == "127.0.0.1"
        assert len(parts.path) > 20
        status, text = request(view.address)
        assert status == 200
        assert "<canvas" in text
        other_token = parts.path[:-2] + ("y/" if parts.path[-2] == "x" else "x/")
        others = ["/", "/etc/passwd", "/../x/", other_token, parts.path + "../page.html"]
        others += [parts.path + "%2e%2e/live.py", parts.path + "events/", parts.path + "?x"]
        for path in others:
            assert request(view.address, path)[0] == 404
        assert request(view.address, Host="example.org")[0] == 404  # a name bound to this address
        other = LiveView(pendulum())
        assert urlsplit(other.address).path != parts.path
        other.close()


@pytest.mark.slow
def test_local_live_server_listens_only_on_its_loopback_address():
    with LiveView(pendulum()) as view:
        port = urlsplit(view.address).port
        with socket.socket() as probe:  # 127.0.0.2 is this machine, but another address
            probe.settimeout(5)
            assert probe.connect_ex(("127.0.0.2", port)) != 0


@pytest.mark.slow
def test_slow_and_closed_browsers_do_not_delay_the_run():
    """Two hundred rows of 200 kB exceed the capacity of a socket buffer."""
    system, row = pendulum(), np.zeros(20_000)
    with LiveView(system) as view, listener(view):
        with listener(view):
            pass
        view.begin()
        for k in range(200):
            view.see(k, row)
        result = ran(system, view=view)
    assert len(result.time) == 11


@pytest.mark.slow
def test_live_view_waits_for_its_client_before_it_sends_the_next_sample():
    system, row = pendulum(), np.zeros(8)
    with LiveView(system) as view:
        view.begin()
        assert view.is_waiting
        view.see(0.0, row)
        assert not view.is_waiting
        with listener(view) as one:
            assert b"event: row" in one.recv(65536)
            assert view.is_waiting


@pytest.mark.parametrize(("part", "many", "expected"), [(1, 1, 0.3), (0.5, 1, 0.35), (0.5, 4, 1.4)])
def test_live_view_sender_pauses_to_limit_its_processor_time(part, many, expected, monkeypatch):
    """The sender works 1 ms; the program gets a fraction of a processor."""
    rests, clocks = [], iter([(0.0, 0.0, 0.0), (0.1, 0.1 * part, 1e-3)])
    monkeypatch.setattr(run_page, "_clocks", lambda: next(clocks))
    monkeypatch.setattr(run_page.time, "sleep", rests.append)
    run_page.CpuThrottle().pause(many)
    assert rests == [pytest.approx(expected)]


@pytest.mark.slow
def test_page_of_a_live_view_plays_the_run_after_the_run_has_ended():
    system = pendulum()
    with LiveView(system) as view:
        read = []
        for _ in range(2):
            page = request(view.address)[1]
            read.append(data(type("Page", (), {"html": page})))
            ran(system, view=view)
        assert "run" not in read[0]
        assert read[0]["live"]["signals"][0]["name"] == "robot.q"
        assert read[0]["live"]["places"] == [1, 2]
        assert read[1]["live"] == {"run": 1}
        assert len(read[1]["run"]["signals"]) == 4


@pytest.mark.slow
def test_live_view_sends_an_end_event_after_a_failed_run():
    system = pendulum(qd0=(3e7, -9e8))
    with LiveView(system) as view, listener(view) as one:
        with pytest.raises(SimulationError):
            ran(system, 1.0, view=view, method="rk4")
        assert [kind for kind, _, _ in events_of(one)][-1] == "over"
        assert request(view.address)[0] == 200


@pytest.mark.slow
def test_live_view_of_another_system_is_rejected():
    system = System()
    system.add("arm", RobotPlant(auto_tree(3)), start={"tau": [0.0] * 3})
    with LiveView(pendulum()) as view:
        with pytest.raises(
            ValueError, match="the live view does not belong to the system of the run"
        ):
            ran(system, view=view)
        with pytest.raises(TypeError, match="view must be a LiveView"):
            ran(system, view="yes")
    with pytest.raises(ValueError, match="no robot to draw"):
        LiveView(System())
