"""The reference run of an FMU told as the layered standard FMI-LS-REF wants it (1.0.0-alpha.1)."""

from xml.etree.ElementTree import Element, SubElement

from rigidblocks.fmi.reference import ReferenceRun
from rigidblocks.fmi.xml import xml_text

FOLDER = "extra/org.fmi-standard.fmi-ls-ref"
_NAMESPACE = "http://fmi-standard.org/fmi-ls-manifest"
_DOCUMENTATION = "../../documentation"  # from that folder


def related_content(run: ReferenceRun, identifier: str) -> dict[str, bytes]:
    """The files of the folder of FMI-LS-REF by their path: what is related, and the experiment."""
    return {
        f"{FOLDER}/fmi-ls-manifest.xml": _manifest().encode(),
        f"{FOLDER}/experiments.xml": _experiments(run, identifier).encode(),
    }


def _manifest() -> str:
    root = Element(
        "fmiReferences",
        {
            "xmlns:fmi-ls": _NAMESPACE,
            "fmi-ls:fmi-ls-name": "org.fmi-standard.fmi-ls-ref",
            "fmi-ls:fmi-ls-version": "1.0.0-alpha.1",
            "fmi-ls:fmi-ls-description": "Layered Standard providing information on related files "
            "included in an FMU.",
        },
    )
    related = (
        ("application/xml", "experiments.xml", "experiment/smoke-test", "a run to be reproduced"),
        ("text/html", f"{_DOCUMENTATION}/index.html", "document", "what the FMU is and does"),
    )
    for kind, source, role, description in related:
        SubElement(root, "Related", type=kind, source=source, role=role, description=description)
    return xml_text(root)


def _experiments(run: ReferenceRun, identifier: str) -> str:
    root = Element("Experiments")
    experiment = SubElement(
        root,
        "Experiment",
        name="reference",
        description="from the start values, the inputs held in each step",
        startTime="0",
        stopTime=f"{(len(run.rows) - 1) * run.dt:.9g}",
        stepSize=f"{run.dt:.9g}",
    )
    if run.input_columns:
        SubElement(experiment, "Stimuli", source=f"{_DOCUMENTATION}/{identifier}_in.csv")
    SubElement(experiment, "References", source=f"{_DOCUMENTATION}/{identifier}_ref.csv")
    return xml_text(root)
