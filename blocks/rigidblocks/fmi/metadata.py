"""What an FMU says of who made it and under what terms."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Metadata:
    """The attributes of a model description that are not read off the block; what is None is left
    out. `description` replaces the first line of the block's docstring.
    """

    author: str | None = None
    version: str | None = None
    copyright: str | None = None
    license: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (isinstance(value, str) and value.isprintable()):
                raise ValueError(f"the {field.name} of an FMU is one line of text, not {value!r}")

    def attributes(self) -> dict[str, str]:
        """Those that are given, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
