"""Loop joints: joints that close kinematic loops (RBDA 8.1, 4.1.3)."""

from dataclasses import dataclass
from typing import Any

from rigidblocks.joint.interface import Joint


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class LoopJoint:
    """A joint of any type between two bodies of a tree, from body `predecessor` to body
    `successor`, -1 the fixed base.

    `Xp` takes the coordinates of the predecessor body to the joint's frame F_p, `Xs` those of the
    successor body to F_s: transforms of the model's algebra (X_P and X_S of RBDA Table 8.4).
    """

    joint: Joint
    predecessor: int
    successor: int
    Xp: Any
    Xs: Any
    name: str = ""
