"""Fixed steps that are too long for springs and contacts are reported at the start of a run."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from element_models import ELEMENTS, PLANTS
from rigidblocks import (
    ContactPlant,
    ForceElement,
    Friction,
    Model,
    Prismatic,
    RobotPlant,
    Spring,
    System,
    simulate,
)
from rigidblocks.block.block import Record
from rigidblocks.block.integrators import EULER, LINEARLY_IMPLICIT_EULER, RK4
from rigidblocks.contact import Sphere
from rigidblocks.cosim.diagnosis import is_unstable, longest_stable_step
from rigidblocks.dynamics.drives import Drive, Follower
from rigidblocks.dynamics.force_laws import Stop
from rigidblocks.spatial.spatial import mcI, xlt

M, K = 2.0, 2e6
W0 = np.sqrt(K / M)
LAWS = {
    "spring": Spring(K),
    "damper": Spring(0.0, 2 * W0),
    "stop out of reach": Stop(K, upper=5.0),
    "friction at rest": Friction(W0 * M * 1e-3, width=1e-3),
}


def slider(*laws):
    body = mcI(M, np.zeros(3), 0.1 * np.eye(3))
    model = Model(
        "slider",
        (-1,),
        (Prismatic(),),
        (xlt(np.zeros(3)),),
        (body,),
        np.zeros(3),
        contact=((Sphere(0.1),),),
    )
    elements = tuple(ForceElement(f"e{k}", "joint1", law) for k, law in enumerate(laws))
    return RobotPlant(model, q0=[1.0], elements=elements)


def warned(block, h, method=RK4):
    system = System()
    system.add("robot", block, method=method, h=h)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        simulate(system, 10 * h, h, form="numpy", progress=False)
    return [str(one.message) for one in caught if "are unstable" in str(one.message)]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_unstable_fixed_step_is_reported_at_the_start_of_the_run(law):
    # RK4 is stable on the imaginary axis up to 2.83, and on the negative real axis up to 2.79
    assert not warned(slider(law), 2.7 / W0)
    assert "use steps below" in warned(slider(law), 3.0 / W0)[0]
    assert not warned(slider(law), 3.0 / W0, LINEARLY_IMPLICIT_EULER)


def test_plant_without_springs_and_contact_has_no_stability_warning():
    assert not warned(slider(), 1.0)


def test_stability_limit_of_the_step_includes_contacts_that_are_open_at_the_start():
    plant = ContactPlant(slider(), K, 10.0)
    assert not warned(plant, 2.7 / W0)
    assert warned(plant, 3.0 / W0)


def test_eigenvalues_of_a_plant_with_a_spring_are_the_roots_of_its_characteristic_polynomial():
    block = slider(Spring(K, 100.0))
    p = Record({port.name: port.start for port in block.parameters})
    found = block.modes(Record({"q": block.q0, "qd": np.zeros(1)}), p)
    assert_allclose(np.sort_complex(found), np.sort_complex(np.roots([M, 100.0, K])), rtol=1e-9)


@pytest.mark.parametrize("name", PLANTS)
def test_eigenvalues_of_every_plant_with_force_elements_are_finite_and_stable(name):
    plant = PLANTS[name](ELEMENTS)
    p = Record({port.name: port.start for port in plant.parameters})
    found = plant.modes(Record({port.name: port.start for port in plant.states}), p)
    assert np.all(np.isfinite(found))
    assert found.real.max() < 1e-6 * np.abs(found).max()
    assert np.abs(found).max() > 1.0


def test_eigenvalues_of_geared_joints_include_the_reflected_inertia():
    body = mcI(M, np.zeros(3), 0.1 * np.eye(3))
    places = (xlt(np.zeros(3)),) * 2
    model = Model("two", (-1, -1), (Prismatic(),) * 2, places, (body, body), np.zeros(3))
    gear = Drive("gear", "joint1", follower=Follower("joint2", 3.0))
    block = RobotPlant(model, elements=(ForceElement("e", "joint2", Spring(K)), gear))
    p = Record({port.name: port.start for port in block.parameters})
    found = block.modes(Record({"q": block.q0, "qd": np.zeros(2)}), p)
    assert_allclose(np.abs(found), np.sqrt(9 * K / (10 * M)), rtol=1e-9)


def test_longest_stable_step_matches_the_stability_function_of_the_method():
    # the limits have a margin of one or two percent; Euler's limit on the real axis is 2
    assert longest_stable_step(EULER, np.array([-1.0 + 0j])) == pytest.approx(2.1, rel=0.02)
    assert longest_stable_step(RK4, np.array([1j])) == pytest.approx(2.83, rel=0.03)
    assert not is_unstable(RK4, np.array([1e-3 + 0j]))
