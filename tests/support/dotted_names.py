"""Objects that dotted names in the documentation refer to."""

import importlib


def resolved(name):
    """Return the object of a dotted name below rigidblocks."""
    module, *rest = name.split(".")
    value = importlib.import_module(f"rigidblocks.{module}")
    for part in rest:
        if inside := not hasattr(value, part):
            value = importlib.import_module(f"{value.__name__}.{part}")
        value = value if inside else getattr(value, part)
    return value
