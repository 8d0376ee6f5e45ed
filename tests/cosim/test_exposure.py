"""Exposed, renamed and hidden ports of a system as one block or FMU."""

import fmpy
import numpy as np
import pytest
from test_system import refused

from planar2ctrl import parts, wired
from rigidblocks import ContinuousSystem, FusedSystem, System, export_fmu, linearize, simulate
from rigidblocks.library import Gain, LowPass, Sine


def chain():
    """Return a lag with an open input, followed by a gain."""
    system = System()
    system.add("lag", LowPass(0.1), start={"u": 1.0})
    system.add("gain", Gain(2.0), start={"k": 3.0})
    system.connect("lag.y", "gain.u")
    return system


def names(ports):
    return [port.name for port in ports]


@pytest.mark.parametrize("block", [ContinuousSystem, lambda system: FusedSystem(system, 0.01)])
def test_expose_method_renames_selected_ports_and_hides_other_ports(block):
    system = chain()
    system.expose("gain.y", as_="torque", hide="*")
    system.expose("lag.u", as_="wanted")
    made = block(system)
    assert names(made.outputs) == ["torque"]
    assert names(made.inputs) == ["wanted"]
    assert names(made.parameters) == []
    system.expose("lag.T")
    assert names(block(system).parameters) == ["lag.T"]
    everything = block(chain())
    assert names(everything.outputs) == ["gain.y", "lag.y"]


@pytest.mark.parametrize("block", [ContinuousSystem, lambda system: FusedSystem(system, 0.01)])
def test_expose_method_hides_all_other_ports_unless_hide_patterns_are_given(block):
    system = chain()
    system.expose("gain.y")
    made = block(system)
    assert (names(made.outputs), names(made.inputs), names(made.parameters)) == (["gain.y"], [], [])
    system.expose("lag.u")
    assert names(block(system).inputs) == ["lag.u"]
    system.expose(hide="gain.k")
    assert names(block(system).parameters) == ["lag.T"]
    visible = chain()
    visible.expose("gain.y", as_="torque", hide=())
    assert names(block(visible).outputs) == ["torque", "lag.y"]


def test_exposed_input_without_a_start_value_starts_at_zero():
    system = System()
    system.add("lag", LowPass(0.1, shape=2, unit="N.m"))
    with pytest.raises(ValueError, match=r"lag\.u"):
        FusedSystem(system, 0.01)
    system.expose("lag.u")
    system.expose("lag.y")
    (port,) = FusedSystem(system, 0.01).inputs
    np.testing.assert_array_equal(port.start, [0.0, 0.0])


@pytest.mark.slow
def test_fmu_of_a_system_is_named_after_its_file(tmp_path):
    system = chain()
    system.expose("gain.y", as_="torque")
    for file, name in (("controller.fmu", "controller"), ("2-axis arm.fmu", "_2_axis_arm")):
        for target in ("native", "python"):
            path = export_fmu(system, tmp_path / target / file, target, dt=0.01)
            description = fmpy.read_model_description(str(path))
            assert description.coSimulation.modelIdentifier == name
            assert description.modelName == name
    path = export_fmu(system, tmp_path / "other.fmu", dt=0.01, name="mine")
    assert fmpy.read_model_description(str(path)).modelName == "mine"


@pytest.mark.slow
def test_hidden_parameters_and_inputs_keep_their_start_values():
    system = chain()
    system.expose("gain.y", as_="torque", hide=["gain.*", "lag.*"])
    run, plain = System(), simulate(chain(), 0.3, 0.01)
    run.add("both", FusedSystem(system, 0.01))
    for form in ("numpy", "compiled"):
        found = simulate(run, 0.3, 0.01, form=form)
        assert names(found.ports) == ["both.torque"]
        np.testing.assert_allclose(found["both.torque"], plain["gain.y"], rtol=1e-12)
    linear = linearize(system)
    assert linear.output_names == ("torque",)
    assert linear.state_names == ("lag.y",)


@pytest.mark.slow
def test_fmu_of_a_system_with_adaptive_parts_has_the_exposed_ports(tmp_path):
    given, system = parts(), System()
    for name, part in given.items():
        system.add(name, part, method="adaptive" if name == "robot" else None)
    for source, target in wired(given).wiring().connections and [
        one.names for one in wired(given).wiring().connections
    ]:
        system.connect(source, target)
    expected = simulate(system, 0.1, 1e-3, progress=False)
    system.expose("robot.q", as_="angles", hide="*")
    path = export_fmu(system, tmp_path / "arm.fmu", dt=1e-3)
    description = fmpy.read_model_description(str(path))
    shown = [v.name for v in description.modelVariables if v.causality != "local"]
    assert shown == ["time", "angles[1]", "angles[2]"]
    single = System()
    single.add("arm", path)
    run = simulate(single, 0.1, 1e-3, progress=False)
    np.testing.assert_allclose(run["arm.angles"], expected["robot.q"], atol=1e-12)


def test_unknown_and_duplicate_names_of_exposed_ports_are_rejected():
    system = chain()
    refused(
        KeyError,
        "'gain' has no port 'yy'; it has: k, u, y (did you mean y?)",
        lambda: system.expose("gain.yy", as_="torque"),
    )
    refused(
        ValueError,
        "cannot expose gain.y as 'lag.y': another port of the system has this name",
        lambda: system.expose("gain.y", as_="lag.y"),
    )
    system.expose("gain.y", as_="torque")
    refused(
        ValueError,
        "cannot expose lag.y as 'torque': another port of the system has this name",
        lambda: system.expose("lag.y", as_="torque"),
    )
    with pytest.raises(ValueError, match=r"expose needs a port such as 'sum.y'"):
        system.expose()


@pytest.mark.slow
def test_runs_without_an_fmu_record_hidden_ports():
    system = chain()
    system.add("wave", Sine())
    system.expose("gain.y", as_="torque", hide="*")
    for form in ("numpy", "fused"):
        assert "lag.y" in names(simulate(system, 0.1, 0.01, form=form).ports)
