"""Errors with a note of the page of the documentation that explains them, which tracebacks and the
command show below the message.
"""

from typing import TypeVar

PAGES = {
    "algebraic loops": "masters.md#what-the-options-do",
    "numbers that are not finite": "integrators.md#when-something-is-not-finite",
    "loops that do not close": "closed_loops.md#singular-configurations",
    "what is read of files": "robots_from_files.md#what-is-read",
    "FMUs that fail": "foreign_fmus.md#what-goes-wrong",
    "what a traced function may do": "writing_a_block.md#functions",
}

AnyError = TypeVar("AnyError", bound=BaseException)


def explained(error: AnyError, topic: str) -> AnyError:
    """The error with a note of the page for a topic of `PAGES`."""
    error.add_note(f"docs/{PAGES[topic]} is about {topic}")
    return error
