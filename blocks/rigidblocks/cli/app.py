"""Command-line application: options that commands share, and the output of results.

Each command imports its modules when it runs, so `rigidblocks --help` starts without delay.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rigidblocks.common.package_info import __version__

if TYPE_CHECKING:
    from rigidblocks.cosim.results.result import Result

# commands by the names of similar commands of other tools
_SIMILAR_COMMANDS = {
    "simulate sim execute": "run",
    "export build_fmu export-fmu build-fmu": "fmu",
    "validate verify test": "check",
    "show animate display": "view",
    "describe inspect read": "info",
    "build real-time realtime hil compile": "runner",
    "help ls list commands": "--help",
    "init create": "new",
}


class HintedGroup(TyperGroup):
    """Command group that suggests a similar command if a command name is unknown."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the arguments of a command line."""
        similar = (to for names, to in _SIMILAR_COMMANDS.items() if args[0] in names.split())
        if args[0] not in self.commands and (found := next(similar, None)) is not None:
            ctx.fail(f"No such command '{args[0]}'; write rigidblocks {found}")
        return super().resolve_command(ctx, args)


APP = typer.Typer(
    cls=HintedGroup,
    help="Robot-dynamics blocks for co-simulation: robots and blocks as FMUs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Floating = Annotated[bool, typer.Option("--floating", help="Use a floating base.")]
Key = Annotated[
    str | None, typer.Option("--key", help="Keyframe that defines the start configuration.")
]
Robot = Annotated[Path, typer.Argument(help="Robot file: URDF, xacro, SDF, MJCF or JSON.")]

Stop = Annotated[float, typer.Option("--stop", "--t-stop", "--t-end", help="Stop time [s].")]
Step = Annotated[float, typer.Option("--dt", help="Communication step [s].")]
MaybeStop = Annotated[
    float | None,
    typer.Option(
        "--stop", "--t-stop", "--t-end", help="Stop time [s]; default: from the file, or 1."
    ),
]
MaybeStep = Annotated[
    float | None,
    typer.Option("--dt", help="Communication step [s]; default: from the file, or 0.001."),
]
Script = Annotated[Path, typer.Argument(help="Script that defines `system`.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Result file: .arrow, .csv, .mf4 or .parquet."),
]

Method = Annotated[str | None, typer.Option(help="Integrator: rk4, adaptive, ros2, ...")]
MaybeScenario = Annotated[
    Path | None,
    typer.Option(help="Scenario: .csv or .yaml with values of inputs and parameters over time."),
]
RUN: dict[str, Any] = {"t_stop": 1.0, "dt": 1e-3}  # default run options


def _version(wanted: bool) -> None:
    if wanted:
        print(f"rigidblocks {__version__}")
        raise typer.Exit


@APP.callback()
def application(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Define the options before the command name; typer calls this function before each command."""


def check_ending(path: Path | None, *endings: str) -> None:
    """Raise ValueError if the name of an output file has none of the given extensions."""
    if path is not None and path.suffix not in endings:
        raise ValueError(f"the name of '{path}' must end in {' or '.join(endings)}")


def print_text_or_json(text: str, values: Any, as_json: bool) -> None:
    """Print `text`, or `values` as JSON if `as_json` is True."""
    print(json.dumps(values, indent=2) if as_json else text)


def print_warnings(path: Path, texts: Iterable[str]) -> None:
    """Print warnings about a file to stderr."""
    for text in texts:
        print(f"rigidblocks: {path}: {text}", file=sys.stderr)


def split_commas(text: str | None) -> list[str] | None:
    """Return the nonempty items of a comma-separated string, or None if `text` is None."""
    return None if text is None else [part for part in text.split(",") if part]


def _final_values(result: "Result") -> dict[str, Any]:
    """Return the final value of each output element by name; binary values as hexadecimal text."""
    from rigidblocks.block.port import TEXTUAL, text

    kinds = (port.type for port in result.ports for _ in port.element_names)
    end = dict[str, Any]()
    for name, kind, value in zip(result.columns, kinds, result.values[-1].tolist(), strict=True):
        known = text(value, kind) if kind in TEXTUAL else value
        end[name] = known.hex() if isinstance(known, bytes) else known
    return end


def print_final_values(result: "Result", as_json: bool) -> None:
    """Print the final values of all recorded outputs of a run."""
    end = _final_values(result)
    values: dict[str, Any] = {"time": float(result.time[-1]), "end": end}
    lines = [f"t = {values['time']:g} s"]
    width = max([32, *map(len, end)])
    lines += [
        f"  {name:{width}} {value if isinstance(value, str) else f'{value:14.6g}'} {unit}"
        for (name, value), unit in zip(end.items(), result.units, strict=True)
    ]
    if (coupling := result.meta.get("coupling")) is not None:
        values["coupling"] = json.loads(coupling)
        lines += [f"  {name}: {value}" for name, value in values["coupling"].items()]
    print_text_or_json("\n".join(lines), values, as_json)
