"""Model exchange FMUs whose derivatives, states, event indicators or event times are not finite."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from any_models import DAHLQUIST, AnyModel, Variable, any_fmu
from rigidblocks import SimulationError, System, simulate
from rigidblocks.common.compiler import CompilerError

VERSIONS = [2, pytest.param(3, marks=pytest.mark.slow)]
EXPLICIT = [
    "rk4",
    "adaptive or stiff",
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("dormand-prince", "adaptive")),
]
PAIR = AnyModel(
    "Pair",
    [
        Variable("x", 1, "output", start=(1.0,)),
        Variable("v", 2, "output", start=(1.0,)),
        Variable("der(x)", 3, more='derivative="1"'),
        Variable("der(v)", 4, more='derivative="2"'),
    ],
    states=(1, 2),
    rates=(3, 4),
    motion="dx[0] = -m->v[1][0]; dx[1] = -m->v[2][0];",
)


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return a function that builds the FMU of a model for an FMI version."""
    folder = tmp_path_factory.mktemp("fmus")
    return cache(lambda model, version: any_fmu(folder, model, version))


@pytest.fixture(params=["C", pytest.param("Python", marks=pytest.mark.slow)])
def language(request, monkeypatch):
    """Step the FMUs in C, and in Python as on machines without a C compiler."""

    def fail():
        raise CompilerError("no C compiler")

    if request.param == "Python":
        monkeypatch.setattr("rigidblocks.cosim.masters.c_loop_tables.library", fail)
    return request.param


def run(path, t_end=2.0, dt=0.25, **options):
    system = System()
    system.add("plant", path, kind="model exchange", **options)
    return simulate(system, t_end, dt)


def message_of(path, **options):
    with pytest.raises(SimulationError) as caught:
        run(path, **options)
    return str(caught.value)


def time_in(message):
    return float(re.search(r"is nan at t = ([-+.e\d]+) s", message)[1])


def late_rates(text):
    """Return the model whose second derivative has the value `text` from t = 1 s."""
    return replace(PAIR, name="Late", motion=f"{PAIR.motion} if (m->t >= 1) dx[1] = {text};")


LATE = late_rates("NAN")


@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", EXPLICIT)
def test_derivative_that_is_not_a_number_ends_the_run_with_its_name_and_time(fmu, version, method):
    message = message_of(fmu(LATE, version), method=method, h=0.25)
    assert "'plant'" in message
    assert "its derivative 'der(v)' is nan" in message
    # a method without error control reports the first stage in the step that ends at t = 1 s
    earliest = 0.75 if method in ("rk4", "dormand-prince") else 1 - 1e-9
    assert earliest <= time_in(message) <= 1.25


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ros2", "stiff", "radau", "adaptive rodas3"])
def test_implicit_methods_report_a_derivative_that_is_not_a_number(fmu, method):
    message = message_of(fmu(LATE, 2), method=method, h=0.25)
    assert "'plant': its derivative 'der(v)' is nan" in message
    assert 0.75 <= time_in(message) <= 1.25


@pytest.mark.slow
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("method", ["rk4", "adaptive", "adaptive or stiff"])
def test_infinite_derivative_ends_the_run_with_its_name_and_value(fmu, method):
    message = message_of(fmu(late_rates("-INFINITY"), 2), method=method)
    assert "its derivative 'der(v)' is -inf" in message


@pytest.mark.slow
@pytest.mark.usefixtures("language")
def test_derivative_that_is_never_a_number_is_reported_at_the_start(fmu):
    message = message_of(fmu(replace(PAIR, name="Never", motion="dx[0] = 1, dx[1] = NAN;"), 3))
    assert "'plant': its derivative 'der(v)' is nan" in message
    assert time_in(message) == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("version", [2, 3])
def test_element_of_an_array_of_derivatives_is_named(fmu, version):
    """FMI 2 has no arrays, so the names of its scalars are the ones of the elements."""
    if version == 2:
        message = message_of(fmu(LATE, 2))
        assert "'der(v)'" in message
        return
    model = AnyModel(
        "Array",
        [
            Variable("x", 1, "output", start=(1.0, 2.0, 3.0), shape=(3,)),
            Variable("rate", 2, shape=(3,), more='derivative="1"'),
        ],
        states=(1,),
        rates=(2,),
        motion="dx[0] = dx[2] = 0; dx[1] = m->t > 0.5 ? NAN : 1;",
    )
    assert "its derivative 'rate[2]' is nan" in message_of(fmu(model, 3))


def with_indicators(name, *texts, **changes):
    return replace(PAIR, name=name, indicators=texts, **changes)


@pytest.mark.slow
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("method", ["rk4", "adaptive or stiff"])
@pytest.mark.parametrize("first", [0.0, 0.9])
def test_event_indicator_that_is_not_a_number_ends_the_run(fmu, version, method, first):
    indicator = f"m->t >= {first} ? (double)NAN : 1.0"
    path = fmu(with_indicators(f"Indicator{round(10 * first)}", "1.0", indicator), version)
    message = message_of(path, method=method, h=0.25)
    assert "'plant': its event indicator 2 of 2 is nan" in message
    assert first <= time_in(message) <= first + 0.25


@pytest.mark.slow
@pytest.mark.usefixtures("language")
def test_infinite_event_indicators_are_accepted(fmu):
    """An infinite indicator has a sign."""
    indicator = "m->t >= 0.9 ? -(double)INFINITY : (double)INFINITY"
    result = run(fmu(with_indicators("Infinite", indicator), 2), rtol=1e-8)
    assert_allclose(result["plant.x"], np.exp(-result.time), rtol=0, atol=1e-7)


@pytest.mark.slow
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("t", [0.0, 0.6])
def test_state_that_is_not_a_number_after_an_event_ends_the_run(fmu, version, t):
    update = f"""
if (m->t >= {t})
    m->v[2][0] = NAN, m->changed = 1;
m->next = m->t < {t} ? {t} : INFINITY;"""
    path = fmu(replace(PAIR, name=f"State{round(10 * t)}", update=update), version)
    message = message_of(path)
    assert "'plant': its continuous state 'v' is nan" in message
    assert_allclose(time_in(message), t, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("t", [0.0, 0.6])
def test_event_time_that_is_not_a_number_ends_the_run(fmu, t):
    update = f"m->next = m->t < {t} ? {t} : NAN;"
    model = replace(PAIR, name=f"Time{round(10 * t)}", update=update, timed="true")
    message = message_of(fmu(model, 2))
    assert "'plant': the time of its next event is nan" in message
    assert_allclose(time_in(message), t, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("language")
def test_states_outside_the_domain_of_the_equations_only_shorten_the_step(fmu):
    """x = (1 - t / 2)^2 solves dx/dt = -sqrt(x), whose value is NaN for x < 0."""
    model = replace(DAHLQUIST, name="Domain", motion="dx[0] = -sqrt((double)m->v[1][0]);")
    result = run(fmu(model, 2), 1.9, 0.1, rtol=1e-8, method="adaptive")
    assert_allclose(result["plant.x"], (1 - result.time / 2) ** 2, rtol=0, atol=1e-7)


@pytest.mark.slow
def test_directional_derivatives_that_are_not_numbers_are_replaced_by_differences(fmu):
    """dx/dt = -1000 (x - 1) with a Jacobian that the FMU cannot evaluate."""
    model = replace(
        DAHLQUIST,
        name="Tangent",
        motion="dx[0] = -1000 * (m->v[1][0] - 1);",
        tangent="df[0] = NAN;",
        attributes='providesDirectionalDerivative="true"',
    )
    result = run(fmu(model, 2), 1.0, 0.1, method="radau", start={"x": 3.0})
    assert_allclose(result["plant.x"][1:], 1.0, rtol=0, atol=1e-5)
