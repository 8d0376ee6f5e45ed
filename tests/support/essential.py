"""Representative cases that `make test` runs of tests with many or long cases.

The other cases are marked slow, and `make check` runs them. A case is a pattern for the text in
brackets of a test's name. A test with only slow cases is marked in its own file.
"""

from fnmatch import fnmatchcase

import pytest

KINDS = ["planar2", "servo", "sampled pd"]  # of fmu_blocks.BLOCKS: continuous, sampled, both
LOOPS = ["planar loops", "spatial four-bar", "welded", "one helical", "one reversed universal"]
BLOCKS = ["plant", "cut loop plant", "contact plant", "sampled ground", "kinematics", "actuator"]
BLOCKS += ["trapezoid", "playback", "sampled pd", "encoder", "springs in a loop"]
SCRIPTS = ["planar2_robot_fmu", "planar2_sampled_pd_fmu"]  # a plant, a sampled block

ESSENTIAL = {
    "robot_description/test_mjcf.py": {
        "test_mjcf_equalities_of_fixed_tendons_constrain_the_accelerations": [
            "*tendon*",
            "a chain",
            "a quartic*",
        ],
        "test_step_response_of_each_actuator_kind_matches_mujoco": [
            "motor",
            "pid with limits",
            "dcmotor with inductance",
            "tendon",
        ],
        "test_unsupported_mjcf_actuators_are_reported_with_their_line_number": [
            "*muscle*",
            "*slewmax*",
        ],
    },
    "robot_description/test_mjcf_tendons.py": {
        "test_accelerations_forces_and_lengths_of_tendons_sites_and_slider_cranks_match_mujoco": [
            "pulleys",
            "site with a reference",
        ],
    },
    "studies/test_wrong_calls.py": {
        "test_wrong_call_raises_an_error_that_names_argument_and_remedy": [
            "ekf(gate=True)",
            "identify(model,q,qd,qdd,None)",
            "fit_of(data=None)",
            "casadi_function(model,None)",
            "adjoint_of(dt=None)",
        ],
    },
    "cosim/test_sampled_parts.py": {
        "test_all_forms_of_a_sampled_block_compute_equal_samples": ["delay"],
        "test_delay_in_a_system_is_a_multiple_of_its_sample_time": [
            "unit-fmi2 co-simulation",
            "unit-fmi3 model exchange",
        ],
    },
    "cosim/test_library_sharing.py": {
        "test_instances_that_share_a_library_match_instances_with_their_own_libraries": ["Sum-2"],
    },
    "cosim/test_recording.py": {
        "test_saved_and_loaded_result_equals_the_result_in_memory": ["numpy-*", "*-.csv"],
    },
    "cosim/test_python_parts.py": {
        "test_controller_as_python_function_matches_the_results_of_the_controller_block": [
            "compiled"
        ],
    },
    "cosim/test_prepared_runs.py": {
        "test_prepared_run_continues_from_a_saved_state_after_a_failed_step": ["compiled"],
        "test_prepared_run_restores_a_saved_state_any_number_of_times": ["compiled"],
    },
    "kernels/test_fixed_branch_functions.py": {
        "test_fixed_branch_functions_match_the_block_functions_at_the_current_state": [
            "contact plant",
            "bouncing ball",
            "actuator",
        ],
    },
    "loops/test_assembly.py": {
        "test_assembly_of_loops_converges_from_a_rough_initial_guess": [
            "0.1-planar loops",
            "1.0-planar loops",
        ],
    },
    "contact/test_soft_contact_motions.py": {
        "test_mass_sticks_below_the_friction_angle_and_slips_above": ["hold_mass"],
    },
    "block/test_integrate.py": {
        "test_integration_error_of_a_time_dependent_problem_decreases_at_the_declared_order": [
            "euler",
            "rk4",
            "rodas3",
            "dormand-prince",
        ],
        "test_integration_error_of_a_pendulum_decreases_at_the_declared_order": [
            "euler",
            "rk4",
            "rodas3",
            "dormand-prince",
        ],
    },
    "block/test_ports.py": {
        "test_fmu_defines_the_display_units_of_angles": ["fmi2"],
        "test_fmu_variable_attributes_match_the_ports": ["fmi2"],
    },
    "block/test_projection.py": {
        "test_zero_quaternion_state_is_rejected_at_initialization": ["numpy_stepper"],
        "test_states_are_projected_at_initialization_and_after_each_inner_step": ["numpy_stepper"],
    },
    "block/test_stiff_problems.py": {
        "test_errors_of_stiff_problems_are_below_ten_times_the_tolerance": [
            "van der Pol, 1e6-stiff-1e-06",
            "Robertson-adaptive or stiff-0.0001",
        ],
    },
    "contact/test_soft_contact.py": {
        "test_traced_and_numpy_contact_forces_agree_and_have_finite_derivatives": ["by depth"],
        "test_sampled_contact_law_never_adds_energy_in_random_motions": ["by depth-0.001"],
    },
    "dynamics/test_not_a_number.py": {
        "test_tree_algorithms_propagate_nan": ["branched"],
        "test_contact_algorithms_propagate_nan": [
            "impact by newton's law",
            "contact_residual",
            "complementarity",
            "frictional_complementarity",
            "contact_residual within pyramids",
        ],
        "test_compiled_algorithms_propagate_nan": ["rnea"],
    },
    "fmi/test_co_simulation.py": {
        "test_co_simulation_fmu_passes_the_validator_without_messages": ["fmi3-planar2"],
        "test_co_simulation_fmu_matches_its_block_for_random_inputs_and_parameters": [
            "fmi3-servo",
            "planar2",
        ],
    },
    "fmi/test_documentation.py": {
        "test_reference_run_has_10_to_100_steps": ["0.01"],
    },
    "fmi/test_events.py": {
        "test_directional_derivatives_use_the_active_branch_of_the_force_law": ["fmi3"],
    },
    "fmi/test_export.py": {
        "test_export_fmu_writes_valid_fmi_3_fmus": ["source"],
        "test_same_script_exports_an_fmu_for_every_target": ["python", "source"],
    },
    "fmi/test_fmi3.py": {
        "test_dependencies_of_array_elements_agree_with_the_model_structure": [
            "planar2",
            "servo",
        ],
    },
    "fmi/test_model_exchange.py": {
        "test_nonfinite_directional_derivatives_are_rejected_only_if_requested": ["fmi2"],
        "test_directional_and_adjoint_derivatives_equal_finite_differences": ["planar2"],
        "test_model_exchange_with_fixed_steps_matches_the_numpy_results_of_the_block": KINDS,
    },
    "fmi/test_packaging.py": {
        "test_model_description_contains_the_metadata_of_the_export": ["python-2"],
    },
    "fmi/test_python_fmu.py": {
        "test_value_references_of_a_python_fmu_are_memory_indices": SCRIPTS,
        "test_restoring_a_python_fmu_state_saved_before_initialization_restarts_the_run": SCRIPTS,
        "test_reset_python_fmu_repeats_its_run_bit_for_bit": SCRIPTS,
        "test_python_fmu_with_a_nonzero_start_time_matches_the_numpy_results_of_the_block": SCRIPTS,
    },
    "kernels/test_large_models.py": {
        "test_size_of_c_code_with_loops_over_bodies_does_not_depend_on_the_number_of_bodies": [
            "1.0-rnea-2500"
        ],
    },
    "kernels/test_operation_counts.py": {
        "test_operation_counts_of_a_revolute_chain_do_not_exceed_rbda_table_10_1": ["2", "7"],
        "test_operation_counts_of_chains_are_polynomials_in_the_number_of_bodies": ["rnea"],
    },
    "kernels/test_traced_algorithms.py": {
        "test_traced_dynamics_algorithms_match_the_results_of_numpy": [
            "body_jacobian-satellite",
            "by ltl-satellite",
        ],
    },
    "kernels/test_traced_evaluator.py": {
        "test_traced_and_numpy_evaluators_generate_the_same_c_code": [
            "planar2",
            "servo",
            "sequence",
            "sampled pd",
            "limited pd",
        ],
    },
    "library/test_blocks.py": {
        "test_block_function_results_have_the_declared_sizes": BLOCKS,
        "test_repeating_sequence_interpolates_its_table_periodically": ["ticks1-*", "ticks2-*"],
        "test_block_has_the_expected_direct_feedthrough": BLOCKS,
        "test_error_for_a_step_with_a_nonfinite_input_identifies_the_input": [
            "nan-*-numpy_stepper"
        ],
        "test_steps_of_library_blocks_in_c_match_the_results_of_numpy": [
            f"{block}-0.004" for block in BLOCKS
        ],
        "test_block_functions_are_pure_and_deterministic": BLOCKS,
    },
    "library/test_elements.py": {
        "test_power_of_force_elements_equals_the_time_derivative_of_the_energy": [
            "tree",
            "closed loop",
        ],
    },
    "loops/test_loop_constraints.py": {
        "test_constraint_jacobian_gives_the_relative_velocity_along_the_constraints": LOOPS,
        "test_states_of_the_loop_test_models_satisfy_their_constraints": LOOPS,
        "test_loop_velocity_error_is_the_time_derivative_of_the_constraint_error": LOOPS,
        "test_loop_acceleration_error_is_the_time_derivative_of_the_velocity_error": LOOPS,
        "test_loop_constraint_forces_do_no_work": LOOPS,
        "test_constraint_jacobian_is_zero_for_joints_outside_the_loop": LOOPS,
        "test_loop_joint_variables_reproduce_the_transform_between_the_two_joint_frames": LOOPS,
        "test_joint_forces_equivalent_to_loop_joint_forces_have_the_same_power": LOOPS,
        "test_traced_and_numpy_values_of_loop_constraints_agree": ["planar loops"],
    },
    "loops/test_maximal_loops.py": {
        "test_sparse_and_dense_maximal_coordinate_dynamics_agree": LOOPS,
        "test_maximal_coordinate_and_spanning_tree_accelerations_agree": LOOPS,
        "test_maximal_coordinate_matrix_has_blocks_only_for_connected_bodies_and_joints": LOOPS,
    },
    "loops/test_loop_linearization.py": {
        "test_loop_linearization_matches_finite_differences_of_the_reduced_dynamics": [
            "0-planar loops",
            "1-redundant constraints",
        ],
    },
    "loops/test_loop_solvers.py": {
        "test_accelerations_of_loop_solvers_match_the_null_space_solution_of_scipy": [
            "planar loops-*-0",
            "welded-*-0",
        ],
        "test_loop_solver_results_satisfy_the_equation_of_motion_and_the_constraints": [
            "planar loops-*-1",
            "spatial four-bar-*-1",
        ],
        "test_accelerations_of_loop_solvers_do_not_depend_on_the_use_of_sparsity": [
            "elimination",
            "kkt",
        ],
        "test_constrained_accelerations_satisfy_gauss_principle_of_least_constraint": [
            "planar loops",
            "welded",
            "spatial four-bar",
        ],
        "test_traced_and_numpy_results_of_loop_solvers_agree": [
            "planar loops-elimination",
            "planar loops-kkt",
        ],
        "test_svd_by_jacobi_rotations_matches_the_singular_values_and_vectors_of_numpy": ["3", "8"],
    },
    "robot/test_configuration.py": {
        "test_dynamics_of_a_model_with_aligned_axes_need_no_more_operations_than_with_z_axes": [
            "rnea"
        ],
    },
    "robot/test_contact_geometry.py": {
        "test_traced_and_numpy_values_of_gaps_agree_and_gap_derivatives_are_finite": [
            "box",
            "sphere",
            "plane",
        ],
    },
    "cosim/test_fmu_types.py": {
        "test_two_instances_of_one_fmu_are_independent": ["model exchange"],
    },
    "cosim/test_adaptive_runs.py": {
        "test_log_of_a_run_with_stiff_parts_lists_these_parts_and_a_remedy": ["numpy"],
    },
    "library/test_stiction.py": {
        "test_block_above_the_friction_angle_accelerates_by_the_net_force": ["stiff"],
        "test_pushed_block_stops_after_the_analytic_distance": ["stiff"],
        "test_motion_with_stiction_gains_no_energy_for_random_bristle_parameters": ["stiff"],
        "test_stiction_dissipates_energy_in_every_plant": ["tree", "floating"],
    },
    "cosim/test_contact_steps.py": {
        "test_collision_of_a_fast_ball_between_two_recorded_samples_is_detected": ["1.0"],
    },
    "cosim/test_foreign_fmus.py": {
        "test_fmu_without_outputs_is_initialized_stepped_and_terminated": ["False"],
    },
    "cosim/test_simulate.py": {
        "test_results_in_numpy_in_c_and_as_one_fused_block_agree": ["gravity1-gauss-seidel"],
    },
    "cosim/test_linearize.py": {
        "test_linearization_of_a_system_matches_central_differences": ["pendulum"],
    },
    "tracing/test_compile.py": {
        "test_dynamics_compiled_from_a_trace_match_the_results_of_numpy": ["planar2"],
    },
    "tracing/test_trace.py": {
        "test_evaluation_of_traced_dynamics_matches_the_results_of_numpy": ["planar2"],
    },
}


def function_and_case(item: pytest.Item) -> tuple[str, str]:
    """Return the name of a test's function and the text in brackets after it."""
    function, _, case = item.name.partition("[")
    return function, case.removesuffix("]")


def is_case(case: str, pattern: str) -> bool:
    """Return True if a pattern matches a case, possibly with other parameters around it."""
    return fnmatchcase(f"-{case}-", f"*-{pattern}-*")


def mark_slow(item: pytest.Item, file: str) -> None:
    """Mark a case as slow unless it is one of the representative ones."""
    function, case = function_and_case(item)
    patterns = ESSENTIAL.get(file, {}).get(function)
    if patterns is not None and not any(is_case(case, pattern) for pattern in patterns):
        item.add_marker(pytest.mark.slow)


def unused_entries(items: list[tuple[str, pytest.Item]]) -> list[str]:
    """Return the entries without a test in the collected files, as file::test[pattern]."""
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
