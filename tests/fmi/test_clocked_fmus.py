"""FMI 3.0 FMUs of sampled blocks: a clock of the importer triggers the samples."""

import ctypes

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi3 import FMU3Model, FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS, SampledMean
from rigidblocks import PDController, RobotPlant, System, export_fmu, planar2, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.cosim.graph.fmu_file import read_description
from rigidblocks.fmi.fmu_checks import profile_matrix

pytestmark = pytest.mark.slow
SERVO, MEAN = BLOCKS["servo"], SampledMean()
H = 1e-3  # inner step of the servo [s]; its sample time is 2 ms
SAME = 1e-13  # rounding of the same operations, compiled differently
CLOCK = "sample_clock"


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    """Return FMUs with a periodic clock, a triggered clock, and without a clock."""
    folder = tmp_path_factory.mktemp("clocked")
    options = {"fmi": 3, "method": "rk4", "h": H}
    return {
        "servo": export_fmu(SERVO, folder / "servo.fmu", clock="periodic", **options),
        "plain servo": export_fmu(SERVO, folder / "plain.fmu", **options),
        "mean": export_fmu(MEAN, folder / "mean.fmu", fmi=3, clock="periodic"),
        "triggered": export_fmu(MEAN, folder / "triggered.fmu", fmi=3, clock="triggered"),
        "scalars": export_fmu(MEAN, folder / "scalars.fmu", fmi=3, clock="periodic", arrays=False),
    }


class Clocked:
    """Instance in event mode after the initialization, called through FMPy."""

    def __init__(self, path, block, kind=FMU3Slave, start=None, **settings):
        self.description, self.log = fmpy.read_model_description(str(path)), []
        self.flat = Memory(block)
        interface = (
            self.description.modelExchange if kind is FMU3Model else self.description.coSimulation
        )
        self.fmu = kind(
            guid=self.description.instantiationToken,
            modelIdentifier=interface.modelIdentifier,
            unzipDirectory=fmpy.extract(str(path)),
            instanceName="clocked",
        )
        log = lambda *given: self.log.append(given[3].decode())  # noqa: E731 - FMPy keeps it
        if kind is FMU3Slave:
            settings = {"eventModeUsed": True, **settings}
        self.fmu.instantiate(logMessage=log, **settings)
        self.clock = next(v for v in self.description.modelVariables if v.type == "Clock")
        self.fmu.enterInitializationMode(startTime=0.0)
        for name, value in (start or {}).items():
            self.set(name, value)
        self.fmu.exitInitializationMode()

    def set(self, name, values):
        self.fmu.setFloat64([self.flat.where[name].start], np.ravel(values).tolist())

    def get(self, name):
        where = self.flat.where[name]
        return np.array(self.fmu.getFloat64([where.start], where.stop - where.start))

    def tick(self):
        self.fmu.setClock([self.clock.valueReference], [True])

    def sample(self, **inputs):
        """Handle a tick in event mode, with inputs that belong to the clock."""
        self.tick()
        for name, values in inputs.items():
            self.set(name, values)
        flags = self.fmu.updateDiscreteStates()
        assert not any(flags[:3])
        assert not flags[4], "the FMU schedules no event of its own"

    def refuses(self, message, call, *arguments):
        with pytest.raises(FMICallException):
            call(*arguments)
        return message in self.log[-1]


class Reference:
    """The same block, stepped in NumPy."""

    def __init__(self, block, start=None):
        self.flat = Memory(block)
        self.stepper = NumpyStepper(self.flat, RK4, H)
        self.m = self.flat.start()
        for name, value in (start or {}).items():
            self.m[self.flat.where[name]] = value
        self.stepper.initialize(self.m, 0.0)

    def step(self, k, dt, **inputs):
        for name, value in inputs.items():
            self.m[self.flat.where[name]] = value
        self.stepper.step(self.m, k * dt, dt)

    def get(self, name):
        return self.m[self.flat.where[name]]


def inputs(k):
    return np.random.default_rng(k).normal(size=3)


@pytest.mark.parametrize("name", ["servo", "mean", "triggered", "scalars"])
def test_clocked_fmu_is_valid_and_its_sampled_variables_belong_to_the_clock(fmus, name):
    assert not validate_fmu(str(fmus[name]))
    variables = fmpy.read_model_description(str(fmus[name])).modelVariables
    clocked = {v.name for v in variables if v.clocks}
    assert all(v.clocks[0].name == CLOCK for v in variables if v.clocks)
    assert all(v.variability == "discrete" for v in variables if v.clocks)
    expected = {"tau", "q_ref"} if name == "servo" else {"u", "v", "last", "y", "s"}
    assert {one.partition("[")[0] for one in clocked} == expected
    interval = {"servo": SERVO.sample_time, "triggered": None}.get(name, MEAN.sample_time)
    assert read_description(fmus[name])[2].get(CLOCK, (None, 0.0)) == (interval, 0.0)
    support = profile_matrix(fmus[name]).support
    assert {support["clocks"], support["clocked exchange"]} == {"yes"}


def test_results_of_a_clocked_co_simulation_fmu_match_the_block(fmus):
    """Between two ticks the host takes steps of any length."""
    dt, start = SERVO.sample_time, {"q_ref": [0.5, -0.2], "load": [0.1, 0.0]}
    host, block = Clocked(fmus["servo"], SERVO, start=start), Reference(SERVO, start)
    host.sample(q_ref=start["q_ref"])  # the tick at the start time; the start is a sample
    host.fmu.enterStepMode()
    for k in range(20):
        load, q_ref = [np.sin(k), 0.1 * k], [0.5 + 0.1 * k, -0.2]
        host.set("load", load)
        for j in (0, 1):
            assert not any(host.fmu.doStep(k * dt + j * H, H)[:3])
        host.fmu.enterEventMode()
        host.sample(q_ref=q_ref)
        host.fmu.enterStepMode()
        block.step(k, dt, load=load, q_ref=q_ref)
        for name in ("q", "qd", "tau", "force"):
            assert_allclose(host.get(name), block.get(name), rtol=SAME, atol=SAME)


def test_results_of_a_clocked_model_exchange_fmu_match_the_block(fmus):
    """The host integrates by the method of the block between the ticks."""
    dt, start = SERVO.sample_time, {"q_ref": [0.5, -0.2], "load": [0.1, 0.0]}
    host = Clocked(fmus["servo"], SERVO, FMU3Model, start=start)
    block, fmu, n = Reference(SERVO, start), host.fmu, 4
    vector = ctypes.c_double * n

    def vector_of(function):
        values = vector()
        function(values, n)
        return np.array(values)

    def rates(t, x):
        fmu.setTime(t)
        fmu.setContinuousStates(vector(*x), n)
        return vector_of(fmu.getContinuousStateDerivatives)

    host.sample(q_ref=start["q_ref"])
    fmu.enterContinuousTimeMode()
    for k in range(10):
        load, q_ref = [np.sin(k), 0.1 * k], [0.5 + 0.1 * k, -0.2]
        host.set("load", load)
        for j in (0, 1):
            t, x, slopes = k * dt + j * H, vector_of(fmu.getContinuousStates), []
            for a, c in zip(RK4.a, RK4.c, strict=True):
                change = sum((w * s for w, s in zip(a, slopes, strict=False)), start=0.0)
                slopes.append(rates(t + c * H, x + H * change))
            rates(t + H, x + H * sum(w * s for w, s in zip(RK4.b, slopes, strict=True)))
            assert fmu.completedIntegratorStep() == (False, False)
        fmu.enterEventMode()
        host.sample(q_ref=q_ref)
        fmu.enterContinuousTimeMode()
        block.step(k, dt, load=load, q_ref=q_ref)
        for name in ("q", "qd", "tau", "force"):
            assert_allclose(host.get(name), block.get(name), rtol=SAME, atol=SAME)


@pytest.mark.parametrize("kind", [FMU3Slave, FMU3Model])
@pytest.mark.parametrize("name", ["mean", "triggered"])
def test_outputs_of_a_clock_tick_are_readable_before_the_update_of_discrete_states(
    fmus, name, kind
):
    host, gain = Clocked(fmus[name], MEAN, kind, start={"u": inputs(0), "v": 0.25}), [2, 3, 4]
    last = 0.5 * np.multiply(gain, inputs(0))
    assert_array_equal(host.get("y"), last + 0.25)
    host.fmu.updateDiscreteStates()
    for k in range(1, 6):  # ticks at any times, also several at the same time
        if kind is FMU3Slave and k % 3:
            host.fmu.enterStepMode()
            host.fmu.doStep(0.1 * (k - 1 - k // 3), 0.1)
            host.fmu.enterEventMode()
        elif kind is FMU3Model and k % 3:
            host.fmu.enterContinuousTimeMode()
            host.fmu.setTime(0.1 * k)
            host.fmu.enterEventMode()
        assert_array_equal(host.get("y"), last + 0.25)  # without a tick, outputs are held
        host.tick()
        host.set("u", inputs(k))
        last = 0.5 * (last + gain * inputs(k))
        for _ in (0, 1):
            assert_array_equal(host.get("y"), last + 0.25)
        assert not any(host.fmu.updateDiscreteStates()[:3])
        assert_array_equal(host.get("y"), last + 0.25)
        assert host.fmu.getClock([host.clock.valueReference]) == [False]


def test_tick_at_the_start_time_does_not_trigger_a_second_sample(fmus):
    host = Clocked(fmus["mean"], MEAN)
    before = host.get("y")
    host.sample()
    assert_array_equal(host.get("y"), before)
    host.sample()
    assert np.all(host.get("y") != before)


def test_saved_fmu_state_contains_an_active_clock_tick(fmus):
    host = Clocked(fmus["triggered"], MEAN)
    host.sample()
    host.tick()
    state, ticked = host.fmu.getFMUState(), host.get("y")
    content = host.fmu.serializeFMUState(state)
    host.fmu.updateDiscreteStates()
    host.sample(u=[9.0, 9.0, 9.0])
    host.fmu.setFMUState(host.fmu.deserializeFMUState(content))
    assert host.fmu.getClock([host.clock.valueReference]) == [True]
    host.fmu.updateDiscreteStates()
    assert_array_equal(host.get("y"), ticked)


def test_clocked_fmu_executes_its_samples_itself_without_event_mode(fmus):
    runs = []
    for name in ("servo", "plain servo"):
        description = fmpy.read_model_description(str(fmus[name]))
        fmu = FMU3Slave(
            guid=description.instantiationToken,
            modelIdentifier=description.coSimulation.modelIdentifier,
            unzipDirectory=fmpy.extract(str(fmus[name])),
            instanceName="a",
        )
        fmu.instantiate()
        fmu.enterInitializationMode(startTime=0.0)
        fmu.exitInitializationMode()
        where, rows = Memory(SERVO).where["q"], []
        for k in range(50):
            fmu.doStep(k * 0.7e-3, 0.7e-3)
            rows.append(fmu.getFloat64([where.start], 2))
        runs.append(rows)
    assert_array_equal(*runs)


@pytest.mark.parametrize("name", ["mean", "scalars"])
def test_results_of_a_clocked_fmu_without_event_mode_in_fmpy_match_the_block(fmus, name):
    rows = fmpy.simulate_fmu(str(fmus[name]), stop_time=0.1, output_interval=MEAN.sample_time)
    system = System()
    system.add("mean", MEAN)
    assert_array_equal(rows["s"], simulate(system, 0.1, MEAN.sample_time)["mean.s"])


@pytest.mark.parametrize("kind", ["co-simulation", "model exchange"])
@pytest.mark.parametrize("dt", [2e-3, 1e-2])
def test_results_of_a_clocked_fmu_in_simulate_match_the_block(fmus, kind, dt):
    start = {"q_ref": 0.5, "load": 0.0}
    system, block = System(), System()
    options = {"kind": kind} | ({"method": RK4, "h": H} if kind == "model exchange" else {})
    system.add("servo", fmus["servo"], start=start, **options)
    block.add("servo", SERVO, start=start, method=RK4, h=H)
    ours, expected = (simulate(one, t_stop=0.2, dt=dt) for one in (system, block))
    for name in ("servo.q", "servo.force"):
        assert_allclose(ours[name], expected[name], rtol=1e-11, atol=1e-12)


def test_illegal_calls_of_the_clock_are_rejected_with_a_message(fmus):
    host = Clocked(fmus["mean"], MEAN)
    clock = host.clock.valueReference
    assert host.refuses(f"3 is not the clock {clock}", host.fmu.setClock, [3], [True])
    assert host.refuses(f"3 is not the clock {clock}", host.fmu.getClock, [3])
    host.tick()
    message = "fmi3EnterStepMode: the clock ticks at 0 s; handle this event first"
    assert host.refuses(message, host.fmu.enterStepMode)
    host.fmu.updateDiscreteStates()
    host.fmu.enterStepMode()
    message = "fmi3SetClock is not allowed during a run"
    assert host.refuses(message, host.fmu.setClock, [clock], [True])
    exchange = Clocked(fmus["mean"], MEAN, FMU3Model)
    exchange.tick()
    message = "fmi3EnterContinuousTimeMode: the clock ticks at 0 s; handle this event first"
    assert exchange.refuses(message, exchange.fmu.enterContinuousTimeMode)


@pytest.mark.parametrize(
    ("block", "options", "message"),
    [
        (MEAN, {"fmi": 2, "clock": "periodic"}, "must be exported for FMI 3.0"),
        (
            MEAN,
            {"fmi": 3, "clock": "periodic", "interval": 1e-3},
            "clock does not support the option interval; leave it out",
        ),
        (MEAN, {"fmi": 3, "clock": "hourly"}, "clock must be one of periodic, triggered, not 'ho"),
        (RobotPlant(planar2()), {"fmi": 3, "clock": "periodic"}, "needs a block with a sample tim"),
        (PDController([1.0], [1.0]), {"target": "python", "clock": "periodic"}, "support clock"),
    ],
)
def test_clock_export_rejects_unsupported_blocks_and_options(block, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export_fmu(block, tmp_path / "a.fmu", **options)
