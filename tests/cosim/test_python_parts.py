"""Parts in plain Python that replace the controller of the same arm.

The parts are a function that the master calls, and an FMU by pythonfmu with scalar ports.
"""

from pathlib import Path

import numpy as np
import pytest
from pythonfmu.builder import FmuBuilder
from test_system import refused

from planar2ctrl import parts, wired
from rigidblocks import (
    ContinuousSystem,
    FusedSystem,
    Port,
    PythonBlock,
    SimulationError,
    System,
    export_fmu,
    linearize,
    python_block,
    simulate,
)

KP, KD = np.array([1000.0, 1000.0]), np.array([15.0, 15.0])
ANGLE, SPEED, TORQUE = Port("q", (2,), "rad"), Port("qd", (2,), "rad/s"), Port("tau", (2,), "N.m")
PD = """
from pythonfmu import Fmi2Causality, Fmi2Slave, Real

class ScalarPd(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        for k in (1, 2):
            for name in ("q", "qd", "r", "rd"):
                setattr(self, f"{name}{k}", 0.0)
                self.register_variable(Real(f"{name}{k}", causality=Fmi2Causality.input))
            setattr(self, f"tau{k}", 0.0)
            self.register_variable(Real(f"tau{k}", causality=Fmi2Causality.output))

    def do_step(self, t, dt):
        for k, kp, kd in ((1, 1000.0, 15.0), (2, 1000.0, 15.0)):
            q, qd, r, rd = (getattr(self, f"{name}{k}") for name in ("q", "qd", "r", "rd"))
            setattr(self, f"tau{k}", kp * (r - q) + kd * (rd - qd))
        return True
"""
DT, T_STOP = 1e-3, 0.2


def expected():
    return simulate(wired(parts()), T_STOP, DT, progress=False)


def with_part(part, wires):
    """Return the robot and its command with another controller."""
    system, given = System(), parts()
    system.add("robot", given["robot"])
    system.add("command", given["command"])
    system.add("pd", part)
    for source, target in wires:
        system.connect(source, target)
    return system


def law(q, qd, q_ref, qd_ref):
    return KP * (q_ref - q) + KD * (qd_ref - qd)


def called_back():
    block = PythonBlock(
        law,
        (ANGLE, SPEED, Port("q_ref", (2,), "rad"), Port("qd_ref", (2,), "rad/s")),
        (TORQUE,),
    )
    wires = (
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("command.y", "pd.q_ref"),
        ("command.slope", "pd.qd_ref"),
        ("pd.tau", "robot.tau"),
    )
    return with_part(block, wires)


@pytest.mark.parametrize("form", ["numpy", "compiled"])
def test_controller_as_python_function_matches_the_results_of_the_controller_block(form):
    run = simulate(called_back(), T_STOP, DT, form=form, progress=False)
    np.testing.assert_allclose(run["robot.q"], expected()["robot.q"], atol=1e-12)


@pytest.mark.slow
def test_controller_as_pythonfmu_fmu_matches_the_controller_block_with_one_step_delay(tmp_path):
    script = tmp_path / "scalar_pd.py"
    script.write_text(PD)
    FmuBuilder.build_FMU(script, dest=tmp_path)
    (path,) = Path(tmp_path).glob("*.fmu")
    wires = [
        (f"{source}[{k}]", f"pd.{name}{k}")
        for k in (1, 2)
        for source, name in (
            ("robot.q", "q"),
            ("robot.qd", "qd"),
            ("command.y", "r"),
            ("command.slope", "rd"),
        )
    ]
    wires += [(f"pd.tau{k}", f"robot.tau[{k}]") for k in (1, 2)]
    run = simulate(with_part(path, wires), T_STOP, DT, progress=False)
    # in FMI 2.0 the FMU computes outputs only in its steps, so the initial outputs are zero
    first = expected()
    np.testing.assert_allclose(run["robot.q"][2:], first["robot.q"][1:-1], atol=2e-3)
    assert np.abs(run["robot.q"]).max() > 0.05


def test_sampled_python_function_is_called_once_per_sample_with_its_own_state():
    seen = []

    @python_block(inputs=(ANGLE,), outputs=(TORQUE, Port("n")), sample_time=0.01)
    def counting(t, q):
        seen.append((t, q.copy()))
        return {"tau": -10 * q, "n": len(seen)}

    system = System()
    system.add("robot", parts()["robot"])
    system.add("count", counting)
    system.connect("robot.q", "count.q")
    system.connect("count.tau", "robot.tau")
    run = simulate(system, 0.1, DT, progress=False)
    assert len({t for t, _ in seen}) == 11
    np.testing.assert_allclose(run["count.tau"][25:29], np.tile(-10 * run["robot.q"][20], (4, 1)))


def test_export_of_a_system_with_a_python_part_is_rejected():
    system = called_back()
    reported = (
        "'law' is a Python function that is not traced, so it has no C code: run it with "
        "form='numpy' or 'compiled'; for an FMU, build a separate Python FMU (a subclass of "
        "pythonfmu's Fmi2Slave, `pythonfmu build -f script.py`) and add that file as a part"
    )
    for make in (
        lambda: FusedSystem(system, DT),
        lambda: ContinuousSystem(system),
        lambda: simulate(system, T_STOP, DT, form="fused", progress=False),
        lambda: export_fmu(system, "no.fmu", dt=DT),
    ):
        refused(ValueError, f"cannot make the system a block: 'pd': {reported}", make)
    block = PythonBlock(law, (ANGLE, SPEED, *system.parts["pd"].component.inputs[2:]), (TORQUE,))
    for make in (lambda: export_fmu(block, "no.fmu"), lambda: linearize(block)):
        with pytest.raises(TypeError, match="is a Python function that is not traced"):
            make()


def test_error_for_an_exception_in_a_python_function_identifies_its_part():
    def broken(q):
        raise RuntimeError(f"the socket is closed at {q.size} joints")

    system = with_part(
        PythonBlock(broken, (ANGLE,), (TORQUE,)), (("robot.q", "pd.q"), ("pd.tau", "robot.tau"))
    )
    with pytest.raises(SimulationError, match="'pd': the socket is closed at 2 joints"):
        simulate(system, T_STOP, DT, progress=False)


def test_python_block_rejects_ports_that_do_not_match_its_function():
    with pytest.raises(
        TypeError, match=r"takes z, which are not inputs; allowed arguments are: t, q"
    ):
        PythonBlock(lambda z: z, (ANGLE,), (TORQUE,))
    with pytest.raises(ValueError, match="needs at least one output"):
        PythonBlock(law)
    wrong = PythonBlock(lambda q: np.zeros(q.size + 1), (ANGLE,), (TORQUE,))
    system = with_part(wrong, (("robot.q", "pd.q"), ("pd.tau", "robot.tau")))
    with pytest.raises(SimulationError, match=r"tau"):
        simulate(system, T_STOP, DT, progress=False)
