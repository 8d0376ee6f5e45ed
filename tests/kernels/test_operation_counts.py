"""Operation counts of the traced algorithms in C do not exceed RBDA Table 10.1."""

import re

import numpy as np
import pytest

from random_models import random_inertia, random_transform
from rigidblocks.dynamics import aba, aba_floating, hybrid_dynamics
from rigidblocks.dynamics.floating_base import floating_base
from rigidblocks.kernels.compiled_dynamics import straight_line
from rigidblocks.robot.joints import Revolute
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Transform, rx, xlt
from rigidblocks.tracing.ccode import c_function
from rigidblocks.tracing.trace import trace

# multiplications and additions for an unbranched robot of n revolute joints, without sines and
# cosines
BOOK = {
    "rnea": lambda n: (93 * n - 108) + (81 * n - 100),
    "crba": lambda n: (10 * n**2 + 22 * n - 32) + (6 * n**2 + 37 * n - 43),
    "aba": lambda n: (224 * n - 259) + (205 * n - 248),
}


def denavit_hartenberg(rng: np.random.Generator) -> Transform:
    """Return a link with general twist alpha, length a and offset d (RBDA 4.3)."""
    alpha, a, d = rng.uniform(0.2, 1.0, 3)
    offset, twist = xlt([0.0, 0.0, d]), Transform(rx(alpha), np.array([a, 0.0, 0.0]))
    return offset @ twist


def chain(n, geometry):
    rng = np.random.default_rng(n)
    return Model(
        name="chain",
        parent=tuple(range(-1, n - 1)),
        joint=(Revolute(),) * n,
        Xtree=tuple(geometry(rng) for _ in range(n)),
        inertia=tuple(random_inertia(rng) for _ in range(n)),
        gravity=rng.uniform(-10, 10, 3),
    )


def arithmetic(graph):
    """Return the number of arithmetic operators in the C text.

    A division by a shared reciprocal counts the reciprocal separately.
    """
    statements = [line.split("=")[1] for line in c_function(graph).splitlines() if "=" in line]
    return sum(
        bool(re.search(r" [-+*/] |^ -", statement.replace("(-", "("))) for statement in statements
    )


@pytest.mark.parametrize("geometry", [denavit_hartenberg, random_transform])
@pytest.mark.parametrize("n", range(2, 13))
@pytest.mark.parametrize("algorithm", BOOK)
def test_operation_counts_of_a_revolute_chain_do_not_exceed_rbda_table_10_1(algorithm, n, geometry):
    graph = straight_line(chain(n, geometry), algorithm)
    assert arithmetic(graph) <= BOOK[algorithm](n)
    assert 0 <= arithmetic(graph) - graph.operation_count <= n  # shared reciprocals


@pytest.mark.parametrize(("algorithm", "order"), [("rnea", 1), ("crba", 2), ("aba", 1)])
def test_operation_counts_of_chains_are_polynomials_in_the_number_of_bodies(algorithm, order):
    counts = [
        arithmetic(straight_line(chain(n, denavit_hartenberg), algorithm)) for n in range(5, 11)
    ]
    assert not np.any(np.diff(counts, order + 1))


def forces_to_motion(function):
    """Return the operation count of a function of q, qd and tau for a chain of seven joints."""
    shapes = dict.fromkeys(("q", "qd", "tau"), (7,))
    return trace("forward", lambda *values: {"qdd": function(*values)}, shapes).operation_count


def test_hybrid_dynamics_with_all_joint_forces_known_has_the_operation_count_of_aba():
    model, still = chain(7, denavit_hartenberg), np.zeros(7)
    forward = forces_to_motion(lambda q, qd, tau: aba(model, q, qd, tau))
    hybrid = forces_to_motion(
        lambda q, qd, tau: hybrid_dynamics(model, (True,) * 7, q, qd, still, tau).qdd
    )
    assert hybrid == forward


def test_floating_base_aba_needs_fewer_operations_than_aba_with_six_base_joints():
    model = floating_base(chain(7, denavit_hartenberg))
    joints = {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)}
    behind_joints = trace("aba", lambda *values: {"qdd": aba(model, *values)}, joints)
    base = {"E": (3, 3), "r": (3,), "v": (6,), "q": (6,), "qd": (6,), "tau": (6,)}
    on_its_own = trace(
        "aba_floating",
        lambda E, r, *values: aba_floating(model, Transform(E, r), *values)._asdict(),
        base,
    )
    assert on_its_own.operation_count < behind_joints.operation_count
