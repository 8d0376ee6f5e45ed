"""Base class of blocks, which are immutable objects with typed ports and pure functions."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache, cached_property, reduce, wraps
from numbers import Integral
from operator import add, is_
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.port import Port, Record, Values, finite, flatten, record
from rigidblocks.block.units import unit_text
from rigidblocks.common.arrays import Immutable, is_frozen, read_only
from rigidblocks.common.display_hooks import html_table
from rigidblocks.common.name_hints import HintedType, close_match_hint, suggestion
from rigidblocks.spatial.spatial import Array

__all__ = [
    "Block",
    "Port",
    "Record",
    "StartRelation",
    "Values",
    "argument_names",
    "call",
    "computed_outputs",
    "finite",
    "flatten",
    "record",
    "state_outputs",
    "weighted_sum",
]

MOST_IN_C = 2**31 - 1  # largest int in the generated C code
KINDS = ("inputs", "outputs", "states", "sampled", "parameters")
Ports = dict[str, tuple[Port, ...]]


def check(block: Any, base: type) -> None:
    """Validate the ports, functions and sample time of a block after construction.

    Each port property must be a tuple of ports, and port names must be unique. States and
    parameters must have start values, and each `rate` must be the name of a state. An output with
    the name of a state must have the shape of this state. The sample time must be positive. If the
    ports require a function of the class `base`, such as `derivative` for states, the class of the
    block must override this function.

    Raises:
        TypeError: The block is mutable, or a port has the wrong type.
        ValueError: The ports, functions or sample time are inconsistent.
    """
    where = f"block '{type(block).__name__}'"
    parameters = getattr(type(block), "__dataclass_params__", None)
    if parameters is not None and not parameters.frozen:
        raise TypeError(f"{where} is mutable; write @dataclass(frozen=True) above its class")
    T = block.sample_time
    if isinstance(T, bool) or not (T is None or isinstance(T, int | float | np.number)):
        raise TypeError(f"{where}: the sample_time must be a number or None, not {T!r:.60}")
    if T is not None and not (np.isfinite(T) and T > 0):
        raise ValueError(f"{where}: the sample_time must be positive, not {T} s")
    try:
        ports = {kind: getattr(block, kind) for kind in KINDS}
    except ValueError as error:  # invalid port, or invalid data for a port
        raise ValueError(f"{where}: {error}") from error
    for problem in _wrong_kinds(ports):
        raise TypeError(f"{where}: {problem}")
    functions = (_missing_functions(block, base, ports), _wrong_sampling(block, ports))
    for problems in (_double_names(ports), _wrong_states(ports), *functions):
        for problem in problems:
            raise ValueError(f"{where}: {problem}")


def make_fields_immutable(block: Any) -> None:
    """Replace mutable field values of a block by immutable values.

    NumPy scalars and zero-dimensional arrays become Python scalars, other arrays become read-only
    copies, and lists become tuples.

    Raises:
        ValueError: An array has masked elements.
        TypeError: A value is complex.
    """
    for one in fields(block) if is_dataclass(block) else ():
        value = getattr(block, one.name, None)
        owned = _immutable_value(value, f"{one.name} of block '{type(block).__name__}'")
        if owned is not value:
            object.__setattr__(block, one.name, owned)


def _immutable_value(value: Any, label: str) -> Any:
    if np.ma.is_masked(value):
        raise ValueError(f"{label} has masked elements; replace them, e.g. by value.filled(0.0)")
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "c":
            raise TypeError(f"{label} takes real numbers, not complex numbers: {value!r:.60}")
        if not np.ndim(value):
            return value.item()
        frozen = type(value) is np.ndarray and is_frozen(value)
        return value if frozen else read_only(np.asarray(value))
    if type(value) is dict:
        return {key: _immutable_value(one, label) for key, one in value.items()}
    if type(value) in (list, tuple):
        owned = tuple(_immutable_value(one, label) for one in value)
        same = type(value) is tuple and all(map(is_, owned, value))
        return value if same else owned
    if is_dataclass(value) and not isinstance(value, type | Immutable):
        return _immutable_record(value, label)
    return value


def _immutable_record(value: Any, label: str) -> Any:
    """Return a copy of a frozen dataclass of this package, with read-only arrays.

    The function returns other values unchanged. `label` is the name of the value in error messages.
    """
    is_record = type(value).__module__.startswith("rigidblocks.")
    if not is_record or hasattr(value, "sampled") or not value.__dataclass_params__.frozen:
        return value
    changed = {}
    for one in fields(value):
        old = getattr(value, one.name, None)
        if one.init and (owned := _immutable_value(old, label)) is not old:
            changed[one.name] = owned
    return replace(value, **changed) if changed else value


def _wrong_kinds(ports: dict[str, Any]) -> Iterator[str]:
    for kind, some in ports.items():
        if callable(some):
            yield f"{kind} is a function; write @property above it"
        elif isinstance(some, Port):
            yield f"{kind} is a single port; it must be a tuple of ports: (Port(...),)"
        elif not isinstance(some, tuple) or not all(isinstance(port, Port) for port in some):
            yield f"{kind} must be a tuple of ports, not {some!r}"


def _double_names(ports: Ports) -> Iterator[str]:
    states = {port.name for port in (*ports["states"], *ports["sampled"])}
    kinds: dict[str, str] = {}
    for kind in ("states", "sampled", "inputs", "outputs", "parameters"):
        own: set[str] = set()
        for port in ports[kind]:
            is_state = kind == "outputs" and port.name in states and port.name not in own
            if port.name in kinds and not is_state:
                pair = dict.fromkeys((kinds[port.name], kind))
                yield f"two ports have the name '{port.name}', in {' and '.join(pair)}"
            kinds.setdefault(port.name, kind)
            own.add(port.name)


def _wrong_states(ports: Ports) -> Iterator[str]:
    names = [port.name for port in ports["states"]]
    states = {port.name: port for port in (*ports["states"], *ports["sampled"])}
    for label, some in (("state", states.values()), ("parameter", ports["parameters"])):
        for port in some:
            if port.start is None:
                yield f"the {label} '{port.name}' needs a start value: Port(..., start=0.0)"
    for port in ports["states"]:
        if port.rate is not None and (port.rate not in names or port.rate == port.name):
            others = suggestion(port.rate, (name for name in names if name != port.name))
            yield (
                f"the rate '{port.rate}' of the state '{port.name}' is not another state; {others}"
            )
    for port in ports["outputs"]:
        if port.name in states and port.shape != states[port.name].shape:
            yield (
                f"the output '{port.name}' has shape {port.shape}; the state of the same name has "
                f"shape {states[port.name].shape}"
            )


def _wrong_sampling(block: Any, ports: Ports) -> Iterator[str]:
    if block.sample_time is None and ports["sampled"]:
        names = ", ".join(port.name for port in ports["sampled"])
        yield f"the sampled states {names} need a sample_time [s], which is a field of the block"


def _missing_functions(block: Any, base: type, ports: Ports) -> Iterator[str]:
    states = {port.name for port in (*ports["states"], *ports["sampled"])}
    computed = tuple(port for port in ports["outputs"] if port.name not in states)
    needs = {"derivative": ports["states"], "update": ports["sampled"], "output": computed}
    for function, some in needs.items():
        if some and getattr(type(block), function) is getattr(base, function):
            names = ", ".join(port.name for port in some)
            own = [name for name in dir(type(block)) if not hasattr(base, name)]
            hint = close_match_hint(function, own)
            yield f"the function {function} is missing; it must return: {names}{hint}"


def check_count(name: str, value: Any, most: int | None = None) -> None:
    """Check that the value of an option is an integer from 1 to `most`.

    Raises:
        TypeError: The value is not an integer.
        ValueError: The value is below 1 or above `most`.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        shown = "None" if value is None else f"{value!r} of type {type(value).__name__}"
        raise TypeError(f"{name} must be an integer, not {shown}")
    if int(value) < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be at most {most}, not {value}")


ARGUMENTS = ("t", "x", "u", "p")
FUNCTIONS = ("derivative", "project", "switching_functions", "initial", "update", "output")


def allow_any_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a block function unchanged, but with a type hint that accepts any arguments.

    For type checkers, an overriding method may therefore have any of the arguments t, x, u and p.
    """
    return function


class StartRelation(NamedTuple):
    """Start value of a scalar state that is computed from start values of other states.

        s = factor (w_1 s_1 + w_2 s_2 + ... + offset)

    Here s is the start value of `state`, and s_k and w_k are the start values and weights of the
    elements in `terms`. An example is the rotor angle of an elastic drive, which is computed
    from the joint position.

    Attributes:
        state: Name of the state.
        factor: Name of a scalar parameter, or its value.
        terms: Triple for each term of the sum: state name, element index in C order, and weight.
        offset: Constant term, for example the offset of a gear between two joints.
    """

    state: str
    factor: str | float
    terms: tuple[tuple[str, int, float], ...]
    offset: float = 0.0


def weighted_sum(terms: Iterable[tuple[float, Any]]) -> Any:
    """Return the sum of weight * value over the terms; omit multiplications by the weight 1."""
    products = (value if weight == 1.0 else weight * value for weight, value in terms)
    return reduce(add, products)


class Block(metaclass=HintedType):
    """Dynamic system with inputs u, outputs y, states x and parameters p.

        dx/dt = derivative(t, x, u, p)     for the continuous `states`
        x     = project(t, x, u, p)        at the start and after every inner step of the integrator
        x     = update(t, x, u, p)         for the `sampled` states, every `sample_time`
        y     = output(t, x, u, p)

    Subclasses are frozen dataclasses, whose fields define the structure and the start values. A
    function declares the arguments that it uses: the time t [s], and the records x, u and p, which
    have one attribute per port. The function returns a mapping from port names to values. Functions
    are pure and store no data in the block. Functions support floats and traced scalars, and use
    `select` instead of `if` for conditions on values.

    An output port with the name of a state has the value of this state. The function `output` does
    not return such ports.

    Raises:
        TypeError: A block function of the class has arguments other than t, x, u and p, or a field
            or port has the wrong type.
        ValueError: The fields or ports of a block are inconsistent (`check`).
    """

    sample_time: float | None = None

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "__repr__" not in vars(cls):  # the default of a dataclass would print every array
            cls.__repr__ = Block.__repr__  # type: ignore[method-assign]
        for name in FUNCTIONS:
            if name in vars(cls):
                _check_arguments(f"{cls.__name__}.{name}", vars(cls)[name])
        for name in ("__init__", "__post_init__"):  # the last of the two validates
            if name in vars(cls):
                setattr(cls, name, _add_validation(name, vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for pickle, without cached properties such as loaded libraries."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def __repr__(self) -> str:
        try:
            sides = (", ".join(map(_port_text, ports)) for ports in (self.inputs, self.outputs))
            return f"<{type(self).__name__}: {' -> '.join(sides)}>"
        except Exception:  # error messages contain incomplete blocks
            return f"<{type(self).__name__}>"

    def _repr_html_(self) -> str:
        """Return an HTML table of the block's ports for notebooks."""
        sides = (("input", self.inputs), ("output", self.outputs), ("parameter", self.parameters))
        rows = (
            (side, port.name, str(port.shape), unit_text(port.units), port.doc)
            for side, ports in sides
            for port in ports
        )
        return html_table(type(self).__name__, ("", "port", "shape", "unit", ""), rows)

    def __init__(self, *values: Any, **named: Any) -> None:
        if values or named:
            raise TypeError(
                f"block '{type(self).__name__}' has no fields and takes no arguments; write "
                "@dataclass(frozen=True) above its class"
            )
        if type(self).__init__ is Block.__init__:
            check(self, Block)

    def __post_init__(self) -> None:
        if type(self).__post_init__ is Block.__post_init__:
            make_fields_immutable(self)
            check(self, Block)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports of the block."""
        return ()

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports of the block."""
        return ()

    @property
    def states(self) -> tuple[Port, ...]:
        """Ports of the continuous states of the block."""
        return ()

    @property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the sampled states of the block."""
        return ()

    @property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters of the block."""
        return ()

    @allow_any_arguments
    def derivative(self) -> Values:
        """Return the time derivatives of the continuous states by port name."""
        return {}

    @allow_any_arguments
    def project(self) -> Values:
        """Return the continuous states after projection onto their constraints, by port name.

        An example is the normalization of quaternions. The stepper calls this function at the start
        and after every inner step. States that are missing in the result do not change. The set of
        returned names must not depend on values.
        """
        return {}

    @allow_any_arguments
    def switching_functions(self) -> Any:
        """Return the switching functions (n,), whose signs select the equations of the block.

        Contact gaps are an example. Adaptive methods end a step at a sign change, so one set of
        equations applies in each step. Zero counts as negative. The number n must not depend on
        values.
        """
        return np.zeros(0)

    @allow_any_arguments
    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        """Return the sampled states after initialization at the start time t [s], by port name.

        The base class calls `update`.
        """
        return call(self, "update", t, x, u, p)

    @allow_any_arguments
    def update(self) -> Values:
        """Return the sampled states after a sample instant, by port name."""
        return {}

    @allow_any_arguments
    def output(self) -> Values:
        """Return the outputs that are not states, by port name."""
        return {}

    @property
    def start_relations(self) -> tuple["StartRelation", ...]:
        """Relations that determine start values from other start values."""
        return ()

    def dependent_start_values(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return the start values that are computed from other start values, by state name.

        The function evaluates the `start_relations` that depend on a value in `start`. If `start`
        itself contains the start value of such a state, this value takes precedence over the
        returned value.

        Args:
            start: Start values by port name, of the shape of the port or (n, *shape) for n runs.

        Returns:
            Start values with the shape of the port or (n, *shape).
        """
        found: dict[str, Any] = {}
        relations = self.start_relations
        if not relations:
            return found
        ports = {p.name: p for p in (*self.states, *self.sampled, *self.parameters)}

        def element(name: str, k: int) -> Array:
            shape = ports[name].shape
            value = np.asarray(start.get(name, ports[name].start), float)
            if value.ndim < len(shape):
                value = np.broadcast_to(value, shape)
            runs = value.shape[: value.ndim - len(shape)]
            flat: Array = value.reshape((*runs, -1))[..., k]
            return flat

        for state, factor, terms, offset in relations:
            causes = {factor, *(name for name, _, _ in terms)}
            if causes.isdisjoint(start):
                continue
            value = weighted_sum((w, element(name, k)) for name, k, w in terms)
            if offset:
                value = value + offset
            scale = element(factor, 0) if isinstance(factor, str) else factor
            found[state] = scale * value
        return found

    def longest_hold(self, u: Record, p: Record) -> float:
        """Return the longest communication step [s] for which a master may hold the outputs.

        With longer steps, the held outputs, such as contact forces, make the system unstable.

        Args:
            u: Start values of the block's inputs. The record also contains the inputs of upstream
                parts that affect the block by direct feedthrough.
            p: Parameters.

        Returns:
            Step size [s]; infinite if no limit is known.
        """
        del u, p
        return float("inf")

    def modes(self, x: Record, p: Record) -> Array:
        """Return the eigenvalues (n,) [1/s] of fast modes at the states x.

        Examples are the modes of stiff springs.
        """
        del x, p
        return np.zeros(0)

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of output names: condition number and rank of the loop constraints.

        A block with several plants can have several pairs. Near a singular configuration, the
        condition number is large. In a singular configuration, the rank is reduced.
        """
        return ()

    def suspects(self, x: Record) -> Iterable[str]:
        """Return messages about possible causes of a failed run, such as singular configurations.

        x contains the states that the function checks.
        """
        del x
        return ()

    def remarks(self, t: Array, y: Record) -> Iterable[str]:
        """Return log messages about a finished run.

        Args:
            t: Times (n,) [s].
            y: Record of the outputs at these times, each of shape (n, *shape of the port).
        """
        del t, y
        return ()


def _port_text(port: Port) -> str:
    return f"{port.name} ({', '.join(map(str, port.shape))})" if port.shape else port.name


@cache
def argument_names(function: Callable[..., Values]) -> tuple[str, ...]:
    """Return the names of a block function's arguments (any of t, x, u, p) in declared order."""
    return tuple(inspect.signature(function).parameters)[1:]


def call(block: Block, function: str, t: Any, x: Record, u: Record, p: Record) -> Values:
    """Call a block function with the arguments that it declares; return its values by port name.

    Args:
        block: Block.
        function: Name of the function.
        t: Time [s].
        x: States.
        u: Inputs.
        p: Parameters.
    """
    given = {"t": t, "x": x, "u": u, "p": p}
    names = argument_names(getattr(type(block), function))
    values: Values = getattr(block, function)(**{name: given[name] for name in names})
    return values


def _add_validation(name: str, function: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that calls the constructor `function` and then validates the block.

    If a subclass overrides the constructor, only the constructor of the subclass validates the
    block. `name` is the name of the constructor, `__init__` or `__post_init__`.
    """

    @wraps(function)
    def make(self: Block, *values: Any, **named: Any) -> None:
        if name == "__post_init__":
            make_fields_immutable(self)
        function(self, *values, **named)
        if getattr(type(self), name) is make:
            make_fields_immutable(self)
            check(self, Block)

    return make


def _check_arguments(where: str, function: Any) -> None:
    """Raise TypeError if a block function has arguments other than self, t, x, u and p.

    `where` names the function in the message.
    """
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first, *rest = inspect.signature(function).parameters.values()
    if first.name in ARGUMENTS:
        raise TypeError(
            f"{where} has no argument self; its arguments must be self and any of t, x, u, p"
        )
    for argument in rest:
        if argument.name not in ARGUMENTS or argument.kind is not plain:
            raise TypeError(
                f"{where} has the argument '{argument}'; the arguments of a block function must "
                "be self and any of t, x, u, p"
            )


def state_outputs(block: Block) -> tuple[str, ...]:
    """Return the names of a block's outputs that are states."""
    states = {port.name for port in (*block.states, *block.sampled)}
    return tuple(port.name for port in block.outputs if port.name in states)


def computed_outputs(block: Block) -> tuple[Port, ...]:
    """Return the output ports that the block's function `output` computes."""
    return tuple(port for port in block.outputs if port.name not in state_outputs(block))
