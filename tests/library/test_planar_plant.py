"""Plants support robots that are described by planar vectors."""

import numpy as np
from numpy.testing import assert_allclose

from planar_models import embedded, random_planar_tree
from rigidblocks import RobotPlant, System, simulate


def test_planar_robot_moves_like_its_spatial_embedding():
    # in NumPy and compiled, with external wrenches and a gravity parameter of two components
    tree = random_planar_tree(np.random.default_rng(3), (-1, 0, 0))
    start = {"q0": [0.1, -0.2, 0.3], "external_wrenches": True}
    plants = RobotPlant(tree, **start), RobotPlant(embedded(tree), **start)
    assert [plant.parameters[0].shape for plant in plants] == [(2,), (3,)]
    assert [plant.inputs[1].shape for plant in plants] == [(3, 3), (3, 6)]
    ends = []
    for plant, form in ((plants[0], "numpy"), (plants[0], "compiled"), (plants[1], "numpy")):
        system = System()
        system.add("robot", plant)
        ends.append(simulate(system, 0.05, 1e-3, form=form, progress=False)["robot.q"][-1])
    assert_allclose(ends[1], ends[0], rtol=1e-9)
    assert_allclose(ends[2], ends[0], rtol=1e-9)
