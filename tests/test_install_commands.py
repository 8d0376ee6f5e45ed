"""Installation commands in messages and pages name packages that exist."""

import ast
import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from rigidblocks.common.optional_imports import distribution_of, module_of

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "blocks/rigidblocks").rglob("*.py"))
TESTS = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMAND = re.compile(r"pip install[ \n]+([^`\"')\n]+|\"[^\"]*\"|'[^']*')")
HELPERS = ("module_of", "missing_package", "install_command")


def declared() -> set[str]:
    """Return the names of all packages that this project requires or can use."""
    lines = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    return {re.match(r"[\w.-]+", line)[0] for line in lines}


def optional_modules() -> set[str]:
    """Return the modules for which the source states an installation command."""
    called = set()
    texts = (path.read_text() for path in SOURCES)
    for text in texts:
        if "rigidblocks.common.optional_imports" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in HELPERS:
                called |= {n.value for n in node.args[:1] if isinstance(n, ast.Constant)}
    return called


def test_messages_and_pages_never_install_rigidblocks_from_an_index():
    for path in [*SOURCES, *TESTS, *PAGES]:
        for command in COMMAND.findall(path.read_text()):
            if "path/to/" not in command:
                assert not re.search(r"(?<![\w-])rigidblocks", command), (path, command)


def test_every_optional_import_is_a_declared_dependency():
    modules = optional_modules()
    assert {"matplotlib", "ziglang", "yaml", "scipy.sparse"} <= modules
    assert {distribution_of(module) for module in modules} <= declared()


def test_packages_installed_by_pages_are_declared():
    found = set()
    for path in PAGES:
        for command in COMMAND.findall(path.read_text()):
            if not command.startswith(('"', "'", "brax")):  # a clone; a list of benchmarks
                found |= set(command.split())
    assert {"ziglang", "cantools", "pint"} <= found <= declared()


def test_install_commands_in_the_source_come_only_from_the_install_helper():
    for path in SOURCES:
        if path.name != "optional_imports.py":
            assert not COMMAND.search(path.read_text()), path


@pytest.mark.parametrize(
    ("module", "distribution"),
    [
        ("yaml", "pyyaml"),
        ("imageio_ffmpeg", "imageio-ffmpeg"),
        ("scipy.sparse", "scipy"),
        ("fmu_manipulation_toolbox.container", "fmu-manipulation-toolbox"),
    ],
)
def test_missing_module_is_reported_with_its_install_command(monkeypatch, module, distribution):
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"^'x' needs ") as caught:
        module_of(module, "'x'")
    assert str(caught.value) == f"'x' needs {distribution}: pip install {distribution}"


SUPPORT = {path.stem: path for path in (ROOT / "tests/support").glob("*.py")}
# modules of packages that `make check` installs, but not `make test`
NOT_IN_MAKE_TEST = {
    *("can", "cantools", "control", "distributed", "ecospy", "gymnasium", "helics", "imageio"),
    *("libcosimpy", "mosaik_api_v3", "mujoco", "pathsim", "pinocchio", "pyxcp", "rtamt"),
    *("trimesh", "xarray", "zarr"),
}


def imports_when_loaded(path: Path) -> set[str]:
    """Return the modules that a test module imports before its first `importorskip`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if "importorskip" in ast.unparse(node) and not isinstance(node, ast.FunctionDef):
            break
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    for name in found & SUPPORT.keys():
        found = found | imports_when_loaded(SUPPORT[name])
    return found


@pytest.mark.slow
def test_test_modules_load_without_the_optional_packages():
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert not imports_when_loaded(path) & NOT_IN_MAKE_TEST, path
