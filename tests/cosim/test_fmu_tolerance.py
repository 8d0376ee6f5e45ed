"""The tolerance that an FMU receives, and options of `System.add` that FMUs do not support."""

from dataclasses import replace
from functools import cache

import pytest
from numpy.testing import assert_allclose

from any_models import DAHLQUIST, TOLERANCE, any_fmu
from rigidblocks import BouncingBall, Port, PythonBlock, System, prepare, simulate
from rigidblocks.library import Gain

CS, ME = "co-simulation", "model exchange"
CLOCK = PythonBlock(lambda t: t, outputs=[Port("y", (), "s")])


@pytest.fixture(scope="module")
def fmu(tmp_path_factory):
    """Return a function that builds the FMU whose output is its tolerance, or -1 without one."""

    @cache
    def make(version, declared=""):
        experiment = f'startTime="0" tolerance="{declared}"' if declared else ""
        folder = tmp_path_factory.mktemp("tolerance")
        return any_fmu(folder, replace(TOLERANCE, experiment=experiment), version)

    return make


def system_of(fmu, **options):
    system = System()
    system.add("part", fmu, **options)
    return system


def received(system, **options):
    return simulate(system, 0.02, 0.01, **options)["part.y"][-1]


@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_co_simulation_fmu_receives_the_rtol_option_or_else_its_declared_tolerance(
    fmu, version, isolated
):
    silent, declared = fmu(version), fmu(version, "1e-4")
    assert received(system_of(silent, isolated=isolated)) == -1
    assert received(system_of(declared, isolated=isolated)) == 1e-4
    assert received(system_of(silent, rtol=1e-8, isolated=isolated)) == 1e-8
    assert received(system_of(declared, rtol=1e-8, isolated=isolated)) == 1e-8


def test_every_run_of_a_prepared_system_passes_the_tolerance_to_the_fmu(fmu):
    run = prepare(system_of(fmu(2), rtol=1e-6), 0.01)
    assert [run.simulate(0.02)["part.y"][-1] for _ in range(2)] == [1e-6, 1e-6]


@pytest.mark.parametrize("declared", ["0", "-1e-4", "NaN", "INF", "fine"])
def test_invalid_declared_tolerance_is_not_passed_to_the_fmu(fmu, declared):
    assert received(system_of(fmu(2, declared))) == -1


@pytest.mark.parametrize("version", [2, 3])
def test_model_exchange_fmu_receives_the_tolerance_of_the_adaptive_method(fmu, version):
    declared = fmu(version, "1e-4")
    assert received(system_of(declared, kind=ME)) == 1e-7
    assert received(system_of(declared, kind=ME, rtol=1e-9)) == 1e-9
    assert received(system_of(declared, kind=ME), rtol=1e-5) == 1e-5
    assert received(system_of(declared, kind=ME, method="rk4", h=0.01)) == -1


@pytest.mark.slow
def test_tolerance_of_the_run_applies_to_parts_without_their_own_tolerance(fmu):
    assert received(system_of(fmu(2, "1e-4")), rtol=1e-8) == 1e-8
    own = system_of(fmu(2), rtol=1e-6)
    own.add("ball", BouncingBall())
    assert received(own, rtol=1e-9) == 1e-6
    mixed = system_of(fmu(3))
    mixed.add("ball", BouncingBall())
    assert received(mixed, rtol=1e-9, atol=1e-9) == 1e-9


def test_tolerance_option_is_rejected_if_no_part_uses_it(fmu):
    with pytest.raises(
        ValueError, match=r"no part supports rtol=1e-09: 'part' was added with its own rtol"
    ):
        simulate(system_of(fmu(2), rtol=1e-6), 0.02, 0.01, rtol=1e-9)
    with pytest.raises(ValueError, match=r"no part supports atol=1e-09: .*its own integrator"):
        simulate(system_of(fmu(2)), 0.02, 0.01, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("option", "value"), [("method", "rk4"), ("h", 0.1), ("atol", 1e-9), ("max_inner_steps", 9)]
)
def test_integrator_option_of_a_co_simulation_fmu_is_rejected(fmu, option, value):
    with pytest.raises(
        ValueError, match=rf"'part' is a co-simulation FMU .* but not {option}={value!r}; "
    ):
        system_of(fmu(2), **{option: value})


@pytest.mark.parametrize("rtol", [0.0, -1e-3, float("nan"), 1.0])
def test_fmu_tolerance_outside_its_range_is_rejected(fmu, rtol):
    for kind in (CS, ME):
        with pytest.raises(ValueError, match=r"rtol must be from 1e-13 to 0\.1"):
            system_of(fmu(2), kind=kind, rtol=rtol)


def test_nonnumeric_fmu_tolerance_is_rejected(fmu):
    for kind in (CS, ME):
        with pytest.raises(TypeError, match=r"rtol of 'part' must be a number, not '1e-8'"):
            system_of(fmu(2), kind=kind, rtol="1e-8")


def test_isolation_and_server_options_are_rejected_for_parts_that_are_not_fmus(fmu, tmp_path):
    for component in (fmu(2), Gain(2.0), CLOCK):
        with pytest.raises(ValueError, match=r"time_limit is only for FMUs .*'part'"):
            system_of(component, time_limit=5.0)
    for component in (Gain(2.0), CLOCK):
        with pytest.raises(ValueError, match=r"kind=.* is only for FMUs; leave it out for a block"):
            system_of(component, kind=CS)
        with pytest.raises(ValueError, match=r"key_file is only for FMUs on a server"):
            system_of(component, key_file=tmp_path / "key")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("option", [{"rtol": 1e-10}, {"atol": 1e-10}, {"rtol": 1e-10, "h": 0.1}])
def test_tolerance_of_a_model_exchange_fmu_selects_the_adaptive_method(tmp_path, version, option):
    """x' = -x from 1 gives exp(-t), as with the method "adaptive"."""
    plain = any_fmu(tmp_path, DAHLQUIST, version)
    single = simulate(system_of(plain, kind=ME, **option), 1.0, 0.5)["part.x"]
    named = simulate(system_of(plain, kind=ME, method="adaptive", **option), 1.0, 0.5)["part.x"]
    assert list(single) == list(named)
    assert_allclose(single, [1.0, 0.6065306597126334, 0.36787944117144233], rtol=1e-6)
