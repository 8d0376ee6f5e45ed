"""One door to every kind of FMU."""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigidblocks.block.adaptive import DEFAULT_METHOD, Method, method_of
from rigidblocks.block.block import Block
from rigidblocks.fmi.metadata import Metadata
from rigidblocks.fmi.native import model_identifier, native_fmu
from rigidblocks.fmi.object_script import object_script
from rigidblocks.fmi.python import python_fmu
from rigidblocks.fmi.script import Script, slave_of
from rigidblocks.simulation.arguments import check_numbers
from rigidblocks.system.fused import GAUSS_SEIDEL, FusedSystem
from rigidblocks.system.system import System

TARGETS = ("native", "source", "python")


def export_fmu(
    source: Block | System | str | Path,
    path: str | Path,
    target: str = "native",
    *,
    fmi: int = 2,
    platforms: str | Iterable[str] | None = None,
    tunable: str | Iterable[str] | None = None,
    name: str | None = None,
    method: Method | str | None = None,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_inner_steps: int | None = None,
    dt: float | None = None,
    order: str | None = None,
    bundle: bool = False,
    metadata: Metadata = Metadata(),  # noqa: B008 - frozen
    deflate: bool = False,
    page: bool = False,
    xcp: str | None = None,
) -> Path:
    """The path of the FMU written there, made of a block, of a system or of an FMU script.

    target      "native": binaries, which need no Python; "source": C code, with binaries too if
                `platforms` are given; "python": for hosts that are Python programs, with all of
                rigidblocks when `bundle` is set
    fmi         the version of the standard
    platforms   "all", or names as in FMI 3.0 (x86_64-linux), built by ziglang; this machine's alone
                unless given
    tunable     the names of the parameters that can be set in the FMU; the others are constants;
                all unless given
    name        the model identifier; the name of the script's class or of the block's type unless
                given
    method, h, rtol, atol, max_inner_steps
                how a block is integrated, as in `System.add`, or as the script says
    dt, order   the co-simulation step [s] of a system and the order of its parts; it becomes one
                FMU as a FusedSystem
    metadata    author, version, copyright, license and description of the FMU
    deflate     whether to compress the archive; its bytes then depend on the version of zlib
    xcp         where the FMU listens for tools for measurement and calibration (FMI-LS-XCP): a
                port of this machine, or an address such as 127.0.0.1:5555; nowhere unless given
    page        whether its documentation has a page in which the robot runs, compiled by ziglang

    Raises ValueError for what is not known and for an option that the source or the target has no
    use for, TypeError for a source that is none, IsADirectoryError for the path of a folder, and
    what `native_fmu`, `python_fmu` and
    `FusedSystem` raise.
    """
    _check(source, path, target)
    tunable = (tunable,) if isinstance(tunable, str) else tunable
    _refuse(
        None if isinstance(source, System) else {"dt": dt, "order": order},
        "only a System is stepped by",
    )
    stepping = {
        "method": method, "h": h, "rtol": rtol, "atol": atol, "max_inner_steps": max_inner_steps,
    }  # fmt: skip
    if isinstance(source, System):
        _refuse(stepping, "each part of a System has its own")
    if target == "python":
        options = {"fmi": None if fmi == 2 else fmi, "platforms": platforms, "xcp": xcp}
        _refuse(options, "a Python FMU is FMI 2.0 for all platforms: it takes no")
        changes = {"tunable": tunable, "name": name} | stepping
        packaging = {"bundle": bundle, "metadata": metadata, "deflate": deflate}
        fmu = _python_fmu(source, path, (dt, order), changes, packaging)
        return _with_page(fmu, source, dt, deflate) if page else fmu
    _refuse({"bundle": bundle or None}, "only a Python FMU has use for")
    made = _made(source, dt, order)
    fmu = native_fmu(
        made.block,
        path,
        name=made.name if name is None else name,
        method=method_of(method or made.method, rtol, atol, max_inner_steps),
        h=made.h if h is None and method is None else h,
        tunable=made.tunable if tunable is None else tuple(tunable),
        fmi=fmi,
        platforms=() if target == "source" and platforms is None else platforms,
        sources=target == "source",
        metadata=metadata,
        deflate=deflate,
        xcp=xcp,
    )
    return _with_page(fmu, source, dt, deflate) if page else fmu


def _python_fmu(
    source: Block | System | str | Path,
    path: str | Path,
    steps: tuple[float | None, str | None],
    changes: dict[str, Any],
    packaging: dict[str, Any],
) -> Path:
    """A Python FMU of a script, or of an object as it is."""
    if isinstance(source, str | Path):
        _refuse(changes, "a script says what its FMU is: it takes no")
        return python_fmu(source, path, **packaging)
    with tempfile.TemporaryDirectory() as folder:
        script = _object_script(_made(source, *steps), Path(folder), changes)
        return python_fmu(script, path, **packaging)


def _with_page(
    fmu: Path, source: Block | System | str | Path, dt: float | None, deflate: bool
) -> Path:
    """The FMU with a page in which it runs."""
    from rigidblocks.fmi.page import add_page  # only where it is wanted: it needs what draws robots

    shown = source if isinstance(source, System) else _made(source, None, None).block
    add_page(fmu, shown, dt, deflate)
    return fmu


@dataclass(frozen=True, eq=False)
class _Made:
    """A block with how it is packaged unless something else is asked for."""

    block: Block
    name: str | None = None
    method: Method = DEFAULT_METHOD
    h: float | None = None
    tunable: tuple[str, ...] | None = None


def _made(source: Block | System | str | Path, dt: float | None, order: str | None) -> _Made:
    if isinstance(source, Block):
        return _Made(source)
    if isinstance(source, System):
        if dt is None:
            raise ValueError("a System needs the co-simulation step dt [s] that its FMU is to take")
        check_numbers({"dt": dt})
        return _Made(FusedSystem(source, dt, GAUSS_SEIDEL if order is None else order))
    script = slave_of(source)
    return _Made(script.memory.block, script.name, script.method, script.h, script.memory.tunable)


def _object_script(made: _Made, folder: Path, changes: Mapping[str, Any]) -> Script:
    """A script written to `folder` that says what has been made, with what is to be different."""
    given = {key: value for key, value in changes.items() if value is not None}
    name = model_identifier(given.pop("name", type(made.block).__name__))
    options = {"method": made.method, "h": made.h, "tunable": None} | given
    return object_script(folder, name, made.block, options)


def _check(source: object, path: str | Path, target: str) -> None:
    """Raises for an unknown target, for a source that is none, and for the path of a folder."""
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not '{target}'")
    if not isinstance(source, Block | System | str | Path):
        raise TypeError(
            f"an FMU is made of a block, a System or a script, not of a {type(source).__name__}; "
            "RobotPlant(model) is the block of a model"
        )
    if Path(path).is_dir():
        raise IsADirectoryError(f"cannot write the FMU '{path}': it is a folder")


def _refuse(options: Mapping[str, object] | None, reason: str) -> None:
    """Raises ValueError when one of the options has been given."""
    if given := [name for name, value in (options or {}).items() if value is not None]:
        raise ValueError(f"{reason} {' and '.join(given)}")
