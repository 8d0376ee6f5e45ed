"""What is suspected to have made the values of a block not finite, for messages."""

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import EIGENVALUE, MOST_TRIES, Method, nominal_values
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.memory import Memory, put
from rigidblocks.block.stiffness import quotients

EDGE = 2.0  # h times an eigenvalue beyond which most explicit methods of fixed steps are unstable


def suspected_cause(memory: Memory, method: Method, h: float, m: Array) -> str:
    """The suspected cause of values in m that are not finite after steps by `method` of at most h
    [s], in brackets behind a space; empty where nothing is known.
    """
    if not memory.block.states or not np.isfinite(m[memory.u]).all():
        return ""
    singular = "; ".join(memory.block.suspects(memory.argument("x", m)))
    if memory.steps:
        if singular:
            return f" ({singular})"
        return _of_adaptive_steps(memory, float(m[memory.s][EIGENVALUE]))
    assert isinstance(method, Integrator)
    fastest, known = fastest_eigenvalue(memory, m), _known_limit(memory, m)
    if method.implicit is None and fastest * h > EDGE:
        return (
            f" (it is stiff: its fastest eigenvalue is about {fastest:.3g} 1/s at the start, and "
            f"times steps of {h:g} s that is {fastest * h:.3g}, where '{method.name}' takes about "
            f"2.8: take steps below {2.8 / fastest:.2g} s, or method='adaptive or stiff')"
        )
    if method.implicit is None and known * h > EDGE:
        return (
            f" (its contacts, stops or springs come to eigenvalues of {known:.3g} 1/s, and times "
            f"steps of {h:g} s that is {known * h:.3g}: take steps below {2.8 / known:.2g} s, or "
            "method='adaptive or stiff')"
        )
    if singular:
        return f" ({singular})"
    return (
        f" (steps of at most {h:g} s may be too long for it{_pose(memory)}: method='adaptive' "
        "finds their length, and 'adaptive or stiff' is for what decays fast, too)"
    )


def _of_adaptive_steps(memory: Memory, eigenvalue: float) -> str:
    if eigenvalue > 0:
        return (
            " (it seems to be stiff, with a fastest eigenvalue of about "
            f"{eigenvalue:.3g} 1/s: method='stiff')"
        )
    return (
        f" (no inner step, however short, leads on from there, or more than {MOST_TRIES:.0e} are "
        f"needed{_pose(memory)})"
    )


def _pose(memory: Memory) -> str:
    """What to look at where loops may be near a singular pose."""
    if "condition" not in memory.where:
        return ""
    return "; its loops may be near a singular pose, which its output 'condition' tells before"


def fastest_eigenvalue(memory: Memory, m: Array) -> float:
    """The size [1/s] of the fastest eigenvalue of a block at its start values with the inputs and
    parameters of m; 0 where there is none that is finite.
    """
    evaluator, start = NumpyEvaluator(memory), memory.start()
    start[memory.u], start[memory.p] = m[memory.u], m[memory.p]
    x, nominal = start[memory.x], nominal_values(memory.block.states)

    def rates(t: float, x: Array) -> Array:
        return evaluator.derivative(put(put(start, 0, t), memory.x, x))

    with np.errstate(all="ignore"):
        J, _ = quotients(rates, 0.0, x, 1e-3, rates(0.0, x), nominal)
    return float(np.abs(np.linalg.eigvals(J)).max()) if np.isfinite(J).all() else 0.0


def _known_limit(memory: Memory, m: Array) -> float:
    """The largest of the eigenvalues [1/s] that the block knows it may come to (`Block.modes`)."""
    start = memory.start()
    start[memory.p] = m[memory.p]
    _, x, _, p = memory.records(start)
    return float(np.abs(memory.block.modes(x, p)).max(initial=0.0))
