"""Particle filter: agreement with the Kalman filter, with grid filters, and between the forms."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr

from rigidblocks import Block, Port, RobotPlant, System, planar2, simulate
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ParticleFilter, Sine

T, STEPS, COUNT = 0.25, 8, 20_000
FACTOR, SIGMA, Q, SPREAD = 0.9, 0.4, 0.6, 1.5  # sqrt(T) Q is the process noise per sample
GRID = np.linspace(-6.0, 6.0, 1201)


@dataclass(frozen=True)
class Scalar(Block):
    """Sampled plant x[k] = 0.9 x[k-1], y = x or y = x^2."""

    squared: bool = False
    sample_time: float | None = T
    inputs = (Port("u", (), start=0.0),)
    sampled = (Port("x", (), start=0.0),)
    outputs = (Port("y", ()),)

    def initial(self, x):
        return {"x": x.x}

    def update(self, x, u):
        return {"x": FACTOR * x.x + u.u}

    def output(self, x):
        return {"y": x.x * x.x if self.squared else x.x}


def scalar_filter(squared=False, **options):
    given = {"process_noise": {"x": Q}, "deviation": {"x": SPREAD}, "particles": COUNT}
    return ParticleFilter(Scalar(squared), "y", {"y": SIGMA}, T, **{**given, **options})


def measurements(squared):
    """Return measurements y (STEPS,) of a random run of the plant."""
    rng, x = np.random.default_rng(5), 2.0
    y = []
    for _ in range(STEPS):
        y.append((x * x if squared else x) + SIGMA * rng.normal())
        x = FACTOR * x + np.sqrt(T) * Q * rng.normal()
    return np.array(y)


def run(block, y, name="y_measured"):
    """Yield the values of a filter after each sample, for measurements y (n, ...)."""
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    for k, value in enumerate(y):
        m[0], m[memory.where[name]] = k * T, value
        m[memory.z] = evaluator.update(m) if k else evaluator.initial(m)
        yield {key: m[place].copy() for key, place in memory.where.items()}


class GridFilter:
    """Bayes filter on a grid, and the asymptotic error of particle filters (Chopin 2004).

    Attributes:
        posterior: Probabilities of the grid points after the last measurement.
    """

    def __init__(self, y, squared):
        h = GRID * GRID if squared else GRID
        noise = np.sqrt(T) * Q
        self.M = np.exp(-0.5 * ((GRID[None] - FACTOR * GRID[:, None]) / noise) ** 2)
        self.M /= self.M.sum(axis=1, keepdims=True)
        self.g = np.exp(-0.5 * ((y[:, None] - h) / SIGMA) ** 2)
        prior = np.exp(-0.5 * (GRID / SPREAD) ** 2)
        self.priors = []
        for g in self.g:
            self.priors.append(prior / prior.sum())
            posterior = self.priors[-1] * g
            prior = posterior @ self.M
        self.posterior = posterior / posterior.sum()

    def moment(self, phi):
        """Return E phi(x) and the standard error of its estimate by COUNT particles."""
        mean = self.posterior @ phi
        forward, ones, total = phi - mean, np.ones(len(GRID)), 0.0
        for prior, g in zip(self.priors[::-1], self.g[::-1], strict=True):
            weighted, likelihood = g * forward, g * ones
            total += prior @ weighted**2 / (prior @ likelihood) ** 2
            forward, ones = self.M @ weighted, self.M @ likelihood
        return mean, np.sqrt(total / COUNT)


@pytest.mark.slow
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("resample_below", [0.5, 1.0])
def test_moments_of_the_particles_match_the_posterior_of_a_grid_filter(squared, resample_below):
    """y = x^2 does not show the sign of x: the posterior has two modes."""
    y = measurements(squared)
    *_, found = run(scalar_filter(squared, resample_below=resample_below, seed=3), y)
    grid = GridFilter(y, squared)
    x, moments = grid.posterior @ GRID, grid.posterior @ GRID**2
    assert found["x"][0] == pytest.approx(x, abs=4 * grid.moment(GRID)[1])
    mean = found["x"][0]
    assert found["covariance"][0] + mean * mean == pytest.approx(
        moments, abs=4 * grid.moment(GRID**2)[1]
    )
    if squared:
        assert abs(x) < 1e-9  # symmetric modes
        assert grid.posterior @ (np.abs(GRID) < 0.2) < 0.2  # and a gap between them
    # the particles after the resampling, whose additional variance is at most 1 / (4 N)
    particles, weights = found["particles"], found["weights"]
    for edge in (-1.0, 0.0, 1.0):
        below = (edge > GRID) + 0.5 * (edge == GRID)
        expected, error = grid.moment(below)
        error = 4 * np.hypot(error, 0.5 / np.sqrt(COUNT))
        assert weights @ (particles < edge) == pytest.approx(expected, abs=error)


@pytest.mark.slow
def test_particle_filter_of_a_linear_plant_equals_the_kalman_filter():
    y, x, P = measurements(False), 0.0, SPREAD**2
    found = list(run(scalar_filter(), y))
    for k, value in enumerate(y):
        if k:
            x, P = FACTOR * x, FACTOR**2 * P + T * Q**2
        S = P + SIGMA**2
        innovation = (value - x) / np.sqrt(S)
        x, P = x + P / S * (value - x), P - P * P / S
        mean, error = (grid := GridFilter(y[: k + 1], False)).moment(GRID)
        assert mean == pytest.approx(x, abs=1e-9)  # the grid is fine enough
        assert found[k]["x"][0] == pytest.approx(x, abs=4 * error)
        second = 4 * grid.moment((GRID - x) ** 2)[1]
        assert found[k]["covariance"][0] == pytest.approx(P, abs=second)
        assert found[k]["innovation"][0] == pytest.approx(innovation, abs=0.05)


@pytest.mark.slow
def test_weights_of_one_sample_are_the_normalized_likelihoods():
    block = scalar_filter(particles=50, resample_below=0.0)
    (found,) = run(block, [0.7])
    x = found["particles"]
    w = np.exp(-0.5 * ((0.7 - x) / SIGMA) ** 2)
    assert_allclose(found["weights"], w / w.sum(), rtol=1e-13)
    assert_allclose(found["x"], found["weights"] @ x, rtol=1e-13)
    variance = found["weights"] @ (x - found["x"]) ** 2
    assert_allclose(found["covariance"], variance, rtol=1e-12)
    assert_allclose(found["effective_sample_size"], 1.0 / (found["weights"] @ found["weights"]))


@pytest.mark.slow
def test_number_of_copies_in_systematic_resampling_is_its_expectation_rounded_up_or_down():
    """The number of copies of particle i is N w_i, rounded up or down."""
    before, after = (
        next(run(scalar_filter(particles=200, resample_below=fraction), [0.7]))
        for fraction in (0.0, 1.0)
    )
    assert_array_equal(after["weights"], np.full(200, 1.0 / 200))
    copies = np.array([np.sum(after["particles"] == x) for x in before["particles"]])
    expected = 200 * before["weights"]
    assert copies.sum() == 200
    assert np.all((np.floor(expected - 1e-9) <= copies) & (copies <= np.ceil(expected + 1e-9)))


@pytest.mark.slow
def test_initial_particles_have_the_normal_distribution_of_the_start_values():
    (found,) = run(scalar_filter(particles=5000), [np.nan])
    x = np.sort(found["particles"])
    steps = np.arange(5000) / 5000
    assert np.abs(ndtr(x / SPREAD) - steps).max() < 1.63 / np.sqrt(5000)  # Kolmogorov, 1 %
    assert_array_equal(found["innovation"], [0.0])
    (other,) = run(scalar_filter(particles=5000, seed=1), [np.nan])
    assert np.abs(np.corrcoef(found["particles"], other["particles"])[0, 1]) < 0.06


@pytest.mark.slow
def test_particle_filter_ignores_missing_measurements_and_outliers():
    for gate, value in ((None, np.nan), (5.0, 1e3), (None, np.inf)):
        (found,) = run(scalar_filter(particles=50, gate=gate), [value])
        assert_array_equal(found["weights"], np.full(50, 0.02))
    assert found["effective_sample_size"][0] == pytest.approx(50.0)


@pytest.mark.slow
def test_particle_nearest_to_a_distant_measurement_has_the_largest_weight():
    (found,) = run(scalar_filter(particles=50, resample_below=0.0), [1e6])
    assert np.argmax(found["particles"]) == np.argmax(found["weights"])
    assert found["weights"].sum() == pytest.approx(1.0)
    assert np.all(np.isfinite(found["x"]))


@pytest.mark.slow
def test_particle_weights_do_not_change_if_all_likelihoods_underflow():
    block = scalar_filter(particles=50, resample_below=0.0, process_noise={})
    found = list(run(block, [0.7, 1e200]))
    assert_array_equal(found[1]["weights"], found[0]["weights"])
    assert np.ptp(found[0]["weights"]) > 0.01


@dataclass(frozen=True)
class Logarithm(Scalar):
    """Plant whose output ln(x) is not a number for x < 0."""

    def output(self, x):
        return {"y": np.log(x.x)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
def test_particles_with_nonfinite_outputs_do_not_affect_the_innovation():
    block = replace(scalar_filter(particles=50, resample_below=0.0), plant=Logarithm())
    (found,) = run(block, [0.7])
    x = found["particles"]
    h = np.log(x[x > 0])
    assert 10 < len(h) < 40
    expected = (0.7 - h.mean()) / np.sqrt(h.var() + SIGMA**2)
    assert_allclose(found["innovation"], [expected], rtol=1e-12)
    w = np.exp(-0.5 * ((0.7 - h) / SIGMA) ** 2)
    assert_allclose(found["weights"][x > 0], w / w.sum(), rtol=1e-12)
    assert_array_equal(found["weights"][x <= 0], 0.0)


@dataclass(frozen=True)
class Root(Scalar):
    """Plant x[k] = sqrt(0.9 x[k-1]), which is not a number for x < 0 and else converges to 0.9."""

    def update(self, x, u):
        return {"x": np.sqrt(FACTOR * x.x) + u.u}


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.9, 1e301])
def test_diverged_particles_do_not_stop_the_run(value):
    block = replace(scalar_filter(particles=50, resample_below=0.0, process_noise={}), plant=Root())
    memory = Memory(block)
    stepper, v = compiled_stepper(memory), memory.start()
    v[memory.where["y_measured"]] = value
    stepper.initialize(v, 0.0)
    converges = v[memory.where["particles"]] > 0.0
    assert 10 < converges.sum() < 40
    for k in range(40):
        stepper.step(v, k * T, T)  # raises StepError if a number is not finite
    assert_allclose(v[memory.where["x"]], [FACTOR], atol=1e-9)
    assert_array_equal(v[memory.where["weights"]][~converges], 0.0)
    if value > 1e300:  # missing
        assert_allclose(v[memory.where["weights"]][converges], 1.0 / converges.sum())


@pytest.mark.slow
def test_delayed_measurement_weights_the_particles_by_their_past_states():
    """With a delay of one sample, the measurement at sample k is the output at sample k - 1."""
    y = measurements(False)
    block = replace(scalar_filter(particles=4000, process_noise={}), delays={"y": 1})
    found = list(run(block, y))
    # without process noise, x[k] = 0.9^k x[0]; least squares with the prior
    for k in range(1, 4):
        slopes = np.array([1.0, *FACTOR ** np.arange(k)])  # the first sample measures x[0] twice
        P = 1.0 / (1.0 / SPREAD**2 + slopes @ slopes / SIGMA**2)
        x0 = P * (slopes @ y[: k + 1]) / SIGMA**2
        error = 8 * FACTOR**k * np.sqrt(P / 4000) * np.sqrt(SPREAD / np.sqrt(P))
        assert found[k]["x"][0] == pytest.approx(FACTOR**k * x0, abs=error)


def arm_filter(**options):
    """Return the filter of a planar arm with two joints and 200 particles."""
    given = {
        "process_noise": {"qd": 0.5},
        "deviation": {"q": 0.05, "qd": 0.2},
        "particles": 200,
        **options,
    }
    return ParticleFilter(RobotPlant(planar2(), q0=(0.3, -0.5)), "q", {"q": 0.01}, 2e-3, **given)


@pytest.mark.slow
def test_results_of_compiled_and_numpy_particle_filters_are_bitwise_equal():
    memory, rng = Memory(arm_filter()), np.random.default_rng(8)
    stepper, evaluator, v = compiled_stepper(memory), NumpyEvaluator(memory), memory.start()
    v[memory.where["q_measured"]] = 0.3, -0.5
    m = v.copy()
    stepper.initialize(v, 0.0)
    m[memory.z] = evaluator.initial(m)
    assert_array_equal(v[memory.z], m[memory.z])
    for k in range(20):
        u = rng.normal(size=2), np.array([0.3, -0.5]) + 0.01 * rng.normal(size=2)
        for one in (v, m):
            one[memory.where["tau"]], one[memory.where["q_measured"]] = u
        stepper.step(v, k * 2e-3, 2e-3)
        m[0] = (k + 1) * 2e-3
        m[memory.z] = evaluator.update(m)
        assert_array_equal(v[memory.z], m[memory.z])


@pytest.mark.slow
def test_particle_filter_in_a_system_estimates_the_states_of_an_arm():
    system = System()
    system.add("arm", RobotPlant(planar2(), q0=(0.3, -0.5)))
    system.add("drive", Sine(amplitude=[3.0, 1.0], frequency=[0.5, 0.8], unit="N.m"))
    system.add("observer", arm_filter(particles=1000, input_hold="new"))
    for source, target in (
        ("drive.y", "arm.tau"),
        ("drive.y", "observer.tau"),
        ("arm.q", "observer.q_measured"),
    ):
        system.connect(source, target)
    result = simulate(system, 0.4, 2e-3)
    error = np.abs(result["observer.q"] - result["arm.q"])
    assert error[50:].max() < 0.01  # the standard deviation of one measurement
    assert np.all(result["observer.effective_sample_size"] >= 1.0)


@pytest.mark.slow
def test_fused_and_separate_particle_filters_have_bitwise_equal_results():
    system = System()
    system.add("drive", Sine(amplitude=1.0, frequency=0.5, unit="1"))
    system.add("plant", Scalar())
    system.connect("drive.y", "plant.u")
    for name, options in (("few", {"particles": 40}), ("many", {"particles": 60, "seed": 2})):
        system.add(name, scalar_filter(**options))
        system.connect("drive.y", f"{name}.u")
        system.connect("plant.y", f"{name}.y_measured")
    fused, separate = (simulate(system, STEPS * T, T, form=form) for form in ("fused", "compiled"))
    for name in ("few.x", "many.x", "few.covariance"):
        assert_array_equal(fused[name], separate[name], err_msg=name)


@dataclass(frozen=True)
class SensorOffset(Scalar):
    """Plant whose parameter `my_noise` has a name that ends like the noise of the output y."""

    parameters = (Port("my_noise", (), start=0.0),)

    def output(self, x, p):
        return {"y": x.x + p.my_noise}


@pytest.mark.slow
def test_plant_parameter_whose_name_ends_with_noise_takes_effect_in_the_particle_filter():
    block = ParticleFilter(
        SensorOffset(), "y", {"y": 0.1}, T, deviation={"x": SPREAD}, particles=50
    )
    memory = Memory(block)
    m = memory.start()
    m[memory.where["y_measured"]], m[memory.where["my_noise"]] = 5.3, 5.0
    m[memory.z] = NumpyEvaluator(memory).initial(m)
    assert m[memory.where["x"]][0] == pytest.approx(0.3, abs=0.2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"particles": 1}, ValueError, "particles of a particle filter must be from 2 .*, not 1"),
        ({"particles": 10.0}, TypeError, "particles of a .* must be an integer, not 10.0"),
        ({"particles": True}, TypeError, "particles of a .* must be an integer, not True"),
        ({"seed": -1}, ValueError, "the noise seed must be an integer .*, not -1"),
        ({"resample_below": 1.5}, ValueError, "resample_below of .* from 0 to 1, not 1.5"),
        ({"resample_below": np.nan}, ValueError, "resample_below of .* from 0 to 1, not nan"),
        ({"resample_below": None}, TypeError, "resample_below .* must be a number, not None"),
        ({"gate": 0.0}, ValueError, "the gate must be positive, not 0.0"),
    ],
)
def test_invalid_arguments_of_a_particle_filter_are_rejected(options, error, message):
    with pytest.raises(error, match=message):
        scalar_filter(**options)
