"""FMUs enforce the declared bounds of their variables.

An FMU rejects a value outside the bounds, reports the bound and sets no value.
"""

from xml.etree import ElementTree

import pytest
from fmpy.fmi2 import FMU2Model, FMU2Slave
from fmpy.fmi3 import FMU3Model, FMU3Slave

from fmu_blocks import BLOCKS, Bounded
from fmu_instance import ERROR, Instance, refused
from model_exchange_host import FixedStepHost
from rigidblocks import System
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.fmi.slave import BlockSlave

MEMORY = Memory(BLOCKS["bounded"])
BEYOND = {  # variable, values and message
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
def test_fmu_rejects_a_start_value_outside_its_bounds_and_reports_the_bound(archive, kind, case):
    name, values, message = BEYOND[case]
    fmu = Instance(archive, "bounded", kind)
    refused(fmu, ERROR, message, lambda _: fmu.set(MEMORY.where[name], values))
    fmu.enter_initialization()
    refused(fmu, ERROR, message, lambda _: fmu.set(MEMORY.where[name], values))
    fmu.fmu.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_sets_no_value_if_one_value_of_the_call_is_outside_its_bounds(archive, fmi):
    fmu = Instance(archive, "bounded", FMU2Slave if fmi == 2 else FMU3Slave)
    fmu.initialize()
    message = "emissivity must be at least 0, not -0.5"
    refused(fmu, ERROR, message, lambda _: fmu.set(MEMORY.p, (2.0, 3.0, -0.5)))
    fmu.set(MEMORY.p, (2.0, 3.0, 0.5))
    assert fmu.m[MEMORY.p].tolist() == [2.0, 3.0, 0.5]
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_enforces_bounds_of_parameters_but_not_of_inputs_during_a_run(archive, fmi):
    fmu = Instance(archive, "bounded", FMU2Slave if fmi == 2 else FMU3Slave)
    fmu.initialize()
    for case in ("parameter below", "parameter above", "parameter that is zero"):
        name, values, message = BEYOND[case]
        refused(fmu, ERROR, message, lambda _, n=name, v=values: fmu.set(MEMORY.where[n], v))
    fmu.set(MEMORY.u, -1e-16)  # rounding of the source
    fmu.advance(0.0, 1e-3)
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_fmu_accepts_values_equal_to_their_bounds(archive, fmi):
    fmu = Instance(archive, "bounded", FMU2Slave if fmi == 2 else FMU3Slave)
    fmu.set(MEMORY.where["T"], (0.0, 1000.0))
    fmu.set(MEMORY.where["emissivity"], 1.0)
    fmu.initialize()
    assert fmu.m[MEMORY.x].tolist() == [0.0, 1000.0]
    fmu.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_importer_may_set_continuous_states_outside_their_bounds(archive, fmi):
    host = FixedStepHost(archive, "bounded", fmi)
    host.initialize()
    assert host.rates(0.0, [-1.0, 1001.0]).tolist() == [0.45 * 301.0, -0.45 * 701.0]
    host.fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_positive_parameter_has_a_positive_minimum_in_the_model_description(archive, fmi):
    description = ElementTree.parse(archive("bounded", fmi)[1] / "modelDescription.xml")
    name = {2: ".//ScalarVariable[@name='k[1]']/Real", 3: ".//Float64[@name='k']"}[fmi]
    bound = float(description.find(name).get("min"))
    assert 0.0 < bound < 1e-300


# ---- Python FMU and systems ----


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
def test_python_fmu_rejects_a_start_value_outside_its_bounds(slave, case):
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


def test_python_fmu_rejects_a_parameter_outside_its_bounds_during_a_run(slave):
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
def test_system_rejects_a_start_value_outside_the_bounds_of_a_part(case, tmp_path):
    name, values, message = BEYOND[case]
    bound = message.partition("must be ")[2].partition(",")[0]
    value = values if len(values) > 1 else values[0]
    fmu = native_fmu(Bounded(), tmp_path / "bounded.fmu")
    for component in (Bounded(), fmu):
        with pytest.raises(ValueError, match=f"it must be {bound}"):
            System().add("cup", component, start={name: value})
