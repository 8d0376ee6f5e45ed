"""CasADi functions and acados models compared with compiled code, closed forms and NumPy."""

import ctypes
import subprocess
from dataclasses import dataclass

import casadi as ca
import numpy as np
import pytest
from numpy.testing import assert_allclose

from loop_models import closed_state, four_bar
from planar_models import random_planar_state, random_planar_tree
from random_models import MODELS, random_state
from rigidblocks import (
    Block,
    ClosedLoopPlant,
    Model,
    PDController,
    Port,
    Prismatic,
    RobotPlant,
    System,
    casadi_function,
    compiled_dynamics,
    derivatives,
    export_acados,
    planar2,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import compiler
from rigidblocks.library import UnitDelay
from rigidblocks.robot.robots import planar_n
from rigidblocks.robot_description.load import puma560
from rigidblocks.spatial.spatial import identity, mcI

RTOL = 1e-14  # the same operations in the same order, except calls of the C library


def scaled(a, b):
    """Return the largest difference relative to the largest element of b."""
    return np.max(np.abs(np.asarray(a).reshape(np.shape(b)) - b)) / np.max(np.abs(b))


def arguments(algorithm, s):
    values = {"aba": (s.q, s.qd, s.tau), "rnea": (s.q, s.qd, s.qdd), "crba": (s.q,)}
    return values[algorithm]


@pytest.mark.parametrize("algorithm", ["aba", "rnea", "crba"])
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("planar2", "satellite") else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)
def test_casadi_function_of_a_model_equals_the_compiled_function(name, algorithm):
    model, rng = MODELS[name](), np.random.default_rng(1)
    function, compiled = casadi_function(model, algorithm), compiled_dynamics(model, algorithm)
    for _ in range(5):
        values = arguments(algorithm, random_state(rng, model))
        assert scaled(function(*values), compiled(*values)) <= RTOL


def test_casadi_function_of_a_planar_model_equals_the_compiled_function():
    rng = np.random.default_rng(2)
    model = random_planar_tree(rng, (-1, 0, 1, 1))
    s = random_planar_state(rng, model)
    expected = compiled_dynamics(model, "aba")(s.q, s.qd, s.tau)
    assert scaled(casadi_function(model, "aba")(s.q, s.qd, s.tau), expected) <= RTOL


@pytest.mark.parametrize("name", [pytest.param("six-axis", marks=pytest.mark.slow), "mixed"])
def test_casadi_derivatives_equal_the_recursive_derivatives(name):
    """The recursive derivatives are a second algorithm, which multiplies columns of joints."""
    model, rng = MODELS[name](), np.random.default_rng(3)
    q, qd, tau = (ca.SX.sym(key, model.nv) for key in ("q", "qd", "tau"))
    qdd = casadi_function(model, "aba")(q, qd, tau)
    J = ca.Function("J", [q, qd, tau], [ca.jacobian(qdd, one) for one in (q, qd, tau)])
    s = random_state(rng, model)
    for one, other in zip(
        J(s.q, s.qd, s.tau), derivatives(model, "aba")(s.q, s.qd, s.tau)[1:], strict=True
    ):
        assert scaled(one, other) <= 1e-11


@pytest.mark.slow
def test_casadi_derivatives_of_a_closed_loop_equal_the_recursive_derivatives():
    model = four_bar()
    plant = ClosedLoopPlant(model, q0=_four_bar_pose())
    q, qd, tau = (ca.SX.sym(key, model.nv) for key in ("q", "qd", "tau"))
    f = casadi_function(model, "closed_loop_dynamics")
    J = ca.Function("J", [q, qd, tau], [ca.jacobian(f(q, qd, tau), one) for one in (q, qd, tau)])
    state = closed_state(model, np.asarray(plant.q0), np.random.default_rng(4))
    values = state.q, state.qd, state.tau
    exact = derivatives(model, "closed_loop_dynamics")(*values)
    for one, other in zip((f(*values), *J(*values)), exact, strict=True):
        assert scaled(one, other) <= 1e-10


def _four_bar_pose():
    """Return the angles of a closed four-bar with links of 0.8, 1.6, 1.1 and 1.5 m."""
    a, b, c, d = 0.8, 1.6, 1.1, 1.5
    first = 1.0
    x, y = d - a * np.cos(first), -a * np.sin(first)
    r, direction = np.hypot(x, y), np.arctan2(y, x)
    second = direction + np.arccos((b * b + r * r - c * c) / (2 * b * r))
    end = np.array([x - b * np.cos(second), y - b * np.sin(second)])
    third = np.arctan2(end[1], end[0])
    return first, second - first, third - second


def random_memory(memory, rng):
    m = memory.start() + 0.1 * rng.normal(size=memory.size)
    return m


@pytest.mark.parametrize(
    ("block", "function"),
    [
        (RobotPlant(MODELS["six-axis"]()), "derivative"),
        (RobotPlant(MODELS["six-axis"]()), "output"),
        (RobotPlant(MODELS["all joints"]()), "derivative"),
        (PDController((60.0, 30.0), (8.0, 4.0), tau_max=(20.0, 5.0), sample_time=2e-3), "update"),
        (PDController((60.0, 30.0), (8.0, 4.0), tau_max=(20.0, 5.0)), "output"),
        (UnitDelay(sample_time=0.01, y0=[1.0, 2.0]), "update"),
    ],
    ids=["rates", "outputs", "all joints", "sampled pd", "pd", "delay"],
)
def test_casadi_function_of_a_block_equals_its_numpy_functions(block, function):
    memory, rng = Memory(block), np.random.default_rng(5)
    m = random_memory(memory, rng)
    x = m[memory.x.start : memory.z.stop]
    evaluator = NumpyEvaluator(memory)
    expected = getattr(evaluator, function)(m)
    if function == "output":
        m[memory.y] = expected
        expected = np.concatenate([m[memory.where[port.name]] for port in block.outputs])
    f = casadi_function(block, function)
    assert f.name_in() == ["t", "x", "u", "p"]
    assert scaled(f(m[0], x, m[memory.u], m[memory.p]), expected) <= 1e-10


def test_least_effort_motion_of_a_mass_has_its_analytic_cost():
    """IPOPT minimizes the integral of u^2 of a mass that moves a distance d from rest to rest.

    The force is m d / T^2 (6 - 12 t/T), and the cost is 12 m^2 d^2 / T^3. RK4 steps are exact for
    forces that are linear in time, and Simpson's rule is exact for their square.
    """
    m, d, T, n = 2.0, 0.7, 1.5, 20
    slide = Model(
        "slide",
        (-1,),
        (Prismatic((1.0, 0.0, 0.0)),),
        (identity(),),
        (mcI(m, [0.0, 0.0, 0.0], np.eye(3)),),
    )
    f, h = casadi_function(RobotPlant(slide), "derivative"), T / n
    gravity = np.zeros(3)
    opti = ca.Opti()  # calls the function with MX symbols
    X, U = opti.variable(2, n + 1), opti.variable(n + 1)
    cost = 0
    for k in range(n):
        middle = (U[k] + U[k + 1]) / 2
        k1 = f(0, X[:, k], U[k], gravity)
        k2 = f(0, X[:, k] + h / 2 * k1, middle, gravity)
        k3 = f(0, X[:, k] + h / 2 * k2, middle, gravity)
        k4 = f(0, X[:, k] + h * k3, U[k + 1], gravity)
        opti.subject_to(X[:, k + 1] == X[:, k] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
        cost += h / 6 * (U[k] ** 2 + 4 * middle**2 + U[k + 1] ** 2)
    opti.subject_to(X[:, 0] == ca.DM([0, 0]))
    opti.subject_to(X[:, n] == ca.DM([d, 0]))
    opti.minimize(cost)
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes"})
    solution = opti.solve()
    assert solution.value(cost) == pytest.approx(12 * m**2 * d**2 / T**3, rel=1e-6)
    t = np.linspace(0, T, n + 1)
    assert_allclose(solution.value(U), m * d / T**2 * (6 - 12 * t / T), atol=1e-5)


# --- acados ---

STRICT = (
    *("-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"),
    *("-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla", "-Wdouble-promotion"),
)
CONTINUOUS = (
    *("expl_ode_fun", "expl_vde_forw", "expl_vde_adj", "expl_ode_hess", "impl_dae_fun"),
    *("impl_dae_fun_jac_x_xdot_z", "impl_dae_fun_jac_x_xdot_u", "impl_dae_fun_jac_x_xdot_u_z"),
    *("impl_dae_jac_x_xdot_u_z", "impl_dae_hess"),
)
DISCRETE = ("dyn_disc_phi_fun", "dyn_disc_phi_fun_jac", "dyn_disc_phi_fun_jac_hess")


def compiled(path, integer="long long int"):
    """Compile one file with the integer type of CasADi's own loader, and return the library."""
    target = path.with_suffix(".so")
    flags = (*STRICT, "-fPIC", "-shared", f"-Dcasadi_int={integer}")
    done = subprocess.run(
        [*compiler(), *flags, "-o", target, path, "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def loaded(folder, name, suffix):
    """Load an exported function with CasADi, which implements the C interface independently."""
    return ca.external(f"{name}_{suffix}", str(compiled(folder / f"{name}_{suffix}.c")))


LENGTH, MASS, GRAVITY, INERTIA = 0.7, 2.0, 9.81, 0.3


@dataclass(frozen=True)
class Pendulum(Block):
    """Pendulum with I qdd = tau - m g l sin q, where the mass m is a parameter."""

    inputs = (Port("tau", (), "N.m"),)
    states = (Port("q", (), "rad", start=0.0, rate="qd"), Port("qd", (), "rad/s", start=0.0))
    outputs = (Port("q", (), "rad"),)
    parameters = (Port("m", (), "kg", start=MASS),)

    def derivative(self, x, u, p):
        return {"q": x.qd, "qd": (u.tau - p.m * GRAVITY * LENGTH * np.sin(x.q)) / INERTIA}


def pendulum_closed_form(x, tau, m):
    """Return f, A, B and the second derivative of qdd with respect to q."""
    k = m * GRAVITY * LENGTH / INERTIA
    f = np.array([x[1], tau / INERTIA - k * np.sin(x[0])])
    A = np.array([[0.0, 1.0], [-k * np.cos(x[0]), 0.0]])
    return f, A, np.array([[0.0], [1 / INERTIA]]), k * np.sin(x[0])


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acados") / "of a pendulum"
    paths = export_acados(Pendulum(), folder, name="pendulum", hessian=True)
    assert [path.name for path in paths] == [
        *(f"pendulum_{key}.c" for key in CONTINUOUS),
        "pendulum_model.h",
    ]
    return folder


@pytest.fixture(scope="module")
def state():
    rng = np.random.default_rng(6)
    x, xdot, lam, u = rng.normal(size=2), rng.normal(size=2), rng.normal(size=2), rng.normal()
    return x, xdot, u, lam, rng.normal(size=(2, 2)), rng.normal(size=(2, 1)), 1.7


def test_explicit_acados_functions_equal_their_closed_form(pendulum, state):
    x, _, u, lam, Sx, Su, m = state
    f, A, B, second = pendulum_closed_form(x, u, m)
    adjoint = np.hstack([A, B]).T @ lam
    assert_allclose(loaded(pendulum, "pendulum", "expl_ode_fun")(x, u, m).full()[:, 0], f)
    forward = loaded(pendulum, "pendulum", "expl_vde_forw")(x, Sx, Su, u, m)
    for one, other in zip(forward, (f[:, None], A @ Sx, A @ Su + B), strict=True):
        assert_allclose(one.full(), other, rtol=1e-13)
    adjoints = loaded(pendulum, "pendulum", "expl_vde_adj")(x, lam, u, m)
    assert_allclose(adjoints.full()[:, 0], adjoint, rtol=1e-13)
    gradient, lower = loaded(pendulum, "pendulum", "expl_ode_hess")(x, Sx, Su, lam, u, m)
    S = np.block([[Sx, Su], [np.zeros((1, 2)), np.eye(1)]])
    H = S.T @ np.diag([lam[1] * second, 0.0, 0.0]) @ S
    assert_allclose(gradient.full()[:, 0], adjoint, rtol=1e-13)
    # the lower triangle, column by column
    assert_allclose(lower.full()[:, 0], H.T[np.triu_indices(3)], rtol=1e-12, atol=1e-14)


def test_implicit_acados_functions_equal_their_closed_form(pendulum, state):
    x, xdot, u, _, _, _, m = state
    f, A, B, _ = pendulum_closed_form(x, u, m)
    parts = {"fun": (xdot - f)[:, None], "x": -A, "xdot": np.eye(2), "u": -B}
    parts["z"] = np.zeros((2, 0))
    for suffix in CONTINUOUS[4:-1]:
        function = loaded(pendulum, "pendulum", suffix)
        names = [key for key in suffix.split("_")[2:] if key != "jac"]
        results = function.call([x, xdot, u, [], 0.0, m])
        assert len(results) == len(names)
        for one, key in zip(results, names, strict=True):
            assert one.shape == parts[key].shape
            assert_allclose(one.full(), parts[key], rtol=1e-13, err_msg=f"{suffix}: {key}")


def test_implicit_hessian_for_acados_equals_its_closed_form(pendulum, state):
    """The only second derivative of lam^T (xdot - f) is that of -qdd with respect to q."""
    x, xdot, u, lam, _, _, m = state
    second = pendulum_closed_form(x, u, m)[3]
    function = loaded(pendulum, "pendulum", "impl_dae_hess")
    (H,) = function.call([x, xdot, u, [], lam, 0.0, m])
    expected = np.diag([-lam[1] * second, 0.0, 0.0, 0.0, 0.0])  # rows x, xdot and u
    assert_allclose(H.full(), expected, rtol=1e-13)


def test_acados_functions_accept_null_pointers(pendulum, state):
    """In the C interface of CasADi, they are zero arguments and results that nobody needs."""
    x, u = state[0], state[2]
    library = ctypes.CDLL(str(compiled(pendulum / "pendulum_expl_vde_forw.c", "int")))
    sizes = [ctypes.c_int() for _ in range(4)]
    library.pendulum_expl_vde_forw_work(*map(ctypes.byref, sizes))
    assert [one.value for one in sizes[:3]] == [5, 3, 0]
    work = np.full(sizes[3].value + 1, np.nan)
    given = [x, None, None, np.array([u]), np.array([1.7])]
    pointers = (ctypes.c_void_p * 5)(*(None if a is None else a.ctypes.data for a in given))
    B = np.zeros(2)
    results = (ctypes.c_void_p * 3)(None, None, B.ctypes.data)
    assert library.pendulum_expl_vde_forw(pointers, results, None, work.ctypes.data_as(
        ctypes.c_void_p), 0) == 0  # fmt: skip
    assert_allclose(B, pendulum_closed_form(x, u, 1.7)[2][:, 0], rtol=1e-14)
    assert np.isnan(work[-1])


@dataclass(frozen=True)
class Logistic(Block):
    """Logistic map z' = r z (1 - z) + u."""

    sample_time: float | None = 0.1
    inputs = (Port("u", ()),)
    sampled = (Port("z", (), start=0.2),)
    outputs = (Port("z", ()),)
    parameters = (Port("r", (), start=3.0),)

    def update(self, x, u, p):
        return {"z": p.r * x.z * (1 - x.z) + u.u}


def test_discrete_acados_functions_equal_their_closed_form(tmp_path):
    export_acados(Logistic(), tmp_path, name="logistic", hessian=True)
    z, u, r, lam = 0.3, 0.1, 2.5, -1.4
    phi, J, H = loaded(tmp_path, "logistic", DISCRETE[2])(z, u, lam, r)
    assert float(phi) == pytest.approx(r * z * (1 - z) + u, rel=1e-15)
    assert_allclose(J.full()[:, 0], [1.0, r * (1 - 2 * z)], rtol=1e-14)
    assert_allclose(H.full(), [[0.0, 0.0], [0.0, -2 * r * lam]], rtol=1e-14)
    for suffix, results in zip(DISCRETE[:2], ([phi], [phi, J]), strict=True):
        for one, other in zip(
            loaded(tmp_path, "logistic", suffix).call([z, u, r]), results, strict=True
        ):
            assert_allclose(one.full(), other.full(), rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["six-axis", "four-bar"])
def test_acados_functions_of_robots_equal_the_plant_in_numpy(name, tmp_path):
    model = four_bar() if name == "four-bar" else MODELS[name]()
    loops = model.has_constraints
    block = ClosedLoopPlant(model, q0=_four_bar_pose()) if loops else RobotPlant(model)
    export_acados(block, tmp_path, name="robot")
    memory, evaluator = Memory(block), NumpyEvaluator(Memory(block))
    m = random_memory(memory, np.random.default_rng(7))
    if loops:
        m[memory.x] = evaluator.project(m)
    x, u, p = m[memory.x], m[memory.u], m[memory.p]
    f = evaluator.derivative(m)
    assert scaled(loaded(tmp_path, "robot", "expl_ode_fun")(x, u, p), f) <= 1e-10
    n = len(x)
    S, step = np.random.default_rng(8).normal(size=(n, 1)), 1e-6
    full = np.hstack([S, np.zeros((n, n - 1))])
    forward = loaded(tmp_path, "robot", "expl_vde_forw")(x, full, np.zeros((n, len(u))), u, p)

    def moved(h):
        changed = m.copy()
        changed[memory.x] += h * S[:, 0]
        return evaluator.derivative(changed)

    difference = (moved(step) - moved(-step)) / (2 * step)
    assert scaled(forward[1].full()[:, 0], difference) <= 1e-6


def test_acados_code_of_a_robot_model_equals_the_code_of_its_plant(tmp_path):
    paths = export_acados(planar_n(1), tmp_path / "a")
    same = export_acados(RobotPlant(planar_n(1)), tmp_path / "b", name=paths[-1].name[:-8])
    for one, other in zip(paths, same, strict=True):
        assert one.name == other.name
        assert one.read_text() == other.read_text()


# --- wrong input ---


@dataclass(frozen=True)
class Clocked(Block):
    states = (Port("x", (), start=0.0),)
    outputs = (Port("x", ()),)

    def derivative(self, t, x):
        return {"x": np.sin(t) - x.x}


@pytest.mark.parametrize(
    ("target", "function", "message"),
    [
        (planar2(), "abba", "unknown function 'abba' of model 'planar2'; .*did you mean aba"),
        (planar2(), "closed_loop_dynamics", "has no loop joints; use 'aba'"),
        (Pendulum(), "aba", "unknown function 'aba' of block 'Pendulum'"),
        (Pendulum(), "update", "block 'Pendulum' has no sampled states"),
        (PDController((1.0,), (1.0,)), "derivative", "has no continuous states"),
    ],
)
def test_unknown_casadi_function_is_rejected(target, function, message):
    with pytest.raises(ValueError, match=message):
        casadi_function(target, function)


def test_casadi_function_of_a_system_is_rejected_with_a_remedy():
    with pytest.raises(TypeError, match=r"not a System; .*ContinuousSystem\(system\)"):
        casadi_function(System(), "derivative")


def test_robot_description_instead_of_its_model_is_rejected_with_a_remedy(tmp_path):
    for call in (
        lambda: casadi_function(puma560(), "aba"),
        lambda: export_acados(puma560(), tmp_path),
    ):
        with pytest.raises(TypeError, match="not a RobotDescription; pass its attribute `model`"):
            call()


def test_time_dependent_block_is_rejected_by_acados_export(tmp_path):
    with pytest.raises(ValueError, match="block 'Clocked' depends on the time t"):
        export_acados(Clocked(), tmp_path)


@pytest.mark.parametrize("name", ["", "2arm", "my arm", "a-b", "ä"])
def test_acados_model_name_that_is_not_a_c_identifier_is_rejected(name, tmp_path):
    with pytest.raises(ValueError, match="must be a C identifier, not"):
        export_acados(Pendulum(), tmp_path, name=name)


@pytest.mark.parametrize(
    ("kind", "stem"), [("_My", "My"), ("My__Plant", "My_Plant"), ("_", "block"), ("Ä", "block")]
)
def test_block_class_with_any_name_has_a_casadi_function_and_an_acados_model(kind, stem, tmp_path):
    block = dataclass(frozen=True)(type(kind, (Pendulum,), {}))()
    f = casadi_function(block, "derivative")(0, [0.3, 0.1], 0.7, MASS).full()[:, 0]
    assert_allclose(f, pendulum_closed_form([0.3, 0.1], 0.7, MASS)[0], rtol=1e-14)
    export_acados(block, tmp_path)
    value = loaded(tmp_path, stem, "expl_ode_fun")([0.3, 0.1], 0.7, MASS).full()[:, 0]
    assert_allclose(value, f, rtol=1e-14)


def test_block_without_states_is_rejected_by_acados_export(tmp_path):
    with pytest.raises(ValueError, match="'PDController' has no continuous states"):
        export_acados(PDController((1.0,), (1.0,)), tmp_path)
