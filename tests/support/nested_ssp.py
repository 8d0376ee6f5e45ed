"""SSP file with some of its components in a subsystem."""

import zipfile
from collections.abc import Collection
from pathlib import Path

from lxml import etree

from rigidblocks.fmi.ssp.schema import SPACES, tag

_DESCRIPTION = "SystemStructure.ssd"


def nested(path: Path, to: Path, inside: Collection[str], name: str) -> Path:
    """Write the file at `path` to `to`, with the components `inside` in a subsystem `name`.

    Connections to these components pass through connectors of the subsystem.
    """
    with zipfile.ZipFile(path) as archive:
        files = {one.filename: archive.read(one) for one in archive.infolist()}
    root = etree.fromstring(files[_DESCRIPTION])
    elements = root.find("ssd:System/ssd:Elements", SPACES)
    inner = etree.SubElement(elements, tag("ssd:System"), name=name)
    shown, within, wires = (
        etree.SubElement(inner, tag(f"ssd:{one}"))
        for one in ("Connectors", "Elements", "Connections")
    )
    for component in elements.findall("ssd:Component", SPACES):
        if component.get("name") in inside:
            within.append(component)
    for wire in root.findall("ssd:System/ssd:Connections/ssd:Connection", SPACES):
        if {wire.get("startElement"), wire.get("endElement")} <= set(inside):
            wires.append(wire)
        for side in ("start", "end"):
            if wire.getparent() is not wires and wire.get(f"{side}Element") in inside:
                _pass_through(wire, side, name, shown, wires)
    files[_DESCRIPTION] = etree.tostring(root)
    with zipfile.ZipFile(to, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    return to


def _pass_through(wire, side, name, shown, wires):
    """Route a connection through a connector of the inner system."""
    part, variable = wire.get(f"{side}Element"), wire.get(f"{side}Connector")
    connector = f"{part}_{variable}"
    if connector not in [one.get("name") for one in shown]:
        kind = {"start": "output", "end": "input"}[side]
        etree.SubElement(shown, tag("ssd:Connector"), name=connector, kind=kind)
        other = {"start": "end", "end": "start"}[side]
        ends = {f"{side}Element": part, f"{side}Connector": variable}
        etree.SubElement(wires, tag("ssd:Connection"), **ends, **{f"{other}Connector": connector})
    wire.set(f"{side}Element", name)
    wire.set(f"{side}Connector", connector)
