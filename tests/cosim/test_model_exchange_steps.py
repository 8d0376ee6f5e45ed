"""Inner steps of model exchange FMUs: tolerance, stiffness, Jacobian, and steps over several
communication points. The references are closed forms and SciPy's integrators.
"""

import re
import warnings
import zipfile
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from any_models import (
    BOUNCING_BALL,
    DAHLQUIST,
    STATE_SPACE,
    VAN_DER_POL,
    AnyModel,
    Variable,
    any_fmu,
)
from rigidblocks import SimulationError, System, prepare, simulate
from rigidblocks.cosim.fmu_import.model_exchange import ExchangeInstance, jacobian_sparsity

ME = "model exchange"
VERSIONS = [2, pytest.param(3, marks=pytest.mark.slow)]


def states_and_rates(n, start):
    """Return the variables of n states with the references 1 to n, and of their derivatives."""
    states = [Variable(f"x{k}", k, "output", start=(start[k - 1],)) for k in range(1, n + 1)]
    rates = [Variable(f"r{k}", n + k, more=f'derivative="{k}"') for k in range(1, n + 1)]
    return [*states, *rates]


def counted(model):
    """Return the model with an output `count`: evaluations of its equations."""
    count = Variable("count", 30, "output", start=(0.0,))
    motion = f"{model.motion} m->v[30][0]++;"
    return replace(model, variables=[*model.variables, count], motion=motion)


ROBERTSON = counted(
    AnyModel(
        "Robertson",
        states_and_rates(3, (1.0, 0.0, 0.0)),
        states=(1, 2, 3),
        rates=(4, 5, 6),
        motion="""
const double x = m->v[1][0], y = m->v[2][0], z = m->v[3][0];
dx[0] = -0.04 * x + 1e4 * y * z, dx[2] = 3e7 * y * y, dx[1] = -dx[0] - dx[2];""",
        dependencies={6: (2,)},
    )
)
TANGENT = """
const double y = m->v[2][0], z = m->v[3][0];
df[0] = -0.04 * dx[0] + 1e4 * (z * dx[1] + y * dx[2]), df[2] = 6e7 * y * dx[1];
df[1] = -df[0] - df[2];"""
N = 9
# heat conduction along a bar: each temperature depends on its neighbours
BAR = counted(
    AnyModel(
        "Bar",
        states_and_rates(N, [1.0, *[0.0] * (N - 1)]),
        states=range(1, N + 1),
        rates=range(N + 1, 2 * N + 1),
        motion=f"""
for (int k = 0; k < {N}; k++) {{
    const double x = m->v[k + 1][0], left = k ? m->v[k][0] : x;
    dx[k] = 1e4 * (left - 2 * x + (k < {N - 1} ? m->v[k + 2][0] : x));
}}""",
        dependencies={
            N + k: [j for j in (k - 1, k, k + 1) if 1 <= j <= N] for k in range(1, N + 1)
        },
    )
)


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return a function that builds the FMU of a model for an FMI version."""
    folder = tmp_path_factory.mktemp("fmus")
    return cache(lambda model, version: any_fmu(folder, model, version))


def run(path, t_end, dt, start=None, **options):
    system = System()
    system.add("part", path, kind=ME, start=start or {}, **options)
    return simulate(system, t_end, dt)


def evaluations(result):
    """Return the evaluations of the equations without those at the communication points."""
    return result["part.count"][-1] - len(result.time)


# ---- tolerance ----


@pytest.mark.parametrize("version", VERSIONS)
def test_tolerance_and_not_the_communication_step_determines_the_number_of_fmu_evaluations(
    fmu, version
):
    """The solution of dx/dt = -x is exp(-t)."""
    path, work = fmu(counted(DAHLQUIST), version), {}
    for rtol in (1e-3, 1e-6, 1e-9):
        for dt in (0.001, 0.01, 0.1):
            result = run(path, 5.0, dt, rtol=rtol)
            assert_allclose(result["part.x"], np.exp(-result.time), rtol=0, atol=3 * rtol)
            work[rtol, dt] = evaluations(result)
    for dt in (0.001, 0.01, 0.1):
        assert work[1e-3, dt] < 0.5 * work[1e-6, dt] < 0.25 * work[1e-9, dt]
    for rtol in (1e-3, 1e-6, 1e-9):
        assert work[rtol, 0.001] < 1.2 * work[rtol, 0.1] + 20


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "stiff", "adaptive rodas3", "radau"])
def test_outputs_inside_an_inner_step_are_as_accurate_as_outputs_at_its_end(fmu, method):
    path = fmu(VAN_DER_POL, 2)
    fine, coarse = (run(path, 6.0, dt, rtol=1e-6, method=method) for dt in (0.004, 0.5))
    reference = solve_ivp(
        lambda _, x: [x[1], (1 - x[0] ** 2) * x[1] - x[0]],
        (0, 6),
        [2, 0],
        "DOP853",
        fine.time,
        rtol=1e-12,
        atol=1e-12,
    ).y[0]
    errors = np.abs(fine["part.x0"] - reference)
    at_ends = np.abs(coarse["part.x0"] - reference[::125]).max()
    assert errors.max() < 4 * at_ends + 1e-6
    assert errors.max() < 1e-4


# ---- stiffness ----


def robertson(times):
    def rates(_, x):
        fast, slow = 1e4 * x[1] * x[2], 3e7 * x[1] ** 2
        return [fast - 0.04 * x[0], 0.04 * x[0] - fast - slow, slow]

    span = (0, times[-1])
    return solve_ivp(rates, span, [1, 0, 0], "LSODA", times, rtol=1e-10, atol=1e-14).y.T


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("has_derivatives", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_default_method_solves_a_stiff_fmu_with_few_evaluations(fmu, version, has_derivatives):
    """Explicit steps below the stability limit would need more than 1e6 evaluations."""
    calls = Variable("calls", 39, "output", start=(0.0,))
    exact = replace(
        ROBERTSON, name="Exact", tangent=TANGENT, variables=[*ROBERTSON.variables, calls]
    )
    result = run(fmu(exact if has_derivatives else ROBERTSON, version), 1000.0, 5.0, rtol=1e-6)
    expected = robertson(result.time)
    for k in range(3):
        scale = expected[:, k].max()
        assert_allclose(result[f"part.x{k + 1}"], expected[:, k], rtol=0, atol=2e-5 * scale)
    assert evaluations(result) < 6000
    if has_derivatives:
        assert result["part.calls"][-1] > 10


@pytest.mark.slow
def test_default_method_solves_the_van_der_pol_equation_with_a_large_parameter(fmu):
    result = run(fmu(counted(VAN_DER_POL), 2), 2000.0, 2.0, start={"mu": 1000.0}, rtol=1e-6)
    reference = solve_ivp(
        lambda _, x: [x[1], 1000 * (1 - x[0] ** 2) * x[1] - x[0]],
        (0, 2000),
        [2, 0],
        "LSODA",
        result.time,
        rtol=1e-11,
        atol=1e-11,
    ).y[0]
    assert_allclose(result["part.x0"], reference, rtol=0, atol=1e-3)
    assert evaluations(result) < 30_000


@pytest.mark.slow
def test_default_method_returns_to_explicit_steps_after_a_stiff_phase(fmu):
    """The frequency 1 remains after a fast mode that is active until t = 1."""
    model = counted(
        AnyModel(
            "Phases",
            states_and_rates(3, (1.0, 0.0, 0.0)),
            states=(1, 2, 3),
            rates=(4, 5, 6),
            motion="""
const double k = m->t < 1 ? 1e5 : 0;
dx[0] = m->v[2][0], dx[1] = -m->v[1][0], dx[2] = k * (m->v[1][0] - m->v[3][0]);""",
            update="m->next = m->t < 1 ? 1 : INFINITY;",
        )
    )
    default = run(fmu(model, 2), 60.0, 0.1)
    explicit = run(fmu(model, 2), 60.0, 0.1, method="adaptive")
    assert_allclose(default["part.x1"], np.cos(default.time), rtol=0, atol=1e-5)
    assert evaluations(default) < 0.1 * evaluations(explicit)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["stiff", "radau", "adaptive rodas3", "rodas3", "ros2", "rodas4p"]
)
def test_implicit_methods_integrate_stiff_fmus(fmu, method):
    """Temperatures of an insulated bar become equal: their sum 1 is constant."""
    h = {} if method in ("stiff", "radau", "adaptive rodas3") else {"h": 1e-4}
    result = run(fmu(BAR, 2), 0.02, 0.001, method=method, **h)
    x = np.column_stack([result[f"part.x{k}"] for k in range(1, N + 1)])
    assert_allclose(x.sum(axis=1), 1.0, rtol=1e-9)
    assert_allclose(x[-1], 1 / N, atol=1e-3)


# ---- Jacobian ----


def test_jacobian_columns_without_common_rows_share_a_colour():
    n = 40
    rows = [{j for j in (i - 1, i, i + 1) if 0 <= j < n} for i in range(n)]
    sparsity = jacobian_sparsity(rows, n)
    assert sparsity.n_colours == 3
    for colour in range(3):
        assert sparsity.pattern[:, sparsity.colours == colour].sum(axis=1).max() == 1
    assert jacobian_sparsity([None] * n, n).n_colours == n
    assert jacobian_sparsity([{0}, {1}, set()], 3).n_colours == 1
    assert jacobian_sparsity([], 0).n_colours == 0


@pytest.mark.slow
def test_declared_dependencies_reduce_the_number_of_evaluations_for_a_jacobian(fmu):
    dense = replace(BAR, name="Dense", dependencies={})
    results = [run(fmu(one, 2), 0.02, 0.001, method="stiff") for one in (BAR, dense)]
    for k in range(1, N + 1):
        assert_allclose(results[0][f"part.x{k}"], results[1][f"part.x{k}"], atol=1e-9)
    assert evaluations(results[0]) < 0.7 * evaluations(results[1])


# ---- events, inputs and saved states inside inner steps ----


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("t0", [0.0, 1e6])
def test_bounces_of_a_ball_inside_long_inner_steps_match_the_closed_form(fmu, version, t0):
    """The FMU also rejects times before its last completed integrator step."""
    path = fmu(replace(BOUNCING_BALL, name="Ball", monotonic=True), version)
    system = System()
    system.add("part", path, kind=ME)
    g, first = 9.81, np.sqrt(2 / 9.81)
    resolution = 40 * np.spacing(t0)
    for dt in (0.0005, 0.005, 0.05, 0.31):
        result = (
            simulate(system, t0 + 4 * 0.31, dt, t_start=t0)
            if dt == 0.31
            else simulate(system, t0 + 1.0, dt, t_start=t0)
        )
        t = result.time - t0
        later = t - first
        height = np.where(later < 0, 1 - g * t**2 / 2, 0.7 * g * first * later - g * later**2 / 2)
        flying = later < 1.4 * first
        assert_allclose(result["part.h"][flying], height[flying], rtol=0, atol=1e-10 + resolution)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.003, 0.03, 0.3])
def test_time_events_of_an_fmu_end_its_inner_steps(fmu, dt):
    """The velocity rises by 1 at each whole second."""
    ramp = AnyModel(
        "Ramp",
        states_and_rates(1, (0.0,)),
        states=(1,),
        rates=(2,),
        motion="dx[0] = (double)m->v[5][0];",
        update="""
while (m->t >= (double)m->v[5][0] + 1 - 1e-9)
    m->v[5][0]++;
m->next = (double)m->v[5][0] + 1;""",
        monotonic=True,
    )
    result = run(fmu(ramp, 2), 4.5, dt)
    whole = np.floor(result.time + 1e-9)
    expected = whole * (whole - 1) / 2 + whole * (result.time - whole)
    assert_allclose(result["part.x1"], expected, rtol=0, atol=1e-12)


TIME_EVENTS = AnyModel(
    "TimeEvents",
    [Variable("n", 1, "output", "Int32", "discrete", (0,))],
    update="m->v[1][0]++; m->next = m->t + 1e-5;",
)


@pytest.mark.slow
@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("version", [2, 3])
def test_communication_step_may_have_thousands_of_fmu_time_events(fmu, version, in_c, monkeypatch):
    """The FMU has an event at the start and then every 10 us."""
    if not in_c:
        monkeypatch.setattr(ExchangeInstance, "_c_step", lambda _: None)
    system = System()
    system.add("part", fmu(TIME_EVENTS, version), kind=ME)
    n = simulate(system, 0.1, 0.05, form="compiled" if in_c else "numpy")["part.n"]
    assert_allclose(n, n[0] + [0, 5000, 10000], atol=1)


@pytest.mark.parametrize("in_c", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_time_event_in_the_past_is_reported_with_its_time(fmu, in_c, monkeypatch):
    if not in_c:
        monkeypatch.setattr(ExchangeInstance, "_c_step", lambda _: None)
    model = replace(TIME_EVENTS, name="PastEvents", update="m->next = m->t - 1.0;")
    system = System()
    system.add("part", fmu(model, 2), kind=ME)
    message = (
        "'part': it has more than 1000 events at the same time; its next time event is at -1 s"
    )
    with pytest.raises(SimulationError, match=message):
        simulate(system, 0.1, 0.05, form="compiled" if in_c else "numpy")


@pytest.mark.slow
def test_changed_nominal_values_of_an_fmu_change_its_absolute_tolerance(fmu):
    """At t = 1 an oscillation shrinks by 1e6, and the nominal value with it."""
    model = AnyModel(
        "Shrinking",
        states_and_rates(2, (1.0, 0.0)),
        states=(1, 2),
        rates=(3, 4),
        motion="dx[0] = m->v[2][0], dx[1] = -m->v[1][0];",
        update="""
if (m->t >= 1 && m->v[5][0] == 0)
    m->v[1][0] *= 1e-6, m->v[2][0] *= 1e-6, m->v[5][0] = 1, m->changed = m->rescaled = true;
m->next = m->t < 1 ? 1 : INFINITY;""",
        nominal="return m->v[5][0] == 0 ? 1.0 : 1e-6;",
    )
    for version in (2, 3):
        result = run(fmu(model, version), 10.0, 0.25, rtol=1e-6)
        later = result.time >= 1
        expected = 1e-6 * np.cos(result.time[later])
        assert_allclose(result["part.x1"][later], expected, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_trial_states_that_an_fmu_discards_shorten_the_inner_step(fmu):
    """x = (1 - t / 2)^2 solves dx/dt = -sqrt(x), which has no value for x < 0."""
    model = replace(
        DAHLQUIST,
        name="Root",
        motion="dx[0] = m->v[1][0] < 0 ? 1e9 : -sqrt((double)m->v[1][0]);",
        discards="return m->v[1][0] < 0;",
    )
    result = run(fmu(model, 2), 1.9, 0.1, rtol=1e-8)
    assert_allclose(result["part.x"], (1 - result.time / 2) ** 2, rtol=0, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.01, 0.1])
def test_change_of_an_input_ends_the_inner_step_of_a_model_exchange_fmu(fmu, dt):
    """An oscillator with a force that jumps at t = 0.5 and at t = 1."""
    system = System()
    system.add("part", fmu(STATE_SPACE, 3), kind=ME, rtol=1e-8)
    force = {"time": [0.0, 0.5, 1.0], "part.u[1]": [0.5, -2.0, 1.0]}
    result = simulate(system, 3.0, dt, scenario=force)

    def rates(_, x, u):
        return [x[1], u - 4 * x[0] - 0.4 * x[1]]

    x, expected = np.array([1.0, 0.0]), [1.0]
    for k in range(round(3 / dt)):
        u = force["part.u[1]"][int(np.searchsorted([0.5, 1.0], k * dt + 1e-9))]
        x = solve_ivp(rates, (0, dt), x, "DOP853", rtol=1e-12, atol=1e-12, args=(u,)).y[:, -1]
        expected.append(x[0])
    assert_allclose(result["part.y"][:, 0], expected, rtol=0, atol=1e-6)


def test_restored_state_inside_an_inner_step_repeats_the_run_exactly(fmu):
    system = System()
    system.add("part", fmu(VAN_DER_POL, 2), kind=ME, rtol=1e-4)
    stepped, whole = prepare(system, 0.01), []
    for _ in range(300):
        stepped.step()
        whole.append(float(stepped["part.x0"]))
    stepped.reset()
    stepped.step(7)
    moment, found = stepped.save(), []
    for _ in range(2):
        stepped.restore(moment)
        for _ in range(293):
            stepped.step()
            found.append(float(stepped["part.x0"]))
    stepped.close()
    assert found[:293] == found[293:] == whole[7:]


@pytest.mark.slow
def test_changed_parameter_takes_effect_at_the_communication_point(fmu):
    system = System()
    system.add("part", fmu(DAHLQUIST, 2), kind=ME, rtol=1e-6)
    stepped = prepare(system, 0.01)
    stepped.step(100)
    stepped["part.k"] = 3.0
    stepped.step(50)
    assert float(stepped["part.x"]) == pytest.approx(np.exp(-1 - 1.5), rel=1e-5)
    stepped.close()


@pytest.mark.slow
def test_results_of_a_run_do_not_depend_on_its_recording_interval(fmu):
    path = fmu(VAN_DER_POL, 2)
    system = System()
    system.add("part", path, kind=ME)
    whole = simulate(system, 2.0, 0.01)["part.x0"]
    assert_array_equal(simulate(system, 2.0, 0.01, every=50)["part.x0"], whole[::50])


@pytest.mark.slow
def test_run_with_an_earlier_stop_time_differs_only_in_its_last_inner_step(fmu):
    """The last inner step ends at the end of the run, because the FMU may have no later times."""
    system = System()
    system.add("part", fmu(VAN_DER_POL, 2), kind=ME, rtol=1e-6)
    run_ = prepare(system, 0.01)
    whole, early = (run_.simulate(t_stop)["part.x0"] for t_stop in (2.0, 1.0))
    run_.close()
    n = int(np.argmax(early != whole[:101]))  # the first communication point that differs
    assert n > 50
    assert_allclose(early[n:], whole[n:101], atol=1e-5)


# ---- missing declarations ----


@pytest.mark.slow
def test_warning_lists_the_derivatives_missing_in_a_model_description(fmu, tmp_path):
    """Without the list `Derivatives`, an FMI 2.0 importer finds no continuous states."""
    path = tmp_path / "unlisted.fmu"
    with zipfile.ZipFile(fmu(ROBERTSON, 2)) as whole, zipfile.ZipFile(path, "w") as archive:
        for name in whole.namelist():
            data = whole.read(name)
            if name == "modelDescription.xml":
                data, count = re.subn(b"<Derivatives>.*?</Derivatives>", b"", data, flags=re.S)
                assert count == 1
            archive.writestr(name, data)
    with pytest.warns(RuntimeWarning, match="ModelStructure/Derivatives.* 'r1', 'r2', 'r3'"):
        run(path, 1.0, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(fmu(ROBERTSON, 2), 1.0, 0.5)
