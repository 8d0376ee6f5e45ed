"""The platforms that native FMUs run on, each built on any machine by the C compiler of the
`ziglang` package.
"""

import struct
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import fmpy

from rigidblocks.tracing.compiler import (
    PORTABLE_FLAGS,
    cross_compiler,
    shared_library,
    straight_line_compiler,
)

ALL = "all"


@dataclass(frozen=True)
class Platform:
    """A platform by its name in FMI 3.0, and the folder of its binaries in FMI 2.0."""

    name: str
    fmi2_folder: str
    suffix: str
    target: str
    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ("-lm",)

    def folder(self, fmi: int) -> str:
        """The folder of the platform's binaries in an FMU."""
        return f"binaries/{self.fmi2_folder if fmi == 2 else self.name}"

    def install_name(self, identifier: str) -> tuple[str, ...]:
        """The flags that say what a library on macOS is called, which would otherwise be the place
        that it was built at.
        """
        return (
            (f"-Wl,-install_name,@rpath/{identifier}{self.suffix}",)
            if self.suffix == ".dylib"
            else ()
        )


# without the two flags a large straight-line function takes more than a minute
_WINDOWS_FLAGS = ("-fno-stack-check", "-mno-stack-arg-probe")
_PLATFORMS = (
    Platform("x86_64-linux", "linux64", ".so", "x86_64-linux-gnu.2.17"),
    Platform(
        "aarch64-linux", "aarch64-linux", ".so", "aarch64-linux-gnu.2.17"
    ),  # FMI 2.0.4, 2.3: the name of FMI 3.0
    Platform("x86_64-windows", "win64", ".dll", "x86_64-windows-gnu", _WINDOWS_FLAGS, ()),
    Platform("x86_64-darwin", "darwin64", ".dylib", "x86_64-macos"),
    Platform("aarch64-darwin", "aarch64-darwin", ".dylib", "aarch64-macos"),
)
PLATFORMS = {platform.name: platform for platform in _PLATFORMS}


def binaries(
    sources: Mapping[str, str],
    main: str,
    identifier: str,
    fmi: int,
    platforms: str | Iterable[str] | None,
    flags: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """The shared libraries of an FMU by their path in it.

    Without `platforms`, for this machine and by its own C compiler; for platforms that are named,
    or for all, by ziglang, at the same time. In FMI 2.0, where tools look for a Mac of either kind
    in darwin64, that holds both when both are built.

    Raises ValueError for a platform that is not known, NotImplementedError on one that FMUs cannot
    be built for, and CompilerError when there is no C compiler.
    """
    if platforms is None:
        here = _this_platform()
        built = {here: _library(sources, main, identifier, here, flags, cross=False)}
    else:
        wanted = platforms_named(platforms)
        with ThreadPoolExecutor() as pool:
            libraries = pool.map(
                lambda platform: _library(sources, main, identifier, platform, flags, cross=True),
                wanted,
            )
            built = dict(zip(wanted, libraries, strict=True))
    content = {
        f"{platform.folder(fmi)}/{identifier}{platform.suffix}": library
        for platform, library in built.items()
    }
    mac = [
        built[PLATFORMS[name]]
        for name in ("x86_64-darwin", "aarch64-darwin")
        if PLATFORMS[name] in built
    ]
    if fmi == 2 and len(mac) == 2:
        content[f"binaries/darwin64/{identifier}.dylib"] = universal(*mac)
    return content


def platforms_named(platforms: str | Iterable[str]) -> tuple[Platform, ...]:
    """The platforms by name, all of them for "all"; raises ValueError for a name that is not known
    and for no name.
    """
    if isinstance(platforms, str):
        platforms = PLATFORMS if platforms == ALL else [platforms]
    names = tuple(dict.fromkeys(platforms))
    if not names or (unknown := [name for name in names if name not in PLATFORMS]):
        what = (
            "there is no platform to build for"
            if not names
            else f"there is no platform '{unknown[0]}'"
        )
        raise ValueError(f"{what}; choose among {', '.join(PLATFORMS)}, or {ALL}")
    return tuple(PLATFORMS[name] for name in names)


def universal(x86_64: bytes, arm64: bytes) -> bytes:
    """The library for macOS that holds both, each from a multiple of 16 KiB (loader.h, fat.h of
    macOS).
    """
    align = 14
    offsets = [1 << align, (len(x86_64) + (2 << align) - 1) >> align << align]
    header = struct.pack(">2I", 0xCAFEBABE, 2)
    header += struct.pack(">5I", 0x01000007, 3, offsets[0], len(x86_64), align)
    header += struct.pack(">5I", 0x0100000C, 0, offsets[1], len(arm64), align)
    return (header.ljust(offsets[0], b"\0") + x86_64).ljust(offsets[1], b"\0") + arm64


def _library(
    sources: Mapping[str, str],
    main: str,
    identifier: str,
    platform: Platform,
    more: tuple[str, ...],
    *,
    cross: bool,
) -> bytes:
    command = cross_compiler(platform.target) if cross else straight_line_compiler()
    flags = (*PORTABLE_FLAGS, *more, *platform.flags, *platform.install_name(identifier))
    name = f"{identifier}{platform.suffix}"
    return shared_library(sources, main, flags, command, name=name, link=platform.link).read_bytes()


def _this_platform() -> Platform:
    if fmpy.platform_tuple not in PLATFORMS:
        raise NotImplementedError(
            f"native FMUs can be built for {', '.join(PLATFORMS)}, not for {fmpy.platform_tuple}"
        )
    return PLATFORMS[fmpy.platform_tuple]
