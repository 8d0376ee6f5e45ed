"""What `make test` takes of laws that are tested in many or in long cases: representative ones.

The others are marked slow, and `make check` runs them. A case is a pattern of what stands in the
brackets of a test's name; no case means that the whole test is slow.
"""

from fnmatch import fnmatchcase

import pytest

ROBOTS = ["planar2", "satellite"]  # of random_models.MODELS: a fixed and a free base
KINDS = ["planar2", "servo", "sampled pd"]  # of fmu_blocks.BLOCKS: continuous, sampled, both
SCRIPTS = ["five_bar_robot_fmu", "planar2_sampled_pd_fmu"]  # a projected plant, a sampled block

ESSENTIAL = {
    "block/test_dense_output.py": {
        "test_error_of_the_events_time_falls_at_the_order_of_the_method": ["rk4", "rodas3"],
    },
    "library/test_contact_plant.py": {
        "test_floating_base_and_joint_of_six_freedoms_fall_alike": [],
    },
    "library/test_elements.py": {
        "test_power_of_elements_is_the_rate_of_the_energy": ["tree", "closed loop"],
        "test_springs_keep_the_energy_to_the_order_of_the_integrator": ["floating", "contact"],
    },
    "library/test_ground_contact.py": {
        "test_wiring_is_stable_below_the_limit_and_unstable_above": ["0.3", "1.5"],
    },
    "library/test_closed_loop_plant.py": {
        "test_log_tells_the_singular_configurations_of_a_run": ["compiled"],
        "test_every_solver_gives_the_same_motion": ["kkt"],
    },
    "library/test_blocks.py": {
        "test_compiled_steps_equal_numpy_steps": ["0.004"],
    },
    "simulation/test_imported_fmu.py": {
        "test_a_run_of_fmus_is_the_run_of_the_blocks": ["python-jacobi", "native-gauss-seidel"],
    },
    "simulation/test_event_rollback.py": {
        "test_event_is_where_the_closed_form_has_it_and_what_follows_too": [
            "gauss-seidel-numpy",
            "gauss-seidel-native",
            "jacobi-compiled",
            "jacobi-python",
        ],
    },
    "fmi/test_source_fmu.py": {
        "test_the_unpacked_sources_are_strict_c99_without_a_warning": [
            "gcc-2-None",
            "clang-3-None",
        ],
        "test_a_source_fmu_validates_and_has_no_binary": KINDS,
    },
    "test_examples.py": {
        "test_example_runs_alone": ["02_*", "03_*", "05_*", "13_*"],
    },
    "block/test_projection.py": {
        "test_compiled_plant_equals_numpy": ["satellite"],
    },
    "kernels/test_derivatives.py": {
        "test_derivatives_equal_differences": ["planar2", "mixed"],
        "test_derivatives_equal_those_of_the_traced_algorithm": ["1"],
        "test_derivatives_of_forward_and_inverse_dynamics_cancel": ["0"],
    },
    "kernels/test_large_models.py": {
        "test_loops_equal_straight_lines": ["rnea"],
        "test_forward_dynamics_of_a_thousand_bodies_solves_the_equation_of_motion": ["2.0"],
        "test_loops_compute_the_algorithm_for_all_joints": ["0-rnea", "1-aba"],
    },
    "kernels/test_operation_counts.py": {
        "test_general_revolute_chain_takes_no_more_operations_than_in_the_book": ["2", "7"],
    },
    "kernels/test_recursive_derivatives.py": {
        "test_they_are_those_of_the_other_algorithm": ["one freedom"],
    },
    "kernels/test_traced_algorithms.py": {
        "test_traced_algorithm_equals_numpy": ["satellite"],
    },
    "contact/test_contact_robustness.py": {
        "test_contacts_that_rebound_in_random_scenes_give_no_kinetic_energy": ["brick"],
        "test_random_scenes_that_undo_penetration_stay_finite": ["balls"],
        "test_random_scenes_stay_finite_and_never_gain_energy": ["1000-arm"],
    },
    "fmi/test_co_simulation.py": {
        "test_validates_without_a_message": KINDS,
        "test_equals_the_block_in_numpy_under_random_inputs_and_parameters": KINDS,
    },
    "fmi/test_documentation.py": {
        "test_the_page_tells_the_equations_and_every_port": KINDS,
        "test_the_fmu_reproduces_its_reference_run": KINDS,
    },
    "fmi/test_fmi3.py": {
        "test_each_port_is_one_variable_of_its_shape_with_its_start_and_unit": KINDS,
        "test_the_sources_are_strict_c99_without_a_warning": ["gcc-planar2"],
    },
    "fmi/test_fuzz.py": {
        "test_random_calls_find_nothing_and_one_that_is_refused_changes_nothing": [
            "continuous and sampled",
            "projected-3",
        ],
    },
    "fmi/test_input_derivatives.py": {
        "test_inputs_are_followed_at_the_stages_of_the_integrator": ["rk4"],
    },
    "fmi/test_library_fmus.py": {
        "test_all_forms_of_a_script_are_the_same": [*SCRIPTS, "planar2_wall_fmu"],
    },
    "fmi/test_model_exchange.py": {
        "test_directional_and_adjoint_derivatives_equal_finite_differences": [
            "planar2",
            "limited pd",
        ],
        "test_fixed_steps_of_a_host_equal_the_block_in_numpy": KINDS,
    },
    "fmi/test_native_build.py": {
        "test_the_sources_are_strict_c99_without_a_warning": ["gcc-servo", "ziglang-planar2"],
    },
    "fmi/test_native_fmu.py": {
        "test_every_integrator_equals_its_numpy_form": ["rk4", "rodas3"],
    },
    "fmi/test_python_fmu.py": {
        "test_value_references_are_the_indices_of_the_memory": SCRIPTS,
        "test_two_builds_are_the_same_bytes": SCRIPTS,
        "test_a_saved_state_continues_exactly": SCRIPTS,
        "test_a_state_saved_before_the_start_starts_again": SCRIPTS,
        "test_a_reset_fmu_starts_again": SCRIPTS,
        "test_three_instances_of_one_fmu_do_not_know_each_other": SCRIPTS,
        "test_without_its_kernel_an_fmu_does_the_same_in_numpy_and_says_so": SCRIPTS,
        "test_all_fmus_run_together_in_one_process": [],
        "test_an_fmu_is_its_block_in_numpy": [*SCRIPTS, "gripper_contact_fmu"],
        "test_at_run_time_there_is_need_of_numpy_and_rigidblocks_alone": SCRIPTS,
        "test_every_fmu_passes_the_validator_with_no_message": SCRIPTS,
    },
    "simulation/test_contact_events.py": {
        "test_error_of_the_events_falls_at_the_order_of_the_method": ["rk4"],
        "test_soft_contact_becomes_rigid_contact_as_its_stiffness_grows": [],
        "test_more_events_in_a_step_than_allowed_are_refused_and_not_endless": [],
        "test_tumbling_brick_never_gains_energy_and_never_penetrates": ["0.0-0.6"],
    },
    "simulation/test_simulate.py": {
        "test_all_forms_give_the_same_run": ["gravity1-gauss-seidel"],
        "test_the_deviation_from_the_ideal_law_falls_with_the_hold": [],
    },
    "simulation/test_stiff_forms.py": {
        "test_native_fmu_takes_the_steps_of_the_memory": ["2-rodas3", "3-ros2"],
        "test_part_of_a_fused_system_steps_as_it_does_alone": ["ros2"],
        "test_sources_are_strict_c99_without_a_warning": ["Tangle-3"],
    },
    "tracing/test_compile.py": {
        "test_compiled_dynamics_equal_numpy": ROBOTS,
    },
    "tracing/test_trace.py": {
        "test_traced_dynamics_equal_numpy": ROBOTS,
    },
}


def function_and_case(item: pytest.Item) -> tuple[str, str]:
    """The name of a test's function, and what stands in brackets behind it."""
    function, _, case = item.name.partition("[")
    return function, case.removesuffix("]")


def is_case(case: str, pattern: str) -> bool:
    """Whether a pattern is that of a case, whose other parameters may stand around it."""
    return fnmatchcase(f"-{case}-", f"*-{pattern}-*")


def mark_slow(item: pytest.Item, file: str) -> None:
    """Marks a case slow that is none of the representative ones."""
    function, case = function_and_case(item)
    patterns = ESSENTIAL.get(file, {}).get(function)
    if patterns is not None and not any(is_case(case, pattern) for pattern in patterns):
        item.add_marker(pytest.mark.slow)


def without_a_test(items: list[tuple[str, pytest.Item]]) -> list[str]:
    """The entries for which there is no test among those of their file, (file, test)."""
    found = {}
    for file, item in items:
        function, case = function_and_case(item)
        found.setdefault(file, {}).setdefault(function, []).append(case)
    return [
        f"{file}::{function}[{pattern}]"
        for file in ESSENTIAL.keys() & found.keys()
        for function, patterns in ESSENTIAL[file].items()
        for pattern in patterns or ["*"]
        if not any(is_case(case, pattern) for case in found[file].get(function, ()))
    ]
