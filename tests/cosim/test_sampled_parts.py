"""Sampled blocks as parts of a system: blocks, fused systems and FMUs have the same samples.

A sample at t_k uses the input at t_k if its source steps first. Otherwise it uses the input at the
start of the communication step.
"""

import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose

from foreign_fmu import foreign_fmu
from library_blocks import BLOCKS
from rigidblocks import Block, Port, System, export_fmu, simulate
from rigidblocks.cosim.graph.fmu_part import fmu_at
from rigidblocks.library import (
    Delay,
    Fault,
    Gain,
    Integrator,
    LowPass,
    RateTransition,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
)
from signal_blocks import SIGNALS

T = 0.01  # [s] sample time
SAME = 1e-12
ROUNDING = 1e-9  # of FMUs that the master integrates, relative to inputs of size 1
KINDS = ("co-simulation", "model exchange")
FORMS = {
    "block": (None, None),
    **{f"fmi{fmi} {kind}": (fmi, kind) for fmi in (2, 3) for kind in KINDS},
}
SAMPLED = {
    name: block
    for name, (block, _) in {**BLOCKS, **SIGNALS}.items()
    if block.sample_time is not None and not block.states
}
DELAYS = {  # block, its delay [s] and the time between two of its samples [s]
    "unit": (UnitDelay(T), T, T),
    "three": (Delay(3, T), 3 * T, T),
    "no delay": (ZeroOrderHold(T), 0.0, T),
    "to the double period": (RateTransition(T, 2 * T), 0.0, 2 * T),
    "to half the period": (RateTransition(2 * T, T), 2 * T, 2 * T),
}
SCRIPT = """
from rigidblocks.fmi.slave import BlockSlave
from rigidblocks.library import Fault, LowPass, TransportDelay, UnitDelay

class Signal(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__({block}, **kwargs)
"""
PYTHON_FMUS = {
    "UnitDelay": UnitDelay(T),
    "TransportDelay": TransportDelay(2.5 * T, T),
    "Fault": Fault(T, delay=2),
}


def wave(t, k=1.0):
    """Return the value of the test signal with number k at the time t [s]."""
    return 0.05 * k + (0.3 + 0.1 * k) * np.sin((25.0 + 5.0 * k) * t + 0.3 * k)


@dataclass(frozen=True, eq=False)
class Waves(Block):
    """Test signals for an input, one per element."""

    like: Port

    @property
    def outputs(self):
        return (Port("y", self.like.shape, self.like.unit),)

    def output(self, t):
        return {"y": wave(t, np.reshape(np.arange(1.0, self.like.size + 1), self.like.shape))}


def run(block, dt, part=None, steps=24, name="part", kind=None, **options):
    """Return the time and all outputs (steps + 1, n) of a block, or of a part with its ports."""
    system = System()
    system.add(name, block if part is None else part, **({} if kind is None else {"kind": kind}))
    for port in block.inputs:
        system.add(f"of_{port.name}", Waves(port))
        system.connect(f"of_{port.name}.y", f"{name}.{port.name}")
    result = simulate(system, steps * dt, dt, progress=False, **options)
    columns = [np.reshape(result[f"{name}.{p.name}"], (steps + 1, -1)) for p in block.outputs]
    return result.time, np.hstack(columns)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """Return a function that exports a block as a native FMU of this FMI version once."""
    folder = tmp_path_factory.mktemp("sampled")

    assert not SAMPLED.keys() & DELAYS.keys()

    def path(name, block, fmi):
        file = folder / f"{name} {fmi}.fmu"
        return file if file.exists() else export_fmu(block, file, fmi=fmi)

    return path


@pytest.mark.parametrize("name", SAMPLED)
def test_all_forms_of_a_sampled_block_compute_equal_samples(name, native):
    block = SAMPLED[name]
    for ratio in (1.0, 1 / 2, 1 / 3, 1.7):
        dt = ratio * block.sample_time
        for order in ("gauss-seidel", "jacobi"):
            _, y = run(block, dt, order=order, form="numpy")
            forms = ["compiled", "fused"] if ratio == 1 / 2 else ["compiled"]
            for form in forms:
                _, same = run(block, dt, order=order, form=form)
                assert_allclose(same, y, rtol=ROUNDING, atol=ROUNDING, err_msg=form)
            for fmi in (2, 3):
                for kind in KINDS:
                    part = native(name, block, fmi)
                    _, same = run(block, dt, part, order=order, kind=kind)
                    message = f"FMI {fmi}, {kind}, dt = {ratio:g} T, {order}"
                    assert_allclose(same, y, rtol=ROUNDING, atol=ROUNDING, err_msg=message)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DELAYS)
def test_delay_in_a_system_is_a_multiple_of_its_sample_time(name, form, native):
    """y(t) = u(k T - delay), last sample k T; in Jacobi order a sample reads u(k T - dt)."""
    block, delay, sample_time = DELAYS[name]
    fmi, kind = FORMS[form]
    part = None if fmi is None else native(name, block, fmi)
    for ratio in (1.0, 1 / 2, 1 / 3):
        for late, order in ((0.0, "gauss-seidel"), (ratio * T, "jacobi")):
            for part_name in ("a_delay", "z_delay"):  # before and after the source by name
                t, y = run(block, ratio * T, part, name=part_name, kind=kind, order=order)
                at = np.floor(t / sample_time + 1e-6) * sample_time - delay
                first = at < -1e-9 if delay else at < 1e-9  # outputs before the first input
                assert_allclose(
                    y[~first, 0], wave(np.maximum(at - late, 0.0))[~first], rtol=0.0, atol=SAME
                )


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_unit_delay_in_fmpy_delays_the_inputs_that_the_importer_has_set(fmi, native):
    """In co-simulation the FMU has the input at the start of the step: y = u(t - T - dt)."""
    path = native("unit", UnitDelay(T), fmi)
    n = 20
    for ratio in (1.0, 1 / 2):
        dt = ratio * T
        times = np.arange(n + 1) * dt
        inputs = np.array([(t, wave(t)) for t in times], dtype=[("time", float), ("u", float)])
        for interface, late in (("CoSimulation", dt), ("ModelExchange", 0.0)):
            found = fmpy.simulate_fmu(
                str(path),
                stop_time=n * dt,
                step_size=dt,
                output_interval=dt,
                input=inputs,
                output=["y"],
                fmi_type=interface,
            )
            # model exchange has two rows at an event; the second is after it
            rows = [np.flatnonzero(np.abs(found["time"] - t) < 1e-9)[-1] for t in times]
            at = np.floor(times / T + 1e-6) * T - T
            later = at - late > -1e-9
            later[: round(2 / ratio)] = False
            assert_allclose(found["y"][rows][later], wave(at - late)[later], rtol=0.0, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize("name", PYTHON_FMUS)
def test_python_fmu_of_a_sampled_block_has_the_samples_of_the_block(name, tmp_path):
    block = PYTHON_FMUS[name]
    arguments = {"UnitDelay": T, "TransportDelay": f"{2.5 * T}, {T}", "Fault": f"{T}, delay=2"}
    script = tmp_path / "signal_fmu.py"
    script.write_text(SCRIPT.format(block=f"{name}({arguments[name]})"))
    part = export_fmu(script, tmp_path / "signal.fmu", target="python")
    for ratio in (1.0, 1 / 2):
        for order in ("gauss-seidel", "jacobi"):
            _, y = run(block, ratio * T, order=order)
            _, same = run(block, ratio * T, part, order=order)
            assert_allclose(same, y, rtol=0.0, atol=SAME)


@pytest.mark.slow
def test_python_fmu_with_continuous_states_does_not_count_as_sampled(tmp_path):
    """The step sizes of an adaptive method are discrete variables, but the output is continuous."""
    script = tmp_path / "signal_fmu.py"
    script.write_text(SCRIPT.format(block="LowPass(0.02)"))
    path = export_fmu(script, tmp_path / "signal.fmu", target="python")
    assert not fmu_at(path, None).only_samples
    _, y = run(LowPass(0.02), T, name="a_filter")
    _, same = run(LowPass(0.02), T, path, name="a_filter")
    assert_allclose(same, y, rtol=0.0, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_delay_fmu_in_a_feedback_loop_matches_its_block(fmi, native):
    delay = UnitDelay(T, y0=1.0)
    found = []
    for part in (delay, native("loop", delay, fmi)):
        system = System()
        for name, one in (("a_delay", part), ("gain", Gain(-3.0)), ("z_plant", Integrator(y0=1.0))):
            system.add(name, one)
        system.connect("z_plant.y", "a_delay.u")
        system.connect("a_delay.y", "gain.u")
        system.connect("gain.y", "z_plant.u")
        found.append(simulate(system, 0.5, T, progress=False)["z_plant.y"])
    assert_allclose(found[1], found[0], rtol=0.0, atol=SAME)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"iterate": True}, {"iterate": "newton"}, {"extrapolate": 1}, {"extrapolate": 2}]
)
def test_delay_fmu_with_polynomial_inputs_matches_its_block(options, native):
    delay = UnitDelay(T)
    _, y = run(delay, T, **options)
    for fmi in (2, 3):
        for kind in KINDS:  # co-simulation of FMI 3.0 has no input derivatives
            _, same = run(delay, T, native("unit", delay, fmi), kind=kind, **options)
            assert_allclose(same, y, rtol=0.0, atol=ROUNDING)


@pytest.mark.slow
def test_fmu_without_discrete_variables_or_with_states_does_not_count_as_sampled(native):
    blocks = {
        "gain": (Gain(2.0), False),
        "filter": (LowPass(0.1), False),
        "unit": (UnitDelay(T), True),
    }
    for name, (block, samples) in blocks.items():
        for fmi in (2, 3):
            assert fmu_at(native(name, block, fmi), None).only_samples == samples


UNDECLARED = {  # declaration of the output, and the number of steps by which it is late
    "feedthrough": ("", "", 0),  # without declared dependencies, feedthrough is assumed
    "discrete": (' variability="discrete"', ' dependencies=""', 0),
    "continuous": ("", ' dependencies=""', 1),
}


@pytest.mark.parametrize("declaration", UNDECLARED)
def test_foreign_delay_fmu_steps_after_its_source_if_its_variables_are_discrete_or_dependent(
    declaration, tmp_path
):
    """The FMU samples in each step, without a declaration: y_k = u_(k - 1 - late)."""
    variability, dependencies, late = UNDECLARED[declaration]
    step = "i->r[1] = i->r[2]; i->r[2] = i->r[0];"
    path = foreign_fmu(tmp_path / "delay.fmu", step=step)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    text = content["modelDescription.xml"].decode()
    for old, new in (
        ('causality="output"', f'causality="output"{variability}'),
        (' dependencies=""', dependencies),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, text if name.endswith(".xml") else data)
    for order, steps in (("gauss-seidel", 1 + late), ("jacobi", 2)):
        t, y = run(UnitDelay(T), T, path, name="a_delay", order=order)
        expected = wave(t[2 - steps : -steps])  # the first sample is at the end of the first step
        assert_allclose(y[2:, 0], expected, rtol=0.0, atol=SAME)


CHAIN = {
    "a": UnitDelay(0.01),
    "m": LowPass(0.05, sample_time=0.004),
    "b": Delay(3, 0.003),
    "z": ZeroOrderHold(0.006),
}


def run_chain(fmus, dt, t_start=0.0, order="gauss-seidel", **options):
    """Return the outputs of a source and of samplers with several rates in series."""
    system, source = System(), "source.y"
    for name, block in CHAIN.items():
        system.add(name, fmus.get(name, block), **options)
    system.add("source", Waves(Port("u")))
    for name in CHAIN:
        system.connect(source, f"{name}.u")
        source = f"{name}.y"
    t_stop = t_start + round(0.24 / dt) * dt
    result = simulate(system, t_stop, dt, t_start=t_start, order=order, progress=False)
    return np.column_stack([result[f"{name}.y"] for name in CHAIN])


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize("t_start", [0.0, 1.2e6, -12.0])
def test_fmus_with_several_sample_times_in_series_match_their_blocks(fmi, t_start, native):
    fmus = {name: native(f"chain {name}", block, fmi) for name, block in CHAIN.items()}
    for dt in (0.001, 0.004, 0.01, 0.012):
        for order in ("gauss-seidel", "jacobi"):
            y = run_chain({}, dt, t_start, order)
            for kind in KINDS:
                same = run_chain(fmus, dt, t_start, order, kind=kind)
                assert_allclose(same, y, rtol=0.0, atol=ROUNDING)


@pytest.mark.slow
def test_runs_of_sampled_fmus_in_threads_have_equal_results(native):
    fmus = {name: native(f"chain {name}", block, 3) for name, block in CHAIN.items()}
    expected = run_chain({}, 0.004)
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(run_chain, fmus, 0.004, kind=kind) for kind in KINDS * 4]
        for one in runs:
            assert_allclose(one.result(), expected, rtol=0.0, atol=ROUNDING)
