"""Wrong calls of estimators, identification, fits, gradients, functions and policies.

Each call raises an error that names the argument, the value and the allowed values.
"""

import numpy as np
import pytest

from rigidblocks import RobotPlant, System, planar2
from rigidblocks.dynamics import aba, regressor
from rigidblocks.kernels.framework_functions import (
    casadi_function,
    export_acados,
    jax_function,
    torch_function,
)
from rigidblocks.library import Sine
from rigidblocks.library.estimators import ExtendedKalmanFilter
from rigidblocks.library.particle_filter import ParticleFilter
from rigidblocks.library.policies import load_policy
from rigidblocks.library.unscented_filter import UnscentedKalmanFilter
from rigidblocks.robot.robots import four_bar
from rigidblocks.studies.adjoint import prepare_adjoint
from rigidblocks.studies.exciting_motion import exciting_motion
from rigidblocks.studies.fit import fit
from rigidblocks.studies.identification import base_parameters, identify

LIMITS = {"lower": -1.0, "upper": 1.0, "velocity": 2.0, "acceleration": 5.0}

# call, and the text that its error must contain
CALLS = {
    # estimators
    "ekf(plant=None)": "must be a block whose functions can be traced, not a NoneType",
    'ekf(plant="robot.urdf")': "must be a block whose functions can be traced, not a str",
    "ekf(plant=system)": "must be a block whose functions can be traced, not a System",
    'ekf(measured=["q","q"])': "measured of an estimator must contain each name once, not q, q",
    'ekf(measured="q[1]")': "unknown name 'q[1]' in measured of the estimator of RobotPlant",
    'ekf(measured="tau")': "unknown name 'tau' in measured of the estimator of RobotPlant",
    "ekf(measurement_noise=0.1)": "be a mapping from names to values, such as {'q': 1}, not 0.1",
    'ekf(measurement_noise={"q":[.1,.2,.3]})': "of 'q' has shape (3,); it needs shape (2,)",
    'ekf(measurement_noise={"q":.1,"qd":.1})': "of the estimator of RobotPlant",
    'ekf(measurement_noise={"q":np.nan})': "measurement_noise of 'q' must be positive, not nan",
    'ekf(measurement_noise={"q":-1})': "measurement_noise of 'q' must be positive, not -1",
    "ekf(process_noise=0.1)": "be a mapping from names to values, such as {'q': 1}, not 0.1",
    'ekf(process_noise={"qd":np.ones((2,2))})': "of 'qd' has shape (2, 2); it needs shape (2,)",
    'ekf(deviation={"q":np.inf})': "deviation of 'q' must be finite and not negative, not inf",
    'ekf(deviation={"tau":1.})': "name 'tau' in deviation of the estimator of RobotPlant",
    'ekf(parameters_to_estimate=["gravity","gravity"])': "each name once, not gravity, gravity",
    'ekf(parameters_to_estimate=["gravity"],process_noise={"gravity":-1})': "negative, not -1",
    'ekf(parameters_to_estimate="q")': "parameters_to_estimate of the estimator of RobotPlant",
    "ekf(gate=-3)": "the gate must be positive, not -3 standard deviations",
    "ekf(gate=np.nan)": "the gate must be positive, not nan standard deviations",
    "ekf(gate=True)": "the gate must be a number, not True",
    'ekf(delays={"q":-1})': "the delay of 'q' must be 0, 1, 2, ... samples, not -1",
    'ekf(delays={"q":3.5})': "the delay of 'q' must be 0, 1, 2, ... samples, not 3.5",
    "ekf(delays=3)": "must be a mapping from names to values, such as {'q': 1}, not 3",
    "ekf(sample_time=-1)": "sample_time of an estimator must be positive and finite, not -1.0 s",
    "ekf(sample_time=np.nan)": "of an estimator must be positive and finite, not nan s",
    "ekf(sample_time=np.inf)": "of an estimator must be positive and finite, not inf s",
    'ekf(sample_time="1 ms")': "sample_time of an estimator must be a number, not '1 ms'",
    'ekf(observed="q")': "ExtendedKalmanFilter() has no argument 'observed'",
    "ekf(R=np.eye(2))": "ExtendedKalmanFilter() has no argument 'R'",
    "ekf(Q=np.eye(4))": "ExtendedKalmanFilter() has no argument 'Q'",
    "ekf(P0=np.eye(4))": "ExtendedKalmanFilter() has no argument 'P0'",
    "ekf(ukf,alpha=-1)": "alpha of an unscented Kalman filter must be positive, not -1",
    "ekf(ukf,kappa=np.inf)": "kappa of an unscented Kalman filter must be finite, not inf",
    "ekf(ukf,particles=3)": "UnscentedKalmanFilter() has no argument 'particles'",
    "ekf(particle,particles=10**12)": "filter must be from 2 to 1048576, not 1000000000000",
    "ekf(particle,particles=-5)": "of a particle filter must be from 2 to 1048576, not -5",
    "ekf(particle,seed=1.5)": "the noise seed must be an integer from 0 to 2^52 - 1, not 1.5",
    "ekf(particle,seed=None)": "the noise seed must be an integer from 0 to 2^52 - 1, not None",
    # identification
    "identify(model,q,qd,qdd,tau[:5])": "(5, 2); expected (60, 2), one row for each sample",
    "identify(model,q.T,qd.T,qdd.T,tau.T)": "(2, 60); expected (2, 2), one row for each sample",
    "identify(model,q[0],qd[0],qdd[0],tau[0])": "(2,); expected (2, 2), one row for each sample",
    'identify(model,q,qd,qdd,"tau.csv")': "must be an array of real numbers, not 'tau.csv'",
    "identify(model,q,qd,qdd,tau*1j)": "the motion must be an array of real numbers, not array",
    "identify(model,q,qd,qdd,None)": "of the motion must be an array of real numbers, not None",
    "identify(model,q,qd,qdd)": "identify() missing 1 required positional argument: 'tau'",
    "identify(model,q,qd,qdd,tau,level=95)": "confidence level must be between 0 and 1, not 95",
    'identify(model,q,qd,qdd,tau,level="95%")': "confidence level must be a number, not '95%'",
    "identify(model,q,qd,qdd,tau,level=np.nan)": "level must be between 0 and 1, not nan",
    'identify(model,q,qd,qdd,tau,joint_terms="viscous,coulomb")': "joint term 'viscous,coulomb'",
    "identify(model,q,qd,qdd,tau,joint_terms=3)": "must be a name or a sequence of names, not 3",
    'identify(model,q,qd,qdd,tau,joint_terms=["viscous","viscous"])': "twice in joint_terms",
    "identify(plant,q,qd,qdd,tau)": "must be a Model, not a RobotPlant; use its .model",
    'identify("robot.urdf",q,qd,qdd,tau)': "not a str; use load_model('robot.urdf').model",
    "identify(model,q,qd,qdd,tau,base=3)": "base must be a result of base_parameters, not 3",
    "base_parameters(plant)": "identification must be a Model, not a RobotPlant; use its .model",
    "base_parameters(None)": "the model of an identification must be a Model, not a NoneType",
    'base_parameters(model,seed="a")': "the seed must be an integer from 0, not 'a'",
    "base_parameters(model,seed=-1)": "the seed must be an integer from 0, not -1",
    "base_parameters(model,joint_terms=[1])": "must be a name or a sequence of names, not [1]",
    # excitation trajectories
    'exciting_motion(model,"4 s",**LIMITS)': "the period must be a number, not '4 s'",
    "exciting_motion(model,np.nan,**LIMITS)": "the period must be positive, not nan s",
    "exciting_motion(model,4.,lower=-1.,upper=None)": "be an array of real numbers, not None",
    'exciting_motion(model,4.,lower="a",upper=1.)': "must be an array of real numbers, not 'a'",
    "exciting_motion(model,4.,lower=np.nan,upper=1.)": "upper; got [nan, nan] and [1.0, 1.0]",
    "exciting_motion(model,4.,**LIMITS,harmonics=2.5)": "be an integer, not 2.5 of type float",
    "exciting_motion(model,4.,**LIMITS,iterations=-1)": "iterations must be at least 1, not -1",
    "exciting_motion(model,4.,**LIMITS,iterations=1.5)": "be an integer, not 1.5 of type float",
    "exciting_motion(model,4.,**LIMITS,seed=-1)": "the seed must be an integer from 0, not -1",
    "exciting_motion(plant,4.,**LIMITS)": "must be a Model, not a RobotPlant; use its .model",
    # fits
    'fit_of(parameters=["robot.mass"])': "has no start value mass; it has: gravity, q, qd, tau",
    "fit_of(parameters=[])": "a fit needs the names of the parameters to estimate, not []",
    "fit_of(parameters=3)": "parameters of a fit must be a name or a sequence of names, not 3",
    "fit_of(parameters=None)": "of a fit must be a name or a sequence of names, not None",
    'fit_of(parameters={"robot.gravity":"a"})': "must be an array of real numbers, not 'a'",
    'fit_of(parameters={"robot.gravity":[1,2,3,4,5,6,7]})': "but robot.gravity has 3 elements",
    'fit_of(parameters="robot.gravity")': "of the parameters to estimate, not 'robot.gravity'",
    "fit_of(data=None)": "of columns by name or the path of a .csv file, not a NoneType",
    "fit_of(data=[1,2])": "a table of columns by name or the path of a .csv file, not a list",
    'fit_of(data={"time":data["time"]})': "least one column whose name is the name of an output",
    'fit_of(data={"time":data["time"],"robot.q":["a"]*11})': "'a', 'a', 'a', 'a', 'a', 'a']",
    'fit_of(data={"time":data["time"][::-1],"robot.q":data["robot.q"]})': "times of the data must",
    'fit_of(data={"time":data["time"],"robot.q":data["robot.q"][:5]})': "2); expected (11, 2)",
    'fit_of(data={"t":data["time"],"robot.q":data["robot.q"]})': "the data need a column 'time'",
    "fit_of(dt=0)": "the communication step dt of a fit must be positive, not 0 s",
    "fit_of(dt=-1)": "the communication step dt of a fit must be positive, not -1 s",
    'fit_of(dt="x")': "dt must be a number, not 'x'",
    'fit_of(level="a")': "the confidence level must be a number, not 'a'",
    "fit_of(level=95)": "the confidence level must be between 0 and 1, not 95",
    "fit_of(system=model)": "not a Model; write system = System(); system.add('part', block)",
    "fit_of(system=plant)": "a RobotPlant; write system = System(); system.add('part', block)",
    'fit_of(exact="yes")': "exact must be True, False or None, not 'yes'",
    # functions for CasADi and acados
    'casadi_function(model,"fk")': "unknown function 'fk' of model 'planar2'",
    "casadi_function(model,None)": "the function must be a name, such as 'aba', not None",
    "casadi_function(model,aba)": "the function must be a name, such as 'aba', not 'aba'",
    'casadi_function("robot.urdf","aba")': "not a str; use load_model('robot.urdf').model",
    'casadi_function(plant,"aba")': "unknown function 'aba' of block 'RobotPlant'",
    'casadi_function(plant,"update")': "has no sampled states, so it has no function 'update'",
    'casadi_function(model,"closed_loop_dynamics")': "has no loop joints; use 'aba' for a tree",
    'casadi_function(four_bar(),"closed_loop")': "not a Mechanism; pass its attribute `model`",
    'casadi_function(Sine(1.0),"derivative")': "states, so it has no function 'derivative'",
    'export_acados(model,tmp,name="a b")': "an acados model must be a C identifier, not 'a b'",
    "export_acados(model,tmp,name=3)": "name of an acados model must be a string or None, not 3",
    "export_acados(model,None)": "the folder of an acados model must be a path, not None",
    "export_acados(model,3)": "the folder of an acados model must be a path, not 3",
    "export_acados(system,tmp)": "System is ContinuousSystem(system) or FusedSystem(system, dt)",
    'export_acados(model,tmp/"file.txt")': "file.txt' of an acados model is a file",
    # gradients
    'adjoint_of(t_stop="a")': "t_stop must be a number, not 'a'",
    "adjoint_of(t_stop=.105)": "must consist of one or more communication steps of dt = 0.01 s",
    "adjoint_of(dt=0)": "0.1 s must consist of one or more communication steps of dt = 0 s",
    "adjoint_of(dt=None)": "dt must be a number, not None",
    "adjoint_of(parameters=None)": "parameters must be a name or a sequence of names, not None",
    "adjoint_of(parameters=3)": "parameters must be a name or a sequence of names, not 3",
    'adjoint_of(parameters=["robot.mass"])': "the system has no parameter 'robot.mass'",
    'adjoint_of(parameters=["robot.q","robot.q[1]"])': "the parameter robot.q[1] occurs twice",
    'adjoint_of(outputs=["robot.z"])': "the system has no output 'robot.z'",
    "adjoint_of(outputs=None)": "outputs must be a name or a sequence of names, not None",
    "adjoint_of(outputs=[])": "the adjoint method needs the name of at least one output",
    'adjoint_of(inputs=["robot.q"])': "the system has no input 'robot.q'",
    'prepare_adjoint(plant,.1,.01,parameters=["q"],outputs=["q"])': "system.add('part', block)",
    'prepare_adjoint(model,.1,.01,parameters=["q"],outputs=["q"])': "system.add('part', block)",
    'ekf(delays={"q": 10**9})': "the delay of 'q' must be at most 1000 samples, not 1000000000",
    # regressors
    "regressor(plant,q[0],qd[0],qdd[0])": "must be a Model, not a RobotPlant; use its .model",
    'regressor(model,"a",qd[0],qdd[0])': "'planar2' needs 2 elements, not 1; joint2 has q[1:2]",
    "regressor(model,q,qd,qdd)": "q of model 'planar2' needs 2 elements, not 60",
}
# calls that compile C code first
CALLS_AFTER_COMPILING = {
    "adjoint_run([1,2,3],np.zeros((10,2)))": "the parameters have the shape (3,); expected (2,)",
    "adjoint_run([1,2],np.zeros((3,2)))": "the inputs have the shape (3, 2); expected (10, 2)",
    'adjoint_run("a",np.zeros((10,2)))': "parameters must be an array of real numbers, not 'a'",
    "adjoint_run([1,np.nan],np.zeros((10,2)))": "must be finite, but element [1] is not",
    "fit_of(noise=0.1)": "the noise of a fit must be a mapping from names to values, not 0.1",
    'fit_of(noise={"robot.q": "a"})': "of 'robot.q' must be an array of real numbers, not 'a'",
    'fit_of(noise={"robot.q": [0.1, 0.2, 0.3]})': "of 'robot.q' has 3 elements; expected 1 or 2",
}


def ekf(kind=ExtendedKalmanFilter, **options):
    given = {"plant": RobotPlant(planar2()), "measured": "q", "sample_time": 1e-3}
    return kind(**{**given, "measurement_noise": {"q": 0.1}, **options})


def system_of_a_robot():
    system = System()
    system.add("robot", RobotPlant(planar2()), method="rk4", h=1e-2)
    return system


def fit_of(**options):
    data = {"time": 0.01 * np.arange(11), "robot.q": np.ones((11, 2))}
    given = {"system": system_of_a_robot(), "parameters": ["robot.gravity"], "data": data}
    return fit(**{**given, **options})


def adjoint_of(**options):
    given = {"t_stop": 0.1, "dt": 0.01, "parameters": ["robot.q"], "outputs": ["robot.q"]}
    return prepare_adjoint(system_of_a_robot(), **{**given, **options})


def names_of_calls(tmp_path):
    """Return the values of the names in `CALLS`."""
    (tmp_path / "file.txt").write_text("x")
    motion = np.random.default_rng(1).normal(size=(4, 60, 2))
    data = {"time": 0.01 * np.arange(11), "robot.q": np.ones((11, 2))}
    functions = (
        aba,
        adjoint_of,
        base_parameters,
        casadi_function,
        ekf,
        exciting_motion,
        export_acados,
        fit_of,
        four_bar,
        identify,
        prepare_adjoint,
        regressor,
        Sine,
    )
    return {function.__name__: function for function in functions} | {
        "np": np,
        "LIMITS": LIMITS,
        "model": planar2(),
        "plant": RobotPlant(planar2()),
        "system": system_of_a_robot(),
        "tmp": tmp_path,
        "data": data,
        "ukf": UnscentedKalmanFilter,
        "particle": ParticleFilter,
        **dict(zip(("q", "qd", "qdd", "tau"), motion, strict=True)),
    }


def check(call, text, names):
    with pytest.raises((TypeError, ValueError, KeyError, OSError)) as caught:
        eval(call, names)
    message = str(caught.value.args[-1])
    assert text in message
    assert "\n" not in message


@pytest.mark.parametrize("call", CALLS)
def test_wrong_call_raises_an_error_that_names_argument_and_remedy(call, tmp_path):
    check(call, CALLS[call], names_of_calls(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS_AFTER_COMPILING)
def test_wrong_values_after_compiling_raise_an_error_that_names_them(call, tmp_path):
    names = names_of_calls(tmp_path)
    if "adjoint_run" in call:
        names["adjoint_run"] = adjoint_of(inputs=["robot.tau"]).run
    check(call, CALLS_AFTER_COMPILING[call], names)


@pytest.mark.autodiff
@pytest.mark.parametrize(
    ("package", "make"), [("jax", jax_function), ("torch", torch_function)], ids=["jax", "torch"]
)
def test_wrong_arguments_of_functions_for_jax_and_torch_name_the_argument(package, make):
    pytest.importorskip(package)
    f, zero = make(planar2(), "aba"), np.zeros(2)
    for arguments, named, text in (
        (("a", zero, zero), {}, "the argument q of aba must be an array of real numbers, not 'a'"),
        ((zero, zero, None), {}, "the argument tau of aba must be an array of real numbers"),
        ((np.zeros((3, 2)), np.zeros((4, 2)), zero), {}, "differ: q (3,), qd (4,), tau ()"),
        ((zero,), {"qd": zero}, "aba needs the arguments tau"),
        ((zero, zero), {"q": zero}, "aba has two values for the argument q"),
        ((zero, zero), {"torque": zero}, "aba has no argument 'torque'; available: q, qd, tau"),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            f(*arguments, **named)
        assert text in str(caught.value)
    by_name = f(tau=zero, q=zero, qd=zero)
    assert np.array_equal(np.asarray(by_name), np.asarray(f(zero, zero, zero)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "constants", "text"),
    [
        ([("Gemm", ["x"], {})], {}, "Gemm of node 'Gemm_0' needs 2 or more inputs, not 1"),
        ([("Slice", ["x"], {})], {}, "Slice of node 'Slice_0' needs 3 or more inputs, not 1"),
        ([("Softmax", ["x"], {"axis": 7})], {}, "axis is out of range; its inputs have the shapes"),
        ([("MatMul", ["x", "w"], {})], {"w": (3, 4)}, "inputs have the shapes (1, 4), (3, 4)"),
        ([("Conv", ["x", "w"], {})], {"w": (4, 4)}, "operator Conv of node 'Conv_0' is not supp"),
        ([("MyOp", ["x"], {"domain": "com.me"})], {}, "operator com.me.MyOp of node 'MyOp_0' is"),
    ],
)
def test_wrong_operators_of_a_policy_are_named_with_their_shapes(nodes, constants, text, tmp_path):
    onnx = pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=r"policy\.onnx") as caught:
        load_policy(policy_file(onnx, tmp_path, nodes, constants, onnx.TensorProto.FLOAT))
    assert text in str(caught.value)


def policy_file(onnx, folder, nodes, constants, kind):
    """Write an ONNX file with the input x (1, 4) and the output y (1, 4)."""
    made = [onnx.helper.make_node(name, inputs, ["y"], **more) for name, inputs, more in nodes]
    ends = [onnx.helper.make_tensor_value_info(name, kind, [1, 4]) for name in "xy"]
    weights = [
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)
        for name, shape in constants.items()
    ]
    graph = onnx.helper.make_graph(made, "policy", ends[:1], ends[1:], weights)
    path = folder / "policy.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
    return path


def test_policy_with_inputs_of_strings_or_complex_numbers_is_rejected(tmp_path):
    onnx = pytest.importorskip("onnx")
    for kind in ("STRING", "COMPLEX64"):
        number = getattr(onnx.TensorProto, kind)
        path = policy_file(onnx, tmp_path, [("Neg", ["x"], {})], {}, number)
        with pytest.raises(ValueError, match=f"input 'x' has elements of the type {kind}; expect"):
            load_policy(path)


def test_wrong_argument_types_of_a_policy_are_named(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = policy_file(onnx, tmp_path, [("Neg", ["x"], {})], {}, onnx.TensorProto.FLOAT)
    for arguments, options, text in (
        ((3,), {}, "the path of a policy must be a path of an ONNX file, not 3"),
        ((path,), {"states": ["x"]}, r"states of a policy must map .*, not \['x'\]"),
        ((path,), {"sample_time": "a"}, "the sample_time must be a number or None, not 'a'"),
    ):
        with pytest.raises(TypeError, match=text):
            load_policy(*arguments, **options)
