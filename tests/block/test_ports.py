"""Bounds, nominal values and display units of ports, and their attributes in FMUs."""

import ctypes
import math
from dataclasses import dataclass

import fmpy
import numpy as np
import pytest
from fmpy.validation import validate_fmu
from numpy.testing import assert_array_equal

from fmu_blocks import BLOCKS
from model_exchange_host import FixedStepHost
from rigidblocks import FloatingBasePlant, FusedSystem, PDController, RobotPlant, System
from rigidblocks.block.block import Block, Port, flatten
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import WHOLE
from rigidblocks.block.units import display_unit
from rigidblocks.fmi.native_fmu import native_fmu


@dataclass(frozen=True, eq=False)
class Tank(Block):
    """A tank with a decreasing level and an angle."""

    inputs = (Port("inflow", (), "m/s", "inflow", min=0.5, max=2.0),)
    outputs = (
        Port("fill", (2,), "1", "parts", min=0.25, max=(1.0, 2.0)),
        Port("speed", (), "rad/s", "speed", nominal=3.0),
    )
    states = (
        Port("level", (), "m", "level", 20.0, min=0.0, nominal=100.0),
        Port("angles", (2,), "rad", "angles", 0.5, min=-math.pi, max=math.pi, nominal=(1.0, 0.01)),
    )

    def derivative(self, x, u):
        return {"level": u.inflow - x.level, "angles": -x.angles}

    def output(self, x):
        return {"fill": np.array([x.level, x.level]) / 50.0, "speed": x.angles[0]}


@pytest.fixture(scope="module", params=[2, 3], ids=["fmi2", "fmi3"])
def made(request, tmp_path_factory):
    """Return the FMI version, the FMU of a tank and the folder of its unpacked files."""
    folder = tmp_path_factory.mktemp("tank")
    path = native_fmu(Tank(), folder / "tank.fmu", fmi=request.param)
    return request.param, path, fmpy.extract(str(path), str(folder / "unpacked"))


@pytest.fixture
def description(made):
    return fmpy.read_model_description(str(made[1]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": -1.0, "min": 0.0}, "the start value of a is -1 m; it must be at least 0"),
        ({"start": 3.0, "max": 2.5}, "the start value of a is 3 m; it must be at most 2.5"),
        (
            {"shape": (2,), "start": (0.0, 1.0), "max": (0.5, 0.5)},
            r"the start value of a\[2\] is 1 m; it must be at most 0.5",
        ),
        (
            {"min": 1.0, "max": 0.0},
            "port 'a' needs min <= max and positive nominal values, not min 1.0, max 0.0 and "
            "nominal 1.0",
        ),
        ({"nominal": 0.0}, "port 'a' needs .* positive nominal values, .* nominal 0.0"),
        ({"nominal": math.inf}, "port 'a' needs .* positive nominal values, .* nominal inf"),
        ({"min": math.nan}, "port 'a' needs min <= max .*, not min nan"),
        (
            {"shape": (2,), "min": (0.0, 0.0, 0.0)},
            r"the min of port 'a' has shape \(3,\); it needs shape \(2,\)",
        ),
    ],
)
def test_start_value_outside_the_bounds_of_its_port_is_rejected(given, message):
    with pytest.raises(ValueError, match=message):
        Port("a", unit="m", **given)


def test_port_has_no_bounds_and_the_nominal_value_one_by_default():
    port = Port("a", (2,))
    assert_array_equal([port.min, port.max, port.nominal], [[-np.inf] * 2, [np.inf] * 2, [1.0] * 2])


def test_default_start_value_of_a_port_is_within_its_bounds():
    flat = Memory(Tank())
    assert flat.start()[flat.u] == [0.5]
    assert flat.start()[0] == 0.0


def test_start_value_of_an_output_of_a_fused_system_is_within_its_bounds():
    system = System()
    system.add("tank", Tank(), start={"inflow": 1.0})
    fused = {port.name: port for port in FusedSystem(system, 1e-3).sampled}
    assert_array_equal(fused["tank.fill"].max, [1.0, 2.0])
    assert_array_equal(fused["tank.fill"].start, 0.25)


@pytest.mark.parametrize(
    ("unit", "shown"), [("rad", "deg"), ("rad/s", "deg/s"), ("rad/s2", "deg/s2")]
)
def test_display_unit_of_angles_is_degrees(unit, shown):
    name, factor = display_unit(unit)
    assert name == shown
    assert math.pi * factor == pytest.approx(180, rel=1e-15)


@pytest.mark.parametrize(
    "unit", ["1", "m", "m/s", "N.m", "N.m/rad", "N.m.s/rad", "rad/m", "rad2", "1/rad", "kg.m2/s"]
)
def test_units_without_angle_have_no_display_unit(unit):
    assert display_unit(unit) is None


@pytest.mark.slow
def test_fmu_variable_attributes_match_the_ports(made, description):
    fmi, path, _ = made
    assert validate_fmu(str(path)) == []
    reported = {
        v.name: (v.min, v.max, v.nominal, v.displayUnit) for v in description.modelVariables
    }
    reported = {
        name: tuple(float(a) if a and k < 3 else a for k, a in enumerate(v))
        for name, v in reported.items()
    }
    assert reported["inflow"] == (0.5, 2.0, None, None)
    assert reported["level"] == (0.0, None, 100.0, None)
    assert reported["speed"] == (None, None, 3.0, "deg/s")
    assert reported["der(level)"] == (None, None, None, None)
    if fmi == 2:
        assert [reported["fill[1]"], reported["fill[2]"]] == [
            (0.25, 1.0, None, None),
            (0.25, 2.0, None, None),
        ]
        assert reported["angles[2]"] == (-math.pi, math.pi, 0.01, "deg")
    else:  # FMI 3 has at most one value for a whole array
        assert reported["fill"] == (0.25, None, None, None)
        assert reported["angles"] == (-math.pi, math.pi, None, "deg")


def test_fmu_defines_the_display_units_of_angles(description):
    shown = {
        unit.name: [(d.name, float(d.factor), float(d.offset)) for d in unit.displayUnits]
        for unit in description.unitDefinitions
    }
    assert shown["rad"] == [("deg", 180 / math.pi, 0.0)]
    assert shown["rad/s"] == [("deg/s", 180 / math.pi, 0.0)]
    assert shown["m"] == []


@pytest.mark.slow
def test_fmu_nominal_values_of_states_equal_the_nominal_values_of_their_ports(made):
    fmi, path, folder = made
    host = FixedStepHost(lambda _name, _fmi: (path, folder), "tank", fmi)
    host.initialize()
    nominals = (ctypes.c_double * 3)()
    if fmi == 2:
        host.fmu.fmi2GetNominalsOfContinuousStates(host.fmu.component, nominals, 3)
    else:
        host.fmu.getNominalsOfContinuousStates(nominals, 3)
    assert list(nominals) == [100.0, 1.0, 0.01]
    host.fmu.freeInstance()


def bounds(block):
    """Return the bounds of all ports by name."""
    return {port.name: (port.min, port.max) for port in Memory(block).ports}


def test_quaternion_ports_have_the_bounds_minus_one_and_one():
    free, inf = BLOCKS["free bodies"], np.inf
    low, high = bounds(free)["q"]
    quaternions = [unit == "1" for unit in free.states[0].units]
    assert sum(quaternions) == 8
    assert_array_equal(high, np.where(quaternions, 1.0, inf))
    assert_array_equal(low, -high)
    assert_array_equal(bounds(FloatingBasePlant(free.model))["quaternion"], [[-1.0] * 4, [1.0] * 4])


def test_negative_controller_gain_is_rejected():
    assert_array_equal(bounds(PDController([1.0], [1.0]))["kp"][0], [0.0])
    with pytest.raises(
        ValueError, match=r"the start value of kd\[2\] is -1 N.m.s/rad; it must be at least 0"
    ):
        PDController([1.0, 1.0], [0.0, -1.0])


def test_robot_plant_ports_have_no_bounds_by_default():
    assert all(
        np.all(np.isinf(pair)) for pair in bounds(RobotPlant(BLOCKS["planar2"].model)).values()
    )


def test_flatten_without_ports_returns_an_empty_array():
    assert flatten((), {}, "nothing").shape == (0,)


def test_range_of_an_fmi_integer_type_contains_only_integers_that_a_double_represents_exactly():
    """Doubles represent integers exactly up to 2^53."""
    names = {"Integer": np.int32} | {
        f"{sign}Int{n}": np.dtype(f"{sign}int{n}".lower())
        for sign in ("", "U")
        for n in (8, 16, 32, 64)
    }
    for name, kind in names.items():
        about = np.iinfo(kind)
        assert WHOLE[name] == (max(about.min, -(2**53)), min(about.max, 2**53)), name
