"""XCP server of FMUs (layered standard FMI-LS-XCP), and A2L files that describe the server."""

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import NamedTuple
from xml.etree.ElementTree import Element as Node
from xml.etree.ElementTree import SubElement, register_namespace

from rigidblocks.block.port import Port
from rigidblocks.common.escaping import xml_text
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.tracing.c_notation import c_comment, c_string
from rigidblocks.tracing.ccode import c_number

BASE = 0x1000  # XCP address of the memory, as in xcp.h
LARGEST = 1.7976931348623157e308
_UNITS = ("1NS", "10NS", "100NS", "1US", "10US", "100US", "1MS", "10MS", "100MS", "1S")


class Element(NamedTuple):
    """Element of a memory vector, with its name, index, unit, bounds and description."""

    name: str
    place: int
    unit: str
    low: float
    high: float
    doc: str


def elements_of(ports: Iterable[Port], slices: Mapping[str, slice]) -> Iterator[Element]:
    """Yield the memory element of each port element; `slices` maps port names to memory slices."""
    for port in ports:
        first, doc = slices[port.name].start, port.doc
        rows = zip(port.element_names, port.units, port.lowest.flat, port.max.flat, strict=True)
        for k, (name, unit, low, high) in enumerate(rows):
            yield Element(name, first + k, unit, float(low), float(high), doc)


def period(dt: float) -> tuple[int, int]:
    """Return the pair (n, unit) that encodes the period dt [s] of an XCP event.

        dt = n 10^(unit - 9) s

    n is an integer from 1 to 255, and `unit` is the XCP code of the time unit. If dt is 0 or XCP
    cannot represent dt, the pair is (0, 0).
    """
    for unit in reversed(range(len(_UNITS))):
        n = dt * 10 ** (9 - unit)
        if 1 <= round(n) <= 255 and abs(n - round(n)) < 1e-6:
            return round(n), unit
    return 0, 0


def plan_text(
    symbol: str, name: str, size: int, tunables: list[Element], dt: float
) -> tuple[str, ...]:
    """Return the C constants of an XCP server: a table of tunable elements, and an XcpPlan.

    The XcpPlan contains the program name, the period of the XCP event and the memory size.

    Args:
        symbol: Name of the XcpPlan in C.
        name: Name of the program.
        size: Number of values in the memory.
        tunables: Elements that a calibration tool may set.
        dt: Step size [s].

    Returns:
        C definition of each constant.
    """
    cycle, unit = period(dt)
    rows = "".join(
        f"    {{{one.place}, {c_bound(one.low)}, {c_bound(one.high)}}}, "
        f"/* {c_comment(one.name)} */\n"
        for one in tunables
    )
    plan = f'{{{c_string(name)}, "step", {cycle}, {unit}, {size}, {len(tunables)}, TUNABLES}}'
    return (
        f"static const Tunable TUNABLES[] = {{\n{rows}    {{0, 0.0, 0.0}}}};",
        f"static const XcpPlan {symbol} = {plan};",
    )


def c_bound(value: float) -> str:
    """Return a bound as a number in C; an infinite bound becomes the largest finite double."""
    return c_number(max(min(value, LARGEST), -LARGEST))


def a2l_text(
    name: str, signals: list[Element], tunables: list[Element], dt: float, address: str
) -> str:
    """Return the text of an A2L file (ASAM MCD-2 MC 1.6), which describes a program to XCP tools.

    Args:
        name: Name of the program.
        signals: Elements that a measurement tool may read.
        tunables: Elements that a calibration tool may set.
        dt: Period of the XCP event `step` [s]; 0 if unknown.
        address: Host and port.

    Returns:
        Text of the file.
    """
    names = _identifiers(one.name for one in (*signals, *tunables))
    units = {one.unit: f"unit_{k}" for k, one in enumerate(_first_of_units(signals + tunables))}
    methods = (
        f'/begin COMPU_METHOD {key} {_text(unit)} IDENTICAL "%16.9" {_text(unit)} /end COMPU_METHOD'
        for unit, key in units.items()
    )
    measurements = (
        f"/begin MEASUREMENT {names[one.name]} {_text(one.doc)} FLOAT64_IEEE "
        f"{units[one.unit]} 0 0 {_bounds(one)} ECU_ADDRESS {_address(one)} /end MEASUREMENT"
        for one in signals
    )
    characteristics = (
        f"/begin CHARACTERISTIC {names[one.name]} {_text(one.doc)} VALUE {_address(one)} "
        f"double 0 {units[one.unit]} {_bounds(one)} /end CHARACTERISTIC"
        for one in tunables
    )
    lines = [*methods, *measurements, *characteristics]
    return _FILE.format(
        name=_identifier(re.sub(r"\W", "_", name)),
        title=_text(name),
        interface=_interface(dt, address),
        lines="\n    ".join(lines),
    )


def _first_of_units(elements: list[Element]) -> Iterable[Element]:
    return {one.unit: one for one in reversed(elements)}.values()


def _identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return a unique A2L identifier for each name; a number distinguishes equal identifiers."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        identifier = plain = _identifier(name)
        for k in count(2):
            if identifier not in taken:
                break
            identifier = f"{plain}_{k}"
        taken.add(identifier)
        found[name] = identifier
    return found


def _identifier(name: str) -> str:
    """Convert a name to an A2L identifier, for example H[1,2] to H[1][2]."""
    found = re.search(r"\[\d+(,\d+)*\]\Z", name)
    indices = found[0] if found else ""
    plain = re.sub(r"[^A-Za-z0-9_.]", "_", name.removesuffix(indices))
    # each part of the name between dots must begin with a letter or _
    return re.sub(r"(^|\.)(?![A-Za-z_])", r"\1_", plain) + indices.replace(",", "][")


def _text(text: str) -> str:
    """Quote a text as an A2L string."""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return '"' + " ".join(shown.replace('"', "'").replace("\\", "/").split()) + '"'


def _bounds(element: Element) -> str:
    return f"{max(element.low, -LARGEST):.17g} {min(element.high, LARGEST):.17g}"


def _address(element: Element) -> str:
    return f"0x{BASE + 8 * element.place:X}"


def _interface(dt: float, address: str) -> str:
    """Return the IF_DATA section of an A2L file, with protocol limits, event and address.

    `dt` is the period of the event [s], and `address` has the form host:port.
    """
    host, _, port = address.rpartition(":")
    cycle, unit = period(dt)
    return _INTERFACE.format(host=host, port=port, cycle=cycle, unit=unit)


_INTERFACE = """/begin IF_DATA XCP
      /begin PROTOCOL_LAYER 0x0101 2000 2000 2000 2000 2000 2000 2000 248 1396
        BYTE_ORDER_MSB_LAST ADDRESS_GRANULARITY_BYTE
        OPTIONAL_CMD GET_COMM_MODE_INFO OPTIONAL_CMD GET_ID OPTIONAL_CMD SET_MTA
        OPTIONAL_CMD UPLOAD OPTIONAL_CMD SHORT_UPLOAD OPTIONAL_CMD DOWNLOAD
        OPTIONAL_CMD SET_DAQ_PTR OPTIONAL_CMD WRITE_DAQ OPTIONAL_CMD SET_DAQ_LIST_MODE
        OPTIONAL_CMD GET_DAQ_LIST_MODE OPTIONAL_CMD START_STOP_DAQ_LIST
        OPTIONAL_CMD START_STOP_SYNCH OPTIONAL_CMD GET_DAQ_CLOCK
        OPTIONAL_CMD GET_DAQ_PROCESSOR_INFO OPTIONAL_CMD GET_DAQ_RESOLUTION_INFO
        OPTIONAL_CMD GET_DAQ_EVENT_INFO OPTIONAL_CMD FREE_DAQ OPTIONAL_CMD ALLOC_DAQ
        OPTIONAL_CMD ALLOC_ODT OPTIONAL_CMD ALLOC_ODT_ENTRY
      /end PROTOCOL_LAYER
      /begin DAQ DYNAMIC 32 1 0 OPTIMISATION_TYPE_DEFAULT ADDRESS_EXTENSION_FREE
        IDENTIFICATION_FIELD_TYPE_RELATIVE_BYTE GRANULARITY_ODT_ENTRY_SIZE_DAQ_BYTE 248
        NO_OVERLOAD_INDICATION PRESCALER_SUPPORTED
        /begin TIMESTAMP_SUPPORTED 1 SIZE_DWORD UNIT_1US /end TIMESTAMP_SUPPORTED
        /begin EVENT "step" "step" 0 DAQ 255 {cycle} {unit} 0 /end EVENT
      /end DAQ
      /begin XCP_ON_UDP_IP 0x0100 {port} ADDRESS "{host}" /end XCP_ON_UDP_IP
    /end IF_DATA"""

_COMMANDS = re.findall(r"OPTIONAL_CMD (\w+)", _INTERFACE)

# AML definition of IF_DATA XCP from the standard, restricted to the entries of `_INTERFACE`
_A2ML = """/begin A2ML
      block "IF_DATA" taggedunion if_data {
        "XCP" struct {
          taggedstruct {
            block "PROTOCOL_LAYER" struct {
              uint; uint; uint; uint; uint; uint; uint; uint; uchar; uint;
              enum { "BYTE_ORDER_MSB_LAST" = 0, "BYTE_ORDER_MSB_FIRST" = 1 };
              enum { "ADDRESS_GRANULARITY_BYTE" = 1 };
              taggedstruct { ("OPTIONAL_CMD" enum { COMMANDS })*; };
            };
            block "DAQ" struct {
              enum { "STATIC" = 0, "DYNAMIC" = 1 }; uint; uint; uchar;
              enum { "OPTIMISATION_TYPE_DEFAULT" = 0 };
              enum { "ADDRESS_EXTENSION_FREE" = 0 };
              enum { "IDENTIFICATION_FIELD_TYPE_RELATIVE_BYTE" = 1 };
              enum { "GRANULARITY_ODT_ENTRY_SIZE_DAQ_BYTE" = 1 }; uchar;
              enum { "NO_OVERLOAD_INDICATION" = 0 };
              taggedstruct {
                "PRESCALER_SUPPORTED";
                block "TIMESTAMP_SUPPORTED" struct {
                  uint; enum { "SIZE_DWORD" = 4 }; enum { "UNIT_1US" = 3 };
                };
                (block "EVENT" struct {
                  char[101]; char[9]; uint; enum { "DAQ" = 1 }; uchar; uchar; uchar; uchar;
                })*;
              };
            };
            block "XCP_ON_UDP_IP" struct {
              uint; uint; taggedunion { "ADDRESS" char[16]; };
            };
          };
        };
      };
    /end A2ML""".replace("COMMANDS", ", ".join(f'"{one}" = {k}' for k, one in enumerate(_COMMANDS)))

_FILE = (
    """ASAP2_VERSION 1 60
/begin PROJECT {name} {title}
  /begin MODULE {name} {title}
    """
    + _A2ML.replace("{", "{{").replace("}", "}}")
    + """
    {interface}
    /begin MOD_COMMON "" BYTE_ORDER MSB_LAST ALIGNMENT_FLOAT64_IEEE 8 /end MOD_COMMON
    /begin RECORD_LAYOUT double FNC_VALUES 1 FLOAT64_IEEE COLUMN_DIR DIRECT /end RECORD_LAYOUT
    {lines}
  /end MODULE
/end PROJECT
"""
)


STANDARD = "org.fmi-standard.fmi-ls-xcp"
FOLDER = f"extra/{STANDARD}"
FILES = tuple(f"runner/{name}.h" for name in ("xcp", "xcp_udp"))
FLAGS = ('-DRB_XCP="xcp_plan.h"', "-D_GNU_SOURCE", "-pthread")
_NAMESPACE = "http://fmi-standard.org/fmi-ls-manifest"
_DESCRIPTION = (
    "Layered standard based on FMI 2 and FMI 3 for describing and implementing XCP support for "
    "FMUs, which can either provide an XCP service or allow direct memory access via A2L files."
)
register_namespace("fmi-ls", _NAMESPACE)
_PREFIX = "org.fmi_standard.fmi_ls_xcp"


@dataclass(frozen=True)
class XcpAddress:
    """Default address of the XCP server of an FMU.

    `text` is a port, such as "5555" for the local machine, or an address such as "127.0.0.1:5555".
    The importing tool may set another address.

    Raises:
        ValueError: The text is not a port or an address.
    """

    text: str

    def __post_init__(self) -> None:
        try:
            socket.inet_aton(self.host)
            is_port = 0 < int(self.port) < 1 << 16
        except (OSError, ValueError):
            is_port = False
        if not is_port or self.host.count(".") != 3:
            raise ValueError(
                f"xcp must be a port or an address such as 127.0.0.1:5555, not {self.text!r}"
            )

    @property
    def host(self) -> str:
        """Host name or IP address."""
        return self.text.rpartition(":")[0] or "127.0.0.1"

    @property
    def port(self) -> str:
        """Port number as a string."""
        return self.text.rpartition(":")[2]


def check_platforms(platforms: str | Iterable[str] | None) -> None:
    """Raise ValueError if a platform in `platforms` is not Linux, which XCP requires."""
    named = (platforms,) if isinstance(platforms, str) else tuple(platforms or ())
    if other := [name for name in named if not name.endswith("-linux")]:
        raise ValueError(f"XCP in an FMU supports only Linux, not {other[0]}")


def plan_header(variables: Variables, identifier: str, address: XcpAddress) -> str:
    """Return the text of xcp_plan.h with address, memory size and parameters of an XCP server."""
    plan = plan_text("RB_XCP_PLAN", identifier, variables.memory.size, _tunables(variables), 0.0)
    default = f"{{1, {address.port}, {c_string(address.host)}}}"
    return "\n".join(
        [
            "#ifndef RB_XCP_PLAN_H\n#define RB_XCP_PLAN_H\n",
            '#include "xcp_udp.h"\n',
            *plan,
            f"static const ServiceAddress RB_XCP_DEFAULT = {default};",
            "\n#endif\n",
        ]
    )


def _tunables(variables: Variables) -> list[Element]:
    return [_element(one) for one in variables.all if one.variability == "tunable"]


def _element(variable: Variable) -> Element:
    low = -inf if variable.min is None else variable.min
    high = inf if variable.max is None else variable.max
    return Element(variable.name, variable.index, variable.unit, low, high, variable.doc)


def xcp_content(
    variables: Variables, identifier: str, address: XcpAddress, folders: Iterable[str]
) -> dict[str, bytes]:
    """Return the files of FMI-LS-XCP: manifest, documentation, and an A2L file per platform.

    Args:
        variables: Variables of the block.
        identifier: Model identifier of the FMU.
        address: Default address of the XCP server.
        folders: Names of the binary folders of the platforms. The A2L files are identical.

    Returns:
        File content (bytes) by path in the FMU.
    """
    tunables = _tunables(variables)
    tuned = {one.name for one in tunables}
    signals = [_element(one) for one in variables.all[1:] if one.name not in tuned]
    text = a2l_text(identifier, signals, tunables, 0.0, f"{address.host}:{address.port}")
    described = {f"{FOLDER}/{one}/{identifier}.a2l": text.encode() for one in folders}
    return {
        f"{FOLDER}/fmi-ls-manifest.xml": _manifest().encode(),
        "documentation/fmi-ls-xcp.txt": _NOTE.encode(),
        **described,
    }


def _manifest() -> str:
    root = Node(
        "fmiLayeredStandardManifest",
        {
            f"{{{_NAMESPACE}}}fmi-ls-name": STANDARD,
            f"{{{_NAMESPACE}}}fmi-ls-version": "1.0.0",
            f"{{{_NAMESPACE}}}fmi-ls-description": _DESCRIPTION,
            "containsXcpService": "true",
            "supportsDirectMemoryAccessViaA2L": "false",
        },
    )
    return xml_text(root)


def describe_settings(parent: Node, first: int, address: XcpAddress, fmi: int) -> None:
    """Add the FMI variables of the XCP server to a model description.

    With these variables, an importing tool enables the XCP server and sets its address.

    Args:
        parent: Element ModelVariables.
        first: Value reference of the first variable.
        address: Default address of the XCP server.
        fmi: FMI version, 2 or 3.
    """
    kinds = (
        ("EnableXcpService", "Boolean", "true", "whether the XCP service of the FMU is started"),
        (
            "UdpListenPortNumber",
            "Integer" if fmi == 2 else "Int32",
            address.port,
            "UDP port on which the FMU receives XCP commands, -1 for none",
        ),
        (
            "UdpListenIpAddress",
            "String",
            address.host,
            "IP address on which the FMU receives XCP commands",
        ),
    )
    for k, (name, kind, start, doc) in enumerate(kinds):
        attributes = {
            "name": f"{_PREFIX}.{name}",
            "valueReference": str(first + k),
            "description": doc,
            "causality": "parameter",
            "variability": "fixed",
        }
        if fmi == 2:
            variable = SubElement(parent, "ScalarVariable", attributes | {"initial": "exact"})
            SubElement(variable, kind, start=start)
        elif kind == "String":
            SubElement(SubElement(parent, kind, attributes), "Start", value=start)
        else:
            SubElement(parent, kind, attributes, start=start)


_NOTE = """This FMU speaks XCP on UDP (ASAM MCD-1 XCP 1.1), as FMI-LS-XCP 1.0 describes.

In co-simulation the service runs from the setup of the experiment (FMI 2.0) or from initialization
mode (FMI 3.0) to termination, on the address in the variables org.fmi_standard.fmi_ls_xcp.*. The
A2L file under extra/org.fmi-standard.fmi-ls-xcp lists the variables and their addresses. The event
"step" follows each step, with the simulation time. Tunable parameters can be written; values that
are not finite or out of bounds are rejected. The service has no access control. By default it is
reachable from the local machine only.
"""
