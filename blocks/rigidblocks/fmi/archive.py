"""Reproducible zip archives, and the source files, licenses and digests of FMUs."""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, fromstring, indent, tostring

from rigidblocks.common.package_info import FOLDER

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # earliest time that a zip archive supports


def write_archive(path: str | Path, content: Mapping[str, bytes], *, deflate: bool = False) -> Path:
    """Write a zip archive whose bytes depend only on the archived files.

    The files in the archive are sorted by name and have no time stamps. The archive replaces an
    existing file atomically. If `deflate` is True, the bytes also depend on the version of zlib.

    Args:
        path: Path of the archive.
        content: File content (bytes) by path in the archive.
        deflate: True to compress the content.

    Returns:
        Path of the archive.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError as error:
        why = f"cannot create a file in the folder '{path.parent}'"
        raise type(error)(f"cannot write '{path}': {why}: {error.strerror}") from None
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w") as archive,
        ):
            for name in sorted(content):
                entry = zipfile.ZipInfo(name, _EARLIEST)
                entry.create_system = 3  # Unix, so that the bytes are the same on every machine
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
                archive.writestr(entry, content[name])
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def package_sources(folder: str | Path) -> dict[str, bytes]:
    """Return the contents (bytes) of all files of a package except compiled files, by path."""
    files = (
        path
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def digest(content: Mapping[str, bytes]) -> str:
    """Return a digest of files as 16 hexadecimal digits; `content` maps paths to file contents."""
    sha = hashlib.sha256()
    for name, data in sorted(content.items()):
        sha.update(f"{name}\0{len(data)}\0".encode() + data)
    return sha.hexdigest()[:16]


def sources_digest(folder: str | Path = FOLDER) -> str:
    """Return the digest of all files of a package, by default of rigidblocks."""
    return digest(package_sources(folder))


LICENSE = "documentation/licenses/license.txt"


def source_content(
    sources: Mapping[str, str], main: str, identifier: str, fmi: int
) -> dict[str, bytes]:
    """Return the contents of the files in the folder `sources` of an FMU.

    Args:
        sources: C source texts by file name.
        main: Name of the only file that an importer compiles. This file includes the other files.
        identifier: Model identifier.
        fmi: FMI version, 2 or 3.

    Returns:
        File content (bytes) by path in the FMU.
    """
    content = {f"sources/{name}": text.encode() for name, text in sources.items()}
    if fmi == 3:
        content["sources/buildDescription.xml"] = build_description(main, identifier).encode()
    return content


def build_description(main: str, identifier: str) -> str:
    """Return the text of buildDescription.xml (FMI 3.0) for one C99 source file.

    The build description links the math library.
    """
    root = Element("fmiBuildDescription", fmiVersion="3.0")
    configuration = SubElement(root, "BuildConfiguration", modelIdentifier=identifier)
    file_set = SubElement(configuration, "SourceFileSet", language="C99")
    SubElement(file_set, "SourceFile", name=main)
    SubElement(configuration, "Library", name="m", external="true", description="needed on Linux")
    return _text(root)


def add_source_files(description: str, main: str) -> str:
    """Add the source file `main` to an FMI 2.0 model description.

    The elements ModelExchange and CoSimulation receive the file.
    """
    root = fromstring(description)
    for kind in ("ModelExchange", "CoSimulation"):
        for element in root.findall(kind):
            SubElement(SubElement(element, "SourceFiles"), "File", name=main)
    return _text(root)


def license_text(headers: Mapping[str, str]) -> str:
    """Return the licenses of the C code in an FMU; `headers` maps FMI header names to texts."""
    header = next(text for _, text in sorted(headers.items()))
    notice = header[header.index("Copyright") : header.index("*/", header.index("Copyright"))]
    names = ", ".join(sorted(headers))
    return (
        f"All but the headers of the FMI standard:\n\n{own_license()}\n\n{names}:\n\n"
        f"{notice.rstrip()}\n"
    )


def own_license() -> str:
    """Return the license of rigidblocks, which also applies to its C code."""
    return files("rigidblocks").joinpath("c/license.txt").read_text()


def _text(root: Element) -> str:
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"
