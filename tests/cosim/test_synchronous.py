"""Loops of sampled blocks with the same sample instants: each block reads the new values."""

import csv
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
from fmpy import simulate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import (
    Block,
    Port,
    System,
    build_runner,
    export_fmu,
    grid,
    prepare,
    simulate,
    sweep,
)
from rigidblocks.cosim.graph.block_merging import SynchronousSystem
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.library import Constant, Gain, Sine, Sum, UnitDelay

H = 0.1
FORMS = ("numpy", "traced", "compiled", "fused")
ORDERS = ("gauss-seidel", "jacobi")


@dataclass(frozen=True)
class Weighted(Block):
    """y = w . u with the parameter w."""

    w: tuple[float, ...]

    @property
    def inputs(self):
        return tuple(Port(f"u{k}", (), "1", "input", 0.0) for k in range(len(self.w)))

    outputs = (Port("y", (), "1", "weighted sum"),)

    @property
    def parameters(self):
        return (Port("w", (len(self.w),), "1", "weights", np.array(self.w)),)

    def output(self, u, p):
        return {"y": sum(p.w[k] * getattr(u, f"u{k}") for k in range(len(self.w)))}


def accumulator(k=1.0, source=None):
    """Return y[k] = u[k] + k y[k-1] as a loop of a sum, a delay and a gain."""
    system = System()
    system.add("source", source or Constant(1.0))
    system.add("sum", Sum())
    system.add("delay", UnitDelay(H, ()))
    system.add("gain", Gain(k))
    for a, b in (
        ("source.y", "sum.u1"),
        ("gain.y", "sum.u2"),
        ("sum.y", "delay.u"),
        ("delay.y", "gain.u"),
    ):
        system.connect(a, b)
    return system


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dt", [H, H / 4])
def test_accumulator_loop_of_sampled_blocks_adds_its_input_once_per_sample(form, order, dt):
    result = simulate(accumulator(), 10 * H, dt, form=form, order=order, progress=False)
    at = result.time[:: round(H / dt)]
    assert_allclose(at, H * np.arange(11), atol=1e-12)
    assert_array_equal(result["sum.y"][:: round(H / dt)], 1.0 + np.arange(11))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["numpy", "compiled", "fused"])
def test_stateless_block_in_a_sampled_loop_evaluates_its_input_between_samples(form):
    result = simulate(accumulator(0.5, Sine(1.0, frequency=0.7)), 2.0, H / 2, form=form,
                      progress=False)  # fmt: skip
    last, y = 0.0, []
    for k, now in enumerate(result["source.y"].ravel()):
        if k % 2 == 0:
            delayed, last = last, now + 0.5 * last
        y.append(now + 0.5 * delayed)
    assert_allclose(result["sum.y"], y, rtol=0.0, atol=1e-15)


def random_network(rng, delays, sums):
    """Return a system of delays and weighted sums, part names, weights, and delay inputs.

    Each sum reads all delays and all previous sums. Each delay reads one sum.
    """
    system, reads = System(), []
    names = [f"d{k}" for k in range(delays)]
    for name in names:
        system.add(name, UnitDelay(H, (), y0=rng.uniform(-1, 1)))
    for k in range(sums):
        name, w = f"s{k}", rng.uniform(-0.4, 0.4, delays + k)
        system.add(name, Weighted(tuple(w)))
        for j, source in enumerate(names):
            system.connect(f"{source}.y", f"{name}.u{j}")
        names.append(name)
        reads.append(w)
    chosen = rng.integers(delays, delays + sums, delays)
    for k, j in enumerate(chosen):
        system.connect(f"{names[j]}.y", f"d{k}.u")
    return system, names, reads, chosen


def by_hand(system, names, reads, chosen, n):
    """Return the outputs (n, parts) of the difference equations at n samples."""
    delays = len(chosen)
    held = np.array([system.parts[name].component.y0 for name in names[:delays]])
    rows = []
    for _ in range(n):
        y = list(held)
        for w in reads:
            y.append(float(w @ y))
        held = np.array([y[j] for j in chosen])
        rows.append(y)
    return np.array(rows)


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_of_sampled_blocks_satisfy_their_difference_equations(seed):
    rng = np.random.default_rng(seed)
    made = random_network(rng, int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    expected = by_hand(*made, 21)
    result = simulate(made[0], 20 * H, H, form="numpy", progress=False)
    for k, name in enumerate(made[1]):
        assert_allclose(result[f"{name}.y"], expected[:, k], rtol=0.0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"transparent": True}, {"form": "fused"}])
def test_results_of_sampled_blocks_merged_into_one_part_contain_the_original_part_names(options):
    """The loop has a sum, a gain and a delay; the fused form has an algebraic loop too."""
    system = accumulator(0.5)
    if options.get("form"):
        system.add("inner", Sum("++"))
        system.add("half", Gain(0.5))  # the inner loop y = u + y / 2 gives y = 2 u
        system.connect("gain.y", "inner.u1")
        system.connect("half.y", "inner.u2")
        system.connect("inner.y", "half.u")
    result = simulate(system, 5 * H, H, progress=False, **options)
    assert_allclose(result["sum.y"], 2.0 - 0.5 ** np.arange(6), rtol=0.0, atol=1e-15)
    if options.get("form"):
        assert_allclose(result["inner.y"], 2.0 * result["gain.y"], rtol=0.0, atol=1e-15)


@dataclass(frozen=True)
class Mean(Block):
    """y = (a + b) / 2 with inputs without start values."""

    inputs = (Port("a", (), "1", "input"), Port("b", (), "1", "input"))
    outputs = (Port("y", (), "1", "mean"),)

    def output(self, u):
        return {"y": (u.a + u.b) / 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["numpy", "fused"])
def test_part_of_a_sampled_loop_reads_a_signal_source_outside_the_loop(form):
    system = System()
    system.add("source", Constant(1.0))
    system.add("mean", Mean())
    system.add("delay", UnitDelay(H, ()))
    system.connect("mean.y", "delay.u")
    system.connect("delay.y", "mean.b")
    with pytest.raises(ValueError, match=r"mean\.a is open"):
        simulate(system, H, H, form=form, progress=False)
    system.connect("source.y", "mean.a")
    result = simulate(system, 4 * H, H, form=form, progress=False)
    assert_array_equal(result["mean.y"], 1.0 - 0.5 ** np.arange(1, 6))


@pytest.mark.slow
def test_part_names_of_a_sampled_loop_are_valid_in_runs_scenarios_and_sweeps():
    system = accumulator(0.5)
    for form in ("numpy", "fused"):
        with prepare(system, H, form=form) as run:
            run.step()
            assert (run["sum.y"], run["delay.y"], run["gain.k"]) == (1.5, 1.0, 0.5)
            run["gain.k"] = 0.25
            kept = run.save()
            run.step()
            assert run["sum.y"] == 1.0 + 0.25 * 1.5
            run.restore(kept)
            run.reset({"gain.k": 0.0})
            run.step()
            assert run["sum.y"] == 1.0
        table = {"time": [0.0, 0.25], "gain.k": [0.0, 1.0]}
        result = simulate(system, 5 * H, H, form=form, scenario=table, progress=False)
        assert_array_equal(result["sum.y"], [1, 1, 1, 1, 2, 3])
    done = sweep(system, grid({"gain.k": [0.0, 0.5]}), 2 * H, H,
                 measure={"end": lambda run: run["sum.y"][-1]}, progress=False)  # fmt: skip
    assert_array_equal(done["end"], [1.0, 1.75])


@pytest.mark.slow
def test_fmu_and_program_of_a_sampled_loop_match_the_results_of_simulate(tmp_path):
    system = accumulator(0.5)
    result = simulate(system, 2.0, H, progress=False)
    fmu = export_fmu(system, tmp_path / "a.fmu", dt=H)
    seen = simulate_fmu(fmu, stop_time=2.0, output_interval=H, output=["sum.y"])
    assert_allclose(seen["sum.y"], result["sum.y"], rtol=0.0, atol=1e-14)
    program, path = build_runner(system, tmp_path / "a", H), tmp_path / "a.csv"
    subprocess.run([program, "--stop", "2", "--rate", "0", "--record", path], check=True)
    with path.open() as file:
        names, *rows = csv.reader(file)
    assert sorted(names[1:]) == sorted(result.columns)
    assert_array_equal([float(row[names.index("sum.y")]) for row in rows], result["sum.y"])


def test_synchronous_system_with_two_different_sample_times_is_rejected():
    two = System()
    two.add("a", UnitDelay(0.1, ()))
    two.add("b", UnitDelay(0.2, ()))
    two.connect("a.y", "b.u")
    two.connect("b.y", "a.u")
    with pytest.raises(
        ValueError, match="its parts have 2 sample times; all parts must have the same"
    ):
        SynchronousSystem(two)
    assert sorted(FusedSystem(two, 0.1)._parts.by_name) == ["a", "b"]
