"""Closed loops: times compared with Pinocchio, growth with the number of loops, step times."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from time import process_time
from timeit import repeat

import numpy as np
import pinocchio
from models import check_equal, in_pinocchio

from rigidblocks import ClosedLoopPlant, Model
from rigidblocks.block.memory_layout import Memory
from rigidblocks.dynamics.loops import closed_loop_dynamics
from rigidblocks.dynamics.loops.maximal_coordinates import sparse_maximal_dynamics
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.robots import Mechanism, four_bar, n_four_bar, spatial_mechanism
from rigidblocks.tracing.compiled_functions import CompiledFunction, compile_function

SIZES = (1, 2, 5, 10, 20, 40, 80)


def evaluation(mechanism: Mechanism) -> CompiledFunction:
    """Return the compiled function for the accelerations of a mechanism, with default settings."""
    model = mechanism.model
    function = compile_function(
        "closed_loop_dynamics",
        lambda q, qd, tau: {"qdd": closed_loop_dynamics(model, q, qd, tau).qdd},
        {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)},
    )
    function(mechanism.q0, mechanism.qd0, forces(mechanism))
    return function


def forces(mechanism: Mechanism) -> np.ndarray:
    """Return joint forces; without forces, some mechanisms have no initial accelerations."""
    return np.random.default_rng(0).uniform(-10.0, 10.0, mechanism.model.nv)


def with_constraints(
    model: Model, kind: pinocchio.ContactType
) -> tuple[pinocchio.Model, pinocchio.StdVec_RigidConstraintModel]:
    """Return the tree of a spatial model in Pinocchio, and its loops as rigid constraints.

    CONTACT_3D constrains the origins of the frames, CONTACT_6D also their orientations.
    """
    other, constraints = in_pinocchio(model), pinocchio.StdVec_RigidConstraintModel()
    for loop in model.loops:
        ends = ((loop.successor, loop.Xs), (loop.predecessor, loop.Xp))
        placed = (
            (body + 1, pinocchio.SE3(X.E.T, np.asarray(X.r, dtype=float))) for body, X in ends
        )
        constraints.append(
            pinocchio.RigidConstraintModel(
                kind, other, *chain.from_iterable(placed), pinocchio.ReferenceFrame.LOCAL
            )
        )
    return other, constraints


def with_pins(
    mechanism: Mechanism,
) -> tuple[pinocchio.Model, pinocchio.StdVec_RigidConstraintModel]:
    """Return a spatial mechanism in Pinocchio, with its pins as point constraints."""
    return with_constraints(spatial_mechanism(mechanism).model, pinocchio.ContactType.CONTACT_3D)


def in_pinocchio_with_loops(mechanism: Mechanism) -> Callable[[], object]:
    """Return a call of Pinocchio's constraintDynamics, with the pins as point constraints.

    In a spatial model, the constraints of planar loops are redundant, and the result with the
    default mu = 0 is NaN. Therefore mu is 1e-8, with up to 20 iterations.
    """
    other, pins = with_pins(mechanism)
    of_pins = pinocchio.StdVec_RigidConstraintData()
    for pin in pins:
        of_pins.append(pin.createData())
    data = other.createData()
    pinocchio.initConstraintDynamics(other, data, pins, of_pins)
    q, qd, tau = mechanism.q0, mechanism.qd0, forces(mechanism)
    settings = pinocchio.ProximalSettings(1e-12, 1e-8, 20)
    return lambda: pinocchio.constraintDynamics(other, data, q, qd, tau, pins, of_pins, settings)


def microseconds(call: Callable[[], object], number: int) -> float:
    """Return the least CPU time of a call over several runs [us]."""
    return min(repeat(call, number=number, repeat=15, timer=process_time)) / number * 1e6


def step(mechanism: Mechanism) -> float:
    """Return the time of a 1 ms step with RK4 and projection [us]."""
    flat = Memory(ClosedLoopPlant(*mechanism))
    stepper, m = compiled_stepper(flat), flat.start()
    stepper.initialize(m, 0.0)
    rows = np.zeros((1000, flat.size))
    return microseconds(lambda: stepper.run(m, 0.0, 1e-3, rows), 1) / len(rows)


def main() -> None:
    """Print a row for each mechanism, and the exponent of the growth with the number of loops."""
    print(
        f"{'mechanism':22} {'operations':>10} {'call us':>9} {'Pinocchio':>10} {'ratio':>6} "
        f"{'step us':>8}"
    )
    cases = {"four-bar": four_bar(), "four-bar in space": spatial_mechanism(four_bar())}
    cases |= {f"{n} four-bars": n_four_bar(n) for n in SIZES}
    times = {}
    for name, mechanism in cases.items():
        function, other = evaluation(mechanism), in_pinocchio_with_loops(_planar(name, mechanism))
        answers = function(mechanism.q0, mechanism.qd0, forces(mechanism)), other()
        check_equal(name, *answers, 1e-12)
        number = max(20, 20_000 // mechanism.model.nv)
        times[name] = microseconds(function.run, number)
        theirs = microseconds(other, max(20, number // 20))
        steps = f"{step(mechanism):8.2f}" if mechanism.model.nv < 12 else ""
        row = f"{name:22} {function.graph.operation_count:10} {times[name]:9.2f} {theirs:10.1f}"
        print(f"{row} {theirs / times[name]:6.1f} {steps}")
    n = [size for size in SIZES if size >= 5]
    exponent = np.polyfit(np.log(n), np.log([times[f"{size} four-bars"] for size in n]), 1)[0]
    print(
        f"the time grows as the number of windows to the power of {exponent:.2f} from {n[0]} to "
        f"{n[-1]}"
    )
    print_sparse()


def print_sparse() -> None:
    """Print the times of two solutions in NumPy.

    They are the default elimination, and a sparse system of all bodies and joints (RBDA 8.13).
    """
    print(f"{'NumPy, ms a window':22} {'elimination':>12} {'sparse':>8} {'off by':>8}")
    for n in (5, 20, 80, 320):
        model = n_four_bar(n).model
        signs = np.where(np.arange(model.nv) % 2, -1.0, 1.0)
        state = (model, signs, -1.5 * signs, forces(n_four_bar(n)))
        answers = closed_loop_dynamics(*state).qdd, sparse_maximal_dynamics(*state).qdd
        check_equal(f"{n} windows", *answers, 1e-10)
        calls = [partial(f, *state) for f in (closed_loop_dynamics, sparse_maximal_dynamics)]
        both = [min(repeat(call, number=1, repeat=3, timer=process_time)) for call in calls]
        off = np.max(np.abs(answers[0] - answers[1])) / np.max(np.abs(answers[0]))
        print(f"{n:22} {both[0] / n * 1e3:12.2f} {both[1] / n * 1e3:8.2f} {off:8.0e}")


def _planar(name: str, mechanism: Mechanism) -> Mechanism:
    return four_bar() if "space" in name else mechanism


if __name__ == "__main__":
    main()
