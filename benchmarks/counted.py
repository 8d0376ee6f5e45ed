"""Instructions per call from C, counted by callgrind and compared with Pinocchio from C++.

Other programs on the machine do not change the counts. Valgrind supports instructions up to AVX2.
The script runs itself under valgrind (`apt install valgrind`) and prints a row for each algorithm.
"""

import ctypes
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import in_cpp
from models import chains

from rigidblocks.common.compiler import shared_library

CALLS = 20  # two counts differ by this number of calls; their difference contains only the calls
ROBOTS = ("7 joints", "18 joints", "4 legs, 17")  # tracing larger robots under valgrind is slow
_COUNTING = Path(__file__).with_name("counting.c")
_DUMP = re.compile(r"Trigger: Client Request: (.*?)$.*?^totals: (\d+)", re.DOTALL | re.MULTILINE)


def count() -> None:
    """Run each loop twice to count its instructions; this works only under valgrind."""
    library = ctypes.CDLL(str(shared_library({"counting.c": _COUNTING.read_text()}, "counting.c")))
    robots = {name: model for name, model in chains().items() if name in ROBOTS}
    for case in chain(in_cpp.of_trees(robots), in_cpp.of_loops((1, 10))):
        for peer in case.peers:
            in_cpp.check_answers(case.name, case.algorithm, case.ours, peer)
        loops: dict[str, Callable[[int], Callable[[], object]]] = {
            "ours": lambda n, case=case: in_cpp.loop_of(case.ours, n)
        }
        loops |= {
            f"peer {k}": lambda n, peer=peer, case=case: peer.loop(case.algorithm, n)
            for k, peer in enumerate(case.peers)
        }
        for which, loop in loops.items():
            for n in (1, 1 + CALLS):
                call = loop(n)
                call()
                library.begin_counting()
                call()
                library.end_counting(f"{case.name}; {which}; {n}".encode())


def counted() -> Iterator[tuple[str, float, float]]:
    """Yield name, and instructions per call of the library and of Pinocchio's better convention.

    Raises:
        CalledProcessError: If the run under valgrind fails.
        FileNotFoundError: If valgrind is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = f"--callgrind-out-file={folder}/counts"
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", out]
        subprocess.run(
            [*valgrind, sys.executable, __file__, "--count"], check=True, capture_output=True
        )
        dumps = sorted(Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        texts = [path.read_text(errors="replace") for path in dumps]
    found = {match[1]: int(match[2]) for text in texts for match in _DUMP.finditer(text)}
    calls: dict[str, dict[str, float]] = {}
    for at, total in found.items():
        name, which, n = at.split("; ")
        if n != "1":
            once = found[f"{name}; {which}; 1"]
            calls.setdefault(name, {})[which] = (total - once) / CALLS
    for name, each in calls.items():
        yield name, each.pop("ours"), min(each.values())


def main() -> None:
    """Count the instructions if run under valgrind, otherwise print the rows."""
    if "--count" in sys.argv:
        count()
        return
    print(f"{'instructions of a call in C, C++':34} {'ours':>9} {'Pinocchio':>10} {'ratio':>6}")
    for what, ours, theirs in counted():
        print(f"{what:34} {ours:9,.0f} {theirs:10,.0f} {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
