"""Every block of the library satisfies the block contract and its defining equations."""

import re
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from library_blocks import BLOCKS
from random_models import MODELS, random_state
from rigidblocks import contact, library
from rigidblocks.block.block import Block, computed_outputs, state_outputs
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import StepError, initialize
from rigidblocks.block.units import base_units
from rigidblocks.dynamics import aba, energy
from rigidblocks.kernels.compiled_stepper import compiled_stepper, numpy_stepper
from rigidblocks.kernels.traced_evaluator import feedthrough
from rigidblocks.library import PDController, RepeatingSequence, RobotPlant
from rigidblocks.robot.configuration import rate
from rigidblocks.robot.robots import planar2
from signal_blocks import SIGNALS

# compiled C shares subexpressions and reciprocals: one or two roundings per step, amplified by the
# dynamics of a robot in 40 steps
COMPILED = 1e-11
RESIDUAL = 1e-14  # rad, m: rounding of the loop coordinates
RTOL = 1e-12

TIMES, VALUES = (
    (0.0, 1.0, 2.0, 3.0, 4.0),
    ((0.0, 0.0), (1.0, 1.5), (1.0, 1.5), (0.0, 0.0), (0.0, 0.0)),
)
GAINS = {"kp": (1000.0, 800.0), "kd": (15.0, 12.0)}

# block, and its expected direct feedthrough
CASES = {
    "plant": (RobotPlant(MODELS["planar2"](), q0=[0.3, -0.2], qd0=[1.0, 0.5]), {("tau", "qdd")}),
    "plant with wrenches": (
        RobotPlant(MODELS["mixed"](), q0=0.1, external_wrenches=True),
        {("tau", "qdd"), ("f_ext", "qdd")},
    ),
    "pd": (PDController(**GAINS), {(name, "tau") for name in ("q_ref", "q", "qd_ref", "qd")}),
    "limited pd": (
        PDController(**GAINS, tau_max=300.0),
        {(name, "tau") for name in ("q_ref", "q", "qd_ref", "qd")},
    ),
    "sampled pd": (PDController(**GAINS, sample_time=2e-3), {("q_ref", "tau"), ("q", "tau")}),
    "limited sampled pd": (
        PDController(**GAINS, tau_max=(40.0, 30.0), sample_time=2e-3, prismatic=(False, True)),
        {("q_ref", "tau"), ("q", "tau")},
    ),
    "sequence": (RepeatingSequence(TIMES, VALUES), set()),
    "uneven sequence": (
        RepeatingSequence((0.0, 0.01, 0.015, 0.03), ((1.0,), (2.0,), (-1.0,), (1.0,)), unit="N.m"),
        set(),
    ),
    **BLOCKS,
    **SIGNALS,
}


def slow(name):
    """Mark signal blocks and rigid contact as slow because other files test them."""
    other = name in SIGNALS and name not in ("pid", "sampled pid")
    return pytest.mark.slow if other or "rigid contact" in name else ()


@pytest.fixture(params=[pytest.param(name, marks=slow(name)) for name in CASES])
def block(request):
    return CASES[request.param][0]


@pytest.fixture
def flat(block):
    return Memory(block)


def random_memory(flat, rng):
    m = rng.uniform(-1, 1, flat.size)
    m[flat.p] = flat.start()[flat.p]
    return m


def test_every_library_block_is_in_the_list_of_tested_blocks():
    public = {
        name: getattr(package, name) for package in (library, contact) for name in package.__all__
    }
    blocks = {
        name for name, one in public.items() if isinstance(one, type) and issubclass(one, Block)
    }
    assert {type(block).__name__ for block, _ in CASES.values()} == blocks


def test_port_names_of_a_block_are_unique(block):
    states = [port.name for port in (*block.states, *block.sampled)]
    others = [port.name for port in (*block.inputs, *block.parameters, *computed_outputs(block))]
    assert len(set(states + others)) == len(states + others)
    assert set(state_outputs(block)) <= set(states)


def test_block_ports_have_descriptions_and_valid_units(block):
    for port in (*block.inputs, *block.outputs, *block.states, *block.sampled, *block.parameters):
        assert port.doc, port.name
        assert len(port.units) == port.size
        for unit in port.units:
            assert isinstance(base_units(unit), dict)


def test_derivative_port_of_a_state_has_the_unit_of_the_state_per_second(block):
    states = {port.name: port for port in block.states}
    for port in block.states:
        if port.rate:
            velocity = states[port.rate]
            if port.size != velocity.size:
                continue  # the rate of a quaternion is computed from the velocity
            for unit, rate_unit in zip(port.units, velocity.units, strict=True):
                assert base_units(rate_unit) == base_units(f"{unit}/s")


def test_block_fields_cannot_be_assigned(block):
    with pytest.raises(FrozenInstanceError):
        setattr(block, fields(block)[0].name, None)


def test_block_functions_are_pure_and_deterministic(flat, rng):
    m, other, run = random_memory(flat, rng), random_memory(flat, rng), NumpyEvaluator(flat)
    for function in (run.derivative, run.initial, run.update, run.output):
        kept, first = m.copy(), function(m)
        function(other)
        assert_array_equal(function(m), first)
        assert_array_equal(m, kept)


def test_block_function_results_have_the_declared_sizes(flat, rng):
    m, run = random_memory(flat, rng), NumpyEvaluator(flat)
    sizes = [sum(port.size for port in ports) for ports in (flat.block.states, flat.block.sampled)]
    assert [len(run.derivative(m)), len(run.update(m))] == sizes
    assert len(run.initial(m)) == sizes[1]
    assert len(run.output(m)) == sum(port.size for port in computed_outputs(flat.block))


@pytest.mark.parametrize(("block", "expected"), CASES.values(), ids=CASES)
def test_block_has_the_expected_direct_feedthrough(block, expected):
    assert feedthrough(NumpyEvaluator(Memory(block))) == expected


def trajectory(stepper, rng, dt, n=40):
    """Return the memories at the start and after each of n steps with random inputs.

    Each input is constant for a few steps.
    """
    flat, m, rows = stepper.memory, stepper.memory.start(), []
    m[flat.u] = rng.uniform(-1, 1, flat.u.stop - flat.u.start)
    stepper.initialize(m, 0.0)
    for k in range(n):
        rows.append(m.copy())
        if k % 3 == 0:
            m[flat.u] = rng.uniform(-1, 1, flat.u.stop - flat.u.start)
        stepper.step(m, k * dt, dt)
    return np.array([*rows, m])


@pytest.mark.parametrize("dt", [1e-3, 4e-3])
def test_steps_of_library_blocks_in_c_match_the_results_of_numpy(flat, dt):
    numpy, compiled = (
        trajectory(stepper(flat, RK4, 1e-3), np.random.default_rng(1), dt)
        for stepper in (numpy_stepper, compiled_stepper)
    )
    assert np.all(np.abs(compiled - numpy) <= COMPILED * np.max(np.abs(numpy), axis=0) + RESIDUAL)


@pytest.mark.slow
@pytest.mark.parametrize("method", INTEGRATORS.values(), ids=lambda method: method.name)
def test_steps_in_c_match_the_results_of_numpy_for_every_integrator(method):
    flat = Memory(CASES["plant"][0])
    numpy, compiled = (
        trajectory(stepper(flat, method, 0.5e-3), np.random.default_rng(1), 1e-3)
        for stepper in (numpy_stepper, compiled_stepper)
    )
    assert_allclose(compiled, numpy, rtol=COMPILED, atol=COMPILED)


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
@pytest.mark.parametrize(
    "block",
    [pytest.param(b, marks=slow(name)) for name, (b, _) in CASES.items() if b.inputs],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_error_for_a_step_with_a_nonfinite_input_identifies_the_input(block, stepper, bad):
    flat = Memory(block)
    m, run = flat.start(), stepper(flat, RK4, 1e-3)
    run.initialize(m, 0.0)
    m[flat.u.start] = bad
    message = f"{flat.name} is not finite at t = 2.01 s: {block.inputs[0].element_names[0]}"
    with pytest.raises(StepError, match=re.escape(message)), np.errstate(invalid="ignore"):
        run.step(m, 2.0, 1e-2)


# plant


def test_plant_outputs_its_accelerations_and_energy(model, rng):
    flat, s = Memory(RobotPlant(model, external_wrenches=True)), random_state(rng, model)
    m = flat.start()
    for name, value in (
        ("q", s.q),
        ("qd", s.qd),
        ("tau", s.tau),
        ("f_ext", s.f_ext),
        ("gravity", [1.0, 2.0, 3.0]),
    ):
        m[flat.where[name]] = np.ravel(value)
    qdd = aba(model, s.q, s.qd, s.tau, s.f_ext, np.array([1.0, 2.0, 3.0]))
    assert_allclose(
        NumpyEvaluator(flat).output(m),
        [*qdd, energy(model, s.q, s.qd, np.array([1.0, 2.0, 3.0]))],
        rtol=RTOL,
    )
    assert_allclose(NumpyEvaluator(flat).derivative(m), [*rate(model, s.q, s.qd), *qdd], rtol=RTOL)


def test_free_plant_conserves_energy():
    # RK4 with h = 0.5 ms over 1 s: the energy error is of fourth order, some 1e3 h^4
    flat = Memory(CASES["plant"][0])
    m, stepper = flat.start(), compiled_stepper(flat, RK4, 0.5e-3)
    stepper.initialize(m, 0.0)
    rows = np.empty((1000, flat.size))
    assert stepper.run(m, 0.0, 1e-3, rows) == 1000
    energies = rows[:, flat.where["energy"]]
    assert np.ptp(rows[:, flat.where["q"]]) > 1
    assert np.ptp(energies) < 1e-8 * np.max(np.abs(energies))


# controller


def pd_input(flat, m, **values):
    for name, value in values.items():
        m[flat.where[name]] = value


def test_pd_controller_output_matches_its_formula(rng):
    flat = Memory(PDController(**GAINS))
    q_ref, q, qd_ref, qd = rng.uniform(-1, 1, (4, 2))
    m = flat.start()
    pd_input(flat, m, q_ref=q_ref, q=q, qd_ref=qd_ref, qd=qd)
    expected = np.array(GAINS["kp"]) * (q_ref - q) + np.array(GAINS["kd"]) * (qd_ref - qd)
    assert_allclose(NumpyEvaluator(flat).output(m), expected, rtol=RTOL)


def test_gains_of_the_pd_controller_are_tunable_parameters():
    flat, fixed = Memory(PDController(**GAINS)), Memory(PDController(**GAINS), tunable=())
    m = flat.start()
    pd_input(flat, m, q_ref=[1.0, 2.0], kp=[3.0, 5.0])
    assert_allclose(NumpyEvaluator(flat).output(m), [3.0, 10.0])
    m = fixed.start()
    pd_input(fixed, m, q_ref=[1.0, 2.0])
    assert_allclose(NumpyEvaluator(fixed).output(m), [1000.0, 1600.0])
    assert "kp" not in fixed.where


@pytest.mark.parametrize("sample_time", [None, 1e-3])
def test_pd_controller_limits_its_torques_to_tau_max(sample_time):
    block = PDController(
        (100.0,) * 4, (0.0,) * 4, tau_max=(50.0, 50.0, 50.0, 200.0), sample_time=sample_time
    )
    flat, m = Memory(block), Memory(block).start()
    pd_input(flat, m, q_ref=[1.0, -1.0, 0.25, 1.0])
    assert_array_equal(
        initialize(NumpyEvaluator(flat), m, 0.0)[flat.where["tau"]], [50.0, -50.0, 25.0, 100.0]
    )


@pytest.mark.parametrize("stepper", [numpy_stepper, compiled_stepper])
def test_sampled_pd_controller_holds_its_output_between_samples(stepper, rng):
    # one sample has four steps; the inputs change in every step, the output only in the fourth
    Ts, dt, n = 4e-3, 1e-3, 40
    flat = Memory(PDController(**GAINS, sample_time=Ts))
    kp, kd = np.array(GAINS["kp"]), np.array(GAINS["kd"])
    errors, m, run = rng.uniform(-1, 1, (n, 2)), flat.start(), stepper(flat)
    pd_input(flat, m, q_ref=errors[0])
    run.initialize(m, 0.0)
    tau, last = kp * errors[0], errors[0]  # the first sample has no difference
    assert_allclose(m[flat.where["tau"]], tau, rtol=RTOL)
    for k in range(n):
        pd_input(flat, m, q_ref=errors[k])
        run.step(m, k * dt, dt)
        if (k + 1) % 4 == 0:
            tau, last = kp * errors[k] + kd * (errors[k] - last) / Ts, errors[k]
        assert_allclose(m[flat.where["tau"]], tau, rtol=RTOL)


def test_sampled_pd_controller_updates_at_every_sample_within_a_longer_step():
    # the inputs are constant: the error does not change at the second sample of the step
    flat = Memory(PDController(**GAINS, sample_time=1e-3))
    m = flat.start()
    numpy_stepper(flat).initialize(m, 0.0)
    pd_input(flat, m, q_ref=[1.0, 1.0])
    numpy_stepper(flat).step(m, 0.0, 2e-3)
    assert_allclose(m[flat.where["tau"]], GAINS["kp"], rtol=RTOL)


# source


@pytest.mark.parametrize(
    ("ticks", "dt", "periods"),
    [
        ((0, 1000, 2000, 3000, 4000), 1e-3, 50),
        ((0, 1, 4, 7), 0.1, 3000),
        ((0, 30, 31), 1 / 30, 900),
    ],
)
def test_repeating_sequence_interpolates_its_table_periodically(ticks, dt, periods, rng):
    # at t = k dt, with the table's times on this grid, so that the phase is exact, also at the
    # corners
    table = rng.uniform(-2, 2, (len(ticks), 2))
    flat = Memory(RepeatingSequence([tick * dt for tick in ticks], table))
    k = np.unique(
        np.r_[
            0 : 3 * ticks[-1],
            rng.integers(0, periods * ticks[-1], 500),
            np.add.outer(periods * ticks[-1], ticks),
        ]
    )
    m = flat.start()
    outputs = np.array([NumpyEvaluator(flat).output(np.r_[k_i * dt, m[1:]]) for k_i in k])
    phase = k % ticks[-1]
    expected = np.transpose([np.interp(phase, ticks, column) for column in table.T])
    slopes = np.diff(table, axis=0) / (np.diff(ticks) * dt)[:, None]
    following = slopes[np.searchsorted(ticks, phase, "right") - 1]
    # rounding of t = k dt changes the value by one or two units in the last place times the slope
    assert_allclose(
        outputs[:, :2],
        expected,
        rtol=0,
        atol=1e-15 * k[-1] * dt * np.max(np.abs(slopes)) * 4 + 1e-14,
    )
    assert_allclose(outputs[:, 2:], following, rtol=1e-12)


def test_table_of_a_repeating_sequence_is_a_tunable_parameter():
    flat = Memory(RepeatingSequence(TIMES, VALUES))
    m = flat.start()
    m[0] = 0.5
    m[flat.where["table"]] = np.arange(10.0)
    assert_allclose(NumpyEvaluator(flat).output(m), [1.0, 2.0, 2.0, 2.0])


# arguments

BAD = [
    (
        lambda: PDController([1.0], [1.0, 2.0]),
        "needs kp and kd of shape (n,), not kp of shape (1,) and kd of shape (2,)",
    ),
    (
        lambda: PDController(1.0, 1.0),
        "needs kp and kd of shape (n,), not kp of shape () and kd of shape ()",
    ),
    (
        lambda: PDController([np.nan], [1.0]),
        "the start value of port 'kp' must be finite, not [nan]",
    ),
    (
        lambda: PDController([1.0], [np.inf]),
        "the start value of port 'kd' must be finite, not [inf]",
    ),
    (
        lambda: PDController([1.0], [1.0], tau_max=0.0),
        "the start value of tau_max[1] is 0 N.m; it must be positive",
    ),
    (
        lambda: PDController([1.0], [1.0], tau_max=np.inf),
        "port 'tau_max' must be finite, not [inf]",
    ),
    (
        lambda: PDController([1.0], [1.0], tau_max=[1.0, 2.0]),
        "port 'tau_max' has shape (2,); it needs shape (1,)",
    ),
    *(
        (
            lambda bad=bad: PDController([1.0], [1.0], sample_time=bad),
            f"sample_time must be positive, not {bad} s",
        )
        for bad in (0.0, -1e-3, np.nan, np.inf)
    ),
    (
        lambda: PDController([1.0, 2.0], [1.0, 2.0], prismatic=(True,)),
        "it needs one unit or 2 units",
    ),
    (
        lambda: RobotPlant(planar2(), q0=[0.0, 0.0, 0.0]),
        "the start value of port 'q' has shape (3,); it needs shape (2,)",
    ),
    (
        lambda: RobotPlant(planar2(), q0=[0.0, np.nan]),
        "the start value of port 'q' must be finite, not [0.0, nan]",
    ),
    (
        lambda: RobotPlant(planar2(), qd0=np.inf),
        "the start value of port 'qd' must be finite, not [inf, inf]",
    ),
    *(
        (
            lambda bad=bad: RepeatingSequence(bad, np.zeros((len(bad), 1))),
            f"must start at 0 and increase, not {bad}",
        )
        for bad in ([0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 2.0, 1.0])
    ),
    (
        lambda: RepeatingSequence([0.0, np.nan], [[0.0], [1.0]]),
        "the times of a repeating sequence must be finite",
    ),
    (
        lambda: RepeatingSequence([0.0, 1.0], [0.0, 1.0]),
        "a repeating sequence of 2 times needs y of shape (2, n), not (2,)",
    ),
    (
        lambda: RepeatingSequence([0.0, 1.0], [[0.0]]),
        "a repeating sequence of 2 times needs y of shape (2, n), not (1, 1)",
    ),
    (
        lambda: RepeatingSequence([0.0, 1.0], [[0.0], [np.inf]]),
        "the start value of port 'table' must be finite",
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_block_arguments_are_rejected_at_construction(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
