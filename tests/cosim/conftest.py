"""Fixtures for recorded runs."""

import pytest

from rigidblocks.cosim.results import recording


@pytest.fixture
def small_chunks(monkeypatch):
    """Limit the chunks of a record to 16 rows."""
    monkeypatch.setattr(recording, "_CHUNK", 1)
