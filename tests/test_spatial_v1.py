"""Table of functions in docs/spatial_v1.md.

The table lists all functions of spatial_v1, and all rigidblocks names in the table exist.
"""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rigidblocks
import rigidblocks.dynamics
import rigidblocks.robot.robots
from dotted_names import resolved
from planar_models import random_planar_state, random_planar_tree
from random_models import random_state
from rigidblocks.dynamics import bias_force
from rigidblocks.dynamics.kinematics import body_poses, body_velocities

ROOT = Path(__file__).parents[1]
RTOL = 1e-10  # relative to the sum of absolute powers: rounding errors of a few hundred operations

# functions in the order of the spatial_v1 documentation
SPATIAL_V1 = set(
    re.findall(
        r"[\w.]+",
        """
        crf crm mcI Xrotx Xroty Xrotz XtoV Xtrans
        fbKin FDab FDcrb FDf HandC HD ID IDf jcalc
        autoTree floatbase planar2 planar3 planarN
        crfp crmp mcIp Xpln XtoVp
        FDabp FDcrbp HandCp IDp jcalcp
        autoTreep
        drawmodel
        planar2ctrl.mdl test_FD test_HD test_fb1 test_fb2 test_p
        expandLambda LTDL LTL mpyH mpyL mpyLt mpyLi mpyLit
        """,
    )
)


def rows():
    """Yield the MATLAB name and the rigidblocks names of each table row."""
    for line in (ROOT / "docs/spatial_v1.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield cells[0].strip("`"), re.findall(r"`([^`]+)`", cells[1]), cells[1]


ROWS = {matlab: (ours, cell) for matlab, ours, cell in rows()}
FUNCTIONS = [
    (matlab, name) for matlab, (ours, _) in ROWS.items() for name in ours if "/" not in name
]
FILES = [(matlab, name) for matlab, (ours, _) in ROWS.items() for name in ours if "/" in name]


def test_comparison_table_has_one_row_for_each_function_of_spatial_v1():
    assert len(list(rows())) == len(ROWS), "a row is doubled"
    assert len(SPATIAL_V1) == 48
    assert {name for name in ROWS if not name.startswith("system model")} == SPATIAL_V1


def test_each_function_of_spatial_v1_has_a_counterpart():
    assert [matlab for matlab, (ours, _) in ROWS.items() if not ours] == []


@pytest.mark.parametrize(("matlab", "name"), FUNCTIONS)
def test_counterpart_of_a_spatial_v1_function_exists_and_is_documented(matlab, name):
    value = resolved(name)
    assert callable(value), f"{name}, which is to be {matlab}"
    interface = resolved("robot.joints.Joint.jcalc")  # only the interface has a docstring
    assert value.__doc__ or (name.endswith(".jcalc") and interface.__doc__)


@pytest.mark.parametrize(("matlab", "name"), FILES)
def test_counterpart_of_a_spatial_v1_script_exists(matlab, name):
    path, _, test = name.partition("::")
    text = (ROOT / path).read_text()
    assert not test or f"\ndef {test}(" in text, f"{name}, which is to be {matlab}"


SCRIPT_NAMES = [
    "aba",
    "aba_floating",
    "auto_tree",
    "bias_force",
    "crba",
    "floating_base",
    "forward_dynamics_crba",
    "hybrid_dynamics",
    "ltdl",
    "ltl",
    "planar_n",
    "rnea",
    "rnea_floating",
]


@pytest.mark.parametrize("name", SCRIPT_NAMES)
def test_names_used_in_translated_spatial_v1_scripts_exist_in_the_package(name):
    packages = (rigidblocks, rigidblocks.dynamics, rigidblocks.robot.robots)
    assert any(callable(getattr(package, name, None)) for package in packages)


def documented(model, q, f_body):
    """Compute f_ext from wrenches in body coordinates with the documented code."""
    code = re.search(
        r"```python\n(.*?)```", (ROOT / "docs/spatial_v1.md").read_text(), re.DOTALL
    ).group(1)
    names = {"np": np, "body_poses": body_poses, "model": model, "q": q, "f_body": f_body}
    exec(textwrap.dedent(code), names)
    return names["f_ext"]


def assert_same_work(model, q, qd, f_body):
    f_ext = documented(model, q, f_body)
    power = (bias_force(model, q, qd) - bias_force(model, q, qd, f_ext)) @ qd
    parts = np.sum(f_body * body_velocities(model, q, qd), axis=1)
    assert_allclose(power, parts.sum(), rtol=0, atol=RTOL * np.abs(parts).sum())


def test_documented_conversion_of_body_wrenches_conserves_power(model, rng):
    # power balance: body wrenches and the joint forces that they replace have the same power
    q, qd, _, _, f_body = random_state(rng, model)
    assert_same_work(model, q, qd, f_body)


def test_documented_conversion_of_planar_body_wrenches_conserves_power(rng):
    tree = random_planar_tree(rng, (-1, 0, 0, 2))
    q, qd, _, _, f_body = random_planar_state(rng, tree)
    assert_same_work(tree, q, qd, f_body)
