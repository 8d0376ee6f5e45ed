import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from campaign import is_long, two_thirds
from essential import mark_slow, unused_entries
from random_models import COORDINATES, MODELS
from rigidblocks.robot.model import Model

# "seeded" uses the same examples in each run; "new", for the long run, prints how to repeat a
# failure; no examples are stored on disk, and no deadline applies because the machine may be busy
ALWAYS = {
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("seeded", derandomize=True, max_examples=50, **ALWAYS)
settings.register_profile("new", derandomize=False, max_examples=200, print_blob=True, **ALWAYS)
settings.load_profile("seeded")

TESTS = Path(__file__).parent
LEFT = Counter()  # number of deselected tests by the make target that runs them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the generated C in tests/reference"
    )
    parser.addoption(
        "--third-of-day",
        type=int,
        metavar="DAY",
        help="of each test with at least 3 long cases, run only the third of this day",
    )


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Store compiled kernels in the folder of this run, not in the user's cache.

    The workers of the run share the folder. $RIGIDBLOCKS_CACHE overrides it for runs that follow
    each other.
    """
    folder = tmp_path_factory.getbasetemp()
    run = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        if "RIGIDBLOCKS_CACHE" not in os.environ:
            patch.setenv("RIGIDBLOCKS_CACHE", str(run / "kernels"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """Handle SIGINT, which processes in the background of a shell ignore; some tests raise it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _import_path() -> Iterator[None]:
    """Restore `sys.path` after each test, because a Python FMU puts its resources first."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2008)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]()


@pytest.fixture(params=COORDINATES)
def coordinate_model(request: pytest.FixtureRequest) -> Model:
    """Return a model with qd = dq/dt."""
    return MODELS[request.param]()


# ---- selection of tests ----


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all cases of the laws in `essential` as slow, except the representative ones."""
    placed = [(item.path.relative_to(TESTS).as_posix(), item) for item in items]
    for file, item in placed:
        mark_slow(item, file)
    if (day := config.getoption("third_of_day")) is not None:
        other_days = two_thirds(items, day)
        items[:] = [item for item in items if item not in other_days]
        LEFT["campaign"] += len(other_days)
    whole_files = not any("::" in argument for argument in config.args)
    if whole_files and (missing := unused_entries(placed)):
        raise pytest.UsageError(f"tests/support/essential.py names what is not there: {missing}")


# ---- report of tests that did not run ----


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        LEFT["check" if is_long(item) else "test"] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """Take the counts of one worker; all workers collect and deselect the same tests."""
    LEFT.update(getattr(node, "workeroutput", {}).get("left", {}) if not LEFT else {})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session):
    """Fail on skipped tests in continuous integration, where everything is installed."""
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
    """Report the skipped tests with their reasons, and the tests left to the other target."""
    for reason, count in Counter(report.longrepr[2] for report in skipped).items():
        must = " here, where every chosen test must run" if failed and os.environ.get("CI") else ""
        reporter.write_line(f"skipped {count}{must}: {reason.removeprefix('Skipped: ')}")
    for target, count in LEFT.items():
        reporter.write_line(f"left {count} tests to `make {target}`")
