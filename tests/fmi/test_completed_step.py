"""Model exchange of a block that projects: a host's solver is started anew only where its states
have drifted, so that its error does not grow with the number of its steps.

A solver of tolerance 1e-8 is asked for an event from a drift of 1e-6 on, one of tolerance r from
100 r on, which is what the errors of many steps add up to.
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
from rigidblocks.fmi.native import native_fmu

TOLERANCE = 1e-8  # of CVODE, relative
DRIFT = 100 * TOLERANCE
G = 9.81


@dataclass(frozen=True)
class Bob(Block):
    """A point mass on a rod of length 1, in Cartesian coordinates, put back on its circle."""

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
    """The positions of the bob from its angle, by a solver of another order and tolerance."""
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
    """Whether an event was asked for after each step of the integrators of a run."""
    answers = []
    for kind in (FMU2Model, FMU3Model):

        def ask(fmu, *given, _ask=kind.completedIntegratorStep):
            answer = _ask(fmu, *given)
            answers.append(bool(answer[0]))
            return answer

        monkeypatch.setattr(kind, "completedIntegratorStep", ask)
    return answers


def by_cvode(path, interval, names):
    """The outputs over 2 s by FMPy's CVODE."""
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
def test_the_error_of_a_solver_does_not_grow_as_its_output_becomes_finer(tmp_path, fmi, asked):
    path = native_fmu(Bob(), tmp_path / "bob.fmu", fmi=fmi)
    errors = []
    for interval in (0.1, 0.01, 0.001):
        t, p = by_cvode(path, interval, ["p[1]", "p[2]"] if fmi == 2 else ["p"])
        errors.append(np.abs(p - bob_positions(t)).max())
    assert max(errors) < 2.0 * errors[0]
    assert sum(asked) < 0.02 * len(asked)


@pytest.mark.slow
def test_the_error_of_a_four_bar_does_not_grow_as_the_output_becomes_finer(tmp_path, asked):
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
    """The FMU of the bob, for instances."""

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
def test_an_event_is_asked_for_from_a_drift_on_that_the_solver_tolerates(
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
def test_a_drift_is_relative_to_states_of_more_than_their_nominal_value(
    tmp_path, fmi, radial, wanted
):
    host = FixedStepHost(Bobs(tmp_path), "bob", fmi)
    host.initialize()
    outward = np.array([0.6, 0.8])
    v = 1e6 * np.array([-0.8, 0.6]) + radial * outward
    host.rates(0.0, [*outward, *v])
    assert bool(host.fmu.completedIntegratorStep()[0]) == wanted
    host.fmu.freeInstance()
