"""State machine: states with actions, and transitions whose times are located between samples."""

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.common.display_hooks import Diagram
from rigidblocks.common.escaping import mermaid_text
from rigidblocks.common.name_hints import HintedType, suggestion
from rigidblocks.spatial.scalar import less, maximum, minimum, select

MOST_TRANSITIONS = 8  # limit of the transitions in one sample, which keeps the generated C short
NEVER = 2.0  # fraction of the interval for a guard that stays false
ROUNDING = 1e-9  # fraction of the interval that counts as a rounding error
TRUE = 0.5  # threshold above which a name in a guard is true
CLOCKS = {"time": "time of the sample", "elapsed": "time since the entry into the state"}
RESERVED = (*CLOCKS, "state", "entered", "instant", "previous", "abs", "min", "max")

Expression = str | float
Function = Callable[[Mapping[str, Any]], Any]  # from values by name to the value of an expression


@dataclass(frozen=True)
class State(metaclass=HintedType):
    """State of a `StateMachine`.

    Attributes:
        name: Name of the state.
        outputs: Values of outputs by name, which the block computes at each sample in this state.
        entry: Values of variables by name, which the block assigns at the entry into this state.
    """

    name: str
    outputs: Mapping[str, Expression] = field(default_factory=dict)
    entry: Mapping[str, Expression] = field(default_factory=dict)


@dataclass(frozen=True)
class Transition(metaclass=HintedType):
    """Transition of a `StateMachine` between two states.

    Attributes:
        source: Name of the state that the transition leaves.
        target: Name of the state that the transition enters.
        guard: Condition, such as "distance < 0.02 and not fault" or "elapsed >= 0.5".
        action: Values of variables by name, which the block assigns before the entry action.
    """

    source: str
    target: str
    guard: str
    action: Mapping[str, Expression] = field(default_factory=dict)


class Comparison(NamedTuple):
    """Comparison in a guard: margin > 0 if `is_strict`, and otherwise margin >= 0.

    The function `margin` returns the difference of the two compared values.
    """

    margin: Function
    is_strict: bool


@dataclass(frozen=True, eq=False)
class StateMachine(Block):
    """Sampled state machine with guards, actions and timers.

    The machine begins in the first state of `state_list`. It leaves a state when the guard of a
    transition becomes true. If several guards become true at the same time, the first transition in
    the list has priority.

    Between two samples, the block treats the inputs as linear functions of time and locates the
    time of the transition. Timers start at this time, and actions use the values at this time. The
    durations of a sequence therefore do not depend on the sample time. The located time is exact if
    the compared values are linear in time. Otherwise it has the error of linear interpolation. The
    outputs change at the next sample. Per sample, the machine makes at most 8 transitions, and at
    most as many as it has states.

    Guards and values are Python expressions with + - * /, abs, min and max. A guard consists of
    comparisons (< <= > >=), `and`, `or` and `not`. A name that is not compared is true if its value
    is above 0.5. A name is an input, a parameter, a variable, `time` [s] or `elapsed`, the time
    since the entry into the state [s].

    The outputs are `state` (1 for the first state), `elapsed` [s], `entered` (time of the last
    transition [s]), the variables, and the outputs of the states. A state that does not set an
    output holds its value, which is 0 at the start. All signals are scalars.

    `input_names` lists the inputs. `parameter_values` and `variable_values` contain the values of
    the parameters and the start values of the variables by name. `units` contains the units of
    inputs, outputs, parameters and variables by name; without an entry, the unit is 1.

    Raises:
        ValueError: A state, an expression or a name is invalid or unknown.
    """

    state_list: tuple[State, ...]
    transitions: tuple[Transition, ...]
    sample_time: float
    input_names: tuple[str, ...] = ()
    parameter_values: Mapping[str, float] = field(default_factory=dict)
    variable_values: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.input_names, str):
            object.__setattr__(self, "input_names", (self.input_names,))
        for name in ("state_list", "transitions", "input_names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        self._check_names()
        _ = self._assignments, self._guards  # raise errors for invalid expressions

    def _check_names(self) -> None:
        """Raise ValueError if states or signals have invalid, unknown or duplicate names."""
        for kind, some in ((State, self.state_list), (Transition, self.transitions)):
            if wrong := [one for one in some if not isinstance(one, kind)]:
                raise ValueError(
                    f"a state machine needs objects {kind.__name__}(...), not {wrong[0]!r}"
                )
        names = [one.name for one in self.state_list]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"a state machine needs one or more states with different names, not {names}"
            )
        for one in self.transitions:
            for end in (one.source, one.target):
                if end not in names:
                    raise ValueError(
                        f"the transition '{one.source}' -> '{one.target}' has no state '{end}'; "
                        f"{suggestion(end, names)}"
                    )
        signals = [*self.input_names, *self.parameter_values, *self.variable_values]
        signals += self._output_names
        for name in signals:
            if not name.isidentifier() or name in RESERVED or signals.count(name) > 1:
                raise ValueError(
                    f"'{name}' cannot be the name of a signal of a state machine; a name must be "
                    "unique, be a valid Python identifier and differ from " + ", ".join(RESERVED)
                )
        for name in self.units:
            if name not in signals:
                raise ValueError(f"a unit is given for '{name}'; {suggestion(name, signals)}")

    @cached_property
    def _output_names(self) -> list[str]:
        """Names of the outputs that the states set, without variables."""
        return list(dict.fromkeys(name for one in self.state_list for name in one.outputs))

    @property
    def _known_names(self) -> tuple[str, ...]:
        """Names that expressions may contain."""
        return (*self.input_names, *self.parameter_values, *self.variable_values, *CLOCKS)

    def _compile_action(self, owner: str, values: Mapping[str, Expression]) -> dict[str, Function]:
        """Compile an entry or transition action; return a function for each variable name."""
        for name in values:
            if name not in self.variable_values:
                raise ValueError(
                    f"{owner} assigns the unknown variable '{name}'; "
                    f"{suggestion(name, self.variable_values)}"
                )
        return self._compile_values(owner, values)

    def _compile_values(self, owner: str, values: Mapping[str, Expression]) -> dict[str, Function]:
        """Compile expressions; return a function for each name in `values`."""
        return {
            name: compile_value(value, self._known_names, f"{owner}, {name}")
            for name, value in values.items()
        }

    @cached_property
    def _assignments(self) -> tuple[list[dict[str, Function]], ...]:
        """Compiled outputs and entry actions of the states, and actions of the transitions."""
        states = [(f"state '{one.name}'", one) for one in self.state_list]
        return (
            [self._compile_values(text, one.outputs) for text, one in states],
            [self._compile_action(text, one.entry) for text, one in states],
            [self._compile_action(_transition_text(one), one.action) for one in self.transitions],
        )

    @cached_property
    def _guards(self) -> list[list[list[Comparison]]]:
        """Compiled guard of each transition, in disjunctive normal form."""
        return [
            compile_guard(one.guard, self._known_names, _transition_text(one))
            for one in self.transitions
        ]

    def _port(self, name: str, doc: str, start: Any = None) -> Port:
        return Port(name, (), self.units.get(name, "1"), doc, start)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the inputs in `input_names`."""
        return tuple(self._port(name, "input of guards and actions") for name in self.input_names)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters in `parameter_values`."""
        return tuple(
            self._port(name, "parameter of guards and actions", value)
            for name, value in self.parameter_values.items()
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of the outputs: state, elapsed, entered, the state outputs and the variables."""
        names = ", ".join(f"{k} {one.name}" for k, one in enumerate(self.state_list, 1))
        return (
            Port("state", (), "1", f"active state: {names}", 1.0),
            Port("elapsed", (), "s", CLOCKS["elapsed"], 0.0),
            Port("entered", (), "s", "time of the entry into the state", 0.0),
            *(self._port(name, "output of the states", 0.0) for name in self._output_names),
            *(
                self._port(name, "variable of the actions", value)
                for name, value in self.variable_values.items()
            ),
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the sampled states: the outputs, and the time and inputs of the last sample."""
        n = len(self.input_names)
        units = tuple(port.units[0] for port in self.inputs)
        previous = (Port("previous", (n,), units, "inputs at the last sample", np.zeros(n)),)
        return (
            *self.outputs,
            Port("instant", (), "s", "time of the last sample", 0.0),
            *(previous if n else ()),
        )

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        variables = {name: getattr(x, name) for name in self.variable_values}
        constants = vars(p)
        now = vars(u)
        variables = self._enter(x.state, True, {**now, **constants, "time": t}, variables)
        return self._sample(t, x, {**now, **constants}, x.state, t, variables)

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        inputs, constants = vars(u), vars(p)
        variables = {name: getattr(x, name) for name in self.variable_values}
        state, entered, s = x.state, x.entered, 0.0

        def values_at(s: Any) -> dict[str, Any]:
            """Return the values by name at the fraction s of the interval since the last sample."""
            time = x.instant + s * (t - x.instant)
            last = {name: x.previous[k] for k, name in enumerate(inputs)}
            signals = {name: _interpolate(last[name], inputs[name], s) for name in inputs}
            return {**signals, **constants, **variables, "time": time, "elapsed": time - entered}

        end = {**inputs, **constants, "time": t}
        count = min(len(self.state_list), MOST_TRANSITIONS) if self.transitions else 0
        for transition in range(count):
            begin, final = values_at(s), {**end, **variables, "elapsed": t - entered}
            at_sample = values_at(0.0) if transition else None
            first, target, chosen = NEVER, state, -1.0
            for k, (one, guard) in enumerate(zip(self.transitions, self._guards, strict=True)):
                is_active = _is_equal(state, self._index(one.source))
                fraction = select(is_active, first_fraction(guard, begin, final, at_sample), NEVER)
                is_first = less(fraction, first - ROUNDING)
                first = select(is_first, fraction, first)
                target = select(is_first, self._index(one.target), target)
                chosen = select(is_first, float(k), chosen)
            fires = less(first, 0.5 * (1.0 + NEVER))
            s = select(fires, s + minimum(first, 1.0) * (1.0 - s), s)
            located = values_at(s)
            for k, action in enumerate(self._assignments[2]):
                located = _assign(action, _is_equal(chosen, float(k)), located)
            variables = {name: located[name] for name in variables}
            variables = self._enter(target, fires, located, variables)
            state, entered = target, select(fires, located["time"], entered)
        return self._sample(t, x, {**inputs, **constants}, state, entered, variables)

    def _index(self, name: str) -> float:
        """Return the number of a state, from 1."""
        return 1.0 + [one.name for one in self.state_list].index(name)

    def _enter(
        self, state: Any, fires: Any, values: Mapping[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """Apply the entry action of `state` if `fires` holds; return the variables."""
        found = {**values, **variables, "elapsed": 0.0}
        for k, entry in enumerate(self._assignments[1], 1):
            found = _assign(
                entry, select(fires, _convert_to_number(_is_equal(state, k)), 0.0), found
            )
        return {name: found[name] for name in variables}

    def _sample(
        self,
        t: Any,
        x: Record,
        values: Mapping[str, Any],
        state: Any,
        entered: Any,
        variables: dict[str, Any],
    ) -> Values:
        """Return the sampled states at the time t [s].

        `values` contains the inputs and parameters. `entered` [s] is the time of the entry into
        the state with the number `state`.
        """
        known = {**values, **variables, "time": t, "elapsed": t - entered}
        outputs = {name: getattr(x, name) for name in self._output_names}
        for k, functions in enumerate(self._assignments[0], 1):
            is_active = _is_equal(state, k)
            outputs |= {
                name: select(is_active, function(known), outputs[name])
                for name, function in functions.items()
            }
        own = {"state": state, "elapsed": t - entered, "entered": entered, "instant": t}
        previous = {"previous": np.array([values[name] for name in self.input_names])}
        return {**own, **outputs, **variables, **(previous if self.input_names else {})}

    def draw(self) -> Diagram:
        """Return the diagram of states and transitions as Mermaid text, which notebooks draw."""
        lines = ["flowchart LR", "    begin((start)) --> state1"]
        for k, one in enumerate(self.state_list, 1):
            texts = [one.name, *(f"{name} = {value}" for name, value in one.outputs.items())]
            texts += [f"entry: {name} = {value}" for name, value in one.entry.items()]
            lines.append(f'    state{k}("{"<br>".join(map(mermaid_text, texts))}")')
        for arc in self.transitions:
            texts = [arc.guard, *(f"{name} = {value}" for name, value in arc.action.items())]
            text = "<br>".join(map(mermaid_text, texts))
            ends = (int(self._index(name)) for name in (arc.source, arc.target))
            lines.append(f'    state{next(ends)} -->|"{text}"| state{next(ends)}')
        return Diagram("\n".join(lines))


def _transition_text(transition: Transition) -> str:
    return f"transition '{transition.source}' -> '{transition.target}'"


def _is_equal(number: Any, k: float) -> Any:
    """Return the condition that an integer-valued float or traced scalar equals k."""
    return less(np.abs(number - k), 0.5)


def _convert_to_number(condition: Any) -> Any:
    return select(condition, 1.0, 0.0)


def _assign(
    functions: Mapping[str, Function], condition: Any, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Apply assignments to `values` in order if the condition holds; return the new values."""
    found = dict(values)
    for name, function in functions.items():
        found[name] = select(condition, function(found), found[name])
    return found


def _interpolate(begin: Any, end: Any, s: Any) -> Any:
    """Return the linear interpolation from `begin` to `end` at the fraction s of the interval.

    If both values are equal, the result is this value, also if it is infinite.
    """
    if isinstance(s, float) and s == 0.0:
        return begin
    return select(end == begin, end, begin + s * (end - begin))


def first_fraction(
    guard: Iterable[Iterable[Comparison]],
    begin: Mapping[str, Any],
    final: Mapping[str, Any],
    at_sample: Mapping[str, Any] | None = None,
) -> Any:
    """Return the first fraction of an interval at which a guard is true, or NEVER.

    The margin of each comparison is linear in time, so the comparison is true in one subinterval.
    A conjunction is true in the intersection of these subintervals. An intersection of a single
    point does not count if it is the start or the end of the subinterval of a strict comparison.

    Args:
        guard: Disjunction of conjunctions of comparisons.
        begin: Values by name at the start of the interval.
        final: Values by name at the end of the interval.
        at_sample: Values by name at the last sample, if the interval begins at a transition. If a
            margin has decreased to zero at this transition, the comparison is false there. None
            if the interval begins at the last sample.
    """
    first: Any = NEVER
    for conjunction in guard:
        parts = [(one, *_true_span(one, begin, final, at_sample)) for one in conjunction]
        low = reduce(maximum, (start for _, start, _ in parts))
        high = reduce(minimum, (end for _, _, end in parts))
        found = select(less(high, low), NEVER, low)
        is_point = _convert_to_number(low >= high)
        for one, start, end in parts:
            if one.is_strict:
                is_end = maximum(_convert_to_number(start >= low), _convert_to_number(end <= high))
                found = select(less(TRUE, is_end * is_point), NEVER, found)
        first = minimum(first, found)
    return first


def _true_span(
    comparison: Comparison,
    begin: Mapping[str, Any],
    final: Mapping[str, Any],
    at_sample: Mapping[str, Any] | None,
) -> Any:
    """Return the start and end fractions of the subinterval in which a comparison is true.

    The arguments are as in `first_fraction`. If the comparison is false in the whole interval, or a
    value is NaN, the result is (NEVER, 0).
    """
    g0, g1 = comparison.margin(begin), comparison.margin(final)
    change = g1 - g0
    root = -g0 / select(less(0.0, np.abs(change)), change, 1.0)
    starts = _convert_to_number(g0 > 0.0 if comparison.is_strict else g0 >= 0.0)
    if at_sample is not None:
        slope = g1 - comparison.margin(at_sample)
        ends = _convert_to_number(less(slope, 0.0)) * _convert_to_number(g0 <= -ROUNDING * slope)
        starts = starts * (1.0 - ends)
    latest = 1.0 - ROUNDING if comparison.is_strict else 1.0 + ROUNDING
    reached = _convert_to_number(less(0.0, change)) * _convert_to_number(root <= latest)
    low = select(less(TRUE, starts), 0.0, select(less(TRUE, reached), maximum(root, 0.0), NEVER))
    high = select(less(TRUE, starts), select(less(change, 0.0), root, NEVER), NEVER * reached)
    return low, high


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "min": lambda *values: reduce(minimum, values),
    "max": lambda *values: reduce(maximum, values),
}


def compile_value(text: Expression, known: Iterable[str], owner: str) -> Function:
    """Compile a number or an arithmetic expression to a function of the values by name.

    Args:
        text: Number or expression.
        known: Names that the expression may contain.
        owner: Owner of the expression for error messages.

    Raises:
        ValueError: The expression is invalid or contains an unknown name.
    """
    return _value_function(_parse(text, owner), tuple(known), f"{owner}: '{text}'")


def compile_guard(text: str, known: Iterable[str], owner: str) -> list[list[Comparison]]:
    """Compile a guard to comparisons in disjunctive normal form.

    Args:
        text: Guard.
        known: Names that the guard may contain.
        owner: Owner of the guard for error messages.

    Raises:
        ValueError: The guard is invalid or contains an unknown name.
    """
    return _normal_form(_parse(text, owner), False, tuple(known), f"{owner}: '{text}'")


def _parse(text: Any, owner: str) -> ast.expr:
    try:
        return ast.parse(str(text).strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{owner}: '{text}' is not a valid expression") from error


def _value_function(node: ast.expr, known: tuple[str, ...], where: str) -> Function:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        number = float(node.value)
        if not np.isfinite(number):
            raise ValueError(f"{where} contains a number that is not finite")
        return lambda _: number
    if isinstance(node, ast.Name):
        name = node.id
        if name not in known:
            raise ValueError(
                f"{where} contains the unknown name '{name}'; {suggestion(name, known)}"
            )
        return lambda values: values[name]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        operation = _BINARY[type(node.op)]
        left, right = (_value_function(one, known, where) for one in (node.left, node.right))
        return lambda values: operation(left(values), right(values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        part = _value_function(node.operand, known, where)
        return lambda values: sign * part(values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        function, count = _CALLS[node.func.id], len(node.args)
        if not node.keywords and (count == 1 if node.func.id == "abs" else count >= 1):
            parts = [_value_function(one, known, where) for one in node.args]
            return lambda values: function(*(part(values) for part in parts))
    raise ValueError(
        f"{where} contains '{ast.unparse(node)}'; expected numbers, names, + - * /, abs, min or max"
    )


def _normal_form(
    node: ast.expr, is_negated: bool, known: tuple[str, ...], where: str
) -> list[list[Comparison]]:
    """Return the disjunctive normal form of a guard, or of its negation if `is_negated`.

    `known` lists the names that the guard may contain. `where` is the start of the error messages:
    the owner and the text of the guard.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _normal_form(node.operand, not is_negated, known, where)
    if isinstance(node, ast.BoolOp):
        parts = [_normal_form(one, is_negated, known, where) for one in node.values]
        return _join(parts, isinstance(node.op, ast.And) != is_negated)
    if isinstance(node, ast.Name):
        compared = ast.Compare(node, [ast.Gt()], [ast.Constant(TRUE)])
        return _normal_form(compared, is_negated, known, where)
    if not isinstance(node, ast.Compare) or not all(
        isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in node.ops
    ):
        raise ValueError(
            f"{where} contains '{ast.unparse(node)}'; a guard consists of comparisons with "
            "<, <=, > or >=, names, and, or, not"
        )
    terms = [_value_function(one, known, where) for one in (node.left, *node.comparators)]
    found = []
    for kind, left, right in zip(node.ops, terms[:-1], terms[1:], strict=True):
        is_less = isinstance(kind, ast.Lt | ast.LtE) != is_negated
        low, high = (left, right) if is_less else (right, left)
        is_strict = isinstance(kind, ast.Lt | ast.Gt) != is_negated
        found.append([[Comparison(_difference(high, low), is_strict)]])
    return _join(found, not is_negated)


def _difference(high: Function, low: Function) -> Function:
    return lambda values: high(values) - low(values)


def _join(parts: list[list[list[Comparison]]], is_conjunction: bool) -> list[list[Comparison]]:
    """Return the conjunction or disjunction of the guards `parts`, in disjunctive normal form."""
    if not is_conjunction:
        return [one for part in parts for one in part]
    return reduce(lambda a, b: [[*left, *right] for left in a for right in b], parts)
