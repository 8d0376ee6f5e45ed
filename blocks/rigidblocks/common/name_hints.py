"""Hints for unknown names in error messages: the known names and the most similar name."""

import abc
import difflib
import dis
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar, get_type_hints

P = ParamSpec("P")
T = TypeVar("T")

# each string is a group of names for one argument, also in other tools; groups may overlap
SYNONYMS = (
    "t_stop t_end t_final tend tf tmax end_time stop_time final_time duration until t_span tspan",
    "t_start t0 start_time begin_time",
    "dt step_size stepsize time_step timestep h step ts communication_step fixed_step delta_t",
    "sample_time ts dt period sampling_time sampling_period rate fs h",
    "method solver integrator algorithm",
    "h max_step step_size inner_step dt",
    "rtol reltol tolerance tol relative_tolerance",
    "atol abstol absolute_tolerance",
    "start initial x0 q0 init start_values initial_values initial_state values",
    "every decimation downsample stride output_interval",
    "record outputs signals log logged variables",
    "save path file filename output_file output out",
    "real_time realtime speed rtf",
    "before y0 initial initial_value start_value start",
    "after y1 final final_value end_value height amplitude level",
    "rate slope velocity speed",
    "width duty duration pulse_width on_time",
    "t times time timestamps",
    "y points values waypoints positions q data",
    "kind interpolation mode method interp",
    "time t step_time t0 start_time delay begin",
    "y0 start initial q0 x0 ic initial_condition initial_value from_value begin_value",
    "y1 goal target final q1 to_value end_value",
    "begin t0 start_time t_start start delay",
    "duration time period t_f length",
    "frequency freq f omega w hz",
    "amplitude amp magnitude a gain",
    "offset bias mean",
    "phase phi phase_shift",
    "K gain k factor value",
    "kp p gain_p proportional stiffness",
    "ki i gain_i integral",
    "kd d gain_d derivative damping",
    "value constant c k values y u",
    "lower low min minimum least lb lower_limit at_least q_min u_min y_min limits",
    "upper high max maximum most ub upper_limit at_most q_max u_max y_max limits",
    "cutoff fc f_c corner_frequency bandwidth frequency omega",
    "numerator num b zeros",
    "denominator den a poles",
    "model robot tree mechanism system",
    "scenario inputs input events schedule",
    "measure measures metrics metric outputs objective",
    "threads workers n_jobs jobs processes cores parallel",
    "design params parameters table grid runs samples",
    "targets target pose goal frame",
    "goal pose position target X transform",
    "rotation orientation position_only",
    "placement offset tool tcp",
    "steps max_iter maxiter iterations max_iterations n",
    "restarts n_restarts trials attempts",
    "tolerance tol eps atol",
    "seed random_state rng",
    "find unknowns parameters params",
    "unit units",
    "delay latency time time_delay",
    "n size width count dimension length num_envs n_envs",
    "friction mu mu_s coefficient",
    "body link parent",
    "within tolerance band tol",
    "at_most max limit less_than",
    "signal y output name",
    "path file filename name output",
    "name label id",
    "inputs input u",
    "outputs output y",
    "at x0 operating_point point op",
    "as_ name alias",
    "floating floating_base free_base fixed_base",
    "at position pose placement transform",
    "q0 q_init q_start initial_guess guess seed_state",
    "frame frame_name frame_id body link name",
    "deviation std sigma stddev standard_deviation",
    "x breakpoints points grid axis",
    "extrapolation method outside",
    "observe observation observations obs observation_space",
    "act action actions action_space",
    "reward reward_fn reward_function",
    "terminated done termination is_done",
    "max_steps max_episode_steps horizon time_limit episode_length",
    "fmi fmi_version version",
    "target fmi_type type kind",
    "platforms platform arch",
    "progress verbose show_progress",
    "form backend compiled",
    "elements friction damping springs forces",
    "qd v dq qdot velocity",
    "tau torque torques u",
    "outputs actions during do",
    "entry on_entry enter",
    "state_list states",
    "input_names inputs",
    "parameter_values parameters params",
    "variable_values variables memory",
    "guard condition when trigger",
    "source src from_ origin",
    "target dst to destination",
    "action actions effect",
)


# advice by function or class ("*" for all), and by unknown argument names ("" for all)
ADVICE = {
    "LowPass": {
        "cutoff fc f_c f frequency bandwidth": "for a cutoff frequency f, T = 1 / (2 pi f)"
    },
    "PID": {
        "Ti": "ki = kp / Ti",
        "Td": "kd = kp Td",
        "N": "for the filter factor N of the derivative, Tf = kd / (kp N)",
        "setpoint": "connect the set point to the input 'ref'",
        "output_limits limits": "write lower=..., upper=...",
    },
    "Noise": {"variance power": "deviation is the square root of the variance"},
    "RobotPlant": {
        "gravity": "write dataclasses.replace(model, gravity=...)",
        "friction damping": "write elements=(ForceElement(...),) with the law Friction(...)",
    },
    "load_model": {
        "package_dirs package_dir mesh_dir meshes": "set the environment variable ROS_PACKAGE_PATH",
        "root_joint": "write floating=True for a free base",
    },
    "forward_kinematics": {"frame body link": "write forward_kinematics(robot, q)['body']"},
    "Target": {"position xyz": "write goal=xlt(position), rotation=False"},
    "animate": {"speed fps": "the page has a menu for the speed"},
    "simulate": {
        "x0 q0 start initial start_values initial_values": "use system.add(..., start={...}), or "
        "prepare(system, dt).simulate(t_stop, start={...})",
        "seed": "Noise(sample_time, seed=...) has the seed",
        "fmi_type": "write system.add(name, 'file.fmu', kind='co-simulation')",
    },
    "prepare": {
        "t_stop t_end stop_time duration scenario save progress view start": "prepare(system, dt)"
        ".simulate(t_stop, ...) has t_stop, start, scenario, save, progress and view",
        "real_time overrun transparent": "simulate(system, t_stop, dt, ...) has real_time, overrun "
        "and transparent",
    },
    "grid": {"": "names have dots: grid({'pd.kp[1]': [20.0, 40.0]})"},
    "connect": {"gain k factor": "insert a Gain block"},
    "*": {"like": "write system.add(name, block, like='arm.q')"},
}


# equivalent calls of this package, by function names of other packages
EQUIVALENT_CALLS = {
    "run Simulator Simulation Master Orchestrator": "simulate(system, t_stop, dt)",
    "FMU FMUBlock load_fmu read_fmu FMUPart": "system.add(name, 'file.fmu')",
    "SSP load_ssp read_ssp": "load_system('system.ssp')",
    "export to_fmu build_fmu save_fmu": "export_fmu(block, 'file.fmu')",
    "load_result read_csv read_result": "Result.load('run.csv')",
    "UDP UDPLink UDPReceiver UDPSender": "from rigidblocks.hil.links import UdpLink",
    "CAN CANBus CANLink": "from rigidblocks.hil.can_link import CanLink",
    "RealTime real_time realtime HIL Runner": "build_runner(system, 'plant', dt=1e-3)",
    "Mesh": "from rigidblocks.contact import ConvexHull, TriangleMesh",
    "described_plant": "from rigidblocks.library.plant_from_file import described_plant",
    "Ground Terrain": "Plane(...) or HeightField(...) in a World, or GroundContact(...)",
    "Lidar RangeFinder": (
        "ProximitySensor(...); described_plant of rigidblocks.library.plant_from_file with "
        "sensors=True has the lidars of a robot file"
    ),
    "simulate_fmu": "system.add(name, 'file.fmu') and simulate(system, t_stop, dt)",
    "read_model_description": "`rigidblocks info file.fmu`, or system.add(name, 'file.fmu')",
    "MjModel mj_loadXML load_mjcf load_sdf load_xacro load_urdf from_urdf load_robot URDF Robot "
    "buildModelFromUrdf buildModelsFromUrdf "
    "buildModelFromMJCF RobotWrapper": "load_model('robot.urdf'), also for MJCF and SDF",
    "MjData mj_step mj_forward": "simulate(system, t_stop, dt) with a RobotPlant in the system",
    "neutral": "np.zeros(model.nq), or the start value of RobotPlant(model)",
    "jacobian jacobe jacob0 computeJointJacobians computeFrameJacobian getFrameJacobian mj_jac": (
        "frame_jacobian(model, q, 'body')"
    ),
    "fk fkine forwardKinematics framesForwardKinematics updateFramePlacements": (
        "forward_kinematics(model, q)"
    ),
    "ik ikine inverseKinematics": "inverse_kinematics(model, targets)",
    "coriolis nonlinearEffects nle": "rnea(model, q, qd, 0 * qd)",
    "gravity gravity_torque computeGeneralizedGravity": "rnea(model, q, 0 * q, 0 * q)",
    "com center_of_mass centerOfMass": "centre_of_mass(model, q)",
    "ForceTorqueSensor FTSensor": "JointWrenches(...)",
    "inverse_dynamics inverseDynamics RNEA": "rnea(model, q, qd, qdd)",
    "forward_dynamics forwardDynamics ABA": "aba(model, q, qd, tau)",
    "mass_matrix mj_fullM inertia CRBA": "crba(model, q)",
    "ode45 ode solve_ivp odeint sim lsim forced_response": "simulate(system, t_stop, dt)",
    "linmod linearise dlinmod trim": "linearize(system)",
    "bode nyquist margin pole zero damp": "linear = linearize(system), then linear.bode(), "
    "linear.nyquist(), linear.margins() or linear.poles",
    "lqr dlqr LQR place rlocus root_locus c2d": "control.ss(*linearize(system)), for the functions "
    "of python-control",
    "tf TransferFcn": "TransferFunction(num, den)",
    "ss": "StateSpace(A, B, C, D)",
    "feedback series parallel connect Bus Goto From": "system.connect(source, target) for each "
    "connection",
    "Scope ToWorkspace To_Workspace plot Display": "result.plot('part.port') after simulate(...)",
    "FromWorkspace From_Workspace FromFile From_File SignalEditor": "Playback(time, values)",
    "Fcn MATLABFunction MATLAB_Function Abs Sqrt Trigonometry MathFunction Interpreted": (
        "python_block(function, inputs=..., outputs=...)"
    ),
    "Not And Or Xor LogicalOperator": "Logic('and', n)",
    "RelationalOperator Greater Less": "Compare(threshold)",
    "Relay SchmittTrigger": "Hysteresis(lower, upper, sample_time)",
    "FirstOrder FirstOrderLag MovingAverage Filter": "LowPass(T)",
    "PIDController PIController DiscretePID": "PID(kp, ki, kd)",
    "SineWave SignalGenerator": "Sine(amplitude, frequency)",
    "PulseGenerator SquareWave": "Pulse(width, amplitude, period)",
    "WhiteNoise BandLimitedWhiteNoise RandomNumber": "Noise(sample_time, seed)",
    "DiscreteIntegrator DiscreteTimeIntegrator": "Integrator(sample_time=...)",
    "DiscreteTransferFunction DiscreteTransferFcn": "TransferFunction(num, den, sample_time=...)",
    "Lookup1D Lookup2D LookupTable1D LookupTable2D": "LookupTable(x, values)",
    "Subsystem": "FusedSystem(system, dt), a block of a System",
    "Quantizer Quantization": "Encoder(resolution, sample_time)",
    "Backlash": "Gearbox(ratio, backlash=...) of rigidblocks.dynamics.drives",
    "PMSM BLDC": "SynchronousMotor(...) of rigidblocks.dynamics.motors",
    "DCMotor Motor SynchronousMotor": "from rigidblocks.dynamics.motors import DCMotor, ...",
    "Drive Gearbox Actuator": "from rigidblocks.dynamics.drives import Drive, Gearbox, ...",
    "Hydraulic HydraulicActuator": "HydraulicCylinder(...) of rigidblocks.dynamics.hydraulics",
    "Stiction LuGre Drag Stop": (
        "from rigidblocks.dynamics.force_laws import Drag, LuGre, Stiction, Stop"
    ),
    "Damper": "Spring(K=0.0, D=...)",
    "CubicSpline JointTrajectory Trajectory Spline": "Waypoints(times, points, kind)",
    "MinimumJerk": "QuinticProfile(...)",
    "Ruckig OTG": "JerkLimitedProfile(...)",
    "ImpedanceController CartesianImpedance": (
        "TaskSpacePD(...), or OperationalSpaceController(...)"
    ),
    "ComputedTorque ComputedTorqueController": "InverseDynamicsController(...)",
    "KalmanFilter Kalman EKF UKF": "ExtendedKalmanFilter(...), or UnscentedKalmanFilter(...)",
    "Chart Stateflow FSM": "StateMachine(states, transitions, sample_time)",
    "make Env GymEnv make_env gym_env VecEnv SyncVectorEnv": (
        "vector_env(system, n, dt, observe=..., act=..., reward=...)"
    ),
}


def equivalent_call(name: str) -> str:
    """Return a hint such as "; write load_model(...)" for a function name of another package.

    The hint is "" if no equivalent call is known.
    """
    call = next((call for words, call in EQUIVALENT_CALLS.items() if name in words.split()), None)
    return "" if call is None else f"; write {call}"


def unknown_name_error(
    module: str, name: str, known: Iterable[str], caller: FrameType
) -> AttributeError | ImportError:
    """Return the error for an unknown name of a module, with a hint.

    The error is an ImportError if the frame `caller` executes `from module import name`, because
    this statement would replace the message of an AttributeError. Otherwise it is an
    AttributeError.
    """
    hint = equivalent_call(name) or close_match_hint(name, known)
    opcode = dis.opname[caller.f_code.co_code[caller.f_lasti]]
    if opcode == "IMPORT_FROM":
        return ImportError(f"cannot import name '{name}' from '{module}'{hint}", name=name)
    return AttributeError(f"module '{module}' has no attribute '{name}'{hint}", name=name)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message for an unknown name: the known names and a hint.

    Example: "available: q, qd (did you mean q?)".
    """
    known = tuple(known)
    return f"available: {', '.join(known) or 'none'}{close_match_hint(name, known)}"


def close_match_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint such as " (did you mean q?)", or "" if no known name is similar."""
    found = difflib.get_close_matches(str(name), tuple(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""


def meant_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known argument names that probably correspond to an unknown name.

    The function first searches for names that differ only in case and underscores, then for
    synonyms, and finally for the most similar name.
    """
    known = tuple(known)

    def plain(text: str) -> str:
        return text.replace("_", "").lower()

    if same := [one for one in known if plain(one) == plain(name)]:
        return same
    groups = [group.split() for group in SYNONYMS]
    words = [
        group for group in groups if plain(name) in map(plain, group) and set(group) & set(known)
    ]
    if found := dict.fromkeys(one for group in words for one in group if one in known):
        return list(found)
    return difflib.get_close_matches(name, known, 1)


def argument_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message for an unknown argument: known arguments and a hint."""
    known = tuple(known)
    found = meant_names(name, known)
    hint = f" (did you mean {' or '.join(found)}?)" if found else ""
    return f"available: {', '.join(known) or 'none'}{hint}"


def unknown_argument_message(
    name: str,
    function: Callable[..., Any],
    named: Iterable[str],
    options: type | None = None,
    number: int = 0,
) -> str | None:
    """Return the error message for an unknown or superfluous argument; None for a valid call.

    Args:
        name: Name of the function or class, for the message.
        function: The called function.
        named: Names of the keyword arguments of the call.
        options: Typed dictionary of the arguments that the function collects in `**options`.
        number: Number of the positional arguments of the call.
    """
    parameters = [
        one
        for key, one in inspect.signature(function).parameters.items()
        if key != "self" and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    known = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY]
    known += get_type_hints(options) if options is not None else ()
    unknown = next((one for one in named if one not in known), None)
    if unknown is None:
        return _positional_arguments_message(name, parameters, number)
    advice = (*ADVICE.get(name, {}).items(), *ADVICE["*"].items())
    text = next((text for words, text in advice if unknown in words.split() or not words), None)
    return f"{name}() has no argument '{unknown}'; {text or argument_hint(unknown, known)}"


def _positional_arguments_message(
    name: str, parameters: Iterable[inspect.Parameter], number: int
) -> str | None:
    """Return the error message for too many positional arguments; None for a valid call.

    The message lists the parameters that a call must name. `number` is the number of positional
    arguments.
    """
    positional = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    keyword = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    if number <= len(positional) or not keyword:
        return None
    return (
        f"{name}() takes at most {len(positional)} positional "
        f"argument{'s' * (len(positional) != 1)} ({', '.join(positional)}), not {number}; pass "
        f"the others by name: {', '.join(keyword)}"
    )


def explain_calls(options: type | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that adds a hint to the TypeError for an unknown argument.

    Args:
        options: Typed dictionary of the arguments that the function collects in `**options`.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*values: P.args, **named: P.kwargs) -> T:
            if options is not None and (
                message := unknown_argument_message(function.__name__, function, named, options)
            ):
                raise TypeError(message)
            try:
                return function(*values, **named)
            except TypeError as error:
                if not _is_from_call(error):
                    raise
                message = unknown_argument_message(
                    function.__name__, function, named, options, len(values)
                )
                if message is None:
                    raise
            raise TypeError(message)

        return call

    return decorate


def _is_from_call(error: TypeError) -> bool:
    """Return True if the argument list, not the code of the function, caused a TypeError."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


class HintedType(abc.ABCMeta):
    """Metaclass that adds a hint to the TypeError for an unknown constructor argument."""

    def __call__(cls, *values: Any, **named: Any) -> Any:
        try:
            return super().__call__(*values, **named)
        except TypeError as error:
            if not _is_from_call(error):
                raise
            message = unknown_argument_message(cls.__name__, cls.__init__, named)  # type: ignore[misc]
            if message is None:
                raise
        raise TypeError(message)

    @property
    def __signature__(cls) -> inspect.Signature:
        """Signature of the constructor; `inspect` would return the signature of `__call__`."""
        whole = inspect.signature(cls.__init__)  # type: ignore[misc]
        return whole.replace(parameters=list(whole.parameters.values())[1:])


class AttributeHints:
    """Base class that adds a hint to the AttributeError for an unknown attribute.

    A key of `CALLS` consists of one or more unknown attribute names, separated by spaces. The value
    is the call that the error message recommends for these names.
    """

    CALLS: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):  # Python protocols such as copy, and notebooks
                raise AttributeError(name)
            raise AttributeError(_attribute_message(self, name))


def _attribute_message(owner: AttributeHints, name: str) -> str:
    kind, calls = type(owner), owner.CALLS
    text = f"{kind.__name__} has no attribute '{name}'"
    if call := next((call for words, call in calls.items() if name in words.split()), None):
        return f"{text}; write {call}"
    names = {*dir(kind), *vars(owner)} - {"CALLS"}
    return f"{text}; {argument_hint(name, sorted(one for one in names if one[0] != '_'))}"
