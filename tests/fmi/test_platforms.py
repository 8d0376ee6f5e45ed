"""Native FMUs for all platforms, built on one machine.

The tests check the format, exports, imports and results of the libraries.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import fmpy
import lief
import numpy as np
import pytest
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose

from fmu_blocks import BLOCKS
from rigidblocks import RobotPlant, auto_tree, export_fmu
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.common.compiler import CompilerError
from rigidblocks.fmi.native_fmu import PLATFORMS, find_platforms, native_fmu, universal

pytestmark = (
    pytest.mark.slow
)  # the first run compiles the C libraries of all platforms, which takes minutes

SAME = 1e-9  # over 1 s an uncontrolled robot amplifies the rounding of operations and of sin

ZIG = (sys.executable, "-m", "ziglang", "cc")
MINGW = "x86_64-w64-mingw32-gcc"
FMI_HEADERS = Path(fmpy.__file__).parent / "c-code"
FOLDERS_2 = {
    "x86_64-linux": "linux64",
    "aarch64-linux": "aarch64-linux",
    "x86_64-windows": "win64",
    "x86_64-darwin": "darwin64",
    "aarch64-darwin": "aarch64-darwin",
}
MACHINE = {
    "x86_64-linux": lief.ELF.ARCH.X86_64,
    "aarch64-linux": lief.ELF.ARCH.AARCH64,
    "x86_64-windows": lief.PE.Header.MACHINE_TYPES.AMD64,
    "x86_64-darwin": lief.MachO.Header.CPU_TYPE.X86_64,
    "aarch64-darwin": lief.MachO.Header.CPU_TYPE.ARM64,
}
SYSTEM_LIBRARIES = {
    "linux": {"libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"},
    "windows": {"kernel32.dll"},
    "darwin": {"/usr/lib/libSystem.B.dylib"},
}


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return an FMU for all platforms."""
    return export_fmu(
        BLOCKS["planar2"],
        tmp_path_factory.mktemp("all") / "arm.fmu",
        platforms="all",
        name="arm",
        method="rk4",
        h=1e-2,
    )


def member(platform):
    return f"binaries/{FOLDERS_2[platform]}/arm{PLATFORMS[platform].suffix}"


def library(fmu, platform):
    """Return the parsed library of a platform, extracted from a universal macOS library."""
    content = zipfile.ZipFile(fmu).read(member(platform))
    if platform == "x86_64-darwin":
        return lief.MachO.parse(list(content)).take(MACHINE[platform])
    return lief.parse(list(content))


def fmi_functions():
    """Return the functions of FMI 2.0."""
    return {
        name
        for name in dir(fmpy.fmi2.FMU2Slave) + dir(fmpy.fmi2.FMU2Model)
        if name.startswith("fmi2")
    }


def test_fmi2_fmu_has_a_binary_in_the_folder_of_each_platform(fmu):
    binaries = {name for name in zipfile.ZipFile(fmu).namelist() if name.startswith("binaries/")}
    assert binaries == {member(platform) for platform in FOLDERS_2}
    assert validate_fmu(str(fmu)) == []


def test_fmi3_binary_folder_is_named_after_the_platform_tuple():
    assert [platform.folder(3) for platform in PLATFORMS.values()] == [
        f"binaries/{name}" for name in PLATFORMS
    ]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_header_of_each_fmu_library_declares_the_processor_of_its_platform(fmu, platform):
    parsed = library(fmu, platform)
    found = {getattr(parsed.header, name, None) for name in ("machine_type", "machine", "cpu_type")}
    assert MACHINE[platform] in found


@pytest.mark.parametrize("platform", PLATFORMS)
def test_fmu_library_of_each_platform_exports_only_fmi_functions(fmu, platform):
    parsed = library(fmu, platform)  # keep a reference, because the symbols belong to it
    names = {
        symbol.name
        for symbol in (
            parsed.exported_symbols if platform.endswith("darwin") else parsed.exported_functions
        )
    }
    if platform.endswith("darwin"):
        names = {name.removeprefix("_") for name in names} - {
            "_mh_dylib_header",
            "__dso_handle",
        }  # symbols of every library
    assert fmi_functions() <= names
    assert all(name.startswith("fmi2") for name in names)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_fmu_library_depends_only_on_the_c_library_of_its_platform(fmu, platform):
    parsed = library(fmu, platform)
    system = platform.split("-")[1]
    needed = [getattr(entry, "name", entry) for entry in parsed.libraries]
    if system == "windows":
        needed = [name.lower() for name in needed if not name.lower().startswith("api-ms-win-crt-")]
    if system == "darwin":
        assert needed[0] == "@rpath/arm.dylib"  # its install name, not the build path
        needed = needed[1:]
    assert set(needed) <= SYSTEM_LIBRARIES[system]


@pytest.mark.parametrize("platform", ["x86_64-linux", "aarch64-linux"])
def test_linux_library_requires_at_most_glibc_2_17(fmu, platform):
    parsed = library(fmu, platform)
    needed = {
        tuple(map(int, version.name.removeprefix("GLIBC_").split(".")))
        for requirement in parsed.symbols_version_requirement
        for version in requirement.get_auxiliary_symbols()
    }
    assert needed
    assert max(needed) <= (2, 17)


def test_fmu_contains_no_paths_of_the_build_machine(fmu):
    archive = zipfile.ZipFile(fmu)
    content = b"".join(archive.read(name) for name in archive.namelist())
    for place in (str(fmu.parent), os.environ["RIGIDBLOCKS_CACHE"], sys.prefix, str(Path.home())):
        assert place.encode() not in content


def test_universal_macos_library_contains_the_x86_64_and_arm64_libraries(fmu):
    archive = zipfile.ZipFile(fmu)
    both = archive.read(member("x86_64-darwin"))
    arm64 = archive.read(member("aarch64-darwin"))
    assert both.endswith(arm64)
    start = int.from_bytes(both[16:20], "big")
    x86_64 = both[start : start + int.from_bytes(both[20:24], "big")]
    assert universal(x86_64, arm64) == both
    fat = lief.MachO.parse(list(both))
    assert [fat.at(k).header.cpu_type for k in range(fat.size)] == [
        MACHINE["x86_64-darwin"],
        MACHINE["aarch64-darwin"],
    ]


def test_fmu_for_one_macos_architecture_has_no_universal_library(tmp_path):
    path = native_fmu(BLOCKS["pd"], tmp_path / "a.fmu", name="arm", platforms=["x86_64-darwin"])
    assert (
        zipfile.ZipFile(path).read(member("x86_64-darwin"))[:4] == b"\xcf\xfa\xed\xfe"
    )  # 64-bit Mach-O, not universal


def test_platform_that_is_listed_twice_is_built_once():
    assert [platform.name for platform in find_platforms(["x86_64-linux", "x86_64-linux"])] == [
        "x86_64-linux"
    ]
    assert [platform.name for platform in find_platforms("aarch64-linux")] == ["aarch64-linux"]


@pytest.mark.parametrize(
    ("platforms", "message"),
    [
        (
            "linux64",
            r"unknown platform 'linux64' \(did you mean x86_64-linux\?\); choose among "
            "x86_64-linux, aarch64-linux, .*, or all",
        ),
        (["win64"], r"did you mean x86_64-windows\?"),
        (["x86-64-darwin"], r"did you mean x86_64-darwin\?"),
        (["x86_64-linux", "vax"], "unknown platform 'vax'"),
        ([], "no platform to build for; choose among"),
    ],
)
def test_unknown_target_platform_of_an_fmu_is_rejected(tmp_path, platforms, message):
    with pytest.raises(ValueError, match=message):
        native_fmu(BLOCKS["pd"], tmp_path / "a.fmu", platforms=platforms)
    assert list(tmp_path.iterdir()) == []


def test_cross_compilation_error_suggests_the_missing_ziglang_package(tmp_path, monkeypatch):
    monkeypatch.setattr("rigidblocks.common.compiler.find_spec", lambda _: None)
    with pytest.raises(
        CompilerError,
        match=r"no C compiler for aarch64-linux-gnu.2.17: `pip install ziglang`",
    ):
        native_fmu(BLOCKS["pd"], tmp_path / "a.fmu", platforms=["aarch64-linux"])


@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_of_a_seven_joint_arm_for_five_platforms_is_smaller_than_one_megabyte(tmp_path, fmi):
    arm, options = RobotPlant(auto_tree(7, skew=0.7)), {"platforms": "all", "fmi": fmi}
    path = export_fmu(arm, tmp_path / "arm.fmu", method="rk4", **options)
    assert (
        len([name for name in zipfile.ZipFile(path).namelist() if name.startswith("binaries/")])
        == 5
    )
    assert path.stat().st_size < 1e6


# ---- equal values on other platforms ----


def expected(steps, dt):
    flat = Memory(BLOCKS["planar2"])
    numpy, m, rows = NumpyStepper(flat, h=1e-2), flat.start(), []
    numpy.initialize(m, 0.0)
    for k in range(steps):
        m[flat.u] = np.sin(k * dt + np.arange(2))
        numpy.step(m, k * dt, dt)
        rows.append(m.copy())
    return np.array(rows)


def runs_as_in_numpy(fmu, platform, folder, launcher, flags=(), environment=None, compiler=None):
    """Assert that the C importer, started by the launcher, prints the trajectory of NumPy."""
    steps, dt, flat = 100, 1e-2, Memory(BLOCKS["planar2"])
    zipfile.ZipFile(fmu).extractall(folder)
    host = folder / "host.exe"
    source = Path(__file__).with_name("c_host") / "host.c"
    command = compiler or (*ZIG, "-target", PLATFORMS[platform].target)
    options = ("-std=c99", "-D_DEFAULT_SOURCE", "-DUNCOUNTED", "-I", FMI_HEADERS)
    subprocess.run([*command, *options, source, "-o", host, *flags], check=True)
    guid = fmpy.read_model_description(str(fmu)).guid
    arguments = (host, folder / member(platform), guid, dt, steps, flat.u.start, 2, flat.size)
    command = [*launcher, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    rows = np.array([line.split() for line in done.stdout.splitlines()[:-1]], dtype=float)
    assert_allclose(rows, expected(steps, dt), rtol=SAME, atol=SAME)


@pytest.mark.skipif(fmpy.platform_tuple != "x86_64-linux", reason="this is not Linux on x86-64")
def test_results_of_a_ziglang_library_on_linux_match_the_results_of_numpy(fmu, tmp_path):
    runs_as_in_numpy(fmu, "x86_64-linux", tmp_path, (), ("-lm", "-ldl"))


@pytest.mark.interop
@pytest.mark.skipif(
    not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed (Debian's qemu-user)"
)
@pytest.mark.skipif(
    not Path("/usr/aarch64-linux-gnu").is_dir(),
    reason="the C library is not installed (Debian's libc6-arm64-cross)",
)
def test_results_of_an_arm_library_under_qemu_match_the_results_of_numpy(fmu, tmp_path):
    runs_as_in_numpy(
        fmu,
        "aarch64-linux",
        tmp_path,
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        ("-lm", "-ldl"),
    )


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("wine"), reason="wine is not installed (Debian's wine64)")
@pytest.mark.skipif(not shutil.which(MINGW), reason=f"{MINGW} is not installed (Debian package)")
def test_results_of_a_windows_library_under_wine_match_the_results_of_numpy(fmu, tmp_path):
    environment = {
        **os.environ,
        "WINEPREFIX": str(tmp_path / "wine"),
        "WINEDEBUG": "-all",
        "DISPLAY": "",
    }
    try:
        # ziglang takes minutes to build its C library for Windows
        runs_as_in_numpy(
            fmu, "x86_64-windows", tmp_path, ("wine",), environment=environment, compiler=(MINGW,)
        )
    finally:
        subprocess.run(["wineserver", "-k"], env=environment, check=False)
