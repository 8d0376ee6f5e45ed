"""Commands for hardware-in-the-loop and distributed simulation: runner, serve, federate."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from rigidblocks.cli.app import (
    APP,
    RUN,
    Json,
    MaybeStep,
    MaybeStop,
    Out,
    Script,
    print_final_values,
    print_text_or_json,
)
from rigidblocks.cli.input_files import load_run_options


@APP.command("runner")
def runner(
    system: Annotated[Path, Argument(help="Script that defines `system`, or a robot file.")],
    output: Annotated[Path | None, Option("-o", "--output", help="Program to write.")] = None,
    dt: MaybeStep = None,
    order: Annotated[str | None, Option(help="Order of the parts: gauss-seidel or jacobi.")] = None,
    platform: Annotated[
        str | None,
        Option(help="Platform: x86_64-linux, aarch64-linux or source; default: this machine."),
    ] = None,
    xcp: Annotated[
        str | None,
        Option(
            help="Port or address of the XCP server, such as 127.0.0.1:5555; also writes an A2L."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build a real-time program that runs a system without Python."""
    from rigidblocks.hil.build_runner import build_runner

    wired, run_options = load_run_options(system, dt=dt, order=order, platform=platform, xcp=xcp)
    given = {
        name: run_options[name] for name in ("order", "platform", "xcp") if name in run_options
    }
    path = output or Path(system.stem)
    build_runner(wired, path, run_options.get("dt", RUN["dt"]), **given)
    print_text_or_json(str(path), {"runner": str(path)}, as_json)


@APP.command("serve")
def serve(
    folder: Annotated[Path, Argument(help="Folder of the FMUs.")] = Path(),
    listen: Annotated[
        str, Option(help="Address on which to listen; default: loopback.")
    ] = "127.0.0.1:5555",
    key_file: Annotated[
        Path | None,
        Option(help="File with the key of the clients; required unless the address is loopback."),
    ] = None,
) -> None:
    """Serve the FMUs of a folder to other processes and machines."""
    from rigidblocks.hil.fmu_server import serve_fmus

    serve_fmus(folder, listen, key_file, ready=lambda at: print(f"serving at {at}", flush=True))


@APP.command("federate")
def federate(
    system: Script,
    part: Annotated[list[str], Option("--part", help="Part to simulate here; repeatable.")],
    broker: Annotated[str, Option(help="Address of the broker.")] = "127.0.0.1:23404",
    core: Annotated[str, Option(help="Core type of the federation: zmq or tcp.")] = "zmq",
    stop: MaybeStop = None,
    dt: MaybeStep = None,
    output: Out = None,
    write_config: Annotated[
        Path | None,
        Option(
            help="Write the .json configuration of the federate instead of running the federate."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate parts of a system as a HELICS federate."""
    from rigidblocks.hil.helics_federate import federate as join
    from rigidblocks.hil.helics_federate import federate_config

    wired, run_options = load_run_options(system, t_stop=stop, dt=dt)
    end, step = ((RUN | dict(run_options))[name] for name in ("t_stop", "dt"))
    if write_config is not None:
        config = federate_config(wired, part, step, broker=broker, core=core)
        write_config.write_text(json.dumps(config, indent=2))
        print_text_or_json(str(write_config), {"config": str(write_config)}, as_json)
        return
    print_final_values(join(wired, part, end, step, broker=broker, core=core, save=output), as_json)
