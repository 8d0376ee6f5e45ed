"""Release files: build, contents and use without the repository."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import rigidblocks
from browser import browser, needs_browser

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.interop


ARM = """<robot name="arm"><link name="base"/><link name="tip"><inertial><mass value="1"/>
<origin xyz="0 0 -0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
</inertial></link><joint name="pin" type="continuous"><parent link="base"/>
<child link="tip"/><axis xyz="0 1 0"/></joint></robot>"""


def run(*command, cwd, env=None):
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of_the_package():
    """Return the paths of all release files, relative to the root."""
    folder = ROOT / "blocks/rigidblocks"
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return {p.relative_to(ROOT).as_posix() for p in paths if "__pycache__" not in p.parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the source distribution and the wheel from a copy of the repository."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in (*files_of_the_package(), "README.md", "LICENSE", "pyproject.toml"):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--outdir", out, source, cwd=out)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def test_sdist_and_wheel_pass_the_twine_check(built):
    text = run(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=built[0].parent)
    assert text.count("PASSED") == 2
    version = f"rigidblocks-{rigidblocks.__version__}"
    assert all(path.name.startswith(version) for path in built)


def test_sdist_and_wheel_contain_all_files_of_the_package(built):
    names = files_of_the_package()
    assert "blocks/rigidblocks/__init__.py" in names
    with zipfile.ZipFile(built[1]) as wheel:
        assert {name.removeprefix("blocks/") for name in names} <= set(wheel.namelist())
    with tarfile.open(built[0]) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert names | {"README.md", "LICENSE"} <= inside


def installed(target, *what):
    """Install packages without their dependencies, which the test environment contains."""
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *what)
    run(sys.executable, *install, cwd=target.parent)


def runs_from(site, folder, *first):
    """Run the Python code `first` and the program with the installed package."""
    path = {**os.environ, "PYTHONPATH": str(site)}
    said = [run(sys.executable, "-c", code, cwd=folder, env=path) for code in first]
    (folder / "arm.urdf").write_text(ARM)
    said += [
        run(sys.executable, "-m", "rigidblocks", *command.split(), cwd=folder, env=path)
        for command in ("demo --stop 1", "fmu arm.urdf -o arm.fmu", "run arm.fmu --stop 1")
    ]
    assert re.search(r"arm\.q", said[-1])
    return said


def test_installed_wheel_works_without_the_repository(built, tmp_path):
    target = tmp_path / "site"
    installed(target, built[1])
    where = runs_from(target, tmp_path, "import rigidblocks as r; print(r.__file__)")[0]
    assert where.startswith(str(target))


@needs_browser
def test_pages_of_the_installed_wheel_open_without_network_requests(built, tmp_path):
    """The FMU pages contain formulas, drawing, curves and robot; a robot file has its own page."""
    target = tmp_path / "site"
    installed(target, built[1])
    (tmp_path / "arm.urdf").write_text(ARM)
    path = {**os.environ, "PYTHONPATH": str(target)}
    for command in ("fmu arm.urdf -o arm.fmu --page", "view arm.urdf -o arm.html"):
        run(sys.executable, "-m", "rigidblocks", *command.split(), cwd=tmp_path, env=path)
    with zipfile.ZipFile(tmp_path / "arm.fmu") as fmu:
        for name in ("index", "page"):
            (tmp_path / f"{name}.html").write_bytes(fmu.read(f"documentation/{name}.html"))
    text = (tmp_path / "index.html").read_text()
    assert "<math" in text
    assert text.count("<svg") == 1 + text.count('<figure class="chart">') == 5
    assert 'href="page.html"' in text
    with browser() as tab:
        for name in ("index", "page", "arm"):
            tab.open(tmp_path / f"{name}.html")
            tab.wait("return document.querySelector('math, canvas') !== null")
            asked = "return performance.getEntriesByType('resource').map((one) => one.name)"
            assert [one for one in tab.run(asked) if one.startswith("http")] == []
        assert tab.errors() == []


def test_installed_wheel_works_with_the_lowest_allowed_dependency_versions(built, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["zig"]]
    lowest = [need.replace(">=", "==") for need in needs]
    target = tmp_path / "site"
    installed(target, built[1], *lowest)
    versions = "from importlib.metadata import version as v\n" + "\n".join(
        f"assert v({name!r}) in ({number!r}, {number + '.0'!r}, {number + '.0.0'!r}), v({name!r})"
        for name, number in (need.split("==") for need in lowest)
    )
    runs_from(target, tmp_path, versions)


def test_citation_and_changelog_have_the_package_version():
    assert f"\nversion: {rigidblocks.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{rigidblocks.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert rigidblocks.__version__ not in (ROOT / "pyproject.toml").read_text()
