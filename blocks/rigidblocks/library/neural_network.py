"""Neural networks as graphs of ONNX operators, evaluated with numbers or with traced values."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from rigidblocks.spatial.scalar import (
    clip,
    erf,
    is_traced,
    less,
    matrix_product,
    maximum,
    minimum,
    select,
)
from rigidblocks.spatial.spatial import Array

INTEGER = "integer result"  # attribute of Div, which is not an attribute of ONNX


@dataclass(frozen=True, eq=False)
class Node:
    """Call of an ONNX operator in a network.

    Args:
        operator: Name of the operator, such as Gemm.
        name: Name of the node.
        inputs: Names of the inputs; "" for an omitted input.
        outputs: Names of the outputs; "" for an unused output.
        attributes: Attributes by name.
    """

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Network:
    """Network of operators in the order of their evaluation.

    Args:
        nodes: Operator calls; each call comes after the calls whose outputs it uses.
        constants: Constant arrays by name, such as weights.
        opset: Version of the ONNX operators.
    """

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    opset: int

    def evaluate(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """Return the constants, inputs and results of all nodes by name.

        `inputs` contains the value of each network input by name.

        Raises:
            ValueError: A node cannot be evaluated. The message contains the operator and the name
                of the node.
        """
        values: dict[str, Any] = {**self.constants, **inputs}
        for node in self.nodes:
            if unknown := [name for name in node.inputs if name and name not in values]:
                raise ValueError(
                    f"operator {node.operator} of node '{node.name}': its input '{unknown[0]}' is "
                    "not a network input, a constant or a supported output of an earlier operator"
                )
            arguments = [values[name] if name else None for name in node.inputs]
            try:
                results = OPERATORS[node.operator](Call(node, arguments, self.opset))
            except (ValueError, IndexError, TypeError) as error:
                reason = str(error).strip()
                if reason == "tuple index out of range":
                    reason = "an axis is out of range"
                shapes = ", ".join(str(np.shape(values[name])) for name in node.inputs if name)
                raise ValueError(
                    f"operator {node.operator} of node '{node.name}': {reason}; its inputs have "
                    f"the shapes {shapes}"
                ) from error
            results = results if isinstance(results, tuple) else (results,)
            values |= zip(node.outputs, results, strict=False)
        return values


class Call:
    """Arguments and attributes of an operator.

    Args:
        node: Node.
        values: Values of the inputs of the node; None for an omitted input.
        opset: Version of the ONNX operators.
    """

    def __init__(self, node: Node, values: Sequence[Any], opset: int):
        self.node, self.values, self.opset = node, values, opset

    def __getitem__(self, index: int) -> Any:
        """Return the value of input number `index`, or None if this input is omitted."""
        return self.values[index] if index < len(self.values) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or the default value."""
        return self.node.attributes.get(name, default)

    def integers(self, index: int, name: str, default: Any = None) -> Any:
        """Return integers, such as axes, from an input or an attribute.

        In newer opsets, input number `index` contains the integers. In older opsets, the attribute
        `name` contains them.
        """
        value = self[index] if self[index] is not None else self.attribute(name)
        if value is None:
            return default
        return tuple(int(k) for k in np.ravel(constant(value, name)))


def constant(value: Any, name: str) -> Array:
    """Return `value` as an array if it does not depend on the inputs of the network.

    Raises:
        ValueError: The value depends on the inputs; the message contains `name`.
    """
    if is_traced(value):
        raise ValueError(f"{name} depends on the inputs of the network; it must be constant")
    return np.asarray(value)


def _each(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the elementwise NumPy function `name`, extended to arrays with traced values."""
    one = np.frompyfunc(lambda a: getattr(a, name)() if hasattr(a, name) else function(a), 1, 1)
    return lambda x: one(x) if is_traced(x) else function(x)


_exp, _log, _tanh, _sqrt, _sin, _cos = (
    _each(name, getattr(np, name)) for name in ("exp", "log", "tanh", "sqrt", "sin", "cos")
)


# --- activations ---


def _sigmoid(x: Any) -> Any:
    return 0.5 + 0.5 * _tanh(0.5 * x)  # has no overflow, unlike 1 / (1 + exp(-x))


def _softplus(x: Any) -> Any:
    return maximum(x, 0.0) + _log(1.0 + _exp(-abs(x)))


def _exponential_linear(x: Any, alpha: Any, gamma: float = 1.0, scale: float = 1.0) -> Any:
    """Return gamma x for x > 0 and alpha (exp(scale x) - 1) for other x."""
    negative = alpha * (_exp(scale * minimum(x, 0.0)) - 1.0)
    return select(less(0.0, x), gamma * x, negative)


def _gelu(call: Call) -> Any:
    x = call[0]
    if call.attribute("approximate", "none") == "tanh":
        return 0.5 * x * (1.0 + _tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def _leaky(x: Any, slope: Any) -> Any:
    return select(less(x, 0.0), slope * x, x)


def _hard_sigmoid(call: Call) -> Any:
    return clip(call.attribute("alpha", 0.2) * call[0] + call.attribute("beta", 0.5), 0.0, 1.0)


def _clip(call: Call) -> Any:
    low = call[1] if call[1] is not None else call.attribute("min")
    high = call[2] if call[2] is not None else call.attribute("max")
    x = call[0] if low is None else maximum(call[0], low)
    return x if high is None else minimum(x, high)


def _softmax(call: Call, logarithm: bool = False) -> Any:
    x, axis = call[0], call.attribute("axis", 1 if call.opset < 13 else -1)
    shape = np.shape(x)
    if call.opset < 13:  # all axes from `axis` form one
        x, axis = np.reshape(x, (math.prod(shape[:axis]), -1)), 1
    x = x - _reduce_axes(x, (axis,), maximum)
    e = _exp(x)
    total = _add_over(e, (axis,))
    return np.reshape(x - _log(total) if logarithm else e / total, shape)


# --- sums over axes ---


def _reduce_axes(x: Any, axes: Sequence[int], operation: Callable[[Any, Any], Any]) -> Any:
    """Reduce an array over the axes `axes` by a binary operation; reduced axes have length 1."""
    for axis in axes:
        parts = np.split(x, np.shape(x)[axis], axis)
        x = reduce(operation, parts)
    return x


def _add_over(x: Any, axes: Sequence[int]) -> Any:
    return np.sum(x, axis=tuple(axes), keepdims=True)


def _mean(x: Any, axes: Sequence[int]) -> Any:
    return _add_over(x, axes) / math.prod(np.shape(x)[axis] for axis in axes)


def _reduction(function: Callable[[Any, Sequence[int]], Any]) -> Callable[[Call], Any]:
    def operator(call: Call) -> Any:
        x = call[0]
        axes = call.integers(1, "axes")
        if not axes:
            if call.attribute("noop_with_empty_axes", 0):
                return function(x, ())
            axes = tuple(range(np.ndim(x)))
        result = function(x, axes)
        return result if call.attribute("keepdims", 1) else np.squeeze(result, axes)

    return operator


def _arg_max(call: Call) -> Any:
    """Return the index of the first largest element along an axis."""
    x, axis = call[0], call.attribute("axis", 0)
    if call.attribute("select_last_index", 0):
        raise ValueError("select_last_index=1 is not supported; export with 0")
    largest = np.take(x, [0], axis)
    index: Any = np.zeros(np.shape(largest))
    for k in range(1, np.shape(x)[axis]):
        other = np.take(x, [k], axis)
        index = select(less(largest, other), float(k), index)
        largest = maximum(largest, other)
    return index if call.attribute("keepdims", 1) else np.squeeze(index, axis)


# --- normalization ---


def _layer_normalization(call: Call) -> Any:
    x, scale, bias = call[0], call[1], call[2]
    axes = range(call.attribute("axis", -1) % np.ndim(x), np.ndim(x))
    centred = x - _mean(x, axes)
    y = centred / _sqrt(_mean(centred * centred, axes) + call.attribute("epsilon", 1e-5)) * scale
    return y if bias is None else y + bias


def _rms_normalization(call: Call) -> Any:
    x = call[0]
    axes = range(call.attribute("axis", -1) % np.ndim(x), np.ndim(x))
    return x / _sqrt(_mean(x * x, axes) + call.attribute("epsilon", 1e-5)) * call[1]


def _dropout(call: Call) -> Any:
    """Return the unchanged input and a mask of ones, because dropout applies only in training."""
    if call[2] is not None and np.any(constant(call[2], "training_mode")):
        raise ValueError("the network is in training mode; export it in evaluation mode")
    return call[0], np.ones(np.shape(call[0]), dtype=bool)


def _batch_normalization(call: Call) -> Any:
    if call.attribute("training_mode", 0):
        raise ValueError("the network is in training mode; export it in evaluation mode")
    x = call[0]
    shape = (1, -1, *(1,) * (np.ndim(x) - 2))
    scale, bias, mean, variance = (np.reshape(call[k], shape) for k in range(1, 5))
    return (x - mean) / np.sqrt(variance + call.attribute("epsilon", 1e-5)) * scale + bias


# --- products ---


def _product(a: Any, b: Any) -> Any:
    """Return the matrix product a b.

    If one factor is traced and the other factor is a large constant matrix, the generated C code
    computes the product in loops.
    """
    if is_traced(a) and not is_traced(b) and np.ndim(b) == 2:
        rows = [matrix_product(b.T, row) for row in np.reshape(a, (-1, np.shape(a)[-1]))]
        return np.reshape(np.array(rows, dtype=object), (*np.shape(a)[:-1], np.shape(b)[1]))
    if is_traced(b) and not is_traced(a) and np.ndim(a) == 2 and np.ndim(b) in (1, 2):
        return np.transpose(_product(np.transpose(b), a.T))
    return np.matmul(a, b)


def _gemm(call: Call) -> Any:
    a, b = (
        np.transpose(call[k]) if call.attribute(name, 0) else call[k]
        for k, name in enumerate(("transA", "transB"))
    )
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    y = _product(a, b)
    y = y if alpha == 1.0 else alpha * y
    if call[2] is None:
        return y
    return y + (call[2] if beta == 1.0 else beta * call[2])


def _divide(call: Call) -> Any:
    a, b = call[0], call[1]
    if not call.attribute(INTEGER, all(np.asarray(one).dtype.kind in "iu" for one in (a, b))):
        return a / b
    return _truncate(a / b) if is_traced(a, b) else np.trunc(np.divide(a, b)).astype(int)


def _truncate(x: Any) -> Any:
    """Return traced values rounded towards zero."""
    return select(less(x, 0.0), -np.floor(-x), np.floor(x))


# --- shapes ---


def _slice(call: Call) -> Any:
    x = call[0]
    starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
    axes = call.integers(3, "axes", tuple(range(len(starts))))
    steps = call.integers(4, "steps", (1,) * len(starts))
    places = [slice(None)] * np.ndim(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = np.shape(x)[axis]
        stop = None if step < 0 and end < -size else end
        places[axis] = slice(start, stop, step)
    return x[tuple(places)]


def _reshape(call: Call) -> Any:
    x, wanted = call[0], call.integers(1, "shape")
    if not call.attribute("allowzero", 0):
        wanted = tuple(n or np.shape(x)[k] for k, n in enumerate(wanted))
    return np.reshape(x, wanted)


def _flatten(call: Call) -> Any:
    x, axis = call[0], call.attribute("axis", 1)
    return np.reshape(x, (math.prod(np.shape(x)[:axis]), -1))


def _squeeze(call: Call) -> Any:
    return np.squeeze(call[0], call.integers(1, "axes"))


def _unsqueeze(call: Call) -> Any:
    return np.expand_dims(call[0], call.integers(1, "axes"))


def _transpose(call: Call) -> Any:
    return np.transpose(call[0], call.attribute("perm"))


def _split(call: Call) -> Any:
    x, axis = call[0], call.attribute("axis", 0)
    sizes = call.integers(1, "split")
    if sizes is None:
        size = np.shape(x)[axis]
        count = call.attribute("num_outputs", len(call.node.outputs))
        length = -(-size // count)
        sizes = (*(length,) * (count - 1), size - length * (count - 1))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _gather(call: Call) -> Any:
    return np.take(call[0], constant(call[1], "the index").astype(int), call.attribute("axis", 0))


def _expand(call: Call) -> Any:
    shape = np.broadcast_shapes(np.shape(call[0]), call.integers(1, "shape"))
    return np.broadcast_to(call[0], shape)


def _pad(call: Call) -> Any:
    if call.attribute("mode", "constant") != "constant":
        raise ValueError("its attribute 'mode' must be 'constant'")
    x, pads = call[0], call.integers(1, "pads")
    axes = call.integers(3, "axes", tuple(range(np.ndim(x))))
    width = [(0, 0)] * np.ndim(x)
    for k, axis in enumerate(axes):
        width[axis] = (pads[k], pads[k + len(axes)])
    # before opset 11, the fill value is an attribute
    fill = call.attribute("value", 0.0) if call[2] is None else float(np.ravel(call[2])[0])
    return np.pad(x, width, constant_values=fill)


def _constant_of_shape(call: Call) -> Any:
    value = np.ravel(call.attribute("value", np.zeros(1)))[0]
    return np.full(call.integers(0, "the shape"), value)


_FLOATS, _BOOLEAN = (1, 10, 11, 16), 9  # ONNX numbers of float, float16, double and bfloat16


def _cast(call: Call) -> Any:
    x, to = call[0], call.attribute("to")
    if is_traced(x):
        if to in _FLOATS:
            return x
        if to == _BOOLEAN:
            return select(_is_zero(x), 0.0, 1.0)
        return _truncate(x)
    kind = float if to in _FLOATS else bool if to == _BOOLEAN else int
    return np.asarray(x).astype(kind)


def _is_zero(x: Any) -> Any:
    return np.equal(x, 0.0, dtype=object) if is_traced(x) else np.equal(x, 0.0)


def _compare(call: Call) -> Any:
    a, b = call[0], call[1]
    return {
        "Less": lambda: less(a, b),
        "Greater": lambda: less(b, a),
        "LessOrEqual": lambda: _negate(less(b, a)),
        "GreaterOrEqual": lambda: _negate(less(a, b)),
        "Equal": lambda: _is_zero(1.0 * a - 1.0 * b),  # NumPy cannot subtract booleans
    }[call.node.operator]()


def _and(call: Call) -> Any:
    a, b = call[0], call[1]  # inputs of the block are numbers, which have no operator &
    return a & b if is_traced(a, b) else np.logical_and(a, b)


def _or(call: Call) -> Any:
    a, b = call[0], call[1]
    return a | b if is_traced(a, b) else np.logical_or(a, b)


def _negate(condition: Any) -> Any:
    if not is_traced(condition):
        return np.logical_not(condition)
    return select(condition, 0.0, 1.0)


def _where(call: Call) -> Any:
    return select(call[0], call[1], call[2])


# --- recurrent networks ---


def _directions(call: Call) -> list[slice]:
    """Return a slice for each direction of a recurrent operator.

    The slice puts the steps of a sequence into the order of the direction, forward or reverse.
    """
    order = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}
    return [slice(None, None, k) for k in order[call.attribute("direction", "forward")]]


_RECURRENT = {  # default activations of a direction
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Sigmoid": _sigmoid,
    "Tanh": _tanh,
    "Relu": lambda x: maximum(x, 0.0),
    "Softplus": _softplus,
}


def _recurrent(call: Call) -> Any:
    """Evaluate LSTM, GRU or RNN for all steps of a sequence.

    The first input of the operator has the shape (steps, batch, inputs). The initial states have
    the shape (directions, batch, n) with the hidden size n. The results are the outputs (steps,
    directions, batch, n) and the final states h and c.
    """
    kind = call.node.operator
    X, W, R, B = call[0], call[1], call[2], call[3]
    n, directions = call.attribute("hidden_size", np.shape(R)[-1]), _directions(call)
    functions = call.attribute("activations") or _RECURRENT[kind] * len(directions)
    for name, wrong in (
        ("layout", call.attribute("layout", 0)),
        ("clip", call.attribute("clip")),
        ("input_forget", call.attribute("input_forget", 0)),
        ("peepholes", call[7] is not None),
        (
            "sequence_lens with lengths other than the number of steps",
            call[4] is not None and np.any(constant(call[4], "sequence_lens") != np.shape(X)[0]),
        ),
    ):
        if wrong:
            raise ValueError(f"{name} is not supported; export the network without it")
    if unknown := [name for name in functions if name not in _ACTIVATIONS]:
        raise ValueError(
            f"the activation {unknown[0]} is not supported; expected {', '.join(_ACTIVATIONS)}"
        )
    zeros = np.zeros((len(directions), np.shape(X)[1], n))
    gates = np.shape(W)[1]
    B = np.zeros((len(directions), 2 * gates)) if B is None else B
    h0, c0 = (zeros if call[k] is None else call[k] for k in (5, 6))
    outputs, hs, cs = [], [], []
    per = len(_RECURRENT[kind])
    for d, order in enumerate(directions):
        own = [_ACTIVATIONS[name] for name in functions[d * per : (d + 1) * per]]
        cell = _Cell(call, W[d], R[d], B[d, :gates], B[d, gates:], own)
        h, c, row = h0[d], c0[d], []
        for x in X[order]:
            h, c = cell.step(x, h, c)
            row.append(h)
        outputs.append(np.stack(row[order]))
        hs.append(h)
        cs.append(c)
    return np.stack(outputs, axis=1), np.stack(hs), np.stack(cs)


class _Cell:
    """One direction of a recurrent operator with the hidden size n.

    The weights W (gates n, inputs) multiply the inputs, and the weights R (gates n, n) multiply the
    state h. `gates` is the number of gates: 4 for LSTM, 3 for GRU, 1 for RNN. Wb and Rb (gates n,)
    are the biases.
    """

    def __init__(self, call: Call, W: Array, R: Array, Wb: Array, Rb: Array, functions: Any):
        self._step = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[call.node.operator]
        self.W, self.R, self.Wb, self.Rb, self.functions = W, R, Wb, Rb, functions
        self.before_reset = call.attribute("linear_before_reset", 0)

    def step(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        """Return the states h and c (batch, n) after a step with the inputs x (batch, inputs)."""
        return self._step(_product(x, self.W.T) + self.Wb, h, c)

    def _rnn(self, a: Any, h: Any, c: Any) -> tuple[Any, Any]:
        (f,) = self.functions
        return f(a + _product(h, self.R.T) + self.Rb), c

    def _lstm(self, a: Any, h: Any, c: Any) -> tuple[Any, Any]:
        f, g, k = self.functions
        i, o, forget, candidate = np.split(a + _product(h, self.R.T) + self.Rb, 4, axis=-1)
        c = f(forget) * c + f(i) * g(candidate)
        return f(o) * k(c), c

    def _gru(self, a: Any, h: Any, c: Any) -> tuple[Any, Any]:
        f, g = self.functions
        n = np.shape(h)[-1]
        az, ar, an = np.split(a, 3, axis=-1)
        R, Rb = self.R, self.Rb
        if self.before_reset:
            bz, br, bn = np.split(_product(h, R.T) + Rb, 3, axis=-1)
            z, r = f(az + bz), f(ar + br)
            candidate = g(an + r * bn)
        else:
            bz, br = np.split(_product(h, R[: 2 * n].T) + Rb[: 2 * n], 2, axis=-1)
            z, r = f(az + bz), f(ar + br)
            candidate = g(an + _product(r * h, R[2 * n :].T) + Rb[2 * n :])
        return (1.0 - z) * candidate + z * h, c


OPERATORS: dict[str, Callable[[Call], Any]] = {
    "Abs": lambda call: abs(call[0]),
    "Add": lambda call: call[0] + call[1],
    "And": _and,
    "ArgMax": _arg_max,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Ceil": lambda call: -np.floor(-call[0]),
    "Celu": lambda call: _exponential_linear(
        call[0], call.attribute("alpha", 1.0), scale=1.0 / call.attribute("alpha", 1.0)
    ),
    "Clip": _clip,
    "Concat": lambda call: np.concatenate(call.values, call.attribute("axis")),
    "ConstantOfShape": _constant_of_shape,
    "Cos": lambda call: _cos(call[0]),
    "Div": _divide,
    "Dropout": _dropout,
    "Elu": lambda call: _exponential_linear(call[0], call.attribute("alpha", 1.0)),
    "Equal": _compare,
    "Erf": lambda call: erf(call[0]),
    "Exp": lambda call: _exp(call[0]),
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": lambda call: np.floor(call[0]),
    "GRU": _recurrent,
    "Gather": _gather,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "Greater": _compare,
    "GreaterOrEqual": _compare,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda call: call[0] * clip(call[0] / 6.0 + 0.5, 0.0, 1.0),
    "Identity": lambda call: call[0],
    "LSTM": _recurrent,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": lambda call: _leaky(call[0], call.attribute("alpha", 0.01)),
    "Less": _compare,
    "LessOrEqual": _compare,
    "Log": lambda call: _log(call[0]),
    "LogSoftmax": lambda call: _softmax(call, logarithm=True),
    "MatMul": lambda call: _product(call[0], call[1]),
    "Max": lambda call: reduce(maximum, call.values),
    "Min": lambda call: reduce(minimum, call.values),
    "Mish": lambda call: call[0] * _tanh(_softplus(call[0])),
    "Mul": lambda call: call[0] * call[1],
    "Neg": lambda call: -call[0],
    "Not": lambda call: _negate(call[0]),
    "Or": _or,
    "PRelu": lambda call: _leaky(call[0], call[1]),
    "Pad": _pad,
    "Pow": lambda call: call[0] ** call[1],
    "RMSNormalization": _rms_normalization,
    "RNN": _recurrent,
    "Reciprocal": lambda call: 1.0 / call[0],
    "ReduceL2": _reduction(lambda x, axes: _sqrt(_add_over(x * x, axes))),
    "ReduceMax": _reduction(lambda x, axes: _reduce_axes(x, axes, maximum)),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(lambda x, axes: _reduce_axes(x, axes, minimum)),
    "ReduceSum": _reduction(_add_over),
    "ReduceSumSquare": _reduction(lambda x, axes: _add_over(x * x, axes)),
    "Relu": lambda call: maximum(call[0], 0.0),
    "Reshape": _reshape,
    "Selu": lambda call: _exponential_linear(
        call[0],
        call.attribute("alpha", 1.67326319217681884765625)
        * call.attribute("gamma", 1.05070102214813232421875),
        call.attribute("gamma", 1.05070102214813232421875),
    ),
    "Shape": lambda call: np.array(np.shape(call[0]))[
        call.attribute("start", 0) : call.attribute("end")
    ],
    "Sigmoid": lambda call: _sigmoid(call[0]),
    "Sign": lambda call: select(
        less(0.0, call[0]), 1.0, select(less(call[0], 0.0), -1.0, 0.0 * call[0])
    ),
    "Sin": lambda call: _sin(call[0]),
    "Slice": _slice,
    "Softmax": _softmax,
    "Softplus": lambda call: _softplus(call[0]),
    "Softsign": lambda call: call[0] / (1.0 + abs(call[0])),
    "Split": _split,
    "Sqrt": lambda call: _sqrt(call[0]),
    "Squeeze": _squeeze,
    "Sub": lambda call: call[0] - call[1],
    "Sum": lambda call: sum(call.values[1:], start=call[0]),
    "Swish": lambda call: call[0] * _sigmoid(call.attribute("alpha", 1.0) * call[0]),
    "Tanh": lambda call: _tanh(call[0]),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
