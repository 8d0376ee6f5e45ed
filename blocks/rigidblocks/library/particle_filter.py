"""Particle filter, which represents the distribution of the states by weighted samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.external_functions import WrittenBlock, WrittenStructure
from rigidblocks.library.estimators import KalmanFilter, deviations, number_of
from rigidblocks.library.sensors import check_seed, normal_quantile, uniform_noise
from rigidblocks.spatial.spatial import Array

_MOST_ON_STACK = 2**15  # largest workspace on the stack [bytes]
_MOST_PARTICLES = 2**20
_POINT_STREAM = 2**26 - 1  # stream of the random numbers for the resampling


class _Arguments(NamedTuple):
    """Arguments of the traced functions of a particle filter.

    Attributes:
        t: Time [s].
        draw: Index of the random draw, different for each sample and particle.
        x: States of a particle, or the mean of the particles.
        u: Inputs of the plant.
        last: Inputs of the plant at the previous sample.
        fixed_parameters: Parameters of the plant that the filter does not estimate.
        noise: Process noise of the states and parameters.
    """

    t: Any
    draw: Any
    x: Array
    u: Array
    last: Array
    fixed_parameters: Array
    noise: Array


@dataclass(frozen=True, eq=False)
class ParticleFilter(WrittenBlock, KalmanFilter):
    """Particle filter for any plant, also for multimodal distributions and large deviations.

        X_i <- f(X_i, u) + sqrt(Q T) n_i
        w_i <- w_i exp(-(y - h(X_i))^2 / (2 sigma^2)) / sum
        x = sum(w_i X_i)
        P = sum(w_i (X_i - x) (X_i - x)^T)

    N particles X_i with weights w_i represent the distribution of the states. f moves a particle
    over a sample time T with the inputs u; for a continuous plant, f is one RK4 step. Q T is the
    covariance of the process noise over T, and n_i contains standard normal random numbers. sigma
    is the standard deviation of the measurement y, and h is the output function of the plant. x is
    the estimate, and P is its covariance.

    If the effective sample size 1 / sum(w_i^2) falls below the fraction `resample_below` of N,
    systematic resampling replaces the particles with N particles of equal weight. For N to
    infinity, the distribution converges to the exact distribution, with an error proportional to
    1 / sqrt(N).

    A particle with a state that is not finite loses its weight and gets the state of another
    particle. A particle whose output is not finite loses its weight if this output is measured.

    The random numbers depend only on `seed` and on the indices of the sample, the particle and the
    state. The same C function computes each sample in all forms of execution, so all forms return
    the same bits. A run of the NumPy functions therefore also needs a C compiler: it compiles this
    C function at the first use.

    The ports and the parameters are as in `ExtendedKalmanFilter`, with these differences. The
    covariance has no rows for past values of delayed outputs. The output `effective_sample_size` is
    at most N. The innovation is relative to the mean and the variance of the particles. Projected
    plants keep their constraints: the filter projects each particle and the estimate. Parameters
    with zero process noise keep their first random values, so few distinct values survive.

    Args:
        plant: Continuous block, or sampled block with the same sample time.
        measured: Names of the measured outputs.
        measurement_noise: Standard deviation of each measured output by name.
        sample_time: Sample time T [s].
        process_noise: Process noise of states and parameters by name, 0 by default.
        deviation: Standard deviation of the initial states and parameters by name, 0 by default.
        parameters_to_estimate: Names of plant parameters that are additional states.
        gate: Largest accepted innovation in standard deviations; None accepts all measurements.
        delays: Delay of measured outputs in samples, by name.
        input_hold: Inputs that a continuous plant held during the last sample time, "previous" or
            "new" as for `ExtendedKalmanFilter`.
        particles: Number N of particles, at least 2.
        seed: Integer from 0 to 2^52 - 1.
        resample_below: Fraction of N from 0 to 1; 1 resamples at every sample with measurements, 0
            never.

    Raises:
        KeyError: A name is unknown.
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid, a measured output has no noise, or the plant has both
            continuous and sampled states or runs C code.

    References:
        Arulampalam, Maskell, Gordon, Clapp, A tutorial on particle filters, IEEE Transactions on
        Signal Processing 50(2), 2002.
    """

    particles: int = 1000
    seed: int = 0
    resample_below: float = 0.5
    _calls_plant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.particles
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise TypeError(
                f"the number of particles of a particle filter must be an integer, not {count!r}"
            )
        if not 2 <= count <= _MOST_PARTICLES:
            raise ValueError(
                "the number of particles of a particle filter must be from 2 to "
                f"{_MOST_PARTICLES}, not {count}"
            )
        check_seed(self.seed)
        if not 0 <= number_of("resample_below of a particle filter", self.resample_below) <= 1:
            raise ValueError(
                f"resample_below of a particle filter must be from 0 to 1, not "
                f"{self.resample_below}"
            )

    # --- ports ---

    @cached_property
    def _estimated_size(self) -> int:
        return sum(port.size for port in self._states)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: estimates, inputs of the previous sample, weights and particles."""
        n, m = self._estimated_size, sum(port.size for port in self._measured_ports)
        sigma = np.concatenate([deviations(self, "deviation", port) for port in self._states])
        last = (replace(port, name=f"{port.name}_last", start=0.0) for port in self.plant.inputs)
        count = int(self.particles)
        return (
            *(
                replace(port, rate=None, min=None, max=None, positive=False)
                for port in self._states
            ),
            Port("covariance", (n, n), "1", "covariance of the estimates", np.diag(sigma**2)),
            Port("innovation", (m,), "1", "innovations in standard deviations", 0.0),
            Port("effective_sample_size", (), "1", "1 / sum of the squares of weights", count),
            Port("sample", (), "1", "index of the sample", 0.0),
            *last,
            Port("weights", (count,), "1", "weights of the particles", 1.0 / count),
            Port("particles", (count, self._size), "1", "states of the particles", 0.0),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Estimates of states and parameters, covariance, innovation, effective sample size."""
        names = {port.name for port in self._states}
        names |= {"covariance", "innovation", "effective_sample_size"}
        return tuple(port for port in self.sampled if port.name in names)

    # --- C function ---

    @property
    def reads_at_once(self) -> bool:
        return True

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments of the C function: the time, all inputs, and all parameters."""
        ports = (*self.inputs, *self.parameters)
        return ("t", *(port.name for port in ports))

    @property
    def function(self) -> str:
        return "particle_filter_update"

    @property
    def start_function(self) -> str:
        return "particle_filter_start"

    @property
    def headers(self) -> tuple[str, ...]:
        return ("algorithms/particle_filter.h",)

    @cached_property
    def tables(self) -> str:
        """C definitions for particle_filter.h: array sizes, options and traced functions."""
        from rigidblocks.tracing.ccode import c_functions

        places, k = {}, 0
        for port in self.sampled:
            places[port.name] = k
            k += port.size
        n, controls = self._estimated_size, sum(port.size for port in self.plant.inputs)
        m, count = sum(port.size for port in self._measured_ports), int(self.particles)
        numbers = {
            "RB_PARTICLES": count,
            "RB_PARTICLE": self._size,
            "RB_ESTIMATES": n,
            "RB_MEASURED": m,
            "RB_ESTIMATE": 0,
            "RB_COVARIANCE": places["covariance"],
            "RB_INNOVATION": places["innovation"],
            "RB_EFFECTIVE": places["effective_sample_size"],
            "RB_SAMPLE": places["sample"],
            "RB_LAST": places["sample"] + 1,
            "RB_WEIGHTS": places["weights"],
            "RB_ROWS": places["particles"],
            "RB_FILTER": k,
            "RB_CONTROLS": controls,
            "RB_PLANT_CONSTANTS": self._constant_count,
        }
        large = 8 * count * (self._size + m + 1) > _MOST_ON_STACK
        return "\n".join(
            (
                "#define RB_PARTICLES_H",
                "#include <math.h>",
                f"enum {{ {', '.join(f'{name} = {value}' for name, value in numbers.items())} }};",
                f"#define RB_GATE {'INFINITY' if self.gate is None else repr(float(self.gate))}",
                f"#define RB_RESAMPLE_BELOW {float(self.resample_below)!r}",
                f"#define RB_LARGE_SCENE {int(large)}",
                c_functions(self._graphs, [{}] * len(self._graphs)),
            )
        )

    def written_text(self) -> str:
        return f"{super().written_text()}{self._argument_text()}"

    def _argument_text(self) -> str:
        """Return the C functions with the names `start_function` and `function`.

        Each function copies its arguments into vectors and calls filter_particles.
        """
        sizes = {port.name: port.size for port in (*self.inputs, *self.parameters)}
        names = self.arguments
        given = ", ".join(f"const double *a{k}" for k in range(len(names)))
        members = {
            "in + RB_IN_CONTROLS": [port.name for port in self.plant.inputs],
            "y": [f"{port.name}_measured" for port in self._measured_ports],
            "noise": [f"{port.name}_noise" for port in self._measured_ports],
            "in + RB_IN_CONSTANTS": self._constant_names,
        }
        copies = []
        for target, ports in members.items():
            k = 0
            for name in ports:
                size = sizes[name]
                copies.append(f"memcpy({target} + {k}, a{names.index(name)}, {size} * sizeof *a0);")
                k += size
        body = "\n    ".join(copies)
        return "".join(
            f"""
static inline void {function}(const double *state, {given}, double *out)
{{
    double in[RB_IN] = {{0.0}}, y[RB_MEASURED], noise[RB_MEASURED];
    RB_WORKSPACE(RB_LARGE_SCENE, double, rows, RB_PARTICLES * RB_PARTICLE);
    RB_WORKSPACE(RB_LARGE_SCENE, double, h, RB_PARTICLES * RB_MEASURED);
    in[RB_IN_TIME] = *a0;
    {body}
    filter_particles(state, {first}, in, (struct measurement){{y, noise}}, rows, h, out);
}}
"""
            for function, first in ((self.start_function, 1), (self.function, 0))
        )

    @cached_property
    def _constant_names(self) -> list[str]:
        """Names of all parameters of the filter except the measurement noise."""
        return [port.name for port in self.parameters if port.name not in self._noises]

    @property
    def _noises(self) -> tuple[str, ...]:
        return tuple(f"{port.name}_noise" for port in self._measured_ports)

    @cached_property
    def _constant_count(self) -> int:
        sizes = {port.name: port.size for port in self.parameters}
        return sum(sizes[name] for name in self._constant_names)

    # --- traced functions ---

    @cached_property
    def _graphs(self) -> tuple[Any, ...]:
        """Graphs of the C functions, whose arguments are in the order of particle_filter.h."""
        return (
            self._trace("particle_start", self._start),
            self._trace("particle_move", self._move),
            self._trace("particle_outputs", self._outputs),
            self._trace("particle_mean", self._mean),
            self._trace("resampling_point", self._point),
        )

    def _trace(self, name: str, function: Callable[[_Arguments], Array]) -> Any:
        from rigidblocks.tracing.trace import trace

        controls = sum(port.size for port in self.plant.inputs)
        shapes = {
            "time": (),
            "draw": (),
            "x": (self._size,),
            "inputs": (controls + 1,),
            "last_inputs": (controls + 1,),
            "constants": (self._constant_count + 1,),
        }
        size = sum(port.size for port in self.plant.parameters)
        size -= sum(port.size for port in self._states if port.name in self.parameters_to_estimate)

        def flat(t: Any, draw: Any, x: Array, u: Array, last: Array, c: Array) -> Values:
            arguments = _Arguments(t, draw, x, u[:-1], last[:-1], c[:size], c[size:-1])
            return {"out": function(arguments)}

        return trace(name, flat, shapes)

    def _start(self, arguments: _Arguments) -> Array:
        """Return a random start value of a particle."""
        t, draw, x, u, fixed_parameters = *arguments[:4], arguments.fixed_parameters
        sigma = np.concatenate([deviations(self, "deviation", port) for port in self._states])
        own = x[: len(sigma)] + np.array([self._normal(draw, j, s) for j, s in enumerate(sigma)])
        if self.plant.sampled:
            after = self._model.first_states(t, own, u, fixed_parameters)
            own = np.concatenate([after, own[len(after) :]])
        own = self._project(t, own, u, fixed_parameters)
        if not self._past_ports:
            return own
        y = self._model.outputs(t, own, u, fixed_parameters)
        past = [
            np.tile(y[self._places[port.name.removesuffix("_past")]], port.shape[0])
            for port in self._past_ports
        ]
        return np.concatenate([own, *past])

    def _move(self, arguments: _Arguments) -> Array:
        """Move a particle over a sample time, and add random process noise to its states."""
        t, draw, x, u, last, fixed_parameters, noise = arguments
        T, model, own = self.sample_time, self._model, self._plant_part(x)
        held = u if self.plant.sampled or self.input_hold == "new" else last
        start = t if self.plant.sampled else t - T
        after = model.transition(start, own, held, fixed_parameters, T)
        now, k, j = np.concatenate([after, own[len(after) :]]), 0, 0
        for port in self._states:
            if port.name in self.process_noise:
                for i in range(port.size):
                    now[j + i] = now[j + i] + self._normal(draw, j + i, np.sqrt(T) * noise[k + i])
                k += port.size
            j += port.size
        now = np.concatenate([self._project(t, now, held, fixed_parameters), x[len(own) :]])
        if self._past_ports:
            now = self._shift_past_outputs(
                now, x, model.outputs(t - T, own, last, fixed_parameters)
            )
        return now

    def _outputs(self, arguments: _Arguments) -> Array:
        """Return the measured outputs (m,) of a particle, or their past values if delayed."""
        own = self._plant_part(arguments.x)
        y = self._model.outputs(arguments.t, own, arguments.u, arguments.fixed_parameters)
        return self._apply_delays(y, arguments.x)

    def _mean(self, arguments: _Arguments) -> Array:
        """Return the mean of the particles, projected onto the constraints of the plant."""
        own = self._plant_part(arguments.x)
        return self._project(arguments.t, own, arguments.u, arguments.fixed_parameters)

    def _point(self, arguments: _Arguments) -> Array:
        """Return the random number in (0, 1) for systematic resampling."""
        return np.array([uniform_noise(self.seed, arguments.draw, _POINT_STREAM)])

    def _normal(self, draw: Any, stream: int, sigma: Any) -> Any:
        """Return a normal random number with mean zero and the standard deviation `sigma`.

        `stream` is the index of the random stream, and `draw` is the index of the number in the
        stream. `draw` and `sigma` are numbers or traced values.
        """
        if isinstance(sigma, float) and sigma == 0.0:
            return 0.0
        if stream not in self._normals:
            self._normals[stream] = self._normal_graph(stream)
        (value,) = self._normals[stream].call(np.array([draw], dtype=object))
        return sigma * value

    @cached_property
    def _normals(self) -> dict[int, Any]:
        """Cached graphs of standard normal random numbers, by stream."""
        return {}

    @cached_property
    def _quantile(self) -> Any:
        """Graph of the quantile of the standard normal distribution."""
        from rigidblocks.tracing.trace import trace

        return trace("quantile", lambda u: {"n": np.array([normal_quantile(u)])}, {"u": ()})

    def _normal_graph(self, stream: int) -> Any:
        """Return the graph of a standard normal random number as a function of `draw`."""
        from rigidblocks.tracing.trace import trace

        def normal(draw: Any) -> dict[str, Array]:
            return {"n": self._quantile.call(np.array([uniform_noise(self.seed, draw, stream)]))}

        return trace("normal", normal, {"draw": ()})

    def _project(self, t: Any, own: Array, u: Array, fixed_parameters: Array) -> Array:
        if not self._model.has_projection:
            return own
        after = self._model.projection(t, own, u, fixed_parameters)
        return np.concatenate([after, own[len(after) :]])

    # --- functions ---

    def update(  # type: ignore[override]  # evaluators pass the arguments by name
        self, t: Any, x: Record, u: Record, p: Record
    ) -> Values:
        return super().update(x, Record({**vars(u), "t": t}), p)

    def initial(  # type: ignore[override]
        self, t: Any, x: Record, u: Record, p: Record
    ) -> Values:
        return super().initial(x, Record({**vars(u), "t": t}), p)

    def structure(self) -> Block:
        """Return a traceable block with the ports of the filter, only for dependency analysis.

        In the returned block, the particles and the weights are constant, which keeps the
        dependency matrix small.
        """
        return _ParticleStructure(self)


class _ParticleStructure(WrittenStructure):
    def update(self, x: Record, u: Record, p: Record) -> Values:
        outputs = {port.name for port in self.outputs}
        hidden = (port.name for port in self.sampled if port.name not in outputs)
        return {**super().update(x, u, p), **{name: getattr(x, name) for name in hidden}}
