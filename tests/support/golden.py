"""Golden files: generated text in tests/reference for comparison."""

from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"


def assert_golden(text, path, update):
    """Assert that the file has this text, or write it for --update-golden."""
    if update:
        path.write_text(text)
    assert path.is_file(), (
        f"there is no {path.name}; `pytest --update-golden` with this test writes it"
    )
    different = [
        k
        for k, (a, b) in enumerate(
            zip(text.splitlines(), path.read_text().splitlines(), strict=False)
        )
        if a != b
    ]
    where = f"from line {different[0] + 1} on" if different else "at its end"
    message = (
        f"the C of {path.stem} is not that of {path.name} {where}; `--update-golden` rewrites "
        "it, if it is meant"
    )
    assert text == path.read_text(), message
