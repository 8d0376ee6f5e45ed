"""Simulator for mosaik (API version 3) that runs a system.

    SIMULATORS = {"rigidblocks": {"python": "rigidblocks.hil.mosaik_simulator:Simulator"}}
    with mosaik.World(SIMULATORS, time_resolution=1e-3) as world:
        simulator = world.start("rigidblocks", system=system)
        robot = simulator.System()
        world.connect(robot, pd, ("robot.q", "q"), time_shifted=True, initial_data=...)

`system` is a `System`, or the path of a script that creates a `System`. The attributes are the
unconnected inputs and all outputs, as `part.port`. A value is a number or a list of numbers.

A step integrates from the previous time to the requested time and holds the received inputs. If all
connections between simulators are time-shifted, all simulators take Jacobi steps.
"""

import runpy
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.prepare import Run, prepare

MODEL = "System"


class Simulator:
    """Mosaik simulator of a system; each entity is a separate run of the system.

    The step `dt` [s] is a multiple of the time resolution; the default is the time resolution. The
    class has the methods of `mosaik_api_v3.Simulator` but does not need the mosaik package.
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
        """Prepare the system, and return the description of the simulator for mosaik.

        Raises:
            ValueError: dt is not a multiple of the time resolution.
        """
        del sid
        self._every = 1 if dt is None else round(dt / time_resolution)
        if dt is not None and not np.isclose(self._every * time_resolution, dt, rtol=1e-9):
            raise ValueError(
                f"dt = {dt:g} s must be a multiple of the time resolution {time_resolution:g} s"
            )
        self._dt = self._every * time_resolution if dt is None else dt
        self._system = system if isinstance(system, System) else _load_system(Path(system))
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
        """Create `num` entities; each entity simulates the system from the start values `start`."""
        made = []
        for _ in range(num):
            name = f"system_{len(self._runs)}"
            self._runs[name] = prepare(self._system, self._dt, order=self._order)
            self._runs[name].reset(start)
            made.append({"eid": name, "type": model})
        return made

    def setup_done(self) -> None:
        """Do nothing; mosaik calls this method after all entities are connected."""

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        """Step all entities to `time`, and return the time of the next step.

        Both times are integers, in units of the time resolution.
        """
        del max_advance
        for name, run in self._runs.items():
            for port, sources in inputs.get(name, {}).items():
                run[port] = _single_value(port, sources)
            if time > 0:
                run.step()
        return time + self._every

    def get_data(self, outputs: Any) -> Any:
        """Return the values of the attributes that mosaik requests, by entity."""
        return {
            name: {port: np.asarray(self._runs[name][port]).tolist() for port in ports}
            for name, ports in outputs.items()
        }

    def finalize(self) -> None:
        """Close all runs."""
        for run in self._runs.values():
            run.close()


def _single_value(port: str, sources: dict[str, Any]) -> Any:
    """Return the value that mosaik passes to an input; raise ValueError for several sources."""
    if len(sources) > 1:
        raise ValueError(f"input '{port}' has several sources: {', '.join(sorted(sources))}")
    return next(iter(sources.values()))


def _load_system(script: Path) -> System:
    """Run a script, and return the variable `system`; raise ValueError if this is not a System."""
    made = runpy.run_path(str(script), run_name="rigidblocks_system").get("system")
    if not isinstance(made, System):
        raise ValueError(f"{script} does not define `system`; add `system = System()`")
    return made
