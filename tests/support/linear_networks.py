"""Random networks of linear blocks and FMUs, with start values by dense linear algebra."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from any_models import AnyModel, Variable, any_fmu
from rigidblocks import Block, Port, System

N = 3  # number of inputs and of outputs of a part
BLOCK = "block"
FMUS = {  # version of FMI and kind
    "co-simulation 2": (2, "co-simulation"),
    "co-simulation 3": (3, "co-simulation"),
    "model exchange 2": (2, "model exchange"),
    "model exchange 3": (3, "model exchange"),
}
KINDS = (BLOCK, *FMUS)
DECLARED = ("right", "wrong", "missing")
_U, _Y, _KEPT, _RUNS, _A, _B, _HELD = 1, 4, 7, 10, 11, 20, 23  # value references


@dataclass(frozen=True, eq=False)
class LinearPart:
    """Linear part y = a u + b; `held` outputs keep their value after initialization."""

    name: str
    kind: str
    declared: str
    a: np.ndarray
    b: np.ndarray
    held: np.ndarray
    start: np.ndarray


@dataclass(frozen=True)
class LinearBlock(Block):
    """Linear part as a block."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    held: tuple[bool, ...]
    start: tuple[float, ...]
    dt: float

    @property
    def sample_time(self):
        return self.dt if any(self.held) else None

    @cached_property
    def inputs(self):
        return tuple(Port(f"u{i + 1}", start=one) for i, one in enumerate(self.start))

    @cached_property
    def outputs(self):
        return tuple(Port(f"y{j + 1}", start=0.0) for j in range(N))

    @cached_property
    def sampled(self):
        return tuple(port for port, held in zip(self.outputs, self.held, strict=True) if held)

    def _values(self, u, held):
        inputs = [getattr(u, f"u{i + 1}") for i in range(N)]
        return {
            f"y{j + 1}": sum((c * one for c, one in zip(self.a[j], inputs, strict=True)), self.b[j])
            for j in range(N)
            if self.held[j] == held
        }

    def initial(self, u):
        return self._values(u, True)

    def update(self, x):
        return {f"y{j + 1}": getattr(x, f"y{j + 1}") for j in range(N) if self.held[j]}

    def output(self, u):
        return self._values(u, False)


@dataclass(frozen=True, eq=False)
class LinearNetwork:
    """Linear parts with their connections.

    `sources` has the output (part, index) of each input of each part, or None.
    """

    parts: Sequence[LinearPart]
    sources: Sequence[Sequence[tuple[int, int] | None]]
    dt: float = 0.1
    options: dict[str, object] = field(default_factory=dict)  # options of `System.add` for FMUs

    @cached_property
    def outputs(self) -> np.ndarray:
        """Solution for all outputs (parts, N)."""
        size = N * len(self.parts)
        matrix, rest = np.eye(size), np.zeros(size)
        for p, part in enumerate(self.parts):
            for j in range(N):
                rest[N * p + j] += part.b[j]
                for i, source in enumerate(self.sources[p]):
                    if source is None:
                        rest[N * p + j] += part.a[j, i] * part.start[i]
                    else:
                        matrix[N * p + j, N * source[0] + source[1]] -= part.a[j, i]
        return np.linalg.solve(matrix, rest).reshape(-1, N)

    def system(self, folder: Path, file: str = "{}") -> System:
        """Return the parts as a system with FMUs in a folder; `file` formats the FMU's path."""
        system = System()
        for part in self.parts:
            if part.kind == BLOCK:
                rows = tuple(map(tuple, part.a.tolist()))
                given = part.b.tolist(), part.held.tolist(), part.start.tolist()
                system.add(part.name, LinearBlock(rows, *map(tuple, given), self.dt))
                continue
            version, kind = FMUS[part.kind]
            path = any_fmu(folder, _model(part), version)
            start = {f"u{i + 1}": one for i, one in enumerate(part.start)}
            start |= {f"b{j + 1}": part.b[j] for j in range(N)}
            start |= {f"held{j + 1}": float(part.held[j]) for j in range(N)}
            start |= {f"a{j + 1}{i + 1}": part.a[j, i] for j in range(N) for i in range(N)}
            name = file.format(path)
            system.add(part.name, name, kind=kind, start=start, **self.options)
        for p, part in enumerate(self.parts):
            for i, source in enumerate(self.sources[p]):
                if source is not None:
                    y = f"{self.parts[source[0]].name}.y{source[1] + 1}"
                    system.connect(y, f"{part.name}.u{i + 1}")
        return system

    def error(self, result, rows: slice = slice(None)) -> float:
        """Return the largest difference of a result from the solution."""
        return max(
            float(np.abs(result[f"{part.name}.y{j + 1}"][rows] - self.outputs[p, j]).max())
            for p, part in enumerate(self.parts)
            for j in range(N)
        )


def random_network(
    seed: int,
    n: int,
    kinds: Sequence[str] = KINDS,
    declared: Sequence[str] = DECLARED,
    *,
    loops: bool = False,
    gain: float = 1.5,
    **options: object,
) -> LinearNetwork:
    """Return a random network of n parts with cyclic connections.

    Without `loops`, no output depends on itself through other outputs.
    """
    rng = np.random.default_rng(seed)
    rank = rng.permutation(N * n).reshape(n, N)
    parts, sources = [], []
    for p in range(n):
        read = [divmod(int(rng.integers(N * n)), N) for _ in range(N)]
        own = [source if rng.random() < 0.85 else None for source in read]
        a = rng.uniform(-gain, gain, (N, N)) * (rng.random((N, N)) < 0.7)
        for i, source in enumerate(own):
            if source is not None and not loops:
                a[:, i] *= rank[source] < rank[p]
        held = rng.random(N) < 0.4 if not loops else np.zeros(N, dtype=bool)
        numbers = rng.uniform(0.5, 2.0, N), held, rng.uniform(1.0, 2.0, N)
        kind, how = str(rng.choice(kinds)), str(rng.choice(declared))
        parts.append(LinearPart(f"p{p:02}", kind, how, a, *numbers))
        sources.append(own)
    order = rng.permutation(n)
    place = {int(old): new for new, old in enumerate(order)}
    moved = [[s and (place[s[0]], s[1]) for s in sources[old]] for old in order]
    return LinearNetwork([parts[old] for old in order], moved, options=dict(options))


def _model(part: LinearPart) -> AnyModel:
    inputs = [Variable(f"u{i + 1}", _U + i, "input", start=(1.0,)) for i in range(N)]
    outputs = [Variable(f"y{j + 1}", _Y + j, "output") for j in range(N)]
    named = {f"a{j + 1}{i + 1}": _A + N * j + i for j in range(N) for i in range(N)}
    named |= {f"b{j + 1}": _B + j for j in range(N)}
    named |= {f"held{j + 1}": _HELD + j for j in range(N)}
    parameters = [
        Variable(name, k, "parameter", variability="tunable", start=(0.0,))
        for name, k in named.items()
    ]
    steps, start = _dependencies(part)
    return AnyModel(
        f"{part.name}_{part.declared}",
        [*inputs, *outputs, *parameters],
        motion=f"""
for (int j = 0; j < {N}; j++) {{
    long double y = m->v[{_B} + j][0];
    for (int i = 0; i < {N}; i++)
        y += m->v[{_A} + {N} * j + i][0] * m->v[{_U} + i][0];
    if (m->v[{_HELD} + j][0] != 0) {{
        if (m->v[{_RUNS}][0] == 0)
            m->v[{_KEPT} + j][0] = y;
        y = m->v[{_KEPT} + j][0];
    }}
    m->v[{_Y} + j][0] = y;
}}""",
        update=f"double dx[1]; rates(m, dx); m->v[{_RUNS}][0] = 1;",
        dependencies=steps,
        start_dependencies=start,
    )


def _dependencies(part: LinearPart) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return the declared dependencies of the outputs, in steps and at the start."""
    if part.declared == "missing":
        return {}, {}
    rng = np.random.default_rng(abs(int(1e6 * part.b[0])))
    steps, start = {}, {}
    for j in range(N):
        read = [_U + i for i in range(N) if part.a[j, i] != 0.0]
        if part.declared == "wrong":
            start[_Y + j] = [_U + i for i in range(N) if rng.random() < 0.3]
            read = [r for r in read if rng.random() < 0.5]
        else:
            start[_Y + j] = read
        steps[_Y + j] = [] if part.held[j] else read
    return steps, start
