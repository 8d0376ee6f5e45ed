"""Packets of links: C and Python write and read equal bytes and reject invalid packets."""

import ctypes
import shutil
import subprocess
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigidblocks.common.compiler import shared_library
from rigidblocks.hil.udp_packet import OK, WRONG_SIZE, Packet, answer, pack_packet, unpack_packet
from rigidblocks.tracing.ccode import c_text

SHIM = """
#include "packet.h"
size_t write_packet(uint8_t *, uint32_t, uint32_t, double, const double *, int);
int read_packet(const uint8_t *bytes, size_t size, double *values, int n);
__attribute__((visibility("default")))
size_t write_packet(uint8_t *to, uint32_t sequence, uint32_t echo, double t, const double *v, int n)
{
    const RbPacket packet = {sequence, echo, t};
    return rb_packet_write(to, &packet, v, n);
}
__attribute__((visibility("default")))
int read_packet(const uint8_t *bytes, size_t size, double *values, int n)
{
    RbPacket packet = {0, 0, 0.0};
    const int wrong = rb_packet_read(bytes, size, &packet, values + 3, n);
    values[0] = packet.sequence, values[1] = packet.echo, values[2] = packet.time;
    return wrong;
}
"""
FUZZ = """
#include <stdio.h>
#include <stdlib.h>
#include "packet.h"
int main(void)
{
    long ok = 0;
    for (long k = 0; k < 1000000; k++) {
        const size_t size = (size_t)(rand() % 80);
        uint8_t *bytes = malloc(size ? size : 1);
        double values[4];
        RbPacket packet;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)rand();
        if (size >= 24 && k % 2) {
            memcpy(bytes, "RBLK\\1", 5);
            bytes[5] = 0;
            bytes[6] = (uint8_t)((size - 24) / 8);
            bytes[7] = 0;
        }
        for (int n = 0; n <= 4; n++)
            ok += rb_packet_read(bytes, size, &packet, values, n) == RB_PACKET_OK;
        free(bytes);
    }
    return ok > 0 ? 0 : 1;
}
"""
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture(scope="module")
def in_c():
    sources = {"packet.h": c_text("runner/packet.h"), "shim.c": SHIM}
    library = ctypes.CDLL(str(shared_library(sources, "shim.c")))
    library.write_packet.restype = ctypes.c_size_t
    return library


def c_read(library, data, n):
    values = (ctypes.c_double * (n + 3))()
    wrong = library.read_packet(data, ctypes.c_size_t(len(data)), values, n)
    return wrong, tuple(values) if wrong == OK else None


@given(
    sequence=st.integers(1, 2**32 - 1),
    echo=st.integers(0, 2**32 - 1),
    time=NUMBERS,
    values=st.lists(NUMBERS, max_size=5),
)
def test_link_packets_written_and_read_by_c_and_by_python_are_equal(
    in_c, sequence, echo, time, values
):
    packet = Packet(sequence, echo, time, tuple(values))
    data, n = pack_packet(packet), len(values)
    buffer = ctypes.create_string_buffer(len(data))
    numbers = (ctypes.c_double * (n + 1))(*values)
    size = in_c.write_packet(
        buffer, ctypes.c_uint32(sequence), ctypes.c_uint32(echo), ctypes.c_double(time), numbers, n
    )
    assert buffer.raw[:size] == data
    assert unpack_packet(data, n) == (OK, packet)
    assert c_read(in_c, data, n) == (OK, (sequence, echo, time, *values))


@given(data=st.binary(max_size=64), kept=st.integers(0, 40), n=st.integers(0, 3))
def test_c_and_python_reject_invalid_link_packets_with_equal_fault_codes(in_c, data, kept, n):
    begin = pack_packet(Packet(3, 2, 0.5, (1.0, float("nan"))))[:kept]
    fault, packet = unpack_packet(begin + data, n)
    assert c_read(in_c, begin + data, n)[0] == fault
    assert (packet is None) == (fault != OK)


def test_link_answer_repeats_the_sequence_number_of_its_packet():
    reply = unpack_packet(answer(Packet(9, 4, 0.25, (1.0,)), [2.0, 3.0], 5), 2)
    assert reply == (OK, Packet(5, 9, 0.25, (2.0, 3.0)))
    data = pack_packet(Packet(1, 0, 0.0, (1.0, 2.0)))
    sizes = {unpack_packet(data[:k], 2)[0] for k in range(24, len(data))}
    assert sizes == {WRONG_SIZE}
    assert all(a < b for a, b in pairwise(np.frombuffer(data[24:], "<f8")))


@pytest.mark.slow
def test_one_million_random_packets_cause_no_sanitizer_error_in_the_c_packet_reader(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "packet.h").write_text(c_text("runner/packet.h"))
    (tmp_path / "fuzz.c").write_text(FUZZ)
    options = ["-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    command = ["gcc", *options, "fuzz.c", "-o", "fuzz", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([tmp_path / "fuzz"], check=True, capture_output=True)
