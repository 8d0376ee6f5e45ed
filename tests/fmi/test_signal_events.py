"""Signals with jumps and corners in model exchange.

The solver of the importer locates jumps and corners, so integrals of piecewise polynomials are
exact at any tolerance.
"""

from io import StringIO

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import System, simulate
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.library import (
    Compare,
    Constant,
    Integrator,
    Logic,
    LookupTable,
    Playback,
    Pulse,
    Ramp,
    RepeatingSequence,
    Sine,
    Step,
    Switch,
    Waypoints,
)

pytestmark = pytest.mark.slow  # each compiles an FMU
T, DT, RATE, PHASE = 2.0, 0.05, 0.7, 0.4  # duration, record step, and sine [Hz, rad]
POINTS, VALUES = np.array([-0.8, -0.3, 0.1, 0.15, 0.9]), np.array([0.5, -1.0, 2.0, 0.0, 1.0])
TIMES, CYCLE = np.array([0.0, 0.1, 0.37, 0.53]), np.array([0.2, 1.0, -0.5, 0.3])
FRO, ENDS = np.array([0.0, 0.7, 1.3]), np.array([-1.2, 1.2, -1.2])
RECORD = "time,a\n0.0,0.2\n0.31,1.0\n0.77,-0.5\n1.3,0.3\n"


def swing(t):
    return np.sin(2 * np.pi * RATE * t + PHASE)


def crossings(level):
    """Return the times at which the sine equals `level`, beyond the stop time too."""
    k = np.arange(-2, 8)[:, None]
    way = np.array([np.arcsin(level), np.pi - np.arcsin(level)])
    return ((way + 2 * np.pi * k - PHASE) / (2 * np.pi * RATE)).ravel()


def to_and_fro(t):
    return np.interp(np.mod(t, FRO[-1]), FRO, ENDS)


def arrivals():
    """Return the times at which the triangle wave reaches a table point or reverses."""
    there = np.interp(POINTS, ENDS[:2], FRO[:2]), np.interp(-POINTS, -ENDS[1:], FRO[1:])
    return np.concatenate([k * FRO[-1] + one for k in range(3) for one in (*there, FRO)])


def table(extrapolation):
    def of(t):
        u = to_and_fro(t)
        k = np.clip(np.searchsorted(POINTS, u) - 1, 0, len(POINTS) - 2)
        u = np.clip(u, POINTS[0], POINTS[-1]) if extrapolation == "hold" else u
        slope = np.diff(VALUES) / np.diff(POINTS)
        return VALUES[k] + slope[k] * (u - POINTS[k])

    return of


def of_the_record(t):
    rows = np.array([[float(x) for x in row.split(",")] for row in RECORD.split()[1:]])
    return np.interp(t, *rows.T)


def pulses(t, period, width=0.33):
    return ones((t >= 0.17) & (np.mod(t - 0.17, period) < width))


def ones(condition):
    return np.where(condition, 1.0, 0.0)


# block, its signal over time, and the corners of the signal
CASES = {
    "step": (Step(0.3137, -1.0, 2.0, unit=""), lambda t: np.where(t < 0.3137, -1.0, 2.0), [0.3137]),
    "at_once": (Step(0.0, unit=""), np.ones_like, []),
    "switch": (Switch(0.2), lambda t: np.where(swing(t) >= 0.2, 2.0, -1.0), crossings(0.2)),
    "compare": (Compare(-0.4), lambda t: ones(swing(t) < -0.4), crossings(-0.4)),
    "logic": (Logic("xor"), lambda t: ones((swing(t) > 0.5) ^ (t >= 0.9)), [*crossings(0.5), 0.9]),
    "table": (LookupTable(POINTS, VALUES), table("hold"), arrivals()),
    "endless_table": (
        LookupTable(POINTS, VALUES, "linear"), table("linear"), arrivals()
    ),
    "sequence": (
        RepeatingSequence(TIMES, CYCLE[:, None], unit=""),
        lambda t: np.interp(np.mod(t, TIMES[-1]), TIMES, CYCLE),
        np.ravel([k * TIMES[-1] + TIMES for k in range(4)]),
    ),
    "ramp": (Ramp(-1.5, 0.41, 0.2, unit=""), lambda t: 0.2 - 1.5 * np.maximum(t - 0.41, 0), [0.41]),
    "pulse": (Pulse(0.33, 2.0, begin=0.17, unit=""), lambda t: 2.0 * pulses(t, 9.0), [0.17, 0.5]),
    "pulses": (
        Pulse(0.13, 2.0, period=0.29, begin=0.17, offset=-1.0, unit=""),
        lambda t: 2.0 * pulses(t, 0.29, 0.13) - 1.0,
        np.ravel([0.17 + 0.29 * k + np.array([0.0, 0.13]) for k in range(8)]),
    ),
    "steps": (
        Waypoints(TIMES + 0.1, CYCLE, "hold", unit=""),
        lambda t: CYCLE[np.clip(np.searchsorted(TIMES + 0.1, t, "right") - 1, 0, 3)],
        TIMES + 0.1,
    ),
    "lines": (
        Waypoints(TIMES + 0.1, CYCLE, unit=""),
        lambda t: np.interp(t, TIMES + 0.1, CYCLE),
        TIMES + 0.1,
    ),
    "record": (Playback(StringIO(RECORD), ("a",), unit=""), of_the_record, [0.31, 0.77, 1.3]),
}  # fmt: skip


def system():
    """Return one system with all cases, each followed by an integrator."""
    whole = System()
    whole.add("sine", Sine(1.0, RATE, PHASE, unit=""))
    whole.add("late", Step(0.9, unit=""))
    whole.add("u1", Constant(2.0))
    whole.add("u3", Constant(-1.0))
    for name, (block, _, _) in CASES.items():
        whole.add(name, block)
        whole.add(f"integral_{name}", Integrator())
        whole.connect(f"{name}.y", f"integral_{name}.u")
    whole.add("ramps", RepeatingSequence(FRO, ENDS[:, None], unit=""))
    for name in ("switch.u2", "compare.u1", "logic.u1"):
        whole.connect("sine.y", name)
    for name in ("table.u", "endless_table.u"):
        whole.connect("ramps.y", name)
    for source, target in (("late", "logic.u2"), ("u1", "switch.u1"), ("u3", "switch.u3")):
        whole.connect(f"{source}.y", target)
    return ContinuousSystem(whole)


def integral(signal, corners):
    """Return the integrals at the multiples of DT, by Gauss quadrature between corners."""
    grid = DT * np.arange(round(T / DT) + 1)
    inside = np.asarray(corners, dtype=float)
    ends = np.unique(np.concatenate([grid, inside[(inside > 0) & (inside < T)]]))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(ends)[:, None] / 2
    parts = (half * weights * signal(ends[:-1, None] + half * (1 + nodes))).sum(axis=1)
    sums = np.concatenate([[0.0], np.cumsum(parts)])
    return grid, np.interp(grid, ends, sums)


@pytest.fixture(scope="module", params=[2, 3], ids=["fmi2", "fmi3"])
def made(request, tmp_path_factory):
    """Return the path of the FMU of a version."""
    folder = tmp_path_factory.mktemp("signals")
    return native_fmu(system(), folder / "it.fmu", name="it", fmi=request.param)


def test_integrals_of_discontinuous_signals_in_fmpy_are_exact_at_a_loose_tolerance(made):
    rows = fmpy.simulate_fmu(
        str(made), fmi_type="ModelExchange", stop_time=T, output_interval=DT,
        relative_tolerance=1e-6, record_events=False,
    )  # fmt: skip
    for name in ("step", "at_once", "switch", "compare", "logic"):
        _, signal, corners = CASES[name]
        t, expected = integral(signal, corners)
        assert_allclose(rows[f"integral_{name}.y"], expected, atol=1e-10, err_msg=name)
    assert_allclose(rows["time"], t, atol=1e-12)


def test_integrals_of_signals_with_jumps_and_kinks_in_simulate_are_exact(made):
    """Integrals of piecewise polynomials are exact at any tolerance."""
    whole = System()
    whole.add("it", made, kind="model exchange", method="adaptive", rtol=1e-4)
    result = simulate(whole, T, DT)
    for name, (_, signal, corners) in CASES.items():
        found, (_, expected) = np.ravel(result[f"it.integral_{name}.y"]), integral(signal, corners)
        assert_allclose(found, expected, atol=1e-10, err_msg=name)
