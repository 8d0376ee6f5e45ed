"""One door to every kind of FMU."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rigidblocks.block import Block
from rigidblocks.fmi.native import native_fmu
from rigidblocks.fmi.python import python_fmu
from rigidblocks.fmi.script import slave_of
from rigidblocks.fused import GAUSS_SEIDEL, FusedSystem
from rigidblocks.integrate import RK4, Integrator
from rigidblocks.system import System

TARGETS = ("native", "source", "python")


def export_fmu(
    source: Block | System | str | Path,
    path: str | Path,
    target: str = "native",
    *,
    fmi: int = 2,
    platforms: str | Iterable[str] | None = None,
    tunable: Iterable[str] | None = None,
    name: str | None = None,
    method: Integrator | None = None,
    h: float | None = None,
    dt: float | None = None,
    order: str | None = None,
    bundle: bool = False,
) -> Path:
    """The path of the FMU written there, made of a block, of a system or of an FMU script.

    target      "native": binaries, which need no Python; "source": C code, with binaries too if `platforms` are given;
                "python": the script itself, with all of rigidblocks when `bundle` is set
    fmi         the version of the standard
    platforms   "all", or names as in FMI 3.0 (x86_64-linux), built by ziglang; this machine's alone unless given
    tunable     the names of the parameters that can be set in the FMU; the others are constants; all unless given
    name        the model identifier; the name of the script's class or of the block's type unless given
    method, h   how a block is integrated, with inner steps of at most h [s]; RK4 and 1 ms, or as the script says
    dt, order   the co-simulation step [s] of a system and the order of its parts; it becomes one FMU as a FusedSystem

    Raises ValueError for what is not known and for an option that the source or the target has no use for, and what
    `native_fmu`, `python_fmu` and `FusedSystem` raise.
    """
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not '{target}'")
    _refuse(None if isinstance(source, System) else {"dt": dt, "order": order}, "only a System is stepped by")
    _refuse({"method": method, "h": h} if isinstance(source, System) else None, "each part of a System has its own")
    if target == "python":
        options = {"fmi": None if fmi == 2 else fmi, "platforms": platforms, "tunable": tunable, "name": name}
        _refuse(options | {"method": method, "h": h}, "a Python FMU is FMI 2.0 and what its script says: it takes no")
        return _python_fmu(source, path, bundle)
    _refuse({"bundle": bundle or None}, "only a Python FMU has use for")
    made = _made(source, dt, order)
    return native_fmu(
        made.block,
        path,
        name=made.name if name is None else name,
        method=made.method if method is None else method,
        h=made.h if h is None else h,
        tunable=made.tunable if tunable is None else tuple(tunable),
        fmi=fmi,
        platforms=() if target == "source" and platforms is None else platforms,
        sources=target == "source",
    )


@dataclass(frozen=True, eq=False)
class _Made:
    """A block with how it is packaged unless something else is asked for."""

    block: Block
    name: str | None = None
    method: Integrator = RK4
    h: float = 1e-3
    tunable: tuple[str, ...] | None = None


def _made(source: Block | System | str | Path, dt: float | None, order: str | None) -> _Made:
    if isinstance(source, Block):
        return _Made(source)
    if isinstance(source, System):
        if dt is None:
            raise ValueError("a System needs the co-simulation step dt [s] that its FMU is to take")
        return _Made(FusedSystem(source, dt, GAUSS_SEIDEL if order is None else order))
    script = slave_of(source)
    return _Made(script.flat.block, script.name, script.method, script.h, script.flat.tunable)


def _python_fmu(source: Block | System | str | Path, path: str | Path, bundle: bool) -> Path:
    if isinstance(source, Block | System):
        raise ValueError(f"a Python FMU is made of a script; write one whose class names the {type(source).__name__}")
    return python_fmu(source, path, bundle=bundle)


def _refuse(options: dict[str, object] | None, reason: str) -> None:
    """Raises ValueError when one of the options has been given."""
    if given := [name for name, value in (options or {}).items() if value is not None]:
        raise ValueError(f"{reason} {' and '.join(given)}")
