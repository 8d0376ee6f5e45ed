"""Tests of FMUs: independence of instances in one library, and completeness of a reset.

FMI requires independent instances and a complete reset. In some FMUs, instances share global
variables, or a reset does not clear all values of the last run. A separate process therefore tests
each FMU before several instances use one copy of its shared library, or before an instance is
reset. The result is stored in the cache folder.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import REAL, WHOLE
from rigidblocks.common.compiler import digest, keep_text, known_text
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.cosim.fmu_import.fmu_instance import RunningFmu
from rigidblocks.cosim.fmu_import.fmu_interface import Unpacked
from rigidblocks.cosim.fmu_import.model_exchange import running_fmu
from rigidblocks.cosim.graph.fmu_part import Configuration, Fmu, FmuError
from rigidblocks.cosim.graph.part import Part
from rigidblocks.spatial.spatial import Array

_STEPS = 5  # number of communication steps of a test run
_TIME_LIMIT = 60.0  # time limit of all tests of an FMU [s]
_BEGIN, _RESULT = "the test begins", "result of the test: "  # output lines of the test process


Kind = tuple[str, Configuration]  # interface type, and configuration


class Reuse(NamedTuple):
    """Permitted reuse of the library and the instances of an FMU, as determined by tests.

    Attributes:
        shares: True if two instances in one library are independent.
        resets: True if an instance behaves like a new instance after a reset.
    """

    shares: bool = False
    resets: bool = False


def is_trusted(fmu: Fmu) -> bool:
    """Return True for a native FMU that this package has exported.

    Such an FMU needs no tests, because its code has no side effects.
    """
    tool = fmu.description.generationTool or ""
    return tool.startswith("rigidblocks") and not fmu.is_python


def reuse_of(fmu: Fmu, t_start: float, dt: float) -> Reuse:
    """Return whether instances of an FMU may share a library, and whether a reset is complete.

    The FMU is tested once on each machine; later calls read the result from the cache folder.

    Args:
        fmu: FMU file.
        t_start: Start time of the test runs [s].
        dt: Communication step of the test runs [s].
    """
    if is_trusted(fmu):
        return Reuse(True, True)
    interface = fmu.interface
    if interface.canBeInstantiatedOnlyOncePerProcess or interface.needsExecutionTool:
        return Reuse()
    try:
        stat = fmu.file.stat()
    except OSError:  # the file was removed after it had been read
        return Reuse()
    kind = str(fmu.kind), fmu.configuration
    return _reuse(fmu.file, kind, (stat.st_mtime_ns, stat.st_size), (t_start, dt))


@cache
def _reuse(
    file: Path, kind: Kind, file_state: tuple[int, int], times: tuple[float, float]
) -> Reuse:
    """Return the cached test result of an FMU; test the FMU if the cache has no entry.

    `kind` contains the interface type and the configuration. `times` contains the start time and
    the communication step [s]. `file_state` contains the modification time and the size of the
    file; it is only part of the key of the cache in memory.
    """
    del file_state  # only part of the cache key
    with file.open("rb") as content:
        name = file_digest(content, "sha256").hexdigest()
    texts = kind[0], json.dumps(kind[1])
    key = digest(f"{__name__} {name} {texts} {times}".encode())
    if (text := known_text(key)) is None:
        text = _test_in_process(file, texts, times)
        if text is None:  # the test could not run
            return Reuse()
        keep_text(key, text)
    return Reuse(*json.loads(text))


def _test_in_process(file: Path, kind: tuple[str, str], times: tuple[float, float]) -> str | None:
    """Test an FMU in another process, and return the result as JSON (arguments as in `_reuse`).

    If the FMU ends the process or exceeds the time limit, both tests count as failed. The result
    is None if the other process cannot start.
    """
    if getattr(sys, "frozen", False) or "python" not in Path(sys.executable or "").name.lower():
        return None  # sys.executable is an application, which would start a second time
    command = [sys.executable, "-m", __name__, str(file), *kind, *map(repr, times)]
    try:
        with log_if_slow(f"examining the FMU {file.name}"):
            # in a new session, so that Ctrl-C does not interrupt the test and no partial result is
            # stored
            output = subprocess.run(
                command, capture_output=True, timeout=_TIME_LIMIT, start_new_session=True
            ).stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    except OSError:
        return None
    lines = output.decode(errors="replace").splitlines()  # the FMU may print other lines
    if _BEGIN not in lines:
        return None
    results = [line.removeprefix(_RESULT) for line in lines if line.startswith(_RESULT)]
    return results[-1] if results else json.dumps(Reuse())


# ---- test of an FMU in its own process ----


def examine(fmu: Fmu, t_start: float, dt: float) -> Reuse:
    """Test whether instances in one library are independent, and whether a reset is complete.

    The reference is an instance that has its own copy of the library. In the first steps, the
    outputs of the tested instances must equal the outputs of the reference to the last bit. The two
    instances in one library have different inputs and, if the FMU accepts them, different
    parameters and start values.
    """
    times = t_start, dt
    with contextlib.suppress(FmuError):
        sizes = {name: np.array(values) for name, values in fmu.configuration}
        first = Part("first", fmu, frozenset(), sizes)
        expected = [_run_separately(first, times)]
        for start in _other_starts(fmu):
            with contextlib.suppress(FmuError):
                second = replace(first, name="second", start={**start, **sizes})
                expected.append(_run_separately(second, times))
                break
        if len(expected) == 2 and expected[0].size and not _equal(expected[:1], expected[1:]):
            shares = _equal(_run_in_one_library((first, second), times), expected)
            return Reuse(shares, _equal(_run_after_reset((first, second), times), expected))
    return Reuse()


def _equal(found: list[Array], expected: list[Array]) -> bool:
    """Return True if the outputs `found` and `expected` are equal to the last bit."""
    return [np.array(one).tobytes() for one in found] == [one.tobytes() for one in expected]


def _run_separately(part: Part, times: tuple[float, float]) -> Array:
    """Run an instance with its own copy of the library, and return its outputs.

    `times` contains the start time and the communication step [s].
    """
    with contextlib.closing(running_fmu(part)) as instance:
        return _outputs_of([instance], times)[0]


def _run_in_one_library(parts: tuple[Part, Part], times: tuple[float, float]) -> list[Array]:
    """Run two instances in one library; return their outputs, or an empty list after a failure.

    `times` contains the start time and the communication step [s].
    """
    fmu = parts[0].component
    assert isinstance(fmu, Fmu)
    with contextlib.suppress(FmuError), ExitStack() as stack:
        shared = Unpacked(fmu)
        instances = []
        for part in parts:
            instances.append(running_fmu(part, shared))
            stack.callback(instances[-1].close)
        return _outputs_of(instances, times)
    return []


def _run_after_reset(parts: tuple[Part, Part], times: tuple[float, float]) -> list[Array]:
    """Run two instances, reset and run them again; return the outputs of the second runs.

    In the second runs, the instances use the start values of the first and the second part. In the
    first runs, the start values are exchanged. `times` contains the start time and the
    communication step [s].
    """
    found = []
    for part, other in (parts, parts[::-1]):
        with contextlib.suppress(FmuError), contextlib.closing(running_fmu(other)) as instance:
            _outputs_of([instance], times)
            instance.end()
            instance.restart(part)
            found.append(_outputs_of([instance], times)[0])
    return found


def _outputs_of(instances: list[RunningFmu], times: tuple[float, float]) -> list[Array]:
    """Step instances, and return the outputs of each instance at the start and after each step.

    The instances step alternately. `times` contains the start time and the communication step [s].
    """
    t_start, dt = times
    found: list[list[Array]] = [[] for _ in instances]

    def take(call: Callable[[RunningFmu], None]) -> None:
        for instance, rows in zip(instances, found, strict=True):
            call(instance)
            rows.append(instance.outputs().copy())

    for instance in instances:
        instance.initialize(t_start)
    take(RunningFmu.begin)
    for k in range(_STEPS):
        take(lambda instance, t=t_start + k * dt: instance.step(t, dt))  # type: ignore[misc]
    return [np.concatenate(rows) for rows in found]


def _other_starts(fmu: Fmu) -> Iterator[Mapping[str, Any]]:
    """Yield sets of start values that differ from the declared values, the largest set first.

    An FMU may reject some of these values, and the caller then tries the next set.
    """
    groups = fmu.inputs, fmu.parameters, fmu.states
    for n in (3, 2, 1):
        yield dict(_changed_values(port for group in groups[:n] for port in group))


def _changed_values(ports: Iterable[Port]) -> Iterator[tuple[str, Array]]:
    """Yield the name and changed start values of each numeric or Boolean port."""
    for port in ports:
        value = np.zeros(port.shape) if port.start is None else np.asarray(port.start)
        if port.type == "Boolean":
            yield port.name, 1.0 - value
        elif port.type in REAL:
            yield port.name, np.clip(1.125 * value + 0.0625, port.lowest, port.max)
        elif port.type in WHOLE and port.type != "Clock":
            yield port.name, np.clip(value + 1.0, port.lowest, port.max)


if __name__ == "__main__":
    name, kind, sizes, *numbers = sys.argv[1:]
    print(_BEGIN, flush=True)
    configuration = tuple((one, tuple(values)) for one, values in json.loads(sizes))
    result = examine(Fmu(Path(name), kind, configuration), *map(float, numbers))
    print(f"\n{_RESULT}{json.dumps(result)}", flush=True)
