"""The application that the commands are of, and how they say what they found.

What a command needs is imported when it runs: so `rigidblocks --help` starts at once.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

import rigidblocks

APP = typer.Typer(
    help="Robot-dynamics blocks for co-simulation: robots and blocks as FMUs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Say it as JSON, for programs.")]
Floating = Annotated[bool, typer.Option("--floating", help="Let the base of a robot float.")]
Robot = Annotated[Path, typer.Argument(help="A robot: URDF, xacro, SDF, MJCF or JSON.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"rigidblocks {rigidblocks.__version__}")
        raise typer.Exit


@APP.callback()
def application(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """What comes before the commands."""


def say(text: str, values: Any, as_json: bool) -> None:
    """Prints a text, or as JSON the values that it tells."""
    print(json.dumps(values, indent=2) if as_json else text)


def warn(path: Path, texts: Iterable[str]) -> None:
    """Prints warnings of a file to stderr."""
    for text in texts:
        print(f"rigidblocks: {path}: {text}", file=sys.stderr)


def parts(text: str | None) -> list[str] | None:
    """The parts of a text with commas."""
    return None if text is None else [part for part in text.split(",") if part]
