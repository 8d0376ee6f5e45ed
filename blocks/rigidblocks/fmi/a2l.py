"""What calibration tools read of a program or an FMU that speaks XCP: its signals and parameters,
as A2L; and what its C knows of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rigidblocks.block.port import Port
from rigidblocks.tracing.ccode import c_number, c_string

BASE = 0x1000  # where the memory begins, as xcp.h has it
LARGEST = 1.7976931348623157e308
_UNITS = ("1NS", "10NS", "100NS", "1US", "10US", "100US", "1MS", "10MS", "100MS", "1S")


class Element(NamedTuple):
    """A number in the memory: its name, place, unit and bounds, and what its port is."""

    name: str
    place: int
    unit: str
    low: float
    high: float
    doc: str


def elements_of(ports: Iterable[Port], where: Mapping[str, slice]) -> Iterator[Element]:
    """The elements of ports, which are somewhere in a memory."""
    for port in ports:
        first, doc = where[port.name].start, port.doc
        rows = zip(port.element_names, port.units, port.lowest.flat, port.max.flat, strict=True)
        for k, (name, unit, low, high) in enumerate(rows):
            yield Element(name, first + k, unit, float(low), float(high), doc)


def period(dt: float) -> tuple[int, int]:
    """The period of an event as XCP has it: n units of 10^(unit - 9) s; 0 units where dt [s] is
    none.
    """
    for unit in reversed(range(len(_UNITS))):
        n = dt * 10 ** (9 - unit)
        if 1 <= round(n) <= 255 and abs(n - round(n)) < 1e-6:
            return round(n), unit
    return 0, 0


def plan_text(
    symbol: str, name: str, size: int, tunables: list[Element], dt: float
) -> tuple[str, ...]:
    """The lines of C that say what can be tuned, and of a program of that name whose memory has
    `size` numbers.
    """
    cycle, unit = period(dt)
    rows = "".join(
        f"    {{{one.place}, {_bound(one.low)}, {_bound(one.high)}}}, /* {one.name} */\n"
        for one in tunables
    )
    plan = f'{{{c_string(name)}, "step", {cycle}, {unit}, {size}, {len(tunables)}, TUNABLES}}'
    return (
        f"static const Tunable TUNABLES[] = {{\n{rows}    {{0, 0.0, 0.0}}}};",
        f"static const XcpPlan {symbol} = {plan};",
    )


def _bound(value: float) -> str:
    return c_number(max(min(value, LARGEST), -LARGEST))


def a2l_text(
    name: str, signals: list[Element], tunables: list[Element], dt: float, address: str
) -> str:
    """The A2L file (ASAM MCD-2 MC 1.6) of what steps by `dt` [s], the event 0; by 0 s where
    that is not known.
    """
    units = {one.unit: f"unit_{k}" for k, one in enumerate(_first_of_units(signals + tunables))}
    methods = (
        f'/begin COMPU_METHOD {key} {_text(unit)} IDENTICAL "%16.9" {_text(unit)} /end COMPU_METHOD'
        for unit, key in units.items()
    )
    measurements = (
        f"/begin MEASUREMENT {_identifier(one.name)} {_text(one.doc)} FLOAT64_IEEE "
        f"{units[one.unit]} 0 0 {_bounds(one)} ECU_ADDRESS {_address(one)} /end MEASUREMENT"
        for one in signals
    )
    characteristics = (
        f"/begin CHARACTERISTIC {_identifier(one.name)} {_text(one.doc)} VALUE {_address(one)} "
        f"double 0 {units[one.unit]} {_bounds(one)} /end CHARACTERISTIC"
        for one in tunables
    )
    module = re.sub(r"\W", "_", name)
    lines = [*methods, *measurements, *characteristics]
    return _FILE.format(
        name=module if re.match(r"[A-Za-z_]", module) else f"_{module}",
        title=_text(name),
        interface=_interface(dt, address),
        lines="\n    ".join(lines),
    )


def _first_of_units(elements: list[Element]) -> Iterable[Element]:
    return {one.unit: one for one in reversed(elements)}.values()


def _identifier(name: str) -> str:
    """A name in which indices stand apart: H[1][2] for H[1,2]."""
    return re.sub(r"[^\w.\[\]]", "_", name.replace(",", "]["))


def _text(text: str) -> str:
    return '"' + " ".join(text.replace('"', "'").replace("\\", "/").split()) + '"'


def _bounds(one: Element) -> str:
    return f"{max(one.low, -LARGEST):.17g} {min(one.high, LARGEST):.17g}"


def _address(one: Element) -> str:
    return f"0x{BASE + 8 * one.place:X}"


def _interface(dt: float, address: str) -> str:
    """What a tool needs to connect: limits of the protocol, the event, and the address."""
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

# the part of the standard's description of IF_DATA XCP that is used above
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
