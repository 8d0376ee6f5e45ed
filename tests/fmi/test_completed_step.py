"""Model exchange of a block with a projection: the error does not grow with the number of steps.

The FMU requests an event, which restarts the importer's solver, only if the drift exceeds 100 times
the solver tolerance. For a tolerance of 1e-8 this limit is 1e-6. The errors of many steps add up to
about this drift.
"""

from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Model
from fmpy.fmi3 import FMU3Model
from scipy.integrate import solve_ivp

from loop_models import closed, four_bar
from model_exchange_host import FixedStepHost
from rigidblocks import Block, ClosedLoopPlant, Port
from rigidblocks.fmi.native_fmu import native_fmu

TOLERANCE = 1e-8  # relative tolerance of CVODE
DRIFT = 100 * TOLERANCE
G = 9.81


@dataclass(frozen=True)
class Bob(Block):
    """Point mass on a rod of length 1, in Cartesian coordinates, projected onto its circle."""

    outputs = (Port("p", (2,), "m", "position, x and up"),)
    states = (
        Port("p", (2,), "m", "position, x and up", (1.0, 0.0), rate="v"),
        Port("v", (2,), "m/s", "velocity", 0.0),
    )

    def derivative(self, x):
        pull = (x.v @ x.v - G * x.p[1]) / (x.p @ x.p)
        return {"p": x.v, "v": np.array([-pull * x.p[0], -pull * x.p[1] - G])}

    def project(self, x):
        p = x.p / np.sqrt(x.p @ x.p)
        return {"p": p, "v": x.v - p * (p @ x.v)}


def bob_positions(t):
    """Return the bob positions (n, 2) [m] from the pendulum angle, by another solver."""
    angle = solve_ivp(
        lambda _, y: (y[1], -G * np.sin(y[0])),
        (0.0, t[-1]),
        (np.pi / 2, 0.0),
        "DOP853",
        t,
        rtol=1e-13,
        atol=1e-13,
    ).y[0]
    return np.transpose([np.sin(angle), -np.cos(angle)])


@pytest.fixture(params=[2, 3], ids=["fmi2", "fmi3"])
def fmi(request):
    return request.param


@pytest.fixture
def asked(monkeypatch):
    """Return a list that records whether each integrator step of a run requests an event."""
    answers = []
    for kind in (FMU2Model, FMU3Model):

        def ask(fmu, *given, _ask=kind.completedIntegratorStep):
            answer = _ask(fmu, *given)
            answers.append(bool(answer[0]))
            return answer

        monkeypatch.setattr(kind, "completedIntegratorStep", ask)
    return answers


def by_cvode(path, interval, names):
    """Return the outputs over 2 s by FMPy's CVODE."""
    rows = fmpy.simulate_fmu(
        str(path),
        fmi_type="ModelExchange",
        solver="CVode",
        stop_time=2.0,
        output_interval=interval,
        relative_tolerance=TOLERANCE,
        output=names,
        record_events=False,
    )
    return rows["time"], np.column_stack([rows[name].reshape(len(rows), -1) for name in names])


@pytest.mark.slow
def test_model_exchange_error_of_a_pendulum_does_not_grow_with_more_output_times(
    tmp_path, fmi, asked
):
    path = native_fmu(Bob(), tmp_path / "bob.fmu", fmi=fmi)
    errors = []
    for interval in (0.1, 0.01, 0.001):
        t, p = by_cvode(path, interval, ["p[1]", "p[2]"] if fmi == 2 else ["p"])
        errors.append(np.abs(p - bob_positions(t)).max())
    assert max(errors) < 2.0 * errors[0]
    assert sum(asked) < 0.02 * len(asked)


@pytest.mark.slow
def test_model_exchange_error_of_a_four_bar_does_not_grow_with_more_output_times(tmp_path, asked):
    model = four_bar()
    plant = ClosedLoopPlant(model, q0=closed(model, np.array([1.0, -0.6, -1.2])))
    path = native_fmu(plant, tmp_path / "four_bar.fmu")
    exact = native_fmu(plant, tmp_path / "exact.fmu", h=1e-4)
    names = ["q[1]", "q[2]", "q[3]"]
    rows = fmpy.simulate_fmu(
        str(exact), stop_time=2.0, step_size=0.1, output_interval=0.1, output=names
    )
    expected = np.column_stack([rows[name] for name in names])
    errors = []
    for interval in (0.1, 0.01, 0.001):
        _, q = by_cvode(path, interval, names)
        errors.append(np.abs(q[:: round(0.1 / interval)] - expected).max())
    assert max(errors) < 3.0 * errors[0]
    assert sum(asked) < 0.02 * len(asked)


class Bobs:
    """FMU of the bob, built and unpacked on request."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name, fmi):
        path = self.folder / f"{name} {fmi}.fmu"
        if not path.exists():
            native_fmu(Bob(), path, fmi=fmi)
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tolerance", "drift"), [(None, DRIFT), (1e-8, DRIFT), (1e-10, 1e-8), (1e-2, 1e-3)]
)
def test_fmu_requests_a_projection_event_if_the_drift_exceeds_100_tolerances(
    tmp_path, fmi, tolerance, drift
):
    host = FixedStepHost(Bobs(tmp_path), "bob", fmi)
    if fmi == 2:
        host.fmu.setupExperiment(tolerance=tolerance)
        host.fmu.enterInitializationMode()
    else:
        host.fmu.enterInitializationMode(tolerance=tolerance)
    host.fmu.exitInitializationMode()
    host.handle_event(0.0)
    host.fmu.enterContinuousTimeMode()
    for part, wanted in ((0.9, False), (1.1, True)):
        for x in ((1.0 + part * drift, 0.0, 0.0, 0.0), (1.0, 0.0, part * drift, 0.0)):
            host.rates(0.0, x)
            assert bool(host.fmu.completedIntegratorStep()[0]) == wanted
    host.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize(("radial", "wanted"), [(0.5, False), (2.0, True)])
def test_drift_limit_of_projection_events_is_relative_for_states_above_their_nominal_value(
    tmp_path, fmi, radial, wanted
):
    host = FixedStepHost(Bobs(tmp_path), "bob", fmi)
    host.initialize()
    outward = np.array([0.6, 0.8])
    v = 1e6 * np.array([-0.8, 0.6]) + radial * outward
    host.rates(0.0, [*outward, *v])
    assert bool(host.fmu.completedIntegratorStep()[0]) == wanted
    host.fmu.freeInstance()
