import pytest

from fmu_instance import Archive


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """Return the FMUs of BLOCKS, each built once per process."""
    return Archive(tmp_path_factory.mktemp("fmus"))
