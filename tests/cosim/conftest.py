"""Fixtures of runs that are recorded."""

import pytest

from rigidblocks.simulation import recording


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 16 rows."""
    monkeypatch.setattr(recording, "_CHUNK", 1)
