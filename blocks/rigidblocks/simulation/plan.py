"""What a run needs that no number decides: who steps whom, and the compiled code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from rigidblocks.block.adaptive import memory_for
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.stepper import CompiledStepper, Stepper
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper, traced_stepper
from rigidblocks.simulation.coupling import Coupling
from rigidblocks.simulation.links import Links
from rigidblocks.simulation.provenance import provenance
from rigidblocks.system.fmu import FmuError
from rigidblocks.system.fused import JACOBI, FusedSystem
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Wiring

FORMS = ("compiled", "numpy", "fused", "traced")


@dataclass(frozen=True, eq=False)
class Plan:
    """A wiring that steps by `dt` [s] from `t_start` [s] on, in an order and a form, up to events
    where there are any. What is compiled for it is shared by all that start with other values.
    """

    wiring: Wiring
    t_start: float
    dt: float
    order: str
    form: str
    events: tuple[str, ...] = ()
    coupling: Coupling = field(default_factory=Coupling)

    @property
    def is_simultaneous(self) -> bool:
        """Whether all parts read what the others were before any of them steps."""
        return self.order == JACOBI

    @property
    def stepping_order(self) -> tuple[str, ...]:
        """The parts in the order of their steps; where algebraic loops are solved, each group of
        those that read each other behind those that it reads.
        """
        if self.coupling.solves:
            return tuple(name for group in self.links.groups for name in group)
        return self.wiring.stepping_order

    @cached_property
    def links(self) -> Links:
        """What the inputs of all parts read."""
        return Links(self.wiring)

    @cached_property
    def steppers(self) -> Mapping[str, Stepper]:
        """The stepper of each block, by the names of the parts."""
        return {
            name: of_part(name, partial(self._stepper, part))
            for name, part in self.wiring.parts.items()
            if isinstance(part.component, Block)
        }

    @cached_property
    def fused(self) -> CompiledStepper:
        """The stepper of the system as one block."""
        fused = FusedSystem(self.wiring, self.dt, self.order)
        return compiled_stepper(Memory(fused), h=self.dt)

    @cached_property
    def meta(self) -> dict[str, str]:
        """What the record of a run says of how it came about."""
        return {
            "order": self.order,
            "dt": repr(self.dt),
            "form": self.form,
            **(
                {"transparent": "; ".join(sorted(self.wiring.merged))} if self.wiring.merged else {}
            ),
            **{key: str(value) for key, value in vars(self.coupling).items() if value},
            **provenance(self.wiring),
        }

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """What `find` finds, the first time; it must depend on the plan alone."""
        if name not in self._found:
            self._found[name] = find()
        return self._found[name]

    @cached_property
    def _found(self) -> dict[str, Any]:
        return {}

    def compile(self) -> None:
        """Makes all that is to be compiled."""
        _ = self.fused if self.form == "fused" else self.steppers

    def started(self, wiring: Wiring) -> "Plan":
        """The same with a wiring that differs in its start values alone."""
        plan = replace(self, wiring=wiring)
        for name in ("steppers", "fused", "links"):
            if name in vars(self):
                vars(plan)[name] = vars(self)[name]
        return plan

    def _stepper(self, part: Part) -> Stepper:
        assert isinstance(part.component, Block)
        method, h = part.stepping
        called_back = self.form == "numpy" or isinstance(part.component, PythonBlock)
        memory = memory_for(part.component, method)
        if called_back:
            return numpy_stepper(memory, method, h)
        if self.form == "traced":
            return traced_stepper(memory, method, h)
        return compiled_stepper(memory, method, h, follows=self.coupling.follows)


def of_part(name: str, make: Callable[[], Any]) -> Any:
    """What `make` makes for a part; its errors name the part."""
    try:
        return make()
    except BaseException as error:
        if not isinstance(error, FmuError):  # which names it
            error.add_note(f"while the part '{name}' was made ready to run")
        raise
