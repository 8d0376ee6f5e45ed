"""The commands that make web pages: view, page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rigidblocks.cli.application import APP, Floating, Json, parts, say, warn
from rigidblocks.cli.given import system_of
from rigidblocks.cli.runs import Step

if TYPE_CHECKING:
    from rigidblocks.system.system import System
    from rigidblocks.view.page import Page

Out = Annotated[
    Path | None,
    Option("-o", "--output", help="The .html file, named after it; of one run also .gif, .mp4."),
]
Open = Annotated[bool, Option("--open", help="Open the page in the browser.")]


@APP.command("view")
def view(
    robot: Annotated[Path, Argument(help="A robot's file, or a script that makes a `system`.")],
    results: Annotated[
        list[Path] | None, Argument(help="A run of it, or some: .arrow, .csv, .parquet.")
    ] = None,
    output: Out = None,
    floating: Floating = False,
    packages: Annotated[
        str | None, Option(help="Folders with the packages of meshes, with commas.")
    ] = None,
    paths: Annotated[
        str | None, Option(help="Frames or bodies whose path is drawn, with commas.")
    ] = None,
    open_it: Open = False,
    as_json: Json = False,
) -> None:
    """Make a page of one file that shows a robot with sliders for its joints, or plays its runs."""
    from rigidblocks.simulation.result import Result
    from rigidblocks.view.file import RobotFile, robot_file
    from rigidblocks.view.played import animate
    from rigidblocks.view.show import show

    if robot.suffix in (".py", ".ssp"):
        seen: System | RobotFile = system_of(robot).system
    else:
        seen = robot_file(robot, floating, tuple(parts(packages) or ()))
        warn(robot, seen.robot.warnings)
    files = results or []
    is_short = len({path.stem for path in files}) == len(files)
    runs = {path.stem if is_short else str(path): Result.load(path) for path in files}
    played = runs if len(runs) > 1 else next(iter(runs.values()), None)
    if output and output.suffix not in ("", ".html", ".htm"):
        _filmed(played, seen, output, as_json)
        return
    named = parts(paths) or ()
    page = show(seen) if played is None else animate(played, seen, paths=named)
    _written(page, output or Path(robot.stem + ".html"), open_it, as_json)


@APP.command("page")
def page(
    system: Annotated[Path, Argument(help="A script that makes a `system`; or a robot's file.")],
    output: Out = None,
    dt: Step = 1e-3,
    open_it: Open = False,
    as_json: Json = False,
) -> None:
    """Make a page of one file in which a system runs, with sliders for inputs and parameters."""
    from rigidblocks.view.simulation_page import simulation_page

    made = simulation_page(system_of(system).system, dt)
    _written(made, output or Path(system.stem + ".html"), open_it, as_json)


def _filmed(result: Any, robot: Any, path: Path, as_json: bool) -> None:
    """Writes a film of one run and says where it is."""
    from rigidblocks.simulation.result import Result
    from rigidblocks.view.film import film

    if not isinstance(result, Result):
        raise ValueError(f"{path} is a film of one run: name its file behind that of the robot")
    size = film(result, robot, path).stat().st_size
    say(f"wrote {path}, {size / 1e3:.0f} kB", {"file": str(path), "bytes": size}, as_json)


def _written(page: "Page", path: Path, open_it: bool, as_json: bool) -> None:
    """Writes the page and says where it is."""
    import webbrowser

    page.save(path)
    size = path.stat().st_size
    say(f"wrote {path}, {size / 1e3:.0f} kB", {"file": str(path), "bytes": size}, as_json)
    if open_it:
        webbrowser.open(path.resolve().as_uri())
