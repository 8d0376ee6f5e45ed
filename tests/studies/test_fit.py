"""Parameter estimation from recorded motion: estimates equal the true values within the noise."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

from campaign import sized
from rigidblocks import (
    Block,
    ForceElement,
    Friction,
    PDController,
    Port,
    RobotPlant,
    Sine,
    System,
    box_inertia,
    fit,
    prepare,
    python_block,
    simulate,
)
from rigidblocks.cosim.graph.variational_system import SUFFIX, StartElement, add_sensitivities
from rigidblocks.dynamics.force_elements import AlongJoint
from rigidblocks.library import Gain, Sum, UnitDelay
from rigidblocks.library.plant_ports import TunableInertia
from rigidblocks.robot.robots import dh_chain
from rigidblocks.spatial.spatial import xlt
from rigidblocks.studies.identification import base_parameters

DT = 0.01


@dataclass(frozen=True)
class Oscillator(Block):
    """x'' = u - (k + e) x - 2 d x'."""

    inputs = (Port("u", (), "1", "push", 0.0),)
    states = (
        Port("x", (), "1", "where", 1.0, rate="v"),
        Port("v", (), "1/s", "speed", 0.0),
    )
    outputs = states
    parameters = (
        Port("k", (), "1", "stiffness", 4.0, min=0.0),
        Port("d", (), "1", "damping", 0.2),
        Port("e", (), "1", "stiffness beside it", 0.0),
    )

    def derivative(self, x, u, p):
        return {"x": x.v, "v": u.u - (p.k + p.e) * x.x - 2 * p.d * x.v}


def oscillator(**start):
    system = System()
    system.add("osc", Oscillator(), start=start)
    return system


def motion(times, k, d, x=1.0):
    """Return the closed form of x and x' (n, 2)."""
    A = np.array([[0.0, 1.0], [-k, -2 * d]])
    return np.array([expm(A * t) @ [x, 0.0] for t in times])


TIMES = np.arange(0.0, 3.0001, 0.05)


def recorded(k=9.0, d=0.3, x=0.7, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    exact = motion(TIMES, k, d, x)
    noisy = exact + noise * rng.normal(size=exact.shape)
    return {"time": TIMES, "osc.x": noisy[:, 0], "osc.v": noisy[:, 1]}


@pytest.mark.parametrize("exact", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_fit_of_a_closed_form_motion_gives_exact_estimates(exact):
    found = fit(oscillator(), ["osc.k", "osc.d", "osc.x"], recorded(), dt=DT, exact=exact)
    assert found.exact is exact
    assert_allclose([found["osc.k"], found["osc.d"], found["osc.x"]], [9.0, 0.3, 0.7], rtol=1e-6)
    assert "osc.k" in repr(found)
    with pytest.raises(KeyError, match=r"no parameter 'osc.kk'.*osc.k"):
        found["osc.kk"]


@pytest.mark.slow
def test_confidence_intervals_of_a_fit_match_the_linearized_problem():
    """The covariance is C = s^2 (J^T J)^-1, with J from differences of the closed form."""
    noise = {"osc.x": 0.01, "osc.v": 0.02}
    data = recorded(noise=0.0)
    found = fit(oscillator(), {"osc.k": 8.0, "osc.d": 0.2}, data, noise=noise, dt=DT, level=0.9)
    weights = 1.0 / np.array([0.01, 0.02])

    def weighted(k, d):
        return (motion(TIMES, k, d) * weights).ravel()

    system = fit(oscillator(x=0.7), ["osc.k", "osc.d"], data, noise=noise, dt=DT, level=0.9)
    k, d, h = system["osc.k"], system["osc.d"], 1e-5
    J = 0.7 * np.stack(
        [
            (weighted(k + h, d) - weighted(k - h, d)) / (2 * h),
            (weighted(k, d + h) - weighted(k, d - h)) / (2 * h),
        ],
        axis=1,
    )
    expected = np.sqrt(np.diag(np.linalg.inv(J.T @ J)))
    assert_allclose(list(system.deviations.values()), expected, rtol=1e-5)
    low, high = system.intervals["osc.k"]
    assert_allclose(
        (high - low) / 2, 1.6577 * expected[0], rtol=1e-3
    )  # t at 120 degrees of freedom
    assert found["osc.k"] != system["osc.k"]  # that fit has another initial state


@pytest.mark.slow
def test_confidence_intervals_contain_the_true_value_with_the_confidence_level():
    """The tolerance is 4 standard deviations of the binomial distribution of all intervals."""
    truth = {"osc.k": 9.0, "osc.d": 0.3, "osc.x": 0.7}
    hits = 0
    for seed in range(fits := sized(40, 20)):
        found = fit(oscillator(), list(truth), recorded(noise=0.02, seed=seed), dt=DT)
        hits += sum(a <= truth[name] <= b for name, (a, b) in found.intervals.items())
    assert abs(hits / (3 * fits) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / (3 * fits))


@pytest.mark.slow
def test_fit_applies_the_recorded_inputs(rng):
    system = oscillator(k=9.0, d=0.3, x=0.0)
    push = rng.normal(size=len(TIMES))
    data = {"time": TIMES, "osc.u": push, "osc.x": np.zeros(len(TIMES))}
    run = prepare(system, DT)
    for k in range(len(TIMES)):
        data["osc.x"][k] = run["osc.x"]
        run["osc.u"] = push[k]
        run.step(5)
    found = fit(oscillator(x=0.0), ["osc.k", "osc.d"], data, dt=DT)
    assert_allclose([found["osc.k"], found["osc.d"]], [9.0, 0.3], rtol=1e-8)


@pytest.mark.slow
def test_fit_supports_files_with_missing_measurements(tmp_path):
    data = recorded()
    gaps = data["osc.v"].copy()
    gaps[::3] = np.nan
    path = tmp_path / "motion.csv"
    lines = ["time,osc.x,osc.v"]
    for t, x, v in zip(TIMES, data["osc.x"], gaps, strict=True):
        lines.append(f"{t!r},{x!r},{'' if np.isnan(v) else repr(v)}".replace("np.float64", ""))
    path.write_text("\n".join(lines).replace("(", "").replace(")", ""))
    found = fit(oscillator(), ["osc.k", "osc.d", "osc.x"], path, dt=DT)
    assert_allclose([found["osc.k"], found["osc.d"], found["osc.x"]], [9.0, 0.3, 0.7], rtol=1e-6)
    assert np.isnan(found.residuals).sum() == len(TIMES[::3])


@pytest.mark.slow
def test_error_of_a_fit_lists_parameters_that_the_data_do_not_determine():
    names = ["osc.k", "osc.e", "osc.d"]
    with pytest.raises(ValueError, match=r"combinations of osc.k, osc.e is only 1\."):
        fit(oscillator(x=0.7), names, recorded(), dt=DT)
    resting = {"time": TIMES, "osc.x": np.zeros(len(TIMES)), "osc.v": np.zeros(len(TIMES))}
    with pytest.raises(ValueError, match=r"osc.k does not affect .* osc.d does not affect"):
        fit(oscillator(x=0.0), ["osc.k", "osc.d"], resting, dt=DT)


@pytest.mark.slow
def test_fit_estimates_stay_within_the_bounds_of_their_parameters():
    data = recorded(k=9.0)
    system = oscillator(x=0.7, d=0.3)
    system.parts["osc"].start["e"] = 20.0  # without its bound k would be negative
    found = fit(system, ["osc.k"], data, dt=DT)
    assert found["osc.k"] < 1e-6


@pytest.mark.slow
def test_fit_without_known_measurement_noise_rejects_too_few_measurements():
    few = {"time": TIMES[:2], "osc.x": recorded()["osc.x"][:2]}
    with pytest.raises(
        ValueError, match="1 measured values depend on the 1 parameters to estimate"
    ):
        fit(oscillator(x=0.7), ["osc.k"], few, dt=DT)
    known = fit(oscillator(x=0.7), ["osc.k"], few, dt=DT, noise={"osc.x": 1e-3})
    assert known.noise == {"osc.x": 1e-3}
    assert known.deviations["osc.k"] > 0.0


def test_fit_rejects_invalid_data_and_names():
    system, data = oscillator(), recorded()
    for change, error, text in [
        ({"osc.y": TIMES}, KeyError, r"'osc.y' of the data is neither an output"),
        ({"osc.x": TIMES[1:]}, ValueError, r"'osc.x' of the data has the shape \(60,\)"),
        ({"time": TIMES[::-1]}, ValueError, "the times of the data must increase"),
        ({"time": TIMES**1.5}, ValueError, "must be a multiple of dt"),
        ({"osc.u": np.full(len(TIMES), np.nan)}, ValueError, "input osc.u must be finite"),
    ]:
        with pytest.raises(error, match=text):
            fit(system, ["osc.k"], data | change, dt=DT)
    for names, error, text in [
        ([], ValueError, "names of the parameters to estimate"),
        (["osc.kk"], KeyError, "osc.*kk"),
        (["osc.k", "osc.k[1]"], ValueError, "osc.k"),
        (
            {"osc.k": [1.0, 2.0]},
            ValueError,
            "the number of initial estimates is 2, but osc.k has 1 elements",
        ),
    ]:
        with pytest.raises(error, match=text):
            fit(system, names, data, dt=DT)
    with pytest.raises(ValueError, match=r"the noise of osc.v is missing"):
        fit(system, ["osc.k"], data, dt=DT, noise={"osc.x": 0.1})
    with pytest.raises(ValueError, match=r"'osc.z' in `noise` is not a measured output"):
        fit(system, ["osc.k"], data, dt=DT, noise={"osc.z": 0.1})
    with pytest.raises(ValueError, match=r"deviation of 'osc.x' must be positive, not -0.1"):
        fit(system, ["osc.k"], data, dt=DT, noise={"osc.x": -0.1})
    with pytest.raises(KeyError, match="need a column 'time'"):
        fit(system, ["osc.k"], {"osc.x": TIMES}, dt=DT)


@pytest.mark.slow
def test_simulation_error_in_the_first_run_ends_the_fit():
    with pytest.raises(RuntimeError, match=r"'osc'.*not finite"):
        fit(oscillator(), {"osc.d": -1e5}, recorded(), dt=DT)


def loop():
    """Return the oscillator under a sampled force that delays and scales its velocity."""
    system = oscillator()
    system.add("gain", Gain(-2.0))
    system.add("delay", UnitDelay(5 * DT))
    system.connect("osc.v", "gain.u")
    system.connect("gain.y", "delay.u")
    system.connect("delay.y", "osc.u")
    return system


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_sensitivities_of_a_coupled_sampled_run_match_finite_differences(order):
    system = loop()
    numbers = [
        StartElement("gain", "k", 0),
        StartElement("osc", "d", 0),
        StartElement("osc", "v", 0),
    ]
    options = {"order": order, "method": "rk4"}  # equal steps with and without sensitivities
    other = add_sensitivities(system.wiring(), numbers, ["osc.x"])
    both = simulate(other, 2.0, DT, progress=False, **options)
    run = prepare(system, DT, **options)

    def x(**start):
        given = {name.replace("_", "."): value for name, value in start.items()}
        return run.simulate(2.0, start=given, progress=False)["osc.x"]

    assert_allclose(both["osc.x"], x(), rtol=1e-12)
    h, slopes = 1e-5, both[f"osc.x{SUFFIX}"][:, 0]
    for k, (name, value) in enumerate({"gain_k": -2.0, "osc_d": 0.2, "osc_v": 0.0}.items()):
        quotient = (x(**{name: value + h}) - x(**{name: value - h})) / (2 * h)
        assert_allclose(slopes[:, k], quotient, atol=1e-8)


@pytest.mark.slow
def test_fit_of_a_system_with_a_python_part_uses_finite_differences():
    @python_block(inputs=(Port("u"),), outputs=(Port("y"),))
    def twice(u):
        return 2.0 * u

    system = oscillator(d=0.3, x=0.7)
    system.add("twice", twice)
    system.connect("osc.x", "twice.u")
    data = {"time": TIMES, "twice.y": 2 * motion(TIMES, 9.0, 0.3, 0.7)[:, 0]}
    found = fit(system, ["osc.k"], data, dt=DT)
    assert not found.exact
    assert_allclose(found["osc.k"], 9.0, rtol=1e-6)
    with pytest.raises(ValueError, match="'twice' cannot be differentiated"):
        fit(system, ["osc.k"], data, dt=DT, exact=True)


def shifted(inertia, x):
    return inertia.transform_to_parent(xlt([x, 0.0, 0.0]))


def arm_bench():
    """Return an arm with one vertical and two horizontal joints under PD control."""
    links = [
        box_inertia((0.1, 0.1, 0.3), mass=3.0),
        shifted(box_inertia((0.4, 0.08, 0.08), mass=2.5), 0.2),
        shifted(box_inertia((0.3, 0.05, 0.06), mass=1.5), 0.15),
    ]
    model = dh_chain([(0, 0, 0.3, 0), (0, np.pi / 2, 0, 0), (0.4, 0, 0, 0)], links)
    friction = tuple(
        ForceElement(f"j{k}", AlongJoint(k - 1), Friction(1.0 - 0.2 * k, 0.6 - 0.1 * k, 0.05))
        for k in (1, 2, 3)
    )
    inertias = TunableInertia(links=True, moments=True)
    system = System()
    system.add("robot", RobotPlant(model, elements=friction, inertias=inertias))
    system.add("pd", PDController(kp=[60.0, 60.0, 30.0], kd=[8.0, 8.0, 3.0]))
    system.add("fast", Sine((0.6, 0.5, 0.7), (4.0, 5.1, 6.3)))
    system.add("slow", Sine((0.8, 0.7, 0.9), (1.1, 1.7, 1.3), phase=(0.0, 1.0, 2.0)))
    system.add("sum", Sum("++", shape=3, unit="rad"))
    for wire in (
        ("fast.y", "sum.u1"),
        ("slow.y", "sum.u2"),
        ("sum.y", "pd.q_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "robot.tau"),
    ):
        system.connect(*wire)
    return system


MOMENTS = ("link_moment[2,1]", "link_moment[3,1]")
INERTIAS = ("link_inertia[2,3]", "link_inertia[3,3]")
FRICTIONS = tuple(f"j{k}_{what}" for k in (1, 2, 3) for what in ("coulomb", "viscous"))


@pytest.mark.slow
def test_fit_estimates_ten_arm_parameters_from_noisy_motion():
    """The fit estimates four inertial and six friction parameters.

    The noise is 1 mrad in the positions and 0.05 N.m in the forces. All ten intervals of level
    99.9 % contain the true values.
    """
    system = arm_bench()
    run = simulate(system, 4.0, 5e-3, progress=False)
    rng = np.random.default_rng(3)
    data = {
        "time": run.time,
        "robot.q": run["robot.q"] + 1e-3 * rng.normal(size=run["robot.q"].shape),
        "pd.tau": run["pd.tau"] + 0.05 * rng.normal(size=run["pd.tau"].shape),
    }
    guess, truth = {}, {}
    for names, low, high in ((MOMENTS, 0.6, 1.05), (INERTIAS, 1.0, 1.6), (FRICTIONS, 0.5, 1.6)):
        for name in names:
            _, chosen = system.wiring().locate_elements(f"robot.{name}")
            truth[f"robot.{name}"] = np.ravel(chosen.port.start)[chosen.places[0]]
            guess[f"robot.{name}"] = truth[f"robot.{name}"] * rng.uniform(low, high)
    found = fit(system, guess, data, level=0.999)
    assert found.exact
    for name, (low, high) in found.intervals.items():
        assert low <= truth[name] <= high
        assert high - low < 0.1 * truth[name]
    assert_allclose([found.noise[f"robot.q[{k}]"] for k in (1, 2, 3)], 1e-3, rtol=0.1)
    assert_allclose([found.noise[f"pd.tau[{k}]"] for k in (1, 2, 3)], 0.05, rtol=0.1)
    # the mass of the last link has the effect of moments of the previous link
    lumped = ["link_mass[3]", "link_moment[2,1]", "link_inertia[2,2]", "link_inertia[2,3]"]
    names = [f"robot.{name}" for name in (*lumped, "link_mass[1]")]
    text = r"link_mass\[1\] does not affect .* combinations of .* is only 3"
    with pytest.raises(ValueError, match=text):
        fit(system, names, data)


@pytest.mark.slow
def test_fit_of_base_parameters_finds_their_true_values():
    """All 30 inertial parameters of a 3-link arm are unknown; the true values are combinations."""
    bench = arm_bench()
    names = [f"robot.link_{what}" for what in ("moment", "inertia", "mass")]
    result = simulate(bench, 3.0, 1e-3, every=10)
    rng = np.random.default_rng(17)
    noisy = {"time": result.time}
    for name, sigma in (("robot.q", 1e-4), ("robot.qd", 1e-3)):
        noisy[name] = result[name] + sigma * rng.normal(size=result[name].shape)
    with pytest.raises(ValueError, match="the data do not determine all parameters"):
        fit(bench, names, noisy, dt=1e-3)
    found = fit(bench, names, noisy, dt=1e-3, base=True)
    plant = bench.parts["robot"].component
    true = {f"robot.{port.name}": np.ravel(port.start) for port in plant.parameters}
    phi = np.concatenate([true[name] for name in names])
    base = base_parameters(plant.model)
    assert len(found.values) == len(base)
    assert list(found.settings) != list(found.values)
    estimates = np.array(list(found.values.values()))
    deviations = np.array(list(found.deviations.values()))
    expected = _combinations(found, true, names)
    assert len(phi) == 30
    assert np.all(np.abs(estimates - expected) <= 5 * deviations)


def _combinations(found, true, names):
    """Evaluate the texts of the combinations, such as "a[1] - 0.5 b[2,3]", at the true values."""
    shapes = {"robot.link_moment": (3, 3), "robot.link_inertia": (3, 6), "robot.link_mass": (3,)}
    values = {
        f"{name}[{','.join(str(k + 1) for k in place)}]": true[name].reshape(shapes[name])[place]
        for name in names
        for place in np.ndindex(*shapes[name])
    }
    totals = []
    for text in found.values:
        total, sign, factor = 0.0, 1.0, 1.0
        for word in text.split():
            if word in "+-":
                sign, factor = (1.0 if word == "+" else -1.0), 1.0
            elif word in values:
                total += sign * factor * values[word]
            else:
                factor = float(word)
        totals.append(total)
    return np.array(totals)


def test_fit_of_base_parameters_estimates_only_the_sum_of_two_parallel_stiffnesses():
    """The oscillator depends only on k + e; the initial value of e is zero."""
    found = fit(oscillator(x=0.7), ["osc.k", "osc.e", "osc.d"], recorded(), dt=DT, base=True)
    assert list(found.values) == ["osc.k + osc.e", "osc.d"]
    assert found["osc.k + osc.e"] == pytest.approx(9.0, rel=1e-6)
    assert found["osc.d"] == pytest.approx(0.3, rel=1e-6)
    assert found.settings["osc.e"] == 0.0
    shifted_start = fit(
        oscillator(x=0.7), {"osc.k": 4.0, "osc.e": 0.5, "osc.d": 0.2}, recorded(), dt=DT, base=True
    )
    assert shifted_start["osc.k + osc.e"] == pytest.approx(9.0, rel=1e-6)
    assert shifted_start.settings["osc.k"] == pytest.approx(8.5, rel=1e-6)
    low, high = shifted_start.intervals["osc.k + osc.e"]
    assert low <= shifted_start["osc.k + osc.e"] <= high
