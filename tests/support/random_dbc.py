"""Random databases of a CAN bus, with signals in both byte orders."""

import numpy as np


def bits(start, length, is_big):
    """Return the bit positions of a signal."""
    places, at = [], start
    for _ in range(length):
        places.append(at)
        at += (15 if at % 8 == 0 else -1) if is_big else 1
    return places


def random_dbc(rng, n):
    """Return the text of a DBC with n messages of 1 to 64 bytes and disjoint signals."""
    lines = ['VERSION ""', "NS_ :", "BS_:", "BU_: ECU", ""]
    floats, formats = [], []
    for k in range(n):
        size = int(rng.choice([1, 2, 3, 5, 8, 8, 8, 8, 10, 12, 20, 64]))
        number = k + 1 if k % 3 else (0x80000000 | (0x10000 + k))
        lines.append(f"BO_ {number} Message{k}: {size} ECU")
        formats.append((number, (14 if size > 8 else 0) + (number >= 1 << 31)))
        taken, signals = set(), 0
        for _ in range(200):
            line, places, kind = _signal(rng, f"s{k}_{signals}", size)
            if signals < 30 and places is not None and not taken & places:
                taken |= places
                lines.append(line)
                if kind:
                    floats.append((number, f"s{k}_{signals}", kind))
                signals += 1
        lines.append("")
    lines += [f"SIG_VALTYPE_ {number} {name} : {kind};" for number, name, kind in floats]
    names = [*(f"reserved{k}" for k in range(14)), "StandardCAN_FD", "ExtendedCAN_FD"]
    names[:2] = "StandardCAN", "ExtendedCAN"
    kinds = ",".join(f'"{name}"' for name in names)
    lines.append(f'BA_DEF_ BO_ "VFrameFormat" ENUM {kinds};')
    lines.append('BA_DEF_DEF_ "VFrameFormat" "StandardCAN";')
    lines += [f'BA_ "VFrameFormat" BO_ {number} {value};' for number, value in formats]
    return "\n".join(lines) + "\n"


def _signal(rng, name, size):
    """Return a line, its bits, and the float type: none (0), single (1), double precision (2)."""
    kind = int(rng.choice([0] * 8 + [1, 2]))
    length = {0: int(rng.choice([1, 2, 7, 8, 12, 16, 24, 31, 32, 33, 53, 64])), 1: 32, 2: 64}[kind]
    is_big, start = bool(rng.integers(2)), int(rng.integers(8 * size))
    places = bits(start, length, is_big)
    if max(places) >= 8 * size or min(places) < 0:
        return "", None, 0
    sign = "-" if kind or rng.integers(2) else "+"
    scale = rng.choice(["1", "0.1", "0.05", "2", "-0.5", "0.0078125", "1e-05"])
    offset = rng.choice(["0", "0", "-40", "0.3", "1000"])
    order = 0 if is_big else 1
    line = f' SG_ {name} : {start}|{length}@{order}{sign} ({scale},{offset}) [0|0] "" ECU'
    return line, set(places), kind


def random_raw(rng, signal):
    """Return a raw value that a signal of cantools can have, sometimes an end of its range."""
    if signal.is_float:
        number = float(np.float32(rng.normal(scale=10.0 ** rng.integers(-5, 6))))
        return number if rng.integers(8) else 0.0
    low = -(1 << (signal.length - 1)) if signal.is_signed else 0
    high = low + (1 << signal.length) - 1
    kind = rng.integers(4)
    if kind < 2:
        return (low, high)[kind]
    return low + int(rng.integers(0, 1 << 62)) % (high - low + 1)
