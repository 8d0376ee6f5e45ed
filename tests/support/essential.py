"""What `make test` takes of laws that are tested in many or in long cases: representative ones.

The others are marked slow, and `make check` runs them. A case is a pattern of what stands in the
brackets of a test's name. A test that is slow in every case says so in its own file.
"""

from fnmatch import fnmatchcase

import pytest

KINDS = ["planar2", "servo", "sampled pd"]  # of fmu_blocks.BLOCKS: continuous, sampled, both
LOOPS = ["planar loops", "spatial four-bar", "welded", "one helical", "one reversed universal"]
BLOCKS = ["plant", "cut loop plant", "contact plant", "sampled ground", "kinematics", "actuator"]
BLOCKS += ["trapezoid", "playback", "sampled pd", "encoder", "springs in a loop"]
SCRIPTS = ["planar2_robot_fmu", "planar2_sampled_pd_fmu"]  # a plant, a sampled block

ESSENTIAL = {
    "simulation/test_loop_in_c.py": {
        "test_ctrl_c_ends_the_loop_in_c": ["compiled"],
    },
    "system/test_python_parts.py": {
        "test_a_function_moves_the_arm_as_the_block_does": ["compiled"],
    },
    "simulation/test_prepared_runs.py": {
        "test_threads_do_not_disturb_each_other": ["compiled"],
        "test_steps_are_those_of_a_whole_run": ["fused"],
        "test_after_a_failure_a_run_goes_on_from_what_was_saved": ["compiled"],
        "test_a_saved_moment_is_gone_back_to_as_often_as_one_likes": ["compiled"],
        "test_other_start_values_are_those_of_a_system_made_with_them": ["compiled"],
    },
    "kernels/test_held_laws.py": {
        "test_on_the_sides_on_which_it_is_the_held_law_is_the_block_s_own": [
            "contact plant",
            "bouncing ball",
            "actuator",
        ],
    },
    "loops/test_assembly.py": {
        "test_loops_close_from_a_rough_guess": ["0.1-planar loops", "1.0-planar loops"],
    },
    "contact/test_soft_contact_motions.py": {
        "test_elastic_drop_keeps_its_energy_as_the_step_goes_to_zero": ["held-1"],
        "test_mass_sticks_below_the_friction_angle_and_slips_above": ["held"],
    },
    "library/test_loop_closure_blocks.py": {
        "test_springs_that_are_held_are_stable_up_to_the_limit": ["False-1.0", "True-2.0"],
    },
    "library/test_library_plants.py": {
        "test_without_gravity_momentum_and_energy_are_kept_and_the_centre_of_mass_moves_straight": [
            "one body"
        ],
    },
    "block/test_adaptive_steps.py": {
        "test_numpy_and_c_choose_the_same_steps_to_the_last_bit": [
            "5.0-adaptive-4",
            "300.0-stiff-4",
        ],
        "test_error_is_about_the_tolerance": ["1e-06-adaptive", "1e-06-stiff"],
        "test_numpy_and_c_agree_with_a_projection": ["adaptive-4"],
        "test_what_is_not_stiff_is_not_called_so": ["0.1"],
        "test_inner_steps_that_are_used_up_are_counted_and_never_not_finite": ["compiled_stepper"],
        "test_stiffness_is_found_and_the_method_changed_where_it_can_be": ["compiled_stepper"],
    },
    "block/test_dense_output.py": {
        "test_error_of_the_events_time_falls_at_the_order_of_the_method": ["rk4"],
    },
    "block/test_flat.py": {
        "test_compiled_stages_are_at_the_times_of_numpys": ["rk4", "rodas3"],
    },
    "block/test_integrate.py": {
        "test_error_falls_at_the_declared_order_when_the_rate_depends_on_time": [
            "euler",
            "rk4",
            "rodas3",
            "dormand-prince",
        ],
        "test_error_falls_at_the_declared_order_on_a_pendulum": [
            "euler",
            "rk4",
            "rodas3",
            "dormand-prince",
        ],
    },
    "block/test_ports.py": {
        "test_the_units_to_read_angles_in_are_defined": ["fmi2"],
        "test_an_fmu_says_what_its_ports_say": ["fmi2"],
    },
    "block/test_projection.py": {
        "test_zero_quaternion_that_is_set_later_is_named_at_the_start": ["numpy_stepper"],
        "test_states_are_where_they_belong_after_the_start_and_after_each_step": ["numpy_stepper"],
    },
    "block/test_stiff.py": {
        "test_robot_under_stiff_control_creeps_to_its_place_at_long_steps": ["rodas3"],
        "test_nothing_that_decays_grows_at_any_step": ["ros2"],
        "test_stiff_plant_comes_to_rest_at_steps_far_beyond_the_explicit_limit": ["rodas3"],
    },
    "block/test_stiff_set.py": {
        "test_stiff_problems_are_solved_to_the_tolerance": [
            "van der Pol, 1e6-stiff-1e-06",
            "Robertson-adaptive or stiff-0.0001",
        ],
    },
    "contact/test_soft_contact.py": {
        "test_traced_law_is_that_of_numpy_and_has_derivatives_everywhere": ["by depth"],
        "test_sampled_law_never_adds_energy_on_ten_thousand_random_motions": ["by depth-0.001"],
    },
    "dynamics/test_not_a_number.py": {
        "test_algorithms_of_trees_keep_nan": ["branched"],
        "test_algorithms_of_loops_keep_nan": ["planar loops"],
        "test_algorithms_of_contact_keep_nan": [
            "impact by newton's law",
            "contact_residual",
            "complementarity",
            "frictional_complementarity",
            "contact_residual within pyramids",
        ],
        "test_compiled_algorithms_keep_nan": ["rnea"],
    },
    "fmi/test_adaptive_fmus.py": {
        "test_a_saved_state_and_a_reset_go_on_with_the_same_steps": ["FMU3Slave"],
    },
    "fmi/test_co_simulation.py": {
        "test_validates_without_a_message": ["fmi3-planar2"],
        "test_equals_the_block_in_numpy_under_random_inputs_and_parameters": [
            "fmi3-servo",
            "planar2",
        ],
    },
    "fmi/test_documentation.py": {
        "test_the_page_tells_the_equations_and_every_port": ["servo"],
        "test_a_reference_run_is_of_bounded_length": ["0.01"],
    },
    "fmi/test_export.py": {
        "test_fmi_3_goes_through_the_same_door": ["source"],
        "test_one_script_serves_every_target": ["python", "source"],
    },
    "fmi/test_fmi3.py": {
        "test_each_port_is_one_variable_of_its_shape_with_its_start_and_unit": KINDS,
        "test_the_dependencies_of_elements_are_those_of_their_variables_in_the_description": [
            "planar2",
            "servo",
        ],
    },
    "fmi/test_model_exchange.py": {
        "test_only_a_derivative_that_is_asked_for_has_to_be_finite": ["fmi2"],
        "test_directional_and_adjoint_derivatives_equal_finite_differences": ["planar2"],
        "test_fixed_steps_of_a_host_equal_the_block_in_numpy": KINDS,
    },
    "fmi/test_native_build.py": {
        "test_the_sources_are_strict_c99_without_a_warning": ["gcc-servo"],
    },
    "fmi/test_native_fmu.py": {
        "test_every_integrator_equals_its_numpy_form": ["rk4"],
    },
    "fmi/test_packaging.py": {
        "test_metadata_are_in_the_model_description": ["python-2"],
        "test_a_script_imports_modules_beside_it_and_each_script_its_own": ["python"],
    },
    "fmi/test_python_fmu.py": {
        "test_value_references_are_the_indices_of_the_memory": SCRIPTS,
        "test_two_builds_are_the_same_bytes": SCRIPTS,
        "test_a_saved_state_continues_exactly": SCRIPTS,
        "test_a_state_saved_before_the_start_starts_again": SCRIPTS,
        "test_a_reset_fmu_starts_again": SCRIPTS,
        "test_three_instances_of_one_fmu_do_not_know_each_other": SCRIPTS,
        "test_without_its_kernel_an_fmu_does_the_same_in_numpy_and_says_so": SCRIPTS,
        "test_an_fmu_is_its_block_in_numpy": SCRIPTS,
        "test_at_run_time_there_is_need_of_numpy_and_rigidblocks_alone": [
            "kernel-planar2_sampled_pd_fmu"
        ],
        "test_every_fmu_passes_the_validator_with_no_message": SCRIPTS,
    },
    "fmi/test_source_fmu.py": {
        "test_the_unpacked_sources_are_strict_c99_without_a_warning": ["gcc-2-None"],
        "test_a_source_fmu_validates_and_has_no_binary": ["servo", "sampled pd"],
    },
    "kernels/test_contact_sweeps.py": {
        "test_compiled_sweeps_are_the_same": ["5-2-True", "3-0-False"],
        "test_sweeps_converge_to_a_solution": ["True"],
    },
    "kernels/test_derivatives.py": {
        "test_derivatives_equal_differences": ["planar2"],
    },
    "kernels/test_large_models.py": {
        "test_code_does_not_grow_with_the_model": ["1.0-rnea-2500"],
    },
    "kernels/test_operation_counts.py": {
        "test_general_revolute_chain_takes_no_more_operations_than_in_the_book": ["2", "7"],
        "test_operations_grow_with_the_order_of_the_algorithm": ["rnea"],
    },
    "kernels/test_traced_algorithms.py": {
        "test_traced_algorithm_equals_numpy": ["body_jacobian-satellite", "by ltl-satellite"],
    },
    "kernels/test_traced_evaluator.py": {
        "test_what_is_made_of_the_graphs_is_that_of_the_functions_themselves": [
            "planar2",
            "servo",
            "sequence",
            "sampled pd",
            "limited pd",
        ],
    },
    "library/test_adaptive_energy.py": {
        "test_a_mechanism_goes_straight_on_through_a_pose_in_which_it_may_fold": ["1e-07"],
    },
    "library/test_blocks.py": {
        "test_sizes_are_as_declared": BLOCKS,
        "test_sequence_interpolates_its_table_over_and_over": ["ticks1-*", "ticks2-*"],
        "test_feedthrough_is_as_expected": BLOCKS,
        "test_compiled_steps_equal_numpy_steps_with_every_integrator": ["rk4", "rodas3"],
        "test_input_that_is_not_finite_is_named": ["nan-*-numpy_stepper"],
        "test_compiled_steps_equal_numpy_steps": [f"{block}-0.004" for block in BLOCKS],
        "test_functions_are_pure_and_repeatable": BLOCKS,
    },
    "library/test_contact_margins.py": {
        "test_bounces_keep_the_energy_at_every_stiffness": ["adaptive-1.0"],
        "test_ball_that_slips_comes_to_roll_with_five_sevenths_of_its_speed": ["adaptive-0.1"],
    },
    "library/test_elements.py": {
        "test_power_of_elements_is_the_rate_of_the_energy": ["tree", "closed loop"],
    },
    "library/test_ground_contact.py": {
        "test_ball_on_an_incline_rolls_below_its_critical_angle_and_slips_above": ["0.5-0.3"],
        "test_bounce_has_the_restitution_of_the_spring_damper_as_the_step_goes_to_zero": ["False"],
        "test_elastic_bounces_keep_their_energy_with_a_lead_and_gain_without": ["0.0008"],
    },
    "loops/test_loop_constraints.py": {
        "test_constraints_are_the_relative_velocity_in_the_joint": LOOPS,
        "test_loops_of_the_test_models_are_closed": LOOPS,
        "test_rate_of_the_position_error_is_the_velocity_error": LOOPS,
        "test_rate_of_the_velocity_error_is_that_of_the_acceleration": LOOPS,
        "test_joint_forces_of_constraints_do_no_work": LOOPS,
        "test_constraint_concerns_the_joints_on_one_side_of_its_loop_only": LOOPS,
        "test_motion_of_loop_joints_is_that_of_their_frames": LOOPS,
        "test_active_forces_are_worth_their_power_in_the_loop_joints": LOOPS,
        "test_traced_constraints_equal_numpy": ["planar loops"],
    },
    "loops/test_maximal_loops.py": {
        "test_sparse_solution_is_the_dense_one": LOOPS,
        "test_accelerations_are_those_of_the_spanning_tree_with_loops": LOOPS,
        "test_matrix_is_symmetric_and_has_blocks_where_bodies_meet_joints": LOOPS,
    },
    "loops/test_loop_linearization.py": {
        "test_linearisation_is_that_by_the_trace": ["0-planar loops", "0-redundant constraints"],
        "test_linearisation_is_that_by_differences_of_the_reduced_dynamics": [
            "0-planar loops",
            "1-redundant constraints",
        ],
    },
    "loops/test_loop_solvers.py": {
        "test_accelerations_are_those_of_the_null_space_of_scipy": [
            "planar loops-*-0",
            "welded-*-0",
        ],
        "test_solution_satisfies_the_equation_of_motion_and_the_constraints": [
            "planar loops-*-1",
            "spatial four-bar-*-1",
        ],
        "test_structure_of_the_tree_and_the_loops_may_be_left_out": ["elimination", "kkt"],
        "test_accelerations_are_the_nearest_to_those_of_the_free_tree": [
            "planar loops",
            "welded",
            "spatial four-bar",
        ],
        "test_traced_solver_equals_numpy": ["planar loops-elimination", "planar loops-kkt"],
        "test_rotations_find_the_singular_values": ["3", "8"],
    },
    "model/test_configuration.py": {
        "test_general_axes_cost_no_more_than_those_along_z_when_aligned": ["rnea"],
    },
    "model/test_joints_as_chains.py": {
        "test_joint_moves_as_its_chain_of_simple_joints": ["universal", "reversed universal"],
    },
    "model/test_contact_geometry.py": {
        "test_traced_gap_is_that_of_numpy_and_has_derivatives_everywhere": [
            "box",
            "sphere",
            "plane",
        ],
    },
    "model/test_mechanisms.py": {
        "test_energy_stays_while_they_move": ["slider_crank"],
    },
    "simulation/test_any_fmu.py": {
        "test_a_run_is_fmpys_simulation": ["BouncingBall-3-*", "Feedthrough-3-*", "Dahlquist-2-*"],
        "test_a_method_that_an_fmu_cannot_serve_is_refused": ["stiff"],
        "test_two_parts_of_one_file_are_independent": ["model exchange"],
        "test_results_of_every_type_are_saved_and_loaded": [".arrow"],
    },
    "simulation/test_adaptive_runs.py": {
        "test_log_tells_what_is_stiff_and_what_to_take": ["numpy"],
    },
    "simulation/test_contact_events.py": {
        "test_bounces_are_at_their_closed_form_times": ["rk4"],
    },
    "library/test_stiction.py": {
        "test_block_below_the_friction_angle_does_not_creep_in_a_thousand_seconds": ["stiff"],
        "test_block_above_the_friction_angle_slides_with_what_is_left": ["stiff"],
        "test_block_that_is_pushed_stops_after_its_closed_form_way": ["stiff"],
        "test_no_choice_of_bristles_explodes": ["stiff"],
        "test_every_plant_has_the_state_and_loses_what_slides": ["tree", "floating"],
    },
    "simulation/test_contact_steps.py": {
        "test_fast_ball_meets_a_thin_one_between_two_rows": ["1.0"],
    },
    "simulation/test_event_rollback.py": {
        "test_event_is_where_the_closed_form_has_it_and_what_follows_too": ["jacobi-python"],
    },
    "simulation/test_foreign_fmus.py": {
        "test_an_isolated_fmu_that_crashes_exits_or_hangs_ends_the_run_alone": ["abort*"],
        "test_a_part_without_outputs_is_initialized_stepped_and_terminated": ["False"],
    },
    "simulation/test_simulate.py": {
        "test_all_forms_give_the_same_run": ["gravity1-gauss-seidel"],
        "test_a_run_that_stops_being_finite_keeps_and_saves_its_result": ["compiled", "fused"],
    },
    "simulation/test_stiff_forms.py": {
        "test_part_of_a_fused_system_steps_as_it_does_alone": ["ros2"],
        "test_compiled_steps_are_those_of_numpy": ["rodas3"],
    },
    "system/test_linearize.py": {
        "test_linearization_equals_differences_of_the_blocks_own_functions": ["pendulum"],
    },
    "tracing/test_compile.py": {
        "test_compiled_dynamics_equal_numpy": ["planar2"],
    },
    "tracing/test_trace.py": {
        "test_traced_dynamics_equal_numpy": ["planar2"],
    },
    "test_examples.py": {
        "test_example_runs_alone": ["02_*", "03_*"],
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
        for pattern in patterns
        if not any(is_case(case, pattern) for case in found[file].get(function, ()))
    ]
