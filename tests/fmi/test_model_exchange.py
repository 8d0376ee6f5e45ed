"""Model exchange in FMI 2.0 and 3.0: equal values, and exact directional derivatives.

An importer with fixed steps gives the values of co-simulation.
"""

import ctypes
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi2 import FMU2Model
from fmpy.fmi3 import FMU3Model, FMU3Slave
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import Instance
from model_exchange_host import FixedStepHost
from rigidblocks import Block, Port
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import n_four_bar

SAME = 1e-12  # rounding of reordered operations in a short run
# step of a central difference; its error is about step^2 plus rounding / step
DIFFERENCE = 1e-6
DIFFERENCE_ERROR = 1e-7

ERROR = 3
H = 1e-3
PLANAR2 = Memory(BLOCKS["planar2"])


@pytest.fixture
def freed():
    """Return a function that frees an instance at the end of the test."""
    made = []

    def keep(instance):
        made.append(instance)
        return instance

    yield keep
    for one in made:
        one.fmu.freeInstance()


@pytest.fixture(params=[2, 3], ids=["fmi2", "fmi3"])
def fmi(request):
    return request.param


def refused(instance, message, call):
    """Assert that the call is rejected with the message and changes no state."""
    before = instance.saved()
    with pytest.raises(FMICallException) as error:
        call(instance.fmu)
    assert error.value.status == ERROR
    assert instance.messages[-1][-1] == message
    assert instance.saved() == before


# ---- equal values in C and NumPy ----


@pytest.mark.parametrize("name", BLOCKS)
def test_model_exchange_with_fixed_steps_matches_the_numpy_results_of_the_block(
    archive, freed, rng, name, fmi
):
    flat = Memory(BLOCKS[name])
    host, numpy, m = freed(FixedStepHost(archive, name, fmi)), NumpyStepper(flat, h=H), flat.start()
    numpy.initialize(m, 0.0)
    host.initialize()
    assert_allclose(host.m, m, rtol=SAME, atol=SAME)
    for k in range(10):
        m[flat.u] = rng.normal(0.0, 3.0, m[flat.u].shape)
        host.set(flat.u, m[flat.u])
        numpy.step(m, k * H, H)
        host.step(k * H, H)
        assert_allclose(host.m, m, rtol=SAME, atol=SAME * np.abs(m).max())


def test_next_event_times_are_exact_multiples_of_the_sample_time(archive, freed, fmi):
    host, sample_time = (
        freed(FixedStepHost(archive, "sampled pd", fmi)),
        BLOCKS["sampled pd"].sample_time,
    )
    host.initialize()
    announced = [host.next_event]
    for k in range(200):
        host.step(k * H, H)
        announced.append(host.next_event)
    assert sorted(set(announced)) == [k * sample_time for k in range(1, 102)]


def test_next_event_time_of_a_run_that_starts_between_samples_is_the_next_sample(
    archive, freed, fmi
):
    host = freed(FixedStepHost(archive, "sampled pd", fmi))
    host.initialize(t=0.0135)
    assert host.next_event == 7 * BLOCKS["sampled pd"].sample_time


def test_event_just_before_a_sample_instant_does_not_execute_the_sample(archive, freed, fmi):
    flat = Memory(BLOCKS["sampled pd"])
    host = freed(FixedStepHost(archive, "sampled pd", fmi))
    host.initialize()
    before = host.m
    host.set(flat.where["q_ref"], (1.0, 2.0))
    host.fmu.setTime(1e-3)
    host.fmu.enterEventMode()
    host.handle_event(1e-3)
    assert_array_equal(host.m[flat.z], before[flat.z])
    assert host.next_event == 2e-3
    host.fmu.setTime(2e-3)
    host.handle_event(2e-3)
    assert np.any(host.m[flat.z] != before[flat.z])


@pytest.mark.slow
def test_event_update_in_model_exchange_normalizes_the_quaternion_states(archive, freed, fmi):
    flat = Memory(BLOCKS["free bodies"])
    host = freed(FixedStepHost(archive, "free bodies", fmi))
    host.initialize()
    x = host.x
    host.rates(0.0, 1.01 * x)
    wants_event, _ = host.fmu.completedIntegratorStep()
    assert wants_event
    host.fmu.enterEventMode()
    host.handle_event(0.0)
    m = flat.start()
    m[flat.x] = 1.01 * x
    assert_allclose(host.x, NumpyEvaluator(flat).project(m), rtol=SAME)
    assert np.abs(host.x - 1.01 * x).max() > 1e-3


def test_model_description_lists_state_derivatives_with_their_units(archive, freed, fmi):
    host = freed(Instance(archive, "planar2", FMU2Model if fmi == 2 else FMU3Model))
    rates = {
        v.name: (v.derivative.name, v.unit)
        for v in host.description.modelVariables
        if v.derivative is not None
    }
    suffixes = ("[1]", "[2]") if fmi == 2 else ("",)
    expected = {f"der(q{k})": (f"q{k}", "rad/s") for k in suffixes} | {
        f"der(qd{k})": (f"qd{k}", "rad/s2") for k in suffixes
    }
    assert rates == expected
    assert [u.variable.name for u in host.description.derivatives] == list(expected)


def test_planar_arm_has_unit_nominal_values_and_no_event_indicators(archive, freed, fmi):
    host = freed(FixedStepHost(archive, "planar2", fmi))
    nominals = (ctypes.c_double * 4)()
    if fmi == 2:
        host.fmu.fmi2GetNominalsOfContinuousStates(host.fmu.component, nominals, 4)
    else:
        assert (host.nx, host.fmu.getNumberOfEventIndicators()) == (4, 0)
        host.fmu.getNominalsOfContinuousStates(nominals, 4)
    assert list(nominals) == [1.0] * 4


# ---- rejected calls ----

VECTOR = (ctypes.c_double * 4)(0.0, 0.0, np.nan, 0.0)
REFUSED = {
    "time": ("the time must be finite, not inf s", lambda fmu: fmu.setTime(np.inf)),
    "states": ("qd[1] must be finite, not nan", lambda fmu: fmu.setContinuousStates(VECTOR, 4)),
    "fewer states": (
        "SetContinuousStates: there are 4 continuous states, not 3",
        lambda fmu: fmu.setContinuousStates(VECTOR, 3),
    ),
    "continuous-time mode": (
        "EnterContinuousTimeMode is not allowed in continuous-time mode",
        lambda fmu: fmu.enterContinuousTimeMode(),
    ),
    "initialization": (
        "ExitInitializationMode is not allowed in continuous-time mode",
        lambda fmu: fmu.exitInitializationMode(),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_illegal_calls_in_continuous_time_mode_are_rejected_and_change_no_state(
    archive, freed, fmi, case
):
    host = freed(FixedStepHost(archive, "planar2", fmi))
    host.initialize()
    message, call = REFUSED[case]
    refused(host, f"fmi{fmi}{message}" if message[0].isupper() else message, call)
    host.step(0.0, H)  # the run continues


def test_tunable_parameter_is_settable_only_in_event_mode_of_model_exchange(archive, freed, fmi):
    host, where = freed(FixedStepHost(archive, "planar2", fmi)), PLANAR2.where["gravity"]
    host.initialize()
    message = "gravity[1] is a parameter, which cannot be set in continuous-time mode"
    refused(host, message, lambda _: host.set(where, (0.0, 0.0, 1.0)))
    host.fmu.enterEventMode()
    host.set(where, (0.0, -1.0, 0.0))
    assert_array_equal(host.m[where], (0.0, -1.0, 0.0))


def test_model_exchange_calls_are_rejected_in_co_simulation(archive, freed):
    slave = freed(Instance(archive, "planar2", FMU3Slave))
    slave.initialize()
    library = slave.fmu.dll
    set_time = library.fmi3SetTime
    set_time.argtypes, set_time.restype = [ctypes.c_void_p, ctypes.c_double], ctypes.c_int
    before = slave.saved()
    assert set_time(slave.fmu.component, 1.0) == ERROR
    assert slave.messages[-1] == (ERROR, "fmi3SetTime is not allowed during a run")
    assert slave.saved() == before


def test_saved_co_simulation_state_is_rejected_in_model_exchange(archive, freed):
    slave, model = (
        freed(Instance(archive, "planar2", FMU3Slave)),
        freed(FixedStepHost(archive, "planar2", 3)),
    )
    slave.initialize()
    model.initialize()
    content = slave.saved()
    refused(model, "the serialized state is damaged", lambda fmu: fmu.deserializeFMUState(content))


# ---- exact derivatives ----


def knowns_and_unknowns(instance, flat):
    """Return value references of knowns and unknowns, and their indices in [memory | rates].

    Knowns are inputs, states and parameters; unknowns are all other variables.
    """
    ends = [*instance.starts.tolist()]
    places = dict(
        zip(instance.references, ([*range(a, b)] for a, b in pairwise(ends)), strict=True)
    )
    for v in instance.description.modelVariables:
        if v.derivative is not None:
            n = int(np.prod([int(d.start) for d in v.dimensions])) if v.dimensions else 1
            places[v.valueReference] = [*range(v.valueReference, v.valueReference + n)]
    known = [vr for vr in places if any(s.start <= vr < s.stop for s in (flat.x, flat.u, flat.p))]
    unknown = [vr for vr in places if vr >= flat.y.start or flat.x.start <= vr < flat.x.stop]
    return (
        known,
        unknown,
        [k for vr in known for k in places[vr]],
        [k for vr in unknown for k in places[vr]],
    )


def differences(flat, m, places):
    """Return central differences of [memory | rates] with respect to the elements `places`."""

    def values(m):
        out = m.copy()
        out[flat.y] = NumpyEvaluator(flat).output(m)
        return np.concatenate([out, NumpyEvaluator(flat).derivative(m)])

    columns = []
    for k in places:
        step = np.zeros(flat.size)
        step[k] = DIFFERENCE
        columns.append((values(m + step) - values(m - step)) / (2 * DIFFERENCE))
    return np.transpose(columns)


@pytest.mark.parametrize(
    "name", ["planar2", "wrenches", "mixed joints", "free bodies", "pd", "limited pd"]
)
def test_directional_and_adjoint_derivatives_equal_finite_differences(
    archive, freed, rng, name, fmi
):
    flat = Memory(BLOCKS[name])
    host = freed(FixedStepHost(archive, name, fmi))
    host.initialize()
    host.set(flat.u, rng.normal(0.0, 0.3, flat.u.stop - flat.u.start))
    host.fmu.enterEventMode()  # input jumps may change the active force laws
    host.handle_event(0.0)
    check_derivatives(host, flat, rng)


def check_derivatives(host, flat, rng, but=()):
    """Compare the directional and adjoint derivatives of outputs and rates with differences.

    The comparison skips the outputs named in `but`.
    """
    known, unknown, columns, rows = knowns_and_unknowns(host, flat)
    left_out = {flat.where[name].start for name in but}
    unknown, rows = ([k for k in places if k not in left_out] for places in (unknown, rows))
    expected = differences(flat, host.m, columns)[rows]
    size, fmi = np.abs(expected).max(), host.fmi
    seed, weights = rng.normal(size=len(columns)), rng.normal(size=len(rows))
    if fmi == 2:
        change = host.fmu.getDirectionalDerivative(unknown, known, seed.tolist())
    else:
        change = host.fmu.getDirectionalDerivative(unknown, known, seed.tolist(), len(rows))
        gradient = host.fmu.getAdjointDerivative(unknown, known, weights.tolist(), len(columns))
        assert_allclose(gradient, weights @ expected, atol=DIFFERENCE_ERROR * size * len(rows))
        assert_allclose(
            weights @ change, gradient @ seed, rtol=1e-10
        )  # both evaluate the same bilinear form
    assert_allclose(change, expected @ seed, atol=DIFFERENCE_ERROR * size * len(columns))


@pytest.mark.slow
def test_directional_derivatives_of_loops_are_exact_at_zero_constraint_acceleration(
    archive, freed, rng, fmi, monkeypatch
):
    # three four-bar loops in a configuration where the constraint accelerations vanish
    monkeypatch.setitem(BLOCKS, "windows", ClosedLoopPlant(*n_four_bar(3, 0.3, 1.0)))
    host = freed(FixedStepHost(archive, "windows", fmi))
    host.initialize()
    # here the loop error has a kink, and the condition number jumps between constraints
    check_derivatives(host, Memory(BLOCKS["windows"]), rng, ("loop_error", "condition", "rank"))


@dataclass(frozen=True)
class Steep(Block):
    """Block with a smooth output, and an output whose derivative is infinite at 0."""

    inputs = (Port("u", (2,), start=0.0),)
    outputs = (Port("flat", (2,)), Port("steep", (2,)))

    def output(self, u):
        return {"flat": 3.0 * u.u, "steep": np.sqrt(u.u)}


@pytest.mark.slow
def test_nonfinite_directional_derivatives_are_rejected_only_if_requested(
    archive, freed, fmi, monkeypatch
):
    monkeypatch.setitem(BLOCKS, "steep", Steep())
    flat = Memory(BLOCKS["steep"])
    host = freed(Instance(archive, "steep", FMU2Model if fmi == 2 else FMU3Model))
    host.enter_initialization()
    host.fmu.exitInitializationMode()
    at, steep, u = (flat.where[name] for name in ("flat", "steep", "u"))
    if fmi == 2:
        ask = lambda y: host.fmu.getDirectionalDerivative([y.start + 1], [u.start + 1], [2.0])  # noqa: E731
        assert ask(at) == [6.0]
    else:
        ask = lambda y: host.fmu.getDirectionalDerivative([y.start], [u.start], [1.0, 2.0], 2)  # noqa: E731
        assert list(ask(at)) == [3.0, 6.0]
    with pytest.raises(FMICallException):
        ask(steep)
    assert "is not finite" in host.messages[-1][-1]


def test_directional_derivatives_in_initialization_mode_support_parameters(archive, freed, fmi):
    host, m = (
        freed(Instance(archive, "planar2", FMU2Model if fmi == 2 else FMU3Model)),
        PLANAR2.start(),
    )
    host.enter_initialization()
    gravity, qdd = PLANAR2.where["gravity"], PLANAR2.where["qdd"]
    expected = differences(PLANAR2, m, range(gravity.start, gravity.stop))[qdd] @ (0.5, 0.25, -1.0)
    if fmi == 2:
        change = host.fmu.getDirectionalDerivative(
            [qdd.start, qdd.start + 1], [*range(gravity.start, gravity.stop)], [0.5, 0.25, -1.0]
        )
    else:
        change = host.fmu.getDirectionalDerivative(
            [qdd.start], [gravity.start], [0.5, 0.25, -1.0], 2
        )
    assert_allclose(change, expected, atol=DIFFERENCE_ERROR)


def test_directional_derivatives_of_sampled_states_in_initialization_are_rejected(
    archive, freed, fmi
):
    host, flat = (
        freed(Instance(archive, "sampled pd", FMU2Model if fmi == 2 else FMU3Model)),
        Memory(BLOCKS["sampled pd"]),
    )
    host.enter_initialization()
    message = (
        f"fmi{fmi}GetDirectionalDerivative is not available in initialization mode for states "
        "that are computed at the start"
    )
    refused(
        host,
        message,
        lambda fmu: fmu.getDirectionalDerivative([flat.z.start], [flat.u.start], [1.0]),
    )
