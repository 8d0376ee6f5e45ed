"""Unit conversion between parts by the unit definitions of the FMU or by pint.

Connections of incompatible units are rejected.
"""

import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foreign_fmu import foreign_fmu
from rigidblocks import Sine, System, prepare, simulate
from rigidblocks.block.units import Conversion, quantity_of

DEFINITIONS = """<UnitDefinitions>
<Unit name="degC"><BaseUnit K="1" offset="273.15"/></Unit>
<Unit name="degF"><BaseUnit K="1" factor="0.5555555555555556" offset="255.3722222222222"/></Unit>
<Unit name="rpm"><BaseUnit s="-1" rad="1" factor="0.10471975511965977"/></Unit>
<Unit name="K"><BaseUnit K="1"/></Unit>
</UnitDefinitions>"""


@pytest.fixture(scope="module")
def fmu_in(tmp_path_factory):
    """Return a function that builds an FMU with equal input and output in a unit."""
    folder = tmp_path_factory.mktemp("units")
    step, unit = "i->r[1] = i->r[0];", 'unit="UNIT"'
    with zipfile.ZipFile(foreign_fmu(folder / "any.fmu", step=step, u=unit, y=unit)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    text = content["modelDescription.xml"].decode()
    text = text.replace("<ModelVariables>", f"{DEFINITIONS}<ModelVariables>")

    def made(unit):
        path = folder / f"{unit}.fmu"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in content.items():
                own = text.replace("UNIT", unit).encode()
                archive.writestr(name, own if name == "modelDescription.xml" else data)
        return path

    return made


@pytest.mark.slow
@pytest.mark.parametrize("form", ["compiled", "numpy"])
def test_connection_converts_units_by_factor_and_offset(fmu_in, form):
    system = System()
    system.add("celsius", fmu_in("degC"), start={"u": 100.0})
    system.add("kelvin", fmu_in("K"))
    system.add("fahrenheit", fmu_in("degF"))
    system.connect("celsius.y", "kelvin.u")
    system.connect("kelvin.y", "fahrenheit.u")
    result = simulate(system, 0.05, 0.01, form=form)
    assert_allclose(result["kelvin.y"][-1], 373.15, rtol=1e-15)
    assert_allclose(result["fahrenheit.y"][-1], 212.0, rtol=1e-14)
    assert result.unit("fahrenheit.y") == "degF"
    run = prepare(system, 0.01, form=form)
    run.step(3)
    assert run["kelvin.y"] == pytest.approx(373.15)


@pytest.mark.slow
def test_connection_from_a_block_to_an_fmu_converts_units(fmu_in):
    system = System()
    system.add("speed", Sine(amplitude=0.0, frequency=1.0, offset=1.0, unit="rad/s"))
    system.add("display", fmu_in("rpm"))
    system.connect("speed.y[1]", "display.u")
    result = simulate(system, 0.02, 0.01)
    assert_allclose(result["display.y"][-1], 30 / np.pi, rtol=1e-14)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (
            "degC",
            r"\(rad/s\) to part.u \(degC\): the units rad/s and degC have different dimensions",
        ),
        ("K", "rad/s and K have different dimensions"),
        ("bananas", "unknown unit 'bananas' cannot be converted"),
    ],
)
def test_connection_between_different_dimensions_or_unknown_units_is_rejected(
    fmu_in, unit, message
):
    system = System()
    system.add("speed", Sine(unit="rad/s"))
    system.add("part", fmu_in(unit))
    with pytest.raises(ValueError, match=message):
        system.connect("speed.y[1]", "part.u")


@pytest.mark.parametrize(
    ("text", "same", "factor", "offset"),
    [
        ("km/h", "m/s", 1 / 3.6, 0.0),
        ("rpm", "rad/s", np.pi / 30, 0.0),
        ("N.mm", "N.m", 1e-3, 0.0),
        ("m s-1", "m/s", 1.0, 0.0),
        ("degC", "K", 1.0, 273.15),
        ("degF", "K", 5 / 9, 459.67 * 5 / 9),
        ("l/min", "m3/s", 1e-3 / 60, 0.0),
        ("bar", "N/m2", 1e5, 0.0),
        ("kg.m2/s2", "J", 1.0, 0.0),
        ("deg", "rad", np.pi / 180, 0.0),
    ],
)
def test_pint_converts_units_that_the_fmu_does_not_define(text, same, factor, offset):
    pytest.importorskip("pint")
    found, wanted = quantity_of(text), quantity_of(same)
    assert found is not None
    assert wanted is not None
    assert found.exponents == wanted.exponents
    assert_allclose([found.factor, found.offset], [factor, offset], rtol=1e-12)


@pytest.mark.parametrize(
    "text", ["bananas", "))", "1/0", "m**m", "N..m", "é", "rad/s/s/", "2 m", "[x]"]
)
def test_invalid_unit_string_never_gives_a_nonfinite_factor(text):
    quantity = quantity_of(text)
    assert quantity is None or np.isfinite(quantity.factor)


@pytest.mark.parametrize("text", ["9**9**9**9", "10^10^10 m", "((9*m)**99)**99", "m**" * 60 + "m"])
def test_unit_string_with_a_huge_exponent_is_an_unknown_unit(text):
    assert quantity_of(text) is None


@pytest.mark.parametrize("form", ["compiled", "numpy"])
@pytest.mark.parametrize("extrapolate", [0, 1])
def test_connection_replaces_values_by_its_value_table_in_each_master_loop(
    tmp_path, form, extrapolate
):
    """The FMU counts 1, 2, 3, ...; the table replaces 2 by 20 before the conversion 3 y + 1."""
    variables = (("n", "input", 0, "Integer"), ("y", "output", 1, "Integer"))
    counter = foreign_fmu(tmp_path / "count.fmu", step="i->n[1]++;", variables=variables)
    same = foreign_fmu(tmp_path / "same.fmu", step="i->n[1] = i->n[0];", variables=variables)
    system = System()
    system.add("count", counter)
    system.add("same", same)
    system.connect(
        "count.y", "same.n", conversion=Conversion(3 * np.ones(1), np.ones(1), ((2.0, 20.0),))
    )
    options = {"extrapolate": extrapolate} if extrapolate else {"form": form}
    result = simulate(system, 0.05, 0.01, order="jacobi", progress=False, **options)
    assert result["count.y"].tolist() == [0, 1, 2, 3, 4, 5]
    assert result["same.y"].tolist()[1:] == [1, 4, 61, 10, 13]
