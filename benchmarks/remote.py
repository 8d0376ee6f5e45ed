"""A step of a remote part against bare round trips of as many bytes on loopback: wall time, and CPU
time of both sides together [us].

The step of the FMU itself, which a bare round trip has not, is in the remote step and is also told
alone.
"""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rigidblocks import PDController, System, export_fmu
from rigidblocks.bench.server import serve_fmus
from rigidblocks.simulation.running import running_fmu
from rigidblocks.simulation.served import served_fmu
from rigidblocks.tracing.compiler import compiler

N, DT, BYTES = 5000, 1e-3, 96
Pair = tuple[socket.socket, socket.socket]


def in_c(folder: Path) -> None:
    """UDP in C."""
    source = Path(__file__).with_name("round_trip.c")
    subprocess.run([*compiler(), "-O2", source, "-o", folder / "bare"], check=True)
    subprocess.run([folder / "bare", str(N), str(BYTES)], check=True)


def udp() -> Pair:
    """Two ends that only know each other."""
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind(("127.0.0.1", 0))
    b.bind(("127.0.0.1", 0))
    a.connect(b.getsockname())
    b.connect(a.getsockname())
    return a, b


def tcp() -> Pair:
    """A connection whose bytes are sent at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        a = socket.create_connection(listener.getsockname())
        b, _ = listener.accept()
    for one in (a, b):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return a, b


def of_children() -> float:
    """CPU time of the processes that have ended [s]."""
    times = os.times()
    return times.children_user + times.children_system


def bare(name: str, pair: Pair) -> None:
    """Round trips in Python that do nothing else."""
    a, b = pair
    before = of_children()
    if (child := os.fork()) == 0:
        for _ in range(N):
            b.send(b.recv(2 * BYTES))
        os._exit(0)
    message = bytes(BYTES)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(N):
        a.send(message)
        a.recv(2 * BYTES)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    os.waitpid(child, 0)
    told(name, wall, cpu + of_children() - before)


def told(name: str, wall: float, cpu: float) -> None:
    """A line of the table."""
    print(f"{name:28} {1e6 * wall / N:8.1f} {1e6 * cpu / N:8.1f}", flush=True)


def steps(step: Callable[[float, float], None], first: int = 0) -> tuple[float, float]:
    """Wall and CPU time [s] of N steps."""
    wall, cpu = time.perf_counter(), time.process_time()
    for k in range(first, first + N):
        step(k * DT, DT)
    return time.perf_counter() - wall, time.process_time() - cpu


def of_process(pid: int) -> float:
    """The CPU time of a process that runs [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def remote(folder: Path) -> None:
    """The step of a controller's FMU at a server, and the same in this process."""
    file = export_fmu(PDController((60.0, 30.0), (8.0, 4.0)), folder / "pd.fmu")
    reads, writes = os.pipe()
    if (server := os.fork()) == 0:
        serve_fmus(folder, "127.0.0.1:0", ready=lambda at: os.write(writes, at.encode()))
    system = System()
    system.add("there", f"tcp://{os.read(reads, 100).decode()}/pd.fmu")
    system.add("here", file)
    there, here = served_fmu(system.parts["there"]), running_fmu(system.parts["here"])
    child = int(Path(f"/proc/{server}/task/{server}/children").read_text())
    for one in (there, here):
        one.initialize(0.0)
        one.begin()
    steps(there.step)
    before = of_process(child)
    wall, cpu = steps(there.step, N)
    told("remote part", wall, cpu + of_process(child) - before)
    told("the same FMU here", *steps(here.step))
    there.close()
    here.close()
    os.kill(server, 15)
    os.waitpid(server, 0)


def main() -> None:
    """The table."""
    print(f"{'round trip':28} {'wall us':>8} {'CPU us':>8}")
    with tempfile.TemporaryDirectory() as folder:
        in_c(Path(folder))
        bare("UDP in Python", udp())
        bare("TCP in Python", tcp())
        remote(Path(folder))


if __name__ == "__main__":
    main()
