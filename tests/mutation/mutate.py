"""Mutation testing: the tests must detect a fixed sample of small changes of the Python and C code.

Run `python tests/mutation/mutate.py --number 12`. A mutant is one changed token. It is killed if
the tests of its file fail or take longer than the limit, and survives if they pass. EQUIVALENT
lists mutants without a visible effect, with the reason. The exit code is 1 if fewer than 95 % of
the other mutants are killed. No maintained tool mutates both the traced Python code and the C
headers of this package.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "blocks" / "rigidblocks"
LIMIT = 300.0  # [s] for the tests of one mutant
WANTED = 0.95

# the tests that must notice a change of a file
TESTS = {
    "spatial/scalar.py": ("tests/dynamics/test_kinematics.py",),
    "spatial/spatial.py": ("tests/spatial",),
    "spatial/planar.py": ("tests/spatial",),
    "block/port.py": ("tests/block/test_ports.py", "tests/block/test_invalid_blocks.py"),
    "block/stepper.py": ("tests/block",),
    "robot/validation.py": (
        "tests/robot",
        "tests/loops/test_loop_constraints.py",
        "tests/loops/test_strings.py",
    ),
    "dynamics/loops/loop_dynamics.py": (
        "tests/loops/test_loop_inverse_dynamics.py",
        "tests/loops/test_loop_projection.py",
        "tests/joints/test_rheonomic.py",
    ),
    "contact/event_driven/impact.py": (
        "tests/contact/test_collision.py",
        "tests/contact/test_impact.py",
    ),
    "c/kernel/block_step.h": ("tests/block", "tests/fmi/test_co_simulation.py"),
    "c/fmi/variable_access.h": (
        "tests/fmi/test_bounds.py",
        "tests/fmi/test_co_simulation.py",
        "tests/fmi/test_events.py",
        "tests/fmi/test_model_exchange.py",
        "tests/fmi/test_native_fmu.py",
    ),
    "c/fmi/simulation_run.h": (
        "tests/fmi/test_co_simulation.py",
        "tests/fmi/test_model_exchange.py",
        "tests/fmi/test_completed_step.py",
        "tests/fmi/test_fmu_log_messages.py",
    ),
}

# changes without visible effect, by file, line and change
EQUIVALENT = {
    "spatial/spatial.py: if np.abs(X.E @ X.E.T - np.eye(len(X.E))).max() > 1e-9 or "
    "np.linalg.det(X.E) < 0:: < -> <=": "what is orthogonal has a determinant of 1 or -1",
    "robot/validation.py: if not E.shape == I.shape == (3, 3) or not r.shape == h.shape == (3,):: "
    "3 -> 4": "a shortcut: bodies that do not take it pass all its checks elsewhere",
    "contact/event_driven/impact.py: TINY = 1e-200  # avoids a division by zero whose result is "
    "not used: 1e-200 -> 2e-200": "any number that is not zero has this effect",
}


class Mutant(NamedTuple):
    """One changed token of a file, the text from `start` to `end` replaced by `new`."""

    path: str
    start: int
    end: int
    old: str
    new: str

    def name(self, text: str) -> str:
        """Return file, line and change, the key of EQUIVALENT."""
        first = text.rfind("\n", 0, self.start) + 1
        line = text[first : text.find("\n", self.start)].strip()
        return f"{self.path}: {line}: {self.old} -> {self.new}"


OPERATORS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "==": "!=", "!=": "==", "&&": "||", "||": "&&", "and": "or", "or": "and",
}  # fmt: skip
PYTHON_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "and", ast.Or: "or",
}  # fmt: skip
C_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*|\"(?:\\.|[^\"\\])*\"|[A-Za-z_]\w*"
    r"|(?P<number>\d+\.?\d*(?:e-?\d+)?)|->|\+\+|--|[-+*/&|]="
    r"|(?P<operator>(?<= )(?:&&|\|\||==|!=|<=|>=|[-+*/<>])(?= ))",
    re.DOTALL | re.MULTILINE,
)


def mutants(path: str) -> Iterator[Mutant]:
    """Return all mutants of a file of the package."""
    text = (PACKAGE / path).read_text()
    tokens = python_tokens(text) if path.endswith(".py") else c_tokens(text)
    for start, end in tokens:
        old = text[start:end]
        yield Mutant(path, start, end, old, OPERATORS.get(old) or changed(old))


def changed(number: str) -> str:
    """Return another number: 1 for 0, twice a fraction, and one more than an integer."""
    if re.fullmatch(r"\d+", number):
        return str(int(number) + 1)
    return "1.0" if float(number) == 0.0 else repr(2.0 * float(number))


def c_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Return the positions of operators and numbers outside comments, strings and directives."""
    for match in C_TOKEN.finditer(text):
        if match["number"] or match["operator"]:
            yield match.span()


def python_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Return the positions of operators and numbers in expressions, without annotations."""
    lines = [0, *(m.end() for m in re.finditer("\n", text))]
    assert text.isascii(), "columns of the syntax tree count bytes"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield (
                lines[node.lineno - 1] + node.col_offset,
                lines[node.end_lineno - 1] + node.end_col_offset,
            )
        for operator, left, right in operations(node):
            start = lines[left.end_lineno - 1] + left.end_col_offset
            end = lines[right.lineno - 1] + right.col_offset
            # brackets may be next to the operator
            if match := re.search(
                rf"(?<!\w){re.escape(PYTHON_OPERATORS[type(operator)])}(?!\w)", text[start:end]
            ):
                yield start + match.start(), start + match.end()


def operations(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Return the operators of an expression with their left and right operands."""
    found: list[tuple[ast.AST, ast.expr, ast.expr]] = []
    if isinstance(node, ast.BinOp):
        found = [(node.op, node.left, node.right)]
    elif isinstance(node, ast.BoolOp):
        found = [(node.op, *pair) for pair in zip(node.values, node.values[1:], strict=False)]
    elif isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        found = list(zip(node.ops, sides, sides[1:], strict=False))
    yield from (one for one in found if type(one[0]) in PYTHON_OPERATORS)


def fate(mutant: Mutant) -> str:
    """Run the tests of the mutant's file on a copy of the package with it; return the result."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "rigidblocks"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        text = (copy / mutant.path).read_text()
        (copy / mutant.path).write_text(text[: mutant.start] + mutant.new + text[mutant.end :])
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        # long tests of blocks take minutes, and long tests of spatial algebra take seconds
        long = mutant.path.startswith(("c/fmi", "spatial"))
        chosen = "not (interop or autodiff)" if long else "not (slow or interop or autodiff)"
        command += ["-n", "auto", "-m", chosen, *TESTS[mutant.path]]
        environment = os.environ | {"PYTHONPATH": folder}
        try:
            ran = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return "timed out"
    return "survived" if ran.returncode == 0 else "killed"


def draw(number: int, seed: int) -> list[Mutant]:
    """Return a number of mutants, files in turn, reproducible for a seed and sources."""
    chance = random.Random(seed)
    paths = chance.sample(sorted(TESTS), len(TESTS))
    return [chance.choice(list(mutants(paths[k % len(paths)]))) for k in range(number)]


def main() -> int:
    """Print the result of each mutant; return 1 if too many survive."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--number", type=int, default=12)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--list", action="store_true", help="print the draw and run nothing")
    given, counts = arguments.parse_args(), Counter[str]()
    for mutant in draw(given.number, given.seed):
        name = mutant.name((PACKAGE / mutant.path).read_text())
        became = "listed" if given.list else "equivalent" if name in EQUIVALENT else fate(mutant)
        counts[became] += 1
        print(f"{became:10} {name}", flush=True)
    dead = counts["killed"] + counts["timed out"]
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(dead < WANTED * (dead + counts["survived"]))


if __name__ == "__main__":
    sys.exit(main())
