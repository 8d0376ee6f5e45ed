"""MuJoCo's parser in a process of its own: a crash or an exit there is a message here.

The process is this module run as a program, `python -m rigidblocks.formats.mujoco_parser IN OUT`.
"""

import pickle
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.formats.refusal import wrong

TIME_LIMIT = 60.0  # [s] for one file
NO_GRAVITY = "mjDSBL_GRAVITY"
_GROUPS = (
    "body_", "dof_", "eq_", "geom_", "jnt_", "name_", "tendon_", "actuator_", "qpos", "site_",
    "wrap_", "exclude_", "pair_",
)  # fmt: skip
_MESHES = ("mesh_vert", "mesh_vertadr", "mesh_vertnum", "mesh_graph", "mesh_graphadr")
_NUMBERS = ("nbody", "neq", "nflex", "njnt", "nmocap", "nplugin", "ntendon", "nu")
_OPTIONS = ("density", "viscosity", "gravity")


def is_installed() -> bool:
    """Whether the package mujoco is there."""
    try:
        return find_spec("mujoco") is not None
    except ValueError:  # a name that is blocked
        return False


def compiled_model(path: Path) -> SimpleNamespace:
    """The arrays of the model that MuJoCo's compiler makes of a file, by the names of MjModel, its
    `opt`, and whether it is `weightless`.

    Raises ValueError with what the compiler says of the file, and FormatError where it crashes,
    ends its process or takes longer than a minute.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "model")
        command = [sys.executable, "-m", __name__, str(path.resolve()), str(out)]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=TIME_LIMIT, cwd=folder, check=False
            )
        except subprocess.TimeoutExpired:
            raise wrong(path, None, "MuJoCo's parser took longer than a minute") from None
        if not out.exists():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
            text = f"MuJoCo's parser ended with {done.returncode}: {last[0][:200]}"
            raise wrong(path, None, text)
        found = pickle.loads(out.read_bytes())  # our own process wrote it
    if isinstance(found, str):
        raise ValueError(found)
    return SimpleNamespace(**found | {"opt": SimpleNamespace(**found["opt"])})


def _arrays(path: str) -> dict[str, Any] | str:
    """The arrays, or what the compiler has to say."""
    import mujoco

    try:
        m = mujoco.MjModel.from_xml_path(path)
    except ValueError as error:
        return str(error)
    names = [name for name in dir(m) if name.startswith(_GROUPS) or name in _MESHES]
    arrays = {
        name: value.copy()
        for name in names
        if isinstance(value := getattr(m, name, None), np.ndarray)
    }
    disabled = m.opt.disableflags & int(getattr(mujoco.mjtDisableBit, NO_GRAVITY))
    options = {name: np.copy(getattr(m.opt, name)) for name in _OPTIONS}
    counts = {name: int(getattr(m, name)) for name in _NUMBERS}
    return arrays | counts | {"names": m.names, "weightless": bool(disabled), "opt": options}


if __name__ == "__main__":
    result = _arrays(sys.argv[1])
    Path(sys.argv[2]).write_bytes(pickle.dumps(result))
