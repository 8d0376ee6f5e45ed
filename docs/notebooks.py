"""The examples as notebooks: a cell for each function, and a picture at the end of each.

    python docs/notebooks.py [NAME ...] [--run] [-o FOLDER]

writes those of all examples, or of those that begin with a NAME, to build/notebooks; with --run it
executes them there, and keeps what their cells show.
"""

import argparse
import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
# the last cell of those that write no picture
PICTURES = {
    "02_two_body_problem": "hinged(rods()[0]).show()",
    "03_six_d_vectors": "auto_tree(6, 1, 1.0, 0.9).show([0.4, 0.5, -0.3, 0.8, 0.2, -0.6])",
    "24_cut_in_three": "ARM.show(np.random.default_rng(1).uniform(-1, 1, ARM.nv))",
    "27_moving_picture": (
        'from IPython.display import SVG\n\nSVG("build/planar2ctrl.svg")'
    ),
}  # fmt: skip


def main() -> None:
    """Writes and runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="how the names of examples begin; all")
    parser.add_argument("--run", action="store_true", help="execute them")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/notebooks"))
    given = parser.parse_args()
    for path in sorted(EXAMPLES.glob("*.py")):
        if not given.names or path.stem.startswith(tuple(given.names)):
            made = written(path, given.output)
            if given.run:
                executed(made)
            print(made, flush=True)


def written(example: Path, folder: Path) -> Path:
    """The path of the notebook of an example, which is written into the folder."""
    import jupytext

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{example.stem}.ipynb"
    jupytext.write(jupytext.reads(percent(example, folder), fmt="py:percent"), path)
    return path


def executed(path: Path) -> Any:
    """A notebook that is executed where it lies, and written again with what its cells show.

    Raises nbclient's CellExecutionError for a cell that fails.
    """
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    nbformat.write(notebook, path)
    return notebook


def percent(example: Path, folder: Path) -> str:
    """An example as a script in cells, the first with what it says of itself."""
    text = example.read_text()
    tree = ast.parse(text)
    said = ast.get_docstring(tree) or example.stem
    about = "\n".join(f"# {line}".rstrip() for line in said.splitlines())
    parts = [f"# %% [markdown]\n{about}", f"# %%\n{_beginning(example, folder)}"]
    parts += [f"# %%\n{cell}" for cell in _cells(tree, text)]
    return "\n\n".join([*parts, f"# %%\n{_picture(example.stem, text)}\n"])


def _beginning(example: Path, folder: Path) -> str:
    """What a script knows and a notebook does not."""
    path = os.path.relpath(example.resolve(), folder.resolve())
    return (
        "import sys\nfrom pathlib import Path\n\n"
        f'__file__ = str(Path("{Path(path).as_posix()}").resolve())\nsys.argv = [__file__]'
    )


def _cells(tree: ast.Module, text: str) -> Iterator[str]:
    """The statements of a script: each function and class alone, others together."""
    lines, start, gathered = text.splitlines(), tree.body[0].end_lineno or 0, list[str]()
    for node in tree.body[1:]:
        end = node.end_lineno or start
        segment = "\n".join(lines[start:end]).strip("\n")
        start = end
        if isinstance(node, ast.If):  # __name__ == "__main__"
            segment = "main()"
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If):
            if gathered:
                yield "\n".join(gathered)
            yield segment
            gathered = []
        else:
            gathered.append(segment)
    if gathered:
        yield "\n".join(gathered)


def _picture(name: str, text: str) -> str:
    """The cell that shows what an example has drawn: its page, or its picture."""
    if name in PICTURES:
        return PICTURES[name]
    files = re.findall(r"\b(\w+\.(?:html|png))\b", text)
    (folder,) = re.findall(r'^BUILD = Path\("(\S+)"\)', text, re.MULTILINE)
    page = next((one for one in files if one.endswith("html")), None)
    if page is None:
        return f'from IPython.display import Image\n\nImage("{folder}/{files[-1]}")'
    return (
        "from rigidblocks.view.page import Page\n\n"
        f'Page("{name}", Path("{folder}/{page}").read_text())'
    )


if __name__ == "__main__":
    main()
