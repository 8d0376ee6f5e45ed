"""What is no robot is refused in one line that names the file and the line of the mistake."""

import re
import zipfile

import numpy as np
import pytest

from broken_urdf import BOMB, BROKEN
from mutated_text import JUNK, mutated_pieces
from rigidblocks.formats.load import load_model
from rigidblocks.formats.refusal import FormatError
from urdf_text import ARM, line_of


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_urdf_is_refused_with_its_line(tmp_path, kind):
    text, part, said = BROKEN[kind]
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    with pytest.raises(FormatError, match=re.escape(said)) as refusal:
        load_model(path)
    assert str(refusal.value).startswith(f"{path}:{line_of(text, part)}: ")
    assert "\n" not in str(refusal.value)


def test_entities_in_utf_16_are_refused_too(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(BOMB, encoding="utf-16")
    with pytest.raises(FormatError, match="declares entities"):
        load_model(path)


def test_what_is_no_file_of_a_robot_is_refused(tmp_path):
    fmu, large = tmp_path / "robot.fmu", tmp_path / "large.urdf"
    with zipfile.ZipFile(fmu, "w") as archive:
        archive.writestr("modelDescription.xml", "<fmiModelDescription/>")
    with large.open("wb") as file:
        file.truncate(100 * 2**20)
    (tmp_path / "empty.urdf").touch()
    for name, said in {
        "": "this is a folder; a robot is a file",
        "no.urdf": "the file cannot be read: no such file or directory",
        "a\0b.urdf": "the file cannot be read: embedded null",
        "robot.fmu": "this is an archive, such as an FMU",
        "large.urdf": "the file has more than 32 MB",
        "empty.urdf": "the file is empty",
    }.items():
        with pytest.raises(FormatError, match=said) as refusal:
            load_model(tmp_path / name)
        assert str(refusal.value).startswith(f"{tmp_path / name}: ")


def mutated(rng):
    """The arm with a few of its pieces left out, doubled, exchanged or replaced."""
    pieces = re.findall(r"<[^>]*>|\"[^\"]*\"|\s+|[^<\"\s]+", ARM)
    return mutated_pieces(pieces, JUNK, rng)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 6))]
)
def test_mutated_urdfs_are_read_or_refused_in_one_line(tmp_path, seed):
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
    """The robot and None, or None and the refusal."""
    try:
        return load_model(path), None
    except FormatError as refusal:
        return None, refusal
