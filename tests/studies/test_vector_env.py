"""Vector environments of systems: motion, resets, seeds, domain randomisation and errors."""

from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import PDController, RobotPlant, System, planar2, prepare, vector_env

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

pytestmark = pytest.mark.interop
DT, STEPS = 1e-3, 10


def controlled(q=(0.0, 0.0), q_ref=None):
    """Return the planar robot with a PD controller; its command is open."""
    system = System()
    system.add("robot", RobotPlant(planar2()), start={"q": q})
    command = {} if q_ref is None else {"q_ref": q_ref}
    system.add("pd", PDController(kp=[100.0, 100.0], kd=[10.0, 10.0]), start=command)
    for source, target in (("robot.q", "pd.q"), ("robot.qd", "pd.qd"), ("pd.tau", "robot.tau")):
        system.connect(source, target)
    return system


def distance(y, u):
    return -np.sum((y["robot.q"] - u["pd.q_ref"]) ** 2, axis=1)


def environment(n=4, **options):
    given = {
        "observe": ["robot.q", "robot.qd"],
        "act": {"pd.q_ref": (-1.0, 1.0)},
        "reward": distance,
        "start": {"robot.q": (-0.1, 0.1), "pd.kp": ([50.0, 80.0], [60.0, 200.0])},
        "steps": STEPS,
        "max_steps": 20,
    }
    return vector_env(controlled(), n, DT, **{**given, **options})


def test_environments_move_as_a_prepared_run():
    env = environment(start={"robot.q": ([0.1, -0.1], [0.1, -0.1])})
    seen, _ = env.reset(seed=1)
    assert_array_equal(seen, np.tile([0.1, -0.1, 0.0, 0.0], (4, 1)))
    rows, rewards = [], []
    for _ in range(20):
        seen, reward, terminated, truncated, _ = env.step(np.tile([0.5, -0.5], (4, 1)))
        rows.append(seen[2])
        rewards.append(reward[2])
        assert not terminated.any()
    assert truncated.all()
    expected = []
    run = prepare(controlled((0.1, -0.1), (0.0, 0.0)), DT)
    run["pd.q_ref"] = [0.5, -0.5]  # the first action; the episode has started with 0
    for _ in range(20):
        run.step(STEPS)
        expected.append(np.concatenate([run["robot.q"], run["robot.qd"]]))
    run.close()
    expected = np.array(expected)
    assert_allclose(rows, expected, atol=1e-9)
    expected_rewards = -np.sum((expected[:, :2] - [0.5, -0.5]) ** 2, axis=1)
    assert_allclose(rewards, expected_rewards, atol=1e-9)


def test_finished_episode_restarts_in_the_next_step_with_new_start_values():
    env = environment(n=8)
    env.reset(seed=0)
    action = np.zeros((8, 2))
    for _ in range(20):
        _, _, _, truncated, _ = env.step(action)
    assert truncated.all()
    seen, reward, terminated, truncated, _ = env.step(action)
    assert_array_equal(reward, 0.0)
    assert not (terminated | truncated).any()
    assert np.all(np.abs(seen[:, :2]) <= 0.1)
    assert_array_equal(seen[:, 2:], 0.0)
    assert len(np.unique(seen[:, 0])) == 8


def test_equal_seeds_give_equal_episodes():
    env = environment()
    actions = np.random.default_rng(3).uniform(-1, 1, (25, 4, 2))
    runs = [[env.reset(seed=7)[0], *(env.step(one)[0] for one in actions)] for _ in range(2)]
    assert_array_equal(*runs)
    assert not np.array_equal(env.reset(seed=8)[0], runs[0][0])


def test_terminated_environments_end_and_actions_are_limited():
    env = environment(terminated=lambda y: y["robot.q"][:, 0] > 0.3, max_steps=500)
    env.reset(seed=0)
    action = np.tile([[5.0, 0.0], [0.0, 0.0]], (2, 1))  # the limit is 1
    ended = np.zeros(4, bool)
    for _ in range(30):
        seen, _, terminated, _, _ = env.step(action)
        assert_array_equal(terminated, (seen[:, 0] > 0.3) & ~ended)
        ended |= terminated
        if ended[[0, 2]].all():
            break
    assert_array_equal(ended, [True, False, True, False])


@pytest.mark.filterwarnings("ignore:.*(spec|render|infinity|maximum|minimum|symmetric).*")
def test_environment_passes_the_checker_of_gymnasium():
    class One(gymnasium.Env):
        metadata: ClassVar = {"render_modes": []}

        def __init__(self):
            self.many = environment(1)
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

    check_env(One(), skip_render_check=True)


def test_wrong_names_and_bounds_are_rejected():
    with pytest.raises(KeyError, match=r"unknown input 'pd\.q_rf' in act.*did you mean pd\.q_ref"):
        environment(act={"pd.q_rf": (-1, 1)})
    with pytest.raises(KeyError, match=r"'robot\.qq' cannot be set"):
        environment(start={"robot.qq": (-1, 1)})
    with pytest.raises(KeyError, match=r"'robot\.energy' cannot be set"):
        environment(start={"robot.energy": (0, 1)})
    with pytest.raises(ValueError, match=r"the bounds of pd\.q_ref must be a pair of numbers or"):
        environment(act={"pd.q_ref": ([0, 0, 0], [1, 1, 1])})
    with pytest.raises(ValueError, match=r"the bounds of pd\.q_ref must be finite, the lower one"):
        environment(act={"pd.q_ref": (1, -1)})
    with pytest.raises(ValueError, match="max_steps must be at least 1, not 0"):
        environment(max_steps=0)
