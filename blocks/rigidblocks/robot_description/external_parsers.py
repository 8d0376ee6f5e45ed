"""Parsers of the packages mujoco and xacro, run in a separate process.

If the separate process crashes, exits or runs for too long, the calling process raises
`FormatError`. The separate process runs this module, `python -m MODULE PARSER IN OUT`, and writes a
pickled result to OUT. A xacro file can contain Python code, which may run forever, exhaust the
memory, or wait for a FIFO. Therefore time and memory are limited.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.common.format_error import file_error
from rigidblocks.common.optional_imports import install_command

TIME_LIMIT = 60.0  # [s] per file


def run_parser(parser: str, path: Path, label: str) -> Any:
    """Parse a file in a separate process and return the result of the parser.

    Args:
        parser: The name of the parser, "mujoco" or "xacro".
        path: The path of the file.
        label: The name of the parser in error messages.

    Raises:
        FormatError: The process crashes, ends early or takes longer than a minute.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "result")
        command = [sys.executable, "-m", __name__, parser, str(path.absolute()), str(out)]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIME_LIMIT,
                cwd=folder,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise file_error(path, None, f"{label} took longer than a minute") from None
        if not out.exists():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
            text = f"{label} ended with {done.returncode}: {last[0][:200]}"
            raise file_error(path, None, text)
        return pickle.loads(out.read_bytes())  # trusted: our own process wrote the file


def write_result(result: Any) -> None:
    """Write the pickled result of the parser to the file OUT of the command line."""
    part = Path(f"{sys.argv[3]}.part")
    part.write_bytes(pickle.dumps(result))
    part.rename(sys.argv[3])


_GROUPS = (
    "body_", "dof_", "eq_", "geom_", "jnt_", "name_", "tendon_", "actuator_", "qpos", "site_",
    "wrap_", "exclude_", "pair_", "key_", "sensor_", "cam_", "mat_rgba",
)  # fmt: skip
_MESHES = (
    "mesh_vert", "mesh_vertadr", "mesh_vertnum", "mesh_graph", "mesh_graphadr", "mesh_face",
    "mesh_faceadr", "mesh_facenum",
    "hfield_size", "hfield_nrow", "hfield_ncol", "hfield_adr", "hfield_data",
)  # fmt: skip
_NUMBERS = (
    "nbody",
    "neq",
    "nflex",
    "njnt",
    "nkey",
    "nmocap",
    "nplugin",
    "nsensor",
    "ntendon",
    "nu",
)
_OPTIONS = ("density", "viscosity", "gravity", "wind", "magnetic", "timestep")


def is_installed(package: str) -> bool:
    """Return True if a package is installed."""
    try:
        return find_spec(package) is not None
    except ValueError:  # `find_spec` rejects a package that is None in sys.modules
        return False


def compiled_model(path: Path) -> SimpleNamespace:
    """Compile an MJCF file with MuJoCo, and return the arrays of the compiled model.

    The arrays have the names of MjModel. `opt` contains the simulation options, and `disabled` the
    features that <option><flag> disables.

    Raises:
        ValueError: The compiler rejects the file; the message is from the compiler.
        FormatError: The compiler crashes, ends its process or takes longer than a minute.
    """
    found = run_parser("mujoco", path, "MuJoCo's parser")
    if isinstance(found, str):
        raise ValueError(found)
    return SimpleNamespace(**found | {"opt": SimpleNamespace(**found["opt"])})


def _compile_mjcf(path: str) -> dict[str, Any] | str:
    """Return the arrays of the compiled MJCF model, or the error message of the compiler."""
    import mujoco

    try:
        m = mujoco.MjModel.from_xml_path(path)
    except ValueError as error:
        return str(error)
    names = [name for name in dir(m) if name.startswith(_GROUPS) or name in _MESHES]
    arrays: dict[str, Any] = {
        name: value.copy()
        for name in names
        if isinstance(value := getattr(m, name, None), np.ndarray)
    }
    disabled = {
        name.removeprefix("mjDSBL_").lower()
        for name, bit in mujoco.mjtDisableBit.__members__.items()
        if name.startswith("mjDSBL_") and m.opt.disableflags & int(bit)
    }
    arrays["sensor_kind"] = [  # the type codes depend on the MuJoCo version
        mujoco.mjtSensor(kind).name.removeprefix("mjSENS_").lower()
        for kind in m.sensor_type.tolist()
    ]
    options = {name: np.copy(getattr(m.opt, name)) for name in _OPTIONS}
    counts = {name: int(getattr(m, name)) for name in _NUMBERS}
    return arrays | counts | {"names": m.names, "disabled": disabled, "opt": options}


MEMORY_LIMIT = 2 * 2**30  # bytes of address space, far more than a robot file of 32 MB needs


def expanded_xacro(path: Path) -> bytes:
    """Return the URDF that the package xacro generates from a file.

    Raises:
        FormatError: The package is not installed or cannot expand the file, or the expansion takes
            longer than a minute or more than 2 GB of memory.
    """
    if not is_installed("xacro"):
        text = f"a xacro file needs the package xacro: `{install_command('xacro')}`"
        raise file_error(path, None, text)
    found = run_parser("xacro", path, "xacro")
    if isinstance(found, str):
        raise file_error(path, None, f"xacro cannot expand the file: {found}")
    return bytes(found)


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(MEMORY_LIMIT, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _expand_xacro(path: str) -> bytes | str:
    """Return the URDF that xacro generates from a file, or xacro's error message."""
    import xacro

    try:
        return bytes(xacro.process_file(path).toxml(encoding="utf-8"))
    except Exception as error:  # a macro can run arbitrary code and raise any exception
        kinds = {type(one) for one in _chain(error)}
        if MemoryError in kinds:
            return f"it takes more than {MEMORY_LIMIT / 2**30:g} GB of memory"
        if RecursionError in kinds:
            return "its macros call each other endlessly"
        return str(error) or type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of the cause, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


if __name__ == "__main__":
    if sys.argv[1] == "xacro":
        _limit_memory()
        write_result(_expand_xacro(sys.argv[2]))
    else:
        write_result(_compile_mjcf(sys.argv[2]))
