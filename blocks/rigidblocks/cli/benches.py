"""The commands for other processes and machines: serve."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rigidblocks.cli.application import APP


@APP.command("serve")
def serve(
    folder: Annotated[Path, Argument(help="The folder of the FMUs.")] = Path(),
    listen: Annotated[str, Option(help="The address; loopback unless given.")] = "127.0.0.1:5555",
    key_file: Annotated[
        Path | None, Option(help="The key that clients must have; needed beyond loopback.")
    ] = None,
) -> None:
    """Run the FMUs in a folder for other processes and machines."""
    from rigidblocks.bench.server import serve_fmus

    serve_fmus(folder, listen, key_file, ready=lambda at: print(f"serving at {at}", flush=True))
