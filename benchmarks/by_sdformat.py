"""SDF files, compared with libsdformat.

    python benchmarks/by_sdformat.py [NUMBER]

The library `by_sdformat.cpp` lists the links and joints of a file as libsdformat reads them
(package libsdformat-dev of Debian). Pinocchio computes the dynamics of these links and joints.
The comparison uses a spanning tree: the joints of our model, by name. In a model with loops, the
reader makes axes parallel that differ by less than 2e-5 rad; the comparison uses these axes.

As a script, this module compares NUMBER random files of each SDF version. libsdformat 12 supports
SDF up to 1.9; for later versions it reads the same file with the version 1.9.
"""

import ctypes
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from rigidblocks.block.block import Record
from rigidblocks.common.compiler import CompilerError, shared_library
from rigidblocks.dynamics import crba
from rigidblocks.dynamics.drives import Drive
from rigidblocks.dynamics.force_elements import ForceElement
from rigidblocks.dynamics.force_laws import Friction
from rigidblocks.dynamics.kinematics import body_poses, frame_pose
from rigidblocks.library.plant_from_file import described_elements
from rigidblocks.library.plants import RobotPlant
from rigidblocks.robot.configuration import neutral, random_configuration
from rigidblocks.robot.joints import Joint, SixDoF
from rigidblocks.robot.model import STANDARD_GRAVITY, Model
from rigidblocks.robot.robot_description import RobotDescription
from rigidblocks.robot_description.load import load_model
from rigidblocks.robot_description.model_from_links import PARALLEL

RTOL = 1e-9  # bound on rounding errors
SPEEDS = (0.0, 1.0, 3.0)  # standard deviations of the velocities [rad/s or m/s]
UNLIMITED = 1e16  # limits of this absolute value or more are infinite in SDF
NEWEST = "1.9"  # last version that libsdformat 12 reads
EQUAL = "equal"
WORLD = "world"


@cache
def library() -> ctypes.CDLL:
    """Return the compiled library.

    Raises:
        CompilerError: libsdformat-dev, pkg-config or g++ is missing.
    """
    try:
        flags = subprocess.run(
            ("pkg-config", "--cflags", "--libs", "sdformat12"),
            capture_output=True,
            check=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        raise CompilerError(
            "pkg-config does not find sdformat12; install libsdformat-dev"
        ) from None
    options = shlex.split(flags.stdout)
    path = shared_library(
        {"by_sdformat.cpp": Path(__file__).with_suffix(".cpp").read_text()},
        "by_sdformat.cpp",
        ("-O1", "-fPIC", "-w", *(option for option in options if not option.startswith("-l"))),
        ("g++",),
        link=tuple(option for option in options if option.startswith("-l")),
    )
    compiled = ctypes.CDLL(str(path))
    compiled.read_model.restype, compiled.read_model.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    return compiled


@dataclass
class LinkOfPeer:
    """Link in libsdformat: pose and inertia in model coordinates, and its gravity flag."""

    pose: Any
    inertia: Any
    gravity: bool


@dataclass
class JointOfPeer:
    """Joint in libsdformat: pose in model coordinates, and one row (11,) for each axis.

    A row contains the axis in joint coordinates, the lower and upper position limits, the velocity
    and effort limits, damping, friction, stiffness and rest position.
    """

    kind: str
    parent: str
    child: str
    pose: Any
    pitch: float
    axes: list[list[float]] = field(default_factory=list)


@dataclass
class ModelOfPeer:
    """Model in libsdformat, with its pose and the gravity (3,) of its world, if it has one."""

    pose: Any
    gravity: np.ndarray
    links: dict[str, LinkOfPeer] = field(default_factory=dict)
    joints: dict[str, JointOfPeer] = field(default_factory=dict)


def _pose(values: list[float]) -> Any:
    """Return the pose for a position and a quaternion w, x, y, z."""
    w, x, y, z = values[3:]
    return pin.SE3(pin.Quaternion(w, x, y, z).matrix(), np.array(values[:3]))


def read_by_sdformat(path: Path) -> ModelOfPeer | None:
    """Return the model of a file as libsdformat reads it, or None if libsdformat rejects it."""
    lines = library().read_model(str(path).encode()).decode().splitlines()
    if any(line.startswith("error") for line in lines):
        return None
    model = ModelOfPeer(pin.SE3.Identity(), np.array(STANDARD_GRAVITY))
    for line in lines:
        tag, name, *rest = line.split("\t") if line else ("", "")
        if tag == "joint":
            kind, parent, child, *numbers = rest
            *placed, pitch = map(float, numbers)
            model.joints[name] = JointOfPeer(kind, parent, child, _pose(placed), pitch)
            continue
        values = [float(number) for number in rest]
        if tag == "model":
            model.pose = _pose(values[:7])
        elif tag == "gravity":
            model.gravity = np.array(values)
        elif tag == "axis":
            model.joints[name].axes.append(values)
        elif tag == "link":
            m, xx, yy, zz, xy, xz, yz = values[7:14]
            I_C = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            inertia = _pose(values[14:21]).act(pin.Inertia(m, np.zeros(3), I_C))
            model.links[name] = LinkOfPeer(_pose(values[:7]), inertia, bool(values[21]))
    return model


def _scaled(inertia: Any, share: float) -> Any:
    return pin.Inertia(share * inertia.mass, inertia.lever, share * inertia.inertia)


class TreeOfPeer:
    """Pinocchio's model of the links that libsdformat read, with the joints of our tree.

    Our reader splits the child of a loop joint with joint properties: the joint moves one half, and
    a loop joint connects both halves. The tree contains the same halves. The weight of a link that
    is compensated acts on the link only, because both halves coincide in a closed loop.

    Attributes:
        model: The model.
        weightless: The same model; gravity acts only on the links without gravity.
        of_joint: For each of our joints, the indices of the joints in Pinocchio.
        of_link: For each link, the joint that moves it and its pose in the frame of this joint.
    """

    def __init__(self, there: ModelOfPeer, ours: Model, loops: bool):
        self.loops = loops
        self.there, self.model, self.weightless = there, pin.Model(), pin.Model()
        for tree in (self.model, self.weightless):
            tree.gravity.linear = there.gravity
        self.of_joint: list[list[int]] = []
        self.of_link: dict[str, tuple[int, Any]] = {WORLD: (0, pin.SE3.Identity())}
        split = {
            name: there.joints[name].child
            for name, body in zip(ours.joint_names, ours.body_names, strict=True)
            if name in there.joints and body == f"{there.joints[name].child}_{name}"
        }
        moved = {there.joints[name].child for name in ours.joint_names if name in there.joints}
        free = moved - {*split.values()}
        fixed_joints = [joint for joint in there.joints.values() if joint.kind == "fixed"]
        self.fixed = [joint for joint in fixed_joints if joint.child not in free]
        fixed = {joint.child for joint in fixed_joints}
        self.root = [name for name in there.links if name not in {*moved, *fixed}]
        halves = {}
        for name, joint in zip(ours.joint_names, ours.joint, strict=True):
            if name not in there.joints:  # the joint with six degrees of freedom
                assert isinstance(joint, SixDoF)
                self._add([pin.JointModelFreeFlyer()], 0, pin.SE3.Identity(), name)
                self.of_link[self.root[0]] = self.of_joint[-1][-1], pin.SE3.Identity()
                continue
            if there.joints[name].parent not in self.of_link:
                self._place_fixed_links()
            place = self._add_joint(name, joint)
            if name in split:
                halves[name] = place
            else:
                self.of_link[there.joints[name].child] = place
        self._place_fixed_links()
        inertias = {name: link.inertia for name, link in there.links.items()}
        for name in (name for name in there.joints if name in halves):
            child = split[name]
            index, X = self.of_link[child]
            together = [link for link in there.links if self.of_link[link][0] == index]
            heaviest = max(together, key=lambda link: inertias[link].mass)
            inertias[heaviest] = _scaled(inertias[heaviest], 0.5)
            joint, place = halves[name]
            place = place * X.inverse() * self.of_link[heaviest][1]
            self.model.appendBodyToJoint(joint, inertias[heaviest], place)
        for name, link in there.links.items():
            index, X = self.of_link[name]
            self.model.appendBodyToJoint(index, inertias[name], X)
            if not link.gravity:
                self.weightless.appendBodyToJoint(index, link.inertia, X)
        self.data, self.data_of_weightless = self.model.createData(), self.weightless.createData()

    def _place_fixed_links(self) -> None:
        """Place the links that are fixed to the links already placed."""
        places, placed = self.of_link, -1
        for name in self.root:
            places.setdefault(name, (0, self.there.pose * self.there.links[name].pose))
        while placed < len(places):
            placed = len(places)
            for joint in self.fixed:
                for one, other in ((joint.parent, joint.child), (joint.child, joint.parent)):
                    if one in places and other not in places:
                        index, X = places[one]
                        places[other] = index, X * self.poses(one).inverse() * self.poses(other)

    def poses(self, link: str) -> Any:
        """Return the pose of a link, or of the world, in model coordinates."""
        return self.there.pose.inverse() if link == WORLD else self.there.links[link].pose

    def _add(self, kinds: list[Any], parent: int, X: Any, name: str) -> None:
        indices = []
        for k, kind in enumerate(kinds):
            for tree in (self.model, self.weightless):
                index = tree.addJoint(parent, kind, X, f"{name}:{k}")
            indices.append(index)
            parent, X = index, pin.SE3.Identity()
        self.of_joint.append(indices)

    def _add_joint(self, name: str, ours: Joint) -> tuple[int, Any]:
        """Add a joint; return its index and the pose of its child in the frame of the joint."""
        joint = self.there.joints[name]
        axes = [self._axis(ours, np.array(axis[:3])) for axis in joint.axes]
        match joint.kind:
            case "revolute" | "continuous":
                kinds = [pin.JointModelRevoluteUnaligned(axes[0])]
            case "prismatic":
                kinds = [pin.JointModelPrismaticUnaligned(axes[0])]
            case "screw":
                kinds = [pin.JointModelHelicalUnaligned(axes[0], -1.0 / joint.pitch)]
            case "universal" | "revolute2":
                kinds = [pin.JointModelRevoluteUnaligned(axis) for axis in axes]
            case _:
                kinds = [pin.JointModelSpherical()]
        index, X = self.of_link[joint.parent]
        self._add(kinds, index, X * self.poses(joint.parent).inverse() * joint.pose, name)
        return self.of_joint[-1][-1], joint.pose.inverse() * self.poses(joint.child)

    def _axis(self, ours: Joint, axis: np.ndarray) -> np.ndarray:
        """Return the axis of our joint if the reader made axes parallel in a model with loops."""
        aligned = np.array(getattr(ours, "axis", axis))
        return aligned if self.loops and np.linalg.norm(aligned - axis) < PARALLEL else axis

    def state(self, ours: Model, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Pinocchio's configuration and the indices (nv,) of our velocities in Pinocchio."""
        there, order = np.zeros(self.model.nq), np.zeros(ours.nv, dtype=int)
        for i, indices in enumerate(self.of_joint):
            mine = q[ours.q_slices[i]]
            at, dof = self.model.idx_qs[indices[0]], self.model.idx_vs[indices[0]]
            order[ours.v_slices[i]] = dof + np.arange(ours.joint[i].nv)
            if isinstance(ours.joint[i], SixDoF):
                there[at : at + 7] = [*mine[4:], *mine[1:4], mine[0]]
                order[ours.v_slices[i]] = dof + np.array([3, 4, 5, 0, 1, 2])
            elif len(mine) == 4:
                there[at : at + 4] = [*mine[1:], mine[0]]
            else:
                there[at : at + len(mine)] = mine
        return there, order


def smooth_elements(robot: RobotDescription) -> tuple[Any, ...]:
    """Return the force elements of a robot without dry friction and without couplings."""
    elements = []
    for element in described_elements(robot, joint_friction=True):
        if isinstance(element, ForceElement) and isinstance(element.law, Friction):
            elements.append(replace(element, law=replace(element.law, coulomb=0.0)))
        elif not (isinstance(element, Drive) and element.follower):
            elements.append(element)
    return tuple(elements)


def _properties(there: ModelOfPeer, ours: Model) -> np.ndarray:
    """Return the joint properties in libsdformat (8, nv), in the order of our velocities."""
    columns = np.zeros((8, ours.nv))
    columns[:4] = np.array([-np.inf, np.inf, np.inf, np.inf])[:, None]
    for name, joint, of in zip(ours.joint_names, ours.joint, ours.v_slices, strict=True):
        if name in there.joints and there.joints[name].kind != "ball" and joint.nv:
            columns[:, of] = np.array(there.joints[name].axes).T[3:]
    return np.where(np.abs(columns) >= UNLIMITED, np.copysign(np.inf, columns), columns)


NAMES = ("lower", "upper", "velocity", "effort", "damping", "friction", "stiffness", "rest")


def sdf_difference(path: Path, peer_path: Path | None = None, *, floating: bool = False) -> str:
    """Compare an SDF file with libsdformat; return "equal" or the first difference.

    Args:
        path: The file.
        peer_path: The file that libsdformat reads, by default the same file.
        floating: True to compare the model with a floating base link.

    Raises:
        FormatError: The reader rejects the file.
    """
    there = read_by_sdformat(peer_path or path)
    if there is None:
        return "not read by libsdformat"
    moving = {n for n, j in there.joints.items() if j.kind not in ("fixed", "gearbox")}
    if not moving and not floating:
        return "no joints"
    robot = load_model(path, floating=floating)
    model = robot.model.spanning_tree if robot.model.loops else robot.model
    if not isinstance(model, Model):
        return "different: planar model"
    loops = {loop.name for loop in robot.model.loops}
    if lost := moving - {*model.joint_names, *loops}:
        return f"different: no joint {sorted(lost)}"
    gears = sum(joint.kind == "gearbox" for joint in there.joints.values())
    if len(robot.couplings) < gears:
        return f"different: {len(robot.couplings)} couplings instead of {gears}"
    mine = np.array([getattr(robot.joint_properties, name)[: model.nv] for name in NAMES])
    theirs = _properties(there, model)
    for name, one, other in zip(NAMES, mine, theirs, strict=True):
        if not np.array_equal(one, other):
            return f"different: {name} {one.tolist()} instead of {other.tolist()}"
    return _motion_difference(
        robot, model, TreeOfPeer(there, model, bool(robot.model.loops)), floating
    )


def _motion_difference(
    robot: RobotDescription, model: Model, tree: TreeOfPeer, floating: bool
) -> str:
    """Compare link poses, loop joints and accelerations in three random states."""
    q0 = neutral(model)
    if floating and robot.q0 is not None:
        q0[:7] = robot.q0[:7]
        pin.framesForwardKinematics(tree.model, tree.data, tree.state(model, q0)[0])
        index, X = tree.of_link[tree.root[0]]
        start = tree.there.pose * tree.there.links[tree.root[0]].pose
        if not np.allclose((tree.data.oMi[index] * X).homogeneous, start.homogeneous, atol=1e-9):
            return "different: initial pose of the base link"
    plant = RobotPlant(model, elements=smooth_elements(robot))
    p = Record({port.name: port.start for port in plant.parameters})
    u, rng = Record({"tau": np.zeros(model.nv)}), np.random.default_rng(1)
    unloaded, g = replace_loops(robot, model), tree.there.gravity
    for speed in SPEEDS:
        q, qd = random_configuration(model, rng), speed * rng.normal(size=model.nv)
        qdd = plant.derivative(0.0, Record({"q": q, "qd": qd}), u, p)["qd"]
        there, order = tree.state(model, q)
        v, a = np.zeros((2, model.nv))
        v[order], a[order] = qd, qdd
        forces = pin.rnea(tree.model, tree.data, there, v, a)[order]
        support = pin.computeGeneralizedGravity(tree.weightless, tree.data_of_weightless, there)[
            order
        ]
        passive = _passive_forces(tree, model, q, qd)
        H = crba(model, q)
        terms = [np.abs(term).max() for term in (H * qdd, support, passive)]
        terms += [link.inertia.mass * np.linalg.norm(g) for link in tree.there.links.values()]
        residual = np.abs(forces - support - passive).max()
        if not residual <= RTOL * max(terms):
            return f"different: accelerations, residual {residual:.1e} of {max(terms):.1e}"
        pin.forwardKinematics(tree.model, tree.data, there)
        for name, (index, X) in tree.of_link.items():
            if name == WORLD:
                continue
            pose, seen = tree.data.oMi[index] * X, frame_pose(unloaded, q, name)
            if not np.allclose(seen.E.T, pose.rotation, atol=1e-9) or not np.allclose(
                seen.r, pose.translation, rtol=1e-9, atol=1e-9
            ):
                return f"different: pose of link '{name}'"
        if found := _loop_difference(robot, model, tree, q):
            return found
    return EQUAL


def replace_loops(robot: RobotDescription, model: Model) -> RobotDescription:
    """Return the robot with its spanning tree as its model."""
    return replace(robot, model=model) if robot.model.loops else robot


def _passive_forces(tree: TreeOfPeer, model: Model, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Return the forces (nv,) of springs and dampers in libsdformat."""
    columns = dict(zip(NAMES, _properties(tree.there, model), strict=True))
    deflection = np.zeros(model.nv)
    for at, of, joint in zip(model.q_slices, model.v_slices, model.joint, strict=True):
        if joint.nq == joint.nv:
            deflection[of] = q[at] - columns["rest"][of]
    return -columns["stiffness"] * deflection - columns["damping"] * qd


def _loop_difference(robot: RobotDescription, model: Model, tree: TreeOfPeer, q: np.ndarray) -> str:
    """Compare the origins and axes of both frames of each loop joint in world coordinates."""
    X = body_poses(model, q)
    for loop in robot.model.loops:
        if loop.name not in tree.there.joints:
            continue  # two halves of a link
        joint = tree.there.joints[loop.name]
        for link, body, placement in (
            (joint.parent, loop.predecessor, loop.Xp),
            (joint.child, loop.successor, loop.Xs),
        ):
            index, place = tree.of_link[link]
            pose = tree.data.oMi[index] * place * tree.poses(link).inverse() * joint.pose
            frame = placement @ X[body] if body >= 0 else placement
            if not np.allclose(frame.r, pose.translation, rtol=1e-9, atol=1e-9):
                return f"different: origin of loop joint '{loop.name}'"
            if joint.kind in ("revolute", "continuous", "prismatic", "screw"):
                axis = np.array(loop.joint.axis)
                if not np.allclose(
                    frame.E.T @ axis, pose.rotation @ joint.axes[0][:3], atol=PARALLEL
                ):
                    return f"different: axis of loop joint '{loop.name}'"
    return ""


# ---- random files ----

KINDS = ("revolute", "prismatic", "continuous", "screw", "universal", "revolute2", "ball", "fixed")


def random_sdf(rng: np.random.Generator, version: str) -> str:
    """Return a random SDF file of a version, with loops and all joint types."""
    minor, n = int(version[2:]), int(rng.integers(2, 8))
    numbers = lambda k: " ".join(f"{x:.17g}" for x in rng.uniform(-1.5, 1.5, k))  # noqa: E731
    frames = [f"link{k}" for k in range(n)]

    def pose(choices: list[str]) -> str:
        base = f" relative_to='{rng.choice(choices)}'" if minor >= 7 and choices else ""
        return f"<pose{base if rng.random() < 0.4 else ''}>{numbers(6)}</pose>"

    parts = []
    for k in range(n):
        J = rng.normal(size=(3, 3))
        I = J @ J.T + np.eye(3)
        I = np.trace(I) * np.eye(3) - I
        names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        moments = zip(names, I[np.triu_indices(3)], strict=True)
        text = "".join(f"<{name}>{value:.17g}</{name}>" for name, value in moments)
        weight = "<gravity>false</gravity>" if rng.random() < 0.2 else ""
        parts.append(
            f"<link name='link{k}'>{pose(frames[:k])}{weight}<inertial><pose>{numbers(6)}</pose>"
            f"<mass>{rng.uniform(0.1, 5):.17g}</mass><inertia>{text}</inertia></inertial></link>"
        )
    if minor >= 7:
        for k in range(2):
            attached = rng.choice([*frames[:n], *frames[n:]])
            frames.append(f"frame{k}")
            parts.append(f"<frame name='frame{k}' attached_to='{attached}'>{pose([])}</frame>")
    ends = [("world" if rng.random() < 0.5 else None, 0)]
    ends += [(int(rng.integers(k)), k) for k in range(1, n)]
    loops = [sorted(rng.choice(n, 2, replace=False)) for _ in range(rng.integers(0, 3))]
    for number, (parent, child) in enumerate([*ends, *(loops if n > 2 else [])]):
        if parent is None:
            continue
        kind = str(rng.choice(KINDS if number < n else KINDS[:2]))
        axes = "".join(
            _random_axis(rng, tag, minor, frames)
            for tag in ("axis", "axis2")[: 2 if kind in ("universal", "revolute2") else 1]
        )
        pitch = f"<thread_pitch>{rng.uniform(1, 5):.17g}</thread_pitch>" if kind == "screw" else ""
        start = parent if parent == WORLD else f"link{parent}"
        parts.append(
            f"<joint name='joint{number}' type='{kind}'>{pose(frames)}<parent>{start}</parent>"
            f"<child>link{child}</child>{axes if kind not in ('ball', 'fixed') else ''}{pitch}"
            "</joint>"
        )
    gravity = f"<gravity>{numbers(3)}</gravity>"
    world = f"<physics type='ode'>{gravity}</physics>" if minor <= 5 else gravity
    turned = f"<pose>{numbers(6)}</pose>" if rng.random() < 0.5 else ""
    attribute = " placement_frame='link1'" if minor >= 8 and rng.random() < 0.3 else ""
    body = "\n".join(parts)
    model = f"<model name='random'{attribute}>{turned}{body}</model>"
    return f"<sdf version='{version}'><world name='w'>{world}\n{model}</world></sdf>"


def _random_axis(rng: np.random.Generator, tag: str, minor: int, frames: list[str]) -> str:
    x, y, z = rng.normal(size=3)
    values = iter(rng.uniform(0.1, 9.0, 8))
    base = f" expressed_in='{rng.choice(frames)}'" if minor >= 7 and rng.random() < 0.4 else ""
    turned = "<use_parent_model_frame>1</use_parent_model_frame>"
    return (
        f"<{tag}><xyz{base}>{x:.17g} {y:.17g} {z:.17g}</xyz>"
        f"{turned if 4 < minor < 7 and rng.random() < 0.4 else ''}"
        f"<limit><lower>{-next(values):.17g}</lower><upper>{next(values):.17g}</upper>"
        f"<velocity>{next(values):.17g}</velocity><effort>{next(values):.17g}</effort></limit>"
        f"<dynamics><damping>{next(values):.17g}</damping><friction>{next(values):.17g}</friction>"
        f"<spring_stiffness>{next(values):.17g}</spring_stiffness>"
        f"<spring_reference>{next(values):.17g}</spring_reference></dynamics></{tag}>"
    )


def main(number: int) -> None:
    """Print each rejected or different random file, and the number of files with each result."""
    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for minor in range(4, 13):
            for seed in range(number):
                version = f"1.{minor}"
                text = random_sdf(np.random.default_rng([minor, seed]), version)
                path, peer_path = Path(folder) / "robot.sdf", Path(folder) / "peer.sdf"
                path.write_text(text)
                peer_path.write_text(text.replace(version, NEWEST, 1) if minor > 9 else text)
                floating = "'world'" not in text and "<parent>world" not in text and seed % 2 == 0
                try:
                    result = sdf_difference(path, peer_path, floating=floating)
                except ValueError as error:
                    result = f"rejected: {error}"
                counts[version, result.partition(":")[0]] += 1
                if result != EQUAL:
                    print(f"{version} seed {seed}: {result}", flush=True)
    for (version, result), files in sorted(counts.items()):
        print(f"{version:6} {result:24} {files}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100)
