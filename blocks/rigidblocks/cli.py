"""The command `rigidblocks`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import rigidblocks
from rigidblocks.fmi.export import TARGETS, export_fmu


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 1 with the error on stderr."""
    parser = argparse.ArgumentParser(prog="rigidblocks", description="robot-dynamics blocks for co-simulation")
    parser.add_argument("--version", action="version", version=f"rigidblocks {rigidblocks.__version__}")
    fmu = parser.add_subparsers(required=True, metavar="command").add_parser("fmu", help="build an FMU from a script")
    fmu.add_argument("script", type=Path, help="a script as in fmus/: one class that names a block")
    fmu.add_argument("-o", "--output", type=Path, help="the FMU to write; the script's name with .fmu unless given")
    fmu.add_argument("--target", choices=TARGETS, default="native", help="native (C) or python; default native")
    fmu.add_argument("--bundle", action="store_true", help="put rigidblocks itself into a Python FMU")
    options = parser.parse_args(arguments)
    try:
        path = options.output or Path(f"{options.script.stem}.fmu")
        print(export_fmu(options.script, path, options.target, bundle=options.bundle))
    except Exception as error:
        # what a user can mend is said in one line, with the notes that say where
        print(f"rigidblocks: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
