"""State machines: located transitions, timers, actions, guards, messages and diagrams."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import System, simulate
from rigidblocks.block.block import Record
from rigidblocks.library import Constant, Ramp, Sine, State, StateMachine, Step, Transition
from rigidblocks.library.state_machine import compile_guard, first_fraction

H = 0.01  # sample time [s]
TWO = (State("low"), State("high"))


def run(machine, duration, **sources):
    """Return the result of a machine whose inputs are connected to source blocks."""
    system = System()
    system.add("m", machine)
    for name, block in sources.items():
        system.add(name, block)
        system.connect(f"{name}.y", f"m.{name}")
    return simulate(system, duration, H)


@pytest.mark.slow
def test_durations_of_timed_states_do_not_depend_on_the_sample_time():
    durations = (0.0137, 0.0291, 0.0453)  # not multiples of the sample time
    machine = StateMachine(
        tuple(State(name, {"y": k}) for k, name in enumerate("abc")),
        tuple(
            Transition(*ends, f"elapsed >= {duration}")
            for ends, duration in zip(("ab", "bc", "ca"), durations, strict=True)
        ),
        H,
    )
    result = run(machine, 5.0)
    entries = np.cumsum(list(itertools.islice(itertools.cycle(durations), 200)))
    found = np.unique(result["m.entered"])[1:]
    assert len(found) == np.sum(entries <= 5.0)
    assert_allclose(found, entries[: len(found)], rtol=1e-12)
    # the visible state is that of the sample, without delay
    count = np.searchsorted(entries, result.time + 1e-9, "right")
    assert np.array_equal(result["m.state"], 1 + count % 3)
    assert np.array_equal(result["m.y"], count % 3)
    assert_allclose(result["m.elapsed"], result.time - np.r_[0.0, entries][count], atol=1e-12)


@pytest.mark.slow
def test_transition_on_a_linear_signal_is_located_exactly():
    machine = StateMachine(
        (State("low"), State("high", {"y": "start + 2 * elapsed"}, entry={"start": "u"})),
        (Transition("low", "high", "u > 0.5"),),
        H,
        ("u",),
        variable_values={"start": 0.0},
    )
    result = run(machine, 1.0, u=Ramp(0.83, 0.2, unit=""))
    crossing = 0.2 + 0.5 / 0.83
    assert result["m.entered"][-1] == pytest.approx(crossing, rel=1e-13)
    assert result["m.start"][-1] == pytest.approx(0.5, rel=1e-13)
    expected = np.where(result.time < crossing, 0.0, 0.5 + 2 * (result.time - crossing))
    assert_allclose(result["m.y"], expected, atol=1e-13)


@pytest.mark.slow
def test_transition_time_on_a_sine_signal_has_the_error_of_linear_interpolation():
    machine = StateMachine(
        TWO,
        (Transition("low", "high", "u > 0.3"), Transition("high", "low", "u < -0.3")),
        H,
        ("u",),
    )
    omega = 2 * np.pi
    found = np.unique(run(machine, 3.0, u=Sine(1.0, 1.0, unit=""))["m.entered"])[1:]
    first = np.arcsin(0.3) / omega
    expected = np.sort(np.r_[first + np.arange(3), first + 0.5 + np.arange(3)])
    error = np.abs(found - expected)
    bound = omega**2 * H**2 / 8 / (omega * np.sqrt(1 - 0.3**2))  # max|u''| H^2 / 8 over the slope
    assert 1e-9 < error.max() < 1.1 * bound


@pytest.mark.slow
def test_earliest_guard_triggers_the_transition_and_the_list_order_breaks_ties():
    states = tuple(State(name) for name in ("start", "a", "b"))
    for early, late in (("a", "b"), ("b", "a")):
        transitions = (
            Transition("start", late, "u > 0.7"),
            Transition("start", early, "u > 0.6"),
        )
        machine = StateMachine(states, transitions, 1.0, ("u",))
        system = System()
        system.add("m", machine)
        system.add("u", Ramp(1.0, unit=""))
        system.connect("u.y", "m.u")
        result = simulate(system, 1.0, 1.0)
        assert states[int(result["m.state"][-1]) - 1].name == early
        assert result["m.entered"][-1] == pytest.approx(0.6)
    tied = (Transition("start", "b", "u > 0.6"), Transition("start", "a", "0.6 < u"))
    result = run(StateMachine(states, tied, H, ("u",)), 1.0, u=Ramp(1.0, unit=""))
    assert result["m.state"][-1] == 3


@pytest.mark.slow
def test_chain_of_state_machine_transitions_is_executed_in_one_sample():
    names = "abcde"
    machine = StateMachine(
        tuple(State(name, entry={"path": f"10 * path + {k}"}) for k, name in enumerate(names, 1)),
        tuple(Transition(*ends, "go") for ends in itertools.pairwise(names)),
        H,
        ("go",),
        variable_values={"path": 0.0},
    )
    result = run(machine, 0.1, go=Step(0.05, unit=""))
    assert np.array_equal(np.unique(result["m.path"]), [1, 12345])


@pytest.mark.slow
def test_transition_action_runs_once_before_the_entry_action_of_the_new_state():
    machine = StateMachine(
        (State("low"), State("high", entry={"x": "x * 2", "seen": "x"})),
        (
            Transition("low", "high", "u > 0", {"x": "x + 1"}),
            Transition("high", "low", "u < 0", {"x": "x + 10"}),
        ),
        H,
        ("u",),
        variable_values={"x": 3.0, "seen": 0.0},
    )
    result = run(machine, 1.45, u=Sine(1.0, 1.0, -0.5, unit=""))
    low_after_high = ((3 + 1) * 2 + 10, 8)
    assert [result[f"m.{name}"][95] for name in ("x", "seen")] == list(low_after_high)
    assert result["m.x"][-1] == (18 + 1) * 2
    assert result["m.seen"][-1] == 38


@pytest.mark.slow
def test_state_machine_output_holds_its_value_in_states_that_do_not_set_it():
    machine = StateMachine(
        (State("a", {"y": "u"}), State("b", {"z": 1})),
        (Transition("a", "b", "elapsed >= 0.2"),),
        H,
        ("u",),
    )
    result = run(machine, 0.5, u=Ramp(1.0, unit=""))
    assert_allclose(result["m.y"], np.minimum(result.time, 0.19), atol=1e-12)
    assert np.array_equal(result["m.z"], result.time > 0.195)


@pytest.mark.parametrize(
    "guard",
    [
        "a > 0",
        "a <= b",
        "not a > b",
        "a > 0 and b > 0.2",
        "a > 0.3 or b > 0.2 and a < b",
        "not (a > 0 or b < 0)",
        "-0.5 < a < 0.2 and not -0.2 <= b <= 0.3",
        "a and not b",
        "2 * a - b / 4 + 1 > abs(-3) - c",
        "a + b >= min(c, 2) - max(1, c)",
    ],
)
def test_located_firing_time_of_a_guard_agrees_with_evaluation_on_a_fine_grid(guard, rng):
    conjunctions = compile_guard(guard, ("a", "b", "c"), "test")
    text = "a > 0.5 and not b > 0.5" if guard == "a and not b" else guard
    code = compile(text, "guard", "eval")
    grid = np.linspace(0.0, 1.0, 301)
    for _ in range(40):
        begin, close = (dict(zip("abc", rng.normal(size=3), strict=True)) for _ in range(2))
        close["c"] = begin["c"]  # min and max of it are constant, so the margins are linear
        found = float(first_fraction(conjunctions, begin, close))

        def holds(s, begin=begin, close=close):
            return eval(code, {k: begin[k] + s * (close[k] - begin[k]) for k in begin})

        true = next((k for k, s in enumerate(grid) if holds(s)), None)
        if true is not None:
            assert (grid[true - 1] if true else 0.0) - 1e-9 <= found <= grid[true] + 1e-9
        assert found > 1.0 - 1e-6 or holds(found + 1e-6)


def sampled_states(machine, inputs):
    """Return state and entry time at each sample; `inputs` contains the inputs of each sample."""
    x = Record({port.name: port.start for port in machine.sampled})
    p, found = Record({}), []
    for k, values in enumerate(inputs):
        u = Record(dict(zip(machine.input_names, values, strict=True)))
        step = machine.update if k else machine.initial
        with np.errstate(invalid="ignore"):
            x = Record({**vars(x), **step(k * H, x, u, p)})
        found.append((float(x.state), float(x.entered)))
    return np.array(found)


@pytest.mark.parametrize(
    ("rise", "fall"),
    [("u", "not u"), ("u > {}", "u <= {}"), ("u >= {}", "u < {}"), ("u >= {}", "u <= {}")],
)
@pytest.mark.parametrize("level", [0.1, 0.3, 0.37, 0.7, 0.95])
def test_opposite_guards_change_the_state_once_per_crossing(rise, fall, level):
    guards = (Transition("low", "high", rise.format(level)),)
    guards += (Transition("high", "low", fall.format(level)),)
    found = sampled_states(StateMachine(TWO, guards, H, ("u",)), [(u,) for u in (0, 1, 1, 0, 0)])
    s = 0.5 if rise == "u" else level
    assert found[:, 0].tolist() == [1, 2, 2, 1, 1]
    assert_allclose(found[:, 1], np.array([0, s, s, 3 - s, 3 - s]) * H, rtol=1e-12)


@pytest.mark.parametrize("values", [[(0, 0), (1, 1), (1, 1)], [(1, 1), (0, 0), (0, 0)]])
@pytest.mark.parametrize("guard", ["a and not b", "a > b", "a >= 0.3 and b < 0.3"])
def test_guard_that_is_false_for_equal_signals_does_not_fire_while_both_change(guard, values):
    machine = StateMachine(TWO, (Transition("low", "high", guard),), H, ("a", "b"))
    assert np.all(sampled_states(machine, values)[:, 0] == 1)


def test_guard_that_is_true_at_a_single_time_fires():
    machine = StateMachine(TWO, (Transition("low", "high", "0.25 <= a <= 0.25"),), H, ("a",))
    assert_allclose(sampled_states(machine, [(0,), (1,)])[1], [2, 0.25 * H], rtol=1e-12)


def test_strict_inequality_in_a_guard_is_false_at_its_threshold():
    for guard, expected in (("u > 1", 1), ("u >= 1", 2)):
        machine = StateMachine(TWO, (Transition("low", "high", guard),), H, ("u",))
        assert sampled_states(machine, [(0,), (1,), (1,)])[:, 0].tolist() == [1, expected, expected]


@pytest.mark.parametrize("guard", ["u > 0", "u >= 0", "u < 0", "u <= 0", "not u", "u"])
def test_guard_comparison_with_nan_is_false(guard):
    machine = StateMachine(TWO, (Transition("low", "high", guard),), H, ("u",))
    assert np.all(sampled_states(machine, [(np.nan,)] * 3)[:, 0] == 1)


def test_infinite_input_of_a_guard_exceeds_every_threshold():
    guards = (Transition("low", "high", "u > 2"), Transition("high", "low", "u <= 0.5"))
    machine = StateMachine(TWO, guards, H, ("u",))
    values = [(u,) for u in (np.inf, np.inf, np.inf, 0.2, 0.2)]
    assert sampled_states(machine, values)[:, 0].tolist() == [1, 2, 2, 2, 1]


@pytest.mark.parametrize("level", [0.23, 0.37, 0.51, 0.66])
def test_list_order_decides_between_transitions_at_equal_times_up_to_rounding(level):
    states = tuple(State(name) for name in ("start", "a", "b"))
    guards = [f"3 * u / 7 >= {3 * level / 7!r}", f"u >= {level}"]
    for first, last in (guards, guards[::-1]):
        ends = (Transition("start", "a", first), Transition("start", "b", last))
        machine = StateMachine(states, ends, H, ("u",))
        assert sampled_states(machine, [(0.1,), (1.3,)])[1, 0] == 2


@pytest.mark.slow
def test_parameters_of_state_machine_guards_are_tunable():
    machine = StateMachine(
        TWO, (Transition("low", "high", "u > level"),), H, ("u",), {"level": 0.5}
    )
    system = System()
    system.add("m", machine, start={"level": 0.25})
    system.add("u", Ramp(1.0, unit=""))
    system.connect("u.y", "m.u")
    assert simulate(system, 1.0, H)["m.entered"][-1] == pytest.approx(0.25)


@pytest.mark.slow
def test_state_machine_without_inputs_and_transitions_stays_in_its_state():
    result = run(StateMachine((State("only", {"y": "time"}),), (), H), 0.2)
    assert np.array_equal(result["m.state"], np.ones(21))
    assert_allclose(result["m.y"], result.time)


@pytest.mark.slow
def test_guard_that_is_true_at_the_start_fires_at_the_start_time():
    machine = StateMachine(TWO, (Transition("low", "high", "u >= 1"),), H, ("u",))
    result = run(machine, 0.1, u=Constant(1.0))
    assert result["m.state"].tolist() == [1.0] + [2.0] * 10
    assert result["m.entered"][-1] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state_list": ()}, "one or more states"),
        ({"state_list": (State("low"), State("low"))}, "different names"),
        ({"state_list": ("low", "high")}, r"needs objects State\(...\), not 'low'"),
        ({"transitions": (Transition("low", "hihg", "u > 0"),)}, r"did you mean high\?"),
        ({"transitions": (Transition("low", "high", "v > 0"),)}, "unknown name 'v'; available: u"),
        ({"transitions": (Transition("low", "high", "u == 1"),)}, "'u == 1'; a guard consists of"),
        ({"transitions": (Transition("low", "high", "u +"),)}, "is not a valid expression"),
        ({"transitions": (Transition("low", "high", "u ** 2 > 1"),)}, r"contains 'u \*\* 2'"),
        ({"transitions": (Transition("low", "high", "u > 0", {"n": 1}),)}, "unknown variable 'n'"),
        ({"state_list": (State("low", {"time": 1}), State("high"))}, "'time' cannot be the name"),
        ({"input_names": ("u", "u")}, "'u' cannot be the name"),
        ({"units": {"w": "m"}}, "a unit is given for 'w'"),
        ({"sample_time": 0.0}, "sample_time must be positive"),
    ],
)
def test_invalid_state_machine_is_rejected(options, message):
    valid = {
        "state_list": TWO,
        "transitions": (Transition("low", "high", "u > 0"),),
        "sample_time": H,
        "input_names": ("u",),
    }
    StateMachine(**valid)
    with pytest.raises(ValueError, match=message):
        StateMachine(**valid | options)


def test_state_machine_diagram_shows_states_guards_and_actions():
    machine = StateMachine(
        (State("low", {"y": 0.5}), State('"high"', entry={"n": "n + 1"})),
        (Transition("low", '"high"', "u < 0.02", {"n": "0"}),),
        H,
        ("u",),
        variable_values={"n": 0.0},
    )
    assert machine.draw().splitlines() == [
        "flowchart LR",
        "    begin((start)) --> state1",
        '    state1("low<br>y = 0.5")',
        '    state2("#34;high#34;<br>entry: n = n + 1")',
        '    state1 -->|"u #60; 0.02<br>n = 0"| state2',
    ]
    assert machine.draw()._repr_markdown_().startswith("```mermaid\n")


@pytest.mark.slow
def test_pickled_state_machine_computes_the_same_signals():
    machine = StateMachine(TWO, (Transition("low", "high", "u > 0.5"),), H, ("u",))
    results = [
        run(one, 1.0, u=Ramp(1.0, unit=""))
        for one in (machine, pickle.loads(pickle.dumps(machine)))
    ]
    assert np.array_equal(*(one["m.entered"] for one in results))
