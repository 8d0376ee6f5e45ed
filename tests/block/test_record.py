"""Records: what a block's functions read, and what they say of a name that there is not."""

import copy
import re

import numpy as np
import pytest

from rigidblocks.block.block import Port, Record, record

STATES = (Port("q", (2,)), Port("qd", (2,)), Port("energy"))


@pytest.fixture
def x():
    return record(STATES, np.arange(5.0), "state", "block 'Arm'")


def test_record_has_an_attribute_of_its_shape_for_each_port(x):
    assert x.q.tolist() == [0.0, 1.0]
    assert x.qd.tolist() == [2.0, 3.0]
    assert x.energy == 4.0
    assert list(vars(x)) == ["q", "qd", "energy"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qq", "block 'Arm': no state 'qq'; there are: q, qd, energy (did you mean q?)"),
        (
            "energie",
            "block 'Arm': no state 'energie'; there are: q, qd, energy (did you mean energy?)",
        ),
        ("tau", "block 'Arm': no state 'tau'; there are: q, qd, energy"),
    ],
)
def test_wrong_name_is_answered_with_those_that_there_are(x, name, message):
    with pytest.raises(AttributeError) as error:
        getattr(x, name)
    assert str(error.value) == message


def test_empty_record_says_that_there_are_none():
    with pytest.raises(AttributeError) as error:
        _ = Record({}, "input", "block 'Arm'").tau
    assert str(error.value) == "block 'Arm': no input 'tau'; there are: none"


def test_record_cannot_be_written(x):
    message = "block 'Arm': the state 'q' cannot be set to 1.0 here; a function returns new values"
    with pytest.raises(AttributeError, match=re.escape(message)):
        x.q = 1.0
    with pytest.raises(ValueError, match="read-only"):
        x.q[0] = 1.0


def test_memory_of_a_record_can_still_be_written():
    m = np.arange(5.0)
    x = record(STATES, m)
    m[0] = 7.0
    assert x.q[0] == 7.0


def test_record_shows_its_values():
    assert repr(Record({"a": 1.0, "b": 2.0})) == "Record(a=1.0, b=2.0)"


def test_values_of_a_record_can_be_copied(x):
    assert copy.copy(vars(x)).keys() == {"q", "qd", "energy"}
