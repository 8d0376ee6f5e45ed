"""Exception notes that refer to pages of the documentation.

Python and the command `rigidblocks` print the note below the error message.
"""

from typing import TypeVar

PAGES = {
    "algebraic loops": "masters.md#effects-of-the-options",
    "numbers that are not finite": "integrators.md#when-something-is-not-finite",
    "loops that do not close": "closed_loops.md#singular-configurations",
    "robot files": "robots_from_files.md#supported-content",
    "system files": "ssp.md#supported-clauses-of-ssp",
    "FMUs that fail": "foreign_fmus.md#diagnosis",
    "traced functions": "writing_a_block.md#functions",
}

AnyError = TypeVar("AnyError", bound=BaseException)


def add_doc_link(error: AnyError, topic: str) -> AnyError:
    """Add a note with the documentation page of `topic` to an error, and return the error."""
    error.add_note(f"docs/{PAGES[topic]} is about {topic}")
    return error
