"""Packages that not every installation has."""

from importlib import import_module
from typing import Any


def module_of(extra: str, name: str, what: str) -> Any:
    """The module of that name, of a package in an extra of rigidblocks.

    Raises ImportError, which says that `what` needs it and how it is installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        command = f"pip install 'rigidblocks[{extra}]'"
        raise ImportError(f"{what} needs {package}: {command}") from error
