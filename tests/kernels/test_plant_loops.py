"""Plants with many bodies compute their dynamics in C loops over the bodies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fmu_instance import Host
from random_models import joints_of_all_types, random_parents, random_state, random_tree
from rigidblocks import RobotPlant, Sine, System, auto_tree, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory, assign
from rigidblocks.dynamics.force_elements import Between, ForceElement
from rigidblocks.dynamics.force_laws import Spring
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.kernels import plant_loops
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import (
    ImpureBlockError,
    TracedEvaluator,
    feedthrough,
)
from rigidblocks.robot.joints import Revolute

DT = 1e-4


@pytest.fixture
def small_plants_loop(monkeypatch):
    monkeypatch.setattr(plant_loops, "LEAST_BODIES", 1)


def plant_of(model, **options):
    state = random_state(np.random.default_rng(3), model)
    return RobotPlant(model, q0=state.q, qd0=state.qd, **options), state.tau


def stepped(stepper, tau):
    """Return the memory vector after two steps with the joint forces tau."""
    memory = stepper.memory
    m = assign(memory.start(), memory.where["tau"], tau)
    stepper.initialize(m, 0.0)
    for k in range(2):
        stepper.step(m, k * DT, DT)
    return m


def assert_c_matches_numpy(plant, tau):
    memory = Memory(plant)
    assert TracedEvaluator(memory).loops is not None
    expected = stepped(numpy_stepper(memory, RK4), tau)
    m = stepped(compiled_stepper(memory, RK4), tau)
    for port in memory.ports:
        values = expected[memory.where[port.name]]
        scale = max(1.0, np.max(np.abs(values), initial=0.0))
        assert_allclose(m[memory.where[port.name]], values, rtol=0, atol=1e-9 * scale)


@pytest.mark.slow
@pytest.mark.usefixtures("small_plants_loop")
@pytest.mark.parametrize("seed", range(3))
def test_steps_of_plants_with_c_loops_over_bodies_match_numpy_for_all_joint_types(seed):
    rng = np.random.default_rng(seed)
    joints = tuple(one for one in joints_of_all_types(rng).values() if one.nv)[seed::3]
    plant, tau = plant_of(random_tree(rng, random_parents(rng, len(joints)), joints))
    assert_c_matches_numpy(plant, tau)


@pytest.mark.slow
def test_steps_of_a_plant_with_60_bodies_and_a_joint_spring_match_numpy():
    model = auto_tree(60, 1.5, 0.7)
    spring = ForceElement("spring", model.joint_names[7], Spring(K=30.0, D=0.2))
    assert_c_matches_numpy(*plant_of(model, elements=(spring,), nominal={"q": 0.1}))


@pytest.mark.slow
@pytest.mark.usefixtures("small_plants_loop")
def test_gravity_of_a_plant_with_c_loops_over_bodies_is_a_parameter():
    plant = RobotPlant(auto_tree(3, 1.0, 0.7))
    memory = Memory(plant)
    expected, actual = (
        (lambda m: (stepper.initialize(m, 0.0), m)[1])(
            assign(memory.start(), memory.where["gravity"], (1.0, 2.0, 3.0))
        )
        for stepper in (numpy_stepper(memory, RK4), compiled_stepper(memory, RK4))
    )
    assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    assert np.abs(expected[memory.where["qdd"]]).max() > 1.0


@pytest.mark.slow
def test_energy_of_a_compiled_chain_of_60_joints_is_conserved():
    model = auto_tree(60, 1.0, 0.7)
    system = System()
    system.add("robot", RobotPlant(model, q0=0.1 * np.sin(np.arange(60.0))))
    E = simulate(system, t_stop=0.2, dt=1e-2)["robot.energy"]
    assert np.ptp(E) < 1e-6 * np.abs(E[0])


def test_c_code_of_a_plant_does_not_grow_with_the_number_of_bodies():
    def lines(nb):
        header = model_header(TracedEvaluator(Memory(RobotPlant(auto_tree(nb)))), RK4, 1e-3)
        return len(header.partition("#ifndef RB_MODEL_H")[2].splitlines())

    assert lines(60) == lines(120)


def test_feedthrough_of_a_plant_is_equal_in_straight_line_code_and_in_c_loops_over_bodies(
    monkeypatch,
):
    memory = Memory(RobotPlant(auto_tree(4, 1.0, 0.7)))
    traced = feedthrough(TracedEvaluator(memory))
    monkeypatch.setattr(plant_loops, "LEAST_BODIES", 1)
    monkeypatch.setattr("rigidblocks.kernels.traced_evaluator.fingerprint", lambda *_: None)
    assert feedthrough(TracedEvaluator(memory)) == traced == {("tau", "qdd")}


@pytest.mark.usefixtures("small_plants_loop")
@pytest.mark.parametrize("options", ["wrenches", "rotors", "spring between bodies"])
def test_code_of_plants_with_wrenches_or_rotors_has_no_c_loops_over_bodies(options):
    line = Between(0, (0.0, 0.0, 0.0), 2, (0.0, 0.1, 0.0))
    chosen = {
        "wrenches": {"external_wrenches": True},
        "rotors": {"rotor_inertia": np.ones(3)},
        "spring between bodies": {"elements": (ForceElement("rope", line, Spring(K=10.0)),)},
    }[options]
    assert plant_loops.plant_loops(Memory(RobotPlant(auto_tree(3), **chosen))) is None


@pytest.mark.usefixtures("small_plants_loop")
def test_plant_code_with_c_loops_over_bodies_that_differs_from_its_block_functions_is_rejected(
    monkeypatch,
):
    evaluator = TracedEvaluator(Memory(plant_of(auto_tree(3, 1.0, 0.7))[0]))
    monkeypatch.setattr(plant_loops, "aba", lambda model, *_: np.zeros(model.nv))
    with pytest.raises(ImpureBlockError, match=r"RobotPlant\.derivative, traced and in NumPy,"):
        evaluator.graph_after_loops("derivative")


@pytest.mark.slow
@pytest.mark.usefixtures("small_plants_loop")
def test_native_fmu_of_a_plant_with_c_loops_over_bodies_matches_numpy(tmp_path):
    plant, tau = plant_of(random_tree(np.random.default_rng(1), (-1, 0, 0), (Revolute(),) * 3))
    instance = Host(native_fmu(plant, tmp_path / "a.fmu", method=RK4), tmp_path)
    memory = Memory(plant)
    instance.set(memory.where["tau"], tau)
    instance.initialize()
    for k in range(2):
        instance.fmu.doStep(k * DT, DT)
    assert_allclose(instance.m, stepped(numpy_stepper(memory, RK4), tau), rtol=1e-9, atol=1e-9)
    instance.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.usefixtures("small_plants_loop")
def test_fused_system_of_two_plants_with_c_loops_over_bodies_matches_its_parts():
    system = System()
    for name, nb in (("one", 3), ("two", 4)):
        system.add(name, plant_of(auto_tree(nb, 1.0, 0.7))[0])
        system.add(f"sine_{name}", Sine(np.ones(nb), np.ones(nb), unit="N.m"))
        system.connect(f"sine_{name}.y", f"{name}.tau")
    runs = [simulate(system, t_stop=0.05, dt=1e-3, form=form) for form in ("compiled", "fused")]
    for name in ("one.q", "two.qdd", "two.energy"):
        assert_allclose(runs[1][name], runs[0][name], rtol=1e-9, atol=1e-9)
