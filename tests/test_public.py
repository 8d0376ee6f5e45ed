"""The shape of the package: layers that do not know the next, documented names, and what a packaged block needs."""

import ast
import importlib
import inspect
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

import rigidblocks

SOURCE = Path(rigidblocks.__file__).parent

# each layer knows itself and those before it; the packages are all that it may need from outside
LAYERS = {
    "numbers": {
        "congruence",
        "spatial",
        "planar",
        "joint",
        "tree",
        "model",
        "planar_model",
        "displacement",
        "configuration",
        "robots",
        "mechanisms",
        "floating_chain",
        "dynamics",
        "loops",
        "contact",
        "scalar",
    },
    "blocks": {"block", "contact_events", "dense", "flat", "implicit", "integrate", "stepper", "units", "library"},
    "tracing": {
        "trace",
        "traced_block",
        "ccode",
        "compile",
        "compiled_function",
        "leaves",
        "looped",
        "compiled_model",
        "compiled_contact",
        "model_header",
        "tangent",
        "feedthrough",
        "differentiation",
    },
    "wiring": {"system", "holds", "instance", "wired", "fused", "continuous", "linearization", "master", "result"},
    "packaging": {"fmi"},
    "people": {"cli"},
}
PACKAGES = {
    "numbers": {"numpy"},
    "blocks": {"numpy"},
    "tracing": {"numpy", "casadi", "platformdirs"},
    "wiring": {"numpy", "tqdm"},
    "packaging": {"numpy", "fmpy", "pythonfmu"},
    "people": {"numpy", "tqdm"},
}
# imports inside functions that go the other way: what they load is wanted only when they are called
LATER = {
    ("stepper", "compile"),  # a packaged block steps on machines without a tracer or a compiler
    ("stepper", "model_header"),
    ("flat", "model_header"),  # the exact Jacobian of a block in NumPy
    ("system", "fmi"),  # an FMU file in the place of a block
    ("master", "fmi"),
}


def modules():
    return sorted(".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in SOURCE.rglob("*.py"))


def parsed(module):
    return ast.parse(SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text())


def unit(module):
    """The module or subpackage of the package that a dotted name is in."""
    return module.split(".")[0]


def layer(name):
    return next((layer for layer, names in LAYERS.items() if name in names), None)


def imports(node, top_level=True):
    """The dotted names that are imported, and whether on top level; imports for type checkers alone are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, top_level) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield child.module, top_level
            if child.module == "rigidblocks":
                yield from ((f"rigidblocks.{alias.name}", top_level) for alias in child.names)
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from imports(child, top_level and not isinstance(child, ast.FunctionDef))


def inner(name):
    """The module or subpackage that an import of `rigidblocks.x.y` names."""
    head, _, rest = name.partition(".")
    known = set.union(*LAYERS.values())
    return unit(rest) if head == "rigidblocks" and unit(rest) in known else None


def test_every_module_has_a_layer():
    assert {unit(module) for module in modules()} - {"__init__"} - set.union(*LAYERS.values()) == set()


@pytest.mark.parametrize("module", [module for module in modules() if module != "__init__"])
def test_layers_do_not_know_the_next(module):
    order, here = list(LAYERS), layer(unit(module))
    for name, top_level in imports(parsed(module)):
        there = inner(name)
        if there and order.index(layer(there)) > order.index(here):
            assert not top_level, f"{module} imports {name}"
            assert (unit(module), there) in LATER, f"{module} imports {name} in a function"


@pytest.mark.parametrize("module", [module for module in modules() if module != "__init__"])
def test_layers_need_only_their_packages(module):
    roots = {name.split(".")[0] for name, top_level in imports(parsed(module)) if top_level}
    assert roots - set(sys.stdlib_module_names) - {"rigidblocks"} <= PACKAGES[layer(unit(module))]


def test_import_of_the_package_stays_below_the_tracer():
    for name, top_level in imports(parsed("__init__")):
        assert not (top_level and inner(name)) or layer(inner(name)) in ("numbers", "blocks"), name


@pytest.mark.parametrize("module", ["rigidblocks", "rigidblocks.stepper", "rigidblocks.fmi.slave"])
def test_packaged_block_needs_neither_the_tracer_nor_a_compiler(module):
    program = f"import sys; sys.modules.update(casadi=None, platformdirs=None, fmpy=None, tqdm=None); import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
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
    """The public functions and properties of a class that neither it nor a class that it extends documents."""
    for name, value in vars(cls).items():
        written = inspect.isfunction(value) and value.__name__ != "<lambda>"  # a table of lambdas is documented as one
        if name.startswith("_") or not (written or isinstance(value, classmethod | property | cached_property)):
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
            missing += [key] * (not value.__doc__ or value.__doc__.startswith(generated)) + list(undocumented_members(value))
        elif inspect.isfunction(value) and not value.__doc__:
            missing.append(key)
    assert not missing
