"""The examples of docs/runs.md run, one after the other."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/runs.md"


def test_the_examples_of_the_page_run():
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 3
    names: dict[str, object] = {}
    for example in examples:
        exec(example, names)
