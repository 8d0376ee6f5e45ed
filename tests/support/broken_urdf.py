"""Invalid URDF texts with the line and the reason of the error."""

import re

from urdf_text import ARM


def changed(old, new):
    assert ARM.count(old) >= 1
    return ARM.replace(old, new, 1)


BOMB = '<!DOCTYPE robot [\n <!ENTITY a "aaaa">\n <!ENTITY b "&a;&a;">\n]>\n<robot name="&b;"/>'
EXTERNAL = '<!DOCTYPE robot [\n <!ENTITY a SYSTEM "file:///etc/hostname">\n]>\n<robot>&a;</robot>'
SECOND = ARM.replace("</robot>", '<joint name="elbow" type="fixed"/></robot>')
CYCLE = changed('<parent link="base"/>', '<parent link="tool"/>')
TWICE = ARM.replace(
    "</robot>",
    '<joint name="x" type="fixed">\n<parent link="base"/><child link="tool"/></joint></robot>',
)

# text, the part of it in the line of the error, and the error message
BROKEN = {
    "loop": (CYCLE, '<joint name="shoulder"', "'shoulder', 'elbow', 'flange' form a cycle"),
    "two parents": (TWICE, '<joint name="x"', "link 'tool' is the child of two joints"),
    "two roots": (
        ARM.replace("</robot>", '<link name="other"/></robot>'),
        '<link name="other"',
        "link 'other' has no parent joint, and neither has 'base'",
    ),
    "duplicate joint": (
        ARM.replace("flange", "elbow"),
        '<joint name="elbow" type="fixed"',
        "the joint name 'elbow' is not unique; the first is in line",
    ),
    "duplicate link": (
        ARM.replace('link name="tool"', 'link name="lower"'),
        '<link name="lower">\n    <inertial>\n      <mass',
        "the link name 'lower' is not unique",
    ),
    "missing parent": (
        changed('<parent link="upper"/>', '<parent link="uper"/>'),
        '<joint name="elbow"',
        "parent 'uper' of joint 'elbow' is not a link; did you mean 'upper'?",
    ),
    "no parent": (
        changed('<parent link="upper"/>', ""),
        '<joint name="elbow"',
        "<joint> needs a <parent>",
    ),
    "mass of NaN": (
        changed('<mass value="2"/>', '<mass value="nan"/>'),
        '<mass value="nan"',
        "value of <mass> must be a finite number, not 'nan'",
    ),
    "mass in words": (
        changed('<mass value="2"/>', '<mass value="2 kg"/>'),
        '<mass value="2 kg"',
        "value of <mass> must be a finite number; 'kg' is not a number in '2 kg'",
    ),
    "zero axis": (
        changed('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>'),
        '<axis xyz="0 0 0"',
        "the axis of joint 'shoulder' is zero",
    ),
    "axis of two": (
        changed('<axis xyz="0 1 0"/>', '<axis xyz="0 1"/>'),
        '<axis xyz="0 1"/>',
        "xyz of <axis> must be 3 finite numbers, not '0 1'",
    ),
    "negative inertia": (
        changed('ixx="0.02"', 'ixx="-0.02"'),
        '<mass value="2"',
        "the moments of inertia of link 'upper' are [-0.02, 0.03, 0.04] kg m^2",
    ),
    "negative mass": (
        changed('<mass value="2"/>', '<mass value="-2"/>'),
        '<mass value="-2"',
        "the mass of link 'upper' is -2.0 kg; it must not be negative",
    ),
    "entity bomb": (BOMB, "<!ENTITY a", "declares entities, which are not read"),
    "external entity": (EXTERNAL, "<!ENTITY a", "declares entities, which are not read"),
    "truncated": (
        ARM[: ARM.index("<axis")].rstrip(),
        '<origin xyz="0 0 1"',
        "this is not well-formed XML",
    ),
    "malformed": (
        changed("</link>", "</lnk>"),
        "</lnk>",
        "not well-formed XML: Opening and ending",
    ),
    "unknown joint": (
        changed('type="prismatic"', 'type="screw"'),
        '<joint name="elbow"',
        "joint 'elbow' has the type 'screw'; it must be one of revolute, continuous",
    ),
    "nameless link": (changed('<link name="base"/>', "<link/>"), "<link/>", "needs the attribute"),
    "massless end": (
        re.sub(r"(?s)<inertial>\s*<(origin xyz=\"0 0.1|mass value=\"0.5).*?</inertial>", "", ARM),
        '<joint name="elbow"',
        "joint elbow of model 'arm' moves no mass",
    ),
    "mesh out of its package": (
        changed('<sphere radius="0.05"/>', '<mesh filename="package://a/b/../../c.stl"/>'),
        "<mesh",
        "the mesh 'package://a/b/../../c.stl' is outside of the package",
    ),
    "negative size": (
        changed('<sphere radius="0.05"/>', '<sphere radius="-0.05"/>'),
        "<sphere",
        "a <sphere> has the negative size -0.05 m",
    ),
    "negative damping": (
        changed('damping="0.5"', 'damping="-0.5"'),
        "<dynamics",
        "damping of joint 'shoulder' is -0.5; it must not be negative",
    ),
    "another root": ("<html>\n</html>", "<html>", "<html> is not a robot"),
    "a joint that mimics itself": (
        changed(
            '<axis xyz="1 1 0"/>',
            '<axis xyz="1 1 0"/><mimic joint="shoulder"/>',
        ).replace('<axis xyz="0 1 0"/>', '<axis xyz="0 1 0"/><mimic joint="elbow"/>'),
        '<mimic joint="elbow"/>',
        "joint 'shoulder' mimics itself",
    ),
}
