"""Generated C: the same text as the golden files, and FMUs of the same bytes whatever the process that made them is like."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planar2ctrl import parts, wired
from rigidblocks import RK4, FusedSystem
from rigidblocks.flat import FlatBlock
from rigidblocks.model_header import model_header

REFERENCE = Path(__file__).with_name("reference")
GOLDEN = {
    "planar2_robot": lambda: parts()["robot"],
    "planar2_pd": lambda: parts()["pd"],
    "planar2ctrl_fused": lambda: FusedSystem(wired(parts()), 1e-3),
}
HERE = """
import hashlib, sys
from rigidblocks import RobotPlant, auto_tree, export_fmu
path = export_fmu(RobotPlant(auto_tree(3, skew=0.7)), sys.argv[1], "source")
print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


def assert_golden(text, path, update):
    """Asserts that the file has this text, or, with --update-golden, writes it."""
    if update:
        path.write_text(text)
    assert path.is_file(), f"there is no {path.name}; `pytest tests/test_generated.py --update-golden` writes it"
    different = [k for k, (a, b) in enumerate(zip(text.splitlines(), path.read_text().splitlines(), strict=False)) if a != b]
    where = f"from line {different[0] + 1} on" if different else "at its end"
    message = f"the C of {path.stem} is not that of {path.name} {where}; `--update-golden` rewrites it, if it is meant"
    assert text == path.read_text(), message


@pytest.mark.parametrize("name", GOLDEN)
def test_generated_c_is_the_golden_file(name, request):
    text = model_header(FlatBlock(GOLDEN[name]()), RK4, 1e-3)
    assert_golden(text, REFERENCE / f"{name}.h", request.config.getoption("--update-golden"))


def test_other_c_than_the_golden_file_is_told_by_its_first_line(tmp_path):
    golden = tmp_path / "a.h"
    golden.write_text("one\ntwo\nthree\n")
    with pytest.raises(AssertionError, match=r"the C of a is not that of a.h from line 2 on; `--update-golden` rewrites it"):
        assert_golden("one\nzwei\nthree\n", golden, update=False)
    assert_golden("one\nzwei\nthree\n", golden, update=True)
    assert golden.read_text() == "one\nzwei\nthree\n"


def source_fmu(folder, name, **environment):
    """The digest of a source FMU made by a process of its own in a folder."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HERE, str(folder / name)], cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return done.stdout


def test_fmus_made_under_other_circumstances_are_byte_identical(tmp_path):
    # another order of sets, another clock, language and file mode, and a processor without the newest vector instructions
    strange = {
        "PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX", "OPENBLAS_CORETYPE": "Sandybridge",
    }  # fmt: skip
    first = source_fmu(tmp_path / "one", "a.fmu", PYTHONHASHSEED="2")
    assert source_fmu(tmp_path / "another folder", "b.fmu", **strange) == first
