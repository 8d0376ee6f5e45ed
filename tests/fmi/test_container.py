"""FMUs in one FMU: what fmu-manipulation-toolbox makes of ours is the run of the same system by our
own master.
"""

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar2ctrl import CONNECTIONS, parts, wired
from rigidblocks import export_fmu, simulate

pytestmark = pytest.mark.interop

SAME = 1e-12  # the same FMUs take the same steps; only the hosts differ
DT, T_STOP = 1e-3, 0.5
ORDERS = (
    "command",
    "robot",
    "pd",
)  # in sequence, the controller reads the motion that the robot has just made


def elements(port, fmi):
    """The variables of a port of two elements: FMI 3.0 has one for all."""
    return (f"{port}[1]", f"{port}[2]") if fmi == 2 else (port,)


def container(folder, fmi, sequential):
    """The path of the FMU that holds the robot, its controller and the command, with the robot's
    motion as outputs.
    """
    from fmu_manipulation_toolbox.container import FMUContainer

    for name, block in parts().items():
        export_fmu(block, folder / f"{name}.fmu", fmi=fmi, name=name)
    made = FMUContainer("demo", folder, fmi_version=fmi)
    for name in ORDERS:
        made.get_fmu(f"{name}.fmu")
    for target, source in CONNECTIONS.items():
        (part, port), (other, there) = source.split("."), target.split(".")
        for a, b in zip(elements(port, fmi), elements(there, fmi), strict=True):
            made.add_link(f"{part}.fmu", a, f"{other}.fmu", b)
    for port in ("q", "qd"):
        for element in elements(port, fmi):
            made.add_output("robot.fmu", element, element)
    path = folder / "demo.fmu"
    made.make_fmu(path, step_size=DT, sequential=sequential)
    return path


@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize(("order", "sequential"), [("jacobi", False), ("gauss-seidel", True)])
def test_a_container_of_our_fmus_moves_as_our_own_system(tmp_path, order, sequential, fmi):
    path = container(tmp_path, fmi, sequential)
    # not validated: the tool describes outputs that are states as no schema allows
    settings = {
        "stop_time": T_STOP,
        "step_size": DT,
        "output_interval": DT,
        "fmi_type": "CoSimulation",
    }
    rows = fmpy.simulate_fmu(str(path), validate=False, **settings)
    expected = simulate(wired(parts()), t_stop=T_STOP, dt=DT, order=order)
    for port in ("q", "qd"):
        found = np.column_stack([rows[name] for name in elements(port, fmi)])
        assert_allclose(found, expected[f"robot.{port}"], rtol=0, atol=SAME)


def test_the_orders_of_a_container_differ():
    jacobi, seidel = (
        simulate(wired(parts()), t_stop=T_STOP, dt=DT, order=order)
        for order in ("jacobi", "gauss-seidel")
    )
    assert np.abs(jacobi["robot.q"] - seidel["robot.q"]).max() > 1e-3
