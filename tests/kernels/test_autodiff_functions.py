"""Functions for JAX and PyTorch, compared with NumPy and checked by finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_state
from rigidblocks import (
    ContactPlant,
    Model,
    PDController,
    Prismatic,
    RobotPlant,
    aba,
    derivatives,
    jax_function,
    planar2,
    rnea,
    torch_function,
)
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.robot.robots import five_bar
from rigidblocks.robot.shapes import Sphere
from rigidblocks.spatial.spatial import mcI, xlt

pytestmark = pytest.mark.autodiff


@pytest.fixture
def jax():
    """Return JAX with doubles on the processor."""
    jax = pytest.importorskip("jax", reason="jax is not installed (`pip install jax`)")
    before = jax.config.jax_enable_x64, jax.config.jax_platforms
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before[0])
    jax.config.update("jax_platforms", before[1])


@pytest.fixture
def check_grads(jax):
    del jax  # the fixture sets the options of JAX
    return pytest.importorskip("jax.test_util").check_grads


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed (`pip install torch`)")


@pytest.mark.parametrize(("name", "algorithm"), [("aba", aba), ("rnea", rnea)])
def test_jax_function_has_the_values_and_derivatives_of_the_algorithm(
    name, algorithm, jax, check_grads
):
    model = MODELS["six-axis"]()
    s = random_state(np.random.default_rng(1), model)
    values = (s.q, s.qd, s.tau) if name == "aba" else (s.q, s.qd, s.qdd)
    f = jax_function(model, name)
    assert_allclose(f(*values), algorithm(model, *values), rtol=1e-10)
    check_grads(f, values, order=1, modes=["rev"], rtol=1e-5)
    J = jax.jacrev(f, argnums=(0, 1, 2))(*values)
    for one, other in zip(J, derivatives(model, name)(*values)[1:], strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


def test_second_derivatives_of_a_jax_function_match_difference_quotients(check_grads):
    q, qd, tau = np.random.default_rng(2).normal(size=(3, 2))
    check_grads(jax_function(planar2(), "aba"), (q, qd, tau), order=2, modes=["rev"], rtol=1e-5)


def test_jax_function_of_a_closed_loop_has_the_derivatives_of_the_loop(jax, check_grads):
    model, q, _ = five_bar()
    f = jax_function(model, "closed_loop_dynamics")
    values = q, np.zeros(4), np.array([1.0, 0.0, -2.0, 0.0])
    assert_allclose(f(*values), closed_loop_dynamics(model, *values).qdd, rtol=1e-9)
    check_grads(lambda tau: f(q, np.zeros(4), tau), (values[2],), order=1, modes=["rev"])
    del jax


def test_jax_function_of_a_block_with_point_contact_has_exact_derivatives(check_grads):
    body = mcI(2.0, np.zeros(3), 0.1 * np.eye(3))
    pose, joint = xlt(np.zeros(3)), Prismatic()
    ball = Model("ball", (-1,), (joint,), (pose,), (body,), contact=((Sphere(0.1),),))
    plant = ContactPlant(RobotPlant(ball), 1e3, 10.0)
    memory = Memory(plant)
    m = memory.start()
    m[memory.where["q"]], m[memory.where["qd"]] = 0.05, -0.1  # 5 cm below the ground
    f = jax_function(plant, "derivative")
    x, u, p = m[memory.x.start : memory.z.stop], m[memory.u], m[memory.p]
    expected = NumpyEvaluator(memory).derivative(m)
    assert_allclose(f(0.0, x, u, p), expected, rtol=1e-10)
    check_grads(lambda x, u: f(0.0, x, u, p), (x, u), order=1, modes=["rev"], rtol=1e-4)


def test_jax_function_supports_jit_vmap_and_leading_axes(jax):
    rng = np.random.default_rng(3)
    q, qd, tau = rng.normal(size=(3, 5, 2))
    f, g = jax_function(planar2(), "aba"), planar2()
    expected = [aba(g, *row) for row in zip(q, qd, tau, strict=True)]
    assert_allclose(f(q, qd, tau), expected, rtol=1e-12)
    assert_allclose(jax.jit(jax.vmap(f))(q, qd, tau), expected, rtol=1e-12)
    assert_allclose(f(q, qd[0], tau[0])[0], expected[0], rtol=1e-12)
    slopes = jax.jit(jax.vmap(jax.grad(lambda q, qd, tau: f(q, qd, tau).sum())))(q, qd, tau)
    assert_allclose(slopes[2], jax.grad(lambda q: f(q, qd[2], tau[2]).sum())(q[2]), rtol=1e-12)


def test_jax_function_returns_the_type_of_its_arguments(jax):
    q = jax.numpy.asarray([0.1, 0.2], dtype=jax.numpy.float32)
    f = jax_function(planar2(), "aba")
    assert f(q, q, q).dtype == jax.numpy.float32
    assert jax.grad(lambda q: f(q, q, q).sum())(q).dtype == jax.numpy.float32


def test_invalid_names_and_arguments_of_jax_functions_are_rejected(jax):
    del jax
    f = jax_function(planar2(), "aba")
    with pytest.raises(TypeError, match=r"aba takes 3 arguments \(q, qd, tau\), not 2"):
        f(np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"the argument qd of aba has the shape \(3,\); expected"):
        f(np.zeros(2), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="unknown function 'abba' of model"):
        jax_function(planar2(), "abba")
    with pytest.raises(ValueError, match="has no continuous states"):
        jax_function(PDController(kp=[1.0], kd=[1.0], sample_time=0.1), "derivative")


@pytest.mark.parametrize("name", ["aba", "rnea"])
def test_torch_function_passes_the_gradient_checks(name, torch):
    model = planar2()
    rng = np.random.default_rng(5)
    values = [torch.tensor(v, requires_grad=True) for v in rng.normal(size=(3, 4, 2))]
    f = torch_function(model, name)
    algorithm = {"aba": aba, "rnea": rnea}[name]
    rows = zip(*(one.detach().numpy() for one in values), strict=True)
    expected = [algorithm(model, *row) for row in rows]
    assert_allclose(f(*values).detach().numpy(), expected, rtol=1e-10)
    assert torch.autograd.gradcheck(f, values)
    assert torch.autograd.gradgradcheck(f, values)


def test_torch_function_of_a_block_passes_the_gradient_check(torch):
    plant = RobotPlant(planar2())
    memory = Memory(plant)
    m = memory.start()
    f = torch_function(plant, "derivative")
    parts = [np.zeros(()), m[memory.x], m[memory.u], m[memory.p]]
    values = [torch.tensor(v, requires_grad=True) for v in parts]
    assert torch.autograd.gradcheck(f, values)


def test_torch_function_of_a_closed_loop_passes_the_gradient_check(torch):
    model, q, _ = five_bar()
    f = torch_function(model, "closed_loop_dynamics")
    tau = torch.tensor([1.0, 0.0, -2.0, 0.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda tau: f(q, np.zeros(4), tau), (tau,))


def test_jax_function_converts_integers_and_float16_to_floating_point_types(jax):
    f = jax_function(planar2(), "aba")
    ones = jax.numpy.ones(2, int)
    assert f(ones, ones, ones).dtype == jax.numpy.float64
    assert f(ones.astype("float16"), ones, ones).dtype == jax.numpy.float32
    assert_allclose(f(ones, ones, ones), aba(planar2(), *np.ones((3, 2))), rtol=1e-12)


def test_jax_function_rejects_a_complex_argument(jax):
    zeros = jax.numpy.zeros(2)
    with pytest.raises(ValueError, match="the argument qd of aba is complex; expected real numb"):
        jax_function(planar2(), "aba")(zeros, zeros + 1j, zeros)
