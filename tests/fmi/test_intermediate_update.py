"""Co-simulation of FMI 3.0 with intermediate updates, early return and event mode."""

import xml.etree.ElementTree as ET
import zipfile

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi3 import FMU3Slave
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import Instance
from planar2ctrl import parts, wired
from rigidblocks import FusedSystem, export_fmu
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper

SAME = 1e-12  # rounding of the times in a short run
OTHER_STEPS = 1e-9  # error of a fourth-order method with different inner steps of at most 1 ms

ERROR = 3
H = 1e-3
PLANAR2, SERVO = Memory(BLOCKS["planar2"]), Memory(BLOCKS["servo"])
SAMPLE = SERVO.block.sample_time
TAU, Q, QDD, ENERGY = (PLANAR2.where[name].start for name in ("tau", "q", "qdd", "energy"))


class Host:
    """Importer that records its callbacks and calls `act(time, inputs_wanted)` in them.

    `act` returns None, or the requested end of the step.
    """

    def __init__(self, archive, name, act=None, **settings):
        self.act, self.calls = act, []
        self.instance = Instance(
            archive, name, FMU3Slave, intermediateUpdate=self.update, **settings
        )
        self.fmu = self.instance.fmu

    def update(
        self, environment, time, inputs_wanted, outputs_kept, finished, may_return, requested, end
    ):
        del environment
        assert outputs_kept
        assert finished
        self.calls.append((time, inputs_wanted, may_return))
        wish = self.act(time, inputs_wanted) if self.act else None
        if wish is not None:
            requested[0], end[0] = True, wish


@pytest.fixture
def host(archive):
    """Return a function that makes importers; the fixture frees their instances."""
    made = []

    def make(name, act=None, **settings):
        made.append(Host(archive, name, act, **settings))
        return made[-1]

    yield make
    for one in made:
        one.fmu.freeInstance()


@pytest.fixture
def plain(archive):
    """Return a function that returns the memory after each step of a run without callbacks."""

    def run(name, dt, steps, inputs):
        instance, flat, rows = Instance(archive, name, FMU3Slave), Memory(BLOCKS[name]), []
        instance.initialize()
        for k in range(steps):
            instance.set(flat.u, inputs(k * dt))
            instance.fmu.doStep(k * dt, dt)
            rows.append(instance.m)
        instance.fmu.freeInstance()
        return np.array(rows)

    return run


def refused(host, message, call):
    """Assert that the call is rejected with the message and changes no state."""
    before = host.instance.saved()
    with pytest.raises(FMICallException) as error:
        call(host.fmu)
    assert error.value.status == ERROR
    assert host.instance.messages[-1] == (ERROR, message)
    assert host.instance.saved() == before


@pytest.mark.slow
def test_fmu_without_continuous_variables_does_not_declare_intermediate_updates(tmp_path):
    path = export_fmu(FusedSystem(wired(parts()), 1e-3), tmp_path / "fused.fmu", "source", fmi=3)
    with zipfile.ZipFile(path) as fmu:
        root = ET.fromstring(fmu.read("modelDescription.xml"))
    steps = root.find("CoSimulation")
    assert steps.get("hasEventMode") == "true"
    assert steps.get("providesIntermediateUpdate") is None
    assert steps.get("canReturnEarlyAfterIntermediateUpdate") is None
    assert not [v for v in root.find("ModelVariables") if v.get("intermediateUpdate")]


@pytest.mark.slow
def test_model_description_lists_the_variables_of_intermediate_updates(host, archive):
    steps = host("servo").instance.description.coSimulation
    assert steps.providesIntermediateUpdate
    assert steps.mightReturnEarlyFromDoStep
    assert steps.canReturnEarlyAfterIntermediateUpdate
    assert steps.hasEventMode
    with zipfile.ZipFile(archive("servo", 3)[0]) as fmu:
        variables = ET.fromstring(fmu.read("modelDescription.xml")).find("ModelVariables")
    assert {v.get("name") for v in variables if v.get("intermediateUpdate") == "true"} == {
        "q_ref",
        "load",
        "q",
        "force",
    }


# ---- intermediate updates ----


@pytest.mark.slow
def test_intermediate_updates_report_the_values_after_each_inner_step(host, plain):
    seen = []
    shown = host(
        "planar2",
        lambda time, _: seen.append([time, *shown.fmu.getFloat64([Q, QDD, ENERGY], 5)]),
        requiredIntermediateVariables=[Q, QDD, ENERGY],
    )
    shown.instance.initialize()
    shown.instance.set(PLANAR2.u, (3.0, -1.0))
    assert shown.fmu.doStep(0.0, 4 * H) == (False, False, False, 4 * H)
    rows = plain("planar2", H, 4, lambda _: (3.0, -1.0))
    columns = [0, Q, Q + 1, QDD, QDD + 1, ENERGY]
    assert_allclose(seen, rows[:, columns], rtol=SAME, atol=SAME)
    assert [wanted for _, wanted, _ in shown.calls] == [True, True, True, False]


def test_inputs_set_in_intermediate_updates_have_the_same_effect_as_shorter_steps(host, plain):
    def inputs(t):
        return np.array([np.sin(900 * t), np.cos(700 * t)])

    def act(time, wanted):
        if wanted:
            shared.instance.set(PLANAR2.u, inputs(time))

    shared = host("planar2", act, requiredIntermediateVariables=[TAU])
    shared.instance.initialize()
    for k in range(5):
        shared.instance.set(PLANAR2.u, inputs(4 * k * H))
        shared.fmu.doStep(4 * k * H, 4 * H)
    expected = plain("planar2", H, 20, inputs)[-1]
    assert_allclose(shared.instance.m, expected, rtol=SAME, atol=SAME)


def test_intermediate_update_rejects_variables_that_were_not_required(host):
    refusals = []

    def act(time, wanted):
        del time
        calls = (
            lambda fmu: fmu.getFloat64([ENERGY]),
            lambda fmu: fmu.setFloat64([PLANAR2.where["gravity"].start], [0.0] * 3),
            lambda fmu: fmu.doStep(0.0, H),
            lambda fmu: fmu.reset(),
            lambda fmu: fmu.getFMUState(),
            lambda fmu: fmu.terminate(),
        )
        for call in calls if wanted else [lambda fmu: fmu.setFloat64([TAU], [1.0, 1.0])]:
            with pytest.raises(FMICallException):
                call(shared.fmu)
            refusals.append(shared.instance.messages[-1][1])

    shared = host("planar2", act, requiredIntermediateVariables=[TAU])
    shared.instance.initialize()
    shared.fmu.doStep(0.0, 2 * H)
    text = "is not one of the variables required in intermediate updates"
    assert refusals == [
        f"fmi3GetFloat64: energy {text}",
        f"fmi3SetFloat64: gravity[1] {text}",
        "fmi3DoStep is not allowed in an intermediate update",
        "fmi3Reset is not allowed in an intermediate update",
        "fmi3GetFMUState is not allowed in an intermediate update",
        "fmi3Terminate is not allowed in an intermediate update",
        "fmi3SetFloat64: inputs cannot be set at the end of a step",
    ]
    assert_allclose(shared.instance.m[0], 2 * H)


@pytest.mark.parametrize(
    ("required", "message"),
    [
        ([PLANAR2.where["gravity"].start], "gravity[1] is not available in intermediate updates"),
        ([99], "fmi3InstantiateCoSimulation: unknown variable 99; the last is 15"),
    ],
)
def test_instantiation_rejects_variables_without_intermediate_updates(host, required, message):
    fmu, messages = host("planar2").fmu, []
    other = FMU3Slave(
        guid=fmu.guid,
        unzipDirectory=fmu.unzipDirectory,
        modelIdentifier="RobotPlant",
        instanceName="other",
    )
    with pytest.raises(Exception, match="Failed to instantiate"):
        other.instantiate(
            logMessage=lambda *given: messages.append(given[3].decode()),
            requiredIntermediateVariables=required,
        )
    assert messages == [message]


# ---- early return ----


@pytest.mark.parametrize(
    ("wish", "end"),
    [(2.4 * H, 2.4 * H), (0.0, 2 * H), (2 * H, 2 * H)],
    ids=["later", "past", "now"],
)
def test_step_ends_at_the_requested_early_return_time(host, wish, end):
    shared = host("planar2", lambda t, _: wish if t == 2 * H else None, earlyReturnAllowed=True)
    shared.instance.initialize()
    assert shared.fmu.doStep(0.0, 5 * H) == (False, False, True, end)
    assert shared.instance.m[0] == end
    assert all(may_return for *_, may_return in shared.calls)
    numpy, m = NumpyStepper(PLANAR2), PLANAR2.start()
    numpy.initialize(m, 0.0)
    numpy.step(m, 0.0, 2 * H)
    if end > 2 * H:
        numpy.step(m, 2 * H, end - 2 * H)
    assert_allclose(shared.instance.m, m, rtol=SAME, atol=SAME)
    assert shared.fmu.doStep(end, 5 * H - end) == (
        False,
        False,
        False,
        5 * H,
    )  # the run continues


def test_early_return_request_is_ignored_unless_early_return_is_allowed(host):
    shared = host("planar2", lambda t, _: t)
    shared.instance.initialize()
    assert shared.fmu.doStep(0.0, 5 * H) == (False, False, False, 5 * H)
    assert not any(may_return for *_, may_return in shared.calls)


def test_early_returns_do_not_change_the_results_of_a_sampled_fmu(host, plain, rng):
    shared = host("servo", lambda t, _: t + rng.uniform(0, 3 * H), earlyReturnAllowed=True)
    shared.instance.initialize()
    t, steps = 0.0, 0
    while t < 20 * SAMPLE:
        *_, t = shared.fmu.doStep(t, 20 * SAMPLE - t)
        steps += 1
    assert steps > 20
    rows = plain("servo", SAMPLE, 20, lambda _: (0.5, 0.5, 0.0, 0.0))
    assert_allclose(shared.instance.m, rows[-1], rtol=OTHER_STEPS, atol=OTHER_STEPS)


@pytest.mark.parametrize("dt", [0.7 * SAMPLE, 1.5 * SAMPLE, 2 * SAMPLE, 3.25 * SAMPLE])
def test_results_of_an_fmu_with_early_return_do_not_depend_on_the_communication_step(
    host, plain, dt
):
    shared = host("servo", earlyReturnAllowed=True)
    shared.instance.initialize()
    steps = int(20 * SAMPLE / dt)
    for k in range(steps):
        shared.fmu.doStep(k * dt, dt)
    shared.fmu.doStep(steps * dt, 21 * SAMPLE - steps * dt)
    rows = plain("servo", SAMPLE, 21, lambda _: (0.5, 0.5, 0.0, 0.0))
    assert_allclose(shared.instance.m, rows[-1], rtol=OTHER_STEPS, atol=OTHER_STEPS)


# ---- event mode ----


@pytest.fixture
def with_events(host):
    """Return the importer of the servo in step mode, with samples as events."""
    shared = host("servo", eventModeUsed=True, earlyReturnAllowed=True)
    shared.instance.initialize()
    assert shared.fmu.updateDiscreteStates() == (False, False, False, False, True, SAMPLE)
    shared.fmu.enterStepMode()
    return shared


def stepped_with_events(shared, t, dt, inputs=None):
    """Return the times of the events in one communication step."""
    end, events = t + dt, []
    while t < end:
        event, stop, early, t = shared.fmu.doStep(t, end - t)
        assert not stop
        assert early == (t < end)
        if event:
            events.append(t)
            shared.fmu.enterEventMode()
            if inputs is not None:
                shared.instance.set(SERVO.u, inputs)
            *flags, defined, following = shared.fmu.updateDiscreteStates()
            assert (flags, defined) == ([False] * 4, True)
            assert following == round(t / SAMPLE + 1) * SAMPLE
            shared.fmu.enterStepMode()
    return events


def test_event_mode_does_not_change_the_results_of_a_sampled_fmu(with_events, plain):
    inputs = np.array([0.2, 0.8, 1.0, -2.0])
    dt, rows = 2 * SAMPLE, []
    for k in range(20):
        with_events.instance.set(SERVO.u, inputs)
        events = stepped_with_events(with_events, k * dt, dt)
        assert_allclose(events, [k * dt + SAMPLE, (k + 1) * dt], rtol=SAME)
        rows.append(with_events.instance.m)
    assert_allclose(rows, plain("servo", dt, 20, lambda _: inputs), rtol=SAME, atol=SAME)


def test_sample_events_occur_at_multiples_of_the_sample_time(with_events):
    events = [t for k in range(30) for t in stepped_with_events(with_events, k * 7e-3, 7e-3)]
    assert_allclose(
        events, SAMPLE * np.arange(1, 106), rtol=SAME
    )  # events at the end of a step have the importer's time
    inside = [k for k in range(105) if (k + 1) * 2 % 7]
    assert [events[k] for k in inside] == [(k + 1) * SAMPLE for k in inside]


def test_sample_in_event_mode_reads_the_inputs_set_in_event_mode(with_events):
    with_events.fmu.doStep(0.0, SAMPLE)
    with_events.fmu.enterEventMode()
    q = with_events.instance.m[SERVO.where["q"]]
    with_events.instance.set(SERVO.where["q_ref"], (3.0, 4.0))
    with_events.fmu.updateDiscreteStates()
    tau = np.array([400.0, 200.0]) * (np.array([3.0, 4.0]) - q)
    assert_allclose(with_events.instance.m[SERVO.where["tau"]], tau, rtol=SAME)
    with_events.instance.set(SERVO.where["load"], (1.0, 2.0))
    with_events.fmu.enterStepMode()
    m = with_events.instance.m
    assert_allclose(
        m[SERVO.where["force"]], tau + np.array([1.0, 2.0]) - 2 * m[SERVO.where["qd"]], rtol=SAME
    )


def test_step_with_a_pending_sample_event_is_rejected(with_events):
    with_events.fmu.doStep(0.0, SAMPLE)
    text = "the sample at 0.002 s is an event; handle this event first"
    refused(with_events, f"fmi3DoStep: {text}", lambda fmu: fmu.doStep(SAMPLE, SAMPLE))
    with_events.fmu.enterEventMode()
    refused(with_events, f"fmi3EnterStepMode: {text}", lambda fmu: fmu.enterStepMode())
    refused(
        with_events,
        "fmi3DoStep is not allowed in event mode",
        lambda fmu: fmu.doStep(SAMPLE, SAMPLE),
    )
    with_events.fmu.updateDiscreteStates()
    with_events.fmu.enterStepMode()
    with_events.fmu.doStep(SAMPLE, SAMPLE)


def test_model_exchange_calls_are_rejected_in_co_simulation_event_mode(with_events):
    with_events.fmu.enterEventMode()
    refused(
        with_events,
        "fmi3SetTime is not allowed in event mode",
        lambda fmu: fmu.fmi3SetTime(fmu.component, 1.0),
    )
    message = "fmi3EnterContinuousTimeMode is not allowed in event mode"
    refused(with_events, message, lambda fmu: fmu.fmi3EnterContinuousTimeMode(fmu.component))


def test_fmu_executes_its_samples_within_the_step_if_early_return_is_not_allowed(host, plain):
    shared = host("servo", eventModeUsed=True)
    shared.instance.initialize()
    shared.fmu.enterStepMode()
    for k in range(10):
        assert shared.fmu.doStep(k * 2 * SAMPLE, 2 * SAMPLE)[:3] == (False, False, False)
    expected = plain("servo", 2 * SAMPLE, 10, lambda _: (0.5, 0.5, 0.0, 0.0))[-1]
    assert_allclose(shared.instance.m, expected, rtol=SAME, atol=SAME)


def test_restored_fmu_state_repeats_its_sample_events(with_events):
    stepped_with_events(with_events, 0.0, 1.5 * SAMPLE)
    content = with_events.instance.saved()
    expected = stepped_with_events(with_events, 1.5 * SAMPLE, SAMPLE), with_events.instance.m
    state = with_events.fmu.deserializeFMUState(content)
    with_events.fmu.setFMUState(state)
    assert stepped_with_events(with_events, 1.5 * SAMPLE, SAMPLE) == expected[0]
    assert_array_equal(with_events.instance.m, expected[1])


@pytest.mark.parametrize("interval", [1e-3, 5e-3])
def test_event_mode_does_not_change_the_results_in_fmpy(archive, interval):
    path, folder = archive("servo", 3)
    runs = [
        fmpy.simulate_fmu(
            str(folder),
            stop_time=0.02,
            output_interval=dt,
            fmi_type="CoSimulation",
            use_event_mode=events,
            early_return_allowed=events,
            output=["q", "force"],
            record_events=False,
        )
        for events, dt in ((True, interval), (False, 1e-3))
    ]
    assert path.exists()
    for name in ("q", "force"):
        assert_allclose(runs[0][name][-1], runs[1][name][-1], rtol=OTHER_STEPS)


@pytest.mark.parametrize(
    ("dt", "message"),
    [
        (
            1.5e6,
            "the step of 1.5e+06 s has too many inner steps of 0.001 s: at most 1e+09 are allowed",
        ),
        (np.inf, "the step must be finite, not inf s"),
        (0.0, "the step must be positive, not 0 s"),
    ],
)
def test_invalid_step_sizes_are_rejected_with_intermediate_updates(host, dt, message):
    running = host("servo")
    running.instance.initialize()
    refused(running, message, lambda fmu: fmu.doStep(0.0, dt))
