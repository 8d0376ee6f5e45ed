"""Calls that new users guess: each call works, or its error suggests the correct call."""

import re
from importlib import import_module

import numpy as np
import pytest

import rigidblocks
import rigidblocks.library
from rigidblocks.common import name_hints
from rigidblocks.library.plant_from_file import described_plant
from rigidblocks.robot_description.load import puma560
from rigidblocks.studies import requirements

MEASURE = {"end": "last pd.tau[1]"}

# call, and the text that its error must contain; None if the call works
GUESSES = {
    # runs
    "simulate(system, t_end=0.01, dt=1e-3)": "did you mean t_stop?",
    "simulate(system, tstop=0.01, dt=1e-3)": "did you mean t_stop?",
    "simulate(system, duration=0.01, step_size=1e-3)": "did you mean t_stop?",
    "simulate(system, 0.01, step_size=1e-3)": "did you mean dt or h?",
    "simulate(system, 0.01, 1e-3, solver='rk4')": "did you mean method?",
    "simulate(system, 0.01, 1e-3, reltol=1e-6)": "did you mean rtol?",
    "simulate(system, 0.01, 1e-3, outputs=['pd.tau'])": "did you mean record?",
    "simulate(system, 0.01, 1e-3, filename='run.csv')": "did you mean save?",
    "simulate(system, 0.01, 1e-3, realtime=1.0)": "did you mean real_time?",
    "simulate(system, 0.01, 1e-3, x0={})": "prepare(system, dt).simulate(t_stop, start={...})",
    "prepare(system, step_size=1e-3)": "did you mean dt or h?",
    "prepare(system, 1e-3, t_stop=1.0)": "prepare(system, dt).simulate(t_stop, ...) has t_stop",
    "prepare(system, 1e-3, scenario='run.csv')": "has t_stop, start, scenario",
    "prepare(system, 1e-3, real_time=1.0)": "simulate(system, t_stop, dt, ...) has real_time",
    "prepare(system, 1e-3).simulate(t_end=1.0)": "did you mean t_stop?",
    "prepare(system, 1e-3).run(1.0)": "write run.simulate(t_stop)",
    "prepare(system, 1e-3).set('pd.kp', 1)": "write run['part.port'] = value",
    "prepare(system, 1e-3).load('state.npz')": "write run.restore(state)",
    "prepare(system, 1e-3).do_step()": "write run.step(n)",
    # systems
    "System().add('c', Constant(1.0), dt=1e-3)": None,
    "System().add('c', Constant(1.0), q0=1)": "did you mean start?",
    "System().add('c', Constant(1.0), initial_values={})": "did you mean start?",
    "System().add('c', Constant(1.0), solver='rk4')": "did you mean method?",
    "system.connect('robt.q', 'pd.q')": "did you mean robot?",
    "system.connect('robot.q', 'pd.q', gain=2)": "insert a Gain block",
    "system.simulate(1.0)": "write simulate(system, t_stop, dt)",
    "system.run(1.0)": "write simulate(system, t_stop, dt)",
    "system.add_block('c', Constant(1.0))": "write system.add(name, block)",
    "system.blocks": "write system.parts",
    "system.linearize()": "write linearize(system)",
    "system.export_fmu('a.fmu')": "write export_fmu(system)",
    "linearize(system, 'pd.q_d', 'robot.q')": "by name: at, t, inputs, outputs, cut",
    "System().add('c', Constant(1.0), 0.0, 1e-3)": "pass the others by name",
    # blocks
    "Step(y0=0.0, y1=1.0)": "available: time, before, after, unit (did you mean before?)",
    "Step(t=1.0)": "did you mean time?",
    "Step(initial=0.0)": "did you mean before?",
    "Step(final=1.0)": "did you mean after?",
    "Sine(freq=2.0)": "did you mean frequency?",
    "Sine(amp=2.0)": "did you mean amplitude?",
    "Ramp(slope=2.0)": "did you mean rate?",
    "Pulse(duty=0.5)": "did you mean width?",
    "Waypoints(times=[0, 1], points=[0, 1])": "did you mean t?",
    "Sine(1.0, unit=('rad', 'm'))": None,
    "PDController(Kp=1.0, Kd=1.0)": "did you mean kp?",
    "PID(Kp=1.0, Ki=1.0, Kd=0.1)": "did you mean kp?",
    "Gain(gain=2.0)": "did you mean k?",
    "Saturation(min=-1, max=1)": "did you mean lower?",
    "Saturation(low=-1, high=1)": "did you mean lower?",
    "UnitDelay(Ts=1e-3)": "did you mean sample_time?",
    "LowPass(cutoff=10.0)": "T = 1 / (2 pi f)",
    "TransferFunction([1], [1, 1])": None,
    "RobotPlant(robot=planar2())": "did you mean model?",
    "RobotPlant(planar2(), x0=[0, 0])": "did you mean q0?",
    # sweeps, requirements and results
    "sweep(system, grid({'pd.kp[1]': [1.0]}), t_end=1, dt=1e-3, measure=MEASURE)": "mean t_stop?",
    "sweep(system, grid({'pd.kp[1]': [1.0]}), 1, 1e-3, measures=MEASURE)": "mean measure?",
    "sweep(system, grid({'pd.kp[1]': [1.0]}), 1, 1e-3, MEASURE, n_jobs=2)": "mean threads?",
    "sweep(system, {'pd.kp[1]': [1.0, 2.0]}, 2e-3, 1e-3, MEASURE, progress=False)": None,
    "sweep(system, 'params.txt', 2e-3, 1e-3, MEASURE)": "must be a .csv file",
    "grid(kp=[1, 2])": "grid({'pd.kp[1]': [20.0, 40.0]})",
    "Always('a.b', low=1)": "did you mean lower?",
    "Always('a.b', at_least=1)": "did you mean lower?",
    "SettlingTime('a.b', 1, tolerance=0.1, at_most=1)": "did you mean within?",
    "result.t": "write result.time",
    "result.settling_time('robot.q[1]')": "the requirements Overshoot and SettlingTime",
    "system.connect('pd', 'robot.tau')": "write one of: pd.q, pd.q_ref, pd.qd, pd.qd_ref, pd.tau",
    "result.df": "write result.to_dataframe()",
    "result.to_csv('a.csv')": "write result.save('run.csv')",
    "result['robot.Q']": "did you mean robot.q?",
    # robots
    "load_model('a.urdf', fixed_base=True)": "did you mean floating?",
    "inverse_kinematics(planar2(), pose=None)": "did you mean targets?",
    "described_plant(puma560(), q0=np.zeros(6))": None,
    "described_plant('arm.urdf')": "write described_plant(load_model('arm.urdf'))",
    "forward_kinematics(puma560(), np.zeros(6))['link6']": None,
    "frame_jacobian(puma560(), np.zeros(6), 'link6')": None,
    "planar2().forward_kinematics([0.0, 0.0])": "write frame_pose(model, q, 'body')",
    "inverse_kinematics(planar2(), Target('hand', None))": "available: body1, body2",
    "puma560().frames['link6'].X": None,
    "puma560().nq": "write robot.model",
    "puma560().links": "write robot.frames",
    "planar2().mass_matrix([0.0, 0.0])": "write crba(model, q)",
    "RobotBuilder('arm').link('arm')": "write robot.add_body(name, parent, joint, at, inertia)",
    "RobotBuilder('arm').build()": "write robot.model()",
    "RobotBuilder('arm').add_body('arm', mass=2.0)": "write inertia=mcI(mass, com, moments)",
    "RobotPlant(planar2(), elements=[ForceElement('f', 'join1', Friction(0.1))])": (
        "(did you mean joint1?)"
    ),
    "inverse_kinematics(puma560(), Target('link6', position=[0.3, 0.3, 0.3]))": (
        "write goal=xlt(position), rotation=False"
    ),
    "inverse_kinematics(puma560(), Target('link6', [0.3, 0.3, 0.3]))": (
        "write Target(frame, xlt(position), rotation=False)"
    ),
    "inverse_kinematics(puma560(), {'link6': [0.3, 0.3, 0.3]})": "must be of the type Target",
    "rnea(puma560(), np.zeros(6), np.zeros(6), np.zeros(6))": "use its .model",
    "crba(puma560(), np.zeros(6))": "use its .model",
    "aba(puma560(), np.zeros(6), np.zeros(6), np.zeros(6))": "write robot.model",
    "energy(puma560(), np.zeros(6), np.zeros(6))": "use its .model",
    "puma560().mass": "write sum(I.m for I in robot.model.inertia)",
    "sum(I.m for I in puma560().model.inertia)": None,
    "puma560().body('link6')": "write robot.frames['name']",
    "System().add_robot('arm', 'arm.urdf')": "described_plant(load_model('robot.urdf'))",
    "simulate(RobotPlant(planar2()), 1.0, 1e-3)": "system.add('part', block)",
    # linear systems and names of the package
    "linearize(system, x0={})": "did you mean at?",
    "linearize(system, inputs='pd.q_ref')": None,
    "linearize(system).poles": None,
    "linearize(system).zeros": None,
    "linearize(system).bode()": "choose one input by name, such as u='pd.q_ref[1]'",
    "linearize(system).margin()": "write linear.margins()",
    "linearize(system, cut='pd.tau[1]').margins()": None,
    "rigidblocks.Gain": None,
    "rigidblocks.load_urdf": "write load_model('robot.urdf')",
    # guesses of users of Simulink, MuJoCo, Pinocchio, python-control, FMPy and gymnasium
    "simulate(system, 2e-3, 1e-3, verbose=True)": "did you mean progress?",
    "simulate(system, 2e-3, 1e-3, input=None)": "did you mean scenario or events?",
    "simulate(system, 2e-3, 1e-3, output_interval=1e-3)": "did you mean every?",
    "simulate(system, 2e-3, 1e-3, seed=1)": "Noise(sample_time, seed=...)",
    "simulate(system, 2e-3, 1e-3, fmi_type='CoSimulation')": "kind='co-simulation'",
    "rigidblocks.simulate_fmu('a.fmu')": "write system.add(name, 'file.fmu') and simulate",
    "rigidblocks.read_model_description('a.fmu')": "rigidblocks info file.fmu",
    "rigidblocks.MjModel": "write load_model('robot.urdf')",
    "rigidblocks.mj_step": "write simulate(system, t_stop, dt)",
    "rigidblocks.load_mjcf": "write load_model('robot.urdf'), also for MJCF and SDF",
    "rigidblocks.buildModelFromUrdf('a.urdf')": "write load_model('robot.urdf')",
    "rigidblocks.computeFrameJacobian": "write frame_jacobian(model, q, 'body')",
    "rigidblocks.forwardKinematics": "write forward_kinematics(model, q)",
    "rigidblocks.neutral": "write np.zeros(model.nq)",
    "rigidblocks.tf": "write TransferFunction(num, den)",
    "rigidblocks.ss": "write StateSpace(A, B, C, D)",
    "rigidblocks.feedback": "write system.connect(source, target)",
    "rigidblocks.ode45": "write simulate(system, t_stop, dt)",
    "rigidblocks.linmod": "write linearize(system)",
    "rigidblocks.Scope": "write result.plot('part.port')",
    "rigidblocks.Stateflow": "write StateMachine(states, transitions, sample_time)",
    "rigidblocks.SyncVectorEnv": "write vector_env(system, n, dt",
    "rigidblocks.plot": "write result.plot('part.port')",
    "rigidblocks.FMU": "write system.add(name, 'file.fmu')",
    "rigidblocks.PIDController": "write PID(kp, ki, kd)",
    "rigidblocks.library.SineWave": "write Sine(amplitude, frequency)",
    "rigidblocks.library.Fcn": "write python_block(",
    "rigidblocks.lqr": "write control.ss(*linearize(system))",
    "rigidblocks.fkine": "write forward_kinematics(model, q)",
    "rigidblocks.library.DCMotor": "from rigidblocks.dynamics.motors import DCMotor",
    "rigidblocks.Lidar": "write ProximitySensor(",
    "rigidblocks.load_result": "write Result.load('run.csv')",
    "Sine(1.0, like='robot.q')": "write system.add(name, block, like='arm.q')",
    "Integrator(initial_condition=1.0)": "did you mean y0?",
    "Noise(1e-3, std=1.0)": "did you mean deviation?",
    "Noise(1e-3, variance=1.0)": "square root of the variance",
    "Delay(length=3, sample_time=1e-3)": "did you mean n?",
    "TransportDelay(time_delay=0.1)": "did you mean delay?",
    "LookupTable(breakpoints=[0, 1], values=[0, 1])": "did you mean x?",
    "PID(1.0, Ti=1.0)": "ki = kp / Ti",
    "PID(1.0, 1.0, 0.1, N=100)": "Tf = kd / (kp N)",
    "PID(1.0, 1.0, 0.1, setpoint=1.0)": "connect the set point to the input 'ref'",
    "PID(1.0, output_limits=(-1, 1))": "write lower=..., upper=...",
    "RobotPlant(planar2(), gravity=None)": "dataclasses.replace(model, gravity=...)",
    "RobotPlant(planar2(), friction=0.1)": "write elements=(ForceElement(...),)",
    "StateMachine(states=(), transitions=(), sample_time=0.1)": "did you mean state_list?",
    "State('a', on_entry={'y': 1})": "did you mean entry?",
    "Transition('a', 'b', condition='u > 0')": "did you mean guard?",
    "system.reset()": "run.reset()",
    "system.remove('pd')": "parts cannot be removed",
    "system.set('pd.kp', 1)": "run['part.port'] = value",
    "system.get('pd')": "write system.parts['part'].component",
    "prepare(system, 1e-3).save_state()": "write run.save()",
    "result.get('robot.q')": "write result['part.port']",
    "result.to_numpy()": "write result.values",
    "result.final": "write result['part.port'][-1]",
    "planar2().rnea([0.0, 0.0])": "write rnea(model, q, qd, qdd)",
    "planar2().qpos": "the outputs q and qd of RobotPlant(model)",
    "planar2().getFrameId('tcp')": "functions take names",
    "linearize(system).bode_plot()": "write linear.bode()",
    "linearize(system).root_locus()": "write control.ss(*linear)",
    "linearize(system).damp()": "write linear.poles",
    "inverse_kinematics(planar2(), 'body2', q_init=[0, 0])": "did you mean q0?",
    "forward_kinematics(planar2(), [0, 0], frame='body2')": "forward_kinematics(robot, q)['body']",
    "frame_jacobian(planar2(), [0, 0], frame_name='body2')": "did you mean frame?",
    "grid({'pd.kp[1]': 1.0})": "a list of values for 'pd.kp[1]', such as [1.0]",
    "grid([1.0, 2.0])": "values by name, such as {'pd.kp[1]': [20.0, 40.0]}",
    "load_model('a.urdf', package_dirs='.')": "ROS_PACKAGE_PATH",
    "load_model('a.urdf', root_joint=1)": "write floating=True",
    "export_fmu(system, fmi_version='3.0')": "did you mean fmi?",
    "export_fmu(system, 'a.fmu', type='cs')": "did you mean target?",
    "export_fmu(system, 'a.fmu', platform='linux64')": "did you mean platforms?",
    "vector_env(system, num_envs=2)": "did you mean n?",
    "vector_env(system, observation_space=['robot.q'])": "did you mean observe?",
    "vector_env(system, max_episode_steps=5)": "did you mean max_steps?",
    "animate(result, fps=2)": "menu for the speed",
}


@pytest.fixture(scope="module")
def names():
    """Return the names that a user has after the star imports, with a system and its result."""
    found = {name: getattr(rigidblocks, name) for name in rigidblocks.__all__}
    for module in (rigidblocks.library, requirements):
        found |= {name: value for name, value in vars(module).items() if name[0] != "_"}
    system = rigidblocks.System()
    system.add("robot", rigidblocks.RobotPlant(rigidblocks.planar2()))
    system.add("pd", rigidblocks.PDController([60.0, 30.0], [8.0, 4.0]), start={"q_ref": 0.5})
    for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(source, target)
    result = rigidblocks.simulate(system, 2e-3, 1e-3)
    return found | globals() | {"system": system, "result": result}


def test_list_of_guessed_calls_has_at_least_100_entries():
    assert len(GUESSES) >= 100


@pytest.mark.parametrize("guess", GUESSES)
def test_guessed_call_works_or_its_error_suggests_the_correct_call(guess, names):
    expected = GUESSES[guess]
    if expected is None:
        eval(guess, names)
        return
    with pytest.raises((TypeError, AttributeError, KeyError, ValueError)) as caught:
        eval(guess, names)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "expected"),
    {
        "from rigidblocks import described_plant": "rigidblocks.library.plant_from_file import",
        "from rigidblocks import load_urdf": "'load_urdf' from 'rigidblocks'; write load_model(",
        "from rigidblocks import Gian, System": "'Gian' from 'rigidblocks' (did you mean Gain?)",
        "from rigidblocks.library import Gain, Gian": "(did you mean Gain?)",
        "from rigidblocks.library import SineWave": "write Sine(amplitude, frequency)",
        "from rigidblocks import tf as transfer": "write TransferFunction(num, den)",
    }.items(),
)
def test_import_error_for_an_unknown_name_suggests_the_correct_name(statement, expected):
    """Python itself replaces the message of an AttributeError in this statement."""
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert expected in str(caught.value)


def test_access_to_an_unknown_attribute_of_the_package_raises_attribute_error():
    for module in (rigidblocks, rigidblocks.library):
        assert not hasattr(module, "load_urdf")
        assert getattr(module, "Gian", None) is None


def test_calls_in_the_hints_for_names_of_other_packages_exist():
    """Each class or function with arguments in a hint is a public name of the package."""
    methods = {"add", "connect", "plot", "bode", "nyquist", "margins", "load", "ss", "zeros"}
    for hint in name_hints.EQUIVALENT_CALLS.values():
        for name in re.findall(r"(\w+)\(", hint):
            if name in methods:
                continue
            where = re.search(r"rigidblocks\.dynamics\.(\w+)", hint)
            module = f"rigidblocks.dynamics.{where[1]}" if where else "rigidblocks"
            assert hasattr(import_module(module), name), hint
    for hint in name_hints.EQUIVALENT_CALLS.values():
        for statement in re.findall(r"from rigidblocks\S* import [\w, ]+\w", hint):
            exec(statement, {})


def test_error_inside_a_function_is_not_reported_as_a_wrong_argument():
    with pytest.raises(TypeError, match="t_stop must be a number, not 'ten'"):
        rigidblocks.simulate(rigidblocks.System(), "ten", 1e-3)


def test_plant_starts_at_the_given_configuration_and_velocity():
    q0, qd0 = np.linspace(0.1, 0.6, 6), np.linspace(-1.0, 1.0, 6)
    states = {port.name: port.start for port in described_plant(puma560(), q0=q0, qd0=qd0).states}
    np.testing.assert_array_equal(states["q"], q0)
    np.testing.assert_array_equal(states["qd"], qd0)
    with pytest.raises(ValueError, match=re.escape("q0 of 'puma560' has shape (5,)")):
        described_plant(puma560(), q0=np.zeros(5))


def test_requirement_kinds_accept_underscores_and_spaces(tmp_path):
    path = tmp_path / "keep.yaml"
    for kind in ("settling_time", "settling time"):
        path.write_text(f"- {{kind: {kind}, signal: a.y, value: 1, within: 0.1, at_most: 2}}\n")
        assert requirements.load_requirements(path) == (
            requirements.SettlingTime("a.y", 1.0, 0.1, 2.0),
        )
    path.write_text("- {kind: settling, signal: a.y}\n")
    with pytest.raises(ValueError, match=r"did you mean settling_time\?"):
        requirements.load_requirements(path)
