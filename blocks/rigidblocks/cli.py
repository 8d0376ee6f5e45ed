"""The command `rigidblocks`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import rigidblocks
from rigidblocks.fmi.export import TARGETS, export_fmu
from rigidblocks.fmi.platforms import ALL, PLATFORMS


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 1 with the error on stderr."""
    parser = argparse.ArgumentParser(prog="rigidblocks", description="robot-dynamics blocks for co-simulation")
    parser.add_argument("--version", action="version", version=f"rigidblocks {rigidblocks.__version__}")
    _add_fmu(parser.add_subparsers(required=True, metavar="command").add_parser("fmu", help="build an FMU from a script"))
    options = parser.parse_args(arguments)
    try:
        print(_export(options))
    except Exception as error:
        # what a user can mend is said in one line, with the notes that say where
        print(f"rigidblocks: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    return 0


def _add_fmu(fmu: argparse.ArgumentParser) -> None:
    fmu.add_argument("script", type=Path, help="a script as in fmus/: one class that names a block")
    fmu.add_argument("-o", "--output", type=Path, help="the FMU to write; the script's name with .fmu unless given")
    fmu.add_argument("--target", choices=TARGETS, default="native", help="native (C), source (C code) or python")
    fmu.add_argument("--fmi", type=int, default=2, help="the version of FMI; default 2")
    platforms = f"{ALL}, or some of {','.join(PLATFORMS)}, with commas; default this machine's"
    fmu.add_argument("--platforms", help=platforms)
    fmu.add_argument("--name", help="the model identifier; the name of the script's class unless given")
    fmu.add_argument(
        "--tunable", help="the parameters that can be set in the FMU, with commas; as the script says by default"
    )
    fmu.add_argument("--bundle", action="store_true", help="put rigidblocks itself into a Python FMU")


def _export(options: argparse.Namespace) -> Path:
    return export_fmu(
        options.script,
        options.output or Path(f"{options.script.stem}.fmu"),
        options.target,
        fmi=options.fmi,
        platforms=ALL if options.platforms == ALL else _split(options.platforms),
        tunable=_split(options.tunable),
        name=options.name,
        bundle=options.bundle,
    )


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part for part in text.split(",") if part]


if __name__ == "__main__":
    sys.exit(main())
