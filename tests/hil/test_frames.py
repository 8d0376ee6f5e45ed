"""CAN frames in Python and C compared bit by bit with cantools for a random database."""

import ctypes
import subprocess

import numpy as np
import pytest

from random_dbc import random_dbc, random_raw
from rigidblocks.common.compiler import PORTABLE_FLAGS, compiler
from rigidblocks.hil.can_link import Database, pack_frame, unpack_frame
from rigidblocks.hil.runner_tables import can_tables
from rigidblocks.tracing.ccode import c_text

pytestmark = [pytest.mark.interop, pytest.mark.slow]
MESSAGES = 40
CODE = """
#include "link.h"
#include "links.h"

void pack(int k, const double *values, unsigned count, uint8_t *data, uint64_t *beyond)
{
    frame_pack(&CAN_SENT_0[k], CAN_SENT_SIGNALS_0, values, count, data, beyond);
}

void unpack(int k, const uint8_t *data, double *values, int *beyond)
{
    frame_unpack(&CAN_SENT_0[k], CAN_SENT_SIGNALS_0, data, values, beyond);
}
"""
SANITIZED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def database():
    return pytest.importorskip("cantools").database


class Frames:
    """Messages of a database, packed and unpacked in C."""

    def __init__(self, folder, path, names, flags=()):
        self.messages = Database(path).messages(names, None, None, None)
        text = "\n".join(can_tables(0, self.messages, ()))
        (folder / "links.h").write_text(text)
        (folder / "frames.c").write_text(CODE)
        for name in ("link.h", "shared_memory.h"):
            (folder / name).write_text(c_text(f"runner/{name}"))
        build = (*compiler(), *PORTABLE_FLAGS, *flags, "-fPIC", "-shared", "frames.c", "-lm")
        subprocess.run((*build, "-o", "frames.so"), cwd=folder, check=True)
        self._library = ctypes.CDLL(str(folder / "frames.so"))
        ends = np.cumsum([0, *(len(one.signals) for one in self.messages)])
        self._first = ends.tolist()

    def pack_frame(self, k, values):
        """Return the frame bytes from C, and the number of values beyond their bounds."""
        own = (ctypes.c_double * (self._first[-1] + 1))()
        own[self._first[k] : self._first[k + 1]] = values
        data, beyond = (ctypes.c_uint8 * 64)(), ctypes.c_uint64(0)
        self._library.pack(k, own, 0, data, ctypes.byref(beyond))
        return bytes(data)[: self.messages[k].wire_size], beyond.value

    def unpack_frame(self, k, data):
        """Return the values of a frame from C, and whether any value is beyond its bounds."""
        own, beyond = (ctypes.c_double * (self._first[-1] + 1))(), ctypes.c_int(0)
        self._library.unpack(k, data.ljust(64, b"\0"), own, ctypes.byref(beyond))
        return own[self._first[k] : self._first[k + 1]], bool(beyond.value)


def compare(theirs, frames, rng, times):
    """Compare random frames of each message in both directions; return the number of frames."""
    compared = 0
    for k, message in enumerate(frames.messages):
        known = theirs.get_message_by_name(message.name)
        signals = {signal.name: signal for signal in known.signals}
        for _ in range(times):
            raw = {name: random_raw(rng, signal) for name, signal in signals.items()}
            data = known.encode(raw, scaling=False, strict=False)
            physical = known.decode(data, decode_choices=False)
            expected = [float(physical[one.name]) for one in message.signals]
            values = [
                one.factor * value + one.shift
                for one, value in zip(message.signals, expected, strict=True)
            ]
            ours, beyond = unpack_frame(message, data)
            assert ours == values
            assert (ours, beyond) == frames.unpack_frame(k, data)
            if not beyond and all(one.length <= 53 for one in message.signals):
                by_name = {
                    one.name: value for one, value in zip(message.signals, expected, strict=True)
                }
                again = known.encode(by_name, strict=False).ljust(message.wire_size, b"\0")
                assert pack_frame(message, values, 0) == (again, 0)
            assert pack_frame(message, values, 0) == frames.pack_frame(k, values)
            compared += 1
    return compared


def test_can_bus_frames_for_random_databases_equal_the_frames_of_cantools(database, tmp_path):
    rng = np.random.default_rng(19)
    path = tmp_path / "random.dbc"
    path.write_text(random_dbc(rng, MESSAGES))
    theirs = database.load_file(path)
    frames = Frames(tmp_path, path, [message.name for message in theirs.messages], SANITIZED)
    assert compare(theirs, frames, rng, 50) == 50 * MESSAGES
