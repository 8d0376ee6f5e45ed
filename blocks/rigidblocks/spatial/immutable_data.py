"""What is made when it is first looked at."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Later(Sequence[Any]):
    """The tuple that `make` returns of `arguments`, made once, when it is first looked at: what is
    drawn of a robot, for those who only compute with it.
    """

    __slots__ = ("_arguments", "_items", "_make")

    def __init__(self, make: Callable[..., tuple[Any, ...]], *arguments: Any):
        self._make: Callable[..., tuple[Any, ...]] | None = make
        self._arguments = arguments
        self._items: tuple[Any, ...] = ()

    def _made(self) -> tuple[Any, ...]:
        if (make := self._make) is not None:
            self._items = make(*self._arguments)
            self._make, self._arguments = None, ()
        return self._items

    def __getitem__(self, index: Any) -> Any:
        return self._made()[index]

    def __len__(self) -> int:
        return len(self._made())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | Later) and self._made() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._made())

    def __repr__(self) -> str:
        return repr(self._made())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._made(),)
