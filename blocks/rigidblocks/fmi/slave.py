"""The slave class that the scripts of Python FMUs derive from."""

import ctypes
import json
import platform
import sys
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from pythonfmu.enums import Fmi2Causality, Fmi2Status, Fmi2Variability
from pythonfmu.fmi2slave import Fmi2Slave
from pythonfmu.variables import Real

import rigidblocks
from rigidblocks.block import Block, state_outputs
from rigidblocks.flat import FlatBlock
from rigidblocks.fmi.package import sources_digest
from rigidblocks.integrate import RK4, Integrator
from rigidblocks.spatial import Array
from rigidblocks.stepper import CompiledStepper, NumpyStepper, Stepper

PLATFORM = f"{platform.machine().lower()}-{sys.platform}"
KERNEL = f"kernels/{PLATFORM}/kernel.so"  # in the FMU's resources
LAYOUT = "layout.json"  # in the FMU's resources: the variables that it was built for
MOST_INNER_STEPS = 1e9  # in one step


class BlockSlave(Fmi2Slave):
    """A block as an FMI 2.0 co-simulation slave; a value reference is an index into the block's flat memory.

    A script has one class derived from this one, with an __init__ of its own that names the block. Steps run the compiled
    kernel of the FMU's resources, or NumPy where there is none for the platform; a log message says which.

    pythonfmu turns an exception into fmi2Fatal in every callback and has fmi2Discard for do_step alone. So nothing raises
    once the slave is there: what is refused (a value that is not finite, a variable that cannot be set) logs an error,
    changes nothing, and every step is discarded until it is put right. A discarded step changes nothing either.
    """

    def __init__(
        self,
        block: Block,
        *,
        method: Integrator = RK4,
        h: float = 1e-3,
        tunable: tuple[str, ...] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.flat = FlatBlock(block, tunable)
        self.names = ("time", *(name for port in self.flat.ports for name in port.element_names))
        self.stepper: Stepper = NumpyStepper(self.flat, method, h)
        # what the kernel is asked for: a step dt from t, the end of the run, the memory
        self._request = np.concatenate([[0.0, 0.0, np.inf], self.flat.start()])
        self._array = self._request[3:]
        # quicker than arrays, one element at a time
        self._call: Any = memoryview(self._request.data)
        self._memory: Any = memoryview(self._array.data)
        self._started: Array | None = None  # the memory as it will be at the start, unless something is set
        self._running = False
        self._refused: dict[int, str] = {}  # what is wrong, by the value reference that it is wrong with
        self._address = ctypes.c_void_p(self._request.ctypes.data)  # of a type that ctypes need not convert
        self._try_step: Any = None  # the kernel's step
        self._quick = False  # whether a step needs nothing but the kernel
        self._longest = MOST_INNER_STEPS * h
        self._known = frozenset(range(self.flat.size))
        self._inputs = frozenset(range(self.flat.u.start, self.flat.p.stop))  # settable at any time
        self._settable = self._start_values = self._inputs | frozenset(range(self.flat.x.start, self.flat.z.stop))
        self._register()
        if self.resources is not None and Path(self.resources, LAYOUT).exists():
            self._load(Path(self.resources))

    def _register(self) -> None:
        """Registers every variable, so that pythonfmu's value references are the indices of the memory."""
        for name, index in zip(self.names, range(self.flat.size), strict=True):
            get, put = partial(self._memory.__getitem__, index), partial(self._memory.__setitem__, index)
            causality, variability = self._kind(index)
            self.register_variable(Real(name, causality=causality, variability=variability, getter=get, setter=put))

    def _kind(self, index: int) -> tuple[Fmi2Causality, Fmi2Variability]:
        if self.flat.u.start <= index < self.flat.u.stop:
            return Fmi2Causality.input, Fmi2Variability.continuous
        if self.flat.p.start <= index < self.flat.p.stop:
            return Fmi2Causality.parameter, Fmi2Variability.tunable
        shown = (index >= self.flat.y.start) or any(
            self.flat.where[name].start <= index < self.flat.where[name].stop for name in state_outputs(self.flat.block)
        )
        sampled = self.flat.z.start <= index < self.flat.z.stop
        return (
            Fmi2Causality.output if shown else Fmi2Causality.local,
            Fmi2Variability.discrete if sampled else Fmi2Variability.continuous,
        )

    def _load(self, resources: Path) -> None:
        """Takes from the FMU what was found when it was built: its kernel, and which states have start values.

        Raises RuntimeError when the block has other variables now than then.
        """
        layout = json.loads((resources / LAYOUT).read_text())
        here = f"rigidblocks {rigidblocks.__version__}"
        if layout["variables"] != list(self.names):
            raise RuntimeError(
                f"this FMU was built with {layout['made_with']} for other variables of {self.flat.name} than {here} has: "
                "build it again, or with its rigidblocks bundled"
            )
        self._settable = self._start_values = frozenset(layout["settable"])
        if layout["made_with"] != here:
            self._say(f"built with {layout['made_with']}, running with {here}", Fmi2Status.warning)
        if (resources / "rigidblocks").is_dir() and sources_digest(resources / "rigidblocks") != sources_digest():
            self._say("runs another copy of rigidblocks, loaded before, than the one in this FMU", Fmi2Status.warning)
        self._choose_stepper(resources)

    def _choose_stepper(self, resources: Path) -> None:
        kernel = CompiledStepper(self.flat, self.stepper.method, self.stepper.h, resources / KERNEL)
        try:
            # PyDLL keeps the interpreter's lock: to hand it over takes longer than a step
            self._try_step = ctypes.PyDLL(str(kernel.path)).block_try_step
        except (OSError, AttributeError) as error:
            self._say(f"steps in NumPy: no compiled kernel for {PLATFORM} ({error})")
        else:
            self.stepper = kernel
            self._say(f"steps by its compiled kernel for {PLATFORM}")

    def setup_experiment(self, start_time: float, stop_time: float | None = None, tolerance: float | None = None) -> None:
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
        if bad := [self.names[k] for k in np.flatnonzero(~np.isfinite(self._array))[:8]]:
            self._refuse(0, f"the start failed, there is no value of {', '.join(bad)}")

    def do_step(self, current_time: float, step_size: float) -> bool:
        """Steps the memory; False, for fmi2Discard, leaves it as it was."""
        self._call[0] = current_time
        self._call[1] = step_size
        return (self._quick and self._try_step(self._address) == 0) or self._explained_step(current_time, step_size)

    def get_real(self, vrs: list[int]) -> list[float]:
        """The values; what is unknown or not computable is NaN, with a logged error."""
        if not self._known.issuperset(vrs):
            self._say(f"has no variable with the value reference {sorted({*vrs} - self._known)}", Fmi2Status.error)
            return [self.get_real([vr])[0] if vr in self._known else nan for vr in vrs]
        memory = self._memory if self._running else self._start()
        return [memory[vr] for vr in vrs]

    def set_real(self, vrs: list[int], values: list[float]) -> None:
        """Sets what can be set; the rest is refused."""
        memory = self._memory
        if self._refused or not (self._settable.issuperset(vrs) and isfinite(sum(values))):
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
        else:
            self._memory[vr] = value
            self._accept(vr)

    def _start(self) -> Array:
        """The memory at the start, computed from what has been set so far; NaN where that fails, with a logged error."""
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

    def _explained_step(self, current_time: float, step_size: float) -> bool:
        """Steps with the reason logged when it cannot be done."""
        before = self._array.copy()
        try:
            self._check_step(current_time, step_size)
            with np.errstate(all="ignore"):  # what is not finite is an error, no warning
                self.stepper.step(self._array, current_time, step_size)
        except (Exception, KeyboardInterrupt) as error:  # whatever a block raises: pythonfmu would make it fatal
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
        if not 0 < step_size < self._longest:
            raise ValueError(f"a step must be positive and less than {MOST_INNER_STEPS:g} inner steps of {self.stepper.h} s")
        rounding = 1e-6 * step_size + 4 * sys.float_info.epsilon * abs(self._memory[0])
        if not abs(current_time - self._memory[0]) <= rounding:
            raise ValueError(f"the slave is at t = {self._memory[0]!r} s")
        if current_time + step_size > self._call[2] + rounding:
            raise ValueError(f"the run ends at t = {self._call[2]!r} s")

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
        self._started = None
        self._quick = running and not self._refused and self._try_step is not None

    def _name(self, vr: int) -> str:
        return self.names[vr] if vr in self._known else f"the value reference {vr}"

    def _say(self, message: str, status: Fmi2Status = Fmi2Status.ok) -> None:
        """Logs a message; hosts take it for a format, and pythonfmu for text that can be encoded."""
        text = f"{self.flat.name} {message}".replace("%", "_")
        self.log(text.encode(errors="replace").decode(), status)

    def _get_fmu_state(self) -> dict[str, Any]:
        return {
            "variables": list(self.names),
            "memory": self._memory.tobytes().hex(),
            "end": self._call[2],
            "running": self._running,
            "refused": list(self._refused.items()),
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
        self._run(state["running"])


def _text(error: BaseException) -> str:
    known = isinstance(error, ArithmeticError | ValueError) and str(error)
    return str(error) if known else f"{type(error).__name__}: {error}"
