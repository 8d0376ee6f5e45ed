"""CAN link block, CAN and CAN FD frames, and the messages of DBC files."""

import math
import os
import re
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.port import Port
from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.hil.links import HOLD, Ends, Link, LinkTimeouts, Transport

_FLOATS = {32: ("<f", "<I"), 64: ("<d", "<Q")}
EXACT_BITS = 53  # a double represents all integers up to 2^53 exactly
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64)  # frame bytes; CAN FD above 8


@dataclass(frozen=True)
class Signal:
    """CAN signal: a value in the data bytes of a frame.

        physical = scale*raw + offset,   value = factor*physical + shift

    raw is the number in the frame, physical has the unit of the DBC file, and value has the unit of
    the port. Byte k of the frame contains the bits 8 k to 8 k + 7.

    Attributes:
        name: Name in the DBC file.
        start: Index of the least significant bit (little-endian) or most significant bit
            (big-endian).
        length: Number of bits.
        is_big: True for a big-endian signal.
        is_signed: True for a signed integer.
        is_float: True for a floating-point number.
        scale: Scale in the DBC file.
        offset: Offset in the DBC file.
        low: Minimum of raw.
        high: Maximum of raw.
        factor: Factor of the unit conversion.
        shift: Offset of the unit conversion.
    """

    name: str
    start: int
    length: int
    is_big: bool
    is_signed: bool
    is_float: bool
    scale: float
    offset: float
    low: float
    high: float
    factor: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class Message:
    """CAN message with its signals, and optionally a counter and a checksum.

    Attributes:
        name: Name in the DBC file.
        id: CAN identifier.
        is_extended: True for a 29-bit identifier.
        is_fd: True for a CAN FD frame.
        has_fast_bits: True if a CAN FD frame switches to a higher bit rate for its data.
        size: Number of data bytes.
        period: Time between two sent frames [s], or 0 to send a frame in every step.
        timeout: Time without a frame after which the signals have their safe values [s].
        signals: Signals of the message.
        counter: Signal that counts the frames, or None.
        checksum: Signal with the checksum, or None.
    """

    name: str
    id: int
    is_extended: bool
    is_fd: bool
    has_fast_bits: bool
    size: int
    period: float
    timeout: float
    signals: tuple[Signal, ...]
    counter: Signal | None = None
    checksum: Signal | None = None

    @property
    def wire_size(self) -> int:
        """Number of data bytes in the frame: the smallest CAN (FD) size that fits the message."""
        return next(size for size in SIZES if size >= self.size)


def bits_of(signal: Signal) -> list[int]:
    """Return the bit positions of a signal in the frame, the least significant bit first."""
    if not signal.is_big:
        return list(range(signal.start, signal.start + signal.length))
    places, at = [], signal.start
    for _ in range(signal.length):
        places.append(at)
        at += 15 if at % 8 == 0 else -1
    return places[::-1]


def write_bits(signal: Signal, raw: int, data: bytearray) -> None:
    """Write the raw value of a signal to its bits in the frame data."""
    for k, place in enumerate(bits_of(signal)):
        data[place // 8] |= (raw >> k & 1) << place % 8


def extract_bits(signal: Signal, data: bytes) -> int:
    """Return the bits of a signal in the frame data, as an unsigned integer."""
    places = enumerate(bits_of(signal))
    return sum((data[place // 8] >> place % 8 & 1) << k for k, place in places)


def encode_signal(signal: Signal, value: float) -> tuple[int, bool]:
    """Encode a signal value; return its bits, and True if the value is out of bounds.

    A value out of bounds is encoded as the nearest bound.
    """
    raw = ((value - signal.shift) / signal.factor - signal.offset) / signal.scale
    if not signal.is_float and math.isfinite(raw):
        raw = float(round(raw))
    nearest = signal.low if math.isnan(raw) else min(max(raw, signal.low), signal.high)
    if not signal.is_float:
        return int(nearest) % (1 << signal.length), nearest != raw
    number, bits = _FLOATS[signal.length]
    return struct.unpack(bits, struct.pack(number, nearest))[0], nearest != raw


def decode_signal(signal: Signal, bits: int) -> tuple[float, bool]:
    """Decode the bits of a signal; return its value, and True if the value is out of bounds."""
    raw: float = bits
    if signal.is_float:
        number, form = _FLOATS[signal.length]
        raw = struct.unpack(number, struct.pack(form, bits))[0]
    elif signal.is_signed and bits >> (signal.length - 1):
        raw = bits - (1 << signal.length)
    raw = float(raw)
    beyond = signal.is_float or signal.length <= EXACT_BITS
    beyond = beyond and not signal.low <= raw <= signal.high
    return signal.factor * (raw * signal.scale + signal.offset) + signal.shift, beyond


def pack_frame(message: Message, values: Sequence[float], count: int) -> tuple[bytes, int]:
    """Encode signal values and the counter value `count` as the data bytes of a frame.

    Returns the data, and the number of values out of bounds. Such values are encoded as the nearest
    bound.
    """
    data, beyond = bytearray(message.wire_size), 0
    for signal, value in zip(message.signals, values, strict=True):
        bits, is_beyond = encode_signal(signal, value)
        write_bits(signal, bits, data)
        beyond += is_beyond
    if message.counter:
        write_bits(message.counter, count % (1 << message.counter.length), data)
    if message.checksum:
        write_bits(message.checksum, checksum_of(bytes(data), message), data)
    return bytes(data), beyond


def unpack_frame(message: Message, data: bytes) -> tuple[list[float], bool]:
    """Decode frame data; return the signal values, and True if a value is out of bounds."""
    rows = [decode_signal(signal, extract_bits(signal, data)) for signal in message.signals]
    return [value for value, _ in rows], any(beyond for _, beyond in rows)


def checksum_of(data: bytes, message: Message) -> int:
    """Return the SAE J1850 CRC-8 of all bytes of a message except the checksum byte."""
    assert message.checksum is not None
    own, crc = message.checksum.start // 8, 0xFF
    for k, byte in enumerate(data[: message.size]):
        if k != own:
            crc ^= byte
            for _ in range(8):
                crc = (crc << 1 ^ (0x1D if crc & 0x80 else 0)) & 0xFF
    return crc ^ 0xFF


_LARGEST = {32: float(np.finfo(np.float32).max), 64: float(np.finfo(float).max)}
_TURN = 2 * math.pi


class _Unit(NamedTuple):
    """Port unit for a unit of the DBC file: port value = factor * DBC value + shift."""

    name: str
    factor: float = 1.0
    shift: float = 0.0


# units by their spelling in databases, in lower case and without spaces
_UNITS = {
    spelling: unit
    for spellings, unit in {
        "rad radian radians": _Unit("rad"),
        "deg degree degrees °": _Unit("rad", _TURN / 360),
        "rad/s rad/sec": _Unit("rad/s"),
        "deg/s deg/sec degree/s degrees/s °/s": _Unit("rad/s", _TURN / 360),
        "rad/s2 rad/s^2 rad/s²": _Unit("rad/s2"),
        "deg/s2 deg/s^2 deg/s² °/s²": _Unit("rad/s2", _TURN / 360),
        "rpm 1/min min-1 u/min": _Unit("rad/s", _TURN / 60),
        "m meter meters metre": _Unit("m"),
        "mm": _Unit("m", 1e-3),
        "cm": _Unit("m", 1e-2),
        "km": _Unit("m", 1e3),
        "m/s m/sec": _Unit("m/s"),
        "km/h kph kmh km/hr": _Unit("m/s", 1 / 3.6),
        "mph": _Unit("m/s", 0.44704),
        "m/s2 m/s^2 m/s² m/s/s": _Unit("m/s2"),
        "s sec second seconds": _Unit("s"),
        "ms msec": _Unit("s", 1e-3),
        "us µs": _Unit("s", 1e-6),
        "kg": _Unit("kg"),
        "n newton": _Unit("N"),
        "kn": _Unit("N", 1e3),
        "nm n.m n*m newtonmeter": _Unit("N.m"),
        "w watt watts": _Unit("W"),
        "kw": _Unit("W", 1e3),
        "j": _Unit("J"),
        "v volt volts": _Unit("V"),
        "mv": _Unit("V", 1e-3),
        "a amp amps ampere": _Unit("A"),
        "ma": _Unit("A", 1e-3),
        "hz": _Unit("Hz"),
        "k kelvin": _Unit("K"),
        "c degc °c celsius": _Unit("K", 1.0, 273.15),
        "pa": _Unit("N/m2"),
        "kpa": _Unit("N/m2", 1e3),
        "bar": _Unit("N/m2", 1e5),
        "% percent": _Unit("1", 1e-2),
    }.items()
    for spelling in spellings.split()
}
_OPEN = _Unit("")


class Database:
    """Messages of a DBC file.

    Raises ImportError if cantools is not installed, OSError for an unreadable file, and ValueError
    for an invalid DBC file.
    """

    def __init__(self, path: str | Path):
        cantools = _cantools()
        try:
            self._messages = cantools.database.load_file(str(path), strict=False).messages
        except cantools.database.Error as error:
            raise ValueError(f"cannot read {path} as a DBC file: {error}") from error
        self._path = path

    def messages(
        self, names: Iterable[str], timeout: float | None, counter: str | None, checksum: str | None
    ) -> tuple[Message, ...]:
        """Return the messages with the given names.

        `timeout` [s] applies to each message. `counter` and `checksum` are the names of the counter
        signal and the checksum signal of the messages.

        Raises:
            ValueError: A name is unknown or listed twice, or a message is multiplexed or has
                signals that are not numeric values at fixed bit positions.
        """
        known = {message.name: message for message in self._messages}
        names = tuple(names)
        for k, name in enumerate(names):
            if name not in known:
                raise ValueError(
                    f"unknown message '{name}' in {self._path}; {suggestion(name, known)}"
                )
            if name in names[:k]:
                raise ValueError(f"message '{name}' occurs twice; list each message once")
        return tuple(_message(known[name], timeout, counter, checksum) for name in names)

    def ports(self, message: Message) -> tuple[Port, ...]:
        """Return the ports `Message.Signal` of a message, in rigidblocks units."""
        (dbc_message,) = (one for one in self._messages if one.name == message.name)
        signals = {one.name: one for one in dbc_message.signals}
        return tuple(_port(message, one, signals[one.name]) for one in message.signals)


def _cantools() -> Any:
    module_of("cantools.database", "reading a DBC")
    return module_of("cantools", "reading a DBC")


def _message(
    dbc_message: Any, timeout: float | None, counter: str | None, checksum: str | None
) -> Message:
    if any(one.is_multiplexer or one.multiplexer_ids for one in dbc_message.signals):
        raise ValueError(
            f"the message '{dbc_message.name}' is multiplexed; a CAN link supports only messages "
            "with fixed signals"
        )
    if dbc_message.is_container:
        raise ValueError(
            f"message '{dbc_message.name}' contains other messages, which CAN links do not support"
        )
    try:
        dbc_message.refresh(strict=True)
    except _cantools().database.Error as error:
        raise ValueError(f"the message '{dbc_message.name}' is invalid: {error}") from error
    signals = tuple(_signal(dbc_message.name, one) for one in dbc_message.signals)
    extra = {one.name: one for one in signals if one.name in (counter, checksum)}
    attributes = {} if dbc_message.dbc is None else dbc_message.dbc.attributes
    fast = attributes.get("CANFD_BRS")
    period = (dbc_message.cycle_time or 0) * 1e-3
    message = Message(
        dbc_message.name,
        dbc_message.frame_id,
        dbc_message.is_extended_frame,
        dbc_message.is_fd or dbc_message.length > 8,
        fast is None or str(fast.value) not in ("0", "False"),
        dbc_message.length,
        period,
        timeout or (3 * period if period else 0.01),
        tuple(one for one in signals if one.name not in extra),
        extra.get(counter or ""),
        extra.get(checksum or ""),
    )
    _check_extra(message)
    return message


def _check_extra(message: Message) -> None:
    for what, one in (("counter", message.counter), ("checksum", message.checksum)):
        if one and (one.is_float or one.is_signed or one.length > 32):
            raise ValueError(
                f"{message.name}.{one.name} is the {what} and must be an unsigned integer of at "
                "most 32 bits"
            )
    first = message.checksum
    if first and (first.length != 8 or first.start % 8 != (7 if first.is_big else 0)):
        raise ValueError(
            f"{message.name}.{first.name} is the checksum (CRC-8 of SAE J1850) and must occupy "
            "exactly one byte"
        )


def _signal(message: str, dbc_signal: Any) -> Signal:
    scale, offset = float(dbc_signal.scale), float(dbc_signal.offset)
    is_float = bool(dbc_signal.is_float)
    if scale == 0 or not (math.isfinite(scale) and math.isfinite(offset)):
        raise ValueError(
            f"invalid scale {scale:g} of DBC signal {message}.{dbc_signal.name}; "
            "it must be finite and not zero"
        )
    if is_float and dbc_signal.length not in _LARGEST:
        raise ValueError(
            f"{message}.{dbc_signal.name} is a float of {dbc_signal.length} bits; expected 32 or 64"
        )
    unit = _unit(dbc_signal.unit)
    low, high = _raw_bounds(dbc_signal)
    bounds = [
        bound if is_float else round(bound)
        for bound in (
            (float(value) - offset) / scale
            for value in (dbc_signal.minimum, dbc_signal.maximum)
            if value is not None
        )
    ]
    if len(bounds) == 2 and dbc_signal.minimum < dbc_signal.maximum:
        low, high = max(low, min(bounds)), min(high, max(bounds))
    return Signal(
        dbc_signal.name,
        dbc_signal.start,
        dbc_signal.length,
        dbc_signal.byte_order == "big_endian",
        bool(dbc_signal.is_signed) and not is_float,
        is_float,
        scale,
        offset,
        float(low),
        float(high),
        unit.factor,
        unit.shift,
    )


def _raw_bounds(dbc_signal: Any) -> tuple[float, float]:
    """Return the smallest and largest raw value that the bits of a cantools signal can encode."""
    if dbc_signal.is_float:
        return -_LARGEST[dbc_signal.length], _LARGEST[dbc_signal.length]
    n = dbc_signal.length - bool(dbc_signal.is_signed)
    # the largest double below 2^n, because doubles above 2^53 do not represent all integers
    highest = float(2**n - 1) if n <= 53 else float(np.nextafter(2.0**n, 0.0))
    return (-(2.0**n) if dbc_signal.is_signed else 0.0), highest


def _unit(unit: str | None) -> _Unit:
    return _UNITS.get("".join((unit or "").split()).lower(), _OPEN)


def _port(message: Message, signal: Signal, dbc_signal: Any) -> Port:
    """Return the port of a signal, with the unit, comment and start value of a cantools signal.

    If rigidblocks does not support the unit of the DBC file, the unit of the port is undefined.
    """

    def value(raw: float) -> float:
        return signal.factor * (raw * signal.scale + signal.offset) + signal.shift

    low, high = sorted((value(signal.low), value(signal.high)))
    start = None
    if dbc_signal.raw_initial is not None:
        start = min(max(value(float(dbc_signal.raw_initial)), low), high)
    unit = _unit(dbc_signal.unit)
    comment = " ".join((dbc_signal.comment or "").split())
    left = f" [{dbc_signal.unit}]" if dbc_signal.unit and unit is _OPEN else ""
    return Port(
        f"{message.name}.{signal.name}",
        (),
        unit.name,
        f"{comment}{left}".strip(),
        start,
        min=low,
        max=high,
    )


EXTENDED, REQUEST = 0x80000000, 0x40000000  # id flags: 29-bit identifier; remote frame
_FAST_BITS, _FLEXIBLE = 0x01, 0x04  # CAN FD flags: bit rate switch; FD frame
_HEAD = struct.Struct("=IBB2x")  # id, size and flags of can_frame and canfd_frame in Linux
CLASSIC, FD = 16, 72  # size of a can_frame and of a canfd_frame [bytes]
_DUE = 1e-6  # a message may be sent early by this fraction of the period


class CanLink(Link):
    """Block that exchanges CAN messages through SocketCAN (Linux).

        link = CanLink("can0", "arm.dbc", send=["Motion"], receive=["Command"])
        system.connect("robot.q[1]", "link.Motion.q1")

    The link uses CAN FD if a message requires it. Each signal of a message is a port
    `Message.Signal` with the bounds of the DBC file. If the unit in the DBC file is known, the port
    has the corresponding rigidblocks unit. An input with a start value in the DBC file may stay
    unconnected. Sent values are clamped to their bounds; the link counts clamped values.

    Messages with a cycle time in the DBC file are sent once in each cycle, other messages in every
    step. Before the first frame of a message, and after `timeout` without a frame, the signals of
    the message have their safe values. The link ignores received frames that are too short, repeat
    the last counter, or have a wrong checksum. It also ignores frames with a non-finite value or
    with a value out of bounds.

    Args:
        interface: CAN interface, such as can0, or "fd:N" for an open socket inherited from the
            parent process.
        dbc: DBC file with the messages, read by cantools. Programs made by `build_runner` do not
            need cantools.
        send: Messages to send; the signals of these messages are inputs.
        receive: Messages to receive; the signals of these messages are outputs.
        timeout: Time [s] without a frame after which the signals of a message have their safe
            values. The default is three cycles, or 10 ms for messages without a cycle time; in
            lock-step, the default is 10 s.
        lock_step: Wait in each step for a new frame of each received message, at most `timeout`.
        lost: Reaction to a missing frame in lock-step. "end", the default, ends the run with an
            error. "hold" holds the last received values, and "safe" sets the safe values.
        start_timeout: Longest time [s] to wait for the first frames in lock-step, if lost="end".
        safe: Safe values by port name.
        counter: Name of the signals that count the frames of a message. Counters are not ports.
        checksum: Name of the signals with the SAE J1850 CRC-8 of the other bytes of a message.
            Checksums are not ports.

    Raises:
        ImportError: The package cantools is not installed.
        ValueError: A message is not in the DBC file or is multiplexed, the timeout is not positive,
            or a safe value is invalid.
        OSError: The first run cannot open the bus.
    """

    def __init__(
        self,
        interface: str,
        dbc: str | Path,
        send: Iterable[str],
        receive: Iterable[str],
        *,
        timeout: float | None = None,
        lock_step: bool = False,
        lost: str | None = None,
        start_timeout: float = LinkTimeouts.start_timeout,
        safe: Mapping[str, Any] | None = None,
        counter: str | None = None,
        checksum: str | None = None,
    ):
        if not re.fullmatch(r"fd:\d+|[^\s/:]{1,15}", interface):
            raise ValueError(f"invalid CAN interface {interface!r}; expected a name such as can0")
        self.interface = interface
        database = Database(dbc)
        names, theirs = tuple(send), tuple(receive)
        waits = LinkTimeouts(timeout, lock_step, lost, start_timeout)
        limit = waits.seconds if lock_step else timeout
        known = database.messages((*names, *theirs), limit, counter, checksum)
        self.sent, self.received = known[: len(names)], known[len(names) :]
        inputs = tuple(port for one in self.sent for port in database.ports(one))
        outputs = tuple(
            replace(port, start=None) for one in self.received for port in database.ports(one)
        )
        if not outputs:
            raise ValueError("a CAN link must receive one or more signals")
        longest = max(one.timeout for one in self.received)
        self._state = _State(self.sent, self.received)
        super().__init__(inputs, outputs, replace(waits, timeout=longest), safe)

    @property
    def ends(self) -> Ends:
        return Ends("LINK_CAN", self.interface, "")

    @property
    def starts(self) -> dict[str, float]:
        """Start values of the inputs by port name; an unconnected input sends its start value."""
        return {port.name: float(port.start) for port in self.inputs if port.start is not None}

    def _open(self) -> Transport:
        self._state = _State(self.sent, self.received)
        return _Bus(self.interface, self.sent, self.received)

    def _send(self, link: Transport, t: float, values: Array) -> None:
        state = self._state
        state.is_new = [False] * len(self.received)
        for k, message in enumerate(self.sent):
            if state.update_cycle(k, t):
                data, beyond = pack_frame(
                    message, values[_signal_slice(self.sent, k)].tolist(), state.counts[k]
                )
                state.counts[k] += 1
                self.counts["beyond bounds"] += beyond
                self._send_frame(link, message, data)

    @property
    def _is_answered(self) -> bool:
        return all(self._state.is_new)

    def _send_frame(self, link: Transport, message: Message, data: bytes) -> None:
        flags = (_FAST_BITS * message.has_fast_bits | _FLEXIBLE) if message.is_fd else 0
        head = _HEAD.pack(_id(message), len(data), flags)
        try:
            link.send(head + data.ljust(64 if message.is_fd else 8, b"\0"))
            self.counts["sent"] += 1
        except OSError:
            self.counts["unsent"] += 1

    def _receive(self, link: Transport) -> None:
        numbers = {_id(message): k for k, message in enumerate(self.received)}
        for frame in link.receive():
            if len(frame) not in (CLASSIC, FD):
                self.counts["foreign"] += 1
                continue
            number, size, _ = _HEAD.unpack_from(frame)
            if number not in numbers:
                self.counts["foreign"] += 1
            elif size > len(frame) - 8:  # the length field exceeds the received data
                self.counts["of wrong size"] += 1
            else:
                self._accept(numbers[number], frame[8 : 8 + size])

    def _accept(self, k: int, data: bytes) -> None:
        """Store the signal values of a frame of message k, or count the frame as faulty."""
        message, state = self.received[k], self._state
        if len(data) < message.size:
            self.counts["of wrong size"] += 1
            return
        if state.has_wrong_checksum(k, data):
            self.counts["of wrong checksum"] += 1
            return
        values, beyond = unpack_frame(message, data)
        if not all(map(math.isfinite, values)):
            self.counts["not finite"] += 1
        elif beyond:
            self.counts["beyond bounds"] += 1
        elif (counter_increment := state.counter_increment(k, data)) == 0:
            self.counts["doubled"] += 1
        else:
            self.counts["lost"] += counter_increment - 1
            self.counts["received"] += 1
            state.store_frame(k, data)
            self._values = self._values.copy()
            self._values[_signal_slice(self.received, k)] = values

    def _check_timeouts(self) -> None:
        """Set the outputs of each message with an expired timeout to their safe values."""
        state, now, is_safe = self._state, time.monotonic(), False
        for k, message in enumerate(self.received):
            silent = now - state.heard[k] > message.timeout
            if not state.is_new[k] if self.lock_step else silent:
                self.counts["watchdog events"] += not state.is_safe[k]
                state.is_safe[k] = True
            if (state.is_safe[k] and self.lost != HOLD) or state.last[k] is None:
                is_safe = True
                self._values = self._values.copy()
                signals = _signal_slice(self.received, k)
                self._values[signals] = self.safe[signals]
        self.counts["steps with safe values"] += is_safe


class _State:
    """State of a CAN link: cycle numbers of sent messages, last frames of received messages."""

    def __init__(self, sent: tuple[Message, ...], received: tuple[Message, ...]):
        self.messages, self.sent = received, sent
        self.counts, self.cycles = [0] * len(sent), [-1] * len(sent)
        self.heard, self.is_safe = [time.monotonic()] * len(received), [False] * len(received)
        self.last: list[bytes | None] = [None] * len(received)
        self.is_new = [False] * len(received)

    def update_cycle(self, k: int, t: float) -> bool:
        """Update the cycle number of sent message k; return True if a new cycle has begun.

        t is the time [s]. A message without a period has a new cycle in every step.
        """
        period = self.sent[k].period
        cycle = math.floor(t / period + _DUE) if period else self.cycles[k] + 1
        is_due = cycle != self.cycles[k]
        self.cycles[k] = cycle
        return is_due

    def has_wrong_checksum(self, k: int, data: bytes) -> bool:
        """Return True if the frame data of message k contain a wrong checksum."""
        message = self.messages[k]
        own = message.checksum
        return own is not None and extract_bits(own, data) != checksum_of(data, message)

    def counter_increment(self, k: int, data: bytes) -> int:
        """Return the counter increment of message k since the last received frame.

        The increment is 1 if no frame was lost, if the message has no counter, and for the first
        frame after a timeout.
        """
        counter, last = self.messages[k].counter, self.last[k]
        if counter is None or last is None or self.is_safe[k]:
            return 1
        return (extract_bits(counter, data) - extract_bits(counter, last)) % (1 << counter.length)

    def store_frame(self, k: int, data: bytes) -> None:
        """Store the data and the arrival time of a received frame of message k."""
        self.last[k], self.heard[k] = data, time.monotonic()
        self.is_safe[k], self.is_new[k] = False, True


def _signal_slice(messages: tuple[Message, ...], k: int) -> slice:
    """Return the slice of the signals of message k in the concatenated signals of all messages."""
    first = sum(len(one.signals) for one in messages[:k])
    return slice(first, first + len(messages[k].signals))


def _id(message: Message) -> int:
    """Return the CAN identifier of a message in the format of SocketCAN."""
    return message.id | EXTENDED * message.is_extended


class _Bus(Transport):
    def __init__(self, interface: str, sent: tuple[Message, ...], received: tuple[Message, ...]):
        try:
            if interface.startswith("fd:"):
                self._socket = socket.socket(fileno=os.dup(int(interface[3:])))
            else:
                self._socket = _open_buses(interface, sent, received)
        except (OSError, AttributeError) as error:
            why = getattr(error, "strerror", None) or error
            raise OSError(f"the link cannot open the CAN interface {interface}: {why}") from error

    def send(self, data: bytes) -> None:
        self._socket.send(data, socket.MSG_DONTWAIT)

    def receive(self) -> Iterator[bytes]:
        while True:
            try:
                frame = self._socket.recv(FD + 1, socket.MSG_DONTWAIT)
            except OSError:  # no frame is left
                return
            if not frame:  # the peer has closed the socket
                return
            yield frame

    def wait(self, seconds: float) -> None:
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        self._socket.close()


def _open_buses(
    interface: str, sent: tuple[Message, ...], received: tuple[Message, ...]
) -> socket.socket:
    """Open a socket on a CAN interface that receives only the messages in `received`."""
    own = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
    try:
        mask = EXTENDED | REQUEST  # the error flag would restrict the filter to error frames
        filters = b"".join(
            struct.pack("=II", _id(one), mask | (0x1FFFFFFF if one.is_extended else 0x7FF))
            for one in received
        )
        own.setsockopt(socket.SOL_CAN_RAW, socket.CAN_RAW_FILTER, filters)
        if any(one.is_fd for one in (*sent, *received)):
            own.setsockopt(socket.SOL_CAN_RAW, socket.CAN_RAW_FD_FRAMES, 1)
        own.bind((interface,))
    except BaseException:
        own.close()
        raise
    return own
