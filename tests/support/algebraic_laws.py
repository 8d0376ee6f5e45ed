"""Blocks with direct feedthrough in algebraic loops."""

from dataclasses import dataclass

import numpy as np

from rigidblocks import Block, Port, System


@dataclass(frozen=True)
class Law(Block):
    """Block whose output is a function of its input and the time."""

    law: object

    inputs = (Port("u", (), "1", "input", 0.0),)
    outputs = (Port("y", (), "1", "output"),)

    def output(self, t, u):
        return {"y": self.law(t, u.u)}


def circle(*laws):
    """Connect blocks with these laws to an algebraic loop."""
    return circle_of([Law(law) for law in laws])


def circle_of(parts):
    """Connect blocks or their FMUs to an algebraic loop."""
    system = System()
    names = [f"law{k}" for k in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        system.add(name, part)
    for name, other in zip(names, names[1:] + names[:1], strict=True):
        system.connect(f"{name}.y", f"{other}.u")
    return system


def disagreement(result, laws):
    """Return the largest residual of the laws, relative to outputs above 1."""
    y = [result[f"law{k}.y"] for k in range(len(laws))]
    return max(
        np.abs(y[k] - law(result.time, y[k - 1])).max() / max(1.0, np.abs(y[k]).max())
        for k, law in enumerate(laws)
    )


LOOPS = {
    "gain -3": (lambda t, u: -3.0 * u + np.cos(t), lambda _t, u: u),
    "gain 0.5": (lambda t, u: 0.5 * u + np.cos(t), lambda _t, u: u),
    "gain 40 around three": (
        lambda t, u: 4.0 * u + t,
        lambda _t, u: -5.0 * u,
        lambda _t, u: 2.0 * u + 1.0,
    ),
    "cubic": (lambda t, u: 2.0 * u + np.cos(t), lambda _t, u: -u * u * u - 2.0 * u + 1.0),
    "sine": (lambda t, u: 5.0 * np.sin(u) + t, lambda _t, u: -u),
}
