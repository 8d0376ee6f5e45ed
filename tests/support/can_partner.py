"""Partner of a CAN link, which uses python-can and cantools instead of code of the library.

The bus is a pair of sockets that transports frames in the kernel's format, or vcan0 if it exists.
"""

import contextlib
import os
import socket
import threading
from pathlib import Path

DBC = """VERSION ""
NS_ :
BS_:
BU_: PLANT ECU

BO_ 256 Motion: 8 PLANT
 SG_ q1 : 0|16@1- (0.0002,0) [-6|6] "rad" ECU
 SG_ q2 : 16|16@1- (0.0002,0) [-6|6] "rad" ECU
 SG_ qd1 : 39|16@0- (0.2,0) [-6000|6000] "deg/s" ECU
 SG_ qd2 : 55|16@0- (0.2,0) [-6000|6000] "deg/s" ECU

BO_ 2147484160 Command: 7 ECU
 SG_ tau1 : 7|20@0- (0.01,0) [-4000|4000] "Nm" PLANT
 SG_ tau2 : 19|20@0- (0.01,0) [-4000|4000] "Nm" PLANT
 SG_ alive : 40|4@1+ (1,0) [0|0] "" PLANT
 SG_ crc : 48|8@1+ (1,0) [0|0] "" PLANT

BO_ 768 Health: 12 PLANT
 SG_ load : 0|32@1- (1,0) [0|0] "Nm" ECU
 SG_ mode : 32|3@1+ (1,0) [0|7] "" ECU
 SG_ alive : 40|8@1+ (1,0) [0|0] "" ECU
 SG_ crc : 95|8@0+ (1,0) [0|0] "" ECU

BO_ 5 Mixed: 8 ECU
 SG_ which M : 0|8@1+ (1,0) [0|0] "" PLANT
 SG_ one m0 : 8|8@1+ (1,0) [0|0] "" PLANT
 SG_ two m1 : 8|16@1+ (1,0) [0|0] "" PLANT

CM_ SG_ 768 mode "what it
 does";
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 65535;
BA_DEF_ SG_ "GenSigStartValue" INT 0 7;
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN",FILL"StandardCAN_FD","ExtendedCAN_FD";
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_DEF_DEF_ "GenSigStartValue" 0;
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "GenMsgCycleTime" BO_ 768 20;
BA_ "GenSigStartValue" SG_ 768 mode 5;
BA_ "VFrameFormat" BO_ 2147484160 1;
BA_ "VFrameFormat" BO_ 768 14;
SIG_VALTYPE_ 768 load : 1;
""".replace("FILL", "".join(f'"reserved{k}",' for k in range(2, 14)))
_DESCRIPTOR = 199  # file descriptor of the end that a program inherits
VCAN = "vcan0"


def interfaces():
    """Return the test interfaces: a pair of sockets, and vcan0 if the kernel has it."""
    return ["pair", VCAN] if Path("/sys/class/net", VCAN).exists() else ["pair"]


@contextlib.contextmanager
def bus(kind):
    """Yield the name of an interface for our side, and python-can on the other side."""
    import can
    import can.interfaces.socketcan.socketcan as theirs
    import pytest

    if kind == VCAN:
        with can.Bus(interface="socketcan", channel=VCAN, fd=True) as other:
            yield VCAN, other
        return
    ours, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.dup2(ours.fileno(), _DESCRIPTOR, inheritable=True)
    ours.close()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(theirs, "create_socket", lambda: end)
            patch.setattr(theirs, "bind_socket", lambda *_: None)
            other = can.Bus(interface="socketcan", channel="", fd=True)
        other.send = _sender(end, theirs)
        with other:
            yield f"fd:{_DESCRIPTOR}", other
    finally:
        with contextlib.suppress(OSError):
            os.close(_DESCRIPTOR)


def _sender(end, theirs):
    """Return a function that sends python-can's frame on a socket without an address."""
    return lambda message, timeout=None: end.send(theirs.build_can_frame(message))  # noqa: ARG005


PASSED = {"pass_fds": (_DESCRIPTOR,)}  # options of the subprocess


class Partner:
    """Partner that answers each Motion with a Command from a law.

    `mischief` replaces a frame by the frames to send. `came` has the received messages by name.
    """

    def __init__(self, path, other, law, mischief=lambda _, message: [message]):
        import cantools

        self.database = cantools.database.load_file(path)
        self.other, self.law, self.mischief = other, law, mischief
        self.came = {message.name: [] for message in self.database.messages}
        self.counts = 0

    def command(self, tau, count):
        """Return the frame of a command."""
        import can

        known = self.database.get_message_by_name("Command")
        values = {"tau1": tau[0], "tau2": tau[1], "alive": count % 16, "crc": 0}
        data = bytearray(known.encode(values))
        data[6] = crc8(data[:6])
        return can.Message(
            arbitration_id=known.frame_id, is_extended_id=known.is_extended_frame, data=data
        )

    def answer(self, timeout=0.0):
        """Receive a frame and answer it; return True if there was a frame."""
        frame = self.other.recv(timeout)
        if frame is None:
            return False
        known = self.database.get_message_by_frame_id(frame.arbitration_id)
        values = known.decode(frame.data)
        self.came[known.name].append((values, bytes(frame.data), frame))
        if known.name == "Motion":
            message = self.command(self.law(values), self.counts)
            for one in self.mischief(self.counts, message):
                self.other.send(one)
            self.counts += 1
        return True

    @contextlib.contextmanager
    def answer_in_thread(self):
        """Answer in a thread until the context ends."""
        over = threading.Event()

        def work():
            while not over.is_set():
                self.answer(0.02)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()


def crc8(data):
    """Return the CRC-8 of SAE J1850, by long division by x^8 + x^4 + x^3 + x^2 + 1."""
    number = int.from_bytes(data, "big") << 8
    number ^= 0xFF << 8 * len(data)
    for k in range(8 * len(data) + 7, 7, -1):
        if number >> k & 1:
            number ^= 0x11D << (k - 8)
    return number ^ 0xFF
