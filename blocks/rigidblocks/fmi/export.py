"""One door to every kind of FMU."""

from pathlib import Path

from rigidblocks.block import Block
from rigidblocks.fmi.native import native_fmu
from rigidblocks.fmi.python import python_fmu
from rigidblocks.fmi.script import slave_of

TARGETS = ("python", "native")


def export_fmu(source: Block | str | Path, path: str | Path, target: str = "native", *, bundle: bool = False) -> Path:
    """The path of the FMU written there, made of a block or of an FMU script.

    `target` is "native", which needs no Python at run time, or "python", which needs a script; `bundle` puts rigidblocks
    into a Python FMU. Raises ValueError for another target and for a block as a Python FMU, and what `native_fmu` and
    `python_fmu` raise.
    """
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not '{target}'")
    if target == "python":
        if isinstance(source, Block):
            raise ValueError(f"a Python FMU is made of a script; write one whose class names the {type(source).__name__}")
        return python_fmu(source, path, bundle=bundle)
    if isinstance(source, Block):
        return native_fmu(source, path)
    script = slave_of(source)
    return native_fmu(
        script.flat.block, path, name=script.name, method=script.method, h=script.h, tunable=script.flat.tunable
    )
