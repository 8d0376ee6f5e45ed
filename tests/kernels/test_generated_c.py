"""Generated C equals the golden files, and exported FMUs do not depend on the environment."""

import hashlib
import os
import subprocess
import sys

import pytest

from golden import REFERENCE, assert_golden
from planar2ctrl import parts, wired
from rigidblocks import FusedSystem
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cosim.masters.run_plan import set_default_method
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator

GOLDEN = {
    "planar2_robot": lambda: parts()["robot"],
    "planar2_pd": lambda: parts()["pd"],
    "planar2ctrl_fused": lambda: FusedSystem(
        set_default_method(wired(parts()).wiring(), RK4, None), 1e-3
    ),
}
HERE = """
import hashlib, sys
from rigidblocks import RobotPlant, auto_tree, export_fmu
path = export_fmu(RobotPlant(auto_tree(3, skew=0.7)), sys.argv[1], "source")
print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


@pytest.mark.parametrize("name", GOLDEN)
def test_generated_c_equals_the_stored_reference_file(name, request):
    text = model_header(TracedEvaluator(Memory(GOLDEN[name]())), RK4, 1e-3)
    assert_golden(text, REFERENCE / f"{name}.h", request.config.getoption("--update-golden"))


def test_error_for_changed_generated_c_shows_the_first_different_line(tmp_path):
    golden = tmp_path / "a.h"
    golden.write_text("one\ntwo\nthree\n")
    with pytest.raises(
        AssertionError,
        match=r"the C of a is not that of a.h from line 2 on; `--update-golden` rewrites it",
    ):
        assert_golden("one\nzwei\nthree\n", golden, update=False)
    assert_golden("one\nzwei\nthree\n", golden, update=True)
    assert golden.read_text() == "one\nzwei\nthree\n"


def source_fmu(folder, name, **environment):
    """Return the digest of a source FMU that a separate process exports in a folder."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HERE, str(folder / name)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return done.stdout


@pytest.mark.slow
def test_fmus_exported_in_different_environments_are_byte_identical(tmp_path):
    # other set order, clock, language and file mode, and a processor without the newest vector
    # instructions
    strange = {
        "PYTHONHASHSEED": "1",
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "1",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512_SKX",
        "OPENBLAS_CORETYPE": "Sandybridge",
    }
    first = source_fmu(tmp_path / "one", "a.fmu", PYTHONHASHSEED="2")
    assert source_fmu(tmp_path / "another folder", "b.fmu", **strange) == first
