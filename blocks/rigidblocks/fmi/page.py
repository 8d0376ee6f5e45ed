"""A page in an FMU's documentation in which what is in the FMU runs."""

import zipfile
from pathlib import Path

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.fmi.archive import write_archive
from rigidblocks.system.system import System
from rigidblocks.view.simulation_page import simulation_page

INDEX, PAGE = "documentation/index.html", "documentation/page.html"
LINK = '<p><a href="page.html">It runs in the browser.</a></p>\n'
STEP = 1e-3  # s, of the page of a block alone


def add_page(fmu: Path, source: Block | System, dt: float | None, deflate: bool) -> None:
    """Puts a page into an FMU's documentation, with a link to it, in which its block or its system
    runs by steps of `dt` [s], 1 ms unless given.

    Raises what `simulation_page` raises, of a block that is no robot among others.
    """
    system = source if isinstance(source, System) else _alone(source)
    html = simulation_page(system, STEP if dt is None else dt).html
    with zipfile.ZipFile(fmu) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    index = content[INDEX].decode()
    content[INDEX] = index.replace("</h1>\n", f"</h1>\n{LINK}", 1).encode()
    write_archive(fmu, {**content, PAGE: html.encode()}, deflate=deflate)


def _alone(block: Block) -> System:
    """A system of this block, whose open inputs start at zero unless they say otherwise."""
    system = System()
    start = {port.name: np.zeros(port.shape) for port in block.inputs if port.start is None}
    system.add("robot", block, start=start)
    return system
