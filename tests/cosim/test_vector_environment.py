"""The environment of the example follows the rules of gymnasium for spaces, seeds and resets.

Its motion converges to gymnasium's cart-pole.
"""

from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from scripts import script

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.wrappers.vector import RecordEpisodeStatistics  # noqa: E402

pytestmark = pytest.mark.interop
EXAMPLE = "examples/30_cart_poles.py"


@pytest.fixture(scope="module")
def example():
    return script(EXAMPLE)


def separate_environment(example):
    """Return the vector environment of one cart as a single gymnasium environment."""

    class CartPole(gymnasium.Env):
        metadata: ClassVar = {"render_modes": []}

        def __init__(self):
            self.many = example.CartPoles(1)
            self.observation_space = self.many.single_observation_space
            self.action_space = self.many.single_action_space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            if seed is not None:
                self.many._np_random = self.np_random
            return self.many.reset(options=options)[0][0], {}

        def step(self, action):
            seen, reward, terminated, truncated, _ = self.many.step(np.array([action]))
            return seen[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    return CartPole()


@pytest.mark.filterwarnings("ignore:.*(spec|render|infinity|maximum|minimum).*")
def test_cart_pole_environment_passes_the_checker_of_gymnasium(example):
    check_env(separate_environment(example), skip_render_check=True)


def test_environment_observations_depend_on_the_seed_and_stay_in_the_observation_space(example):
    envs = example.CartPoles(7)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    first, info = envs.reset(seed=3)
    assert info == {}
    actions = [envs.action_space.sample() for _ in range(30)]
    runs = [[envs.reset(seed=3)[0], *(envs.step(one)[0] for one in actions)] for _ in range(2)]
    assert_array_equal(runs[0][0], first)
    assert_array_equal(*runs)
    assert not np.array_equal(envs.reset(seed=4)[0], first)
    for seen in runs[0]:
        assert envs.observation_space.contains(seen)


def test_finished_episode_of_the_environment_restarts_in_the_next_step(example):
    envs = example.CartPoles(16)
    envs.reset(seed=0)
    bounds = example.WIDE * np.array([example.FAR[0], 1.0, example.FAR[1], 1.0])
    ended, started = np.zeros(16, bool), 0
    for _ in range(200):
        seen, reward, terminated, truncated, _ = envs.step(np.ones(16, int))
        assert_array_equal(reward, np.where(ended, 0.0, 1.0))
        assert (np.abs(seen[ended]) <= bounds).all()
        assert not (terminated | truncated)[ended].any()
        started += ended.sum()
        ended = terminated | truncated
    assert started > 100


def test_episode_lengths_agree_with_the_autoreset_of_gymnasium(example):
    def lengths(envs):
        counted = RecordEpisodeStatistics(envs, buffer_length=500)
        counted.reset(seed=0)
        for _ in range(300):
            counted.step(np.zeros(envs.num_envs, int))
        return np.array(counted.length_queue)

    ours = lengths(example.CartPoles(8))
    mode = AutoresetMode.NEXT_STEP
    theirs = lengths(
        SyncVectorEnv([lambda: separate_environment(example)] * 8, autoreset_mode=mode)
    )
    assert len(ours) > 50
    assert_allclose(ours.mean(), theirs.mean(), rtol=0.2)
    assert ours.max() < 60
    assert theirs.max() < 60


def test_motion_of_the_cart_pole_environment_converges_to_the_motion_in_gymnasium(example, rng):
    assert example.off_gymnasium(rng) < 1e-12
    envs = example.CartPoles(5)
    seen, _ = envs.reset(seed=1)
    other = gymnasium.make("CartPole-v1").unwrapped
    other.tau = 1e-5  # Euler step of gymnasium
    after, *_ = envs.step(np.array([0, 1, 1, 0, 1]))
    for k, action in enumerate([0, 1, 1, 0, 1]):
        other.reset(seed=0)
        other.state = tuple(seen[k])
        for _ in range(round(example.DT / other.tau)):
            other.step(action)
            other.steps_beyond_terminated = None
        assert_allclose(after[k], other.state, atol=1e-5)
