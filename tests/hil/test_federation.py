"""HELICS federates: results equal a Jacobi run bit for bit, and failures preserve the result."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import planar2ctrl
import rigidblocks
from planar2ctrl import parts, wired
from rigidblocks import Port, PythonBlock, SimulationError, simulate
from rigidblocks.cli import main
from rigidblocks.hil.helics_federate import LIMITS, FederationError, federate, federate_config

pytestmark = [pytest.mark.interop, pytest.mark.slow]
helics = pytest.importorskip("helics")

STOP, DT = 0.1, 1e-3
BROKERS = {}  # broker of this process by address
SCRIPT = """
from planar2ctrl import parts, wired
system = wired(parts())
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def broker(n=2):
    """Start a broker of n federates in this process and yield its address."""
    port = free_port()
    options = f"-f {n} {LIMITS} --port={port} --loglevel=no_print"
    made = helics.helicsCreateBroker("zmq", "", options)
    address = f"127.0.0.1:{port}"
    BROKERS[address] = made
    try:
        yield address
    finally:
        helics.helicsBrokerDisconnect(made)
        helics.helicsBrokerFree(made)


@contextlib.contextmanager
def other_federate(arguments, at):
    """Start a federate; if it exits with an error, end the broker.

    Its partner would wait forever. If a signal ends the federate, the broker has to detect it.
    """

    def watch():
        if process.wait() > 0:
            helics.helicsBrokerDisconnect(BROKERS[at])

    with subprocess.Popen(arguments) as process:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield process
        except BaseException:
            process.kill()  # it waits for its partner
            raise
        watcher.join()


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = tmp_path / "demo.py"
    path.write_text(SCRIPT)
    # sys.path may contain folders of Python FMUs with other copies of the package
    folders = (Path(rigidblocks.__file__).parent, Path(planar2ctrl.__file__))
    monkeypatch.setenv("PYTHONPATH", ":".join(str(one.parent) for one in folders))
    return path


def command(script, *names, at, stop=STOP, more=()):
    chosen = [word for name in names for word in ("--part", name)]
    options = ["--broker", at, "--stop", str(stop), "--dt", str(DT)]
    return [sys.executable, "-m", "rigidblocks", "federate", script, *chosen, *options, *more]


def test_run_of_two_helics_federates_matches_the_jacobi_results_bit_for_bit(script, tmp_path):
    whole = simulate(wired(parts()), STOP, DT, order="jacobi", progress=False)
    saved = tmp_path / "pd.csv"
    with broker() as at:
        more = ("-o", saved)
        with other_federate(command(script, "pd", "command", at=at, more=more), at) as other:
            robot = federate(wired(parts()), ["robot"], STOP, DT, broker=at)
            assert other.wait(30) == 0
    for k, name in enumerate(robot.columns):
        assert_array_equal(robot.values[:, k], whole.values[:, list(whole.columns).index(name)])
    rest = np.loadtxt(saved, delimiter=",", skiprows=1)
    names = saved.read_text().splitlines()[0].split(",")
    for k, name in enumerate(names[1:], 1):
        assert_array_equal(
            rest[:, k], whole.values[:, list(whole.columns).index(name.split(" ")[0])]
        )


PLAIN = """
import sys
import helics as h
federate = h.helicsCreateValueFederateFromConfig(sys.argv[1])
tau = h.helicsFederateGetPublicationByIndex(federate, 0)
read = {h.helicsInputGetTarget(one): one for one in
        (h.helicsFederateGetInputByIndex(federate, k)
         for k in range(h.helicsFederateGetInputCount(federate)))}
def law():
    q, qd, goal, rate = (h.helicsInputGetVector(read[name]) for name in
                         ("robot.q", "robot.qd", "command.y", "command.slope"))
    values = [1000.0 * (goal[k] - q[k]) + 15.0 * (rate[k] - qd[k]) for k in range(2)]
    h.helicsPublicationPublishVector(tau, values)
h.helicsFederateEnterInitializingMode(federate)
while h.helicsFederateEnterExecutingModeIterative(
        federate, h.HELICS_ITERATION_REQUEST_ITERATE_IF_NEEDED) \\
        != h.HELICS_ITERATION_RESULT_NEXT_STEP:
    law()
for k in range(1, int(sys.argv[2]) + 1):
    h.helicsFederateRequestTime(federate, k * 1e-3)
    law()
h.helicsFederateDisconnect(federate)
"""


def test_helics_federation_with_a_foreign_federate_matches_the_jacobi_results(script, tmp_path):
    config, plain = tmp_path / "pd.json", tmp_path / "plain.py"
    plain.write_text(PLAIN)
    with broker() as at:
        arguments = command(script, "pd", at=at, more=["--write-config", config])[3:]
        assert main([str(one) for one in arguments]) == 0
        program = [sys.executable, plain, config, str(round(STOP / DT))]
        with other_federate(program, at) as other:
            system = wired(parts())
            result = federate(system, ["robot", "command"], STOP, DT, broker=at)
            assert other.wait(30) == 0
    whole = simulate(wired(parts()), STOP, DT, order="jacobi", progress=False)
    assert_array_equal(result["robot.q"], whole["robot.q"])


def test_helics_federate_ends_if_its_partner_fails_before_it_joins():
    with (
        broker() as at,
        other_federate([sys.executable, "-c", "import time; time.sleep(1); exit(3)"], at),
        pytest.raises(FederationError, match="the federation failed at its start"),
    ):
        federate(wired(parts()), ["robot"], STOP, DT, broker=at)


def test_helics_configuration_file_lists_the_exchanged_signals():
    config = federate_config(wired(parts()), ["pd"], DT)
    assert [one["key"] for one in config["publications"]] == ["pd.tau"]
    assert {one["key"] for one in config["subscriptions"]} == {
        "robot.q",
        "robot.qd",
        "command.y",
        "command.slope",
    }
    json.dumps(config)


def test_killed_helics_federate_is_reported_and_the_result_is_saved(script, tmp_path):
    saved = tmp_path / "robot.csv"
    with (
        broker() as at,
        other_federate(command(script, "pd", "command", at=at, stop=1000), at) as other,
        pytest.raises(SimulationError, match="the federation failed") as caught,
    ):
        federate(_killing(other), ["robot", "killer"], 1000, DT, broker=at, save=saved)
    assert len(caught.value.result.time) > 50
    assert len(saved.read_text().splitlines()) == len(caught.value.result.time) + 1


def _killing(process):
    """Return the demo with a part that kills a process at 0.05 s."""
    system = wired(parts())

    def kill(t):
        if t >= 0.05:
            process.kill()
        return t

    system.add("killer", PythonBlock(kill, [], [Port("y", unit="s")]))
    return system


def test_error_for_a_missing_helics_broker_has_one_line(script, capsys):
    began = time.monotonic()
    at = f"127.0.0.1:{free_port()}"
    assert main([str(one) for one in command(script, "robot", at=at)[3:]]) == 1
    said = capsys.readouterr().err
    assert time.monotonic() - began < 20
    assert said.startswith(f"rigidblocks: no broker answers at {at}")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        (["arm"], {}, KeyError, "unknown part 'arm'"),
        ([], {}, ValueError, "a federate needs one or more parts"),
        (["robot"], {"broker": "somewhere"}, ValueError, "invalid broker address"),
        (["robot"], {"broker": "127.0.0.1:1"}, FederationError, "no broker answers at"),
    ],
)
def test_invalid_arguments_of_a_helics_federate_are_rejected(names, options, error, message):
    with pytest.raises(error, match=message):
        federate(wired(parts()), names, STOP, DT, **options)
