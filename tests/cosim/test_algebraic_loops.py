"""Algebraic loops among blocks.

Continuous and fused systems, transparent coupling and the FMUs of these systems solve them.
"""

from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from algebraic_laws import LOOPS, Law, circle, disagreement
from rigidblocks import (
    Block,
    ContinuousSystem,
    FusedSystem,
    Port,
    RobotPlant,
    SimulationError,
    System,
    crba,
    export_fmu,
    linearize,
    planar2,
    rnea,
    simulate,
)

SAME = 1e-12


@pytest.mark.parametrize("name", LOOPS)
def test_algebraic_loops_are_solved_if_the_coupling_is_transparent(name):
    how = {"form": "numpy", "progress": False, "transparent": True}
    assert disagreement(simulate(circle(*LOOPS[name]), 1.0, 0.1, **how), LOOPS[name]) < SAME


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"form": "fused"}, {"transparent": True}])
@pytest.mark.parametrize("name", LOOPS)
def test_algebraic_loops_are_solved_in_c_and_in_fused_systems(name, options):
    result = simulate(circle(*LOOPS[name]), 1.0, 0.1, progress=False, **options)
    assert disagreement(result, LOOPS[name]) < SAME


@pytest.mark.slow
def test_fmu_of_a_system_solves_the_algebraic_loops_of_the_system(tmp_path):
    laws = LOOPS["cubic"]
    path = export_fmu(circle(*laws), tmp_path / "loop.fmu", dt=0.1)
    rows = fmpy.simulate_fmu(str(path), validate=False, stop_time=1.0, output_interval=0.1)
    y = [rows["law0.y"], rows["law1.y"]]
    assert_allclose(y[0], laws[0](rows["time"], y[1]), rtol=SAME)
    assert_allclose(y[1], laws[1](rows["time"], y[0]), rtol=SAME)


@pytest.mark.slow
def test_random_linear_algebraic_loops_are_solved_up_to_rounding(rng):
    for n in (2, 3, 5):
        A, b = rng.normal(size=(n, n)) * 3.0, rng.normal(size=n)
        system = System()
        for k in range(n):
            system.add(f"row{k}", Row(tuple(A[k]), float(b[k])))
        for k in range(n):
            for j in range(n):
                system.connect(f"row{j}.y", f"row{k}.u[{j + 1}]")
        result = simulate(system, 0.1, 0.1, form="numpy", transparent=True, progress=False)
        y = np.array([result[f"row{k}.y"][-1] for k in range(n)])
        expected = np.linalg.solve(np.eye(n) - A, b)
        assert_allclose(y, expected, rtol=0, atol=1e-12 * np.linalg.cond(np.eye(n) - A))


@dataclass(frozen=True)
class Row(Block):
    """y = a u + b, where u are the outputs of all rows."""

    a: tuple[float, ...]
    b: float

    outputs = (Port("y", (), "1", "value"),)

    @property
    def inputs(self):
        return (Port("u", (len(self.a),), "1", "values", 0.0),)

    def output(self, u):
        return {"y": np.array(self.a) @ u.u + self.b}


@dataclass(frozen=True)
class VirtualInertia(Block):
    """tau = -k qdd."""

    k: float
    inputs = (Port("qdd", (2,), "rad/s2", "acceleration", 0.0),)
    outputs = (Port("tau", (2,), "N.m", "torque"),)

    def output(self, u):
        return {"tau": -self.k * u.qdd}


def with_inertia(k):
    system = System()
    system.add("robot", RobotPlant(planar2(), q0=[0.3, -0.4], qd0=[1.0, 0.5]))
    system.add("inertia", VirtualInertia(k))
    system.connect("robot.qdd", "inertia.qdd")
    system.connect("inertia.tau", "robot.tau")
    return system


@pytest.mark.slow
def test_acceleration_feedback_is_equivalent_to_additional_inertia():
    model, k = planar2(), 5.0
    result = simulate(with_inertia(k), 0.2, 0.02, transparent=True, method="rk4", h=0.01)
    for q, qd, qdd in zip(*(result[f"robot.{x}"] for x in ("q", "qd", "qdd")), strict=True):
        bias = rnea(model, q, qd, np.zeros(2))
        expected = np.linalg.solve(crba(model, q) + k * np.eye(2), -bias)
        assert_allclose(qdd, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_linearization_of_a_system_includes_its_algebraic_loop():
    block = ContinuousSystem(with_inertia(5.0))
    found, h = linearize(block), 1e-6
    assert np.isfinite(found.A).all()
    plain = linearize(ContinuousSystem(with_inertia(0.0)))
    assert np.abs(found.A - plain.A).max() > h  # the loop changes A


@pytest.mark.parametrize(
    "law", [lambda _t, u: u * u + 1.0, lambda t, u: u * u + 1.0 + t, lambda t, u: u + 1.0 + t]
)
def test_error_for_an_unsolvable_algebraic_loop_lists_its_parts(law):
    system = circle(law, lambda _t, u: u)
    with pytest.raises(Exception, match="algebraic loop of 'law0' and 'law1' has no solution"):
        simulate(system, 1.0, 0.1, transparent=True, form="numpy", progress=False)


@pytest.mark.slow
def test_run_in_c_ends_if_its_algebraic_loop_no_longer_has_a_solution():
    system = circle(lambda t, u: u * u + t, lambda _t, u: u)  # solvable up to t = 1/4
    with pytest.raises(SimulationError, match="finite") as caught:
        simulate(system, 1.0, 0.1, transparent=True, progress=False)
    result = caught.value.result
    assert_allclose(result.time[-1], 0.2)
    assert_allclose(result["law0.y"], 0.5 - np.sqrt(0.25 - result.time), rtol=1e-10)


@dataclass(frozen=True)
class SampledLaw(Block):
    """y = u / 2 + 1 at samples."""

    sample_time: float | None = 0.1
    inputs = (Port("u", (), "1", "input", 0.0),)
    outputs = (Port("y", (), "1", "output"),)
    sampled = (Port("y", (), "1", "output", 0.0),)

    def update(self, u):
        return {"y": 0.5 * u.u + 1.0}


def test_algebraic_loop_through_sampled_outputs_is_rejected():
    system = System()
    system.add("law0", Law(lambda _t, u: u))
    system.add("law1", SampledLaw())
    system.connect("law0.y", "law1.u")
    system.connect("law1.y", "law0.u")
    with pytest.raises(ValueError, match="algebraic loop; each port reads the previous one"):
        FusedSystem(system, 0.1)
