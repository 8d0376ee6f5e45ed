"""FMUs in PathSim (pathsim-fmi), an importer with its own integrators for model exchange."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import RobotPlant, export_fmu, planar2, simulate
from rigidblocks.cosim.graph.system import System

pytestmark = pytest.mark.interop

PLANT = RobotPlant(planar2(), [0.3, -0.2])
TORQUE = 0.4  # [N.m] on the first joint
END, DT = 0.5, 1e-2


@pytest.fixture(scope="module")
def expected():
    """Return the joint positions (2,) [rad] at the end of a run of the block."""
    system = System()
    system.add("arm", PLANT, start={"tau": [TORQUE, 0.0]}, method="adaptive", rtol=1e-10)
    return simulate(system, END, DT, progress=False)["arm.q"][-1]


@pytest.fixture(scope="module", params=[2, 3], ids=["FMI 2", "FMI 3 with scalars"])
def fmu(request, tmp_path_factory):
    """Return the path of the FMU of an FMI version."""
    path = tmp_path_factory.mktemp("pathsim") / "arm.fmu"
    options = {"arrays": False} if request.param == 3 else {}
    return export_fmu(PLANT, path, fmi=request.param, **options)


@pytest.mark.parametrize("kind", ["CoSimulationFMU", "ModelExchangeFMU"])
def test_fmu_trajectories_in_pathsim_match_the_results_of_the_block(fmu, expected, kind):
    blocks = pytest.importorskip("pathsim_fmi")
    from pathsim import Connection, Simulation
    from pathsim.blocks import Constant, Scope
    from pathsim.solvers import RKDP54

    options = {"dt": DT} if kind == "CoSimulationFMU" else {}
    arm = getattr(blocks, kind)(str(fmu), **options)
    sources, scope = (Constant(TORQUE), Constant(0.0)), Scope()
    wires = [Connection(source, arm[k]) for k, source in enumerate(sources)]
    outputs = [v.name for v in arm.fmu_wrapper.model_description.modelVariables]
    outputs = [name for name in outputs if name in ("q[1]", "q[2]")]
    assert outputs == ["q[1]", "q[2]"]
    wires += [Connection(arm[k], scope[k]) for k in range(2)]
    run = Simulation(
        [*sources, arm, scope], wires, dt=DT / 10, Solver=RKDP54, log=False, tolerance_lte_rel=1e-9
    )
    run.run(END, adaptive=kind == "ModelExchangeFMU")
    times, (q1, q2) = scope.read()
    # PathSim shows the outputs at the end of a co-simulation step from the beginning of the step
    t = END - DT / 2 if kind == "CoSimulationFMU" else END
    last = np.array([np.interp(t, times, q) for q in (q1, q2)])
    assert_allclose(last, expected, atol=1e-6)
