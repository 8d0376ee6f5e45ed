"""Kinematic tree: connectivity, variable slices, and the check for joints that move no inertia.

The code is independent of the vector algebra, spatial or planar.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import hypot, isfinite, sqrt
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from rigidblocks.common.arrays import Immutable, is_frozen, read_only
from rigidblocks.common.display_hooks import Picture, html_table, picture
from rigidblocks.common.name_hints import AttributeHints, HintedType
from rigidblocks.robot.joints import LoopJoint, Prismatic, Revolute, StringConstraint
from rigidblocks.spatial.spatial import Array


class Tree(Immutable, AttributeHints, metaclass=HintedType):
    """Kinematic tree of bodies 0 .. nb-1.

    Joint i connects body `parent[i]` with body i; parent -1 is the fixed base. The algorithms use
    the transforms, inertias and joints of the tree and the vector operations of `algebra`.
    """

    CALLS: ClassVar = {
        "forward_kinematics fk frame_pose pose": "frame_pose(model, q, 'body')",
        "jacobian frame_jacobian": "frame_jacobian(model, q, 'body')",
        "inverse_kinematics ik": "inverse_kinematics(model, Target('body', pose))",
        "inverse_dynamics": "rnea(model, q, qd, qdd)",
        "forward_dynamics": "aba(model, q, qd, tau)",
        "mass_matrix inertia_matrix M": "crba(model, q)",
        "njoints n_joints ndof dof n": "model.nq, model.nv or model.nb",
        "joints": "model.joint or model.joint_names",
        "rnea aba crba": "rnea(model, q, qd, qdd), aba(model, q, qd, tau) or crba(model, q)",
        "qpos qvel": "the outputs q and qd of RobotPlant(model)",
        "getFrameId getJointId getBodyId": "the name of the body; functions take names",
        "links bodies": "model.body_names",
        "simulate": "simulate(system, t_stop, dt) with a RobotPlant(model) in the system",
    }

    algebra: ClassVar[ModuleType]
    name: str
    parent: tuple[int, ...]
    joint: tuple[Any, ...]
    Xtree: tuple[Any, ...]
    inertia: tuple[Any, ...]
    gravity: Array
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    massless: tuple[str, ...]
    unphysical: tuple[str, ...] = ()
    loops: tuple[LoopJoint, ...]
    strings: tuple[StringConstraint, ...]

    def __repr__(self) -> str:
        loops = f", {len(self.loops)} loops" if self.loops else ""
        gravity = ", ".join(f"{g:g}" for g in self.gravity)
        return (
            f"<{type(self).__name__} '{self.name}': {self.nb} bodies, nq = {self.nq}, nv = "
            f"{self.nv}{loops}, gravity ({gravity}) m/s2>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the bodies as HTML for notebooks."""
        names = ("base", *self.body_names)
        rows = zip(
            self.body_names, self.joint_names, self.joint, self.parent, self.inertia, strict=True
        )
        cells = (
            (body, joint, type(kind).__name__, names[parent + 1], f"{float(inertia.m):.4g}")
            for body, joint, kind, parent, inertia in rows
        )
        return html_table(repr(self)[1:-1], ("body", "joint", "", "on", "mass [kg]"), cells)

    def show(self, q: Any = None, path: str | Path | None = None) -> Picture:
        """Return a web page that shows the robot, with a slider for each joint (`view.show`).

        q (nq,) is the configuration. If `path` is given, the page is also saved to this
        file.
        """
        return picture(self, q, path)

    @property
    def nb(self) -> int:
        """The number of bodies, which is also the number of tree joints."""
        return len(self.parent)

    @cached_property
    def idle_joint(self) -> str | None:
        """The name of a joint that can move without moving any inertia, or None."""
        return find_idle_joint(self)

    @cached_property
    def nq(self) -> int:
        """The number of position variables."""
        return sum(joint.nq for joint in self.joint)

    @cached_property
    def nv(self) -> int:
        """The number of velocity variables."""
        return sum(joint.nv for joint in self.joint)

    @cached_property
    def nc(self) -> int:
        """Number of constraint equations of the loop joints and cables (`StringConstraint`).

        The number includes dependent equations.
        """
        return sum(self._constraint_counts)

    @cached_property
    def constraint_slices(self) -> tuple[slice, ...]:
        """The slices of the constraint equations: loop joints first, then cables."""
        return _slices(self._constraint_counts)

    @property
    def _constraint_counts(self) -> list[int]:
        size = len(self.algebra.zero())
        return [size - loop.joint.nv for loop in self.loops] + [1] * len(self.strings)

    def evaluate_at(self, t: Any) -> Self:
        """Return the model at the time t [s], which is a float or a traced value.

        Joints and cable constraints that depend on time (`Rheonomic`) are evaluated at t. A model
        that does not depend on time is returned unchanged.
        """
        if not self.rheonomic:
            return self
        model = copy(self)  # also copies the cached properties, which depend only on the structure
        loops = (replace(loop, joint=loop.joint.evaluate_at(t)) for loop in self.loops)
        object.__setattr__(model, "joint", tuple(joint.evaluate_at(t) for joint in self.joint))
        object.__setattr__(model, "loops", tuple(loops))
        object.__setattr__(
            model, "strings", tuple(string.evaluate_at(t) for string in self.strings)
        )
        return model

    @cached_property
    def rheonomic(self) -> bool:
        """True if a joint or a cable constraint depends on time."""
        joints = (*self.joint, *(loop.joint for loop in self.loops))
        return any(joint.evaluate_at(0.0) is not joint for joint in joints) or any(
            string.rheonomic for string in self.strings
        )

    def check_no_strings(self, feature: str) -> None:
        """Raise ValueError if the model has cables, which the method `feature` does not support."""
        if self.strings:
            names = ", ".join(self.loop_names[len(self.loops) :])
            raise ValueError(
                f"model '{self.name}' has the strings {names}, but {feature} supports only loop "
                "joints"
            )

    @property
    def has_constraints(self) -> bool:
        """True if the model has loop joints or cables."""
        return bool(self.loops or self.strings)

    @property
    def spanning_tree(self) -> Self:
        """The model without loop joints and cables."""
        return replace(self, loops=(), strings=())  # type: ignore[type-var]  # the models are dataclasses

    @property
    def loop_names(self) -> tuple[str, ...]:
        """The names of the loop joints and cables.

        The default names are loop1, ... and string1, ....
        """
        loops = (loop.name or f"loop{l + 1}" for l, loop in enumerate(self.loops))
        strings = (string.name or f"string{k + 1}" for k, string in enumerate(self.strings))
        return (*loops, *strings)

    @cached_property
    def q_slices(self) -> tuple[slice, ...]:
        """The slice of each joint in the configuration vector q."""
        return _slices([joint.nq for joint in self.joint])

    @cached_property
    def v_slices(self) -> tuple[slice, ...]:
        """The slice of each joint in the vectors qd, qdd and tau."""
        return _slices([joint.nv for joint in self.joint])


def _slices(sizes: Sequence[int]) -> tuple[slice, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in pairwise(ends))


def default_names(kind: str, count: int) -> tuple[str, ...]:
    """Return the default names of unnamed bodies or joints: `kind` and a number from 1."""
    return tuple(f"{kind}{i + 1}" for i in range(count))


def complete(tree: Tree, dimensions: int) -> None:
    """Convert the lists of a new model to tuples and add default names.

    Raises:
        ValueError: The gravity does not have `dimensions` finite components.
    """
    for name in ("parent", "joint", "Xtree", "inertia", "massless", "loops", "strings"):
        if type(part := getattr(tree, name)) is not tuple:
            object.__setattr__(tree, name, tuple(part))
    object.__setattr__(tree, "body_names", tree.body_names or default_names("body", tree.nb))
    object.__setattr__(tree, "joint_names", tree.joint_names or default_names("joint", tree.nb))
    gravity = np.asarray(tree.gravity)
    if gravity.shape != (dimensions,):
        raise ValueError(
            f"gravity needs {dimensions} components in m/s^2, not shape {gravity.shape}"
        )
    if gravity.dtype.kind != "O" and not all(map(isfinite, gravity.tolist())):
        raise ValueError(f"gravity must be finite, not {gravity}")
    if gravity is not tree.gravity or not is_frozen(gravity):
        object.__setattr__(tree, "gravity", read_only(gravity))


def freeze(tree: Tree) -> None:
    """Replace the writable arrays of a new model by read-only copies."""
    Transform, RigidInertia = tree.algebra.Transform, tree.algebra.RigidInertia

    def frame(X: Any) -> Any:
        return X if is_frozen(X.E, X.r) else Transform(read_only(X.E), read_only(X.r))

    def inertia(body: Any) -> Any:
        m, h, I = body.m, body.h, body.I
        return body if is_frozen(h, I) else RigidInertia(m, read_only(h), _read_only_or_number(I))

    object.__setattr__(tree, "Xtree", tuple(map(frame, tree.Xtree)))
    object.__setattr__(tree, "inertia", tuple(map(inertia, tree.inertia)))
    if tree.loops:
        loops = (replace(loop, Xp=frame(loop.Xp), Xs=frame(loop.Xs)) for loop in tree.loops)
        object.__setattr__(tree, "loops", tuple(loops))


def _read_only_or_number(value: Any) -> Any:
    return read_only(value) if np.ndim(value) else value


def check_model(model: Any, subject: str = "the model of a block") -> None:
    """Raise TypeError if `model` is not a robot model, for example if it is the path of a file.

    The message begins with `subject`.
    """
    if isinstance(model, Tree):
        return
    mend = ""
    if isinstance(model, str | Path):
        mend = f"; use load_model('{model}').model"
    elif isinstance(getattr(model, "model", None), Tree):
        mend = "; use its .model"
    raise TypeError(f"{subject} must be a Model, not a {type(model).__name__}{mend}")


def check_moved_inertia(
    tree: Any, prescribed: Sequence[bool] | None = None, rotor_inertia: Array | None = None
) -> None:
    """Check that every joint moves inertia in almost all configurations.

    Two kinds of joints fail this check. A revolute joint fails if a massless body connects it to
    another revolute joint about the same axis. A joint also fails if its axis passes through the
    only point mass that it moves. For such a joint, D = S^T IA S (RBDA Table 7.1) is singular.
    Forward dynamics then has no solution, but inverse dynamics has a solution.

    Args:
        tree: The model.
        prescribed: For each joint, True if its acceleration is prescribed. The check skips these
            joints.
        rotor_inertia: The rotor inertia (nv,) of the joints, added to the diagonal of D.

    Raises:
        ValueError: A joint can move without moving inertia; the message contains its name.
    """
    if prescribed is None and rotor_inertia is None:
        name = tree.idle_joint
    else:
        name = find_idle_joint(tree, prescribed, rotor_inertia)
    if name is not None:
        raise ValueError(
            f"{name} of model '{tree.name}' can move without moving any inertia: the mass matrix "
            "is singular; add inertia about or along its axis to a body outboard of it, or "
            "remove the joint"
        )


def find_idle_joint(
    tree: Any, prescribed: Sequence[bool] | None = None, rotor_inertia: Array | None = None
) -> str | None:
    """Return the name of a joint that can move without moving inertia, or None.

    For such a joint, D = S^T IA S is singular at all configurations. The function computes D only
    at a random configuration: if D is regular at one configuration, it is regular at almost all
    configurations. The arguments are as in `check_moved_inertia`.
    """
    if _is_regular_by_bounds(tree):
        return None
    rng = np.random.default_rng(0)
    articulated, rigid = ([body.matrix() for body in tree.inertia] for _ in range(2))
    for i in reversed(range(tree.nb)):
        joint = tree.joint[i].evaluate_at(0.0)
        XJ, S, *_ = joint.jcalc(joint.random(rng), np.zeros(joint.nv))
        X, U = (XJ @ tree.Xtree[i]).matrix(), articulated[i] @ S
        IA = articulated[i]
        if joint.nv and not (prescribed is not None and prescribed[i]):
            rotor = np.zeros(joint.nv) if rotor_inertia is None else rotor_inertia[tree.v_slices[i]]
            D = S.T @ U + np.diag(rotor)
            if not _is_regular(D, np.diag(S.T @ rigid[i] @ S) + rotor, S, rigid[i]):
                return str(tree.joint_names[i])
            IA = IA - U @ np.linalg.solve(D, U.T)
        if (p := tree.parent[i]) >= 0:
            articulated[p] = articulated[p] + X.T @ IA @ X
            rigid[p] = rigid[p] + X.T @ rigid[i] @ X
    return None


def _is_regular_by_bounds(tree: Any) -> bool:
    """Return True if a fast test proves that D = S^T IA S of each joint is regular.

    D >= S^T I S, where I is the inertia of the child body of the joint. The test compares S^T I S
    with m and s. m [kg] is the mass of the subtree. s [kg m^2] is an upper bound of the second
    moment of the subtree about the origin of the body. If the origin moves by the distance d [m],
    the bound becomes (sqrt(s) + d sqrt(m))^2.
    """
    if not all(type(joint) in (Revolute, Prismatic) for joint in tree.joint):
        return False
    bodies = zip(tree.body_names, tree.inertia, strict=True)
    if tree.unphysical and not all(
        _has_nonnegative_energy(I) for n, I in bodies if n in tree.unphysical
    ):
        return False
    mass, moment = [0.0] * tree.nb, [0.0] * tree.nb
    for i in reversed(range(tree.nb)):
        joint, body = tree.joint[i], tree.inertia[i]
        (x, y, z), ((a, _, _), (d, b, _), (f, e, c)) = joint.axis, body.I.tolist()
        turning = a * x * x + b * y * y + c * z * z + 2.0 * (d * x * y + e * y * z + f * z * x)
        mass[i] += body.m
        moment[i] += (a + b + c) / 2.0
        own = turning if isinstance(joint, Revolute) else body.m
        if not own > _ENOUGH * max(mass[i], moment[i]):
            return False
        if (p := tree.parent[i]) >= 0:
            far = hypot(*tree.Xtree[i].r.tolist()) + isinstance(joint, Prismatic)  # |q| <= 1 m
            mass[p] += mass[i]
            moment[p] += (sqrt(moment[i]) + far * sqrt(mass[i])) ** 2
    return True


def _has_nonnegative_energy(body: Any) -> bool:
    """Return True if the kinetic energy of the body is nonnegative for every velocity."""
    return bool(np.linalg.eigvalsh(body.matrix())[0] >= -1e-12 * np.trace(body.I))


_ENOUGH = 1e-9  # relative to the largest inertia; much larger than the bounds in `_is_regular`


def _is_regular(D: Array, diagonal: Array, S: Array, composite: Array) -> bool:
    """Return True if the joint-space inertia D of a joint is regular.

    S is the motion subspace of the joint. `composite` is the inertia matrix of the subtree as a
    single rigid body. `diagonal` is the diagonal of S^T composite S plus the rotor inertias. D is
    regular if no element of `diagonal` is near zero, and the smallest eigenvalue of
    D_ij / sqrt(diagonal_i diagonal_j) is not near zero.
    """
    if np.any(diagonal <= 1e-14 * np.abs(composite).max() * (S * S).sum(axis=0)):
        return False
    smallest = np.linalg.eigvalsh(D / np.sqrt(np.outer(diagonal, diagonal)))[0]
    return bool(smallest > 1e-12)
