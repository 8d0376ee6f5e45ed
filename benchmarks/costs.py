"""Cost of error-controlled steps for smooth motion, relative to RK4.

The script compares the CPU times of a communication step of 1 ms with adaptive methods and with one
RK4 step, measured in the same run. Before it measures the times, it compares the final states of
the methods.
"""

from collections.abc import Callable, Iterator
from time import process_time

import numpy as np

from rigidblocks import (
    Block,
    ClosedLoopPlant,
    FusedSystem,
    Model,
    PDController,
    RepeatingSequence,
    RobotPlant,
    System,
    auto_tree,
    planar2,
)
from rigidblocks.block.adaptive_methods import memory_for, method_of
from rigidblocks.block.memory_layout import Memory
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library import FloatingBasePlant
from rigidblocks.robot.robots import five_bar, n_four_bar, quadruped, stewart_platform

DT, N, ROUNDS = 1e-3, 1000, 15
METHODS = ("rk4", "adaptive", "adaptive or stiff")
AGREEMENT = 1e-6  # largest difference of the final states, relative to the largest state
STANCE = np.tile([0.0, 0.7, -1.4], 4)
KP, KD = (1000.0, 1000.0), (15.0, 15.0)

# a block whose parts use the method of the case, and the method of the whole block
Case = tuple[Block, str]


def planar2ctrl(method: str) -> Case:
    """Return the planar robot with its controller and command, fused."""
    system = System()
    system.add("robot", RobotPlant(planar2()), method=method)
    system.add("pd", PDController(KP, KD))
    table = [[0, 0], [1, 1.5], [1, 1.5], [0, 0], [0, 0]]
    system.add("command", RepeatingSequence(t=[0, 1, 2, 3, 4], y=table))
    wires = (
        ("command.y", "pd.q_ref"),
        ("command.slope", "pd.qd_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "robot.tau"),
    )
    for source, target in wires:
        system.connect(source, target)
    return FusedSystem(system, DT), "rk4"


def separate(block: Callable[[], Block]) -> Callable[[str], Case]:
    """Return the case of a single block without connected inputs."""
    return lambda method: (block(), method)


def swinging(model: Model) -> RobotPlant:
    """Return a robot with freely swinging joints."""
    return RobotPlant(model, q0=np.full(model.nq, 0.3), qd0=np.full(model.nv, 0.5))


CASES: dict[str, Callable[[str], Case]] = {
    "planar2ctrl": planar2ctrl,
    "planar2": separate(lambda: swinging(planar2())),
    "7 joints": separate(lambda: swinging(auto_tree(7, skew=0.7))),
    "quadruped": separate(lambda: FloatingBasePlant(quadruped(), q0=STANCE, qd0=0.5)),
    "four-bars, N = 40": separate(lambda: ClosedLoopPlant(*n_four_bar(40))),
}

JACOBIANS: dict[str, Callable[[], Block]] = {
    "five-bar": lambda: ClosedLoopPlant(*five_bar()),
    "arm of seven joints": lambda: swinging(auto_tree(7, skew=0.7)),
    "quadruped": lambda: FloatingBasePlant(quadruped(), q0=STANCE, qd0=0.5),
    "Stewart platform": lambda: ClosedLoopPlant(*stewart_platform()),
    "four-bars, N = 40": lambda: ClosedLoopPlant(*n_four_bar(40)),
}


def run_of(case: Case) -> tuple[Callable[[], float], Callable[[], np.ndarray]]:
    """Return a function that runs N steps of a case, and a function that returns final q and qd.

    Each call of the first function starts a new run and returns its CPU time [s].
    """
    block, name = case
    method = method_of(name)
    stepper = compiled_stepper(memory_for(block, method), method)
    rows, where = np.zeros((N, stepper.memory.size)), stepper.memory.where

    def run() -> float:
        m = stepper.memory.start()
        stepper.initialize(m, 0.0)
        start = process_time()
        if stepper.run(m, 0.0, DT, rows) != N:
            raise RuntimeError(f"{stepper.memory.name} by '{name}' does not come to its end")
        return process_time() - start

    names = [port.name for port in block.outputs if port.name.endswith(("q", "qd"))]
    return run, lambda: np.concatenate([rows[-1, where[name]] for name in names])


def measured(name: str) -> Iterator[float]:
    """Yield the median time of a step [s] of each method; the methods take turns.

    Raises:
        RuntimeError: If the final states of the methods differ.
    """
    runs = [run_of(CASES[name](method)) for method in METHODS]
    times = np.array([[run() for run, _ in runs] for _ in range(ROUNDS)])
    ends = [end() for _, end in runs]
    for method, end in zip(METHODS[1:], ends[1:], strict=True):
        difference = np.abs(end - ends[0]).max() / np.abs(ends[0]).max()
        if not difference < AGREEMENT:
            raise RuntimeError(f"{name}: '{method}' and RK4 differ by {difference:.1e}")
    yield from np.median(times, axis=0) / N


def jacobians() -> Iterator[list[str]]:
    """Yield a row for each block.

    A row contains the number of states, the operations of the derivative and of its exact Jacobian,
    and the time to trace the Jacobian.
    """
    for name, block in JACOBIANS.items():
        evaluator = TracedEvaluator(Memory(block()))
        rates, start = evaluator.graph("derivative").operation_count, process_time()
        exact = evaluator.rate_slopes.operation_count
        time, n = process_time() - start, evaluator.memory.x.stop - evaluator.memory.x.start
        yield [
            name,
            str(n),
            f"{rates:,}",
            f"{exact:,}",
            f"{time:.1g} s" if time < 10 else f"{time:.0f} s",
        ]


def main() -> None:
    """Print the table."""
    print(f"{'a step of 1 ms by':20}{'RK4':>10}" + "".join(f"{one:>20}" for one in METHODS[1:]))
    for name in CASES:
        rk4, *others = measured(name)
        ratios = "".join(f"{one / rk4:18.2f} x" for one in others)
        print(f"{name:20}{rk4 * 1e6:7.2f} us{ratios}", flush=True)


if __name__ == "__main__":
    main()
