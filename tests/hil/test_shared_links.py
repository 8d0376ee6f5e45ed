"""Shared-memory links of runs and programs: packets are complete, and faults cause safe values."""

import contextlib
import csv
import json
import os
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from controlled_outside import QD, TAU, Q, controlled_by, pd
from rigidblocks import SimulationError, build_runner, simulate
from rigidblocks.common.compiler import PORTABLE_FLAGS, compiler
from rigidblocks.hil.links import SharedLink
from rigidblocks.hil.shared_memory import Shared
from rigidblocks.hil.udp_packet import OK, Packet, answer, pack_packet, unpack_packet
from rigidblocks.tracing.ccode import c_text

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="/dev/shm does not exist")
DT = 1e-3


@pytest.fixture
def name():
    """Yield a memory name that no other test uses, and free the memory after the test."""
    own = f"rigidblocks_test_{os.getpid()}_{time.monotonic_ns()}"
    yield own
    Path("/dev/shm", own).unlink(missing_ok=True)


def attached(name):
    """Attach the partner as soon as the memory exists."""
    for _ in range(20_000):
        with contextlib.suppress(OSError):
            return Shared(name)
        time.sleep(1e-3)
    raise TimeoutError(name)


@contextlib.contextmanager
def partner(name, law):
    """Answer packets of four values by a law; yield the list of received packets."""
    came, over = [], threading.Event()

    def work():
        side = None
        while not over.is_set():
            if side is None:
                with contextlib.suppress(OSError):
                    side = Shared(name)
                time.sleep(1e-3)
            elif (data := side.read()) is not None:
                fault, packet = unpack_packet(data, 4)
                assert fault == OK
                came.append(packet)
                side.write(answer(packet, law(packet), len(came)))
            else:
                time.sleep(0)
        if side is not None:
            side.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield came
    finally:
        over.set()
        thread.join()


def linked(name, **options):
    """Return the robot with an external controller."""
    link = SharedLink(name, [Q, QD], [TAU], **options)
    return controlled_by(link), link


@pytest.mark.slow
def test_program_with_a_lock_step_shared_memory_link_matches_the_results_of_simulate(
    name, tmp_path
):
    system, link = linked(name, lock_step=True, timeout=5.0)
    program = build_runner(system, tmp_path / "plant", DT)
    record = tmp_path / "run.csv"
    command = [program, "--stop", "0.5", "--rate", "0", "--record", record]
    with partner(name, pd) as came:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout.removeprefix("ready\n"))["links"]["link"]
    assert counts["received"] == counts["sent"] == len(came) == 500
    assert counts["steps with safe values"] == 0
    assert [packet.sequence for packet in came] == list(range(1, 501))
    assert not Path("/dev/shm", name).exists()
    with partner(name, pd):
        result = simulate(system, 0.5, DT, progress=False)
    link.close()
    assert not Path("/dev/shm", name).exists()
    with open(record) as file:
        head, *rows = csv.reader(file)
    values, columns = np.array(rows, float), list(result.columns)
    for signal in ("robot.q[1]", "robot.q[2]", "robot.qd[1]", "robot.qdd[2]"):
        ours = values[:, head.index(signal)]
        assert_array_equal(ours, result.values[:, columns.index(signal)])
    assert np.abs(result["robot.q"][-1] - [1.0, 1.5]).max() < 0.05


@pytest.mark.slow
def test_generated_program_reuses_the_shared_memory_of_a_killed_program(name, tmp_path):
    """The next program takes over the memory; the partner continues; old values are ignored."""
    system, _ = linked(name, timeout=0.05, safe={"tau": [0.25, -0.5]})
    program = build_runner(system, tmp_path / "plant", DT)
    first = subprocess.Popen([program], stdout=subprocess.DEVNULL)
    side = attached(name)
    other = subprocess.run([program, "--stop", "1"], capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert "link 'link' has no shared memory" in other.stderr
    assert "another simulation uses it" in other.stderr
    side.write(pack_packet(Packet(7, 0, 0.0, (1.0, 2.0))))
    first.kill()
    first.wait()
    record = tmp_path / "run.csv"
    command = [program, "--stop", "0.2", "--record", record]
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    counts = json.loads(second.stdout.removeprefix("ready\n"))["links"]["link"]
    assert counts["received"] == 0
    assert counts["steps with safe values"] == 200
    assert not side.is_open
    side.close()


def stepped(link, t):
    return link.function(t=t, q=np.zeros(2), qd=np.zeros(2))["tau"]


def test_invalid_shared_memory_packets_are_counted_and_replaced_by_safe_values(name):
    _, link = linked(name, timeout=0.2, safe={"tau": [0.25, -0.5]})
    assert_array_equal(stepped(link, 0.0), [0.25, -0.5])
    side = Shared(name)
    fault, packet = unpack_packet(side.read(), 4)
    assert (fault, packet.sequence, side.read()) == (OK, 1, None)
    good = pack_packet(Packet(1, 1, 0.0, (1.0, 2.0)))
    faults = {
        "foreign": b"hello",
        "of wrong size": good[:-1],
        "not finite": good[:24] + np.array([np.nan, 0.0]).tobytes(),
        "of another version": good[:4] + b"\x02\x00" + good[6:],
    }
    for k, (fault, data) in enumerate(faults.items(), 1):
        side.write(data)
        assert_array_equal(stepped(link, float(k)), [0.25, -0.5])
        assert link.counts[fault] == 1
    link.close()
    assert not side.is_open
    side.close()


def test_shared_memory_link_counts_packets_and_outputs_safe_values_after_its_timeout(name):
    _, link = linked(name, timeout=0.2, safe={"tau": [0.25, -0.5]})
    assert_array_equal(stepped(link, 0.0), [0.25, -0.5])
    side, good = Shared(name), pack_packet(Packet(1, 1, 0.0, (1.0, 2.0)))
    side.write(good)
    for k in (10.0, 11.0):
        assert_array_equal(stepped(link, k), [1.0, 2.0])
    side.write(good)
    stepped(link, 12.0)
    side.write(pack_packet(Packet(5, 1, 0.0, (3.0, 4.0))))
    assert_array_equal(stepped(link, 13.0), [3.0, 4.0])
    assert (link.counts["doubled"], link.counts["lost"], link.counts["received"]) == (1, 3, 2)
    time.sleep(0.25)
    assert_array_equal(stepped(link, 14.0), [0.25, -0.5])
    side.write(good)
    assert_array_equal(stepped(link, 15.0), [1.0, 2.0])
    assert link.counts["restarts of the partner"] == 1
    with pytest.raises(ValueError, match="the packet has 4000 bytes; at most 40 fit"):
        side.write(bytes(4000))
    link.close()
    assert not side.is_open
    side.close()
    with pytest.raises(FileNotFoundError):
        Shared(name)


def test_partner_that_ends_while_it_writes_to_shared_memory_does_not_block_the_run(name):
    _, link = linked(name, timeout=0.05)
    stepped(link, 0.0)
    side = Shared(name)
    side.write(pack_packet(Packet(4, 1, 0.0, (1.0, 2.0))))
    assert_array_equal(stepped(link, 1.0), [1.0, 2.0])
    side._words[side._to] += 1  # an odd count marks an unfinished packet
    began = time.monotonic()
    assert_array_equal(stepped(link, 2.0), [1.0, 2.0])
    time.sleep(0.06)
    assert_array_equal(stepped(link, 3.0), [0.0, 0.0])
    assert time.monotonic() - began < 1
    side.close()
    after = Shared(name)
    after.write(pack_packet(Packet(1, 3, 0.0, (5.0, 6.0))))
    assert_array_equal(stepped(link, 4.0), [5.0, 6.0])
    after.close()
    link.close()


def test_invalid_name_or_content_of_shared_memory_is_rejected(name):
    for wrong in ("", "../x", "a/b", ".", "a b"):
        with pytest.raises(ValueError, match=r"invalid name .* of shared memory"):
            SharedLink(wrong, [Q], [TAU])
    system, link = linked(name)
    with contextlib.closing(Shared(name, (64, 64))) as own:
        with pytest.raises(SimulationError, match=f"another simulation uses .* '{name}'"):
            simulate(system, DT, DT, progress=False)
        assert own.is_open
    Path("/dev/shm", name).write_bytes(bytes(200))
    with pytest.raises(OSError, match="not the memory of a link"):
        Shared(name)
    simulate(system, DT, DT, progress=False)
    link.close()


TORN = """
#include "shared_memory.h"
#include <stdlib.h>

/* The partner writes packets of one byte each, of all lengths; the other reads none of two. */
int main(int argc, char **argv)
{
    static uint8_t bytes[4096];
    RbShared side;
    const int writes = argc > 2;
    if (!writes && rb_shared_make(&side, argv[1], 8, sizeof bytes) != 0)
        return 1;
    while (writes && rb_shared_attach(&side, argv[1]) != 0)
        ;
    for (long k = 1; writes && rb_shared_is_open(&side); k++) {
        memset(bytes, (int)(k % 251), sizeof bytes);
        rb_shared_write(&side, bytes, 1 + (size_t)k * 37 % sizeof bytes);
        for (volatile int pause = 0; pause < k % 2000; pause++)
            ;
    }
    long read = 0, torn = 0;
    while (!writes && read < 20000 && !torn) {
        const ptrdiff_t size = rb_shared_read(&side, bytes, sizeof bytes);
        for (ptrdiff_t i = 1; i < size; i++)
            torn += bytes[i] != bytes[0];
        read += size > 0;
    }
    rb_shared_close(&side);
    printf("%ld %ld\\n", read, torn);
    return 0;
}
"""


@pytest.mark.slow
def test_shared_memory_reader_never_gets_a_partly_written_packet(name, tmp_path):
    (tmp_path / "shared_memory.h").write_text(c_text("runner/shared_memory.h"))
    (tmp_path / "torn.c").write_text(TORN)
    build = (*compiler(), *PORTABLE_FLAGS, "torn.c", "-o", "torn")
    subprocess.run(build, cwd=tmp_path, check=True)
    reader = subprocess.Popen([tmp_path / "torn", name], stdout=subprocess.PIPE, text=True)
    writer = subprocess.Popen([tmp_path / "torn", name, "writes"], stdout=subprocess.DEVNULL)
    try:
        read, torn = map(int, reader.communicate(timeout=60)[0].split())
        assert writer.wait(10) == 0
    finally:
        reader.kill()
        writer.kill()
    assert (read, torn) == (20_000, 0)
