"""FMUs in the C master loop, with events and all value types: runs equal the Python loop."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from any_models import (
    BOUNCING_BALL,
    CLOCKS,
    DAHLQUIST,
    FEEDTHROUGH,
    PARTITIONS,
    RESOURCE,
    STAIR,
    STATE_SPACE,
    TICKS,
    VAN_DER_POL,
    AnyModel,
    Variable,
    any_fmu,
)
from rigidblocks import (
    PDController,
    RobotPlant,
    SimulationError,
    Sine,
    System,
    export_fmu,
    planar2,
    prepare,
    simulate,
)
from rigidblocks.cosim.fmu_import.fmu_instance import FmuInstance, RunningFmu, ScheduledInstance
from rigidblocks.cosim.fmu_import.model_exchange import ExchangeInstance

EVENT_MODE = 'hasEventMode="true" mightReturnEarlyFromDoStep="true"'
FIXED_STEPS = {"model exchange": {"method": "rk4", "h": 2e-3}}
TYPES = [v.type for v in FEEDTHROUGH.variables if v.causality == "input"]


def with_event_mode(model, **fields):
    fields = {"name": f"{model.name}Events", "attributes": EVENT_MODE, **fields}
    return replace(model, **fields)


WITHOUT_EVENTS = (BOUNCING_BALL, DAHLQUIST, FEEDTHROUGH, RESOURCE, STAIR, STATE_SPACE, VAN_DER_POL)
WITH_EVENTS = (
    *map(with_event_mode, (BOUNCING_BALL, DAHLQUIST, FEEDTHROUGH, STAIR, STATE_SPACE)),
    with_event_mode(STAIR, name="Refusing", without_events="enter"),
    with_event_mode(STAIR, name="Iterating", updates=7),
)
CASES = [
    *((model, 3) for model in (*WITHOUT_EVENTS, *WITH_EVENTS)),
    *((model, 2) for model in WITHOUT_EVENTS if model is not STATE_SPACE),  # FMI 2 has no arrays
]


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return a function that builds the FMU of a model for an FMI version."""
    folder = tmp_path_factory.mktemp("fmus")
    return cache(lambda model, version: any_fmu(folder, model, version, y="a"))


@pytest.fixture
def only_in_c(monkeypatch):
    """Return a function that runs a system in the C loop, and fails if Python steps an FMU."""

    def run(*arguments, **options):
        def step(self, *times):
            raise AssertionError(f"Python steps {self.fmi.part.name} at {times}")

        with monkeypatch.context() as patched:
            for instance in (FmuInstance, ExchangeInstance, ScheduledInstance):
                patched.setattr(instance, "step", step)
            return simulate(*arguments, form="compiled", **options)

    return run


@pytest.fixture
def in_python(monkeypatch):
    """Return a function that runs a system, with the master loop and all steps in Python."""

    def run(*arguments, **options):
        with monkeypatch.context() as patched:
            patched.setattr(RunningFmu, "_c_step", lambda _: None)
            return simulate(*arguments, form="numpy", **options)

    return run


def system_of(path, **options):
    system = System()
    system.add("part", path, **options)
    return system


def assert_equal_runs(result, expected):
    for port in expected.ports:
        assert_array_equal(result[port.name], expected[port.name], err_msg=port.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "version"), CASES, ids=[f"{model.name} FMI {version}" for model, version in CASES]
)
@pytest.mark.parametrize("dt", [0.01, 0.37])
def test_fmu_results_of_the_c_master_loop_match_the_python_master_loop(
    fmu, only_in_c, in_python, model, version, dt
):
    system = system_of(fmu(model, version))
    result = only_in_c(system, 20 * dt, dt)
    assert_equal_runs(result, in_python(system, 20 * dt, dt))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["jacobi", "gauss-seidel"])
@pytest.mark.parametrize("attributes", ["", EVENT_MODE])
def test_c_master_loop_transfers_values_of_all_types_at_events(
    fmu, only_in_c, in_python, order, attributes
):
    """Discrete inputs change at every tenth communication point, the others at every point."""
    model = replace(FEEDTHROUGH, name=f"Values{len(attributes)}", attributes=attributes)
    system = System()
    system.add("stair", fmu(with_event_mode(STAIR), 3))
    system.add("first", fmu(model, 3))
    system.add("second", fmu(model, 3))
    system.connect("stair.counter", "first.Int32_input")
    for name in TYPES:
        system.connect(f"first.{name}_output", f"second.{name}_input")
    inputs = {
        "time": [0.0, 1.0, 2.5, 4.0],
        "first.Float64_input": [0.1, -2.0, np.pi, 1e300],
        "first.UInt64_input": [0, 2**53, 1, 7],
        "first.Int8_input": [-128, 127, 0, 1],
        "first.Boolean_input": [0, 1, 1, 0],
        "first.String_input": ["a", "", "longer text, 世界", "a"],
        "first.Binary_input": [b"", b"\x00\x01", b"\x00\x02", b"\x00"],
    }
    result = only_in_c(system, 5.0, 0.1, order=order, scenario=inputs)
    expected = in_python(system, 5.0, 0.1, order=order, scenario=inputs)
    assert_equal_runs(result, expected)
    assert set(expected["second.Int32_output"]) >= {1, 2, 3, 4}
    assert expected["second.UInt64_output"].max() == 2**53
    assert set(expected["second.String_output"]) >= {"a", "", "longer text, 世界"}
    assert set(expected["second.Binary_output"]) >= {b"", b"\x00\x01", b"\x00\x02", b"\x00"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        with_event_mode(STAIR, name="Terminating"),  # after 10 s
        with_event_mode(STAIR, name="Endless", updates=10**9),
        with_event_mode(BOUNCING_BALL, name="Failing", refuses="return m->v[1][0] < 0.5;"),
        replace(STAIR, name="Ending"),
    ],
    ids=lambda model: model.name,
)
def test_error_reports_of_fmus_are_equal_in_the_c_and_python_master_loops(
    fmu, only_in_c, in_python, model
):
    messages, times = [], []
    for run in (only_in_c, in_python):
        with pytest.raises(SimulationError) as caught:
            run(system_of(fmu(model, 3)), 12.0, 0.1)
        messages.append(str(caught.value))
        times.append(caught.value.result.time)
    assert messages[0] == messages[1]
    assert_array_equal(*times)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "message"),
    [(0.5, "cannot be 0.5: it takes integers from -128 to 127"), (128, "cannot be 128")],
)
def test_c_master_loop_reports_a_value_outside_the_range_of_its_type(
    fmu, only_in_c, in_python, value, message
):
    scenario = {"time": [0.0, 0.05], "part.Float64_input": [1.0, value]}
    system = system_of(fmu(FEEDTHROUGH, 3))
    system.add("other", fmu(FEEDTHROUGH, 3))
    system.connect("part.Float64_output", "other.Int8_input")
    for run in (only_in_c, in_python):
        with pytest.raises(SimulationError, match=message):
            run(system, 0.1, 0.01, scenario=scenario)


@pytest.mark.slow
@pytest.mark.parametrize("arrays", [True, False])
def test_exported_fmi_3_fmus_have_equal_results_in_the_c_and_python_master_loops(
    tmp_path, only_in_c, in_python, arrays
):
    system = System()
    pd = PDController([60.0, 30.0], [8.0, 4.0], sample_time=0.01)
    for name, block in (("robot", RobotPlant(planar2())), ("pd", pd)):
        path = tmp_path / f"{name}.fmu"
        system.add(name, export_fmu(block, path, fmi=3, arrays=arrays))
    for source, target in (("robot.q", "pd.q"), ("pd.tau", "robot.tau")):
        for end in ("",) if arrays else ("[1]", "[2]"):
            system.connect(f"{source}{end}", f"{target}{end}")
    result = only_in_c(system, 0.5, 0.01)
    assert_equal_runs(result, in_python(system, 0.5, 0.01))


# ---- clocks ----

INTERVALS = {"fixed": 0.1, "tunable": 0.25}  # [s]
CLOCKED = {  # models and start values
    "constant and countdown": (CLOCKS, {}),
    "set, changing and triggered": (TICKS, INTERVALS),
    "partitions": (PARTITIONS, {"hit": 1, "u": 0.25}),
}
CLOCKED_KINDS = [
    *((name, kind) for name in list(CLOCKED)[:2] for kind in ("co-simulation", "model exchange")),
    ("partitions", "scheduled execution"),
]


@pytest.mark.parametrize(("name", "kind"), CLOCKED_KINDS)
@pytest.mark.parametrize("dt", [0.01, 0.1, 0.5])
def test_clocks_tick_at_equal_times_in_the_c_and_python_master_loops(
    fmu, only_in_c, in_python, name, kind, dt
):
    model, start = CLOCKED[name]
    system = System()
    for part in ("a", "b"):
        system.add(part, fmu(model, 3), kind=kind, start=start, **FIXED_STEPS.get(kind, {}))
    if model is TICKS:
        system.connect("a.out", "b.hit")
    for order in ("gauss-seidel", "jacobi"):
        result = only_in_c(system, 0.3 + 10 * dt, dt, order=order, t_start=0.3)
        expected = in_python(system, 0.3 + 10 * dt, dt, order=order, t_start=0.3)
        assert_close_runs(result, expected, 1e-12)
        assert max(np.max(result[port.name]) for port in result.ports) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PARTITIONS, "'part': it has more than 1000 events at the same time at t = 0.1 s"),
        (
            replace(CLOCKS, name="Impatient", interval="*value = 0.0; return r == 2 ? 2 : 0;"),
            "'part': it has more than 1000 events at the same time at t = 0 s",
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_endless_clock_ticks_at_one_time_are_reported_by_the_c_and_python_master_loops(
    fmu, only_in_c, in_python, model, message
):
    """A countdown clock ticks again after 0 s, at each tick."""
    starts = {"hit": 0, "u": 0.0} if model is PARTITIONS else {}
    inputs = {"time": [0.0, 0.1], "part.u": [0.0, -1.0]}
    for run in (only_in_c, in_python):
        with pytest.raises(SimulationError, match=message):
            run(system_of(fmu(model, 3), start=starts), 0.5, 0.1, scenario=inputs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Int64", "UInt64"])
def test_integer_output_just_above_the_exact_range_of_doubles_is_rejected(fmu, only_in_c, kind):
    """A conversion to double rounds 2^53 + 1 to 2^53, which is in the range."""
    output = Variable("n", 1, "output", kind, "discrete", (0,))
    motion = "m->v[1][0] = m->t > 0.25 ? 9007199254740993LL : 9007199254740992LL;"
    system = system_of(fmu(AnyModel(f"Large{kind}", [output], motion=motion), 3))
    assert only_in_c(system, 0.2, 0.1)["part.n"][-1] == 2**53
    with pytest.raises(SimulationError, match=r"its n is 9007199254740993; .* up to 2\^53"):
        only_in_c(system, 0.5, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.02, 0.3])
def test_fmu_clocks_stop_if_the_fmu_rejects_event_mode(fmu, only_in_c, in_python, caplog, dt):
    """Only the tick at the start time is in the event mode after the initialization."""
    model = replace(CLOCKS, name="Rejecting", without_events="enter")
    for run in (only_in_c, in_python):
        result = run(system_of(fmu(model, 3)), 10 * dt, dt)
        assert_array_equal(result["part.ticks"], np.ones(11))
    assert "rejects event mode" in caplog.text


def test_countdown_clock_with_interval_zero_ticks_again_at_the_same_time(fmu, only_in_c, in_python):
    """At each third tick of the constant clock, the countdown clock ticks after 0 s."""
    known = "r == 2 && m->v[9][0] != 0 ? 2 : 0; m->v[9][0] = 0;"
    interval = f"*value = 0.0; const int known = {known} return known;"
    model = replace(CLOCKS, name="Immediate", interval=interval)
    for kind in ("co-simulation", "model exchange"):
        for run in (only_in_c, in_python):
            result = run(system_of(fmu(model, 3), kind=kind), 1.0, 0.1)
            assert_array_equal(result["part.ticks"], np.arange(1, 12))
            assert_array_equal(result["part.rings"], np.arange(1, 12) // 3)
            assert_array_equal(result["part.rang"][1:], np.arange(2, 12) % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["co-simulation", "model exchange"])
@pytest.mark.parametrize(
    ("model", "clock", "value", "allowed"),
    [
        (TICKS, "changing", "0", "positive"),
        (TICKS, "changing", "-1", "positive"),
        (TICKS, "changing", "nan", "positive"),
        (CLOCKS, "later", "-1", "at least 0"),
        (CLOCKS, "later", "nan", "at least 0"),
    ],
)
def test_invalid_interval_of_an_fmu_is_reported_with_the_clock(
    fmu, only_in_c, in_python, model, clock, value, allowed, kind
):
    """The interval becomes invalid after 0.2 s."""
    number = "NAN" if value == "nan" else value
    reference = {"changing": 4, "later": 2}[clock]
    valid = "0.1" if model is TICKS else "1.0"
    interval = f"*value = m->t > 0.15 ? {number} : {valid}; return r == {reference} ? 2 : 0;"
    name = f"{model.name}{'Nan' if value == 'nan' else -int(value)}"
    start = INTERVALS if model is TICKS else {}
    message = rf"'part': its clock {clock} has the interval {value}(\.0)? s; .*must be {allowed}"
    part = fmu(replace(model, name=name, interval=interval), 3)
    for run in (only_in_c, in_python):
        with pytest.raises(SimulationError, match=message):
            run(system_of(part, kind=kind, start=start), 0.5, 0.05)


def test_fmu_for_scheduled_execution_logs_no_warning_about_its_clocks(fmu, caplog):
    simulate(system_of(fmu(PARTITIONS, 3), start={"hit": 0, "u": 0.0}), 0.2, 0.1)
    assert "never tick" not in caplog.text


# ---- model exchange ----

# events: bounces by an indicator, and steps of a counter at event times
EXCHANGE = (BOUNCING_BALL, DAHLQUIST, FEEDTHROUGH, STAIR, STATE_SPACE, VAN_DER_POL)
METHODS = {
    "adaptive": {"rtol": 1e-6},
    "rk4": {"method": "rk4", "h": 2e-3},
    "euler": {"method": "euler", "h": 1e-3},
}


def exchange_models():
    return [
        pytest.param(model, version, id=f"{model.name} FMI {version}")
        for model in EXCHANGE
        for version in (2, 3)
        if version == 3 or model is not STATE_SPACE
    ]


OSCILLATOR = replace(
    STATE_SPACE,
    name="Oscillator",
    variables=[
        Variable("u", 1, "input", start=(0.0,)),
        Variable("x", 2, "output", start=(0.0,)),
        Variable("v", 3, "output", start=(0.0,)),
        Variable("der_x", 4, more='derivative="2"'),
        Variable("der_v", 5, more='derivative="3"'),
    ],
    states=(2, 3),
    rates=(4, 5),
    motion="""
dx[0] = m->v[4][0] = m->v[3][0];
dx[1] = m->v[5][0] = m->v[1][0] - m->v[2][0];""",
)


def driven_oscillator(tmp_path_factory, version):
    """Return the FMU of the equation x'' = u - x."""
    return any_fmu(tmp_path_factory.mktemp("oscillator"), OSCILLATOR, version)


def assert_close_runs(result, expected, tolerance):
    for port in expected.ports:
        compare = (
            assert_array_equal
            if port.type in ("String", "Binary")
            else partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
        )
        compare(result[port.name], expected[port.name], err_msg=port.name)


@pytest.mark.parametrize(("model", "version"), exchange_models())
@pytest.mark.parametrize(
    ("method", "dt"),
    [
        ("adaptive", 0.05),
        *(
            pytest.param(method, dt, marks=pytest.mark.slow)
            for method in METHODS
            for dt in (0.05, 0.37)
            if (method, dt) != ("adaptive", 0.05)
        ),
    ],
)
def test_model_exchange_results_of_the_c_master_loop_match_the_python_master_loop(
    fmu, only_in_c, in_python, model, version, method, dt
):
    """Explicit steps in Python end at each communication point, adaptive steps in C need not."""
    system = system_of(fmu(model, version), kind="model exchange", **METHODS[method])
    result = only_in_c(system, 60 * dt if dt < 0.1 else 8 * dt, dt)
    expected = in_python(system, result.time[-1], dt)
    if method == "adaptive":
        assert_close_runs(result, expected, 1e-5)
    else:
        assert_close_runs(result, expected, 1e-11)


@pytest.mark.parametrize("version", [2, 3])
def test_c_master_loop_solves_the_dahlquist_test_equation_within_the_tolerance(
    fmu, only_in_c, version
):
    """The solution of dx/dt = -k x is x = exp(-k t)."""
    for rtol in (1e-4, 1e-8, 1e-12):
        system = system_of(
            fmu(DAHLQUIST, version), kind="model exchange", rtol=rtol, start={"k": 3.0}
        )
        result = only_in_c(system, 4.0, 2.0)
        np.testing.assert_allclose(result["part.x"], np.exp(-3.0 * result.time), atol=5 * rtol)


@pytest.mark.parametrize("version", [2, 3])
def test_c_master_loop_locates_the_bounces_of_a_ball_up_to_rounding_errors(fmu, only_in_c, version):
    """A ball from the height 1 m bounces with e = 0.7 first at sqrt(2 h / g)."""
    system = system_of(fmu(BOUNCING_BALL, version), kind="model exchange")
    result = only_in_c(system, 0.8, 0.05)
    first = np.sqrt(2.0 / 9.81)
    v = np.where(result.time < first, -9.81 * result.time, 0.7 * 9.81 * first)
    v -= np.where(result.time < first, 0.0, 9.81 * (result.time - first))
    np.testing.assert_allclose(result["part.v"], v, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        replace(STAIR, name="Ending"),  # after 10 s
        replace(STAIR, name="Endless", updates=10**9),
        replace(DAHLQUIST, name="Explosive", motion="dx[0] = m->v[2][0] = exp(exp(9 * m->t));"),
        replace(BOUNCING_BALL, name="Failing", refuses="return m->v[1][0] < 0.5;"),
    ],
    ids=lambda model: model.name,
)
@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_model_exchange_error_reports_are_equal_in_the_c_and_python_master_loops(
    fmu, only_in_c, model, version
):
    messages = []
    for run in (only_in_c, partial(simulate, form="numpy")):
        with pytest.raises(SimulationError) as caught:
            run(system_of(fmu(model, version), kind="model exchange"), 12.0, 0.1)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["rk4", "adaptive", "stiff"])
@pytest.mark.parametrize("extrapolate", [1, 2])
def test_polynomial_inputs_of_a_model_exchange_fmu_are_set_in_each_stage(
    tmp_path_factory, in_python, version, method, extrapolate
):
    """The C steps equal the Python steps, and converge to x'' = u - x with u = sin 3 t."""
    options = {"h": 5e-3} if method == "rk4" else {"rtol": 1e-9}
    path, dt = driven_oscillator(tmp_path_factory, version), 0.05

    def system():
        found = system_of(path, kind="model exchange", method=method, **options)
        found.add("sine", Sine(frequency=3.0 / (2.0 * np.pi), unit="1"))
        found.connect("sine.y", "part.u")
        return found

    errors = []
    for h in (dt, dt / 2):
        result = simulate(system(), 4.0, h, extrapolate=extrapolate)
        t = result.time
        x = (3.0 * np.sin(t) - np.sin(3.0 * t)) / 8.0
        errors.append(np.abs(result["part.x"] - x).max())
        if method != "stiff":  # Python has no implicit steps
            expected = in_python(system(), 4.0, h, extrapolate=extrapolate)
            tolerance = 1e-11 if method == "rk4" else 1e-7
            assert_close_runs(result, expected, tolerance)
    order = np.log2(errors[0] / errors[1])
    assert order > extrapolate + 0.7, errors


@pytest.mark.parametrize("version", [2, 3])
def test_run_of_a_model_exchange_fmu_continues_from_a_saved_state(fmu, version):
    run = prepare(system_of(fmu(BOUNCING_BALL, version), kind="model exchange"), 0.05)
    run.step(11)
    moment, heights = run.save(), []
    for _ in range(3):
        run.restore(moment)
        heights.append([])
        for _ in range(20):
            run.step()
            heights[-1].append(run["part.h"])
    run.close()
    assert heights[0] == heights[1] == heights[2]
