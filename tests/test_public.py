"""Package structure: layers, documented names and dependencies of packaged blocks."""

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
from rigidblocks.dynamics.loops import closed_loop_dynamics

SOURCE = Path(rigidblocks.__file__).parent

ARCHITECTURE = (Path(__file__).parents[1] / "docs/architecture.md").read_text()


def subpackages():
    """Return the subpackages in the order of docs/architecture.md."""
    lines = ARCHITECTURE.split("```")[1].splitlines()
    return [match[1] for line in lines if (match := re.match(r"(\w+)(?:/|\.py) ", line))]


def subfolders():
    """Return the folders of subpackages that docs/architecture.md lists."""
    subpackage, found = "", set()
    for line in ARCHITECTURE.split("```")[1].splitlines():
        if match := re.match(r"(\w+)/ ", line):
            subpackage = match[1]
        elif match := re.match(r"  (\w+)/ ", line):
            found.add(f"{subpackage}/{match[1]}")
    return found


SUBPACKAGES = subpackages()
# external packages that a subpackage may import at top level, in addition to numpy
PACKAGES = {
    "common": {"lxml", "platformdirs"},
    "tracing": {"casadi"},
    "robot_description": {"lxml"},
    "kernels": {"casadi"},
    "studies": {"lxml", "tqdm"},
    "cosim": {"fmpy", "lxml", "tqdm"},
    "view": {"casadi"},
    "fmi": {"fmpy", "lxml", "pythonfmu"},
    "cli": {"typer"},
}


def modules():
    return sorted(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py")
    )


def parsed(module):
    return ast.parse(SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text())


def imported(node, top_level=True):
    """Yield each imported dotted name, and True if the import is at top level.

    The function skips imports for type checkers.
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


def subpackage(name):
    """Return the subpackage of a dotted name, or None if the name is not in rigidblocks."""
    head, _, rest = name.partition(".")
    first = rest.split(".")[0]
    return first if head == "rigidblocks" and first in SUBPACKAGES else None


SUBPACKAGE_MODULES = [module for module in modules() if module != "__init__"]


def test_architecture_page_lists_the_subpackage_of_each_module():
    assert {module.split(".")[0] for module in SUBPACKAGE_MODULES} == set(SUBPACKAGES)


def test_each_subfolder_is_listed_on_the_architecture_page():
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py")}
    assert {path.as_posix() for path in folders if len(path.parts) > 1} == subfolders()


def test_all_files_listed_on_the_architecture_page_exist():
    tables = "\n".join(line for line in ARCHITECTURE.splitlines() if line.startswith("|"))
    paths = re.findall(r"`([\w/]+(?:/|/\w+|\.py|\.h|\.c))`", tables)
    assert len(paths) > 10
    assert [path for path in paths if not (SOURCE / path).exists()] == []


def test_public_names_differ_from_subpackage_names():
    """An imported subpackage would hide a public function or class with the same name."""
    assert set(rigidblocks.__all__) & set(SUBPACKAGES) == set()


@pytest.mark.parametrize("module", SUBPACKAGE_MODULES)
def test_subpackages_import_only_from_earlier_subpackages(module):
    later = SUBPACKAGES[SUBPACKAGES.index(module.split(".")[0]) + 1 :]
    assert [name for name, _ in imported(parsed(module)) if subpackage(name) in later] == []


@pytest.mark.parametrize("module", SUBPACKAGE_MODULES)
def test_subpackages_import_only_their_listed_external_packages(module):
    roots = {name.split(".")[0] for name, top_level in imported(parsed(module)) if top_level}
    known = PACKAGES.get(module.split(".")[0], set()) | {"numpy", "rigidblocks"}
    assert roots - set(sys.stdlib_module_names) <= known


def uses_the_top_level_package(node: ast.AST) -> bool:
    """Return True for an attribute `rigidblocks.name` or an import of the top-level package."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value) == "rigidblocks" and node.attr in rigidblocks.__all__
    imports = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
    return imports and ast.unparse(node.args[0]) in ("FACE", "'rigidblocks'")


@pytest.mark.slow
def test_only_notebook_display_functions_import_the_top_level_package():
    """In an early subpackage such an import would be a hidden dependency."""
    early = [
        m
        for m in SUBPACKAGE_MODULES
        if SUBPACKAGES.index(m.split(".")[0]) < SUBPACKAGES.index("view")
    ]
    importing = [
        m for m in early if any(uses_the_top_level_package(node) for node in ast.walk(parsed(m)))
    ]
    assert importing == ["common.display_hooks"]


@pytest.mark.slow
def test_import_of_the_top_level_package_loads_only_the_package_information():
    """The command starts quickly, and a packaged block contains only its own dependencies."""
    loaded = ["rigidblocks", "rigidblocks.common", "rigidblocks.common.package_info"]
    program = (
        "import rigidblocks, sys; assert 'numpy' not in sys.modules; "
        f"assert sorted(m for m in sys.modules if m.startswith('rigidblocks')) == {loaded}; "
        "rigidblocks.aba"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_public_names_come_from_the_same_module_at_run_time_and_for_type_checkers():
    stub = ast.parse((SOURCE / "__init__.pyi").read_text())
    *imports, listed = stub.body
    seen = {name.name: node.module for node in imports for name in node.names}
    assert seen.pop("__version__") == "rigidblocks.common.package_info"
    assert ast.literal_eval(listed.value) == rigidblocks.__all__
    loaded = {name: f"rigidblocks.{module}" for name, module in rigidblocks._HOME.items()}
    assert loaded == seen
    assert sorted(seen) == sorted(rigidblocks.__all__)
    assert set(dir(rigidblocks)) >= set(seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", ["rigidblocks.library", "rigidblocks.block.stepper", "rigidblocks.fmi.slave"]
)
def test_packaged_block_imports_without_tracer_and_compiler(module):
    program = (
        "import sys; sys.modules.update(casadi=None, platformdirs=None, fmpy=None, "
        f"tqdm=None); import {module}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# names and documentation


def test_public_names_are_unique_and_can_be_loaded():
    for module in (rigidblocks, importlib.import_module("rigidblocks.library")):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="module 'rigidblocks' has no attribute 'nothing'"):
        _ = rigidblocks.nothing


def public(owner, module):
    """Yield the public functions and classes that a module defines."""
    for name, value in vars(owner).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == module:
            yield name, value


def undocumented_members(cls):
    """Yield the public functions and properties without a docstring in the class and its bases."""
    for name, value in vars(cls).items():
        written = (
            inspect.isfunction(value) and value.__name__ != "<lambda>"
        )  # the docstring of a table documents its lambdas
        if name.startswith("_") or not (
            written or isinstance(value, classmethod | property | cached_property)
        ):
            continue
        if not any(getattr(vars(base).get(name), "__doc__", None) for base in cls.__mro__):
            yield f"{cls.__name__}.{name}"


@pytest.mark.parametrize("module", modules())
def test_public_modules_classes_and_functions_have_docstrings(module):
    name = f"rigidblocks.{module}".removesuffix(".__init__")
    loaded = importlib.import_module(name)
    assert loaded.__doc__
    missing = []
    for key, value in public(loaded, name):
        if inspect.isclass(value):
            generated = f"{key}("  # default docstring of a dataclass
            missing += [key] * (not value.__doc__ or value.__doc__.startswith(generated)) + list(
                undocumented_members(value)
            )
        elif inspect.isfunction(value) and not value.__doc__:
            missing.append(key)
    assert not missing


@pytest.mark.parametrize("name", rigidblocks.__all__)
def test_public_signatures_contain_no_expanded_array_types_or_methods(name):
    thing = getattr(rigidblocks, name)
    if inspect.isfunction(thing) or inspect.isclass(thing):
        with contextlib.suppress(ValueError):  # exceptions have no signature
            signature = str(inspect.signature(thing))
            assert "_array_like" not in signature
            assert "Integrator(" not in signature


@pytest.mark.parametrize(
    "function",
    [rigidblocks.aba, rigidblocks.crba, rigidblocks.rnea, closed_loop_dynamics],
    ids=lambda function: function.__name__,
)
def test_signatures_show_arrays_as_numpy_ndarray(function):
    signature = str(inspect.signature(function))
    assert "dtype" not in signature
    assert "numpy.ndarray" in signature
