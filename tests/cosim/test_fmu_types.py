"""FMUs of both FMI versions and interface types: runs equal FMPy's simulation and closed forms."""

import subprocess
import sys
from functools import cache

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from any_models import (
    BOUNCING_BALL,
    CLOCKS,
    DAHLQUIST,
    FEEDTHROUGH,
    RESOURCE,
    STAIR,
    STATE_SPACE,
    VAN_DER_POL,
    any_fmu,
)
from rigidblocks import (
    RobotPlant,
    SimulationError,
    Sine,
    System,
    export_fmu,
    planar2,
    prepare,
    simulate,
)
from rigidblocks.cosim.graph.fmu_part import Fmu

CS, ME = "co-simulation", "model exchange"
FMPY_KINDS = {CS: "CoSimulation", ME: "ModelExchange"}
ROUNDING = 1e-13
INTEGRATED = 3e-6  # FMPy's CVode has a tolerance of 1e-9, and locates a bounce to about 1e-6
MODELS = (BOUNCING_BALL, DAHLQUIST, FEEDTHROUGH, RESOURCE, STAIR, STATE_SPACE, VAN_DER_POL)
T, DT = 2.0, 0.01


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return a function that builds the FMU of a model for an FMI version."""
    folder = tmp_path_factory.mktemp("fmus")
    return cache(lambda model, version: any_fmu(folder, model, version, y="a"))


def system_of(fmu, **options) -> System:
    system = System()
    system.add("part", fmu, **options)
    return system


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CS, ME])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_results_of_all_fmu_types_match_the_results_of_fmpy(fmu, model, version, kind):
    if version == 2 and model is STATE_SPACE:
        model = DAHLQUIST  # FMI 2.0 has no arrays
    path = fmu(model, version)
    options = {"method": "adaptive", "rtol": 1e-10} if kind == ME else {}
    result = simulate(system_of(path, kind=kind, **options), T, DT)
    other = fmpy.simulate_fmu(
        str(path),
        stop_time=T,
        output_interval=DT,
        fmi_type=FMPY_KINDS[kind],
        record_events=False,
        relative_tolerance=1e-9,
    )
    assert_allclose(result.time, other["time"], atol=1e-12)
    compared = 0
    for port in result.ports:
        name = port.name.removeprefix("part.")
        if name in other.dtype.names:  # FMPy does not record strings
            bound = ROUNDING if kind == CS or not model.states else INTEGRATED
            mine = result[port.name]
            assert_allclose(mine, other[name].reshape(mine.shape), rtol=bound, atol=bound)
            compared += 1
    assert compared


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_motion_of_a_model_exchange_ball_matches_the_closed_form_of_its_bounces(fmu, version):
    g, e, h = 9.81, 0.7, 1.0
    first = np.sqrt(2 * h / g)
    second = first + 2 * e * g * first / g
    result = simulate(
        system_of(fmu(BOUNCING_BALL, version), kind=ME, rtol=1e-12, method="adaptive"), 1.0, 1e-2
    )
    t = result.time
    flight = t[(t > first) & (t < second)] - first
    expected = e * g * first * flight - g * flight**2 / 2
    assert len(flight) > 50
    assert_allclose(result["part.h"][(t > first) & (t < second)], expected, atol=1e-12)


@pytest.mark.slow
def test_fixed_step_integrators_of_model_exchange_fmus_converge_at_their_order(fmu):
    for method, order in (("euler", 1), ("heun", 2), ("rk4", 4)):
        errors = []
        for h in (0.02, 0.01):
            system = system_of(fmu(DAHLQUIST, 3), kind=ME, method=method, h=h)
            result = simulate(system, 1.0, 0.1)
            errors.append(np.abs(result["part.x"] - np.exp(-result.time)).max())
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


@pytest.mark.slow
def test_unsupported_method_is_rejected_for_model_exchange(fmu):
    with pytest.raises(ValueError, match="expected one of adaptive, stiff, adaptive or") as error:
        simulate(system_of(fmu(DAHLQUIST, 3), kind=ME, method="semi-implicit euler"), 1.0, 0.1)
    assert "while preparing the part 'part'" in error.value.__notes__


EXTREMES = {
    "Float64": -1.5e300,
    "Float32": np.float32(0.1),
    "Int8": -128,
    "UInt8": 255,
    "Int16": -32768,
    "UInt16": 65535,
    "Int32": -(2**31),
    "UInt32": 2**32 - 1,
    "Int64": -(2**53),
    "UInt64": 2**53,
    "Boolean": True,
    "String": "Grüße, 世界",
    "Binary": b"\x00\xff\x00ab",
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "isolated"), [(CS, False), (ME, False), (CS, True)])
def test_value_of_every_fmi_type_is_transferred_exactly(fmu, kind, isolated):
    path = fmu(FEEDTHROUGH, 3)
    system = System()
    start = {f"{of_type}_input": value for of_type, value in EXTREMES.items()}
    system.add("a", path, start=start, kind=kind, isolated=isolated)
    system.add("b", path, kind=kind, isolated=isolated)
    for of_type in EXTREMES:
        system.connect(f"a.{of_type}_output", f"b.{of_type}_input")
    result = simulate(system, 0.02, 0.01)
    for of_type, value in EXTREMES.items():
        for part in "ab":
            seen = result[f"{part}.{of_type}_output"]
            assert seen.tolist() == [value] * 3
            assert seen.dtype.kind == np.asarray(value).dtype.kind or seen.dtype.kind in "Oi"


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (
            {"Int8_input": 128},
            ValueError,
            r"part.Int8_input is of type Int8 and cannot be 128: .*127",
        ),
        ({"UInt64_input": 2**53 + 1}, ValueError, r"9007199254740993 exceeds 2\^53"),
        ({"Boolean_input": 2}, ValueError, r"is of type Boolean and cannot be 2: it takes 0 or 1"),
        ({"String_input": 3}, TypeError, r"is of type String and needs values of type str, not 3"),
        (
            {"Binary_input": "a"},
            TypeError,
            r"is of type Binary and needs values of type bytes, not 'a'",
        ),
        ({"Float64_input": "a"}, TypeError, r"is of type Float64 and cannot be 'a'"),
        ({"Int8_imput": 1}, KeyError, r"did you mean Int8_input\?"),
    ],
)
def test_start_value_outside_the_range_of_its_fmi_type_is_rejected(fmu, start, error, message):
    with pytest.raises(error, match=message):
        system_of(fmu(FEEDTHROUGH, 3), start=start)


def test_connection_of_a_string_and_a_float_is_rejected(fmu):
    system = system_of(fmu(FEEDTHROUGH, 3))
    with pytest.raises(ValueError, match="String and Float64 are different types"):
        system.connect("part.String_output", "part.Float64_input")


@pytest.mark.slow
def test_periodic_fmu_clock_ticks_at_multiples_of_its_interval(fmu):
    system = system_of(fmu(CLOCKS, 3))
    system.add("sine", Sine(amplitude=1.0, frequency=0.3, unit="1"))
    system.connect("sine.y", "part.u")
    result = simulate(system, 1.0, 0.025)
    ticks = np.round(np.floor(result.time / 0.1 + 1e-6) * 0.1, 9)
    assert_allclose(result["part.last"], ticks, atol=1e-12)
    assert_allclose(result["part.sampled"], np.sin(2 * np.pi * 0.3 * ticks), atol=1e-12)
    assert_array_equal(result["part.ticks"], np.round(ticks / 0.1) + 1)
    # every third tick starts a countdown of 0.05 s, and an output clock signals its end
    rings = [k * 0.3 + 0.25 for k in range(3)]
    assert_allclose(result.time[result["part.rang"]], rings)
    assert result["part.rings"][-1] == 3


@pytest.mark.slow
def test_step_that_does_not_divide_a_clock_interval_is_rejected(fmu):
    assert Fmu(fmu(CLOCKS, 3)).sample_time == 0.1
    with pytest.raises(
        ValueError, match=r"'part': the step 0.03 s does not fit the sample time 0.1"
    ):
        simulate(system_of(fmu(CLOCKS, 3)), 0.3, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "said_by"), [(2, "fmi2Terminated"), (3, "terminateSimulation")]
)
def test_termination_request_of_an_fmu_ends_the_run_and_returns_the_result(fmu, version, said_by):
    message = rf"'part': it requests the end of the simulation \({said_by}\) at t = "
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(system_of(fmu(STAIR, version)), 12.0, 0.5)
    assert caught.value.result["part.counter"].max() == 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CS, ME])
def test_event_in_another_part_rolls_back_and_repeats_the_step_of_an_fmu(fmu, kind):
    system = system_of(fmu(BOUNCING_BALL, 3), kind=kind)
    alone_there = simulate(system, 1.0, 0.1)
    system.add("sine", Sine(amplitude=1.0, frequency=1.0, phase=0.3))
    result = simulate(system, 1.0, 0.1, events=["sine.y[1]"])
    fall = 0.5 - 0.3 / (2 * np.pi)
    assert_allclose(result.times("sine.y[1]"), [fall], atol=1e-12)
    at_points = ~np.isclose(result.time, fall)
    bound = 5e-2 if kind == CS else 1e-6  # the FMU's Euler steps restart after a rollback
    assert_allclose(result["part.h"][at_points], alone_there["part.h"], atol=bound)


@pytest.mark.parametrize("kind", [CS, ME])
def test_two_instances_of_one_fmu_are_independent(fmu, kind):
    system = System()
    for k in (1.0, 2.0):
        system.add(f"k{k:g}", fmu(DAHLQUIST, 3), kind=kind, start={"k": k, "x": k})
    result = simulate(system, 1.0, 0.01)
    for k in (1.0, 2.0):
        bound = 2e-2 if kind == CS else 1e-6  # error of the FMU's own Euler steps
        assert_allclose(result[f"k{k:g}.x"], k * np.exp(-k * result.time), atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".arrow", ".csv", ".parquet"])
def test_saved_results_with_every_fmi_type_load_unchanged(fmu, tmp_path, ending):
    start = {f"{of_type}_input": value for of_type, value in EXTREMES.items()}
    system = system_of(fmu(FEEDTHROUGH, 3), start=start)
    result = simulate(system, 0.02, 0.01, save=tmp_path / f"run{ending}")
    # a new process has no cached strings
    program = f"""
from rigidblocks import Result
result = Result.load({str(tmp_path / f"run{ending}")!r})
print([result[f"part.{{name}}_output"][-1] for name in {list(EXTREMES)!r}])
"""
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str([result[f"part.{name}_output"][-1] for name in EXTREMES])


def test_values_of_every_fmi_type_are_set_and_read_between_steps(fmu):
    with prepare(system_of(fmu(FEEDTHROUGH, 3)), 0.01) as run:
        for of_type, value in EXTREMES.items():
            run[f"part.{of_type}_input"] = value
        run.step()
        assert [run[f"part.{of_type}_output"] for of_type in EXTREMES] == list(EXTREMES.values())
        moment = run.save()
        run["part.String_input"] = "another"
        run.step()
        assert run["part.String_output"] == "another"
        run.restore(moment)
        assert run["part.String_output"] == EXTREMES["String"]
        with pytest.raises(ValueError, match=r"part.Int8_input is of type Int8 and cannot be 1.5"):
            run["part.Int8_input"] = 1.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CS, ME])
def test_exported_fmi_3_fmu_matches_the_results_of_its_block(tmp_path, kind):
    block = RobotPlant(planar2())
    path = export_fmu(block, tmp_path / "robot.fmu", fmi=3)
    start = {"q": [0.3, -0.4], "tau": [1.0, 0.2]}
    results = []
    for component, options in ((block, {}), (path, {"kind": kind})):
        system = System()
        if kind == ME or component is block:
            options |= {"method": "rk4", "h": 1e-3}
        system.add("robot", component, start=start, **options)
        results.append(simulate(system, 0.2, 0.01))
    for port in results[0].ports:
        assert_allclose(results[1][port.name], results[0][port.name], rtol=1e-9, atol=1e-12)


def test_events_between_clock_ticks_do_not_change_the_times_of_the_ticks(fmu):
    system = system_of(fmu(CLOCKS, 3))
    system.add("sine", Sine(amplitude=1.0, frequency=1.3, phase=0.4))
    without = simulate(system, 1.0, 0.05)
    result = simulate(system, 1.0, 0.05, events=["sine.y[1]"])
    assert len(result.events) == 1
    at_points = [np.isclose(without.time, t, atol=1e-9).any() for t in result.time]
    for name in ("ticks", "last", "rings", "rang"):
        assert_array_equal(result[f"part.{name}"][at_points], without[f"part.{name}"])


@pytest.mark.slow
def test_results_of_a_model_exchange_fmu_do_not_depend_on_its_isolation_in_a_process(fmu):
    path = fmu(BOUNCING_BALL, 3)
    results = [
        simulate(system_of(path, kind=ME, isolated=isolated), 0.6, 0.05)
        for isolated in (False, True)
    ]
    assert_array_equal(results[0].values, results[1].values)
