"""Measured tables of the README and the docs, each between the marks

    <!-- measured: NAME -->
    <!-- end of NAME -->

Their content comes from benchmarks/measured.json, which `benchmarks/figures.py` writes. This script
only inserts the tables of that file into the pages again.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "benchmarks/measured.json"
PLACE = re.compile(r"(<!-- measured: (\w+) -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages that may have measured tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_tables(text: str, measured: dict) -> str:
    """Return a page with its measured tables; raise KeyError if a table is unknown."""
    return PLACE.sub(lambda found: found[1] + table(measured[found[2]]) + found[4], text)


def table(one: dict) -> str:
    """Return a table or a printed output as text, with machine and date of the measurement."""
    if "printed" in one:
        text = "```\n" + one["printed"] + "```\n"
    else:
        rows = [one["heads"], ["---"] * len(one["heads"]), *one["rows"]]
        text = "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)
    return f"{text}\nMeasured {one['date']}, {one['machine']}, load {one['load']}.\n"


def write(measured: dict) -> None:
    """Write the measured tables of all pages."""
    for path in pages():
        text = path.read_text()
        known = all(name in measured for _, name, *_ in PLACE.findall(text))
        if known and (new := with_tables(text, measured)) != text:
            path.write_text(new)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    write(json.loads(MEASURED.read_text()))
