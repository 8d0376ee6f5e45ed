"""Large models run in threads with a small stack: no workspace on the stack grows with the model.

A stack overflow ends the process, so each case runs in a separate process.
"""

import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rigidblocks import (
    Block,
    Model,
    Port,
    RigidContactPlant,
    RobotPlant,
    SixDoF,
    SoftContactPlant,
    Spherical,
    System,
    World,
    export_fmu,
    prepare,
    simulate_batch,
    sphere_inertia,
)
from rigidblocks.contact import ProximitySensor
from rigidblocks.contact.contact_sensors import ContactSensor
from rigidblocks.library import Constant
from rigidblocks.robot.shapes import Plane, Sphere
from rigidblocks.spatial.spatial import identity, xlt

STACK = 256 * 1024  # bytes, stack size of the threads, including Python's own calls
H = 1e-3


@dataclass(frozen=True)
class Chain(Block):
    """Masses of 1 kg with springs of 1 N/m between neighbours and at both ends."""

    n: int = 150

    inputs = (Port("f", (), "N", "force on the last one", 0.0),)

    @property
    def states(self):
        start = np.linspace(0.0, 1.0, self.n)
        return (
            Port("x", (self.n,), "m", "positions", start, rate="v"),
            Port("v", (self.n,), "m/s", "velocities", 0.0),
        )

    @property
    def outputs(self):
        return (*self.states, Port("sum", (), "m", "sum of positions"))

    def derivative(self, x, u):
        force = -2.0 * x.x
        force[1:] += x.x[:-1]
        force[:-1] += x.x[1:]
        force[-1] += u.f
        return {"x": x.v, "v": force}

    def output(self, x):
        return {"sum": np.sum(x.x)}


def balls(n):
    """Return a model of free balls, and their configuration in a row."""
    inertia = sphere_inertia(0.1, mass=1.0)
    shapes = ((Sphere(0.1),),) * n
    model = Model("balls", (-1,) * n, (SixDoF(),) * n, (identity(),) * n, (inertia,) * n,
                  contact=shapes)  # fmt: skip
    return model, np.ravel([[1, 0, 0, 0, 0.19 * k, 0, 0.1] for k in range(n)])


def rope(n):
    """Return a chain of balls on ball joints."""
    inertia = sphere_inertia(0.02, mass=0.01)
    frames = (identity(), *[xlt(np.array([0.06, 0.0, 0.0]))] * (n - 1))
    shapes = ((Sphere(0.02),),) * n
    return Model("rope", tuple(range(-1, n - 1)), (Spherical(),) * n, frames, (inertia,) * n,
                 contact=shapes)  # fmt: skip


def rigid_balls():
    model, places = balls(150)
    return RigidContactPlant(model, q0=places, sample_time=H)


def rigid_rope():
    return RigidContactPlant(rope(60), ground=(Plane(point=(0, 0, -0.02)),), sample_time=H)


def world():
    found = World("world")
    found.add_robot("rope", rope(40))
    for k in range(40):
        found.add_body(f"ball{k}", sphere_inertia(0.1, mass=1.0), [Sphere(0.1)], at=(0, k, 0.1))
    found.add_ground(Plane())
    return found.plant(sample_time=H)


def soft_balls():
    model, places = balls(30)
    return SoftContactPlant(RobotPlant(model, places), K=1e5, D=1e3, mu=0.5)


def distances():
    model, places = balls(400)
    sensors = (ContactSensor("gap", model.body_names[0], model.body_names[1], distance=True),)
    sensor = ProximitySensor(model, sensors, sample_time=H)
    system = System()
    system.add("places", Constant(places, unit=sensor.inputs[0].unit))
    system.add("sensor", sensor)
    system.connect("places.y", "sensor.q")
    return system


def several():
    system = System()
    system.add("balls", rigid_balls())
    system.add("chain", Chain(200))
    return system


PLANTS = {
    "rigid_balls": rigid_balls,
    "rigid_rope": rigid_rope,
    "world": world,
    "soft_balls": soft_balls,
    "distances": distances,
    "arm": lambda: RobotPlant(rope(40)),
    "chain": Chain,
    "long_chain": lambda: Chain(700),
    "several": several,
}


def case(plant, form="compiled", method=None, fmi=None, kind=None):
    """Return a function that runs a plant; this function prepares the run outside the thread."""
    made = PLANTS[plant]()
    system = made
    if fmi:
        path = Path(tempfile.mkdtemp()) / f"{plant}.fmu"
        export_fmu(made, path, fmi=fmi, method=method, **({"dt": H} if plant == "several" else {}))
        made, method = path, None
    if not isinstance(made, System):
        system = System()
        options = {"kind": kind} if kind else {}
        system.add("plant", made, method=method, **options)
    run = prepare(system, H, form=form)
    return lambda: run.simulate(3 * H, progress=False)


def batch(n):
    start = {"x": np.tile(np.linspace(0.0, 1.0, n), (8, 1))}
    return lambda: simulate_batch(Chain(n), 3 * H, H, start=start, threads=1)


def run_in_small_thread(make, *arguments, **options):
    """Prepare a case and run it in a thread with a small stack."""
    function, done = globals()[make](*arguments, **options), []
    threading.stack_size(STACK)
    thread = threading.Thread(target=lambda: done.append(function()))
    thread.start()
    thread.join()
    assert done
    print("ended")
    sys.stdout.flush()
    os._exit(0)


CASES = [
    "'case', 'rigid_balls'",
    "'case', 'rigid_balls', form='numpy'",
    "'case', 'rigid_rope'",
    "'case', 'world'",
    "'case', 'soft_balls'",
    "'case', 'distances'",
    "'case', 'arm'",
    "'case', 'chain', method='stiff'",
    "'case', 'chain', method='radau'",
    "'case', 'chain', method='adaptive or stiff'",
    "'case', 'long_chain', method='adaptive'",
    "'case', 'long_chain', method='rk4'",
    "'case', 'several', form='fused'",
    "'case', 'rigid_rope', fmi=3",
    "'case', 'chain', fmi=3, method='stiff'",
    "'case', 'long_chain', fmi=2, method='adaptive'",
    "'case', 'long_chain', fmi=3, method='rk4', kind='model exchange'",
    "'batch', 100",
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", CASES)
def test_step_of_a_model_with_many_bodies_needs_a_stack_of_at_most_256_kib(arguments):
    code = f"import test_small_stacks as t; t.run_in_small_thread({arguments})"
    environment = {**os.environ}
    folders = [str(Path(__file__).parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.endswith("ended\n"), (done.returncode, done.stderr[-2000:])
