"""Model exchange in FMI 2.0 and 3.0: a host with fixed steps gets the numbers of co-simulation;
derivatives are exact.
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
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.memory import Memory
from rigidblocks.block.stepper import NumpyStepper

SAME = 1e-12  # a short run differs from NumPy's by the rounding of reordered operations
# the step of a central difference, whose error is its square and the rounding divided by it
DIFFERENCE = 1e-6
DIFFERENCE_ERROR = 1e-7

ERROR = 3
H = 1e-3
PLANAR2 = Memory(BLOCKS["planar2"])


@pytest.fixture
def freed():
    """A function that keeps an instance until the end of the test and frees it then."""
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
    """Asserts that the call is refused with that message and that it changes nothing."""
    before = instance.saved()
    with pytest.raises(FMICallException) as error:
        call(instance.fmu)
    assert error.value.status == ERROR
    assert instance.messages[-1][-1] == message
    assert instance.saved() == before


# ---- the same numbers ----


@pytest.mark.parametrize("name", BLOCKS)
def test_fixed_steps_of_a_host_equal_the_block_in_numpy(archive, freed, rng, name, fmi):
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


def test_samples_are_at_exact_multiples_of_the_sample_time(archive, freed, fmi):
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


def test_a_start_between_samples_waits_for_the_next_multiple(archive, freed, fmi):
    host = freed(FixedStepHost(archive, "sampled pd", fmi))
    host.initialize(t=0.0135)
    assert host.next_event == 7 * BLOCKS["sampled pd"].sample_time


def test_an_event_before_the_sample_is_due_samples_nothing(archive, freed, fmi):
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
def test_a_quaternion_is_brought_back_to_unit_length_in_an_event(archive, freed, fmi):
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


def test_the_rates_are_variables_with_the_units_of_rates(archive, freed, fmi):
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


def test_nominals_are_one_and_there_are_no_event_indicators(archive, freed, fmi):
    host = freed(FixedStepHost(archive, "planar2", fmi))
    nominals = (ctypes.c_double * 4)()
    if fmi == 2:
        host.fmu.fmi2GetNominalsOfContinuousStates(host.fmu.component, nominals, 4)
    else:
        assert (host.nx, host.fmu.getNumberOfEventIndicators()) == (4, 0)
        host.fmu.getNominalsOfContinuousStates(nominals, 4)
    assert list(nominals) == [1.0] * 4


# ---- what is refused ----

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
def test_what_is_illegal_in_continuous_time_is_refused_and_changes_nothing(
    archive, freed, fmi, case
):
    host = freed(FixedStepHost(archive, "planar2", fmi))
    host.initialize()
    message, call = REFUSED[case]
    refused(host, f"fmi{fmi}{message}" if message[0].isupper() else message, call)
    host.step(0.0, H)  # and the run goes on


def test_a_tunable_parameter_can_be_set_in_event_mode_alone(archive, freed, fmi):
    host, where = freed(FixedStepHost(archive, "planar2", fmi)), PLANAR2.where["gravity"]
    host.initialize()
    message = "gravity[1] is a parameter, which cannot be set in continuous-time mode"
    refused(host, message, lambda _: host.set(where, (0.0, 0.0, 1.0)))
    host.fmu.enterEventMode()
    host.set(where, (0.0, -1.0, 0.0))
    assert_array_equal(host.m[where], (0.0, -1.0, 0.0))


def test_model_exchange_calls_are_refused_in_co_simulation(archive, freed):
    slave = freed(Instance(archive, "planar2", FMU3Slave))
    slave.initialize()
    library = slave.fmu.dll
    set_time = library.fmi3SetTime
    set_time.argtypes, set_time.restype = [ctypes.c_void_p, ctypes.c_double], ctypes.c_int
    before = slave.saved()
    assert set_time(slave.fmu.component, 1.0) == ERROR
    assert slave.messages[-1] == (ERROR, "fmi3SetTime is not allowed during a run")
    assert slave.saved() == before


def test_a_state_of_co_simulation_is_none_of_model_exchange(archive, freed):
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
    """Value references, and the places of their elements in [memory | rates]: inputs, states and
    parameters; all else.
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
    """The matrix of central differences of [memory | rates] by the elements of the memory at
    `places`.
    """

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
    host.fmu.enterEventMode()  # inputs that jump may change the laws that hold
    host.handle_event(0.0)
    known, unknown, columns, rows = knowns_and_unknowns(host, flat)
    expected = differences(flat, host.m, columns)[rows]
    size = np.abs(expected).max()
    seed, weights = rng.normal(size=len(columns)), rng.normal(size=len(rows))
    if fmi == 2:
        change = host.fmu.getDirectionalDerivative(unknown, known, seed.tolist())
    else:
        change = host.fmu.getDirectionalDerivative(unknown, known, seed.tolist(), len(rows))
        gradient = host.fmu.getAdjointDerivative(unknown, known, weights.tolist(), len(columns))
        assert_allclose(gradient, weights @ expected, atol=DIFFERENCE_ERROR * size * len(rows))
        assert_allclose(
            weights @ change, gradient @ seed, rtol=1e-10
        )  # both are the same bilinear form
    assert_allclose(change, expected @ seed, atol=DIFFERENCE_ERROR * size * len(columns))


@dataclass(frozen=True)
class Steep(Block):
    """One output whose derivative is not finite at 0, behind one whose derivative is."""

    inputs = (Port("u", (2,), start=0.0),)
    outputs = (Port("flat", (2,)), Port("steep", (2,)))

    def output(self, u):
        return {"flat": 3.0 * u.u, "steep": np.sqrt(u.u)}


def test_only_a_derivative_that_is_asked_for_has_to_be_finite(archive, freed, fmi, monkeypatch):
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


def test_derivatives_in_initialization_mode_include_parameters(archive, freed, fmi):
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


def test_samples_at_the_start_are_not_differentiated(archive, freed, fmi):
    host, flat = (
        freed(Instance(archive, "sampled pd", FMU2Model if fmi == 2 else FMU3Model)),
        Memory(BLOCKS["sampled pd"]),
    )
    host.enter_initialization()
    message = (
        f"fmi{fmi}GetDirectionalDerivative is not provided in initialization mode for states "
        "that are computed at the start"
    )
    refused(
        host,
        message,
        lambda fmu: fmu.getDirectionalDerivative([flat.z.start], [flat.u.start], [1.0]),
    )
