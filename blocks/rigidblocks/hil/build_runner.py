"""Generation of a standalone real-time C program (runner) from a system with links."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from rigidblocks.block.adaptive_methods import longest_step
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.compiler import PORTABLE_FLAGS, compiler, cross_compiler, run_compiler
from rigidblocks.common.escaping import cmake_name, cmake_text
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL, JACOBI, FusedSystem
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.masters.c_loop_tables import SOURCES
from rigidblocks.fmi.xcp import Element, a2l_text, c_bound, elements_of, plan_text
from rigidblocks.hil.fmu_tables import unpack
from rigidblocks.hil.links import Addresses, Link, PacketLink, SharedLink
from rigidblocks.hil.runner_tables import (
    Layout,
    Linked,
    SequentialParts,
    integers,
    layout_of,
    link_with_indices,
    links_header,
)
from rigidblocks.kernels.model_header import KERNEL, model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.c_notation import c_string
from rigidblocks.tracing.ccode import c_number, c_text

PLATFORMS = {"x86_64-linux": "x86_64-linux-gnu.2.17", "aarch64-linux": "aarch64-linux-gnu.2.17"}
CORE = ("bare_metal_step.c", "bare_metal_step.h")
# used instead of CORE in a program with FMUs
PARTS = ("system_step.c", "imported_fmus.h", "bare_metal_step.h")
PROGRAM = ("runner.c", "link.c", "recorder.c")  # C files of each program
HEADERS = ("link.h", "packet.h", "recorder.h", "scenario.h", "shared_memory.h")
XCP = ("xcp.h", "xcp_udp.h")
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
    """Build a real-time program that steps a system every `dt` [s].

    Parts of the types `UdpLink`, `SharedLink` and `CanLink` become links of the program, which
    exchange their signals at each communication point. FMUs for co-simulation and scheduled
    execution are unpacked to the folder PROGRAM.fmus next to the program, and the program loads the
    FMU libraries from this folder. In lock-step, the results equal the results of `simulate` to the
    last bit. If the system has a `UdpLink` or `SharedLink`, the build also writes `packet.py`,
    which packs and unpacks the packets, next to the program. `--help` lists the options of the
    program.

    Args:
        system: System of blocks, links, and FMUs for co-simulation or scheduled execution.
        path: Path of the program, or of the folder of sources.
        dt: Communication step [s].
        order: Order of the parts as in `simulate`; links require Gauss-Seidel order.
        platform: Target "x86_64-linux" or "aarch64-linux", compiled by ziglang. By default, the
            local compiler builds for this machine. For "source", `path` is a folder for the
            sources, a CMakeLists.txt and `bare_metal_step.c`. `bare_metal_step.c` needs no
            operating system: a timer of the target calls the steps.
        xcp: Port or address of the XCP server of the program; the default host is this machine.

    Returns:
        The path of the program or the folder.

    Raises:
        ValueError: A part runs Python, or is an FMU that a runner does not support. An input of a
            link is not connected. Links are used in Jacobi order. A connection to or from a link
            needs a `UnitDelay`, because a link holds its values during a step.
        FmuError: An FMU has no library for the platform.
        CompilerError: No compiler is available.
        FileExistsError: Another file `packet.py` exists next to the program.

    Also raises the exceptions of `FusedSystem`.
    """
    if platform not in (None, SOURCE, *PLATFORMS):
        known = ", ".join((*PLATFORMS, SOURCE))
        raise ValueError(f"unknown platform '{platform}'; expected one of {known}")
    path = Path(path)
    if not path.stem:
        raise ValueError(f"'{path}' is not a valid program name; give a file name such as 'plant'")
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
    path.parent.mkdir(parents=True, exist_ok=True)
    _put_partner_files(system, path.parent)
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
    """Compile the C sources to a program, with the local compiler or with ziglang for `platform`.

    `with_fmus` is True if the program loads FMUs.
    """
    command = cross_compiler(PLATFORMS[platform]) if platform else compiler()
    with tempfile.TemporaryDirectory() as folder:
        _write(sources, Path(folder))
        core = ("system_step.c", "master.c") if with_fmus else ("bare_metal_step.c",)
        out = (*PROGRAM, *core, "-o", "program", "-lm", *["-ldl"] * with_fmus, "-s")
        run_compiler((*command, *_FLAGS, *out), folder)
        shutil.copy2(Path(folder, "program"), path)


def _xcp_address(port_or_address: str | None) -> str:
    """Return the address host:port of the XCP server, or "" for None (no server).

    The default host is this machine.
    """
    if port_or_address is None:
        return ""
    address = f"127.0.0.1:{port_or_address}" if port_or_address.isdecimal() else port_or_address
    Addresses(address)
    return address


def _fmus(system: System) -> list[Part]:
    return [part for part in system.parts.values() if isinstance(part.component, Fmu)]


def _folder(name: str) -> str:
    """Return the name of the folder with the unpacked FMUs of the program `name`."""
    return f"{name}.fmus"


def _put_fmus(fmus: list[Part], folder: Path, platform: str | None) -> None:
    if fmus:
        shutil.rmtree(folder, ignore_errors=True)  # remove the FMUs of an earlier build
        unpack(fmus, folder, platform)


def runner_sources(
    system: System,
    name: str,
    dt: float,
    order: str,
    xcp: str = "",
    platform: str | None = None,
) -> dict[str, str]:
    """Return the C sources of a runner by file name, and the A2L text under the key "a2l"."""
    links = {k: p.component for k, p in system.parts.items() if isinstance(p.component, Link)}
    _check_parts(system)
    if links:
        _check_order(system, links, order)
    rest = _remove_links(system, links)
    in_turn = _fmus(system)
    core, memory = (
        _sequential_sources(SequentialParts(rest, dt, order), name, platform)
        if in_turn
        else _fused_sources(FusedSystem(rest, dt, order))
    )
    linked = [link_with_indices(key, link, system, memory) for key, link in links.items()]
    sources = core | {file: c_text(f"runner/{file}") for file in (*PROGRAM, *HEADERS, *XCP)}
    sources["system.h"] = _system_header(name, dt, memory)
    signals = list(elements_of(memory.outputs, memory.where))
    tunables = _tunables(memory, linked)
    sources["links.h"] = links_header(linked)
    sources["xcp_plan.h"] = _xcp_header(name, dt, memory, tunables, xcp)
    sources["a2l"] = a2l_text(name, signals, tunables, dt, xcp)
    return sources | _partner_files()


def _partner_files() -> dict[str, str]:
    """Return the Python files for communication partners, as text by file name."""
    modules = {"packet.py": "udp_packet.py", "shared.py": "shared_memory.py"}
    folder = files("rigidblocks.hil")
    return {name: folder.joinpath(module).read_text() for name, module in modules.items()}


def _put_partner_files(system: System, folder: Path) -> None:
    """Write the Python files for communication partners of a program to `folder`.

    Partners of a `UdpLink` need packet.py. Partners of a `SharedLink` also need shared.py.

    Raises FileExistsError if a file of the same name exists and was not written by a build.
    """
    links = [p.component for p in system.parts.values() if isinstance(p.component, PacketLink)]
    names = ["packet.py"] * bool(links) + ["shared.py"] * any(
        isinstance(link, SharedLink) for link in links
    )
    texts = _partner_files()
    for name in names:
        path, first_line = folder / name, texts[name].partition("\n")[0]
        if path.exists() and not path.read_text(errors="replace").startswith(first_line):
            raise FileExistsError(
                f"the build must write '{path}' for the partner of a link, but another file of "
                "this name exists; build the program in another folder"
            )
    for name in names:
        (folder / name).write_text(texts[name])


def _fused_sources(fused: FusedSystem) -> tuple[dict[str, str], Layout]:
    """Return the C sources and the memory layout of a fused system (without FMUs)."""
    memory = Memory(fused)
    sources = {file: c_text(f"kernel/{file}") for file in KERNEL}
    sources |= {file: c_text(f"runner/{file}") for file in CORE}
    sources["model.h"] = model_header(TracedEvaluator(memory), RK4, longest_step(RK4))
    return sources, layout_of(memory)


def _sequential_sources(
    parts: SequentialParts, name: str, platform: str | None
) -> tuple[dict[str, str], Layout]:
    """Return the C sources and the memory layout of a system with FMUs."""
    sources = {file: c_text(f"runner/{file}") for file in PARTS}
    sources |= {file: c_text(f"master/{file}") for file in SOURCES}
    sources["parts.h"] = parts.text(_folder(name), platform)
    return sources, parts.layout


def _check_parts(system: System) -> None:
    for name, part in system.parts.items():
        component = part.component
        if isinstance(component, PythonBlock) and not isinstance(component, Link):
            raise ValueError(f"a runner does not support Python parts; replace '{name}' by a link")


def _check_order(system: System, links: Mapping[str, Link], order: str) -> None:
    """Raise ValueError if the runner would exchange packets at other times than `simulate`."""
    if order == JACOBI:
        raise ValueError("order='jacobi' delays link outputs by one step; use order='gauss-seidel'")
    place = {name: k for k, name in enumerate(system.wiring().stepping_order)}
    for (a, y), (b, u), *_ in system.connections:
        reads_new = a in links and place[b] > place[a]
        sends_old = b in links and place[a] > place[b]
        if reads_new or sends_old:
            raise ValueError(
                f"{b}.{u} reads {a}.{y} without delay, but a link holds its values over a step; "
                f"insert a UnitDelay with the sample time of the runner between {a}.{y} and {b}.{u}"
            )


def _remove_links(system: System, links: Mapping[str, Link]) -> System:
    """Return the system without its links; inputs connected to links become unconnected."""
    rest = System()
    for name, part in system.parts.items():
        if name not in links:
            rest.parts[name] = part
    for one in system.connections:
        (a, _), (b, u) = one.source, one.target
        if a in links and b not in links:
            part, port = rest.parts[b], rest.parts[b].input(u)
            start = {u: port.clip(0.0)} if port.start is None else {}
            rest.parts[b] = replace(part, start={**start, **part.start})
        elif a not in links and b not in links:
            rest.connections.append(one)
    return rest


def _system_header(name: str, dt: float, memory: Layout) -> str:
    """Return the text of system.h: name, step size [s], signals and their memory indices."""
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
    """Return the elements that an XCP tool may write: parameters, and inputs that no link sets.

    `linked` contains the links of the system.
    """
    by_link = {place for one in linked for place, _ in one.targets}
    ports = (*memory.inputs, *memory.parameters)
    return [one for one in elements_of(ports, memory.where) if one.place not in by_link]


def _xcp_header(name: str, dt: float, memory: Layout, tunables: list[Element], address: str) -> str:
    """Return the text of xcp_plan.h: settable values, and the address of the XCP server."""
    rows = "".join(
        f"    {{{c_string(one.name)}, {one.place}, {c_bound(one.low)}, {c_bound(one.high)}}},\n"
        for one in tunables
    )
    return "\n".join(
        [
            "#ifndef RB_XCP_PLAN_H\n#define RB_XCP_PLAN_H\n",
            f"#define RUNNER_XCP {c_string(address)}",
            *plan_text("RUNNER_XCP_PLAN", name, memory.size, tunables, dt),
            f"enum {{ RUNNER_N_SETTABLE = {len(tunables)} }};",
            "/* the values that a scenario can set */",
            f"static const Settable RUNNER_SETTABLE[] = {{\n{rows}    {{0}}}};",
            "\n#endif\n",
        ]
    )


def _cmake(program: str) -> str:
    name = cmake_name(program)
    return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)

# only the steps, without operating system and allocation; call them from your timer
add_library({name}_core STATIC bare_metal_step.c)
target_compile_options({name}_core PRIVATE {" ".join(PORTABLE_FLAGS)})
target_link_libraries({name}_core m)

# the program, on Linux
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  find_package(Threads REQUIRED)
  add_executable({name} {" ".join(PROGRAM)})
  target_compile_options({name} PRIVATE {" ".join(PORTABLE_FLAGS)})
  target_link_libraries({name} {name}_core Threads::Threads m)
endif()
"""


def _cmake_with_fmus(program: str) -> str:
    name = cmake_name(program)
    return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)

find_package(Threads REQUIRED)
add_executable({name} {" ".join(PROGRAM)} system_step.c master.c)
target_compile_options({name} PRIVATE {" ".join(PORTABLE_FLAGS)})
target_link_libraries({name} Threads::Threads m ${{CMAKE_DL_LIBS}})
# the program loads its FMUs from this folder
file(COPY {cmake_text(_folder(program))} DESTINATION ${{CMAKE_CURRENT_BINARY_DIR}})
"""
