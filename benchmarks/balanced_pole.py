"""Train a policy with stable-baselines3, export it as FMU, and balance a pole with it in FMPy.

    pip install stable-baselines3 onnxscript
    python benchmarks/balanced_pole.py [FOLDER]

Proximal policy optimization (Schulman et al. 2017) trains the policy in environments of
`vector_env`, with a fixed seed and at most STEPS steps. The trained network is exported with
torch.onnx.export, and the command `rigidblocks fmu` converts the file to an FMU. FMPy then
simulates this FMU with the FMU of the cart-pole. The script prints one line for each result, and
fails if a pole falls.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from rigidblocks import RobotPlant, export_fmu, vector_env
from rigidblocks.robot.robots import cart_pole

DT, FORCE = 0.02, 10.0  # [s, N]
TRACK, TILT = 2.4, 0.4  # [m, rad] bounds at which an episode ends
STEPS, SEED, N = 100_000, 0, 16
SECONDS, POLES = 20.0, 200  # duration and number of the test episodes
START = {"q": ([-0.5, -0.15], [0.5, 0.15]), "qd": (-0.3, 0.3)}


def environments(n, max_steps):
    """Return n cart-poles with the force on the cart as action."""
    return vector_env(
        RobotPlant(cart_pole()),
        n,
        DT,
        observe=["q", "qd"],
        act={"tau[1]": (-FORCE, FORCE)},
        reward=lambda seen, act: (
            1.0 - 0.1 * (seen["q"][:, 0] / TRACK) ** 2 - 0.05 * (act["tau[1]"] / FORCE).ravel() ** 2
        ),
        terminated=lambda seen: np.any(np.abs(seen["q"]) > [TRACK, TILT], axis=1),
        start=START,
        max_steps=max_steps,
    )


class StableBaselinesEnv(VecEnv):
    """Environments of gymnasium as VecEnv of stable-baselines3, with actions from -1 to 1.

    stable-baselines3 expects an ended environment to restart in the same step, and its last
    observation in the information of the step.
    """

    def __init__(self, envs):
        self.envs, space = envs, envs.single_action_space
        self.scale, self.middle = (space.high - space.low) / 2, (space.high + space.low) / 2
        unit = type(space)(-1.0, 1.0, space.shape, np.float32)
        super().__init__(envs.num_envs, envs.single_observation_space, unit)

    def reset(self):
        """Start all environments; the first call uses the seed."""
        seed, self._seeds = self._seeds[0], [None] * self.num_envs
        return self.envs.reset(seed=seed)[0]

    def step_async(self, actions):
        """Store the actions (n, size)."""
        self.actions = self.middle + self.scale * np.clip(actions, -1, 1)

    def step_wait(self):
        """Apply the stored actions, and restart the ended environments."""
        seen, reward, terminated, truncated, _ = self.envs.step(self.actions)
        done, infos = terminated | truncated, [{} for _ in range(self.num_envs)]
        for k in np.flatnonzero(done):
            infos[k] = {"terminal_observation": seen[k], "TimeLimit.truncated": truncated[k]}
        if done.any():
            seen = self.envs.reset(options={"reset_mask": done})[0]
        return seen, reward, done, infos

    def close(self):
        """Close the environments."""
        self.envs.close()

    def get_attr(self, attr_name, indices=None):
        """Return an attribute once for each environment."""
        return [getattr(self.envs, attr_name)] * len(self._get_indices(indices))

    def set_attr(self, attr_name, value, indices=None):
        """Raise an error: the environments have common attributes."""
        raise NotImplementedError(f"the environments have no own attribute '{attr_name}'")

    def env_method(self, method_name, *args, indices=None, **kwargs):
        """Raise an error: the environments have common methods."""
        raise NotImplementedError(f"the environments have no own method '{method_name}'")

    def env_is_wrapped(self, wrapper_class, indices=None):
        """Return False for each environment."""
        del wrapper_class
        return [False] * len(self._get_indices(indices))


class Policy(torch.nn.Module):
    """Mean action of a trained policy [N]: FORCE times the network's output from -1 to 1."""

    def __init__(self, trained):
        super().__init__()
        self.body, self.head = trained.mlp_extractor.policy_net, trained.action_net

    def forward(self, obs):
        """Return the forces (batch, 1) for the observations (batch, 4)."""
        return FORCE * torch.clamp(self.head(self.body(obs)), -1.0, 1.0)


def train():
    """Return the trained policy, the number of environment steps and the CPU time [s]."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the sums have one order
    environment = StableBaselinesEnv(environments(N, 500))
    options = {"n_steps": 128, "batch_size": 256, "n_epochs": 10, "learning_rate": 1e-3}
    options |= {"gamma": 0.99, "gae_lambda": 0.9}
    model = PPO("MlpPolicy", environment, seed=SEED, device="cpu", **options)
    begin = time.process_time()
    model.learn(STEPS - STEPS % (N * options["n_steps"]))
    return Policy(model.policy).eval(), model.num_timesteps, time.process_time() - begin


def standing(policy):
    """Return the fraction of POLES new poles that do not fall in SECONDS."""
    count = round(SECONDS / DT)
    envs = environments(POLES, count + 1)
    seen, _ = envs.reset(seed=SEED + 1)
    fallen = np.zeros(POLES, bool)
    for _ in range(count):
        with torch.no_grad():
            force = policy(torch.as_tensor(seen, dtype=torch.float32)).numpy()
        seen, _, terminated, _, _ = envs.step(force)
        fallen |= terminated
    return 1.0 - fallen.mean()


def export_policy(policy, folder):
    """Export the policy to policy.onnx, and to policy.fmu by the command."""
    path = folder / "policy.onnx"
    names = {"input_names": ["obs"], "output_names": ["force"]}
    torch.onnx.export(policy, (torch.zeros(1, 4),), path, external_data=False, **names)
    command = [sys.executable, "-m", "rigidblocks", "fmu", path, "--sample-time", f"{DT}"]
    subprocess.run([*command, "-o", folder / "policy.fmu"], check=True)
    return folder / "policy.fmu"


def largest_tilt(policy, plant, q0):
    """Return the largest |q| (2,) of the cart-pole's FMU with the policy's FMU in FMPy."""
    from fmpy import extract, read_model_description
    from fmpy.fmi2 import FMU2Slave

    slaves, numbers = [], []
    for path in (plant, policy):
        description = read_model_description(path)
        identifier = description.coSimulation.modelIdentifier
        slave = FMU2Slave(
            guid=description.guid,
            unzipDirectory=extract(path),
            modelIdentifier=identifier,
            instanceName=identifier,
        )
        slave.instantiate()
        slave.setupExperiment(startTime=0.0)
        slaves.append(slave)
        numbers.append({one.name: one.valueReference for one in description.modelVariables})
    (plant, policy), (of_plant, of_policy) = slaves, numbers
    state = [of_plant[f"{name}[{k}]"] for name in ("q", "qd") for k in (1, 2)]
    obs = [of_policy[f"obs[{k}]"] for k in range(1, 5)]
    force = [next(number for name, number in of_policy.items() if name.startswith("force"))]
    for slave in slaves:
        slave.enterInitializationMode()
    plant.setReal(state[:2], q0)
    policy.setReal(obs, [*q0, 0.0, 0.0])
    for slave in slaves:
        slave.exitInitializationMode()
    worst = np.abs(q0)
    for k in range(round(SECONDS / DT)):
        plant.setReal([of_plant["tau[1]"]], policy.getReal(force))
        plant.doStep(k * DT, DT)
        policy.setReal(obs, plant.getReal(state))
        policy.doStep(k * DT, DT)
        worst = np.maximum(worst, np.abs(plant.getReal(state[:2])))
    for slave in slaves:
        slave.terminate()
        slave.freeInstance()
    return worst


def main():
    """Train, export, balance, and check."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/balanced_pole").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    policy, steps, seconds = train()
    print(f"trained with {steps} steps, seed {SEED}: {seconds:.0f} s of CPU time")
    fraction = standing(policy)
    print(f"{fraction:.1%} of {POLES} poles stand for {SECONDS:g} s")
    fmu = export_policy(policy, folder)
    export_fmu(RobotPlant(cart_pole()), folder / "cart_pole.fmu")
    reached = largest_tilt(fmu, folder / "cart_pole.fmu", [0.5, 0.15])
    print(
        f"FMUs in FMPy: the cart stays within {reached[0]:.2f} m, the pole in {reached[1]:.2f} rad"
    )
    if not (steps <= STEPS and fraction == 1.0 and reached[0] < TRACK and reached[1] < TILT):
        raise SystemExit("a pole fell")


if __name__ == "__main__":
    main()
