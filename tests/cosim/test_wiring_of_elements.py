"""Connections of elements and slices of ports.

They give equal results in every form, and errors for invalid connections name a remedy.
"""

from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_system import refused

from rigidblocks import Block, Port, PythonBlock, System, linearize, simulate
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import NumpyStepper
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.fmi.export import export_fmu
from rigidblocks.library import Gain


@dataclass(frozen=True, eq=False)
class Lag(Block):
    """dx/dt = -k x + u with shape (2, n); connections use single rows and elements."""

    k: float = 1.0
    n: int = 3

    @property
    def inputs(self):
        return (Port("u", (2, self.n), start=np.arange(2.0 * self.n).reshape(2, self.n)),)

    @property
    def states(self):
        return (Port("x", (2, self.n), start=np.arange(1.0, 2.0 * self.n + 1).reshape(2, self.n)),)

    @property
    def outputs(self):
        return (*self.states, Port("twice", (self.n,)))

    def derivative(self, x, u):
        return {"x": u.u - self.k * x.x}

    def output(self, x):
        return {"twice": 2.0 * x.x[0]}


@dataclass(frozen=True, eq=False)
class One(Block):
    """y = (3 u,): a scalar input, and an output vector of one element."""

    @property
    def inputs(self):
        return (Port("u"),)

    @property
    def outputs(self):
        return (Port("y", (1,)),)

    def output(self, u):
        return {"y": np.array([3.0 * u.u])}


def crossed():
    """Return two cross-connected lags; u[1,1] is the only unconnected input of the first lag."""
    system = System()
    system.add("a", Lag(1.0))
    system.add("b", Lag(2.0))
    system.add("one", One())
    system.connect("b.x[2,:]", "a.u[2,:]")
    system.connect("b.twice[1]", "a.u[1,2]")
    system.connect("one.y", "a.u[1,3]")  # a vector of one element to a scalar
    system.connect("a.x[1,2:]", "b.u[2,1:2]")
    system.connect("a.x[:,1]", "b.u[:,3]")
    system.connect("a.x[2, 3]", "one.u")
    return system


def law(z):
    """Return the derivatives of the ideal law, written element by element."""
    a, b = z.reshape(2, 2, 3)
    ua, ub = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3)
    ua[1], ua[0, 1], ua[0, 2] = b[1], 2 * b[0, 0], 3 * a[1, 2]
    ub[1, :2], ub[:, 2] = a[0, 1:], a[:, 0]
    return np.concatenate([(ua - a).ravel(), (ub - 2 * b).ravel()])


START = np.concatenate([np.arange(1.0, 7.0)] * 2)


@pytest.mark.slow
def test_connections_of_elements_give_equal_results_in_numpy_in_c_and_in_fused_systems():
    runs = [simulate(crossed(), 0.3, 0.01, form=form) for form in ("numpy", "compiled", "fused")]
    for run in runs[1:]:
        for port in ("a.x", "b.x", "b.twice", "one.y"):
            np.testing.assert_allclose(run[port], runs[0][port], rtol=1e-14, atol=1e-14)


def test_linearization_with_connected_elements_matches_the_equations_of_the_system():
    block = ContinuousSystem(crossed())
    found = linearize(block)
    assert found.input_names == ("a.u[1,1]", "b.u[1,1]", "b.u[1,2]")
    np.testing.assert_allclose(found.residual, law(START), atol=1e-14)
    columns = [law(START + one) - law(START) for one in np.eye(12)]
    np.testing.assert_allclose(found.A, np.transpose(columns), atol=1e-13)
    np.testing.assert_array_equal(found.B[[0, 6, 7], [0, 1, 2]], 1.0)


@pytest.mark.slow
def test_unconnected_input_elements_are_inputs_of_the_system_and_of_its_fmu(tmp_path):
    block = FusedSystem(crossed(), 0.01)
    assert [port.name for port in block.inputs] == ["a.u[1,1]", "b.u[1,1]", "b.u[1,2]"]
    path = export_fmu(block, tmp_path / "crossed.fmu")
    system = System()
    system.add("whole", path)
    run, expected = simulate(system, 0.3, 0.01), simulate(crossed(), 0.3, 0.01)
    for port in ("a.x", "b.twice"):
        np.testing.assert_allclose(run[f"whole.{port}"], expected[port], rtol=1e-13)
    names = [v.name for v in fmpy.read_model_description(str(path)).modelVariables]
    assert {"a.u[1,1]", "b.u[1,1]", "b.u[1,2]"} <= set(names)
    assert "a.u[2,1]" not in names


@pytest.mark.slow
def test_unconnected_input_elements_keep_their_start_values():
    system = System()
    system.add("a", Lag(), start={"u": np.full((2, 3), 7.0)})
    system.connect("a.x[1,1]", "a.u[1,2]")
    for form in ("numpy", "fused"):
        run = simulate(system, 0.5, 0.5, form=form, h=0.01)
        rest = 7 + (4 - 7) * np.exp(-0.5)
        np.testing.assert_allclose(run["a.x"][-1, 1, 0], rest, rtol=1e-9)


def test_second_source_of_an_input_element_is_rejected():
    system = crossed()
    refused(
        ValueError,
        "cannot connect b.x[1,1] to a.u[2,2]: a.u[2,2] is already connected to b.x[2,:]; to add "
        "several sources, use a block such as Sum",
        system.connect, "b.x[1,1]", "a.u[2,2]",
    )  # fmt: skip
    refused(
        ValueError,
        "cannot connect b.x to a.u: a.u[2,1] is already connected to b.x[2,:]; to add several "
        "sources, use a block such as Sum",
        system.connect, "b.x", "a.u",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        ("b.twice[0]", ValueError, "index '0' must be from 1 to 3; indices start at 1"),
        ("b.twice[4]", ValueError, "index '4' must be from 1 to 3"),
        ("b.twice[3:2]", ValueError, "index '3:2' must be from"),
        ("b.twice[-1]", ValueError, "has the invalid index '-1'"),
        ("b.twice[]", ValueError, "has the invalid index ''"),
        ("b.x[1]", ValueError, "has 1 indices, but x has the shape (2, 3): write one index"),
        ("one.y[1,1]", ValueError, "has 2 indices, but y has the shape (1,)"),
        ("b.xx[1]", KeyError, "'b' has no output 'xx'; it has: twice, x (did you mean x?)"),
        ("b.twice[1:2]", ValueError, "cannot connect b.twice[1:2] (2, 1) to a.u[1,1] (1)"),
    ],
)
def test_invalid_element_of_a_connection_is_rejected(source, error, said):
    with pytest.raises(error) as caught:
        crossed().connect(source, "a.u[1,1]")
    assert said in caught.value.args[0]


def test_index_of_a_scalar_port_is_rejected():
    with pytest.raises(ValueError, match="u has the shape \\(\\): leave out the index"):
        crossed().connect("b.twice[1]", "one.u[1]")


def test_error_for_unconnected_elements_without_a_start_value_lists_these_elements():
    @dataclass(frozen=True)
    class Needs(One):
        @property
        def inputs(self):
            return (Port("u", (3,)),)

        def output(self, u):
            return {"y": u.u[:1]}

    system = System()
    system.add("a", Lag())
    system.add("b", Needs())
    system.connect("a.x[1,1]", "b.u[2]")
    refused(
        ValueError,
        "the inputs b.u[1], b.u[3] are open: connect them or give them start values",
        lambda: system.wiring().open_inputs,
    )


def crosswise(a, b):
    """Return a system with the signal path a.y[1], b.y[1], a.y[2], b.y[2]."""
    system = System()
    system.add("a", a, start={"u": [1.0, 0.0]})
    system.add("b", b)
    for source, target in (("a.y[1]", "b.u[1]"), ("b.y[1]", "a.u[2]"), ("a.y[2]", "b.u[2]")):
        system.connect(source, target)
    return system


PRODUCTS = [[2.0, 2.0 * 5.0 * 3.0], [2.0 * 5.0, 2.0 * 5.0 * 3.0 * 7.0]]  # outputs of a and of b


@pytest.mark.slow
def test_signals_through_independent_elements_of_a_part_form_no_algebraic_loop(tmp_path):
    gains = Gain((2.0, 3.0)), Gain((5.0, 7.0))
    for parts in (gains, [export_fmu(one, tmp_path / f"{one.k[0]}.fmu") for one in gains]):
        result = simulate(crosswise(*parts), 0.2, 0.1)
        for name, expected in zip("ab", PRODUCTS, strict=True):
            assert_allclose(result[f"{name}.y"], [expected] * 3)
    for whole in (ContinuousSystem(crosswise(*gains)), FusedSystem(crosswise(*gains), 0.1)):
        memory = Memory(whole)
        m = memory.start()
        NumpyStepper(memory).initialize(m, 0.0)
        for name, expected in zip("ab", PRODUCTS, strict=True):
            assert_allclose(m[memory.where[f"{name}.y"]], expected)


@pytest.mark.parametrize("python", [False, True])
def test_feedthrough_between_all_elements_of_a_part_forms_an_algebraic_loop(python):
    def mixed(u):
        return np.array([u[0] + u[1], u[1]])

    port = Port("u", (2,)), Port("y", (2,))
    block = (
        PythonBlock(mixed, port[:1], port[1:]) if python else Gain(((1, 1), (0, 1)), matrix=True)
    )
    system = crosswise(block, Gain((5.0, 7.0)))
    message = r"algebraic loop; .* instant: (a.u|a.y|b.u|b.y)( -> (a.u|a.y|b.u|b.y))+\n"
    with pytest.raises(ValueError, match=message):
        _ = system.wiring().evaluation_order
