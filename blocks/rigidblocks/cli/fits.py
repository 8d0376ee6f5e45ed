"""The command that finds parameters: fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rigidblocks.cli.application import APP, Json, say
from rigidblocks.cli.given import asked_of
from rigidblocks.cli.runs import MaybeStep, Method

if TYPE_CHECKING:
    from rigidblocks.study.fit import Fit


@APP.command("fit")
def fit(
    system: Annotated[
        Path, Argument(help="A script that makes a `system`; an .ssp; or one robot.")
    ],
    data: Annotated[Path, Argument(help="The .csv of what was recorded: time, part.port, ...")],
    find: Annotated[
        list[str],
        Option(
            "--find",
            help="What is to be found: robot.payload_mass; =0.5 is where to begin; again.",
        ),
    ],
    noise: Annotated[
        list[str] | None,
        Option("--noise", help="Of what was measured, robot.q=1e-3; of all or of none; again."),
    ] = None,
    dt: MaybeStep = None,
    level: Annotated[float, Option(help="The probability of the intervals.")] = 0.95,
    method: Method = None,
    as_json: Json = False,
) -> None:
    """Find the parameters with which a system does what was recorded."""
    from rigidblocks.study.fit import fit as fitted

    wanted = dict(_given(text, "--find") for text in _once(find, "--find"))
    sigma = dict(_given(text, "--noise") for text in _once(noise or [], "--noise"))
    if missing := [name for name, value in sigma.items() if value is None]:
        raise ValueError(f"--noise {missing[0]} says no number; write it as {missing[0]}=1e-3")
    if not data.is_file():
        raise FileNotFoundError(f"there is no file '{data}' of recorded motion")
    wired, told = asked_of(system, dt=dt)
    how: dict[str, Any] = {"dt": told.get("dt"), "level": level, "method": method}
    found = fitted(wired, wanted, data, noise=sigma or None, **how)
    say(_summary(found), _values(found), as_json)


def _once(texts: Sequence[str], option: str) -> Sequence[str]:
    names = [text.partition("=")[0] for text in texts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{option} {twice.pop()} is given twice")
    return texts


def _given(text: str, option: str) -> tuple[str, Any]:
    """The name in `robot.q=1,2` and its numbers; None without any."""
    name, equals, numbers = text.partition("=")
    try:
        values = [float(one) for one in numbers.split(",")] if equals else None
    except ValueError:
        raise ValueError(
            f"{option} '{text}' has no numbers; write it as {name}=1 or {name}=1,2"
        ) from None
    return name, values


def _summary(found: "Fit") -> str:
    how = "exact derivatives" if found.exact else "difference quotients"
    lines = [f"{found.runs} runs, {how}; intervals of {found.level:.0%}"]
    for name, value in found.values.items():
        low, high = found.intervals[name]
        bound = ", at its bound" if name in found.at_bound else ""
        lines.append(f"  {name:32} {value:14.6g}  from {low:.6g} to {high:.6g}{bound}")
    lines += [f"  noise of {name:23} {value:14.6g}" for name, value in found.noise.items()]
    return "\n".join(lines)


def _values(found: "Fit") -> dict[str, Any]:
    """What is said of a fit as JSON."""
    return {
        "values": dict(found.values),
        "deviations": dict(found.deviations),
        "intervals": dict(found.intervals),
        "level": found.level,
        "noise": dict(found.noise),
        "at_bound": list(found.at_bound),
        "correlation": found.correlation.tolist(),
        "exact": found.exact,
        "runs": found.runs,
    }
