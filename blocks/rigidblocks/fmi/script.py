"""The scripts of FMUs: Python files with one class that names a block. They serve Python and native
FMUs alike.
"""

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pythonfmu.fmi2slave import Fmi2Slave

from rigidblocks.block.adaptive import Method
from rigidblocks.block.memory import Memory
from rigidblocks.fmi.beside import run_script
from rigidblocks.fmi.package import digest
from rigidblocks.fmi.slave import BlockSlave


@dataclass(frozen=True, eq=False)
class Script:
    """What the script of an FMU says: the name of its class, its block with what is tunable, and
    how it is stepped; `beside` has the files of the modules beside it that it imports, and what
    else has to lie there, by path.
    """

    path: Path
    name: str
    memory: Memory
    method: Method
    h: float
    beside: Mapping[str, bytes]

    def module_name(self, salt: str) -> str:
        """A module name from the script's stem and a digest of its text and `salt`, which no other
        module has.
        """
        stem = re.sub(r"\W", "_", self.path.stem)
        return f"{stem}_{digest({'text': self.path.read_bytes(), 'salt': salt.encode()})}"


def slave_of(path: str | Path) -> Script:
    """What the script at `path` says.

    Raises FileNotFoundError when there is none, ValueError when it is no file of Python or has not
    exactly one slave class with an __init__ of its own, and what the script itself raises, with a
    note.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no script {path}")
    if path.suffix != ".py":
        raise ValueError(
            f"'{path.name}' is no script: its name must end in .py; the plant of a robot's file is "
            "described_plant(load_model(...)), of rigidblocks.library.described"
        )
    try:
        module, beside = _module(path)
        slave_class = _slave_class(module, path)
        slave: BlockSlave = slave_class(instance_name=slave_class.__name__)
    except Exception as error:
        error.add_note(f"in the FMU script {path}")
        raise
    stepper = slave.stepper
    return Script(path, slave_class.__name__, slave.layout, stepper.method, stepper.h, beside)


def _module(path: Path) -> tuple[ModuleType, dict[str, bytes]]:
    """The script as a module under a name of its own, and the files that it imports from beside
    it.
    """
    module = ModuleType(f"rigidblocks_script_{digest({path.name: path.read_bytes()})}")
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    try:
        return module, run_script(path, module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise


def _slave_class(module: ModuleType, path: Path) -> Any:
    """The one class that pythonfmu takes: it wants the deepest, under its own name, in the
    module.
    """
    classes = {
        c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, Fmi2Slave)
    }
    depth = max((len(c.__mro__) for c in classes), default=0)
    deepest = sorted((c for c in classes if len(c.__mro__) == depth), key=lambda c: c.__name__)
    own = [c for c in deepest if c.__module__ == module.__name__ and issubclass(c, BlockSlave)]
    if len(deepest) != 1 or own != deepest:
        found = ", ".join(c.__name__ for c in deepest if c is not BlockSlave) or "none"
        raise ValueError(
            f"{path.name} must have exactly one class derived from BlockSlave; it has: {found}"
        )
    (slave,) = own
    if "__init__" not in vars(slave):
        raise ValueError(
            f"class {slave.__name__} of {path.name} needs an __init__ of its own that names the "
            "block"
        )
    if getattr(module, slave.__name__, None) is not slave:
        raise ValueError(f"class {slave.__name__} of {path.name} must be there under its own name")
    return slave
