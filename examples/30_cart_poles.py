"""Hundreds of cart-poles in lanes as an environment of gymnasium, and a policy that learns on them.

`CartPoles` is a `gymnasium.vector.VectorEnv`: the cart and pole of gymnasium's own CartPole-v1,
with its observations, actions, rewards and limits, as a robot whose steps know their error, all
environments in one batch. Checked first is that accelerations are those of gymnasium's. A linear
policy then learns by cross-entropy (de Boer et al. 2005) to keep the pole up for ten seconds, from
starts ten times wider than those of CartPole-v1. Writes build/cart_poles/result.png, how it learned
and what it does.
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

from rigidblocks import Batch, Model, Prismatic, Revolute, RobotPlant, aba
from rigidblocks.algebra.spatial import mcI, xlt

mpl.use("Agg")
import matplotlib.pyplot as plt

BUILD = Path("build/cart_poles")
DT, PUSH, LONGEST = 0.02, 10.0, 500  # [s, N, steps]
FAR = np.array([2.4, np.deg2rad(12.0)])  # [m, rad] where an episode ends
WIDE = 0.5  # of the limits and of 1 m/s and 1 rad/s: where episodes start
POLICIES, EPISODES, BEST, ROUNDS = 64, 4, 8, 12


def cart_pole():
    """A cart of 1 kg along x, and on it a thin pole of 0.1 kg and 1 m that stands up at q = 0."""
    pole = mcI(0.1, [0.0, 0.0, 0.5], np.diag([0.1 / 12, 0.1 / 12, 0.0]))
    return Model(
        name="cart_pole",
        parent=(-1, 0),
        joint=(Prismatic(axis=(1, 0, 0)), Revolute(axis=(0, 1, 0))),
        Xtree=(xlt([0.0, 0.0, 0.0]),) * 2,
        inertia=(mcI(1.0, np.zeros(3), np.zeros((3, 3))), pole),
        gravity=(0.0, 0.0, -9.8),
    )


class CartPoles(VectorEnv):
    """`num_envs` carts with a pole each, which are pushed to the left (0) or to the right (1).

    An observation is [x, x', theta, theta'] in m and rad. An episode ends where the cart or the
    pole is too far, and is cut after LONGEST steps; the environment starts anew with the next step,
    whose action has no effect (`AutoresetMode.NEXT_STEP`). `wide` is how far starts are spread.
    """

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(self, num_envs, wide=WIDE):
        self.num_envs, self.wide = num_envs, wide
        bound = np.array([2 * FAR[0], np.inf, 2 * FAR[1], np.inf])
        self.single_observation_space = Box(-bound, bound, dtype=np.float64)
        self.single_action_space = Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.batch = Batch(RobotPlant(cart_pole()), DT, record=["q", "qd"])
        self.q, self.qd = np.zeros((2, num_envs, 2))
        self.steps, self.ended = np.zeros(num_envs, int), np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        """Starts all environments."""
        super().reset(seed=seed, options=options)
        self._start(np.ones(self.num_envs, bool))
        return self._observed(), {}

    def step(self, actions):
        """Pushes all carts for DT, but those that start anew."""
        anew = self.ended.copy()
        tau = np.zeros((self.num_envs, 2))
        tau[:, 0] = np.where(np.asarray(actions) == 1, PUSH, -PUSH)
        run = self.batch.simulate(DT, {"q": self.q, "qd": self.qd, "tau": tau})
        self.q, self.qd = run["q"][:, -1].copy(), run["qd"][:, -1].copy()
        self.steps += 1
        self._start(anew)
        terminated = (np.abs(self.q) > FAR).any(axis=1) & ~anew
        truncated = (self.steps >= LONGEST) & ~terminated
        self.ended = terminated | truncated
        return self._observed(), np.where(anew, 0.0, 1.0), terminated, truncated, {}

    def _start(self, which):
        """Puts these environments at the start of an episode, near upright."""
        spread = self.wide * np.concatenate([FAR, [1.0, 1.0]])
        state = self.np_random.uniform(-spread, spread, (self.num_envs, 4))
        self.q = np.where(which[:, None], state[:, :2], self.q)
        self.qd = np.where(which[:, None], state[:, 2:], self.qd)
        self.steps[which] = 0
        self.ended[which] = False

    def _observed(self):
        return np.stack([self.q[:, 0], self.qd[:, 0], self.q[:, 1], self.qd[:, 1]], axis=1)


def off_gymnasium(rng):
    """The largest difference to the accelerations of gymnasium's own CartPole-v1, which takes steps
    of Euler's, over random states.
    """
    other, worst = gymnasium.make("CartPole-v1").unwrapped, 0.0
    other.reset(seed=0)
    for x, v, angle, rate in rng.uniform(-0.2, 0.2, (100, 4)):
        other.reset()
        other.state = (x, v, angle, rate)
        other.step(1)
        theirs = (np.array(other.state)[[1, 3]] - [v, rate]) / other.tau
        ours = aba(cart_pole(), np.array([x, angle]), np.array([v, rate]), np.array([PUSH, 0.0]))
        worst = max(worst, np.abs(ours - theirs).max())
    return worst


def returns(envs, weights):
    """The reward of a first episode of each environment, pushed to the right where its weights (4,)
    times the observation are positive.
    """
    seen, _ = envs.reset()
    total, going = np.zeros(envs.num_envs), np.ones(envs.num_envs, bool)
    while going.any():
        seen, reward, terminated, truncated, _ = envs.step((weights * seen).sum(axis=1) > 0)
        total += reward * going
        going &= ~(terminated | truncated)
    return total


def learn(envs, rng):
    """The mean weights after each round of cross-entropy, and the mean return in it."""
    mean, spread = np.zeros(4), np.ones(4)
    for _ in range(ROUNDS):
        tried = mean + spread * rng.normal(size=(POLICIES, 4))
        gained = returns(envs, np.repeat(tried, EPISODES, axis=0)).reshape(POLICIES, EPISODES)
        best = tried[np.argsort(gained.mean(axis=1))[-BEST:]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        yield mean, gained.mean()


def rate(envs, number):
    """Steps of one environment in a second of CPU time, by random pushes."""
    envs.reset(seed=0)
    actions = envs.action_space.sample()
    envs.step(actions)
    begin = time.process_time()
    for _ in range(number):
        envs.step(actions)
    return number * envs.num_envs / (time.process_time() - begin)


def draw(means, weights):
    """The picture: the mean return of each round, and an episode of the policy that was learned."""
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
    """Learns, checks and draws."""
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
