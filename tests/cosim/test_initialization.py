"""Initialization of a run: initial inputs, outputs and algebraic loops, in all forms."""

import logging
import zipfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from any_models import AnyModel, Variable, any_fmu
from campaign import sized
from linear_networks import (
    BLOCK,
    DECLARED,
    FMUS,
    KINDS,
    LinearNetwork,
    LinearPart,
    random_network,
)
from rigidblocks import Block, Port, System, export_fmu, prepare, simulate
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.wiring import Connection, Wiring
from rigidblocks.cosim.simulate import SimulationError
from rigidblocks.library.signals import Gain

SAME = 1e-12
pytestmark = pytest.mark.filterwarnings("ignore:.*samples.*before .* steps")


def run(network: LinearNetwork, folder: Path, **options):
    return simulate(network.system(folder), 0.3, network.dt, progress=False, **options)


def assert_agree(network: LinearNetwork, folder: Path, rows=slice(None), **options) -> None:
    size = np.abs(network.outputs).max()
    assert network.error(run(network, folder, **options), rows) < SAME * size


def plant_and_source(source: str, plant: str, declared: str) -> LinearNetwork:
    """Return a plant and a source with the output -2, which initializes an output of the plant."""
    a = np.zeros((3, 3))
    a[0, 0] = 0.5
    none = np.zeros(3, dtype=bool)
    held = np.array([True, False, False])
    parts = [
        LinearPart("a plant", plant, declared, a, np.zeros(3), held, np.full(3, 7.0)),
        LinearPart("b source", source, declared, a, np.full(3, -2.5), none, np.ones(3)),
    ]
    return LinearNetwork(parts, [[(1, 0), None, None], [None, None, None]])


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("plant", KINDS)
def test_connected_inputs_of_an_fmu_are_set_before_its_initialization_ends(
    plant, declared, tmp_path
):
    for source in (BLOCK, "co-simulation 2"):
        network = plant_and_source(source, plant, declared)
        assert network.outputs[0, 0] == -1.0
        assert_agree(network, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("declared", [*((one,) for one in DECLARED), DECLARED])
@pytest.mark.parametrize("n", [4, 20])
def test_initial_values_of_fmu_networks_without_loops_equal_the_dense_linear_solution(
    n, declared, tmp_path
):
    assert_agree(random_network(n, n, declared=declared), tmp_path, form="numpy")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(sized(8, 3)))
def test_initial_values_of_many_random_fmu_networks_equal_the_dense_linear_solution(seed, tmp_path):
    for n in (2, 5, 11, 20):
        for declared in (*((one,) for one in DECLARED), DECLARED):
            network = random_network(1000 * n + seed, n, declared=declared)
            assert_agree(network, tmp_path, form="numpy")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"form": "compiled"},
        {"form": "traced"},
        {"order": "jacobi"},
        {"extrapolate": 1},
        {"iterate": True},
        {"iterate": "newton"},
    ],
    ids=str,
)
def test_initial_values_with_every_master_algorithm_equal_the_dense_linear_solution(
    options, tmp_path
):
    assert_agree(random_network(7, 6), tmp_path, **{"form": "numpy", **options})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused", "traced"])
def test_initial_values_of_block_networks_equal_the_dense_linear_solution(form, tmp_path):
    assert_agree(random_network(3, 5, kinds=(BLOCK,)), tmp_path, form=form)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(sized(4, 2)))
def test_initial_values_of_many_block_networks_equal_the_dense_linear_solution(seed, tmp_path):
    for n in (4, 12, 20):
        network = random_network(2000 * n + seed, n, kinds=(BLOCK,))
        for form in ("numpy", "fused"):
            assert_agree(network, tmp_path, form=form)


@pytest.mark.slow
def test_initial_values_of_networks_of_isolated_fmus_equal_the_dense_linear_solution(tmp_path):
    assert_agree(random_network(5, 4, kinds=tuple(FMUS), isolated=True), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("declared", ["right", "missing"])
@pytest.mark.parametrize("gain", [0.25, 1.5])
def test_initialization_solves_algebraic_loops(gain, declared, tmp_path):
    kinds = KINDS if declared == "right" else tuple(FMUS)
    network = random_network(11, 8, kinds, (declared,), loops=True, gain=gain)
    assert_agree(network, tmp_path, form="numpy", iterate="newton")


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.25, 1.5])
def test_initialization_solves_loops_of_undeclared_dependencies_without_newton_coupling(
    gain, tmp_path
):
    network = random_network(12, 8, tuple(FMUS), ("missing",), loops=True, gain=gain)
    assert_agree(network, tmp_path, slice(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(sized(4, 2)))
def test_initialization_solves_algebraic_loops_of_many_random_networks(seed, tmp_path):
    for n in (3, 9, 20):
        for gain in (0.25, 1.5):
            kinds = {"right": KINDS, "missing": tuple(FMUS)}
            for declared, some in kinds.items():
                network = random_network(
                    3000 * n + seed, n, some, (declared,), loops=True, gain=gain
                )
                if np.abs(network.outputs).max() > 1e3:  # nearly singular
                    continue
                result = run(network, tmp_path, form="numpy", iterate="newton")
                assert network.error(result) < 1e-10 * np.abs(network.outputs).max()


@pytest.mark.slow
def test_run_after_a_reset_repeats_the_initial_values(tmp_path):
    network = random_network(13, 5)
    prepared = prepare(network.system(tmp_path), network.dt, form="numpy")
    for _ in range(2):
        prepared.reset()
        prepared.step()
        for p, part in enumerate(network.parts):
            found = [prepared[f"{part.name}.y{j + 1}"] for j in range(3)]
            assert found == pytest.approx(network.outputs[p], rel=SAME, abs=SAME)
    prepared.close()


# outputs that are not available before their inputs are set

U, Y, Z = 1, 2, 3  # value references


def medium(start: float) -> AnyModel:
    """Return a model y = 1, z = 1 / u; reading z at u = 0 is an error."""
    return AnyModel(
        f"medium{start:g}",
        [
            Variable("u", U, "input", start=(start,)),
            Variable("y", Y, "output", start=(1.0,)),
            Variable("z", Z, "output"),
        ],
        motion="if (m->v[1][0] != 0) m->v[3][0] = 1 / m->v[1][0];",
        refuses="return r == 3 && m->v[1][0] == 0;",
        dependencies={Y: [], Z: [U]},
        start_dependencies={Z: [U]},
    )


@pytest.mark.slow
@pytest.mark.parametrize("start", [288.15, 0.0])
@pytest.mark.parametrize(("version", "isolated"), [(2, False), (2, True), (3, False)])
def test_initial_outputs_of_an_fmu_are_read_after_their_inputs_are_set(
    version, isolated, start, tmp_path
):
    file, system = any_fmu(tmp_path, medium(start), version), System()
    for name in "ab":
        system.add(name, file, isolated=isolated)
    system.connect("a.y", "b.u")  # b.z follows a.y
    system.connect("b.z", "a.u")  # a.z follows b.z
    result = simulate(system, 0.1, 0.1, progress=False)
    for name in ("a.y", "b.z", "a.z"):
        assert (result[name] == 1.0).all()


# algebraic loops and their initial guess


def law(name: str, text: str, start: float, declared: bool = True) -> AnyModel:
    """Return a model y = `text`, an expression of u with this start value."""
    return AnyModel(
        name,
        [Variable("u", U, "input", start=(start,)), Variable("y", Y, "output")],
        motion=f"const double u = (double)m->v[1][0]; m->v[2][0] = {text};",
        dependencies={Y: [U]} if declared else {},
    )


def loop(folder: Path, version: int, kind: str, *laws: AnyModel, **options) -> System:
    system = System()
    for model in laws:
        system.add(model.name, any_fmu(folder, model, version), kind=kind, **options)
    names = [model.name for model in laws]
    for source, target in zip(names, [*names[1:], names[0]], strict=True):
        system.connect(f"{source}.y", f"{target}.u")
    return system


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), FMUS.values(), ids=FMUS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_start_value_selects_the_solution_of_an_algebraic_loop(version, kind, sign, tmp_path):
    solution = 0.9
    for _ in range(50):  # fixed point of y = tanh(3 y)
        solution = np.tanh(3.0 * solution)
    for declared_start, given in ((0.8 * sign, {}), (-0.8 * sign, {"start": {"u": 0.8 * sign}})):
        laws = (law("a", "tanh(3 * u)", declared_start), law("b", "u", declared_start))
        system = loop(tmp_path, version, kind, *laws, **given)
        result = simulate(system, 0.2, 0.1, iterate="newton", progress=False)
        assert result["a.y"] == pytest.approx(sign * solution, rel=SAME)


@pytest.mark.slow
def test_newton_iteration_of_the_initialization_starts_at_the_start_values(tmp_path):
    # y = u^3 and u = y have the solutions 0 and +-1; fixed-point iterations leave +-1
    for start, solution in ((1.1, 1.0), (-1.2, -1.0), (0.0, 0.0)):
        laws = (law("a", "u * u * u", start), law("b", "u", start))
        system = loop(tmp_path, 2, "co-simulation", *laws)
        result = simulate(system, 0.2, 0.1, iterate="newton", progress=False)
        assert result["b.y"] == pytest.approx(solution, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
def test_error_for_an_unsolvable_initialization_lists_the_signals_of_the_loop(declared, tmp_path):
    laws = (law("a", "u * u + 1", 0.5, declared), law("b", "u", 0.5, declared))
    system = loop(tmp_path, 2, "co-simulation", *laws)
    options = {"iterate": "newton"} if declared else {}
    with pytest.raises(SimulationError, match=r"initialization did not converge.*a\.y, b\.y"):
        simulate(system, 0.2, 0.1, progress=False, **options)


# undeclared dependencies

INTEGRATOR = AnyModel(
    "integrator",
    [
        Variable("u", U, "input", start=(0.0,)),
        Variable("y", Y, "output", start=(0.0,)),
        Variable("der_y", Z, more='derivative="2"'),
    ],
    states=(Y,),
    rates=(Z,),
    motion="dx[0] = (double)m->v[1][0];",
    longest_step=1.0,
)


def circle(file: Path, names: str = "ab", **options) -> System:
    system = System()
    for name in names:
        system.add(name, file, start={"y": float(name == names[0])}, **options)
    for source, target in zip(names, names[1:] + names[0], strict=True):
        system.connect(f"{source}.y", f"{target}.u")
    return system


def one_warning(caplog) -> str:
    (record,) = [one for one in caplog.records if "do not declare" in one.getMessage()]
    assert record.levelno == logging.WARNING
    caplog.clear()
    return record.getMessage()


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", [2, 3])
def test_loop_of_fmus_without_declared_dependencies_runs_with_a_warning(
    version, isolated, tmp_path, caplog
):
    file, h, n = any_fmu(tmp_path, INTEGRATOR, version), 0.01, 100
    system = circle(file, kind="co-simulation", isolated=isolated)
    result = simulate(system, n * h, h, order="jacobi", progress=False)
    assert "'a', 'b'" in one_warning(caplog)
    up, down = (1 + h) ** n, (1 - h) ** n
    assert result["a.y"][-1] == pytest.approx((up + down) / 2, rel=1e-13)
    assert result["b.y"][-1] == pytest.approx((up - down) / 2, rel=1e-13)
    result = simulate(system, n * h, h, progress=False)
    assert "'a', 'b': these FMUs form a loop" in one_warning(caplog)
    a, b = 1.0, 0.0
    for _ in range(n):  # b steps with the new output of a
        a += h * b
        b += h * a
    assert result["a.y"][-1] == pytest.approx(a, rel=1e-13)
    assert result["b.y"][-1] == pytest.approx(b, rel=1e-13)


def test_fmus_of_a_loop_with_undeclared_dependencies_step_in_the_order_of_connections(
    tmp_path, caplog
):
    file = any_fmu(tmp_path, INTEGRATOR, 2)
    system = circle(file, "cadb", kind="co-simulation")  # c -> a -> d -> b -> c
    assert system.wiring().stepping_order == ("a", "d", "b", "c")
    simulate(system, 0.1, 0.01, progress=False)
    assert "'a', 'd', 'b', 'c'" in one_warning(caplog)


@dataclass(frozen=True)
class Spring(Block):
    """F = -50 x."""

    inputs = (Port("x"),)
    outputs = (Port("F"),)

    def output(self, u):
        return {"F": -50.0 * u.x}


@pytest.mark.slow
@pytest.mark.parametrize("names", [("k", "m"), ("m", "k")])
def test_block_steps_after_an_fmu_with_undeclared_dependencies_in_a_loop(names, tmp_path, caplog):
    spring, mass = names
    system = System()
    system.add(spring, Spring())
    system.add(mass, any_fmu(tmp_path, INTEGRATOR, 2), kind="co-simulation", start={"y": 1.0})
    system.connect(f"{mass}.y", f"{spring}.x")
    system.connect(f"{spring}.F", f"{mass}.u")
    result = simulate(system, 0.2, 0.01, progress=False)
    one_warning(caplog)
    assert result[f"{spring}.F"] == pytest.approx(-50.0 * result[f"{mass}.y"], abs=1e-12)
    assert result[f"{mass}.y"] == pytest.approx(0.5 ** np.arange(21.0), rel=1e-12)


def test_undeclared_dependencies_outside_loops_determine_the_stepping_order(tmp_path, caplog):
    system = System()
    system.add("a", any_fmu(tmp_path, law("a", "2 * u", 0.0, False), 2))
    system.add("b", any_fmu(tmp_path, INTEGRATOR, 2), kind="co-simulation", start={"u": 1.0})
    system.connect("b.y", "a.u")
    assert system.wiring().stepping_order == ("b", "a")
    simulate(system, 0.1, 0.01, progress=False)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("order", ["gauss-seidel", "jacobi"])
def test_algebraic_loop_of_declared_dependencies_is_rejected(order, tmp_path):
    laws = (law("a", "u / 2", 0.0), law("b", "u", 0.0), law("c", "u", 0.0, declared=False))
    system = loop(tmp_path, 2, "co-simulation", *laws[:2])
    system.add("c", any_fmu(tmp_path, laws[2], 2))
    system.connect("a.y", "c.u")
    with pytest.raises(ValueError, match="algebraic loop; each port reads the previous one"):
        simulate(system, 0.1, 0.1, order=order, progress=False)


@pytest.mark.slow
def test_output_missing_in_the_model_structure_depends_on_every_input(tmp_path):
    file = any_fmu(tmp_path, law("a", "2 * u", 1.0, False), 2)
    text = 'index="2"/>'
    path = _edited(file, tmp_path / "silent.fmu", f"<Outputs><Unknown {text}</Outputs>", "")
    system = System()
    system.add("a", path)
    system.add("b", any_fmu(tmp_path, law("b", "u + 1", 3.0), 2))
    system.connect("b.y", "a.u")
    assert system.wiring().stepping_order == ("b", "a")
    assert (simulate(system, 0.1, 0.1, progress=False)["a.y"] == 8.0).all()


def _edited(file: Path, path: Path, old: str, new: str) -> Path:
    """Copy an FMU with a replaced part of its model description."""
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(path, "w") as written:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "modelDescription.xml":
                assert old.encode() in content
                content = content.replace(old.encode(), new.encode())
            written.writestr(name, content)
    return path


# blocks with a connection to themselves


@dataclass(frozen=True)
class Chain(Block):
    """y = u + 1, z = 2 v; w counts samples if the block has a sample time."""

    dt: float | None = None
    inputs = (Port("u", start=4.0), Port("v", start=0.0))
    outputs = (Port("y"), Port("z"))

    @property
    def sample_time(self):
        return self.dt

    @property
    def sampled(self):
        return (Port("w", start=0.0),) if self.dt else ()

    def update(self, x):
        return {"w": x.w + 1.0} if self.dt else {}

    def output(self, u):
        return {"y": u.u + 1.0, "z": 2.0 * u.v}


@pytest.mark.slow
@pytest.mark.parametrize("dt", [None, 0.1])
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused", "traced"])
def test_output_connected_to_an_input_of_its_own_block_is_initialized_before_this_input(form, dt):
    system = System()
    system.add("c", Chain(dt))
    system.connect("c.y", "c.v")
    result = simulate(system, 0.2, 0.1, form=form, progress=False)
    assert (result["c.y"] == 5.0).all()
    assert (result["c.z"] == 10.0).all()


@pytest.mark.slow
def test_initialization_error_identifies_the_block_with_a_nonfinite_output(tmp_path):
    @dataclass(frozen=True)
    class Inverse(Block):
        inputs = (Port("u"),)
        outputs = (Port("y"),)

        def output(self, u):
            return {"y": 1.0 / u.u}

    system = System()
    system.add("zero", any_fmu(tmp_path, law("zero", "0 * u", 1.0), 2))
    system.add("inverse", Inverse())
    system.connect("zero.y", "inverse.u")
    with pytest.raises(SimulationError, match="'inverse': Inverse is not finite"):
        simulate(system, 0.1, 0.1, progress=False)


@dataclass(frozen=True)
class Held(Block):
    """z = 1 + u / 2 at initialization, then constant."""

    sample_time = 0.1
    inputs = (Port("u", start=0.0),)
    outputs = sampled = (Port("z", start=0.0),)

    def initial(self, u):
        return {"z": 1.0 + 0.5 * u.u}

    def update(self, x):
        return {"z": x.z}


@dataclass(frozen=True)
class Shifted(Block):
    """y = x + u with a constant state x = 1."""

    inputs = (Port("u", start=0.0),)
    states = (Port("x", start=1.0),)
    outputs = (Port("y"),)

    def derivative(self):
        return {"x": 0.0}

    def output(self, x, u):
        return {"y": x.x + u.u}


def loop_at_the_start() -> System:
    system = System()
    system.add("h", Held())
    system.add("s", Shifted())
    system.connect("h.z", "s.u")
    system.connect("s.y", "h.u")
    return system


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy"])
def test_algebraic_loop_that_exists_only_at_initialization_is_solved(form):
    result = simulate(loop_at_the_start(), 0.2, 0.1, form=form, progress=False)
    np.testing.assert_allclose(result["h.z"], 3.0, rtol=1e-12)
    np.testing.assert_allclose(result["s.y"], 4.0, rtol=1e-12)


def test_errors_of_fused_runs_and_exports_list_the_signals_of_an_initialization_loop(tmp_path):
    system = loop_at_the_start()
    names = "algebraic loop at the start through h.z, s.y"
    with pytest.raises(ValueError, match=names):
        simulate(system, 0.2, 0.1, form="fused", progress=False)
    with pytest.raises(ValueError, match=names):
        export_fmu(system, tmp_path / "system.fmu", dt=0.1)


@pytest.mark.parametrize("form", ["compiled", "numpy", "fused"])
def test_error_for_an_initialization_loop_of_sampled_blocks_lists_its_signals(form):
    system = System()
    for name in "ab":
        system.add(name, Held())
    system.connect("a.z", "b.u")
    system.connect("b.z", "a.u")
    with pytest.raises(ValueError, match=r"algebraic loop at the start through a\.z, b\.z"):
        simulate(system, 0.2, 0.1, form=form, progress=False)


@dataclass(frozen=True)
class SecondDelay(Block):
    """y(k) = u(k - 1), by two sampled states."""

    sample_time = 0.1
    inputs = (Port("u", start=0.0),)
    sampled = (Port("recent", start=0.0), Port("late", start=0.0))
    outputs = (Port("y"),)

    def update(self, x, u):
        return {"recent": u.u, "late": x.recent}

    def output(self, x):
        return {"y": x.late}


@dataclass(frozen=True)
class Doubled(Block):
    """v = 2 x with a constant state x = 1; the rate reads u."""

    inputs = (Port("u", start=0.0),)
    states = (Port("x", start=1.0),)
    outputs = (Port("v"),)

    def derivative(self, u):
        return {"x": 0.0 * u.u}

    def output(self, x):
        return {"v": 2.0 * x.x}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy", "fused", "traced"])
def test_hidden_sampled_states_are_initialized_with_the_initial_inputs(form):
    system = System()
    system.add("a", SecondDelay())
    system.add("b", Doubled())
    system.connect("a.y", "b.u")
    system.connect("b.v", "a.u")
    result = simulate(system, 0.3, 0.1, form=form, progress=False)
    np.testing.assert_array_equal(result["a.y"], [0.0, 2.0, 2.0, 2.0])


def large_arrays(folder: Path, n: int, declared: bool) -> System:
    """Return two FMUs with arrays of n elements and constant outputs 1, connected in a circle."""
    model = AnyModel(
        "large",
        [Variable("u", U, "input", shape=(n,)), Variable("y", Y, "output", shape=(n,))],
        motion=f"for (int k = 0; k < {n}; k++) m->v[2][k] = 1;",
        dependencies={Y: [U]} if declared else {},
    )
    system = System()
    for name in "ab":
        system.add(name, any_fmu(folder, model, 3), kind="co-simulation")
    system.connect("a.y", "b.u")
    system.connect("b.y", "a.u")
    return system


@pytest.mark.slow
@pytest.mark.parametrize("declared", [False, True])
def test_memory_use_for_dependencies_of_arrays_grows_linearly_with_the_array_size(
    declared, tmp_path
):
    n = 5000
    wiring = large_arrays(tmp_path, n, declared).wiring()
    assert sum(len(some) for some in wiring.element_reads().values()) < 10 * n
    (group,) = wiring.initialization
    assert sum(len(one.outputs) for one in group.evaluations) == 2 * n
    if declared:
        with pytest.raises(ValueError, match="algebraic loop") as refused:
            _ = wiring.stepping_order
        *ports, again = str(refused.value).rsplit(": ")[-1].split(" -> ")
        assert again == ports[0]
        assert sorted(ports) == ["a.u", "a.y", "b.u", "b.y"]
    else:
        assert wiring.stepping_order == ("a", "b")


@pytest.mark.slow
def test_large_arrays_in_a_loop_of_undeclared_dependencies_are_initialized(tmp_path, caplog):
    result = simulate(large_arrays(tmp_path, 2000, False), 0.1, 0.1, progress=False)
    assert "form a loop" in one_warning(caplog)
    assert (result["a.y"] == 1.0).all()
    assert (result["b.y"] == 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("is_ring", [False, True])
def test_stepping_and_initialization_orders_of_2000_parts_take_at_most_five_seconds(is_ring):
    n = 2000
    parts, connections = {}, []
    for k in range(n):
        block = Doubled() if is_ring and k == 0 else Gain(1.0)
        pairs = frozenset() if isinstance(block, Doubled) else frozenset({("u", "y")})
        parts[f"p{k}"] = Part(f"p{k}", block, pairs)
    for k in range(n if is_ring else n - 1):
        (y,), (u,) = parts[f"p{k}"].component.outputs, parts[f"p{(k + 1) % n}"].component.inputs
        ends = (f"p{k}", y.name), (f"p{(k + 1) % n}", u.name)
        connections.append(Connection(*ends, (0,), (0,), (".".join(ends[0]), ".".join(ends[1]))))
    wiring = Wiring(parts, tuple(connections))
    start = process_time()
    order = wiring.stepping_order
    evaluations = wiring.initialization_order
    assert process_time() - start < 5.0  # [s]
    assert evaluations == tuple(f"p{k}" for k in range(n))
    assert [name for name in order if name != "p0"] == list(evaluations[1:])
