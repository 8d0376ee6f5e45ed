"""Containers of fmu-manipulation-toolbox with FMUs of this package.

Their runs equal the run of the same system in the master of this package.
"""

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from planar2ctrl import CONNECTIONS, parts, wired
from rigidblocks import export_fmu, simulate

pytestmark = pytest.mark.interop

SAME = 1e-12  # the same FMUs take the same steps in two masters
DT, T_STOP = 1e-3, 0.5
ORDERS = (
    "command",
    "robot",
    "pd",
)  # in sequence: the controller reads the new motion of the robot


def elements(port, arrays):
    """Return the variables of a port of two elements: one array, or two scalars."""
    return (port,) if arrays else (f"{port}[1]", f"{port}[2]")


def container(folder, fmi, arrays, sequential):
    """Return the path of the FMU with the robot, its controller and the command.

    Its outputs are the motion of the robot.
    """
    from fmu_manipulation_toolbox.container import FMUContainer

    for name, block in parts().items():
        export_fmu(block, folder / f"{name}.fmu", fmi=fmi, name=name, arrays=arrays or fmi == 2)
    made = FMUContainer("demo", folder, fmi_version=fmi)
    for name in ORDERS:
        made.get_fmu(f"{name}.fmu")
    for target, source in CONNECTIONS.items():
        (part, port), (other, there) = source.split("."), target.split(".")
        for a, b in zip(elements(port, arrays), elements(there, arrays), strict=True):
            made.add_link(f"{part}.fmu", a, f"{other}.fmu", b)
    for port in ("q", "qd"):
        for element in elements(port, arrays):
            made.add_output("robot.fmu", element, element)
    path = folder / "demo.fmu"
    made.make_fmu(path, step_size=DT, sequential=sequential)
    return path


@pytest.mark.parametrize(("fmi", "arrays"), [(2, False), (3, True), (3, False)])
@pytest.mark.parametrize(("order", "sequential"), [("jacobi", False), ("gauss-seidel", True)])
def test_results_of_a_toolbox_container_in_fmpy_match_the_results_of_the_system(
    tmp_path, order, sequential, fmi, arrays
):
    path = container(tmp_path, fmi, arrays, sequential)
    # no validation: the tool describes outputs that are states against the schema
    settings = {
        "stop_time": T_STOP,
        "step_size": DT,
        "output_interval": DT,
        "fmi_type": "CoSimulation",
    }
    rows = fmpy.simulate_fmu(str(path), validate=False, **settings)
    expected = simulate(wired(parts()), t_stop=T_STOP, dt=DT, order=order)
    for port in ("q", "qd"):
        found = np.column_stack([rows[name] for name in elements(port, arrays)])
        assert_allclose(found, expected[f"robot.{port}"], rtol=0, atol=SAME)


def test_system_of_the_container_test_has_different_jacobi_and_gauss_seidel_results():
    jacobi, seidel = (
        simulate(wired(parts()), t_stop=T_STOP, dt=DT, order=order)
        for order in ("jacobi", "gauss-seidel")
    )
    assert np.abs(jacobi["robot.q"] - seidel["robot.q"]).max() > 1e-3
