"""A step of a remote part, compared with bare round trips of the same number of bytes on loopback.

The table lists the wall time, and the CPU time of both sides together [us]. The script measures all
variants in turns, ROUNDS times, because the speed of a machine varies. The results are medians, and
so are the ratios to the bare UDP round trip in C of the same round. A remote step includes the step
of the FMU, which bare round trips do not have; the table also lists the FMU step separately.
"""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

from rigidblocks import PDController, System, export_fmu
from rigidblocks.common.compiler import compiler
from rigidblocks.cosim.fmu_import.model_exchange import running_fmu
from rigidblocks.cosim.fmu_import.remote_instance import served_fmu
from rigidblocks.cosim.masters.part_instance import Instance
from rigidblocks.hil.fmu_server import serve_fmus

N, ROUNDS, DT, BYTES = 1000, 15, 1e-3, 96
FLOOR = "UDP in C"
Cost = tuple[float, float]  # wall and CPU time of a round trip [us]
Pair = tuple[socket.socket, socket.socket]


def in_c(program: Path) -> Cost:
    """Return the cost of a UDP round trip in C."""
    run = subprocess.run([program, str(N), str(BYTES)], check=True, capture_output=True, text=True)
    wall, cpu = map(float, run.stdout.split()[-2:])
    return wall, cpu


def udp() -> Pair:
    """Return two UDP sockets that are connected to each other."""
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind(("127.0.0.1", 0))
    b.bind(("127.0.0.1", 0))
    a.connect(b.getsockname())
    b.connect(a.getsockname())
    return a, b


def tcp() -> Pair:
    """Return a TCP connection that sends bytes without delay."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        a = socket.create_connection(listener.getsockname())
        b, _ = listener.accept()
    for one in (a, b):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return a, b


def of_process(pid: int) -> float:
    """Return the CPU time of a single-threaded process [s]."""
    return 1e-9 * int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def cost(once: Callable[[], object], other: int | None = None) -> Cost:
    """Return the cost of a call in this process and, if given, in another process."""

    def cpu() -> float:
        return time.process_time() + (0.0 if other is None else of_process(other))

    used, wall = cpu(), time.perf_counter()
    for _ in range(N):
        once()
    wall = time.perf_counter() - wall
    return 1e6 * wall / N, 1e6 * (cpu() - used) / N


@contextmanager
def child(does: Callable[[], object]) -> Iterator[int]:
    """Run a function in a child process, which ends when the context ends."""
    if (pid := os.fork()) == 0:
        does()
        os._exit(0)
    try:
        yield pid
    finally:
        os.kill(pid, 15)
        os.waitpid(pid, 0)


@contextmanager
def bare(pair: Pair) -> Iterator[Callable[[], Cost]]:
    """Yield a function that measures the cost of bare round trips in Python."""
    a, b = pair
    message = bytes(BYTES)

    def echo() -> None:
        while True:
            b.send(b.recv(2 * BYTES))

    def once() -> None:
        a.send(message)
        a.recv(2 * BYTES)

    with child(echo) as other:
        yield lambda: cost(once, other)


def steps(one: Instance, other: int | None = None) -> Callable[[], Cost]:
    """Return a function that measures the cost of steps of an instance, which it initializes."""
    one.initialize(0.0)
    one.begin()
    numbers = count()
    return lambda: cost(lambda: one.step(next(numbers) * DT, DT), other)


@contextmanager
def controllers(folder: Path) -> Iterator[dict[str, Callable[[], Cost]]]:
    """Yield functions that measure steps of a controller's FMU, on a server and in this process."""
    file = export_fmu(PDController((60.0, 30.0), (8.0, 4.0)), folder / "pd.fmu")
    reads, writes = os.pipe()
    ready = partial(os.write, writes)
    serve = partial(serve_fmus, folder, "127.0.0.1:0", ready=lambda at: ready(at.encode()))
    with child(serve) as server:
        system = System()
        system.add("there", f"tcp://{os.read(reads, 100).decode()}/pd.fmu")
        system.add("here", file)
        there, here = served_fmu(system.parts["there"]), running_fmu(system.parts["here"])
        own = int(Path(f"/proc/{server}/task/{server}/children").read_text())
        try:
            yield {"remote part": steps(there, own), "the same FMU here": steps(here)}
        finally:
            there.close()
            here.close()


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        source, program = Path(__file__).with_name("round_trip.c"), folder / "bare"
        subprocess.run([*compiler(), "-O2", source, "-o", program], check=True)
        kinds = {
            FLOOR: partial(in_c, program),
            "UDP in Python": stack.enter_context(bare(udp())),
            "TCP in Python": stack.enter_context(bare(tcp())),
            **stack.enter_context(controllers(folder)),
        }
        rounds = [{name: measure() for name, measure in kinds.items()} for _ in range(ROUNDS)]
    print(f"{'round trip':20} {'wall us':>8} {'CPU us':>8} {'x wall':>8} {'x CPU':>8}")
    for name in kinds:
        of = [[one[name][k] for one in rounds] for k in (0, 1)]
        to = [[one[name][k] / one[FLOOR][k] for one in rounds] for k in (0, 1)]
        print(f"{name:20} " + " ".join(f"{median(some):8.2f}" for some in (*of, *to)))


if __name__ == "__main__":
    main()
