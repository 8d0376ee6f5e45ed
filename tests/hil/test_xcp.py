"""XCP over UDP: measurement of every step, calibration between steps, and random packets."""

import contextlib
import json
import shutil
import socket
import struct
import subprocess
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import build_runner, simulate
from rigidblocks.cli import main
from rigidblocks.fmi.xcp import Element, a2l_text, period
from rigidblocks.tracing.ccode import c_text
from udp_partner import free_ports
from xcp_master import CONNECT, STATUS, SYNCH, RefusalError, XcpMaster, addresses_in, connected

DT = 1e-3
OUT_OF_RANGE, WRITE_PROTECTED, ACCESS_DENIED, UNKNOWN, SYNTAX = 0x22, 0x23, 0x24, 0x20, 0x21


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    (address,) = free_ports(1)
    path = tmp_path_factory.mktemp("xcp") / "arm"
    port = address.partition(":")[2]
    build_runner(wired(parts()), path, DT, xcp=port)
    return path, address, addresses_in(path.with_suffix(".a2l").read_text())


@contextlib.contextmanager
def running(program, *options):
    """Run a program; yield its address and a dict that gets its final report."""
    path, address, _ = program
    report = {}
    with subprocess.Popen([path, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield address, report
        finally:
            process.terminate()
            report |= json.loads(process.communicate(timeout=60)[0].removeprefix("ready\n"))


@pytest.mark.slow
def test_xcp_measures_every_signal_in_every_step(program):
    places = program[2]
    names = [name for name in places if not name.startswith("pd.k")]
    slowly = (
        "--rate",
        "0.25",
    )  # the socket buffers packets while this process waits, up to a limit
    with running(program, *slowly) as (address, report), connected(address) as master:
        master.measure([places[name] for name in names])
        while len(master.samples) < 300:
            master.receive()
        assert master.ask(STATUS)[1] == 0x40
    rows = np.array(master.rows())
    steps = np.rint(rows[:, 0] / DT).astype(int)
    assert_array_equal(np.diff(steps), 1)
    assert all((b - a) % 65536 == 1 for a, b in pairwise(master.counters))
    result = simulate(wired(parts()), steps[-1] * DT, DT, progress=False)
    for k, name in enumerate(names, 1):
        if name in result.columns:
            expected = result.values[steps, list(result.columns).index(name)]
            assert_array_equal(rows[:, k], expected)
    assert report["xcp"]["refused"] == report["xcp"]["datagrams not sent"] == 0


@pytest.mark.slow
def test_gain_written_by_xcp_takes_effect_in_the_next_step(program):
    """The run equals `simulate` with the same gain change at the same step, bit for bit."""
    places = program[2]
    names = ["robot.q[1]", "robot.q[2]", "pd.tau[1]", "pd.kp[1]"]
    with running(program, "--rate", "0.5") as (address, _), connected(address) as master:
        master.measure([places[name] for name in names])
        while len(master.samples) < 50:
            master.receive()
        assert master.read(places["pd.kp[1]"], 2) == (1000.0, 1000.0)
        master.write(places["pd.kp[1]"], 2500.0)
        while len(master.samples) < 200:
            master.receive()
    rows = np.array(master.rows())
    gains = rows[:, 1 + names.index("pd.kp[1]")]
    assert set(gains) == {1000.0, 2500.0}
    first = int(np.argmax(gains == 2500.0))  # row at the end of the first step with the gain
    steps = np.rint(rows[:, 0] / DT).astype(int)
    began = (steps[first] - 1) * DT
    scenario = {"time": [0.0, began], "pd.kp[1]": [1000.0, 2500.0]}
    result = simulate(wired(parts()), steps[-1] * DT, DT, scenario=scenario, progress=False)
    for k, name in enumerate(names[:3], 1):
        expected = result.values[steps, list(result.columns).index(name)]
        assert_array_equal(rows[first:, k], expected[first:])


@pytest.mark.slow
def test_invalid_xcp_commands_get_the_error_codes_of_the_standard(program):
    places = program[2]
    kp = places["pd.kp[1]"]

    def refused(code, *command):
        with pytest.raises(RefusalError) as info:
            master.ask(*command)
        assert info.value.args == (code,)

    with running(program) as (address, report), connected(address) as master:
        for value in (-1.0, np.nan, np.inf):  # a gain must be finite and at least 0
            with pytest.raises(RefusalError) as info:
                master.write(kp, value)
            assert info.value.args == (OUT_OF_RANGE,)
        with pytest.raises(RefusalError, match=str(WRITE_PROTECTED)):
            master.write(places["robot.q[1]"], 1.0)
        with pytest.raises(RefusalError, match=str(OUT_OF_RANGE)):  # rejects the whole write
            master.write(kp, 5.0, -1.0)
        with pytest.raises(RefusalError, match=str(ACCESS_DENIED)):
            master.write(kp + 1, 1.0)
        for outside in (0, 0xFFF, 0xFFFFFFF8, 0x1000 + 8 * 10000):
            with pytest.raises(RefusalError, match=str(OUT_OF_RANGE)):
                master.read(outside)
        refused(SYNCH - 252, SYNCH)
        refused(UNKNOWN, 0x90)
        refused(SYNTAX, 0xF6, 0)
        assert master.read(kp, 4) == (1000.0, 1000.0, 15.0, 15.0)
        other = XcpMaster(address)  # the program does not answer a second master
        other.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            other.ask(STATUS)
        other.socket.settimeout(5.0)
        other.ask(CONNECT, 0)  # after it connects, the program answers
        other.ask(0xFE)
        other.socket.close()
        master.connect()
    assert report["xcp"]["foreign"] == 1


@pytest.mark.slow
def test_random_xcp_packets_do_not_change_the_parameters(program):
    """A connected master sends random commands and random bytes."""
    places = program[2]
    rng = np.random.default_rng(3)
    with running(program) as (address, report):
        noisy = XcpMaster(address)
        noisy.connect()
        for _ in range(3000):
            data = bytearray(rng.bytes(int(rng.integers(1, 40))))
            if rng.random() < 0.7:
                data[0] = 0xC0 + int(rng.integers(0, 62))
            if data[0] in (0xF0, 0xFF, 0xFE):  # no download, connect or disconnect commands
                continue
            with contextlib.suppress(BlockingIOError):
                noisy.socket.send(struct.pack("<HH", len(data), 0) + data)
        host, port = address.split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            for _ in range(500):
                own.sendto(rng.bytes(int(rng.integers(0, 400))), (host, int(port)))
        noisy.socket.close()
        with connected(address) as master:  # a new connection receives no answers to the noise
            assert master.read(places["pd.kp[1]"], 4) == (1000.0, 1000.0, 15.0, 15.0)
    assert report["ended"] == "by a signal"
    assert report["xcp"]["commands"] > 10


@pytest.mark.slow
def test_invalid_or_occupied_xcp_address_is_reported(program, tmp_path):
    path, address, _ = program
    for wrong, said in (("nowhere", "an address such as"), (address, "cannot listen")):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", int(address.partition(":")[2])))
            done = subprocess.run([path, "--xcp", wrong], capture_output=True, text=True)
        assert (done.returncode, said in done.stderr) == (2, True)
    done = subprocess.run(
        [path, "--stop", "0.01", "--xcp", "off"], capture_output=True, text=True, check=True
    )
    assert "xcp" not in json.loads(done.stdout.removeprefix("ready\n"))
    with pytest.raises(ValueError, match="must be an address such as"):
        build_runner(wired(parts()), tmp_path / "never", DT, xcp="elsewhere")


def test_runner_command_writes_the_a2l_file_next_to_the_sources(tmp_path):
    script = tmp_path / "wave.py"
    script.write_text(
        "from rigidblocks import Sine, System\nsystem = System()\n"
        'system.add("wave", Sine(amplitude=2.0, frequency=0.25))\n'
    )
    out = tmp_path / "wave_c"
    asked = ["runner", str(script), "-o", str(out), "--platform", "source", "--xcp", "5556"]
    assert main(asked) == 0
    text = (out / "wave_c.a2l").read_text()
    assert 'ADDRESS "127.0.0.1"' in text
    assert {"wave.y[1]", "wave.amplitude[1]"} <= set(addresses_in(text))


def test_a2l_file_contains_valid_names_and_sample_periods():
    assert [period(dt) for dt in (1e-3, 2e-3, 0.25, 1.0, 1e-6, 1.25e-4, 1 / 3)] == [
        (1, 6),
        (2, 6),
        (25, 7),
        (1, 9),
        (1, 3),
        (125, 3),
        (0, 0),
    ]
    signal = Element("a.H[1,2]", 3, "kg.m2", -np.inf, np.inf, 'the "mass"\nmatrix')
    text = a2l_text("2 arms", [signal], [], 1e-3, "127.0.0.1:5555")
    assert "MEASUREMENT a.H[1][2] \"the 'mass' matrix\" FLOAT64_IEEE unit_0" in text
    assert "/begin MODULE _2_arms" in text
    assert text.count("/begin") == text.count("/end")


FUZZ = """
#include <stdio.h>
#include <stdlib.h>
#include "xcp.h"
static const Tunable TUNABLES[] = {{3, 0.0, 10.0}, {4, -1.0, 1.0}};
static const XcpPlan PLAN = {"fuzz", "step", 1, 6, 40, 2, TUNABLES};
int main(void)
{
    static Xcp xcp;
    static const unsigned char codes[] = {
        0xff, 0xfa, 0xf6, 0xf5, 0xf4, 0xf0, 0xe2, 0xe1, 0xe1, 0xe1, 0xe0, 0xdf,
        0xde, 0xdd, 0xdc, 0xda, 0xd9, 0xd7, 0xd6, 0xd5, 0xd4, 0xd4, 0xd3, 0xd3};
    long taken = 0, samples = 0;
    double *memory = calloc(40, sizeof *memory);
    xcp.plan = &PLAN;
    xcp.memory = memory;
    for (long k = 0; k < 200000; k++) {
        const int n = 1 + rand() % 60;
        unsigned char *in = malloc(252), *out = malloc(XCP_CTO), *dto = malloc(XCP_DTO);
        for (int i = 0; i < n; i++)
            in[i] = (unsigned char)(rand() % 3 ? rand() % 4 : rand());
        if (rand() % 8)
            in[0] = codes[(unsigned)rand() % sizeof codes];
        if (in[0] == 0xff && rand() % 50)
            in[0] = 0xe1;
        if (in[0] == 0xd6 && rand() % 10)
            in[0] = 0xd5;
        if (in[0] == 0xe1 && n >= 8) {
            in[1] = 0xff;
            in[3] = 0;
            xcp_put(in + 4, XCP_BASE + (uint32_t)rand() % 330, 4);
        }
        const int size = xcp_command(&xcp, in, n, out);
        taken += size > 0 && out[0] == XCP_OK;
        for (int i = 0; i < xcp.n_lists; i++)
            if (xcp_is_due(&xcp.lists[i]))
                for (int j = 0; j < xcp.lists[i].n; j++)
                    samples += xcp_sample(&xcp, i, j, dto) > 0;
        free(in), free(out), free(dto);
        for (int i = 0; i < 40; i++)
            if (i != 3 && i != 4 && memory[i] != 0.0)
                return 2;
    }
    free(memory);
    printf("%ld %ld", taken, samples);
    return taken > 1000 && samples > 1000 ? 0 : 1;
}
"""


@pytest.mark.slow
def test_random_xcp_commands_change_only_tunable_values(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "xcp.h").write_text(c_text("runner/xcp.h"))
    (tmp_path / "fuzz.c").write_text(FUZZ)
    sanitizers = "-fsanitize=address,undefined"
    flags = ("-std=c99", "-O1", "-Wall", "-Wextra", sanitizers, "-fno-sanitize-recover=all")
    subprocess.run(["gcc", *flags, "fuzz.c", "-o", "fuzz", "-lm"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "fuzz"], check=True)
