"""Selection and sizes of the long tests for `make check` and `make campaign`."""

import os
from collections import defaultdict
from zlib import crc32

import pytest

LONG = ("slow", "interop")  # marks of the tests that `make test` leaves out
_IS_FULL = bool(os.environ.get("FULL_TESTS"))


def sized(full, small):
    """Return the number `full` in a campaign (`make campaign`), else the number `small`."""
    return full if _IS_FULL else small


def is_long(item: pytest.Item) -> bool:
    """Return True if `make test` does not run the test."""
    return any(item.get_closest_marker(mark) for mark in LONG)


def two_thirds(items: list[pytest.Item], day: int) -> set[pytest.Item]:
    """Return the long cases that do not run on a day.

    Of each test with at least three long cases, every third case runs, and another third on the
    next day. Tests with fewer cases always run.

    Args:
        items: all collected tests.
        day: number of the day.
    """
    families = defaultdict(list)
    for item in filter(is_long, items):
        families[item.nodeid.partition("[")[0]].append(item)
    return {
        item
        for name, cases in families.items()
        if len(cases) >= 3
        for k, item in enumerate(cases)
        if (k + day + crc32(name.encode())) % 3
    }
