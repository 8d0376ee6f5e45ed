"""XCP in native FMUs, as the layered standard FMI-LS-XCP 1.0 asks: where it listens, its variables,
and the files that tools look for.
"""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from xml.etree.ElementTree import Element as Node
from xml.etree.ElementTree import SubElement, register_namespace

from rigidblocks.fmi.a2l import Element, a2l_text, plan_text
from rigidblocks.fmi.variables import Variable, Variables
from rigidblocks.fmi.xml import xml_text
from rigidblocks.tracing.ccode import c_string

STANDARD = "org.fmi-standard.fmi-ls-xcp"
FOLDER = f"extra/{STANDARD}"
FILES = tuple(
    f"runner/{name}.h" for name in ("address", "xcp", "xcp_daq", "xcp_service", "xcp_udp")
)
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
    """Where an FMU listens unless its host says something else, on this machine alone unless an
    address is given: "5555" or "127.0.0.1:5555".

    Raises ValueError for a text that is no address.
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
        """The address of the machine."""
        return self.text.rpartition(":")[0] or "127.0.0.1"

    @property
    def port(self) -> str:
        """The port there."""
        return self.text.rpartition(":")[2]


def check_platforms(platforms: str | Iterable[str] | None) -> None:
    """Raises ValueError where a binary for another system than Linux is asked for."""
    named = (platforms,) if isinstance(platforms, str) else tuple(platforms or ())
    if other := [name for name in named if not name.endswith("-linux")]:
        raise ValueError(f"XCP in an FMU is for Linux, not for {other[0]}")


def plan_header(variables: Variables, identifier: str, address: XcpAddress) -> str:
    """xcp_plan.h: what an FMU tells tools that connect to it, and where."""
    plan = plan_text("RB_XCP_PLAN", identifier, variables.memory.size, _tunables(variables), 0.0)
    default = f"{{1, {address.port}, {c_string(address.host)}}}"
    return "\n".join(
        [
            "#ifndef RB_XCP_PLAN_H\n#define RB_XCP_PLAN_H\n",
            '#include "xcp_service.h"\n',
            *plan,
            f"static const ServiceAddress RB_XCP_DEFAULT = {default};",
            "\n#endif\n",
        ]
    )


def _tunables(variables: Variables) -> list[Element]:
    return [_element(one) for one in variables.all if one.variability == "tunable"]


def _element(one: Variable) -> Element:
    low, high = (-inf if one.min is None else one.min), (inf if one.max is None else one.max)
    return Element(one.name, one.index, one.unit, low, high, one.doc)


def xcp_content(
    variables: Variables, identifier: str, address: XcpAddress, folders: Iterable[str]
) -> dict[str, bytes]:
    """The files of the layered standard: its manifest, what it is for, and the description of the
    variables for the binaries in each of `folders`, which does not depend on them.
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
    """Adds the variables by which a host says whether and where XCP listens; the first has the
    value reference `first`.
    """
    kinds = (
        ("EnableXcpService", "Boolean", "true", "whether the XCP service of the FMU is started"),
        (
            "UdpListenPortNumber",
            "Integer" if fmi == 2 else "Int32",
            address.port,
            "UDP port where the FMU listens for commands of XCP, -1 for none",
        ),
        ("UdpListenIpAddress", "String", address.host, "IP address where it listens for them"),
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

In a co-simulation it listens from the setup of the experiment (FMI 2.0) or the entry of
initialization mode (FMI 3.0) on until it is terminated, where its three variables
org.fmi_standard.fmi_ls_xcp.* say. The A2L file under extra/org.fmi-standard.fmi-ls-xcp has its
variables, at addresses that the service resolves. After each step the event "step" comes, with the
time of the simulation. Tunable parameters can be written; what is not finite or out of bounds is
refused. Nothing but the network protects it: it listens on the machine that runs it unless told
otherwise.
"""
