"""Scripts for Python FMUs of blocks and systems that are objects in a program."""

import ast
import io
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rigidblocks.fmi.package import package_sources
from rigidblocks.fmi.script import Script, slave_of

PICKLE = "block.pickle"
_PROTOCOL = 4  # the same bytes from every Python that is supported
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
    """A script written to `folder` that makes a block of `source`, with these options of
    `BlockSlave`; beside it lies all that it needs.

    Raises ValueError for what cannot be found again in another program.
    """
    try:
        data = pickle.dumps((source, dict(options)), _PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ValueError(
            f"a Python FMU of {name} would have to find it again in another program, and cannot: "
            f"{error}; write a script whose class names it"
        ) from error
    files = _own_modules(name, data) | {PICKLE: data}
    for file, content in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    path = folder / f"{name}_fmu.py"
    path.write_text(_TEXT.format(what=name, name=name, pickle=PICKLE))
    return replace(slave_of(path), beside=files)


class _Names(pickle.Unpickler):
    """Notes the modules that a pickle needs."""

    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data))
        self.modules: set[str] = set()

    def find_class(self, module_name: str, global_name: str) -> Any:
        self.modules.add(module_name)
        return super().find_class(module_name, global_name)


def _own_modules(name: str, data: bytes) -> dict[str, bytes]:
    """The files, by path, of the modules that are neither Python's nor installed."""
    reader = _Names(data)
    reader.load()
    files: dict[str, bytes] = {}
    for module in sorted({module.partition(".")[0] for module in reader.modules}):
        if module == "__main__":
            raise ValueError(
                f"a Python FMU of {name} would have to import its class, and the main program "
                "cannot be imported: put the class into a module, or write a script"
            )
        file = Path(getattr(sys.modules[module], "__file__", None) or sys.executable)
        if module not in sys.stdlib_module_names and not _is_installed(file.parents):
            _add(files, file.parent.parent if file.name == "__init__.py" else file.parent, module)
    return files


def _add(files: dict[str, bytes], folder: Path, module: str) -> None:
    """Adds the files of a module or package in a folder, and of what they import from there."""
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
    """The top-level names of the modules that a source file imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _is_installed(folders: Iterable[Path]) -> bool:
    own = Path(__file__).parents[1]
    return any(f.name in ("site-packages", "dist-packages") or f == own for f in folders)
