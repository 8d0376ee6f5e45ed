"""SSP files of this package in other tools have the trajectory of `simulate` in Jacobi order."""

import importlib
import zipfile

import numpy as np
import pytest
from fmpy.ssp.simulation import simulate_ssp
from fmpy.ssp.ssd import read_ssv
from numpy.testing import assert_allclose, assert_array_equal

from foreign_fmu import foreign_fmu
from hosts import run_ssp_in_ecos, run_ssp_in_libcosim
from nested_ssp import nested
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import ClosedLoopPlant, Sine, System, load_system, save_system, simulate
from rigidblocks.robot.robots import five_bar
from ssp_archive import NS, archive

pytestmark = pytest.mark.interop
DT, STEPS = 1e-3, 500


def planar2ctrl():
    system = System()
    starts = {"robot": {"q": [0.3, -0.2]}, "pd": {"kp": [800.0, 900.0]}}
    for name, block in parts().items():
        system.add(name, block, start=starts.get(name))
    for target, source in CONNECTIONS.items():
        system.connect(source, target)
    return system


def driven_five_bar():
    system = System()
    model, q0, qd0 = five_bar()
    system.add("linkage", ClosedLoopPlant(model, q0=q0, qd0=qd0))
    system.add("drive", Sine(amplitude=2.0, frequency=1.5, unit="N.m"))
    system.connect("drive.y", "linkage.tau[1]")
    return system


def saved(make, folder):
    return save_system(make(), folder / "s.ssp", dt=DT, t_stop=STEPS * DT, order="jacobi")


def nested_planar2ctrl(folder):
    """Return the system with the robot and its controller in an inner system."""
    return nested(saved(planar2ctrl, folder), folder / "n.ssp", ("robot", "pd"), "arm")


@pytest.mark.parametrize("make", [planar2ctrl, driven_five_bar, nested_planar2ctrl])
@pytest.mark.parametrize("host", ["ecospy", "libcosimpy"])
def test_trajectories_of_an_ssp_file_in_other_tools_match_the_jacobi_results(host, make, tmp_path):
    try:
        importlib.import_module(host)
    except (ImportError, OSError) as error:  # OSError: a library of the system is missing
        pytest.skip(f"{host} cannot be loaded: {error}")
    if make is nested_planar2ctrl:  # neither tool reads nested systems: save a flat system
        system, run = load_system(make(tmp_path))
        path = save_system(system, tmp_path / "flat.ssp", **run)
    else:
        path = saved(make, tmp_path)
    system, run = load_system(path)
    ours = simulate(system, **run, progress=False)
    observed = list(ours.columns)
    if host == "ecospy":
        theirs = run_ssp_in_ecos(path, STEPS, DT, observed)
    else:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "unpacked")
        theirs = run_ssp_in_libcosim(tmp_path / "unpacked", STEPS, DT, observed)
    size = np.maximum(1.0, np.abs(ours.values).max(0))  # the loop error is only rounding
    assert_allclose((theirs - ours.values[1:]) / size, 0.0, atol=1e-12)
    assert np.abs(np.ptp(ours.values, axis=0)).max() > 1.0  # the robot moves


def test_trajectories_of_an_ssp_file_in_fmpy_match_the_jacobi_results(tmp_path):
    """FMPy needs connections to all inputs, and initial outputs of zero at the sources."""

    def driven_in_all_joints():
        system = System()
        model, q0, qd0 = five_bar()
        system.add("linkage", ClosedLoopPlant(model, q0=q0, qd0=qd0))
        system.add("drive", Sine(amplitude=[2.0, -1.0, 0.5, 0.25], frequency=1.5, unit="N.m"))
        system.connect("drive.y", "linkage.tau")
        return system

    path = saved(driven_in_all_joints, tmp_path)
    system, run = load_system(path)
    ours = simulate(system, **run, progress=False)
    theirs = simulate_ssp(str(path), stop_time=(STEPS - 0.5) * DT, step_size=DT)
    for name in ours.columns:
        values = np.ravel(ours[name])[1:]
        size = max(1.0, np.abs(values).max())
        assert_allclose((theirs[name] - values) / size, 0.0, atol=1e-11, err_msg=name)
    assert np.ptp(ours["linkage.qd[1]"]) > 1.0


@pytest.mark.slow
def test_nested_ssp_system_matches_the_results_of_the_flat_system(tmp_path):
    flat, run = load_system(saved(planar2ctrl, tmp_path))
    system, reported = load_system(nested_planar2ctrl(tmp_path))
    again, _ = load_system(save_system(system, tmp_path / "again.ssp", **reported))
    assert reported == run
    expected = simulate(flat, **run, progress=False)
    for one in (system, again):
        result = simulate(one, **run, progress=False)
        assert set(result.columns) == {
            name if name.startswith("command") else f"arm/{name}" for name in expected.columns
        }
        for name in result.columns:
            assert_array_equal(result[name], expected[name.removeprefix("arm/")])


MIXER = (
    ("u", "input", 0, "Real"),
    ("y", "output", 1, "Real"),
    ("k", "parameter", 2, "Real"),
    ("n", "input", 3, "Integer"),
    ("ny", "output", 4, "Integer"),
    ("b", "input", 5, "Boolean"),
    ("by", "output", 6, "Boolean"),
)


@pytest.fixture(scope="module")
def mixer(tmp_path_factory):
    """Return an FMU whose output y depends on inputs of each type, and on its last value."""
    step = (
        "i->r[1] = 0.5 * i->r[1] + i->r[0] + i->r[2] + 0.25 * i->n[3] + 0.125 * i->n[5];"
        "i->n[4] = i->n[3] + 1; i->n[6] = !i->n[5];"
    )
    path = tmp_path_factory.mktemp("mixer") / "mixer.fmu"
    return foreign_fmu(path, step=step, variables=MIXER)


def mixers(inside="", other="", change="", is_closed=False):
    """Return a description with a loop of two mixers that exchange values of each type."""
    types = {"u": "Real", "k": "Real", "n": "Integer", "b": "Boolean"}
    types |= {f"{name}y": types[name] for name in "nb"} | {"y": "Real"}
    listed = "".join(
        f'<ssd:Connector name="{name}" kind="{kind}"><ssc:{types[name]}/></ssd:Connector>'
        for name, kind, *_ in MIXER
    )
    elements = "".join(
        f'<ssd:Component name="{name}" type="application/x-fmu-sharedlibrary" '
        f'source="resources/mixer.fmu"><ssd:Connectors>{listed}</ssd:Connectors>{bound}'
        "</ssd:Component>"
        for name, bound in (("one", inside), ("two", other))
    )
    ends = [("one", "y", "two", "u"), ("two", "y", "one", "u"), ("one", "ny", "two", "n")]
    ends += [("two", "ny", "one", "n"), ("one", "by", "two", "b")]
    ends += [("two", "by", "one", "b")] if is_closed else []
    wires = "".join(
        f'<ssd:Connection startElement="{a}" startConnector="{y}" endElement="{b}" '
        f'endConnector="{u}">{change if a + y == "oney" else ""}</ssd:Connection>'
        for a, y, b, u in ends
    )
    return f"<ssd:Elements>{elements}</ssd:Elements><ssd:Connections>{wires}</ssd:Connections>"


def values(**given):
    """Return a parameter set with values by name."""
    kinds = {float: "Real", int: "Integer", bool: "Boolean"}
    rows = "".join(
        f'<ssv:Parameter name="{name.replace("_", ".")}"><ssv:{kinds[type(value)]} '
        f'value="{str(value).lower()}"/></ssv:Parameter>'
        for name, value in given.items()
    )
    return (
        f'<ssv:ParameterSet xmlns:ssv="{NS}ParameterValues" version="1.0" name="v">'
        f"<ssv:Parameters>{rows}</ssv:Parameters></ssv:ParameterSet>"
    )


def whole(system):
    return (
        '<ssd:SystemStructureDescription SPACES version="1.0" name="s"><ssd:System name="s">'
        f"{system}</ssd:System></ssd:SystemStructureDescription>"
    )


def expected_mixers(steps, k, factor, offset, b=None):
    """Return y of both mixers after each step, by the recurrence of the FMU."""
    y, count, flag, rows = np.zeros(2), np.zeros(2), np.zeros(2), []
    for _ in range(steps):
        u = np.array([y[1], factor * y[0] + offset])
        given_n = count[::-1]
        given_b = np.array([flag[1] if b is None else b, flag[0]])
        y = 0.5 * y + u + np.array(k) + 0.25 * given_n + 0.125 * given_b
        count, flag = given_n + 1, 1 - given_b
        rows.append(y)
    return np.array(rows)


@pytest.mark.parametrize("host", ["ecospy", "libcosimpy"])
def test_results_with_ssp_types_transformations_and_parameters_match_other_tools(
    host, mixer, tmp_path
):
    """The values of all types, a linear transformation and two kinds of parameter sets are equal.

    Ecos and libcosim support these clauses. The third result is the recurrence of the FMU.
    """
    pytest.importorskip(host, exc_type=(ImportError, OSError))  # OSError: a library is missing
    inline = (
        "<ssd:ParameterBindings><ssd:ParameterBinding><ssd:ParameterValues>"
        f"{values(k=0.5, b=True)}</ssd:ParameterValues></ssd:ParameterBinding>"
        "</ssd:ParameterBindings>"
    )
    outside = (
        '<ssd:ParameterBindings><ssd:ParameterBinding source="resources/two.ssv"/>'
        "</ssd:ParameterBindings>"
    )
    change = '<ssc:LinearTransformation factor="0.25" offset="0.5"/>'
    text = whole(mixers(inline, outside, change))
    path = archive(tmp_path / "m.ssp", text, {"mixer": mixer})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("resources/two.ssv", values(k=-0.25))
    names, steps, dt = ["one.y", "two.y"], 20, 0.01
    ours = simulate(load_system(path).system, steps * dt, dt, order="jacobi", progress=False)
    found = np.array([ours[name] for name in names]).T[1:]
    assert_allclose(found, expected_mixers(steps, [0.5, -0.25], 0.25, 0.5, b=1), rtol=1e-14)
    if host == "ecospy":
        theirs = run_ssp_in_ecos(path, steps, dt, names, parameter_set="v")
    else:
        with zipfile.ZipFile(path) as file:
            file.extractall(tmp_path / "unpacked")
        theirs = run_ssp_in_libcosim(tmp_path / "unpacked", steps, dt, names)
    assert_allclose(theirs, found, rtol=1e-12)


def test_results_with_nested_ssp_systems_and_hierarchical_parameters_match_fmpy(mixer, tmp_path):
    """FMPy reads nested systems and parameter sets with hierarchical names, but not bindings."""
    system = (
        '<ssd:Connectors><ssd:Connector name="out" kind="output"/></ssd:Connectors><ssd:Elements>'
        '<ssd:System name="in"><ssd:Connectors><ssd:Connector name="out" kind="output"/>'
        f"</ssd:Connectors>{mixers(is_closed=True)}</ssd:System></ssd:Elements><ssd:Connections>"
        '<ssd:Connection startElement="in" startConnector="out" endConnector="out"/>'
        "</ssd:Connections>"
    )
    system = system.replace(
        '<ssd:Connection startElement="one" startConnector="y"',
        '<ssd:Connection startElement="two" startConnector="y" endConnector="out"/>'
        '<ssd:Connection startElement="one" startConnector="y"',
    )
    path = archive(tmp_path / "m.ssp", whole(system), {"mixer": mixer})
    given = tmp_path / "p.ssv"
    given.write_text(values(in_one_k=0.5, in_two_k=-0.25))
    loaded, _ = load_system(path, parameters=[given])
    ours = simulate(loaded, 0.2, 0.01, order="jacobi", progress=False)
    found = np.array([ours["in/one.y"], ours["in/two.y"]]).T[1:]
    assert_allclose(found, expected_mixers(20, [0.5, -0.25], 1.0, 0.0), rtol=1e-14)
    theirs = simulate_ssp(
        str(path), stop_time=0.195, step_size=0.01, parameter_set=read_ssv(str(given))
    )
    assert_allclose(theirs["in.one.y"], found[:, 0], rtol=1e-14)
    assert_allclose(theirs["out"], found[:, 1], rtol=1e-14)
