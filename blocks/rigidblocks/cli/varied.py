"""What a command varies from run to run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rigidblocks.study.design import Design

SAMPLES = {"latin": "latin_hypercube", "sobol": "sobol", "uniform": "uniform"}


def designed(vary: Sequence[str], sample: str | None, runs: int | None, seed: int) -> "Design":
    """The design of texts such as `pd.kp[1]=20,40`: their grid, or a sample of so many runs from
    ranges `pd.kp[1]=20:80`.

    Raises ValueError for texts that vary nothing, or the same twice.
    """
    from rigidblocks.study import design

    names = [text.partition("=")[0] for text in vary]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"--vary {twice.pop()} is given twice; write its values with commas")
    if sample is None:
        if runs is not None:
            raise ValueError("--runs is of a --sample; a grid has one run for each combination")
        return design.grid(dict(map(_values, vary)))
    if sample not in SAMPLES:
        raise ValueError(f"--sample is one of {', '.join(SAMPLES)}, not '{sample}'")
    if runs is None:
        raise ValueError(f"--sample {sample} needs --runs, how many")
    make = getattr(design, SAMPLES[sample])
    found: Design = make(dict(map(_range, vary)), runs, seed)
    return found


def _values(text: str) -> tuple[str, list[float]]:
    """The name and the values in `pd.kp=1,2` or `pd.kp=1:4:7`, which are 7 from 1 to 4."""
    import numpy as np

    name, equals, given = text.partition("=")
    values: list[float] = []
    try:
        for part in given.split(","):
            numbers = part.split(":")
            many = (float(numbers[0]), float(numbers[1]), int(numbers[2])) if numbers[1:] else ()
            values += np.linspace(*many).tolist() if many else [float(part)]
    except (ValueError, IndexError):
        equals = ""
    if not equals or not values:
        raise ValueError(f"'{text}' varies nothing; write it as {name}=1,2 or =1:4:7")
    return name, values


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """The name and the range in `pd.kp=1:4`."""
    name, _, given = text.partition("=")
    try:
        low, high = map(float, given.split(":"))
    except ValueError:
        raise ValueError(f"'{text}' is no range; write it as {name}=1:4") from None
    return name, (low, high)
