"""Unscented Kalman filter around FMUs compared with the Kalman filter and the filter block."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pythonfmu.builder import FmuBuilder

from any_models import DAHLQUIST, VAN_DER_POL, any_fmu
from rigidblocks import Block, Port, System, export_fmu, simulate
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.fmu_estimator import FmuKalmanFilter
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.library import UnscentedKalmanFilter

T = 0.1


def decay(path, **options):
    given = {
        "measured": "x",
        "measurement_noise": {"x": 0.2},
        "sample_time": T,
        "process_noise": {"x": 0.3},
        "deviation": {"x": 0.5},
    }
    return FmuKalmanFilter(path, **{**given, **options})


@pytest.fixture(scope="module", params=[2, 3])
def dahlquist(request, tmp_path_factory):
    return any_fmu(tmp_path_factory.mktemp("dahlquist"), DAHLQUIST, request.param)


@pytest.mark.slow
def test_fmu_filter_of_a_linear_reference_fmu_equals_the_kalman_filter(dahlquist):
    """The factor F of a step follows from a simulation of the FMU from x = 1."""
    system = System()
    system.add("fmu", dahlquist)
    F = simulate(system, T, T)["fmu.x"][-1]
    rng, x, P = np.random.default_rng(1), 1.0, 0.25
    with decay(dahlquist, gate=4.0) as observer:
        for k in range(40):
            y = np.nan if k % 7 == 3 else 50.0 if k == 20 else F ** (k + 1) + 0.2 * rng.normal()
            x, P = F * x, F * (P + 0.09 * T) * F
            if k % 7 != 3 and k != 20:
                K = P / (P + 0.04)
                x, P = x + K * (y - x), (1 - K) * P
            estimate = observer.step({"x": y})
            assert_allclose(estimate["x"], x, rtol=0, atol=1e-12)
            assert_allclose(observer.covariance, [[P]], rtol=0, atol=1e-12)
            assert observer.time == pytest.approx((k + 1) * T, abs=1e-12)


OSCILLATOR = """
from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real


class Oscillator(Fmi2Slave):
    def __init__(self, **options):
        super().__init__(**options)
        self.a, self.b, self.mu, self.u = 2.0, 0.0, 1.0, 0.0
        for name in "ab":
            self.register_variable(Real(name, causality=Fmi2Causality.output))
        self.register_variable(Real("u", causality=Fmi2Causality.input))
        tunable = {"causality": Fmi2Causality.parameter, "variability": Fmi2Variability.tunable}
        self.register_variable(Real("mu", **tunable))

    def rates(self, a, b):
        return b, self.mu * (1 - a * a) * b - a + self.u

    def do_step(self, current_time, h):
        a, b = self.a, self.b
        k1 = self.rates(a, b)
        k2 = self.rates(a + h / 2 * k1[0], b + h / 2 * k1[1])
        k3 = self.rates(a + h / 2 * k2[0], b + h / 2 * k2[1])
        k4 = self.rates(a + h * k3[0], b + h * k3[1])
        self.a += h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        self.b += h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        return True
"""


@dataclass(frozen=True)
class Oscillator(Block):
    """Van der Pol oscillator: da/dt = b, db/dt = mu (1 - a^2) b - a + u."""

    inputs = (Port("u", ()),)
    states = (Port("a", (), start=2.0), Port("b", (), start=0.0))
    outputs = (Port("a", ()),)
    parameters = (Port("mu", (), start=1.0),)

    def derivative(self, x, u, p):
        return {"a": x.b, "b": p.mu * (1 - x.a * x.a) * x.b - x.a + u.u}


DECLARATION = {
    "measured": "a",
    "measurement_noise": {"a": 0.05},
    "sample_time": T,
    "deviation": {"a": 0.1, "b": 0.1, "mu": 0.3},
    "parameters_to_estimate": "mu",
}


def built(folder, script=OSCILLATOR, module="oscillator", **options):
    """Build an FMU; FMUs in one process need modules with different names."""
    (folder / f"{module}.py").write_text(script)
    return FmuBuilder.build_FMU(folder / f"{module}.py", dest=folder, **options)


@pytest.fixture(scope="module")
def oscillator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oscillator")
    return built(folder, canGetAndSetFMUstate=True)


@pytest.mark.slow
def test_fmu_filter_of_a_pythonfmu_fmu_equals_the_filter_block_of_the_same_plant(oscillator):
    """Without process noise, both filters have the same equations; both plants take RK4 steps."""
    rng, count = np.random.default_rng(2), 30
    u, noise = np.full(count, 0.3), 0.05 * rng.normal(size=count)
    system = System()
    system.add("truth", Oscillator(), method="rk4", start={"mu": 1.4, "u": 0.3})
    truth = simulate(system, count * T, T)["truth.a"][1:] + noise
    block = UnscentedKalmanFilter(Oscillator(), **DECLARATION, input_hold="new")
    memory = Memory(block)
    evaluator, m = NumpyEvaluator(memory), memory.start()
    m[memory.where["a_measured"]] = np.nan
    m[memory.z] = evaluator.initial(m)
    with FmuKalmanFilter(oscillator, **DECLARATION, states=("a", "b")) as observer:
        for k in range(count):
            m[0] = (k + 1) * T
            m[memory.where["u"]], m[memory.where["a_measured"]] = u[k], truth[k]
            m[memory.z] = evaluator.update(m)
            found = observer.step({"a": truth[k]}, {"u": u[k]})
            for name in ("a", "b", "mu"):
                assert_allclose(found[name], m[memory.where[name]][0], rtol=0, atol=1e-9)
            P = m[memory.where["covariance"]].reshape(3, 3)
            assert_allclose(observer.covariance, P, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_fmu_filter_estimates_the_unmeasured_state_of_a_reference_fmu(tmp_path, version):
    path = any_fmu(tmp_path, VAN_DER_POL, version)
    system = System()
    system.add("fmu", path, start={"x0": 1.5, "x1": -0.5})
    truth = simulate(system, 6.0, T)
    rng = np.random.default_rng(3)
    declaration = {
        "measured": "x0", "measurement_noise": {"x0": 0.01}, "sample_time": T,
        "deviation": {"x0": 1.0, "x1": 1.0},
    }  # fmt: skip
    with FmuKalmanFilter(path, **declaration) as observer:
        for y in truth["fmu.x0"][1:]:
            found = observer.step({"x0": y + 0.01 * rng.normal()})
        error = found["x1"] - truth["fmu.x1"][-1]
        assert abs(error) < 5 * np.sqrt(observer.covariance[1, 1])
        assert abs(error) < 0.05


# --- wrong input ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"measured": "y"}, KeyError, "unknown name 'y' in measured .*available: x"),
        ({"states": "z"}, KeyError, "unknown name 'z' in states .*available: x"),
        ({"measured": ("x", "x")}, ValueError, "measured .* must contain each name once, not x, x"),
        ({"states": ("x", "x")}, ValueError, "states .* must contain each name once, not x, x"),
        ({"deviation": {"x": -1.0}}, ValueError, "deviation of 'x' must be finite and not neg"),
        ({"deviation": {"x": [1.0, 2.0]}}, ValueError, "deviation of 'x'"),
        ({"measurement_noise": {}}, ValueError, "needs measurement_noise of x"),
        ({"sample_time": 0.0}, ValueError, "sample_time .* must be positive and finite"),
        ({"alpha": 0.0}, ValueError, "alpha of an unscented Kalman filter must be positive"),
        ({"parameters_to_estimate": "mass"}, KeyError, "'mass' in parameters_to_estimate"),
    ],
)
def test_invalid_arguments_of_the_fmu_kalman_filter_are_rejected(
    dahlquist, options, error, message
):
    with pytest.raises(error, match=message):
        decay(dahlquist, **options)


@pytest.mark.slow
def test_invalid_measurements_and_inputs_of_an_fmu_filter_are_rejected(dahlquist):
    with decay(dahlquist) as observer:
        with pytest.raises(KeyError, match=r"unknown name 'y' in measurements .*available: x"):
            observer.step({"y": 1.0})
        with pytest.raises(ValueError, match=r"measurements of 'x' must have the shape \(\), not"):
            observer.step({"x": [1.0, 2.0]})
        with pytest.raises(KeyError, match=r"unknown name 'u' in inputs .*available: none"):
            observer.step({"x": 1.0}, {"u": 1.0})
    with pytest.raises(ValueError, match="is closed"):
        observer.step({"x": 1.0})


@pytest.mark.slow
def test_error_of_the_fmu_filter_identifies_an_fmu_that_cannot_save_its_state(tmp_path):
    path = built(tmp_path)
    with pytest.raises(FmuError, match=r"Oscillator.fmu' cannot be .* cannot save its state"):
        FmuKalmanFilter(path, **DECLARATION, states=("a", "b"))


@pytest.mark.slow
def test_fmu_filter_needs_the_state_names_of_an_fmu_without_declared_states(oscillator):
    with pytest.raises(FmuError, match=r"declares no derivatives .* `states`; available: a, b"):
        FmuKalmanFilter(oscillator, **DECLARATION)


@pytest.mark.slow
@pytest.mark.parametrize("ignored", ["a", "b", "mu"])
def test_error_of_the_fmu_filter_identifies_a_variable_whose_set_value_is_ignored(
    tmp_path, ignored
):
    setter = "setter=lambda value: None"
    if ignored == "mu":
        script = OSCILLATOR.replace('Real("mu", ', f'Real("mu", {setter}, ')
    else:
        loop = 'for name in "ab":\n            self.register_variable(Real(name, '
        chosen = f'**({{"setter": lambda value: None}} if name == "{ignored}" else {{}}), '
        script = OSCILLATOR.replace(loop, loop + chosen)
    assert script != OSCILLATOR
    path = built(tmp_path, script, f"without_setter_of_{ignored}", canGetAndSetFMUstate=True)
    with (
        FmuKalmanFilter(path, **DECLARATION, states=("a", "b")) as observer,
        pytest.raises(FmuError, match=f"ignores the value of '{ignored}' between steps"),
    ):
        observer.step({"a": 1.0})


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_error_of_the_fmu_filter_identifies_an_fmu_that_rejects_state_values(tmp_path, version):
    """Native FMUs of this library follow the standard and reject start values during a run."""
    path = export_fmu(Oscillator(), tmp_path / "strict.fmu", fmi=version)
    with (
        FmuKalmanFilter(path, **DECLARATION) as observer,
        pytest.raises(
            FmuError, match=r"strict.fmu' does not accept new values of a, b, mu between steps"
        ),
    ):
        observer.step({"a": 1.0})
    assert observer.time == 0.0
