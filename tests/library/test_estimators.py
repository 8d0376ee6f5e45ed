"""Extended and unscented Kalman filters: equality with the textbook filter, and consistency."""

import logging
import os
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from estimator_runs import (
    arm_estimator,
    consistency,
    floating_estimator,
    four_bar_estimator,
)
from loop_models import four_bar
from random_models import random_tree
from rigidblocks import (
    Block,
    PDController,
    Port,
    Revolute,
    RobotPlant,
    System,
    planar2,
    prepare,
    simulate,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import assemble, closure_errors
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import (
    ExtendedKalmanFilter,
    Gain,
    Sine,
    StateSpace,
    UnscentedKalmanFilter,
)
from rigidblocks.library.unscented_filter import semidefinite_cholesky
from rigidblocks.tracing.ccode import c_function

PLANT = RobotPlant(planar2())
RUNS = 1000 if "FULL_TESTS" in os.environ else 60
T = 0.01
A = np.array([[0.0, 1.0, 0.0], [-4.0, -0.4, 1.0], [0.0, 0.0, -2.0]])
B = np.array([[0.0], [1.0], [0.5]])
C = np.array([[1.0, 0.0, 0.2], [0.0, 0.0, 1.0]])
R, Q, P0 = np.array([0.1, 0.05]) ** 2, np.array([0.0, 0.5, 0.2]) ** 2, np.array([1.0, 2.0, 0.5])


def discrete(A, B, T):
    """Return the matrices of an RK4 step of dx/dt = A x + B u."""
    Z, one = A * T, np.eye(len(A))
    F = one + Z + Z @ Z / 2 + Z @ Z @ Z / 6 + Z @ Z @ Z @ Z / 24
    return F, (one + Z / 2 + Z @ Z / 6 + Z @ Z @ Z / 24) @ B * T


class Kalman:
    """Textbook Kalman filter in matrix form (Joseph form), with a batch update."""

    def __init__(self, F, G, H, Q, R, P):
        self.F, self.G, self.H, self.Q, self.R = F, G, H, Q, R
        self.x, self.P = np.zeros(len(F)), P

    def predict(self, u):
        self.x = self.F @ self.x + self.G @ u
        self.P = self.F @ self.P @ self.F.T + self.Q

    def correct(self, y, rows=None):
        rows = np.arange(len(self.H)) if rows is None else rows
        H, R = self.H[rows], np.diag(self.R[rows])
        K = np.linalg.solve(H @ self.P @ H.T + R, H @ self.P).T
        self.x = self.x + K @ (y[rows] - H @ self.x)
        L = np.eye(len(self.x)) - K @ H
        self.P = L @ self.P @ L.T + K @ R @ K.T


UNSCENTED = pytest.param(UnscentedKalmanFilter, marks=pytest.mark.slow)
FILTERS = pytest.mark.parametrize("kind", [ExtendedKalmanFilter, UNSCENTED])


def linear_filter(plant, kind=ExtendedKalmanFilter, **options):
    return kind(
        plant,
        "y",
        {"y": np.sqrt(R)},
        T,
        process_noise={"x": np.sqrt(Q)},
        deviation={"x": np.sqrt(P0)},
        **options,
    )


def run(block, u, y):
    """Yield the memory of a filter after each sample, for inputs u (n, 1) and outputs y (n, k)."""
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    for k in range(len(u)):
        m[0], m[memory.where["u"]], m[memory.where["y_measured"]] = k * T, u[k], y[k]
        m[memory.z] = evaluator.update(m) if k else evaluator.initial(m)
        yield {name: m[place].copy() for name, place in memory.where.items()}


@pytest.fixture
def signals():
    rng = np.random.default_rng(41)
    return rng.normal(size=(150, 1)), rng.normal(size=(150, 2))


def check_against(kalman, samples, u, y, rows=None):
    for k, sample in enumerate(samples):
        if k:
            kalman.predict(u[k - 1])
        kalman.correct(y[k], rows and rows(k))
        n = len(sample["x"])
        assert_allclose(sample["x"], kalman.x[:n], rtol=0, atol=1e-12)
        P = sample["covariance"].reshape(len(kalman.x), -1)
        assert_allclose(P, kalman.P, rtol=0, atol=1e-12)
        assert_array_equal(P, P.T)


@FILTERS
def test_filter_of_a_continuous_linear_plant_equals_the_kalman_filter(kind, signals):
    block = linear_filter(StateSpace(A, B, C, np.zeros((2, 1))), kind)
    check_against(Kalman(F, G, C, np.diag(Q) * T, R, np.diag(P0)), run(block, *signals), *signals)


F, G = discrete(A, B, T)


@dataclass(frozen=True)
class Recursion(Block):
    """Sampled plant x[k] = F x[k-1] + G u[k], y = C x."""

    sample_time: float | None = T
    inputs = (Port("u", (1,)),)
    sampled = (Port("x", (3,), start=np.zeros(3)),)
    outputs = (Port("y", (2,)),)

    def initial(self, x):
        return {"x": x.x}

    def update(self, x, u):
        return {"x": F @ x.x + G @ u.u}

    def output(self, x):
        return {"y": C @ x.x}


@FILTERS
def test_filter_of_a_sampled_linear_plant_equals_the_kalman_filter(kind, signals):
    u, y = signals
    kalman = Kalman(F, G, C, np.diag(Q) * T, R, np.diag(P0))
    for k, sample in enumerate(run(linear_filter(Recursion(), kind), u, y)):
        if k:
            kalman.predict(u[k])
        kalman.correct(y[k])
        assert_allclose(sample["x"], kalman.x, rtol=0, atol=1e-12)
        assert_allclose(sample["covariance"], kalman.P.ravel(), rtol=0, atol=1e-12)


@FILTERS
def test_kalman_filter_ignores_missing_measurements(kind, signals):
    u, y = signals
    y = y.copy()
    y[3:40, 0], y[20:60, 1] = np.nan, np.nan
    block = linear_filter(StateSpace(A, B, C, np.zeros((2, 1))), kind)
    kalman = Kalman(F, G, C, np.diag(Q) * T, R, np.diag(P0))
    check_against(kalman, run(block, u, y), u, y, lambda k: np.flatnonzero(np.isfinite(y[k])))


@FILTERS
def test_estimates_with_delayed_measurements_equal_the_augmented_kalman_filter(kind, signals):
    """Output 1 has a delay of three samples: its past values are states of the augmented plant."""
    u, y = signals

    @dataclass(frozen=True)
    class TwoOutputs(Block):
        inputs = (Port("u", (1,)),)
        states = (Port("x", (3,), start=np.zeros(3)),)
        outputs = (Port("late", ()), Port("prompt", ()))

        def derivative(self, x, u):
            return {"x": A @ x.x + B @ u.u}

        def output(self, x):
            return {"late": C[0] @ x.x, "prompt": C[1] @ x.x}

    block = kind(
        TwoOutputs(),
        ("late", "prompt"),
        {"late": np.sqrt(R[0]), "prompt": np.sqrt(R[1])},
        T,
        process_noise={"x": np.sqrt(Q)},
        deviation={"x": np.sqrt(P0)},
        delays={"late": 3},
    )
    whole = np.zeros((6, 6))
    whole[:3, :3], whole[3, :3], whole[4, 3], whole[5, 4] = F, C[0], 1.0, 1.0
    H = np.zeros((2, 6))
    H[0, 5], H[1, :3] = 1.0, C[1]
    noise, first = np.zeros((6, 6)), np.zeros((6, 6))
    noise[:3, :3], first[:3, :3] = np.diag(Q) * T, np.diag(P0)
    kalman = Kalman(whole, np.vstack([G, np.zeros((3, 1))]), H, noise, R, first)
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    for k in range(len(u)):
        m[memory.where["u"]] = u[k]
        m[memory.where["late_measured"]], m[memory.where["prompt_measured"]] = y[k]
        m[memory.z] = evaluator.update(m) if k else evaluator.initial(m)
        if k:
            kalman.predict(u[k - 1])
        kalman.correct(y[k])
        assert_allclose(m[memory.where["x"]], kalman.x[:3], rtol=0, atol=1e-12)
        assert_allclose(m[memory.where["covariance"]], kalman.P.ravel(), rtol=0, atol=1e-12)


@dataclass(frozen=True)
class Feedthrough(Block):
    """Sampled plant x[k] = 0.9 x[k-1] + u[k], y[k] = x[k] + 5 u[k]."""

    sample_time: float | None = T
    inputs = (Port("u", ()),)
    sampled = (Port("x", (), start=0.0),)
    outputs = (Port("y", ()),)

    def initial(self, x):
        return {"x": x.x}

    def update(self, x, u):
        return {"x": 0.9 * x.x + u.u}

    def output(self, x, u):
        return {"y": x.x + 5.0 * u.u}


@FILTERS
def test_delayed_outputs_with_feedthrough_give_the_estimates_of_the_augmented_kalman_filter(kind):
    """The past output is y[k-1] = x[k-1] + 5 u[k-1], also for a sampled plant."""
    rng = np.random.default_rng(42)
    u, measured = rng.normal(size=60), rng.normal(size=60)
    block = kind(Feedthrough(), "y", {"y": 0.1}, T, {"x": 0.3}, {"x": 1.0}, delays={"y": 1})
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    whole, H = np.array([[0.9, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0]])
    G = np.array([[1.0, 0.0], [0.0, 5.0]])  # columns of u[k] and u[k-1]
    noise, first = np.diag([0.09 * T, 0.0]), np.diag([1.0, 0.0])
    kalman = Kalman(whole, G, H, noise, np.array([0.01]), first)
    kalman.x = np.array([0.0, 5.0 * u[0]])
    for k in range(len(u)):
        m[0], m[memory.where["u"]], m[memory.where["y_measured"]] = k * T, u[k], measured[k]
        m[memory.z] = evaluator.update(m) if k else evaluator.initial(m)
        if k:
            kalman.predict(np.array([u[k], u[k - 1]]))
        kalman.correct(measured[k : k + 1])
        assert_allclose(m[memory.where["x"]], kalman.x[:1], rtol=0, atol=1e-12)
        assert_allclose(m[memory.where["covariance"]], kalman.P.ravel(), rtol=0, atol=1e-12)


@FILTERS
def test_filter_with_input_hold_new_matches_a_kalman_filter_that_predicts_with_the_new_input(
    kind, signals
):
    u, y = signals
    block = linear_filter(StateSpace(A, B, C, np.zeros((2, 1))), kind, input_hold="new")
    kalman = Kalman(F, G, C, np.diag(Q) * T, R, np.diag(P0))
    check_against(kalman, run(block, u, y), np.roll(u, -1, axis=0), y)


@pytest.mark.parametrize(
    ("driven_by", "order", "input_hold"),
    [
        ("source", "gauss-seidel", "new"),
        ("source", "jacobi", "previous"),
        ("gain", "gauss-seidel", "previous"),  # a plant without feedthrough steps before the gain
        ("controller", "gauss-seidel", "previous"),
        ("controller", "jacobi", "previous"),
    ],
)
def test_input_hold_option_that_fits_the_stepping_order_makes_predictions_exact(
    driven_by, order, input_hold, caplog
):
    """Without noise, the Kalman filter of the plant predicts the outputs exactly.

    All inputs begin with zero, because the filter reads signals of the previous step with "jacobi".
    """
    plant = StateSpace(A, B, C, np.zeros((2, 1)))
    other = {"new": "previous", "previous": "new"}[input_hold]
    system = System()
    system.add("plant", plant)
    for name in (input_hold, other):
        system.add(name, linear_filter(plant, input_hold=name))
        system.connect("plant.y", f"{name}.y_measured")
    if driven_by == "source":
        system.add("driver", Sine(amplitude=[3.0], frequency=[2.0]))
    elif driven_by == "gain":
        system.add("source", Sine(amplitude=[3.0], frequency=[2.0]))
        system.add("driver", Gain(2.0, (1,)))
        system.connect("source.y", "driver.u")
    else:  # a controller with feedthrough of the measured outputs
        lags, feedback = np.array([[-1.0, 0.0], [300.0, -1.0]]), np.array([[-20.0, 0.0]])
        controller = StateSpace(lags, np.eye(2), [[0.0, 1.0]], feedback, x0=[1.0, 0.0])
        system.add("driver", controller)
        system.connect("plant.y", "driver.u")
    for name in ("plant", "previous", "new"):
        system.connect("driver.y", f"{name}.u")
    steps = prepare(system, T, order=order).plan.stepping_order
    steps_first = order == "gauss-seidel" and steps.index("driver") < steps.index("plant")
    assert input_hold == ("new" if steps_first else "previous")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "rigidblocks"):
        result = simulate(system, 0.5, T, order=order)
    warnings = {one.getMessage() for one in caplog.records if "input_hold" in one.getMessage()}
    (warning,) = warnings
    assert warning.startswith(f"the estimator '{other}' has input_hold='{other}'")
    assert warning.endswith(f"use input_hold='{input_hold}'")
    innovation = {name: np.abs(result[f"{name}.innovation"]).max() for name in (input_hold, other)}
    assert innovation[input_hold] < 1e-6
    assert innovation[other] > 1e-2


@FILTERS
def test_parameter_of_a_plant_is_estimated_as_an_additional_filter_state(kind):
    """The unknown acceleration a of a falling body follows from its position (least squares)."""

    @dataclass(frozen=True)
    class Falling(Block):
        states = (Port("h", (), start=0.0, rate="v"), Port("v", (), start=0.0))
        outputs = (Port("h", ()),)
        parameters = (Port("a", (), start=0.0),)

        def derivative(self, x, p):
            return {"h": x.v, "v": p.a}

    block = kind(
        Falling(), "h", {"h": 0.05}, T, deviation={"v": 100.0, "h": 100.0, "a": 100.0},
        parameters_to_estimate="a",
    )  # fmt: skip
    assert [port.name for port in block.outputs[:3]] == ["h", "v", "a"]
    t = np.arange(200) * T
    y = 1.0 + 2.0 * t - 9.81 / 2 * t**2 + 0.05 * np.random.default_rng(42).normal(size=200)
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    for k in range(200):
        m[0], m[memory.where["h_measured"]] = t[k], y[k]
        m[memory.z] = evaluator.update(m) if k else evaluator.initial(m)
    fitted = np.linalg.lstsq(np.stack([np.ones(200), t, t**2 / 2], axis=1), y, rcond=None)[0]
    assert m[memory.where["a"]][0] == pytest.approx(fitted[2], rel=1e-5)
    assert m[memory.where["a"]][0] == pytest.approx(-9.81, abs=0.2)


@FILTERS
def test_kalman_filter_rejects_measurement_outliers_outside_its_gate(kind, signals):
    u, y = signals
    plant = StateSpace(A, B, C, np.zeros((2, 1)))
    wild = 0.02 * y
    wild[50::10, 0] += 50.0
    without = wild.copy()
    without[50::10, 0] = np.nan
    gated = list(run(linear_filter(plant, kind, gate=6.0), u, wild))
    missing = list(run(linear_filter(plant, kind), u, without))
    for one, other in zip(gated, missing, strict=True):
        assert_allclose(one["x"], other["x"], rtol=0, atol=1e-12)
        assert_allclose(one["covariance"], other["covariance"], rtol=0, atol=1e-12)
    assert abs(gated[50]["innovation"][0]) > 6.0


@FILTERS
@pytest.mark.slow
def test_compiled_kalman_filter_equals_the_kalman_filter_in_numpy(kind):
    block = replace(four_bar_estimator(four_bar(), _closed(), kind), gate=8.0)
    memory, rng = Memory(block), np.random.default_rng(43)
    stepper, evaluator, v = compiled_stepper(memory), NumpyEvaluator(memory), memory.start()
    v[memory.where["q_measured"]] = _closed()
    stepper.initialize(v, 0.0)
    for k in range(3):
        v[memory.where["q_measured"]] += 0.01 * rng.normal(size=3)
        v[memory.where["tau"]] = rng.normal(size=3)
        m = v.copy()
        m[0] = (k + 1) * block.sample_time
        expected = evaluator.update(m)
        stepper.step(v, k * block.sample_time, block.sample_time)
        assert_allclose(v[memory.z], expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def _closed():
    return assemble(four_bar(), [1.0, -0.5, 1.2])


@FILTERS
@pytest.mark.slow
def test_state_estimates_of_a_closed_loop_mechanism_satisfy_the_loop_constraints(kind):
    model = four_bar()
    block = four_bar_estimator(model, _closed(), kind)
    memory, rng = Memory(block), np.random.default_rng(44)
    stepper, v = compiled_stepper(memory), memory.start()
    v[memory.where["q_measured"]] = _closed()
    stepper.initialize(v, 0.0)
    for k in range(50):
        v[memory.where["q_measured"]] = _closed() + 0.02 * rng.normal(size=3)
        stepper.step(v, k * 1e-3, 1e-3)
        errors = closure_errors(model, v[memory.where["q"]])
        assert max(max(one) for one in errors.values()) < 1e-10
        P = v[memory.where["covariance"]].reshape(6, 6)
        sizes = np.linalg.eigvalsh(P)
        assert np.sum(sizes > 1e-8 * sizes[-1]) == 2  # one position, one velocity


@FILTERS
@pytest.mark.slow
def test_normalized_estimation_errors_of_a_four_bar_are_in_the_95_percent_interval(kind):
    found = consistency(four_bar_estimator(four_bar(), _closed(), kind), RUNS, 60, seed=45)
    assert found.rank == 2
    assert found.low < found.nees < found.high


@pytest.mark.slow
def test_normalized_estimation_errors_of_a_floating_base_are_in_the_95_percent_interval():
    """The quaternion has four elements and three degrees of freedom: the rank is 16 of 17."""
    found = consistency(
        floating_estimator(random_tree, np.random.default_rng(0)), RUNS, 60, seed=46
    )
    assert found.rank == 16
    assert found.low < found.nees < found.high


@pytest.mark.slow
def test_normalized_estimation_errors_with_unknown_payload_are_in_the_95_percent_interval():
    rng = np.random.default_rng(0)
    arm = random_tree(rng, tuple(range(-1, 6)), (Revolute(),) * 7)
    found = consistency(arm_estimator(arm), RUNS, 60, seed=47)
    assert found.rank == 15
    assert found.low < found.nees < found.high


@pytest.mark.parametrize(("alpha", "beta", "kappa"), [(1e-3, 2.0, 0.0), (0.5, 0.5, 1.0)])
def test_unscented_filter_of_a_linear_plant_does_not_depend_on_its_sigma_points(
    alpha, beta, kappa, signals
):
    u, y = (one[:20] for one in signals)
    block = UnscentedKalmanFilter(
        Recursion(), "y", {"y": np.sqrt(R)}, T, {"x": np.sqrt(Q)}, {"x": np.sqrt(P0)},
        alpha=alpha, beta=beta, kappa=kappa,
    )  # fmt: skip
    kalman = Kalman(F, G, C, np.diag(Q) * T, R, np.diag(P0))
    for k, sample in enumerate(run(block, u, y)):
        if k:
            kalman.predict(u[k])
        kalman.correct(y[k])
        assert_allclose(sample["x"], kalman.x, rtol=0, atol=1e-9)
        assert_allclose(sample["covariance"], kalman.P.ravel(), rtol=0, atol=1e-9)


@dataclass(frozen=True)
class Square(Block):
    """Sampled plant x[k] = x[k-1]^2."""

    sample_time: float | None = T
    sampled = (Port("x", (), start=3.0),)
    outputs = (Port("y", ()),)

    def initial(self, x):
        return {"x": x.x}

    def update(self, x):
        return {"x": x.x * x.x}

    def output(self, x):
        return {"y": x.x}


def test_unscented_prediction_of_a_squared_variable_has_the_exact_mean_and_variance():
    """For x ~ N(m, s^2): E x^2 = m^2 + s^2 and var x^2 = 4 m^2 s^2 + 2 s^4."""
    block = UnscentedKalmanFilter(Square(), "y", {"y": 1.0}, T, deviation={"x": 0.5})
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    m[memory.where["y_measured"]] = np.nan
    m[memory.z] = evaluator.update(m)
    assert m[memory.where["x"]][0] == pytest.approx(9.25, abs=1e-12)
    assert m[memory.where["covariance"]][0] == pytest.approx(9.125, abs=1e-12)


@pytest.mark.slow
def test_code_of_the_unscented_filter_contains_the_plant_equations_once():
    block = UnscentedKalmanFilter(PLANT, "q", {"q": 0.1}, 1e-3, deviation={"q": 0.1})
    graph = TracedEvaluator(Memory(block)).graph("update")
    assert "sin" not in graph.operations
    rates = TracedEvaluator(Memory(PLANT)).graph("derivative")
    assert c_function(graph).count(" sin(") == rates.operations["sin"] > 0


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_cholesky_factor_of_a_singular_covariance_reproduces_the_covariance(rank):
    rng = np.random.default_rng(rank)
    P = (V := rng.normal(size=(6, rank))) @ V.T
    L = semidefinite_cholesky(P)
    assert_allclose(L @ L.T, P, rtol=0, atol=1e-12 * np.abs(P).max())
    assert_array_equal(L, np.tril(L))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, "alpha of an unscented .* must be positive, not 0.0"),
        ({"alpha": "a"}, TypeError, "alpha of an unscented .* must be a number, not 'a'"),
        ({"beta": np.nan}, ValueError, "beta of an unscented .* must be finite, not nan"),
        ({"kappa": -4.0}, ValueError, "of 4 states must be larger than -4, not -4.0"),
        ({"measured": "Q"}, KeyError, "unknown name 'Q' in measured .*available: q, qd"),
    ],
)
def test_invalid_arguments_of_an_unscented_filter_are_rejected(options, error, message):
    given = {"plant": PLANT, "measured": "q", "measurement_noise": {"q": 0.1}, "sample_time": 1e-3}
    with pytest.raises(error, match=message):
        UnscentedKalmanFilter(**{**given, **options})


@pytest.mark.slow
def test_kalman_filter_in_a_system_estimates_the_velocities_of_a_robot():
    system = System()
    arm = RobotPlant(planar2(), q0=(0.3, -0.5))
    system.add("arm", arm)
    system.add(
        "filter",
        ExtendedKalmanFilter(
            RobotPlant(planar2()),
            "q",
            {"q": 1e-3},
            1e-3,
            process_noise={"qd": 1.0},
            deviation={"q": 0.5, "qd": 0.5},
        ),
    )
    system.add("pd", PDController((60.0, 30.0), (8.0, 4.0)), start={"q_ref": [0.5, 0.2]})
    for source, target in (
        ("arm.q", "filter.q_measured"),
        ("filter.q", "pd.q"),
        ("filter.qd", "pd.qd"),
        ("pd.tau", "arm.tau"),
        ("pd.tau", "filter.tau"),
    ):
        system.connect(source, target)
    result = simulate(system, 0.5, 1e-3)
    error = np.abs(result["filter.qd"] - result["arm.qd"])
    assert error[100:].max() < 1e-2


# --- wrong input ---


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"measured": "Q"}, KeyError, "unknown name 'Q' in measured .*available: q, qd"),
        ({"measured": ()}, ValueError, "needs the name of at least one measured output"),
        ({"measurement_noise": {}}, ValueError, "needs measurement_noise of q"),
        ({"measurement_noise": {"q": 0.0}}, ValueError, "of 'q' must be positive, not 0.0"),
        ({"process_noise": {"v": 1.0}}, KeyError, "unknown name 'v' in process_noise"),
        ({"process_noise": {"q": -1.0}}, ValueError, "'q' must be finite and not negative, not -1"),
        ({"deviation": {"q": [1.0, 2.0, 3.0]}}, ValueError, "deviation of 'q'"),
        ({"parameters_to_estimate": "mass"}, KeyError, "'mass' in parameters_to_estimate"),
        ({"gate": 0.0}, ValueError, "the gate must be positive, not 0.0"),
        ({"delays": {"q": 0.5}}, ValueError, "the delay of 'q' must be 0, 1, 2, ... samples"),
        ({"delays": {"qd": 1}}, KeyError, "unknown name 'qd' in delays"),
        ({"deviation": [1.0]}, TypeError, "deviation .* must be a mapping .*, not \\(1.0,\\)"),
        ({"delays": {"q": np.nan}}, ValueError, "the delay of 'q' must be 0, 1, 2.*, not nan"),
        ({"delays": {"q": np.inf}}, ValueError, "the delay of 'q' must be 0, 1, 2.*, not inf"),
        ({"delays": {"q": None}}, TypeError, "the delay of 'q' in delays .* number, not None"),
        ({"gate": "a"}, TypeError, "the gate must be a number, not 'a'"),
        ({"measurement_noise": {"q": "a"}}, TypeError, "measurement_noise of 'q' .*, not 'a'"),
        ({"deviation": {"q": None}}, ValueError, "deviation of 'q' .*, not None"),
        ({"measured": None}, TypeError, "measured of an estimator must be a name .*, not None"),
        ({"measured": [1]}, TypeError, "measured of an estimator must be a name .*, not"),
        ({"measured": b"q"}, TypeError, "measured of an estimator must be a name .*, not b'q'"),
        ({"input_hold": None}, ValueError, "unknown input_hold None .*available: previous, new"),
        ({"input_hold": [1, 2]}, ValueError, "unknown input_hold .*available: previous, new"),
        ({"parameters_to_estimate": 3}, TypeError, "parameters_to_estimate of .*, not 3"),
        ({"sample_time": "x"}, TypeError, "sample_time of an estimator .* number, not 'x'"),
        ({"sample_time": 0.0}, ValueError, "sample_time of an estimator must be positive .* 0.0 s"),
        ({"input_hold": "old"}, ValueError, "unknown input_hold 'old' .*available: previous, new"),
        ({"sample_time": None}, ValueError, "needs a sample_time"),
        ({"plant": PDController((1.0,), (1.0,))}, ValueError, "neither continuous nor sampled"),
        (
            {"plant": Recursion(0.5), "measured": "y", "measurement_noise": {"y": 1.0}},
            ValueError,
            "has the sample time 0.5 s; the estimator has 0.001 s",
        ),
        ({"plant": planar2()}, ValueError, "functions can be traced, not a Model"),
    ],
)
def test_invalid_arguments_of_an_estimator_are_rejected(options, error, message):
    given = {"plant": PLANT, "measured": "q", "measurement_noise": {"q": 0.1}, "sample_time": 1e-3}
    with pytest.raises(error, match=message):
        ExtendedKalmanFilter(**{**given, **options})
