"""Commands that make web pages: view, page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rigidblocks.cli.app import (
    APP,
    Floating,
    Json,
    Key,
    Step,
    check_ending,
    print_text_or_json,
    print_warnings,
    split_commas,
)
from rigidblocks.cli.input_files import is_structure, system_of

if TYPE_CHECKING:
    from rigidblocks.cosim.graph.system import System
    from rigidblocks.view.robot_page import Page

Out = Annotated[
    Path | None,
    Option("-o", "--output", help="Output: .html, or for one run also .gif or .mp4."),
]
_PAGES = (".html", ".htm")
_CHARSET = '<meta charset="utf-8">'  # in the head of each page, before the generator element
_HEAD = 4096  # number of characters at the start of a page that are searched for the generator
Open = Annotated[bool, Option("--open", help="Open the page in the browser.")]


@APP.command("view")
def view(
    robot: Annotated[Path, Argument(help="Robot file, or a script that defines `system`.")],
    results: Annotated[
        list[Path] | None, Argument(help="Result files of runs: .arrow, .csv or .parquet.")
    ] = None,
    output: Out = None,
    floating: Floating = False,
    key: Key = None,
    packages: Annotated[
        str | None, Option(help="Package folders of the meshes, comma-separated.")
    ] = None,
    paths: Annotated[
        str | None, Option(help="Frames or bodies whose path is drawn, comma-separated.")
    ] = None,
    open_it: Open = False,
    as_json: Json = False,
) -> None:
    """Make a web page of a robot: with sliders for its joints, or with playback of its runs."""
    from rigidblocks.cosim.results.result import Result
    from rigidblocks.view.robot_page import RobotFile, robot_file, show
    from rigidblocks.view.run_page import animate

    if robot.suffix == ".py" or is_structure(robot):
        seen: System | RobotFile = system_of(robot).system
    else:
        seen = robot_file(robot, floating, tuple(split_commas(packages) or ()), key)
        print_warnings(robot, seen.robot.warnings)
    files = results or []
    is_short = len({path.stem for path in files}) == len(files)
    runs = {path.stem if is_short else str(path): Result.load(path) for path in files}
    played = runs if len(runs) > 1 else next(iter(runs.values()), None)
    if output and output.suffix not in ("", *_PAGES):
        _save_film(played, seen, output, as_json)
        return
    path = output or _free_name(f"{robot.stem}.html", "view")
    named = split_commas(paths) or ()
    page = show(seen) if played is None else animate(played, seen, paths=named)
    _save_page(page, path, "view", open_it, as_json)


@APP.command("page")
def page(
    system: Annotated[Path, Argument(help="Script that defines `system`, or a robot file.")],
    output: Out = None,
    dt: Step = 1e-3,
    sensors: Annotated[
        bool, Option("--sensors", help="Show the sensors of a robot file as outputs.")
    ] = False,
    open_it: Open = False,
    as_json: Json = False,
) -> None:
    """Make a web page that simulates a system, with sliders for inputs and parameters."""
    from rigidblocks.view.simulation_page import simulation_page

    check_ending(output, *_PAGES)
    path = output or _free_name(f"{system.stem}_page.html", "page")
    made = simulation_page(system_of(system, sensors).system, dt)
    _save_page(made, path, "page", open_it, as_json)


def _save_film(result: Any, robot: Any, path: Path, as_json: bool) -> None:
    """Write a video of one run, and print its path."""
    from rigidblocks.cosim.results.result import Result
    from rigidblocks.view.video_export import film

    if not isinstance(result, Result):
        raise ValueError(
            f"the video {path} shows exactly one run; give one result file after the robot file"
        )
    size = film(result, robot, path).stat().st_size
    print_text_or_json(
        f"wrote {path}, {size / 1e3:.0f} kB", {"file": str(path), "bytes": size}, as_json
    )


def _generator(command: str) -> str:
    return f'<meta name="generator" content="rigidblocks {command}">'


def _free_name(name: str, command: str) -> Path:
    """Return the output path `name`; reject an existing file that `command` has not written."""
    path = Path(name)
    if path.exists():
        with open(path, encoding="utf-8", errors="replace") as file:
            if _generator(command) not in file.read(_HEAD):
                raise ValueError(
                    f"cannot overwrite {path}, which `rigidblocks {command}` did not write; choose "
                    "a name with --output"
                )
    return path


def _save_page(page: "Page", path: Path, command: str, open_it: bool, as_json: bool) -> None:
    """Write a web page, print its path, and open the page in the browser if requested."""
    import webbrowser
    from dataclasses import replace

    marked = f"{_CHARSET}\n{_generator(command)}"
    replace(page, html=page.html.replace(_CHARSET, marked, 1)).save(path)
    size = path.stat().st_size
    print_text_or_json(
        f"wrote {path}, {size / 1e3:.0f} kB", {"file": str(path), "bytes": size}, as_json
    )
    if open_it:
        webbrowser.open(path.resolve().as_uri())
