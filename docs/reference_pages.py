"""Reference pages of the site: blocks with ports and reference runs, public names, command line."""

import ast
import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

import rigidblocks
import rigidblocks.cli
from rigidblocks.block.block import Block
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cli.app import APP
from rigidblocks.fmi import docstring_html
from rigidblocks.fmi.documentation import ReferenceRun, ports_and_run
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.robot_description.schema_coverage import (
    MJCF,
    SDF,
    URDF,
    IgnoredElement,
    ReadElement,
    RejectedElement,
    ReportedElement,
)

PACKAGE = Path(rigidblocks.__file__).parent
DOCS = Path(__file__).parent
WIDTH, LONG = 100, 40  # characters of a line, and of an argument that is not shortened
MAX_LINKS = 4  # pages listed under "In use"
SUPPORT = Path(__file__).parents[1] / "tests/support"
# packages that collect their public names
FACES = ("", "contact", "dynamics", "library", "dynamics.loops", "robot.joints")
MODULES = ("robot.robots", "spatial.spatial", "spatial.planar")
# public names of modules that also have other names
NAMES = {
    "block.dense_output": "first_event",
    "block.integrators": (
        "EULER HEUN LINEARLY_IMPLICIT_EULER RK4 RODAS3 ROS2 SEMI_IMPLICIT_EULER Integrator"
    ),
    "cosim.batch_simulation": "Batch BatchResult",
    "cosim.contact_events": "simulate_contact",
    "cosim.graph.linear_analysis": "FrequencyResponse Margins StepResponse",
    "cosim.graph.linearization": "Linearization",
    "cosim.independent_motion": "move_independently",
    "dynamics.drives": "Drive Elasticity Follower Gearbox PositionServo VelocityServo",
    "dynamics.force_elements": (
        "AgainstGravity AlongFrame AlongJoint AlongVelocity Between JointSum"
    ),
    "dynamics.force_laws": "ConstantForce Drag LuGre Stiction Stop",
    "dynamics.hydraulics": "HydraulicCylinder",
    "dynamics.kinematics": "IKSolution",
    "dynamics.motors": (
        "AffineMotor CurrentLoop DCMotor Rotor SynchronousMotor Thermal TorqueMotor bandwidth_gains"
    ),
    "fmi.ssp.osp": "load_osp",
    "hil.can_link": "CanLink",
    "hil.fmu_server": "serve_fmus",
    "hil.helics_federate": "federate",
    "hil.links": "SharedLink UdpLink",
    "kernels.compiled_dynamics": "second_derivatives",
    "robot.model": "capsule_inertia cylinder_inertia",
    "robot_description.load": "puma560",
    "spatial.scalar": "clip less maximum minimum piecewise",
    "studies.exciting_motion": "ExcitingMotion exciting_motion",
    "studies.experiment_design": "table_design",
    "studies.identification": "BaseParameters Identification base_parameters identify",
    "tracing.compiled_functions": "compile_function",
    "tracing.trace": "jacobian",
}


def pages() -> dict[str, str]:
    """Return the text of each generated page by its path."""
    names, blocks = public_names(), examples()
    made = {f"reference/blocks/{name}.md": block_page(name, b) for name, b in blocks.items()}
    made["reference/blocks.md"] = index_of_blocks(blocks)
    made |= {f"reference/{package}.md": package_page(package, of) for package, of in names.items()}
    made["reference/functions.md"] = index_of_packages(names)
    made["reference/command_line.md"] = command_line()
    made["reference/robot_files.md"] = robot_file_elements()
    return made


def public_names() -> dict[str, dict[str, str]]:
    """Return the public names of the package by package, each with the module that defines it."""
    found = defaultdict[str, dict[str, str]](dict)
    for name, module in (*_collected_names(), *_defined_names()):
        found[module.split(".")[1]].setdefault(name, module)
    return dict(sorted(found.items()))


def _collected_names() -> Iterator[tuple[str, str]]:
    for face in FACES:
        file = "__init__.py" if face else "__init__.pyi"
        for node in ast.walk(ast.parse(PACKAGE.joinpath(*face.split("."), file).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rigidblocks."):
                yield from ((alias.name, str(node.module)) for alias in node.names)


def _defined_names() -> Iterator[tuple[str, str]]:
    for module, names in NAMES.items():
        yield from ((name, f"rigidblocks.{module}") for name in names.split())
    for module in MODULES:
        path = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, f"rigidblocks.{module}"


def examples() -> dict[str, Block]:
    """Return one block of each public class of blocks, by the name of the class."""
    sys.path.insert(0, str(SUPPORT))
    tables = (
        importlib.import_module("fmu_blocks").BLOCKS,
        importlib.import_module("library_blocks").BLOCKS,
        importlib.import_module("signal_blocks").SIGNALS,
    )
    entries = [entry for table in tables for entry in table.values()]
    blocks = [entry[0] if isinstance(entry, tuple) else entry for entry in entries]
    first = {type(block).__name__: block for block in reversed(blocks)}
    return {name: first[name] for name in sorted(_modules_of_blocks()) if name in first}


def _modules_of_blocks() -> dict[str, str]:
    """Return the modules of the public names of `library` and `contact`, the packages of blocks."""
    names = public_names()
    return names["library"] | names["contact"]


def block_page(name: str, block: Block) -> str:
    """Return the page of a block: its docstring, and the ports and reference run of an example."""
    run = ReferenceRun(TracedEvaluator(Memory(block)), RK4, 1e-3)
    example = "\n".join(ports_and_run(run)).replace("<h2>", "\n<h3>").replace("</h2>", "</h3>\n")
    module = _modules_of_blocks()[name]
    headless = "    options: {show_root_heading: false, show_root_toc_entry: true}"
    call = f"```python\n{_call(name, type(block))}\n```"
    about = f"::: {module}.{name}\n{headless}\n{used_on(name, '../../')}"
    return f"# {name}\n\n{call}\n\n{about}\n\n## Example\n\n{example}\n"


def _call(name: str, block_type: type) -> str:
    """Return the call of a constructor with the default of each field."""
    fields = inspect.signature(block_type).parameters.values()
    texts = [_short(str(field.replace(annotation=field.empty))) for field in fields]
    in_one_line = f"{name}({', '.join(texts)})"
    if len(in_one_line) <= WIDTH:
        return in_one_line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), ")"])


def _short(text: str) -> str:
    """Shorten the arguments of nested calls in a long text: `ground=(Plane(...),)`."""
    before = "" if len(text) > LONG else text
    while before != text:
        before, text = text, re.sub(r"\b(\w+)\([^()]+\)", r"\1…", text)
    return text.replace("…", "(...)")


def used_on(name: str, up: str) -> str:
    """Return links, relative to `up`, to the pages whose code uses a name, or an empty text."""
    word = re.compile(rf"\b{name}\b")
    found = [(page, title) for page, title, code in _pages_with_code() if word.search(code)]
    links = ", ".join(f"[{title}]({up}{page})" for page, title in found[:MAX_LINKS])
    return f"\nIn use: {links}\n" if links else ""


@cache
def _pages_with_code() -> tuple[tuple[str, str, str], ...]:
    """Return path, title and Python code of each page that is written by hand."""
    found = []
    for path in sorted(DOCS.rglob("*.md"), key=lambda path: (path.parent.name != "start", path)):
        text = path.read_text()
        code = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        found.append((path.relative_to(DOCS).as_posix(), text.splitlines()[0].lstrip("# "), code))
    return tuple(found)


def index_of_blocks(blocks: Mapping[str, Block]) -> str:
    """Return the table of all blocks."""
    rows = [f"| [{name}](blocks/{name}.md) | {_summary(b)} |" for name, b in blocks.items()]
    table = ["| block | purpose |", "|---|---|", *rows]
    notation = "## Notation of formulas in docstrings {#notation}"
    return "\n".join(["# Blocks", "", *table, "", notation, "", str(docstring_html.__doc__), ""])


def _summary(block: Block) -> str:
    first = " ".join(inspect.cleandoc(type(block).__doc__ or "").split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def package_page(package: str, names: Mapping[str, str]) -> str:
    """Return the page of the public names of a package."""
    purpose = inspect.getdoc(importlib.import_module(f"rigidblocks.{package}")) or ""
    in_order = sorted(names, key=str.lower)
    listed = [f"::: {names[name]}.{name}\n{used_on(name, '../')}" for name in in_order]
    return "\n".join([f"# {package}\n", purpose, "", *listed])


def index_of_packages(names: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page with links to all public names."""
    parts = ["# Functions and classes\n"]
    for package, of in names.items():
        links = [f"[`{name}`]({package}.md#{module}.{name})" for name, module in sorted(of.items())]
        parts.append(f"## [{package}]({package}.md)\n\n{', '.join(links)}\n")
    return "\n".join(parts)


def command_line() -> str:
    """Return the page with the help of the command line and of each command."""
    command: Any = typer.main.get_command(APP)
    parts = ["# Command line\n", _help(command, "rigidblocks", None)]
    for name, sub in command.commands.items():
        parts += [f"## rigidblocks {name}\n", _help(sub, name, command)]
    return "\n".join(parts)


def robot_file_elements() -> str:
    """Return the page with the tables of the elements of each robot file format."""
    parts = [
        "# Elements of robot files\n",
        "An element or attribute (with @) of a robot file is read, reported or without effect on "
        "the motion. The loader lists a reported name in `warnings`, unless its value has no "
        "effect, and `rigidblocks check` prints it with its line number. The loader also lists all "
        "names that are missing here. It rejects some elements, with a message. A name without "
        "effect has a reason.\n",
    ]
    for name, table in (("URDF", URDF), ("SDF", SDF), ("MJCF", MJCF)):
        parts.append(f"## {name}\n")
        rows = [
            f"| {kind} | {_names(rules, ReadElement)} | {_grouped(rules, ReportedElement)} "
            f"| {_names(rules, RejectedElement)} | {_grouped(rules, IgnoredElement)} |"
            for kind, rules in table.items()
        ]
        head = ["| element | read | reported: effect on a run | rejected | no effect: reason |"]
        parts.append("\n".join([*head, "|---|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _names(rules: Mapping[str, Any], kind: type) -> str:
    return " ".join(f"`{name}`" for name, rule in rules.items() if isinstance(rule, kind))


def _grouped(rules: Mapping[str, Any], kind: type) -> str:
    """Return the names of the rules of a type, grouped by the text of the rule."""
    groups = defaultdict[str, list[str]](list)
    for name, rule in rules.items():
        if isinstance(rule, kind):
            groups[rule[0]].append(f"`{name}`")
    return "; ".join(f"{' '.join(names)}: {text}" for text, names in groups.items())


def _help(command: Any, name: str, parent: Any) -> str:
    above = parent and parent.make_context("rigidblocks", [], resilient_parsing=True)
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    return f"```\n{command.get_help(context)}\n```\n"
