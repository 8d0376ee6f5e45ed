"""Features that only FMI 3.0 has: array ports, element dependencies, derivatives as variables.

Tests of the features that FMI 2.0 has too are in test_co_simulation.
"""

import ctypes
import shutil
import sys
from xml.etree import ElementTree

import fmpy
import numpy as np
import pytest
from fmpy import read_model_description, simulate_fmu
from fmpy.fmi2 import FMU2Model
from fmpy.fmi3 import FMU3Model, FMU3Slave
from fmpy.validation import validate_fmu
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import Instance, is_in_memory
from illegal_calls import dependency_arrays
from rigidblocks.block.adaptive_methods import ADAPTIVE, memory_for
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import PORTABLE_FLAGS, shared_library
from rigidblocks.fmi.native_fmu import fmu_sources, native_fmu
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.traced_evaluator import TracedEvaluator

SAME = 1e-12  # rounding of reordered operations in a short run

PLANAR2 = Memory(BLOCKS["planar2"])


@pytest.fixture
def host(archive):
    """Return a function that instantiates the FMU of a block; the fixture frees the instances."""
    made = []

    def instance(name):
        made.append(Instance(archive, name, FMU3Slave))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_fmi_3_variable_of_a_port_has_the_shape_start_value_and_unit_of_the_port(host, name):
    flat, described = Memory(BLOCKS[name]), host(name).description.modelVariables
    variables = {v.name: v for v in described if is_in_memory(v) and v.name != "time"}
    ports = {port.name: port for port in flat.ports if port.size}
    assert list(variables) == list(ports)
    for port, variable in zip(ports.values(), variables.values(), strict=True):
        assert tuple(int(d.start) for d in variable.dimensions) == port.shape
        assert variable.valueReference == flat.where[port.name].start
        assert variable.unit == (port.units[0] if len(set(port.units)) == 1 else None)
        if variable.start is not None:
            start = np.array(
                variable.start.split() if isinstance(variable.start, str) else variable.start,
                dtype=float,
            )
            assert_array_equal(np.ravel(start), flat.start()[flat.where[port.name]])


def test_model_structure_lists_the_traced_dependencies(host):
    description = host("planar2").description
    outputs = {u.variable.name: {v.name for v in u.dependencies} for u in description.outputs}
    assert outputs == {"q": {"q"}, "qd": {"qd"}, "qdd": {"q", "qd", "tau"}, "energy": {"q", "qd"}}
    rates = {u.variable.name: {v.name for v in u.dependencies} for u in description.derivatives}
    assert rates == {"der(q)": {"qd"}, "der(qd)": {"q", "qd", "tau"}}
    initial = {
        u.variable.name: {v.name for v in u.dependencies} for u in description.initialUnknowns
    }
    assert initial["qdd"] == {"q", "qd", "tau", "gravity"}
    assert set(initial) == {"qdd", "energy", "der(q)", "der(qd)"}


def dependencies(fmu, reference):
    """Return the pairs (unknown, known) of elements of a variable that depend on each other."""
    size = ctypes.c_size_t()
    fmu.fmi3GetNumberOfVariableDependencies(fmu.component, reference, ctypes.byref(size))
    arrays = dependency_arrays(size.value)
    fmu.fmi3GetVariableDependencies(fmu.component, reference, *arrays, size.value)
    elements, variables, of, kinds = map(list, arrays)
    assert set(kinds) <= {5}  # dependent, of unspecified kind
    return {(reference + i - 1, v + k - 1) for i, v, k in zip(elements, variables, of, strict=True)}


def described(unknowns):
    """Return the pairs of value references (unknown, known) in a list of the model structure."""
    return {(u.variable.valueReference, v.valueReference) for u in unknowns for v in u.dependencies}


@pytest.mark.parametrize("name", ["planar2", "servo", "sampled pd", "free bodies"])
def test_dependencies_of_array_elements_agree_with_the_model_structure(host, name):
    instance, variables = host(name), Variables(TracedEvaluator(Memory(BLOCKS[name])))
    structure = instance.description
    starts = sorted(v.valueReference for v in structure.modelVariables)

    def owner(k):
        return max(start for start in starts if start <= k)

    def of_variables(pairs):
        return {(owner(a), owner(b)) for a, b in pairs}

    instance.enter_initialization()
    reported = set().union(
        *(dependencies(instance.fmu, u.variable.valueReference) for u in structure.initialUnknowns)
    )
    assert of_variables(reported) == described(structure.initialUnknowns)
    instance.fmu.exitInitializationMode()
    unknowns = (*structure.outputs, *structure.derivatives)
    reported = set().union(
        *(dependencies(instance.fmu, u.variable.valueReference) for u in unknowns)
    )
    assert of_variables(reported) == described(unknowns)
    assert reported == {
        (u.index, v.index)
        for u in (*variables.outputs, *variables.rates)
        for v in variables.dependencies(u)
    }


def test_element_of_a_servo_force_depends_only_on_the_load_element_of_the_same_index(host):
    instance = host("servo")
    servo = Memory(BLOCKS["servo"])
    instance.initialize()
    force, load = servo.where["force"].start, servo.where["load"].start
    assert {
        (a - force, b - load) for a, b in dependencies(instance.fmu, force) if b in (load, load + 1)
    } == {(0, 0), (1, 1)}
    assert instance.fmu.getDirectionalDerivative([force], [load], [1.0, 0.0], 2) == [1.0, 0.0]


def test_fmi3_state_derivatives_are_readable_in_co_simulation(host):
    instance = host("planar2")
    instance.initialize()
    instance.set(PLANAR2.u, (3.0, -1.0))
    m = instance.m
    rates = [
        v.valueReference for v in instance.description.modelVariables if v.derivative is not None
    ]
    assert_allclose(
        instance.fmu.getFloat64(rates, 4), NumpyEvaluator(PLANAR2).derivative(m), rtol=SAME
    )


# ---- C sources ----

ZIG = (sys.executable, "-m", "ziglang", "cc")
STRICT = (*PORTABLE_FLAGS, "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def sources_of(name):
    return fmu_sources(Variables(TracedEvaluator(Memory(BLOCKS[name]))), "model", RK4, 1e-3, 3)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planar2", "free bodies", "sampled pd", "sequence"])
@pytest.mark.parametrize("command", [("gcc",), ZIG], ids=["gcc", "ziglang"])
def test_fmi3_sources_compile_as_strict_c99_without_warnings(command, name):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not on the PATH")
    shared_library(sources_of(name), "fmi3.c", STRICT, command)


@pytest.mark.slow
def test_shared_library_of_an_fmu_exports_only_the_fmi3_functions():
    library = ctypes.CDLL(str(shared_library(sources_of("sampled pd"), "fmi3.c")))
    kinds = [kind for kind in vars(sys.modules["fmpy.fmi3"]).values() if isinstance(kind, type)]
    names = {
        name
        for kind in kinds
        for name in dir(kind)
        if name.startswith("fmi3") and callable(getattr(kind, name))
    }
    assert len(names) > 70
    for name in names:
        assert hasattr(library, name)
    for name in ("step", "initialize", "derivative", "integrate", "report", "get", "set"):
        assert not hasattr(library, name)


@pytest.mark.parametrize(
    ("name", "method", "step"),
    [("planar2", RK4, "0.0005"), ("planar2", ADAPTIVE, None), ("pd", RK4, None)],
)
def test_fmi_3_model_description_declares_the_fixed_internal_step(name, method, step):
    variables = Variables(TracedEvaluator(memory_for(BLOCKS[name], method)))
    description, _ = fmu_sources(variables, "one", method, 5e-4, fmi=3)
    found = ElementTree.fromstring(description).find("CoSimulation")
    assert found.get("fixedInternalStepSize") == step


# scalar variables


@pytest.fixture(scope="module")
def scalars(tmp_path_factory):
    """Return a native FMU of a block with scalar variables only, by the block's name."""
    folder = tmp_path_factory.mktemp("scalars")

    def made(name):
        path = folder / f"{name}.fmu"
        if not path.exists():
            native_fmu(BLOCKS[name], path, method=RK4, fmi=3, name="scalars", arrays=False)
        return path

    return made


@pytest.mark.parametrize(
    "name", ["planar2", *(pytest.param(one, marks=pytest.mark.slow) for one in BLOCKS)]
)
def test_fmi3_fmu_with_scalar_variables_has_the_variables_of_the_fmi_2_fmu(scalars, name):
    path = scalars(name)
    assert validate_fmu(str(path)) == []
    described = read_model_description(str(path)).modelVariables
    assert not any(variable.dimensions for variable in described)
    variables = Variables(TracedEvaluator(Memory(BLOCKS[name])))
    names = {v.name: v.valueReference for v in described}
    wanted = {v.name: v.index for v in (*variables.all, *variables.rates)}
    assert {one: names.get(one) for one in wanted} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_fmi3_fmu_with_scalar_variables_has_the_model_structure_of_the_fmi_2_fmu(
    scalars, archive, name
):
    of_2, of_3 = map(read_model_description, (str(archive(name, 2)[0]), str(scalars(name))))
    for part in ("outputs", "derivatives", "initialUnknowns"):
        declared = [
            [
                (u.variable.name, [v.name for v in u.dependencies], u.dependenciesKind)
                for u in getattr(description, part)
            ]
            for description in (of_2, of_3)
        ]
        assert declared[0] == declared[1], part


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_fmi3_fmu_with_scalar_variables_has_the_derivatives_of_the_fmi_2_fmu(
    scalars, archive, name
):
    """Rates and directional derivatives are equal bit for bit at random states and inputs."""
    paths = archive(name, 2)[0], scalars(name)
    n = Memory(BLOCKS[name]).x.stop - Memory(BLOCKS[name]).x.start
    x, found = np.random.default_rng(1).standard_normal(n), []
    for path, kind in zip(paths, (FMU2Model, FMU3Model), strict=True):
        description = read_model_description(str(path))
        model = kind(
            guid=description.guid,
            unzipDirectory=fmpy.extract(str(path)),
            modelIdentifier=description.modelExchange.modelIdentifier,
            instanceName=name,
        )
        model.instantiate()
        found.append(_derivatives(model, description, x))
        model.freeInstance()
        shutil.rmtree(model.unzipDirectory)
    for of_2, of_3 in zip(*found, strict=True):
        assert_array_equal(of_2, of_3)
    assert np.isfinite(found[0][0]).all()


def _derivatives(model, description, x):
    """Return the rates at the states x, and their directional derivatives along all inputs."""
    is_3 = isinstance(model, FMU3Model)
    if not is_3:
        model.setupExperiment()
    model.enterInitializationMode()
    variables = [v for v in description.modelVariables if v.causality == "input"]
    inputs = [v.valueReference for v in variables if v.variability == "continuous"]
    given = np.cos(np.arange(len(inputs))).tolist()
    if inputs:
        (model.setFloat64 if is_3 else model.setReal)(inputs, given)
    model.exitInitializationMode()
    (model.updateDiscreteStates if is_3 else model.newDiscreteStates)()
    model.enterContinuousTimeMode()
    values, rates = (ctypes.c_double * len(x))(*x), (ctypes.c_double * len(x))()
    model.setContinuousStates(values, len(x))
    (model.getContinuousStateDerivatives if is_3 else model.getDerivatives)(rates, len(x))
    unknowns = [u.variable.valueReference for u in description.derivatives]
    states = [u.variable.derivative.valueReference for u in description.derivatives]
    slopes = []
    for knowns in (states, inputs):
        for k in range(len(knowns)):
            seed = [float(j == k) for j in range(len(knowns))]
            slopes.append(model.getDirectionalDerivative(unknowns, knowns, seed))
    return list(rates), slopes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
def test_fmi3_fmu_with_scalar_variables_has_the_results_of_the_array_fmu(scalars, archive, kind):
    paths = archive("planar2", 3)[0], scalars("planar2")
    with_arrays, without = (
        simulate_fmu(str(path), fmi_type=kind, stop_time=0.1, output_interval=0.01)
        for path in paths
    )
    for i in (1, 2):
        for port in ("q", "qd", "qdd"):
            assert_array_equal(without[f"{port}[{i}]"], with_arrays[port][:, i - 1])
