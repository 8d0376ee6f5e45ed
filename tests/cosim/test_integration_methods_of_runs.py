"""The integration method of a run applies to model exchange FMUs; unused options are rejected."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from any_models import DAHLQUIST, any_fmu
from planar2ctrl import parts, wired
from rigidblocks import System, prepare, simulate, simulate_batch
from rigidblocks.cli import main
from rigidblocks.contact import BouncingBall


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the FMU of x' = -x from x = 1, for co-simulation and model exchange."""
    return any_fmu(tmp_path_factory.mktemp("plain"), DAHLQUIST, 3)


def of_fmus(path, kind, **given):
    system = System()
    system.add("plain", path, kind=kind, **given)
    return system


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4)])
def test_model_exchange_fmu_is_integrated_with_the_method_of_the_run(plain, method, order):
    """After n steps x is R(-h)^n; R is the exponential series up to the order of the method."""
    result = simulate(of_fmus(plain, "model exchange"), 1.0, 0.1, method=method, h=0.1)
    growth = np.polynomial.Polynomial(1.0 / np.cumprod([1, *range(1, order + 1)]))(-0.1)
    assert_allclose(result["plain.x"], growth ** np.arange(11), rtol=1e-12)


def test_model_exchange_fmu_is_integrated_with_the_tolerance_of_the_run(plain):
    system = of_fmus(plain, "model exchange")
    errors = [
        np.abs(simulate(system, 1.0, 1.0, rtol=rtol, atol=rtol)["plain.x"][-1] - np.exp(-1.0))
        for rtol in (1e-4, 1e-10)
    ]
    assert errors[1] < 1e-9 < errors[0]


@pytest.mark.slow
def test_integration_method_of_an_fmu_overrides_the_method_of_the_run(plain):
    system = of_fmus(plain, "model exchange", method="rk4", h=0.1)
    own = simulate(system, 1.0, 0.1)
    system.add("ball", BouncingBall())
    assert_array_equal(simulate(system, 1.0, 0.1, method="euler")["plain.x"], own["plain.x"])


@pytest.mark.slow
def test_run_options_for_block_integrators_do_not_affect_model_exchange_fmus(plain):
    system = of_fmus(plain, "model exchange")
    own = simulate(system, 1.0, 0.1)["plain.x"]
    system.add("ball", BouncingBall())
    for given in ({"method": "semi-implicit euler"}, {"max_inner_steps": 50}):
        assert_array_equal(simulate(system, 1.0, 0.1, **given)["plain.x"], own)


GIVEN = [{"method": "rk4"}, {"h": 0.1}, {"atol": 1e-9}, {"max_inner_steps": 9}]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: next(iter(given)))
def test_simulate_rejects_an_option_that_no_part_supports(plain, given):
    (name,) = given
    for run in (lambda s: simulate(s, 1.0, 0.1, **given), lambda s: prepare(s, 0.1, **given)):
        with pytest.raises(
            ValueError, match=rf"no part supports {name}=.*its own integrator.*kind='mo"
        ):
            run(of_fmus(plain, "co-simulation"))
        with pytest.raises(
            ValueError, match=rf"no part supports {name}=.*added with its own method"
        ):
            run(of_fmus(plain, "model exchange", method="rk4"))


def test_unsupported_run_options_of_model_exchange_are_rejected(plain):
    system = of_fmus(plain, "model exchange")
    with pytest.raises(
        ValueError, match=r"the method 'semi-implicit euler' does not support a model exchange FMU"
    ):
        simulate(system, 1.0, 0.1, method="semi-implicit euler")
    with pytest.raises(ValueError, match="max_inner_steps is only for blocks"):
        simulate(system, 1.0, 0.1, max_inner_steps=9)
    with pytest.raises(KeyError, match="unknown method 'rk5'"):
        simulate(system, 1.0, 0.1, method="rk5")
    with pytest.raises(ValueError, match="FMU"):
        simulate_batch(system, 1.0, 0.1, start={}, method="rk4")


def test_error_of_the_run_command_for_an_unused_option_has_one_line(plain, capsys):
    assert main(["run", str(plain), "--method", "rk4", "--stop", "0.1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no part supports method='rk4'" in line


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_system_with_stateless_parts_runs_with_radau(form):
    system = wired(parts())
    runs = [simulate(system, 0.05, 1e-2, form=one, method="radau") for one in (form, "numpy")]
    assert_allclose(runs[0]["robot.q"], runs[1]["robot.q"], atol=1e-9)


def test_overrun_option_is_rejected_without_the_real_time_option():
    with pytest.raises(ValueError, match="overrun='stop' needs real_time"):
        simulate(wired(parts()), 0.1, 1e-2, overrun="stop")
