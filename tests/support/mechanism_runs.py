"""Compiled runs of plants, and the dynamics of mechanisms in independent coordinates."""

import numpy as np

from rigidblocks.block.adaptive_methods import memory_for
from rigidblocks.block.integrators import RK4
from rigidblocks.dynamics import bias_force, crba
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.library import ClosedLoopPlant


def block_run(block, t_stop, h, dt=None, method=RK4):
    """Return the times, and the states and outputs by name, at the start and after each step dt.

    Inner steps are at most h.
    """
    dt = h if dt is None else dt
    flat = memory_for(block, method)
    stepper, m = compiled_stepper(flat, method, h), flat.start()
    stepper.initialize(m, 0.0)
    rows = np.empty((round(t_stop / dt) + 1, len(m)))
    rows[0] = m
    for k in range(len(rows) - 1):
        stepper.step(m, k * dt, dt)
        rows[k + 1] = m
    shapes = {port.name: port.shape for port in (*block.states, *block.outputs)}
    return np.arange(len(rows)) * dt, {
        name: rows[:, flat.where[name]].reshape(-1, *s) for name, s in shapes.items()
    }


def plant_run(mechanism, t_stop, h, dt=None, method=RK4, **options):
    """Return the results of `block_run` for the plant of a mechanism in its initial state."""
    plant = ClosedLoopPlant(mechanism.model, mechanism.q0, mechanism.qd0, **options)
    return block_run(plant, t_stop, h, dt, method)


def reduced_acceleration(model, q, qd, tau, G, g):
    """Return qdd = G ydd + g with G^T H G ydd = G^T (tau - C - H g) (RBDA Eq 8.46).

    The equation contains no constraint force.
    """
    H, C = crba(model, q), bias_force(model, q, qd)
    return G @ np.linalg.solve(G.T @ H @ G, G.T @ (tau - C - H @ g)) + g
