"""The tendons of a model that MuJoCo compiled: those that are springs between two points."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.formats.listed import WORLD, Stretched

SITE = 3  # mjtWrap: joint, pulley, site, sphere, cylinder
_SPRING = ("stiffness", "damping")
_OTHER = ("frictionloss", "armature", "limited", "stiffnesspoly", "dampingpoly", "actfrclimited")


def acts(m: Any) -> bool:
    """Whether a tendon acts on the motion and is no spring between two points."""
    return any(_has(m, t, (*_SPRING, *_OTHER)) and not _is_spring(m, t) for t in range(m.ntendon))


def point_springs(m: Any, bodies: Sequence[str], names: Sequence[str]) -> list[Stretched]:
    """The tendons that are springs between two points, of bodies with these names."""
    return [
        Stretched(
            names[t],
            (_end(m, int(m.tendon_adr[t]), bodies), _end(m, int(m.tendon_adr[t]) + 1, bodies)),
            float(m.tendon_stiffness[t]),
            float(m.tendon_damping[t]),
            float(m.tendon_lengthspring[t, 0]),
        )
        for t in range(m.ntendon)
        if _has(m, t, _SPRING) and _is_spring(m, t)
    ]


def _has(m: Any, t: int, parts: Sequence[str]) -> bool:
    return any(np.any(getattr(m, f"tendon_{part}")[t]) for part in parts if _is_there(m, part))


def _is_there(m: Any, part: str) -> bool:
    return hasattr(m, f"tendon_{part}")


def _is_spring(m: Any, t: int) -> bool:
    """Whether a tendon goes straight from one site to another, of two bodies, and has one length
    without load.
    """
    first, count = int(m.tendon_adr[t]), int(m.tendon_num[t])
    if count != 2 or np.any(m.wrap_type[first : first + 2] != SITE) or _has(m, t, _OTHER):
        return False
    one, two = m.site_bodyid[m.wrap_objid[first : first + 2]]
    shortest, longest = m.tendon_lengthspring[t]
    return bool(one != two and (shortest == longest or not m.tendon_stiffness[t]))


def _end(m: Any, at: int, bodies: Sequence[str]) -> tuple[str, Any]:
    site = int(m.wrap_objid[at])
    return bodies[int(m.site_bodyid[site])] or WORLD, m.site_pos[site].copy()
