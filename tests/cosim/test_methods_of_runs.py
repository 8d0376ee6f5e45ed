"""The method of a run and its FMUs: equations of FMUs take it; where no part does, that is said."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from any_models import DAHLQUIST, any_fmu
from planar2ctrl import parts, wired
from rigidblocks import System, prepare, simulate, simulate_batch
from rigidblocks.cli import main
from rigidblocks.library import BouncingBall


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """x' = -x from x = 1, in co-simulation and in model exchange."""
    return any_fmu(tmp_path_factory.mktemp("plain"), DAHLQUIST, 3)


def of_fmus(path, kind, **given):
    system = System()
    system.add("plain", path, kind=kind, **given)
    return system


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk4", 4)])
def test_the_equations_of_an_fmu_take_the_method_of_the_run(plain, method, order):
    """x after n steps is R(-h)^n, the exponential's series up to the method's order."""
    result = simulate(of_fmus(plain, "model exchange"), 1.0, 0.1, method=method, h=0.1)
    growth = np.polynomial.Polynomial(1.0 / np.cumprod([1, *range(1, order + 1)]))(-0.1)
    assert_allclose(result["plain.x"], growth ** np.arange(11), rtol=1e-12)


def test_a_tolerance_and_a_longest_step_are_theirs_too(plain):
    system = of_fmus(plain, "model exchange")
    errors = [
        np.abs(simulate(system, 1.0, 1.0, rtol=rtol, atol=rtol)["plain.x"][-1] - np.exp(-1.0))
        for rtol in (1e-4, 1e-10)
    ]
    assert errors[1] < 1e-9 < errors[0]


@pytest.mark.slow
def test_the_method_of_an_fmu_goes_before_that_of_the_run(plain):
    system = of_fmus(plain, "model exchange", method="rk4", h=0.1)
    own = simulate(system, 1.0, 0.1)
    system.add("ball", BouncingBall())
    assert_array_equal(simulate(system, 1.0, 0.1, method="euler")["plain.x"], own["plain.x"])


@pytest.mark.slow
def test_what_is_for_blocks_alone_leaves_an_fmu_beside_them_as_it_was(plain):
    system = of_fmus(plain, "model exchange")
    own = simulate(system, 1.0, 0.1)["plain.x"]
    system.add("ball", BouncingBall())
    for given in ({"method": "ros2"}, {"max_inner_steps": 50}):
        assert_array_equal(simulate(system, 1.0, 0.1, **given)["plain.x"], own)


GIVEN = [{"method": "rk4"}, {"h": 0.1}, {"rtol": 1e-9}, {"atol": 1e-9}, {"max_inner_steps": 9}]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: next(iter(given)))
def test_what_no_part_takes_is_told(plain, given):
    (name,) = given
    for run in (lambda s: simulate(s, 1.0, 0.1, **given), lambda s: prepare(s, 0.1, **given)):
        with pytest.raises(
            ValueError, match=rf"no part takes {name}=.*integrates itself.*kind='mo"
        ):
            run(of_fmus(plain, "co-simulation"))
        with pytest.raises(ValueError, match=rf"no part takes {name}=.*added with a method"):
            run(of_fmus(plain, "model exchange", method="rk4"))


def test_what_equations_of_fmus_cannot_take_is_told(plain):
    system = of_fmus(plain, "model exchange")
    with pytest.raises(ValueError, match=r"integrated by explicit methods: .*'ros2' needs"):
        simulate(system, 1.0, 0.1, method="ros2")
    with pytest.raises(ValueError, match="max_inner_steps is for blocks"):
        simulate(system, 1.0, 0.1, max_inner_steps=9)
    with pytest.raises(KeyError, match="there is no method 'rk5'"):
        simulate(system, 1.0, 0.1, method="rk5")
    with pytest.raises(ValueError, match="FMU"):
        simulate_batch(system, 1.0, 0.1, start={}, method="rk4")


def test_the_command_says_it_in_one_line(plain, capsys):
    assert main(["run", str(plain), "--method", "rk4", "--stop", "0.1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no part takes method='rk4'" in line


@pytest.mark.parametrize("form", ["compiled", "fused"])
def test_what_has_no_states_runs_beside_what_radau_integrates(form):
    system = wired(parts())
    runs = [simulate(system, 0.05, 1e-2, form=one, method="radau") for one in (form, "numpy")]
    assert_allclose(runs[0]["robot.q"], runs[1]["robot.q"], atol=1e-9)


def test_a_word_for_late_steps_needs_a_pace():
    with pytest.raises(ValueError, match="overrun='stop' is for runs at the clock's pace"):
        simulate(wired(parts()), 0.1, 1e-2, overrun="stop")
