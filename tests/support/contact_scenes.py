"""Scenes of the contact tests: random contacts, a brick on the ground, a ball on a rail."""

import numpy as np

from rigidblocks.contact import PointContact
from rigidblocks.dynamics import point_position
from rigidblocks.robot.configuration import neutral
from rigidblocks.robot.joints import Prismatic, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI

UP = np.array([0.0, 0.0, 1.0])
G = 9.81


def unit(vector):
    return vector / np.linalg.norm(vector)


def random_contacts(rng, model, count=4, mu=0.0):
    """Return random contacts of bodies with each other and with the base."""
    pairs = [(s, p) for s in range(model.nb) for p in range(-1, model.nb) if s != p]
    picked = [pairs[k] for k in rng.integers(len(pairs), size=count)]
    return [
        PointContact(s, rng.uniform(-1, 1, 3), unit(rng.normal(size=3)), p, mu) for s, p in picked
    ]


def brick_model(sides=(0.4, 0.3, 0.2), m=2.0):
    """Return a free brick."""
    a, b, c = sides
    inertia = mcI(m, np.zeros(3), m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]))
    return Model("brick", (-1,), (SixDoF(),), (identity(),), (inertia,))


def ball_model():
    """Return a ball on a vertical rail."""
    return Model("ball", (-1,), (Prismatic(),), (identity(),), (mcI(1.0, np.zeros(3), np.eye(3)),))


def lying(model, q, mu=0.0, sides=(0.4, 0.3, 0.2), normal=UP):
    """Return the contacts of the four lower corners with the ground z = 0."""
    corners = np.array([[x, y, -1] for x in (-1, 1) for y in (-1, 1)]) * np.array(sides) / 2
    points = [point_position(model, q, 0, corner) for corner in corners]
    return [PointContact(0, p, normal, mu=mu, gap=p[2]) for p in points]


def on_the_ground(height=0.1):
    q = neutral(brick_model())
    q[6] = height
    return q


def random_problem(rng, n, rank, solvable=True):
    """Return T with M = T^T T, and d = T^T z or a random d."""
    Y = rng.normal(size=(rank, n)) * np.exp(rng.uniform(-1, 1, n))
    if n > 3 and rng.random() < 0.3:
        Y[:, n // 2 :] = Y[:, : n - n // 2]  # each contact twice
    return Y, Y.T @ rng.normal(size=rank) if solvable else rng.normal(size=n)


def frictional(rng, n, k, rank):
    Y, _ = random_problem(rng, n + 2 * k, rank)
    return Y.T @ Y, Y.T @ rng.normal(size=rank), rng.uniform(0, 1.2, k)
