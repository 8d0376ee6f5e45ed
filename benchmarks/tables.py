"""The tables of README and docs whose figures were measured: each stands between the marks

    <!-- measured: NAME -->
    <!-- end of NAME -->

and is written from benchmarks/measured.json, which `benchmarks/figures.py` makes. This script alone
writes them again from the file.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "benchmarks/measured.json"
PLACE = re.compile(r"(<!-- measured: (\w+) -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)


def pages() -> list[Path]:
    """The pages that may have such tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_tables(text: str, measured: dict) -> str:
    """A page with its tables as they were measured; KeyError for one that was not."""
    return PLACE.sub(lambda found: found[1] + table(measured[found[2]]) + found[4], text)


def table(one: dict) -> str:
    """A table, or what a program printed, and where and when it was measured."""
    if "printed" in one:
        text = "```\n" + one["printed"] + "```\n"
    else:
        rows = [one["heads"], ["---"] * len(one["heads"]), *one["rows"]]
        text = "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)
    return f"{text}\nMeasured {one['date']}, {one['machine']}, load {one['load']}.\n"


def write(measured: dict) -> None:
    """Writes the tables of all pages whose figures are known."""
    for path in pages():
        text = path.read_text()
        known = all(name in measured for _, name, *_ in PLACE.findall(text))
        if known and (new := with_tables(text, measured)) != text:
            path.write_text(new)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    write(json.loads(MEASURED.read_text()))
