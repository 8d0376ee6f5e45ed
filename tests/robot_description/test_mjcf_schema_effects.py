"""MJCF names that the table marks as read change the robot.

The files of tests/reference/mjcf_schema contain the supported elements. A variant of a file lacks
one element or attribute, or has another value. The robot of at least one variant differs, or MuJoCo
rejects an unknown name.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
from lxml import etree

from rigidblocks.common.format_error import FormatError
from rigidblocks.robot_description import mjcf
from rigidblocks.robot_description.external_parsers import _compile_mjcf
from rigidblocks.robot_description.load import load_model
from rigidblocks.robot_description.schema_coverage import MJCF
from schema_walk import content, read_places, variants

pytest.importorskip("mujoco", reason="MuJoCo is not installed (`pip install mujoco`)")
pytestmark = [pytest.mark.interop, pytest.mark.slow]
FOLDER = Path(__file__).parents[1] / "reference/mjcf_schema"
FLAGS = ("constraint", "equality", "frictionloss", "limit", "spring", "damper", "clampctrl")
FLAGS += ("actuation", "gravity")
VALUES = {  # valid values of words, integers and references; the default is `schema_walk.changed`
    ("joint", "@type"): ("slide", "ball"),
    ("joint", "@name"): ("other",),
    ("option", "@timestep"): ("0.008",),
    ("geom", "@contype"): ("1",),
    ("geom", "@rgba"): ("0 0 0 0",),
    ("inertial", "@fullinertia"): ("0.5 0.6 0.7 0.01 0.02 0.03",),
    ("replicate", "@count"): ("3",),
    ("motor", "@jointinparent"): ("j",),
    ("one sensor", "@interval"): ("0.002",),
    ("one sensor", "@delay"): ("0.008",),
    ("one sensor", "@nsample"): ("0",),
    ("one sensor", "@data"): ("dist dir",),
    ("one sensor", "@site"): ("t", "s"),
    ("one sensor", "@joint"): ("k", "j"),
    ("one sensor", "@objtype"): ("xbody", "body"),
    ("one sensor", "@objname"): ("a", "s", "t"),
    ("one sensor", "@reftype"): ("xbody",),
    ("one sensor", "@refname"): ("a",),
    ("one sensor", "@body"): ("b",),
}
LABELS = {("default", "@class")}  # MuJoCo rejects a reference to a missing class
LABELS |= {("one sensor", "@nsample")}  # MuJoCo requires a buffer for a delay
WARNINGS = {("body", "@mocap"), ("flag", "@contact")}  # the reader reports these values


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return a function that returns the robot in an MJCF text, or None if it is rejected.

    The compiler runs in this process, which is faster than a process for each text.
    """

    def compiled(path):
        found = _compile_mjcf(str(path))
        if isinstance(found, str):
            raise ValueError(found)
        return SimpleNamespace(**found | {"opt": SimpleNamespace(**found["opt"])})

    monkeypatch.setattr(mjcf, "compiled_model", compiled)

    def read_text(text):
        path = tmp_path / "robot.xml"
        path.write_text(text)
        try:
            return content(load_model(path))
        except FormatError:
            return None

    return read_text


def is_word(text):
    """Return True for a name or a keyword, False for numbers and truth values."""
    return not any(character.isdigit() for character in text) and text not in ("true", "false")


def files():
    """Return the MJCF texts by name, and a file for each flag of <option>."""
    texts = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.xml"))}
    whole = etree.fromstring(texts["joint_and_connect"])
    actuators = etree.fromstring(texts["actuators"]).find("actuator")
    whole.append(actuators)
    option = whole.find("option")
    for name in FLAGS:
        option[:] = [etree.Element("flag", {name: "disable"})]
        texts[name] = etree.tostring(whole).decode()
    return texts


def test_read_mjcf_names_change_the_robot(read):
    effects = {}
    for file_name, text in files().items():
        base = read(text)
        assert base is not None, file_name
        root = etree.fromstring(text)
        for key, name, element in read_places(root, MJCF, "mujoco"):
            if effects.get((key, name)) or (key, name) in LABELS | WARNINGS:
                continue
            # MuJoCo rejects a missing element, and a missing or unknown name of an element
            is_needed = not name.startswith("@") or is_word(element.get(name[1:]))
            robots = (
                read(variant)
                for _, variant in variants(root, name, element, VALUES.get((key, name), ()))
            )
            effects[key, name] = any(
                is_needed if robot is None else robot != base for robot in robots
            )
    assert not sorted(name for name, effective in effects.items() if not effective)
    assert len(effects) > 215, len(effects)
