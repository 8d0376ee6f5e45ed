"""The pages that mkdocs makes of the package itself: each block with its ports and its reference
run, each public name, and the command line.
"""

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
from rigidblocks.block.memory import Memory
from rigidblocks.cli.application import APP
from rigidblocks.fmi import formulas
from rigidblocks.fmi.documentation import ports_and_run
from rigidblocks.fmi.reference import ReferenceRun
from rigidblocks.kernels.evaluator import TracedEvaluator

PACKAGE = Path(rigidblocks.__file__).parent
DOCS = Path(__file__).parent
WIDTH, LONG = 100, 40  # letters of a line, and of an argument
MANY = 4  # pages that are named at most for a name
SUPPORT = Path(__file__).parents[1] / "tests/support"
FACES = ("", "contact", "dynamics", "joint", "library", "loops")  # bring a room's names together
MODULES = ("mechanisms", "robots", "algebra.spatial", "algebra.planar")


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages to those of the folder."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> dict[str, str]:
    """The text of each generated page by its path."""
    names, blocks = public_names(), examples()
    made = {f"reference/blocks/{name}.md": block_page(name, b) for name, b in blocks.items()}
    made["reference/blocks.md"] = index_of_blocks(blocks)
    made |= {f"reference/{room}.md": room_page(room, of) for room, of in names.items()}
    made["reference/functions.md"] = index_of_rooms(names)
    made["reference/command_line.md"] = command_line()
    return made


def public_names() -> dict[str, dict[str, str]]:
    """The public names of the package by room, each with the module that defines it."""
    found = defaultdict[str, dict[str, str]](dict)
    for name, module in (*_brought_together(), *_defined()):
        found[module.split(".")[1]].setdefault(name, module)
    return dict(sorted(found.items()))


def _brought_together() -> Iterator[tuple[str, str]]:
    for face in FACES:
        for node in ast.walk(ast.parse((PACKAGE / face / "__init__.py").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rigidblocks."):
                yield from ((alias.name, str(node.module)) for alias in node.names)


def _defined() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        path = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, f"rigidblocks.{module}"


def examples() -> dict[str, Block]:
    """A block of each class in the library, by the name of the class."""
    sys.path.insert(0, str(SUPPORT))
    tables = (
        importlib.import_module("fmu_blocks").BLOCKS,
        importlib.import_module("library_blocks").BLOCKS,
        importlib.import_module("signal_blocks").SIGNALS,
    )
    entries = [entry for table in tables for entry in table.values()]
    blocks = [entry[0] if isinstance(entry, tuple) else entry for entry in entries]
    first = {type(block).__name__: block for block in reversed(blocks)}
    return {name: first[name] for name in sorted(public_names()["library"]) if name in first}


def block_page(name: str, block: Block) -> str:
    """What a block is, and the ports, wiring and reference run of an example."""
    run = ReferenceRun(TracedEvaluator(Memory(block)), RK4, 1e-3)
    told = "\n".join(ports_and_run(run)).replace("<h2>", "\n<h3>").replace("</h2>", "</h3>\n")
    module = public_names()["library"][name]
    headless = "    options: {show_root_heading: false, show_root_toc_entry: true}"
    made = f"```python\n{_call(name, type(block))}\n```"
    about = f"::: {module}.{name}\n{headless}\n{used_on(name, '../../')}"
    return f"# {name}\n\n{made}\n\n{about}\n\n## An example\n\n{told}\n"


def _call(name: str, block_type: type) -> str:
    """How a block is made, with what its fields are unless given."""
    fields = inspect.signature(block_type).parameters.values()
    texts = [_short(str(field.replace(annotation=field.empty))) for field in fields]
    in_one_line = f"{name}({', '.join(texts)})"
    if len(in_one_line) <= WIDTH:
        return in_one_line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), ")"])


def _short(text: str) -> str:
    """What is called, without its arguments where they are long: `ground=(Plane(...),)`."""
    before = "" if len(text) > LONG else text
    while before != text:
        before, text = text, re.sub(r"\b(\w+)\([^()]+\)", r"\1…", text)
    return text.replace("…", "(...)")


def used_on(name: str, up: str) -> str:
    """Links to pages whose code uses a name, beginning with `up`; nothing where there are none."""
    word = re.compile(rf"\b{name}\b")
    found = [(page, title) for page, title, code in _pages_with_code() if word.search(code)]
    links = ", ".join(f"[{title}]({up}{page})" for page, title in found[:MANY])
    return f"\nIn use: {links}\n" if links else ""


@cache
def _pages_with_code() -> tuple[tuple[str, str, str], ...]:
    """The path of each page that is written by hand, its title and its code in Python."""
    found = []
    for path in sorted(DOCS.rglob("*.md"), key=lambda path: (path.parent.name != "start", path)):
        text = path.read_text()
        code = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        found.append((path.relative_to(DOCS).as_posix(), text.splitlines()[0].lstrip("# "), code))
    return tuple(found)


def index_of_blocks(blocks: Mapping[str, Block]) -> str:
    """A table of all blocks."""
    rows = [f"| [{name}](blocks/{name}.md) | {_in_short(b)} |" for name, b in blocks.items()]
    table = ["| block | what it is |", "|---|---|", *rows]
    notation = "## Notation of formulas in docstrings {#notation}"
    return "\n".join(["# Blocks", "", *table, "", notation, "", str(formulas.__doc__), ""])


def _in_short(block: Block) -> str:
    first = " ".join(inspect.cleandoc(type(block).__doc__ or "").split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def room_page(room: str, names: Mapping[str, str]) -> str:
    """The public names of a room."""
    purpose = inspect.getdoc(importlib.import_module(f"rigidblocks.{room}")) or ""
    in_order = sorted(names, key=str.lower)
    listed = [f"::: {names[name]}.{name}\n{used_on(name, '../')}" for name in in_order]
    return "\n".join([f"# {room}\n", purpose, "", *listed])


def index_of_rooms(names: Mapping[str, Mapping[str, str]]) -> str:
    """Links to all public names."""
    parts = ["# Functions and classes\n"]
    for room, of in names.items():
        links = [f"[`{name}`]({room}.md#{module}.{name})" for name, module in sorted(of.items())]
        parts.append(f"## [{room}]({room}.md)\n\n{', '.join(links)}\n")
    return "\n".join(parts)


def command_line() -> str:
    """The help of the command and of each of its commands."""
    command: Any = typer.main.get_command(APP)
    parts = ["# Command line\n", _help(command, "rigidblocks", None)]
    for name, sub in command.commands.items():
        parts += [f"## rigidblocks {name}\n", _help(sub, name, command)]
    return "\n".join(parts)


def _help(command: Any, name: str, parent: Any) -> str:
    above = parent and parent.make_context("rigidblocks", [], resilient_parsing=True)
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    return f"```\n{command.get_help(context)}\n```\n"
