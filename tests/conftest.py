import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

from random_models import COORDINATES, MODELS
from rigidblocks.model import Model

# the same examples in every run, none kept on disk; no deadline, because the machine may be busy
settings.register_profile("seeded", derandomize=True, database=None, deadline=None, max_examples=50)
settings.load_profile("seeded")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the generated C in tests/reference")


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels go into the folder of this run, which its workers share, not into the user's cache."""
    folder = tmp_path_factory.getbasetemp()
    run = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIGIDBLOCKS_CACHE", str(run / "kernels"))
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2008)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]()


@pytest.fixture(params=COORDINATES)
def coordinate_model(request: pytest.FixtureRequest) -> Model:
    """A model with qd = dq/dt."""
    return MODELS[request.param]()


def pytest_sessionfinish(session):
    """Where all is installed, as in continuous integration, a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("tests were skipped that must run here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
