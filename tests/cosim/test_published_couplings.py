"""Co-simulations that other masters publish as their tests, with the published values.

Blocks or an FMU in C replace the original FMUs. The sources give the equations of the original
FMUs. The equations for Maestro follow from the published values to the last digit.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline

from algebraic_laws import Law, circle
from foreign_fmu import foreign_fmu
from rigidblocks import Block, Port, System, select, simulate


def number(name, start=None):
    return Port(name, (), "1", name, start)


def wired(parts, wires):
    system = System()
    for name, part in parts.items():
        system.add(name, part)
    for source, target in wires:
        system.connect(source, target)
    return system


def run(system, t_stop, dt, **options):
    return simulate(system, t_stop, dt, form="numpy", method="rk4", progress=False, **options)


@dataclass(frozen=True)
class Population(Block):
    """x' = x (growth + loss other)."""

    growth: float
    loss: float

    inputs = (number("other", 10.0),)
    outputs = (number("x"),)
    states = (number("x", 10.0),)

    def derivative(self, x, u):
        return {"x": x.x * (self.growth + self.loss * u.other)}


# ghorwin/MasterSim, data/tests/linux64/Lotka_Volterra_System/description: LotkaVolterra.mo and
# reference_results.d6o, "solution from OpenModelica, tol 1e-6": time, prey, predator
LOTKA_VOLTERRA = np.array(
    [
        (0.4274352682642133, 9.616109375592885, 9.165042626086878),
        (3.083973506113659, 8.663179992198, 5.100255616459647),
        (10.21592418449893, 12.20528205253914, 1.206642189953494),
        (16.24844382342544, 20.0806393040937, 0.7221414565598745),
        (26.0132571346096, 38.48891780213405, 5.101717772924577),
        (31.10142516658156, 19.89708375852036, 16.30797386318847),
    ]
)


@pytest.mark.slow
def test_lotka_volterra_results_match_the_reference_results_of_mastersim():
    system = wired(
        {"prey": Population(0.1, -0.02), "predator": Population(-0.4, 0.02)},
        (("prey.x", "predator.other"), ("predator.x", "prey.other")),
    )
    result = run(system, 32.0, 0.1, h=0.05, iterate=True, extrapolate=1)
    x, y = result["prey.x"], result["predator.x"]
    level = 0.02 * (x + y) - 0.4 * np.log(x) - 0.1 * np.log(y)  # conserved quantity
    assert_allclose(level, level[0], atol=2e-5)
    times, *populations = LOTKA_VOLTERRA.T
    for ours, theirs in zip((x, y), populations, strict=True):
        assert_allclose(CubicSpline(result.time, ours)(times), theirs, rtol=1e-4)


@dataclass(frozen=True)
class Switches(Block):
    """x1 and x2 of MasterSim's Math_003 as functions of time."""

    outputs = (number("x1"), number("x2"))

    def output(self, t):
        x1 = select(t < 1.0, 0.0, select(t < 2.0, 1.0, select(t < 5.0, 0.0, 1.0)))
        x2 = select(t < 3.0, 0.0, select(t < 4.0, 1.0, select(t < 6.0, 0.0, 1.0)))
        return {"x1": x1, "x2": x2}


@dataclass(frozen=True)
class TwoPoint(Block):
    """x3 of Math_003, and the distances of x4 from its end positions."""

    inputs = (number("x1"), number("x2"), number("x4"))
    outputs = (number("x3"), number("above"), number("below"))

    def output(self, u):
        up = select(u.x2 <= 0.01, select(u.x4 < 2.5, 3.0, 0.0), 0.0)
        down = select(u.x2 > 0.0, select(u.x4 > -2.5, -3.0, 0.0), 0.0)
        x3 = select(u.x1 > 0.0, up, down)
        return {"x3": x3, "above": 2.5 - u.x4, "below": u.x4 + 2.5}


@dataclass(frozen=True)
class Ramp(Block):
    """x4' = 2 x3 of Math_003."""

    inputs = (number("x3"),)
    outputs = (number("x4"),)
    states = (number("x4", 0.0),)

    def derivative(self, u):
        return {"x4": 2.0 * u.x3}


# ghorwin/MasterSim, data/examples/linux64/Math_003_control_loop/description/reference_results.tsv
CONTROL_LOOP = (
    (1.0, 0.0),
    (2.0, 2.5),
    (3.0, 2.5),
    (4.0, -2.5),
    (5.0, -2.5),
    (6.0, 2.5),
    (7.0, 2.5),
)


def test_results_with_two_point_control_match_the_reference_results_of_mastersim():
    system = wired(
        {"switches": Switches(), "control": TwoPoint(), "ramp": Ramp()},
        (
            ("switches.x1", "control.x1"),
            ("switches.x2", "control.x2"),
            ("ramp.x4", "control.x4"),
            ("control.x3", "ramp.x3"),
        ),
    )
    result = run(system, 7.0, 0.25, h=0.25, events=["control.above", "control.below"])
    for t, x4 in CONTROL_LOOP:
        assert abs(result["ramp.x4"][np.flatnonzero(result.time == t)[-1]] - x4) < 1e-11
    assert_allclose([one.t for one in result.events], [1 + 5 / 12, 3 + 5 / 6, 5 + 5 / 6])


def test_results_with_a_linear_algebraic_loop_match_the_reference_results_of_mastersim():
    # ghorwin/MasterSim, data/tests/Math_019_lin_equ_small: 1 = x1 + x3; 1 = x1 + x2 + x3, x2 = x3
    system = circle(lambda _t, x3: 1.0 - x3, lambda _t, x1: 0.5 - 0.5 * x1)
    result = run(system, 1.0, 0.1, iterate="newton")
    assert_allclose(result["law0.y"], 1.0, atol=1e-12)
    assert_allclose(result["law1.y"], 0.0, atol=1e-12)


@dataclass(frozen=True)
class Clock(Block):
    """Time, and the number of steps."""

    sample_time: float | None
    outputs = (number("t"), number("n"))
    sampled = (number("n", 0.0),)

    def update(self, t):
        return {"n": t / self.sample_time}

    def output(self, t):
        return {"t": 1.0 * t}


def test_each_adder_of_a_chain_delays_by_one_step_as_in_libcosim():
    # open-simulation-platform/libcosim, tests/fixed_step_algorithm_test.cpp: a clock and nine parts
    # that each add 1.234, with steps of 50 ms; after ten steps the last output grows by 50 ms/step
    adders = {f"adder{k}": Law(lambda _t, u: 1.234 + u) for k in range(1, 10)}
    wires = [(f"adder{k}.y", f"adder{k + 1}.u") for k in range(1, 9)]
    system = wired({"clock": Clock(0.05)} | adders, [("clock.t", "adder1.u"), *wires])
    result = run(system, 1.0, 0.05, order="jacobi")
    there = result.time > 0.45
    late = 9 * 0.05  # each part delays by one step
    assert_allclose(result["adder9.y"][there], result.time[there] - late + 9 * 1.234, rtol=1e-14)


@dataclass(frozen=True)
class Slow(Block):
    """Part with long steps: its output at the end of a step is its input at the start."""

    sample_time: float | None
    inputs = (number("u", 0.0),)
    outputs = (number("y"),)
    sampled = (number("y", 0.0), number("got", 0.0))

    def update(self, x, u):
        return {"y": x.got, "got": u.u}


def test_part_with_a_longer_step_reads_the_same_input_values_as_in_libcosim():
    # tests/multi_fixed_step_algorithm_test.cpp: a part counts steps of 0.1 s, and a part with steps
    # of 0.2 s reads the count
    system = wired({"count": Clock(0.1), "slow": Slow(0.2)}, [("count.n", "slow.u")])
    result = run(system, 1.0, 0.1)
    assert_allclose(result["count.n"][1:], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    assert_allclose(result["slow.y"][2::2], [0.0, 2.0, 4.0, 6.0, 8.0])


# a mass on a spring and a damper with RK4, whose first stage reads the input of the previous step,
# as in Maestro's FMUs: x" = G u - K x - D x', force = 200 (x - u)
MASS = """double *r = i->r, x = r[1], v = r[2], a[4], w[4] = {v, 0.0, 0.0, 0.0};
    a[0] = G * r[4] - K * x - D * v;
    for (int k = 1; k < 4; k++) {
        double s = k < 3 ? dt / 2.0 : dt;
        w[k] = v + s * a[k - 1];
        a[k] = G * r[0] - K * (x + s * w[k - 1]) - D * w[k];
    }
    r[1] = x + dt / 6.0 * (w[0] + 2.0 * w[1] + 2.0 * w[2] + w[3]);
    r[2] = v + dt / 6.0 * (a[0] + 2.0 * a[1] + 2.0 * a[2] + a[3]);
    r[3] = 200.0 * (r[1] - r[0]);
    r[4] = r[0];"""
VARIABLES = (
    ("u", "input", 0, "Real"),
    ("x", "output", 1, "Real"),
    ("v", "output", 2, "Real"),
    ("force", "output", 3, "Real"),
)


# INTO-CPS-Association/maestro, maestro/src/test/resources/jacobian_step_builder/legacy_unstable,
# expectedoutputs.csv: number of 10 ms steps, speed and position of the first mass, force
TWO_MASSES = (
    (1, -0.009950000416666667, 0.9999501666666667, -198.67333333333332),
    (2, -1.6687886733083332, 0.9931954449750695, -193.4368985455639),
    (3, -3.5953206998114364, 0.9668150597528973, -183.1487142026554),
    (11, -10.038375992314307, 0.27988730810201234, 83.41016526368021),
    (20, 5.8934615994489015, 0.0032692224204405942, 183.46433387178985),
)


@pytest.mark.slow
def test_results_of_an_unstable_coupling_of_two_masses_match_the_reference_of_maestro(tmp_path):
    parts = {}
    for name, (K, D, G, x) in {"first": (1, 1, 1, 1), "second": (201, 2, 200, 0)}.items():
        define = f"double K = {K}.0, D = {D}.0, G = {G}.0;\n"
        parts[name] = foreign_fmu(
            tmp_path / f"{name}.fmu",
            step=define + MASS,
            start=f"i->r[1] = {x}.0;",
            variables=VARIABLES,
        )
    system = wired(parts, (("first.x", "second.u"), ("second.force", "first.u")))
    result = simulate(system, 0.2, 0.01, form="numpy", order="jacobi", progress=False)
    for k, v, x, force in TWO_MASSES:
        ours = [result[name][k] for name in ("first.v", "first.x", "second.force")]
        assert_allclose(ours, [v, x, force], rtol=1e-12)


@dataclass(frozen=True)
class Tank(Block):
    """level' = 1 - valve 9.81/9 level."""

    inputs = (number("valve", 0.0),)
    outputs = (number("level"),)
    states = (number("level", 0.0),)

    def derivative(self, x, u):
        return {"level": 1.0 - u.valve * (9.81 / 9.0) * x.level}


@dataclass(frozen=True)
class Valve(Block):
    """Valve that opens at levels of at least 2 and closes below 1."""

    sample_time = 0.1
    inputs = (number("level", 0.0),)
    outputs = (number("valve"),)
    sampled = (number("valve", 0.0),)

    def update(self, x, u):
        shut = select(u.level < 1.0, 0.0, x.valve)
        return {"valve": select(u.level < 2.0 - 1e-9, shut, 1.0)}


def test_water_tank_valve_switches_at_the_times_published_for_maestro():
    # maestro/src/test/resources/specifications/full/initialize_fixedstep_singleWaterTank,
    # expectedoutputs.csv: switching times of the valve, and levels; Maestro's tank is ahead of the
    # reported time by up to one of its steps of 10 ms
    system = wired(
        {"tank": Tank(), "control": Valve()},
        (("tank.level", "control.level"), ("control.valve", "tank.valve")),
    )
    result = run(system, 8.0, 0.1, h=0.1, order="jacobi")
    turns = np.flatnonzero(np.diff(result["control.valve"])) + 1
    assert_allclose(result.time[turns], [2.1, 4.7, 5.9])
    for t, level in (
        (1.0, 1.0),
        (3.0, 1.3660053),
        (4.6, 0.9958508),
        (5.5, 1.7859580),
        (8.0, 1.0464215),
    ):
        assert abs(result["tank.level"][round(t / 0.1)] - level) < 0.011
