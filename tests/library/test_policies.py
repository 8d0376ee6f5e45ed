"""Policies of ONNX files compared with onnxruntime, in all forms of the block."""

from itertools import pairwise
from pathlib import Path

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import (
    FusedSystem,
    RobotPlant,
    System,
    export_fmu,
    linearize,
    load_policy,
    simulate,
    simulate_batch,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cli import main
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library.policies import Policy
from rigidblocks.robot.robots import cart_pole

onnx = pytest.importorskip("onnx", reason="onnx is not installed (`pip install onnx`)")
runtime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed (`pip install onnxruntime`)"
)
pytestmark = pytest.mark.interop

FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _fixed_random_numbers():
    """Draw the same random numbers in each test, in any order of the tests."""
    RNG.bit_generator.state = np.random.default_rng(7).bit_generator.state


OPSET = 20


def node(operator, inputs, outputs, **attributes):
    name = f"{operator}_of_{outputs[0]}"
    return onnx.helper.make_node(operator, inputs, outputs, name=name, **attributes)


def save(path, nodes, inputs, outputs, constants, opset=OPSET, kind=FLOAT):
    """Write an ONNX file; `inputs` and `outputs` map names to shapes."""
    graph = onnx.helper.make_graph(
        nodes,
        "network",
        [onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


def perceptron(path, sizes, activation="Elu", kind=np.float32, weights=np.float32):
    """Write a multilayer perceptron that maps obs to actions; `weights` is their precision."""
    nodes, constants, x = [], {}, "obs"
    for k, (n, m) in enumerate(pairwise(sizes)):
        constants[f"W{k}"] = (RNG.normal(size=(m, n)) / np.sqrt(n)).astype(weights).astype(kind)
        constants[f"b{k}"] = (0.1 * RNG.normal(size=m)).astype(kind)
        last = k == len(sizes) - 2
        y = "actions" if last else f"y{k}"
        nodes.append(node("Gemm", [x, f"W{k}", f"b{k}"], [y], transB=1))
        if not last:
            nodes.append(node(activation, [y], [f"a{k}"]))
        x = f"a{k}"
    shapes = {"obs": ["batch", sizes[0]]}, {"actions": ["batch", sizes[-1]]}
    return save(path, nodes, *shapes, constants, kind=FLOAT if kind is np.float32 else DOUBLE)


def recurrent(path, kind, *, explicit, steps=1, before_reset=0, n=8, direction="forward"):
    """Write a recurrent network that maps obs (1, 3 steps) to act (1, 2), with fixed weights.

    If `explicit` is True, the states are inputs and outputs of the network.
    """
    rng = np.random.default_rng(3)
    count = 2 if direction == "bidirectional" else 1
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    sizes = {"W": (gates * n, 3), "R": (gates * n, n), "B": (2 * gates * n,)}
    constants = {
        key: (0.4 * rng.normal(size=(count, *size))).astype(np.float32)
        for key, size in sizes.items()
    }
    constants |= {
        "out": rng.normal(size=(steps * count * n, 2)).astype(np.float32),
        "form": np.array([steps, 1, 3]),
        "row": np.array([1, steps * count * n]),
    }
    names = ["h", "c"][: 2 if kind == "LSTM" else 1]
    into = [f"{name}_in" for name in names] if explicit else []
    out = [f"{name}_out" for name in names] if explicit else []
    extra = {"linear_before_reset": before_reset} if kind == "GRU" else {}
    nodes = [
        node("Reshape", ["obs", "form"], ["sequence"]),
        node(kind, ["sequence", "W", "R", "B", "", *into], ["Y", *out], hidden_size=n,
             direction=direction, **extra),
        node("Reshape", ["Y", "row"], ["flat"]),
        node("MatMul", ["flat", "out"], ["act"]),
    ]  # fmt: skip
    state = [count, 1, n]
    return save(
        path,
        nodes,
        {"obs": [1, 3 * steps]} | dict.fromkeys(into, state),
        {"act": [1, 2]} | dict.fromkeys(out, state),
        constants,
    )


def outputs_of(policy, x):
    """Return the output of a policy without sample time for one input vector."""
    memory = Memory(policy)
    m = memory.start()
    m[memory.u] = np.ravel(x)
    return NumpyEvaluator(memory).output(m)


def expected(path, **inputs):
    session = runtime.InferenceSession(str(path))
    kinds = {one.name: one.type for one in session.get_inputs()}
    given = {
        name: np.asarray(x, np.float32 if kinds[name] == "tensor(float)" else float)
        for name, x in inputs.items()
    }
    return session.run(None, given)


def compiled_outputs(policy, x):
    """Return the outputs of the compiled block for one input vector."""
    system = System()
    system.add("policy", policy, start={policy.inputs[0].name: x})
    return {
        form: simulate(system, 0.01, 0.01, form=form)[f"policy.{policy.outputs[0].name}"][-1]
        for form in ("traced", "compiled")
    }


W = RNG.normal(size=(4, 4)).astype(np.float32)
V = RNG.normal(size=4).astype(np.float32)
POSITIVE = np.abs(V) + np.float32(0.5)
CASES = {  # nodes from x (1, 4) to y, and constants
    "abs": ([node("Abs", ["x"], ["y"])], {}),
    "arg max": ([node("ArgMax", ["x"], ["k"], axis=1), node("Cast", ["k"], ["y"], to=FLOAT)], {}),
    "batch normalization": (
        [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
        {"s": V, "b": V[::-1].copy(), "m": V, "v": POSITIVE},
    ),
    "cast to integer": (
        [node("Cast", ["x"], ["k"], to=7), node("Cast", ["k"], ["y"], to=FLOAT)],
        {},
    ),
    "ceil and floor": (
        [node("Ceil", ["x"], ["a"]), node("Floor", ["x"], ["b"]), node("Add", ["a", "b"], ["y"])],
        {},
    ),
    "celu": ([node("Celu", ["x"], ["y"], alpha=0.7)], {}),
    "clip": (
        [node("Clip", ["x", "low", "high"], ["y"])],
        {"low": np.float32(-0.5), "high": np.float32(0.7)},
    ),
    "concatenation": ([node("Concat", ["x", "x"], ["y"], axis=1)], {}),
    "division": ([node("Div", ["x", "v"], ["y"])], {"v": POSITIVE}),
    "elu": ([node("Elu", ["x"], ["y"], alpha=0.8)], {}),
    "erf": ([node("Erf", ["x"], ["y"])], {}),
    "expand": ([node("Expand", ["x", "shape"], ["y"])], {"shape": np.array([3, 4])}),
    "flatten": (
        [node("Reshape", ["x", "s"], ["a"]), node("Flatten", ["a"], ["y"])],
        {"s": np.array([1, 2, 2])},
    ),
    "gather": ([node("Gather", ["x", "k"], ["y"], axis=1)], {"k": np.array([3, 0])}),
    "gelu": ([node("Gelu", ["x"], ["y"])], {}),
    "gelu by tanh": ([node("Gelu", ["x"], ["y"], approximate="tanh")], {}),
    "gemm": ([node("Gemm", ["x", "W", "v"], ["y"], alpha=0.5, beta=2.0)], {"W": W, "v": V}),
    "hard sigmoid": ([node("HardSigmoid", ["x"], ["y"])], {}),
    "hard swish": ([node("HardSwish", ["x"], ["y"])], {}),
    "layer normalization": (
        [node("LayerNormalization", ["x", "v", "w"], ["y"])],
        {"v": V, "w": V[::-1].copy()},
    ),
    "leaky relu": ([node("LeakyRelu", ["x"], ["y"], alpha=0.2)], {}),
    "log softmax": ([node("LogSoftmax", ["x"], ["y"])], {}),
    "matrix from the left": (
        [node("Transpose", ["x"], ["a"]), node("MatMul", ["W", "a"], ["y"])],
        {"W": W},
    ),
    "maximum and minimum": (
        [node("Max", ["x", "v"], ["a"]), node("Min", ["a", "w"], ["y"])],
        {"v": V, "w": np.float32(0.5)},
    ),
    "mish": ([node("Mish", ["x"], ["y"])], {}),
    "negative square": (
        [node("Pow", ["x", "two"], ["a"]), node("Neg", ["a"], ["y"])],
        {"two": np.float32(2.0)},
    ),
    "pad": ([node("Pad", ["x", "p"], ["y"])], {"p": np.array([0, 1, 0, 2])}),
    "prelu": ([node("PRelu", ["x", "v"], ["y"])], {"v": V}),
    "product of two inputs": (
        [node("Transpose", ["x"], ["a"]), node("MatMul", ["x", "a"], ["y"])],
        {},
    ),
    "reduced mean": ([node("ReduceMean", ["x", "k"], ["y"], keepdims=1)], {"k": np.array([1])}),
    "reduced norm": ([node("ReduceL2", ["x"], ["y"], keepdims=1)], {}),
    "reduced maximum": ([node("ReduceMax", ["x", "k"], ["y"])], {"k": np.array([-1])}),
    "relu": ([node("Relu", ["x"], ["y"])], {}),
    "selu": ([node("Selu", ["x"], ["y"])], {}),
    "shape of a batch": (
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "first"], ["n"]),
            node("Concat", ["n", "rest"], ["form"], axis=0),
            node("Reshape", ["x", "form"], ["y"]),
        ],
        {"first": np.array([0]), "rest": np.array([2, 2])},
    ),
    "sigmoid": ([node("Sigmoid", ["x"], ["y"])], {}),
    "sign": ([node("Sign", ["x"], ["y"])], {}),
    "sine and cosine": (
        [node("Sin", ["x"], ["a"]), node("Cos", ["a"], ["y"])],
        {},
    ),
    "slice": (
        [node("Slice", ["x", "a", "b", "axes", "steps"], ["y"])],
        {"a": np.array([3]), "b": np.array([-9]), "axes": np.array([1]), "steps": np.array([-2])},
    ),
    "softmax": ([node("Softmax", ["x"], ["y"])], {}),
    "softplus": ([node("Softplus", ["x"], ["y"])], {}),
    "softsign": ([node("Softsign", ["x"], ["y"])], {}),
    "split": (
        [node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2), node("Sub", ["a", "b"], ["y"])],
        {},
    ),
    "squeeze": (
        [node("Unsqueeze", ["x", "k"], ["a"]), node("Squeeze", ["a", "k"], ["y"])],
        {"k": np.array([0])},
    ),
    "tanh": ([node("Tanh", ["x"], ["y"])], {}),
    "where": (
        [
            node("Greater", ["x", "v"], ["c"]),
            node("Less", ["x", "w"], ["d"]),
            node("And", ["c", "d"], ["e"]),
            node("Not", ["e"], ["f"]),
            node("Where", ["f", "x", "v"], ["y"]),
        ],
        {"v": V, "w": np.float32(0.6)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_onnx_operator_matches_onnxruntime(case, tmp_path):
    nodes, constants = CASES[case]
    path = tmp_path / "policy.onnx"
    save(path, nodes, {"x": [1, 4]}, {"y": [None] * 2}, constants)
    policy = load_policy(path)
    for scale in (0.0, 1.0, 1.0, 30.0):
        x = (scale * RNG.normal(size=(1, 4))).astype(np.float32)
        (y,) = expected(path, x=x)
        assert_allclose(outputs_of(policy, x), np.ravel(y), rtol=3e-6, atol=1e-6)
    traced = {tuple(values) for values in map(np.ravel, compiled_outputs(policy, x[0]).values())}
    for values in traced:
        assert_allclose(values, np.ravel(y), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("activation", ["Tanh", "Relu", "Sigmoid"])
def test_perceptron_matches_onnxruntime_for_ten_thousand_inputs(activation, tmp_path):
    """Double precision separates errors of the block from the rounding of floats."""
    path = perceptron(tmp_path / "policy.onnx", (12, 64, 64, 4), activation, float, float)
    policy = load_policy(path)
    X = RNG.normal(size=(10_000, 12)) * 3.0
    (Y,) = expected(path, obs=X)
    assert_allclose([outputs_of(policy, x) for x in X], Y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", [np.float32, float])
def test_large_perceptron_has_equal_outputs_in_all_forms(weights, tmp_path):
    """The C code stores weights that are floats as floats."""
    path = perceptron(
        tmp_path / "policy.onnx", (48, 256, 256, 256, 12), "Tanh", kind=float, weights=weights
    )
    policy = load_policy(path)
    x = RNG.normal(size=48)
    (y,) = expected(path, obs=x[None])
    assert_allclose(outputs_of(policy, x), y[0], rtol=1e-12, atol=1e-12)
    for values in compiled_outputs(policy, x).values():
        assert_allclose(values, y[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(
    ("kind", "before_reset"), [("LSTM", 0), ("GRU", 0), ("GRU", 1), ("RNN", 0)]
)
def test_state_of_a_recurrent_network_is_kept_between_samples(
    kind, before_reset, explicit, tmp_path
):
    """onnxruntime gets the last states as inputs."""
    path = recurrent(tmp_path / "a.onnx", kind, explicit=True, before_reset=before_reset)
    own = recurrent(tmp_path / "b.onnx", kind, explicit=explicit, before_reset=before_reset)
    policy = load_policy(own, sample_time=0.02, keep_state=not explicit)
    assert [port.name for port in policy.inputs] == ["obs"]
    obs = np.array([0.3, -0.2, 0.9], np.float32)
    state = [np.zeros((1, 1, 8))] * (2 if kind == "LSTM" else 1)
    rows = []
    for _ in range(6):
        y, *state = expected(
            path, obs=obs[None], **dict(zip(("h_in", "c_in"), state, strict=False))
        )
        rows.append(y[0])
    system = System()
    system.add("policy", policy, start={"obs": obs})
    for form in ("numpy", "traced", "compiled"):
        y = simulate(system, 0.1, 0.02, form=form)["policy.act"]
        assert_allclose(y, rows, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_operator_over_a_sequence_matches_onnxruntime(kind, direction, tmp_path):
    path = recurrent(tmp_path / "policy.onnx", kind, explicit=False, steps=4, direction=direction)
    policy = load_policy(path)
    x = np.random.default_rng(4).normal(size=(1, 12)).astype(np.float32)
    (y,) = expected(path, obs=x)
    assert_allclose(outputs_of(policy, x), y[0], rtol=0.0, atol=1e-6 * np.abs(y).max())


@pytest.mark.parametrize("target", ["native", "python"])
def test_recurrent_policy_as_fmu_has_the_outputs_of_the_block(target, tmp_path):
    path = recurrent(tmp_path / "policy.onnx", "LSTM", explicit=True)
    policy = load_policy(path, sample_time=0.02)
    obs = [0.3, -0.2, 0.9]
    system = System()
    system.add("policy", policy, start={"obs": obs})
    y = simulate(system, 0.2, 0.02)["policy.act"]
    fmu = export_fmu(policy, tmp_path / "policy.fmu", target=target)
    starts = {f"obs[{k + 1}]": value for k, value in enumerate(obs)}
    result = fmpy.simulate_fmu(
        str(fmu), stop_time=0.2, output_interval=0.02, start_values=starts, output=["act[1]"]
    )
    assert_allclose(result["act[1]"], y[:, 0], rtol=1e-12)


def test_jacobian_of_a_policy_equals_difference_quotients(tmp_path):
    path = perceptron(tmp_path / "policy.onnx", (20, 30, 17, 5), "Tanh", float, float)
    policy = load_policy(path)
    x = RNG.normal(size=20)
    D = linearize(policy, at={"obs": x}).D
    steps = 1e-6 * np.eye(20)
    quotients = [(outputs_of(policy, x + dx) - outputs_of(policy, x - dx)) / 2e-6 for dx in steps]
    assert_allclose(D, np.transpose(quotients), atol=1e-8)


def balancing_policy(path):
    """Write a bang-bang policy as in examples/30_cart_poles.py, with the force on [cart, pole]."""
    constants = {
        "weights": np.array([[0.2], [0.6], [4.0], [1.0]], np.float32),
        "half": np.array([0.0], np.float32),
        "push": np.array([[10.0, 0.0]], np.float32),
        "pull": np.array([[-10.0, 0.0]], np.float32),
    }
    nodes = [
        node("Concat", ["q", "qd"], ["both"], axis=0),
        node("Reshape", ["both", "pairs"], ["table"]),
        node("Transpose", ["table"], ["swapped"]),
        node("Reshape", ["swapped", "row"], ["seen"]),
        node("MatMul", ["seen", "weights"], ["score"]),
        node("Greater", ["score", "half"], ["right"]),
        node("Where", ["right", "push", "pull"], ["force"]),
        node("Squeeze", ["force", "axis"], ["tau"]),
    ]
    constants |= {"pairs": np.array([2, 2]), "row": np.array([1, 4]), "axis": np.array([0])}
    return save(path, nodes, {"q": [2], "qd": [2]}, {"tau": [2]}, constants)


def test_fmu_of_policy_and_plant_keeps_the_pole_upright(tmp_path):
    policy = load_policy(balancing_policy(tmp_path / "policy.onnx"), sample_time=0.02)
    system = System()
    system.add("robot", RobotPlant(cart_pole(), q0=[0.1, 0.05]))
    system.add("policy", policy)
    system.connect("robot.q", "policy.q")
    system.connect("robot.qd", "policy.qd")
    system.connect("policy.tau", "robot.tau")
    fmu = export_fmu(FusedSystem(system, 0.02), tmp_path / "cart_pole.fmu")
    result = fmpy.simulate_fmu(str(fmu), stop_time=10.0, output_interval=0.02)
    angle = result["robot.q[2]"]
    assert len(angle) == 501
    assert np.abs(angle).max() < np.deg2rad(12.0)
    assert np.abs(result["robot.q[1]"]).max() < 2.4


def test_fmu_command_exports_a_policy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    perceptron(Path("walk.onnx"), (6, 8, 2))
    assert main(["fmu", "walk.onnx", "--sample-time", "0.02"]) == 0
    description = fmpy.read_model_description("walk.fmu")
    assert description.coSimulation.modelIdentifier == "walk"
    assert main(["fmu", "walk.onnx", "--floating"]) == 2
    assert "walk.onnx is an ONNX file; leave out --floating" in capsys.readouterr().err
    Path("arm.urdf").write_text("<robot/>")
    assert main(["fmu", "arm.urdf", "--sample-time", "0.02"]) == 2
    assert "arm.urdf is not an ONNX file; leave out --sample-time" in capsys.readouterr().err


def test_error_for_an_unsupported_onnx_operator_identifies_its_node_and_suggests_a_remedy(tmp_path):
    constants = {"W": np.ones((1, 1, 2), np.float32)}
    path = tmp_path / "policy.onnx"
    save(path, [node("Conv", ["x", "W"], ["y"])], {"x": [1, 1, 4]}, {"y": [1, 1, 3]}, constants)
    with pytest.raises(
        ValueError, match="operator Conv of node 'Conv_of_y' is not supported; supp"
    ):
        load_policy(path)


OLDER_CASES = {  # opset, nodes from x (1, 4) to y, and constants
    "pad with a fill value": (10, [node("Pad", ["x"], ["y"], pads=[0, 1, 0, 1], value=3.0)], {}),
    "norm without axes": (18, [node("ReduceL2", ["x"], ["y"], noop_with_empty_axes=1)], {}),
    "integer quotient": (
        20,
        [
            node("Cast", ["x"], ["k"], to=7),
            node("Div", ["k", "two"], ["n"]),
            node("Cast", ["n"], ["y"], to=FLOAT),
        ],
        {"two": np.array(2)},
    ),
    "equal conditions": (
        20,
        [
            node("Greater", ["x", "v"], ["a"]),
            node("Less", ["x", "w"], ["b"]),
            node("Equal", ["a", "b"], ["c"]),
            node("Where", ["c", "x", "v"], ["y"]),
        ],
        {"v": V, "w": np.float32(0.6)},
    ),
    "dropout with a mask": (
        20,
        [node("Dropout", ["x"], ["a", "mask"]), node("Where", ["mask", "a", "v"], ["y"])],
        {"v": V},
    ),
}


@pytest.mark.parametrize("case", OLDER_CASES)
def test_onnx_operators_of_older_opsets_and_other_types_match_onnxruntime(case, tmp_path):
    opset, nodes, constants = OLDER_CASES[case]
    path = tmp_path / "policy.onnx"
    save(path, nodes, {"x": [1, 4]}, {"y": [None] * 2}, constants, opset)
    policy = load_policy(path)
    graph = TracedEvaluator(Memory(policy)).graph("output")
    for x in (np.float32([[-3.5, -1.2, 0.3, 3.0]]), np.float32([[5.0, 7.9, -7.9, 0.0]])):
        (y,) = expected(path, x=x)
        m = Memory(policy).start()
        m[Memory(policy).u] = np.ravel(x)
        assert_allclose(outputs_of(policy, x), np.ravel(y), rtol=3e-6, atol=1e-6)
        assert_allclose(np.ravel(graph.function(m).full()), np.ravel(y), rtol=3e-6, atol=1e-6)


def sequence(path, constants, extra):
    """Write an RNN over 3 steps whose sequence length or initial state is the input `extra`."""
    rng = np.random.default_rng(5)
    weights = {"W": rng.normal(size=(1, 2, 1)), "R": rng.normal(size=(1, 2, 2))}
    constants = {key: w.astype(np.float32) for key, w in weights.items()} | constants
    nodes = [
        node("Reshape", ["x", "form"], ["s"]),
        *extra,
        node("RNN", ["s", "W", "R", "", "n", "h0"], ["", "h"], hidden_size=2),
        node("Reshape", ["h", "row"], ["y"]),
    ]
    constants |= {"form": np.array([3, 1, 1]), "row": np.array([1, 2])}
    return save(path, nodes, {"x": [1, 3]}, {"y": [1, 2]}, constants)


def test_policy_with_a_sequence_length_below_the_number_of_steps_is_rejected(tmp_path):
    path, x = tmp_path / "policy.onnx", np.float32([[0.4, -0.7, 0.2]])
    h0 = np.zeros((1, 1, 2), np.float32)
    sequence(path, {"n": np.array([3], np.int32), "h0": h0}, [])
    assert_allclose(outputs_of(load_policy(path), x), np.ravel(expected(path, x=x)), rtol=1e-5)
    sequence(path, {"n": np.array([2], np.int32), "h0": h0}, [])
    with pytest.raises(ValueError, match="sequence_lens with lengths other than the number of st"):
        load_policy(path)


def test_policy_state_starts_at_the_initial_state_that_constant_operators_compute(tmp_path):
    """Exporters compute the initial state by ConstantOfShape and Expand."""
    extra = [
        node("ConstantOfShape", ["size"], ["h0"], value=onnx.numpy_helper.from_array(V[:1])),
    ]
    constants = {"n": np.array([3], np.int32), "size": np.array([1, 1, 2])}
    path = sequence(tmp_path / "policy.onnx", constants, extra)
    policy = load_policy(path, sample_time=0.1, keep_state=True)
    (state,) = policy.memory
    assert_allclose(state[0].start, np.full(2, V[0]))


def test_recurrent_operators_with_the_same_name_have_separate_states(tmp_path):
    weights = {"W": np.ones((1, 2, 2), np.float32), "R": np.ones((1, 2, 2), np.float32)}
    constants = weights | {"form": np.array([1, 1, 2])}
    nodes = [
        node("Reshape", ["x", "form"], ["s"]),
        onnx.helper.make_node("RNN", ["s", "W", "R"], ["", "h"], name="cell", hidden_size=2),
        onnx.helper.make_node("RNN", ["h", "W", "R"], ["", "y"], name="cell", hidden_size=2),
    ]
    path = save(tmp_path / "policy.onnx", nodes, {"x": [1, 2]}, {"y": [1, 1, 2]}, constants)
    policy = load_policy(path, sample_time=0.1, keep_state=True)
    assert len({state.port for state, _ in policy.memory}) == 2


def test_recurrent_policy_keeps_the_states_of_both_batch_rows(tmp_path):
    """With W = R = 1, the state is h' = tanh(u + h) in each row."""
    constants = dict.fromkeys("WR", np.ones((1, 1, 1), np.float32)) | {"s": np.array([1, 2, 1])}
    nodes = [node("Reshape", ["x", "s"], ["X"]), node("RNN", ["X", "W", "R"], ["", "y"])]
    nodes[1].attribute.append(onnx.helper.make_attribute("hidden_size", 1))
    path = save(tmp_path / "policy.onnx", nodes, {"x": [1, 2]}, {"y": [1, 2, 1]}, constants)
    policy = load_policy(path, sample_time=0.1, keep_state=True)
    ((_, following),) = policy.memory
    h, u = np.zeros(2), np.array([0.3, -0.5])
    for _ in range(3):
        values = policy.network.evaluate({"x": u[None], "RNN_of__h": np.reshape(h, (1, 2, 1))})
        assert_allclose(np.ravel(values[following.name]), np.tanh(u + h), rtol=1e-12)
        h = np.tanh(u + h)
    assert policy.memory[0][0].port_shape == following.port_shape == (2, 1)


def test_keep_state_option_without_a_recurrent_operator_is_rejected(tmp_path):
    path = perceptron(tmp_path / "policy.onnx", (2, 3, 1))
    with pytest.raises(ValueError, match="keep_state=True has no effect; the network has no"):
        load_policy(path, sample_time=0.1, keep_state=True)


@pytest.mark.parametrize(
    ("nodes", "opset", "message"),
    [
        ([node("Dropout", ["x", "r", "yes"], ["y"])], 20, "the network is in training mode"),
        ([node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)], 6, "attribute axis of opset 6"),
        (
            [node("Add", ["x", "z"], ["y"])],
            20,
            "Add of node 'Add_of_y': its input 'z' is not a network input",
        ),
        (
            [node("Neg", ["x"], ["z"])],
            20,
            "the output 'y' of the network is not an output of a supported",
        ),
    ],
)
def test_policy_network_with_unsupported_or_incomplete_nodes_is_rejected(
    nodes, opset, message, tmp_path
):
    constants = {"r": np.float32(0.5), "yes": np.array(True), "b": np.ones(4, np.float32)}
    path = tmp_path / "policy.onnx"
    save(path, nodes, {"x": [1, 4]}, {"y": [1, 4]}, constants, opset)
    with pytest.raises(ValueError, match=message):
        load_policy(path)


def test_boolean_inputs_of_a_policy_are_supported(tmp_path):
    nodes = [
        node("Not", ["x"], ["a"]),
        node("And", ["x", "c"], ["b"]),
        node("Or", ["a", "b"], ["y"]),
    ]
    constants = {"c": np.array([[True, True, False, False]])}
    path = tmp_path / "policy.onnx"
    save(path, nodes, {"x": [1, 4]}, {"y": [1, 4]}, constants, kind=onnx.TensorProto.BOOL)
    policy = load_policy(path)
    m = Memory(policy).start()
    m[Memory(policy).u] = x = [1.0, 0.0, 1.0, 0.0]
    y = TracedEvaluator(Memory(policy)).graph("output").function(m).full()
    assert_allclose(outputs_of(policy, x), [1.0, 1.0, 0.0, 1.0])
    assert_allclose(np.ravel(y), [1.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_nonfinite_weights_of_a_policy_are_rejected(value, tmp_path):
    path, weights = tmp_path / "policy.onnx", np.full((4, 4), value, np.float16)
    nodes = [node("MatMul", ["x", "W"], ["y"])]
    save(path, nodes, {"x": [1, 4]}, {"y": [1, 4]}, {"W": weights}, kind=onnx.TensorProto.FLOAT16)
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match="the constant 'W' of node 'MatMul_of_y' contains values"),
    ):
        load_policy(path)


def test_policy_input_without_a_shape_is_rejected(tmp_path):
    path = tmp_path / "policy.onnx"
    save(path, [node("Neg", ["x"], ["y"])], {"x": None}, {"y": None}, {})
    with pytest.raises(ValueError, match="the input 'x' has no shape"):
        load_policy(path)


def test_recurrent_policy_without_sample_time_is_rejected(tmp_path):
    path = recurrent(tmp_path / "policy.onnx", "GRU", explicit=True)
    with pytest.raises(ValueError, match="a recurrent policy needs a sample_time"):
        load_policy(path)


def test_unknown_state_of_a_policy_is_rejected(tmp_path):
    path = recurrent(tmp_path / "policy.onnx", "GRU", explicit=True)
    with pytest.raises(KeyError, match="the network has no input 'hidden'"):
        load_policy(path, sample_time=0.02, states={"hidden": "h_out"})
    with pytest.raises(ValueError, match=r"the state 'h_in' has the shape \(1, 1, 8\), but its"):
        load_policy(path, sample_time=0.02, states={"h_in": "act"})


def test_policy_file_that_is_not_onnx_is_rejected(tmp_path):
    (tmp_path / "policy.onnx").write_text("not a network")
    with pytest.raises(ValueError, match="is not a valid ONNX file"):
        load_policy(tmp_path / "policy.onnx")
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match="contains no network"):
        load_policy(tmp_path / "empty.onnx")
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path / "missing.onnx")


def test_onnx_names_that_are_not_identifiers_become_valid_port_names(tmp_path):
    nodes = [node("Tanh", ["input.1"], ["/out/Tanh"]), node("Neg", ["time"], ["2"])]
    path = tmp_path / "policy.onnx"
    save(path, nodes, {"input.1": [1, 2], "time": [1, 1]}, {"/out/Tanh": [1, 2], "2": [1, 1]}, {})
    policy = load_policy(path)
    assert isinstance(policy, Policy)
    assert [port.name for port in policy.inputs] == ["input_1", "time_"]
    assert [port.name for port in policy.outputs] == ["out_Tanh", "signal_2"]


def policy_and_robot(path, q0):
    system = System()
    system.add("robot", RobotPlant(cart_pole(), q0=q0))
    system.add("policy", load_policy(path, sample_time=0.02))
    system.connect("robot.q", "policy.obs")
    system.connect("policy.actions", "robot.tau")
    return system


def test_policy_outputs_in_simd_lanes_equal_the_outputs_of_single_runs(tmp_path):
    """The matrices of 20 x 20 elements are loops in the C code of the lanes."""
    path = perceptron(tmp_path / "policy.onnx", (2, 20, 20, 2), "Tanh")
    system = policy_and_robot(path, np.zeros(2))
    q0 = 0.1 * RNG.normal(size=(5, 2))
    batch = simulate_batch(system, 0.2, 0.02, start={"robot.q": q0}, record=["robot.q"], lanes=2)
    for k, start in enumerate(q0):
        single = simulate(policy_and_robot(path, start), 0.2, 0.02)
        assert_allclose(batch["robot.q"][k], single["robot.q"], rtol=1e-10, atol=1e-12)
