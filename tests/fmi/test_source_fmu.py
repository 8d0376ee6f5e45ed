"""Source-code FMUs: strict C99, lists of source files, and no heap allocation.

The source files are listed by the rules of FMI.
"""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import fmpy
import numpy as np
import pytest
from fmpy.build import build_platform_binary
from fmpy.validation import validate_fmu
from lxml import etree
from numpy.testing import assert_allclose

import rigidblocks
from fmu_blocks import BLOCKS
from fmu_instance import Host
from rigidblocks import PDController, RobotPlant, export_fmu, planar2
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.common.compiler import PORTABLE_FLAGS
from rigidblocks.fmi.archive import add_source_files, build_description

SAME = 1e-12  # rounding of reordered operations in a short run
SAME_LOOP = 1e-9  # over 1 s the stiff controller amplifies the rounding

ZIG = (sys.executable, "-m", "ziglang", "cc")
COMPILERS = {"gcc": ("gcc",), "clang": ("clang",), "ziglang": ZIG}
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
CODE = Path(__file__).with_name("c_host")


def unpacked(block, folder, **options):
    """Export a source-code FMU and return the folder of its files."""
    path = export_fmu(block, folder.with_suffix(".fmu"), "source", **options)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder


def run(*command, cwd=None):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def main_file(folder):
    """Return the source file that the FMU description lists for compilation."""
    root = ET.parse(folder / "modelDescription.xml").getroot()
    names = [file.get("name") for file in root.findall("CoSimulation/SourceFiles/File")]
    if root.get("fmiVersion") == "3.0":
        build = ET.parse(folder / "sources/buildDescription.xml").getroot()
        names = [file.get("name") for file in build.iter("SourceFile")]
    assert len(names) == 1
    return folder / "sources" / names[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_source_fmu_passes_the_validator_and_has_no_binary(tmp_path, name):
    path = export_fmu(BLOCKS[name], tmp_path / "a.fmu", "source")
    assert validate_fmu(str(path)) == []
    assert not any(entry.startswith("binaries/") for entry in zipfile.ZipFile(path).namelist())


@pytest.mark.slow
@pytest.mark.parametrize("option", [None, "-DFIXED_INSTANCES=3", "-DFMI{}_FUNCTION_PREFIX=arm_"])
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_unpacked_sources_compile_as_strict_c99_without_warnings(tmp_path, compiler, fmi, option):
    if not shutil.which(COMPILERS[compiler][0]):
        pytest.skip(f"{compiler} is not on the PATH")
    source = main_file(unpacked(BLOCKS["planar2"], tmp_path / "fmu", fmi=fmi))
    options = [option.format(fmi)] if option else []
    run(*COMPILERS[compiler], *STRICT, *options, "-c", source, "-o", tmp_path / "a.o")


def test_source_fmu_files_include_only_their_own_and_c99_headers(tmp_path):
    sources = unpacked(BLOCKS["sampled pd"], tmp_path / "fmu") / "sources"
    c99 = {"float", "limits", "math", "stdarg", "stddef", "stdint", "stdio", "stdlib", "string"}
    for file in sources.iterdir():
        text = file.read_text()
        assert {f"{name}.h" for name in c99} >= set(re.findall(r"#include <(.*)>", text))
        included = set(re.findall(r'^#include "(.*)"', text, re.MULTILINE))
        missing = {name for name in included if not (sources / name).is_file()}
        assert missing <= {"fmi3Functions.h", "sparsity.h"}  # `#if RB_FMI == 3`


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not on the PATH")
def test_results_of_a_binary_built_by_fmpy_match_the_results_of_numpy(tmp_path):
    block, folder = BLOCKS["sampled pd"], tmp_path / "fmu"
    (tmp_path / "build").mkdir()
    build_platform_binary(unpacked(block, folder), tmp_path / "build")
    built = shutil.make_archive(str(tmp_path / "built"), "zip", folder)
    flat, instance = Memory(block), Host(built, tmp_path)
    numpy, m = NumpyStepper(flat), flat.start()
    numpy.initialize(m, 0.0)
    instance.initialize()
    for k in range(5):
        m[flat.u] = np.sin(k + np.arange(m[flat.u].size))
        instance.set(flat.u, m[flat.u])
        numpy.step(m, k * 4e-3, 4e-3)
        instance.fmu.doStep(k * 4e-3, 4e-3)
    assert_allclose(instance.m, m, rtol=SAME, atol=SAME)
    instance.fmu.freeInstance()


@pytest.mark.slow
def test_source_fmu_with_a_platform_has_sources_and_a_binary(tmp_path):
    path = export_fmu(BLOCKS["pd"], tmp_path / "a.fmu", "source", platforms="x86_64-linux")
    names = zipfile.ZipFile(path).namelist()
    assert {"sources/model.h", "binaries/linux64/PDController.so"} <= set(names)
    assert validate_fmu(str(path)) == []


def references(robot, pd):
    """Return C arrays of the value references that linked.c sets and gets."""
    places = {
        "ROBOT_Q_QD": [robot.where["q"], robot.where["qd"]],
        "ROBOT_TAU": [robot.where["tau"]],
        "PD_Q_REF": [pd.where["q_ref"]],
        "PD_Q_QD": [pd.where["q"], pd.where["qd"]],
        "PD_TAU": [pd.where["tau"]],
    }
    rows = {
        name: [k for where in slices for k in range(where.start, where.stop)]
        for name, slices in places.items()
    }
    lines = (
        f"static const fmi2ValueReference {name}[] = {{{str(row)[1:-1]}}};"
        for name, row in rows.items()
    )
    return "\n".join(lines) + "\n"


def in_numpy(robot, pd, dt, steps):
    """Return the final joint positions of the same control loop of blocks in NumPy."""
    plant, controller = NumpyStepper(robot), NumpyStepper(pd)
    m, c = robot.start(), pd.start()
    c[pd.where["q_ref"]] = 0.5, -0.5
    plant.initialize(m, 0.0)
    controller.initialize(c, 0.0)
    for k in range(steps):
        for port in ("q", "qd"):
            c[pd.where[port]] = m[robot.where[port]]
        controller.step(c, k * dt, dt)
        m[robot.where["tau"]] = c[pd.where["tau"]]
        plant.step(m, k * dt, dt)
    return m[robot.where["q"]]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not on the PATH")
def test_two_linked_source_fmus_match_the_results_of_numpy_without_heap_allocation(tmp_path):
    blocks = {"robot": RobotPlant(planar2()), "pd": PDController(kp=(60.0, 30.0), kd=(8.0, 4.0))}
    guids, objects = [], []
    for name, block in blocks.items():
        folder = unpacked(block, tmp_path / name)
        objects.append(tmp_path / f"{name}.o")
        run(
            "gcc",
            *PORTABLE_FLAGS,
            f"-DFMI2_FUNCTION_PREFIX={name}_",
            "-DFIXED_INSTANCES=2",
            "-c",
            main_file(folder),
            "-o",
            objects[-1],
        )
        guids.append(fmpy.read_model_description(str(folder)).guid)
    robot, pd = (Memory(block) for block in blocks.values())
    (tmp_path / "references.h").write_text(references(robot, pd))
    include = ("-I", tmp_path, "-I", tmp_path / "robot/sources")
    run("gcc", *STRICT, *include, CODE / "linked.c", *objects, "-o", tmp_path / "linked", "-lm")
    *q, made, counted, refused = map(float, run(tmp_path / "linked", *guids, 1e-2, 100).split())
    assert_allclose(q, in_numpy(robot, pd, 1e-2, 100), rtol=SAME_LOOP, atol=SAME_LOOP)
    assert counted == 1
    assert made == 0
    assert refused  # an instance and a saved state use both slots


def test_source_fmu_contains_both_licenses(tmp_path):
    root = Path(rigidblocks.__file__).parents[2]
    folder = unpacked(BLOCKS["pd"], tmp_path / "fmu")
    text = (folder / "documentation/licenses/license.txt").read_text()
    assert (root / "LICENSE").read_text() in text
    assert "2-Clause BSD License" in text
    assert "Redistributions in binary form must reproduce the above copyright notice" in re.sub(
        r"\s+", " ", text
    )
    for header in (folder / "sources").glob("fmi2[FT]*.h"):
        assert "2-Clause BSD License" in header.read_text()


def test_fmi3_build_description_follows_its_schema():
    schema = etree.XMLSchema(
        file=str(Path(fmpy.__file__).parent / "schema/fmi3/fmi3BuildDescription.xsd")
    )
    root = etree.fromstring(build_description("fmi3.c", "arm").encode())
    schema.assertValid(root)
    assert [file.get("name") for file in root.iter("SourceFile")] == ["fmi3.c"]


def test_fmi2_model_description_lists_the_source_file_for_both_interface_types():
    text = add_source_files(
        '<fmiModelDescription><ModelExchange/><CoSimulation a="b"/><Other/></fmiModelDescription>',
        "a.c",
    )
    root = ET.fromstring(text)
    assert [file.get("name") for file in root.iter("File")] == ["a.c", "a.c"]
    assert root.find("Other/SourceFiles") is None
