"""Events of model exchange: a host's solver locates where laws become others, and impacts.

CVODE at a relative tolerance of 1e-10 is within 1e-7 of closed forms, over up to thirty events.
"""

from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

from rigidblocks import (
    Block,
    ForceElement,
    Model,
    PDController,
    Port,
    Prismatic,
    RobotPlant,
    Stiction,
    System,
)
from rigidblocks.algebra.spatial import mcI, xlt
from rigidblocks.fmi.native import native_fmu
from rigidblocks.library import BouncingBall, ContactPlant
from rigidblocks.model.shapes import Sphere
from rigidblocks.system.continuous import ContinuousSystem

pytestmark = pytest.mark.slow  # each compiles an FMU
CLOSE = 1e-7
G, RADIUS, HEIGHT, K = 9.81, 0.1, 1.0, 1e4
SHIFT = 1e-12  # of an indicator
PULL, SPEED, RUB, BRISTLES = 20.0, 0.1, 1.0, (1e4, 100.0)  # of the belt


def mass(axis=(0.0, 0.0, 1.0)):
    """1 kg that slides along an axis, with a ball."""
    inertia = (mcI(1.0, np.zeros(3), 1e-3 * np.eye(3)),)
    at = ((Sphere(RADIUS),),)
    return Model("mass", (-1,), (Prismatic(axis),), (xlt(np.zeros(3)),), inertia, contact=at)


def on_a_spring():
    return ContactPlant(RobotPlant(mass(), q0=(HEIGHT + RADIUS,)), K, 0.0, D_t=1.0)


@dataclass(frozen=True)
class End(Block):
    """The fixed end of a spring, seen from a belt."""

    outputs = (Port("q", (1,), "m"),)

    def output(self, t):
        return {"q": np.array([SPEED * t])}


def on_a_belt():
    """A mass that dry friction drags along with a belt, against a spring, seen from the belt."""
    rub = ForceElement("rub", 0, Stiction(RUB, *BRISTLES))
    system = System()
    system.add("mass", RobotPlant(mass((1.0, 0.0, 0.0)), elements=(rub,)))
    system.add("spring", PDController((PULL,), (0.0,), prismatic=(True,)))
    system.connect("spring.tau", "mass.tau")
    system.add("end", End())
    system.connect("end.q", "spring.q_ref")
    system.connect("mass.q", "spring.q")
    system.connect("mass.qd", "spring.qd")
    return ContinuousSystem(system)


def two_balls():
    """Balls that arrive at one time."""
    system = System()
    for name in ("left", "right"):
        system.add(name, BouncingBall(HEIGHT, e=0.5))
    return ContinuousSystem(system)


BLOCKS = {
    "elastic": lambda: BouncingBall(HEIGHT, e=1.0),
    "inelastic": lambda: BouncingBall(HEIGHT, e=0.7),
    "two": two_balls,
    "spring": on_a_spring,
    "belt": on_a_belt,
}


@pytest.fixture(params=[2, 3], ids=["fmi2", "fmi3"])
def fmi(request):
    return request.param


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function from a name in BLOCKS and a version to the path of its FMU, made once."""
    folder = tmp_path_factory.mktemp("events")

    def path(name, fmi):
        file = folder / f"{name}{fmi}.fmu"
        return file if file.exists() else native_fmu(BLOCKS[name](), file, name=name, fmi=fmi)

    return path


def by_cvode(path, t_stop, dt, kind="ModelExchange", rtol=1e-10, **settings):
    """The rows of FMPy's run at the multiples of dt."""
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
    """Those of an output of one element."""
    return rows[f"{name}[1]"] if fmi == 2 else rows[name][:, 0]


def flights(t, e, v_rest):
    """Height of a ball that is let go at HEIGHT: parabolas, the next e times as fast."""
    start, v = -np.sqrt(2 * HEIGHT / G), np.sqrt(2 * HEIGHT * G)
    z = np.zeros_like(t)
    while v >= v_rest and start <= t[-1]:
        s = t - start
        flies = (s >= 0) & (s <= 2 * v / G)
        z[flies] = (v * s - G * s**2 / 2)[flies]
        start, v = start + 2 * v / G, e * v
    return z


# ---- against closed forms and other solvers ----


@pytest.mark.parametrize("name", ["elastic", "inelastic"])
def test_a_ball_bounces_as_in_closed_form_and_comes_to_rest(made, fmi, name):
    e = {"elastic": 1.0, "inelastic": 0.7}[name]
    for kind in ("ModelExchange", "CoSimulation"):
        rows = by_cvode(made(name, fmi), 5.0, 0.01, kind)
        assert_allclose(rows["z"], flights(rows["time"], e, 1e-3), atol=CLOSE)
        if e < 1:
            assert (rows["z"][-1], rows["v"][-1], rows["a"][-1]) == (0.0, 0.0, 0.0)


def test_balls_that_arrive_at_one_time_bounce_both(made, fmi):
    rows = by_cvode(made("two", fmi), 3.0, 0.01)
    expected = flights(rows["time"], 0.5, 1e-3)
    assert_allclose(rows["left.z"], expected, atol=CLOSE)
    assert_allclose(rows["right.z"], expected, atol=CLOSE)


def on_the_spring(t):
    """Height of the mass over the ground: parabolas, and half waves about where it would rest."""
    v, w = np.sqrt(2 * G * HEIGHT), np.sqrt(K)
    sag, size = G / w**2, np.hypot(G / w**2, v / w)
    contact = 2 * (np.pi - np.arctan2(v / w, sag)) / w
    period = contact + 2 * v / G
    s = np.mod(t + v / G, period)  # from where it leaves the ground
    touches = s - 2 * v / G
    phase = w * (touches - contact / 2)
    return np.where(touches < 0, v * s - G * s**2 / 2, -sag - size * np.cos(phase))


def test_contact_is_located_where_it_begins_and_ends(made, fmi):
    rows = by_cvode(made("spring", fmi), 5.0, 0.01, rtol=1e-12)
    assert_allclose(values(rows, "q", fmi) - RADIUS, on_the_spring(rows["time"]), atol=3 * CLOSE)


def belt_by_pieces(t_stop, dt):
    """Where the mass is on the belt, by solve_ivp from one event to the next, each in its own
    law.
    """
    K_b, D_b = BRISTLES

    def sticking(y):
        return -(K_b * y[2] + D_b * y[1])

    def rates(t, y, side):
        force = sticking(y) if side == 0 else side * RUB
        return y[1], PULL * (SPEED * t - y[0]) + force, -(K_b * y[2] + force) / D_b

    def beyond(_, y, side):
        f = sticking(y)
        return RUB - abs(f) if side == 0 else side * f - RUB

    beyond.terminal, beyond.direction = True, -1
    t, y, side, points = 0.0, np.zeros(3), 0, []
    grid = np.arange(0.0, t_stop + dt / 2, dt)
    while t < t_stop:
        run = solve_ivp(
            rates, (t, t_stop), y, "Radau", args=(side,), events=beyond, rtol=1e-11, atol=1e-13,
            dense_output=True,
        )  # fmt: skip
        here = grid[(grid >= t) & (grid <= run.t[-1])]
        points.append(run.sol(here)[0])
        t, y = run.t[-1], run.y[:, -1]
        if run.status == 1:
            side = 0 if side else np.sign(sticking(y))
            t, y = np.nextafter(t, np.inf), y + 1e-13 * np.array(rates(t, y, side))
    return np.concatenate(points)[: len(grid)]


def test_stick_and_slip_on_a_belt_are_those_of_a_solver_with_the_law_of_each_piece(made, fmi):
    q = values(by_cvode(made("belt", fmi), 6.0, 0.01), "mass.q", fmi)
    expected = belt_by_pieces(6.0, 0.01)
    assert np.ptp(np.diff(expected)) > 1e-3  # it does stick and slip
    assert_allclose(q, expected, atol=1e-6)
