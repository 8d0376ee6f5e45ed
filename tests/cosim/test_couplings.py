"""Coupling methods of a run: their order, the problems that they solve, and their log messages.

The reference is SciPy's solution of the equations of the whole system.
"""

import json
import logging
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from algebraic_laws import LOOPS, Law, circle, circle_of, disagreement
from coupled_systems import Case, Load, drivetrain, oscillator, quarter_car, states_of_result
from rigidblocks import Block, Port, System, prepare, simulate
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.library.signals import UnitDelay

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
ORDER = 0.2  # tolerance of the fitted order
SAME = 1e-12


def error_of(case, dt, parts=None, **options):
    """Return the largest error of all positions and velocities in a run."""
    system = case.system(parts)
    result = simulate(system, case.t_stop, dt, h=1.25e-3, progress=False, **options)
    return np.abs(states_of_result(result) - case.motion(result.time)).max()


def fitted_order(errors):
    return np.polyfit(np.log(STEPS), np.log(errors), 1)[0]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", CASES)
def test_coupling_error_converges_at_the_order_of_the_coupling_method(case, scheme):
    order, options = SCHEMES[scheme]
    errors = [error_of(CASES[case], dt, **options) for dt in STEPS]
    assert abs(fitted_order(errors) - order) < ORDER


def test_reference_motion_of_the_drivetrain_sticks_and_slips_twice():
    speed = drivetrain().motion(np.linspace(0.0, 1.5, 301))[:, 3]
    slips = speed > 0.15 * speed.max()
    assert np.flatnonzero(np.diff(slips)).size == 4  # slip, stick, slip, stick
    assert not slips[0]
    assert not slips[-1]


@pytest.mark.slow
def test_iterated_coupling_is_stable_at_step_sizes_for_which_held_inputs_diverge():
    case = Case(oscillator().driver, oscillator().load, 4.0)
    assert error_of(case, 0.02, order="jacobi") > 65.0
    assert error_of(case, 0.02, iterate=True) < 0.2
    assert error_of(case, 0.02, order="jacobi", iterate=True) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"extrapolate": 2}, {"iterate": True}])
@pytest.mark.parametrize("method", ["adaptive", "ros2"])
def test_coupled_runs_in_numpy_and_in_c_have_equal_results(method, options):
    runs = [
        simulate(oscillator().system(), 0.1, 0.01, form=form, method=method, **options)
        for form in ("numpy", "compiled")
    ]
    np.testing.assert_allclose(*(np.asarray(run.values) for run in runs), rtol=SAME, atol=SAME)


@pytest.mark.slow
def test_results_of_the_python_and_c_master_loops_with_held_inputs_are_bitwise_equal():
    for order in ("jacobi", "gauss-seidel"):
        runs = [
            simulate(oscillator().system(), 0.2, 0.01, order=order, bonds=bonds)
            for bonds in (False, True)
        ]
        np.testing.assert_array_equal(*(np.asarray(run.values) for run in runs))


@pytest.mark.parametrize("name", LOOPS)
def test_newton_coupling_solves_algebraic_loops_between_blocks(name):
    laws = LOOPS[name]
    result = simulate(circle(*laws), 1.0, 0.1, iterate="newton", form="numpy", progress=False)
    assert disagreement(result, laws) < SAME


def test_algebraic_loop_without_a_solution_is_reported_by_newton_coupling():
    system = circle(lambda _t, u: u + 1.0, lambda _t, u: u)
    with pytest.raises(Exception, match="'law0' and 'law1' exchange"):
        simulate(system, 1.0, 0.1, iterate="newton", form="numpy", progress=False)


@pytest.mark.slow
def test_coupling_error_is_proportional_to_step_tol_with_iterated_steps():
    case = oscillator(0.0)
    for tolerance in 10.0 ** -np.arange(1, 6):
        error = error_of(case, 0.1, extrapolate=1, iterate=True, step_tol=tolerance)
        assert tolerance / 10 < error < 10 * tolerance


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"order": "jacobi"}, {"order": "jacobi", "extrapolate": 2}]
)
def test_coupling_error_is_proportional_to_step_tol_without_iterated_steps(options):
    case = oscillator(0.0)
    for tolerance in (1.0, 0.1, 0.01):
        error = error_of(case, 0.1, step_tol=tolerance, **options)
        assert tolerance / 10 < error < 10 * tolerance


@pytest.mark.slow
def test_coupling_error_that_exceeds_step_tol_because_of_step_min_is_reported(caplog):
    result = simulate(
        oscillator().system(), 0.1, 0.1, step_tol=1e-6, step_min=0.1 / 4, h=0.01, form="numpy"
    )
    first, last = (record.getMessage() for record in caplog.records[-2:])
    assert first.startswith("at t = 0 s the error of the shortest steps (0.025 s) is ")
    assert "use iterate=True with extrapolate=1" in first
    assert last.startswith("2 of 2 coupling steps have an error above step_tol")
    reported = json.loads(result.meta["coupling"])
    assert reported["shortest"] == 0.1 / 4
    assert reported["largest error [step_tol]"] > 100.0


@dataclass(frozen=True)
class Sampler(Block):
    """Sampled spring."""

    sample_time: float | None = 0.02
    inputs = (Port("q", (), "m", "position", 0.0),)
    outputs = (Port("f", (), "N", "force"),)
    sampled = (Port("f", (), "N", "force", 0.0),)

    def update(self, u):
        return {"f": -10.0 * u.q}


@dataclass(frozen=True)
class Pushed(Load):
    """Load with a second force input."""

    inputs = (Port("force", (), "N", "force", 0.0), Port("more", (), "N", "another", 0.0))

    def derivative(self, t, x, u):
        return {"q": x.qd, "qd": (u.force + u.more + self.outer(t, x.q, x.qd)) / self.m}


def sampled_system():
    """Return the oscillator with a sampled spring on its load."""
    case = oscillator()
    load = Pushed(case.load.m, case.load.outer, case.load.q0, case.load.qd0)
    system = case.system({"driver": case.driver, "load": load})
    system.add("spring", Sampler())
    system.connect("load.q", "spring.q")
    system.connect("spring.f", "load.more")
    return system


@dataclass(frozen=True)
class Amplifier(Block):
    """Sampled gain."""

    gain: float
    sample_time: float | None = 0.1
    inputs = (Port("u", (), "1", "input", 0.0),)
    outputs = (Port("y", (), "1", "output"),)
    sampled = (Port("y", (), "1", "output", 0.0),)

    def update(self, u):
        return {"y": self.gain * u.u}


LAW = Law(lambda t, u: -2.0 * u + np.cos(t))


@pytest.mark.slow
@pytest.mark.parametrize(
    "others", [(), (Amplifier(0.5, 0.2),)], ids=["one sample time", "two sample times"]
)
def test_algebraic_loop_through_sampled_outputs_is_rejected_by_every_coupling_method(others):
    unopened = circle_of([LAW, Amplifier(0.25), *others])
    for options in ({}, {"iterate": True}, {"iterate": "newton"}, {"form": "fused"}):
        with pytest.raises(ValueError, match=r"algebraic loop.*law1\.y"):
            simulate(unopened, 1.0, 0.05, **options)
    with pytest.raises(ValueError, match=r"through the samples.*insert a UnitDelay into the loop"):
        simulate(unopened, 1.0, 0.05, iterate="newton")


def test_loop_of_sampled_blocks_with_a_unit_delay_satisfies_its_difference_equation():
    opened = circle_of([LAW, Amplifier(0.25), UnitDelay(0.1)])
    result = simulate(opened, 1.0, 0.05, form="numpy", progress=False)
    delayed, y = 0.0, []
    for t in result.time[::2]:
        y.append(-2.0 * delayed + np.cos(t))
        delayed = 0.25 * y[-1]
    assert_allclose(result["law0.y"][::2], y, rtol=0.0, atol=SAME)


def test_additional_delay_in_a_loop_with_two_sample_times_gives_a_warning():
    opened = circle_of([LAW, Amplifier(0.25), Amplifier(0.5, 0.2), UnitDelay(0.1)])
    last = opened.wiring().stepping_order[0]
    with pytest.warns(
        RuntimeWarning, match=f"'{last}' is in a loop with .* by one additional sample"
    ):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"iterate": True}, {"iterate": "newton"}, {"extrapolate": 1}, {"extrapolate": 2}]
)
def test_stateless_block_after_a_sampled_block_holds_its_output_between_samples(options):
    """x[k+1] = x[k] - 2 T x[k] is exact for any names of the parts."""
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
def test_coupling_step_size_control_ends_steps_at_the_sample_times():
    exact = simulate(sampled_system(), 1.0, 0.02, transparent=True, method="adaptive", rtol=1e-10)
    errors = []
    for dt, options in (
        (0.01, {"iterate": True}),
        (0.005, {"iterate": True}),
        (0.1, {"iterate": True, "step_tol": 1e-3}),
    ):
        result = simulate(sampled_system(), 1.0, dt, progress=False, **options)
        at = np.isclose(result.time[:, None], exact.time, atol=1e-9)
        apart = (states_of_result(result)[:, None] - states_of_result(exact))[at]
        assert len(apart) == min(len(result.time), len(exact.time))
        errors.append(np.abs(apart).max())
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert errors[2] < 1e-2


@pytest.mark.slow
def test_results_with_transparent_coupling_match_the_monolithic_solution(caplog):
    caplog.set_level(logging.INFO, "rigidblocks")
    case = oscillator()
    result = simulate(
        case.system(), 2.0, 0.02, transparent=True, method="adaptive", rtol=1e-9, progress=False
    )
    np.testing.assert_allclose(states_of_result(result), case.motion(result.time), atol=1e-7)
    assert "driver, load" in caplog.text
    assert result.meta["transparent"] == "driver and load"


@dataclass(frozen=True)
class Sprung(Block):
    """Body with a spring to another body, whose velocity is the input."""

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
def test_reported_coupling_energy_error_equals_the_energy_gain_of_the_motion(order, caplog):
    caplog.set_level(logging.INFO, "rigidblocks")
    system = System()
    system.add("driver", Sprung())
    system.add("load", Load(0.5, lambda _t, q, _v: -30.0 * q, -0.1, 1.0))
    system.connect("load.qd", "driver.qd_other")
    system.connect("driver.force", "load.force")
    result = simulate(system, 1.0, 2e-3, order=order, bonds=True, method="rk4", progress=False)
    load = 0.5 * (0.5 * result["load.qd"] ** 2 + 30.0 * result["load.q"] ** 2)
    energy = result["driver.energy"] + load
    reported = json.loads(result.meta["coupling"])["energy made [J]"]
    made, through = reported["driver.force and load.qd"]
    assert abs(made) > 0.001 * through
    # the trapezoidal rule integrates the power in each step
    assert abs(made - (energy[-1] - energy[0])) < 0.02 * abs(made)
    assert "driver.force and load.qd" in caplog.text


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """Return the parts of the quarter car as FMUs."""
    folder, case = tmp_path_factory.mktemp("fmus"), quarter_car()
    return {
        (name, version): native_fmu(part, folder / f"{name}{version}.fmu", h=1.25e-3, fmi=version)
        for name, part in (("driver", case.driver), ("load", case.load))
        for version in (2, 3)
    }


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["line", "parabola", "again"])
def test_fmu_with_input_derivatives_matches_the_results_of_a_block_with_polynomial_inputs(
    fmus, scheme
):
    case, (_, options) = quarter_car(), SCHEMES[scheme]
    parts = {name: fmus[name, 2] for name in ("driver", "load")}
    runs = [
        simulate(case.system(some), 0.5, 5e-3, h=h, progress=False, **options)
        for some, h in ((parts, None), (None, 1.25e-3))
    ]
    np.testing.assert_allclose(
        states_of_result(runs[0]), states_of_result(runs[1]), rtol=1e-11, atol=1e-11
    )


@pytest.mark.slow
def test_coupling_error_of_fmus_without_input_derivatives_is_of_second_order(fmus, caplog):
    case = quarter_car()
    parts = {"driver": case.driver, "load": fmus["load", 3]}
    errors = [error_of(case, dt, parts, iterate=True) for dt in STEPS]
    assert abs(fitted_order(errors) - 2) < ORDER
    assert "'load' does not support polynomial inputs" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_model_exchange_fmu_matches_the_results_of_a_block_with_polynomial_inputs(fmus, version):
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
    np.testing.assert_allclose(
        states_of_result(runs[0]), states_of_result(runs[1]), rtol=1e-9, atol=1e-9
    )


@pytest.mark.slow
def test_coupled_run_from_a_saved_state_matches_the_results_of_an_uninterrupted_run():
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
        ({"step_min": 1e-3}, "step_min needs step_tol"),
        ({"step_tol": 1e-3, "step_min": 1.0}, "step_min = 1.0 s is too large"),
        ({"bonds": [("load.q", "driver.x")]}, "unknown output 'driver.x' in bonds"),
        ({"bonds": [("load.q", "load.qd")]}, "load.q and load.qd are not a power bond"),
        ({"iterate": True, "form": "fused"}, "'fused' does not support iterate"),
        ({"iterate": True, "events": ["load.q"]}, "cannot be combined with iterate"),
    ],
)
def test_incompatible_coupling_options_are_rejected(options, message):
    with pytest.raises((ValueError, KeyError), match=message):
        simulate(oscillator().system(), 1.0, 0.1, **{"form": "numpy", **options})
    with pytest.raises((ValueError, KeyError), match=message):
        prepare(oscillator().system(), 0.1, **{"form": "numpy", **options})


def test_transparent_coupling_without_connected_blocks_is_rejected():
    system = System()
    system.add("load", oscillator().load)
    with pytest.raises(ValueError, match="needs two or more continuous blocks"):
        simulate(system, 1.0, 0.1, transparent=True)
