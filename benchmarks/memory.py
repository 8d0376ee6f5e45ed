"""Peak resident memory of a process that reads a robot and computes its forward dynamics once.

Each library runs in a separate process. The results are compared first.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from models import check_equal, in_urdf

from rigidblocks import auto_tree

Row = list[str]
JOINTS = 38

_BEGIN = f"""
import json, resource, sys
import numpy as np
path = sys.argv[1]
q, qd, tau = np.random.default_rng(0).normal(size=(3, {JOINTS}))
"""
_END = """
# not RUSAGE_SELF, to which a process inherits what its parent had
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
compilers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([list(map(float, qdd)), max(own, compilers)]))
"""
OURS = """
from rigidblocks import compiled_dynamics, load_model
qdd = compiled_dynamics(load_model(path).model, "aba")(q, qd, tau)
"""
PEERS = {
    "Pinocchio": """
import pinocchio
model = pinocchio.buildModelFromUrdf(path)
qdd = pinocchio.aba(model, model.createData(), q, qd, tau)
""",
    "MuJoCo": """
import mujoco
model = mujoco.MjModel.from_xml_path(path)
data = mujoco.MjData(model)
data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qd, tau
mujoco.mj_forward(model, data)
qdd = data.qacc
""",
    "Drake": """
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import MultibodyPlant
plant = MultibodyPlant(0.0)
Parser(plant).AddModels(path)
plant.WeldFrames(plant.world_frame(), plant.GetFrameByName("base"))
plant.Finalize()
context, rates = plant.CreateDefaultContext(), plant.AllocateTimeDerivatives()
plant.SetPositionsAndVelocities(context, np.concatenate([q, qd]))
plant.get_applied_generalized_force_input_port().FixValue(context, tau)
plant.CalcTimeDerivatives(context, rates)
qdd = rates.get_vector().CopyToVector()[len(q):]
""",
}


def measured() -> Iterator[Row]:
    """Yield the rows; our library starts with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.urdf")
        path.write_text(in_urdf(auto_tree(JOINTS, skew=0.7)))
        environment = os.environ | {"RIGIDBLOCKS_CACHE": f"{folder}/cache"}
        expected, ours = _in_a_process(OURS, path, environment)
        for name, program in PEERS.items():
            qdd, theirs = _in_a_process(program, path, environment)
            check_equal(f"{name}, {JOINTS} joints", expected, qdd, 1e-8)
            cells = [f"{one:,.0f} MB" for one in (ours, theirs)]
            yield [f"aba, {JOINTS} joints", *cells, name, f"{theirs / ours:.2f} x"]


def _in_a_process(
    program: str, path: Path, environment: dict[str, str]
) -> tuple[np.ndarray, float]:
    """Return the accelerations, and the peak memory of the process or of its compiler [MB]."""
    command = [sys.executable, "-c", _BEGIN + program + _END, str(path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    qdd, memory = json.loads(done.stdout.splitlines()[-1])
    return np.array(qdd), memory * 1024 / 1e6


def main() -> None:
    """Print the rows."""
    for row in measured():
        print("  ".join(row))


if __name__ == "__main__":
    main()
