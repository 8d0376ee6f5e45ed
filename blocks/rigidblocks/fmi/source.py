"""What a source-code FMU carries beside a native one: its C sources, and how they are to be
built.
"""

from collections.abc import Mapping
from importlib.resources import files
from xml.etree.ElementTree import Element, SubElement, fromstring, indent, tostring

LICENSE = "documentation/licenses/license.txt"


def source_content(
    sources: Mapping[str, str], main: str, identifier: str, fmi: int
) -> dict[str, bytes]:
    """The files of an FMU's sources folder by their path; `main` is the one to compile, and it
    includes the others.
    """
    content = {f"sources/{name}": text.encode() for name, text in sources.items()}
    if fmi == 3:
        content["sources/buildDescription.xml"] = build_description(main, identifier).encode()
    return content


def build_description(main: str, identifier: str) -> str:
    """The text of FMI 3.0's buildDescription.xml: one C99 file, and the C library's mathematics."""
    root = Element("fmiBuildDescription", fmiVersion="3.0")
    configuration = SubElement(root, "BuildConfiguration", modelIdentifier=identifier)
    file_set = SubElement(configuration, "SourceFileSet", language="C99")
    SubElement(file_set, "SourceFile", name=main)
    SubElement(configuration, "Library", name="m", external="true", description="needed on Linux")
    return _text(root)


def with_source_files(description: str, main: str) -> str:
    """An FMI 2.0 model description that names the file to compile for each kind of FMU that it
    describes.
    """
    root = fromstring(description)
    for kind in ("ModelExchange", "CoSimulation"):
        for element in root.findall(kind):
            SubElement(SubElement(element, "SourceFiles"), "File", name=main)
    return _text(root)


def license_text(headers: Mapping[str, str]) -> str:
    """The license of the C runtime, and that of the FMI headers in the words of one of them."""
    header = next(text for _, text in sorted(headers.items()))
    notice = header[header.index("Copyright") : header.index("*/", header.index("Copyright"))]
    names = ", ".join(sorted(headers))
    return (
        f"All but the headers of the FMI standard:\n\n{own_license()}\n\n{names}:\n\n"
        f"{notice.rstrip()}\n"
    )


def own_license() -> str:
    """The license of rigidblocks and of its C runtime."""
    return files("rigidblocks").joinpath("c/license.txt").read_text()


def _text(root: Element) -> str:
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"
