"""Closed loops: the time of an evaluation against Pinocchio's in the same run, its growth with the loops, and a step's."""

from collections.abc import Callable
from timeit import repeat

import numpy as np
import pinocchio
from models import in_pinocchio

from rigidblocks import ClosedLoopPlant, compiled
from rigidblocks.compiled_function import CompiledFunction
from rigidblocks.flat import FlatBlock
from rigidblocks.loops import closed_loop_dynamics
from rigidblocks.mechanisms import Mechanism, four_bar, in_space, n_four_bar
from rigidblocks.stepper import CompiledStepper

SIZES = (1, 2, 5, 10, 20, 40, 80)


def evaluation(mechanism: Mechanism) -> CompiledFunction:
    """The accelerations of a mechanism with the default settings, compiled."""
    model = mechanism.model
    function = compiled(
        "closed_loop_dynamics",
        lambda q, qd, tau: {"qdd": closed_loop_dynamics(model, q, qd, tau).qdd},
        {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)},
    )
    function(mechanism.q0, mechanism.qd0, np.zeros(model.nv))
    return function


def in_pinocchio_with_loops(mechanism: Mechanism) -> Callable[[], object]:
    """Pinocchio's constraintDynamics with its default settings, the pins as constraints of points."""
    model = in_space(mechanism).model
    other = in_pinocchio(model)
    pins, of_pins = pinocchio.StdVec_RigidConstraintModel(), pinocchio.StdVec_RigidConstraintData()
    for loop in model.loops:
        places = [pinocchio.SE3(X.E.T, np.asarray(X.r, dtype=float)) for X in (loop.Xp, loop.Xs)]
        pin = pinocchio.RigidConstraintModel(
            pinocchio.ContactType.CONTACT_3D,
            other,
            loop.predecessor + 1,
            places[0],
            loop.successor + 1,
            places[1],
            pinocchio.ReferenceFrame.LOCAL,
        )
        pins.append(pin)
        of_pins.append(pin.createData())
    data = other.createData()
    pinocchio.initConstraintDynamics(other, data, pins, of_pins)
    q, qd, tau = mechanism.q0, mechanism.qd0, np.zeros(model.nv)
    return lambda: pinocchio.constraintDynamics(other, data, q, qd, tau, pins, of_pins)


def microseconds(call: Callable[[], object], number: int) -> float:
    """The least time of a call over several runs [us]."""
    return min(repeat(call, number=number, repeat=7)) / number * 1e6


def step(mechanism: Mechanism) -> float:
    """The time of a step of 1 ms with RK4 and the projection [us]."""
    flat = FlatBlock(ClosedLoopPlant(*mechanism))
    stepper, m = CompiledStepper(flat), flat.start()
    stepper.initialize(m, 0.0)
    rows = np.zeros((1000, flat.size))
    return microseconds(lambda: stepper.run(m, 0.0, 1e-3, rows), 1) / len(rows)


def main() -> None:
    """Prints a row for each mechanism, and the exponent of the growth."""
    print(f"{'mechanism':22} {'operations':>10} {'call us':>9} {'Pinocchio':>10} {'ratio':>6} {'step us':>8}")
    cases = {"four-bar": four_bar(), "four-bar in space": in_space(four_bar())}
    cases |= {f"{n} four-bars": n_four_bar(n) for n in SIZES}
    times = {}
    for name, mechanism in cases.items():
        function, other = evaluation(mechanism), in_pinocchio_with_loops(_planar(name, mechanism))
        number = max(20, 20_000 // mechanism.model.nv)
        times[name] = microseconds(function.run, number)
        theirs = microseconds(other, max(20, number // 20))
        steps = f"{step(mechanism):8.2f}" if mechanism.model.nv < 12 else ""
        row = f"{name:22} {function.graph.operation_count:10} {times[name]:9.2f} {theirs:10.1f}"
        print(f"{row} {theirs / times[name]:6.1f} {steps}")
    n = [size for size in SIZES if size >= 5]
    exponent = np.polyfit(np.log(n), np.log([times[f"{size} four-bars"] for size in n]), 1)[0]
    print(f"the time grows as the number of windows to the power of {exponent:.2f} from {n[0]} to {n[-1]}")


def _planar(name: str, mechanism: Mechanism) -> Mechanism:
    return four_bar() if "space" in name else mechanism


if __name__ == "__main__":
    main()
