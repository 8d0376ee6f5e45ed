"""The command `new`."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from rigidblocks.cli.application import APP, Json, say

BLOCK = '''"""{title}: the script of an FMU, to be changed.

Build it with `rigidblocks fmu {name}_fmu.py`.
"""

from dataclasses import dataclass

from rigidblocks import Block, Port, clip
from rigidblocks.fmi.slave import BlockSlave


@dataclass(frozen=True)
class {title}(Block):
    """A lag with a limit: T dy/dt = limited(u) - y."""

    T: float = 0.1
    limit: float = 2.0
    inputs = (Port("u", unit="1", start=0.0),)
    outputs = states = (Port("y", unit="1", start=0.0),)

    @property
    def parameters(self):
        time_constant = Port("T", unit="s", start=self.T, positive=True)
        return time_constant, Port("limit", unit="1", start=self.limit, min=0.0)

    def derivative(self, x, u, p):
        return {{"y": (clip(u.u, -p.limit, p.limit) - x.y) / p.T}}


class {title}Slave(BlockSlave):
    def __init__(self, **kwargs):
        super().__init__({title}(), **kwargs)
'''
SYSTEM = '''"""{title} in a system, to be changed: `rigidblocks run {name}_system.py`."""

from {name}_fmu import {title}

from rigidblocks import System

system = System()
system.add("{name}", {title}(), start={{"u": 1.0}})
'''


@APP.command("new")
def new(
    name: Annotated[str, Argument(help="The name of the block: letters, digits and _.")],
    as_json: Json = False,
) -> None:
    """Begin a block of your own: the script of its FMU, and a system that runs it."""
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"'{name}' cannot name a block: it must be letters, digits and _")
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    texts = {Path(f"{name}_fmu.py"): BLOCK, Path(f"{name}_system.py"): SYSTEM}
    if there := [str(path) for path in texts if path.exists()]:
        raise ValueError(f"{' and '.join(there)} is there already, and is not overwritten")
    for path, text in texts.items():
        path.write_text(text.format(name=name, title=title))
    made = [str(path) for path in texts]
    say("\n".join(made), {"files": made}, as_json)
