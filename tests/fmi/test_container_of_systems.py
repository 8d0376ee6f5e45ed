"""A system with FMUs, exported as one container FMU, equals its run in `simulate`."""

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from host_systems import hosted
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import Port, System, export_fmu, python_block, simulate
from rigidblocks.fmi.fmu_container import export_container

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SAME = 1e-12  # the same FMUs take the same steps in two masters
DT, T_STOP = 1e-3, 0.5


def system(folder, foreign, **start):
    """Return planar2ctrl with some parts as FMU files."""
    made = System()
    for name, block in parts().items():
        given = start.get(name, {})
        if name in foreign:
            block = export_fmu(block, folder / f"{name}.fmu", name=name)
        made.add(name, block, start=given)
    for target, source in CONNECTIONS.items():
        made.connect(source, target)
    return made


@pytest.mark.parametrize("foreign", [("pd",), ("robot",), ("robot", "command", "pd")])
def test_exported_container_fmu_matches_the_jacobi_results_of_the_system(tmp_path, foreign):
    start = {"pd": {"kp": [900.0, 800.0]}, "robot": {"q": [0.2, -0.1]}}
    made = system(tmp_path, foreign, **start)
    path = export_container(made, tmp_path / "out" / "whole.fmu", DT)
    settings = {"stop_time": T_STOP, "step_size": DT, "output_interval": DT}
    names = [f"{port}[{k}]" for port in ("robot.q", "robot.qd", "pd.tau") for k in (1, 2)]
    rows = fmpy.simulate_fmu(str(path), validate=False, output=names, **settings)
    expected = simulate(made, T_STOP, DT, order="jacobi", progress=False)
    for name in names:
        scale = np.abs(expected[name]).max()
        assert_allclose(rows[name], expected[name], rtol=0, atol=SAME * max(1.0, scale))


def test_container_fmu_of_blocks_and_a_foreign_fmu_matches_the_jacobi_results(tmp_path):
    made = System()
    for name, block in parts().items():
        if name != "pd":
            made.add(name, block)
    made.add("pd", hosted("mixed", tmp_path).fmus["pd"])  # FMU written in C
    for target, source in CONNECTIONS.items():
        if target != "pd.qd_ref":
            made.connect(source, target)
    path = export_container(made, tmp_path / "out" / "whole.fmu", DT)
    names = [f"{port}[{k}]" for port in ("robot.q", "pd.tau", "pd.work") for k in (1, 2)]
    settings = {"stop_time": T_STOP, "step_size": DT, "output_interval": DT}
    rows = fmpy.simulate_fmu(str(path), validate=False, output=names, **settings)
    expected = simulate(made, T_STOP, DT, order="jacobi", progress=False)
    for name in names:
        scale = np.abs(expected[name]).max()
        assert_allclose(rows[name], expected[name], rtol=0, atol=SAME * max(1.0, scale))


def test_container_fmu_export_rejects_unsupported_parts(tmp_path):
    with pytest.raises(ValueError, match="no FMU among its parts; use export_fmu"):
        export_container(system(tmp_path, ()), tmp_path / "a.fmu", DT)
    third = system(tmp_path, ("pd",))

    @python_block(outputs=(Port("y", (), "rad"),))
    def watch():
        return 0.0

    third.add("watch", watch)
    with pytest.raises(ValueError, match="'watch' is a Python part"):
        export_container(third, tmp_path / "a.fmu", DT)
    newer = System()
    newer.add("pd", export_fmu(parts()["pd"], tmp_path / "pd3.fmu", fmi=3))
    with pytest.raises(ValueError, match=r"'pd' is an FMI 3.0 FMU"):
        export_container(newer, tmp_path / "a.fmu", DT)
    assert not (tmp_path / "a.fmu").exists()
