"""Plants with tuned inertia parameters equal plants of models with these inertias."""

from dataclasses import replace

import numpy as np
import pytest
from fmpy import simulate_fmu
from numpy.testing import assert_allclose

from random_models import MODELS, random_state, random_transform
from rigidblocks import RobotPlant
from rigidblocks.block.block import Record
from rigidblocks.cli import main
from rigidblocks.dynamics import aba, energy
from rigidblocks.library import ClosedLoopPlant, Frame, HybridPlant
from rigidblocks.library.plant_ports import TunableInertia
from rigidblocks.robot.robots import bennett, four_bar
from rigidblocks.spatial.spatial import RigidInertia, mcI
from urdf_text import ARM

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def values(plant, **changes):
    return Record({port.name: port.start for port in plant.parameters} | changes)


@pytest.mark.parametrize("name", ["six-axis", "branched", "satellite"])
def test_plant_with_payload_parameters_matches_the_motion_of_a_model_with_this_payload(name, rng):
    model = MODELS[name]()
    body, X = model.nb - 1, random_transform(rng)
    plant = RobotPlant(model, inertias=TunableInertia(payload=Frame("tool", body, X)))
    m, c, A = 3.0, rng.normal(size=3), rng.normal(size=(3, 3))
    I = A @ A.T
    p = values(
        plant,
        payload_mass=m,
        payload_com=c,
        payload_inertia=[I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]],
    )
    held = list(model.inertia)
    held[body] = held[body] + mcI(m, c, I).transform_to_parent(X)
    loaded = replace(model, inertia=tuple(held), unphysical=model.body_names)
    s = random_state(rng, model)
    y = plant.output(0.0, Record({"q": s.q, "qd": s.qd}), Record({"tau": s.tau}), p)
    assert_allclose(y["qdd"], aba(loaded, s.q, s.qd, s.tau), **EXACT)
    assert_allclose(y["energy"], energy(loaded, s.q, s.qd), **EXACT)


def test_link_mass_parameter_scales_the_first_and_second_moments_of_mass(rng):
    model = MODELS["six-axis"]()
    plant = RobotPlant(model, inertias=TunableInertia(links=True))
    factor = rng.uniform(0.5, 2.0, model.nb)
    masses = factor * [body.m for body in model.inertia]
    heavier = replace(
        model,
        inertia=tuple(
            RigidInertia(k * b.m, k * b.h, k * b.I)
            for k, b in zip(factor, model.inertia, strict=True)
        ),
    )
    s = random_state(rng, model)
    motion, given = Record({"q": s.q, "qd": s.qd}), Record({"tau": s.tau})
    y = plant.output(0.0, motion, given, values(plant, link_mass=masses))
    assert_allclose(y["qdd"], aba(heavier, s.q, s.qd, s.tau), **EXACT)
    same = plant.output(0.0, motion, given, values(plant))
    assert_allclose(same["qdd"], aba(model, s.q, s.qd, s.tau), **EXACT)


@pytest.mark.parametrize("links", [False, True])
def test_plant_with_tuned_inertial_parameters_matches_a_model_with_these_parameters(rng, links):
    model = MODELS["six-axis"]()
    plant = RobotPlant(model, inertias=TunableInertia(links=links, moments=True))
    others = [
        mcI(2.0 if links else body.m, rng.normal(size=3), np.diag(rng.uniform(1.0, 1.2, 3)))
        for body in model.inertia
    ]
    places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    p = {"link_moment": np.array([body.h for body in others])}
    p["link_inertia"] = np.array([[body.I[k] for k in places] for body in others])
    given = values(plant, **p, **({"link_mass": np.full(model.nb, 2.0)} if links else {}))
    other = replace(model, inertia=tuple(others), unphysical=model.body_names)
    s = random_state(rng, model)
    motion, force = Record({"q": s.q, "qd": s.qd}), Record({"tau": s.tau})
    y = plant.output(0.0, motion, force, given)
    assert_allclose(y["qdd"], aba(other, s.q, s.qd, s.tau), **EXACT)
    same = plant.output(0.0, motion, force, values(plant))
    assert_allclose(same["qdd"], aba(model, s.q, s.qd, s.tau), **EXACT)


def times(factor, inertias):
    """Return the inertias of bodies whose density is multiplied by a factor."""
    return [RigidInertia(k * b.m, k * b.h, k * b.I) for k, b in zip(factor, inertias, strict=True)]


def test_closed_loop_plant_with_tuned_masses_matches_the_motion_of_a_changed_model(rng):
    """Bennett's linkage has a loop about a general axis, with redundant constraints."""
    model, q0, qd0 = bennett()
    tool = Frame("tool", 1, random_transform(rng))
    plant = ClosedLoopPlant(model, q0, qd0, inertias=TunableInertia(True, tool))
    m, c, I = 3.0, rng.normal(size=3), np.diag([0.3, 0.4, 0.5])
    factor = rng.uniform(0.5, 2.0, model.nb)
    held = times(factor, model.inertia)
    held[1] = held[1] + mcI(m, c, I).transform_to_parent(tool.placement)
    loaded = ClosedLoopPlant(replace(model, inertia=tuple(held)), q0, qd0)
    motion = Record({"q": plant.q0, "qd": rng.normal(size=model.nv)})
    given = Record({"tau": rng.normal(size=model.nv)})
    masses = factor * [body.m for body in model.inertia]
    changes = {"payload_mass": m, "payload_com": c, "payload_inertia": [*np.diag(I), 0.0, 0.0, 0.0]}
    p = values(plant, link_mass=masses, **changes)
    on_loops = plant.project(0.0, motion, p)
    assert_allclose(on_loops["qd"], loaded.project(0.0, motion, values(loaded))["qd"], **EXACT)
    motion = Record(on_loops)
    y = plant.output(0.0, motion, given, p)
    for name, value in loaded.output(0.0, motion, given, values(loaded)).items():
        if name != "condition":  # the pivots of the elimination differ
            assert_allclose(y[name], value, err_msg=name, **EXACT)


def test_hybrid_plant_with_tuned_masses_matches_the_motion_of_a_changed_model(rng):
    model = MODELS["six-axis"]()
    tool = Frame("tool", model.nb - 1, random_transform(rng))
    chosen = {"prescribed": (1, 4), "kp": 9.0, "kd": 6.0}
    plant = HybridPlant(model, **chosen, inertias=TunableInertia(True, tool))
    factor = rng.uniform(0.5, 2.0, model.nb)
    bodies = times(factor, model.inertia)
    bodies[-1] = bodies[-1] + mcI(3.0, np.ones(3), np.eye(3)).transform_to_parent(tool.placement)
    loaded = HybridPlant(replace(model, inertia=tuple(bodies)), **chosen)
    s = random_state(rng, model)
    motion = Record({"q": s.q, "qd": s.qd})
    given = Record({port.name: rng.normal(size=port.shape) for port in plant.inputs})
    held = {"payload_mass": 3.0, "payload_com": np.ones(3), "payload_inertia": [1, 1, 1, 0, 0, 0]}
    masses = factor * [body.m for body in model.inertia]
    y = plant.output(motion, given, values(plant, link_mass=masses, **held))
    for name, value in loaded.output(motion, given, values(loaded)).items():
        assert_allclose(y[name], value, err_msg=name, **EXACT)


def test_tunable_inertias_of_a_planar_model_are_rejected():
    with pytest.raises(
        ValueError, match=r"tunable inertias need a spatial model, but model '.*' is planar"
    ):
        ClosedLoopPlant(*four_bar(), inertias=TunableInertia(True))


@pytest.mark.slow
def test_tunable_command_option_adds_payload_parameters_to_the_fmu(tmp_path):
    """The payload mass changes the initial joint acceleration."""
    urdf, fmu = tmp_path / "arm.urdf", tmp_path / "arm.fmu"
    urdf.write_text(ARM)
    words = ["--tunable", "payload,inertia,friction,gravity"]
    assert main(["fmu", str(urdf), "-o", str(fmu), *words]) == 0
    names = ["payload_mass", "payload_com[1]", "link_mass[2]", "shoulder_friction_coulomb"]
    result = {}
    for mass in (0.0, 1.5):
        start = dict.fromkeys(names[:1], mass) | {"shoulder_friction_coulomb": 0.0}
        run = simulate_fmu(
            str(fmu), stop_time=0.01, output_interval=0.01, start_values=start, output=["qdd[1]"]
        )
        result[mass] = run["qdd[1]"][0]
    assert abs(result[0.0] - result[1.5]) > 1e-3
