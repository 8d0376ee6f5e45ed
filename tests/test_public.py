"""The shape of the package: layers that do not know the next, documented names, and what a packaged
block needs.
"""

import ast
import contextlib
import importlib
import inspect
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

import rigidblocks

SOURCE = Path(rigidblocks.__file__).parent

ARCHITECTURE = (Path(__file__).parents[1] / "docs/architecture.md").read_text()


def rooms():
    """The rooms in the order of docs/architecture.md with the modules that it names, by room."""
    found = {}
    for line in ARCHITECTURE.split("```")[1].splitlines():
        if match := re.match(r"(\w+)(?:/|\.py) ", line):
            found[match[1]] = set()
        elif line:
            found[list(found)[-1]] |= set(line.split())
    return found


ROOMS = list(rooms())
# what they may need from outside when they are loaded: numpy, and
PACKAGES = {
    "tracing": {"casadi", "platformdirs"},
    "formats": {"lxml"},
    "kernels": {"casadi"},
    "ssp": {"fmpy", "lxml"},
    "study": {"lxml", "tqdm"},
    "system": {"fmpy", "lxml"},
    "simulation": {"fmpy", "tqdm"},
    "view": {"casadi"},
    "fmi": {"fmpy", "pythonfmu"},
    "cli": {"typer"},
}


def modules():
    return sorted(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py")
    )


def parsed(module):
    return ast.parse(SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text())


def imported(node, top_level=True):
    """The dotted names that are imported, and whether on top level; imports for type checkers alone
    are left out.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, top_level) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield child.module, top_level
            if child.module == "rigidblocks":
                yield from ((f"rigidblocks.{alias.name}", top_level) for alias in child.names)
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from imported(child, top_level and not isinstance(child, ast.FunctionDef))


def room(name):
    """The room that a dotted name is in, if it is one of the package."""
    head, _, rest = name.partition(".")
    first = rest.split(".")[0]
    return first if head == "rigidblocks" and first in ROOMS else None


ROOM_MODULES = [module for module in modules() if module != "__init__"]


def test_every_module_is_in_a_room_and_the_architecture_names_it():
    here = {module.split(".")[0]: set() for module in ROOM_MODULES}
    for module in ROOM_MODULES:
        room, *path = module.split(".")
        here[room] |= {name for name in path if name != "__init__"}
    assert here == rooms()


def test_no_public_name_is_that_of_a_room():
    """A room that is loaded would hide it."""
    assert set(rigidblocks.__all__) & set(ROOMS) == set()


@pytest.mark.parametrize("module", ROOM_MODULES)
def test_rooms_import_from_those_before_them_alone(module):
    later = ROOMS[ROOMS.index(module.split(".")[0]) + 1 :]
    assert [name for name, _ in imported(parsed(module)) if room(name) in later] == []


@pytest.mark.parametrize("module", ROOM_MODULES)
def test_rooms_need_only_their_packages(module):
    roots = {name.split(".")[0] for name, top_level in imported(parsed(module)) if top_level}
    known = PACKAGES.get(module.split(".")[0], set()) | {"numpy", "rigidblocks"}
    assert roots - set(sys.stdlib_module_names) <= known


def asks_the_face(node: ast.AST) -> bool:
    """Whether it is `rigidblocks.name` of a public name, or an import of the package itself."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value) == "rigidblocks" and node.attr in rigidblocks.__all__
    imports = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
    return imports and ast.unparse(node.args[0]) in ("FACE", "'rigidblocks'")


def test_pictures_alone_asks_the_face_of_the_package():
    """For a public name; elsewhere, before the last rooms, it would be an arrow in secret."""
    early = [m for m in ROOM_MODULES if ROOMS.index(m.split(".")[0]) < ROOMS.index("view")]
    asking = [m for m in early if any(asks_the_face(node) for node in ast.walk(parsed(m)))]
    assert asking == ["pictures"]


def test_import_of_the_package_loads_nothing_else():
    """So the command starts at once, and a packaged block needs none of what it does not use."""
    assert [name for name, _ in imported(parsed("__init__")) if room(name)] == []
    program = "import rigidblocks, sys; assert 'numpy' not in sys.modules; rigidblocks.aba"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_each_public_name_is_loaded_from_where_type_checkers_find_it():
    typed = next(node for node in parsed("__init__").body if isinstance(node, ast.If))
    seen = {name.name: node.module for node in typed.body for name in node.names}
    loaded = {name: f"rigidblocks.{module}" for name, module in rigidblocks._HOME.items()}
    assert loaded == seen
    assert sorted(seen) == sorted(rigidblocks.__all__)
    assert set(dir(rigidblocks)) >= set(seen)


@pytest.mark.parametrize(
    "module", ["rigidblocks.library", "rigidblocks.block.stepper", "rigidblocks.fmi.slave"]
)
def test_packaged_block_needs_neither_the_tracer_nor_a_compiler(module):
    program = (
        "import sys; sys.modules.update(casadi=None, platformdirs=None, fmpy=None, "
        f"tqdm=None); import {module}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# names and documentation


def test_all_names_resolve_and_are_sorted():
    for module in (rigidblocks, importlib.import_module("rigidblocks.library")):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="module 'rigidblocks' has no attribute 'nothing'"):
        _ = rigidblocks.nothing


def public(owner, module):
    """The public functions and classes that a module defines."""
    for name, value in vars(owner).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == module:
            yield name, value


def undocumented_members(cls):
    """The public functions and properties of a class that neither it nor a class that it extends
    documents.
    """
    for name, value in vars(cls).items():
        written = (
            inspect.isfunction(value) and value.__name__ != "<lambda>"
        )  # a table of lambdas is documented as one
        if name.startswith("_") or not (
            written or isinstance(value, classmethod | property | cached_property)
        ):
            continue
        if not any(getattr(vars(base).get(name), "__doc__", None) for base in cls.__mro__):
            yield f"{cls.__name__}.{name}"


@pytest.mark.parametrize("module", modules())
def test_everything_public_is_documented(module):
    name = f"rigidblocks.{module}".removesuffix(".__init__")
    loaded = importlib.import_module(name)
    assert loaded.__doc__
    missing = []
    for key, value in public(loaded, name):
        if inspect.isclass(value):
            generated = f"{key}("  # what a dataclass without a docstring gets
            missing += [key] * (not value.__doc__ or value.__doc__.startswith(generated)) + list(
                undocumented_members(value)
            )
        elif inspect.isfunction(value) and not value.__doc__:
            missing.append(key)
    assert not missing


@pytest.mark.parametrize("name", rigidblocks.__all__)
def test_no_signature_expands_arrays_or_methods(name):
    thing = getattr(rigidblocks, name)
    if inspect.isfunction(thing) or inspect.isclass(thing):
        with contextlib.suppress(ValueError):  # of exceptions there is none
            signature = str(inspect.signature(thing))
            assert "_array_like" not in signature
            assert "Integrator(" not in signature


@pytest.mark.parametrize("name", ["aba", "crba", "rnea", "closed_loop_dynamics"])
def test_help_begins_with_a_signature_that_can_be_read(name):
    signature = str(inspect.signature(getattr(rigidblocks, name)))
    assert "dtype" not in signature
    assert "numpy.ndarray" in signature
