"""Better steps of a run: their order, what they solve, and what they tell.

The oracle of the motions is SciPy on the equations that were not cut.
"""

import json
import logging
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from algebraic_laws import LOOPS, Law, circle, circle_of, disagreement
from coupled_systems import Case, Load, drivetrain, of_result, oscillator, quarter_car
from rigidblocks import Block, Port, System, prepare, simulate
from rigidblocks.fmi.native import native_fmu
from rigidblocks.library.delays import UnitDelay

CASES = {"oscillator": oscillator(), "quarter car": quarter_car(), "drivetrain": drivetrain()}
SCHEMES = {
    "held": (1, {"order": "jacobi"}),
    "line": (2, {"order": "jacobi", "extrapolate": 1}),
    "parabola": (3, {"order": "jacobi", "extrapolate": 2}),
    "again": (2, {"iterate": True}),
    "again simultaneous": (2, {"order": "jacobi", "iterate": True}),
    "newton": (2, {"iterate": "newton"}),
}
STEPS = (5e-3, 2.5e-3, 1.25e-3)
ORDER = 0.2  # how far the fitted order may be from what it should be
SAME = 1e-12


def error_of(case, dt, parts=None, **options):
    """The largest error of all positions and velocities in a run."""
    system = case.system(parts)
    result = simulate(system, case.t_stop, dt, h=1.25e-3, progress=False, **options)
    return np.abs(of_result(result) - case.motion(result.time)).max()


def fitted_order(errors):
    return np.polyfit(np.log(STEPS), np.log(errors), 1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", CASES)
def test_error_falls_with_the_order_of_the_coupling(case, scheme):
    order, options = SCHEMES[scheme]
    errors = [error_of(CASES[case], dt, **options) for dt in STEPS]
    assert abs(fitted_order(errors) - order) < ORDER


def test_the_drivetrain_sticks_slips_and_sticks_again():
    speed = drivetrain().motion(np.linspace(0.0, 1.5, 301))[:, 3]
    slips = speed > 0.15 * speed.max()
    assert np.flatnonzero(np.diff(slips)).size == 4  # loose, stuck, loose, stuck
    assert not slips[0]
    assert not slips[-1]


@pytest.mark.slow
def test_where_held_inputs_explode_a_second_pass_does_not():
    case = Case(oscillator().driver, oscillator().load, 4.0)
    assert error_of(case, 0.02, order="jacobi") > 65.0
    assert error_of(case, 0.02, iterate=True) < 0.2
    assert error_of(case, 0.02, order="jacobi", iterate=True) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"extrapolate": 2}, {"iterate": True}])
@pytest.mark.parametrize("method", ["adaptive", "ros2"])
def test_numpy_and_c_follow_the_same_polynomials(method, options):
    runs = [
        simulate(oscillator().system(), 0.1, 0.01, form=form, method=method, **options)
        for form in ("numpy", "compiled")
    ]
    np.testing.assert_allclose(*(np.asarray(run.values) for run in runs), rtol=SAME, atol=SAME)


@pytest.mark.slow
def test_held_steps_in_python_are_those_of_the_loop_in_c_to_the_last_bit():
    for order in ("jacobi", "gauss-seidel"):
        runs = [
            simulate(oscillator().system(), 0.2, 0.01, order=order, bonds=bonds)
            for bonds in (False, True)
        ]
        np.testing.assert_array_equal(*(np.asarray(run.values) for run in runs))


@pytest.mark.parametrize("name", LOOPS)
def test_algebraic_loops_are_solved(name):
    laws = LOOPS[name]
    result = simulate(circle(*laws), 1.0, 0.1, iterate="newton", form="numpy", progress=False)
    assert disagreement(result, laws) < SAME


def test_a_loop_without_a_solution_says_so():
    system = circle(lambda _t, u: u + 1.0, lambda _t, u: u)
    with pytest.raises(Exception, match="'law0' and 'law1' exchange"):
        simulate(system, 1.0, 0.1, iterate="newton", form="numpy", progress=False)


@pytest.mark.slow
def test_the_error_follows_the_tolerance_over_four_decades():
    case = oscillator(0.0)
    for tolerance in 10.0 ** -np.arange(1, 6):
        error = error_of(case, 0.1, extrapolate=1, iterate=True, step_tol=tolerance)
        assert tolerance / 10 < error < 10 * tolerance


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"order": "jacobi"}, {"order": "jacobi", "extrapolate": 2}]
)
def test_the_error_follows_the_tolerance_without_repeated_steps(options):
    case = oscillator(0.0)
    for tolerance in (1.0, 0.1, 0.01):
        error = error_of(case, 0.1, step_tol=tolerance, **options)
        assert tolerance / 10 < error < 10 * tolerance


def test_what_no_step_keeps_is_told_at_once_and_in_the_end(caplog):
    result = simulate(
        oscillator().system(), 0.1, 0.1, step_tol=1e-6, step_min=0.1 / 4, h=0.01, form="numpy"
    )
    first, last = (record.getMessage() for record in caplog.records[-2:])
    assert first.startswith("at t = 0 s the shortest steps, of 0.025 s, have ")
    assert "take iterate=True with extrapolate=1" in first
    assert last.startswith("2 of 2 steps of the coupling were taken with an error above step_tol")
    told = json.loads(result.meta["coupling"])
    assert told["shortest"] == 0.1 / 4
    assert told["largest error [step_tol]"] > 100.0


@dataclass(frozen=True)
class Sampler(Block):
    """A sampled spring."""

    sample_time: float | None = 0.02
    inputs = (Port("q", (), "m", "position", 0.0),)
    outputs = (Port("f", (), "N", "force"),)
    sampled = (Port("f", (), "N", "force", 0.0),)

    def update(self, u):
        return {"f": -10.0 * u.q}


@dataclass(frozen=True)
class Pushed(Load):
    """A load with a second force on it."""

    inputs = (Port("force", (), "N", "force", 0.0), Port("more", (), "N", "another", 0.0))

    def derivative(self, t, x, u):
        return {"q": x.qd, "qd": (u.force + u.more + self.outer(t, x.q, x.qd)) / self.m}


def sampled_system():
    """The oscillator with a sampled spring on its load."""
    case = oscillator()
    load = Pushed(case.load.m, case.load.outer, case.load.q0, case.load.qd0)
    system = case.system({"driver": case.driver, "load": load})
    system.add("spring", Sampler())
    system.connect("load.q", "spring.q")
    system.connect("spring.f", "load.more")
    return system


@dataclass(frozen=True)
class Amplifier(Block):
    """A sampled gain."""

    gain: float
    sample_time: float | None = 0.1
    inputs = (Port("u", (), "1", "input", 0.0),)
    outputs = (Port("y", (), "1", "output"),)
    sampled = (Port("y", (), "1", "output", 0.0),)

    def update(self, u):
        return {"y": self.gain * u.u}


LAW = Law(lambda t, u: -2.0 * u + np.cos(t))


@pytest.mark.parametrize(
    "others", [(), (Amplifier(0.5, 0.2),)], ids=["one sample time", "two sample times"]
)
def test_a_loop_through_samples_is_refused(others):
    unopened = circle_of([LAW, Amplifier(0.25), *others])
    for options in ({}, {"iterate": True}, {"iterate": "newton"}, {"form": "fused"}):
        with pytest.raises(ValueError, match=r"algebraic loop.*law1\.y"):
            simulate(unopened, 1.0, 0.05, **options)
    with pytest.raises(ValueError, match=r"through samples.*put a UnitDelay into the loop"):
        simulate(unopened, 1.0, 0.05, iterate="newton")


def test_a_loop_through_samples_that_a_delay_opens_is_its_difference_equation():
    opened = circle_of([LAW, Amplifier(0.25), UnitDelay(0.1)])
    result = simulate(opened, 1.0, 0.05, form="numpy", progress=False)
    delayed, y = 0.0, []
    for t in result.time[::2]:
        y.append(-2.0 * delayed + np.cos(t))
        delayed = 0.25 * y[-1]
    assert_allclose(result["law0.y"][::2], y, rtol=0.0, atol=SAME)


def test_a_delayed_loop_of_two_sample_times_says_how_late_it_is():
    opened = circle_of([LAW, Amplifier(0.25), Amplifier(0.5, 0.2), UnitDelay(0.1)])
    last = opened.wiring().stepping_order[0]
    with pytest.warns(RuntimeWarning, match=f"'{last}' samples .* a sample later"):
        result = simulate(opened, 1.0, 0.05, form="numpy", progress=False)
    assert_allclose(
        result["law0.y"], -2.0 * result[f"{last}.y"] + np.cos(result.time), rtol=0.0, atol=SAME
    )


@dataclass(frozen=True)
class Storage(Block):
    """x' = u."""

    inputs = (Port("u", (), "1", "input", 0.0),)
    states = outputs = (Port("x", (), "1", "what is stored", 1.0),)

    def derivative(self, u):
        return {"x": u.u}


@pytest.mark.parametrize(
    "options", [{"iterate": True}, {"iterate": "newton"}, {"extrapolate": 1}, {"extrapolate": 2}]
)
def test_what_follows_a_sampler_at_once_is_held_as_its_samples_are(options):
    """x[k+1] = x[k] - 2 T x[k], exactly, whatever the names of the parts."""
    for names in (("plant", "sampler", "law"), ("z", "y", "x")):
        system = System()
        plant, sampler, law = names
        for name, block in zip(
            names, (Storage(), Amplifier(1.0), Law(lambda _t, u: -2.0 * u)), strict=True
        ):
            system.add(name, block)
        for wire in ((f"{plant}.x", f"{sampler}.u"), (f"{sampler}.y", f"{law}.u")):
            system.connect(*wire)
        system.connect(f"{law}.y", f"{plant}.u")
        result = simulate(system, 1.0, 0.02, form="numpy", progress=False, **options)
        at_samples = result[f"{plant}.x"][::5]
        assert_allclose(at_samples, 0.8 ** np.arange(11), rtol=0.0, atol=SAME)
        follows = -2.0 * result[f"{sampler}.y"]
        assert_allclose(result[f"{law}.y"], follows, rtol=0.0, atol=SAME)


@pytest.mark.slow
def test_what_is_sampled_is_held_and_steps_are_chosen_between_samples():
    exact = simulate(sampled_system(), 1.0, 0.02, transparent=True, method="adaptive", rtol=1e-10)
    errors = []
    for dt, options in (
        (0.01, {"iterate": True}),
        (0.005, {"iterate": True}),
        (0.1, {"iterate": True, "step_tol": 1e-3}),
    ):
        result = simulate(sampled_system(), 1.0, dt, progress=False, **options)
        at = np.isclose(result.time[:, None], exact.time, atol=1e-9)
        apart = (of_result(result)[:, None] - of_result(exact))[at]
        assert len(apart) == min(len(result.time), len(exact.time))
        errors.append(np.abs(apart).max())
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert errors[2] < 1e-2


@pytest.mark.slow
def test_transparent_coupling_is_the_whole_equation(caplog):
    caplog.set_level(logging.INFO, "rigidblocks")
    case = oscillator()
    result = simulate(
        case.system(), 2.0, 0.02, transparent=True, method="adaptive", rtol=1e-9, progress=False
    )
    np.testing.assert_allclose(of_result(result), case.motion(result.time), atol=1e-7)
    assert "driver, load" in caplog.text
    assert result.meta["transparent"] == "driver and load"


@dataclass(frozen=True)
class Sprung(Block):
    """A body with a spring to another one, whose velocity it gets."""

    inputs = (Port("qd_other", (), "m/s", "velocity of the other", 0.0),)
    outputs = (
        Port("q", (), "m", "position"),
        Port("qd", (), "m/s", "velocity"),
        Port("force", (), "N", "force on the other"),
        Port("energy", (), "J", "of the body, its two springs"),
    )
    states = (
        Port("q", (), "m", "position", 0.3, rate="qd"),
        Port("qd", (), "m/s", "velocity", 0.5),
        Port("stretch", (), "m", "of the spring", 0.4),
    )

    def derivative(self, x, u):
        return {"q": x.qd, "qd": -20.0 * x.q - 60.0 * x.stretch, "stretch": x.qd - u.qd_other}

    def output(self, x):
        energy = 0.5 * (x.qd * x.qd + 20.0 * x.q * x.q + 60.0 * x.stretch * x.stretch)
        return {"force": 60.0 * x.stretch, "energy": energy}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["jacobi", "gauss-seidel"])
def test_the_energy_that_a_coupling_makes_is_what_the_motion_gains(order, caplog):
    caplog.set_level(logging.INFO, "rigidblocks")
    system = System()
    system.add("driver", Sprung())
    system.add("load", Load(0.5, lambda _t, q, _v: -30.0 * q, -0.1, 1.0))
    system.connect("load.qd", "driver.qd_other")
    system.connect("driver.force", "load.force")
    result = simulate(system, 1.0, 2e-3, order=order, bonds=True, method="rk4", progress=False)
    load = 0.5 * (0.5 * result["load.qd"] ** 2 + 30.0 * result["load.q"] ** 2)
    energy = result["driver.energy"] + load
    told = json.loads(result.meta["coupling"])["energy made [J]"]
    made, through = told["driver.force and load.qd"]
    assert abs(made) > 0.001 * through
    # the trapezoidal rule in each step
    assert abs(made - (energy[-1] - energy[0])) < 0.02 * abs(made)
    assert "driver.force and load.qd" in caplog.text


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """The parts of the quarter car as FMUs."""
    folder, case = tmp_path_factory.mktemp("fmus"), quarter_car()
    return {
        (name, version): native_fmu(part, folder / f"{name}{version}.fmu", h=1.25e-3, fmi=version)
        for name, part in (("driver", case.driver), ("load", case.load))
        for version in (2, 3)
    }


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["line", "parabola", "again"])
def test_fmus_that_take_derivatives_follow_as_blocks_do(fmus, scheme):
    case, (_, options) = quarter_car(), SCHEMES[scheme]
    parts = {name: fmus[name, 2] for name in ("driver", "load")}
    runs = [
        simulate(case.system(some), 0.5, 5e-3, h=h, progress=False, **options)
        for some, h in ((parts, None), (None, 1.25e-3))
    ]
    np.testing.assert_allclose(of_result(runs[0]), of_result(runs[1]), rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_fmus_without_derivatives_get_means_and_say_so(fmus, caplog):
    case = quarter_car()
    parts = {"driver": case.driver, "load": fmus["load", 3]}
    errors = [error_of(case, dt, parts, iterate=True) for dt in STEPS]
    assert abs(fitted_order(errors) - 2) < ORDER
    assert "'load' takes no polynomials" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_equations_of_fmus_follow_polynomials(fmus, version):
    case, systems = quarter_car(), []
    for kind in ("model exchange", None):
        system = System()
        for name in ("driver", "load"):
            block = {"driver": case.driver, "load": case.load}[name]
            given = {"method": "rk4", "h": 1.25e-3} | ({"kind": kind} if kind else {})
            system.add(name, fmus[name, version] if kind else block, **given)
        for wire in case.wires:
            system.connect(*wire)
        systems.append(system)
    runs = [
        simulate(one, 0.2, 5e-3, order="jacobi", extrapolate=2, progress=False) for one in systems
    ]
    np.testing.assert_allclose(of_result(runs[0]), of_result(runs[1]), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_prepared_steps_are_those_of_a_run_and_go_back():
    options = {"order": "jacobi", "extrapolate": 1, "form": "numpy", "h": 0.01}
    with prepare(oscillator().system(), 0.01, **options) as run:
        run.reset()
        run.step(10)
        moment = run.save()
        run.step(10)
        there = run["load.q"]
        run.restore(moment)
        run.step(10)
    whole = simulate(oscillator().system(), 0.2, 0.01, progress=False, **options)
    assert there == whole["load.q"][-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extrapolate": 3}, "extrapolate must be 0, 1 or 2, not 3"),
        ({"iterate": "twice"}, "iterate must be True, False or 'newton', not 'twice'"),
        ({"step_tol": -1.0}, "step_tol must be finite and positive, not -1.0"),
        ({"step_min": 1e-3}, "step_min is the shortest of steps that step_tol chooses"),
        ({"step_tol": 1e-3, "step_min": 1.0}, "step_min = 1.0 s leaves nothing to choose"),
        ({"bonds": [("load.q", "driver.x")]}, "there is no output 'driver.x' for a bond"),
        ({"bonds": [("load.q", "load.qd")]}, "load.q and load.qd are no bond"),
        ({"iterate": True, "form": "fused"}, "a fused run has no iterate"),
        ({"iterate": True, "events": ["load.q"]}, "leave out iterate or events"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises((ValueError, KeyError), match=message):
        simulate(oscillator().system(), 1.0, 0.1, **{"form": "numpy", **options})


def test_nothing_to_couple_transparently_is_said():
    system = System()
    system.add("load", oscillator().load)
    with pytest.raises(ValueError, match="nothing to couple transparently"):
        simulate(system, 1.0, 0.1, transparent=True)
