"""FMI 3.0 FMUs of signal blocks with arrays whose size a structural parameter sets."""

from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi3 import FMU3Model, FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_array_equal

from fmu_blocks import BLOCKS, SampledMean
from rigidblocks import (
    Block,
    Port,
    RobotPlant,
    System,
    export_fmu,
    load_system,
    planar2,
    save_system,
    simulate,
)
from rigidblocks.fmi.fmu_checks import profile_matrix
from rigidblocks.library import Delay, Gain, LowPass, Saturation, Sum, UnitDelay

pytestmark = pytest.mark.slow
LARGEST, DT = 7, 2e-3
# blocks by size
MAKERS = {
    "gain": lambda n: Gain(-2.5, (n,)),
    "gain by element": lambda n: Gain(np.arange(1.0, n + 1)),
    "unit delay": lambda n: UnitDelay(DT, (n,), y0=0.5),
    "delay of a matrix": lambda n: Delay(3, DT, (2, n), y0=-1.0),
    "saturation": lambda n: Saturation(-0.5, 0.75, (n,)),
    "sum": lambda n: Sum("+-", (n,)),
}


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resizable")
    return {
        name: export_fmu(make(LARGEST), folder / f"{k}.fmu", fmi=3, resizable=True)
        for k, (name, make) in enumerate(MAKERS.items())
    }


class Resized:
    """Instance in configuration mode, called through FMPy."""

    def __init__(self, path, kind=FMU3Slave, **settings):
        self.description, self.log = fmpy.read_model_description(str(path)), []
        self.variables = {v.name: v for v in self.description.modelVariables}
        self.fmu = kind(
            guid=self.description.instantiationToken,
            modelIdentifier=self.description.coSimulation.modelIdentifier,
            unzipDirectory=fmpy.extract(str(path)),
            instanceName="resized",
        )
        log = lambda *given: self.log.append(given[3].decode())  # noqa: E731 - FMPy keeps it
        self.fmu.instantiate(logMessage=log, **settings)
        self.fmu.enterConfigurationMode()
        self.size_reference = self.variables["array_size"].valueReference

    @property
    def size(self):
        return self.fmu.getUInt64([self.size_reference])[0]

    def resize(self, n):
        self.fmu.setUInt64([self.size_reference], [n])

    def set(self, name, values):
        reference = self.variables[name].valueReference
        self.fmu.setFloat64([reference], np.ravel(values).tolist())

    def get(self, name, count):
        return self.fmu.getFloat64([self.variables[name].valueReference], count)

    def refuses(self, message, call, *arguments):
        with pytest.raises(FMICallException):
            call(*arguments)
        return message in self.log[-1]


def signals(block, k):
    """Return input values of a block in step k by port name."""
    rng = np.random.default_rng(k)
    return {port.name: rng.normal(size=port.shape) for port in block.inputs}


def in_fmpy(path, block, n, steps):
    """Return the outputs of the resized FMU in FMPy."""
    host, size = Resized(path), block.outputs[0].size
    host.resize(n)
    host.fmu.exitConfigurationMode()
    host.fmu.enterInitializationMode(startTime=0.0)
    for name, values in signals(block, 0).items():
        host.set(name, values)
    host.fmu.exitInitializationMode()
    rows = [host.get("y", size)]
    for k in range(steps):
        for name, values in signals(block, k).items():
            host.set(name, values)
        host.fmu.doStep(k * DT, DT)
        rows.append(host.get("y", size))
    return rows


def in_the_block(block, steps):
    """Return the outputs of the block of this size, stepped in NumPy."""
    from rigidblocks.block.memory_layout import Memory
    from rigidblocks.block.stepper import NumpyStepper

    flat = Memory(block)
    stepper, m = NumpyStepper(flat), flat.start()

    def put(k):
        for name, values in signals(block, k).items():
            m[flat.where[name]] = np.ravel(values)

    put(0)
    stepper.initialize(m, 0.0)
    rows = [m[flat.where["y"]].copy()]
    for k in range(steps):
        put(k)
        stepper.step(m, k * DT, DT)
        rows.append(m[flat.where["y"]].copy())
    return rows


@pytest.mark.parametrize("name", MAKERS)
def test_resizable_fmu_is_valid_and_supports_the_feature_resizable_arrays(fmus, name):
    assert not validate_fmu(str(fmus[name]))
    support = profile_matrix(fmus[name]).support
    assert support["resizable arrays"] == "yes"
    (size,) = [
        v
        for v in fmpy.read_model_description(str(fmus[name])).modelVariables
        if v.causality == "structuralParameter"
    ]
    assert (size.name, size.type, size.start) == ("array_size", "UInt64", str(LARGEST))


@pytest.mark.parametrize("n", [1, 2, 5, LARGEST])
@pytest.mark.parametrize("name", MAKERS)
def test_results_of_a_resized_fmu_in_fmpy_match_the_block_of_this_size(fmus, name, n):
    block = MAKERS[name](n)
    assert_array_equal(in_fmpy(fmus[name], block, n, 6), in_the_block(block, 6))


@pytest.mark.parametrize("n", [1, 4])
def test_results_of_a_resized_fmu_in_a_system_match_the_block_of_this_size(fmus, n, tmp_path):
    system, block = System(), System()
    u = np.random.default_rng(1).normal(size=n)
    gain, delay = MAKERS["gain"], MAKERS["unit delay"]
    system.add("gain", fmus["gain"], start={"array_size": n, "u": u})
    system.add("delay", fmus["unit delay"], start={"array_size": n})
    block.add("gain", gain(n), start={"u": u})
    block.add("delay", delay(n))
    for one in (system, block):
        one.connect("gain.y", "delay.u")
    loaded, _ = load_system(save_system(system, tmp_path / "s.ssp"))
    for one in (system, loaded):
        found, expected = (simulate(s, 5 * DT, DT, order="jacobi") for s in (one, block))
        assert_array_equal(found["delay.y"], expected["delay.y"])


def test_reset_restores_the_largest_array_size_and_saved_states_contain_the_size(fmus):
    host = Resized(fmus["unit delay"])
    host.resize(3)
    host.fmu.exitConfigurationMode()
    host.fmu.enterInitializationMode(startTime=0.0)
    host.set("u", [1.0, 2.0, 3.0])
    host.fmu.exitInitializationMode()
    host.fmu.doStep(0.0, DT)
    state = host.fmu.getFMUState()
    content, y = host.fmu.serializeFMUState(state), host.get("y", 3)
    host.fmu.reset()
    assert host.size == LARGEST
    host.fmu.setFMUState(host.fmu.deserializeFMUState(content))
    assert (host.size, host.get("y", 3)) == (3, y)


def test_illegal_array_sizes_and_calls_are_rejected_with_a_message(fmus):
    host = Resized(fmus["gain"])
    for n in (0, LARGEST + 1, 2**64 - 1):
        message = f"the size of the arrays must be at least 1 and at most {LARGEST}, not "
        assert host.refuses(message, host.resize, n)
    assert host.size == LARGEST
    assert host.refuses("3 is not the structural parameter", host.fmu.setUInt64, [3], [2])
    message = "fmi3SetFloat64 is not allowed in configuration mode"
    assert host.refuses(message, host.set, "u", np.ones(LARGEST))
    host.resize(2)
    host.fmu.exitConfigurationMode()
    assert host.refuses("fmi3SetUInt64 is not allowed before init", host.resize, 3)
    host.fmu.enterInitializationMode(startTime=0.0)
    assert host.refuses("have 2 elements, not 7", host.set, "u", np.ones(LARGEST))
    assert host.refuses("EnterConfigurationMode is not", host.fmu.enterConfigurationMode)
    with pytest.raises(Exception, match="instantiate"):
        Resized(fmus["gain"], FMU3Model)


@pytest.mark.parametrize(
    ("block", "options", "message"),
    [
        (Gain([[1.0, 2.0], [3.0, 4.0]], matrix=True), {}, r"y\[1\] depends on k\[1,2\]|u\[2\]"),
        (Gain(2.0), {}, "need inputs with a common last dimension"),
        (LowPass(0.1, (3,)), {}, "a block without continuous states; LowPass has"),
        (RobotPlant(planar2()), {}, "a block without continuous states; RobotPlant has q, qd"),
        (SampledMean(), {}, r"s depends on gain\[1\]|s depends on"),
        (BLOCKS["sampled pd"], {"interval": 1e-3}, "does not support the option interval"),
        (Gain(2.0, (3,)), {"output_derivatives": 1}, "support the option output_derivatives"),
        (Gain(2.0, (3,)), {"fmi": 2}, "resizable arrays must be exported for FMI 3.0, not for"),
        (Gain(2.0, (3,)), {"arrays": False}, "arrays=True"),
        (Gain(2.0, (3,)), {"target": "python", "fmi": 2}, "does not support resizable"),
    ],
)
def test_export_of_resizable_arrays_rejects_unsupported_blocks_and_options(
    block, options, message, tmp_path
):
    with pytest.raises(ValueError, match=message):
        export_fmu(block, tmp_path / "a.fmu", **{"fmi": 3, "resizable": True} | options)


# ---- clock, binary variables and resizable arrays in one FMU ----


@dataclass(frozen=True, eq=False)
class WeightedSum(Block):
    """Sampled sum of two weighted inputs, element by element: s += gain u + offset v."""

    n: int = LARGEST
    sample_time: float | None = DT

    @property
    def inputs(self):
        return (Port("u", (self.n,)), Port("v", (self.n,)))

    @property
    def outputs(self):
        return (Port("y", (self.n,)), Port("twice", (self.n,)))

    @property
    def sampled(self):
        return (Port("s", (self.n,), start=0.0),)

    @property
    def parameters(self):
        names = {"gain": 2.0, "offset": -1.0}
        return tuple(Port(name, (self.n,), start=value) for name, value in names.items())

    def update(self, x, u, p):
        return {"s": x.s + p.gain * u.u + p.offset * u.v}

    def output(self, x):
        return {"y": x.s, "twice": 2.0 * x.s}


BINARY = ("v", "twice", "offset")


@pytest.fixture(scope="module", params=["periodic", "triggered"])
def combined(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("combined") / f"{request.param}.fmu"
    options = {"clock": request.param, "binary": BINARY, "resizable": True}
    return export_fmu(WeightedSum(), path, fmi=3, **options)


def test_fmu_with_clock_binary_variables_and_resizable_arrays_fulfils_the_profile_xil(combined):
    assert not validate_fmu(str(combined))
    matrix = profile_matrix(combined)
    for name in ("binary signals", "binary parameters", "resizable arrays", "clocks"):
        assert matrix.support[name] == "yes", name
    assert fmpy.read_model_description(str(combined)).modelExchange is None


@pytest.mark.parametrize("n", [1, 3, LARGEST])
def test_results_of_a_resized_clocked_fmu_in_fmpy_match_the_block_of_this_size(combined, n):
    """The host ticks the clock at the ends of its steps, and sets the clocked inputs then."""
    host = Resized(combined, eventModeUsed=True)
    fmu, references = host.fmu, {name: v.valueReference for name, v in host.variables.items()}
    host.resize(n)
    fmu.exitConfigurationMode()
    rng = np.random.default_rng(3)
    gain, offset = rng.normal(size=(2, n))
    fmu.enterInitializationMode(startTime=0.0)
    host.set("gain", gain)
    fmu.setBinary([references["offset"]], [offset.astype("<f8").tobytes()])
    fmu.exitInitializationMode()
    total = np.zeros(n)
    for k in range(6):
        u, v = rng.normal(size=(2, n)) if k else np.zeros((2, n))  # a sample of the initialization
        fmu.setClock([references["sample_clock"]], [True])
        host.set("u", u)
        fmu.setBinary([references["v"]], [v.astype("<f8").tobytes()])
        total = total + gain * u + offset * v
        y = host.get("y", n)
        twice = np.frombuffer(fmu.getBinary([references["twice"]])[0], "<f8")
        fmu.updateDiscreteStates()
        np.testing.assert_allclose(y, total, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(twice, 2.0 * total, rtol=1e-14, atol=1e-14)
        fmu.enterStepMode()
        fmu.doStep(k * DT, DT)
        fmu.enterEventMode()


def test_binary_value_larger_than_the_resized_array_is_rejected(combined):
    host = Resized(combined, eventModeUsed=True)
    reference = host.variables["offset"].valueReference
    host.resize(2)
    host.fmu.exitConfigurationMode()
    host.fmu.enterInitializationMode(startTime=0.0)
    too_long = np.ones(LARGEST).tobytes()
    assert host.refuses("has 16 bytes, not 56", host.fmu.setBinary, [reference], [too_long])
    host.fmu.setBinary([reference], [np.array([3.0, 4.0]).tobytes()])
    assert host.fmu.getBinary([reference]) == [np.array([3.0, 4.0]).tobytes()]


@pytest.mark.parametrize("n", [2, LARGEST])
def test_results_of_a_resized_clocked_fmu_in_a_system_match_the_block_of_this_size(combined, n):
    """Each step of the periodic clock samples; the triggered clock is always true."""
    u, v, offset = np.random.default_rng(5).normal(size=(3, n))
    block, system = System(), System()
    block.add("sum", WeightedSum(n), start={"u": u, "v": v, "offset": offset})
    values = {"array_size": n, "u": u, "v": v.tobytes(), "offset": offset.tobytes()}
    if "triggered" in combined.name:
        values["sample_clock"] = 1
    system.add("sum", combined, start=values)
    found, expected = (simulate(one, 8 * DT, DT) for one in (system, block))
    np.testing.assert_allclose(found["sum.y"], expected["sum.y"], rtol=1e-14, atol=1e-14)
    twice = [np.frombuffer(value, "<f8") for value in found["sum.twice"]]
    np.testing.assert_allclose(twice, expected["sum.twice"], rtol=1e-14, atol=1e-14)


def test_continuous_variable_of_a_clocked_fmu_cannot_be_binary(tmp_path):
    with pytest.raises(ValueError, match="'force' cannot be a binary variable of an FMU with a cl"):
        export_fmu(BLOCKS["servo"], tmp_path / "a.fmu", fmi=3, clock="periodic", binary=("force",))
