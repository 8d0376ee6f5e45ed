"""The commands for other processes and machines: serve, federate."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rigidblocks.cli.application import APP, Json, say
from rigidblocks.cli.given import asked_of
from rigidblocks.cli.runs import RUN, MaybeStep, MaybeStop, Out, Script, told_end


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


@APP.command("federate")
def federate(
    system: Script,
    part: Annotated[list[str], Option("--part", help="A part that runs here; again for more.")],
    broker: Annotated[str, Option(help="Where the broker is.")] = "127.0.0.1:23404",
    core: Annotated[str, Option(help="The kind of the federation: zmq or tcp.")] = "zmq",
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Out = None,
    write_config: Annotated[
        Path | None, Option(help="Write the .json of a federate that is these parts; run nothing.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run parts of a system as a federate of HELICS; the others are other people's."""
    from rigidblocks.bench.federation import federate as join
    from rigidblocks.bench.federation import federate_config

    wired, told = asked_of(system, t_stop=stop, dt=dt)
    end, step = ((RUN | dict(told))[name] for name in ("t_stop", "dt"))
    if write_config is not None:
        config = federate_config(wired, part, step, broker=broker, core=core)
        write_config.write_text(json.dumps(config, indent=2))
        say(str(write_config), {"config": str(write_config)}, as_json)
        return
    told_end(join(wired, part, end, step, broker=broker, core=core, save=output), as_json)
