"""Vector environments of systems: motion, resets, seeds, domain randomisation and errors."""

import re
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks import (
    Block,
    PDController,
    Port,
    RobotPlant,
    System,
    planar2,
    prepare,
    vector_env,
)

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


def test_environment_states_match_a_prepared_run():
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


def test_environments_with_equal_seeds_have_equal_episodes():
    env = environment()
    actions = np.random.default_rng(3).uniform(-1, 1, (25, 4, 2))
    runs = [[env.reset(seed=7)[0], *(env.step(one)[0] for one in actions)] for _ in range(2)]
    assert_array_equal(*runs)
    assert not np.array_equal(env.reset(seed=8)[0], runs[0][0])


def test_terminated_environments_end_their_episodes_and_actions_are_clipped():
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


def test_environment_rejects_unknown_names_and_invalid_bounds():
    with pytest.raises(KeyError, match=r"unknown input 'pd\.q_rf' in act.*did you mean pd\.q_ref"):
        environment(act={"pd.q_rf": (-1, 1)})
    with pytest.raises(KeyError, match=r"'robot\.qq' cannot be set"):
        environment(start={"robot.qq": (-1, 1)})
    with pytest.raises(KeyError, match=r"'robot\.energy' cannot be set"):
        environment(start={"robot.energy": (0, 1)})
    with pytest.raises(ValueError, match=r"the bounds of pd\.q_ref must be a pair of numbers or"):
        environment(act={"pd.q_ref": ([0, 0, 0], [1, 1, 1])})
    with pytest.raises(ValueError, match=r"the lower bound of pd\.q_ref must be at most the upper"):
        environment(act={"pd.q_ref": (1, -1)})
    with pytest.raises(ValueError, match=r"the bounds of pd\.q_ref must be finite, not .*inf"):
        environment(act={"pd.q_ref": (-1, np.inf)})
    with pytest.raises(ValueError, match="max_steps must be at least 1, not 0"):
        environment(max_steps=0)


def test_first_action_after_a_reset_takes_effect_even_if_an_episode_has_just_ended():
    env, other = environment(max_steps=3), environment(max_steps=3)
    action = np.full((4, 2), 0.5)
    env.reset(seed=0)
    for _ in range(3):
        *_, truncated, _ = env.step(action)
    assert truncated.all()
    for one in (env, other):
        one.reset(seed=1)
    for _ in range(5):
        for found, expected in zip(env.step(action)[:4], other.step(action)[:4], strict=True):
            assert_array_equal(found, expected)
    env.reset(seed=1)
    seen, reward, *_ = env.step(action)
    assert_allclose(reward, -np.sum((seen[:, :2] - 0.5) ** 2, axis=1), rtol=1e-12)
    assert np.all(reward < 0)


class Explosion(Block):
    """Growth dx/dt = x^2 + u, which becomes infinite at t = 1 / x(0)."""

    inputs = (Port("u", (), start=0.0),)
    states = (Port("x", (), start=1.0),)
    outputs = (Port("x"),)

    def derivative(self, x, u):
        return {"x": x.x**2 + u.u}


@pytest.mark.parametrize("failure_reward", [None, -50.0])
def test_failed_environment_terminates_with_the_failure_reward_and_a_flag(failure_reward):
    given = {} if failure_reward is None else {"failure_reward": failure_reward}
    env = vector_env(
        Explosion(),
        2,
        0.05,
        observe=["x"],
        act={"u": (-1.0, 1.0)},
        reward=lambda *_: np.full(2, -1.0),
        **given,
    )
    env.reset(seed=0)
    action = np.array([[0.0], [-1.0]])  # the second environment stays at x = 1
    for _ in range(100):
        seen, reward, terminated, truncated, info = env.step(action)
        assert np.isfinite(seen).all()
        assert_array_equal(info["failed"], terminated)
        assert_array_equal(info["_failed"], [True, True])
        assert not truncated.any()
        if terminated.any():
            break
        assert_array_equal(reward, -1.0)
    assert_array_equal(terminated, [True, False])
    assert_array_equal(reward, [failure_reward or 0.0, -1.0])
    _, reward, terminated, _, info = env.step(action)  # the first environment restarts
    assert_array_equal(reward, [0.0, -1.0])
    assert not terminated.any()
    assert not info["failed"].any()


def test_environment_rejects_actions_of_a_wrong_shape():
    env = environment()
    env.reset(seed=0)
    for shape in ((2, 4), (8,), (4,), (4, 1), (1, 4, 2)):
        message = rf"the actions must have the shape \(4, 2\), not {re.escape(str(shape))}"
        with pytest.raises(ValueError, match=message):
            env.step(np.zeros(shape))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("reward", np.zeros((4, 1)), r"reward must return 4 numbers.*\(4,\), not .*\(4, 1\)"),
        ("reward", 1.0, r"reward must return 4 numbers.*\(4,\), not .*\(\)"),
        ("reward", None, r"reward must return 4 numbers.*not None"),
        ("reward", ["a"] * 4, r"reward must return 4 numbers"),
        ("reward", [[1.0], [1.0, 2.0]], r"reward must return 4 numbers"),
        ("terminated", np.zeros((4, 1), bool), r"terminated must return 4 truth values.*\(4, 1\)"),
        ("terminated", np.zeros(4), r"terminated must return 4 truth values.*float64"),
        ("terminated", None, r"terminated must return 4 truth values.*not None"),
    ],
)
def test_reward_and_termination_functions_that_return_a_wrong_shape_or_type_are_rejected(
    name, value, message
):
    env = environment(**{name: lambda *_: value})
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"observe": "robot.q"}, TypeError, r"write observe=\['robot\.q'\]"),
        ({"observe": []}, ValueError, "observe must contain the name of at least one output"),
        ({"act": ["pd.q_ref"]}, TypeError, r"act must map names to bounds.*not \['pd\.q_ref'\]"),
        ({"act": {}}, ValueError, "act must contain the name of at least one input"),
        ({"act": {1: (-1, 1)}}, TypeError, "act must map names to bounds"),
        ({"start": [1.0]}, TypeError, "start must map names to bounds"),
        ({"act": {"pd.q_ref": 1.0}}, ValueError, r"the bounds of pd\.q_ref must be a pair of"),
        ({"n": 2.5}, TypeError, "n must be an integer, not 2.5"),
        ({"n": "4"}, TypeError, "n must be an integer, not '4'"),
        ({"steps": 2.0}, TypeError, "steps must be an integer, not 2.0"),
        ({"reward": 3.0}, TypeError, "reward must be a function, not 3.0"),
        ({"terminated": True}, TypeError, "terminated must be a function or None, not True"),
        ({"failure_reward": "low"}, TypeError, "failure_reward must be a number, not 'low'"),
        ({"failure_reward": np.nan}, ValueError, "failure_reward must be finite, not nan"),
        (
            {"start": {"pd.kp": (-1.0, 1.0)}},
            ValueError,
            r"the bounds of pd\.kp must be within the limits of the port, from \[0.*not from \[-1",
        ),
    ],
)
def test_error_for_a_wrong_argument_of_vector_env_identifies_the_argument(options, error, message):
    with pytest.raises(error, match=message):
        environment(**options)


def test_reset_with_a_mask_restarts_only_the_selected_environments():
    """The other environments continue; the next step applies the actions of all environments."""
    env, same = environment(max_steps=3), environment(max_steps=3)
    rng, n = np.random.default_rng(5), 4
    for each in (env, same):
        each.reset(seed=2)
    for actions in rng.uniform(-1, 1, (2, n, 2)):
        before = env.step(actions)[0]
        same.step(actions)
    mask = np.array([False, True, False, True])
    seen, _ = env.reset(options={"reset_mask": mask})
    assert_array_equal(seen[~mask], before[~mask])
    assert np.all(np.abs(seen[mask, :2]) <= 0.1)
    assert_array_equal(seen[mask, 2:], 0.0)
    actions = rng.uniform(-1, 1, (n, 2))
    seen, reward, _, truncated, _ = env.step(actions)
    expected, _, _, expected_truncated, _ = same.step(actions)
    assert_array_equal(seen[~mask], expected[~mask])
    assert_array_equal(truncated, ~mask)
    assert expected_truncated.all()
    assert np.all(reward[mask] < 0.0)  # the reward of an environment that ignores its action is 0
    env.reset(options={"reset_mask": ~mask})
    assert np.all(env.step(actions)[1] < 0.0)


@pytest.mark.parametrize("mask", [[True], [1, 0, 0, 1], np.ones((4, 1), bool)])
def test_reset_rejects_a_mask_of_another_shape_or_type(mask):
    env = environment()
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"reset_mask must contain 4 truth values"):
        env.reset(options={"reset_mask": mask})


def test_reset_rejects_an_unknown_option():
    env = environment()
    with pytest.raises(ValueError, match="no option 'mask'; the only option is 'reset_mask'"):
        env.reset(options={"mask": [True]})


def test_vector_env_rejects_a_robot_model_instead_of_a_system():
    with pytest.raises(TypeError, match="vector_env needs a System or a block, not a "):
        vector_env(planar2(), 4, DT, observe=["q"], act={"tau": (-1, 1)}, reward=distance)
