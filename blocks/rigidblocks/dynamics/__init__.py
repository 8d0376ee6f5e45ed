"""The algorithms of rigid-body dynamics (RBDA chapters 5 to 7), in body coordinates and in the book's letters.

Shapes and units, the same in all algorithms: q (nq,) [rad or m]; qd, qdd and tau (nv,) [per s, per s^2, N m or N]; f_ext
(nb, 6), the external wrench [n; f] on each body in *base* coordinates, its moment about the base origin [N m, N]; gravity
(3,) [m/s^2] in base coordinates, the model's own unless given. Gravity enters as the fictitious base acceleration -a_g.
Everything works on floats and on traced scalars, and lengths are not checked.
"""

from rigidblocks.dynamics.energy import energy, kinetic_energy, potential_energy
from rigidblocks.dynamics.forward import aba
from rigidblocks.dynamics.inertia import crba
from rigidblocks.dynamics.inverse import bias_force, rnea

__all__ = ["aba", "bias_force", "crba", "energy", "kinetic_energy", "potential_energy", "rnea"]
