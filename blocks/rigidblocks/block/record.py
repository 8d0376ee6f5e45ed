"""Records of values by name, which answer a wrong name with those that there are."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

Values = Mapping[str, Any]


class Record:
    """Values by name as attributes, which are read and not written.

    `kind` is what one of them is and `owner` whose they are, for the AttributeError of a name that
    there is not: "block 'Lag': no state 'z'; there are: y".
    """

    __slots__ = ("__dict__", "_kind", "_owner")
    _kind: str
    _owner: str

    def __init__(self, values: Values, kind: str = "value", owner: str = "record"):
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_owner", owner)
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:  # called for what is not there
        if name.startswith("__"):  # a question of Python's own, as by `copy`
            raise AttributeError(name)
        raise AttributeError(f"{self._owner}: no {self._kind} '{name}'; {offer(name, vars(self))}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{self._owner}: the {self._kind} '{name}' cannot be set to {value!r} here; a function "
            "returns new values by name"
        )

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def offer(name: str, known: Iterable[str]) -> str:
    """The rest of a message on a name that is not known: "there are: q, qd (did you mean q?)"."""
    known = tuple(known)
    return f"there are: {', '.join(known) or 'none'}{near(name, known)}"


def near(name: str, known: Iterable[str]) -> str:
    """A hint where a known name is like this one, " (did you mean q?)", else nothing."""
    found = difflib.get_close_matches(name, tuple(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""
