"""Systems as mosaik simulators: the results equal a Jacobi run."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from planar2ctrl import parts, wired
from rigidblocks import System, simulate

pytestmark = [pytest.mark.interop, pytest.mark.slow]
mosaik = pytest.importorskip("mosaik")
api = pytest.importorskip("mosaik_api_v3")

STEPS, DT = 200, 1e-3
SIMULATORS = {
    "rigidblocks": {"python": "rigidblocks.hil.mosaik_simulator:Simulator"},
    "plain": {"python": f"{__name__}:Controller"},
    "scope": {"python": f"{__name__}:Scope"},
}


class Controller(api.Simulator):
    """Mosaik simulator of the controller in plain Python."""

    def __init__(self):
        names = ["q", "qd", "goal", "rate", "tau"]
        model = {"public": True, "params": [], "attrs": names}
        super().__init__({"api_version": "3.0", "type": "time-based", "models": {"PD": model}})

    def create(self, num, model):
        assert num == 1
        return [{"eid": "pd", "type": model}]

    def step(self, time, inputs, max_advance):
        del max_advance
        one = {name: next(iter(values.values())) for name, values in inputs["pd"].items()}
        pairs = zip(one["goal"], one["q"], one["rate"], one["qd"], strict=True)
        self.tau = [1000.0 * (goal - q) + 15.0 * (rate - qd) for goal, q, rate, qd in pairs]
        return time + 1

    def get_data(self, outputs):
        del outputs
        return {"pd": {"tau": self.tau}}


class Scope(api.Simulator):
    """Mosaik simulator that records its inputs."""

    kept: list = []  # noqa: RUF012

    def __init__(self):
        model = {"public": True, "params": [], "attrs": ["q"]}
        super().__init__({"api_version": "3.0", "type": "time-based", "models": {"Scope": model}})

    def create(self, num, model):
        assert num == 1
        return [{"eid": "scope", "type": model}]

    def step(self, time, inputs, max_advance):
        del max_advance
        self.kept.append(next(iter(inputs["scope"]["q"].values())))
        return time + 1

    def get_data(self, outputs):
        del outputs
        return {}


def plants():
    """Return the robot and its command, without the controller."""
    system = System()
    for name in ("robot", "command"):
        system.add(name, parts()[name], start={"tau": [0.0, 0.0]} if name == "robot" else None)
    return system


def test_mosaik_run_with_an_external_controller_matches_the_jacobi_results():
    whole = simulate(wired(parts()), STEPS * DT, DT, order="jacobi", progress=False)
    Scope.kept.clear()
    with mosaik.World(SIMULATORS, time_resolution=DT) as world:
        ours = world.start("rigidblocks", system=plants(), order="jacobi").System()
        pd, scope = world.start("plain").PD(), world.start("scope").Scope()
        for name, to in (("robot.q", "q"), ("robot.qd", "qd"), ("command.y", "goal")):
            start = whole[name][0].tolist()
            world.connect(ours, pd, (name, to), time_shifted=True, initial_data={name: start})
        slope = {"command.slope": whole["command.slope"][0].tolist()}
        world.connect(ours, pd, ("command.slope", "rate"), time_shifted=True, initial_data=slope)
        world.connect(
            pd, ours, ("tau", "robot.tau"), time_shifted=True, initial_data={"tau": [0.0, 0.0]}
        )
        world.connect(ours, scope, ("robot.q", "q"))
        world.run(until=STEPS + 1, print_progress=False)
    assert_array_equal(np.array(Scope.kept), whole["robot.q"])


def test_mosaik_simulator_rejects_invalid_steps_systems_and_sources(tmp_path):
    from rigidblocks.hil.mosaik_simulator import Simulator

    with pytest.raises(ValueError, match=r"must be a multiple of the time resolution 0.001 s"):
        Simulator().init("a", 1e-3, system=plants(), dt=1.5e-3)
    script = tmp_path / "none.py"
    script.write_text("x = 1")
    with pytest.raises(ValueError, match="does not define `system`"):
        Simulator().init("a", 1e-3, system=script)
    simulator = Simulator()
    simulator.init("a", 1e-3, system=plants())
    simulator.create(1, "System")
    with pytest.raises(ValueError, match="has several sources: a, b"):
        simulator.step(0, {"system_0": {"robot.tau": {"a": [0, 0], "b": [0, 0]}}}, 1)
