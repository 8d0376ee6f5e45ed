import pytest

from fmu_instance import Archive


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """The FMUs of BLOCKS, each built once for all tests of a process."""
    return Archive(tmp_path_factory.mktemp("fmus"))
