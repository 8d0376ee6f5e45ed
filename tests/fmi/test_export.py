"""`export_fmu` exports blocks, systems and scripts, and rejects inconsistent options."""

import hashlib
import zipfile
from pathlib import Path

import fmpy
import numpy as np
import pytest
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose

from fmu_blocks import BLOCKS
from fmu_instance import Host
from planar2ctrl import parts, wired
from rigidblocks import (
    Model,
    RigidContactPlant,
    SixDoF,
    System,
    export_fmu,
    library,
    simulate,
    sphere_inertia,
)
from rigidblocks.block.integrators import EULER, RK4
from rigidblocks.cli import main
from rigidblocks.contact import Sphere
from rigidblocks.spatial.spatial import identity

SAME = 1e-9  # over 0.1 s a stiff loop amplifies the rounding of reordered operations

SCRIPT = Path(__file__).parents[2] / "fmus/planar2_pd_fmu.py"


def names(path):
    return zipfile.ZipFile(path).namelist()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parameters(path):
    description = fmpy.read_model_description(str(path))
    return [v.name for v in description.modelVariables if v.causality == "parameter"]


@pytest.mark.parametrize("target", ["native", "source", "python"])
def test_same_script_exports_an_fmu_for_every_target(tmp_path, target):
    path = export_fmu(SCRIPT, tmp_path / "a.fmu", target)
    assert validate_fmu(str(path)) == []
    assert fmpy.read_model_description(str(path)).modelName == "Planar2PD"
    assert ("sources/model.h" in names(path)) == (target == "source")
    assert any(name.startswith("binaries/") for name in names(path)) == (target != "source")


@pytest.mark.parametrize("target", ["native", "source"])
def test_export_fmu_writes_valid_fmi_3_fmus(tmp_path, target):
    path = export_fmu(SCRIPT, tmp_path / "a.fmu", target, fmi=3)
    assert validate_fmu(str(path)) == []
    assert fmpy.read_model_description(str(path)).fmiVersion == "3.0"
    if target == "source":
        configuration = fmpy.read_model_description(str(path)).buildConfigurations[0]
        assert configuration.sourceFileSets[0].sourceFiles == ["fmi3.c"]
        assert configuration.modelIdentifier == "Planar2PD"
    else:
        assert "binaries/x86_64-linux/Planar2PD.so" in names(path)


@pytest.mark.slow
def test_fmu_of_a_system_matches_the_results_of_simulate(tmp_path):
    path = export_fmu(wired(parts()), tmp_path / "a.fmu", dt=1e-3, name="demo")
    assert validate_fmu(str(path)) == []
    instance = Host(path, tmp_path)
    where = [
        v.valueReference
        for v in instance.description.modelVariables
        if v.name in ("robot.q[1]", "robot.q[2]")
    ]
    instance.initialize()
    rows = [instance.fmu.getReal(where)]
    for k in range(100):
        instance.fmu.doStep(k * 1e-3, 1e-3)
        rows.append(instance.fmu.getReal(where))
    result = simulate(wired(parts()), t_stop=0.1, dt=1e-3, form="numpy")
    assert_allclose(np.array(rows), result["robot.q"], rtol=SAME, atol=SAME)
    instance.fmu.freeInstance()


def test_export_options_set_the_parameters_and_the_model_identifier(tmp_path):
    block = BLOCKS["pd"]
    assert parameters(export_fmu(block, tmp_path / "a.fmu", "source")) == [
        "kp[1]",
        "kp[2]",
        "kd[1]",
        "kd[2]",
    ]
    path = export_fmu(block, tmp_path / "b.fmu", "source", tunable=["kd"], name="pd")
    assert parameters(path) == ["kd[1]", "kd[2]"]
    assert fmpy.read_model_description(str(path)).coSimulation.modelIdentifier == "pd"


@pytest.mark.slow
def test_export_options_override_the_integration_settings_of_a_script(tmp_path):
    robot = SCRIPT.with_name("planar2_robot_fmu.py")
    made = {
        digest(export_fmu(robot, tmp_path / f"{k}.fmu", "source", **options))
        for k, options in enumerate(
            [{}, {"method": "adaptive or stiff"}, {"method": EULER}, {"h": 1e-4}]
        )
    }
    assert len(made) == 3  # the first two are equal


def named(name):
    """Return a system with a part of this name."""
    system = System()
    system.add(name, library.Gain(2.0), start={"u": 1.0})
    return system


BLOCK, SYSTEM = BLOCKS["pd"], wired(parts())
REFUSED = {
    "target": (BLOCK, {"target": "jar"}, "target must be one of native, source, python, not 'jar'"),
    "fmi": (BLOCK, {"fmi": 1}, "fmi must be one of 2.*, not 1"),
    "scalars of FMI 2": (BLOCK, {"arrays": False}, "arrays=False is for FMI 3.0; FMI 2.0 has scal"),
    "tunable": (BLOCK, {"tunable": ["k"]}, "PDController has no parameter .'k'.; it has: kp, kd"),
    "system without step": (
        SYSTEM,
        {},
        "to export a System as an FMU, specify the communication step dt .s.",
    ),
    "system with method": (
        SYSTEM,
        {"dt": 1e-3, "method": RK4},
        "each part of a System has its own method",
    ),
    "system with h": (SYSTEM, {"dt": 1e-3, "h": 1e-3}, "each part of a System has its own h"),
    "order": (
        SYSTEM,
        {"dt": 1e-3, "order": "seidel"},
        "order must be one of gauss-seidel, jacobi, not 'seidel'",
    ),
    "block with step": (BLOCK, {"dt": 1e-3}, "only a System supports dt"),
    "block with order": (
        BLOCK,
        {"dt": 1e-3, "order": "jacobi"},
        "only a System supports dt and order",
    ),
    "python system": (SYSTEM, {"target": "python"}, "to export a System as an FMU, specify"),
    "python fmi 3": (
        SCRIPT,
        {"target": "python", "fmi": 3},
        "a Python FMU is FMI 2.0 .* it does not support fmi",
    ),
    "python platforms": (
        SCRIPT,
        {"target": "python", "platforms": "all"},
        "a Python FMU .* it does not support platforms",
    ),
    "python h": (
        SCRIPT,
        {"target": "python", "h": 1e-3, "name": "a"},
        "a script defines its FMU: it does not support name and h",
    ),
    "a name for FMI": (
        named("my arm"),
        {"dt": 1e-3},
        "cannot have a variable 'my arm.y': names",
    ),
    "a name in Python": (named("für"), {"dt": 1e-3, "target": "python"}, "a variable 'für.y'"),
    "bundle": (BLOCK, {"bundle": True}, "only a Python FMU supports bundle"),
    "platform": (
        BLOCK,
        {"platforms": ["vax"]},
        "unknown platform 'vax'; choose among x86_64-linux, .*, or all",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inconsistent_export_options_are_rejected_before_writing(tmp_path, case):
    source, options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        export_fmu(source, tmp_path / "a.fmu", **options)
    assert list(tmp_path.iterdir()) == []


def test_fmu_export_rejects_a_robot_file_as_script_and_a_folder_as_output_path(tmp_path):
    (tmp_path / "arm.urdf").write_text("<robot/>")
    with pytest.raises(
        ValueError, match=r"'arm.urdf' is not a script: .* described_plant\(load_model"
    ):
        export_fmu(tmp_path / "arm.urdf", tmp_path / "a.fmu")
    with pytest.raises(IsADirectoryError, match=r"cannot write the FMU '.*': it is a folder"):
        export_fmu(BLOCK, tmp_path)
    with pytest.raises(OSError, match=r"cannot write '/dev/null/a.fmu': cannot create a file in"):
        export_fmu(BLOCK, "/dev/null/a.fmu", "source")


@pytest.mark.slow
def test_simulation_of_a_block_does_not_change_its_exported_fmu(tmp_path):
    ball = sphere_inertia(0.1, mass=1.0)
    model = Model("ball", (-1,), (SixDoF(),), (identity(),), (ball,), contact=((Sphere(0.1),),))
    block = RigidContactPlant(model, q0=[1, 0, 0, 0, 0, 0, 0.1])
    before = digest(export_fmu(block, tmp_path / "a.fmu", "python"))
    system = System()
    system.add("ball", block)
    simulate(system, 2e-3, 1e-3, form="numpy")
    assert digest(export_fmu(block, tmp_path / "b.fmu", "python")) == before


@pytest.mark.parametrize(
    ("arguments", "options"),
    [(["--fmi", "2"], {}), (["--fmi", "3", "--no-arrays"], {"fmi": 3, "arrays": False})],
)
def test_fmu_command_and_export_fmu_write_byte_identical_files(
    tmp_path, capsys, arguments, options
):
    arguments = [*arguments, "--target", "source", "--tunable", "kp,kd", "--name", "pd"]
    assert main(["fmu", str(SCRIPT), "-o", str(tmp_path / "a.fmu"), *arguments]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a.fmu'}\n"
    options = options | {"tunable": ["kp", "kd"], "name": "pd"}
    same = export_fmu(SCRIPT, tmp_path / "b.fmu", "source", **options)
    assert digest(tmp_path / "a.fmu") == digest(same)


def test_errors_of_the_fmu_command_have_one_line(tmp_path, capsys):
    arguments = ["--platforms", "x86_64-linux,vax"]
    assert main(["fmu", str(SCRIPT), "-o", str(tmp_path / "a.fmu"), *arguments]) == 2
    assert capsys.readouterr().err.startswith(
        "rigidblocks: unknown platform 'vax'; choose among x86_64-linux, "
    )
