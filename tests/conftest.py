import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from essential import mark_slow, without_a_test
from random_models import COORDINATES, MODELS
from rigidblocks.model.model import Model

# the same examples in every run or, in the long one, new ones, with a line that repeats a failure;
# none kept on disk; nothing depends on the time that it takes, because the machine may be busy
ALWAYS = {
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("seeded", derandomize=True, max_examples=50, **ALWAYS)
settings.register_profile("new", derandomize=False, max_examples=200, print_blob=True, **ALWAYS)
settings.load_profile("seeded")

TESTS = Path(__file__).parent
LEFT = Counter()  # the tests that a choice of marks leaves out, by the target that runs them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the generated C in tests/reference"
    )


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels go into the folder of this run, which its workers share, not into the user's
    cache; into $RIGIDBLOCKS_CACHE where it is given, for runs that follow each other.
    """
    folder = tmp_path_factory.getbasetemp()
    run = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        if "RIGIDBLOCKS_CACHE" not in os.environ:
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


# ---- what a run takes ----


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the laws in `essential`, all cases but the representative ones are slow."""
    placed = [(item.path.relative_to(TESTS).as_posix(), item) for item in items]
    for file, item in placed:
        mark_slow(item, file)
    whole_files = not any("::" in argument for argument in config.args)
    if whole_files and (missing := without_a_test(placed)):
        raise pytest.UsageError(f"tests/support/essential.py names what is not there: {missing}")


# ---- what a run has left out, said at its end ----


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        long = any(item.get_closest_marker(mark) for mark in ("slow", "interop"))
        LEFT["check" if long else "test"] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """Every worker of a distributed run has collected all tests and left out the same ones."""
    LEFT.update(getattr(node, "workeroutput", {}).get("left", {}) if not LEFT else {})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session):
    """Where all is installed, as in continuous integration, a skipped test is a failure."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = dict(LEFT)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if os.environ.get("CI") and skipped:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    result = yield
    if reporter:
        say_what_did_not_run(reporter, skipped, failed=session.exitstatus != pytest.ExitCode.OK)
    return result


def say_what_did_not_run(reporter, skipped, failed: bool) -> None:
    """The last lines: how many tests were skipped and why, and how many the other target runs."""
    for reason, count in Counter(report.longrepr[2] for report in skipped).items():
        must = " here, where every chosen test must run" if failed and os.environ.get("CI") else ""
        reporter.write_line(f"skipped {count}{must}: {reason.removeprefix('Skipped: ')}")
    for target, count in LEFT.items():
        reporter.write_line(f"left {count} tests to `make {target}`")
