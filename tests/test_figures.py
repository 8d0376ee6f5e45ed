"""Measured tables of README and docs agree with the file of measurements."""

import json
import re

import pytest

from scripts import script


@pytest.fixture(scope="module")
def tables():
    return script("benchmarks/tables.py")


def test_measured_tables_on_pages_have_the_values_of_the_measurement_file(tables):
    measured = json.loads(tables.MEASURED.read_text())
    texts = [path.read_text() for path in tables.pages()]
    assert [tables.with_tables(text, measured) for text in texts] == texts
    shown = {name for text in texts for _, name, *_ in tables.PLACE.findall(text)}
    assert shown == set(measured)
    assert all("measured:" not in tables.PLACE.sub("", text) for text in texts)


def test_documentation_pages_contain_measured_times_only_in_measured_tables(tables):
    typed = re.compile(
        r"\d[\d.,]* (?:us|ns)\b|\d[\d.,]* x (?!\d)|\d times as (?:fast|long)"
        r"|(?:half|third|quarter|fifth|sixth|tenth) of the (?:time|processor)"
    )
    chosen = "an empty section of 1 us"  # value of an option instead of a measurement
    for path in tables.pages():
        text = tables.PLACE.sub("", path.read_text()).replace(chosen, "")
        assert not typed.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)), path


def test_measurement_file_contains_date_machine_and_load(tables):
    measured = json.loads(tables.MEASURED.read_text())
    for one in measured.values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one["date"])
        assert re.search(r"\d+ cores, \w+, Python \d", one["machine"])
        assert one["load"] >= 0


def test_table_update_replaces_only_the_marked_table_of_a_page(tables):
    one = {"heads": ["", "time"], "rows": [["a", "1 us"]]}
    measured = {"beads": {"machine": "abacus", "date": "1999-12-31", "load": 0.1, **one}}
    text = "before\n<!-- measured: beads -->\nold\n<!-- end of beads -->\nafter\n"
    new = tables.with_tables(text, measured)
    assert new.startswith(
        "before\n<!-- measured: beads -->\n| | time |\n| --- | --- |\n| a | 1 us |"
    )
    assert "Measured 1999-12-31, abacus, load 0.1." in new
    assert "old" not in new
    assert new.endswith("<!-- end of beads -->\nafter\n")
    assert tables.with_tables(new, measured) == new
    with pytest.raises(KeyError):
        tables.with_tables("<!-- measured: x -->\n<!-- end of x -->", measured)
