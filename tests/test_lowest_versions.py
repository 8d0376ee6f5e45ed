"""Optional dependencies at their lowest allowed versions.

The tests of each extra run with these packages first on the import path.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.interop

# tests that use each extra
USES = {
    "mujoco": ["robot_description/test_mjcf.py::test_accelerations_of_mjcf_robots_match_mujoco"],
    "data": ["cosim/test_recording.py::test_saved_and_loaded_result_equals_the_result_in_memory"],
    "mdf": ["cosim/test_recording.py::test_saved_and_loaded_result_equals_the_result_in_memory"],
    "plot": [
        "test_charts.py::test_chart_limit_lines_are_dashed_and_each_line_has_a_legend_entry",
        "view/test_plots.py::test_tracking_figure_shows_the_measured_signal_and_the_tracking_error",
        "view/test_plots.py::test_step_figure_of_a_run_shows_sample_intervals_and_events",
    ],
    "view": [
        "view/test_meshes.py::test_drawn_mesh_has_the_pose_of_its_link",
        "view/test_video_export.py::test_gif_video_has_a_frame_for_each_time",
    ],
    "video": ["view/test_video_export.py::test_video_file_contains_the_drawn_frames_of_the_run"],
    "notebook": ["test_example_notebooks.py::test_notebook_displays_robots_results_and_systems"],
    "units": ["cosim/test_fmu_units.py::test_pint_converts_units_that_the_fmu_does_not_define"],
    "sparse": ["loops/test_maximal_loops.py"],
    "yaml": [
        "studies/test_requirements.py::test_valid_requirement_files_are_loaded_and_invalid_entries_are_rejected"
    ],
    "can": ["hil/test_can_links.py::test_signals_of_a_can_database_become_ports_in_si_units"],
    "helics": [
        "hil/test_federation.py::test_run_of_two_helics_federates_matches_the_jacobi_results_bit_for_bit"
    ],
    "dataset": [
        "studies/test_sweep.py::test_sweep_is_saved_as_an_xarray_dataset",
        "studies/test_sweep.py::test_random_sweep_designs_are_reproducible_and_cover_the_parameter_ranges",
    ],
    "stl": [
        "studies/test_requirements.py::test_values_of_temporal_logic_formulas_match_their_definition"
    ],
    "onnx": ["library/test_policies.py::test_jacobian_of_a_policy_equals_difference_quotients"],
    "cluster": [
        "studies/test_sweeps_elsewhere.py::test_sweep_on_a_cluster_matches_the_results_of_a_local_sweep"
    ],
}
OF_DEVELOPERS = {"test", "peers", "site", "interop", "autodiff"}
COMPILER = {"zig"}  # test_release.py tests this extra with the base package
NO_LONGER_NEEDED = ("crc32c", "diskcache")  # not dependencies of the newest zarr and cantools
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


def test_representative_tests_of_each_extra_pass_with_its_lowest_versions(tmp_path):
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
