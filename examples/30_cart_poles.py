"""Hundreds of cart-poles in SIMD lanes as a gymnasium environment, and a policy trained on them.

`CartPoles` is a `gymnasium.vector.VectorEnv` with the cart and pole, observations, actions, rewards
and limits of CartPole-v1. The integrator controls the error of its steps, and all environments form
one batch.

The script first compares the accelerations with the accelerations of gymnasium. The cross-entropy
method (de Boer et al. 2005) then trains a linear policy to balance the pole for ten seconds. The
range of the initial states is ten times as wide as in CartPole-v1. The script writes
build/cart_poles/result.png with the learning curve and an episode of the policy.
"""

import time
from pathlib import Path
from typing import ClassVar

import gymnasium
import matplotlib as mpl
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rigidblocks import RobotPlant, aba
from rigidblocks.block.adaptive_methods import DEFAULT_METHOD
from rigidblocks.cosim.batch_simulation import Batch
from rigidblocks.robot.robots import cart_pole

mpl.use("Agg")
import matplotlib.pyplot as plt

BUILD = Path("build/cart_poles")
DT, PUSH, LONGEST = 0.02, 10.0, 500  # [s, N, steps]
MODEL = cart_pole().with_gravity((0.0, 0.0, -9.8))  # g of gymnasium's CartPole-v1 [m/s^2]
FAR = np.array([2.4, np.deg2rad(12.0)])  # [m, rad] bounds at which an episode ends
WIDE = 0.5  # half range of initial states, relative to the bounds FAR and to 1 m/s and 1 rad/s
POLICIES, EPISODES, BEST, ROUNDS = 64, 4, 8, 12


class CartPoles(VectorEnv):
    """Environments of `num_envs` carts with a pole each, pushed to the left (0) or right (1).

    An observation is [x, x', theta, theta'] in m and rad. An episode terminates when cart or pole
    exceeds its bound, and is truncated after LONGEST steps. The next step restarts the environment
    and ignores its action (`AutoresetMode.NEXT_STEP`). `wide` is the range of initial states.
    `method` and `h` [s] are the integration method and its longest step.
    """

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(self, num_envs, wide=WIDE, method=DEFAULT_METHOD, h=None):
        self.num_envs, self.spread = num_envs, wide * np.concatenate([FAR, [1.0, 1.0]])
        bound = np.array([2 * FAR[0], np.inf, 2 * FAR[1], np.inf])
        self.single_observation_space = Box(-bound, bound, dtype=np.float64)
        self.single_action_space = Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        batch = Batch(RobotPlant(MODEL), DT, record=["q", "qd"], method=method, h=h)
        self.run = batch.start({"q": np.zeros((num_envs, 2))})
        self.tau = np.zeros((num_envs, 2))
        self.steps, self.ended = np.zeros(num_envs, int), np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        """Start all environments."""
        super().reset(seed=seed, options=options)
        self._start(np.ones(self.num_envs, bool))
        self.ended = np.zeros(self.num_envs, bool)
        return self._observed(), {}

    def step(self, actions):
        """Push all carts for DT, except the carts of restarting environments."""
        anew = self.ended
        self.tau[:, 0] = (2.0 * PUSH) * np.asarray(actions) - PUSH
        self.run.set("tau", self.tau)
        self.run.step()
        self.steps += 1
        rewards = np.ones(self.num_envs)
        if anew.any():
            rewards[anew] = 0.0
            self._start(anew)
        seen = self._observed()
        x, angle = seen[:, 0], seen[:, 2]
        terminated = (np.abs(x) > FAR[0]) | (np.abs(angle) > FAR[1])  # False after a restart
        truncated = (self.steps >= LONGEST) & ~terminated
        self.ended = terminated | truncated
        return seen, rewards, terminated, truncated, {}

    def _start(self, which):
        """Set the environments `which` to initial states near upright."""
        state = self.np_random.random((np.count_nonzero(which), 4)) * 2.0 - 1.0
        state *= self.spread
        self.run.restart(which, {"q": state[:, :2], "qd": state[:, 2:]})
        self.steps[which] = 0

    def _observed(self):
        seen = np.empty((self.num_envs, 4))
        seen[:, 0::2], seen[:, 1::2] = self.run["q"], self.run["qd"]
        return seen


def off_gymnasium(rng):
    """Return the largest difference from the accelerations of gymnasium's CartPole-v1.

    The states are random. CartPole-v1 integrates by Euler's method.
    """
    other, worst = gymnasium.make("CartPole-v1").unwrapped, 0.0
    other.reset(seed=0)
    for x, v, angle, rate in rng.uniform(-0.2, 0.2, (100, 4)):
        other.reset()
        other.state = (x, v, angle, rate)
        other.step(1)
        theirs = (np.array(other.state)[[1, 3]] - [v, rate]) / other.tau
        ours = aba(MODEL, np.array([x, angle]), np.array([v, rate]), np.array([PUSH, 0.0]))
        worst = max(worst, np.abs(ours - theirs).max())
    return worst


def returns(envs, weights):
    """Return the total reward of the first episode of each environment.

    The policy pushes to the right if the weights (4,) times the observation are positive.
    """
    seen, _ = envs.reset()
    total, going = np.zeros(envs.num_envs), np.ones(envs.num_envs, bool)
    while going.any():
        seen, reward, terminated, truncated, _ = envs.step((weights * seen).sum(axis=1) > 0)
        total += reward * going
        going &= ~(terminated | truncated)
    return total


def learn(envs, rng):
    """Yield the mean weights and the mean return of each round of the cross-entropy method."""
    mean, spread = np.zeros(4), np.ones(4)
    for _ in range(ROUNDS):
        tried = mean + spread * rng.normal(size=(POLICIES, 4))
        gained = returns(envs, np.repeat(tried, EPISODES, axis=0)).reshape(POLICIES, EPISODES)
        best = tried[np.argsort(gained.mean(axis=1))[-BEST:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        yield mean, gained.mean()


def rate(envs, number):
    """Return the environment steps per second of CPU time, with random pushes."""
    envs.reset(seed=0)
    actions = envs.action_space.sample()
    envs.step(actions)
    begin = time.process_time()
    for _ in range(number):
        envs.step(actions)
    return number * envs.num_envs / (time.process_time() - begin)


def draw(means, weights):
    """Draw the mean return of each round, and an episode of the learned policy."""
    envs = CartPoles(1)
    path = [envs.reset(seed=1)[0][0]]
    for _ in range(LONGEST):
        path.append(envs.step((path[-1] @ weights > 0).reshape(1))[0][0])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    left.plot(range(1, len(means) + 1), means, "o-")
    left.set(xlabel="round", ylabel="mean return", title="learning")
    right.plot(DT * np.arange(len(path)), np.array(path)[:, [0, 2]], label=["x [m]", "theta [rad]"])
    right.set(xlabel="t [s]", title="the policy that was learned")
    right.legend()
    figure.tight_layout()
    BUILD.mkdir(parents=True, exist_ok=True)
    figure.savefig(BUILD / "result.png", dpi=120)


def main():
    """Train the policy, check and draw."""
    rng = np.random.default_rng(0)
    worst = off_gymnasium(rng)
    print(f"accelerations off those of gymnasium's CartPole-v1: {worst:.1e}")
    envs = CartPoles(POLICIES * EPISODES)
    envs.reset(seed=0)
    begin, course = time.process_time(), []
    for k, found in enumerate(learn(envs, rng), 1):
        course.append(found)
        print(f"round {k:2}: mean return {found[1]:5.1f}")
    weights = course[-1][0]
    print(f"learned in {time.process_time() - begin:.1f} s of CPU time")
    kept = (returns(envs, np.tile(weights, (envs.num_envs, 1))) == LONGEST).mean()
    print(f"the policy keeps {kept:.0%} of {envs.num_envs} new poles up for {LONGEST * DT:.0f} s")
    one_by_one = gymnasium.make_vec("CartPole-v1", envs.num_envs, vectorization_mode="sync")
    print(
        f"steps in a second of CPU time: {rate(envs, 200):,.0f}; of gymnasium's, one by one in "
        f"Python, by a step of Euler's: {rate(one_by_one, 20):,.0f}"
    )
    draw([mean for _, mean in course], weights)
    print(f"wrote {BUILD / 'result.png'}")
    if not (worst < 1e-6 and kept > 0.9):
        raise SystemExit("the policy did not learn, or learned on another system")


if __name__ == "__main__":
    main()
