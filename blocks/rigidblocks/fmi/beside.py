"""Modules that lie beside a script: found by it first, and known to it alone."""

import _ctypes
import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_namespaces: list[dict[str, Any]] = []  # see slave_class


class _Beside(MetaPathFinder):
    """Finds top-level modules in one folder, before all else."""

    def __init__(self, folder: Path):
        self._folder = str(folder)
        self.names = {
            path.stem
            for path in folder.iterdir()
            if path.suffix == ".py" or (path / "__init__.py").is_file()
        } - set(sys.stdlib_module_names)

    def owns(self, name: str) -> bool:
        """Whether a module, or the package that it is in, is one of the folder."""
        return name.partition(".")[0] in self.names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or fullname not in self.names:
            return None
        return PathFinder.find_spec(fullname, [self._folder], target)


@contextlib.contextmanager
def modules_beside(folder: Path) -> Iterator[dict[str, bytes]]:
    """While it lasts, what is imported by a name that lies in `folder` is that of the folder,
    whatever else of that name has been imported; afterwards all is as it was.

    Yields a dictionary that has then the files of the imported modules, bytes by path in `folder`.
    """
    finder, files = _Beside(folder), dict[str, bytes]()
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
    """Runs a script in a namespace; returns the files of the modules that it imports from beside
    it, which is possible on its top level alone.
    """
    own = namespace.get("__file__")
    namespace["__file__"] = str(path)
    with modules_beside(path.parent) as files:
        exec(compile(path.read_bytes(), str(path), "exec"), namespace)
    namespace["__file__"] = own
    return files


def _give_up_once(folder: Path) -> None:
    """Has the library of the Python FMU in a folder give up what it keeps of the interpreter, which
    the instance that begins keeps, too.

    pythonfmu 0.7 gives it up twice when the library ends, and that writes into memory that is free
    by then: the process crashed at its end, now and then. On Windows it may hold the interpreter
    of a host that has none, and stays as it is.
    """
    if sys.platform == "win32":
        return
    for path in folder.glob("binaries/*/*"):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)  # if it is the one that runs
            library.finalizePythonInterpreter()
            _ctypes.dlclose(library._handle)


def slave_class(name: str, path: Path, namespace: dict[str, Any]) -> Any:
    """The class of a script in a Python FMU; the script is run in the namespace of the module that
    pythonfmu imports, once.

    pythonfmu 0.7 runs that module again for each instance, when the folder of the first may be
    gone, and each time gives back a reference to its namespace that it does not own: one is added
    for it, which nobody else gives back, not even the interpreter at its end, or kept where a host
    shows its interpreter to nobody.
    """
    _give_up_once(Path(namespace["__file__"]).parents[1])
    try:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(namespace))
    except AttributeError:
        _namespaces.append(namespace)
    if name not in namespace:
        run_script(path, namespace)
    return namespace[name]
