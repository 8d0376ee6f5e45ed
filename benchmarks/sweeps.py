"""Times of a parameter sweep on this machine: until the first run, and until the dataset.

    python benchmarks/sweeps.py [runs]

The times begin with the command. The script also measures the speed-up by a second worker, compared
with a second process of the C loop, and the speed-up by lanes. Each run is the planar robot with
its controller for 10 s.

The machine should be idle. The kernels are compiled before the measurement.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, process_time, sleep

from rigidblocks import sweep
from rigidblocks.cli.run import _planar2ctrl
from rigidblocks.studies.experiment_design import latin_hypercube

MEASURE = "peak robot.qd[1]"
SCRIPT = "from rigidblocks.cli.run import _planar2ctrl\nsystem = _planar2ctrl()\n"
BARE = """
import sys
from rigidblocks import prepare
from rigidblocks.cli.run import _planar2ctrl
run = prepare(_planar2ctrl(), 1e-3, form="fused", every=10_000)
run.simulate(10.0, progress=False)
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        run.simulate(10.0, progress=False)
    print("done", flush=True)
"""


def of_command(folder: Path, runs: int) -> tuple[float, float]:
    """Return the times [s] from the start of the command to its first run and to its dataset."""
    (folder / "planar.py").write_text(SCRIPT)
    words = ["sweep", "planar.py", "--vary", "pd.kp[1]=500:1500", "--sample", "latin"]
    words += ["--runs", str(runs), "--stop", "10", "--measure", MEASURE, "-o", f"of{runs}.nc"]
    record, begin, first = folder / f"of{runs}.nc.csv", monotonic(), 0.0
    command = [sys.executable, "-m", "rigidblocks", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        if not first and record.is_file() and record.read_text().count("\n") > 2:
            first = monotonic() - begin
        sleep(0.01)
    if process.returncode:
        raise RuntimeError(f"the sweep ended with {process.returncode}")
    return first, monotonic() - begin


def of_processes(runs: int) -> float:
    """Return the speed-up of two processes that run the C loop without recording.

    It is the upper limit of the speed-up by a second worker on this machine.
    """
    command = [sys.executable, "-c", BARE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for one in both:
        one.stdout.readline()
    times = []
    for some, each in ((both[:1], runs), (both, runs // 2)):
        begin = monotonic()
        for one in some:
            one.stdin.write(f"{each}\n")
            one.stdin.flush()
        for one in some:
            one.stdout.readline()
        times.append(monotonic() - begin)
    for one in both:
        one.stdin.close()
        one.wait()
    return times[0] / times[1]


def of_threads(runs: int, threads: int, **options: object) -> tuple[float, float]:
    """Return the wall time and the CPU time [s] of the runs without the start-up."""
    times = []
    for n in (1, runs):
        design = latin_hypercube({"pd.kp[1]": (500.0, 1500.0)}, n)
        begin, used = monotonic(), process_time()
        how = {"threads": threads, "progress": False, **options}
        sweep(_planar2ctrl(), design, 10.0, 1e-3, {"peak": MEASURE}, **how)  # type: ignore[arg-type]
        times.append((monotonic() - begin, process_time() - used))
    return times[1][0] - times[0][0], times[1][1] - times[0][1]


def main() -> None:
    runs = int(sys.argv[1]) if sys.argv[1:] else 1000
    with tempfile.TemporaryDirectory() as folder:
        of_command(Path(folder), 1)  # compiles
        first, whole = of_command(Path(folder), runs)
    print(f"| first run after | {first:.2f} s |\n| {runs} runs and their dataset | {whole:.2f} s |")
    one, two = of_threads(2 * runs, 1), of_threads(2 * runs, 2)
    print(f"| two workers against one | {one[0] / two[0]:.2f} x |")
    print(f"| two processes of the loop in C against one | {of_processes(2 * runs):.2f} x |")
    print(f"| processor's time of the two against the one | {two[1] / one[1]:.2f} x |")
    single, lanes = (of_threads(8 * runs, 1, method="rk4", lanes=n) for n in (1, None))
    print(f"| processor's time one by one against in lanes | {single[1] / lanes[1]:.1f} x |")


if __name__ == "__main__":
    main()
