"""`rigidblocks check` lists each name of published files that the reader does not read.

The test lists all elements with another XML parser (expat), with their paths and line numbers, and
applies the table of URDF to them. The files contain extensions for Gazebo, ROS 2 and MuJoCo.
"""

import re
from xml.parsers import expat

import pytest

from published import published
from rigidblocks.cli import main
from rigidblocks.robot_description.load import load_model
from rigidblocks.robot_description.schema_coverage import (
    URDF,
    ReadElement,
    ReportedElement,
)

ROBOTS = published(".urdf")
FILES = (
    "tiago_description/robots/tiago.urdf",
    "tiago_pro_description/robots/tiago_pro.urdf",
    "pr2_description/urdf/pr2.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "hyq_description/robots/hyq_no_sensors.urdf",
    "go1_description/urdf/go1.urdf",
    "icub_description/robots/icub.urdf",
    "alex_description/urdf/alex_nub_hands.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "ur_description/urdf/ur5_robot.urdf",
)
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not ROBOTS,
        reason="example-robot-data is not installed (`pip install example-robot-data`)",
    ),
]
UNKNOWN = ReportedElement("it is unknown")


def unread_names(data):
    """Return (name, line) of each unread name in a URDF, and the number of elements.

    The line is the last line of a start tag, as in libxml2. The list does not contain attributes
    with a namespace.
    """
    parser, stack, found, elements = expat.ParserCreate(), [], set(), 0

    def start(tag, attributes):
        nonlocal elements
        elements += 1
        begin = parser.CurrentByteIndex
        line = data.count(b"\n", 0, data.index(b">", begin)) + 1
        key = "robot" if not stack else None
        if stack and stack[-1][0] is not None:
            inside, owner = stack[-1]
            rule = URDF[inside].get(tag, UNKNOWN)
            if isinstance(rule, ReadElement) and (rule.inside or tag) in URDF:
                key = rule.inside or tag
            elif isinstance(rule, ReportedElement):
                owner.append((tag, line, rule, attributes.get("value", ""), []))
        if key is not None:
            for name, value in attributes.items():
                rule = URDF[key].get(f"@{name}", UNKNOWN)
                is_plain = ":" not in name and not name.startswith("xmlns")
                if is_plain and isinstance(rule, ReportedElement) and not rule.harmless(value):
                    found.add((name, line))
        stack.append((key, []))
        texts.append("")

    def text(part):
        if texts:
            texts[-1] += part

    def end(_):
        _, reported = stack.pop()
        inner = texts.pop().strip()
        for tag, line, rule, value, said in reported:
            if not rule.harmless((said[0] if said else "") or value.strip()):
                found.add((tag, line))
        if stack and stack[-1][1] and not stack[-1][1][-1][-1]:
            stack[-1][1][-1][-1].append(inner)

    texts = []
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.Parse(data, True)
    return found, elements


@pytest.mark.parametrize("name", FILES)
def test_check_lists_each_unread_name_of_published_files_with_its_line(name, capsys):
    path = ROBOTS[name]
    expected, elements = unread_names(path.read_bytes())
    assert elements > 100
    main(["check", str(path)])
    found = set()
    for line in capsys.readouterr().out.splitlines():
        said = re.match(
            rf"{re.escape(str(path))}:(\d+): (?:<(\S+)>|the attribute (\S+)) of <.*is not read: "
            r"[^()]*(?:\(also in line ([\d, ]+)\))?",
            line,
        )
        if said:
            lines = [said[1], *(said[4] or "").replace(",", " ").split()]
            found |= {(said[2] or said[3], int(number)) for number in lines}
    assert found == expected
    assert load_model(path, floating=True).model.nv > 0


def test_published_files_contain_extensions_that_are_not_read():
    counts = [len(unread_names(ROBOTS[name].read_bytes())[0]) for name in FILES]
    assert sum(count > 0 for count in counts) >= 8, counts
