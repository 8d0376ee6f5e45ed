"""What an FMU declares of the bounds of its variables it keeps: a value beyond one is refused with
the bound, and nothing is set.
"""

from xml.etree import ElementTree

import pytest
from fmpy.fmi2 import FMU2Model, FMU2Slave
from fmpy.fmi3 import FMU3Model, FMU3Slave

from fmu_blocks import BLOCKS, Bounded
from fmu_instance import ERROR, Instance, refused
from model_exchange_host import FixedStepHost
from rigidblocks import System
from rigidblocks.block.memory import Memory
from rigidblocks.fmi.native import native_fmu
from rigidblocks.fmi.slave import BlockSlave

MEMORY = Memory(BLOCKS["bounded"])
BEYOND = {  # a variable, its values, and what is said of them
    "parameter below": ("emissivity", (-1.0,), "emissivity must be at least 0, not -1"),
    "parameter above": ("emissivity", (1.5,), "emissivity must be at most 1, not 1.5"),
    "parameter that is zero": ("k", (1.0, 0.0), "k[2] must be positive, not 0"),
    "state below": ("T", (300.0, -1.0), "T[2] must be at least 0, not -1"),
    "state above": ("T", (1001.0, 300.0), "T[1] must be at most 1000, not 1001"),
    "input": ("ambient", (-5.0,), "ambient must be at least 0, not -5"),
}
KINDS = (FMU2Slave, FMU2Model, FMU3Slave, FMU3Model)


@pytest.mark.slow
@pytest.mark.parametrize("case", BEYOND)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_start_value_beyond_its_bounds_is_refused_with_the_bound(archive, kind, case):
    name, values, message = BEYOND[case]
    fmu = Instance(archive, "bounded", kind)
    refused(fmu, ERROR, message, lambda _: fmu.set(MEMORY.where[name], values))
    fmu.enter_initialization()
    refused(fmu, ERROR, message, lambda _: fmu.set(MEMORY.where[name], values))
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_of_several_values_none_is_set_where_one_is_beyond_its_bounds(archive, fmi):
    fmu = Instance(archive, "bounded", FMU2Slave if fmi == 2 else FMU3Slave)
    fmu.initialize()
    message = "emissivity must be at least 0, not -0.5"
    refused(fmu, ERROR, message, lambda _: fmu.set(MEMORY.p, (2.0, 3.0, -0.5)))
    fmu.set(MEMORY.p, (2.0, 3.0, 0.5))
    assert fmu.m[MEMORY.p].tolist() == [2.0, 3.0, 0.5]
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_parameters_keep_their_bounds_during_a_run_and_inputs_are_as_they_come(archive, fmi):
    fmu = Instance(archive, "bounded", FMU2Slave if fmi == 2 else FMU3Slave)
    fmu.initialize()
    for case in ("parameter below", "parameter above", "parameter that is zero"):
        name, values, message = BEYOND[case]
        refused(fmu, ERROR, message, lambda _, n=name, v=values: fmu.set(MEMORY.where[n], v))
    fmu.set(MEMORY.u, -1e-16)  # what drives it has rounding
    fmu.advance(0.0, 1e-3)
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_values_on_their_bounds_are_set(archive, fmi):
    fmu = Instance(archive, "bounded", FMU2Slave if fmi == 2 else FMU3Slave)
    fmu.set(MEMORY.where["T"], (0.0, 1000.0))
    fmu.set(MEMORY.where["emissivity"], 1.0)
    fmu.initialize()
    assert fmu.m[MEMORY.x].tolist() == [0.0, 1000.0]
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_the_solver_of_a_host_may_go_beyond_the_bounds_of_states(archive, fmi):
    host = FixedStepHost(archive, "bounded", fmi)
    host.initialize()
    assert host.rates(0.0, [-1.0, 1001.0]).tolist() == [0.45 * 301.0, -0.45 * 701.0]
    host.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_what_must_be_positive_has_a_bound_in_the_description(archive, fmi):
    description = ElementTree.parse(archive("bounded", fmi)[1] / "modelDescription.xml")
    name = {2: ".//ScalarVariable[@name='k[1]']/Real", 3: ".//Float64[@name='k']"}[fmi]
    bound = float(description.find(name).get("min"))
    assert 0.0 < bound < 1e-300


# ---- the Python FMU, and systems ----


class BoundedSlave(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__(Bounded(), **kwargs)


@pytest.fixture
def slave():
    one = BoundedSlave(instance_name="bounded")
    one.said = []
    one.log = lambda text, *_: one.said.append(text)
    return one


@pytest.mark.parametrize("case", BEYOND)
def test_a_python_fmu_refuses_a_start_value_with_the_bound(slave, case):
    name, values, message = BEYOND[case]
    where = MEMORY.where[name]
    before = slave.get_real([*range(where.start, where.stop)])
    slave.set_real([*range(where.start, where.stop)], list(values))
    assert message in slave.said[-1]
    refused = next(k for k, v in enumerate(values) if f"not {v:g}" in message)
    assert slave.get_real([where.start + refused]) == [before[refused]]
    slave.setup_experiment(0.0)
    slave.exit_initialization_mode()
    assert not slave.do_step(0.0, 1e-3)
    assert message in slave.said[-1]


def test_a_python_fmu_keeps_the_bounds_of_parameters_during_a_run(slave):
    slave.setup_experiment(0.0)
    slave.exit_initialization_mode()
    slave.set_real([MEMORY.u.start], [-1e-16])
    assert slave.do_step(0.0, 1e-3)
    emissivity = MEMORY.where["emissivity"].start
    slave.set_real([emissivity], [-1.0])
    assert "emissivity must be at least 0, not -1" in slave.said[-1]
    assert not slave.do_step(1e-3, 1e-3)
    slave.set_real([emissivity], [0.0])
    assert slave.do_step(1e-3, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", BEYOND)
def test_a_part_of_a_system_is_refused_with_the_bound(case, tmp_path):
    name, values, message = BEYOND[case]
    bound = message.partition("must be ")[2].partition(",")[0]
    value = values if len(values) > 1 else values[0]
    fmu = native_fmu(Bounded(), tmp_path / "bounded.fmu")
    for component in (Bounded(), fmu):
        with pytest.raises(ValueError, match=f"it must be {bound}"):
            System().add("cup", component, start={name: value})
