"""A block with every feature of blocks, and its generated C.

The library's C files compile against this C.
"""

import re
import tempfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import fmpy
import numpy as np

from rigidblocks import (
    Block,
    LoopJoint,
    Model,
    Port,
    Revolute,
    SixDoF,
    System,
    auto_tree,
    box_inertia,
)
from rigidblocks.block.adaptive_methods import METHODS, memory_for, method_of
from rigidblocks.block.integrators import RK4, ROS2
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import RigidContactPlant, SoftContactPlant
from rigidblocks.contact.contact_sensors import ContactSensor
from rigidblocks.contact.event_driven.gauss_seidel_kernel import contacts_header
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL
from rigidblocks.dynamics.model_reduction import equivalent
from rigidblocks.fmi.native_fmu import fmu_sources
from rigidblocks.fmi.variables import Variables
from rigidblocks.fmi.xcp import XcpAddress, plan_header
from rigidblocks.hil.build_runner import runner_sources
from rigidblocks.hil.links import UdpLink
from rigidblocks.hil.runner_tables import SequentialParts
from rigidblocks.kernels.compiled_stepper import functions_text, steps_header
from rigidblocks.kernels.derivative_columns import structure_header
from rigidblocks.kernels.loop_constraint_c import loop_rows
from rigidblocks.kernels.model_header import model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import Delay, ParticleFilter, RobotPlant, StateSpace
from rigidblocks.robot.material import Material
from rigidblocks.robot.robot_description import JointProperties
from rigidblocks.robot.robots import gripper
from rigidblocks.robot.shapes import Box, Capsule, ConvexHull, HeightField, Plane, TriangleMesh
from rigidblocks.spatial.scalar import clip_with_events
from rigidblocks.spatial.spatial import identity, xlt
from rigidblocks.tracing.compiled_functions import function_header, header_text
from rigidblocks.tracing.trace import trace


@dataclass(frozen=True)
class Turntable(Block):
    """Table turned by a sampled controller: a direction of length 1, and its speed.

    dd/dt = w cross(z, d),  dw/dt = (tau - b w) / I,  the friction b w at most 1 N m
    """

    sample_time: float | None = 2e-3
    inputs = (Port("w_ref", (), "rad/s", "wanted speed", 1.0),)
    outputs = (
        Port("d", (2,), "1", "direction"),
        Port("tau", (), "N.m", "torque of the controller"),
        Port("P", (), "W", "power of the controller"),
    )
    states = (
        Port("d", (2,), "1", "direction", (1.0, 0.0)),
        Port("w", (), "rad/s", "speed", 0.0),
    )
    sampled = (Port("tau", (), "N.m", "torque of the controller", 0.0),)
    parameters = (
        Port("I", (), "kg.m2", "inertia", 0.5),
        Port("b", (), "N.m.s/rad", "friction", 0.1),
    )

    def derivative(self, x, p):
        return {
            "d": np.array([-x.w * x.d[1], x.w * x.d[0]]),
            "w": (x.tau - clip_with_events(p.b * x.w, -1.0, 1.0)) / p.I,
        }

    def project(self, x):
        return {"d": x.d / np.sqrt(x.d @ x.d)}

    def update(self, x, u):
        return {"tau": 2.0 * (u.w_ref - x.w)}

    def output(self, x):
        return {"P": x.tau * x.w}


def generated_c() -> dict[str, str]:
    """Return the generated code of the sample by its path in tests/reference/sample."""
    texts = _of_fmus() | _of_methods()
    evaluator = TracedEvaluator(memory_for(Turntable(), RK4))
    texts["xcp/xcp_plan.h"] = plan_header(Variables(evaluator), "turntable", XcpAddress("5555"))
    texts |= {f"runner/{name}": text for name, text in _runner().items()}
    texts["algorithms/structure.h"] = structure_header(auto_tree(3), own=1)
    texts["algorithms/loops.h"] = loop_rows(_triangle(), equivalent(_triangle())).text
    texts["algorithms/contacts.h"] = contacts_header(2, 1, 10, cone=True)
    texts["algorithms/particles.h"] = _particle_filter().tables
    texts |= {f"lanes/{name}": text for name, text in _lanes().items()}
    texts["contact/tables.h"] = hand_and_block().tables
    texts["soft/tables.h"] = soft_heap().tables
    return texts


def _particle_filter() -> ParticleFilter:
    plant = StateSpace([[-1.0]], [[1.0]], [[1.0]], [[0.0]])
    return ParticleFilter(
        plant, "y", {"y": 0.1}, 1e-3, {"x": 0.1}, {"x": 1.0}, gate=5.0, particles=50
    )


def _of_fmus() -> dict[str, str]:
    """Return the code of FMUs of both versions."""
    texts = {}
    for fmi in (2, 3):
        sources = fmu_sources(
            Variables(TracedEvaluator(Memory(Turntable()))), "turntable", RK4, 1e-3, fmi
        )[1]
        own = {"fmu.h", "sparsity.h", *(name for name in sources if name.startswith("fmi"))}
        own -= {f"fmi{fmi}.c"}
        texts |= {f"fmi{fmi}/{name}": sources[name] for name in own & sources.keys()}
        guid = re.compile('RB_GUID ".*"')  # a digest of all sources
        texts[f"fmi{fmi}/fmu.h"] = guid.sub('RB_GUID "{sample}"', texts[f"fmi{fmi}/fmu.h"])
        texts |= {name: sources[name] for name in ("model.h", "tangent.h", "events.h")}
    memory = Memory(Turntable())
    binary = Variables(TracedEvaluator(memory), binary=frozenset({"w_ref", "P"}))
    for folder, variables, options in (
        ("binary", binary, {}),
        ("scheduled", Variables(TracedEvaluator(memory)), {"interval": 2e-3}),
        ("clocked", Variables(TracedEvaluator(memory)), {"clock": "periodic"}),
    ):
        sources = fmu_sources(variables, "turntable", RK4, 1e-3, 3, **options)[1]
        texts[f"{folder}/fmu.h"] = guid.sub('RB_GUID "{sample}"', sources["fmu.h"])
    delay = Variables(TracedEvaluator(Memory(Delay(3, 2e-3, (2, 5)))), resizable=True)
    sources = fmu_sources(delay, "delay", RK4, 1e-3, 3)[1]
    for name in ("fmu.h", "model.h", "tangent.h", "events.h", "sparsity.h"):
        texts[f"resizable/{name}"] = guid.sub('RB_GUID "{sample}"', sources[name])
    combined = Variables(delay.evaluator, binary=frozenset("u"), resizable=True)
    sources = fmu_sources(combined, "delay", RK4, 1e-3, 3, clock="periodic")[1]
    texts["combined/fmu.h"] = guid.sub('RB_GUID "{sample}"', sources["fmu.h"])
    return texts


def _of_methods() -> dict[str, str]:
    """Return the code of implicit and adaptive methods."""
    methods = {
        "implicit": ROS2,
        "adaptive": METHODS["adaptive"],
        "stiff": method_of("stiff", max_inner_steps=20),
        "automatic": METHODS["adaptive or stiff"],
    }
    evaluators = {name: TracedEvaluator(memory_for(Turntable(), m)) for name, m in methods.items()}
    return {
        f"{name}/model.h": model_header(evaluators[name], method, 1e-3)
        for name, method in methods.items()
    }


def _lanes() -> dict[str, str]:
    """Return the code of computations in lanes."""
    waves = trace("waves", lambda x: {"y": np.sin(x), "z": np.cos(x)}, {"x": (2,)})
    method = METHODS["adaptive or stiff"]
    evaluator = TracedEvaluator(memory_for(Turntable(), method))
    functions = header_text("functions", functions_text(evaluator, method, 1e-3))
    return {
        "function.h": function_header(waves)[0],
        "functions.h": functions.replace('"lanes.h"', '"model.h"\n#include "lanes.h"'),
        "steps.h": steps_header(Memory(Turntable()), RK4, 1e-3, 1e-3),
    }


def _triangle() -> Model:
    """Return three planar links; the tip of the last one is pinned to the base."""
    return replace(
        auto_tree(3), loops=(LoopJoint(Revolute(), -1, 2, xlt([1.5, 0, 0]), xlt([1, 0, 0])),)
    )


def _runner() -> dict[str, str]:
    """Return the code of the runner of a turntable whose speed command comes from a link."""
    system = System()
    link = UdpLink(
        [Port("d", (2,))],
        [Port("w_ref", unit="rad/s")],
        peer="127.0.0.1:5005",
        listen="127.0.0.1:0",
    )
    system.add("table", Turntable(), method="rk4")
    system.add("link", link)
    system.connect("table.d", "link.d")
    system.connect("link.w_ref", "table.w_ref")
    sources = runner_sources(system, "turntable", 2e-3, GAUSS_SEIDEL)
    link.close()
    names = ("model.h", "system.h", "links.h", "xcp_plan.h")
    return {name: sources[name] for name in names} | {"parts.h": _parts()}


def _parts() -> str:
    """Return the code for foreign FMUs, generated only from their model descriptions."""
    system = System()
    with tempfile.TemporaryDirectory() as folder:
        for version, text in ((2, _FMI_2), (3, _FMI_3)):
            path = Path(folder, f"{version}.fmu")
            of_fmi = fmpy.platform if version == 2 else fmpy.platform_tuple
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"binaries/{of_fmi}/one{fmpy.sharedLibraryExtension}", b"")
                archive.writestr("modelDescription.xml", text)
            start = {"n": 3} if version == 2 else {"n": 3, "hit": False}
            system.add(f"fmu_{version}", path, start=start)
        system.connect("fmu_2.y", "fmu_3.u")
        text = SequentialParts(system, 2e-3, GAUSS_SEIDEL).text("turntable.fmus", "x86_64-linux")
    return text


_FMI_2 = """<fmiModelDescription fmiVersion="2.0" modelName="one" guid="{1}">
<CoSimulation modelIdentifier="one"/>
<ModelVariables>
<ScalarVariable name="n" valueReference="1" causality="parameter" variability="fixed">
<Integer start="1"/></ScalarVariable>
<ScalarVariable name="on" valueReference="2" causality="input" variability="discrete">
<Boolean start="true"/></ScalarVariable>
<ScalarVariable name="y" valueReference="3" causality="output"><Real/></ScalarVariable>
</ModelVariables>
<ModelStructure><Outputs><Unknown index="3"/></Outputs></ModelStructure>
</fmiModelDescription>"""
_FMI_3 = """<fmiModelDescription fmiVersion="3.0" modelName="one" instantiationToken="{1}">
<CoSimulation modelIdentifier="one" hasEventMode="true"/>
<ModelVariables>
<Float64 name="time" valueReference="0" causality="independent" variability="continuous"/>
<Float64 name="u" valueReference="1" causality="input" start="0"/>
<UInt8 name="n" valueReference="2" causality="input" variability="discrete" start="0"/>
<String name="text" valueReference="3" causality="input"><Start value="one"/></String>
<Binary name="bytes" valueReference="4" causality="input"><Start value="00ff"/></Binary>
<Float32 name="y" valueReference="5" causality="output"/>
<Clock name="tick" valueReference="6" causality="input" intervalVariability="countdown"/>
<Clock name="sample" valueReference="7" causality="input" intervalVariability="constant"
 intervalDecimal="0.004"/>
<Clock name="hit" valueReference="8" causality="input" intervalVariability="triggered"/>
<Clock name="ticked" valueReference="9" causality="output" intervalVariability="triggered"/>
<Float64 name="gain" valueReference="10" causality="parameter" variability="tunable" start="1"/>
</ModelVariables>
<ModelStructure><Output valueReference="5"/></ModelStructure>
</fmiModelDescription>"""


def two_boxes() -> RigidContactPlant:
    """Return a box on another one."""
    sides = (0.4, 0.3, 0.2)
    model = Model(
        "boxes",
        (-1, -1),
        (SixDoF(), SixDoF()),
        (identity(), identity()),
        (box_inertia(sides, mass=2.0), box_inertia(sides, mass=1.0)),
        contact=((Box(sides),), (Box(sides),)),
    )
    q0 = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.1, 0.05, 0.0, 0.31)
    return RigidContactPlant(model, q0=q0, max_contacts=8)


def hand_and_block() -> RigidContactPlant:
    """Return a hand on a vertical slide with a block between its fingers, which have stops."""
    nv = gripper().nv
    fingers = np.arange(nv) < 3
    freedoms = JointProperties.from_values(
        nv,
        lower=np.where(fingers, -0.2, -np.inf),
        upper=np.where(fingers, 0.2, np.inf),
        friction=0.1 * fingers,
        damping=1.0 * fingers,
    )
    q0 = (0.1, 0.02, 0.02, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1)
    sensors = (
        ContactSensor("left", "block", "left_finger", distance=True),
        ContactSensor("floor", "block"),
    )
    return RigidContactPlant(
        gripper(), q0=q0, max_contacts=12, joint_properties=freedoms, sensors=sensors
    )


def soft_heap(mu: float = 0.5) -> SoftContactPlant:
    """Return a box, a hull and a capsule in compliant contact with plane, hills and roof."""
    robot, ice = RobotPlant(*_heap()), Material(mu=0.1, stiffness=2e4)
    hills = HeightField([[-0.1, -0.05, -0.1], [-0.1, 0.03, -0.1], [-0.1] * 3], (0.5, 0.5), (-1, 0))
    roof = TriangleMesh(
        [[0, -1, 0], [0, 1, 0.1], [1, 0, -0.2], [-1, 0, 0.1]], [[0, 2, 1], [0, 1, 3]]
    )
    law = (1e4, 50.0, mu, (Plane(), hills, roof), None, 50.0, 0.05, 0.1)
    sensors = (ContactSensor("sole", "body1"), ContactSensor("pair", "body1", "body2", True))
    return SoftContactPlant(robot, *law, (), (("rubber", "rubber", ice),), sensors)


def _heap() -> tuple[Model, np.ndarray]:
    """Return the model of the box, the hull and the capsule, and its configuration."""
    sides, rubber = (0.4, 0.3, 0.2), Material("rubber", 0.9, stiffness=1e4, damping=50.0)
    corners = 0.2 * np.vstack([np.eye(3), -np.eye(3)])
    shapes = (Box(sides, material=rubber), ConvexHull(corners), Capsule(0.1, 0.3))
    model = Model(
        "heap",
        (-1,) * 3,
        (SixDoF(),) * 3,
        (identity(),) * 3,
        (box_inertia(sides, mass=2.0),) * 3,
        contact=tuple((shape,) for shape in shapes),
    )
    q0 = np.concatenate([(0.9, 0.1 * k, 0.3, 0.1, 0.05 * k, 0, 0.3 + 0.4 * k) for k in range(3)])
    return model, q0
