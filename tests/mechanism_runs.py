"""Compiled runs of plants, and the dynamics of mechanisms in independent coordinates."""

import numpy as np

from rigidblocks.dynamics import bias_force, crba
from rigidblocks.flat import FlatBlock
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.stepper import CompiledStepper


def block_run(block, t_stop, h, dt=None):
    """The times, and the states and outputs by name at the start and after each step dt with inner steps of h."""
    dt = h if dt is None else dt
    flat = FlatBlock(block)
    stepper, m = CompiledStepper(flat, h=h), flat.start()
    stepper.initialize(m, 0.0)
    rows = np.empty((round(t_stop / dt) + 1, len(m)))
    rows[0] = m
    for k in range(len(rows) - 1):
        stepper.step(m, k * dt, dt)
        rows[k + 1] = m
    shapes = {port.name: port.shape for port in (*block.states, *block.outputs)}
    return np.arange(len(rows)) * dt, {name: rows[:, flat.where[name]].reshape(-1, *s) for name, s in shapes.items()}


def plant_run(mechanism, t_stop, h, dt=None, **options):
    """The same of the plant with a mechanism, from the start of the mechanism."""
    return block_run(ClosedLoopPlant(mechanism.model, mechanism.q0, mechanism.qd0, **options), t_stop, h, dt)


def reduced_acceleration(model, q, qd, tau, G, g):
    """qdd = G ydd + g with G^T H G ydd = G^T (tau - C - H g): no constraint force appears (RBDA Eq 8.46)."""
    H, C = crba(model, q), bias_force(model, q, qd)
    return G @ np.linalg.solve(G.T @ H @ G, G.T @ (tau - C - H @ g)) + g
