"""Scheduled execution of FMI 3.0: export of blocks, and import of foreign FMUs."""

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi3 import FMU3ScheduledExecution, FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from any_models import PARTITIONS, any_fmu
from fmu_blocks import BLOCKS
from rigidblocks import RobotPlant, System, export_fmu, planar2, simulate
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.cosim.graph.fmu_file import read_description
from rigidblocks.cosim.simulate import SimulationError
from rigidblocks.fmi.fmu_checks import profile_matrix

pytestmark = pytest.mark.slow
INTERVAL = 1e-3
SAME = 1e-13  # rounding of the same operations, compiled differently


@pytest.fixture(scope="module")
def servo(tmp_path_factory):
    """Return an FMU with continuous and sampled states, whose clock ticks every millisecond."""
    path = tmp_path_factory.mktemp("scheduled") / "servo.fmu"
    return export_fmu(BLOCKS["servo"], path, fmi=3, method="rk4", interval=INTERVAL)


class Scheduler:
    """Instance for scheduled execution, called through FMPy."""

    def __init__(self, path, folder, kind=FMU3ScheduledExecution):
        self.description = fmpy.read_model_description(str(path))
        fmpy.extract(str(path), str(folder))
        self.messages = []
        self.fmu = kind(
            guid=self.description.instantiationToken,
            unzipDirectory=str(folder),
            modelIdentifier=self.description.scheduledExecution.modelIdentifier,
            instanceName="servo",
        )
        self.fmu.instantiate(logMessage=lambda *given: self.messages.append(given[3].decode()))
        self.clock = next(v for v in self.description.modelVariables if v.type == "Clock")

    def start(self, t=0.0):
        self.fmu.enterInitializationMode(startTime=t)
        self.fmu.exitInitializationMode()

    def run(self, t):
        self.fmu.activateModelPartition(self.clock.valueReference, t)

    def get(self, flat, name):
        where = flat.where[name]
        return self.fmu.getFloat64([where.start], where.stop - where.start)

    def is_refused(self, message, call, *arguments):
        with pytest.raises(FMICallException):
            call(*arguments)
        return self.messages[-1] == message


def test_fmu_for_scheduled_execution_is_valid_and_has_one_periodic_clock(servo):
    assert not validate_fmu(str(servo))
    description = fmpy.read_model_description(str(servo))
    assert description.coSimulation is description.modelExchange is None
    (clock,) = [v for v in description.modelVariables if v.type == "Clock"]
    assert clock.intervalVariability == "constant"
    assert read_description(servo)[2] == {clock.name: (INTERVAL, 0.0)}
    signals = [v for v in description.modelVariables if v.causality in ("input", "output")]
    for v in signals:
        assert v is clock or (v.clocks, v.variability) == ([clock], "discrete")
    assert profile_matrix(servo).support["scheduled"] == "yes"


def test_model_partition_matches_the_step_results_of_the_block(servo, tmp_path):
    scheduler, flat = Scheduler(servo, tmp_path / "a"), Memory(BLOCKS["servo"])
    stepper = NumpyStepper(flat, RK4, 1e-3)
    m = flat.start()
    stepper.initialize(m, 0.0)
    scheduler.start()
    scheduler.run(0.0)  # the first tick is at the start time
    inputs, n = flat.where["load"], 12
    for k in range(n):
        load = np.array([np.sin(k), 0.1 * k])
        m[inputs] = load
        scheduler.fmu.setFloat64([inputs.start], load.tolist())
        stepper.step(m, k * INTERVAL, INTERVAL)
        scheduler.run((k + 1) * INTERVAL)
        for name in ("q", "force"):
            assert_allclose(scheduler.get(flat, name), m[flat.where[name]], rtol=SAME, atol=SAME)
    scheduler.fmu.terminate()
    scheduler.fmu.freeInstance()


def test_illegal_partition_activations_are_rejected_and_change_no_values(servo, tmp_path):
    scheduler = Scheduler(servo, tmp_path / "a")
    activate, clock = scheduler.fmu.activateModelPartition, scheduler.clock.valueReference
    name = "fmi3ActivateModelPartition"
    assert scheduler.is_refused(
        f"{name} is not allowed before initialization", activate, clock, 0.0
    )
    scheduler.start(0.5)
    scheduler.run(0.502)
    before = scheduler.get(Memory(BLOCKS["servo"]), "force")
    assert scheduler.is_refused(f"{name}: 3 is not the clock {clock}", activate, 3, 0.51)
    assert scheduler.is_refused("the step must be positive, not -0.002 s", activate, clock, 0.5)
    assert scheduler.is_refused("the step must be finite, not nan s", activate, clock, np.nan)
    assert scheduler.get(Memory(BLOCKS["servo"]), "force") == before
    scheduler.fmu.freeInstance()
    with pytest.raises(Exception, match="instantiate"):
        Scheduler(servo, tmp_path / "b", FMU3Slave)


@pytest.mark.parametrize("dt", [INTERVAL, 4 * INTERVAL, 2000 * INTERVAL])
def test_simulate_runs_a_model_partition_at_each_clock_tick_within_a_step(servo, dt):
    system, block = System(), System()
    system.add("servo", servo, start={"q_ref": 0.5, "load": 0.0})
    block.add("servo", BLOCKS["servo"], start={"q_ref": 0.5, "load": 0.0}, method=RK4, h=1e-3)
    ours, expected = (simulate(one, t_stop=10 * dt, dt=dt) for one in (system, block))
    for name in ("servo.q", "servo.force"):
        assert_allclose(ours[name], expected[name], rtol=1e-11, atol=1e-12)


def test_integrator_options_are_rejected_for_scheduled_execution(servo):
    with pytest.raises(ValueError, match=r"'arm' is a scheduled execution FMU .* not method='rk4'"):
        System().add("arm", servo, method="rk4")


def test_simulate_runs_partitions_in_order_of_priority_and_at_countdown_clock_ticks(tmp_path):
    system = System()
    system.add("plan", any_fmu(tmp_path, PARTITIONS, 3), start={"hit": 0, "u": 0.25})
    result = simulate(system, t_stop=0.4, dt=0.1)
    # the slow clock has the higher priority; 0.05 s after each of its ticks, `later` ticks
    assert_array_equal(result["plan.order"].ravel(), [21, 2131, 213121, 21312131, 2131213121])
    assert_allclose(result["plan.last"].ravel(), [0.0, 0.1, 0.2, 0.3, 0.4])
    assert result["plan.sampled"].ravel()[-1] == 0.25
    assert_array_equal(result["plan.rang"].ravel(), [0, 1, 0, 1, 0])
    coarse = simulate(system, t_stop=0.4, dt=0.4)
    assert coarse["plan.order"].ravel()[-1] == 2131213121


def test_active_triggered_clock_runs_its_partition_at_the_beginning_of_the_step(tmp_path):
    system = System()
    system.add("plan", any_fmu(tmp_path, PARTITIONS, 3), start={"hit": 1, "u": 0.0})
    result = simulate(system, t_stop=0.1, dt=0.1)
    assert_array_equal(result["plan.order"].ravel(), [21, 21531])


def test_fmu_clock_that_ticks_endlessly_at_the_same_time_is_reported(tmp_path):
    system = System()
    system.add("plan", any_fmu(tmp_path, PARTITIONS, 3), start={"hit": 0, "u": -1.0})
    with pytest.raises(
        SimulationError, match="'plan': it has more than 1000 events at the same time"
    ):
        simulate(system, t_stop=0.2, dt=0.1)


def test_export_for_scheduled_execution_rejects_unsupported_options(tmp_path):
    for options, message in (
        ({"fmi": 2, "interval": 1e-3}, "must be exported for FMI 3.0"),
        ({"fmi": 3, "interval": 1e-3, "xcp": "127.0.0.1:5555"}, "support the option xcp; leave it"),
        ({"fmi": 3, "interval": 0.0}, "must be positive, not 0.0 s"),
        ({"fmi": 3, "interval": np.nan}, "must be positive, not nan s"),
        ({"fmi": 3, "interval": 1e-3, "output_derivatives": 1}, "output derivatives"),
        ({"target": "python", "interval": 1e-3}, "does not support interval"),
    ):
        with pytest.raises(ValueError, match=message):
            export_fmu(RobotPlant(planar2()), tmp_path / "a.fmu", **options)
