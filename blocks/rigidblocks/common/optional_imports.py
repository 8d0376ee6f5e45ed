"""Import of optional packages."""

from importlib import import_module
from typing import Any

# package names for pip that differ from the names for `import`
DISTRIBUTIONS = {
    "fmu_manipulation_toolbox": "fmu-manipulation-toolbox",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "yaml": "pyyaml",
}


def distribution_of(module: str) -> str:
    """Return the pip name of the package that contains a module, such as pyyaml for yaml."""
    package = module.partition(".")[0]
    return DISTRIBUTIONS.get(package, package)


def install_command(module: str) -> str:
    """Return the command that installs a module, such as `pip install pyyaml` for yaml."""
    return f"pip install {distribution_of(module)}"


def missing_package(module: str, feature: str) -> ImportError:
    """Return an ImportError that states the feature, the missing package and its pip command."""
    return ImportError(f"{feature} needs {distribution_of(module)}: {install_command(module)}")


def module_of(name: str, feature: str) -> Any:
    """Import and return a module of an optional package; error messages name `feature`.

    Raises:
        ImportError: The package is not installed (`missing_package`).
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_package(name, feature) from error
