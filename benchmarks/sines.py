"""Largest errors of sine and cosine in SIMD lanes, compared with 80-bit long doubles.

The errors are in units of the last place. The number of arguments, of all magnitudes, is 10^8 or
the first command-line argument.
"""

import sys

import numpy as np

from rigidblocks.tracing.compiled_functions import CompiledBatch
from rigidblocks.tracing.trace import trace

PART = 1_000_000


def arguments(rng: np.random.Generator, k: int) -> np.ndarray:
    """Return arguments: of all magnitudes, near multiples of pi / 2, or up to 100 rad."""
    sign = rng.choice([-1.0, 1.0], PART)
    match k % 3:
        case 0:
            return sign * 10.0 ** rng.uniform(-300.0, 308.0, PART)
        case 1:
            near = rng.integers(0, 2**40, PART) * (np.pi / 2)
            return sign * near * (1.0 + rng.integers(-4, 5, PART) * np.finfo(float).eps)
        case _:
            return rng.uniform(-100.0, 100.0, PART)


def main() -> None:
    """Print the largest errors; fail if an error is above 1 ulp."""
    count = int(float(sys.argv[1])) if len(sys.argv) > 1 else 100_000_000
    graph = trace("waves", lambda x: {"s": np.sin(x), "c": np.cos(x)}, {"x": ()})
    waves, rng, worst = CompiledBatch(graph), np.random.default_rng(0), np.zeros(2)
    for k in range(-(-count // PART)):
        x = arguments(rng, k)
        for which, (ours, function) in enumerate(zip(waves(x), (np.sin, np.cos), strict=True)):
            true = function(x.astype(np.longdouble))
            off = np.abs(ours - true) / np.spacing(np.abs(true.astype(float)))
            worst[which] = max(worst[which], float(off.max()))
    print(f"{count:,} arguments: sine off by {worst[0]:.3f} ulp at most, cosine by {worst[1]:.3f}")
    if not worst.max() < 1.0:
        raise SystemExit("above 1 ulp")


if __name__ == "__main__":
    main()
