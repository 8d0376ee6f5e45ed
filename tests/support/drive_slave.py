"""Run the slave of an unpacked FMU in a Python without other packages, and print JSON results.

    drive_slave.py RESOURCES INPUTS INSTALLED NUMPY

INPUTS are the inputs at the start and before each step. Unless INSTALLED is true, the folders with
rigidblocks or pythonfmu are not on the path. NUMPY is a folder that contains only NumPy.
"""

import importlib
import json
import sys
from pathlib import Path

BLOCKED = {
    "casadi",
    "fmpy",
    "ziglang",
    "matplotlib",
    "pandas",
    "scipy",
    "tqdm",
    "platformdirs",
    "lxml",
}


class Blocker:
    """Importer that rejects the blocked packages."""

    def find_spec(self, name, *_):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")


def without_packages(folder: Path) -> list[str]:
    """Return the import path without the installed packages, but with `folder`."""
    return [
        p
        for p in sys.path
        if not any(Path(p, name).exists() for name in ("rigidblocks", "pythonfmu"))
    ] + [str(folder)]


def slave_in(resources: Path):
    """Return the slave of the unpacked FMU, created like in pythonfmu."""
    sys.path.insert(0, str(resources))
    module = importlib.import_module((resources / "slavemodule.txt").read_text())
    base = importlib.import_module("rigidblocks.fmi.slave").BlockSlave
    (slave_class,) = (c for c in base.__subclasses__() if c.__module__ == module.__name__)
    return slave_class(instance_name="slave", resources=str(resources))


def main(resources: str, inputs: str, installed: str, numpy_only: str) -> None:
    """Run the slave for one step with each of the inputs after the first."""
    sys.meta_path.insert(0, Blocker())
    if not json.loads(installed):
        sys.path[:] = without_packages(Path(numpy_only))
    slave = slave_in(Path(resources))
    u = list(range(slave.layout.u.start, slave.layout.u.stop))
    first, *others = json.loads(inputs)
    slave.set_real(u, first)
    slave.setup_experiment(0.0)
    slave.enter_initialization_mode()
    slave.exit_initialization_mode()
    for k, values in enumerate(others):
        slave.set_real(u, values)
        assert slave.do_step(k * 1e-3, 1e-3), [message.msg for message in slave.log_queue]
    seen = {
        "memory": slave.get_real(list(range(slave.layout.size))),
        "blocked": sorted(BLOCKED & set(sys.modules)),
        "rigidblocks": sys.modules["rigidblocks"].__file__,
        "log": [message.msg for message in slave.log_queue],
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
