"""FMI 1.0 FMUs: runs equal the simulation of FMPy and closed forms."""

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fmi1_fmus import Model, Variable, fmi1_fmu
from hosts import run_in_ecos, run_in_libcosim
from rigidblocks import SimulationError, Sine, Step, System, prepare, simulate
from rigidblocks.cosim.fmu_import.fmu_instance import FmuInstance, RunningFmu
from rigidblocks.cosim.fmu_import.library_sharing import reuse_of
from rigidblocks.cosim.fmu_import.model_exchange import ExchangeInstance
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.hil.fmu_tables import check_fmu

ROUNDING = 1e-13
LOCATED = 3e-6  # FMPy's CVode has a tolerance of 1e-9, and locates a bounce to about 1e-6
T, DT = 2.0, 0.01

BALL = Model(
    "Ball",
    [
        Variable("h", 1, "output", value='start="1.0" fixed="true"'),
        Variable("v", 2, "output", value='start="0.0"'),
        Variable("e", 3, variability="parameter", value='start="0.7"'),
        Variable("down", 2, "output", more='alias="negatedAlias"'),
    ],
    start="m->r[1] = 1.0, m->r[3] = 0.7;",
    rates="dx[0] = m->r[2], dx[1] = -9.81;",
    indicators="z[0] = m->r[1];",
    update="""
if (m->r[1] <= 0 && m->r[2] < 0)
    m->r[1] = 1e-300, m->r[2] *= -m->r[3], m->event.stateValuesChanged = 1;""",
    states=(1, 2),
    n_indicators=1,
)
STAIR = Model(
    "Stair",
    [Variable("counter", 1, "output", "Integer", "discrete")],
    start="m->n[1] = 0;",
    update="""
m->n[1]++;
m->event.upcomingTimeEvent = 1, m->event.nextEventTime = 0.1 * (m->updates + 1);""",
)
SAW = Model(
    "Saw",
    [Variable("x", 1, "output"), Variable("teeth", 1, "output", "Integer", "discrete")],
    rates="dx[0] = 1.0;",
    step_event="return m->r[1] > 0.355;",
    update="""
if (m->r[1] > 0.355)
    m->r[1] -= 0.35, m->n[1]++, m->event.stateValuesChanged = 1;""",
    states=(1,),
)
# y' = gain u + n + b, with updates of n and b only at events, which take three iterations
DRIVEN = Model(
    "Driven",
    [
        Variable("u", 1, "input", value='start="0.5"'),
        Variable("n", 1, "input", "Integer", "discrete", 'start="0"'),
        Variable("b", 1, "input", "Boolean", "discrete", 'start="false"'),
        Variable("y", 2, "output", depends=()),
        Variable("through", 3, "output", depends=("u",)),
        Variable("updates", 3, "output", "Integer", "discrete"),
        Variable("gain", 4, variability="parameter", value='start="1.0"'),
        Variable("twice", 5, variability="parameter"),
        Variable("held", 6, "output", variability="discrete", depends=()),
        Variable("y0", 7, "output", depends=()),
    ],
    start="m->r[1] = 0.5, m->r[4] = 1.0;",
    initialize="m->r[5] = 2 * m->r[4], m->r[7] = m->r[2] = 10 * m->r[1];",
    rates="m->r[3] = 2 * m->r[1], dx[0] = m->r[4] * m->r[1] + m->r[6];",
    update="""
m->n[2] = m->updates ? (m->n[2] + 1) % 3 : 0;
if (m->n[2])
    m->event.iterationConverged = 0;
else
    m->n[3]++, m->r[6] = m->n[1] + m->b[1];""",
    states=(2,),
)
KINDS = ("Real", "Integer", "Enumeration", "Boolean", "String")
STARTS = ("1.0", "2", "1", "true", "no")
TYPES = Model(
    "Types",
    [
        *(
            Variable(
                f"{kind}_{causality}",
                2 * (kind == "Enumeration") + k,
                causality,
                kind,
                "",
                value=("" if k else f'start="{start}"')
                + (' declaredType="Mode"' if kind == "Enumeration" else ""),
                depends=(f"{kind}_input",) if k else None,
            )
            for kind, start in zip(KINDS, STARTS, strict=True)
            for k, causality in enumerate(("input", "output"))
        ),
        Variable("minus_real", 1, "output", more='alias="negatedAlias"'),
        Variable("minus_integer", 1, "output", "Integer", "", more='alias="negatedAlias"'),
        Variable("not", 1, "output", "Boolean", "", more='alias="negatedAlias"'),
        Variable("against", 4, "input", value='start="0.25"', more='alias="negatedAlias"'),
        Variable("with", 4, "output", more='alias="alias"'),
        Variable("steps", 7, "output", "Integer", "discrete"),
    ],
    types="""<Type name="Mode"><EnumerationType>
<Item name="off"/><Item name="on"/><Item name="auto"/></EnumerationType></Type>""",
    start='m->r[0] = 1.0, m->n[0] = 2, m->n[2] = 1, m->b[0] = 1, strcpy(m->s[0], "no");',
    step="""
m->r[1] = m->r[0], m->n[1] = m->n[0], m->n[3] = m->n[2], m->b[1] = m->b[0] ? 2 : 0;
memcpy(m->s[1], m->s[0], 64), m->n[7]++;
return 0;""",
    is_slave=True,
    capabilities="",
)


def system_of(fmu, **options) -> System:
    system = System()
    system.add("part", fmu, **options)
    return system


@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", [BALL, STAIR], ids=lambda model: model.name)
def test_results_of_fmi_1_model_exchange_match_the_results_of_fmpy(model, isolated, tmp_path):
    path = fmi1_fmu(tmp_path, model)
    options = {"method": "adaptive", "rtol": 1e-10, "isolated": isolated}
    result = simulate(system_of(path, **options), T, DT)
    settings = {"record_events": False, "relative_tolerance": 1e-9, "output_interval": DT}
    other = fmpy.simulate_fmu(str(path), stop_time=T, **settings)
    for v in model.variables:
        if v.causality == "output" and not v.more:
            assert np.ptp(other[v.name]) > 0.1
            assert_allclose(result[f"part.{v.name}"], other[v.name], rtol=LOCATED, atol=LOCATED)


def test_bouncing_ball_in_an_fmi_1_fmu_matches_the_closed_form_of_its_bounces(tmp_path):
    g, e = 9.81, 0.6
    first = np.sqrt(2 / g)
    fmu = fmi1_fmu(tmp_path, BALL)
    system = system_of(fmu, rtol=1e-12, method="adaptive", start={"e": e, "v": 0.0})
    result = simulate(system, 0.9, DT)
    t = result.time
    assert_allclose(result["part.h"][t < first], 1 - g * t[t < first] ** 2 / 2, atol=1e-12)
    in_flight = (t > first) & (t < first * (1 + 2 * e))
    flight = t[in_flight] - first
    assert len(flight) > 30
    expected = e * g * first * flight - g * flight**2 / 2
    assert_allclose(result["part.h"][in_flight], expected, atol=1e-12)
    assert_array_equal(result["part.down"], -result["part.v"])


@pytest.mark.parametrize("n", [1, 10])
def test_step_event_of_an_fmi_1_fmu_occurs_after_the_inner_step_that_causes_it(tmp_path, n):
    """x grows with t, and loses 0.35 after each inner step of DT / n that ends above 0.355."""
    system = system_of(fmi1_fmu(tmp_path, SAW), method="euler", h=DT / n)
    result = simulate(system, T, DT)
    first = int(np.floor(35.5 * n)) + 1  # inner step
    teeth = np.maximum(0, (np.arange(0, 201) * n - first) // (35 * n) + 1)
    assert_array_equal(result["part.teeth"], teeth)
    assert_allclose(result["part.x"], result.time - 0.35 * teeth, atol=ROUNDING * 100 * n)
    assert teeth[-1] == 5


def test_fmi_1_model_is_initialized_with_the_values_of_its_connected_inputs(tmp_path):
    """y(t) = 10 u(0) + the integral of the input 3 + sin t, and an update for each change."""
    system = system_of(fmi1_fmu(tmp_path, DRIVEN), method="adaptive", rtol=1e-10)
    system.add("source", Sine(amplitude=1.0, frequency=1.0, offset=3.0))
    system.connect("source.y", "part.u")
    dt, t_stop = 1e-3, 1.0
    result = simulate(system, t_stop, dt)
    assert_array_equal(result["part.y0"], 30.0)
    assert_array_equal(result["part.updates"], 1)
    assert_allclose(result["part.through"][1:-1], 2 * result["source.y"][1:-1, 0], atol=0.02)
    assert result["part.y"][-1] == pytest.approx(30.0 + 3.0 * t_stop, abs=2e-3)


def test_discrete_inputs_of_an_fmi_1_fmu_change_only_at_events(tmp_path):
    """y' = 0.5 + n + b, with the inputs of FMPy's run."""
    path = fmi1_fmu(tmp_path, DRIVEN)
    system = system_of(path, method="adaptive", rtol=1e-10)
    for name, source in {"n": Step(0.245, 0.0, 4.0, ""), "b": Step(0.495, unit="")}.items():
        system.add(name, source)
        system.connect(f"{name}.y", f"part.{name}")
    result = simulate(system, 1.0, DT, order="jacobi")
    rows = [(0.0, 0, False), (0.25, 0, False), (0.25, 4, False), (0.5, 4, False), (0.5, 4, True)]
    signals = np.array(rows, dtype=[("time", float), ("n", int), ("b", bool)])
    other = fmpy.simulate_fmu(
        str(path),
        stop_time=1.0,
        output_interval=DT,
        input=signals,
        record_events=False,
        relative_tolerance=1e-9,
        output=["y", "updates", "held"],
    )
    between = np.delete(np.arange(101), [25, 50])  # not at the events, where FMPy shows them
    for name in ("updates", "held"):
        assert_array_equal(result[f"part.{name}"][between], other[name][between])
    assert result["part.updates"][-1] == 3
    assert_allclose(result["part.y"], other["y"], atol=LOCATED)
    assert result["part.y"][-1] == pytest.approx(5.0 + 0.5 + 0.75 * 4 + 0.5)


def test_initialization_of_an_fmi_1_model_iterates_until_convergence(tmp_path):
    update = "m->event.iterationConverged = ++m->n[3] == 3, m->r[6] = m->n[3] + m->n[1];"
    path = fmi1_fmu(tmp_path, DRIVEN._replace(name="Iterated", update=update))
    result = simulate(system_of(path, start={"n": 7}), 2 * DT, DT)
    assert_array_equal(result["part.updates"], 3)
    assert_array_equal(result["part.held"], 10.0)


def test_fmi_1_slave_transfers_values_of_all_types_and_of_negated_aliases(tmp_path):
    path = fmi1_fmu(tmp_path, TYPES)
    start = {"Real_input": -1.5, "Integer_input": 7, "Enumeration_input": 3}
    start |= {"Boolean_input": True, "String_input": "wörld", "against": 0.5}
    system = system_of(path, start=start)
    system.add("next", path)
    for kind in KINDS:
        system.connect(f"part.{kind}_output", f"next.{kind}_input")
    system.connect("part.minus_real", "next.against")
    result = simulate(system, 3 * DT, DT, order="jacobi")
    for name in ("part", "next"):
        last = [result[f"{name}.{kind}_output"][-1] for kind in KINDS]
        assert last == [-1.5, 7, 3, True, "wörld"]
        assert [result[f"{name}.{one}"][-1] for one in ("minus_real", "minus_integer")] == [1.5, -7]
        assert not result[f"{name}.not"][-1]
    assert result["part.with"][-1] == -0.5
    assert result["next.with"][-1] == -1.5
    assert result["part.steps"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("inputs", [{}, {"Real_input": 2.5, "Integer_input": -4}])
def test_fmi_1_slave_matches_the_results_of_fmpy(tmp_path, inputs):
    path = fmi1_fmu(tmp_path, TYPES)
    result = simulate(system_of(path, start=inputs), T, DT)
    settings = {"output_interval": DT, "start_values": inputs}
    # no validation: the variability of the integers is missing
    other = fmpy.simulate_fmu(str(path), stop_time=T, validate=False, **settings)
    for name in ("Real_output", "Integer_output", "Enumeration_output", "Boolean_output", "steps"):
        assert_array_equal(result[f"part.{name}"], other[name])


@pytest.mark.parametrize("model", [BALL, STAIR, SAW, DRIVEN, TYPES], ids=lambda model: model.name)
def test_results_of_an_fmi_1_fmu_are_equal_in_the_c_and_python_master_loops(
    model, tmp_path, monkeypatch
):
    """Adaptive steps in C may be longer than communication steps; a step event ends such a step."""
    adaptive = {"method": "adaptive", "rtol": 1e-10}
    kind = {} if model.is_slave else {"method": "rk4"} if model is SAW else adaptive
    inputs = {"Boolean_input": False, "Enumeration_input": 3} if model is TYPES else {}
    system = system_of(fmi1_fmu(tmp_path, model), start=inputs, **kind)
    if model is DRIVEN:
        system.add("wave", Sine(amplitude=1.0, frequency=1.0))
        system.connect("wave.y[1]", "part.u")

    def no_step(self, t, dt):
        raise AssertionError(f"Python steps {self.fmi.part.name} from {t} by {dt}")

    with monkeypatch.context() as patched:
        patched.setattr(FmuInstance, "step", no_step)
        patched.setattr(ExchangeInstance, "step", no_step)
        result = simulate(system, T, DT, form="compiled")
    monkeypatch.setattr(RunningFmu, "_c_step", lambda _: None)
    expected = simulate(system, T, DT, form="numpy")  # the Python master
    for port in expected.ports:
        if port.type == "String":
            assert_array_equal(result[port.name], expected[port.name])
        else:
            assert_allclose(result[port.name], expected[port.name], rtol=1e-8, atol=1e-8)


def test_capabilities_that_fmi_1_does_not_define_are_false(tmp_path):
    fmu = Fmu(fmi1_fmu(tmp_path, TYPES))
    assert not fmu.takes_any_step
    assert fmu.version == 1
    assert fmu.kind == "co-simulation"
    assert fmu.enumeration_items("Enumeration_input", 0) == {"off": 1, "on": 2, "auto": 3}
    with pytest.raises(FmuError, match="does not support model exchange; it supports: co-sim"):
        Fmu(fmu.path, kind="model exchange")


def test_direct_dependencies_of_an_fmi_1_fmu_define_its_feedthrough(tmp_path):
    fmu = Fmu(fmi1_fmu(tmp_path, DRIVEN))
    inputs = {port.name for port in fmu.inputs}
    undeclared = {(u, "updates") for u in inputs}
    assert fmu.feedthrough == {("u", "through")} | undeclared
    assert [port.name for port in fmu.parameters] == ["gain"]  # `twice` is calculated


SLAVE = Model(
    "Slave",
    [
        Variable("u", 0, "input", value='start="0"'),
        Variable("y", 1, "output"),
        Variable("i", 2, "output"),
    ],
    step="m->r[1] = 2 * m->r[0]; return 0;",
    is_slave=True,
)


def test_fmi_1_slave_receives_the_derivatives_of_polynomial_inputs(tmp_path):
    """The slave integrates u over each step, with the derivative that it has received."""
    step = "m->r[3] = m->r[8], m->r[2] += dt * (m->r[0] + dt * m->r[8] / 2); return 0;"
    variables = [*SLAVE.variables, Variable("slope", 3, "output")]
    model = SLAVE._replace(
        name="Follower", step=step, variables=variables, capabilities='canInterpolateInputs="1"'
    )
    system = system_of(fmi1_fmu(tmp_path, model))
    system.add("source", Sine(amplitude=1.0, frequency=1.0))
    system.connect("source.y", "part.u")
    result = simulate(system, 0.5, DT, extrapolate=1, order="jacobi")
    u = result["source.y"][:, 0]
    assert_allclose(result["part.slope"][2:], np.diff(u)[:-1] / DT, rtol=1e-9, atol=1e-9)
    expected = (1 - np.cos(2 * np.pi * result.time)) / (2 * np.pi)
    assert_allclose(result["part.i"], expected, atol=(2 * np.pi * DT) ** 2)


@pytest.mark.parametrize(
    ("platform", "binary"),
    [
        (fmpy.platform.title(), None),
        (fmpy.platform_tuple, None),
        (fmpy.platform, "another"),
        (fmpy.platform.upper(), "another"),
    ],
)
def test_fmi_1_library_is_found_in_a_platform_folder_with_a_nonstandard_name(
    tmp_path, platform, binary
):
    path = fmi1_fmu(tmp_path, SLAVE, platform=platform, binary=binary)
    result = simulate(system_of(path, start={"u": 4.0}), DT, DT)
    assert result["part.y"].tolist() == [0.0, 8.0]


def test_error_for_an_fmi_1_fmu_without_this_platform_lists_its_platforms(tmp_path):
    path = fmi1_fmu(tmp_path, SLAVE, platform="amiga")
    with pytest.raises(FmuError, match=f"no binary for {fmpy.platform}; it has: amiga"):
        system_of(path)


@pytest.mark.parametrize(
    ("status", "name"), [(2, "discard"), (3, "error"), (4, "fatal"), (5, "pending")]
)
def test_error_status_of_an_fmi_1_step_ends_the_run_with_the_last_message_of_the_fmu(
    tmp_path, status, name
):
    step = f"""
if (m->t < 0.015)
    return 0;
m->callbacks.logger(m, m->name, {status}, "log", "%s: %d bolts are loose", "drive", 3);
return {status};"""
    path = fmi1_fmu(tmp_path, SLAVE._replace(name=name, step=step))
    message = f"'part': fmiDoStep gave status {name} at t = 0.02 s.*drive: 3 bolts are loose"
    with pytest.raises(SimulationError, match=message) as error:
        simulate(system_of(path), 0.1, DT)
    assert len(error.value.result.time) == 3


def test_warnings_of_an_fmi_1_fmu_are_logged_and_the_run_continues(tmp_path, caplog):
    step = "m->r[1]++; return 1;"
    path = fmi1_fmu(tmp_path, SLAVE._replace(name="Warner", step=step))
    result = simulate(system_of(path), 2 * DT, DT)
    assert result["part.y"].tolist() == [0.0, 1.0, 2.0]
    assert "'part': fmiDoStep gave status warning at t = 0 s" in caplog.text


def test_messages_of_two_fmi_1_instances_are_logged_with_their_parts(tmp_path, caplog):
    step = 'm->callbacks.logger(m, m->name, 1, "log", "u is %g", m->r[0]); return 1;'
    path = fmi1_fmu(tmp_path, SLAVE._replace(name="Speaker", step=step))
    system = System()
    for k, name in enumerate("ab"):
        system.add(name, path, start={"u": k + 0.5})
    simulate(system, DT, DT)
    assert "'a': u is 0.5 (at t = 0 s)" in caplog.text
    assert "'b': u is 1.5 (at t = 0 s)" in caplog.text


def test_failed_fmi_1_instantiation_is_reported_with_the_message_of_the_fmu(tmp_path):
    system = system_of(fmi1_fmu(tmp_path, SLAVE, guid="{2}"))
    with pytest.raises(FmuError, match=r"returned NULL; its log ends: the guid is \{2\}"):
        simulate(system, DT, DT)


def test_fmi_1_tool_slave_is_instantiated_with_the_mime_type_of_its_model(tmp_path):
    tool = '<Model entryPoint="fmu://resources/drive.x" type="application/x-drive"/>'
    variables = [*SLAVE.variables, Variable("mime", 3, "output", "String")]
    model = SLAVE._replace(
        name="Tool", variables=variables, tool=tool, initialize="strcpy(m->s[3], m->mime);"
    )
    path = fmi1_fmu(tmp_path, model)
    result = simulate(system_of(path), DT, DT)
    assert result["part.mime"][-1] == "application/x-drive"
    assert Fmu(path).interface.needsExecutionTool


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [BALL, TYPES, TYPES._replace(name="Resetting", resets=True)],
    ids=lambda model: model.name,
)
def test_repeated_prepared_runs_of_fmi_1_fmus_have_equal_results(tmp_path, model):
    path = fmi1_fmu(tmp_path, model)
    expected = simulate(system_of(path), 0.6, DT)
    with prepare(system_of(path), DT) as prepared:
        for _ in range(3):
            assert_array_equal(prepared.simulate(0.6).values, expected.values)
    assert reuse_of(Fmu(path), 0.0, DT).resets == model.resets


@pytest.mark.interop
@pytest.mark.parametrize("host", [run_in_libcosim, run_in_ecos])
def test_coupled_fmi_1_slaves_match_the_results_of_other_masters(tmp_path, host):
    """A mass on a spring, in two FMUs."""
    pytest.importorskip({run_in_libcosim: "libcosimpy", run_in_ecos: "ecospy"}[host])
    mass = SLAVE._replace(
        name="Mass",
        start="m->r[1] = 1.0;",
        step="m->r[2] += dt * m->r[0], m->r[1] += dt * m->r[2]; return 0;",
        reads_early=True,
    )
    spring = mass._replace(name="Spring", start="", step="m->r[1] = -9.0 * m->r[0]; return 0;")
    fmus = {one.name: fmi1_fmu(tmp_path, one) for one in (mass, spring)}
    wires = [("Mass.y", "Spring.u"), ("Spring.y", "Mass.u")]
    found = host(fmus, wires, 200, DT, ["Mass.y", "Spring.y"])
    system = System()
    for name, path in fmus.items():
        system.add(name, path)
    for wire in wires:
        system.connect(*wire)
    result = simulate(system, 200 * DT, DT, order="jacobi")
    ours = np.column_stack([result["Mass.y"], result["Spring.y"]])
    assert_allclose(found, ours[1:], atol=1e-12)
    assert np.ptp(ours[:, 0]) > 1.5


def test_fmi_1_fmu_is_rejected_if_the_run_must_restore_states(tmp_path):
    system = system_of(fmi1_fmu(tmp_path, SLAVE))
    with pytest.raises(SimulationError, match="cannot restore an earlier state"):
        simulate(system, DT, DT, events=["part.y"])


def test_program_generation_rejects_fmi_1_fmus(tmp_path):
    part = system_of(fmi1_fmu(tmp_path, SLAVE)).parts["part"]
    with pytest.raises(ValueError, match=r"'part' is an FMI 1\.0 FMU, which a runner does not sup"):
        check_fmu(part)
