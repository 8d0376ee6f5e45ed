"""Records pass values to block functions and report unknown names."""

import copy
import re

import numpy as np
import pytest

from rigidblocks.block.block import Port, Record, record

STATES = (Port("q", (2,)), Port("qd", (2,)), Port("energy"))


@pytest.fixture
def x():
    return record(STATES, np.arange(5.0), "state", "block 'Arm'")


def test_record_has_an_attribute_for_each_port(x):
    assert x.q.tolist() == [0.0, 1.0]
    assert x.qd.tolist() == [2.0, 3.0]
    assert x.energy == 4.0
    assert list(vars(x)) == ["q", "qd", "energy"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("qq", "block 'Arm': no state 'qq'; available: q, qd, energy (did you mean q?)"),
        (
            "energie",
            "block 'Arm': no state 'energie'; available: q, qd, energy (did you mean energy?)",
        ),
        ("tau", "block 'Arm': no state 'tau'; available: q, qd, energy"),
    ],
)
def test_error_for_an_unknown_port_of_a_record_lists_the_known_ports(x, name, message):
    with pytest.raises(AttributeError) as error:
        getattr(x, name)
    assert str(error.value) == message


def test_error_for_a_port_of_an_empty_record_says_that_the_record_is_empty():
    with pytest.raises(AttributeError) as error:
        _ = Record({}, "input", "block 'Arm'").tau
    assert str(error.value) == "block 'Arm': no input 'tau'; available: none"


def test_record_of_port_values_is_read_only(x):
    message = "block 'Arm': the state 'q' cannot be set to 1.0 here; return the new values"
    with pytest.raises(AttributeError, match=re.escape(message)):
        x.q = 1.0
    with pytest.raises(ValueError, match="read-only"):
        x.q[0] = 1.0


def test_record_of_port_values_is_a_view_of_the_block_memory():
    m = np.arange(5.0)
    x = record(STATES, m)
    m[0] = 7.0
    assert x.q[0] == 7.0


def test_repr_of_a_record_contains_its_port_values():
    assert repr(Record({"a": 1.0, "b": 2.0})) == "Record(a=1.0, b=2.0)"


def test_record_of_port_values_can_be_copied(x):
    assert copy.copy(vars(x)).keys() == {"q", "qd", "energy"}
