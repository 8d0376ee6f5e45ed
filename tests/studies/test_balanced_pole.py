"""A policy that stable-baselines3 trains in vector environments balances a pole as an FMU."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.autodiff
SCRIPT = Path(__file__).parents[2] / "benchmarks/balanced_pole.py"


def test_policy_trained_with_100000_steps_balances_a_pole_in_python_and_as_fmu(tmp_path):
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("onnxscript")
    run = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.search(r"trained with (\d+) steps", run.stdout)[1]) <= 100_000
    assert "100.0% of 200 poles stand for 20 s" in run.stdout
    assert "FMUs in FMPy: the cart stays within" in run.stdout
    assert (tmp_path / "policy.fmu").exists()
