"""Examples as notebooks: a cell for each function, and a picture at the end.

    python docs/notebooks.py [NAME ...] [--run] [-o FOLDER]

This writes the notebooks of all examples, or of examples that begin with a NAME, to
build/notebooks. With --run it executes them there, and keeps their output.
"""

import argparse
import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
# the last cell of examples without a picture
PICTURES = {
    "02_two_body_problem": "hinged(rods()[0]).show()",
    "03_six_d_vectors": "auto_tree(6, 1, 1.0, 0.9).show([0.4, 0.5, -0.3, 0.8, 0.2, -0.6])",
    "24_cut_in_three": "ARM.show(np.random.default_rng(1).uniform(-1, 1, ARM.nv))",
    "27_moving_picture": (
        'from IPython.display import SVG\n\nSVG("build/planar2ctrl.svg")'
    ),
}  # fmt: skip


def main() -> None:
    """Write, and run on request, the notebooks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="how the names of examples begin; all")
    parser.add_argument("--run", action="store_true", help="execute them")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/notebooks"))
    given = parser.parse_args()
    for path in sorted(EXAMPLES.glob("*.py")):
        if not given.names or path.stem.startswith(tuple(given.names)):
            made = write_notebook(path, given.output)
            if given.run:
                execute_notebook(made)
            print(made, flush=True)


def write_notebook(example: Path, folder: Path) -> Path:
    """Write the notebook of an example into a folder, and return its path."""
    import jupytext

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{example.stem}.ipynb"
    jupytext.write(jupytext.reads(percent_script(example, folder), fmt="py:percent"), path)
    return path


def execute_notebook(path: Path) -> Any:
    """Execute a notebook in its folder, and write it with the output of its cells.

    Raises:
        CellExecutionError: A cell fails (nbclient).
    """
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    nbformat.write(notebook, path)
    return notebook


def percent_script(example: Path, folder: Path) -> str:
    """Return an example as a script in cells; the first has its docstring."""
    text = example.read_text()
    tree = ast.parse(text)
    said = ast.get_docstring(tree) or example.stem
    about = "\n".join(f"# {line}".rstrip() for line in said.splitlines())
    parts = [f"# %% [markdown]\n{about}", f"# %%\n{_beginning(example, folder)}"]
    parts += [f"# %%\n{cell}" for cell in _cells(tree, text)]
    return "\n\n".join([*parts, f"# %%\n{_picture(example.stem, text)}\n"])


def _beginning(example: Path, folder: Path) -> str:
    """Return the first code cell, which replaces the environment of a script."""
    path = os.path.relpath(example.resolve(), folder.resolve())
    return (
        "import sys\nfrom pathlib import Path\n\n"
        f'__file__ = str(Path("{Path(path).as_posix()}").resolve())\nsys.argv = [__file__]'
    )


def _cells(tree: ast.Module, text: str) -> Iterator[str]:
    """Yield the cells of a script: one for each function and class, others together."""
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
    """Return the cell that shows the page or the picture of an example."""
    if name in PICTURES:
        return PICTURES[name]
    files = re.findall(r"\b(\w+\.(?:html|png))\b", text)
    (folder,) = re.findall(r'^BUILD = Path\("(\S+)"\)', text, re.MULTILINE)
    page = next((one for one in files if one.endswith("html")), None)
    if page is None:
        return f'from IPython.display import Image\n\nImage("{folder}/{files[-1]}")'
    return (
        "from rigidblocks.view.robot_page import Page\n\n"
        f'Page("{name}", Path("{folder}/{page}").read_text())'
    )


if __name__ == "__main__":
    main()
