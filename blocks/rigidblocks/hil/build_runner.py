"""A system as one program in C, without Python: its steps at the pace of the clock, with links."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from rigidblocks.bench.fmus import unpack
from rigidblocks.bench.layout import Layout, layout_of
from rigidblocks.bench.link import Link
from rigidblocks.bench.link_tables import Linked, integers, linked_of, links_header
from rigidblocks.bench.parts import PartsInTurn
from rigidblocks.bench.udp_link import Addresses
from rigidblocks.block.adaptive import longest_step
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.fmi.a2l import Element, a2l_text, elements_of, plan_text
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.kernel import KERNEL, model_header
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fused import GAUSS_SEIDEL, JACOBI, FusedSystem
from rigidblocks.system.part import Part
from rigidblocks.system.system import System
from rigidblocks.tracing.ccode import c_number, c_string, c_text
from rigidblocks.tracing.compiler import PORTABLE_FLAGS, compiler, cross_compiler, run_compiler

PLATFORMS = {"x86_64-linux": "x86_64-linux-gnu.2.17", "aarch64-linux": "aarch64-linux-gnu.2.17"}
CORE = ("core.c", "core.h")
PARTS = ("parts.c", "core.h", "fmu.h", "fmu_life.h", "fmu_values.h")  # in place of it, with FMUs
MASTER = ("master.c", "master.h")
RUNNER = (
    "address.h",
    "can.h",
    "clock.h",
    "frame.h",
    "link.h",
    "link_plan.h",
    "packet.h",
    "record.h",
    "runner.c",
    "shared.h",
    "tap.h",
    "times.h",
)
XCP = ("xcp.h", "xcp_daq.h", "xcp_udp.h")
SOURCE = "source"
_FLAGS = (*PORTABLE_FLAGS, "-pthread")


def build_runner(
    system: System,
    path: str | Path,
    dt: float,
    *,
    order: str = GAUSS_SEIDEL,
    platform: str | None = None,
    xcp: str | None = None,
) -> Path:
    """The path of the program written there, which steps a system of blocks every `dt` [s].

    Its parts that are a `UdpLink`, a `SharedLink` or a `CanLink` become links of the program: their
    signals are exchanged at each communication point. FMUs for co-simulation are unpacked to a
    folder beside the program, named after it with the ending .fmus, from which it loads their
    libraries. In lock-step the numbers are those of `simulate` to the last bit.
    `platform` is "x86_64-linux" or "aarch64-linux", built by ziglang, this machine's by its own
    compiler unless given; or "source": then `path` is a folder with the sources, a CMakeLists.txt,
    and `core.c`, which needs no operating system, for a bench whose timer calls the steps. The
    program says by `--help` what it can do.

    Raises ValueError for Python among the parts and for FMUs that it cannot step, for a link whose
    inputs are not all connected, for links in the order of Jacobi, and where a part reads a link at
    once, because what comes in is held over the step; FmuError for an FMU without a library for the
    platform; CompilerError without a compiler; and what `FusedSystem` raises.
    """
    if platform not in (None, SOURCE, *PLATFORMS):
        known = ", ".join((*PLATFORMS, SOURCE))
        raise ValueError(f"there is no platform '{platform}'; choose among {known}")
    path = Path(path)
    if not path.stem:
        raise ValueError(f"a program needs a name, such as plant, not '{path}'")
    xcp_at = _xcp_address(xcp)
    target, fmus = (None if platform == SOURCE else platform), _fmus(system)
    sources = runner_sources(system, path.stem, dt, order, xcp_at, target)
    a2l = sources.pop("a2l")
    if platform == SOURCE:
        sources["CMakeLists.txt"] = _cmake_with_fmus(path.stem) if fmus else _cmake(path.stem)
        if xcp_at:
            sources[f"{path.stem}.a2l"] = a2l
        path.mkdir(parents=True, exist_ok=True)
        _write(sources, path)
        _put_fmus(fmus, path / _folder(path.stem), target)
        return path
    _put_fmus(fmus, path.with_name(_folder(path.stem)), target)
    _compile(sources, path, platform, with_fmus=bool(fmus))
    if xcp_at:
        path.with_suffix(".a2l").write_text(a2l)
    return path


def _write(sources: Mapping[str, str], folder: Path) -> None:
    for name, text in sources.items():
        (folder / name).write_text(text)


def _compile(
    sources: Mapping[str, str], path: Path, platform: str | None, *, with_fmus: bool
) -> None:
    """Writes the program."""
    command = cross_compiler(PLATFORMS[platform]) if platform else compiler()
    with tempfile.TemporaryDirectory() as folder:
        _write(sources, Path(folder))
        core = ("parts.c", "master.c") if with_fmus else ("core.c",)
        out = ("runner.c", *core, "-o", "program", "-lm", *["-ldl"] * with_fmus, "-s")
        run_compiler((*command, *_FLAGS, *out), folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(folder, "program"), path)


def _xcp_address(given: str | None) -> str:
    """Where tools connect to, on this machine unless an address says something else; "" without."""
    if given is None:
        return ""
    address = f"127.0.0.1:{given}" if given.isdecimal() else given
    Addresses(address)
    return address


def _fmus(system: System) -> list[Part]:
    return [part for part in system.parts.values() if isinstance(part.component, Fmu)]


def _folder(name: str) -> str:
    """The folder of the FMUs of a program."""
    return f"{name}.fmus"


def _put_fmus(fmus: list[Part], folder: Path, platform: str | None) -> None:
    if fmus:
        shutil.rmtree(folder, ignore_errors=True)  # of a program that was there before
        unpack(fmus, folder, platform)


def runner_sources(
    system: System,
    name: str,
    dt: float,
    order: str,
    xcp: str = "",
    platform: str | None = None,
) -> dict[str, str]:
    """The C sources of a runner, by file name; and "a2l", for a tool that connects at `xcp`."""
    links = {k: p.component for k, p in system.parts.items() if isinstance(p.component, Link)}
    _check_parts(system)
    if links:
        _check_order(system, links, order)
    rest = _without(system, links)
    in_turn = _fmus(system)
    core, memory = (
        _parts_in_turn(PartsInTurn(rest, dt, order), name, platform)
        if in_turn
        else _as_one(FusedSystem(rest, dt, order))
    )
    linked = [linked_of(key, link, system, memory) for key, link in links.items()]
    sources = core | {file: c_text(f"runner/{file}") for file in (*RUNNER, *XCP)}
    sources["system.h"] = _system_header(name, dt, memory)
    sources["links.h"] = links_header(linked)
    signals = list(elements_of(memory.outputs, memory.where))
    tunables = _tunables(memory, linked)
    sources["xcp_plan.h"] = _xcp_header(name, dt, memory, tunables, xcp)
    sources["a2l"] = a2l_text(name, signals, tunables, dt, xcp)
    for file in ("packet.py", "shared.py"):
        sources[file] = files("rigidblocks.bench").joinpath(file).read_text()
    return sources


def _as_one(fused: FusedSystem) -> tuple[dict[str, str], Layout]:
    """The sources of the core of a system as one block, and its memory."""
    memory = Memory(fused)
    sources = {file: c_text(f"kernel/{file}") for file in KERNEL}
    sources |= {file: c_text(f"runner/{file}") for file in CORE}
    sources["model.h"] = model_header(TracedEvaluator(memory), RK4, longest_step(RK4))
    return sources, layout_of(memory)


def _parts_in_turn(
    parts: PartsInTurn, name: str, platform: str | None
) -> tuple[dict[str, str], Layout]:
    """The same of one whose parts step one after the other."""
    sources = {file: c_text(f"runner/{file}") for file in PARTS}
    sources |= {file: c_text(f"master/{file}") for file in MASTER}
    sources["parts.h"] = parts.text(_folder(name), platform)
    return sources, parts.layout


def _check_parts(system: System) -> None:
    for name, part in system.parts.items():
        component = part.component
        if isinstance(component, PythonBlock) and not isinstance(component, Link):
            raise ValueError(f"'{name}' is Python, and a runner has none; put a link in its place")


def _check_order(system: System, links: Mapping[str, Link], order: str) -> None:
    """Raises ValueError where `simulate` would exchange packets at another moment."""
    if order == JACOBI:
        raise ValueError(
            "in the order of Jacobi a link would send what is one step old: take gauss-seidel"
        )
    place = {name: k for k, name in enumerate(system.wiring().stepping_order)}
    for (a, y), (b, u), *_ in system.connections:
        reads_new = a in links and place[b] > place[a]
        sends_old = b in links and place[a] > place[b]
        if reads_new or sends_old:
            raise ValueError(
                f"{b}.{u} reads {a}.{y} at once, and what comes in by a link is held over a step: "
                f"put a UnitDelay with the sample time of the runner between {a}.{y} and {b}.{u}"
            )


def _without(system: System, links: Mapping[str, Link]) -> System:
    """The system without its links; what they give are open inputs."""
    rest = System()
    for name, part in system.parts.items():
        if name not in links:
            rest.parts[name] = part
    for one in system.connections:
        (a, _), (b, u) = one.source, one.target
        if a in links and b not in links:
            part, port = rest.parts[b], rest.parts[b].input(u)
            start = {u: port.within(0.0)} if port.start is None else {}
            rest.parts[b] = replace(part, start={**start, **part.start})
        elif a not in links and b not in links:
            rest.connections.append(one)
    return rest


def _system_header(name: str, dt: float, memory: Layout) -> str:
    """system.h: what the program knows of its system."""
    signals = [
        (element, memory.where[port.name].start + k)
        for port in memory.outputs
        for k, element in enumerate(port.element_names)
    ]
    names = ",\n    ".join(c_string(element) for element, _ in signals)
    return "\n".join(
        [
            "#ifndef RB_SYSTEM_H\n#define RB_SYSTEM_H\n",
            f"#define RUNNER_NAME {c_string(name)}",
            f"#define RUNNER_DT {c_number(dt)} /* s */",
            f"enum {{ RUNNER_N_SIGNALS = {len(signals)} }};",
            "/* the signals, and where each is in the memory */",
            f"static const char *const RUNNER_SIGNALS[] = {{\n    {names}}};",
            integers("RUNNER_PLACES", (place for _, place in signals)),
            "\n#endif\n",
        ]
    )


def _tunables(memory: Layout, linked: list[Linked]) -> list[Element]:
    """What may be changed while it runs: parameters, and inputs that come by no link."""
    by_link = {place for one in linked for place, _ in one.targets}
    ports = (*memory.inputs, *memory.parameters)
    return [one for one in elements_of(ports, memory.where) if one.place not in by_link]


def _xcp_header(name: str, dt: float, memory: Layout, tunables: list[Element], address: str) -> str:
    """xcp_plan.h: what a program tells tools that connect to it."""
    return "\n".join(
        [
            "#ifndef RB_XCP_PLAN_H\n#define RB_XCP_PLAN_H\n",
            f"#define RUNNER_XCP {c_string(address)}",
            *plan_text("RUNNER_XCP_PLAN", name, memory.size, tunables, dt),
            "\n#endif\n",
        ]
    )


def _cmake(name: str) -> str:
    return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)

# the steps alone: no operating system, no allocation; for a timer of your own
add_library({name}_core STATIC core.c)
target_compile_options({name}_core PRIVATE {" ".join(PORTABLE_FLAGS)})
target_link_libraries({name}_core m)

# the program, on Linux
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  find_package(Threads REQUIRED)
  add_executable({name} runner.c)
  target_compile_options({name} PRIVATE {" ".join(PORTABLE_FLAGS)})
  target_link_libraries({name} {name}_core Threads::Threads m)
endif()
"""


def _cmake_with_fmus(name: str) -> str:
    return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)

find_package(Threads REQUIRED)
add_executable({name} runner.c parts.c master.c)
target_compile_options({name} PRIVATE {" ".join(PORTABLE_FLAGS)})
target_link_libraries({name} Threads::Threads m ${{CMAKE_DL_LIBS}})
# from where it loads them
file(COPY {_folder(name)} DESTINATION ${{CMAKE_CURRENT_BINARY_DIR}})
"""
