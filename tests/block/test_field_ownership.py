"""Blocks own their fields: they copy arrays, make them read-only, and accept only real numbers."""

from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import pytest

from library_blocks import BLOCKS
from rigidblocks import Block, Port, System, World, simulate, sphere_inertia
from rigidblocks.common.arrays import is_frozen
from rigidblocks.library.controllers import PDController
from rigidblocks.library.sensors import Noise
from rigidblocks.library.signals import (
    Constant,
    Gain,
    Sum,
    TransportDelay,
    UnitDelay,
    ZeroOrderHold,
)
from rigidblocks.library.sources import Step
from rigidblocks.robot.shapes import Plane, Sphere


def arrays_in(value, path=""):
    """Yield all arrays in the fields of a value, with the field names."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from arrays_in(one, path)
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()), path)
    elif is_dataclass(value):
        for one in fields(value):
            yield from arrays_in(getattr(value, one.name), f"{path}.{one.name}")


@pytest.mark.parametrize("name", BLOCKS)
def test_arrays_of_a_block_are_read_only(name):
    block = BLOCKS[name][0]
    assert [path for path, array in arrays_in(block) if not is_frozen(array)] == []


@pytest.mark.parametrize("name", BLOCKS)
def test_changing_an_argument_array_does_not_change_the_block(name):
    block = BLOCKS[name][0]
    given = {
        one.name: np.array(value)
        for one in fields(block) if is_dataclass(block)
        if one.init and isinstance(value := getattr(block, one.name), np.ndarray)
    }  # fmt: skip
    made = replace(block, **given) if given else block
    before = {field: np.array(getattr(made, field)) for field in given}
    for array in given.values():
        array += 1.0
    for field, value in before.items():
        np.testing.assert_array_equal(getattr(made, field), value)


@dataclass(frozen=True)
class OfAList(Block):
    """A user's block that takes a list of lists as argument."""

    values: object
    outputs = (Port("y"),)

    def output(self):
        return {"y": self.values[0][1]}


def test_list_arguments_of_a_block_are_copied_to_tuples():
    given = [[1.0, 2.0]]
    block = OfAList(given)
    given[0][1] = 9.0
    assert block.values == ((1.0, 2.0),)


@pytest.mark.slow
def test_changing_a_gain_array_does_not_change_the_run():
    kp = np.array([100.0])
    block = PDController(kp, [1.0])
    kp[:] = 1000.0
    system = System()
    system.add("pd", block, start={"q": 0.0, "qd": 0.0, "qd_ref": 0.0})
    system.add("error", Constant([1.0], unit="rad"))
    system.connect("error.y", "pd.q_ref")
    tau = simulate(system, 0.02, 0.01, progress=False)["pd.tau"]
    assert np.allclose(tau[1:], 100.0)


@pytest.mark.parametrize(
    "make", [ZeroOrderHold, UnitDelay, Noise, lambda T: TransportDelay(1.0, T)]
)
@pytest.mark.parametrize("number", [np.float64, np.float32, np.array, lambda T: np.ma.array(T)])
def test_numpy_scalars_are_valid_sample_times(make, number):
    assert make(number(0.5)).sample_time == 0.5
    assert type(make(number(0.5)).sample_time) is float


@pytest.mark.parametrize("number", [np.float64, np.float32, np.array])
def test_rigid_contact_code_is_valid_c_for_numpy_scalar_arguments(number):
    world = World("w")
    world.add_body("ball", sphere_inertia(0.1, mass=1.0), [Sphere(0.1)], at=(0, 0, 1))
    world.add_ground(Plane())
    plant = world.plant(sample_time=number(0.5), max_contacts=np.int64(4), max_sweeps=np.int64(50))
    assert "np." not in plant.tables
    assert "RB_SCENE_STEP = 0.5;" in plant.tables


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (["1000"], "strings"),
        ("7", "strings"),
        (np.array(["5"]), "strings"),
        (np.array(["5"], dtype=object), "strings"),
        ([True], "booleans"),
        (np.array([True]), "booleans"),
        ([1.0, np.True_], "booleans"),
        (np.array([1 + 2j]), "complex numbers"),
        (1 + 0j, "complex numbers"),
        (np.array(["2020-01-01"], dtype="datetime64[s]"), "dates"),
    ],
)
def test_block_argument_that_is_not_a_real_number_is_rejected(value, kind):
    error = ValueError if kind == "strings" else TypeError
    with pytest.raises(error, match=kind):
        Gain(value)
    with pytest.raises(error, match=kind):
        Port("k", np.shape(value), start=value)
    system = System()
    with pytest.raises(error, match=kind):
        system.add("gain", Gain(np.ones(np.shape(value))), start={"k": value})


def test_masked_elements_of_array_arguments_are_rejected():
    value = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ValueError, match="masked"):
        Gain(value)
    with pytest.raises(ValueError, match="masked"):
        Port("k", (2,), start=value)
    assert Gain(np.ma.array([1.0, 2.0])).k.tolist() == [1.0, 2.0]


def sum_of(disturbance, *between):
    """Return a system that adds a torque of 1 N.m and a disturbance to a torque."""
    system = System()
    system.add("torque", Constant([1.0], unit="N.m"))
    system.add("disturbance", disturbance)
    system.add("sum", Sum(shape=1))
    system.add("joint", Gain([1.0], unit_in="N.m", unit="N.m"))
    last = "disturbance"
    for k, block in enumerate(between):
        system.add(f"between{k}", block)
        system.connect(f"{last}.y", f"between{k}.u")
        last = f"between{k}"
    system.connect(f"{last}.y", "sum.u1")
    system.connect("torque.y", "sum.u2")
    system.connect("sum.y", "joint.u")
    return system


@pytest.mark.parametrize("between", [(), (ZeroOrderHold(0.01, 1), UnitDelay(0.01, 1))])
@pytest.mark.parametrize("unit", ["rad", "N"])
def test_sum_block_without_a_unit_rejects_inputs_of_different_units(between, unit):
    disturbance = Constant([5.0], unit=unit) if unit == "N" else Step(0.0, 0.0, [5.0])
    with pytest.raises(ValueError, match=r"one unit .* unit='"):
        simulate(sum_of(disturbance, *between), 0.02, 0.01, progress=False)


@pytest.mark.slow
def test_sum_block_without_a_unit_adds_inputs_of_equal_units():
    for unit in ("N.m", ""):
        system = sum_of(Step(0.0, 0.0, [5.0], unit=unit))
        assert simulate(system, 0.02, 0.01, progress=False)["joint.y"][-1] == 6.0
