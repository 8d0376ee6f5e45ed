"""Errors of invalid robot files consist of one line with the file and the line number."""

import re
import zipfile

import numpy as np
import pytest

from broken_urdf import BOMB, BROKEN
from mutated_text import JUNK, mutated_pieces
from rigidblocks.common.format_error import FormatError
from rigidblocks.robot_description.load import load_model
from urdf_text import ARM, line_of


@pytest.mark.parametrize("kind", BROKEN)
def test_invalid_urdf_is_rejected_with_its_line_number(tmp_path, kind):
    text, part, said = BROKEN[kind]
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(FormatError, match=re.escape(said)) as refusal:
        load_model(path)
    assert str(refusal.value).startswith(f"{path}:{line_of(text, part)}: ")
    assert "\n" not in str(refusal.value)


def test_robot_file_with_xml_entities_in_utf_16_is_rejected(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(BOMB, encoding="utf-16")
    with pytest.raises(FormatError, match="declares entities"):
        load_model(path)


def test_file_that_is_not_a_robot_description_is_rejected(tmp_path):
    fmu, large = tmp_path / "robot.fmu", tmp_path / "large.urdf"
    with zipfile.ZipFile(fmu, "w") as archive:
        archive.writestr("modelDescription.xml", "<fmiModelDescription/>")
    with large.open("wb") as file:
        file.truncate(100 * 2**20)
    (tmp_path / "empty.urdf").touch()
    for name, said in {
        "": "this is a folder; expected a robot file",
        "no.urdf": "the file cannot be read: no such file or directory",
        "a\0b.urdf": "the file cannot be read: embedded null",
        "robot.fmu": "this is an archive, such as an FMU",
        "large.urdf": "the file is larger than the limit of 32 MB",
        "empty.urdf": "the file is empty",
    }.items():
        with pytest.raises(FormatError, match=said) as refusal:
            load_model(tmp_path / name)
        assert str(refusal.value).startswith(f"{tmp_path / name}: ")


def mutated(rng):
    """Return the URDF of the arm with random pieces removed, duplicated, exchanged or replaced."""
    pieces = re.findall(r"<[^>]*>|\"[^\"]*\"|\s+|[^<\"\s]+", ARM)
    return mutated_pieces(pieces, JUNK, rng)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 6))]
)
def test_mutated_urdf_file_is_read_or_rejected_with_a_one_line_error(tmp_path, seed):
    path, rng, read = tmp_path / "robot.urdf", np.random.default_rng(seed), 0
    for _ in range(100):
        path.write_text(mutated(rng), encoding="utf-8")
        robot, refusal = attempted(path)
        if robot is None:
            assert str(refusal).startswith(str(path))
            assert "\n" not in str(refusal)
        else:
            read += 1
            assert np.all(np.isfinite([body.m for body in robot.model.inertia]))
    assert 0 < read < 100


def attempted(path):
    """Return the robot and None, or None and the error."""
    try:
        return load_model(path), None
    except FormatError as refusal:
        return None, refusal
