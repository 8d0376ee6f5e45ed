"""The table of docs/spatial_v1.md is true: every function of spatial_v1 is there, and every name of
ours exists.
"""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rigidblocks
from dotted_names import resolved
from planar_models import random_planar_state, random_planar_tree
from random_models import random_state
from rigidblocks.dynamics import bias_force
from rigidblocks.dynamics.kinematics import body_poses, body_velocities

ROOT = Path(__file__).parents[1]
RTOL = 1e-10  # relative to the sum of the powers' sizes: roundings of a few hundred operations

# the contents of the spatial_v1 documentation, in its order
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
    """The MATLAB name of each row of the document's tables, and our names for it."""
    for line in (ROOT / "docs/spatial_v1.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield cells[0].strip("`"), re.findall(r"`([^`]+)`", cells[1]), cells[1]


ROWS = {matlab: (ours, cell) for matlab, ours, cell in rows()}
FUNCTIONS = [
    (matlab, name) for matlab, (ours, _) in ROWS.items() for name in ours if "/" not in name
]
FILES = [(matlab, name) for matlab, (ours, _) in ROWS.items() for name in ours if "/" in name]


def test_every_function_of_spatial_v1_has_a_row():
    assert len(list(rows())) == len(ROWS), "a row is doubled"
    assert len(SPATIAL_V1) == 48
    assert {name for name in ROWS if not name.startswith("system model")} == SPATIAL_V1


def test_nothing_is_missing():
    assert [matlab for matlab, (ours, _) in ROWS.items() if not ours] == []


@pytest.mark.parametrize(("matlab", "name"), FUNCTIONS)
def test_counterpart_exists_and_is_documented(matlab, name):
    value = resolved(name)
    assert callable(value), f"{name}, which is to be {matlab}"
    interface = resolved("joint.Joint.jcalc")  # an interface is documented once
    assert value.__doc__ or (name.endswith(".jcalc") and interface.__doc__)


@pytest.mark.parametrize(("matlab", "name"), FILES)
def test_counterpart_of_a_script_exists(matlab, name):
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
def test_name_for_scripts_is_one_of_the_package(name):
    assert callable(getattr(rigidblocks, name))
    assert name in rigidblocks.__all__


def documented(model, q, f_body):
    """The f_ext that the code in the document makes of wrenches in body coordinates."""
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


def test_wrenches_in_body_coordinates_become_external_forces_as_documented(model, rng):
    # the power of the wrenches at the bodies is that of the joint forces that they spare
    q, qd, _, _, f_body = random_state(rng, model)
    assert_same_work(model, q, qd, f_body)


def test_planar_wrenches_in_body_coordinates_become_external_forces_as_documented(rng):
    tree = random_planar_tree(rng, (-1, 0, 0, 2))
    q, qd, _, _, f_body = random_planar_state(rng, tree)
    assert_same_work(tree, q, qd, f_body)
