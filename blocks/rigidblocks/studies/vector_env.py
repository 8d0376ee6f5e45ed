"""Systems as vector environments of gymnasium, for reinforcement learning."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, check_count
from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.cosim.batch_simulation import Batch
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.part import select_all, select_elements, split_name
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.results.recording import select_ports
from rigidblocks.cosim.run_options import check_names, check_numbers

Signals = Mapping[str, Array]  # arrays (n, *shape) by name
Range = tuple[Any, Any]  # lower and upper bound


@explain_calls()
def vector_env(
    system: System | Block,
    n: int,
    dt: float,
    *,
    observe: Sequence[str],
    act: Mapping[str, Range],
    reward: Callable[[Signals, Signals], Any],
    terminated: Callable[[Signals], Any] | None = None,
    start: Mapping[str, Range] | None = None,
    steps: int = 1,
    max_steps: int = 500,
    failure_reward: float = 0.0,
) -> Any:
    """Return a system as n environments of gymnasium that are simulated together in SIMD lanes.

    The result is a `gymnasium.vector.VectorEnv` with continuous actions. An observation contains
    the values of the outputs `observe`, one after another. An episode ends when `terminated`
    returns True, when the environment fails, or after `max_steps` actions. The next step restarts
    the environment, ignores the action (`AutoresetMode.NEXT_STEP`) and returns the reward 0.
    `reset(options={"reset_mask": mask})` restarts only the environments whose element of the mask
    (n,) is True. The next step then applies the actions of these environments.

    An environment fails when a value becomes infinite or NaN. The step in which it fails terminates
    the episode with the reward `failure_reward`, and sets its element of `info["failed"]` (n,) to
    True. If the other rewards are negative, choose a `failure_reward` below the lowest return of an
    episode. Otherwise a policy learns to make the simulation fail.

    Args:
        system: System of traced blocks, or a block.
        n: Number of environments.
        dt: Communication step [s].
        observe: Names of outputs.
        act: Bounds of the actions, such as {"cart.tau[1]": (-10, 10)}. The keys are names of
            unconnected inputs or of elements of these inputs.
        reward: Function of the observed outputs and of the actions, which returns the rewards (n,).
            Both arguments map names to arrays (n, *shape). Infinite and NaN outputs are replaced by
            0.
        terminated: Function of the observed outputs that returns n truth values, as an array (n,)
            of type bool.
        start: Bounds of the start values by name of a state, input or parameter. Each episode draws
            new values from a uniform distribution.
        steps: Number of communication steps for each action.
        max_steps: Largest number of actions of an episode.
        failure_reward: Reward of the step in which an environment fails.

    Raises:
        ImportError: The package gymnasium is not installed.
        KeyError: A name is unknown.
        TypeError: An argument has the wrong type.
        ValueError: A number is not positive, a part cannot be traced, or a bound has a wrong shape
            or is outside the limits of its port. `step` raises this error for actions or results of
            `reward` and `terminated` that have a wrong shape.
    """
    if not isinstance(system, System | Block):
        raise TypeError(f"vector_env needs a System or a block, not a {type(system).__name__}")
    for name, count in (("n", n), ("steps", steps), ("max_steps", max_steps)):
        check_count(name, count)
    check_numbers({"dt": dt, "failure_reward": failure_reward})
    if not np.isfinite(failure_reward):
        raise ValueError(f"failure_reward must be finite, not {failure_reward}")
    check_names({"observe": observe})
    if len(observe) == 0:
        raise ValueError("observe must contain the name of at least one output")
    _check_names_of_bounds("act", act)
    if not act:
        raise ValueError("act must contain the name of at least one input")
    _check_names_of_bounds("start", start or {})
    if not callable(reward):
        raise TypeError(f"reward must be a function, not {reward!r} of type {_type(reward)}")
    if terminated is not None and not callable(terminated):
        raise TypeError(
            f"terminated must be a function or None, not {terminated!r} of type {_type(terminated)}"
        )
    block = (
        FusedSystem(_set_start_values(system, act), dt) if isinstance(system, System) else system
    )
    seen = select_ports(block.outputs, observe)
    rules = reward, terminated, steps, max_steps, float(failure_reward)
    return _environment_class()(n, Batch(block, dt), seen, dict(act), dict(start or {}), *rules)


def _type(value: Any) -> str:
    return type(value).__name__


def _check_names_of_bounds(option: str, value: Any) -> None:
    """Raise TypeError unless the value of an option maps names to bounds."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(
            f'{option} must map names to bounds, such as {{"pd.q_ref": (-1, 1)}}, '
            f"not {value!r} of type {_type(value)}"
        )


def _set_start_values(system: System, names: Iterable[str]) -> System:
    """Return a copy of a system in which the inputs `names` have start values."""
    copied = System()
    copied.parts, copied.connections = dict(system.parts), list(system.connections)
    copied.exposure = system.exposure
    for name in names:
        part_name, _, port_name = split_name(name)[0].partition(".")
        part = system.parts.get(part_name)
        ports = () if part is None else part.component.inputs
        port = next((port for port in ports if port.name == port_name), None)
        if part is None or port is None:
            known = [
                f"{key}.{p.name}" for key, of in system.parts.items() for p in of.component.inputs
            ]
            raise KeyError(f"unknown input '{name}' in act; {suggestion(name, known)}")
        if port.start is None:
            start = {port_name: port.clip(0.0), **part.start}
            copied.parts[part_name] = replace(part, start=start)
    return copied


class _Elements:
    """Elements of a port that receive actions or random start values, with their bounds."""

    def __init__(self, batch: Batch, name: str, bounds: Range):
        port_name, index = split_name(name)
        if port_name not in batch.settable:
            known = [one for one in batch.settable if ".steps." not in one]
            raise KeyError(f"'{name}' cannot be set; {suggestion(port_name, known)}")
        self.port = batch.settable[port_name]
        chosen = select_all(self.port) if index is None else select_elements(self.port, index, name)
        self.shape, self.places = chosen.shape, np.array(chosen.places, dtype=int)
        try:
            low, high = (np.broadcast_to(np.asarray(b, float), chosen.shape) for b in bounds)
        except (TypeError, ValueError):
            raise ValueError(
                f"the bounds of {name} must be a pair of numbers or arrays of shape {chosen.shape}"
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(
                f"the bounds of {name} must be finite, not {low.tolist()} and {high.tolist()}"
            )
        if not np.all(low <= high):
            raise ValueError(
                f"the lower bound of {name} must be at most the upper bound, but the bounds are "
                f"{low.tolist()} and {high.tolist()}"
            )
        self.low, self.high = low.ravel(), high.ravel()
        lowest, highest = (
            np.ravel(np.broadcast_to(limit, self.port.shape))[self.places]
            for limit in (self.port.lowest, self.port.max)
        )
        if np.any(self.low < lowest) or np.any(self.high > highest):
            raise ValueError(
                f"the bounds of {name} must be within the limits of the port, from "
                f"{lowest.tolist()} to {highest.tolist()}, not from {self.low.tolist()} to "
                f"{self.high.tolist()}"
            )

    def insert_values(self, values: Array, new: Array) -> Array:
        """Return a copy of the values (n, *shape) of the port with new values of the elements."""
        flat = np.array(values, dtype=float).reshape(len(values), -1)
        flat[:, self.places] = new
        return flat.reshape(values.shape)


def _checked_result(name: str, result: Any, n: int, kinds: str, values: str) -> Array:
    """Return the result of the user's function `name` as an array (n,).

    `kinds` contains the letters of the allowed dtype kinds, such as "fiu". `values` is the
    noun for the elements in the ValueError for a wrong result, such as "numbers".
    """
    try:
        array = np.asarray(result)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.shape != (n,) or array.dtype.kind not in kinds:
        shown = f"{array.dtype} with shape {array.shape}"
        if array.dtype.kind == "O":
            shown = f"{result!r} of type {_type(result)}"
        raise ValueError(
            f"the function {name} must return {n} {values}, an array of shape ({n},), not {shown}"
        )
    return array


def _start_of(port: Port) -> Array:
    start = 0.0 if port.start is None else port.start
    return np.array(np.broadcast_to(np.asarray(start, float), port.shape))


@cache
def _environment_class() -> Any:
    """Return the class of the environments; its base class needs gymnasium."""
    spaces = module_of("gymnasium.spaces", "vector_env")
    vector = module_of("gymnasium.vector", "vector_env")
    batch_space = module_of("gymnasium.vector.utils", "vector_env").batch_space

    class SystemEnvironment(vector.VectorEnv):  # type: ignore[name-defined]
        """Environments of one system (see `vector_env`)."""

        def __init__(
            self,
            n: int,
            batch: Batch,
            seen: Sequence[Port],
            act: dict[str, Range],
            start: dict[str, Range],
            reward: Callable[[Signals, Signals], Any],
            terminated: Callable[[Signals], Any] | None,
            steps: int,
            max_steps: int,
            failure_reward: float,
        ):
            self.metadata = {
                "autoreset_mode": vector.AutoresetMode.NEXT_STEP,
                "render_modes": [],
            }
            self.num_envs, self._seen = n, tuple(seen)
            self._reward, self._terminated = reward, terminated
            self._steps, self._max_steps = steps, max_steps
            self._failure_reward = failure_reward
            self._acts = {name: _Elements(batch, name, bounds) for name, bounds in act.items()}
            self._starts = {name: _Elements(batch, name, bounds) for name, bounds in start.items()}
            self.single_observation_space = spaces.Box(*_bounds(self._seen), dtype=np.float64)
            bounds = [
                np.concatenate([getattr(one, side) for one in self._acts.values()])
                for side in ("low", "high")
            ]
            self.single_action_space = spaces.Box(*bounds, dtype=np.float64)
            self.observation_space = batch_space(self.single_observation_space, n)
            self.action_space = batch_space(self.single_action_space, n)
            port = next(iter(batch.settable.values()))
            self._run = batch.start(
                {port.name: np.tile(_start_of(port), (n, *[1] * len(port.shape)))}
            )
            self._ages, self._ended = np.zeros(n, int), np.zeros(n, bool)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, Any]:
            """Restart all environments, or those for which the option `reset_mask` (n,) is True."""
            super().reset(seed=seed, options=options)
            n = self.num_envs
            if unknown := set(options or {}) - {"reset_mask"}:
                raise ValueError(
                    f"reset has no option '{min(unknown)}'; the only option is 'reset_mask'"
                )
            mask = np.asarray((options or {}).get("reset_mask", np.ones(n, bool)))
            if mask.shape != (n,) or mask.dtype != bool:
                raise ValueError(
                    f"reset_mask must contain {n} truth values, an array of shape ({n},), "
                    f"not {mask.dtype} with shape {mask.shape}"
                )
            self._restart(mask)
            self._ended = self._ended & ~mask
            return self._observation(), {}

        def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
            """Apply the actions (n, size); environments whose episode has ended restart instead.

            `info["failed"]` (n,) is True for the environments that fail in this step.
            """
            anew, n = self._ended.copy(), self.num_envs
            actions = np.asarray(actions, dtype=float)
            if actions.shape != self.action_space.shape:
                raise ValueError(
                    f"the actions must have the shape {self.action_space.shape}, "
                    f"not {actions.shape}"
                )
            actions = np.clip(actions, self.action_space.low, self.action_space.high)
            applied, first = {}, 0
            for name, one in self._acts.items():
                values = actions[:, first : first + len(one.places)]
                self._run.set(one.port.name, one.insert_values(self._run[one.port.name], values))
                applied[name] = values.reshape(-1, *one.shape)
                first += len(one.places)
            for _ in range(self._steps):
                self._run.step()
            self._ages += 1
            failed = self._run.failed & ~anew
            seen = {
                port.name: np.nan_to_num(self._run[port.name], posinf=0.0, neginf=0.0)
                for port in self._seen
            }
            result = self._reward(seen, applied)
            reward = _checked_result("reward", result, n, "buif", "numbers").astype(float)
            over = failed
            if self._terminated is not None:
                result = self._terminated(seen)
                over = over | _checked_result("terminated", result, n, "b", "truth values")
            terminated = over & ~anew
            truncated = (self._ages >= self._max_steps) & ~terminated & ~anew
            self._restart(anew)
            self._ended = terminated | truncated
            reward[failed], reward[anew] = self._failure_reward, 0.0
            info = {"failed": failed, "_failed": np.ones(n, bool)}
            return self._observation(), reward, terminated, truncated, info

        def _restart(self, chosen: Array) -> None:
            """Restart the environments in the mask `chosen` (n,) with new start values."""
            count = int(chosen.sum())
            start: dict[str, Array] = {}
            if not count:
                return
            for one in self._starts.values():
                name, size = one.port.name, (count, len(one.places))
                same = np.tile(_start_of(one.port), (count, *[1] * len(one.port.shape)))
                before = start.get(name, same)
                start[name] = one.insert_values(
                    before, self.np_random.uniform(one.low, one.high, size)
                )
            self._run.restart(chosen, start)
            self._ages[chosen] = 0

        def _observation(self) -> Array:
            """Return the observed outputs (n, size), with 0 for values that are not finite."""
            rows = [self._run[port.name].reshape(self.num_envs, -1) for port in self._seen]
            found: Array = np.nan_to_num(np.concatenate(rows, axis=1), posinf=0.0, neginf=0.0)
            return found

    return SystemEnvironment


def _bounds(ports: Sequence[Port]) -> tuple[Array, Array]:
    """Return the lower and upper bounds of the concatenated values of ports."""
    low = np.concatenate([np.ravel(np.broadcast_to(port.lowest, port.shape)) for port in ports])
    high = np.concatenate([np.ravel(np.broadcast_to(port.max, port.shape)) for port in ports])
    return low, high
