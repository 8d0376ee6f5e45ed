"""Parts whose communication step is a multiple of the step of the run."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foreign_fmu import foreign_fmu
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import Block, FusedSystem, Port, Sine, System, prepare, save_system, simulate

DT, N = 1e-3, 4
T = N * DT
FORMS = ("numpy", "compiled")
ORDERS = ("gauss-seidel", "jacobi")


def wired(dt=None):
    """Return the planar robot and its controller; all parts have the communication step dt."""
    system = System()
    for name, part in parts().items():
        system.add(name, part, dt=dt)
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system


@dataclass(frozen=True)
class Integrator(Block):
    """dx/dt = u."""

    inputs = (Port("u", start=0.0),)
    states = (Port("x", start=0.0),)

    @property
    def outputs(self):
        return self.states

    def derivative(self, u):
        return {"x": u.u}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS)
def test_same_longer_step_in_all_parts_is_equivalent_to_a_longer_communication_step(form, order):
    fine = simulate(wired(T), 0.1, DT, form=form, order=order, progress=False)
    coarse = simulate(wired(), 0.1, T, form=form, order=order, progress=False)
    assert_array_equal(fine.values[::N], coarse.values)
    for k in range(1, N):  # the outputs are held between the steps
        assert_array_equal(fine.values[k::N], coarse.values[:-1])


def mixed(path):
    """Return a sine u, a slow foreign FMU y = 2 u + step size, and a fast integrator of y."""
    step = "i->r[1] = 2.0 * i->r[0] + dt;"
    system = System()
    system.add("sine", Sine(frequency=3.0))
    system.add("slow", foreign_fmu(path, step=step, variable_steps=False), start={"u": 0.0}, dt=T)
    system.add("fast", Integrator(), method="rk4")
    system.connect("sine.y", "slow.u")
    system.connect("slow.y", "fast.u")
    return system


@pytest.mark.parametrize("form", FORMS)
def test_fmu_with_its_own_longer_step_receives_this_step_size_and_holds_its_outputs(form, tmp_path):
    result = simulate(mixed(tmp_path / "slow.fmu"), 25 * T, DT, form=form, progress=False)
    sine, slow = result["sine.y"][:, 0], result["slow.y"]
    k = np.arange(1, len(slow))
    last = k - k % N  # the step of the FMU that ended last
    expected = np.where(last > 0, 2.0 * sine[last] + T, slow[0])
    assert_allclose(slow[1:], expected, rtol=0, atol=1e-15)
    # the master holds slow.y over each step of the integrator, which steps before its source
    assert_allclose(result["fast.x"][1:], DT * np.cumsum(slow[:-1]), rtol=0, atol=1e-14)


def test_runs_with_longer_part_steps_have_equal_results_in_numpy_and_in_c(tmp_path):
    runs = [
        simulate(mixed(tmp_path / "slow.fmu"), 0.25, DT, form=form, t_start=0.2, progress=False)
        for form in FORMS
    ]
    assert_allclose(runs[0].values, runs[1].values, rtol=0, atol=1e-15)


def test_single_steps_with_longer_part_steps_match_the_results_of_simulate(tmp_path):
    expected = simulate(mixed(tmp_path / "slow.fmu"), 0.05, DT, progress=False)
    with prepare(mixed(tmp_path / "slow.fmu"), DT) as run:
        for k in range(1, 51):
            run.step()
            assert run["slow.y"] == expected["slow.y"][k]
        run.step(3)


@pytest.mark.parametrize("form", FORMS)
def test_event_within_a_longer_part_step_does_not_step_the_part(form):
    """The sine falls through zero within the fifth step of the run; x is a staircase."""
    system = System()
    system.add("sine", Sine(frequency=1 / (9 * DT)))
    system.add("slow", Integrator(), start={"u": 1.0}, method="rk4", dt=T)
    result = simulate(system, 3 * T, DT, form=form, events=["sine.y[1]"], progress=False)
    assert len(result.events) == 1
    assert result.events[0].t == pytest.approx(4.5 * DT, abs=1e-9)
    assert_allclose(result["slow.x"], T * np.floor(result.time / T + 1e-6), atol=1e-15)


def test_part_communication_step_that_is_not_a_multiple_of_dt_is_rejected():
    with pytest.raises(ValueError, match=r"'robot' has the communication step 0\.0025 s, which is"):
        simulate(wired(2.5e-3), 0.1, DT, progress=False)
    with pytest.raises(ValueError, match=r"is not a multiple of the step of the run, 0\.01 s"):
        simulate(wired(T), 0.1, 0.01, progress=False)
    with pytest.raises(ValueError, match="dt of 'a' must be finite and positive, not 0 s"):
        System().add("a", Integrator(), dt=0)
    with pytest.raises(TypeError, match="dt of 'a' must be a number"):
        System().add("a", Integrator(), dt="1")


@pytest.mark.parametrize("options", [{"extrapolate": 1}, {"iterate": True}, {"step_tol": 1e-3}])
def test_coupling_options_reject_parts_with_their_own_communication_step(options):
    with pytest.raises(ValueError, match=r"cannot be combined with dt=0\.004 of 'robot'"):
        simulate(wired(T), 0.1, DT, progress=False, **options)


def test_merged_blocks_reject_parts_with_their_own_communication_step():
    with pytest.raises(
        ValueError, match=r"'robot' has its own communication step, dt=0\.004, which"
    ):
        FusedSystem(wired(T), DT)
    FusedSystem(wired(T), T)
    with pytest.raises(ValueError, match="which SSP does not store; leave out dt"):
        save_system(wired(T), "never.ssp")
    with pytest.raises(ValueError, match="and cannot become one block with"):
        simulate(wired(T), 0.1, DT, transparent=True, progress=False)
