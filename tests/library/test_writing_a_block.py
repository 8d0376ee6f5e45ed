"""The code of the guide on writing a block runs in every form."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks import Port, System, simulate
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "writing_a_block.md"
SAME = 1e-12  # rounding differences between forms, which decay over a thousand steps
RK4_ERROR = 1e-10  # (h/T)^5/120 per step, accumulated over 100 steps of h = T/100


def listings(language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [text for kind, text in found if kind == language]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("lag_fmu", "counter"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_example_block_of_the_guide_runs_in_numpy_in_c_and_as_fmu(folder):
    file, forms, fmus, *_ = listings("python")
    (folder / "lag_fmu.py").write_text(file)
    for line in listings("")[0].splitlines():
        program, *arguments = line.split()
        assert program == "rigidblocks"
        main(arguments)
    names = {}
    exec(forms, names)
    exec(fmus, names)
    runs = names["runs"]
    assert list(runs) == ["numpy", "compiled", "fused", "lag.fmu", "lag_python.fmu"]
    for run in runs.values():
        assert_allclose(run, runs["numpy"], rtol=0, atol=SAME)
    # u = 3 N m exceeds the limit of 2 N m, T = 0.1 s
    exact = 2.0 * (1.0 - np.exp(-np.linspace(0.0, 1.0, 1001) / 0.1))
    assert_allclose(runs["numpy"], exact, rtol=0, atol=RK4_ERROR)


def test_example_block_of_the_guide_has_at_most_15_lines():
    source = listings("python")[0]
    block = source[source.index("@dataclass") : source.index("class LagSlave")]
    assert len([line for line in block.splitlines() if line.strip()]) <= 15


def test_error_messages_in_the_block_writing_guide_match_the_code(folder):
    (folder / "lag_fmu.py").write_text(listings("python")[0])
    Lag = importlib.import_module("lag_fmu").Lag

    def rates(derivative):
        flat = Memory(type("Lag", (Lag,), {"derivative": derivative})())
        return NumpyEvaluator(flat).derivative(flat.start())

    mistakes = [
        lambda: Lag(T=0.0),
        lambda: rates(lambda _self, x: {"y": x.z}),
        lambda: rates(lambda _self: None),
        lambda: rates(lambda _self, time, x: {"y": time + x}),
        lambda: type("Lag", (Lag,), {"inputs": Port("u")})(),
    ]
    said = []
    for mistake in mistakes:
        with pytest.raises((AttributeError, TypeError, ValueError)) as error:
            mistake()
        said.append(str(error.value))
    rows = re.findall(r"^\| .* \| `(.*)` \|$", PAGE.read_text(), re.MULTILINE)
    assert said == rows


def test_sampled_example_block_of_the_guide_counts_its_samples(folder):
    (folder / "counter.py").write_text(listings("python")[-1])
    Counter = importlib.import_module("counter").Counter
    system = System()
    system.add("counter", Counter(), start={"u": 2.0})
    n = simulate(system, t_stop=0.01, dt=1e-3)["counter.n"]
    assert n.tolist() == [1.0 + k for k in range(11)]
