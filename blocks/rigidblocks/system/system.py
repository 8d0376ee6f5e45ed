"""Systems: named blocks and FMUs, and the connections between their ports."""

from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from rigidblocks.block.adaptive import DEFAULT_METHOD, Method, longest_step, method_of
from rigidblocks.block.block import Block
from rigidblocks.block.quantities import Conversion
from rigidblocks.block.record import near
from rigidblocks.kernels.purity import ImpureBlockError
from rigidblocks.pictures import Picture, picture
from rigidblocks.system.drawing import drawn, graphviz, mermaid, summary
from rigidblocks.system.exposure import EVERYTHING, Exposure
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.part import Part, component_of, name_list, start_values
from rigidblocks.system.remote import RemoteFile
from rigidblocks.system.selection import Selection, converted
from rigidblocks.system.wiring import Connection, Wiring
from rigidblocks.tracing.trace import TraceError


class System:
    """Named blocks and FMU files, wired port to port.

        system.add("robot", RobotPlant(planar2()))
        system.add("pd", "pd.fmu")
        system.connect("robot.q", "pd.q")
        system.connect("robot.qd[1]", "scope.u[2]")

    An element of an input takes one connection; one that has none keeps its start value. The order
    of `add` does not matter.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self.connections: list[Connection] = []
        self.exposure = Exposure()

    def add(
        self,
        name: str,
        component: Block | str | Path,
        *,
        start: Mapping[str, Any] | None = None,
        method: Method | str | None = None,
        h: float | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_inner_steps: int | None = None,
        isolated: bool = False,
        time_limit: float = 60.0,
        kind: str | None = None,
        key_file: str | Path | None = None,
    ) -> None:
        """Adds a block, or an FMU by the path of its file, under a name.

        `start` replaces start values of inputs, states and parameters, by port name. `method`, by
        name or object, `h` [s], its longest inner step, and where it is adaptive `rtol`, `atol` and
        `max_inner_steps` are for blocks (`method_of`, `longest_step`). An FMU is taken as `kind`,
        "co-simulation" or "model exchange"; without one as co-simulation where its file has both.
        The equations of one in model exchange are integrated here by `method`, an explicit one,
        adaptive unless given. An FMU that is `isolated`
        runs in a process of its own, so that its crash or exit, or a call that takes longer than
        `time_limit` [s], ends the run with a message and not this process. One at an address
        "tcp://host:5555/robot.fmu" is run by the server there (`rigidblocks serve`), with the same
        limit; `key_file` has the server's key, else the file that RIGIDBLOCKS_KEY_FILE names in the
        environment. Raises ValueError for a
        name that is taken or has a dot, FmuError for an FMU file that cannot be used, TypeError for
        what is neither block nor file and for other arguments of a wrong type, KeyError for a
        method that there is not, and KeyError and ValueError for start values without a port, of
        another shape, not finite or outside the port's bounds; and for a block whose functions are
        not pure or branch on their values ImpureBlockError and TraceError.
        """
        if not isinstance(name, str):
            raise TypeError(f"a part has a name, as in add('robot', ...), not {name!r}")
        if name in self.parts or not name or "." in name:
            raise ValueError(
                f"cannot add '{name}': a name must be new, not empty and without dots; taken are: "
                f"{name_list(self.parts)}"
            )
        _check_types(name, h=1.0 if h is None else h, time_limit=time_limit)
        try:
            used, pairs = component_of(component, kind, key_file)
        except (TraceError, ImpureBlockError) as error:
            raise type(error)(f"cannot add '{name}': {error}") from error
        if isolated and isinstance(used, Block):
            raise ValueError(f"'{name}' is a block; only an FMU can be isolated")
        if isolated and isinstance(used, Fmu) and isinstance(used.path, RemoteFile):
            raise ValueError(f"'{name}' runs in a process of its server; leave isolated out")
        if not time_limit > 0:
            raise ValueError(f"the time limit of '{name}' must be positive, not {time_limit} s")
        values = start_values(name, used, {} if start is None else start)
        told = (method, rtol, atol, max_inner_steps) != (None,) * 4
        chosen = method_of(method or DEFAULT_METHOD, rtol, atol, max_inner_steps) if told else None
        longest_step(chosen or DEFAULT_METHOD, h)  # refuses one that is none
        self.parts[name] = Part(name, used, pairs, values, chosen, h, isolated, time_limit)

    def connect(self, source: str, target: str, *, conversion: Conversion | None = None) -> None:
        """Connects an output `part.port` to an input `part.port` of the same shape and dimension;
        where their units differ the values are converted.

        Either may be elements of a port: `q[1]` is one, `q[1:3]` the first three, `f_ext[2,:]` a
        row. They count from 1, as the names of elements do everywhere, and both ends of a slice
        belong to it. Of what is one number the shape does not matter: a vector of one fits a
        scalar. An input may get its elements from several sources. With a `conversion`, factor
        value + offset of each element, nothing is asked of the units; it is for what comes from or
        goes to an FMU, between blocks a Gain does it.

        Raises KeyError for a part or port that there is not, listing those there are, and
        ValueError for elements that there are not, for different shapes or dimensions, for a text
        with a number, for an element of an input that is connected already, and for a conversion
        between blocks.
        """
        for given in (source, target):
            if not isinstance(given, str):
                raise TypeError(f"connect takes names, such as 'robot.q', not {given!r}")
        (a, y), (b, u) = self._locate(source), self._locate(target)
        read, written = self.parts[a].selected_output(y), self.parts[b].selected_input(u)
        new = Connection(
            (a, read.port.name),
            (b, written.port.name),
            read.places,
            written.places,
            (source, target),
            conversion,
        )
        self._check_free(new, written)
        one_number = len(read.places) == len(written.places) == 1
        text = f"cannot connect {_with_unit(source, read)} to {_with_unit(target, written)}"
        if not (read.shape == written.shape or one_number):
            raise ValueError(text)
        if conversion is not None:
            if isinstance(self.parts[a].component, Block) and isinstance(
                self.parts[b].component, Block
            ):
                raise ValueError(f"{text} by a conversion: both are blocks; put a Gain between")
            self.connections.append(new)
            return
        try:
            converted(read.port, read.places, written.port, written.places)
        except ValueError as error:
            raise ValueError(f"{text}: {error}") from None
        self.connections.append(new)

    def insert(self, name: str, block: Block, source: str, target: str, **options: Any) -> None:
        """Puts a block with the input u and the output y into a connection, such as a `Fault`:

            system.insert("encoder", Fault(1e-3, 2, "rad", deviation=1e-4), "robot.q", "pd.q")

        What went from `source` to `target` then goes through it. `options` are those of `add`.
        Raises KeyError for a connection that there is not, and what `add` and `connect` raise; then
        all is as it was.
        """
        old = next((one for one in self.connections if one.names == (source, target)), None)
        if old is None:
            known = ", ".join(f"{a} -> {b}" for a, b in (one.names for one in self.connections))
            raise KeyError(f"there is no connection {source} -> {target}; there are: {known}")
        before = list(self.connections)
        self.add(name, block, **options)
        try:
            self.connections.remove(old)
            self.connect(source, f"{name}.u")
            self.connect(f"{name}.y", target, conversion=old.conversion)
        except BaseException:
            self.connections[:] = before
            del self.parts[name]
            raise

    def _check_free(self, new: Connection, written: Selection) -> None:
        """Raises ValueError where a connection goes to an element that has one."""
        for old in self.connections:
            if old.target != new.target or not (both := set(old.to) & set(new.to)):
                continue
            source, target = new.names
            adder = "WrenchSum" if "f_ext" in target else "Sum"
            whole = old.names[1] == target
            taken = target if whole else f"{new.target[0]}.{written.port.element_names[min(both)]}"
            raise ValueError(
                f"cannot connect {source} to {target}: {taken} is connected to {old.names[0]} "
                f"already; what adds several sources is a block, such as {adder}"
            )

    def expose(
        self, port: str | None = None, *, as_: str | None = None, hide: str | Iterable[str] = ()
    ) -> None:
        """Says what the system shows when it is made one block or FMU, and under what name.

            system.expose("sum.y", as_="torque", hide="*")

        The port, an output, open input, state or parameter `part.port`, is shown as `as_`, or under
        its own name. `hide` has patterns such as "robot.*" of what is not shown: outputs stay
        inside, inputs and parameters keep their start values. What is exposed by its name is shown
        whatever hides it; without any pattern all is shown. Runs of the system in memory are not
        concerned.

        Raises KeyError for a part or port that there is not, and ValueError for a name that is
        taken.
        """
        patterns = (hide,) if isinstance(hide, str) else tuple(hide)
        names = dict(self.exposure.names)
        if port is not None:
            part, name = self._locate(port)
            known = self.parts[part].ports
            if name not in known:
                raise KeyError(
                    f"'{part}' has no port '{name}'; it has: {name_list(known)}{near(name, known)}"
                )
            alias = port if as_ is None else as_
            others = {value for key, value in names.items() if key != port}
            taken = {f"{a}.{b}" for a in self.parts for b in self.parts[a].ports} - {port}
            if not alias or alias in others | taken:
                raise ValueError(
                    f"cannot expose {port} as '{alias}': the name must be new in the system"
                )
            names[port] = alias
        elif as_ is not None or not patterns:
            raise ValueError(
                "expose takes a port such as 'sum.y' and the name to show it as, patterns to hide, "
                "or both"
            )
        self.exposure = Exposure(names, (*self.exposure.hidden, *patterns))

    def draw(self, kind: str = "mermaid") -> Any:
        """The diagram of the system: its parts in the order of their steps, with their ports and
        units and what reads what at once, and the connections, solid where they are read at once.

        With "mermaid" it is a text that notebooks, GitHub and GitLab draw, with "graphviz" a
        `graphviz.Digraph`. Raises ValueError for another kind and for an algebraic loop, and
        ImportError without the package graphviz where that is asked for.
        """
        kinds = {"mermaid": mermaid, "graphviz": graphviz}
        if kind not in kinds:
            raise ValueError(f"a drawing is made by {' or '.join(kinds)}, not {kind!r}")
        return kinds[kind](drawn(self.wiring()))

    def __repr__(self) -> str:
        n = len(self.connections)
        return f"<System: {summary(self.parts.values()) or 'no parts'}; {n} connections>"

    def show(self, path: str | Path | None = None) -> Picture:
        """The page of the robots in the system, where they start, with a slider for each joint, as
        of `show`.
        """
        return picture(self, None, path)

    def _repr_markdown_(self) -> str | None:
        """What notebooks show: the diagram, where there is one."""
        try:
            return str(self.draw()._repr_markdown_())
        except ValueError:
            return None

    def wiring(self) -> Wiring:
        """What is wired to what now; later changes of the system have no effect on it."""
        return Wiring(self.parts, tuple(self.connections))

    def _locate(self, name: str) -> tuple[str, str]:
        part, dot, port = name.partition(".")
        if not dot and part in self.parts:
            raise KeyError(f"'{name}' is a part and no port of one; write '{name}.' and a port")
        if not dot or part not in self.parts:
            raise KeyError(
                f"no part '{part}' for '{name}'; write part.port with one of the parts: "
                f"{name_list(self.parts)}{near(part, self.parts)}"
            )
        return part, port


def _check_types(name: str, **numbers: Any) -> None:
    for what, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{what} of '{name}' must be a number, not {value!r}")


def _with_unit(name: str, chosen: Selection) -> str:
    """A port with its shape and units, for messages: `arm.q (2, rad)`."""
    units = list(dict.fromkeys(chosen.units))
    return f"{name} ({', '.join([*map(str, chosen.shape), '/'.join(units)])})".replace("(, ", "(")


def wired(system: System | Wiring) -> tuple[Wiring, Exposure]:
    """The wiring of a system and what it shows, all where it is given as a wiring."""
    if isinstance(system, Wiring):
        return system, EVERYTHING
    return system.wiring(), system.exposure
