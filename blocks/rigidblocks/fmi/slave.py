"""Base class of the FMI slaves in the scripts of Python FMUs."""

import _ctypes
import contextlib
import ctypes
import json
import platform
import sys
import weakref
from collections.abc import Iterable
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from pythonfmu.enums import Fmi2Causality, Fmi2Status, Fmi2Variability
from pythonfmu.fmi2slave import Fmi2Slave
from pythonfmu.variables import Real

from rigidblocks.block.adaptive_methods import (
    DEFAULT_METHOD,
    Method,
    longest_step,
    memory_for,
    method_of,
    needs_exact_jacobian,
)
from rigidblocks.block.block import Block, state_outputs
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import bound_text
from rigidblocks.block.stepper import CompiledStepper, NumpyStepper, Stepper
from rigidblocks.common.arrays import Array
from rigidblocks.common.package_info import __version__
from rigidblocks.fmi.archive import sources_digest
from rigidblocks.fmi.run_diagnostics import Diagnostics

PLATFORM = f"{platform.machine().lower()}-{sys.platform}"
KERNEL = f"kernels/{PLATFORM}/kernel.so"  # path of the kernel in the resources of the FMU
LAYOUT = "layout.json"  # path of the list of variables in the resources of the FMU


class BlockSlave(Fmi2Slave):
    """FMI 2.0 co-simulation slave of a block.

    A value reference is an index of the memory vector of the block. The script of an FMU defines
    one subclass, whose `__init__` selects the block. The compiled kernel in the resources of the
    FMU executes the steps. If the FMU has no kernel for the platform, NumPy code executes the
    steps. A log message reports the selected implementation.

    pythonfmu converts an exception in any callback to fmi2Fatal, and supports fmi2Discard only for
    `do_step`. An instantiated slave therefore raises no exceptions. For an invalid request, such as
    a value that is not finite, the slave logs an error and changes nothing. The slave then discards
    every step until the request is corrected. A discarded step changes nothing.
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
        self._diagnostics = Diagnostics(self.layout, self.names)
        self._allocate()
        # initial memory, or None if a value has been set since its computation
        self._started: Array | None = None
        self._running = False
        # reasons for refused values, by value reference
        self._refused: dict[int, str] = {}
        self._try_step: Any = None  # step function of the compiled kernel
        self._quick = False  # True if one kernel call does a complete step
        self._store_references()
        self._register()
        self.stepper: Stepper
        resources = None if self.resources is None else Path(self.resources)
        if resources is not None and (resources / LAYOUT).exists():
            self._load(resources)
            self._choose_stepper(resources, method, h)
        else:
            self.stepper = _numpy_stepper(self.layout, method, h)
        self._set_running(False)

    def _allocate(self) -> None:
        """Allocate the array [t, dt, end time, memory vector] of the kernel's step function."""
        self._request = np.concatenate([[0.0, 0.0, np.inf], self.layout.start()])
        self._array = self._request[3:]
        # a memoryview accesses single elements faster than an array
        self._call: Any = memoryview(self._request.data)
        self._memory: Any = memoryview(self._array.data)
        # ctypes passes this type without conversion
        self._address = ctypes.c_void_p(self._request.ctypes.data)

    def _store_references(self) -> None:
        """Store the settable value references, and the bounds of all variables.

        An importer may set the inputs and parameters at any time, and the states before a run.
        """
        layout = self.layout
        self._known = frozenset(range(layout.size))
        self._inputs = frozenset(range(layout.u.start, layout.p.stop))  # can be set at any time
        states = range(layout.x.start, layout.z.stop)
        self._start_values = self._inputs | frozenset(states)
        self._min, self._max = layout.bounds

    def _register(self) -> None:
        """Register all variables with pythonfmu in memory order.

        The value references are therefore memory indices.
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
        """Load the list of settable variables from the FMU, and check the variables of the block.

        Raises:
            RuntimeError: The variables of the block differ from the variables at build time.
        """
        layout = json.loads((resources / LAYOUT).read_text())
        here = f"rigidblocks {__version__}"
        if layout["variables"] != list(self.names):
            raise RuntimeError(
                f"this FMU was built with {layout['made_with']}, but {here} defines other "
                f"variables for {self.layout.name}; export the FMU again, or bundle rigidblocks"
            )
        self._start_values = frozenset(layout["settable"])
        if layout["made_with"] != here:
            self._log_message(
                f"built with {layout['made_with']}, running with {here}", Fmi2Status.warning
            )
        if (resources / "rigidblocks").is_dir() and sources_digest(
            resources / "rigidblocks"
        ) != sources_digest():
            self._log_message(
                "runs a previously loaded copy of rigidblocks instead of the copy in this FMU",
                Fmi2Status.warning,
            )

    def _choose_stepper(self, resources: Path, method: Method, h: float) -> None:
        kernel = CompiledStepper(self.layout, method, h, path=resources / KERNEL)
        try:
            # PyDLL does not release the GIL; releasing it takes longer than a step
            library = ctypes.PyDLL(str(kernel.path))
            weakref.finalize(self, _unload, library, kernel).atexit = False
            self._try_step = library.rb_block_try_step
        except (OSError, AttributeError) as error:
            self.stepper = _numpy_stepper(self.layout, method, h)
            self._log_message(f"steps in NumPy: no compiled kernel for {PLATFORM} ({error})")
        else:
            self.stepper = kernel
            self._log_message(f"steps by its compiled kernel for {PLATFORM}")

    def setup_experiment(
        self, start_time: float, stop_time: float | None = None, tolerance: float | None = None
    ) -> None:
        """Store the start and stop times [s], and for adaptive methods the tolerance."""
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
        """Compute the initial state from the start values and inputs."""
        self._array[:] = self._start()
        self._set_running(True)
        self._diagnostics.begin()
        self._warn(self._diagnostics.step_messages(self._memory))
        if bad := [self.names[k] for k in np.flatnonzero(~np.isfinite(self._array))[:8]]:
            self._refuse(0, f"the initialization failed: no finite value of {', '.join(bad)}")

    def do_step(self, current_time: float, step_size: float) -> bool:
        """Take a communication step from `current_time` [s] with the size `step_size` [s].

        If the step fails, restore the memory vector and return False (fmi2Discard).
        """
        self._call[0] = current_time
        self._call[1] = step_size
        taken = (self._quick and self._try_step(self._address) == 0) or self._step_or_explain(
            current_time, step_size
        )
        if self._diagnostics and taken:
            self._warn(self._diagnostics.step_messages(self._memory))
        return taken

    def terminate(self) -> None:
        """Log the diagnostics of the run (singular configurations, inner steps) as warnings."""
        self._warn(self._diagnostics.summary(self._memory))

    def _warn(self, messages: Iterable[str]) -> None:
        for message in messages:
            self._log_message(message, Fmi2Status.warning)

    def get_real(self, vrs: list[int]) -> list[float]:
        """Return the values of the variables with the value references `vrs`.

        The value of an unknown value reference is NaN, and the slave logs an error. If the
        initialization has failed, all computed values are NaN.
        """
        if not self._known.issuperset(vrs):
            self._log_message(
                f"has no variable with the value reference {sorted({*vrs} - self._known)}",
                Fmi2Status.error,
            )
            return [self.get_real([vr])[0] if vr in self._known else nan for vr in vrs]
        memory = self._memory if self._running else self._start()
        return [memory[vr] for vr in vrs]

    def set_real(self, vrs: list[int], values: list[float]) -> None:
        """Set the variables with the value references `vrs`; log an error for a rejected value."""
        memory = self._memory
        if self._refused or not (self._unbounded.issuperset(vrs) and isfinite(sum(values))):
            for vr, value in zip(vrs, values, strict=True):
                self._set(vr, value)
        else:
            for vr, value in zip(vrs, values, strict=True):
                memory[vr] = value
        self._started = None

    def set_integer(self, vrs: list[int], values: list[Any]) -> None:
        """Log an error for each integer value, because all variables are real."""
        for vr, value in zip(vrs, values, strict=True):
            self._refuse(
                vr,
                f"{self._name(vr)} does not accept {type(value).__name__} values: it is a real "
                "variable",
            )

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
        """Return the memory vector after initialization from the current start values.

        If the initialization fails, log an error and return NaN for the computed values.
        """
        if self._started is None:
            self._started = self._array.copy()
            try:
                if self._refused:
                    raise ValueError("; ".join(self._refused.values()))
                with np.errstate(all="ignore"):  # the caller reports values that are not finite
                    self.layout.set_dependent_start_values(self._started)
                    self.stepper.initialize(self._started, self._memory[0])
            except Exception as error:  # pythonfmu would turn an exception into fmi2Fatal
                self._log_message(f"cannot start: {_text(error)}", Fmi2Status.error)
                self._started[sorted(self._known - self._start_values - {0})] = nan
        return self._started

    def _step_or_explain(self, current_time: float, step_size: float) -> bool:
        """Take a communication step of `step_size` [s] from `current_time` [s].

        If the step fails, restore the memory vector, log the reason and return False.
        """
        before = self._array.copy()
        try:
            self._check_step(current_time, step_size)
            with np.errstate(all="ignore"):  # the caller reports values that are not finite
                self.stepper.step(self._array, current_time, step_size)
        except (
            Exception,
            KeyboardInterrupt,
        ) as error:  # pythonfmu would turn an exception into fmi2Fatal
            self._array[:] = before
            step = f"the step of {step_size!r} s from t = {current_time!r} s"
            self._log_message(f"discards {step}: {_text(error)}", Fmi2Status.discard)
            return False
        return True

    def _check_step(self, current_time: float, step_size: float) -> None:
        """Raise ValueError with the reason if the slave cannot execute the requested step.

        The step begins at `current_time` [s] and has the size `step_size` [s].
        """
        if self._refused:
            raise ValueError("; ".join(self._refused.values()))
        if not self._running:
            raise ValueError(
                "the instance is not initialized; call fmi2ExitInitializationMode before the first "
                "step"
            )
        end = self._call[2]
        if refusal := self.stepper.refusal(self._array, current_time, step_size, end):
            now, sample_time = self._memory[0], self.layout.block.sample_time
            raise ValueError(refusal.text(now, end, step_size, self.stepper.h, sample_time))

    def _refuse(self, vr: int, reason: str) -> None:
        self._refused[vr] = reason
        self._set_running(self._running)
        self._log_message(
            f"cannot step: {reason}; correct this before the next step", Fmi2Status.error
        )

    def _accept(self, vr: int) -> None:
        self._refused.pop(vr, None)
        self._set_running(self._running)

    def _set_running(self, running: bool) -> None:
        """Store `running`, and update the set of settable value references.

        `running` is False before the end of the initialization, and True after it.
        """
        self._running = running
        self._settable = self._inputs if running else self._start_values
        # bounds of inputs are not checked during a run, because outputs may exceed them by rounding
        bounded = np.flatnonzero(np.isfinite(self._min) | np.isfinite(self._max)).tolist()
        inputs = range(self.layout.u.start, self.layout.u.stop) if running else ()
        self._unbounded = self._settable.difference(set(bounded).difference(inputs))
        self._started = None
        self._quick = running and not self._refused and self._try_step is not None

    def _name(self, vr: int) -> str:
        return self.names[vr] if vr in self._known else f"the value reference {vr}"

    def _log_message(self, message: str, status: Fmi2Status = Fmi2Status.ok) -> None:
        """Log a message, with % replaced by _ and characters that UTF-8 cannot encode by ?."""
        text = f"{self.layout.name} {message}".replace("%", "_")
        self.log(text.encode(errors="replace").decode(), status)

    def _get_fmu_state(self) -> dict[str, Any]:
        return {
            "variables": list(self.names),
            "memory": self._memory.tobytes().hex(),
            "end": self._call[2],
            "running": self._running,
            "refused": list(self._refused.items()),
            "watch": json.dumps(self._diagnostics.state),
        }

    @staticmethod
    def _fmu_state_from_bytes(state: bytes) -> dict[str, Any]:
        try:
            read = json.loads(state)
        except ValueError:
            read = None
        return read if isinstance(read, dict) else {}  # `_set_fmu_state` refuses an empty state

    def _set_fmu_state(self, state: dict[str, Any]) -> None:
        if state.get("variables") != list(self.names):
            self._refuse(0, "the state to restore belongs to another block")
            return
        self._memory[:] = memoryview(bytes.fromhex(state["memory"])).cast("d")
        self._call[2] = state["end"]
        self._refused = dict(map(tuple, state["refused"]))
        self._diagnostics.state = json.loads(state["watch"])
        self._set_running(state["running"])


def _unload(library: ctypes.CDLL, kernel: CompiledStepper) -> None:
    """Unload the kernel library of a slave, which no other FMU uses."""
    close = getattr(_ctypes, "dlclose", None) or getattr(_ctypes, "FreeLibrary", None)
    for one in (library, vars(kernel).get("kernel")):
        if one is not None and close is not None:
            close(one._handle)


def _numpy_stepper(layout: Memory, method: Method, h: float) -> NumpyStepper:
    """Return a stepper that evaluates the block in NumPy.

    If CasADi is missing, the stepper has no exact Jacobian, and linearly implicit methods raise an
    error.
    """
    if needs_exact_jacobian(method, layout.block):
        with contextlib.suppress(ImportError):
            from rigidblocks.kernels.compiled_stepper import numpy_stepper

            return numpy_stepper(layout, method, h)
    return NumpyStepper(layout, method, h)


def _text(error: BaseException) -> str:
    known = isinstance(error, ArithmeticError | ValueError) and str(error)
    return str(error) if known else f"{type(error).__name__}: {error}"
