"""The page that follows a run: what is sent, to whom, and that the run waits for no one."""

import base64
import http.client
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest
from test_pages import data

from rigidblocks import LiveView, RobotPlant, SimulationError, System, planar2, prepare, simulate
from rigidblocks.robots import auto_tree
from rigidblocks.view import server


def pendulum(qd0=(1.0, -2.0)):
    system = System()
    system.add("robot", RobotPlant(planar2(), qd0=qd0), start={"tau": [0.0, 0.0]})
    return system


def ran(system, t_stop=0.1, **options):
    return simulate(system, t_stop, 0.01, form="numpy", progress=False, **options)


def asked(address, path=None, **headers):
    """The status and the text that the server answers with."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", parts.path if path is None else path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@contextmanager
def listener(view):
    """A socket that has asked for the events, and got their head."""
    parts = urlsplit(view.address)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as one:
        text = f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
        one.sendall(text.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += one.recv(1)
        yield one


def events_of(one, last="over"):
    """The kind, run and row of each event up to the last."""
    text = b""
    while f"event: {last}\n".encode() not in text:
        text += one.recv(65536)
    for event in text.decode().split("\n\n"):
        if event.startswith("event: "):
            kind, rest = event.removeprefix("event: ").split("\ndata: ")
            run, row = rest.split(" ")
            yield kind, int(run), np.frombuffer(base64.b64decode(row))


def test_rows_that_are_sent_are_those_of_the_run():
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
def test_a_run_that_is_seen_is_the_run():
    system = pendulum()
    with LiveView(system) as view:
        seen, unseen = ran(system, view=view), ran(system)
        np.testing.assert_array_equal(seen.values, unseen.values)
        prepared = prepare(system, 0.01, form="numpy").simulate(0.1, progress=False, view=view)
        np.testing.assert_array_equal(prepared.values, unseen.values)


def test_nothing_is_served_but_the_page_to_who_has_the_token():
    with LiveView(pendulum()) as view:
        parts = urlsplit(view.address)
        assert parts.hostname == "127.0.0.1"
        assert len(parts.path) > 20
        status, text = asked(view.address)
        assert status == 200
        assert "<canvas" in text
        others = ["/", "/etc/passwd", "/../x/", parts.path[:-2] + "x/", parts.path + "../page.html"]
        others += [parts.path + "%2e%2e/live.py", parts.path + "events/", parts.path + "?x"]
        for path in others:
            assert asked(view.address, path)[0] == 404
        assert asked(view.address, Host="example.org")[0] == 404  # a name bound to this address
        other = LiveView(pendulum())
        assert urlsplit(other.address).path != parts.path
        other.close()


def test_a_server_on_this_machine_cannot_be_reached_by_its_other_addresses():
    with LiveView(pendulum()) as view:
        port = urlsplit(view.address).port
        with socket.socket() as probe:  # 127.0.0.2 is this machine, but another address
            probe.settimeout(5)
            assert probe.connect_ex(("127.0.0.2", port)) != 0


def test_who_does_not_read_and_who_has_gone_are_not_waited_for():
    """Two hundred rows of 200 kB are more than any socket holds."""
    system, row = pendulum(), np.zeros(20_000)
    with LiveView(system) as view, listener(view):
        with listener(view):
            pass
        view.begin(system.wiring())
        for k in range(200):
            view.see(k, row)
        result = ran(system, view=view)
    assert len(result.time) == 11


def test_a_run_looks_again_when_someone_has_seen_the_last_row():
    system, row = pendulum(), np.zeros(8)
    with LiveView(system) as view:
        view.begin(system.wiring())
        assert view.is_waiting
        view.see(0.0, row)
        assert not view.is_waiting
        with listener(view) as one:
            assert b"event: row" in one.recv(65536)
            assert view.is_waiting


@pytest.mark.parametrize(("part", "many", "expected"), [(1, 1, 0.3), (0.5, 1, 0.35), (0.5, 4, 1.4)])
def test_who_sends_rests_until_the_program_has_computed_enough(part, many, expected, monkeypatch):
    """1 ms of work in a program that gets a part of a processor."""
    rests, clocks = [], iter([(0.0, 0.0, 0.0), (0.1, 0.1 * part, 1e-3)])
    monkeypatch.setattr(server, "_clocks", lambda: next(clocks))
    monkeypatch.setattr(server.time, "sleep", rests.append)
    server.Rest().take(many)
    assert rests == [pytest.approx(expected)]


@pytest.mark.slow
def test_when_a_run_is_over_the_page_plays_it():
    system = pendulum()
    with LiveView(system) as view:
        read = []
        for _ in range(2):
            page = asked(view.address)[1]
            read.append(data(type("Page", (), {"html": page})))
            ran(system, view=view)
        assert "run" not in read[0]
        assert read[0]["live"]["signals"][0]["name"] == "robot.q"
        assert read[0]["live"]["places"] == [1, 2]
        assert read[1]["live"] == {"run": 1}
        assert len(read[1]["run"]["signals"]) == 4


def test_of_a_run_that_fails_one_sees_what_there_was():
    system = pendulum(qd0=(3e7, -9e8))
    with LiveView(system) as view, listener(view) as one:
        with pytest.raises(SimulationError):
            ran(system, 1.0, view=view, method="rk4")
        assert [kind for kind, _, _ in events_of(one)][-1] == "over"
        assert asked(view.address)[0] == 200


def test_a_run_of_another_system_is_refused():
    system = System()
    system.add("arm", RobotPlant(auto_tree(3)), start={"tau": [0.0] * 3})
    with LiveView(pendulum()) as view:
        with pytest.raises(ValueError, match="the view is of another system than the run"):
            ran(system, view=view)
        with pytest.raises(TypeError, match="a run is watched by a LiveView"):
            ran(system, view="yes")
    with pytest.raises(ValueError, match="no robot to draw"):
        LiveView(System())
