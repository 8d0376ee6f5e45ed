"""SSP files made from a system description and FMUs."""

import zipfile

from rigidblocks.fmi.ssp.schema import SPACES

NS = "http://ssp-standard.org/SSP1/SystemStructure"


def archive(path, text, fmus, **more):
    """Write an .ssp file of a description, with FMUs under the names that it uses."""
    spaces = " ".join(
        f'xmlns:{p}="{NS}{n}"'
        for p, n in {
            "ssc": "Common",
            "ssd": "Description",
            "ssv": "ParameterValues",
            "ssm": "ParameterMapping",
        }.items()
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("SystemStructure.ssd", text.replace("SPACES", spaces))
        for name, content in more.items():
            file.writestr(name.replace("_dot_", "."), content.replace("SPACES", spaces))
        for name, fmu in fmus.items():
            file.write(fmu, f"resources/{name}.fmu")
    return path


SSD_SPACES = " ".join(
    f'xmlns:{p}="{space}"' for p, space in (SPACES | {"ssb": f"{NS}SignalDictionary"}).items()
)
MM = '<ssc:Unit name="mm"><ssc:BaseUnit m="1" factor="0.001"/></ssc:Unit>'
UNITS = f'<ssd:Units><ssc:Unit name="m"><ssc:BaseUnit m="1"/></ssc:Unit>{MM}</ssd:Units>'


def ssd(elements, connections="", before="", after="", version="1.0", name="s", more=""):
    """Return a description; `before` precedes the elements, `after` the end of the file."""
    wires = f"<ssd:Connections>{connections}</ssd:Connections>" if connections else ""
    return (
        f'<ssd:SystemStructureDescription {SSD_SPACES} version="{version}" name="{name}">'
        f'<ssd:System name="s">{before}<ssd:Elements>{elements}</ssd:Elements>{wires}{more}'
        f"</ssd:System>{after}</ssd:SystemStructureDescription>"
    )


def part(name="a", inside="", source="resources/any.fmu", attributes="", listed=""):
    connectors = f"<ssd:Connectors>{listed}</ssd:Connectors>" if listed else ""
    return (
        f'<ssd:Component name="{name}" source="{source}" {attributes}>{connectors}{inside}'
        "</ssd:Component>"
    )


def inner(name, elements, wires="", listed="", inside="", more="", attributes=""):
    connectors = f"<ssd:Connectors>{listed}</ssd:Connectors>" if listed else ""
    wires = f"<ssd:Connections>{wires}</ssd:Connections>" if wires else ""
    return (
        f'<ssd:System name="{name}" {attributes}>{connectors}{inside}<ssd:Elements>{elements}'
        f"</ssd:Elements>{wires}{more}</ssd:System>"
    )


def connector(name, kind, inside=""):
    return f'<ssd:Connector name="{name}" kind="{kind}">{inside}</ssd:Connector>'


def wire(start, end, inside="", attributes=""):
    ends = ""
    for side, name in (("start", start), ("end", end)):
        element, _, port = name.rpartition(".")
        ends += f' {side}Connector="{port}"' + (f' {side}Element="{element}"' if element else "")
    return f"<ssd:Connection{ends} {attributes}>{inside}</ssd:Connection>"


def value(name, kind, text, more=""):
    return f'<ssv:Parameter name="{name}"><ssv:{kind} value="{text}" {more}/></ssv:Parameter>'


def real(name, number, unit=""):
    return value(name, "Real", number, f'unit="{unit}"' if unit else "")


def ssv(rows, more="", version="1.0"):
    return (
        f'<ssv:ParameterSet {SSD_SPACES} version="{version}" name="p"><ssv:Parameters>{rows}'
        f"</ssv:Parameters>{more}</ssv:ParameterSet>"
    )


def entry(source, target, inside="", attributes=""):
    return (
        f'<ssm:MappingEntry source="{source}" target="{target}" {attributes}>{inside}'
        "</ssm:MappingEntry>"
    )


def ssm(entries):
    return f'<ssm:ParameterMapping {SSD_SPACES} version="1.0">{entries}</ssm:ParameterMapping>'


def bindings(*sets, attributes="", mapping=""):
    """Return parameter bindings with inline sets, or without values for an empty set."""
    rows = ""
    for one in sets:
        inside = f"<ssd:ParameterValues>{one}</ssd:ParameterValues>" if one else ""
        rows += f"<ssd:ParameterBinding {attributes}>{inside}{mapping}</ssd:ParameterBinding>"
    return f"<ssd:ParameterBindings>{rows}</ssd:ParameterBindings>"


def table(kind, **entries):
    rows = "".join(
        f'<ssc:MapEntry source="{a.strip("_")}" target="{b}"/>' for a, b in entries.items()
    )
    return f"<ssc:{kind}MappingTransformation>{rows}</ssc:{kind}MappingTransformation>"


def dictionaries(**inside):
    rows = "".join(
        f'<ssd:SignalDictionary name="{name}">{one}</ssd:SignalDictionary>'
        for name, one in inside.items()
    )
    return f"<ssd:SignalDictionaries>{rows}</ssd:SignalDictionaries>"
