"""Tendons of a compiled MJCF model, and actuators that act on paths, sites and slider-cranks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.robot.robot_description import LineDescription, Place, Tendon
from rigidblocks.robot_description.mjcf_elements import placement
from rigidblocks.robot_description.parsed_links import WORLD, ParsedSpring

SLIDER_CRANK, TENDON_LENGTH, AT_SITE = 2, 3, 4  # mjtTrn
AT_JOINT, PULLEY, SITE = 1, 2, 3  # mjtWrap: joint, pulley, site, sphere, cylinder
_SPRING = ("stiffness", "damping")
_POLYNOMIAL = ("armature", "stiffnesspoly", "dampingpoly")
_OTHER = ("frictionloss", "limited", "actfrclimited", *_POLYNOMIAL)


def has_unread_tendon(m: Any) -> bool:
    """Return True if the model has a tendon of an unsupported type that affects the motion.

    The supported types are linear functions of joint positions and paths through sites.
    """
    return any(
        _has_term(m, t, (*_SPRING, *_OTHER)) and not (is_path(m, t) or _is_joint_sum(m, t))
        for t in range(m.ntendon)
    )


def tendons(
    m: Any, joints: Sequence[str], bodies: Sequence[str], names: Sequence[str]
) -> list[tuple[list[str], Tendon]]:
    """Return pairs (names, tendon) of the tendons that affect the motion.

    The names are the joints of a fixed tendon, or the links of the path of a spatial tendon. The
    function omits springs between two points (`point_springs`). The length of a fixed tendon is
    zero if every joint has the position `ref` of the file.
    """
    found = []
    for t in range(m.ntendon):
        is_sum = _is_joint_sum(m, t)
        if not _has_term(m, t, (*_SPRING, "frictionloss", "limited")) or not (
            is_sum or (is_path(m, t) and not _is_spring(m, t))
        ):
            continue
        wraps, ref, line = wraps_of(m, t), 0.0, None
        if is_sum:
            numbers, weights = m.wrap_objid[wraps], m.wrap_prm[wraps]
            ref = float(weights @ m.qpos0[m.jnt_qposadr[numbers]])
            of = [joints[j] for j in numbers]
        else:
            weights = np.zeros(0)
            of, line = tendon_path(m, t, bodies)
        limits = m.tendon_range[t] - ref if m.tendon_limited[t] else (-np.inf, np.inf)
        tendon = Tendon(
            names[t],
            (),
            tuple(weights.tolist()),
            float(m.tendon_stiffness[t]),
            float(m.tendon_damping[t]),
            _pair(m.tendon_lengthspring[t] - ref),
            float(m.tendon_frictionloss[t]),
            _pair(limits),
            line,
        )
        found.append((of, tendon))
    return found


def tendon_path(m: Any, t: int, bodies: Sequence[str]) -> tuple[list[str], LineDescription]:
    """Return the links and the path of a spatial tendon through sites and over pulleys."""
    links, frames, weights, divisor, is_start = list[str](), list[Place](), list[float](), 1.0, True
    for at in range(wraps_of(m, t).start, wraps_of(m, t).stop):
        if m.wrap_type[at] == PULLEY:
            divisor, is_start = float(m.wrap_prm[at]), True
            continue
        link, frame = _site(m, int(m.wrap_objid[at]), bodies)
        if frames:
            weights.append(0.0 if is_start else 1.0 / divisor)
        links.append(link)
        frames.append(frame)
        is_start = False
    return links, LineDescription("path", tuple(frames), tuple(weights))


def _site(m: Any, site: int, bodies: Sequence[str]) -> tuple[str, Place]:
    """Return the link of a site, and the placement of the site on the link."""
    link = bodies[int(m.site_bodyid[site])] or WORLD
    return link, Place(-1, placement(m.site_pos[site], m.site_quat[site]))


def is_path(m: Any, t: int) -> bool:
    """Return True if a tendon is a path through sites, with or without pulleys."""
    through_sites = bool(np.all(np.isin(m.wrap_type[wraps_of(m, t)], (SITE, PULLEY))))
    return through_sites and not _has_term(m, t, _POLYNOMIAL)


def _pair(values: Any) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def wraps_of(m: Any, t: int) -> slice:
    """Return the slice of tendon t in the arrays wrap_type, wrap_objid and wrap_prm."""
    return slice(int(m.tendon_adr[t]), int(m.tendon_adr[t]) + int(m.tendon_num[t]))


def _is_joint_sum(m: Any, t: int) -> bool:
    """Return True if a tendon is a linear function of joint positions."""
    return bool(np.all(m.wrap_type[wraps_of(m, t)] == AT_JOINT)) and not _has_term(
        m, t, _POLYNOMIAL
    )


def actuator_line(
    m: Any, k: int, bodies: Sequence[str]
) -> tuple[list[str], LineDescription | None]:
    """Return the line of actuator k, and the link of each frame of the line.

    The actuator acts on a tendon path, a site or a slider-crank. The line is None if the actuator
    acts on joint positions, is unsupported, or has a gear of zero.
    """
    kind, gear = int(m.actuator_trntype[k]), m.actuator_gear[k].tolist()
    one, two = (int(number) for number in m.actuator_trnid[k])
    if not (any(gear) if kind == AT_SITE else gear[0]):
        return [], None
    if kind == TENDON_LENGTH and is_path(m, one):
        return tendon_path(m, one, bodies)
    if kind not in (SLIDER_CRANK, AT_SITE):
        return [], None
    ends = [_site(m, number, bodies) for number in (one, two) if number >= 0]
    links, frames = [link for link, _ in ends], tuple(frame for _, frame in ends)
    if kind == SLIDER_CRANK:
        return links, LineDescription("crank", frames, (float(m.actuator_cranklength[k]),))
    return links, LineDescription("site", frames, (*gear[3:], *gear[:3]))


def point_springs(m: Any, bodies: Sequence[str], names: Sequence[str]) -> list[ParsedSpring]:
    """Return the tendons that are springs between two points, with the names of the bodies."""
    return [
        ParsedSpring(
            names[t],
            (_end(m, int(m.tendon_adr[t]), bodies), _end(m, int(m.tendon_adr[t]) + 1, bodies)),
            float(m.tendon_stiffness[t]),
            float(m.tendon_damping[t]),
            float(m.tendon_lengthspring[t, 0]),
        )
        for t in range(m.ntendon)
        if _has_term(m, t, _SPRING) and _is_spring(m, t)
    ]


def _has_term(m: Any, t: int, parts: Sequence[str]) -> bool:
    return any(
        np.any(getattr(m, f"tendon_{part}")[t]) for part in parts if _has_tendon_array(m, part)
    )


def _has_tendon_array(m: Any, part: str) -> bool:
    return hasattr(m, f"tendon_{part}")


def _is_spring(m: Any, t: int) -> bool:
    """Return True if a tendon is a spring between two points.

    The tendon connects two sites on two bodies directly and has a single rest length.
    """
    first, count = int(m.tendon_adr[t]), int(m.tendon_num[t])
    if count != 2 or np.any(m.wrap_type[first : first + 2] != SITE) or _has_term(m, t, _OTHER):
        return False
    one, two = m.site_bodyid[m.wrap_objid[first : first + 2]]
    shortest, longest = m.tendon_lengthspring[t]
    return bool(one != two and (shortest == longest or not m.tendon_stiffness[t]))


def _end(m: Any, at: int, bodies: Sequence[str]) -> tuple[str, Any]:
    site = int(m.wrap_objid[at])
    return bodies[int(m.site_bodyid[site])] or WORLD, m.site_pos[site].copy()
