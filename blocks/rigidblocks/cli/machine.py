"""The command `doctor`."""

from typing import Annotated

from typer import Exit, Option

from rigidblocks.cli.application import APP, Json, say


@APP.command("doctor")
def doctor(
    clear: Annotated[bool, Option("--clear", help="Remove all compiled libraries first.")] = False,
    as_json: Json = False,
) -> None:
    """Look at the compiler, the compile cache and the packages; 1 when something is not well."""
    from rigidblocks.tracing import cache
    from rigidblocks.tracing.doctor import findings

    folders = (cache.cache_folder(), cache.spare_folder()) if clear else ()
    lines = [f"removed {cache.clear(folder)} files from {folder}" for folder in folders]
    found = list(findings())
    lines += [f"{'ok' if one.well else 'NOT OK':8}{one.subject:12}{one.text}" for one in found]
    values = [{"subject": one.subject, "text": one.text, "well": one.well} for one in found]
    say("\n".join(lines), {"findings": values}, as_json)
    if not all(one.well for one in found):
        raise Exit(1)
