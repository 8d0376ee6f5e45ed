"""What only FMUs of FMI 3.0 have: ports as arrays, dependencies of elements, rates as variables.
What FMI 2.0 has too is tested in test_co_simulation.
"""

import ctypes
import shutil
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from fmpy.fmi3 import FMU3Slave
from numpy.testing import assert_allclose, assert_array_equal

from fmu_blocks import BLOCKS
from fmu_instance import Instance, is_in_memory
from illegal_calls import dependency_arrays
from rigidblocks.block.adaptive import ADAPTIVE, memory_for
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.fmi.native import fmu_sources
from rigidblocks.fmi.variables import Variables
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.tracing.compiler import PORTABLE_FLAGS, shared_library

SAME = 1e-12  # a short run differs from NumPy's by the rounding of reordered operations

PLANAR2 = Memory(BLOCKS["planar2"])


@pytest.fixture
def host(archive):
    """Instances of the FMU of a block by name, freed at the end."""
    made = []

    def instance(name):
        made.append(Instance(archive, name, FMU3Slave))
        return made[-1]

    yield instance
    for one in made:
        one.fmu.freeInstance()


@pytest.mark.parametrize("name", BLOCKS)
def test_each_port_is_one_variable_of_its_shape_with_its_start_and_unit(host, name):
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


def test_the_model_structure_names_what_the_traced_equations_read(host):
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
    """The pairs of elements, by index in the memory, that an FMU tells for a variable."""
    size = ctypes.c_size_t()
    fmu.fmi3GetNumberOfVariableDependencies(fmu.component, reference, ctypes.byref(size))
    arrays = dependency_arrays(size.value)
    fmu.fmi3GetVariableDependencies(fmu.component, reference, *arrays, size.value)
    elements, variables, of, kinds = map(list, arrays)
    assert set(kinds) <= {5}  # dependent, in no way that is known
    return {(reference + i - 1, v + k - 1) for i, v, k in zip(elements, variables, of, strict=True)}


def described(unknowns):
    """The pairs of value references (unknown, known) in a part of the model structure."""
    return {(u.variable.valueReference, v.valueReference) for u in unknowns for v in u.dependencies}


@pytest.mark.parametrize("name", ["planar2", "servo", "sampled pd", "free bodies"])
def test_the_dependencies_of_elements_are_those_of_their_variables_in_the_description(host, name):
    instance, variables = host(name), Variables(TracedEvaluator(Memory(BLOCKS[name])))
    structure = instance.description
    starts = sorted(v.valueReference for v in structure.modelVariables)

    def owner(k):
        return max(start for start in starts if start <= k)

    def of_variables(pairs):
        return {(owner(a), owner(b)) for a, b in pairs}

    instance.enter_initialization()
    told = set().union(
        *(dependencies(instance.fmu, u.variable.valueReference) for u in structure.initialUnknowns)
    )
    assert of_variables(told) == described(structure.initialUnknowns)
    instance.fmu.exitInitializationMode()
    unknowns = (*structure.outputs, *structure.derivatives)
    told = set().union(*(dependencies(instance.fmu, u.variable.valueReference) for u in unknowns))
    assert of_variables(told) == described(unknowns)
    assert told == {
        (u.index, v.index)
        for u in (*variables.outputs, *variables.rates)
        for v in variables.flow(u)
    }


def test_an_element_that_is_no_dependency_has_no_effect(host):
    instance = host("servo")
    servo = Memory(BLOCKS["servo"])
    instance.initialize()
    force, load = servo.where["force"].start, servo.where["load"].start
    assert {
        (a - force, b - load) for a, b in dependencies(instance.fmu, force) if b in (load, load + 1)
    } == {(0, 0), (1, 1)}
    assert instance.fmu.getDirectionalDerivative([force], [load], [1.0, 0.0], 2) == [1.0, 0.0]


def test_the_rates_can_be_read_in_a_run(host):
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


# ---- the C ----

ZIG = (sys.executable, "-m", "ziglang", "cc")
STRICT = (*PORTABLE_FLAGS, "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def sources_of(name):
    return fmu_sources(Variables(TracedEvaluator(Memory(BLOCKS[name]))), "model", RK4, 1e-3, 3)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planar2", "free bodies", "sampled pd", "sequence"])
@pytest.mark.parametrize("command", [("gcc",), ZIG], ids=["gcc", "ziglang"])
def test_the_sources_are_strict_c99_without_a_warning(command, name):
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]} on the PATH")
    shared_library(sources_of(name), "fmi3.c", STRICT, command)


@pytest.mark.slow
def test_the_library_shows_every_function_of_fmi_and_nothing_else():
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
def test_the_inner_step_is_told_where_it_is_fixed(name, method, step):
    variables = Variables(TracedEvaluator(memory_for(BLOCKS[name], method)))
    description, _ = fmu_sources(variables, "one", method, 5e-4, fmi=3)
    found = ElementTree.fromstring(description).find("CoSimulation")
    assert found.get("fixedInternalStepSize") == step
