"""The rate at which the components of a joint's motion subspace change, exactly, by dual numbers
(RBDA 3.5).

`jcalc` returns S and the product of its rate with qd; the Jacobian's rate needs the rate of S by
itself. It is what remains of S at q + e dq/dt to first order in e, with e^2 = 0.
"""

import numpy as np

from rigidblocks.algebra.dual import Dual
from rigidblocks.algebra.spatial import Array
from rigidblocks.joint.interface import Joint


def subspace_rate(joint: Joint, q: Array, qd: Array) -> Array:
    """dS/dt (6, nv), component by component, for the velocity variables qd; floats and traced
    scalars.
    """
    moving = np.empty(joint.nq, dtype=object)
    moving[:] = [Dual(value, slope) for value, slope in zip(q, joint.rate(q, qd), strict=True)]
    S = joint.jcalc(moving, np.zeros(joint.nv)).S
    slopes = [element.slope if isinstance(element, Dual) else 0.0 for element in S.ravel()]
    return np.array(slopes).reshape(S.shape)
