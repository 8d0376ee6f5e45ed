"""Step times of robots that stand with joint springs, compared with MuJoCo's mj_step and Drake.

All simulations read the same MJCF file. MuJoCo has its default settings (pyramidal cone, Newton's
method). Drake uses its discrete plant, SAP and point contact. The table lists the CPU time per step
and the number of contacts; the error of the ground force is checked.
"""

import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from xml.etree import ElementTree

import gymnasium
import mujoco
import numpy as np

from rigidblocks import RigidContactPlant, load_model
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Plane

H, T, G = 1e-3, 2.0, 9.81

LEG = """<body name="hip{k}" pos="{x} {y} 0">
  <inertial pos="0 0 0" mass="0.5" diaginertia="1e-3 1e-3 1e-3"/>
  <joint axis="1 0 0" stiffness="2000" damping="10"/>
  <body name="thigh{k}" pos="0 {side} 0">
    <inertial pos="0 0 -0.1" mass="0.8" diaginertia="3e-3 3e-3 3e-4"/>
    <joint axis="0 1 0" stiffness="60" damping="2" springref="40"/>
    <body name="shank{k}" pos="0 0 -0.2">
      <inertial pos="0 0 -0.1" mass="0.4" diaginertia="1.5e-3 1.5e-3 1e-4"/>
      <joint axis="0 1 0" stiffness="60" damping="2" springref="-80"/>
      <geom type="capsule" fromto="0 -0.03 -0.2 0 0.03 -0.2" size="0.02" mass="0"/>
    </body></body></body>"""


def quadruped() -> str:
    """Return four legs of three joints; feet are transverse capsules with two contact points."""
    places = [(x, y) for x in (0.2, -0.2) for y in (0.1, -0.1)]
    legs = "".join(LEG.format(k=k, x=x, y=y, side=0.8 * y) for k, (x, y) in enumerate(places))
    return f"""<mujoco model="quadruped"><compiler angle="degree"/><option timestep="{H}"/>
        <default><geom friction="0.6 0 0" condim="3"/></default>
        <worldbody><geom type="plane" size="0 0 1"/>
        <body name="trunk" pos="0 0 0.36"><freejoint/>
        <inertial pos="0 0 0" mass="6" diaginertia="0.03 0.11 0.12"/>{legs}</body>
        </worldbody></mujoco>"""


def humanoid() -> str:
    """Return gymnasium's humanoid with stiffer joints, on feet of two boxes each.

    The two boxes are the heel and the toe, with four contact points each.
    """
    path = Path(gymnasium.__file__).parent / "envs/mujoco/assets/humanoid.xml"
    text = re.sub(r"<(option|actuator|tendon)\b.*?</\1>|<asset>.*?</asset>", "", path.read_text(),
                  flags=re.DOTALL)  # fmt: skip
    text = re.sub(r' (material|stiffness|damping|limited)="[^"]*"', "", text)
    text = text.replace('<joint armature="1"', '<joint stiffness="800" damping="20"')
    text = text.replace('name="root"', 'name="root" stiffness="0" damping="0"')
    text = text.replace('condim="1" contype="1"', 'condim="3" contype="1" friction="0.6 0 0"')
    for side in ("right", "left"):
        toe = "".join(
            f'<geom type="box" size="0.05 0.05 0.02" pos="{x} 0 0.06"/>' for x in (-0.05, 0.1)
        )
        text = re.sub(rf'<geom name="{side}_foot"[^>]*/>', toe, text)
    head, end, rest = text.partition("<worldbody>")
    return f'{head}<option timestep="{H}"/>{end}{rest}'


class Standing(NamedTuple):
    """CPU time per step [us], final number of contacts, and relative error of the ground force."""

    time: float
    contacts: int
    off: float


class Stand(NamedTuple):
    """Simulation: functions for steps, for the number of contacts, and for ground force [N]."""

    advance: Callable[[int], object]
    contacts: Callable[[], int]
    borne: Callable[[], float]


def ours(path: Path) -> Stand:
    robot, data = load_model(path), mujoco.MjData(mujoco.MjModel.from_xml_path(str(path)))
    place, turn, joints = np.split(data.qpos, [3, 7])
    q0 = np.concatenate([turn, place, joints])
    plant = RigidContactPlant(robot.model, (Plane(),), q0=q0, mu=0.6,
                              collision_exclusions=robot.collision_exclusions,
                              joint_properties=robot.joint_properties, sample_time=H)  # fmt: skip
    memory = Memory(plant)
    m, step, done = memory.start(), compiled_stepper(memory), [0]
    step.initialize(m, 0.0)

    def advance(steps: int) -> None:
        rows = np.empty((steps, memory.size))
        step.run(m, done[0] * H, H, rows)
        done[0] += steps

    return Stand(
        advance,
        lambda: int(m[memory.where["contacts"]][0]),
        lambda: m[memory.where["f_contact"]].reshape(-1, 6)[:, 5].sum(),
    )


def by_mujoco(path: Path) -> Stand:
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    return Stand(
        lambda steps: mujoco.mj_step(model, data, nstep=steps),
        lambda: data.ncon,
        lambda: data.qfrc_constraint[2],
    )


def one_joint_each(text: str) -> str:
    """Return the robot with massless bodies between the joints of bodies with several joints.

    If a body has several joints, Drake's reader places all but the last joint at the parent.
    """
    root = ElementTree.fromstring(text)
    pairs = ElementTree.SubElement(root, "contact")
    for parent in [*root.iter("worldbody"), *root.iter("body")]:
        for body in parent.findall("body"):
            name, (*before, _) = body.get("name", ""), body.findall("joint") or [None]
            outer = body
            for k, joint in enumerate(before):
                inner = ElementTree.Element("body", name=name)
                inner.extend([child for child in outer if child is not joint])
                outer[:] = [joint, inner]
                outer.set("name", f"{name}.{k}")
                outer = inner
            if before and parent.get("name"):
                ElementTree.SubElement(pairs, "exclude", body1=parent.get("name"), body2=name)
    return ElementTree.tostring(root, encoding="unicode")


def add_drives(drake: Any, plant: Any, model: mujoco.MjModel) -> None:
    """Add the springs and rotor inertias of the joints, which Drake's MJCF reader ignores.

    The order of the joints is the same in both models.
    """
    joints = [plant.get_joint(k) for k in plant.GetJointIndices()]
    turning = [one for one in joints if one.num_velocities() == 1]
    hinges = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE)
    for joint, k in zip(turning, hinges, strict=True):
        rest = model.qpos_spring[model.jnt_qposadr[k]]
        plant.AddForceElement(drake.RevoluteSpring(joint, rest, model.jnt_stiffness[k]))
        rotor = plant.AddJointActuator(joint.name(), joint)
        rotor.set_default_gear_ratio(1.0)
        rotor.set_default_rotor_inertia(model.dof_armature[model.jnt_dofadr[k]])


def check_inertia(plant: Any, context: Any, model: mujoco.MjModel) -> None:
    """Compare the eigenvalues of both mass matrices.

    The base is upright at its origin; the order of the degrees of freedom may differ.

    Raises:
        RuntimeError: If the eigenvalues differ.
    """
    data, M = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    mujoco.mj_forward(model, data)
    mujoco.mj_fullM(model, data, M)
    theirs = np.linalg.eigvalsh(plant.CalcMassMatrix(context))
    if not np.allclose(theirs, np.linalg.eigvalsh(M), rtol=1e-6):
        raise RuntimeError(f"masses differ: {theirs}, {np.linalg.eigvalsh(M)}")


def by_drake(path: Path) -> Stand:
    from pydrake import all as drake

    logging.getLogger("drake").setLevel(logging.ERROR)  # hides warnings about springs
    model = mujoco.MjModel.from_xml_path(str(path))
    builder = drake.DiagramBuilder()
    plant, _ = drake.AddMultibodyPlantSceneGraph(builder, H)
    plant.set_discrete_contact_approximation(drake.DiscreteContactApproximation.kSap)
    split = path.with_name("one_joint_each.xml")
    split.write_text(one_joint_each(path.read_text()))
    drake.Parser(plant).AddModels(str(split))
    add_drives(drake, plant, model)
    plant.Finalize()
    simulator = drake.Simulator(builder.Build())
    context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
    check_inertia(plant, context, model)
    simulator.Initialize()
    done = [0]

    def advance(steps: int) -> None:
        done[0] += steps
        simulator.AdvanceTo(done[0] * H)

    def found() -> Any:
        return plant.get_contact_results_output_port().Eval(context)

    def borne() -> float:
        every = [found().point_pair_contact_info(k) for k in range(contacts())]
        return abs(sum(one.contact_force()[2] for one in every))

    def contacts() -> int:
        return found().num_point_pair_contacts()

    return Stand(advance, contacts, borne)


RIVALS: dict[str, Callable[[Path], Stand]] = {
    "here": ours, "mj_step": by_mujoco, "Drake": by_drake
}  # fmt: skip


def run_all(
    text: str, rivals: dict[str, Callable[[Path], Stand]], slices: int = 10
) -> dict[str, Standing]:
    """Run all simulations from the same file, in turns, and return their results."""
    path = Path(tempfile.mkdtemp(), "robot.xml")
    path.write_text(text)
    runs, steps = {name: make(path) for name, make in rivals.items()}, round(T / H) // slices
    spent = dict.fromkeys(runs, 0.0)
    for _ in range(slices):
        for name, run in runs.items():
            start = process_time()
            run.advance(steps)
            spent[name] += process_time() - start
    weight = G * float(mujoco.MjModel.from_xml_path(str(path)).body_mass.sum())
    return {
        name: Standing(
            1e6 * spent[name] / (slices * steps), run.contacts(), abs(run.borne() / weight - 1)
        )
        for name, run in runs.items()
    }


ROBOTS = {
    "standing quadruped, 18 degrees of freedom": quadruped,
    "standing humanoid, 23 degrees of freedom": humanoid,
}


def measured(rival: str = "mj_step") -> Iterator[list[str]]:
    """Yield the mean CPU time of a step in both simulators, and the final number of contacts."""
    for name, text in ROBOTS.items():
        found = run_all(text(), {who: RIVALS[who] for who in ("here", rival)})
        if max(one.off for one in found.values()) > 1e-2:
            raise RuntimeError(f"{name}: the ground does not bear its weight: {found}")
        cells = [f"{one.time:.3g} us, {one.contacts} contacts" for one in found.values()]
        yield [name, *cells, f"{found['here'].time / found[rival].time:.2f} x"]


if __name__ == "__main__":
    for rival in sys.argv[1:] or ["mj_step"]:
        for row in measured(rival):
            print(rival, " | ".join(row), flush=True)
