"""The slave class that the scripts of Python FMUs derive from."""

import contextlib
import ctypes
import json
import platform
import sys
from collections.abc import Iterable
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from pythonfmu.enums import Fmi2Causality, Fmi2Status, Fmi2Variability
from pythonfmu.fmi2slave import Fmi2Slave
from pythonfmu.variables import Real

import rigidblocks
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import (
    DEFAULT_METHOD,
    Method,
    has_exact_slopes,
    longest_step,
    memory_for,
    method_of,
)
from rigidblocks.block.block import Block, state_outputs
from rigidblocks.block.memory import Memory
from rigidblocks.block.port import bound_text
from rigidblocks.block.stepper import CompiledStepper, NumpyStepper, Stepper
from rigidblocks.fmi.package import sources_digest
from rigidblocks.fmi.watch import Watch

PLATFORM = f"{platform.machine().lower()}-{sys.platform}"
KERNEL = f"kernels/{PLATFORM}/kernel.so"  # in the FMU's resources
LAYOUT = "layout.json"  # in the FMU's resources: the variables that it was built for


class BlockSlave(Fmi2Slave):
    """A block as an FMI 2.0 co-simulation slave; a value reference is an index into the block's
    flat memory.

    A script has one class derived from this one, with an __init__ of its own that names the block.
    Steps run the compiled kernel of the FMU's resources, or NumPy where there is none for the
    platform; a log message says which.

    pythonfmu turns an exception into fmi2Fatal in every callback and has fmi2Discard for do_step
    alone. So nothing raises once the slave is there: what is refused (a value that is not finite, a
    variable that cannot be set) logs an error, changes nothing, and every step is discarded until
    it is put right. A discarded step changes nothing either.
    """

    def __init__(
        self,
        block: Block,
        *,
        method: Method | str = DEFAULT_METHOD,
        h: float | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_inner_steps: int | None = None,
        tunable: tuple[str, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        method = method_of(method, rtol, atol, max_inner_steps)
        h = longest_step(method, h)
        self.layout = memory_for(block, method, tunable)
        self.names = ("time", *(name for port in self.layout.ports for name in port.element_names))
        self._watch = Watch(self.layout, self.names)
        self._allocate()
        # the memory as it will be at the start, unless something is set
        self._started: Array | None = None
        self._running = False
        # what is wrong, by the value reference that it is wrong with
        self._refused: dict[int, str] = {}
        self._try_step: Any = None  # the kernel's step
        self._quick = False  # whether a step needs nothing but the kernel
        self._sort_references()
        self._register()
        self.stepper: Stepper
        resources = None if self.resources is None else Path(self.resources)
        if resources is not None and (resources / LAYOUT).exists():
            self._load(resources)
            self._choose_stepper(resources, method, h)
        else:
            self.stepper = _numpy_stepper(self.layout, method, h)
        self._run(False)

    def _allocate(self) -> None:
        """Makes the memory, with places before it for a step dt from t and the end of the run, as
        the kernel is asked for them.
        """
        self._request = np.concatenate([[0.0, 0.0, np.inf], self.layout.start()])
        self._array = self._request[3:]
        # quicker than arrays, one element at a time
        self._call: Any = memoryview(self._request.data)
        self._memory: Any = memoryview(self._array.data)
        # of a type that ctypes need not convert
        self._address = ctypes.c_void_p(self._request.ctypes.data)

    def _sort_references(self) -> None:
        """Finds which value references there are, which can be set when, and within what bounds."""
        layout = self.layout
        self._known = frozenset(range(layout.size))
        self._inputs = frozenset(range(layout.u.start, layout.p.stop))  # settable at any time
        states = range(layout.x.start, layout.z.stop)
        self._start_values = self._inputs | frozenset(states)
        self._min, self._max = layout.bounds

    def _register(self) -> None:
        """Registers every variable, so that pythonfmu's value references are the indices of the
        memory.
        """
        for name, index in zip(self.names, range(self.layout.size), strict=True):
            get, put = (
                partial(self._memory.__getitem__, index),
                partial(self._memory.__setitem__, index),
            )
            causality, variability = self._kind(index)
            self.register_variable(
                Real(name, causality=causality, variability=variability, getter=get, setter=put)
            )

    def _kind(self, index: int) -> tuple[Fmi2Causality, Fmi2Variability]:
        if self.layout.u.start <= index < self.layout.u.stop:
            return Fmi2Causality.input, Fmi2Variability.continuous
        if self.layout.p.start <= index < self.layout.p.stop:
            return Fmi2Causality.parameter, Fmi2Variability.tunable
        shown = (self.layout.y.start <= index < self.layout.y.stop) or any(
            self.layout.where[name].start <= index < self.layout.where[name].stop
            for name in state_outputs(self.layout.block)
        )
        sampled = any(where.start <= index < where.stop for where in (self.layout.z, self.layout.s))
        return (
            Fmi2Causality.output if shown else Fmi2Causality.local,
            Fmi2Variability.discrete if sampled else Fmi2Variability.continuous,
        )

    def _load(self, resources: Path) -> None:
        """Takes from the FMU what was found when it was built: its kernel, and which states have
        start values.

        Raises RuntimeError when the block has other variables now than then.
        """
        layout = json.loads((resources / LAYOUT).read_text())
        here = f"rigidblocks {rigidblocks.__version__}"
        if layout["variables"] != list(self.names):
            raise RuntimeError(
                f"this FMU was built with {layout['made_with']} for other variables of "
                f"{self.layout.name} than {here} has: "
                "build it again, or with its rigidblocks bundled"
            )
        self._start_values = frozenset(layout["settable"])
        if layout["made_with"] != here:
            self._say(f"built with {layout['made_with']}, running with {here}", Fmi2Status.warning)
        if (resources / "rigidblocks").is_dir() and sources_digest(
            resources / "rigidblocks"
        ) != sources_digest():
            self._say(
                "runs another copy of rigidblocks, loaded before, than the one in this FMU",
                Fmi2Status.warning,
            )

    def _choose_stepper(self, resources: Path, method: Method, h: float) -> None:
        kernel = CompiledStepper(self.layout, method, h, path=resources / KERNEL)
        try:
            # PyDLL keeps the interpreter's lock: to hand it over takes longer than a step
            self._try_step = ctypes.PyDLL(str(kernel.path)).block_try_step
        except (OSError, AttributeError) as error:
            self.stepper = _numpy_stepper(self.layout, method, h)
            self._say(f"steps in NumPy: no compiled kernel for {PLATFORM} ({error})")
        else:
            self.stepper = kernel
            self._say(f"steps by its compiled kernel for {PLATFORM}")

    def setup_experiment(
        self, start_time: float, stop_time: float | None = None, tolerance: float | None = None
    ) -> None:
        """Keeps the times [s]; steps of fixed length have no tolerance to keep."""
        del tolerance
        end = np.inf if stop_time is None else stop_time
        if self._running:
            self._refuse(0, "the experiment cannot be set up during a run")
        elif not isfinite(start_time):
            self._refuse(0, f"the start time must be finite, not {start_time} s")
        elif not end >= start_time:
            self._refuse(0, f"the stop time {end} s is before the start time {start_time} s")
        else:
            self._memory[0], self._call[2] = start_time, end
            self._accept(0)

    def exit_initialization_mode(self) -> None:
        """Makes the values computed from the start values and inputs the state at the start."""
        self._array[:] = self._start()
        self._run(True)
        self._watch.begin()
        self._warn(self._watch.after_step(self._memory))
        if bad := [self.names[k] for k in np.flatnonzero(~np.isfinite(self._array))[:8]]:
            self._refuse(0, f"the start failed, there is no value of {', '.join(bad)}")

    def do_step(self, current_time: float, step_size: float) -> bool:
        """Steps the memory; False, for fmi2Discard, leaves it as it was."""
        self._call[0] = current_time
        self._call[1] = step_size
        taken = (self._quick and self._try_step(self._address) == 0) or self._step_or_explain(
            current_time, step_size
        )
        if self._watch and taken:
            self._warn(self._watch.after_step(self._memory))
        return taken

    def terminate(self) -> None:
        """Tells the log what there is to be said of the run."""
        self._warn(self._watch.at_end(self._memory))

    def _warn(self, messages: Iterable[str]) -> None:
        for message in messages:
            self._say(message, Fmi2Status.warning)

    def get_real(self, vrs: list[int]) -> list[float]:
        """The values; what is unknown or not computable is NaN, with a logged error."""
        if not self._known.issuperset(vrs):
            self._say(
                f"has no variable with the value reference {sorted({*vrs} - self._known)}",
                Fmi2Status.error,
            )
            return [self.get_real([vr])[0] if vr in self._known else nan for vr in vrs]
        memory = self._memory if self._running else self._start()
        return [memory[vr] for vr in vrs]

    def set_real(self, vrs: list[int], values: list[float]) -> None:
        """Sets what can be set; the rest is refused."""
        memory = self._memory
        if self._refused or not (self._unbounded.issuperset(vrs) and isfinite(sum(values))):
            for vr, value in zip(vrs, values, strict=True):
                self._set(vr, value)
        else:
            for vr, value in zip(vrs, values, strict=True):
                memory[vr] = value
        self._started = None

    def set_integer(self, vrs: list[int], values: list[Any]) -> None:
        """Refuses: every variable is real."""
        for vr, value in zip(vrs, values, strict=True):
            self._refuse(vr, f"{self._name(vr)} is no {type(value).__name__} variable, it is real")

    set_boolean = set_string = set_integer

    def _set(self, vr: int, value: float) -> None:
        if vr not in self._settable:
            when = " after the start" if vr in self._start_values else ""
            self._refuse(vr, f"{self._name(vr)} cannot be set{when}")
        elif not isfinite(value):
            self._refuse(vr, f"{self._name(vr)} must be finite, not {value}")
        elif vr not in self._unbounded and not self._min[vr] <= value <= self._max[vr]:
            bound = bound_text(value, self._min[vr], self._max[vr])
            self._refuse(vr, f"{self._name(vr)} must be {bound}, not {value:g}")
        else:
            self._memory[vr] = value
            self._accept(vr)

    def _start(self) -> Array:
        """The memory at the start, computed from what has been set so far; NaN where that fails,
        with a logged error.
        """
        if self._started is None:
            self._started = self._array.copy()
            try:
                if self._refused:
                    raise ValueError("; ".join(self._refused.values()))
                with np.errstate(all="ignore"):  # what is not finite is an error, no warning
                    self.stepper.initialize(self._started, self._memory[0])
            except Exception as error:  # whatever a block raises: pythonfmu would make it fatal
                self._say(f"cannot start: {_text(error)}", Fmi2Status.error)
                self._started[sorted(self._known - self._start_values - {0})] = nan
        return self._started

    def _step_or_explain(self, current_time: float, step_size: float) -> bool:
        """Steps with the reason logged when it cannot be done."""
        before = self._array.copy()
        try:
            self._check_step(current_time, step_size)
            with np.errstate(all="ignore"):  # what is not finite is an error, no warning
                self.stepper.step(self._array, current_time, step_size)
        except (
            Exception,
            KeyboardInterrupt,
        ) as error:  # whatever a block raises: pythonfmu would make it fatal
            self._array[:] = before
            step = f"the step of {step_size!r} s from t = {current_time!r} s"
            self._say(f"discards {step}: {_text(error)}", Fmi2Status.discard)
            return False
        return True

    def _check_step(self, current_time: float, step_size: float) -> None:
        """Raises ValueError when a step cannot be tried."""
        if self._refused:
            raise ValueError("; ".join(self._refused.values()))
        if not self._running:
            raise ValueError("the initialization is not finished")
        end = self._call[2]
        if refusal := self.stepper.refusal(self._array, current_time, step_size, end):
            now, sample_time = self._memory[0], self.layout.block.sample_time
            raise ValueError(refusal.text(now, end, step_size, self.stepper.h, sample_time))

    def _refuse(self, vr: int, reason: str) -> None:
        self._refused[vr] = reason
        self._run(self._running)
        self._say(f"refuses: {reason}; no step is taken until it is put right", Fmi2Status.error)

    def _accept(self, vr: int) -> None:
        self._refused.pop(vr, None)
        self._run(self._running)

    def _run(self, running: bool) -> None:
        """Before the start or, `running`, after it."""
        self._running = running
        self._settable = self._inputs if running else self._start_values
        # inputs of a run are not asked: what drives them may be beyond their bounds by rounding
        bounded = np.flatnonzero(np.isfinite(self._min) | np.isfinite(self._max)).tolist()
        inputs = range(self.layout.u.start, self.layout.u.stop) if running else ()
        self._unbounded = self._settable.difference(set(bounded).difference(inputs))
        self._started = None
        self._quick = running and not self._refused and self._try_step is not None

    def _name(self, vr: int) -> str:
        return self.names[vr] if vr in self._known else f"the value reference {vr}"

    def _say(self, message: str, status: Fmi2Status = Fmi2Status.ok) -> None:
        """Logs a message; hosts take it for a format, and pythonfmu for text that can be
        encoded.
        """
        text = f"{self.layout.name} {message}".replace("%", "_")
        self.log(text.encode(errors="replace").decode(), status)

    def _get_fmu_state(self) -> dict[str, Any]:
        return {
            "variables": list(self.names),
            "memory": self._memory.tobytes().hex(),
            "end": self._call[2],
            "running": self._running,
            "refused": list(self._refused.items()),
            "watch": json.dumps(self._watch.state),
        }

    @staticmethod
    def _fmu_state_from_bytes(state: bytes) -> dict[str, Any]:
        try:
            read = json.loads(state)
        except ValueError:
            read = None
        return read if isinstance(read, dict) else {}  # restoring what is no state is refused

    def _set_fmu_state(self, state: dict[str, Any]) -> None:
        if state.get("variables") != list(self.names):
            self._refuse(0, "the state to restore is not of this block")
            return
        self._memory[:] = memoryview(bytes.fromhex(state["memory"])).cast("d")
        self._call[2] = state["end"]
        self._refused = dict(map(tuple, state["refused"]))
        self._watch.state = json.loads(state["watch"])
        self._run(state["running"])


def _numpy_stepper(layout: Memory, method: Method, h: float) -> NumpyStepper:
    """The stepper in NumPy; where there is no CasADi it has no exact Jacobian, and a step by a
    linearly implicit method says so.
    """
    if has_exact_slopes(method, layout.block):
        with contextlib.suppress(ImportError):
            from rigidblocks.kernels.stepper import numpy_stepper

            return numpy_stepper(layout, method, h)
    return NumpyStepper(layout, method, h)


def _text(error: BaseException) -> str:
    known = isinstance(error, ArithmeticError | ValueError) and str(error)
    return str(error) if known else f"{type(error).__name__}: {error}"
