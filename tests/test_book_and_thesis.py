"""Existence of all names and files in the tables of docs/book_and_thesis.md."""

import re
from pathlib import Path

import pytest

from dotted_names import resolved

ROOT = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/book_and_thesis.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| topic ")
]
PLACES = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[1])})
FILES = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[2])})


@pytest.mark.parametrize("name", PLACES)
def test_names_in_the_tables_of_the_book_page_exist_and_are_documented(name):
    assert resolved(name).__doc__


def test_files_in_the_tables_of_the_book_page_exist():
    assert [name for name in FILES if not (ROOT / name).is_file()] == []


def test_implemented_topics_of_the_book_page_have_a_test():
    assert [row[0] for row in ROWS if "not here" not in row[1] and not row[2]] == []
