"""Each extra at the lowest versions that it asks for: tests of what it is for, with these packages
before those of the environment.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.interop

# what each extra is for, as tests that use it
USES = {
    "mujoco": ["formats/test_mjcf.py::test_robots_move_as_mujoco_says"],
    "data": ["simulation/test_recording.py::test_a_saved_run_is_the_run_in_memory"],
    "mdf": ["simulation/test_recording.py::test_a_saved_run_is_the_run_in_memory"],
    "plot": [
        "view/test_plots.py::test_a_signal_over_its_command_and_the_error",
        "view/test_plots.py::test_steps_and_events_have_their_panels",
    ],
    "view": [
        "view/test_meshes.py::test_a_mesh_is_where_its_link_is",
        "view/test_film.py::test_a_film_has_a_picture_for_each_moment",
    ],
    "video": ["view/test_film.py::test_a_video_has_the_pictures_of_the_run"],
    "notebook": ["test_example_notebooks.py::test_a_notebook_shows_robots_runs_and_systems"],
    "units": ["simulation/test_fmu_units.py::test_pint_knows_what_no_description_says"],
    "sparse": ["loops/test_maximal_loops.py"],
    "yaml": ["study/test_requirements.py::test_files_of_requirements"],
    "can": ["bench/test_can_links.py::test_ports_are_those_of_the_database_in_units_of_blocks"],
    "helics": ["bench/test_federation.py::test_two_federates_are_a_run_by_jacobi"],
    "dataset": [
        "study/test_sweep.py::test_a_sweep_is_a_dataset_and_a_file_of_it",
        "study/test_sweep.py::test_designs_fill_their_ranges",
    ],
    "stl": [
        "study/test_requirements.py::"
        "test_formulas_of_temporal_logic_hold_by_what_their_definition_says"
    ],
    "cluster": [
        "study/test_sweeps_elsewhere.py::"
        "test_clusters_of_two_and_four_workers_give_the_numbers_of_this_machine"
    ],
}
OF_DEVELOPERS = {"test", "peers", "site", "interop"}
COMPILER = {"zig"}  # runs with the base, see test_release.py
NO_LONGER_NEEDED = ("crc32c", "diskcache")  # by the newest zarr and cantools
PLUGINS = ("--disable-plugin-autoload", "-p", "_hypothesis_pytestplugin")
VERSIONS = """
from importlib.metadata import version
import sys
for need in sys.argv[1:]:
    name, lowest = need.split("==")
    here = [*map(int, version(name).split("."))] + [0, 0]
    assert here[:3] == ([*map(int, lowest.split("."))] + [0, 0])[:3], (need, version(name))
"""


def run(*command, env=None):
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_extra_does_what_it_is_for_at_its_lowest_versions(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(USES) == set(extras) - OF_DEVELOPERS - COMPILER
    needs = [*project["dependencies"], *(need for extra in USES for need in extras[extra])]
    lowest = sorted({need.replace(">=", "==") for need in needs})
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", tmp_path)
    run(*install, *lowest, *NO_LONGER_NEEDED)
    path = os.pathsep.join([str(tmp_path), str(ROOT / "blocks")])
    first = {**os.environ, "PYTHONPATH": path}
    run("-c", VERSIONS, *lowest, env=first)
    tests = sorted({f"tests/{test}" for uses in USES.values() for test in uses})
    quiet = ("-q", "-p", "no:cacheprovider", "-W", "default")
    said = run("-m", "pytest", *PLUGINS, *quiet, *tests, env=first).splitlines()[-1]
    assert " passed" in said
    assert "skipped" not in said
