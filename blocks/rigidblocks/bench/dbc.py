"""Messages of a DBC file, the database of a CAN bus, as tables (`frame`)."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.bench.frame import Message, Signal
from rigidblocks.block.port import Port
from rigidblocks.block.record import offer

_LARGEST = {32: float(np.finfo(np.float32).max), 64: float(np.finfo(float).max)}
_TURN = 2 * math.pi


class _Unit(NamedTuple):
    """A unit of blocks, and how a number in another becomes one in it: factor number + shift."""

    name: str
    factor: float = 1.0
    shift: float = 0.0


# units by their spellings in databases, without blanks, in small letters
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
    """The messages of a DBC file, each with the node that sends it.

    Raises ImportError without cantools, OSError for a file that cannot be read, and ValueError for
    one that is no DBC.
    """

    def __init__(self, path: str | Path):
        cantools = _cantools()
        try:
            self._messages = cantools.database.load_file(str(path), strict=False).messages
        except cantools.database.Error as error:
            raise ValueError(f"{path} cannot be read as a DBC: {error}") from error
        self._path = path

    def messages(
        self, names: Iterable[str], timeout: float | None, counter: str | None, checksum: str | None
    ) -> tuple[Message, ...]:
        """Messages by their names; signals named `counter` and `checksum` count and check them.

        Raises ValueError for a name that there is not or that comes twice, and for a message that
        is multiplexed or otherwise more than numbers at fixed places.
        """
        known = {message.name: message for message in self._messages}
        names = tuple(names)
        for k, name in enumerate(names):
            if name not in known:
                raise ValueError(
                    f"there is no message '{name}' in {self._path}{offer(name, known)}"
                )
            if name in names[:k]:
                raise ValueError(f"the message '{name}' is named twice")
        return tuple(_message(known[name], timeout, counter, checksum) for name in names)

    def ports(self, message: Message) -> tuple[Port, ...]:
        """The ports of a message, `Message.Signal` each, in units of blocks."""
        (known,) = (one for one in self._messages if one.name == message.name)
        signals = {one.name: one for one in known.signals}
        return tuple(_port(message, one, signals[one.name]) for one in message.signals)


def _cantools() -> Any:
    try:
        import cantools
        import cantools.database
    except ImportError as error:
        text = "reading a DBC needs cantools: pip install 'rigidblocks[can]'"
        raise ImportError(text) from error
    return cantools


def _message(
    known: Any, timeout: float | None, counter: str | None, checksum: str | None
) -> Message:
    if any(one.is_multiplexer or one.multiplexer_ids for one in known.signals):
        raise ValueError(
            f"the message '{known.name}' is multiplexed: what its bits mean depends on other bits "
            "of it, and a link by CAN takes messages of fixed signals"
        )
    if known.is_container:
        raise ValueError(f"the message '{known.name}' contains others, and no link takes those")
    try:
        known.refresh(strict=True)
    except _cantools().database.Error as error:
        raise ValueError(f"the message '{known.name}' is not one that is: {error}") from error
    signals = tuple(_signal(known.name, one) for one in known.signals)
    extra = {one.name: one for one in signals if one.name in (counter, checksum)}
    attributes = {} if known.dbc is None else known.dbc.attributes
    fast = attributes.get("CANFD_BRS")
    period = (known.cycle_time or 0) * 1e-3
    message = Message(
        known.name,
        known.frame_id,
        known.is_extended_frame,
        known.is_fd or known.length > 8,
        fast is None or str(fast.value) not in ("0", "False"),
        known.length,
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
            raise ValueError(f"{message.name}.{one.name} is no whole number, which a {what} is")
    first = message.checksum
    if first and (first.length != 8 or first.start % 8 != (7 if first.is_big else 0)):
        raise ValueError(
            f"{message.name}.{first.name} is no byte of its own, which a checksum is (CRC-8 of "
            "SAE J1850)"
        )


def _signal(message: str, known: Any) -> Signal:
    scale, offset = float(known.scale), float(known.offset)
    is_float = bool(known.is_float)
    if scale == 0 or not (math.isfinite(scale) and math.isfinite(offset)):
        raise ValueError(
            f"{message}.{known.name} has the scale {scale:g}, by which nothing is told"
        )
    if is_float and known.length not in _LARGEST:
        raise ValueError(f"{message}.{known.name} is a float of {known.length} bits")
    unit = _unit(known.unit)
    low, high = _field(known)
    bounds = [
        bound if is_float else round(bound)
        for bound in (
            (float(value) - offset) / scale
            for value in (known.minimum, known.maximum)
            if value is not None
        )
    ]
    if len(bounds) == 2 and known.minimum < known.maximum:
        low, high = max(low, min(bounds)), min(high, max(bounds))
    return Signal(
        known.name,
        known.start,
        known.length,
        known.byte_order == "big_endian",
        bool(known.is_signed) and not is_float,
        is_float,
        scale,
        offset,
        float(low),
        float(high),
        unit.factor,
        unit.shift,
    )


def _field(known: Any) -> tuple[float, float]:
    """The numbers that the bits of a signal can have."""
    if known.is_float:
        return -_LARGEST[known.length], _LARGEST[known.length]
    n = known.length - bool(known.is_signed)
    # the last double before 2^n, where that is beyond what doubles count by ones
    highest = float(2**n - 1) if n <= 53 else float(np.nextafter(2.0**n, 0.0))
    return (-(2.0**n) if known.is_signed else 0.0), highest


def _unit(unit: str | None) -> _Unit:
    return _UNITS.get("".join((unit or "").split()).lower(), _OPEN)


def _port(message: Message, signal: Signal, known: Any) -> Port:
    """The port of a signal; one whose unit is not known leaves it open."""

    def value(raw: float) -> float:
        return signal.factor * (raw * signal.scale + signal.offset) + signal.shift

    low, high = sorted((value(signal.low), value(signal.high)))
    start = None
    if known.raw_initial is not None:
        start = min(max(value(float(known.raw_initial)), low), high)
    unit = _unit(known.unit)
    comment = " ".join((known.comment or "").split())
    left = f" [{known.unit}]" if known.unit and unit is _OPEN else ""
    return Port(
        f"{message.name}.{signal.name}",
        (),
        unit.name,
        f"{comment}{left}".strip(),
        start,
        min=low,
        max=high,
    )
