"""Loading and writing of FMU scripts, and collection of the files that a script imports."""

import _ctypes
import ast
import contextlib
import ctypes
import inspect
import io
import os
import pickle
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from pythonfmu.fmi2slave import Fmi2Slave

from rigidblocks.block.adaptive_methods import Method
from rigidblocks.block.memory_layout import Memory
from rigidblocks.fmi.archive import digest, package_sources
from rigidblocks.fmi.slave import BlockSlave

_namespaces: list[dict[str, Any]] = []  # namespaces that `slave_class` must keep alive


class _FolderFinder(MetaPathFinder):
    """Module finder that finds the modules of one folder before all other module finders."""

    def __init__(self, folder: Path):
        self._folder = str(folder)
        self.names = {
            path.stem
            for path in folder.iterdir()
            if path.suffix == ".py" or (path / "__init__.py").is_file()
        } - set(sys.stdlib_module_names)

    def owns(self, name: str) -> bool:
        """Return True if the folder contains the first component of the dotted module name."""
        return name.partition(".")[0] in self.names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in self.names:
            return None
        return PathFinder.find_spec(fullname, [self._folder], target)


@contextlib.contextmanager
def local_modules(folder: Path) -> Iterator[dict[str, bytes]]:
    """Return a context in which imports search `folder` first.

    A module of the folder also takes precedence over an already imported module of the same name.
    On exit, the context restores `sys.modules`.

    Yields:
        Dictionary, filled on exit. It maps the paths of the imported local modules, relative to
        `folder`, to file contents (bytes).
    """
    finder, files = _FolderFinder(folder), dict[str, bytes]()
    others = {name: sys.modules.pop(name) for name in list(sys.modules) if finder.owns(name)}
    sys.meta_path.insert(0, finder)
    try:
        yield files
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if finder.owns(name)]:
            file = getattr(sys.modules.pop(name), "__file__", None)
            if file and Path(file).is_relative_to(folder):
                files[Path(file).relative_to(folder).as_posix()] = Path(file).read_bytes()
        sys.modules.update(others)


def run_script(path: Path, namespace: dict[str, object]) -> dict[str, bytes]:
    """Run a script in a namespace, and return the files of the imported local modules.

    Local modules are modules in the folder of the script. The script must import local modules at
    its top level. The result maps paths relative to the folder to file contents (bytes).
    """
    own = namespace.get("__file__")
    namespace["__file__"] = str(path)
    with local_modules(path.parent) as files:
        exec(compile(path.read_bytes(), str(path), "exec"), namespace)
    namespace["__file__"] = own
    return files


def _release_interpreter(folder: Path) -> None:
    """Release the interpreter object of a Python FMU's library before the process ends.

    pythonfmu 0.7 releases this object twice when it unloads the library. The second release writes
    into freed memory and can crash the process at its end. The running instance has its own
    reference to the interpreter. On Windows the function does nothing, because the library may own
    the interpreter.

    Args:
        folder: Folder of the unpacked FMU.
    """
    if sys.platform == "win32":
        return
    for path in folder.glob("binaries/*/*"):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)  # fails if it is not loaded
            library.finalizePythonInterpreter()
            _ctypes.dlclose(library._handle)


def slave_class(name: str, path: Path, namespace: dict[str, Any]) -> Any:
    """Return the slave class of a Python FMU, and run the script of the FMU in the first call.

    The script runs in the namespace of the module that pythonfmu imports. pythonfmu 0.7 runs this
    module again for each instance. This function runs the script only once, because the files of
    the first instance may no longer exist.

    For each instance, pythonfmu releases one reference to the namespace too many. To compensate,
    this function adds a reference. If the C API of Python is not accessible, `_namespaces` stores
    the namespace instead.

    Args:
        name: Name of the slave class.
        path: Path of the script.
        namespace: Namespace of the module that pythonfmu imports.
    """
    _release_interpreter(Path(namespace["__file__"]).parents[1])
    try:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(namespace))
    except AttributeError:
        _namespaces.append(namespace)
    if name not in namespace:
        run_script(path, namespace)
    return namespace[name]


@dataclass(frozen=True, eq=False)
class Script:
    """Content of an FMU script.

    Attributes:
        path: Path of the script.
        name: Name of the slave class.
        memory: Memory layout of the block, with its tunable parameters.
        method: Integration method.
        h: Maximum inner step [s].
        extra_files: Contents (bytes) of the imported local modules, by path.
    """

    path: Path
    name: str
    memory: Memory
    method: Method
    h: float
    extra_files: Mapping[str, bytes]

    def module_name(self, salt: str) -> str:
        """Return a unique module name: the file stem of the script and a digest.

        The digest depends on the text of the script and on `salt`.
        """
        stem = re.sub(r"\W", "_", self.path.stem)
        return f"{stem}_{digest({'text': self.path.read_bytes(), 'salt': salt.encode()})}"


def slave_of(path: str | Path) -> Script:
    """Load the script of a Python FMU.

    Args:
        path: Python file with exactly one class derived from `BlockSlave`.

    Returns:
        Content of the script.

    Raises:
        FileNotFoundError: The script does not exist.
        ValueError: The file is not a Python file, or does not have exactly one slave class with its
            own `__init__`. An exception of the script itself is raised with a note.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"script {path} does not exist")
    if path.suffix != ".py":
        raise ValueError(
            f"'{path.name}' is not a script: its name must end in .py; for the plant of a robot "
            "file use described_plant(load_model(...)) from rigidblocks.library.plant_from_file"
        )
    try:
        module, extra_files = _module(path)
        slave_class = _slave_class(module, path)
        slave: BlockSlave = slave_class(instance_name=slave_class.__name__)
    except Exception as error:
        error.add_note(f"in the FMU script {path}")
        raise
    stepper = slave.stepper
    return Script(path, slave_class.__name__, slave.layout, stepper.method, stepper.h, extra_files)


def _module(path: Path) -> tuple[ModuleType, dict[str, bytes]]:
    """Import a script as a module with a unique name.

    Returns the module, and a mapping from the paths of the imported local modules to their
    contents (bytes).
    """
    module = ModuleType(f"rigidblocks_script_{digest({path.name: path.read_bytes()})}")
    sys.modules[module.__name__] = module  # dataclasses look up their module by name
    try:
        return module, run_script(path, module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise


def _slave_class(module: ModuleType, path: Path) -> Any:
    """Return the slave class of a script; raise ValueError if pythonfmu cannot use the class.

    pythonfmu selects the class with the largest number of base classes. The module must contain
    exactly one such class. It must derive from `BlockSlave`, define `__init__`, and have the same
    name in the module.
    """
    classes = {
        c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, Fmi2Slave)
    }
    depth = max((len(c.__mro__) for c in classes), default=0)
    deepest = sorted((c for c in classes if len(c.__mro__) == depth), key=lambda c: c.__name__)
    own = [c for c in deepest if c.__module__ == module.__name__ and issubclass(c, BlockSlave)]
    if len(deepest) != 1 or own != deepest:
        found = ", ".join(c.__name__ for c in deepest if c is not BlockSlave) or "none"
        raise ValueError(
            f"{path.name} must have exactly one class derived from BlockSlave; it has: {found}"
        )
    (slave,) = own
    if "__init__" not in vars(slave):
        raise ValueError(
            f"class {slave.__name__} of {path.name} needs its own __init__ that defines the block"
        )
    if getattr(module, slave.__name__, None) is not slave:
        raise ValueError(
            f"class {slave.__name__} of {path.name} must be an attribute of the module with the "
            "same name"
        )
    return slave


PICKLE = "block.pickle"
_PROTOCOL = 4  # pickle protocol that gives the same bytes in all supported Python versions
_TEXT = '''"""{what}, as it was in the program that made this FMU."""

import pickle
from pathlib import Path

from rigidblocks.fmi.slave import BlockSlave

BLOCK, OPTIONS = pickle.loads(Path(__file__).with_name("{pickle}").read_bytes())


class {name}(BlockSlave):
    """{what}."""

    def __init__(self, **kwargs):
        super().__init__(BLOCK, **OPTIONS, **kwargs)
'''


def object_script(folder: Path, name: str, source: Any, options: Mapping[str, Any]) -> Script:
    """Write a script that loads a pickled block, and collect the files that the script needs.

    Args:
        folder: Folder of the script.
        name: Name of the slave class.
        source: Block, pickled next to the script.
        options: Arguments of `BlockSlave`.

    Returns:
        Content of the script.

    Raises:
        ValueError: Another program cannot load the pickled `source`.
    """
    try:
        data = pickle.dumps((source, dict(options)), _PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ValueError(
            f"a Python FMU of {name} cannot load its block in another program: {error}; write a "
            "script whose class creates the block"
        ) from error
    files = _own_modules(name, data) | {PICKLE: data}
    for file, content in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    path = folder / f"{name}_fmu.py"
    path.write_text(_TEXT.format(what=name, name=name, pickle=PICKLE))
    return replace(slave_of(path), extra_files=files)


class _ModuleCollector(pickle.Unpickler):
    """Unpickler that collects the names of the modules that a pickle imports."""

    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data))
        self.modules: set[str] = set()

    def find_class(self, module_name: str, global_name: str) -> Any:
        self.modules.add(module_name)
        return super().find_class(module_name, global_name)


def _own_modules(name: str, data: bytes) -> dict[str, bytes]:
    """Return the contents (bytes) of the modules that a pickle imports, by path.

    Modules of the standard library and installed packages are omitted.

    Args:
        name: Name of the pickled object for error messages.
        data: Pickled object (bytes).

    Raises:
        ValueError: The pickle imports a class from the main program.
    """
    reader = _ModuleCollector(data)
    reader.load()
    files: dict[str, bytes] = {}
    for module in sorted({module.partition(".")[0] for module in reader.modules}):
        if module == "__main__":
            raise ValueError(
                f"a Python FMU cannot import class {name} from the main program: move the class to "
                "a module, or write a script"
            )
        file = Path(getattr(sys.modules[module], "__file__", None) or sys.executable)
        if module not in sys.stdlib_module_names and not _is_installed(file.parents):
            _add(files, file.parent.parent if file.name == "__init__.py" else file.parent, module)
    return files


def _add(files: dict[str, bytes], folder: Path, module: str) -> None:
    """Add a module or package of `folder`, and the local modules that it imports, to `files`."""
    package, file = folder / module, folder / f"{module}.py"
    if (package / "__init__.py").is_file():
        sources = package_sources(package).items()
        new = {f"{module}/{path}": content for path, content in sources}
    elif file.is_file():
        new = {file.name: file.read_bytes()}
    else:
        return
    if new.keys() <= files.keys():
        return
    files |= new
    for path in new:
        for imported in _imports(new[path]) if path.endswith(".py") else ():
            _add(files, folder, imported)


def _imports(source: bytes) -> Iterator[str]:
    """Yield the names of the top-level modules that the text of a Python file imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _is_installed(folders: Iterable[Path]) -> bool:
    own = Path(__file__).parents[1]
    return any(f.name in ("site-packages", "dist-packages") or f == own for f in folders)
