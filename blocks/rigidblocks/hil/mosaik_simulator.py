"""Systems as simulators of mosaik, by its API version 3:

    SIMULATORS = {"rigidblocks": {"python": "rigidblocks.bench.mosaik_simulator:Simulator"}}
    with mosaik.World(SIMULATORS, time_resolution=1e-3) as world:
        simulator = world.start("rigidblocks", system=system)
        robot = simulator.System()
        world.connect(robot, pd, ("robot.q", "q"), time_shifted=True, initial_data=...)

`system` is a System, or the path of a script that makes one. The attributes are the inputs that
nothing is connected to and all outputs, each `part.port`, a number or a list of them.

In its step at a time the simulator goes there from the time before, with the inputs that it gets:
between simulators whose connections are all time-shifted, that is a step by Jacobi.
"""

import runpy
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.simulation.prepare import prepare
from rigidblocks.simulation.run import Run
from rigidblocks.system.fused import GAUSS_SEIDEL
from rigidblocks.system.system import System

MODEL = "System"


class Simulator:
    """Runs a system once for each entity, in steps of `dt` [s], which the resolution of the time
    divides; of that length where it is not given. It has the methods of `mosaik_api_v3.Simulator`
    and needs nothing of it.
    """

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {
            "api_version": "3.0",
            "type": "time-based",
            "models": {},
            "extra_methods": [],
        }
        self._runs: dict[str, Run] = {}

    def init(
        self,
        sid: str,
        time_resolution: float = 1.0,
        *,
        system: System | str | Path,
        dt: float | None = None,
        order: str = GAUSS_SEIDEL,
    ) -> Any:
        """The description of the simulator.

        Raises ValueError for a dt that the resolution does not divide.
        """
        del sid
        self._every = 1 if dt is None else round(dt / time_resolution)
        if dt is not None and not np.isclose(self._every * time_resolution, dt, rtol=1e-9):
            raise ValueError(f"dt = {dt:g} s is no multiple of mosaik's {time_resolution:g} s")
        self._dt = self._every * time_resolution if dt is None else dt
        self._system = system if isinstance(system, System) else _made(Path(system))
        self._order = order
        wiring = self._system.wiring()
        taken = {one.target for one in wiring.connections}
        self._inputs = {
            f"{name}.{port.name}"
            for name, part in wiring.parts.items()
            for port in part.component.inputs
            if (name, port.name) not in taken
        }
        attributes = sorted(self._inputs | {port.name for port in wiring.outputs})
        about = {"public": True, "params": ["start"], "attrs": attributes}
        self.meta["models"] = {MODEL: about}
        return self.meta

    def create(self, num: int, model: str, *, start: dict[str, Any] | None = None) -> Any:
        """The entities, each a run from start values by `part.port`."""
        made = []
        for _ in range(num):
            name = f"system_{len(self._runs)}"
            self._runs[name] = prepare(self._system, self._dt, order=self._order)
            self._runs[name].reset(start)
            made.append({"eid": name, "type": model})
        return made

    def setup_done(self) -> None:
        """Has nothing to do when all entities are there and connected."""

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        """Goes to a time with the inputs held; returns when the next step is due."""
        del max_advance
        for name, run in self._runs.items():
            for port, sources in inputs.get(name, {}).items():
                run[port] = _one(port, sources)
            if time > 0:
                run.step()
        return time + self._every

    def get_data(self, outputs: Any) -> Any:
        """The values of the attributes that are asked for, by entity."""
        return {
            name: {port: np.asarray(self._runs[name][port]).tolist() for port in ports}
            for name, ports in outputs.items()
        }

    def finalize(self) -> None:
        """Ends the runs."""
        for run in self._runs.values():
            run.close()


def _one(port: str, sources: dict[str, Any]) -> Any:
    """The value for an input; raises ValueError where there are several."""
    if len(sources) > 1:
        raise ValueError(f"'{port}' gets values from {', '.join(sorted(sources))}: it takes one")
    return next(iter(sources.values()))


def _made(script: Path) -> System:
    """The system that a script makes."""
    made = runpy.run_path(str(script), run_name="rigidblocks_system").get("system")
    if not isinstance(made, System):
        raise ValueError(f"{script} makes no system; it needs `system = System()`")
    return made
