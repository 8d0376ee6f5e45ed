"""Events in a co-simulation of blocks and FMUs.

The master rolls the step back and repeats it up to the event.
"""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ellipk

from rigidblocks import (
    Block,
    Model,
    Port,
    Prismatic,
    Revolute,
    RobotPlant,
    SimulationError,
    System,
    export_fmu,
    simulate,
)
from rigidblocks.cosim.fmu_import.fmu_instance import FmuInstance
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import identity, mcI, rotx

G = 9.81
HEIGHT, THRUST = 1.0, 30.0
LOCATED = 1e-12  # error of an event time relative to dt; the integrator is exact for a parabola
BALL_SCRIPT = '''"""A mass that falls."""

import numpy as np

from rigidblocks import Model, Prismatic, RobotPlant
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.spatial.spatial import identity, mcI


class FallingMassForEvents(BlockSlave):
    """A mass on a vertical slide."""

    def __init__(self, **kwargs):
        inertia = mcI(1.0, np.zeros(3), np.eye(3))
        model = Model("mass", (-1,), (Prismatic(),), (identity(),), (inertia,))
        super().__init__(RobotPlant(model, [1.0]), **kwargs)
'''


def mass():
    """Return a mass that falls from rest."""
    model = Model("mass", (-1,), (Prismatic(),), (identity(),), (mcI(1.0, np.zeros(3), np.eye(3)),))
    return RobotPlant(model, [HEIGHT])


@dataclass(frozen=True, eq=False)
class Thruster(Block):
    """Thruster with full force at heights of at most zero."""

    inputs = (Port("z", (1,), "m"),)
    outputs = (Port("tau", (1,), "N"),)

    def output(self, u):
        return {"tau": select(less(0.0, u.z), 0.0, THRUST)}


def landing(ball, thruster=None):
    """Return a falling mass that the thruster brakes below height zero."""
    system = System()
    system.add("ball", ball)
    system.add("thruster", thruster or Thruster())
    system.connect("ball.q", "thruster.z")
    system.connect("thruster.tau", "ball.tau")
    return system


def closed_form(t):
    """Return the height [m] of the braked mass."""
    fall = np.sqrt(2 * HEIGHT / G)
    s = np.maximum(t - fall, 0)
    return HEIGHT - G * np.minimum(t, fall) ** 2 / 2 - G * fall * s + (THRUST - G) * s**2 / 2


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """Return the mass as block, native and Python FMU, and the thruster as block and native FMU."""
    folder = tmp_path_factory.mktemp("falling")
    script = folder / "falling_mass_for_events_fmu.py"
    script.write_text(BALL_SCRIPT)
    native, python = (
        export_fmu(script, folder / f"{target}.fmu", target) for target in ("native", "python")
    )
    thruster = export_fmu(Thruster(), folder / "thruster.fmu")
    return {
        "compiled": (mass(), None),
        "numpy": (mass(), None),
        "native": (native, None),
        "python": (python, None),
        "all native": (native, thruster),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "native", "python", "all native"])
@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_event_time_and_subsequent_motion_equal_the_closed_form(forms, form, order):
    system, dt = landing(*forms[form]), 0.06
    how = {"form": "numpy" if form == "numpy" else "compiled", "order": order}
    result = simulate(system, 0.6, dt, events=["ball.q[1]"], **how)
    fall = np.sqrt(2 * HEIGHT / G)
    k = int(np.argmin(np.abs(result.time - fall)))
    assert_allclose(result.time[k], fall, rtol=0, atol=2 * LOCATED)
    assert -1e-11 < result["ball.q[1]"][k] <= 0.0
    assert_allclose(result.time[[k - 1, k + 1]], [7 * dt, 8 * dt], rtol=1e-14)
    assert len(result.time) == 12
    if (
        order == "gauss-seidel"
    ):  # with jacobi the thruster reads the height of the previous step, as without events
        assert_allclose(result["ball.q[1]"], closed_form(result.time), rtol=0, atol=1e-11)
        without = simulate(system, 0.6, dt, **how)
        assert np.abs(without["ball.q[1]"] - closed_form(without.time)).max() > 1e-2


@pytest.mark.slow
def test_event_detection_does_not_change_a_run_without_events():
    system = landing(mass())
    for column in ("ball.q", "ball.qd", "thruster.tau"):
        assert_array_equal(
            simulate(system, 0.4, 0.02, events=["ball.q[1]"])[column],
            simulate(system, 0.4, 0.02)[column],
        )


@pytest.mark.slow
def test_event_time_error_converges_at_the_order_of_the_integrator():
    # a pendulum released at a right angle is vertical after a quarter of its period
    model = Model(
        "pendulum",
        (-1,),
        (Revolute(),),
        (rotx(-np.pi / 2),),
        (mcI(1.0, [0.0, 1.0, 0.0], 0 * np.eye(3)),),
    )
    exact = np.sqrt(1 / G) * ellipk(np.sin(np.pi / 4) ** 2)
    errors, counts = [], np.array([8, 12, 18, 28])
    for n in counts:
        h = exact / (n + 0.4)
        system = System()
        system.add("pendulum", RobotPlant(model, [np.pi / 2]), method="rk4", h=h)
        result = simulate(system, (n + 2) * h, (n + 2) * h, events=["pendulum.q[1]"])
        errors.append(abs(result.time[1] - exact))
    assert abs(np.polyfit(np.log(exact / (counts + 0.4)), np.log(errors), 1)[0] - 4) < 0.3


FALLS = np.sqrt(2 / G), np.sqrt(2.2 / G)


def two_masses():
    """Return two masses, one released from a slightly larger height."""
    system = System()
    system.add("a", mass())
    system.add("b", mass(), start={"q": [1.1]})
    return system


def test_two_events_in_one_step_add_two_samples_to_the_result():
    result = simulate(two_masses(), 1.0, 0.5, events=["a.q[1]", "b.q[1]"])
    assert_allclose(result.time, [0, *FALLS, 0.5, 1.0], rtol=0, atol=2e-12)


def test_results_in_memory_and_parquet_contain_time_and_name_of_each_event(tmp_path):
    path = tmp_path / "run.parquet"
    names = ["b.q[1]", "a.q[1]"]
    result = simulate(two_masses(), 1.0, 0.5, events=names, save=path)
    assert [event.kind for event in result.events] == ["a.q[1]", "b.q[1]"]
    # the event time equals the time of its row bit for bit
    assert_array_equal([event.t for event in result.events], result.time[1:3])
    assert_array_equal(result.times("b.q[1]"), result.time[2:3])
    saved = json.loads(pyarrow.parquet.read_schema(path).metadata[b"events"])
    assert saved == [[event.t, event.kind] for event in result.events]
    assert simulate(two_masses(), 0.4, 0.2, events=names).events == ()


def test_simultaneous_zero_crossings_are_separate_events():
    system = System()
    for name in ("a", "b"):
        system.add(name, mass())
    result = simulate(system, 0.6, 0.6, events=["a.q[1]", "b.q[1]", "a.q[1]"])
    fall = np.sqrt(2 * HEIGHT / G)
    assert sorted(event.kind for event in result.events) == ["a.q[1]", "b.q[1]"]
    assert_allclose([event.t for event in result.events], fall, rtol=0, atol=2 * LOCATED)


def test_event_at_a_communication_point_is_located_once():
    fall = np.sqrt(2 * HEIGHT / G)
    result = simulate(landing(mass()), 2 * fall, fall, events=["ball.q[1]"])
    assert len(result.time) in (3, 4)
    assert_allclose(result.times("ball.q[1]"), [fall], rtol=0, atol=2 * LOCATED * fall)
    assert_allclose(result["ball.q[1]"], closed_form(result.time), rtol=0, atol=1e-11)


def test_too_many_events_in_one_communication_step_end_the_run(monkeypatch):
    monkeypatch.setattr("rigidblocks.cosim.masters.masters.EVENTS", 1)
    with pytest.raises(
        SimulationError, match="more than 1 events occurred within one communication step"
    ) as caught:
        simulate(two_masses(), 1.0, 0.5, events=["a.q[1]", "b.q[1]"])
    left = caught.value.result
    assert_allclose(left.time, [0, *FALLS], rtol=0, atol=2e-12)
    assert [event.kind for event in left.events] == ["a.q[1]", "b.q[1]"]


def test_invalid_event_options_are_rejected():
    system = landing(mass())
    with pytest.raises(
        ValueError, match=r"unknown output element 'ball.gap' in events; available: ball\.q\[1\]"
    ):
        simulate(system, 1.0, 0.1, events=["ball.gap"])
    with pytest.raises(ValueError, match="the form 'fused' does not support events"):
        simulate(system, 1.0, 0.1, form="fused", events=["ball.q[1]"])


def test_event_error_identifies_an_fmu_that_cannot_restore_its_state(forms):
    system = landing(forms["native"][0])
    part = system.parts["ball"]
    part.component.description.coSimulation.canGetAndSetFMUstate = False
    instance = FmuInstance(part)
    try:
        with pytest.raises(
            FmuError, match=r"'ball' \(.*native.fmu\) cannot restore an earlier state"
        ):
            instance.save()
    finally:
        instance.close()
