"""Runs of a sweep in processes of their own, for what holds Python's lock while it runs.

Parent and child talk over a pipe: the first message is the work, with where modules are found, and
then each request is the numbers of a run, and the reply a row, or the result for a parent that
measures it. The program that asks for a sweep is not run again in the child.
"""

import os
import pickle
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.interrupts import end_with
from rigidblocks.simulation.result import Result
from rigidblocks.study.design import Design
from rigidblocks.study.freight import packed
from rigidblocks.study.work import Row, Work, started
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.remote import RemoteFile
from rigidblocks.system.wiring import Wiring

_GRACE = 5.0  # s that a child gets to end by itself


def takes_turns(wiring: Wiring) -> bool:
    """Whether there is an FMU that runs Python in this process, in which one runs at a time."""
    return any(
        isinstance(part.component, Fmu) and not part.isolated and _is_python(part.component)
        for part in wiring.parts.values()
    )


def _is_python(fmu: Fmu) -> bool:
    if isinstance(fmu.path, RemoteFile):
        return False
    with zipfile.ZipFile(fmu.path) as archive:
        names = archive.namelist()
    return any(name.startswith("resources/") and name.endswith(".py") for name in names)


class Child:
    """Does runs in a process of its own; where that one ends in a run, the run has failed, and
    there is another process for the next one.
    """

    def __init__(self, work: Work, design: Design):
        by_name = all(isinstance(one, str) for one in work.measures.values())
        self._work = work
        there = work if by_name else replace(work, measures={})
        self._freight = packed((there, design, by_name))
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def __call__(self, numbers: Array) -> Row:
        """The row of a run with these numbers of the design."""
        try:
            if self._pipe is None:
                self._begin()
            assert self._pipe is not None
            self._pipe.send(numbers)
            answer: Row | Result = self._pipe.recv()
            return answer if isinstance(answer, Row) else self._work.measured(answer)
        except (EOFError, OSError):
            return self._work.failed(RuntimeError(self._ending()))
        except Exception as error:
            return self._work.failed(error)

    def stop(self) -> None:
        """Ends the process, also in the midst of a run; there is none after it."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process between two runs, and frees what it holds."""
        self.stop()
        if self._process is not None:
            self._process.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._pipe = self._process = None

    def _begin(self) -> None:
        if self._closed:
            raise RuntimeError("the sweep is over")
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-m", "rigidblocks.study.processes", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        if self._closed:
            self._process.kill()
        self._pipe.send(sys.path)
        self._pipe.send_bytes(self._freight)
        if (said := self._pipe.recv()) is not None:
            raise RuntimeError(f"a process of its own cannot run this system: {said}")

    def _ending(self) -> str:
        """How the process ended, which is done with."""
        assert self._process is not None
        assert self._pipe is not None
        self._pipe.close()
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._pipe = self._process = None
        if code < 0:
            return f"its process was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"its process ended with exit code {code}"


def serve(pipe: Connection) -> None:
    """Does the runs that the other end asks for, until it closes the pipe."""
    try:
        sys.path[:] = pipe.recv()
        work, design, by_name = pickle.loads(pipe.recv_bytes())
        wiring, run = work.system.wiring(), work.prepared()
    except Exception as error:
        pipe.send(" ".join(f"{type(error).__name__}: {error}".split()))
        return
    pipe.send(None)
    while True:
        try:
            numbers: Array = pipe.recv()
        except EOFError:
            return
        try:
            result = work.result(run, started(wiring, design, numbers))
            answer: Row | Result = work.measured(result) if by_name else result
        except Exception as error:
            answer = work.failed(error)
        pipe.send(answer)


if __name__ == "__main__":
    end_with(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    serve(Connection(int(sys.argv[1])))
