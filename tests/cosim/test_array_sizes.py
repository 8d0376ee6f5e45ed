"""FMI 3.0 FMUs whose structural parameters set the sizes of their arrays."""

from concurrent.futures import ThreadPoolExecutor

import fmpy
import numpy as np
import pytest
from fmpy.fmi3 import FMU3Slave
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

from any_models import RESIZABLE, any_fmu
from rigidblocks import System, prepare, simulate
from rigidblocks.fmi.ssp.load import load_system
from rigidblocks.fmi.ssp.save import save_system

ME = "model exchange"
M, N, R = 2, 5, 4
RNG = np.random.default_rng(8)
A = RNG.normal(size=(N, N)) - 3.0 * np.eye(N)
B, C, D = RNG.normal(size=(N, M)), RNG.normal(size=(R, N)), RNG.normal(size=(R, M))
U, X = RNG.normal(size=M), RNG.normal(size=N)
START = {"m": M, "n": N, "r": R, "A": A, "B": B, "C": C, "D": D, "u": U, "x": X}
DT, END = 0.05, 0.5


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return any_fmu(tmp_path_factory.mktemp("sized"), RESIZABLE, 3)


def system_of(path, start, **options) -> System:
    system = System()
    system.add("part", path, start=start, **options)
    return system


def exact(times):
    """Return y = C x + D u for x' = A x + B u with constant u."""
    whole = np.zeros((N + M, N + M))
    whole[:N, :N], whole[:N, N:] = A, B
    states = (expm(whole * t)[:N] @ np.concatenate([X, U]) for t in times)
    return np.array([C @ x + D @ U for x in states])


def in_fmpy(path):
    """Return the outputs of the resized FMU in FMPy, called in the order of the standard."""
    description = fmpy.read_model_description(str(path))
    vr = {v.name: v.valueReference for v in description.modelVariables}
    fmu = FMU3Slave(
        guid=description.guid,
        modelIdentifier="any",
        unzipDirectory=fmpy.extract(str(path)),
        instanceName="part",
    )
    fmu.instantiate()
    fmu.enterConfigurationMode()
    fmu.setUInt64([vr[name] for name in "mnr"], [M, N, R])
    fmu.exitConfigurationMode()
    for name in "ABCDux":
        fmu.setFloat64([vr[name]], np.ravel(START[name]).tolist())
    fmu.enterInitializationMode(startTime=0.0)
    fmu.exitInitializationMode()
    rows = [fmu.getFloat64([vr["y"]], nValues=R)]
    for k in range(round(END / DT)):
        fmu.doStep(k * DT, DT)
        rows.append(fmu.getFloat64([vr["y"]], nValues=R))
    fmu.terminate()
    fmu.freeInstance()
    return np.array(rows)


def test_results_of_a_resized_fmu_for_co_simulation_match_fmpy(path):
    result = simulate(system_of(path, START), END, DT)
    assert_array_equal(result["part.y"], in_fmpy(path))
    assert_allclose(result["part.y"], exact(result.time), atol=2e-3)  # Euler steps of 1e-4 s


def test_results_of_a_resized_fmu_for_model_exchange_match_the_closed_form(path):
    system = system_of(path, START, kind=ME, method="adaptive", rtol=1e-10, atol=1e-12)
    result = simulate(system, END, DT)
    assert_allclose(result["part.y"], exact(result.time), rtol=1e-8, atol=1e-9)


def test_fmu_arrays_have_the_declared_sizes_by_default(path):
    given, default = (simulate(system_of(path, s), 0.1, DT) for s in ({"n": 3, "m": 3}, {}))
    assert default["part.y"].shape == (3, 3)
    assert_array_equal(given["part.y"], default["part.y"])


@pytest.mark.parametrize("kind", ["co-simulation", ME])
def test_arrays_of_an_fmu_may_have_no_elements(path, kind):
    start = {"m": M, "n": 0, "r": R, "D": D, "u": U}
    result = simulate(system_of(path, start, kind=kind), 0.1, DT)
    assert_allclose(result["part.y"], [D @ U] * 3, rtol=1e-15)


def test_fmu_instances_with_different_array_sizes_are_connected(path):
    system = System()
    system.add("a", path, start=START)
    more = {"m": R, "n": 1, "r": 1, "A": [[-1.0]], "B": np.ones((1, R)), "C": 1.0, "D": 0.0, "x": 0}
    system.add("b", path, start=more)
    system.add("c", path)
    with pytest.raises(ValueError, match=r"cannot connect a\.y .* to c\.u"):
        system.connect("a.y", "c.u")
    system.connect("a.y", "b.u")
    result = simulate(system, 0.1, 1e-3)
    flow = np.sum(result["a.y"], axis=1)
    expected = 0.0
    for k in range(100):  # x' = -x + sum(u), with the input at the end of each step
        expected = np.exp(-1e-3) * expected + (1 - np.exp(-1e-3)) * flow[k + 1]
    assert_allclose(result["b.y"][-1], expected, atol=1e-3)
    assert result["c.y"].shape[1] == 3


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (6, ValueError, r"start value of part\.n is 6; it must be at most 5"),
        (1.5, ValueError, "part.n is of type UInt64 and cannot be 1.5"),
        (-1, ValueError, "part.n is of type UInt64 and cannot be -1"),
        ([1, 2], ValueError, r"part.n has shape \(2,\)"),
        ("five", TypeError, "part.n is of type UInt64 and cannot be 'five'"),
    ],
)
def test_invalid_size_of_an_fmu_array_is_rejected(path, value, error, message):
    with pytest.raises(error, match=message):
        system_of(path, {"n": value})


def test_start_values_must_have_the_sizes_of_the_resized_arrays(path):
    with pytest.raises(ValueError, match=r"part\.A has shape \(3, 3\); it needs shape \(5, 5\)"):
        system_of(path, {"n": 5, "A": np.eye(3)})
    with pytest.raises(ValueError, match=r"part.u"):
        simulate(system_of(path, {"m": 4}), 0.1, DT)


def test_start_values_of_the_declared_size_are_discarded_for_resized_arrays(path):
    part = system_of(path, {"n": 5}).parts["part"].component
    (x,) = (port for port in part.states if port.name == "x")
    (d,) = (port for port in part.parameters if port.name == "D")
    assert x.start is None
    assert_array_equal(d.start, np.zeros((3, 3)))


@pytest.mark.slow
def test_array_size_cannot_change_in_a_prepared_system(path):
    """The first run is repeated after a reset, which sets the declared sizes again."""
    with prepare(system_of(path, START), DT) as run:
        first = run.simulate(END)
        assert_array_equal(run.simulate(END, start={"part.n": N}).values, first.values)
        with pytest.raises(
            ValueError,
            match=r"'part\.n' is a structural parameter with the value 5.*; set it in Sys",
        ):
            run.simulate(END, start={"part.n": 4})
        again = run.simulate(END, start={"part.x": 2.0 * X})
        assert_allclose(again["part.y"][0], C @ (2.0 * X) + D @ U, rtol=1e-12)
    other = simulate(
        system_of(path, {"n": 2, "A": -np.eye(2), "B": np.eye(2, 3), "C": 1.0, "x": 1.0}), END, DT
    )
    assert other["part.y"].shape == (11, 3)


def test_saved_state_of_a_resized_fmu_is_restored(path):
    with prepare(system_of(path, START), DT) as run:
        run.step()
        moment, first = run.save(), run["part.y"].copy()
        run.step()
        second = run["part.y"].copy()
        run.restore(moment)
        assert_array_equal(run["part.y"], first)
        run.step()
        assert_array_equal(run["part.y"], second)


def test_threads_can_run_one_fmu_with_different_array_sizes(path):
    def outputs(n):
        start = {"n": n, "A": -np.eye(n), "B": np.ones((n, 3)), "C": np.ones((3, n)), "x": 0.0}
        return simulate(system_of(path, start), END, DT)["part.y"][-1]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(outputs, [1, 2, 4, 5, 5, 1]))
    # each of the n states is 6 (1 - exp(-t))
    expected = [np.full(3, n * 6 * (1 - np.exp(-END))) for n in (1, 2, 4, 5, 5, 1)]
    assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.slow
def test_resized_fmu_has_equal_results_with_and_without_isolation(path):
    results = [simulate(system_of(path, START, isolated=one), 0.1, DT) for one in (False, True)]
    assert_array_equal(results[0].values, results[1].values)


def test_ssp_file_stores_the_array_sizes_of_an_fmu(path, tmp_path):
    file = save_system(system_of(path, START), tmp_path / "sized.ssp")
    system = load_system(file).system
    assert_array_equal(system.parts["part"].start["n"], N)
    results = [simulate(one, 0.1, DT) for one in (system_of(path, START), system)]
    assert_array_equal(results[0].values, results[1].values)
