"""Events of model exchange: the importer's solver locates impacts and changes of force laws.

CVODE with a relative tolerance of 1e-10 agrees with closed forms within 1e-7, over up to thirty
events.
"""

import ctypes
from functools import cache

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi2 import FMU2Model, FMU2Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from blocks_with_events import BLOCKS, BRISTLES, HEIGHT, PULL, RADIUS, RUB, SWAY, G, K
from model_exchange_host import FixedStepHost
from rigidblocks import System
from rigidblocks.cosim.simulate import simulate
from rigidblocks.fmi.native_fmu import native_fmu

CLOSE = 1e-7
SHIFT = 1e-12  # smallest magnitude of an event indicator after an event


@pytest.fixture(params=[2, 3], ids=["fmi2", "fmi3"])
def fmi(request):
    return request.param


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function from a name in BLOCKS and a version to the path of its FMU."""
    folder = tmp_path_factory.mktemp("events")

    def path(name, fmi):
        file = folder / f"{name}{fmi}.fmu"
        return file if file.exists() else native_fmu(BLOCKS[name](), file, name=name, fmi=fmi)

    return path


def by_cvode(path, t_stop, dt, kind="ModelExchange", rtol=1e-10, **settings):
    """Return the rows of FMPy's run at the multiples of dt."""
    rows = fmpy.simulate_fmu(
        str(path),
        fmi_type=kind,
        stop_time=t_stop,
        output_interval=dt,
        relative_tolerance=rtol,
        record_events=False,
        **settings,
    )
    k = rows["time"] / dt
    return rows[np.abs(k - np.round(k)) < 1e-6]


def values(rows, name, fmi):
    """Return the values of an output with one element."""
    return rows[f"{name}[1]"] if fmi == 2 else rows[name][:, 0]


def flights(t, e, v_rest):
    """Return the height [m] of a ball dropped from HEIGHT; each bounce scales its speed by e."""
    start, v = -np.sqrt(2 * HEIGHT / G), np.sqrt(2 * HEIGHT * G)
    z = np.zeros_like(t)
    while v >= v_rest and start <= t[-1]:
        s = t - start
        flies = (s >= 0) & (s <= 2 * v / G)
        z[flies] = (v * s - G * s**2 / 2)[flies]
        start, v = start + 2 * v / G, e * v
    return z


# ---- comparison with closed forms and other solvers ----


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elastic", "inelastic"])
def test_bouncing_ball_motion_matches_the_closed_form_until_rest(made, fmi, name):
    e = {"elastic": 1.0, "inelastic": 0.7}[name]
    for kind in ("ModelExchange", "CoSimulation"):
        rows = by_cvode(made(name, fmi), 5.0, 0.01, kind)
        assert_allclose(rows["z"], flights(rows["time"], e, 1e-3), atol=CLOSE)
        if e < 1:
            assert (rows["z"][-1], rows["v"][-1], rows["a"][-1]) == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_two_balls_with_simultaneous_impacts_both_bounce(made, fmi):
    rows = by_cvode(made("two", fmi), 3.0, 0.01)
    expected = flights(rows["time"], 0.5, 1e-3)
    assert_allclose(rows["left.z"], expected, atol=CLOSE)
    assert_allclose(rows["right.z"], expected, atol=CLOSE)


def on_the_spring(t):
    """Return the height [m]: parabolas in flight, and half waves about equilibrium in contact."""
    v, w = np.sqrt(2 * G * HEIGHT), np.sqrt(K)
    sag, size = G / w**2, np.hypot(G / w**2, v / w)
    contact = 2 * (np.pi - np.arctan2(v / w, sag)) / w
    period = contact + 2 * v / G
    s = np.mod(t + v / G, period)  # time since it left the ground
    touches = s - 2 * v / G
    phase = w * (touches - contact / 2)
    return np.where(touches < 0, v * s - G * s**2 / 2, -sag - size * np.cos(phase))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spring", "soft"])
def test_spring_contact_motion_matches_the_closed_form(made, fmi, name):
    rows = by_cvode(made(name, fmi), 5.0, 0.01, rtol=1e-12)
    assert_allclose(values(rows, "q", fmi) - RADIUS, on_the_spring(rows["time"]), atol=3 * CLOSE)


def sticking(y):
    """Return the bristle force of the sticking mode."""
    return -(BRISTLES[0] * y[2] + BRISTLES[1] * y[1])


def on_belt(t, y, side):
    """Return the derivatives of position, velocity and bristle deflection in a contact mode."""
    K_b, D_b = BRISTLES
    force = sticking(y) if side == 0 else side * RUB
    return y[1], PULL * (SWAY * np.sin(3.0 * t) - y[0]) + force, -(K_b * y[2] + force) / D_b


def beyond(_, y, side):
    """Return the margin of the contact mode; a negative value ends the mode."""
    f = sticking(y)
    return RUB - abs(f) if side == 0 else side * f - RUB


beyond.terminal, beyond.direction = True, -1


@cache
def belt_by_pieces(t_stop, dt):
    """Return the position of the mass on the belt, and the number of mode changes.

    `solve_ivp` integrates each contact mode up to the next event.
    """
    t, y, side, points, changes = 0.0, np.zeros(3), 0, [], 0
    grid = np.arange(0.0, t_stop + dt / 2, dt)
    while t < t_stop:
        run = solve_ivp(
            on_belt, (t, t_stop), y, "Radau", args=(side,), events=beyond, rtol=1e-11, atol=1e-13,
            dense_output=True,
        )  # fmt: skip
        here = grid[(grid >= t) & (grid <= run.t[-1])]
        points += [run.sol(here)[0]] if len(here) else []
        t, y = run.t[-1], run.y[:, -1]
        if run.status == 1:
            side, changes = 0 if side else np.sign(sticking(y)), changes + 1
            t, y = np.nextafter(t, np.inf), y + 1e-13 * np.array(on_belt(t, y, side))
    return np.concatenate(points)[: len(grid)], changes


@pytest.mark.slow
def test_stick_slip_motion_on_a_belt_matches_a_piecewise_solution(made, fmi):
    q = values(by_cvode(made("belt", fmi), 6.0, 0.01), "mass.q", fmi)
    expected, changes = belt_by_pieces(6.0, 0.01)
    assert changes > 10  # the mass sticks and slips
    assert_allclose(q, expected, atol=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inelastic", "two", "spring", "belt"])
def test_simulate_locates_the_events_of_model_exchange_fmus(made, fmi, name):
    system, t = System(), 0.01 * np.arange(501)
    path = made(name, fmi)
    system.add("it", path, kind="model exchange", method="adaptive", rtol=1e-10)
    result = simulate(system, 5.0, 0.01)
    expected = {
        "inelastic": lambda: ("it.z", flights(t, 0.7, 1e-3)),
        "two": lambda: ("it.right.z", flights(t, 0.5, 1e-3)),
        "spring": lambda: ("it.q", on_the_spring(t) + RADIUS),
        "belt": lambda: ("it.mass.q", belt_by_pieces(5.0, 0.01)[0]),
    }
    signal, values = expected[name]()
    assert_allclose(np.ravel(result[signal]), values, atol=CLOSE)


# ---- difficult event indicators ----


@pytest.mark.slow
@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6])
def test_bouncing_ball_comes_to_rest_at_a_loose_solver_tolerance(made, rtol):
    rows = by_cvode(made("inelastic", 2), 5.0, 0.01, rtol=rtol)
    assert rows["z"].min() > -10 * rtol - 2 * SHIFT
    assert (rows["z"][-1], rows["v"][-1]) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("stiffness", [1e2, 1e6, 1e9, 1e12])
def test_elastic_contact_conserves_energy_at_any_stiffness(made, stiffness):
    rows = by_cvode(made("spring", 2), 3.0, 0.01, rtol=1e-12, start_values={"K": stiffness})
    flies = rows["q[1]"] > RADIUS
    energy = rows["energy"] - rows["energy"][0]
    assert np.abs(energy[flies]).max() < CLOSE
    assert flies[-100:].any()


@pytest.mark.slow
@pytest.mark.parametrize("friction", [0.0, 1e-9])
def test_motion_on_a_frictionless_belt_matches_the_forced_oscillation(made, friction):
    rows = by_cvode(made("belt", 2), 3.0, 0.01, start_values={"mass.rub_coulomb": friction})
    w, a, t = np.sqrt(PULL), SWAY, rows["time"]
    swings = a * PULL / (PULL - 9.0) * (np.sin(3 * t) - 3.0 / w * np.sin(w * t))
    assert_allclose(rows["mass.q[1]"], swings, atol=CLOSE)


@pytest.mark.slow
def test_model_exchange_run_that_starts_at_a_contact_event_has_the_correct_contact_mode(made, fmi):
    start = {"q[1]": RADIUS} if fmi == 2 else {"q": [RADIUS]}
    rows = by_cvode(made("spring", fmi), 0.5, 0.01, start_values=start)
    wave = RADIUS - G / K * (1 - np.cos(np.sqrt(K) * rows["time"]))
    assert_allclose(values(rows, "q", fmi), wave, atol=CLOSE)
    for start, rises in (({"z": 0.0, "v": 0.0}, False), ({"z": 0.0, "v": -1.0}, True)):
        rows = by_cvode(made("inelastic", fmi), 0.1, 0.01, start_values=start)
        assert (rows["z"].max() > 0.01) == rises


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FMU2Model, FMU2Slave], ids=lambda kind: kind.__name__)
def test_derivatives_use_the_contact_mode_of_the_current_configuration(made, tmp_path, kind):
    """The acceleration is K d - G at the depth d, and -G in flight."""
    path = made("spring", 2)
    description = fmpy.read_model_description(str(path))
    number = {v.name: v.valueReference for v in description.modelVariables}
    fmu = kind(
        guid=description.guid,
        unzipDirectory=fmpy.extract(str(path), str(tmp_path)),
        modelIdentifier="spring",
    )
    fmu.instantiate()
    fmu.setupExperiment()
    fmu.enterInitializationMode()
    for depth, acceleration in ((-0.2, -G), (0.01, 0.01 * K - G)):
        fmu.setReal([number["q[1]"]], [RADIUS - depth])
        assert_allclose(fmu.getReal([number["der(qd[1])"]]), acceleration, rtol=1e-9)
    fmu.exitInitializationMode()
    assert_allclose(fmu.getReal([number["der(qd[1])"]]), 0.01 * K - G, rtol=1e-9)
    if kind is FMU2Slave:  # the body leaves the ground after about half a period of 31 ms
        fmu.doStep(0.0, 0.05)
        assert fmu.getReal([number["q[1]"]])[0] > RADIUS
        assert_allclose(fmu.getReal([number["der(qd[1])"]]), -G, rtol=1e-9)
    fmu.terminate()
    fmu.freeInstance()


# ---- FMI calls ----


@pytest.fixture
def host(made, fmi, freed_host):
    """Return a function that returns the importer of an FMU of BLOCKS in continuous-time mode."""

    def start(name):
        path = made(name, fmi)
        folder = path.with_suffix("")
        if not folder.exists():
            fmpy.extract(str(path), str(folder))
        one = freed_host(FixedStepHost(lambda *_: (path, folder), name, fmi))
        one.initialize()
        return one

    return start


@pytest.fixture
def freed_host():
    """Return a function that registers an instance to be freed after the test."""
    kept = []
    yield lambda one: kept.append(one) or one
    for one in kept:
        one.fmu.freeInstance()


def indicators(host, n):
    z = (ctypes.c_double * n)()
    if host.fmi == 2:
        host.fmu.fmi2GetEventIndicators(host.fmu.component, z, n)
    else:
        host.fmu.getEventIndicators(z, n)
    return np.array(z)


def at_event(host, t=0.0):
    host.fmu.enterEventMode()
    host.handle_event(t)
    host.fmu.enterContinuousTimeMode()


IN_THE_AIR, IN_THE_GROUND = RADIUS + 1e-3, RADIUS - 1e-3
SPRING_STATES = 5  # q, qd, and three states of the contact patch


def height(q):
    return np.array([q, *np.zeros(SPRING_STATES - 1)])


@pytest.mark.slow
def test_active_branch_of_a_force_law_changes_only_at_events_and_is_saved_in_the_fmu_state(host):
    one = host("spring")
    pushed = K * 1e-3 - G
    assert_allclose(one.rates(0.0, height(IN_THE_AIR))[1], -G)
    assert indicators(one, 2)[0] < 0
    assert_allclose(one.rates(0.0, height(IN_THE_GROUND))[1], -G)  # held in a trial step
    assert indicators(one, 2)[0] > 0
    assert one.fmu.completedIntegratorStep()[0]  # requests the missed event
    at_event(one)
    assert_allclose(one.rates(0.0, height(IN_THE_GROUND))[1], pushed, rtol=1e-9)
    in_contact = one.saved()
    assert_allclose(one.rates(0.0, height(IN_THE_AIR))[1], -pushed - 2 * G, rtol=1e-9)
    at_event(one)
    assert_allclose(one.rates(0.0, height(IN_THE_GROUND))[1], -G)
    one.restore(in_contact)
    assert_allclose(one.rates(0.0, height(IN_THE_GROUND))[1], pushed, rtol=1e-9)


def test_directional_derivatives_use_the_active_branch_of_the_force_law(host):
    one = host("spring")
    references = {v.name: v.valueReference for v in one.description.modelVariables}
    index = "[1]" if one.fmi == 2 else ""
    unknown, known = [references[f"der(qd{index})"]], [references[f"q{index}"]]
    more = [[1.0]] if one.fmi == 2 else [[1.0], 1]

    def stiffness():
        return one.fmu.getDirectionalDerivative(unknown, known, *more)[0]

    one.rates(0.0, height(IN_THE_GROUND))
    assert stiffness() == 0.0
    at_event(one)
    one.rates(0.0, height(IN_THE_AIR))
    assert_allclose(stiffness(), -K)


@pytest.mark.slow
def test_event_indicators_are_nonzero_after_an_event(host):
    one = host("spring")
    for q, side in ((IN_THE_GROUND, 1.0), (RADIUS, -1.0), (IN_THE_AIR, -1.0), (RADIUS, -1.0)):
        one.rates(0.0, height(q))
        at_event(one)
        z = indicators(one, 2)
        assert np.all(np.abs(z) >= SHIFT)
        assert np.sign(z[0]) == side
        assert not one.fmu.completedIntegratorStep()[0]


@pytest.mark.slow
def test_event_update_reports_changed_continuous_states_after_a_state_jump(host):
    one = host("inelastic")
    one.rates(0.0, np.array([-SHIFT, -2.0]))
    one.fmu.enterEventMode()
    update = one.fmu.newDiscreteStates if one.fmi == 2 else one.fmu.updateDiscreteStates
    again, _, _, changed, _, _ = update()
    assert (again, changed) == (False, True)
    assert_allclose(one.x, (0.0, 1.4))
    assert update()[3] is False


@pytest.mark.slow
def test_endless_event_iteration_is_rejected_after_1000_iterations(host):
    one = host("restless")
    before = one.rates(0.4, np.array([0.5, 0.4]))
    one.fmu.enterEventMode()
    one.handle_event(0.4)
    one.fmu.enterContinuousTimeMode()
    one.rates(0.6, np.array([0.5, 0.6]))
    one.fmu.enterEventMode()
    with pytest.raises(FMICallException):
        one.handle_event(0.6)
    message = "the event at t = 0.6 s did not converge: its states changed 1000 times"
    assert one.messages[-1][-1] == message
    assert_allclose(one.x, (0.5, 0.6))
    assert_allclose(before, (-0.1, 1.0))


@pytest.mark.slow
def test_request_for_a_wrong_number_of_event_indicators_is_rejected(host):
    one = host("spring")
    with pytest.raises(FMICallException):
        indicators(one, 1)
    name = f"fmi{one.fmi}GetEventIndicators"
    assert one.messages[-1][-1] == f"{name}: there are 2 event indicators, not 1"
    one.fmu.terminate()
    with pytest.raises(FMICallException):
        indicators(one, 2)


@pytest.mark.slow
def test_model_description_lists_the_event_indicators(made):
    two, three = (fmpy.read_model_description(str(made("spring", fmi))) for fmi in (2, 3))
    assert two.numberOfEventIndicators == 2
    (listed,) = three.eventIndicators
    assert listed.variable.name == "event_indicators"
    assert {one.name for one in listed.dependencies} == {"q", "qd", "x"}
    for fmi in (2, 3):
        assert not validate_fmu(str(made("spring", fmi)))
