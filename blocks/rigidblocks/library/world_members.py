"""Members of worlds: their models by name and where they stand, and what all are together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.frames import check_frame
from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, identity, xlt
from rigidblocks.formats.description import Coupling, Freedoms, PointSpring, RobotDescription
from rigidblocks.joint import Fixed, Joint, LoopJoint, SixDoF
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Shape

NOTHING = RigidInertia(0.0, np.zeros(3), np.zeros((3, 3)))
Placement = Transform | ArrayLike


@dataclass(frozen=True, eq=False)
class WorldPart:
    """A member as it was given, with its base and its roots where they are in the world."""

    model: Model
    freedoms: Freedoms
    q0: Array
    qd0: Array
    single: bool
    couplings: tuple[Coupling, ...] = ()
    springs: tuple[PointSpring, ...] = ()


def joined_description(model: Model, parts: Mapping[str, WorldPart]) -> RobotDescription:
    """What the files of all members say, of the model of the world, whose bodies and joints are
    theirs one after the other.
    """
    first = [0, *accumulate(part.model.nb for part in parts.values())]
    columns = zip(*(vars(part.freedoms).values() for part in parts.values()), strict=True)
    couplings, springs = list[Coupling](), list[PointSpring]()
    for n, (name, part) in zip(first, parts.items(), strict=False):
        couplings += [
            one._replace(joint=one.joint + n, source=one.source + n) for one in part.couplings
        ]
        springs += [
            one._replace(name=f"{name}_{one.name}", body=one.body + n, other=_from(one.other, n))
            for one in part.springs
        ]
    freedoms = Freedoms(*map(np.concatenate, columns))
    return RobotDescription(model, freedoms, couplings=tuple(couplings), springs=tuple(springs))


def links_beyond(
    robot: RobotDescription, model: Model, X: Transform
) -> tuple[tuple[Coupling, ...], tuple[PointSpring, ...]]:
    """The couplings and springs of a robot, of `model`, which may have a body before those of the
    robot, and whose base is where X says: points of the base are in coordinates of the world.
    """
    n, springs = model.nb - robot.model.nb, list[PointSpring]()
    for one in robot.springs:
        point = np.asarray(one.other_point)
        at = point if one.other >= 0 else X.r + X.E.T @ point
        moved = one._replace(body=_from(one.body, n), other=_from(one.other, n))
        springs.append(moved._replace(other_point=tuple(map(float, at))))
    couplings = (c._replace(joint=c.joint + n, source=c.source + n) for c in robot.couplings)
    return tuple(couplings), tuple(springs)


def check_rigid(robot: RobotDescription) -> None:
    """Raises ValueError for what rigid contact does not know."""
    if robot.couplings:
        joints = [robot.model.joint_names[one.joint] for one in robot.couplings]
        raise ValueError(
            f"joint {', '.join(joints)} of world '{robot.model.name}' follows another, which rigid "
            "contact does not know: soft contact does (`soft_plant`)"
        )
    if robot.springs:
        raise ValueError(
            f"world '{robot.model.name}' has springs between points, {robot.springs[0].name} the "
            "first, which rigid contact does not know: soft contact does (`soft_plant`)"
        )


def _from(body: int, n: int) -> int:
    """The number of a body where bodies are numbered from n on; the base is -1."""
    return body + n if body >= 0 else body


def placement(at: Placement, name: str) -> Transform:
    """Where a member is, from a position or a transform; raises ValueError for what is none."""
    X = at if isinstance(at, Transform) else xlt(np.asarray(at, dtype=float))
    check_frame(X, f"the place of '{name}'")
    return X


def named_model(name: str, model: Model, single: bool) -> Model:
    """The model with the names that it has in a world."""
    if single:
        return replace(model, joint_names=(name,))

    def named(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{name}.{one}" for one in names)

    loops = [
        replace(loop, name=f"{name}.{one}")
        for one, loop in zip(model.loop_names, model.loops, strict=False)
    ]
    return replace(
        model,
        body_names=named(model.body_names),
        joint_names=named(model.joint_names),
        massless=named(model.massless),
        unphysical=named(model.unphysical),
        loops=tuple(loops),
    )


def shifted_loop(loop: LoopJoint, name: str, n: int) -> LoopJoint:
    """A loop joint between bodies that are numbered from n on."""
    ends = {
        role: body + n if (body := getattr(loop, role)) >= 0 else body
        for role in ("predecessor", "successor")
    }
    return replace(loop, name=name, **ends)


def moved_model(model: Model, q: Array, X: Transform) -> tuple[Model, Array]:
    """The model with its base where X says, and where it starts from: floating bases move in q."""
    if model.strings:
        raise ValueError(f"model '{model.name}' has strings, which rigid contact does not know")
    Xtree, q = list(model.Xtree), q.copy()
    for i, (p, joint) in enumerate(zip(model.parent, model.joint, strict=True)):
        if p >= 0:
            continue
        if isinstance(joint, SixDoF) and not _is_placed(Xtree[i]):
            at = model.q_slices[i]
            q[at] = joint.nearest(joint.jcalc(q[at], np.zeros(6)).XJ @ X)
        else:
            Xtree[i] = Xtree[i] @ X
    loops = (
        replace(
            loop,
            Xp=loop.Xp @ X if loop.predecessor < 0 else loop.Xp,
            Xs=loop.Xs @ X if loop.successor < 0 else loop.Xs,
        )
        for loop in model.loops
    )
    return replace(model, Xtree=tuple(Xtree), loops=tuple(loops)), q


def _is_placed(X: Transform) -> bool:
    """Whether a frame is elsewhere than the origin."""
    return bool(np.any(X.r)) or not np.array_equal(X.E, np.eye(3))


def base_name(model: Any) -> str:
    """The name of the body of what a file fixes to the base."""
    return "base" if "base" not in model.body_names else "fixed_base"


def with_base(robot: RobotDescription) -> Any:
    """The model with the links that a file fixes to the base as a body, where they have shapes."""
    model = robot.model
    if not (robot.base_contact or robot.base_appearance) or not isinstance(model, Model):
        return model
    joints: tuple[Joint, ...] = (Fixed(), *model.joint)
    nothing = ((),) * model.nb
    name = base_name(model)
    contact = tuple(shape for shape in robot.base_contact if isinstance(shape, Shape))
    return replace(
        model,
        parent=(
            -1,
            *(
                -1 if p < 0 and isinstance(joint, SixDoF) else p + 1
                for p, joint in zip(model.parent, model.joint, strict=True)
            ),
        ),
        joint=joints,
        Xtree=(identity(), *model.Xtree),
        inertia=(NOTHING, *model.inertia),
        body_names=(name, *model.body_names),
        joint_names=(f"{name}_joint", *model.joint_names),
        massless=(name, *model.massless),
        appearance=(tuple(robot.base_appearance), *(model.appearance or nothing)),
        contact=(contact, *(model.contact or nothing)),
        loops=tuple(shifted_loop(loop, loop.name, 1) for loop in model.loops),
    )
