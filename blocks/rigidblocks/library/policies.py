"""Policies: neural networks of ONNX files as blocks."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.library.neural_network import INTEGER, OPERATORS, Network, Node
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True, eq=False)
class Signal:
    """Input or output of a network, and its port.

    Args:
        name: Name in the network.
        port: Name of the port.
        shape: Shape in the network. The first axis is the batch, which has the length 1.
        start: Start value of a state, with the shape of the port; None for other signals.
    """

    name: str
    port: str
    shape: tuple[int, ...]
    start: Any = None

    @property
    def port_shape(self) -> tuple[int, ...]:
        """Shape of the port, which has no leading axes of the length 1."""
        shape = self.shape
        while len(shape) > 1 and shape[0] == 1:
            shape = shape[1:]
        return shape


@dataclass(frozen=True, eq=False)
class Policy(Block):
    """Neural network as a block, y = network(u).

    With a `sample_time`, the block evaluates the network at each sample and holds the outputs.
    Without a sample time, the block has direct feedthrough. A recurrent network needs a sample
    time, because the states of the network are sampled states of the block. At the start time, the
    block evaluates the network with the start values of these states.

    The generated C code stores large matrices in tables and multiplies them in loops. `load_policy`
    creates the block from an ONNX file.

    Args:
        network: Network of operators.
        signals: Inputs of the network that are inputs of the block.
        results: Outputs of the network that are outputs of the block.
        memory: States of the network, each as a pair of network input and network output.
        sample_time: Sample time [s], or None.

    Raises:
        ValueError: The network is recurrent and has no sample time.
    """

    network: Network
    signals: tuple[Signal, ...]
    results: tuple[Signal, ...]
    memory: tuple[tuple[Signal, Signal], ...] = ()
    sample_time: float | None = None

    def __post_init__(self) -> None:
        if self.memory and self.sample_time is None:
            names = ", ".join(state.name for state, _ in self.memory)
            raise ValueError(
                f"a recurrent policy needs a sample_time [s]; its states are {names}, for example "
                "load_policy(path, sample_time=0.02)"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs of the network without its states."""
        return tuple(
            Port(one.port, one.port_shape, "", f"input {one.name} of the network")
            for one in self.signals
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs of the network without its states."""
        start = None if self.sample_time is None else 0.0
        return tuple(
            Port(one.port, one.port_shape, "", f"output {one.name} of the network", start)
            for one in self.results
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Held outputs and states of the network, or () without a sample time."""
        if self.sample_time is None:
            return ()
        states = (
            Port(one.port, one.port_shape, "", f"state {one.name} of the network", one.start)
            for one, _ in self.memory
        )
        return (*self.outputs, *states)

    def output(self, u: Record) -> Values:
        return self._evaluate(None, u) if self.sample_time is None else {}

    def update(self, x: Record, u: Record) -> Values:
        return {} if self.sample_time is None else self._evaluate(x, u)

    def _evaluate(self, x: Record | None, u: Record) -> Values:
        """Return the outputs and the next states by port name."""
        given = {one.name: np.reshape(getattr(u, one.port), one.shape) for one in self.signals}
        for one, _ in self.memory:
            given[one.name] = np.reshape(getattr(x, one.port), one.shape)
        values = self.network.evaluate(given)
        pairs = [(one.port, one) for one in self.results]
        pairs += [(state.port, following) for state, following in self.memory]
        return {port: _numbers(np.reshape(values[one.name], one.port_shape)) for port, one in pairs}


def _numbers(value: Any) -> Any:
    """Convert integers and booleans to floats; return other values unchanged."""
    return value if value.dtype == object else value.astype(float)


@explain_calls()
def load_policy(
    path: str | Path,
    *,
    sample_time: float | None = None,
    states: Mapping[str, str] | None = None,
    keep_state: bool = False,
) -> Policy:
    """Return the block of a neural network in an ONNX file.

    Each input and output of the network becomes a port. The port has no leading axes of the length
    1, such as the batch. In a port name, underscores replace invalid characters.

    An output of the network may be the next value of an input, such as the hidden state of a
    recurrent network. The input is then a sampled state of the block. By default, these are the
    inputs NAME_in with an output NAME_out of the same size.

    The function needs the package onnx. The block needs neither onnx nor another runtime.

    Args:
        path: ONNX file.
        sample_time: Sample time [s], which a recurrent network needs. None evaluates the network
            whenever its inputs change.
        states: For each input that is a state, the name of the output that is its next value.
        keep_state: True if LSTM, GRU and RNN operators with a constant initial state keep their
            states from sample to sample. Otherwise they begin each evaluation at the initial state,
            as ONNX defines.

    Raises:
        ImportError: onnx is not installed.
        FileNotFoundError: The file does not exist.
        TypeError: The path, `sample_time` or `states` has the wrong type.
        ValueError: The file is not an ONNX file, an operator is not supported, a recurrent network
            has no sample time, or `keep_state` has no effect.
        KeyError: A name in `states` is unknown.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"the path of a policy must be a path of an ONNX file, not {path!r:.60}")
    if not isinstance(states, Mapping | None):
        raise TypeError(f"states of a policy must map inputs to outputs, not {states!r:.60}")
    file = Path(path)
    onnx = module_of("onnx", "load_policy")
    check_regular_file(file)
    try:
        model = onnx.load(str(file))
        if model.functions:
            inliner = module_of("onnx.inliner", "load_policy")
            model = inliner.inline_local_functions(model)
    except OSError:
        raise
    except Exception as error:  # of protobuf or onnx, which have no common base class
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"'{file}' is not a valid ONNX file: {first}") from error
    try:
        return _policy(onnx, model, sample_time, states, keep_state)
    except (ValueError, KeyError) as error:
        raise type(error)(f"'{file}': {error.args[0]}") from error


def _policy(
    onnx: Any,
    model: Any,
    sample_time: float | None,
    states: Mapping[str, str] | None,
    keep_state: bool,
) -> Policy:
    graph = model.graph
    if not graph.output:
        raise ValueError("the file contains no network with outputs")
    opset = max((one.version for one in model.opset_import if one.domain in _DOMAINS), default=1)
    constants = {one.name: _array(onnx, one) for one in graph.initializer}
    nodes = list(_nodes(onnx, graph.node, constants, opset, _integer_values(onnx, model)))
    inputs = {one.name: _shape_of(onnx, one) for one in graph.input if one.name not in constants}
    outputs = [one.name for one in graph.output]
    starts: dict[str, Array] = {}
    following: dict[str, str] = {}
    network = Network(tuple(nodes), constants, opset)
    values = _first_values(network, inputs, outputs)
    if keep_state:  # an initial state may be the result of operators, such as Expand
        network = _remove_constant_nodes(network, set(inputs), values, set(outputs))
        nodes = list(
            _add_recurrent_states(network.nodes, network.constants, values, starts, following)
        )
        if not starts:
            raise ValueError(
                "keep_state=True has no effect; the network has no operator LSTM, GRU or RNN with "
                "a constant initial state"
            )
        inputs |= {name: start.shape for name, start in starts.items()}
        network = replace(network, nodes=tuple(nodes))
        values = _first_values(network, inputs, outputs)
    shapes = {name: np.shape(values[name]) for name in (*outputs, *following.values())}
    following |= (
        _state_pairs(inputs, shapes) if states is None else _check_states(states, inputs, shapes)
    )
    network = _remove_constant_nodes(network, set(inputs), values, {*shapes, *following.values()})
    _check_weights(network)
    names = _identifiers((*inputs, *outputs))
    memory = tuple(
        (
            Signal(
                name,
                names[name],
                inputs[name],
                np.reshape(starts.get(name, np.zeros(inputs[name])), _port_shape(inputs[name])),
            ),
            Signal(result, "", shapes[result]),
        )
        for name, result in following.items()
    )
    return Policy(
        network,
        tuple(
            Signal(name, names[name], shape)
            for name, shape in inputs.items()
            if name not in following
        ),
        tuple(
            Signal(name, names[name], shapes[name])
            for name in outputs
            if name not in following.values()
        ),
        memory,
        sample_time,
    )


def _check_weights(network: Network) -> None:
    """Raise a ValueError if a matrix or bias of a layer contains NaN or infinity."""
    for node in network.nodes:
        if node.operator not in ("Gemm", "MatMul", "LSTM", "GRU", "RNN"):
            continue
        for name in node.inputs:
            if not np.isfinite(network.constants.get(name, 0.0)).all():
                raise ValueError(
                    f"the constant '{name}' of node '{node.name}' contains values that are not "
                    "finite; check the training and the precision of the export"
                )


def _first_values(
    network: Network, inputs: Mapping[str, tuple[int, ...]], outputs: Iterable[str]
) -> dict[str, Any]:
    """Return all values of the network for zero inputs, by name."""
    values = network.evaluate({name: np.zeros(shape) for name, shape in inputs.items()})
    if unknown := [name for name in outputs if name not in values]:
        raise ValueError(
            f"the output '{unknown[0]}' of the network is not an output of a supported operator"
        )
    return values


def _port_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return Signal("", "", shape).port_shape


_DOMAINS = ("", "ai.onnx")


def _integer_values(onnx: Any, model: Any) -> set[str]:
    """Return the names of the integer values if the network contains Div, else an empty set.

    Only the operator Div depends on the type of its operands.
    """
    kinds = onnx.TensorProto
    integers = {kinds.INT8, kinds.INT16, kinds.INT32, kinds.INT64}
    integers |= {kinds.UINT8, kinds.UINT16, kinds.UINT32, kinds.UINT64}
    if all(node.op_type != "Div" for node in model.graph.node):
        return set()
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except onnx.shape_inference.InferenceError as error:
        raise ValueError(f"the types of the network are unknown: {error}") from error
    ports = (*graph.input, *graph.value_info, *graph.output)
    return {one.name for one in ports if one.type.tensor_type.elem_type in integers}


def _nodes(
    onnx: Any, nodes: Iterable[Any], constants: dict[str, Array], opset: int, integers: set[str]
) -> Iterator[Node]:
    """Yield the operators of a graph, with unique node names.

    Args:
        onnx: Package onnx.
        nodes: Nodes of the graph.
        constants: Constants by name, to which the function adds the values of Constant nodes.
        opset: Version of the ONNX operators.
        integers: Names of the values of integer types.
    """
    used: set[str] = set()
    for number, node in enumerate(nodes):
        attributes = {one.name: _attribute(onnx, one) for one in node.attribute}
        name = node.name or f"{node.op_type}_{number}"
        name = f"{name}_{number}" if name in used else name
        used.add(name)
        if opset < 7 and "broadcast" in attributes and "axis" in attributes:
            raise ValueError(
                f"operator {node.op_type} of node '{name}': the attribute axis of opset {opset} "
                "is not supported; export the network with opset 7 or newer"
            )
        if node.op_type == "Div" and integers & set(node.output):
            attributes[INTEGER] = True
        if node.op_type == "Constant" and node.domain in _DOMAINS:
            (value,) = attributes.values()
            constants[node.output[0]] = _plain(np.asarray(value))
        elif node.op_type not in OPERATORS or node.domain not in _DOMAINS:
            operator = f"{node.domain}.{node.op_type}".lstrip(".")
            raise ValueError(
                f"operator {operator} of node '{name}' is not supported; supported operators are "
                f"{', '.join(OPERATORS)}. Export the network without this operator, or call "
                "onnxruntime in a PythonBlock"
            )
        else:
            _check_input_count(onnx, node, name, opset)
            yield Node(node.op_type, name, tuple(node.input), tuple(node.output), attributes)


def _check_input_count(onnx: Any, node: Any, name: str, opset: int) -> None:
    """Raise ValueError if an operator has fewer inputs than its ONNX definition requires."""
    try:
        needed = onnx.defs.get_schema(node.op_type, opset, node.domain).min_input
    except onnx.defs.SchemaError:  # an opset that is newer than the package onnx
        return
    if len(node.input) < needed:
        raise ValueError(
            f"operator {node.op_type} of node '{name}' needs {needed} or more inputs, not "
            f"{len(node.input)}"
        )


def _attribute(onnx: Any, attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return _array(onnx, value)
    if isinstance(value, int | float):
        return value
    try:
        return tuple(one.decode() if isinstance(one, bytes) else one for one in value)
    except TypeError:
        raise ValueError(
            f"the attribute {attribute.name} of type {type(value).__name__} is not supported"
        ) from None


def _array(onnx: Any, tensor: Any) -> Array:
    return _plain(onnx.numpy_helper.to_array(tensor))


def _plain(value: Array) -> Array:
    """Return an array of doubles, integers or booleans."""
    if value.dtype.kind == "b":
        return value
    if value.dtype.kind in "iu":
        return value.astype(np.int64)
    try:
        return value.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"a constant of type {value.dtype} is not supported") from None


def _shape_of(onnx: Any, value: Any) -> tuple[int, ...]:
    """Return the shape of an input; axes without a fixed length have the length 1."""
    if not value.type.HasField("tensor_type"):
        raise ValueError(f"the input '{value.name}' is not a tensor; only tensors are supported")
    kind = value.type.tensor_type.elem_type
    if kind in (onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
        raise ValueError(
            f"the input '{value.name}' has elements of the type "
            f"{onnx.TensorProto.DataType.Name(kind)}; expected real numbers or booleans"
        )
    if not value.type.tensor_type.HasField("shape"):
        raise ValueError(f"the input '{value.name}' has no shape; export the network with shapes")
    return tuple(max(int(one.dim_value), 1) for one in value.type.tensor_type.shape.dim)


def _add_recurrent_states(
    nodes: Iterable[Node],
    constants: Mapping[str, Array],
    values: Mapping[str, Any],
    starts: dict[str, Array],
    following: dict[str, str],
) -> Iterator[Node]:
    """Yield the nodes, in which the states of recurrent operators become inputs of the network.

    The function changes only operators whose initial state is constant.

    Args:
        nodes: Nodes.
        constants: Constants of the network.
        values: All values of one evaluation, which contain the length of the batch.
        starts: Start values by state name, to which the function adds the new states.
        following: Names of the next values by state name, to which the function adds the new
            states.
    """
    for node in nodes:
        if node.operator not in ("LSTM", "GRU", "RNN"):
            yield node
            continue
        inputs = [*node.inputs, *[""] * (8 - len(node.inputs))]
        outputs = [*node.outputs, *[""] * (3 - len(node.outputs))]
        R = constants.get(inputs[2])
        for key, place, result in (("h", 5, 1), ("c", 6, 2))[: 2 if node.operator == "LSTM" else 1]:
            initial = inputs[place]
            if R is None or (initial and initial not in constants):
                continue
            name = f"{node.name}_{key}"
            zeros = np.zeros((R.shape[0], np.shape(values[inputs[0]])[1], R.shape[2]))
            starts[name] = np.broadcast_to(constants[initial], zeros.shape) if initial else zeros
            inputs[place] = name
            outputs[result] = outputs[result] or f"{name}_next"
            following[name] = outputs[result]
        yield replace(node, inputs=tuple(inputs), outputs=tuple(outputs))


def _state_pairs(
    inputs: Mapping[str, tuple[int, ...]], outputs: Mapping[str, tuple[int, ...]]
) -> dict[str, str]:
    """Map each input NAME_in to the output NAME_out if both have the same size."""
    pairs = ((name, re.sub(r"in$", "out", name)) for name in inputs if name.endswith("_in"))
    return {
        name: result
        for name, result in pairs
        if result in outputs and math.prod(outputs[result]) == math.prod(inputs[name])
    }


def _check_states(
    states: Mapping[str, str],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, tuple[int, ...]],
) -> dict[str, str]:
    """Check the names and sizes in `states`, which maps inputs to outputs; return it as a dict."""
    for name, result in states.items():
        for kind, one, known in (("input", name, inputs), ("output", result, outputs)):
            if one not in known:
                raise KeyError(f"the network has no {kind} '{one}'; {suggestion(one, known)}")
        if math.prod(inputs[name]) != math.prod(outputs[result]):
            raise ValueError(
                f"the state '{name}' has the shape {inputs[name]}, but its next value '{result}' "
                f"has the shape {outputs[result]}"
            )
    return dict(states)


def _remove_constant_nodes(
    network: Network, inputs: set[str], values: Mapping[str, Any], needed: set[str]
) -> Network:
    """Return the network without operators that have constant results or unused results.

    Args:
        network: Network.
        inputs: Names of its inputs.
        values: All values of one evaluation by name.
        needed: Names of the results of the network.
    """
    varying, kept = set(inputs), list[Node]()
    for node in network.nodes:
        if node.operator != "Shape" and varying & set(node.inputs):
            varying |= set(node.outputs) - {""}
            kept.append(node)
    used, nodes = set(needed), list[Node]()
    for node in reversed(kept):
        if used & set(node.outputs):
            nodes.append(node)
            used |= set(node.inputs)
    constants = {name: np.asarray(values[name]) for name in used - varying - {""}}
    return Network(tuple(reversed(nodes)), dict(sorted(constants.items())), network.opset)


def _identifiers(names: Iterable[str]) -> dict[str, str]:
    """Map each name in a network to a unique identifier, which is the name of the port."""
    made: dict[str, str] = {}
    for name in names:
        text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "signal"
        text = text if re.match(r"[A-Za-z]", text) else f"signal_{text}"
        text = f"{text}_" if text in ("t", "time") else text
        number, first = 2, text
        while text in made.values():
            text, number = f"{first}_{number}", number + 1
        made.setdefault(name, text)
    return made
